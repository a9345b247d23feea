/* Sales of the ledger in memory, and RESTOCK. What may change and move is port/ledger_rules. */
#include <stdlib.h>
#include <string.h>

#include "base/check.h"
#include "memory_private.h"

/* Whether every given item id is free, or belongs to the sale whose items are replaced. */
static bool ids_are_free(const struct memory_ledger *ledger, const struct sale_row *given,
                         uint64_t owner)
{
    for (uint32_t i = 0; i < given->items_count; i++) {
        struct sale_row *sale;
        uint64_t id = given->items[i].id;
        if (id != 0 && (ledger_item_is_double(given, i) ||
                        (memory_item(ledger, id, &sale) != NULL && sale->id != owner))) {
            return false;
        }
    }
    return true;
}

/* The items as given, with ids and stock; instead of those that the sale has. */
static void take_items(struct memory_ledger *ledger, struct sale_row *sale,
                       const struct sale_row *have, const struct sale_row *given)
{
    struct item_row *items =
        memory_must(calloc(given->items_count > 0 ? given->items_count : 1, sizeof(*items)));
    for (uint32_t i = 0; i < given->items_count; i++) {
        ledger_id_pass(&ledger->next_item, given->items[i].id);
    }
    for (uint32_t i = 0; i < given->items_count; i++) {
        items[i] = given->items[i];
        uint64_t kept = ledger_item_id(have, given, i);
        items[i].id = kept != 0 ? kept : ledger->next_item++;
        items[i].sale = sale->id;
        items[i].available = items[i].total;
        items[i].locked = items[i].sold = 0;
    }
    free(sale->items);
    sale->items = items;
    sale->items_count = given->items_count;
}

void memory_sale_create(struct memory_write *w, struct ledger_op *op)
{
    struct memory_ledger *ledger = w->ledger;
    const struct sale_row *in = op->sale_in;
    if ((in->id != 0 && memory_sale(ledger, in->id) != NULL) || !ids_are_free(ledger, in, 0)) {
        op->refusal = REFUSAL_EXISTS;
        return;
    }
    struct sale_row *sale = memory_sale_copy(in);
    ledger_id_pass(&ledger->next_sale, in->id);
    sale->id = in->id != 0 ? in->id : ledger->next_sale++;
    sale->state = SALE_DRAFT;
    sale->forgotten = false;
    sale->homes = 0;
    sale->regions.count = 0;
    sale->created_at_ms = w->now_ms;
    take_items(ledger, sale, NULL, in);
    ledger->sales = memory_grown(ledger->sales, ledger->sales_count, sizeof(struct sale_row *));
    ledger->sales[ledger->sales_count++] = sale;
    op->sale = memory_sale_copy(sale);
}

void memory_sale_change(struct memory_write *w, struct ledger_op *op)
{
    struct sale_row *sale =
        memory_sale(w->ledger, op->sale_id != 0 ? op->sale_id : op->sale_in->id);
    if (sale == NULL) {
        op->refusal = REFUSAL_NOT_FOUND;
        return;
    }
    uint32_t differs = ledger_sale_differs(sale, op->sale_in, op->changes);
    struct sale_row changed = *sale;
    ledger_sale_take_over(&changed, op->sale_in, differs);
    op->refusal = ledger_sale_change_refusal(&changed, differs);
    bool items = (differs & SALE_HAS_ITEMS) != 0;
    if (op->refusal == REFUSAL_NONE && items && !ids_are_free(w->ledger, op->sale_in, sale->id)) {
        op->refusal = REFUSAL_EXISTS;
    }
    if (op->refusal != REFUSAL_NONE) {
        return;
    }
    *sale = changed;
    if (items) {
        take_items(w->ledger, sale, sale, op->sale_in);
    }
    op->repeated = differs == 0;
    if (differs != 0 && sale->state != SALE_DRAFT) {
        memory_sale_event(w, (struct ledger_event){.kind = EVENT_SALE_CHANGED,
                                                   .sale = sale->id,
                                                   .a = sale->ends_at_ms});
    }
    op->sale = memory_sale_copy(sale);
}

void memory_sale_delete(struct memory_write *w, struct ledger_op *op)
{
    struct memory_ledger *ledger = w->ledger;
    for (size_t i = 0; i < ledger->sales_count; i++) {
        if (ledger->sales[i]->id != op->sale_id) {
            continue;
        }
        if (ledger->sales[i]->state != SALE_DRAFT) {
            op->refusal = REFUSAL_BAD_STATE;
            return;
        }
        op->sale = ledger->sales[i]; /* as it was */
        ledger->sales[i] = ledger->sales[--ledger->sales_count];
        return;
    }
    op->refusal = REFUSAL_NOT_FOUND;
}

/* What the gate has to know: the sale, then its items, each segment its share of them. */
static void load(struct memory_write *w, struct sale_row *sale)
{
    sale->homes = w->ledger->segments;
    sale->regions = w->ledger->regions;
    memory_sale_event(w, ledger_sale_warmed(sale));
    if (sale->homes > 0) {
        memory_allot(w, sale);
        return;
    }
    for (uint32_t i = 0; i < sale->items_count; i++) {
        memory_sale_event(w, ledger_item_loaded(sale, i));
    }
}

void memory_sale_move(struct memory_write *w, struct ledger_op *op)
{
    struct sale_row *sale = memory_sale(w->ledger, op->sale_id);
    if (sale == NULL) {
        op->refusal = REFUSAL_NOT_FOUND;
        return;
    }
    enum ledger_move move = ledger_sale_move(sale, op->target, w->now_ms);
    if (move == LEDGER_MOVE_BAD) {
        op->refusal = REFUSAL_BAD_STATE;
        return;
    }
    op->repeated = move == LEDGER_MOVE_SAME;
    if (move == LEDGER_MOVE_LOADS) {
        load(w, sale);
    }
    if (move != LEDGER_MOVE_SAME) {
        bool opens = op->target == SALE_OPEN;
        if (opens && sale->starts_at_ms > w->now_ms) {
            sale->starts_at_ms = w->now_ms;
        }
        sale->state = op->target;
        enum ledger_event_kind kind = ledger_sale_move_event(op->target);
        if (kind != EVENT_NONE) {
            memory_sale_event(w, (struct ledger_event){.kind = kind,
                                                       .sale = sale->id,
                                                       .a = opens ? sale->starts_at_ms : 0});
        }
    }
    op->sale = memory_sale_copy(sale);
}

void memory_sale_forget(struct memory_write *w, struct ledger_op *op)
{
    struct sale_row *sale = memory_sale(w->ledger, op->sale_id);
    if (sale == NULL) {
        op->refusal = REFUSAL_NOT_FOUND;
        return;
    }
    if (sale->state != SALE_CLOSED || ledger_sale_has_locked(sale)) {
        op->refusal = REFUSAL_BAD_STATE;
        return;
    }
    op->repeated = sale->forgotten;
    if (!sale->forgotten) {
        sale->forgotten = true;
        memory_sale_event(w, (struct ledger_event){.kind = EVENT_SALE_FORGOTTEN, .sale = sale->id});
    }
    op->sale = memory_sale_copy(sale);
}

static enum refusal restock_refusal(const struct ledger_op *op, const struct sale_row *sale,
                                    const struct item_row *item, const struct memory_key *known)
{
    if (known != NULL) {
        return known->amount == op->amount ? REFUSAL_NONE : REFUSAL_DIFFERENT_REQUEST;
    }
    if (sale->state == SALE_CLOSED) {
        return REFUSAL_BAD_STATE;
    }
    bool fits = op->amount > 0 && op->amount <= STOCK_MAX && item->total + op->amount <= STOCK_MAX;
    return fits ? REFUSAL_NONE : REFUSAL_BAD_REQUEST;
}

void memory_restock(struct memory_write *w, struct ledger_op *op)
{
    struct sale_row *sale;
    struct item_row *item = memory_item(w->ledger, op->item, &sale);
    const struct memory_key *known = memory_key(w->ledger, op);
    if (item == NULL) {
        op->refusal = REFUSAL_NO_SUCH_ITEM;
        return;
    }
    op->refusal = restock_refusal(op, sale, item, known);
    if (op->refusal != REFUSAL_NONE) {
        return;
    }
    op->repeated = known != NULL;
    if (known == NULL) {
        item->total += op->amount;
        item->available += op->amount;
        memory_key_add(w->ledger, op);
        if (sale->homes > 0) {
            memory_allot_more(w, sale, op->item, op->amount);
        } else if (sale->state != SALE_DRAFT) {
            memory_sale_event(w, (struct ledger_event){.kind = EVENT_ITEM_RESTOCKED,
                                                       .sale = sale->id,
                                                       .item = op->item,
                                                       .a = (int64_t)op->amount});
        }
    }
    op->sale = memory_sale_copy(sale);
}
