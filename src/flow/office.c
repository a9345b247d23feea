/* See office.h. */
#include "flow/office.h"

#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>

#include "base/check.h"
#include "base/err.h"
#include "flow/apply.h"
#include "obs/log.h"

/* Shares of one batch: loops' ops first, they have somebody waiting. */
#define POSTED_MAX 512
#define MOVES_MAX 32
#define DUE_MAX 1024
/* Event rows read at once while catching up. */
#define PAGE 1024
/* A cursor that only moved over records without decisions is written at most this often. */
#define CURSOR_EVERY_US 1000000
#define BACKOFF_FIRST_US 50000
#define BACKOFF_MAX_US 5000000
#define SLEW_EVERY_US 1000000

struct office {
    struct engine *engine;
    struct ledger *ledger;
    struct catalog *catalog;
    struct inside_time *time;
    struct metrics_slot *metrics;
    struct office_options options;
    struct booker booker;
    struct keeper *keeper;
    uint32_t loops;
    struct mailbox inbox;
    struct mailbox *outboxes; /* one per loop */
    /* posted and not yet in a batch, oldest first */
    struct post *waiting;
    /* the batch: pointers to ops, in the order posted, moves, due, bookings */
    struct ledger_op **ops;
    struct ledger_op *own; /* moves, due and bookings live here */
    struct post *posted;   /* those in the batch */
    size_t own_count;
    struct ledger_batch batch;
    bool in_flight;
    bool lost_track; /* a batch failed: read the ledger's events before the next one */
    bool stopped_for_latch;
    int64_t backoff_us;
    int64_t retry_at_us;
    int64_t cursor_at_us;
    int64_t slew_at_us;
    int64_t tick_at_ms;
    _Atomic uint64_t booked_lsn;
    _Atomic uint64_t pending_deadlines;
    _Atomic bool stopping;
};

/* ---- applying what is committed ---- */

/* Applies one event; what the gate refuses is logged and skipped, or nothing would ever move on. */
static int apply_event(struct office *office, const struct ledger_event *event, int64_t now_ms)
{
    struct gate_command command;
    uint64_t lsn = 0;
    enum refusal refusal = REFUSAL_NONE;
    apply_command(event, now_ms, &command);
    int error;
    do {
        error = engine_apply(office->engine, &command, &lsn, &refusal);
    } while (error == ERR_AGAIN);
    if (error == ERR_INVALID) {
        log_event(LOG_ERROR, "gate.event_refused", LOG_U64("event", event->number),
                  LOG_STR("kind", ledger_event_text(event->kind)),
                  LOG_STR("refusal", refusal_text(refusal)->code));
        command =
            (struct gate_command){.kind = GATE_SKIP, .now_ms = now_ms, .event = event->number};
        error = engine_apply(office->engine, &command, &lsn, &refusal);
    }
    if (error == 0 && event->kind == EVENT_ORDER_LOCKED) {
        error = keeper_add(office->keeper, event->sale, event->id, event->a);
    }
    if (error == 0 && event->kind == EVENT_SALE_FORGOTTEN) {
        catalog_remove(office->catalog, event->sale);
    }
    if (error == 0) {
        apply_count(office->metrics, event);
        apply_log(event);
    }
    return error;
}

/* Synchronous read: at start, and after trouble. */
static int read_now(struct office *office, struct ledger_query *query)
{
    if (ledger_read(office->ledger, query) == LEDGER_PENDING) {
        while (office->ledger->ops->collect_query(office->ledger) != query) {
        }
    }
    return query->error;
}

static int reload_sale(struct office *office, uint64_t sale)
{
    struct sale_row *row = NULL;
    struct ledger_query query = {.kind = QUERY_SALES, .sale = sale, .limit = 1, .sales = &row};
    int error = read_now(office, &query);
    if (error != 0 || query.count == 0) {
        return error;
    }
    if (row->forgotten) {
        sale_row_free(row);
        return 0;
    }
    return catalog_put(office->catalog, row);
}

/* Reads the ledger's events from where the gate stands, and applies them. */
static int catch_up(struct office *office, uint64_t *ret_applied)
{
    struct ledger_event *events = malloc(PAGE * sizeof(*events));
    if (events == NULL) {
        return ERR_NOMEM;
    }
    int error = 0;
    *ret_applied = 0;
    for (;;) {
        struct ledger_query query = {.kind = QUERY_EVENTS,
                                     .after = engine_applied_event(office->engine),
                                     .limit = PAGE,
                                     .events = events};
        error = read_now(office, &query);
        for (uint32_t i = 0; error == 0 && i < query.count; i++) {
            if (apply_changes_catalog(events[i].kind)) {
                error = reload_sale(office, events[i].sale);
            }
            if (error == 0) {
                error = apply_event(office, &events[i], inside_time_ms(office->time));
                (*ret_applied)++;
            }
        }
        if (error != 0 || query.count < PAGE) {
            break;
        }
    }
    free(events);
    return error;
}

/* ---- a batch ---- */

static void answer_posted(struct office *office, int error, uint64_t lsn)
{
    struct post *post = office->posted;
    office->posted = NULL;
    bool told[LOOPS_MAX] = {false};
    while (post != NULL) {
        struct post *next = post->next;
        struct office_op *op = (struct office_op *)post;
        op->error = error;
        op->lsn = lsn;
        told[op->loop] = true;
        mailbox_post(&office->outboxes[op->loop], post);
        post = next;
    }
    for (uint32_t i = 0; i < office->loops; i++) {
        if (told[i]) {
            waker_wake(engine_waker(office->engine, i));
        }
    }
}

static void gather_posted(struct office *office, size_t *count)
{
    struct post **last = &office->posted;
    for (size_t i = 0; office->waiting != NULL && i < POSTED_MAX; i++) {
        struct post *post = office->waiting;
        office->waiting = post->next;
        post->next = NULL;
        *last = post;
        last = &post->next;
        office->ops[(*count)++] = &((struct office_op *)post)->op;
    }
}

/* The catalog learns of a sale before the gate can show its items. */
static int catalog_follow(struct office *office)
{
    int error = 0;
    for (size_t i = 0; error == 0 && i < office->batch.count; i++) {
        const struct ledger_op *op = office->ops[i];
        if (op->refusal != REFUSAL_NONE || op->repeated) {
            continue;
        }
        if (op->kind == LEDGER_SALE_DELETE) {
            catalog_remove(office->catalog, op->sale_id);
        } else if (op->sale != NULL && op->kind != LEDGER_SALE_FORGET) {
            error = reload_sale(office, op->sale->id);
        }
    }
    return error;
}

static void free_own(struct office *office)
{
    for (size_t i = 0; i < office->own_count; i++) {
        sale_row_free(office->own[i].sale);
        office->own[i].sale = NULL;
    }
    office->own_count = 0;
}

static void batch_failed(struct office *office, int error)
{
    static struct log_limit limit;
    log_event_limited(&limit, 1000, LOG_ERROR, "ledger.batch_failed", LOG_ERR("error", error),
                      LOG_U64("ops", office->batch.count));
    for (size_t i = office->own_count; i > 0; i--) {
        const struct ledger_op *op = &office->own[i - 1];
        if (op->kind == LEDGER_EXPIRE) {
            keeper_return(office->keeper, op->sale_id, op->id, op->amount_cents);
        }
    }
    office->lost_track = true;
    office->backoff_us = office->backoff_us == 0                   ? BACKOFF_FIRST_US
                         : office->backoff_us * 2 > BACKOFF_MAX_US ? BACKOFF_MAX_US
                                                                   : office->backoff_us * 2;
    office->retry_at_us = inside_time_us(office->time) + office->backoff_us;
    if (booker_rewind(&office->booker) != 0) {
        log_event(LOG_ERROR, "booker.rewind_failed", LOG_U64("lsn", office->booker.booked_lsn));
    }
    answer_posted(office, error, 0);
    free_own(office);
}

static void batch_finished(struct office *office)
{
    struct ledger_batch *batch = &office->batch;
    office->in_flight = false;
    if (batch->error != 0) {
        batch_failed(office, batch->error);
        return;
    }
    office->backoff_us = 0;
    office->retry_at_us = 0;
    int error = catalog_follow(office);
    for (size_t i = 0; error == 0 && i < batch->events_count; i++) {
        error = apply_event(office, &batch->events[i], batch->now_ms);
    }
    if (error != 0) {
        log_event(LOG_ERROR, "gate.cannot_follow", LOG_ERR("error", error));
        office->lost_track = true;
    }
    for (size_t i = 0; i < office->own_count; i++) {
        int64_t since_ms = batch->now_ms - office->own[i].command.now_ms;
        if (office->own[i].kind == LEDGER_BOOK) {
            metrics_observe_us(office->metrics, HIST_BUY_BOOKED,
                               since_ms > 0 ? (uint64_t)since_ms * 1000 : 0);
        }
    }
    booker_commit(&office->booker, batch->booked_lsn);
    atomic_store(&office->booked_lsn, office->booker.booked_lsn);
    atomic_store(&office->pending_deadlines, keeper_pending(office->keeper));
    metrics_add(office->metrics, METRIC_LEDGER_COMMITS_TOTAL, 1);
    metrics_set(office->metrics, METRIC_LEDGER_LAG,
                journal_durable_lsn(engine_journal(office->engine)) - office->booker.booked_lsn);
    /* Everything told about these ops is in the journal by now, whoever's event it was. */
    answer_posted(office, error, journal_last_lsn(engine_journal(office->engine)));
    free_own(office);
}

/* Fills the batch; false when there is nothing worth a transaction. */
static bool gather(struct office *office, int64_t now_ms, bool *ret_more)
{
    size_t count = 0;
    gather_posted(office, &count);
    if (now_ms >= office->tick_at_ms) {
        office->tick_at_ms = now_ms + office->options.tick_ms;
        office->own_count +=
            keeper_moves(office->keeper, office->catalog, now_ms, office->own, MOVES_MAX);
        size_t due = keeper_due(office->keeper, now_ms, office->own + office->own_count, DUE_MAX);
        office->own_count += due;
        if (due == DUE_MAX) {
            office->tick_at_ms = now_ms;
        }
    }
    size_t booked = 0;
    int error = booker_take(&office->booker, office->own + office->own_count,
                            office->options.batch_max, &booked);
    if (error != 0) {
        static struct log_limit limit;
        log_event_limited(&limit, 10000, LOG_ERROR, "booker.cannot_read", LOG_ERR("error", error),
                          LOG_U64("lsn", office->booker.read_lsn));
        /* What was read before the error is read again; the cursor must not pass it. */
        booked = 0;
        (void)booker_rewind(&office->booker);
    }
    office->own_count += booked;
    for (size_t i = 0; i < office->own_count; i++) {
        office->ops[count++] = &office->own[i];
    }
    *ret_more = booked == office->options.batch_max || office->waiting != NULL;
    int64_t now_us = inside_time_us(office->time);
    bool cursor = office->booker.read_lsn > office->booker.booked_lsn &&
                  (now_us >= office->cursor_at_us || atomic_load(&office->stopping));
    if (count == 0 && !cursor) {
        return false;
    }
    office->cursor_at_us = now_us + CURSOR_EVERY_US;
    office->batch = (struct ledger_batch){.ops = office->ops,
                                          .count = count,
                                          .now_ms = now_ms,
                                          .booked_lsn = office->booker.read_lsn};
    return true;
}

/* ---- the turn ---- */

static int64_t sleep_us(struct office *office, int64_t now_ms)
{
    int64_t next_ms = keeper_next_ms(office->keeper, office->catalog);
    int64_t wait_ms = next_ms == INT64_MAX ? 1000 : next_ms - now_ms;
    wait_ms = wait_ms < office->options.tick_ms ? office->options.tick_ms : wait_ms;
    return (wait_ms > 1000 ? 1000 : wait_ms) * 1000;
}

/* Moves newly posted ops behind those that wait. */
static void take_posts(struct office *office)
{
    struct post **last = &office->waiting;
    while (*last != NULL) {
        last = &(*last)->next;
    }
    *last = mailbox_take(&office->inbox);
}

/* Refuses what waits: nothing can be written now. */
static void turn_away(struct office *office, int error)
{
    size_t ignored = 0;
    while (office->waiting != NULL) {
        gather_posted(office, &ignored);
        ignored = 0;
        answer_posted(office, error, 0);
    }
}

/* True when a write may be tried in this turn. */
static bool may_write(struct office *office, int64_t *ret_sleep_us)
{
    if (journal_latched(engine_journal(office->engine))) {
        if (!office->stopped_for_latch) {
            office->stopped_for_latch = true;
            log_event(LOG_ERROR, "office.stopped", LOG_STR("why", "the journal is latched"),
                      LOG_STR("do", "free disk space or replace the disk, then restart"));
        }
        turn_away(office, ERR_LATCHED);
        *ret_sleep_us = SLEW_EVERY_US;
        return false;
    }
    int64_t now_us = inside_time_us(office->time);
    if (office->retry_at_us > now_us) {
        turn_away(office, ERR_IO);
        *ret_sleep_us = office->retry_at_us - now_us;
        return false;
    }
    if (office->lost_track) {
        uint64_t applied = 0;
        int error = catch_up(office, &applied);
        if (error != 0) {
            office->retry_at_us = now_us + BACKOFF_MAX_US / 10;
            *ret_sleep_us = BACKOFF_MAX_US / 10;
            return false;
        }
        office->lost_track = false;
        log_event(LOG_INFO, "office.caught_up", LOG_U64("events", applied));
    }
    return true;
}

static void slew(struct office *office)
{
    int64_t now_us = inside_time_us(office->time);
    int64_t ahead_us = 0;
    if (now_us < office->slew_at_us) {
        return;
    }
    office->slew_at_us = now_us + SLEW_EVERY_US;
    if (inside_time_slew(office->time, &ahead_us)) {
        log_event(LOG_WARN, "clock.jumped", LOG_I64("wall_ahead_us", ahead_us),
                  LOG_STR("what", "not followed; sales keep their own time until a restart"));
    }
}

void office_turn(struct office *office, int64_t *ret_sleep_us)
{
    *ret_sleep_us = 0;
    if (office->in_flight) {
        if (office->ledger->ops->collect_batch(office->ledger) == NULL) {
            *ret_sleep_us = 1000;
            return;
        }
        batch_finished(office);
        return;
    }
    slew(office);
    take_posts(office);
    if (!may_write(office, ret_sleep_us)) {
        return;
    }
    bool more = false;
    int64_t now_ms = inside_time_ms(office->time);
    if (!gather(office, now_ms, &more)) {
        *ret_sleep_us = sleep_us(office, now_ms);
        return;
    }
    office->in_flight = true;
    int64_t from_us = inside_time_us(office->time);
    if (ledger_write(office->ledger, &office->batch) == LEDGER_DONE) {
        int64_t took_us = inside_time_us(office->time) - from_us;
        metrics_observe_us(office->metrics, HIST_LEDGER_COMMIT,
                           took_us > 0 ? (uint64_t)took_us : 0);
        batch_finished(office);
    }
}

void office_run(struct office *office)
{
    while (!atomic_load(&office->stopping)) {
        int64_t sleep = 0;
        office_turn(office, &sleep);
        if (sleep > 0) {
            mailbox_wait(&office->inbox, sleep);
        }
    }
    int64_t sleep = 0;
    for (int i = 0; i < 1000 && sleep == 0; i++) {
        office_turn(office, &sleep);
    }
}

void office_stop(struct office *office)
{
    atomic_store(&office->stopping, true);
    mailbox_ring(&office->inbox);
}

static void durable_moved(void *context)
{
    struct office *office = context;
    mailbox_ring(&office->inbox);
}

void office_post(struct office *office, struct office_op *op)
{
    mailbox_post(&office->inbox, &op->post);
}

struct office_op *office_collect(struct office *office, uint32_t loop)
{
    return (struct office_op *)mailbox_take(&office->outboxes[loop]);
}

uint64_t office_booked_lsn(const struct office *office)
{
    return atomic_load(&office->booked_lsn);
}

uint64_t office_pending_deadlines(const struct office *office)
{
    return atomic_load(&office->pending_deadlines);
}

/* ---- start ---- */

static int load_sales(struct office *office, size_t *ret_count)
{
    struct sale_row *rows[64];
    struct ledger_query query = {.kind = QUERY_SALES, .limit = 64, .sales = rows};
    size_t count = 0;
    do {
        query.count = 0;
        int error = read_now(office, &query);
        for (uint32_t i = 0; i < query.count; i++) {
            query.after = rows[i]->id;
            if (error != 0 || rows[i]->forgotten) {
                sale_row_free(rows[i]);
                continue;
            }
            error = catalog_put(office->catalog, rows[i]);
            count++;
        }
        if (error != 0) {
            return error;
        }
    } while (query.count == query.limit);
    *ret_count = count;
    return 0;
}

static int load_deadlines(struct office *office)
{
    struct order_row *rows = malloc(PAGE * sizeof(*rows));
    if (rows == NULL) {
        return ERR_NOMEM;
    }
    struct ledger_query query = {.kind = QUERY_LOCKED, .limit = PAGE, .orders = rows};
    int error;
    do {
        query.count = 0;
        error = read_now(office, &query);
        for (uint32_t i = 0; error == 0 && i < query.count; i++) {
            error = keeper_add(office->keeper, rows[i].sale, rows[i].id, rows[i].pay_by_ms);
            query.after_item = rows[i].item;
            query.after_id = rows[i].id;
        }
    } while (error == 0 && query.count == query.limit);
    free(rows);
    return error;
}

int office_start(struct office *office)
{
    struct journal *journal = engine_journal(office->engine);
    struct ledger_query state = {.kind = QUERY_STATE};
    int error = read_now(office, &state);
    if (error != 0) {
        return error;
    }
    if (state.booked_lsn > journal_last_lsn(journal) ||
        engine_applied_event(office->engine) > state.last_event) {
        log_event(LOG_ERROR, "start.cursors_disagree",
                  LOG_U64("ledger_booked_lsn", state.booked_lsn),
                  LOG_U64("journal_last_lsn", journal_last_lsn(journal)),
                  LOG_U64("gate_applied_event", engine_applied_event(office->engine)),
                  LOG_U64("ledger_last_event", state.last_event),
                  LOG_STR("do", "journal and ledger are not of one piece: restore both together"));
        return ERR_AHEAD;
    }
    size_t sales = 0;
    uint64_t applied = 0;
    error = load_sales(office, &sales);
    if (error == 0) {
        error = catch_up(office, &applied);
    }
    if (error == 0) {
        /* Deadlines come from the ledger's rows, not from the events just applied. */
        keeper_free(office->keeper);
        office->keeper = keeper_new(office->options.board_keep_ms);
        error = office->keeper == NULL ? ERR_NOMEM : load_deadlines(office);
    }
    if (error == 0) {
        error = booker_init(&office->booker, journal, state.booked_lsn);
    }
    if (error != 0) {
        return error;
    }
    atomic_store(&office->booked_lsn, state.booked_lsn);
    atomic_store(&office->pending_deadlines, keeper_pending(office->keeper));
    log_event(LOG_INFO, "office.ready", LOG_U64("sales", sales), LOG_U64("events_applied", applied),
              LOG_U64("unpaid_orders", keeper_pending(office->keeper)),
              LOG_U64("to_book", journal_last_lsn(journal) - state.booked_lsn));
    return 0;
}

/* ---- life ---- */

int office_new(struct engine *engine, struct ledger *ledger, struct catalog *catalog,
               struct inside_time *time, struct metrics_slot *metrics, uint32_t loops,
               struct office_options options, struct office **ret_office)
{
    struct office *office = calloc(1, sizeof(*office));
    if (office == NULL) {
        return ERR_NOMEM;
    }
    size_t own = MOVES_MAX + DUE_MAX + (size_t)options.batch_max;
    office->engine = engine;
    office->ledger = ledger;
    office->catalog = catalog;
    office->time = time;
    office->metrics = metrics;
    office->loops = loops;
    office->options = options;
    office->keeper = keeper_new(options.board_keep_ms);
    office->own = calloc(own, sizeof(*office->own));
    office->ops = calloc(own + POSTED_MAX, sizeof(struct ledger_op *));
    office->outboxes = calloc(loops, sizeof(*office->outboxes));
    mailbox_init(&office->inbox);
    for (uint32_t i = 0; office->outboxes != NULL && i < loops; i++) {
        mailbox_init(&office->outboxes[i]);
    }
    if (office->keeper == NULL || office->own == NULL || office->ops == NULL ||
        office->outboxes == NULL) {
        office_free(office);
        return ERR_NOMEM;
    }
    engine_on_durable(engine, durable_moved, office); /* before the journal thread can call it */
    *ret_office = office;
    return 0;
}

void office_free(struct office *office)
{
    if (office == NULL) {
        return;
    }
    if (office->booker.reader != NULL) {
        booker_done(&office->booker);
    }
    for (uint32_t i = 0; office->outboxes != NULL && i < office->loops; i++) {
        mailbox_done(&office->outboxes[i]);
    }
    mailbox_done(&office->inbox);
    keeper_free(office->keeper);
    free(office->outboxes);
    free(office->ops);
    free(office->own);
    free(office);
}
