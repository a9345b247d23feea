"""The list of drills: STAGES (name -> how to create it) and DRILLS (in the order they run in).

strikes.py has the strikes. `away` marks drills in which Redis loses data or is away: see
drilllib.Drill.
"""
import functools

import clusterlib
import strikes
from drilllib import Drill
from strikes import cut, freeze, kill, restart


def frozen_s(size):
    return size.freeze_s


def away_s(size):
    return size.away_s + 1


STAGES = {
    "embedded": clusterlib.Embedded,
    "embedded-mariadb": functools.partial(clusterlib.Embedded, mariadb=True),
    "single": functools.partial(clusterlib.Distributed, topology="single", proxied=True),
    # The orders in three databases of the MariaDB, those of a segment in each.
    "split": functools.partial(clusterlib.Distributed, topology="single", proxied=True, databases=3,
                               sets=["redis.segments=3"]),
    "sentinel": functools.partial(clusterlib.Distributed, topology="sentinel"),
    "cluster": functools.partial(clusterlib.Distributed, topology="cluster"),
}

EMBEDDED = [
    Drill("embedded-kill", "embedded", "kill -9 of the server", kill("server"), away_s,
          short=True),
    Drill("embedded-kill-3", "embedded", "kill -9 of the server, three times",
          kill("server", times=3), lambda size: 3 * away_s(size)),
    Drill("embedded-freeze", "embedded", "SIGSTOP of the server", freeze("server"), frozen_s),
    Drill("embedded-restart", "embedded", "the server restarted", restart("server")),
    Drill("embedded-cut-nginx", "embedded", "network cut between nginx and the server",
          cut(("nginx", "server")), frozen_s),
    Drill("maria-kill", "embedded-mariadb", "kill -9 of MariaDB", kill("mariadb"), away_s,
          short=True),
    Drill("maria-freeze", "embedded-mariadb", "SIGSTOP of MariaDB", freeze("mariadb"), frozen_s),
    Drill("maria-restart", "embedded-mariadb", "MariaDB restarted", restart("mariadb")),
    Drill("maria-cut", "embedded-mariadb", "network cut between the server and MariaDB",
          cut(("server", "mariadb")), frozen_s),
    Drill("maria-cut-down", "embedded-mariadb", "MariaDB's answers do not reach the server",
          cut(("server", "mariadb"), how="down"), frozen_s),
    Drill("maria-refuse", "embedded-mariadb", "connections to MariaDB reset and refused",
          cut(("server", "mariadb"), how="refuse"), frozen_s),
    Drill("maria-kill-server", "embedded-mariadb", "kill -9 of the server", kill("server"),
          away_s),
    Drill("maria-kill-both", "embedded-mariadb", "kill -9 of the server and MariaDB at once",
          kill("server", "mariadb"), away_s),
]

SERVERS = ("redis", "rabbitmq", "mariadb")
SLUICES = ("front1", "front2", "relay1", "relay2", "booker1", "booker2", "keeper1", "keeper2")

# What happens to one process of a kind, and to all of them.
KILLS = [
    Drill("kill-front", "single", "kill -9 of a front", kill("front1"), away_s, short=True),
    Drill("kill-fronts", "single", "kill -9 of both fronts", kill("front1", "front2"), away_s),
    Drill("kill-relay", "single", "kill -9 of a relay", kill("relay1"), away_s, short=True),
    Drill("kill-relays", "single", "kill -9 of both relays", kill("relay1", "relay2"), away_s),
    Drill("kill-booker", "single", "kill -9 of a booker", kill("booker1"), away_s, short=True),
    Drill("kill-bookers", "single", "kill -9 of both bookers", kill("booker1", "booker2"), away_s),
    Drill("kill-keeper", "single", "kill -9 of the keeper that holds the lease",
          strikes.lease_holder("kill"), lambda size: 9),
    Drill("kill-keepers", "single", "kill -9 of both keepers", kill("keeper1", "keeper2"), away_s),
    Drill("kill-redis", "single", "kill -9 of Redis, which keeps its file", kill("redis"), away_s,
          away=True, short=True),
    Drill("kill-rabbitmq", "single", "kill -9 of RabbitMQ", kill("rabbitmq"),
          lambda size: away_s(size) + 6, short=True),
    Drill("kill-mariadb", "single", "kill -9 of MariaDB", kill("mariadb"), away_s, short=True),
    Drill("kill-everything", "single", "kill -9 of every sluice process at once",
          kill(*SLUICES), away_s),
    Drill("kill-servers", "single", "kill -9 of Redis, RabbitMQ and MariaDB at once",
          kill(*SERVERS), lambda size: away_s(size) + 10, away=True),
    Drill("kill-all", "single", "kill -9 of every sluice process and every server at once",
          kill(*SERVERS, *SLUICES), lambda size: away_s(size) + 10, away=True),
    Drill("restart-rabbitmq", "single", "RabbitMQ restarted", restart("rabbitmq"),
          lambda size: 12),
    Drill("restart-mariadb", "single", "MariaDB restarted", restart("mariadb"), away_s),
    Drill("restart-front", "single", "a front restarted", restart("front1"), away_s),
]

FREEZES = [
    Drill("freeze-front", "single", "SIGSTOP of a front", freeze("front1"), frozen_s),
    Drill("freeze-relay", "single", "SIGSTOP of a relay", freeze("relay1"), frozen_s),
    Drill("freeze-booker", "single", "SIGSTOP of a booker", freeze("booker1"), frozen_s,
          short=True),
    Drill("freeze-keeper", "single", "SIGSTOP of the keeper that holds the lease",
          strikes.lease_holder("freeze"), lambda size: frozen_s(size) + 9),
    Drill("freeze-redis", "single", "SIGSTOP of Redis", freeze("redis"), frozen_s, away=True),
    Drill("freeze-rabbitmq", "single", "SIGSTOP of RabbitMQ", freeze("rabbitmq"), frozen_s),
    Drill("freeze-mariadb", "single", "SIGSTOP of MariaDB", freeze("mariadb"), frozen_s),
]

FORGETTING = [
    Drill("redis-forgets", "single", "Redis killed, its last second of writes gone",
          strikes.redis_forgets, lambda size: 3, away=True, short=True),
    Drill("redis-emptied", "single", "FLUSHALL", strikes.redis_empty, away=True, short=True),
    Drill("redis-empty-restart", "single", "Redis killed, comes back with nothing",
          strikes.redis_empty_restart, lambda size: 2, away=True),
]


def both(kind, server):
    return ((f"{kind}1", server), (f"{kind}2", server))


CUTS = [
    Drill("cut-front-redis", "single", "network cut between a front and Redis",
          cut(("front1", "redis")), frozen_s, away=True, short=True),
    Drill("cut-fronts-redis", "single", "network cut between both fronts and Redis",
          cut(*both("front", "redis")), frozen_s, away=True),
    Drill("deaf-front-redis", "single", "Redis's answers do not reach a front",
          cut(("front1", "redis"), how="down"), frozen_s, away=True),
    Drill("refused-front-redis", "single", "a front's connections to Redis reset and refused",
          cut(("front1", "redis"), how="refuse"), frozen_s, away=True),
    Drill("slow-fronts-redis", "single", "Redis is 0.1 s away from both fronts, each way",
          strikes.slow(*both("front", "redis")), frozen_s, away=True),
    Drill("cut-front-mariadb", "single", "network cut between both fronts and MariaDB",
          cut(*both("front", "mariadb")), frozen_s),
    Drill("cut-relay-redis", "single", "network cut between both relays and Redis",
          cut(*both("relay", "redis")), frozen_s),
    Drill("cut-relay-mariadb", "single", "network cut between both relays and MariaDB",
          cut(*both("relay", "mariadb")), frozen_s),
    Drill("cut-relay-rabbitmq", "single", "network cut between both relays and RabbitMQ",
          cut(*both("relay", "rabbitmq")), frozen_s),
    Drill("deaf-relay-rabbitmq", "single", "RabbitMQ's confirms do not reach the relays",
          cut(*both("relay", "rabbitmq"), how="down"), frozen_s),
    Drill("cut-booker-rabbitmq", "single", "network cut between both bookers and RabbitMQ",
          cut(*both("booker", "rabbitmq")), frozen_s),
    Drill("deaf-booker-rabbitmq", "single", "the bookers' acks do not reach RabbitMQ",
          cut(*both("booker", "rabbitmq"), how="up"), frozen_s),
    Drill("cut-booker-mariadb", "single", "network cut between both bookers and MariaDB",
          cut(*both("booker", "mariadb")), frozen_s),
    Drill("deaf-booker-mariadb", "single", "MariaDB's answers do not reach the bookers",
          cut(*both("booker", "mariadb"), how="down"), frozen_s),
    Drill("cut-booker-redis", "single", "network cut between both bookers and Redis",
          cut(*both("booker", "redis")), frozen_s),
    Drill("cut-keeper-mariadb", "single", "network cut between both keepers and MariaDB",
          cut(*both("keeper", "mariadb")), frozen_s),
    Drill("cut-keeper-redis", "single", "network cut between both keepers and Redis",
          cut(*both("keeper", "redis")), frozen_s),
    Drill("cut-front-rabbitmq", "single", "network cut between both fronts and RabbitMQ",
          cut(*both("front", "rabbitmq")), frozen_s),
    Drill("cut-keeper-rabbitmq", "single", "network cut between both keepers and RabbitMQ",
          cut(*both("keeper", "rabbitmq")), frozen_s),
    Drill("cut-nginx-front", "single", "network cut between nginx and a front",
          cut(("nginx", "front1")), frozen_s),
]

MOMENTS = [
    Drill("duplicates", "single", "every queued message three times, in random order",
          strikes.duplicates, lambda size: 8, short=True),
    Drill("front-yes-journal", "single", "a front killed between Redis's yes and its journal",
          strikes.front_between_yes_and_journal, lambda size: 3 * away_s(size), short=True),
    Drill("relay-confirm-trim", "single", "a relay killed between confirm and trim",
          strikes.relay_between_confirm_and_trim, lambda size: 3 * away_s(size), short=True),
    Drill("booker-commit-ack", "single", "a booker killed between commit and ack",
          strikes.booker_between_commit_and_ack, lambda size: 3 * away_s(size), short=True),
]

SPLIT = [
    Drill("split-kill-mariadb", "split", "kill -9 of MariaDB, orders in three databases",
          kill("mariadb"), away_s),
    Drill("split-commit", "split", "MariaDB killed at a commit over three databases",
          strikes.mariadb_killed_at_commit, lambda size: 3 * away_s(size), short=True),
    Drill("split-restart-mariadb", "split", "MariaDB restarted, orders in three databases",
          restart("mariadb"), away_s),
    Drill("split-freeze-mariadb", "split", "SIGSTOP of MariaDB, orders in three databases",
          freeze("mariadb"), frozen_s),
]

TOPOLOGIES = [
    Drill("sentinel-failover", "sentinel", "the master killed, Sentinel promotes its replica",
          strikes.sentinel_failover("kill"), lambda size: away_s(size) + 3, away=True,
          short=True),
    Drill("sentinel-behind", "sentinel", "the same, the replica cut off for a second before",
          strikes.sentinel_failover("kill", behind=True), lambda size: away_s(size) + 5,
          away=True),
    Drill("sentinel-freeze", "sentinel", "SIGSTOP of the master, Sentinel promotes its replica",
          strikes.sentinel_failover("freeze"), lambda size: frozen_s(size) + 3, away=True),
    Drill("cluster-failover", "cluster", "a master killed, its replica takes its slots",
          strikes.cluster_failover("kill"), lambda size: away_s(size) + 3, away=True,
          short=True),
    Drill("cluster-freeze", "cluster", "SIGSTOP of a master, its replica takes its slots",
          strikes.cluster_failover("freeze"), lambda size: frozen_s(size) + 3, away=True),
    Drill("cluster-handover", "cluster", "CLUSTER FAILOVER by an operator",
          strikes.cluster_handover, away=True),
    Drill("cluster-reshard", "cluster", "all slots of a master moved to another while selling",
          strikes.cluster_reshard, lambda size: 10, away=True),
    Drill("cluster-kill-front", "cluster", "kill -9 of a front", kill("front1"), away_s),
    Drill("cluster-kill-all", "cluster", "kill -9 of every sluice process at once",
          kill(*SLUICES), away_s),
]

DRILLS = EMBEDDED + KILLS + FREEZES + FORGETTING + CUTS + MOMENTS + SPLIT + TOPOLOGIES
