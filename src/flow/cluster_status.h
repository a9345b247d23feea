/*
 * How the parts of the distributed engine are, as one process saw them a moment ago: its segments
 * and their outboxes, the queue, and who holds which lease. For whoever watches; nothing is decided
 * by it.
 *
 * A thread that may wait for servers of others looks once a second and puts each part here when it
 * has it; a loop copies what is there and never waits for more than that copy. What has not been
 * seen yet is marked as not known; what could not be asked now keeps its last numbers, and says
 * that it is away.
 */
#ifndef SLUICE_FLOW_CLUSTER_STATUS_H
#define SLUICE_FLOW_CLUSTER_STATUS_H

#include <pthread.h>

#include "flow/parked_messages.h"
#include "flow/segment_table.h"
#include "port/ledger.h"

#define CLUSTER_STATUS_EVERY_MS 1000

struct cluster_status_segment {
    bool away; /* its server did not answer */
    bool lost; /* it answered, but the ledger's epoch is another: it is being rebuilt, or will be */
    bool closed; /* it is being rebuilt: nobody is let in */
    bool known;  /* it has answered, ever: the next three are as they were then */
    uint64_t epoch;
    uint64_t outbox;
    uint64_t lag_ms; /* of the oldest decision there; 0: none waits */
    bool has_stock;
    uint64_t available, locked, sold;         /* over all items */
    char address[CLUSTER_STATUS_ADDRESS_MAX]; /* empty: not known */
};

struct cluster_status_queue {
    bool exists;   /* one is configured */
    int64_t at_ms; /* when its depths were counted last; 0: never */
    bool away;
    struct queue_depths depths;
};

struct cluster_status_sample {
    int64_t segments_at_ms; /* 0: not looked at yet */
    uint32_t segments_count;
    struct cluster_status_segment segments[SEGMENTS_MAX];
    struct cluster_status_queue queues[PARKED_MESSAGES_QUEUES];
    int64_t leases_at_ms; /* 0: not read yet */
    bool ledger_away;
    uint32_t leases_count;
    struct lease_row leases[CLUSTER_STATUS_LEASES_MAX];
};

struct cluster_status {
    pthread_mutex_t lock; /* held for copies only */
    struct cluster_status_sample sample;
    /* the looking thread's own */
    struct segment_table *segment_table;
    struct segments *segments;
    struct ledger *ledger;
    struct queue *queues[PARKED_MESSAGES_QUEUES]; /* NULL: none is configured */
    const char *(*address)(void *context, uint32_t segment,
                           char ret_text[CLUSTER_STATUS_ADDRESS_MAX]);
    void *context;
};

/* The members below `sample` are the caller's to fill in before and after. */
void cluster_status_init(struct cluster_status *cluster_status);
void cluster_status_done(struct cluster_status *cluster_status);
/* Looks at everything once; may wait for each server as long as its port does. */
void cluster_status_look(struct cluster_status *cluster_status, int64_t now_ms);
/* Any thread. */
void cluster_status_read(struct cluster_status *cluster_status,
                         struct cluster_status_sample *ret_sample);

#endif
