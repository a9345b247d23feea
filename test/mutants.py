#!/usr/bin/python3
"""Planted bugs: does the simulator catch what it is there to catch?

  test/mutants.py                     every patch of test/mutants
  test/mutants.py trims late-payment  those whose names contain one of these words
  test/mutants.py --seeds 10000       more tries for each (3000)
  test/mutants.py --json FILE         the table for programs, too

Each test/mutants/NN-name.patch plants one bug in a copy of the source (build/mutants/tree); its
first line says which promise of the design it breaks and how. The copy is built, and the simulator
(of the distributed engine, where the name says so) runs seeds 1, 2, 3 ... until one fails. A patch that does not apply any more, does not build, or is
not caught is a failure, and so is a copy without any patch that fails on the same seeds: then what
was caught was not the bug. Prints a table, also into build/mutants/report.txt. Exit 0 or 1.
"""

import argparse
import json
import os
import re
import shutil
import subprocess
import sys
import time
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
WORK = ROOT / "build" / "mutants"
TREE, BUILD = WORK / "tree", WORK / "build"
PATCHES = ROOT / "test" / "mutants"
# What the simulator is built from.
COPIED = ("CMakeLists.txt", "CMakePresets.json", "cmake", "src", "lua", "web", "test")
NOT_COPIED = {"node_modules", "__pycache__", "mutants"}
CLEAN_SEEDS_LEAST = 50


class Failed(Exception):
    """Said in the table instead of a number of seeds."""


def files_of(root):
    """Relative paths of everything copied."""
    for name in COPIED:
        if (root / name).is_file():
            yield Path(name)
        for at, folders, names in os.walk(root / name):
            folders[:] = [folder for folder in folders if folder not in NOT_COPIED]
            yield from (Path(at, file).relative_to(root) for file in names)


def write_file(name, content):
    """Makes one file of the copy; its time moves only when it changes."""
    target = TREE / name
    if target.exists() and target.read_bytes() == content:
        return
    target.parent.mkdir(parents=True, exist_ok=True)
    target.write_bytes(content)


def copy_tree():
    wanted = set(files_of(ROOT))
    for name in wanted:
        write_file(name, (ROOT / name).read_bytes())
    for name in set(files_of(TREE)) - wanted:
        (TREE / name).unlink()


def run(*command, cwd=TREE):
    return subprocess.run([str(word) for word in command], cwd=cwd, text=True, check=False,
                          stdin=subprocess.DEVNULL, stdout=subprocess.PIPE,
                          stderr=subprocess.STDOUT)


def build(target="simulate"):
    """The program; Failed with the compiler's first complaint."""
    if not (BUILD / "build.ninja").exists():
        done = run("cmake", "-S", TREE, "-B", BUILD, "-G", "Ninja", "-DCMAKE_BUILD_TYPE=Release")
        if done.returncode != 0:
            raise Failed("cmake failed: " + done.stdout[-1000:])
    done = run("ninja", "-C", BUILD, target)
    if done.returncode != 0:
        errors = re.findall(r"^.*error: .*$", done.stdout, re.M) or [done.stdout[-1000:]]
        raise Failed("does not build: " + errors[0])
    return BUILD / "test" / target


def simulate(program, seeds):
    """The figures and failures of the first seeds, up to the first that fails."""
    done = subprocess.run([str(program), "--seeds", str(seeds), "--first", "1", "--no-shrink",
                           "--json"], text=True, check=False, stdin=subprocess.DEVNULL,
                          stdout=subprocess.PIPE, stderr=subprocess.PIPE)
    try:
        return json.loads(done.stdout)
    except ValueError as error:
        raise Failed(f"simulate ended with {done.returncode}: {done.stderr[-500:]}") from error


class Mutant:
    def __init__(self, path):
        self.path, self.name = path, path.stem
        text = path.read_text()
        self.says = text.split("\n--- ", 1)[0].replace("\n", " ")
        self.files = re.findall(r"^\+\+\+ b/(\S+)", text, re.M)
        self.target = "simulate_distributed" if "-distributed-" in self.name else "simulate"
        self.before = {}
        self.seeds = self.promise = None
        self.what = ""
        self.seconds = 0.0

    @property
    def caught(self):
        return self.seeds is not None

    def apply(self):
        self.before = {name: (TREE / name).read_bytes() for name in self.files
                       if (TREE / name).exists()}
        done = run("patch", "-p1", "--batch", "--forward", "--no-backup-if-mismatch",
                   "--reject-file=-", "-i", self.path)
        if done.returncode != 0 or not self.files:
            raise Failed("does not apply: " + done.stdout[-1000:])

    def revert(self):
        for name, content in self.before.items():
            write_file(name, content)

    def hunt(self, seeds):
        started = time.monotonic()
        try:
            self.apply()
            told = simulate(build(self.target), seeds)
            if not told["failures"]:
                raise Failed(f"not caught by {told['seeds']} seeds")
            first = told["failures"][0]
            if "through too little" in first["what"]:
                raise Failed(f"seed {first['seed']} was too short a history, which shows nothing")
            self.seeds, self.promise, self.what = first["seed"], first["promise"], first["what"]
        except Failed as failure:
            self.what = str(failure)
        finally:
            self.revert()
            self.seconds = time.monotonic() - started

    def row(self):
        seeds = str(self.seeds) if self.caught else "-"
        promise = str(self.promise) if self.caught else "-"
        what = ("" if self.caught else "FAILED: ") + self.what.replace("\n", " ")
        return f"{self.name:34} {seeds:>6} {promise:>8} {self.seconds:6.1f}  {what}"


def clean_run(target, seeds):
    """What is wrong without any patch, or ''."""
    try:
        told = simulate(build(target), seeds)
    except Failed as failure:
        return str(failure)
    if told["failures"]:
        first = told["failures"][0]
        return f"seed {first['seed']}, promise {first['promise']}: {first['what']}"
    return ""


def parse_options():
    parser = argparse.ArgumentParser(description=__doc__,
                                     formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("words", nargs="*", help="only patches whose names contain one of these")
    parser.add_argument("--seeds", type=int, default=3000, help="tries for each (3000)")
    parser.add_argument("--json", metavar="FILE", help="writes the table as JSON, too")
    return parser.parse_args()


def main():
    options = parse_options()
    mutants = [Mutant(path) for path in sorted(PATCHES.glob("*.patch"))
               if not options.words or any(word in path.stem for word in options.words)]
    if not mutants:
        print("no patch has such a name")
        return 1
    if not shutil.which("patch"):
        print("the program `patch` is missing")
        return 1
    WORK.mkdir(parents=True, exist_ok=True)
    copy_tree()
    lines = [f"{'mutant':34} {'seeds':>6} {'promise':>8} {'s':>6}  what the simulator said"]
    print(lines[0], flush=True)
    for mutant in mutants:
        mutant.hunt(options.seeds)
        lines.append(mutant.row())
        print(lines[-1], flush=True)
    caught = [mutant for mutant in mutants if mutant.caught]
    clean = ""
    for target in sorted({mutant.target for mutant in mutants}):
        clean_seeds = max([mutant.seeds for mutant in caught if mutant.target == target]
                          + [CLEAN_SEEDS_LEAST])
        clean = clean or clean_run(target, clean_seeds)
        lines.append(f"{target} without a patch, {clean_seeds} seeds: {clean or 'clean'}")
        print(lines[-1], flush=True)
    lines.append(f"{len(caught)} of {len(mutants)} caught")
    print(lines[-1], flush=True)
    (WORK / "report.txt").write_text("\n".join(lines) + "\n")
    if options.json:
        rows = [{"name": mutant.name, "says": mutant.says, "caught": mutant.caught,
                 "seeds": mutant.seeds, "promise": mutant.promise, "what": mutant.what}
                for mutant in mutants]
        Path(options.json).write_text(json.dumps({"mutants": rows, "clean": clean}, indent=1))
    return 0 if len(caught) == len(mutants) and not clean else 1


if __name__ == "__main__":
    sys.exit(main())
