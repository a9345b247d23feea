/*
 * A buyer's orders: read, wait for, watch, cancel, list. Reading is from memory; the ledger is
 * asked only for the whole list.
 */
#include <string.h>

#include "api/api_private.h"
#include "api/handlers.h"
#include "api/watch.h"
#include "base/err.h"

#define NO_SUCH_ORDER "no such order on the board; GET /v1/me/orders lists all of yours"

static enum http_outcome no_such_order(struct api_request *req)
{
    return api_refuse_simply(req->worker, req->exchange, REFUSAL_NOT_FOUND, NO_SUCH_ORDER);
}

/* An ask for the order of the path; NULL: refused. */
static struct api_gate_request *ask_for(struct api_request *req,
                                        enum http_outcome (*done)(struct api_request *req,
                                                                  struct api_gate_request *request))
{
    struct order_id id;
    if (order_id_parse(req->part[0], &id) != 0) {
        (void)no_such_order(req);
        return NULL;
    }
    struct api_gate_request *request = api_gate_request_new(req, GATE_REQUEST_ORDER, done);
    if (request == NULL) {
        (void)api_refuse_simply(req->worker, req->exchange, REFUSAL_OVERLOADED, NULL);
        return NULL;
    }
    request->gate.id = id;
    return request;
}

/* It is there, and this buyer's; else it was refused. 404 is said only after a look. */
static bool found(struct api_request *req, const struct api_gate_request *request)
{
    if (api_gate_request_blind(request)) {
        (void)api_refuse_look(req->worker, req->exchange, request->gate.refusal);
        return false;
    }
    if (request->gate.refusal != REFUSAL_NONE || request->gate.order.user != req->user) {
        (void)no_such_order(req);
        return false;
    }
    return true;
}

void view_answer(struct api_worker *worker, struct http_exchange exchange, struct slot *slot,
                 bool lost)
{
    if (lost) {
        (void)api_refuse_simply(worker, exchange, REFUSAL_UNKNOWN_OUTCOME,
                                "the journal's disk failed while this order was being written");
        return;
    }
    struct out body = api_scratch(worker);
    if (json_order_view(&body, worker->shared->catalog, &slot->order)) {
        (void)api_json(worker, exchange, 200, "", NULL, out_span(&body));
    } else {
        (void)api_refuse_simply(worker, exchange, REFUSAL_NOT_FOUND, NO_SUCH_ORDER);
    }
}

static enum http_outcome show(struct api_request *req, const struct gate_request *request)
{
    struct slot *slot = api_slot(req->worker, req->exchange);
    slot->order = request->order;
    if (api_durable(req->worker, request->lsn)) {
        view_answer(req->worker, req->exchange, slot, false);
        return HTTP_ANSWERED;
    }
    slot->wait = WAIT_VIEW;
    if (!api_after_durable(req->worker, request->lsn, req->exchange, NULL)) {
        return api_refuse_simply(req->worker, req->exchange, REFUSAL_OVERLOADED, NULL);
    }
    return HTTP_PENDING;
}

static enum http_outcome order_looked(struct api_request *req, struct api_gate_request *request)
{
    struct api_worker *worker = req->worker;
    if (!found(req, request)) {
        return HTTP_ANSWERED;
    }
    enum order_state state = (enum order_state)request->gate.order.state;
    bool hold_it = request->due_ms != 0 && !worker->draining && !watch_full(worker) &&
                   !api_slot(worker, req->exchange)->finished &&
                   (state == request->hold || state == ORDER_QUEUED) && !order_state_final(state);
    if (!hold_it) {
        return show(req, &request->gate);
    }
    return watch_poll(worker, req->exchange, &request->gate.order, request->hold, request->due_ms);
}

enum http_outcome handle_order(struct api_request *req)
{
    struct span query = req->request->query;
    uint64_t wait_ms = 0;
    enum order_state hold = ORDER_QUEUED;
    struct span status = query_value(query, "status");
    if (query_number(query, "wait_ms", WAIT_MAX_MS, 0, &wait_ms) != 0) {
        return api_refuse_field(req->worker, req->exchange, "wait_ms",
                                "wait_ms must be a whole number up to 30000");
    }
    if (status.at != NULL && order_state_parse(status, &hold) != 0) {
        return api_refuse_field(req->worker, req->exchange, "status",
                                "status must be an order's state, like LOCKED");
    }
    struct api_gate_request *request = ask_for(req, order_looked);
    if (request == NULL) {
        return HTTP_ANSWERED;
    }
    request->hold = hold;
    request->due_ms = wait_ms > 0 ? req->now_ms + (int64_t)wait_ms : 0;
    return api_gate_request(req, request);
}

static enum http_outcome events_looked(struct api_request *req, struct api_gate_request *request)
{
    if (!found(req, request)) {
        return HTTP_ANSWERED;
    }
    if (watch_full(req->worker)) {
        return api_refuse_simply(req->worker, req->exchange, REFUSAL_OVERLOADED,
                                 "too many streams; GET the order instead");
    }
    watch_order(req->worker, req->exchange, &request->gate.order, request->version_sent);
    return HTTP_ANSWERED;
}

enum http_outcome handle_order_events(struct api_request *req)
{
    uint64_t told = 0;
    struct api_gate_request *request = ask_for(req, events_looked);
    if (request == NULL) {
        return HTTP_ANSWERED;
    }
    /* An id we did not give is as good as none. */
    if (req->request->last_event_id.at != NULL &&
        span_parse_u64(req->request->last_event_id, ORDER_VERSION_MAX, &told) != 0) {
        told = 0;
    }
    request->version_sent = (uint16_t)told;
    return api_gate_request(req, request);
}

/* ---- cancel ---- */

static void cancel_done(struct api_worker *worker, struct api_write *call)
{
    const struct ledger_op *op = &call->write.op;
    if (op->refusal != REFUSAL_NONE) {
        (void)api_refuse_simply(worker, call->exchange, op->refusal, NULL);
        return;
    }
    struct out body = api_scratch(worker);
    json_order_row(&body, worker->shared->catalog, &op->order, ROW_AS_TOLD);
    (void)api_json(worker, call->exchange, 200, "", NULL, out_span(&body));
}

static enum http_outcome cancel_looked(struct api_request *req, struct api_gate_request *request)
{
    if (!found(req, request)) {
        return HTTP_ANSWERED;
    }
    switch ((enum order_state)request->gate.order.state) {
    case ORDER_QUEUED:
        return api_refuse_simply(req->worker, req->exchange, REFUSAL_QUEUED,
                                 "the order is still being booked; cancel it in a moment");
    case ORDER_FAILED:
        return api_refuse_simply(req->worker, req->exchange, REFUSAL_EXPIRED,
                                 "the order failed; there is nothing to cancel");
    default:
        break;
    }
    struct api_write *call = api_write_new(req, cancel_done, BUDGET_SHOP);
    if (call == NULL) {
        return api_refuse_simply(req->worker, req->exchange, REFUSAL_OVERLOADED, NULL);
    }
    call->write.op.kind = LEDGER_CANCEL;
    call->write.op.id = request->gate.id;
    call->write.op.user = req->user;
    return api_write_post(req->worker, call);
}

enum http_outcome handle_cancel(struct api_request *req)
{
    struct api_gate_request *request = ask_for(req, cancel_looked);
    return request != NULL ? api_gate_request(req, request) : HTTP_ANSWERED;
}

/* ---- the list ---- */

static void show_list(struct api_worker *worker, struct api_query *query)
{
    if (query->refusal != REFUSAL_NONE) {
        (void)api_refuse_look(worker, query->exchange, query->refusal);
        return;
    }
    struct out body = api_scratch(worker);
    json_order_page(&body, worker, &query->ledger_reader.query, false);
    if (body.overflow) {
        (void)api_refuse_field(worker, query->exchange, "limit", "ask for fewer orders at once");
        return;
    }
    (void)api_json(worker, query->exchange, 200, "", NULL, out_span(&body));
}

static enum http_outcome row_looked(struct api_request *req, struct api_gate_request *request)
{
    struct api_query *query = request->query;
    struct order_row *row = &query->ledger_reader.query.orders[request->row];
    if (api_gate_request_blind(request)) {
        query->refusal = request->gate.refusal;
    } else if (request->gate.refusal == REFUSAL_NONE) {
        row->state = (enum order_state)request->gate.order.state;
        row->reason = (enum refusal)request->gate.order.reason;
        row->pay_by_ms = request->gate.order.pay_by_ms;
    }
    if (query->uses == 1) { /* the last, and later than my_orders_done */
        show_list(req->worker, query);
    }
    api_query_release(req->worker, query);
    return HTTP_ANSWERED;
}

/* The ledger may be a moment ahead of the gate. What the board has shown is what counts, or a list
 * and the order's own page would contradict each other. */
static void follow_board(struct api_worker *worker, struct api_query *query, uint32_t row)
{
    struct api_request req = {.worker = worker,
                              .exchange = query->exchange,
                              .user = query->ledger_reader.query.user,
                              .now_ms = worker->now_ms};
    struct api_gate_request *request =
        api_gate_requests_scarce(worker)
            ? NULL
            : api_gate_request_new(&req, GATE_REQUEST_ORDER, row_looked);
    if (request == NULL) {
        query->refusal = REFUSAL_OVERLOADED;
        return;
    }
    request->gate.id = query->ledger_reader.query.orders[row].id;
    request->query = query;
    request->row = row;
    api_query_keep(query);
    (void)api_gate_request(&req, request);
}

static void my_orders_done(struct api_worker *worker, struct api_query *query)
{
    const struct ledger_query *q = &query->ledger_reader.query;
    if (q->error == ERR_INVALID) {
        (void)api_refuse_field(worker, query->exchange, "after",
                               "after must be the next of an earlier answer");
        return;
    }
    if (q->error != 0) {
        (void)api_refuse_simply(worker, query->exchange, REFUSAL_DEGRADED,
                                "your orders cannot be listed now; none is lost");
        return;
    }
    for (uint32_t i = 0; i < q->count; i++) {
        follow_board(worker, query, i);
    }
    if (query->uses == 1) {
        show_list(worker, query);
    }
}

enum http_outcome handle_my_orders(struct api_request *req)
{
    struct span query = req->request->query;
    struct span after = query_value(query, "after");
    uint64_t limit = 0;
    /* 200 rows of at most 1 KiB fit the scratch. */
    if (query_number(query, "limit", 200, PAGE_LIMIT_DEFAULT, &limit) != 0 || limit == 0) {
        return api_refuse_field(req->worker, req->exchange, "limit",
                                "limit must be a whole number from 1 to 200");
    }
    struct api_query *request =
        api_query_new(req, QUERY_ORDERS, (uint32_t)limit, my_orders_done, BUDGET_BUYER);
    if (request == NULL) {
        return api_refuse_simply(req->worker, req->exchange, REFUSAL_OVERLOADED, NULL);
    }
    request->ledger_reader.query.user = req->user;
    if (after.len > 0 && after.len < sizeof(request->ledger_reader.query.cursor)) {
        memcpy(request->ledger_reader.query.cursor, after.at, after.len);
    } else if (after.len > 0) {
        memcpy(request->ledger_reader.query.cursor, "?",
               1); /* too long to be ours: refused as such */
    }
    return api_query_post(req->worker, request);
}
