/*
 * Opening: new files, versions, foreign files. And what happens to the file: a killed writer, a
 * full disk, a foreign lock, a WAL that readers hold open.
 */
#include "conformance/ledger/booking_load.h"

#include <fcntl.h>
#include <signal.h>
#include <sqlite3.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <unistd.h>

#include "backend/sqlite/schema.h"
#include "backend/sqlite/store.h"

#define ITEM LOAD_ITEM

static void test_a_new_file(void **state)
{
    struct fixture *f = *state;
    struct stat status;
    assert_int_equal(stat(f->path, &status), 0);
    assert_int_equal(status.st_mode & 0777, 0600);
    assert_int_equal(sql_number(f, "PRAGMA user_version"), SCHEMA_STEPS_COUNT);
    assert_int_equal(sql_number(f, "SELECT journal_mode = 'wal' FROM pragma_journal_mode"), 1);
    struct store *s = store_of(f->ledger);
    sqlite3_stmt *row;
    assert_int_equal(sqlite3_prepare_v2(s->db, "PRAGMA synchronous", -1, &row, NULL), SQLITE_OK);
    assert_int_equal(sqlite3_step(row), SQLITE_ROW);
    assert_int_equal(sqlite3_column_int(row, 0), 2); /* FULL: every commit is synced */
    (void)sqlite3_finalize(row);
}

static void test_reading_needs_a_ledger(void **state)
{
    struct fixture *f = *state;
    struct ledger *reader = NULL;
    char path[128];
    (void)snprintf(path, sizeof(path), "%s/none.db", f->folder);
    assert_int_equal(ledger_sqlite_open(path, READ_ONLY, &reader), ERR_NOTFOUND);
    assert_int_not_equal(access(path, F_OK), 0);
    (void)snprintf(path, sizeof(path), "%s/no/such/folder.db", f->folder);
    assert_int_equal(ledger_sqlite_open(path, READ_WRITE, &reader), ERR_IO);
    assert_non_null(strstr(ledger_sqlite_error(NULL), "No such file"));
    assert_null(reader);
}

static void test_a_newer_version_is_refused(void **state)
{
    struct fixture *f = *state;
    assert_int_equal(sql_run(f, "PRAGMA user_version = 99"), SQL_DONE);
    struct ledger *other = NULL;
    assert_int_equal(ledger_sqlite_open(f->path, READ_WRITE, &other), ERR_VERSION);
    assert_non_null(strstr(ledger_sqlite_error(NULL), "version 99"));
    assert_int_equal(ledger_sqlite_open(f->path, READ_ONLY, &other), ERR_VERSION);
    assert_null(other);
    assert_int_equal(sql_number(f, "PRAGMA user_version"), 99); /* untouched */
    /* A reader needs the version to be the present one: it cannot bring it there. */
    assert_int_equal(sql_run(f, "PRAGMA user_version = 0"), SQL_DONE);
    assert_int_equal(ledger_sqlite_open(f->path, READ_ONLY, &other), ERR_VERSION);
    assert_int_equal(sql_run(f, "PRAGMA user_version = %d", (int)SCHEMA_STEPS_COUNT), SQL_DONE);
}

static void test_foreign_files_are_refused(void **state)
{
    struct fixture *f = *state;
    char path[128];
    struct ledger *ledger = NULL;
    (void)snprintf(path, sizeof(path), "%s/foreign.db", f->folder);
    sqlite3 *db;
    assert_int_equal(sqlite3_open(path, &db), SQLITE_OK);
    assert_int_equal(sqlite3_exec(db, "CREATE TABLE t(x)", NULL, NULL, NULL), SQLITE_OK);
    assert_int_equal(sqlite3_close(db), SQLITE_OK);
    assert_int_equal(ledger_sqlite_open(path, READ_WRITE, &ledger), ERR_INVALID);
    assert_non_null(strstr(ledger_sqlite_error(NULL), "not a ledger"));
    FILE *file = fopen(path, "w");
    assert_non_null(file);
    for (int i = 0; i < 1000; i++) {
        (void)fputs("this is no database\n", file);
    }
    (void)fclose(file);
    assert_int_equal(ledger_sqlite_open(path, READ_WRITE, &ledger), ERR_CORRUPT);
    assert_null(ledger);
    (void)unlink(path);
}

static void test_migrations_run_in_order(void **state)
{
    struct fixture *f = *state;
    sale_open(f, 1, ITEM, 1, 5, 1, false);
    ledger_sqlite_close(f->ledger);
    /* Each step needs the one before it. */
    struct schema_step steps[SCHEMA_STEPS_COUNT + 3];
    memcpy(steps, schema_steps, sizeof(schema_steps));
    struct schema_step *more = &steps[SCHEMA_STEPS_COUNT];
    more[0].sql = "CREATE TABLE trail(n INTEGER); INSERT INTO trail VALUES(2)";
    more[1].sql = "INSERT INTO trail SELECT max(n) * 10 FROM trail";
    more[2].sql = "INSERT INTO trail SELECT max(n) + 1 FROM trail; INSERT INTO nowhere VALUES(1)";
    /* The last step fails: it leaves nothing, those before it stay. */
    assert_int_equal(store_open(f->path, READ_WRITE, steps, SCHEMA_STEPS_COUNT + 3, &f->ledger),
                     ERR_IO);
    assert_non_null(strstr(ledger_sqlite_error(NULL), "nowhere"));
    assert_int_equal(sql_number(f, "PRAGMA user_version"), SCHEMA_STEPS_COUNT + 2);
    assert_int_equal(sql_number(f, "SELECT max(n) FROM trail"), 20);
    more[2].sql = "INSERT INTO trail SELECT max(n) + 1 FROM trail";
    for (int i = 0; i < 2; i++) { /* the second time there is nothing to do */
        assert_int_equal(store_open(f->path, READ_WRITE, steps, SCHEMA_STEPS_COUNT + 3, &f->ledger),
                         0);
        assert_int_equal(sql_number(f, "PRAGMA user_version"), SCHEMA_STEPS_COUNT + 3);
        assert_int_equal(sql_number(f, "SELECT max(n) FROM trail"), 21);
        ledger_sqlite_close(f->ledger);
    }
    assert_int_equal(store_open(f->path, READ_WRITE, steps, SCHEMA_STEPS_COUNT + 3, &f->ledger), 0);
    struct ledger_op op = book_once(ITEM, 1, 0);
    write_op(f, T0, &op);
    assert_int_equal(op.order.state, ORDER_LOCKED);
}

static void test_killed_while_committing(void **state)
{
    booking_load_killed(*state, 12, 3, 5);
}

static void set_file_limit(rlim_t limit)
{
    struct rlimit now;
    assert_int_equal(getrlimit(RLIMIT_FSIZE, &now), 0);
    now.rlim_cur = limit < now.rlim_max ? limit : now.rlim_max;
    assert_int_equal(setrlimit(RLIMIT_FSIZE, &now), 0);
}

static int64_t wal_bytes(struct fixture *f)
{
    char path[128];
    struct stat status;
    (void)snprintf(path, sizeof(path), "%s-wal", f->path);
    return stat(path, &status) == 0 ? (int64_t)status.st_size : 0;
}

/* The write fails at some byte of the WAL; SQLite calls only ENOSPC full. */
static void test_a_failed_write_heals(void **state)
{
    struct fixture *f = *state;
    sale_open(f, 1, ITEM, 1, 100000000, 0, false);
    assert_int_equal(booking_load_try(f, 0, 100), 0);
    (void)signal(SIGXFSZ, SIG_IGN);
    for (int64_t room = 0; room < 12288; room += 1024) {
        set_file_limit((rlim_t)(wal_bytes(f) + room));
        int err = booking_load_try(f, 100, 500);
        set_file_limit(RLIM_INFINITY);
        assert_int_equal(err, ERR_IO);
        assert_non_null(strstr(ledger_sqlite_error(f->ledger), "disk I/O error"));
        assert_int_equal(sql_number(f, "SELECT count(*) FROM orders"), 100);
        assert_int_equal(sql_number(f, "SELECT booked_lsn FROM meta"), 100);
    }
    assert_int_equal(booking_load_try(f, 100, 500), 0);
    assert_int_equal(sql_number(f, "SELECT count(*) FROM orders"), 600);
    assert_audit(f);
}

static void test_a_full_disk_heals(void **state)
{
    struct fixture *f = *state;
    sale_open(f, 1, ITEM, 1, 100000000, 0, false);
    sqlite3 *db = store_of(f->ledger)->db;
    assert_int_equal(sqlite3_exec(db, "PRAGMA max_page_count = 40", NULL, NULL, NULL), SQLITE_OK);
    assert_int_equal(booking_load_try(f, 0, 2000), ERR_NOSPACE);
    assert_non_null(strstr(ledger_sqlite_error(f->ledger), "full"));
    assert_int_equal(booking_load_try(f, 0, 10), 0); /* a small one still fits */
    assert_int_equal(sqlite3_exec(db, "PRAGMA max_page_count = 1000000", NULL, NULL, NULL),
                     SQLITE_OK);
    assert_int_equal(booking_load_try(f, 10, 2000), 0);
    assert_int_equal(sql_number(f, "SELECT count(*) FROM orders"), 2010);
}

/* An operator's shell that keeps a write transaction open. */
static void test_a_foreign_lock(void **state)
{
    struct fixture *f = *state;
    sale_open(f, 1, ITEM, 1, 100, 0, false);
    sqlite3 *db;
    assert_int_equal(sqlite3_open(f->path, &db), SQLITE_OK);
    assert_int_equal(
        sqlite3_exec(db, "BEGIN IMMEDIATE; UPDATE sales SET name = 'x'", NULL, NULL, NULL),
        SQLITE_OK);
    assert_int_equal(booking_load_try(f, 0, 1), ERR_BUSY);
    /* Reading goes on, and sees what is committed. */
    struct sale_row *sale;
    struct ledger_query q = {.kind = QUERY_SALES, .sale = 1, .limit = 1, .sales = &sale};
    (void)ledger_read(f->ledger, &q);
    assert_int_equal(q.error, 0);
    assert_string_equal(sale->name, "sale");
    sale_row_free(sale);
    assert_int_equal(sqlite3_exec(db, "ROLLBACK", NULL, NULL, NULL), SQLITE_OK);
    assert_int_equal(booking_load_try(f, 0, 1), 0);
    assert_int_equal(sqlite3_close(db), SQLITE_OK);
}

#define MIB (1024LL * 1024)

static void test_the_wal_is_bounded(void **state)
{
    struct fixture *f = *state;
    uint32_t n = 0;
    sale_open(f, 1, ITEM, 1, 100000000, 0, false);
    for (int i = 0; i < 60; i++, n += 500) {
        assert_int_equal(booking_load_try(f, n, 500), 0);
    }
    int64_t normal = wal_bytes(f);
    assert_true(normal > 0 && normal < 48 * MIB);
    /* A reader that stays: the WAL grows, the writer goes on. */
    sqlite3 *db;
    assert_int_equal(sqlite3_open(f->path, &db), SQLITE_OK);
    assert_int_equal(sqlite3_exec(db, "BEGIN; SELECT * FROM meta", NULL, NULL, NULL), SQLITE_OK);
    while (wal_bytes(f) < 160 * MIB) {
        assert_int_equal(booking_load_try(f, n, 2000), 0);
        n += 2000;
    }
    assert_int_equal(sqlite3_exec(db, "COMMIT", NULL, NULL, NULL), SQLITE_OK);
    assert_int_equal(sqlite3_close(db), SQLITE_OK);
    for (int i = 0; i < 3; i++, n += 500) {
        assert_int_equal(booking_load_try(f, n, 500), 0);
    }
    assert_true(wal_bytes(f) <= 64 * MIB);
    assert_int_equal(sql_number(f, "SELECT count(*) FROM orders"), n);
}

int main(void)
{
#define TEST(name) cmocka_unit_test_setup_teardown(name, fixture_setup, fixture_teardown)
    const struct CMUnitTest tests[] = {
        TEST(test_a_new_file),
        TEST(test_reading_needs_a_ledger),
        TEST(test_a_newer_version_is_refused),
        TEST(test_foreign_files_are_refused),
        TEST(test_migrations_run_in_order),
        TEST(test_killed_while_committing),
        TEST(test_a_failed_write_heals),
        TEST(test_a_full_disk_heals),
        TEST(test_a_foreign_lock),
        TEST(test_the_wal_is_bounded),
    };
    return LEDGER_RUN_ON(on_sqlite, tests);
}
