/* The pages in memory: made from the catalog, only as far as it changed, and kept while they are
 * sent. Answers go through kept exchanges of the fixture's /wait. */
#include "unit/http/server_fixture.h"

#include "base/crypt.h"
#include "base/err.h"
#include "page_shop.h"
#include "pages/page_cache.h"
#include "pages/static.h"

static struct catalog *catalog;
static struct page_cache *page_cache;

static void shop_up_with(size_t memory_bytes, bool demo)
{
    char problem[256] = "";
    struct page_cache_options options = {
        .memory_bytes = memory_bytes, .shared_age_s = 60, .demo = demo, .base_url = ""};
    assert_int_equal(crypt_start(), 0);
    assert_int_equal(static_start(shop_assets, shop_assets_count), 0);
    assert_int_equal(page_cache_new(&options, &page_cache, problem, sizeof(problem)), 0);
    catalog = catalog_new();
}

static void shop_up(void)
{
    shop_up_with(1 << 20, true);
}

static void shop_down(void)
{
    page_cache_free(page_cache);
    catalog_free(catalog);
    static_stop();
}

static struct page_cache_made make(void)
{
    struct page_cache_made made;
    assert_int_equal(page_cache_make(page_cache, catalog, &made), 0);
    return made;
}

static void put(struct sale_row *row)
{
    assert_int_equal(catalog_put(catalog, row), 0);
}

/* A request whose answer is the test's to give. */
static struct http_exchange ask(struct fixture *f, uint32_t c)
{
    send_text(f, c, GET("/wait"));
    assert_true(f->kept_count > 0);
    return f->kept[--f->kept_count];
}

static const char *answer_text(struct fixture *f, uint32_t c)
{
    static char text[65536];
    settle(f);
    struct span all = memory_net_take(f->net, c);
    (void)snprintf(text, sizeof(text), "%.*s", (int)all.len, all.at);
    return text;
}

/* The answer to a request for an item's page; item 0: the list. "" where there is no such page. */
static const char *item_answer(struct fixture *f, uint64_t item, const struct http_request *request)
{
    uint32_t c = connect_peer(f);
    struct http_exchange exchange = ask(f, c);
    bool answered = item == 0
                        ? page_cache_answer_list(page_cache, f->server, exchange, request)
                        : page_cache_answer_item(page_cache, f->server, exchange, request, item);
    if (!answered) {
        (void)http_answer(f->server, exchange, 404, NULL, "", (struct span){NULL, 0});
    }
    http_server_flush(f->server);
    const char *text = answer_text(f, c);
    memory_net_reset(f->net, c);
    settle(f);
    return answered ? text : "";
}

static const char *item_text(struct fixture *f, uint64_t item)
{
    return item_answer(f, item, &(struct http_request){.method = HTTP_GET});
}

static void test_pages_come_and_go_with_their_sales(void **state)
{
    struct fixture *f = *state;
    shop_up();
    struct page_cache_made made = make();
    assert_int_equal(made.pages, 1); /* the list, empty */
    assert_non_null(strstr(item_text(f, 0), "<p>empty</p>"));
    put(shop_sale(1, SALE_DRAFT, "one"));
    made = make();
    assert_int_equal(made.fresh, 0);
    assert_string_equal(item_text(f, 11), "");
    put(shop_sale(1, SALE_WARM, "one"));
    made = make();
    assert_int_equal(made.pages, 1 + SHOP_ITEMS);
    assert_int_equal(made.fresh, 1 + SHOP_ITEMS);
    assert_non_null(strstr(item_text(f, 11), "<h1>thing 1 of one</h1>"));
    assert_non_null(strstr(item_text(f, 13), "<h1>thing 3 of one</h1>"));
    assert_string_equal(item_text(f, 14), "");
    assert_non_null(strstr(item_text(f, 0), "<h2 id=1 "));
    assert_null(strstr(item_text(f, 0), "empty"));
    catalog_remove(catalog, 1);
    made = make();
    assert_int_equal(made.gone, SHOP_ITEMS);
    assert_string_equal(item_text(f, 11), "");
    assert_non_null(strstr(item_text(f, 0), "<p>empty</p>"));
    shop_down();
}

static void test_only_what_changed_is_made_again(void **state)
{
    (void)state;
    shop_up();
    for (uint64_t i = 1; i <= 3; i++) {
        put(shop_sale(i, SALE_WARM, "some"));
    }
    assert_int_equal(make().fresh, 1 + 3 * SHOP_ITEMS);
    assert_int_equal(make().fresh, 0);
    struct sale_row *row = shop_sale(2, SALE_OPEN, "some"); /* states are not on pages, nor stock */
    row->items[1].available = row->items[1].total = 5;
    put(row);
    assert_int_equal(make().fresh, 0);
    row = shop_sale(2, SALE_OPEN, "some");
    row->items[1].price_cents = 1;
    put(row);
    assert_int_equal(make().fresh, 1 + 1); /* the item, and the list */
    put(shop_sale(3, SALE_WARM, "another name"));
    struct page_cache_made made = make();
    assert_int_equal(made.fresh, 1 + SHOP_ITEMS);
    assert_int_equal(made.gone, 0);
    shop_down();
}

static void test_the_list_is_in_order_of_start(void **state)
{
    struct fixture *f = *state;
    shop_up();
    struct sale_row *row = shop_sale(1, SALE_WARM, "last");
    row->starts_at_ms = 9000;
    put(row);
    put(shop_sale(2, SALE_CLOSED, "first"));
    put(shop_sale(3, SALE_WARM, "second"));
    (void)make();
    const char *text = item_text(f, 0);
    const char *first = strstr(text, ">first<");
    const char *second = strstr(text, ">second<");
    const char *last = strstr(text, ">last<");
    assert_true(first != NULL && first < second && second < last);
    shop_down();
}

static void test_forms_tags_and_headers(void **state)
{
    struct fixture *f = *state;
    char etag[64];
    shop_up();
    put(shop_sale(1, SALE_WARM, "one"));
    (void)make();
    struct http_request request = {.method = HTTP_GET};
    const char *plain = item_answer(f, 11, &request);
    assert_memory_equal(plain, "HTTP/1.1 200 OK", 15);
    assert_non_null(strstr(plain, "Cache-Control: public, max-age=5, s-maxage=60\r\n"));
    assert_non_null(strstr(plain, "Vary: Accept-Encoding\r\n"));
    assert_non_null(strstr(plain, "Content-Security-Policy: default-src 'self'"));
    assert_null(strstr(plain, "Content-Encoding"));
    assert_int_equal(sscanf(strstr(plain, "ETag: "), "ETag: %63s", etag), 1);

    request.if_none_match = span_of(etag);
    const char *same = item_answer(f, 11, &request);
    assert_memory_equal(same, "HTTP/1.1 304", 12);
    assert_non_null(strstr(same, etag));
    assert_non_null(strstr(same, "Cache-Control: public"));
    request.accept_encoding = span_of("gzip"); /* another form, another tag */
    const char *packed = item_answer(f, 11, &request);
    assert_memory_equal(packed, "HTTP/1.1 200", 12);
    assert_non_null(strstr(packed, "Content-Encoding: gzip\r\n"));
    assert_null(strstr(packed, etag));
    assert_int_equal(sscanf(strstr(packed, "ETag: "), "ETag: %63s", etag), 1);
    request.if_none_match = span_of(etag);
    same = item_answer(f, 11, &request);
    assert_memory_equal(same, "HTTP/1.1 304", 12);
    assert_null(strstr(same, "Content-Encoding"));

    struct sale_row *row = shop_sale(1, SALE_WARM, "one");
    memcpy(row->items[0].name, "other", 6);
    put(row);
    (void)make();
    assert_memory_equal(item_answer(f, 11, &request), "HTTP/1.1 200", 12);
    shop_down();
}

static void test_plain_pages_and_those_of_the_demonstration(void **state)
{
    struct fixture *f = *state;
    for (int demo = 0; demo < 2; demo++) {
        shop_up_with(1 << 20, demo);
        uint32_t c = connect_peer(f);
        struct http_request request = {.method = HTTP_GET};
        assert_true(page_cache_answer_plain(page_cache, f->server, ask(f, c), &request,
                                            PAGE_CACHE_ORDERS, 200));
        assert_non_null(strstr(answer_text(f, c), "<title>orders</title>"));
        assert_true(page_cache_answer_plain(page_cache, f->server, ask(f, c), &request,
                                            PAGE_CACHE_MISSING, 404));
        const char *missing = answer_text(f, c);
        assert_memory_equal(missing, "HTTP/1.1 404 Not Found", 22);
        assert_null(strstr(missing, "s-maxage"));
        struct http_exchange exchange = ask(f, c);
        bool there = page_cache_answer_plain(page_cache, f->server, exchange, &request,
                                             PAGE_CACHE_DEMO_PAY, 200);
        assert_int_equal(there, demo);
        shop_down();
        memory_net_reset(f->net, c);
        settle(f);
    }
}

/* Under ASan: bytes that are still to be sent outlive their edition, and even the site. */
static void test_a_slow_reader_gets_the_whole_old_page(void **state)
{
    struct fixture *f = *state;
    static char item[200000];
    shop_up();
    (void)memset(item, 'x', sizeof(item));
    struct sale_row *big = shop_sale(1, SALE_WARM, "old");
    free(big->items);
    big->items_count = ITEMS_PER_SALE_MAX; /* so that the list is larger than what is copied */
    big->items = calloc(big->items_count, sizeof(*big->items));
    for (uint32_t i = 0; i < big->items_count; i++) {
        big->items[i].id = 100 + i;
        memset(big->items[i].name, 'x', 150);
    }
    put(big);
    (void)make();
    struct http_request request = {.method = HTTP_GET};
    uint32_t slow[4];
    for (int i = 0; i < 4; i++) {
        slow[i] = connect_peer(f);
        memory_net_window(f->net, slow[i], 1000);
        assert_true(page_cache_answer_list(page_cache, f->server, ask(f, slow[i]), &request));
        settle(f);
    }
    assert_int_equal(f->server->buffers.pools[HTTP_POOL_LARGE].used, 0); /* nothing is copied */
    put(shop_sale(1, SALE_WARM, "new"));
    (void)make();
    assert_non_null(strstr(item_text(f, 0), ">new<"));
    for (int i = 0; i < 2; i++) { /* some in between */
        memory_net_window(f->net, slow[i], SIZE_MAX);
        settle(f);
    }
    memory_net_reset(f->net, slow[2]); /* this one gives up */
    settle(f);
    page_cache_free(page_cache);
    for (int i = 0; i < 2; i++) {
        struct span all = memory_net_take(f->net, slow[i]);
        assert_true(all.len > 2 * 150 * ITEMS_PER_SALE_MAX);
        assert_memory_equal(all.at + all.len - 9, "</script>", 9);
    }
    memory_net_window(f->net, slow[3], 5000); /* and this one is still reading when all ends */
    settle(f);
    assert_true(memory_net_take(f->net, slow[3]).len > 5000);
    catalog_free(catalog);
    static_stop();
}

static void test_pages_beyond_the_bound_are_left_out_the_least_important_first(void **state)
{
    struct fixture *f = *state;
    shop_up_with(1 << 20, false);
    put(shop_sale(1, SALE_CLOSED, "over"));
    put(shop_sale(2, SALE_OPEN, "now"));
    size_t all = make().bytes;
    shop_down();
    shop_up_with(all - 2500, false); /* the list counts last and always fits */
    put(shop_sale(1, SALE_CLOSED, "over"));
    put(shop_sale(2, SALE_OPEN, "now"));
    struct page_cache_made made = make();
    assert_true(made.left_out > 0 && made.left_out < 2 * SHOP_ITEMS);
    for (uint64_t i = 1; i <= SHOP_ITEMS; i++) {
        assert_string_not_equal(item_text(f, 20 + i), "");
    }
    assert_string_equal(item_text(f, 10 + SHOP_ITEMS), "");
    assert_true(page_cache_left_out(page_cache, 10 + SHOP_ITEMS));
    assert_false(page_cache_left_out(page_cache, 20 + SHOP_ITEMS));
    assert_false(page_cache_left_out(page_cache, 30));
    struct page_cache_entry *entries = NULL;
    size_t count = 0;
    assert_int_equal(page_cache_entries(page_cache, &entries, &count), 0);
    assert_int_equal(count, made.pages + 1); /* and the buyer's orders */
    free(entries);
    put(shop_sale(1, SALE_CLOSED, "OVER"));
    assert_int_equal(make().gone, 0); /* what was left out does not go */
    shop_down();
}

static void test_the_manifest_and_the_entries_name_every_page(void **state)
{
    struct fixture *f = *state;
    shop_up();
    put(shop_sale(1, SALE_WARM, "one"));
    (void)make();
    uint32_t c = connect_peer(f);
    struct http_request request = {.method = HTTP_GET};
    assert_true(page_cache_answer_manifest(page_cache, f->server, ask(f, c), &request));
    const char *text = answer_text(f, c);
    struct page_cache_entry *entries = NULL;
    size_t count = 0;
    assert_int_equal(page_cache_entries(page_cache, &entries, &count), 0);
    static const char *const paths[] = {"/",         "/demo/login", "/demo/pay", "/items/11",
                                        "/items/12", "/items/13",   "/orders"};
    assert_int_equal(count, 7);
    for (size_t i = 0; i < count; i++) {
        char line[128];
        assert_string_equal(entries[i].path, paths[i]);
        (void)snprintf(line, sizeof(line), "{\"path\":\"%s\",\"hash\":\"%s\"}", paths[i],
                       entries[i].hash);
        assert_non_null(strstr(text, line));
    }
    assert_non_null(strstr(text, "\"/assets/style."));
    assert_null(strstr(text, ".html"));
    free(entries);
    shop_down();
}

static void test_a_template_with_a_mistake_is_refused_by_name(void **state)
{
    (void)state;
    static const struct web_asset wrong[] = {
        {"store/item.html", (const unsigned char *)"\n{{stock}}", 10}};
    struct page_cache_options options = {.memory_bytes = 1 << 20, .base_url = ""};
    char problem[256] = "";
    assert_int_equal(static_start(wrong, 1), 0);
    assert_int_equal(page_cache_new(&options, &page_cache, problem, sizeof(problem)), ERR_INVALID);
    assert_string_equal(problem, "web/store/item.html:2: there is no key {{stock}}");
    static_stop();
}

static void test_what_counts_as_a_change_of_the_catalog(void **state)
{
    (void)state;
    catalog = catalog_new();
    put(shop_sale(1, SALE_DRAFT, "one"));
    uint64_t changes = catalog_changes(catalog);
    put(shop_sale(1, SALE_DRAFT, "one"));
    assert_int_equal(catalog_changes(catalog), changes); /* the same, read again */
    struct sale_row *row = shop_sale(1, SALE_DRAFT, "one");
    row->items[2].sold = row->items[2].total = 7;
    put(row);
    catalog_remove(catalog, 2);
    assert_int_equal(catalog_changes(catalog), changes);
    put(shop_sale(1, SALE_WARM, "one"));
    put(shop_sale(1, SALE_WARM, "two"));
    row = shop_sale(1, SALE_WARM, "two");
    row->ends_at_ms++;
    put(row);
    row = shop_sale(1, SALE_WARM, "two");
    row->ends_at_ms++;
    memcpy(row->items[2].image_url, "/x", 3);
    put(row);
    catalog_remove(catalog, 1);
    assert_int_equal(catalog_changes(catalog), changes + 5);
    catalog_free(catalog);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        T(test_pages_come_and_go_with_their_sales),
        T(test_only_what_changed_is_made_again),
        T(test_the_list_is_in_order_of_start),
        T(test_forms_tags_and_headers),
        T(test_plain_pages_and_those_of_the_demonstration),
        T(test_a_slow_reader_gets_the_whole_old_page),
        T(test_pages_beyond_the_bound_are_left_out_the_least_important_first),
        T(test_the_manifest_and_the_entries_name_every_page),
        T(test_a_template_with_a_mistake_is_refused_by_name),
        T(test_what_counts_as_a_change_of_the_catalog),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
