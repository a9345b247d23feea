/*
 * The keeper: who is due, and when; which sales are to open, to close and to be forgotten.
 *
 * deadline_scheduler.c is included, not linked: to see that a tick looks at the head of a FIFO and nowhere
 * else, one has to know where the FIFO lies.
 */
#include "ledger/deadline_scheduler.c" /* NOLINT(bugprone-suspicious-include) */

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/mman.h>
#include <unistd.h>

#include <cmocka.h>

#include "base/prng.h"

#define KEEP_MS 86400000
#define MAX 64

static struct deadline_scheduler *scheduler;
static struct catalog *catalog;
static struct ledger_op ops[MAX];

static int set_up(void **state)
{
    (void)state;
    scheduler = deadline_scheduler_new(KEEP_MS);
    catalog = catalog_new();
    return scheduler == NULL || catalog == NULL;
}

static int tear_down(void **state)
{
    (void)state;
    deadline_scheduler_free(scheduler);
    catalog_free(catalog);
    return 0;
}

static struct order_id id_of(uint64_t n)
{
    return (struct order_id){1, n};
}

static void add(uint64_t sale, uint64_t n, int64_t pay_by_ms)
{
    assert_int_equal(deadline_scheduler_add(scheduler, sale, id_of(n), pay_by_ms), 0);
}

/* What is due at now_ms is exactly these orders of this sale, in this order. */
static void assert_due(int64_t now_ms, uint64_t sale, size_t count, const uint64_t *orders)
{
    assert_int_equal(deadline_scheduler_due(scheduler, now_ms, ops, MAX), count);
    for (size_t i = 0; i < count; i++) {
        assert_int_equal(ops[i].kind, LEDGER_EXPIRE);
        assert_int_equal(ops[i].sale_id, sale);
        assert_true(order_id_equal(ops[i].id, id_of(orders[i])));
    }
}
#define ORDERS(...)                                                                                \
    sizeof((uint64_t[]){__VA_ARGS__}) / sizeof(uint64_t), (const uint64_t[])                       \
    {                                                                                              \
        __VA_ARGS__                                                                                \
    }

/* ---- deadlines ---- */

static void nothing_is_due_before_its_time(void **state)
{
    (void)state;
    add(1, 10, 1000);
    assert_int_equal(deadline_scheduler_due(scheduler, 0, ops, MAX), 0);
    assert_int_equal(deadline_scheduler_due(scheduler, 999, ops, MAX), 0);
    assert_int_equal(deadline_scheduler_pending(scheduler), 1);
    assert_due(1000, 1, ORDERS(10));
    assert_int_equal(deadline_scheduler_pending(scheduler), 0);
    assert_int_equal(deadline_scheduler_due(scheduler, 5000, ops, MAX), 0); /* once */
}

static void orders_fall_due_as_they_were_booked(void **state)
{
    (void)state;
    add(1, 10, 1000);
    add(1, 11, 1000);
    add(1, 12, 1001);
    add(1, 13, 1500);
    assert_due(1000, 1, ORDERS(10, 11));
    assert_due(1499, 1, ORDERS(12));
    add(1, 14, 1600);
    assert_due(9999, 1, ORDERS(13, 14));
}

static void each_sale_has_its_own_row(void **state)
{
    (void)state;
    add(1, 10, 9000); /* a long time to pay holds up nobody else's */
    add(2, 20, 1000);
    add(3, 30, 500);
    assert_due(500, 3, ORDERS(30));
    assert_due(1000, 2, ORDERS(20));
    assert_int_equal(deadline_scheduler_pending(scheduler), 1);
    assert_due(9000, 1, ORDERS(10));
}

static void no_more_than_asked_for_and_the_rest_later(void **state)
{
    (void)state;
    for (uint64_t n = 0; n < 100; n++) {
        add(1, n, 1000 + (int64_t)n / 10);
    }
    uint64_t next = 0;
    for (int i = 0; i < 14; i++) {
        size_t count = deadline_scheduler_due(scheduler, 2000, ops, 7);
        assert_int_equal(count, 7);
        for (size_t k = 0; k < count; k++) {
            assert_true(order_id_equal(ops[k].id, id_of(next++)));
        }
    }
    assert_int_equal(deadline_scheduler_due(scheduler, 2000, ops, 7), 2);
    assert_int_equal(deadline_scheduler_due(scheduler, 2000, ops, 0), 0);
}

/* A ledger is loaded item by item: the deadlines come in any order. */
static void what_comes_out_of_order_is_put_in_order(void **state)
{
    (void)state;
    static const int64_t pay_by_ms[] = {3000, 1000, 2000, 1500, 500, 2500};
    for (uint64_t n = 0; n < 6; n++) {
        add(1, n, pay_by_ms[n]);
    }
    assert_int_equal(deadline_scheduler_next_ms(scheduler, catalog), 500);
    assert_due(500, 1, ORDERS(4));
    assert_due(1999, 1, ORDERS(1, 3));
    add(1, 6, 1900); /* also behind some that have gone: the ring has turned */
    assert_int_equal(deadline_scheduler_next_ms(scheduler, catalog), 1900);
    assert_due(9999, 1, ORDERS(6, 2, 5, 0));
}

static void what_is_given_back_is_due_again_in_the_same_order(void **state)
{
    (void)state;
    for (uint64_t n = 0; n < 6; n++) {
        add(1 + n % 2, n, 1000 + (int64_t)n);
    }
    size_t count = deadline_scheduler_due(scheduler, 1004, ops, MAX);
    assert_int_equal(count, 5);
    assert_int_equal(deadline_scheduler_pending(scheduler), 1);
    for (size_t i = count; i > 0; i--) { /* oldest last, as the ledger writer does */
        deadline_scheduler_return(scheduler, ops[i - 1].sale_id, ops[i - 1].id,
                                  ops[i - 1].pay_by_ms);
    }
    assert_int_equal(deadline_scheduler_pending(scheduler), 6);
    assert_int_equal(deadline_scheduler_next_ms(scheduler, catalog), 1000);
    assert_int_equal(deadline_scheduler_due(scheduler, 999, ops, MAX), 0);
    assert_int_equal(deadline_scheduler_due(scheduler, 1005, ops, MAX), 6);
    static const uint64_t want[] = {0, 2, 4, 1, 3, 5}; /* sale 1, then sale 2 */
    for (size_t i = 0; i < 6; i++) {
        assert_true(order_id_equal(ops[i].id, id_of(want[i])));
    }
}

/* The whole ring is due and comes back: there is room for all of it. */
static void a_full_ring_can_be_given_back(void **state)
{
    (void)state;
    for (uint64_t n = 0; n < 64; n++) {
        add(1, n, 1000);
    }
    for (int round = 0; round < 3; round++) {
        assert_int_equal(deadline_scheduler_due(scheduler, 1000, ops, 64), 64);
        for (size_t i = 64; i > 0; i--) {
            deadline_scheduler_return(scheduler, 1, ops[i - 1].id, ops[i - 1].pay_by_ms);
        }
    }
    assert_int_equal(deadline_scheduler_due(scheduler, 1000, ops, 64), 64);
    for (uint64_t i = 0; i < 64; i++) {
        assert_true(order_id_equal(ops[i].id, id_of(i)));
    }
}

/* Rings that wrap and grow, against a plain list of what is still to come. */
static void nothing_is_lost_or_doubled(void **state)
{
    (void)state;
    struct prng prng = prng_of(23);
    enum { ALL = 20000 };
    static int64_t pay_by[ALL]; /* by order number */
    static uint8_t seen[ALL];
    memset(seen, 0, sizeof(seen));
    uint64_t added = 0;
    uint64_t gone = 0;
    int64_t now_ms = 0;
    while (gone < ALL) {
        for (uint64_t n = prng_below(&prng, 40); n > 0 && added < ALL; n--) {
            pay_by[added] = now_ms + 500 + (prng_below(&prng, 50) == 0 ? -200 : 0);
            add(1 + added % 3, added, pay_by[added]);
            added++;
        }
        now_ms += (int64_t)prng_below(&prng, 40);
        size_t count = deadline_scheduler_due(scheduler, now_ms, ops, 1 + prng_below(&prng, MAX));
        bool again = prng_below(&prng, 5) == 0; /* the batch fails */
        for (size_t i = count; i > 0; i--) {
            const struct ledger_op *op = &ops[i - 1];
            assert_true(pay_by[op->id.lo] <= now_ms);
            if (again) {
                deadline_scheduler_return(scheduler, op->sale_id, op->id, op->pay_by_ms);
            } else {
                assert_int_equal(seen[op->id.lo]++, 0);
                gone++;
            }
        }
        assert_int_equal(deadline_scheduler_pending(scheduler), added - gone);
    }
    assert_int_equal(added, ALL);
}

/*
 * A million orders wait. A tick may look at the head of the FIFO; the memory of all the others is
 * taken away while a thousand ticks pass, and whoever touches it is stopped by the machine.
 */
static void a_million_deadlines_cost_nothing_per_tick(void **state)
{
    (void)state;
    enum { ALL = 1000000 };
    for (uint64_t n = 0; n < ALL; n++) {
        add(1, n, 1000000 + (int64_t)(n / 100));
    }
    assert_int_equal(scheduler->fifos_count, 1);
    struct fifo *fifo = &scheduler->fifos[0];
    struct deadline *ring = fifo->ring;
    size_t page = (size_t)sysconf(_SC_PAGESIZE);
    size_t bytes = (fifo->capacity * sizeof(*ring) + page - 1) / page * page;
    char *guarded = mmap(NULL, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    assert_true(guarded != MAP_FAILED);
    memcpy(guarded, ring, fifo->capacity * sizeof(*ring));
    fifo->ring = (struct deadline *)guarded;
    assert_int_equal(fifo->head, 0);
    assert_int_equal(mprotect(guarded + page, bytes - page, PROT_NONE), 0);
    for (int64_t tick = 0; tick < 1000; tick++) {
        assert_int_equal(deadline_scheduler_due(scheduler, tick * 50, ops, MAX), 0);
        assert_int_equal(deadline_scheduler_moves(scheduler, catalog, tick * 50, ops, MAX), 0);
        assert_int_equal(deadline_scheduler_next_ms(scheduler, catalog), 1000000);
        assert_int_equal(deadline_scheduler_pending(scheduler), ALL);
    }
    /* What is due costs itself: the first of them lie on the page that is left. */
    assert_int_equal(deadline_scheduler_due(scheduler, 1000000, ops, 10), 10);
    assert_int_equal(mprotect(guarded, bytes, PROT_READ | PROT_WRITE), 0);
    fifo->ring = ring;
    assert_int_equal(munmap(guarded, bytes), 0);
}

static void a_forgotten_sale_leaves_nothing_behind(void **state)
{
    (void)state;
    for (uint64_t n = 0; n < 30; n++) {
        add(1 + n % 3, n, 1000 + (int64_t)n);
    }
    deadline_scheduler_forget(scheduler, 1);
    deadline_scheduler_forget(scheduler, 1);
    deadline_scheduler_forget(scheduler, 99);
    assert_int_equal(deadline_scheduler_pending(scheduler), 20);
    assert_int_equal(deadline_scheduler_next_ms(scheduler, catalog), 1001);
    assert_int_equal(deadline_scheduler_due(scheduler, 9999, ops, MAX), 20);
    for (size_t i = 0; i < 20; i++) {
        assert_true(ops[i].sale_id == 2 || ops[i].sale_id == 3);
    }
    add(1, 40, 1000);
    assert_due(1000, 1, ORDERS(40));
}

/* ---- sales ---- */

static void put_sale(uint64_t id, enum sale_state sale_state, int64_t starts_ms, int64_t ends_ms)
{
    struct sale_row *sale = calloc(1, sizeof(*sale));
    assert_non_null(sale);
    sale->id = id;
    sale->state = sale_state;
    sale->starts_at_ms = starts_ms;
    sale->ends_at_ms = ends_ms;
    assert_int_equal(catalog_put(catalog, sale), 0);
}

static void assert_moves(int64_t now_ms, enum ledger_kind kind, enum sale_state target)
{
    assert_int_equal(deadline_scheduler_moves(scheduler, catalog, now_ms, ops, MAX), 1);
    assert_int_equal(ops[0].kind, kind);
    assert_int_equal(ops[0].sale_id, 7);
    if (kind == LEDGER_SALE_MOVE) {
        assert_int_equal(ops[0].target, target);
    }
}

static void assert_still(int64_t now_ms)
{
    assert_int_equal(deadline_scheduler_moves(scheduler, catalog, now_ms, ops, MAX), 0);
}

static void a_warm_sale_opens_at_its_start(void **state)
{
    (void)state;
    put_sale(7, SALE_WARM, 1000, 5000);
    assert_int_equal(deadline_scheduler_next_ms(scheduler, catalog), 1000);
    assert_still(999);
    assert_moves(1000, LEDGER_SALE_MOVE, SALE_OPEN);
    assert_moves(4999, LEDGER_SALE_MOVE, SALE_OPEN);
    assert_moves(5000, LEDGER_SALE_MOVE, SALE_CLOSED); /* too late to open */
}

static void a_warm_sale_that_ends_before_it_starts_is_closed(void **state)
{
    (void)state;
    put_sale(7, SALE_WARM, 6000, 5000);
    assert_int_equal(deadline_scheduler_next_ms(scheduler, catalog), 5000);
    assert_still(4999);
    assert_moves(5000, LEDGER_SALE_MOVE, SALE_CLOSED);
}

static void open_and_paused_sales_close_at_their_end(void **state)
{
    (void)state;
    static const enum sale_state states[] = {SALE_OPEN, SALE_PAUSED};
    for (size_t i = 0; i < 2; i++) {
        put_sale(7, states[i], 1000, 5000);
        assert_int_equal(deadline_scheduler_next_ms(scheduler, catalog), 5000);
        assert_still(4999);
        assert_moves(5000, LEDGER_SALE_MOVE, SALE_CLOSED);
    }
}

static void a_draft_is_left_alone(void **state)
{
    (void)state;
    put_sale(7, SALE_DRAFT, 1000, 5000);
    assert_still(INT64_MAX - 1);
    assert_int_equal(deadline_scheduler_next_ms(scheduler, catalog), INT64_MAX);
}

static void a_closed_sale_is_forgotten_when_end_and_deadlines_are_long_past(void **state)
{
    (void)state;
    put_sale(7, SALE_CLOSED, 1000, 5000);
    assert_int_equal(deadline_scheduler_next_ms(scheduler, catalog), 5000 + KEEP_MS);
    assert_still(5000 + KEEP_MS - 1);
    assert_moves(5000 + KEEP_MS, LEDGER_SALE_FORGET, SALE_CLOSED);
    /* Somebody may still pay: the board shows his order for a day after that. */
    add(7, 1, 9000);
    assert_still(9000 + KEEP_MS - 1);
    assert_moves(9000 + KEEP_MS, LEDGER_SALE_FORGET, SALE_CLOSED);
    assert_int_equal(deadline_scheduler_due(scheduler, 9000, ops, MAX), 1);
    assert_still(9000 + KEEP_MS - 1); /* also when he has not */
    assert_int_equal(deadline_scheduler_next_ms(scheduler, catalog), 9000 + KEEP_MS);
}

/* After a restart the time of the last payment is unknown: the latest possible one is assumed. */
static void a_closed_sale_is_kept_for_the_last_buyers_time_to_pay(void **state)
{
    (void)state;
    struct sale_row *sale = calloc(1, sizeof(*sale));
    assert_non_null(sale);
    *sale = (struct sale_row){.id = 7,
                              .state = SALE_CLOSED,
                              .starts_at_ms = 1000,
                              .ends_at_ms = 5000,
                              .pay_within_s = 60};
    assert_int_equal(catalog_put(catalog, sale), 0);
    assert_still(65000 + KEEP_MS - 1);
    assert_moves(65000 + KEEP_MS, LEDGER_SALE_FORGET, SALE_CLOSED);
}

static void the_next_thing_to_do_is_the_earliest_of_all(void **state)
{
    (void)state;
    assert_int_equal(deadline_scheduler_next_ms(scheduler, catalog), INT64_MAX);
    put_sale(7, SALE_OPEN, 1000, 5000);
    put_sale(8, SALE_WARM, 4000, 9000);
    assert_int_equal(deadline_scheduler_next_ms(scheduler, catalog), 4000);
    add(7, 1, 4500);
    add(8, 2, 3500);
    assert_int_equal(deadline_scheduler_next_ms(scheduler, catalog), 3500);
    assert_due(3500, 8, ORDERS(2));
    assert_int_equal(deadline_scheduler_next_ms(scheduler, catalog), 4000);
}

static void many_sales_move_in_their_turn(void **state)
{
    (void)state;
    for (uint64_t id = 1; id <= 10; id++) {
        put_sale(id, SALE_WARM, 1000, 5000);
    }
    assert_int_equal(deadline_scheduler_moves(scheduler, catalog, 1000, ops, 4), 4);
    assert_int_equal(deadline_scheduler_moves(scheduler, catalog, 1000, ops, MAX), 10);
    for (uint64_t i = 0; i < 10; i++) {
        assert_int_equal(ops[i].sale_id, i + 1);
    }
}

int main(void)
{
#define TEST(name) cmocka_unit_test_setup_teardown(name, set_up, tear_down)
    const struct CMUnitTest tests[] = {
        TEST(nothing_is_due_before_its_time),
        TEST(orders_fall_due_as_they_were_booked),
        TEST(each_sale_has_its_own_row),
        TEST(no_more_than_asked_for_and_the_rest_later),
        TEST(what_comes_out_of_order_is_put_in_order),
        TEST(what_is_given_back_is_due_again_in_the_same_order),
        TEST(a_full_ring_can_be_given_back),
        TEST(nothing_is_lost_or_doubled),
        TEST(a_million_deadlines_cost_nothing_per_tick),
        TEST(a_forgotten_sale_leaves_nothing_behind),
        TEST(a_warm_sale_opens_at_its_start),
        TEST(a_warm_sale_that_ends_before_it_starts_is_closed),
        TEST(open_and_paused_sales_close_at_their_end),
        TEST(a_draft_is_left_alone),
        TEST(a_closed_sale_is_forgotten_when_end_and_deadlines_are_long_past),
        TEST(a_closed_sale_is_kept_for_the_last_buyers_time_to_pay),
        TEST(the_next_thing_to_do_is_the_earliest_of_all),
        TEST(many_sales_move_in_their_turn),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
