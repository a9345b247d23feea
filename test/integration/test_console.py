"""What the console reads, on both engines: the live feed has only the fields that the engine has, and
parked messages of a real queue are listed and sent again."""
import json
import os

import pytest

import enginelib
import rabbitlib
import sluicelib
from sluicelib import Shop, eventually, problem

MISSING = enginelib.missing() or rabbitlib.missing()
distributed = pytest.mark.skipif(MISSING != "", reason=f"not installed: {MISSING}")
DISTRIBUTED_ONLY = ("segments", "outbox", "queue", "leases", "spool", "troubles")


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


class Feed:
    """The live feed, read on from message to message."""

    def __init__(self, server):
        self.events = server.events("/v1/admin/live", server.admin_token)

    def __enter__(self):
        return self

    def __exit__(self, *unused):
        self.events.conn.close()

    def until(self, wanted):
        """The next message of a window that is as wanted."""
        return json.loads(self.events.until(
            lambda event: event.event == "live" and
            json.loads(event.data)["recent"]["window_ms"] > 0 and wanted(json.loads(event.data)),
            "such a message").data)


def test_the_feed_tells_latencies_of_the_last_seconds(make_server):
    server = make_server()
    shop = Shop(server)
    lot = shop.lot(total=40, limit=0)
    with Feed(server) as feed:
        begun = feed.until(bool)
        assert begun["recent"]["buy_answer"]["count"] == 0
        shop.order_locked(shop.user(), lot.item)
        bought = feed.until(lambda message: message["recent"]["buy_answer"]["count"] > 0)
        assert bought["recent"]["buy_answer"]["p50_us"] > 0
        assert set(bought["recent"]) - {"window_ms"} == set(bought["latencies"]) - {"since_ms"}


@pytest.mark.slow  # the window is ten seconds; test/unit/obs/test_latency_window.c has it without waiting
def test_the_feed_tells_nothing_older_than_the_last_seconds(make_server):
    """What happened before the window is only in what was counted since the start."""
    server = make_server()
    shop = Shop(server)
    lot = shop.lot(total=40, limit=0)
    with Feed(server) as feed:
        begun = feed.until(bool)
        shop.order_locked(shop.user(), lot.item)
        feed.until(lambda message: message["recent"]["buy_answer"]["count"] > 0)
        after = feed.until(lambda message: message["recent"]["buy_answer"]["count"] == 0)
        assert after["recent"]["window_ms"] < 10500
        assert after["latencies"]["buy_answer"]["count"] == 1
        assert after["now_ms"] - begun["now_ms"] >= 9500


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
                sum(one["locked"] for one in segments) == 12 and
                any(one["name"] == "keeper" for one in message.get("leases", ())) and
                message.get("queue", {}).get("ready") == 0 and
                message["booker"]["booked"] >= 6 and message["relay"]["confirmed"] >= 6)

    said = feed(desk.server, told)
    assert said["engine"] == "distributed"
    assert [one["id"] for one in said["segments"]] == [0, 1]
    for one in said["segments"]:
        assert one["state"] == "home" and one["epoch"] > 0
        assert one["address"] == desk.engine.redis.url.split("/")[2].split("@")[-1]
    assert sum(one["available"] for one in said["segments"]) == 28
    assert said["outbox"]["depth"] == sum(one["outbox"] for one in said["segments"])
    assert said["queue"] == {"away": False, "ready": 0, "retry": 0, "parked": 0, "consumers": 1}
    assert said["troubles"] == []
    keeper = next(one for one in said["leases"] if one["name"] == "keeper")
    assert keeper["holder"] and keeper["token"] > 0 and keeper["until_ms"] > said["now_ms"] - 60000


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
    # What cannot be read is put aside again by the booker, and may be sent twice: nothing is lost.
    for limit in (1, 2):
        sent = desk.server.admin("POST", "/queue/redrive", {"limit": limit})
        assert sent.status == 200 and sent.json()["sent"] == limit, sent
        assert f"queue.redriven queue=orders messages={limit}" in desk.server.log()
        eventually(lambda: unreadable(desk) == {"no <b>message</b> of ours", "AA"},
                   "the unreadable ones to be back")
    problem(desk.server.admin("GET", "/queue?queue=payments"), 404, "not_found")
    problem(desk.server.admin("GET", "/queue?queue=events"), 400, "bad_request", field="queue")
    problem(desk.server.admin("GET", "/queue?limit=201"), 400, "bad_request", field="limit")
    problem(desk.server.admin("POST", "/queue/redrive", {"limit": 0}), 400, "bad_request",
            field="limit")
    problem(desk.server.admin("POST", "/queue/redrive", {"all": True}), 400, "bad_request")


def unreadable(desk):
    return {one["text"] for one in desk.parked()["messages"] if "text" in one}


@distributed
def test_all_that_is_parked_is_sent_round(make_server):
    """Without a limit. Nobody can book these, so they wait for a retry afterwards."""
    desk = Desk(make_server)
    desk.park(*(f"1 0 1 20000000002R000000000500{number:02} 5 11 2 1700000000000"
                for number in range(3)))
    sent = desk.server.admin("POST", "/queue/redrive")
    assert sent.status == 200 and sent.json()["sent"] == 3, sent
    shown = eventually(lambda: (now := desk.parked())["retry"] == 3 and now, "three retries")
    assert shown["parked"] == 0 and shown["messages"] == []


@distributed
def test_a_broker_that_is_gone_is_told_and_blocks_nobody(make_server):
    engine = enginelib.Proxied()
    proxy = engine.proxies["rabbitmq"]
    try:
        settings, database = engine.settings()
        server = make_server(sets=settings, database=database)
        assert feed(server, lambda m: "queue" in m)["queue"]["away"] is False
        proxy.refuse()
        assert feed(server, lambda m: m["queue"]["away"])["queue"]["parked"] == 0
        problem(server.admin("GET", "/queue"), 503, "degraded", retry="later")
        proxy.heal()
        assert feed(server, lambda m: not m["queue"]["away"])
        server.stop()
    finally:
        engine.discard()


# ---------------------------------------------------------------- the report

def report_of(server, sale, query=""):
    response = server.admin("GET", f"/sales/{sale}/report{query}")
    assert response.status == 200, response
    assert response.get("cache-control") == "no-store"
    return response


def faults(report):
    return [one["event"] for one in report["faults"]]


def sell(shop, lot):
    """Four units: two winners pay one each, one lets it go, one waits; and who came too late."""
    buyers = [shop.user() for _ in range(6)]
    tickets = [shop.ticket(user, lot.item) for user in buyers]
    orders = []
    for user, ticket in zip(buyers[:4], tickets):
        shop.bought(user, ticket)
        orders.append(shop.wait_status(user, ticket["order_id"], "LOCKED"))
    for order in orders[:2]:
        shop.paid(order["order_id"], 100)
    for user, ticket in zip(buyers[4:], tickets[4:]):
        problem(shop.buy(user, ticket), 409, "sold_out")
    shop.cancelled(buyers[2], orders[2]["order_id"])
    return buyers


def test_the_report_is_of_one_sale_and_compares(make_server):
    server = make_server()
    shop = Shop(server)
    first = shop.lot(total=4, limit=1, price=100)
    sell(shop, first)
    second = shop.lot(total=4, limit=1, price=100)
    sell(shop, second)
    sell_again = shop.ticket(shop.user(), second.item)
    report = report_of(server, second.sale).json()
    assert sell_again and report["sale_id"] == second.sale
    assert (report["orders"], report["buyers_with_orders"]) == (4, 4)
    assert (report["winners"], report["payers"], report["units_paid"]) == (3, 2, 2)
    assert (report["sell_through_permille"], report["unpaid_permille"]) == (500, 0)
    assert report["paid_cents"] == 200 and report["peak_orders_per_s"] >= 1
    assert report["booking_ms"]["count"] == 4
    # Seven tickets and six buys of this sale alone, by seven buyers; the other sale is not in it.
    funnel = report["funnel"]
    assert (funnel["requests"], funnel["tickets"], funnel["accepted"]) == (13, 7, 4)
    assert 6 <= funnel["buyers_asking"] <= 8
    assert (funnel["locked"], funnel["paid"], funnel["cancelled"]) == (4, 2, 1)
    assert report["rejects"] == {"sold_out": 2}
    assert report["latencies"]["buy_answer"]["count"] == 4
    assert report["server"]["rejects"]["sold_out"] == 4
    for course in report["course"].values():
        assert len(course["steps"]) == 60 and course["step_ms"] > 0
        assert sum(step["taken"] for step in course["steps"]) == 4
    whole = report["course"]["whole"]["steps"]
    assert sum(step["paid"] for step in whole) == 2
    assert sum(step["returned"] for step in whole) == 1
    assert report["previous"]["sale_id"] == first.sale
    assert (report["previous"]["winners"], report["previous"]["requests"]) == (3, 12)
    assert "previous" not in report_of(server, first.sale).json()
    eventually(lambda: "server.ready" in faults(report_of(server, second.sale).json()),
               "the server's start in it")


def test_what_comes_after_the_rush_is_not_in_it(server, shop):
    lot = shop.lot(total=2, limit=1, price=100)
    orders = [shop.order_locked(shop.user(), lot.item) for _ in range(2)]
    rush = report_of(server, lot.sale).json()["course"]["rush"]
    end_ms = rush["from_ms"] + 60 * rush["step_ms"]
    eventually(lambda: server.now_ms() > end_ms, "the rush is over")
    shop.paid(orders[0]["order_id"], 100)
    courses = report_of(server, lot.sale).json()["course"]
    assert courses["rush"]["from_ms"] + 60 * courses["rush"]["step_ms"] == end_ms
    assert sum(step["taken"] for step in courses["rush"]["steps"]) == 2
    assert sum(step["paid"] for step in courses["rush"]["steps"]) == 0
    assert sum(step["paid"] for step in courses["whole"]["steps"]) == 1


def test_the_counts_and_faults_outlive_a_restart(make_server):
    server = make_server()
    shop = Shop(server)
    lot = shop.lot(total=4, limit=1, price=100)
    sell(shop, lot)
    shop.moved(lot.sale, "pause")
    before = report_of(server, lot.sale).json()
    server.restart()
    # A server is ready a moment before it says so.
    after = eventually(lambda: (now := report_of(server, lot.sale).json()) and
                       faults(now).count("server.ready") == 2 and now, "the second start in it")
    for name in ("requests", "tickets", "accepted", "buyers_asking", "since_ms"):
        assert after["funnel"][name] == before["funnel"][name], name
    assert after["rejects"] == before["rejects"] == {"sold_out": 2}
    assert after["latencies"] == before["latencies"]
    events = faults(after)
    order = [events.index(name) for name in ("server.ready", "sale.paused", "server.stopping")]
    assert order == sorted(order) and events[-1] == "server.ready", events
    # A damaged file loses its counts, and the log says so; orders come from the ledger.
    server.stop()
    with open(f"{server.data}/tallies", "r+b") as file:
        file.seek(200)
        file.write(b"\xff")
    server.start()
    assert "tallies.begun_anew" in server.log()
    assert os.path.exists(f"{server.data}/tallies.unreadable")
    damaged = report_of(server, lot.sale).json()
    assert damaged["funnel"]["requests"] == 0 and damaged["orders"] == 4


def test_the_page_shows_hostile_names_as_text(server, tmp_path):
    shop = Shop(server)
    name = "<script>alert(1)</script>\"'&"
    lot = shop.lot(total=4, limit=1, price=100, name=name, item={"name": name})
    sell(shop, lot)
    for lang, word in (("en", "Sale report"), ("zh", "\u573a\u6b21\u62a5\u544a")):
        response = report_of(server, lot.sale, f"?format=html&lang={lang}")
        page = response.body.decode()
        assert response.get("content-type") == "text/html; charset=utf-8"
        assert "default-src 'none'" in response.get("content-security-policy")
        assert word in page and page.count("<svg") >= 4 and page.rstrip().endswith("</html>")
        assert "<script" not in page and "&lt;script&gt;alert(1)&lt;/script&gt;" in page
        assert "http:" not in page and "https:" not in page, "nothing from elsewhere"
    target = tmp_path / "report.html"
    where = ("--url", f"http://127.0.0.1:{server.port}", "--data", str(server.data))
    done = sluicelib.run("sale", "report", lot.sale, *where, "--html", target, "--lang", "zh")
    assert done == (0, "", "") and "\u573a\u6b21" in target.read_text()
    for wrong in (("--html", "x", "--json"), ("--lang", "fr")):
        assert sluicelib.run("sale", "report", lot.sale, *where, *wrong)[0] == 2
    problem(server.admin("GET", f"/sales/{lot.sale}/report?format=pdf"), 400, "bad_request",
            field="format")
    problem(server.admin("GET", f"/sales/{lot.sale}/report?lang=fr"), 400, "bad_request",
            field="lang")
    problem(server.admin("GET", "/sales/9007199254740991/report"), 404, "not_found")
