"""Blocks where several fronts share a ledger: what is blocked at one is blocked at all within a second, and a
front that could not read the ledger meanwhile has the list when it can."""
import time

import pytest

import clusterlib
import serverlib
import sluicelib
from sluicelib import eventually, problem

pytestmark = pytest.mark.skipif(serverlib.missing() != "",
                                reason=f"not installed: {serverlib.missing()}")
COUNTS = {"front": 2, "relay": 1, "booker": 0, "keeper": 1}


def status(front, user, item):
    return front.call("POST", f"/v1/items/{item}/ticket", None, front.token(user)).status


def took_s(call, what):
    began = time.monotonic()
    eventually(call, what)
    return time.monotonic() - began


def test_fronts_share_blocks_within_a_second():
    with clusterlib.Shared(COUNTS, ["reconcile.every_s=0"], 1, amqp=False) as stage:
        here, there = [stage.door(front) for front in stage.fronts]
        shops = [sluicelib.Shop(here), sluicelib.Shop(there)]
        lot = shops[0].lot(total=100)
        user, other = shops[0].user(), shops[0].user()
        eventually(lambda: status(there, other, lot.item) == 201, "the sale at the other front")
        held = shops[1].ticket(user, lot.item)
        slowest = 0
        for _ in range(3):
            assert here.admin("PUT", f"/blocks/user/{user}", {"reason": "robot"}).status == 200
            assert status(here, user, lot.item) == 403  # at once where it was said
            slowest = max(slowest, took_s(lambda: status(there, user, lot.item) == 403, "the block"))
            refused = sluicelib.retry_degraded(lambda: shops[1].buy(user, held), insist=True)
            problem(refused, 403, "blocked")
            assert there.admin("DELETE", f"/blocks/user/{user}").status == 204
            assert status(there, user, lot.item) != 403
            slowest = max(slowest, took_s(lambda: status(here, user, lot.item) == 201, "its end"))
        assert slowest < 5, slowest  # a second, on a machine that does nothing else
        # An order made at one front is answered at the other, whatever the block says.
        order = shops[0].bought(user, held)["order_id"]
        assert here.admin("PUT", f"/blocks/user/{user}", {"reason": "robot"}).status == 200
        eventually(lambda: status(there, user, lot.item) == 403, "the block")
        assert shops[1].bought(user, held)["order_id"] == order
        shops[1].wait_status(user, order, "LOCKED")
        shops[1].cancelled(user, order)
        # The list is one.
        assert [one.admin("GET", "/blocks").json()["blocks"] for one in (here, there)] == \
            [here.admin("GET", "/blocks").json()["blocks"]] * 2
