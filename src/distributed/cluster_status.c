/* See cluster_status.h. */
#include "distributed/cluster_status.h"

#include <stdio.h>
#include <string.h>

#include "base/check.h"
#include "ledger/ledger_writer.h"

static void locked_copy(struct cluster_status *cluster_status, void *into, const void *from,
                        size_t bytes)
{
    CHECK(pthread_mutex_lock(&cluster_status->lock) == 0);
    memcpy(into, from, bytes);
    CHECK(pthread_mutex_unlock(&cluster_status->lock) == 0);
}

void cluster_status_init(struct cluster_status *cluster_status)
{
    memset(cluster_status, 0, sizeof(*cluster_status));
    CHECK(pthread_mutex_init(&cluster_status->lock, NULL) == 0);
}

void cluster_status_done(struct cluster_status *cluster_status)
{
    (void)pthread_mutex_destroy(&cluster_status->lock);
}

void cluster_status_read(struct cluster_status *cluster_status,
                         struct cluster_status_sample *ret_sample)
{
    locked_copy(cluster_status, ret_sample, &cluster_status->sample, sizeof(*ret_sample));
}

/* ---- segments ---- */

static void look_at(struct cluster_status *cluster_status, uint32_t s,
                    struct cluster_status_segment *segment)
{
    struct segment_state state;
    struct segment_table_stock *stock = &cluster_status->segment_table->segments[s].stock;
    segments_look(cluster_status->segments, s, &state);
    segment->away = state.outcome == SEGMENT_NOT_ASKED || state.outcome == SEGMENT_NOT_KNOWN;
    uint64_t epoch = segment_table_epoch(cluster_status->segment_table, s);
    if (!segment->away) {
        segment->known = true;
        segment->epoch = state.epoch;
        segment->lost = state.outcome != SEGMENT_DONE || epoch == 0 || epoch != state.epoch;
        segment->closed = !segment->lost && !state.open;
        segment->outbox = state.outbox;
        int64_t lag_ms = state.server_ms - (int64_t)state.oldest_ms;
        segment->lag_ms = state.oldest_ms != 0 && lag_ms > 0 ? (uint64_t)lag_ms : 0;
    }
    segment->has_stock = atomic_load(&stock->known);
    segment->available = atomic_load(&stock->available);
    segment->locked = atomic_load(&stock->locked);
    segment->sold = atomic_load(&stock->sold);
    if (cluster_status->address != NULL) {
        char text[CLUSTER_STATUS_ADDRESS_MAX];
        (void)snprintf(segment->address, sizeof(segment->address), "%s",
                       cluster_status->address(cluster_status->context, s, text));
    }
}

static void look_at_segments(struct cluster_status *cluster_status, int64_t now_ms)
{
    uint32_t count = cluster_status->segment_table->count;
    for (uint32_t s = 0; s < count; s++) {
        /* Only this thread writes, so the stored state is what it saw last. */
        struct cluster_status_segment segment = cluster_status->sample.segments[s];
        look_at(cluster_status, s, &segment);
        locked_copy(cluster_status, &cluster_status->sample.segments[s], &segment, sizeof(segment));
    }
    CHECK(pthread_mutex_lock(&cluster_status->lock) == 0);
    cluster_status->sample.segments_count = count;
    cluster_status->sample.segments_at_ms = now_ms;
    CHECK(pthread_mutex_unlock(&cluster_status->lock) == 0);
}

/* ---- leases ---- */

static void look_at_leases(struct cluster_status *cluster_status, int64_t now_ms)
{
    struct lease_row rows[CLUSTER_STATUS_LEASES_MAX];
    struct ledger_query query = {.kind = QUERY_LEASES,
                                 .segment = SEGMENT_ALL,
                                 .limit = CLUSTER_STATUS_LEASES_MAX,
                                 .leases = rows};
    int error = ledger_read(cluster_status->ledger, &query);
    CHECK(pthread_mutex_lock(&cluster_status->lock) == 0);
    cluster_status->sample.ledger_away = error != 0;
    if (error == 0) {
        memcpy(cluster_status->sample.leases, rows, query.count * sizeof(rows[0]));
        cluster_status->sample.leases_count = query.count;
        cluster_status->sample.leases_at_ms = now_ms;
    }
    CHECK(pthread_mutex_unlock(&cluster_status->lock) == 0);
}

/* ---- the queue ---- */

static void look_at_queue(struct cluster_status *cluster_status, unsigned which, int64_t now_ms)
{
    struct cluster_status_queue seen = cluster_status->sample.queues[which];
    struct queue_depths depths = {0};
    seen.exists = true;
    seen.away = queue_depths(cluster_status->queues[which], &depths) != 0;
    if (!seen.away) {
        seen.depths = depths;
        seen.at_ms = now_ms;
    }
    locked_copy(cluster_status, &cluster_status->sample.queues[which], &seen, sizeof(seen));
}

/* ---- what is missing ---- */

static const struct queue_depths *depths_of(const struct cluster_status_queue *queue)
{
    return queue->exists && !queue->away ? &queue->depths : NULL;
}

static void judge(struct cluster_status *cluster_status, int64_t now_ms)
{
    struct cluster_status_sample *sample = &cluster_status->sample; /* this thread writes it */
    struct cluster_look look = {
        .queue = depths_of(&sample->queues[PARKED_MESSAGES_ORDERS]),
        .payments = depths_of(&sample->queues[PARKED_MESSAGES_PAYMENTS]),
        .leases_known = !sample->ledger_away && sample->leases_at_ms != 0,
        .outbox_known = true,
    };
    for (uint32_t i = 0; i < sample->leases_count; i++) {
        if (strcmp(sample->leases[i].name, KEEPER_LEASE) == 0) {
            look.has_lease = true;
            look.lease_token = sample->leases[i].token;
            look.lease_until_ms = sample->leases[i].until_ms;
        }
    }
    for (uint32_t s = 0; s < sample->segments_count; s++) {
        const struct cluster_status_segment *segment = &sample->segments[s];
        if (!segment->away && segment->known) { /* one that is away is told of elsewhere */
            look.outbox += segment->outbox;
            look.outbox_lag_ms =
                segment->lag_ms > look.outbox_lag_ms ? segment->lag_ms : look.outbox_lag_ms;
        }
    }
    cluster_health_judge(&cluster_status->health, &look, now_ms);
    locked_copy(cluster_status, sample->troubles, cluster_status->health.troubles,
                sizeof(sample->troubles));
    int64_t unrenewed_ms = cluster_health_unrenewed_ms(&cluster_status->health, now_ms);
    locked_copy(cluster_status, &sample->unrenewed_ms, &unrenewed_ms, sizeof(unrenewed_ms));
}

void cluster_status_look(struct cluster_status *cluster_status, int64_t now_ms)
{
    look_at_segments(cluster_status, now_ms);
    look_at_leases(cluster_status, now_ms);
    for (unsigned i = 0; i < PARKED_MESSAGES_QUEUES; i++) {
        if (cluster_status->queues[i] !=
            NULL) { /* asked at least so often, or its connection is lost */
            look_at_queue(cluster_status, i, now_ms);
        }
    }
    judge(cluster_status, now_ms);
}
