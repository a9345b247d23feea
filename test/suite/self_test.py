#!/usr/bin/python3
"""Tests of script/test itself: that the scheduler, the counts and the list of slow tests can fail.

Prints `ok NAME` or `FAILED NAME: why` for each test; exits 1 if any failed.
"""

import json
import sys
import tempfile
import threading
import time
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parent.parent))
sys.dont_write_bytecode = True

from suite import parts, results, schedule  # noqa: E402
from suite.results import FAILED, PASSED, SKIPPED, Test  # noqa: E402
from suite.schedule import COMPUTE, SERVE, Job, Part  # noqa: E402

SCRATCH = tempfile.TemporaryDirectory(prefix="sluice-suite-")


class Run:
    """A scheduler over parts made by hand; what it reported, and when each job ran."""

    def __init__(self, *made, cores=2, record=None, logs=None):
        self.logs = Path(logs or tempfile.mkdtemp(dir=SCRATCH.name))
        self.lines = []
        record = record or results.Record(self.logs / "times.json", self.logs / "kept.json")
        self.scheduler = schedule.Scheduler(self.logs, self.logs, record,
                                            lambda *told: self.lines.append(told))
        self.scheduler.cores = cores
        self.results = {result.name: result for result in self.scheduler.run(list(made))}


def part(name, *jobs, needs=()):
    return Part(name, lambda: list(jobs), needs)


def passes(work):
    return [Test(work.job.name)]


def fails(work):
    return [Test(work.job.name, FAILED)]


def a_failed_test_is_counted():
    run = Run(part("a", Job("good", passes), Job("bad", fails)), part("b", Job("good", passes)))
    assert str(run.results["a"].counts) == "1 passed, 1 failed", run.results["a"].counts
    assert str(run.results["b"].counts) == "1 passed, 0 failed", run.results["b"].counts
    assert run.results["a"].failed_jobs == ["bad"]
    assert {line[0].name for line in run.lines} == {"a", "b"}


def a_job_that_raises_is_a_failure():
    def breaks(work):
        raise RuntimeError("no such thing")

    run = Run(part("a", Job("breaks", breaks), Job("good", passes)))
    assert str(run.results["a"].counts) == "1 passed, 1 failed", run.results["a"].counts


def a_command_that_fails_is_a_failure():
    run = Run(part("a", Job("false", lambda work: [work.test("false", "false")]),
                   Job("true", lambda work: [work.test("true", "true")])))
    assert str(run.results["a"].counts) == "1 passed, 1 failed", run.results["a"].counts


def a_command_that_hangs_is_killed_with_its_children():
    job = Job("sleep", lambda work: [work.test("sleep", "sh", "-c", "sleep 600 & sleep 600")],
              timeout_s=0.2)
    run = Run(part("a", job))
    assert run.results["a"].counts.failed == 1
    assert run.results["a"].wall_s < 60


def what_needs_a_failed_part_is_not_run_and_fails():
    ran = []
    run = Run(part("build", Job("bad", fails)),
              part("unit", Job("good", lambda work: ran.append(1) or passes(work)),
                   needs=("build",)))
    assert not ran and run.results["unit"].counts.failed == 1


def a_part_that_finds_nothing_to_run_fails():
    run = Run(part("a"), Part("b", lambda: [], may_be_empty=True))
    assert run.results["a"].counts.failed == 1 and run.results["b"].counts.failed == 0


def a_part_waits_for_one_job_of_another():
    order = []

    def step(work):
        order.append(work.job.name)
        return passes(work)

    Run(part("build", Job("program", step, urgent=2),
             Job("rest", step, urgent=1, needs=("build:program",))),
        part("tests", Job("test", step), needs=("build:program",)))
    assert order[0] == "program" and set(order) == {"program", "rest", "test"}, order


def a_lock_is_held_by_one_at_a_time():
    inside, most, guard = 0, 0, threading.Lock()

    def enter(work):
        nonlocal inside, most
        with guard:
            inside += 1
            most = max(most, inside)
        time.sleep(0.01)
        with guard:
            inside -= 1
        return passes(work)

    Run(part("a", *(Job(f"job{at}", enter, SERVE, locks=frozenset({"redis"}))
                    for at in range(6))))
    assert most == 1, most


def computing_jobs_leave_no_core_to_two_and_are_not_starved():
    threads, most, guard, order = 0, 0, threading.Lock(), []

    def use(count):
        def run(work):
            nonlocal threads, most
            with guard:
                threads += count
                most = max(most, threads)
                order.append(work.job.name)
            time.sleep(0.01)
            with guard:
                threads -= count
            return passes(work)
        return run

    small = [Job(f"small{at}", use(1), COMPUTE) for at in range(8)]
    Run(part("a", *small, Job("wide", use(2), COMPUTE, threads=2, urgent=1)))
    assert most == 2 and order[0] == "wide", (most, order)


def what_failed_last_runs_first():
    logs = Path(tempfile.mkdtemp(dir=SCRATCH.name))
    order = []

    def note(work):
        order.append(work.job.name)
        return fails(work) if work.job.name == "c" else passes(work)

    jobs = [Job(name, note, COMPUTE) for name in "abc"]
    for _ in range(2):
        record = results.Record(logs / "times.json", logs / "kept.json")
        run = Run(part("p", *jobs), cores=1, record=record, logs=logs)
        record.write("gate", "", 1.0, list(run.results.values()))
    assert order[3] == "c", order


def cases_of_a_test_program_are_counted():
    text = "[  PASSED  ] 3 test(s).\n[  SKIPPED ] 1 test(s), listed below:\n[  FAILED  ] 2 test(s)"
    counts = results.count(parts.cmocka_tests("t", text, 1, 2.0, 1.0))
    assert str(counts) == "3 passed, 2 failed, 1 skipped", counts
    crashed = results.count(parts.cmocka_tests("t", "[ RUN      ] x", -11, 2.0, 1.0))
    assert str(crashed) == "0 passed, 1 failed", crashed


def a_runner_that_dies_without_a_failed_test_fails():
    assert results.count(parts.judged([Test("a")], "job", 2)).failed == 1
    assert results.count(parts.judged([Test("a", FAILED)], "job", 2)).failed == 1
    assert results.count(parts.judged([], "job", 0)).failed == 0


def a_slow_test_needs_a_reason():
    rows = [{"part": "unit", "name": "slow", "wall_s": 9.0, "cpu_s": 1.0, "status": PASSED},
            {"part": "unit", "name": "quick", "wall_s": 1.0, "cpu_s": 1.0, "status": SKIPPED}]
    found = results.slow_without_reason({"tests": rows})
    assert [test["name"] for test in found] == ["slow"], found
    for name, why in results.slow_reasons():
        assert "/" in name and why, f"a line without a reason: {name}"


def processes_that_nobody_waited_for_count():
    run = Run(part("a", Job("browser", lambda work: [Test("page", cpu_s=7.0)])))
    assert run.results["a"].cpu_s == 7.0, run.results["a"].cpu_s


def times_are_written():
    run = Run(part("a", Job("good", passes)))
    record = results.Record(run.logs / "times.json", run.logs / "kept.json")
    record.write("gate", "abc", 1.0, list(run.results.values()))
    told = json.loads((run.logs / "times.json").read_text())
    assert told["parts"][0]["name"] == "a" and told["tests"][0]["wall_s"] >= 0


TESTS = (a_failed_test_is_counted, a_job_that_raises_is_a_failure,
         a_command_that_fails_is_a_failure, a_command_that_hangs_is_killed_with_its_children,
         what_needs_a_failed_part_is_not_run_and_fails, a_part_that_finds_nothing_to_run_fails,
         a_part_waits_for_one_job_of_another,
         a_lock_is_held_by_one_at_a_time, computing_jobs_leave_no_core_to_two_and_are_not_starved,
         what_failed_last_runs_first, cases_of_a_test_program_are_counted,
         a_runner_that_dies_without_a_failed_test_fails, a_slow_test_needs_a_reason,
         processes_that_nobody_waited_for_count, times_are_written)


def main():
    failed = 0
    for test in TESTS:
        try:
            test()
            print(f"ok {test.__name__}", flush=True)
        except AssertionError as error:
            failed += 1
            print(f"FAILED {test.__name__}: {error}", flush=True)
    SCRATCH.cleanup()
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
