/* Loops read the stock while the gate subscriber writes it: each finds an item whole, also while the
 * table grows or is swept. */
#include <pthread.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdatomic.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "base/check.h"
#include "distributed/stock_cache.h"

#define LOOPS 3
#define ROUNDS 20
#define ITEMS 300 /* the table grows several times */
#define TOTAL 100

static struct stock_cache *stock_cache;
static atomic_bool over;
static atomic_uint found[LOOPS];

/* All of an item's numbers say which round put it. */
static void put(uint64_t id, uint32_t round)
{
    struct stock_cache_item item = {
        .view = {.item = id, .total = TOTAL, .available = TOTAL - round, .locked = round},
        .mark = round};
    CHECK(stock_cache_put(stock_cache, &item) == 0);
}

static void *loop_thread(void *context)
{
    atomic_uint *count = context;
    for (uint64_t i = 0; !atomic_load(&over); i++) {
        struct stock_cache_item item;
        if (stock_cache_find(stock_cache, 1 + i % ITEMS, &item)) {
            CHECK(item.view.item == 1 + i % ITEMS);
            CHECK(item.view.available + item.view.locked == TOTAL);
            CHECK(item.mark == item.view.locked);
            atomic_fetch_add(count, 1);
        }
    }
    return NULL;
}

static bool all_have_found(void)
{
    bool all = true;
    for (int i = 0; i < LOOPS; i++) {
        all = all && atomic_load(&found[i]) > 0;
    }
    return all;
}

static void loops_find_items_whole_while_they_are_written(void **state)
{
    (void)state;
    pthread_t loops[LOOPS];
    stock_cache = stock_cache_new();
    assert_non_null(stock_cache);
    for (int i = 0; i < LOOPS; i++) {
        assert_int_equal(pthread_create(&loops[i], NULL, loop_thread, &found[i]), 0);
    }
    for (uint32_t i = 0; i < ROUNDS || !all_have_found(); i++) {
        uint32_t round = 1 + i % (TOTAL - 1);
        for (uint64_t id = 1; id <= ITEMS; id++) {
            if (id % 7 != round % 7) {
                put(id, round);
            }
        }
        stock_cache_refilled(stock_cache, 0);
        stock_cache_sweep(stock_cache, round);
    }
    atomic_store(&over, true);
    for (int i = 0; i < LOOPS; i++) {
        assert_int_equal(pthread_join(loops[i], NULL), 0);
    }
    stock_cache_free(stock_cache);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(loops_find_items_whole_while_they_are_written),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
