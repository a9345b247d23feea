"""The faults of the drills. A strike does its harm, proves it, and describes it in a sentence.

To processes: kill (-9), restart (SIGTERM), freeze (SIGSTOP). Between two: cut. To Redis: lose its
last second, be emptied, fail over. To messages: arrive three times and out of order. Four strikes
need an exact moment, for which a proxy waits: between Redis's win and the front's journal, between
the broker's confirm and the removal from the outbox, between the ledger's commit and the ack, and
between a commit and its answer.

Without proof a strike raises Missed: a fault that did not strike shows nothing.
"""
import contextlib
import os
import shutil
import time

import proxylib
import redislib
import serverlib
import sluicelib
from drilllib import Missed, TooSlow


def struck(condition, text):
    if not condition:
        raise Missed(text)


def caused(trial, condition, what, every_s=0.02):
    """Waits until the crowd has caused this; the condition's value. If the crowd ends before, it
    was too small for a machine as slow as this one."""
    def happened():
        value = condition()
        if not value and not trial.crowd.running():
            raise TooSlow(f"the crowd was gone, still waiting for {what}")
        return value

    return sluicelib.eventually(happened, what, every_s=every_s)


def chosen(stage, names):
    """In the order they are started in: what others stand on comes first."""
    assert set(names) <= set(stage.members), f"{names} of {list(stage.members)}"
    return [member for name, member in stage.members.items() if name in names]


# ---------------------------------------------------------------- processes

def kill(*names, times=1):
    """kill -9, some time without it, started again."""
    def once(trial):
        members = chosen(trial.stage, names)
        pids = [member.kill() for member in reversed(members)][::-1]
        for member in members:
            struck(not member.alive(), f"{member.name} lives")
        time.sleep(trial.size.away_s)
        trial.stage.bring_up(members)
        for member in members:
            struck(member.pid not in pids, f"{member.name} has its old pid")
        return "; ".join(f"{member.name} died as pid {pid}, is {member.pid} now"
                         for member, pid in zip(members, pids))
    return lambda trial: "; ".join(once(trial) for _ in range(times))


def restart(*names):
    """SIGTERM, started again."""
    def strike(trial):
        members = chosen(trial.stage, names)
        pids = [member.pid for member in members]
        for member in reversed(members):
            struck(member.stop(sluicelib.GUARD_S), f"SIGTERM did not end {member.name}")
        trial.stage.bring_up(members)
        for member in members:
            struck(member.pid not in pids, f"{member.name} has its old pid")
        return "; ".join(f"{member.name} ended as pid {pid}, is {member.pid} now"
                         for member, pid in zip(members, pids))
    return strike


def freeze(*names):
    """SIGSTOP for a while."""
    def strike(trial):
        members = chosen(trial.stage, names)
        for member in members:
            member.freeze()
        stand_still(trial, members)
        for member in members:
            member.thaw()
        return f"{', '.join(names)} stood still for {trial.size.freeze_s} s"
    return strike


def stand_still(trial, members):
    end = time.monotonic() + trial.size.freeze_s
    while time.monotonic() < end:
        for member in members:
            struck(member.frozen(), f"{member.name} moves")
        trial.crowd.orders()
        time.sleep(0.05)


def lease(stage):
    """(the keeper that holds the keepers' lease or None, its token), as the ledger has it."""
    rows = stage.database.rows("SELECT holder, token FROM leases WHERE name = 'keeper'")
    holder, token = rows[0] if rows else ("", 0)
    pid = str(holder).split("-")[-2:-1]  # host-pid-random
    return next((keeper for keeper in stage.kinds["keeper"] if [str(keeper.pid)] == pid),
                None), token


def lease_holder(how):
    """The keeper that holds the lease dies (or stands still), and another takes it."""
    def strike(trial):
        stage = trial.stage
        keeper, token = sluicelib.eventually(lambda: lease(stage) if lease(stage)[0] else None,
                                             "a keeper to hold the lease")
        pid = keeper.kill() if how == "kill" else keeper.freeze()

        def taken():
            other, newer = lease(stage)
            return (other, newer) if other not in (None, keeper) and newer > token else None

        other, newer = sluicelib.eventually(taken, "another keeper to take the lease", every_s=0.1)
        if how == "kill":
            stage.bring_up([keeper])
            struck(keeper.pid != pid, f"{keeper.name} has its old pid")
        else:
            stand_still(trial, [keeper])
            keeper.thaw()
        did = "died" if how == "kill" else f"stood still for {trial.size.freeze_s} s and more"
        return (f"{keeper.name} {did} while it held the lease (token {token}); {other.name} took "
                f"it (token {newer})")
    return strike


# ---------------------------------------------------------------- between two

def watch_held(trial, proxies, before):
    """The most bytes that waited in them at once, while the fault lasts and until somebody has
    wanted to get through. A connection that is given up takes with it what it held. before: how
    many connections each had accepted."""
    end, most = time.monotonic() + trial.size.freeze_s, 0

    def over():
        nonlocal most
        most = max(most, sum(proxy.held_bytes() for proxy in proxies))
        wanted = most or any(proxy.accepted > count for proxy, count in zip(proxies, before))
        return wanted and time.monotonic() >= end

    caused(trial, over, "somebody to want to get through", every_s=0.1)
    return most


def cut(*pairs, how="cut"):
    """Nothing gets through between two for a while; both live on. how: cut; up or down (that
    direction only); refuse (connections reset, new ones refused)."""
    def strike(trial):
        proxies = [trial.stage.links[pair] for pair in pairs]
        caused(trial, lambda: any(proxy.connections() for proxy in proxies), "a connection")
        before = [proxy.accepted for proxy in proxies]
        harm = {"cut": lambda proxy: proxy.cut(), "refuse": lambda proxy: proxy.refuse()}
        counts = [harm.get(how, lambda proxy: proxy.hold(how))(proxy) for proxy in proxies]
        if how == "refuse":
            time.sleep(trial.size.freeze_s)
            struck(sum(counts), "no connection was reset")
            held = 0
        else:
            held = watch_held(trial, proxies, before)
        for proxy in proxies:
            proxy.heal()
        what = {"cut": "cut", "refuse": "reset and refused"}.get(how, f"held {how}wards")
        return f"{sum(counts)} connections {what} for {trial.size.freeze_s} s, {held} bytes waited"
    return strike


def slow(*pairs, delay_s=0.1):
    """Each piece arrives later, both ways."""
    def strike(trial):
        proxies = [trial.stage.links[pair] for pair in pairs]
        before = sum(sum(proxy.bytes.values()) for proxy in proxies)
        for proxy in proxies:
            proxy.delay(delay_s)
        time.sleep(trial.size.freeze_s)
        late = caused(trial, lambda: sum(sum(proxy.bytes.values()) for proxy in proxies) - before,
                      "somebody to say something")
        for proxy in proxies:
            proxy.heal()
        return f"{late} bytes came {delay_s} s later for {trial.size.freeze_s} s"
    return strike


# ---------------------------------------------------------------- Redis

def redis_forgets(trial):
    """kill -9, and what the last second appended to its file is gone."""
    redis = trial.stage.redis[0]
    path = redis.aof_path()
    size = os.path.getsize(path)
    caused(trial, lambda: os.path.getsize(path) > size, "Redis to write something")
    size = os.path.getsize(path)

    def decided():
        with open(path, "rb") as file:
            file.seek(size)
            return b"XADD" in file.read()

    time.sleep(1)
    caused(trial, decided, "a decision")
    before = redis.run_id()
    redis.kill()
    with open(path, "r+b") as file:
        file.seek(size)
        lost = file.read().count(b"XADD")
        file.truncate(size)
    struck(lost > 0, "the last second had no decision")
    redis.start()
    struck(redis.run_id() != before, "the run id is the same")
    return f"Redis was killed and came back without its last {lost} decisions, under another run id"


def redis_empty(trial):
    """FLUSHALL."""
    redis = trial.stage.redis[0]
    size = redis.call("DBSIZE")
    struck(size > 0, "it was empty already")
    redis.call("FLUSHALL")
    return f"{size} keys of Redis flushed"


def redis_empty_restart(trial):
    """kill -9, and it comes back with nothing."""
    redis = trial.stage.redis[0]
    size, before = redis.call("DBSIZE"), redis.run_id()
    struck(size > 0, "it was empty already")
    redis.kill()
    shutil.rmtree(os.path.join(redis.folder, "appendonlydir"))
    redis.start()
    struck(redis.run_id() != before, "the run id is the same")
    return f"Redis was killed with {size} keys and came back empty, under another run id"


def sentinel_failover(how, behind=False):
    """The master dies (or stands still) and Sentinel makes the replica master. behind: the replica
    heard nothing of its last second and more."""
    def strike(trial):
        stage = trial.stage
        master = stage.masters()[0]
        replica = next(node for node in stage.redis if node is not master)
        lost = fall_behind(trial, master, replica) if behind else ""
        pid = master.pid
        if how == "kill":
            master.kill()
        else:
            master.freeze()
        sluicelib.eventually(
            lambda: all(s.master() == replica.known_port for s in stage.sentinels) and
            replica.role() == "master", "the failover", every_s=0.05)
        if how == "kill":
            time.sleep(trial.size.away_s)
        else:
            stand_still(trial, [master])
            master.thaw()
        did = "died" if how == "kill" else "stood still"
        return f"master pid {pid} {did}; Sentinel made {replica.name} master{lost}"
    return strike


def fall_behind(trial, master, replica):
    """The replica hears nothing for more than a second."""
    proxy = trial.stage.links["all", master.name]
    struck(proxy.cut_those(b"PSYNC"), "the replica was not connected")
    time.sleep(1.2)

    def unheard():
        sent = int(master.info("replication")["master_repl_offset"])
        return sent - int(replica.info("replication")["slave_repl_offset"])

    missed = caused(trial, lambda: max(unheard(), 0), "the master to write something")
    return f", which had not heard {missed} bytes of its writes"


def cluster_failover(how):
    """A master of the Cluster dies (or stands still); its replica takes its slots."""
    def strike(trial):
        stage = trial.stage
        master = trial.rng.choice(stage.masters())
        others = [node for node in stage.redis if node is not master]
        before = {node.name for node in stage.masters()}
        if how == "kill":
            master.kill()
        else:
            master.freeze()

        def promoted():
            return [node for node in others if node.name not in before and
                    node.role() == "master"]

        replica = sluicelib.eventually(promoted, "a replica to be promoted", every_s=0.05)[0]
        if how == "kill":
            time.sleep(trial.size.away_s)
        else:
            stand_still(trial, [master])
            master.thaw()
        did = "died" if how == "kill" else "stood still"
        return f"{master.name} {did}; {replica.name} took its slots"
    return strike


def cluster_handover(trial):
    """An operator's failover: the replica asks its master for its slots."""
    stage = trial.stage
    before = {node.name for node in stage.masters()}
    replica = next(node for node in stage.redis if node.name not in before)
    replica.call("CLUSTER", "FAILOVER")
    sluicelib.eventually(lambda: replica.role() == "master", "the handover", every_s=0.02)
    return f"{replica.name} was made master by CLUSTER FAILOVER"


def cluster_reshard(trial):
    """Slots move between masters while they are sold from."""
    masters = trial.stage.masters()
    source = next(node for node in masters if slots_in_use(node))
    target = trial.rng.choice([node for node in masters if node is not source])
    slots = slots_in_use(source)
    keys = sum(move_slot(slot, source, target, masters) for slot in slots)
    struck(keys > 0 and set(slots) <= set(slots_in_use(target)), "no slot moved")
    return f"slots {slots} went from {source.name} to {target.name} with {keys} keys"


def slots_in_use(node):
    """The slots a node owns that hold anything; few, for a segment is one slot."""
    mine = next(line for line in node.call("CLUSTER", "NODES").splitlines() if "myself" in line)
    owned = []
    for word in mine.split()[8:]:
        if not word.startswith("["):
            first, _, last = word.partition("-")
            owned += range(int(first), int(last or first) + 1)
    with contextlib.closing(redislib.Connection(node.port)) as redis:
        return [slot for slot in owned if redis.ask("CLUSTER", "COUNTKEYSINSLOT", slot)]


def move_slot(slot, source, target, masters):
    """As `redis-cli --cluster reshard` does it, for one slot; a few keys at a time, so that they
    are on both sides for a while. How many keys it were."""
    ids = {node.name: node.call("CLUSTER", "MYID") for node in masters}
    target.call("CLUSTER", "SETSLOT", slot, "IMPORTING", ids[source.name])
    source.call("CLUSTER", "SETSLOT", slot, "MIGRATING", ids[target.name])
    moved = 0
    while keys := source.call("CLUSTER", "GETKEYSINSLOT", slot, 5):
        source.call("MIGRATE", "127.0.0.1", target.port, "", 0, 10000, "KEYS", *keys)
        moved += len(keys)
    for node in [target, *(node for node in masters if node is not target)]:
        node.call("CLUSTER", "SETSLOT", slot, "NODE", ids[target.name])
    return moved


# ---------------------------------------------------------------- messages

def duplicates(trial):
    """With the bookers away, what is queued is taken and put back three times, in random order."""
    stage = trial.stage
    bookers = chosen(stage, [member.name for member in stage.kinds["booker"]])
    for booker in bookers:
        booker.kill()
    caused(trial, lambda: max(stage.rabbitmq.queues().values(), default=0) >= 50,
           "messages to queue up", every_s=0.2)
    queues = stage.rabbitmq.queues()
    queue = max(queues, key=queues.get)
    taken = []
    with serverlib.Amqp(stage.rabbitmq.port) as amqp:
        while len(taken) < 2000 and (message := amqp.get(queue)):
            taken.append(message)
        again = [message for message in taken for _ in range(3)]
        trial.rng.shuffle(again)
        amqp.confirm()
        for _, exchange, key, properties, body in again:
            amqp.publish(exchange, key, properties, body)
        amqp.wait_confirms(len(again))
        for message in taken:
            amqp.ack(message[0])
    struck(len(taken) >= 50, f"only {len(taken)} messages were there")
    stage.bring_up(bookers)
    return f"{len(taken)} messages of {queue} were put back three times each, in random order"


# ---------------------------------------------------------------- the right moment

BASIC_ACK = b"\0\0\0\x0d\0\x3c\0\x50"  # the length of the frame, then basic.ack


def at_the_moment(kind, server, pattern, holds, times=3):
    """Waits until a process of that kind sends `pattern` to the server, holds one direction of that
    connection, and kills the process: what was held never arrives."""
    def once(trial):
        stage = trial.stage
        members = stage.kinds[kind]
        proxies = {member.name: stage.links[member.name, server] for member in members}
        traps = {name: proxy.trap(proxylib.UP, pattern, holds) for name, proxy in proxies.items()}
        caught = caused(
            trial, lambda: [name for name, trap in traps.items() if trap.sprung.is_set()],
            f"a {kind} to be caught", every_s=0.0005)[0]
        held = sluicelib.eventually(proxies[caught].held_bytes, "something to be held",
                                    every_s=0.0005)
        member = stage.members[caught]
        pid = member.kill()
        proxies[caught].reset()  # and what was held is gone
        for proxy in proxies.values():
            proxy.heal()
        struck(not member.alive() and held > 0, f"{caught} lives")
        time.sleep(trial.size.away_s)
        member.start()
        return f"{caught} (pid {pid}) was killed with {held} bytes held"
    return lambda trial: "; ".join(once(trial) for _ in range(times))


def mariadb_killed_at_commit(trial):
    """Waits until a booker sends its COMMIT, and kills MariaDB before anyone hears what came of it.
    Three times: now it was done, now it was not."""
    stage = trial.stage
    proxies = [stage.links[booker.name, "mariadb"] for booker in stage.kinds["booker"]]

    def once():
        traps = [proxy.trap(proxylib.UP, b"\x03COMMIT", proxylib.DOWN) for proxy in proxies]
        caused(trial, lambda: any(trap.sprung.is_set() for trap in traps), "a commit",
               every_s=0.0005)
        pid = stage.mariadb.kill()
        for proxy in proxies:
            proxy.reset()  # an answer that was on its way is gone
            proxy.heal()
        struck(not stage.mariadb.alive(), "mariadb lives")
        time.sleep(trial.size.away_s)
        stage.mariadb.start()
        return f"mariadb (pid {pid}) was killed at a commit"
    return "; ".join(once() for _ in range(3))


# The front has asked for a unit (the outbox is among the keys of that script alone), Redis has
# answered, and the front dies before the answer reaches it, so before its journal has it.
front_between_yes_and_journal = at_the_moment("front", "redis", b":out\r\n", proxylib.DOWN)
# The relay takes entries off the outbox only after RabbitMQ's confirm; the removal never reaches Redis.
# This springs at the removal whenever it is sent: that it is not sent too early is for
# test/unit/distributed/test_relay.c and planted bug 77.
relay_between_confirm_and_trim = at_the_moment("relay", "redis", b"XDEL", proxylib.UP)
# The booker acks only after the ledger's commit; the ack never reaches RabbitMQ.
booker_between_commit_and_ack = at_the_moment("booker", "rabbitmq", BASIC_ACK, proxylib.UP)
