/*
 * The state of the distributed engine's parts as this process last saw it: its segments and their
 * outboxes, the queues, and the holders of leases. For display only; no decision depends on it.
 *
 * A thread that may wait for remote servers checks everything once a second and stores each part as
 * soon as it has it. A loop copies what is stored and waits for nothing but that copy. A part that
 * was never seen is marked unknown. A part that cannot be reached now keeps its last numbers and is
 * marked away.
 */
#ifndef SLUICE_DISTRIBUTED_CLUSTER_STATUS_H
#define SLUICE_DISTRIBUTED_CLUSTER_STATUS_H

#include <pthread.h>

#include "distributed/cluster_health.h"
#include "distributed/parked_messages.h"
#include "distributed/segment_table.h"
#include "port/ledger.h"

#define CLUSTER_STATUS_EVERY_MS 1000

struct cluster_status_segment {
    bool away; /* its server did not answer */
    /* it answered, but under another epoch than the ledger's: it is being rebuilt, or will be */
    bool lost;
    bool closed; /* it is being rebuilt and lets nobody in */
    bool known;  /* it has answered at least once; the next three are from its last answer */
    uint64_t epoch;
    uint64_t outbox;
    uint64_t lag_ms; /* age of its oldest decision; 0: none waits */
    bool has_stock;
    uint64_t available, locked, sold;         /* over all items */
    char address[CLUSTER_STATUS_ADDRESS_MAX]; /* empty: unknown */
};

struct cluster_status_queue {
    bool exists;   /* one is configured */
    int64_t at_ms; /* when its depths were last counted; 0: never */
    bool away;
    struct queue_depths depths;
};

struct cluster_status_sample {
    int64_t segments_at_ms; /* 0: never checked */
    uint32_t segments_count;
    struct cluster_status_segment segments[SEGMENTS_MAX];
    struct cluster_status_queue queues[PARKED_MESSAGES_QUEUES];
    int64_t leases_at_ms; /* 0: never read */
    bool ledger_away;
    uint32_t leases_count;
    struct lease_row leases[CLUSTER_STATUS_LEASES_MAX];
    struct cluster_trouble_state troubles[TROUBLE_COUNT];
    int64_t unrenewed_ms; /* how long nobody has renewed the keeper's lease */
};

struct cluster_status {
    pthread_mutex_t lock; /* held only while copying */
    struct cluster_status_sample sample;
    /* used by the checking thread only */
    struct cluster_health health;
    struct segment_table *segment_table;
    struct segments *segments;
    struct ledger *ledger;
    struct queue *queues[PARKED_MESSAGES_QUEUES]; /* NULL: none is configured */
    const char *(*address)(void *context, uint32_t segment,
                           char ret_text[CLUSTER_STATUS_ADDRESS_MAX]);
    void *context;
};

/* Zeroes everything. The caller sets the members below `health` after it. */
void cluster_status_init(struct cluster_status *cluster_status);
void cluster_status_done(struct cluster_status *cluster_status);
/* Checks everything once. May wait for each server as long as its port does. */
void cluster_status_look(struct cluster_status *cluster_status, int64_t now_ms);
/* Any thread. */
void cluster_status_read(struct cluster_status *cluster_status,
                         struct cluster_status_sample *ret_sample);

#endif
