#!/usr/bin/python3
"""Tries every command of script/ as the first one on a machine with nothing installed.

  test/bare.py                    all of them, two at a time
  test/bare.py server bench       only these
  test/bare.py --json FILE        writes [{"name", "ok", "seconds", "what"}] to FILE, too

The machine is a Debian made by debootstrap (minbase: no compiler, no Python). It is made once, in
build/bare/base, with this machine's apt sources, proxies and certificates. Each command gets a fresh
copy of it (an overlay; where the kernel has none, a real copy) and a fresh clone of HEAD; changes that
are not committed are not tried. Packages and npm's archives are downloaded once for all, and the
commands share ccache's results, which it uses only where all headers are the same.

A command runs in a mount and a process namespace of its own: its mounts and processes end with it. It
shares the network, so it gets a free port. It fails, too, where it leaves a process behind.

Prints `ok NAME  SECONDS s` or `FAILED NAME: why`, and the end of its log, build/test-logs/bare-NAME.log.
Exit 0: all worked; 1: not; 2: usage, or they could not be tried here.
"""
import argparse
import concurrent.futures
import fcntl
import json
import os
import shlex
import shutil
import signal
import socket
import subprocess
import sys
import textwrap
import threading
import time
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
FOLDER = ROOT / "build/bare"
BASE = FOLDER / "base"
LOGS = ROOT / "build/test-logs"
SUITE = "bookworm"
TIMEOUT_S = 60 * 60
TAIL_LINES = 25
LEFT_RUNNING = 98
DIES_WITH_US = ("setpriv", "--pdeathsig", "KILL")
# What names proxies and certificates, here as in the root.
PASSED_ON = ("http_proxy", "https_proxy", "no_proxy", "HTTP_PROXY", "HTTPS_PROXY", "NO_PROXY",
             "NODE_EXTRA_CA_CERTS", "SSL_CERT_FILE")
CERTIFICATES = ("/etc/ssl/certs", os.environ.get("NODE_EXTRA_CA_CERTS"),
                os.environ.get("SSL_CERT_FILE"))

SERVER = """
script/server --listen 127.0.0.1:$PORT --data /tmp/data &
server=$!
until (exec 3<>/dev/tcp/127.0.0.1/$PORT
       printf 'GET /readyz HTTP/1.1\\r\\nHost: a\\r\\nConnection: close\\r\\n\\r\\n' >&3
       grep -q '^HTTP/1.1 200' <&3) 2>/dev/null; do
    kill -0 $server
    sleep 0.2
done
kill $server
wait $server
"""
# The shortest form of each command that does what the command is for.
COMMANDS = {
    "server": SERVER,
    "test": "script/test --only layers",
    "bench": "script/bench --quick --only micro",
    "cluster": "script/cluster up --port $PORT; script/cluster status; script/cluster clean",
    "drill": "script/drill embedded-kill --short",
    "simulate": "script/simulate --seeds 5",
    "fuzz": "script/fuzz record --minutes 0.05",
    "coverage": "script/coverage",
    "crash": "script/crash --loops 2",
    "watchers": "script/watchers --short --item",
    "screenshots": "SCREENSHOTS=/tmp/shots script/screenshots list-phone-en-light; "
                   "test -s /tmp/shots/list-phone-en-light.png",
    # One after the other: bench once found a build that was configured without the test library.
    "server-bench": SERVER + "script/bench --quick --only relay",
}

# The first process of the namespaces: $base, $folder, $npm, $ccache and $npmrc, then the command.
INIT = r"""
set -eu
root=$folder/root
mount -t overlay overlay -o "lowerdir=$base,upperdir=$folder/upper,workdir=$folder/work" "$root" ||
    cp -a "$base/." "$root/"
mkdir -p "$root/sluice" "$root/root/.npm" "$root/root/.cache/ccache"
mount --bind "$folder/clone" "$root/sluice"
mount --bind "$npm" "$root/root/.npm"
mount --bind "$ccache" "$root/root/.cache/ccache"
if [ -f "$npmrc" ]; then
    touch "$root/root/.npmrc"
    mount --bind -o ro "$npmrc" "$root/root/.npmrc"
fi
mount -t proc proc "$root/proc"
mount --rbind /sys "$root/sys"
mount --rbind /dev "$root/dev"
mount -t tmpfs tmpfs "$root/dev/shm"
code=0
chroot "$root" "$@" || code=$?
[ $code -eq 0 ] || exit $code
# Without a subshell, which would be a process, too.
for turn in {1..50}; do
    left=()
    for process in "$root"/proc/[0-9]*; do
        words=()
        [ "${process##*/}" = 1 ] || mapfile -d '' -t words 2>/dev/null <"$process/cmdline" || true
        [ ${#words[@]} -eq 0 ] || left+=("${words[*]}")
    done
    [ ${#left[@]} -gt 0 ] || exit 0
    sleep 0.1
done
printf 'left running: %s\n' "${left[@]}"
exit 98
"""


class Refused(Exception):
    """Why nothing can be tried here."""


# ---------------------------------------------------------------- processes

class Processes:
    """What runs, so that an interrupt ends it: each leads a process group."""

    def __init__(self):
        self.lock, self.running, self.ended = threading.Lock(), set(), False

    def run(self, command, log, timeout_s=TIMEOUT_S, env=None):
        with self.lock:
            if self.ended:
                return 130
            process = subprocess.Popen([*DIES_WITH_US, *command], stdin=subprocess.DEVNULL,
                                       stdout=log, stderr=log, start_new_session=True, env=env)
            self.running.add(process)
        try:
            return process.wait(timeout_s)
        except subprocess.TimeoutExpired:
            print(f"still running after {timeout_s} s", file=log, flush=True)
            return 124
        finally:
            self.end(process)

    def end(self, process):
        with self.lock:
            self.running.discard(process)
            if process.poll() is None:
                os.killpg(process.pid, signal.SIGKILL)
                process.wait()

    def end_all(self):
        with self.lock:
            self.ended = True
            running = list(self.running)
        for process in running:
            self.end(process)


PROCESSES = Processes()


def output_of(*command):
    done = subprocess.run(command, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, text=True,
                          stderr=subprocess.DEVNULL, check=False)
    return done.stdout if done.returncode == 0 else ""


def tail(path):
    return "\n".join(path.read_text(errors="replace").splitlines()[-TAIL_LINES:])


# ---------------------------------------------------------------- the bare machine

def debian_sources():
    """(URI, release, component) of this machine's sources of Debian."""
    words = ("apt-get", "indextargets", "--format", "$(REPO_URI) $(CODENAME) $(COMPONENT)",
             "Created-By: Packages", "Origin: Debian")
    told = output_of(*words)
    if not told:
        output_of("apt-get", "-q", "update")
        told = output_of(*words)
    found = [tuple(line.split()) for line in told.splitlines()]
    if not found:
        raise Refused("apt knows no source of Debian's packages here")
    ours = [one for one in found if one[1].startswith(SUITE)]
    return ours or [(found[0][0], SUITE, "main")]


def apt_settings():
    """Proxies and whatever else apt needs to reach its sources."""
    names = ("Acquire::http", "Acquire::https", "Acquire::Check-Valid-Until")
    return "".join(output_of("apt-config", "dump", "--no-empty", name) for name in names)


def copy_certificates():
    for path in filter(None, CERTIFICATES):
        inside = BASE / path.lstrip("/")
        if os.path.isdir(path):
            shutil.copytree(path, inside, dirs_exist_ok=True, ignore_dangling_symlinks=True)
        elif os.path.isfile(path):
            inside.parent.mkdir(parents=True, exist_ok=True)
            shutil.copy(path, inside)


def run_logged(log, what, *command, env=None):
    print("$", shlex.join(command), file=log, flush=True)
    if PROCESSES.run(command, log, env=env) != 0:
        raise Refused(f"{what} failed:\n{tail(Path(log.name))}")


def make_base(log, sources):
    """A minimal Debian, once."""
    if BASE.exists():
        return
    half = FOLDER / "base.new"
    shutil.rmtree(half, ignore_errors=True)
    env = dict(os.environ)
    proxy = output_of("apt-config", "dump", "--format", "%v%n", "Acquire::http::Proxy").strip()
    if proxy and proxy != "DIRECT":
        env.setdefault("http_proxy", proxy)
    run_logged(log, "debootstrap", "debootstrap", "--variant=minbase", SUITE, str(half),
               next(uri for uri, release, _ in sources if release == SUITE), env=env)
    half.rename(BASE)


def fill_base(log, sources):
    """The settings of apt as they are here today, and every package, downloaded but not installed."""
    (BASE / "etc/apt/sources.list").write_text(
        "".join(f"deb {uri} {release} {component}\n" for uri, release, component in sources))
    (BASE / "etc/apt/apt.conf.d/90host").write_text(apt_settings())
    # It is thrown away: nothing has to survive a power cut.
    (BASE / "etc/dpkg/dpkg.cfg.d/unsafe-io").write_text("force-unsafe-io\n")
    for name in ("resolv.conf", "hosts"):
        if os.path.exists(f"/etc/{name}"):
            shutil.copy(f"/etc/{name}", BASE / "etc" / name)
    copy_certificates()
    lines = (ROOT / "script/packages").read_text().splitlines()
    packages = sorted({line.split()[0] for line in lines if line and not line.startswith("#")})
    apt = ["chroot", str(BASE), "/usr/bin/env", *environment(), "apt-get", "-y", "-q"]
    run_logged(log, "apt-get update", *apt, "update")
    run_logged(log, "the download of the packages", *apt, "install", "--download-only",
               "--no-install-recommends", *packages)


def environment(**more):
    words = {"HOME": "/root", "LANG": "C.UTF-8", "DEBIAN_FRONTEND": "noninteractive",
             "PATH": "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin", **more}
    words.update({name: os.environ[name] for name in PASSED_ON if name in os.environ})
    return ["-i", *(f"{name}={value}" for name, value in words.items())]


def prepare():
    """The base, or Refused."""
    if os.geteuid() != 0:
        raise Refused("needs root: it makes a root folder of its own and mounts")
    if not shutil.which("debootstrap"):
        raise Refused("debootstrap is missing: `script/bootstrap bare` installs it")
    if subprocess.run(["unshare", "--mount", "--pid", "--fork", "true"], check=False,
                      stdin=subprocess.DEVNULL, stderr=subprocess.DEVNULL).returncode != 0:
        raise Refused("this machine does not let root make mount and process namespaces")
    for name in ("npm", "ccache"):
        (FOLDER / name).mkdir(parents=True, exist_ok=True)
    LOGS.mkdir(parents=True, exist_ok=True)
    sources = debian_sources()
    with (LOGS / "bare-base.log").open("w") as log:
        make_base(log, sources)
        fill_base(log, sources)


# ---------------------------------------------------------------- commands

def free_port():
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return probe.getsockname()[1]


def in_fresh_root(text, folder, log):
    """The exit status of a command, the first one there."""
    for name in ("upper", "work", "root"):
        (folder / name).mkdir(parents=True)
    subprocess.run(["git", "clone", "-q", "--no-hardlinks", str(ROOT), str(folder / "clone")],
                   check=True, stdin=subprocess.DEVNULL, stdout=log, stderr=log)
    given = {"base": BASE, "folder": folder, "npm": FOLDER / "npm", "ccache": FOLDER / "ccache",
             "npmrc": Path.home() / ".npmrc"}
    return PROCESSES.run(
        ["unshare", "--mount", "--pid", "--fork", "--kill-child", "--propagation", "private",
         "bash", "-c", INIT, "init", "/usr/bin/env", *environment(PORT=free_port()),
         "/bin/bash", "-euc", f"cd /sluice\n{text}"],
        log, env={**os.environ, **{name: str(value) for name, value in given.items()}})


def attempt(name):
    """{"name", "ok", "seconds", "what"}."""
    folder, path = FOLDER / name, LOGS / f"bare-{name}.log"
    shutil.rmtree(folder, ignore_errors=True)
    started = time.monotonic()
    try:
        with path.open("w") as log:
            code = in_fresh_root(COMMANDS[name], folder, log)
        what = "" if code == 0 else \
            "left processes running" if code == LEFT_RUNNING else f"ended with status {code}"
    except (OSError, subprocess.SubprocessError) as error:
        what = str(error)
    finally:
        shutil.rmtree(folder, ignore_errors=True)
    return {"name": name, "ok": not what, "seconds": round(time.monotonic() - started, 1),
            "what": what}


def show(result):
    if result["ok"]:
        print(f"ok {result['name']}  {result['seconds']:.1f} s", flush=True)
        return
    path = LOGS / f"bare-{result['name']}.log"
    print(f"FAILED {result['name']}: {result['what']} ({path.relative_to(ROOT)})", flush=True)
    print(textwrap.indent(tail(path), "    "), flush=True)


def try_all(names, jobs):
    results = []
    with concurrent.futures.ThreadPoolExecutor(jobs) as pool:
        try:
            for done in concurrent.futures.as_completed([pool.submit(attempt, one)
                                                         for one in names]):
                results.append(done.result())
                show(results[-1])
        except BaseException:
            pool.shutdown(wait=False, cancel_futures=True)
            PROCESSES.end_all()
            raise
    return results


def parse():
    parser = argparse.ArgumentParser(prog="test/bare.py", description=__doc__,
                                     formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("names", nargs="*", metavar="NAME", help=f"some of {' '.join(COMMANDS)}")
    parser.add_argument("--jobs", type=int, default=2, help="how many at a time (2)")
    parser.add_argument("--json", type=Path, metavar="FILE", help="write the results to FILE, too")
    options = parser.parse_args()
    unknown = [name for name in options.names if name not in COMMANDS]
    if unknown or options.jobs < 1:
        parser.error(f"no command is called {' '.join(unknown)}" if unknown else "--jobs is above 0")
    return options


def main():
    options = parse()
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(143))  # so that what runs is ended
    try:
        FOLDER.mkdir(parents=True, exist_ok=True)
        with (FOLDER / ".lock").open("w") as lock:
            try:
                fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
            except BlockingIOError:
                raise Refused("another one runs in build/bare") from None
            prepare()
            results = try_all(options.names or list(COMMANDS), options.jobs)
    except Refused as why:
        print(f"bare: {why}", file=sys.stderr)
        return 2
    except KeyboardInterrupt:
        return 130
    if options.json:
        options.json.write_text(json.dumps(results, indent=1) + "\n")
    return 0 if all(result["ok"] for result in results) else 1


if __name__ == "__main__":
    sys.exit(main())
