"""The log has one line when an external server becomes unreachable and one when it is back."""
import re

import pytest

import enginelib
from sluicelib import eventually, problem

pytestmark = pytest.mark.skipif(enginelib.missing() != "",
                                reason=f"not installed: {enginelib.missing()}")


@pytest.fixture
def engine():
    """A server that is away refuses every connection: no more is known of one that has died."""
    made = enginelib.Proxied()
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
    """What alerts are set on: 1, and 0 while it is away."""
    settings, database = engine.settings(segments=2)
    server = make_server(sets=settings, database=database)
    if engine.rabbit is not None:
        queue = next(s.split("=")[1] for s in settings if s.startswith("amqp.queue="))
        eventually(lambda: gauge(server, "sluice_queue_parked") == 0, "nothing is parked")
        engine.rabbit.publish(f"{queue}.dead", f"{queue}.parked", "one", "two")
    for which, proxy in sorted(engine.proxies.items()):  # MariaDB is back last, so it goes first
        name = f"sluice_{which}_up"
        eventually(lambda: gauge(server, name) == 1, f"{name} 1")
        assert proxy.refuse() > 0
        eventually(lambda: gauge(server, name) == 0, f"{name} 0")
        if which == "redis":
            eventually(lambda: gauge(server, "sluice_segments_away") == 2, "both segments away")
            assert server.get("/readyz").status == 200  # buyers who have a ticket stand in line
        proxy.heal()
    for which in engine.proxies:
        eventually(lambda: gauge(server, f"sluice_{which}_up") == 1, f"{which} is back")
    if engine.rabbit is not None:
        eventually(lambda: gauge(server, "sluice_queue_parked") == 2, "two are parked")
        assert gauge(server, "sluice_payments_refused") is None  # no such queue is configured
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
    names = ("redis", "mariadb")
    for which in names:
        assert lines(server, "server.away", which) == []
        assert engine.proxies[which].refuse() > 0
        eventually(lambda: lines(server, "server.away", which), f"{which} is told to be away")
        # The part that cannot go on logs the server's words, too.
        event = {"redis": "relay.cannot_read_outbox", "mariadb": "keeper.cannot_look"}[which]
        eventually(lambda: re.search(rf' {event} .* server={which} words=("[^"]{{5,}}|[^" ]{{5,}})',
                                     server.log()), f"{event} of {which}")
        if which == "mariadb":
            told = eventually(lambda: (a := server.admin("GET", "/orders")).status == 503 and a,
                              "operators cannot read")
            said = problem(told, 503, "degraded", "later")
            assert "the ledger cannot be read" in said["detail"] and "selling" not in said["title"]
        assert lines(server, "server.back", which) == []
        engine.proxies[which].heal()
    for which in names:  # not within five seconds, whatever a server does
        eventually(lambda: lines(server, "server.back", which), f"{which} is told to be back")
        away, = lines(server, "server.away", which)
        assert re.search(r' words=("[^"]{5,}"|\S{5,})', away), away
        assert len(lines(server, "server.back", which)) == 1


def test_a_refused_login_is_told_once(make_server, engine):
    if engine.rabbit is None:
        pytest.skip("no RabbitMQ")
    settings, database = engine.settings()
    settings = [s for s in settings if not s.startswith("amqp.url=")]
    settings += [f"amqp.url=amqp://sluice:wrong@127.0.0.1:{engine.rabbit.port}/%2f"]
    server = make_server(start=False, sets=settings, database=database)
    assert server.refused_start() == 1
    told = re.findall(r" start\.failed .*", server.log())
    assert len(told) == 1 and "refused user sluice" in told[0], told
    assert "wrong" not in server.log()
