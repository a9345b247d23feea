"""Several writers of one shared MariaDB ledger (test/integration/ledger_crowd.c), while the server
or one of the writers is killed or frozen. Every event that a writer saw committed must be in the
database under its number, every order must be there once, and the other writers must go on. A fault
that had no effect fails the test. TLS connections are tested here, too.
"""
import os
import random
import shutil
import signal
import subprocess
import threading
import time

import pytest

import marialib
import sluicelib

SEED = int(os.environ.get("SLUICE_SEED") or random.SystemRandom().randrange(2**32))
CROWD = os.path.join(os.path.dirname(sluicelib.BINARY), "test", "ledger_crowd")
BATCH, ENDED = 20, 5  # orders of a batch, and how many of them are paid or cancelled
# Batches of a test, how often its fault strikes, and the longest time that a fault lasts beyond what
# it has to.
KILLED, KILLS = (1500, 4) if os.environ.get("SLUICE_LONG") else (600, 3)
FROZEN, FREEZES, FREEZE_S = (1000, 3, 2.0) if os.environ.get("SLUICE_LONG") else (400, 2, 0.2)
AUDIT = """
SELECT 'stock', count(*) FROM stock WHERE available + locked + sold <> total
 OR locked <> (SELECT count(*) FROM orders WHERE status = 'LOCKED')
 OR sold <> (SELECT count(*) FROM orders WHERE status = 'PAID');
SELECT 'shares', count(*) FROM allotments a WHERE
 locked <> (SELECT count(*) FROM orders o WHERE o.segment = a.segment AND status = 'LOCKED') OR
 sold <> (SELECT count(*) FROM orders o WHERE o.segment = a.segment AND status = 'PAID');
SELECT 'holdings', count(*) FROM holdings h WHERE held <>
 (SELECT count(*) FROM orders o WHERE o.user_id = h.user_id AND status IN ('LOCKED', 'PAID'));
SELECT 'gaps', max(number) - count(*) FROM events;
SELECT 'payments',
 (SELECT count(*) FROM orders WHERE status = 'PAID') - (SELECT count(*) FROM payments)
"""

pytestmark = pytest.mark.skipif(marialib.missing() != "",
                                reason=f"not installed: {marialib.missing()}")


@pytest.fixture
def own_mariadb():
    with marialib.MariaDB() as server:
        yield server


class Crowd:
    """A process of writers, and the results it has printed so far."""

    def __init__(self, url, writers, batches):
        self.events, self.failed, self.done = {}, 0, 0
        self.process = subprocess.Popen([CROWD, url, "run", str(writers), str(batches)],
                                        stdin=subprocess.DEVNULL, stdout=subprocess.PIPE,
                                        stderr=subprocess.PIPE, text=True)
        self.reader = threading.Thread(target=self.read)
        self.reader.start()

    def read(self):
        for line in self.process.stdout:
            what, *words = line.split()
            if what == "event":
                self.events[int(words[0])] = tuple(words[1:])
            elif what == "failed":
                self.failed += 1
            else:
                self.done += 1

    def running(self):
        return self.process.poll() is None

    def wait_done(self, goal):
        sluicelib.eventually(lambda: self.done >= goal or not self.running(), "batches",
                             every_s=0.001)
        assert self.running(), "the fault came too late"

    def result(self):
        self.reader.join()
        assert self.process.wait() == 0, self.process.stderr.read()

    def discard(self):
        if self.running():
            self.process.kill()
        self.process.wait()
        self.reader.join()
        self.process.stdout.close()
        self.process.stderr.close()


class Ledger:
    def __init__(self, server, batches):
        self.database, self.batches = server.database(), batches
        subprocess.run([CROWD, self.database.url, "make", str(batches)], check=True)
        self.crowds = []

    def crowd(self, writers):
        self.crowds.append(Crowd(self.database.url, writers, self.batches))
        return self.crowds[-1]

    def check(self):
        """Every requested order is there once, and every reported event is in the ledger."""
        for crowd in self.crowds:
            crowd.result()
        rows = {row[0]: row[1:] for row in self.database.rows(
            "SELECT number, kind, order_id FROM events WHERE order_id IS NOT NULL")}
        for crowd in self.crowds:
            wrong = [n for n, event in crowd.events.items() if rows.get(n) != event]
            assert wrong == [], f"told and not there: {wrong[:10]}"
        told = sum(len(crowd.events) for crowd in self.crowds)
        assert told <= len(rows) == self.batches * (BATCH + ENDED)
        assert self.database.rows("SELECT count(*) FROM orders") == [(self.batches * BATCH,)]
        assert [row for row in self.database.rows(AUDIT) if row[1] != 0] == []

    def discard(self):
        for crowd in self.crowds:
            crowd.discard()


def test_the_server_is_killed_under_its_writers(own_mariadb):
    print(f"seed {SEED}")
    rng = random.Random(SEED)
    ledger = Ledger(own_mariadb, KILLED)
    try:
        crowd = ledger.crowd(4)
        for goal in sorted(rng.sample(range(1, KILLED), KILLS)):
            crowd.wait_done(goal)
            time.sleep(rng.uniform(0, 0.01))  # anywhere in a batch
            before = crowd.failed
            own_mariadb.kill()
            sluicelib.eventually(lambda: crowd.failed > before, "a batch to fail")
            own_mariadb.start()
        ledger.check()
    finally:
        ledger.discard()


def test_the_server_is_frozen_under_its_writers(own_mariadb):
    print(f"seed {SEED}")
    rng = random.Random(SEED)
    ledger = Ledger(own_mariadb, FROZEN)
    try:
        crowd = ledger.crowd(4)
        for goal in sorted(rng.sample(range(1, FROZEN), FREEZES)):
            crowd.wait_done(goal)
            before = crowd.failed
            own_mariadb.freeze()
            sluicelib.eventually(lambda: crowd.failed >= before + 4, "every writer to fail")
            time.sleep(rng.uniform(0, FREEZE_S))  # anywhere in their attempts
            own_mariadb.thaw()
        ledger.check()
    finally:
        own_mariadb.thaw()
        ledger.discard()


def test_a_writer_is_killed(own_mariadb):
    print(f"seed {SEED}")
    rng = random.Random(SEED)
    ledger = Ledger(own_mariadb, 600)
    try:
        last = ledger.crowd(2)
        for goal in sorted(rng.sample(range(1, 500), 5)):
            other = ledger.crowd(1)
            last.wait_done(goal)
            time.sleep(rng.uniform(0, 0.01))
            other.process.kill()
            other.process.wait()
            other.reader.join()
            # Its reported events are checked, too. It need not have finished.
            other.result = lambda: None
        ledger.check()
    finally:
        ledger.discard()


def test_a_frozen_writer_stops_nobody(own_mariadb):
    """In whatever moment of its batch it is frozen: the others come to their end before that."""
    print(f"seed {SEED}")
    rng = random.Random(SEED)
    ledger = Ledger(own_mariadb, 250)
    try:
        frozen = [ledger.crowd(2) for _ in range(3)]
        others = ledger.crowd(2)
        others.wait_done(20)
        for crowd in frozen:
            time.sleep(rng.uniform(0, 0.02))
            assert crowd.running()
            crowd.process.send_signal(signal.SIGSTOP)
        others.result()
        for crowd in frozen:
            assert crowd.running()
            crowd.process.send_signal(signal.SIGCONT)
        ledger.check()
    finally:
        for crowd in ledger.crowds:
            if crowd.running():
                crowd.process.send_signal(signal.SIGCONT)
        ledger.discard()


# ---------------------------------------------------------------- TLS

def openssl(folder, *words):
    subprocess.run(["openssl", *words], cwd=folder, check=True, capture_output=True)


def certificates(folder):
    """A maker of certificates, another one, and a certificate for 127.0.0.1 by the first."""
    for name in ("ca", "stranger"):
        openssl(folder, "req", "-x509", "-newkey", "rsa:2048", "-nodes", "-days", "2",
                "-subj", f"/CN={name}", "-keyout", f"{name}.key", "-out", f"{name}.pem")
    openssl(folder, "req", "-newkey", "rsa:2048", "-nodes", "-subj", "/CN=ledger",
            "-keyout", "server.key", "-out", "server.csr")
    (folder / "names").write_text("subjectAltName=IP:127.0.0.1\n")
    openssl(folder, "x509", "-req", "-in", "server.csr", "-CA", "ca.pem", "-CAkey", "ca.key",
            "-CAcreateserial", "-days", "2", "-extfile", "names", "-out", "server.pem")


def refusal(url):
    done = subprocess.run([CROWD, url, "make", "1"], capture_output=True, text=True)
    assert done.returncode == 1, done
    return done.stderr


@pytest.mark.skipif(not shutil.which("openssl"), reason="not installed: openssl")
def test_over_tls(tmp_path):
    certificates(tmp_path)
    with marialib.MariaDB([f"--ssl-cert={tmp_path}/server.pem",
                           f"--ssl-key={tmp_path}/server.key"]) as server:
        server.run(f"ALTER USER {marialib.USER}@'%' REQUIRE SSL")
        database = server.database()
        url = database.url
        assert "check the user" in refusal(url)
        assert "TLS" in refusal(f"{url}?ssl=1&ca={tmp_path}/stranger.pem")
        assert "TLS" in refusal(f"{url}?ssl=1")  # the system does not know who signed it
        name = url.replace("@127.0.0.1:", "@localhost:")
        assert "TLS" in refusal(f"{name}?ssl=1&ca={tmp_path}/ca.pem")  # not for this name
        subprocess.run([CROWD, f"{url}?ssl=1&ca={tmp_path}/ca.pem", "make", "1"], check=True)
        assert database.rows("SELECT count(*) FROM sales") == [(1,)]


def test_tls_or_nothing(own_mariadb):
    """A server without TLS, or somebody in between who says so."""
    assert "TLS" in refusal(f"{own_mariadb.database().url}?ssl=1")
