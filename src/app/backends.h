/*
 * The concrete servers of the distributed engine, as the configuration names them: Redis, RabbitMQ
 * and the MariaDB ledger's leases. Whatever is made here is closed by backends_close. With
 * ledger_backends.c and serve.c the only place that names backends. Errors are logged with what to do.
 */
#ifndef SLUICE_APP_BACKENDS_H
#define SLUICE_APP_BACKENDS_H

#include "app/assembly.h"
#include "app/config.h"
#include "app/ledger_backends.h"
#include "port/lease.h"
#include "port/queue.h"

#define BACKENDS_MAX 16
#define BACKENDS_LEASES 3

/* Who of this process is connected to RabbitMQ. */
enum backends_link {
    LINK_RELAY,
    LINK_BOOKER,
    LINK_RECONCILER,
    LINK_CLUSTER_STATUS,
    LINK_PAYMENT_CONSUMER,
    LINK_EVENT_PUBLISHER
};

struct backends {
    const struct config *config;
    struct clock_port *clock;
    char name[64]; /* of this process, in its leases: a restarted one is another */
    char worker[LEDGER_BACKENDS_ID +
                1]; /* of its data folder, in the outboxes: what it held is its own */
    struct redis_topology *topology;
    struct redis_gate *gate;
    uint32_t segments_count;
    struct segments *segments[BACKENDS_MAX];
    struct ledger *ledger_backends[BACKENDS_MAX];
    struct queue *queues[BACKENDS_MAX];
    struct lease_port *leases[BACKENDS_LEASES];
    _Atomic uint32_t links_seen, links_away; /* a bit for each backends_link */
};

int backends_open(struct backends *backends, const struct config *config, struct clock_port *clock);
void backends_close(struct backends *backends);
uint32_t backends_segments(const struct backends *backends);

int backends_gate(struct backends *backends, uint32_t connection_sets, struct gate_port **ret_gate);
int backends_gate_fd(const struct backends *backends, uint32_t connection_set);
/* For one thread, by the name of what it does. */
int backends_new_segments(struct backends *backends, const char *thread,
                          struct segments **ret_segments);
int backends_new_reader(struct backends *backends, struct ledger **ret_ledger);
int backends_new_writer(struct backends *backends, struct ledger **ret_ledger);
/* *ret_queue is NULL where no queue is configured. */
int backends_new_queue(struct backends *backends, bool publisher, struct queue **ret_queue);
/* The queue of payments. *ret_queue is NULL where none is configured. */
int backends_new_payments(struct backends *backends, struct queue **ret_queue);
/* Any thread: how its connection to RabbitMQ is. */
void backends_link_seen(struct backends *backends, enum backends_link link, bool away);
/* Whether all that were seen stand. False, and *ret_known: none was. */
bool backends_links_up(const struct backends *backends, bool *ret_known);
/* For one thread. */
int backends_new_lease(struct backends *backends, struct lease_port **ret_lease);

#endif
