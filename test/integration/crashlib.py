"""Tools of the rush and crash tests: servers to kill, and a checker with its own records.

FragileServer  a server that can be killed as by a power cut.
Rush           `sluice bench` beside the test, with its file of all answers.
Told           the checker's record of all answers, across all crashes.
Ledger         orders and stock as in the ledger, read without the server.
CrashLoop      rush, kill, restart, check; again and again on the same data folder.

The checker trusts nothing: it compares the answers, what the gate shows and what the ledger has, and
counts units itself. A fault that did not happen is also a failure: the loop counts the crashes that
hit a running rush, and the bytes that the disk forgot.
"""
import collections
import json
import os
import random
import sqlite3
import subprocess
import threading
import time

import disklib
import sluicelib
from disklib import Disk


# ---------------------------------------------------------------- a server to be killed

class FragileServer(sluicelib.Server):
    """A server whose end is a kill; with a disk, the end takes what was not synced."""

    def __init__(self, forget=False, skip_sync=None, **options):
        super().__init__(**options)
        self.disk = Disk(self.data, skip_sync) if forget else None

    def spawn(self):
        if self.disk is None:
            return super().spawn()
        self.process = subprocess.Popen(self.command(), stdin=subprocess.DEVNULL,
                                        stdout=self.log_fd, stderr=self.log_fd,
                                        env=self.disk.environment())
        sluicelib.running.append(self)
        return self

    def crash(self, rng, keep=0.0):
        """kill -9, and on the disk that forgets a power cut; what was dropped, or None."""
        self.kill()
        return self.disk.crash(rng, keep) if self.disk else None

    def discard(self):
        super().discard()
        if self.disk and not os.environ.get("SLUICE_KEEP"):
            self.disk.discard()


# ---------------------------------------------------------------- a rush

class Rush:
    """`sluice bench` against a server. Its clients' answers are appended to the tell file."""

    def __init__(self, server, items, tell, seed=1, **options):
        settings = dict(users=20000, connections=64, mode="closed")
        settings.update(options)
        command = [sluicelib.BINARY, "bench", "--url", f"http://127.0.0.1:{server.port}",
                   "--data", server.data, "--seed", str(seed), "--tell", tell, "--json"]
        for item in items:
            command += ["--item", str(item)]
        for name, value in settings.items():
            option = "--" + name.replace("_", "-")
            command += [option] if value is True else [option, str(value)]
        self.process = subprocess.Popen(command, stdin=subprocess.DEVNULL, text=True,
                                        stdout=subprocess.PIPE, stderr=subprocess.PIPE)

    def running(self):
        return self.process.poll() is None

    def kill(self):
        self.process.kill()
        self.process.communicate()

    def result(self, guard_s=600):
        """Wait for its end; its JSON."""
        try:
            out, err = self.process.communicate(timeout=guard_s)
        except subprocess.TimeoutExpired:
            self.kill()
            raise
        assert out, f"bench ended with {self.process.returncode}: {err[-2000:]}"
        return dict(json.loads(out), exit=self.process.returncode, stderr=err)


# ---------------------------------------------------------------- what was told

# How far each state is on its way; a view never shows less than an earlier one.
RANK = {"QUEUED": 0, "LOCKED": 1, "PAID": 2, "EXPIRED": 2, "CANCELLED": 2, "FAILED": 2}
ALIVE = ("QUEUED", "LOCKED", "PAID")
# Refusals of a payment or a cancel that say how the order stands.
IMPLIED = {"already_paid": ("PAID",), "expired": ("EXPIRED", "CANCELLED", "FAILED")}

Order = collections.namedtuple("Order", "id user item qty status")


def may_follow(before, now):
    """May an order told as `before` be `now` later?"""
    return before == now or (RANK[now] > RANK[before] and (before, now) != ("LOCKED", "FAILED"))


class Told:
    """Every order that an answer has shown, with the furthest state shown."""

    def __init__(self):
        self.orders = {}
        self.lines = 0
        self.refusals = collections.Counter()
        self.problems = []
        self._epoch = {}

    def tell(self, order_id, user, item, qty, status):
        order = self._epoch.get(order_id)
        before = self.orders.get(order_id)
        for known in (order, before):
            if known and (known.user, known.item, known.qty) != (user, item, qty):
                self.problems.append(f"{order_id} was {known}, now {(user, item, qty)}")
        # Two clients of one order may report in any order while both run; across a crash the
        # earlier report is earlier, and nothing goes back.
        if before and not may_follow(before.status, status):
            self.problems.append(f"{order_id} was told {before.status}, after a restart {status}")
        if order and RANK[order.status] == RANK[status] and order.status != status:
            self.problems.append(f"{order_id} was told {order.status} and {status}")
        if order is None or RANK[status] > RANK[order.status]:
            self._epoch[order_id] = Order(order_id, user, item, qty, status)

    def read(self, tell):
        """Take in what a tell file has gained; a last line without its end is not said yet."""
        with open(tell.path) as file:
            file.seek(tell.offset)
            text = file.read()
        text = text[:text.rfind("\n") + 1]
        tell.offset += len(text)
        for line in text.splitlines():
            order_id, user, item, qty, http_status, status = line.split()
            self.lines += 1
            if status in RANK:
                self.tell(order_id, int(user), int(item), int(qty), status)
            else:
                self.refusals[status] += 1

    def told_now(self):
        """How many orders were shown since the last restart."""
        return len(self._epoch)

    def restarted(self):
        """What comes now was said after everything told so far. The orders told since the last."""
        latest, self._epoch = self._epoch, {}
        self.orders.update(latest)
        return sorted(latest)

    def all(self):
        return {**self.orders, **self._epoch}


class TellFile:
    def __init__(self, path):
        self.path, self.offset = path, 0
        open(path, "w").close()

    def without_order(self, users):
        """Buyers 1 to `users` who were never shown an order, and what they were told instead: who is
        missing in the ledger was refused, or knows nothing, or his order is lost."""
        answers = collections.defaultdict(list)
        with open(self.path) as file:
            for line in file:
                _, user, _, _, http_status, status = line.split()
                answers[int(user)].append(f"{http_status} {status}")
        return {user: answers[user] for user in range(1, users + 1)
                if not any(one.split()[1] in RANK for one in answers[user])}

    def size(self):
        return os.path.getsize(self.path)


# ---------------------------------------------------------------- the ledger, by itself

class SqliteSnapshot:
    """One state of a SQLite ledger, beside the running server."""

    def __init__(self, data):
        self.base = sqlite3.connect(f"file:{data}/ledger.db?mode=ro", uri=True, timeout=60,
                                    isolation_level=None)
        self.base.execute("BEGIN")

    def rows(self, sql):
        return self.base.execute(sql).fetchall()

    def close(self):
        self.base.close()


class Ledger:
    """The truth as the database holds it, read beside the running server in one transaction."""

    def __init__(self, server):
        self.base = server.database.snapshot() if server.database else SqliteSnapshot(server.data)

    def __enter__(self):
        return self

    def __exit__(self, *unused):
        self.base.close()

    def orders(self):
        rows = self.base.rows("SELECT id, user_id, item_id, qty, status FROM orders")
        return [Order(*row) for row in rows]

    def stock(self, item):
        """(available, locked, sold) as the ledger keeps them."""
        return self.base.rows(
            f"SELECT available, locked, sold FROM stock WHERE item_id = {item}")[0]

    def sums(self, lot):
        """(available, locked, sold) as the orders add up."""
        units = collections.Counter(dict(self.base.rows(
            f"SELECT status, sum(qty) FROM orders WHERE item_id = {lot.item} GROUP BY status")))
        return lot.total - units["LOCKED"] - units["PAID"], units["LOCKED"], units["PAID"]

    def problems(self):
        """Where the ledger contradicts itself: holdings against orders, payments against orders."""
        held = collections.Counter()
        for order in self.orders():
            if order.status in ALIVE:
                held[order.item, order.user] += order.qty
        holdings = self.base.rows("SELECT item_id, user_id, held FROM holdings")
        wrong_holdings = [(item, user, units, held[item, user]) for item, user, units in holdings
                          if units != held[item, user]]
        wrong_holdings += [(*key, None, held[key])
                           for key in held.keys() - {(i, u) for i, u, _ in holdings}]
        wrong_payments = self.base.rows(
            "SELECT o.id, o.payment_id, p.order_id FROM orders o"
            " LEFT JOIN payments p ON p.payment_id = o.payment_id"
            " WHERE o.status = 'PAID' AND (p.order_id IS NULL OR p.order_id <> o.id)")
        return [f"item {item}: user {user} holds {held}, by orders {orders}"
                for item, user, held, orders in wrong_holdings] + \
            [f"{order} was paid by {payment}, which paid {other}"
             for order, payment, other in wrong_payments]

    def last_deadline_ms(self, item):
        return self.base.rows(f"SELECT max(pay_by_ms) FROM orders WHERE item_id = {item}"
                              " AND status = 'LOCKED'")[0][0]


def admin_orders(server, **filters):
    """All orders of the ledger through the operator's paging."""
    found, after = [], None
    query = "".join(f"&{name}={value}" for name, value in filters.items())
    while True:
        page = server.admin("GET", f"/orders?limit=1000{query}" +
                            (f"&after={after}" if after else ""))
        assert page.status == 200, page
        body = page.json()
        found += [Order(o["order_id"], int(o["user_id"]), o["item_id"], o["qty"], o["status"])
                  for o in body["orders"]]
        after = body["next"]
        if not after:
            return found


def admin_events(server, after=0):
    """Everything that happened to orders, in order."""
    found = []
    while True:
        page = server.admin("GET", f"/events?after={after}&limit=1000")
        assert page.status == 200, page
        body = page.json()
        if not body["events"]:
            return found
        found += body["events"]
        after = body["next"]


# ---------------------------------------------------------------- the accounts

class Lot:
    """One item as the checker knows it: its limit, its price and how many units it must have."""

    def __init__(self, item, limit, price, total):
        self.item, self.limit, self.price, self.total = item, limit, price, total


def compare(told, rows, lots):
    """The differences between the answers and the ledger, as sentences."""
    problems = []
    by_id = {row.id: row for row in rows}
    if len(by_id) != len(rows):
        problems.append(f"{len(rows) - len(by_id)} order ids have more than one row")
    for order in told.values():
        row = by_id.get(order.id)
        if row is None:
            problems.append(f"lost: told {order}, and the ledger has none")
        elif row[:4] != order[:4]:
            problems.append(f"changed: told {order}, the ledger has {row}")
        elif not may_follow(order.status, row.status):
            problems.append(f"backwards: told {order}, the ledger has {row.status}")
    held = collections.Counter()
    alive = collections.Counter()
    for row in rows:
        if row.status == "FAILED":
            problems.append(f"failed without a reason to: {row}")
        if row.status in ALIVE:
            held[row.item, row.user] += row.qty
            alive[row.item] += row.qty
    limits = {lot.item: lot.limit for lot in lots}
    for (item, user), units in held.items():
        if limits.get(item) and units > limits[item]:
            problems.append(f"user {user} holds {units} of item {item}, limit {limits[item]}")
    for lot in lots:
        if alive[lot.item] > lot.total:
            problems.append(f"oversold: {alive[lot.item]} alive of {lot.total}, item {lot.item}")
    return problems


def compare_events(events, rows):
    """Each order was locked once and ended at most once, as its row says."""
    problems = []
    history = collections.defaultdict(list)
    for event in events:
        if event["type"].startswith("order."):
            history[event["order_id"]].append(event["type"][len("order."):].upper())
    if [event["number"] for event in events] != list(range(1, len(events) + 1)):
        problems.append("event numbers have gaps or repeat")
    for row in rows:
        wanted = ["LOCKED"] if row.status == "LOCKED" else ["LOCKED", row.status]
        found = history.pop(row.id, None)
        if found != wanted:
            problems.append(f"{row} has the history {found}")
    problems += [f"events of {order_id}, which the ledger lacks" for order_id in history]
    return problems


def gate_counters(server, lot):
    response = server.get(f"/v1/items/{lot.item}")
    assert response.status == 200, response
    body = response.json()
    numbers = tuple(body[name] for name in ("available", "locked", "sold"))
    assert min(numbers) >= 0 and sum(numbers) == body["total"] == lot.total, (body, lot.total)
    return numbers


def wait_settled(server, lots):
    """Until the gate, the ledger's stock and the sum of its orders say the same of every item."""
    seen = {}

    def agrees(lot):
        with Ledger(server) as ledger:
            stock, orders = ledger.stock(lot.item), ledger.sums(lot)
        gate = gate_counters(server, lot)
        seen[lot.item] = dict(gate=gate, stock=stock, orders=orders)
        return gate == stock == orders

    for lot in lots:
        try:
            sluicelib.eventually(lambda: agrees(lot), "the accounts")
        except AssertionError:
            raise Broken(f"the accounts of item {lot.item} differ: {seen[lot.item]}") from None


def check_rush(server, lot, report, told):
    """After a rush that went to its end: the three accounts of one item, and the crowd's audit.

    report is the JSON of a crowd that asks again until it knows. The item's rows are returned.
    """
    wait_settled(server, [lot])
    with Ledger(server) as ledger:
        rows = [row for row in ledger.orders() if row.item == lot.item]
        assert ledger.problems() == []
    assert sorted(admin_orders(server, item=lot.item)) == sorted(rows)
    orders = told.all()
    assert told.problems == []
    assert compare(orders, rows, [lot]) == []
    audit = report["audit"]
    assert (audit["oversold"], audit["lost"], audit["doubled"]) == (0, 0, 0), audit
    assert audit["checked"] >= len(orders) > 0, audit
    assert {row.id for row in rows} == set(orders), "whoever has an order was told so"
    return rows


class Broken(AssertionError):
    """A promise was broken, and the crash loop saw it."""


# ---------------------------------------------------------------- beside the rush

class Beside(threading.Thread):
    """Work that goes on until the server is gone; what else goes wrong is kept for the test."""

    def __init__(self):
        super().__init__(daemon=True)
        self.gone = threading.Event()
        self.error = None

    def run(self):
        try:
            self.work()
        except (OSError, sluicelib.ProtocolError):
            pass  # the crash
        except BaseException as error:
            self.error = error

    def end(self):
        self.gone.set()
        self.join()
        if self.error:
            raise self.error


class Restocker(Beside):
    """Restocks that a crash may meet anywhere on their way."""

    def __init__(self, server, restocks, wait_s):
        super().__init__()
        self.server, self.restocks, self.wait_s = server, restocks, wait_s
        self.token = server.admin_token
        self.start()

    def work(self):
        client = sluicelib.Client(self.server.address)
        try:
            for lot, add, request_id in self.restocks:
                if self.gone.wait(self.wait_s):
                    return
                answer = client.call("POST", f"/v1/admin/items/{lot.item}/restock",
                                     {"add": add, "request_id": request_id}, self.token)
                assert answer.status == 200, answer
        finally:
            client.close()


class Prober(Beside):
    """A few buyers of our own, one request after the other, who keep their tickets.

    After the restart the same tickets are sent again: what was answered must be answered again,
    what was not answered happens now, once.
    """

    def __init__(self, server, lots, rng, first_user):
        super().__init__()
        self.server, self.lots, self.rng, self.user = server, lots, rng, first_user
        self.webhook_key = server.secret_bytes("webhook.key")
        self.probes = []
        self.start()

    def work(self):
        client = sluicelib.Client(self.server.address)
        try:
            while not self.gone.is_set():
                self.probe(client, self.rng.choice(self.lots))
        finally:
            client.close()

    def call(self, client, method, path, body, user):
        return client.call(method, path, body, self.server.token(user))

    def probe(self, client, lot):
        self.user += 1
        answer = self.call(client, "POST", f"/v1/items/{lot.item}/ticket", None, self.user)
        if answer.status == 409:
            return
        assert answer.status == 201, answer
        ticket = answer.json()
        probe = dict(user=self.user, lot=lot, ticket=ticket["ticket"], order=ticket["order_id"],
                     qty=1 if lot.limit == 1 else self.rng.randrange(1, 4), told=None, paid=None)
        self.probes.append(probe)
        self.buy(client, probe)
        if probe["told"] and self.rng.random() < 0.5:
            self.pay(client, probe)

    def buy(self, client, probe):
        """Buy with its ticket; an answer that names an order must name the ticket's."""
        answer = self.call(client, "POST", f"/v1/buy/{probe['ticket']}", {"qty": probe["qty"]},
                           probe["user"])
        if answer.status in (200, 202):
            body = answer.json()
            if body["order_id"] != probe["order"]:
                raise Broken(f"ticket of {probe['order']} gave {body}")
            status = body["status"]
            if probe["told"] and not may_follow(probe["told"], status):
                raise Broken(f"{probe['order']} was told {probe['told']}, now {status}")
            probe["told"] = status
        elif probe["told"]:
            raise Broken(f"{probe['order']} was told {probe['told']}, now {answer}")
        elif answer.status not in (409, 503):
            raise Broken(f"buy: {answer}")

    def pay(self, client, probe):
        """The payment is named after the order, so that asking again is asking the same."""
        body = sluicelib.compact({"payment_id": f"probe-{probe['order']}",
                                  "order_id": probe["order"],
                                  "amount_cents": probe["qty"] * probe["lot"].price})
        stamp = str(int(time.time()))
        signature = sluicelib.webhook_signature(self.webhook_key, probe["order"], stamp, body)
        answer = client.call("POST", "/v1/payments", body, headers={
            "webhook-id": probe["order"], "webhook-timestamp": stamp,
            "webhook-signature": signature})
        if answer.status == 200:
            probe["told"] = probe["paid"] = answer.json()["status"]
            if probe["paid"] != "PAID":
                raise Broken(f"payment of {probe['order']}: {answer}")
        elif probe["paid"]:
            raise Broken(f"{probe['order']} was paid, its payment again: {answer}")
        elif answer.status not in (409, 503):
            raise Broken(f"payment of {probe['order']}: {answer}")

    def again(self, server):
        """After the restart: every ticket and every payment once more."""
        client = sluicelib.Client(server.address)
        try:
            for probe in self.probes:
                self.buy(client, probe)
                if probe["paid"]:
                    self.pay(client, probe)
                if probe["told"]:
                    answer = self.call(client, "POST", f"/v1/buy/{probe['ticket']}",
                                       {"qty": probe["qty"] + 1}, probe["user"])
                    sluicelib.problem(answer, 422, "different_request")
        finally:
            client.close()

    def report(self, told):
        for probe in self.probes:
            if probe["told"]:
                told.tell(probe["order"], probe["user"], probe["lot"].item, probe["qty"],
                          probe["told"])


# ---------------------------------------------------------------- the loop

class CrashLoop:
    """Rush, kill, restart, check, on one data folder. Reproducible by its seed as far as timing is.

    forget: the disk that forgets what was not synced; skip_sync: syncs that are taken out of it;
    database: the ledger is there (marialib), not in the data folder.
    """

    UNITS = 150  # what each item gains in a loop
    LINES = 3000  # answers of most loops: more than three for each order
    USERS = 20000
    KEEP = (0.0, 0.0, 0.3, 0.7)  # chances that an unsynced page survives a power cut
    RUSH = dict(connections=48, duplicates=10, drops=3, pay=40, cancel=20, retries=20)

    def __init__(self, seed, forget=False, skip_sync=None, threads=2, progress=None,
                 database=None):
        self.seed, self.rng = seed, random.Random(seed)
        self.server = FragileServer(forget=forget, skip_sync=skip_sync, database=database,
                                    sets=["keeper.tick_ms=20", f"server.threads={threads}",
                                          "journal.segment_mib=1"])
        self.shop = sluicelib.Shop(self.server)
        self.tell_file = TellFile(self.server.data + ".tell")
        self.told = Told()
        self.progress = progress or (lambda line: None)
        self.counts = collections.Counter()
        self.snapshots = set()
        self.loop = 0

    def discard(self):
        self.server.discard()
        if not os.environ.get("SLUICE_KEEP"):
            os.unlink(self.tell_file.path)

    def open_sales(self):
        """One sale whose orders last, one whose unpaid orders expire while crashes happen."""
        self.lots = []
        self.sales = []
        for limits, pay_within_s in (((1, 5, 0), 3600), ((1, 0), 1)):
            items = [sluicelib.item_json(name=f"limit {limit}", total=self.UNITS,
                                         limit_per_user=limit, price_cents=1000 + limit)
                     for limit in limits]
            sale = self.shop.create_sale(items, pay_within_s=pay_within_s,
                                         ends_in_ms=24 * 3600_000)
            self.shop.moved(sale["id"], "open")
            self.sales.append(sale["id"])
            self.lots += [Lot(made["id"], made["limit_per_user"], made["price_cents"], self.UNITS)
                          for made in sale["items"]]
        self.lasting, self.fleeting = self.lots[:3], self.lots[3:]

    def run(self, loops):
        try:
            self.server.start()
            self.open_sales()
            for self.loop in range(1, loops + 1):
                self.once()
                self.progress(f"crash {self.loop}/{loops}: {self.summary()}")
            self.finish()
        except (AssertionError, OSError) as error:
            text = str(error)
            text = text if len(text) < 4000 else f"{text[:1000]}\n...\n{text[-3000:]}"
            raise Broken(f"loop {self.loop} of seed {self.seed}: {text}") from error
        return self.counts

    def summary(self):
        return ", ".join(f"{name} {count}" for name, count in sorted(self.counts.items()))

    def once(self):
        before = [(lot, self.UNITS, f"{self.loop}-{lot.item}-a") for lot in self.lots]
        during = [(lot, self.UNITS // 3, f"{self.loop}-{lot.item}-b") for lot in self.lots]
        self.restock(before)
        rush = Rush(self.server, [lot.item for lot in self.lots], self.tell_file.path,
                    seed=self.rng.randrange(2**32), users=self.USERS,
                    first_user=self.rng.choice((1, 1 + self.loop * self.USERS)), **self.RUSH)
        beside = (Prober(self.server, self.lots, self.rng, 10**9 + 10**5 * self.loop),
                  Restocker(self.server, during, self.rng.uniform(0, 0.05)))
        try:
            self.wait_for_the_moment(rush)
            self.crash()
        finally:
            rush.kill()
        for thread in beside:
            thread.end()
        self.told.read(self.tell_file)
        beside[0].report(self.told)
        latest = self.told.restarted()
        self.restart()
        self.look_at_once(latest)
        beside[0].again(self.server)
        beside[0].report(self.told)
        self.restock(during)
        self.check()

    def restock(self, restocks):
        """Each request id adds once, however often it is sent."""
        for lot, add, request_id in restocks:
            answer = self.shop.restock(lot.item, add, request_id)
            if answer.status != 200:
                raise Broken(f"restock {request_id}: {answer}")
            lot.total += add

    def wait_for_the_moment(self, rush):
        """Waits for this many answers, then the crash comes. A rush that has ended was missed."""
        goal = self.told.lines + self.rng.choice((1, self.rng.randrange(1, 100),
                                                  self.rng.randrange(1, self.LINES)))

        def due():
            self.told.read(self.tell_file)
            return self.told.lines >= goal

        sluicelib.eventually(lambda: due() or not rush.running(), "the moment", every_s=0.0005)
        self.counts["in the rush"] += due() and rush.running()

    def crash(self):
        """The process dies; on the disk that forgets mostly the machine with it."""
        self.counts["crashes"] += 1
        self.snapshots.update(name for name in disklib.names_below(self.server.data)
                              if name.endswith(".snapshot"))
        disk = self.server.disk
        if disk and self.rng.random() < 0.2:
            self.counts["of the process alone"] += 1
            self.server.kill()
            return
        dropped = self.server.crash(self.rng, self.rng.choice(self.KEEP))
        if dropped:
            self.counts["bytes forgotten"] += dropped.bytes
            self.counts["names forgotten"] += dropped.names_gone + dropped.names_back
            self.counts["unsynced pages kept"] += dropped.kept_pages

    def restart(self):
        if self.rng.random() < 0.25:
            self.counts["while starting"] += 1
            self.server.spawn()
            time.sleep(self.rng.uniform(0, 0.1))
            self.crash()
        try:
            self.server.start()
        except AssertionError as error:
            raise Broken(f"no start after the crash: {error}") from error

    def look_at_once(self, latest):
        """The first answers after the start show at least the states shown before."""
        orders = self.told.orders
        ids = self.rng.sample(latest, min(len(latest), 200))
        ids += self.rng.sample(sorted(orders), min(len(orders), 50))
        for order_id in ids:
            order = orders[order_id]
            answer = self.shop.get_order(order.user, order_id)
            if answer.status != 200:
                raise Broken(f"told {order}, then {answer}")
            body = answer.json()
            self.told.tell(order_id, order.user, body["item_id"], body["qty"], body["status"])
        if self.told.problems:
            raise Broken("; ".join(self.told.problems[:10]))

    def check(self):
        wait_settled(self.server, self.lots)
        with Ledger(self.server) as ledger:
            rows = ledger.orders()
            problems = ledger.problems()
        problems += self.told.problems + compare(self.told.all(), rows, self.lots)
        if problems:
            raise Broken(f"{len(problems)} problems: " + "; ".join(problems[:10]))
        self.counts["snapshots"] = len(self.snapshots)
        self.counts["orders"] = len(rows)
        self.counts["told"] = len(self.told.all())
        return rows

    def finish(self):
        """In the end nothing is on its way, and each order has the history of its state."""
        for lot in self.fleeting:
            sluicelib.eventually(lambda: gate_counters(self.server, lot)[1] == 0, "all expiries")
        rows = self.check()
        if sorted(admin_orders(self.server)) != sorted(rows):
            raise Broken("the operator's list is not the ledger")
        problems = compare_events(admin_events(self.server), rows)
        if problems:
            raise Broken(f"{len(problems)} problems: " + "; ".join(problems[:10]))
        self.server.restart()
        self.check()
        self.server.stop()
