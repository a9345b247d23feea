#include "fixture.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

const struct ledger_backend *fixture_backend = NULL;

#define HOUR_MS 3600000LL
#define TWENTY_YEARS_MS (20LL * 365 * 24 * HOUR_MS)

static int setup(void **state, uint32_t segments)
{
    struct fixture *f = calloc(1, sizeof(*f));
    assert_non_null(f);
    f->segments = segments;
    fixture_backend->make(f);
    int err = fixture_backend->open(f, true, &f->ledger);
    if (err != 0) {
        fail_msg("open: %s", fixture_backend->error(NULL));
    }
    *state = f;
    return 0;
}

int fixture_setup(void **state)
{
    return setup(state, 0);
}

/* Each segment is in its first life. */
int fixture_setup_shared(void **state)
{
    int err = setup(state, SEGMENTS);
    for (uint32_t i = 0; i < SEGMENTS && err == 0; i++) {
        struct ledger_op op = raise_epoch(i, 0);
        write_op(*state, T0, &op);
        assert_int_equal(op.refusal, REFUSAL_NONE);
        assert_int_equal(op.epoch, 1);
    }
    return err;
}

int fixture_teardown(void **state)
{
    struct fixture *f = *state;
    assert_audit(f);
    if (f->segments > 0) {
        fixture_backend->audit_segments(f);
    }
    fixture_backend->close(f->ledger);
    fixture_backend->discard(f);
    free(f);
    return 0;
}

void fixture_reopen(struct fixture *f)
{
    fixture_backend->close(f->ledger);
    assert_int_equal(fixture_backend->open(f, true, &f->ledger), 0);
}

static void skipped(void **state)
{
    (void)state;
    skip();
}

int ledger_suite_run(const struct ledger_backend *const *backends, size_t backends_count,
                     const struct CMUnitTest *tests, size_t count)
{
    int failures = 0;
    for (size_t b = 0; b < backends_count; b++) {
        const char *missing = backends[b]->missing();
        struct CMUnitTest *copy = calloc(count, sizeof(*copy));
        assert_non_null(copy);
        memcpy(copy, tests, count * sizeof(*copy));
        if (missing != NULL) {
            print_message("skipped on %s: %s\n", backends[b]->name, missing);
        }
        for (size_t i = 0; missing != NULL && i < count; i++) {
            copy[i] = (struct CMUnitTest){.name = tests[i].name, .test_func = skipped};
        }
        fixture_backend = backends[b];
        failures += _cmocka_run_group_tests(backends[b]->name, copy, count, NULL, NULL);
        free(copy);
    }
    return failures;
}

void write_batch(struct fixture *f, int64_t now_ms, struct ledger_op **ops, size_t count)
{
    for (size_t i = 0; i < count; i++) {
        if (ops[i]->kind == LEDGER_BOOK && ops[i]->lsn == 0) {
            ops[i]->lsn = ++f->lsn;
        }
    }
    struct ledger_batch batch = {
        .ops = ops, .count = count, .now_ms = now_ms, .booked_lsn = f->lsn, .error = 1};
    (void)ledger_write(f->ledger, &batch);
    if (batch.error != 0) {
        print_error("%s\n", fixture_backend->error(f->ledger));
    }
    assert_int_equal(batch.error, 0);
    f->events = batch.events;
    f->events_count = batch.events_count;
}

void write_op(struct fixture *f, int64_t now_ms, struct ledger_op *op)
{
    write_batch(f, now_ms, &op, 1);
}

static struct ledger_op book(struct order_id id, uint64_t user, uint32_t qty)
{
    return (struct ledger_op){.kind = LEDGER_BOOK,
                              .command = {.kind = GATE_RESERVE,
                                          .now_ms = T0 + 5,
                                          .id = id,
                                          .user = user,
                                          .item = order_id_item(id),
                                          .qty = qty}};
}

struct ledger_op book_once(uint64_t item, uint64_t user, uint32_t attempt)
{
    return book(order_id_once(item, user, attempt), user, 1);
}

struct ledger_op book_fresh(uint64_t item, uint64_t user, uint32_t qty, uint32_t sequence)
{
    return book(order_id_fresh(item, T0 + 5, sequence), user, qty);
}

static void set_key(struct ledger_op *op, const char *key)
{
    (void)snprintf(op->key, sizeof(op->key), "%s", key);
}

/* The fingerprint stands for the body: here the amount and the order. */
struct ledger_op pay(struct order_id id, const char *payment_id, int64_t amount_cents)
{
    struct ledger_op op = {.kind = LEDGER_PAY, .id = id, .amount_cents = amount_cents};
    memcpy(op.fingerprint, &amount_cents, sizeof(amount_cents));
    memcpy(op.fingerprint + 8, &id.lo, sizeof(id.lo));
    set_key(&op, payment_id);
    return op;
}

struct ledger_op cancel(struct order_id id, uint64_t user)
{
    return (struct ledger_op){.kind = LEDGER_CANCEL, .id = id, .user = user};
}

struct ledger_op expire(struct order_id id)
{
    return (struct ledger_op){.kind = LEDGER_EXPIRE, .id = id};
}

struct ledger_op restock(uint64_t item, uint64_t amount, const char *request_id)
{
    struct ledger_op op = {.kind = LEDGER_RESTOCK, .item = item, .amount = amount};
    set_key(&op, request_id);
    return op;
}

struct ledger_op sale_move(uint64_t sale, enum sale_state target)
{
    return (struct ledger_op){.kind = LEDGER_SALE_MOVE, .sale_id = sale, .target = target};
}

struct ledger_op sale_op(enum ledger_kind kind, uint64_t sale)
{
    return (struct ledger_op){.kind = kind, .sale_id = sale};
}

struct ledger_op book_at(uint32_t segment, uint64_t item, uint64_t user, uint32_t attempt)
{
    struct ledger_op op = book_once(item, user, attempt);
    op.segment = segment;
    op.epoch = 1;
    return op;
}

struct ledger_op raise_epoch(uint32_t segment, uint64_t epoch)
{
    return (struct ledger_op){.kind = LEDGER_EPOCH, .segment = segment, .epoch = epoch};
}

void sale_make(struct fixture *f, uint64_t sale, uint64_t first_item, uint32_t count,
               uint64_t total, uint32_t limit, bool bar_unpaid)
{
    struct item_row *items = calloc(count, sizeof(*items));
    assert_non_null(items);
    for (uint32_t i = 0; i < count; i++) {
        items[i] = (struct item_row){.id = first_item + i,
                                     .price_cents = PRICE,
                                     .limit_per_user = limit,
                                     .total = total,
                                     .name = "item"};
    }
    struct sale_row row = {.id = sale,
                           .bar_unpaid = bar_unpaid,
                           .pay_within_s = PAY_WITHIN_MS / 1000,
                           .starts_at_ms = T0,
                           .ends_at_ms = T0 + (f->segments > 0 ? TWENTY_YEARS_MS : HOUR_MS),
                           .name = "sale",
                           .currency = "CNY",
                           .items_count = count,
                           .items = items};
    struct ledger_op op = {.kind = LEDGER_SALE_CREATE, .sale_in = &row};
    write_op(f, T0 - 1000, &op);
    assert_int_equal(op.refusal, REFUSAL_NONE);
    sale_row_free(op.sale);
    free(items);
}

void sale_open(struct fixture *f, uint64_t sale, uint64_t first_item, uint32_t count,
               uint64_t total, uint32_t limit, bool bar_unpaid)
{
    sale_make(f, sale, first_item, count, total, limit, bar_unpaid);
    struct ledger_op op = sale_move(sale, SALE_OPEN);
    write_op(f, T0, &op);
    assert_int_equal(op.refusal, REFUSAL_NONE);
    sale_row_free(op.sale);
}

void assert_order_equal(const struct order_row *a, const struct order_row *b)
{
    assert_true(order_id_equal(a->id, b->id));
    assert_int_equal(a->user, b->user);
    assert_int_equal(a->sale, b->sale);
    assert_int_equal(a->item, b->item);
    assert_int_equal(a->qty, b->qty);
    assert_int_equal(a->state, b->state);
    assert_int_equal(a->reason, b->reason);
    assert_int_equal(a->amount_cents, b->amount_cents);
    assert_int_equal(a->created_at_ms, b->created_at_ms);
    assert_int_equal(a->locked_at_ms, b->locked_at_ms);
    assert_int_equal(a->pay_by_ms, b->pay_by_ms);
    assert_int_equal(a->ended_at_ms, b->ended_at_ms);
    assert_int_equal(a->cooling_until_ms, b->cooling_until_ms);
    assert_int_equal(a->lsn, b->lsn);
    assert_int_equal(a->segment, b->segment);
    assert_string_equal(a->currency, b->currency);
    assert_string_equal(a->payment_id, b->payment_id);
}

void assert_event_equal(const struct ledger_event *a, const struct ledger_event *b)
{
    assert_int_equal(a->number, b->number);
    assert_int_equal(a->kind, b->kind);
    assert_int_equal(a->at_ms, b->at_ms);
    assert_int_equal(a->segment, b->segment);
    assert_int_equal(a->sale, b->sale);
    assert_int_equal(a->item, b->item);
    assert_int_equal(a->user, b->user);
    assert_true(order_id_equal(a->id, b->id));
    assert_int_equal(a->qty, b->qty);
    assert_int_equal(a->reason, b->reason);
    assert_int_equal(a->a, b->a);
    assert_int_equal(a->b, b->b);
    assert_int_equal(a->c, b->c);
    assert_int_equal(a->d, b->d);
}

void assert_item_equal(const struct item_row *a, const struct item_row *b)
{
    assert_int_equal(a->id, b->id);
    assert_int_equal(a->sale, b->sale);
    assert_int_equal(a->price_cents, b->price_cents);
    assert_int_equal(a->was_cents, b->was_cents);
    assert_int_equal(a->limit_per_user, b->limit_per_user);
    assert_int_equal(a->total, b->total);
    assert_int_equal(a->available, b->available);
    assert_int_equal(a->locked, b->locked);
    assert_int_equal(a->sold, b->sold);
    assert_string_equal(a->name, b->name);
    assert_string_equal(a->sku, b->sku);
    assert_string_equal(a->image_url, b->image_url);
}

#define SQL_MAX 4096

int64_t sql_number(struct fixture *f, const char *format, ...)
{
    char sql[SQL_MAX];
    va_list arguments;
    va_start(arguments, format);
    int length = vsnprintf(sql, sizeof(sql), format, arguments);
    va_end(arguments);
    assert_true(length < SQL_MAX);
    return fixture_backend->number(f, sql);
}

enum sql_outcome sql_run(struct fixture *f, const char *format, ...)
{
    char sql[SQL_MAX];
    va_list arguments;
    va_start(arguments, format);
    int length = vsnprintf(sql, sizeof(sql), format, arguments);
    va_end(arguments);
    assert_true(length < SQL_MAX);
    return fixture_backend->run(f, sql);
}

void assert_stock(struct fixture *f, uint64_t item, int64_t available, int64_t locked, int64_t sold)
{
    long long id = (long long)item;
    assert_int_equal(sql_number(f, "SELECT available FROM stock WHERE item_id = %lld", id),
                     available);
    assert_int_equal(sql_number(f, "SELECT locked FROM stock WHERE item_id = %lld", id), locked);
    assert_int_equal(sql_number(f, "SELECT sold FROM stock WHERE item_id = %lld", id), sold);
}

void assert_holding(struct fixture *f, uint64_t item, uint64_t user, int64_t held, int64_t ended,
                    int64_t barred)
{
    assert_int_equal(sql_number(f,
                                "SELECT count(*) FROM holdings WHERE item_id = %lld AND user_id ="
                                " %lld AND held = %lld AND ended = %lld AND barred = %lld",
                                (long long)item, (long long)user, (long long)held, (long long)ended,
                                (long long)barred),
                     1);
}

#define WIDTHS                                                                                     \
    "(SELECT 10 AS ms UNION ALL SELECT 1000 UNION ALL SELECT 60000 UNION ALL SELECT 3600000) w"
#define OF_SALES " FROM orders o JOIN items i ON i.id = o.item_id "
#define AT(column) column " - " column " % w.ms"

/* No row of a full count `counted` (its keys and numbers named k.*) has other numbers in `kept`. */
static void assert_sums(struct fixture *f, const char *counted, const char *kept, const char *on,
                        const char *differ)
{
    assert_int_equal(sql_number(f, "SELECT count(*) FROM (%s) k LEFT JOIN %s c ON %s WHERE %s",
                                counted, kept, on, differ),
                     0);
}

/* The sums that reports are read from are what the orders add up to. */
void assert_sums_audit(struct fixture *f)
{
    assert_sums(f,
                "SELECT item_id, status, count(*) AS n, sum(qty) AS u, sum(amount_cents) AS m FROM "
                "orders GROUP BY item_id, status",
                "order_sums", "c.item_id = k.item_id AND c.status = k.status",
                "ifnull(c.number, -1) <> n OR c.units <> u OR c.cents <> m");
    assert_sums(f,
                "SELECT item_id, min(created_at_ms) AS a, max(created_at_ms) AS z FROM orders "
                "GROUP BY item_id",
                "(SELECT item_id, min(first_ms) AS b, max(last_ms) AS y FROM order_sums GROUP BY "
                "item_id)",
                "c.item_id = k.item_id", "ifnull(b, -1) <> a OR y <> z");
    assert_sums(f,
                "SELECT i.sale_id AS sale, w.ms AS ms, " AT(
                    "o.created_at_ms") " AS t, count(*) AS "
                                       "n, sum(CASE WHEN status = 'FAILED' THEN 0 ELSE qty END) AS "
                                       "u" OF_SALES "JOIN " WIDTHS
                                       " GROUP BY i.sale_id, w.ms, " AT("o.created_at_ms"),
                "sale_course",
                "c.sale_id = sale AND c.item_id = 0 AND c.width_ms = k.ms AND c.at_ms = t",
                "ifnull(c.made, -1) <> n OR c.taken <> u");
    assert_sums(f,
                "SELECT i.sale_id AS sale, i.id AS item, o.created_at_ms - o.created_at_ms % 1000 "
                "AS t, count(*) AS n" OF_SALES
                "GROUP BY i.sale_id, i.id, o.created_at_ms - o.created_at_ms % 1000",
                "sale_course",
                "c.sale_id = sale AND c.item_id = item AND c.width_ms = 1000 AND c.at_ms = t",
                "ifnull(c.made, -1) <> n");
    assert_sums(
        f,
        "SELECT i.sale_id AS sale, w.ms AS ms, " AT(
            "o.ended_at_ms") " AS t, sum(CASE WHEN "
                             "status = 'PAID' THEN qty ELSE 0 END) AS p, sum(CASE WHEN status = "
                             "'PAID' THEN 0 "
                             "ELSE qty END) AS r" OF_SALES "JOIN " WIDTHS
                             " WHERE o.ended_at_ms IS NOT NULL AND "
                             "status <> 'FAILED' GROUP BY i.sale_id, w.ms, " AT("o.ended_at_ms"),
        "sale_course", "c.sale_id = sale AND c.item_id = 0 AND c.width_ms = k.ms AND c.at_ms = t",
        "ifnull(c.paid, -1) <> p OR c.returned <> r");
    assert_sums(f,
                "SELECT sale, d - d % CASE WHEN d < 1000 THEN 1 WHEN d < 10000 THEN 10 WHEN d < "
                "100000 THEN 100 WHEN d < 1000000 THEN 1000 ELSE 10000 END AS t, count(*) AS n "
                "FROM (SELECT i.sale_id AS sale, CASE WHEN locked_at_ms > created_at_ms THEN "
                "locked_at_ms - created_at_ms ELSE 0 END AS d" OF_SALES
                "WHERE locked_at_ms IS NOT NULL) b GROUP BY sale, t",
                "booking_lengths", "c.sale_id = sale AND c.ms = t", "ifnull(c.bookings, -1) <> n");
    assert_sums(f,
                "SELECT item_id, user_id, sum(status = 'PAID') AS n FROM orders GROUP BY item_id, "
                "user_id",
                "holdings", "c.item_id = k.item_id AND c.user_id = k.user_id",
                "ifnull(c.paid, -1) <> n");
    /* And nothing more is in them. */
    assert_int_equal(
        sql_number(f, "%s",
                   "SELECT abs((SELECT ifnull(sum(number), 0) FROM order_sums) - (SELECT count(*) "
                   "FROM orders)) + abs((SELECT ifnull(sum(made), 0) FROM sale_course) - (SELECT "
                   "5 * count(*) FROM orders)) + abs((SELECT ifnull(sum(paid + returned), 0) FROM "
                   "sale_course) - (SELECT 4 * ifnull(sum(qty), 0) FROM orders WHERE status IN "
                   "('PAID', 'EXPIRED', 'CANCELLED'))) + abs((SELECT ifnull(sum(bookings), 0) FROM "
                   "booking_lengths) - (SELECT count(locked_at_ms) FROM orders))"),
        0);
}

/* A ledger without tables that SQL could look at is audited by its answers alone. */
void assert_audit(struct fixture *f)
{
    if (fixture_backend->number == NULL) {
        return;
    }
    /* Stock is what the orders add up to. */
    assert_int_equal(sql_number(f, "%s",
                                "SELECT count(*) FROM stock k WHERE available + locked + sold <> "
                                "total OR locked <> (SELECT ifnull(sum(qty), 0) FROM orders o "
                                "WHERE o.item_id = k.item_id AND status = 'LOCKED') OR sold <> "
                                "(SELECT ifnull(sum(qty), 0) FROM orders o WHERE o.item_id = "
                                "k.item_id AND status = 'PAID')"),
                     0);
    /* Holdings are, and every order has one. */
    assert_int_equal(
        sql_number(f, "%s",
                   "SELECT count(*) FROM (SELECT item_id, user_id, sum(CASE WHEN status IN "
                   "('LOCKED', 'PAID') THEN qty ELSE 0 END) AS units, sum(status IN ('FAILED', "
                   "'CANCELLED') AND ifnull(reason, '') <> 'BARRED') AS unsold, sum(status = "
                   "'EXPIRED') AS expired, sum(status = 'CANCELLED' AND ifnull(reason, '') = "
                   "'BARRED') AS late, bar_unpaid AS bar "
                   "FROM orders o JOIN items i ON i.id = o.item_id JOIN sales s ON s.id = "
                   "i.sale_id GROUP BY o.item_id, o.user_id, bar_unpaid) t LEFT JOIN holdings h ON "
                   "h.item_id = t.item_id AND h.user_id = t.user_id WHERE ifnull(h.held, -1) <> "
                   "units OR ifnull(h.ended, -1) <> unsold + expired * (1 - bar) OR "
                   "ifnull(h.barred, -1) <> (bar = 1 AND expired + late > 0)"),
        0);
    assert_int_equal(sql_number(f, "%s",
                                "SELECT (SELECT ifnull(sum(held), 0) FROM holdings) - (SELECT "
                                "ifnull(sum(locked + sold), 0) FROM stock)"),
                     0);
    /* Every paid order has its payment, once. */
    assert_int_equal(sql_number(f, "%s",
                                "SELECT (SELECT count(*) FROM orders WHERE status = 'PAID') - "
                                "(SELECT count(*) FROM payments p JOIN orders o ON o.item_id = "
                                "p.item_id AND o.id = p.order_id AND o.payment_id = "
                                "p.payment_id)"),
                     0);
    assert_int_equal(sql_number(f, "SELECT count(*) - ifnull(max(number), 0) FROM events"), 0);
    assert_sums_audit(f);
    fixture_backend->check_keys(f);
}
