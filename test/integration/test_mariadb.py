"""`sluice serve` with its ledger on a real MariaDB: a sale from start to end, and what happens when
either of them is killed or frozen in the middle of a rush. Every acknowledged order must be in the
database afterwards, and gate and ledger must agree. A fault that had no effect fails the test.
"""
import os
import random
import threading
import time

import pytest

import marialib
import sluicelib
from crashlib import (CrashLoop, FragileServer, Lot, Rush, TellFile, Told, admin_events,
                      admin_orders, check_rush, compare_events)

LONG = bool(os.environ.get("SLUICE_LONG"))
SEED = int(os.environ.get("SLUICE_SEED") or random.SystemRandom().randrange(2**32))

pytestmark = pytest.mark.skipif(marialib.missing() != "",
                                reason=f"not installed: {marialib.missing()}")


@pytest.fixture(scope="module")
def mariadb():
    with marialib.MariaDB() as server:
        yield server


@pytest.fixture
def own_mariadb():
    """For tests that kill or freeze it."""
    with marialib.MariaDB() as server:
        yield server


@pytest.fixture
def make(mariadb):
    """Servers on databases of the module's MariaDB."""
    made = []

    def make_one(cls=sluicelib.Server, database=None, **options):
        options["sets"] = ["keeper.tick_ms=20", "server.threads=2", *options.get("sets", ())]
        made.append(cls(database=database or mariadb.database(), **options))
        return made[-1]

    yield make_one
    for server in made:
        server.discard()


# ---------------------------------------------------------------- a sale

@pytest.mark.asan
def test_a_sale_from_start_to_end(make):
    server = make().start()
    shop = sluicelib.Shop(server)
    lot = shop.lot(total=5, limit=2, price=1999, pay_within_s=600)
    quick = shop.lot(total=1, limit=1, price=500, pay_within_s=1)
    paid, gone, left = (shop.order_locked(user, lot.item, qty=1) for user in (1, 2, 3))
    late = shop.bought(4, shop.ticket(4, quick.item), 1)
    shop.paid(paid["order_id"], 1999, "payment-1")
    shop.cancelled(2, gone["order_id"])
    shop.wait_status(4, late["order_id"], "EXPIRED")
    shop.wait_counters(quick.item, 1, 0, 0)
    assert shop.restock(lot.item, 3, "r1").status == 200
    assert shop.restock(lot.item, 3, "r1").status == 200
    shop.wait_counters(lot.item, 6, 1, 1)
    rows = server.database.rows("SELECT id, status, qty FROM orders ORDER BY user_id")
    assert rows == [(paid["order_id"], "PAID", 1), (gone["order_id"], "CANCELLED", 1),
                    (left["order_id"], "LOCKED", 1), (late["order_id"], "EXPIRED", 1)]
    assert server.database.rows("SELECT total, available, locked, sold FROM stock"
                                f" WHERE item_id = {lot.item}") == [(8, 6, 1, 1)]
    assert not os.path.exists(f"{server.data}/ledger.db")
    # The same after a restart, and after a kill; a repeated payment has the same answer.
    for kill in (False, True):
        server.restart(kill=kill)
        shop.wait_counters(lot.item, 6, 1, 1)
        shop.paid(paid["order_id"], 1999, "payment-1")
        assert {order.id: order.status for order in admin_orders(server)} == \
            {row[0]: row[1] for row in rows}
        assert compare_events(admin_events(server), admin_orders(server)) == []
    server.stop()


# ---------------------------------------------------------------- starting

def test_a_second_server_is_refused(make):
    first = make().start()
    lot = sluicelib.Shop(first).lot(total=5, limit=1)
    second = make(database=first.database, sets=["ledger.timeout_s=2"])  # it waits half as long
    assert second.refused_start() == 1
    assert "another server writes to this ledger" in second.log()
    sluicelib.Shop(first).order_locked(1, lot.item)  # and the first one sells on
    first.stop()
    # The first one's journal is not the second one's: they do not fit together.
    assert second.refused_start() == 1
    assert "start.cursors_disagree" in second.log()
    first.start()


def test_no_server_no_start(make, mariadb):
    server = make()
    server.sets.append(f"ledger.url=mariadb://a@127.0.0.1:{sluicelib.private_port()}/d")
    assert server.refused_start() == 1
    assert "is the server running" in server.log()


def test_a_password_in_a_file(make, tmp_path):
    server = make()
    url = server.database.url.replace(marialib.URL_LOGIN, marialib.USER)
    server.sets.append(f"ledger.url={url}")
    assert server.refused_start() == 1
    assert "check the user in ledger.url and its password" in server.log()
    path = tmp_path / "password"
    path.write_text(marialib.PASSWORD + "\n")
    server.sets.append(f"ledger.password_file={path}")
    server.start()
    server.stop()
    assert marialib.PASSWORD not in server.log()


def test_over_the_socket(make, mariadb):
    server = make()
    server.sets.append(f"ledger.url={server.database.url}?socket={mariadb.socket}")
    server.start()
    sluicelib.Shop(server).order_locked(1, sluicelib.Shop(server).lot(total=1).item)
    server.stop()


def test_a_server_that_does_not_sync_is_told(make, mariadb):
    mariadb.run("SET GLOBAL innodb_flush_log_at_trx_commit = 2")
    try:
        server = make().start()
        assert "ledger.not_durable" in server.log()
    finally:
        mariadb.run("SET GLOBAL innodb_flush_log_at_trx_commit = 1")
    server.restart()
    assert server.log().count("ledger.not_durable") == 1


# ---------------------------------------------------------------- faults in a rush

def test_the_server_is_killed_in_a_rush(mariadb):
    loops = 40 if LONG else 4
    print(f"seed {SEED}")
    loop = CrashLoop(SEED, database=mariadb.database())
    try:
        counts = loop.run(loops)
    finally:
        loop.discard()
    assert counts["in the rush"] > 0 and counts["told"] > 0, counts


class Sale:
    """A crowd that keeps asking, on a server whose database is about to suffer."""

    UNITS, USERS = 3000, 9000

    def __init__(self, mariadb, tmp_path, sets=()):
        self.mariadb = mariadb
        self.server = FragileServer(database=mariadb.database(),
                                    sets=["server.threads=2", "keeper.tick_ms=20", *sets]).start()
        self.shop = sluicelib.Shop(self.server)
        self.own = self.shop.lot(total=100, limit=0)
        made = self.shop.lot(total=self.UNITS, limit=1, pay_within_s=3600)
        self.lot = Lot(made.item, made.limit, made.price, made.total)
        self.tell, self.told = TellFile(str(tmp_path / "tell")), Told()
        self.rush = Rush(self.server, [self.lot.item], self.tell.path, seed=SEED, users=self.USERS,
                         duplicates=10, drops=3, pay=30, keep_going=True)

    def told_orders(self):
        self.told.read(self.tell)
        return self.told.told_now()

    def wait_told(self, goal):
        sluicelib.eventually(lambda: self.told_orders() >= goal or not self.rush.running(),
                             "orders", every_s=0.001)
        assert self.rush.running(), "the fault came too late"

    def buy_one(self):
        """(user, order) of a buyer of our own: now something has to be booked, whatever the crowd
        does. It is promised without the ledger."""
        user = self.shop.user()
        return user, self.shop.bought(user, self.shop.ticket(user, self.own.item))["order_id"]

    def wait_refused(self):
        """Until an operator's write is refused: its batch has failed. (The log tells of one a second
        at most, and of none while it cannot read what the last one did.)"""
        sluicelib.eventually(lambda: self.shop.restock(self.own.item, 1).status == 503,
                             "a batch to fail")

    def failed_batches(self):
        return self.server.log().count("ledger.batch_failed")

    def caught_up(self):
        return self.server.log().count("ledger_writer.caught_up")

    def check(self):
        report = self.rush.result()
        self.told.read(self.tell)
        rows = check_rush(self.server, self.lot, report, self.told)
        assert sum(row.qty for row in rows) == self.UNITS
        assert compare_events(admin_events(self.server), admin_orders(self.server)) == []
        paid = [row for row in rows if row.status == "PAID"]
        assert paid, "nobody could pay"
        self.server.stop()
        return rows

    def discard(self):
        if self.rush.running():
            self.rush.kill()
        self.server.discard()


def test_mariadb_is_killed_and_restarted_in_a_rush(own_mariadb, tmp_path):
    print(f"seed {SEED}")
    rng = random.Random(SEED)
    sale = Sale(own_mariadb, tmp_path, sets=["ledger.timeout_s=2", "ledger.batch=50"])
    try:
        goals = sorted(rng.sample(range(1, Sale.UNITS * 3 // 4), 3))
        for goal in goals:
            sale.wait_told(goal)
            before = sale.caught_up()
            own_mariadb.kill()
            sale.buy_one()
            sale.wait_refused()
            time.sleep(rng.uniform(0, 2 if LONG else 0.2))  # anywhere in the attempts
            own_mariadb.start()
            # Said after a batch has failed and the events have been read again, each time.
            sluicelib.eventually(lambda: sale.caught_up() > before, "failure and recovery")
        sale.check()
    finally:
        sale.discard()


def test_mariadb_is_frozen_in_a_rush(own_mariadb, tmp_path):
    """Longer than the server waits for an answer: the batch fails, buyers go on being told."""
    print(f"seed {SEED}")
    rng = random.Random(SEED)
    sale = Sale(own_mariadb, tmp_path, sets=["ledger.timeout_s=1", "ledger.batch=50"])
    try:
        for goal in sorted(rng.sample(range(1, Sale.UNITS // 2), 2)):
            sale.wait_told(goal)
            before = sale.caught_up()
            own_mariadb.freeze()
            sale.buy_one()
            sale.wait_refused()
            sale.buy_one()
            time.sleep(rng.uniform(0, 3 if LONG else 0.2))  # anywhere in the attempts
            own_mariadb.thaw()
            # Until then no batch is tried, so the next freeze would meet none.
            sluicelib.eventually(lambda: sale.caught_up() > before, "recovery")
        sale.check()
        assert sale.failed_batches() > 0
    finally:
        own_mariadb.thaw()
        sale.discard()


def test_a_short_freeze_is_only_a_pause(own_mariadb, tmp_path):
    sale = Sale(own_mariadb, tmp_path, sets=["ledger.timeout_s=30"])
    try:
        for goal in (100, 1000):
            sale.wait_told(goal)
            own_mariadb.freeze()
            user, order = sale.buy_one()
            time.sleep(2 if LONG else 0)
            assert sale.shop.order(user, order)["status"] == "QUEUED"
            own_mariadb.thaw()
            sale.shop.wait_status(user, order, "LOCKED")
        sale.check()
        assert sale.failed_batches() == 0
    finally:
        own_mariadb.thaw()
        sale.discard()


def test_both_are_killed_at_once(own_mariadb, tmp_path):
    print(f"seed {SEED}")
    sale = Sale(own_mariadb, tmp_path, sets=["ledger.timeout_s=2"])
    try:
        for goal in (50, 1200):
            sale.wait_told(goal)
            killer = threading.Thread(target=own_mariadb.kill)
            killer.start()
            sale.server.kill()
            killer.join()
            own_mariadb.start()
            sale.server.start()
        sale.check()
    finally:
        sale.discard()
