/*
 * Sales: create, change, delete, move from state to state, forget.
 *
 * A draft is the operator's own paper: anything may change, nothing is an event, it may be thrown
 * away. From the first move on (warm or open) the gate knows the sale, every change is an event,
 * and only its name and its end may still be changed.
 *
 * What may change and move is port/ledger_rules; ids that are given must be free. An op decides before
 * it writes: a refusal changed nothing.
 */
#include <stdlib.h>

#include "backend/sql/db.h"
#include "base/check.h"
#include "base/err.h"

struct next_ids {
    uint64_t sale;
    uint64_t item;
};

static int next_ids_read(struct db *db, struct next_ids *ret_next)
{
    struct db_row *row;
    int err = db_get_plain(db, SQL_IDS, &row);
    if (err != 0) {
        return err == ERR_NOTFOUND ? ERR_CORRUPT : err;
    }
    ret_next->sale = db_u64(row, 0);
    ret_next->item = db_u64(row, 1);
    db_done(row);
    return 0;
}

static int next_ids_write(struct db *db, const struct next_ids *next)
{
    return db_run(db, SQL_IDS_SET, v_int((int64_t)next->sale), v_int((int64_t)next->item));
}

/* Whether every given item id is free, or belongs to the sale whose items are replaced. */
static int item_ids_check(struct db *db, const struct sale_row *sale, uint64_t owner,
                          enum refusal *ret_refusal)
{
    *ret_refusal = REFUSAL_NONE;
    for (uint32_t i = 0; i < sale->items_count; i++) {
        if (sale->items[i].id == 0) {
            continue;
        }
        uint64_t found = owner;
        struct db_row *row;
        int err = db_get(db, SQL_ITEM_OWNER, &row, v_int((int64_t)sale->items[i].id));
        if (err == 0) {
            found = db_u64(row, 0);
            db_done(row);
        } else if (err != ERR_NOTFOUND) {
            return err;
        }
        if (found != owner || ledger_item_is_double(sale, i)) {
            *ret_refusal = REFUSAL_EXISTS;
            return 0;
        }
    }
    return 0;
}

/* All items of a sale, in the order given, instead of those it has. Their ids have been checked. */
static int items_insert(struct db *db, uint64_t id, const struct sale_row *have,
                        const struct sale_row *sale, struct next_ids *next)
{
    enum { ITEM_VALUES = 9, STOCK_VALUES = 3 };
    size_t count = sale->items_count;
    struct value *items = calloc(count + 1, ITEM_VALUES * sizeof(*items));
    struct value *stock = calloc(count + 1, STOCK_VALUES * sizeof(*stock));
    int err = items == NULL || stock == NULL ? ERR_NOMEM : 0;
    for (uint32_t i = 0; i < count; i++) {
        ledger_id_pass(&next->item, sale->items[i].id);
    }
    for (uint32_t i = 0; i < count && err == 0; i++) {
        const struct item_row *item = &sale->items[i];
        uint64_t kept = ledger_item_id(have, sale, i);
        int64_t item_id = (int64_t)(kept != 0 ? kept : next->item++);
        const struct value row[ITEM_VALUES] = {
            v_int(item_id),           v_int((int64_t)id),         v_int(i),
            v_text(item->name),       v_nonempty(item->sku),      v_nonempty(item->image_url),
            v_int(item->price_cents), v_nonzero(item->was_cents), v_int(item->limit_per_user)};
        const struct value units[STOCK_VALUES] = {v_int(item_id), v_int((int64_t)item->total),
                                                  v_int((int64_t)item->total)};
        memcpy(items + (size_t)i * ITEM_VALUES, row, sizeof(row));
        memcpy(stock + (size_t)i * STOCK_VALUES, units, sizeof(units));
    }
    if (err == 0) {
        err = db_run_rows(db, SQL_ITEM_ADD, items, ITEM_VALUES, count);
    }
    if (err == 0) {
        err = db_run_rows(db, SQL_STOCK_ADD, stock, STOCK_VALUES, count);
    }
    free(items);
    free(stock);
    return err;
}

static int items_delete(struct db *db, uint64_t sale)
{
    int err = db_run(db, SQL_RESTOCKS_DROP, v_int((int64_t)sale));
    if (err == 0) {
        err = db_run(db, SQL_STOCK_DROP, v_int((int64_t)sale));
    }
    return err != 0 ? err : db_run(db, SQL_ITEMS_DROP, v_int((int64_t)sale));
}

/* The row into *ret_sale; where there is none the op is refused and 0 comes with NULL. */
static int sale_find(struct db_write *w, struct ledger_op *op, uint64_t id,
                     struct sale_row **ret_sale)
{
    *ret_sale = NULL;
    int err = db_sale_load(w->db, id, ret_sale);
    if (err == ERR_NOTFOUND) {
        op->refusal = REFUSAL_NOT_FOUND;
        return 0;
    }
    return err;
}

int db_op_sale_create(struct db_write *w, struct ledger_op *op)
{
    struct db *db = w->db;
    const struct sale_row *in = op->sale_in;
    struct next_ids next;
    int err = next_ids_read(db, &next);
    if (err != 0) {
        return err;
    }
    if (in->id != 0) {
        struct sale_row *existing = NULL;
        err = db_sale_load(db, in->id, &existing);
        sale_row_free(existing);
        if (err == 0) {
            op->refusal = REFUSAL_EXISTS;
        }
        if (err != ERR_NOTFOUND) {
            return err;
        }
    }
    err = item_ids_check(db, in, 0, &op->refusal);
    if (err != 0 || op->refusal != REFUSAL_NONE) {
        return err;
    }
    ledger_id_pass(&next.sale, in->id);
    uint64_t id = in->id != 0 ? in->id : next.sale++;
    err = db_run(db, SQL_SALE_ADD, v_int((int64_t)id), v_text(in->name),
                 v_text(sale_state_text(SALE_DRAFT)), v_int(in->bar_unpaid),
                 v_int(in->pay_within_s), v_int(in->starts_at_ms), v_int(in->ends_at_ms),
                 v_int(w->now_ms), v_text(in->currency), v_nonempty(in->pay_url));
    if (err == 0) {
        err = items_insert(db, id, NULL, in, &next);
    }
    if (err == 0) {
        err = next_ids_write(db, &next);
    }
    return err != 0 ? err : db_sale_load(db, id, &op->sale);
}

static int sale_update(struct db *db, const struct sale_row *sale)
{
    return db_run(db, SQL_SALE_SET, v_text(sale->name), v_int(sale->bar_unpaid),
                  v_int(sale->pay_within_s), v_int(sale->starts_at_ms), v_int(sale->ends_at_ms),
                  v_text(sale->currency), v_nonempty(sale->pay_url), v_int((int64_t)sale->id));
}

static int items_replace(struct db *db, const struct sale_row *sale, const struct sale_row *given)
{
    struct next_ids next;
    int err = next_ids_read(db, &next);
    if (err == 0) {
        err = items_delete(db, sale->id);
    }
    if (err == 0) {
        err = items_insert(db, sale->id, sale, given, &next);
    }
    return err != 0 ? err : next_ids_write(db, &next);
}

/* What forbids the change, if anything does; `sale` has it already. */
static int sale_change_check(struct db_write *w, const struct ledger_op *op,
                             const struct sale_row *sale, uint32_t differs,
                             enum refusal *ret_refusal)
{
    *ret_refusal = ledger_sale_change_refusal(sale, differs);
    if (*ret_refusal != REFUSAL_NONE || (differs & SALE_HAS_ITEMS) == 0) {
        return 0;
    }
    return item_ids_check(w->db, op->sale_in, sale->id, ret_refusal);
}

static int sale_event(struct db_write *w, enum ledger_event_kind kind, uint64_t sale, int64_t a)
{
    return w->ops->event(
        w, (struct ledger_event){.kind = kind, .segment = SEGMENT_ALL, .sale = sale, .a = a});
}

/* `sale` is ours: the row as it is, changed here on its way back into the table. */
static int sale_change(struct db_write *w, struct ledger_op *op, struct sale_row *sale)
{
    uint32_t differs = ledger_sale_differs(sale, op->sale_in, op->changes);
    ledger_sale_take_over(sale, op->sale_in, differs);
    int err = sale_change_check(w, op, sale, differs, &op->refusal);
    if (err != 0 || op->refusal != REFUSAL_NONE) {
        return err;
    }
    op->repeated = differs == 0;
    if (differs != 0) {
        err = sale_update(w->db, sale);
    }
    if (err == 0 && (differs & SALE_HAS_ITEMS) != 0) {
        err = items_replace(w->db, sale, op->sale_in);
    }
    if (err == 0 && differs != 0 && sale->state != SALE_DRAFT) {
        err = sale_event(w, EVENT_SALE_CHANGED, sale->id, sale->ends_at_ms);
    }
    return err != 0 ? err : db_sale_load(w->db, sale->id, &op->sale);
}

int db_op_sale_change(struct db_write *w, struct ledger_op *op)
{
    struct sale_row *sale;
    int err = sale_find(w, op, op->sale_id != 0 ? op->sale_id : op->sale_in->id, &sale);
    if (err == 0 && sale != NULL) {
        err = sale_change(w, op, sale);
    }
    sale_row_free(sale);
    return err;
}

int db_op_sale_delete(struct db_write *w, struct ledger_op *op)
{
    struct sale_row *sale;
    int err = sale_find(w, op, op->sale_id, &sale);
    if (err != 0 || sale == NULL) {
        return err;
    }
    if (sale->state != SALE_DRAFT) {
        op->refusal = REFUSAL_BAD_STATE;
        sale_row_free(sale);
        return 0;
    }
    op->sale = sale; /* as it was */
    err = items_delete(w->db, sale->id);
    return err != 0 ? err : db_run(w->db, SQL_SALE_DROP, v_int((int64_t)sale->id));
}

/* What the gate has to know: the sale, then its items; each segment its share of them. */
static int sale_load_events(struct db_write *w, const struct sale_row *sale)
{
    struct ledger_event warmed = ledger_sale_warmed(sale);
    warmed.segment = SEGMENT_ALL;
    int err = w->ops->event(w, warmed);
    if (sale->homes > 0) {
        return err != 0 ? err : w->ops->allot(w, sale);
    }
    for (uint32_t i = 0; i < sale->items_count && err == 0; i++) {
        err = w->ops->event(w, ledger_item_loaded(sale, i));
    }
    return err;
}

static int sale_move_event(struct db_write *w, const struct sale_row *sale, enum sale_state target,
                           int64_t starts_at_ms)
{
    enum ledger_event_kind kind = ledger_sale_move_event(target);
    if (kind == EVENT_NONE) {
        return 0; /* said by sale_load_events */
    }
    return sale_event(w, kind, sale->id, target == SALE_OPEN ? starts_at_ms : 0);
}

static int sale_move(struct db_write *w, struct ledger_op *op, struct sale_row *sale)
{
    enum sale_state target = op->target;
    enum ledger_move kind = ledger_sale_move(sale, target, w->now_ms);
    int err = 0;
    if (kind == LEDGER_MOVE_BAD) {
        op->refusal = REFUSAL_BAD_STATE;
        return 0;
    }
    op->repeated = kind == LEDGER_MOVE_SAME;
    if (kind == LEDGER_MOVE_LOADS) {
        err = w->ops->fix_homes != NULL ? w->ops->fix_homes(w, sale) : 0;
        err = err != 0 ? err : sale_load_events(w, sale);
    }
    if (err == 0 && kind != LEDGER_MOVE_SAME) {
        int64_t starts_at_ms = sale->starts_at_ms;
        if (target == SALE_OPEN && starts_at_ms > w->now_ms) {
            starts_at_ms = w->now_ms;
        }
        err = db_run(w->db, SQL_SALE_MOVE, v_text(sale_state_text(target)), v_int(starts_at_ms),
                     v_int((int64_t)sale->id));
        if (err == 0) {
            err = sale_move_event(w, sale, target, starts_at_ms);
        }
    }
    return err != 0 ? err : db_sale_load(w->db, sale->id, &op->sale);
}

int db_op_sale_move(struct db_write *w, struct ledger_op *op)
{
    CHECK((unsigned)op->target < SALE_STATE_COUNT);
    struct sale_row *sale;
    int err = sale_find(w, op, op->sale_id, &sale);
    if (err == 0 && sale != NULL) {
        err = sale_move(w, op, sale);
    }
    sale_row_free(sale);
    return err;
}

static int sale_forget(struct db_write *w, struct ledger_op *op, const struct sale_row *sale)
{
    int err = 0;
    if (sale->state != SALE_CLOSED || ledger_sale_has_locked(sale)) {
        op->refusal = REFUSAL_BAD_STATE;
        return 0;
    }
    op->repeated = sale->forgotten;
    if (!sale->forgotten) {
        err = db_run(w->db, SQL_SALE_FORGET, v_int((int64_t)sale->id));
        if (err == 0) {
            err = sale_event(w, EVENT_SALE_FORGOTTEN, sale->id, 0);
        }
    }
    return err != 0 ? err : db_sale_load(w->db, sale->id, &op->sale);
}

int db_op_sale_forget(struct db_write *w, struct ledger_op *op)
{
    struct sale_row *sale;
    int err = sale_find(w, op, op->sale_id, &sale);
    if (err == 0 && sale != NULL) {
        err = sale_forget(w, op, sale);
    }
    sale_row_free(sale);
    return err;
}
