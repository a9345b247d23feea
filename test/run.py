#!/usr/bin/python3
"""script/test, after its set-up: chooses the parts of a length, runs them side by side, sums up.

  suite/parts.py      what each part runs, and in which lengths
  suite/schedule.py   jobs side by side within what the machine has
  suite/servers.py    the Redis, MariaDB and RabbitMQ that tests share
  suite/results.py    tests and their times, build/test-logs/times.json
  suite/changes.py    what follows from the commit: changed files, the first seed

One line for each part, in the order they end. Output of a job is in build/test-logs/PART.JOB.log;
where a job fails, the end of it is printed. The last line is `LENGTH: N passed, N failed`, with
`, N skipped` if any were, over what ran.
"""

import argparse
import os
import resource
import signal
import sys
import threading
import time
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
sys.path.insert(0, str(ROOT / "test"))
sys.dont_write_bytecode = True

from suite import changes, parts, results, schedule  # noqa: E402
from suite.servers import Servers  # noqa: E402

LOGS = ROOT / "build" / "test-logs"
TIMES = LOGS / "times.json"
# The times of a run on two cores that was kept, for the order of the first run of a checkout.
KEPT_TIMES = ROOT / "test/suite/times.json"
TAIL_LINES = 60
FAILED_LOGS = 5
BUDGET_S = {"quick": 180, "gate": 600, "full": 3600}


def parse_options(argv, table):
    names = "\n".join(f"  {name:18} {part.about} ({' '.join(lengths)})"
                      for name, (lengths, part) in table.items())
    parser = argparse.ArgumentParser(
        prog="script/test", formatter_class=argparse.RawDescriptionHelpFormatter,
        description="Runs the tests. Without an option: the gate, everything a change must pass.",
        epilog=f"parts, and the lengths they are in:\n{names}\n\n"
               "One test: script/test --only unit --match journal\n"
               "Logs are in build/test-logs. CONTRIBUTING.md has the rest.")
    length = parser.add_mutually_exclusive_group()
    length.add_argument("--quick", action="store_const", dest="length", const="quick",
                        help="what to run after each change; 3 minutes on two cores")
    length.add_argument("--full", action="store_const", dest="length", const="full",
                        help="everything, the long forms too; about an hour on two cores")
    parser.set_defaults(length="gate")
    parser.add_argument("--only", action="append", metavar="PART", choices=list(table),
                        help="only this part and the builds it needs; may be repeated")
    parser.add_argument("--match", metavar="WORD", default="",
                        help="with --only: only files or tests whose names contain this")
    parser.add_argument("--times", action="store_true",
                        help="run nothing; print the slowest parts and tests of the last run")
    parser.add_argument("--keep", action="store_true",
                        help="with --times: write test/suite/times.json, which orders first runs")
    parser.add_argument("--list", action="store_true", help="run nothing; list the parts")
    parser.add_argument("--unready", action="store_true", help=argparse.SUPPRESS)
    options = parser.parse_args(argv)
    if options.match and not options.only:
        parser.error("--match needs --only PART")
    if options.keep and not options.times:
        parser.error("--keep needs --times")
    return options


def chosen(options, table):
    """The parts of the length, or those named, with the builds they need."""
    if not options.only:
        return [part for lengths, part in table.values() if options.length in lengths]
    wanted, todo = set(), list(options.only)
    while todo:
        name = todo.pop().split(":")[0]
        if name not in wanted:
            wanted.add(name)
            todo += table[name][1].needs
    return [part for name, (_, part) in table.items() if name in wanted]


class Report:
    """Prints a line as each part ends, and on a terminal what runs now."""

    def __init__(self):
        self.terminal = sys.stdout.isatty()
        self.lock = threading.Lock()
        self.failed_logs = 0

    def part(self, result, notes, logs):
        note = f"  ({'; '.join(dict.fromkeys(notes))})" if notes else ""
        counts = str(result.counts)
        if not result.counts.failed and result.name.startswith(("build-", "servers")):
            counts = "built" if result.jobs else ""
        self.line(f"{result.name:17} {counts:28} {result.wall_s:6.1f} s "
                  f"{result.cpu_s:6.1f} s CPU{note}")
        for test in result.tests:
            if test.status == results.FAILED:
                self.line(f"    FAILED {test.name}{': ' if test.why else ''}"
                          f"{test.why.strip().splitlines()[-1][:300] if test.why.strip() else ''}")
        for path in logs:
            self.tail(path)

    def tail(self, path):
        self.failed_logs += 1
        if self.failed_logs > FAILED_LOGS:
            self.line(f"    see {path.relative_to(ROOT)}")
            return
        text = path.read_text(errors="replace").splitlines()[-TAIL_LINES:]
        self.line(f"--- the end of {path.relative_to(ROOT)}\n" + "\n".join(text) + "\n---")

    def line(self, text):
        with self.lock:
            print(f"\r\x1b[K{text}" if self.terminal else text, flush=True)

    def progress(self, scheduler, began):
        while self.terminal:
            time.sleep(1)
            names = " ".join(scheduler.running_names())
            with self.lock:
                print(f"\r\x1b[K{time.monotonic() - began:.0f} s, {len(scheduler.queue)} waiting: "
                      f"{names}"[:150], end="", flush=True)


def minutes(seconds):
    return f"{int(seconds) // 60} min {int(seconds) % 60} s"


def cpu_of_children_s():
    used = resource.getrusage(resource.RUSAGE_CHILDREN)
    return used.ru_utime + used.ru_stime


def run_parts(options, record, report):
    """The results of the parts chosen, and of the servers that they shared; None if interrupted."""
    with Servers() as servers:
        suite = parts.Suite(options, servers, LOGS)
        wanted = chosen(options, parts.table(suite))
        for part in wanted if options.match else ():
            part.may_be_empty = True
        if options.only:
            suite.needed = set(options.only).union(*(part.needs for part in wanted))
        ended = schedule_parts(wanted, record, report)
    if ended is not None:
        cpu_s = cpu_of_children_s() - sum(part.cpu_s for part in ended)
        ended.append(results.PartResult("servers", results.Counts(), 0.0, max(cpu_s, 0.0)))
        report.part(ended[-1], ["Redis, MariaDB and RabbitMQ that tests shared"], [])
    return ended


def schedule_parts(wanted, record, report):
    scheduler = schedule.Scheduler(ROOT, LOGS, record, report.part)
    for number in (signal.SIGINT, signal.SIGTERM):
        signal.signal(number, scheduler.stop)
    began = time.monotonic()
    threading.Thread(target=report.progress, args=(scheduler, began), daemon=True).start()
    try:
        return scheduler.run(wanted)
    except schedule.Stopped:
        report.line("interrupted")
        return None


def run(options):
    """The results of a whole run, with its times written and compared with the budget."""
    record, report = results.Record(TIMES, KEPT_TIMES), Report()
    began = time.monotonic()
    ended = run_parts(options, record, report)
    if ended is None:
        return None
    wall_s = time.monotonic() - began
    length = options.length if not options.only else "only"
    record.write(length, changes.commit()[:12], wall_s, ended)
    if length == "only":
        report.line(f"{minutes(wall_s)}")
    else:
        budget = BUDGET_S[length]
        over = ", over its budget" if wall_s > budget else ""
        report.line(f"{minutes(wall_s)} of {minutes(budget)}{over}")
    for test in results.slow_without_reason(results.read(TIMES)) if length == "gate" else ():
        report.line(f"slow: {test['part']}/{test['name']} took {test['wall_s']:.1f} s; mend it or "
                    f"give a reason in test/suite/{results.SLOW_REASONS.name}")
    return ended


def main():
    # The table needs a suite, and the suite needs the options: the help needs only the names.
    options = argparse.Namespace(length="gate", match="")
    table = parts.table(parts.Suite(options, None, LOGS))
    options = parse_options(sys.argv[1:], table)
    if options.times:
        signal.signal(signal.SIGPIPE, signal.SIG_DFL)  # into `head`, say
        if options.keep:
            results.keep(TIMES, KEPT_TIMES)
        return results.slowest(TIMES)
    if options.list:
        for name, (lengths, part) in table.items():
            print(f"{name:18} {' '.join(lengths):16} {part.about}")
        return 0
    LOGS.mkdir(parents=True, exist_ok=True)
    total = results.Counts(failed=int(options.unready))
    if options.unready:
        print("bootstrap: what is missing could not be installed", flush=True)
    os.environ["SLUICE_GUARD_S"] = os.environ.get("SLUICE_GUARD_S", "120")
    ended = run(options)
    if ended is None:
        return 130
    for result in ended:
        total += result.counts
    if options.match and total == results.Counts():
        print(f"nothing in {' '.join(options.only)} matches {options.match}")
        return 1
    print(f"{options.length}: {total}" if not options.only else f"only: {total}")
    return 1 if total.failed else 0


if __name__ == "__main__":
    sys.exit(main())
