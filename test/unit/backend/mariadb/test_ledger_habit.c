/*
 * A ledger gets used to batches of new orders, and may then write the next one without looking
 * first. Whatever that batch brings, the answers are those of a ledger that looks: each test writes
 * new orders until the ledger expects more of them, then something else among new ones.
 */
#include "conformance/ledger/fixture.h"

#define ITEM 7
#define BUYERS 3 /* in a batch */

/* Three new orders, one of each segment, of buyers from this one on. */
static void book_new(struct fixture *f, uint64_t first_user)
{
    struct ledger_op ops[BUYERS];
    struct ledger_op *list[BUYERS];
    for (uint32_t i = 0; i < BUYERS; i++) {
        ops[i] = book_at(i, ITEM, first_user + i, 0);
        list[i] = &ops[i];
    }
    write_batch(f, T0, list, BUYERS);
    for (uint32_t i = 0; i < BUYERS; i++) {
        assert_int_equal(ops[i].order.state, ORDER_LOCKED);
        assert_false(ops[i].repeated);
    }
    assert_int_equal(f->events_count, BUYERS);
}

/* Buyers 1 to 3 and 11 to 13 have an order. */
static void get_used(struct fixture *f, uint64_t total)
{
    sale_open(f, 1, ITEM, 1, total, 1, false);
    book_new(f, 1);
    book_new(f, 11);
}

/* Among two new orders; gives how many events there were. */
static size_t among_new(struct fixture *f, struct ledger_op *op)
{
    struct ledger_op before = book_at(0, ITEM, 100, 0);
    struct ledger_op after = book_at(1, ITEM, 101, 0);
    write_batch(f, T0, (struct ledger_op *[]){&before, op, &after}, 3);
    assert_int_equal(before.order.state, ORDER_LOCKED);
    assert_int_equal(after.order.state, ORDER_LOCKED);
    assert_false(before.repeated || after.repeated);
    assert_holding(f, ITEM, 100, 1, 0, 0);
    assert_holding(f, ITEM, 101, 1, 0, 0);
    return f->events_count;
}

static void test_an_order_that_is_booked(void **state)
{
    struct fixture *f = *state;
    get_used(f, 30);
    struct ledger_op again = book_at(1, ITEM, 2, 0);
    assert_int_equal(among_new(f, &again), 2);
    assert_true(again.repeated);
    assert_int_equal(again.order.state, ORDER_LOCKED);
    assert_stock(f, ITEM, 22, 8, 0);
    book_new(f, 21); /* and back to the habit */
    book_new(f, 31);
    assert_stock(f, ITEM, 16, 14, 0);
}

static void test_an_order_twice_in_a_batch(void **state)
{
    struct fixture *f = *state;
    get_used(f, 30);
    struct ledger_op first = book_at(2, ITEM, 50, 0);
    struct ledger_op second = book_at(2, ITEM, 50, 0);
    write_batch(f, T0, (struct ledger_op *[]){&first, &second}, 2);
    assert_false(first.repeated);
    assert_true(second.repeated);
    assert_order_equal(&first.order, &second.order);
    assert_int_equal(f->events_count, 1);
    assert_stock(f, ITEM, 23, 7, 0);
}

/* Its row was written in the segment's life before: what looks stale is an order. */
static void test_an_order_of_an_earlier_life(void **state)
{
    struct fixture *f = *state;
    get_used(f, 30);
    struct ledger_op raise = raise_epoch(2, 1);
    write_op(f, T0, &raise);
    struct ledger_op booked = book_at(2, ITEM, 3, 0);
    assert_int_equal(among_new(f, &booked), 2);
    assert_int_equal(booked.refusal, REFUSAL_NONE);
    assert_true(booked.repeated);
    assert_stock(f, ITEM, 22, 8, 0);
}

static void test_a_decision_of_an_earlier_life(void **state)
{
    struct fixture *f = *state;
    get_used(f, 30);
    struct ledger_op raise = raise_epoch(2, 1);
    write_op(f, T0, &raise);
    struct ledger_op stale = book_at(2, ITEM, 50, 0);
    assert_int_equal(among_new(f, &stale), 2);
    assert_int_equal(stale.refusal, REFUSAL_STALE_EPOCH);
    assert_stock(f, ITEM, 22, 8, 0);
}

static void test_a_buyer_over_the_limit(void **state)
{
    struct fixture *f = *state;
    get_used(f, 30);
    struct ledger_op more = book_at(1, ITEM, 2, 1);
    assert_int_equal(among_new(f, &more), 3);
    assert_int_equal(more.order.state, ORDER_FAILED);
    assert_int_equal(more.order.reason, REFUSAL_LIMIT_REACHED);
    assert_holding(f, ITEM, 2, 1, 1, 0);
    assert_stock(f, ITEM, 22, 8, 0);
}

/* A row of the buyer's is there, with nothing in it. */
static void test_a_buyer_who_comes_back(void **state)
{
    struct fixture *f = *state;
    get_used(f, 30);
    struct ledger_op give_back = cancel(book_at(1, ITEM, 2, 0).command.id, 2);
    write_op(f, T0, &give_back);
    assert_int_equal(give_back.order.state, ORDER_CANCELLED);
    struct ledger_op once_more = book_at(1, ITEM, 2, 1);
    assert_int_equal(among_new(f, &once_more), 3);
    assert_int_equal(once_more.order.state, ORDER_LOCKED);
    assert_holding(f, ITEM, 2, 1, 1, 0);
    assert_stock(f, ITEM, 22, 8, 0);
}

static void test_more_than_there_is(void **state)
{
    struct fixture *f = *state;
    get_used(f, 9); /* three a segment, two of them sold */
    struct ledger_op last = book_at(2, ITEM, 50, 0);
    assert_int_equal(among_new(f, &last), 3);
    assert_int_equal(last.order.state, ORDER_LOCKED);
    struct ledger_op too_late = book_at(2, ITEM, 51, 0);
    write_op(f, T0, &too_late);
    assert_int_equal(too_late.order.state, ORDER_FAILED);
    assert_int_equal(too_late.order.reason, REFUSAL_NO_STOCK);
    assert_stock(f, ITEM, 0, 9, 0);
}

int main(void)
{
#define TEST(name) cmocka_unit_test_setup_teardown(name, fixture_setup_shared, fixture_teardown)
    const struct CMUnitTest tests[] = {
        TEST(test_an_order_that_is_booked),     TEST(test_an_order_twice_in_a_batch),
        TEST(test_an_order_of_an_earlier_life), TEST(test_a_decision_of_an_earlier_life),
        TEST(test_a_buyer_over_the_limit),      TEST(test_a_buyer_who_comes_back),
        TEST(test_more_than_there_is),
    };
    return LEDGER_MARIADB_RUN(tests);
}
