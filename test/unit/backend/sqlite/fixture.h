/*
 * What the ledger tests share: a private folder with a ledger in it, short words for ops, and the
 * audit, which recounts everything from the order rows with SQL of its own.
 */
#ifndef SLUICE_TEST_LEDGER_FIXTURE_H
#define SLUICE_TEST_LEDGER_FIXTURE_H

#include <setjmp.h>
#include <sqlite3.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "backend/sqlite/ledger_sqlite.h"
#include "base/err.h"

#define T0 1700000000000LL /* when every test's sale begins */
#define PAY_WITHIN_MS 600000LL
#define PRICE 9900

struct fixture {
    char folder[64];
    char path[96];
    struct ledger *ledger;       /* the writer */
    struct ledger_event *events; /* of the last write */
    size_t events_count;
    uint64_t lsn;
};

/* cmocka's setup and teardown: a fresh ledger, and the audit at the end of every test. */
int fixture_setup(void **state);
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

/*
 * A sale of `count` items with ids first_item, first_item + 1 ..., all with this total and limit.
 * From T0 for an hour, 600 s to pay, draft.
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
/* Runs SQL the way an operator's shell would; the result code of SQLite (SQLITE_OK, ...). */
int sql_run(struct fixture *f, const char *format, ...) __attribute__((format(printf, 2, 3)));

/* available, locked, sold of an item. */
void assert_stock(struct fixture *f, uint64_t item, int64_t available, int64_t locked,
                  int64_t sold);
/* held, ended, barred of a buyer. */
void assert_holding(struct fixture *f, uint64_t item, uint64_t user, int64_t held, int64_t ended,
                    int64_t barred);
/* Stock and holdings are what the orders add up to; events are numbered without gaps. */
void assert_audit(struct fixture *f);

#endif
