/* What pages say of sales and items: money, pictures, data, hostile names. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>

#include "base/bytes.h"
#include <cmocka.h>

#include "page_shop.h"
#include "pages/storefront.h"

static char page[16384];

static void expect_money(const char *currency, uint64_t minor, const char *wanted)
{
    struct out out = out_over(page, sizeof(page));
    storefront_money(&out, currency, minor);
    out_char(&out, '\0');
    assert_string_equal(page, wanted);
}

static void test_money_has_the_digits_of_its_currency(void **state)
{
    (void)state;
    expect_money("CNY", 5999, "CNY 59.99");
    expect_money("CNY", 0, "CNY 0.00");
    expect_money("EUR", 5, "EUR 0.05");
    expect_money("EUR", 10, "EUR 0.10");
    expect_money("JPY", 5999, "JPY 5999");
    expect_money("KWD", 5999, "KWD 5.999");
    expect_money("KWD", 1, "KWD 0.001");
    expect_money("CLF", 12345, "CLF 1.2345");
    expect_money("USD", PRICE_MAX, "USD 21474836.47");
}

static void test_pictures_that_the_page_may_show(void **state)
{
    (void)state;
    assert_true(storefront_shows_image("https://img.example/a.png", ""));
    assert_true(storefront_shows_image("/pictures/a.png", ""));
    assert_true(storefront_shows_image("http://shop.example/a.png", "http://shop.example"));
    assert_false(storefront_shows_image("", ""));
    assert_false(storefront_shows_image("", "http://shop.example"));
    assert_false(storefront_shows_image("http://img.example/a.png", ""));
    assert_false(storefront_shows_image("http://shop.example.org/a.png", "http://shop.example"));
    assert_false(storefront_shows_image("javascript:alert(1)", ""));
}

/* Renders a template of the shop for one item, with its data. */
static const char *item_page(const struct sale_row *sale, uint32_t item)
{
    char problem[128] = "";
    static char data[8192];
    static char safe[8192];
    struct template *template = NULL;
    struct storefront view = {.sale = sale, .item = &sale->items[item], .base_url = ""};
    struct out out = out_over(data, sizeof(data));
    storefront_item_data(&view, &out);
    struct span json = out_span(&out);
    out = out_over(safe, sizeof(safe));
    out_script_json(&out, json);
    view.data = out_span(&out);
    struct span text = {(const char *)shop_assets[3].data, shop_assets[3].len};
    assert_int_equal(
        template_read(text, &storefront_item_scope, &template, problem, sizeof(problem)), 0);
    out = out_over(page, sizeof(page) - 1);
    storefront_render(template, &view, &out);
    assert_false(out.overflow);
    page[out.len] = '\0';
    template_free(template);
    return page;
}

static void test_an_items_page(void **state)
{
    (void)state;
    struct sale_row *sale = shop_sale(7, SALE_WARM, "noon");
    memcpy(sale->items[0].sku, "K-1", 4);
    memcpy(sale->items[0].image_url, "/k.png", 7);
    assert_string_equal(
        item_page(sale, 0),
        "<link href=/assets/style.css><h1>thing 1 of noon</h1><i>71 K-1 CNY 19.99 7 noon CNY 7000 "
        "7500 0</i><img src=\"/k.png\"><s>CNY 59.99</s><script type=\"application/json\">"
        "{\"item\":{\"id\":71,\"name\":\"thing 1 of "
        "noon\",\"sku\":\"K-1\",\"image_url\":\"/k.png\","
        "\"price_cents\":1999,\"was_cents\":5999,\"limit_per_user\":0},\"sale\":{\"id\":7,"
        "\"name\":\"noon\",\"currency\":\"CNY\",\"starts_at_ms\":7000,\"ends_at_ms\":7500}}"
        "</script>");
    assert_string_equal(
        item_page(sale, 1),
        "<link href=/assets/style.css><h1>thing 2 of noon</h1><i>72  CNY 19.99 7 noon CNY 7000 "
        "7500 1</i><script type=\"application/json\">"
        "{\"item\":{\"id\":72,\"name\":\"thing 2 of noon\",\"sku\":null,\"image_url\":null,"
        "\"price_cents\":1999,\"was_cents\":null,\"limit_per_user\":1},\"sale\":{\"id\":7,"
        "\"name\":\"noon\",\"currency\":\"CNY\",\"starts_at_ms\":7000,\"ends_at_ms\":7500}}"
        "</script>");
    sale_row_free(sale);
}

static void test_a_price_that_was_not_higher_is_no_discount(void **state)
{
    (void)state;
    struct sale_row *sale = shop_sale(7, SALE_WARM, "noon");
    sale->items[0].was_cents = sale->items[0].price_cents;
    assert_null(strstr(item_page(sale, 0), "<s>"));
    sale->items[0].was_cents = sale->items[0].price_cents + 1;
    assert_non_null(strstr(item_page(sale, 0), "<s>CNY 20.00</s>"));
    sale_row_free(sale);
}

/* However long a name is and whatever is in it: no tag, no attribute and no script of its own. */
static void test_hostile_names_stay_text(void **state)
{
    (void)state;
    static const char *const hostile[] = {"</script><script>alert(1)</script>",
                                          "\"><img src=x onerror=alert(1)>",
                                          "' onload='x",
                                          "<!--",
                                          "]]>",
                                          "{{data}}{{#items}}",
                                          "\\u003c\\",
                                          "&lt;b&gt;",
                                          "\u2028\u2029"};
    for (size_t i = 0; i < sizeof(hostile) / sizeof(hostile[0]); i++) {
        struct sale_row *sale = shop_sale(7, SALE_WARM, hostile[i]);
        (void)snprintf(sale->items[0].name, NAME_MAX_BYTES + 1, "%s", hostile[i]);
        (void)snprintf(sale->items[0].sku, SKU_MAX_BYTES + 1, "%s", hostile[i]);
        (void)snprintf(sale->items[0].image_url, URL_MAX_BYTES + 1, "/%s", hostile[i]);
        const char *text = item_page(sale, 0);
        size_t tags = 0;
        for (const char *at = text; (at = strchr(at, '<')) != NULL; at++) {
            tags++;
        }
        assert_int_equal(tags, 10); /* link, h1, i, img, s, script and their ends */
        assert_null(strstr(text, "<script>alert"));
        const char *data = strstr(text, "json\">") + 6;
        const char *end = strstr(data, "</script>");
        assert_ptr_equal(strchr(data, '<'), end);
        assert_null(memchr(data, '&', (size_t)(end - data)));
        assert_null(strstr(data, "\u2028"));
        sale_row_free(sale);
    }
    struct sale_row *sale = shop_sale(7, SALE_WARM, "noon");
    memset(sale->items[0].name, '"', NAME_MAX_BYTES);
    memset(sale->items[0].image_url, '\'', URL_MAX_BYTES);
    sale->items[0].image_url[0] = '/';
    assert_non_null(strstr(item_page(sale, 0), "&quot;&quot;</h1>"));
    sale_row_free(sale);
}

static void test_the_data_of_the_list(void **state)
{
    (void)state;
    struct sale_row *one = shop_sale(1, SALE_WARM, "one");
    struct sale_row *two = shop_sale(2, SALE_OPEN, "two");
    one->items_count = two->items_count = 1;
    const struct sale_row *sales[] = {one, two};
    struct storefront view = {.sales = sales, .sales_count = 2, .base_url = ""};
    struct out out = out_over(page, sizeof(page));
    storefront_list_data(&view, &out);
    out_char(&out, '\0');
    assert_string_equal(
        page,
        "{\"sales\":[{\"id\":1,\"name\":\"one\",\"currency\":\"CNY\",\"starts_at_ms\":1000,"
        "\"ends_at_ms\":1500,\"items\":[{\"id\":11,\"name\":\"thing 1 of one\",\"sku\":null,"
        "\"image_url\":null,\"price_cents\":1999,\"was_cents\":5999,\"limit_per_user\":0}]},"
        "{\"id\":2,\"name\":\"two\",\"currency\":\"CNY\",\"starts_at_ms\":2000,"
        "\"ends_at_ms\":2500,\"items\":[{\"id\":21,\"name\":\"thing 1 of two\",\"sku\":null,"
        "\"image_url\":null,\"price_cents\":1999,\"was_cents\":5999,\"limit_per_user\":0}]}]}");
    view.sales_count = 0;
    out = out_over(page, sizeof(page));
    storefront_list_data(&view, &out);
    out_char(&out, '\0');
    assert_string_equal(page, "{\"sales\":[]}");
    sale_row_free(one);
    sale_row_free(two);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_money_has_the_digits_of_its_currency),
        cmocka_unit_test(test_pictures_that_the_page_may_show),
        cmocka_unit_test(test_an_items_page),
        cmocka_unit_test(test_a_price_that_was_not_higher_is_no_discount),
        cmocka_unit_test(test_hostile_names_stay_text),
        cmocka_unit_test(test_the_data_of_the_list),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
