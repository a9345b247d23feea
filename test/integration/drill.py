"""script/drill: a sale under load while a fault strikes; then the promises are checked.

  script/drill                      every drill, on real servers that it starts itself
  script/drill --short              those of script/test: shorter faults, one of each kind
  script/drill NAME...              only these (--list names them; a `*` matches anything)
  script/drill 'attack-*'           honest people beside an attacker; not in --short
  script/drill --json               one JSON object for each drill, instead of the table
  script/drill --result NAME        writes the table to docs/results/NAME.md, too
  script/drill --result NAME --table FILE...
                                    no run: writes the table of runs that --json printed
  script/drill --seed 17            with the random numbers of seed 17

Prints the counts of each drill (told, booked, lost, doubled, oversold ...) and the proof that the
fault struck; of an attack the share of honest requests that succeeded and their p99, without the
attack and beside it. A share below 99 % is a failure. Exit 0: every fault struck and every promise held; 1: not; 2: usage. Installs and builds
what is missing; $SLUICE names another program to test. If a drill fails, the logs of its stage are
kept and their folder is printed. docs/DRILLS.md describes the drills.
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

import attacks  # noqa: E402
import crashlib  # noqa: E402
import drilllib  # noqa: E402
import drills  # noqa: E402
import resultlib  # noqa: E402
import serverlib  # noqa: E402
import setuplib  # noqa: E402
from setuplib import progress  # noqa: E402


STAGES = drills.STAGES | attacks.STAGES
DRILLS = drills.DRILLS + attacks.ATTACKS


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
        self.origin = resultlib.origin("script/drill", *sys.argv[1:])
        self.stage = self.trial = None
        self.verdicts = []

    def stage_for(self, drill, size):
        name = drill.stage_of(size)
        if self.stage is not None and (self.stage.name != name or not has_room(
                self.stage, size.users(drill.fault_s(size)))):
            self.drop()
        if self.stage is None:
            progress(f"{drill.name}: starting {name}")
            self.stage = STAGES[name]()
            self.stage.name = name
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
            self.trial = drill.trial(stage, size, seed,
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

    def json(self, verdict):
        return verdict.json() | {"form": self.size.form(), "origin": self.origin}

    def run(self, chosen):
        try:
            for drill in chosen:
                verdict = self.one(drill)
                if self.options.json:
                    print(json.dumps(self.json(verdict)), flush=True)
                else:
                    print_verdict(verdict)
        finally:
            self.drop()
        if self.options.result:
            write_result(self.options.result, [self.json(verdict) for verdict in self.verdicts])
        return all(verdict.ok() for verdict in self.verdicts)


HEAD = f"{'drill':24}" + "".join(f"{word:>9}" for word in drilllib.Verdict.WORDS) + "  seconds"


def print_verdict(verdict):
    figures, proof = verdict.lines()
    state = "ok" if verdict.ok() else "FAILED"
    print(f"{verdict.drill.name:24}{figures}{verdict.seconds:9.1f}  {state}", flush=True)
    print(f"    {proof}", flush=True)
    for problem in verdict.problems[:12]:
        print(f"    {problem}", flush=True)


HEADS = ("drill", "stage", "fault", "form", *drilllib.Verdict.WORDS, "final", "how it struck")


def table_row(run):
    state = "" if run["ok"] else " **(failed)**"
    return (f"`{run['drill']}`{state}", run["stage"], run["about"], run["form"],
            *(f"{run.get(word, 0):,}" for word in drilllib.Verdict.WORDS), f"{run['final_s']} s",
            run["proof"])


ATTACK_HEADS = ("attack", "what", "honest share without it", "beside it", "p99 without it",
                "beside it", "how it struck")


def attack_row(run):
    state = "" if run["ok"] else " **(failed)**"
    return (f"`{run['drill']}`{state}", run["about"], f"{run.get('share_alone', 0):.2%}",
            f"{run.get('share_beside', 0):.2%}", f"{run.get('p99_alone_ms', 0):,.1f} ms",
            f"{run.get('p99_beside_ms', 0):,.1f} ms", run["proof"])


def total_row(runs):
    sums = (sum(run.get(word, 0) for run in runs) for word in drilllib.Verdict.WORDS)
    return (f"**{len(runs)} drills**", "", "", "", *(f"{one:,}" for one in sums), "", "")


def result_page(runs):
    """The runs of one commit, in the order of the list of drills; of each drill its newest run."""
    newest = {run["drill"]: run for run in runs}
    commits = {run["origin"]["commit"] for run in newest.values()}
    if len(commits) != 1:
        raise setuplib.Failed(f"a page needs runs of one commit, not of {len(commits)}")
    chosen = [newest[drill.name] for drill in DRILLS if drill.name in newest]
    faults = [run for run in chosen if not run.get("attack")]
    struck = [run for run in chosen if run.get("attack")]
    bad = sum(not run["ok"] for run in chosen)
    tables = [resultlib.table(HEADS, [*map(table_row, faults), total_row(faults)],
                              slice(4, -1))] if faults else []
    tables += [resultlib.table(ATTACK_HEADS, map(attack_row, struck), slice(2, -1))] if struck else []
    return resultlib.page("Drills", chosen[0]["origin"], f"{bad or 'None'} of {len(chosen)} failed. "
                          "[../DRILLS.md](../DRILLS.md#what-is-counted) explains the columns.\n\n" +
                          "\n".join(tables))


def write_result(name, runs):
    print(f"wrote {resultlib.write(name, result_page(runs))}", file=sys.stderr)


def read_runs(paths):
    """What --json printed."""
    runs = []
    for path in paths:
        with open(path, encoding="utf-8") as file:
            runs += map(json.loads, file)
    return runs


def chosen_drills(options, parser):
    if not options.names:
        return [drill for drill in DRILLS if drill.short or not options.short]
    found = []
    for pattern in options.names:
        matching = [d for d in DRILLS if fnmatch.fnmatch(d.name, pattern)]
        if not matching:
            parser.error(f"no drill is called {pattern}; --list names them")
        found += [d for d in matching if d not in found]
    return [drill for drill in DRILLS if drill in found]


def write_table(options):
    try:
        write_result(options.result, read_runs(options.table))
    except setuplib.Failed as failure:
        print(f"drill: {failure}", file=sys.stderr)
        return 1
    return 0


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
    parser.add_argument("--result", metavar="NAME", help="write the table to docs/results/NAME.md")
    parser.add_argument("--table", nargs="+", metavar="FILE",
                        help="with --result: no run, the table of the runs in these files")
    options = parser.parse_args()
    if options.table and not options.result:
        parser.error("--table needs --result")
    if options.table:
        return write_table(options)
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
