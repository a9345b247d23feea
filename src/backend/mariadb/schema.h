/*
 * The schema, as the ordered list of steps that lead to it: step n takes a database of version n to
 * version n + 1 (ledger_schema.version). A step that has been released is never edited again; a
 * change is a new step at the end.
 *
 * MariaDB commits at each statement that changes tables, so a step may be cut short. Its version is
 * stored after its last statement, and it is done again from its first one: every statement must
 * be one that may be repeated (IF NOT EXISTS, INSERT IGNORE, REPLACE). {all} stands for the orders of
 * all databases, {each} for the table of orders: such a statement is run for each database.
 *
 * The constraints are the last guard: whatever a program above believes, the SQL itself refuses
 * more alive units than there are, an order id twice, a buyer over the limit, and any order move
 * but LOCKED -> PAID, EXPIRED or CANCELLED.
 *
 * Keys that others choose (payment and request ids) are bytes: no collation makes two of them one.
 */
#ifndef SLUICE_BACKEND_MARIADB_SCHEMA_H
#define SLUICE_BACKEND_MARIADB_SCHEMA_H

#include <stddef.h>

#define TABLE_END ") ENGINE=InnoDB CHARACTER SET utf8mb4 COLLATE utf8mb4_bin"
#define WORD(length) "VARCHAR(" #length ") CHARACTER SET ascii COLLATE ascii_bin"
#define ORDER_ID "CHAR(26) CHARACTER SET ascii COLLATE ascii_bin"
#define REFUSE(words) "SIGNAL SQLSTATE '45000' SET MESSAGE_TEXT = '" words "'"

/* Of every table of orders, where they are split over several databases (ledger_split.c), too. */
#define ORDERS_MOVE_RULE                                                                           \
    " FOR EACH ROW"                                                                                \
    "  IF NOT (OLD.status = 'LOCKED' AND NEW.status IN ('PAID', 'EXPIRED', 'CANCELLED')"           \
    "   AND NEW.item_id = OLD.item_id AND NEW.id = OLD.id AND NEW.user_id = OLD.user_id"           \
    "   AND NEW.qty = OLD.qty AND NEW.amount_cents = OLD.amount_cents"                             \
    "   AND NEW.pay_by_ms <=> OLD.pay_by_ms AND NEW.segment <=> OLD.segment)"                      \
    "  THEN " REFUSE("illegal order move") "; END IF"
#define ORDERS_KEEP_RULE " FOR EACH ROW  " REFUSE("orders are kept for ever")

static const char *const schema_1[] = {
    "CREATE TABLE IF NOT EXISTS meta("
    "  id TINYINT NOT NULL PRIMARY KEY CHECK(id = 1),"
    "  booked_lsn BIGINT NOT NULL CHECK(booked_lsn >= 0),"
    "  next_sale_id BIGINT NOT NULL CHECK(next_sale_id > 0),"
    "  next_item_id BIGINT NOT NULL CHECK(next_item_id > 0),"
    "  fence BIGINT NOT NULL CHECK(fence >= 0)," /* raised by every writer that takes over */
    "  owner VARCHAR(255) NOT NULL" TABLE_END,
    "INSERT IGNORE INTO meta VALUES(1, 0, 1, 1, 0, '')",
    "CREATE TABLE IF NOT EXISTS sales("
    "  id BIGINT NOT NULL PRIMARY KEY CHECK(id BETWEEN 1 AND 9007199254740991),"
    "  name VARCHAR(200) NOT NULL,"
    "  state " WORD(
        6) " NOT NULL CHECK(state IN ('draft', 'warm', 'open', 'paused', 'closed')),"
           "  forgotten BOOLEAN NOT NULL DEFAULT 0,"
           "  bar_unpaid BOOLEAN NOT NULL CHECK(bar_unpaid IN (0, 1)),"
           "  pay_within_s INT UNSIGNED NOT NULL CHECK(pay_within_s > 0),"
           "  starts_at_ms BIGINT NOT NULL CHECK(starts_at_ms >= 0),"
           "  ends_at_ms BIGINT NOT NULL,"
           "  created_at_ms BIGINT NOT NULL,"
           "  currency " WORD(
               3) " NOT NULL CHECK(length(currency) = 3),"
                  "  pay_url VARCHAR(512),"
                  "  CONSTRAINT some_time CHECK(ends_at_ms > starts_at_ms),"
                  "  CONSTRAINT only_closed CHECK(forgotten = 0 OR state = 'closed')" TABLE_END,
    "CREATE TABLE IF NOT EXISTS items("
    "  id BIGINT NOT NULL PRIMARY KEY CHECK(id BETWEEN 1 AND 9007199254740991),"
    "  sale_id BIGINT NOT NULL,"
    "  position INT NOT NULL," /* in the order given */
    "  name VARCHAR(200) NOT NULL,"
    "  sku VARCHAR(64),"
    "  image_url VARCHAR(512),"
    "  price_cents BIGINT NOT NULL CHECK(price_cents >= 0),"
    "  was_cents BIGINT CHECK(was_cents > 0),"
    "  limit_per_user BIGINT NOT NULL CHECK(limit_per_user >= 0),"
    "  UNIQUE KEY(sale_id, position),"
    "  FOREIGN KEY(sale_id) REFERENCES sales(id)" TABLE_END,
    "CREATE TABLE IF NOT EXISTS stock("
    "  item_id BIGINT NOT NULL PRIMARY KEY,"
    "  total BIGINT NOT NULL CHECK(total BETWEEN 1 AND 1099511627775),"
    "  available BIGINT NOT NULL CHECK(available >= 0),"
    "  locked BIGINT NOT NULL CHECK(locked >= 0),"
    "  sold BIGINT NOT NULL CHECK(sold >= 0),"
    "  CONSTRAINT adds_up CHECK(available + locked + sold = total),"
    "  FOREIGN KEY(item_id) REFERENCES items(id)" TABLE_END,
    "CREATE TRIGGER IF NOT EXISTS sales_move BEFORE UPDATE ON sales FOR EACH ROW"
    "  IF NEW.state <> OLD.state"
    "   AND (OLD.state = 'closed' OR NEW.state = 'draft'"
    "    OR (NEW.state = 'warm' AND OLD.state <> 'draft')"
    "    OR (OLD.state = 'draft' AND NEW.state NOT IN ('warm', 'open')))"
    "  THEN " REFUSE("illegal sale move") "; END IF",
    "CREATE TRIGGER IF NOT EXISTS sales_keep BEFORE DELETE ON sales FOR EACH ROW"
    "  IF OLD.state <> 'draft' THEN " REFUSE("only a draft may be deleted") "; END IF",
    /* Clustered by item, so that an item is rebuilt from one range. */
    "CREATE TABLE IF NOT EXISTS orders("
    "  item_id BIGINT NOT NULL,"
    "  id " ORDER_ID " NOT NULL CHECK(length(id) = 26),"
    "  user_id BIGINT NOT NULL CHECK(user_id > 0),"
    "  qty BIGINT NOT NULL CHECK(qty > 0),"
    "  status " WORD(
        9) " NOT NULL,"
           "  reason " WORD(
               32) ","
                   "  amount_cents BIGINT NOT NULL CHECK(amount_cents >= 0),"
                   "  created_at_ms BIGINT NOT NULL,"
                   "  locked_at_ms BIGINT,"
                   "  pay_by_ms BIGINT,"
                   "  ended_at_ms BIGINT,"
                   "  lsn BIGINT NOT NULL,"
                   "  payment_id VARBINARY(64),"
                   "  PRIMARY KEY(item_id, id),"
                   "  KEY orders_by_user(user_id, created_at_ms, item_id, id),"
                   "  FOREIGN KEY(item_id) REFERENCES items(id),"
                   "  CONSTRAINT shape CHECK(CASE status"
                   "    WHEN 'LOCKED' THEN reason IS NULL AND locked_at_ms IS NOT NULL AND "
                   "pay_by_ms IS NOT NULL"
                   "      AND ended_at_ms IS NULL AND payment_id IS NULL"
                   "    WHEN 'PAID' THEN reason IS NULL AND locked_at_ms IS NOT NULL AND pay_by_ms "
                   "IS NOT NULL"
                   "      AND ended_at_ms < pay_by_ms AND payment_id IS NOT NULL"
                   "    WHEN 'FAILED' THEN reason IS NOT NULL AND locked_at_ms IS NULL AND "
                   "pay_by_ms IS NULL"
                   "      AND ended_at_ms IS NOT NULL AND payment_id IS NULL"
                   "    WHEN 'EXPIRED' THEN locked_at_ms IS NOT NULL AND ended_at_ms >= pay_by_ms"
                   "      AND payment_id IS NULL"
                   "    WHEN 'CANCELLED' THEN locked_at_ms IS NOT NULL AND ended_at_ms IS NOT NULL"
                   "      AND payment_id IS NULL"
                   "    ELSE 0 END)" TABLE_END,
    "CREATE TRIGGER IF NOT EXISTS orders_move BEFORE UPDATE ON orders FOR EACH ROW"
    "  IF NOT (OLD.status = 'LOCKED' AND NEW.status IN ('PAID', 'EXPIRED', 'CANCELLED')"
    "   AND NEW.item_id = OLD.item_id AND NEW.id = OLD.id AND NEW.user_id = OLD.user_id"
    "   AND NEW.qty = OLD.qty AND NEW.amount_cents = OLD.amount_cents"
    "   AND NEW.pay_by_ms <=> OLD.pay_by_ms)"
    "  THEN " REFUSE("illegal order move") "; END IF",
    "CREATE TRIGGER IF NOT EXISTS orders_keep BEFORE DELETE ON orders" ORDERS_KEEP_RULE,
    "CREATE TABLE IF NOT EXISTS holdings("
    "  item_id BIGINT NOT NULL,"
    "  user_id BIGINT NOT NULL,"
    "  held BIGINT NOT NULL CHECK(held >= 0)," /* units in LOCKED and PAID orders */
    "  limit_per_user BIGINT NOT NULL,"
    "  ended BIGINT NOT NULL CHECK(ended >= 0),"
    "  barred BOOLEAN NOT NULL,"
    "  PRIMARY KEY(item_id, user_id),"
    "  CONSTRAINT within_limit CHECK(limit_per_user = 0 OR held <= limit_per_user)" TABLE_END,
    "CREATE TABLE IF NOT EXISTS payments("
    "  payment_id VARBINARY(64) NOT NULL PRIMARY KEY,"
    "  item_id BIGINT NOT NULL,"
    "  order_id " ORDER_ID " NOT NULL,"
    "  amount_cents BIGINT NOT NULL,"
    "  fingerprint BINARY(16) NOT NULL,"
    "  at_ms BIGINT NOT NULL,"
    "  UNIQUE KEY payments_once(order_id),"
    "  FOREIGN KEY(item_id, order_id) REFERENCES orders(item_id, id)" TABLE_END,
    "CREATE TABLE IF NOT EXISTS restocks("
    "  item_id BIGINT NOT NULL,"
    "  request_id VARBINARY(64) NOT NULL,"
    "  amount BIGINT NOT NULL CHECK(amount > 0),"
    "  at_ms BIGINT NOT NULL,"
    "  PRIMARY KEY(item_id, request_id),"
    "  FOREIGN KEY(item_id) REFERENCES items(id)" TABLE_END,
    "CREATE TABLE IF NOT EXISTS events("
    "  number BIGINT NOT NULL PRIMARY KEY CHECK(number > 0),"
    "  kind " WORD(32) " NOT NULL,"
                       "  at_ms BIGINT NOT NULL,"
                       "  sale_id BIGINT, item_id BIGINT, user_id BIGINT, order_id " ORDER_ID
                       ", qty BIGINT,"
                       "  reason " WORD(32) ","
                                            "  a BIGINT, b BIGINT, c BIGINT, d BIGINT" TABLE_END,
};

/* A gate of several segments, and more writers than one. NULL as a segment: all of them, or a
 * ledger whose gate has one. */
static const char *const schema_2[] = {
    /* 0: one writer alone; else how many segments the gate has, and any number of writers. */
    "ALTER TABLE meta ADD COLUMN IF NOT EXISTS segments INT NOT NULL DEFAULT 0"
    " CHECK(segments BETWEEN 0 AND 64)",
    "ALTER TABLE sales ADD COLUMN IF NOT EXISTS homes INT NOT NULL DEFAULT 0"
    " CHECK(homes BETWEEN 0 AND 64)",
    "ALTER TABLE orders ADD COLUMN IF NOT EXISTS segment SMALLINT",
    "ALTER TABLE holdings ADD COLUMN IF NOT EXISTS segment SMALLINT",
    "ALTER TABLE events ADD COLUMN IF NOT EXISTS segment SMALLINT",
    "CREATE OR REPLACE TRIGGER orders_move BEFORE UPDATE ON orders" ORDERS_MOVE_RULE,
    "CREATE TABLE IF NOT EXISTS segments("
    "  segment SMALLINT NOT NULL PRIMARY KEY CHECK(segment BETWEEN 0 AND 63),"
    "  epoch BIGINT NOT NULL CHECK(epoch > 0)" TABLE_END,
    /* A segment's share of an item, and what of it is alive. */
    "CREATE TABLE IF NOT EXISTS allotments("
    "  segment SMALLINT NOT NULL CHECK(segment BETWEEN 0 AND 63),"
    "  item_id BIGINT NOT NULL,"
    "  amount BIGINT NOT NULL CHECK(amount >= 0),"
    "  locked BIGINT NOT NULL CHECK(locked >= 0),"
    "  sold BIGINT NOT NULL CHECK(sold >= 0),"
    "  PRIMARY KEY(segment, item_id),"
    "  CONSTRAINT within_allotment CHECK(locked + sold <= amount),"
    "  FOREIGN KEY(item_id) REFERENCES items(id)" TABLE_END,
    "CREATE TABLE IF NOT EXISTS transfers("
    "  transfer_id VARBINARY(64) NOT NULL PRIMARY KEY,"
    "  item_id BIGINT NOT NULL,"
    "  segment SMALLINT NOT NULL," /* that the units leave */
    "  to_segment SMALLINT NOT NULL,"
    "  amount BIGINT NOT NULL CHECK(amount > 0)," /* at most */
    "  moved BIGINT,"                             /* really */
    "  state " WORD(5) " NOT NULL,"
                       "  at_ms BIGINT NOT NULL,"
                       "  ended_at_ms BIGINT,"
                       "  KEY transfers_open(state, at_ms, transfer_id),"
                       "  FOREIGN KEY(item_id) REFERENCES items(id),"
                       "  CONSTRAINT elsewhere CHECK(segment <> to_segment),"
                       "  CONSTRAINT transfer_shape CHECK(CASE state"
                       "    WHEN 'open' THEN moved IS NULL AND ended_at_ms IS NULL"
                       "    WHEN 'done' THEN moved BETWEEN 0 AND amount AND ended_at_ms IS NOT NULL"
                       "    WHEN 'void' THEN moved IS NULL AND ended_at_ms IS NOT NULL"
                       "    ELSE 0 END)" TABLE_END,
    "CREATE TABLE IF NOT EXISTS leases("
    "  name VARBINARY(64) NOT NULL PRIMARY KEY,"
    "  holder VARBINARY(128) NOT NULL," /* '': given up */
    "  token BIGINT NOT NULL CHECK(token > 0),"
    "  until_ms BIGINT NOT NULL" TABLE_END,
};

/* How far each reader of events has come. */
static const char *const schema_3[] = {
    "CREATE TABLE IF NOT EXISTS cursors("
    "  name VARBINARY(64) NOT NULL PRIMARY KEY,"
    "  number BIGINT NOT NULL CHECK(number >= 0),"
    "  at_ms BIGINT NOT NULL" TABLE_END,
};

/* Over how many databases the orders are split; 0: not known yet. The other databases are made
 * when that is: they have a table of orders like the one of the first (ledger_split.c). A step
 * that changes `orders` has to change it in each of them ({each}); then the view all_orders is made
 * anew. */
static const char *const schema_4[] = {
    "ALTER TABLE meta ADD COLUMN IF NOT EXISTS databases_count INT NOT NULL DEFAULT 0"
    " CHECK(databases_count BETWEEN 0 AND 16)",
};

/* Buyers' homes by region, as a sale was warmed with them: port/regions.h. */
static const char *const schema_5[] = {
    "ALTER TABLE sales ADD COLUMN IF NOT EXISTS regions VARCHAR(500)",
};

/* The last change of each sale, deleted ones too, numbered in commit order. */
static const char *const schema_6[] = {
    "CREATE TABLE IF NOT EXISTS sale_changes("
    "  sale_id BIGINT NOT NULL PRIMARY KEY,"
    "  number BIGINT NOT NULL CHECK(number > 0),"
    "  UNIQUE KEY sale_changes_in_order(number)" TABLE_END,
    "INSERT IGNORE INTO sale_changes(sale_id, number) SELECT id, id FROM sales",
};

/* The sums that reports are read from (backend/sql/sums.c), and those of the orders that are there. No
 * constraint stands on a sum: it is never a reason to refuse an order. */
#define WIDTHS                                                                                     \
    "(SELECT 10 AS ms UNION ALL SELECT 1000 UNION ALL SELECT 60000 UNION ALL SELECT 3600000) w"
static const char *const schema_7[] = {
    "CREATE TABLE IF NOT EXISTS order_sums("
    "  item_id BIGINT NOT NULL,"
    "  status " WORD(9) " NOT NULL,"
                        "  number BIGINT NOT NULL, units BIGINT NOT NULL, cents BIGINT NOT NULL,"
                        /* when such orders were made */
                        "  first_ms BIGINT NOT NULL, last_ms BIGINT NOT NULL,"
                        "  PRIMARY KEY(item_id, status)" TABLE_END,
    "CREATE TABLE IF NOT EXISTS sale_course("
    "  sale_id BIGINT NOT NULL,"
    "  item_id BIGINT NOT NULL," /* 0: the whole sale */
    "  width_ms BIGINT NOT NULL,"
    "  at_ms BIGINT NOT NULL,"
    "  made BIGINT NOT NULL, taken BIGINT NOT NULL,"
    "  paid BIGINT NOT NULL, returned BIGINT NOT NULL,"
    "  PRIMARY KEY(sale_id, item_id, width_ms, at_ms)" TABLE_END,
    "CREATE TABLE IF NOT EXISTS booking_lengths("
    "  sale_id BIGINT NOT NULL, ms BIGINT NOT NULL, bookings BIGINT NOT NULL,"
    "  PRIMARY KEY(sale_id, ms)" TABLE_END,
    "ALTER TABLE holdings ADD COLUMN IF NOT EXISTS paid BIGINT NOT NULL DEFAULT 0",
    "UPDATE holdings h JOIN (SELECT item_id, user_id, count(*) AS n FROM {all}"
    "  WHERE status = 'PAID' GROUP BY item_id, user_id) p"
    "  ON p.item_id = h.item_id AND p.user_id = h.user_id SET h.paid = p.n",
    "REPLACE INTO order_sums SELECT item_id, status, count(*), sum(qty), sum(amount_cents),"
    "  min(created_at_ms), max(created_at_ms) FROM {all} GROUP BY item_id, status",
    "REPLACE INTO sale_course SELECT i.sale_id, 0, w.ms, o.created_at_ms DIV w.ms * w.ms AS t,"
    "  count(*), sum(CASE WHEN o.status <> 'FAILED' THEN o.qty ELSE 0 END), 0, 0"
    "  FROM {all} o JOIN items i ON i.id = o.item_id JOIN " WIDTHS " GROUP BY i.sale_id, w.ms, t",
    "REPLACE INTO sale_course SELECT i.sale_id, i.id, 1000, o.created_at_ms DIV 1000 * 1000 AS t,"
    "  count(*), sum(CASE WHEN o.status <> 'FAILED' THEN o.qty ELSE 0 END), 0, 0"
    "  FROM {all} o JOIN items i ON i.id = o.item_id GROUP BY i.sale_id, i.id, t",
    "INSERT INTO sale_course SELECT i.sale_id, 0, w.ms, o.ended_at_ms DIV w.ms * w.ms AS t, 0, 0,"
    "  sum(CASE WHEN o.status = 'PAID' THEN o.qty ELSE 0 END),"
    "  sum(CASE WHEN o.status <> 'PAID' THEN o.qty ELSE 0 END)"
    "  FROM {all} o JOIN items i ON i.id = o.item_id JOIN " WIDTHS
    "  WHERE o.ended_at_ms IS NOT NULL AND o.status <> 'FAILED' GROUP BY i.sale_id, w.ms, t"
    "  ON DUPLICATE KEY UPDATE paid = VALUE(paid), returned = VALUE(returned)",
    "REPLACE INTO booking_lengths SELECT sale_id, CASE WHEN d < 1000 THEN d"
    "  WHEN d < 10000 THEN d DIV 10 * 10 WHEN d < 100000 THEN d DIV 100 * 100"
    "  WHEN d < 1000000 THEN d DIV 1000 * 1000 ELSE d DIV 10000 * 10000 END AS t, count(*)"
    "  FROM (SELECT i.sale_id, greatest(0, o.locked_at_ms - o.created_at_ms) AS d FROM {all} o"
    "    JOIN items i ON i.id = o.item_id WHERE o.locked_at_ms IS NOT NULL) b GROUP BY sale_id, t",
};

/* The end of the cooling time that the order's end gave its buyer. */
static const char *const schema_8[] = {
    "ALTER TABLE {each} ADD COLUMN IF NOT EXISTS cooling_until_ms BIGINT",
};

/* Who may not order (port/block.h). The last change of each, numbered in commit order. */
static const char *const schema_9[] = {
    "CREATE TABLE IF NOT EXISTS blocks("
    "  kind " WORD(6) " NOT NULL,"
                      "  value VARBINARY(64) NOT NULL,"
                      "  reason VARCHAR(200) NOT NULL,"
                      "  until_ms BIGINT,"
                      "  at_ms BIGINT NOT NULL,"
                      "  number BIGINT NOT NULL CHECK(number > 0),"
                      "  PRIMARY KEY(kind, value),"
                      "  UNIQUE KEY blocks_in_order(number),"
                      "  KEY blocks_by_end(until_ms)" TABLE_END,
};

/* Orders that one segment is read in, from any place on. Only a shared ledger has them: they cost
 * the one writer a third more for each order. */
#define ORDERS_BY_SEGMENT "(segment, item_id, id)"
#define SEGMENT_INDEXES(X)                                                                         \
    X(orders_by_segment, "orders", ORDERS_BY_SEGMENT)                                              \
    X(holdings_by_segment, "holdings", "(segment, item_id, user_id)")                              \
    X(events_by_segment, "events", "(segment, number)")

/* One step of the way; tests bring steps of their own. */
struct maria_step {
    const char *const *statements;
    size_t count;
};

static const struct maria_step maria_steps[] = {
    {schema_1, sizeof(schema_1) / sizeof(schema_1[0])},
    {schema_2, sizeof(schema_2) / sizeof(schema_2[0])},
    {schema_3, sizeof(schema_3) / sizeof(schema_3[0])},
    {schema_4, sizeof(schema_4) / sizeof(schema_4[0])},
    {schema_5, sizeof(schema_5) / sizeof(schema_5[0])},
    {schema_6, sizeof(schema_6) / sizeof(schema_6[0])},
    {schema_7, sizeof(schema_7) / sizeof(schema_7[0])},
    {schema_8, sizeof(schema_8) / sizeof(schema_8[0])},
    {schema_9, sizeof(schema_9) / sizeof(schema_9[0])},
};
#define MARIA_STEPS_COUNT (sizeof(maria_steps) / sizeof(maria_steps[0]))

#endif
