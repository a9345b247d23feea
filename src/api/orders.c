/*
 * A buyer's orders: read, wait for, watch, cancel, list. The gate answers reads. The ledger reader is
 * needed only for the list, and the ledger writer only to cancel.
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

/* A request to the gate for the order in the path; NULL: refused. */
static struct api_operation *order_operation(struct api_request *req, api_done *done)
{
    struct order_id id;
    if (order_id_parse(req->part[0], &id) != 0) {
        (void)no_such_order(req);
        return NULL;
    }
    struct api_operation *operation = api_gate_operation(req, GATE_REQUEST_ORDER, done);
    if (operation == NULL) {
        (void)api_refuse_simply(req->worker, req->exchange, REFUSAL_OVERLOADED, NULL);
        return NULL;
    }
    operation->gate.id = id;
    return operation;
}

/* True if the order exists and is this buyer's; otherwise it was refused. 404 is the answer only if
 * the gate could be asked. */
static bool found(struct api_request *req, const struct api_operation *operation)
{
    if (operation->error != 0) {
        api_refuse_error(req->worker, req->exchange, operation->error);
        return false;
    }
    if (api_gate_unreachable(operation)) {
        (void)api_refuse_unreachable(req->worker, req->exchange, operation->gate.refusal);
        return false;
    }
    if (operation->gate.refusal != REFUSAL_NONE || operation->gate.order.user != req->user) {
        (void)no_such_order(req);
        return false;
    }
    return true;
}

static enum http_outcome show(struct api_request *req, const struct api_operation *operation)
{
    struct api_worker *worker = req->worker;
    struct out body = api_scratch(worker);
    if (!json_order_view(&body, worker->shared->catalog, &operation->gate.order)) {
        return no_such_order(req);
    }
    return api_json(worker, req->exchange, 200, "", NULL, out_span(&body));
}

static enum http_outcome order_looked_up(struct api_request *req, struct api_operation *operation)
{
    struct api_worker *worker = req->worker;
    if (!found(req, operation)) {
        return HTTP_ANSWERED;
    }
    enum order_state state = (enum order_state)operation->gate.order.state;
    enum order_state hold = operation->context.long_poll.hold;
    int64_t due_ms = operation->context.long_poll.due_ms;
    bool hold_it = due_ms != 0 && !worker->draining && !watch_full(worker) &&
                   !api_connection(worker, req->exchange)->finished &&
                   (state == hold || state == ORDER_QUEUED) && !order_state_final(state);
    if (!hold_it) {
        return show(req, operation);
    }
    return watch_poll(worker, req->exchange, &operation->gate.order, hold, due_ms);
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
    struct api_operation *operation = order_operation(req, order_looked_up);
    if (operation == NULL) {
        return HTTP_ANSWERED;
    }
    operation->context.long_poll.hold = hold;
    operation->context.long_poll.due_ms = wait_ms > 0 ? req->now_ms + (int64_t)wait_ms : 0;
    return api_submit(req, operation);
}

static enum http_outcome stream_looked_up(struct api_request *req, struct api_operation *operation)
{
    if (!found(req, operation)) {
        return HTTP_ANSWERED;
    }
    const struct order_view *view = &operation->gate.order;
    uint16_t version_sent = operation->context.order_stream.version_sent;
    /* The client has seen how the order ended. 204 tells an EventSource to stay away. */
    if (order_state_final((enum order_state)view->state) && version_sent >= view->version) {
        return api_json(req->worker, req->exchange, 204, "", NULL, (struct span){NULL, 0});
    }
    if (watch_full(req->worker)) {
        return api_refuse_simply(req->worker, req->exchange, REFUSAL_OVERLOADED,
                                 "too many streams; GET the order instead");
    }
    if (operation->context.order_stream.settings != req->worker->settings->number) {
        return api_refuse_simply(req->worker, req->exchange, REFUSAL_DEGRADED,
                                 "the keys of tokens were read again meanwhile; connect again");
    }
    watch_order(req->worker, req->exchange, &operation->context.order_stream.token, view,
                version_sent);
    return HTTP_ANSWERED;
}

enum http_outcome handle_order_events(struct api_request *req)
{
    uint64_t version = 0;
    struct api_operation *operation = order_operation(req, stream_looked_up);
    if (operation == NULL) {
        return HTTP_ANSWERED;
    }
    /* A Last-Event-ID that this server never sends counts as none. */
    if (req->request->last_event_id.at != NULL &&
        span_parse_u64(req->request->last_event_id, ORDER_VERSION_MAX, &version) != 0) {
        version = 0;
    }
    operation->context.order_stream.version_sent = (uint16_t)version;
    operation->context.order_stream.token = req->token;
    operation->context.order_stream.settings = req->worker->settings->number;
    return api_submit(req, operation);
}

/* ---- cancel ---- */

static enum http_outcome cancel_done(struct api_request *req, struct api_operation *operation)
{
    struct api_worker *worker = req->worker;
    const struct ledger_op *op = &operation->write.op;
    if (op->refusal != REFUSAL_NONE) {
        return api_refuse_simply(worker, req->exchange, op->refusal, NULL);
    }
    struct out body = api_scratch(worker);
    json_order_row(&body, worker->shared->catalog, &op->order, ROW_AS_VIEW);
    return api_json(worker, req->exchange, 200, "", NULL, out_span(&body));
}

static enum http_outcome cancel_looked_up(struct api_request *req, struct api_operation *operation)
{
    if (!found(req, operation)) {
        return HTTP_ANSWERED;
    }
    switch ((enum order_state)operation->gate.order.state) {
    case ORDER_QUEUED:
        return api_refuse_simply(req->worker, req->exchange, REFUSAL_QUEUED,
                                 "the order is still being booked; cancel it in a moment");
    case ORDER_FAILED:
        return api_refuse_simply(req->worker, req->exchange, REFUSAL_EXPIRED,
                                 "the order failed; there is nothing to cancel");
    default:
        break;
    }
    struct api_operation *write = api_write_operation(req, BUDGET_SHOP, cancel_done);
    if (write == NULL) {
        return api_refuse_simply(req->worker, req->exchange, REFUSAL_OVERLOADED, NULL);
    }
    write->write.op.kind = LEDGER_CANCEL;
    write->write.op.id = operation->gate.id;
    write->write.op.user = req->user;
    write->write.op.late_ms = req->worker->settings->late_cancel_ms;
    write->write.op.cooling_ms = req->worker->settings->cooling_ms;
    return api_submit(req, write);
}

enum http_outcome handle_cancel(struct api_request *req)
{
    struct api_operation *operation = order_operation(req, cancel_looked_up);
    return operation != NULL ? api_submit(req, operation) : HTTP_ANSWERED;
}

/* ---- the list ---- */

/* Every row has been looked up at the gate. */
static enum http_outcome list_answer(struct api_request *req, struct api_operation *list)
{
    struct api_worker *worker = req->worker;
    if (list->context.order_list.refusal != REFUSAL_NONE) {
        return api_refuse_unreachable(worker, req->exchange, list->context.order_list.refusal);
    }
    struct out body = api_scratch(worker);
    json_order_page(&body, worker, &list->read.query, false);
    if (body.overflow) {
        return api_refuse_field(worker, req->exchange, "limit", "ask for fewer orders at once");
    }
    return api_json(worker, req->exchange, 200, "", NULL, out_span(&body));
}

static enum http_outcome row_looked_up(struct api_request *req, struct api_operation *operation)
{
    (void)req;
    struct api_operation *list = operation->parent;
    struct order_row *row = &list->read.query.orders[operation->context.order_list_row.row];
    const struct order_view *order = &operation->gate.order;
    if (operation->error != 0) {
        return HTTP_PENDING; /* what the journal lost is in the ledger: the row shows it */
    }
    if (api_gate_unreachable(operation)) {
        list->context.order_list.refusal = operation->gate.refusal;
    } else if (operation->gate.refusal == REFUSAL_NONE) {
        row->state = (enum order_state)order->state;
        row->reason = (enum refusal)order->reason;
        row->pay_by_ms = order->pay_by_ms;
    }
    return HTTP_PENDING;
}

/* The ledger may be a moment ahead of the gate. The list shows the gate's state, so that it does not
 * contradict what the order's own path shows. */
static void look_up_row(struct api_request *req, struct api_operation *list, uint32_t row)
{
    struct api_operation *operation =
        api_gate_is_busy(req->worker) ? NULL
                                      : api_gate_operation(req, GATE_REQUEST_ORDER, row_looked_up);
    if (operation == NULL) {
        list->context.order_list.refusal = REFUSAL_OVERLOADED;
        return;
    }
    const struct order_row *read = &list->read.query.orders[row];
    operation->gate.id = read->id;
    if (order_state_final(
            read->state)) { /* it does not change: the gate need not have it read again */
        operation->gate.ledger = GATE_LEDGER_HAS;
        operation->gate.ledger_order = (struct order_view){.id = read->id,
                                                           .user = read->user,
                                                           .item = read->item,
                                                           .qty = read->qty,
                                                           .state = (uint8_t)read->state,
                                                           .reason = (uint8_t)read->reason,
                                                           .pay_by_ms = read->pay_by_ms};
    }
    operation->context.order_list_row.row = row;
    api_make_part(operation, list);
    (void)api_submit(req, operation);
}

static enum http_outcome list_read(struct api_request *req, struct api_operation *list)
{
    const struct ledger_query *query = &list->read.query;
    if (query->error == ERR_INVALID) {
        return api_refuse_field(req->worker, req->exchange, "after",
                                "after must be the next of an earlier answer");
    }
    if (query->error != 0) {
        return api_refuse_simply(req->worker, req->exchange, REFUSAL_DEGRADED,
                                 "your orders cannot be listed now; none is lost");
    }
    list->parts_done = list_answer;
    for (uint32_t i = 0; i < query->count; i++) {
        look_up_row(req, list, i);
    }
    return HTTP_PENDING;
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
    struct api_operation *list =
        api_read_operation(req, QUERY_ORDERS, (uint32_t)limit, BUDGET_BUYER, list_read);
    if (list == NULL) {
        return api_refuse_simply(req->worker, req->exchange, REFUSAL_OVERLOADED, NULL);
    }
    list->read.query.user = req->user;
    char *cursor = list->read.query.cursor;
    if (after.len > 0 && after.len < sizeof(list->read.query.cursor)) {
        memcpy(cursor, after.at, after.len);
    } else if (after.len > 0) {
        memcpy(cursor, "?", 1); /* too long for a cursor of ours: the ledger refuses this one */
    }
    return api_submit(req, list);
}
