"""Segments of a running sale: a third is added to two while buyers come, gets its part of a restock,
is emptied, and everything is sold exactly; and homes by region, where buyers of one region buy what
the others have left. Each on one Redis that all tests share, and on a Redis Cluster of three masters.
"""
import os

import pytest

import clusterlib
import crashlib
import crowdlib
import enginelib
import serverlib
import sluicelib
from sluicelib import Background, eventually

pytestmark = pytest.mark.skipif(serverlib.missing() != "",
                                reason=f"not installed: {serverlib.missing()}")
COUNTS = {"front": 2, "relay": 1, "booker": 0, "keeper": 2}  # without a queue the relay books
SETS = ["reconcile.bound_s=1", "reconcile.every_s=0"]
ADDED = 2
AUDIT = ("oversold", "lost", "doubled", "wrong")
# That segments are where a Cluster has them is test_redis_topology.py's, in the gate, too.
TOPOLOGIES = ["single", pytest.param("cluster", marks=pytest.mark.slow)]


def stage_of(topology, segments, counts, *sets):
    sets = [*SETS, *sets]
    if topology == "single":
        return clusterlib.Shared(counts, sets, segments, amqp=False)
    return clusterlib.Distributed(topology=topology, amqp=False, counts=counts,
                                  sets=[*sets, f"redis.segments={segments}"],
                                  database=enginelib.shared().mariadb.database())


def forget(stage, segment):
    """The server that has the segment loses its keys; a server of our own loses everything."""
    if isinstance(stage, clusterlib.Shared):
        redis, prefix = stage.engine.redis, stage.prefix
        return redis.ask("DEL", *redis.ask("KEYS", f"{prefix}{{{segment}[a-z]*")) > 0
    for node in stage.masters():
        if node.call("KEYS", f"sluice{{{segment}[a-z]*"):
            return node.call("FLUSHALL") == "OK"
    return False


def epoch(stage, segment):
    rows = stage.database.rows(f"SELECT epoch FROM segments WHERE segment = {segment}")
    return rows[0][0] if rows else 0


def restart_with(stage, *sets):
    """One process after the other, each waited for: keepers first, as they make new segments."""
    stage.sets += sets
    for kind in ("keeper", "booker", "relay", "front"):
        for member in stage.kinds[kind]:
            assert member.stop(), member.name
            with open(os.path.join(member.folder, "sluice.conf"), "w", encoding="utf-8") as file:
                file.write(stage.config_text(member.name))
            member.start()


def assert_audit(report):
    audit = report.get("audit")
    assert audit and all(audit[word] == 0 for word in AUDIT), report


def buyers_during(stage, item, folder, work):
    """Crowds come, one after the other, as long as the work takes, and buy while it goes on; each is
    told the truth."""
    crowds, working = 0, None
    while working is None or working.is_alive():
        crowds += 1
        crowd = crowdlib.Crowd(stage.door(), [item], str(folder / f"crowd-{crowds}"), 60, 60,
                               crowds, first_user=1_000_000 + 1000 * crowds, cancel=0)
        if working is None:
            assert crowd.wait_told(10), "the crowd was gone too soon"
            working = Background(work)
        assert_audit(crowd.result())
    working.result()


@pytest.mark.parametrize("topology", TOPOLOGIES)
def test_a_segment_is_added_to_a_running_sale(tmp_path, topology):
    with stage_of(topology, 2, COUNTS) as stage:
        shop = sluicelib.Shop(stage.door())
        lot = shop.lot(total=600, limit=1)
        buyers_during(stage, lot.item, tmp_path, lambda: restart_with(stage, "redis.segments=3"))
        assert epoch(stage, ADDED) >= 1
        assert stage.database.rows(f"SELECT homes FROM sales WHERE id = {lot.sale}") == [(2,)]

        def amounts():
            return dict(stage.database.rows("SELECT segment, amount FROM allotments"
                                            f" WHERE item_id = {lot.item}"))

        assert amounts()[ADDED] == 0
        assert shop.restock(lot.item, 90).status == 200
        assert amounts()[ADDED] == 30
        before = epoch(stage, ADDED)
        eventually(lambda: forget(stage, ADDED), "the segment's server to forget it")
        eventually(lambda: epoch(stage, ADDED) > before, "the segment rebuilt")

        late = crashlib.Rush(stage.door(), [lot.item], str(tmp_path / "late"), users=2000,
                             first_user=2_000_000, duplicates=10, drops=3, retries=20,
                             keep_going=True)
        assert_audit(late.result())

        def sold_out():
            with crashlib.Ledger(stage.door()) as ledger:
                return ledger.stock(lot.item)[0] == 0 and not ledger.problems()

        eventually(sold_out, "everything sold")
        (alive,), = stage.database.rows("SELECT sum(qty) FROM orders WHERE item_id = "
                                        f"{lot.item} AND status IN ('LOCKED', 'PAID')")
        assert alive == 690 and amounts()[ADDED] == 0
        (elsewhere,), = stage.database.rows(f"SELECT count(*) FROM orders WHERE segment = {ADDED}")
        assert elsewhere == 0  # it is nobody's home
        (moved,), = stage.database.rows(f"SELECT sum(moved) FROM transfers WHERE segment = {ADDED}"
                                        " AND state = 'done'")
        assert moved == 30
        eventually(lambda: shop.item(lot.item)["state"] == "sold_out", "the page says so")
        answer = stage.door().admin("POST", "/reconcile")
        assert answer.status == 200 and answer.json()["differences"] == [], answer


def test_a_sale_opened_at_one_front_is_sold_at_all_of_them_at_once():
    """A sale is opened at one front. Another front, which has not read it yet, gets a request at once."""
    with stage_of("single", 1, dict(COUNTS, front=3, keeper=1)) as stage:
        here, *others = [sluicelib.Shop(stage.door(front)) for front in stage.fronts]
        for _ in range(2):
            lot = here.lot(total=100, limit=1)
            for there in others:
                user = there.user()
                assert there.item_now(lot.item)["total"] == 100
                assert there.buy(user, there.ticket(user, lot.item)["ticket"]).status == 202
        # And what there is not is said not to be; a front holds who asks for a second.
        draft = here.lot(total=1, state="draft")
        for there in others:
            asked = [Background(call) for call in (
                lambda shop=sluicelib.Shop(there.server.beside()): shop.try_ticket(7, 999_999),
                lambda server=there.server.beside(): server.get("/v1/items/999999"),
                lambda shop=sluicelib.Shop(there.server.beside()): shop.try_ticket(7, draft.item))]
            ticket, item, early = [one.result() for one in asked]
            assert sluicelib.problem(ticket, 404, "no_such_item")
            assert sluicelib.problem(item, 404, "no_such_item")
            assert sluicelib.problem(early, 409, "not_open")


# Units come to another region's segment a few at a time: as few buyers as show it, in the gate.
@pytest.mark.parametrize("topology,units,buyers", [
    ("single", 20, (4, 40)), pytest.param("cluster", 1000, (200, 2500), marks=pytest.mark.slow)])
def test_homes_by_region(tmp_path, topology, units, buyers):
    """Buyers are decided at their region's segments; what others do not buy comes to them."""
    last = 1_999_999
    regions = f"redis.regions=eu 1-{last} 0,1 4; us {last + 1}- 2 1"
    with stage_of(topology, 3, dict(COUNTS, keeper=1), regions) as stage:
        shop = sluicelib.Shop(stage.door())
        lot = shop.lot(total=units, limit=1)
        share = units // 5
        query = f"SELECT segment, amount FROM allotments WHERE item_id = {lot.item}"
        assert dict(stage.database.rows(query)) == {0: 2 * share, 1: 2 * share, 2: share}
        for name, first_user, users in zip(("eu", "us"), (1_000_000, last + 1), buyers):
            rush = crashlib.Rush(stage.door(), [lot.item], str(tmp_path / name), users=users,
                                 first_user=first_user, duplicates=10, drops=3, retries=20,
                                 keep_going=True)
            assert_audit(rush.result())

        def sold_out():
            with crashlib.Ledger(stage.door()) as ledger:
                return ledger.stock(lot.item)[0] == 0 and not ledger.problems()

        eventually(sold_out, "everything sold")
        where = stage.database.rows("SELECT user_id > {0}, segment = 2, count(*) FROM orders WHERE "
                                    "item_id = {1} GROUP BY 1, 2".format(last, lot.item))
        assert {(us, there) for us, there, _ in where} == {(0, 0), (1, 1)}
        assert sum(count for us, _, count in where if us) > share  # more than its share at first
        answer = stage.door().admin("POST", "/reconcile")
        assert answer.status == 200 and answer.json()["differences"] == [], answer
