"""script/simulate --result NAME: reads the simulator's JSON from standard input, writes it as
docs/results/NAME.md and prints the page. Arguments: NAME, then the command line.
"""
import json
import os
import sys

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "../integration"))

import resultlib  # noqa: E402

FIGURES = (("seeds", "seeds"), ("requests", "requests"), ("decisions", "decisions"),
           ("decisions_per_s", "decisions a second"), ("orders", "orders"), ("steps", "steps"),
           ("restarts", "restarts from disk"), ("virtual_hours", "virtual hours"),
           ("wall_s", "wall time, s"), ("cpu_s", "CPU time of the workers, s"),
           ("workers", "workers"))


def counts(head, numbers):
    return resultlib.table(head, [(name, f"{count:,}") for name, count in numbers.items()])


def body(run):
    failed = len(run["failures"]) + run["failures_more"]
    last = run["first"] + run["seeds"] - 1
    parts = [f"Seeds {run['first']:,} to {last:,}: {failed or 'none'} failed. "
             f"Hash of all: `{run['hash']}`.\n"]
    parts += [f"- seed {one['seed']}: promise {one['promise']}: {one['what']}\n"
              for one in run["failures"]]
    parts.append("\n" + resultlib.table(("figure", "all seeds"), [
        (text, f"{run[name]:,.0f}") for name, text in FIGURES]))
    parts.append("\n" + resultlib.table(("each seed", "min", "median", "p90", "max"), [
        (name, *(f"{spread[word]:,}" for word in ("min", "median", "p90", "max")))
        for name, spread in run["over_seeds"].items()]))
    parts.append("\n" + counts(("fault", "times"), run["faults"]))
    parts.append("\n" + counts(("orders ended as", "orders"), run["orders_ended"]))
    return "".join(parts)


def main():
    name, command = sys.argv[1], sys.argv[2:]
    where = resultlib.origin(*command)  # before the run ends
    text = sys.stdin.read()
    if not text:
        return 0  # the simulator has said why, and its exit status counts
    try:
        run = json.loads(text)
    except ValueError:
        print(f"{text}simulate: --result needs --seeds, --minutes or --cpu", file=sys.stderr)
        return 2
    page = resultlib.page("Simulator", where, body(run))
    print(page, end="")
    resultlib.write(name, page)
    return 0


if __name__ == "__main__":
    sys.exit(main())
