/*
 * The statements that all ledgers on SQL databases run alike. X(name, SQL). Zero and the empty text
 * are stored as NULL where a column may be NULL, and read back as zero and the empty text.
 *
 * Where the dialects differ, the text has a word that the backend defines in its own statements.h:
 *
 *   SQL_ORDERS          the table of orders of one place
 *   SQL_JOIN            a join that reads the tables in the order in which they are named
 *   SQL_BY_KEY          behind a table: read it by its primary key
 *   SQL_BY_INDEX(name)  behind a table: read it by this index
 *   SQL_DIV, SQL_LEAST, SQL_GREATEST
 *                       integer division; the least and the greatest of several values
 *   SQL_ON_CONFLICT(key), SQL_NEW(column)
 *                       change the row that has this key already; the value that was to be inserted
 *   SQL_ORDER_SEGMENT, SQL_EVENT_SEGMENT, SQL_SALE_HOMES, SQL_ITEM_HOMES
 *                       columns of a gate with several segments, or what stands for them
 */
#ifndef SLUICE_BACKEND_SQL_STATEMENTS_H
#define SLUICE_BACKEND_SQL_STATEMENTS_H

/* What db_order_read() expects. */
#define ORDER_COLUMNS                                                                              \
    "o.item_id, o.id, o.user_id, i.sale_id, o.qty, o.status, o.reason, o.amount_cents,"            \
    " o.created_at_ms, o.locked_at_ms, o.pay_by_ms, o.ended_at_ms, o.lsn, o.payment_id,"           \
    " s.currency, " SQL_ORDER_SEGMENT ", o.cooling_until_ms"
/* By key however few sales there are, or the orders would be sorted again behind a join buffer. */
#define ORDER_JOINS                                                                                \
    SQL_JOIN "items i" SQL_BY_KEY " ON i.id = o.item_id" SQL_JOIN "sales s" SQL_BY_KEY             \
             " ON s.id = i.sale_id"

/* What db_events_take() expects. */
#define EVENT_COLUMNS                                                                              \
    "number, kind, at_ms, sale_id, item_id, user_id, order_id, qty, reason, a, b, c, "             \
    "d, " SQL_EVENT_SEGMENT

/* What block_read() expects. */
#define BLOCK_COLUMNS "kind, value, reason, until_ms, at_ms, number"

/*
 * A page of orders that come after one place in the list, downwards: one buyer's newest first, by
 * their index; an item's, or all items', by the table's own key. The comparison is spelled out, with
 * its first column once more in front: so the index is read from that place on.
 */
#define ORDERS_OF_USER                                                                             \
    "SELECT " ORDER_COLUMNS " FROM " SQL_ORDERS " o" SQL_BY_INDEX("orders_by_user") ORDER_JOINS    \
        " WHERE o.user_id = ? AND o.created_at_ms <= ? AND (o.created_at_ms < ?"                   \
        "  OR (o.item_id < ? OR (o.item_id = ? AND o.id < ?)))"                                    \
        " AND (? = 0 OR o.item_id = ?) AND (? = 0 OR i.sale_id = ?) AND (? IS NULL OR o.status = " \
        "?)"                                                                                       \
        " ORDER BY o.user_id DESC, o.created_at_ms DESC, o.item_id DESC, o.id DESC LIMIT ?"
#define ORDERS_OF_ITEM                                                                             \
    "SELECT " ORDER_COLUMNS " FROM " SQL_ORDERS " o" SQL_BY_KEY ORDER_JOINS                        \
    " WHERE o.item_id = ? AND o.id < ? AND (? = 0 OR i.sale_id = ?)"                               \
    " AND (? IS NULL OR o.status = ?) ORDER BY o.item_id DESC, o.id DESC LIMIT ?"
#define ORDERS_BELOW                                                                               \
    "SELECT " ORDER_COLUMNS " FROM " SQL_ORDERS " o" SQL_BY_KEY ORDER_JOINS                        \
    " WHERE o.item_id < ? AND (? IS NULL OR o.status = ?)"                                         \
    " ORDER BY o.item_id DESC, o.id DESC LIMIT ?"

/* Of the items of one sale. */
#define OF_SALE "item_id IN (SELECT id FROM items WHERE sale_id = ?)"

/* In which of so many steps (the first ?) a time lies, from the second ? on, each of the third ? ms;
 * in none of them: it came later. */
#define TIME_STEP(column) SQL_LEAST "(?, " SQL_GREATEST "(0, " column " - ?) " SQL_DIV " ?)"

#define SQL_STATEMENTS(X)                                                                                                                         \
    X(SQL_STATE, "SELECT booked_lsn, (SELECT ifnull(max(number), 0) FROM events),"                                                                \
                 " (SELECT at_ms FROM events ORDER BY number DESC LIMIT 1) FROM meta")                                                            \
    X(SQL_READ_TO, "SELECT number FROM cursors WHERE name = ?")                                                                                   \
    X(SQL_EVENTS, "SELECT " EVENT_COLUMNS " FROM events WHERE number > ? ORDER BY number LIMIT ?")                                                \
    X(SQL_SALE, "SELECT id, state, forgotten, bar_unpaid, pay_within_s, starts_at_ms, ends_at_ms,"                                                \
                " created_at_ms, name, currency, pay_url,"                                                                                        \
                " (SELECT count(*) FROM items WHERE sale_id = sales.id), " SQL_SALE_HOMES                                                         \
                " FROM sales WHERE id = ?")                                                                                                       \
    X(SQL_SALE_NEXT, "SELECT id FROM sales WHERE id > ? ORDER BY id LIMIT 1")                                                                     \
    X(SQL_SALE_CHANGES,                                                                                                                           \
      "SELECT c.number, c.sale_id, s.id IS NULL OR s.forgotten FROM sale_changes c"                                                               \
      " LEFT JOIN sales s ON s.id = c.sale_id WHERE c.number > ? ORDER BY c.number LIMIT ?")                                                      \
    X(SQL_BLOCK, "SELECT " BLOCK_COLUMNS " FROM blocks WHERE kind = ? AND value = ?")                                                             \
    X(SQL_BLOCKS,                                                                                                                                 \
      "SELECT " BLOCK_COLUMNS " FROM blocks WHERE number > ? AND (? IS NULL OR kind = ?) AND (? "                                                 \
      "= 0 OR until_ms IS NULL OR until_ms > ?) ORDER BY number LIMIT ?")                                                                         \
    X(SQL_SALE_ITEMS,                                                                                                                             \
      "SELECT i.id, i.price_cents, i.was_cents, i.limit_per_user, k.total,"                                                                       \
      " k.available, k.locked, k.sold, i.name, i.sku, i.image_url FROM items i" SQL_JOIN                                                          \
      "stock k ON k.item_id = i.id"                                                                                                               \
      " WHERE i.sale_id = ? ORDER BY i.position")                                                                                                 \
    X(SQL_ORDER, "SELECT " ORDER_COLUMNS " FROM " SQL_ORDERS " o" ORDER_JOINS                                                                     \
                 " WHERE o.item_id = ? AND o.id = ?")                                                                                             \
    X(SQL_ORDERS_OF_USER, ORDERS_OF_USER)                                                                                                         \
    X(SQL_ORDERS_OF_ITEM, ORDERS_OF_ITEM)                                                                                                         \
    X(SQL_ORDERS_BELOW, ORDERS_BELOW)                                                                                                             \
    X(SQL_SALE_ITEM_BELOW, "SELECT id FROM items WHERE sale_id = ? AND id <= ?"                                                                   \
                           " ORDER BY id DESC LIMIT 1")                                                                                           \
    X(SQL_LOCKED_ITEM, "SELECT item_id FROM stock WHERE item_id >= ? AND locked > 0"                                                              \
                       " ORDER BY item_id LIMIT 1")                                                                                               \
    X(SQL_LOCKED, "SELECT " ORDER_COLUMNS " FROM " SQL_ORDERS " o" SQL_BY_KEY ORDER_JOINS                                                         \
                  " WHERE o.item_id = ? AND o.id > ? AND o.status = 'LOCKED'"                                                                     \
                  " ORDER BY o.item_id, o.id LIMIT ?")                                                                                            \
    X(SQL_REPORT_STATES, "SELECT status, number, units, cents, first_ms, last_ms FROM order_sums"                                                 \
                         " WHERE item_id = ?")                                                                                                    \
    X(SQL_REPORT_PEAK, "SELECT max(made) FROM sale_course WHERE sale_id = ? AND item_id = ?"                                                      \
                       " AND width_ms = 1000")                                                                                                    \
    X(SQL_REPORT_BUYERS, "SELECT count(*) FROM holdings WHERE item_id = ? AND held > 0")                                                          \
    X(SQL_ITEM_BUYERS,                                                                                                                            \
      "SELECT count(*), sum(held > 0), sum(paid > 0) FROM holdings WHERE item_id = ?")                                                            \
    X(SQL_SALE_BUYERS, "SELECT count(*), sum(holds), sum(pays) FROM"                                                                              \
                       " (SELECT max(held > 0) AS holds, max(paid > 0) AS pays FROM holdings"                                                     \
                       " WHERE " OF_SALE " GROUP BY user_id) t")                                                                                  \
    X(SQL_SUMMARY_PEAK, "SELECT at_ms, made FROM sale_course WHERE sale_id = ? AND item_id = 0"                                                   \
                        " AND width_ms = 1000 AND made > 0 ORDER BY made DESC, at_ms LIMIT 1")                                                    \
    X(SQL_SUMMARY_BOOKED,                                                                                                                         \
      "SELECT ms, bookings FROM booking_lengths WHERE sale_id = ? ORDER BY ms")                                                                   \
    X(SQL_PREVIOUS, "SELECT id FROM sales WHERE state <> 'draft' AND (starts_at_ms, id) <"                                                        \
                    " (SELECT starts_at_ms, id FROM sales WHERE id = ?)"                                                                          \
                    " ORDER BY starts_at_ms DESC, id DESC LIMIT 1")                                                                               \
    X(SQL_SERIES, "SELECT " TIME_STEP(                                                                                                            \
                      "at_ms") " AS b, sum(made), sum(taken), sum(paid),"                                                                         \
                               " sum(returned) FROM sale_course WHERE sale_id = ? AND item_id = 0"                                                \
                               " AND width_ms = ? AND at_ms < ? GROUP BY b")                                                                      \
    X(SQL_SUM_STATE,                                                                                                                              \
      "INSERT INTO order_sums(item_id, status, number, units, cents, first_ms, last_ms)"                                                          \
      " VALUES(?, ?, ?, ?, ?, ?, ?)" SQL_ON_CONFLICT(                                                                                             \
          "item_id, status") "number = number "                                                                                                   \
                             "+ " SQL_NEW("number") ", units = units + " SQL_NEW(                                                                 \
                                 "units") ", cents = cents + " SQL_NEW("cents") ", "                                                              \
                                                                                "first_ms "                                                       \
                                                                                "="                                                               \
                                                                                " " SQL_LEAST                                                     \
                                                                                "(first_"                                                         \
                                                                                "ms,"                                                             \
                                                                                " " SQL_NEW(                                                      \
                                                                                    "first"                                                       \
                                                                                    "_ms") "), "                                                  \
                                                                                           "last_"                                                \
                                                                                           "ms "                                                  \
                                                                                           "="                                                    \
                                                                                           " " SQL_GREATEST                                       \
                                                                                           "(last"                                                \
                                                                                           "_ms,"                                                 \
                                                                                           " " SQL_NEW(                                           \
                                                                                               "l"                                                \
                                                                                               "a"                                                \
                                                                                               "s"                                                \
                                                                                               "t"                                                \
                                                                                               "_"                                                \
                                                                                               "m"                                                \
                                                                                               "s") ")")                                          \
    X(SQL_SUM_COURSE,                                                                                                                             \
      "INSERT INTO sale_course(sale_id, item_id, width_ms, at_ms, made, taken, paid, returned)"                                                   \
      " VALUES(?, ?, ?, ?, ?, ?, ?, ?)" SQL_ON_CONFLICT(                                                                                          \
          "sale_id, item_id, width_ms, at_ms") "made = made + " SQL_NEW("made") ", taken = taken "                                                \
                                                                                "+ " SQL_NEW(                                                     \
                                                                                    "tak"                                                         \
                                                                                    "en") ", "                                                    \
                                                                                          "paid "                                                 \
                                                                                          "= "                                                    \
                                                                                          "paid "                                                 \
                                                                                          "+"                                                     \
                                                                                          " " SQL_NEW("paid") ", returned = returned + " SQL_NEW( \
                                                                                              "re"                                                \
                                                                                              "tu"                                                \
                                                                                              "rn"                                                \
                                                                                              "e"                                                 \
                                                                                              "d"))                                               \
    X(SQL_SUM_LENGTH,                                                                                                                             \
      "INSERT INTO booking_lengths(sale_id, ms, bookings) VALUES(?, ?, ?)" SQL_ON_CONFLICT(                                                       \
          "sale_id, ms") "bookings = bookings + " SQL_NEW("bookings"))                                                                            \
    X(SQL_SUM_PAID, "UPDATE holdings SET paid = paid + ? WHERE item_id = ? AND user_id = ?")                                                      \
    X(SQL_READ_TO_SET, "INSERT INTO cursors(name, number, at_ms) VALUES(?, ?, ?)" SQL_ON_CONFLICT(                                                \
                           "name") "number = " SQL_NEW("number") ", at_ms = " SQL_NEW("at_ms"))                                                   \
    X(SQL_IDS, "SELECT next_sale_id, next_item_id FROM meta")                                                                                     \
    X(SQL_IDS_SET, "UPDATE meta SET next_sale_id = ?, next_item_id = ?")                                                                          \
    X(SQL_ITEM,                                                                                                                                   \
      "SELECT i.sale_id, i.price_cents, i.limit_per_user, s.pay_within_s, s.bar_unpaid,"                                                          \
      " s.state, s.currency, k.total, k.available, " SQL_ITEM_HOMES " FROM items i" SQL_JOIN                                                      \
      "sales s ON s.id = i.sale_id" SQL_JOIN "stock k ON k.item_id = i.id"                                                                        \
      " WHERE i.id = ?")                                                                                                                          \
    X(SQL_RESTOCK, "UPDATE stock SET total = total + ?, available = available + ?"                                                                \
                   " WHERE item_id = ?")                                                                                                          \
    X(SQL_RESTOCKED, "SELECT amount FROM restocks WHERE item_id = ? AND request_id = ?")                                                          \
    X(SQL_RESTOCK_ADD, "INSERT INTO restocks(item_id, request_id, amount, at_ms)"                                                                 \
                       " VALUES(?, ?, ?, ?)")                                                                                                     \
    X(SQL_SALE_ADD, "INSERT INTO sales(id, name, state, bar_unpaid, pay_within_s, starts_at_ms,"                                                  \
                    " ends_at_ms, created_at_ms, currency, pay_url)"                                                                              \
                    " VALUES(?, ?, ?, ?, ?, ?, ?, ?, ?, ?)")                                                                                      \
    X(SQL_SALE_SET, "UPDATE sales SET name = ?, bar_unpaid = ?, pay_within_s = ?,"                                                                \
                    " starts_at_ms = ?, ends_at_ms = ?, currency = ?, pay_url = ? WHERE id = ?")                                                  \
    X(SQL_SALE_MOVE, "UPDATE sales SET state = ?, starts_at_ms = ? WHERE id = ?")                                                                 \
    X(SQL_SALE_FORGET, "UPDATE sales SET forgotten = 1 WHERE id = ?")                                                                             \
    X(SQL_SALE_CHANGED, "REPLACE INTO sale_changes(sale_id, number)"                                                                              \
                        " SELECT ?, ifnull(max(number), 0) + 1 FROM sale_changes")                                                                \
    X(SQL_BLOCK_SET, "REPLACE INTO blocks(kind, value, reason, until_ms, at_ms, number) "                                                         \
                     "VALUES(?, ?, ?, ?, ?, ?)")                                                                                                  \
    X(SQL_BLOCKS_STATE, "SELECT (SELECT ifnull(max(number), 0) FROM blocks), (SELECT count(*) "                                                   \
                        "FROM blocks WHERE until_ms IS NULL OR until_ms > ?)")                                                                    \
    X(SQL_BLOCKS_DROP, "DELETE FROM blocks WHERE until_ms <= ? AND at_ms <= ?")                                                                   \
    X(SQL_SALE_DROP, "DELETE FROM sales WHERE id = ?")                                                                                            \
    X(SQL_ITEM_OWNER, "SELECT sale_id FROM items WHERE id = ?")                                                                                   \
    X(SQL_ITEM_ADD, "INSERT INTO items(id, sale_id, position, name, sku, image_url, price_cents,"                                                 \
                    " was_cents, limit_per_user) VALUES(?, ?, ?, ?, ?, ?, ?, ?, ?)")                                                              \
    X(SQL_STOCK_ADD, "INSERT INTO stock(item_id, total, available, locked, sold)"                                                                 \
                     " VALUES(?, ?, ?, 0, 0)")                                                                                                    \
    X(SQL_RESTOCKS_DROP, "DELETE FROM restocks WHERE " OF_SALE)                                                                                   \
    X(SQL_STOCK_DROP, "DELETE FROM stock WHERE " OF_SALE)                                                                                         \
    X(SQL_ITEMS_DROP, "DELETE FROM items WHERE sale_id = ?")

enum sql_statement {
#define X(name, sql) name,
    SQL_STATEMENTS(X)
#undef X
        SQL_STATEMENT_COUNT
};

#endif
