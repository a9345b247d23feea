/* How SQLite finds the rows of what is asked often. */
#include "conformance/ledger/report_load.h"

#include <sqlite3.h>
#include <stdio.h>
#include <string.h>

#include "backend/sqlite/store.h"

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
    static const struct {
        const char *name;
        unsigned which;
        const char *search; /* part of the plan; NULL: any */
    } rows[] = {
        {"orders of a user", SQL_ORDERS_OF_USER, "SEARCH o USING INDEX orders_by_user (user_id=?"},
        {"orders of an item", SQL_ORDERS_OF_ITEM, "SEARCH o USING PRIMARY KEY (item_id=?"},
        {"orders of lower items", SQL_ORDERS_BELOW, "SEARCH o USING PRIMARY KEY (item_id<?"},
        {"an order", SQL_ORDER, NULL},
        {"an order's move", SQL_ORDER_MOVE, NULL},
        {"locked orders", SQL_LOCKED, NULL},
        {"a buyer's holding", SQL_HELD, NULL},
        {"its release", SQL_RELEASE, NULL},
        {"a payment", SQL_PAYMENT, NULL},
        {"a stock move", SQL_STOCK_MOVE, NULL},
        {"events", SQL_EVENTS, NULL},
        {"an item", SQL_ITEM, NULL},
    };
    for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
        char plan[2048];
        plan_of(*state, rows[i].which, plan, sizeof(plan));
        bool finds = rows[i].search == NULL || strstr(plan, rows[i].search) != NULL;
        if (!finds || strstr(plan, "TEMP B-TREE") != NULL || strstr(plan, "SCAN") != NULL) {
            fail_msg("%s:\n%s", rows[i].name, plan);
        }
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
    report_load_read(f); /* prepares the statements */
    sqlite3_progress_handler(db, 1, count_step, &steps);
    report_load_read(f);
    sqlite3_progress_handler(db, 0, NULL, NULL);
    return steps;
}

static void test_a_report_reads_its_sale_only(void **state)
{
    struct fixture *f = *state;
    report_load_sales(f);
    uint64_t before = steps_of_report(f);
    report_load_orders(f, OTHER_ITEM, 20000);
    uint64_t after = steps_of_report(f);
    assert_in_range(after, before / 2, before + before / 10);
    assert_in_range(after, 100, 20000);
}

/* Steps of time, lengths and buyers are as many as before, however many orders there are: a full count
 * takes about a hundred steps for each. */
static void test_a_report_reads_no_orders(void **state)
{
    struct fixture *f = *state;
    report_load_sales(f);
    report_load_orders(f, REPORTED_ITEM, 20000);
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
