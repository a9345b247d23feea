#!/usr/bin/python3
"""Planted bugs: does the simulator catch what it is there to catch?

  test/mutants.py                     every patch of test/mutants
  test/mutants.py trims late-payment  those whose names contain one of these words
  test/mutants.py --jobs 4            commands at a time (as many as cores)
  test/mutants.py --seeds 10000       seeds of a hunt, at most (3000)
  test/mutants.py --keep              writes the seeds that caught to test/mutants/seeds.txt
  test/mutants.py --json FILE         the table for programs, too
  test/mutants.py --self-test         plants patches that must be reported as failures

Each test/mutants/NN-name.patch is one bug; its first line says which promise of the design it
breaks and how. The release build is brought up to date, and each patch is applied to copies of the
files it touches, in a folder of this run below build/mutants. Only the objects that depend on those
files are compiled, and the simulator (of the distributed engine, where the name says so) is linked
again with them in place of its own.

First the patched simulator runs the seed that caught the bug last time (test/mutants/seeds.txt). If
that seed passes, or none is known, it runs seeds 1, 2, 3 ... until one fails: a hunt. Then the
simulator without any patch runs every seed that caught.

Failures: a patch that does not apply, does not compile, changes nothing of the simulator, or is not
caught; a seed that also fails without a patch, because then it did not catch the bug. Prints a
table, each row when it is ready, and writes it to build/mutants/report.txt, sorted by name. Exit 0
or 1; 130 when interrupted.
"""

import argparse
import collections
import ctypes
import difflib
import json
import os
import re
import resource
import shlex
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
BUILD = ROOT / "build" / "release"
WORK = ROOT / "build" / "mutants"
PATCHES = ROOT / "test" / "mutants"
SEEDS = PATCHES / "seeds.txt"
SEEDS_HEAD = """\
# The seed that caught each planted bug last time: test/mutants.py tries it first. Written by
# test/mutants.py --keep. A seed's meaning changes with the simulator, so a line that no longer
# catches is no failure by itself: the bug is then hunted from seed 1 on.
"""
TARGETS = ("simulate", "simulate_distributed")
WORKERS_MAX = 256  # the simulator's own limit
STOP_S = 5
PR_SET_PDEATHSIG = 1


class Failed(Exception):
    """Said in the table instead of what the simulator said."""


# ---- commands, some at a time ----

Done = collections.namedtuple("Done", "code out err cpu_s")


class Running:
    """A command that has been started for a task; `index` is its place among the task's."""

    def __init__(self, task, index, words, cwd):
        self.task, self.index = task, index
        self.out, self.err = tempfile.TemporaryFile(), tempfile.TemporaryFile()
        # A group of its own, so that what it started ends with it.
        self.process = subprocess.Popen([str(word) for word in words], cwd=cwd, process_group=0,
                                        stdin=subprocess.DEVNULL, stdout=self.out, stderr=self.err,
                                        preexec_fn=end_with_parent)

    def done(self, status, usage):
        self.process.returncode = os.waitstatus_to_exitcode(status)
        texts = []
        for file in (self.out, self.err):
            file.seek(0)
            texts.append(file.read().decode(errors="replace"))
            file.close()
        return Done(self.process.returncode, *texts, usage.ru_utime + usage.ru_stime)


LIBC = ctypes.CDLL(None)


def end_with_parent():
    LIBC.prctl(PR_SET_PDEATHSIG, signal.SIGKILL)


class Scheduler:
    """Runs tasks: generators that yield a list of commands (words, folder) and are sent back a list
    of Done when all of them have ended. At most `jobs` commands run at a time; commands of tasks
    that have begun go before tasks that have not."""

    def __init__(self, jobs):
        self.jobs = jobs
        self.running = {}
        self.waiting = self.stopped = False
        for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
            signal.signal(number, self.on_signal)

    def on_signal(self, _number, _frame):
        """Raises only where every process that was started is in self.running."""
        self.stopped = True
        if self.waiting:
            self.waiting = False
            raise KeyboardInterrupt

    def run(self, tasks):
        tasks, ready = collections.deque(tasks), collections.deque()
        results = {}

        def advance(task, done):
            """The task's next commands go to the front; a task that ends is forgotten."""
            try:
                commands = task.send(done)
            except StopIteration:
                results.pop(task, None)
                return
            assert commands
            results[task] = [None] * len(commands)
            ready.extendleft(reversed([(task, i, *command) for i, command in enumerate(commands)]))

        while True:
            while len(self.running) < self.jobs and (ready or tasks):
                if ready:
                    started = Running(*ready.popleft())
                    self.running[started.process.pid] = started
                else:
                    advance(tasks.popleft(), None)
            if not self.running:
                return
            ended, done = self.wait()
            results[ended.task][ended.index] = done
            if all(results[ended.task]):
                advance(ended.task, results[ended.task])

    def wait(self):
        self.waiting = True
        if self.stopped:
            self.waiting = False
            raise KeyboardInterrupt
        pid, status, usage = os.wait4(-1, 0)
        self.waiting = False
        ended = self.running.pop(pid)
        return ended, ended.done(status, usage)

    def run_one(self, task):
        self.run([task])

    def stop(self):
        """Ends what runs: with SIGTERM, so that temporary files go, too; then with SIGKILL."""
        until = time.monotonic() + STOP_S
        for number in (signal.SIGTERM, signal.SIGKILL):
            for pid in self.running:
                try:
                    os.killpg(pid, number)
                except ProcessLookupError:
                    pass
            while self.running and (number == signal.SIGKILL or time.monotonic() < until):
                try:
                    pid, status = os.waitpid(-1, os.WNOHANG)
                except ChildProcessError:
                    self.running.clear()
                    break
                if pid == 0:
                    time.sleep(0.01)
                elif pid in self.running:
                    self.running.pop(pid).process.returncode = os.waitstatus_to_exitcode(status)


# ---- the release build ----

def first_error(done):
    return (re.findall(r"^.*(?:error: |undefined reference|multiple definition).*$",
                       done.out + done.err, re.M) or [(done.out + done.err)[-1000:]])[0]


def linked(trace):
    """What the linker took (-t -t): objects as named, members of archives as `(archive)member`."""
    return set(trace.split("\n"))


class Simulator:
    """How one of the two programs is made."""

    def __init__(self, target, edges):
        self.program = BUILD / "test" / target
        words = shlex.split(edges[f"test/{target}"])
        if words[:2] != [":", "&&"] or words[-2:] != ["&&", ":"] or words.count("&&") != 2:
            raise Failed(f"not a link command: {edges[f'test/{target}']}")
        self.words = words[2:-2]
        # object -> what the linker's trace calls it
        self.objects = {word: word for word in self.words if word.endswith(".o")}
        for archive in (word for word in self.words if word in edges and word.endswith(".a")):
            self.objects.update((word, f"({archive}){Path(word).name}")
                                for word in shlex.split(edges[archive]) if word.endswith(".o"))

    def link(self, program, replaced):
        """The command; `replaced`: object -> the one to take. An archive's member is not taken when
        an object in front of the archives has its symbols."""
        words = [str(replaced.get(word, word)) for word in self.words]
        words[words.index("-o") + 1] = str(program)
        in_front = [str(new) for old, new in replaced.items() if old not in self.words]
        archives = next(i for i, word in enumerate(words) if word.endswith(".a"))
        return [*words[:archives], *in_front, *words[archives:], "-Wl,-S,-t,-t"], BUILD

    def keep_linked(self, trace):
        """Forgets members of archives that the program does not need."""
        used = linked(trace)
        self.objects = {path: name for path, name in self.objects.items() if name in used}


class Build:
    """The release build: commands and dependencies of everything in the two simulators."""

    def __init__(self, folder):
        self.folder = folder  # for whatever is made here; the caller removes it
        self.edges = self.depends = self.simulators = None

    def steps(self):
        if not (BUILD / "build.ninja").exists():
            [done] = yield [(["cmake", "--preset", "release"], ROOT)]
            if done.code != 0:
                raise Failed("cmake failed: " + done.err[-1000:])
        [done] = yield [(["ninja", "-C", BUILD, *TARGETS], ROOT)]
        if done.code != 0:
            raise Failed("does not build without a patch: " + first_error(done))
        database, depends = yield [(["ninja", "-C", BUILD, "-t", "compdb"], ROOT),
                                   (["ninja", "-C", BUILD, "-t", "deps"], ROOT)]
        # Its first line may be ninja's own, about the folder.
        self.edges = {edge["output"]: edge["command"]
                      for edge in json.loads(database.out[database.out.index("[\n"):])}
        self.depends = {}
        for block in depends.out.split("\n\n"):
            name, _, files = block.partition(": #deps ")
            self.depends[name.rsplit("\n", 1)[-1]] = {
                os.path.normpath(BUILD / line.strip()) for line in files.split("\n")[1:]}
        self.simulators = {target: Simulator(target, self.edges) for target in TARGETS}
        traces = yield [self.simulators[target].link(self.folder / target, {})
                        for target in TARGETS]
        for target, done in zip(TARGETS, traces):
            (self.folder / target).unlink(missing_ok=True)
            if done.code != 0:
                raise Failed(f"{target} does not link: " + first_error(done))
            self.simulators[target].keep_linked(done.out)

    def dependents(self, target, files):
        """The simulator's objects that depend on one of the files."""
        paths = {str(ROOT / name) for name in files}
        return [name for name in self.simulators[target].objects
                if paths & self.depends.get(name, set())]


# ---- one planted bug ----

def simulate(program, *options):
    """A task's step: the figures and failures of a run."""
    [done] = yield [([program, *options, "--no-shrink", "--json"], ROOT)]
    try:
        return json.loads(done.out), done.cpu_s
    except ValueError as error:
        raise Failed(f"simulate ended with {done.code}: {done.err[-500:]}") from error


class Mutant:
    def __init__(self, path, known=None):
        self.path, self.name, self.known = path, path.stem, known
        text = path.read_text()
        self.says = text.split("\n--- ", 1)[0].replace("\n", " ")
        self.files = re.findall(r"^\+\+\+ b/(\S+)", text, re.M)
        self.target = TARGETS["-distributed-" in self.name]
        self.folder = self.program = None
        self.seed = self.promise = self.how = None
        self.what = ""
        self.over = False
        self.seconds = self.cpu_s = 0.0

    @property
    def caught(self):
        return self.seed is not None

    def row(self):
        seed = str(self.seed) if self.caught else "-"
        promise = str(self.promise) if self.caught else "-"
        what = ("" if self.caught else "FAILED: ") + self.what.replace("\n", " ")
        return f"{self.name:45} {seed:>6} {promise:>8} {self.seconds:6.1f}  {what}"

    def timed(self, steps, ended):
        """The steps as a task of its own: what they cost, and what Failed says. Calls `ended` and
        removes the program when nothing is left to be done."""
        started = time.monotonic()
        try:
            yield from steps
        except Failed as failure:
            self.what, self.over = str(failure), True
        self.seconds += time.monotonic() - started
        if self.over:
            shutil.rmtree(self.folder)
            ended(self)

    # Each of these is a part of a task.

    def first_try(self, build):
        """Plants the bug and runs the seed that is known to catch it."""
        yield from self.plant(build)
        if self.known is not None:
            yield from self.try_seeds("known seed", "--seed", self.known)

    def hunt(self, seeds, jobs):
        """Runs all seeds up to the first that fails. The lowest is found, however many workers."""
        yield from self.try_seeds("hunt", "--seeds", seeds, "--jobs", jobs)
        if not self.over:
            raise Failed(f"not caught by {seeds} seeds")

    def try_seeds(self, how, *options):
        told, cpu_s = yield from simulate(self.program, *options)
        self.cpu_s += cpu_s
        if not told["failures"]:
            return
        first = told["failures"][0]
        thin = "through too little" in first["what"]
        if (thin or first["seed"] == 0) and how == "known seed":
            return
        if thin:
            raise Failed(f"seed {first['seed']} was too short a history, which shows nothing")
        if first["seed"] == 0:
            raise Failed(f"a worker died between seeds: {first['what']}")
        self.seed, self.promise, self.what = first["seed"], first["promise"], first["what"]
        self.how, self.over = how, True

    def plant(self, build):
        """Makes the patched program."""
        self.folder = build.folder / self.name
        self.program = self.folder / self.target
        self.folder.mkdir()
        objects = build.dependents(self.target, self.files)
        yield from self.apply(build, objects)
        for name in self.files:
            if not build.dependents(self.target, [name]):
                raise Failed(f"changes nothing: {self.target} is not built from {name}")
        replaced = {name: self.folder / f"{i}.o" for i, name in enumerate(objects)}
        compiled = yield [self.compile(build, name, new) for name, new in replaced.items()]
        self.count(compiled, "does not build")
        originals = {str(ROOT / name) for name in self.files}
        for name, new in replaced.items():
            read = set(new.with_suffix(".d").read_text().split())
            if read & originals:
                raise Failed(f"does not build: {name} has read a file without the patch")
        simulator = build.simulators[self.target]
        [done] = yield [simulator.link(self.program, replaced)]
        self.count([done], "does not link")
        used = linked(done.out)
        if not used >= {str(new) for new in replaced.values()}:
            raise Failed("does not link: a patched object was not taken")
        if used & {simulator.objects[name] for name in replaced}:
            raise Failed("does not link: an object without the patch was taken")

    def apply(self, build, objects):
        """Makes a folder of what the objects are compiled from: the files that the patch touches
        are patched copies, all others are links."""
        for name in self.files:
            (self.folder / name).parent.mkdir(parents=True, exist_ok=True)
            if (ROOT / name).exists():
                shutil.copyfile(ROOT / name, self.folder / name)
        [done] = yield [(["patch", "-p1", "--batch", "--forward", "--no-backup-if-mismatch",
                          "--reject-file=-", "-i", self.path], self.folder)]
        self.cpu_s += done.cpu_s
        if done.code != 0 or not self.files:
            raise Failed("does not apply: " + (done.out + done.err)[-1000:])
        for path in set().union(*(build.depends[name] for name in objects)):
            link = self.in_folder(path)
            if link is not None and not link.exists():
                link.parent.mkdir(parents=True, exist_ok=True)
                link.symlink_to(path)

    def in_folder(self, path):
        """Where a file or folder of the source is in this mutant's, or None."""
        path = Path(path)
        if path.is_relative_to(ROOT) and not path.is_relative_to(ROOT / "build"):
            return self.folder / path.relative_to(ROOT)
        return None

    def compile(self, build, name, new):
        """The build's command, on this mutant's folder. A folder of the source stays behind the one
        that stands for it, for headers that only the patch includes. -g0 and -O1 save a third of
        the CPU time; a seed's history does not depend on them (sanitizer builds use -O1, too)."""
        words = []
        for word in shlex.split(build.edges[name]):
            before = words[-1] if words else ""
            path = word[2:] if word.startswith("-I") else word
            place = self.in_folder(path) if os.path.isabs(path) else None
            if before == "-o":
                words.append(str(new))
            elif before == "-MF":
                words.append(str(new.with_suffix(".d")))
            elif place is None:
                words.append(word)
            elif word.startswith("-I"):
                words += [f"-I{place}", word]
            else:
                words += [f"-iquote{Path(path).parent}", str(place)]
        return [*words, "-g0", "-O1", "-pipe",
                f"-fmacro-prefix-map={self.folder}/="], BUILD

    def count(self, all_done, what):
        self.cpu_s += sum(done.cpu_s for done in all_done)
        for done in all_done:
            if done.code != 0:
                raise Failed(f"{what}: {first_error(done)}")


def check_clean(program, seed, failures):
    """A task: a seed that must pass; what is wrong goes to failures[seed]."""
    try:
        told, _ = yield from simulate(program, "--seed", seed)
        for first in told["failures"][:1]:
            failures[seed] = f"seed {seed}, promise {first['promise']}: {first['what']}"
    except Failed as failure:
        failures[seed] = f"seed {seed}: {failure}"


# ---- all of them ----

def read_seeds():
    lines = SEEDS.read_text().split("\n") if SEEDS.exists() else []
    return {line.split()[0]: int(line.split()[1]) for line in lines
            if line and not line.startswith("#")}


def write_seeds(mutants, clean):
    """Of this run, and what was known of patches that did not run or were not caught."""
    seeds = read_seeds() | {mutant.name: mutant.seed for mutant in mutants
                            if mutant.caught and mutant.seed not in clean[mutant.target]}
    there = {path.stem for path in PATCHES.glob("*.patch")}
    SEEDS.write_text(SEEDS_HEAD + "".join(f"{name} {seed}\n" for name, seed in sorted(seeds.items())
                                          if name in there))


def cpu_used():
    return sum(usage.ru_utime + usage.ru_stime for usage in
               map(resource.getrusage, (resource.RUSAGE_SELF, resource.RUSAGE_CHILDREN)))


def judge(scheduler, build, mutants, seeds, ended):
    """All known seeds first, a command for each core. Then the hunts, one after the other with all
    cores for each, so that the longest does not run alone at the end."""
    def size(mutant):
        return sum((ROOT / file).stat().st_size for name in
                   build.dependents(mutant.target, mutant.files) for file in
                   build.depends[name] if file.endswith(".c"))
    scheduler.run([mutant.timed(mutant.first_try(build), ended)
                   for mutant in sorted(mutants, key=size, reverse=True)])
    for mutant in mutants:
        if not mutant.over:
            scheduler.run_one(mutant.timed(mutant.hunt(seeds, min(scheduler.jobs, WORKERS_MAX)),
                                           ended))


def judge_clean(scheduler, build, mutants):
    """Seeds that caught and fail without a patch: target -> {seed: what}; and how many ran."""
    seeds = {target: sorted({mutant.seed for mutant in mutants
                             if mutant.caught and mutant.target == target}) for target in TARGETS}
    clean = {target: {} for target in TARGETS}
    scheduler.run([check_clean(build.simulators[target].program, seed, clean[target])
                   for target in TARGETS for seed in seeds[target]])
    return clean, {target: len(seeds[target]) for target in TARGETS}


def run(scheduler, build, mutants, options):
    """The table; 0 or 1."""
    started = time.monotonic()
    head = f"{'mutant':45} {'seed':>6} {'promise':>8} {'s':>6}  what the simulator said"
    print(head, flush=True)
    scheduler.run_one(build.steps())
    judge(scheduler, build, mutants, options.seeds, lambda ended: print(ended.row(), flush=True))
    clean, ran = judge_clean(scheduler, build, mutants)
    caught = [mutant for mutant in mutants if mutant.caught]
    hunted = sum(mutant.how == "hunt" for mutant in caught)
    seconds, cpu_s = time.monotonic() - started, cpu_used()
    end = [f"{target} without a patch, {ran[target]} seeds: "
           f"{'; '.join(clean[target].values()) or 'clean'}" for target in TARGETS if ran[target]]
    end.append(f"{len(caught)} of {len(mutants)} caught, {hunted} of them by a hunt; "
               f"{seconds:.1f} s, {cpu_s:.1f} s of CPU time")
    print("\n".join(end), flush=True)
    (WORK / "report.txt").write_text("\n".join([head, *(mutant.row() for mutant in mutants), *end])
                                     + "\n")
    not_clean = "; ".join(what for target in TARGETS for what in clean[target].values())
    if options.json:
        rows = [{"name": mutant.name, "says": mutant.says, "caught": mutant.caught,
                 "seeds": mutant.seed, "promise": mutant.promise, "what": mutant.what,
                 "how": mutant.how, "seconds": round(mutant.seconds, 3),
                 "cpu_s": round(mutant.cpu_s, 3)} for mutant in mutants]
        Path(options.json).write_text(json.dumps(
            {"mutants": rows, "clean": not_clean, "seconds": round(seconds, 3),
             "cpu_s": round(cpu_s, 3)}, indent=1))
    if options.keep:
        write_seeds(mutants, clean)
    return 0 if len(caught) == len(mutants) and not not_clean else 1


# ---- the judgement itself ----

def self_test(scheduler, build):
    """Each way to fail, once."""
    scheduler.run_one(build.steps())
    gate = (ROOT / "src/core/gate.c").read_text().splitlines(True)
    main_c = (ROOT / "src/app/main.c").read_text().splitlines(True)
    other = [f"other {line}" for line in gate]
    note = ["/* nothing */\n"]
    second_main = ["int main(void);\n", "int main(void) { return 0; }\n"]
    planted = {  # name: (file, its lines, the patched lines, what must be said)
        "other-lines": ("src/core/gate.c", other, other + note, "does not apply"),
        "no-c": ("src/core/gate.c", gate, gate + ["int planted = ;\n"], "does not build"),
        "two-mains": ("src/core/gate.c", gate, gate + second_main, "does not link"),
        "no-change": ("src/core/gate.c", gate, gate + note, "not caught by 2 seeds"),
        "not-in-it": ("src/app/main.c", main_c, main_c + note, "changes nothing"),
    }
    wrong = []
    for name, (file, before, after, says) in planted.items():
        patch = build.folder / f"{name}.patch"
        patch.write_text("Promise 0: none.\n" + "".join(
            difflib.unified_diff(before, after, f"a/{file}", f"b/{file}")))
        mutant = Mutant(patch)
        judge(scheduler, build, [mutant], 2, lambda ended: None)
        if mutant.caught or not mutant.what.startswith(says):
            wrong.append(f"{name}: {mutant.what}")

    # A bug that is caught, and its program taken for the one without a patch.
    path = min(PATCHES.glob("*.patch"))
    bug = Mutant(path, read_seeds().get(path.stem))
    failures = {}
    judge(scheduler, build, [bug], 100, lambda ended: None)
    if bug.caught:
        scheduler.run_one(bug.plant(build))
        scheduler.run_one(check_clean(bug.program, bug.seed, failures))
    if not failures:
        wrong.append(f"{bug.name}: {bug.what}; taken for clean")
    print("\n".join(f"FAILED {what}" for what in wrong) or "ok     self-test")
    return 1 if wrong else 0


def parse_options():
    parser = argparse.ArgumentParser(description=__doc__,
                                     formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("words", nargs="*", help="only patches whose names contain one of these")
    parser.add_argument("--jobs", type=int, default=len(os.sched_getaffinity(0)), metavar="N",
                        help="commands at a time (as many as cores)")
    parser.add_argument("--seeds", type=int, default=3000, metavar="N",
                        help="seeds of a hunt, at most (3000)")
    parser.add_argument("--keep", action="store_true", help="writes test/mutants/seeds.txt")
    parser.add_argument("--json", metavar="FILE", help="writes the table as JSON, too")
    parser.add_argument("--self-test", action="store_true", help="tests the judgement itself")
    options = parser.parse_args()
    if options.jobs < 1 or options.seeds < 1:
        parser.error("--jobs and --seeds are at least 1")
    return options


def main():
    options = parse_options()
    known = read_seeds()
    mutants = [Mutant(path, known.get(path.stem)) for path in sorted(PATCHES.glob("*.patch"))
               if not options.words or any(word in path.stem for word in options.words)]
    if not mutants:
        print("no patch has such a name")
        return 1
    if not shutil.which("patch"):
        print("the program `patch` is missing")
        return 1
    WORK.mkdir(parents=True, exist_ok=True)
    scheduler = Scheduler(options.jobs)
    with tempfile.TemporaryDirectory(prefix="run-", dir=WORK) as folder:
        build = Build(Path(folder))
        try:
            if options.self_test:
                return self_test(scheduler, build)
            return run(scheduler, build, mutants, options)
        except Failed as failure:
            print(f"FAILED: {failure}")
            return 1
        except KeyboardInterrupt:
            return 130
        finally:
            scheduler.stop()


if __name__ == "__main__":
    sys.exit(main())
