"""The list of attacks: STAGES (name -> how to create it) and ATTACKS. docs/SECURITY.md has the
threats; attackers.py attacks."""
import functools
import os
import re
import subprocess
import threading
import time

import clusterlib
import crashlib
import signlib
import sluicelib
from attacklib import Attack, Attacker, Attackers, Measured, p99_ms

CONNECTIONS = 1000
# The silent connections of the long form at least, and the processes that hold them: one may open no
# more than 20,000 files here and there.
CROWD, CROWD_PROCESSES = 20_000, 5
# Silent connections keep their places for longer than a drill lasts, so only those that give way let
# anybody in, and visitors leave soon.
SILENT_MS, VISIT_S = 60_000, 3
ORDERS = 20_000
PAY_S, LATE_S, ROUNDS = 4, 2, 4  # of the hoarder


def stage(*sets):
    return functools.partial(clusterlib.Embedded, sets=list(sets))


STAGES = {
    "attack-account": stage(f"gate.orders={ORDERS}", f"gate.buyers={ORDERS}"),
    "attack-account-distributed": functools.partial(
        clusterlib.Distributed, amqp=False, counts={"front": 1, "relay": 1, "booker": 0, "keeper": 1},
        sets=[f"gate.orders={ORDERS}", f"gate.buyers={ORDERS}"]),
    "attack-silent": stage(f"server.connections={CONNECTIONS}",
                           f"http.header_timeout_ms={SILENT_MS}"),
    "attack-silent-long": stage(f"http.header_timeout_ms={SILENT_MS}"),
    "attack-bodies": stage("http.large_buffers=8"),
    "attack-readers": stage("server.connections=4000"),
    "attack-sales": stage(),
    "attack-forged": stage("server.trusted_proxies=127.0.0.1"),
    "attack-hoard": stage(f"order.late_cancel_s={LATE_S}"),
}


def buyers(trial, run):
    return trial.buyers(run)


def attacked(trial, kind, *arguments, until, what, proof, port=None):
    """Starts an attacker; it is in force when until(counters) holds."""
    return in_force(Attacker(kind, port or trial.front.port, *arguments), until, what, proof)


def in_force(attacker, until, what, proof):
    try:
        attacker.wait(until, what)
    except BaseException:
        attacker.end()
        raise
    return lambda: proof(attacker.end())


# ---------------------------------------------------------------- one account

def one_account(trial):
    """A buyer without a limit takes more orders than the gate can hold."""
    lot = trial.shop.lot(total=10 * ORDERS, limit=0, price=100)
    rush = crashlib.Rush(trial.door, [lot.item], os.path.join(trial.stage.folder, "tell-account"),
                         users=1, first_user=7, orders_per_user=3 * ORDERS, connections=32,
                         result="none", no_audit=True, seed=trial.seed % 2**32)

    def refused():
        text = trial.door.get("/metrics").body.decode()
        found = re.search(r'^sluice_refusals_total\{code="overloaded"\} (\d+)', text, re.M)
        return not rush.running() or (found and int(found[1]) > 0)

    sluicelib.eventually(refused, "the account refused", every_s=0.1)

    def end():
        rush.kill()
        held = crashlib.gate_counters(trial.door, lot)[1]
        assert 0 < held < ORDERS, f"the account holds {held} units"
        return f"one account holds {held:,} orders of {ORDERS:,} and was refused more"
    return end


# ---------------------------------------------------------------- connections

def silent(trial):
    """More than the server has places; whenever one is closed, another comes."""
    pools = trial.door.get("/metrics").body.decode()
    places = int(re.search(r'^sluice_pool_size\{pool="server.connections"\} (\d+)', pools, re.M)[1])
    full = places if trial.size.short else max(CROWD, places)
    count = full * 9 // 8 // CROWD_PROCESSES
    attackers = Attackers("silent", trial.front.port, [(count, f"127.0.{1 + number}")
                                                      for number in range(CROWD_PROCESSES)])
    return in_force(attackers, until=lambda told: told.get("acts", 0) >= full,
                    what=f"{full:,} silent connections",
                    proof=lambda told: f"{told['acts']:,} silent connections, {told['open']:,} of them "
                                       f"open at the end, to a server for {places:,}")


def visitors(trial, run):
    """Each on a new connection, which is what silent ones keep out."""
    del run
    return trial.each(200, lambda conn, number: conn.send(sluicelib.request_bytes(
        "GET", "/v1/time")).read_response().status == 200, patience_s=VISIT_S)


def slow_bodies(trial):
    return attacked(trial, "slow-bodies", 200,
                    until=lambda told: told.get("acts", 0) >= 200, what="200 slow bodies",
                    proof=lambda told: f"{told['acts']:,} payments whose bodies never end")


def operators(trial, run):
    """An operator makes drafts too large for a small buffer."""
    items = [sluicelib.item_json(name=f"item {number} " + "x" * 150, total=1)
             for number in range(60)]

    def make(conn, number):
        body = sluicelib.compact(trial.shop.sale_json(items, starts_in_ms=3600_000,
                                                      ends_in_ms=7200_000))
        headers = {"Authorization": f"Bearer {trial.door.admin_token}",
                   "Content-Type": "application/json"}
        conn.send(sluicelib.request_bytes("POST", "/v1/admin/sales", headers, body))
        return conn.read_response().status == 201

    del run
    return trial.each(60, make)


def slow_readers(trial):
    return attacked(trial, "slow-readers", 1500, "/openapi.json",
                    until=lambda told: told.get("acts", 0) >= 1500, what="1,500 slow readers",
                    proof=lambda told: f"{told['acts']:,} connections asked for 8 answers each and "
                                       "read none")


def sales_flood(trial):
    for _ in range(4):
        made = trial.shop.create_sale([sluicelib.item_json(name=f"item {number}", total=5)
                                       for number in range(330)])
        trial.shop.moved(made["id"], "open")
    return flooded(trial, "/v1/sales")


def answered(trial):
    """How many requests the server has answered."""
    text = trial.door.get("/metrics").body.decode()
    return int(re.search(r"^sluice_http_requests_total (\d+)", text, re.M)[1])


def flooded(trial, path):
    """The load tool asks for the path without a pause, on 64 connections."""
    before, began = answered(trial), time.monotonic()
    process = subprocess.Popen(
        [sluicelib.BINARY, "bench", "--url", f"http://127.0.0.1:{trial.front.port}", "--get", path,
         "--connections", "64", "--duration", "3600"], stdin=subprocess.DEVNULL,
        stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)

    def end():
        assert process.poll() is None, "the flood has ended"
        count = answered(trial) - before
        process.kill()
        process.wait()
        return f"{count / (time.monotonic() - began):,.0f} requests a second for {path}"

    try:
        sluicelib.eventually(lambda: answered(trial) > before + 1000, "a flood")
    except BaseException:
        process.kill()
        process.wait()
        raise
    return end


# ---------------------------------------------------------------- tokens

SEED = bytes(range(32))


def use_eddsa(trial):
    """The server takes tokens of this key from the next start on."""
    path = os.path.join(trial.front.data, "jwt-eddsa.pub")
    if not os.path.exists(path):
        with open(path, "w", encoding="ascii") as file:
            file.write(f"shop {signlib.b64url(signlib.ed25519_public(SEED))}\n")
        os.chmod(path, 0o600)
        trial.front.stop()
        trial.front.start()


def eddsa(user):
    return signlib.mint(user, alg="EdDSA", key=SEED, kid="shop")


def first_logins(trial, run):
    """Tokens that the server has never seen, through nginx."""
    use_eddsa(trial)
    tokens = [eddsa(10_000 * (run + 1) + number) for number in range(240)]
    nginx = trial.stage.members["nginx"]
    trial.door = trial.stage.door(nginx)

    def login(conn, number):
        conn.send(sluicelib.request_bytes("GET", "/v1/me/orders",
                                          {"Authorization": f"Bearer {tokens[number]}"}))
        return conn.read_response().status == 200

    return trial.each(len(tokens), login, source=lambda number: f"127.0.2.{1 + number % 240}")


def forged(trial):
    path = os.path.join(trial.stage.folder, "signed")
    with open(path, "w", encoding="ascii") as file:
        file.writelines(eddsa(user) + "\n" for user in range(1, 200))
    began = time.monotonic()
    return attacked(trial, "forged", 64, path, port=trial.stage.members["nginx"].port,
                    until=lambda told: told.get("401", 0) >= 500, what="500 forged tokens refused",
                    proof=lambda told: f"{told['acts'] / (time.monotonic() - began):,.0f} forged "
                                       "tokens a second through nginx")


# ---------------------------------------------------------------- hoarding

class Hoarder(threading.Thread):
    """Locks all units, cancels just before they must be paid, and locks them again."""

    def __init__(self, trial, lot):
        super().__init__(daemon=True, name="hoarder")
        self.shop, self.lot = sluicelib.Shop(trial.stage.door(trial.front)), lot
        self.user, self.rounds, self.refused = 3, 0, ""
        self.ended = threading.Event()

    def lock_all(self):
        """The order; None where it was refused, for good or for this time."""
        answer = self.shop.try_ticket(self.user, self.lot.item)
        if answer.status == 201:
            answer = self.shop.buy(self.user, answer.json(), self.lot.total)
        if answer.status in (200, 202):
            return self.shop.wait_status(self.user, answer.json()["order_id"], "LOCKED")
        self.refused = answer.json()["code"]
        return None

    def run(self):
        while not self.ended.is_set() and self.refused != "barred":
            order = self.lock_all()
            if order is None:
                self.ended.wait(0.005)
                continue
            self.rounds += 1
            until_s = order["pay_by_ms"] / 1000 - LATE_S / 2
            self.ended.wait(max(0, until_s - self.shop.server.now_ms() / 1000))
            self.shop.cancel(self.user, order["order_id"])


def hoard(trial):
    trial.lot = trial.shop.lot(total=50, limit=0, pay_within_s=PAY_S, bar_unpaid=True)
    hoarder = trial.hoarder = Hoarder(trial, trial.lot)
    hoarder.start()
    sluicelib.eventually(lambda: hoarder.rounds > 0, "the hoarder to hold all units")

    def end():
        hoarder.ended.set()
        hoarder.join(sluicelib.GUARD_S)
        return f"one account locked all {trial.lot.total} units {hoarder.rounds} times, then: " \
               f"{hoarder.refused or 'no refusal'}"
    return end


def waiting_buyers(trial, run):
    """Forty buyers who want one unit each, and ask again until the hoarder has had his rounds."""
    lot = trial.lot if run else trial.shop.lot(total=50, limit=0)
    waiting, times, began = list(range(100, 140)), [], time.monotonic()
    while waiting and (not run or trial.hoarder.rounds < ROUNDS) and \
            time.monotonic() - began < ROUNDS * PAY_S + sluicelib.GUARD_S:
        for user in list(waiting):
            answer = trial.shop.try_ticket(user, lot.item)
            if answer.status == 201:
                answer = trial.shop.buy(user, answer.json())
            if answer.status in (200, 202):
                waiting.remove(user)
                times.append(time.monotonic() - began)
    times += [time.monotonic() - began] * len(waiting)
    return Measured(40, 40 - len(waiting), p99_ms(times))


ATTACKS = [
    Attack("attack-one-account", "attack-account", "one account orders without end", one_account,
           buyers),
    Attack("attack-one-account-distributed", "attack-account-distributed",
           "one account orders without end, on one segment", one_account, buyers),
    Attack("attack-silent", "attack-silent", "connections that never speak", silent, visitors,
           long_stage="attack-silent-long"),
    Attack("attack-slow-bodies", "attack-bodies", "payments whose bodies never end", slow_bodies,
           operators),
    Attack("attack-slow-readers", "attack-readers", "large answers that nobody reads", slow_readers,
           buyers),
    Attack("attack-sales", "attack-sales", "the list of sales without a pause", sales_flood, buyers),
    Attack("attack-forged-tokens", "attack-forged", "forged EdDSA tokens through nginx", forged,
           first_logins),
    Attack("attack-hoard", "attack-hoard", "all units locked and cancelled before the deadline",
           hoard, waiting_buyers),
]
