"""What the console reads, on both engines: the feed with what an engine has and nothing it has not, and
the parked messages of a real queue, shown and sent round again."""
import json

import pytest

import enginelib
import proxylib
import rabbitlib
from sluicelib import Shop, eventually, problem

MISSING = enginelib.missing() or rabbitlib.missing()
distributed = pytest.mark.skipif(MISSING != "", reason=f"not installed: {MISSING}")
DISTRIBUTED_ONLY = ("segments", "outbox", "queue", "leases", "spool")


def feed(server, wanted):
    """The first message of the live feed that is as wanted."""
    with server.events("/v1/admin/live", server.admin_token) as events:
        return json.loads(events.until(lambda event: event.event == "live" and
                                       wanted(json.loads(event.data)), "such a message").data)


class Desk:
    """A server of two segments with a queue of its own."""

    def __init__(self, make_server):
        self.engine = enginelib.shared()
        settings, database = self.engine.settings(segments=2)
        self.queue = next(s for s in settings if s.startswith("amqp.queue=")).split("=")[1]
        self.server = make_server(sets=settings, database=database)
        self.shop = Shop(self.server)

    def park(self, *bodies):
        self.engine.rabbit.publish(f"{self.queue}.dead", f"{self.queue}.parked", *bodies)

    def parked(self, query=""):
        response = self.server.admin("GET", f"/queue{query}")
        assert response.status == 200, response
        assert response.get("cache-control") == "no-store"
        return response.json()


@pytest.mark.skipif(enginelib.os.environ.get("SLUICE_ENGINE") == "distributed",
                    reason="of the embedded engine")
def test_the_embedded_engine_tells_of_nothing_it_has_not(server):
    Shop(server).lot()
    said = feed(server, lambda message: message["latencies"]["journal_sync"]["count"] > 0)
    assert said["engine"] == "embedded"
    assert not set(DISTRIBUTED_ONLY) & set(said)
    problem(server.admin("GET", "/queue"), 404, "not_found")
    problem(server.admin("POST", "/queue/redrive"), 404, "not_found")


@distributed
def test_the_feed_tells_how_segments_queue_and_leases_are(make_server):
    desk = Desk(make_server)
    lot = desk.shop.lot(total=40, limit=0)
    eventually(lambda: desk.shop.try_ticket(desk.shop.user(), lot.item).status == 201, "a ticket")
    for _ in range(6):
        desk.shop.order_locked(desk.shop.user(), lot.item, qty=2)

    def told(message):
        segments = message.get("segments", ())
        return (len(segments) == 2 and all("available" in one for one in segments) and
                sum(one["locked"] for one in segments) == 12 and message.get("leases") and
                message.get("queue", {}).get("ready") == 0)

    said = feed(desk.server, told)
    assert said["engine"] == "distributed"
    assert [one["id"] for one in said["segments"]] == [0, 1]
    for one in said["segments"]:
        assert one["state"] == "home" and one["epoch"] > 0
        assert one["address"] == desk.engine.redis.url.split("/")[2].split("@")[-1]
    assert sum(one["available"] for one in said["segments"]) == 28
    assert said["outbox"]["depth"] == sum(one["outbox"] for one in said["segments"])
    assert said["queue"] == {"away": False, "ready": 0, "retry": 0, "parked": 0}
    keeper = next(one for one in said["leases"] if one["name"] == "keeper")
    assert keeper["holder"] and keeper["token"] > 0 and keeper["until_ms"] > said["now_ms"] - 60000
    assert said["booker"]["booked"] >= 6 and said["relay"]["confirmed"] >= 6


@distributed
def test_parked_messages_are_shown_and_sent_round(make_server):
    desk = Desk(make_server)
    # Of an item that the ledger does not have: nobody can book it, so it comes back here.
    order = "20000000002R00000000050000"
    desk.park(f"1 0 1 {order} 5 11 2 1700000000000", "no <b>message</b> of ours", "\x00")
    shown = desk.parked()
    assert (shown["queue"], shown["parked"], shown["ready"]) == ("orders", 3, 0)
    first = next(one for one in shown["messages"] if "order_id" in one)
    assert first["order_id"] == order and first["age_ms"] > 10**10 and first["item_id"] == 11
    assert {one.get("text") for one in shown["messages"]} == {
        None, "no <b>message</b> of ours", "AA"}
    assert len(desk.parked("?limit=1")["messages"]) == 1
    assert desk.parked("?limit=0")["messages"] == []
    assert feed(desk.server, lambda m: m.get("queue", {}).get("parked") == 3)
    sent = desk.server.admin("POST", "/queue/redrive", {"limit": 1})
    assert sent.status == 200 and sent.json()["sent"] == 1, sent
    sent = desk.server.admin("POST", "/queue/redrive")
    assert sent.status == 200 and sent.json()["sent"] >= 2, sent
    assert "queue.redriven queue=orders" in desk.server.log()
    # What cannot be read is put aside again by the booker: nothing was lost.
    eventually(lambda: desk.parked()["parked"] >= 2, "the unreadable ones to be back")
    problem(desk.server.admin("GET", "/queue?queue=payments"), 404, "not_found")
    problem(desk.server.admin("GET", "/queue?queue=events"), 400, "bad_request", field="queue")
    problem(desk.server.admin("GET", "/queue?limit=201"), 400, "bad_request", field="limit")
    problem(desk.server.admin("POST", "/queue/redrive", {"limit": 0}), 400, "bad_request",
            field="limit")
    problem(desk.server.admin("POST", "/queue/redrive", {"all": True}), 400, "bad_request")


@distributed
def test_a_broker_that_is_gone_is_told_and_blocks_nobody(make_server):
    engine = enginelib.shared()
    settings, database = engine.settings()
    proxy = proxylib.Proxy(("127.0.0.1", engine.rabbit.port))
    try:
        settings = [s.replace(f":{engine.rabbit.port}/", f":{proxy.port}/")
                    if s.startswith("amqp.url=") else s for s in settings]
        server = make_server(sets=settings, database=database)
        assert feed(server, lambda m: "queue" in m)["queue"]["away"] is False
        proxy.refuse()
        proxy.reset()
        assert feed(server, lambda m: m["queue"]["away"])["queue"]["parked"] == 0
        problem(server.admin("GET", "/queue"), 503, "degraded", retry="later")
        proxy.heal()
        assert feed(server, lambda m: not m["queue"]["away"])
        server.stop()
    finally:
        proxy.close()
