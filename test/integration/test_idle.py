"""Idle means idle: what an installation asks of MariaDB while nobody buys, counted by MariaDB itself."""
import time

import pytest

import enginelib
import marialib
import sluicelib
from sluicelib import Shop, eventually

pytestmark = pytest.mark.skipif(enginelib.missing() != "",
                                reason=f"not installed: {enginelib.missing()}")
SECONDS = 8
MOST_A_SECOND = 20
# docs/DISTRIBUTED.md: by role, while nothing is compared or published.
CONNECTIONS = {"keeper": 6, "front": 3, "relay,booker": 3}


class Installation:
    """Keeper, front, and relay with booker: a process each."""

    def __init__(self, mariadb):
        self.mariadb = mariadb
        settings, _ = enginelib.shared().settings(segments=2)
        self.database = mariadb.database()
        self.servers = [sluicelib.Server(sets=[*settings, *enginelib.PATIENT, *more],
                                         extra=["--roles", roles], database=self.database)
                        for roles, more in (("keeper", []), ("front", []), ("relay,booker", []))]

    def start(self):
        for server in self.servers:
            server.start()
        return self

    def discard(self):
        for server in self.servers:
            server.stop()
            server.discard()

    @property
    def front(self):
        return self.servers[1]

    def statements(self):
        """All that the server was asked, BEGIN and ROLLBACK too; our own question is one."""
        return int(self.mariadb.run("SHOW GLOBAL STATUS LIKE 'Questions'")[0][1])

    def statements_a_second(self):
        before, start = self.statements(), time.monotonic()
        time.sleep(SECONDS)
        after, end = self.statements(), time.monotonic()
        return (after - before - 1) / (end - start)

    def statements_by_kind(self):
        """For a failure: who asks what."""
        self.mariadb.run("SET GLOBAL log_output = 'TABLE'; SET GLOBAL general_log = ON")
        time.sleep(SECONDS)
        self.mariadb.run("SET GLOBAL general_log = OFF")
        rows = self.mariadb.run(
            "SELECT count(*) / %d AS a_second, count(DISTINCT thread_id) AS threads, command_type,"
            " left(regexp_replace(argument, '[0-9]+', 'N'), 150) AS what FROM mysql.general_log"
            " GROUP BY command_type, what ORDER BY 1 DESC LIMIT 40" % SECONDS)
        return "\n".join("\t".join(row) for row in rows)


@pytest.fixture
def installation():
    with marialib.MariaDB() as mariadb:
        made = Installation(mariadb)
        try:
            yield made.start()
        finally:
            made.discard()


def settled(installation):
    """Waits until what the start has left is done: two counts alike."""
    last = [1e9]

    def calm():
        last.append(installation.statements_a_second())
        return last[-1] > 0.8 * last[-2]

    eventually(calm, "the installation to calm down")
    return last[-1]


def test_statements_a_second(installation):
    shop = Shop(installation.front)
    rates = {}
    for sales in (0, 60):
        for _ in range(sales):
            sale = shop.create_sale()
            shop.moved(sale["id"], "open")
            shop.moved(sale["id"], "close")
        rates[sales] = settled(installation)
    print(rates)
    if max(rates.values()) >= MOST_A_SECOND:
        pytest.fail(f"{rates} statements a second\n{installation.statements_by_kind()}")


def connections(installation):
    rows = installation.mariadb.run("SELECT count(*) FROM information_schema.processlist"
                                    " WHERE user = 'sluice'")
    return int(rows[0][0])


def test_connections(installation):
    """As many as the documents say: a front has three."""
    eventually(lambda: connections(installation) == sum(CONNECTIONS.values()),
               f"{CONNECTIONS} connections to MariaDB")
    front = installation.front
    front.stop()
    others = sum(CONNECTIONS.values()) - CONNECTIONS["front"]
    eventually(lambda: connections(installation) == others, "the front's connections to end")
    front.start()
    # A comparison makes one more, and it ends again.
    assert front.admin("POST", "/reconcile").status == 200
    eventually(lambda: connections(installation) == sum(CONNECTIONS.values()),
               "the comparison's connection to end")
