/*
 * A buyer's orders: read, wait for, watch, cancel, list. Reading is from memory; the ledger is
 * asked only for the whole list.
 */
#include <string.h>

#include "base/check.h"
#include "base/err.h"
#include "http/front_private.h"
#include "http/handlers.h"
#include "http/watch.h"

#define NO_SUCH_ORDER "no such order on the board; GET /v1/me/orders lists all of yours"

static enum http_outcome no_such_order(struct asking *asking)
{
    return front_refuse_simply(asking->front, asking->exchange, REFUSAL_NOT_FOUND, NO_SUCH_ORDER);
}

/* The order of the path, if it is this buyer's. */
static bool find(struct asking *asking, struct gate_ask *ask)
{
    *ask = (struct gate_ask){.question = ASK_ORDER, .loop = asking->front->loop};
    if (order_id_parse(asking->part[0], &ask->id) != 0) {
        return false;
    }
    CHECK(gate_submit(asking->front->gate, ask) == GATE_ANSWERED);
    return ask->refusal == REFUSAL_NONE && ask->order.user == asking->user;
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
    struct gate_ask ask;
    if (!find(asking, &ask)) {
        return no_such_order(asking);
    }
    bool hold_it = wait_ms > 0 && !asking->front->draining && !watch_full(asking->front) &&
                   (ask.order.state == hold || ask.order.state == ORDER_QUEUED) &&
                   !order_state_final((enum order_state)ask.order.state);
    if (!hold_it) {
        return show(asking, &ask);
    }
    return watch_poll(asking->front, asking->exchange, &ask.order, hold,
                      asking->now_ms + (int64_t)wait_ms);
}

enum http_outcome handle_order_events(struct asking *asking)
{
    struct gate_ask ask;
    uint64_t told = 0;
    if (!find(asking, &ask)) {
        return no_such_order(asking);
    }
    /* An id we did not give is as good as none. */
    if (asking->request->last_event_id.at != NULL &&
        span_parse_u64(asking->request->last_event_id, UINT16_MAX, &told) != 0) {
        told = 0;
    }
    if (watch_full(asking->front)) {
        return front_refuse_simply(asking->front, asking->exchange, REFUSAL_OVERLOADED,
                                   "too many streams; GET the order instead");
    }
    watch_order(asking->front, asking->exchange, &ask.order, (uint16_t)told);
    return HTTP_ANSWERED;
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

enum http_outcome handle_cancel(struct asking *asking)
{
    struct gate_ask ask;
    if (!find(asking, &ask)) {
        return no_such_order(asking);
    }
    switch ((enum order_state)ask.order.state) {
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
    call->write.op.id = ask.id;
    call->write.op.user = asking->user;
    return front_write(asking->front, call);
}

/* ---- the list ---- */

static void my_orders_done(struct front *front, struct front_query *query)
{
    const struct ledger_query *q = &query->clerk.query;
    if (q->error == ERR_INVALID) {
        (void)front_refuse_field(front, query->exchange, "after",
                                 "after must be the next of an earlier answer");
        return;
    }
    if (q->error != 0) {
        (void)front_refuse_simply(front, query->exchange, REFUSAL_DEGRADED, "cannot read now");
        return;
    }
    struct out body = front_scratch(front);
    json_order_page(&body, front, q, false);
    if (body.overflow) {
        (void)front_refuse_field(front, query->exchange, "limit", "ask for fewer orders at once");
        return;
    }
    (void)front_json(front, query->exchange, 200, "", NULL, out_span(&body));
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
