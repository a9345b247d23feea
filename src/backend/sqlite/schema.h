/*
 * The schema, as the ordered list of steps that lead to it: step n takes a file of version n to
 * version n + 1 (PRAGMA user_version). A step that has been released is never edited again; a
 * change is a new step at the end.
 *
 * The constraints are the last guard: whatever a program above believes, the SQL itself refuses
 * more alive units than there are, an order id twice, a buyer over the limit, and any order move
 * but LOCKED -> PAID, EXPIRED or CANCELLED.
 *
 * Two spellings are for speed: CASE and OR where IN would read better, since SQLite builds a
 * temporary table for IN at every statement that checks it.
 */
#ifndef SLUICE_BACKEND_SQLITE_SCHEMA_H
#define SLUICE_BACKEND_SQLITE_SCHEMA_H

/* "SLUC": says that a SQLite file is a ledger. */
#define SCHEMA_APPLICATION_ID 0x534c5543

#define SCHEMA_1_SALES                                                                             \
    "CREATE TABLE meta("                                                                           \
    "  id INTEGER PRIMARY KEY CHECK(id = 1),"                                                      \
    "  booked_lsn INTEGER NOT NULL CHECK(booked_lsn >= 0),"                                        \
    "  next_sale_id INTEGER NOT NULL CHECK(next_sale_id > 0),"                                     \
    "  next_item_id INTEGER NOT NULL CHECK(next_item_id > 0)"                                      \
    ");"                                                                                           \
    "INSERT INTO meta VALUES(1, 0, 1, 1);"                                                         \
    "CREATE TABLE sales("                                                                          \
    "  id INTEGER PRIMARY KEY CHECK(id BETWEEN 1 AND 9007199254740991),"                           \
    "  name TEXT NOT NULL,"                                                                        \
    "  state TEXT NOT NULL CHECK(state IN ('draft', 'warm', 'open', 'paused', 'closed')),"         \
    "  forgotten INTEGER NOT NULL DEFAULT 0 CHECK(forgotten = 0 OR state = 'closed'),"             \
    "  bar_unpaid INTEGER NOT NULL CHECK(bar_unpaid IN (0, 1)),"                                   \
    "  pay_within_s INTEGER NOT NULL CHECK(pay_within_s > 0),"                                     \
    "  starts_at_ms INTEGER NOT NULL CHECK(starts_at_ms >= 0),"                                    \
    "  ends_at_ms INTEGER NOT NULL,"                                                               \
    "  created_at_ms INTEGER NOT NULL,"                                                            \
    "  currency TEXT NOT NULL CHECK(length(currency) = 3),"                                        \
    "  pay_url TEXT,"                                                                              \
    "  CHECK(ends_at_ms > starts_at_ms)"                                                           \
    ");"                                                                                           \
    "CREATE TABLE items("                                                                          \
    "  id INTEGER PRIMARY KEY CHECK(id BETWEEN 1 AND 9007199254740991),"                           \
    "  sale_id INTEGER NOT NULL REFERENCES sales(id),"                                             \
    "  position INTEGER NOT NULL," /* in the order given */                                        \
    "  name TEXT NOT NULL,"                                                                        \
    "  sku TEXT,"                                                                                  \
    "  image_url TEXT,"                                                                            \
    "  price_cents INTEGER NOT NULL CHECK(price_cents >= 0),"                                      \
    "  was_cents INTEGER CHECK(was_cents > 0),"                                                    \
    "  limit_per_user INTEGER NOT NULL CHECK(limit_per_user >= 0),"                                \
    "  UNIQUE(sale_id, position)"                                                                  \
    ");"                                                                                           \
    "CREATE TABLE stock("                                                                          \
    "  item_id INTEGER PRIMARY KEY REFERENCES items(id),"                                          \
    "  total INTEGER NOT NULL CHECK(total BETWEEN 1 AND 1099511627775),"                           \
    "  available INTEGER NOT NULL CHECK(available >= 0),"                                          \
    "  locked INTEGER NOT NULL CHECK(locked >= 0),"                                                \
    "  sold INTEGER NOT NULL CHECK(sold >= 0),"                                                    \
    "  CHECK(available + locked + sold = total)"                                                   \
    ");"                                                                                           \
    "CREATE TRIGGER sales_move BEFORE UPDATE OF state ON sales"                                    \
    "  WHEN NEW.state <> OLD.state"                                                                \
    "   AND (OLD.state = 'closed' OR NEW.state = 'draft' OR (NEW.state = 'warm' AND OLD.state <> " \
    "'draft') OR (OLD.state = 'draft' AND NEW.state NOT IN ('warm', 'open')))"                     \
    "  BEGIN SELECT RAISE(ABORT, 'illegal sale move'); END;"                                       \
    "CREATE TRIGGER sales_keep BEFORE DELETE ON sales WHEN OLD.state <> 'draft'"                   \
    "  BEGIN SELECT RAISE(ABORT, 'only a draft may be deleted'); END;"

/* orders is clustered by item, so that an item is rebuilt from one range. */
#define SCHEMA_1_ORDERS                                                                            \
    "CREATE TABLE orders("                                                                         \
    "  item_id INTEGER NOT NULL REFERENCES items(id),"                                             \
    "  id TEXT NOT NULL CHECK(length(id) = 26),"                                                   \
    "  user_id INTEGER NOT NULL CHECK(user_id > 0),"                                               \
    "  qty INTEGER NOT NULL CHECK(qty > 0),"                                                       \
    "  status TEXT NOT NULL,"                                                                      \
    "  reason TEXT,"                                                                               \
    "  amount_cents INTEGER NOT NULL CHECK(amount_cents >= 0),"                                    \
    "  created_at_ms INTEGER NOT NULL,"                                                            \
    "  locked_at_ms INTEGER,"                                                                      \
    "  pay_by_ms INTEGER,"                                                                         \
    "  ended_at_ms INTEGER,"                                                                       \
    "  lsn INTEGER NOT NULL,"                                                                      \
    "  payment_id TEXT,"                                                                           \
    "  PRIMARY KEY(item_id, id),"                                                                  \
    "  CONSTRAINT shape CHECK(CASE status"                                                         \
    "    WHEN 'LOCKED' THEN reason IS NULL AND locked_at_ms IS NOT NULL AND pay_by_ms IS NOT NULL" \
    "      AND ended_at_ms IS NULL AND payment_id IS NULL"                                         \
    "    WHEN 'PAID' THEN reason IS NULL AND locked_at_ms IS NOT NULL AND pay_by_ms IS NOT NULL"   \
    "      AND ended_at_ms < pay_by_ms AND payment_id IS NOT NULL"                                 \
    "    WHEN 'FAILED' THEN reason IS NOT NULL AND locked_at_ms IS NULL AND pay_by_ms IS NULL"     \
    "      AND ended_at_ms IS NOT NULL AND payment_id IS NULL"                                     \
    "    WHEN 'EXPIRED' THEN locked_at_ms IS NOT NULL AND ended_at_ms >= pay_by_ms"                \
    "      AND payment_id IS NULL"                                                                 \
    "    WHEN 'CANCELLED' THEN locked_at_ms IS NOT NULL AND ended_at_ms IS NOT NULL"               \
    "      AND payment_id IS NULL"                                                                 \
    "    ELSE 0 END)"                                                                              \
    ") WITHOUT ROWID;"                                                                             \
    "CREATE INDEX orders_by_user ON orders(user_id, created_at_ms, item_id, id);"                  \
    "CREATE TRIGGER orders_move BEFORE UPDATE ON orders"                                           \
    "  WHEN NOT (OLD.status = 'LOCKED'"                                                            \
    "   AND (NEW.status = 'PAID' OR NEW.status = 'EXPIRED' OR NEW.status = 'CANCELLED')"           \
    "   AND NEW.item_id = OLD.item_id AND NEW.id = OLD.id AND NEW.user_id = OLD.user_id"           \
    "   AND NEW.qty = OLD.qty AND NEW.amount_cents = OLD.amount_cents"                             \
    "   AND NEW.pay_by_ms = OLD.pay_by_ms)"                                                        \
    "  BEGIN SELECT RAISE(ABORT, 'illegal order move'); END;"                                      \
    "CREATE TRIGGER orders_keep BEFORE DELETE ON orders"                                           \
    "  BEGIN SELECT RAISE(ABORT, 'orders are kept for ever'); END;"                                \
    "CREATE TABLE holdings("                                                                       \
    "  item_id INTEGER NOT NULL,"                                                                  \
    "  user_id INTEGER NOT NULL,"                                                                  \
    "  held INTEGER NOT NULL CHECK(held >= 0)," /* units in LOCKED and PAID orders */              \
    "  limit_per_user INTEGER NOT NULL,"                                                           \
    "  ended INTEGER NOT NULL CHECK(ended >= 0),"                                                  \
    "  barred INTEGER NOT NULL,"                                                                   \
    "  PRIMARY KEY(item_id, user_id),"                                                             \
    "  CONSTRAINT within_limit CHECK(limit_per_user = 0 OR held <= limit_per_user)"                \
    ") WITHOUT ROWID;"

#define SCHEMA_1_MONEY                                                                             \
    "CREATE TABLE payments("                                                                       \
    "  payment_id TEXT NOT NULL PRIMARY KEY,"                                                      \
    "  item_id INTEGER NOT NULL,"                                                                  \
    "  order_id TEXT NOT NULL,"                                                                    \
    "  amount_cents INTEGER NOT NULL,"                                                             \
    "  fingerprint BLOB NOT NULL CHECK(length(fingerprint) = 16),"                                 \
    "  at_ms INTEGER NOT NULL,"                                                                    \
    "  FOREIGN KEY(item_id, order_id) REFERENCES orders(item_id, id)"                              \
    ") WITHOUT ROWID;"                                                                             \
    "CREATE UNIQUE INDEX payments_once ON payments(order_id);"                                     \
    "CREATE TABLE restocks("                                                                       \
    "  item_id INTEGER NOT NULL REFERENCES items(id),"                                             \
    "  request_id TEXT NOT NULL,"                                                                  \
    "  amount INTEGER NOT NULL CHECK(amount > 0),"                                                 \
    "  at_ms INTEGER NOT NULL,"                                                                    \
    "  PRIMARY KEY(item_id, request_id)"                                                           \
    ") WITHOUT ROWID;"                                                                             \
    "CREATE TABLE events("                                                                         \
    "  number INTEGER PRIMARY KEY CHECK(number > 0),"                                              \
    "  kind TEXT NOT NULL,"                                                                        \
    "  at_ms INTEGER NOT NULL,"                                                                    \
    "  sale_id INTEGER, item_id INTEGER, user_id INTEGER, order_id TEXT, qty INTEGER,"             \
    "  reason TEXT,"                                                                               \
    "  a INTEGER, b INTEGER, c INTEGER, d INTEGER"                                                 \
    ");"

/* How far each reader of events has come. */
#define SCHEMA_2_CURSORS                                                                           \
    "CREATE TABLE cursors("                                                                        \
    "  name TEXT NOT NULL PRIMARY KEY,"                                                            \
    "  number INTEGER NOT NULL CHECK(number >= 0),"                                                \
    "  at_ms INTEGER NOT NULL"                                                                     \
    ") WITHOUT ROWID;"

/* The last change of each sale, deleted ones too, numbered in commit order. */
#define SCHEMA_3_SALE_CHANGES                                                                      \
    "CREATE TABLE sale_changes("                                                                   \
    "  sale_id INTEGER PRIMARY KEY,"                                                               \
    "  number INTEGER NOT NULL CHECK(number > 0)"                                                  \
    ");"                                                                                           \
    "CREATE UNIQUE INDEX sale_changes_in_order ON sale_changes(number);"                           \
    "INSERT INTO sale_changes(sale_id, number) SELECT id, id FROM sales;"

/* The sums that reports are read from (backend/sql/sums.c), and those of the orders that are there. No
 * constraint stands on a sum: it is never a reason to refuse an order. */
#define SCHEMA_4_WIDTHS                                                                            \
    "(SELECT 10 AS ms UNION ALL SELECT 1000 UNION ALL SELECT 60000 UNION ALL SELECT 3600000)"
#define SCHEMA_4_SUMS                                                                              \
    "CREATE TABLE order_sums("                                                                     \
    "  item_id INTEGER NOT NULL,"                                                                  \
    "  status TEXT NOT NULL,"                                                                      \
    "  number INTEGER NOT NULL, units INTEGER NOT NULL, cents INTEGER NOT NULL,"                   \
    "  first_ms INTEGER NOT NULL, last_ms INTEGER NOT NULL," /* when such orders were made */      \
    "  PRIMARY KEY(item_id, status)"                                                               \
    ") WITHOUT ROWID;"                                                                             \
    "CREATE TABLE sale_course("                                                                    \
    "  sale_id INTEGER NOT NULL,"                                                                  \
    "  item_id INTEGER NOT NULL," /* 0: the whole sale */                                          \
    "  width_ms INTEGER NOT NULL,"                                                                 \
    "  at_ms INTEGER NOT NULL,"                                                                    \
    "  made INTEGER NOT NULL, taken INTEGER NOT NULL,"                                             \
    "  paid INTEGER NOT NULL, returned INTEGER NOT NULL,"                                          \
    "  PRIMARY KEY(sale_id, item_id, width_ms, at_ms)"                                             \
    ") WITHOUT ROWID;"                                                                             \
    "CREATE TABLE booking_lengths("                                                                \
    "  sale_id INTEGER NOT NULL, ms INTEGER NOT NULL, bookings INTEGER NOT NULL,"                  \
    "  PRIMARY KEY(sale_id, ms)"                                                                   \
    ") WITHOUT ROWID;"                                                                             \
    "ALTER TABLE holdings ADD COLUMN paid INTEGER NOT NULL DEFAULT 0;"                             \
    "UPDATE holdings SET paid = n FROM (SELECT item_id AS i, user_id AS u, count(*) AS n"          \
    "  FROM orders WHERE status = 'PAID' GROUP BY i, u) WHERE item_id = i AND user_id = u;"        \
    "INSERT INTO order_sums SELECT item_id, status, count(*), sum(qty), sum(amount_cents),"        \
    "  min(created_at_ms), max(created_at_ms) FROM orders GROUP BY item_id, status;"               \
    "INSERT INTO sale_course SELECT i.sale_id, 0, w.ms, o.created_at_ms / w.ms * w.ms, count(*),"  \
    "  sum(CASE WHEN o.status <> 'FAILED' THEN o.qty ELSE 0 END), 0, 0"                            \
    "  FROM orders o JOIN items i ON i.id = o.item_id JOIN " SCHEMA_4_WIDTHS " w"                  \
    "  GROUP BY 1, 2, 3, 4;"                                                                       \
    "INSERT INTO sale_course SELECT i.sale_id, i.id, 1000, o.created_at_ms / 1000 * 1000,"         \
    "  count(*), sum(CASE WHEN o.status <> 'FAILED' THEN o.qty ELSE 0 END), 0, 0"                  \
    "  FROM orders o JOIN items i ON i.id = o.item_id GROUP BY 1, 2, 3, 4;"                        \
    "INSERT INTO sale_course SELECT i.sale_id, 0, w.ms, o.ended_at_ms / w.ms * w.ms, 0, 0,"        \
    "  sum(CASE WHEN o.status = 'PAID' THEN o.qty ELSE 0 END),"                                    \
    "  sum(CASE WHEN o.status <> 'PAID' THEN o.qty ELSE 0 END)"                                    \
    "  FROM orders o JOIN items i ON i.id = o.item_id JOIN " SCHEMA_4_WIDTHS " w"                  \
    "  WHERE o.ended_at_ms IS NOT NULL AND o.status <> 'FAILED' GROUP BY 1, 2, 3, 4"               \
    "  ON CONFLICT(sale_id, item_id, width_ms, at_ms) DO UPDATE SET paid = excluded.paid,"         \
    "  returned = excluded.returned;"                                                              \
    "INSERT INTO booking_lengths SELECT sale_id, CASE WHEN d < 1000 THEN d"                        \
    "  WHEN d < 10000 THEN d / 10 * 10 WHEN d < 100000 THEN d / 100 * 100"                         \
    "  WHEN d < 1000000 THEN d / 1000 * 1000 ELSE d / 10000 * 10000 END AS ms, count(*)"           \
    "  FROM (SELECT i.sale_id, max(0, o.locked_at_ms - o.created_at_ms) AS d FROM orders o"        \
    "    JOIN items i ON i.id = o.item_id WHERE o.locked_at_ms IS NOT NULL) GROUP BY sale_id, ms;"

/* The end of the cooling time that the order's end gave its buyer. */
#define SCHEMA_5_COOLING "ALTER TABLE orders ADD COLUMN cooling_until_ms INTEGER;"

/* Who may not order (port/block.h). The last change of each, numbered in commit order. */
#define SCHEMA_6_BLOCKS                                                                            \
    "CREATE TABLE blocks("                                                                         \
    "  kind TEXT NOT NULL,"                                                                        \
    "  value TEXT NOT NULL,"                                                                       \
    "  reason TEXT NOT NULL,"                                                                      \
    "  until_ms INTEGER,"                                                                          \
    "  at_ms INTEGER NOT NULL,"                                                                    \
    "  number INTEGER NOT NULL CHECK(number > 0),"                                                 \
    "  PRIMARY KEY(kind, value)"                                                                   \
    ") WITHOUT ROWID;"                                                                             \
    "CREATE UNIQUE INDEX blocks_in_order ON blocks(number);"                                       \
    "CREATE INDEX blocks_by_end ON blocks(until_ms);"

/* One step of the way; tests bring steps of their own. */
struct schema_step {
    const char *sql;
};

static const struct schema_step schema_steps[] = {
    {SCHEMA_1_SALES SCHEMA_1_ORDERS SCHEMA_1_MONEY},
    {SCHEMA_2_CURSORS},
    {SCHEMA_3_SALE_CHANGES},
    {SCHEMA_4_SUMS},
    {SCHEMA_5_COOLING},
    {SCHEMA_6_BLOCKS},
};
#define SCHEMA_STEPS_COUNT (sizeof(schema_steps) / sizeof(schema_steps[0]))

#endif
