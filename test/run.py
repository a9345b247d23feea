#!/usr/bin/python3
"""The parts of script/test, run one after the other, and their sum.

A part runs a command, keeps its output in build/test-logs/PART.log, and gives counts of what
passed, failed and was skipped. A command that fails without naming a failed test counts as one
failure, so nothing that goes wrong sums up to zero; a part whose build failed is not run and counts
as one failure, too. Where a part fails, the end of its log is printed.
"""

import argparse
import concurrent.futures
import contextlib
import hashlib
import json
import os
import re
import shutil
import socket
import subprocess
import sys
import tempfile
import time
import xml.etree.ElementTree as xml
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
LOGS = ROOT / "build" / "test-logs"
PYTHON = "/usr/bin/python3"
TAIL_LINES = 60
# A part that takes longer than this hangs (the long loops have hours).
PART_TIMEOUT_S = 45 * 60
LONG_TIMEOUT_S = 12 * 3600

SANITIZERS = {
    "ASAN_OPTIONS": "detect_stack_use_after_return=1:strict_string_checks=1",
    "UBSAN_OPTIONS": "print_stacktrace=1",
    "TSAN_OPTIONS": "second_deadlock_stack=1",
}


class Counts:
    def __init__(self, passed=0, failed=0, skipped=0):
        self.passed, self.failed, self.skipped = passed, failed, skipped

    def __add__(self, other):
        return Counts(self.passed + other.passed, self.failed + other.failed,
                      self.skipped + other.skipped)

    def __str__(self):
        skipped = f", {self.skipped} skipped" if self.skipped else ""
        return f"{self.passed} passed, {self.failed} failed{skipped}"


class Part:
    """What a part's function gets: its log, and how to run a command into it."""

    def __init__(self, name, options):
        self.name, self.options = name, options
        self.log_path = LOGS / f"{name}.log"
        self.log = self.log_path.open("w")
        self.note = ""

    def run(self, *command, env=None, stdout=None):
        """The exit code of a command; its output goes to the log, or to the file given."""
        self.log.write("$ " + " ".join(map(str, command)) + "\n")
        self.log.flush()
        timeout = LONG_TIMEOUT_S if self.options.long else PART_TIMEOUT_S
        process = subprocess.Popen([str(word) for word in command], cwd=ROOT,
                                   stdout=stdout or self.log, stderr=self.log,
                                   stdin=subprocess.DEVNULL, env={**os.environ, **(env or {})},
                                   start_new_session=True)
        try:
            return process.wait(timeout)
        except subprocess.TimeoutExpired:
            os.killpg(process.pid, 9)
            process.wait()
            self.log.write(f"\nkilled: still running after {timeout} s\n")
            return 124
        except BaseException:
            os.killpg(process.pid, 15)
            process.wait()
            raise

    def result(self, counts, code):
        """The counts; a command that failed without a failed test is a failure of its own."""
        if code != 0 and counts.failed == 0:
            counts.failed = 1
        return counts


def build(part, preset):
    """Only a build that fails is counted."""
    code = part.run("cmake", "--preset", preset) or part.run(
        "cmake", "--build", "--preset", preset, "--", "-k", "0")
    return part.result(Counts(), code)


def ctest_counts(junit):
    """The cases inside each cmocka program, from its output; a crash counts as one."""
    counts = Counts()
    for case in xml.parse(junit).getroot().iter("testcase"):
        output = case.findtext("system-out") or ""
        number = lambda word: sum(map(int, re.findall(rf"\[\s*{word}\s*\] (\d+) test", output)))
        one = Counts(number("PASSED"), number("FAILED"), number("SKIPPED"))
        if case.get("status") != "run" and one.failed == 0:
            one.failed = 1
        elif case.get("status") == "run" and one.passed + one.skipped == 0:
            one.passed = 1
        counts += one
    return counts


def start_redis(program, folder, log):
    """(process, port) of a Redis of our own; None where it did not come up."""
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port = probe.getsockname()[1]
    # By its full path: DEBUG RESTART, which a test uses, starts it again by that.
    process = subprocess.Popen(
        [program, "--port", str(port), "--bind", "127.0.0.1", "--dir", folder, "--save", "",
         "--appendonly", "no", "--enable-debug-command", "local"],
        cwd=folder, stdin=subprocess.DEVNULL, stdout=log, stderr=log, start_new_session=True)
    for _ in range(1000):
        if process.poll() is not None:
            return None
        with contextlib.suppress(OSError), socket.create_connection(("127.0.0.1", port), 1) as s:
            s.sendall(b"PING\r\n")
            if s.recv(16).startswith(b"+PONG"):
                return process, port
        time.sleep(0.01)
    process.kill()
    process.wait()
    return None


@contextlib.contextmanager
def private_redis(part):
    """Environment that names a Redis for the tests; empty where there is none, and then they say
    that they were skipped."""
    program = shutil.which("redis-server")
    if program is None:
        part.note = "no redis-server"
        yield {}
        return
    with tempfile.TemporaryDirectory(prefix="sluice-redis-") as folder, \
            (LOGS / f"{part.name}.redis.log").open("w") as log:
        started = start_redis(program, folder, log) or start_redis(program, folder, log)
        if started is None:
            raise RuntimeError(f"redis-server did not start, see {log.name}")
        process, port = started
        try:
            yield {"SLUICE_TEST_REDIS": f"127.0.0.1:{port}"}
        finally:
            process.terminate()
            try:
                process.wait(10)
            except subprocess.TimeoutExpired:
                process.kill()
                process.wait()


def mariadb(part):
    """A server for the tests of the MariaDB ledger, or None: they say then that they were skipped."""
    sys.path.insert(0, str(ROOT / "test/integration"))
    import marialib 
    if marialib.missing():
        part.note = f"no MariaDB: {marialib.missing()} missing"
        return None
    return marialib.MariaDB()


def rabbitmq(part):
    """A broker for the tests of the queue, which start it when they need it; or none, then they say
    that they were skipped."""
    sys.path.insert(0, str(ROOT / "test/integration"))
    import rabbitlib
    if rabbitlib.missing():
        part.note = f"no RabbitMQ: {rabbitlib.missing()} missing"
        return contextlib.nullcontext({})
    return rabbitlib.Control()


def unit(part, preset, *ctest_options):
    server = mariadb(part)
    if server is None:
        return run_ctest(part, preset, {}, *ctest_options)
    with server:
        return run_ctest(part, preset, {"SLUICE_TEST_MARIADB": server.address()}, *ctest_options)


def run_ctest(part, preset, env, *ctest_options):
    junit = LOGS / f"{part.name}.xml"
    junit.unlink(missing_ok=True)
    long = {"SLUICE_LONG": "1"} if part.options.long else {}
    with private_redis(part) as redis, rabbitmq(part) as rabbit:
        code = part.run("setarch", "-R", "ctest", "--preset", preset, "-j", os.cpu_count() or 1,
                        "--test-output-size-passed", "1000000",
                        "--test-output-size-failed", "1000000", "--output-junit", junit,
                        *ctest_options, env={**SANITIZERS, **long, **redis, **rabbit, **env})
    return part.result(ctest_counts(junit) if junit.exists() else Counts(), code)


def distributed(part, preset):
    """The contract and the rush on the distributed engine, whose servers the tests start."""
    return pytest(part, preset, "not embedded", files=("test_contract_*.py", "test_rush.py"),
                  extra={"SLUICE_ENGINE": "distributed"})


def pytest(part, preset, *markers, files=("test_*.py",), extra=None):
    """The tests with these markers; those marked slow only with --long."""
    if not list((ROOT / "test/integration").glob("test_*.py")):
        part.note = "no tests yet"
        return Counts()
    junit = LOGS / f"{part.name}.xml"
    junit.unlink(missing_ok=True)
    reports = LOGS / f"{part.name}.sanitizer"
    for old in LOGS.glob(reports.name + ".*"):
        old.unlink()
    env = {key: f"{value}:log_path={reports}" for key, value in SANITIZERS.items()}
    env.update(SLUICE=str(ROOT / "build" / preset / "sluice"), PYTHONDONTWRITEBYTECODE="1")
    if part.options.long:
        env["SLUICE_LONG"] = "1"
    else:
        markers += ("not slow",)
    code = part.run("setarch", "-R", PYTHON, "-m", "pytest", "-q", "-ra", "--tb=short",
                    f"--junit-xml={junit}", "-m", " and ".join(markers),
                    *sorted(str(path.relative_to(ROOT)) for pattern in files
                            for path in (ROOT / "test/integration").glob(pattern)),
                    env={**env, **(extra or {})})
    counts = Counts()
    if junit.exists():
        for suite in xml.parse(junit).getroot().iter("testsuite"):
            total, skipped = int(suite.get("tests")), int(suite.get("skipped"))
            failed = int(suite.get("failures")) + int(suite.get("errors"))
            counts += Counts(total - failed - skipped, failed, skipped)
    # A server that a sanitizer stopped is a failure even where the test did not look.
    for report in sorted(LOGS.glob(reports.name + ".*")):
        part.log.write(f"\n{report.name}:\n{report.read_text(errors='replace')}")
        counts.failed += 1
    if code == 5:
        part.note, code = "no test selected", 0
    return part.result(counts, code)


def browser(part):
    tests = sorted((ROOT / "test/browser").glob("*.test.mjs"))
    if not tests:
        part.note = "no tests yet"
        return Counts()
    tap = LOGS / "browser.tap"
    with tap.open("w") as file:
        code = part.run("node", "--test", "--test-reporter=tap", *tests, stdout=file,
                        env={"SLUICE": str(ROOT / "build/release/sluice")})
    text = tap.read_text(errors="replace")
    part.log.write(text)
    number = lambda word: sum(map(int, re.findall(rf"^# {word} (\d+)$", text, re.M)))
    skipped = number("skipped") + number("todo")
    return part.result(Counts(number("pass"), number("fail") + number("cancelled"), skipped), code)


def layers(part):
    """Two tests: the checker finds what it must, and finds nothing here."""
    codes = [part.run(PYTHON, "test/layers.py", "--self-test"), part.run(PYTHON, "test/layers.py")]
    return Counts(codes.count(0), len(codes) - codes.count(0))


def format_check(part):
    code = part.run("script/format", "--check")
    return Counts(int(code == 0), int(code != 0))


def tidy_key(entry):
    """What a verdict of clang-tidy depends on: the settings, and the file with all its includes."""
    words = entry["command"].split()
    words = [word for word in words if not word.endswith("ccache")]
    cut = words.index("-o")
    text = subprocess.run(words[:cut] + ["-E", "-CC", entry["file"]], cwd=entry["directory"],
                          capture_output=True, check=True).stdout
    return hashlib.sha256((ROOT / ".clang-tidy").read_bytes() + text).hexdigest()


def tidy_file(entry):
    """(file, output or None if clean). A verdict is kept until the file or the settings change."""
    name = Path(entry["file"]).relative_to(ROOT).as_posix()
    verdict = ROOT / "build/tidy" / (name.replace("/", "_") + ".clean")
    key = tidy_key(entry)
    if verdict.exists() and verdict.read_text() == key:
        return name, None
    done = subprocess.run(["clang-tidy-14", "--quiet", "-p", str(ROOT / "build/release"),
                           entry["file"]], cwd=ROOT, text=True, capture_output=True)
    if done.returncode == 0:
        verdict.write_text(key)
        return name, None
    return name, done.stdout + done.stderr


def tidy(part):
    """One test for each file of src that the build compiles."""
    commands = json.loads((ROOT / "build/release/compile_commands.json").read_text())
    entries = [entry for entry in commands if entry["file"].startswith(str(ROOT / "src") + "/")]
    (ROOT / "build/tidy").mkdir(exist_ok=True)
    counts = Counts()
    with concurrent.futures.ThreadPoolExecutor(os.cpu_count() or 1) as pool:
        for name, output in pool.map(tidy_file, entries):
            if output is None:
                counts.passed += 1
            else:
                counts.failed += 1
                part.log.write(f"{name}:\n{output}\n")
    return counts


def known_seeds(name):
    lines = (ROOT / "test/simulation" / name).read_text().splitlines()
    return [("--seeds", 1, "--first", line.split()[0]) for line in lines
            if not line.startswith("#")]


def simulate(part, preset, seeds, twice):
    """Of each engine: one test for the seeds, one for those that run twice and must be the same, and
    one for each that found something once."""
    program = f"build/{preset}/test/simulate"
    # A killed server frees nothing, the simulated one either: leaks say nothing here.
    env = {"ASAN_OPTIONS": SANITIZERS["ASAN_OPTIONS"] + ":detect_leaks=0"}
    runs = [("--seeds", seeds * (20 if part.options.long else 1))]
    runs += [("--determinism", twice)] if twice else []
    runs = [(program, *run) for run in runs + known_seeds("seeds.txt")]
    runs += [(program + "_distributed", "--seeds", seeds // 2 * (20 if part.options.long else 1))]
    runs += [(program + "_distributed", "--determinism", twice)] if twice else []
    runs += [(program + "_distributed", *run) for run in known_seeds("seeds_distributed.txt")]
    codes = [part.run("setarch", "-R", *run, env=env) for run in runs]
    return Counts(codes.count(0), len(codes) - codes.count(0))


def mutants(part):
    """One test for each planted bug, and one for the source without any."""
    table = LOGS / "mutants.json"
    table.unlink(missing_ok=True)
    code = part.run(PYTHON, "test/mutants.py", "--json", table)
    counts = Counts()
    if table.exists():
        told = json.loads(table.read_text())
        caught = sum(mutant["caught"] for mutant in told["mutants"])
        counts = Counts(caught, len(told["mutants"]) - caught)
        counts += Counts(int(not told["clean"]), int(bool(told["clean"])))
    return part.result(counts, code)


def coverage(part):
    """One test for each file of core and the journal, and one for the judgement itself."""
    verdicts = LOGS / "coverage.txt"
    with verdicts.open("w") as file:
        code = (part.run(PYTHON, "test/coverage.py", "--self-test", stdout=file)
                or part.run("script/coverage", "--check", stdout=file))
    text = verdicts.read_text(errors="replace")
    part.log.write(text)
    number = lambda word: len(re.findall(rf"^{word} +\S", text, re.M))
    return part.result(Counts(number("ok"), number("FAILED")), code)


def fuzz(part):
    """That script/fuzz finds the canary; the corpora are replayed by the unit tests."""
    verdicts = LOGS / "fuzz.txt"
    with verdicts.open("w") as file:
        code = part.run(PYTHON, "test/fuzz/test_script.py",
                        *(["--long"] if part.options.long else []), stdout=file)
    text = verdicts.read_text(errors="replace")
    part.log.write(text)
    number = lambda word: len(re.findall(rf"^{word} +\S", text, re.M))
    return part.result(Counts(number("ok"), number("FAILED")), code)


def drill(part):
    """One test for each drill of the short form: a sale under load while a fault strikes."""
    verdicts = LOGS / "drill.jsonl"
    with verdicts.open("w") as file:
        short = [] if part.options.long else ["--short"]
        code = part.run(PYTHON, "script/drill", "--json", *short, stdout=file,
                        env={"SLUICE": str(ROOT / "build/release/sluice")})
    counts = Counts()
    for line in verdicts.read_text().splitlines():
        told = json.loads(line)
        part.log.write(json.dumps(told, indent=1) + "\n")
        counts += Counts(int(told["ok"]), int(not told["ok"]))
    return part.result(counts, code)


# name: (function, the build it needs, in --quick?)
PARTS = {
    "layers": (layers, None, True),
    "format": (format_check, None, True),
    "build-release": (lambda part: build(part, "release"), None, True),
    "unit-release": (lambda part: unit(part, "release"), "release", True),
    "tidy": (tidy, "release", False),
    "integration": (lambda part: pytest(part, "release"), "release", True),
    "distributed": (lambda part: distributed(part, "release"), "release", True),
    "drill": (drill, "release", False),
    "browser": (browser, "release", False),
    "simulate": (lambda part: simulate(part, "release", 500, 20), "release", True),
    "fuzz": (fuzz, None, False),
    "mutants": (mutants, "release", False),
    "build-asan": (lambda part: build(part, "asan"), None, False),
    "unit-asan": (lambda part: unit(part, "asan"), "asan", False),
    "simulate-asan": (lambda part: simulate(part, "asan", 40, 0), "asan", False),
    "integration-asan": (lambda part: pytest(part, "asan", "asan"), "asan", False),
    "build-tsan": (lambda part: build(part, "tsan"), None, False),
    "unit-tsan": (lambda part: unit(part, "tsan"), "tsan", False),
    "coverage": (coverage, None, False),
}


def parse_options():
    parser = argparse.ArgumentParser(prog="script/test", description="Runs every test.")
    parser.add_argument("--quick", action="store_true",
                        help="without tidy, browser, fuzz, mutants, sanitizers and coverage")
    parser.add_argument("--long", action="store_true",
                        help="the tests marked slow and the long loops, too (SLUICE_LONG=1)")
    parser.add_argument("--only", action="append", choices=list(PARTS), metavar="PART",
                        help="only this part and the build it needs; may be repeated. Parts: "
                             + " ".join(PARTS))
    parser.add_argument("--unready", action="store_true", help=argparse.SUPPRESS)
    return parser.parse_args()


def chosen_parts(options):
    if options.only:
        needed = {f"build-{PARTS[name][1]}" for name in options.only if PARTS[name][1]}
        return [name for name in PARTS if name in options.only or name in needed]
    return [name for name, (_, _, quick) in PARTS.items() if quick or not options.quick]


def run_part(name, options, broken_builds):
    function, needs, _ = PARTS[name]
    if needs in broken_builds:
        print(f"{name:18} not run: build-{needs} failed", flush=True)
        return Counts(failed=1)
    part = Part(name, options)
    started = time.monotonic()
    try:
        counts = function(part)
    except Exception as error:  # A broken part is a failure; the other parts still run.
        part.log.write(f"\n{type(error).__name__}: {error}\n")
        counts = Counts(failed=1)
    part.log.close()
    note = f" ({part.note})" if part.note else ""
    print(f"{name:18} {counts}{note}  {time.monotonic() - started:.1f} s", flush=True)
    if counts.failed:
        tail = part.log_path.read_text(errors="replace").splitlines()[-TAIL_LINES:]
        print(f"--- the end of {part.log_path.relative_to(ROOT)}")
        print("\n".join(tail), f"--- {name} failed", sep="\n", flush=True)
    return counts


def main():
    options = parse_options()
    LOGS.mkdir(parents=True, exist_ok=True)
    total, broken_builds = Counts(failed=int(options.unready)), set()
    if options.unready:
        print("bootstrap          0 passed, 1 failed", flush=True)
    for name in chosen_parts(options):
        counts = run_part(name, options, broken_builds)
        if counts.failed and name.startswith("build-"):
            broken_builds.add(name[len("build-"):])
        total += counts
    print(total)
    return 1 if total.failed else 0


if __name__ == "__main__":
    sys.exit(main())
