"""The servers that the distributed engine needs, for tests: Redis, MariaDB and, where it is
installed, RabbitMQ; one of each for a whole run. Every server under test gets a database, a prefix
and a queue of its own in them.

With SLUICE_ENGINE=distributed every sluicelib.Server runs on them instead of on its own folder.
SLUICE_SEGMENTS and SLUICE_DATABASES: of how many segments, and over how many databases.
"""
import atexit
import functools
import os
import random

import marialib
import redislib


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

    def discard(self):
        for one in (self.redis, self.mariadb, self.rabbit):
            if one is not None:
                one.discard()

    def settings(self, segments=None, databases=None):
        """(settings of one shop, its database)"""
        database = self.mariadb.database(databases or int(os.environ.get("SLUICE_DATABASES", "1")))
        name = f"t{random.SystemRandom().randrange(2**40):x}"
        sets = [f"redis.url={self.redis.url}", f"redis.prefix={name}",
                f"redis.segments={segments or os.environ.get('SLUICE_SEGMENTS', '1')}"]
        if self.rabbit is not None:
            sets += [f"amqp.url={self.rabbit.url()}", f"amqp.queue={name}"]
        return sets, database


@functools.lru_cache(None)
def shared():
    engine = Engine()
    atexit.register(engine.discard)
    return engine
