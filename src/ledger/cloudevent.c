/* See cloudevent.h. Members of an order that change later (its state, its payment) are never taken
 * from its row. The event says what they were. */
#include "ledger/cloudevent.h"

#include <stdio.h>
#include <string.h>
#include <time.h>

#include "base/check.h"

#define SOLD_OUT "item.sold_out"

static bool is_public(enum ledger_event_kind kind)
{
    return kind == EVENT_ORDER_LOCKED || kind == EVENT_ORDER_FAILED || kind == EVENT_ORDER_PAID ||
           kind == EVENT_ORDER_EXPIRED || kind == EVENT_ORDER_CANCELLED;
}

uint32_t cloudevent_count(const struct ledger_event *event)
{
    if (!is_public(event->kind)) {
        return 0;
    }
    return event->kind == EVENT_ORDER_LOCKED && event->b != 0 ? 2 : 1;
}

const char *cloudevent_type(const struct ledger_event *event, uint32_t part)
{
    CHECK(part < cloudevent_count(event));
    return part == 0 ? ledger_event_text(event->kind) : SOLD_OUT;
}

/* ---- pieces ---- */

static void put_text(struct out *out, const char *name, const char *text) /* "": null */
{
    out_lit(out, ",\"");
    out_text(out, name);
    out_lit(out, "\":");
    if (text[0] == '\0') {
        out_lit(out, "null");
    } else {
        out_json_string(out, span_of(text));
    }
}

static void put_number(struct out *out, const char *name, uint64_t number)
{
    out_lit(out, ",\"");
    out_text(out, name);
    out_lit(out, "\":");
    out_u64(out, number);
}

static void put_time(struct out *out, const char *name, int64_t ms) /* 0: null */
{
    if (ms == 0) {
        put_text(out, name, "");
    } else {
        put_number(out, name, (uint64_t)ms);
    }
}

/* RFC 3339, in UTC. */
static void put_rfc3339(struct out *out, int64_t at_ms)
{
    time_t seconds = (time_t)(at_ms / 1000);
    struct tm tm;
    CHECK(at_ms >= 0 && gmtime_r(&seconds, &tm) != NULL);
    out_format(out, ",\"time\":\"%04d-%02d-%02dT%02d:%02d:%02d.%03dZ\"", tm.tm_year + 1900,
               tm.tm_mon + 1, tm.tm_mday, tm.tm_hour, tm.tm_min, tm.tm_sec, (int)(at_ms % 1000));
}

/* The template with {order_id} filled in. */
static void put_pay_url(struct out *out, const char *template, const char *order_id)
{
    static const char mark[] = "{order_id}";
    char url[URL_MAX_BYTES + ORDER_ID_TEXT + 1];
    const char *at = strstr(template, mark);
    if (at == NULL) {
        put_text(out, "pay_url", template);
        return;
    }
    (void)snprintf(url, sizeof(url), "%.*s%s%s", (int)(at - template), template, order_id,
                   at + sizeof(mark) - 1);
    put_text(out, "pay_url", url);
}

static enum order_state state_after(enum ledger_event_kind kind)
{
    switch (kind) {
    case EVENT_ORDER_LOCKED:
        return ORDER_LOCKED;
    case EVENT_ORDER_PAID:
        return ORDER_PAID;
    case EVENT_ORDER_EXPIRED:
        return ORDER_EXPIRED;
    case EVENT_ORDER_CANCELLED:
        return ORDER_CANCELLED;
    default:
        return ORDER_FAILED;
    }
}

static const struct item_row *find_item(const struct sale_row *sale, uint64_t id)
{
    for (uint32_t i = 0; i < sale->items_count; i++) {
        if (sale->items[i].id == id) {
            return &sale->items[i];
        }
    }
    return NULL;
}

/* ---- data ---- */

static void put_order(struct out *out, const struct ledger_event *event, const char *order_id,
                      const struct order_row *order, const struct sale_row *sale)
{
    const struct item_row *item = find_item(sale, event->item);
    bool paid = event->kind == EVENT_ORDER_PAID;
    out_lit(out, ",\"data\":{\"order_id\":\"");
    out_text(out, order_id);
    out_char(out, '"');
    put_number(out, "sale_id", event->sale);
    put_number(out, "item_id", event->item);
    put_text(out, "sku", item != NULL ? item->sku : "");
    put_number(out, "user_id", event->user);
    put_number(out, "qty", event->qty);
    put_text(out, "status", order_state_text(state_after(event->kind)));
    put_text(out, "reason", event->reason != REFUSAL_NONE ? refusal_text(event->reason)->code : "");
    put_number(out, "amount_cents", (uint64_t)order->amount_cents);
    put_text(out, "currency", order->currency);
    put_pay_url(out, sale->pay_url, order_id);
    put_time(out, "pay_by_ms", order->pay_by_ms);
    put_time(out, "created_at_ms", order->created_at_ms);
    put_time(out, "at_ms", event->at_ms);
    put_text(out, "payment_id", paid ? order->payment_id : "");
    out_char(out, '}');
}

static void put_item(struct out *out, const struct ledger_event *event, const struct sale_row *sale)
{
    const struct item_row *item = find_item(sale, event->item);
    out_lit(out, ",\"data\":{\"item_id\":");
    out_u64(out, event->item);
    put_number(out, "sale_id", event->sale);
    put_text(out, "sku", item != NULL ? item->sku : "");
    put_text(out, "name", item != NULL ? item->name : "");
    put_time(out, "at_ms", event->at_ms);
    out_char(out, '}');
}

struct span cloudevent_write(char *memory, const char *source, const struct ledger_event *event,
                             uint32_t part, const struct order_row *order,
                             const struct sale_row *sale)
{
    struct out out = out_over(memory, CLOUDEVENT_MAX);
    char order_id[ORDER_ID_TEXT + 1] = "";
    bool sold_out = part > 0;
    order_id_text(event->id, order_id);
    out_lit(&out, "{\"specversion\":\"1.0\",\"id\":\"");
    out_u64(&out, event->number);
    out_text(&out, sold_out ? "-sold_out\"" : "\"");
    put_text(&out, "source", source);
    put_text(&out, "type", cloudevent_type(event, part));
    out_lit(&out, ",\"subject\":\"");
    if (sold_out) {
        out_u64(&out, event->item);
    } else {
        out_text(&out, order_id);
    }
    out_char(&out, '"');
    put_rfc3339(&out, event->at_ms);
    /* The CloudEvents extension `sequence`: it sorts as text. */
    out_format(&out, ",\"sequence\":\"%020llu%s\"", (unsigned long long)event->number,
               sold_out ? ".1" : "");
    out_lit(&out, ",\"datacontenttype\":\"application/json\"");
    if (sold_out) {
        put_item(&out, event, sale);
    } else {
        put_order(&out, event, order_id, order, sale);
    }
    out_char(&out, '}');
    CHECK(!out.overflow); /* every text in it has a bound, and CLOUDEVENT_MAX is their sum */
    return out_span(&out);
}
