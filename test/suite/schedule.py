"""Runs jobs in parallel within the limits of the machine, and reports a part when its last job ends.

A job is a function that runs commands and returns tests. There are two kinds:

  compute   builds, simulators, planted bugs: as many threads as there are cores, at nice 10
  serve     tests that start servers and wait for them: they use a part of a core each and run at
            normal priority, so that a busy machine does not slow them down

Order within a kind: what failed last time, then what other jobs wait for, then the longest. A job
holds its locks (a build folder, a server for one user at a time) and its memory while it runs. A
job that raises is one failed test; the others continue. On SIGINT or SIGTERM every process group is
ended, and no new job starts.
"""

import contextlib
import os
import signal
import subprocess
import threading
import time
from dataclasses import dataclass, field

from .results import FAILED, PartResult, Test, count

COMPUTE, SERVE = "compute", "serve"
NICE = 10
DEFAULT_WALL_S = 3.0
JOB_TIMEOUT_S = 45 * 60
# How much of the cores the serving jobs may be expected to use together.
SERVE_CORES = 1.25
SERVE_JOBS = 8


class Stopped(Exception):
    """The run was interrupted."""


@dataclass
class Job:
    name: str
    run: object                      # run(JobRun) -> [Test]
    kind: str = SERVE
    threads: float = 1.0             # a compute job's
    memory_mb: int = 400
    locks: frozenset = frozenset()
    needs: tuple = ()                # jobs, as PART or PART:JOB, that must have passed
    urgent: int = 0                  # others wait for it
    wall_s: float = 0.0              # expected; without it, what the last run took
    timeout_s: float = JOB_TIMEOUT_S


@dataclass
class Part:
    """name; jobs() -> [Job], called when `needs` have passed; about: for --help. A part that finds
    nothing to run fails, unless it may be empty: a check that never ran must not look green."""
    name: str
    jobs: object
    needs: tuple = ()
    about: str = ""
    may_be_empty: bool = False


class JobRun:
    """The argument of a job's function: its log, and how to run a command into it."""

    def __init__(self, scheduler, part_name, job):
        self.scheduler, self.part, self.job = scheduler, part_name, job
        self.name = f"{part_name}.{job.name}".replace("/", "_").replace(" ", "_")[:120]
        self.log_path = scheduler.logs / f"{self.name}.log"
        self.log = self.log_path.open("w")
        self.cpu_s = 0.0
        self.notes = []

    def note(self, text):
        """Printed behind the part's counts."""
        self.notes.append(text)

    def call(self, *command, env=None, stdout=None, cwd=None):
        """(exit code, wall seconds, CPU seconds) of a command; its output goes to the log."""
        words = [str(word) for word in command]
        if self.job.kind == COMPUTE:
            words = ["nice", "-n", str(NICE), *words]
        self.log.write("$ " + " ".join(words) + "\n")
        self.log.flush()
        code, wall_s, cpu_s = self.scheduler.spawn(
            words, self.log, stdout or self.log, {**os.environ, **(env or {})},
            cwd or self.scheduler.root, self.job.timeout_s)
        self.cpu_s += cpu_s
        if code == 124:
            self.log.write(f"\nkilled: still running after {self.job.timeout_s} s\n")
        return code, wall_s, cpu_s

    def test(self, name, *command, **options):
        """One test: a command that passes when it exits with 0."""
        code, wall_s, cpu_s = self.call(*command, **options)
        why = "" if code == 0 else f"exit {code}"
        return Test(name, FAILED if code else "passed", wall_s, cpu_s, why=why)


@dataclass
class State:
    """A part in progress."""
    part: Part
    left: int = -1        # jobs not yet ended; -1: not expanded
    began: float = 0.0    # 0: no job has started
    ended: float = 0.0
    result: PartResult = None
    notes: list = field(default_factory=list)
    logs: list = field(default_factory=list)


class Scheduler:
    def __init__(self, root, logs, record, report, serve_cores=SERVE_CORES):
        """report(PartResult, notes, logs of failed jobs) is called as each part ends."""
        self.root, self.logs, self.record, self.report = root, logs, record, report
        self.cores = os.cpu_count() or 1
        self.serve_cores = serve_cores
        self.memory_mb = available_memory_mb()
        self.lock = threading.Condition()
        self.queue = []            # (State, Job)
        self.running = {}          # id(job): (State, Job)
        self.passed, self.failed = set(), set()
        self.states = []
        self.processes = set()
        self.stopping = False

    # ------------------------------------------------------------ one command

    def spawn(self, words, log, stdout, env, cwd, timeout_s):
        with self.lock:
            if self.stopping:
                raise Stopped
            process = subprocess.Popen(words, cwd=cwd, stdout=stdout, stderr=log,
                                       stdin=subprocess.DEVNULL, env=env, start_new_session=True)
            self.processes.add(process.pid)
        began = time.monotonic()
        late = threading.Event()
        timer = threading.Timer(timeout_s, lambda: (late.set(), kill_group(process.pid, 9)))
        timer.daemon = True
        timer.start()
        _, status, usage = os.wait4(process.pid, 0)
        timer.cancel()
        process.returncode = os.waitstatus_to_exitcode(status)
        with self.lock:
            self.processes.discard(process.pid)
        kill_group(process.pid, 9)  # what it left behind
        code = 124 if late.is_set() else process.returncode
        return code, time.monotonic() - began, usage.ru_utime + usage.ru_stime

    def stop(self, *_):
        with self.lock:
            self.stopping = True
            for pid in self.processes:
                kill_group(pid, signal.SIGTERM)
            self.lock.notify_all()

    # ------------------------------------------------------------ choosing

    def expected(self, state, job):
        told = self.record.expected(state.part.name, job.name)
        wall_s, cpu_s = told or (DEFAULT_WALL_S, DEFAULT_WALL_S / 2)
        return job.wall_s or wall_s, cpu_s / max(wall_s, 0.1)

    def rank(self, entry):
        state, job = entry
        failed = self.record.failed_last(state.part.name, job.name)
        return (not failed, -job.urgent, -self.expected(state, job)[0])

    def free(self, job):
        """Whether its locks and its memory are free."""
        running = [one for _, one in self.running.values()]
        if any(job.locks & one.locks for one in running):
            return False
        return not running or \
            sum(one.memory_mb for one in running) + job.memory_mb <= self.memory_mb

    def has_cores(self, state, job):
        same = [(owner, one) for owner, one in self.running.values() if one.kind == job.kind]
        if not same:
            return True
        if job.kind == COMPUTE:
            return sum(one.threads for _, one in same) + job.threads <= self.cores
        share = sum(min(self.expected(owner, one)[1], 1.0) for owner, one in same)
        return len(same) < SERVE_JOBS and share < self.serve_cores * self.cores

    def met(self, needs):
        """True: all passed; False: wait; None: one failed."""
        if any(need in self.failed for need in needs):
            return None
        return all(need in self.passed for need in needs)

    def expand(self):
        """Parts whose needs have ended get their jobs; those that cannot run are reported."""
        for state in self.states:
            if state.left >= 0 or self.stopping:
                continue
            met = self.met(state.part.needs)
            if met is False:
                continue
            state.result = PartResult(state.part.name, None, 0.0, 0.0)
            state.left = 0
            if met is None:
                broken = ", ".join(need for need in state.part.needs if need in self.failed)
                state.result.tests.append(Test("not run", FAILED, why=f"{broken} failed"))
                state.notes.append(f"not run: {broken} failed")
                self.end_part(state)
                continue
            try:
                jobs = state.part.jobs()
            except Exception as error:  # a part that cannot list its jobs fails; the others run
                state.result.tests.append(Test("jobs", FAILED, why=str(error)))
                state.notes.append(f"{type(error).__name__}: {error}")
                jobs = []
            if not jobs and not state.notes and not state.part.may_be_empty:
                state.result.tests.append(Test("nothing to run", FAILED))
            state.left = len(jobs)
            self.queue += [(state, job) for job in jobs]
            if not jobs:
                self.end_part(state)

    # ------------------------------------------------------------ the run

    def run(self, parts):
        self.states = [State(part) for part in parts]
        with self.lock:
            while True:
                self.expand()
                self.drop_unmet()
                if not self.stopping:
                    self.start_what_fits()
                if not self.running and (self.stopping or not self.waiting()):
                    break
                self.lock.wait()
        if self.stopping:
            raise Stopped
        return [state.result for state in self.states]

    def waiting(self):
        unmet = [state.part.name for state in self.states if state.left < 0]
        if unmet and not self.queue and not self.running:
            raise RuntimeError(f"needs that nothing provides: {unmet}")
        return bool(self.queue or unmet)

    def drop_unmet(self):
        for entry in [entry for entry in self.queue if self.met(entry[1].needs) is None]:
            self.queue.remove(entry)
            state, job = entry
            state.result.tests.append(Test(job.name, FAILED, why="what it needs failed"))
            self.job_ended(state, job, False)

    def start_what_fits(self):
        """In the order of rank. What finds no core lets nothing of its kind pass, or a job with
        two threads would wait for ever behind small ones; what waits for a lock does."""
        full = set()
        for entry in sorted(self.queue, key=self.rank):
            state, job = entry
            if job.kind in full or not self.met(job.needs) or not self.free(job):
                continue
            if not self.has_cores(state, job):
                full.add(job.kind)
                continue
            self.queue.remove(entry)
            self.running[id(job)] = entry
            state.began = state.began or time.monotonic()
            threading.Thread(target=self.run_job, args=(state, job), daemon=True).start()

    def run_job(self, state, job):
        work = JobRun(self, state.part.name, job)
        began = time.monotonic()
        try:
            tests = job.run(work)
        except Exception as error:  # a broken job is a failure; the other jobs still run
            if not self.stopping:
                work.log.write(f"\n{type(error).__name__}: {error}\n")
            tests = [Test(job.name, FAILED, why=f"{type(error).__name__}: {error}")]
        work.log.close()
        # rusage misses processes that nobody waits for, as Chromium's renderers; the tests of such
        # jobs measure the whole process tree.
        cpu_s = max(work.cpu_s, sum(test.cpu_s for test in tests))
        failed = any(test.status == FAILED for test in tests)
        with self.lock:
            del self.running[id(job)]
            result = state.result
            for test in tests:
                test.computes = job.kind == COMPUTE
            result.tests += tests
            result.cpu_s += cpu_s
            result.jobs[job.name] = (time.monotonic() - began, cpu_s)
            state.notes += work.notes
            if failed:
                state.logs.append(work.log_path)
                result.failed_jobs.append(job.name)
            state.ended = time.monotonic()
            self.job_ended(state, job, not failed)
            self.lock.notify_all()

    def job_ended(self, state, job, passed):
        (self.passed if passed else self.failed).add(f"{state.part.name}:{job.name}")
        state.left -= 1
        if state.left == 0:
            self.end_part(state)

    def end_part(self, state):
        result = state.result
        result.counts = count(result.tests)
        result.wall_s = state.ended - state.began
        (self.failed if result.counts.failed else self.passed).add(result.name)
        if not self.stopping:
            self.report(result, state.notes, state.logs)

    def running_names(self):
        return [f"{state.part.name}:{job.name}" for state, job in list(self.running.values())]


def kill_group(pid, number):
    with contextlib.suppress(ProcessLookupError, PermissionError):
        os.killpg(pid, number)


def available_memory_mb():
    with open("/proc/meminfo", encoding="ascii") as file:
        for line in file:
            if line.startswith("MemAvailable:"):
                return int(line.split()[1]) * 8 // 10 // 1024
    return 4096
