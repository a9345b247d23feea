#!/usr/bin/python3
"""What the tests reach: lines and branches by folder of src, from gcov; the second half of
script/coverage, which builds, runs the tests and calls this.

How branches are counted:
- As gcov sees them in a build without optimization: each side of each condition, each way out of a
  switch. Sides that only an exception would take are left out.
- Not those of a CHECK(): its failing side states what cannot be. The line itself counts.
- What a header holds is compiled into many objects: a branch taken in one of them is taken.

The rule, with --check: in the files that STRICT names every function is called and every branch
taken, or it is listed in test/unreached.txt with a reason. An entry there names a file, a function,
how many branches, and the line's text; one that does not say exactly what was found (reached now,
gone, or more than it says) fails as well, so the list cannot go stale.
"""

import argparse
import concurrent.futures
import json
import os
import re
import subprocess
import sys
from collections import Counter, defaultdict
from fnmatch import fnmatch
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
LIST = ROOT / "test/unreached.txt"
FOLDERS = ["base", "core", "obs", "port", "journal", "ledger",
           "embedded", "distributed", "http", "pages", "api", "backend/posix",
           "backend/sql", "backend/sqlite", "app", "cli", "bench"]
STRICT = ["src/core/*.c", "src/core/*.h", "src/journal/*.c", "src/journal/*.h"]
ENTRY = re.compile(r"^(src/\S+) (\w+), (\d+) (?:branch|branches|calls)$")


class Source:
    """One file of src: what was reached of it, over all objects."""

    def __init__(self, name, text):
        self.name, self.text = name, text.splitlines()
        self.checks = check_lines(text)
        self.lines = Counter()      # line: times run
        self.functions = Counter()  # function: times called
        self.branches = Counter()   # (line, function, index): times taken

    def add(self, file):
        for function in file["functions"]:
            self.functions[function["name"]] += function["execution_count"]
        # A line may come more than once: for each function a macro made on it.
        seen = Counter()
        for line in file["lines"]:
            number, function = line["line_number"], line.get("function_name", "")
            self.lines[number] += line["count"]
            if number in self.checks:
                continue
            for branch in line["branches"]:
                if not branch["throw"]:
                    key = (number, function, seen[number, function])
                    seen[number, function] += 1
                    self.branches[key] += branch["count"]

    def unreached(self):
        """{(function, text of the line): branches not taken}, and the line numbers of each. A
        function that is never called is one entry, under the text of nothing."""
        counts, where = Counter(), defaultdict(set)
        for name, calls in self.functions.items():
            if calls == 0:
                counts[name, ""] = 0
        for (number, function, _), taken in self.branches.items():
            if taken == 0 and (function, "") not in counts:
                key = (function, " ".join(self.text[number - 1].split()))
                counts[key] += 1
                where[key].add(number)
        return counts, where


def check_lines(text):
    """The numbers of all lines that a CHECK( ... ) covers."""
    lines = set()
    for match in re.finditer(r"\bCHECK\(", text):
        depth, at = 1, match.end()
        while depth > 0 and at < len(text):
            depth += {"(": 1, ")": -1}.get(text[at], 0)
            at += 1
        first = text.count("\n", 0, match.start()) + 1
        lines.update(range(first, text.count("\n", 0, at) + 2))
    return lines


def gcov(build, notes):
    """The parsed output for some objects."""
    done = subprocess.run(["gcov", "--json-format", "--branch-probabilities", "--stdout", *notes],
                          cwd=build, text=True, stdout=subprocess.PIPE, stderr=subprocess.PIPE)
    if done.returncode != 0:
        sys.exit(f"gcov failed:\n{done.stderr}")
    decoder, at, found = json.JSONDecoder(), 0, []
    while at < len(done.stdout.rstrip()):
        value, at = decoder.raw_decode(done.stdout, at)
        found.append(value)
        while at < len(done.stdout) and done.stdout[at].isspace():
            at += 1
    return found


def read_build(build):
    """{name: Source} of everything in src that was compiled."""
    notes = sorted(str(path) for path in build.rglob("*.gcno"))
    if not notes:
        sys.exit(f"{build} is not a build for coverage")
    pieces = [notes[i:i + 20] for i in range(0, len(notes), 20)]
    sources = {}
    with concurrent.futures.ThreadPoolExecutor(os.cpu_count() or 1) as pool:
        for piece in pool.map(lambda names: gcov(build, names), pieces):
            for object_file in piece:
                folder = Path(object_file["current_working_directory"])
                for file in object_file["files"]:
                    path = (folder / file["file"]).resolve()
                    if not path.is_relative_to(ROOT / "src"):
                        continue
                    name = path.relative_to(ROOT).as_posix()
                    if name not in sources:
                        sources[name] = Source(name, path.read_text())
                    sources[name].add(file)
    return sources


def read_list(path):
    """({file: {(function, text): branches}}, errors) of the list."""
    entries, errors = defaultdict(dict), []
    block = []
    for line in [*path.read_text().splitlines(), ""]:
        if line.startswith("#"):
            continue
        if line.strip():
            block.append(line)
            continue
        if not block:
            continue
        head = ENTRY.match(block[0])
        calls = head is not None and int(head[3]) == 0
        if head is None or len(block) < 3 - calls:
            errors.append(f"{path.name}: not an entry with a reason: {block[0]}")
        else:
            text = "" if calls else " ".join(block[1].split())
            entries[head[1]][head[2], text] = int(head[3])
        block = []
    return entries, errors


def judge(source, listed):
    """What is wrong with one file: a list of sentences."""
    counts, where = source.unreached()
    wrong = []
    for (function, text), count in sorted(counts.items()):
        if listed.get((function, text)) == count:
            continue
        if not text:
            wrong.append(f"{function}() is never called")
            continue
        numbers = ",".join(map(str, sorted(where[function, text])))
        said = listed.get((function, text), 0)
        wrong.append(f"{numbers}: {count} branches not taken, {said} listed: {function}() {text}")
    for (function, text) in sorted(set(listed) - set(counts)):
        wrong.append(f"listed, but reached or gone: {function}() {text}")
    return wrong


def check(sources, list_path):
    """Prints a line for each file of STRICT and what is wrong with it; the number of bad files."""
    entries, errors = read_list(list_path)
    strict = {path.relative_to(ROOT).as_posix() for path in (ROOT / "src").rglob("*.[ch]")}
    strict = {name for name in strict if any(fnmatch(name, pattern) for pattern in STRICT)}
    bad = len(errors)
    print(*errors, sep="\n", end="\n" if errors else "")
    for name in sorted(strict | set(entries)):
        if name in sources and name in strict:
            wrong = judge(sources[name], entries.get(name, {}))
        elif name in entries:
            wrong = [f"is listed in {list_path.name}, but not a file of the rule with code in it"]
        elif name.endswith(".c"):
            wrong = ["was not compiled"]
        else:
            continue  # a header without code
        print(f"{'FAILED' if wrong else 'ok':6} {name}")
        for sentence in wrong:
            print(f"       {sentence}")
        bad += bool(wrong)
    return bad


def share(counter):
    reached = sum(1 for count in counter.values() if count > 0)
    total = len(counter)
    percent = 100.0 * reached / total if total else 100.0
    # 100.0 only where it is all of it.
    percent = min(percent, 99.9) if reached < total else percent
    return f"{reached:6} / {total:5} {percent:6.1f} %"


def print_row(title, sources):
    lines, branches = Counter(), Counter()
    for source in sources:
        lines.update({(source.name, key): count for key, count in source.lines.items()})
        branches.update({(source.name, key): count for key, count in source.branches.items()})
    print(f"{title:18} {share(lines)}   {share(branches)}")


def report(sources):
    print(f"{'src/':18} {'lines reached':>23}   {'branches taken':>23}")
    for folder in FOLDERS:
        inside = [source for name, source in sorted(sources.items())
                  if Path(name).parent.as_posix() == f"src/{folder}"]
        print_row(folder, inside)
    print_row("all", sources.values())
    print("Branches of a CHECK() are not counted: its failing side states what cannot be.")


def show(sources, prefix):
    """Every line with a branch that is not taken, below a path."""
    for name, source in sorted(sources.items()):
        if not name.startswith(prefix):
            continue
        counts, where = source.unreached()
        for (function, text), count in counts.items():
            if not text:
                print(f"{name}: {function}() is never called")
            for number in sorted(where[function, text]):
                print(f"{name}:{number}: in {function}(): {text}")


def self_test():
    """The judgement, on a file made by hand."""
    text = ("int f(int a)\n{\n    CHECK(a > 0 &&\n          a < (9));\n"
            "    if (a) {\n    }\n    if (a == 2) {\n    }\n}\nint g(void);\n")
    assert check_lines(text) == {3, 4}, check_lines(text)

    def line(number, *taken, function="f"):
        branches = [{"count": n, "throw": False} for n in taken]
        return {"line_number": number, "function_name": function, "count": 1, "branches": branches}

    throwing = line(5, 0)
    throwing["branches"][0]["throw"] = True
    source = Source("src/core/x.c", text)
    functions = [{"name": "f", "execution_count": 1}]
    source.add({"functions": functions, "lines": [line(3, 0, 1), line(4, 0, 1), throwing,
                                                  line(5, 1, 0), line(7, 0, 3)]})
    source.add({"functions": functions, "lines": [line(5, 0, 2), line(7, 0, 4)]})
    key = ("f", "if (a == 2) {")
    assert source.unreached()[0] == {key: 1}, source.unreached()
    assert judge(source, {key: 1}) == []
    assert len(judge(source, {})) == 1
    assert len(judge(source, {key: 2})) == 1
    assert len(judge(source, {key: 1, ("f", "if (a) {"): 1})) == 1
    source.add({"functions": [{"name": "g", "execution_count": 0}],
                "lines": [line(10, 0, 0, function="g")]})
    assert judge(source, {key: 1}) == ["g() is never called"]
    print("ok     self-test")


def main():
    parser = argparse.ArgumentParser(prog="script/coverage")
    parser.add_argument("--build", type=Path, default=ROOT / "build/coverage", metavar="DIR",
                        help="a build with SLUICE_COVERAGE whose tests have run")
    parser.add_argument("--check", action="store_true",
                        help="fail where the rule for core and the journal does not hold")
    parser.add_argument("--show", action="append", default=[], metavar="PATH",
                        help="list what is not reached below a path: --show src/http")
    parser.add_argument("--self-test", action="store_true", help="test the judgement itself")
    options = parser.parse_args()
    if options.self_test:
        self_test()
        return 0
    sources = read_build(options.build.resolve())
    report(sources)
    for prefix in options.show:
        show(sources, prefix)
    return 1 if options.check and check(sources, LIST) else 0


if __name__ == "__main__":
    sys.exit(main())
