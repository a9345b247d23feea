"""What the distributed engine does while one of its servers is unreachable, and settings that change
this during a sale: edit the file, send SIGHUP, and the next buy uses the new value. The servers are
real. Each test makes one of them fail and heals it at the end.
"""
import signal

import pytest

import clusterlib
import enginelib
import rabbitlib
from sluicelib import Client, Shop, eventually, problem

MISSING = ", ".join(filter(None, (enginelib.missing(), rabbitlib.missing())))
pytestmark = pytest.mark.skipif(MISSING != "", reason=f"not installed: {MISSING}")

# Nothing gives way by itself: the tests turn it. A busy Redis is not away.
BASE = ["relay.direct_after_s=1000000", "relay.direct_outbox=0", "spool.line=0",
        "reconcile.bound_s=1", "redis.timeout_ms=10000"]


@pytest.fixture(scope="module")
def stage():
    """With a Redis of its own, which is killed; the queue, which others use too, is cut off."""
    with clusterlib.Shared(dict(front=1, relay=1, booker=1, keeper=1), BASE,
                           own_redis=True) as made:
        yield made


@pytest.fixture
def shop(stage):
    yield Shop(stage.door(stage.fronts[0]))
    for kind in stage.kinds:
        turn(stage, kind)
    stage.heal()


def turn(stage, kind, *sets):
    """These settings on top of the usual ones, for the processes of one kind. -> what was logged"""
    logged = ""
    usual = stage.sets
    for member in stage.kinds[kind]:
        before = len(member.log())
        stage.sets = [*usual, *sets]
        with open(member.config, "w", encoding="utf-8") as file:
            file.write(stage.config_text(member.name))
        stage.sets = usual
        member.signal(signal.SIGHUP)
        eventually(lambda: "config.reloaded" in member.log()[before:], f"{member.name} reloads")
        logged += member.log()[before:]
    return logged


def queued(shop, item):
    user = shop.user()
    response = shop.buy(user, shop.ticket(user, item)["ticket"])
    assert response.status == 202, response
    assert response.json()["status"] == "QUEUED", response
    return user, response.json()["order_id"]


def wait_sold_out(shop, item):
    """A front's numbers may be a second old."""
    user = shop.user()

    def sold_out():
        response = shop.try_ticket(user, item)
        return response.status == 409 and response.json()["code"] == "sold_out"
    eventually(sold_out, "the item sold out")


def reconciled(shop):
    """Gate, outbox, queue and ledger say the same, once what is on its way has arrived."""
    def same():
        response = shop.server.admin("POST", "/reconcile")
        return response.status == 200 and response.json()["differences"] == []
    eventually(same, "no differences")


def test_a_process_names_the_addresses_that_it_serves(stage):
    for member in (one for kind in stage.kinds.values() for one in kind):
        eventually(lambda: "Stop it with" in member.log(), "the last line, after it is ready")
        named = [line.split()[-1] for line in member.log().splitlines() if line.startswith("  ")]
        paths = ["/" + address.split("/", 3)[3] for address in named if address.startswith("http")]
        assert "/metrics" in paths and ("/console" in paths) == (member in stage.fronts), paths
        for path in paths:
            assert stage.door(member).beside().call("GET", path).status == 200, (member.name, path)


def test_a_front_has_the_keeper_rebuild_what_is_wrong(stage, shop):
    lot = shop.lot(total=5, limit=0)
    queued(shop, lot.item)
    reconciled(shop)
    redis, = stage.masters()
    key, = redis.call("KEYS", f"*:i:{lot.item}*")
    redis.call("HINCRBY", key, "available", 3)
    redis.call("HINCRBY", key, "total", 3)
    found = shop.server.admin("POST", "/reconcile", {"repair": True}).json()["differences"]
    assert found and all(one["repaired"] for one in found), found
    reconciled(shop)
    keeper, = stage.kinds["keeper"]
    assert "need=broken" in keeper.log()
    eventually(lambda: shop.try_ticket(shop.user(), lot.item).status == 201,
               "the front to hear that the segment is open again")
    for _ in range(4):
        queued(shop, lot.item)
    wait_sold_out(shop, lot.item)


def test_orders_that_lag_fail_and_their_units_are_sold_again(stage, shop):
    lot = shop.lot(total=3, limit=0)
    booker = stage.kinds["booker"][0]
    booker.freeze()  # it holds what the queue has given it, and books nothing
    first = [queued(shop, lot.item) for _ in range(3)]
    wait_sold_out(shop, lot.item)
    assert all(shop.order(*one)["status"] == "QUEUED" for one in first)

    logged = turn(stage, "front", "relay.stale_s=1")
    assert "config.changed setting=relay.stale_s from=0 to=1" in logged
    for one in first:
        order = shop.wait_status(*one, "FAILED")
        assert (order["status"], order["reason"]) == ("FAILED", "overloaded"), order
    shop.wait_counters(lot.item, 3, 0, 0)

    turn(stage, "front")  # the next ones may wait
    second = [queued(shop, lot.item) for _ in range(3)]
    booker.thaw()  # and brings what it held: too late for the first, in time for the second
    for one in second:
        assert shop.wait_status(*one, "LOCKED")["status"] == "LOCKED"
    shop.wait_counters(lot.item, 0, 3, 0)
    assert all(shop.order(*one)["status"] == "FAILED" for one in first)
    reconciled(shop)


def test_a_queue_that_is_away_is_passed_when_the_operator_says_so(stage, shop):
    lot = shop.lot(total=5, limit=0)
    assert stage.away["rabbitmq"].cut() > 0
    orders = [queued(shop, lot.item) for _ in range(3)]
    logged = turn(stage, "relay", "relay.direct_after_s=0", "relay.direct_rate=2")
    assert "config.changed setting=relay.direct_after_s from=1000000 to=0" in logged
    assert "config.changed setting=relay.direct_rate from=5000 to=2" in logged
    for one in orders:
        assert shop.wait_status(*one, "LOCKED")["status"] == "LOCKED"
    turn(stage, "relay")
    stage.away["rabbitmq"].heal()  # which may have some of them, too: booked once
    last = queued(shop, lot.item)
    assert shop.wait_status(*last, "LOCKED")["status"] == "LOCKED"
    shop.wait_counters(lot.item, 1, 4, 0)
    reconciled(shop)


def test_buyers_stand_in_line_when_the_operator_lets_them(stage, shop):
    lot = shop.lot(total=4, limit=0)
    users = [shop.user() for _ in range(3)]
    tickets = [shop.ticket(user, lot.item)["ticket"] for user in users]
    front = stage.fronts[0]
    stage.redis[0].kill()
    # The first buyer may be asked to retry; after that, no buyer is added to the line.
    eventually(lambda: shop.buy(users[0], tickets[0]).json().get("retry") == "later", "503 later")
    problem(shop.buy(users[0], tickets[0]), 503, "degraded", retry="later")
    logged = turn(stage, "front", "spool.line=2")
    assert "config.changed setting=spool.line from=0 to=2" in logged
    orders = []
    for user, ticket in zip(users[:2], tickets[:2]):
        response = shop.buy(user, ticket)
        assert response.status == 202, response
        orders.append((user, response.json()["order_id"]))
        assert shop.order(*orders[-1])["reason"] == "undecided"
    problem(shop.buy(users[2], tickets[2]), 503, "degraded", retry="later")
    stage.redis[0].start()
    for one in orders:
        assert shop.wait_status(*one, "LOCKED")["status"] == "LOCKED"
    eventually(lambda: "sluice_spool_undecided 0\n" in front_metrics(front), "nobody in line")
    response = None

    def sold():
        nonlocal response
        response = shop.buy(users[2], tickets[2])
        return response.status in (200, 202)
    eventually(sold, "the way free again")
    assert shop.wait_status(users[2], response.json()["order_id"], "LOCKED")["status"] == "LOCKED"
    shop.wait_counters(lot.item, 1, 3, 0)
    reconciled(shop)


def front_metrics(front):
    return Client(front.address).call("GET", "/metrics").body.decode()


def test_who_stands_in_line_too_long_fails(stage, shop):
    lot = shop.lot(total=4, limit=0)
    user = shop.user()
    ticket = shop.ticket(user, lot.item)["ticket"]
    turn(stage, "front", "spool.line=2", "spool.line_s=86400")
    stage.redis[0].kill()
    eventually(lambda: shop.buy(user, ticket).status == 202, "a place in line")
    order = shop.buy(user, ticket).json()["order_id"]
    logged = turn(stage, "front", "spool.line=2", "spool.line_s=1")
    assert "config.changed setting=spool.line_s from=86400 to=1" in logged
    # Its row is in the ledger while Redis is still away; the gate hears of it later.
    eventually(lambda: failed_rows(stage.database, lot.item) == 1, "its FAILED row")
    stage.redis[0].start()

    def failed():  # while the gate is being rebuilt nobody can look: 503
        response = shop.get_order(user, order)
        told = response.json() if response.status == 200 else {}
        return told.get("status") == "FAILED" and told["reason"] == "degraded"
    eventually(failed, "FAILED, degraded")
    shop.wait_counters(lot.item, 4, 0, 0)


def failed_rows(database, item):
    (count,), = database.rows("SELECT count(*) FROM orders WHERE status = 'FAILED' "
                              f"AND item_id = {item}")
    return count
