/*
 * A buyer's orders: read, wait for, watch, cancel, list. Reading is from memory; the ledger is
 * asked only for the whole list.
 */
#include <string.h>

#include "base/err.h"
#include "http/front_private.h"
#include "http/handlers.h"
#include "http/watch.h"

#define NO_SUCH_ORDER "no such order on the board; GET /v1/me/orders lists all of yours"

static enum http_outcome no_such_order(struct asking *asking)
{
    return front_refuse_simply(asking->front, asking->exchange, REFUSAL_NOT_FOUND, NO_SUCH_ORDER);
}

/* An ask for the order of the path; NULL: refused. */
static struct front_ask *ask_for(struct asking *asking,
                                 enum http_outcome (*done)(struct asking *asking,
                                                           struct front_ask *ask))
{
    struct order_id id;
    if (order_id_parse(asking->part[0], &id) != 0) {
        (void)no_such_order(asking);
        return NULL;
    }
    struct front_ask *ask = front_ask_new(asking, ASK_ORDER, done);
    if (ask == NULL) {
        (void)front_refuse_simply(asking->front, asking->exchange, REFUSAL_OVERLOADED, NULL);
        return NULL;
    }
    ask->gate.id = id;
    return ask;
}

/* It is there, and this buyer's; else it was refused. 404 is said only after a look. */
static bool found(struct asking *asking, const struct front_ask *ask)
{
    if (front_ask_blind(ask)) {
        (void)front_refuse_look(asking->front, asking->exchange, ask->gate.refusal);
        return false;
    }
    if (ask->gate.refusal != REFUSAL_NONE || ask->gate.order.user != asking->user) {
        (void)no_such_order(asking);
        return false;
    }
    return true;
}

void view_answer(struct front *front, struct http_exchange exchange, struct slot *slot, bool lost)
{
    if (lost) {
        (void)front_refuse_simply(front, exchange, REFUSAL_UNKNOWN_OUTCOME,
                                  "the journal's disk failed while this order was being written");
        return;
    }
    struct out body = front_scratch(front);
    if (json_order_view(&body, front->shared->catalog, &slot->order)) {
        (void)front_json(front, exchange, 200, "", NULL, out_span(&body));
    } else {
        (void)front_refuse_simply(front, exchange, REFUSAL_NOT_FOUND, NO_SUCH_ORDER);
    }
}

static enum http_outcome show(struct asking *asking, const struct gate_ask *ask)
{
    struct slot *slot = front_slot(asking->front, asking->exchange);
    slot->order = ask->order;
    if (front_durable(asking->front, ask->lsn)) {
        view_answer(asking->front, asking->exchange, slot, false);
        return HTTP_ANSWERED;
    }
    slot->wait = WAIT_VIEW;
    if (!front_after(asking->front, ask->lsn, asking->exchange, NULL)) {
        return front_refuse_simply(asking->front, asking->exchange, REFUSAL_OVERLOADED, NULL);
    }
    return HTTP_PENDING;
}

static enum http_outcome order_looked(struct asking *asking, struct front_ask *ask)
{
    struct front *front = asking->front;
    if (!found(asking, ask)) {
        return HTTP_ANSWERED;
    }
    enum order_state state = (enum order_state)ask->gate.order.state;
    bool hold_it = ask->due_ms != 0 && !front->draining && !watch_full(front) &&
                   !front_slot(front, asking->exchange)->finished &&
                   (state == ask->hold || state == ORDER_QUEUED) && !order_state_final(state);
    if (!hold_it) {
        return show(asking, &ask->gate);
    }
    return watch_poll(front, asking->exchange, &ask->gate.order, ask->hold, ask->due_ms);
}

enum http_outcome handle_order(struct asking *asking)
{
    struct span query = asking->request->query;
    uint64_t wait_ms = 0;
    enum order_state hold = ORDER_QUEUED;
    struct span status = query_value(query, "status");
    if (query_number(query, "wait_ms", WAIT_MAX_MS, 0, &wait_ms) != 0) {
        return front_refuse_field(asking->front, asking->exchange, "wait_ms",
                                  "wait_ms must be a whole number up to 30000");
    }
    if (status.at != NULL && order_state_parse(status, &hold) != 0) {
        return front_refuse_field(asking->front, asking->exchange, "status",
                                  "status must be an order's state, like LOCKED");
    }
    struct front_ask *ask = ask_for(asking, order_looked);
    if (ask == NULL) {
        return HTTP_ANSWERED;
    }
    ask->hold = hold;
    ask->due_ms = wait_ms > 0 ? asking->now_ms + (int64_t)wait_ms : 0;
    return front_ask(asking, ask);
}

static enum http_outcome events_looked(struct asking *asking, struct front_ask *ask)
{
    if (!found(asking, ask)) {
        return HTTP_ANSWERED;
    }
    if (watch_full(asking->front)) {
        return front_refuse_simply(asking->front, asking->exchange, REFUSAL_OVERLOADED,
                                   "too many streams; GET the order instead");
    }
    watch_order(asking->front, asking->exchange, &ask->gate.order, ask->version_told);
    return HTTP_ANSWERED;
}

enum http_outcome handle_order_events(struct asking *asking)
{
    uint64_t told = 0;
    struct front_ask *ask = ask_for(asking, events_looked);
    if (ask == NULL) {
        return HTTP_ANSWERED;
    }
    /* An id we did not give is as good as none. */
    if (asking->request->last_event_id.at != NULL &&
        span_parse_u64(asking->request->last_event_id, ORDER_VERSION_MAX, &told) != 0) {
        told = 0;
    }
    ask->version_told = (uint16_t)told;
    return front_ask(asking, ask);
}

/* ---- cancel ---- */

static void cancel_done(struct front *front, struct front_call *call)
{
    const struct ledger_op *op = &call->write.op;
    if (op->refusal != REFUSAL_NONE) {
        (void)front_refuse_simply(front, call->exchange, op->refusal, NULL);
        return;
    }
    struct out body = front_scratch(front);
    json_order_row(&body, front->shared->catalog, &op->order, ROW_AS_TOLD);
    (void)front_json(front, call->exchange, 200, "", NULL, out_span(&body));
}

static enum http_outcome cancel_looked(struct asking *asking, struct front_ask *ask)
{
    if (!found(asking, ask)) {
        return HTTP_ANSWERED;
    }
    switch ((enum order_state)ask->gate.order.state) {
    case ORDER_QUEUED:
        return front_refuse_simply(asking->front, asking->exchange, REFUSAL_QUEUED,
                                   "the order is still being booked; cancel it in a moment");
    case ORDER_FAILED:
        return front_refuse_simply(asking->front, asking->exchange, REFUSAL_EXPIRED,
                                   "the order failed; there is nothing to cancel");
    default:
        break;
    }
    struct front_call *call = front_call_new(asking, cancel_done, BUDGET_SHOP);
    if (call == NULL) {
        return front_refuse_simply(asking->front, asking->exchange, REFUSAL_OVERLOADED, NULL);
    }
    call->write.op.kind = LEDGER_CANCEL;
    call->write.op.id = ask->gate.id;
    call->write.op.user = asking->user;
    return front_write(asking->front, call);
}

enum http_outcome handle_cancel(struct asking *asking)
{
    struct front_ask *ask = ask_for(asking, cancel_looked);
    return ask != NULL ? front_ask(asking, ask) : HTTP_ANSWERED;
}

/* ---- the list ---- */

static void show_list(struct front *front, struct front_query *query)
{
    if (query->refusal != REFUSAL_NONE) {
        (void)front_refuse_look(front, query->exchange, query->refusal);
        return;
    }
    struct out body = front_scratch(front);
    json_order_page(&body, front, &query->clerk.query, false);
    if (body.overflow) {
        (void)front_refuse_field(front, query->exchange, "limit", "ask for fewer orders at once");
        return;
    }
    (void)front_json(front, query->exchange, 200, "", NULL, out_span(&body));
}

static enum http_outcome row_looked(struct asking *asking, struct front_ask *ask)
{
    struct front_query *query = ask->query;
    struct order_row *row = &query->clerk.query.orders[ask->row];
    if (front_ask_blind(ask)) {
        query->refusal = ask->gate.refusal;
    } else if (ask->gate.refusal == REFUSAL_NONE) {
        row->state = (enum order_state)ask->gate.order.state;
        row->reason = (enum refusal)ask->gate.order.reason;
        row->pay_by_ms = ask->gate.order.pay_by_ms;
    }
    if (query->uses == 1) { /* the last, and later than my_orders_done */
        show_list(asking->front, query);
    }
    front_query_release(asking->front, query);
    return HTTP_ANSWERED;
}

/* The ledger may be a moment ahead of the gate. What the board has shown is what counts, or a list
 * and the order's own page would contradict each other. */
static void follow_board(struct front *front, struct front_query *query, uint32_t row)
{
    struct asking asking = {.front = front,
                            .exchange = query->exchange,
                            .user = query->clerk.query.user,
                            .now_ms = front->now_ms};
    struct front_ask *ask =
        front_asks_scarce(front) ? NULL : front_ask_new(&asking, ASK_ORDER, row_looked);
    if (ask == NULL) {
        query->refusal = REFUSAL_OVERLOADED;
        return;
    }
    ask->gate.id = query->clerk.query.orders[row].id;
    ask->query = query;
    ask->row = row;
    front_query_keep(query);
    (void)front_ask(&asking, ask);
}

static void my_orders_done(struct front *front, struct front_query *query)
{
    const struct ledger_query *q = &query->clerk.query;
    if (q->error == ERR_INVALID) {
        (void)front_refuse_field(front, query->exchange, "after",
                                 "after must be the next of an earlier answer");
        return;
    }
    if (q->error != 0) {
        (void)front_refuse_simply(front, query->exchange, REFUSAL_DEGRADED,
                                  "your orders cannot be listed now; none is lost");
        return;
    }
    for (uint32_t i = 0; i < q->count; i++) {
        follow_board(front, query, i);
    }
    if (query->uses == 1) {
        show_list(front, query);
    }
}

enum http_outcome handle_my_orders(struct asking *asking)
{
    struct span query = asking->request->query;
    struct span after = query_value(query, "after");
    uint64_t limit = 0;
    /* 200 rows of at most 1 KiB fit the scratch. */
    if (query_number(query, "limit", 200, PAGE_LIMIT_DEFAULT, &limit) != 0 || limit == 0) {
        return front_refuse_field(asking->front, asking->exchange, "limit",
                                  "limit must be a whole number from 1 to 200");
    }
    struct front_query *ask =
        front_query_new(asking, QUERY_ORDERS, (uint32_t)limit, my_orders_done, BUDGET_BUYER);
    if (ask == NULL) {
        return front_refuse_simply(asking->front, asking->exchange, REFUSAL_OVERLOADED, NULL);
    }
    ask->clerk.query.user = asking->user;
    if (after.len > 0 && after.len < sizeof(ask->clerk.query.cursor)) {
        memcpy(ask->clerk.query.cursor, after.at, after.len);
    } else if (after.len > 0) {
        memcpy(ask->clerk.query.cursor, "?", 1); /* too long to be ours: refused as such */
    }
    return front_query_post(asking->front, ask);
}
