/*
 * The concrete servers of the distributed engine, as the configuration names them: Redis, RabbitMQ
 * and the MariaDB ledger's leases. Whatever is made here is closed by engines_close. With
 * ledgers.c and serve.c the only place that names backends. Errors are logged with what to do.
 */
#ifndef SLUICE_APP_ENGINES_H
#define SLUICE_APP_ENGINES_H

#include "app/assembly.h"
#include "app/config.h"
#include "app/ledgers.h"
#include "flow/await.h"
#include "flow/places.h"
#include "port/lease.h"
#include "port/queue.h"

#define ENGINES_MAX 16
#define ENGINES_LEASES 2

/* Who of this process is connected to RabbitMQ. */
enum engines_link {
    LINK_RELAY,
    LINK_BOOKER,
    LINK_RECONCILER,
    LINK_PULSE,
    LINK_TELLER,
    LINK_HERALD
};

struct engines {
    const struct config *config;
    struct clock_port *clock;
    char name[64];               /* of this process, in its leases: a restarted one is another */
    char worker[LEDGERS_ID + 1]; /* of its data folder, in the outboxes: what it held is its own */
    struct redis_topology *topology;
    struct redis_gate *gate;
    uint32_t segments_count;
    struct segments *segments[ENGINES_MAX];
    struct ledger *ledgers[ENGINES_MAX];
    struct queue *queues[ENGINES_MAX];
    struct lease_port *leases[ENGINES_LEASES]; /* the keeper's first */
    int64_t look_ms;                           /* when the segments are looked at next */
    struct ledger *keeping;                    /* the keeper's */
    struct recover *recover;
    struct balance *balance;
    _Atomic bool balances;                   /* this process holds the lease of balancing */
    _Atomic uint32_t links_seen, links_away; /* a bit for each engines_link */
};

int engines_open(struct engines *engines, const struct config *config, struct clock_port *clock);
void engines_close(struct engines *engines);
uint32_t engines_segments(const struct engines *engines);

int engines_gate(struct engines *engines, uint32_t lanes, struct gate_port **ret_gate);
int engines_gate_fd(const struct engines *engines, uint32_t lane);
/* For one thread, by the name of what it does. */
int engines_new_segments(struct engines *engines, const char *thread,
                         struct segments **ret_segments);
int engines_new_reader(struct engines *engines, struct ledger **ret_ledger);
int engines_new_writer(struct engines *engines, struct ledger **ret_ledger);
/* *ret_queue is NULL where no queue is configured. */
int engines_new_queue(struct engines *engines, bool publisher, struct queue **ret_queue);
/* The queue of payments. *ret_queue is NULL where none is configured. */
int engines_new_payments(struct engines *engines, struct queue **ret_queue);
/* Any thread: how its connection to RabbitMQ is. */
void engines_link_seen(struct engines *engines, enum engines_link link, bool away);
/* Whether all that were seen stand. False, and *ret_known: none was. */
bool engines_links_up(const struct engines *engines, bool *ret_known);
/* For one thread; the first is the keeper's. */
int engines_new_lease(struct engines *engines, struct lease_port **ret_lease);

/* What the keeper's thread does beside keeping its lease: segments that need it are rebuilt, dry
 * ones refilled. */
int engines_keep(struct engines *engines, struct await await, uint32_t balance_lane,
                 const struct gate_sizes *sizes);
/* Any thread: false where this process does not balance. */
bool engines_refill(struct engines *engines, uint32_t segment, uint64_t item, uint64_t units);
/* True: something was written to the ledger. */
bool engines_keep_round(struct engines *engines, int64_t now_ms);
/* After the last round, on its thread: gives up what other keepers would wait for. */
void engines_keep_end(struct engines *engines);

#endif
