/*
 * Opening: new files, versions, foreign files. And what happens to the file: a killed writer, a
 * full disk, a foreign lock, a WAL that readers hold open.
 */
#include "conformance/ledger/fixture.h"

#include <fcntl.h>
#include <signal.h>
#include <sqlite3.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include "backend/sqlite/schema.h"
#include "backend/sqlite/store.h"

#define ITEM 7

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

/* Batches of ten bookings; each committed batch number goes down the pipe. Never returns. */
static void writer_until_killed(const char *path, int pipe_fd)
{
    struct ledger *ledger;
    struct ledger_query q = {.kind = QUERY_STATE};
    if (ledger_sqlite_open(path, READ_WRITE, &ledger) != 0) {
        _exit(1);
    }
    (void)ledger_read(ledger, &q);
    for (uint64_t n = q.booked_lsn + 1;; n++) {
        struct ledger_op ops[10];
        struct ledger_op *list[10];
        for (uint32_t i = 0; i < 10; i++) {
            ops[i] = book_fresh(ITEM, 1 + (n * 7919 + i) % 1000, 1, (uint32_t)(n * 10 + i));
            ops[i].lsn = n;
            list[i] = &ops[i];
        }
        struct ledger_batch batch = {
            .ops = list, .count = 10, .now_ms = T0 + (int64_t)n, .booked_lsn = n};
        (void)ledger_write(ledger, &batch);
        if (batch.error != 0 || write(pipe_fd, &n, sizeof(n)) != sizeof(n)) {
            _exit(1);
        }
    }
}

static void test_killed_while_committing(void **state)
{
    struct fixture *f = *state;
    sale_open(f, 1, ITEM, 1, 100000000, 0, false);
    uint64_t told = 0;
    for (int round = 0; round < 12; round++) {
        int ends[2];
        ledger_sqlite_close(f->ledger); /* no connection crosses a fork */
        assert_int_equal(pipe(ends), 0);
        pid_t child = fork();
        assert_true(child >= 0);
        if (child == 0) {
            (void)close(ends[0]);
            writer_until_killed(f->path, ends[1]);
        }
        (void)close(ends[1]);
        for (int i = 0; i < 3 + 5 * round; i++) {
            assert_int_equal(read(ends[0], &told, sizeof(told)), sizeof(told));
        }
        (void)usleep((useconds_t)(137 * round)); /* anywhere in a transaction */
        assert_int_equal(kill(child, SIGKILL), 0);
        while (read(ends[0], &told, sizeof(told)) == sizeof(told)) {
        }
        int status;
        assert_int_equal(waitpid(child, &status, 0), child);
        assert_true(WIFSIGNALED(status));
        (void)close(ends[0]);
        assert_int_equal(ledger_sqlite_open(f->path, READ_WRITE, &f->ledger), 0);
        struct ledger_query q = {.kind = QUERY_STATE};
        (void)ledger_read(f->ledger, &q);
        assert_true(q.booked_lsn >= told); /* what was committed is there; perhaps one more */
        assert_true(q.booked_lsn <= told + 1);
        assert_int_equal(sql_number(f, "SELECT count(*) FROM orders"), 10 * q.booked_lsn);
        assert_int_equal(q.last_event, 3 + 10 * q.booked_lsn);
        assert_audit(f);
    }
}

/* Tries a batch of `count` bookings from `first` on; the batch's error. */
static int try_booking(struct fixture *f, uint32_t first, uint32_t count)
{
    struct ledger_op *ops = calloc(count, sizeof(*ops));
    struct ledger_op **list = calloc(count, sizeof(*list));
    assert_non_null(ops);
    assert_non_null(list);
    for (uint32_t i = 0; i < count; i++) {
        ops[i] = book_fresh(ITEM, 1 + (first + i) * 7919ULL % 100003, 1, first + i);
        list[i] = &ops[i];
    }
    struct ledger_batch batch = {
        .ops = list, .count = count, .now_ms = T0, .booked_lsn = first + count};
    (void)ledger_write(f->ledger, &batch);
    if (batch.error == 0) {
        assert_int_equal(batch.events_count, count);
        assert_int_equal(ops[count - 1].order.state, ORDER_LOCKED);
    } else {
        assert_int_equal(batch.events_count, 0);
        assert_int_equal(ops[0].order.user, 0);
    }
    free(ops);
    free(list);
    return batch.error;
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
    assert_int_equal(try_booking(f, 0, 100), 0);
    (void)signal(SIGXFSZ, SIG_IGN);
    for (int64_t room = 0; room < 12288; room += 1024) {
        set_file_limit((rlim_t)(wal_bytes(f) + room));
        int err = try_booking(f, 100, 500);
        set_file_limit(RLIM_INFINITY);
        assert_int_equal(err, ERR_IO);
        assert_non_null(strstr(ledger_sqlite_error(f->ledger), "disk I/O error"));
        assert_int_equal(sql_number(f, "SELECT count(*) FROM orders"), 100);
        assert_int_equal(sql_number(f, "SELECT booked_lsn FROM meta"), 100);
    }
    assert_int_equal(try_booking(f, 100, 500), 0);
    assert_int_equal(sql_number(f, "SELECT count(*) FROM orders"), 600);
    assert_audit(f);
}

static void test_a_full_disk_heals(void **state)
{
    struct fixture *f = *state;
    sale_open(f, 1, ITEM, 1, 100000000, 0, false);
    sqlite3 *db = store_of(f->ledger)->db;
    assert_int_equal(sqlite3_exec(db, "PRAGMA max_page_count = 40", NULL, NULL, NULL), SQLITE_OK);
    assert_int_equal(try_booking(f, 0, 2000), ERR_NOSPACE);
    assert_non_null(strstr(ledger_sqlite_error(f->ledger), "full"));
    assert_int_equal(try_booking(f, 0, 10), 0); /* a small one still fits */
    assert_int_equal(sqlite3_exec(db, "PRAGMA max_page_count = 1000000", NULL, NULL, NULL),
                     SQLITE_OK);
    assert_int_equal(try_booking(f, 10, 2000), 0);
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
    assert_int_equal(try_booking(f, 0, 1), ERR_BUSY);
    /* Reading goes on, and sees what is committed. */
    struct sale_row *sale;
    struct ledger_query q = {.kind = QUERY_SALES, .sale = 1, .limit = 1, .sales = &sale};
    (void)ledger_read(f->ledger, &q);
    assert_int_equal(q.error, 0);
    assert_string_equal(sale->name, "sale");
    sale_row_free(sale);
    assert_int_equal(sqlite3_exec(db, "ROLLBACK", NULL, NULL, NULL), SQLITE_OK);
    assert_int_equal(try_booking(f, 0, 1), 0);
    assert_int_equal(sqlite3_close(db), SQLITE_OK);
}

#define MIB (1024LL * 1024)

static void test_the_wal_is_bounded(void **state)
{
    struct fixture *f = *state;
    uint32_t n = 0;
    sale_open(f, 1, ITEM, 1, 100000000, 0, false);
    for (int i = 0; i < 60; i++, n += 500) {
        assert_int_equal(try_booking(f, n, 500), 0);
    }
    int64_t normal = wal_bytes(f);
    assert_true(normal > 0 && normal < 48 * MIB);
    /* A reader that stays: the WAL grows, the writer goes on. */
    sqlite3 *db;
    assert_int_equal(sqlite3_open(f->path, &db), SQLITE_OK);
    assert_int_equal(sqlite3_exec(db, "BEGIN; SELECT * FROM meta", NULL, NULL, NULL), SQLITE_OK);
    while (wal_bytes(f) < 160 * MIB) {
        assert_int_equal(try_booking(f, n, 2000), 0);
        n += 2000;
    }
    assert_int_equal(sqlite3_exec(db, "COMMIT", NULL, NULL, NULL), SQLITE_OK);
    assert_int_equal(sqlite3_close(db), SQLITE_OK);
    for (int i = 0; i < 3; i++, n += 500) {
        assert_int_equal(try_booking(f, n, 500), 0);
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
