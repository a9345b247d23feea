/*
 * What the files of the SQLite ledger share: the instance, and its side of backend/sql/db.h.
 *
 * A call that may fail returns 0 or a code of base/err.h, and leaves the words in store->error. A
 * constraint that refused a statement is neither: STORE_REFUSED (positive). The statement changed
 * nothing then, and the transaction is still open.
 */
#ifndef SLUICE_BACKEND_SQLITE_STORE_H
#define SLUICE_BACKEND_SQLITE_STORE_H

#include <sqlite3.h>
#include <stddef.h>

#include "backend/sql/db.h"
#include "backend/sqlite/ledger_sqlite.h"
#include "backend/sqlite/statements.h"

enum { STORE_REFUSED = 1 };

/* A foreign writer (an operator's shell) may hold the file for that long before a batch fails. */
#define STORE_BUSY_TIMEOUT_MS 2000

struct store_item {
    uint64_t stamp; /* of the batch that read it; any other: an empty slot */
    struct db_item item;
};

/* Items of the present batch, by id: open addressing, a power of two, at most half full. */
struct store_items {
    struct store_item *slots;
    size_t capacity;
    size_t used;
    uint64_t stamp; /* raised to forget them all */
};

/* A prepared statement. */
struct store_row {
    struct db_row base;   /* first: a struct db_row * is a struct store_row * */
    sqlite3_stmt *handle; /* NULL: not prepared yet */
};

struct store {
    struct db base; /* first: a struct ledger * is a struct store * */
    sqlite3 *db;
    bool read_only;
    struct store_row statements[STATEMENT_COUNT];
    struct store_items items;
    int wal_pages;     /* after the last commit */
    int wal_forced_at; /* its pages when the writer last waited to cut it */
    char error[256];
    char unchecked[256]; /* why the pages have no checksums, if they have none */
};

static inline struct store *store_of(struct ledger *ledger)
{
    return (struct store *)ledger;
}

/* A statement without values: BEGIN and its kin. */
int store_do(struct store *s, unsigned which);
/* Ends a transaction that may have ended by itself. */
void store_rollback(struct store *s);

/* ledger_read.c */
void store_read(struct ledger *ledger, struct ledger_query *query);

/* ledger_check.c */
void store_check(struct ledger *ledger, struct ledger_check *check);
struct page_checksums_scan;
/* Adds what a scan found. */
void store_check_pages(struct ledger_check *check, const struct page_checksums_scan *scan);
/* Runs quick_check or integrity_check and adds what it says. 0, ERR_CORRUPT, an error. */
int store_pragma_check(struct store *s, const char *sql, struct ledger_check *check);

/* 64 MiB, about 150,000 orders: quick_check reads them in half a second. Beyond, only the command
 * runs it (PRAGMA integrity_check). */
#define STORE_QUICK_CHECK_PAGES 16384

/* Keeps the words of what just failed and gives it our code. */
int store_failed(struct store *s, int code, const char *what);

/*
 * ledger_write.c: the transaction. The op functions (ledger_orders.c) fill the op's answer; they
 * return 0 also when they refuse, and a refusal wrote nothing.
 */
struct write {
    struct db_write base; /* first: a struct db_write * is a struct write * */
    struct store *store;
    struct ledger_batch *batch;
    bool careful;       /* one by one: each op checks first and stands in its own savepoint */
    enum refusal guard; /* what a constraint's refusal means at this point of the op */
};
void store_write(struct ledger *ledger, struct ledger_batch *batch);
/* Numbers, keeps and stores an event; at_ms and number are filled in here. */
int write_event(struct write *w, struct ledger_event event);
/* ERR_NOTFOUND: no such item. The pointer is good until the next write_item. */
int write_item(struct write *w, uint64_t id, struct db_item **ret_item);

/* ledger_orders.c. reason: REFUSAL_NONE to lock, else a FAILED order with that reason. */
int op_book(struct write *w, struct ledger_op *op);
int op_book_failed(struct write *w, struct ledger_op *op, enum refusal reason);
int op_pay(struct write *w, struct ledger_op *op);
int op_cancel(struct write *w, struct ledger_op *op);
int op_expire(struct write *w, struct ledger_op *op);

/* Opens with a way of one's own instead of schema_steps: for tests of migrations. */
struct schema_step;
int store_open(const char *path, enum ledger_sqlite_mode mode, const struct schema_step *steps,
               size_t steps_count, struct ledger **ret_ledger);

#endif
