"""One account orders without end in the distributed engine: it fills its share of its segment, and
nobody else notices. SECURITY.md, threat 1; test_capacity.py is the same on the embedded engine.
"""
import re

import pytest

import clusterlib
import serverlib
import sluicelib
from sluicelib import eventually, problem

pytestmark = pytest.mark.skipif(serverlib.missing() != "",
                                reason=f"not installed: {serverlib.missing()}")
ORDERS = 1000  # of a segment. A buyer's share of a small one is a tenth
SHARE = ORDERS // 10


def stage_of(*sets):
    return clusterlib.Shared({"front": 2, "relay": 1, "booker": 0, "keeper": 1},
                             [*sets, "keeper.tick_ms=20", "reconcile.every_s=0"], segments=2,
                             amqp=False)


def buy_on(shop, user, item, most):
    """Buys one unit after the other until the shop refuses. The orders, and the refusal or None."""
    orders = []
    while len(orders) < most:
        answer = shop.buy(user, shop.ticket(user, item))
        if answer.status != 202:
            return orders, answer
        orders.append(answer.json()["order_id"])
    return orders, None


def shown(server, name):
    found = re.search(rf"^{re.escape(name)} (\d+)$", server.get("/metrics").body.decode(), re.M)
    return int(found[1]) if found else None


def filled(server, pool):
    return shown(server, f'sluice_pool_used{{pool="{pool}"}}')


def metas(stage):
    redis = stage.engine.redis
    return {key: redis.ask("HGET", key, "place")
            for key in redis.ask("KEYS", f"{stage.prefix}{{*:meta")}


def test_one_account_takes_its_share_of_its_segment():
    with stage_of(f"gate.orders={ORDERS}") as stage:
        one_account(stage)


def one_account(stage):
    front, other = stage.fronts
    shop, server = sluicelib.Shop(stage.door(front)), stage.door(front)
    lot, second = shop.lot(total=100_000, limit=0), shop.lot(total=100, limit=1)
    attacker = shop.user()
    orders, refused = buy_on(shop, attacker, lot.item, ORDERS)
    assert len(orders) == SHARE
    problem(refused, 503, "overloaded", retry="later")
    # At another front it is the same share.
    elsewhere = sluicelib.Shop(stage.door(other))
    problem(elsewhere.buy(attacker, elsewhere.ticket(attacker, lot.item)), 503, "overloaded",
            retry="later")
    for _ in range(8):  # homes are mixed: buyers of both segments are among them
        buyer = shop.user()
        for item in (lot.item, second.item):
            shop.bought(buyer, shop.ticket(buyer, item))
    # Operators see whose share it was, and how full the fullest segment is.
    assert shown(server, 'sluice_full_total{bound="gate.buyer_share"}') == 1
    log = front.log()
    assert re.search(rf"gate.full bound=gate.buyer_share segment=[01] item={lot.item} "
                     rf"user={attacker}", log), log[-2000:]
    eventually(lambda: (filled(server, "gate.orders") or 0) >= SHARE, "the segment's orders shown")
    assert filled(server, "gate.orders") <= SHARE + 16
    assert shown(server, 'sluice_pool_size{pool="gate.orders"}') == ORDERS
    assert shown(server, "sluice_segments_full") == 0
    # What is paid is no longer in the share.
    shop.wait_status(attacker, orders[0], "LOCKED")
    shop.paid(orders[0], 1999)
    assert len(after_payment(shop, attacker, lot.item)) == 1

    # A version that counted nothing has filled the segments: they are made anew, and count.
    before = metas(stage)
    assert len(before) == 2
    for key, place in before.items():
        stage.engine.redis.ask("HSET", key, "place", " ".join(place.split()[:2]))
        stage.engine.redis.ask("HDEL", key, "shares", "sizes", "room", str(lot.sale))
        stage.engine.redis.ask("HSET", key, "orders_left", "1", "buyers_left", "1")

    def renewed():
        now = metas(stage)
        return all(int(now[key].split()[0]) > int(before[key].split()[0]) and
                   len(now[key].split()) == 3 for key in before)

    eventually(renewed, "both segments of this version")
    buyer = shop.user()
    eventually(lambda: shop.buy(buyer, shop.ticket(buyer, lot.item)).status in (200, 202),
               "a buyer after the rebuild")
    orders, refused = buy_on(shop, attacker, lot.item, 5)
    assert orders == []
    problem(refused, 503, "overloaded", retry="later")


def after_payment(shop, user, item):
    """The gate hears of a payment a moment after its payer."""
    found = []

    def bought():
        orders, _ = buy_on(shop, user, item, 5)
        found.extend(orders)
        return bool(found)

    eventually(bought, "an order after a payment")
    return found


def test_a_full_segment_is_told_and_the_others_sell():
    """Its pools are warned of on the way; its buyers are refused, and all fronts stay ready."""
    with stage_of("gate.orders=20", "gate.buyer_share=100", "gate.item_share=100",
                  "gate.sale_share=100") as stage:
        full_segment(stage)


def full_segment(stage):
    front = stage.fronts[0]
    shop, server = sluicelib.Shop(stage.door(front)), stage.door(front)
    lot = shop.lot(total=100_000, limit=0)
    orders, refused = buy_on(shop, shop.user(), lot.item, 30)
    assert len(orders) == 20
    problem(refused, 503, "overloaded", retry="later")
    assert shown(server, 'sluice_full_total{bound="gate.orders"}') == 1
    eventually(lambda: filled(server, "gate.orders") == 20, "the full segment shown")
    eventually(lambda: shown(server, "sluice_segments_full") == 1, "one segment that is full")
    ready = server.get("/readyz")
    assert ready.status == 200 and "gate.orders" in ready.json()["nearly_full"]
    eventually(lambda: re.search(r"pool.fills pool=gate.orders used=20 size=20 percent=100",
                                 front.log()), "a warning in the log")

    def full():
        """Everybody buys until both are."""
        shop.buy(user := shop.user(), shop.ticket(user, lot.item))
        return shown(server, "sluice_segments_full") == 2

    eventually(full, "both segments full")
    problem(server.get("/readyz"), 503, "overloaded")
