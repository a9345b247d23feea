/*
 * A buyer's requests before there is an order: time, sales, items, a ticket, and the buy itself.
 *
 * The buy is the hot path. Framing, token and ticket are checked without any lookup, and then the gate
 * decides; a gate on another machine answers in a later iteration. A refusal is sent at once, from a
 * prebuilt answer if possible. A promise waits for its LSN.
 */
#include <string.h>

#include "api/api_private.h"
#include "api/handlers.h"
#include "api/request_blocks.h"
#include "api/request_limits.h"
#include "api/watch.h"
#include "base/check.h"
#include "base/err.h"
#include "base/flat_json.h"

#define CACHE_PUBLIC "public, max-age=1"
/* Those whose orders expired together do not come back together. */
#define COOLING_JITTER_MS 500

enum http_outcome handle_time(struct api_request *req)
{
    char text[48];
    struct out body = out_over(text, sizeof(text));
    out_lit(&body, "{\"now_ms\":");
    out_i64(&body, inside_time_ms(req->worker->shared->time));
    out_char(&body, '}');
    return api_json(req->worker, req->exchange, 200, "", NULL, out_span(&body));
}

/* ---- sales and items ---- */

/* One item with live numbers. False: the gate does not know it, because its sale is not loaded. */
static bool put_item(struct api_worker *worker, struct out *out, const struct sale_row *sale,
                     const struct item_row *item, int64_t now_ms)
{
    struct item_view view;
    if (!api_item_locked(worker, item->id, &view)) {
        return false;
    }
    json_item(out, sale, item, &view, now_ms);
    return true;
}

static const char *shown_state(const struct sale_row *sale, int64_t now_ms)
{
    struct gate_sale at = {.state = (uint8_t)sale->state,
                           .starts_at_ms = sale->starts_at_ms,
                           .ends_at_ms = sale->ends_at_ms};
    return sale_state_text(gate_sale_state_at(&at, now_ms));
}

static void put_sale(struct api_worker *worker, struct out *out, const struct sale_row *sale,
                     int64_t now_ms)
{
    out_lit(out, "{\"id\":");
    out_u64(out, sale->id);
    out_lit(out, ",\"name\":");
    out_json_string(out, span_of(sale->name));
    out_lit(out, ",\"state\":\"");
    out_text(out, shown_state(sale, now_ms));
    out_lit(out, "\",\"currency\":");
    out_json_string(out, span_of(sale->currency));
    out_lit(out, ",\"starts_at_ms\":");
    out_i64(out, sale->starts_at_ms);
    out_lit(out, ",\"ends_at_ms\":");
    out_i64(out, sale->ends_at_ms);
    out_lit(out, ",\"items\":[");
    bool first = true;
    for (uint32_t i = 0; i < sale->items_count; i++) {
        size_t mark = out->len;
        if (!first) {
            out_char(out, ',');
        }
        if (put_item(worker, out, sale, &sale->items[i], now_ms)) {
            first = false;
        } else {
            out->len = mark;
        }
    }
    out_lit(out, "]}");
}

/* False: the sale did not fit, and the body is unchanged. */
static bool add_sale(struct api_worker *worker, struct out *body, const struct sale_row *sale,
                     int64_t now_ms)
{
    size_t mark = body->len;
    if (body->at[body->len - 1] != '[') {
        out_char(body, ',');
    }
    put_sale(worker, body, sale, now_ms);
    if (body->overflow) {
        body->len = mark;
        body->overflow = false;
        return false;
    }
    return true;
}

/* One list of sales on its way to the answer cache. */
struct sales_source {
    struct api_worker *worker;
    int64_t now_ms;
};

/* Newest sales first, closed ones last, as many as fit into an answer. Any single sale fits (limits.h).
 * `more`: some were left out. */
static void write_sales(void *context, int64_t from_ms, int64_t to_ms, struct out *body)
{
    static const char more[] = "],\"more\":true}";
    const struct sales_source *source = context;
    struct catalog *catalog = source->worker->shared->catalog;
    body->cap -= sizeof(more); /* reserved for the end */
    out_lit(body, "{\"sales\":[");
    size_t count = 0;
    bool all = true;
    catalog_lock(catalog);
    struct sale_row *const *sales = catalog_sales(catalog, &count);
    for (int closed = 0; closed < 2; closed++) {
        for (size_t i = count; i > 0 && all; i--) {
            const struct sale_row *sale = sales[i - 1];
            if (sale->state != SALE_DRAFT && (sale->state == SALE_CLOSED) == (closed != 0) &&
                sale->ends_at_ms > from_ms && sale->starts_at_ms < to_ms) {
                all = add_sale(source->worker, body, sale, source->now_ms);
            }
        }
    }
    catalog_unlock(catalog);
    body->cap += sizeof(more);
    out_text(body, all ? "]}" : more);
}

/* Sends an edition of the answer cache, with the tag of its bytes, and gives the reference back. */
static enum http_outcome send_kept(struct api_request *req, struct answer *answer,
                                   const char *cache)
{
    char text[512];
    struct out lines = out_over(text, sizeof(text) - 1);
    out_lit(&lines, "Cache-Control: ");
    out_text(&lines, cache);
    out_lit(&lines, "\r\n");
    api_cors(req->worker, req->exchange, &lines);
    CHECK(!lines.overflow);
    text[lines.len] = '\0';
    content_answer(req->worker->server, req->exchange, req->request, 200, &answer->content, text,
                   &answer->hold);
    http_hold_release(&answer->hold);
    return HTTP_ANSWERED;
}

/* What is wrong with the range of time; NULL: nothing. */
static const char *read_range(struct span query, int64_t *ret_from_ms, int64_t *ret_to_ms)
{
    uint64_t from_ms = 0;
    uint64_t to_ms = INT64_MAX;
    if (query_number(query, "from_ms", TIME_MAX_MS, 0, &from_ms) != 0) {
        return "from_ms";
    }
    if (query_number(query, "to_ms", TIME_MAX_MS, INT64_MAX, &to_ms) != 0) {
        return "to_ms";
    }
    *ret_from_ms = (int64_t)from_ms;
    *ret_to_ms = (int64_t)to_ms;
    return NULL;
}

enum http_outcome handle_sales(struct api_request *req)
{
    struct api_shared *shared = req->worker->shared;
    struct sales_source source = {.worker = req->worker, .now_ms = req->now_ms};
    struct answer *answer = NULL;
    int64_t from_ms = 0;
    int64_t to_ms = INT64_MAX;
    const char *field = read_range(req->request->query, &from_ms, &to_ms);
    if (field != NULL) {
        return api_refuse_field(req->worker, req->exchange, field,
                                "a time is a whole number of milliseconds since the epoch");
    }
    int error = answer_cache_sales(shared->answer_cache, shared->catalog, req->now_ms, from_ms,
                                   to_ms, write_sales, &source, &answer);
    if (error != 0) {
        return api_refuse_simply(req->worker, req->exchange, REFUSAL_OVERLOADED,
                                 "too many different ranges of time are asked for");
    }
    return send_kept(req, answer, CACHE_PUBLIC);
}

static enum http_outcome no_such_item(struct api_request *req)
{
    return api_refuse_simply(req->worker, req->exchange, REFUSAL_NO_SUCH_ITEM,
                             "GET /v1/sales lists what there is");
}

/* The item is not known here. It may be known at another front, where its sale was warmed a moment
 * ago. */
static enum http_outcome look_for_item(struct api_request *req, uint64_t id, api_done *done)
{
    struct api_operation *operation = api_gate_operation(req, GATE_REQUEST_ITEM, done);
    if (operation == NULL) {
        return api_refuse_simply(req->worker, req->exchange, REFUSAL_OVERLOADED, NULL);
    }
    operation->gate.item = id;
    operation->gate.may_wait = true;
    return api_submit(req, operation);
}

static enum http_outcome item_not_here(struct api_request *req,
                                       const struct api_operation *operation)
{
    enum refusal refusal = operation->gate.refusal;
    return refusal == REFUSAL_NONE || refusal == REFUSAL_NO_SUCH_ITEM
               ? no_such_item(req)
               : api_refuse_unreachable(req->worker, req->exchange, refusal);
}

/* False: the item is not known here. */
static bool show_item(struct api_request *req, uint64_t id)
{
    struct api_worker *worker = req->worker;
    struct catalog *catalog = worker->shared->catalog;
    const struct sale_row *sale = NULL;
    struct out body = api_scratch(worker);
    catalog_lock(catalog);
    const struct item_row *item = catalog_item(catalog, id, &sale);
    bool found = item != NULL && put_item(worker, &body, sale, item, req->now_ms);
    catalog_unlock(catalog);
    if (found) {
        (void)api_json(worker, req->exchange, 200, "", CACHE_PUBLIC, out_span(&body));
    }
    return found;
}

static enum http_outcome item_looked_for(struct api_request *req, struct api_operation *operation)
{
    return show_item(req, operation->gate.item) ? HTTP_ANSWERED : item_not_here(req, operation);
}

enum http_outcome handle_item(struct api_request *req)
{
    uint64_t id = 0;
    if (part_id(req->part[0], &id) != 0) {
        return no_such_item(req);
    }
    return show_item(req, id) ? HTTP_ANSWERED : look_for_item(req, id, item_looked_for);
}

static enum http_outcome begin_item_events(struct api_request *req, uint64_t id)
{
    if (watch_full(req->worker)) {
        return api_refuse_simply(req->worker, req->exchange, REFUSAL_OVERLOADED,
                                 "too many streams; GET the item instead");
    }
    watch_item(req->worker, req->exchange, id);
    return HTTP_ANSWERED;
}

static enum http_outcome stream_looked_for(struct api_request *req, struct api_operation *operation)
{
    return operation->gate.refusal == REFUSAL_NONE ? begin_item_events(req, operation->gate.item)
                                                   : item_not_here(req, operation);
}

enum http_outcome handle_item_events(struct api_request *req)
{
    uint64_t id = 0;
    struct item_view view;
    if (part_id(req->part[0], &id) != 0) {
        return no_such_item(req);
    }
    return api_item(req->worker, id, &view) ? begin_item_events(req, id)
                                            : look_for_item(req, id, stream_looked_for);
}

/* ---- refusals of ticket and buy ---- */

/* The same ticket, or a new one, may buy when the rest of the cooling time is over. */
static void refuse_cooling(struct api_worker *worker, int64_t until_ms, struct refused *refused)
{
    int64_t wait_ms = until_ms - inside_time_ms(worker->shared->time);
    refused->override_retry = true;
    refused->retry = RETRY_LATER;
    refused->retry_after_ms =
        (wait_ms > 0 ? wait_ms : 1) + (int64_t)prng_below(&worker->prng, COOLING_JITTER_MS);
    refused->detail = "an order of yours for this item ended unpaid a short time ago; wait";
}

static enum http_outcome refuse_request(struct api_worker *worker, struct http_exchange exchange,
                                        const struct gate_request *request)
{
    struct refused refused = {.refusal = request->refusal};
    api_tally_refusal(worker, request->item, request->refusal);
    if (request->refusal == REFUSAL_SOLD_OUT && request->available == 0 &&
        api_answer_sold_out(worker, exchange, request->locked > 0)) {
        return HTTP_ANSWERED;
    }
    switch (request->refusal) {
    case REFUSAL_SOLD_OUT:
        refused.has_available = true;
        refused.available = request->available;
        refused.override_retry = true;
        refused.retry = request->locked > 0 ? RETRY_LATER : RETRY_NO;
        refused.detail = request->available > 0 ? "fewer units are left than asked for"
                         : request->locked > 0  ? SOLD_OUT_FOR_NOW
                                                : SOLD_OUT_FOR_GOOD;
        break;
    case REFUSAL_OVERLOADED:
        metrics_full(worker->metrics, request->bound);
        refused.detail = request->bound == GATE_BOUND_BUYER_SHARE
                             ? "you have too many orders for this item at once"
                         : request->bound == GATE_BOUND_ITEM_SHARE
                             ? "there are too many orders for this item at once"
                             : NULL;
        break;
    case REFUSAL_LIMIT_REACHED:
        refused.has_held = true;
        refused.held = request->held;
        refused.has_limit = true;
        refused.limit = request->limit;
        break;
    case REFUSAL_BLOCKED:
        refused.detail = BLOCKED_DETAIL;
        break;
    case REFUSAL_BARRED:
        if (request->cooling_until_ms != 0) {
            refuse_cooling(worker, request->cooling_until_ms, &refused);
        }
        break;
    case REFUSAL_BAD_TICKET:
        refused.detail = "take a new ticket: POST /v1/items/{item}/ticket";
        break;
    case REFUSAL_DIFFERENT_REQUEST:
        refused.detail = "this ticket was used with another qty; GET the order it made";
        break;
    case REFUSAL_UNKNOWN_OUTCOME:
        refused.detail = "the order may exist or not; ask again with the same ticket";
        break;
    case REFUSAL_DEGRADED:
        refused.detail = "orders cannot be decided and made durable at the moment";
        break;
    default:
        break;
    }
    return api_refuse(worker, exchange, &refused);
}

/* ---- bodies of ticket and buy ---- */

struct body_fault {
    char field[64];
    const char *why;
};

/* Reads a flat body. 0, or ERR_INVALID with the field and the reason: a member that is not among the
 * fields is refused by its name, since a misspelt one ("QTY") would be ignored otherwise. */
static int read_body(struct span body, struct flat_field *fields, size_t count, const char *form,
                     struct body_fault *ret_fault)
{
    struct span unknown = {NULL, 0};
    int error = flat_json_read(body, fields, count, true, &unknown);
    if (error == 0) {
        return 0;
    }
    bool named = error == ERR_NOTFOUND && unknown.len < sizeof(ret_fault->field);
    struct span field = named ? unknown : span_of("body");
    memcpy(ret_fault->field, field.at, field.len);
    ret_fault->field[field.len] = '\0';
    ret_fault->why =
        error == ERR_NOTFOUND ? "the body has a member that this call does not know" : form;
    return ERR_INVALID;
}

/* ---- ticket ---- */

/* Why the buyer gets no ticket now. If there are several reasons, the first of these. */
static enum refusal ticket_refusal(const struct gate_request *request, int64_t now_ms,
                                   int64_t window_ms)
{
    const struct item_view *view = &request->view;
    if (view->sale_state == SALE_CLOSED || now_ms >= view->ends_at_ms) {
        return REFUSAL_ENDED;
    }
    if (view->sale_state == SALE_PAUSED) {
        return REFUSAL_NOT_OPEN;
    }
    if (now_ms < view->starts_at_ms - window_ms) {
        return REFUSAL_TOO_EARLY;
    }
    if (view->available == 0 && !request->has_order) {
        return REFUSAL_SOLD_OUT;
    }
    return request->attempt >= BUYER_FAILED_ATTEMPTS_MAX ? REFUSAL_LIMIT_REACHED : REFUSAL_NONE;
}

static enum http_outcome give_ticket(struct api_request *req, const struct gate_request *request)
{
    struct api_worker *worker = req->worker;
    struct ticket ticket = {.user = req->user,
                            .item = request->item,
                            .expires_at_ms = req->now_ms + worker->settings->ticket_ttl_ms};
    if (request->view.limit_per_user == 1) {
        ticket.id = order_id_once(request->item, req->user, request->attempt);
    } else {
        ticket.id = order_id_fresh(request->item, req->now_ms,
                                   atomic_fetch_add(&worker->shared->fresh_sequence, 1)
                                           << ORDER_SEGMENT_BITS |
                                       request->segment);
    }
    char text[TICKET_TEXT];
    char order[ORDER_ID_TEXT];
    ticket_sign(&worker->settings->ticket_keys, &ticket, text);
    order_id_text(ticket.id, order);
    char memory[512];
    struct out body = out_over(memory, sizeof(memory));
    out_lit(&body, "{\"ticket\":\"");
    out_bytes(&body, text, sizeof(text));
    out_lit(&body, "\",\"order_id\":\"");
    out_bytes(&body, order, sizeof(order));
    out_lit(&body, "\",\"buy_url\":\"/v1/buy/");
    out_bytes(&body, text, sizeof(text));
    out_lit(&body, "\",\"expires_at_ms\":");
    out_i64(&body, ticket.expires_at_ms);
    out_lit(&body, ",\"held\":");
    out_u64(&body, request->held);
    out_char(&body, '}');
    metrics_add(worker->metrics, METRIC_TICKETS_TOTAL, 1);
    struct tally_row *row = api_tally(worker, request->item);
    if (row != NULL) {
        tally_add(row, TALLY_TICKETS);
    }
    return api_json(worker, req->exchange, 201, "", NULL, out_span(&body));
}

/* The gate does not know the item: its sale is not warmed yet, or was forgotten, or does not exist. Or
 * it was warmed a moment ago and a gate on another machine does not have it yet. Then the answer is
 * 503: a buyer who saw that the sale is open must not read that it is not. */
static enum http_outcome refuse_unknown_item(struct api_request *req, uint64_t id)
{
    struct catalog *catalog = req->worker->shared->catalog;
    const struct sale_row *sale = NULL;
    catalog_lock(catalog);
    bool known = catalog_item(catalog, id, &sale) != NULL;
    enum sale_state state = known ? sale->state : SALE_DRAFT;
    catalog_unlock(catalog);
    if (!known) {
        return no_such_item(req);
    }
    api_tally_refusal(req->worker, id,
                      state == SALE_CLOSED  ? REFUSAL_ENDED
                      : state != SALE_DRAFT ? REFUSAL_DEGRADED
                                            : REFUSAL_NOT_OPEN);
    if (state == SALE_CLOSED) {
        return api_refuse_simply(req->worker, req->exchange, REFUSAL_ENDED, NULL);
    }
    if (state != SALE_DRAFT) {
        return api_refuse_simply(req->worker, req->exchange, REFUSAL_DEGRADED,
                                 "the sale was warmed a moment ago; nothing has changed");
    }
    return api_refuse_simply(req->worker, req->exchange, REFUSAL_NOT_OPEN,
                             "the sale is not warmed yet");
}

static enum http_outcome ticket_looked_up(struct api_request *req, struct api_operation *operation)
{
    struct api_worker *worker = req->worker;
    struct gate_request *request = &operation->gate;
    if (request->refusal == REFUSAL_NO_SUCH_ITEM) {
        return refuse_unknown_item(req, request->item);
    }
    if (request->refusal != REFUSAL_NONE) {
        api_tally_refusal(worker, request->item, request->refusal);
        return api_refuse_unreachable(worker, req->exchange, request->refusal);
    }
    request->refusal = ticket_refusal(request, req->now_ms, worker->settings->ticket_window_ms);
    if (request->refusal == REFUSAL_TOO_EARLY) {
        api_tally_refusal(worker, request->item, REFUSAL_TOO_EARLY);
        int64_t wait_ms =
            request->view.starts_at_ms - worker->settings->ticket_window_ms - req->now_ms;
        int64_t jitter_ms = (int64_t)prng_below(&worker->prng, 500);
        return api_refuse(worker, req->exchange,
                          &(struct refused){.refusal = REFUSAL_TOO_EARLY,
                                            .retry_after_ms = wait_ms + jitter_ms,
                                            .detail = "the ticket window is not open yet"});
    }
    if (request->refusal != REFUSAL_NONE) {
        request->available = request->view.available;
        request->locked = request->view.locked;
        request->limit = request->view.limit_per_user;
        return refuse_request(worker, req->exchange, request);
    }
    return give_ticket(req, request);
}

enum http_outcome handle_ticket(struct api_request *req)
{
    struct api_worker *worker = req->worker;
    uint64_t item = 0;
    enum refusal media = body_is_json(req->request, true);
    if (media != REFUSAL_NONE) {
        return api_refuse_simply(worker, req->exchange, media, NULL);
    }
    /* What answers a challenge is known to this call also where no challenge is asked for. */
    struct flat_field fields[] = {{.key = "challenge"}, {.key = "answer"}};
    struct body_fault fault;
    if (req->request->body.len > 0 &&
        read_body(req->request->body, fields, 2, "the body must be one JSON object", &fault) != 0) {
        return api_refuse_field(worker, req->exchange, fault.field, fault.why);
    }
    if (part_id(req->part[0], &item) != 0) {
        return no_such_item(req);
    }
    enum limits_verdict limits = request_limits_end(req, item);
    if (limits != LIMITS_PASSED) {
        return limits == LIMITS_HELD ? HTTP_PENDING : HTTP_ANSWERED;
    }
    api_tally_request(worker, item, req->user);
    if (!request_blocks_pass(req, item)) {
        return HTTP_ANSWERED;
    }
    struct api_operation *operation =
        api_gate_operation(req, GATE_REQUEST_TICKET, ticket_looked_up);
    if (operation == NULL) {
        api_tally_refusal(worker, item, REFUSAL_OVERLOADED);
        return api_refuse_simply(worker, req->exchange, REFUSAL_OVERLOADED, NULL);
    }
    operation->gate.item = item;
    return api_submit(req, operation);
}

/* ---- buy ---- */

/* Reads the body's qty. 0, or ERR_INVALID with the field and the reason. */
static int read_qty(struct span body, uint32_t *ret_qty, struct body_fault *ret_fault)
{
    struct flat_field qty = {.key = "qty"};
    *ret_qty = 1;
    if (body.len == 0 || span_is(body, "{}")) {
        return 0;
    }
    if (read_body(body, &qty, 1, "the body must be one flat JSON object like {\"qty\":1}",
                  ret_fault) != 0) {
        return ERR_INVALID;
    }
    if (qty.value.kind == FLAT_ABSENT) {
        return 0;
    }
    if (qty.value.kind != FLAT_INTEGER || qty.value.number < 1 ||
        qty.value.number > (int64_t)QTY_MAX) {
        memcpy(ret_fault->field, "qty", sizeof("qty"));
        ret_fault->why = "qty must be a whole number from 1 to 2147483647";
        return ERR_INVALID;
    }
    *ret_qty = (uint32_t)qty.value.number;
    return 0;
}

/* The gate accepted the buy, and the order is durable: the answer is a promise. */
static enum http_outcome promise(struct api_request *req, const struct api_operation *operation)
{
    struct api_worker *worker = req->worker;
    const struct gate_request *bought = &operation->gate;
    char order[ORDER_ID_TEXT];
    char memory[192];
    char location[64];
    order_id_text(bought->order.id, order);
    struct out headers = out_over(location, sizeof(location) - 1);
    out_lit(&headers, "Location: /v1/orders/");
    out_bytes(&headers, order, sizeof(order));
    out_lit(&headers, "\r\n");
    location[headers.len] = '\0';
    struct out body = out_over(memory, sizeof(memory));
    out_lit(&body, "{\"order_id\":\"");
    out_bytes(&body, order, sizeof(order));
    out_lit(&body, "\",\"status\":\"");
    out_text(&body, order_state_text((enum order_state)bought->order.state));
    if (bought->order.state == ORDER_QUEUED && bought->order.reason != REFUSAL_NONE) {
        out_lit(&body, "\",\"reason\":\"");
        out_text(&body, refusal_text((enum refusal)bought->order.reason)->code);
    }
    out_lit(&body, "\",\"held\":");
    out_u64(&body, bought->held);
    out_char(&body, '}');
    int status = bought->order.state == ORDER_QUEUED ? 202 : 200;
    metrics_add(worker->metrics,
                bought->existed ? METRIC_BUYS_REPEATED_TOTAL : METRIC_BUYS_ACCEPTED_TOTAL, 1);
    int64_t took_us = inside_time_us(worker->shared->time) - operation->context.buy.started_us;
    metrics_observe_us(worker->metrics, HIST_BUY_ANSWER, took_us > 0 ? (uint64_t)took_us : 0);
    struct tally_row *row = api_tally(worker, bought->order.item);
    if (row != NULL) {
        tally_add(row, bought->existed ? TALLY_REPEATED : TALLY_ACCEPTED);
        hist_add(&row->answered, took_us > 0 ? (uint64_t)took_us : 0);
    }
    return api_json(worker, req->exchange, status, location, NULL, out_span(&body));
}

static enum http_outcome buy_decided(struct api_request *req, struct api_operation *operation)
{
    request_blocks_count(req->worker, &operation->gate);
    if (operation->gate.refusal != REFUSAL_NONE) {
        return refuse_request(req->worker, req->exchange, &operation->gate);
    }
    return promise(req, operation);
}

enum http_outcome handle_buy(struct api_request *req)
{
    struct api_worker *worker = req->worker;
    struct ticket ticket;
    if (ticket_verify(&worker->settings->ticket_keys, req->part[0], &ticket) != 0 ||
        ticket.user != req->user) {
        return api_refuse_simply(worker, req->exchange, REFUSAL_BAD_TICKET,
                                 "this ticket is not valid for this buyer; take a new one: "
                                 "POST /v1/items/{item}/ticket");
    }
    enum limits_verdict limits = request_limits_end(req, ticket.item);
    if (limits != LIMITS_PASSED) {
        return limits == LIMITS_HELD ? HTTP_PENDING : HTTP_ANSWERED;
    }
    enum refusal media = body_is_json(req->request, true);
    if (media != REFUSAL_NONE) {
        return api_refuse_simply(worker, req->exchange, media, NULL);
    }
    uint32_t qty = 1;
    struct body_fault fault;
    if (read_qty(req->request->body, &qty, &fault) != 0) {
        return api_refuse_field(worker, req->exchange, fault.field, fault.why);
    }
    api_tally_request(worker, ticket.item, req->user);
    if (api_input_may_be_old(worker)) {
        api_tally_refusal(worker, ticket.item, REFUSAL_UNKNOWN_OUTCOME);
        return api_refuse_simply(worker, req->exchange, REFUSAL_UNKNOWN_OUTCOME,
                                 "this server stood still while the request waited, and did not "
                                 "decide it; ask again with the same ticket");
    }
    struct api_operation *operation = api_gate_operation(req, GATE_REQUEST_BUY, buy_decided);
    if (operation == NULL) {
        api_tally_refusal(worker, ticket.item, REFUSAL_OVERLOADED);
        return api_refuse_simply(worker, req->exchange, REFUSAL_OVERLOADED, NULL);
    }
    /* The time now, not the iteration's: a process that was stopped in between must not sell after
     * the sale's end. */
    operation->context.buy.started_us = inside_time_us(worker->shared->time);
    operation->gate.now_ms = operation->context.buy.started_us / 1000;
    operation->gate.id = ticket.id;
    operation->gate.user = ticket.user;
    operation->gate.item = ticket.item;
    operation->gate.qty = qty;
    operation->gate.ticket_expires_ms = ticket.expires_at_ms;
    operation->gate.if_new = request_is_blocked(req) ? REFUSAL_BLOCKED : REFUSAL_NONE;
    return api_submit(req, operation);
}
