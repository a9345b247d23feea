/* See applier.h. */
#include "flow/applier.h"

#include <stdlib.h>

#include "base/backoff.h"
#include "base/err.h"
#include "flow/apply.h"
#include "obs/log.h"

/* Events in one pipeline, and rows read at once. */
#define PAGE 512
/* How often an office looks whether others have left something behind. */
#define CHECK_EVERY_MS 300
/* Another office has brought something in between: where the segment stands is read again. */
#define GAP_PAUSE_MS 1

struct reach {
    uint64_t at;    /* the segment's own cursor: the event it applied last */
    uint64_t known; /* every event up to here that concerns it is applied */
    bool behind;    /* it lacks something, or may: read its cursor and the ledger */
    bool own;       /* ... of what this office has committed */
    struct backoff backoff;
};

struct applier {
    struct sink sink;
    struct segments *segments;
    struct places *places;
    struct ledger *ledger;
    struct catalog *catalog;
    struct gate_sizes sizes;
    struct reach reach[SEGMENTS_MAX];
    int64_t check_ms;
    struct segment_call *calls;  /* PAGE */
    struct ledger_event *events; /* PAGE */
};

static int read_now(struct applier *applier, struct ledger_query *query)
{
    if (ledger_read(applier->ledger, query) == LEDGER_PENDING) {
        while (applier->ledger->ops->collect_query(applier->ledger) != query) {
        }
    }
    return query->error;
}

static void fall_behind(struct applier *applier, uint32_t segment, int64_t now_ms, bool at_once)
{
    struct reach *reach = &applier->reach[segment];
    reach->behind = true;
    if (!at_once) {
        backoff_failed(&reach->backoff, now_ms);
    }
}

/* What the segment refuses is logged and skipped, or it would never move on. Nothing to log is a
 * failed order that it never knew (it stood in line while the gate was away, or was forgotten), and
 * what it shows already. */
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

/* Nothing changed, and perhaps not because it was applied before: the segment was rebuilt from what
 * showed it already, an order in this state, a sale that is loaded or forgotten. Then its cursor has
 * not moved. */
static bool may_show_it(const struct segment_call *call)
{
    enum gate_kind kind = call->command.kind;
    return call->verdict == VERDICT_SAME && (call->has_order || kind == GATE_LOAD_SALE ||
                                             kind == GATE_LOAD_ITEM || kind == GATE_FORGET);
}

/* Whichever process rebuilds finds it where everybody looks. */
static void tell_broken(struct applier *applier, const struct segment_call *call)
{
    static struct log_limit limit;
    log_event_limited(&limit, 1000, LOG_ERROR, "segment.broken", LOG_U64("segment", call->segment),
                      LOG_U64("epoch", call->epoch),
                      LOG_STR("what", "it contradicts itself or the ledger; it will be rebuilt"));
    segments_tell(applier->segments, &(struct segment_news){.kind = NEWS_BROKEN,
                                                            .segment = call->segment,
                                                            .epoch = call->epoch});
}

/* How many of the calls are settled; the first that is not is changed so that it can go again.
 * *ret_stuck: it cannot. */
static size_t settle(struct applier *applier, struct segment_call *calls,
                     const struct ledger_event *const *events, size_t count, bool *ret_stuck)
{
    struct reach *reach = &applier->reach[calls[0].segment];
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
            places_doubt(applier->places, call->segment);
            if (call->outcome == SEGMENT_BROKEN) {
                tell_broken(applier, call);
            }
        }
        if (call->outcome != SEGMENT_DONE) {
            *ret_stuck = true;
            return i;
        }
        if (events[i]->kind == EVENT_ORDER_FAILED && events[i]->reason == REFUSAL_NO_STOCK &&
            call->verdict == VERDICT_DONE) {
            /* It had accepted what the ledger has no unit for: it is wrong. */
            tell_broken(applier, call);
        }
        reach->at = events[i]->number;
    }
    return count;
}

/* Brings events to one segment, in order, behind reach->at. False: it is left behind. */
static bool bring(struct applier *applier, uint32_t segment,
                  const struct ledger_event *const *events, size_t count, int64_t now_ms)
{
    struct reach *reach = &applier->reach[segment];
    uint64_t epoch = places_epoch(applier->places, segment);
    uint64_t after = reach->at;
    for (size_t i = 0; i < count; i++) {
        struct segment_call *call = &applier->calls[i];
        *call = (struct segment_call){.segment = segment, .epoch = epoch, .after = after};
        /* With the ledger's time of it: this machine's may be wrong, and a gate never goes back. */
        apply_command(events[i], events[i]->at_ms, &call->command);
        after = events[i]->number;
    }
    for (size_t done = 0; done < count;) {
        bool stuck = false;
        segments_apply(applier->segments, applier->calls + done, count - done);
        size_t settled =
            settle(applier, applier->calls + done, events + done, count - done, &stuck);
        done += settled;
        if (stuck) {
            enum segment_outcome why = applier->calls[done].outcome;
            fall_behind(applier, segment, now_ms, why == SEGMENT_GAP);
            return false;
        }
    }
    return true;
}

/* ---- from the ledger ---- */

/*
 * Whether another office is bringing what this one has not committed itself: the segment has moved
 * on by itself since this one looked last. Then it is left alone, for as long as it moves: of a storm
 * of events every office of a large shop would bring all, and all but one of them for nothing.
 */
static bool is_in_hand(struct applier *applier, uint32_t segment, uint64_t event)
{
    struct reach *reach = &applier->reach[segment];
    bool moved = event > reach->at;
    reach->at = event;
    return moved && !reach->own;
}

/* One page of what the segment lacks. True: there may be more, at once. */
static bool catch_up(struct applier *applier, uint32_t segment, int64_t now_ms)
{
    struct reach *reach = &applier->reach[segment];
    struct segment_state state;
    struct ledger_query total = {.kind = QUERY_STATE};
    segments_look(applier->segments, segment, &state);
    bool usable = state.outcome == SEGMENT_DONE &&
                  state.epoch == places_epoch(applier->places, segment) && state.epoch != 0;
    if (!usable || read_now(applier, &total) != 0) {
        if (state.outcome != SEGMENT_NOT_ASKED) {
            places_doubt(applier->places, segment);
        }
        fall_behind(applier, segment, now_ms, false);
        return false;
    }
    if (is_in_hand(applier, segment, state.event) && state.event < total.last_event) {
        reach->behind = false;
        return false;
    }
    struct ledger_query query = {.kind = QUERY_EVENTS,
                                 .segment = (int32_t)segment,
                                 .after = state.event,
                                 .limit = PAGE,
                                 .events = applier->events};
    if (read_now(applier, &query) != 0) {
        fall_behind(applier, segment, now_ms, false);
        return false;
    }
    const struct ledger_event *events[PAGE];
    for (uint32_t i = 0; i < query.count; i++) {
        events[i] = &applier->events[i];
    }
    if (!bring(applier, segment, events, query.count, now_ms)) {
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

/* An office that died, or is slow, may have committed what nobody has applied. */
static void check(struct applier *applier, int64_t now_ms, bool hurry)
{
    struct ledger_query total = {.kind = QUERY_STATE};
    if (!hurry && now_ms < applier->check_ms && applier->check_ms - now_ms <= CHECK_EVERY_MS) {
        return;
    }
    applier->check_ms = now_ms + CHECK_EVERY_MS;
    if (read_now(applier, &total) != 0) {
        return;
    }
    for (uint32_t s = 0; s < applier->places->count; s++) {
        struct reach *reach = &applier->reach[s];
        if (reach->known >= total.last_event) {
            continue;
        }
        reach->own = hurry || (reach->behind && reach->own); /* somebody here waits for it */
        if (!reach->behind) {
            fall_behind(applier, s, now_ms, true);
        }
    }
}

static int64_t turn(struct sink *sink, int64_t now_ms, bool hurry)
{
    struct applier *applier = (struct applier *)sink;
    int64_t soonest_ms = INT64_MAX;
    check(applier, now_ms, hurry);
    for (uint32_t s = 0; s < applier->places->count; s++) {
        struct reach *reach = &applier->reach[s];
        bool more = false;
        if (reach->behind && backoff_is_over(&reach->backoff, now_ms)) {
            more = catch_up(applier, s, now_ms);
        }
        if (reach->behind) { /* one that cannot be reached has its growing pause */
            int64_t left_ms = more ? 0 : reach->backoff.next_ms - now_ms;
            left_ms = more || left_ms > 0 ? left_ms : GAP_PAUSE_MS;
            soonest_ms = left_ms < soonest_ms ? left_ms : soonest_ms;
        }
    }
    return soonest_ms;
}

/* ---- straight on ---- */

/* The events of the batch that concern a segment, in pieces of a page. */
static bool bring_own(struct applier *applier, uint32_t segment, const struct ledger_event *events,
                      size_t count, int64_t now_ms)
{
    const struct ledger_event *own[PAGE];
    size_t n = 0;
    for (size_t i = 0; i < count; i++) {
        if (events[i].segment == SEGMENT_ALL || events[i].segment == (int32_t)segment) {
            own[n++] = &events[i];
        }
        if (n == PAGE || (i + 1 == count && n > 0)) {
            if (!bring(applier, segment, own, n, now_ms)) {
                return false;
            }
            n = 0;
        }
    }
    return true;
}

static int apply(struct sink *sink, const struct ledger_event *events, size_t count, int64_t now_ms)
{
    struct applier *applier = (struct applier *)sink;
    for (uint32_t s = 0; count > 0 && s < applier->places->count; s++) {
        struct reach *reach = &applier->reach[s];
        reach->own = true;
        if (reach->behind) {
            continue; /* its turn brings these, too */
        }
        if (reach->known + 1 != events[0].number) {
            fall_behind(applier, s, now_ms, true); /* another office has written in between */
        } else if (bring_own(applier, s, events, count, now_ms)) {
            reach->known = events[count - 1].number;
            reach->own = false;
        }
    }
    (void)turn(sink, now_ms, false);
    return 0;
}

static uint64_t applied(struct sink *sink)
{
    (void)sink;
    return 0;
}

static bool is_behind(struct sink *sink, int32_t segment)
{
    const struct applier *applier = (struct applier *)sink;
    /* One that was added since this process began: another brings it everything, and when is not seen
     * here. */
    bool behind = segment != SEGMENT_ALL && segment >= (int32_t)applier->places->count;
    for (uint32_t s = 0; s < applier->places->count; s++) {
        behind = behind ||
                 (applier->reach[s].behind && (segment == SEGMENT_ALL || segment == (int32_t)s));
    }
    return behind;
}

/* ---- what there is room for ---- */

static void room(struct sink *sink, uint32_t *ret_sales, uint32_t *ret_items)
{
    const struct applier *applier = (struct applier *)sink;
    uint32_t sales = applier->sizes.sales;
    uint32_t items = applier->sizes.items;
    size_t count = 0;
    catalog_lock(applier->catalog);
    struct sale_row *const *rows = catalog_sales(applier->catalog, &count);
    for (size_t i = 0; i < count; i++) {
        bool loaded = rows[i]->state != SALE_DRAFT && !rows[i]->forgotten;
        sales -= loaded && sales > 0 ? 1 : 0;
        items -= !loaded ? 0 : rows[i]->items_count < items ? rows[i]->items_count : items;
    }
    catalog_unlock(applier->catalog);
    *ret_sales = sales;
    *ret_items = items;
}

/* The gate has been given more segments since this process began: it cannot look at them all. */
static bool is_outgrown(struct applier *applier)
{
    struct segment_row rows[SEGMENTS_MAX];
    struct ledger_query query = {
        .kind = QUERY_SEGMENTS, .segment = SEGMENT_ALL, .segments = rows, .limit = SEGMENTS_MAX};
    bool known = read_now(applier, &query) == 0;
    for (uint32_t i = 0; known && i < query.count; i++) {
        known = rows[i].segment < applier->places->count;
    }
    return !known;
}

/* Nothing of any sale is on its way from the segments: a sale that ended long ago has nothing there
 * either. The ledger itself refuses to forget one with unpaid orders. */
static bool is_idle(struct sink *sink, uint64_t sale)
{
    struct applier *applier = (struct applier *)sink;
    (void)sale;
    if (is_outgrown(applier)) {
        return false;
    }
    for (uint32_t s = 0; s < applier->places->count; s++) {
        struct segment_state state;
        segments_look(applier->segments, s, &state);
        if (state.outcome != SEGMENT_DONE || state.outbox > 0) {
            return false;
        }
    }
    return true;
}

static const struct sink_ops ops = {apply, applied, turn, is_behind, room, is_idle};

int applier_new(struct segments *segments, struct places *places, struct ledger *ledger,
                struct catalog *catalog, struct gate_sizes sizes, struct applier **ret_applier)
{
    struct applier *applier = calloc(1, sizeof(*applier));
    if (applier == NULL) {
        return ERR_NOMEM;
    }
    applier->sink.ops = &ops;
    applier->segments = segments;
    applier->places = places;
    applier->ledger = ledger;
    applier->catalog = catalog;
    applier->sizes = sizes;
    applier->calls = calloc(PAGE, sizeof(*applier->calls));
    applier->events = calloc(PAGE, sizeof(*applier->events));
    if (applier->calls == NULL || applier->events == NULL) {
        applier_free(applier);
        return ERR_NOMEM;
    }
    for (uint32_t s = 0; s < places->count; s++) {
        applier->reach[s].behind = true; /* nothing is known yet */
    }
    *ret_applier = applier;
    return 0;
}

void applier_free(struct applier *applier)
{
    if (applier == NULL) {
        return;
    }
    free(applier->calls);
    free(applier->events);
    free(applier);
}

struct sink *applier_sink(struct applier *applier)
{
    return &applier->sink;
}
