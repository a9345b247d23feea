/*
 * A batch of ops as one transaction.
 *
 * Happy path: BEGIN IMMEDIATE; each op in its order; one stock update per item for the whole batch;
 * the journal's cursor; COMMIT (synced). Then the batch's events are the committed ones.
 *
 * Trouble: when a constraint refuses a statement, everything is rolled back and the batch is done
 * again carefully: each op looks before it writes, writes its stock at once and stands in its own
 * savepoint, so a bad one is undone alone. A savepoint costs a copy of every page touched, which
 * is why the happy path has none.
 *
 * What can go wrong: a full disk, an I/O error, a foreign lock. The transaction is rolled back,
 * the batch gets the error, and the instance goes on. Nothing in memory outlives a transaction
 * but last_event, which moves only after COMMIT: event numbers have no gaps.
 *
 * The WAL is copied into the file before a batch, not after one: a committed batch is answered first.
 */
#include <stdlib.h>

#include "backend/sqlite/store.h"
#include "base/check.h"
#include "base/err.h"

/* 32 MiB: pages that many batches touch are then copied back once for all of them. */
#define WAL_CHECKPOINT_PAGES 8192
/* 128 MiB: readers have kept the WAL from starting over; now the writer waits for them a little. */
#define WAL_TRUNCATE_PAGES 32768
#define WAL_TRUNCATE_WAIT_MS 200

/* Ops of a ledger whose gate has several segments. */
static int op_absent(struct write *w, struct ledger_op *op)
{
    (void)w;
    op->refusal = REFUSAL_BAD_STATE;
    return 0;
}

/* As all ledgers run it. */
static int op_shared(struct write *w, struct ledger_op *op)
{
    return db_op(&w->base, op);
}

static const struct {
    int (*run)(struct write *w, struct ledger_op *op);
    bool stock_first;          /* it reads or changes rows that the item cache stands for */
    enum refusal when_refused; /* by a constraint, done alone */
} op_table[] = {
    [LEDGER_BOOK] = {op_book, false, REFUSAL_BAD_REQUEST},
    [LEDGER_PAY] = {op_pay, false, REFUSAL_BAD_STATE},
    [LEDGER_CANCEL] = {op_cancel, false, REFUSAL_BAD_STATE},
    [LEDGER_EXPIRE] = {op_expire, false, REFUSAL_BAD_STATE},
    [LEDGER_RESTOCK] = {op_shared, true, REFUSAL_BAD_REQUEST},
    [LEDGER_SALE_CREATE] = {op_shared, true, REFUSAL_BAD_REQUEST},
    [LEDGER_SALE_CHANGE] = {op_shared, true, REFUSAL_BAD_REQUEST},
    [LEDGER_SALE_DELETE] = {op_shared, true, REFUSAL_BAD_STATE},
    [LEDGER_SALE_MOVE] = {op_shared, true, REFUSAL_BAD_STATE},
    [LEDGER_SALE_FORGET] = {op_shared, true, REFUSAL_BAD_STATE},
    [LEDGER_CURSOR] = {op_shared, false, REFUSAL_BAD_REQUEST},
    [LEDGER_BLOCK] = {op_shared, false, REFUSAL_BAD_REQUEST},
    [LEDGER_UNBLOCK] = {op_shared, false, REFUSAL_BAD_REQUEST},
    [LEDGER_FAIL] = {op_absent, true, REFUSAL_BAD_STATE},
    [LEDGER_EPOCH] = {op_absent, true, REFUSAL_BAD_STATE},
    [LEDGER_TRANSFER] = {op_absent, true, REFUSAL_BAD_STATE},
    [LEDGER_TRANSFERRED] = {op_absent, true, REFUSAL_BAD_STATE},
};
_Static_assert(sizeof(op_table) / sizeof(op_table[0]) == LEDGER_KIND_COUNT, "an op without a row");

int write_event(struct write *w, struct ledger_event event)
{
    struct db *db = w->base.db;
    event.at_ms = w->base.now_ms;
    event.segment = 0; /* there is one gate */
    int err = db_event_add(db, event);
    if (err != 0) {
        return err;
    }
    bool has_order = event.id.hi != 0;
    struct id_text id = id_text_of(event.id);
    err = db_run(db, SQL_EVENT_ADD, v_int((int64_t)db->events[db->events_count - 1].number),
                 v_text(ledger_event_text(event.kind)), v_int(event.at_ms),
                 v_nonzero((int64_t)event.sale), v_nonzero((int64_t)event.item),
                 v_nonzero((int64_t)event.user), has_order ? v_id(&id) : v_null(),
                 v_nonzero(event.qty), v_text(ledger_refusal_name(event.reason)),
                 v_nonzero(event.a), v_nonzero(event.b), v_nonzero(event.c), v_nonzero(event.d));
    return err == STORE_REFUSED ? ERR_CORRUPT : err; /* somebody else wrote events */
}

/* The slot of the item, or the empty one where it belongs. */
static struct store_item *items_slot(const struct store_items *items, uint64_t id)
{
    size_t mask = items->capacity - 1;
    size_t at = (size_t)(id * 0x9e3779b97f4a7c15ULL >> 32) & mask;
    while (items->slots[at].stamp == items->stamp && items->slots[at].item.id != id) {
        at = (at + 1) & mask;
    }
    return &items->slots[at];
}

static int items_grow(struct store_items *items)
{
    struct store_items bigger = *items;
    bigger.capacity = items->capacity == 0 ? 64 : 2 * items->capacity;
    bigger.slots = calloc(bigger.capacity, sizeof(*bigger.slots));
    if (bigger.slots == NULL) {
        return ERR_NOMEM;
    }
    for (size_t i = 0; i < items->capacity; i++) {
        if (items->slots[i].stamp == items->stamp) {
            *items_slot(&bigger, items->slots[i].item.id) = items->slots[i];
        }
    }
    free(items->slots);
    *items = bigger;
    return 0;
}

static void items_forget(struct store_items *items)
{
    items->stamp++;
    items->used = 0;
}

int write_item(struct write *w, uint64_t id, struct db_item **ret_item)
{
    struct store_items *items = &w->store->items;
    if (2 * items->used >= items->capacity) {
        int err = items_grow(items);
        if (err != 0) {
            return err;
        }
    }
    struct store_item *slot = items_slot(items, id);
    if (slot->stamp != items->stamp) {
        int err = db_item_load(w->base.db, id, &slot->item);
        if (err != 0) {
            return err;
        }
        slot->stamp = items->stamp;
        items->used++;
    }
    *ret_item = &slot->item;
    return 0;
}

/* Writes the moves kept back so far: one update per item. */
static int write_stock(struct write *w)
{
    struct store_items *items = &w->store->items;
    if (items->used == 0) {
        return 0;
    }
    w->guard = REFUSAL_NO_STOCK;
    for (size_t i = 0; i < items->capacity; i++) {
        struct db_item *item = &items->slots[i].item;
        if (items->slots[i].stamp != items->stamp ||
            (item->move_available == 0 && item->move_locked == 0 && item->move_sold == 0)) {
            continue;
        }
        int err =
            db_run(&w->store->base, SQL_STOCK_MOVE, v_int((int64_t)item->id),
                   v_int(item->move_available), v_int(item->move_locked), v_int(item->move_sold));
        if (err != 0) {
            return err;
        }
        item->move_available = item->move_locked = item->move_sold = 0;
    }
    return 0;
}

static int op_run(struct write *w, struct ledger_op *op)
{
    CHECK((unsigned)op->kind < LEDGER_KIND_COUNT);
    if (!op_table[op->kind].stock_first) {
        return op_table[op->kind].run(w, op);
    }
    int err = write_stock(w);
    items_forget(&w->store->items);
    if (err == 0) {
        err = op_table[op->kind].run(w, op);
    }
    items_forget(&w->store->items);
    return err;
}

/* One try of an op in its savepoint. STORE_REFUSED: undone, as if it had not been tried. */
static int op_try(struct write *w, struct ledger_op *op,
                  int (*run)(struct write *w, struct ledger_op *op))
{
    struct store *s = w->store;
    size_t events_count = s->base.events_count;
    int err = store_do(s, SQL_OP_BEGIN);
    if (err != 0) {
        return err;
    }
    db_op_clear(op);
    err = run(w, op);
    if (err == 0) {
        err = write_stock(w);
    }
    if (err == STORE_REFUSED) {
        s->base.events_count = events_count;
        items_forget(&s->items);
        db_op_clear(op);
        int undo = store_do(s, SQL_OP_UNDO);
        if (undo != 0) {
            return undo;
        }
    } else if (err != 0) {
        return err;
    }
    int keep = store_do(s, SQL_OP_KEEP);
    return keep != 0 ? keep : err;
}

static int op_run_failed(struct write *w, struct ledger_op *op)
{
    return op_book_failed(w, op, w->guard);
}

/* One by one: what the constraints refuse is the op's own outcome, its neighbours go on. */
static int op_run_carefully(struct write *w, struct ledger_op *op)
{
    w->guard = REFUSAL_NONE;
    int err = op_try(w, op, op_run);
    if (err == STORE_REFUSED && op->kind == LEDGER_BOOK && w->guard != REFUSAL_NONE) {
        err = op_try(w, op, op_run_failed);
    }
    if (err == STORE_REFUSED) {
        op->refusal = op_table[op->kind].when_refused;
        err = 0;
    }
    return err;
}

static int write_ops(struct write *w)
{
    for (size_t i = 0; i < w->batch->count; i++) {
        struct ledger_op *op = w->batch->ops[i];
        int err;
        if (w->careful) {
            err = op_run_carefully(w, op);
        } else {
            db_op_clear(op);
            err = op_run(w, op);
        }
        if (err != 0) {
            return err;
        }
    }
    return write_stock(w);
}

/* One try of the batch. Anything but 0: nothing is committed. */
static int write_transaction(struct write *w)
{
    struct store *s = w->store;
    s->base.events_count = 0;
    items_forget(&s->items);
    int err = store_do(s, SQL_BEGIN_WRITE);
    if (err == 0) {
        err = write_ops(w);
    }
    if (err == 0) {
        err = db_sums_write(&s->base, w->batch->ops, w->batch->count);
        err = err == STORE_REFUSED ? ERR_CORRUPT : err; /* no constraint stands on a sum */
    }
    if (err == 0) {
        err = db_run(&s->base, SQL_CURSOR_SET, v_int((int64_t)w->batch->booked_lsn));
    }
    if (err == 0) {
        err = store_do(s, SQL_COMMIT);
    }
    if (err != 0) {
        store_rollback(s);
        s->base.events_count = 0;
    }
    return err;
}

/* A checkpoint that fails is tried again later: the WAL holds everything meanwhile. */
static void wal_fold(struct store *s)
{
    if (s->wal_pages < WAL_CHECKPOINT_PAGES) {
        return;
    }
    bool overlong = s->wal_pages >= WAL_TRUNCATE_PAGES;
    if (!overlong) {
        s->wal_forced_at = 0;
    }
    if (overlong && s->wal_pages >= s->wal_forced_at + WAL_CHECKPOINT_PAGES) {
        s->wal_forced_at = s->wal_pages;
        (void)sqlite3_busy_timeout(s->db, WAL_TRUNCATE_WAIT_MS);
        (void)sqlite3_wal_checkpoint_v2(s->db, NULL, SQLITE_CHECKPOINT_TRUNCATE, NULL, NULL);
        (void)sqlite3_busy_timeout(s->db, STORE_BUSY_TIMEOUT_MS);
    } else {
        (void)sqlite3_wal_checkpoint_v2(s->db, NULL, SQLITE_CHECKPOINT_PASSIVE, NULL, NULL);
    }
}

static int shared_event(struct db_write *w, struct ledger_event event)
{
    return write_event((struct write *)w, event);
}

static int shared_item(struct db_write *w, uint64_t id, struct db_item **ret_item)
{
    return write_item((struct write *)w, id, ret_item);
}

static const struct db_write_ops write_ops_table = {.event = shared_event, .item = shared_item};

void store_write(struct ledger *ledger, struct ledger_batch *batch)
{
    struct store *s = store_of(ledger);
    CHECK(!s->read_only);
    for (size_t i = 0; i < batch->count; i++) {
        batch->ops[i]->sale = NULL; /* out: whatever is there is not ours */
    }
    wal_fold(s);
    struct write w = {.base = {.db = &s->base, .ops = &write_ops_table, .now_ms = batch->now_ms},
                      .store = s,
                      .batch = batch};
    int err = write_transaction(&w);
    if (err == STORE_REFUSED) {
        w.careful = true;
        err = write_transaction(&w);
        CHECK(err != STORE_REFUSED); /* done one by one, a refusal is an op's outcome */
    }
    if (err == 0) {
        s->base.last_event += s->base.events_count;
    } else {
        for (size_t i = 0; i < batch->count; i++) {
            db_op_clear(batch->ops[i]);
        }
    }
    batch->error = err;
    batch->events = s->base.events;
    batch->events_count = s->base.events_count;
}
