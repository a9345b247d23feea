"""As many clients as one process may hold watch an item by SSE while it sells out.

One server with the embedded engine, one connection for each watcher, all in this process. When the
last unit is bought, every watcher must receive `item.sold_out`, once. The time between the first and
the last, and the memory of a watcher, are printed and are no criterion: a busy machine is slow.
"""
import resource
import select
import socket
import time

import sluicelib
import watchlib

SPARE_FILES = 500  # of the server's: its own, and requests that end by themselves
COMING_MAX = 256   # asked for, and not begun: a crowd, but no denial of service
SHORT = 3_000


def most():
    """How many watchers fit: a process has so many files, the server reserves a quarter of its
    connections, and its loops get unequal shares."""
    return (resource.getrlimit(resource.RLIMIT_NOFILE)[1] - SPARE_FILES) * 72 // 100


class Watcher:
    def __init__(self, port, item):
        self.socket = socket.create_connection(("127.0.0.1", port))
        self.text, self.sold_out_at, self.told = b"", None, 0
        self.socket.sendall(f"GET /v1/items/{item}/events HTTP/1.1\r\nHost: sluice.test\r\n"
                            "Accept: text/event-stream\r\n\r\n".encode())
        self.socket.setblocking(False)

    def hear(self):
        """-> whether it has been shown the item"""
        try:
            more = self.socket.recv(65536)
        except BlockingIOError:
            return self.told > 0
        assert more, f"a stream ended: {self.text[-300:]}"
        self.text += more
        if not self.told:
            assert self.text.startswith(b"HTTP/1.1 200 "[:len(self.text)]), self.text
        *events, self.text = self.text.split(b"\n\n")
        for event in events:
            self.told += b"event: item\n" in event
            if b"event: item.sold_out\n" in event:
                assert self.sold_out_at is None, "told twice that it is sold out"
                self.sold_out_at = time.monotonic()
        return self.told > 0


class Crowd:
    def __init__(self, port, item, count):
        self.port, self.item, self.count = port, item, count
        self.watchers, self.epoll = {}, select.epoll()

    def come(self):
        shown = set()
        while len(shown) < self.count:
            while len(self.watchers) < self.count and len(self.watchers) - len(shown) < COMING_MAX:
                watcher = Watcher(self.port, self.item)
                self.watchers[watcher.socket.fileno()] = watcher
                self.epoll.register(watcher.socket, select.EPOLLIN)
            events = self.epoll.poll(60)
            assert events, f"{len(shown)} of {self.count} were shown the item"
            shown.update(fd for fd, _ in events if self.watchers[fd].hear())

    def listen(self):
        """Waits until every watcher got `item.sold_out`. -> when each did"""
        left = self.count
        while left > 0:
            events = self.epoll.poll(60)
            assert events, f"{left} of {self.count} were not told that it is sold out"
            for fd, _ in events:
                watcher = self.watchers[fd]
                before = watcher.sold_out_at
                watcher.hear()
                left -= before is None and watcher.sold_out_at is not None
        return sorted(watcher.sold_out_at for watcher in self.watchers.values())

    def leave(self):
        for watcher in self.watchers.values():
            watcher.socket.close()
        self.epoll.close()


def run(count=None, say=lambda text: None):
    count = count or most()
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (hard, hard))
    server = sluicelib.Server(sets=[f"server.connections={hard - SPARE_FILES}"])
    try:
        return watched(server.start(), count, say)
    finally:
        server.discard()
        resource.setrlimit(resource.RLIMIT_NOFILE, (soft, hard))


def watched(server, count, say):
    shop = sluicelib.Shop(server)
    lot = shop.lot(total=20, limit=0)
    before = watchlib.rss_bytes(server.process.pid)
    crowd = Crowd(server.port, lot.item, count)
    try:
        say(f"{count} come")
        began = time.monotonic()
        crowd.come()
        figures = {"watchers": count, "connected_s": round(time.monotonic() - began, 1)}
        figures["bytes_a_watcher"] = round((watchlib.rss_bytes(server.process.pid) - before) / count)
        say("the last units are bought")
        user = shop.user()
        answer = shop.buy(user, shop.ticket(user, lot.item)["ticket"], qty=lot.total)
        assert answer.status == 202, answer
        bought = time.monotonic()
        told = crowd.listen()
    finally:
        crowd.leave()
    figures["first_told_ms"] = round((told[0] - bought) * 1000)
    figures["all_told_ms"] = round((told[-1] - bought) * 1000)
    figures["apart_ms"] = round((told[-1] - told[0]) * 1000)
    figures["aim"] = f"apart_ms <= 2000: {'met' if figures['apart_ms'] <= 2000 else 'missed'}"
    return figures
