/* How SQLite finds the rows of what is asked often. */
#include "conformance/ledger/fixture.h"

#include <sqlite3.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "backend/sqlite/store.h"

#define ELSEWHERE 21

static const char *const statement_texts[] = {
#define X(name, sql) sql,
    SQL_STATEMENTS(X) STORE_STATEMENTS(X)
#undef X
};

/* The plan of a statement, all its lines in one text. */
static void plan_of(struct fixture *f, unsigned which, char *ret_plan, size_t capacity)
{
    sqlite3 *db;
    sqlite3_stmt *row;
    assert_int_equal(sqlite3_open(f->path, &db), SQLITE_OK);
    char *sql = sqlite3_mprintf("EXPLAIN QUERY PLAN %s", statement_texts[which]);
    assert_int_equal(sqlite3_prepare_v2(db, sql, -1, &row, NULL), SQLITE_OK);
    size_t length = 0;
    ret_plan[0] = '\0';
    while (sqlite3_step(row) == SQLITE_ROW) {
        length += (size_t)snprintf(ret_plan + length, capacity - length, "%s\n",
                                   (const char *)sqlite3_column_text(row, 3));
        assert_true(length < capacity);
    }
    (void)sqlite3_finalize(row);
    sqlite3_free(sql);
    (void)sqlite3_close(db);
}

/* What buyers and the start-up ask may not scan or sort. */
static void test_plans(void **state)
{
    struct fixture *f = *state;
    char plan[2048];
    plan_of(f, SQL_ORDERS_OF_USER, plan, sizeof(plan));
    assert_non_null(strstr(plan, "SEARCH o USING INDEX orders_by_user (user_id=?"));
    assert_null(strstr(plan, "TEMP B-TREE"));
    assert_null(strstr(plan, "SCAN"));
    plan_of(f, SQL_ORDERS_OF_ITEM, plan, sizeof(plan));
    assert_non_null(strstr(plan, "SEARCH o USING PRIMARY KEY (item_id=?"));
    plan_of(f, SQL_ORDERS_BELOW, plan, sizeof(plan));
    assert_non_null(strstr(plan, "SEARCH o USING PRIMARY KEY (item_id<?"));
    static const unsigned keyed[] = {SQL_ORDER,   SQL_ORDER_MOVE,     SQL_LOCKED,      SQL_HELD,
                                     SQL_RELEASE, SQL_PAYMENT,        SQL_STOCK_MOVE,  SQL_EVENTS,
                                     SQL_ITEM,    SQL_ORDERS_OF_ITEM, SQL_ORDERS_BELOW};
    for (size_t i = 0; i < sizeof(keyed) / sizeof(keyed[0]); i++) {
        plan_of(f, keyed[i], plan, sizeof(plan));
        assert_null(strstr(plan, "TEMP B-TREE"));
        assert_null(strstr(plan, "SCAN"));
    }
}

/* All that a report of sale 1 asks of the ledger, in this order. */
static void ask_report(struct fixture *f)
{
    struct report_row rows[2];
    struct series_row series[60];
    struct ledger_query queries[] = {
        {.kind = QUERY_REPORT, .sale = 1, .limit = 2, .report = rows},
        {.kind = QUERY_SUMMARY, .sale = 1},
        {.kind = QUERY_SERIES, .sale = 1, .from_ms = T0, .step_ms = 100, .limit = 60},
        {.kind = QUERY_SERIES,
         .sale = 1,
         .from_ms = T0,
         .step_ms = 60000,
         .and_later = true,
         .limit = 60}};
    for (size_t i = 0; i < sizeof(queries) / sizeof(queries[0]); i++) {
        queries[i].series = series;
        (void)ledger_read(f->ledger, &queries[i]);
        assert_int_equal(queries[i].error, 0);
    }
}

/* Orders of a hundred buyers for one item, in 20 s. */
static void many_orders_of(struct fixture *f, uint64_t item, uint32_t count)
{
    struct ledger_op *ops = calloc(count, sizeof(*ops));
    struct ledger_op **list = calloc(count, sizeof(*list));
    assert_true(ops != NULL && list != NULL);
    for (uint32_t i = 0; i < count; i++) {
        ops[i] = book_fresh(item, 1 + i % 100, 1, 1000 + i);
        ops[i].command.now_ms = T0 + i * 20000LL / count;
        list[i] = &ops[i];
    }
    write_batch(f, T0 + 20000, list, count);
    free(ops);
    free(list);
}

/* Two items, a few orders. */
static void small_sale(struct fixture *f)
{
    sale_open(f, 1, 11, 2, 100000, 0, false);
    sale_open(f, 2, ELSEWHERE, 1, 1000000, 0, false);
    for (uint32_t i = 0; i < 20; i++) {
        struct ledger_op op = book_fresh(11 + i % 2, 1 + i / 3, 1, i);
        op.command.now_ms = T0 + 100 * i;
        write_op(f, T0 + 100 * i + 5, &op);
    }
}

static int count_step(void *context)
{
    ++*(uint64_t *)context;
    return 0;
}

/* Steps of SQLite's machine that a report takes. */
static uint64_t steps_of_report(struct fixture *f)
{
    uint64_t steps = 0;
    sqlite3 *db = store_of(f->ledger)->db;
    ask_report(f); /* prepares the statements */
    sqlite3_progress_handler(db, 1, count_step, &steps);
    ask_report(f);
    sqlite3_progress_handler(db, 0, NULL, NULL);
    return steps;
}

static void test_a_report_reads_its_sale_only(void **state)
{
    struct fixture *f = *state;
    small_sale(f);
    uint64_t before = steps_of_report(f);
    many_orders_of(f, ELSEWHERE, 20000);
    uint64_t after = steps_of_report(f);
    assert_in_range(after, before / 2, before + before / 10);
    assert_in_range(after, 100, 20000);
}

/* Steps of time, lengths and buyers are as many as before, however many orders there are: a full count
 * takes about a hundred steps for each. */
static void test_a_report_reads_no_orders(void **state)
{
    struct fixture *f = *state;
    small_sale(f);
    many_orders_of(f, 11, 20000);
    assert_in_range(steps_of_report(f), 100, 10 * 20000);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(test_plans, fixture_setup, fixture_teardown),
        cmocka_unit_test_setup_teardown(test_a_report_reads_its_sale_only, fixture_setup,
                                        fixture_teardown),
        cmocka_unit_test_setup_teardown(test_a_report_reads_no_orders, fixture_setup,
                                        fixture_teardown),
    };
    return LEDGER_RUN_ON(on_sqlite, tests);
}
