/*
 * The demonstration sales. Each has the three kinds of limit: one per buyer, five per buyer, none.
 * The stock is small, so a few people or one load test sell it out.
 */
#include "app/demo.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/check.h"

#define DEMO_PAY_WITHIN_S 120
/* A page of this server. Without a host, since the storefront is on the same one. */
#define DEMO_PAY_URL "/demo/pay?order={order_id}"
#define MINUTE_MS INT64_C(60000)
#define HOUR_MS (60 * MINUTE_MS)

/* sale, starts in ms, ends in ms */
#define DEMO_SALE_LIST(X)                                                                          \
    X("First session\u00a0· 第一场", 0, 24 * HOUR_MS)                                              \
    X("Second session\u00a0· 第二场", MINUTE_MS, 24 * HOUR_MS)

/* sale (0, 1), name, sku, picture in web/demo, price, was, total, limit */
#define DEMO_ITEM_LIST(X)                                                                          \
    X(0, "Mechanical keyboard\u00a0· 机械键盘", "KB-87", "keyboard", 19900, 59900, 100, 1)         \
    X(0, "Pu'er tea, 357\u00a0g cake\u00a0· 普洱茶饼", "TEA-357", "tea", 6800, 12800, 500, 5)      \
    X(0, "Movie ticket\u00a0· 电影票", "MOVIE-2D", "ticket", 1990, 4500, 1000, 0)                  \
    X(1, "Noise-cancelling headphones\u00a0· 降噪耳机", "HP-40", "headphones", 49900, 129900, 50,  \
      1)                                                                                           \
    X(1, "Dark chocolate, box of 12\u00a0· 黑巧克力", "CHOC-12", "chocolate", 3900, 7900, 300, 5)  \
    X(1, "Coffee voucher\u00a0· 咖啡兑换券", "COFFEE-1", "coffee", 990, 2200, 2000, 0)

static const struct {
    const char *name;
    int64_t starts_in_ms;
    int64_t ends_in_ms;
} demo_sales[] = {
#define X(name, starts, ends) {name, starts, ends},
    DEMO_SALE_LIST(X)
#undef X
};
_Static_assert(sizeof(demo_sales) / sizeof(demo_sales[0]) == DEMO_SALES, "as demo.h says");

static const struct {
    size_t sale;
    const char *name;
    const char *sku;
    const char *image_url;
    uint32_t price_cents;
    uint32_t was_cents;
    uint64_t total;
    uint32_t limit_per_user;
} demo_items[] = {
#define X(sale, name, sku, picture, price, was, total, limit)                                      \
    {sale, name, sku, "/assets/demo/" picture ".svg", price, was, total, limit},
    DEMO_ITEM_LIST(X)
#undef X
};
#define DEMO_ITEMS (sizeof(demo_items) / sizeof(demo_items[0]))

static void text_set(char *to, size_t cap, const char *text)
{
    int len = snprintf(to, cap, "%s", text);
    CHECK(len > 0 && (size_t)len < cap);
}

static struct sale_row *sale_fill(size_t sale, int64_t now_ms)
{
    struct sale_row *row = calloc(1, sizeof(*row));
    struct item_row *items = calloc(DEMO_ITEMS, sizeof(*items));
    if (row == NULL || items == NULL) {
        free(row);
        free(items);
        return NULL;
    }
    row->state = SALE_DRAFT;
    row->pay_within_s = DEMO_PAY_WITHIN_S;
    row->starts_at_ms = now_ms + demo_sales[sale].starts_in_ms;
    row->ends_at_ms = now_ms + demo_sales[sale].ends_in_ms;
    row->created_at_ms = now_ms;
    row->items = items;
    text_set(row->name, sizeof(row->name), demo_sales[sale].name);
    text_set(row->currency, sizeof(row->currency), "CNY");
    text_set(row->pay_url, sizeof(row->pay_url), DEMO_PAY_URL);
    for (size_t i = 0; i < DEMO_ITEMS; i++) {
        if (demo_items[i].sale != sale) {
            continue;
        }
        struct item_row *item = &items[row->items_count++];
        item->price_cents = demo_items[i].price_cents;
        item->was_cents = demo_items[i].was_cents;
        item->total = demo_items[i].total;
        item->available = demo_items[i].total;
        item->limit_per_user = demo_items[i].limit_per_user;
        text_set(item->name, sizeof(item->name), demo_items[i].name);
        text_set(item->sku, sizeof(item->sku), demo_items[i].sku);
        text_set(item->image_url, sizeof(item->image_url), demo_items[i].image_url);
    }
    return row;
}

size_t demo_fill(int64_t now_ms, struct sale_row **ret_rows, size_t max)
{
    size_t count = 0;
    while (count < max && count < DEMO_SALES) {
        ret_rows[count] = sale_fill(count, now_ms);
        if (ret_rows[count] == NULL) {
            break;
        }
        count++;
    }
    return count;
}
