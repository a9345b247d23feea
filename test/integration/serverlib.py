"""The servers of the distributed engine as members: Redis, Sentinel, RabbitMQ.

Redis      a server with an append-only file; may be a replica or a node of a Cluster.
Sentinel   watches a master.
RabbitMQ   a broker with its own epmd.
Amqp       a small client that takes messages off a queue and publishes them again, several times
           and out of order.

cluster_create() joins six nodes into a Cluster. Members keep their folders and ports, so that a
later script finds them again; redislib and rabbitlib have servers for single tests.
"""
import contextlib
import os
import re
import shutil
import socket
import struct
import subprocess

import marialib
import proclib
import redislib
import sluicelib
from redislib import RedisError

RABBIT_BIN = "/usr/lib/rabbitmq/bin"  # those on the PATH change the user


def missing():
    """The programs that are not here, or ""."""
    programs = ("redis-server", "nginx")
    found = {**{name: marialib.find(name) for name in programs},
             "rabbitmq-server": os.path.exists(f"{RABBIT_BIN}/rabbitmq-server"),
             "epmd": shutil.which("epmd")}
    gone = [name for name, path in found.items() if not path]
    return ", ".join(gone + ([marialib.missing()] if marialib.missing() else []))


# ---------------------------------------------------------------- Redis

def call(port, *words, timeout_s=5):
    """One command to a Redis of ours; its answer."""
    with contextlib.closing(redislib.Connection(port, timeout_s)) as connection:
        return connection.ask(*words)


class Redis(proclib.Member):
    kind = "redis"

    def __init__(self, name, folder, port=None, options=(), cluster=False, replica_of=None):
        """replica_of: the port of its first master; later it is whoever was made master."""
        super().__init__(name, folder, port)
        self.options, self.replica_of = dict(options), replica_of
        self.known_port = self.port  # what Sentinels and clients are told; a proxy's, maybe
        self.cluster_port = proclib.kept_port(folder, "cluster") if cluster else None

    def conf_path(self):
        return os.path.join(self.folder, "redis.conf")

    def prepare(self):
        """Written once: Redis and Sentinel write into it themselves."""
        if os.path.exists(self.conf_path()):
            return
        settings = {"port": self.port, "bind": "127.0.0.1", "dir": self.folder, "save": '""',
                    "appendonly": "yes", "appendfsync": "everysec",
                    "enable-debug-command": "local", "repl-diskless-sync-delay": 0,
                    "repl-ping-replica-period": 1, "repl-timeout": 10,
                    "hash-max-listpack-entries": 64}
        if self.cluster_port:
            settings.update({"cluster-enabled": "yes", "cluster-config-file": "nodes.conf",
                             "cluster-port": self.cluster_port, "cluster-node-timeout": 1000,
                             # As docs/REDIS.md wants it: one dead master stops its slots only.
                             "cluster-require-full-coverage": "no"})
        if self.replica_of:
            settings["replicaof"] = f"127.0.0.1 {self.replica_of}"
        settings.update(self.options)
        with open(self.conf_path(), "w", encoding="utf-8") as file:
            file.writelines(f"{name} {value}\n" for name, value in settings.items())

    def command(self):
        return [marialib.find("redis-server"), self.conf_path()]

    def call(self, *words, timeout_s=5):
        return call(self.port, *words, timeout_s=timeout_s)

    def ready(self):
        try:
            return self.call("PING") == "PONG"
        except (OSError, RedisError):  # -LOADING
            return False

    def info(self, section="all"):
        lines = self.call("INFO", section).splitlines()
        return dict(line.split(":", 1) for line in lines if ":" in line)

    def run_id(self):
        return self.info("server")["run_id"]

    def role(self):
        return self.call("ROLE")[0]

    def aof_path(self):
        """The file that grows."""
        folder = os.path.join(self.folder, "appendonlydir")
        names = [name for name in os.listdir(folder) if ".incr." in name]
        return os.path.join(folder, max(names, key=lambda name: int(re.search(r"\.(\d+)\.incr",
                                                                              name)[1])))


class Sentinel(proclib.Member):
    kind = "sentinel"

    def __init__(self, name, folder, master_name, master_port, quorum=2, port=None):
        super().__init__(name, folder, port)
        self.master_name, self.master_port, self.quorum = master_name, master_port, quorum

    def prepare(self):
        path = os.path.join(self.folder, "sentinel.conf")
        if os.path.exists(path):
            return
        name = self.master_name
        with open(path, "w", encoding="utf-8") as file:
            file.write(f"port {self.port}\nbind 127.0.0.1\ndir {self.folder}\n"
                       f"sentinel monitor {name} 127.0.0.1 {self.master_port} {self.quorum}\n"
                       f"sentinel down-after-milliseconds {name} 1000\n"
                       f"sentinel failover-timeout {name} 5000\n")

    def command(self):
        return [marialib.find("redis-server"), os.path.join(self.folder, "sentinel.conf"),
                "--sentinel"]

    def ready(self):
        try:
            return call(self.port, "PING") == "PONG"
        except (OSError, RedisError):
            return False

    def master(self):
        """The port of the master as this one sees it."""
        return int(call(self.port, "SENTINEL", "GET-MASTER-ADDR-BY-NAME", self.master_name)[1])

    def sees(self, replicas, others):
        """Knows so many replicas and other Sentinels."""
        known = call(self.port, "SENTINEL", "MASTER", self.master_name)
        fields = dict(zip(known[::2], known[1::2]))
        return int(fields["num-slaves"]) >= replicas and \
            int(fields["num-other-sentinels"]) >= others


def cluster_ok(nodes, replicas):
    """Every node knows that all slots are served, and each master has its replicas."""
    try:
        for node in nodes:
            info = dict(line.split(":") for line in node.call("CLUSTER", "INFO").split())
            if info["cluster_state"] != "ok" or int(info["cluster_slots_ok"]) != redislib.SLOTS:
                return False
        flags = [line.split()[2] for line in nodes[0].call("CLUSTER", "NODES").splitlines()]
        return sum("slave" in flag and "fail" not in flag for flag in flags) >= replicas
    except (OSError, RedisError):
        return False


def cluster_create(nodes, replicas=1):
    """Makes running nodes one Cluster, once; waits until it serves. As redis-cli --cluster create
    does it, without its pauses: the masters first, then as many replicas of each."""
    count = len(nodes) // (replicas + 1)
    ids = [node.call("CLUSTER", "MYID") for node in nodes]

    def knows_all(node):  # by their own names: who has not shaken hands yet has another
        return {line.split()[0] for line in node.call("CLUSTER", "NODES").splitlines()} == set(ids)

    if nodes[0].call("CLUSTER", "INFO").count("cluster_slots_assigned:0"):
        for number, node in enumerate(nodes):
            node.call("CLUSTER", "SET-CONFIG-EPOCH", number + 1)
        for number, node in enumerate(nodes[:count]):
            node.call("CLUSTER", "ADDSLOTSRANGE", round(number * redislib.SLOTS / count),
                      round((number + 1) * redislib.SLOTS / count) - 1)
        for node in nodes[1:]:
            nodes[0].call("CLUSTER", "MEET", "127.0.0.1", node.port, node.cluster_port)
        sluicelib.eventually(lambda: all(map(knows_all, nodes)), "the nodes to know each other")
        for number, node in enumerate(nodes[count:]):
            node.call("CLUSTER", "REPLICATE", ids[number % count])
    sluicelib.eventually(lambda: cluster_ok(nodes, count * replicas),
                         "the Redis Cluster to serve every slot", every_s=0.05)


# ---------------------------------------------------------------- RabbitMQ

RABBIT_USER, RABBIT_PASSWORD = "sluice", "pass-word-1"
PERSISTENT = struct.pack(">HB", 1 << 12, 2)  # the properties of a message: delivery mode 2


class RabbitMQ(proclib.Member):
    kind = "rabbitmq"

    def __init__(self, name, folder, port=None, settings=()):
        super().__init__(name, folder, port)
        self.epmd_port = proclib.kept_port(folder, "epmd")
        self.dist_port = proclib.kept_port(folder, "dist")
        self.settings = list(settings)
        self.epmd = Epmd(f"{name}-epmd", os.path.join(folder, "epmd"), self.epmd_port)

    def environment(self):
        place = self.folder
        return {
            "PATH": os.environ.get("PATH", ""), "LANG": "C.UTF-8", "HOME": place,
            "ERL_EPMD_PORT": str(self.epmd_port), "ERL_EPMD_ADDRESS": "127.0.0.1",
            "RABBITMQ_NODENAME": f"sluice{self.port}@localhost",
            "RABBITMQ_DIST_PORT": str(self.dist_port),
            "RABBITMQ_MNESIA_BASE": f"{place}/data", "RABBITMQ_LOGS": "-",
            "RABBITMQ_LOG_BASE": f"{place}/logs",
            "RABBITMQ_CONFIG_FILE": f"{place}/rabbitmq.conf",
            "RABBITMQ_CONF_ENV_FILE": f"{place}/none.conf",
            "RABBITMQ_ENABLED_PLUGINS_FILE": f"{place}/plugins",
            # Idle schedulers do not spin, and nothing listens on another address than loopback.
            "RABBITMQ_SERVER_ADDITIONAL_ERL_ARGS":
                "+sbwt none +sbwtdcpu none +sbwtdio none"
                " -kernel inet_dist_use_interface {127,0,0,1}",
            # The program is Erlang itself then, not a shell that waits for it.
            "RUNNING_UNDER_SYSTEMD": "true",
        }

    def prepare(self):
        if not self.epmd.alive():
            self.epmd.start()
        with open(f"{self.folder}/rabbitmq.conf", "w", encoding="utf-8") as file:
            file.write("\n".join([
                f"listeners.tcp.1 = 127.0.0.1:{self.port}", f"default_user = {RABBIT_USER}",
                f"default_pass = {RABBIT_PASSWORD}", "disk_free_limit.absolute = 50MB",
                "vm_memory_high_watermark.absolute = 1GB", *self.settings, ""]))
        with open(f"{self.folder}/plugins", "w", encoding="utf-8") as file:
            file.write("[].\n")
        cookie = f"{self.folder}/.erlang.cookie"
        if not os.path.exists(cookie):
            fd = os.open(cookie, os.O_CREAT | os.O_WRONLY, 0o400)
            with os.fdopen(fd, "w") as file:
                file.write(f"sluice{os.urandom(12).hex()}")

    def command(self):
        return [f"{RABBIT_BIN}/rabbitmq-server"]

    def ready(self):
        """It says connection.start; it listens only when the rest of it is ready."""
        with contextlib.suppress(OSError), socket.create_connection(self.address, 5) as conn:
            conn.sendall(b"AMQP\0\0\x09\x01")
            return conn.recv(8)[:1] == b"\x01"
        return False

    def wait_ready(self):
        return self._wait_ready(2 * proclib.START_S)  # Erlang starts slowly

    def stop(self, guard_s=60):
        clean = super().stop(guard_s)
        self.epmd.stop()
        return clean

    def discard(self):
        self.epmd.discard()
        super().discard()

    def url(self, port=None):
        return f"amqp://{RABBIT_USER}:{RABBIT_PASSWORD}@127.0.0.1:{port or self.port}/%2f"

    def queues(self):
        """Name -> messages, ready and taken together; takes a second or two."""
        done = subprocess.run([f"{RABBIT_BIN}/rabbitmqctl", "--quiet", "list_queues", "name",
                               "messages", "--no-table-headers"], text=True, capture_output=True,
                              stdin=subprocess.DEVNULL, env=self.environment())
        assert done.returncode == 0, f"rabbitmqctl: {done.stdout}{done.stderr}"
        return {name: int(count) for name, count in
                (row.split("\t") for row in done.stdout.splitlines())}


class Epmd(proclib.Member):
    """Erlang's directory of nodes; only its own broker knows its port."""

    kind = "epmd"

    def command(self):
        return ["epmd", "-port", self.port, "-address", "127.0.0.1"]

    def ready(self):
        with contextlib.suppress(OSError), socket.create_connection(self.address, 5):
            return True
        return False


class Amqp:
    """AMQP 0-9-1, as much of it as takes messages off a queue and publishes them: one channel."""

    def __init__(self, port, user=RABBIT_USER, password=RABBIT_PASSWORD):
        self.sock = socket.create_connection(("127.0.0.1", port), 30)
        self.sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)  # an ack waits for nobody
        self.reader = self.sock.makefile("rb")
        self.sock.sendall(b"AMQP\0\0\x09\x01")
        self.expect(10, 10)
        login = b"\0" + user.encode() + b"\0" + password.encode()
        self.method(0, 10, 11, struct.pack(">I", 0) + short(b"PLAIN") +
                    struct.pack(">I", len(login)) + login + short(b"en_US"))
        tune = self.expect(10, 30)
        self.method(0, 10, 31, tune[:8])
        self.method(0, 10, 40, short(b"/") + short(b"") + b"\0")
        self.expect(10, 41)
        self.method(1, 20, 10, short(b""))
        self.expect(20, 11)

    def close(self):
        """Says goodbye, so that everything said before has counted."""
        try:
            self.method(0, 10, 50, struct.pack(">H", 200) + short(b"") + struct.pack(">HH", 0, 0))
            while struct.unpack(">HH", self.read()[1][:4] or b"\0\0\0\0") != (10, 51):
                pass
        finally:
            self.reader.close()
            self.sock.close()

    def __enter__(self):
        return self

    def __exit__(self, *unused):
        self.close()

    # ------------------------------------------------------------ frames

    def frame(self, kind, channel, payload):
        self.sock.sendall(struct.pack(">BHI", kind, channel, len(payload)) + payload + b"\xce")

    def method(self, channel, group, number, arguments):
        self.frame(1, channel, struct.pack(">HH", group, number) + arguments)

    def read(self):
        head = self.reader.read(7)
        if len(head) < 7:
            raise ConnectionError("RabbitMQ closed the connection")
        kind, _, size = struct.unpack(">BHI", head)
        payload = self.reader.read(size + 1)
        return kind, payload[:-1]

    def expect(self, group, *numbers):
        """The arguments of the next method, which must be one of these; heartbeats are skipped."""
        while True:
            kind, payload = self.read()
            if kind == 8:
                continue
            found = struct.unpack(">HH", payload[:4])
            assert kind == 1 and found[0] == group and found[1] in numbers, (kind, payload[:200])
            self.number = found[1]
            return payload[4:]

    # ------------------------------------------------------------ use

    def get(self, queue):
        """(tag, exchange, routing key, properties, body) of the next message, or None."""
        self.method(1, 60, 70, struct.pack(">H", 0) + short(queue.encode()) + b"\0")
        rest = self.expect(60, 71, 72)
        if self.number == 72:
            return None
        tag = struct.unpack(">Q", rest[:8])[0]
        at = 9
        exchange, at = text_at(rest, at)
        key, at = text_at(rest, at)
        _, header = self.read()
        size = struct.unpack(">Q", header[4:12])[0]
        properties, body = header[12:], b""
        while len(body) < size:
            body += self.read()[1]
        return tag, exchange, key, properties, body

    def ack(self, tag):
        self.method(1, 60, 80, struct.pack(">QB", tag, 0))

    def publish(self, exchange, key, properties, body):
        self.method(1, 60, 40, struct.pack(">H", 0) + short(exchange) + short(key) + b"\0")
        self.frame(2, 1, struct.pack(">HHQ", 60, 0, len(body)) + properties)
        self.frame(3, 1, body)

    def purge(self, queue):
        """Throws away what is ready in it; how many messages it were."""
        self.method(1, 50, 30, b"\0\0" + short(queue.encode()) + b"\0")
        return struct.unpack(">I", self.expect(50, 31)[:4])[0]

    def confirm(self):
        """From now on publishes are confirmed; see wait_confirms."""
        self.method(1, 85, 10, b"\0")
        self.expect(85, 11)

    def wait_confirms(self, count):
        """Until the broker has taken the first so many publishes for good."""
        waiting = set(range(1, count + 1))
        while waiting:
            tag, multiple = struct.unpack(">QB", self.expect(60, 80)[:9])
            waiting -= set(range(1, tag + 1)) if multiple else {tag}


def short(text):
    return bytes([len(text)]) + text


def text_at(data, at):
    end = at + 1 + data[at]
    return data[at + 1:end], end
