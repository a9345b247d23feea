"""What anybody may read: the time, the sales, the items, their counters and their events."""
import json
import time

import pytest

from sluicelib import MAX_ID, eventually, item_json, problem

SALE_FIELDS = {"id", "name", "state", "currency", "starts_at_ms", "ends_at_ms", "items"}
ITEM_FIELDS = {"id", "sale_id", "name", "sku", "image_url", "price_cents", "was_cents", "total",
               "available", "locked", "sold", "limit_per_user", "state", "starts_at_ms",
               "ends_at_ms"}


def listed(server, sale):
    response = server.get("/v1/sales")
    assert response.status == 200, response
    return next((s for s in response.json()["sales"] if s["id"] == sale), None)


def test_time_is_the_servers_clock_in_milliseconds(server):
    before = time.time() * 1000
    response = server.get("/v1/time")
    after = time.time() * 1000
    assert response.status == 200
    assert response.get("content-type").split(";")[0] == "application/json"
    now_ms = response.json()["now_ms"]
    assert type(now_ms) is int
    assert before - 2000 <= now_ms <= after + 2000


def test_time_never_goes_backwards(server):
    seen = [server.now_ms() for _ in range(50)]
    assert seen == sorted(seen)


def test_a_draft_is_not_shown_and_a_warmed_sale_is(server, shop):
    lot = shop.lot(state="draft")
    assert listed(server, lot.sale) is None
    shop.moved(lot.sale, "warm")
    assert listed(server, lot.sale)["state"] in ("warm", "open")


def test_a_sale_is_listed_with_its_items(server, shop):
    made = shop.create_sale([
        item_json(name="红色 kettle \"A\"", sku="K-1", image_url="https://img.example/k.png",
                  price_cents=12345, was_cents=20000, total=7, limit_per_user=3),
        item_json(name="second", total=1, limit_per_user=0)], currency="EUR")
    shop.moved(made["id"], "open")
    sale = listed(server, made["id"])
    assert SALE_FIELDS <= set(sale)
    assert (sale["name"], sale["state"], sale["currency"]) == (made["name"], "open", "EUR")
    assert sale["starts_at_ms"] < sale["ends_at_ms"]
    assert [i["id"] for i in sale["items"]] == [i["id"] for i in made["items"]]
    first = sale["items"][0]
    assert ITEM_FIELDS <= set(first)
    assert first["name"] == "红色 kettle \"A\"" and first["sku"] == "K-1"
    assert first["image_url"] == "https://img.example/k.png"
    assert (first["price_cents"], first["was_cents"]) == (12345, 20000)


def test_an_item_has_every_field(server, shop):
    lot = shop.lot(total=9, limit=2, price=777, item=dict(sku="S/1", was_cents=999))
    item = shop.item(lot.item, available=9, locked=0, sold=0, state="open")
    assert ITEM_FIELDS <= set(item)
    assert item["id"] == lot.item and item["sale_id"] == lot.sale
    assert (item["price_cents"], item["was_cents"], item["sku"]) == (777, 999, "S/1")
    assert (item["total"], item["limit_per_user"]) == (9, 2)
    sale = listed(server, lot.sale)
    assert (item["starts_at_ms"], item["ends_at_ms"]) == (sale["starts_at_ms"], sale["ends_at_ms"])
    for name in ("id", "sale_id", "price_cents", "total", "available", "locked", "sold",
                 "limit_per_user", "starts_at_ms", "ends_at_ms"):
        assert type(item[name]) is int, name


def test_currency_is_cny_unless_said(server, shop):
    lot = shop.lot()
    assert listed(server, lot.sale)["currency"] == "CNY"


@pytest.mark.parametrize("item", [MAX_ID, 999999999999])
def test_an_unknown_item_is_no_such_item(server, item):
    problem(server.get(f"/v1/items/{item}"), 404, "no_such_item")


@pytest.mark.parametrize("item", ["0", "-1", "abc", "1.5", "1e3", "+1", "%31", "0x1",
                                  str(2**53), str(2**64 + 1), "9" * 60])
def test_what_is_no_item_id_is_refused(server, item):
    problem(server.get(f"/v1/items/{item}"), (404, 400),
            ("no_such_item", "not_found", "bad_request"))


@pytest.mark.asan
def test_counters_include_every_decision_answered_before(server, shop):
    """No waiting anywhere: what was answered is counted when the next request arrives."""
    lot = shop.lot(total=10, limit=0, price=100)
    user = shop.user()
    for n in range(1, 4):
        shop.bought(user, shop.ticket(user, lot.item), 2)
        assert shop.counters(lot.item) == (10 - 2 * n, 2 * n, 0)
    first, second = shop.my_locked(user, 3)[:2]
    shop.cancelled(user, first)
    assert shop.counters(lot.item) == (6, 4, 0)
    shop.paid(second, 200)
    assert shop.counters(lot.item) == (6, 2, 2)
    assert shop.restock(lot.item, 5).status == 200
    assert shop.counters(lot.item) == (11, 2, 2)


@pytest.mark.embedded
def test_the_listing_counts_like_the_item(server, shop):
    lot = shop.lot(total=3, limit=0)
    shop.order_locked(shop.user(), lot.item, 2)
    shop.item(lot.item)  # from here on the numbers have to be right
    item = listed(server, lot.sale)["items"][0]
    assert (item["available"], item["locked"], item["sold"]) == (1, 2, 0)


def test_item_states_follow_the_sale(server, shop):
    lot = shop.lot(state="warm", total=1, starts_in_ms=3600_000, ends_in_ms=7200_000)
    shop.item(lot.item, state="upcoming")
    shop.moved(lot.sale, "open")
    shop.item(lot.item, state="open")
    shop.moved(lot.sale, "pause")
    shop.item(lot.item, state="paused")
    shop.moved(lot.sale, "open")
    user = shop.user()
    order = shop.order_locked(user, lot.item)
    shop.item(lot.item, state="sold_out")
    shop.cancelled(user, order["order_id"])
    eventually(lambda: shop.item(lot.item)["state"] == "open", "the returned unit on sale")
    shop.moved(lot.sale, "close")
    shop.item(lot.item, state="ended")


def test_a_warmed_sale_opens_by_itself_at_its_start(server, shop):
    lot = shop.lot(state="warm", starts_in_ms=1500)
    starts_at_ms = shop.item(lot.item)["starts_at_ms"]
    eventually(lambda: shop.item(lot.item)["state"] == "open", "the start")
    assert server.now_ms() >= starts_at_ms
    eventually(lambda: listed(server, lot.sale)["state"] == "open", "the sale's own state")


def test_a_sale_ends_by_itself_at_its_end(server, shop):
    lot = shop.lot(ends_in_ms=4000)
    ends_at_ms = shop.item(lot.item)["ends_at_ms"]
    eventually(lambda: shop.item(lot.item)["state"] == "ended", "the end")
    assert server.now_ms() >= ends_at_ms
    eventually(lambda: shop.sale(lot.sale)["state"] == "closed", "the sale's own state")


# ---------------------------------------------------------------- item events

@pytest.mark.asan
def test_item_events_tell_changes_and_the_sell_out(server, shop):
    lot = shop.lot(total=2, limit=0)
    user = shop.user()
    with server.events(f"/v1/items/{lot.item}/events") as events:
        shop.order_locked(user, lot.item, 1)
        event = events.until(lambda e: e.event == "item" and json.loads(e.data)["locked"] == 1,
                             "the first sale")
        assert ITEM_FIELDS <= set(json.loads(event.data))
        assert json.loads(event.data)["available"] == 1
        shop.order_locked(user, lot.item, 1)
        seen = set()

        def complete(event):
            if event.event == "item" and json.loads(event.data)["available"] == 0:
                seen.add("item")
            if event.event == "item.sold_out":
                seen.add("sold_out")
            return seen == {"item", "sold_out"}

        events.until(complete, "the sell-out")


def test_item_events_come_at_most_once_a_second(server, shop):
    lot = shop.lot(total=1000, limit=0)
    user = shop.user()
    with server.events(f"/v1/items/{lot.item}/events") as events:
        started = time.monotonic()
        count = 0
        last = 0
        while last < 3:
            for _ in range(10):
                shop.bought(user, shop.ticket(user, lot.item))
            events.until(lambda e: e.event == "item", "a change")
            count, last = count + 1, time.monotonic() - started
        # One may be the present state, sent on connecting.
        assert count <= int(last) + 2, f"{count} events in {last:.1f} s"


def test_every_watcher_is_told(server, shop):
    lot = shop.lot(total=5, limit=0)
    watchers = [server.events(f"/v1/items/{lot.item}/events") for _ in range(20)]
    try:
        shop.order_locked(shop.user(), lot.item, 5)
        for watcher in watchers:
            watcher.until(lambda e: e.event == "item.sold_out", "the sell-out")
    finally:
        for watcher in watchers:
            watcher.conn.close()


def test_events_of_an_unknown_item(server):
    with server.events(f"/v1/items/{MAX_ID}/events") as events:
        problem(events.response, 404, "no_such_item")


# ---------------------------------------------------------------- caches

def test_catalog_may_be_cached_for_a_second(server, shop):
    lot = shop.lot()
    for path in ("/v1/sales", f"/v1/items/{lot.item}"):
        directives = {d.strip() for d in server.get(path).get("cache-control").split(",")}
        assert directives == {"public", "max-age=1"}, path


def test_catalog_needs_no_token_and_minds_no_bad_one(server, shop):
    lot = shop.lot()
    for path in ("/v1/time", "/v1/sales", f"/v1/items/{lot.item}"):
        assert server.get(path).status == 200
        assert server.get(path, token="rubbish").status == 200


def test_a_range_of_time_keeps_the_sales_that_meet_it(server, shop):
    lot = shop.lot()
    sale = listed(server, lot.sale)

    def kept(query):
        response = server.get(f"/v1/sales?{query}")
        assert response.status == 200, response
        return lot.sale in [s["id"] for s in response.json()["sales"]]

    starts, ends = sale["starts_at_ms"], sale["ends_at_ms"]
    assert kept(f"from_ms={ends - 1}") and not kept(f"from_ms={ends}")
    assert kept(f"to_ms={starts + 1}") and not kept(f"to_ms={starts}")
    assert kept(f"from_ms={starts}&to_ms={ends}")
    for query in ("from_ms=-1", "to_ms=soon", "from_ms="):
        problem(server.get(f"/v1/sales?{query}"), 400, "bad_request")


def test_the_list_has_a_tag_and_a_compressed_form(server, shop):
    shop.moved(shop.create_sale([item_json(name=f"thing {i}") for i in range(20)])["id"], "open")
    plain = server.get("/v1/sales")
    packed = server.get("/v1/sales", headers={"Accept-Encoding": "gzip"})
    assert packed.get("content-encoding") == "gzip" and len(packed.body) < len(plain.body)
    assert packed.get("etag") != plain.get("etag") and not packed.get("etag").startswith("W/")

    def unchanged():  # other tests' sales change meanwhile
        tag = server.get("/v1/sales").get("etag")
        again = server.get("/v1/sales", headers={"If-None-Match": tag})
        return again.status == 304 and not again.body and again.get("etag") == tag

    eventually(unchanged, "304 for the tag of the list as it is")
