/* Editions are exchanged while loops answer from them: each answer is one whole page of one
 * edition, also for those who read slowly. Run under ASan and TSan, too. */
#define _GNU_SOURCE /* memmem */
#include "unit/http/server_fixture.h"

#include <pthread.h>

#include "base/check.h"
#include "base/crypt.h"
#include "page_shop.h"
#include "pages/page_cache.h"
#include "pages/static.h"

enum { LOOPS = 3, EDITIONS = 30, ITEMS_LARGE = 400 };

static struct catalog *catalog;
static struct page_cache *page_cache;
static _Atomic bool ended;

/* A sale whose every item says which edition it is, on a list too large to be copied. */
static struct sale_row *large_sale(int edition)
{
    struct sale_row *row = shop_sale(1, SALE_WARM, "large");
    free(row->items);
    row->items_count = ITEMS_LARGE;
    row->items = calloc(ITEMS_LARGE, sizeof(*row->items));
    for (uint32_t i = 0; i < ITEMS_LARGE; i++) {
        row->items[i].id = 100 + i;
        (void)snprintf(row->items[i].name, NAME_MAX_BYTES, "edition %06d %0100d", edition, 0);
    }
    return row;
}

/* Whether a page names one edition only. */
static bool is_whole(struct span page)
{
    const char *first = memmem(page.at, page.len, "edition ", 8);
    size_t count = 0;
    if (first == NULL) {
        return false;
    }
    for (const char *at = first; at != NULL; count++) {
        if (memcmp(at, first, 14) != 0) {
            return false;
        }
        at += 14;
        at = memmem(at, page.len - (size_t)(at - page.at), "edition ", 8);
    }
    return count == 2 * ITEMS_LARGE && memcmp(page.at + page.len - 9, "</script>", 9) == 0;
}

static void *run_loop(void *context)
{
    struct fixture *f = context;
    struct http_request request = {.method = HTTP_GET};
    while (!atomic_load(&ended)) {
        uint32_t c = connect_peer(f);
        memory_net_window(f->net, c, 70000);
        send_text(f, c, GET("/wait"));
        CHECK(page_cache_answer_list(page_cache, f->server, f->kept[--f->kept_count], &request));
        settle(f);
        memory_net_window(f->net, c, SIZE_MAX); /* the rest, while editions go by */
        settle(f);
        CHECK(is_whole(memory_net_take(f->net, c)));
        memory_net_reset(f->net, c);
        settle(f);
    }
    return NULL;
}

static void test_loops_answer_while_editions_are_exchanged(void **state)
{
    (void)state;
    char problem[256] = "";
    struct page_cache_options options = {.memory_bytes = 64 << 20, .base_url = ""};
    struct page_cache_made made;
    void *fixtures[LOOPS];
    pthread_t threads[LOOPS];
    assert_int_equal(crypt_start(), 0);
    assert_int_equal(static_start(shop_assets, shop_assets_count), 0);
    assert_int_equal(page_cache_new(&options, &page_cache, problem, sizeof(problem)), 0);
    catalog = catalog_new();
    assert_int_equal(catalog_put(catalog, large_sale(0)), 0);
    assert_int_equal(page_cache_make(page_cache, catalog, &made), 0);
    for (int i = 0; i < LOOPS; i++) {
        assert_int_equal(setup(&fixtures[i]), 0);
        assert_int_equal(pthread_create(&threads[i], NULL, run_loop, fixtures[i]), 0);
    }
    for (int i = 1; i <= EDITIONS; i++) {
        assert_int_equal(catalog_put(catalog, large_sale(i)), 0);
        assert_int_equal(page_cache_make(page_cache, catalog, &made), 0);
        assert_int_equal(made.fresh, 1 + ITEMS_LARGE);
    }
    atomic_store(&ended, true);
    for (int i = 0; i < LOOPS; i++) {
        assert_int_equal(pthread_join(threads[i], NULL), 0);
        assert_int_equal(teardown(&fixtures[i]), 0);
    }
    page_cache_free(page_cache);
    catalog_free(catalog);
    static_stop();
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_loops_answer_while_editions_are_exchanged),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
