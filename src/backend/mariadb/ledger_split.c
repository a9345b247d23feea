/*
 * A ledger whose orders are split over several databases of its server (ledger.url: databases=N):
 * how they are made, and that the number never changes.
 *
 * Only `orders` is split. All else is in the first database, so what has to be one over all orders
 * stays one: stock, shares, what each buyer holds against his limit, payments by their id and by
 * their order, events by their number. One transaction of the server covers all databases.
 *
 * What stays true in SQL: each table of orders has the constraints and triggers that the one table
 * has, and takes only ids whose place it is (CHECK orders_place, the same function as
 * split_place), so that its primary key is one over all of them. A payment needs its order in one of
 * them (trigger payments_of_orders, where one table of orders has a foreign key).
 *
 * What can go wrong: no right to make a database; a database of that name that holds something
 * else, which is refused untouched. Making is done again from its beginning if it was cut short:
 * the number of databases is noted in meta after all else, and from then on it is fixed.
 */
#include <stdarg.h>
#include <stdio.h>

#include "backend/mariadb/maria.h"
#include "backend/mariadb/schema.h"
#include "base/check.h"
#include "base/err.h"

#define SQL_MAX 8192

/* The place of a row, as split_place() says it: of the hash's product, whose low half is cut off, in
 * halves that fit 64 bits. */
#define LOW_HALF "4294967295"
#define HASHED "(user_id ^ (user_id >> 29))"
#define HASH                                                                                       \
    "(((((" HASHED " & " LOW_HALF ") * 484763065) >> 32)"                                          \
    " + (((" HASHED " & " LOW_HALF ") * 3210233709) & " LOW_HALF ")"                               \
    " + (((" HASHED " >> 32) * 484763065) & " LOW_HALF ")) & " LOW_HALF ")"
#define DIGIT(at) "(instr('0123456789ABCDEFGHJKMNPQRSTVWXYZ', substr(id, " #at ", 1)) - 1)"
#define PLACE "(CASE WHEN id < '4' THEN " HASH " ELSE " DIGIT(26) " + 32 * (" DIGIT(25) " & 1) END)"

static int run(struct maria *s, const char *format, ...) __attribute__((format(printf, 2, 3)));
static int run(struct maria *s, const char *format, ...)
{
    char sql[SQL_MAX];
    va_list arguments;
    va_start(arguments, format);
    int length = vsnprintf(sql, sizeof(sql), format, arguments);
    va_end(arguments);
    CHECK(length > 0 && length < SQL_MAX);
    return maria_do(s, sql);
}

/* ---- the number ---- */

int maria_split_check(struct maria *s, bool *ret_noted)
{
    int64_t noted = 0;
    bool free = false;
    int err = maria_number(s, "SELECT databases_count FROM meta", &noted);
    if (err != 0) {
        return err == ERR_NOTFOUND ? maria_say(s, ERR_CORRUPT, "meta has no row") : err;
    }
    uint32_t has = (uint32_t)noted;
    if (has == 0) {
        err = maria_only_drafts(s, &free);
        has = free ? s->address.databases : 1; /* orders of a program that knew one database */
    }
    *ret_noted = noted != 0;
    if (err == 0 && has != s->address.databases) {
        err = maria_say(s, ERR_INVALID,
                        "the ledger in %s has its orders in %u database%s, and ledger.url says "
                        "%u: the number was fixed when the ledger was made, and orders are not "
                        "moved between databases. Say ?databases=%u; for another number begin a "
                        "new ledger in a database of its own",
                        s->address.database, has, has == 1 ? "" : "s", s->address.databases, has);
    }
    return err;
}

int maria_split_note(struct maria *s)
{
    return run(s, "UPDATE meta SET databases_count = %u WHERE databases_count = 0",
               s->address.databases);
}

/* ---- making them ---- */

/* Nothing but a table of orders without orders may be there: what an attempt cut short has left. */
static int check_free(struct maria *s, uint32_t place, const char *name)
{
    char sql[256];
    int64_t others = 0;
    int64_t same = 0;
    int64_t row = 0;
    (void)snprintf(sql, sizeof(sql),
                   "SELECT ifnull(sum(table_name <> 'orders'), 0) FROM information_schema.tables"
                   " WHERE table_schema = concat(database(), '_%u')",
                   place);
    int err = maria_number(s, sql, &others);
    if (err == 0) {
        (void)snprintf(sql, sizeof(sql),
                       "SELECT count(*) FROM information_schema.tables"
                       " WHERE table_schema = concat(database(), '_%u') AND table_name = 'orders'",
                       place);
        err = maria_number(s, sql, &same);
    }
    if (err == 0 && others == 0 && same > 0) {
        (void)snprintf(sql, sizeof(sql), "SELECT 1 FROM %s.orders LIMIT 1", name);
        err = maria_number(s, sql, &row);
        err = err == ERR_NOTFOUND ? 0 : err;
    }
    if (err == 0 && (others > 0 || row > 0)) {
        err = maria_say(s, ERR_INVALID,
                        "the database %s is to hold orders of the ledger in %s, and holds other "
                        "tables or another ledger's orders: drop it, or give the ledger another "
                        "name",
                        name, s->address.database);
    }
    return err;
}

static int make_database(struct maria *s, uint32_t place, const char *name)
{
    int err = run(s, "CREATE DATABASE IF NOT EXISTS %s", name);
    if (err != 0 && s->denied) {
        return maria_say(s, err,
                         "ledger.url says databases=%u, and the user %s may not make %s: GRANT ALL "
                         "ON `%s\\_%%`.* to the user, or make the databases and GRANT ALL ON each",
                         s->address.databases, s->address.user, name, s->address.database);
    }
    if (err == 0) {
        err = check_free(s, place, name);
    }
    /* Its columns, keys and checks; not its foreign keys and triggers. */
    if (err == 0) {
        err = run(s, "CREATE OR REPLACE TABLE %s.orders LIKE orders", name);
    }
    if (err == 0) {
        char first[SPLIT_NAME_MAX];
        split_name(s->address.database, 0, first);
        err = run(s,
                  "ALTER TABLE %s.orders ADD FOREIGN KEY IF NOT EXISTS"
                  " orders_of_items(item_id) REFERENCES %s.items(id)",
                  name, first);
    }
    if (err == 0) {
        err = run(s, "CREATE OR REPLACE TRIGGER %s.orders_move BEFORE UPDATE ON %s.orders%s", name,
                  name, ORDERS_MOVE_RULE);
    }
    return err != 0
               ? err
               : run(s, "CREATE OR REPLACE TRIGGER %s.orders_keep BEFORE DELETE ON %s.orders%s",
                     name, name, ORDERS_KEEP_RULE);
}

/* Only orders whose place it is. The table may have been made like one that has the constraint. */
static int guard_place(struct maria *s, uint32_t place, const char *name)
{
    int err = run(s, "ALTER TABLE %s.orders DROP CONSTRAINT IF EXISTS orders_place", name);
    return err != 0 ? err
                    : run(s,
                          "ALTER TABLE %s.orders ADD CONSTRAINT orders_place CHECK(" PLACE
                          " %% %u = %u)",
                          name, s->address.databases, place);
}

/* What is said of every database, behind what is said first, with words in between. */
static void say_each(const struct maria *s, struct out *out, const char *format,
                     const char *between)
{
    for (uint32_t i = 0; i < s->address.databases; i++) {
        char name[SPLIT_NAME_MAX];
        split_name(s->address.database, i, name);
        out_bytes(out, between, i == 0 ? 0 : strlen(between));
        for (const char *c = format; *c != '\0'; c++) {
            if (*c == '@') {
                out_bytes(out, name, strlen(name));
            } else {
                out_char(out, *c);
            }
        }
    }
}

static int run_out(struct maria *s, struct out *out)
{
    out_char(out, '\0');
    CHECK(!out->overflow);
    return maria_do(s, out->at);
}

/* Payments have their order in one of the databases. */
static int guard_payments(struct maria *s)
{
    char sql[SQL_MAX];
    struct out out = out_over(sql, sizeof(sql));
    out_lit(&out, "CREATE OR REPLACE TRIGGER payments_of_orders BEFORE INSERT ON payments"
                  " FOR EACH ROW IF NOT (");
    say_each(s, &out,
             "EXISTS(SELECT 1 FROM @.orders WHERE item_id = NEW.item_id AND id = NEW.order_id)",
             " OR ");
    out_lit(&out, ") THEN " REFUSE("a payment of no order") "; END IF");
    int err = run_out(s, &out);
    return err != 0
               ? err
               : maria_do(s, "ALTER TABLE payments DROP FOREIGN KEY IF EXISTS payments_ibfk_1");
}

/* For reports, and for people. */
int maria_split_view(struct maria *s)
{
    char sql[SQL_MAX];
    struct out out = out_over(sql, sizeof(sql));
    out_lit(&out, "CREATE OR REPLACE SQL SECURITY INVOKER VIEW all_orders AS ");
    say_each(s, &out, "SELECT * FROM @.orders", " UNION ALL ");
    return run_out(s, &out);
}

/* One database, where an attempt at several may have been cut short and given up. */
static int make_one(struct maria *s)
{
    int64_t guarded = 0;
    int err = maria_do(s, "ALTER TABLE orders DROP CONSTRAINT IF EXISTS orders_place");
    if (err == 0) {
        err = maria_number(s,
                           "SELECT count(*) FROM information_schema.triggers WHERE trigger_schema"
                           " = database() AND trigger_name = 'payments_of_orders'",
                           &guarded);
    }
    if (err == 0 && guarded > 0) {
        err = maria_do(s, "ALTER TABLE payments ADD FOREIGN KEY IF NOT EXISTS payments_ibfk_1"
                          "(item_id, order_id) REFERENCES orders(item_id, id)");
        err = err != 0 ? err : maria_do(s, "DROP TRIGGER payments_of_orders");
    }
    return err != 0 ? err : maria_do(s, "DROP VIEW IF EXISTS all_orders");
}

int maria_split_make(struct maria *s)
{
    int err = 0;
    if (s->address.databases == 1) {
        return make_one(s);
    }
    for (uint32_t i = 0; i < s->address.databases && err == 0; i++) {
        char name[SPLIT_NAME_MAX];
        split_name(s->address.database, i, name);
        err = i == 0 ? 0 : make_database(s, i, name);
        err = err != 0 ? err : guard_place(s, i, name);
    }
    if (err == 0) {
        err = maria_split_view(s);
    }
    return err != 0 ? err : guard_payments(s);
}

int maria_split_indexes(struct maria *s, bool wanted)
{
    int err = 0;
    for (uint32_t i = 1; i < s->address.databases && err == 0; i++) {
        char name[SPLIT_NAME_MAX];
        split_name(s->address.database, i, name);
        err = wanted ? run(s, "CREATE INDEX IF NOT EXISTS orders_by_segment ON %s.orders%s", name,
                           ORDERS_BY_SEGMENT)
                     : run(s, "DROP INDEX IF EXISTS orders_by_segment ON %s.orders", name);
    }
    return err;
}
