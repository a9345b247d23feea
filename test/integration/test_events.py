"""Events to an exchange, on real servers: a subscriber gets every event of the ledger at least once and
in order, even if processes or servers are killed, frozen or restarted meanwhile."""
import json
import re
import sqlite3
import time

import pytest

import clusterlib
import enginelib
import eventlib
import proxylib
import rabbitlib
import serverlib
import sluicelib

pytestmark = pytest.mark.skipif(rabbitlib.missing() != "",
                                reason=f"not installed: {rabbitlib.missing()}")

SOURCE = "https://shop.example/sluice"
EVENTS = "SELECT number, kind, b FROM events ORDER BY number"
TYPES = {"order.locked", "order.paid", "order.expired", "order.cancelled", "order.failed",
         "item.sold_out"}


def sets(exchange):
    return [f"amqp.events={exchange}", f"amqp.events_source={SOURCE}"]


def tap_of(broker, exchange):
    """A listener of the exchange on a broker that others use, too."""
    return eventlib.Tap(broker.port, exchange, rabbitlib.USER, rabbitlib.PASSWORD,
                        queue=f"{exchange}.listener").open()


def wait_all(tap, rows):
    """Until every event of the ledger has come, and no more happen; the rows of the ledger then."""
    found = []

    def all_came():
        found[:] = rows()
        return set(eventlib.expected(found)) == tap.ids() and rows() == list(found)

    try:
        sluicelib.eventually(all_came, "every event to come", 180, every_s=0.1)
    except AssertionError:
        missing = sorted(set(eventlib.expected(found)) - tap.ids())
        pytest.fail(f"{len(missing)} of {len(found)} events did not come: {missing[:20]}")
    return list(found)


def check_orders(events, orders):
    """The orders in the events are those of the ledger: (id, user, item, qty, cents, payment)."""
    for event in events.values():
        if event["type"] == "item.sold_out":
            continue
        data = event["data"]
        user, item, qty, cents, payment = orders[data["order_id"]]
        assert (data["user_id"], data["item_id"], data["qty"]) == (user, item, qty), event
        assert data["amount_cents"] == cents and data["currency"] == "CNY", event
        assert data["payment_id"] == (payment if event["type"] == "order.paid" else None), event


# ---------------------------------------------------------------- the distributed engine

COUNTS = {"front": 1, "relay": 1, "booker": 1, "keeper": 2}
LINE = "spool.line_s=1"  # so that a FAILED order takes no longer


@pytest.fixture(scope="module")
def stage():
    """On servers that others use, too: nobody may hurt them, but they can be away from it."""
    if enginelib.missing():
        pytest.skip(f"not installed: {enginelib.missing()}")
    exchange = enginelib.unique("events")
    made = clusterlib.Shared(COUNTS, [*sets(exchange), LINE])
    # Bound before anything happens: what nobody has bound to is gone.
    made.tap = tap_of(made.engine.rabbit, exchange)
    with made:
        yield made
    made.tap.close()


@pytest.fixture
def own_stage():
    """On a broker of its own."""
    if enginelib.missing():
        pytest.skip(f"not installed: {enginelib.missing()}")
    made = clusterlib.Distributed(counts=COUNTS, sets=sets("shop.events"))
    try:
        made.rabbitmq.start()
        made.tap = eventlib.Tap(made.rabbitmq.port, "shop.events", serverlib.RABBIT_USER,
                                serverlib.RABBIT_PASSWORD).open()
        with made:
            yield made
        made.tap.close()
    finally:
        made.discard()


def holder(stage):
    """The keeper that has the lease of telling, or None."""
    rows = stage.database.rows("SELECT holder FROM leases WHERE name = 'events'"
                               " AND until_ms > unix_timestamp(now(3)) * 1000")
    for member in stage.kinds["keeper"]:
        if rows and rows[0][0] and re.search(rf"-{member.pid}-", str(rows[0][0])):
            return member
    return None


def wait_holder(stage, other_than=None):
    def found():
        member = holder(stage)
        return member if member is not None and member is not other_than else None
    return sluicelib.eventually(found, "somebody to tell events", 60, every_s=0.1)


def orders_of(stage):
    rows = stage.database.rows("SELECT id, user_id, item_id, qty, amount_cents, payment_id"
                               " FROM orders")
    return {str(row[0]): row[1:] for row in rows}


class Rush:
    """Buyers of one item, one after the other, beside the test; what became of them is the
    ledger's to know."""

    def __init__(self, stage, item):
        self.shop, self.item = sluicelib.Shop(stage.door()), item
        self.ending, self.won = False, 0
        self.thread = sluicelib.Background(self.run)

    def run(self):
        while not self.ending:
            user = self.shop.user()
            try:
                ticket = self.shop.try_ticket(user, self.item)
                if ticket.status == 201:
                    self.won += self.shop.buy(user, ticket.json()).status in (200, 202)
            except (OSError, sluicelib.ProtocolError):
                pass
            time.sleep(0.03)  # the listener takes its events one by one

    def wait_more(self, count):
        before = self.won
        sluicelib.eventually(lambda: self.won >= before + count, f"{count} more buys", 120)

    def stop(self):
        self.ending = True
        self.thread.result()


def fail_one(stage, shop):
    """A FAILED order: Redis is away for longer than a buyer may stand in line."""
    lot = shop.lot(total=5, limit=1)
    user = shop.user()
    ticket = shop.ticket(user, lot.item)
    stage.away["redis"].cut()
    try:
        # A buy during the failure has an unknown outcome; the same ticket joins the line.
        sluicelib.eventually(lambda: shop.buy(user, ticket).status == 202, "a place in line", 60)
        sluicelib.eventually(lambda: stage.database.rows(
            f"SELECT 1 FROM orders WHERE id = '{ticket['order_id']}' AND status = 'FAILED'"),
            "the order to fail", 60, every_s=0.1)
    finally:
        stage.away["redis"].heal()


def one_of_each(stage, shop):
    lot = shop.lot(total=3, limit=1, item={"sku": "MUG-1"},
                   pay_url="https://pay.example/{order_id}?a=1&b=2")
    users = [shop.user() for _ in range(3)]
    locked = [shop.order_locked(user, lot.item) for user in users]  # the third: sold out
    shop.paid(locked[0]["order_id"], lot.price, "pay-<one>&1")
    shop.cancelled(users[1], locked[1]["order_id"])
    late = shop.lot(total=5, limit=1, pay_within_s=1)
    user = shop.user()
    order = shop.bought(user, shop.ticket(user, late.item))
    sluicelib.eventually(lambda: shop.order(user, order["order_id"])["status"] == "EXPIRED",
                         "an order to expire", 60, every_s=0.1)
    fail_one(stage, shop)
    return lot, locked


def test_every_kind_is_told(stage):
    shop = sluicelib.Shop(stage.door())
    lot, locked = one_of_each(stage, shop)
    rows = wait_all(stage.tap, lambda: stage.database.rows(EVENTS))
    events, _ = eventlib.check(stage.tap.got, rows, SOURCE)
    assert {event["type"] for event in events.values()} == TYPES
    check_orders(events, orders_of(stage))
    mine = [event for event in events.values() if event["data"]["item_id"] == lot.item]
    assert [event["type"] for event in mine] == ["order.locked"] * 3 + [
        "item.sold_out", "order.paid", "order.cancelled"]
    assert mine[3]["subject"] == str(lot.item) and mine[3]["data"]["sku"] == "MUG-1"
    told = dict(mine[0]["data"])
    for name in ("sale_id", "sku", "user_id", "at_ms", "payment_id"):
        told.pop(name)
    assert told == locked[0]  # what the buyer's page shows, besides
    assert told["pay_url"] == f"https://pay.example/{told['order_id']}?a=1&b=2"
    # The cursor is behind the last of them, and nothing is left to tell.
    last = rows[-1][0]
    sluicelib.eventually(lambda: stage.database.rows(
        "SELECT number FROM cursors WHERE name = 'events'") == [(last,)], "the cursor")
    publisher = wait_holder(stage)
    sluicelib.eventually(lambda: b"\nsluice_events_lag 0\n" in
                         clusterlib.Door(publisher.address, publisher.data).get("/metrics").body,
                         "no lag")


def test_a_keeper_dies_while_the_broker_is_away(stage):
    shop = sluicelib.Shop(stage.door())
    lot = shop.lot(total=100000, limit=1)
    first = wait_holder(stage)
    rush = Rush(stage, lot.item)
    try:
        rush.wait_more(20)
        assert stage.away["rabbitmq"].refuse() > 0
        first.kill()
        rush.wait_more(20)
        stage.away["rabbitmq"].heal()
        second = wait_holder(stage, first)
        rush.wait_more(20)
    finally:
        rush.stop()
        stage.heal()
    assert second is not first and "events.begin" in second.log()
    check_everything(stage, shop, lot)


@pytest.mark.slow  # leases that run out, a broker that starts again; the gate has one keeper's death
def test_whoever_dies_nothing_is_lost(own_stage):
    stage = own_stage
    shop = sluicelib.Shop(stage.door())
    lot = shop.lot(total=100000, limit=1)
    rush = Rush(stage, lot.item)
    try:
        rush.wait_more(20)
        first = wait_holder(stage)
        first.kill()
        rush.wait_more(20)
        second = wait_holder(stage, first)
        first.start()
        # Frozen past its lease's end, and back: it must not go on as if nothing had been.
        second.freeze()
        third = wait_holder(stage, second)
        rush.wait_more(20)
        second.thaw()
        # The broker goes away and comes back while events go out.
        before = len(stage.tap.got)
        sluicelib.eventually(lambda: len(stage.tap.got) > before, "events from the third", 60)
        stage.rabbitmq.stop()
        rush.wait_more(20)
        stage.rabbitmq.start()
        rush.wait_more(20)
    finally:
        rush.stop()
        stage.heal()
    assert {first.name, second.name} == {"keeper1", "keeper2"} and third is first
    for member in stage.kinds["keeper"]:
        assert "events.begin" in member.log(), member.name
    check_everything(stage, shop, lot)


def check_everything(stage, shop, lot):
    """Some are paid; then every event of the ledger has come, in its order, and says what is so."""
    for order, in stage.database.rows(f"SELECT id FROM orders WHERE item_id = {lot.item}"
                                      " AND status = 'LOCKED' LIMIT 20"):
        shop.paid(str(order), lot.price)
    rows = wait_all(stage.tap, lambda: stage.database.rows(EVENTS))
    events, doubles = eventlib.check(stage.tap.got, rows, SOURCE)
    check_orders(events, orders_of(stage))
    mine = [event for event in events.values() if event["data"]["item_id"] == lot.item]
    assert len(mine) >= 60 + 20, len(mine)
    print(f"{len(events)} events, {doubles} came again")


# ---------------------------------------------------------------- the embedded engine

@pytest.fixture(scope="module")
def broker():
    return enginelib.shared_rabbit()


@pytest.fixture
def proxy(broker):
    made = proxylib.Proxy(("127.0.0.1", broker.port))
    yield made
    made.close()


@pytest.mark.asan
@pytest.mark.embedded
def test_the_embedded_engine_tells_too(broker, proxy, make_server):
    exchange = enginelib.unique("events")
    tap = tap_of(broker, exchange)
    url = broker.url().replace(f":{broker.port}/", f":{proxy.port}/")
    server = make_server(sets=[*sets(exchange), f"amqp.url={url}"])
    shop = sluicelib.Shop(server)

    def rows():
        with sqlite3.connect(f"file:{server.data}/ledger.db?mode=ro", uri=True) as db:
            return db.execute(EVENTS).fetchall()

    def sell(users):
        lot = shop.lot(total=len(users), limit=1)
        locked = [shop.order_locked(user, lot.item) for user in users]
        shop.paid(locked[0]["order_id"], lot.price)
        shop.cancelled(users[1], locked[1]["order_id"])

    sell([shop.user() for _ in range(4)])
    wait_all(tap, rows)
    server.kill()
    server.start()
    sell([shop.user() for _ in range(4)])
    assert proxy.refuse() > 0
    sell([shop.user() for _ in range(4)])  # nobody but the listener notices
    sluicelib.eventually(lambda: b"\nsluice_rabbitmq_up 0\n" in server.get("/metrics").body, "away")
    lag = server.get("/metrics").body
    assert re.search(rb"\nsluice_events_lag \d+\n", lag), lag[-2000:]
    proxy.heal()
    wait_all(tap, rows)
    sluicelib.eventually(lambda: b"\nsluice_rabbitmq_up 1\n" in server.get("/metrics").body, "back")
    server.stop()
    server.start()
    sell([shop.user() for _ in range(2)])
    found = wait_all(tap, rows)
    tap.close()
    events, _ = eventlib.check(tap.got, found, SOURCE)
    kinds = [event["type"] for event in events.values()]
    assert kinds.count("item.sold_out") == 4 and kinds.count("order.paid") == 4
    with sqlite3.connect(f"file:{server.data}/ledger.db?mode=ro", uri=True) as db:
        orders = db.execute("SELECT id, user_id, item_id, qty, amount_cents, payment_id"
                            " FROM orders").fetchall()
        check_orders(events, {row[0]: row[1:] for row in orders})
        sluicelib.eventually(lambda: db.execute(  # saved a moment later
            "SELECT number FROM cursors WHERE name = 'events'").fetchone() == (found[-1][0],),
            "the cursor")
    # The messages are plain JSON for any reader.
    assert json.loads(tap.got[0][3])["specversion"] == "1.0"


@pytest.mark.embedded
def test_what_is_wrong_is_told_at_start(broker, make_server):
    server = make_server(start=False, sets=["amqp.events=shop.events"])
    assert server.refused_start() == 1
    assert "amqp.events needs amqp.url" in server.log()
    taken = enginelib.unique("taken")
    with broker.amqp() as amqp:
        eventlib.declare_exchange(amqp, taken, "direct")
    server = make_server(start=False, sets=[f"amqp.events={taken}", f"amqp.url={broker.url()}"])
    assert server.refused_start() == 1
    assert taken in server.log()
