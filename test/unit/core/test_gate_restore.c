/* Loading a gate: the same chains come out, and what cannot stand in one gate is refused. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "base/err.h"
#include "core/gate_restore.h"

static const struct gate_sizes sizes = {.orders = 3, .buyers = 3, .items = 2, .sales = 2};
static struct gate gate;
static void *memory;
static struct gate_restore restore;

static const struct gate_sale sale = {.id = 1, .state = SALE_OPEN, .ends_at_ms = 9};
static const struct gate_item item = {
    .id = 10, .total = 10, .available = 7, .locked = 2, .sold = 1, .limit = 0};

static int set_up(void **state)
{
    (void)state;
    memory = aligned_alloc(64, gate_bytes(sizes));
    assert_non_null(memory);
    memset(memory, 0, gate_bytes(sizes));
    gate_init(&gate, sizes, memory, 1);
    gate_restore_start(&restore, &gate);
    return 0;
}

static int tear_down(void **state)
{
    (void)state;
    free(memory);
    return 0;
}

static struct gate_order order_of(uint64_t n, enum order_state order_state)
{
    return (struct gate_order){
        .id = {5, n}, .user = n, .qty = 1, .state = (uint8_t)order_state, .lsn = 100 + n};
}

static void chains_come_out_in_the_order_given(void **state)
{
    (void)state;
    static const uint8_t states[] = {ORDER_QUEUED, ORDER_LOCKED, ORDER_PAID};
    assert_int_equal(gate_restore_sale(&restore, &sale), 0);
    struct gate_sale other = {.id = 2, .state = SALE_CLOSED};
    assert_int_equal(gate_restore_sale(&restore, &other), 0);
    assert_int_equal(gate_restore_item(&restore, &item, 1), 0);
    for (uint64_t n = 0; n < 3; n++) {
        struct gate_buyer buyer = {.user = n + 1, .held = 1};
        assert_int_equal(gate_restore_buyer(&restore, &buyer), 0);
        if (n == 1) {
            assert_int_equal(gate_restore_cooling(&restore, 4711), 0);
        }
    }
    for (uint64_t n = 0; n < 3; n++) {
        struct gate_order order = order_of(n + 1, (enum order_state)states[n]);
        assert_int_equal(gate_restore_order(&restore, &order), 0);
    }
    struct gate_item empty = {.id = 11, .total = 4, .available = 4};
    assert_int_equal(gate_restore_item(&restore, &empty, 2), 0);
    assert_int_equal(0, gate_restore_finish(&restore, 77, 88));
    assert_int_equal(gate.applied_event, 77);
    assert_int_equal(gate.highest_ms, 88);
    uint64_t n = 0;
    uint32_t slot = gate_find_item(&gate, 10);
    for (uint32_t link = gate.items[slot].orders.first; link != 0;
         link = gate.orders[link - 1].by_item.next) {
        assert_int_equal(gate.orders[link - 1].user, ++n);
        assert_int_equal(gate.orders[link - 1].lsn, 100 + n);
    }
    assert_int_equal(n, 3);
    n = 0;
    for (uint32_t link = gate.items[slot].buyers; link != 0;
         link = gate.buyers[link - 1].next_item) {
        assert_int_equal(gate.buyers[link - 1].user, ++n);
        assert_int_equal(gate.buyers[link - 1].cooling_until_ms, n == 2 ? 4711 : 0);
    }
    assert_int_equal(n, 3);
    assert_int_equal(gate.sales[gate_find_sale(&gate, 1)].items, 1);
}

static void an_empty_gate_is_complete_at_once(void **state)
{
    (void)state;
    assert_int_equal(0, gate_restore_finish(&restore, 0, 0));
    assert_int_equal(gate.item_pool.used, 0);
}

static void what_cannot_stand_is_damage(void **state)
{
    (void)state;
    struct gate_buyer buyer = {.user = 1, .held = 1};
    struct gate_order order = order_of(1, ORDER_QUEUED);
    assert_int_equal(gate_restore_buyer(&restore, &buyer), ERR_CORRUPT); /* of no item */
    assert_int_equal(gate_restore_order(&restore, &order), ERR_CORRUPT);
    assert_int_equal(gate_restore_cooling(&restore, 500), ERR_CORRUPT);   /* of no buyer */
    assert_int_equal(gate_restore_item(&restore, &item, 1), ERR_CORRUPT); /* of no sale */
    struct gate_sale odd = {.id = 3, .state = SALE_STATE_COUNT};
    assert_int_equal(gate_restore_sale(&restore, &odd), ERR_CORRUPT);
    assert_int_equal(gate_restore_sale(&restore, &sale), 0);
    assert_int_equal(gate_restore_sale(&restore, &sale), ERR_CORRUPT); /* twice */
    assert_int_equal(gate_restore_item(&restore, &item, 1), 0);
    assert_int_equal(gate_restore_item(&restore, &item, 1), ERR_CORRUPT);
    struct gate_sale late = {.id = 4};
    assert_int_equal(gate_restore_sale(&restore, &late), ERR_CORRUPT); /* sales come first */
    assert_int_equal(gate_restore_buyer(&restore, &buyer), 0);
    assert_int_equal(gate_restore_buyer(&restore, &buyer), ERR_CORRUPT);
    assert_int_equal(gate_restore_order(&restore, &order), 0);
    assert_int_equal(gate_restore_order(&restore, &order), ERR_CORRUPT);
    assert_int_equal(gate_restore_cooling(&restore, 0), ERR_CORRUPT);
    assert_int_equal(gate_restore_cooling(&restore, 500), 0);
    struct gate_buyer barred = {.user = 9, .barred = true};
    assert_int_equal(gate_restore_buyer(&restore, &barred), 0);
    assert_int_equal(gate_restore_cooling(&restore, 500), ERR_CORRUPT); /* he waits for nothing */
    order = order_of(2, ORDER_STATE_COUNT);
    assert_int_equal(gate_restore_order(&restore, &order), ERR_CORRUPT);
    order = order_of(2, ORDER_FAILED);
    order.reason = REFUSAL_COUNT;
    assert_int_equal(gate_restore_order(&restore, &order), ERR_CORRUPT);
}

static void what_was_evicted_comes_back_with_its_item(void **state)
{
    (void)state;
    struct gate_item of_one = {.evicted = 2, .evicted_sold = 1, .evicted_end = 9, .evicted_lsn = 7};
    assert_int_equal(gate_restore_evicted(&restore, &of_one), ERR_CORRUPT); /* of no item */
    assert_int_equal(gate_restore_sale(&restore, &sale), 0);
    struct gate_item sold = {.id = 10, .total = 1, .sold = 1, .limit = 1};
    assert_int_equal(gate_restore_item(&restore, &sold, sale.id), 0);
    assert_int_equal(gate_restore_evicted(&restore, &of_one), 0);
    struct gate_buyer buyer = {.user = 1, .held = 1};
    assert_int_equal(gate_restore_buyer(&restore, &buyer), 0);
    assert_int_equal(gate_restore_finish(&restore, 77, 88), 0);
    const struct gate_item *item_at = &gate.items[gate_find_item(&gate, 10)];
    assert_int_equal(item_at->evicted, 2);
    assert_int_equal(item_at->evicted_sold, 1);
    assert_int_equal(item_at->evicted_end, 9);
    assert_int_equal(item_at->evicted_lsn, 7);
    assert_true(gate_maybe_evicted(&gate, gate_find_item(&gate, 10), order_id_once(10, 1, 0)));
}

static void an_order_without_its_buyer_is_damage(void **state)
{
    (void)state;
    assert_int_equal(gate_restore_sale(&restore, &sale), 0);
    assert_int_equal(gate_restore_item(&restore, &item, 1), 0);
    struct gate_order order = order_of(1, ORDER_QUEUED);
    assert_int_equal(gate_restore_order(&restore, &order), ERR_CORRUPT);
}

static void counters_that_no_order_stands_for_are_damage(void **state)
{
    (void)state;
    assert_int_equal(gate_restore_sale(&restore, &sale), 0);
    assert_int_equal(gate_restore_item(&restore, &item, 1), 0);
    assert_int_equal(gate_restore_finish(&restore, 77, 88), ERR_CORRUPT);
}

static void what_does_not_fit_is_refused(void **state)
{
    (void)state;
    for (uint64_t n = 1; n <= 3; n++) {
        struct gate_sale one = {.id = n};
        assert_int_equal(gate_restore_sale(&restore, &one), n <= 2 ? 0 : ERR_FULL);
    }
    for (uint64_t n = 1; n <= 3; n++) {
        struct gate_item one = {.id = n};
        assert_int_equal(gate_restore_item(&restore, &one, 1), n <= 2 ? 0 : ERR_FULL);
    }
    for (uint64_t n = 1; n <= 4; n++) {
        struct gate_buyer buyer = {.user = n};
        struct gate_order order = order_of(n, ORDER_EXPIRED);
        assert_int_equal(gate_restore_buyer(&restore, &buyer), n <= 3 ? 0 : ERR_FULL);
        assert_int_equal(gate_restore_order(&restore, &order), n <= 3 ? 0 : ERR_FULL);
    }
}

int main(void)
{
#define TEST(name) cmocka_unit_test_setup_teardown(name, set_up, tear_down)
    const struct CMUnitTest tests[] = {
        TEST(chains_come_out_in_the_order_given),
        TEST(an_empty_gate_is_complete_at_once),
        TEST(what_cannot_stand_is_damage),
        TEST(what_was_evicted_comes_back_with_its_item),
        TEST(an_order_without_its_buyer_is_damage),
        TEST(counters_that_no_order_stands_for_are_damage),
        TEST(what_does_not_fit_is_refused),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
