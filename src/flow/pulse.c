/* See pulse.h. */
#include "flow/pulse.h"

#include <stdio.h>
#include <string.h>

#include "base/check.h"

static void locked_copy(struct pulse *pulse, void *into, const void *from, size_t bytes)
{
    CHECK(pthread_mutex_lock(&pulse->lock) == 0);
    memcpy(into, from, bytes);
    CHECK(pthread_mutex_unlock(&pulse->lock) == 0);
}

void pulse_init(struct pulse *pulse)
{
    memset(pulse, 0, sizeof(*pulse));
    CHECK(pthread_mutex_init(&pulse->lock, NULL) == 0);
}

void pulse_done(struct pulse *pulse)
{
    (void)pthread_mutex_destroy(&pulse->lock);
}

void pulse_read(struct pulse *pulse, struct pulse_sample *ret_sample)
{
    locked_copy(pulse, ret_sample, &pulse->sample, sizeof(*ret_sample));
}

/* ---- segments ---- */

static void look_at(struct pulse *pulse, uint32_t s, struct pulse_segment *segment)
{
    struct segment_state state;
    struct places_stock *stock = &pulse->places->stock[s];
    segments_look(pulse->segments, s, &state);
    segment->away = state.outcome == SEGMENT_NOT_ASKED || state.outcome == SEGMENT_NOT_KNOWN;
    uint64_t epoch = places_epoch(pulse->places, s);
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
    if (pulse->address != NULL) {
        char text[PULSE_ADDRESS_MAX];
        (void)snprintf(segment->address, sizeof(segment->address), "%s",
                       pulse->address(pulse->context, s, text));
    }
}

static void look_at_segments(struct pulse *pulse, int64_t now_ms)
{
    uint32_t count = pulse->places->count;
    for (uint32_t s = 0; s < count; s++) {
        /* Nobody else writes: what is there is what was seen last. */
        struct pulse_segment segment = pulse->sample.segments[s];
        look_at(pulse, s, &segment);
        locked_copy(pulse, &pulse->sample.segments[s], &segment, sizeof(segment));
    }
    CHECK(pthread_mutex_lock(&pulse->lock) == 0);
    pulse->sample.segments_count = count;
    pulse->sample.segments_at_ms = now_ms;
    CHECK(pthread_mutex_unlock(&pulse->lock) == 0);
}

/* ---- leases ---- */

static void look_at_leases(struct pulse *pulse, int64_t now_ms)
{
    struct lease_row rows[PULSE_LEASES_MAX];
    struct ledger_query query = {
        .kind = QUERY_LEASES, .segment = SEGMENT_ALL, .limit = PULSE_LEASES_MAX, .leases = rows};
    if (ledger_read(pulse->ledger, &query) == LEDGER_PENDING) {
        while (pulse->ledger->ops->collect_query(pulse->ledger) != &query) {
        }
    }
    CHECK(pthread_mutex_lock(&pulse->lock) == 0);
    pulse->sample.ledger_away = query.error != 0;
    if (query.error == 0) {
        memcpy(pulse->sample.leases, rows, query.count * sizeof(rows[0]));
        pulse->sample.leases_count = query.count;
        pulse->sample.leases_at_ms = now_ms;
    }
    CHECK(pthread_mutex_unlock(&pulse->lock) == 0);
}

/* ---- the queue ---- */

static void look_at_queue(struct pulse *pulse, unsigned which, int64_t now_ms)
{
    struct pulse_queue seen = pulse->sample.queues[which];
    struct queue_depths depths = {0};
    seen.exists = true;
    seen.away = queue_depths(pulse->queues[which], &depths) != 0;
    if (!seen.away) {
        seen.depths = depths;
        seen.at_ms = now_ms;
    }
    locked_copy(pulse, &pulse->sample.queues[which], &seen, sizeof(seen));
}

void pulse_look(struct pulse *pulse, int64_t now_ms)
{
    look_at_segments(pulse, now_ms);
    look_at_leases(pulse, now_ms);
    for (unsigned i = 0; i < PARKING_QUEUES; i++) {
        if (pulse->queues[i] != NULL) { /* asked at least so often, or its connection is lost */
            look_at_queue(pulse, i, now_ms);
        }
    }
}
