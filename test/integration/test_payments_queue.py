"""Payments from a queue (amqp.payments), on real RabbitMQ, MariaDB and Redis: each is in the ledger
once, even if messages are duplicated or a process dies, and a refused payment is parked in a separate
queue with its code.
"""
import json
import subprocess

import pytest

import enginelib
import proxylib
import rabbitlib
import sluicelib
from sluicelib import Shop, eventually

MISSING = enginelib.missing() or rabbitlib.missing()
pytestmark = pytest.mark.skipif(MISSING != "", reason=f"not installed: {MISSING}")


class Till:
    """A server that takes payments from a queue of its own, and ways to put them there."""

    def __init__(self, make_server, *sets, rabbit_port=None, engine=None):
        self.engine = engine or enginelib.shared()
        settings, database = self.engine.settings()
        self.name = next(s for s in settings if s.startswith("amqp.queue=")).split("=")[1] + ".pay"
        self.url = next(s for s in settings if s.startswith("amqp.url="))
        if rabbit_port:
            settings = [s.replace(f":{self.engine.rabbit.port}/", f":{rabbit_port}/")
                        if s.startswith("amqp.url=") else s for s in settings]
        self.server = make_server(sets=[*settings, f"amqp.payments={self.name}", *sets],
                                  database=database)
        self.shop = Shop(self.server)

    def send(self, *payments):
        """As a payment system does: persistent, confirmed."""
        self.engine.rabbit.publish("", self.name, *(
            one if isinstance(one, bytes) else json.dumps(one) for one in payments))

    def queue(self):
        """What `sluice queue list --payments` says."""
        done = subprocess.run(
            [sluicelib.BINARY, "queue", "list", "--payments", "--json", "--set", self.url, "--set",
             f"amqp.payments={self.name}"], text=True, capture_output=True,
            stdin=subprocess.DEVNULL, timeout=sluicelib.GUARD_S)
        assert done.returncode == 0 and not done.stderr, (done.stdout, done.stderr)
        return json.loads(done.stdout)

    def wait_empty(self):
        """Nothing is left in any of its queues; the broker counts a moment late."""
        eventually(lambda: not any(self.queue()[name] for name in ("ready", "retry", "parked")),
                   "empty queues")

    def metric(self, name):
        text = self.server.beside().call("GET", "/metrics").body.decode()
        return sum(float(line.split()[-1]) for line in text.splitlines()
                   if line.startswith(f"sluice_payment_consumer_{name}_total"))

    def lot(self, **more):
        """Open, and known to be so at the gate, which on a busy machine takes a moment."""
        lot = self.shop.lot(total=20, limit=0, price=700, **more)
        eventually(lambda: self.shop.try_ticket(self.shop.user(), lot.item).status == 201,
                   "the first ticket")
        return lot

    def order(self, lot, qty=1):
        user = self.shop.user()
        return user, self.shop.order_locked(user, lot.item, qty)["order_id"]

    def refused(self, count):
        """code -> payment ids, once so many lie there."""
        eventually(lambda: self.metric("refused") >= count, f"{count} refused payments")
        found = eventually(lambda: self.all_refused(count), f"{count} in {self.name}.refused")
        codes = {}
        for message in found:
            text = message["text"]
            payment = json.loads(text)["payment_id"] if text.startswith("{") else text
            codes.setdefault(message["reason"], set()).add(payment)
        return codes

    def all_refused(self, count):
        shown = self.queue()
        return shown["parked"] == count and shown["messages"]


def payment(name, order, cents):
    return {"payment_id": name, "order_id": order, "amount_cents": cents}


@pytest.mark.asan
def test_payments_from_the_queue_are_paid_once(make_server):
    till = Till(make_server)
    lot = till.lot()
    orders = [till.order(lot) for _ in range(6)]
    sent = [payment(f"q-{i}", order, 700) for i, (_, order) in enumerate(orders)]
    # Each twice, and the first a third time over HTTP: it is the same payment.
    till.send(*sent, *sent)
    for user, order in orders:
        assert till.shop.wait_status(user, order, "PAID")["amount_cents"] == 700
    assert till.shop.payment(sent[0]).status == 200
    till.shop.wait_counters(lot.item, 14, 0, 6)
    eventually(lambda: till.metric("paid") >= 12, "every message to be acknowledged")
    till.wait_empty()


def test_what_is_refused_for_good_is_kept_with_its_code(make_server):
    till = Till(make_server)
    # What nobody knows is looked for again after one second, and after five.
    till.send(payment("nobody", "20000000002R00000000050000", 700))
    lot = till.lot()
    short = till.lot(pay_within_s=1)
    late_user = till.shop.user()
    late = till.shop.bought(late_user, till.shop.ticket(late_user, short.item))["order_id"]
    user, order = till.order(lot)
    _, other = till.order(lot)
    till.shop.wait_status(late_user, late, "EXPIRED")
    till.send(payment("good", order, 700))
    till.shop.wait_status(user, order, "PAID")
    till.send(payment("wrong", other, 699), payment("late", late, 700),
              payment("second", order, 700), payment("good", other, 700), b"hello",
              payment("made-up", "no-such-thing", 700))
    assert till.refused(7) == {
        "wrong_amount": {"wrong"}, "expired": {"late"}, "already_paid": {"second"},
        "different_request": {"good"}, "not_found": {"nobody", "made-up"},
        "bad_request": {"hello"}}
    # Stock and orders are unchanged, and each payment has a line in the log.
    till.shop.wait_counters(lot.item, 18, 1, 1)
    till.shop.wait_counters(short.item, 20, 0, 0)
    assert till.server.log().count("payment_consumer.refused") == 7
    # The order that was paid wrongly can still be paid rightly.
    till.send(payment("right", other, 700))
    till.shop.wait_counters(lot.item, 18, 0, 2)


def test_a_server_killed_between_commit_and_ack_pays_once(make_server):
    proxy = proxylib.Proxy(("127.0.0.1", enginelib.shared().rabbit.port))
    try:
        till = Till(make_server, rabbit_port=proxy.port)
        lot = till.lot()
        user, order = till.order(lot)
        # The payment comes down, and nothing of that connection goes up any more: no ack.
        trap = proxy.trap(proxylib.DOWN, b"struck", proxylib.UP)
        till.send(payment("struck", order, 700))
        till.shop.wait_status(user, order, "PAID")
        assert trap.sprung.is_set()
        eventually(lambda: till.metric("paid") == 1, "the ack to be on its way")
        till.server.kill()
        shown = till.queue()
        assert shown["retry"] == shown["parked"] == 0
        proxy.reset()
        proxy.heal()
        eventually(lambda: till.queue()["ready"] == 1, "the payment to be there again")
        till.server.start()
        eventually(lambda: till.metric("paid") == 1, "the payment to be acknowledged")
        till.shop = Shop(till.server)
        till.shop.wait_counters(lot.item, 19, 0, 1)
        till.wait_empty()
        # It would be told where it was not so.
        again = till.shop.pay(order, 700)
        assert again.status == 409 and again.json()["code"] == "already_paid"
        assert till.shop.payment(payment("struck", order, 700)).status == 200
    finally:
        proxy.close()


@pytest.fixture
def proxied():
    engine = enginelib.Proxied()
    yield engine
    engine.discard()


def test_payments_wait_for_the_ledger(proxied, make_server):
    till = Till(make_server, engine=proxied)
    lot = till.lot()
    user, order = till.order(lot)
    taken = proxied.proxies["rabbitmq"].trap(proxylib.DOWN, b"patient", None)
    assert proxied.proxies["mariadb"].refuse() > 0
    try:
        till.send(payment("patient", order, 700))
        eventually(taken.sprung.is_set, "the payment to be taken")
        eventually(lambda: "ledger.batch_failed" in till.server.log(), "its booking to fail")
        assert till.metric("paid") == till.metric("refused") == 0
    finally:
        proxied.proxies["mariadb"].heal()
    till.shop.wait_status(user, order, "PAID")
    eventually(lambda: till.queue()["ready"] == 0 and till.metric("paid") >= 1, "the ack")
    assert till.metric("refused") == 0
