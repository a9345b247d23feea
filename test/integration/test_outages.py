"""A server of others that goes away, or comes back, is in the log, in its own words, once each."""
import re

import pytest

import enginelib
from sluicelib import eventually

pytestmark = pytest.mark.skipif(enginelib.missing() != "",
                                reason=f"not installed: {enginelib.missing()}")


@pytest.fixture
def engine():
    made = enginelib.Engine()
    try:
        yield made
    finally:
        made.discard()


def lines(server, event, which):
    return re.findall(rf" {event} server={which} .*", server.log())


def gauge(server, name):
    """Of /metrics; None where it is left out."""
    found = re.search(rf"^{name} (-?\d+)$", server.get("/metrics").body.decode(), re.M)
    return int(found[1]) if found else None


def test_metrics_say_which_server_is_away(make_server, engine):
    """What alerts are set on: 1, and 0 while it is dead."""
    settings, database = engine.settings(segments=2)
    server = make_server(sets=settings, database=database)
    members = {"redis": engine.redis, "mariadb": engine.mariadb}
    if engine.rabbit is not None:
        members["rabbitmq"] = engine.rabbit
        queue = next(s.split("=")[1] for s in settings if s.startswith("amqp.queue="))
        eventually(lambda: gauge(server, "sluice_queue_parked") == 0, "nothing is parked")
        engine.rabbit.publish(f"{queue}.dead", f"{queue}.parked", "one", "two")
        eventually(lambda: gauge(server, "sluice_queue_parked") == 2, "two are parked")
        assert gauge(server, "sluice_payments_refused") is None  # no such queue is configured
    for which, member in members.items():
        name = f"sluice_{which}_up"
        eventually(lambda: gauge(server, name) == 1, f"{name} 1")
        member.kill()
        eventually(lambda: gauge(server, name) == 0, f"{name} 0")
        if which == "redis":
            eventually(lambda: gauge(server, "sluice_segments_away") == 2, "both segments away")
            assert server.get("/readyz").status == 200  # buyers who have a ticket stand in line
        if which != "rabbitmq":  # which takes its time, and is the last
            member.start()
            eventually(lambda: gauge(server, name) == 1, f"{name} 1 again")
    assert gauge(server, "sluice_segments") == 2
    eventually(lambda: gauge(server, "sluice_segments_away") == 0 and
               gauge(server, "sluice_segments_closed") == 0, "all segments are open")


def test_a_server_that_needs_none_has_no_such_numbers(make_server, monkeypatch):
    monkeypatch.delenv("SLUICE_ENGINE", raising=False)
    server = make_server()
    assert gauge(server, "sluice_spool_undecided") == 0
    for name in ("sluice_redis_up", "sluice_mariadb_up", "sluice_rabbitmq_up", "sluice_segments",
                 "sluice_outbox_entries", "sluice_queue_parked"):
        assert gauge(server, name) is None, name


def test_outages_are_told_once_in_the_servers_own_words(make_server, engine):
    settings, database = engine.settings()
    server = make_server(sets=settings, database=database)
    for which, member in (("redis", engine.redis), ("mariadb", engine.mariadb)):
        assert lines(server, "server.away", which) == []
        member.kill()
        eventually(lambda: lines(server, "server.away", which), f"{which} is told to be away")
        assert lines(server, "server.back", which) == []
        member.start()
        eventually(lambda: lines(server, "server.back", which), f"{which} is told to be back")
        away, = lines(server, "server.away", which)
        assert re.search(r' words=("[^"]{5,}"|\S{5,})', away), away
        assert len(lines(server, "server.back", which)) == 1
