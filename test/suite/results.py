"""The results of a run: tests with their times, their sums, and the files that store them.

Test       one test: its name, its status, wall and CPU seconds.
Counts     how many passed, failed and were skipped.
Record     everything of one run; writes times.json and reads the last one.
slowest()  what --times prints.
"""

import json
import time
from dataclasses import asdict, dataclass, field
from pathlib import Path

PASSED, FAILED, SKIPPED = "passed", "failed", "skipped"
SLOWEST_TESTS = 50
# A test of the gate above this needs a reason, one for each in slow_tests.txt.
SLOW_S = 5.0
SLOW_REASONS = Path(__file__).with_name("slow_tests.txt")


@dataclass
class Test:
    name: str
    status: str = PASSED
    wall_s: float = 0.0
    cpu_s: float = 0.0
    # A program may hold several cases; each counts.
    cases: int = 1
    why: str = ""
    computes: bool = False


@dataclass
class Counts:
    passed: int = 0
    failed: int = 0
    skipped: int = 0

    def add(self, test):
        setattr(self, test.status, getattr(self, test.status) + test.cases)

    def __add__(self, other):
        return Counts(self.passed + other.passed, self.failed + other.failed,
                      self.skipped + other.skipped)

    def __str__(self):
        skipped = f", {self.skipped} skipped" if self.skipped else ""
        return f"{self.passed} passed, {self.failed} failed{skipped}"


def count(tests):
    counts = Counts()
    for test in tests:
        counts.add(test)
    return counts


@dataclass
class PartResult:
    """A part that has ended. Wall time is from its first job's start to its last job's end."""
    name: str
    counts: Counts
    wall_s: float
    cpu_s: float
    jobs: dict = field(default_factory=dict)  # job: (wall_s, cpu_s)
    tests: list = field(default_factory=list)
    failed_jobs: list = field(default_factory=list)


class Record:
    """The run as a file. The times of jobs of earlier runs order the next one."""

    def __init__(self, path, kept_path):
        self.path, self.kept_path = path, kept_path
        self.jobs = {}
        for source in (kept_path, path):
            for part in read(source).get("parts", []):
                for job, times in part.get("jobs", {}).items():
                    self.jobs[part["name"], job] = times
        self.failed = {tuple(name) for name in read(path).get("failed_jobs", [])}

    def expected(self, part, job):
        """(wall_s, cpu_s) of that job the last time, or None."""
        return self.jobs.get((part, job))

    def failed_last(self, part, job):
        return (part, job) in self.failed

    def write(self, length, commit, wall_s, parts):
        ran = {part.name for part in parts}
        failed = [[part.name, job] for part in parts for job in part.failed_jobs]
        # A run of some parts has no result for the others.
        failed += [list(name) for name in sorted(self.failed) if name[0] not in ran]
        told = {"length": length, "commit": commit, "wall_s": round(wall_s, 1),
                "ended": time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime()),
                "failed_jobs": failed,
                "parts": [{"name": part.name, "wall_s": round(part.wall_s, 2),
                           "cpu_s": round(part.cpu_s, 2), **asdict(part.counts),
                           "jobs": {job: [round(one, 2) for one in times]
                                    for job, times in part.jobs.items()}} for part in parts],
                "tests": [{"part": part.name, **test_row(test)} for part in parts
                          for test in part.tests]}
        text = json.dumps(told, indent=1)
        self.path.write_text(text)


def keep(path, kept_path):
    """The times of the jobs of the last run, for first runs of other checkouts; those of parts that
    it did not run stay."""
    kept = {part["name"]: part["jobs"] for part in read(kept_path).get("parts", [])}
    kept.update({part["name"]: part["jobs"] for part in read(path).get("parts", [])})
    rows = [{"name": name, "jobs": jobs} for name, jobs in sorted(kept.items())]
    kept_path.write_text(json.dumps({"parts": rows}, indent=1) + "\n")


def test_row(test):
    row = asdict(test)
    row["wall_s"], row["cpu_s"] = round(test.wall_s, 3), round(test.cpu_s, 3)
    for name in ("why", "computes"):
        if not row[name]:
            del row[name]
    return row


def read(path):
    try:
        return json.loads(Path(path).read_text())
    except (OSError, ValueError):
        return {}


def slow_reasons():
    """[(part/test prefix, reason)] of the tests that may take longer than SLOW_S in the gate."""
    reasons = []
    for line in SLOW_REASONS.read_text().splitlines():
        if line.strip() and not line.startswith("#"):
            name, _, why = line.partition("  ")
            reasons.append((name.strip(), why.strip()))
    return reasons


def slow_without_reason(told):
    """Computing jobs are judged by CPU time: the wait for a core depends on the machine."""
    reasons = tuple(name for name, _ in slow_reasons())
    seconds = lambda test: test["cpu_s" if test.get("computes") else "wall_s"]
    return [test for test in told["tests"] if seconds(test) > SLOW_S
            and not f"{test['part']}/{test['name']}".startswith(("build-", *reasons))]


def slowest(path):
    """Prints the parts and the slowest tests of the last run; the exit code."""
    told = read(path)
    if not told:
        print(f"no times yet: {path.name} is written by a run of script/test")
        return 1
    print(f"{told['length']} at {told['commit'] or 'no commit'}, {told['ended']}: "
          f"{told['wall_s']:.0f} s\n")
    print(f"{'part':20}{'wall s':>9}{'CPU s':>9}{'passed':>8}{'failed':>8}{'skipped':>8}")
    for part in sorted(told["parts"], key=lambda part: -part["wall_s"]):
        print(f"{part['name']:20}{part['wall_s']:9.1f}{part['cpu_s']:9.1f}{part['passed']:8}"
              f"{part['failed']:8}{part['skipped']:8}")
    print(f"{'all':20}{told['wall_s']:9.1f}{sum(part['cpu_s'] for part in told['parts']):9.1f}\n")
    print(f"{'wall s':>8}{'CPU s':>8}  the {SLOWEST_TESTS} slowest tests")
    tests = sorted(told["tests"], key=lambda test: -test["wall_s"])[:SLOWEST_TESTS]
    for test in tests:
        print(f"{test['wall_s']:8.1f}{test['cpu_s']:8.1f}  {test['part']}/{test['name']}")
    if told["length"] == "gate":
        for test in slow_without_reason(told):
            print(f"over {SLOW_S:g} s without a reason in {SLOW_REASONS.name}: "
                  f"{test['part']}/{test['name']}")
    return 0
