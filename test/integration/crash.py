"""script/crash: the long crash loops. A rush runs, the server is killed in the middle and restarted,
and all answers are compared with what is left; again and again on one data folder.

  script/crash --loops 200                  kill -9, then power cuts on the disk that forgets
  script/crash --disk forget --seed 17      only the disk that forgets, with seed 17
  script/crash --skip-sync '*.journal'      without the journal's syncs: the loop must fail

Exit 0: every promise held (with --skip-sync: the loss was found); 1: not; 2: usage. Installs and
builds what is missing; $SLUICE names another program to test.
"""
import argparse
import os
import random
import sys

import crashlib
import setuplib
import sluicelib


def progress(line):
    """One line that is written over on a terminal, one line each otherwise."""
    if sys.stdout.isatty():
        print(f"\r\x1b[K{line}"[:300], end="", flush=True)
    else:
        print(line, flush=True)


def run(disk, options):
    print(f"{disk}: {options.loops} loops, seed {options.seed}, {options.threads} threads",
          flush=True)
    loop = crashlib.CrashLoop(options.seed, forget=disk == "forget", threads=options.threads,
                              skip_sync=options.skip_sync, progress=progress)
    try:
        counts = loop.run(options.loops)
    except crashlib.Broken as error:
        print(f"\n{disk}: {error}")
        return bool(options.skip_sync)
    finally:
        loop.discard()
        if sys.stdout.isatty():
            print()
    if options.skip_sync:
        print(f"{disk}: without the syncs nothing was lost, so the loop shows nothing")
        return False
    if counts["in the rush"] * 2 < options.loops or not counts["told"] or \
            (disk == "forget" and not counts["bytes forgotten"]):
        print(f"{disk}: the faults did not happen: {dict(counts)}")
        return False
    print(f"{disk}: every promise held")
    return True


def main():
    parser = argparse.ArgumentParser(prog="script/crash", description=__doc__,
                                     formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--loops", type=int, default=200, help="crashes of each kind (200)")
    parser.add_argument("--disk", choices=("kill", "forget", "both"), default="both",
                        help="kill -9 alone, the disk that forgets, or one after the other (both)")
    parser.add_argument("--seed", type=int, default=random.SystemRandom().randrange(2**32))
    parser.add_argument("--threads", type=int, default=2, help="server.threads (2)")
    parser.add_argument("--skip-sync", metavar="PATTERN",
                        help="take the syncs of these files out, on the disk that forgets")
    options = parser.parse_args()
    if options.loops < 1 or options.threads < 1:
        parser.error("--loops and --threads are at least 1")
    if options.skip_sync:
        options.disk = "forget"
    try:
        setuplib.build()
    except setuplib.Failed as failure:
        print(f"crash: {failure}", file=sys.stderr)
        return 1
    if not os.access(sluicelib.BINARY, os.X_OK):
        print(f"crash: no program at {sluicelib.BINARY}", file=sys.stderr)
        return 1
    disks = ("kill", "forget") if options.disk == "both" else (options.disk,)
    return 0 if all([run(disk, options) for disk in disks]) else 1


if __name__ == "__main__":
    sys.exit(main())
