"""script/cluster: runs the distributed engine on this machine, on loopback, to try it out.

  script/cluster up        starts what does not run yet: three Redis masters with replicas
                           (Cluster), RabbitMQ, MariaDB, two fronts, two relays, two bookers, two
                           keepers, nginx
  script/cluster status    each process, whether it runs and is ready
  script/cluster down      stops them all, by pid; their data stays
  script/cluster clean     stops them and removes the folder

Everything is in build/cluster (or --dir), with a log in each member's folder. `up` installs and
builds what is missing. It prints on stderr what it starts and waits for (RabbitMQ takes a while),
and on stdout the addresses. It may be repeated: it starts what died, with the same options. --port
is nginx's (8090); --demo adds the demonstration's login and pay button to the fronts. Both stay
until the cluster is taken down: while it runs, other values are refused. Exit 0; 1: something does
not run (status), or could not be started or stopped; 2: usage.
"""
import argparse
import fcntl
import os
import shutil
import socket
import sys

import clusterlib
import proclib
import setuplib
from setuplib import Failed, progress


def stage_of(options, port=None, demo=None):
    """The stage in its folder: running members are found again by their pid files."""
    last_port, last_demo = kept(options)
    return clusterlib.Distributed(options.dir, topology="cluster",
                                  port=last_port if port is None else port,
                                  demo=last_demo if demo is None else demo)


def port_path(options):
    return os.path.join(options.dir, "nginx/port.port")


def demo_path(options):
    return os.path.join(options.dir, "demo")


def kept(options):
    """(port, demo) it was started with last."""
    port = 8090
    if os.path.exists(port_path(options)):
        with open(port_path(options), encoding="ascii") as file:
            port = int(file.read())
    return port, os.path.exists(demo_path(options))


def keep(options, port, demo):
    os.makedirs(os.path.dirname(port_path(options)), exist_ok=True)
    with open(port_path(options), "w", encoding="ascii") as file:
        file.write(f"{port}\n")
    if demo:
        with open(demo_path(options), "w", encoding="ascii") as file:
            file.write("the fronts have the demonstration's login and pay button\n")
    elif os.path.exists(demo_path(options)):
        os.unlink(demo_path(options))


def settle(options):
    """(port, demo) for this start. What runs keeps what it has: nothing is half changed."""
    port, demo = kept(options)
    stage = stage_of(options)
    runs = any(stage.members[name].alive() for name in ("nginx", "front1", "front2"))
    if not runs:  # a restart of dead fronts beside running ones keeps the options they
        rest = any(member.alive() for member in stage.members.values())
        return options.port or port, options.demo or (demo and rest)
    if options.port not in (None, port):
        raise Failed(f"runs on port {port}; `script/cluster down` first")
    if options.demo and not demo:
        raise Failed("runs without --demo; `script/cluster down` first")
    return port, demo


def check_port(stage):
    """A port of somebody else's is said before anything is started."""
    nginx = stage.members["nginx"]
    if nginx.alive():
        return
    with socket.socket() as probe:
        probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            probe.bind(nginx.address)
        except OSError:
            raise Failed(f"port {nginx.port} is taken; give nginx another with --port") from None


def say(text):
    """On a terminal one line that is written over; elsewhere a line each."""
    if sys.stderr.isatty():
        progress(text)
    elif text:
        print(f"cluster: {text}", file=sys.stderr, flush=True)


def up(options):
    if os.path.isdir(options.dir):
        settle(options)  # what is refused is refused before anything is built
    setuplib.build("cluster")
    port, demo = settle(options)
    stage = stage_of(options, port, demo)
    check_port(stage)
    keep(options, port, demo)
    for member in stage.members.values():  # so that the line names who is waited for
        spawn, wait, name = member.spawn, member.wait_ready, member.name
        member.spawn = lambda spawn=spawn, name=name: (say(f"starting {name}"), spawn())[1]
        member.wait_ready = lambda wait=wait, name=name: (progress(f"waiting for {name}"),
                                                          wait())[1]
    try:
        stage.start()
    except (AssertionError, OSError, proclib.Gone) as error:
        say("")
        raise Failed(f"{error}\n`script/cluster status` shows what runs, `down` stops it") from None
    say("")
    print(f"the shop       http://127.0.0.1:{stage.members['nginx'].port}/")
    for front in stage.fronts:
        print(f"{front.name:14} http://127.0.0.1:{front.port}/")
    print(f"admin token    {os.path.relpath(os.path.join(stage.keys, 'admin.token'))}")
    print(f"secrets        {os.path.relpath(stage.keys)}")
    print(f"folders, logs  {os.path.relpath(options.dir)}/*/log")
    shell = f"mariadb --no-defaults -u root -S {stage.mariadb.sql.socket}"
    print(f"MariaDB        {shell} sluice_ledger")
    print(f"Redis          redis-cli -c -p {stage.redis[0].port}")
    return 0


def known(options):
    if not os.path.isdir(options.dir):
        print(f"cluster: nothing in {os.path.relpath(options.dir)}; `script/cluster up` starts one")
        return False
    return True


def status(options):
    if not known(options):
        return 1
    stage = stage_of(options)
    fine = True
    for member in stage.members.values():
        alive = member.alive()
        ready = alive and (member.frozen() and "frozen" or (member.ready() and "ready"))
        word = ready or ("not ready" if alive else "down")
        fine = fine and word == "ready"
        print(f"{member.name:10} {member.kind:9} 127.0.0.1:{member.port:<6} "
              f"{'pid ' + str(member.pid) if alive else '':12} {word}")
    return 0 if fine else 1


def down(options):
    if not known(options):
        return 0
    stage = stage_of(options)
    stubborn = []
    for member in reversed(stage.members.values()):
        progress(f"stopping {member.name}")
        if not member.stop():
            stubborn.append(member.name)
    progress("")
    if stubborn:
        print(f"cluster: SIGTERM was not enough for {', '.join(stubborn)}", file=sys.stderr)
    return 1 if stubborn else 0


def clean(options):
    code = down(options)
    shutil.rmtree(options.dir, ignore_errors=True)
    return code


def main():
    parser = argparse.ArgumentParser(prog="script/cluster", description=__doc__,
                                     formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("what", choices=("up", "status", "down", "clean"))
    parser.add_argument("--dir", default=os.path.join(setuplib.ROOT, "build/cluster"),
                        help="where everything lives (build/cluster)")
    parser.add_argument("--port", type=int, help="nginx's port (8090, or the last one given)")
    parser.add_argument("--demo", action="store_true", help="fronts with login page and pay button")
    options = parser.parse_args()
    options.dir = os.path.abspath(options.dir)
    os.makedirs(os.path.join(setuplib.ROOT, "build"), exist_ok=True)
    try:
        with open(os.path.join(setuplib.ROOT, "build/.cluster-lock"), "w", encoding="ascii") \
                as lock:
            fcntl.flock(lock, fcntl.LOCK_EX)
            os.set_inheritable(lock.fileno(), False)
            return {"up": up, "status": status, "down": down, "clean": clean}[options.what](options)
    except Failed as failure:
        print(f"cluster: {failure}", file=sys.stderr)
        return 1
    except KeyboardInterrupt:
        return 130


if __name__ == "__main__":
    sys.exit(main())
