"""The servers of the distributed engine for tests: Redis, MariaDB and, if it is installed, RabbitMQ;
one of each for a whole run. Every server under test gets its own database, prefix and queue in them.
SLUICE_TEST_SERVERS names a file with their addresses (test/suite/servers.py starts them once for all
test processes); without it they are started here.

With SLUICE_ENGINE=distributed every sluicelib.Server runs on them instead of on its own folder.
SLUICE_SEGMENTS and SLUICE_DATABASES set the number of segments and of databases.
"""
import atexit
import copy
import functools
import json
import os
import random

import marialib
import proxylib
import redislib

# For tests without a fault. The default of 1 s takes a Redis on a busy machine for one that is away,
# and buyers then wait in line, where an order may fail.
PATIENT = ["redis.timeout_ms=60000"]


def missing():
    return ", ".join(filter(None, (redislib.missing(), marialib.missing())))


class Engine:
    def __init__(self):
        self.redis = redislib.Redis().start()
        self.mariadb = marialib.MariaDB().start()
        self.rabbit = None
        try:
            import rabbitlib
            if not rabbitlib.missing():
                self.rabbit = rabbitlib.RabbitMQ().start()
        except ImportError:
            pass

    @classmethod
    def attached(cls, path):
        """On servers that another process runs."""
        with open(path, encoding="utf-8") as file:
            told = json.load(file)
        engine = cls.__new__(cls)
        engine.redis = redislib.Redis.attached(told["redis"])
        engine.mariadb = marialib.MariaDB.attached(told["mariadb"])
        engine.rabbit = None
        if "rabbit" in told:
            import rabbitlib
            engine.rabbit = rabbitlib.RabbitMQ.attached(told["rabbit"])
        return engine

    def discard(self):
        for one in (self.redis, self.mariadb, self.rabbit):
            if one is not None:
                one.discard()

    def settings(self, segments=None, databases=None):
        """(settings of one shop, its database)"""
        database = self.mariadb.database(databases or int(os.environ.get("SLUICE_DATABASES", "1")))
        name = unique("t")
        sets = [f"redis.url={self.redis.url}", f"redis.prefix={name}",
                f"redis.segments={segments or os.environ.get('SLUICE_SEGMENTS', '1')}"]
        if self.rabbit is not None:
            sets += [f"amqp.url={self.rabbit.url()}", f"amqp.queue={name}"]
        return sets, database


class Proxied(Engine):
    """The servers that all share, each reached through a proxy of one's own: so it can be away from
    one test alone. `proxies` has them by the names that the log gives their servers."""

    def __init__(self):
        self.proxies = {}
        for member, name in (("redis", "redis"), ("mariadb", "mariadb"), ("rabbit", "rabbitmq")):
            server = copy.copy(getattr(shared(), member))
            if server is not None:
                self.proxies[name] = proxylib.Proxy(("127.0.0.1", server.port), name)
                server.port = self.proxies[name].port
            setattr(self, member, server)
        self.redis.connection = None

    def discard(self):
        self.redis.hang_up()
        for proxy in self.proxies.values():
            proxy.close()


def unique(prefix):
    """A name that nobody else uses on shared servers."""
    return f"{prefix}{random.SystemRandom().randrange(2**40):x}"


@functools.lru_cache(None)
def shared_rabbit():
    """The broker alone, for tests that need no other server."""
    import rabbitlib
    if os.environ.get("SLUICE_TEST_SERVERS"):
        return shared().rabbit
    broker = rabbitlib.RabbitMQ().start()
    atexit.register(broker.discard)
    return broker


@functools.lru_cache(None)
def shared():
    if os.environ.get("SLUICE_TEST_SERVERS"):
        return Engine.attached(os.environ["SLUICE_TEST_SERVERS"])
    engine = Engine()
    atexit.register(engine.discard)
    return engine
