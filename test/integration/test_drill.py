"""The tools of the drills: the proxy does what it promises, a member can be stopped and found again,
and a verdict fails where it must. (script/drill runs the drills themselves.)
"""
import collections
import socket
import threading
import time
import types

import pytest

import attacklib
import attacks
import crashlib
import crowdlib
import drilllib
import proclib
import proxylib
import strikes
from crashlib import Lot, Order


# ---------------------------------------------------------------- the proxy

@pytest.fixture
def echo():
    """A server that says what it hears."""
    listener = socket.create_server(("127.0.0.1", 0))

    def serve(conn):
        try:
            while data := conn.recv(65536):
                conn.sendall(data)
        except OSError:
            pass
        conn.close()

    def accept():
        while True:
            try:
                conn, _ = listener.accept()
            except OSError:
                return
            threading.Thread(target=serve, args=(conn,), daemon=True).start()

    threading.Thread(target=accept, daemon=True).start()
    yield listener.getsockname()
    listener.close()


@pytest.fixture
def proxy(echo):
    made = proxylib.Proxy(echo)
    yield made
    made.close()


def connect(proxy):
    conn = socket.create_connection(proxy.address, 10)
    conn.sendall(b"?")
    assert conn.recv(1) == b"?"
    return conn


def silent(conn):
    """Nothing arrives within a while."""
    conn.settimeout(0.3)
    try:
        with pytest.raises(TimeoutError):
            conn.recv(1)
    finally:
        conn.settimeout(10)


@pytest.mark.parametrize("harm", [lambda p: p.cut(), lambda p: p.hold(proxylib.UP),
                                  lambda p: p.hold(proxylib.DOWN)])
def test_what_is_held_arrives_after_the_cut(proxy, harm):
    with connect(proxy) as conn:
        assert harm(proxy) == 1
        conn.sendall(b"hello")
        silent(conn)
        assert proxy.held_bytes() == 5
        proxy.heal()
        assert conn.recv(5) == b"hello"


def test_the_end_of_a_connection_does_not_pass_a_cut(proxy):
    with connect(proxy) as conn:
        proxy.cut()
        conn.shutdown(socket.SHUT_WR)
        silent(conn)
        assert proxy.connections() == 1
        proxy.heal()
        assert conn.recv(1) == b""


def test_refused_and_reset(proxy):
    with connect(proxy) as conn:
        assert proxy.reset() == 1
        with pytest.raises(ConnectionResetError):
            conn.recv(1)
    with connect(proxy):
        assert proxy.refuse() == 1
        with pytest.raises(ConnectionRefusedError):
            socket.create_connection(proxy.address)
    proxy.heal()
    connect(proxy).close()


def test_a_trap_holds_the_other_direction(proxy):
    with connect(proxy) as conn:
        trap = proxy.trap(proxylib.UP, b"MAGIC", proxylib.DOWN)
        conn.sendall(b"noMA")
        assert conn.recv(4) == b"noMA" and not trap.sprung.is_set()
        conn.sendall(b"GIC")
        assert trap.sprung.wait(10)
        silent(conn)
        proxy.heal()
        assert conn.recv(3) == b"GIC"


def test_a_cut_of_some_leaves_the_others(proxy):
    with connect(proxy) as one, connect(proxy) as other:
        one.sendall(b"PSYNC")
        assert one.recv(5) == b"PSYNC"
        assert proxy.cut_those(b"PSYNC") == 1
        one.sendall(b"x")
        other.sendall(b"y")
        assert other.recv(1) == b"y"
        silent(one)
        proxy.heal()
        assert one.recv(1) == b"x"


def test_a_delay_delays_and_much_gets_through(proxy):
    with connect(proxy) as conn:
        proxy.delay(0.2)
        began = time.monotonic()
        conn.sendall(b"x")
        assert conn.recv(1) == b"x" and time.monotonic() - began >= 0.4
        proxy.heal()
        threading.Thread(target=lambda: (conn.sendall(bytes(8 << 20)),
                                         conn.shutdown(socket.SHUT_WR))).start()
        size = 0
        while data := conn.recv(1 << 20):
            size += len(data)
        assert size == 8 << 20


# ---------------------------------------------------------------- members

class Sleeper(proclib.Member):
    """A shell with a child, so that signals have to reach both."""

    def command(self):
        return ["sh", "-c", "sleep 1000 & echo up; wait"]

    def ready(self):
        return "up" in self.log()


def test_a_member_is_frozen_killed_and_found_again(tmp_path):
    one = Sleeper("sleeper", str(tmp_path / "sleeper")).start()
    try:
        one.freeze()
        assert one.frozen()
        one.thaw()
        other = Sleeper("sleeper", one.folder, one.port)
        assert other.pid == one.pid and other.alive()
        with pytest.raises(AssertionError, match="runs already"):
            other.spawn()
        pid = one.kill()
        assert not one.alive() and not other.alive() and not proclib.process_state(pid)
        assert not Sleeper("sleeper", one.folder, one.port).alive()
        assert one.start().pid != pid and one.stop()
    finally:
        one.discard()


def test_a_pid_that_is_somebody_elses_is_left_alone(tmp_path):
    one = Sleeper("sleeper", str(tmp_path / "sleeper"))
    with open(one.pid_path(), "w") as file:
        file.write("1 12345\n")  # pid 1 was not born then
    assert Sleeper("sleeper", one.folder, one.port).pid is None


def test_one_that_ends_by_itself_is_told(tmp_path):
    class Fainter(Sleeper):
        def command(self):
            return ["sh", "-c", "echo oh; exit 3"]

    one = Fainter("fainter", str(tmp_path / "fainter"))
    with pytest.raises(proclib.Gone, match="oh"):
        one.start()
    one.discard()


# ---------------------------------------------------------------- verdicts

class Stageless(drilllib.Trial):
    """The checks of a trial without a sale, on given ledger rows and client answers."""

    def __init__(self, lots, away=False):
        self.lots = lots
        self.drill = drilllib.Drill("test", "none", "", None, away=away)
        self.verdict = drilllib.Verdict(self.drill)
        self.verdict.proof = "given"
        self.away = away
        self.verdict.counts["told"] = 1


LOT = Lot(item=7, limit=1, price=100, total=2)
A = Order("a", 1, 7, 1, "LOCKED")
B = Order("b", 2, 7, 1, "PAID")
C = Order("c", 3, 7, 1, "LOCKED")


def judge(told, rows, events=None, away=False, lot=LOT):
    trial = Stageless([lot], away)
    trial.check_rows({order.id: order for order in told}, rows)
    trial.check_stock(rows)
    if events is not None:
        trial.check_events([(number, kind, order) for number, (kind, order) in
                            enumerate(events, 1)], rows)
    return trial.verdict


def test_what_is_right_is_right():
    told = [A, B._replace(status="QUEUED")]
    events = [("order.locked", "a"), ("order.locked", "b"), ("order.paid", "b")]
    assert judge(told, [A, B], events).ok()


@pytest.mark.parametrize("word, told, rows", [
    ("lost", [A, B], [A]),
    ("doubled", [A], [A, A]),
    ("doubled", [A, C], [A, C._replace(user=1)]),
    ("oversold", [A, B, C], [A, B, C]),
    ("wrong", [A._replace(user=9)], [A]),
    ("wrong", [A._replace(status="PAID")], [A]),
    ("wrong", [], [A]),
    ("wrong", [A._replace(status="QUEUED")], [A._replace(status="FAILED")]),
])
def test_what_is_wrong_fails(word, told, rows):
    verdict = judge(told, rows)
    assert not verdict.ok() and verdict.counts[word] > 0, verdict.json()


@pytest.mark.parametrize("word, events", [
    ("doubled", [("order.locked", "a"), ("order.locked", "a")]),
    ("wrong", []),
    ("wrong", [("order.failed", "a")]),
])
def test_a_history_that_is_not_the_row_fails(word, events):
    verdict = judge([A], [A], events)
    assert not verdict.ok() and verdict.counts[word] == 1, verdict.json()


def test_failed_is_fine_only_where_redis_may_forget():
    failed = A._replace(status="FAILED")
    told = [A._replace(status="QUEUED")]
    assert judge(told, [failed], away=True).ok()
    assert not judge([A], [failed], away=True).ok(), "LOCKED was told: that is final"


@pytest.mark.parametrize("rows, name", [([("a-host-12-0badcafe", 3)], "keeper1"),
                                        ([("a-host-11-0badcafe", 3)], None),
                                        ([("", 3)], None), ([], None)])
def test_the_keeper_that_holds_the_lease_is_found(rows, name):
    keeper = types.SimpleNamespace(name="keeper1", pid=12)
    stage = types.SimpleNamespace(kinds={"keeper": [keeper]},
                                  database=types.SimpleNamespace(rows=lambda sql: rows))
    found, token = strikes.lease(stage)
    assert (found and found.name) == name and token == (3 if rows else 0)


@pytest.mark.parametrize("told, until_ms, right", [(None, 0, True), (None, 2**60, False),
                                                   ("QUEUED", 0, False)])
def test_a_ticket_may_expire_only_where_nobody_was_told_of_its_order(told, until_ms, right):
    watchers = crowdlib.Watchers.__new__(crowdlib.Watchers)
    watchers.problems = []
    refusal = types.SimpleNamespace(status=403, json=lambda: {"code": "bad_ticket"})
    watchers.call = lambda *_: refusal
    watchers.buy(dict(ticket="t", order="o", qty=1, user=1, told=told, until_ms=until_ms))
    assert (not watchers.problems) == right


@pytest.mark.parametrize("slow, asked", [(0, [1]), (1, [1, 4]), (9, [1, 4, 16])])
def test_a_crowd_that_was_gone_too_soon_comes_again_larger(slow, asked, monkeypatch):
    monkeypatch.setenv("SLUICE_GUARD_S", "60")  # else the import sets it, for every test
    import drill as script
    runner = script.Runner(types.SimpleNamespace(short=True, rate=None, seed=1))
    tried = []

    def once(drill, times):
        tried.append(times)
        verdict = drilllib.Verdict(drill)
        verdict.too_slow = len(tried) <= slow
        return verdict

    runner.once = once
    verdict = runner.one(drilllib.Drill("test", "none", "", None))
    assert tried == asked and runner.verdicts == [verdict]
    assert drilllib.Size(True, times=4).users(3) == 4 * drilllib.Size(True).users(3)


@pytest.mark.parametrize("orders, users, room", [(0, 50, True), (60, 20, True), (61, 20, False)])
def test_a_stage_whose_gate_is_nearly_full_takes_no_other_crowd(orders, users, room, monkeypatch):
    monkeypatch.setenv("SLUICE_GUARD_S", "60")
    import drill as script
    ledger = types.SimpleNamespace(rows=lambda sql: [(orders,)], close=lambda: None)
    door = types.SimpleNamespace(database=types.SimpleNamespace(snapshot=lambda: ledger))
    assert script.has_room(types.SimpleNamespace(door=lambda: door, orders_max=100), users) == room


def crowd_of(told, running=False):
    """A crowd whose answers showed this many orders."""
    return types.SimpleNamespace(running=lambda: running, orders=lambda: told,
                                 wait_told=lambda goal: running,
                                 told=types.SimpleNamespace(refusals={"overloaded": 7}))


def test_a_crowd_that_was_gone_before_the_fault_is_told_from_one_that_was_refused():
    trial = Stageless([LOT])
    trial.crowd = crowd_of(3, running=True)
    trial.wait_told(3)
    trial.crowd = crowd_of(3)
    with pytest.raises(drilllib.TooSlow):
        trial.wait_told(3)
    with pytest.raises(drilllib.Missed, match="overloaded") as refused:
        trial.wait_told(4)
    assert not isinstance(refused.value, drilllib.TooSlow)


def test_a_strike_does_not_wait_for_a_crowd_that_is_gone():
    trial = Stageless([LOT])
    trial.crowd = crowd_of(0)
    assert strikes.caused(trial, lambda: 5, "five") == 5
    with pytest.raises(drilllib.TooSlow):
        strikes.caused(trial, lambda: 0, "nothing")


class Split:
    """Three databases that hold so many orders each, without a server."""

    databases = 3

    def __init__(self, counts):
        self.counts, self.server = counts, self

    def part(self, place):
        return place

    def run(self, _sql, place):
        return [(str(self.counts[place]),)]


@pytest.mark.parametrize("counts, right", [((1, 1, 1), True), ((2, 1, 0), False),
                                           ((1, 1, 2), False)])
def test_a_ledger_that_is_not_split_as_it_says_fails(counts, right):
    trial = Stageless([LOT])
    trial.stage = types.SimpleNamespace(database=Split(counts))
    trial.check_places([A, B, C])
    assert trial.verdict.ok() == right, trial.verdict.json()
    assert "3 databases" in trial.verdict.proof


class ToldCrowd(crowdlib.Crowd):
    """The answers of a crowd, without the crowd."""

    def __init__(self, path, lines):
        path.write_text("".join(f"{order} 1 7 1 {answer}\n" for order, answer in lines))
        self.tell = crashlib.TellFile.__new__(crashlib.TellFile)
        self.tell.path = str(path)


@pytest.mark.parametrize("away", [True, False])
@pytest.mark.parametrize("answers, wrong, unfound", [
    (["202 QUEUED", "503 degraded", "200 LOCKED", "409 already_paid"], 0, 0),
    (["202 QUEUED", "404 not_found"], 1, 1),
    (["200 LOCKED", "404 not_found"], 1, 0),
    (["200 LOCKED", "202 QUEUED"], 1, 0),
])
def test_what_another_front_does_not_find(tmp_path, away, answers, wrong, unfound):
    """Excused, and counted, only for an order that is QUEUED while Redis is away."""
    trial = Stageless([LOT], away)
    trial.crowd = ToldCrowd(tmp_path / "tell", [("a", answer) for answer in answers])
    trial.watchers = crowdlib.Watchers.__new__(crowdlib.Watchers)
    trial.watchers.unfound = []
    trial.check_crowd({"audit": {"wrong": wrong}, "stderr": ""})
    excused = away and unfound
    assert trial.verdict.counts["unfound"] == (unfound if away else 0)
    assert trial.verdict.ok() == (wrong == 0 or bool(excused)), trial.verdict.json()


def test_a_fault_that_did_not_strike_is_a_failure():
    verdict = judge([A], [A])
    assert verdict.ok()
    verdict.proof = ""
    assert not verdict.ok()


def test_a_crowd_that_was_told_nothing_is_a_failure():
    verdict = judge([A], [A])
    verdict.counts = collections.Counter()
    assert not verdict.ok()


# ---------------------------------------------------------------- attacks

@pytest.mark.parametrize("alone, beside, proof, right", [
    ((100, 100), (100, 99), "it struck", True),
    ((100, 100), (100, 98), "it struck", False),
    ((100, 98), (100, 100), "it struck", False),
    ((100, 100), (100, 100), "", False),
])
def test_an_attack_is_judged_by_the_share_of_honest_people(alone, beside, proof, right):
    verdict = attacklib.Verdict(attacks.ATTACKS[0])
    verdict.alone, verdict.beside = (attacklib.Measured(*one, p99_ms=1) for one in (alone, beside))
    verdict.proof = proof
    verdict.judge()
    assert verdict.ok() == right, verdict.json()


def test_p99_is_the_99th_of_a_hundred():
    assert attacklib.p99_ms([number / 1000 for number in range(1, 101)]) == 99
    assert attacklib.p99_ms([0.005]) == 5
