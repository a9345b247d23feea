"""The gate on real Redis topologies: one server, Sentinels, a Cluster, while servers die, freeze and
hand slots over in the middle of a rush; and WAIT.

A front without HTTP (test/probe/redis_probe.c) buys. The answers of its buyers are compared with the
data of the servers. For the orders of one epoch, always:
  - a refused buyer has no order;
  - a buyer with an order got the answer `won` or `unknown`;
  - each order is in the outbox once, and the counts of units, orders and outbox entries agree.
If no server lost its memory, every buyer who won has an order.
"""
import contextlib
import json
import os
import select
import signal
import subprocess

import pytest

import redislib
import sluicelib
from sluicelib import eventually

PROGRAMS = os.path.join(os.path.dirname(sluicelib.BINARY), "test")
PROBE = os.path.join(PROGRAMS, "redis_probe")
SEGMENTS_SUITE = os.path.join(PROGRAMS, "conformance_test_segments_redis")
ITEM, STOCK = 11, 1000000

pytestmark = pytest.mark.skipif(redislib.missing() != "",
                                reason=f"not installed: {redislib.missing()}")


class Probe:
    """A front of its own keys; ended with its test."""

    made = 0

    def __init__(self, url, segments=0, wait_replicas=0, wait_timeout_ms=0, password_file=None):
        Probe.made += 1
        self.prefix = f"probe{os.getpid()}-{Probe.made}"
        self.process = subprocess.Popen(
            [PROBE, url, str(segments), self.prefix, str(wait_replicas), str(wait_timeout_ms),
             *([password_file] if password_file else [])],
            stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
        self.segments = self.ask("segments")["segments"]
        self.epochs = {}

    def ask(self, *words):
        self.process.stdin.write(" ".join(map(str, words)) + "\n")
        self.process.stdin.flush()
        if not select.select([self.process.stdout], [], [], 2 * sluicelib.GUARD_S)[0]:
            self.process.kill()
        line = self.process.stdout.readline()
        assert line, f"the probe ended: {self.process.wait()}"
        return json.loads(line)

    def close(self):
        self.process.stdin.close()
        assert self.process.wait(60) == 0
        self.process.stdout.close()

    def kill(self):
        if self.process.poll() is None:
            self.process.kill()
            self.process.wait()

    @contextlib.contextmanager
    def asleep(self):
        """It notices nothing of what happens meanwhile."""
        self.process.send_signal(signal.SIGSTOP)
        try:
            yield
        finally:
            self.process.send_signal(signal.SIGCONT)

    def ready(self):
        assert self.ask("ready")["ready"], "the links are not ready"

    def where(self, segment):
        return self.ask("where", segment)

    def port(self, segment):
        return self.where(segment)["port"]

    def slot(self, segment):
        return self.where(segment)["slot"]

    def rebuild(self, *segments):
        for segment in segments or range(self.segments):
            epoch = self.epochs[segment] = self.epochs.get(segment, 0) + 1
            done = self.ask("rebuild", segment, epoch)
            assert done["outcome"] == "done", done

    def open(self):
        self.ready()
        self.rebuild()
        return self

    def told(self):
        """The buyers' answers since the last call."""
        return [Told(*row) for row in self.ask("told")]

    def buy(self, count):
        self.ask("buy", count)
        return self.told()

    # ------------------------------------------------------------ news

    def hear(self, ms=20):
        return self.ask("hear", ms)

    def hear_of_loss(self):
        """Listens until something may have been missed, and on until it is quiet."""
        eventually(lambda: self.hear()["lost"], "news to be lost", every_s=0)
        eventually(lambda: not any(self.hear(100).values()), "quiet", every_s=0)

    def confirm(self, *segments):
        """All orders there. -> how many"""
        return sum(self.ask("confirm", segment, STOCK)["done"] for segment in segments)

    def hear_orders(self, count):
        """Listens until so many were heard. -> [[segment, user]], sorted"""
        heard = []

        def enough():
            heard.extend(self.hear()["orders"])
            return len(heard) >= count
        eventually(enough, f"news of {count} orders", every_s=0)
        return sorted(heard + self.hear(100)["orders"])

    def channel(self, segment):
        return f"{self.prefix}{{{self.where(segment)['tag']}}}:news"

    # ------------------------------------------------------------ what the servers have

    def check(self, server, segment, epoch, told, kept=True):
        """Compares one epoch of a segment with the answers. -> the buyers with an order"""
        key = f"{self.prefix}{{{self.where(segment)['tag']}}}"
        users = []
        for name in server.ask("KEYS", f"{key}:{epoch}:o:{ITEM}:*"):
            users += [int(value.split()[0]) for value in server.ask("HVALS", name)]
        outbox = [dict(zip(*[iter(fields)] * 2))["reserve"].split()
                  for _, fields in server.ask("XRANGE", f"{key}:out", "-", "+")]
        decided = [int(words[3]) for words in outbox if int(words[1]) == epoch]
        assert sorted(decided) == sorted(users), "outbox and orders differ"
        assert len(set(users)) == len(users)
        item = server.ask("HMGET", f"{key}:{epoch}:i:{ITEM}", "available", "locked")
        if kept or item != [None, None]:  # a replica may know nothing of the epoch yet
            assert [int(number) for number in item] == [STOCK - len(users), len(users)]
        mine = [one for one in told if one.segment == segment and one.epoch == epoch]
        by = {fate: {one.user for one in mine if one.fate == fate}
              for fate in ("won", "refused", "unknown")}
        assert sum(map(len, by.values())) == len(mine), "somebody was told nothing"
        assert not by["refused"] & set(users), "ran, and was told that nothing did"
        assert set(users) <= by["won"] | by["unknown"], "orders of nobody"
        if kept:
            assert by["won"] <= set(users), "orders that were promised are gone"
        return set(users)


class Told:
    def __init__(self, user, segment, epoch, fate):
        self.user, self.segment, self.epoch, self.fate = user, segment, epoch, fate


def fates(told, segment=None):
    """{fate: how many}"""
    counts = {}
    for one in told:
        if segment is None or one.segment == segment:
            counts[one.fate] = counts.get(one.fate, 0) + 1
    return counts


@pytest.fixture
def make_probe():
    made = []

    def make(*args, **options):
        made.append(Probe(*args, **options))
        return made[-1]

    yield make
    try:
        for probe in made:
            probe.close()
    finally:
        for probe in made:
            probe.kill()


@pytest.fixture(scope="module")
def sentinels():
    with redislib.Sentinels() as group:
        yield group


@pytest.fixture(scope="module")
def cluster():
    with redislib.Cluster() as group:
        yield group


def meanwhile(probe, least, fate="won", segment=None):
    """Lets buyers go on until this many got this answer. -> the answers of all"""
    told = []

    def enough():
        told.extend(probe.told())
        return fates(told, segment).get(fate, 0) >= least
    eventually(enough, f"{least} buyers to be told: {fate}")
    return told


# ---------------------------------------------------------------- one server

@pytest.mark.asan
def test_one_server(make_probe):
    with redislib.Redis() as server:
        probe = make_probe(server.url.replace("127.0.0.1", "localhost"))
        assert probe.segments == 1
        probe.open()
        told = probe.buy(500)
        assert fates(told) == {"won": 500}
        assert probe.check(server, 0, 1, told) == {one.user for one in told}
        server.kill()
        assert set(fates(probe.buy(50))) <= {"refused", "unknown"}
        server.start()
        probe.ready()
        assert fates(probe.buy(50)) == {"unknown": 50}
        probe.rebuild()
        told = probe.buy(50)
        assert fates(told) == {"won": 50}
        probe.check(server, 0, 2, told)


# ---------------------------------------------------------------- the contract

@pytest.mark.asan
@pytest.mark.parametrize("topology", ["cluster", "sentinels"])
def test_the_contract_of_segments(request, topology):
    """The suite that all segments pass, spread over the masters of a Cluster, and on the master that
    Sentinels name. (On one server it is among the unit tests.)"""
    group = request.getfixturevalue(topology)
    with redislib.Redis() as server:  # for what the suite does beside the segments
        done = subprocess.run(
            [SEGMENTS_SUITE], stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, text=True,
            stderr=subprocess.STDOUT, timeout=900,
            env={**os.environ, "SLUICE_TEST_REDIS": f"127.0.0.1:{server.port}",
                 "SLUICE_TEST_REDIS_URL": group.url})
    assert done.returncode == 0 and "[  PASSED  ]" in done.stdout, done.stdout[-4000:]


# ---------------------------------------------------------------- who may ask

def buys(probe, server):
    probe.open()
    told = probe.buy(20)
    assert fates(told) == {"won": 20}
    probe.check(server, 0, 1, told)


def test_one_server_with_a_user(make_probe):
    with redislib.Redis() as server:
        server.ask("ACL", "SETUSER", "shop", "on", ">p@ss/1", "allkeys", "allchannels", "+@all")
        server.ask("ACL", "SETUSER", "default", "off")
        buys(make_probe(f"redis://shop:p%40ss%2f1@127.0.0.1:{server.port}"), server)


def test_a_cluster_with_a_password(make_probe):
    """Of one node."""
    with redislib.Redis(["--cluster-enabled", "yes", "--cluster-port", sluicelib.private_port()],
                        password="pass word") as node:
        node.ask("CLUSTER", "ADDSLOTSRANGE", 0, redislib.SLOTS - 1)
        eventually(lambda: "cluster_state:ok" in node.ask("CLUSTER", "INFO"), "the Cluster")
        probe = make_probe(f"cluster://:pass%20word@127.0.0.1:{node.port}")
        assert probe.segments == 1
        buys(probe, node)


def test_a_sentinel_with_a_password(make_probe, tmp_path):
    secret = tmp_path / "sentinel.password"
    secret.write_text("sesame\n")
    with redislib.Redis(password="pass word") as master, redislib.Redis(
            password="sesame", sentinel=f"sentinel monitor shop 127.0.0.1 {master.port} 1\n"
                                        'sentinel auth-pass shop "pass word"\n') as watcher:
        url = f"sentinel://:pass%20word@127.0.0.1:{watcher.port}/shop"
        buys(make_probe(url, password_file=str(secret)), master)
        assert make_probe(url, segments=1).port(0) == 0  # nobody tells him


# ---------------------------------------------------------------- Sentinels

@pytest.mark.asan
def test_a_killed_master_is_left_for_the_new_one(sentinels, make_probe):
    probe = make_probe(sentinels.url).open()
    old = sentinels.master()
    assert probe.segments == 1 and probe.port(0) == old.port
    told = probe.buy(500)
    assert fates(told) == {"won": 500}
    probe.ask("start")
    told += meanwhile(probe, 100)
    old.kill()
    new = sentinels.failed_over(old)
    eventually(lambda: probe.port(0) == new.port, "the topology to follow")
    probe.ask("stop")
    probe.ready()
    during = probe.told()
    assert fates(during).get("refused", 0) + fates(during).get("unknown", 0) > 0
    told += during
    probe.check(new, 0, 1, told, kept=False)  # replication may have been behind
    # The new master has the segment of another server: nobody decides until it is rebuilt.
    assert fates(probe.buy(50)) == {"unknown": 50}
    assert probe.ask("look", 0)["outcome"] == "stale"
    probe.rebuild()
    told = probe.buy(300)
    assert fates(told) == {"won": 300}
    # The old one comes back and takes itself for a master for a while.
    old.start()
    assert old.role() == "master"
    told += probe.buy(100)
    assert probe.port(0) == new.port
    assert fates(told) == {"won": 400}
    probe.check(new, 0, 2, told)
    sentinels.rejoin(old, new)


def test_a_frozen_master_is_not_believed_when_it_wakes(sentinels, make_probe):
    """And a Sentinel that slept through the failover is not, either."""
    probe = make_probe(sentinels.url).open()
    old, sleeper = sentinels.master(), sentinels.watchers[0]
    probe.ask("start")
    told = meanwhile(probe, 100)
    old.freeze()
    sleeper.freeze()
    watchers, sentinels.watchers = sentinels.watchers, sentinels.watchers[1:]
    try:
        new = sentinels.failed_over(old)
    finally:
        sentinels.watchers = watchers
        sleeper.thaw()
        old.thaw()
    eventually(lambda: probe.port(0) == new.port, "the topology to follow")
    probe.ask("stop")
    probe.ready()
    told += probe.told()
    probe.check(new, 0, 1, told, kept=False)
    probe.rebuild()
    told = probe.buy(300)
    assert fates(told) == {"won": 300}
    assert probe.port(0) == new.port
    probe.check(new, 0, 2, told)
    sentinels.rejoin(old, new)


def test_a_sentinel_that_knows_less_is_not_believed(sentinels, make_probe):
    """It was set up anew, and names another server; first beside the others, then alone."""
    if sentinels.epoch() == 0:
        sentinels.hand_over()
    master = sentinels.master()
    with redislib.Redis() as other, redislib.Redis(
            sentinel=f"sentinel monitor {sentinels.NAME} 127.0.0.1 {other.port} 2\n") as lone:
        probe = make_probe(sentinels.url.replace("//", f"//127.0.0.1:{lone.port},")).open()
        assert probe.port(0) == master.port
        for watcher in sentinels.watchers:
            watcher.kill()
        try:
            eventually(lambda: probe.ask("numbers")["looks_failed"] > 0, "a look at it alone")
            assert probe.port(0) == master.port
            assert fates(probe.buy(50)) == {"won": 50}
        finally:
            for watcher in sentinels.watchers:
                watcher.start()
        eventually(sentinels.settled, "the Sentinels to find each other again")


# ---------------------------------------------------------------- WAIT

@pytest.mark.asan
def test_a_promise_waits_for_replicas(sentinels, make_probe):
    master, replica = sentinels.master(), sentinels.replica()
    probe = make_probe(sentinels.url, wait_replicas=1, wait_timeout_ms=200).open()
    probe.ask("buy", 300)
    assert probe.ask("again", 0)["left"] == 0  # a replica that is busy may need more than 200 ms
    told = probe.told()
    assert fates(told) == {"won": 300}
    before = probe.ask("numbers")
    # One WAIT stands for many promises.
    assert before["waits"] > 0 and (before["waits"] <= 300 or before["waits_short"] > 0)
    assert probe.check(replica, 0, 1, told) == {one.user for one in told}
    replica.freeze()
    try:
        probe.ask("buy", 20)
    finally:
        replica.thaw()
    assert probe.ask("numbers")["waits_short"] > before["waits_short"]
    assert probe.ask("again", 0)["left"] == 0
    late = probe.told()
    assert fates(late) == {"won": 20}
    probe.check(master, 0, 1, told + late)


def test_too_few_replicas_undo_nothing(sentinels, make_probe):
    master = sentinels.master()
    probe = make_probe(sentinels.url, wait_replicas=2, wait_timeout_ms=10).open()
    probe.ask("buy", 100)
    assert probe.ask("again", 1)["left"] == 100  # who asks again waits again
    told = probe.told()
    assert fates(told) == {"unknown": 100}
    assert len(probe.check(master, 0, 1, told)) == 100


# ---------------------------------------------------------------- Cluster

def ports(probe):
    return [probe.port(segment) for segment in range(probe.segments)]


def server_at(cluster, port):
    return next(server for server in cluster.servers if server.port == port)


@pytest.mark.asan
def test_every_master_has_a_segment(cluster, make_probe):
    probe = make_probe(cluster.url).open()
    assert probe.segments == 3
    assert len(set(ports(probe))) == 3
    told = probe.buy(600)
    assert fates(told) == {"won": 600}
    for segment, port in enumerate(ports(probe)):
        users = probe.check(server_at(cluster, port), segment, 1, told)
        assert users == {one.user for one in told if one.segment == segment}
        assert len(users) > 100


@pytest.mark.asan
def test_a_slot_that_moved_is_followed(cluster, make_probe):
    probe = make_probe(cluster.url).open()
    before = ports(probe)
    cluster.reshard(probe.slot(1), server_at(cluster, before[0]))
    told = probe.buy(300)
    assert probe.ask("numbers")["redirects"] > 0
    assert ports(probe) == [before[0], before[0], before[2]]
    assert fates(told, 0) == {"won": len([one for one in told if one.segment == 0])}
    # Its keys came along, but they are another server's: no decision until it is rebuilt.
    assert set(fates(told, 1)) == {"unknown"}
    probe.rebuild(1)
    told = probe.buy(300)
    assert fates(told) == {"won": 300}
    probe.check(server_at(cluster, before[0]), 1, 2, told)
    cluster.reshard(probe.slot(1), server_at(cluster, before[1]))
    cluster.wait()


@pytest.mark.asan
def test_a_slot_is_moved_while_buyers_buy(cluster, make_probe):
    probe = make_probe(cluster.url).open()
    before = ports(probe)
    source, target = server_at(cluster, before[2]), server_at(cluster, before[0])
    slot = probe.slot(2)
    probe.ask("start")
    told = meanwhile(probe, 300)
    cluster.begin_move(slot, target)
    told += meanwhile(probe, 300)
    while cluster.move_keys(slot, source, target, most=3) == 3:
        told += meanwhile(probe, 20)
    # All keys are there: ASK leads to them, and they are another server's.
    told += meanwhile(probe, 20, "unknown", segment=2)
    cluster.end_move(slot, target)
    eventually(lambda: probe.port(2) == before[0], "the topology to follow")
    probe.ask("stop")
    told += probe.told()
    numbers = probe.ask("numbers")
    assert numbers["redirects"] > 0 and numbers["stale"] > 0
    assert fates(told, 2).get("refused", 0) > 0
    for segment in (0, 1):
        assert set(fates(told, segment)) == {"won"}
    assert len(probe.check(target, 2, 1, told)) > 0
    probe.rebuild(2)
    told = probe.buy(300)
    assert fates(told) == {"won": 300}
    probe.check(target, 2, 2, told)
    cluster.reshard(slot, source)
    cluster.wait()


@pytest.mark.asan
def test_a_killed_master_stops_its_own_segment_only(cluster, make_probe):
    probe = make_probe(cluster.url).open()
    before = ports(probe)
    old = server_at(cluster, before[1])
    probe.ask("start")
    told = meanwhile(probe, 300)
    old.kill()
    new = cluster.failed_over(probe.slot(1), old)
    eventually(lambda: probe.port(1) == new.port, "the topology to follow")
    probe.ask("stop")
    probe.ready()
    told += probe.told()
    for segment in (0, 2):
        assert set(fates(told, segment)) == {"won"}
        probe.check(server_at(cluster, before[segment]), segment, 1, told)
    assert set(fates(told, 1)) - {"won"}
    probe.check(new, 1, 1, told, kept=False)
    probe.rebuild(1)
    told = probe.buy(300)
    assert fates(told) == {"won": 300}
    probe.check(new, 1, 2, told)
    old.start()
    cluster.wait()


def test_a_planned_failover(cluster, make_probe):
    """Nothing is lost by it, and it is another server nevertheless."""
    probe = make_probe(cluster.url).open()
    old = server_at(cluster, probe.port(0))
    new = cluster.replica_of(old)
    probe.ask("start")
    told = meanwhile(probe, 300)
    cluster.hand_over(new)
    eventually(lambda: probe.port(0) == new.port, "the topology to follow")
    probe.ask("stop")
    probe.ready()
    told += probe.told()
    probe.check(new, 0, 1, told)
    assert set(fates(probe.buy(100), 0)) == {"unknown"}
    probe.rebuild(0)
    assert fates(probe.buy(100)) == {"won": 100}
    cluster.wait()


def test_more_segments_than_masters(cluster, make_probe):
    probe = make_probe(cluster.url, segments=7).open()
    told = probe.buy(700)
    assert fates(told) == {"won": 700}
    for segment, port in enumerate(ports(probe)):
        assert probe.check(server_at(cluster, port), segment, 1, told)


# ---------------------------------------------------------------- news

def won(told, *segments):
    """What is heard of these buyers when they are confirmed."""
    return sorted([one.segment, one.user] for one in told
                  if one.fate == "won" and one.segment in segments)


def listening(probe):
    probe.open()
    probe.hear_of_loss()
    return probe


def still_heard(probe, *segments):
    """Buyers buy, and news of each order arrive once."""
    probe.ready()
    told = probe.buy(60 * probe.segments)
    mine = won(told, *segments)
    assert len(mine) > 0 and probe.confirm(*segments) == len(mine)
    assert probe.hear_orders(len(mine)) == mine


def over_the_bus(server):
    """Messages of PUBLISH and of SPUBLISH that other nodes have sent to this one."""
    facts = dict(line.split(":") for line in server.ask("CLUSTER", "INFO").split())
    return [int(facts.get(f"cluster_stats_messages_{kind}_received", 0))
            for kind in ("publish", "publishshard")]


@pytest.mark.asan
def test_news_stay_with_the_servers_of_their_segment(cluster, make_probe):
    """Only the replica of the segment's own master gets them; the other nodes get nothing."""
    probe = listening(make_probe(cluster.url))
    masters = [server_at(cluster, port) for port in ports(probe)]
    told = probe.buy(300)
    for segment in range(probe.segments):
        mine = won(told, segment)
        before = {server: over_the_bus(server) for server in cluster.servers}
        assert probe.confirm(segment) == len(mine) > 0
        assert probe.hear_orders(len(mine)) == mine
        expected = {server: [0, 0] for server in cluster.servers}
        expected[cluster.replica_of(masters[segment])] = [0, len(mine)]
        eventually(lambda: expected == {
            server: [now - then for now, then in zip(over_the_bus(server), before[server])]
            for server in cluster.servers}, "the messages over the bus")


def test_news_of_an_older_version_are_heard(cluster, make_probe):
    """Its scripts use PUBLISH."""
    probe = listening(make_probe(cluster.url))
    for segment, port in enumerate(ports(probe)):
        server_at(cluster, port).ask("PUBLISH", probe.channel(segment), f"i {100 + segment}")
    heard = []
    eventually(lambda: heard.extend(probe.hear()["items"]) or len(heard) >= 3, "the news",
               every_s=0)
    heard += probe.hear(100)["items"]
    assert sorted(heard) == [[0, 100], [1, 101], [2, 102]]


def test_news_are_heard_by_an_older_version(cluster, make_probe):
    """It uses SUBSCRIBE, at the segment's master. While it does, news are published both ways."""
    probe = listening(make_probe(cluster.url))
    channel = probe.channel(1)
    mine = won(probe.buy(100), 1)
    older = redislib.Connection(probe.port(1))
    assert older.ask("SUBSCRIBE", channel) == ["subscribe", channel, 1]
    assert probe.confirm(1) == len(mine) > 0
    texts = [older.answer() for _ in mine]
    assert [kind for kind, _, _ in texts] == ["message"] * len(mine)
    assert sorted(int(text.split()[2]) for _, _, text in texts) == [user for _, user in mine]
    assert probe.hear_orders(2 * len(mine)) == sorted(mine + mine)
    older.close()
    still_heard(probe, 1)


def subscribed(probe, server, segment):
    """Whether the server has exactly one sharded subscription of the probe."""
    probe.hear()
    channel = probe.channel(segment)
    return server.ask("PUBSUB", "SHARDNUMSUB", channel) == [channel, 1]


def test_news_after_a_cut_connection(cluster, make_probe):
    probe = listening(make_probe(cluster.url))
    masters = [server_at(cluster, port) for port in ports(probe)]
    for server in masters:
        assert server.ask("CLIENT", "KILL", "TYPE", "PUBSUB") == 1
    probe.hear_of_loss()
    eventually(lambda: all(subscribed(probe, server, segment)
                           for segment, server in enumerate(masters)), "the subscriptions")
    still_heard(probe, 0, 1, 2)


@pytest.mark.slow  # the masters of a busy machine change by themselves meanwhile
def test_news_follow_a_slot_that_moved(cluster, make_probe):
    probe = listening(make_probe(cluster.url))
    before = ports(probe)
    source, target = server_at(cluster, before[1]), server_at(cluster, before[0])
    cluster.reshard(probe.slot(1), target)
    probe.hear_of_loss()
    assert subscribed(probe, target, 1) and probe.port(1) == target.port
    probe.rebuild(1)
    still_heard(probe, 0, 1, 2)
    cluster.reshard(probe.slot(1), source)
    cluster.wait()


@pytest.mark.slow  # the masters of a busy machine change by themselves meanwhile
def test_news_of_a_slot_that_came_back_are_heard(cluster, make_probe):
    """Nobody looked while it was away: only the server's own word tells that it ended the
    subscription."""
    probe = listening(make_probe(cluster.url))
    before = ports(probe)
    source, target = server_at(cluster, before[1]), server_at(cluster, before[0])
    slot = probe.slot(1)
    with probe.asleep():
        cluster.reshard(slot, target)
        cluster.reshard(slot, source)
    probe.hear_of_loss()
    assert ports(probe) == before
    still_heard(probe, 0, 1, 2)
    cluster.wait()


def test_refused_news_are_asked_for_again(make_probe):
    """The master has given the slot up, and the only node that is asked does not know it."""
    with redislib.Cluster(masters=2) as pair:
        where = make_probe(pair.url)
        owner = server_at(pair, where.port(0))
        other = next(server for server in pair.first if server is not owner)
        probe = listening(make_probe(f"cluster://127.0.0.1:{other.port}"))
        slot = probe.slot(0)
        owner.ask("CLUSTER", "DELSLOTS", slot)
        assert probe.hear(1000)["lost"] == 0
        assert probe.port(0) == owner.port
        assert not subscribed(probe, owner, 0)
        owner.ask("CLUSTER", "ADDSLOTS", slot)
        probe.hear_of_loss()
        still_heard(probe, 0, 1)


@pytest.mark.slow  # the masters of a busy machine change by themselves meanwhile
def test_news_after_a_failover(cluster, make_probe):
    probe = listening(make_probe(cluster.url))
    old = server_at(cluster, probe.port(1))
    old.kill()
    new = cluster.failed_over(probe.slot(1), old)
    eventually(lambda: subscribed(probe, new, 1), "the subscription at the new master")
    probe.ready()
    probe.rebuild(1)
    eventually(lambda: not any(probe.hear(100).values()), "quiet", every_s=0)
    still_heard(probe, 0, 1, 2)
    old.start()
    cluster.wait()


@pytest.mark.slow  # the masters of a busy machine change by themselves meanwhile
def test_news_after_a_planned_failover(cluster, make_probe):
    """The old master lives on as a replica."""
    probe = listening(make_probe(cluster.url))
    new = cluster.replica_of(server_at(cluster, probe.port(0)))
    cluster.hand_over(new)
    probe.hear_of_loss()
    eventually(lambda: probe.port(0) == new.port and subscribed(probe, new, 0),
               "the subscription at the new master")
    probe.ready()
    probe.rebuild(0)
    still_heard(probe, 0, 1, 2)
    cluster.wait()


@pytest.mark.parametrize("lacks", [["spublish"], ["ssubscribe"], ["spublish", "ssubscribe"]])
@pytest.mark.parametrize("how", ["unknown", "forbidden"])
def test_news_without_sharded_commands(make_probe, lacks, how):
    """Plain ones are heard instead. In a Cluster of one node."""
    renamed = [word for verb in lacks for word in ("--rename-command", verb, "")]
    with redislib.Redis(["--cluster-enabled", "yes", "--cluster-port", sluicelib.private_port(),
                         *(renamed if how == "unknown" else [])]) as node:
        if how == "forbidden":
            node.ask("ACL", "SETUSER", "default", *(f"-{verb}" for verb in lacks))
        node.ask("CLUSTER", "ADDSLOTSRANGE", 0, redislib.SLOTS - 1)
        eventually(lambda: "cluster_state:ok" in node.ask("CLUSTER", "INFO"), "the Cluster")
        probe = listening(make_probe(f"cluster://127.0.0.1:{node.port}"))
        still_heard(probe, 0)
