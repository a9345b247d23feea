"""Operators and their sales: creating, validating, reading, changing, deleting, moving."""
import pytest

from sluicelib import MAX_ID, compact, eventually, item_json, problem


def create(server, body):
    return server.admin("POST", "/sales", body)


def all_sales(server):
    """Every sale, over all pages where the answer says there are more."""
    found, query = [], ""
    while True:
        response = server.admin("GET", "/sales" + query)
        assert response.status == 200, response
        body = response.json()
        found += body["sales"]
        if body.get("next") is None:
            return found
        query = f"?after={body['next']}"


def ids_of_sales(server):
    ids = [s["id"] for s in all_sales(server)]
    assert len(ids) == len(set(ids))
    return ids


# ---------------------------------------------------------------- creating

@pytest.mark.asan
def test_create_answers_the_whole_sale(server, shop):
    body = shop.sale_json([
        item_json(name="first", sku="A-1", image_url="https://img.example/1.png",
                  price_cents=12300, was_cents=45600, total=5, limit_per_user=1),
        item_json(name="二", price_cents=1, total=1_000_000, limit_per_user=0),
        item_json(name="third", price_cents=99, total=2, limit_per_user=5)],
        currency="EUR", pay_url="https://pay.example/{order_id}", bar_unpaid=True,
        challenge="none", pay_within_s=120)
    response = create(server, body)
    assert response.status == 201, response
    assert response.get("cache-control") == "no-store"
    sale = response.json()
    assert sale["state"] == "draft"
    assert 1 <= sale["id"] <= MAX_ID
    for name in ("name", "starts_at_ms", "ends_at_ms", "pay_within_s", "currency", "pay_url",
                 "bar_unpaid"):
        assert sale[name] == body[name], name
    assert [i["name"] for i in sale["items"]] == ["first", "二", "third"]
    assert len({i["id"] for i in sale["items"]}) == 3
    for got, given in zip(sale["items"], body["items"]):
        assert 1 <= got["id"] <= MAX_ID
        for name in ("price_cents", "total", "limit_per_user"):
            assert got[name] == given[name], name
    assert sale["items"][0]["sku"] == "A-1"
    assert sale["items"][0]["image_url"] == "https://img.example/1.png"
    assert sale["items"][0]["was_cents"] == 45600
    assert shop.sale(sale["id"]) == sale


def test_what_may_be_left_out(server, shop):
    sale = shop.create_sale()
    assert sale["currency"] == "CNY"
    assert sale["bar_unpaid"] is False


def test_a_start_in_the_past_is_allowed(server, shop):
    shop.create_sale(starts_in_ms=-86400_000)


def test_ids_may_be_given(server, shop):
    base = shop.user() * 1000
    sale = shop.create_sale([item_json(id=base + 1), item_json(id=base + 2)], id=base)
    assert sale["id"] == base
    assert [i["id"] for i in sale["items"]] == [base + 1, base + 2]
    shop.moved(base, "open")
    shop.item(base + 2, sale_id=base)


def test_an_id_in_use_exists(server, shop):
    sale = shop.create_sale()
    item = sale["items"][0]["id"]
    problem(create(server, shop.sale_json(id=sale["id"])), 409, "exists")
    problem(create(server, shop.sale_json([item_json(id=item)])), 409, "exists")
    before = ids_of_sales(server)
    fresh = shop.user() * 1000
    problem(create(server, shop.sale_json([item_json(id=fresh), item_json(id=item)], id=fresh)),
            409, "exists")
    assert ids_of_sales(server) == before
    # Nothing was kept of the refused one.
    shop.create_sale([item_json(id=fresh)], id=fresh)


def test_one_id_twice_in_one_sale_is_refused(server, shop):
    fresh = shop.user() * 1000
    problem(create(server, shop.sale_json([item_json(id=fresh), item_json(id=fresh)])), (400, 409),
            ("bad_request", "exists"))


def test_ids_given_and_ids_made_do_not_meet(server, shop):
    made = shop.create_sale()
    near = [shop.create_sale([item_json(id=made["items"][0]["id"] + n)], id=made["id"] + n)
            for n in (1, 2)]
    more = [shop.create_sale() for _ in range(4)]
    everything = [made] + near + more
    assert len({s["id"] for s in everything}) == 7
    assert len({s["items"][0]["id"] for s in everything}) == 7


BAD_SALES = [
    ("name", None), ("name", ""), ("name", 7), ("name", "x" * 10_000), ("name", ["x"]),
    ("starts_at_ms", None), ("starts_at_ms", "1"), ("starts_at_ms", 1.5), ("starts_at_ms", -1),
    ("starts_at_ms", True), ("starts_at_ms", 2**62),
    ("ends_at_ms", None), ("ends_at_ms", "1"), ("ends_at_ms", 1.5), ("ends_at_ms", -1),
    ("ends_at_ms", 1), ("ends_at_ms", 2**62),
    ("pay_within_s", None), ("pay_within_s", 0), ("pay_within_s", -5), ("pay_within_s", "60"),
    ("pay_within_s", 1.5), ("pay_within_s", 2**53),
    ("currency", 7), ("currency", ""), ("currency", "cny"), ("currency", "CN"),
    ("currency", "CNYX"), ("currency", "C1Y"),
    ("pay_url", 7), ("pay_url", "x" * 20_000), ("pay_url", "/{order_id}/{order_id}"),
    ("bar_unpaid", "yes"), ("bar_unpaid", 1),
    ("challenge", 7), ("challenge", "nonsense"),
    ("id", 0), ("id", -1), ("id", 2**53), ("id", "1"), ("id", 1.5),
    ("items", None), ("items", []), ("items", {}), ("items", "x"),
]


@pytest.mark.parametrize("field,value", BAD_SALES, ids=lambda v: repr(v)[:30])
def test_bad_sales_name_their_field(server, shop, field, value):
    before = ids_of_sales(server)
    problem(create(server, shop.sale_json(**{field: value})
                   if field != "items" else dict(shop.sale_json(), items=value)),
            400, "bad_request", field=field)
    assert ids_of_sales(server) == before


@pytest.mark.parametrize("field", ["name", "starts_at_ms", "ends_at_ms", "pay_within_s", "items"])
def test_what_is_needed_is_named_when_missing(server, shop, field):
    body = shop.sale_json()
    del body[field]
    problem(create(server, body), 400, "bad_request", field=field)


BAD_ITEMS = [
    ("name", None), ("name", ""), ("name", 7), ("name", "x" * 10_000),
    ("sku", 7), ("sku", "x" * 10_000), ("image_url", 7), ("image_url", "x" * 20_000),
    ("price_cents", None), ("price_cents", -1), ("price_cents", "1"), ("price_cents", 1.5),
    ("price_cents", True), ("price_cents", 2**62),
    ("was_cents", -1), ("was_cents", "1"), ("was_cents", 1.5),
    ("total", None), ("total", 0), ("total", -1), ("total", "5"), ("total", 1.5),
    ("total", 2**53), ("total", True),
    ("limit_per_user", None), ("limit_per_user", -1), ("limit_per_user", "1"),
    ("limit_per_user", 1.5), ("limit_per_user", 2**53),
    ("id", 0), ("id", -1), ("id", 2**53), ("id", "1"),
]


@pytest.mark.parametrize("field,value", BAD_ITEMS, ids=lambda v: repr(v)[:30])
def test_bad_items_name_their_field(server, shop, field, value):
    items = [item_json(), dict(item_json(), **{field: value})]
    problem(create(server, shop.sale_json(items)), 400, "bad_request", field=field)


@pytest.mark.parametrize("field", ["name", "price_cents", "total", "limit_per_user"])
def test_what_an_item_needs_is_named_when_missing(server, shop, field):
    item = item_json()
    del item[field]
    problem(create(server, shop.sale_json([item])), 400, "bad_request", field=field)


def test_items_must_be_objects(server, shop):
    for wrong in (1, "x", None, [], [item_json()]):
        problem(create(server, shop.sale_json([wrong])), 400, "bad_request")


def test_a_sale_that_ends_before_it_starts(server, shop):
    problem(create(server, shop.sale_json(starts_in_ms=5000, ends_in_ms=4000)), 400,
            "bad_request", field="ends_at_ms")
    body = shop.sale_json()
    body["ends_at_ms"] = body["starts_at_ms"]
    problem(create(server, body), 400, "bad_request", field="ends_at_ms")


def test_unknown_members_are_refused_by_name(server, shop):
    problem(create(server, shop.sale_json(colour="red")), 400, "bad_request", field="colour")
    problem(create(server, shop.sale_json([item_json(colour="red")])), 400, "bad_request",
            field="colour")
    problem(create(server, shop.sale_json(state="open")), 400, "bad_request", field="state")


@pytest.mark.parametrize("change", [
    lambda b: b[:-1] + b',"name":"again"}',
    lambda b: b.replace(b'"total":10', b'"total":10,"total":10'),
    lambda b: b[:-1], lambda b: b + b"x", lambda b: b + b, lambda b: b"[" + b + b"]",
    lambda b: b.replace(b'"items"', b"'items'"), lambda b: b"", lambda b: b"null",
    lambda b: b.replace(b"thing", b"th\xffing"), lambda b: b.replace(b"thing", b"\xc0\xaf"),
    lambda b: b.replace(b"thing", b"\xed\xa0\x80"), lambda b: b.replace(b"thing", b"a\nb"),
    lambda b: b.replace(b"thing", rb"\ud800"), lambda b: b.replace(b"thing", rb"\x41"),
    lambda b: b"[" * 100_000, lambda b: b'{"name":' * 50_000,
    lambda b: b.replace(b'"thing"', b"[" * 3000 + b"]" * 3000),
    lambda b: b"\xef\xbb\xbf" + b, lambda b: b.replace(b'"total":10', b'"total":1e1000'),
    lambda b: b.replace(b'"total":10', b'"total":9223372036854775808'),
    lambda b: b.replace(b'"total":10', b'"total":18446744073709551626')])
def test_json_that_is_none_is_refused(server, shop, change):
    before = ids_of_sales(server)
    response = create(server, change(compact(shop.sale_json())))
    problem(response, (400, 413), ("bad_request", "too_large"))
    assert ids_of_sales(server) == before


def test_bodies_must_be_json_by_name(server, shop):
    body = compact(shop.sale_json())
    for kind in ("text/plain", "application/xml", "application/x-www-form-urlencoded"):
        problem(server.admin("POST", "/sales", body, content_type=kind), 415, "bad_media_type")
    response = server.admin("POST", "/sales", body, content_type="application/json;charset=UTF-8")
    assert response.status == 201, response


def test_a_sale_of_many_items(server, shop):
    sale = shop.create_sale([item_json(name=f"n{n}") for n in range(100)])
    assert [i["name"] for i in sale["items"]] == [f"n{n}" for n in range(100)]
    shop.moved(sale["id"], "open")
    user = shop.user()
    shop.bought(user, shop.ticket(user, sale["items"][99]["id"]))


def test_far_too_many_items_are_refused(server, shop):
    response = create(server, shop.sale_json([item_json() for _ in range(200_000)]))
    problem(response, (400, 413), ("bad_request", "too_large"))


# ---------------------------------------------------------------- reading, changing, deleting

def test_all_sales_are_read_drafts_too(server, shop):
    draft, opened = shop.lot(state="draft"), shop.lot()
    sales = {s["id"]: s["state"] for s in all_sales(server)}
    assert sales[draft.sale] == "draft" and sales[opened.sale] == "open"


@pytest.mark.parametrize("sale", [MAX_ID, "0", "abc", "-1", str(2**53)])
def test_an_unknown_sale(server, shop, sale):
    accept = (404,) if sale == MAX_ID else (404, 400)
    problem(server.admin("GET", f"/sales/{sale}"), accept, ("not_found", "bad_request"))
    problem(server.admin("DELETE", f"/sales/{sale}"), accept, ("not_found", "bad_request"))
    problem(server.admin("PUT", f"/sales/{sale}", shop.sale_json()), accept,
            ("not_found", "bad_request"))
    problem(server.admin("GET", f"/sales/{sale}/report"), accept, ("not_found", "bad_request"))
    for move in ("warm", "open", "pause", "close"):
        problem(shop.move(sale, move), accept, ("not_found", "bad_request"))


def test_a_draft_can_be_changed_in_everything(server, shop):
    sale = shop.create_sale()
    body = shop.sale_json([item_json(name="new", price_cents=5, total=77, limit_per_user=3),
                           item_json(name="newer")],
                          name="renamed", pay_within_s=33, currency="USD", bar_unpaid=True,
                          pay_url="https://p.example/{order_id}")
    response = server.admin("PUT", f"/sales/{sale['id']}", body)
    assert response.status == 200, response
    changed = shop.sale(sale["id"])
    assert changed == response.json()
    assert (changed["id"], changed["state"]) == (sale["id"], "draft")
    for name in ("name", "starts_at_ms", "ends_at_ms", "pay_within_s", "currency", "bar_unpaid",
                 "pay_url"):
        assert changed[name] == body[name], name
    assert [(i["name"], i["total"]) for i in changed["items"]] == [("new", 77), ("newer", 10)]
    shop.moved(sale["id"], "open")
    shop.item(changed["items"][0]["id"], total=77)


def test_what_was_read_can_be_sent_back(server, shop):
    """GET, change one thing, PUT: what only the server says is skipped, and null is left out."""
    sale = shop.create_sale([item_json(), item_json(name="b", sku="B", was_cents=20,
                                                    image_url="/assets/demo/headphones.svg")])
    for change in ({}, {"name": "other"}, {"pay_within_s": 77}):
        response = server.admin("PUT", f"/sales/{sale['id']}", dict(sale, **change))
        assert response.status == 200, response
        sale.update(change)
        assert response.json() == shop.sale(sale["id"]) == sale
    sale["items"][1]["total"] = 5
    response = server.admin("PUT", f"/sales/{sale['id']}", sale)
    assert response.status == 200, response
    sale["items"][1]["available"] = 5
    assert shop.sale(sale["id"]) == sale


@pytest.mark.parametrize("state", ["warm", "open", "paused"])
def test_what_was_read_later_can_be_sent_back(server, shop, state):
    lot = shop.lot(state="open" if state == "paused" else state, starts_in_ms=3600_000,
                   ends_in_ms=7200_000, item={"image_url": "/assets/demo/headphones.svg"})
    if state == "paused":
        shop.moved(lot.sale, "pause")
    if state != "warm":
        assert shop.restock(lot.item, 3).status == 200
    sale = shop.sale(lot.sale)
    sale.update(name="other", ends_at_ms=sale["ends_at_ms"] + 1000)
    response = server.admin("PUT", f"/sales/{lot.sale}", sale)
    assert response.status == 200, response
    after = shop.sale(lot.sale)
    for item in sale["items"]:
        item["ends_at_ms"] = sale["ends_at_ms"]
    assert after == sale
    sale["items"][0]["price_cents"] += 1
    problem(server.admin("PUT", f"/sales/{lot.sale}", sale), 409, "bad_state")
    assert shop.sale(lot.sale) == after


def test_items_sent_without_ids_are_those_of_their_places(server, shop):
    sale = shop.create_sale([item_json(name="a"), item_json(name="b")])
    ids = [item["id"] for item in sale["items"]]
    more = [item_json(name=name) for name in ("a", "c", "d")]
    response = server.admin("PUT", f"/sales/{sale['id']}", {"items": more})
    assert response.status == 200, response
    items = response.json()["items"]
    assert [item["name"] for item in items] == ["a", "c", "d"]
    assert [item["id"] for item in items[:2]] == ids
    assert items[2]["id"] not in ids


def test_a_bad_change_changes_nothing(server, shop):
    sale = shop.create_sale()
    for field, value in (("name", ""), ("pay_within_s", 0), ("items", []), ("ends_at_ms", 1),
                         ("colour", "red")):
        body = shop.sale_json()
        body[field] = value
        problem(server.admin("PUT", f"/sales/{sale['id']}", body), 400, "bad_request", field=field)
    assert shop.sale(sale["id"]) == sale


@pytest.mark.parametrize("state", ["warm", "open", "pause"])
def test_later_the_name_and_the_end_can_be_changed(server, shop, state):
    lot = shop.lot(state="open" if state == "pause" else state, starts_in_ms=3600_000,
                   ends_in_ms=7200_000)
    if state == "pause":
        shop.moved(lot.sale, "pause")
    before = shop.sale(lot.sale)
    ends_at_ms = before["ends_at_ms"] + 60_000
    change = {"name": "later", "ends_at_ms": ends_at_ms}
    response = server.admin("PUT", f"/sales/{lot.sale}", change)
    assert response.status == 200, response
    after = shop.sale(lot.sale)
    assert after == dict(before, name="later", ends_at_ms=ends_at_ms,
                         items=[dict(i, ends_at_ms=ends_at_ms) if "ends_at_ms" in i else i
                                for i in before["items"]])
    shop.item(lot.item, ends_at_ms=ends_at_ms)


def test_an_end_moved_forward_ends_the_sale_then(server, shop):
    lot = shop.lot()
    user = shop.user()
    ticket = shop.ticket(user, lot.item)
    ends_at_ms = server.now_ms() + 500
    response = server.admin("PUT", f"/sales/{lot.sale}", {"ends_at_ms": ends_at_ms})
    assert response.status == 200, response
    eventually(lambda: server.now_ms() >= ends_at_ms, "the new end")
    problem(shop.buy(user, ticket), 409, "ended")


@pytest.mark.parametrize("change", [dict(pay_within_s=5), dict(currency="USD"),
                                    dict(starts_at_ms=1), dict(bar_unpaid=True),
                                    dict(items=[item_json(total=99)])], ids=repr)
def test_later_nothing_else_can_be_changed(server, shop, change):
    lot = shop.lot()
    before = shop.sale(lot.sale)
    problem(server.admin("PUT", f"/sales/{lot.sale}", change), (409, 400),
            ("bad_state", "bad_request"))
    assert shop.sale(lot.sale) == before


def test_a_draft_can_be_deleted_and_nothing_else(server, shop):
    draft = shop.lot(state="draft")
    response = server.admin("DELETE", f"/sales/{draft.sale}")
    assert response.status in (200, 204), response
    problem(server.admin("GET", f"/sales/{draft.sale}"), 404, "not_found")
    problem(server.admin("DELETE", f"/sales/{draft.sale}"), 404, "not_found")
    problem(shop.try_ticket(shop.user(), draft.item), 404, "no_such_item")
    for state in ("warm", "open"):
        lot = shop.lot(state=state, starts_in_ms=3600_000, ends_in_ms=7200_000)
        problem(server.admin("DELETE", f"/sales/{lot.sale}"), 409, "bad_state")
        assert shop.sale(lot.sale)["state"] == state
    shop.moved(lot.sale, "close")
    problem(server.admin("DELETE", f"/sales/{lot.sale}"), 409, "bad_state")


# ---------------------------------------------------------------- moves

@pytest.mark.asan
def test_every_move_and_its_repeat(server, shop):
    sale = shop.create_sale(starts_in_ms=3600_000, ends_in_ms=7200_000)["id"]
    for move, state in (("warm", "warm"), ("open", "open"), ("pause", "paused"), ("open", "open"),
                        ("pause", "paused"), ("close", "closed")):
        for _ in range(2):
            answer = shop.moved(sale, move)
            assert answer["id"] == sale and answer["state"] == state, move
            assert shop.sale(sale)["state"] == state


def test_open_warms_if_need_be_and_moves_the_start_to_now(server, shop):
    sale = shop.create_sale(starts_in_ms=3600_000, ends_in_ms=7200_000)
    before_ms = server.now_ms()
    opened = shop.moved(sale["id"], "open")
    assert before_ms <= opened["starts_at_ms"] <= server.now_ms()
    item = shop.item(sale["items"][0]["id"], starts_at_ms=opened["starts_at_ms"], state="open")
    user = shop.user()
    shop.bought(user, shop.ticket(user, item["id"]))


def test_a_start_in_the_past_stays(server, shop):
    sale = shop.create_sale(starts_in_ms=-5000)
    assert shop.moved(sale["id"], "open")["starts_at_ms"] == sale["starts_at_ms"]


def test_a_resumed_sale_keeps_its_start(server, shop):
    lot = shop.lot()
    starts_at_ms = shop.sale(lot.sale)["starts_at_ms"]
    shop.moved(lot.sale, "pause")
    assert shop.moved(lot.sale, "open")["starts_at_ms"] == starts_at_ms


@pytest.mark.parametrize("moves,illegal", [
    ([], "pause"), (["open", "close"], "open"), (["open", "close"], "warm"),
    (["open", "close"], "pause"), (["warm", "close"], "open")])
def test_illegal_moves(server, shop, moves, illegal):
    sale = shop.create_sale(starts_in_ms=3600_000, ends_in_ms=7200_000)["id"]
    for move in moves:
        shop.moved(sale, move)
    before = shop.sale(sale)
    problem(shop.move(sale, illegal), 409, "bad_state")
    assert shop.sale(sale) == before


@pytest.mark.parametrize("state", ["open", "paused"])
def test_warm_repeated_later_changes_nothing(server, shop, state):
    lot = shop.lot()
    if state == "paused":
        shop.moved(lot.sale, "pause")
    before = shop.sale(lot.sale)
    assert before["state"] == state
    assert shop.moved(lot.sale, "warm") == before
    assert shop.sale(lot.sale) == before


def test_warm_repeated_after_the_sale_opened_by_itself(server, shop):
    sale = shop.create_sale(starts_in_ms=300)["id"]
    shop.moved(sale, "warm")
    eventually(lambda: shop.sale(sale)["state"] == "open", "the sale's start")
    assert shop.moved(sale, "warm")["state"] == "open"


def test_an_unknown_move(server, shop):
    lot = shop.lot()
    problem(shop.move(lot.sale, "dance"), 404, "not_found")


def test_moves_take_an_empty_body(server, shop):
    sale = shop.create_sale()["id"]
    assert server.admin("POST", f"/sales/{sale}/open", {}).status == 200
    assert server.admin("POST", f"/sales/{sale}/pause", b"").status == 200
