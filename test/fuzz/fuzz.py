"""script/fuzz TARGET: looks for inputs that break what a fuzz target asserts (test/fuzz).

  script/fuzz --list                 the targets, and what each asserts
  script/fuzz http                   one minute
  script/fuzz http --minutes 10 --seed 7
  script/fuzz all --minutes 10       each of them, one after the other
  script/fuzz http --keep            no run: the best of what was found becomes the kept corpus;
                                     inputs there that have a name of their own stay

libFuzzer under AddressSanitizer and UBSan, built in build/fuzz; what that needs is installed first. A
run begins with the corpus that is kept (test/fuzz/corpus/TARGET) and what earlier runs came across
(build/fuzz-corpus/TARGET), and adds to the latter. The seed is printed; with the same seed and
corpora a run repeats itself.

At its end it prints executions and coverage. An input that breaks something is left in
build/fuzz-crashes, and how to run it again is said. Exit 0: nothing found; 1: found, or not built;
2: usage.
"""
import argparse
import glob
import hashlib
import os
import random
import re
import shutil
import subprocess
import sys
import tempfile

ROOT = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
FOLDER = os.path.join(ROOT, "test/fuzz")
BUILD = os.path.join(ROOT, "build/fuzz")
FOUND = os.path.join(ROOT, "build/fuzz-corpus")
CRASHES = os.path.join(ROOT, "build/fuzz-crashes")

CANARY = "canary"  # has a bug on purpose: not among `all`
MEMORY_MIB = 2048
ONE_INPUT_S = 60  # a loop without an end is a finding, too
# The largest input worth trying, where it is not libFuzzer's 4096: changes to a journal are short.
LENGTHS = {"journal": 512}
# What is kept for each target.
KEPT_FILES = 60
KEPT_BYTES = 100_000


class Failed(Exception):
    """Could not be done; its text says what and why."""


def targets():
    """name -> the first sentence of its file."""
    found = {}
    for path in sorted(glob.glob(os.path.join(FOLDER, "fuzz_*.c"))):
        with open(path, encoding="utf-8") as file:
            comment = re.search(r"/\*(.*?)\*/", file.read(), re.S)[1]
        words = " ".join(re.sub(r"^ \*", "", comment, flags=re.M).split())
        found[os.path.basename(path)[len("fuzz_"):-2]] = words.split(". ")[0].rstrip(".")
    return found


def program(target):
    return os.path.join(BUILD, "test/fuzz", f"fuzz_{target}")


def build(names):
    """script/build says itself what it does, and what failed."""
    command = [os.path.join(ROOT, "script/build"), "--preset", "fuzz", "--group", "fuzz",
               *(f"fuzz_{name}" for name in names)]
    if subprocess.run(command, stdin=subprocess.DEVNULL, stdout=sys.stderr, check=False).returncode:
        raise Failed("could not be built")


def corpora(target):
    """The folder that finds go to, then the one that is kept."""
    own = os.path.join(FOUND, target)
    kept = os.path.join(FOLDER, "corpus", target)
    os.makedirs(own, exist_ok=True)
    os.makedirs(kept, exist_ok=True)
    return [own, kept]


def flags(target):
    words = [f"-rss_limit_mb={MEMORY_MIB}", f"-timeout={ONE_INPUT_S}"]
    dictionary = os.path.join(FOLDER, "dict", f"{target}.dict")
    if os.path.exists(dictionary):
        words.append(f"-dict={dictionary}")
    if target in LENGTHS:
        words += [f"-max_len={LENGTHS[target]}", "-len_control=0"]
    return words


def show(path):
    return os.path.relpath(path, ROOT)


def fuzz(target, options):
    """True if nothing was found."""
    seed = options.seed if options.seed is not None else random.randrange(1, 1 << 31)
    os.makedirs(CRASHES, exist_ok=True)
    print(f"{target}: {options.minutes:g} minutes, seed {seed}", flush=True)
    command = [program(target), *flags(target), f"-seed={seed}",
               f"-max_total_time={max(1, round(options.minutes * 60))}", "-print_final_stats=1",
               f"-artifact_prefix={CRASHES}/{target}-", *corpora(target)]
    executed, coverage, written, tail = 0, "", None, []
    with tempfile.TemporaryDirectory(prefix="sluice-fuzz-") as scratch, \
            subprocess.Popen(command, cwd=ROOT, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE,
                             text=True, errors="replace",
                             env={**os.environ, "TMPDIR": scratch}) as process:
        try:
            for line in process.stderr:
                tail = (tail + [line])[-60:]
                if match := re.search(r"\bcov: (\d+) ft: (\d+)", line):
                    coverage = f"{int(match[1]):,} edges, {int(match[2]):,} features"
                if match := re.search(r"number_of_executed_units: (\d+)", line):
                    executed = int(match[1])
                if match := re.search(r"Test unit written to (\S+)", line):
                    written = match[1]
                if options.verbose:
                    print(line, end="", flush=True)
        except BaseException:
            process.terminate()
            raise
    print(f"{target}: {executed:,} executions, coverage {coverage or 'none'}", flush=True)
    if process.returncode == 0:
        return True
    if not options.verbose:
        print("".join(tail), end="")
    print(f"{target}: FOUND something (libFuzzer ended with {process.returncode})")
    if written:
        print(f"{target}: the input is {show(os.path.join(ROOT, written))}\n"
              f"{target}: again: {show(program(target))} {show(os.path.join(ROOT, written))}",
              flush=True)
    return False


def covered(target, folders):
    """(path -> the features it has, how many edges the program has). A feature below eight times
    the edges is an edge taken so many times; the others are comparisons. From a merge's notes."""
    with tempfile.TemporaryDirectory(prefix="sluice-fuzz-") as scratch:
        control = os.path.join(scratch, "control")
        merged = os.path.join(scratch, "merged")
        os.mkdir(merged)
        done = subprocess.run([program(target), *flags(target), "-set_cover_merge=1",
                               f"-merge_control_file={control}", merged, *folders],
                              cwd=ROOT, stdout=subprocess.PIPE, stderr=subprocess.STDOUT,
                              text=True, errors="replace", check=False,
                              env={**os.environ, "TMPDIR": scratch})
        edges = re.search(r"PC tables \((\d+) PCs\)", done.stdout)
        if done.returncode != 0 or not edges:
            raise Failed(f"{target}: the merge failed:\n{done.stdout}")
        with open(control, encoding="utf-8", errors="replace") as file:
            lines = file.read().splitlines()
    files = lines[2:2 + int(lines[0])]
    sets = {path: set() for path in files}
    for line in lines[2 + len(files):]:
        words = line.split()
        if words and words[0] == "FT":
            sets[files[int(words[1])]].update(map(int, words[2:]))
    return sets, int(edges[1])


def choose(sets, sizes, chosen):
    """Adds to `chosen` what covers most of what is not covered yet, within the bounds."""
    known = set().union(*(sets[path] for path in chosen))
    left = {path: items - known for path, items in sets.items() if path not in chosen}
    while left and len(chosen) < KEPT_FILES:
        path = max(left, key=lambda name: (len(left[name]), -sizes[name], name))
        gain = left.pop(path)
        if not gain:
            return
        if sum(sizes[name] for name in chosen) + sizes[path] <= KEPT_BYTES:
            chosen.append(path)
            left = {name: items - gain for name, items in left.items()}


def keep(target):
    """Rewrites the kept corpus: every edge with few files, then as many features as there is room
    for. Inputs with a name of their own, not a hash, were put there for a reason: they stay."""
    kept = corpora(target)[1]
    sets, edges = covered(target, corpora(target))
    sizes = {path: os.path.getsize(path) for path in sets}
    chosen = [path for path in sets if os.path.dirname(path) == kept
              and not re.fullmatch(r"[0-9a-f]{40}", os.path.basename(path))]
    choose({path: {item // 8 for item in items if item < 8 * edges}
            for path, items in sets.items()}, sizes, chosen)
    choose(sets, sizes, chosen)
    contents = {}
    for path in chosen:
        with open(path, "rb") as file:
            content = file.read()
        named = os.path.dirname(path) == kept
        contents[os.path.basename(path) if named else hashlib.sha1(content).hexdigest()] = content
    shutil.rmtree(kept)
    os.makedirs(kept)
    for name, content in contents.items():
        with open(os.path.join(kept, name), "wb") as file:
            file.write(content)
    share = len(set().union(*(sets[path] for path in chosen))) / len(set().union(*sets.values()))
    print(f"{target}: {len(contents)} of {len(sets)} inputs kept, "
          f"{sum(map(len, contents.values())):,} bytes, {share:.0%} of the features, "
          f"in {show(kept)}")


def parse():
    known = targets()
    parser = argparse.ArgumentParser(prog="script/fuzz", description=__doc__,
                                     formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("target", nargs="?", metavar="TARGET",
                        help="one of: all " + " ".join(known))
    parser.add_argument("--minutes", type=float, default=1, help="of each target (1)")
    parser.add_argument("--seed", type=int, help="libFuzzer's seed (drawn, and printed)")
    parser.add_argument("--keep", action="store_true", help="rewrite the kept corpus")
    parser.add_argument("--verbose", action="store_true", help="what libFuzzer says")
    parser.add_argument("--list", action="store_true", help="the targets")
    options = parser.parse_args()
    if options.list:
        for name, what in known.items():
            print(f"{name:10} {what}")
        sys.exit(0)
    if options.target != "all" and options.target not in known:
        parser.error(f"one of these: all {' '.join(known)}")
    if options.minutes <= 0:
        parser.error("--minutes must be more than 0")
    options.names = [options.target] if options.target != "all" else \
        [name for name in known if name != CANARY]
    return options


def main():
    options = parse()
    try:
        build(options.names)
        if options.keep:
            for name in options.names:
                keep(name)
            return 0
        clean = [fuzz(name, options) for name in options.names]
    except Failed as failure:
        print(f"fuzz: {failure}", file=sys.stderr)
        return 1
    except KeyboardInterrupt:
        return 130
    return 0 if all(clean) else 1


if __name__ == "__main__":
    sys.exit(main())
