/*
 * The statements of backend/sql/statements.h in the dialect of MariaDB, and those that this ledger
 * runs besides. X(name, SQL).
 *
 * {orders} stands for the table of orders in one of the databases that the ledger is split over
 * (MARIA_IN says which). Other tables are in the first.
 *
 * Statements that write many rows are executed with arrays: one packet carries the values of all
 * rows. Those that look for many rows take the keys as one JSON text; STRAIGHT_JOIN: keys first.
 */
#ifndef SLUICE_BACKEND_MARIADB_STATEMENTS_H
#define SLUICE_BACKEND_MARIADB_STATEMENTS_H

#include "backend/sql/statements.h"

#define SQL_ORDERS "{orders}"
#define SQL_JOIN " STRAIGHT_JOIN "
#define SQL_BY_KEY " FORCE INDEX(PRIMARY)"
#define SQL_BY_INDEX(name) " FORCE INDEX(" name ")"
#define SQL_ORDER_SEGMENT "o.segment"
#define SQL_EVENT_SEGMENT "ifnull(segment, -1)" /* SEGMENT_ALL */
#define SQL_SALE_HOMES "homes, regions"
#define SQL_ITEM_HOMES "s.homes"
#define SQL_DIV "DIV"
#define SQL_LEAST "least"
#define SQL_GREATEST "greatest"
#define SQL_ON_CONFLICT(key) " ON DUPLICATE KEY UPDATE "
#define SQL_NEW(column) "VALUE(" column ")"

#define KEYS(columns) " FROM JSON_TABLE(?, '$[*]' COLUMNS(" columns ")) k STRAIGHT_JOIN "
#define KEY_ITEM "item_id BIGINT PATH '$[0]', "
#define KEY_ORDER "id CHAR(26) CHARACTER SET ascii COLLATE ascii_bin PATH '$[1]'"

/* What maria_transfer_read() expects, with the epoch as it is now. */
#define TRANSFER_COLUMNS                                                                           \
    "t.transfer_id, t.item_id, t.segment, t.to_segment, t.amount, t.at_ms,"                        \
    " ifnull((SELECT epoch FROM segments g WHERE g.segment = t.segment), 0)"
#define TRANSFERS " FROM transfers t"

/* The items that a segment has a share of and whose sale is on the board. */
#define SEGMENT_ITEMS                                                                              \
    " FROM allotments a FORCE INDEX(PRIMARY)"                                                      \
    " STRAIGHT_JOIN items i FORCE INDEX(PRIMARY) ON i.id = a.item_id"                              \
    " STRAIGHT_JOIN sales s FORCE INDEX(PRIMARY) ON s.id = i.sale_id"                              \
    " WHERE a.segment = ? AND s.forgotten = 0"

/* The database's time, when the statement began. */
#define NOW_MS "CAST(unix_timestamp(now(3)) * 1000 AS SIGNED)"

#define MARIA_STATEMENTS(X)                                                                        \
    X(MARIA_META_LOCK, "SELECT fence, segments FROM meta WHERE id = 1 FOR UPDATE")                 \
    X(MARIA_FRESH, "SELECT ifnull(max(number), 0), " NOW_MS " FROM events")                        \
    X(MARIA_CURSOR_SET, "UPDATE meta SET booked_lsn = ? WHERE id = 1 AND booked_lsn < ?")          \
    X(MARIA_EVENTS_ADD, "INSERT INTO events(number, kind, at_ms, sale_id, item_id, user_id,"       \
                        " order_id, qty, reason, a, b, c, d, segment)"                             \
                        " VALUES(?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?)")                       \
    X(MARIA_SEGMENT_EVENTS,                                                                        \
      "(SELECT " EVENT_COLUMNS " FROM events FORCE INDEX(events_by_segment) WHERE segment = ?"     \
      "  AND number > ? ORDER BY segment, number LIMIT ?) UNION ALL"                               \
      " (SELECT " EVENT_COLUMNS " FROM events FORCE INDEX(events_by_segment) WHERE segment IS"     \
      "  NULL AND number > ? ORDER BY segment, number LIMIT ?) ORDER BY number LIMIT ?")           \
    X(MARIA_SEGMENT_LAST,                                                                          \
      "SELECT greatest(ifnull((SELECT max(number) FROM events WHERE segment = ?), 0),"             \
      " ifnull((SELECT max(number) FROM events WHERE segment IS NULL), 0))")                       \
    /* Token, then holder, then end: each sees what those before it have become. */                \
    X(MARIA_LEASE_TAKE,                                                                            \
      "INSERT INTO leases(name, holder, token, until_ms) VALUES(?, ?, 1, " NOW_MS " + ?)"          \
      " ON DUPLICATE KEY UPDATE"                                                                   \
      " token = token + if(until_ms <= " NOW_MS " AND holder <> ?, 1, 0),"                         \
      " holder = if(until_ms <= " NOW_MS ", ?, holder),"                                           \
      " until_ms = if(holder = ?, " NOW_MS " + ?, until_ms)")                                      \
    X(MARIA_LEASE,                                                                                 \
      "SELECT holder = ? AND until_ms > " NOW_MS ", token FROM leases WHERE name = ?")             \
    X(MARIA_LEASE_DROP, "UPDATE leases SET holder = '', until_ms = 0"                              \
                        " WHERE name = ? AND holder = ?")                                          \
    X(MARIA_LEASE_TOKEN, "SELECT token FROM leases WHERE name = ? LOCK IN SHARE MODE")             \
    X(MARIA_LEASES, "SELECT name, holder, token, until_ms FROM leases WHERE until_ms > " NOW_MS    \
                    " AND holder <> '' ORDER BY name LIMIT ?")                                     \
    X(MARIA_SEGMENTS, "SELECT segment, epoch FROM segments ORDER BY segment")                      \
    X(MARIA_EPOCH_ADD, "INSERT INTO segments(segment, epoch) VALUES(?, ?)"                         \
                       " ON DUPLICATE KEY UPDATE epoch = VALUE(epoch)")                            \
    X(MARIA_ITEM_ALLOTMENTS, "SELECT segment, amount - locked - sold FROM allotments"              \
                             " WHERE item_id = ? ORDER BY segment")                                \
    X(MARIA_ALLOTMENTS_ADD, "INSERT INTO allotments(segment, item_id, amount, locked, sold)"       \
                            " VALUES(?, ?, ?, 0, 0)")                                              \
    X(MARIA_ALLOTMENTS_FILL,                                                                       \
      "INSERT INTO allotments(segment, item_id, amount, locked, sold)"                             \
      " SELECT ?, i.id, 0, 0, 0 FROM sales s STRAIGHT_JOIN items i ON i.sale_id = s.id"            \
      " WHERE s.homes BETWEEN 1 AND ? AND s.forgotten = 0"                                         \
      " ON DUPLICATE KEY UPDATE allotments.amount = allotments.amount")                            \
    X(MARIA_ALLOTMENTS_MOVE,                                                                       \
      "UPDATE allotments FORCE INDEX(PRIMARY) SET locked = locked + ?, sold = sold + ?"            \
      " WHERE segment = ? AND item_id = ?")                                                        \
    X(MARIA_ALLOT, "UPDATE allotments FORCE INDEX(PRIMARY) SET amount = amount + ? WHERE segment " \
                   "= ? AND item_id = ?")                                                          \
    X(MARIA_TRANSFER,                                                                              \
      "SELECT " TRANSFER_COLUMNS ", moved, state" TRANSFERS " WHERE t.transfer_id = ?")            \
    X(MARIA_TRANSFERS_OPEN, "SELECT " TRANSFER_COLUMNS TRANSFERS " FORCE INDEX(transfers_open)"    \
                            " WHERE t.state = 'open' ORDER BY t.state, t.at_ms, t.transfer_id"     \
                            " LIMIT ?")                                                            \
    X(MARIA_TRANSFER_ADD, "INSERT INTO transfers(transfer_id, item_id, segment, to_segment,"       \
                          " amount, state, at_ms) VALUES(?, ?, ?, ?, ?, 'open', ?)")               \
    X(MARIA_TRANSFER_DONE, "UPDATE transfers SET state = 'done', moved = ?, ended_at_ms = ?"       \
                           " WHERE transfer_id = ? AND state = 'open'")                            \
    X(MARIA_TRANSFERS_VOID, "UPDATE transfers SET state = 'void', ended_at_ms = ?"                 \
                            " WHERE segment = ? AND state = 'open'")                               \
    X(MARIA_ALLOTMENTS, "SELECT a.item_id, i.sale_id, i.limit_per_user, a.amount, a.locked,"       \
                        " a.sold" SEGMENT_ITEMS " AND a.item_id > ? ORDER BY a.segment,"           \
                        " a.item_id LIMIT ?")                                                      \
    X(MARIA_SEGMENT_ITEM, "SELECT a.item_id" SEGMENT_ITEMS " AND a.item_id >= ?"                   \
                          " ORDER BY a.segment, a.item_id LIMIT 1")                                \
    X(MARIA_SEGMENT_ORDERS,                                                                        \
      "SELECT " ORDER_COLUMNS " FROM {orders} o FORCE INDEX(orders_by_segment)" ORDER_JOINS        \
      " WHERE o.segment = ? AND o.item_id = ? AND o.id > ?"                                        \
      " ORDER BY o.segment, o.item_id, o.id LIMIT ?")                                              \
    X(MARIA_SEGMENT_BUYERS,                                                                        \
      "SELECT user_id, held, ended, barred FROM holdings FORCE INDEX(holdings_by_segment)"         \
      " WHERE segment = ? AND item_id = ? AND user_id > ?"                                         \
      " ORDER BY segment, item_id, user_id LIMIT ?")                                               \
    X(MARIA_KNOWN,                                                                                 \
      "SELECT k.n, o.status" KEYS(                                                                 \
          "n FOR ORDINALITY, " KEY_ITEM KEY_ORDER) "{orders} o FORCE INDEX(PRIMARY) ON o.item_id " \
                                                   "= k.item_id AND o.id = k.id")                  \
    X(MARIA_ORDERS_BY_ID,                                                                          \
      "SELECT " ORDER_COLUMNS                                                                      \
      ", k.n" KEYS("n FOR ORDINALITY, " KEY_ITEM KEY_ORDER) "{orders} o FORCE INDEX(PRIMARY)"      \
                                                            " ON o.item_id = k.item_id AND "       \
                                                            "o.id = k.id" ORDER_JOINS)             \
    X(MARIA_STOCK_MOVE, "UPDATE stock SET available = available + ?, locked = locked + ?,"         \
                        " sold = sold + ? WHERE item_id = ?")                                      \
    X(MARIA_ORDERS_ADD, "INSERT INTO {orders}(item_id, id, user_id, qty, status, reason,"          \
                        " amount_cents, created_at_ms, locked_at_ms, pay_by_ms, ended_at_ms,"      \
                        " lsn, payment_id, segment)"                                               \
                        " VALUES(?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?)")                       \
    X(MARIA_ORDERS_FIND,                                                                           \
      "SELECT " ORDER_COLUMNS KEYS(                                                                \
          KEY_ITEM KEY_ORDER) "{orders} o FORCE INDEX(PRIMARY) ON o.item_id = k.item_id"           \
                              " AND o.id = k.id" ORDER_JOINS)                                      \
    X(MARIA_ORDERS_MOVE, "UPDATE {orders} SET status = ?, ended_at_ms = ?, payment_id = ?,"        \
                         " reason = ?, cooling_until_ms = ?"                                       \
                         " WHERE item_id = ? AND id = ? AND status = 'LOCKED'")                    \
    /* By the database's clock. It may have gone on since the batch decided. */                    \
    X(MARIA_ORDERS_MOVE_TIMED, "UPDATE {orders} SET status = ?, ended_at_ms = ?, payment_id = ?,"  \
                               " reason = ?, cooling_until_ms = ?"                                 \
                               " WHERE item_id = ? AND id = ? AND status = 'LOCKED' AND CASE ?"    \
                               " WHEN 'PAID' THEN pay_by_ms > " NOW_MS                             \
                               " WHEN 'EXPIRED' THEN pay_by_ms <= " NOW_MS " ELSE TRUE END")       \
    X(MARIA_HOLDINGS_FIND,                                                                         \
      "SELECT h.item_id, h.user_id, h.held" KEYS(                                                  \
          KEY_ITEM "user_id BIGINT PATH '$[1]'") "holdings h FORCE INDEX(PRIMARY) ON h.item_id = " \
                                                 "k.item_id AND "                                  \
                                                 "h.user_id = k.user_id")                          \
    X(MARIA_HOLD, "INSERT INTO holdings(item_id, user_id, held, limit_per_user, ended, barred,"    \
                  " segment) VALUES(?, ?, ?, ?, ?, ?, ?)"                                          \
                  " ON DUPLICATE KEY UPDATE held = held + VALUE(held),"                            \
                  " ended = ended + VALUE(ended), barred = greatest(barred, VALUE(barred))")       \
    X(MARIA_RELEASE, "UPDATE holdings SET held = held + ?, ended = ended + ?,"                     \
                     " barred = greatest(barred, ?) WHERE item_id = ? AND user_id = ?")            \
    X(MARIA_PAYMENTS_FIND, "SELECT p.payment_id, p.fingerprint" KEYS(                              \
                               "hex VARCHAR(128) PATH '$'") "payments p FORCE INDEX(PRIMARY) ON "  \
                                                            "p.payment_id = unhex(k.hex)")         \
    X(MARIA_PAYMENTS_ADD, "INSERT INTO payments(payment_id, item_id, order_id, amount_cents,"      \
                          " fingerprint, at_ms) VALUES(?, ?, ?, ?, ?, ?)")                         \
    X(MARIA_SALE_HOMES, "UPDATE sales SET homes = ?, regions = ? WHERE id = ?")

enum maria_statement {
    MARIA_STATEMENTS_SHARED = SQL_STATEMENT_COUNT - 1,
#define X(name, sql) name,
    MARIA_STATEMENTS(X)
#undef X
        MARIA_STATEMENT_COUNT
};

/* A statement on the orders of one database. */
#define MARIA_IN(place, which) ((place) * (unsigned)MARIA_STATEMENT_COUNT + (unsigned)(which))

#endif
