"""Servers as processes that can be killed or frozen: each in its own folder, stopped by its pid.

Member     one server: its command, its readiness; start, stop, kill -9, freeze, thaw.
Nginx      nginx in front of some addresses, as in deploy/nginx.conf.
MariaDB    marialib's server as a member.

A member leads a process group, so that a signal also reaches its children (nginx, RabbitMQ). It
outlives the script that started it: a later one finds it by its pid file, which has the start time
of the process (script/cluster). No process is found by its name.
"""
import os
import shutil
import signal
import subprocess
import time

import marialib
import sluicelib

STOP_S = 30
START_S = 600  # a hang guard: machines are busy where everything runs at once


class Gone(AssertionError):
    """A member ended by itself."""


def process_state(pid):
    """(state letter, start time) of a process, or None."""
    try:
        with open(f"/proc/{pid}/stat", encoding="ascii", errors="replace") as file:
            fields = file.read().rsplit(")", 1)[1].split()
    except (OSError, IndexError):
        return None
    return fields[0], fields[19]


def kept_port(folder, name):
    """A port that a folder keeps over restarts, in its file NAME.port."""
    path = os.path.join(folder, f"{name}.port")
    if os.path.exists(path):
        with open(path, encoding="ascii") as file:
            return int(file.read())
    os.makedirs(folder, exist_ok=True)
    port = sluicelib.private_port()
    with open(path, "w", encoding="ascii") as file:
        file.write(f"{port}\n")
    return port


class Member:
    kind = "server"

    def __init__(self, name, folder, port=None):
        self.name, self.folder = name, folder
        os.makedirs(folder, exist_ok=True)
        self.port = port or kept_port(folder, "port")
        self.address = ("127.0.0.1", self.port)
        self.process = None  # ours to wait for; None where an earlier script started it
        self.pid = self.born = None
        self.starts = 0
        self._adopt()

    # ------------------------------------------------------------ what it is

    def command(self):
        raise NotImplementedError

    def environment(self):
        return dict(os.environ)

    def prepare(self):
        """Files it needs, before each start."""

    def ready(self):
        raise NotImplementedError

    def __str__(self):
        return f"{self.name} at 127.0.0.1:{self.port}"

    # ------------------------------------------------------------ life

    def pid_path(self):
        return os.path.join(self.folder, "member.pid")

    def log_path(self):
        return os.path.join(self.folder, "log")

    def log(self):
        try:
            with open(self.log_path(), errors="replace") as file:
                return file.read()
        except OSError:
            return ""

    def _adopt(self):
        try:
            with open(self.pid_path(), encoding="ascii") as file:
                pid, born = file.read().split()
        except (OSError, ValueError):
            return
        state = process_state(int(pid))
        if state and state[1] == born and state[0] not in "ZX":
            self.pid, self.born = int(pid), born

    def alive(self):
        if self.pid is None:
            return False
        if self.process is not None and self.process.poll() is not None:
            return False
        state = process_state(self.pid)
        return bool(state) and state[1] == self.born and state[0] not in "ZX"

    def spawn(self):
        assert not self.alive(), f"{self.name} runs already"
        self.prepare()
        with open(self.log_path(), "ab") as log:
            self.process = subprocess.Popen(
                [str(word) for word in self.command()], cwd=self.folder, env=self.environment(),
                stdin=subprocess.DEVNULL, stdout=log, stderr=log, start_new_session=True)
        self.pid = self.process.pid
        self.born = (process_state(self.pid) or ("", "gone"))[1]
        self.starts += 1
        with open(self.pid_path(), "w", encoding="ascii") as file:
            file.write(f"{self.pid} {self.born}\n")
        return self

    def wait_ready(self):
        return self._wait_ready(START_S)

    def _wait_ready(self, guard_s, is_ready=None):
        def ready():
            if not self.alive():
                raise Gone(f"{self.name} ended by itself; the end of {self.log_path()}:\n"
                           f"{self.log()[-2000:]}")
            return (is_ready or self.ready)()

        sluicelib.eventually(ready, f"{self.name} to be ready (log: {self.log_path()})", guard_s,
                             every_s=0.05)
        return self

    def start(self):
        return self.spawn().wait_ready()

    def signal(self, number):
        """To the whole group; False where it is gone already."""
        try:
            os.killpg(self.pid, number)
            return True
        except ProcessLookupError:
            return False

    def _wait_gone(self, guard_s):
        end = time.monotonic() + guard_s
        while self.alive():
            if time.monotonic() > end:
                return False
            time.sleep(0.005)
        return True

    def kill(self):
        """kill -9; the pid that died."""
        pid = self.pid
        self.signal(signal.SIGKILL)
        assert self._wait_gone(sluicelib.GUARD_S), f"{self.name} survived SIGKILL"
        self._forget()
        return pid

    def stop(self, guard_s=STOP_S):
        """SIGTERM; SIGKILL where that does not help. True if it ended by the first."""
        if not self.alive():
            self._forget()
            return True
        self.signal(signal.SIGCONT)
        self.signal(self.stop_signal())
        clean = self._wait_gone(guard_s)
        if not clean:
            self.kill()
        self._forget()
        return clean

    def stop_signal(self):
        return signal.SIGTERM

    def _forget(self):
        if self.process is not None:
            self.process.wait()
        if self.pid is not None:
            self.signal(signal.SIGKILL)  # children that a kill -9 of their parent left behind
        self.process = self.pid = self.born = None
        if os.path.exists(self.pid_path()):
            os.unlink(self.pid_path())

    def freeze(self):
        """SIGSTOP; the pid, once it stands still."""
        self.signal(signal.SIGSTOP)
        sluicelib.eventually(self.frozen, f"{self.name} to stand still", every_s=0.002)
        return self.pid

    def frozen(self):
        state = process_state(self.pid)
        return bool(state) and state[0] == "T"

    def thaw(self):
        if self.pid is not None:
            self.signal(signal.SIGCONT)

    def discard(self):
        if self.alive():
            self.thaw()
            self.kill()
        self._forget()
        if not os.environ.get("SLUICE_KEEP"):
            shutil.rmtree(self.folder, ignore_errors=True)


# ---------------------------------------------------------------- MariaDB

class MariaDB(Member):
    kind = "mariadb"

    def __init__(self, name, folder, port=None, options=()):
        super().__init__(name, folder, port)
        self.sql = marialib.MariaDB(options, folder, self.port)

    def command(self):
        return self.sql.command()

    def ready(self):
        if self.sql.shell("SELECT 1").returncode != 0:
            return False
        self.sql.make_user()
        return True


# ---------------------------------------------------------------- nginx

class Nginx(Member):
    """deploy/nginx.conf with our addresses in it."""

    kind = "nginx"

    def __init__(self, name, folder, upstreams, port=None):
        super().__init__(name, folder, port)
        self.upstreams = upstreams

    def prepare(self):
        path = os.path.join(sluicelib.ROOT, "deploy/nginx.conf")
        with open(path, encoding="utf-8") as file:
            text = file.read()
        begin, rest = text.split("        # fronts: begin\n")
        _, end = rest.split("        # fronts: end\n")
        fronts = "".join(f"        server {host}:{port} max_fails=3 fail_timeout=1s;\n"
                         for host, port in self.upstreams)
        text = begin + fronts + end
        for old, new in (("listen 80;", f"listen 127.0.0.1:{self.port};"),
                         ("pid /run/nginx.pid;", f"pid {self.folder}/nginx.pid;"),
                         ("# folders\n", self._folders())):
            assert old in text, f"deploy/nginx.conf lost its {old!r}"
            text = text.replace(old, new)
        with open(os.path.join(self.folder, "nginx.conf"), "w", encoding="utf-8") as file:
            file.write(text)

    def _folders(self):
        return "".join(f"{name}_temp_path {self.folder}/{name};\n    "
                       for name in ("client_body", "proxy", "fastcgi", "uwsgi", "scgi"))

    def command(self):
        user = ["-g", f"daemon off; {'user root;' if os.geteuid() == 0 else ''}"]
        return [marialib.find("nginx"), "-p", self.folder, "-c", f"{self.folder}/nginx.conf",
                "-e", f"{self.folder}/error.log", *user]

    def stop_signal(self):
        return signal.SIGTERM

    def ready(self):
        return http_status(self.address, "/readyz") is not None


def http_status(address, path):
    """The status of one GET, or None where nobody answers."""
    try:
        with sluicelib.Conn(address, timeout_s=5) as conn:
            conn.send(sluicelib.request_bytes("GET", path))
            return conn.read_response().status
    except (OSError, sluicelib.ProtocolError):
        return None
