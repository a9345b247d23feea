/*
 * What a buyer asks before he has an order: time, sales, items, a ticket, and the buy itself.
 *
 * The buy is the hot path: framing, token and ticket were or are checked without looking anything
 * up, then the gate decides (or, with a gate on another machine, has decided some turns later).
 * Refusals leave at once, ready made where they can be; a promise waits for its LSN.
 */
#include <string.h>

#include "base/err.h"
#include "base/flat_json.h"
#include "http/front_private.h"
#include "http/handlers.h"
#include "http/watch.h"

#define CACHE_PUBLIC "public, max-age=1"

enum http_outcome handle_time(struct asking *asking)
{
    char text[48];
    struct out body = out_over(text, sizeof(text));
    out_lit(&body, "{\"now_ms\":");
    out_i64(&body, inside_time_ms(asking->front->shared->time));
    out_char(&body, '}');
    return front_json(asking->front, asking->exchange, 200, "", NULL, out_span(&body));
}

/* ---- sales and items ---- */

/* One item with live numbers; false if the gate does not know it (not loaded). */
static bool put_item(struct front *front, struct out *out, const struct sale_row *sale,
                     const struct item_row *item, int64_t now_ms)
{
    struct item_view view;
    if (!front_item(front, item->id, &view)) {
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

static void put_sale(struct front *front, struct out *out, const struct sale_row *sale,
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
        if (put_item(front, out, sale, &sale->items[i], now_ms)) {
            first = false;
        } else {
            out->len = mark;
        }
    }
    out_lit(out, "]}");
}

/* False: it did not fit, and nothing of it is there. */
static bool add_sale(struct front *front, struct out *body, const struct sale_row *sale,
                     int64_t now_ms)
{
    size_t mark = body->len;
    if (body->at[body->len - 1] != '[') {
        out_char(body, ',');
    }
    put_sale(front, body, sale, now_ms);
    if (body->overflow) {
        body->len = mark;
        body->overflow = false;
        return false;
    }
    return true;
}

/* Newest sales first, those that are over last, as many as an answer holds; any single one fits
 * (limits.h). `more` says that some were left out. */
enum http_outcome handle_sales(struct asking *asking)
{
    static const char more[] = "],\"more\":true}";
    struct front *front = asking->front;
    struct catalog *catalog = front->shared->catalog;
    struct out body = front_scratch(front);
    body.cap -= sizeof(more); /* for the end */
    out_lit(&body, "{\"sales\":[");
    size_t count = 0;
    bool all = true;
    catalog_lock(catalog);
    struct sale_row *const *sales = catalog_sales(catalog, &count);
    for (int closed = 0; closed < 2; closed++) {
        for (size_t i = count; i > 0 && all; i--) {
            enum sale_state state = sales[i - 1]->state;
            if (state != SALE_DRAFT && (state == SALE_CLOSED) == (closed != 0)) {
                all = add_sale(front, &body, sales[i - 1], asking->now_ms);
            }
        }
    }
    catalog_unlock(catalog);
    body.cap += sizeof(more);
    out_text(&body, all ? "]}" : more);
    return front_json(front, asking->exchange, 200, "", CACHE_PUBLIC, out_span(&body));
}

static enum http_outcome no_such_item(struct asking *asking)
{
    return front_refuse_simply(asking->front, asking->exchange, REFUSAL_NO_SUCH_ITEM,
                               "GET /v1/sales lists what there is");
}

/* Not here: another front may have warmed it a moment ago, and there it is known. */
static enum http_outcome look_for_item(struct asking *asking, uint64_t id,
                                       enum http_outcome (*done)(struct asking *asking,
                                                                 struct front_ask *ask))
{
    struct front_ask *ask = front_ask_new(asking, ASK_ITEM, done);
    if (ask == NULL) {
        return front_refuse_simply(asking->front, asking->exchange, REFUSAL_OVERLOADED, NULL);
    }
    ask->gate.item = id;
    ask->gate.may_wait = true;
    return front_ask(asking, ask);
}

static enum http_outcome item_not_here(struct asking *asking, const struct front_ask *asked)
{
    enum refusal refusal = asked->gate.refusal;
    return refusal == REFUSAL_NONE || refusal == REFUSAL_NO_SUCH_ITEM
               ? no_such_item(asking)
               : front_refuse_look(asking->front, asking->exchange, refusal);
}

/* False: it is not here. */
static bool show_item(struct asking *asking, uint64_t id)
{
    struct front *front = asking->front;
    struct catalog *catalog = front->shared->catalog;
    const struct sale_row *sale = NULL;
    struct out body = front_scratch(front);
    catalog_lock(catalog);
    const struct item_row *item = catalog_item(catalog, id, &sale);
    bool found = item != NULL && put_item(front, &body, sale, item, asking->now_ms);
    catalog_unlock(catalog);
    if (found) {
        (void)front_json(front, asking->exchange, 200, "", CACHE_PUBLIC, out_span(&body));
    }
    return found;
}

static enum http_outcome item_looked_for(struct asking *asking, struct front_ask *asked)
{
    return show_item(asking, asked->gate.item) ? HTTP_ANSWERED : item_not_here(asking, asked);
}

enum http_outcome handle_item(struct asking *asking)
{
    uint64_t id = 0;
    if (part_id(asking->part[0], &id) != 0) {
        return no_such_item(asking);
    }
    return show_item(asking, id) ? HTTP_ANSWERED : look_for_item(asking, id, item_looked_for);
}

static enum http_outcome begin_item_events(struct asking *asking, uint64_t id)
{
    if (watch_full(asking->front)) {
        return front_refuse_simply(asking->front, asking->exchange, REFUSAL_OVERLOADED,
                                   "too many streams; GET the item instead");
    }
    watch_item(asking->front, asking->exchange, id);
    return HTTP_ANSWERED;
}

static enum http_outcome watched_looked_for(struct asking *asking, struct front_ask *asked)
{
    return asked->gate.refusal == REFUSAL_NONE ? begin_item_events(asking, asked->gate.item)
                                               : item_not_here(asking, asked);
}

enum http_outcome handle_item_events(struct asking *asking)
{
    uint64_t id = 0;
    struct item_view view;
    if (part_id(asking->part[0], &id) != 0) {
        return no_such_item(asking);
    }
    return front_item(asking->front, id, &view) ? begin_item_events(asking, id)
                                                : look_for_item(asking, id, watched_looked_for);
}

/* ---- refusals of ticket and buy ---- */

static enum http_outcome refuse_ask(struct front *front, struct http_exchange exchange,
                                    const struct gate_ask *ask)
{
    struct refused refused = {.refusal = ask->refusal};
    front_tally_refused(front, ask->item, ask->refusal);
    if (ask->refusal == REFUSAL_SOLD_OUT && ask->available == 0 &&
        front_ready_sold_out(front, exchange, ask->locked > 0)) {
        return HTTP_ANSWERED;
    }
    switch (ask->refusal) {
    case REFUSAL_SOLD_OUT:
        refused.has_available = true;
        refused.available = ask->available;
        refused.override_retry = true;
        refused.retry = ask->locked > 0 ? RETRY_LATER : RETRY_NO;
        refused.detail = ask->available > 0 ? "fewer units are left than asked for"
                         : ask->locked > 0  ? SOLD_OUT_FOR_NOW
                                            : SOLD_OUT_FOR_GOOD;
        break;
    case REFUSAL_LIMIT_REACHED:
        refused.has_held = true;
        refused.held = ask->held;
        refused.has_limit = true;
        refused.limit = ask->limit;
        break;
    case REFUSAL_BAD_TICKET:
        refused.detail = "take a new ticket: POST /v1/items/{item}/ticket";
        break;
    case REFUSAL_DIFFERENT_REQUEST:
        refused.detail = "this ticket was used with another qty; GET the order it made";
        break;
    case REFUSAL_DEGRADED:
        refused.detail = "orders cannot be decided and made durable at the moment";
        break;
    default:
        break;
    }
    return front_refuse(front, exchange, &refused);
}

/* ---- ticket ---- */

/* What stands against a ticket now, in the order a buyer is told. */
static enum refusal ticket_refusal(const struct gate_ask *ask, int64_t now_ms, int64_t window_ms)
{
    const struct item_view *view = &ask->view;
    if (view->sale_state == SALE_CLOSED || now_ms >= view->ends_at_ms) {
        return REFUSAL_ENDED;
    }
    if (view->sale_state == SALE_PAUSED) {
        return REFUSAL_NOT_OPEN;
    }
    if (now_ms < view->starts_at_ms - window_ms) {
        return REFUSAL_TOO_EARLY;
    }
    if (view->available == 0 && !ask->has_order) {
        return REFUSAL_SOLD_OUT;
    }
    return ask->attempt >= BUYER_ENDED_MAX ? REFUSAL_LIMIT_REACHED : REFUSAL_NONE;
}

static enum http_outcome give_ticket(struct asking *asking, const struct gate_ask *ask)
{
    struct front *front = asking->front;
    struct ticket ticket = {.user = asking->user,
                            .item = ask->item,
                            .expires_at_ms = asking->now_ms + front->settings->ticket_ttl_ms};
    if (ask->view.limit_per_user == 1) {
        ticket.id = order_id_once(ask->item, asking->user, ask->attempt);
    } else {
        ticket.id = order_id_fresh(ask->item, asking->now_ms,
                                   atomic_fetch_add(&front->shared->fresh_sequence, 1)
                                           << ORDER_SEGMENT_BITS |
                                       ask->segment);
    }
    char text[TICKET_TEXT];
    char order[ORDER_ID_TEXT];
    ticket_sign(&front->settings->ticket_keys, &ticket, text);
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
    out_u64(&body, ask->held);
    out_char(&body, '}');
    metrics_add(front->metrics, METRIC_TICKETS_TOTAL, 1);
    struct tally_row *row = front_tally(front, ask->item);
    if (row != NULL) {
        tally_add(row, TALLY_TICKETS);
    }
    return front_json(front, asking->exchange, 201, "", NULL, out_span(&body));
}

/* An item the gate does not know: not warmed yet, off the board, or nobody's. Or it was warmed a
 * moment ago, and a gate on another machine has not heard of it: who was told that the sale is open
 * must not be told that it is not. */
static enum http_outcome not_at_the_gate(struct asking *asking, uint64_t id)
{
    struct catalog *catalog = asking->front->shared->catalog;
    const struct sale_row *sale = NULL;
    catalog_lock(catalog);
    bool known = catalog_item(catalog, id, &sale) != NULL;
    enum sale_state state = known ? sale->state : SALE_DRAFT;
    catalog_unlock(catalog);
    if (!known) {
        return no_such_item(asking);
    }
    front_tally_refused(asking->front, id,
                        state == SALE_CLOSED  ? REFUSAL_ENDED
                        : state != SALE_DRAFT ? REFUSAL_DEGRADED
                                              : REFUSAL_NOT_OPEN);
    if (state == SALE_CLOSED) {
        return front_refuse_simply(asking->front, asking->exchange, REFUSAL_ENDED, NULL);
    }
    if (state != SALE_DRAFT) {
        return front_refuse_simply(asking->front, asking->exchange, REFUSAL_DEGRADED,
                                   "the sale was warmed a moment ago; nothing has changed");
    }
    return front_refuse_simply(asking->front, asking->exchange, REFUSAL_NOT_OPEN,
                               "the sale is not warmed yet");
}

static enum http_outcome ticket_looked(struct asking *asking, struct front_ask *asked)
{
    struct front *front = asking->front;
    struct gate_ask *ask = &asked->gate;
    if (ask->refusal == REFUSAL_NO_SUCH_ITEM) {
        return not_at_the_gate(asking, ask->item);
    }
    if (ask->refusal != REFUSAL_NONE) {
        front_tally_refused(front, ask->item, ask->refusal);
        return front_refuse_look(front, asking->exchange, ask->refusal);
    }
    ask->refusal = ticket_refusal(ask, asking->now_ms, front->settings->ticket_window_ms);
    if (ask->refusal == REFUSAL_TOO_EARLY) {
        front_tally_refused(front, ask->item, REFUSAL_TOO_EARLY);
        int64_t wait_ms =
            ask->view.starts_at_ms - front->settings->ticket_window_ms - asking->now_ms;
        int64_t jitter_ms = (int64_t)prng_below(&front->prng, 500);
        return front_refuse(front, asking->exchange,
                            &(struct refused){.refusal = REFUSAL_TOO_EARLY,
                                              .retry_after_ms = wait_ms + jitter_ms,
                                              .detail = "the ticket window is not open yet"});
    }
    if (ask->refusal != REFUSAL_NONE) {
        ask->available = ask->view.available;
        ask->locked = ask->view.locked;
        ask->limit = ask->view.limit_per_user;
        return refuse_ask(front, asking->exchange, ask);
    }
    return give_ticket(asking, ask);
}

enum http_outcome handle_ticket(struct asking *asking)
{
    struct front *front = asking->front;
    uint64_t item = 0;
    enum refusal media = body_is_json(asking->request, true);
    struct span unknown;
    if (media != REFUSAL_NONE) {
        return front_refuse_simply(front, asking->exchange, media, NULL);
    }
    if (asking->request->body.len > 0 &&
        flat_json_read(asking->request->body, NULL, 0, false, &unknown) != 0) {
        return front_refuse_field(front, asking->exchange, "body", "the body is not valid JSON");
    }
    if (part_id(asking->part[0], &item) != 0) {
        return no_such_item(asking);
    }
    front_tally_asked(front, item, asking->user);
    struct front_ask *ask = front_ask_new(asking, ASK_TICKET, ticket_looked);
    if (ask == NULL) {
        front_tally_refused(front, item, REFUSAL_OVERLOADED);
        return front_refuse_simply(front, asking->exchange, REFUSAL_OVERLOADED, NULL);
    }
    ask->gate.item = item;
    return front_ask(asking, ask);
}

/* ---- buy ---- */

/* The body's qty: 0, or the field's complaint in *ret_why. */
static int read_qty(struct span body, uint32_t *ret_qty, const char **ret_field,
                    const char **ret_why)
{
    struct flat_field qty = {.key = "qty"};
    struct span unknown;
    *ret_qty = 1;
    if (body.len == 0 || span_is(body, "{}")) {
        return 0;
    }
    *ret_field = "body";
    *ret_why = "the body must be one flat JSON object like {\"qty\":1}";
    if (flat_json_read(body, &qty, 1, false, &unknown) != 0) {
        return ERR_INVALID;
    }
    if (qty.value.kind == FLAT_ABSENT) {
        return 0;
    }
    *ret_field = "qty";
    *ret_why = "qty must be a whole number from 1 to 2147483647";
    if (qty.value.kind != FLAT_INTEGER || qty.value.number < 1 ||
        qty.value.number > (int64_t)QTY_MAX) {
        return ERR_INVALID;
    }
    *ret_qty = (uint32_t)qty.value.number;
    return 0;
}

void buy_answer(struct front *front, struct http_exchange exchange, struct slot *slot, bool lost)
{
    if (lost) {
        (void)front_refuse_simply(front, exchange, REFUSAL_UNKNOWN_OUTCOME,
                                  "the journal's disk failed while this order was being written; "
                                  "ask again with the same ticket");
        return;
    }
    char order[ORDER_ID_TEXT];
    char memory[192];
    char location[64];
    order_id_text(slot->order.id, order);
    struct out headers = out_over(location, sizeof(location) - 1);
    out_lit(&headers, "Location: /v1/orders/");
    out_bytes(&headers, order, sizeof(order));
    out_lit(&headers, "\r\n");
    location[headers.len] = '\0';
    struct out body = out_over(memory, sizeof(memory));
    out_lit(&body, "{\"order_id\":\"");
    out_bytes(&body, order, sizeof(order));
    out_lit(&body, "\",\"status\":\"");
    out_text(&body, order_state_text((enum order_state)slot->order.state));
    if (slot->order.state == ORDER_QUEUED && slot->order.reason != REFUSAL_NONE) {
        out_lit(&body, "\",\"reason\":\"");
        out_text(&body, refusal_text((enum refusal)slot->order.reason)->code);
    }
    out_lit(&body, "\",\"held\":");
    out_u64(&body, slot->held);
    out_char(&body, '}');
    int status = slot->order.state == ORDER_QUEUED ? 202 : 200;
    metrics_add(front->metrics,
                slot->existed ? METRIC_BUYS_REPEATED_TOTAL : METRIC_BUYS_ACCEPTED_TOTAL, 1);
    int64_t took_us = inside_time_us(front->shared->time) - slot->started_us;
    metrics_observe_us(front->metrics, HIST_BUY_ANSWER, took_us > 0 ? (uint64_t)took_us : 0);
    struct tally_row *row = front_tally(front, slot->order.item);
    if (row != NULL) {
        tally_add(row, slot->existed ? TALLY_REPEATED : TALLY_ACCEPTED);
        hist_add(&row->answered, took_us > 0 ? (uint64_t)took_us : 0);
    }
    (void)front_json(front, exchange, status, location, NULL, out_span(&body));
}

static enum http_outcome promise(struct asking *asking, const struct front_ask *asked)
{
    struct front *front = asking->front;
    const struct gate_ask *ask = &asked->gate;
    struct slot *slot = front_slot(front, asking->exchange);
    slot->order = ask->order;
    slot->held = ask->held;
    slot->existed = ask->existed;
    slot->started_us = asked->started_us;
    if (front_durable(front, ask->lsn)) {
        buy_answer(front, asking->exchange, slot, false);
        return HTTP_ANSWERED;
    }
    slot->wait = WAIT_BUY;
    if (!front_after(front, ask->lsn, asking->exchange, NULL)) {
        return front_refuse_simply(front, asking->exchange, REFUSAL_UNKNOWN_OUTCOME,
                                   "too many answers are waiting; ask again with the same ticket");
    }
    return HTTP_PENDING;
}

static enum http_outcome decided(struct asking *asking, struct front_ask *ask)
{
    if (ask->gate.refusal != REFUSAL_NONE) {
        return refuse_ask(asking->front, asking->exchange, &ask->gate);
    }
    return promise(asking, ask);
}

enum http_outcome handle_buy(struct asking *asking)
{
    struct front *front = asking->front;
    struct ticket ticket;
    if (ticket_verify(&front->settings->ticket_keys, asking->part[0], &ticket) != 0 ||
        ticket.user != asking->user) {
        return front_refuse_simply(front, asking->exchange, REFUSAL_BAD_TICKET,
                                   "this ticket is not valid for this buyer; take a new one: "
                                   "POST /v1/items/{item}/ticket");
    }
    enum refusal media = body_is_json(asking->request, true);
    if (media != REFUSAL_NONE) {
        return front_refuse_simply(front, asking->exchange, media, NULL);
    }
    uint32_t qty = 1;
    const char *field = NULL;
    const char *why = NULL;
    if (read_qty(asking->request->body, &qty, &field, &why) != 0) {
        return front_refuse_field(front, asking->exchange, field, why);
    }
    front_tally_asked(front, ticket.item, asking->user);
    struct front_ask *ask = front_ask_new(asking, ASK_BUY, decided);
    if (ask == NULL) {
        front_tally_refused(front, ticket.item, REFUSAL_OVERLOADED);
        return front_refuse_simply(front, asking->exchange, REFUSAL_OVERLOADED, NULL);
    }
    /* Not the turn's time: a process that was stopped in between would sell after the end. */
    ask->started_us = inside_time_us(front->shared->time);
    ask->gate.now_ms = ask->started_us / 1000;
    ask->gate.id = ticket.id;
    ask->gate.user = ticket.user;
    ask->gate.item = ticket.item;
    ask->gate.qty = qty;
    ask->gate.ticket_expires_ms = ticket.expires_at_ms;
    return front_ask(asking, ask);
}
