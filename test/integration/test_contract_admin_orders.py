"""Operators and orders: restock, orders with their history, the event log, report, live feed."""
import json
import re

import pytest

from sluicelib import MAX_ID, Shop, eventually, problem

ORDER_FIELDS = {"order_id", "item_id", "qty", "status", "reason", "amount_cents", "currency",
                "created_at_ms"}


# ---------------------------------------------------------------- restock

@pytest.mark.asan
def test_restock_adds_once_for_each_request_id(server, shop):
    lot = shop.lot(total=5, limit=0)
    request = shop.unique("restock")
    for _ in range(3):
        response = shop.restock(lot.item, 7, request)
        assert response.status == 200, response
        shop.item(lot.item, total=12, available=12)
    assert shop.restock(lot.item, 1, shop.unique("restock")).status == 200
    shop.item(lot.item, total=13)


def test_the_answer_to_a_restock_has_the_new_numbers(server, shop):
    lot = shop.lot(total=5, limit=0)
    shop.order_locked(shop.user(), lot.item, 2)
    for n in range(1, 6):
        answer = shop.restock(lot.item, 7).json()
        assert answer["total"] == 5 + 7 * n
        assert answer["available"] + answer["locked"] + answer["sold"] == answer["total"]


def test_a_request_id_used_for_another_amount_adds_nothing(server, shop):
    lot = shop.lot(total=5, limit=0)
    request = shop.unique("restock")
    assert shop.restock(lot.item, 7, request).status == 200
    response = shop.restock(lot.item, 8, request)
    if response.status != 200:
        problem(response, 422, "different_request")
    assert shop.restock(lot.item, 1).status == 200
    shop.item(lot.item, total=13)


def test_restock_ends_a_sell_out(server, shop):
    lot = shop.lot(total=1, limit=1)
    buyer, late = shop.user(), shop.user()
    ticket = shop.ticket(late, lot.item)
    shop.order_locked(buyer, lot.item)
    problem(shop.buy(late, ticket), 409, "sold_out")
    assert shop.restock(lot.item, 1).status == 200
    shop.item(lot.item, state="open")
    shop.bought(late, ticket)
    assert shop.counters(lot.item) == (0, 2, 0)


@pytest.mark.parametrize("body,field", [
    ({"add": 0, "request_id": "r"}, "add"), ({"add": -1, "request_id": "r"}, "add"),
    ({"add": "1", "request_id": "r"}, "add"), ({"add": 1.5, "request_id": "r"}, "add"),
    ({"add": None, "request_id": "r"}, "add"), ({"add": True, "request_id": "r"}, "add"),
    ({"add": 2**53, "request_id": "r"}, "add"), ({"request_id": "r"}, "add"),
    ({"add": 1}, "request_id"), ({"add": 1, "request_id": ""}, "request_id"),
    ({"add": 1, "request_id": 7}, "request_id"),
    ({"add": 1, "request_id": "x" * 10_000}, "request_id"),
    ({"add": 1, "request_id": "r", "colour": "red"}, "colour")], ids=repr)
def test_bad_restocks_name_their_field(server, shop, body, field):
    lot = shop.lot(total=5)
    problem(server.admin("POST", f"/items/{lot.item}/restock", body), 400, "bad_request",
            field=field)
    shop.item(lot.item, total=5)


def test_restock_of_an_unknown_item(server, shop):
    problem(shop.restock(MAX_ID, 1), 404, ("no_such_item", "not_found"))


# ---------------------------------------------------------------- orders

@pytest.fixture(scope="module")
def scene(server):
    """Two sales, three buyers, orders in every end state but FAILED."""
    shop = Shop(server)
    first, second = shop.lot(total=50, limit=0, price=100), shop.lot(total=50, limit=0, price=100)
    users = [shop.user() for _ in range(3)]
    orders = {}
    for user in users:
        for lot in (first, second):
            for status in ("LOCKED", "PAID", "CANCELLED"):
                order = shop.order_locked(user, lot.item)["order_id"]
                if status == "PAID":
                    shop.paid(order, 100)
                if status == "CANCELLED":
                    shop.cancelled(user, order)
                orders[order] = (lot.sale, lot.item, user, status)
    return orders, users, first, second


def listing(server, query, limit=100):
    """Every order that matches, over all pages."""
    found, after = [], None
    while True:
        page = f"?limit={limit}&{query}" + (f"&after={after}" if after is not None else "")
        response = server.admin("GET", "/orders" + page)
        assert response.status == 200, response
        body = response.json()
        assert len(body["orders"]) <= limit
        found += body["orders"]
        after = body["next"]
        if after is None or not body["orders"]:
            return found


@pytest.mark.asan
def test_orders_are_filtered_by_sale_item_user_and_status(server, scene):
    orders, users, first, second = scene

    def expect(query, wanted):
        got = [o["order_id"] for o in listing(server, query)]
        assert len(got) == len(set(got)), "no order twice"
        assert set(got) == {o for o, facts in orders.items() if wanted(*facts)}, query

    expect(f"sale={first.sale}", lambda sale, item, user, status: sale == first.sale)
    expect(f"item={second.item}", lambda sale, item, user, status: item == second.item)
    expect(f"user={users[1]}", lambda sale, item, user, status: user == users[1])
    expect(f"sale={first.sale}&user={users[0]}",
           lambda sale, item, user, status: sale == first.sale and user == users[0])
    for wanted in ("LOCKED", "PAID", "CANCELLED"):
        expect(f"item={first.item}&status={wanted}",
               lambda sale, item, user, status: item == first.item and status == wanted)
    expect(f"sale={first.sale}&item={second.item}", lambda *facts: False)
    expect(f"sale={first.sale}&status=EXPIRED", lambda *facts: False)
    expect(f"user={users[2]}&item={second.item}&sale={second.sale}&status=PAID",
           lambda sale, item, user, status: (item, user, status) ==
           (second.item, users[2], "PAID"))


@pytest.mark.parametrize("limit", [1, 2, 5])
def test_orders_come_in_pages(server, scene, limit):
    orders, users, first, second = scene
    whole = [o["order_id"] for o in listing(server, f"sale={first.sale}")]
    assert [o["order_id"] for o in listing(server, f"sale={first.sale}", limit)] == whole
    filtered = [o["order_id"] for o in listing(server, f"sale={first.sale}&status=PAID", limit)]
    assert len(filtered) == 3


def test_listed_orders_say_whose_they_are(server, scene):
    orders, users, first, second = scene
    for order in listing(server, f"sale={first.sale}"):
        assert ORDER_FIELDS <= set(order)
        sale, item, user, status = orders[order["order_id"]]
        assert (order["item_id"], order["status"], order["amount_cents"]) == (item, status, 100)
        assert order["user_id"] == user


@pytest.mark.parametrize("query,field", [
    ("sale=abc", "sale"), ("item=-1", "item"), ("user=x", "user"), ("status=NONSENSE", "status"),
    ("limit=0", "limit"), ("limit=abc", "limit"), ("limit=-1", "limit")])
def test_bad_filters_name_their_field(server, query, field):
    problem(server.admin("GET", f"/orders?{query}"), 400, "bad_request", field=field)


@pytest.mark.parametrize("end,moves", [
    ("LOCKED", ["QUEUED", "LOCKED"]), ("PAID", ["QUEUED", "LOCKED", "PAID"]),
    ("CANCELLED", ["QUEUED", "LOCKED", "CANCELLED"])])
def test_one_order_with_its_whole_history(server, scene, end, moves):
    orders, users, first, second = scene
    order = next(o for o, facts in orders.items() if facts[3] == end)
    response = server.admin("GET", f"/orders/{order}")
    assert response.status == 200, response
    body = response.json()
    assert ORDER_FIELDS <= set(body)
    assert (body["order_id"], body["status"], body["user_id"]) == (order, end, orders[order][2])
    history = body["history"]
    assert [step["status"] for step in history] in (moves, moves[1:])
    times = [step["at_ms"] for step in history]
    assert times == sorted(times) and all(type(t) is int for t in times)


def test_an_unknown_order(server):
    problem(server.admin("GET", "/orders/no-such-order"), 404, "not_found")


# ---------------------------------------------------------------- the event log

def events_after(server, after, limit=None):
    query = f"?after={after}" + (f"&limit={limit}" if limit else "")
    response = server.admin("GET", "/events" + query)
    assert response.status == 200, response
    return response.json()


def event_log(server, after=0, limit=None):
    found = []
    while True:
        body = events_after(server, after, limit)
        if limit:
            assert len(body["events"]) <= limit
        if not body["events"]:
            return found
        found += body["events"]
        assert body["next"] > after
        after = body["next"]


@pytest.mark.asan
def test_the_event_log_tells_every_order_in_order(server, scene):
    orders, users, first, second = scene
    log = event_log(server)
    numbers = [e["number"] for e in log]
    assert numbers == sorted(set(numbers)), "numbers grow"
    for order, (sale, item, user, status) in orders.items():
        told = [e["type"] for e in log if e.get("order_id") == order]
        wanted = ["order.locked"] + ([f"order.{status.lower()}"] if status != "LOCKED" else [])
        assert [t for t in told if t != "order.queued"] == wanted


def test_the_event_log_is_read_on_from_a_number(server, shop, scene):
    lot = shop.lot(limit=0)
    whole = event_log(server)
    assert event_log(server, limit=3) == whole
    middle = whole[len(whole) // 2]["number"]
    assert event_log(server, after=middle) == [e for e in whole if e["number"] > middle]
    # Nothing new: an empty page that may be asked again; then what happens comes next.
    last = whole[-1]["number"]
    assert events_after(server, last)["events"] == []
    order = shop.order_locked(shop.user(), lot.item)["order_id"]
    fresh = eventually(lambda: events_after(server, last)["events"], "the new event")
    assert {e["order_id"] for e in fresh} == {order}


def test_the_event_log_of_the_future_is_empty(server):
    body = events_after(server, 2**40)
    assert body["events"] == []


@pytest.mark.parametrize("query,field", [("after=abc", "after"), ("after=-1", "after"),
                                         ("limit=0", "limit"), ("limit=x", "limit")])
def test_bad_cursors_name_their_field(server, query, field):
    problem(server.admin("GET", f"/events?{query}"), 400, "bad_request", field=field)


# ---------------------------------------------------------------- report and live

def test_the_report_tells_what_happened(server, shop):
    lot = shop.lot(total=2, limit=0, price=100)
    user = shop.user()
    spare = shop.ticket(user, lot.item)
    shop.paid(shop.order_locked(user, lot.item)["order_id"], 100)
    shop.order_locked(user, lot.item)
    problem(shop.buy(user, spare), 409, "sold_out")
    response = server.admin("GET", f"/sales/{lot.sale}/report")
    assert response.status == 200, response
    assert response.get("cache-control") == "no-store"
    report = response.json()
    text = json.dumps(report)
    assert isinstance(report, dict) and str(lot.sale) in text
    # Its names are its own, what it must speak of is not: funnel, peak rate, latencies,
    # sell-through, timeouts, rejects by reason.
    for words in ("funnel|requests", "peak", "latenc|p99", "sell_through", "timeout",
                  "reject|refus", "sold_out"):
        assert re.search(words, text), f"the report says nothing of {words}: {text}"


def test_the_live_feed_comes_again_and_again(server):
    with server.events("/v1/admin/live", server.admin_token) as events:
        assert events.response.get("cache-control") == "no-store"
        for _ in range(2):
            event = events.next()
            assert isinstance(json.loads(event.data), dict)


# ---------------------------------------------------------------- who may

ADMIN_CALLS = [
    ("GET", "/sales"), ("POST", "/sales"), ("GET", "/sales/1"), ("PUT", "/sales/1"),
    ("DELETE", "/sales/1"), ("POST", "/sales/1/warm"), ("POST", "/sales/1/open"),
    ("POST", "/sales/1/pause"), ("POST", "/sales/1/close"), ("POST", "/items/1/restock"),
    ("GET", "/orders"), ("GET", "/orders/x"), ("GET", "/events"), ("GET", "/sales/1/report"),
    ("GET", "/live"), ("GET", "/queue"), ("POST", "/queue/redrive")]


@pytest.mark.parametrize("method,path", ADMIN_CALLS)
def test_operators_only(server, shop, method, path):
    path = "/v1/admin" + path
    problem(server.call(method, path), 401, "unauthenticated")
    good = server.admin_token
    for wrong in ("", "x", good[:-1], good + "x", good.swapcase(), good[::-1]):
        problem(server.call(method, path, token=wrong), (401, 403),
                ("unauthenticated", "forbidden"))
    problem(server.call(method, path, token=server.token(shop.user())), (401, 403),
            ("unauthenticated", "forbidden"))


def test_the_admin_token_is_no_buyer(server, shop):
    lot = shop.lot()
    problem(server.call("POST", f"/v1/items/{lot.item}/ticket", token=server.admin_token),
            (401, 403), ("unauthenticated", "forbidden"))
    problem(server.get("/v1/me/orders", server.admin_token), (401, 403),
            ("unauthenticated", "forbidden"))
