/* Orders of the ledger in memory: booked, failed, paid, cancelled, expired. */
#include <string.h>

#include "base/check.h"
#include "memory_private.h"

/* What the buyer holds of the item, over all segments. */
static int64_t held_by(const struct memory_ledger *ledger, uint64_t item, uint64_t user)
{
    int64_t held = 0;
    for (size_t i = 0; i < ledger->orders_count; i++) {
        const struct order_row *order = &ledger->orders[i];
        if (order->item == item && order->user == user && order_state_alive(order->state)) {
            held += order->qty;
        }
    }
    return held;
}

static enum refusal book_reason(const struct memory_ledger *ledger, const struct ledger_op *op,
                                const struct item_row *item)
{
    const struct gate_command *c = &op->command;
    const struct memory_share *share = memory_share(ledger, c->item, op->segment);
    struct book_state state = {.qty = c->qty,
                               .limit = item->limit_per_user,
                               .held = held_by(ledger, c->item, c->user),
                               .available = (int64_t)item->available};
    state.room = ledger->segments == 0 ? state.available
                 : share == NULL
                     ? 0
                     : (int64_t)share->amount - (int64_t)share->locked - (int64_t)share->sold;
    return ledger_book_reason(&state);
}

/* Units of an order move, in the item's stock and in its segment's share. */
static void move_units(struct memory_ledger *ledger, struct item_row *item,
                       const struct order_row *order, int64_t locked, int64_t sold)
{
    struct memory_share *share =
        ledger->segments == 0 ? NULL : memory_share(ledger, item->id, order->segment);
    item->available -= (uint64_t)(locked + sold);
    item->locked += (uint64_t)locked;
    item->sold += (uint64_t)sold;
    CHECK(item->available + item->locked + item->sold == item->total);
    if (share != NULL) {
        share->locked += (uint64_t)locked;
        share->sold += (uint64_t)sold;
        CHECK(share->locked + share->sold <= share->amount);
    }
}

/* A decision comes from a segment that there is; to be booked, from its present life. */
static enum refusal segment_refusal(const struct memory_ledger *ledger, const struct ledger_op *op)
{
    if (ledger->segments == 0) {
        return REFUSAL_NONE;
    }
    if (op->segment >= ledger->segments) {
        return REFUSAL_BAD_REQUEST;
    }
    uint64_t epoch = ledger->epochs[op->segment];
    return op->kind == LEDGER_BOOK && (epoch == 0 || op->epoch != epoch) ? REFUSAL_STALE_EPOCH
                                                                         : REFUSAL_NONE;
}

/* `forced`: what is known to be wrong with it; REFUSAL_NONE: nothing. */
static void book_as(struct memory_write *w, struct ledger_op *op, enum refusal forced)
{
    struct memory_ledger *ledger = w->ledger;
    const struct gate_command *c = &op->command;
    struct sale_row *sale;
    struct item_row *item = memory_item(ledger, c->item, &sale);
    const struct order_row *there = memory_find_order(ledger, c->id);
    CHECK(c->kind == GATE_RESERVE);
    if (c->item != order_id_item(c->id) || item == NULL) {
        op->refusal = item == NULL ? REFUSAL_NO_SUCH_ITEM : REFUSAL_BAD_REQUEST;
        return;
    }
    if (there != NULL) {
        op->repeated = true;
        op->order = *there;
        return;
    }
    op->refusal = segment_refusal(ledger, op);
    if (op->refusal != REFUSAL_NONE) {
        return;
    }
    enum refusal reason = forced != REFUSAL_NONE ? forced : book_reason(ledger, op, item);
    struct order_terms terms = {
        .sale = sale->id, .price_cents = item->price_cents, .pay_within_s = sale->pay_within_s};
    memcpy(terms.currency, sale->currency, sizeof(terms.currency));
    op->order = ledger_order_of(c, op->lsn, &terms, w->now_ms, reason);
    op->order.segment = ledger->segments > 0 ? op->segment : 0;
    if (reason == REFUSAL_NONE) {
        move_units(ledger, item, &op->order, c->qty, 0);
    }
    ledger->orders = memory_grown(ledger->orders, ledger->orders_count, sizeof(op->order));
    ledger->orders[ledger->orders_count++] = op->order;
    memory_event(w, ledger_booked_event(&op->order, (int64_t)item->available));
}

void memory_book(struct memory_write *w, struct ledger_op *op)
{
    CHECK(op->lsn > 0 || w->ledger->segments > 0);
    book_as(w, op, REFUSAL_NONE);
}

void memory_fail(struct memory_write *w, struct ledger_op *op)
{
    if (w->ledger->segments == 0 || op->reason == REFUSAL_NONE) {
        op->refusal = w->ledger->segments == 0 ? REFUSAL_BAD_STATE : REFUSAL_BAD_REQUEST;
        return;
    }
    book_as(w, op, op->reason);
}

/* A LOCKED order becomes final. */
static void order_end(struct memory_write *w, const struct ledger_op *op, struct order_row *order,
                      enum order_move move, enum ledger_event_kind kind)
{
    struct sale_row *sale;
    struct item_row *item = memory_item(w->ledger, order->item, &sale);
    CHECK(order->state == order_move_from(move) && item != NULL && item->locked >= order->qty);
    order->state = order_move_to(move);
    order->ended_at_ms = w->now_ms;
    bool barred = order->reason == REFUSAL_BARRED || (move == MOVE_EXPIRE && sale->bar_unpaid);
    order->cooling_until_ms = move == MOVE_PAY ? 0 : ledger_cooling_until(op, barred, w->now_ms);
    move_units(w->ledger, item, order, -(int64_t)order->qty, move == MOVE_PAY ? order->qty : 0);
    memory_event(w, ledger_order_event(kind, order));
}

void memory_pay(struct memory_write *w, struct ledger_op *op)
{
    struct order_row *order = memory_find_order(w->ledger, op->id);
    const struct memory_key *known = memory_key(w->ledger, op);
    if (known != NULL) {
        bool same = memcmp(known->fingerprint, op->fingerprint, sizeof(op->fingerprint)) == 0;
        CHECK(!same || order != NULL);
        if (!same || !ledger_pay_currency_fits(order, op)) {
            op->refusal = REFUSAL_DIFFERENT_REQUEST;
            return;
        }
        op->repeated = true;
        op->order = *order;
        return;
    }
    if (order == NULL) {
        op->refusal = REFUSAL_NOT_FOUND;
        return;
    }
    op->refusal = ledger_pay_refusal(order, op, w->now_ms);
    if (op->refusal == REFUSAL_NONE) {
        memcpy(order->payment_id, op->key, sizeof(order->payment_id));
        order_end(w, op, order, MOVE_PAY, EVENT_ORDER_PAID);
        memory_key_add(w->ledger, op);
    }
    op->order = *order;
}

void memory_cancel(struct memory_write *w, struct ledger_op *op)
{
    struct order_row *order = memory_find_order(w->ledger, op->id);
    if (order == NULL || (op->user != 0 && op->user != order->user)) {
        op->refusal = REFUSAL_NOT_FOUND;
        return;
    }
    if (order->state == ORDER_LOCKED) {
        struct sale_row *sale = NULL;
        CHECK(memory_item(w->ledger, order->item, &sale) != NULL);
        bool bars = ledger_cancel_bars(order, op, sale->bar_unpaid, w->now_ms);
        order->reason = bars ? REFUSAL_BARRED : REFUSAL_NONE;
        order_end(w, op, order, MOVE_CANCEL, EVENT_ORDER_CANCELLED);
    } else if (order->state == ORDER_CANCELLED) {
        op->repeated = true;
    } else {
        op->refusal = ledger_cancel_refusal(order);
    }
    op->order = *order;
}

void memory_expire(struct memory_write *w, struct ledger_op *op)
{
    struct order_row *order = memory_find_order(w->ledger, op->id);
    if (order != NULL && order->state == ORDER_LOCKED && order->pay_by_ms <= w->now_ms) {
        order_end(w, op, order, MOVE_EXPIRE, EVENT_ORDER_EXPIRED);
    } else {
        op->refusal = REFUSAL_BAD_STATE;
        op->repeated = order != NULL && order->state == ORDER_EXPIRED;
    }
    if (order != NULL) {
        op->order = *order;
    }
}
