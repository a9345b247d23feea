/* See segment_monitor.h. */
#include "distributed/segment_monitor.h"

#include <stdlib.h>

#include "base/check.h"
#include "base/err.h"
#include "obs/log.h"

#define LOOK_EVERY_MS 1000
/* The segment with the most units draws on others only in every second period of this length.
 * Otherwise two homes that each want what both have together would exchange units for ever. */
#define RICHEST_TURN_MS 500

/* What the monitor knows about a segment. Other threads read its epoch in the segment table. */
struct segment {
    enum segment_status status; /* what the last check found */
    bool open;       /* what the last answered check with the ledger found: fronts ask it */
    bool serves;     /* it was open when last asked anything: its line is served */
    bool clock_off;  /* its server's clock differs from ours */
    bool had_epoch;  /* once */
    bool answered;   /* once: the numbers below are known */
    uint64_t outbox; /* entries, and the age of the oldest */
    uint64_t oldest_ms;
    struct gate_sizes sizes; /* of its pools, and what is used of them */
    struct gate_sizes used;
};

struct segment_monitor {
    struct segment_monitor_parts parts;
    struct segment segments[SEGMENTS_MAX];
    int64_t look_ms;
    int64_t numbers_ms; /* the next check while the ledger is away */
    bool ledger_asked;
    bool ledger_away; /* the last read failed */
    _Atomic bool ready;
};

int segment_monitor_read(struct segment_monitor *monitor, struct ledger_query *query)
{
    int error = ledger_read(monitor->parts.ledger, query);
    monitor->ledger_away = error != 0;
    monitor->ledger_asked = true;
    return error;
}

/* ---- a segment ---- */

static const char *const status_texts[SEGMENT_STATUSES] = {
    [SEGMENT_UNKNOWN] = "unknown", [SEGMENT_OPEN] = "open", [SEGMENT_CLOSED] = "closed",
    [SEGMENT_LOST] = "lost",       [SEGMENT_AWAY] = "away",
};

/* The only place where a segment's status changes. Any check may find anything: the servers are
 * others' machines. But what was checked once is never unknown again. */
static void move(struct segment_monitor *monitor, uint32_t s, enum segment_status to)
{
    struct segment *segment = &monitor->segments[s];
    CHECK(to != SEGMENT_UNKNOWN);
    if (segment->status == to) {
        return;
    }
    log_event(LOG_INFO, "segment.status", LOG_U64("segment", s),
              LOG_STR("from", status_texts[segment->status]), LOG_STR("to", status_texts[to]));
    segment->status = to;
}

/* Other fronts may have buyers in line for it. */
static void unsettle(struct segment_monitor *monitor, uint32_t s)
{
    segment_table_away(monitor->parts.segment_table, s,
                       clock_boot_us(monitor->parts.time->clock) / 1000);
}

/* Segments may be on several servers. One server that disagrees is enough. */
static void check_clock(struct segment_monitor *monitor, uint32_t s,
                        const struct segment_state *state, int64_t before_ms, int64_t after_ms)
{
    struct segment_table *segment_table = monitor->parts.segment_table;
    /* The server read its clock between the two. From the middle it is at most half the round
     * trip. */
    int64_t slack = SEGMENT_CLOCK_OFF_MS + (after_ms - before_ms) / 2;
    int64_t off = state->server_ms - (before_ms + after_ms) / 2;
    bool is_off = false;
    monitor->segments[s].clock_off = off > slack || off < -slack;
    for (uint32_t i = 0; i < segment_table->count; i++) {
        is_off = is_off || monitor->segments[i].clock_off;
    }
    if (is_off != atomic_load(&segment_table->clock_is_off)) {
        atomic_store(&segment_table->clock_is_off, is_off);
        log_event(is_off ? LOG_ERROR : LOG_INFO, is_off ? "clock.off" : "clock.agrees",
                  LOG_U64("segment", s), LOG_I64("gate_ahead_ms", off),
                  LOG_STR("what", is_off ? "no new orders here until this machine's time is the "
                                           "gate's again: check NTP on both"
                                         : ""));
    }
}

/* Sets the epoch under which this process may call the segment. 0: none. */
static void place(struct segment_monitor *monitor, uint32_t s, uint64_t epoch, bool open)
{
    struct segment_table *segment_table = monitor->parts.segment_table;
    struct segment *segment = &monitor->segments[s];
    uint64_t before = atomic_exchange(&segment_table->segments[s].epoch, epoch);
    if (before != epoch && epoch == 0) {
        log_event(LOG_WARN, "segment.lost", LOG_U64("segment", s),
                  LOG_STR("what", "its server is another, was emptied, or was rebuilt elsewhere; a "
                                  "keeper rebuilds it, and its buyers are asked to retry"));
    } else if (before != epoch) {
        log_event(LOG_INFO, "segment.epoch", LOG_U64("segment", s), LOG_U64("epoch", epoch));
    }
    /* Rebuilt without what a front that stood still could not bring back. It brings it back once the
     * segment is open, so the time counts from there. */
    if ((before != epoch || (open && !segment->open)) && segment->had_epoch) {
        unsettle(monitor, s);
    }
    segment->had_epoch = segment->had_epoch || epoch != 0;
    if (monitor->parts.gate != NULL) {
        gate_place(monitor->parts.gate, s, open ? epoch : 0);
    }
    segment->open = open;
    if (epoch != 0 && !open) {
        segment_table_doubt(segment_table, s); /* it opens in a moment: look again soon */
    }
}

static bool is_away(const struct segment_state *state)
{
    return state->outcome == SEGMENT_NOT_ASKED || state->outcome == SEGMENT_NOT_KNOWN;
}

/* Notes the numbers of a segment that answered, for metrics. */
static void note_numbers(struct segment *segment, const struct segment_state *state)
{
    int64_t oldest_ms = state->server_ms - (int64_t)state->oldest_ms;
    segment->answered = true;
    segment->outbox = state->outbox;
    segment->oldest_ms = state->oldest_ms != 0 && oldest_ms > 0 ? (uint64_t)oldest_ms : 0;
    if (state->outcome == SEGMENT_DONE) { /* else it is empty, or about to be rebuilt */
        segment->sizes = state->sizes;
        segment->used = state->used;
    }
}

/* ---- checks ---- */

/* Checks a segment against the ledger's epoch of it. */
static void look(struct segment_monitor *monitor, uint32_t s, uint64_t ledger_epoch)
{
    struct segment_state state;
    struct segment *segment = &monitor->segments[s];
    int64_t before_ms = inside_time_ms(monitor->parts.time);
    segments_look(monitor->parts.segments, s, &state);
    int64_t after_ms = inside_time_ms(monitor->parts.time);
    segment->serves = false;
    if (is_away(&state)) {
        move(monitor, s, SEGMENT_AWAY);
        unsettle(monitor, s);
        return; /* its epoch stays what it was: nobody can tell more */
    }
    note_numbers(segment, &state);
    check_clock(monitor, s, &state, before_ms, after_ms);
    bool agree = state.outcome == SEGMENT_DONE && state.epoch == ledger_epoch && ledger_epoch != 0;
    bool open = agree && state.open && !state.broken; /* what it decides may not hold */
    move(monitor, s, open ? SEGMENT_OPEN : agree ? SEGMENT_CLOSED : SEGMENT_LOST);
    place(monitor, s, agree ? ledger_epoch : 0, open);
    segment->serves = open;
}

/* The ledger is away: epochs and doubts stay as they are. But whether a segment answers again can
 * be seen without the ledger, and its line need not wait for the ledger, too. */
static void look_who_is_back(struct segment_monitor *monitor, uint64_t doubts)
{
    struct segment_table *segment_table = monitor->parts.segment_table;
    for (uint32_t s = 0; s < segment_table->count; s++) {
        struct segment_state state;
        struct segment *segment = &monitor->segments[s];
        uint64_t epoch = segment_table_epoch(segment_table, s);
        bool waits = !segment->serves && spool_before(monitor->parts.spool, s) > 0;
        if ((doubts >> s & 1) == 0 || epoch == 0 || !waits) {
            continue;
        }
        segments_look(monitor->parts.segments, s, &state);
        segment->serves =
            state.outcome == SEGMENT_DONE && state.epoch == epoch && state.open && !state.broken;
    }
}

/* The ledger is away. What can be seen without it: whether a segment answers and lets fronts in. */
static void look_without_ledger(struct segment_monitor *monitor, int64_t now_ms)
{
    if (now_ms < monitor->numbers_ms) {
        return;
    }
    for (uint32_t s = 0; s < monitor->parts.segment_table->count; s++) {
        struct segment_state state;
        segments_look(monitor->parts.segments, s, &state);
        if (is_away(&state)) {
            move(monitor, s, SEGMENT_AWAY);
            continue;
        }
        note_numbers(&monitor->segments[s], &state);
        bool open = state.outcome == SEGMENT_DONE && state.open && !state.broken;
        if (!open) {
            move(monitor, s, SEGMENT_CLOSED);
        } else if (monitor->segments[s].status !=
                   SEGMENT_LOST) { /* only the ledger knows its epoch */
            move(monitor, s, SEGMENT_OPEN);
        }
    }
    monitor->numbers_ms = now_ms + LOOK_EVERY_MS;
}

void segment_monitor_check(struct segment_monitor *monitor, int64_t now_ms)
{
    struct segment_table *segment_table = monitor->parts.segment_table;
    uint64_t doubts = atomic_exchange(&segment_table->doubts, 0);
    if (now_ms >= monitor->look_ms) {
        doubts = UINT64_MAX;
    }
    if (doubts == 0) {
        return;
    }
    struct segment_row rows[SEGMENTS_MAX];
    uint64_t epochs[SEGMENTS_MAX] = {0};
    struct ledger_query query = {
        .kind = QUERY_SEGMENTS, .segment = SEGMENT_ALL, .limit = SEGMENTS_MAX, .segments = rows};
    if (segment_monitor_read(monitor, &query) != 0) {
        (void)atomic_fetch_or(&segment_table->doubts, doubts);
        look_who_is_back(monitor, doubts);
        look_without_ledger(monitor, now_ms);
        return;
    }
    for (uint32_t i = 0; i < query.count; i++) {
        epochs[rows[i].segment % SEGMENTS_MAX] = rows[i].epoch;
    }
    for (uint32_t s = 0; s < segment_table->count; s++) {
        if ((doubts >> s & 1) != 0) {
            look(monitor, s, epochs[s]);
        }
    }
    monitor->look_ms = doubts == UINT64_MAX ? now_ms + LOOK_EVERY_MS : monitor->look_ms;
}

bool segment_monitor_serves(const struct segment_monitor *monitor, uint32_t segment)
{
    return monitor->segments[segment].serves;
}

void segment_monitor_stop_serving(struct segment_monitor *monitor, uint32_t segment)
{
    monitor->segments[segment].serves = false;
    segment_table_doubt(monitor->parts.segment_table, segment);
}

/* ---- refill requests ---- */

struct source {
    uint32_t from;
    uint64_t units;
};

/*
 * Which segments to take units from, and how many of each: the one with the most units, then the
 * next. If the home itself has the most and still too few, the missing units come from the next one.
 * Buyers who wait get all there is; what is forecast takes at most half of the rest, for others may
 * want it. Returns how many sources there are, at most 2.
 */
static size_t find_sources(const struct stock_cache_item *item, const struct refill *refill,
                           int64_t now_ms, struct source ret_sources[2])
{
    bool is_richest = item->richest == refill->segment;
    uint64_t has = is_richest ? item->most : 0;
    uint64_t lacks = refill->waiting > refill->expected + has
                         ? refill->waiting - refill->expected - has
                         : 0; /* else it has come meanwhile, or will */
    struct source from[2] = {{item->richest, item->most}, {item->next, item->next_most}};
    size_t count = 0;
    if (lacks == 0 || (has > 0 && now_ms / RICHEST_TURN_MS % 2 != 0)) {
        return 0;
    }
    uint64_t forecast = refill->forecast;
    for (size_t i = 0; i < 2 && lacks + forecast > 0; i++) {
        uint64_t there = from[i].units;
        if (from[i].from == refill->segment || there == 0) {
            continue;
        }
        uint64_t wanted = lacks < there ? lacks : there;
        uint64_t rest = (there - wanted) / 2;
        uint64_t early = forecast < rest ? forecast : rest;
        ret_sources[count++] = (struct source){from[i].from, wanted + early};
        lacks -= wanted;
        forecast -= early;
    }
    return count;
}

void segment_monitor_grant_refills(struct segment_monitor *monitor, int64_t now_ms)
{
    const struct segment_monitor_parts *parts = &monitor->parts;
    struct refill refills[REFILL_REQUESTS_MAX];
    size_t count = refill_requests_take(parts->refill_requests, now_ms, refills);
    for (size_t i = 0; i < count; i++) {
        struct stock_cache_item item;
        struct source sources[2];
        const struct refill *refill = &refills[i];
        if (parts->refill != NULL && parts->refill(parts->context, refill)) {
            continue;
        }
        if (!stock_cache_find(parts->stock_cache, refill->item, &item)) {
            continue;
        }
        size_t found = find_sources(&item, refill, now_ms, sources);
        for (size_t k = 0; k < found; k++) {
            booking_channel_transfer(parts->booking_channel, refill->item, sources[k].from,
                                     refill->segment, sources[k].units);
            refill_requests_granted(parts->refill_requests, refill, sources[k].units, now_ms);
        }
    }
}

/* ---- reports ---- */

static bool is_fuller(struct metrics_level a, struct metrics_level b)
{
    return a.size != 0 && (b.size == 0 || a.used * b.size > b.used * a.size);
}

static bool is_full(const struct segment *segment)
{
    return segment->sizes.orders != 0 && segment->used.orders >= segment->sizes.orders;
}

/* Each pool as the segment has it where it is fullest: whose buyers are refused first. */
static void tell_pools(struct segment_monitor *monitor)
{
    struct metrics_level fullest[4] = {{0, 0}, {0, 0}, {0, 0}, {0, 0}};
    static const enum metrics_pool pools[4] = {POOL_GATE_ORDERS, POOL_GATE_BUYERS, POOL_GATE_ITEMS,
                                               POOL_GATE_SALES};
    uint32_t full = 0;
    for (uint32_t s = 0; s < monitor->parts.segment_table->count; s++) {
        const struct segment *segment = &monitor->segments[s];
        const struct gate_sizes *sizes = &segment->sizes;
        const struct gate_sizes *used = &segment->used;
        const struct metrics_level levels[4] = {{used->orders, sizes->orders},
                                                {used->buyers, sizes->buyers},
                                                {used->items, sizes->items},
                                                {used->sales, sizes->sales}};
        for (int i = 0; i < 4; i++) {
            fullest[i] = is_fuller(levels[i], fullest[i]) ? levels[i] : fullest[i];
        }
        full += is_full(segment);
    }
    for (int i = 0; i < 4; i++) {
        metrics_pool(monitor->parts.metrics, pools[i], fullest[i].used, fullest[i].size);
    }
    metrics_know(monitor->parts.metrics, METRIC_SEGMENTS_FULL, full);
}

static void tell_numbers(struct segment_monitor *monitor)
{
    struct metrics_slot *metrics = monitor->parts.metrics;
    uint32_t count = monitor->parts.segment_table->count;
    uint32_t of_status[SEGMENT_STATUSES] = {0};
    uint32_t answered = 0;
    uint64_t entries = 0;
    uint64_t oldest_ms = 0;
    if (monitor->ledger_asked) {
        metrics_know(metrics, METRIC_MARIADB_UP, !monitor->ledger_away);
    }
    for (uint32_t s = 0; s < count; s++) {
        const struct segment *segment = &monitor->segments[s];
        of_status[segment->status]++;
        answered += segment->answered;
        entries += segment->outbox;
        oldest_ms = segment->oldest_ms > oldest_ms ? segment->oldest_ms : oldest_ms;
    }
    if (of_status[SEGMENT_UNKNOWN] == count) {
        return;
    }
    metrics_know(metrics, METRIC_REDIS_UP, of_status[SEGMENT_AWAY] == 0);
    metrics_know(metrics, METRIC_SEGMENTS, count);
    metrics_know(metrics, METRIC_SEGMENTS_AWAY, of_status[SEGMENT_AWAY]);
    metrics_know(metrics, METRIC_SEGMENTS_CLOSED,
                 of_status[SEGMENT_CLOSED] + of_status[SEGMENT_LOST]);
    tell_pools(monitor);
    if (answered == count) { /* else it is not known */
        metrics_know(metrics, METRIC_OUTBOX_ENTRIES, entries);
        metrics_know(metrics, METRIC_OUTBOX_OLDEST, oldest_ms / 1000);
    }
}

void segment_monitor_report(struct segment_monitor *monitor)
{
    bool ready = true;
    tell_numbers(monitor);
    for (uint32_t s = 0; s < monitor->parts.segment_table->count; s++) {
        ready = ready && monitor->segments[s].open;
    }
    if (ready) {
        atomic_store(&monitor->ready, true);
    }
}

enum segment_status segment_monitor_status(const struct segment_monitor *monitor, uint32_t segment)
{
    return monitor->segments[segment].status;
}

bool segment_monitor_ledger_away(const struct segment_monitor *monitor)
{
    return monitor->ledger_away;
}

bool segment_monitor_is_ready(const struct segment_monitor *monitor)
{
    return atomic_load(&monitor->ready);
}

/* ---- life ---- */

int segment_monitor_new(const struct segment_monitor_parts *parts,
                        struct segment_monitor **ret_monitor)
{
    struct segment_monitor *monitor = calloc(1, sizeof(*monitor));
    if (monitor == NULL) {
        return ERR_NOMEM;
    }
    monitor->parts = *parts;
    /* The past is unknown to a new process: buyers may wait in line for any segment. */
    for (uint32_t s = 0; s < parts->segment_table->count; s++) {
        unsettle(monitor, s);
    }
    *ret_monitor = monitor;
    return 0;
}

void segment_monitor_free(struct segment_monitor *monitor)
{
    free(monitor);
}
