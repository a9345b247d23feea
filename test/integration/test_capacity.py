"""Pools that somebody tries to fill: who takes his share is refused, everybody else goes on.

SECURITY.md, threat 1. The gate is small here, so a few hundred orders fill a share of it.
"""
import pytest

from sluicelib import Shop, problem

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
