/*
 * The ledger on MariaDB, under test: a database of its own on the server that SLUICE_TEST_MARIADB
 * names (mariadb://user[:password]@host:port/; test/run.py starts one). Its user may make and drop
 * databases that begin with sluice_test_.
 *
 * The same ledger with its orders split over three databases is another one under test. There a
 * SELECT of a test sees the orders of all of them, and what a test does to orders is done in each.
 */
#include "on_mariadb.h"

#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "backend/mariadb/address.h"
#include "backend/mariadb/lease_mariadb.h"
#include "backend/mariadb/maria.h"

#define CONSTRAINT_FAILED 4025
#define DUP_ENTRY 1062
#define ROW_IS_REFERENCED 1451
#define NO_REFERENCED_ROW 1452
#define SIGNALLED 1644

static const char *server(void)
{
    return getenv("SLUICE_TEST_MARIADB"); /* NOLINT(concurrency-mt-unsafe): nobody sets it */
}

static const char *missing(void)
{
    return server() == NULL ? "SLUICE_TEST_MARIADB is not set (mariadb://user@host:port/)" : NULL;
}

MYSQL *mariadb_shell(const char *database)
{
    char url[512];
    char error[512];
    struct maria_address a;
    (void)snprintf(url, sizeof(url), "%sx", server());
    if (maria_address_parse(url, &a, error, sizeof(error)) != 0) {
        fail_msg("%s", error);
    }
    MYSQL *db = mysql_init(NULL);
    assert_non_null(db);
    if (mysql_real_connect(db, a.host, a.user, a.password, database, a.port, NULL, 0) == NULL) {
        fail_msg("%s", mysql_error(db));
    }
    return db;
}

static void must(MYSQL *db, const char *sql)
{
    if (mysql_query(db, sql) != 0) {
        fail_msg("%s: %s", sql, mysql_error(db));
    }
}

void mariadb_url(const struct fixture *f, char *ret_url, size_t capacity)
{
    int length = snprintf(ret_url, capacity, "%s%s", server(), f->database);
    if (f->databases > 1) {
        (void)snprintf(ret_url + length, capacity - (size_t)length, "?databases=%u", f->databases);
    }
}

struct ledger_mariadb_options mariadb_options(const char *url)
{
    return (struct ledger_mariadb_options){.url = url, .owner = "test"};
}

static void make(struct fixture *f)
{
    static atomic_int made;
    char sql[128];
    (void)snprintf(f->database, sizeof(f->database), "sluice_test_%ld_%d", (long)getpid(), ++made);
    MYSQL *db = mariadb_shell(NULL);
    (void)snprintf(sql, sizeof(sql), "CREATE DATABASE %s", f->database);
    must(db, sql);
    assert_int_equal(mysql_select_db(db, f->database), 0);
    must(db, "SET SESSION sql_mode = 'STRICT_ALL_TABLES', lock_wait_timeout = 20");
    f->shell = db;
}

static void make_split(struct fixture *f)
{
    f->databases = 3;
    make(f);
}

/* The first one last: the others' orders refer to its items. */
static void discard(struct fixture *f)
{
    char sql[128];
    for (uint32_t i = 1; i < f->databases; i++) {
        (void)snprintf(sql, sizeof(sql), "DROP DATABASE IF EXISTS %s_%u", f->database, i);
        must(f->shell, sql);
    }
    (void)snprintf(sql, sizeof(sql), "DROP DATABASE %s", f->database);
    must(f->shell, sql);
    mysql_close(f->shell);
}

static int open_ledger(struct fixture *f, bool writer, struct ledger **ret_ledger)
{
    char url[512];
    mariadb_url(f, url, sizeof(url));
    struct ledger_mariadb_options options = mariadb_options(url);
    options.segments = f->segments;
    options.regions = f->regions;
    return ledger_mariadb_open(&options, writer ? MARIADB_WRITER : MARIADB_READER, ret_ledger);
}

/* The SQL with another table for `orders`, for the caller to free; whether it named them. */
static char *with_orders(const char *sql, const char *table, bool *ret_named)
{
    static const char word[] = "orders";
    size_t bytes = 2 * strlen(sql) + 64 * strlen(table);
    char *copy = calloc(1, bytes);
    assert_non_null(copy);
    struct out out = out_over(copy, bytes - 1);
    *ret_named = false;
    for (const char *at = sql; *at != '\0'; at++) {
        bool begins = at == sql || strchr(" ,(", at[-1]) != NULL;
        if (begins && strncmp(at, word, strlen(word)) == 0 &&
            strchr(" ,();", at[strlen(word)]) != NULL) { /* the end, too */
            out_text(&out, table);
            at += strlen(word) - 1;
            *ret_named = true;
        } else {
            out_char(&out, *at);
        }
    }
    assert_false(out.overflow);
    return copy;
}

static int64_t number(struct fixture *f, const char *sql)
{
    bool named;
    char *of_all = with_orders(sql, f->databases > 1 ? "all_orders" : "orders", &named);
    must(f->shell, of_all);
    free(of_all);
    MYSQL_RES *result = mysql_store_result(f->shell);
    MYSQL_ROW row = result == NULL ? NULL : mysql_fetch_row(result);
    if (row == NULL || row[0] == NULL) {
        fail_msg("no row: %s", sql);
    }
    int64_t value = strtoll(row[0], NULL, 10);
    mysql_free_result(result);
    return value;
}

/* Whether what was refused last belongs in another database. */
static bool misplaced;

static enum sql_outcome run_one(MYSQL *db, const char *sql)
{
    if (mysql_query(db, sql) == 0) {
        mysql_free_result(mysql_store_result(db)); /* what some statements say of themselves */
        return SQL_DONE;
    }
    switch (mysql_errno(db)) {
    case CONSTRAINT_FAILED:
    case DUP_ENTRY:
    case ROW_IS_REFERENCED:
    case NO_REFERENCED_ROW:
    case SIGNALLED:
        return SQL_REFUSED;
    default:
        print_error("%s: %s\n", sql, mysql_error(db));
        return SQL_FAILED;
    }
}

/* One after the other; what is left open at the end is rolled back, as at a shell's end. */
static enum sql_outcome run_all(struct fixture *f, const char *sql)
{
    char *copy = strdup(sql);
    assert_non_null(copy);
    enum sql_outcome outcome = SQL_DONE;
    char *rest = copy;
    char *one;
    while (outcome == SQL_DONE && (one = strsep(&rest, ";")) != NULL) {
        if (one[strspn(one, " ")] != '\0') {
            outcome = run_one(f->shell, one);
        }
    }
    misplaced = outcome == SQL_REFUSED && strstr(mysql_error(f->shell), "orders_place") != NULL;
    must(f->shell, "ROLLBACK");
    free(copy);
    return outcome;
}

/* Where orders are split: in each database. One that refuses an order because it belongs elsewhere
 * does not count. */
static enum sql_outcome run_split(struct fixture *f, const char *sql)
{
    enum sql_outcome all = SQL_REFUSED;
    for (uint32_t i = 0; i < f->databases; i++) {
        char table[128];
        bool named;
        (void)snprintf(table, sizeof(table), i == 0 ? "%s.orders" : "%s_%u.orders", f->database, i);
        char *there = with_orders(sql, table, &named);
        enum sql_outcome outcome = run_all(f, there);
        free(there);
        if (!named || outcome == SQL_FAILED || (outcome == SQL_REFUSED && !misplaced)) {
            return outcome;
        }
        all = outcome == SQL_DONE ? SQL_DONE : all;
    }
    return all;
}

static enum sql_outcome run(struct fixture *f, const char *sql)
{
    return f->databases > 1 ? run_split(f, sql) : run_all(f, sql);
}

static void *hold(struct fixture *f, const char *sql)
{
    MYSQL *db = mariadb_shell(f->database);
    must(db, "BEGIN");
    must(db, sql);
    return db;
}

static void let_go(void *held)
{
    must(held, "COMMIT");
    mysql_close(held);
}

static void check_keys(struct fixture *f)
{
    assert_int_equal(
        number(f, "SELECT (SELECT count(*) FROM payments p LEFT JOIN orders o ON o.item_id ="
                  " p.item_id AND o.id = p.order_id WHERE o.id IS NULL) + (SELECT count(*) FROM"
                  " orders o LEFT JOIN items i ON i.id = o.item_id WHERE i.id IS NULL) + (SELECT"
                  " count(*) FROM stock k LEFT JOIN items i ON i.id = k.item_id WHERE i.id IS NULL)"
                  " + (SELECT count(*) FROM items i LEFT JOIN sales s ON s.id = i.sale_id WHERE"
                  " s.id IS NULL)"),
        0);
    /* An id is in one database only. */
    assert_int_equal(number(f, "SELECT count(*) FROM (SELECT 1 FROM orders GROUP BY item_id, id"
                               " HAVING count(*) > 1) t"),
                     0);
}

/* Of a session, until its connection ends. */
static void set_session_time(struct maria *s, int64_t now_ms)
{
    char sql[64];
    (void)snprintf(sql, sizeof(sql), "SET SESSION timestamp = %lld.%03lld",
                   (long long)(now_ms / 1000), (long long)(now_ms % 1000));
    assert_int_equal(maria_do(s, sql), 0);
}

static void set_time(struct ledger *ledger, int64_t now_ms)
{
    set_session_time(maria_of(ledger), now_ms);
}

static int lease_open(struct fixture *f, const char *holder, struct lease_port **ret_port)
{
    char url[512];
    mariadb_url(f, url, sizeof(url));
    struct ledger_mariadb_options options = mariadb_options(url);
    return lease_mariadb_open(&options, holder, ret_port);
}

static void lease_set_time(struct lease_port *port, int64_t now_ms)
{
    set_session_time(maria_of_lease(port), now_ms);
}

#define BACKEND                                                                                    \
    .missing = missing, .discard = discard, .open = open_ledger, .close = ledger_mariadb_close,    \
    .error = ledger_mariadb_error, .number = number, .run = run, .hold = hold, .let_go = let_go,   \
    .check_keys = check_keys, .set_time = set_time, .audit_segments = assert_audit_segments,       \
    .lease_open = lease_open, .lease_close = lease_mariadb_close, .lease_set_time = lease_set_time

const struct ledger_backend on_mariadb = {.name = "MariaDB", .make = make, BACKEND};
const struct ledger_backend on_mariadb_split = {
    .name = "MariaDB, split", .make = make_split, BACKEND};
