/* How SQLite finds the rows of what is asked often. */
#include "conformance/ledger/fixture.h"

#include <sqlite3.h>
#include <stdio.h>
#include <string.h>

#include "backend/sqlite/statements.h"

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

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(test_plans, fixture_setup, fixture_teardown),
    };
    return LEDGER_RUN_ON(on_sqlite, tests);
}
