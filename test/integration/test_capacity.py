"""Pools that somebody tries to fill: who takes his share is refused, everybody else goes on.

SECURITY.md, threat 1. The gate is small here, so a few hundred orders fill a share of it.
"""
import json

import pytest

from sluicelib import Shop, eventually, problem

ORDERS = 1000  # that the gate holds. A buyer's share is never below 200, an item's is 500 of these


@pytest.fixture
def small(make_server):
    return make_server(sets=["server.threads=1", f"gate.orders={ORDERS}", "keeper.tick_ms=20"])


def buy_on(shop, user, item, most):
    """Buys one unit after the other until the shop refuses. How many, and the refusal or None."""
    for count in range(most):
        answer = shop.buy(user, shop.ticket(user, item))
        if answer.status != 202:
            return count, answer
    return most, None


def test_one_account_fills_its_share_and_nobody_elses(small):
    shop = Shop(small)
    lot = shop.lot(total=1_000_000, limit=0)
    other = shop.lot(total=100, limit=1)
    attacker = shop.user()
    count, refused = buy_on(shop, attacker, lot.item, ORDERS)
    assert count == 200
    problem(refused, 503, "overloaded", retry="later")
    for item in (lot.item, lot.item, other.item):
        buyer = shop.user()
        shop.bought(buyer, shop.ticket(buyer, item))
    text = small.get("/metrics").body.decode()
    assert 'sluice_full_total{bound="gate.buyer_share"} 1' in text
    assert f"gate.full bound=gate.buyer_share item={lot.item} user={attacker}" in small.log()
    # What he has is told on, and is his after a restart, whatever the share is then.
    mine = shop.my_orders(attacker, "?limit=1").json()["orders"][0]["order_id"]
    small.restart(kill=True)
    shop.order(attacker, mine)
    problem(shop.buy(attacker, shop.ticket(attacker, lot.item)), 503, "overloaded", retry="later")


def level(server, pool):
    """Used and size, as /metrics shows them."""
    shown = {}
    for line in server.get("/metrics").body.decode().splitlines():
        for name in ("used", "size"):
            head = f'sluice_pool_{name}{{pool="{pool}"}} '
            if line.startswith(head):
                shown[name] = int(line[len(head):])
    return shown["used"], shown["size"]


def test_pools_that_fill_up_are_told_to_operators(make_server):
    server = make_server(sets=["server.threads=1", "gate.orders=40", "gate.item_share=100",
                               "gate.sale_share=100"])
    shop = Shop(server)
    lot = shop.lot(total=1000, limit=0)
    user = shop.user()
    for pool in ("gate.orders", "gate.buyers", "gate.items", "gate.sales", "server.connections",
                 "buffers.large", "requests.gate", "journal.buffer"):
        assert level(server, pool)[1] > 0, pool
    assert server.get("/readyz").json()["nearly_full"] == []
    bought = 0
    for count, percent in ((20, 50), (32, 80), (38, 95)):
        for bought in range(bought, count):
            shop.bought(user, shop.ticket(user, lot.item))
        bought = count
        line = f"pool.fills pool=gate.orders used={count} size=40 percent={percent}"
        eventually(lambda: line in server.log(), line)
    ready = server.get("/readyz")
    assert ready.status == 200 and ready.json()["nearly_full"] == ["gate.orders"], ready
    with server.events("/v1/admin/live", server.admin_token) as live:
        pools = {pool["pool"]: pool for pool in json.loads(live.next().data)["pools"]}
        assert pools["gate.orders"] == {"pool": "gate.orders", "used": 38, "size": 40,
                                        "nearly_full": True}
    for _ in range(2):
        shop.bought(user, shop.ticket(user, lot.item))
    problem(shop.buy(user, shop.ticket(user, lot.item)), 503, "overloaded")
    eventually(lambda: server.get("/readyz").status == 503, "not ready: nothing can be sold")
    problem(server.get("/readyz"), 503, "overloaded")
    assert server.log().count("pool.fills pool=gate.orders") == 3
