"""A private MariaDB for tests: own folder, port and socket; stopped by its pid.

MariaDB    install, start, kill -9, freeze, thaw, stop; SQL through its shell.
Database   one of its databases, for a ledger: its URL, and snapshots of its contents.

Every commit is synced, as in production, unless a test says otherwise. Its folder is removed at the
end. If its programs are missing, `missing()` says which.
"""
import atexit
import functools
import os
import random
import re
import shutil
import signal
import subprocess
import tempfile
import time

import sluicelib

LOG_SIZE = "--innodb-log-file-size=16M"
PROGRAMS = ("mariadb-install-db", "mariadbd", "mariadb")
USER, PASSWORD = "sluice", "pass word/1"
URL_LOGIN = "sluice:pass%20word%2f1"


def find(program):
    return shutil.which(program, path=os.environ.get("PATH", "") + ":/usr/sbin:/usr/local/sbin")


def missing():
    """The programs that are not here, or ""."""
    return ", ".join(program for program in PROGRAMS if not find(program))


def run_as():
    return ["--user=root"] if os.geteuid() == 0 else []


@functools.lru_cache(None)
def template():
    """A data folder as installed, made once for this process (or, by test/run.py, once for all
    processes of a run): installing takes seconds."""
    made = os.environ.get("SLUICE_MARIADB_TEMPLATE")
    if made and os.path.isdir(made):
        return made
    folder = tempfile.mkdtemp(prefix="sluice-mariadb-template-")
    atexit.register(shutil.rmtree, folder, ignore_errors=True)
    # A tmpdir of its own: a server that starts removes the temporary tables of others from its.
    os.mkdir(f"{folder}/tmp")
    done = subprocess.run([find("mariadb-install-db"), "--no-defaults", *run_as(),
                           f"--datadir={folder}/data", f"--tmpdir={folder}/tmp", "--skip-test-db", LOG_SIZE,
                           "--auth-root-authentication-method=normal"],
                          stdin=subprocess.DEVNULL, capture_output=True, text=True)
    assert done.returncode == 0, done.stdout + done.stderr
    return f"{folder}/data"


class MariaDB:
    def __init__(self, options=(), folder=None, port=None):
        """folder: one that stays, with what an earlier server left in it."""
        self.folder = folder or tempfile.mkdtemp(prefix="sluice-mariadb-")
        self.socket = f"{self.folder}/s.sock"
        self.options = list(options)
        self.port = port or sluicelib.private_port()
        self.process = None
        os.makedirs(f"{self.folder}/tmp", exist_ok=True)
        if not os.path.exists(f"{self.folder}/data"):
            shutil.copytree(template(), f"{self.folder}/data.new", dirs_exist_ok=True)
            os.rename(f"{self.folder}/data.new", f"{self.folder}/data")

    # ------------------------------------------------------------ life

    def command(self):
        return [find("mariadbd"), "--no-defaults", *run_as(),
                f"--datadir={self.folder}/data", f"--tmpdir={self.folder}/tmp",
                f"--socket={self.socket}", f"--pid-file={self.folder}/pid",
                f"--port={self.port}", "--bind-address=127.0.0.1",
                "--innodb-buffer-pool-size=64M", LOG_SIZE,
                "--skip-name-resolve", *self.options]

    def start(self):
        with open(f"{self.folder}/log", "ab") as log:
            self.process = subprocess.Popen(self.command(), stdin=subprocess.DEVNULL, stdout=log,
                                            stderr=log)
        sluicelib.eventually(self.answers, "MariaDB to answer", every_s=0.05)
        self.make_user()
        return self

    def make_user(self):
        self.run(f"CREATE USER IF NOT EXISTS {USER}@'%' IDENTIFIED BY '{PASSWORD}';"
                 f"GRANT ALL ON `sluice\\_%`.* TO {USER}@'%'")

    def answers(self):
        assert self.process.poll() is None, f"MariaDB ended: {self.log()[-2000:]}"
        return self.shell("SELECT 1").returncode == 0

    def log(self):
        with open(f"{self.folder}/log", errors="replace") as log:
            return log.read()

    def kill(self):
        """As the power would end it."""
        self.process.kill()
        self.process.wait()

    def freeze(self):
        self.process.send_signal(signal.SIGSTOP)

    def thaw(self):
        self.process.send_signal(signal.SIGCONT)

    def stop(self):
        if self.process and self.process.poll() is None:
            self.thaw()
            self.process.terminate()
            try:
                self.process.wait(30)
            except subprocess.TimeoutExpired:
                self.kill()

    def discard(self):
        self.stop()
        if not os.environ.get("SLUICE_KEEP"):
            shutil.rmtree(self.folder, ignore_errors=True)

    def __enter__(self):
        return self.start()

    def __exit__(self, *unused):
        self.discard()

    # ------------------------------------------------------------ shared

    def told(self):
        """What another process needs to use this server."""
        return {"folder": self.folder, "port": self.port}

    @classmethod
    def attached(cls, told):
        """A server that another process runs: for SQL; its life is not ours."""
        server = cls.__new__(cls)
        server.folder, server.port = told["folder"], told["port"]
        server.socket, server.options, server.process = f"{server.folder}/s.sock", [], None
        return server

    # ------------------------------------------------------------ SQL

    def shell(self, sql, database=""):
        return subprocess.run([find("mariadb"), "--no-defaults", "--batch", "--raw",
                               "--skip-column-names", f"--socket={self.socket}", "--user=root",
                               f"--database={database}"],
                              input=sql, text=True, capture_output=True)

    def run(self, sql, database=""):
        """The rows, each a tuple of texts (NULL is the text NULL)."""
        done = self.shell(sql, database)
        assert done.returncode == 0, f"{sql}: {done.stderr}"
        return [tuple(line.split("\t")) for line in done.stdout.splitlines()]

    def database(self, databases=1):
        return Database(self, databases=databases)

    def address(self):
        """What SLUICE_TEST_MARIADB wants: the server, without a database."""
        return f"mariadb://{URL_LOGIN}@127.0.0.1:{self.port}/"


class Database:
    def __init__(self, server, name=None, databases=1):
        """databases: that the ledger splits its orders over; what is asked of `orders` here is
        asked of all of them."""
        self.server, self.databases = server, databases
        self.name = name or f"sluice_{random.SystemRandom().randrange(2**40):x}"
        self.url = server.address() + self.name
        self.url += f"?databases={databases}" if databases > 1 else ""
        server.run(f"CREATE DATABASE IF NOT EXISTS {self.name}")

    def of_all(self, sql):
        return re.sub(r"\borders\b", "all_orders", sql) if self.databases > 1 else sql

    def rows(self, sql):
        return [value_row(row) for row in self.server.run(self.of_all(sql), self.name)]

    def part(self, place):
        """The database of that place, by itself."""
        return f"{self.name}_{place}" if place > 0 else self.name

    def snapshot(self):
        return Snapshot(self.server, self.name, self.of_all)


def value_row(texts):
    """Numbers as numbers, NULL as None."""
    def value(text):
        if text == "NULL":
            return None
        return int(text) if text.isdigit() and len(text) < 20 else text  # an order id has 26

    return tuple(map(value, texts))


class Snapshot:
    """One state of a database: a shell that keeps a transaction open while it is asked."""

    END = "-- that was all --"

    def __init__(self, server, database, of_all=lambda sql: sql):
        self.of_all = of_all
        self.shell = subprocess.Popen(
            [find("mariadb"), "--no-defaults", "--batch", "--raw", "--skip-column-names",
             "--unbuffered", f"--socket={server.socket}", "--user=root",
             f"--database={database}"], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
        self.rows("START TRANSACTION WITH CONSISTENT SNAPSHOT, READ ONLY")

    def rows(self, sql):
        self.shell.stdin.write(f"{self.of_all(sql)};\nSELECT '{self.END}';\n")
        self.shell.stdin.flush()
        found = []
        while True:
            line = self.shell.stdout.readline()
            assert line, f"the shell ended at: {sql}"
            line = line.rstrip("\n")
            if line == self.END:
                return found
            found.append(value_row(line.split("\t")))

    def close(self):
        self.shell.stdin.close()
        self.shell.wait()
        self.shell.stdout.close()


if __name__ == "__main__":
    # For work by hand: a server until Ctrl-C, and how the C tests reach it.
    with MariaDB() as server:
        print(f"export SLUICE_TEST_MARIADB='{server.address()}'", flush=True)
        try:
            while server.process.poll() is None:
                time.sleep(1)
        except KeyboardInterrupt:
            pass
