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

static void cannot_read(struct api_worker *worker, struct http_exchange exchange)
{
    (void)api_refuse_simply(worker, exchange, REFUSAL_DEGRADED, LEDGER_AWAY);
}

/* ---- orders ---- */

static void orders_read(struct api_worker *worker, struct api_query *query)
{
    const struct ledger_query *q = &query->ledger_reader.query;
    if (q->error == ERR_INVALID) {
        (void)api_refuse_field(worker, query->exchange, "after",
                               "after must be the next of an earlier answer");
        return;
    }
    if (q->error != 0) {
        cannot_read(worker, query->exchange);
        return;
    }
    struct out body = api_scratch(worker);
    json_order_page(&body, worker, q, true);
    if (body.overflow) {
        (void)api_refuse_field(worker, query->exchange, "limit", "ask for fewer orders at once");
        return;
    }
    (void)api_json(worker, query->exchange, 200, "", NULL, out_span(&body));
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
    /* 500 rows with every field at its longest would still fit the scratch. */
    struct api_query *query = api_query_new(req, QUERY_ORDERS, limit > 500 ? 500 : (uint32_t)limit,
                                            orders_read, BUDGET_OPERATOR);
    if (query == NULL) {
        return overloaded(req);
    }
    struct ledger_query *q = &query->ledger_reader.query;
    q->sale = sale;
    q->item = item;
    q->user = user;
    q->state = status.at != NULL ? (int)state : -1;
    size_t len = after.len < sizeof(q->cursor) ? after.len : 0;
    memcpy(q->cursor, len > 0 ? after.at : "?", after.len > 0 && len == 0 ? 1 : len);
    return api_query_post(req->worker, query);
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

static void order_read(struct api_worker *worker, struct api_query *query)
{
    const struct ledger_query *q = &query->ledger_reader.query;
    if (q->error != 0) {
        if (q->error == ERR_NOTFOUND && query->blind) {
            (void)api_refuse_look(worker, query->exchange, REFUSAL_DEGRADED);
        } else if (q->error == ERR_NOTFOUND) {
            (void)api_refuse_simply(worker, query->exchange, REFUSAL_NOT_FOUND, "no such order");
        } else {
            cannot_read(worker, query->exchange);
        }
        return;
    }
    struct out body = api_scratch(worker);
    put_history(&body, worker, &q->orders[0]);
    (void)api_json(worker, query->exchange, 200, "", NULL, out_span(&body));
}

/* An order decided but not booked yet is known to the gate alone. */
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

static void queued_done(struct api_worker *worker, struct api_write *call)
{
    struct out body = api_scratch(worker);
    put_history(&body, worker, &call->write.op.order);
    (void)api_json(worker, call->exchange, 200, "", NULL, out_span(&body));
}

/* As the gate has it, once that is durable. */
static enum http_outcome show_queued(struct api_request *req,
                                     const struct api_gate_request *request)
{
    struct api_worker *worker = req->worker;
    struct api_write *call = api_write_new(req, queued_done, BUDGET_OPERATOR);
    if (call == NULL) {
        return overloaded(req);
    }
    call->write.op.order = queued_row(worker, &request->gate.order);
    if (!api_after_durable(worker, request->gate.lsn, req->exchange, call)) {
        api_write_free(worker, call);
        return overloaded(req);
    }
    return HTTP_PENDING;
}

/* Not at the gate, or further than QUEUED: the ledger has it. */
static enum http_outcome admin_looked(struct api_request *req, struct api_gate_request *request)
{
    if (request->gate.refusal == REFUSAL_NONE && request->gate.order.state == ORDER_QUEUED) {
        return show_queued(req, request);
    }
    struct api_query *query = api_query_new(req, QUERY_ORDER, 1, order_read, BUDGET_OPERATOR);
    if (query == NULL) {
        return overloaded(req);
    }
    query->ledger_reader.query.id = request->gate.id;
    query->blind = api_gate_request_blind(request);
    return api_query_post(req->worker, query);
}

enum http_outcome handle_admin_order(struct api_request *req)
{
    struct order_id id;
    if (order_id_parse(req->part[0], &id) != 0) {
        return api_refuse_simply(req->worker, req->exchange, REFUSAL_NOT_FOUND, "no such order");
    }
    struct api_gate_request *request = api_gate_request_new(req, GATE_REQUEST_ORDER, admin_looked);
    if (request == NULL) {
        return overloaded(req);
    }
    request->gate.id = id;
    return api_gate_request(req, request);
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

static void events_read(struct api_worker *worker, struct api_query *query)
{
    const struct ledger_query *q = &query->ledger_reader.query;
    if (q->error != 0) {
        cannot_read(worker, query->exchange);
        return;
    }
    uint64_t next = q->after;
    struct out body = api_scratch(worker);
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
    (void)api_json(worker, query->exchange, 200, "", NULL, out_span(&body));
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
    struct api_query *query =
        api_query_new(req, QUERY_EVENTS, (uint32_t)limit, events_read, BUDGET_OPERATOR);
    if (query == NULL) {
        return overloaded(req);
    }
    query->ledger_reader.query.after = after;
    return api_query_post(req->worker, query);
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
