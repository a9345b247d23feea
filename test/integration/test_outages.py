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
