"""A subscriber of the events exchange, and its checks.

Tap        a durable queue bound to the exchange, emptied all the time; it outlives restarts of the
           broker.
expected   the ids that a ledger's events must have, in order.
check      compares what arrived with that: none missing, first deliveries in order, duplicates
           identical byte by byte, every one a CloudEvent of version 1.0.
"""
import json
import re
import struct
import threading
import time

import serverlib

CONTENT_TYPE = b"application/cloudevents+json"
ORDER_MEMBERS = {"order_id", "sale_id", "item_id", "sku", "user_id", "qty", "status", "reason",
                 "amount_cents", "currency", "pay_url", "pay_by_ms", "created_at_ms", "at_ms",
                 "payment_id"}
ITEM_MEMBERS = {"item_id", "sale_id", "sku", "name", "at_ms"}
DURABLE = b"\x02"  # of the bits of exchange.declare and queue.declare
# RFC 3339, in UTC.
TIME = re.compile(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{3}Z")


def properties(data):
    """(content type, delivery mode) of a message's header."""
    flags, at = struct.unpack(">H", data[:2])[0], 2
    content_type, mode = None, None
    if flags & 0x8000:
        content_type, at = serverlib.text_at(data, at)
    if flags & 0x4000:
        _, at = serverlib.text_at(data, at)
    if flags & 0x2000:
        at += 4 + struct.unpack(">I", data[at:at + 4])[0]
    if flags & 0x1000:
        mode = data[at]
    return content_type, mode


def declare_exchange(amqp, name, kind):
    """As somebody else would make it: durable."""
    amqp.method(1, 40, 10, b"\0\0" + serverlib.short(name.encode()) +
                serverlib.short(kind.encode()) + DURABLE + struct.pack(">I", 0))
    amqp.expect(40, 11)


class Tap(threading.Thread):
    def __init__(self, port, exchange, user, password, key="#", queue="listener"):
        super().__init__(daemon=True)
        self.port, self.exchange, self.key, self.queue = port, exchange, key, queue
        self.user, self.password = user, password
        self.got = []  # (routing key, content type, delivery mode, body), as they came
        self.bound, self.ending = threading.Event(), threading.Event()
        self.error = None

    def open(self):
        self.start()
        assert self.bound.wait(60), f"could not bind: {self.error}"
        return self

    def close(self):
        self.ending.set()
        self.join(60)

    def run(self):
        while not self.ending.is_set():
            try:
                with serverlib.Amqp(self.port, self.user, self.password) as amqp:
                    self.bind(amqp)
                    self.bound.set()
                    while not self.ending.is_set():
                        self.take(amqp)
            except (OSError, AssertionError, struct.error) as error:  # the broker is away
                self.error = error
                time.sleep(0.1)

    def bind(self, amqp):
        table = struct.pack(">I", 0)
        exchange, queue = (serverlib.short(name.encode()) for name in (self.exchange, self.queue))
        declare_exchange(amqp, self.exchange, "topic")
        amqp.method(1, 50, 10, b"\0\0" + queue + DURABLE + table)
        amqp.expect(50, 11)
        amqp.method(1, 50, 20, b"\0\0" + queue + exchange + serverlib.short(self.key.encode()) +
                    b"\0" + table)
        amqp.expect(50, 21)

    def take(self, amqp):
        message = amqp.get(self.queue)
        if message is None:
            time.sleep(0.02)
            return
        tag, exchange, key, header, body = message
        assert exchange == self.exchange.encode(), message
        self.got.append((key.decode(), *properties(header), body))
        amqp.ack(tag)

    def ids(self):
        return {json.loads(body)["id"] for _, _, _, body in self.got}


def expected(rows):
    """rows: (number, kind, b) of all events of a ledger, in order."""
    ids = []
    for number, kind, last in rows:
        if kind.startswith("order."):
            ids.append(str(number))
            if kind == "order.locked" and last:
                ids.append(f"{number}-sold_out")
    return ids


def check_event(event, key, source):
    """One CloudEvent, by the specification's rules for attributes and its JSON format."""
    assert event["specversion"] == "1.0" and event["source"] == source, event
    for name in ("id", "type", "subject"):
        assert isinstance(event[name], str) and event[name], event
    assert event["type"] == key, (key, event)
    assert TIME.fullmatch(event["time"]), event
    assert event["datacontenttype"] == "application/json", event
    assert all(re.fullmatch("[a-z0-9]{1,20}", name) for name in event), event
    number = int(event["id"].split("-")[0])
    sold_out = event["type"] == "item.sold_out"
    assert event["sequence"] == f"{number:020}" + (".1" if sold_out else ""), event
    data = event["data"]
    assert set(data) == (ITEM_MEMBERS if sold_out else ORDER_MEMBERS), data
    assert event["subject"] == str(data["item_id"] if sold_out else data["order_id"]), event
    if not sold_out:
        assert data["status"] == event["type"].split(".")[1].upper(), event
        assert (data["reason"] is not None) == (data["status"] == "FAILED"), event
        assert (data["payment_id"] is not None) == (data["status"] == "PAID"), event
        assert (data["pay_by_ms"] is None) == (data["status"] == "FAILED"), event


def check(got, rows, source):
    """({id: event}, how many came that had come before)."""
    first, doubles = {}, 0
    for key, content_type, mode, body in got:
        assert content_type == CONTENT_TYPE and mode == 2, (content_type, mode)
        event = json.loads(body)
        if event["id"] in first:
            assert first[event["id"]] == body, (first[event["id"]], body)
            doubles += 1
        else:
            check_event(event, key, source)
            first[event["id"]] = body
    wanted = expected(rows)
    assert list(first) == wanted, [(a, b) for a, b in zip(first, wanted) if a != b][:5]
    return {one: json.loads(body) for one, body in first.items()}, doubles
