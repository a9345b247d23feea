/* The ledger on SQLite, under test: a file in a folder of its own. */
#include "fixture.h"

#include <sqlite3.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

#include "backend/sqlite/ledger_sqlite.h"

static const char *missing(void)
{
    return NULL;
}

static void make(struct fixture *f)
{
    (void)snprintf(f->folder, sizeof(f->folder), "/tmp/sluice-ledger-XXXXXX");
    assert_non_null(mkdtemp(f->folder));
    (void)snprintf(f->path, sizeof(f->path), "%s/ledger.db", f->folder);
}

static void discard(struct fixture *f)
{
    static const char *const suffixes[] = {"", "-wal", "-shm", "-journal"};
    for (size_t i = 0; i < sizeof(suffixes) / sizeof(suffixes[0]); i++) {
        char path[128];
        (void)snprintf(path, sizeof(path), "%s%s", f->path, suffixes[i]);
        (void)unlink(path);
    }
    assert_int_equal(rmdir(f->folder), 0); /* nothing else was left there */
}

static int open_ledger(struct fixture *f, bool writer, struct ledger **ret_ledger)
{
    return ledger_sqlite_open(f->path, writer ? READ_WRITE : READ_ONLY, ret_ledger);
}

static sqlite3 *connect_shell(struct fixture *f)
{
    sqlite3 *db;
    assert_int_equal(sqlite3_open_v2(f->path, &db, SQLITE_OPEN_READWRITE, NULL), SQLITE_OK);
    (void)sqlite3_busy_timeout(db, 10000);
    (void)sqlite3_exec(db, "PRAGMA foreign_keys = ON", NULL, NULL, NULL);
    return db;
}

static int64_t number(struct fixture *f, const char *sql)
{
    sqlite3 *db = connect_shell(f);
    sqlite3_stmt *row;
    if (sqlite3_prepare_v2(db, sql, -1, &row, NULL) != SQLITE_OK) {
        fail_msg("%s: %s", sql, sqlite3_errmsg(db));
    }
    int code = sqlite3_step(row);
    if (code != SQLITE_ROW) {
        fail_msg("no row (%d): %s", code, sql);
    }
    int64_t value = sqlite3_column_int64(row, 0);
    (void)sqlite3_finalize(row);
    assert_int_equal(sqlite3_close(db), SQLITE_OK);
    return value;
}

static enum sql_outcome run(struct fixture *f, const char *sql)
{
    sqlite3 *db = connect_shell(f);
    int code = sqlite3_exec(db, sql, NULL, NULL, NULL);
    assert_int_equal(sqlite3_close(db), SQLITE_OK);
    return code == SQLITE_OK ? SQL_DONE : code == SQLITE_CONSTRAINT ? SQL_REFUSED : SQL_FAILED;
}

static void *hold(struct fixture *f, const char *sql)
{
    sqlite3 *db = connect_shell(f);
    assert_int_equal(sqlite3_exec(db, "BEGIN IMMEDIATE", NULL, NULL, NULL), SQLITE_OK);
    assert_int_equal(sqlite3_exec(db, sql, NULL, NULL, NULL), SQLITE_OK);
    return db;
}

static void let_go(void *held)
{
    assert_int_equal(sqlite3_exec(held, "COMMIT", NULL, NULL, NULL), SQLITE_OK);
    assert_int_equal(sqlite3_close(held), SQLITE_OK);
}

static void check_keys(struct fixture *f)
{
    assert_int_equal(number(f, "SELECT count(*) FROM pragma_foreign_key_check"), 0);
}

const struct ledger_backend on_sqlite = {
    .name = "SQLite",
    .missing = missing,
    .make = make,
    .discard = discard,
    .open = open_ledger,
    .close = ledger_sqlite_close,
    .error = ledger_sqlite_error,
    .number = number,
    .run = run,
    .hold = hold,
    .let_go = let_go,
    .check_keys = check_keys,
};
