"""Crashes in a rush: no acknowledged order is lost, nothing is oversold, every unit is accounted for.

The loops here are short unless SLUICE_LONG is set; `script/crash --loops 200` runs the long ones by
themselves. A loop fails if no crash happened during a rush, or if the disk had nothing to forget.
"""
import os
import random

import pytest

import sluicelib
from crashlib import (Broken, CrashLoop, FragileServer, Lot, Order, Rush, TellFile, Told,
                      check_rush, compare, compare_events)

SEED = int(os.environ.get("SLUICE_SEED") or random.SystemRandom().randrange(2**32))
KILL_LOOPS, FORGET_LOOPS = (200, 200) if os.environ.get("SLUICE_LONG") else (12, 8)


@pytest.fixture
def crash_loop():
    made = []

    def make(**options):
        print(f"seed {SEED}")
        made.append(CrashLoop(SEED, **options))
        return made[-1]

    yield make
    for loop in made:
        loop.discard()


@pytest.mark.parametrize("threads", [1, 2])
def test_kill_in_the_middle_of_a_rush(crash_loop, threads):
    loops = KILL_LOOPS // 2
    counts = crash_loop(threads=threads).run(loops)
    assert counts["in the rush"] > loops // 2, counts
    assert counts["told"] > 0, counts


@pytest.mark.asan
@pytest.mark.parametrize("forget", [False, True])
def test_crashes_in_the_middle_of_a_small_rush(crash_loop, forget):
    loop = crash_loop(threads=2, forget=forget)
    loop.USERS = 2000
    counts = loop.run(3)
    assert counts["in the rush"] > 0 and counts["told"] > 0, counts


def test_power_cuts_on_a_disk_that_forgets(crash_loop):
    loop = crash_loop(forget=True)
    counts = loop.run(FORGET_LOOPS)
    assert counts["in the rush"] > FORGET_LOOPS // 2, counts
    assert counts["told"] > 0, counts
    assert counts["bytes forgotten"] + counts["names forgotten"] > 0, counts
    stats = loop.server.disk.stats()
    assert stats["syncs"] + stats["sync_writes"] > 0 and stats["skipped_syncs"] == 0, stats


@pytest.mark.parametrize("skip_sync", [
    "*.journal",             # mostly the ledger knows more than the journal: no start
    "*.journal:ledger.db*",  # both forget together: mostly only the buyers know
])
def test_without_the_syncs_the_same_loop_fails(crash_loop, skip_sync):
    """Without the syncs, the loop above must fail."""
    loop = crash_loop(forget=True, skip_sync=skip_sync)
    loop.KEEP = (0.0,)
    with pytest.raises(Broken) as broken:
        loop.run(30)
    print(f"as it should: {broken.value}")
    assert loop.server.disk.stats()["skipped_syncs"] > 0


@pytest.mark.parametrize("forget", [False, True])
def test_a_crowd_that_keeps_asking_through_crashes(tmp_path, forget):
    """Buyers who retry with the same ticket until they know, over three crashes: each knows."""
    rng = random.Random(SEED)
    server = FragileServer(forget=forget, sets=["server.threads=2"]).start()
    try:
        made = sluicelib.Shop(server).lot(total=3000, limit=1, pay_within_s=3600)
        lot = Lot(made.item, made.limit, made.price, made.total)
        tell, told = TellFile(str(tmp_path / "tell")), Told()
        rush = Rush(server, [lot.item], tell.path, seed=SEED, users=10000, duplicates=20, drops=5,
                    pay=30, keep_going=True)

        def told_orders():
            told.read(tell)
            return told.told_now()

        for goal in sorted(rng.sample(range(1, 2500), 3)):
            sluicelib.eventually(lambda: told_orders() >= goal or not rush.running(), "orders",
                                 every_s=0.001)
            assert rush.running(), "the crash came too late"
            server.crash(rng)
            server.start()
        report = rush.result()
        told.read(tell)
        assert report["errors"] > 0, "no client noticed"
        rows = check_rush(server, lot, report, told)
        assert sum(row.qty for row in rows) == 3000
        server.stop()
    finally:
        server.discard()


# ---------------------------------------------------------------- the checker, checked

LOT = Lot(item=7, limit=2, price=100, total=4)
GOOD = [Order("a", 1, 7, 2, "LOCKED"), Order("b", 2, 7, 1, "PAID"), Order("c", 3, 7, 1, "EXPIRED")]


def told_of(*orders):
    told = Told()
    for order in orders:
        told.tell(*order)
    return told.all()


@pytest.mark.parametrize("status", ["QUEUED", "LOCKED", "PAID"])
def test_the_checker_is_content_with_what_agrees(status):
    told = told_of(Order("b", 2, 7, 1, status), GOOD[0])
    assert compare(told, GOOD, [LOT]) == []


@pytest.mark.parametrize("word, told, rows", [
    ("lost", [Order("x", 1, 7, 1, "QUEUED")], GOOD),
    ("backwards", [Order("a", 1, 7, 2, "PAID")], GOOD),
    ("backwards", [Order("c", 3, 7, 1, "CANCELLED")], GOOD),
    ("changed", [Order("a", 1, 7, 1, "LOCKED")], GOOD),
    ("changed", [Order("a", 9, 7, 2, "LOCKED")], GOOD),
    ("more than one row", [], GOOD + [GOOD[0]]),
    ("oversold", [], GOOD + [Order("d", 4, 7, 2, "LOCKED")]),
    ("limit", [], GOOD + [Order("d", 2, 7, 2, "LOCKED")]),
    ("failed", [], GOOD + [Order("d", 4, 7, 1, "FAILED")]),
])
def test_the_checker_sees(word, told, rows):
    problems = compare(told_of(*told), rows, [LOT])
    assert any(word in problem for problem in problems), problems


@pytest.mark.parametrize("first, then", [("LOCKED", "QUEUED"), ("PAID", "LOCKED"),
                                         ("EXPIRED", "PAID"), ("PAID", "CANCELLED")])
def test_the_checker_sees_a_view_that_goes_back_over_a_restart(first, then):
    told = Told()
    told.tell("a", 1, 7, 1, first)
    told.restarted()
    told.tell("a", 1, 7, 1, then)
    assert told.problems


def test_the_checker_sees_two_ends_of_one_order():
    told = Told()
    told.tell("a", 1, 7, 1, "PAID")
    told.tell("a", 1, 7, 1, "EXPIRED")
    assert told.problems


def event(number, order_id, status):
    return dict(number=number, order_id=order_id, type=f"order.{status.lower()}")


HISTORY = [event(1, "a", "LOCKED"), event(2, "b", "LOCKED"), event(3, "c", "LOCKED"),
           event(4, "b", "PAID"), event(5, "c", "EXPIRED")]


@pytest.mark.parametrize("events, fine", [
    (HISTORY, True),
    (HISTORY + [event(6, "c", "EXPIRED")], False),
    (HISTORY[:4], False),
    (HISTORY + [event(6, "d", "LOCKED")], False),
    (HISTORY[:1] + HISTORY, False),
])
def test_the_checker_reads_histories(events, fine):
    assert (compare_events(events, GOOD) == []) == fine
