"""A missing process shows on the live feed, in /metrics and in the log, and so does its return."""
import json
import re
import time

import pytest

import clusterlib
import enginelib
import serverlib
import sluicelib
from sluicelib import eventually

pytestmark = pytest.mark.skipif(serverlib.missing() != "" or enginelib.shared().rabbit is None,
                                reason="not installed: a server of the distributed engine")
COUNTS = {"front": 1, "relay": 1, "booker": 2, "keeper": 2}


class Feed:
    def __init__(self, server):
        self.events = server.events("/v1/admin/live", server.admin_token)

    def troubles(self, wanted, consumers):
        """The message with these troubles and so many bookers."""
        def is_it(event):
            message = json.loads(event.data) if event.event == "live" else {}
            return {one["what"] for one in message.get("troubles", [{"what": ""}])} == wanted and \
                message["queue"].get("consumers") == consumers

        return json.loads(self.events.until(is_it, f"troubles {wanted}").data)


def gauge(server, name):
    return int(re.search(rf"^{name} (\d+)$", server.get("/metrics").body.decode(), re.M)[1])


def test_without_bookers_and_keepers_all_is_not_well():
    with clusterlib.Shared(COUNTS, ["redis.segments=1"], proxied=False) as stage:
        server = stage.door()
        shop = sluicelib.Shop(server)
        lot = shop.lot(total=100, limit=1)
        feed = Feed(server)
        feed.troubles(set(), 2)
        for member in (*stage.kinds["booker"], *stage.kinds["keeper"]):
            member.kill()
        since = time.monotonic()
        for _ in range(20):
            user = shop.user()
            assert shop.buy(user, shop.ticket(user, lot.item)).status == 202
        feed.troubles({"no_booker", "no_keeper"}, 0)
        print(f"told after {time.monotonic() - since:.1f} s")
        assert gauge(server, "sluice_cluster_troubles") == 2
        assert gauge(server, "sluice_queue_consumers") == 0
        assert gauge(server, "sluice_keeper_lease_unrenewed_seconds") >= 6

        def waiting(message):
            booker, = (one for one in message["troubles"] if one["what"] == "no_booker")
            return booker["n"] == 20

        eventually(lambda: waiting(feed.troubles({"no_booker", "no_keeper"}, 0)), "20 to wait")
        log = stage.fronts[0].log()
        assert "cluster.trouble what=no_booker" in log and "cluster.trouble what=no_keeper" in log
        stage.start()
        feed = Feed(server)
        feed.troubles(set(), 2)
        eventually(lambda: gauge(server, "sluice_cluster_troubles") == 0, "no trouble")
        log = stage.fronts[0].log()
        assert "cluster.well what=no_booker" in log and "cluster.well what=no_keeper" in log


def test_without_a_relay_the_outbox_is_told_to_be_old():
    with clusterlib.Shared(dict(COUNTS, booker=1, keeper=1), ["redis.segments=1"],
                           proxied=False) as stage:
        shop = sluicelib.Shop(stage.door())
        lot = shop.lot(total=100, limit=1)
        stage.kinds["relay"][0].kill()
        user = shop.user()
        assert shop.buy(user, shop.ticket(user, lot.item)).status == 202
        feed = Feed(stage.door())
        old, = feed.troubles({"outbox_old"}, 1)["troubles"]
        assert old["n"] == 1
        stage.start()
        Feed(stage.door()).troubles(set(), 1)
