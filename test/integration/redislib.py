"""Private Redis servers for tests: one server, a master with Sentinels, a Cluster. Own folders and
ports; stopped by their pids.

Redis      one server: start, kill -9, freeze, thaw, stop, and commands to it.
Sentinels  a master, a replica, three Sentinels.
Cluster    three masters with a replica each; manual failover and resharding.

Timeouts are short (a node counts as dead after a second), so that failovers are quick. If the
program is missing, `missing()` says so.
"""
import contextlib
import os
import shutil
import signal
import socket
import subprocess
import tempfile

import sluicelib

SLOTS = 16384
DOWN_AFTER_MS = 1000


def program():
    return shutil.which("redis-server", path=os.environ.get("PATH", "") + ":/usr/sbin:/usr/local/bin")


def missing():
    """The program that is not here, or ""."""
    return "" if program() else "redis-server"


class RedisError(Exception):
    """What a server answers with a minus."""


class Connection:
    """Commands and answers, one after the other. Texts are str, nil is None."""

    def __init__(self, port, timeout_s=30):
        self.socket = socket.create_connection(("127.0.0.1", port), timeout_s)
        self.file = self.socket.makefile("rb")

    def close(self):
        self.file.close()
        self.socket.close()

    def ask(self, *words):
        words = [word if isinstance(word, bytes) else str(word).encode() for word in words]
        self.socket.sendall(b"*%d\r\n" % len(words) + b"".join(
            b"$%d\r\n%s\r\n" % (len(word), word) for word in words))
        return self.answer()

    def answer(self):
        line = self.file.readline()
        if not line.endswith(b"\r\n"):
            raise ConnectionError("the server closed the connection")
        kind, rest = line[:1], line[1:-2]
        if kind == b"-":
            raise RedisError(rest.decode())
        if kind == b"+":
            return rest.decode()
        if kind == b":":
            return int(rest)
        if kind == b"$":
            return None if rest == b"-1" else self.file.read(int(rest) + 2)[:-2].decode(
                errors="replace")
        return None if rest == b"-1" else [self.answer() for _ in range(int(rest))]


class Redis:
    """One server. `options` are settings as on its command line; `sentinel`: a Sentinel's file."""

    def __init__(self, options=(), sentinel="", password=""):
        self.folder = tempfile.mkdtemp(prefix="sluice-redis-")
        self.port = sluicelib.private_port()
        self.options, self.sentinel, self.password = list(options), sentinel, password
        self.process = self.connection = None

    # ------------------------------------------------------------ life

    def start(self):
        command = [program(), "--port", self.port, "--bind", "127.0.0.1", "--dir", self.folder]
        if self.sentinel:
            config = f"{self.folder}/sentinel.conf"
            if not os.path.exists(config):  # a Sentinel writes into it
                with open(config, "w") as file:
                    file.write(self.sentinel)
            command[1:1] = [config, "--sentinel"]
            command += ["--requirepass", self.password] if self.password else []
        else:
            command += ["--save", "", "--appendonly", "no", "--enable-debug-command", "local",
                        "--repl-diskless-sync-delay", "0", "--repl-ping-replica-period", "1"]
            command += ["--requirepass", self.password, "--masterauth", self.password] \
                if self.password else []
        with open(f"{self.folder}/log", "ab") as log:
            self.process = subprocess.Popen([str(word) for word in [*command, *self.options]],
                                            cwd=self.folder, stdin=subprocess.DEVNULL, stdout=log,
                                            stderr=log, start_new_session=True)
        sluicelib.eventually(self.answers, f"Redis on port {self.port}")
        return self

    def answers(self):
        assert self.process.poll() is None, f"Redis ended: {self.log()[-2000:]}"
        with contextlib.suppress(OSError, RedisError):
            return self.ask("PING") == "PONG"
        return False

    def log(self):
        with open(f"{self.folder}/log", errors="replace") as log:
            return log.read()

    def hang_up(self):
        if self.connection:
            self.connection.close()
            self.connection = None

    def kill(self):
        """As the power would end it."""
        self.hang_up()
        self.process.kill()
        self.process.wait()

    def freeze(self):
        self.hang_up()
        self.process.send_signal(signal.SIGSTOP)

    def thaw(self):
        self.process.send_signal(signal.SIGCONT)

    def stop(self):
        self.hang_up()
        if self.process and self.process.poll() is None:
            self.thaw()
            self.process.terminate()
            try:
                self.process.wait(30)
            except subprocess.TimeoutExpired:
                self.kill()

    def discard(self):
        self.stop()
        if not os.environ.get("SLUICE_KEEP"):
            shutil.rmtree(self.folder, ignore_errors=True)

    def __enter__(self):
        return self.start()

    def __exit__(self, *unused):
        self.discard()

    # ------------------------------------------------------------ shared

    def told(self):
        """What another process needs to use this server."""
        return {"port": self.port}

    @classmethod
    def attached(cls, told):
        """A server that another process runs: to talk to; its life is not ours."""
        server = cls.__new__(cls)
        server.port, server.password = told["port"], ""
        server.process = server.connection = None
        return server

    # ------------------------------------------------------------ talk

    def ask(self, *words):
        """One command; a connection that broke is made anew once."""
        for last in (False, True):
            if not self.connection:
                self.connection = Connection(self.port)
                if self.password:
                    self.connection.ask("AUTH", self.password)
            try:
                return self.connection.ask(*words)
            except OSError:
                self.hang_up()
                if last:
                    raise

    def info(self, section):
        lines = self.ask("INFO", section).splitlines()
        return dict(line.split(":", 1) for line in lines if ":" in line)

    def role(self):
        return self.info("replication")["role"]

    def in_step(self):
        """A replica that has everything its master had."""
        facts = self.info("replication")
        return facts["role"] == "slave" and facts["master_link_status"] == "up"

    @property
    def url(self):
        return f"redis://127.0.0.1:{self.port}"


class Group:
    """Servers that start and end together."""

    servers = ()

    def discard(self):
        for server in self.servers:
            server.discard()

    def __enter__(self):
        try:
            return self.start()
        except BaseException:
            self.discard()
            raise

    def __exit__(self, *unused):
        self.discard()


class Sentinels(Group):
    NAME = "shop"

    def __init__(self, options=()):
        self.data = [Redis(options), Redis(options)]
        self.watchers = []

    @property
    def servers(self):
        return [*self.watchers, *self.data]

    @property
    def url(self):
        hosts = ",".join(f"127.0.0.1:{watcher.port}" for watcher in self.watchers)
        return f"sentinel://{hosts}/{self.NAME}"

    def start(self):
        first, second = self.data
        first.start()
        second.options += ["--replicaof", "127.0.0.1", str(first.port)]
        second.start()
        config = "\n".join([
            f"sentinel monitor {self.NAME} 127.0.0.1 {first.port} 2",
            f"sentinel down-after-milliseconds {self.NAME} {DOWN_AFTER_MS}",
            f"sentinel failover-timeout {self.NAME} 10000", ""])
        self.watchers = [Redis(sentinel=config) for _ in range(3)]
        for watcher in self.watchers:
            watcher.start()
        sluicelib.eventually(self.settled, "the Sentinels to know each other and the replica")
        return self

    def settled(self):
        """Everyone who runs knows the replica and the other Sentinels, and the replica is in step."""
        for watcher in self.watchers:
            facts = watcher.ask("SENTINEL", "MASTER", self.NAME)
            facts = dict(zip(facts[::2], facts[1::2]))
            if int(facts["num-other-sentinels"]) < 2 or int(facts["num-slaves"]) < 1 or \
                    facts["flags"] != "master":
                return False
        alive = [server for server in self.data if server.process.poll() is None]
        return any(server.in_step() for server in alive)

    def named(self):
        """The data servers that the Sentinels name, each once."""
        ports = {int(watcher.ask("SENTINEL", "GET-MASTER-ADDR-BY-NAME", self.NAME)[1])
                 for watcher in self.watchers}
        return [server for server in self.data if server.port in ports]

    def master(self):
        return sluicelib.eventually(lambda: len(self.named()) == 1 and self.named(),
                                    "the Sentinels to agree")[0]

    def replica(self):
        return next(server for server in self.data if server is not self.master())

    def failed_over(self, old):
        """Waits until everyone names another one than `old`, and that one is a master."""
        def done():
            named = self.named()
            return named if old not in named and len(named) == 1 and \
                named[0].role() == "master" else None
        return sluicelib.eventually(done, "the failover", every_s=0.05)[0]


    def epoch(self):
        """How many failovers they have agreed on."""
        facts = self.watchers[0].ask("SENTINEL", "MASTER", self.NAME)
        return int(dict(zip(facts[::2], facts[1::2]))["config-epoch"])

    def hand_over(self):
        """A planned failover."""
        old = self.master()
        self.watchers[0].ask("SENTINEL", "FAILOVER", self.NAME)
        self.failed_over(old)
        sluicelib.eventually(self.settled, "the old master to become a replica", every_s=0.05)

    def rejoin(self, old, new):
        """Makes a former master a replica of the new one, as the Sentinels do some 10 s later."""
        old.ask("REPLICAOF", "127.0.0.1", new.port)
        sluicelib.eventually(self.settled, "the old master to become a replica", every_s=0.05)


class Cluster(Group):
    def __init__(self, masters=3, options=()):
        self.servers = []
        for _ in range(2 * masters):
            self.servers.append(Redis(["--cluster-enabled", "yes", "--cluster-port",
                                       sluicelib.private_port(), "--cluster-node-timeout",
                                       DOWN_AFTER_MS, "--cluster-require-full-coverage", "no",
                                       *options]))
        self.first = self.servers[:masters]  # masters at the beginning
        self.id = {}

    @property
    def url(self):
        return "cluster://" + ",".join(f"127.0.0.1:{server.port}" for server in self.servers)

    def start(self):
        """As redis-cli --cluster create, without its pauses."""
        count = len(self.first)
        for server in self.servers:
            server.start()
            self.id[server] = server.ask("CLUSTER", "MYID")
        for i, server in enumerate(self.servers):
            server.ask("CLUSTER", "SET-CONFIG-EPOCH", i + 1)
        for i, server in enumerate(self.first):
            server.ask("CLUSTER", "ADDSLOTSRANGE", round(i * SLOTS / count),
                       round((i + 1) * SLOTS / count) - 1)
        for server in self.servers[1:]:
            bus = server.options[server.options.index("--cluster-port") + 1]
            self.servers[0].ask("CLUSTER", "MEET", "127.0.0.1", server.port, bus)
        sluicelib.eventually(lambda: all(self.knows_all(server) for server in self.servers),
                             "the nodes to know each other")
        for master, replica in zip(self.first, self.servers[count:]):
            replica.ask("CLUSTER", "REPLICATE", self.id[master])
        sluicelib.eventually(self.settled, "the Cluster")
        return self

    def knows_all(self, server):
        """By their own names: who has not shaken hands yet has another."""
        known = {line.split()[0] for line in server.ask("CLUSTER", "NODES").splitlines()}
        return known == set(self.id.values())

    # ------------------------------------------------------------ who is what

    def running(self):
        return [server for server in self.servers if server.process.poll() is None]

    def settled(self):
        """Everyone who runs sees all slots served by the same masters; replicas are in step."""
        views = set()
        for server in self.running():
            facts = dict(line.split(":") for line in server.ask("CLUSTER", "INFO").split())
            if facts["cluster_state"] != "ok" or int(facts["cluster_slots_ok"]) != SLOTS:
                return False
            views.add(tuple(sorted((low, high, node[2]) for low, high, node, *_ in
                                   server.ask("CLUSTER", "SLOTS"))))
            if server.role() == "slave" and not server.in_step():
                return False
        return len(views) == 1

    def wait(self):
        sluicelib.eventually(self.settled, "the Cluster to settle", every_s=0.05)

    def owner(self, slot, asked=None):
        """The server that has the slot, as `asked` sees it (or the first that runs)."""
        for low, high, node, *_ in (asked or self.running()[0]).ask("CLUSTER", "SLOTS"):
            if low <= slot <= high:
                return next(server for server in self.servers if self.id[server] == node[2])
        return None

    def replica_of(self, master):
        for line in self.running()[0].ask("CLUSTER", "NODES").splitlines():
            words = line.split()
            if words[3] == self.id[master] and "fail" not in words[2]:
                return next(server for server in self.servers if self.id[server] == words[0])
        return None

    def failed_over(self, slot, old):
        """Waits until everyone who runs sees the slot at another one than `old`."""
        sluicelib.eventually(lambda: all(self.owner(slot, asked) not in (old, None)
                                         for asked in self.running()),
                             "the failover", every_s=0.05)
        return self.owner(slot)

    def hand_over(self, replica):
        """A planned failover: nothing is lost."""
        replica.ask("CLUSTER", "FAILOVER")
        sluicelib.eventually(lambda: replica.role() == "master", "the replica to take over")

    # ------------------------------------------------------------ resharding

    def begin_move(self, slot, target):
        """The slot is on its way from its owner, who is returned, to the target."""
        source = self.owner(slot)
        target.ask("CLUSTER", "SETSLOT", slot, "IMPORTING", self.id[source])
        source.ask("CLUSTER", "SETSLOT", slot, "MIGRATING", self.id[target])
        return source

    def move_keys(self, slot, source, target, most=1000000):
        """Moves up to so many keys; how many it were."""
        moved = 0
        while moved < most:
            keys = source.ask("CLUSTER", "GETKEYSINSLOT", slot, min(10, most - moved))
            if not keys:
                break
            source.ask("MIGRATE", "127.0.0.1", target.port, "", 0, 10000, "KEYS", *keys)
            moved += len(keys)
        return moved

    def end_move(self, slot, target):
        """The target first, as the manual says; then every master, so that none has to be told."""
        owners = {self.owner(s) for s in range(0, SLOTS, SLOTS // 64)} - {None}
        for server in [target, *(owners - {target})]:
            server.ask("CLUSTER", "SETSLOT", slot, "NODE", self.id[target])

    def reshard(self, slot, target):
        source = self.begin_move(slot, target)
        self.move_keys(slot, source, target)
        self.end_move(slot, target)


if __name__ == "__main__":
    # For work by hand: servers until Ctrl-C, and how the program reaches them.
    import sys
    import time
    kinds = {"single": Redis, "sentinel": Sentinels, "cluster": Cluster}
    with kinds[sys.argv[1] if len(sys.argv) > 1 else "single"]() as made:
        print(made.url, flush=True)
        with contextlib.suppress(KeyboardInterrupt):
            while True:
                time.sleep(1)
