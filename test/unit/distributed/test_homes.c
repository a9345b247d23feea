/*
 * Homes by region: buyers are decided at their region's segments and nowhere else, limits hold, refills
 * come from the region first, and in the end from anywhere: nothing is stranded.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "base/check.h"
#include "base/err.h"
#include "keeper_fixture.h"
#include "obs/log.h"

#define SEGMENTS 3
#define WEST_LAST 999 /* users up to here: segments 0 and 1; others: 2 */

struct shop {
    struct cluster_world world;
    struct model_process process;
    struct recover *recover;
    struct balance *balance;
    uint64_t user[2]; /* the last one of each region */
};

static void shop_open(struct shop *shop, const char *regions)
{
    *shop = (struct shop){.user = {0, WEST_LAST}};
    model_init(&shop->world,
               (struct cluster_options){.segments = SEGMENTS, .regions = regions, .seed = 1});
    model_process_init(&shop->process, &shop->world, 2);
    shop->recover = recover_of(&shop->process, SEGMENTS, DRAIN_MS);
    shop->balance = balance_of(&shop->process, SEGMENTS);
    recover_until_whole(&shop->world, shop->recover);
    model_agree(&shop->world);
}

static void shop_close(struct shop *shop)
{
    balance_free(shop->balance);
    recover_free(shop->recover);
    model_process_done(&shop->process);
    model_done(&shop->world);
}

static uint64_t available(const struct shop *shop, uint32_t segment)
{
    const struct gate *gate = sim_segments_gate(shop->world.sim, segment);
    return gate->items[gate_find_item(gate, CLUSTER_FREE)].available;
}

/* Buys at one home until so many are left. */
static void sell(struct shop *shop, uint32_t segment, uint64_t left)
{
    uint64_t *user = &shop->user[segment == 2];
    while (available(shop, segment) > left) {
        ++*user;
        if (model_home(&shop->world, *user) == segment) {
            CHECK(model_buy(&shop->world, *user, CLUSTER_FREE, 1));
        }
    }
}

static struct balance_round round_of(struct shop *shop)
{
    struct balance_round round;
    fake_clock_pass_ms(&shop->world.clock, PAUSE_MS + 1);
    assert_int_equal(0, balance_round(shop->balance, &round));
    model_settle(&shop->world);
    return round;
}

static void test_stock_and_homes(void **state)
{
    (void)state;
    struct shop shop;
    shop_open(&shop, "west 1-999 0,1 4; east 1000- 2 1");
    assert_int_equal(12, available(&shop, 0));
    assert_int_equal(12, available(&shop, 1));
    assert_int_equal(6, available(&shop, 2));
    for (uint64_t user = 900; user < 1100; user++) {
        assert_int_equal(user > WEST_LAST, model_home(&shop.world, user) == 2);
    }
    /* By weight it is fair so: nothing moves by itself. */
    assert_int_equal(0, round_of(&shop).moved);
    for (uint32_t s = 0; s < SEGMENTS; s++) {
        sell(&shop, s, 2);
    }
    model_settle(&shop.world);
    for (size_t i = 0; i < shop.world.ledger.orders_count; i++) {
        const struct order_row *order = &shop.world.ledger.orders[i];
        assert_int_equal(order->user > WEST_LAST, order->segment == 2);
    }
    model_agree(&shop.world);
    shop_close(&shop);
}

static void test_refills_come_from_the_region_first(void **state)
{
    (void)state;
    struct shop shop;
    shop_open(&shop, "west 1-999 0,1; east 1000- 2 3"); /* 6, 6 and 18 */
    sell(&shop, 0, 0);
    balance_ask(shop.balance, 0, CLUSTER_FREE, 2, 2);
    struct balance_round round = round_of(&shop);
    assert_int_equal(2, round.units);
    assert_int_equal(2, available(&shop, 0));
    assert_int_equal(5,
                     available(&shop, 1)); /* all it had above its fair share, which is 5 of 24 */
    assert_int_equal(17, available(&shop, 2)); /* which had more above its own */
    model_agree(&shop.world);
    shop_close(&shop);
}

static void test_nothing_is_stranded(void **state)
{
    (void)state;
    struct shop shop;
    shop_open(&shop, "west 1-999 0,1 4; east 1000- 2 1");
    /* Only the east buys. */
    for (int i = 0; i < 100 && model_item(&shop.world, CLUSTER_FREE)->available > 0; i++) {
        sell(&shop, 2, 0);
        balance_ask(shop.balance, 2, CLUSTER_FREE, 1, 1);
        (void)round_of(&shop);
    }
    assert_int_equal(0, model_item(&shop.world, CLUSTER_FREE)->available);
    for (size_t i = 0; i < shop.world.ledger.orders_count; i++) {
        assert_int_equal(2, shop.world.ledger.orders[i].segment);
    }
    model_agree(&shop.world);
    shop_close(&shop);
}

/* What was configured later counts for sales that are warmed later. */
static void test_a_sale_keeps_its_regions(void **state)
{
    (void)state;
    struct shop shop;
    shop_open(&shop, "west 1-999 0,1; east 1000- 2");
    uint32_t home = model_home(&shop.world, 7);
    CHECK(model_buy(&shop.world, 7, CLUSTER_ONCE, 1));
    shop.world.ledger.regions = (struct regions){.count = 0};
    assert_int_equal(home, model_home(&shop.world, 7));
    sim_segments_empty(shop.world.sim, home);
    recover_until_whole(&shop.world, shop.recover);
    (void)model_buy(&shop.world, 7, CLUSTER_ONCE, 1); /* the same order, after any recovery */
    model_settle(&shop.world);
    assert_int_equal(1, shop.world.ledger.orders_count);
    model_agree(&shop.world);
    shop_close(&shop);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_stock_and_homes),
        cmocka_unit_test(test_refills_come_from_the_region_first),
        cmocka_unit_test(test_nothing_is_stranded),
        cmocka_unit_test(test_a_sale_keeps_its_regions),
    };
    log_set_level(LOG_ERROR);
    return cmocka_run_group_tests(tests, NULL, NULL);
}
