"""What scripts do before they use a program that may not be there yet: install packages, build.

build()     everything of a fresh checkout: packages, the release; $SLUICE is taken as it is.
progress()  one line that is written over on a terminal, nothing where there is none.
"""
import fcntl
import os
import subprocess
import sys

ROOT = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))


class Failed(Exception):
    """What the user should read instead of a traceback."""


def progress(text):
    if sys.stderr.isatty():
        print(f"\r\x1b[K{text}"[:200], end="", file=sys.stderr, flush=True)


def build(*groups, targets=("sluice",)):
    """groups: of script/packages, beside those of the build; targets: what is built."""
    if os.environ.get("SLUICE"):
        return
    release = os.path.join(ROOT, "build/release")
    commands = [[os.path.join(ROOT, "script/bootstrap"), "build", *groups]]
    if not os.path.exists(os.path.join(release, "build.ninja")):
        commands.append(["cmake", "--preset", "release"])
    commands.append(["ninja", "-C", release, *targets])
    os.makedirs(os.path.join(ROOT, "build"), exist_ok=True)
    # As script/server does: two starts at once must not build in the same folder.
    with open(os.path.join(ROOT, "build/.lock"), "w", encoding="ascii") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        for command in commands:
            progress("building")
            done = subprocess.run(command, cwd=ROOT, stdout=subprocess.PIPE, check=False,
                                  stderr=subprocess.STDOUT, stdin=subprocess.DEVNULL)
            progress("")
            if done.returncode != 0:
                raise Failed(f"{' '.join(command)} failed:\n{done.stdout.decode()[-3000:]}")
