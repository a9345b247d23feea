"""A server that stood still does not decide what its clients have given up on."""
import os
import signal
import time

import pytest

import sluicelib
from sluicelib import eventually, problem


def stands_still(pid):
    """All its threads: a signal reaches them one after the other."""
    for task in os.listdir(f"/proc/{pid}/task"):
        with open(f"/proc/{pid}/task/{task}/stat", encoding="ascii", errors="replace") as file:
            if file.read().rsplit(")", 1)[1].split()[0] != "T":
                return False
    return True


# Longer than BUY_AGE_MAX_US (base/limits.h); and as long as most clients have given up.
@pytest.mark.parametrize("frozen_s", [6, pytest.param(20, marks=pytest.mark.slow)])
def test_a_buy_that_waited_while_the_server_stood_still_is_not_decided(make_server, frozen_s):
    server = make_server(sets=["server.threads=1"])
    shop = sluicelib.Shop(server)
    lot = shop.lot(total=5, limit=1)
    buyers = [shop.user() for _ in range(3)]
    tickets = [shop.ticket(user, lot.item) for user in buyers]
    requests = [sluicelib.request_bytes(
        "POST", ticket["buy_url"], {"Authorization": f"Bearer {server.token(user)}",
                                    "Content-Type": "application/json"}, b"{}")
                for user, ticket in zip(buyers, tickets)]
    address = ("127.0.0.1", server.port)
    known = sluicelib.Conn(address)
    known.send(sluicelib.request_bytes("GET", "/v1/time", {}, None))
    assert known.read_response("GET").status == 200
    os.kill(server.process.pid, signal.SIGSTOP)
    try:
        eventually(lambda: stands_still(server.process.pid), "the server to stand still")
        known.send(requests[0])
        fresh = sluicelib.Conn(address)  # not even accepted yet
        fresh.send(requests[1])
        gone = sluicelib.Conn(address)
        gone.send(requests[2])
        gone.close()
        time.sleep(frozen_s)
    finally:
        os.kill(server.process.pid, signal.SIGCONT)
    for conn in (known, fresh):
        problem(conn.read_response("POST"), 503, "degraded", "same-ticket")
        conn.close()
    assert shop.counters(lot.item) == (5, 0, 0)
    for user, ticket in zip(buyers, tickets):  # nothing was decided; the same tickets are, soon
        eventually(lambda: shop.buy(user, ticket["ticket"]).status in (200, 202), "an order")
    assert shop.counters(lot.item) == (2, 3, 0)
