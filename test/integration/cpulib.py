"""CPU time of this process and of all processes it started, running and ended.
"""
import os

TICK = os.sysconf("SC_CLK_TCK")


def stat_of(pid):
    """(own CPU seconds, those of children that were waited for)"""
    with open(f"/proc/{pid}/stat", encoding="ascii", errors="replace") as file:
        fields = file.read().rsplit(")", 1)[1].split()
    return ((int(fields[11]) + int(fields[12])) / TICK, (int(fields[13]) + int(fields[14])) / TICK)


def children_of(pid):
    found = []
    for task in os.listdir(f"/proc/{pid}/task"):
        with open(f"/proc/{pid}/task/{task}/children", encoding="ascii") as file:
            found += file.read().split()
    return found


def tree_cpu_s(pid="self"):
    """What the tree below a process has used so far; a process that ends meanwhile may be missing
    until its parent has waited for it."""
    try:
        own, waited = stat_of(pid)
        return own + waited + sum(tree_cpu_s(child) for child in children_of(pid))
    except OSError:
        return 0.0
