/* See segment_event_sink.h. */
#include "distributed/segment_event_sink.h"

#include <stdlib.h>

#include "base/backoff.h"
#include "base/err.h"
#include "ledger/event_effects.h"
#include "obs/log.h"

/* Events in one pipeline, and rows per read. */
#define PAGE 512
/* How often a ledger writer checks if others have left events behind. */
#define CHECK_EVERY_MS 300
/* Another ledger writer has applied events in between: read the segment's cursor again after
 * this. */
#define GAP_PAUSE_MS 1

struct reach {
    uint64_t at;    /* the segment's own cursor: the last event it applied */
    uint64_t known; /* every event up to here that concerns it is applied */
    bool behind;    /* it lacks events, or may: read its cursor and the ledger */
    bool own;       /* ... events that this ledger writer has committed */
    struct backoff backoff;
};

struct segment_event_sink {
    struct event_sink event_sink;
    struct segments *segments;
    struct segment_table *segment_table;
    struct ledger *ledger;
    struct catalog *catalog;
    struct gate_sizes sizes;
    struct reach reach[SEGMENTS_MAX];
    int64_t check_ms;
    struct segment_call *calls;  /* PAGE */
    struct ledger_event *events; /* PAGE */
};

static void fall_behind(struct segment_event_sink *segment_event_sink, uint32_t segment,
                        int64_t now_ms, bool at_once)
{
    struct reach *reach = &segment_event_sink->reach[segment];
    reach->behind = true;
    if (!at_once) {
        backoff_failed(&reach->backoff, now_ms);
    }
}

/* Logs and skips an event that the segment refuses; otherwise the segment would never move on. It
 * logs nothing for a failed order that the segment never knew (it waited in line while the gate was
 * away, or was forgotten), and for an event that the segment already shows. */
static void skip(struct segment_call *call, const struct ledger_event *event)
{
    if (call->verdict == VERDICT_REFUSED &&
        (event->kind != EVENT_ORDER_FAILED || call->refusal != REFUSAL_NOT_FOUND)) {
        log_event(LOG_ERROR, "gate.event_refused", LOG_U64("event", event->number),
                  LOG_U64("segment", call->segment),
                  LOG_STR("kind", ledger_event_text(event->kind)),
                  LOG_STR("refusal", refusal_text(call->refusal)->code));
    }
    call->command = (struct gate_command){
        .kind = GATE_SKIP, .now_ms = call->command.now_ms, .event = event->number};
}

/* Nothing changed, but perhaps not because the event was applied before. The segment may have been
 * rebuilt from data that already showed it: an order in this state, a sale that is loaded or
 * forgotten. Then its cursor has not moved. */
static bool may_show_it(const struct segment_call *call)
{
    enum gate_kind kind = call->command.kind;
    return call->verdict == VERDICT_ALREADY_APPLIED &&
           (call->has_order || kind == GATE_LOAD_SALE || kind == GATE_LOAD_ITEM ||
            kind == GATE_FORGET);
}

/* Marks the segment as broken where every process that rebuilds will see it. */
static void tell_broken(struct segment_event_sink *segment_event_sink,
                        const struct segment_call *call)
{
    static struct log_limit limit;
    log_event_limited(&limit, 1000, LOG_ERROR, "segment.broken", LOG_U64("segment", call->segment),
                      LOG_U64("epoch", call->epoch),
                      LOG_STR("what", "it contradicts itself or the ledger; it will be rebuilt"));
    segments_tell(segment_event_sink->segments, &(struct segment_news){.kind = NEWS_BROKEN,
                                                                       .segment = call->segment,
                                                                       .epoch = call->epoch});
}

/* Returns how many calls are settled. The first unsettled one is changed so that it can be sent
 * again. *ret_stuck: it cannot. */
static size_t settle(struct segment_event_sink *segment_event_sink, struct segment_call *calls,
                     const struct ledger_event *const *events, size_t count, bool *ret_stuck)
{
    struct reach *reach = &segment_event_sink->reach[calls[0].segment];
    *ret_stuck = false;
    for (size_t i = 0; i < count; i++) {
        struct segment_call *call = &calls[i];
        if (call->outcome == SEGMENT_DONE &&
            (call->verdict == VERDICT_REFUSED || may_show_it(call))) {
            skip(call, events[i]);
            return i;
        }
        if (call->outcome == SEGMENT_DONE && call->verdict == VERDICT_MORE) {
            return i; /* the same again, until it is done */
        }
        if (call->outcome == SEGMENT_STALE || call->outcome == SEGMENT_BROKEN) {
            segment_table_doubt(segment_event_sink->segment_table, call->segment);
            if (call->outcome == SEGMENT_BROKEN) {
                tell_broken(segment_event_sink, call);
            }
        }
        if (call->outcome != SEGMENT_DONE) {
            *ret_stuck = true;
            return i;
        }
        if (events[i]->kind == EVENT_ORDER_FAILED && events[i]->reason == REFUSAL_NO_STOCK &&
            call->verdict == VERDICT_DONE) {
            /* The segment accepted an order for which the ledger has no unit: it is wrong. */
            tell_broken(segment_event_sink, call);
        }
        reach->at = events[i]->number;
    }
    return count;
}

/* Applies events to one segment, in order, after reach->at. False: the segment is left behind. */
static bool bring(struct segment_event_sink *segment_event_sink, uint32_t segment,
                  const struct ledger_event *const *events, size_t count, int64_t now_ms)
{
    struct reach *reach = &segment_event_sink->reach[segment];
    uint64_t epoch = segment_table_epoch(segment_event_sink->segment_table, segment);
    uint64_t after = reach->at;
    for (size_t i = 0; i < count; i++) {
        struct segment_call *call = &segment_event_sink->calls[i];
        *call = (struct segment_call){.segment = segment, .epoch = epoch, .after = after};
        /* Use the ledger's time of the event: this machine's clock may be wrong, and
         * a gate's time never goes back. */
        event_effects_command(events[i], events[i]->at_ms, &call->command);
        after = events[i]->number;
    }
    for (size_t done = 0; done < count;) {
        bool stuck = false;
        segments_apply(segment_event_sink->segments, segment_event_sink->calls + done,
                       count - done);
        size_t settled = settle(segment_event_sink, segment_event_sink->calls + done, events + done,
                                count - done, &stuck);
        done += settled;
        if (stuck) {
            enum segment_outcome why = segment_event_sink->calls[done].outcome;
            fall_behind(segment_event_sink, segment, now_ms, why == SEGMENT_GAP);
            return false;
        }
    }
    return true;
}

/* ---- from the ledger ---- */

/*
 * True if another ledger writer is applying events that this one did not commit: the segment has
 * moved by itself since the last check. It is then left alone as long as it moves. Otherwise, in a
 * storm of events, every ledger writer would apply all of them, and all but one in vain.
 */
static bool is_in_hand(struct segment_event_sink *segment_event_sink, uint32_t segment,
                       uint64_t event)
{
    struct reach *reach = &segment_event_sink->reach[segment];
    bool moved = event > reach->at;
    reach->at = event;
    return moved && !reach->own;
}

/* Applies one page of the events that the segment lacks. True: there may be more, at once. */
static bool catch_up(struct segment_event_sink *segment_event_sink, uint32_t segment,
                     int64_t now_ms)
{
    struct reach *reach = &segment_event_sink->reach[segment];
    struct segment_state state;
    struct ledger_query total = {.kind = QUERY_STATE};
    segments_look(segment_event_sink->segments, segment, &state);
    bool usable = state.outcome == SEGMENT_DONE &&
                  state.epoch == segment_table_epoch(segment_event_sink->segment_table, segment) &&
                  state.epoch != 0;
    if (!usable || ledger_read(segment_event_sink->ledger, &total) != 0) {
        if (state.outcome != SEGMENT_NOT_ASKED) {
            segment_table_doubt(segment_event_sink->segment_table, segment);
        }
        fall_behind(segment_event_sink, segment, now_ms, false);
        return false;
    }
    if (is_in_hand(segment_event_sink, segment, state.event) && state.event < total.last_event) {
        reach->behind = false;
        return false;
    }
    struct ledger_query query = {.kind = QUERY_EVENTS,
                                 .segment = (int32_t)segment,
                                 .after = state.event,
                                 .limit = PAGE,
                                 .events = segment_event_sink->events};
    if (ledger_read(segment_event_sink->ledger, &query) != 0) {
        fall_behind(segment_event_sink, segment, now_ms, false);
        return false;
    }
    const struct ledger_event *events[PAGE];
    for (uint32_t i = 0; i < query.count; i++) {
        events[i] = &segment_event_sink->events[i];
    }
    if (!bring(segment_event_sink, segment, events, query.count, now_ms)) {
        return false;
    }
    backoff_worked(&reach->backoff);
    reach->behind = query.count == PAGE;
    reach->own = reach->own && reach->behind;
    reach->known = reach->behind                  ? reach->at
                   : total.last_event > reach->at ? total.last_event
                                                  : reach->at;
    return reach->behind;
}

/* A ledger writer that died or is slow may have committed events that nobody has applied. */
static void check(struct segment_event_sink *segment_event_sink, int64_t now_ms, bool hurry)
{
    struct ledger_query total = {.kind = QUERY_STATE};
    if (!hurry && now_ms < segment_event_sink->check_ms &&
        segment_event_sink->check_ms - now_ms <= CHECK_EVERY_MS) {
        return;
    }
    segment_event_sink->check_ms = now_ms + CHECK_EVERY_MS;
    if (ledger_read(segment_event_sink->ledger, &total) != 0) {
        return;
    }
    for (uint32_t s = 0; s < segment_event_sink->segment_table->count; s++) {
        struct reach *reach = &segment_event_sink->reach[s];
        if (reach->known >= total.last_event) {
            continue;
        }
        reach->own = hurry || (reach->behind && reach->own); /* somebody here waits for it */
        if (!reach->behind) {
            fall_behind(segment_event_sink, s, now_ms, true);
        }
    }
}

static int64_t turn(struct event_sink *event_sink, int64_t now_ms, bool hurry)
{
    struct segment_event_sink *segment_event_sink = (struct segment_event_sink *)event_sink;
    int64_t soonest_ms = INT64_MAX;
    check(segment_event_sink, now_ms, hurry);
    for (uint32_t s = 0; s < segment_event_sink->segment_table->count; s++) {
        struct reach *reach = &segment_event_sink->reach[s];
        bool more = false;
        if (reach->behind && backoff_is_over(&reach->backoff, now_ms)) {
            more = catch_up(segment_event_sink, s, now_ms);
        }
        if (reach->behind) { /* one that cannot be reached has its growing pause */
            int64_t left_ms = more ? 0 : reach->backoff.next_ms - now_ms;
            left_ms = more || left_ms > 0 ? left_ms : GAP_PAUSE_MS;
            soonest_ms = left_ms < soonest_ms ? left_ms : soonest_ms;
        }
    }
    return soonest_ms;
}

/* ---- own batches ---- */

/* Applies the batch's events that concern a segment, one page at a time. */
static bool bring_own(struct segment_event_sink *segment_event_sink, uint32_t segment,
                      const struct ledger_event *events, size_t count, int64_t now_ms)
{
    const struct ledger_event *own[PAGE];
    size_t n = 0;
    for (size_t i = 0; i < count; i++) {
        if (events[i].segment == SEGMENT_ALL || events[i].segment == (int32_t)segment) {
            own[n++] = &events[i];
        }
        if (n == PAGE || (i + 1 == count && n > 0)) {
            if (!bring(segment_event_sink, segment, own, n, now_ms)) {
                return false;
            }
            n = 0;
        }
    }
    return true;
}

static int apply(struct event_sink *event_sink, const struct ledger_event *events, size_t count,
                 int64_t now_ms)
{
    struct segment_event_sink *segment_event_sink = (struct segment_event_sink *)event_sink;
    for (uint32_t s = 0; count > 0 && s < segment_event_sink->segment_table->count; s++) {
        struct reach *reach = &segment_event_sink->reach[s];
        reach->own = true;
        if (reach->behind) {
            continue; /* its turn brings these, too */
        }
        if (reach->known + 1 != events[0].number) {
            fall_behind(segment_event_sink, s, now_ms,
                        true); /* another ledger writer has written in between */
        } else if (bring_own(segment_event_sink, s, events, count, now_ms)) {
            reach->known = events[count - 1].number;
            reach->own = false;
        }
    }
    (void)turn(event_sink, now_ms, false);
    return 0;
}

static uint64_t applied(struct event_sink *event_sink)
{
    (void)event_sink;
    return 0;
}

static bool is_behind(struct event_sink *event_sink, int32_t segment)
{
    const struct segment_event_sink *segment_event_sink = (struct segment_event_sink *)event_sink;
    /* A segment added since this process started: another process applies its
     * events, and when is not visible here. */
    bool behind =
        segment != SEGMENT_ALL && segment >= (int32_t)segment_event_sink->segment_table->count;
    for (uint32_t s = 0; s < segment_event_sink->segment_table->count; s++) {
        behind = behind || (segment_event_sink->reach[s].behind &&
                            (segment == SEGMENT_ALL || segment == (int32_t)s));
    }
    return behind;
}

/* ---- room ---- */

static void room(struct event_sink *event_sink, uint32_t *ret_sales, uint32_t *ret_items)
{
    const struct segment_event_sink *segment_event_sink = (struct segment_event_sink *)event_sink;
    uint32_t sales = segment_event_sink->sizes.sales;
    uint32_t items = segment_event_sink->sizes.items;
    size_t count = 0;
    catalog_lock(segment_event_sink->catalog);
    struct sale_row *const *rows = catalog_sales(segment_event_sink->catalog, &count);
    for (size_t i = 0; i < count; i++) {
        bool loaded = rows[i]->state != SALE_DRAFT && !rows[i]->forgotten;
        sales -= loaded && sales > 0 ? 1 : 0;
        items -= !loaded ? 0 : rows[i]->items_count < items ? rows[i]->items_count : items;
    }
    catalog_unlock(segment_event_sink->catalog);
    *ret_sales = sales;
    *ret_items = items;
}

/* True if segments were added since this process started: it cannot check them all. */
static bool is_outgrown(struct segment_event_sink *segment_event_sink)
{
    struct segment_row rows[SEGMENTS_MAX];
    struct ledger_query query = {
        .kind = QUERY_SEGMENTS, .segment = SEGMENT_ALL, .segments = rows, .limit = SEGMENTS_MAX};
    bool known = ledger_read(segment_event_sink->ledger, &query) == 0;
    for (uint32_t i = 0; known && i < query.count; i++) {
        known = rows[i].segment < segment_event_sink->segment_table->count;
    }
    return !known;
}

/* True if no decision is in flight from any segment; then a sale that ended long ago has none
 * there, either. The ledger itself refuses to forget a sale with unpaid orders. */
static bool is_idle(struct event_sink *event_sink, uint64_t sale)
{
    struct segment_event_sink *segment_event_sink = (struct segment_event_sink *)event_sink;
    (void)sale;
    if (is_outgrown(segment_event_sink)) {
        return false;
    }
    for (uint32_t s = 0; s < segment_event_sink->segment_table->count; s++) {
        struct segment_state state;
        segments_look(segment_event_sink->segments, s, &state);
        if (state.outcome != SEGMENT_DONE || state.outbox > 0) {
            return false;
        }
    }
    return true;
}

static const struct event_sink_ops ops = {apply, applied, turn, is_behind, room, is_idle};

int segment_event_sink_new(struct segments *segments, struct segment_table *segment_table,
                           struct ledger *ledger, struct catalog *catalog, struct gate_sizes sizes,
                           struct segment_event_sink **ret_segment_event_sink)
{
    struct segment_event_sink *segment_event_sink = calloc(1, sizeof(*segment_event_sink));
    if (segment_event_sink == NULL) {
        return ERR_NOMEM;
    }
    segment_event_sink->event_sink.ops = &ops;
    segment_event_sink->segments = segments;
    segment_event_sink->segment_table = segment_table;
    segment_event_sink->ledger = ledger;
    segment_event_sink->catalog = catalog;
    segment_event_sink->sizes = sizes;
    segment_event_sink->calls = calloc(PAGE, sizeof(*segment_event_sink->calls));
    segment_event_sink->events = calloc(PAGE, sizeof(*segment_event_sink->events));
    if (segment_event_sink->calls == NULL || segment_event_sink->events == NULL) {
        segment_event_sink_free(segment_event_sink);
        return ERR_NOMEM;
    }
    for (uint32_t s = 0; s < segment_table->count; s++) {
        segment_event_sink->reach[s].behind = true; /* nothing is known yet */
    }
    *ret_segment_event_sink = segment_event_sink;
    return 0;
}

void segment_event_sink_free(struct segment_event_sink *segment_event_sink)
{
    if (segment_event_sink == NULL) {
        return;
    }
    free(segment_event_sink->calls);
    free(segment_event_sink->events);
    free(segment_event_sink);
}

struct event_sink *segment_event_sink_event_sink(struct segment_event_sink *segment_event_sink)
{
    return &segment_event_sink->event_sink;
}
