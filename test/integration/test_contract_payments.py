"""The payment system's call: Standard Webhooks signatures, idempotency, and every refusal."""
import base64
import os
import time

import pytest

from sluicelib import Background, Shop, compact, eventually, problem, webhook_signature


@pytest.fixture
def bought(shop):
    """A LOCKED order of 1,000 cents."""
    lot = shop.lot(total=10, limit=0, price=500)
    user = shop.user()
    order = shop.order_locked(user, lot.item, 2)
    return lot, user, order["order_id"]


def body_of(shop, order, amount_cents=1000, **more):
    return dict(dict(payment_id=shop.unique("pay"), order_id=order, amount_cents=amount_cents),
                **more)


def still_locked(shop, bought):
    lot, user, order = bought
    assert shop.order(user, order)["status"] == "LOCKED"
    assert shop.counters(lot.item) == (8, 2, 0)


@pytest.mark.asan
def test_a_payment_makes_the_order_paid(shop, bought):
    lot, user, order = bought
    response = shop.pay(order, 1000)
    assert response.status == 200, response
    assert response.get("cache-control") == "no-store"
    paid = response.json()
    assert (paid["order_id"], paid["status"], paid["amount_cents"]) == (order, "PAID", 1000)
    assert shop.order(user, order) == paid
    shop.wait_counters(lot.item, 8, 0, 2)


def test_the_same_payment_again_is_the_same_answer(shop, bought):
    lot, user, order = bought
    body = body_of(shop, order)
    first = shop.payment(body)
    assert first.status == 200
    for _ in range(3):
        again = shop.payment(body)
        assert (again.status, again.json()) == (200, first.json())
    # The very same message, as a webhook sender repeats it, is the same payment too.
    message = dict(message_id=shop.unique("msg"), timestamp=int(time.time()))
    assert [shop.payment(body, **message).status for _ in range(2)] == [200, 200]
    shop.wait_counters(lot.item, 8, 0, 2)


def test_the_same_payment_at_once_counts_once(server, shop, bought):
    lot, user, order = bought
    body = body_of(shop, order)
    jobs = [Background(lambda s=Shop(server.beside()): s.payment(body)) for _ in range(8)]
    answers = [job.result() for job in jobs]
    assert [a.status for a in answers] == [200] * 8
    assert all(a.json() == answers[0].json() for a in answers)
    shop.wait_counters(lot.item, 8, 0, 2)


def test_the_same_payment_id_with_another_body_is_refused(shop, bought):
    lot, user, order = bought
    other = shop.order_locked(user, lot.item, 2)["order_id"]
    body = body_of(shop, order)
    assert shop.payment(body).status == 200
    problem(shop.payment(dict(body, amount_cents=999)), 422, "different_request")
    problem(shop.payment(dict(body, order_id=other)), 422, "different_request")
    for nobody in ("no-such-order", "", "x" * 64, "20000000002R00000000050000"):
        problem(shop.payment(dict(body, order_id=nobody)), 422, "different_request")
    assert shop.order(user, other)["status"] == "LOCKED"


@pytest.mark.parametrize("amount", [999, 1001, 500, 1, 0, 2**40])
def test_a_wrong_amount_is_refused(shop, bought, amount):
    response = shop.pay(bought[2], amount)
    if amount == 0:
        problem(response, (422, 400), ("wrong_amount", "bad_request"))
    else:
        problem(response, 422, "wrong_amount")
    still_locked(shop, bought)
    shop.paid(bought[2], 1000)


@pytest.mark.parametrize("currency", ["USD", "cny", "CNYY", "CN", "", "RMB"])
def test_another_currency_is_refused(shop, bought, currency):
    lot, user, order = bought
    body = body_of(shop, order, currency=currency)
    problem(shop.payment(body), 422, "wrong_amount", "no")
    still_locked(shop, bought)
    assert shop.payment(dict(body, currency="CNY")).status == 200
    problem(shop.payment(body), 422, "different_request")
    without = {name: value for name, value in body.items() if name != "currency"}
    assert shop.payment(without).status == 200


def test_another_payment_of_a_paid_order_is_refused(shop, bought):
    lot, user, order = bought
    shop.paid(order, 1000)
    problem(shop.pay(order, 1000), 409, "already_paid")
    shop.wait_counters(lot.item, 8, 0, 2)


def test_a_cancelled_order_cannot_be_paid(shop, bought):
    lot, user, order = bought
    shop.cancelled(user, order)
    problem(shop.pay(order, 1000), 409, "expired", "no")
    shop.wait_counters(lot.item, 10, 0, 0)


def test_an_unknown_order(shop):
    problem(shop.pay("no-such-order", 1000), 404, "not_found")


def test_a_refusal_is_the_same_answer_again_whatever_became_of_the_order(shop, bought):
    lot, user, order = bought
    body = body_of(shop, order, 1)
    problem(shop.payment(body), 422, "wrong_amount")
    shop.cancelled(user, order)
    problem(shop.payment(body), 422, "wrong_amount")
    late = body_of(shop, order)
    for _ in range(2):
        problem(shop.payment(late), 409, "expired")


def test_after_a_refusal_the_payment_id_is_still_free(shop, bought):
    """A refusal changed nothing."""
    payment_id = shop.unique("pay")
    problem(shop.pay(bought[2], 1, payment_id), 422, "wrong_amount")
    shop.paid(bought[2], 1000, payment_id)


# ---------------------------------------------------------------- signatures

def test_without_a_signature(server, shop, bought):
    response = server.call("POST", "/v1/payments", body_of(shop, bought[2]))
    problem(response, 401, "bad_signature")
    assert response.get("www-authenticate") is None, response
    still_locked(shop, bought)


@pytest.mark.parametrize("drop", ["webhook-id", "webhook-timestamp", "webhook-signature"])
def test_each_header_is_needed(shop, bought, drop):
    problem(shop.payment(body_of(shop, bought[2]), drop=[drop]), 401, "bad_signature")
    still_locked(shop, bought)


@pytest.mark.asan
def test_wrong_signatures_are_refused(server, shop, bought):
    body = compact(body_of(shop, bought[2]))
    key = server.secret_bytes("webhook.key")
    now = int(time.time())
    good = webhook_signature(key, "m", now, body)
    raw = base64.b64decode(good[3:])
    wrong = [
        "", "v1,", "v1", good[3:], "v2," + good[3:], "v1a," + good[3:], "V1," + good[3:],
        good[:-2], "v1," + good[4:], "v1," + base64.b64encode(raw[:-1]).decode(),
        "v1," + base64.b64encode(raw + b"\0").decode(),
        "v1," + base64.b64encode(b"\0" * 32).decode(),
        "v1," + raw.hex(), good + "x", good + "," + good,
        webhook_signature(b"\0" * 32, "m", now, body),
        webhook_signature(server.secret("webhook.key").encode(), "m", now, body),
        webhook_signature(key, "other", now, body), webhook_signature(key, "m", now + 1, body),
        webhook_signature(key, "m", now, body + b" "),
        " ".join(["v1," + base64.b64encode(os.urandom(32)).decode()] * 20)]
    for signature in wrong:
        response = shop.payment(body, message_id="m", timestamp=now, signature=signature)
        problem(response, 401, "bad_signature")
    still_locked(shop, bought)
    assert shop.payment(body, message_id="m", timestamp=now, signature=good).status == 200


def test_one_right_signature_among_several_is_enough(server, shop, bought):
    body = compact(body_of(shop, bought[2]))
    now = int(time.time())
    good = webhook_signature(server.secret_bytes("webhook.key"), "m", now, body)
    other = webhook_signature(b"old key", "m", now, body)
    for signature in (f"{good} {other}", f"{other} {good}", f"v1a,AAAA {other} {good}"):
        response = shop.payment(body, message_id="m", timestamp=now, signature=signature)
        assert response.status == 200, response


def test_a_changed_body_is_refused(server, shop, bought):
    lot, user, order = bought
    body = body_of(shop, order)
    now = int(time.time())
    signature = webhook_signature(server.secret_bytes("webhook.key"), "m", now, compact(body))
    changed = compact(dict(body, amount_cents=1))
    problem(shop.payment(changed, message_id="m", timestamp=now, signature=signature), 401,
            "bad_signature")
    still_locked(shop, bought)


@pytest.mark.parametrize("away_s", [-360, 360, -86400, 10**9])
def test_outside_the_window_of_five_minutes(shop, bought, away_s):
    response = shop.payment(body_of(shop, bought[2]), timestamp=int(time.time()) + away_s)
    problem(response, 401, "bad_signature")
    assert "within 300 s" in response.json()["detail"]  # webhook.window_s
    still_locked(shop, bought)


@pytest.mark.parametrize("away_s", [-240, 240])
def test_inside_the_window_of_five_minutes(shop, bought, away_s):
    response = shop.payment(body_of(shop, bought[2]), timestamp=int(time.time()) + away_s)
    assert response.status == 200, response


@pytest.mark.parametrize("timestamp", ["", "abc", "-1", "0", "1e9", "99999999999999999999",
                                       "%d.5", "0x%x", " %d", "+%d", "%d000"])
def test_strange_timestamps(server, shop, bought, timestamp):
    stamp = timestamp % int(time.time()) if "%" in timestamp else timestamp
    body = compact(body_of(shop, bought[2]))
    # A header's leading space is no part of its value: that one must be signed without it.
    signed = webhook_signature(server.secret_bytes("webhook.key"), "m", stamp, body)
    response = shop.payment(body, message_id="m", timestamp=stamp, signature=signed)
    problem(response, 401, "bad_signature")
    still_locked(shop, bought)


def test_the_signature_is_checked_before_the_body(server, shop):
    for body in (b"rubbish", b"{}", b"[]"):
        problem(shop.payment(body, key=b"wrong"), 401, "bad_signature")


# ---------------------------------------------------------------- bodies

@pytest.mark.parametrize("change,field", [
    (dict(payment_id=None), "payment_id"), (dict(payment_id=""), "payment_id"),
    (dict(payment_id=7), "payment_id"), (dict(payment_id="x" * 5000), "payment_id"),
    (dict(order_id=None), "order_id"), (dict(order_id=7), "order_id"),
    (dict(amount_cents=None), "amount_cents"), (dict(amount_cents="1000"), "amount_cents"),
    (dict(amount_cents=1000.5), "amount_cents"), (dict(amount_cents=True), "amount_cents"),
    (dict(amount_cents=-1000), "amount_cents"), (dict(amount_cents=[1000]), "amount_cents"),
    (dict(amount_cents=2**63), "amount_cents")], ids=repr)
def test_bad_bodies_name_their_field(shop, bought, change, field):
    problem(shop.payment(body_of(shop, bought[2], **change)), 400, "bad_request", field=field)
    missing = body_of(shop, bought[2])
    del missing[field]
    problem(shop.payment(missing), 400, "bad_request", field=field)
    still_locked(shop, bought)


@pytest.mark.parametrize("body", [b"", b"[]", b"{", b"1", b"null", b'{"a":1}x',
                                  b'{"payment_id":"\xff"}'], ids=repr)
def test_what_is_no_json_object_is_refused(shop, body):
    problem(shop.payment(body), 400, "bad_request")


@pytest.mark.parametrize("change", [dict(currency=None), dict(currency=7), dict(Currency="USD"),
                                    dict(note="x")], ids=repr)
def test_what_a_payment_does_not_have_is_refused(shop, bought, change):
    problem(shop.payment(body_of(shop, bought[2], **change)), 400, "bad_request")
    still_locked(shop, bought)


def test_doubled_members_are_refused(shop, bought):
    order = bought[2].encode()
    body = (b'{"payment_id":"p","order_id":"' + order +
            b'","amount_cents":1000,"amount_cents":1000}')
    problem(shop.payment(body), 400, "bad_request")
    still_locked(shop, bought)


# ---------------------------------------------------------------- the demonstration's pay button

def test_the_pay_button_does_not_exist_without_demo(server, shop, bought):
    lot, user, order = bought
    response = server.call("POST", f"/v1/orders/{order}/pay", None, server.token(user))
    problem(response, 404, "not_found")
    still_locked(shop, bought)


def test_the_same_payment_after_the_sale_has_left_the_board_is_the_same_answer(make_server):
    shop = Shop(make_server(sets=["board.keep_s=0", "keeper.tick_ms=20"]))
    for life_ms in (1500, 6000, 20000):  # so long that this machine can buy and pay before the end
        lot = shop.lot(total=5, limit=0, price=300, ends_in_ms=life_ms, pay_within_s=life_ms // 1000,
                       state="draft")
        user = shop.user()
        if shop.move(lot.sale, "open").status != 200:
            continue
        ticket = shop.try_ticket(user, lot.item)
        if ticket.status != 201 or shop.buy(user, ticket.json(), 2).status != 202:
            continue
        order = ticket.json()["order_id"]
        shop.wait_status(user, order, "LOCKED", "EXPIRED")
        body = body_of(shop, order, 600)
        first = shop.payment(body)
        if first.status == 200:
            break
    assert first.status == 200 and first.json()["amount_cents"] == 600
    eventually(lambda: shop.server.get(f"/v1/items/{lot.item}").status == 404, "forgotten")
    again = shop.payment(body)
    assert (again.status, again.json()) == (200, first.json())
