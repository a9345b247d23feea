"""script/drill: a sale under load while a fault strikes, then the promises, checked.

  script/drill                      every drill, on real servers that it starts itself
  script/drill --short              those of script/test: shorter faults, one of each kind
  script/drill NAME...              only these (--list names them; a `*` matches anything)
  script/drill --json               one JSON object a drill, instead of the table
  script/drill --table FILE...      no run: puts what --json printed into docs/DRILLS.md
  script/drill --seed 17            with the draws of seed 17

Prints for each told / booked / lost / doubled / oversold, and the proof that the fault struck.
Exit 0: every fault struck and every promise held; 1: not; 2: usage. Installs and builds what is
missing first; $SLUICE names another program to be tried. Where a drill fails, the logs of its stage
are kept and their folder is named.
What it stands on is described in docs/DRILLS.md.
"""
import argparse
import fnmatch
import json
import os
import random
import shutil
import signal
import subprocess
import sys

# A drill waits for conditions, and must not fail because the machine is slow.
os.environ.setdefault("SLUICE_GUARD_S", "300")

import crashlib  # noqa: E402
import drilllib  # noqa: E402
import drills  # noqa: E402
import serverlib  # noqa: E402
import setuplib  # noqa: E402
from setuplib import progress  # noqa: E402


def has_room(stage, users):
    """Whether the gate can hold the orders of so many more buyers. The sales of former drills stay
    in it, so a stage fills up. Each buyer orders once; the watchers order less than the crowd."""
    with crashlib.Ledger(stage.door()) as ledger:
        (orders,), = ledger.base.rows("SELECT count(*) FROM orders")
    return orders + 2 * users <= stage.orders_max


class Runner:
    """Runs drills one after the other. Those of one stage share it while they pass and its gate has
    room."""

    def __init__(self, options):
        self.options = options
        self.size = drilllib.Size(options.short, options.rate)
        self.rng = random.Random(options.seed)
        self.stage = self.trial = None
        self.verdicts = []

    def stage_for(self, drill, size):
        if self.stage is not None and (self.stage.name != drill.stage or not has_room(
                self.stage, size.users(drill.fault_s(size)))):
            self.drop()
        if self.stage is None:
            progress(f"{drill.name}: starting {drill.stage}")
            self.stage = drills.STAGES[drill.stage]()
            self.stage.name = drill.stage
            self.stage.start()
        return self.stage

    def drop(self):
        if self.stage is not None:
            self.stage.discard()
            self.stage = None

    def keep_logs(self, verdict):
        """The logs of a stage that failed, out of the way of its end."""
        folder = os.path.join(setuplib.ROOT, "build/drill-logs", verdict.drill.name)
        shutil.rmtree(folder, ignore_errors=True)
        os.makedirs(folder)
        for name, text in self.stage.logs().items():
            with open(os.path.join(folder, f"{name}.log"), "w", encoding="utf-8") as file:
                file.write(text)
        if self.trial:
            self.trial.keep(folder)
        with open(os.path.join(folder, "verdict.json"), "w", encoding="utf-8") as file:
            json.dump(verdict.json() | {"problems": verdict.problems}, file, indent=2)
        return os.path.relpath(folder, setuplib.ROOT)

    def one(self, drill):
        """The verdict; with a larger crowd where the machine was too slow for the first."""
        for times in (1, 4, 16):
            verdict = self.once(drill, times)
            if not verdict.too_slow:
                break
        self.verdicts.append(verdict)
        return verdict

    def once(self, drill, times):
        seed, self.trial = self.rng.randrange(2**32), None
        size = drilllib.Size(self.options.short, self.options.rate, times)
        try:
            assert not serverlib.missing(), f"not installed: {serverlib.missing()}"
            stage = self.stage_for(drill, size)
            self.trial = drilllib.Trial(drill, stage, size, seed,
                                        lambda text: progress(f"{drill.name}: {text}"))
            verdict = self.trial.run()
        except (AssertionError, OSError, subprocess.SubprocessError) as error:
            verdict = drilllib.Verdict(drill)
            verdict.problems.append(f"could not be run: {error}")
        progress("")
        if verdict.ok() and self.options.keep:
            self.keep_logs(verdict)
        if not verdict.ok():
            where = self.keep_logs(verdict) if self.stage else ""
            verdict.problems.append(f"logs: {where}")
            self.drop()  # nobody knows what is left of it
        return verdict

    def run(self, chosen):
        try:
            for drill in chosen:
                verdict = self.one(drill)
                if self.options.json:
                    print(json.dumps(verdict.json() | {"form": self.size.form()}), flush=True)
                else:
                    print_verdict(verdict)
        finally:
            self.drop()
        return all(verdict.ok() for verdict in self.verdicts)


HEAD = f"{'drill':24}" + "".join(f"{word:>9}" for word in drilllib.Verdict.WORDS) + "  seconds"


def print_verdict(verdict):
    counts = "".join(f"{verdict.counts[word]:9}" for word in drilllib.Verdict.WORDS)
    state = "ok" if verdict.ok() else "FAILED"
    print(f"{verdict.drill.name:24}{counts}{verdict.seconds:9.1f}  {state}", flush=True)
    print(f"    {verdict.proof or 'the fault was not proved to have struck'}", flush=True)
    for problem in verdict.problems[:12]:
        print(f"    {problem}", flush=True)


def table_row(run, drill):
    counts = " | ".join(f"{run.get(word, 0):,}" for word in drilllib.Verdict.WORDS)
    state = "" if run["ok"] else " **(failed)**"
    return (f"| `{drill.name}`{state} | {drill.stage} | {drill.about} | {run['form']} | {counts} | "
            f"{run['final_s']} s | {run['proof']} |")


def total_row(rows):
    """All of them together: the counts are the fifth column and on."""
    first = 5
    sums = [sum(int(row.split(" | ")[first - 1 + at].replace(",", "")) for row in rows)
            for at in range(len(drilllib.Verdict.WORDS))]
    return f"| **{len(rows)} drills** | | | | {' | '.join(f'{one:,}' for one in sums)} | | |"


def write_table(paths):
    """The newest run of each drill, in the order of the list; what was not run keeps its row."""
    runs = {}
    for path in paths:
        with open(path, encoding="utf-8") as file:
            for line in file:
                run = json.loads(line)
                runs[run["drill"]] = run
    path = os.path.join(setuplib.ROOT, "docs/DRILLS.md")
    with open(path, encoding="utf-8") as file:
        before, rest = file.read().split("<!-- table: begin -->\n")
    table, after = rest.split("<!-- table: end -->")
    kept = {line.split("`")[1]: line for line in table.splitlines() if line.startswith("| `")}
    words = " | ".join(drilllib.Verdict.WORDS)
    rows = [f"| drill | stage | fault | form | {words} | final | how it struck |",
            "| --- | --- | --- | --- " + "| ---: " * 9 + "| --- |"]
    for drill in drills.DRILLS:
        run = runs.get(drill.name)
        if run:
            rows.append(table_row(run, drill))
        elif drill.name in kept:
            rows.append(kept[drill.name])
    rows.append(total_row(rows[2:]))
    with open(path, "w", encoding="utf-8") as file:
        file.write(before + "<!-- table: begin -->\n" + "\n".join(rows) +
                   "\n<!-- table: end -->" + after)


def chosen_drills(options, parser):
    if not options.names:
        return [drill for drill in drills.DRILLS if drill.short or not options.short]
    found = []
    for pattern in options.names:
        matching = [d for d in drills.DRILLS if fnmatch.fnmatch(d.name, pattern)]
        if not matching:
            parser.error(f"no drill is called {pattern}; --list names them")
        found += [d for d in matching if d not in found]
    return [drill for drill in drills.DRILLS if drill in found]


def main():
    parser = argparse.ArgumentParser(prog="script/drill", description=__doc__,
                                     formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("names", nargs="*", metavar="NAME")
    parser.add_argument("--list", action="store_true", help="the names, and what each does")
    parser.add_argument("--short", action="store_true", help="shorter faults, one of each kind")
    parser.add_argument("--json", action="store_true", help="one JSON object a line")
    parser.add_argument("--seed", type=int, default=random.SystemRandom().randrange(2**32))
    parser.add_argument("--rate", type=float, help="buyers that arrive in a second (300)")
    parser.add_argument("--keep", action="store_true", help="keep the logs of those that pass, too")
    parser.add_argument("--table", nargs="+", metavar="FILE",
                        help="put the runs in these files into docs/DRILLS.md")
    options = parser.parse_args()
    if options.table:
        write_table(options.table)
        return 0
    chosen = chosen_drills(options, parser)
    if options.list:
        for drill in chosen:
            print(f"{drill.name:24} {drill.stage:18} {drill.about}")
        return 0
    try:
        setuplib.build("cluster")
    except setuplib.Failed as failure:
        print(f"drill: {failure}", file=sys.stderr)
        return 1
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(143))  # so that finally blocks run
    if not options.json:
        print(f"seed {options.seed}\n{HEAD}", flush=True)
    try:
        return 0 if Runner(options).run(chosen) else 1
    except KeyboardInterrupt:
        return 130


if __name__ == "__main__":
    sys.exit(main())
