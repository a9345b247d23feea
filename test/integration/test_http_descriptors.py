"""Few file descriptors: connections never take those of the journal and the ledger."""
import os
import re

import pytest

from sluicelib import ProtocolError, Server, Shop

LIMIT = 110


class Limited(Server):
    """A server that may open this many files."""
    files = LIMIT

    def command(self):
        return ["prlimit", f"--nofile={self.files}:{self.files}", *super().command()]


@pytest.fixture
def limited():
    made = Limited(sets=["keeper.tick_ms=50", "server.threads=2", "journal.segment_mib=1"])
    try:
        yield made
        made.stop()
    finally:
        made.discard()


def metric(server, name):
    text = server.get("/metrics").body.decode()
    return int(re.search(rf"^{name} (\d+)", text, re.M)[1])


def buy(shop, user, item):
    """In a table this small, the client's own connection may be the oldest idle one."""
    while True:
        try:
            return shop.bought(user, shop.ticket(user, item))
        except (OSError, ProtocolError):
            shop.server.client.close()


def test_the_journal_finds_descriptors_while_connections_want_all(limited):
    limited.start()
    shop = Shop(limited)
    lot = shop.lot(total=10_000, limit=0)
    user = shop.user()
    limited.get("/v1/time")    # the client of this test has its connection
    crowd = [limited.conn() for _ in range(LIMIT)]
    files = set(os.listdir(os.path.join(limited.data, "journal")))
    try:
        for _ in range(700):    # each has a batch of its own, of 4 KiB at least
            buy(shop, user, lot.item)
        assert metric(limited, "sluice_journal_failed") == 0
        segments = set(os.listdir(os.path.join(limited.data, "journal"))) - files
        assert len(segments) >= 2, "the journal has gone on to new files"
    finally:
        for conn in crowd:
            conn.close()
    assert "connections.fewer" in limited.log()


def test_a_start_with_too_few_descriptors_is_refused_with_the_number(limited):
    limited.files = 64
    assert limited.refused_start() == 1
    found = re.search(r"limit on open files \(ulimit -n, LimitNOFILE of systemd\) is 64, and this "
                      r"configuration needs (\d+)", limited.log())
    assert found, limited.log()
    limited.files = int(found[1])    # what it asks for is enough
    limited.start()
    assert limited.get("/v1/time").status == 200
