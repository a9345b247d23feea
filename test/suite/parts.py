"""The parts of script/test: what each runs, and in which lengths.

A part is a list of jobs for schedule.py. table() at the end is the only list of parts: their
lengths, the builds they need, what they are for. docs/TESTING.md has a table of which part guards
which promise.
"""

import hashlib
import json
import os
import re
import subprocess
from pathlib import Path

from . import changes
from .results import FAILED, PASSED, SKIPPED, Test
from .schedule import COMPUTE, SERVE, Job, Part

ROOT = Path(__file__).resolve().parent.parent.parent
PYTHON = "/usr/bin/python3"
QUICK, GATE, FULL = "quick", "gate", "full"
LONGER = (GATE, FULL)
CORES = os.cpu_count() or 1

SANITIZERS = {
    "ASAN_OPTIONS": "detect_stack_use_after_return=1:strict_string_checks=1",
    "UBSAN_OPTIONS": "print_stacktrace=1",
    "TSAN_OPTIONS": "second_deadlock_stack=1",
}
# What the tests in Python run beside the program.
HELPERS = ("sluice", "redis_probe", "ledger_crowd", "watch_crowd", "conformance_test_segments_redis")
SIMULATORS = ("simulate", "simulate_distributed")
# CPU seconds for new seeds of each engine: {length: (embedded, distributed)}.
SEED_CPU_S = {QUICK: (6, 6), GATE: (30, 30), FULL: (600, 600)}
SEED_CPU_ASAN_S = {QUICK: (5, 5), GATE: (10, 10), FULL: (120, 120)}
SEEDS_TWICE = {QUICK: 5, GATE: 20, FULL: 200}
TIDY_FILES_GATE = 12
# What the gate runs in release, and --full in both: sweeps and crash enumerations take five times as
# long under ASan, and a test that waits 90 s for RabbitMQ must begin early, when the release is built.
RELEASED = re.compile(r"sweep_|unit_backend_amqp_test_queue_faults")
# In --quick: no sweeps, and no test that kills a broker repeatedly.
SLOWER = re.compile(r"sweep_|unit_backend_amqp_test_queue_faults|conformance_queue_test_queue_amqp")
QUICK_FILES = ("test_contract_*.py", "test_http_*.py", "test_cli.py", "test_rush.py")


class Suite:
    """Shared by the parts: the options, the shared servers, the folder of logs."""

    def __init__(self, options, servers, logs):
        self.options, self.servers, self.logs = options, servers, logs
        self.length = options.length
        self.needed = None  # what the chosen parts need of builds; None: everything

    # ------------------------------------------------------------ builds

    def step(self, work, *command):
        """Only a step that fails is counted."""
        test = work.test(work.job.name, *command)
        return [test] if test.status == FAILED else []

    def configure(self, preset):
        return lambda work: self.step(work, "cmake", "--preset", preset)

    def ninja(self, preset, *targets):
        return lambda work: self.step(work, "ninja", "-C", f"build/{preset}", "-k", "0",
                                      *(targets or self.test_targets(preset)))

    def test_targets(self, preset):
        """Only the test programs that run. The gate runs most of them under ASan, so it has few of
        the release; with --match there are only those that match."""
        if self.options.match:
            wanted = self.c_test_matches
        elif self.length == GATE and preset == "release" and not self.options.only:
            wanted = lambda test: RELEASED.match(test["name"])
        elif self.length == QUICK and not self.options.only:
            wanted = lambda test: not SLOWER.match(test["name"])
        else:
            return ("all",)
        # A test is called as its program; of fuzz_X there are two.
        tests = {test["name"].removesuffix("_fails") for test in self.c_tests(preset)
                 if wanted(test)}
        return (*sorted(tests), *(SIMULATORS if not self.options.match else ()))

    def build(self, preset, *first):
        """Configure, then what others wait for, then the rest: one folder, one after the other."""
        def job(name, run, urgent, needs=()):
            return Job(name, run, COMPUTE, threads=CORES, memory_mb=1500, urgent=urgent,
                       locks=frozenset({f"build/{preset}"}), needs=needs, wall_s=60)

        rank = {"release": 30, "asan": 20, "tsan": 10}[preset]
        me = f"build-{preset}"
        jobs = [job("configure", self.configure(preset), rank + 2)]
        if first:
            jobs.append(job("program", self.ninja(preset, *first), rank + 1, (f"{me}:configure",)))
        if self.needed is None or me in self.needed:
            jobs.append(job("tests", self.ninja(preset), rank, (f"{me}:{jobs[-1].name}",)))
        return jobs

    # ------------------------------------------------------------ tests in C

    def c_tests(self, preset):
        done = subprocess.run(["ctest", "--show-only=json-v1", "--test-dir", f"build/{preset}"],
                              cwd=ROOT, text=True, capture_output=True, check=True)
        tests = json.loads(done.stdout)["tests"]
        if not tests:
            raise RuntimeError(f"build/{preset} has no tests")
        return tests

    def c_test_matches(self, test):
        """By the program's name, or by the name of a test function in its source."""
        word = self.options.match
        if not word or word in test["name"]:
            return True
        stem = re.search(r"(test_\w+)$", test["name"])
        sources = (ROOT / "test").rglob(f"{stem[1]}.c") if stem else ()
        return any(re.search(rf"\w*{re.escape(word)}\w*\(void \*\*", path.read_text())
                   for path in sources)

    def unit(self, preset):
        """In the gate each test runs once: RELEASED ones in release, the others under sanitizers."""
        everything = self.length == FULL or self.options.only
        leaves_out = {("release", QUICK): lambda name: SLOWER.match(name),
                      ("release", GATE): lambda name: not RELEASED.match(name),
                      ("asan", GATE): RELEASED.match}.get((preset, self.length))
        jobs = []
        for test in self.c_tests(preset):
            if not self.c_test_matches(test):
                continue
            if leaves_out and not everything and leaves_out(test["name"]):
                continue
            facts = {fact["name"]: fact["value"] for fact in test.get("properties", [])}
            locks = frozenset(facts.get("RESOURCE_LOCK", ()))
            serves = re.match(r"unit_backend_(mariadb|redis|amqp)|conformance", test["name"])
            jobs.append(Job(test["name"], self.c_test(preset, test["command"]),
                            SERVE if serves else COMPUTE, locks=locks))
        return jobs

    def long_forms(self, preset):
        """The long forms of tests run with --full, in release: under a sanitizer they take hours."""
        return self.length == FULL and preset == "release"

    def c_test(self, preset, command):
        def run(work):
            env = {**SANITIZERS, **self.servers.for_unit()}
            if self.long_forms(preset):
                env["SLUICE_LONG"] = "1"
            code, wall_s, cpu_s = work.call("setarch", "-R", *command, env=env)
            return cmocka_tests(work.job.name, work.log_path.read_text(errors="replace"), code,
                                wall_s, cpu_s)
        return run

    # ------------------------------------------------------------ tests in Python

    def pytest(self, preset, *markers, files=("test_*.py",), env=None):
        """One job a file; with --match the files, or the tests, whose names contain the word."""
        jobs = []
        for path in sorted(path for pattern in files
                           for path in (ROOT / "test/integration").glob(pattern)):
            words = self.pytest_selection(path)
            if words is not None:
                jobs.append(Job(path.stem.removeprefix("test_"),
                                self.pytest_file(preset, path, markers, words, env or {}),
                                memory_mb=1000))
        return jobs

    def integration(self):
        quick = self.length == QUICK and not self.options.only
        return self.pytest("release", files=QUICK_FILES if quick else ("test_*.py",))

    def distributed(self, **env):
        """The contract and the rush on the distributed engine."""
        return self.pytest("release", "not embedded", files=("test_contract_*.py", "test_rush.py"),
                           env={"SLUICE_ENGINE": "distributed", **env})

    def pytest_selection(self, path):
        word = self.options.match
        if not word or word in path.name:
            return []
        if re.search(rf"^def test_\w*{re.escape(word)}", path.read_text(), re.M):
            return ["-k", word]
        return None

    def pytest_file(self, preset, path, markers, words, extra):
        def run(work):
            results = self.logs / f"{work.name}.jsonl"
            reports = self.logs / f"{work.name}.sanitizer"
            for old in [results, *self.logs.glob(reports.name + ".*")]:
                old.unlink(missing_ok=True)
            env = {key: f"{value}:log_path={reports}" for key, value in SANITIZERS.items()}
            env.update(SLUICE=str(ROOT / "build" / preset / "sluice"), PYTHONDONTWRITEBYTECODE="1",
                       SLUICE_TEST_RESULTS=str(results), **self.servers.for_engine(), **extra)
            chosen = (*markers, "not slow")
            if self.long_forms(preset):
                env["SLUICE_LONG"], chosen = "1", markers
            code, _, _ = work.call("setarch", "-R", PYTHON, "-m", "pytest", "-q", "-ra",
                                   "--tb=short", "-m", " and ".join(chosen) or "slow or not slow",
                                   *words, path.relative_to(ROOT), env=env)
            tests = read_results(results)
            # A server that a sanitizer stopped is a failure, even if the test did not notice.
            for report in sorted(self.logs.glob(reports.name + ".*")):
                work.log.write(f"\n{report.name}:\n{report.read_text(errors='replace')}")
                tests.append(Test(f"{path.name} sanitizer", FAILED, why=report.name))
            return judged(tests, work.job.name, 0 if code == 5 else code)
        return run

    # ------------------------------------------------------------ the browser

    def browser(self):
        jobs = []
        for path in sorted((ROOT / "test/browser").glob("*.test.mjs")):
            words, word = [], self.options.match
            if word and word not in path.name:
                if not re.search(rf"\btest\(['`].*{re.escape(word)}", path.read_text()):
                    continue
                words = [f"--test-name-pattern={re.escape(word)}"]
            jobs.append(Job(path.name.removesuffix(".test.mjs"), self.browser_file(path, words),
                            memory_mb=1500))
        return jobs

    def browser_file(self, path, words):
        def run(work):
            results = self.logs / f"{work.name}.jsonl"
            results.unlink(missing_ok=True)
            env = {"SLUICE": str(ROOT / "build/release/sluice")}
            if self.length == FULL:
                # The browser that people have. The gate's has the same engine without the windows
                # around it.
                env.update(SLUICE_LONG="1", CHROMIUM="/usr/bin/chromium")
            code, _, _ = work.call(
                "node", "--test-reporter=./results.mjs", f"--test-reporter-destination={results}",
                "--test-reporter=spec", "--test-reporter-destination=stdout", *words, path.name,
                cwd=ROOT / "test/browser", env=env)
            tests = read_results(results)
            if words:  # the others of the file are reported, too
                tests = [test for test in tests if test.status != SKIPPED]
            return judged(tests, work.job.name, code)
        return run

    # ------------------------------------------------------------ drills

    def drill(self):
        """One job for the drills of a stage: they share its servers. With --full all, in their long
        form."""
        short = [] if self.length == FULL else ["--short"]
        done = subprocess.run(["script/drill", "--list", *short], cwd=ROOT, text=True,
                              capture_output=True, check=True)
        stages = {}
        for line in done.stdout.splitlines():
            name, stage = line.split()[:2]
            if not self.options.match or self.options.match in name:
                stages.setdefault(stage, []).append(name)
        jobs = []
        for stage, names in stages.items():
            half = (len(names) + 1) // 2 if len(names) > 8 else len(names)
            pieces = [names[:half], names[half:]] if half < len(names) else [names]
            for at, piece in enumerate(pieces, 1):
                name = stage if len(pieces) == 1 else f"{stage}-{at}"
                jobs.append(Job(name, self.drill_stage(piece, short), memory_mb=2500,
                                timeout_s=3 * 3600))
        return jobs

    def drill_stage(self, names, short):
        def run(work):
            verdicts = self.logs / f"{work.name}.jsonl"
            with verdicts.open("w") as file:
                code, _, _ = work.call("script/drill", "--json", *short, *names, stdout=file,
                                       env={"SLUICE": str(ROOT / "build/release/sluice"),
                                            **self.servers.common()})
            tests = []
            for line in verdicts.read_text().splitlines():
                told = json.loads(line)
                work.log.write(json.dumps(told, indent=1) + "\n")
                tests.append(Test(told["drill"], PASSED if told["ok"] else FAILED,
                                  told["seconds"], told.get("cpu_s", 0.0)))
            return judged(tests, work.job.name, code)
        return run

    # ------------------------------------------------------------ simulators

    def simulate(self, preset, budgets, twice):
        """Of each engine: new seeds for so much CPU time, from a number that follows from the
        commit; seeds run twice that must be the same; and every seed that found something once."""
        # A killed server frees nothing, and neither does a simulated one: ignore leaks.
        env = {"ASAN_OPTIONS": SANITIZERS["ASAN_OPTIONS"] + ":detect_leaks=0"}
        jobs = []
        for engine, program, budget, known in (
                ("embedded", SIMULATORS[0], budgets[0], "seeds.txt"),
                ("distributed", SIMULATORS[1], budgets[1], "seeds_distributed.txt")):
            if self.options.match and self.options.match not in engine:
                continue
            path = f"build/{preset}/test/{program}"
            jobs.append(Job(f"{engine}-new", self.new_seeds(path, engine, budget, env), COMPUTE,
                            wall_s=budget))
            jobs.append(Job(f"{engine}-known", self.known_seeds(path, known, env), COMPUTE))
            if twice:
                jobs.append(Job(f"{engine}-twice", lambda work, path=path: [work.test(
                    f"{work.job.name}", "setarch", "-R", path, "--determinism", twice, "--jobs", 1,
                    env=env)], COMPUTE))
        return jobs

    def new_seeds(self, path, engine, budget, env):
        first = changes.number() + 1

        def run(work):
            test = work.test(f"{engine} seeds from {first}", "setarch", "-R", path, "--cpu", budget,
                             "--first", first, "--jobs", 1, env=env)
            found = re.search(r"([\d,]+) seeds", work.log_path.read_text(errors="replace"))
            work.note(f"{engine}: {found[1] if found else 'no'} seeds from {first}")
            return [test]
        return run

    def known_seeds(self, path, name, env):
        lines = (ROOT / "test/simulation" / name).read_text().splitlines()
        seeds = [line.split()[0] for line in lines if line.strip() and not line.startswith("#")]
        return lambda work: [work.test(f"{work.job.name} {seed}", "setarch", "-R", path, "--seeds", 1,
                                       "--first", seed, "--jobs", 1, env=env) for seed in seeds]

    # ------------------------------------------------------------ planted bugs

    def mutants(self):
        """One test for each planted bug, and one for the source without any."""
        def run(work):
            table = self.logs / "mutants.json"
            table.unlink(missing_ok=True)
            words = [self.options.match] if self.options.match else []
            own = work.test("mutants self-test", PYTHON, "test/mutants.py", "--self-test")
            code, _, _ = work.call(PYTHON, "test/mutants.py", "--json", table, *words)
            tests = [own]
            if table.exists():
                told = json.loads(table.read_text())
                tests += [Test(bug["name"], PASSED if bug["caught"] else FAILED, bug["seconds"],
                               bug["cpu_s"], why="" if bug["caught"] else bug["what"])
                          for bug in told["mutants"]]
                tests.append(Test("without a bug", FAILED if told["clean"] else PASSED,
                                  why=told["clean"]))
            return judged(tests, work.job.name, code)
        return [Job("mutants", run, COMPUTE, threads=CORES, memory_mb=2000,
                    locks=frozenset({"build/release"}))]

    # ------------------------------------------------------------ what reads the source

    def layers(self):
        """The checker's self-test, and the checker on this source."""
        return [Job("layers", lambda work: [
            work.test("layers self-test", PYTHON, "test/layers.py", "--self-test"),
            work.test("layers", PYTHON, "test/layers.py")], COMPUTE, urgent=100)]

    def format(self):
        return [Job("format", lambda work: [work.test("format", "script/format", "--check")],
                    COMPUTE, urgent=100)]

    def tidy(self):
        """One test for each file of src: all with --full; in the gate those that changed lately."""
        commands = json.loads((ROOT / "build/release/compile_commands.json").read_text())
        entries = {Path(entry["file"]).relative_to(ROOT).as_posix(): entry for entry in commands
                   if entry["file"].startswith(str(ROOT / "src") + "/")}
        if self.length != FULL and not self.options.match:
            lately = changed_sources(entries)
            left_out = len(lately) - TIDY_FILES_GATE
            entries = {name: entries[name] for name in lately[:TIDY_FILES_GATE]}
        else:
            left_out = 0
        (ROOT / "build/tidy").mkdir(exist_ok=True)
        names = [name for name in entries if not self.options.match or self.options.match in name]

        def check(piece, first):
            def run(work):
                if first and left_out > 0:
                    work.note(f"{left_out} more changed files are left to --full")
                return [tidy_file(work, name, entries[name]) for name in piece]
            return run
        pieces = [names[at::CORES] for at in range(CORES)]
        return [Job(f"tidy-{at}", check(piece, at == 0), COMPUTE)
                for at, piece in enumerate(pieces) if piece]

    # ------------------------------------------------------------ commands of their own

    def lines_of(self, name, *commands, kind=COMPUTE, threads=1):
        """A command that prints `ok NAME` and `FAILED NAME: why`, one line a test."""
        def run(work):
            said = self.logs / f"{work.name}.txt"
            with said.open("w") as file:
                codes = [work.call(*command, stdout=file)[0] for command in commands]
            text = said.read_text(errors="replace")
            work.log.write(text)
            return judged([line_test(*line) for line in
                           re.findall(r"^(ok|FAILED) +(\S+?):?(?: +([\d.]+) s)?(?: (.*))?$", text,
                                      re.M)], work.job.name, max(codes))
        return [Job(name, run, kind, threads=threads, memory_mb=3000, timeout_s=3 * 3600)]

    def fuzz(self):
        """That script/fuzz finds the canary; the corpora are replayed by the unit tests."""
        long = ["--long"] if self.length == FULL else []
        return self.lines_of("fuzz", [PYTHON, "test/fuzz/test_script.py", *long])

    def coverage(self):
        """Every branch of core and of the journal is taken, or listed with a reason."""
        return self.lines_of("coverage", [PYTHON, "test/coverage.py", "--self-test"],
                             ["script/coverage", "--check"], threads=CORES)

    def crash(self):
        return [Job("crash", lambda work: [work.test(
            "crash", "script/crash", "--loops", 100,
            env={"SLUICE": str(ROOT / "build/release/sluice")})], timeout_s=3 * 3600)]

    def commands(self):
        """Each command as the first one on a bare machine."""
        def run(work):
            told = self.logs / "bare.json"
            told.unlink(missing_ok=True)
            code, _, _ = work.call(PYTHON, "test/bare.py", "--json", told)
            if code == 2:  # not root, or no network
                return [Test("commands", SKIPPED, why=f"could not be tried, see {work.log_path}")]
            rows = json.loads(told.read_text()) if told.exists() else []
            return judged([Test(row["name"], PASSED if row["ok"] else FAILED, row["seconds"],
                                why="" if row["ok"] else row["what"]) for row in rows],
                          work.job.name, code)
        return [Job("commands", run, COMPUTE, threads=CORES, memory_mb=4000, timeout_s=3 * 3600)]


# ---------------------------------------------------------------- reading what was said

def cmocka_tests(name, text, code, wall_s, cpu_s):
    """One program: the cases inside it, from its output; a crash counts as one failure."""
    def number(word):
        return sum(map(int, re.findall(rf"\[\s*{word}\s*\] (\d+) test", text)))

    passed, failed, skipped = number("PASSED"), number("FAILED"), number("SKIPPED")
    if code != 0 and failed == 0:
        failed = 1
    if code == 0 and passed + skipped == 0:
        passed = 1
    rows = [(FAILED, failed), (PASSED, passed), (SKIPPED, skipped)]
    tests = [Test(name, status, cases=cases) for status, cases in rows if cases]
    tests[0].wall_s, tests[0].cpu_s = wall_s, cpu_s
    if code != 0:
        tests[0].why = f"exit {code}"
    return tests


def read_results(path):
    """The lines that conftest.py and results.mjs write."""
    if not path.exists():
        return []
    return [Test(**json.loads(line)) for line in path.read_text().splitlines()]


def judged(tests, name, code):
    """A command that failed without a failed test is a failure of its own."""
    if code != 0 and not any(test.status == FAILED for test in tests):
        tests.append(Test(name, FAILED, why=f"exit {code}"))
    return tests


def line_test(word, name, seconds="", why=""):
    return Test(name, PASSED if word == "ok" else FAILED, float(seconds or 0), why=why)


# ---------------------------------------------------------------- clang-tidy

def tidy_key(entry):
    """The inputs of a clang-tidy verdict: the settings, and the file with all its includes."""
    words = [word for word in entry["command"].split() if not word.endswith("ccache")]
    cut = words.index("-o")
    text = subprocess.run(words[:cut] + ["-E", "-CC", entry["file"]], cwd=entry["directory"],
                          capture_output=True, check=True).stdout
    return hashlib.sha256((ROOT / ".clang-tidy").read_bytes() + text).hexdigest()


def tidy_file(work, name, entry):
    """A verdict is kept until the file or the settings change."""
    verdict = ROOT / "build/tidy" / (name.replace("/", "_") + ".clean")
    key = tidy_key(entry)
    if verdict.exists() and verdict.read_text() == key:
        return Test(name)
    test = work.test(name, "clang-tidy-14", "--quiet", "-p", ROOT / "build/release", entry["file"])
    if test.status == PASSED:
        verdict.write_text(key)
    return test


def changed_sources(entries):
    """The sources that changed lately, newest first; for a header one source that includes it."""
    found = {}
    for name in changes.changed():
        if name in entries:
            found[name] = True
        elif name.startswith("src/") and name.endswith(".h"):
            include = f'#include "{name.removeprefix("src/")}"'
            own = name.removesuffix(".h") + ".c"
            users = [own] if own in entries else \
                [one for one in entries if include in (ROOT / one).read_text()][:1]
            found.update(dict.fromkeys(users, True))
    return list(found)


# ---------------------------------------------------------------- the table

RELEASE, RELEASE_TESTS = ("build-release:program",), ("build-release",)


def table(suite):
    """{name: (lengths, Part)}, in the order of --help."""
    s, everywhere = suite, (QUICK, GATE, FULL)
    rows = [
        (everywhere, Part("layers", s.layers, about="which room uses which, file sizes")),
        (everywhere, Part("format", s.format, about="clang-format")),
        (everywhere, Part("suite", lambda: s.lines_of(
            "suite", [PYTHON, "test/suite/self_test.py"]), about="that script/test itself can fail")),
        (everywhere, Part("build-release", lambda: s.build("release", *HELPERS),
                          about="the program, the tests and the simulators at -O2")),
        (everywhere, Part("unit", lambda: s.unit("release"), RELEASE_TESTS,
                          "the tests in C, on real Redis, MariaDB and RabbitMQ")),
        (everywhere, Part("integration", s.integration, RELEASE,
                          "the program as its users see it")),
        (everywhere, Part("distributed", lambda: s.distributed(), RELEASE,
                          "the contract on the distributed engine")),
        ((FULL,), Part("segments", lambda: s.distributed(SLUICE_SEGMENTS="3",
                                                         SLUICE_DATABASES="3"), RELEASE,
                       "the same with three segments and three databases")),
        (LONGER, Part("drill", s.drill, RELEASE, "a sale under load while a fault strikes")),
        (LONGER, Part("browser", s.browser, RELEASE, "storefront and console in Chromium")),
        (everywhere, Part("simulate", lambda: s.simulate(
            "release", SEED_CPU_S[s.length], SEEDS_TWICE[s.length]), RELEASE_TESTS,
            "histories of both engines against their promises")),
        (LONGER, Part("mutants", s.mutants, RELEASE_TESTS,
                      "planted bugs that the simulators must catch")),
        (LONGER, Part("fuzz", s.fuzz, about="that script/fuzz finds a planted bug")),
        (LONGER, Part("tidy", s.tidy, RELEASE_TESTS, "clang-tidy", may_be_empty=True)),
        (LONGER, Part("build-asan", lambda: s.build("asan", *HELPERS),
                      about="the same under ASan and UBSan")),
        (LONGER, Part("unit-asan", lambda: s.unit("asan"), ("build-asan",),
                      "the tests in C under ASan and UBSan")),
        (LONGER, Part("simulate-asan", lambda: s.simulate("asan", SEED_CPU_ASAN_S[s.length], 0),
                      ("build-asan",), "the simulators under ASan and UBSan")),
        (LONGER, Part("integration-asan", lambda: s.pytest(
            "asan", *(() if s.length == FULL else ("asan",))), ("build-asan:program",),
            "the program under ASan and UBSan; in the gate the tests marked asan")),
        (LONGER, Part("build-tsan", lambda: s.build("tsan"), about="the threaded tests under TSan")),
        (LONGER, Part("unit-tsan", lambda: s.unit("tsan"), ("build-tsan",),
                      "the threaded tests in C under TSan")),
        ((FULL,), Part("coverage", s.coverage, about="every branch of core and the journal")),
        ((FULL,), Part("crash", s.crash, RELEASE, "kill -9 and a disk that forgets, 100 times each")),
        ((FULL,), Part("commands", s.commands, about="each command first, in a bare root")),
    ]
    return {part.name: (lengths, part) for lengths, part in rows}
