/*
 * What is missing in the installation, judged from what can be seen of it: the queues and their
 * consumers, the outboxes, and the row of the keeper's lease. Which processes run is not asked: a
 * process that does nothing is as bad as one that is dead.
 *
 *   trouble                n                          it is one when
 *   NO_BOOKER              messages that wait         nobody consumes the queue of decisions
 *   NO_PAYMENT_CONSUMER    messages that wait         nobody consumes the queue of payments
 *   NO_KEEPER              -                          the keeper's lease was not renewed for longer
 *                                                     than it lasts
 *   OUTBOX_OLD             decisions in the outboxes  the oldest is older than HEALTH_OUTBOX_MS
 *   QUEUE_GROWS            messages that wait         it is consumed, and was never as short in the
 *                                                     last HEALTH_GROWS_MS as in those before
 *
 * A part that does not answer is not judged by its last numbers; that it does not answer is told
 * elsewhere. Ages are measured here, from one look to the next, so clocks of servers do not matter.
 * A trouble is logged when it begins (cluster.trouble) and when it ends (cluster.well).
 *
 * One thread.
 */
#ifndef SLUICE_DISTRIBUTED_CLUSTER_HEALTH_H
#define SLUICE_DISTRIBUTED_CLUSTER_HEALTH_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "port/queue.h"

/* X(NAME, text): the text is in the feed of the console and in the log. */
#define CLUSTER_TROUBLES(X)                                                                        \
    X(NO_BOOKER, "no_booker")                                                                      \
    X(NO_PAYMENT_CONSUMER, "no_payment_consumer")                                                  \
    X(NO_KEEPER, "no_keeper")                                                                      \
    X(OUTBOX_OLD, "outbox_old")                                                                    \
    X(QUEUE_GROWS, "queue_grows")

enum cluster_trouble {
#define X(name, text) TROUBLE_##name,
    CLUSTER_TROUBLES(X) TROUBLE_COUNT
#undef X
};
const char *cluster_trouble_text(enum cluster_trouble trouble);

/* A consumer that lost its connection comes back within this time. */
#define HEALTH_CONSUMER_MS 3000
/* Longer than the keeper's lease lasts (6 s, engine.c); a living keeper renews it every second. */
#define HEALTH_LEASE_MS 7000
#define HEALTH_OUTBOX_MS 10000
#define HEALTH_GROWS_MS 30000

/* What a look has found. */
struct cluster_look {
    const struct queue_depths *queue;    /* NULL: there is none, or it did not answer */
    const struct queue_depths *payments; /* the same */
    bool leases_known;
    bool has_lease; /* there is a row of the keeper's lease */
    uint64_t lease_token;
    int64_t lease_until_ms; /* by the ledger's clock */
    bool outbox_known;
    uint64_t outbox;
    uint64_t outbox_lag_ms;
};

struct cluster_trouble_state {
    bool is_on;
    int64_t since_ms; /* when it began, as far as it was seen */
    uint64_t n;
};

struct cluster_health {
    struct cluster_trouble_state troubles[TROUBLE_COUNT];
    int64_t consumed_ms;    /* when the queue had a consumer last, or was first seen */
    int64_t payments_ms;    /* the same */
    int64_t renewed_ms;     /* when the keeper's lease was seen to change last */
    uint64_t lease_token;   /* then */
    int64_t lease_until_ms; /* then */
    /* The queue's depth in this period of HEALTH_GROWS_MS, and in the one before. */
    int64_t period_ms; /* when this one began; 0: never */
    uint64_t shortest;
    uint64_t longest;
    uint64_t longest_before; /* UINT64_MAX: there was none */
};

/* Into a zeroed struct. now_ms: any clock that only goes forward. */
void cluster_health_judge(struct cluster_health *health, const struct cluster_look *look,
                          int64_t now_ms);
/* How long nobody has renewed the keeper's lease; 0 before the first look. */
int64_t cluster_health_unrenewed_ms(const struct cluster_health *health, int64_t now_ms);

#endif
