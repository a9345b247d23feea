/* See promise_resolver.h. */
#include "distributed/promise_resolver.h"

#include <stdlib.h>

#include "base/err.h"
#include "distributed/order_segment.h"
#include "obs/log.h"

/* A promise is looked up this long after it was made, and then again at this interval. */
#define PROMISE_EVERY_MS 1000
#define PAGE 256
#define PAGES_A_TURN 16
/* Pages served of one segment's line in an iteration, mostly short ones. Many, so that the line
 * ends although new buyers join it. */
#define LINE_PAGES_A_TURN 256

struct promise_resolver {
    struct promise_resolver_parts parts;
    struct spool_entry entries[PAGE];
    struct order_id ids[PAGE];
    struct order_row rows[PAGE];
    struct decision decisions[PAGE];
};

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
    if (segment_monitor_read(promise_resolver->parts.segment_monitor, &query) != 0) {
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

/* What to do about a promise that the ledger does not have. */
enum deed { DEED_NOTHING, DEED_AGAIN, DEED_FAIL };

static enum deed deed_of(struct promise_resolver *promise_resolver, const struct spool_entry *entry,
                         int64_t now_ms, struct decision *ret_decision)
{
    struct promise_resolver_parts *parts = &promise_resolver->parts;
    struct order_segment at = {0};
    bool known = order_segment_find(parts->catalog, entry->command.item, entry->command.id, &at);
    *ret_decision = (struct decision){.command = entry->command, .segment = at.segment};
    bool forgotten = !known && ledger_writer_forgot(parts->booking_channel->ledger_writer,
                                                    entry->command.item, entry->command.now_ms);
    if (forgotten) { /* how many homes it had nobody knows any more, nor does it matter */
        ret_decision->segment = order_segment_of(entry->command.id, parts->segment_table->count);
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
    if (entry->epoch == 0 && (too_old || now_ms >= at.ends_at_ms)) {
        ret_decision->reason = now_ms >= at.ends_at_ms ? REFUSAL_ENDED : REFUSAL_DEGRADED;
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
    struct order_segment at;
    bool known = order_segment_find(parts->catalog, command->item, command->id, &at);
    if (known && at.segment < parts->segment_table->count) {
        spool_place(parts->spool, command->id, at.segment);
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
        segment_monitor_stop_serving(promise_resolver->parts.segment_monitor, segment);
    }
    return asked;
}

/* Lines are served before new buys, which join a line while it exists,
 * so they are served until empty. */
static void serve_line(struct promise_resolver *promise_resolver)
{
    const struct segment_monitor *monitor = promise_resolver->parts.segment_monitor;
    place_line(promise_resolver);
    for (uint32_t s = 0; s < promise_resolver->parts.segment_table->count; s++) {
        for (int page = 0; page < LINE_PAGES_A_TURN && segment_monitor_serves(monitor, s); page++) {
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
        size_t count = spool_due(promise_resolver->parts.spool, now_ms - PROMISE_EVERY_MS, now_ms,
                                 promise_resolver->entries, PAGE);
        size_t taken = count;
        if (count == 0 || drop_known(promise_resolver, &count) != 0) {
            break;
        }
        (void)decide(promise_resolver, DEED_AGAIN, false, count, now_ms);
        (void)decide(promise_resolver, DEED_FAIL, false, count, now_ms);
        /* A doubt that came up meanwhile does not wait for all pages. */
        segment_monitor_check(promise_resolver->parts.segment_monitor, now_ms);
        if (taken < PAGE) {
            break;
        }
    }
    struct spool_numbers numbers;
    spool_count(promise_resolver->parts.spool, &numbers);
    metrics_set(promise_resolver->parts.metrics, METRIC_SPOOL_ENTRIES, numbers.entries);
    metrics_set(promise_resolver->parts.metrics, METRIC_SPOOL_UNDECIDED, numbers.undecided);
}

/* ---- an iteration ---- */

void promise_resolver_iterate(struct promise_resolver *promise_resolver)
{
    struct segment_monitor *monitor = promise_resolver->parts.segment_monitor;
    int64_t now_ms = inside_time_ms(promise_resolver->parts.time);
    segment_monitor_check(monitor, now_ms);
    serve_line(promise_resolver);
    segment_monitor_grant_refills(monitor, now_ms);
    keep_promises(promise_resolver, now_ms);
    segment_monitor_report(monitor);
}

int promise_resolver_new(const struct promise_resolver_parts *parts,
                         struct promise_resolver **ret_promise_resolver)
{
    struct promise_resolver *promise_resolver = calloc(1, sizeof(*promise_resolver));
    if (promise_resolver == NULL) {
        return ERR_NOMEM;
    }
    promise_resolver->parts = *parts;
    *ret_promise_resolver = promise_resolver;
    return 0;
}

void promise_resolver_free(struct promise_resolver *promise_resolver)
{
    free(promise_resolver);
}
