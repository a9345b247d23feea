"""Tickets: who gets one, when, and what it says."""
import re
import time

import pytest

import sluicelib
from sluicelib import MAX_ID, Shop, eventually, problem

SERVER = dict(sets=["server.threads=2"])


def test_a_ticket_has_every_field(server, shop):
    lot = shop.lot(total=5, limit=1)
    response = shop.try_ticket(shop.user(), lot.item)
    assert response.status == 201, response
    body = response.json()
    assert set(body) >= {"ticket", "order_id", "buy_url", "expires_at_ms", "held"}
    assert re.fullmatch(r"[A-Za-z0-9_-]{1,64}", body["order_id"])
    assert re.fullmatch(r"[A-Za-z0-9._~-]+", body["ticket"]), "must fit in a path as it is"
    assert body["buy_url"] == "/v1/buy/" + body["ticket"]
    assert body["expires_at_ms"] > server.now_ms()
    assert body["held"] == 0
    assert response.get("cache-control") == "no-store"


def test_a_ticket_takes_no_stock(server, shop):
    lot = shop.lot(total=1)
    for _ in range(5):
        shop.ticket(shop.user(), lot.item)
    assert shop.counters(lot.item) == (1, 0, 0)


@pytest.mark.parametrize("body", [None, b"", b"{}", b" { } "])
def test_the_body_is_optional(server, shop, body):
    lot = shop.lot()
    assert shop.try_ticket(shop.user(), lot.item, body).status == 201


def test_unknown_members_are_refused_by_name(server, shop):
    lot = shop.lot()
    problem(shop.try_ticket(shop.user(), lot.item, b'{"Answer":"x"}'), 400, "bad_request",
            field="Answer")


@pytest.mark.parametrize("body", [b"[]", b"1", b"{", b"{}x", b'"x"', b"{'a':1}"])
def test_a_body_that_is_no_object_is_refused(server, shop, body):
    lot = shop.lot()
    problem(shop.try_ticket(shop.user(), lot.item, body), 400, "bad_request")


def test_tickets_need_a_buyer(server, shop):
    lot = shop.lot()
    problem(server.call("POST", f"/v1/items/{lot.item}/ticket"), 401, "unauthenticated")


def test_no_such_item(server, shop):
    problem(shop.try_ticket(shop.user(), MAX_ID), 404, "no_such_item")


@pytest.mark.parametrize("item", ["0", "-1", "abc", str(2**53), str(2**64 + 1)])
def test_what_is_no_item_id(server, shop, item):
    problem(shop.try_ticket(shop.user(), item), (404, 400),
            ("no_such_item", "not_found", "bad_request"))


@pytest.mark.parametrize("sale,moves,refusal", [
    (dict(state="draft"), [], (409, "not_open")),
    (dict(state="warm", starts_in_ms=120_000), [], (425, "too_early", "later")),
    (dict(state="warm", starts_in_ms=50_000), [], None),
    (dict(state="open"), [], None),
    (dict(state="open"), ["pause"], (409, "not_open")),
    (dict(state="open"), ["pause", "open"], None),
    (dict(state="open"), ["close"], (409, "ended")),
    (dict(state="open"), ["pause", "close"], (409, "ended"))],
    ids=["draft", "before the window", "in the window", "open", "paused", "resumed", "closed",
         "closed while paused"])
def test_the_state_of_the_sale_decides(server, shop, sale, moves, refusal):
    lot = shop.lot(**sale)
    for move in moves:
        shop.moved(lot.sale, move)
    response = shop.try_ticket(shop.user(), lot.item)
    if refusal:
        problem(response, *refusal)
    else:
        assert response.status == 201, response


def test_a_ticket_given_before_the_start_lives_into_the_sale(server, shop):
    lot = shop.lot(state="warm", starts_in_ms=50_000)
    ticket = shop.ticket(shop.user(), lot.item)
    item = shop.item(lot.item, state="upcoming")
    assert ticket["expires_at_ms"] > item["starts_at_ms"]


def test_the_window_can_be_configured(make_server):
    server = make_server(sets=["ticket.window_s=600"])
    shop = Shop(server)
    early = shop.lot(state="warm", starts_in_ms=660_000)
    inside = shop.lot(state="warm", starts_in_ms=500_000)
    problem(shop.try_ticket(shop.user(), early.item), 425, "too_early", "later")
    shop.ticket(shop.user(), inside.item)


def test_the_window_opens_by_itself(make_server):
    server = make_server(sets=["ticket.window_s=2"])
    shop = Shop(server)
    user = shop.user()
    for starts_in_ms in (3000, 8000, 30000):  # so late that this machine can ask before
        lot = shop.lot(state="warm", starts_in_ms=starts_in_ms)
        early = shop.try_ticket(user, lot.item)
        if early.status == 425:
            break
    problem(early, 425, "too_early", "later")
    eventually(lambda: shop.try_ticket(user, lot.item).status == 201, "the window")
    assert server.now_ms() >= shop.item(lot.item)["starts_at_ms"] - 2000


@pytest.mark.asan
def test_sold_out_is_later_while_units_are_locked_then_no(server, shop):
    lot = shop.lot(total=1, price=500)
    buyer, other = shop.user(), shop.user()
    order = shop.order_locked(buyer, lot.item)
    if sluicelib.SEGMENTED:  # the other's home learns a moment later that the last unit is gone
        eventually(lambda: shop.try_ticket(other, lot.item).status == 409, "sold out")
    problem(shop.try_ticket(other, lot.item), 409, "sold_out", "later")
    shop.paid(order["order_id"], 500)
    shop.wait_counters(lot.item, 0, 0, 1)
    problem(shop.try_ticket(other, lot.item), 409, "sold_out", "no")


def test_sold_out_still_shows_a_buyer_his_order(server, shop):
    lot = shop.lot(total=1)
    buyer = shop.user()
    order = shop.order_locked(buyer, lot.item)
    ticket = shop.ticket(buyer, lot.item)
    assert ticket["order_id"] == order["order_id"]
    response = shop.buy(buyer, ticket)
    assert response.status == 200 and response.json()["status"] == "LOCKED"


@pytest.mark.parametrize("limit", [1, 5, 0])
def test_held_counts_the_units_of_living_orders(server, shop, limit):
    lot = shop.lot(total=20, limit=limit, price=100)
    qty = 1 if limit == 1 else 2
    user = shop.user()
    order = shop.order_locked(user, lot.item, qty)
    assert shop.ticket(user, lot.item)["held"] == qty
    assert shop.ticket(shop.user(), lot.item)["held"] == 0
    if limit != 1:
        shop.paid(shop.order_locked(user, lot.item, 1)["order_id"], 100)
        assert shop.ticket(user, lot.item)["held"] == qty + 1
    shop.cancelled(user, order["order_id"])
    left = 0 if limit == 1 else 1
    eventually(lambda: shop.ticket(user, lot.item)["held"] == left, "the units to be given back")


@pytest.mark.parametrize("limit", [5, 0])
def test_without_limit_one_every_ticket_carries_a_fresh_time_ordered_id(server, shop, limit):
    lot = shop.lot(limit=limit)
    user = shop.user()
    ids = []
    for _ in range(30):
        ids.append(shop.ticket(user, lot.item)["order_id"])
        time.sleep(0.003)
    assert len(set(ids)) == 30
    assert ids == sorted(ids)


def test_fresh_ids_differ_between_buyers_and_items(server, shop):
    first, second = shop.lot(limit=0), shop.lot(limit=0)
    users = [shop.user() for _ in range(10)]
    ids = {shop.ticket(u, lot.item)["order_id"] for u in users for lot in (first, second)}
    assert len(ids) == 20


def test_with_limit_one_the_id_is_a_function_of_item_and_buyer(server, shop):
    lot, other = shop.lot(limit=1), shop.lot(limit=1)
    user = shop.user()
    ids = {shop.ticket(user, lot.item)["order_id"] for _ in range(5)}
    assert len(ids) == 1
    assert shop.ticket(shop.user(), lot.item)["order_id"] not in ids
    assert shop.ticket(user, other.item)["order_id"] not in ids
