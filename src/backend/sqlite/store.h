/*
 * What the files of the SQLite ledger share: the instance, and short words for running its
 * statements.
 *
 * A call that may fail returns 0 or a code of base/err.h, and leaves the words in store->error. A
 * constraint that refused a statement is neither: STORE_REFUSED (positive). The statement changed
 * nothing then, and the transaction is still open.
 */
#ifndef SLUICE_BACKEND_SQLITE_STORE_H
#define SLUICE_BACKEND_SQLITE_STORE_H

#include <sqlite3.h>
#include <stddef.h>

#include "backend/sqlite/ledger_sqlite.h"
#include "backend/sqlite/statements.h"
#include "port/ledger_rules.h"

enum { STORE_REFUSED = 1 };

/* A foreign writer (an operator's shell) may hold the file for that long before a batch fails. */
#define STORE_BUSY_TIMEOUT_MS 2000

/* An item as the open transaction sees it: the row, and stock moves not yet written to it. */
struct store_item {
    uint64_t stamp; /* of the batch that read it; any other: an empty slot */
    uint64_t id;
    uint64_t total;
    int64_t available; /* with the moves */
    int64_t move_available;
    int64_t move_locked;
    int64_t move_sold;
    struct order_terms terms;
    uint32_t limit_per_user;
    bool bar_unpaid;
    enum sale_state sale_state;
};

/* Items of the present batch, by id: open addressing, a power of two, at most half full. */
struct store_items {
    struct store_item *slots;
    size_t capacity;
    size_t used;
    uint64_t stamp; /* raised to forget them all */
};

struct store {
    struct ledger base; /* first: a struct ledger * is a struct store * */
    sqlite3 *db;
    bool read_only;
    sqlite3_stmt *statements[STATEMENT_COUNT];
    uint64_t last_event;         /* committed */
    struct ledger_event *events; /* of the last batch */
    size_t events_count;
    size_t events_capacity;
    struct store_items items;
    int wal_pages;     /* after the last commit */
    int wal_forced_at; /* its pages when the writer last waited to cut it */
    char error[256];
};

static inline struct store *store_of(struct ledger *ledger)
{
    return (struct store *)ledger;
}

/* A value to bind. */
struct value {
    enum { VALUE_NULL, VALUE_NUMBER, VALUE_TEXT, VALUE_BLOB } type;
    int length;
    int64_t number;
    const void *bytes; /* until the statement has run */
};
static inline struct value v_int(int64_t number)
{
    return (struct value){VALUE_NUMBER, 0, number, NULL};
}
static inline struct value v_nonzero(int64_t number) /* 0 is NULL */
{
    return (struct value){number == 0 ? VALUE_NULL : VALUE_NUMBER, 0, number, NULL};
}
static inline struct value v_bytes(const char *text, size_t length)
{
    return (struct value){VALUE_TEXT, (int)length, 0, text};
}
static inline struct value v_text(const char *text) /* NULL is NULL */
{
    return text == NULL ? (struct value){VALUE_NULL, 0, 0, NULL} : v_bytes(text, strlen(text));
}
static inline struct value v_nonempty(const char *text) /* "" is NULL */
{
    return text[0] == '\0' ? (struct value){VALUE_NULL, 0, 0, NULL} : v_text(text);
}
static inline struct value v_blob(const void *bytes, size_t length)
{
    return (struct value){VALUE_BLOB, (int)length, 0, bytes};
}

/* An order id as the tables hold it. */
struct id_text {
    char text[ORDER_ID_TEXT];
};
static inline struct id_text id_text_of(struct order_id id)
{
    struct id_text t;
    order_id_text(id, t.text);
    return t;
}
static inline struct value v_id(const struct id_text *id)
{
    return v_bytes(id->text, ORDER_ID_TEXT);
}

#define STORE_VALUES(...)                                                                          \
    (const struct value[]){__VA_ARGS__},                                                           \
        sizeof((struct value[]){__VA_ARGS__}) / sizeof(struct value)
/* Runs a statement to its end: 0, STORE_REFUSED or an error. */
#define store_run(s, which, ...) store_run_values((s), (which), STORE_VALUES(__VA_ARGS__))
/* Runs it to its first row: 0 and the row in *ret (store_done when read), ERR_NOTFOUND, an error.
 */
#define store_get(s, which, ret, ...)                                                              \
    store_get_values((s), (which), (ret), STORE_VALUES(__VA_ARGS__))

int store_run_values(struct store *s, enum statement which, const struct value *values,
                     size_t count);
int store_get_values(struct store *s, enum statement which, sqlite3_stmt **ret_row,
                     const struct value *values, size_t count);
/* The next row: 0, ERR_NOTFOUND when there are no more, an error. Only after 0 is store_done due.
 */
int store_next(struct store *s, sqlite3_stmt *row);
static inline void store_done(sqlite3_stmt *row)
{
    (void)sqlite3_reset(row);
}
/* A statement without values: BEGIN and its kin. */
int store_do(struct store *s, enum statement which);
/* Ends a transaction that may have ended by itself. */
void store_rollback(struct store *s);

/* A text column, cut to fit; NULL reads as "". */
void column_text(sqlite3_stmt *row, int column, char *ret_text, size_t capacity);
/* The column, NULL as REFUSAL_NONE; ERR_CORRUPT: not a name the program knows. */
int column_refusal(sqlite3_stmt *row, int column, enum refusal *ret_refusal);
struct span column_span(sqlite3_stmt *row, int column);

/* ledger_read.c: rows, for the write side too. ERR_NOTFOUND where there is none. */
int order_row_read(sqlite3_stmt *row, struct order_row *ret_order);
int order_row_load(struct store *s, struct order_id id, struct order_row *ret_order);
int sale_row_load(struct store *s, uint64_t id, struct sale_row **ret_sale);
/* How far a reader of events has come; 0: it has not begun. */
int store_read_to(struct store *s, const char *name, uint64_t *ret_number);
/* ledger_report.c */
int store_query_summary(struct store *s, struct ledger_query *q);
int store_query_series(struct store *s, struct ledger_query *q);
void store_read(struct ledger *ledger, struct ledger_query *query);

/*
 * ledger_write.c: the transaction. The op functions (ledger_orders.c, ledger_sales.c) fill the op's
 * answer; they return 0 also when they refuse, and a refusal wrote nothing.
 */
struct write {
    struct store *store;
    struct ledger_batch *batch;
    bool careful;       /* one by one: each op checks first and stands in its own savepoint */
    enum refusal guard; /* what a constraint's refusal means at this point of the op */
};
void store_write(struct ledger *ledger, struct ledger_batch *batch);
/* Numbers, keeps and stores an event; at_ms and number are filled in here. */
int write_event(struct write *w, struct ledger_event event);
/* ERR_NOTFOUND: no such item. The pointer is good until the next write_item. */
int write_item(struct write *w, uint64_t id, struct store_item **ret_item);
void write_stock_move(struct store_item *item, int64_t available, int64_t locked, int64_t sold);

/* ledger_orders.c. reason: REFUSAL_NONE to lock, else a FAILED order with that reason. */
int op_book(struct write *w, struct ledger_op *op);
int op_book_failed(struct write *w, struct ledger_op *op, enum refusal reason);
int op_pay(struct write *w, struct ledger_op *op);
int op_cancel(struct write *w, struct ledger_op *op);
int op_expire(struct write *w, struct ledger_op *op);
int op_restock(struct write *w, struct ledger_op *op);

/* ledger_sales.c */
int op_sale_create(struct write *w, struct ledger_op *op);
int op_sale_change(struct write *w, struct ledger_op *op);
int op_sale_delete(struct write *w, struct ledger_op *op);
int op_sale_move(struct write *w, struct ledger_op *op);
int op_sale_forget(struct write *w, struct ledger_op *op);

/* Opens with a way of one's own instead of schema_steps: for tests of migrations. */
struct schema_step;
int store_open(const char *path, enum ledger_sqlite_mode mode, const struct schema_step *steps,
               size_t steps_count, struct ledger **ret_ledger);

#endif
