/*
 * Blocks: BLOCK and UNBLOCK, and how they are read: one, page by page, and by change.
 */
#include <string.h>

#include "fixture.h"

static struct block_row row_of(enum block_kind kind, const char *value, const char *reason,
                               int64_t until_ms)
{
    struct block_row row = {.kind = kind, .until_ms = until_ms};
    memcpy(row.value, value, strlen(value) + 1);
    memcpy(row.reason, reason, strlen(reason) + 1);
    return row;
}

static void shared_time(struct fixture *f, int64_t now_ms)
{
    if (f->segments > 0) {
        fixture_backend->set_time(f->ledger, now_ms);
    }
}

static struct ledger_op write_at(struct fixture *f, int64_t now_ms, enum ledger_kind kind,
                                 struct block_row *row)
{
    struct ledger_op op = {.kind = kind, .block = row};
    shared_time(f, now_ms);
    write_op(f, now_ms, &op);
    assert_int_equal(f->events_count, 0);
    return op;
}

static struct ledger_op block(struct fixture *f, int64_t now_ms, const char *user,
                              const char *reason, int64_t until_ms, struct block_row *ret_row)
{
    *ret_row = row_of(BLOCK_USER, user, reason, until_ms);
    return write_at(f, now_ms, LEDGER_BLOCK, ret_row);
}

static struct ledger_op unblock(struct fixture *f, int64_t now_ms, const char *user)
{
    struct block_row row = row_of(BLOCK_USER, user, "", 0);
    return write_at(f, now_ms, LEDGER_UNBLOCK, &row);
}

/* Reads one: 0 or ERR_NOTFOUND. */
static int read_one(struct fixture *f, enum block_kind kind, const char *value,
                    struct block_row *ret_row)
{
    struct ledger_query query = {
        .kind = QUERY_BLOCK, .block = {kind, value}, .limit = 1, .blocks = ret_row};
    (void)ledger_read(f->ledger, &query);
    assert_int_equal(query.count, query.error == 0 ? 1 : 0);
    return query.error;
}

/* All that a query gives after a number, in pages of two; returns how many. */
static size_t read_all(struct fixture *f, enum block_kind kind, uint64_t after, int64_t now_ms,
                       struct block_row *ret_rows, size_t max)
{
    size_t count = 0;
    struct block_row page[2];
    struct ledger_query query = {.kind = QUERY_BLOCKS,
                                 .block = {kind, NULL},
                                 .after = after,
                                 .now_ms = now_ms,
                                 .limit = 2,
                                 .blocks = page};
    do {
        query.count = 0;
        (void)ledger_read(f->ledger, &query);
        assert_int_equal(query.error, 0);
        for (uint32_t i = 0; i < query.count; i++) {
            assert_true(page[i].number > query.after);
            assert_true(count < max);
            ret_rows[count++] = page[i];
            query.after = page[i].number;
        }
    } while (query.count == query.limit);
    return count;
}

static void test_a_block_is_kept_as_it_was_given(void **state)
{
    static const struct {
        enum block_kind kind;
        const char *value, *reason;
        int64_t until_ms;
    } cases[] = {
        {BLOCK_USER, "9007199254740991", "many accounts", 0},
        {BLOCK_ADDRESS, "10.0.0.0/8", "r", T0 + 5},
        {BLOCK_ADDRESS, "ffff:ffff:ffff:ffff:ffff:ffff:ffff:ff00/120", "Händler 屏蔽", TIME_MAX_MS},
        {BLOCK_DEVICE, "Gerät-2 /%", "x", 0},
        {BLOCK_DEVICE, "gerät-2 /%", "another: bytes are compared", 0},
        {BLOCK_DEVICE, "10.0.0.0/8", "another kind", 0},
    };
    enum { CASES = sizeof(cases) / sizeof(cases[0]) };
    struct fixture *f = *state;
    struct block_row rows[CASES];
    for (size_t i = 0; i < CASES; i++) {
        rows[i] = row_of(cases[i].kind, cases[i].value, cases[i].reason, cases[i].until_ms);
        struct ledger_op op = write_at(f, T0, LEDGER_BLOCK, &rows[i]);
        assert_int_equal(op.refusal, REFUSAL_NONE);
        assert_false(op.repeated);
        assert_int_equal(rows[i].at_ms, T0);
        assert_true(rows[i].number > (i > 0 ? rows[i - 1].number : 0));
    }
    if (fixture_backend != &on_memory) {
        fixture_reopen(f);
    }
    for (size_t i = 0; i < CASES; i++) {
        struct block_row read;
        assert_int_equal(read_one(f, cases[i].kind, cases[i].value, &read), 0);
        assert_int_equal(read.kind, rows[i].kind);
        assert_string_equal(read.value, cases[i].value);
        assert_string_equal(read.reason, cases[i].reason);
        assert_int_equal(read.until_ms, cases[i].until_ms);
        assert_int_equal(read.at_ms, T0);
        assert_int_equal(read.number, rows[i].number);
    }
    struct block_row none;
    assert_int_equal(read_one(f, BLOCK_USER, "1", &none), ERR_NOTFOUND);
    assert_int_equal(read_one(f, BLOCK_USER, "10.0.0.0/8", &none), ERR_NOTFOUND);
}

static void test_the_same_again_changes_nothing(void **state)
{
    struct fixture *f = *state;
    struct block_row first, again, changed;
    assert_false(block(f, T0, "7", "robot", 0, &first).repeated);
    assert_true(block(f, T0 + 1, "7", "robot", 0, &again).repeated);
    assert_int_equal(again.number, first.number);
    assert_int_equal(again.at_ms, T0);
    assert_false(block(f, T0 + 2, "7", "another robot", 0, &changed).repeated);
    assert_true(changed.number > first.number);
    assert_false(block(f, T0 + 3, "7", "another robot", T0 + 9, &changed).repeated);
    assert_int_equal(changed.at_ms, T0 + 3);
    /* When it has ended, the same is a new block. */
    assert_false(block(f, T0 + 9, "7", "another robot", T0 + 9, &again).repeated);
    assert_true(again.number > changed.number);
    struct block_row nobody;
    assert_int_equal(block(f, T0, "", "x", 0, &nobody).refusal, REFUSAL_BAD_REQUEST);
    nobody = row_of(BLOCK_NONE, "7", "x", 0);
    assert_int_equal(write_at(f, T0, LEDGER_BLOCK, &nobody).refusal, REFUSAL_BAD_REQUEST);
}

static void test_a_removed_block_is_read_as_ended(void **state)
{
    struct fixture *f = *state;
    struct block_row row, read[4];
    (void)block(f, T0, "7", "robot", 0, &row);
    assert_int_equal(unblock(f, T0 + 1, "8").refusal, REFUSAL_NOT_FOUND);
    struct ledger_op op = unblock(f, T0 + 1, "7");
    assert_int_equal(op.refusal, REFUSAL_NONE);
    assert_false(op.repeated);
    assert_true(unblock(f, T0 + 2, "7").repeated);
    assert_int_equal(read_all(f, BLOCK_NONE, row.number, 0, read, 4), 1);
    assert_true(read[0].number > row.number);
    assert_string_equal(read[0].value, "7");
    assert_true(block_has_ended(&read[0], T0 + 1));
    assert_int_equal(read_all(f, BLOCK_NONE, 0, T0 + 1, read, 4), 0);
    /* Blocked again: one row, without the past. */
    assert_false(block(f, T0 + 3, "7", "again", 0, &row).repeated);
    assert_int_equal(read_all(f, BLOCK_NONE, 0, 0, read, 4), 1);
    assert_string_equal(read[0].reason, "again");
    assert_int_equal(read[0].until_ms, 0);
}

static void test_pages(void **state)
{
    static const char *const users[] = {"1", "2", "3", "4", "5"};
    struct fixture *f = *state;
    struct block_row row, read[8];
    for (size_t i = 0; i < 5; i++) {
        (void)block(f, T0, users[i], "x", i == 1 ? T0 + 10 : 0, &row);
    }
    struct block_row device = row_of(BLOCK_DEVICE, "phone", "x", 0);
    (void)write_at(f, T0, LEDGER_BLOCK, &device);
    assert_int_equal(read_all(f, BLOCK_NONE, 0, T0, read, 8), 6);
    assert_int_equal(read_all(f, BLOCK_USER, 0, T0, read, 8), 5);
    for (size_t i = 0; i < 5; i++) {
        assert_string_equal(read[i].value, users[i]);
    }
    assert_int_equal(read_all(f, BLOCK_USER, read[2].number, T0, read, 8), 2);
    assert_int_equal(read_all(f, BLOCK_DEVICE, 0, T0, read, 8), 1);
    assert_int_equal(read_all(f, BLOCK_ADDRESS, 0, T0, read, 8), 0);
    assert_int_equal(read_all(f, BLOCK_USER, 0, T0 + 9, read, 8), 5);
    assert_int_equal(read_all(f, BLOCK_USER, 0, T0 + 10, read, 8), 4); /* one has ended */
    assert_int_equal(read_all(f, BLOCK_USER, 0, 0, read, 8), 5);       /* and is still told */
}

/* What has ended is dropped when everybody must have read of it, and numbers never begin anew. */
static void test_ended_blocks_are_dropped_late(void **state)
{
    struct fixture *f = *state;
    struct block_row row, read[8];
    (void)block(f, T0, "1", "stays", 0, &row);
    (void)block(f, T0, "2", "ends", T0 + 1000, &row);
    (void)block(f, T0, "3", "is removed", 0, &row);
    (void)unblock(f, T0 + 500, "3");
    (void)block(f, T0 + 1000 + BLOCK_KEEP_MS - 1, "4", "x", 0, &row);
    size_t kept = read_all(f, BLOCK_NONE, 0, 0, read, 8);
    assert_true(kept >= 3);
    assert_int_equal(read_one(f, BLOCK_USER, "2", &row), 0);
    (void)block(f, T0 + 1000 + BLOCK_KEEP_MS, "5", "x", 0, &row);
    (void)unblock(f, T0 + 2000 + BLOCK_KEEP_MS, "5"); /* the last change of all */
    assert_int_equal(read_one(f, BLOCK_USER, "5", &row), 0);
    uint64_t highest = row.number;
    (void)block(f, T0 + 3000 + 2 * BLOCK_KEEP_MS, "6", "x", 0, &row);
    assert_true(row.number > highest);
    if (fixture_backend != &on_memory) { /* that keeps them for ever */
        assert_int_equal(read_one(f, BLOCK_USER, "2", &row), ERR_NOTFOUND);
        assert_int_equal(read_one(f, BLOCK_USER, "3", &row), ERR_NOTFOUND);
    }
    assert_int_equal(read_one(f, BLOCK_USER, "1", &row), 0);
    assert_int_equal(read_one(f, BLOCK_USER, "4", &row), 0);
}

/* Changes of blocks share batches with what else is written, and one that is refused harms nothing. */
static void test_it_shares_a_batch(void **state)
{
    struct fixture *f = *state;
    struct block_row rows[] = {row_of(BLOCK_USER, "1", "a", 0), row_of(BLOCK_USER, "1", "b", 0),
                               row_of(BLOCK_USER, "2", "", 0), row_of(BLOCK_USER, "1", "", 0),
                               row_of(BLOCK_USER, "1", "c", 0)};
    static const enum ledger_kind kinds[] = {LEDGER_BLOCK, LEDGER_BLOCK, LEDGER_UNBLOCK,
                                             LEDGER_UNBLOCK, LEDGER_BLOCK};
    struct ledger_op ops[7];
    struct ledger_op *list[7];
    sale_open(f, 1, 11, 1, 5, 1, false);
    for (size_t i = 0; i < 5; i++) {
        ops[i] = (struct ledger_op){.kind = kinds[i], .block = &rows[i]};
    }
    ops[5] = book_at(0, 11, 7, 0);
    ops[6] = book_at(0, 11, 8, 0);
    ops[5].lsn = 1;
    ops[6].lsn = 2;
    for (size_t i = 0; i < 7; i++) {
        list[i] = &ops[(i + 6) % 7]; /* a booking before them, and one behind */
    }
    shared_time(f, T0 + 5);
    write_batch(f, T0 + 5, list, 7);
    assert_int_equal(ops[5].order.state, ORDER_LOCKED);
    assert_int_equal(ops[6].order.state, ORDER_LOCKED);
    assert_int_equal(ops[2].refusal, REFUSAL_NOT_FOUND);
    for (size_t i = 0; i < 5; i++) {
        assert_true(i == 2 || ops[i].refusal == REFUSAL_NONE);
        assert_false(ops[i].repeated);
    }
    struct block_row read;
    assert_int_equal(read_one(f, BLOCK_USER, "1", &read), 0);
    assert_string_equal(read.reason, "c");
    assert_int_equal(read.number, rows[4].number);
    assert_int_equal(f->events_count, 2);
}

/* More than BLOCKS_MAX that have not ended are refused; one that is there still changes. */
static void test_there_is_a_most(void **state)
{
    struct fixture *f = *state;
    struct block_row one;
    if (fixture_backend == &on_memory) { /* no SQL fills it */
        skip();
    }
#define HEX                                                                                        \
    "(SELECT 0 AS i UNION ALL SELECT 1 UNION ALL SELECT 2 UNION ALL SELECT 3 UNION ALL SELECT 4"   \
    " UNION ALL SELECT 5 UNION ALL SELECT 6 UNION ALL SELECT 7 UNION ALL SELECT 8"                 \
    " UNION ALL SELECT 9 UNION ALL SELECT 10 UNION ALL SELECT 11 UNION ALL SELECT 12"              \
    " UNION ALL SELECT 13 UNION ALL SELECT 14 UNION ALL SELECT 15)"
    if (sql_run(f, "%s WHERE n BETWEEN 1 AND %u",
                "INSERT INTO blocks(kind, value, reason, until_ms, at_ms, number)"
                " SELECT 'user', n, 'x', NULL, 1, n FROM (SELECT a.i + 16 * b.i + 256 * c.i"
                " + 4096 * d.i AS n FROM " HEX " a, " HEX " b, " HEX " c, " HEX " d) numbers",
                BLOCKS_MAX - 1) != SQL_DONE) {
        fail_msg("cannot fill the table");
    }
    assert_int_equal(block(f, T0, "70000", "x", 0, &one).refusal, REFUSAL_NONE);
    assert_int_equal(block(f, T0, "70001", "x", 0, &one).refusal, REFUSAL_BAD_STATE);
    assert_int_equal(block(f, T0, "70000", "y", 0, &one).refusal, REFUSAL_NONE);
    assert_int_equal(unblock(f, T0, "17").refusal, REFUSAL_NONE);
    assert_int_equal(block(f, T0 + 1, "70001", "x", 0, &one).refusal, REFUSAL_NONE);
    assert_int_equal(block(f, T0 + 1, "17", "x", 0, &one).refusal, REFUSAL_BAD_STATE);
}

int main(void)
{
#define EVERYWHERE(TEST)                                                                           \
    TEST(test_a_block_is_kept_as_it_was_given), TEST(test_the_same_again_changes_nothing),         \
        TEST(test_a_removed_block_is_read_as_ended), TEST(test_pages),                             \
        TEST(test_ended_blocks_are_dropped_late), TEST(test_it_shares_a_batch),                    \
        TEST(test_there_is_a_most)
#define ALONE(name) cmocka_unit_test_setup_teardown(name, fixture_setup, fixture_teardown)
#define SHARED(name) cmocka_unit_test_setup_teardown(name, fixture_setup_shared, fixture_teardown)
    const struct CMUnitTest alone[] = {EVERYWHERE(ALONE)};
    const struct CMUnitTest shared[] = {EVERYWHERE(SHARED)};
    int failed = LEDGER_SUITE_RUN(alone);
    return failed != 0 ? failed : LEDGER_SHARED_RUN(shared);
}
