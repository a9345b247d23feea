"""Orders: reading them, waiting for them, watching them, giving them back, listing them."""
import json
import re
import time

import pytest

from sluicelib import Background, Client, Shop, mint, problem, request_bytes

ORDER_FIELDS = {"order_id", "item_id", "qty", "status", "reason", "amount_cents", "currency",
                "pay_url", "pay_by_ms", "created_at_ms"}


def test_an_order_has_every_field(server, shop):
    lot = shop.lot(total=5, limit=0, price=250, pay_within_s=900, currency="USD",
                   pay_url="https://pay.example/o/{order_id}?x=1")
    user = shop.user()
    before_ms = server.now_ms()
    order = shop.order_locked(user, lot.item, 3)
    assert set(order) >= ORDER_FIELDS
    assert (order["item_id"], order["qty"], order["status"]) == (lot.item, 3, "LOCKED")
    assert (order["amount_cents"], order["currency"]) == (750, "USD")
    assert order["reason"] is None
    assert order["pay_url"] == f"https://pay.example/o/{order['order_id']}?x=1"
    assert before_ms <= order["created_at_ms"] <= server.now_ms()
    assert abs(order["pay_by_ms"] - order["created_at_ms"] - 900_000) < 60_000
    response = shop.get_order(user, order["order_id"])
    assert response.get("cache-control") == "no-store"
    assert response.json() == order


def test_without_a_template_there_is_no_pay_url(server, shop):
    lot = shop.lot()
    assert shop.order_locked(shop.user(), lot.item)["pay_url"] is None


def test_an_unknown_order_is_not_found(server, shop):
    lot = shop.lot()
    user = shop.user()
    problem(shop.get_order(user, "no-such-order"), 404, "not_found")
    # A ticket alone is no order yet. A front that has just begun says 503 for some seconds: others may
    # have buyers in line that it does not know of. get_order() asks until it knows.
    order = shop.ticket(user, lot.item)["order_id"]
    problem(shop.get_order(user, order), 404, "not_found")


@pytest.mark.parametrize("order", ["a.b", "x" * 65, "x" * 500, "%2e%2e", "a%00b", "-",
                                   "_", "%C3%A9"])
def test_what_is_no_order_id_is_refused(server, shop, order):
    problem(shop.get_order(shop.user(), order), (404, 400), ("not_found", "bad_request"))


def test_another_buyers_order_is_not_found_in_any_way(server, shop):
    lot = shop.lot()
    owner, other = shop.user(), shop.user()
    order = shop.order_locked(owner, lot.item)["order_id"]
    problem(shop.get_order(other, order), 404, "not_found")
    problem(shop.get_order(other, order, "?wait_ms=100"), 404, "not_found")
    problem(shop.cancel(other, order), 404, "not_found")
    with server.events(f"/v1/orders/{order}/events", server.token(other)) as events:
        problem(events.response, 404, "not_found")
    assert shop.order(owner, order)["status"] == "LOCKED"


def test_orders_need_a_buyer(server, shop):
    lot = shop.lot()
    order = shop.order_locked(shop.user(), lot.item)["order_id"]
    for method, path in (("GET", f"/v1/orders/{order}"), ("GET", f"/v1/orders/{order}/events"),
                         ("POST", f"/v1/orders/{order}/cancel"), ("GET", "/v1/me/orders")):
        problem(server.call(method, path), 401, "unauthenticated")


# ---------------------------------------------------------------- long poll

def poll_beside(server, user, order, query):
    def poll():
        client = Client(server.address)
        try:
            return client.call("GET", f"/v1/orders/{order}{query}", token=server.token(user))
        finally:
            client.close()
    return Background(poll)


@pytest.mark.asan
def test_long_poll_is_held_while_queued(server, shop):
    lot = shop.lot(total=100, limit=0)
    user = shop.user()
    for _ in range(20):
        order = shop.bought(user, shop.ticket(user, lot.item))["order_id"]
        response = shop.get_order(user, order, "?wait_ms=30000")
        assert response.status == 200 and response.json()["status"] == "LOCKED", response


def test_long_poll_is_held_while_the_status_is_the_one_named(server, shop):
    lot = shop.lot()
    user = shop.user()
    order = shop.order_locked(user, lot.item)["order_id"]
    waiting = [poll_beside(server, user, order, "?wait_ms=30000&status=LOCKED") for _ in range(5)]
    shop.cancelled(user, order)
    for job in waiting:
        response = job.result()
        assert response.status == 200 and response.json()["status"] == "CANCELLED"


def test_long_poll_ends_with_the_present_status_when_nothing_happens(server, shop):
    lot = shop.lot()
    user = shop.user()
    order = shop.order_locked(user, lot.item)["order_id"]
    started = time.monotonic()
    response = shop.get_order(user, order, "?wait_ms=400&status=LOCKED")
    assert time.monotonic() - started >= 0.39
    assert response.status == 200 and response.json()["status"] == "LOCKED"


def test_long_poll_answers_at_once_when_the_status_is_another(server, shop):
    lot = shop.lot(price=100)
    user = shop.user()
    order = shop.order_locked(user, lot.item)["order_id"]
    with server.conn(timeout_s=20) as conn:    # shorter than the 30 s it must not take
        for query in ("?wait_ms=30000", "?wait_ms=30000&status=QUEUED",
                      "?wait_ms=30000&status=PAID", "?wait_ms=0&status=LOCKED", "?status=LOCKED"):
            conn.send(f"GET /v1/orders/{order}{query} HTTP/1.1\r\nHost: x\r\n"
                      f"Authorization: Bearer {server.token(user)}\r\n\r\n")
            assert conn.read_response().json()["status"] == "LOCKED"


def test_a_waiting_poll_does_not_stop_others(server, shop):
    lot = shop.lot()
    user = shop.user()
    order = shop.order_locked(user, lot.item)["order_id"]
    waiting = [poll_beside(server, user, order, "?wait_ms=30000&status=LOCKED") for _ in range(50)]
    for _ in range(20):
        assert server.get("/v1/time").status == 200
    shop.cancelled(user, order)
    assert {job.result().json()["status"] for job in waiting} == {"CANCELLED"}


def test_a_poller_that_hangs_up_harms_nobody(server, shop):
    lot = shop.lot()
    user = shop.user()
    order = shop.order_locked(user, lot.item)["order_id"]
    for _ in range(10):
        with server.conn() as conn:
            conn.send(f"GET /v1/orders/{order}?wait_ms=30000&status=LOCKED HTTP/1.1\r\nHost: x\r\n"
                      f"Authorization: Bearer {server.token(user)}\r\n\r\n")
    shop.cancelled(user, order)
    assert shop.order(user, order)["status"] == "CANCELLED"


@pytest.mark.parametrize("query,field", [
    ("wait_ms=abc", "wait_ms"), ("wait_ms=-1", "wait_ms"), ("wait_ms=1.5", "wait_ms"),
    ("wait_ms=99999999999999999999", "wait_ms"), ("wait_ms=100&status=NONSENSE", "status")])
def test_bad_queries_name_their_field(server, shop, query, field):
    lot = shop.lot()
    user = shop.user()
    order = shop.order_locked(user, lot.item)["order_id"]
    problem(shop.get_order(user, order, "?" + query), 400, "bad_request", field=field)


# ---------------------------------------------------------------- events

@pytest.mark.asan
def test_order_events_tell_every_change_and_end_with_the_order(server, shop):
    lot = shop.lot(price=300)
    user = shop.user()
    order = shop.order_locked(user, lot.item)
    with server.events(f"/v1/orders/{order['order_id']}/events", server.token(user)) as events:
        assert events.response.get("cache-control") == "no-store"
        first = events.next()
        assert first.event == "order" and json.loads(first.data) == order
        assert first.id is not None and first.id.isdigit()
        shop.paid(order["order_id"], 300)
        second = events.next()
        assert second.event == "order" and json.loads(second.data)["status"] == "PAID"
        assert int(second.id) > int(first.id)
        assert events.next() is None, "the stream ends after a final state"


def test_order_events_from_the_first_moment_never_go_back(server, shop):
    lot = shop.lot(total=30, limit=0)
    rank = {"QUEUED": 0, "LOCKED": 1, "CANCELLED": 2}
    user = shop.user()
    for _ in range(10):
        order = shop.bought(user, shop.ticket(user, lot.item))["order_id"]
        with server.events(f"/v1/orders/{order}/events", server.token(user)) as events:
            seen, ids = [], []
            while True:
                event = events.next()
                if event is None:
                    break
                seen.append(rank[json.loads(event.data)["status"]])
                ids.append(int(event.id))
                if seen[-1] == 1:
                    shop.cancelled(user, order)
        assert seen == sorted(set(seen)) and seen[-1] == 2
        assert ids == sorted(set(ids))


def test_last_event_id_of_the_present_state_is_not_told_again(server, shop):
    lot = shop.lot()
    user = shop.user()
    order = shop.order_locked(user, lot.item)["order_id"]
    path, token = f"/v1/orders/{order}/events", server.token(user)
    with server.events(path, token) as events:
        first = events.next()
    with server.events(path, token, last_event_id=first.id) as events:
        shop.cancelled(user, order)
        event = events.next()
        assert json.loads(event.data)["status"] == "CANCELLED"
        assert int(event.id) > int(first.id)
        assert events.next() is None
    # An older id gets the present state; the final one's own id gets nothing but the end.
    with server.events(path, token, last_event_id=first.id) as events:
        assert json.loads(events.next().data)["status"] == "CANCELLED"
        assert events.next() is None
    assert server.events(path, token, last_event_id=event.id).response.status == 204


def test_a_stream_ends_when_its_token_does(server, shop):
    lot = shop.lot()
    user = shop.user()
    order = shop.order_locked(user, lot.item)["order_id"]
    path = f"/v1/orders/{order}/events"
    expires_s = int(time.time()) + 3
    token = mint(user, key=server.secret_bytes("jwt.key"), claims={"exp": expires_s})
    with server.events(path, token) as events, server.events(path, server.token(user)) as longer:
        for stream in (events, longer):
            assert json.loads(stream.next().data)["status"] == "LOCKED"
        assert events.next() is None
        ended = time.time()
        assert expires_s <= ended < expires_s + 5
        problem(server.events(path, token).response, 401, "unauthenticated")
        shop.cancelled(user, order)
        assert json.loads(longer.next().data)["status"] == "CANCELLED"


def test_a_stream_says_when_to_come_back(server, shop):
    lot = shop.lot()
    user = shop.user()
    order = shop.order_locked(user, lot.item)["order_id"]
    times = set()
    for _ in range(6):
        with server.conn() as conn:
            conn.send(request_bytes("GET", f"/v1/orders/{order}/events",
                                    {"Authorization": f"Bearer {server.token(user)}"}))
            while b"\n\n" not in conn.buffer:
                conn.fill()
            times.add(int(re.search(rb"^retry: (\d+)$", conn.buffer, re.M)[1]))
    assert len(times) > 1 and all(1000 <= ms < 3000 for ms in times), times


@pytest.mark.parametrize("last", ["", "abc", "-1", "99999999999999999999999", "0", "4",
                                  "65535"])
def test_a_strange_last_event_id_gets_the_present_state(server, shop, last):
    lot = shop.lot()
    user = shop.user()
    order = shop.order_locked(user, lot.item)["order_id"]
    shop.cancelled(user, order)
    with server.events(f"/v1/orders/{order}/events", server.token(user),
                       last_event_id=last) as events:
        assert json.loads(events.next().data)["status"] == "CANCELLED"
        assert events.next() is None


def test_a_final_order_is_told_once_and_the_stream_ends(server, shop):
    lot = shop.lot()
    user = shop.user()
    order = shop.order_locked(user, lot.item)["order_id"]
    shop.cancelled(user, order)
    with server.events(f"/v1/orders/{order}/events", server.token(user)) as events:
        assert json.loads(events.next().data)["status"] == "CANCELLED"
        assert events.next() is None


def test_events_of_an_unknown_order(server, shop):
    with server.events("/v1/orders/no-such/events", server.token(shop.user())) as events:
        problem(events.response, 404, "not_found")


def test_many_watchers_of_one_order_all_hear_its_end(server, shop):
    lot = shop.lot()
    user = shop.user()
    order = shop.order_locked(user, lot.item)["order_id"]
    watchers = [server.events(f"/v1/orders/{order}/events", server.token(user)) for _ in range(30)]
    try:
        for watcher in watchers:
            assert json.loads(watcher.next().data)["status"] == "LOCKED"
        shop.cancelled(user, order)
        for watcher in watchers:
            assert json.loads(watcher.next().data)["status"] == "CANCELLED"
            assert watcher.next() is None
    finally:
        for watcher in watchers:
            watcher.conn.close()


# ---------------------------------------------------------------- cancel

@pytest.mark.asan
def test_cancel_gives_the_units_back_exactly_once(server, shop):
    lot = shop.lot(total=9, limit=0)
    user = shop.user()
    order = shop.order_locked(user, lot.item, 4)["order_id"]
    assert shop.counters(lot.item) == (5, 4, 0)
    first = shop.cancelled(user, order)
    assert set(first) >= ORDER_FIELDS
    for _ in range(3):
        assert shop.cancelled(user, order)["order_id"] == order
    shop.wait_counters(lot.item, 9, 0, 0)
    assert shop.order(user, order)["status"] == "CANCELLED"


def test_cancel_at_once_on_many_connections_gives_back_once(server, shop):
    lot = shop.lot(total=9, limit=0)
    user = shop.user()
    order = shop.order_locked(user, lot.item, 4)["order_id"]
    token = server.token(user)

    def cancel():
        client = Client(server.address)
        try:
            return client.call("POST", f"/v1/orders/{order}/cancel", token=token)
        finally:
            client.close()

    for job in [Background(cancel) for _ in range(8)]:
        assert job.result().json()["status"] == "CANCELLED"
    shop.wait_counters(lot.item, 9, 0, 0)


def test_a_paid_order_cannot_be_cancelled(server, shop):
    lot = shop.lot(total=3, price=100)
    user = shop.user()
    order = shop.order_locked(user, lot.item)["order_id"]
    shop.paid(order, 100)
    problem(shop.cancel(user, order), 409, "already_paid")
    shop.wait_counters(lot.item, 2, 0, 1)


def test_cancelling_what_is_not_there(server, shop):
    problem(shop.cancel(shop.user(), "no-such-order"), 404, "not_found")


def test_a_locked_order_can_be_cancelled_after_the_close(server, shop):
    lot = shop.lot(total=3)
    user = shop.user()
    order = shop.order_locked(user, lot.item)["order_id"]
    shop.moved(lot.sale, "close")
    shop.cancelled(user, order)
    shop.wait_counters(lot.item, 3, 0, 0)


def test_cancel_and_pay_at_once_have_one_winner(server, shop):
    lot = shop.lot(total=20, limit=0, price=100)
    user = shop.user()
    paid = 0
    for _ in range(10):
        order = shop.order_locked(user, lot.item)["order_id"]
        other = Shop(server.beside())
        job = Background(lambda: other.pay(order, 100))
        cancel = shop.cancel(user, order)
        pay = job.result()
        other.server.client.close()
        status = shop.order(user, order)["status"]
        if status == "PAID":
            paid += 1
            assert pay.status == 200
            problem(cancel, 409, "already_paid")
        else:
            assert status == "CANCELLED" and cancel.status == 200
            problem(pay, 409, "expired")
    shop.wait_counters(lot.item, 20 - paid, 0, paid)


# ---------------------------------------------------------------- a buyer's own list

def pages(shop, user, limit):
    found, after = [], None
    while True:
        query = f"?limit={limit}" + (f"&after={after}" if after is not None else "")
        response = shop.my_orders(user, query)
        assert response.status == 200, response
        assert response.get("cache-control") == "no-store"
        body = response.json()
        assert len(body["orders"]) <= limit
        found.append(body["orders"])
        after = body["next"]
        if after is None:
            return found
        assert body["orders"], "an empty page must be the last"


@pytest.mark.parametrize("limit", [1, 2, 3, 7, 100])
def test_my_orders_come_newest_first_in_pages(server, shop, limit):
    lot = shop.lot(total=100, limit=0)
    user = shop.user()
    made = []
    for _ in range(7):
        made.append(shop.order_locked(user, lot.item)["order_id"])
    listed = [o["order_id"] for page in pages(shop, user, limit) for o in page]
    assert listed == made[::-1]


def test_my_orders_are_orders_and_mine_alone(server, shop):
    lot = shop.lot(total=10, limit=0, price=100)
    user, other = shop.user(), shop.user()
    order = shop.order_locked(user, lot.item, 2)
    shop.order_locked(other, lot.item, 1)
    body = shop.my_orders(user).json()
    assert [o["order_id"] for o in body["orders"]] == [order["order_id"]]
    mine = body["orders"][0]
    for name in ("item_id", "qty", "status", "amount_cents", "currency", "created_at_ms"):
        assert mine[name] == order[name], name
    assert shop.my_orders(shop.user()).json() == {"orders": [], "next": None}


def test_my_orders_show_final_states(server, shop):
    lot = shop.lot(total=10, limit=0, price=100)
    user = shop.user()
    paid = shop.order_locked(user, lot.item)["order_id"]
    gone = shop.order_locked(user, lot.item)["order_id"]
    shop.paid(paid, 100)
    shop.cancelled(user, gone)
    states = {o["order_id"]: o["status"] for o in shop.my_orders(user).json()["orders"]}
    assert states == {paid: "PAID", gone: "CANCELLED"}


@pytest.mark.parametrize("query,field", [("limit=0", "limit"), ("limit=-1", "limit"),
                                         ("limit=abc", "limit"),
                                         ("limit=99999999999999999999", "limit")])
def test_bad_paging_names_its_field(server, shop, query, field):
    problem(shop.my_orders(shop.user(), "?" + query), 400, "bad_request", field=field)


def test_a_strange_cursor_is_refused_or_finds_nothing(server, shop):
    user = shop.user()
    for after in ("rubbish", "%00", "-1", "x" * 500):
        response = shop.my_orders(user, f"?after={after}")
        if response.status != 200:
            problem(response, 400, "bad_request", field="after")
