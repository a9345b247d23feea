"""Pools that somebody tries to fill: who takes his share is refused, everybody else goes on.

SECURITY.md, threat 1. The gate is small here, so a hundred orders fill a share of it.
"""
import json

import pytest

from sluicelib import Shop, eventually, problem

ORDERS = 1000  # that the gate holds. A buyer's share of a small gate is a tenth


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
    assert count == 100
    problem(refused, 503, "overloaded", retry="later")
    for item in (lot.item, lot.item, other.item):
        buyer = shop.user()
        shop.bought(buyer, shop.ticket(buyer, item))
    text = small.get("/metrics").body.decode()
    assert 'sluice_full_total{bound="gate.buyer_share"} 1' in text
    assert f"gate.full bound=gate.buyer_share item={lot.item} user={attacker}" in small.log()
    # His orders are still answered, also after a restart with another share.
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
    server = make_server(sets=["server.threads=1", "gate.orders=40", "gate.buyer_share=100",
                               "gate.item_share=100", "gate.sale_share=100"])
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


def counter(server, name):
    for line in server.get("/metrics").body.decode().splitlines():
        if line.startswith(name + " "):
            return int(line.split()[1])
    raise AssertionError(f"no {name}")


def end(shop, bought, number):
    """Every second order is paid, the others are cancelled."""
    user, ticket = bought
    order = shop.wait_status(user, ticket["order_id"], "LOCKED")
    if number % 2 == 0:
        shop.paid(order["order_id"], order["amount_cents"])
    else:
        shop.cancelled(user, order["order_id"])
    return shop.order(user, order["order_id"])


def same(shop, bought, order):
    """Every call about an order that has ended gives the same answer as before."""
    user, ticket = bought
    path = f"/v1/orders/{order['order_id']}"
    assert shop.order(user, order["order_id"]) == order
    assert shop.get_order(user, order["order_id"], "?wait_ms=1000").json() == order
    again = shop.buy(user, ticket)
    assert again.status == 200 and again.json()["status"] == order["status"], again
    assert again.json()["held"] == (order["status"] == "PAID"), again
    problem(shop.buy(user, ticket, 2), 422, "different_request")
    assert shop.get_order(shop.user(), order["order_id"]).status == 404
    with shop.server.events(path + "/events", shop.server.token(user)) as events:
        event = events.next()
        assert json.loads(event.data) == order and events.next() is None
        ident = event.id
    answer = shop.server.get(path + "/events", shop.server.token(user),
                             headers=[("Last-Event-ID", ident)])
    assert answer.status == 204 or answer.body == b"", answer
    if order["status"] == "PAID":
        problem(shop.cancel(user, order["order_id"]), 409, "already_paid")
        problem(shop.pay(order["order_id"], order["amount_cents"]), 409, "already_paid")
    else:
        assert shop.cancelled(user, order["order_id"]) == order
        problem(shop.pay(order["order_id"], order["amount_cents"]), 409, "expired")
    listed = shop.my_orders(user).json()["orders"]
    assert [(row["order_id"], row["status"]) for row in listed] == [
        (order["order_id"], order["status"])]


def test_orders_that_have_ended_leave_a_full_gate_and_are_told_as_before(make_server):
    server = make_server(sets=["server.threads=2", "gate.orders=50", "keeper.tick_ms=20",
                               "gate.buyer_share=100", "gate.item_share=100",
                               "gate.sale_share=100"])
    shop = Shop(server)
    free, once = shop.lot(total=1000, limit=0), shop.lot(total=1000, limit=1)
    unused_user = shop.user()
    unused = shop.ticket(unused_user, free.item)
    bought, ended = [], []
    for number in range(120):  # far more than the gate holds
        user = shop.user()
        ticket = shop.ticket(user, (free, once)[number % 4 < 2].item)
        shop.bought(user, ticket)
        bought.append((user, ticket))
        ended.append(end(shop, bought[-1], number))
    eventually(lambda: counter(server, "sluice_gate_evicted_total") >= 70, "evictions")
    assert level(server, "gate.orders")[0] < 50
    for number in (0, 1, 2, 3, 40, 41, 42, 43, 119):
        same(shop, bought[number], ended[number])
    # A ticket as old as theirs, never used, is a new order, once.
    first = shop.buy(unused_user, unused)
    assert first.status == 202, first
    assert shop.bought(unused_user, unused)["order_id"] == first.json()["order_id"]
    # An id that nobody ever had.
    made_up = ended[0]["order_id"][:-2] + ("AA" if ended[0]["order_id"][-2:] != "AA" else "BB")
    problem(shop.get_order(bought[0][0], made_up), 404, "not_found")
    for lot in (free, once):
        shop.item(lot.item)  # the counters add up
    server.restart(kill=True)
    for number in (0, 1, 2, 3, 119):
        same(shop, bought[number], ended[number])
