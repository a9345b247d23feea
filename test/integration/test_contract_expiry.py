"""Unpaid orders: they expire soon after their time, return their stock once, and stay expired."""
import json

import pytest

from sluicelib import Shop, eventually, problem


def expired(shop, user, order):
    return shop.wait_status(user, order, "EXPIRED")


def take(shop, user, item, qty=None):
    """The id of an order that nobody pays. Its second may be over before a busy machine looks at it,
    so nobody waits to see it LOCKED."""
    return shop.bought(user, shop.ticket(user, item), qty)["order_id"]


@pytest.mark.asan
def test_an_unpaid_order_expires_and_returns_its_stock_once(server, shop):
    lot = shop.lot(total=5, limit=0, pay_within_s=1)
    user = shop.user()
    order = take(shop, user, lot.item, 3)
    body = expired(shop, user, order)
    assert server.now_ms() >= body["pay_by_ms"], "never before its time"
    assert body["pay_by_ms"] - body["created_at_ms"] >= 1000
    shop.wait_counters(lot.item, 5, 0, 0)
    # Nothing later returns it again.
    problem(shop.cancel(user, order), 409, "expired")
    expired(shop, user, take(shop, user, lot.item, 1))
    shop.wait_counters(lot.item, 5, 0, 0)


def test_a_late_payment_is_refused_and_revives_nothing(server, shop):
    lot = shop.lot(total=5, limit=0, price=100, pay_within_s=1)
    user = shop.user()
    order = take(shop, user, lot.item)
    expired(shop, user, order)
    for _ in range(3):
        problem(shop.pay(order, 100), 409, "expired", "no")
    assert shop.order(user, order)["status"] == "EXPIRED"
    shop.wait_counters(lot.item, 5, 0, 0)


def test_past_its_time_a_payment_is_refused_even_before_the_keeper_came(make_server):
    server = make_server(sets=["keeper.tick_ms=10000"])
    shop = Shop(server)
    lot = shop.lot(total=5, limit=0, price=100, pay_within_s=1)
    user = shop.user()
    order = shop.order_locked(user, lot.item)
    eventually(lambda: server.now_ms() > order["pay_by_ms"], "the deadline")
    problem(shop.pay(order["order_id"], 100), 409, "expired")
    assert shop.order(user, order["order_id"])["status"] in ("LOCKED", "EXPIRED")


def test_paid_in_time_never_expires(server, shop):
    lot = shop.lot(total=5, limit=0, price=100, pay_within_s=2)
    user = shop.user()

    def pay_one():
        order = take(shop, user, lot.item)
        shop.wait_status(user, order, "LOCKED", "EXPIRED")
        return order if shop.pay(order, 100).status == 200 else None

    order = eventually(pay_one, "a payment in time")
    later = shop.user()
    expired(shop, later, take(shop, later, lot.item))
    eventually(lambda: shop.item_now(lot.item)["locked"] == 0, "the others to expire")
    assert shop.order(user, order)["status"] == "PAID"
    assert shop.counters(lot.item) == (4, 0, 1)


def test_events_tell_the_expiry_and_end(server, shop):
    lot = shop.lot(total=5, limit=0, pay_within_s=1)
    user = shop.user()
    order = shop.bought(user, shop.ticket(user, lot.item))["order_id"]
    with server.events(f"/v1/orders/{order}/events", server.token(user)) as events:
        last = None
        while True:
            event = events.next()
            if event is None:
                break
            last = json.loads(event.data)
        assert last["status"] == "EXPIRED"


def test_expired_units_can_be_bought_again(server, shop):
    lot = shop.lot(total=1, limit=1, pay_within_s=1)
    first, second = shop.user(), shop.user()
    ticket = shop.ticket(second, lot.item)
    expired(shop, first, take(shop, first, lot.item))
    shop.wait_counters(lot.item, 1, 0, 0)
    shop.bought(second, ticket)


def test_limit_one_after_an_expiry_meets_a_new_order(server, shop):
    lot = shop.lot(total=5, limit=1, pay_within_s=1)
    user = shop.user()
    old = shop.ticket(user, lot.item)
    shop.bought(user, old)
    expired(shop, user, old["order_id"])

    def new_ticket():
        ticket = shop.ticket(user, lot.item)
        return ticket if ticket["order_id"] != old["order_id"] else None

    new = eventually(new_ticket, "a new order id")
    assert shop.bought(user, new)["order_id"] == new["order_id"]
    response = shop.buy(user, old)
    assert response.status == 200
    assert (response.json()["order_id"], response.json()["status"]) == (old["order_id"], "EXPIRED")


def test_a_cumulative_limit_is_free_again_after_an_expiry(server, shop):
    lot = shop.lot(total=10, limit=2, pay_within_s=1)
    user = shop.user()
    expired(shop, user, take(shop, user, lot.item, 2))
    eventually(lambda: shop.ticket(user, lot.item)["held"] == 0, "the expired units")
    shop.bought(user, shop.ticket(user, lot.item), 2)


@pytest.mark.asan
def test_where_the_sale_bars_it_limit_one_shows_the_expired_order_again(server, shop):
    lot = shop.lot(total=5, limit=1, pay_within_s=1, bar_unpaid=True)
    user = shop.user()
    old = shop.ticket(user, lot.item)
    shop.bought(user, old)
    expired(shop, user, old["order_id"])
    shop.wait_counters(lot.item, 5, 0, 0)
    for _ in range(3):
        again = shop.ticket(user, lot.item)
        assert again["order_id"] == old["order_id"]
        response = shop.buy(user, again)
        assert response.status == 200, response
        assert response.json()["status"] == "EXPIRED"
    assert shop.counters(lot.item) == (5, 0, 0)
    # Others are not barred, nor this buyer from another item.
    other = shop.user()
    shop.bought(other, shop.ticket(other, lot.item))
    elsewhere = shop.lot()
    shop.bought(user, shop.ticket(user, elsewhere.item))


@pytest.mark.parametrize("limit", [5, 0])
def test_where_the_sale_bars_it_other_items_refuse_the_unpaid_buyer(server, shop, limit):
    lot = shop.lot(total=50, limit=limit, pay_within_s=1, bar_unpaid=True)
    user = shop.user()
    first, second = shop.ticket(user, lot.item), shop.ticket(user, lot.item)
    shop.bought(user, first)
    expired(shop, user, first["order_id"])
    shop.wait_counters(lot.item, 50, 0, 0)
    problem(shop.buy(user, second), 409, "barred", "no")
    # The order that exists is still shown.
    response = shop.buy(user, first)
    assert response.status == 200 and response.json()["status"] == "EXPIRED"
    assert shop.counters(lot.item) == (50, 0, 0)
    response = shop.try_ticket(user, lot.item)
    if response.status == 201:
        problem(shop.buy(user, response.json()), 409, "barred")
    else:
        problem(response, 409, "barred")


def test_a_barring_sale_does_not_bar_who_cancelled(server, shop):
    lot = shop.lot(total=50, limit=5, bar_unpaid=True)
    user = shop.user()
    order = shop.order_locked(user, lot.item)["order_id"]
    shop.cancelled(user, order)
    eventually(lambda: shop.ticket(user, lot.item)["held"] == 0, "the cancelled unit")
    shop.bought(user, shop.ticket(user, lot.item))


def test_a_late_cancel_bars_where_the_sale_bars(make_server):
    """All of the time to pay is late here; operators' cancellations and other sales bar nobody."""
    server = make_server(sets=["order.late_cancel_s=3600"])
    shop = Shop(server)
    bars = shop.lot(total=50, limit=5, pay_within_s=600, bar_unpaid=True)
    lets = shop.lot(total=50, limit=5, pay_within_s=600)
    for lot, barred in ((bars, True), (lets, False)):
        user = shop.user()
        first, second = shop.ticket(user, lot.item), shop.ticket(user, lot.item)
        shop.bought(user, first)
        shop.wait_status(user, first["order_id"], "LOCKED")
        order = shop.cancelled(user, first["order_id"])
        assert (order["status"], order["reason"]) == ("CANCELLED", "barred" if barred else None)
        shop.wait_counters(lot.item, 50, 0, 0)
        shown = eventually(lambda: (o := shop.get_order(user, first["order_id"]).json())
                           ["status"] == "CANCELLED" and o, "the cancellation to be shown")
        assert shown["reason"] == order["reason"]
        assert shop.cancelled(user, first["order_id"]) == order
        if barred:
            problem(shop.buy(user, second), 409, "barred", "no")
        else:
            shop.bought(user, second)
    server.restart()
    user = shop.user()
    order = shop.order_locked(user, bars.item)["order_id"]
    assert shop.cancelled(user, order)["reason"] == "barred"


def waits(shop, user, ticket, most_ms):
    """The buy is refused for a cooling time of which most_ms are left at most. Returns what is left."""
    response = eventually(lambda: (r := shop.buy(user, ticket)).status == 409 and r, "a refusal")
    return must_wait(response, most_ms)


def must_wait(response, most_ms):
    body = problem(response, 409, "barred", "later")
    assert 0 < body["retry_after_ms"] <= most_ms + 500, "with jitter"
    assert int(response.get("retry-after")) == -(-body["retry_after_ms"] // 1000)
    return body["retry_after_ms"]


def test_who_cancels_waits_for_the_end_of_the_cooling_time(make_server):
    server = make_server(sets=["order.cooling_s=3600"])
    shop = Shop(server)
    waiting = []
    for limit in (1, 5):
        lot = shop.lot(total=50, limit=limit, pay_within_s=600)
        user = shop.user()
        first = shop.ticket(user, lot.item)
        shop.bought(user, first)
        shop.wait_status(user, first["order_id"], "LOCKED")
        order = shop.cancelled(user, first["order_id"])
        assert order["reason"] is None
        shop.wait_counters(lot.item, 50, 0, 0)
        eventually(lambda: shop.ticket(user, lot.item)["held"] == 0, "the cancelled unit")
        second = shop.ticket(user, lot.item)
        assert second["order_id"] != first["order_id"]
        assert waits(shop, user, second, 3600000) > 3500000
        waiting.append((user, lot.item))
        # The order that exists is answered, others and other items do not wait.
        response = shop.buy(user, first)
        assert response.status == 200 and response.json()["status"] == "CANCELLED"
        assert shop.cancelled(user, first["order_id"]) == order
        other = shop.user()
        shop.bought(other, shop.ticket(other, lot.item))
        shop.bought(user, shop.ticket(user, shop.lot().item))
    server.restart()
    for user, item in waiting:
        assert waits(shop, user, shop.ticket(user, item), 3600000) > 3400000


@pytest.mark.parametrize("limit", [1, 5])
def test_after_the_cooling_time_the_same_ticket_buys(make_server, limit):
    server = make_server(sets=["order.cooling_s=2"])
    shop = Shop(server)
    lot = shop.lot(total=50, limit=limit, pay_within_s=600)
    user = shop.user()
    order = shop.order_locked(user, lot.item)["order_id"]
    before = server.now_ms()
    shop.cancelled(user, order)
    after = server.now_ms()
    eventually(lambda: shop.ticket(user, lot.item)["held"] == 0, "the cancelled unit")
    ticket = shop.ticket(user, lot.item)


    def bought():
        response = shop.buy(user, ticket)
        if response.status == 409:
            must_wait(response, 2000 + after - before)
        return response.status == 202

    eventually(bought, "the end of the cooling time")
    again = shop.wait_status(user, ticket["order_id"], "LOCKED")
    # By the ledger's clock, which may be another one than the server's.
    assert again["created_at_ms"] - before >= 1900


@pytest.mark.parametrize("bars", [False, True])
def test_who_lets_an_order_expire_waits_too_unless_the_sale_bars_him(make_server, bars):
    server = make_server(sets=["order.cooling_s=3600"])
    shop = Shop(server)
    lot = shop.lot(total=50, limit=5, pay_within_s=1, bar_unpaid=bars)
    user = shop.user()
    first, second = shop.ticket(user, lot.item), shop.ticket(user, lot.item)
    shop.bought(user, first)
    expired(shop, user, first["order_id"])
    shop.wait_counters(lot.item, 50, 0, 0)
    if bars:
        body = problem(shop.buy(user, second), 409, "barred", "no")
        assert "retry_after_ms" not in body
    else:
        waits(shop, user, second, 3600000)


def test_locked_orders_may_be_paid_after_the_close(server, shop):
    lot = shop.lot(total=5, limit=0, price=100)
    user = shop.user()
    order = shop.order_locked(user, lot.item)["order_id"]
    shop.moved(lot.sale, "close")
    shop.paid(order, 100)
    shop.wait_counters(lot.item, 4, 0, 1)


def test_orders_expire_after_the_close_too(server, shop):
    lot = shop.lot(total=5, limit=0, pay_within_s=1)
    user = shop.user()
    order = take(shop, user, lot.item)
    shop.moved(lot.sale, "close")
    expired(shop, user, order)
    shop.wait_counters(lot.item, 5, 0, 0)


def test_many_due_at_once_all_return_once(server, shop):
    lot = shop.lot(total=200, limit=0, pay_within_s=1)
    users = [shop.user() for _ in range(100)]
    orders = [(u, shop.bought(u, shop.ticket(u, lot.item), 2)["order_id"]) for u in users]
    for user, order in orders:
        expired(shop, user, order)
    shop.wait_counters(lot.item, 200, 0, 0)
