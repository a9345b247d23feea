"""Reconciling: `POST /v1/admin/reconcile` and `sluice reconcile` on a running server. On the
distributed engine differences are planted by hand in Redis and in MariaDB, and found.
"""
import contextlib
import json
import re
import sqlite3
import subprocess

import pytest

import enginelib
import redislib
import sluicelib
from crashlib import Rush, TellFile
from sluicelib import Shop, eventually, problem

distributed = pytest.mark.skipif(enginelib.missing() != "",
                                 reason=f"not installed: {enginelib.missing()}")
MEMBERS = {"kind", "segment", "item_id", "user_id", "order_id", "found", "expected", "since_ms",
           "repaired"}
BOUND = ["reconcile.bound_s=1", "reconcile.every_s=0"]


def reconcile(server, repair=False):
    response = server.beside().admin("POST", "/reconcile", {"repair": True} if repair else None)
    assert response.status == 200, response
    body = response.json()
    assert set(body) == {"passes", "items", "orders", "buyers", "unsure", "found", "integrity",
                         "differences"}
    assert body["found"] == len(body["differences"])
    assert all(set(one) == MEMBERS for one in body["differences"])
    return body


def compared(server, repair=False):
    """Like reconcile, repeated until it found something or could compare everything. On a busy machine
    the bound can end while the ledger's writer is behind; then nothing is compared and no difference
    is found. (A parked message is itself something on its way.)"""
    bodies = []

    def sure():
        bodies.append(reconcile(server, repair))
        return bodies[-1]["differences"] or bodies[-1]["unsure"] == 0

    eventually(sure, "everything compared")
    return bodies[-1]


def command(server, *arguments):
    done = subprocess.run([sluicelib.BINARY, "reconcile", "--url",
                           f"http://127.0.0.1:{server.port}", "--data", server.data, *arguments],
                          text=True, capture_output=True, stdin=subprocess.DEVNULL,
                          timeout=sluicelib.GUARD_S)
    return done.returncode, done.stdout, done.stderr


class Engine:
    """A server on the distributed engine, and ways to its parts."""

    def __init__(self, make_server, *sets):
        self.shared = enginelib.shared()
        settings, self.database = self.shared.settings()
        self.prefix = next(one for one in settings if one.startswith("redis.prefix=")).split("=")[1]
        self.server = make_server(sets=[*settings, *enginelib.PATIENT, *(sets or BOUND)],
                                  database=self.database)
        self.shop = Shop(self.server)

    def keys(self, kind, item):
        """The keys of an item in all segments, of the newest epoch of each."""
        newest = {}
        for key in self.shared.redis.ask("KEYS", f"{self.prefix}{{*:{kind}:{item}*"):
            tag, epoch = re.match(r".*\{(.*?)\}:(\d+):", key).groups()
            if int(epoch) > newest.get(tag, (0, []))[0]:
                newest[tag] = (int(epoch), [])
            if int(epoch) == newest[tag][0]:
                newest[tag][1].append(key)
        return sorted(key for _, keys in newest.values() for key in keys)

    def sell(self, count=6, **more):
        """A small sale; its lot and [(user, order)]. The first is paid, the second cancelled."""
        lot = self.shop.lot(total=60, limit=0, **more)
        made = []
        for _ in range(count):
            user = self.shop.user()
            made.append((user, self.shop.order_locked(user, lot.item, 2)["order_id"]))
        self.shop.paid(made[0][1], lot.price * 2)
        self.shop.cancelled(*made[1])
        return lot, made


# ---------------------------------------------------------------- the distributed engine

@distributed
@pytest.mark.asan
def test_a_sale_leaves_no_difference(make_server):
    engine = Engine(make_server)
    lot, made = engine.sell()
    found = reconcile(engine.server)
    assert found["differences"] == [] and found["items"] == 1 and found["passes"] == 2
    assert found["orders"] >= len(made) - 1 and found["buyers"] >= len(made) - 1
    code, out, err = command(engine.server)
    assert (code, err) == (0, "") and "0 differences" in out, (out, err)
    code, out, err = command(engine.server, "--json")
    assert (code, err) == (0, "") and json.loads(out)["differences"] == []


@distributed
def test_a_rush_raises_no_alarm(make_server, tmp_path):
    engine = Engine(make_server)
    users, units = 8000, 2000
    lot = engine.shop.lot(total=units, limit=1)
    tell = TellFile(str(tmp_path / "tell"))
    rush = Rush(engine.server, [lot.item], tell.path, seed=1, users=users, connections=64,
                duplicates=20, drops=5, retries=20)
    watch = [sluicelib.Background(lambda: reconcile(engine.server)) for _ in range(3)]
    report = rush.result()
    for one in watch:
        assert one.result()["differences"] == []
    # The last answer of every buyer without an order is `sold out`.
    losers = tell.without_order(users)
    odd = {user: told for user, told in losers.items() if not told or told[-1] != "409 sold_out"}
    assert odd == {} and len(losers) == users - units, (len(losers), report)

    def settled():
        found = reconcile(engine.server)
        assert found["differences"] == []
        (orders,), = engine.database.rows("SELECT count(*) FROM orders")
        return found["unsure"] == 0 and found["orders"] == orders

    eventually(settled, "everything compared")


@distributed
@pytest.mark.asan
def test_units_that_the_gate_lost_are_found_and_repaired(make_server):
    engine = Engine(make_server)
    lot, made = engine.sell()
    redis = engine.shared.redis
    key = next(key for key in engine.keys("i", lot.item)
               if int(redis.ask("HGET", key, "locked")) >= 2)
    redis.ask("HINCRBY", key, "locked", -2)
    redis.ask("HINCRBY", key, "total", -2)
    found = {one["kind"]: one for one in compared(engine.server)["differences"]}
    assert set(found) == {"gate_short", "gate_total"}, found
    for one in found.values():
        assert one["item_id"] == lot.item and one["expected"] - one["found"] == 2
        assert one["user_id"] is None and one["order_id"] is None and not one["repaired"]
    assert len({one["segment"] for one in found.values()}) == 1
    code, out, err = command(engine.server, "--repair")
    assert (code, err) == (1, "") and out.count(" yes\n") == 2, (out, err)
    assert "reconcile.repaired" in engine.server.log()
    eventually(lambda: reconcile(engine.server)["differences"] == [], "the gate made anew")
    engine.shop.wait_counters(lot.item, 60 - 2 * (len(made) - 1), 2 * (len(made) - 2), 2)


@distributed
def test_an_order_that_the_gate_has_otherwise_is_found_and_repaired(make_server):
    engine = Engine(make_server)
    lot, made = engine.sell()
    user, order = made[2]
    redis = engine.shared.redis
    key = next(key for key in engine.keys("o", lot.item) if redis.ask("HEXISTS", key, order))
    redis.ask("HDEL", key, order)
    found = compared(engine.server, repair=True)["differences"]
    assert [(one["kind"], one["item_id"], one["user_id"], one["order_id"], one["repaired"])
            for one in found] == [("gate_order", lot.item, user, order, True)]
    eventually(lambda: reconcile(engine.server)["differences"] == [], "the gate made anew")
    # It may still be closed: nothing to compare is no difference.
    eventually(lambda: engine.server.get(f"/v1/orders/{order}",
                                         engine.server.token(user)).status == 200, "it to be open")
    assert engine.shop.order(user, order)["status"] == "LOCKED"


@distributed
def test_an_order_changed_by_hand_in_the_ledger_is_found(make_server):
    engine = Engine(make_server)
    lot, made = engine.sell()
    user, order = made[3]
    engine.database.rows("UPDATE orders SET status = 'CANCELLED', ended_at_ms = created_at_ms + 1"
                         f" WHERE user_id = {user}")
    found = {one["kind"]: one for one in compared(engine.server)["differences"]}
    assert {"share_locked", "ledger_buyer", "gate_order"} <= set(found), found
    assert {one["item_id"] for one in found.values()} == {lot.item}
    buyer = found["ledger_buyer"]
    assert (buyer["user_id"], buyer["found"], buyer["expected"]) == (user, 2, 0)
    share = found["share_locked"]
    assert share["found"] - share["expected"] == 2
    assert (found["gate_order"]["user_id"], found["gate_order"]["order_id"]) == (user, order)


@distributed
@pytest.mark.asan
def test_every_difference_is_told(make_server, tmp_path):
    """The contract: all of them, with ids, however many."""
    engine = Engine(make_server)
    users = 1500
    lot = engine.shop.lot(total=users, limit=1)
    tell = TellFile(str(tmp_path / "tell"))
    # On a busy machine Redis may be too slow for a buyer, who gets 503 and has to ask again.
    report = Rush(engine.server, [lot.item], tell.path, seed=1, users=users, connections=64,
                  keep_going=True).result()
    assert tell.without_order(users) == {}, report
    eventually(lambda: engine.database.rows("SELECT count(*) FROM orders") == [(users,)],
               "all orders to be booked")
    compared(engine.server)
    for key in engine.keys("o", lot.item):
        engine.shared.redis.ask("DEL", key)
    found = compared(engine.server)["differences"]
    booked = {order for order, in engine.database.rows("SELECT id FROM orders")}
    assert {one["order_id"] for one in found} == booked and len(found) == users
    code, out, _ = command(engine.server)
    assert code == 1 and all(order in out for order in booked)


def gauge(server, name):
    return int(re.search(rf"^{name} (\d+)$", server.get("/metrics").body.decode(), re.M).group(1))


def told_blind(server):
    """Whether the alarm is on: in /metrics, and on the live feed. Once it was, the log has it."""
    blind = gauge(server, "sluice_reconcile_blind") == 1
    server.events("/v1/admin/live", server.admin_token).until(
        lambda event: event.event == "live" and json.loads(event.data)["reconcile"]["blind"] == blind,
        f"reconcile.blind {blind}")
    assert not blind or "reconcile.blind" in server.log()
    return blind


@distributed
def test_a_comparison_is_sure_again_after_redis_restarted(make_server):
    """The reconciler's links to Redis are used by nobody else and dropped while it slept. Three runs
    in a row without an answer are an alarm."""
    shared = enginelib.shared()
    engine = Engine.__new__(Engine)
    with redislib.Redis(["--appendonly", "yes", "--appendfsync", "always"]) as redis:
        settings, engine.database = shared.settings(segments=2)
        settings = [one for one in settings if not one.startswith("redis.url=")]
        engine.server = make_server(sets=[*settings, f"redis.url={redis.url}", *BOUND],
                                    database=engine.database)
        engine.shop = Shop(engine.server)
        engine.sell()
        assert compared(engine.server)["differences"] == []
        redis.kill()
        for _ in range(3):
            assert not told_blind(engine.server)
            blind = reconcile(engine.server)
            assert blind["unsure"] > 0 and blind["differences"] == []
            assert gauge(engine.server, "sluice_reconcile_unanswered") > 0
        assert told_blind(engine.server)
        redis.start()
        eventually(lambda: gauge(engine.server, "sluice_segments_away") == 0 and
                   gauge(engine.server, "sluice_segments_closed") == 0, "open segments")
        found = compared(engine.server)
        assert found["unsure"] == 0 and found["differences"] == [] and found["orders"] > 0
        assert gauge(engine.server, "sluice_reconcile_unsure") == 0
        assert not told_blind(engine.server) and "reconcile.sees" in engine.server.log()


@distributed
def test_what_is_wrong_in_the_ledger_is_left_alone(make_server):
    engine = Engine(make_server)
    lot, made = engine.sell()
    user, _ = made[3]
    engine.database.rows(f"UPDATE holdings SET held = held + 1 WHERE user_id = {user}")
    found = compared(engine.server, repair=True)["differences"]
    assert [(one["kind"], one["item_id"], one["user_id"], one["found"], one["expected"],
             one["repaired"]) for one in found] == \
        [("ledger_buyer", lot.item, user, 3, 2, False)]
    engine.database.rows(f"UPDATE holdings SET held = held - 1 WHERE user_id = {user}")
    assert compared(engine.server)["differences"] == []


@distributed
def test_a_parked_message_is_found_and_sent_round(make_server):
    engine = Engine(make_server)
    broker = engine.shared.rabbit
    if broker is None:
        pytest.skip("not installed: RabbitMQ")
    lot, made = engine.sell()
    user, order = made[2]
    (segment, at_ms), = engine.database.rows(
        f"SELECT segment, created_at_ms FROM orders WHERE user_id = {user}")
    name = engine.prefix  # the queue is called the same
    broker.publish(f"{name}.dead", f"{name}.parked",
                   f"1 {segment} 1 {order} {user} {lot.item} 2 {at_ms}")
    found = compared(engine.server)["differences"]
    assert [(one["kind"], one["segment"], one["item_id"], one["user_id"], one["order_id"],
             one["expected"], one["repaired"]) for one in found] == \
        [("parked", segment, lot.item, user, order, 1, False)]
    assert compared(engine.server, repair=True)["differences"][0]["repaired"]
    eventually(lambda: reconcile(engine.server)["differences"] == [], "it is settled")
    assert engine.shop.order(user, order)["status"] == "LOCKED"


@distributed
def test_the_keeper_compares_by_itself(make_server):
    engine = Engine(make_server, "reconcile.bound_s=1", "reconcile.every_s=1")
    lot, _ = engine.sell()
    key = engine.keys("i", lot.item)[0]

    def gauge():
        text = engine.server.get("/metrics").body.decode()
        return int(re.search(r"^sluice_reconcile_differences (\d+)$", text, re.M).group(1))

    assert gauge() == 0
    for field in ("total", "available"):
        engine.shared.redis.ask("HINCRBY", key, field, 5)
    eventually(lambda: gauge() == 1, "the gauge shows the difference")
    assert re.search(rf"reconcile\.difference difference=gate_total segment=\d+ item={lot.item} ",
                     engine.server.log())
    for field in ("total", "available"):
        engine.shared.redis.ask("HINCRBY", key, field, -5)
    eventually(lambda: gauge() == 0, "the gauge shows that it is gone")


@distributed
def test_a_server_that_ends_does_not_wait_for_a_comparison(make_server):
    engine = Engine(make_server, "reconcile.bound_s=3600", "reconcile.every_s=0")
    engine.sell(2)
    server = engine.server
    with server.conn() as conn:
        conn.send(sluicelib.request_bytes("POST", "/v1/admin/reconcile",
                                          [("Authorization", f"Bearer {server.admin_token}")]))
        eventually(lambda: server.get("/readyz").status == 200, "another answer meanwhile")
        server.stop()
        problem(conn.read_response(), 503, "overloaded")


# ---------------------------------------------------------------- any engine

@pytest.mark.asan
def test_a_sale_on_one_machine_leaves_no_difference(server):
    shop = Shop(server)
    lot = shop.lot(total=20, limit=0)
    user, other = shop.user(), shop.user()
    order = shop.order_locked(user, lot.item, 3)["order_id"]
    shop.cancelled(other, shop.order_locked(other, lot.item, 2)["order_id"])
    shop.paid(order, lot.price * 3)
    shop.lot(total=5, state="draft")
    found = compared(server)
    assert found["differences"] == [] and found["items"] >= 1
    # Several at once: each gets an answer.
    asked = [sluicelib.Background(lambda: reconcile(server)) for _ in range(8)]
    assert all(one.result()["differences"] == [] for one in asked)
    code, out, err = command(server)
    assert (code, err) == (0, "") and "0 differences" in out, (out, err)


def change(server, sql, *values, rows=1):
    """In the ledger on SQLite, past its own checks."""
    with contextlib.closing(sqlite3.connect(f"{server.data}/ledger.db")) as ledger:
        ledger.execute("PRAGMA ignore_check_constraints = ON")
        assert ledger.execute(sql, values).rowcount == rows
        ledger.commit()


@pytest.mark.embedded
def test_a_ledger_that_was_changed_while_its_server_ran_is_found(make_server):
    server = make_server(sets=BOUND)
    shop = Shop(server)
    lot = shop.lot(total=20, limit=0)
    shop.order_locked(shop.user(), lot.item, 3)
    assert compared(server)["differences"] == []
    change(server, "UPDATE stock SET sold = sold + 2 WHERE item_id = ?", lot.item)
    found = compared(server, repair=True)["differences"]
    assert [(one["kind"], one["segment"], one["item_id"], one["found"], one["expected"],
             one["repaired"]) for one in found] == \
        [("ledger_stock", None, lot.item, 22, 20, False),
         ("gate_short", None, lot.item, 3, 5, False),
         ("share_sold", None, lot.item, 2, 0, False)]
    assert command(server)[0] == 1
    change(server, "UPDATE stock SET sold = sold - 2 WHERE item_id = ?", lot.item)
    assert compared(server)["differences"] == []


@pytest.mark.embedded
def test_every_difference_on_one_machine_is_told(make_server):
    server = make_server(sets=BOUND)
    count = 90
    now = server.now_ms()
    items = [{"name": f"item {n}", "price_cents": 1, "total": 5, "limit_per_user": 1}
             for n in range(count)]
    sale = server.admin("POST", "/sales", {"name": "many", "starts_at_ms": now,
                                           "ends_at_ms": now + 3600000, "pay_within_s": 60,
                                           "items": items})
    assert sale.status == 201, sale
    assert server.admin("POST", f"/sales/{sale.json()['id']}/open").status == 200
    change(server, "UPDATE stock SET sold = sold + 2 WHERE item_id > ?", 0, rows=count)
    found = compared(server)["differences"]
    assert {(one["item_id"], one["kind"]) for one in found} == {
        (item["id"], kind) for item in sale.json()["items"]
        for kind in ("ledger_stock", "gate_short", "share_sold")} and len(found) == 3 * count


def test_what_is_wrong_is_refused(server):
    problem(server.admin("POST", "/reconcile", {"repair": 1}), 400, "bad_request", field="repair")
    problem(server.admin("POST", "/reconcile", {"mend": True}), 400, "bad_request")
    problem(server.call("POST", "/v1/admin/reconcile", None, server.token(7)), 403, "forbidden")
    problem(server.call("POST", "/v1/admin/reconcile"), 401, "unauthenticated")
    for arguments in (["--nonsense"], ["now"], ["--url"]):
        code, out, err = command(server, *arguments)
        assert (code, out) == (2, "") and err.startswith("sluice reconcile: "), (arguments, err)
    code, out, err = command(server, "--url", f"http://127.0.0.1:{sluicelib.private_port()}")
    assert (code, out) == (1, "") and "Connection refused" in err, err
    code, out, err = command(server, "--help")
    assert (code, err) == (0, "") and out.startswith("Usage: sluice reconcile")
