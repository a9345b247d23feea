/*
 * What the files of the MariaDB ledger share: the instance, and its side of backend/sql/db.h.
 *
 * A call that may fail returns 0 or a code of base/err.h, and leaves the words in maria->error. Two
 * outcomes are neither: MARIA_REFUSED (a constraint refused the statement) and MARIA_AGAIN (the
 * server broke a deadlock by rolling us back; in a shared ledger also: another writer holds the row
 * for long); both are positive. After an error the transaction
 * has to be rolled back; where the connection is lost, maria->lost says so, and the server does it.
 */
#ifndef SLUICE_BACKEND_MARIADB_MARIA_H
#define SLUICE_BACKEND_MARIADB_MARIA_H

#include <mysql.h>
#include <stddef.h>

#include "backend/mariadb/address.h"
#include "backend/mariadb/ledger_mariadb.h"
#include "backend/mariadb/plan.h"
#include "backend/mariadb/split.h"
#include "backend/mariadb/statements.h"
#include "backend/sql/db.h"
#include "port/segments.h"

enum { MARIA_REFUSED = 1, MARIA_AGAIN = 2 };

/* A foreign transaction may hold a row for that long before a batch fails, or, in a shared ledger, is
 * tried again. */
#define MARIA_LOCK_WAIT_S 2
#define MARIA_ERROR_MAX 512

/* One column of a row that was read. */
struct maria_cell {
    int64_t number;
    unsigned long length;
    my_bool null;
    char *text; /* NULL: a number */
};

/* A prepared statement; as a result, its present row. */
struct maria_row {
    struct db_row base; /* first: a struct db_row * is a struct maria_row * */
    MYSQL_STMT *handle; /* NULL: not prepared on this connection */
    char *sql;
    unsigned columns;
    struct maria_cell *cells;
    MYSQL_BIND *binds;
};

struct maria {
    struct db base; /* first: a struct ledger * is a struct maria * */
    struct maria_address address;
    uint32_t timeout_s;
    uint32_t segments;                  /* as opened with; 0: the only writer */
    char regions[REGIONS_TEXT_MAX + 1]; /* that sales are warmed with */
    bool read_only;
    bool settled;                 /* the ledger is of the kind that was asked for: said once */
    bool shared;                  /* it is known to be a shared one */
    bool lost;                    /* the connection is of no more use */
    bool denied;                  /* what failed last, the user has no right to in that database */
    bool owned;                   /* the writer's fence number has been taken */
    bool fenced;                  /* and somebody has taken a higher one */
    MYSQL *db;                    /* NULL: not connected */
    unsigned long thread;         /* the connection's number at the server; 0: never connected */
    uint64_t fence;               /* the writer's own */
    struct maria_row *statements; /* by MARIA_IN: as many as there are, for each database */
    size_t events_stored;         /* of these, sent to the table */
    bool expects_new;             /* the bookings of the next batch, as they were in the last one */
    struct plan plan;
    void *scratch; /* values on their way to the server */
    size_t scratch_bytes;
    const struct maria_step *steps;
    size_t steps_count;
    char owner[128];
    char error[MARIA_ERROR_MAX];
    char warning[256];
};

static inline struct maria *maria_of(struct ledger *ledger)
{
    return (struct maria *)ledger;
}

_Static_assert(SPLIT_MAX <= DB_PLACES_MAX, "a database without a place");

/* As db_run_rows(), in one packet (or a few), on the orders of one place. How many rows it changed
 * goes to *ret_changed, which may be NULL. */
int maria_run_rows(struct maria *s, unsigned which, const struct value *values, size_t count,
                   size_t rows, uint64_t *ret_changed);
/* A statement's text, for the caller to free; NULL: out of memory. `which`: with its place, as
 * MARIA_IN says. */
char *maria_sql(const struct maria *s, unsigned which);
/* Text without values: BEGIN and its kin, and the set-up. */
int maria_do(struct maria *s, const char *sql);
/* One number by a text; ERR_NOTFOUND: no row, or NULL. */
int maria_number(struct maria *s, const char *sql, int64_t *ret_number);
/* Ends a transaction; keeps the words of what went wrong. */
void maria_rollback(struct maria *s);

extern const struct db_ops maria_db_ops;

/* connection.c. Makes the connection if there is none. */
int maria_connect(struct maria *s);
void maria_disconnect(struct maria *s);
/* Words of our own for what is wrong; gives the code back. */
int maria_say(struct maria *s, int code, const char *format, ...)
    __attribute__((format(printf, 3, 4)));

/* Of a clock that only goes forward. */
double maria_seconds(void);

/* lease_mariadb.c: the connection behind it, for tests. */
struct lease_port;
struct maria *maria_of_lease(struct lease_port *port);

/* ledger_mariadb.c. Connected, of the right version, and (the one writer) the only one. */
int maria_ready(struct maria *s);

/* Nobody has bought anything yet: every sale is a draft. */
int maria_only_drafts(struct maria *s, bool *ret_only);

/* ledger_split.c. Whether the ledger has as many databases as asked for, or may get them: else
 * ERR_INVALID. ret_noted: it has them, and that is in meta. */
int maria_split_check(struct maria *s, bool *ret_noted);
int maria_split_make(struct maria *s); /* while the writers' lock is held */
int maria_split_note(struct maria *s); /* after all else */
int maria_split_view(struct maria *s); /* all_orders, with the columns that the tables have now */
/* The index of SEGMENT_INDEXES on orders, in the databases behind the first. */
int maria_split_indexes(struct maria *s, bool wanted);

/* The database that an order is in. */
static inline uint32_t maria_place(const struct maria *s, struct order_id id)
{
    return s->address.databases == 1 ? 0 : split_place(id, s->address.databases);
}

void maria_read(struct ledger *ledger, struct ledger_query *query);
/* ledger_check.c */
void maria_check(struct ledger *ledger, struct ledger_check *check);

/* ledger_write.c: the transaction. */
/* How a batch is written: its bookings without a look at what is there; after a look; each op so
 * that it can be undone alone. */
enum maria_care { CARE_NONE, CARE_LOOK, CARE_EACH };

struct maria_write {
    struct db_write base; /* first; its now_ms: the batch's own, or the database's (shared) */
    struct maria *maria;
    struct ledger_batch *batch;
    enum maria_care care;
    uint32_t segments;  /* of the ledger, as it is now; 0: one writer */
    enum refusal guard; /* what a constraint's refusal means for a booking */
    bool epochs_known;
    uint64_t epochs[SEGMENTS_MAX]; /* 0: the segment has none yet */
};
void maria_write(struct ledger *ledger, struct ledger_batch *batch);
/* Numbers and keeps an event, for the table too; at_ms and number are filled in here, and in a
 * ledger without segments that it is for all. */
int maria_event(struct maria_write *w, struct ledger_event event);

/* ledger_plan.c: what a batch reads and what it writes, in few statements. */
int maria_plan_load(struct maria_write *w, struct ledger_op **ops, size_t count);
/* Instead of loading: as if none of these bookings, and nothing of their buyers, were there. */
int maria_plan_expect_new(struct maria_write *w, struct ledger_op **ops, size_t count);
int maria_plan_item(struct maria_write *w, uint64_t id, struct db_item **ret_item);
int maria_plan_store(struct maria_write *w);
int maria_events_store(struct maria_write *w);

/*
 * The ops fill the op's answer; they return 0 also when they refuse, and a refusal changed nothing.
 * Those on orders (ledger_orders.c) work on the plan alone; those of db_op() on the tables, with an
 * empty plan.
 */
int maria_op_book(struct maria_write *w, struct ledger_op *op);
int maria_op_fail(struct maria_write *w, struct ledger_op *op);
int maria_op_book_failed(struct maria_write *w, struct ledger_op *op);
int maria_op_pay(struct maria_write *w, struct ledger_op *op);
int maria_op_cancel(struct maria_write *w, struct ledger_op *op);
int maria_op_expire(struct maria_write *w, struct ledger_op *op);

/* ledger_segments.c: on the tables, too. */
int maria_op_epoch(struct maria_write *w, struct ledger_op *op);
int maria_op_transfer(struct maria_write *w, struct ledger_op *op);
int maria_op_transferred(struct maria_write *w, struct ledger_op *op);
/* A segment's present epoch, as this transaction sees it. */
int maria_epoch(struct maria_write *w, uint32_t segment, uint64_t *ret_epoch);
/* The buyers' homes of a sale that is being warmed, for good. */
int maria_fix_homes(struct db_write *write, struct sale_row *sale);
/* Its items, spread over its homes. */
int maria_allot(struct db_write *write, const struct sale_row *sale);
/* More units of an item, spread the same way. */
int maria_allot_more(struct db_write *write, const struct db_item *item, uint64_t units);

/* ledger_read_segments.c */
int maria_query_segments(struct maria *s, struct ledger_query *q);
int maria_query_leases(struct maria *s, struct ledger_query *q);
int maria_query_allotments(struct maria *s, struct ledger_query *q);
int maria_query_segment_orders(struct maria *s, struct ledger_query *q);
int maria_query_segment_buyers(struct maria *s, struct ledger_query *q);
int maria_query_known(struct maria *s, struct ledger_query *q); /* and ORDERS_BY_ID */
int maria_query_transfers(struct maria *s, struct ledger_query *q);
void maria_transfer_read(const struct db_row *row, struct transfer_row *ret_transfer);

/* Opens with a way of one's own instead of maria_steps: for tests of migrations. */
struct maria_step;
int maria_open(const struct ledger_mariadb_options *options, enum ledger_mariadb_mode mode,
               const struct maria_step *steps, size_t steps_count, struct ledger **ret_ledger);

#endif
