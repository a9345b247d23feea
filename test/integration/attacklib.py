"""An attack: honest people use a server while somebody attacks it; they must hardly notice.

Attack   one entry of the list in attacks.py: its server, how it attacks, who is honest.
Trial    one run: the honest people alone, then the same beside the attack.
Verdict  their share of success and their p99 in both runs, and the proof that the attack struck.

A share below SHARE is a failure, in either run, and so is an attack that did nothing. The p99 is
printed and judged by nobody: the machine is shared.
"""
import collections
import json
import os
import signal
import subprocess
import sys
import threading
import time

import cpulib
import crashlib
import sluicelib

SHARE = 0.99
PATIENCE_S = 10  # an honest visitor who has no answer by then has left
HERE = os.path.dirname(os.path.abspath(__file__))

# What honest people asked for, how much of it they got, and how long 99 % of the answers took.
Measured = collections.namedtuple("Measured", "asked got p99_ms")


def share(measured):
    return measured.got / measured.asked


def p99_ms(seconds):
    ordered = sorted(seconds)
    return 1000 * ordered[max(0, -(-len(ordered) * 99 // 100) - 1)]


class Attacker:
    """A process of attackers.py. The newest line that it printed has its counters."""

    def __init__(self, kind, port, *arguments):
        words = [sys.executable, "-B", os.path.join(HERE, "attackers.py"), kind, str(port),
                 *map(str, arguments)]
        self.process = subprocess.Popen(words, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE,
                                        text=True)
        self.told = {}
        self.reader = threading.Thread(target=self.read, daemon=True)
        self.reader.start()

    def read(self):
        for line in self.process.stdout:
            self.told = json.loads(line)

    def counters(self):
        assert self.process.poll() is None, "the attacker has ended"
        return self.told

    def wait(self, condition, what):
        """condition(counters) holds; the counters."""
        sluicelib.eventually(lambda: condition(self.counters()), what, every_s=0.05)
        return self.told

    def end(self):
        if self.process.poll() is None:
            self.process.send_signal(signal.SIGTERM)
            try:
                self.process.wait(sluicelib.GUARD_S)
            except subprocess.TimeoutExpired:
                self.process.kill()
                self.process.wait()
        self.reader.join(sluicelib.GUARD_S)
        self.process.stdout.close()
        return self.told


class Attackers(Attacker):
    """Several processes of one kind, each with arguments of its own; their counters are added."""

    def __init__(self, kind, port, each):
        self.attackers = [Attacker(kind, port, *arguments) for arguments in each]

    def counters(self):
        self.told = sum((collections.Counter(one.counters()) for one in self.attackers),
                        collections.Counter())
        return self.told

    def end(self):
        return sum((collections.Counter(one.end()) for one in self.attackers),
                   collections.Counter())


class Attack:
    """One entry of the list. begin(trial) starts the attack, waits until it is in force and returns
    a function that ends it and returns the proof, a sentence. honest(trial, run) asks as honest
    people do and returns what they got; run is 0 without the attack and 1 beside it."""

    away = False

    def __init__(self, name, stage, about, begin, honest, short=False, long_stage=None):
        """long_stage: the server of the long form, if it is another."""
        self.name, self.stage, self.about = name, stage, about
        self.begin, self.honest, self.short = begin, honest, short
        self.long_stage = long_stage or stage

    def stage_of(self, size):
        return self.stage if size.short else self.long_stage

    def fault_s(self, size):
        """A trial of any length needs room in the gate for this many seconds of buyers."""
        return 0 if size.short else 1

    def trial(self, *arguments):
        return Trial(self, *arguments)


class Verdict:
    def __init__(self, drill):
        self.drill, self.proof, self.problems, self.seed = drill, "", [], None
        self.seconds = self.cpu_s = 0.0
        self.too_slow = False
        self.alone = self.beside = None

    def ok(self):
        return bool(self.proof) and not self.problems

    def judge(self):
        for measured, when in ((self.alone, "without the attack"), (self.beside, "beside the attack")):
            if share(measured) < SHARE:
                self.problems.append(f"{measured.got} of {measured.asked} honest requests succeeded "
                                     f"{when}")

    def figures(self):
        return [] if self.beside is None else [share(self.alone), share(self.beside),
                                               self.alone.p99_ms, self.beside.p99_ms]

    def lines(self):
        """For a terminal: shares and p99, and the proof."""
        if self.beside is None:
            return "", self.proof or "the attack was not shown to be in force"
        alone, beside, alone_ms, beside_ms = self.figures()
        return f"  honest {alone:.1%} -> {beside:.1%}, p99 {alone_ms:,.1f} -> {beside_ms:,.1f} ms", \
            self.proof or "the attack was not shown to be in force"

    def json(self):
        names = ("share_alone", "share_beside", "p99_alone_ms", "p99_beside_ms")
        return {"drill": self.drill.name, "stage": self.drill.stage, "about": self.drill.about,
                "attack": True, "ok": self.ok(), "struck": bool(self.proof), "proof": self.proof,
                **{name: round(value, 4) for name, value in zip(names, self.figures())},
                "seconds": round(self.seconds, 1), "cpu_s": round(self.cpu_s, 1), "seed": self.seed,
                "problems": self.problems[:20]}


class Trial:
    """One run of an attack on a running stage of its own."""

    def __init__(self, attack, stage, size, seed, say=lambda text: None):
        self.attack, self.stage, self.size, self.seed, self.say = attack, stage, size, seed, say
        self.front = stage.fronts[0]
        self.door = stage.door(self.front)
        self.shop = sluicelib.Shop(self.door)
        self.seconds = 4 if size.short else 20  # of honest buyers, in each run

    def run(self):
        verdict = Verdict(self.attack)
        verdict.seed = self.seed
        began, cpu_s, end = time.monotonic(), cpulib.tree_cpu_s(), None
        try:
            self.say("without the attack")
            verdict.alone = self.attack.honest(self, 0)
            self.say("the attack begins")
            end = self.attack.begin(self)
            self.say("beside the attack")
            verdict.beside = self.attack.honest(self, 1)
            verdict.proof, end = end(), None
            verdict.judge()
        except (AssertionError, OSError, subprocess.SubprocessError) as error:
            verdict.problems.append(str(error)[:3000] or repr(error))
        finally:
            if end is not None:
                end()
        verdict.seconds = time.monotonic() - began
        verdict.cpu_s = max(cpulib.tree_cpu_s() - cpu_s, 0.0)
        return verdict

    def keep(self, folder):
        """The logs of the stage say it all."""

    # ------------------------------------------------------------ honest people

    def buyers(self, run, rate=100, **options):
        """Buyers of an item of their own, with stock for all: who gets an order. They try again
        after 503 and lost connections, three times."""
        users = rate * self.seconds
        lot = self.shop.lot(total=users, limit=1)
        tell = os.path.join(self.stage.folder, f"tell-{lot.item}")
        settings = dict(users=users, first_user=1_000_000 * (run + 1), mode="open", rate=rate,
                        connections=32, drops=5, retries=3)
        settings.update(options)
        report = crashlib.Rush(self.door, [lot.item], tell, seed=self.seed % 2**32,
                               **settings).result()
        audit = report["audit"]
        assert audit and audit["ok"], f"the audit of the honest buyers: {report['stderr'][-600:]}"
        return Measured(users, report["orders"], report["p99_us"] / 1000)

    def each(self, count, ask, source=lambda number: None, patience_s=PATIENCE_S):
        """One after the other, each on a connection of its own: ask(conn, number) -> success. Stops
        asking when the verdict is certain. source(number): the address to come from."""
        got, times = 0, []
        for number in range(count):
            began = time.monotonic()
            try:
                with sluicelib.Conn(self.door.address, timeout_s=patience_s,
                                    source=source(number)) as conn:
                    got += bool(ask(conn, number))
            except (OSError, sluicelib.ProtocolError):
                pass
            times.append(time.monotonic() - began)
            if got < number + 1 - count * (1 - SHARE) * 3:
                break
        return Measured(count, got, p99_ms(times))
