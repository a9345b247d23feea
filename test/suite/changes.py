"""Values that follow from the commit under test: the files that changed lately, and a number.

commit()   the commit's hash; "" if this is not a git checkout.
number()   a number derived from it: successive commits run different seeds, the same commit the
           same ones.
changed()  the changed files, newest first: not committed yet, or in the commits of the last day
           before this one. It depends only on the commit and the working tree, so a run can be
           repeated.
"""

import functools
import subprocess
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent.parent
DAY_S = 24 * 3600


def git(*words):
    done = subprocess.run(["git", *words], cwd=ROOT, text=True, stdin=subprocess.DEVNULL,
                          stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, check=False)
    return done.stdout.splitlines() if done.returncode == 0 else []


@functools.lru_cache(None)
def commit():
    return next(iter(git("rev-parse", "HEAD")), "")


def number():
    return int(commit()[:8] or "1", 16)


@functools.lru_cache(None)
def changed():
    names = [line[3:].split(" -> ")[-1] for line in git("status", "--porcelain")]
    date = next(iter(git("show", "-s", "--format=%ct", "HEAD")), None)
    if date:
        names += git("log", f"--since={int(date) - DAY_S}", "--name-only", "--format=", "HEAD")
    found = dict.fromkeys(name.strip('"') for name in names if name)
    return [name for name in found if (ROOT / name).is_file()]
