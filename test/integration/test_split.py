"""Orders split over three databases of one MariaDB, by segment: a sale of the distributed engine
with a rush, payments, cancellations and expiries, whose accounts agree and whose rows are where they
belong; and starts that are refused, with what to do.
"""
import collections

import pytest

import enginelib
import marialib
import sluicelib
from crashlib import (Lot, Rush, TellFile, Told, admin_events, admin_orders, check_rush,
                      compare_events)
from test_reconcile import BOUND, reconcile

DATABASES = 3
SEGMENTS = 3
UNITS = 120
LIMITS = (1, 5, 0)

pytestmark = pytest.mark.skipif(enginelib.missing() != "",
                                reason=f"not installed: {enginelib.missing()}")


@pytest.fixture
def server(make_server):
    settings, database = enginelib.shared().settings(SEGMENTS, DATABASES)
    return make_server(sets=[*settings, *BOUND], database=database)


def rush(server, lot, tmp_path, seed):
    tell = TellFile(str(tmp_path / f"tell-{lot.item}"))
    report = Rush(server, [lot.item], tell.path, seed=seed, users=1200, connections=64,
                  duplicates=20, drops=5, retries=20, qty=1 if lot.limit == 1 else 2, pay=40,
                  cancel=20).result()
    told = Told()
    told.read(tell)
    return report, told


def expired(shop):
    """Orders that nobody paid, of buyers of all segments."""
    lot = shop.lot(total=30, limit=1, pay_within_s=1)
    orders = {user: shop.bought(user, shop.ticket(user, lot.item))["order_id"]
              for user in range(1, 25)}
    for user, order in orders.items():
        shop.wait_status(user, order, "EXPIRED")
    shop.wait_counters(lot.item, 30, 0, 0)
    return lot


def check_places(database):
    """As many homes as databases: each has the orders of one segment, and all of them."""
    server, ids = database.server, []
    for place in range(DATABASES):
        rows = server.run("SELECT id, ifnull(segment, -1) FROM orders", database.part(place))
        assert len(rows) > UNITS // DATABASES, f"{len(rows)} orders in {database.part(place)}"
        assert {int(segment) for _, segment in rows} == {place}
        ids += [order for order, _ in rows]
    assert len(ids) == len(set(ids)) and database.rows("SELECT count(*) FROM orders") == [
        (len(ids),)]
    assert server.run("SELECT table_schema, table_name FROM information_schema.tables"
                      f" WHERE table_schema LIKE '{database.name}\\_%' ORDER BY 1") == [
        (database.part(place), "orders") for place in range(1, DATABASES)]


@pytest.mark.asan
def test_a_sale_on_three_databases(server, tmp_path):
    shop = sluicelib.Shop(server)
    lots = [shop.lot(total=UNITS, limit=limit, pay_within_s=3600) for limit in LIMITS]
    states = collections.Counter()
    for seed, made in enumerate(lots, 1):
        lot = Lot(made.item, made.limit, made.price, UNITS)
        report, told = rush(server, lot, tmp_path, seed)
        rows = check_rush(server, lot, report, told)
        states.update(row.status for row in rows)
    assert states["PAID"] > 0 and states["CANCELLED"] > 0, states
    quick = expired(shop)
    check_places(server.database)
    # Lists over all databases are one list.
    everything = admin_orders(server)
    assert len({order.id for order in everything}) == len(everything)
    assert sum(order.item == quick.item for order in everything) == 24
    assert compare_events(admin_events(server), everything) == []
    found = reconcile(server)
    assert found["differences"] == [] and found["items"] == len(lots) + 1
    # The same after a restart.
    server.restart(kill=True)
    assert sorted(admin_orders(server)) == sorted(everything)
    shop.wait_counters(quick.item, 30, 0, 0)
    assert reconcile(server)["differences"] == []


def test_another_number_is_refused(server):
    shop = sluicelib.Shop(server)
    order = shop.order_locked(1, shop.lot(total=3).item)
    server.stop()
    right = server.sets[-1]
    for wrong in ("", "?databases=2", "?databases=4"):
        server.sets[-1] = right.split("?")[0] + wrong
        assert server.refused_start() == 1
        assert "Say ?databases=3" in server.log()
    server.sets[-1] = right
    server.start()
    shop.wait_status(1, order["order_id"], "LOCKED")


def test_a_user_without_rights_is_told(make_server):
    settings, database = enginelib.shared().settings(SEGMENTS, DATABASES)
    mariadb, user = database.server, enginelib.unique("narrow")
    mariadb.run(f"CREATE USER {user}@'%' IDENTIFIED BY 'n'; "
                f"GRANT ALL ON `{database.name}`.* TO {user}@'%'")
    server = make_server(start=False, sets=settings, database=database)
    server.sets[-1] = server.sets[-1].replace(marialib.URL_LOGIN, f"{user}:n")
    assert server.refused_start() == 1
    assert f"may not make `{database.name}_1`" in server.log() and "GRANT ALL" in server.log()
    # Databases that somebody else has made are as good.
    for place in range(1, DATABASES):
        mariadb.run(f"CREATE DATABASE {database.part(place)}; "
                    f"GRANT ALL ON `{database.part(place)}`.* TO {user}@'%'")
    server.start()
    shop = sluicelib.Shop(server)
    shop.order_locked(1, shop.lot(total=3).item)
