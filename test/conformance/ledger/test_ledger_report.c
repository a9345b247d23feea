/*
 * The sums that reports are read from: those of a ledger that an older program made, and what a report
 * reads. That they are what the orders add up to is in the audit behind every test, and, at random, in
 * test_ledger_twins.c.
 */
#include "fixture.h"

#include <stdio.h>
#include <stdlib.h>

#include "base/prng.h"
#include "port/ledger_report.h"

#define ITEMS 2
#define USERS 30
#define ORDERS 200

static void run(struct fixture *f, struct ledger_query *q)
{
    (void)ledger_read(f->ledger, q);
}

/* Orders of two sales, in every state. */
static void fill(struct fixture *f)
{
    struct prng prng = {.state = 7};
    sale_open(f, 1, 11, ITEMS, 10000, 0, false);
    sale_open(f, 2, 21, 1, 10000, 3, true);
    for (uint32_t i = 0; i < ORDERS; i++) {
        uint64_t item = prng_below(&prng, 3) == 0 ? 21 : 11 + prng_below(&prng, ITEMS);
        int64_t made_ms = T0 + (int64_t)prng_below(&prng, 90000);
        char key[24];
        struct ledger_op op = book_fresh(item, 1 + prng_below(&prng, USERS), 1, i);
        op.command.now_ms = made_ms;
        write_op(f, made_ms + (int64_t)prng_below(&prng, 5000), &op);
        int64_t later_ms = made_ms + 5000 + (int64_t)prng_below(&prng, 100000);
        struct order_id id = op.order.id;
        (void)snprintf(key, sizeof(key), "p%u", i);
        switch (prng_below(&prng, 4)) {
        case 0:
            op = pay(id, key, PRICE);
            break;
        case 1:
            op = cancel(id, 0);
            break;
        case 2:
            op = expire(id);
            later_ms = op.order.pay_by_ms + made_ms + PAY_WITHIN_MS + 10000;
            break;
        default:
            continue;
        }
        write_op(f, later_ms, &op);
    }
}

struct answers {
    struct report_row rows[2][ITEMS];
    struct sale_summary summaries[2];
    struct series_row series[2][60];
};

static void ask(struct fixture *f, struct answers *ret_answers)
{
    memset(ret_answers, 0, sizeof(*ret_answers));
    for (uint64_t sale = 1; sale <= 2; sale++) {
        struct ledger_query q = {.kind = QUERY_REPORT,
                                 .sale = sale,
                                 .limit = ITEMS,
                                 .report = ret_answers->rows[sale - 1]};
        run(f, &q);
        assert_int_equal(q.error, 0);
        q = (struct ledger_query){.kind = QUERY_SUMMARY, .sale = sale};
        run(f, &q);
        assert_int_equal(q.error, 0);
        ret_answers->summaries[sale - 1] = q.summary;
        q = (struct ledger_query){.kind = QUERY_SERIES,
                                  .sale = sale,
                                  .from_ms = T0,
                                  .step_ms = 2000,
                                  .and_later = true,
                                  .limit = 60,
                                  .series = ret_answers->series[sale - 1]};
        run(f, &q);
        assert_int_equal(q.error, 0);
    }
}

/* The ledger is as the program before the sums left it: its schema, and its orders. */
static void make_older(struct fixture *f)
{
    bool sqlite = fixture_backend == &on_sqlite;
    assert_int_equal(
        sql_run(f, "%s",
                sqlite ? "DROP TABLE order_sums; DROP TABLE sale_course; DROP TABLE "
                         "booking_lengths; ALTER TABLE holdings DROP COLUMN paid; "
                         "ALTER TABLE orders DROP COLUMN cooling_until_ms; DROP TABLE blocks; "
                         "PRAGMA user_version = 3"
                       : "DROP TABLE order_sums; DROP TABLE sale_course; DROP TABLE "
                         "booking_lengths; ALTER TABLE holdings DROP COLUMN paid; "
                         "UPDATE ledger_schema SET version = 6"),
        SQL_DONE);
    if (sqlite) { /* which had no checksums, either */
        char old[128];
        (void)snprintf(old, sizeof(old), "%s-old", f->path);
        assert_int_equal(sql_run(f, "VACUUM INTO '%s'", old), SQL_DONE);
        assert_int_equal(rename(old, f->path), 0);
    }
}

static void test_an_older_ledger_gets_its_sums(void **state)
{
    struct fixture *f = *state;
    struct answers before;
    struct answers after;
    fill(f);
    ask(f, &before);
    assert_true(before.summaries[0].payers > 0 && before.summaries[1].participants > 0);
    fixture_backend->close(f->ledger);
    make_older(f);
    assert_int_equal(fixture_backend->open(f, true, &f->ledger), 0);
    assert_sums_audit(f);
    ask(f, &after);
    assert_memory_equal(&before, &after, sizeof(before));
    /* And they go on from there. */
    struct ledger_op op = book_fresh(11, 1, 1, ORDERS + 1);
    write_op(f, T0 + 700000, &op);
    assert_int_equal(op.order.state, ORDER_LOCKED);
    struct ledger_op paid = pay(op.order.id, "later", PRICE);
    write_op(f, T0 + 700100, &paid);
    assert_int_equal(paid.refusal, REFUSAL_NONE);
}

/* On MariaDB a step may be cut short behind any statement, and is done again from its first. */
static void test_a_step_that_was_cut_short(void **state)
{
    struct fixture *f = *state;
    if (fixture_backend == &on_sqlite) {
        return;
    }
    struct answers before;
    struct answers after;
    fill(f);
    ask(f, &before);
    fixture_backend->close(f->ledger);
    assert_int_equal(sql_run(f, "UPDATE ledger_schema SET version = 6"), SQL_DONE);
    assert_int_equal(fixture_backend->open(f, true, &f->ledger), 0);
    ask(f, &after);
    assert_memory_equal(&before, &after, sizeof(before));
}

static void test_lengths_are_few(void **state)
{
    (void)state;
    assert_int_equal(booking_length(5, 4), 0);
    assert_int_equal(booking_length(5, 1004), 999);
    assert_int_equal(booking_length(0, 1239), 1230);
    assert_int_equal(booking_length(0, 45678), 45600);
    assert_int_equal(booking_length(0, 456789), 456000);
    assert_int_equal(booking_length(0, 4567890), 4560000);
}

static void test_the_width_divides_the_step(void **state)
{
    (void)state;
    assert_int_equal(series_width(10), 10);
    assert_int_equal(series_width(500), 10);
    assert_int_equal(series_width(2000), 1000);
    assert_int_equal(series_width(120000), 60000);
    assert_int_equal(series_width(86400000), 3600000);
    assert_int_equal(series_width(1), 0);
    assert_int_equal(series_width(0), 0);
    assert_int_equal(series_width(-10), 0);
}

int main(void)
{
#define TEST(name) cmocka_unit_test_setup_teardown(name, fixture_setup, fixture_teardown)
    const struct CMUnitTest tests[] = {
        TEST(test_an_older_ledger_gets_its_sums),
        TEST(test_a_step_that_was_cut_short),
        cmocka_unit_test(test_lengths_are_few),
        cmocka_unit_test(test_the_width_divides_the_step),
    };
    return LEDGER_SUITE_RUN(tests);
}
