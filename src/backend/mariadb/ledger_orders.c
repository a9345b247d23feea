/*
 * Orders and what moves with them, on the plan: BOOK, FAIL, PAY, CANCEL, EXPIRE.
 *
 * Every change of an order is four things: the order's row, the buyer's holding, the item's stock
 * (with the segment's share of it, where there are segments) and an event. What stays true: held =
 * units of the buyer's LOCKED and PAID orders; locked and sold = units of the item's LOCKED and PAID
 * orders, for the item and for each segment; an order row is written once and moved at most once.
 *
 * Pay, cancel and expire have one winner: each looks at the row inside a transaction that is alone.
 * A payment is in time while now < pay_by, an expiry from pay_by on: never both. In a shared ledger
 * "now" is the database's, whatever the writers' clocks say, for all that is written.
 */
#include "backend/mariadb/maria.h"
#include "base/check.h"
#include "base/err.h"

/* The item of a booking. ERR_NOTFOUND: the op is refused, no row can be made. */
static int book_item(struct maria_write *w, struct ledger_op *op, struct db_item **ret_item)
{
    const struct gate_command *command = &op->command;
    CHECK(command->kind == GATE_RESERVE);
    if (command->item != order_id_item(command->id)) {
        op->refusal = REFUSAL_BAD_REQUEST;
        return ERR_NOTFOUND;
    }
    int err = maria_plan_item(w, command->item, ret_item);
    if (err == ERR_NOTFOUND) {
        op->refusal = REFUSAL_NO_SUCH_ITEM;
    }
    return err;
}

/* The segment's share of the item; NULL: it has none, or there are no segments. */
static struct plan_allotment *allotment_of(struct maria_write *w, uint64_t item, uint32_t segment)
{
    return w->segments == 0 ? NULL : plan_allotment(&w->maria->plan, item, segment);
}

static enum refusal book_reason(struct maria_write *w, const struct ledger_op *op,
                                const struct db_item *item, const struct plan_holding *holding)
{
    const struct plan_allotment *allotment = allotment_of(w, item->id, op->segment);
    struct book_state state = {.qty = op->command.qty,
                               .limit = item->limit_per_user,
                               .held = holding->held,
                               .available = item->available,
                               .room = allotment != NULL ? allotment->room : 0};
    if (w->segments == 0) {
        state.room = state.available;
    }
    return ledger_book_reason(&state);
}

/* Units of an order move: in the item's stock, and in its segment's share. */
static void move_units(struct maria_write *w, struct db_item *item, const struct order_row *order,
                       int64_t locked, int64_t sold)
{
    struct plan_allotment *allotment = allotment_of(w, item->id, order->segment);
    db_stock_move(item, -locked - sold, locked, sold);
    if (allotment != NULL) {
        plan_allotment_move(allotment, locked, sold);
    }
}

/* A new order; `reason` as found, or as a constraint said it. */
static int book_as(struct maria_write *w, struct ledger_op *op, struct db_item *item,
                   struct plan_order *order, struct plan_holding *holding, enum refusal reason)
{
    op->order = ledger_order_of(&op->command, op->lsn, &item->terms, w->base.now_ms, reason);
    op->order.segment = w->segments > 0 ? op->segment : 0;
    order->row = op->order;
    order->exists = order->fresh = true;
    holding->limit_per_user = item->limit_per_user;
    holding->segment = holding->touched ? holding->segment : op->order.segment;
    bool alive = reason == REFUSAL_NONE;
    plan_hold(holding, alive ? op->order.qty : 0, alive ? 0 : 1, false);
    if (alive) {
        move_units(w, item, &op->order, op->order.qty, 0);
    }
    return maria_event(w, ledger_booked_event(&op->order, item->available));
}

/* A decision comes from a segment that there is; to be booked, from its present life. */
static int segment_check(struct maria_write *w, struct ledger_op *op)
{
    if (w->segments == 0) {
        return 0;
    }
    if (op->segment >= w->segments) {
        op->refusal = REFUSAL_BAD_REQUEST;
        return 0;
    }
    uint64_t epoch = 0;
    int err = op->kind == LEDGER_BOOK ? maria_epoch(w, op->segment, &epoch) : 0;
    if (err == 0 && op->kind == LEDGER_BOOK && (epoch == 0 || op->epoch != epoch)) {
        op->refusal = REFUSAL_STALE_EPOCH;
    }
    return err;
}

/* `forced`: what is known to be wrong with it; REFUSAL_NONE: nothing. */
static int book(struct maria_write *w, struct ledger_op *op, enum refusal forced)
{
    struct plan *plan = &w->maria->plan;
    struct db_item *item;
    int err = book_item(w, op, &item);
    if (err != 0) {
        return err == ERR_NOTFOUND ? 0 : err;
    }
    struct plan_order *order = plan_order(plan, op->command.id);
    CHECK(order != NULL); /* loaded for this op */
    if (order->exists) {
        op->order = order->row;
        op->repeated = true;
        return 0;
    }
    err = segment_check(w, op);
    if (err != 0 || op->refusal != REFUSAL_NONE) {
        return err;
    }
    struct plan_holding *holding = plan_holding_add(plan, op->command.item, op->command.user);
    if (holding == NULL) {
        return ERR_NOMEM;
    }
    enum refusal reason = forced != REFUSAL_NONE ? forced : book_reason(w, op, item, holding);
    return book_as(w, op, item, order, holding, reason);
}

int maria_op_book(struct maria_write *w, struct ledger_op *op)
{
    return book(w, op, REFUSAL_NONE);
}

int maria_op_book_failed(struct maria_write *w, struct ledger_op *op)
{
    return book(w, op, w->guard);
}

int maria_op_fail(struct maria_write *w, struct ledger_op *op)
{
    if (w->segments == 0) {
        op->refusal = REFUSAL_BAD_STATE;
        return 0;
    }
    if (op->reason == REFUSAL_NONE) {
        op->refusal = REFUSAL_BAD_REQUEST;
        return 0;
    }
    return book(w, op, op->reason);
}

/* A LOCKED order becomes final. */
static int order_end(struct maria_write *w, struct ledger_op *op, struct plan_order *order,
                     enum order_move move, enum ledger_event_kind kind)
{
    struct order_row *row = &order->row;
    struct db_item *item;
    CHECK(row->state == order_move_from(move));
    int err = maria_plan_item(w, row->item, &item);
    if (err != 0) {
        return err == ERR_NOTFOUND ? ERR_CORRUPT : err;
    }
    row->state = order_move_to(move);
    row->ended_at_ms = w->base.now_ms;
    order->moved = true;
    bool late =
        move == MOVE_CANCEL && ledger_cancel_bars(row, op, item->bar_unpaid, w->base.now_ms);
    bool barred = late || (move == MOVE_EXPIRE && item->bar_unpaid);
    row->reason = late ? REFUSAL_BARRED : REFUSAL_NONE;
    row->cooling_until_ms = move == MOVE_PAY ? 0 : ledger_cooling_until(op, barred, w->base.now_ms);
    if (move == MOVE_PAY) {
        memcpy(row->payment_id, op->key, sizeof(row->payment_id));
        move_units(w, item, row, -(int64_t)row->qty, row->qty);
    } else {
        struct plan_holding *holding = plan_holding_add(&w->maria->plan, row->item, row->user);
        if (holding == NULL) {
            return ERR_NOMEM;
        }
        holding->limit_per_user = item->limit_per_user;
        holding->segment = row->segment;
        plan_hold(holding, -(int64_t)row->qty, barred ? 0 : 1, barred);
        move_units(w, item, row, -(int64_t)row->qty, 0);
    }
    op->order = *row;
    return maria_event(w, ledger_order_event(kind, row));
}

int maria_op_pay(struct maria_write *w, struct ledger_op *op)
{
    struct plan_payment *payment = plan_payment(&w->maria->plan, span_of(op->key));
    struct plan_order *order = plan_order(&w->maria->plan, op->id);
    CHECK(payment != NULL && order != NULL); /* loaded for this op */
    if (payment->exists) {
        /* The payment that paid, told again. */
        if (memcmp(payment->fingerprint, op->fingerprint, sizeof(op->fingerprint)) != 0 ||
            (order->exists && !ledger_pay_currency_fits(&order->row, op))) {
            op->refusal = REFUSAL_DIFFERENT_REQUEST;
            return 0;
        }
        op->repeated = true;
        op->order = order->row;
        return order->exists ? 0 : ERR_CORRUPT;
    }
    if (!order->exists) {
        op->refusal = REFUSAL_NOT_FOUND; /* perhaps not booked yet: not a final answer */
        return 0;
    }
    op->order = order->row;
    op->refusal = ledger_pay_refusal(&order->row, op, w->base.now_ms);
    if (op->refusal != REFUSAL_NONE) {
        return 0;
    }
    payment->exists = payment->fresh = true;
    payment->id = op->id;
    payment->amount_cents = op->amount_cents;
    memcpy(payment->fingerprint, op->fingerprint, sizeof(payment->fingerprint));
    return order_end(w, op, order, MOVE_PAY, EVENT_ORDER_PAID);
}

int maria_op_cancel(struct maria_write *w, struct ledger_op *op)
{
    struct plan_order *order = plan_order(&w->maria->plan, op->id);
    CHECK(order != NULL);
    if (!order->exists || (op->user != 0 && order->row.user != op->user)) {
        op->refusal = REFUSAL_NOT_FOUND;
        return 0;
    }
    op->order = order->row;
    switch (order->row.state) {
    case ORDER_LOCKED:
        return order_end(w, op, order, MOVE_CANCEL, EVENT_ORDER_CANCELLED);
    case ORDER_CANCELLED:
        op->repeated = true;
        return 0;
    default:
        op->refusal = ledger_cancel_refusal(&order->row);
        return 0;
    }
}

int maria_op_expire(struct maria_write *w, struct ledger_op *op)
{
    struct plan_order *order = plan_order(&w->maria->plan, op->id);
    CHECK(order != NULL);
    if (order->exists) {
        op->order = order->row;
        if (order->row.state == ORDER_LOCKED && order->row.pay_by_ms <= w->base.now_ms) {
            return order_end(w, op, order, MOVE_EXPIRE, EVENT_ORDER_EXPIRED);
        }
    }
    op->refusal = REFUSAL_BAD_STATE;
    op->repeated = order->exists && order->row.state == ORDER_EXPIRED;
    return 0;
}
