"""Many buyers wait for their orders by SSE, at several fronts of the distributed engine.

A process may have 20,000 files, and a front reserves a quarter of its connections for short
requests. So 100,000 watchers need several fronts, and several client processes (watch_crowd.c).

 1. With the bookers stopped, as many orders are bought as there are watchers: all QUEUED.
 2. Each order is watched at some front. One watcher in ten disconnects and returns at another front
    with Last-Event-ID; others do so later, after LOCKED.
 3. The bookers start: everything is LOCKED within a short time, and every watcher must receive it.
 4. Some orders are paid, some cancelled, through other fronts; the others expire.

Then the events of each watcher are compared with the ledger: in order, none twice, the final state
exactly once and the same as in the ledger. How late they came is printed and is no criterion.
"""
import collections
import math
import os
import queue
import subprocess
import tempfile
import threading
import time

import clusterlib
import crashlib
import sluicelib

CROWD = os.path.join(os.path.dirname(sluicelib.BINARY), "test", "watch_crowd")
RETURN_EVERY = 10
QUIET_S = 600  # nobody is told anything for so long: it hangs
LOAD_CONNECTIONS = 96
# On a busy machine Redis may answer late; nobody is to stand in line for that here.
SETS = ("server.connections=19000", "http.small_buffers=4096", "redis.timeout_ms=30000")
SEGMENTS = 3


class Size:
    def __init__(self, fronts, watchers, pay_within_s, moved):
        """moved: orders that are paid, and as many that are cancelled."""
        self.fronts, self.watchers, self.pay_within_s = fronts, watchers, pay_within_s
        self.moved = moved


LONG = Size(fronts=8, watchers=100_000, pay_within_s=240, moved=500)
SHORT = Size(fronts=3, watchers=6_000, pay_within_s=20, moved=50)
GATE = Size(fronts=3, watchers=1_500, pay_within_s=4, moved=20)


class Wrong(AssertionError):
    """A watcher was told something else than it should have been."""


def percentile(values, share):
    values = sorted(values)
    return values[min(len(values) - 1, math.ceil(share * len(values)) - 1)] if values else None


def rss_bytes(pid):
    with open(f"/proc/{pid}/status", encoding="ascii", errors="replace") as file:
        return next(int(line.split()[1]) * 1024 for line in file if line.startswith("VmRSS:"))


# ---------------------------------------------------------------- the watchers' processes

class Crowd:
    """One process of watchers; its lines are put into a queue of (crowd, words)."""

    def __init__(self, number, path, front, other, pay_ms, heard):
        self.front, self.watching = front, False
        self.process = subprocess.Popen(
            [CROWD, path, f"127.0.1.{number}", str(front.port), str(other.port),
             str(RETURN_EVERY), str(pay_ms)],
            stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
        self.reader = threading.Thread(target=self._read, args=(heard,), daemon=True)
        self.reader.start()

    def _read(self, heard):
        for line in self.process.stdout:
            heard.put((self, line.rstrip("\n").split(" ", 1)))
        error = self.process.stderr.read()
        heard.put((self, ["exit", f"{self.process.wait()} {error}".strip()]))

    def kill(self):
        if self.process.poll() is None:
            self.process.kill()
        self.process.wait()


class Watch:
    """One run. result() gives the figures, or raises Wrong."""

    def __init__(self, size, say=lambda text: None, folder=None, shared=False):
        """shared: on the servers that all tests share."""
        self.size, self.say = size, say
        counts = {"front": size.fronts, "relay": 1, "booker": 1, "keeper": 1}
        if shared:
            self.stage = clusterlib.Shared(counts, SETS, SEGMENTS, proxied=False)
        else:
            self.stage = clusterlib.Distributed(folder, counts=counts,
                                                sets=[*SETS, f"redis.segments={SEGMENTS}"])
        self.heard = queue.Queue()
        self.crowds = []
        self.orders = {}  # order -> user
        self.told = collections.defaultdict(list)  # order -> [(version, status)]
        self.late = collections.defaultdict(list)  # status -> [ms]
        self.locked_at = {}  # order -> when it was heard here
        self.booked = set()  # orders that were told to be LOCKED, or more
        self.counts = collections.Counter()
        self.problems, self.done = [], 0
        self.figures = {"fronts": size.fronts, "watchers": size.watchers}

    def __enter__(self):
        self.stage.start()
        return self

    def __exit__(self, *unused):
        for crowd in self.crowds:
            crowd.kill()
        self.stage.discard()

    # ------------------------------------------------------------ steps

    def run(self):
        booker = self.stage.members["booker1"]
        assert booker.stop(), "the booker does not end"
        self.sell()
        before = self.memory()
        self.watch()
        after = self.memory()
        self.figures["front_mib"] = round(sum(after) / len(after) / 2**20, 1)
        self.figures["bytes_a_watcher"] = round((sum(after) - sum(before)) / self.size.watchers)
        self.say("the booker comes")
        began = time.monotonic()
        booker.start()
        self.listen(lambda: len(self.booked) == self.size.watchers)
        self.figures["locked_s"] = round(time.monotonic() - began, 1)
        self.move_some()
        self.say("the deadlines come")
        self.listen(lambda: self.done == len(self.crowds))
        self.check()
        return self.result()

    def sell(self):
        """As many orders as there are watchers; each is in Redis, none in the ledger."""
        door = self.stage.door()
        shop = sluicelib.Shop(door)
        made = shop.create_sale([sluicelib.item_json(total=self.size.watchers, limit_per_user=1)],
                                pay_within_s=self.size.pay_within_s)
        shop.moved(made["id"], "open")
        self.item = made["items"][0]
        for front in self.stage.fronts:  # news of a sale may take a second to each
            at_front = self.stage.door(front)
            sluicelib.eventually(
                lambda at=at_front: at.get(f"/v1/items/{self.item['id']}").status == 200,
                f"the item at {front.name}")
        tell = crashlib.TellFile(os.path.join(self.stage.folder, "tell"))
        began = time.monotonic()
        rush = crashlib.Rush(door, [self.item["id"]], tell.path, users=self.size.watchers,
                             connections=LOAD_CONNECTIONS, result="none", retries=100,
                             no_audit=True)
        told = crashlib.Told()
        while rush.running():
            told.read(tell)
            self.say(f"{told.told_now()} bought")
            time.sleep(0.2)
        rush.result()
        told.read(tell)
        self.orders = {order.id: order.user for order in told.all().values()}
        assert len(self.orders) == self.size.watchers, \
            f"{len(self.orders)} of {self.size.watchers} orders were taken: {told.refusals}"
        # On a busy machine some stood in line at their front, and no other front knew of them yet.
        sluicelib.eventually(lambda: self.gauge("sluice_spool_undecided") == 0,
                             "Redis to have decided every order", guard_s=QUIET_S)
        self.figures["bought_s"] = round(time.monotonic() - began, 1)

    def memory(self):
        return [rss_bytes(front.pid) for front in self.stage.fronts]

    def watch(self):
        """Each front has its process of watchers; who comes back does so at the next one."""
        fronts = self.stage.fronts
        door = self.stage.door()
        key = door.secret_bytes("jwt.key")
        orders = list(self.orders.items())
        began = time.monotonic()
        for number, front in enumerate(fronts):
            path = os.path.join(self.stage.folder, f"watchers-{number}")
            with open(path, "w", encoding="ascii") as file:
                for order, user in orders[number::len(fronts)]:
                    file.write(f"{order} {sluicelib.mint(user, key=key, ttl=86400)}\n")
            self.crowds.append(Crowd(number + 1, path, front, fronts[(number + 1) % len(fronts)],
                                     self.size.pay_within_s * 1000, self.heard))
        self.listen(lambda: all(crowd.watching for crowd in self.crowds))
        self.figures["connected_s"] = round(time.monotonic() - began, 1)
        sluicelib.eventually(lambda: self.gauge("sluice_http_watchers") == self.size.watchers,
                             "the fronts to say so, too")

    def gauge(self, name):
        """What the fronts themselves say, together."""
        total = 0
        for front in self.stage.fronts:
            text = self.stage.door(front).get("/metrics").body.decode()
            total += sum(int(line.split()[1]) for line in text.splitlines()
                         if line.startswith(f"{name} "))
        return total

    def move_some(self):
        """Some are paid, some cancelled, each at some front: those with the latest deadlines, the
        last one first."""
        shops = [sluicelib.Shop(self.stage.door(front)) for front in self.stage.fronts]
        self.moved = {}
        latest = [order for order in self.told if self.told[order][-1][1] == "LOCKED"]
        latest.sort(key=self.locked_at.get, reverse=True)
        for number, order in enumerate(latest[:2 * self.size.moved]):
            shop, user = shops[number % len(shops)], self.orders[order]
            if number % 2:
                answer = shop.cancel(user, order)
            else:
                answer = shop.pay(order, self.item["price_cents"], f"pay-{order}")
            if answer.status == 200:  # the deadline of others came meanwhile
                self.moved[order] = "CANCELLED" if number % 2 else "PAID"

    # ------------------------------------------------------------ what is heard

    def listen(self, enough):
        """Until that is so; a crowd that ends before its time is an error."""
        while not enough():
            try:
                crowd, words = self.heard.get(timeout=QUIET_S)
            except queue.Empty:
                raise Wrong(f"nobody was told anything for {QUIET_S} s: {dict(self.counts)}, "
                            f"{self.problems[:10]}") from None
            self.hear(crowd, words[0], words[1].strip() if len(words) > 1 else "")
            if len(self.problems) > 100:
                raise Wrong("; ".join(self.problems[:10]))

    def hear(self, crowd, word, text):
        if word == "told":
            order, version, status, late_ms = text.split()
            self.told[order].append((int(version), status))
            self.late[status].append(int(late_ms))
            self.counts[status] += 1
            if status != "QUEUED":
                self.booked.add(order)
            if status == "LOCKED":
                self.locked_at[order] = time.monotonic()
            if self.counts.total() % 500 == 0:
                self.say(", ".join(f"{count} {status}" for status, count in self.counts.items()))
        elif word == "watching":
            crowd.watching = True
        elif word == "done":
            refused, returned = text.split()
            self.counts["refused"] += int(refused)
            self.counts["returned"] += int(returned)
        elif word == "exit":
            if text != "0":
                raise Wrong(f"the watchers of {crowd.front.name} ended with {text}")
            self.done += 1
        else:
            self.problems.append(f"{word} {text}")

    # ------------------------------------------------------------ the verdict

    def check(self):
        with crashlib.Ledger(self.stage.door()) as ledger:
            rows = {row.id: row.status for row in ledger.orders() if row.item == self.item["id"]}
        final = ("PAID", "CANCELLED", "EXPIRED")
        for order in self.orders:
            states = [status for _, status in self.told[order]]
            if [status for status in states if status in final] != [rows.get(order)] or \
                    states[-1] not in final:
                self.problems.append(f"{order} is {rows.get(order)}, its watcher heard {states}")
            if self.moved.get(order, rows.get(order)) != rows.get(order):
                self.problems.append(f"{order} was {self.moved[order]}, is {rows.get(order)}")
        if len(rows) != len(self.orders):
            self.problems.append(f"{len(rows)} orders in the ledger, {len(self.orders)} sold")
        if not self.moved:
            self.problems.append("nothing was paid or cancelled")
        if self.counts["QUEUED"] != self.size.watchers or not self.counts["returned"]:
            self.problems.append(f"not everyone began with QUEUED, some coming back: {self.counts}")
        if self.problems:
            raise Wrong(f"{len(self.problems)} problems: " + "; ".join(self.problems[:10]))

    def result(self):
        for status in ("LOCKED", "EXPIRED"):
            late = self.late[status]
            self.figures[f"{status.lower()}_told_ms"] = {
                "p50": percentile(late, 0.5), "p99": percentile(late, 0.99), "max": max(late)}
        self.figures.update(told=dict(self.counts))
        return self.figures


def run(size, say=lambda text: None, shared=False):
    folder = None if shared else tempfile.mkdtemp(prefix="sluice-watch-")
    with Watch(size, say, folder, shared) as watch:
        watch.stage.owns_folder = True
        return watch.run()
