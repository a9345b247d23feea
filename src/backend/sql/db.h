/*
 * What the ledgers on SQL databases share: values to bind, statements and rows behind one small
 * interface, and the queries and ops that are written on top of it once.
 *
 * A backend implements struct db_ops for its library. Statements have numbers: those of
 * statements.h come first, the backend's own follow. Each is prepared once for a connection, at its
 * first use. Happy path of a query: db_get(), read the columns, db_next() until ERR_NOTFOUND.
 *
 * The orders of a ledger may be split over several databases, which are numbered from 0 ("place").
 * A ledger on one database has place 0 only; all other tables are in it.
 *
 * What can go wrong: a call that may fail returns 0, a code of base/err.h, or a positive code of
 * the backend (a constraint refused the statement, a deadlock), which the functions here pass on. A
 * row that this program never wrote is ERR_CORRUPT.
 *
 * Threads: an instance belongs to one thread at a time.
 */
#ifndef SLUICE_BACKEND_SQL_DB_H
#define SLUICE_BACKEND_SQL_DB_H

#include <stddef.h>

#include "backend/sql/statements.h"
#include "port/ledger_rules.h"

#define DB_PLACES_MAX 16

/* ---- values to bind ---- */

struct value {
    /* KEY: bytes that a caller chose, compared as bytes. */
    enum { VALUE_NULL, VALUE_NUMBER, VALUE_TEXT, VALUE_BLOB, VALUE_KEY } type;
    unsigned long length;
    int64_t number;
    const void *bytes; /* until the statement has run */
};
static inline struct value v_null(void)
{
    return (struct value){VALUE_NULL, 0, 0, NULL};
}
static inline struct value v_int(int64_t number)
{
    return (struct value){VALUE_NUMBER, 0, number, NULL};
}
static inline struct value v_nonzero(int64_t number) /* 0 is NULL */
{
    return number == 0 ? v_null() : v_int(number);
}
static inline struct value v_bytes(const char *text, size_t length)
{
    return (struct value){VALUE_TEXT, length, 0, text};
}
static inline struct value v_text(const char *text) /* NULL is NULL */
{
    return text == NULL ? v_null() : v_bytes(text, strlen(text));
}
static inline struct value v_nonempty(const char *text) /* "" is NULL */
{
    return text[0] == '\0' ? v_null() : v_text(text);
}
static inline struct value v_blob(const void *bytes, size_t length)
{
    return (struct value){VALUE_BLOB, length, 0, bytes};
}
static inline struct value v_key(const char *key)
{
    return (struct value){VALUE_KEY, strlen(key), 0, key};
}
static inline struct value v_nonempty_key(const char *key) /* "" is NULL */
{
    return key[0] == '\0' ? v_null() : v_key(key);
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

/* ---- statements and rows ---- */

struct db;

/* A prepared statement; as a result, its present row. The first member of the backend's own. */
struct db_row {
    struct db *db;
};

struct db_ops {
    int (*get)(struct db *db, uint32_t place, unsigned which, struct db_row **ret_row,
               const struct value *values, size_t count);
    int (*run)(struct db *db, unsigned which, const struct value *values, size_t count,
               size_t rows);
    int (*next)(struct db_row *row);
    void (*done)(struct db_row *row);
    int64_t (*number)(const struct db_row *row, unsigned column);
    struct span (*span)(const struct db_row *row, unsigned column);
    uint32_t (*place)(const struct db *db, struct order_id id);
};

/* An instance. The first member of the backend's own. */
struct db {
    struct ledger ledger; /* first: a struct ledger * is a struct db * */
    const struct db_ops *ops;
    uint32_t places;             /* databases that orders are split over */
    uint64_t last_event;         /* committed; in a shared ledger, when this batch began */
    struct ledger_event *events; /* of the last batch */
    size_t events_count;
    size_t events_capacity;
};

#define DB_VALUES(...)                                                                             \
    (const struct value[]){__VA_ARGS__},                                                           \
        sizeof((struct value[]){__VA_ARGS__}) / sizeof(struct value)
/* Runs a statement to its first row: 0 and the row in *ret (db_done when read), ERR_NOTFOUND, or an
 * error. db_get_in: on the orders of one place. */
#define db_get(db, which, ret, ...) db_get_in((db), 0, (which), (ret), __VA_ARGS__)
#define db_get_in(db, place, which, ret, ...)                                                      \
    db_get_values((db), (place), (which), (ret), DB_VALUES(__VA_ARGS__))
/* Runs a statement that gives no rows. */
#define db_run(db, which, ...) db_run_values((db), (which), DB_VALUES(__VA_ARGS__))

static inline int db_get_values(struct db *db, uint32_t place, unsigned which,
                                struct db_row **ret_row, const struct value *values, size_t count)
{
    return db->ops->get(db, place, which, ret_row, values, count);
}
/* A statement without values. */
static inline int db_get_plain(struct db *db, unsigned which, struct db_row **ret_row)
{
    return db->ops->get(db, 0, which, ret_row, NULL, 0);
}
static inline int db_run_values(struct db *db, unsigned which, const struct value *values,
                                size_t count)
{
    return db->ops->run(db, which, values, count, 1);
}
/* The same statement for `rows` rows of `count` values each. */
static inline int db_run_rows(struct db *db, unsigned which, const struct value *values,
                              size_t count, size_t rows)
{
    return db->ops->run(db, which, values, count, rows);
}
/* The next row: 0, ERR_NOTFOUND when there are no more, an error. Only after 0 is db_done due. */
static inline int db_next(struct db_row *row)
{
    return row->db->ops->next(row);
}
static inline void db_done(struct db_row *row)
{
    row->db->ops->done(row);
}
static inline int64_t db_int(const struct db_row *row, unsigned column) /* NULL is 0 */
{
    return row->db->ops->number(row, column);
}
static inline uint64_t db_u64(const struct db_row *row, unsigned column)
{
    return (uint64_t)db_int(row, column);
}
static inline uint32_t db_u32(const struct db_row *row, unsigned column)
{
    return (uint32_t)db_int(row, column);
}
/* NULL: at is NULL. Good until the next row. */
static inline struct span db_span(const struct db_row *row, unsigned column)
{
    return row->db->ops->span(row, column);
}
/* Cut to fit; NULL reads as "". */
void db_text(const struct db_row *row, unsigned column, char *ret_text, size_t capacity);
/* NULL is REFUSAL_NONE; ERR_CORRUPT: not a name the program knows. */
int db_refusal(const struct db_row *row, unsigned column, enum refusal *ret_refusal);

/* ---- orders of all places (merge.c) ---- */

/*
 * What a statement on orders gives in all places, as one list in its order. Each place gives at
 * most as many as the statement's LIMIT.
 *
 *   MERGE_NEWEST  newest first, then by item and id downwards
 *   MERGE_DOWN    by item and id downwards
 *   MERGE_UP      by item and id
 */
enum db_order { MERGE_NEWEST, MERGE_DOWN, MERGE_UP };
/* Adds the orders to the query's answer, as far as there is room. Whether there is more of them. */
#define db_orders(db, which, order, q, ret_more, ...)                                              \
    db_orders_values((db), (which), (order), (q), (ret_more), DB_VALUES(__VA_ARGS__))
int db_orders_values(struct db *db, unsigned which, enum db_order order, struct ledger_query *q,
                     bool *ret_more, const struct value *values, size_t count);

/* ---- rows and queries (read.c) ---- */

/* ERR_NOTFOUND: no such row. */
int db_order_read(const struct db_row *row, struct order_row *ret_order);
int db_order_load(struct db *db, struct order_id id, struct order_row *ret_order);
int db_sale_load(struct db *db, uint64_t id, struct sale_row **ret_sale);
/* How far a reader of events has come; 0: it has not begun. */
int db_read_to(struct db *db, const char *name, uint64_t *ret_number);
/* Events from `row` on into the query's answer; err: of the statement that gave the row. */
int db_events_take(struct db_row *row, int err, struct ledger_query *q);
/* The queries that all ledgers answer alike. The caller has begun a transaction. */
int db_query(struct db *db, struct ledger_query *q);

/* report.c, for db_query(). */
int db_query_report(struct db *db, struct ledger_query *q);
int db_query_summary(struct db *db, struct ledger_query *q);
int db_query_series(struct db *db, struct ledger_query *q);

/* ---- sums (sums.c) ---- */

/* What the ops of a batch did to orders, added to the sums that reports are read from. Call it in the
 * batch's transaction when all its ops are done. */
int db_sums_write(struct db *db, struct ledger_op *const *ops, size_t count);

/* ---- ops (ops.c, sales.c) ---- */

/* An item as the open transaction sees it: the row, and stock moves not yet written to it. */
struct db_item {
    uint64_t id;
    uint64_t total;
    int64_t available; /* with the moves */
    int64_t move_available;
    int64_t move_locked;
    int64_t move_sold;
    struct order_terms terms;
    uint32_t limit_per_user;
    uint32_t homes; /* 0: of one gate, or not warmed */
    bool bar_unpaid;
    enum sale_state sale_state;
};
/* From the table. ERR_NOTFOUND: no such item. */
int db_item_load(struct db *db, uint64_t id, struct db_item *ret_item);
void db_stock_move(struct db_item *item, int64_t available, int64_t locked, int64_t sold);

/* The transaction of a batch. The first member of the backend's own. */
struct db_write {
    struct db *db;
    const struct db_write_ops *ops;
    int64_t now_ms; /* of all that the batch writes */
};
struct db_write_ops {
    int (*event)(struct db_write *w, struct ledger_event event);
    /* ERR_NOTFOUND: no such item. The pointer is good until the next call. */
    int (*item)(struct db_write *w, uint64_t id, struct db_item **ret_item);
    /* Of a gate with several segments; NULL: there is one gate. */
    int (*fix_homes)(struct db_write *w, struct sale_row *sale);   /* when it is warmed */
    int (*allot)(struct db_write *w, const struct sale_row *sale); /* its items to its homes */
    int (*allot_more)(struct db_write *w, const struct db_item *item, uint64_t units);
};
/* Numbers and keeps an event of this batch. */
int db_event_add(struct db *db, struct ledger_event event);
/* Nothing of an answer is left. */
void db_op_clear(struct ledger_op *op);
/* RESTOCK, SALE_*, CURSOR, BLOCK and UNBLOCK, on the tables. Fills the op's answer. Returns 0 also when it refuses;
 * a refusal wrote nothing. */
int db_op(struct db_write *w, struct ledger_op *op);

/* blocks.c, for db_query() and db_op(). */
int db_query_blocks(struct db *db, struct ledger_query *q);
int db_query_block(struct db *db, struct ledger_query *q);
int db_op_block(struct db_write *w, struct ledger_op *op);
int db_op_unblock(struct db_write *w, struct ledger_op *op);

/* sales.c, for db_op(). */
int db_op_sale_create(struct db_write *w, struct ledger_op *op);
int db_op_sale_change(struct db_write *w, struct ledger_op *op);
int db_op_sale_delete(struct db_write *w, struct ledger_op *op);
int db_op_sale_move(struct db_write *w, struct ledger_op *op);
int db_op_sale_forget(struct db_write *w, struct ledger_op *op);

#endif
