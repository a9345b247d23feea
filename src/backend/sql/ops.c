/*
 * Ops that all ledgers run alike: RESTOCK, CURSOR, those on sales (sales.c) and on blocks (blocks.c);
 * and what every op needs: items, events, a clean answer.
 */
#include <stdlib.h>

#include "backend/sql/db.h"
#include "base/check.h"
#include "base/err.h"

int db_item_load(struct db *db, uint64_t id, struct db_item *ret_item)
{
    struct db_row *row;
    int err = db_get(db, SQL_ITEM, &row, v_int((int64_t)id));
    if (err != 0) {
        return err;
    }
    struct db_item item = {
        .id = id,
        .terms = {.sale = db_u64(row, 0),
                  .price_cents = db_u32(row, 1),
                  .pay_within_s = db_u32(row, 3)},
        .limit_per_user = db_u32(row, 2),
        .bar_unpaid = db_int(row, 4) != 0,
        .total = db_u64(row, 7),
        .available = db_int(row, 8),
        .homes = db_u32(row, 9),
    };
    err = sale_state_parse(db_span(row, 5), &item.sale_state);
    db_text(row, 6, item.terms.currency, sizeof(item.terms.currency));
    db_done(row);
    if (err != 0) {
        return ERR_CORRUPT;
    }
    *ret_item = item;
    return 0;
}

void db_stock_move(struct db_item *item, int64_t available, int64_t locked, int64_t sold)
{
    CHECK(available + locked + sold == 0);
    item->available += available;
    item->move_available += available;
    item->move_locked += locked;
    item->move_sold += sold;
}

int db_event_add(struct db *db, struct ledger_event event)
{
    if (db->events_count == db->events_capacity) {
        size_t capacity = db->events_capacity == 0 ? 256 : 2 * db->events_capacity;
        struct ledger_event *events = realloc(db->events, capacity * sizeof(*events));
        if (events == NULL) {
            return ERR_NOMEM;
        }
        db->events = events;
        db->events_capacity = capacity;
    }
    event.number = db->last_event + db->events_count + 1;
    db->events[db->events_count++] = event;
    return 0;
}

void db_op_clear(struct ledger_op *op)
{
    sale_row_free(op->sale);
    op->sale = NULL;
    op->refusal = REFUSAL_NONE;
    op->repeated = false;
    op->order = (struct order_row){0};
}

/* ---- CURSOR ---- */

/* A batch is alone, so what was read is still so when it is written. */
static int op_cursor(struct db_write *w, struct ledger_op *op)
{
    uint64_t number = 0;
    if (op->key[0] == '\0') {
        op->refusal = REFUSAL_BAD_REQUEST;
        return 0;
    }
    int err = db_read_to(w->db, op->key, &number);
    if (err != 0 || op->amount <= number) {
        op->repeated = err == 0;
        return err;
    }
    return db_run(w->db, SQL_READ_TO_SET, v_key(op->key), v_int((int64_t)op->amount),
                  v_int(w->now_ms));
}

/* ---- RESTOCK ---- */

/* An earlier restock under this key. ERR_NOTFOUND: there is none. */
static int restock_answer_existing(struct db_write *w, struct ledger_op *op)
{
    struct db_row *row;
    int err = db_get(w->db, SQL_RESTOCKED, &row, v_int((int64_t)op->item), v_key(op->key));
    if (err != 0) {
        return err;
    }
    op->repeated = db_u64(row, 0) == op->amount;
    op->refusal = op->repeated ? REFUSAL_NONE : REFUSAL_DIFFERENT_REQUEST;
    db_done(row);
    return 0;
}

static int restock(struct db_write *w, struct ledger_op *op, const struct db_item *item)
{
    int64_t amount = (int64_t)op->amount;
    int err = db_run(w->db, SQL_RESTOCK, v_int(amount), v_int(amount), v_int((int64_t)item->id));
    if (err == 0) {
        err = db_run(w->db, SQL_RESTOCK_ADD, v_int((int64_t)item->id), v_key(op->key),
                     v_int(amount), v_int(w->now_ms));
    }
    /* The gate loads a draft's item with its total when it is warmed. */
    if (err == 0 && item->homes > 0) {
        err = w->ops->allot_more(w, item, op->amount);
    } else if (err == 0 && item->sale_state != SALE_DRAFT) {
        err = w->ops->event(w, (struct ledger_event){.kind = EVENT_ITEM_RESTOCKED,
                                                     .sale = item->terms.sale,
                                                     .item = item->id,
                                                     .a = amount});
    }
    return err != 0 ? err : db_sale_load(w->db, item->terms.sale, &op->sale);
}

static int op_restock(struct db_write *w, struct ledger_op *op)
{
    struct db_item *item;
    int err = w->ops->item(w, op->item, &item);
    if (err == ERR_NOTFOUND) {
        op->refusal = REFUSAL_NO_SUCH_ITEM;
        return 0;
    }
    if (err == 0) {
        err = restock_answer_existing(w, op);
    }
    if (err == 0 && op->repeated) {
        return db_sale_load(w->db, item->terms.sale, &op->sale);
    }
    if (err != ERR_NOTFOUND) {
        return err;
    }
    if (item->sale_state == SALE_CLOSED) {
        op->refusal = REFUSAL_BAD_STATE;
        return 0;
    }
    if (op->amount == 0 || op->amount > STOCK_MAX || item->total + op->amount > STOCK_MAX) {
        op->refusal = REFUSAL_BAD_REQUEST;
        return 0;
    }
    return restock(w, op, item);
}

/* ---- the table ---- */

static int (*const op_table[LEDGER_KIND_COUNT])(struct db_write *w, struct ledger_op *op) = {
    [LEDGER_RESTOCK] = op_restock,
    [LEDGER_SALE_CREATE] = db_op_sale_create,
    [LEDGER_SALE_CHANGE] = db_op_sale_change,
    [LEDGER_SALE_DELETE] = db_op_sale_delete,
    [LEDGER_SALE_MOVE] = db_op_sale_move,
    [LEDGER_SALE_FORGET] = db_op_sale_forget,
    [LEDGER_CURSOR] = op_cursor,
    [LEDGER_BLOCK] = db_op_block,
    [LEDGER_UNBLOCK] = db_op_unblock,
};

/* The op has changed op->sale, or deleted it. Other processes read what changed since the number
 * they know (QUERY_SALE_CHANGES); drafts have no events. */
static int number_change(struct db_write *w, const struct ledger_op *op)
{
    return db_run(w->db, SQL_SALE_CHANGED, v_int((int64_t)op->sale->id));
}

int db_op(struct db_write *w, struct ledger_op *op)
{
    int err = op_table[op->kind](w, op);
    bool changed = err == 0 && op->refusal == REFUSAL_NONE && !op->repeated && op->sale != NULL;
    return changed ? number_change(w, op) : err;
}
