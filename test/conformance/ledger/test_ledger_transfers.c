/*
 * Units on their way from one segment to another: noted first, then moved once, by what really left;
 * void when the segment they leave begins another life.
 */
#include "fixture.h"

#include <string.h>

#define ITEM 7

static struct ledger_op transfer(const char *key, uint32_t from, uint32_t to, uint64_t amount)
{
    struct ledger_op op = {
        .kind = LEDGER_TRANSFER, .item = ITEM, .segment = from, .to_segment = to, .amount = amount};
    strcpy(op.key, key);
    return op;
}

static struct ledger_op transferred(const char *key, uint32_t from, uint64_t epoch, uint64_t amount)
{
    struct ledger_op op = {
        .kind = LEDGER_TRANSFERRED, .segment = from, .epoch = epoch, .amount = amount};
    strcpy(op.key, key);
    return op;
}

/* The answer, and whether the op was applied before. */
static void assert_told(struct fixture *f, struct ledger_op op, enum refusal refusal, bool repeated)
{
    write_op(f, T0, &op);
    assert_int_equal(op.refusal, refusal);
    assert_int_equal(op.repeated, repeated);
}

static void test_a_transfer(void **state)
{
    struct fixture *f = *state;
    sale_open(f, 1, ITEM, 1, 30, 0, false);
    assert_told(f, transfer("t1", 0, 2, 7), REFUSAL_NONE, false);
    assert_int_equal(f->events_count, 0);
    assert_allotment(f, 0, ITEM, 10, 0, 0); /* nothing has moved */
    assert_allotment(f, 2, ITEM, 10, 0, 0);
    assert_told(f, transfer("t1", 0, 2, 7), REFUSAL_NONE, true);
    assert_told(f, transfer("t1", 0, 2, 8), REFUSAL_DIFFERENT_REQUEST, false);
    assert_told(f, transfer("t1", 0, 1, 7), REFUSAL_DIFFERENT_REQUEST, false);
    /* Less left than was asked for. */
    assert_told(f, transferred("t1", 0, 1, 5), REFUSAL_NONE, false);
    assert_int_equal(f->events_count, 1);
    assert_int_equal(f->events[0].kind, EVENT_ITEM_TRANSFERRED);
    assert_int_equal(f->events[0].segment, 2);
    assert_int_equal(f->events[0].item, ITEM);
    assert_int_equal(f->events[0].sale, 1);
    assert_int_equal(f->events[0].a, 5);
    assert_allotment(f, 0, ITEM, 5, 0, 0);
    assert_allotment(f, 2, ITEM, 15, 0, 0);
    /* Once. */
    assert_told(f, transferred("t1", 0, 1, 5), REFUSAL_NONE, true);
    assert_int_equal(f->events_count, 0);
    assert_told(f, transferred("t1", 0, 1, 4), REFUSAL_DIFFERENT_REQUEST, false);
    assert_told(f, transferred("t1", 1, 1, 5), REFUSAL_DIFFERENT_REQUEST, false);
    assert_told(f, transfer("t1", 0, 2, 7), REFUSAL_NONE, true);
    assert_allotment(f, 2, ITEM, 15, 0, 0);
    /* Nothing was left to go. */
    assert_told(f, transfer("t2", 0, 2, 7), REFUSAL_NONE, false);
    assert_told(f, transferred("t2", 0, 1, 0), REFUSAL_NONE, false);
    assert_int_equal(f->events_count, 0);
    assert_told(f, transferred("t2", 0, 1, 0), REFUSAL_NONE, true);
    assert_allotment(f, 0, ITEM, 5, 0, 0);
    /* Units that came can be sold, those that left cannot. */
    for (uint32_t i = 0; i < 16; i++) {
        struct ledger_op op = book_fresh(ITEM, 1 + i, 1, i);
        op.segment = 2;
        op.epoch = 1;
        write_op(f, T0, &op);
        assert_int_equal(op.order.state, i < 15 ? ORDER_LOCKED : ORDER_FAILED);
    }
}

/* What it follows from was seen in an earlier life of one of the two: it is not noted. */
static void test_a_transfer_of_earlier_lives(void **state)
{
    struct fixture *f = *state;
    sale_open(f, 1, ITEM, 1, 30, 0, false);
    struct ledger_op raise = raise_epoch(1, 1);
    write_op(f, T0, &raise);
    static const struct {
        uint32_t from, to;
        uint64_t epoch, to_epoch;
        enum refusal refusal;
    } rows[] = {
        {1, 0, 1, 1, REFUSAL_STALE_EPOCH}, {0, 1, 1, 1, REFUSAL_STALE_EPOCH},
        {1, 0, 3, 1, REFUSAL_STALE_EPOCH}, {0, 1, 0, 1, REFUSAL_STALE_EPOCH},
        {1, 0, 1, 0, REFUSAL_STALE_EPOCH}, {1, 0, 2, 1, REFUSAL_NONE},
        {0, 1, 1, 2, REFUSAL_NONE},        {0, 1, 0, 0, REFUSAL_NONE},
    };
    for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
        char key[] = "t0";
        key[1] = (char)('0' + i);
        struct ledger_op op = transfer(key, rows[i].from, rows[i].to, 1);
        op.epoch = rows[i].epoch;
        op.to_epoch = rows[i].to_epoch;
        assert_told(f, op, rows[i].refusal, false);
        if (rows[i].refusal != REFUSAL_NONE) {
            assert_told(f, transferred(key, rows[i].from, rows[i].epoch, 1), REFUSAL_NOT_FOUND,
                        false);
        }
    }
    /* Within one batch, too. */
    struct ledger_op up = raise_epoch(0, 1);
    struct ledger_op late = transfer("late", 0, 1, 1);
    late.epoch = 1;
    write_batch(f, T0, (struct ledger_op *[]){&up, &late}, 2);
    assert_int_equal(late.refusal, REFUSAL_STALE_EPOCH);
    /* One that was noted is known by its key, whatever has become of the segments. */
    struct ledger_op known = transfer("t5", 1, 0, 1);
    known.epoch = 1;
    assert_told(f, known, REFUSAL_NONE, true);
}

static void test_transfers_that_cannot_be(void **state)
{
    struct fixture *f = *state;
    sale_open(f, 1, ITEM, 1, 6, 0, false);
    sale_make(f, 2, ITEM + 1, 1, 6, 0, false);
    struct ledger_op no_item = transfer("x", 0, 1, 1);
    no_item.item = 999;
    assert_told(f, no_item, REFUSAL_NO_SUCH_ITEM, false);
    struct ledger_op draft = transfer("x", 0, 1, 1);
    draft.item = ITEM + 1;
    assert_told(f, draft, REFUSAL_BAD_REQUEST, false); /* nobody has a share yet */
    assert_told(f, transfer("x", 1, 1, 1), REFUSAL_BAD_REQUEST, false);
    assert_told(f, transfer("x", 1, 2, 0), REFUSAL_BAD_REQUEST, false);
    assert_told(f, transfer("x", 1, SEGMENTS, 1), REFUSAL_BAD_REQUEST, false);
    assert_told(f, transfer("x", SEGMENTS, 1, 1), REFUSAL_BAD_REQUEST, false);
    assert_told(f, transfer("", 1, 2, 1), REFUSAL_BAD_REQUEST, false);
    assert_told(f, transferred("x", 1, 1, 1), REFUSAL_NOT_FOUND, false);
    assert_told(f, transfer("x", 1, 2, 2), REFUSAL_NONE, false);
    assert_told(f, transferred("x", 1, 1, 3), REFUSAL_BAD_REQUEST, false);
    /* The gate let go of units that the ledger knows to be sold. */
    struct ledger_op sold = book_fresh(ITEM, 1, 1, 1);
    sold.segment = 1;
    sold.epoch = 1;
    write_op(f, T0, &sold);
    assert_told(f, transferred("x", 1, 1, 2), REFUSAL_NO_STOCK, false);
    assert_allotment(f, 1, ITEM, 2, 1, 0);
    assert_told(f, transferred("x", 1, 1, 1), REFUSAL_NONE, false);
    assert_allotment(f, 1, ITEM, 1, 1, 0);
    assert_allotment(f, 2, ITEM, 3, 0, 0);
    /* What is on its way when the sale is closed comes to its end; nothing new begins. */
    assert_told(f, transfer("y", 2, 0, 2), REFUSAL_NONE, false);
    struct ledger_op close = sale_move(1, SALE_CLOSED);
    write_op(f, T0, &close);
    sale_row_free(close.sale);
    assert_told(f, transfer("z", 2, 0, 1), REFUSAL_BAD_STATE, false);
    assert_told(f, transfer("y", 2, 0, 2), REFUSAL_NONE, true);
    assert_told(f, transferred("y", 2, 1, 2), REFUSAL_NONE, false);
    assert_allotment(f, 0, ITEM, 4, 0, 0);
}

#define OPEN_MAX 4

static uint32_t open_transfers(struct fixture *f, struct transfer_row *ret_rows)
{
    struct ledger_query q = {
        .kind = QUERY_TRANSFERS, .segment = SEGMENT_ALL, .limit = OPEN_MAX, .transfers = ret_rows};
    (void)ledger_read(f->ledger, &q);
    assert_int_equal(q.error, 0);
    return q.count;
}

static void test_what_is_on_its_way(void **state)
{
    struct fixture *f = *state;
    struct transfer_row rows[OPEN_MAX];
    static const char *const keys[] = {"d", "a", "c", "b", "f"};
    sale_open(f, 1, ITEM, 1, 30, 0, false);
    assert_int_equal(open_transfers(f, rows), 0);
    for (uint32_t i = 0; i < 5; i++) {
        fixture_backend->set_time(f->ledger, T0 + 10 * i);
        assert_told(f, transfer(keys[i], i % 2, 2, 1 + i), REFUSAL_NONE, false);
    }
    assert_int_equal(open_transfers(f, rows), OPEN_MAX); /* the oldest */
    for (uint32_t i = 0; i < OPEN_MAX; i++) {
        assert_string_equal(rows[i].key, keys[i]);
        assert_int_equal(rows[i].item, ITEM);
        assert_int_equal(rows[i].segment, i % 2);
        assert_int_equal(rows[i].to_segment, 2);
        assert_int_equal(rows[i].amount, 1 + i);
        assert_int_equal(rows[i].epoch, 1);
        assert_int_equal(rows[i].at_ms, T0 + 10 * i);
    }
    /* What is done or void is no more on its way. */
    assert_told(f, transferred("a", 1, 1, 2), REFUSAL_NONE, false);
    assert_told(f, raise_epoch(0, 1), REFUSAL_NONE, false);
    assert_int_equal(open_transfers(f, rows), 1);
    assert_string_equal(rows[0].key, "b");
}

static void test_another_life_voids_transfers(void **state)
{
    struct fixture *f = *state;
    struct transfer_row rows[OPEN_MAX];
    sale_open(f, 1, ITEM, 1, 30, 0, false);
    assert_told(f, transfer("out", 1, 2, 5), REFUSAL_NONE, false);
    assert_told(f, transfer("in", 2, 1, 5), REFUSAL_NONE, false);
    assert_told(f, transfer("old", 1, 0, 5), REFUSAL_NONE, false);
    assert_told(f, transferred("old", 1, 1, 2), REFUSAL_NONE, false);
    assert_told(f, raise_epoch(1, 1), REFUSAL_NONE, false);
    /* Its own is void, whatever is said of it; what comes to it comes; what was done stays done. */
    assert_told(f, transferred("out", 1, 1, 5), REFUSAL_STALE_EPOCH, false);
    assert_told(f, transferred("out", 1, 2, 5), REFUSAL_STALE_EPOCH, false);
    assert_told(f, transfer("out", 1, 2, 5), REFUSAL_NONE, true); /* it stays void */
    assert_told(f, transferred("out", 1, 2, 5), REFUSAL_STALE_EPOCH, false);
    assert_told(f, transferred("in", 2, 1, 5), REFUSAL_NONE, false);
    assert_told(f, transferred("old", 1, 1, 2), REFUSAL_NONE, true);
    assert_allotment(f, 0, ITEM, 12, 0, 0);
    assert_allotment(f, 1, ITEM, 13, 0, 0);
    assert_allotment(f, 2, ITEM, 5, 0, 0);
    /* One of the new life, and one that nobody voided but that left in another life. */
    assert_told(f, transfer("new", 1, 2, 3), REFUSAL_NONE, false);
    assert_int_equal(open_transfers(f, rows), 1);
    assert_string_equal(rows[0].key, "new");
    assert_int_equal(rows[0].epoch, 2); /* the new life's */
    assert_told(f, transferred("new", 1, 1, 3), REFUSAL_STALE_EPOCH, false);
    assert_told(f, transferred("new", 1, 2, 3), REFUSAL_NONE, false);
    assert_allotment(f, 1, ITEM, 10, 0, 0);
    assert_allotment(f, 2, ITEM, 8, 0, 0);
}

int main(void)
{
#define TEST(name) cmocka_unit_test_setup_teardown(name, fixture_setup_shared, fixture_teardown)
    const struct CMUnitTest tests[] = {
        TEST(test_a_transfer),
        TEST(test_a_transfer_of_earlier_lives),
        TEST(test_transfers_that_cannot_be),
        TEST(test_what_is_on_its_way),
        TEST(test_another_life_voids_transfers),
    };
    return LEDGER_SHARED_RUN(tests);
}
