"""A private RabbitMQ for tests: own folder, ports and epmd; stopped by its pid.

RabbitMQ   start, stop, kill -9, freeze, thaw, restart; rabbitmqctl.
Control    a socket through which other programs do the same. It starts the broker at the first
           request: a start takes six seconds, and few tests need it.

Its folder is removed at the end. If its programs are missing, `missing()` says which.
"""
import contextlib
import os
import shutil
import signal
import socket
import socketserver
import subprocess
import sys
import tempfile
import threading
import time

import serverlib
import sluicelib

BIN = "/usr/lib/rabbitmq/bin"  # those on the PATH change the user
USER, PASSWORD = "sluice", "pass:word/1"
URL_LOGIN = "sluice:pass%3aword%2f1"
START_GUARD_S = 240  # Erlang starts slowly where others use the cores, too
CTL_GUARD_S = 120


def missing():
    """The programs that are not here, or ""."""
    wanted = [f"{BIN}/rabbitmq-server", f"{BIN}/rabbitmqctl"]
    gone = [os.path.basename(path) for path in wanted if not os.access(path, os.X_OK)]
    return ", ".join(gone + [name for name in ("epmd", "erl") if not shutil.which(name)])


class RabbitMQ:
    def __init__(self, settings=()):
        self.folder = tempfile.mkdtemp(prefix="sluice-rabbitmq-")
        self.port = sluicelib.private_port()
        self.epmd_port = sluicelib.private_port()
        self.dist_port = sluicelib.private_port()
        self.node = f"sluice{self.port}@localhost"
        self.process = self.epmd = None
        self.frozen = False
        self.environment = {
            "PATH": os.environ.get("PATH", ""), "LANG": "C.UTF-8", "HOME": self.folder,
            "ERL_EPMD_PORT": str(self.epmd_port), "ERL_EPMD_ADDRESS": "127.0.0.1",
            "RABBITMQ_NODENAME": self.node, "RABBITMQ_DIST_PORT": str(self.dist_port),
            "RABBITMQ_MNESIA_BASE": f"{self.folder}/data", "RABBITMQ_LOGS": "-",
            "RABBITMQ_LOG_BASE": f"{self.folder}/log",
            "RABBITMQ_CONFIG_FILE": f"{self.folder}/rabbitmq.conf",
            "RABBITMQ_CONF_ENV_FILE": f"{self.folder}/none.conf",
            "RABBITMQ_ENABLED_PLUGINS_FILE": f"{self.folder}/plugins",
            # Idle schedulers do not spin, and nothing listens on another address than loopback. A
            # node that starts may move dead letters before it knows their exchange, and tries again
            # after so long (three minutes unless told).
            "RABBITMQ_SERVER_ADDITIONAL_ERL_ARGS":
                "+sbwt none +sbwtdcpu none +sbwtdio none"
                " -kernel inet_dist_use_interface {127,0,0,1}"
                " -rabbit dead_letter_worker_publisher_confirm_timeout 2000",
            # The program is Erlang itself then, not a shell that waits for it.
            "RUNNING_UNDER_SYSTEMD": "true",
        }
        self.write("rabbitmq.conf", "\n".join([
            f"listeners.tcp.1 = 127.0.0.1:{self.port}", f"default_user = {USER}",
            f"default_pass = {PASSWORD}", "disk_free_limit.absolute = 50MB",
            "vm_memory_high_watermark.absolute = 1GB", *settings, ""]))
        self.write("plugins", "[].\n")
        self.write(".erlang.cookie", f"sluice{os.urandom(12).hex()}", 0o400)

    def write(self, name, text, mode=0o600):
        fd = os.open(f"{self.folder}/{name}", os.O_CREAT | os.O_WRONLY | os.O_TRUNC, mode)
        with os.fdopen(fd, "w") as file:
            file.write(text)

    # ------------------------------------------------------------ life

    def start(self):
        with open(f"{self.folder}/output", "ab") as log:
            if self.epmd is None:
                self.epmd = subprocess.Popen(
                    ["epmd", "-port", str(self.epmd_port), "-address", "127.0.0.1"],
                    stdin=subprocess.DEVNULL, stdout=log, stderr=log, env=self.environment)
            self.process = subprocess.Popen([f"{BIN}/rabbitmq-server"], cwd=self.folder,
                                            stdin=subprocess.DEVNULL, stdout=log, stderr=log,
                                            env=self.environment, start_new_session=True)
        return self.wait()

    def wait(self):
        sluicelib.eventually(self.answers, "RabbitMQ to answer", START_GUARD_S, every_s=0.05)
        return self

    def answers(self):
        """It says connection.start; it listens only when the rest of it is ready."""
        assert self.process.poll() is None, f"RabbitMQ ended: {self.log()[-2000:]}"
        with contextlib.suppress(OSError), \
                socket.create_connection(("127.0.0.1", self.port), 5) as s:
            s.sendall(b"AMQP\0\0\x09\x01")
            return s.recv(8)[:1] == b"\x01"
        return False

    def log(self):
        with open(f"{self.folder}/output", errors="replace") as log:
            return log.read()

    def running(self):
        return self.process is not None and self.process.poll() is None

    def signal(self, number):
        """To the broker and its helpers; the group is its own."""
        if self.running():
            os.killpg(self.process.pid, number)

    def kill(self):
        """As the power would end it (what was not synced stays in the kernel's cache, though)."""
        self.signal(signal.SIGKILL)
        self.process.wait()
        self.frozen = False

    def freeze(self):
        self.signal(signal.SIGSTOP)
        self.frozen = True

    def thaw(self):
        self.signal(signal.SIGCONT)
        self.frozen = False

    def stop(self):
        if self.running():
            self.thaw()
            self.process.terminate()
            try:
                self.process.wait(60)
            except subprocess.TimeoutExpired:
                self.kill()

    def restart(self):
        self.stop()
        return self.start()

    def discard(self):
        if self.running():
            self.kill()  # nothing of it is kept, so nothing has to be in order
        if self.epmd is not None:
            self.epmd.kill()
            self.epmd.wait()
        if not os.environ.get("SLUICE_KEEP"):
            shutil.rmtree(self.folder, ignore_errors=True)

    def __enter__(self):
        return self.start()

    def __exit__(self, *unused):
        self.discard()

    # ------------------------------------------------------------ shared

    def told(self):
        """What another process needs to use this broker."""
        return {"folder": self.folder, "port": self.port, "environment": self.environment}

    @classmethod
    def attached(cls, told):
        """A broker that another process runs: to use; its life is not ours."""
        broker = cls.__new__(cls)
        broker.folder, broker.port = told["folder"], told["port"]
        broker.environment = told["environment"]
        broker.process = broker.epmd = None
        return broker

    # ------------------------------------------------------------ use

    def url(self, vhost="%2f"):
        return f"amqp://{URL_LOGIN}@127.0.0.1:{self.port}/{vhost}"

    def ctl(self, *words):
        """What rabbitmqctl prints; it takes a second or two."""
        done = subprocess.run([f"{BIN}/rabbitmqctl", "--quiet", *words], text=True,
                              stdin=subprocess.DEVNULL, capture_output=True, env=self.environment,
                              timeout=CTL_GUARD_S)
        assert done.returncode == 0, f"rabbitmqctl {words}: {done.stdout}{done.stderr}"
        return done.stdout

    def amqp(self):
        """A connection of our own."""
        return serverlib.Amqp(self.port, USER, PASSWORD)

    def publish(self, exchange, key, *bodies):
        """Persistent messages, as somebody else would send them; until the broker has them."""
        with self.amqp() as amqp:
            amqp.confirm()
            for body in bodies:
                amqp.publish(exchange.encode(), key.encode(), serverlib.PERSISTENT,
                             body if isinstance(body, bytes) else body.encode())
            amqp.wait_confirms(len(bodies))

    def queues(self):
        """Name -> messages, ready and taken together."""
        rows = self.ctl("list_queues", "name", "messages", "--no-table-headers").splitlines()
        return {name: int(count) for name, count in (row.split("\t") for row in rows)}


class Control:
    """A broker that other programs start and hurt: lines of start, kill, stop, freeze, thaw, or ctl
    and words for rabbitmqctl, over a socket, each answered with ok or with what went wrong."""

    WORDS = ("start", "kill", "stop", "freeze", "thaw")

    def __init__(self):
        self.broker = RabbitMQ()
        self.path = f"{self.broker.folder}/control"
        self.lock = threading.Lock()
        control = self

        class Handler(socketserver.StreamRequestHandler):
            def handle(self):
                for line in self.rfile:
                    self.wfile.write(control.answer(line.decode().strip()).encode() + b"\n")

        class Server(socketserver.ThreadingMixIn, socketserver.UnixStreamServer):
            daemon_threads = True

        self.server = Server(self.path, Handler)
        self.thread = threading.Thread(target=self.server.serve_forever, daemon=True)

    def answer(self, word):
        with self.lock:
            try:
                if word.startswith("ctl "):
                    self.broker.ctl(*word.split()[1:])
                elif word not in self.WORDS:
                    return f"no such word: {word}"
                elif word == "start" and self.broker.running():
                    self.broker.thaw()
                    self.broker.wait()
                else:
                    getattr(self.broker, word)()
                return "ok"
            except (AssertionError, OSError, subprocess.SubprocessError) as error:
                return f"{type(error).__name__}: {error}".replace("\n", " ")

    def environment(self):
        return {"SLUICE_TEST_RABBITMQ": self.broker.url(),
                "SLUICE_TEST_RABBITMQ_CONTROL": self.path}

    def __enter__(self):
        self.thread.start()
        return self.environment()

    def __exit__(self, *unused):
        self.server.shutdown()
        self.server.server_close()
        with self.lock:
            self.broker.discard()


def main():
    """For work by hand: a broker until Ctrl-C or SIGTERM, and how the C tests reach it."""
    signal.signal(signal.SIGTERM, signal.default_int_handler)
    control = Control()
    with control as environment:
        if "--later" not in sys.argv:
            control.broker.start()
        for name, value in environment.items():
            print(f"export {name}='{value}'", flush=True)
        with contextlib.suppress(KeyboardInterrupt):
            while True:
                time.sleep(1)


if __name__ == "__main__":
    main()
