#!/usr/bin/python3
"""Checks that the source keeps to the house rules that a compiler does not know.

  which room of src may include which, and which of them may see a library's header: the table in
  ARCHITECTURE.md is the rule, read from there; src/core stays pure (no clock, no memory, no I/O);
  tests of a room include only what the room may; files stay below LINES_MAX lines; no notes of
  work left undone; a file, a function or a test that a comment or a document names exists.

Prints one line for each rule broken, `FILE:LINE: what`, and exits 1; or says how many files were
checked. `--self-test` plants one violation of each kind in a copy of a small tree and fails where
one is not found: a checker that cannot fail checks nothing.
"""

import fnmatch
import os
import re
import sys
import tempfile
from pathlib import Path

LINES_MAX = 800
UNDONE = re.compile(r"\b(" + "TO" + "DO|FIX" + "ME|XX" + "X|HA" + "CK)\\b")
TEXT_FOLDERS = ("src", "lua", "test", "script", "cmake", "web", "docs", ".ci")
SKIPPED_FOLDERS = {"node_modules", "__pycache__", ".git", "build"}

# What the C library and the kernel offer. Any other header in <> is a library of others.
SYSTEM = set("""
    assert ctype errno fenv float inttypes limits locale math setjmp signal stdalign stdarg
    stdatomic stdbool stddef stdint stdio stdlib stdnoreturn string threads time uchar wchar
    dirent fcntl getopt ifaddrs netdb poll pthread pwd sched semaphore spawn strings syslog termios
    unistd endian byteswap execinfo immintrin nmmintrin x86intrin emmintrin smmintrin arm_acle
""".split())
SYSTEM_FOLDERS = {"sys", "net", "netinet", "arpa", "linux", "asm"}

# core decides with what it is handed: these headers offer nothing to ask the outside world with.
PURE_ROOM = "core"
PURE_HEADERS = set("""
    ctype errno inttypes limits stdalign stdarg stdatomic stdbool stddef stdint string strings
    endian byteswap
""".split())
CLOCKS_AND_DICE = "time|clock|clock_gettime|gettimeofday|rand|random|srand|getrandom"
BANNED_CALLS = {
    "core": re.compile(r"\b(" + CLOCKS_AND_DICE + r"|malloc|calloc|realloc|free|printf)\s*\("),
    **dict.fromkeys(("journal", "ledger", "embedded", "distributed"),
                    re.compile(r"\b(" + CLOCKS_AND_DICE + r")\s*\(")),
}

# Names of our own files and functions in prose; CHANGELOG.md speaks of old ones.
NAMED_FILE = re.compile(r"(?<![\w/.*<-])((?:[a-z0-9_]+/)*[a-z0-9_]+\.(?:c|h|lua|py|mjs))(?![\w*])")
NAMED_FUNCTION = re.compile(r"(?<![\w.:>])([a-z][a-z0-9]*_[a-z0-9_]+)\(\)")
# Tests, in backquotes in any document; where threats name their tests, also those without test_.
NAMED_TEST = re.compile(r"`(test_[a-z0-9]+_\w+)`")
THREATS = "docs/SECURITY.md"
NAMED_BY_THREAT = re.compile(r"`(test_\w+|(?!sluice_)[a-z]+(?:_[a-z0-9]+){2,})`")
SYSTEM_CALLS = ("epoll_wait", "posix_fallocate", "pthread_create")
HISTORY = "CHANGELOG.md"

INCLUDE = re.compile(r'^\s*#\s*include\s*([<"])([^>"]+)[>"]')
ROW = re.compile(r"^\|\s*`src/([a-z0-9/]+)`\s*\|([^|]*)\|([^|]*)\|")
QUOTED = re.compile(r"`<?([^`>]+)>?`")


class Room:
    """One folder of src: the rooms it may use, and {header: [file patterns]} of vendor headers."""

    def __init__(self, name, uses, vendor):
        self.name, self.uses, self.vendor = name, uses, vendor


def read_rules(architecture):
    """The rooms of the table whose rows begin with `src/...`: name -> Room."""
    rooms = {}
    for line in architecture.read_text().splitlines():
        match = ROW.match(line)
        if not match:
            continue
        name, uses, libraries = (cell.strip() for cell in match.groups())
        vendor = {}
        for part in filter(None, libraries.split(";")):
            quoted = QUOTED.findall(part)
            if quoted:
                vendor[quoted[0]] = quoted[1:] or ["*"]
        rooms[name] = Room(name, [word.strip(" `") for word in uses.split(",")], vendor)
    if not rooms:
        raise SystemExit(f"{architecture}: no table of rooms found")
    for room in rooms.values():
        if room.uses == ["everything"]:
            room.uses = list(rooms)
        elif room.uses == ["nothing"]:
            room.uses = []
        for used in room.uses:
            if used not in rooms:
                raise SystemExit(f"{architecture}: src/{room.name} uses the unknown room {used}")
    return rooms


def room_of(path, rooms):
    """The name of the room that a path below src (or an include) belongs to, or None."""
    parts = Path(path).parts[:-1]
    for length in range(len(parts), 0, -1):
        name = "/".join(parts[:length])
        if name in rooms:
            return name
    return None


def code_lines(text):
    """Lines without comments and string contents, so that prose is not mistaken for code."""
    blank = lambda match: re.sub(r"[^\n]", " ", match.group(0))
    text = re.sub(r"/\*.*?\*/|//[^\n]*", blank, text, flags=re.S)
    return re.sub(r'"(?:\\.|[^"\\\n])*"', '""', text).splitlines()


def check_include(room, file_name, bracket, header, rooms):
    """What is wrong with one include of a file of this room, or None."""
    if bracket == '"':
        target = room_of(header, rooms)
        if target is None:
            return f'"{header}" is not written from src' if "/" not in header else \
                f'"{header}" is in no room of ARCHITECTURE.md'
        if target != room.name and target not in room.uses:
            return f"src/{room.name} may not use {target} ({header})"
        return None
    stem = header[:-2] if header.endswith(".h") else header
    if stem in SYSTEM or stem.split("/")[0] in SYSTEM_FOLDERS:
        if room.name == PURE_ROOM and stem not in PURE_HEADERS:
            return f"src/{PURE_ROOM} is pure: <{header}> asks the outside world"
        return None
    for pattern in room.vendor.get(header, []):
        if fnmatch.fnmatch(file_name, pattern):
            return None
    return f"<{header}> is a library's header that src/{room.name}/{file_name} may not see"


def check_source(path, name, rooms):
    """Broken rules of one C file of src."""
    below_src = name.split("/", 1)[1]
    room_name = room_of(below_src, rooms)
    if room_name is None:
        yield f"{name}:1: this folder is in no row of ARCHITECTURE.md's table"
        return
    room = rooms[room_name]
    text = path.read_text()
    for number, line in enumerate(text.splitlines(), 1):
        match = INCLUDE.match(line)
        wrong = match and check_include(room, path.name, match[1], match[2], rooms)
        if wrong:
            yield f"{name}:{number}: {wrong}"
    banned = BANNED_CALLS.get(room_name)
    for number, line in enumerate(code_lines(text) if banned else [], 1):
        match = banned.search(line)
        if match:
            yield f"{name}:{number}: src/{room_name} may not call {match[1]}()"


def check_unit_test(path, name, rooms):
    """A unit test includes its own room and what that room may use."""
    room_name = room_of(name.split("/", 2)[2], rooms)
    if room_name is None:
        yield f"{name}:1: unit tests lie in the folder of their room"
        return
    room = rooms[room_name]
    for number, line in enumerate(path.read_text().splitlines(), 1):
        match = INCLUDE.match(line)
        if not match or match[1] == "<":
            continue
        target = room_of(match[2], rooms)
        if target and target != room_name and target not in room.uses:
            yield f"{name}:{number}: a test of src/{room_name} may not use {target} ({match[2]})"


def check_text(path, name):
    """Rules of every text file."""
    try:
        lines = path.read_text().splitlines()
    except UnicodeDecodeError:
        return
    generated = path.suffix == ".json"  # data, not code
    if len(lines) > LINES_MAX and not generated:
        yield f"{name}:{len(lines)}: longer than {LINES_MAX} lines"
    for number, line in enumerate(lines if not generated else [], 1):
        if UNDONE.search(line):
            yield f"{name}:{number}: a note of work left undone"


class Names:
    """What comments and documents may name: files, by any end of their path, and words of the code."""

    def __init__(self, root):
        self.files, self.stems, self.words = set(), set(), set(SYSTEM_CALLS)
        self.built = ("version.h",)
        for path in files_of(root):
            parts = path.relative_to(root).parts
            self.files.update("/".join(parts[at:]) for at in range(len(parts)))
            self.stems.add(path.stem)
            if path.suffix in (".c", ".h", ".lua", ".py", ".mjs", ".js"):
                code = path.read_text()
                if path.suffix in (".c", ".h"):
                    code = "\n".join(code_lines(code))
                self.words.update(re.findall(r"\w+", code))

    def check(self, number, text):
        for match in NAMED_FILE.finditer(text):
            if match[1] not in self.files and not match[1].endswith(self.built):
                yield number, f"{match[1]} does not exist"
        for match in NAMED_FUNCTION.finditer(text):
            if match[1] not in self.words:
                yield number, f"{match[1]}() does not exist"


def check_comments(path, names):
    """(line, what is wrong) of the comments of one C file."""
    text = path.read_text()
    for match in re.finditer(r"/\*.*?\*/", text, re.S):
        first = text.count("\n", 0, match.start()) + 1
        for at, line in enumerate(match[0].splitlines()):
            yield from names.check(first + at, line)


def check_document(path, name, names):
    tests = NAMED_BY_THREAT if name == THREATS else NAMED_TEST
    for number, line in enumerate(path.read_text().splitlines(), 1):
        yield from names.check(number, line)
        for match in tests.finditer(line):
            if match[1] not in names.words and match[1] not in names.stems:
                yield number, f"{match[1]} does not exist"


def files_of(root):
    for folder in TEXT_FOLDERS:
        for at, folders, names in os.walk(root / folder):
            folders[:] = sorted(set(folders) - SKIPPED_FOLDERS)
            for name in sorted(names):
                yield Path(at) / name


def check_tree(root):
    """(broken rules, number of files looked at)."""
    rooms = read_rules(root / "ARCHITECTURE.md")
    broken, count = [], 0
    names = Names(root)
    for path in [*files_of(root), *sorted(root.glob("*.md"))]:
        name = path.relative_to(root).as_posix()
        count += 1
        broken += check_text(path, name)
        named = check_comments(path, names) if path.suffix in (".c", ".h") else \
            check_document(path, name, names) if path.suffix == ".md" and name != HISTORY else ()
        broken += [f"{name}:{number}: {what}" for number, what in named]
        if path.suffix in (".c", ".h"):
            if name.startswith("src/"):
                broken += check_source(path, name, rooms)
            elif name.startswith("test/unit/"):
                broken += check_unit_test(path, name, rooms)
    return broken, count


CLEAN_TREE = {
    "ARCHITECTURE.md": "| room | may use | libraries |\n| --- | --- | --- |\n"
                       "| `src/base` | nothing | `<sodium.h>` in `crypt.c` |\n"
                       "| `src/core` | base | none |\n"
                       "| `src/journal` | core, base | none |\n"
                       "| `src/backend/sqlite` | core, base | `<sqlite3.h>` |\n"
                       "| `src/app` | everything | `<jansson.h>`; `<confuse.h>` in `config.c` |\n",
    "src/base/crypt.c": '#include "base/crypt.h"\n#include <sodium.h>\n#include <time.h>\n',
    "src/core/gate.c": '#include "base/bytes.h"\n#include <stdint.h>\n/* not time() */\n',
    "src/journal/turn.c": '#include "core/gate.h"\nstatic int retime(int n) { return n; }\n',
    "src/backend/sqlite/ledger.c": '#include <sqlite3.h>\n#include "core/gate.h"\n',
    "src/app/config.c": '#include <confuse.h>\n#include "backend/sqlite/ledger.h"\n',
    "test/unit/core/test_gate.c": '#include "core/gate.h"\n#include <cmocka.h>\n',
}
PLANTED = {
    "a room above": ("src/base/crypt.c", '#include "core/gate.h"\n'),
    "a room beside": ("src/core/gate.c", '#include "backend/sqlite/ledger.h"\n'),
    "an include not from src": ("src/core/gate.c", '#include "gate.h"\n'),
    "a library in the wrong room": ("src/journal/turn.c", "#include <sqlite3.h>\n"),
    "a library in the wrong file": ("src/base/bytes.c", "#include <sodium.h>\n"),
    "a library nobody listed": ("src/app/main.c", "#include <curl/curl.h>\n"),
    "an impure header in core": ("src/core/gate.c", "#include <stdlib.h>\n"),
    "a clock in core": ("src/core/gate.c", "long now(void) { return time (0); }\n"),
    "dice in the journal": ("src/journal/turn.c", "int dice(void) { return rand(); }\n"),
    "a folder without a rule": ("src/cellar/wine.c", "int wine;\n"),
    "a test that looks up": ("test/unit/core/test_gate.c", '#include "journal/turn.h"\n'),
    "a comment that names no file": ("src/core/gate.c", "/* see core/gone.h */\n"),
    "a comment that names no function": ("src/core/gate.c", "/* gate_gone() does it */\n"),
    "a test that does not exist": ("docs/TESTING.md", "`test_gate` and `test_gone_by_now`\n"),
    "a threat without its test": ("docs/SECURITY.md", "`nobody_gets_this_far`\n"),
    "a file too long": ("src/app/main.c", "int x;\n" * (LINES_MAX + 1)),
    "work left undone": ("script/x", "# TO" + "DO: later\n"),
}


def self_test():
    """Counts of (passed, failed): the clean tree is clean, and each planted violation is found."""
    failed = []
    for what, (name, text) in {"nothing": ("src/core/gate.c", ""), **PLANTED}.items():
        with tempfile.TemporaryDirectory() as folder:
            root = Path(folder)
            for clean, content in CLEAN_TREE.items():
                (root / clean).parent.mkdir(parents=True, exist_ok=True)
                (root / clean).write_text(content)
            (root / name).parent.mkdir(parents=True, exist_ok=True)
            with (root / name).open("a") as file:
                file.write(text)
            broken, _ = check_tree(root)
            expected = 0 if what == "nothing" else 1
            if len(broken) != expected or not all(line.startswith(name) for line in broken):
                failed.append(what)
                print(f"self-test: planted {what} in {name}, found {broken}")
    print(f"self-test: {len(PLANTED) + 1 - len(failed)} passed, {len(failed)} failed")
    return 1 if failed else 0


def main():
    if sys.argv[1:] == ["--self-test"]:
        return self_test()
    broken, count = check_tree(Path(__file__).resolve().parent.parent)
    for line in broken:
        print(line)
    print(f"{count} files checked, {len(broken)} rules broken")
    return 1 if broken else 0


if __name__ == "__main__":
    sys.exit(main())
