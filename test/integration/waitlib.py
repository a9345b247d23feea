"""Waiting for conditions and other threads instead of time, and ports that no other test process
uses."""
import fcntl
import os
import random
import socket
import tempfile
import threading
import time

GUARD_S = int(os.environ.get("SLUICE_GUARD_S", "60"))  # then whoever waits takes it for a hang


def eventually(condition, what="the condition", guard_s=GUARD_S, every_s=0.02):
    """Poll until condition() is truthy and return its value."""
    end = time.monotonic() + guard_s
    while True:
        value = condition()
        if value:
            return value
        assert time.monotonic() < end, f"gave up waiting for {what}"
        time.sleep(every_s)


class Lately:
    """A value that the contract allows to be a moment old: equal once it has become so."""

    def __init__(self, look):
        self.look = look

    def __eq__(self, other):
        end = time.monotonic() + GUARD_S
        while self.look() != other:
            if time.monotonic() > end:
                return False
            time.sleep(0.02)
        return True

    def __repr__(self):
        return f"lately {self.look()}"


class Background(threading.Thread):
    """Run one function beside the test; result() waits for it and re-raises what it raised."""

    def __init__(self, function):
        super().__init__(daemon=True)
        self.function, self.value, self.error = function, None, None
        self.start()

    def run(self):
        try:
            self.value = self.function()
        except BaseException as error:  # handed to the waiting test
            self.error = error

    def result(self):
        self.join(GUARD_S)
        assert not self.is_alive(), "still waiting"
        if self.error:
            raise self.error
        return self.value


_port_locks = []


def private_port():
    """A port below the ephemeral range, locked against other test processes until we exit."""
    folder = os.path.join(tempfile.gettempdir(), f"sluice-ports-{os.getuid()}")
    os.makedirs(folder, exist_ok=True)
    while True:
        port = random.SystemRandom().randrange(20000, 32000)
        lock = os.open(os.path.join(folder, str(port)), os.O_CREAT | os.O_RDWR, 0o600)
        try:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
            with socket.socket() as probe:
                probe.bind(("127.0.0.1", port))
        except OSError:
            os.close(lock)
            continue
        _port_locks.append(lock)
        return port
