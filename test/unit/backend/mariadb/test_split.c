/*
 * Orders split over databases: which one an order is in, that the SQL itself keeps every order in
 * its own, and that the number of databases is fixed when a ledger is made.
 */
#include "conformance/ledger/on_mariadb.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "backend/mariadb/maria.h"
#include "backend/mariadb/schema.h"

#define ITEM 7

/* ---- the place ---- */

static void test_a_place_goes_by_segment(void **state)
{
    (void)state;
    for (uint32_t databases = 1; databases <= SPLIT_MAX; databases++) {
        for (uint32_t segment = 0; segment < SEGMENTS_MAX; segment++) {
            /* As a gate of many segments makes them: the rest of the sequence says nothing. */
            struct order_id id = order_id_fresh(ITEM, T0, 977U << ORDER_SEGMENT_BITS | segment);
            assert_int_equal(split_place(id, databases), segment % databases);
        }
        /* A buyer's only order carries the buyer, not the segment. Where the homes are a multiple of
         * the databases it is where its segment's others are; it never moves when homes are added. */
        for (uint64_t user = 1; user < 500; user++) {
            for (uint32_t times = 1; times * databases <= SEGMENTS_MAX; times++) {
                uint32_t home = segment_home(user, times * databases);
                assert_int_equal(split_place(order_id_once(ITEM, user, 3), databases),
                                 home % databases);
            }
        }
    }
}

static void test_buyers_are_spread(void **state)
{
    enum { BUYERS = 30000, DATABASES = 3 };
    uint32_t counts[DATABASES] = {0};
    (void)state;
    for (uint64_t user = 1; user <= BUYERS; user++) {
        counts[split_place(order_id_once(ITEM, user, 0), DATABASES)]++;
    }
    for (int i = 0; i < DATABASES; i++) {
        assert_in_range(counts[i], BUYERS / DATABASES * 9 / 10, BUYERS / DATABASES * 11 / 10);
    }
}

static void test_names(void **state)
{
    char name[SPLIT_NAME_MAX];
    char longest[65];
    (void)state;
    split_name("ledger", 0, name);
    assert_string_equal(name, "`ledger`");
    split_name("ledger", 15, name);
    assert_string_equal(name, "`ledger_15`");
    split_name("a`b", 1, name);
    assert_string_equal(name, "`a``b_1`");
    memset(longest, '`', sizeof(longest) - 1);
    longest[sizeof(longest) - 1] = '\0';
    split_name(longest, 15, name);
    assert_int_equal(strlen(name), 2 + 2 * 64 + 3);
}

/* ---- the rows ---- */

static int64_t rows_in(struct fixture *f, uint32_t place, struct order_id id)
{
    char sql[256];
    struct id_text text = id_text_of(id);
    char name[SPLIT_NAME_MAX];
    split_name(f->database, place, name);
    (void)snprintf(sql, sizeof(sql), "SELECT count(*) FROM %s.orders WHERE id = '%.26s'", name,
                   text.text);
    return sql_number(f, "%s", sql);
}

/* Orders of both kinds and all segments, some of them ended. */
static void test_each_order_is_in_its_place(void **state)
{
    enum { COUNT = 120 };
    struct fixture *f = *state;
    struct ledger_op ops[COUNT];
    struct ledger_op *list[COUNT];
    uint32_t counts[3] = {0};
    sale_open(f, 1, ITEM, 1, 1000, 1, false);
    sale_open(f, 2, ITEM + 1, 1, 1000, 0, false);
    for (uint32_t i = 0; i < COUNT; i++) {
        uint32_t segment = i % SEGMENTS;
        ops[i] = i % 2 == 0 ? book_once(ITEM, 1 + i, 0)
                            : book_fresh(ITEM + 1, 1 + i, 1, i << ORDER_SEGMENT_BITS | segment);
        ops[i].segment = i % 2 == 0 ? segment_home(1 + i, SEGMENTS) : segment;
        ops[i].epoch = 1;
        list[i] = &ops[i];
    }
    write_batch(f, T0, list, COUNT);
    for (uint32_t i = 0; i < COUNT; i++) {
        assert_int_equal(ops[i].order.state, ORDER_LOCKED);
        uint32_t place = split_place(ops[i].command.id, f->databases);
        assert_int_equal(place, ops[i].segment); /* as many homes as databases */
        counts[place]++;
        for (uint32_t p = 0; p < f->databases; p++) {
            assert_int_equal(rows_in(f, p, ops[i].command.id), p == place);
        }
    }
    for (uint32_t p = 0; p < f->databases; p++) {
        assert_true(counts[p] > 20);
    }
    for (uint32_t i = 0; i + 1 < COUNT; i += 7) {
        char key[16];
        (void)snprintf(key, sizeof(key), "p%u", i);
        struct ledger_op paid = pay(ops[i].command.id, key, PRICE);
        struct ledger_op ended = cancel(ops[i + 1].command.id, 0);
        struct ledger_op *both[] = {&paid, &ended};
        write_batch(f, T0, both, 2);
        assert_int_equal(paid.order.state, ORDER_PAID);
        assert_int_equal(ended.order.state, ORDER_CANCELLED);
    }
}

/* ---- the guards ---- */

static enum sql_outcome run_as_is(struct fixture *f, const char *sql)
{
    MYSQL *shell = f->shell;
    return mysql_query(shell, sql) == 0 ? SQL_DONE : SQL_REFUSED;
}

/* The same order in another database, or once more in its own. */
static void assert_kept(struct fixture *f, uint64_t item, uint32_t from, uint32_t to)
{
    char sql[512];
    char names[2][SPLIT_NAME_MAX];
    split_name(f->database, from, names[0]);
    split_name(f->database, to, names[1]);
    (void)snprintf(sql, sizeof(sql), "SELECT count(*) FROM %s.orders WHERE item_id = %d", names[0],
                   (int)item);
    assert_true(sql_number(f, "%s", sql) > 0);
    (void)snprintf(sql, sizeof(sql),
                   "INSERT INTO %s.orders SELECT * FROM %s.orders WHERE item_id = %d LIMIT 1",
                   names[1], names[0], (int)item);
    assert_int_equal(run_as_is(f, sql), SQL_REFUSED);
    assert_non_null(strstr(mysql_error(f->shell), from == to ? "Duplicate entry" : "orders_place"));
}

static void test_sql_keeps_orders_in_their_place(void **state)
{
    struct fixture *f = *state;
    sale_open(f, 1, ITEM, 1, 100, 0, false);
    sale_open(f, 2, ITEM + 1, 1, 100, 1, false);
    for (uint32_t i = 0; i < 80; i++) {
        uint64_t user = i % 4 == 1 ? ID_MAX - i : i * 1234567891ULL; /* all bits count */
        struct ledger_op op =
            i % 2 == 0 ? book_fresh(ITEM, 1 + i, 1, i) : book_once(ITEM + 1, user, 0);
        write_op(f, T0, &op);
        assert_int_equal(op.refusal, REFUSAL_NONE);
    }
    for (uint32_t from = 0; from < f->databases; from++) {
        for (uint32_t to = 0; to < f->databases; to++) {
            assert_kept(f, ITEM, from, to);
            assert_kept(f, ITEM + 1, from, to);
        }
    }
}

static void test_payments_are_one_over_all_databases(void **state)
{
    struct fixture *f = *state;
    struct ledger_op ops[3];
    sale_open(f, 1, ITEM, 1, 100, 0, false);
    for (uint32_t i = 0; i < 3; i++) {
        ops[i] = book_fresh(ITEM, 1 + i, 1, i); /* one in each */
        write_op(f, T0, &ops[i]);
    }
    struct ledger_op first = pay(ops[0].command.id, "pay-1", PRICE);
    write_op(f, T0, &first);
    assert_int_equal(first.order.state, ORDER_PAID);
    /* A payment's id pays one order, wherever the other one is. */
    struct ledger_op again = pay(ops[1].command.id, "pay-1", PRICE);
    write_op(f, T0, &again);
    assert_int_equal(again.refusal, REFUSAL_DIFFERENT_REQUEST);
    struct id_text text = id_text_of(ops[2].command.id);
    char sql[256];
#define PAYMENT "INSERT INTO payments VALUES('%s', 7, '%.26s', 1, repeat('x', 16), 1)"
    (void)snprintf(sql, sizeof(sql), PAYMENT, "pay-1", text.text);
    assert_int_equal(run_as_is(f, sql), SQL_REFUSED);
    text = id_text_of(ops[0].command.id);
    (void)snprintf(sql, sizeof(sql), PAYMENT, "pay-2", text.text);
    assert_int_equal(run_as_is(f, sql), SQL_REFUSED); /* an order's second */
    (void)snprintf(sql, sizeof(sql), PAYMENT, "pay-3", "40000000000000000000000000");
    assert_int_equal(run_as_is(f, sql), SQL_REFUSED); /* of no order */
    assert_non_null(strstr(mysql_error(f->shell), "no order"));
#undef PAYMENT
}

/* ---- the number ---- */

static int open_with(struct fixture *f, uint32_t databases, enum ledger_mariadb_mode mode,
                     struct ledger **ret_ledger)
{
    char url[512];
    struct fixture other = *f;
    other.databases = databases;
    mariadb_url(&other, url, sizeof(url));
    struct ledger_mariadb_options options = mariadb_options(url);
    options.segments = f->segments;
    return ledger_mariadb_open(&options, mode, ret_ledger);
}

static void assert_number_refused(struct fixture *f, uint32_t databases, const char *advice)
{
    struct ledger *ledger = NULL;
    for (int mode = MARIADB_WRITER; mode <= MARIADB_READER; mode++) {
        assert_int_equal(open_with(f, databases, (enum ledger_mariadb_mode)mode, &ledger),
                         ERR_INVALID);
        assert_non_null(strstr(ledger_mariadb_error(NULL), advice));
        assert_null(ledger);
    }
}

/* From the first start on, though there is no sale yet. */
static void test_the_number_is_fixed(void **state)
{
    struct fixture *f = *state;
    uint32_t has = f->databases > 1 ? f->databases : 1;
    char advice[32];
    (void)snprintf(advice, sizeof(advice), "Say ?databases=%u", has);
    fixture_backend->close(f->ledger);
    assert_number_refused(f, has == 1 ? 2 : 1, advice);
    assert_number_refused(f, has + 1, advice);
    assert_number_refused(f, SPLIT_MAX, advice);
    assert_int_equal(open_with(f, has, MARIADB_WRITER, &f->ledger), 0);
    sale_open(f, 1, ITEM, 1, 5, 1, false);
}

/* A ledger from before there was a choice: with orders, or a sale that could have some, they are in
 * one database. */
static void test_an_older_ledger(void **state)
{
    (void)state;
    for (int opened = 0; opened < 2; opened++) {
        struct fixture old = {.databases = 3};
        char url[512];
        on_mariadb.make(&old);
        old.databases = 1;
        mariadb_url(&old, url, sizeof(url));
        struct ledger_mariadb_options options = mariadb_options(url);
        assert_int_equal(
            maria_open(&options, MARIADB_WRITER, maria_steps, MARIA_STEPS_COUNT, &old.ledger), 0);
        if (opened) {
            sale_open(&old, 1, ITEM, 1, 5, 1, false);
        }
        ledger_mariadb_close(old.ledger);
        assert_int_equal(sql_run(&old, "UPDATE meta SET databases_count = 0"), SQL_DONE);
        struct ledger *ledger = NULL;
        assert_int_equal(open_with(&old, 3, MARIADB_WRITER, &ledger), opened ? ERR_INVALID : 0);
        ledger_mariadb_close(ledger);
        ledger = NULL;
        assert_int_equal(open_with(&old, 1, MARIADB_WRITER, &ledger), opened ? 0 : ERR_INVALID);
        ledger_mariadb_close(ledger);
        old.databases = 3;
        on_mariadb.discard(&old);
    }
}

/* A step that changes the orders changes them in every database, and what the view of all shows. */
static void test_a_step_reaches_the_orders_of_every_database(void **state)
{
    struct fixture *f = *state;
    char url[512];
    char name[SPLIT_NAME_MAX];
    uint32_t databases = f->databases > 1 ? f->databases : 1;
    static const char *const note[] = {"ALTER TABLE {each} ADD COLUMN IF NOT EXISTS note INT"};
    struct maria_step steps[MARIA_STEPS_COUNT + 1];
    memcpy(steps, maria_steps, sizeof(maria_steps));
    steps[MARIA_STEPS_COUNT] = (struct maria_step){note, 1};
    sale_open(f, 1, ITEM, 1, 5, 1, false);
    ledger_mariadb_close(f->ledger);
    mariadb_url(f, url, sizeof(url));
    struct ledger_mariadb_options options = mariadb_options(url);
    options.segments = f->segments;
    assert_int_equal(maria_open(&options, MARIADB_WRITER, steps, MARIA_STEPS_COUNT + 1, &f->ledger),
                     0);
    for (uint32_t i = 0; i < databases; i++) {
        split_name(f->database, i, name);
        assert_int_equal(
            sql_number(f, "SELECT count(note) + count(cooling_until_ms) FROM %s.orders", name), 0);
    }
    if (databases > 1) {
        assert_int_equal(sql_number(f, "SELECT count(note) FROM all_orders"), 0);
    }
}

/* ---- making the databases ---- */

static void in_second(struct fixture *f, const char *format)
{
    char sql[512];
    char name[SPLIT_NAME_MAX];
    split_name(f->database, 1, name);
    (void)snprintf(sql, sizeof(sql), "CREATE DATABASE IF NOT EXISTS %s", name);
    assert_int_equal(run_as_is(f, sql), SQL_DONE);
    size_t length = 0;
    for (const char *c = format; *c != '\0'; c++) {
        length += (size_t)snprintf(sql + length, sizeof(sql) - length, "%.*s",
                                   *c == '@' ? (int)strlen(name) : 1, *c == '@' ? name : c);
    }
    assert_int_equal(run_as_is(f, sql), SQL_DONE);
}

/* Whatever is in a database of such a name stays there. */
static void test_foreign_databases_are_refused(void **state)
{
    static const char *const tables[] = {"customers", "orders"};
    (void)state;
    for (size_t i = 0; i < 2; i++) {
        struct fixture f = {.databases = 3};
        struct ledger *ledger = NULL;
        char sql[256];
        on_mariadb.make(&f);
        in_second(&f, i == 0 ? "CREATE TABLE @.customers AS SELECT 1 AS x"
                             : "CREATE TABLE @.orders AS SELECT 1 AS x");
        assert_int_equal(open_with(&f, 3, MARIADB_WRITER, &ledger), ERR_INVALID);
        assert_non_null(strstr(ledger_mariadb_error(NULL), "_1"));
        assert_non_null(strstr(ledger_mariadb_error(NULL), "drop it"));
        (void)snprintf(sql, sizeof(sql), "SELECT x FROM %s_1.%s", f.database, tables[i]);
        assert_int_equal(sql_number(&f, "%s", sql), 1);
        on_mariadb.discard(&f);
    }
}

/* Cut short, it is made again: the number is noted when all is there. */
static void test_making_may_be_cut_short(void **state)
{
    struct fixture *f = *state;
    fixture_backend->close(f->ledger);
    assert_int_equal(sql_run(f, "UPDATE meta SET databases_count = 0"), SQL_DONE);
    assert_int_equal(run_as_is(f, "DROP VIEW all_orders"), SQL_DONE);
    in_second(f, "CREATE OR REPLACE TABLE @.orders(x INT)"); /* half made */
    assert_int_equal(open_with(f, 3, MARIADB_WRITER, &f->ledger), 0);
    assert_int_equal(sql_number(f, "SELECT databases_count FROM meta"), 3);
    sale_open(f, 1, ITEM, 1, 100, 0, false);
    for (uint32_t i = 0; i < 6; i++) {
        struct ledger_op op = book_fresh(ITEM, 1, 1, i);
        write_op(f, T0, &op);
        assert_int_equal(op.order.state, ORDER_LOCKED);
    }
    assert_int_equal(sql_number(f, "SELECT count(*) FROM orders"), 6);
}

/* And if it is given up instead, a ledger in one database is as if nothing had been. */
static void test_making_may_be_given_up(void **state)
{
    struct fixture f = {.databases = 3};
    char sql[256];
    (void)state;
    on_mariadb.make(&f);
    assert_int_equal(open_with(&f, 3, MARIADB_WRITER, &f.ledger), 0);
    ledger_mariadb_close(f.ledger);
    assert_int_equal(sql_run(&f, "UPDATE meta SET databases_count = 0"), SQL_DONE);
    for (uint32_t i = 1; i < 3; i++) {
        (void)snprintf(sql, sizeof(sql), "DROP DATABASE %s_%u", f.database, i);
        assert_int_equal(run_as_is(&f, sql), SQL_DONE);
    }
    f.databases = 1;
    assert_int_equal(open_with(&f, 1, MARIADB_WRITER, &f.ledger), 0);
    sale_open(&f, 1, ITEM, 1, 100, 0, false);
    for (uint32_t i = 0; i < 6; i++) {
        struct ledger_op op = book_fresh(ITEM, 1, 1, i);
        struct ledger_op paid = pay(op.command.id, i % 2 == 0 ? "even" : "odd", PRICE);
        struct ledger_op *both[] = {&op, &paid};
        write_batch(&f, T0, both, i < 2 ? 2 : 1);
        assert_int_equal(op.order.state, ORDER_LOCKED);
        assert_int_equal(paid.order.state, i < 2 ? ORDER_PAID : ORDER_QUEUED);
    }
    assert_int_equal(run_as_is(&f, "INSERT INTO payments VALUES('x', 7,"
                                   " '40000000000000000000000000', 1, repeat('x', 16), 1)"),
                     SQL_REFUSED);
    assert_non_null(strstr(mysql_error(f.shell), "foreign key"));
    ledger_mariadb_close(f.ledger);
    on_mariadb.discard(&f);
}

int main(void)
{
    const struct CMUnitTest pure[] = {
        cmocka_unit_test(test_a_place_goes_by_segment),
        cmocka_unit_test(test_buyers_are_spread),
        cmocka_unit_test(test_names),
    };
#define TEST(name) cmocka_unit_test_setup_teardown(name, fixture_setup, fixture_teardown)
#define SHARED(name) cmocka_unit_test_setup_teardown(name, fixture_setup_shared, fixture_teardown)
    const struct CMUnitTest split[] = {
        SHARED(test_each_order_is_in_its_place),
        TEST(test_sql_keeps_orders_in_their_place),
        TEST(test_payments_are_one_over_all_databases),
        TEST(test_making_may_be_cut_short),
        cmocka_unit_test(test_making_may_be_given_up),
        cmocka_unit_test(test_an_older_ledger),
        cmocka_unit_test(test_foreign_databases_are_refused),
    };
    const struct CMUnitTest both[] = {
        TEST(test_the_number_is_fixed),
        TEST(test_a_step_reaches_the_orders_of_every_database),
        SHARED(test_a_step_reaches_the_orders_of_every_database),
        SHARED(test_the_number_is_fixed),
    };
    return cmocka_run_group_tests(pure, NULL, NULL) + LEDGER_RUN_ON(on_mariadb_split, split) +
           LEDGER_MARIADB_RUN(both);
}
