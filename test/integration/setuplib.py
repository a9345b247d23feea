"""Shared by the commands: the build before they use a program, and a progress line.

build()     script/build: installs packages, builds the release; $SLUICE is used as it is.
progress()  one line that is overwritten on a terminal; nothing without a terminal.
"""
import os
import subprocess
import sys

ROOT = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))


class Failed(Exception):
    """What the user should read instead of a traceback."""


def progress(text):
    if sys.stderr.isatty():
        print(f"\r\x1b[K{text}"[:200], end="", file=sys.stderr, flush=True)


def build(*groups, targets=("sluice",), preset="release"):
    """groups: of script/packages, beside those of the build; targets: what is built. script/build
    says itself what it does, and what failed."""
    if os.environ.get("SLUICE"):
        return
    options = [word for group in groups for word in ("--group", group)]
    command = [os.path.join(ROOT, "script/build"), "--preset", preset, *options, *targets]
    # Its standard output is a command's: figures, maybe as JSON.
    if subprocess.run(command, stdin=subprocess.DEVNULL, stdout=sys.stderr, check=False).returncode:
        raise Failed("could not be built")
