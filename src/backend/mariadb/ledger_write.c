/*
 * A batch of ops as one transaction.
 *
 * Happy path: BEGIN; the row of meta locked, its fence number compared (one writer) or the number of
 * the last event read (shared); the rows that the ops name read into the plan; each op in its order
 * on the plan; the plan and the events stored, each kind of row in one statement; the journal's
 * cursor; COMMIT (synced). Then the batch's events are the committed ones. A dozen answers of the
 * server, however many orders.
 *
 * Most bookings are new and within their buyer's limit: the gate has decided so. After a batch of
 * such bookings the next one is written without a look at its orders and holdings, which costs a
 * third less (CARE_NONE). That one of them is known already or goes over its limit, the constraints
 * say; then, as after any other outcome than an order, everything is rolled back and done with care.
 *
 * Trouble: ops that have looked are refused only what the rows themselves contradict. Then
 * everything is rolled back and done again with savepoints, in halves of halves: a bad op ends up
 * alone and is undone alone, its neighbours are booked.
 *
 * What can go wrong: a deadlock (tried again here), a foreign lock, a full disk, a lost connection.
 * The transaction is rolled back (by us, or by the server when the connection ends), the batch gets
 * the error, and the next one is tried afresh. Whether a COMMIT whose answer was lost took place is
 * known when the next connection has the writers' lock (ledger_mariadb.c), in a shared ledger when
 * the next batch has the row of meta: last_event is read then, so event numbers have no gaps and no
 * doubles.
 */
#include <stdlib.h>

#include "backend/mariadb/maria.h"
#include "base/check.h"
#include "base/err.h"

#define DEADLOCK_TRIES 4
#define SHARED_TRIES 16

/* As all ledgers run it. */
static int op_shared(struct maria_write *w, struct ledger_op *op)
{
    return db_op(&w->base, op);
}

static const struct {
    int (*run)(struct maria_write *w, struct ledger_op *op);
    bool on_tables;            /* needs an empty plan; all else needs the plan loaded */
    enum refusal when_refused; /* by a constraint, done alone */
} op_table[] = {
    [LEDGER_BOOK] = {maria_op_book, false, REFUSAL_BAD_REQUEST},
    [LEDGER_PAY] = {maria_op_pay, false, REFUSAL_BAD_STATE},
    [LEDGER_CANCEL] = {maria_op_cancel, false, REFUSAL_BAD_STATE},
    [LEDGER_EXPIRE] = {maria_op_expire, false, REFUSAL_BAD_STATE},
    [LEDGER_RESTOCK] = {op_shared, true, REFUSAL_BAD_REQUEST},
    [LEDGER_SALE_CREATE] = {op_shared, true, REFUSAL_BAD_REQUEST},
    [LEDGER_SALE_CHANGE] = {op_shared, true, REFUSAL_BAD_REQUEST},
    [LEDGER_SALE_DELETE] = {op_shared, true, REFUSAL_BAD_STATE},
    [LEDGER_SALE_MOVE] = {op_shared, true, REFUSAL_BAD_STATE},
    [LEDGER_SALE_FORGET] = {op_shared, true, REFUSAL_BAD_STATE},
    [LEDGER_CURSOR] = {op_shared, true, REFUSAL_BAD_REQUEST},
    [LEDGER_BLOCK] = {op_shared, true, REFUSAL_BAD_REQUEST},
    [LEDGER_UNBLOCK] = {op_shared, true, REFUSAL_BAD_REQUEST},
    [LEDGER_FAIL] = {maria_op_fail, false, REFUSAL_BAD_REQUEST},
    [LEDGER_EPOCH] = {maria_op_epoch, true, REFUSAL_BAD_REQUEST},
    [LEDGER_TRANSFER] = {maria_op_transfer, true, REFUSAL_BAD_REQUEST},
    [LEDGER_TRANSFERRED] = {maria_op_transferred, true, REFUSAL_NO_STOCK},
};
_Static_assert(sizeof(op_table) / sizeof(op_table[0]) == LEDGER_KIND_COUNT, "an op without a row");

int maria_event(struct maria_write *w, struct ledger_event event)
{
    event.at_ms = w->base.now_ms;
    event.segment = w->segments > 0 ? event.segment : SEGMENT_ALL;
    return db_event_add(w->base.db, event);
}

static bool only_bookings(struct ledger_op *const *ops, size_t count)
{
    size_t i = 0;
    while (i < count && ops[i]->kind == LEDGER_BOOK) {
        i++;
    }
    return i == count;
}

/* A stretch of ops that work on the plan. Without a look nothing but an order can be answered: what
 * looks like a refusal may be an order that is booked long since. */
static int run_planned(struct maria_write *w, struct ledger_op **ops, size_t count)
{
    bool blind = w->care == CARE_NONE && only_bookings(ops, count);
    int err = blind ? maria_plan_expect_new(w, ops, count) : maria_plan_load(w, ops, count);
    for (size_t i = 0; i < count && err == 0; i++) {
        db_op_clear(ops[i]);
        err = op_table[ops[i]->kind].run(w, ops[i]);
        if (err == 0 && blind && ops[i]->order.state != ORDER_LOCKED) {
            err = MARIA_REFUSED;
        }
    }
    return err != 0 ? err : maria_plan_store(w);
}

/* Runs all ops of a stretch in their order. All their changes but events are in the tables then. */
static int run_ops(struct maria_write *w, struct ledger_op **ops, size_t count)
{
    size_t at = 0;
    while (at < count) {
        size_t end = at;
        while (end < count && !op_table[ops[end]->kind].on_tables) {
            end++;
        }
        int err = 0;
        if (end > at) {
            err = run_planned(w, ops + at, end - at);
            at = end;
        } else {
            db_op_clear(ops[at]);
            err = op_table[ops[at]->kind].run(w, ops[at]);
            plan_clear(&w->maria->plan);
            at++;
        }
        if (err != 0) {
            return err;
        }
    }
    return 0;
}

/* ---- in pieces ---- */

static int run_as_failed(struct maria_write *w, struct ledger_op **ops, size_t count)
{
    CHECK(count == 1);
    enum refusal reason = w->guard; /* storing forgets it */
    int err = maria_plan_load(w, ops, 1);
    if (err == 0) {
        db_op_clear(ops[0]);
        w->guard = reason;
        err = maria_op_book_failed(w, ops[0]);
    }
    return err != 0 ? err : maria_plan_store(w);
}

/* One try of a stretch in a savepoint. MARIA_REFUSED: undone, as if it had not been tried. */
static int try_ops(struct maria_write *w, struct ledger_op **ops, size_t count,
                   int (*run)(struct maria_write *w, struct ledger_op **ops, size_t count))
{
    struct maria *s = w->maria;
    size_t events_count = s->base.events_count;
    int err = maria_do(s, "SAVEPOINT op");
    if (err == 0) {
        err = run(w, ops, count);
    }
    if (err == MARIA_REFUSED) {
        s->base.events_count = events_count;
        w->epochs_known = false;
        plan_clear(&s->plan);
        for (size_t i = 0; i < count; i++) {
            db_op_clear(ops[i]);
        }
        int undo = maria_do(s, "ROLLBACK TO SAVEPOINT op");
        return undo != 0 ? undo : err;
    }
    return err;
}

/* What the constraints refuse is an op's own outcome, its neighbours go on. */
static int run_alone(struct maria_write *w, struct ledger_op **op)
{
    int err = MARIA_REFUSED;
    if (op[0]->kind == LEDGER_BOOK && w->guard != REFUSAL_NONE) {
        err = try_ops(w, op, 1, run_as_failed);
    }
    if (err == MARIA_REFUSED) {
        op[0]->refusal = op_table[op[0]->kind].when_refused;
        err = 0;
    }
    return err;
}

/* The depth is the logarithm of a batch's size. */
/* NOLINTNEXTLINE(misc-no-recursion) */
static int run_in_pieces(struct maria_write *w, struct ledger_op **ops, size_t count)
{
    int err = try_ops(w, ops, count, run_ops);
    if (err != MARIA_REFUSED) {
        return err;
    }
    if (count == 1) {
        return run_alone(w, ops);
    }
    err = run_in_pieces(w, ops, count / 2);
    return err != 0 ? err : run_in_pieces(w, ops + count / 2, count - count / 2);
}

/* ---- the transaction ---- */

/* The one writer: nobody has taken over. */
static int check_alone(struct maria *s, uint64_t fence, uint32_t segments)
{
    if (fence == s->fence && segments == 0) {
        return 0;
    }
    s->fenced = true;
    s->lost = true;
    return maria_say(s, ERR_BUSY, "another server has taken this ledger over; stop this one");
}

/* One of several: where things stand, now that the row of meta is ours. Not in the statement that
 * waited for it, which would see the state from before. */
static int look_afresh(struct maria_write *w)
{
    struct maria *s = w->maria;
    struct db_row *row;
    int err = db_get_plain(&s->base, MARIA_FRESH, &row);
    if (err != 0) {
        return err == ERR_NOTFOUND ? ERR_CORRUPT : err;
    }
    s->base.last_event = db_u64(row, 0);
    w->base.now_ms = db_int(row, 1);
    db_done(row);
    return 0;
}

/* A writer under a lease must still hold it: there is no higher token, and there can be none before
 * the commit. */
static int check_lease(struct maria_write *w)
{
    struct db_row *row;
    const char *name = w->batch->lease;
    if (name == NULL) {
        return 0;
    }
    int err = db_get(&w->maria->base, MARIA_LEASE_TOKEN, &row, v_key(name));
    if (err != 0) {
        return err == ERR_NOTFOUND ? 0 : err; /* nobody ever had it */
    }
    uint64_t token = db_u64(row, 0);
    db_done(row);
    return token <= w->batch->token
               ? 0
               : maria_say(w->maria, ERR_BUSY, "somebody else has the lease %s now", name);
}

static int begin(struct maria_write *w)
{
    struct maria *s = w->maria;
    struct db_row *row;
    int err = maria_do(s, "START TRANSACTION");
    if (err == 0) {
        err = db_get_plain(&s->base, MARIA_META_LOCK, &row);
    }
    if (err != 0) {
        return err == ERR_NOTFOUND ? maria_say(s, ERR_CORRUPT, "meta has no row") : err;
    }
    uint64_t fence = db_u64(row, 0);
    w->segments = db_u32(row, 1);
    db_done(row);
    w->base.now_ms = w->batch->now_ms;
    if (s->segments == 0) {
        err = check_alone(s, fence, w->segments);
    } else if (w->segments == 0) {
        err = maria_say(s, ERR_BUSY, "a server that writes alone has taken this ledger over");
    } else {
        err = look_afresh(w);
    }
    return err != 0 ? err : check_lease(w);
}

/* A connection that ended while nothing was sent (an idle one, a restarted server) is made again at
 * once: nothing of the batch can have been done. One that gives no answer is an error. */
static int begin_connected(struct maria_write *w)
{
    struct maria *s = w->maria;
    double from = maria_seconds();
    int err = maria_ready(s);
    if (err != 0) {
        return err;
    }
    err = begin(w);
    if (s->lost && !s->fenced && maria_seconds() - from < 1.0) {
        err = maria_ready(s);
        err = err != 0 ? err : begin(w);
    }
    return err;
}

/* Tries the batch once. Any error: nothing is committed, or the outcome is unknown. */
static int write_transaction(struct maria_write *w)
{
    struct maria *s = w->maria;
    struct ledger_batch *batch = w->batch;
    s->base.events_count = 0;
    s->events_stored = 0;
    w->epochs_known = false;
    plan_clear(&s->plan);
    int err = begin_connected(w);
    if (err == 0) {
        err = w->care == CARE_EACH && batch->count > 0 ? run_in_pieces(w, batch->ops, batch->count)
                                                       : run_ops(w, batch->ops, batch->count);
    }
    if (err == 0) {
        err = db_sums_write(&s->base, batch->ops, batch->count);
        err = err == MARIA_REFUSED ? ERR_CORRUPT : err; /* no constraint stands on a sum */
    }
    if (err == 0) {
        err = maria_events_store(w);
    }
    if (err == 0) {
        err = db_run(&s->base, MARIA_CURSOR_SET, v_int((int64_t)batch->booked_lsn),
                     v_int((int64_t)batch->booked_lsn));
    }
    if (err == 0) {
        err = maria_do(s, "COMMIT");
        s->lost = s->lost || err != 0; /* whatever became of it, the next connection sees it */
    }
    if (err != 0) {
        maria_rollback(s);
        plan_clear(&s->plan);
        s->base.events_count = 0;
    }
    return err;
}

/* One try, with more care each time that something is refused. */
static int write_carefully(struct maria_write *w)
{
    int err = write_transaction(w);
    while (err == MARIA_REFUSED) {
        CHECK(w->care != CARE_EACH); /* then a refusal is an op's outcome */
        w->care++;
        err = write_transaction(w);
    }
    return err;
}

/* In a shared ledger the others' turns are waited for, too, as long as for an answer. */
static int write_batch(struct maria_write *w)
{
    int err = MARIA_AGAIN;
    bool shared = w->maria->segments > 0;
    int tries = shared ? SHARED_TRIES : DEADLOCK_TRIES;
    double end = maria_seconds() + (double)w->maria->timeout_s;
    for (int i = 0; i < tries && err == MARIA_AGAIN && (i == 0 || !shared || maria_seconds() < end);
         i++) {
        err = write_carefully(w);
    }
    return err == MARIA_AGAIN ? ERR_BUSY : err;
}

/* Whether the bookings of the next batch may be expected to be new: those of this one were, or of the
 * last one that had any. After trouble, and at first, messages come twice. */
static bool expects_new(const struct maria *s, const struct ledger_batch *batch)
{
    bool expects = s->expects_new;
    for (size_t i = 0; i < batch->count; i++) {
        const struct ledger_op *op = batch->ops[i];
        if (op->kind == LEDGER_BOOK) {
            expects = !op->repeated && op->order.state == ORDER_LOCKED;
            if (!expects) {
                break;
            }
        }
    }
    return expects;
}

/* op.epoch is asked and answered in one place: it changes when the answer is sure, not before, or a
 * second try would ask for something else. Until then the answer is in op.order.lsn. */
static void answer_epochs(struct ledger_batch *batch)
{
    for (size_t i = 0; i < batch->count; i++) {
        struct ledger_op *op = batch->ops[i];
        bool answered = op->refusal == REFUSAL_NONE || op->refusal == REFUSAL_STALE_EPOCH;
        if (op->kind == LEDGER_EPOCH && answered) {
            op->epoch = op->order.lsn;
            op->order.lsn = 0;
        }
    }
}

static int shared_event(struct db_write *w, struct ledger_event event)
{
    return maria_event((struct maria_write *)w, event);
}

static int shared_item(struct db_write *w, uint64_t id, struct db_item **ret_item)
{
    return maria_plan_item((struct maria_write *)w, id, ret_item);
}

static const struct db_write_ops maria_write_ops = {.event = shared_event,
                                                    .item = shared_item,
                                                    .fix_homes = maria_fix_homes,
                                                    .allot = maria_allot,
                                                    .allot_more = maria_allot_more};

void maria_write(struct ledger *ledger, struct ledger_batch *batch)
{
    struct maria *s = maria_of(ledger);
    CHECK(!s->read_only);
    for (size_t i = 0; i < batch->count; i++) {
        CHECK((unsigned)batch->ops[i]->kind < LEDGER_KIND_COUNT);
        batch->ops[i]->sale = NULL; /* out: whatever is there is not ours */
    }
    struct maria_write w = {.base = {.db = &s->base, .ops = &maria_write_ops},
                            .maria = s,
                            .batch = batch,
                            .care = s->expects_new ? CARE_NONE : CARE_LOOK};
    int err = write_batch(&w);
    s->expects_new = err == 0 && expects_new(s, batch);
    if (err == 0) {
        s->base.last_event += s->base.events_count;
        answer_epochs(batch);
    } else {
        for (size_t i = 0; i < batch->count; i++) {
            db_op_clear(batch->ops[i]);
        }
    }
    batch->error = err;
    batch->events = s->base.events;
    batch->events_count = s->base.events_count;
}
