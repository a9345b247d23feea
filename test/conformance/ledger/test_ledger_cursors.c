/*
 * What readers of events need of a ledger: a cursor that never goes back, whole orders by their
 * ids, and the mark on the booking that took an item's last unit. On every ledger there is.
 */
#include "fixture.h"

#include <stdlib.h>
#include <string.h>

#define ITEM 7
#define SALE 1

static struct ledger_op cursor_op(const char *name, uint64_t number)
{
    struct ledger_op op = {.kind = LEDGER_CURSOR, .amount = number};
    memcpy(op.key, name, strlen(name) + 1);
    return op;
}

/* True: it moved. */
static bool cursor_move(struct fixture *f, const char *name, uint64_t number)
{
    struct ledger_op op = cursor_op(name, number);
    write_op(f, T0, &op);
    assert_int_equal(op.refusal, REFUSAL_NONE);
    assert_int_equal(f->events_count, 0); /* or its reader would have to read of itself for ever */
    return !op.repeated;
}

static uint64_t cursor_at(struct fixture *f, const char *name)
{
    struct ledger_query query = {.kind = QUERY_CURSOR};
    memcpy(query.cursor, name, strlen(name) + 1);
    (void)ledger_read(f->ledger, &query);
    assert_int_equal(query.error, 0);
    return query.last_event;
}

static void test_it_moves_and_never_goes_back(void **state)
{
    struct fixture *f = *state;
    assert_int_equal(cursor_at(f, "events"), 0);
    assert_true(cursor_move(f, "events", 5));
    assert_int_equal(cursor_at(f, "events"), 5);
    assert_false(cursor_move(f, "events", 5));
    assert_false(cursor_move(f, "events", 4));
    assert_int_equal(cursor_at(f, "events"), 5);
    assert_true(cursor_move(f, "events", 1ULL << 40));
    assert_int_equal(cursor_at(f, "events"), 1ULL << 40);
    assert_false(cursor_move(f, "another", 0));
    assert_int_equal(cursor_at(f, "another"), 0);
    assert_true(cursor_move(f, "another", 1));
    assert_int_equal(cursor_at(f, "another"), 1);
    fixture_reopen(f);
    assert_int_equal(cursor_at(f, "events"), 1ULL << 40);
    struct ledger_op nameless = cursor_op("", 9);
    write_op(f, T0, &nameless);
    assert_int_equal(nameless.refusal, REFUSAL_BAD_REQUEST);
}

/* Beside bookings, in one transaction: each gets its own outcome. */
static void test_it_shares_a_batch(void **state)
{
    struct fixture *f = *state;
    sale_open(f, SALE, ITEM, 1, 90, 1, false);
    struct ledger_op ops[] = {book_at(0, ITEM, 1, 0), cursor_op("events", 3),
                              book_at(0, ITEM, 2, 0), cursor_op("events", 2)};
    struct ledger_op *list[] = {&ops[0], &ops[1], &ops[2], &ops[3]};
    ops[0].lsn = 1;
    ops[2].lsn = 2;
    write_batch(f, T0, list, 4);
    assert_int_equal(f->events_count, 2);
    assert_int_equal(ops[0].order.state, ORDER_LOCKED);
    assert_int_equal(ops[2].order.state, ORDER_LOCKED);
    assert_false(ops[1].repeated);
    assert_true(ops[3].repeated);
    assert_int_equal(cursor_at(f, "events"), 3);
}

static int move_under(struct fixture *f, uint64_t number, uint64_t token)
{
    struct ledger_op op = cursor_op("events", number);
    struct ledger_op *ops[] = {&op};
    struct ledger_batch batch = {
        .ops = ops, .count = 1, .now_ms = T0, .lease = "events", .token = token};
    (void)ledger_write(f->ledger, &batch);
    return batch.error;
}

static void test_a_stale_holder_moves_nothing(void **state)
{
    struct fixture *f = *state;
    struct lease_port *a = NULL;
    struct lease_port *b = NULL;
    uint64_t token = 0;
    assert_int_equal(fixture_backend->lease_open(f, "a", &a), 0);
    assert_int_equal(fixture_backend->lease_open(f, "b", &b), 0);
    fixture_backend->lease_set_time(a, T0);
    assert_int_equal(lease_take(a, "events", 1000, &token), 0);
    assert_int_equal(move_under(f, 10, token), 0);
    fixture_backend->lease_set_time(b, T0 + 1000);
    uint64_t newer = 0;
    assert_int_equal(lease_take(b, "events", 1000, &newer), 0);
    assert_true(newer > token);
    assert_int_equal(move_under(f, 20, token), ERR_BUSY);
    assert_int_equal(cursor_at(f, "events"), 10);
    assert_int_equal(move_under(f, 15, newer), 0);
    assert_int_equal(cursor_at(f, "events"), 15);
    fixture_backend->lease_close(a);
    fixture_backend->lease_close(b);
}

/* More than are asked for in one statement; some of them twice, some of nobody. */
static void test_orders_by_their_ids(void **state)
{
    enum { BUYERS = 40, IDS = 2500 };
    struct fixture *f = *state;
    struct order_id *ids = calloc(IDS, sizeof(*ids));
    struct order_row *rows = calloc(IDS, sizeof(*rows));
    assert_non_null(ids);
    assert_non_null(rows);
    sale_open(f, SALE, ITEM, 1, 900, 1, false);
    for (uint64_t user = 1; user <= BUYERS; user++) {
        struct ledger_op op = book_at(0, ITEM, user, 0);
        op.lsn = user;
        write_op(f, T0, &op);
    }
    struct ledger_op paid = pay(order_id_once(ITEM, 3, 0), "pay-3", PRICE);
    write_op(f, T0 + 1, &paid);
    for (uint32_t i = 0; i < IDS; i++) {
        ids[i] = order_id_once(i % 2 == 0 ? ITEM : ITEM + 1, 1 + i % BUYERS, 0);
    }
    struct ledger_query query = {
        .kind = QUERY_ORDERS_BY_ID, .ids = ids, .limit = IDS, .orders = rows};
    (void)ledger_read(f->ledger, &query);
    assert_int_equal(query.error, 0);
    assert_int_equal(query.count, IDS);
    for (uint32_t i = 0; i < IDS; i++) {
        struct order_row one;
        struct ledger_query alone = {.kind = QUERY_ORDER, .id = ids[i], .orders = &one};
        assert_true(order_id_equal(rows[i].id, ids[i]));
        if (i % 2 == 1) {
            assert_int_equal(rows[i].state, ORDER_QUEUED);
        } else if (i < 2 * BUYERS) {
            (void)ledger_read(f->ledger, &alone);
            assert_int_equal(alone.error, 0);
            assert_order_equal(&rows[i], &one);
            assert_string_equal(rows[i].payment_id, rows[i].user == 3 ? "pay-3" : "");
        }
    }
    free(ids);
    free(rows);
}

/* Books one unit; whether it was marked as the item's last. */
static bool took_the_last(struct fixture *f, uint32_t segment, uint64_t user, uint32_t attempt)
{
    struct ledger_op op = book_at(segment, ITEM, user, attempt);
    struct ledger_event read = {0};
    op.lsn = ++f->lsn;
    write_op(f, T0, &op);
    assert_int_equal(f->events_count, 1);
    struct ledger_event written = f->events[0];
    struct ledger_query query = {.kind = QUERY_EVENTS,
                                 .segment = SEGMENT_ALL,
                                 .after = written.number - 1,
                                 .limit = 1,
                                 .events = &read};
    (void)ledger_read(f->ledger, &query);
    assert_int_equal(query.error, 0);
    assert_event_equal(&read, &written);
    assert_true(read.b == 0 || (read.b == 1 && op.order.state == ORDER_LOCKED));
    return read.b == 1;
}

/* Three units: of one gate, or one in each of three segments. */
static void test_the_last_unit_is_marked(void **state)
{
    struct fixture *f = *state;
    bool shared = f->segments > 0;
    sale_open(f, SALE, ITEM, 1, 3, 1, false);
    assert_false(took_the_last(f, 0, 1, 0));
    assert_false(took_the_last(f, shared ? 1 : 0, 2, 0)); /* the segment's last is not the item's */
    assert_true(took_the_last(f, shared ? 2 : 0, 3, 0));
    assert_false(took_the_last(f, 0, 4, 0)); /* FAILED: there is none */
    struct ledger_op back = cancel(order_id_once(ITEM, 1, 0), 0);
    write_op(f, T0 + 1, &back);
    assert_int_equal(back.refusal, REFUSAL_NONE);
    assert_int_equal(f->events[0].b, 0);
    assert_true(took_the_last(f, 0, 5, 0)); /* once more */
    struct ledger_op more = restock(ITEM, 3, "more");
    write_op(f, T0 + 2, &more);
    sale_row_free(more.sale);
    assert_false(took_the_last(f, 0, 6, 0));
}

/* In one batch it is the one that took it, not those behind it. */
static void test_the_last_unit_of_a_batch(void **state)
{
    enum { BUYERS = 9, UNITS = 6 };
    struct fixture *f = *state;
    struct ledger_op ops[BUYERS];
    struct ledger_op *list[BUYERS];
    sale_open(f, SALE, ITEM, 1, UNITS, 1, false);
    for (uint32_t i = 0; i < BUYERS; i++) {
        ops[i] = book_at(f->segments > 0 ? i % 3 : 0, ITEM, i + 1, 0);
        ops[i].lsn = i + 1;
        list[i] = &ops[i];
    }
    write_batch(f, T0, list, BUYERS);
    assert_int_equal(f->events_count, BUYERS);
    for (uint32_t i = 0; i < BUYERS; i++) {
        assert_int_equal(ops[i].order.state, i < UNITS ? ORDER_LOCKED : ORDER_FAILED);
        assert_int_equal(f->events[i].b, i == UNITS - 1);
    }
}

int main(void)
{
#define EVERYWHERE(TEST)                                                                           \
    TEST(test_it_moves_and_never_goes_back), TEST(test_it_shares_a_batch),                         \
        TEST(test_orders_by_their_ids), TEST(test_the_last_unit_is_marked),                        \
        TEST(test_the_last_unit_of_a_batch)
#define ALONE(name) cmocka_unit_test_setup_teardown(name, fixture_setup, fixture_teardown)
#define SHARED(name) cmocka_unit_test_setup_teardown(name, fixture_setup_shared, fixture_teardown)
    const struct CMUnitTest alone[] = {EVERYWHERE(ALONE)};
    const struct CMUnitTest shared[] = {EVERYWHERE(SHARED),
                                        SHARED(test_a_stale_holder_moves_nothing)};
    int failed = LEDGER_SUITE_RUN(alone);
    return failed != 0 ? failed : LEDGER_SHARED_RUN(shared);
}
