"""The servers that tests share: started once for a run, in the background, while the build runs.

For the tests in C: a Redis, a MariaDB, and a RabbitMQ that its tests may kill. For the tests of the
distributed engine: one of each; every server under test gets its own prefix, database and queue in
them (enginelib.py connects to them). Servers that are not installed are left out, and the tests
that need them are skipped.

They are started when the first job needs them. Their databases are in memory if there is room: no
such test is about the disk, and a sync in memory costs nothing. Tests of the disk start their own
servers.
"""

import contextlib
import json
import os
import shutil
import sys
import tempfile
import threading
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent.parent
sys.path.insert(0, str(ROOT / "test/integration"))
sys.dont_write_bytecode = True

import marialib  # noqa: E402
import rabbitlib  # noqa: E402
import redislib  # noqa: E402


MEMORY = "/dev/shm"
MEMORY_LEAST = 4 << 30


def memory_folder(prefix):
    """A new folder in memory, or on the disk where memory has no room."""
    roomy = os.access(MEMORY, os.W_OK) and shutil.disk_usage(MEMORY).free >= MEMORY_LEAST
    return tempfile.mkdtemp(prefix=prefix, dir=MEMORY if roomy else None)


class Servers:
    def __init__(self):
        self.lock = threading.Lock()
        self.stack = contextlib.ExitStack()
        self.template = None
        self.unit_env = self.engine_env = None

    def __enter__(self):
        return self

    def __exit__(self, *unused):
        self.stack.close()

    def keep(self, server):
        self.stack.callback(server.discard)
        return server

    def common(self):
        """A freshly installed MariaDB, made once; every start copies it."""
        if self.template is None:
            self.template = "" if marialib.missing() else marialib.template()
        return {"SLUICE_MARIADB_TEMPLATE": self.template} if self.template else {}

    def all_of(self, *makers):
        """Starts them in parallel; returns what each returns, None if it is not installed."""
        results, errors = [None] * len(makers), []

        def work(at, make):
            try:
                results[at] = make()
            except Exception as error:  # said by whoever asked
                errors.append(error)

        threads = [threading.Thread(target=work, args=pair) for pair in enumerate(makers)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        if errors:
            raise errors[0]
        return results

    def mariadb(self):
        return self.keep(marialib.MariaDB(folder=memory_folder("sluice-mariadb-"))).start()

    def for_unit(self):
        """The environment of the tests in C."""
        with self.lock:
            if self.unit_env is None:
                env = self.common()
                redis, mariadb = self.all_of(
                    lambda: None if redislib.missing() else self.keep(redislib.Redis()).start(),
                    lambda: None if marialib.missing() else self.mariadb())
                if redis:
                    env["SLUICE_TEST_REDIS"] = f"127.0.0.1:{redis.port}"
                if mariadb:
                    env["SLUICE_TEST_MARIADB"] = mariadb.address()
                if not rabbitlib.missing():
                    env.update(self.stack.enter_context(rabbitlib.Control()))
                self.unit_env = env
            return self.unit_env

    def for_engine(self):
        """The environment of the tests in Python; the servers that they share."""
        with self.lock:
            if self.engine_env is None:
                env = self.common()
                if not (redislib.missing() or marialib.missing()):
                    env["SLUICE_TEST_SERVERS"] = self.start_engine()
                self.engine_env = env
            return self.engine_env

    def start_engine(self):
        started = self.all_of(
            lambda: self.keep(redislib.Redis()).start(),
            self.mariadb,
            lambda: None if rabbitlib.missing() else self.keep(rabbitlib.RabbitMQ()).start())
        told = {name: server.told() for name, server in zip(("redis", "mariadb", "rabbit"), started)
                if server is not None}
        handle, path = tempfile.mkstemp(prefix="sluice-servers-", suffix=".json")
        self.stack.callback(os.unlink, path)
        with os.fdopen(handle, "w") as file:
            json.dump(told, file)
        return path
