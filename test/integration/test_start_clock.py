"""Starts with a wrong clock: refused, or held until the time is confirmed. The folder is not harmed.

The wrong clock is a library before the real program (clock_shim.c).
"""
import os
import signal
import time

import pytest

import disklib
import sluicelib
from sluicelib import Shop, eventually

DAY_S = 86400
YEARS_S = 10 * 365 * DAY_S


@pytest.fixture(scope="module")
def shim(tmp_path_factory):
    source = os.path.join(sluicelib.ROOT, "test/integration/clock_shim.c")
    return disklib.compile_c(str(tmp_path_factory.mktemp("shim") / "clock.so"), source, shared=True)


@pytest.fixture
def clock(shim, monkeypatch):
    """clock(ahead_s, ntp) for the servers that are started from now on. stalled: the name of a thread
    that never runs; the server must be killed."""
    def set_to(ahead_s, ntp=False, stalled=None):
        monkeypatch.setenv("LD_PRELOAD", shim if ahead_s or stalled else "")
        # A sanitized program would refuse to start behind a library that is loaded before its own.
        monkeypatch.setenv("ASAN_OPTIONS", os.environ.get("ASAN_OPTIONS", "") + ":verify_asan_link_order=0")
        monkeypatch.setenv("SLUICE_CLOCK_AHEAD_S", str(ahead_s))
        for name, value in (("NTP", ntp and "1"), ("STALLED", stalled)):
            if value:
                monkeypatch.setenv(f"SLUICE_CLOCK_{name}", value)
            else:
                monkeypatch.delenv(f"SLUICE_CLOCK_{name}", raising=False)
    return set_to


def sold(server):
    """A folder with an open sale and one unpaid order; the server is stopped."""
    server.start()
    shop = Shop(server)
    lot = shop.lot(total=5, pay_within_s=600, ends_in_ms=30 * DAY_S * 1000)
    user = shop.user()
    order = shop.bought(user, shop.ticket(user, lot.item))["order_id"]
    shop.wait_status(user, order, "LOCKED")
    server.stop()
    return lot, user, order


def sells_on(server, lot, user, order):
    """With the right clock nothing has happened."""
    server.start()
    shop = Shop(server)
    assert shop.order(user, order)["status"] == "LOCKED"
    assert shop.counters(lot.item) == (4, 1, 0)
    other = shop.user()
    told = shop.bought(other, shop.ticket(other, lot.item))["order_id"]
    shop.wait_status(other, told, "LOCKED")
    server.stop()


@pytest.mark.parametrize("ahead_s", [YEARS_S, -YEARS_S, -3600])
def test_a_start_with_a_far_clock_is_refused(make_server, clock, ahead_s):
    server = make_server(start=False)
    lot, user, order = sold(server)
    clock(ahead_s, ntp=True)
    assert server.refused_start() == 1
    log = server.log()
    assert "start.clock_refused" in log and "--accept-clock" in log and "last_known_time" in log
    clock(0)
    sells_on(server, lot, user, order)


def test_a_doubted_clock_is_waited_for(make_server, clock):
    """Two days ahead without NTP: the start waits, nothing expires, and SIGTERM ends it."""
    server = make_server(start=False, sets=["clock.confirm_s=86400"])
    lot, user, order = sold(server)
    clock(2 * DAY_S)
    server.spawn()
    eventually(lambda: "clock.doubted" in server.log(), "the start to wait")
    server.signal(signal.SIGTERM)
    assert server.wait_exit() == 1
    clock(0)
    sells_on(server, lot, user, order)


def expired(server, order):
    """As an operator sees it: a buyer's token has no meaning ten years ahead."""
    return server.admin("GET", f"/orders/{order}").json()["status"] == "EXPIRED"


def moved_ahead(server, clock):
    """A server that has run with a clock ten years ahead, and is refused with the right one. Returns
    a buyer and his order, which has expired meanwhile."""
    _, user, order = sold(server)
    clock(YEARS_S)
    server.extra = ["--accept-clock"]
    server.start()
    eventually(lambda: expired(server, order), "the order to expire")
    server.stop()
    server.extra = []
    clock(0)
    assert server.refused_start() == 1
    return user, order


def test_the_way_back(make_server, clock):
    """A folder that was moved ahead by a wrong clock, and the right clock accepted: the time is right
    again, also after the next start, and sales can be made. What has expired stays so."""
    server = make_server(start=False)
    user, order = moved_ahead(server, clock)
    server.extra = ["--accept-clock"]
    server.start()
    assert "clock.set_back" in server.log()
    for again in range(2):
        assert abs(server.get("/v1/time").json()["now_ms"] / 1000 - time.time()) < 30
        shop = Shop(server)
        assert expired(server, order)
        fresh = shop.lot(total=5)
        told = shop.bought(user, shop.ticket(user, fresh.item))["order_id"]
        shop.wait_status(user, told, "LOCKED")
        if again == 0:
            server.kill()
            server.extra = []
            server.start()


def test_the_way_back_is_gone_once(make_server, clock):
    """The server is killed as soon as it serves, before its threads have run: the next start knows that
    the time was set back."""
    server = make_server(start=False)
    moved_ahead(server, clock)
    clock(0, stalled="tally")  # it writes DATA/clock
    server.extra = ["--accept-clock"]
    server.start()
    server.kill()
    clock(0)
    server.extra = []
    server.start()
    assert abs(server.now_ms() / 1000 - time.time()) < 30


def test_a_wrong_clock_that_nothing_went_by(make_server, clock):
    """A server ten years ahead ends before anything has expired: the next start is refused all the same,
    and with the right clock accepted nothing has happened."""
    server = make_server(start=False)
    lot, user, order = sold(server)
    clock(YEARS_S, stalled="ledger-writer")
    server.extra = ["--accept-clock"]
    server.start()
    server.kill()
    server.extra = []
    clock(0)
    assert server.refused_start() == 1
    server.extra = ["--accept-clock"]
    sells_on(server, lot, user, order)
    server.extra = []
    server.start()
    assert Shop(server).counters(lot.item) == (3, 2, 0)


@pytest.mark.parametrize("ntp", [True, False])
def test_a_doubted_clock_is_confirmed(make_server, clock, ntp):
    """Down for two days: the unpaid order expires once the time is known."""
    server = make_server(start=False, sets=[] if ntp else ["clock.confirm_s=2"])
    lot, _, _ = sold(server)
    clock(2 * DAY_S, ntp=ntp)
    server.start()
    assert "clock.confirmed" in server.log()
    eventually(lambda: Shop(server).counters(lot.item) == (5, 0, 0), "the order to expire")
