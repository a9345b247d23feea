"""The crowd of a drill, and the answers it got.

Crowd      `sluice bench` with a steady stream of buyers through nginx: duplicates of a ticket,
           dropped connections, payments, cancellations, retries until the outcome is known.
Watchers   a few buyers of our own who use every front in turn: a ticket from one, the buy at the
           next, the order at all. No front may take back what another has answered (promise 7), and
           every ticket and payment is sent again after the fault.

Both record every answer. The crowd sends no request that depends on an answer not yet in its file,
so the file is complete whenever anything dies.
"""
import collections
import random
import re
import threading
import time

import crashlib
import sluicelib

LINE_S = 0.05  # how often a front is asked for its line
ANSWER_S = 5  # then a watcher asks the next front
PATIENCE_S = 1800  # a crowd that takes so much longer than its arrivals hangs


class Crowd:
    """Buyers who arrive at a steady rate, so that a fault of any length meets some."""

    def __init__(self, door, items, tell_path, users, rate, seed, first_user=1, **options):
        self.tell = crashlib.TellFile(tell_path)
        self.told = crashlib.Told()
        self.users, self.rate = users, rate
        settings = dict(users=users, first_user=first_user, mode="open", rate=rate,
                        connections=64, duplicates=10, drops=3, pay=30, cancel=10,
                        keep_going=True, wait_ms=2000)
        settings.update(options)
        self.rush = crashlib.Rush(door, items, tell_path, seed=seed, **settings)
        self.started = time.monotonic()
        self.last_seen = collections.deque([(self.started, 0)], maxlen=4096)  # (when, orders told)

    def running(self):
        return self.rush.running()

    def orders(self):
        """How many orders the crowd has been told of so far."""
        self.told.read(self.tell)
        count = self.told.told_now()
        if count != self.last_seen[-1][1]:
            self.last_seen.append((time.monotonic(), count))
        return count

    def backwards(self):
        """Orders whose answers, in the order they came in, show less than before: id -> answers;
        and how often an order that was QUEUED was not found."""
        seen, found, unfound = {}, {}, 0
        with open(self.tell.path, encoding="ascii") as file:
            for line in file:
                order_id, _, _, _, http_status, status = line.split()
                seen.setdefault(order_id, []).append(status if status in crashlib.RANK
                                                     else f"{http_status} {status}")
        for order_id, states in seen.items():
            told = "QUEUED" if states[0] in crashlib.RANK else None
            for state in states:
                if state in crashlib.RANK:
                    if told and not crashlib.may_follow(told, state):
                        found[order_id] = states
                    told = state
                elif told == "QUEUED" and state == "404 not_found":
                    unfound += 1
                elif told and not state.startswith(("503", "429", "409", "502", "504")):
                    found[order_id] = states
        return found, unfound

    def wait_told(self, goal):
        sluicelib.eventually(lambda: self.orders() >= goal or not self.running(),
                             f"{goal} orders told", guard_s=PATIENCE_S, every_s=0.002)
        return self.running()

    def result(self):
        report = self.rush.result(guard_s=self.users / self.rate + PATIENCE_S)
        self.told.read(self.tell)
        return report

    def kill(self):
        if self.running():
            self.rush.kill()


class Watchers(threading.Thread):
    """One request after the other, round the fronts; what was seen at one counts at all."""

    def __init__(self, doors, lots, seed, first_user):
        super().__init__(daemon=True, name="watchers")
        self.doors, self.lots = doors, lots
        self.rng, self.user = random.Random(seed), first_user
        self.key = doors[0].secret_bytes("webhook.key")
        self.probes, self.answers, self.problems = [], collections.Counter(), []
        self.unfound = []  # orders that were QUEUED at one front and 404 at another
        self.trace = []  # every answer: when, which front, what was asked, what it said
        self.error = None
        self.ended = threading.Event()
        self.quiet = threading.Event()  # set: they look, and buy nothing more
        self.in_line = 0  # the most buyers that were seen in line at a front
        self.looked_at_line = 0.0
        self.turn, self.conns = 0, {}

    def run(self):
        try:
            while not self.ended.is_set():
                if not self.quiet.is_set():
                    self.probe(self.rng.choice(self.lots))
                for probe in self.rng.sample(self.probes, min(2, len(self.probes))):
                    self.look(probe)
                self.look_at_line()
                self.ended.wait(0.01)
        except BaseException as error:  # for finish()
            self.error = error

    def finish(self):
        """Ends it; then every ticket, payment and order once more, at every front."""
        self.ended.set()
        self.join(sluicelib.GUARD_S)
        if self.is_alive():
            raise crashlib.Broken("the watchers hang")
        if self.error:
            raise self.error
        for probe in self.probes:
            self.insist(lambda: self.buy(probe))
            if probe["paid"]:
                self.insist(lambda: self.pay(probe))
            for _ in self.doors:
                self.insist(lambda: self.look(probe))

    def insist(self, step):
        """After the fault: every retried request is answered."""
        sluicelib.eventually(lambda: step() is not None, "an answer", every_s=0.05)

    def call(self, method, path, body=None, user=None, headers=None):
        """The answer of the next front, or None where there was none worth the name."""
        self.turn += 1
        number = self.turn % len(self.doors)
        door = self.doors[number]
        fields = dict(headers or {})
        if user:
            fields["Authorization"] = f"Bearer {door.token(user)}"
        if body is not None:
            fields["Content-Type"] = "application/json"
            body = body if isinstance(body, bytes) else sluicelib.compact(body)
        conn = self.conns.pop(number, None)
        try:
            conn = conn or sluicelib.Conn(door.address, timeout_s=ANSWER_S)
            conn.send(sluicelib.request_bytes(method, path, fields, body))
            answer = conn.read_response(method)
        except (OSError, sluicelib.ProtocolError):
            if conn:
                conn.close()
            self.answers["none"] += 1
            self.trace.append((f"{time.time():.3f}", number + 1, method, path[:60], "none", ""))
            return None
        if answer.closes:
            conn.close()
        else:
            self.conns[number] = conn
        self.answers[answer.status] += 1
        if path == "/metrics":
            return answer if answer.status == 200 else None
        self.trace.append((f"{time.time():.3f}", number + 1, method, path[:60], answer.status,
                           answer.body[:160].decode("utf-8", "replace")))
        return None if answer.status in (429, 502, 503, 504) else answer

    def look_at_line(self):
        """Whether buyers stand in line at the next front, because it cannot reach the gate."""
        if time.monotonic() - self.looked_at_line < LINE_S:
            return
        self.looked_at_line = time.monotonic()
        answer = self.call("GET", "/metrics")
        found = answer and re.search(rb"^sluice_spool_undecided (\d+)", answer.body, re.M)
        self.in_line = max(self.in_line, int(found[1]) if found else 0)

    def problem(self, text):
        self.problems.append(text)

    def advance(self, probe, status):
        if probe["told"] and not crashlib.may_follow(probe["told"], status):
            self.problem(f"{probe['order']} was told {probe['told']}, later {status}")
        probe["told"] = status

    def probe(self, lot):
        self.user += 1
        answer = self.call("POST", f"/v1/items/{lot.item}/ticket", None, self.user)
        if answer is None or answer.status == 409:
            return
        if answer.status != 201:
            self.problem(f"ticket: {answer}")
            return
        ticket = answer.json()
        probe = dict(user=self.user, lot=lot, ticket=ticket["ticket"], order=ticket["order_id"],
                     until_ms=ticket["expires_at_ms"], told=None, paid=None, refused=None,
                     qty=1 if lot.limit == 1 else self.rng.randrange(1, 4), unknown=False)
        self.probes.append(probe)
        self.buy(probe)
        if probe["told"] and self.rng.random() < 0.3:
            self.pay(probe)

    def buy(self, probe):
        answer = self.call("POST", f"/v1/buy/{probe['ticket']}", {"qty": probe["qty"]},
                           probe["user"])
        if answer is None:
            probe["unknown"] = True
            return None
        if answer.status in (200, 202):
            body = answer.json()
            if body["order_id"] != probe["order"]:
                self.problem(f"the ticket of {probe['order']} gave {body}")
            self.advance(probe, body["status"])
        elif probe["told"]:
            self.problem(f"{probe['order']} was told {probe['told']}, then {answer}")
        elif answer.status == 409:
            probe["refused"] = answer.json()["code"]
        elif answer.status == 403 and time.time() * 1000 >= probe["until_ms"]:
            probe["refused"] = answer.json()["code"]  # too late; an order would have been answered
        else:
            self.problem(f"buy: {answer}")
        return answer

    def look(self, probe):
        answer = self.call("GET", f"/v1/orders/{probe['order']}", None, probe["user"])
        if answer is None:
            return None
        if answer.status == 200:
            self.advance(probe, answer.json()["status"])
        elif answer.status == 404 and not probe["told"]:
            pass  # nobody was told that it exists
        elif answer.status == 404 and probe["told"] == "QUEUED":
            self.unfound.append(f"{probe['order']} was told QUEUED, then {answer}")
        else:
            self.problem(f"{probe['order']} was told {probe['told']}, then {answer}")
        return answer

    def pay(self, probe):
        """Named after the order, so that asking again is asking the same."""
        body = sluicelib.compact({"payment_id": f"watch-{probe['order']}",
                                  "order_id": probe["order"],
                                  "amount_cents": probe["qty"] * probe["lot"].price})
        stamp = str(int(time.time()))
        signature = sluicelib.webhook_signature(self.key, probe["order"], stamp, body)
        answer = self.call("POST", "/v1/payments", body, headers={
            "webhook-id": probe["order"], "webhook-timestamp": stamp,
            "webhook-signature": signature})
        if answer is None:
            return None
        if answer.status == 200:
            probe["paid"] = answer.json()["status"]
            self.advance(probe, probe["paid"])
        elif probe["paid"]:
            self.problem(f"{probe['order']} was paid, its payment again: {answer}")
        elif answer.status == 404 and probe["told"] == "QUEUED":
            self.unfound.append(f"payment of {probe['order']}, which is QUEUED: {answer}")
        elif answer.status != 409:
            self.problem(f"payment of {probe['order']}: {answer}")
        return answer

    def report(self, told):
        """Passes the answers to the checker."""
        for probe in self.probes:
            if probe["told"]:
                told.tell(probe["order"], probe["user"], probe["lot"].item, probe["qty"],
                          probe["told"])
