/*
 * A ledger gets used to batches of new orders, and may then write the next one without looking
 * first. Whatever that batch brings, the answers are those of a ledger that looks: each test writes
 * new orders until the ledger expects more of them, then something else among new ones.
 */
#include "conformance/ledger/fixture.h"
#include "table_tests.h"

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

static const struct habit_case {
    const char *name;
    /* Before: */
    bool new_epoch; /* segment 2 begins its second life */
    bool cancelled; /* buyer 2 gives the order back, and keeps a row of zeros */
    /* The op among new ones is a booking of this order, in the first epoch: */
    uint32_t segment;
    uint64_t user;
    uint32_t attempt;
    /* Its answer, and what the batch did: */
    enum refusal refusal;
    bool repeated;
    enum order_state state; /* where it is not refused */
    enum refusal reason;
    size_t events;
    int64_t held, ended; /* of the buyer, where it is not refused */
} habit_cases[] = {
    {.name = "an order that is booked",
     .segment = 1,
     .user = 2,
     .repeated = true,
     .state = ORDER_LOCKED,
     .events = 2,
     .held = 1},
    {.name = "an order of an earlier epoch", /* it looks stale, and has its row */
     .new_epoch = true,
     .segment = 2,
     .user = 3,
     .repeated = true,
     .state = ORDER_LOCKED,
     .events = 2,
     .held = 1},
    {.name = "a decision of an earlier epoch",
     .new_epoch = true,
     .segment = 2,
     .user = 50,
     .refusal = REFUSAL_STALE_EPOCH,
     .events = 2},
    {.name = "a buyer over the limit",
     .segment = 1,
     .user = 2,
     .attempt = 1,
     .state = ORDER_FAILED,
     .reason = REFUSAL_LIMIT_REACHED,
     .events = 3,
     .held = 1,
     .ended = 1},
    {.name = "a buyer who comes back",
     .cancelled = true,
     .segment = 1,
     .user = 2,
     .attempt = 1,
     .state = ORDER_LOCKED,
     .events = 3,
     .held = 1,
     .ended = 1},
};

static const struct habit_case *habit; /* of the test */

static int set_up_case(void **state)
{
    habit = *state;
    return fixture_setup_shared(state);
}

static void among_new_orders(void **state)
{
    struct fixture *f = *state;
    const struct habit_case *c = habit;
    get_used(f, 30);
    if (c->new_epoch) {
        struct ledger_op raise = raise_epoch(2, 1);
        write_op(f, T0, &raise);
    }
    if (c->cancelled) {
        struct ledger_op give_back = cancel(book_at(1, ITEM, 2, 0).command.id, 2);
        write_op(f, T0, &give_back);
        assert_int_equal(give_back.order.state, ORDER_CANCELLED);
    }
    struct ledger_op op = book_at(c->segment, ITEM, c->user, c->attempt);
    assert_int_equal(among_new(f, &op), c->events);
    assert_int_equal(op.refusal, c->refusal);
    assert_int_equal(op.repeated, c->repeated);
    if (c->refusal == REFUSAL_NONE) {
        assert_int_equal(op.order.state, c->state);
        assert_int_equal(op.order.reason, c->reason);
        assert_holding(f, ITEM, c->user, c->held, c->ended, 0);
    }
    assert_stock(f, ITEM, 22, 8, 0);
    if (!c->new_epoch) { /* and back to the habit */
        book_new(f, 21);
        book_new(f, 31);
        assert_stock(f, ITEM, 16, 14, 0);
    }
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
        TEST(test_an_order_twice_in_a_batch),
        TEST(test_more_than_there_is),
    };
    struct CMUnitTest cases[TABLE_ROWS(habit_cases)];
    TABLE_TESTS(habit_cases, among_new_orders, set_up_case, fixture_teardown, cases);
    return LEDGER_MARIADB_RUN(tests) + LEDGER_MARIADB_RUN(cases);
}
