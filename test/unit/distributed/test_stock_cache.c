/* The stock cache: items found, versions that grow, refills counted, what left the board swept. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>

#include <cmocka.h>

#include "base/backoff.h"
#include "distributed/stock_cache.h"

static struct stock_cache *stock_cache;

static int set_up(void **state)
{
    (void)state;
    stock_cache = stock_cache_new();
    return stock_cache == NULL;
}

static int tear_down(void **state)
{
    (void)state;
    stock_cache_free(stock_cache);
    return 0;
}

static struct item_view item(uint64_t id, uint64_t available)
{
    return (struct item_view){.item = id,
                              .sale = 1,
                              .total = 100,
                              .available = available,
                              .locked = 100 - available,
                              .limit_per_user = 2,
                              .sale_state = SALE_OPEN,
                              .starts_at_ms = 10,
                              .ends_at_ms = 20};
}

static void put_view(struct item_view view, uint32_t mark)
{
    struct stock_cache_item put = {.view = view, .homes = 4, .richest = 2, .most = 7, .mark = mark};
    assert_int_equal(stock_cache_put(stock_cache, &put), 0);
}

static void put(uint64_t id, uint64_t available, uint32_t mark)
{
    put_view(item(id, available), mark);
}

static struct stock_cache_item find(uint64_t id)
{
    struct stock_cache_item found;
    assert_true(stock_cache_find(stock_cache, id, &found));
    return found;
}

static void an_item_is_found_with_its_numbers(void **state)
{
    (void)state;
    struct stock_cache_item found = {.homes = 77};
    assert_false(stock_cache_find(stock_cache, 11, &found));
    assert_false(stock_cache_find(stock_cache, 0, &found)); /* nobody's id */
    assert_int_equal(found.homes, 77);
    put(11, 40, 1);
    found = find(11);
    assert_int_equal(found.view.available, 40);
    assert_int_equal(found.view.locked, 60);
    assert_int_equal(found.view.limit_per_user, 2);
    assert_int_equal(found.homes, 4);
    assert_int_equal(found.richest, 2);
    assert_int_equal(found.most, 7);
    assert_int_equal(found.mark, 1);
    assert_false(found.sold_out);
}

/* Segments that are rebuilt count from one again; a watcher's version must not go back. */
static void the_version_grows_with_every_change_and_only_then(void **state)
{
    (void)state;
    struct item_view view = item(11, 40);
    view.version = 900;
    put_view(view, 1);
    assert_int_equal(find(11).view.version, 1);
    view.version = 3;
    put_view(view, 2);
    assert_int_equal(find(11).view.version, 1);
    uint64_t version = 1;
    struct item_view changed[7];
    for (int i = 0; i < 7; i++) {
        changed[i] = view;
    }
    changed[0].total++;
    changed[1].available--;
    changed[2].locked++;
    changed[3].sold++;
    changed[4].sale_state = SALE_PAUSED;
    changed[5].starts_at_ms++;
    changed[6].ends_at_ms++;
    for (int i = 0; i < 7; i++) {
        put_view(changed[i], 3);
        assert_int_equal(find(11).view.version, ++version);
        put_view(view, 3);
        assert_int_equal(find(11).view.version, ++version);
    }
}

static void a_refill_is_counted_once(void **state)
{
    (void)state;
    put(11, 2, 1);
    assert_int_equal(find(11).refills, 0);
    put(11, 0, 1);
    assert_true(find(11).sold_out);
    put(11, 0, 1);
    assert_int_equal(find(11).refills, 0);
    put(11, 1, 1);
    assert_false(find(11).sold_out);
    assert_int_equal(find(11).refills, 1);
    put(11, 5, 1);
    assert_int_equal(find(11).refills, 1);
    put(11, 0, 1);
    put(11, 3, 1);
    assert_int_equal(find(11).refills, 2);
    put(12, 0, 1); /* new, and sold out from the first look on */
    assert_true(find(12).sold_out);
    assert_int_equal(find(12).refills, 0);
}

/* Ids that are far apart and ids that follow each other, past several doublings. */
static void many_items_are_all_found_and_swept(void **state)
{
    (void)state;
    const uint64_t count = 3000;
    for (uint64_t i = 1; i <= count; i++) {
        put(i % 2 == 0 ? i : i << 40, i % 100, 1);
    }
    for (uint64_t i = 1; i <= count; i++) {
        assert_int_equal(find(i % 2 == 0 ? i : i << 40).view.available, i % 100);
        struct stock_cache_item none;
        assert_false(stock_cache_find(stock_cache, i % 2 != 0 ? i : i << 40, &none));
    }
    for (uint64_t i = 1; i <= count; i += 3) {
        put(i % 2 == 0 ? i : i << 40, i % 100, 2);
    }
    stock_cache_sweep(stock_cache, 2);
    for (uint64_t i = 1; i <= count; i++) {
        struct stock_cache_item found;
        assert_int_equal(stock_cache_find(stock_cache, i % 2 == 0 ? i : i << 40, &found),
                         i % 3 == 1);
    }
    stock_cache_sweep(stock_cache, 2); /* nothing left to sweep: nothing changes */
    assert_int_equal(find(4).view.version, 1);
    stock_cache_sweep(stock_cache, 9);
    struct stock_cache_item found;
    assert_false(stock_cache_find(stock_cache, 4, &found));
    put(4, 1, 9); /* a new one */
    assert_int_equal(find(4).view.version, 1);
}

static void pauses_grow_and_end(void **state)
{
    (void)state;
    struct backoff backoff = {0};
    int64_t now = 1000;
    int64_t pause = BACKOFF_LEAST_MS;
    assert_true(backoff_is_over(&backoff, 0));
    for (int i = 0; i < 20; i++) {
        backoff_failed(&backoff, now);
        assert_false(backoff_is_over(&backoff, now + pause - 1));
        assert_true(backoff_is_over(&backoff, now + pause));
        pause = 2 * pause > BACKOFF_MOST_MS ? BACKOFF_MOST_MS : 2 * pause;
    }
    assert_int_equal(pause, BACKOFF_MOST_MS);
    backoff_worked(&backoff);
    assert_true(backoff_is_over(&backoff, now));
    backoff_failed(&backoff, now);
    assert_true(backoff_is_over(&backoff, now + BACKOFF_LEAST_MS));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(an_item_is_found_with_its_numbers, set_up, tear_down),
        cmocka_unit_test_setup_teardown(the_version_grows_with_every_change_and_only_then, set_up,
                                        tear_down),
        cmocka_unit_test_setup_teardown(a_refill_is_counted_once, set_up, tear_down),
        cmocka_unit_test_setup_teardown(many_items_are_all_found_and_swept, set_up, tear_down),
        cmocka_unit_test(pauses_grow_and_end),
    };
    return cmocka_run_group_tests_name("stock cache", tests, NULL, NULL);
}
