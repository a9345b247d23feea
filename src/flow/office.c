/* See office.h. */
#include "flow/office_private.h"

#include <stdlib.h>
#include <string.h>

#include "base/check.h"
#include "base/err.h"
#include "flow/apply.h"
#include "obs/log.h"

/* Shares of one batch: loops' ops first, they have somebody waiting. As many as a booker brings at
 * once (BOOKINGS_MAX): what it brings is one transaction. */
#define POSTED_MAX 2048
#define MOVES_MAX 32
#define DUE_MAX 1024
/* A cursor that only moved over records without decisions is written at most this often. */
#define CURSOR_EVERY_US 1000000
#define BACKOFF_FIRST_US 50000
#define BACKOFF_MAX_US 5000000
#define SLEW_EVERY_US 1000000
#define HELD_LOOK_US 50000
/* An order that is not due yet by the database's clock is tried again after this. */
#define KEPT_MS 50

/* What the gate can still take. */
struct room {
    uint32_t sales;
    uint32_t items;
};

/* ---- applying what is committed ---- */

static int apply_event(struct office *office, const struct ledger_event *event, int64_t now_ms)
{
    int error = office->sink->ops->apply(office->sink, event, 1, now_ms);
    if (error == 0) {
        office_keep_event(office, event);
        apply_count(office->metrics, event);
        apply_log(event);
    }
    return error;
}

/* The same for a batch whose events go to other machines: together. What the keeper has to know he
 * reads from the ledger, with what other offices have booked. */
static int apply_shared(struct office *office, const struct ledger_batch *batch)
{
    for (size_t i = 0; i < batch->events_count; i++) { /* before anyone can hear of them */
        apply_count(office->metrics, &batch->events[i]);
        apply_log(&batch->events[i]);
    }
    return office->sink->ops->apply(office->sink, batch->events, batch->events_count,
                                    batch->now_ms);
}

/* Reads the ledger's events from where the gate stands, and applies them. */
static int catch_up(struct office *office, uint64_t *ret_applied)
{
    struct ledger_event *events = malloc(OFFICE_PAGE * sizeof(*events));
    if (events == NULL) {
        return ERR_NOMEM;
    }
    int error = 0;
    *ret_applied = 0;
    for (;;) {
        struct ledger_query query = {.kind = QUERY_EVENTS,
                                     .after = office->sink->ops->applied(office->sink),
                                     .limit = OFFICE_PAGE,
                                     .events = events};
        error = office_read_now(office, &query);
        for (uint32_t i = 0; error == 0 && i < query.count; i++) {
            if (apply_changes_catalog(events[i].kind)) {
                error = office_reload_sale(office, events[i].sale);
            }
            if (error == 0) {
                error = apply_event(office, &events[i], inside_time_ms(office->time));
                (*ret_applied)++;
            }
        }
        if (error != 0 || query.count < OFFICE_PAGE) {
            break;
        }
    }
    free(events);
    return error;
}

/* ---- a batch ---- */

/* Whether the gate has room for what a move would load; what is full is refused, before the ledger
 * says yes. room shrinks with every move of the batch that loads. */
static bool has_room(struct office *office, const struct ledger_op *op, struct room *room)
{
    bool loads =
        op->kind == LEDGER_SALE_MOVE && (op->target == SALE_WARM || op->target == SALE_OPEN);
    if (!loads) {
        return true;
    }
    catalog_lock(office->catalog);
    const struct sale_row *sale = catalog_sale(office->catalog, op->sale_id);
    uint32_t items = sale != NULL && sale->state == SALE_DRAFT ? sale->items_count : 0;
    catalog_unlock(office->catalog);
    if (items == 0) {
        return true;
    }
    if (room->sales == 0 || room->items < items) {
        return false;
    }
    room->sales--;
    room->items -= items;
    return true;
}

/* One posted op answered without the ledger. */
static void turn_down(struct office *office, struct post *post, enum refusal refusal)
{
    struct office_op *op = (struct office_op *)post;
    op->op.refusal = refusal;
    op->error = 0;
    op->lsn = 0;
    mailbox_post(&office->outboxes[op->loop], post);
    if (op->loop < office->loops) {
        waker_wake(engine_waker(office->engine, op->loop));
    }
}

static void gather_posted(struct office *office, size_t *count)
{
    struct post **last = &office->posted;
    struct room room;
    bool changed = false;
    office->sink->ops->room(office->sink, &room.sales, &room.items);
    for (size_t i = 0; office->waiting != NULL && i < POSTED_MAX; i++) {
        struct post *post = office->waiting;
        struct ledger_op *op = &((struct office_op *)post)->op;
        if (changed && op->kind == LEDGER_SALE_MOVE) {
            break; /* how much it loads is known once the change before it is committed */
        }
        changed = changed || op->kind == LEDGER_SALE_CREATE || op->kind == LEDGER_SALE_CHANGE;
        office->waiting = post->next;
        post->next = NULL;
        if (!has_room(office, op, &room)) {
            turn_down(office, post, REFUSAL_OVERLOADED);
            continue;
        }
        *last = post;
        last = &post->next;
        office->ops[(*count)++] = op;
    }
}

/* An operator's call in this batch is about this sale. */
static bool is_in_hand(const struct office *office, size_t posted, uint64_t sale)
{
    for (size_t i = 0; i < posted; i++) {
        if (office->ops[i]->sale_id == sale) {
            return true;
        }
    }
    return false;
}

/* What the keeper wants moved. Not a sale that an operator is just changing, for the keeper knows
 * it as it was before: an end that is being moved has not come. And a sale is forgotten only when
 * nothing of it is on its way. */
static size_t gather_moves(struct office *office, size_t posted, int64_t now_ms)
{
    size_t kept = 0;
    size_t count = keeper_moves(office->keeper, office->catalog, now_ms, office->own, MOVES_MAX);
    for (size_t i = 0; i < count; i++) {
        const struct ledger_op *op = &office->own[i];
        if (!is_in_hand(office, posted, op->sale_id) &&
            (op->kind != LEDGER_SALE_FORGET ||
             office->sink->ops->is_idle(office->sink, op->sale_id))) {
            office->own[kept++] = *op;
        }
    }
    return kept;
}

/* The catalog learns of a sale before the gate can show its items. */
static int catalog_follow(struct office *office)
{
    int error = 0;
    for (size_t i = 0; i < office->batch.count; i++) {
        const struct ledger_op *op = office->ops[i];
        if (op->refusal != REFUSAL_NONE || op->repeated) {
            continue;
        }
        if (op->kind == LEDGER_SALE_DELETE) {
            catalog_remove(office->catalog, op->sale_id);
        } else if (op->sale != NULL && op->kind != LEDGER_SALE_FORGET) {
            int failed = office_reload_sale(office, op->sale->id);
            error = failed != 0 ? failed : error;
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
    const struct office_options *options = &office->options;
    log_event_limited(
        &limit, 1000, LOG_ERROR, "ledger.batch_failed", LOG_ERR("error", error),
        LOG_U64("ops", office->batch.count),
        LOG_STR("server", options->server != NULL ? options->server : ""),
        LOG_STR("words", options->words ? options->words(options->words_context) : ""));
    for (size_t i = office->own_count; i > 0; i--) {
        const struct ledger_op *op = &office->own[i - 1];
        if (op->kind == LEDGER_EXPIRE) {
            keeper_return(office->keeper, op->sale_id, op->id, op->pay_by_ms);
        }
    }
    office->lost_track = true;
    office->backoff_us = office->backoff_us == 0                   ? BACKOFF_FIRST_US
                         : office->backoff_us * 2 > BACKOFF_MAX_US ? BACKOFF_MAX_US
                                                                   : office->backoff_us * 2;
    office->retry_at_us = inside_time_us(office->time) + office->backoff_us;
    office->must_rewind = true;
    office_answer_posted(office, error, 0);
    free_own(office);
}

static void note_bookings(struct office *office)
{
    for (size_t i = 0; i < office->own_count; i++) {
        const struct ledger_op *op = &office->own[i];
        if (op->kind != LEDGER_BOOK) {
            continue;
        }
        int64_t since_ms = office->batch.now_ms - op->command.now_ms;
        metrics_observe_us(office->metrics, HIST_BUY_BOOKED,
                           since_ms > 0 ? (uint64_t)since_ms * 1000 : 0);
        if (op->refusal != REFUSAL_NONE) {
            /* Not even a FAILED row: gate and ledger are not of one piece. */
            log_event(LOG_ERROR, "booker.refused", LOG_U64("lsn", op->lsn),
                      LOG_U64("item", op->command.item),
                      LOG_STR("refusal", refusal_text(op->refusal)->code));
        }
    }
}

/* Somebody else holds the keeper's lease by now: nothing was changed, and nothing more is kept here
 * until this process holds it again. That is no trouble with the ledger. */
static void lease_lost(struct office *office)
{
    uint64_t token = office->kept_token;
    log_event(LOG_WARN, "keeper.lease_lost", LOG_U64("token", token));
    (void)atomic_compare_exchange_strong(&office->keeper_token, &token, 0);
    office->kept_token = 0;
    free_own(office);
}

/* Deadlines are compared with the database's clock: what has not come by that is kept. */
static void keep_again(struct office *office)
{
    for (size_t i = office->own_count; i > 0; i--) {
        const struct ledger_op *op = &office->own[i - 1];
        if (op->kind == LEDGER_EXPIRE && op->refusal == REFUSAL_BAD_STATE &&
            op->order.state == ORDER_LOCKED) {
            keeper_return(office->keeper, op->sale_id, op->id, op->pay_by_ms);
            office->tick_at_ms = office->batch.now_ms + KEPT_MS;
        }
    }
}

static void batch_finished(struct office *office)
{
    struct ledger_batch *batch = &office->batch;
    office->in_flight = false;
    if (batch->error == ERR_BUSY && office->options.shared && office->kept_last) {
        lease_lost(office);
        return;
    }
    if (batch->error != 0) {
        batch_failed(office, batch->error);
        return;
    }
    office->backoff_us = 0;
    office->retry_at_us = 0;
    int error = catalog_follow(office);
    if (office->options.shared) {
        /* Whether or not the sales could be read again: who waits for these events must know that the
         * segments lack them. */
        int applied = apply_shared(office, batch);
        error = error != 0 ? error : applied;
        keep_again(office);
    } else {
        for (size_t i = 0; error == 0 && i < batch->events_count; i++) {
            error = apply_event(office, &batch->events[i], batch->now_ms);
        }
    }
    if (error != 0) {
        log_event(LOG_ERROR, "gate.cannot_follow", LOG_ERR("error", error));
        office->lost_track = true;
    }
    note_bookings(office);
    if (!office->options.shared) {
        booker_commit(&office->booker, batch->booked_lsn);
    }
    atomic_store(&office->booked_lsn, office->booker.booked_lsn);
    atomic_store(&office->pending_deadlines, keeper_pending(office->keeper));
    metrics_add(office->metrics, METRIC_LEDGER_COMMITS_TOTAL, 1);
    if (office->options.shared) {
        office_answer_followed(office);
    } else {
        metrics_set(office->metrics, METRIC_LEDGER_LAG,
                    journal_durable_lsn(engine_journal(office->engine)) -
                        office->booker.booked_lsn);
        /* Everything told about these ops is in the journal by now, whoever's event it was. */
        office_answer_posted(office, error, journal_last_lsn(engine_journal(office->engine)));
    }
    free_own(office);
}

/* What time brings, on every tick. */
static void gather_due(struct office *office, size_t posted, int64_t now_ms)
{
    if (now_ms < office->tick_at_ms) {
        return;
    }
    office->tick_at_ms = now_ms + office->options.tick_ms;
    office->own_count = gather_moves(office, posted, now_ms);
    size_t due = keeper_due(office->keeper, now_ms, office->own + office->own_count, DUE_MAX);
    office->own_count += due;
    if (due == DUE_MAX) {
        office->tick_at_ms = now_ms;
    }
}

/* One of several offices: what was posted, or, in a batch of its own under the lease, what time
 * brings; in turn where there is both. */
static bool gather_shared(struct office *office, int64_t now_ms)
{
    size_t count = 0;
    bool keeps = office->kept_token != 0 && !office->kept_last;
    if (keeps) {
        gather_due(office, 0, now_ms);
        for (size_t i = 0; i < office->own_count; i++) {
            office->ops[count++] = &office->own[i];
        }
    }
    office->kept_last = count > 0;
    if (count == 0) {
        gather_posted(office, &count);
    }
    office->batch = (struct ledger_batch){.ops = office->ops,
                                          .count = count,
                                          .now_ms = now_ms,
                                          .lease = office->kept_last ? OFFICE_LEASE : NULL,
                                          .token = office->kept_token};
    return count > 0;
}

/* Fills the batch; false when there is nothing worth a transaction. */
static bool gather(struct office *office, int64_t now_ms)
{
    if (office->options.shared) {
        return gather_shared(office, now_ms);
    }
    size_t count = 0;
    gather_posted(office, &count);
    gather_due(office, count, now_ms);
    size_t booked = 0;
    uint64_t read_before = office->booker.read_lsn;
    int error = booker_take(&office->booker, office->own + office->own_count,
                            office->options.batch_max, &booked);
    if (error != 0) {
        static struct log_limit limit;
        log_event_limited(&limit, 10000, LOG_ERROR, "booker.cannot_read", LOG_ERR("error", error),
                          LOG_U64("lsn", office->booker.read_lsn));
        /* What was read before the error is read again; the cursor must not pass it. */
        booked = 0;
        office->must_rewind = true;
    }
    office->own_count += booked;
    for (size_t i = 0; i < office->own_count; i++) {
        office->ops[count++] = &office->own[i];
    }
    int64_t now_us = inside_time_us(office->time);
    bool cursor = office->booker.read_lsn > office->booker.booked_lsn &&
                  (now_us >= office->cursor_at_us || atomic_load(&office->stopping));
    if (count == 0 && !cursor) {
        return false;
    }
    office->cursor_at_us = now_us + CURSOR_EVERY_US;
    office->batch = (struct ledger_batch){
        .ops = office->ops,
        .count = count,
        .now_ms = now_ms,
        .booked_lsn = office->must_rewind ? read_before : office->booker.read_lsn};
    return true;
}

/* ---- the turn ---- */

static int64_t sleep_us(struct office *office, int64_t now_ms)
{
    bool keeps = !office->options.shared || office->kept_token != 0;
    int64_t next_ms = keeps ? keeper_next_ms(office->keeper, office->catalog) : INT64_MAX;
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
    office->posted = office->waiting;
    office->waiting = NULL;
    office_answer_posted(office, error, 0);
}

/* Puts right what a failed batch, or a lack of memory, left behind. */
static int mend(struct office *office)
{
    int error = 0;
    if (office->options.shared) {
        error =
            office->deadlines_lost && office->kept_token != 0 ? office_reload_deadlines(office) : 0;
        office->deadlines_lost = error != 0;
        office->lost_track = false; /* the sink reads from the ledger what it lacks */
        office->must_rewind = false;
        error = error != 0 ? error : office_refresh_sales(office, inside_time_ms(office->time));
        return error != 0 ? error : office_follow_lease(office);
    }
    if (office->must_rewind) {
        error = booker_rewind(&office->booker);
        office->must_rewind = error != 0;
    }
    if (error == 0 && office->lost_track) {
        uint64_t applied = 0;
        size_t sales = 0;
        error = office_load_sales(office, &sales); /* drafts have no events */
        error = error != 0 ? error : catch_up(office, &applied);
        office->lost_track = error != 0;
        if (error == 0) {
            log_event(LOG_INFO, "office.caught_up", LOG_U64("events", applied));
        }
    }
    if (error == 0 && office->deadlines_lost) {
        error = office_reload_deadlines(office);
        office->deadlines_lost = error != 0;
    }
    return error;
}

/* True when a write may be tried in this turn. */
static bool may_write(struct office *office, int64_t *ret_sleep_us)
{
    if (!office->options.shared && journal_latched(engine_journal(office->engine))) {
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
    int error = mend(office);
    if (error != 0) {
        static struct log_limit limit;
        log_event_limited(
            &limit, 10000, LOG_ERROR, "office.cannot_catch_up", LOG_ERR("error", error),
            LOG_STR("what", office->options.shared ? "bookings wait where they are; tried again"
                                                   : "bookings wait in the journal; tried again"));
        office->retry_at_us = now_us + BACKOFF_MAX_US / 10;
        *ret_sleep_us = BACKOFF_MAX_US / 10;
        return false;
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
    office_answer_held(office, inside_time_ms(office->time));
    if (!may_write(office, ret_sleep_us)) {
        return;
    }
    int64_t now_ms = inside_time_ms(office->time);
    bool hurry = atomic_exchange(&office->hurry, false);
    int64_t again_ms = office->sink->ops->turn(office->sink, now_ms, hurry);
    office_answer_held(office, now_ms);
    if (!gather(office, now_ms)) {
        int64_t idle_us = sleep_us(office, now_ms);
        *ret_sleep_us = again_ms >= idle_us / 1000 ? idle_us : again_ms * 1000;
        if (office->held != NULL && *ret_sleep_us > HELD_LOOK_US) {
            *ret_sleep_us = HELD_LOOK_US;
        }
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
    for (uint32_t i = 0; i < office->options.desks; i++) {
        mailbox_ring(&office->outboxes[office->loops + i]);
    }
}

static void durable_moved(void *context)
{
    struct office *office = context;
    mailbox_ring(&office->inbox);
}

void office_wait(struct office *office, uint32_t desk, int64_t timeout_us)
{
    CHECK(desk < office->options.desks);
    mailbox_wait(&office->outboxes[office->loops + desk], timeout_us);
}

void office_refresh(struct office *office)
{
    if (!atomic_exchange(&office->refresh, true)) {
        mailbox_ring(&office->inbox);
    }
}

void office_hurry(struct office *office)
{
    atomic_store(&office->hurry, true);
    mailbox_ring(&office->inbox);
}

void office_keep(struct office *office, uint64_t token)
{
    if (atomic_exchange(&office->keeper_token, token) != token) {
        mailbox_ring(&office->inbox);
    }
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

int office_start(struct office *office)
{
    struct journal *journal = engine_journal(office->engine);
    struct ledger_query state = {.kind = QUERY_STATE};
    int error = office_read_now(office, &state);
    if (error != 0) {
        return error;
    }
    size_t sales = 0;
    if (office->options.shared) {
        error = office_load_sales(office, &sales);
        if (error == 0) {
            log_event(LOG_INFO, "office.ready", LOG_U64("sales", sales),
                      LOG_U64("last_event", state.last_event));
        }
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
    uint64_t applied = 0;
    error = office_load_sales(office, &sales);
    if (error == 0) {
        error = catch_up(office, &applied);
    }
    if (error == 0) {
        /* Deadlines come from the ledger's rows, not from the events just applied. */
        error = office_reload_deadlines(office);
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
    sink_engine_init(&office->own_sink, engine);
    office->engine = engine;
    office->sink = options.sink != NULL ? options.sink : &office->own_sink.sink;
    office->ledger = ledger;
    office->catalog = catalog;
    office->time = time;
    office->metrics = metrics;
    office->loops = loops;
    office->options = options;
    office->keeper = keeper_new(options.board_keep_ms);
    office->own = calloc(own, sizeof(*office->own));
    office->ops = calloc(own + POSTED_MAX, sizeof(struct ledger_op *));
    office->outboxes = calloc(loops + options.desks, sizeof(*office->outboxes));
    mailbox_init(&office->inbox);
    for (uint32_t i = 0; office->outboxes != NULL && i < loops + options.desks; i++) {
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
    for (uint32_t i = 0; office->outboxes != NULL && i < office->loops + office->options.desks;
         i++) {
        mailbox_done(&office->outboxes[i]);
    }
    mailbox_done(&office->inbox);
    keeper_free(office->keeper);
    free(office->outboxes);
    free(office->ops);
    free(office->own);
    free(office);
}
