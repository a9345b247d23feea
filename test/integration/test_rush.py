"""A rush: far more buyers than units. Afterwards clients, gate and ledger must agree exactly.

`sluice bench` is the crowd: duplicates of one ticket on other connections (and so on other loops),
dropped connections, retries. Then the checker of crashlib compares the clients' answers, the state of
the gate and the ledger. It shares no code with the program.
"""
import collections

import pytest

import sluicelib
from crashlib import Lot, Rush, TellFile, Told, admin_orders, check_rush

UNITS = 1000
USERS = 20000
LIMITS = (1, 5, 0)


def qty_of(limit):
    """Two at a time where more than one is allowed, so that the limit of 5 is met from below."""
    return 1 if limit == 1 else 2


def rush(server, lot, tmp_path, seed, users=USERS, **more):
    """Runs the crowd to its end. -> its report and all its answers"""
    tell = TellFile(str(tmp_path / f"tell-{lot.item}"))
    report = Rush(server, [lot.item], tell.path, seed=seed, users=users, connections=128,
                  duplicates=20, drops=5, retries=20, qty=qty_of(lot.limit), **more).result()
    told = Told()
    told.read(tell)
    return report, told


def lots_of(server, total=UNITS):
    shop = sluicelib.Shop(server)
    made = shop.create_sale([sluicelib.item_json(total=total, limit_per_user=limit)
                             for limit in LIMITS], pay_within_s=3600)
    shop.moved(made["id"], "open")
    return [Lot(item["id"], item["limit_per_user"], item["price_cents"], total)
            for item in made["items"]]


# Segments are the distributed engine's: buyers have homes then, and units have to move to them.
@pytest.mark.parametrize("threads,segments", [(1, 1), (2, 3), (4, 2)])
def test_a_rush_sells_exactly_the_stock(make_server, tmp_path, monkeypatch, threads, segments):
    monkeypatch.setenv("SLUICE_SEGMENTS", str(segments))
    server = make_server(sets=[f"server.threads={threads}"])
    for seed, lot in enumerate(lots_of(server), 1):
        report, told = rush(server, lot, tmp_path, seed)
        rows = check_rush(server, lot, report, told)
        assert sum(row.qty for row in rows) == UNITS, "everything was sold, and nothing more"
        assert report["refused"]["sold_out"] > 0
        assert all(row.qty == qty_of(lot.limit) for row in rows)
        if lot.limit == 1:
            assert max(collections.Counter(row.user for row in rows).values()) == 1


def test_buyers_who_come_back_meet_their_limit(make_server, tmp_path, monkeypatch):
    """Few buyers with many attempts: the limit, not the stock, ends it."""
    monkeypatch.setenv("SLUICE_SEGMENTS", "3")
    server = make_server(sets=["server.threads=2"])
    for seed, lot in enumerate(lots_of(server, total=2000), 1):
        report, told = rush(server, lot, tmp_path, seed, users=100, orders_per_user=6)
        rows = check_rush(server, lot, report, told)
        held = collections.Counter()
        for row in rows:
            held[row.user] += row.qty
        expected = {1: {1}, 5: {4}, 0: {12}}[lot.limit]
        assert set(held.values()) == expected and len(held) == 100
        if lot.limit == 5:
            assert report["refused"]["limit_reached"] > 0


@pytest.mark.asan
def test_a_small_rush_with_payments_and_cancels(make_server, tmp_path):
    server = make_server(sets=["server.threads=2"])
    for seed, lot in enumerate(lots_of(server, total=100), 1):
        report, told = rush(server, lot, tmp_path, seed, users=1000, pay=50, cancel=50)
        rows = check_rush(server, lot, report, told)
        states = collections.Counter(row.status for row in rows)
        assert states["PAID"] > 0 and states["CANCELLED"] > 0, states


@pytest.mark.asan
@pytest.mark.parametrize("limit", LIMITS)
def test_one_ticket_on_many_connections_at_once(make_server, limit):
    """The same ticket lands on every loop in the same moment: one order, one unit."""
    server = make_server(sets=["server.threads=4"])
    shop = sluicelib.Shop(server)
    lot = shop.lot(total=20, limit=limit)
    conns = [server.conn() for _ in range(24)]
    try:
        for buyer in range(1, 16):
            ticket = shop.ticket(buyer, lot.item)
            request = sluicelib.request_bytes(
                "POST", f"/v1/buy/{ticket['ticket']}",
                {"Authorization": f"Bearer {server.token(buyer)}",
                 "Content-Type": "application/json"}, b'{"qty":1}')
            for conn in conns:
                conn.send(request)
            answers = [shop.buy(buyer, ticket, 1) if sluicelib.is_degraded(answer) else answer
                       for answer in [conn.read_response("POST") for conn in conns]]
            assert {answer.status for answer in answers} <= {200, 202}, answers
            assert {answer.json()["order_id"] for answer in answers} == {ticket["order_id"]}
            shop.wait_status(buyer, ticket["order_id"], "LOCKED")
            assert shop.counters(lot.item) == (20 - buyer, buyer, 0)
    finally:
        for conn in conns:
            conn.close()
    assert len(admin_orders(server, item=lot.item)) == 15
