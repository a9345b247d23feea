/*
 * The servers of the distributed engine, as configured: Redis, RabbitMQ and the leases in the
 * MariaDB ledger. backends_close closes whatever was created here. Only this file,
 * ledger_backends.c, exchange.c and serve.c name backends. Errors are logged with advice.
 */
#ifndef SLUICE_APP_BACKENDS_H
#define SLUICE_APP_BACKENDS_H

#include <pthread.h>
#include "app/assembly.h"

#include "app/config.h"
#include "app/ledger_backends.h"
#include "port/lease.h"
#include "port/queue.h"

#define BACKENDS_MAX 16
#define BACKENDS_LEASES 3

/* The connections of this process to RabbitMQ. */
enum backends_link {
    LINK_RELAY,
    LINK_BOOKER,
    LINK_RECONCILER,
    LINK_CLUSTER_STATUS,
    LINK_PAYMENT_CONSUMER,
    LINK_EVENT_PUBLISHER
};

/* One connection for two threads that ask little, one after the other. */
struct shared_reader {
    struct ledger ledger; /* first: a struct ledger * is a struct shared_reader * */
    pthread_mutex_t lock;
    struct ledger *real; /* NULL: nobody has asked for it yet */
};

struct backends {
    const struct config *config;
    struct clock_port *clock;
    char name[64]; /* of this process, in its leases; a restarted process has another one */
    char worker[LEDGER_BACKENDS_ID +
                1]; /* of the data folder, in the outboxes: a restarted process owns what it held */
    struct redis_topology *topology;
    struct redis_gate *gate;
    uint32_t segments_count;
    struct segments *segments[BACKENDS_MAX];
    struct ledger *ledger_backends[BACKENDS_MAX];
    struct shared_reader shared_reader; /* of the promise resolver and the cluster status */
    struct queue *queues[BACKENDS_MAX];
    struct lease_port *leases[BACKENDS_LEASES];
    _Atomic uint32_t links_seen, links_away; /* a bit for each backends_link */
};

int backends_open(struct backends *backends, const struct config *config, struct clock_port *clock);
void backends_close(struct backends *backends);
uint32_t backends_segments(const struct backends *backends);

int backends_gate(struct backends *backends, uint32_t connection_sets, struct gate_port **ret_gate);
int backends_gate_fd(const struct backends *backends, uint32_t connection_set);
/* For one thread, named after its work. */
int backends_new_segments(struct backends *backends, const char *thread,
                          struct segments **ret_segments);
int backends_new_reader(struct backends *backends, struct ledger **ret_ledger);
int backends_new_writer(struct backends *backends, struct ledger **ret_ledger);
/* A reader for several threads, which share its connection. Not while two threads start. */
int backends_shared_reader(struct backends *backends, struct ledger **ret_ledger);
/* What it said last. */
void backends_shared_words(struct backends *backends, char *ret_text, size_t capacity);
/* *ret_queue is NULL if no queue is configured. */
int backends_new_queue(struct backends *backends, bool publisher, struct queue **ret_queue);
/* The queue of payments. *ret_queue is NULL if none is configured. */
int backends_new_payments(struct backends *backends, struct queue **ret_queue);
/* Any thread: reports the state of its connection to RabbitMQ. */
void backends_link_seen(struct backends *backends, enum backends_link link, bool away);
/* Whether all reported connections are up. *ret_known is false if none was reported. */
bool backends_links_up(const struct backends *backends, bool *ret_known);
/* For one thread. */
int backends_new_lease(struct backends *backends, struct lease_port **ret_lease);

#endif
