/*
 * The statements of backend/sql/statements.h in the dialect of SQLite, and those that this ledger
 * runs besides. X(name, SQL).
 */
#ifndef SLUICE_BACKEND_SQLITE_STATEMENTS_H
#define SLUICE_BACKEND_SQLITE_STATEMENTS_H

#include "backend/sql/statements.h"

/* One gate, one table of orders. CROSS JOIN keeps the order of the tables; a primary key needs no
 * hint. */
#define SQL_ORDERS "orders"
#define SQL_JOIN " CROSS JOIN "
#define SQL_BY_KEY ""
#define SQL_BY_INDEX(name) " INDEXED BY " name
#define SQL_ORDER_SEGMENT "0"
#define SQL_EVENT_SEGMENT "0"
#define SQL_SALE_HOMES "0, ''"
#define SQL_ITEM_HOMES "0"
#define SQL_DIV "/"
#define SQL_LEAST "min"
#define SQL_GREATEST "max"
#define SQL_ON_CONFLICT(key) " ON CONFLICT(" key ") DO UPDATE SET "
#define SQL_NEW(column) "excluded." column

#define STORE_STATEMENTS(X)                                                                        \
    X(SQL_BEGIN_WRITE, "BEGIN IMMEDIATE")                                                          \
    X(SQL_BEGIN_READ, "BEGIN DEFERRED")                                                            \
    X(SQL_COMMIT, "COMMIT")                                                                        \
    X(SQL_ROLLBACK, "ROLLBACK")                                                                    \
    X(SQL_OP_BEGIN, "SAVEPOINT op")                                                                \
    X(SQL_OP_KEEP, "RELEASE op")                                                                   \
    X(SQL_OP_UNDO, "ROLLBACK TO op")                                                               \
    X(SQL_CURSOR_SET, "UPDATE meta SET booked_lsn = ?1 WHERE booked_lsn < ?1")                     \
    X(SQL_EVENT_ADD,                                                                               \
      "INSERT INTO events(number, kind, at_ms, sale_id, item_id, user_id, order_id,"               \
      " qty, reason, a, b, c, d)"                                                                  \
      " VALUES(?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, ?9, ?10, ?11, ?12, ?13)")                           \
    X(SQL_STOCK_MOVE, "UPDATE stock SET available = available + ?2, locked = locked + ?3,"         \
                      " sold = sold + ?4 WHERE item_id = ?1")                                      \
    X(SQL_ORDER_ADD, "INSERT INTO orders(item_id, id, user_id, qty, status, reason, amount_cents," \
                     " created_at_ms, locked_at_ms, pay_by_ms, ended_at_ms, lsn)"                  \
                     " VALUES(?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, ?9, ?10, ?11, ?12)"                  \
                     " ON CONFLICT DO NOTHING")                                                    \
    X(SQL_ORDER_MOVE, "UPDATE orders SET status = ?4, ended_at_ms = ?5, payment_id = ?6,"          \
                      " reason = ?7, cooling_until_ms = ?8"                                        \
                      " WHERE item_id = ?1 AND id = ?2 AND status = ?3")                           \
    X(SQL_HELD, "SELECT held FROM holdings WHERE item_id = ?1 AND user_id = ?2")                   \
    X(SQL_HOLD, "INSERT INTO holdings(item_id, user_id, held, limit_per_user, ended, barred)"      \
                " VALUES(?1, ?2, ?3, ?4, ?5, 0) ON CONFLICT(item_id, user_id) DO UPDATE"           \
                " SET held = held + excluded.held, ended = ended + excluded.ended")                \
    X(SQL_RELEASE, "UPDATE holdings SET held = held - ?3, ended = ended + ?4,"                     \
                   " barred = max(barred, ?5) WHERE item_id = ?1 AND user_id = ?2")                \
    X(SQL_PAYMENT, "SELECT fingerprint FROM payments WHERE payment_id = ?1")                       \
    X(SQL_PAYMENT_ADD, "INSERT INTO payments(payment_id, item_id, order_id, amount_cents,"         \
                       " fingerprint, at_ms) VALUES(?1, ?2, ?3, ?4, ?5, ?6)")                      \
    X(SQL_PAGE_COUNT, "SELECT page_count FROM pragma_page_count")                                  \
    X(SQL_CHECK_ROWS,                                                                              \
      "SELECT o.item_id, o.id, o.user_id, o.created_at_ms, EXISTS(SELECT 1 FROM orders x"          \
      " INDEXED BY orders_by_user WHERE x.user_id = o.user_id"                                     \
      " AND x.created_at_ms = o.created_at_ms AND x.item_id = o.item_id AND x.id = o.id)"          \
      " FROM orders o WHERE (o.item_id, o.id) > (?1, ?2) ORDER BY o.item_id, o.id LIMIT ?3")       \
    X(SQL_CHECK_INDEX,                                                                             \
      "SELECT x.item_id, x.id, x.user_id, x.created_at_ms, EXISTS(SELECT 1 FROM orders o"          \
      " WHERE o.item_id = x.item_id AND o.id = x.id AND +o.user_id = x.user_id"                    \
      " AND +o.created_at_ms = x.created_at_ms) FROM orders x INDEXED BY orders_by_user"           \
      " WHERE (x.user_id, x.created_at_ms, x.item_id, x.id) > (?1, ?2, ?3, ?4)"                    \
      " ORDER BY x.user_id, x.created_at_ms, x.item_id, x.id LIMIT ?5")

enum store_statement {
    STATEMENTS_SHARED = SQL_STATEMENT_COUNT - 1,
#define X(name, sql) name,
    STORE_STATEMENTS(X)
#undef X
        STATEMENT_COUNT
};

#endif
