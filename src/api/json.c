/* The JSON of orders, items and sales, written by hand into a bounded buffer. */
#include <string.h>

#include "api/api.h"
#include "pages/static.h"

static void out_id(struct out *out, struct order_id id)
{
    char text[ORDER_ID_TEXT];
    order_id_text(id, text);
    out_char(out, '"');
    out_bytes(out, text, sizeof(text));
    out_char(out, '"');
}

/* The template with the order in place of {order_id}; null if there is no template. */
static void out_pay_url(struct out *out, const char *template, struct order_id id)
{
    static const char mark[] = "{order_id}";
    if (template[0] == '\0') {
        out_lit(out, "null");
        return;
    }
    char url[URL_MAX_BYTES + ORDER_ID_TEXT + 1];
    struct out text = out_over(url, sizeof(url));
    const char *at = strstr(template, mark);
    if (at == NULL) {
        out_text(&text, template);
    } else {
        char order[ORDER_ID_TEXT];
        order_id_text(id, order);
        out_bytes(&text, template, (size_t)(at - template));
        out_bytes(&text, order, sizeof(order));
        out_text(&text, at + sizeof(mark) - 1);
    }
    out_json_string(out, out_span(&text));
}

static void out_text_or_null(struct out *out, const char *text)
{
    if (text[0] == '\0') {
        out_lit(out, "null");
    } else {
        out_json_string(out, span_of(text));
    }
}

static void out_time_or_null(struct out *out, int64_t ms)
{
    if (ms == 0) {
        out_lit(out, "null");
    } else {
        out_i64(out, ms);
    }
}

static void out_reason(struct out *out, enum refusal reason)
{
    if (reason == REFUSAL_NONE) {
        out_lit(out, "null");
        return;
    }
    out_char(out, '"');
    out_text(out, refusal_text(reason)->code);
    out_char(out, '"');
}

bool json_order_view(struct out *out, struct catalog *catalog, const struct order_view *view)
{
    const struct sale_row *sale = NULL;
    catalog_lock(catalog);
    const struct item_row *item = catalog_item(catalog, view->item, &sale);
    if (item == NULL) {
        catalog_unlock(catalog);
        return false;
    }
    out_lit(out, "{\"order_id\":");
    out_id(out, view->id);
    out_lit(out, ",\"item_id\":");
    out_u64(out, view->item);
    out_lit(out, ",\"qty\":");
    out_u64(out, view->qty);
    out_lit(out, ",\"status\":\"");
    out_text(out, order_state_text((enum order_state)view->state));
    out_lit(out, "\",\"reason\":");
    out_reason(out, (enum refusal)view->reason);
    out_lit(out, ",\"amount_cents\":");
    out_u64(out, (uint64_t)item->price_cents * view->qty);
    out_lit(out, ",\"currency\":");
    out_json_string(out, span_of(sale->currency));
    out_lit(out, ",\"pay_url\":");
    out_pay_url(out, sale->pay_url, view->id);
    catalog_unlock(catalog);
    out_lit(out, ",\"pay_by_ms\":");
    out_time_or_null(out, view->pay_by_ms);
    out_lit(out, ",\"created_at_ms\":");
    out_i64(out, view->created_at_ms);
    out_char(out, '}');
    return true;
}

void json_order_row(struct out *out, struct catalog *catalog, const struct order_row *row,
                    enum row_detail detail)
{
    bool for_admin = detail == ROW_FOR_ADMIN;
    out_lit(out, "{\"order_id\":");
    out_id(out, row->id);
    out_lit(out, ",\"item_id\":");
    out_u64(out, row->item);
    if (for_admin) {
        out_lit(out, ",\"user_id\":");
        out_u64(out, row->user);
    }
    if (detail != ROW_AS_VIEW) {
        out_lit(out, ",\"sale_id\":");
        out_u64(out, row->sale);
    }
    out_lit(out, ",\"qty\":");
    out_u64(out, row->qty);
    out_lit(out, ",\"status\":\"");
    out_text(out, order_state_text(row->state));
    out_lit(out, "\",\"reason\":");
    out_reason(out, row->reason);
    out_lit(out, ",\"amount_cents\":");
    out_i64(out, row->amount_cents);
    out_lit(out, ",\"currency\":");
    out_json_string(out, span_of(row->currency));
    catalog_lock(catalog);
    const struct sale_row *sale = catalog_sale(catalog, row->sale);
    out_lit(out, ",\"pay_url\":");
    out_pay_url(out, sale != NULL ? sale->pay_url : "", row->id);
    catalog_unlock(catalog);
    out_lit(out, ",\"pay_by_ms\":");
    out_time_or_null(out, row->pay_by_ms);
    out_lit(out, ",\"created_at_ms\":");
    out_i64(out, row->created_at_ms);
    if (for_admin) {
        out_lit(out, ",\"locked_at_ms\":");
        out_time_or_null(out, row->locked_at_ms);
        out_lit(out, ",\"ended_at_ms\":");
        out_time_or_null(out, row->ended_at_ms);
        out_lit(out, ",\"payment_id\":");
        out_text_or_null(out, row->payment_id);
    }
    out_char(out, '}');
}

void json_order_page(struct out *out, struct api_worker *worker, const struct ledger_query *query,
                     bool for_admin)
{
    out_lit(out, "{\"orders\":[");
    for (uint32_t i = 0; i < query->count; i++) {
        if (i > 0) {
            out_char(out, ',');
        }
        json_order_row(out, api_shared(worker)->catalog, &query->orders[i],
                       for_admin ? ROW_FOR_ADMIN : ROW_WITH_SALE);
    }
    out_lit(out, "],\"next\":");
    if (query->next[0] == '\0') {
        out_lit(out, "null}");
    } else {
        out_json_string(out, span_of(query->next));
        out_char(out, '}');
    }
}

enum item_state item_state(const struct item_view *view, int64_t now_ms)
{
    if (view->sale_state == SALE_CLOSED || now_ms >= view->ends_at_ms) {
        return ITEM_ENDED;
    }
    if (view->sale_state == SALE_PAUSED) {
        return ITEM_PAUSED;
    }
    if (view->sale_state == SALE_DRAFT || now_ms < view->starts_at_ms) {
        return ITEM_UPCOMING;
    }
    return view->available == 0 ? ITEM_SOLD_OUT : ITEM_OPEN;
}

const char *item_state_text(const struct item_view *view, int64_t now_ms)
{
    static const char *const texts[] = {
#define X(name, text) text,
        ITEM_STATES(X)
#undef X
    };
    return texts[item_state(view, now_ms)];
}

static void out_item(struct out *out, const struct sale_row *sale, const struct item_row *item,
                     const char *image_url, const struct item_view *view, int64_t now_ms)
{
    out_lit(out, "{\"id\":");
    out_u64(out, item->id);
    out_lit(out, ",\"sale_id\":");
    out_u64(out, sale->id);
    out_lit(out, ",\"name\":");
    out_json_string(out, span_of(item->name));
    out_lit(out, ",\"sku\":");
    out_text_or_null(out, item->sku);
    out_lit(out, ",\"image_url\":");
    out_text_or_null(out, image_url);
    out_lit(out, ",\"price_cents\":");
    out_u64(out, item->price_cents);
    out_lit(out, ",\"was_cents\":");
    out_time_or_null(out, item->was_cents);
    out_lit(out, ",\"total\":");
    out_u64(out, view->total);
    out_lit(out, ",\"available\":");
    out_u64(out, view->available);
    out_lit(out, ",\"locked\":");
    out_u64(out, view->locked);
    out_lit(out, ",\"sold\":");
    out_u64(out, view->sold);
    out_lit(out, ",\"limit_per_user\":");
    out_u64(out, item->limit_per_user);
    out_lit(out, ",\"state\":\"");
    out_text(out, item_state_text(view, now_ms));
    out_lit(out, "\",\"starts_at_ms\":");
    out_i64(out, view->starts_at_ms);
    out_lit(out, ",\"ends_at_ms\":");
    out_i64(out, view->ends_at_ms);
    out_char(out, '}');
}

void json_item(struct out *out, const struct sale_row *sale, const struct item_row *item,
               const struct item_view *view, int64_t now_ms)
{
    out_item(out, sale, item, static_address(item->image_url), view, now_ms);
}

void json_item_row(struct out *out, const struct sale_row *sale, const struct item_row *item,
                   int64_t now_ms)
{
    struct item_view view = {.total = item->total,
                             .available = item->available,
                             .locked = item->locked,
                             .sold = item->sold,
                             .sale_state = (uint8_t)sale->state,
                             .starts_at_ms = sale->starts_at_ms,
                             .ends_at_ms = sale->ends_at_ms};
    /* image_url as it was given. An address with the file's version would differ when an operator sends
     * it back, and would outlive that version. */
    out_item(out, sale, item, item->image_url, &view, now_ms);
}

void json_sale(struct out *out, const struct sale_row *sale, int64_t now_ms)
{
    out_lit(out, "{\"id\":");
    out_u64(out, sale->id);
    out_lit(out, ",\"name\":");
    out_json_string(out, span_of(sale->name));
    out_lit(out, ",\"state\":\"");
    out_text(out, sale_state_text(sale->state));
    out_lit(out, "\",\"currency\":");
    out_json_string(out, span_of(sale->currency));
    out_lit(out, ",\"starts_at_ms\":");
    out_i64(out, sale->starts_at_ms);
    out_lit(out, ",\"ends_at_ms\":");
    out_i64(out, sale->ends_at_ms);
    out_lit(out, ",\"pay_within_s\":");
    out_u64(out, sale->pay_within_s);
    out_lit(out, ",\"pay_url\":");
    out_text_or_null(out, sale->pay_url);
    out_lit(out, ",\"bar_unpaid\":");
    out_text(out, sale->bar_unpaid ? "true" : "false");
    out_lit(out, ",\"challenge\":\"none\",\"items\":[");
    for (uint32_t i = 0; i < sale->items_count; i++) {
        if (i > 0) {
            out_char(out, ',');
        }
        json_item_row(out, sale, &sale->items[i], now_ms);
    }
    out_lit(out, "]}");
}
