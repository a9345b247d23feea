/* See page_shop.h. */
#include "page_shop.h"

#include <stdio.h>
#include <stdlib.h>

#include "base/check.h"

#define ASSET(path, text)                                                                          \
    {                                                                                              \
        path, (const unsigned char *)(text), sizeof(text) - 1                                      \
    }

const struct web_asset shop_assets[] = {
    ASSET("demo/login.html", "<title>login</title>"),
    ASSET("demo/pay.html", "<title>pay</title>"),
    ASSET("store/index.html",
          "<link href=/assets/style.css>{{#empty}}<p>empty</p>{{/empty}}{{#sales}}<h2 id={{id}} "
          "data-at=\"{{starts_at_ms}}-{{ends_at_ms}} {{currency}}\">{{name}}</h2>{{#items}}<a "
          "href=\"/items/{{id}}\">{{name}} {{price}}{{#discount}} <s>{{was}}</s>{{/discount}}"
          "{{#image}}<img src=\"{{image_url}}\">{{/image}}</a>{{/items}}{{/sales}}<script "
          "type=\"application/json\">{{data}}</script>"),
    ASSET("store/item.html",
          "<link href=/assets/style.css><h1>{{name}}</h1><i>{{id}} {{sku}} {{price}} {{sale_id}} "
          "{{sale_name}} {{currency}} {{starts_at_ms}} {{ends_at_ms}} {{limit_per_user}}</i>"
          "{{#image}}<img src=\"{{image_url}}\">{{/image}}{{#discount}}<s>{{was}}</s>{{/discount}}"
          "<script type=\"application/json\">{{data}}</script>"),
    ASSET("store/missing.html", "<title>missing</title>"),
    ASSET("store/orders.html", "<title>orders</title>"),
    ASSET("style.css", "body{color:red}"),
};
const size_t shop_assets_count = sizeof(shop_assets) / sizeof(shop_assets[0]);

struct sale_row *shop_sale(uint64_t sale, enum sale_state state, const char *name)
{
    struct sale_row *row = calloc(1, sizeof(*row));
    struct item_row *items = calloc(SHOP_ITEMS, sizeof(*items));
    CHECK(row != NULL && items != NULL);
    row->id = sale;
    row->state = state;
    row->starts_at_ms = 1000 * (int64_t)sale;
    row->ends_at_ms = row->starts_at_ms + 500;
    row->items = items;
    row->items_count = SHOP_ITEMS;
    memcpy(row->currency, "CNY", 4);
    (void)snprintf(row->name, sizeof(row->name), "%s", name);
    for (uint32_t i = 0; i < SHOP_ITEMS; i++) {
        items[i].id = sale * 10 + i + 1;
        items[i].sale = sale;
        items[i].price_cents = 1999;
        items[i].was_cents = i == 0 ? 5999 : 0;
        items[i].limit_per_user = i;
        items[i].total = items[i].available = 100;
        (void)snprintf(items[i].name, sizeof(items[i].name), "thing %u of %s", i + 1, name);
    }
    return row;
}
