/* See storefront.h. */
#include "pages/storefront.h"

#include "base/check.h"
#include "pages/static.h"

/* ---- the keys: one list for each scope; the enum is the index in it ---- */

#define SALE_KEYS(X)                                                                               \
    X(SALE_KEY_ID, "id")                                                                           \
    X(SALE_KEY_NAME, "name")                                                                       \
    X(SALE_KEY_CURRENCY, "currency")                                                               \
    X(SALE_KEY_STARTS, "starts_at_ms")                                                             \
    X(SALE_KEY_ENDS, "ends_at_ms")

#define ITEM_KEYS(X)                                                                               \
    X(ITEM_KEY_ID, "id")                                                                           \
    X(ITEM_KEY_NAME, "name")                                                                       \
    X(ITEM_KEY_SKU, "sku")                                                                         \
    X(ITEM_KEY_PRICE, "price")                                                                     \
    X(ITEM_KEY_WAS, "was")                                                                         \
    X(ITEM_KEY_IMAGE, "image_url")                                                                 \
    X(ITEM_KEY_SALE, "sale_id")                                                                    \
    X(ITEM_KEY_SALE_NAME, "sale_name")                                                             \
    X(ITEM_KEY_CURRENCY, "currency")                                                               \
    X(ITEM_KEY_STARTS, "starts_at_ms")                                                             \
    X(ITEM_KEY_ENDS, "ends_at_ms")                                                                 \
    X(ITEM_KEY_LIMIT, "limit_per_user")

enum sale_key {
#define X(name, text) name,
    SALE_KEYS(X)
#undef X
};
enum item_key {
#define X(name, text) name,
    ITEM_KEYS(X)
#undef X
        ITEM_KEY_DATA /* only on an item's own page */
};
enum { LIST_SALES, LIST_EMPTY };
enum { SALE_ITEMS };
enum { ITEM_IMAGE, ITEM_DISCOUNT };

#define X(name, text) {text, false},
static const struct template_key sale_keys[] = {SALE_KEYS(X){NULL, false}};
static const struct template_key item_keys[] = {ITEM_KEYS(X){NULL, false}};
static const struct template_key page_keys[] = {ITEM_KEYS(X){"data", true}, {NULL, false}};
#undef X
static const struct template_key list_keys[] = {{"data", true}, {NULL, false}};

/* Optional sections, in an item of the list and on its own page. */
static const struct template_scope item_scope;
static const struct template_section item_sections[] = {
    {"image", &item_scope}, {"discount", &item_scope}, {NULL, NULL}};
static const struct template_scope item_scope = {item_keys, item_sections};
static const struct template_section page_sections[] = {
    {"image", &item_scope}, {"discount", &item_scope}, {NULL, NULL}};
static const struct template_section sale_sections[] = {{"items", &item_scope}, {NULL, NULL}};
static const struct template_scope sale_scope = {sale_keys, sale_sections};
static const struct template_section list_sections[] = {
    {"sales", &sale_scope}, {"empty", &storefront_plain_scope}, {NULL, NULL}};

const struct template_scope storefront_plain_scope = {NULL, NULL};
const struct template_scope storefront_item_scope = {page_keys, page_sections};
const struct template_scope storefront_list_scope = {list_keys, list_sections};

/* ---- values ---- */

/* Currencies of ISO 4217 whose minor unit does not have two digits. */
unsigned storefront_minor_digits(const char *currency)
{
    static const char none[] =
        "BIF CLP DJF GNF ISK JPY KMF KRW PYG RWF UGX UYI VND VUV XAF XOF XPF";
    static const char three[] = "BHD IQD JOD KWD LYD OMR TND";
    static const char four[] = "CLF UYW";
    return strlen(currency) != 3             ? 2
           : strstr(none, currency) != NULL  ? 0
           : strstr(three, currency) != NULL ? 3
           : strstr(four, currency) != NULL  ? 4
                                             : 2;
}

void storefront_money(struct out *out, const char *currency, uint64_t minor)
{
    unsigned digits = storefront_minor_digits(currency);
    uint64_t unit = 1;
    for (unsigned i = 0; i < digits; i++) {
        unit *= 10;
    }
    out_text(out, currency);
    out_char(out, ' ');
    out_u64(out, minor / unit);
    if (digits > 0) {
        out_char(out, '.');
    }
    for (uint64_t rest = minor % unit; unit > 1;) {
        unit /= 10;
        out_char(out, (char)('0' + rest / unit));
        rest %= unit;
    }
}

bool storefront_shows_image(const char *image_url, const char *base_url)
{
    size_t base = strlen(base_url);
    return image_url[0] == '/' || strncmp(image_url, "https://", 8) == 0 ||
           (base > 0 && strncmp(image_url, base_url, base) == 0 && image_url[base] == '/');
}

static bool shows_image(const struct storefront *view)
{
    return storefront_shows_image(view->item->image_url, view->base_url);
}

static void put_sale_key(const struct sale_row *sale, enum sale_key key, struct out *out)
{
    switch (key) {
    case SALE_KEY_ID:
        out_u64(out, sale->id);
        break;
    case SALE_KEY_NAME:
        out_text(out, sale->name);
        break;
    case SALE_KEY_CURRENCY:
        out_text(out, sale->currency);
        break;
    case SALE_KEY_STARTS:
        out_i64(out, sale->starts_at_ms);
        break;
    case SALE_KEY_ENDS:
        out_i64(out, sale->ends_at_ms);
        break;
    }
}

static void put_item_key(const struct storefront *view, enum item_key key, struct out *out)
{
    const struct item_row *item = view->item;
    const struct sale_row *sale = view->sale;
    switch (key) {
    case ITEM_KEY_ID:
        out_u64(out, item->id);
        break;
    case ITEM_KEY_NAME:
        out_text(out, item->name);
        break;
    case ITEM_KEY_SKU:
        out_text(out, item->sku);
        break;
    case ITEM_KEY_PRICE:
        storefront_money(out, sale->currency, item->price_cents);
        break;
    case ITEM_KEY_WAS:
        storefront_money(out, sale->currency, item->was_cents);
        break;
    case ITEM_KEY_IMAGE:
        out_text(out, shows_image(view) ? static_address(item->image_url) : "");
        break;
    case ITEM_KEY_SALE:
        put_sale_key(sale, SALE_KEY_ID, out);
        break;
    case ITEM_KEY_SALE_NAME:
        put_sale_key(sale, SALE_KEY_NAME, out);
        break;
    case ITEM_KEY_CURRENCY:
        put_sale_key(sale, SALE_KEY_CURRENCY, out);
        break;
    case ITEM_KEY_STARTS:
        put_sale_key(sale, SALE_KEY_STARTS, out);
        break;
    case ITEM_KEY_ENDS:
        put_sale_key(sale, SALE_KEY_ENDS, out);
        break;
    case ITEM_KEY_LIMIT:
        out_u64(out, item->limit_per_user);
        break;
    case ITEM_KEY_DATA:
        out_put(out, view->data);
        break;
    }
}

static void put(void *context, const struct template_scope *scope, uint32_t key, struct out *out)
{
    const struct storefront *view = context;
    if (scope == &storefront_list_scope) {
        out_put(out, view->data);
    } else if (scope == &sale_scope) {
        put_sale_key(view->sale, (enum sale_key)key, out);
    } else {
        CHECK(scope == &item_scope || scope == &storefront_item_scope);
        put_item_key(view, (enum item_key)key, out);
    }
}

static bool turn(void *context, const struct template_scope *scope, uint32_t section, uint32_t n)
{
    struct storefront *view = context;
    if (scope == &storefront_list_scope && section == LIST_SALES) {
        view->sale = n < view->sales_count ? view->sales[n] : NULL;
        return view->sale != NULL;
    }
    if (scope == &storefront_list_scope) {
        return n == 0 && view->sales_count == 0;
    }
    if (scope == &sale_scope) {
        view->item = n < view->sale->items_count ? &view->sale->items[n] : NULL;
        return view->item != NULL;
    }
    CHECK(scope == &item_scope || scope == &storefront_item_scope);
    return n == 0 && (section == ITEM_IMAGE ? shows_image(view)
                                            : view->item->was_cents > view->item->price_cents);
}

void storefront_render(const struct template *template, struct storefront *view, struct out *out)
{
    template_render(template, &(struct template_source){view, put, turn}, out);
}

/* ---- the data ---- */

static void data_text(struct out *out, const char *name, const char *text)
{
    out_json_string(out, span_of(name));
    out_char(out, ':');
    if (text[0] == '\0') {
        out_lit(out, "null");
    } else {
        out_json_string(out, span_of(text));
    }
}

static void data_sale(struct out *out, const struct sale_row *sale)
{
    out_lit(out, "\"id\":");
    out_u64(out, sale->id);
    out_char(out, ',');
    data_text(out, "name", sale->name);
    out_char(out, ',');
    data_text(out, "currency", sale->currency);
    out_lit(out, ",\"starts_at_ms\":");
    out_i64(out, sale->starts_at_ms);
    out_lit(out, ",\"ends_at_ms\":");
    out_i64(out, sale->ends_at_ms);
}

static void data_item(struct out *out, const struct item_row *item, const char *base_url)
{
    out_lit(out, "{\"id\":");
    out_u64(out, item->id);
    out_char(out, ',');
    data_text(out, "name", item->name);
    out_char(out, ',');
    data_text(out, "sku", item->sku);
    out_char(out, ',');
    data_text(out, "image_url",
              storefront_shows_image(item->image_url, base_url) ? static_address(item->image_url)
                                                                : "");
    out_lit(out, ",\"price_cents\":");
    out_u64(out, item->price_cents);
    out_lit(out, ",\"was_cents\":");
    if (item->was_cents == 0) {
        out_lit(out, "null");
    } else {
        out_u64(out, item->was_cents);
    }
    out_lit(out, ",\"limit_per_user\":");
    out_u64(out, item->limit_per_user);
    out_char(out, '}');
}

void storefront_list_data(const struct storefront *view, struct out *out)
{
    out_lit(out, "{\"sales\":[");
    for (size_t i = 0; i < view->sales_count; i++) {
        const struct sale_row *sale = view->sales[i];
        out_text(out, i > 0 ? ",{" : "{");
        data_sale(out, sale);
        out_lit(out, ",\"items\":[");
        for (uint32_t k = 0; k < sale->items_count; k++) {
            if (k > 0) {
                out_char(out, ',');
            }
            data_item(out, &sale->items[k], view->base_url);
        }
        out_lit(out, "]}");
    }
    out_lit(out, "]}");
}

void storefront_item_data(const struct storefront *view, struct out *out)
{
    out_lit(out, "{\"item\":");
    data_item(out, view->item, view->base_url);
    out_lit(out, ",\"sale\":{");
    data_sale(out, view->sale);
    out_lit(out, "}}");
}
