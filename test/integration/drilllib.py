"""A drill: a sale under load with a fault in the middle; afterwards the promises are checked.

Drill      one fault: its stage, how it strikes, the proof that it struck, how it ends. drills.py
           is the list.
Trial      one run of a drill on a stage: open a sale, start the crowd, strike, heal, wait until
           everything is final, check.
Verdict    told / booked / lost / doubled / oversold, what else is wrong, the proof of the strike.

The checks read the real ledger with SQL, and the answers of all clients. From the server they read
only its counters, which must agree. A fault that did not strike is a failure.
"""
import collections
import os
import random
import shutil
import subprocess
import time
import traceback

import cpulib
import crashlib
import crowdlib
import sluicelib

FINAL_S = 300  # everything is final so long after the last fault at the latest (a hang guard)


class Missed(AssertionError):
    """The fault did not strike."""


class TooSlow(Missed):
    """The crowd was gone before the fault was over: on a busy machine a larger one is needed."""


class Size:
    """How long and how large: the short form runs in script/test, the long one fills the table."""

    def __init__(self, short, rate=None, times=1):
        """times: how much longer than a fault should last its crowd is there."""
        self.short, self.times = short, times
        self.rate = rate or (250 if short else 300)
        self.lead_s = 2 if short else 6  # arrivals before the fault and after it
        self.freeze_s = 3 if short else 30
        self.away_s = 1 if short else 5  # between a kill and the next start

    def form(self):
        return "short" if self.short else "long"

    def users(self, fault_s):
        return int(self.rate * (2 * self.lead_s + fault_s) * self.times)


class Drill:
    """One entry of the list. strike(trial) does the harm and returns the proof, a sentence; it
    raises Missed where there is none. What it left broken, the stage's heal() mends."""

    def __init__(self, name, stage, about, strike, fault_s=None, away=False, short=False):
        """fault_s: how long it lasts (a function of Size); short: belongs to --short.
        away: Redis forgets, or is away from a front, where buyers stand in line then. So an order
        that is QUEUED may end FAILED (promise 3), and until its front has Redis back, other fronts
        know nothing of it: what they do not find (or refuse, where the first answer got lost) is
        counted, as unfound. The same goes for a machine that is so busy that Redis does not answer
        in time: the line at a front shows it."""
        self.name, self.stage, self.about, self.strike = name, stage, about, strike
        self.fault_s = fault_s or (lambda size: 1)
        self.away, self.short = away, short

    def stage_of(self, size):
        """The name of the stage for the short form or the long one."""
        del size
        return self.stage

    def trial(self, *arguments):
        return Trial(self, *arguments)


class Verdict:
    WORDS = ("told", "booked", "lost", "doubled", "oversold", "wrong", "failed", "unfound")

    def __init__(self, drill):
        self.drill = drill
        self.counts = collections.Counter()
        self.proof, self.problems = "", []
        self.too_slow = False  # nothing was shown, and a larger crowd may show it
        self.seconds = self.cpu_s = self.final_s = 0.0
        self.seed = None

    def ok(self):
        bad = sum(self.counts[word] for word in ("lost", "doubled", "oversold", "wrong"))
        return bool(self.proof) and not self.problems and bad == 0 and self.counts["told"] > 0

    def bad(self, word, text, count=1):
        self.counts[word] += count
        self.problems.append(f"{word}: {text}")

    def lines(self):
        """For a terminal: the counts, and the proof."""
        return "".join(f"{self.counts[word]:9}" for word in self.WORDS), \
            self.proof or "the fault was not proved to have struck"

    def json(self):
        return {"drill": self.drill.name, "stage": self.drill.stage, "about": self.drill.about,
                "ok": self.ok(), "struck": bool(self.proof), "proof": self.proof,
                **{word: self.counts[word] for word in self.WORDS},
                "final_s": round(self.final_s, 1), "seconds": round(self.seconds, 1),
                "cpu_s": round(self.cpu_s, 1), "seed": self.seed,
                "problems": self.problems[:20]}


# ---------------------------------------------------------------- one run

class Trial:
    """The sale of one drill on a running stage."""

    _runs = 0

    def __init__(self, drill, stage, size, seed, say=lambda text: None):
        Trial._runs += 1
        self.drill, self.stage, self.size, self.say = drill, stage, size, say
        self.seed, self.rng = seed, random.Random(seed)
        self.door = stage.door()
        self.shop = sluicelib.Shop(self.door)
        self.first_user = 1_000_000 * Trial._runs
        self.verdict = Verdict(drill)
        self.verdict.seed = seed
        self.lots, self.fleeting = [], []
        self.cpu_s = cpulib.tree_cpu_s()
        self.began, self.steps = time.monotonic(), []  # when each step of the run began
        self.crowd = self.watchers = None
        self.away = drill.away

    def step(self, text):
        self.steps.append(f"{time.monotonic() - self.began:7.1f} s, {time.time():.3f}: {text}\n")
        self.say(text)

    # ------------------------------------------------------------ the sale

    def open_sales(self):
        """One sale whose orders last, one whose unpaid orders expire while the fault lasts. There
        are fewer units than buyers: everything is sold in the end."""
        users = self.size.users(self.drill.fault_s(self.size))
        for limits, pay_within_s in (((1, 5, 0), 3600), ((1,), 2)):
            items = [sluicelib.item_json(name=f"limit {limit}", total=max(10, users // 6),
                                         limit_per_user=limit, price_cents=1000 + limit)
                     for limit in limits]
            sale = self.ask(lambda: self.shop.create_sale(items, pay_within_s=pay_within_s))
            self.ask(lambda: self.shop.moved(sale["id"], "open"))
            made = [crashlib.Lot(item["id"], item["limit_per_user"], item["price_cents"],
                                 item["total"]) for item in sale["items"]]
            self.lots += made
            self.fleeting += made if pay_within_s < 60 else []
        for lot in self.lots:
            for front in self.stage.fronts:
                self.wait_open(front, lot)
        return users

    def ask(self, step):
        """What may meet a server that is not quite back yet."""
        end = time.monotonic() + sluicelib.GUARD_S
        while True:
            try:
                return step()
            except (AssertionError, OSError):
                if time.monotonic() > end:
                    raise
                self.door.client.close()
                time.sleep(0.1)

    def wait_open(self, front, lot):
        door = self.stage.door(front)

        def is_open():
            try:
                answer = door.get(f"/v1/items/{lot.item}")
                return answer.status == 200 and answer.json()["state"] == "open"
            except (OSError, sluicelib.ProtocolError):
                return False

        sluicelib.eventually(is_open, f"item {lot.item} open at {front.name}")
        door.client.close()

    def begin(self):
        users = self.open_sales()
        tell = os.path.join(self.stage.folder, f"tell-{Trial._runs}")
        self.watchers = crowdlib.Watchers([self.stage.door(front) for front in self.stage.fronts],
                                          self.lots, self.rng.randrange(2**32),
                                          self.first_user + 900_000)
        self.crowd = crowdlib.Crowd(self.door, [lot.item for lot in self.lots], tell, users,
                                    self.size.rate, self.rng.randrange(2**32),
                                    first_user=self.first_user)
        self.watchers.start()
        return users

    # ------------------------------------------------------------ the run

    def run(self):
        """The verdict; never raises for what the product did."""
        verdict = self.verdict
        try:
            self.step("opening a sale")
            self.begin()
            self.wait_told(int(self.size.rate * self.size.lead_s * 0.4))
            self.step("striking")
            proof = self.drill.strike(self)
            if not self.crowd.running():
                raise TooSlow("the crowd was gone before the fault was over")
            verdict.proof = proof
            self.step("healing")
            self.stage.heal()
            self.step("waiting for the crowd")
            self.watchers.quiet.set()  # its audit wants a ledger that comes to rest
            report = self.crowd.result()
            self.step("the watchers ask for everything again")
            self.watchers.finish()
            self.step("waiting until everything is final")
            self.check(report)
        except Missed as error:
            verdict.too_slow = isinstance(error, TooSlow)
            verdict.problems.append(f"the fault did not strike: {error}")
        except (AssertionError, OSError, subprocess.SubprocessError) as error:
            text = str(error) or traceback.format_exc()
            verdict.bad("wrong", text if len(text) < 3000 else f"{text[:1000]} ... {text[-2000:]}")
        finally:
            self.watchers and self.watchers.ended.set()
            self.crowd and self.crowd.kill()
        verdict.seconds = time.monotonic() - self.began
        verdict.cpu_s = max(cpulib.tree_cpu_s() - self.cpu_s, 0.0)
        return verdict

    def wait_told(self, goal):
        """Waits until the sale is under way. A crowd that ends without so many orders was refused,
        and so would be a larger one."""
        if self.crowd.wait_told(goal):
            return
        told = self.crowd.orders()
        if told < goal:
            raise Missed(f"the crowd ended with {told} orders of {goal}, refused: "
                         f"{dict(self.crowd.told.refusals)}")
        raise TooSlow("the crowd was gone before the fault could strike")

    # ------------------------------------------------------------ the check

    def check(self, report):
        verdict = self.verdict
        if self.watchers.in_line:
            verdict.proof += f"; up to {self.watchers.in_line} buyers stood in line at a front"
            self.away = True
        told = self.crowd.told
        self.watchers.report(told)
        orders = told.all()
        verdict.counts["told"] = len(orders)
        self.wait_final(orders)
        items = {lot.item for lot in self.lots}
        with crashlib.Ledger(self.door) as ledger:
            rows = [row for row in ledger.orders() if row.item in items]
            for text in ledger.problems():
                verdict.bad("wrong", text)
            events = ledger.base.rows("SELECT number, kind, order_id FROM events ORDER BY number")
        verdict.counts["booked"] = sum(row.status != "FAILED" for row in rows)
        verdict.counts["failed"] = sum(row.status == "FAILED" for row in rows)
        for text in told.problems + self.watchers.problems:
            verdict.bad("wrong", text)
        self.check_rows(orders, rows)
        self.check_places(rows)
        self.check_stock(rows)
        self.check_events(events, rows)
        self.check_crowd(report)

    def check_crowd(self, report):
        """The crowd's own audit, and the orders that another front did not find."""
        verdict = self.verdict
        audit = dict(report.get("audit") or {})
        if not audit:
            verdict.bad("wrong", f"the crowd could not audit: {report['stderr'][-600:]}")
            return
        backwards, unfound = self.crowd.backwards()
        if self.away:
            audit["wrong"] -= unfound  # each was counted there as backwards
            verdict.counts["unfound"] += unfound + len(self.watchers.unfound)
        else:
            for text in self.watchers.unfound:
                verdict.bad("wrong", text)
        for word in ("oversold", "lost", "doubled", "wrong"):
            if audit.get(word):
                verdict.bad(word, f"the crowd's own audit: {report['stderr'][-600:]}",
                            audit[word])
        if audit.get("wrong"):  # two answers on two connections may overtake each other: a hint
            for order_id, states in list(backwards.items())[:5]:
                verdict.bad("wrong", f"the crowd was told of {order_id}: {', '.join(states)}", 0)

    def keep(self, folder):
        """Requests and answers, to investigate a failure."""
        with open(os.path.join(folder, "steps"), "w", encoding="utf-8") as file:
            file.writelines(self.steps)
        if self.crowd:
            shutil.copy(self.crowd.tell.path, os.path.join(folder, "tell"))
        if self.watchers:
            with open(os.path.join(folder, "watchers"), "w", encoding="utf-8") as file:
                file.writelines(" ".join(map(str, line)) + "\n" for line in self.watchers.trace)

    def check_rows(self, told, rows):
        """Lost, doubled, backwards, untold."""
        verdict = self.verdict
        by_id = {row.id: row for row in rows}
        if len(by_id) != len(rows):
            verdict.bad("doubled", "order ids with more than one row", len(rows) - len(by_id))
        for order in told.values():
            row = by_id.get(order.id)
            if row is None:
                verdict.bad("lost", f"told {tuple(order)}, and the ledger has none")
            elif row[:4] != order[:4]:
                verdict.bad("wrong", f"told {tuple(order)}, the ledger has {tuple(row)}")
            elif not crashlib.may_follow(order.status, row.status):
                verdict.bad("wrong", f"told {tuple(order)}, the ledger has {row.status}")
        for row in rows:
            if row.id not in told and self.away:
                verdict.counts["unfound"] += 1  # in a line without a word; another front refused it
            elif row.id not in told:
                verdict.bad("wrong", f"nobody was told of {tuple(row)}")
            if row.status == "FAILED" and not self.away:
                verdict.bad("wrong", f"failed without a reason to: {tuple(row)}")

    def check_places(self, rows):
        """Where the ledger is split: every database has its part of them, and all together all."""
        database = self.stage.database
        if database is None or database.databases == 1:
            return
        items = ", ".join(str(lot.item) for lot in self.lots)
        counts = [int(database.server.run(f"SELECT count(*) FROM orders WHERE item_id IN ({items})",
                                          database.part(place))[0][0])
                  for place in range(database.databases)]
        text = f"orders in {len(counts)} databases: {', '.join(map(str, counts))}"
        self.verdict.proof += f"; {text}"
        if min(counts) == 0 or sum(counts) != len(rows):
            self.verdict.bad("wrong", f"{text}; {len(rows)} in all")

    def check_stock(self, rows):
        """Oversold, and buyers over their limit."""
        verdict = self.verdict
        held, alive = collections.Counter(), collections.Counter()
        for row in rows:
            if row.status in crashlib.ALIVE:
                held[row.item, row.user] += row.qty
                alive[row.item] += row.qty
        for lot in self.lots:
            if alive[lot.item] > lot.total:
                verdict.bad("oversold", f"{alive[lot.item]} alive of {lot.total}, item {lot.item}",
                            alive[lot.item] - lot.total)
        limits = {lot.item: lot.limit for lot in self.lots}
        for (item, user), units in held.items():
            if limits[item] and units > limits[item]:
                verdict.bad("doubled", f"user {user} holds {units} of item {item}, limit "
                                       f"{limits[item]}")

    def check_events(self, events, rows):
        """Each order was locked once and ended at most once, as its row says."""
        verdict = self.verdict
        if [number for number, _, _ in events] != list(range(1, len(events) + 1)):
            verdict.bad("wrong", "event numbers have gaps or repeat")
        history = collections.defaultdict(list)
        for _, kind, order_id in events:
            if kind.startswith("order."):
                history[order_id].append(kind[len("order."):].upper())
        for row in rows:
            wanted = {"LOCKED": ["LOCKED"], "FAILED": ["FAILED"]}.get(row.status,
                                                                     ["LOCKED", row.status])
            if history[row.id] != wanted:
                word = "doubled" if len(history[row.id]) > len(wanted) else "wrong"
                verdict.bad(word, f"{tuple(row)} has the history {history[row.id]}")

    def wait_final(self, told):
        """Every told order has its row, what may expire has expired, and the gate, the ledger's
        stock and the sum of its orders say the same of every item."""
        seen = {}

        def final():
            with crashlib.Ledger(self.door) as ledger:
                known = {row.id for row in ledger.orders()}
                accounts = {lot.item: (ledger.stock(lot.item), ledger.sums(lot))
                            for lot in self.lots}
            seen["missing"] = sorted(set(told) - known)[:5]
            seen["accounts"] = {}
            for lot in self.lots:
                stock, orders = accounts[lot.item]
                shown = [crashlib.gate_counters(self.stage.door(front), lot)
                         for front in self.stage.fronts]
                if not (all(one == stock for one in shown) and stock == orders) or \
                        (lot in self.fleeting and stock[1] != 0):
                    seen["accounts"][lot.item] = dict(shown=shown, stock=stock, orders=orders)
            return not seen["missing"] and not seen["accounts"]

        began = time.monotonic()
        try:
            sluicelib.eventually(final, "the end", guard_s=FINAL_S, every_s=0.2)
            self.verdict.final_s = time.monotonic() - began
        except AssertionError as error:
            self.verdict.bad("wrong", f"not final: {seen} ({error})")
