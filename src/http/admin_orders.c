/* Operators: orders, one order's history, the event feed, the live feed. */
#include <string.h>

#include "base/err.h"
#include "http/front_private.h"
#include "http/handlers.h"
#include "http/watch.h"

static enum http_outcome overloaded(struct asking *asking)
{
    return front_refuse_simply(asking->front, asking->exchange, REFUSAL_OVERLOADED, NULL);
}

static void cannot_read(struct front *front, struct http_exchange exchange)
{
    (void)front_refuse_simply(front, exchange, REFUSAL_DEGRADED, LEDGER_AWAY);
}

/* ---- orders ---- */

static void orders_read(struct front *front, struct front_query *query)
{
    const struct ledger_query *q = &query->clerk.query;
    if (q->error == ERR_INVALID) {
        (void)front_refuse_field(front, query->exchange, "after",
                                 "after must be the next of an earlier answer");
        return;
    }
    if (q->error != 0) {
        cannot_read(front, query->exchange);
        return;
    }
    struct out body = front_scratch(front);
    json_order_page(&body, front, q, true);
    if (body.overflow) {
        (void)front_refuse_field(front, query->exchange, "limit", "ask for fewer orders at once");
        return;
    }
    (void)front_json(front, query->exchange, 200, "", NULL, out_span(&body));
}

/* A filter that is an id; 0 when absent. */
static bool filter(struct asking *asking, const char *name, uint64_t *ret_id)
{
    if (query_number(asking->request->query, name, ID_MAX, 0, ret_id) == 0) {
        return true;
    }
    (void)front_refuse_field(asking->front, asking->exchange, name, "must be an id");
    return false;
}

enum http_outcome handle_admin_orders(struct asking *asking)
{
    struct span parameters = asking->request->query;
    struct span after = query_value(parameters, "after");
    struct span status = query_value(parameters, "status");
    uint64_t sale = 0;
    uint64_t item = 0;
    uint64_t user = 0;
    uint64_t limit = 0;
    enum order_state state = ORDER_QUEUED;
    if (!filter(asking, "sale", &sale) || !filter(asking, "item", &item) ||
        !filter(asking, "user", &user)) {
        return HTTP_ANSWERED;
    }
    if (query_number(parameters, "limit", PAGE_LIMIT_MAX, PAGE_LIMIT_DEFAULT, &limit) != 0 ||
        limit == 0) {
        return front_refuse_field(asking->front, asking->exchange, "limit",
                                  "limit must be a whole number from 1 to 1000");
    }
    if (status.at != NULL && order_state_parse(status, &state) != 0) {
        return front_refuse_field(asking->front, asking->exchange, "status",
                                  "status must be an order's state, like LOCKED");
    }
    /* 500 rows with every field at its longest would still fit the scratch. */
    struct front_query *query = front_query_new(
        asking, QUERY_ORDERS, limit > 500 ? 500 : (uint32_t)limit, orders_read, BUDGET_OPERATOR);
    if (query == NULL) {
        return overloaded(asking);
    }
    struct ledger_query *q = &query->clerk.query;
    q->sale = sale;
    q->item = item;
    q->user = user;
    q->state = status.at != NULL ? (int)state : -1;
    size_t len = after.len < sizeof(q->cursor) ? after.len : 0;
    memcpy(q->cursor, len > 0 ? after.at : "?", after.len > 0 && len == 0 ? 1 : len);
    return front_query_post(asking->front, query);
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
static void put_history(struct out *body, struct front *front, const struct order_row *row)
{
    json_order_row(body, front->shared->catalog, row, ROW_FOR_ADMIN);
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

static void order_read(struct front *front, struct front_query *query)
{
    const struct ledger_query *q = &query->clerk.query;
    if (q->error != 0) {
        if (q->error == ERR_NOTFOUND && query->blind) {
            (void)front_refuse_look(front, query->exchange, REFUSAL_DEGRADED);
        } else if (q->error == ERR_NOTFOUND) {
            (void)front_refuse_simply(front, query->exchange, REFUSAL_NOT_FOUND, "no such order");
        } else {
            cannot_read(front, query->exchange);
        }
        return;
    }
    struct out body = front_scratch(front);
    put_history(&body, front, &q->orders[0]);
    (void)front_json(front, query->exchange, 200, "", NULL, out_span(&body));
}

/* An order decided but not booked yet is known to the gate alone. */
static struct order_row queued_row(struct front *front, const struct order_view *view)
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
    struct catalog *catalog = front->shared->catalog;
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

static void queued_done(struct front *front, struct front_call *call)
{
    struct out body = front_scratch(front);
    put_history(&body, front, &call->write.op.order);
    (void)front_json(front, call->exchange, 200, "", NULL, out_span(&body));
}

/* As the gate has it, once that is durable. */
static enum http_outcome show_queued(struct asking *asking, const struct front_ask *ask)
{
    struct front *front = asking->front;
    struct front_call *call = front_call_new(asking, queued_done, BUDGET_OPERATOR);
    if (call == NULL) {
        return overloaded(asking);
    }
    call->write.op.order = queued_row(front, &ask->gate.order);
    if (!front_after(front, ask->gate.lsn, asking->exchange, call)) {
        front_call_free(front, call);
        return overloaded(asking);
    }
    return HTTP_PENDING;
}

/* Not at the gate, or further than QUEUED: the ledger has it. */
static enum http_outcome admin_looked(struct asking *asking, struct front_ask *ask)
{
    if (ask->gate.refusal == REFUSAL_NONE && ask->gate.order.state == ORDER_QUEUED) {
        return show_queued(asking, ask);
    }
    struct front_query *query =
        front_query_new(asking, QUERY_ORDER, 1, order_read, BUDGET_OPERATOR);
    if (query == NULL) {
        return overloaded(asking);
    }
    query->clerk.query.id = ask->gate.id;
    query->blind = front_ask_blind(ask);
    return front_query_post(asking->front, query);
}

enum http_outcome handle_admin_order(struct asking *asking)
{
    struct order_id id;
    if (order_id_parse(asking->part[0], &id) != 0) {
        return front_refuse_simply(asking->front, asking->exchange, REFUSAL_NOT_FOUND,
                                   "no such order");
    }
    struct front_ask *ask = front_ask_new(asking, ASK_ORDER, admin_looked);
    if (ask == NULL) {
        return overloaded(asking);
    }
    ask->gate.id = id;
    return front_ask(asking, ask);
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

static void events_read(struct front *front, struct front_query *query)
{
    const struct ledger_query *q = &query->clerk.query;
    if (q->error != 0) {
        cannot_read(front, query->exchange);
        return;
    }
    uint64_t next = q->after;
    struct out body = front_scratch(front);
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
    (void)front_json(front, query->exchange, 200, "", NULL, out_span(&body));
}

enum http_outcome handle_admin_events(struct asking *asking)
{
    struct span parameters = asking->request->query;
    uint64_t after = 0;
    uint64_t limit = 0;
    if (query_number(parameters, "after", (uint64_t)INT64_MAX, 0, &after) != 0) {
        return front_refuse_field(asking->front, asking->exchange, "after",
                                  "after must be an event's number");
    }
    if (query_number(parameters, "limit", PAGE_LIMIT_MAX, 100, &limit) != 0 || limit == 0) {
        return front_refuse_field(asking->front, asking->exchange, "limit",
                                  "limit must be a whole number from 1 to 1000");
    }
    struct front_query *query =
        front_query_new(asking, QUERY_EVENTS, (uint32_t)limit, events_read, BUDGET_OPERATOR);
    if (query == NULL) {
        return overloaded(asking);
    }
    query->clerk.query.after = after;
    return front_query_post(asking->front, query);
}

/* ---- the live feed ---- */

enum http_outcome handle_live(struct asking *asking)
{
    if (watch_full(asking->front)) {
        return overloaded(asking);
    }
    watch_live(asking->front, asking->exchange);
    return HTTP_ANSWERED;
}
