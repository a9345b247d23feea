/* How MariaDB finds the rows of what is asked often: by key, without sorting. */
#define _GNU_SOURCE
#include "conformance/ledger/on_mariadb.h"
#include "conformance/ledger/report_load.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "backend/mariadb/maria.h"

#define ITEM 7

/* Every line of the plan of a statement whose values are all `value`: table, type and extra. */
static void plan_of(struct fixture *f, unsigned which, const char *value, char *ret_plan,
                    size_t capacity)
{
    char sql[4096] = "EXPLAIN ";
    size_t length = strlen(sql);
    /* Where orders are split, in the last database. */
    const struct maria *s = maria_of(f->ledger);
    char *text = maria_sql(s, MARIA_IN(s->address.databases - 1, which));
    assert_non_null(text);
    for (const char *c = text; *c != '\0'; c++) {
        length += (size_t)snprintf(sql + length, sizeof(sql) - length, "%.*s",
                                   *c == '?' ? (int)strlen(value) : 1, *c == '?' ? value : c);
        assert_true(length < sizeof(sql));
    }
    free(text);
    MYSQL *shell = f->shell;
    if (mysql_query(shell, sql) != 0) {
        fail_msg("%s: %s", sql, mysql_error(shell));
    }
    MYSQL_RES *result = mysql_store_result(shell);
    assert_non_null(result);
    MYSQL_ROW row;
    size_t used = 0;
    ret_plan[0] = '\0';
    while ((row = mysql_fetch_row(result)) != NULL) {
        used += (size_t)snprintf(ret_plan + used, capacity - used, "%s %s %s %s\n", row[2], row[3],
                                 row[5], row[9]);
        assert_true(used < capacity);
    }
    mysql_free_result(result);
}

static void many_orders(struct fixture *f)
{
    enum { COUNT = 3000 };
    struct ledger_op *ops = calloc(COUNT, sizeof(*ops));
    struct ledger_op **list = calloc(COUNT, sizeof(*list));
    sale_open(f, 1, ITEM, 20, 100000, 0, false);
    for (uint32_t i = 0; i < COUNT; i++) {
        ops[i] = book_fresh(ITEM + i % 20, 1 + i % 500, 1, i);
        ops[i].segment = i % SEGMENTS;
        ops[i].epoch = 1;
        list[i] = &ops[i];
    }
    write_batch(f, T0, list, COUNT);
    assert_int_equal(sql_run(f, "ANALYZE TABLE orders, holdings, items, stock, events, allotments"),
                     SQL_DONE);
    free(ops);
    free(list);
}

struct wanted {
    unsigned which;
    const char *value;
    const char *table;
    const char *key;
};

/* The line of a plan that is about a table; its length, 0: there is none. */
static const char *line_of(const char *plan, const char *table, size_t *ret_length)
{
    size_t length = strlen(table);
    for (const char *line = plan; *line != '\0'; line += strcspn(line, "\n") + 1) {
        if (strncmp(line, table, length) == 0 && line[length] == ' ') {
            *ret_length = strcspn(line, "\n");
            return line;
        }
    }
    *ret_length = 0;
    return NULL;
}

static void assert_plan(struct fixture *f, const struct wanted *wanted, bool may_sort)
{
    char plan[2048];
    size_t length;
    plan_of(f, wanted->which, wanted->value, plan, sizeof(plan));
    const char *at = line_of(plan, wanted->table, &length);
    const char *type = at != NULL ? at + strlen(wanted->table) + 1 : "";
    bool good =
        at != NULL && memmem(at, length, wanted->key, strlen(wanted->key)) != NULL &&
        strncmp(type, "ALL ", 4) != 0 && strncmp(type, "index ", 6) != 0 &&
        memmem(at, length, "filesort", 8) == NULL &&
        (may_sort || (strstr(plan, "filesort") == NULL && strstr(plan, "temporary") == NULL));
    if (!good) {
        fail_msg("statement %d\n%s", (int)wanted->which, plan);
    }
}

static void test_plans(void **state)
{
    static const struct wanted rows[] = {
        {SQL_ORDERS_OF_USER, "9", "o", "orders_by_user"},
        {SQL_ORDERS_OF_ITEM, "9", "o", "PRIMARY"},
        {SQL_ORDERS_BELOW, "9", "o", "PRIMARY"},
        {MARIA_ORDERS_FIND, "'[[9,\"x\"]]'", "o", "PRIMARY"},
        {MARIA_HOLDINGS_FIND, "'[[9,1]]'", "h", "PRIMARY"},
        {MARIA_PAYMENTS_FIND, "'[\"aa\"]'", "p", "PRIMARY"},
        {SQL_LOCKED, "9", "o", "PRIMARY"},
        {SQL_EVENTS, "9", "events", "PRIMARY"},
        {MARIA_ORDERS_MOVE, "9", "orders", "PRIMARY"},
        {MARIA_RELEASE, "9", "holdings", "PRIMARY"},
        {MARIA_STOCK_MOVE, "9", "stock", "PRIMARY"},
        {MARIA_SEGMENT_ORDERS, "2", "o", "orders_by_segment"},
        {MARIA_SEGMENT_BUYERS, "2", "holdings", "holdings_by_segment"},
        {MARIA_ALLOTMENTS, "2", "a", "PRIMARY"},
        {MARIA_TRANSFERS_OPEN, "2", "t", "transfers_open"},
        {MARIA_SEGMENT_ITEM, "2", "a", "PRIMARY"},
        {MARIA_ITEM_ALLOTMENTS, "9", "allotments", "item_id"},
        {MARIA_ALLOTMENTS_MOVE, "2", "allotments", "PRIMARY"},
        {MARIA_KNOWN, "'[[9,\"x\"]]'", "o", "PRIMARY"},
    };
    many_orders(*state);
    for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
        assert_plan(*state, &rows[i], false);
    }
    /* Two ranges, of which no more than a page each is sorted into one. */
    static const struct wanted events = {MARIA_SEGMENT_EVENTS, "2", "events", "events_by_segment"};
    assert_plan(*state, &events, true);
}

/* Rows that the server read for a report, by its own count. */
static int64_t rows_of_report(struct fixture *f)
{
    static const char read[] = "SELECT sum(variable_value) FROM information_schema.session_status"
                               " WHERE variable_name LIKE 'Handler_read%'";
    int64_t before = 0;
    int64_t between = 0;
    int64_t after = 0;
    struct maria *s = maria_of(f->ledger);
    report_load_read(f); /* prepares the statements */
    assert_int_equal(maria_number(s, read, &before), 0);
    assert_int_equal(maria_number(s, read, &between), 0); /* what asking for it costs */
    report_load_read(f);
    assert_int_equal(maria_number(s, read, &after), 0);
    return after - between - (between - before);
}

static void test_a_report_reads_its_sale_only(void **state)
{
    struct fixture *f = *state;
    report_load_sales(f);
    int64_t before = rows_of_report(f);
    report_load_orders(f, OTHER_ITEM, 5000);
    int64_t after = rows_of_report(f);
    print_message("%lld rows, then %lld\n", (long long)before, (long long)after);
    assert_in_range(before, 20, 1000);
    assert_in_range(after, before / 2, before + before / 10);
}

/* A full count reads each order several times. */
static void test_a_report_reads_no_orders(void **state)
{
    struct fixture *f = *state;
    report_load_sales(f);
    report_load_orders(f, REPORTED_ITEM, 20000);
    int64_t rows = rows_of_report(f);
    print_message("%lld rows for 20000 orders\n", (long long)rows);
    assert_in_range(rows, 20, 20000);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(test_plans, fixture_setup_shared, fixture_teardown),
        cmocka_unit_test_setup_teardown(test_a_report_reads_its_sale_only, fixture_setup,
                                        fixture_teardown),
        cmocka_unit_test_setup_teardown(test_a_report_reads_no_orders, fixture_setup,
                                        fixture_teardown),
    };
    return LEDGER_MARIADB_RUN(tests);
}
