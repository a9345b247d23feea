/* Operators: orders, one order's history, the event feed, the live feed. */
#include <string.h>

#include "api/api_private.h"
#include "api/handlers.h"
#include "api/watch.h"
#include "base/err.h"

static enum http_outcome overloaded(struct api_request *req)
{
    return api_refuse_simply(req->worker, req->exchange, REFUSAL_OVERLOADED, NULL);
}

static enum http_outcome cannot_read(struct api_request *req)
{
    return api_refuse_simply(req->worker, req->exchange, REFUSAL_DEGRADED, LEDGER_UNREACHABLE);
}

/* ---- orders ---- */

static enum http_outcome orders_read(struct api_request *req, struct api_operation *operation)
{
    const struct ledger_query *query = &operation->read.query;
    if (query->error == ERR_INVALID) {
        return api_refuse_field(req->worker, req->exchange, "after",
                                "after must be the next of an earlier answer");
    }
    if (query->error != 0) {
        return cannot_read(req);
    }
    struct out body = api_scratch(req->worker);
    json_order_page(&body, req->worker, query, true);
    if (body.overflow) {
        return api_refuse_field(req->worker, req->exchange, "limit",
                                "ask for fewer orders at once");
    }
    return api_json(req->worker, req->exchange, 200, "", NULL, out_span(&body));
}

/* A filter that is an id; 0 when absent. */
static bool filter(struct api_request *req, const char *name, uint64_t *ret_id)
{
    if (query_number(req->request->query, name, ID_MAX, 0, ret_id) == 0) {
        return true;
    }
    (void)api_refuse_field(req->worker, req->exchange, name, "must be an id");
    return false;
}

enum http_outcome handle_admin_orders(struct api_request *req)
{
    struct span parameters = req->request->query;
    struct span after = query_value(parameters, "after");
    struct span status = query_value(parameters, "status");
    uint64_t sale = 0;
    uint64_t item = 0;
    uint64_t user = 0;
    uint64_t limit = 0;
    enum order_state state = ORDER_QUEUED;
    if (!filter(req, "sale", &sale) || !filter(req, "item", &item) || !filter(req, "user", &user)) {
        return HTTP_ANSWERED;
    }
    if (query_number(parameters, "limit", PAGE_LIMIT_MAX, PAGE_LIMIT_DEFAULT, &limit) != 0 ||
        limit == 0) {
        return api_refuse_field(req->worker, req->exchange, "limit",
                                "limit must be a whole number from 1 to 1000");
    }
    if (status.at != NULL && order_state_parse(status, &state) != 0) {
        return api_refuse_field(req->worker, req->exchange, "status",
                                "status must be an order's state, like LOCKED");
    }
    /* 500 rows with every field at its longest still fit the scratch. */
    struct api_operation *operation = api_read_operation(
        req, QUERY_ORDERS, limit > 500 ? 500 : (uint32_t)limit, BUDGET_OPERATOR, orders_read);
    if (operation == NULL) {
        return overloaded(req);
    }
    struct ledger_query *q = &operation->read.query;
    q->sale = sale;
    q->item = item;
    q->user = user;
    q->state = status.at != NULL ? (int)state : -1;
    size_t len = after.len < sizeof(q->cursor) ? after.len : 0;
    memcpy(q->cursor, len > 0 ? after.at : "?", after.len > 0 && len == 0 ? 1 : len);
    return api_submit(req, operation);
}

static void put_step(struct out *out, bool *first, int64_t at_ms, const char *status)
{
    if (!*first) {
        out_char(out, ',');
    }
    *first = false;
    out_lit(out, "{\"at_ms\":");
    out_i64(out, at_ms);
    out_lit(out, ",\"status\":\"");
    out_text(out, status);
    out_lit(out, "\"}");
}

/* The order with every step it took. */
static void put_history(struct out *body, struct api_worker *worker, const struct order_row *row)
{
    json_order_row(body, worker->shared->catalog, row, ROW_FOR_ADMIN);
    body->len--; /* reopen the object */
    out_lit(body, ",\"lsn\":");
    out_u64(body, row->lsn);
    out_lit(body, ",\"history\":[");
    bool first = true;
    put_step(body, &first, row->created_at_ms, "QUEUED");
    if (row->locked_at_ms != 0) {
        put_step(body, &first, row->locked_at_ms, "LOCKED");
    }
    if (row->ended_at_ms != 0) {
        put_step(body, &first, row->ended_at_ms, order_state_text(row->state));
    }
    out_lit(body, "]}");
}

static enum http_outcome order_read(struct api_request *req, struct api_operation *operation)
{
    const struct ledger_query *query = &operation->read.query;
    if (query->error == ERR_NOTFOUND && operation->context.order_lookup.gate_unreachable) {
        return api_refuse_unreachable(req->worker, req->exchange, REFUSAL_DEGRADED);
    }
    if (query->error == ERR_NOTFOUND) {
        return api_refuse_simply(req->worker, req->exchange, REFUSAL_NOT_FOUND, "no such order");
    }
    if (query->error != 0) {
        return cannot_read(req);
    }
    struct out body = api_scratch(req->worker);
    put_history(&body, req->worker, &query->orders[0]);
    return api_json(req->worker, req->exchange, 200, "", NULL, out_span(&body));
}

/* An order that is decided and not booked yet: only the gate knows it. */
static struct order_row queued_row(struct api_worker *worker, const struct order_view *view)
{
    struct order_row row = {.id = view->id,
                            .user = view->user,
                            .item = view->item,
                            .qty = view->qty,
                            .state = ORDER_QUEUED,
                            .reason = (enum refusal)view->reason,
                            .created_at_ms = view->created_at_ms,
                            .lsn = view->lsn};
    const struct sale_row *sale = NULL;
    struct catalog *catalog = worker->shared->catalog;
    catalog_lock(catalog);
    const struct item_row *item = catalog_item(catalog, row.item, &sale);
    if (item != NULL) {
        row.sale = sale->id;
        row.amount_cents = (int64_t)item->price_cents * row.qty;
        memcpy(row.currency, sale->currency, sizeof(row.currency));
    }
    catalog_unlock(catalog);
    return row;
}

static enum http_outcome show_queued(struct api_request *req, const struct api_operation *operation)
{
    struct order_row row = queued_row(req->worker, &operation->gate.order);
    struct out body = api_scratch(req->worker);
    put_history(&body, req->worker, &row);
    return api_json(req->worker, req->exchange, 200, "", NULL, out_span(&body));
}

/* An order that the gate does not have, or that is past QUEUED, is read from the ledger. */
static enum http_outcome admin_looked_up(struct api_request *req, struct api_operation *operation)
{
    if (operation->gate.refusal == REFUSAL_NONE && operation->gate.order.state == ORDER_QUEUED) {
        return show_queued(req, operation);
    }
    struct api_operation *read =
        api_read_operation(req, QUERY_ORDER, 1, BUDGET_OPERATOR, order_read);
    if (read == NULL) {
        return overloaded(req);
    }
    read->read.query.id = operation->gate.id;
    read->context.order_lookup.gate_unreachable = api_gate_unreachable(operation);
    return api_submit(req, read);
}

enum http_outcome handle_admin_order(struct api_request *req)
{
    struct order_id id;
    if (order_id_parse(req->part[0], &id) != 0) {
        return api_refuse_simply(req->worker, req->exchange, REFUSAL_NOT_FOUND, "no such order");
    }
    struct api_operation *operation = api_gate_operation(req, GATE_REQUEST_ORDER, admin_looked_up);
    if (operation == NULL) {
        return overloaded(req);
    }
    operation->gate.id = id;
    return api_submit(req, operation);
}

/* ---- events ---- */

static void put_event(struct out *out, const struct ledger_event *event)
{
    out_lit(out, "{\"number\":");
    out_u64(out, event->number);
    out_lit(out, ",\"type\":\"");
    out_text(out, ledger_event_text(event->kind));
    out_lit(out, "\",\"at_ms\":");
    out_i64(out, event->at_ms);
    out_lit(out, ",\"sale_id\":");
    out_u64(out, event->sale);
    if (event->item != 0) {
        out_lit(out, ",\"item_id\":");
        out_u64(out, event->item);
    }
    if (event->id.hi != 0) {
        char id[ORDER_ID_TEXT];
        order_id_text(event->id, id);
        out_lit(out, ",\"order_id\":\"");
        out_bytes(out, id, sizeof(id));
        out_lit(out, "\",\"user_id\":");
        out_u64(out, event->user);
        out_lit(out, ",\"qty\":");
        out_u64(out, event->qty);
        out_lit(out, ",\"reason\":");
        if (event->reason == REFUSAL_NONE) {
            out_lit(out, "null");
        } else {
            out_json_string(out, span_of(refusal_text(event->reason)->code));
        }
    }
    if (event->kind == EVENT_ORDER_LOCKED) {
        out_lit(out, ",\"pay_by_ms\":");
        out_i64(out, event->a);
    } else if (event->kind == EVENT_ITEM_RESTOCKED) {
        out_lit(out, ",\"add\":");
        out_i64(out, event->a);
    }
    out_char(out, '}');
}

static enum http_outcome events_read(struct api_request *req, struct api_operation *operation)
{
    const struct ledger_query *q = &operation->read.query;
    if (q->error != 0) {
        return cannot_read(req);
    }
    uint64_t next = q->after;
    struct out body = api_scratch(req->worker);
    out_lit(&body, "{\"events\":[");
    for (uint32_t i = 0; i < q->count; i++) {
        if (i > 0) {
            out_char(&body, ',');
        }
        put_event(&body, &q->events[i]);
        next = q->events[i].number;
    }
    out_lit(&body, "],\"next\":");
    out_u64(&body, next);
    out_char(&body, '}');
    return api_json(req->worker, req->exchange, 200, "", NULL, out_span(&body));
}

enum http_outcome handle_admin_events(struct api_request *req)
{
    struct span parameters = req->request->query;
    uint64_t after = 0;
    uint64_t limit = 0;
    if (query_number(parameters, "after", (uint64_t)INT64_MAX, 0, &after) != 0) {
        return api_refuse_field(req->worker, req->exchange, "after",
                                "after must be an event's number");
    }
    if (query_number(parameters, "limit", PAGE_LIMIT_MAX, 100, &limit) != 0 || limit == 0) {
        return api_refuse_field(req->worker, req->exchange, "limit",
                                "limit must be a whole number from 1 to 1000");
    }
    struct api_operation *operation =
        api_read_operation(req, QUERY_EVENTS, (uint32_t)limit, BUDGET_OPERATOR, events_read);
    if (operation == NULL) {
        return overloaded(req);
    }
    operation->read.query.after = after;
    return api_submit(req, operation);
}

/* ---- the live feed ---- */

enum http_outcome handle_live(struct api_request *req)
{
    if (watch_full(req->worker)) {
        return overloaded(req);
    }
    watch_live(req->worker, req->exchange);
    return HTTP_ANSWERED;
}
