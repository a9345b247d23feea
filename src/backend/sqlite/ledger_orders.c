/*
 * Orders and what moves with them: BOOK, PAY, CANCEL, EXPIRE, RESTOCK.
 *
 * Every change of an order is four things in one transaction: the order's row, the buyer's
 * holdings, the item's stock (kept back by write_stock_move and written once per item) and an
 * event. What stays true: held = units of the buyer's LOCKED and PAID orders; locked and sold =
 * units of the item's LOCKED and PAID orders; an order row is written once and moved at most once.
 *
 * Pay, cancel and expire have one winner: each looks at the row inside the transaction of the only
 * writer. A payment is in time while now < pay_by, an expiry from pay_by on: never both.
 */
#include "backend/sqlite/store.h"
#include "base/check.h"
#include "base/err.h"
#include "port/ledger_rules.h"

static int order_answer_existing(struct write *w, struct ledger_op *op)
{
    int err = db_order_load(&w->store->base, op->command.id, &op->order);
    op->repeated = true;
    return err == ERR_NOTFOUND ? ERR_CORRUPT : err;
}

static int order_insert(struct write *w, const struct order_row *order)
{
    struct id_text id = id_text_of(order->id);
    w->guard = REFUSAL_NONE; /* a row that cannot be stored at all */
    return db_run(
        &w->store->base, SQL_ORDER_ADD, v_int((int64_t)order->item), v_id(&id),
        v_int((int64_t)order->user), v_int(order->qty), v_text(order_state_text(order->state)),
        v_text(ledger_refusal_name(order->reason)), v_int(order->amount_cents),
        v_int(order->created_at_ms), v_nonzero(order->locked_at_ms), v_nonzero(order->pay_by_ms),
        v_nonzero(order->ended_at_ms), v_int((int64_t)order->lsn));
}

static int order_hold(struct write *w, const struct order_row *order, const struct db_item *item)
{
    bool alive = order_state_alive(order->state);
    w->guard = REFUSAL_LIMIT_REACHED;
    return db_run(&w->store->base, SQL_HOLD, v_int((int64_t)order->item),
                  v_int((int64_t)order->user), v_int(alive ? order->qty : 0),
                  v_int(item->limit_per_user), v_int(alive ? 0 : 1));
}

static int order_event(struct write *w, enum ledger_event_kind kind, const struct order_row *order)
{
    return write_event(w, ledger_order_event(kind, order));
}

/* Inserts the order unless its id has a row: then that row is the answer. */
static int book_as(struct write *w, struct ledger_op *op, struct db_item *item, enum refusal reason)
{
    op->order = ledger_order_of(&op->command, op->lsn, &item->terms, w->base.now_ms, reason);
    int err = order_insert(w, &op->order);
    if (err != 0) {
        return err;
    }
    if (sqlite3_changes(w->store->db) == 0) {
        return order_answer_existing(w, op);
    }
    err = order_hold(w, &op->order, item);
    if (err != 0) {
        return err;
    }
    if (reason == REFUSAL_NONE) {
        if (item->available < (int64_t)op->order.qty) {
            w->guard = REFUSAL_NO_STOCK; /* what the row's CHECK would say, were it written now */
            return STORE_REFUSED;
        }
        db_stock_move(item, -(int64_t)op->order.qty, op->order.qty, 0);
    }
    return write_event(w, ledger_booked_event(&op->order, item->available));
}

/* Looks first: the limit, then stock, as the gate does. An order that has a row fails neither. */
static int book_reason(struct write *w, const struct ledger_op *op, const struct db_item *item,
                       enum refusal *ret_reason)
{
    const struct gate_command *command = &op->command;
    struct order_row existing;
    int err = db_order_load(&w->store->base, command->id, &existing);
    if (err != ERR_NOTFOUND) {
        *ret_reason = REFUSAL_NONE;
        return err;
    }
    uint64_t held = 0;
    struct db_row *row;
    err = db_get(&w->store->base, SQL_HELD, &row, v_int((int64_t)item->id),
                 v_int((int64_t)command->user));
    if (err == 0) {
        held = db_u64(row, 0);
        db_done(row);
    } else if (err != ERR_NOTFOUND) {
        return err;
    }
    if (item->limit_per_user != 0 && held + command->qty > item->limit_per_user) {
        *ret_reason = REFUSAL_LIMIT_REACHED;
    } else if (item->available < (int64_t)command->qty) {
        *ret_reason = REFUSAL_NO_STOCK;
    } else {
        *ret_reason = REFUSAL_NONE;
    }
    return 0;
}

/* The item of a booking. ERR_NOTFOUND: the op is refused, no row can be made. */
static int book_item(struct write *w, struct ledger_op *op, struct db_item **ret_item)
{
    const struct gate_command *command = &op->command;
    CHECK(command->kind == GATE_RESERVE);
    if (command->item != order_id_item(command->id)) {
        op->refusal = REFUSAL_BAD_REQUEST;
        return ERR_NOTFOUND;
    }
    int err = write_item(w, command->item, ret_item);
    if (err == ERR_NOTFOUND) {
        op->refusal = REFUSAL_NO_SUCH_ITEM;
    }
    return err;
}

int op_book(struct write *w, struct ledger_op *op)
{
    struct db_item *item;
    enum refusal reason = REFUSAL_NONE;
    int err = book_item(w, op, &item);
    if (err == ERR_NOTFOUND) {
        return 0;
    }
    if (err == 0 && w->careful) {
        err = book_reason(w, op, item, &reason);
    }
    return err != 0 ? err : book_as(w, op, item, reason);
}

int op_book_failed(struct write *w, struct ledger_op *op, enum refusal reason)
{
    struct db_item *item;
    int err = book_item(w, op, &item);
    return err == ERR_NOTFOUND ? 0 : err != 0 ? err : book_as(w, op, item, reason);
}

/* A LOCKED order, loaded into op->order, becomes final. */
static int order_end(struct write *w, struct ledger_op *op, enum order_move move,
                     enum ledger_event_kind kind, const char *payment_id)
{
    struct order_row *order = &op->order;
    struct db_item *item;
    int err = write_item(w, order->item, &item);
    if (err != 0) {
        return err == ERR_NOTFOUND ? ERR_CORRUPT : err;
    }
    struct id_text id = id_text_of(order->id);
    bool late =
        move == MOVE_CANCEL && ledger_cancel_bars(order, op, item->bar_unpaid, w->base.now_ms);
    bool barred = late || (move == MOVE_EXPIRE && item->bar_unpaid);
    order->reason = late ? REFUSAL_BARRED : REFUSAL_NONE;
    order->cooling_until_ms =
        move == MOVE_PAY ? 0 : ledger_cooling_until(op, barred, w->base.now_ms);
    err = db_run(&w->store->base, SQL_ORDER_MOVE, v_int((int64_t)order->item), v_id(&id),
                 v_text(order_state_text(order_move_from(move))),
                 v_text(order_state_text(order_move_to(move))), v_int(w->base.now_ms),
                 v_text(payment_id), v_text(ledger_refusal_name(order->reason)),
                 v_nonzero(order->cooling_until_ms));
    if (err != 0) {
        return err;
    }
    CHECK(sqlite3_changes(w->store->db) == 1); /* the row was read as LOCKED just now */
    order->state = order_move_to(move);
    order->ended_at_ms = w->base.now_ms;
    if (move == MOVE_PAY) {
        db_stock_move(item, 0, -(int64_t)order->qty, order->qty);
        return order_event(w, kind, order);
    }
    db_stock_move(item, order->qty, -(int64_t)order->qty, 0);
    err = db_run(&w->store->base, SQL_RELEASE, v_int((int64_t)order->item),
                 v_int((int64_t)order->user), v_int(order->qty), v_int(barred ? 0 : 1),
                 v_int(barred ? 1 : 0));
    return err != 0 ? err : order_event(w, kind, order);
}

static int payment_insert(struct write *w, const struct ledger_op *op)
{
    struct id_text id = id_text_of(op->id);
    return db_run(&w->store->base, SQL_PAYMENT_ADD, v_text(op->key), v_int((int64_t)op->order.item),
                  v_id(&id), v_int(op->amount_cents),
                  v_blob(op->fingerprint, sizeof(op->fingerprint)), v_int(w->base.now_ms));
}

/* The payment that paid, told again. ERR_NOTFOUND: this one has paid nothing. Refused ones leave no
 * trace: the same words get the same refusal by themselves, and the id stays free. */
static int payment_answer_existing(struct write *w, struct ledger_op *op)
{
    struct db_row *row;
    int err = db_get(&w->store->base, SQL_PAYMENT, &row, v_text(op->key));
    if (err != 0) {
        return err;
    }
    struct span stored = db_span(row, 0);
    bool same = stored.len == sizeof(op->fingerprint) &&
                /* The analyzer loses op behind db_get's varargs. */
                /* NOLINTNEXTLINE(clang-analyzer-core.NonNullParamChecker) */
                memcmp(stored.at, op->fingerprint, sizeof(op->fingerprint)) == 0;
    db_done(row);
    if (!same) {
        op->refusal = REFUSAL_DIFFERENT_REQUEST;
        return 0;
    }
    err = db_order_load(&w->store->base, op->id, &op->order);
    if (err == 0 && !ledger_pay_currency_fits(&op->order, op)) {
        op->refusal = REFUSAL_DIFFERENT_REQUEST;
        return 0;
    }
    op->repeated = true;
    return err == ERR_NOTFOUND ? ERR_CORRUPT : err;
}

int op_pay(struct write *w, struct ledger_op *op)
{
    int err = payment_answer_existing(w, op);
    if (err != ERR_NOTFOUND) {
        return err;
    }
    err = db_order_load(&w->store->base, op->id, &op->order);
    if (err == ERR_NOTFOUND) {
        op->refusal = REFUSAL_NOT_FOUND; /* perhaps not booked yet: not a final answer */
        return 0;
    }
    if (err != 0) {
        return err;
    }
    op->refusal = ledger_pay_refusal(&op->order, op, w->base.now_ms);
    if (op->refusal == REFUSAL_NONE) {
        err = order_end(w, op, MOVE_PAY, EVENT_ORDER_PAID, op->key);
        memcpy(op->order.payment_id, op->key, sizeof(op->order.payment_id));
        err = err != 0 ? err : payment_insert(w, op);
    }
    return err;
}

int op_cancel(struct write *w, struct ledger_op *op)
{
    int err = db_order_load(&w->store->base, op->id, &op->order);
    if (err == 0 && op->user != 0 && op->order.user != op->user) {
        op->order = (struct order_row){0};
        err = ERR_NOTFOUND;
    }
    if (err == ERR_NOTFOUND) {
        op->refusal = REFUSAL_NOT_FOUND;
        return 0;
    }
    if (err != 0) {
        return err;
    }
    switch (op->order.state) {
    case ORDER_LOCKED:
        return order_end(w, op, MOVE_CANCEL, EVENT_ORDER_CANCELLED, NULL);
    case ORDER_CANCELLED:
        op->repeated = true;
        return 0;
    default:
        op->refusal = ledger_cancel_refusal(&op->order);
        return 0;
    }
}

int op_expire(struct write *w, struct ledger_op *op)
{
    int err = db_order_load(&w->store->base, op->id, &op->order);
    if (err == 0 && op->order.state == ORDER_LOCKED && op->order.pay_by_ms <= w->base.now_ms) {
        return order_end(w, op, MOVE_EXPIRE, EVENT_ORDER_EXPIRED, NULL);
    }
    if (err != 0 && err != ERR_NOTFOUND) {
        return err;
    }
    op->refusal = REFUSAL_BAD_STATE;
    op->repeated = err == 0 && op->order.state == ORDER_EXPIRED;
    return 0;
}
