"""Result pages: what a run of script/drill, script/simulate or script/bench found, as Markdown in
docs/results. Documents link to these pages and do not copy their tables.

origin()    where figures come from: commit, date, machine, command. Call it before the run.
page()      the text of a page: title, origin, then the body.
write()     writes a page as docs/results/NAME.md and returns its path.
table()     rows as a Markdown table.
"""
import datetime
import os
import platform
import shlex
import subprocess

from setuplib import ROOT

FOLDER = os.path.join(ROOT, "docs/results")


def git(*words):
    """The output of a git command, or None if it fails or the machine has no git."""
    try:
        done = subprocess.run(["git", "-C", ROOT, *words], stdout=subprocess.PIPE,
                              stderr=subprocess.DEVNULL, text=True, check=False)
    except FileNotFoundError:
        return None
    return done.stdout.strip() if done.returncode == 0 else None


def commit():
    """The commit of this tree; `-dirty` if a file other than a result page differs from it. The
    commit is unknown if another program was measured than the one built from this tree."""
    if os.environ.get("SLUICE") or os.environ.get("SIMULATE"):
        return "unknown (the program was given in the environment)"
    head = git("rev-parse", "--short", "HEAD")
    changes = git("status", "--porcelain", "--untracked-files=no", "--", ".", ":!docs/results")
    return "unknown" if head is None else head + ("-dirty" if changes else "")


def memory_gib():
    return os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE") / 2**30


def origin(*command):
    now = datetime.datetime.now(datetime.timezone.utc)
    return {"commit": commit(), "date": now.strftime("%Y-%m-%d %H:%M UTC"),
            "machine": f"{os.cpu_count()} cores, {memory_gib():.1f} GiB of memory, "
                       f"{platform.system()} {platform.release()}",
            "command": shlex.join(command)}


def page(title, where, body):
    lines = [f"# {title}", "", f"- commit: `{where['commit']}`", f"- date: {where['date']}",
             f"- machine: {where['machine']}", f"- command: `{where['command']}`", ""]
    return "\n".join(lines) + "\n" + body.rstrip("\n") + "\n"


def write(name, text):
    path = os.path.join(FOLDER, name + ".md")
    os.makedirs(os.path.dirname(path), exist_ok=True)
    with open(path, "w", encoding="utf-8") as file:
        file.write(text)
    return path


def table(head, rows, numbers=slice(1, None)):
    """numbers: the columns that are aligned to the right."""
    rule = ["---"] * len(head)
    rule[numbers] = ["---:"] * len(rule[numbers])
    return "".join(f"| {' | '.join(map(str, row))} |\n" for row in (head, rule, *rows))
