/* See promise_resolver.h. */
#include "distributed/promise_resolver.h"

#include <stdlib.h>

#include "base/err.h"
#include "distributed/gate_proxy.h"
#include "obs/log.h"

#define LOOK_EVERY_MS 1000
/* A promise is looked up this long after it was made, and then again at this interval. */
#define PROMISE_EVERY_MS 1000
#define PAGE 256
#define PAGES_A_TURN 16
/* Pages served of one segment's line in an iteration, mostly short ones. Many, so that the line
 * ends although new buyers join it. */
#define LINE_PAGES_A_TURN 256
/* A granted refill request is not granted again for this long: the units are in transit. */
#define REFILL_PAUSE_MS 150
#define GRANTED_MAX 64
/* The segment with the most units draws on others only in every second period of this length.
 * Otherwise two homes that each want what both have together would exchange units for ever. */
#define RICHEST_TURN_MS 500

struct granted {
    struct refill refill;
    int64_t until_ms;
};

struct promise_resolver {
    struct promise_resolver_parts parts;
    struct granted granted[GRANTED_MAX];
    size_t granted_next;
    int64_t look_ms;
    uint64_t open;       /* a bit for each segment that lets fronts in */
    uint64_t serves;     /* for each that was open when last asked anything */
    uint64_t clocks_off; /* for each whose server's clock differs from ours */
    uint64_t away;       /* for each that did not answer its last check */
    uint64_t closed;     /* for each that answered it, but lets nobody in */
    uint64_t looked;     /* for each that was ever checked */
    uint64_t placed;     /* for each that ever had an epoch */
    uint64_t answered;   /* for each that ever answered */
    uint64_t outboxes[SEGMENTS_MAX];
    uint64_t oldest_ms[SEGMENTS_MAX]; /* age of its oldest decision */
    int64_t numbers_ms;               /* the next check while the ledger is away */
    bool ledger_asked;
    bool ledger_away; /* the last read failed */
    _Atomic bool ready;
    struct spool_entry entries[PAGE];
    struct order_id ids[PAGE];
    struct order_row rows[PAGE];
    struct decision decisions[PAGE];
};

static int read_now(struct promise_resolver *promise_resolver, struct ledger_query *query)
{
    int error = ledger_read(promise_resolver->parts.ledger, query);
    promise_resolver->ledger_away = error != 0;
    promise_resolver->ledger_asked = true;
    return error;
}

/* ---- segments ---- */

/* Segments may be on several servers. One server that disagrees is enough. */
static void check_clock(struct promise_resolver *promise_resolver, uint32_t segment,
                        const struct segment_state *state, int64_t before_ms, int64_t after_ms)
{
    struct segment_table *segment_table = promise_resolver->parts.segment_table;
    /* The server read its clock between the two. From the middle it is at most half the round
     * trip. */
    int64_t slack = SEGMENT_CLOCK_OFF_MS + (after_ms - before_ms) / 2;
    int64_t off = state->server_ms - (before_ms + after_ms) / 2;
    uint64_t bit = 1ULL << segment;
    promise_resolver->clocks_off = off > slack || off < -slack
                                       ? promise_resolver->clocks_off | bit
                                       : promise_resolver->clocks_off & ~bit;
    bool is_off = promise_resolver->clocks_off != 0;
    if (is_off != atomic_load(&segment_table->clock_is_off)) {
        atomic_store(&segment_table->clock_is_off, is_off);
        log_event(is_off ? LOG_ERROR : LOG_INFO, is_off ? "clock.off" : "clock.agrees",
                  LOG_U64("segment", segment), LOG_I64("gate_ahead_ms", off),
                  LOG_STR("what", is_off ? "no new orders here until this machine's time is the "
                                           "gate's again: check NTP on both"
                                         : ""));
    }
}

/* Sets the epoch under which this process may call the segment. */
static void place(struct promise_resolver *promise_resolver, uint32_t segment, uint64_t epoch,
                  bool open)
{
    struct segment_table *segment_table = promise_resolver->parts.segment_table;
    uint64_t before = atomic_exchange(&segment_table->epochs[segment], epoch);
    if (before != epoch && epoch == 0) {
        log_event(LOG_WARN, "segment.lost", LOG_U64("segment", segment),
                  LOG_STR("what", "its server is another, was emptied, or was rebuilt elsewhere; a "
                                  "keeper rebuilds it, and its buyers are told to ask again"));
    } else if (before != epoch) {
        log_event(LOG_INFO, "segment.epoch", LOG_U64("segment", segment), LOG_U64("epoch", epoch));
    }
    if (before != epoch &&
        (promise_resolver->placed >> segment & 1) !=
            0) { /* rebuilt without what a front that stood still could not bring back */
        segment_table_away(segment_table, segment,
                           clock_boot_us(promise_resolver->parts.time->clock) / 1000);
    }
    promise_resolver->placed |= (uint64_t)(epoch != 0) << segment;
    if (promise_resolver->parts.gate != NULL) {
        gate_place(promise_resolver->parts.gate, segment, open ? epoch : 0);
    }
    promise_resolver->open = (promise_resolver->open & ~(1ULL << segment)) | (uint64_t)open
                                                                                 << segment;
    if (epoch != 0 && !open) {
        segment_table_doubt(segment_table, segment); /* it opens in a moment: look again soon */
    }
}

/* Notes the state for metrics. A segment that is away keeps its last
 * numbers. Returns whether it is away. */
static bool note(struct promise_resolver *promise_resolver, uint32_t segment,
                 const struct segment_state *state)
{
    uint64_t bit = 1ULL << segment;
    bool away = state->outcome == SEGMENT_NOT_ASKED || state->outcome == SEGMENT_NOT_KNOWN;
    bool closed = !away && (state->outcome != SEGMENT_DONE || !state->open);
    promise_resolver->away = away ? promise_resolver->away | bit : promise_resolver->away & ~bit;
    promise_resolver->closed =
        closed ? promise_resolver->closed | bit : promise_resolver->closed & ~bit;
    promise_resolver->looked |= bit;
    if (!away) {
        promise_resolver->answered |= bit;
        int64_t oldest_ms = state->server_ms - (int64_t)state->oldest_ms;
        promise_resolver->outboxes[segment] = state->outbox;
        promise_resolver->oldest_ms[segment] =
            state->oldest_ms != 0 && oldest_ms > 0 ? (uint64_t)oldest_ms : 0;
    }
    return away;
}

static void look(struct promise_resolver *promise_resolver, uint32_t segment, uint64_t ledger_epoch)
{
    struct segment_state state;
    int64_t before_ms = inside_time_ms(promise_resolver->parts.time);
    segments_look(promise_resolver->parts.segments, segment, &state);
    int64_t after_ms = inside_time_ms(promise_resolver->parts.time);
    promise_resolver->serves &= ~(1ULL << segment);
    if (note(promise_resolver, segment, &state)) {
        segment_table_away(promise_resolver->parts.segment_table, segment,
                           clock_boot_us(promise_resolver->parts.time->clock) / 1000);
        return; /* away: what it was is what it is, as far as anyone can tell */
    }
    check_clock(promise_resolver, segment, &state, before_ms, after_ms);
    bool agree = state.outcome == SEGMENT_DONE && state.epoch == ledger_epoch && ledger_epoch != 0;
    bool open = agree && state.open && !state.broken; /* what it decides may not hold */
    promise_resolver->closed |= (uint64_t)!open << segment;
    place(promise_resolver, segment, agree ? ledger_epoch : 0, open);
    promise_resolver->serves |= (uint64_t)open << segment;
}

/* The ledger is away: epochs and doubts stay as they are. But whether a segment answers again can
 * be seen without the ledger, and its line need not wait for the ledger, too. */
static void look_who_is_back(struct promise_resolver *promise_resolver, uint64_t doubts)
{
    struct segment_table *segment_table = promise_resolver->parts.segment_table;
    for (uint32_t s = 0; s < segment_table->count; s++) {
        struct segment_state state;
        uint64_t epoch = segment_table_epoch(segment_table, s);
        bool waits = (promise_resolver->serves >> s & 1) == 0 &&
                     spool_before(promise_resolver->parts.spool, s) > 0;
        if ((doubts >> s & 1) == 0 || epoch == 0 || !waits) {
            continue;
        }
        segments_look(promise_resolver->parts.segments, s, &state);
        bool back =
            state.outcome == SEGMENT_DONE && state.epoch == epoch && state.open && !state.broken;
        promise_resolver->serves |= (uint64_t)back << s;
    }
}

/* The state of Redis is known without the ledger. */
static void look_for_numbers(struct promise_resolver *promise_resolver, int64_t now_ms)
{
    if (now_ms < promise_resolver->numbers_ms) {
        return;
    }
    for (uint32_t s = 0; s < promise_resolver->parts.segment_table->count; s++) {
        struct segment_state state;
        segments_look(promise_resolver->parts.segments, s, &state);
        (void)note(promise_resolver, s, &state);
    }
    promise_resolver->numbers_ms = now_ms + LOOK_EVERY_MS;
}

static void look_at_segments(struct promise_resolver *promise_resolver, int64_t now_ms)
{
    struct segment_table *segment_table = promise_resolver->parts.segment_table;
    uint64_t doubts = atomic_exchange(&segment_table->doubts, 0);
    if (now_ms >= promise_resolver->look_ms) {
        doubts = UINT64_MAX;
    }
    if (doubts == 0) {
        return;
    }
    struct segment_row rows[SEGMENTS_MAX];
    uint64_t epochs[SEGMENTS_MAX] = {0};
    struct ledger_query query = {
        .kind = QUERY_SEGMENTS, .segment = SEGMENT_ALL, .limit = SEGMENTS_MAX, .segments = rows};
    if (read_now(promise_resolver, &query) != 0) {
        (void)atomic_fetch_or(&segment_table->doubts, doubts);
        look_who_is_back(promise_resolver, doubts);
        look_for_numbers(promise_resolver, now_ms);
        return;
    }
    for (uint32_t i = 0; i < query.count; i++) {
        epochs[rows[i].segment % SEGMENTS_MAX] = rows[i].epoch;
    }
    for (uint32_t s = 0; s < segment_table->count; s++) {
        if ((doubts >> s & 1) != 0) {
            look(promise_resolver, s, epochs[s]);
        }
    }
    promise_resolver->look_ms =
        doubts == UINT64_MAX ? now_ms + LOOK_EVERY_MS : promise_resolver->look_ms;
}

/* ---- promises ---- */

/* Removes promises that have a row; the others stay in `entries`. ERR_IO: nothing is known. */
static int drop_known(struct promise_resolver *promise_resolver, size_t *count)
{
    size_t kept = 0;
    for (size_t i = 0; i < *count; i++) {
        promise_resolver->ids[i] = promise_resolver->entries[i].command.id;
    }
    struct ledger_query query = {.kind = QUERY_KNOWN,
                                 .segment = SEGMENT_ALL,
                                 .ids = promise_resolver->ids,
                                 .limit = (uint32_t)*count,
                                 .orders = promise_resolver->rows};
    if (read_now(promise_resolver, &query) != 0) {
        return ERR_IO;
    }
    for (size_t i = 0; i < *count; i++) {
        if (promise_resolver->rows[i].state != ORDER_QUEUED) {
            spool_resolve(promise_resolver->parts.spool, promise_resolver->ids[i]);
        } else {
            promise_resolver->entries[kept++] = promise_resolver->entries[i];
        }
    }
    *count = kept;
    return 0;
}

/* The segment of a promise. False: its sale is not known here. */
static bool segment_of(struct promise_resolver *promise_resolver,
                       const struct gate_command *command, uint32_t *ret_segment,
                       int64_t *ret_ends_ms)
{
    const struct sale_row *sale = NULL;
    catalog_lock(promise_resolver->parts.catalog);
    bool known = catalog_item(promise_resolver->parts.catalog, command->item, &sale) != NULL &&
                 sale->homes > 0;
    if (known) {
        *ret_segment = gate_proxy_segment(command->id, sale);
        *ret_ends_ms = sale->state == SALE_CLOSED ? INT64_MIN : sale->ends_at_ms;
    }
    catalog_unlock(promise_resolver->parts.catalog);
    return known;
}

/* What to do about a promise that the ledger does not have. */
enum deed { DEED_NOTHING, DEED_AGAIN, DEED_FAIL };

static enum deed deed_of(struct promise_resolver *promise_resolver, const struct spool_entry *entry,
                         int64_t now_ms, struct decision *ret_decision)
{
    struct promise_resolver_parts *parts = &promise_resolver->parts;
    int64_t ends_ms = 0;
    *ret_decision = (struct decision){.command = entry->command};
    bool known = segment_of(promise_resolver, &entry->command, &ret_decision->segment, &ends_ms);
    bool forgotten = !known && ledger_writer_forgot(parts->booking_channel->ledger_writer,
                                                    entry->command.item, entry->command.now_ms);
    if (forgotten) { /* how many homes it had nobody knows any more, nor does it matter */
        struct sale_row sale = {.homes = parts->segment_table->count};
        ret_decision->segment = gate_proxy_segment(entry->command.id, &sale);
    }
    if ((!known && !forgotten) || ret_decision->segment >= parts->segment_table->count) {
        return DEED_NOTHING;
    }
    if (forgotten) {
        ret_decision->reason = REFUSAL_ENDED;
        return DEED_FAIL;
    }
    if (entry->epoch != 0 &&
        runtime_limits_is_stale(parts->runtime_limits, entry->command.now_ms, now_ms)) {
        ret_decision->reason = REFUSAL_OVERLOADED;
        return DEED_FAIL;
    }
    uint64_t epoch = segment_table_epoch(parts->segment_table, ret_decision->segment);
    if (epoch == entry->epoch && epoch != 0) {
        return DEED_NOTHING; /* on its way, as it was promised */
    }
    bool too_old = now_ms - entry->command.now_ms > atomic_load(&parts->runtime_limits->line_ms);
    if (entry->epoch == 0 && (too_old || now_ms >= ends_ms)) {
        ret_decision->reason = now_ms >= ends_ms ? REFUSAL_ENDED : REFUSAL_DEGRADED;
        return DEED_FAIL;
    }
    ret_decision->epoch = epoch;
    return epoch != 0 ? DEED_AGAIN : DEED_NOTHING;
}

static void give_up(struct promise_resolver *promise_resolver, size_t count)
{
    static struct log_limit limit;
    booking_channel_fail(promise_resolver->parts.booking_channel, promise_resolver->decisions,
                         count);
    for (size_t i = 0; i < count; i++) {
        const struct decision *decision = &promise_resolver->decisions[i];
        char id[ORDER_ID_TEXT];
        if (decision->booking != BOOKING_POISON) {
            continue;
        }
        order_id_text(decision->command.id, id);
        log_event_limited(&limit, 10000, LOG_ERROR, "promise_resolver.cannot_fail",
                          LOG_SPAN("order", ((struct span){id, sizeof(id)})),
                          LOG_U64("item", decision->command.item),
                          LOG_STR("what", "the ledger has no such item; the promise is kept"));
    }
}

/* Stores the outcome of those that were decided again or given up. False: the gate could not be
 * asked for all of them. */
static bool decided(struct promise_resolver *promise_resolver, enum deed deed,
                    const uint64_t *epochs, size_t count)
{
    struct spool *spool = promise_resolver->parts.spool;
    bool all = true;
    for (size_t i = 0; i < count; i++) {
        const struct decision *decision = &promise_resolver->decisions[i];
        if (decision->booking == BOOKING_SETTLED && deed == DEED_AGAIN) {
            spool_decided(spool, decision->command.id, epochs[i]);
        } else if (decision->booking == BOOKING_SETTLED || decision->reason != REFUSAL_NONE) {
            /* Refused or given up. If the ledger cannot record that now, the
             * buyers behind it do not wait for it. */
            spool_served(spool, decision->command.id);
        } else {
            all = false;
        }
    }
    return all;
}

/* Decides a page of promises again, or gives them up. in_line selects those that wait
 * in line, or those that do not; expired ones are given up in any case. False: the
 * gate could not be asked for some. */
static bool decide(struct promise_resolver *promise_resolver, enum deed deed, bool in_line,
                   size_t count, int64_t now_ms)
{
    struct promise_resolver_parts *parts = &promise_resolver->parts;
    uint64_t epochs[PAGE];
    size_t found = 0;
    for (size_t i = 0; i < count; i++) {
        struct decision decision;
        bool its_turn = promise_resolver->entries[i].in_line == in_line || deed == DEED_FAIL;
        if (its_turn &&
            deed_of(promise_resolver, &promise_resolver->entries[i], now_ms, &decision) == deed) {
            epochs[found] = decision.epoch;
            promise_resolver->decisions[found++] = decision;
        }
    }
    if (deed == DEED_FAIL) {
        give_up(promise_resolver, found);
    } else {
        booking_channel_again(parts->booking_channel, promise_resolver->decisions, found);
    }
    return decided(promise_resolver, deed, epochs, found);
}

/* ---- the line ---- */

/* After a restart the segment of a buyer in line is unknown until the sales have been read. */
static bool place_in_line(struct promise_resolver *promise_resolver,
                          const struct gate_command *command)
{
    struct promise_resolver_parts *parts = &promise_resolver->parts;
    uint32_t segment = 0;
    int64_t ends_ms = 0;
    bool known = segment_of(promise_resolver, command, &segment, &ends_ms);
    if (known && segment < parts->segment_table->count) {
        spool_place(parts->spool, command->id, segment);
    } else if (known || inside_time_ms(parts->time) - command->now_ms >
                            atomic_load(&parts->runtime_limits->line_ms)) {
        spool_served(parts->spool, command->id); /* there is no gate to ask for it */
    } else {
        return false;
    }
    return true;
}

static void place_line(struct promise_resolver *promise_resolver)
{
    bool placed = true;
    while (placed) {
        size_t count = spool_line(promise_resolver->parts.spool, SPOOL_UNPLACED,
                                  promise_resolver->entries, PAGE);
        placed = false;
        for (size_t i = 0; i < count; i++) {
            placed =
                place_in_line(promise_resolver, &promise_resolver->entries[i].command) || placed;
        }
    }
}

/* Serves the first page of a segment's line. False: it is empty, or the gate cannot be asked
 * now. */
static bool serve_page(struct promise_resolver *promise_resolver, uint32_t segment)
{
    int64_t now_ms = inside_time_ms(promise_resolver->parts.time);
    size_t count =
        spool_line(promise_resolver->parts.spool, segment, promise_resolver->entries, PAGE);
    if (count == 0) {
        return false;
    }
    bool asked = decide(promise_resolver, DEED_AGAIN, true, count, now_ms);
    (void)decide(promise_resolver, DEED_FAIL, true, count, now_ms);
    for (size_t i = 0; i < count; i++) {
        struct decision decision;
        if (deed_of(promise_resolver, &promise_resolver->entries[i], now_ms, &decision) ==
            DEED_NOTHING) {
            spool_served(promise_resolver->parts.spool, decision.command.id); /* its sale is gone */
        }
    }
    if (!asked) {
        promise_resolver->serves &= ~(1ULL << segment);
        segment_table_doubt(promise_resolver->parts.segment_table,
                            segment); /* looked at again before it is asked again */
    }
    return asked;
}

/* Lines are served before new buys, which join a line while it exists,
 * so they are served until empty. */
static void serve_line(struct promise_resolver *promise_resolver)
{
    place_line(promise_resolver);
    for (uint32_t s = 0; s < promise_resolver->parts.segment_table->count; s++) {
        for (int page = 0; page < LINE_PAGES_A_TURN && (promise_resolver->serves >> s & 1) != 0;
             page++) {
            if (!serve_page(promise_resolver, s)) {
                break;
            }
        }
    }
}

/* ---- all promises ---- */

static void keep_promises(struct promise_resolver *promise_resolver, int64_t now_ms)
{
    for (int page = 0; page < PAGES_A_TURN; page++) {
        size_t count = spool_stale(promise_resolver->parts.spool, now_ms - PROMISE_EVERY_MS, now_ms,
                                   promise_resolver->entries, PAGE);
        size_t taken = count;
        if (count == 0 || drop_known(promise_resolver, &count) != 0) {
            break;
        }
        (void)decide(promise_resolver, DEED_AGAIN, false, count, now_ms);
        (void)decide(promise_resolver, DEED_FAIL, false, count, now_ms);
        look_at_segments(promise_resolver,
                         now_ms); /* what raised a doubt meanwhile does not wait for all */
        if (taken < PAGE) {
            break;
        }
    }
    struct spool_numbers numbers;
    spool_count(promise_resolver->parts.spool, &numbers);
    metrics_set(promise_resolver->parts.metrics, METRIC_SPOOL_ENTRIES, numbers.entries);
    metrics_set(promise_resolver->parts.metrics, METRIC_SPOOL_UNDECIDED, numbers.undecided);
}

/* ---- refill requests ---- */

static bool is_granted(const struct promise_resolver *promise_resolver, const struct refill *refill,
                       int64_t now_ms)
{
    for (size_t i = 0; i < GRANTED_MAX; i++) {
        const struct granted *granted = &promise_resolver->granted[i];
        if (granted->until_ms > now_ms && granted->refill.item == refill->item &&
            granted->refill.segment == refill->segment) {
            return true;
        }
    }
    return false;
}

/* Which segment to take units from, and how many: the one with the most units. If
 * that is the home itself and it still has too few, the missing units come from the
 * next one. False: none, or not now. */
static bool find_source(const struct stock_cache_item *item, const struct refill *refill,
                        int64_t now_ms, uint32_t *ret_from, uint64_t *ret_units)
{
    bool is_richest = item->richest == refill->segment;
    bool enough = is_richest && item->most >= refill->units; /* it has come meanwhile */
    uint64_t there = is_richest ? item->next_most : item->most;
    uint64_t lacks = is_richest ? refill->units - item->most : refill->units;
    if (there == 0 || enough || (is_richest && now_ms / RICHEST_TURN_MS % 2 != 0)) {
        return false;
    }
    *ret_from = is_richest ? item->next : item->richest;
    *ret_units = lacks < there ? lacks : there;
    return true;
}

static void grant_refill_requests(struct promise_resolver *promise_resolver, int64_t now_ms)
{
    struct refill refill_requests[REFILL_REQUESTS_MAX];
    size_t count = refill_requests_take(promise_resolver->parts.refill_requests, refill_requests);
    for (size_t i = 0; i < count; i++) {
        struct stock_cache_item item;
        uint32_t from = 0;
        uint64_t units = 0;
        const struct refill *refill = &refill_requests[i];
        if (promise_resolver->parts.refill != NULL &&
            promise_resolver->parts.refill(promise_resolver->parts.context, refill)) {
            continue;
        }
        if (is_granted(promise_resolver, refill, now_ms) ||
            !stock_cache_find(promise_resolver->parts.stock_cache, refill->item, &item) ||
            !find_source(&item, refill, now_ms, &from, &units)) {
            continue;
        }
        booking_channel_transfer(promise_resolver->parts.booking_channel, refill->item, from,
                                 refill->segment, units);
        promise_resolver->granted[promise_resolver->granted_next++ % GRANTED_MAX] =
            (struct granted){*refill, now_ms + REFILL_PAUSE_MS};
    }
}

/* ---- numbers ---- */

static void tell_numbers(struct promise_resolver *promise_resolver)
{
    struct metrics_slot *metrics = promise_resolver->parts.metrics;
    uint32_t count = promise_resolver->parts.segment_table->count;
    uint64_t entries = 0;
    uint64_t oldest_ms = 0;
    if (promise_resolver->ledger_asked) {
        metrics_know(metrics, METRIC_MARIADB_UP, !promise_resolver->ledger_away);
    }
    if (promise_resolver->looked == 0) {
        return;
    }
    for (uint32_t s = 0; s < count; s++) {
        entries += promise_resolver->outboxes[s];
        oldest_ms =
            promise_resolver->oldest_ms[s] > oldest_ms ? promise_resolver->oldest_ms[s] : oldest_ms;
    }
    metrics_know(metrics, METRIC_REDIS_UP, promise_resolver->away == 0);
    metrics_know(metrics, METRIC_SEGMENTS, count);
    metrics_know(metrics, METRIC_SEGMENTS_AWAY,
                 (uint64_t)__builtin_popcountll(promise_resolver->away));
    metrics_know(metrics, METRIC_SEGMENTS_CLOSED,
                 (uint64_t)__builtin_popcountll(promise_resolver->closed));
    if (__builtin_popcountll(promise_resolver->answered) == (int)count) { /* else it is not known */
        metrics_know(metrics, METRIC_OUTBOX_ENTRIES, entries);
        metrics_know(metrics, METRIC_OUTBOX_OLDEST, oldest_ms / 1000);
    }
}

/* ---- an iteration ---- */

void promise_resolver_iterate(struct promise_resolver *promise_resolver)
{
    int64_t now_ms = inside_time_ms(promise_resolver->parts.time);
    look_at_segments(promise_resolver, now_ms);
    serve_line(promise_resolver);
    grant_refill_requests(promise_resolver, now_ms);
    keep_promises(promise_resolver, now_ms);
    tell_numbers(promise_resolver);
    bool ready = true;
    for (uint32_t s = 0; s < promise_resolver->parts.segment_table->count; s++) {
        ready = ready && (promise_resolver->open >> s & 1) != 0;
    }
    if (ready) {
        atomic_store(&promise_resolver->ready, true);
    }
}

uint64_t promise_resolver_away(const struct promise_resolver *promise_resolver)
{
    return promise_resolver->away;
}

bool promise_resolver_ledger_away(const struct promise_resolver *promise_resolver)
{
    return promise_resolver->ledger_away;
}

bool promise_resolver_is_ready(const struct promise_resolver *promise_resolver)
{
    return atomic_load(&promise_resolver->ready);
}

int promise_resolver_new(const struct promise_resolver_parts *parts,
                         struct promise_resolver **ret_promise_resolver)
{
    struct promise_resolver *promise_resolver = calloc(1, sizeof(*promise_resolver));
    if (promise_resolver == NULL) {
        return ERR_NOMEM;
    }
    promise_resolver->parts = *parts;
    /* The past is unknown to a new process: buyers may wait in line for any segment. */
    for (uint32_t s = 0; s < parts->segment_table->count; s++) {
        segment_table_away(parts->segment_table, s, clock_boot_us(parts->time->clock) / 1000);
    }
    *ret_promise_resolver = promise_resolver;
    return 0;
}

void promise_resolver_free(struct promise_resolver *promise_resolver)
{
    free(promise_resolver);
}
