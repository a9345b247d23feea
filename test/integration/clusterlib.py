"""Complete stages for tests: sluice processes by role, their servers, nginx in front.

Sluice     one `sluice serve` with some roles and its own data folder.
Door       one address of a stage, for the flows of sluicelib and the checkers of crashlib.
Stage      members in the order they start in, proxies between them, one entrance and the ledger.
Embedded   one server with everything in it (its ledger in SQLite, or on a MariaDB), nginx in front.
Distributed  fronts, relays, bookers and keepers on Redis (single, Sentinel, Cluster), RabbitMQ and
           MariaDB, nginx in front; with proxies between all of them on request.
Shared     the same processes on the servers that all tests share, each reached through a proxy.

Every member keeps its folder, its log and its port over restarts. All processes of a stage share
the secrets, which are created once and copied before the first start.
"""
import base64
import os
import secrets
import shutil
import tempfile

import enginelib
import marialib
import proclib
import proxylib
import serverlib
import sluicelib

SECRETS = {"jwt.key": 32, "webhook.key": 32, "ticket.key": 16, "admin.token": 24}


def make_secrets(folder):
    """As a first start makes them: one line of base64url, mode 0600."""
    os.makedirs(folder, exist_ok=True)
    for name, size in SECRETS.items():
        path = os.path.join(folder, name)
        if not os.path.exists(path):
            text = base64.urlsafe_b64encode(secrets.token_bytes(size)).rstrip(b"=")
            fd = os.open(path + ".new", os.O_CREAT | os.O_WRONLY | os.O_TRUNC, 0o600)
            with os.fdopen(fd, "wb") as file:
                file.write(text + b"\n")
            os.rename(path + ".new", path)
    return folder


def copy_secrets(source, target):
    os.makedirs(target, exist_ok=True)
    for name in SECRETS:
        if not os.path.exists(os.path.join(target, name)):
            shutil.copy2(os.path.join(source, name), os.path.join(target, name))


# ---------------------------------------------------------------- sluice

class Sluice(proclib.Member):
    kind = "sluice"

    def __init__(self, name, folder, roles=None, port=None, sets=(), config=None, keys=None,
                 demo=False):
        """roles: of --roles, None for all; sets: of --set; keys: the folder of the secrets."""
        super().__init__(name, folder, port)
        self.roles, self.sets, self.config, self.demo = roles, list(sets), config, demo
        self.data = os.path.join(folder, "data")
        if keys:
            copy_secrets(keys, self.data)

    def command(self):
        words = [sluicelib.BINARY, "serve", "--listen", f"127.0.0.1:{self.port}",
                 "--data", self.data]
        words += ["--config", self.config] if self.config else []
        words += ["--roles", self.roles] if self.roles else []
        words += ["--demo"] if self.demo else sluicelib.without_limits()
        for setting in self.sets:
            words += ["--set", setting]
        return words

    def ready(self):
        return proclib.http_status(self.address, "/readyz") == 200

    def lives(self):
        """It serves. A front that has not seen every segment yet is not ready."""
        return proclib.http_status(self.address, "/livez") == 200

    def wait_lives(self):
        return self._wait_ready(proclib.START_S, self.lives)


class Door(sluicelib.Server):
    """A way into a stage: everything of Server that talks, nothing that starts or stops."""

    def __init__(self, address, data, database=None):
        self.address, self.port = address, address[1]
        self.data, self.database = data, database
        self.client = sluicelib.Client(address)
        self._tokens = {}


# ---------------------------------------------------------------- stages

class Stage:
    """What every stage has. A subclass fills `members` (name -> Member, in the order of starting),
    `links` ((from, to) -> Proxy), `fronts`, and says where the ledger is."""

    name = "stage"
    orders_max = 1_000_000  # that its gate holds: the default of gate.orders

    def __init__(self, folder=None):
        self.owns_folder = folder is None
        self.folder = folder or tempfile.mkdtemp(prefix="sluice-stage-")
        self.members, self.links = {}, {}
        self.fronts = []
        self.hung = []  # servers that ran before the start and do not answer
        self.database = None
        self.keys = make_secrets(os.path.join(self.folder, "secrets"))

    def add(self, member):
        self.members[member.name] = member
        return member

    def place(self, name):
        return os.path.join(self.folder, name)

    def link(self, source, target, address):
        """The address that `source` uses for `target`: a proxy's."""
        proxy = self.links[source, target] = proxylib.Proxy(address, f"{source}-{target}")
        return proxy.address

    # ------------------------------------------------------------ life

    def start(self):
        self.bring_up(member for member in self.members.values() if not member.alive())
        nginx = self.members.get("nginx")
        if nginx and not self.hung:  # it leaves a front alone for a second that it could not reach once
            sluicelib.eventually(lambda: proclib.http_status(nginx.address, "/readyz") == 200,
                                 "a front behind nginx")
        return self

    def bring_up(self, members):
        """Starts these. The servers that others stand on come first, one by one; sluice processes
        come up together, for each may wait for what another does."""
        members = list(members)
        for member in members:
            if member.kind != "sluice":
                member.start()
        together = [member for member in members if member.kind == "sluice"]
        for member in together:
            member.spawn()
        for member in together:
            if self.hung:
                member.wait_lives()
            else:
                member.wait_ready()

    def heal(self):
        """Everything runs and is reachable again."""
        self.hung = []
        for proxy in self.links.values():
            proxy.heal()
        for member in self.members.values():
            if member.alive():
                member.thaw()
        self.bring_up(member for member in self.members.values() if not member.alive())
        for member in self.members.values():
            member.wait_ready()

    def stop(self):
        """SIGTERM in the reverse order; the names of those that needed more."""
        stubborn = [member.name for member in reversed(self.members.values()) if not member.stop()]
        return stubborn

    def discard(self):
        for member in reversed(self.members.values()):
            member.discard()
        for proxy in self.links.values():
            proxy.close()
        self.links = {}
        if self.owns_folder and not os.environ.get("SLUICE_KEEP"):
            shutil.rmtree(self.folder, ignore_errors=True)

    def __enter__(self):
        try:
            return self.start()
        except BaseException:
            self.discard()  # nobody else will: what came up would run on
            raise

    def __exit__(self, *unused):
        self.discard()

    # ------------------------------------------------------------ use

    def entry(self):
        """The member that buyers meet: nginx where there is one."""
        return self.members.get("nginx") or self.fronts[0]

    def door(self, front=None):
        """Through the front door, or at one front."""
        return Door((front or self.entry()).address, self.keys_and_ledger(), self.database)

    def keys_and_ledger(self):
        """The folder that has the secrets; the SQLite ledger too where there is one."""
        return self.fronts[0].data

    def logs(self):
        return {name: member.log() for name, member in self.members.items()}


class Embedded(Stage):
    """One server, ledger in SQLite; `mariadb`: on a MariaDB, reached through a proxy."""

    def __init__(self, folder=None, mariadb=False, sets=()):
        super().__init__(folder)
        self.name = "embedded-mariadb" if mariadb else "embedded"
        sets = ["server.threads=2", "keeper.tick_ms=20", "journal.segment_mib=1", *sets]
        if mariadb:
            base = self.add(proclib.MariaDB("mariadb", self.place("mariadb")))
            base.start()
            self.database = marialib.Database(base.sql, "sluice_ledger")
            address = self.link("server", "mariadb", base.address)
            sets += [f"ledger.url=mariadb://{marialib.URL_LOGIN}@127.0.0.1:{address[1]}/"
                     f"{self.database.name}", "ledger.timeout_s=2"]
        self.fronts = [self.add(Sluice("server", self.place("server"), keys=self.keys, sets=sets))]
        address = self.link("nginx", "server", self.fronts[0].address)
        self.add(proclib.Nginx("nginx", self.place("nginx"), [address]))


# ---------------------------------------------------------------- the distributed engine

MASTER = "sluice"  # the master's name among the Sentinels
# Processes of each kind: those of one kind take over from each other.
COUNTS = {"front": 2, "relay": 2, "booker": 2, "keeper": 2}
# Bounds of a small machine: a front that could serve 16,000 connections takes its memory at once.
ORDERS_MAX = 400_000  # twice the largest crowd of a drill
SMALL = ["server.threads=1", "server.connections=4096", f"gate.orders={ORDERS_MAX}",
         f"gate.buyers={ORDERS_MAX}", "gate.items=1000", "gate.sales=200",
         "http.small_buffers=2048", "http.large_buffers=8", "auth.tokens=65536",
         "journal.segment_mib=4", "keeper.tick_ms=50"]


class Distributed(Stage):
    orders_max = ORDERS_MAX

    def __init__(self, folder=None, topology="single", proxied=False, amqp=True, counts=None,
                 sets=(), port=None, demo=False, databases=1, database=None):
        """topology: single, sentinel or cluster. proxied: every sluice process reaches each server
        through a proxy of its own (not for cluster and sentinel, which name addresses themselves).
        port: of nginx. databases: that the ledger splits its orders over. database: one of a
        MariaDB that others run (marialib.Database); without it the stage has its own."""
        super().__init__(folder)
        self.databases, self.database = databases, database
        self.name = f"distributed-{topology}"
        self.topology, self.proxied, self.demo = topology, proxied, demo
        self.counts = dict(COUNTS, **(counts or {}))
        self.sets = [*SMALL, *sets]
        self.redis, self.sentinels = [], []
        self.rabbitmq = self.mariadb = None
        self.add_servers(amqp)
        self.kinds = {}
        for kind, count in self.counts.items():
            self.kinds[kind] = [self.add_sluice(kind, number) for number in range(1, count + 1)]
        self.fronts = self.kinds["front"]
        self.add_nginx(port)

    def add_servers(self, amqp):
        self.add_redis()
        if amqp:
            self.rabbitmq = self.add(serverlib.RabbitMQ("rabbitmq", self.place("rabbitmq")))
        if self.database is None:
            self.mariadb = self.add(proclib.MariaDB("mariadb", self.place("mariadb")))

    def add_nginx(self, port):
        addresses = [self.reach("nginx", front) for front in self.fronts]
        self.add(proclib.Nginx("nginx", self.place("nginx"), addresses, port))

    # ------------------------------------------------------------ Redis

    def add_redis(self):
        if self.topology == "cluster":
            self.redis = [self.add(serverlib.Redis(f"redis{number}", self.place(f"redis{number}"),
                                                   cluster=True)) for number in range(1, 7)]
            return
        self.redis = [self.add(serverlib.Redis("redis", self.place("redis")))]
        if self.topology == "sentinel":
            # Each is known by the address of a proxy, to everyone: so a replica can be cut off.
            self.redis.append(self.add(serverlib.Redis("replica", self.place("replica"))))
            for node in self.redis:
                node.known_port = self.link("all", node.name, node.address)[1]
                node.options.update({"replica-announce-ip": "127.0.0.1",
                                     "replica-announce-port": node.known_port})
            self.redis[1].replica_of = self.redis[0].known_port
            self.sentinels = [self.add(serverlib.Sentinel(f"sentinel{number}",
                                                          self.place(f"sentinel{number}"), MASTER,
                                                          self.redis[0].known_port))
                              for number in (1, 2, 3)]

    def redis_url(self, who):
        if self.topology == "cluster":
            return "cluster://" + ",".join(f"127.0.0.1:{node.port}" for node in self.redis)
        if self.topology == "sentinel":
            hosts = ",".join(f"127.0.0.1:{sentinel.port}" for sentinel in self.sentinels)
            return f"sentinel://{hosts}/{MASTER}"
        return f"redis://127.0.0.1:{self.reach(who, self.redis[0])[1]}"

    def masters(self):
        """The Redis members that are masters now."""
        found = []
        for node in self.redis:
            try:
                if node.alive() and node.role() == "master":
                    found.append(node)
            except (OSError, serverlib.RedisError):
                pass
        return found

    # ------------------------------------------------------------ sluice

    def reach(self, who, member):
        """The address under which `who` finds a member."""
        if self.proxied:
            return self.link(who, member.name, member.address)
        return member.address

    def ledger_settings(self, who):
        if self.mariadb is None:
            return {"url": self.database.url, "timeout_s": 5}
        user, password = marialib.USER, os.path.join(self.keys, "ledger.password")
        if not os.path.exists(password):
            with open(password, "w", encoding="utf-8") as file:
                file.write(marialib.PASSWORD + "\n")
        port = self.reach(who, self.mariadb)[1]
        split = f"?databases={self.databases}" if self.databases > 1 else ""
        return {"url": f"mariadb://{user}@127.0.0.1:{port}/sluice_ledger{split}",
                "password_file": password, "timeout_s": 5}

    def server_settings(self, who):
        """section -> name -> value: where the servers are, for a process of this name."""
        sections = {"redis": {"url": self.redis_url(who)}, "ledger": self.ledger_settings(who)}
        if self.rabbitmq:
            sections["amqp"] = {"url": self.rabbitmq.url(self.reach(who, self.rabbitmq)[1])}
        return sections

    def config_text(self, who):
        sections = self.server_settings(who)
        for setting in self.sets:
            path, value = setting.split("=", 1)
            section, name = path.split(".")
            sections.setdefault(section, {})[name] = value
        lines = [f"# {who} of the stage in {self.folder}"]
        for section, settings in sections.items():
            lines.append(f"{section} {{")
            lines += [f'    {name} = "{value}"' if not str(value).isdigit()
                      else f"    {name} = {value}" for name, value in settings.items()]
            lines.append("}")
        return "\n".join(lines) + "\n"

    def add_sluice(self, kind, number):
        name = f"{kind}{number}"
        place = self.place(name)
        os.makedirs(place, exist_ok=True)
        path = os.path.join(place, "sluice.conf")
        with open(path, "w", encoding="utf-8") as file:
            file.write(self.config_text(name))
        return self.add(Sluice(name, place, roles=kind, config=path, keys=self.keys,
                               demo=self.demo and kind == "front"))

    # ------------------------------------------------------------ life

    def start(self):
        """What others stand on comes first, side by side; Redis becomes a Cluster, Sentinels meet.
        A server that runs and does not answer (`hung`) is not waited for: what is dead comes back
        beside it."""
        servers = [member for member in (self.rabbitmq, self.mariadb, *self.redis)
                   if member is not None]
        self.hung = [member for member in servers if member.alive() and
                     (member.frozen() or not member.ready())]
        for member in servers:
            if not member.alive():
                member.spawn()
        answering = [member for member in servers if member not in self.hung]
        for member in self.redis:
            if member in answering:
                member.wait_ready()
        for member in self.sentinels:
            if not member.alive():
                member.start()
        if self.topology == "cluster" and not self.hung:
            serverlib.cluster_create(self.redis)
        if self.topology == "sentinel" and not self.hung:
            sluicelib.eventually(lambda: all(s.sees(1, 2) for s in self.sentinels), "the Sentinels")
        for member in reversed(answering):  # RabbitMQ, which starts slowly, last
            member.wait_ready()
        if self.mariadb is not None:
            self.database = marialib.Database(self.mariadb.sql, "sluice_ledger", self.databases)
        if self.mariadb not in self.hung and not self.ledger_made() and self.kinds["keeper"]:
            # One makes the tables; a busy machine takes longer for it than the others would wait.
            first = self.kinds["keeper"][0].spawn()
            sluicelib.eventually(lambda: self.ledger_made() or not first.alive(), "the tables",
                                 every_s=0.05)
            first.wait_ready()
        return super().start()

    def ledger_made(self):
        done = self.database.server.shell("SELECT count(*) FROM meta WHERE segments > 0",
                                          self.database.name)
        return done.returncode == 0 and done.stdout.strip() == "1"

    def heal(self):
        """Also: Redis has as many masters and replicas as it should have."""
        super().heal()
        if self.topology == "cluster":
            sluicelib.eventually(lambda: serverlib.cluster_ok(self.redis, 3), "the Redis Cluster")
        if self.topology == "sentinel":
            sluicelib.eventually(self.sentinels_agree, "one master and its replica", every_s=0.1)

    def sentinels_agree(self):
        """One master, known to all, and the other its replica."""
        masters = self.masters()
        return len(masters) == 1 and all(sentinel.master() == masters[0].known_port and
                                         sentinel.sees(1, 2) for sentinel in self.sentinels)


class Shared(Distributed):
    """On the servers that all tests share, in names of its own, without nginx. All processes reach a
    server through one proxy (`away`), so it can be away from them alone."""

    def __init__(self, counts=None, sets=(), segments=None, amqp=True, proxied=True,
                 own_redis=False):
        """amqp: False without a queue, so that relays book. proxied: False for a crowd. own_redis: one
        that may be killed."""
        self.own_redis = own_redis
        self.engine = enginelib.Proxied() if proxied else enginelib.shared()
        self.away = self.engine.proxies if proxied else {}
        settings, database = self.engine.settings(segments)
        settings = [one for one in settings if amqp or not one.startswith("amqp.")]
        super().__init__(counts=counts, sets=[*settings, *sets], database=database)
        self.name = "shared"
        self.links = {("all", name): proxy for name, proxy in self.away.items()}
        self.prefix = dict(one.split("=", 1) for one in settings)["redis.prefix"]

    def add_servers(self, amqp):
        """There are some; their addresses are in the settings."""
        if self.own_redis:
            self.add_redis()
            self.sets.append(f"redis.url=redis://127.0.0.1:{self.redis[0].port}")

    def add_nginx(self, port):
        """There is none: the first front is the way in."""

    def server_settings(self, who):
        return {"ledger": self.ledger_settings(who)}
