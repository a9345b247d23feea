"""The distributed engine's figures beside peers, for script/bench: each section starts real servers
of its own and measures both sides in turns in the same minutes.

redis    buys through HTTP while Redis decides, our front and Redis on one core, beside nginx with Lua
         on that core, which runs the same script on the same Redis
relay    messages that the relay brings from an outbox to RabbitMQ, and what its publisher alone
         does, beside a bare publisher
ledger   orders booked in MariaDB, beside one transaction for each

A section yields its rounds, {name: {figure: number}}, and has `ratios`: (what, ours, peer, aim). What
is measured runs with --nice, so that others on the machine matter less.
"""
import contextlib
import json
import os
import re
import struct
import subprocess
import sys
import time

HERE = os.path.dirname(os.path.abspath(__file__))
sys.path.insert(0, os.path.join(os.path.dirname(HERE), "integration"))

import clusterlib  # noqa: E402
import marialib  # noqa: E402
import proclib  # noqa: E402
import redislib  # noqa: E402
import serverlib  # noqa: E402
import sluicelib  # noqa: E402

FAR_FUTURE_MS = 4102444800000
LIMIT_S = 600  # a hang, not a verdict
# Entries of an outbox. An order id of item 1 has its buyer in the digits before the last four; those
# of these buyers are below 10.
FILL = """
for n = 1, ARGV[1] do
    local digits, user = string.format('%06d', n), 0
    for i = 1, 6 do
        user = user * 32 + string.sub(digits, i, i)
    end
    redis.call('XADD', KEYS[1], '*', 'reserve', '1 ' .. ARGV[2] .. ' 2000000000080000' .. digits
        .. '0000 ' .. string.format('%d', user) .. ' 1 1 1700000000000')
end
"""


class Wrong(Exception):
    """A measurement that is none: something was not sold, not booked, or sold twice."""


def pinned(options, core, command):
    """The command on one core (None: any), with the priority of what is measured."""
    nice = ["nice", "-n", str(options.nice)] if options.nice else []
    return nice + (["taskset", "-c", str(core)] if core is not None else []) + \
        [str(word) for word in command]


def on_core(member, options, core):
    command = member.command
    member.command = lambda: pinned(options, core, command())
    return member


# ---------------------------------------------------------------- Redis decides

class NginxLua(proclib.Member):
    """nginx that takes buys itself, in Lua, and leaves the rest to a front."""

    kind = "nginx"

    def __init__(self, name, folder, values):
        super().__init__(name, folder)
        self.values = dict(values, folder=folder, port=self.port, lua=os.path.join(HERE, "peer"))

    def prepare(self):
        with open(os.path.join(HERE, "peer/nginx.conf"), encoding="utf-8") as file:
            text = file.read()
        for name, value in self.values.items():
            text = text.replace(f"@{name}@", str(value))
        with open(f"{self.folder}/nginx.conf", "w", encoding="utf-8") as file:
            file.write(text)

    def command(self):
        user = ["-g", "user root;"] if os.geteuid() == 0 else []
        return [marialib.find("nginx"), "-p", self.folder, "-c", f"{self.folder}/nginx.conf",
                "-e", f"{self.folder}/error.log", *user]

    def ready(self):
        return proclib.http_status(self.address, "/readyz") == 200


class Shop:
    """Redis, MariaDB, a keeper and one front. Nothing is carried on or booked until `book`: so the
    core that front and Redis share does for both sides what a buyer waits for, and no more."""

    outbox = "sluice{0}:out"
    message_bytes = 72  # of the relay's messages, below

    def __init__(self, options, folder, amqp=False):
        self.options = options
        self.members = []
        core, other = options.server_core, options.load_core
        self.redis = self.add(on_core(serverlib.Redis(
            "redis", f"{folder}/redis", options={"auto-aof-rewrite-percentage": 0}), options, core))
        self.mariadb = self.add(on_core(proclib.MariaDB("mariadb", f"{folder}/mariadb"), options,
                                        other))
        self.rabbitmq = None
        if amqp:
            self.rabbitmq = self.add(on_core(serverlib.RabbitMQ("rabbitmq", f"{folder}/rabbitmq"),
                                             options, None))
        self.keys = clusterlib.make_secrets(f"{folder}/secrets")
        self.keeper = self.add(on_core(self.sluice("keeper", folder), options, other))
        self.front = self.add(on_core(self.sluice("front", folder), options, core))
        self.booker = self.add(on_core(self.sluice("relay,booker", folder), options, other))
        self.relay = self.add(on_core(self.sluice("relay", folder), options, None))
        self.told = {}  # item -> orders that a client saw accepted
        self.next_user = 1

    def add(self, member):
        self.members.append(member)
        return member

    def sluice(self, roles, folder):
        sets = ["server.threads=1", "server.connections=4096", "gate.orders=4000000",
                "gate.buyers=4000000", "auth.tokens=1048576", "ticket.ttl_s=3600",
                "reconcile.every_s=0", "relay.direct_after_s=1000000",
                f"redis.url=redis://127.0.0.1:{self.redis.port}", "redis.segments=1",
                f"ledger.url=mariadb://{marialib.URL_LOGIN}@127.0.0.1:{self.mariadb.port}/"
                "sluice_ledger"]
        sets += [f"amqp.url={self.rabbitmq.url()}"] if self.rabbitmq else []
        name = roles.replace(",", "-")
        return clusterlib.Sluice(name, f"{folder}/{name}", roles=roles, sets=sets, keys=self.keys)

    def __enter__(self):
        self.redis.start()
        if self.rabbitmq:
            self.rabbitmq.start()
        self.mariadb.start()
        self.database = marialib.Database(self.mariadb.sql, "sluice_ledger")
        self.keeper.start()
        self.front.start()
        self.door = clusterlib.Door(self.front.address, self.front.data)
        self.epoch = self.redis.call("HGET", "sluice{0}:meta", "place").split()[0]
        return self

    def __exit__(self, *unused):
        for member in reversed(self.members):
            member.discard()

    def item(self, total):
        """An item in an open sale of its own, one to a buyer."""
        sale = self.door.admin("POST", "/sales", {
            "name": "bench", "starts_at_ms": 1, "ends_at_ms": FAR_FUTURE_MS, "pay_within_s": 86400,
            "items": [{"name": "bench", "price_cents": 100, "total": total, "limit_per_user": 1}]})
        if sale.status != 201:
            raise Wrong(f"the sale: {sale}")
        opened = self.door.admin("POST", f"/sales/{sale.json()['id']}/open")
        if opened.status != 200:
            raise Wrong(f"the sale was not opened: {opened}")
        return sale.json()["items"][0]["id"]

    def watch(self, act):
        """The words of the script call that `act` makes the front send."""
        connection = redislib.Connection(self.redis.port, 60)
        with contextlib.closing(connection):
            connection.ask("MONITOR")
            act()
            while True:
                line = connection.answer()
                words = re.findall(r'"((?:[^"\\]|\\.)*)"', str(line))
                if words and words[0].upper() == "EVALSHA" and words[2] == "5":
                    return words

    def peer(self, folder):
        """nginx, told by one buy of our front what it has to ask."""
        item, user = self.item(1), self.users(1)
        words = self.watch(lambda: self.load(self.front, item, user, 1, 1))
        prefix = words[3][:-len("meta")]
        return self.add(on_core(NginxLua("nginx", f"{folder}/nginx", {
            "redis": self.redis.port, "front": self.front.port, "sha": words[1], "prefix": prefix,
            "epoch": self.epoch, "place": words[8], "done": 0}), self.options,
            self.options.server_core)).start()

    def users(self, count):
        first, self.next_user = self.next_user, self.next_user + count
        return first

    def load(self, member, item, first_user, users, connections, *more):
        command = pinned(self.options, self.options.load_core, [
            sluicelib.BINARY, "bench", "--json", "--url", f"http://127.0.0.1:{member.port}",
            "--data", self.front.data, "--item", item, "--first-user", first_user,
            "--users", users, "--result", "none", "--no-audit", "--connections", connections,
            *(more or ["--prefetch"])])
        done = subprocess.run(command, capture_output=True, text=True, timeout=LIMIT_S, check=False)
        if done.returncode != 0 or not done.stdout:
            raise Wrong(f"{' '.join(command)}: {done.stderr}{done.stdout}")
        return json.loads(done.stdout)

    def buys(self, member, connections):
        """Orders a second; accepted orders are compared with the ledger later."""
        count = self.options.orders
        item = self.item(count * 2)
        first = self.users(count)
        told = self.load(member, item, first, count, connections)
        if told["orders"] != count or told["errors"]:
            raise Wrong(f"not every buy became an order: {told}")
        self.told[item] = count
        return {"rate": told["orders_per_s"], "p99_us": told["p99_us"]}

    def refusals(self, member):
        """Buys of an item that is sold out; how many of them Redis was asked."""
        item = self.item(1)
        first = self.users(80)
        before = self.script_calls()
        told = self.load(member, item, first, 80, 64, "--hammer", "--duration",
                         self.options.seconds)
        if told["refused"].get("sold_out", 0) < 0.99 * told["requests"]:
            raise Wrong(f"not all sold out: {told}")
        self.told[item] = 1
        return {"rate": told["requests_per_s"], "p99_us": told["p99_us"],
                "asked": (self.script_calls() - before) / told["requests"]}

    def script_calls(self):
        stats = self.redis.info("commandstats").get("cmdstat_evalsha", "calls=0,")
        return int(re.match(r"calls=(\d+)", stats)[1])

    def fill_outbox(self, count):
        """Decisions as the script writes them, of buyers who do not exist: nobody books them."""
        self.redis.call("EVAL", FILL, 1, self.outbox, count, self.epoch, timeout_s=LIMIT_S)

    def purge(self, queue, count):
        """Empties a queue that should hold so many messages; more where some were sent again."""
        with serverlib.Amqp(self.rabbitmq.port) as client:
            client.method(1, 50, 30, b"\0\0" + serverlib.short(queue.encode()) + b"\0")
            (found,) = struct.unpack(">I", client.expect(50, 31)[:4])
        if found < count:
            raise Wrong(f"{queue} got {found} messages of {count}")

    def book(self):
        """What was sold is booked: each order once. Then the booker stands still again."""
        if self.booker.alive():
            self.booker.thaw()
        else:
            self.booker.start()

        def booked():
            rows = self.database.rows("SELECT item_id, COUNT(*), COUNT(DISTINCT user_id)"
                                      " FROM orders WHERE status = 'LOCKED' GROUP BY item_id")
            found = {item: orders for item, orders, users in rows if orders == users}
            return all(found.get(item) == orders for item, orders in self.told.items())

        sluicelib.eventually(booked, "every order to be booked", LIMIT_S, every_s=0.2)
        sluicelib.eventually(lambda: self.redis.call("XLEN", self.outbox) == 0, "an empty outbox",
                             every_s=0.1)
        self.booker.freeze()


class RedisBuys:
    """Ours waits for the journal's sync before each 202; nginx waits for nothing but Redis."""

    def __init__(self, options, folder, where):
        self.options, self.folder, self.where = options, folder, where
        self.title = f"buys with Redis deciding, {where}: front and Redis on one core"
        self.ratios = [(f"{count} connections, ours / nginx+Lua", f"ours {count}",
                        f"nginx+Lua {count}", 1.6) for count in (64, 256)]
        self.ratios.append(("sold out, ours / nginx+Lua", "ours, sold out", "nginx+Lua, sold out",
                            None))

    def rounds(self):
        with Shop(self.options, self.folder) as shop:
            nginx = shop.peer(self.folder)
            for number in range(self.options.rounds):
                done = {}
                sides = [("ours", shop.front), ("nginx+Lua", nginx)]
                if number % 2:  # neither is always the one that comes first
                    sides.reverse()
                for count in (64, 256):
                    for name, member in sides:
                        done[f"{name} {count}"] = shop.buys(member, count)
                        shop.book()
                for name, member in sides:
                    done[f"{name}, sold out"] = shop.refusals(member)
                yield done


# ---------------------------------------------------------------- the relay

class Relay:
    """An outbox is filled while the relay stands still; then it is timed until the outbox is empty,
    every message confirmed and taken out. The bare publisher has a window as large, and messages as
    long, ready in memory."""

    def __init__(self, options, folder, where):
        self.options, self.folder, self.where = options, folder, where
        self.title = f"messages to RabbitMQ, {where}: quorum queue, confirms, window 1024"
        self.ratios = [("the relay / bare publisher", "relay", "bare", 0.9),
                       ("its publisher alone / bare publisher", "publisher", "bare", 0.9)]

    def rounds(self):
        with Shop(self.options, self.folder, amqp=True) as shop:
            relay = shop.relay.start()
            for number in range(self.options.rounds):
                names = ["relay", "publishers"]
                if number % 2:
                    names.reverse()
                done = {}
                for name in names:
                    done.update(self.relayed(shop, relay) if name == "relay"
                                else self.published(shop, number))
                yield done

    def relayed(self, shop, relay):
        count = self.options.orders
        relay.freeze()
        shop.fill_outbox(count)
        start = time.monotonic()
        relay.thaw()
        last = start
        while shop.redis.call("XLEN", shop.outbox) > 0:
            time.sleep(0.005)
            last = time.monotonic()
            if last > start + LIMIT_S:
                raise Wrong("the relay does not empty its outbox")
        shop.purge("sluice.orders", count)
        return {"relay": {"rate": count / (last - start)}}

    def published(self, shop, number):
        """bench_amqp measures the two after each other; here one round of it at a time."""
        command = pinned(self.options, None, [
            program("bench_amqp"), shop.rabbitmq.url(), 1024, shop.message_bytes,
            max(1, round(self.options.seconds)), 1, "quorum", "bare" if number % 2 else "ours"])
        done = subprocess.run(command, capture_output=True, text=True, timeout=LIMIT_S, check=False)
        found = re.search(r"ours +(\d+)/s +([\d.]+) us.*bare +(\d+)/s +([\d.]+) us", done.stdout)
        if done.returncode != 0 or not found:
            raise Wrong(f"{' '.join(command)}: {done.stderr}{done.stdout}")
        return {"publisher": {"rate": float(found[1]), "cpu_us": float(found[2])},
                "bare": {"rate": float(found[3]), "cpu_us": float(found[4])}}


# ---------------------------------------------------------------- the ledger

class Ledger:
    def __init__(self, options, folder, where):
        self.options, self.folder, self.where = options, folder, where
        self.title = f"orders booked in MariaDB, {where}: batches of 2,000, or each by itself"
        self.ratios = [("shared ledger, one writer / one by one", "shared, one writer",
                        "one transaction each", 10),
                       ("shared ledger, four writers / one by one", "shared, four writers",
                        "one transaction each", None),
                       ("four databases / one by one", "shared, four databases",
                        "one transaction each", None)]

    def rounds(self):
        server = marialib.MariaDB(["--innodb-buffer-pool-size=1G", "--innodb-log-file-size=512M"],
                                  f"{self.folder}/mariadb")
        command = server.command
        server.command = lambda: pinned(self.options, None, command())
        with server:
            for _ in range(self.options.rounds):
                yield self.booked(server)

    def booked(self, server):
        seconds = max(1, round(self.options.seconds))
        command = pinned(self.options, None, [program("bench_ledger_mariadb"), server.address(),
                                              2000, 8, seconds, 1])
        done = subprocess.run(command, capture_output=True, text=True, timeout=LIMIT_S, check=False)
        found = re.findall(r"^(.+?) +(\d+) orders/s", done.stdout, re.M)
        if done.returncode != 0 or not found:
            raise Wrong(f"{' '.join(command)}: {done.stderr}{done.stdout}")
        return {name: {"rate": float(rate)} for name, rate in found}


def program(name):
    """One of the build's own, beside the program measured."""
    return os.path.join(os.path.dirname(sluicelib.BINARY), "test", name)
