/* See ledger_writer.h. */
#include "ledger/ledger_writer_private.h"

#include <stdlib.h>
#include <string.h>

#include "base/backoff.h"
#include "base/check.h"
#include "base/err.h"
#include "ledger/event_effects.h"
#include "obs/log.h"

/* Shares of one batch. Posted ops come first, because somebody waits for them. POSTED_MAX is what a
 * booker posts at once (BOOKING_CHANNEL_MAX), so that its bookings share one transaction. */
#define POSTED_MAX 2048
#define MOVES_MAX 32
#define DUE_MAX 1024
/* If only records without decisions were passed, the cursor is written at most this often. */
#define CURSOR_EVERY_US 1000000
#define BACKOFF_FIRST_US 50000
#define BACKOFF_MAX_US 5000000
#define SLEW_EVERY_US 1000000
#define HELD_LOOK_US 50000
/* An order that is not due yet by the database's clock is retried after this. */
#define KEPT_MS 50

/* What still fits into the gate. */
struct room {
    uint32_t sales;
    uint32_t items;
};

static struct booking_positions positions(const struct ledger_writer *writer)
{
    return writer->options.bookings->ops->positions(writer->options.bookings);
}

/* ---- applying committed events ---- */

static int apply_event(struct ledger_writer *writer, const struct ledger_event *event,
                       int64_t now_ms)
{
    int error = writer->event_sink->ops->apply(writer->event_sink, event, 1, now_ms);
    if (error == 0) {
        ledger_writer_keep_event(writer, event);
        event_effects_count(writer->metrics, event);
        event_effects_log(event);
    }
    return error;
}

/* The same for a batch whose events go to other machines, all at once. The keeper reads what it
 * needs from the ledger, together with what other ledger writers have booked. */
static int apply_shared(struct ledger_writer *writer, const struct ledger_batch *batch)
{
    for (size_t i = 0; i < batch->events_count; i++) { /* before anyone can hear of them */
        event_effects_count(writer->metrics, &batch->events[i]);
        event_effects_log(&batch->events[i]);
    }
    return writer->event_sink->ops->apply(writer->event_sink, batch->events, batch->events_count,
                                          batch->now_ms);
}

/* Reads the ledger's events after the last one the gate applied, and applies them. */
static int catch_up(struct ledger_writer *writer, uint64_t *ret_applied)
{
    struct ledger_event *events = malloc(LEDGER_WRITER_PAGE * sizeof(*events));
    if (events == NULL) {
        return ERR_NOMEM;
    }
    int error = 0;
    *ret_applied = 0;
    for (;;) {
        struct ledger_query query = {.kind = QUERY_EVENTS,
                                     .after = writer->event_sink->ops->applied(writer->event_sink),
                                     .limit = LEDGER_WRITER_PAGE,
                                     .events = events};
        error = ledger_read(writer->ledger, &query);
        for (uint32_t i = 0; error == 0 && i < query.count; i++) {
            if (event_effects_catalog(events[i].kind)) {
                error = ledger_writer_reload_sale(writer, events[i].sale);
            }
            if (error == 0) {
                error = apply_event(writer, &events[i], inside_time_ms(writer->time));
                (*ret_applied)++;
            }
        }
        if (error != 0 || query.count < LEDGER_WRITER_PAGE) {
            break;
        }
    }
    free(events);
    return error;
}

/* ---- a batch ---- */

/* What of the gate is too full for what a move would load. Then the op is refused before the ledger
 * commits it. `room` shrinks with every move of the batch that loads. */
static enum gate_bound full_bound(struct ledger_writer *writer, const struct ledger_op *op,
                                  struct room *room)
{
    bool loads =
        op->kind == LEDGER_SALE_MOVE && (op->target == SALE_WARM || op->target == SALE_OPEN);
    if (!loads) {
        return GATE_BOUND_NONE;
    }
    catalog_lock(writer->catalog);
    const struct sale_row *sale = catalog_sale(writer->catalog, op->sale_id);
    uint32_t items = sale != NULL && sale->state == SALE_DRAFT ? sale->items_count : 0;
    catalog_unlock(writer->catalog);
    if (items == 0) {
        return GATE_BOUND_NONE;
    }
    if (room->sales == 0 || room->items < items) {
        return room->sales == 0 ? GATE_BOUND_SALES : GATE_BOUND_ITEMS;
    }
    room->sales--;
    room->items -= items;
    return GATE_BOUND_NONE;
}

/* Answers one posted op without the ledger. */
static void turn_down(struct ledger_writer *writer, struct post *post, enum refusal refusal)
{
    struct ledger_writer_op *op = (struct ledger_writer_op *)post;
    op->op.refusal = refusal;
    op->error = 0;
    op->lsn = 0;
    mailbox_post(&writer->outboxes[op->loop], post);
    if (op->loop < writer->loops) {
        waker_wake(&writer->wakers[op->loop]);
    }
}

static void gather_posted(struct ledger_writer *writer, size_t *count)
{
    struct post **last = &writer->posted;
    struct room room;
    bool changed = false;
    writer->event_sink->ops->room(writer->event_sink, &room.sales, &room.items);
    for (size_t i = 0; writer->waiting != NULL && i < POSTED_MAX; i++) {
        struct post *post = writer->waiting;
        struct ledger_op *op = &((struct ledger_writer_op *)post)->op;
        if (changed && op->kind == LEDGER_SALE_MOVE) {
            break; /* how much it loads is known once the change before it is committed */
        }
        changed = changed || op->kind == LEDGER_SALE_CREATE || op->kind == LEDGER_SALE_CHANGE;
        writer->waiting = post->next;
        post->next = NULL;
        enum gate_bound bound = full_bound(writer, op, &room);
        if (bound != GATE_BOUND_NONE) {
            log_event(LOG_WARN, "gate.full", LOG_STR("bound", gate_bound_text(bound)),
                      LOG_U64("sale", op->sale_id),
                      LOG_STR("do", "close sales that are over, or raise the setting"));
            turn_down(writer, post, REFUSAL_OVERLOADED);
            continue;
        }
        *last = post;
        last = &post->next;
        writer->ops[(*count)++] = op;
    }
}

/* True if an operator's call in this batch concerns this sale. */
static bool is_in_hand(const struct ledger_writer *writer, size_t posted, uint64_t sale)
{
    for (size_t i = 0; i < posted; i++) {
        if (writer->ops[i]->sale_id == sale) {
            return true;
        }
    }
    return false;
}

/* Gathers the sale moves that are due. It skips a sale that an operator is changing in this batch,
 * because the deadline scheduler knows it only as it was: an end that is being moved has not come.
 * A sale is forgotten only when nothing of it is in flight. */
static size_t gather_moves(struct ledger_writer *writer, size_t posted, int64_t now_ms)
{
    size_t kept = 0;
    size_t count = deadline_scheduler_moves(writer->deadlines, writer->catalog, now_ms, writer->own,
                                            MOVES_MAX);
    for (size_t i = 0; i < count; i++) {
        const struct ledger_op *op = &writer->own[i];
        if (!is_in_hand(writer, posted, op->sale_id) &&
            (op->kind != LEDGER_SALE_FORGET ||
             writer->event_sink->ops->is_idle(writer->event_sink, op->sale_id))) {
            writer->own[kept++] = *op;
        }
    }
    return kept;
}

/* Updates the catalog before the gate can show the items. */
static int catalog_follow(struct ledger_writer *writer)
{
    int error = 0;
    for (size_t i = 0; i < writer->batch.count; i++) {
        const struct ledger_op *op = writer->ops[i];
        if (op->refusal != REFUSAL_NONE || op->repeated) {
            continue;
        }
        if (op->kind == LEDGER_SALE_DELETE) {
            catalog_remove(writer->catalog, op->sale_id);
        } else if (op->sale != NULL && op->kind != LEDGER_SALE_FORGET) {
            int failed = ledger_writer_reload_sale(writer, op->sale->id);
            error = failed != 0 ? failed : error;
        }
    }
    return error;
}

static void free_own(struct ledger_writer *writer)
{
    for (size_t i = 0; i < writer->own_count; i++) {
        sale_row_free(writer->own[i].sale);
        writer->own[i].sale = NULL;
    }
    writer->own_count = 0;
}

static void batch_failed(struct ledger_writer *writer, int error)
{
    static struct log_limit limit;
    const struct ledger_writer_options *options = &writer->options;
    log_event_limited(
        &limit, 1000, LOG_ERROR, "ledger.batch_failed", LOG_ERR("error", error),
        LOG_U64("ops", writer->batch.count),
        LOG_STR("server", options->server != NULL ? options->server : ""),
        LOG_STR("words", options->words ? options->words(options->words_context) : ""),
        LOG_STR("do", error == ERR_NOSPACE
                          ? "free space on the ledger's disk; bookings then go on by themselves"
                          : ""));
    atomic_store(&writer->ledger_error, error);
    for (size_t i = writer->own_count; i > 0; i--) {
        const struct ledger_op *op = &writer->own[i - 1];
        if (op->kind == LEDGER_EXPIRE) {
            deadline_scheduler_return(writer->deadlines, op->sale_id, op->id, op->pay_by_ms);
        }
    }
    writer->lost_track = true;
    writer->backoff_us = backoff_grow(writer->backoff_us, BACKOFF_FIRST_US, BACKOFF_MAX_US);
    writer->retry_at_us = inside_time_us(writer->time) + writer->backoff_us;
    writer->must_rewind = true;
    ledger_writer_answer_posted(writer, error, 0);
    free_own(writer);
}

static void note_bookings(struct ledger_writer *writer)
{
    for (size_t i = 0; i < writer->own_count; i++) {
        const struct ledger_op *op = &writer->own[i];
        if (op->kind != LEDGER_BOOK) {
            continue;
        }
        int64_t since_ms = writer->batch.now_ms - op->command.now_ms;
        metrics_observe_us(writer->metrics, HIST_BUY_BOOKED,
                           since_ms > 0 ? (uint64_t)since_ms * 1000 : 0);
        if (op->refusal != REFUSAL_NONE) {
            /* Not even a FAILED row: gate and ledger do not belong together. */
            log_event(LOG_ERROR, "booking_reader.refused", LOG_U64("lsn", op->lsn),
                      LOG_U64("item", op->command.item),
                      LOG_STR("refusal", refusal_text(op->refusal)->code));
        }
    }
}

/* Another process holds the keeper's lease by now. Nothing was changed, and nothing more is kept
 * here until this process holds it again. This is not a ledger error. */
static void lease_lost(struct ledger_writer *writer)
{
    uint64_t token = writer->kept_token;
    log_event(LOG_WARN, "keeper.lease_lost", LOG_U64("token", token));
    (void)atomic_compare_exchange_strong(&writer->keeper_token, &token, 0);
    writer->kept_token = 0;
    free_own(writer);
}

/* The database's clock decides whether a deadline has passed. Orders that
 * are not due by it are put back. */
static void keep_again(struct ledger_writer *writer)
{
    for (size_t i = writer->own_count; i > 0; i--) {
        const struct ledger_op *op = &writer->own[i - 1];
        if (op->kind == LEDGER_EXPIRE && op->refusal == REFUSAL_BAD_STATE &&
            op->order.state == ORDER_LOCKED) {
            deadline_scheduler_return(writer->deadlines, op->sale_id, op->id, op->pay_by_ms);
            writer->tick_at_ms = writer->batch.now_ms + KEPT_MS;
        }
    }
}

static void batch_finished(struct ledger_writer *writer)
{
    struct ledger_batch *batch = &writer->batch;
    if (batch->error == ERR_BUSY && ledger_writer_is_shared(writer) && writer->kept_last) {
        lease_lost(writer);
        return;
    }
    if (batch->error != 0) {
        batch_failed(writer, batch->error);
        return;
    }
    writer->backoff_us = 0;
    writer->retry_at_us = 0;
    atomic_store(&writer->ledger_error, 0);
    int error = catalog_follow(writer);
    if (ledger_writer_is_shared(writer)) {
        /* Even if the sales could not be read again: those who wait for these events must know that
         * the segments lack them. */
        int applied = apply_shared(writer, batch);
        error = error != 0 ? error : applied;
        keep_again(writer);
    } else {
        for (size_t i = 0; error == 0 && i < batch->events_count; i++) {
            error = apply_event(writer, &batch->events[i], batch->now_ms);
        }
    }
    error = error != 0 ? error : ledger_writer_follow_blocks(writer);
    if (error != 0) {
        log_event(LOG_ERROR, "gate.cannot_follow", LOG_ERR("error", error));
        writer->lost_track = true;
    }
    note_bookings(writer);
    if (!ledger_writer_is_shared(writer)) {
        struct booking_source *bookings = writer->options.bookings;
        bookings->ops->commit(bookings, batch->booked_lsn);
        atomic_store(&writer->booked_lsn, bookings->ops->positions(bookings).booked_lsn);
    }
    atomic_store(&writer->pending_deadlines, deadline_scheduler_pending(writer->deadlines));
    metrics_add(writer->metrics, METRIC_LEDGER_COMMITS_TOTAL, 1);
    if (ledger_writer_is_shared(writer)) {
        ledger_writer_answer_followed(writer);
    } else {
        struct booking_positions at = positions(writer);
        metrics_set(writer->metrics, METRIC_LEDGER_LAG, at.durable_lsn - at.booked_lsn);
        /* All that these ops' answers show is in the journal by now, whoever committed the
         * events. */
        ledger_writer_answer_posted(writer, error, at.last_lsn);
    }
    free_own(writer);
}

/* Gathers what is due, on every tick. */
static void gather_due(struct ledger_writer *writer, size_t posted, int64_t now_ms)
{
    if (now_ms < writer->tick_at_ms) {
        return;
    }
    writer->tick_at_ms = now_ms + writer->options.tick_ms;
    writer->own_count = gather_moves(writer, posted, now_ms);
    size_t due =
        deadline_scheduler_due(writer->deadlines, now_ms, writer->own + writer->own_count, DUE_MAX);
    for (size_t i = 0; i < due; i++) {
        writer->own[writer->own_count + i].cooling_ms = atomic_load(&writer->cooling_ms);
    }
    writer->own_count += due;
    if (due == DUE_MAX) {
        writer->tick_at_ms = now_ms;
    }
}

/* Shared: gathers posted ops, or, in a separate batch under the lease, what is due. If there is
 * both, they take turns. */
static bool gather_shared(struct ledger_writer *writer, int64_t now_ms)
{
    size_t count = 0;
    bool keeps = writer->kept_token != 0 && !writer->kept_last;
    if (keeps) {
        gather_due(writer, 0, now_ms);
        for (size_t i = 0; i < writer->own_count; i++) {
            writer->ops[count++] = &writer->own[i];
        }
    }
    writer->kept_last = count > 0;
    if (count == 0) {
        gather_posted(writer, &count);
    }
    writer->batch = (struct ledger_batch){.ops = writer->ops,
                                          .count = count,
                                          .now_ms = now_ms,
                                          .lease = writer->kept_last ? KEEPER_LEASE : NULL,
                                          .token = writer->kept_token};
    return count > 0;
}

/* Fills the batch. False: there is nothing worth a transaction. */
static bool gather(struct ledger_writer *writer, int64_t now_ms)
{
    if (ledger_writer_is_shared(writer)) {
        return gather_shared(writer, now_ms);
    }
    size_t count = 0;
    gather_posted(writer, &count);
    gather_due(writer, count, now_ms);
    size_t booked = 0;
    struct booking_source *bookings = writer->options.bookings;
    struct booking_positions before = positions(writer);
    int error = bookings->ops->take(bookings, writer->own + writer->own_count,
                                    writer->options.batch_max, &booked);
    struct booking_positions after = positions(writer);
    if (error != 0) {
        static struct log_limit limit;
        log_event_limited(&limit, 10000, LOG_ERROR, "booking_reader.cannot_read",
                          LOG_ERR("error", error), LOG_U64("lsn", after.read_lsn));
        /* Records read before the error are read again, so the cursor must not pass them. */
        booked = 0;
        writer->must_rewind = true;
    }
    writer->own_count += booked;
    for (size_t i = 0; i < writer->own_count; i++) {
        writer->ops[count++] = &writer->own[i];
    }
    int64_t now_us = inside_time_us(writer->time);
    bool cursor = after.read_lsn > after.booked_lsn &&
                  (now_us >= writer->cursor_at_us || atomic_load(&writer->stopping));
    if (count == 0 && !cursor) {
        return false;
    }
    writer->cursor_at_us = now_us + CURSOR_EVERY_US;
    writer->batch = (struct ledger_batch){
        .ops = writer->ops,
        .count = count,
        /* Read after the decisions were: a deadline counts from a time that is not before them. */
        .now_ms = inside_time_ms(writer->time),
        .booked_lsn = writer->must_rewind ? before.read_lsn : after.read_lsn};
    return true;
}

/* ---- an iteration ---- */

static int64_t sleep_us(struct ledger_writer *writer, int64_t now_ms)
{
    bool keeps = !ledger_writer_is_shared(writer) || writer->kept_token != 0;
    int64_t next_ms =
        keeps ? deadline_scheduler_next_ms(writer->deadlines, writer->catalog) : INT64_MAX;
    int64_t wait_ms = next_ms == INT64_MAX ? 1000 : next_ms - now_ms;
    wait_ms = wait_ms < writer->options.tick_ms ? writer->options.tick_ms : wait_ms;
    return (wait_ms > 1000 ? 1000 : wait_ms) * 1000;
}

/* Appends newly posted ops to those that wait. */
static void take_posts(struct ledger_writer *writer)
{
    struct post **last = &writer->waiting;
    while (*last != NULL) {
        last = &(*last)->next;
    }
    *last = mailbox_take(&writer->inbox);
}

/* Refuses the waiting ops: nothing can be written now. */
static void turn_away(struct ledger_writer *writer, int error)
{
    writer->posted = writer->waiting;
    writer->waiting = NULL;
    ledger_writer_answer_posted(writer, error, 0);
}

/* Repairs what a failed batch or a lack of memory left behind. */
static int mend(struct ledger_writer *writer)
{
    int error = 0;
    if (ledger_writer_is_shared(writer)) {
        error = writer->deadlines_lost && writer->kept_token != 0
                    ? ledger_writer_reload_deadlines(writer)
                    : 0;
        writer->deadlines_lost = error != 0;
        writer->lost_track = false; /* the sink reads from the ledger what it lacks */
        writer->must_rewind = false;
        error =
            error != 0 ? error : ledger_writer_refresh_sales(writer, inside_time_ms(writer->time));
        return error != 0 ? error : ledger_writer_follow_lease(writer);
    }
    if (writer->must_rewind) {
        error = writer->options.bookings->ops->rewind(writer->options.bookings);
        writer->must_rewind = error != 0;
    }
    if (error == 0 && writer->lost_track) {
        uint64_t applied = 0;
        size_t sales = 0;
        error = ledger_writer_load_sales(writer, &sales); /* drafts have no events */
        error = error != 0 ? error : ledger_writer_load_blocks(writer);
        error = error != 0 ? error : catch_up(writer, &applied);
        writer->lost_track = error != 0;
        if (error == 0) {
            log_event(LOG_INFO, "ledger_writer.caught_up", LOG_U64("events", applied));
        }
    }
    if (error == 0 && writer->deadlines_lost) {
        error = ledger_writer_reload_deadlines(writer);
        writer->deadlines_lost = error != 0;
    }
    return error;
}

/* True if this iteration may try to write. */
static bool may_write(struct ledger_writer *writer, int64_t *ret_sleep_us)
{
    if (!ledger_writer_is_shared(writer) && positions(writer).failed) {
        if (!writer->stopped_for_failure) {
            writer->stopped_for_failure = true;
            log_event(LOG_ERROR, "ledger_writer.stopped", LOG_STR("why", "the journal has failed"),
                      LOG_STR("do", "free disk space or replace the disk, then restart"));
        }
        turn_away(writer, ERR_JOURNAL_FAILED);
        *ret_sleep_us = SLEW_EVERY_US;
        return false;
    }
    if (!ledger_writer_is_shared(writer) && positions(writer).waits) {
        turn_away(writer, ERR_NOSPACE); /* the gate could not follow */
        *ret_sleep_us = BACKOFF_MAX_US / 10;
        return false;
    }
    int64_t now_us = inside_time_us(writer->time);
    if (writer->retry_at_us > now_us) {
        turn_away(writer, ERR_IO);
        *ret_sleep_us = writer->retry_at_us - now_us;
        return false;
    }
    int error = mend(writer);
    if (error != 0) {
        static struct log_limit limit;
        log_event_limited(&limit, 10000, LOG_ERROR, "ledger_writer.cannot_catch_up",
                          LOG_ERR("error", error),
                          LOG_STR("what", ledger_writer_is_shared(writer)
                                              ? "bookings wait where they are; tried again"
                                              : "bookings wait in the journal; tried again"));
        writer->retry_at_us = now_us + BACKOFF_MAX_US / 10;
        *ret_sleep_us = BACKOFF_MAX_US / 10;
        return false;
    }
    return true;
}

static void every_second(struct ledger_writer *writer)
{
    int64_t now_us = inside_time_us(writer->time);
    int64_t ahead_us = 0;
    if (now_us < writer->slew_at_us) {
        return;
    }
    writer->slew_at_us = now_us + SLEW_EVERY_US;
    ledger_writer_sweep_blocks(writer);
    if (inside_time_slew(writer->time, &ahead_us)) {
        log_event(LOG_WARN, "clock.jumped", LOG_I64("wall_ahead_us", ahead_us),
                  LOG_STR("what", "not followed; sales keep their own time until a restart"));
    }
}

void ledger_writer_iterate(struct ledger_writer *writer, int64_t *ret_sleep_us)
{
    *ret_sleep_us = 0;
    every_second(writer);
    take_posts(writer);
    ledger_writer_answer_held(writer, inside_time_ms(writer->time));
    if (!may_write(writer, ret_sleep_us)) {
        return;
    }
    int64_t now_ms = inside_time_ms(writer->time);
    bool hurry = atomic_exchange(&writer->hurry, false);
    int64_t again_ms = writer->event_sink->ops->turn(writer->event_sink, now_ms, hurry);
    ledger_writer_answer_held(writer, now_ms);
    if (!gather(writer, now_ms)) {
        int64_t idle_us = sleep_us(writer, now_ms);
        *ret_sleep_us = again_ms >= idle_us / 1000 ? idle_us : again_ms * 1000;
        if (writer->held != NULL && *ret_sleep_us > HELD_LOOK_US) {
            *ret_sleep_us = HELD_LOOK_US;
        }
        return;
    }
    int64_t from_us = inside_time_us(writer->time);
    (void)ledger_write(writer->ledger, &writer->batch); /* batch_finished() looks at the error */
    int64_t took_us = inside_time_us(writer->time) - from_us;
    metrics_observe_us(writer->metrics, HIST_LEDGER_COMMIT, took_us > 0 ? (uint64_t)took_us : 0);
    batch_finished(writer);
}

void ledger_writer_run(struct ledger_writer *writer)
{
    while (!atomic_load(&writer->stopping)) {
        int64_t sleep = 0;
        ledger_writer_iterate(writer, &sleep);
        if (sleep > 0) {
            mailbox_wait(&writer->inbox, sleep);
        }
    }
    int64_t sleep = 0;
    for (int i = 0; i < 1000 && sleep == 0; i++) {
        ledger_writer_iterate(writer, &sleep);
    }
}

void ledger_writer_stop(struct ledger_writer *writer)
{
    atomic_store(&writer->stopping, true);
    mailbox_ring(&writer->inbox);
    for (uint32_t i = 0; i < writer->options.mailboxes; i++) {
        mailbox_ring(&writer->outboxes[writer->loops + i]);
    }
}

void ledger_writer_wake(void *writer)
{
    mailbox_ring(&((struct ledger_writer *)writer)->inbox);
}

void ledger_writer_wait(struct ledger_writer *writer, uint32_t mailbox, int64_t timeout_us)
{
    CHECK(mailbox < writer->options.mailboxes);
    mailbox_wait(&writer->outboxes[writer->loops + mailbox], timeout_us);
}

void ledger_writer_refresh(struct ledger_writer *writer)
{
    if (!atomic_exchange(&writer->refresh, true)) {
        mailbox_ring(&writer->inbox);
    }
}

void ledger_writer_hurry(struct ledger_writer *writer)
{
    atomic_store(&writer->hurry, true);
    mailbox_ring(&writer->inbox);
}

void ledger_writer_keep(struct ledger_writer *writer, uint64_t token)
{
    if (atomic_exchange(&writer->keeper_token, token) != token) {
        mailbox_ring(&writer->inbox);
    }
}

void ledger_writer_post(struct ledger_writer *writer, struct ledger_writer_op *op)
{
    mailbox_post(&writer->inbox, &op->post);
}

struct ledger_writer_op *ledger_writer_collect(struct ledger_writer *writer, uint32_t loop)
{
    return (struct ledger_writer_op *)mailbox_take(&writer->outboxes[loop]);
}

uint64_t ledger_writer_booked_lsn(const struct ledger_writer *writer)
{
    return atomic_load(&writer->booked_lsn);
}

int ledger_writer_error(const struct ledger_writer *writer)
{
    return atomic_load(&writer->ledger_error);
}

uint64_t ledger_writer_pending_deadlines(const struct ledger_writer *writer)
{
    return atomic_load(&writer->pending_deadlines);
}

/* ---- start ---- */

int ledger_writer_start(struct ledger_writer *writer)
{
    struct ledger_query state = {.kind = QUERY_STATE};
    int error = ledger_read(writer->ledger, &state);
    if (error != 0) {
        return error;
    }
    size_t sales = 0;
    if (ledger_writer_is_shared(writer)) {
        error = ledger_writer_load_sales(writer, &sales);
        error = error != 0 ? error : ledger_writer_load_blocks(writer);
        if (error == 0) {
            log_event(LOG_INFO, "ledger_writer.ready", LOG_U64("sales", sales),
                      LOG_U64("last_event", state.last_event));
        }
        return error;
    }
    uint64_t last_lsn = positions(writer).last_lsn;
    uint64_t applied_event = writer->event_sink->ops->applied(writer->event_sink);
    if (state.booked_lsn > last_lsn || applied_event > state.last_event) {
        log_event(
            LOG_ERROR, "start.cursors_disagree", LOG_U64("ledger_booked_lsn", state.booked_lsn),
            LOG_U64("journal_last_lsn", last_lsn), LOG_U64("gate_applied_event", applied_event),
            LOG_U64("ledger_last_event", state.last_event),
            LOG_STR("do", "journal and ledger are not of one piece: restore both together"));
        return ERR_AHEAD;
    }
    uint64_t applied = 0;
    error = ledger_writer_load_sales(writer, &sales);
    error = error != 0 ? error : ledger_writer_load_blocks(writer);
    if (error == 0) {
        error = catch_up(writer, &applied);
    }
    if (error == 0) {
        /* Deadlines come from the ledger's rows, not from the events just applied. */
        error = ledger_writer_reload_deadlines(writer);
    }
    if (error == 0) {
        error = writer->options.bookings->ops->start(writer->options.bookings, state.booked_lsn);
    }
    if (error != 0) {
        return error;
    }
    atomic_store(&writer->booked_lsn, state.booked_lsn);
    atomic_store(&writer->pending_deadlines, deadline_scheduler_pending(writer->deadlines));
    log_event(LOG_INFO, "ledger_writer.ready", LOG_U64("sales", sales),
              LOG_U64("events_applied", applied),
              LOG_U64("unpaid_orders", deadline_scheduler_pending(writer->deadlines)),
              LOG_U64("to_book", positions(writer).last_lsn - state.booked_lsn));
    return 0;
}

void ledger_writer_cool(struct ledger_writer *writer, int64_t cooling_ms)
{
    atomic_store(&writer->cooling_ms, cooling_ms);
}

/* ---- life ---- */

int ledger_writer_new(struct waker *wakers, struct ledger *ledger, struct catalog *catalog,
                      struct inside_time *time, struct metrics_slot *metrics, uint32_t loops,
                      struct ledger_writer_options options, struct ledger_writer **ret_writer)
{
    struct ledger_writer *writer = calloc(1, sizeof(*writer));
    if (writer == NULL) {
        return ERR_NOMEM;
    }
    size_t own = MOVES_MAX + DUE_MAX + (size_t)options.batch_max;
    writer->wakers = wakers;
    writer->event_sink = options.event_sink;
    writer->ledger = ledger;
    writer->catalog = catalog;
    writer->time = time;
    writer->metrics = metrics;
    writer->loops = loops;
    writer->options = options;
    atomic_store(&writer->cooling_ms, options.cooling_ms);
    writer->deadlines = deadline_scheduler_new(options.board_keep_ms);
    writer->own = calloc(own, sizeof(*writer->own));
    writer->ops = calloc(own + POSTED_MAX, sizeof(struct ledger_op *));
    writer->outboxes = calloc(loops + options.mailboxes, sizeof(*writer->outboxes));
    mailbox_init(&writer->inbox);
    for (uint32_t i = 0; writer->outboxes != NULL && i < loops + options.mailboxes; i++) {
        mailbox_init(&writer->outboxes[i]);
    }
    if (writer->deadlines == NULL || writer->own == NULL || writer->ops == NULL ||
        writer->outboxes == NULL) {
        ledger_writer_free(writer);
        return ERR_NOMEM;
    }
    *ret_writer = writer;
    return 0;
}

void ledger_writer_free(struct ledger_writer *writer)
{
    if (writer == NULL) {
        return;
    }
    for (uint32_t i = 0; writer->outboxes != NULL && i < writer->loops + writer->options.mailboxes;
         i++) {
        mailbox_done(&writer->outboxes[i]);
    }
    mailbox_done(&writer->inbox);
    deadline_scheduler_free(writer->deadlines);
    free(writer->outboxes);
    free(writer->ops);
    free(writer->own);
    free(writer);
}
