"""A journal disk that fills up in the middle of a sale, on a real small file system.

The server stops promising, keeps answering what is durable, and sells on by itself when there is room
again, or after a restart. Nothing told is lost.
"""
import os
import shutil
import subprocess
import tempfile

import pytest

from sluicelib import Server, Shop, eventually, problem


@pytest.fixture
def small_disk():
    folder = tempfile.mkdtemp(prefix="sluice-small-")
    mounted = subprocess.run(["mount", "-t", "tmpfs", "-o", "size=24m", "sluice-test", folder],
                             capture_output=True, check=False)
    if mounted.returncode != 0:
        os.rmdir(folder)
        pytest.skip("mounting a small file system needs root")
    try:
        yield folder
    finally:
        subprocess.run(["umount", "-l", folder], check=True)
        os.rmdir(folder)


def fill(path):
    """Takes what room is left."""
    with open(path, "wb", buffering=0) as file:
        try:
            while True:
                file.write(b"\0" * 65536)
        except OSError:
            pass
        try:
            while True:
                file.write(b"\0" * 512)
        except OSError:
            pass


@pytest.mark.asan
@pytest.mark.parametrize("restart", [False, True])
def test_a_full_disk_stops_the_promises_until_there_is_space(small_disk, restart):
    data = os.path.join(small_disk, "data")
    filler = os.path.join(small_disk, "filler")
    server = Server(data=data, sets=["journal.segment_mib=1", "gate.orders=100000",
                                     "gate.buyer_share=100", "gate.buyers=100000", "keeper.tick_ms=50"])
    try:
        server.start()
        shop = Shop(server)
        lot = shop.lot(total=1_000_000, limit=0)
        told, degraded = [], None
        first = shop.user()
        tickets = [shop.ticket(first, lot.item) for _ in range(3000)]
        for number, ticket in enumerate(tickets):
            if number == 20:
                fill(filler)
            answer = shop.buy(first, ticket)
            if answer.status in (200, 202):
                told.append(answer.json()["order_id"])
                continue
            problem(answer, 503, "degraded")
            degraded = answer
            break
        assert degraded is not None, "the disk never filled: no fault, no test"
        assert len(told) >= 20

        # No new promises; what is durable is still shown, and what was promised is finished.
        later = shop.buy(first, tickets[-1])
        problem(later, 503, "degraded", "later")
        ready = server.get("/readyz")
        assert ready.status == 503 and "the journal's disk is full" in ready.json()["detail"]
        assert server.get("/livez").status == 200
        assert shop.item(lot.item)["total"] == 1_000_000
        assert shop.order(first, told[0])["status"] in ("QUEUED", "LOCKED")
        again = shop.buy(first, tickets[0])
        assert again.status in (200, 202) and again.json()["order_id"] == told[0]
        eventually(lambda: "journal.disk_full" in server.log(), "the operator to be told")
        for order in told:  # from the reserve
            shop.wait_status(first, order, "LOCKED")
        assert server.get("/readyz").status == 503

        os.unlink(filler)
        if restart:
            server.kill()
            server.start()
            shop = Shop(server)
        else:
            eventually(lambda: server.get("/readyz").status == 200, "buys to go on by themselves")
            assert "journal.disk_has_space" in server.log()
        for order in told:
            shop.wait_status(first, order, "LOCKED")
        fresh = shop.ticket(first, lot.item)
        shop.wait_status(first, shop.bought(first, fresh)["order_id"], "LOCKED")
        available, locked, sold = shop.counters(lot.item)
        assert available + locked + sold == 1_000_000 and locked >= len(told) + 1
        server.stop()
    finally:
        server.discard()
        shutil.rmtree(data, ignore_errors=True)
