"""An expiry storm: all unpaid orders are due at once, each returns its units once, and the server
answers meanwhile.

So that they are all due in the same moment, whatever the machine's speed, the server is stopped
(SIGSTOP, or between two starts) while their deadlines pass.
"""
import collections
import os
import signal
import time

import pytest

import crashlib
import sluicelib
from crashlib import Ledger, Lot, Rush, TellFile, admin_events, wait_settled


def storm_server(make_server, orders):
    return make_server(sets=["server.threads=2", f"gate.orders={4 * orders}",
                             f"gate.buyers={4 * orders}"])


def lock_orders(server, tmp_path, count):
    """`count` buyers, each with one LOCKED order, all locked before the first is due. On a slow machine
    the time to pay may be too short: then everything is repeated with a longer one."""
    for pay_within_s in (max(3, count // 4000), max(15, count // 1000), max(100, count // 250)):
        lot = try_to_lock(server, tmp_path, count, pay_within_s)
        counters = crashlib.gate_counters(server, lot)
        if counters == (0, count, 0):
            return lot
        print(f"{pay_within_s} s were too short to lock {count}: {counters}")
        weather_the_storm(server, lot)
        wait_settled(server, [lot])
    pytest.fail(f"too slow to lock {count} in time: {counters}")


def try_to_lock(server, tmp_path, count, pay_within_s):
    made = sluicelib.Shop(server).lot(total=count, limit=1, pay_within_s=pay_within_s)
    lot = Lot(made.item, made.limit, made.price, count)
    tell = TellFile(str(tmp_path / f"tell-{lot.item}"))
    report = Rush(server, [lot.item], tell.path, users=count, connections=512,
                  retries=20, no_audit=True).result()
    assert tell.without_order(count) == {}, report
    assert report["orders"] == count, report
    wait_settled(server, [lot])
    return lot


def last_deadline_ms(server, lot):
    """The last deadline of the orders that are LOCKED; 0 if none is."""
    with Ledger(server) as ledger:
        return ledger.last_deadline_ms(lot.item) or 0


def seconds_until(when_ms):
    return max(0, when_ms / 1000 - time.time())


def wait_until_all_are_due(server, lot):
    last_ms = last_deadline_ms(server, lot)
    sluicelib.eventually(lambda: time.time() * 1000 > last_ms + 100, "the deadlines",
                         guard_s=60 + seconds_until(last_ms))


def weather_the_storm(server, lot):
    """Ask for the time until the last order has expired; (answers, what was seen locked)."""
    answers, seen = 0, set()
    guard_s = 300 + seconds_until(last_deadline_ms(server, lot))

    def over():
        nonlocal answers
        assert server.now_ms() > 0
        answers += 1
        locked = crashlib.gate_counters(server, lot)[1]
        seen.add(locked)
        return locked == 0

    sluicelib.eventually(over, "the end of the storm", guard_s=guard_s, every_s=0)
    return answers, seen


def check_all_returned_once(server, lot):
    wait_settled(server, [lot])
    assert crashlib.gate_counters(server, lot) == (lot.total, 0, 0)
    with Ledger(server) as ledger:
        rows = ledger.orders()
    mine = {row.id: row.status for row in rows if row.item == lot.item}
    assert collections.Counter(mine.values()) == {"EXPIRED": lot.total}
    events = admin_events(server)
    assert crashlib.compare_events(events, rows) == []
    expired = [e["order_id"] for e in events if e["type"] == "order.expired" and
               e["order_id"] in mine]
    assert len(expired) == len(set(expired)) == lot.total


@pytest.mark.parametrize("count", [pytest.param(5000, marks=pytest.mark.asan),
                                   pytest.param(100_000, marks=pytest.mark.slow)])
def test_all_deadlines_in_one_moment(make_server, tmp_path, count):
    server = storm_server(make_server, count)
    lot = lock_orders(server, tmp_path, count)
    server.client.close()
    os.kill(server.process.pid, signal.SIGSTOP)
    try:
        wait_until_all_are_due(server, lot)
    finally:
        os.kill(server.process.pid, signal.SIGCONT)
    answers, seen = weather_the_storm(server, lot)
    print(f"{answers} answers while {count} orders expired")
    assert answers > 1 and len(seen) > 1, f"no answer while it blew: {answers} answers, {seen}"
    check_all_returned_once(server, lot)


@pytest.mark.parametrize("count", [5000, pytest.param(20_000, marks=pytest.mark.slow)])
def test_all_deadlines_passed_while_the_server_was_away(make_server, tmp_path, count):
    server = storm_server(make_server, count)
    lot = lock_orders(server, tmp_path, count)
    server.kill()
    wait_until_all_are_due(server, lot)
    server.start()
    weather_the_storm(server, lot)
    check_all_returned_once(server, lot)
    buyer = sluicelib.Shop(server)
    assert buyer.order_locked(buyer.user(), lot.item)["status"] == "LOCKED"
