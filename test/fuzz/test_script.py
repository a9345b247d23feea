#!/usr/bin/python3
"""That script/fuzz finds what there is to find: run by script/test.

Builds the canary with libFuzzer and runs it: the planted bug must be reported, with an input that
shows it again. Prints one line for each test, `ok NAME` or `FAILED NAME: why`; exits 1 if any
failed. `--long`: a minute of every other target, too.
"""
import os
import re
import subprocess
import sys

ROOT = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
FOLDER = os.path.join(ROOT, "test/fuzz")
KEPT_FILES = 80
KEPT_BYTES = 100_000


def script(*words):
    done = subprocess.run([os.path.join(ROOT, "script/fuzz"), *words], cwd=ROOT,
                          stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True,
                          errors="replace", check=False)
    return done.returncode, done.stdout


def names():
    return sorted(name[len("fuzz_"):-2] for name in os.listdir(FOLDER)
                  if re.fullmatch(r"fuzz_\w+\.c", name))


def the_canary_is_found():
    # It takes a second or two; the minutes are for a machine that is busy with something else.
    code, said = script("canary", "--minutes", "10")
    assert code == 1, f"exit {code}:\n{said}"
    assert "FOUND" in said, said
    again = re.search(r"^canary: again: (\S+) (\S+)$", said, re.M)
    assert again, said
    assert os.path.getsize(os.path.join(ROOT, again[2])) > 0
    done = subprocess.run([again[1], again[2]], cwd=ROOT, stdout=subprocess.DEVNULL,
                          stderr=subprocess.PIPE, check=False)
    assert done.returncode != 0, "the input that was found does not fail again"
    assert b"fuzz_canary.c" in done.stderr, done.stderr.decode(errors="replace")


def a_target_without_a_bug_is_clean():
    code, said = script("record", "--minutes", "0.05", "--seed", "1")
    assert code == 0, f"exit {code}:\n{said}"
    executed = re.search(r"^record: ([\d,]+) executions, coverage ([\d,]+) edges", said, re.M)
    assert executed and int(executed[1].replace(",", "")) > 0, said
    assert "seed 1\n" in said, said


def the_list_has_every_target():
    code, said = script("--list")
    assert code == 0 and [line.split()[0] for line in said.splitlines()] == names(), said


def an_unknown_target_is_a_wrong_use():
    code, said = script("nonsense")
    assert code == 2 and "nonsense" not in names(), said


def every_target_has_a_small_corpus():
    for name in names():
        folder = os.path.join(FOLDER, "corpus", name)
        sizes = [os.path.getsize(os.path.join(folder, file)) for file in os.listdir(folder)]
        assert 0 < len(sizes) <= KEPT_FILES, f"{name}: {len(sizes)} files"
        assert sum(sizes) <= KEPT_BYTES, f"{name}: {sum(sizes)} bytes"


def a_minute_of_every_target():
    code, said = script("all", "--minutes", "1")
    print(said)
    assert code == 0, f"exit {code}"


def main():
    tests = [the_list_has_every_target, an_unknown_target_is_a_wrong_use,
             every_target_has_a_small_corpus, the_canary_is_found, a_target_without_a_bug_is_clean]
    if "--long" in sys.argv[1:]:
        tests.append(a_minute_of_every_target)
    failed = 0
    for test in tests:
        try:
            test()
            print(f"ok {test.__name__}", flush=True)
        except (AssertionError, OSError) as error:
            failed += 1
            print(f"FAILED {test.__name__}: {error}", flush=True)
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
