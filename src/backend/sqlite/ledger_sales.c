/*
 * Sales: create, change, delete, move from state to state, forget.
 *
 * A draft is the operator's own paper: anything may change, nothing is an event, it may be thrown
 * away. From the first move on (warm or open) the gate knows the sale, every change is an event,
 * and only its name and its end may still be changed.
 *
 * Ids: those given must be free; the rest come from counters that never go back. A given id moves
 * its counter past it; ids from 2^52 on are left to operators and move nothing, so that the
 * counter cannot be driven to its end.
 *
 * An op decides before it writes: a refusal changed nothing.
 */
#include "backend/sqlite/store.h"
#include "base/check.h"
#include "base/err.h"

#define COUNTED_ID_MAX ((1ULL << 52) - 1)

struct next_ids {
    uint64_t sale;
    uint64_t item;
};

static int next_ids_read(struct store *s, struct next_ids *ret_next)
{
    sqlite3_stmt *row;
    int err = store_get_values(s, SQL_IDS, &row, NULL, 0);
    if (err != 0) {
        return err == ERR_NOTFOUND ? ERR_CORRUPT : err;
    }
    ret_next->sale = (uint64_t)sqlite3_column_int64(row, 0);
    ret_next->item = (uint64_t)sqlite3_column_int64(row, 1);
    store_done(row);
    return 0;
}

static int next_ids_write(struct store *s, const struct next_ids *next)
{
    return store_run(s, SQL_IDS_SET, v_int((int64_t)next->sale), v_int((int64_t)next->item));
}

static void next_id_pass(uint64_t *next, uint64_t given)
{
    if (given >= *next && given <= COUNTED_ID_MAX) {
        *next = given + 1;
    }
}

static bool item_id_is_double(const struct sale_row *sale, uint32_t at)
{
    for (uint32_t i = 0; i < at; i++) {
        if (sale->items[i].id == sale->items[at].id) {
            return true;
        }
    }
    return false;
}

/* Whether every given item id is free, or belongs to the sale whose items are replaced. */
static int item_ids_check(struct store *s, const struct sale_row *sale, uint64_t owner,
                          enum refusal *ret_refusal)
{
    *ret_refusal = REFUSAL_NONE;
    for (uint32_t i = 0; i < sale->items_count; i++) {
        if (sale->items[i].id == 0) {
            continue;
        }
        uint64_t found = owner;
        sqlite3_stmt *row;
        int err = store_get(s, SQL_ITEM_OWNER, &row, v_int((int64_t)sale->items[i].id));
        if (err == 0) {
            found = (uint64_t)sqlite3_column_int64(row, 0);
            store_done(row);
        } else if (err != ERR_NOTFOUND) {
            return err;
        }
        if (found != owner || item_id_is_double(sale, i)) {
            *ret_refusal = REFUSAL_EXISTS;
            return 0;
        }
    }
    return 0;
}

static int item_insert(struct store *s, uint64_t sale, uint32_t position, uint64_t id,
                       const struct item_row *item)
{
    int err = store_run(s, SQL_ITEM_ADD, v_int((int64_t)id), v_int((int64_t)sale), v_int(position),
                        v_text(item->name), v_nonempty(item->sku), v_nonempty(item->image_url),
                        v_int(item->price_cents), v_nonzero(item->was_cents),
                        v_int(item->limit_per_user));
    if (err == 0) {
        err = store_run(s, SQL_STOCK_ADD, v_int((int64_t)id), v_int((int64_t)item->total));
    }
    return err;
}

/* All items of a sale, in the order given. Their ids have been checked. */
static int items_insert(struct store *s, uint64_t id, const struct sale_row *sale,
                        struct next_ids *next)
{
    for (uint32_t i = 0; i < sale->items_count; i++) {
        next_id_pass(&next->item, sale->items[i].id);
    }
    for (uint32_t i = 0; i < sale->items_count; i++) {
        uint64_t given = sale->items[i].id;
        int err = item_insert(s, id, i, given != 0 ? given : next->item++, &sale->items[i]);
        if (err != 0) {
            return err;
        }
    }
    return 0;
}

static int items_delete(struct store *s, uint64_t sale)
{
    int err = store_run(s, SQL_RESTOCKS_DROP, v_int((int64_t)sale));
    if (err == 0) {
        err = store_run(s, SQL_STOCK_DROP, v_int((int64_t)sale));
    }
    return err != 0 ? err : store_run(s, SQL_ITEMS_DROP, v_int((int64_t)sale));
}

/* The row into *ret_sale; where there is none the op is refused and 0 comes with NULL. */
static int sale_find(struct write *w, struct ledger_op *op, uint64_t id, struct sale_row **ret_sale)
{
    *ret_sale = NULL;
    int err = sale_row_load(w->store, id, ret_sale);
    if (err == ERR_NOTFOUND) {
        op->refusal = REFUSAL_NOT_FOUND;
        return 0;
    }
    return err;
}

int op_sale_create(struct write *w, struct ledger_op *op)
{
    struct store *s = w->store;
    const struct sale_row *in = op->sale_in;
    struct next_ids next;
    int err = next_ids_read(s, &next);
    if (err != 0) {
        return err;
    }
    if (in->id != 0) {
        struct sale_row *existing = NULL;
        err = sale_row_load(s, in->id, &existing);
        sale_row_free(existing);
        if (err == 0) {
            op->refusal = REFUSAL_EXISTS;
        }
        if (err != ERR_NOTFOUND) {
            return err;
        }
    }
    err = item_ids_check(s, in, 0, &op->refusal);
    if (err != 0 || op->refusal != REFUSAL_NONE) {
        return err;
    }
    next_id_pass(&next.sale, in->id);
    uint64_t id = in->id != 0 ? in->id : next.sale++;
    err = store_run(s, SQL_SALE_ADD, v_int((int64_t)id), v_text(in->name),
                    v_text(sale_state_text(SALE_DRAFT)), v_int(in->bar_unpaid),
                    v_int(in->pay_within_s), v_int(in->starts_at_ms), v_int(in->ends_at_ms),
                    v_int(w->batch->now_ms), v_text(in->currency), v_nonempty(in->pay_url));
    if (err == 0) {
        err = items_insert(s, id, in, &next);
    }
    if (err == 0) {
        err = next_ids_write(s, &next);
    }
    return err != 0 ? err : sale_row_load(s, id, &op->sale);
}

static bool item_same(const struct item_row *have, const struct item_row *given)
{
    return (given->id == 0 || given->id == have->id) && given->price_cents == have->price_cents &&
           given->was_cents == have->was_cents && given->limit_per_user == have->limit_per_user &&
           given->total == have->total && strcmp(given->name, have->name) == 0 &&
           strcmp(given->sku, have->sku) == 0 && strcmp(given->image_url, have->image_url) == 0;
}

static bool items_same(const struct sale_row *have, const struct sale_row *given)
{
    if (have->items_count != given->items_count) {
        return false;
    }
    for (uint32_t i = 0; i < have->items_count; i++) {
        if (!item_same(&have->items[i], &given->items[i])) {
            return false;
        }
    }
    return true;
}

/* Which of the members given differ from what the sale has: a subset of `changes`. */
static uint32_t sale_differs(const struct sale_row *have, const struct sale_row *given,
                             uint32_t changes)
{
    const struct {
        uint32_t member;
        bool same;
    } members[] = {
        {SALE_HAS_NAME, strcmp(have->name, given->name) == 0},
        {SALE_HAS_STARTS, have->starts_at_ms == given->starts_at_ms},
        {SALE_HAS_ENDS, have->ends_at_ms == given->ends_at_ms},
        {SALE_HAS_PAY_WITHIN, have->pay_within_s == given->pay_within_s},
        {SALE_HAS_CURRENCY, strcmp(have->currency, given->currency) == 0},
        {SALE_HAS_PAY_URL, strcmp(have->pay_url, given->pay_url) == 0},
        {SALE_HAS_BAR, have->bar_unpaid == given->bar_unpaid},
        {SALE_HAS_ITEMS, (changes & SALE_HAS_ITEMS) == 0 || items_same(have, given)},
    };
    uint32_t differs = 0;
    for (size_t i = 0; i < sizeof(members) / sizeof(members[0]); i++) {
        if (!members[i].same) {
            differs |= members[i].member;
        }
    }
    return differs & changes;
}

/* Takes the members in `differs` over, but for the items. */
static void sale_take_over(struct sale_row *sale, const struct sale_row *given, uint32_t differs)
{
    if (differs & SALE_HAS_NAME) {
        memcpy(sale->name, given->name, sizeof(sale->name));
    }
    if (differs & SALE_HAS_STARTS) {
        sale->starts_at_ms = given->starts_at_ms;
    }
    if (differs & SALE_HAS_ENDS) {
        sale->ends_at_ms = given->ends_at_ms;
    }
    if (differs & SALE_HAS_PAY_WITHIN) {
        sale->pay_within_s = given->pay_within_s;
    }
    if (differs & SALE_HAS_CURRENCY) {
        memcpy(sale->currency, given->currency, sizeof(sale->currency));
    }
    if (differs & SALE_HAS_PAY_URL) {
        memcpy(sale->pay_url, given->pay_url, sizeof(sale->pay_url));
    }
    if (differs & SALE_HAS_BAR) {
        sale->bar_unpaid = given->bar_unpaid;
    }
}

static int sale_update(struct store *s, const struct sale_row *sale)
{
    return store_run(s, SQL_SALE_SET, v_int((int64_t)sale->id), v_text(sale->name),
                     v_int(sale->bar_unpaid), v_int(sale->pay_within_s), v_int(sale->starts_at_ms),
                     v_int(sale->ends_at_ms), v_text(sale->currency), v_nonempty(sale->pay_url));
}

static int items_replace(struct store *s, uint64_t sale, const struct sale_row *given)
{
    struct next_ids next;
    int err = next_ids_read(s, &next);
    if (err == 0) {
        err = items_delete(s, sale);
    }
    if (err == 0) {
        err = items_insert(s, sale, given, &next);
    }
    return err != 0 ? err : next_ids_write(s, &next);
}

/* What forbids the change, if anything does; `sale` has it already. */
static int sale_change_check(struct write *w, const struct ledger_op *op,
                             const struct sale_row *sale, uint32_t differs,
                             enum refusal *ret_refusal)
{
    *ret_refusal = REFUSAL_NONE;
    if (sale->state != SALE_DRAFT) {
        bool too_much = (differs & ~(uint32_t)(SALE_HAS_NAME | SALE_HAS_ENDS)) != 0;
        bool too_late = (differs & SALE_HAS_ENDS) != 0 && sale->state == SALE_CLOSED;
        if (too_much || too_late) {
            *ret_refusal = REFUSAL_BAD_STATE;
            return 0;
        }
    }
    if (sale->ends_at_ms <= sale->starts_at_ms) {
        *ret_refusal = REFUSAL_BAD_REQUEST;
        return 0;
    }
    return (differs & SALE_HAS_ITEMS) == 0
               ? 0
               : item_ids_check(w->store, op->sale_in, sale->id, ret_refusal);
}

/* `sale` is ours: the row as it is, changed here on its way back into the table. */
static int sale_change(struct write *w, struct ledger_op *op, struct sale_row *sale)
{
    uint32_t differs = sale_differs(sale, op->sale_in, op->changes);
    sale_take_over(sale, op->sale_in, differs);
    int err = sale_change_check(w, op, sale, differs, &op->refusal);
    if (err != 0 || op->refusal != REFUSAL_NONE) {
        return err;
    }
    op->repeated = differs == 0;
    if (differs != 0) {
        err = sale_update(w->store, sale);
    }
    if (err == 0 && (differs & SALE_HAS_ITEMS) != 0) {
        err = items_replace(w->store, sale->id, op->sale_in);
    }
    if (err == 0 && differs != 0 && sale->state != SALE_DRAFT) {
        err = write_event(w, (struct ledger_event){.kind = EVENT_SALE_CHANGED,
                                                   .sale = sale->id,
                                                   .a = sale->ends_at_ms});
    }
    return err != 0 ? err : sale_row_load(w->store, sale->id, &op->sale);
}

int op_sale_change(struct write *w, struct ledger_op *op)
{
    struct sale_row *sale;
    int err = sale_find(w, op, op->sale_id != 0 ? op->sale_id : op->sale_in->id, &sale);
    if (err == 0 && sale != NULL) {
        err = sale_change(w, op, sale);
    }
    sale_row_free(sale);
    return err;
}

int op_sale_delete(struct write *w, struct ledger_op *op)
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
    err = items_delete(w->store, sale->id);
    return err != 0 ? err : store_run(w->store, SQL_SALE_DROP, v_int((int64_t)sale->id));
}

enum move_kind { MOVE_BAD, MOVE_SAME, MOVE_LOADS, MOVE_PLAIN };

/* The moves of a sale: from (row) to (column). LOADS: the gate does not know it yet. */
static const enum move_kind sale_moves[SALE_STATE_COUNT][SALE_STATE_COUNT] = {
    [SALE_DRAFT] = {[SALE_WARM] = MOVE_LOADS, [SALE_OPEN] = MOVE_LOADS},
    [SALE_WARM] = {[SALE_WARM] = MOVE_SAME,
                   [SALE_OPEN] = MOVE_PLAIN,
                   [SALE_PAUSED] = MOVE_PLAIN,
                   [SALE_CLOSED] = MOVE_PLAIN},
    [SALE_OPEN] = {[SALE_OPEN] = MOVE_SAME, [SALE_PAUSED] = MOVE_PLAIN, [SALE_CLOSED] = MOVE_PLAIN},
    [SALE_PAUSED] =
        {[SALE_OPEN] = MOVE_PLAIN, [SALE_PAUSED] = MOVE_SAME, [SALE_CLOSED] = MOVE_PLAIN},
    [SALE_CLOSED] = {[SALE_CLOSED] = MOVE_SAME},
};

/* The table, and the clock: no opening after the end, no pause before the start. */
static enum move_kind sale_move_kind(const struct sale_row *sale, enum sale_state target,
                                     int64_t now_ms)
{
    enum move_kind kind = sale_moves[sale->state][target];
    bool moves = kind == MOVE_LOADS || kind == MOVE_PLAIN;
    if (moves && target == SALE_OPEN && sale->ends_at_ms <= now_ms) {
        return MOVE_BAD;
    }
    if (moves && target == SALE_PAUSED && sale->starts_at_ms > now_ms) {
        return MOVE_BAD;
    }
    return kind;
}

static int sale_load_events(struct write *w, const struct sale_row *sale)
{
    int err = write_event(w, (struct ledger_event){.kind = EVENT_SALE_WARMED,
                                                   .sale = sale->id,
                                                   .a = sale->starts_at_ms,
                                                   .b = sale->ends_at_ms,
                                                   .c = sale->bar_unpaid});
    for (uint32_t i = 0; i < sale->items_count && err == 0; i++) {
        err = write_event(w, (struct ledger_event){.kind = EVENT_ITEM_LOADED,
                                                   .sale = sale->id,
                                                   .item = sale->items[i].id,
                                                   .a = (int64_t)sale->items[i].total,
                                                   .b = sale->items[i].limit_per_user});
    }
    return err;
}

static int sale_move_event(struct write *w, const struct sale_row *sale, enum sale_state target,
                           int64_t starts_at_ms)
{
    static const enum ledger_event_kind kinds[SALE_STATE_COUNT] = {
        [SALE_OPEN] = EVENT_SALE_OPENED,
        [SALE_PAUSED] = EVENT_SALE_PAUSED,
        [SALE_CLOSED] = EVENT_SALE_CLOSED,
    };
    if (target == SALE_WARM) {
        return 0; /* said by sale_load_events */
    }
    return write_event(w, (struct ledger_event){.kind = kinds[target],
                                                .sale = sale->id,
                                                .a = target == SALE_OPEN ? starts_at_ms : 0});
}

static int sale_move(struct write *w, struct ledger_op *op, const struct sale_row *sale)
{
    enum sale_state target = op->target;
    enum move_kind kind = sale_move_kind(sale, target, w->batch->now_ms);
    int err = 0;
    if (kind == MOVE_BAD) {
        op->refusal = REFUSAL_BAD_STATE;
        return 0;
    }
    op->repeated = kind == MOVE_SAME;
    if (kind == MOVE_LOADS) {
        err = sale_load_events(w, sale);
    }
    if (err == 0 && kind != MOVE_SAME) {
        int64_t starts_at_ms = sale->starts_at_ms;
        if (target == SALE_OPEN && starts_at_ms > w->batch->now_ms) {
            starts_at_ms = w->batch->now_ms;
        }
        err = store_run(w->store, SQL_SALE_MOVE, v_int((int64_t)sale->id),
                        v_text(sale_state_text(target)), v_int(starts_at_ms));
        if (err == 0) {
            err = sale_move_event(w, sale, target, starts_at_ms);
        }
    }
    return err != 0 ? err : sale_row_load(w->store, sale->id, &op->sale);
}

int op_sale_move(struct write *w, struct ledger_op *op)
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

/* stock.locked counts the units of LOCKED orders; QUEUED ones only the caller knows. */
static bool sale_has_locked(const struct sale_row *sale)
{
    for (uint32_t i = 0; i < sale->items_count; i++) {
        if (sale->items[i].locked > 0) {
            return true;
        }
    }
    return false;
}

static int sale_forget(struct write *w, struct ledger_op *op, const struct sale_row *sale)
{
    int err = 0;
    if (sale->state != SALE_CLOSED || sale_has_locked(sale)) {
        op->refusal = REFUSAL_BAD_STATE;
        return 0;
    }
    op->repeated = sale->forgotten;
    if (!sale->forgotten) {
        err = store_run(w->store, SQL_SALE_FORGET, v_int((int64_t)sale->id));
        if (err == 0) {
            err = write_event(
                w, (struct ledger_event){.kind = EVENT_SALE_FORGOTTEN, .sale = sale->id});
        }
    }
    return err != 0 ? err : sale_row_load(w->store, sale->id, &op->sale);
}

int op_sale_forget(struct write *w, struct ledger_op *op)
{
    struct sale_row *sale;
    int err = sale_find(w, op, op->sale_id, &sale);
    if (err == 0 && sale != NULL) {
        err = sale_forget(w, op, sale);
    }
    sale_row_free(sale);
    return err;
}
