/*
 * Opening and closing the SQLite ledger, its schema, and how its statements are run.
 *
 * Open: make the file (0600), set the connection up, take the schema to the newest version one step
 * a transaction, sync the folder so that the file's name is as durable as its rows. Close: SQLite
 * folds the WAL into the file when the last connection goes.
 *
 * What can go wrong: the file is not a ledger, or of a newer program (refused, untouched); a step
 * of the schema fails (that step is rolled back, those before it stay); the disk is full.
 */
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

#include "backend/sqlite/page_checksums.h"
#include "backend/sqlite/schema.h"
#include "backend/sqlite/store.h"
#include "base/check.h"
#include "base/err.h"

static const char *const statement_texts[] = {
#define X(name, sql) sql,
    SQL_STATEMENTS(X) STORE_STATEMENTS(X)
#undef X
};

/* The text of a failed open, whose instance is gone. */
static _Thread_local char open_error[256];

static int store_error_code(int code)
{
    if (code == SQLITE_IOERR_DATA) {
        return ERR_CORRUPT;
    }
    switch (code & 0xff) {
    case SQLITE_FULL:
        return ERR_NOSPACE;
    case SQLITE_BUSY:
    case SQLITE_LOCKED:
        return ERR_BUSY;
    case SQLITE_NOMEM:
        return ERR_NOMEM;
    case SQLITE_CORRUPT:
    case SQLITE_NOTADB:
        return ERR_CORRUPT;
    case SQLITE_CONSTRAINT:
        return STORE_REFUSED;
    default:
        return ERR_IO;
    }
}

int store_failed(struct store *s, int code, const char *what)
{
    if (code == SQLITE_IOERR_DATA) {
        (void)snprintf(s->error, sizeof(s->error), "page %u of the ledger is damaged (checksum)",
                       (unsigned)page_checksums_bad_page(s->db));
        return ERR_CORRUPT;
    }
    (void)snprintf(s->error, sizeof(s->error), "%s: %s (%d)", what, sqlite3_errmsg(s->db), code);
    return store_error_code(code);
}

static struct store *store_of_row(const struct db_row *row)
{
    return (struct store *)row->db;
}

static sqlite3_stmt *handle_of(const struct db_row *row)
{
    return ((const struct store_row *)row)->handle;
}

static int store_statement(struct store *s, unsigned which, struct store_row **ret_row)
{
    struct store_row *row = &s->statements[which];
    if (row->handle == NULL) {
        row->base.db = &s->base;
        int code = sqlite3_prepare_v3(s->db, statement_texts[which], -1, SQLITE_PREPARE_PERSISTENT,
                                      &row->handle, NULL);
        if (code != SQLITE_OK) {
            return store_failed(s, code, statement_texts[which]);
        }
    }
    *ret_row = row;
    return 0;
}

static int store_bind(struct store *s, sqlite3_stmt *statement, const struct value *values,
                      size_t count)
{
    for (size_t i = 0; i < count; i++) {
        const struct value *v = &values[i];
        int code = SQLITE_OK;
        switch (v->type) {
        case VALUE_NULL:
            code = sqlite3_bind_null(statement, (int)i + 1);
            break;
        case VALUE_NUMBER:
            code = sqlite3_bind_int64(statement, (int)i + 1, v->number);
            break;
        case VALUE_TEXT:
        case VALUE_KEY:
            code =
                sqlite3_bind_text(statement, (int)i + 1, v->bytes, (int)v->length, SQLITE_STATIC);
            break;
        case VALUE_BLOB:
            code =
                sqlite3_bind_blob(statement, (int)i + 1, v->bytes, (int)v->length, SQLITE_STATIC);
            break;
        }
        if (code != SQLITE_OK) {
            return store_failed(s, code, sqlite3_sql(statement));
        }
    }
    return 0;
}

static int row_next(struct db_row *row)
{
    sqlite3_stmt *handle = handle_of(row);
    int code = sqlite3_step(handle);
    if (code == SQLITE_ROW) {
        return 0;
    }
    int err = code == SQLITE_DONE ? ERR_NOTFOUND
                                  : store_failed(store_of_row(row), code, sqlite3_sql(handle));
    (void)sqlite3_reset(handle); /* repeats the error of the step */
    return err;
}

static void row_done(struct db_row *row)
{
    (void)sqlite3_reset(handle_of(row));
}

static int64_t row_number(const struct db_row *row, unsigned column)
{
    return sqlite3_column_int64(handle_of(row), (int)column);
}

static struct span row_span(const struct db_row *row, unsigned column)
{
    const char *text = (const char *)sqlite3_column_text(handle_of(row), (int)column);
    return (struct span){
        text, text == NULL ? 0 : (size_t)sqlite3_column_bytes(handle_of(row), (int)column)};
}

static int store_get(struct db *db, uint32_t place, unsigned which, struct db_row **ret_row,
                     const struct value *values, size_t count)
{
    struct store *s = (struct store *)db;
    struct store_row *row = NULL;
    CHECK(place == 0);
    int err = store_statement(s, which, &row);
    if (err == 0) {
        err = store_bind(s, row->handle, values, count);
    }
    if (err == 0) {
        err = row_next(&row->base);
    }
    if (err == 0) {
        *ret_row = &row->base;
    }
    return err;
}

static int store_run(struct db *db, unsigned which, const struct value *values, size_t count,
                     size_t rows)
{
    int err = 0;
    for (size_t i = 0; i < rows && err == 0; i++) {
        struct db_row *row;
        err = store_get(db, 0, which, &row, values + i * count, count);
        CHECK(err != 0); /* these statements give no rows */
        err = err == ERR_NOTFOUND ? 0 : err;
    }
    return err;
}

static uint32_t store_place(const struct db *db, struct order_id id)
{
    (void)db;
    (void)id;
    return 0;
}

static const struct db_ops store_db_ops = {.get = store_get,
                                           .run = store_run,
                                           .next = row_next,
                                           .done = row_done,
                                           .number = row_number,
                                           .span = row_span,
                                           .place = store_place};

int store_do(struct store *s, unsigned which)
{
    return db_run_values(&s->base, which, NULL, 0);
}

void store_rollback(struct store *s)
{
    char words[sizeof(s->error)];
    memcpy(words, s->error, sizeof(words)); /* of the cause, not of what the rollback says */
    for (int i = 0; i < STATEMENT_COUNT; i++) {
        (void)sqlite3_reset(s->statements[i].handle);
    }
    if (sqlite3_get_autocommit(s->db) == 0) {
        (void)store_do(s, SQL_ROLLBACK);
    }
    memcpy(s->error, words, sizeof(words));
}

/* Made ready while there is memory: a transaction that could not be ended for want of it would
 * stay open, and every later one would be refused. */
static int store_prepare_rollback(struct store *s)
{
    struct store_row *row = NULL;
    return store_statement(s, SQL_ROLLBACK, &row);
}

/* Statements of the set-up, which run once. */
static int store_exec(struct store *s, const char *sql)
{
    int code = sqlite3_exec(s->db, sql, NULL, NULL, NULL);
    if (code == SQLITE_OK) {
        return 0;
    }
    char what[80];
    (void)snprintf(what, sizeof(what), "%.76s", sql);
    int err = store_failed(s, code, what);
    return err == STORE_REFUSED ? ERR_CORRUPT : err; /* nothing of the set-up may be refused */
}

static int store_pragma(struct store *s, const char *sql, int64_t *ret_value)
{
    sqlite3_stmt *statement = NULL;
    int code = sqlite3_prepare_v2(s->db, sql, -1, &statement, NULL);
    if (code == SQLITE_OK) {
        code = sqlite3_step(statement);
    }
    if (code == SQLITE_ROW) {
        *ret_value = sqlite3_column_int64(statement, 0);
    }
    int err = code == SQLITE_ROW ? 0 : store_failed(s, code, sql);
    (void)sqlite3_finalize(statement);
    return err;
}

/* The version, if the file is ours; 0 for one with nothing in it. */
static int store_version(struct store *s, int64_t *ret_version)
{
    int64_t application = 0;
    int64_t tables = 0;
    int64_t version = 0;
    int err = store_pragma(s, "SELECT count(*) FROM sqlite_master", &tables);
    if (err == 0) {
        err = store_pragma(s, "PRAGMA application_id", &application);
    }
    if (err == 0) {
        err = store_pragma(s, "PRAGMA user_version", &version);
    }
    if (err == 0 && tables > 0 && application != SCHEMA_APPLICATION_ID) {
        (void)snprintf(s->error, sizeof(s->error), "a database, but not a ledger");
        err = ERR_INVALID;
    }
    if (err == 0) {
        *ret_version = version;
    }
    return err;
}

static int store_step_schema(struct store *s, const struct schema_step *step, int64_t version)
{
    char mark[96];
    (void)snprintf(mark, sizeof(mark), "PRAGMA application_id = %d; PRAGMA user_version = %lld",
                   SCHEMA_APPLICATION_ID, (long long)version);
    int err = store_exec(s, "BEGIN IMMEDIATE");
    if (err == 0) {
        err = store_exec(s, step->sql);
    }
    if (err == 0) {
        err = store_exec(s, mark);
    }
    if (err == 0) {
        err = store_exec(s, "COMMIT");
    }
    if (err != 0) {
        store_rollback(s);
    }
    return err;
}

static int store_migrate(struct store *s, const struct schema_step *steps, size_t steps_count)
{
    int64_t newest = (int64_t)steps_count;
    int64_t version = 0;
    int err = store_version(s, &version);
    if (err != 0) {
        return err;
    }
    if (version > newest || (s->read_only && version < newest)) {
        (void)snprintf(s->error, sizeof(s->error),
                       "the ledger has schema version %lld, this program needs %lld",
                       (long long)version, (long long)newest);
        return ERR_VERSION;
    }
    for (; version < newest && err == 0; version++) {
        err = store_step_schema(s, &steps[version], version + 1);
    }
    return err;
}

/* A new name is durable only when its folder is synced. */
static int folder_sync(const char *path)
{
    const char *slash = strrchr(path, '/');
    char folder[4096] = ".";
    if (slash != NULL) {
        size_t length = slash == path ? 1 : (size_t)(slash - path);
        if (length >= sizeof(folder)) {
            return ERR_INVALID;
        }
        memcpy(folder, path, length);
        folder[length] = '\0';
    }
    int fd = open(folder, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    if (fd < 0) {
        return ERR_IO;
    }
    int err = fsync(fd) == 0 ? 0 : ERR_IO;
    (void)close(fd);
    return err;
}

/* Only a new file is opened here: closing a second descriptor of one in use would drop its locks.
 */
static int file_create(const char *path)
{
    int fd = open(path, O_RDWR | O_CREAT | O_EXCL | O_CLOEXEC, 0600);
    if (fd < 0) {
        return errno == EEXIST ? 0 : errno == ENOSPC || errno == EDQUOT ? ERR_NOSPACE : ERR_IO;
    }
    (void)close(fd);
    return 0;
}

static int on_commit(void *context, sqlite3 *db, const char *name, int pages)
{
    (void)db;
    (void)name;
    ((struct store *)context)->wal_pages = pages;
    return SQLITE_OK;
}

/*
 * secure_delete overwrites what is freed: nothing here is secret enough to pay for that at every
 * page split. The cache holds the pages that 20,000 orders in random places touch.
 */
static int store_set_up(struct store *s)
{
    (void)sqlite3_extended_result_codes(s->db, 1);
    (void)sqlite3_busy_timeout(s->db, STORE_BUSY_TIMEOUT_MS);
    if (s->read_only) {
        return store_exec(s, "PRAGMA query_only = ON; PRAGMA temp_store = MEMORY;"
                             "PRAGMA cache_size = -16384");
    }
    int64_t version;
    int err = store_version(s, &version); /* before anything is changed */
    if (err == 0) {
        err = store_exec(s, "PRAGMA auto_vacuum = NONE; PRAGMA journal_mode = WAL;"
                            "PRAGMA synchronous = FULL; PRAGMA foreign_keys = ON;"
                            "PRAGMA secure_delete = OFF; PRAGMA temp_store = MEMORY;"
                            "PRAGMA cache_size = -65536; PRAGMA journal_size_limit = 67108864");
    }
    int64_t wal = 0; /* the pragma does not fail where the file system cannot do it */
    if (err == 0) {
        err = store_pragma(s, "SELECT journal_mode = 'wal' FROM pragma_journal_mode", &wal);
    }
    if (err == 0 && wal == 0) {
        (void)snprintf(s->error, sizeof(s->error), "no WAL mode on this file system");
        err = ERR_IO;
    }
    (void)sqlite3_wal_hook(s->db, on_commit, s); /* instead of automatic checkpoints */
    return err;
}

static const struct ledger_ops store_ops = {
    .write = store_write,
    .read = store_read,
    .check = store_check,
    .error = ledger_sqlite_error,
};

/* Room for a checksum in each page: of a new file. No effect on one that has pages. */
static int store_reserve(struct store *s)
{
    int bytes = PAGE_CHECKSUMS_RESERVED;
    int code = sqlite3_file_control(s->db, "main", SQLITE_FCNTL_RESERVE_BYTES, &bytes);
    return code == SQLITE_OK ? 0 : store_failed(s, code, "reserve bytes");
}

/*
 * A ledger from before there were checksums is written anew, once, with room for them. The copy is
 * made in a file: in memory, where other temporary tables are, it would need what the ledger has.
 *
 * If it cannot be written (the disk has no room for it), the ledger is as it was. It is used so, and
 * the next start tries again.
 */
static void store_add_checksums(struct store *s)
{
    if (s->read_only || page_checksums_on(s->db)) {
        return;
    }
    int err = store_reserve(s);
    if (err == 0) {
        err = store_exec(s, "PRAGMA temp_store = FILE; VACUUM");
    }
    if (err != 0) {
        memcpy(s->unchecked, s->error, sizeof(s->unchecked));
    }
    /* Into the file, whose pages then have checksums. After a failure it gives the space back that
     * the WAL took. */
    (void)store_exec(s, "PRAGMA temp_store = MEMORY; PRAGMA wal_checkpoint(TRUNCATE)");
    if (err == 0 && !page_checksums_on(s->db)) {
        (void)snprintf(s->unchecked, sizeof(s->unchecked), "somebody else reads the ledger");
    }
}

static int store_open_file(struct store *s, const char *path, const struct schema_step *steps,
                           size_t steps_count)
{
    int flags = SQLITE_OPEN_NOMUTEX | (s->read_only ? SQLITE_OPEN_READONLY : SQLITE_OPEN_READWRITE);
    if (s->read_only && access(path, F_OK) != 0) {
        (void)snprintf(s->error, sizeof(s->error), "there is no ledger yet");
        return ERR_NOTFOUND;
    }
    int err = s->read_only ? 0 : file_create(path);
    if (err != 0) {
        (void)snprintf(s->error, sizeof(s->error), "cannot make the file: %m");
        return err;
    }
    int code = page_checksums_register();
    if (code == SQLITE_OK) {
        code = sqlite3_open_v2(path, &s->db, flags, PAGE_CHECKSUMS_VFS);
    }
    if (code != SQLITE_OK) {
        return s->db == NULL ? ERR_NOMEM : store_failed(s, code, "open");
    }
    err = s->read_only ? 0 : store_reserve(s);
    if (err == 0) {
        err = store_set_up(s);
    }
    if (err == 0) {
        err = store_migrate(s, steps, steps_count);
    }
    if (err == 0) {
        store_add_checksums(s);
    }
    if (err == 0 && !s->read_only && (err = folder_sync(path)) != 0) {
        (void)snprintf(s->error, sizeof(s->error), "cannot sync the folder");
    }
    return err;
}

static int store_read_last_event(struct store *s)
{
    struct db_row *row;
    int err = db_get_plain(&s->base, SQL_STATE, &row);
    if (err == 0) {
        s->base.last_event = db_u64(row, 1);
        db_done(row);
    }
    return err == ERR_NOTFOUND ? ERR_CORRUPT : err;
}

int store_open(const char *path, enum ledger_sqlite_mode mode, const struct schema_step *steps,
               size_t steps_count, struct ledger **ret_ledger)
{
    struct store *s = calloc(1, sizeof(*s));
    if (s == NULL) {
        (void)snprintf(open_error, sizeof(open_error), "%s", err_text(ERR_NOMEM));
        return ERR_NOMEM;
    }
    s->base = (struct db){.ledger = {.ops = &store_ops}, .ops = &store_db_ops, .places = 1};
    s->read_only = mode == READ_ONLY;
    s->items.stamp = 1;
    int err = store_open_file(s, path, steps, steps_count);
    if (err == 0) {
        err = store_prepare_rollback(s); /* after the schema's last change, which would undo it */
    }
    if (err == 0) {
        err = store_read_last_event(s);
    }
    if (err != 0) {
        memcpy(open_error, s->error, sizeof(open_error));
        ledger_sqlite_close(&s->base.ledger);
        return err;
    }
    *ret_ledger = &s->base.ledger;
    return 0;
}

int ledger_sqlite_check_start(struct ledger *ledger, uint64_t pages_max, struct ledger_check *check)
{
    struct store *s = store_of(ledger);
    CHECK(!s->read_only);
    /* What a crash left in the WAL goes into the file first. Pages that another program has put
     * there get their checksums. */
    int err = store_exec(s, "PRAGMA wal_checkpoint(TRUNCATE)");
    struct page_checksums_scan scan = {.mend = true, .pages_max = pages_max};
    if (err == 0) {
        int code = page_checksums_scan(s->db, &scan);
        err = code == SQLITE_OK ? 0 : store_failed(s, code, "read the file");
    }
    store_check_pages(check, &scan);
    int64_t pages = 0;
    int counted = store_pragma(s, "PRAGMA page_count", &pages);
    err = err != 0 ? err : counted;
    check->done = err == 0 && scan.done;
    check->error = err != 0 ? err : check->damaged > 0 ? ERR_CORRUPT : 0;
    if (check->error == 0 && (scan.done || !page_checksums_on(s->db)) &&
        pages <= STORE_QUICK_CHECK_PAGES) {
        check->error = store_pragma_check(s, "PRAGMA quick_check(16)", check);
    }
    if (check->error == ERR_CORRUPT) {
        ledger_note_damage(ledger, check->what[0] != '\0' ? check->what : s->error);
    }
    return check->error;
}

int ledger_sqlite_open(const char *path, enum ledger_sqlite_mode mode, struct ledger **ret_ledger)
{
    return store_open(path, mode, schema_steps, SCHEMA_STEPS_COUNT, ret_ledger);
}

void ledger_sqlite_close(struct ledger *ledger)
{
    if (ledger == NULL) {
        return;
    }
    struct store *s = store_of(ledger);
    for (int i = 0; i < STATEMENT_COUNT; i++) {
        (void)sqlite3_finalize(s->statements[i].handle);
    }
    int code = sqlite3_close(s->db);
    CHECK(code == SQLITE_OK); /* otherwise a statement of ours is still open */
    free(s->base.events);
    free(s->items.slots);
    free(s);
}

const char *ledger_sqlite_unchecked(const struct ledger *ledger)
{
    const struct store *s = (const struct store *)ledger;
    return page_checksums_on(s->db) ? NULL : s->unchecked;
}

const char *ledger_sqlite_error(const struct ledger *ledger)
{
    return ledger == NULL ? open_error : ((const struct store *)ledger)->error;
}
