"""Segments of a running sale, on a real Redis Cluster of three masters: a third is added to two
while buyers come, gets its part of a restock, is emptied, and everything is sold exactly; and homes by
region, where buyers of one region buy what the others have left.
"""
import os

import pytest

import clusterlib
import crashlib
import crowdlib
import serverlib
import sluicelib
from sluicelib import eventually

pytestmark = pytest.mark.skipif(serverlib.missing() != "",
                                reason=f"not installed: {serverlib.missing()}")
COUNTS = {"front": 2, "relay": 1, "booker": 0, "keeper": 2}  # without a queue the relay books
SETS = ["reconcile.bound_s=1", "reconcile.every_s=0"]
ADDED = 2
AUDIT = ("oversold", "lost", "doubled", "wrong")


def holder(stage, segment):
    """The master that has the segment's keys."""
    for node in stage.masters():
        if node.call("KEYS", f"sluice{{{segment}[a-z]*"):
            return node
    return None


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


def test_a_segment_is_added_to_a_running_sale(tmp_path):
    with clusterlib.Distributed(topology="cluster", amqp=False, counts=COUNTS,
                                sets=[*SETS, "redis.segments=2"]) as stage:
        shop = sluicelib.Shop(stage.door())
        lot = shop.lot(total=2000, limit=1)
        early = crowdlib.Crowd(stage.door(), [lot.item], str(tmp_path / "early"), 1200, 60, 1,
                               first_user=1_000_000, cancel=0)
        assert early.wait_told(100)

        restart_with(stage, "redis.segments=3")
        assert epoch(stage, ADDED) >= 1
        assert stage.database.rows(f"SELECT homes FROM sales WHERE id = {lot.sale}") == [(2,)]
        assert_audit(early.result())

        def amounts():
            return dict(stage.database.rows("SELECT segment, amount FROM allotments"
                                            f" WHERE item_id = {lot.item}"))

        assert amounts()[ADDED] == 0
        assert shop.restock(lot.item, 900).status == 200
        assert amounts()[ADDED] == 300
        server = eventually(lambda: holder(stage, ADDED), "the segment's server")
        before = epoch(stage, ADDED)
        assert server.call("FLUSHALL") == "OK"
        eventually(lambda: epoch(stage, ADDED) > before, "the segment rebuilt")

        late = crashlib.Rush(stage.door(), [lot.item], str(tmp_path / "late"), users=6000,
                             first_user=2_000_000, duplicates=10, drops=3, retries=20,
                             keep_going=True)
        assert_audit(late.result())

        def sold_out():
            with crashlib.Ledger(stage.door()) as ledger:
                return ledger.stock(lot.item)[0] == 0 and not ledger.problems()

        eventually(sold_out, "everything sold")
        (alive,), = stage.database.rows("SELECT sum(qty) FROM orders WHERE item_id = "
                                        f"{lot.item} AND status IN ('LOCKED', 'PAID')")
        assert alive == 2900 and amounts()[ADDED] == 0
        (elsewhere,), = stage.database.rows(f"SELECT count(*) FROM orders WHERE segment = {ADDED}")
        assert elsewhere == 0  # it is nobody's home
        (moved,), = stage.database.rows(f"SELECT sum(moved) FROM transfers WHERE segment = {ADDED}"
                                        " AND state = 'done'")
        assert moved == 300
        eventually(lambda: shop.item(lot.item)["state"] == "sold_out", "the page says so")
        answer = stage.door().admin("POST", "/reconcile")
        assert answer.status == 200 and answer.json()["differences"] == [], answer


def test_a_sale_opened_at_one_front_is_sold_at_all_of_them_at_once():
    """Who was told that it is open asks at another front in the same moment, which has not read it."""
    counts = dict(COUNTS, front=3, keeper=1)
    with clusterlib.Distributed(amqp=False, counts=counts, sets=SETS) as stage:
        here, *others = [sluicelib.Shop(stage.door(front)) for front in stage.fronts]
        for _ in range(10):
            lot = here.lot(total=100, limit=1)
            for there in others:
                user = there.user()
                assert there.item_now(lot.item)["total"] == 100
                assert there.buy(user, there.ticket(user, lot.item)["ticket"]).status == 202
        for there in others:  # and what there is not is said not to be
            user = there.user()
            assert sluicelib.problem(there.try_ticket(user, 999_999), 404, "no_such_item")
            assert sluicelib.problem(there.server.get("/v1/items/999999"), 404, "no_such_item")
            draft = here.lot(total=1, state="draft")
            assert sluicelib.problem(there.try_ticket(user, draft.item), 409, "not_open")


def test_homes_by_region(tmp_path):
    """Buyers are decided at their region's segments; what others do not buy comes to them."""
    last = 1_999_999
    regions = f"redis.regions=eu 1-{last} 0,1 4; us {last + 1}- 2 1"
    with clusterlib.Distributed(topology="cluster", amqp=False, counts=dict(COUNTS, keeper=1),
                                sets=[*SETS, "redis.segments=3", regions]) as stage:
        shop = sluicelib.Shop(stage.door())
        lot = shop.lot(total=1000, limit=1)
        query = f"SELECT segment, amount FROM allotments WHERE item_id = {lot.item}"
        assert dict(stage.database.rows(query)) == {0: 400, 1: 400, 2: 200}
        for name, first_user, users in (("eu", 1_000_000, 200), ("us", last + 1, 2500)):
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
        assert sum(count for us, _, count in where if us) > 200  # more than its share at first
        answer = stage.door().admin("POST", "/reconcile")
        assert answer.status == 200 and answer.json()["differences"] == [], answer
