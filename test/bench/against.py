"""script/bench --against PROGRAM: two programs measured in turns, section by section.

Each round measures one section with both programs, one after the other, each time with fresh servers.
Odd rounds begin with one program, even rounds with the other. The ratio of a figure is formed inside a
round; what is printed is the median of the rounds' ratios and their spread. Figures of the peers (nginx
and others) are compared, too: they are the same program on both sides, so their ratios show how much
the machine itself moved.
"""
import json
import os
import statistics
import subprocess
import sys

import resultlib
from setuplib import Failed, progress

HERE = os.path.dirname(os.path.abspath(__file__))
FIGURES = ("rate", "cpu_us")


def measure(program, section, options):
    """One round of one section: {(section, name, figure): value}."""
    command = [sys.executable, os.path.join(HERE, "bench.py"), "--only", section, "--rounds", "1", "--json",
               "--seconds", str(options.seconds), "--orders", str(options.orders),
               "--nice", str(options.nice), "--server-core", str(options.server_core),
               "--load-core", str(options.load_core)]
    done = subprocess.run(command, env=dict(os.environ, SLUICE=program), stdin=subprocess.DEVNULL,
                          capture_output=True, text=True, check=False)
    if done.returncode != 0:
        raise Failed(f"{program}: {section}: {done.stderr[-2000:]}{done.stdout[-2000:]}")
    return figures(section, json.loads(done.stdout))


def figures(section, told):
    """All figures of one run's JSON."""
    found = {}
    parts = [(section, told["figures"])] if "figures" in told else []
    parts += [(f"{section}: {one['title'].split(':')[0]}", one["figures"])
              for one in told.get(section, ()) if isinstance(one, dict)]
    for title, names in parts:
        for name, values in names.items():
            for figure in FIGURES:
                if values.get(figure):
                    found[title, name, figure] = values[figure]["median"]
    return found


def ratios(rounds):
    """rounds: [(ours, other)] -> {key: (ratios of the rounds, medians of both)}."""
    keys = [key for key in rounds[0][0] if all(key in one and key in two for one, two in rounds)]
    return {key: {"ratios": [one[key] / two[key] for one, two in rounds],
                  "ours": statistics.median(one[key] for one, _ in rounds),
                  "other": statistics.median(two[key] for _, two in rounds)} for key in keys}


def rows(found):
    for (title, name, figure), value in found.items():
        digits = 2 if figure == "cpu_us" else 0
        unit = "CPU us" if figure == "cpu_us" else "/s"
        yield (title, name, unit, f"{value['ours']:,.{digits}f}", f"{value['other']:,.{digits}f}",
               f"{statistics.median(value['ratios']):.3f}",
               f"{min(value['ratios']):.3f} to {max(value['ratios']):.3f}")


def run(options, program):
    """Measures and prints. The exit status."""
    other = os.path.abspath(options.against)
    if not os.access(other, os.X_OK):
        raise Failed(f"--against {options.against}: no program that can be run")
    origin = resultlib.origin("script/bench", *sys.argv[1:])
    found = {}
    for section in (name for name in options.only if name != "micro"):
        rounds = []
        for number in range(options.rounds):
            sides = [program, other]
            if number % 2:  # neither is always the one that comes first
                sides.reverse()
            told = {}
            for side in sides:
                progress(f"{section}: round {number + 1} of {options.rounds}: {side}")
                told[side] = measure(side, section, options)
            rounds.append((told[program], told[other]))
        progress("")
        of_section = ratios(rounds)
        found.update(of_section)
        if not options.json:
            for title, name, unit, ours, others, median, spread in rows(of_section):
                print(f"{title[:40]:41}{name:28}{unit:>7}{ours:>12}{others:>12}{median:>8}  {spread}", flush=True)
    if options.json:
        print(json.dumps([dict(value, section=key[0], name=key[1], figure=key[2]) for key, value in found.items()],
                         indent=2))
    if options.result:
        table = resultlib.table(("section", "what", "", "this program", "the other", "ratio (median)",
                                 "of the rounds"), rows(found))
        page = resultlib.page("Two programs in turns", origin,
                              f"{options.rounds} rounds. The other program is the one given with `--against`.\n\n{table}")
        print(f"wrote {resultlib.write(options.result, page)}", file=sys.stderr)
    return 0
