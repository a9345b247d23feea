/*
 * The contract suite of the ledger: the same tests run on every ledger there is. What they share: a
 * fresh ledger in a place of its own, short words for ops, and the audit, which recounts
 * everything from the order rows with SQL of its own, on a connection of its own.
 *
 * A ledger under test is a struct ledger_backend. SQL in tests is what all of them understand.
 */
#ifndef SLUICE_TEST_LEDGER_FIXTURE_H
#define SLUICE_TEST_LEDGER_FIXTURE_H

#include <setjmp.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "base/err.h"
#include "port/lease.h"
#include "port/ledger.h"

#define T0 1700000000000LL /* when every test's sale begins */
#define PAY_WITHIN_MS 600000LL
#define PRICE 9900

struct fixture {
    char folder[64]; /* SQLite: where the file is */
    char path[96];
    char database[64];     /* MariaDB: the test's own */
    uint32_t databases;    /* MariaDB: that its orders are split over; 0 and 1: they are not */
    uint32_t segments;     /* of its gate; 0: one, and one writer */
    const char *regions;   /* of ledgers opened from now on, for sales that they warm */
    void *shell;           /* a connection beside the ledger's, for sql_number and sql_run */
    struct ledger *ledger; /* the writer */
    struct ledger_event *events; /* of the last write */
    size_t events_count;
    uint64_t lsn;
};

/* What became of SQL that a test ran by itself. REFUSED: by a constraint or a trigger. */
enum sql_outcome { SQL_DONE, SQL_REFUSED, SQL_FAILED };

struct ledger_backend {
    const char *name; /* `number` to `check_keys` may be missing: then no SQL understands it */
    const char *(*missing)(void); /* why it cannot be tested here; NULL: it can */
    void (*make)(struct fixture *f);
    void (*discard)(struct fixture *f);
    int (*open)(struct fixture *f, bool writer, struct ledger **ret_ledger);
    void (*close)(struct ledger *ledger);
    const char *(*error)(const struct ledger *ledger);
    int64_t (*number)(struct fixture *f, const char *sql);
    enum sql_outcome (*run)(struct fixture *f, const char *sql); /* several, between semicolons */
    /* A foreign transaction that has run this, and stays open until it is let go (committed). */
    void *(*hold)(struct fixture *f, const char *sql);
    void (*let_go)(void *held);
    void (*check_keys)(struct fixture *f); /* foreign keys, where the ledger could break them */
    /* The ledger's own clock stands at this time from now on, where it goes by one. */
    void (*set_time)(struct ledger *ledger, int64_t now_ms);
    void (*audit_segments)(struct fixture *f);
    /* Leases that the ledger keeps, and their clock. */
    int (*lease_open)(struct fixture *f, const char *holder, struct lease_port **ret_port);
    void (*lease_close)(struct lease_port *port);
    void (*lease_set_time)(struct lease_port *port, int64_t now_ms);
};
extern const struct ledger_backend on_sqlite;
extern const struct ledger_backend on_mariadb;
extern const struct ledger_backend on_mariadb_split; /* its orders in three databases */
extern const struct ledger_backend on_memory;        /* a shared one only */

/* The one that the fixture uses. */
extern const struct ledger_backend *fixture_backend;
/* Runs the tests on each of the backends; where one is missing they are skipped, and say so. */
int ledger_suite_run(const struct ledger_backend *const *backends, size_t backends_count,
                     const struct CMUnitTest *tests, size_t count);
#define LEDGER_SUITE_RUN(tests)                                                                    \
    ledger_suite_run(                                                                              \
        (const struct ledger_backend *const[]){&on_sqlite, &on_mariadb, &on_mariadb_split}, 3,     \
        (tests), sizeof(tests) / sizeof((tests)[0]))
#define LEDGER_SHARED_RUN(tests)                                                                   \
    ledger_suite_run(                                                                              \
        (const struct ledger_backend *const[]){&on_memory, &on_mariadb, &on_mariadb_split}, 3,     \
        (tests), sizeof(tests) / sizeof((tests)[0]))
#define LEDGER_MARIADB_RUN(tests)                                                                  \
    ledger_suite_run((const struct ledger_backend *const[]){&on_mariadb, &on_mariadb_split}, 2,    \
                     (tests), sizeof(tests) / sizeof((tests)[0]))
#define LEDGER_RUN_ON(backend, tests)                                                              \
    ledger_suite_run((const struct ledger_backend *const[]){&(backend)}, 1, (tests),               \
                     sizeof(tests) / sizeof((tests)[0]))

/* cmocka's setup and teardown: a fresh ledger, and the audit at the end of every test. */
int fixture_setup(void **state);
/* The same, for a ledger of three segments, which any number may write to. */
#define SEGMENTS 3
int fixture_setup_shared(void **state);
int fixture_teardown(void **state);
/* Closes and opens the writer again. */
void fixture_reopen(struct fixture *f);

/* Writes a batch and demands that it was committed. */
void write_batch(struct fixture *f, int64_t now_ms, struct ledger_op **ops, size_t count);
void write_op(struct fixture *f, int64_t now_ms, struct ledger_op *op);

struct ledger_op book_once(uint64_t item, uint64_t user, uint32_t attempt);
struct ledger_op book_fresh(uint64_t item, uint64_t user, uint32_t qty, uint32_t sequence);
struct ledger_op pay(struct order_id id, const char *payment_id, int64_t amount_cents);
struct ledger_op cancel(struct order_id id, uint64_t user);
struct ledger_op expire(struct order_id id);
struct ledger_op restock(uint64_t item, uint64_t amount, const char *request_id);
struct ledger_op sale_move(uint64_t sale, enum sale_state target);
struct ledger_op sale_op(enum ledger_kind kind, uint64_t sale); /* DELETE, FORGET */
/* What a segment decided in its present life, which is its first. */
struct ledger_op book_at(uint32_t segment, uint64_t item, uint64_t user, uint32_t attempt);
struct ledger_op raise_epoch(uint32_t segment, uint64_t epoch);

/*
 * A sale of `count` items with ids first_item, first_item + 1 ..., all with this total and limit.
 * From T0 for an hour (a shared ledger goes by its server's clock: for twenty years), 600 s to pay,
 * draft.
 */
void sale_make(struct fixture *f, uint64_t sale, uint64_t first_item, uint32_t count,
               uint64_t total, uint32_t limit, bool bar_unpaid);
/* The same, and open. */
void sale_open(struct fixture *f, uint64_t sale, uint64_t first_item, uint32_t count,
               uint64_t total, uint32_t limit, bool bar_unpaid);

/* Field by field: the bytes between them are nobody's. */
void assert_order_equal(const struct order_row *a, const struct order_row *b);
void assert_event_equal(const struct ledger_event *a, const struct ledger_event *b);
void assert_item_equal(const struct item_row *a, const struct item_row *b);

/* One answer of a query by SQL on a connection of its own: the first column of the first row. */
int64_t sql_number(struct fixture *f, const char *format, ...)
    __attribute__((format(printf, 2, 3)));
/* Runs SQL the way an operator's shell would. */
enum sql_outcome sql_run(struct fixture *f, const char *format, ...)
    __attribute__((format(printf, 2, 3)));

/* available, locked, sold of an item. */
void assert_stock(struct fixture *f, uint64_t item, int64_t available, int64_t locked,
                  int64_t sold);
/* held, ended, barred of a buyer. */
void assert_holding(struct fixture *f, uint64_t item, uint64_t user, int64_t held, int64_t ended,
                    int64_t barred);
/* amount, locked, sold of a segment's share of an item. */
void assert_allotment(struct fixture *f, uint32_t segment, uint64_t item, int64_t amount,
                      int64_t locked, int64_t sold);
/* Stock and holdings are what the orders add up to; events are numbered without gaps. */
void assert_audit(struct fixture *f);
/* The same of a ledger with segments, segment by segment, by what it answers. */
void assert_audit_segments(struct fixture *f);

#endif
