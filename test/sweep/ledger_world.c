/* See ledger_world.h. */
#include "ledger_world.h"

#include <sqlite3.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/check.h"
#include "fault.h"

/* Sale 1 is open: item 11 one each, 12 three each, 13 without limit, 14 with two units. 2, 3 and 6
 * are drafts, 4 is closed, 5 is warm. */
#define SALE 1
#define ONCE 11
#define THREE 12
#define FREE 13
#define RARE 14

enum { USER_PAYS = 101, USER_CANCELS, USER_EXPIRES, USER_PAID, USER_FULL, USER_NEW };

/* ---- the ledger ---- */

static void open_shop(struct fixture *f)
{
    static const uint32_t limits[] = {1, 3, 0, 0};
    struct item_row items[4];
    memset(items, 0, sizeof(items));
    for (uint64_t i = 0; i < 4; i++) {
        items[i].id = ONCE + i;
        items[i].price_cents = PRICE;
        items[i].limit_per_user = limits[i];
        items[i].total = i == 3 ? 2 : 100;
        (void)snprintf(items[i].name, sizeof(items[i].name), "item %d of a sale with long names",
                       (int)i);
        (void)snprintf(items[i].sku, sizeof(items[i].sku), "sku-%d", (int)i);
        (void)snprintf(items[i].image_url, sizeof(items[i].image_url),
                       "https://shop.example/pictures/%d.jpg", (int)i);
    }
    struct sale_row row = {.id = SALE,
                           .bar_unpaid = true,
                           .pay_within_s = PAY_WITHIN_MS / 1000,
                           .starts_at_ms = T0,
                           .ends_at_ms = T0 + 3600000,
                           .name = "a sale with a name that is long enough to need memory",
                           .currency = "CNY",
                           .pay_url = "https://pay.example/{order}",
                           .items_count = 4,
                           .items = items};
    struct ledger_op create = {.kind = LEDGER_SALE_CREATE, .sale_in = &row};
    write_op(f, T0 - 1000, &create);
    sale_row_free(create.sale);
    struct ledger_op move = sale_move(SALE, SALE_OPEN);
    write_op(f, T0, &move);
    sale_row_free(move.sale);
}

static void move(struct fixture *f, uint64_t sale, enum sale_state target)
{
    struct ledger_op op = sale_move(sale, target);
    write_op(f, T0, &op);
    assert_int_equal(op.refusal, REFUSAL_NONE);
    sale_row_free(op.sale);
}

static void sell(struct fixture *f, int64_t now_ms, struct ledger_op op)
{
    write_op(f, now_ms, &op);
    assert_int_equal(op.refusal, REFUSAL_NONE);
    assert_int_equal(op.order.state, ORDER_LOCKED);
}

void ledger_world_fill(struct fixture *f)
{
    open_shop(f);
    sale_make(f, 2, 21, 2, 10, 0, false);
    sale_make(f, 3, 31, 1, 10, 0, false);
    sale_make(f, 4, 41, 1, 10, 0, false);
    move(f, 4, SALE_OPEN);
    move(f, 4, SALE_CLOSED);
    sale_make(f, 5, 51, 1, 10, 0, false);
    move(f, 5, SALE_WARM);
    sale_make(f, 6, 61, 1, 10, 0, false);
    sell(f, T0 + 10, book_fresh(FREE, USER_EXPIRES, 2, 3)); /* due when the batches come */
    sell(f, T0 + 1000, book_fresh(FREE, USER_PAYS, 2, 1));
    sell(f, T0 + 1000, book_fresh(FREE, USER_CANCELS, 1, 2));
    sell(f, T0 + 1000, book_once(ONCE, USER_PAID, 0));
    sell(f, T0 + 1000, book_fresh(THREE, USER_FULL, 3, 4));
    sell(f, T0 + 1000, book_fresh(RARE, USER_PAID, 1, 5));
    struct ledger_op paid = pay(order_id_once(ONCE, USER_PAID, 0), "payment-before", PRICE);
    write_op(f, T0 + 2000, &paid);
    assert_int_equal(paid.refusal, REFUSAL_NONE);
    struct ledger_op failed = book_fresh(RARE, USER_NEW, 2, 6);
    write_op(f, T0 + 2000, &failed);
    assert_int_equal(failed.order.state, ORDER_FAILED);
    f->lsn = 20;
}

/* ---- batches ---- */

static void batch_start(struct world_batch *b)
{
    memset(b, 0, sizeof(*b));
    b->batch.now_ms = LEDGER_WORLD_NOW;
    b->batch.booked_lsn = 40;
    b->batch.ops = b->list;
}

static void batch_add(struct world_batch *b, struct ledger_op op)
{
    CHECK(b->batch.count < LEDGER_WORLD_OPS);
    op.lsn = op.kind == LEDGER_BOOK ? 21 + b->batch.count : 0;
    b->ops[b->batch.count] = op;
    b->list[b->batch.count] = &b->ops[b->batch.count];
    b->batch.count++;
}

static struct order_id fresh_id(uint64_t item, uint32_t sequence)
{
    return order_id_fresh(item, T0 + 5, sequence);
}

void world_batch_plain(struct world_batch *ret_batch)
{
    struct world_batch *b = ret_batch;
    batch_start(b);
    b->items[0] = (struct item_row){.id = 71, .price_cents = 5, .total = 9, .name = "new"};
    b->items[1] = (struct item_row){.id = 23, .price_cents = 6, .total = 8, .name = "other"};
    b->created = (struct sale_row){.id = 7,
                                   .pay_within_s = 60,
                                   .starts_at_ms = T0,
                                   .ends_at_ms = T0 + 7200000,
                                   .name = "created",
                                   .currency = "EUR",
                                   .items_count = 1,
                                   .items = &b->items[0]};
    b->changed = (struct sale_row){.name = "changed", .items_count = 1, .items = &b->items[1]};
    batch_add(b, book_once(ONCE, USER_NEW, 0));
    batch_add(b, book_fresh(FREE, USER_NEW, 3, 7));
    batch_add(b, pay(fresh_id(FREE, 1), "payment-now", 2 * PRICE));
    batch_add(b, pay(order_id_once(ONCE, USER_PAID, 0), "payment-before", PRICE));
    batch_add(b, cancel(fresh_id(FREE, 2), USER_CANCELS));
    batch_add(b, expire(fresh_id(FREE, 3)));
    batch_add(b, restock(FREE, 7, "restock-now"));
    batch_add(b, (struct ledger_op){.kind = LEDGER_SALE_CREATE, .sale_in = &b->created});
    batch_add(b, (struct ledger_op){.kind = LEDGER_SALE_CHANGE,
                                    .sale_id = 2,
                                    .sale_in = &b->changed,
                                    .changes = SALE_HAS_NAME | SALE_HAS_ITEMS});
    batch_add(b, sale_op(LEDGER_SALE_DELETE, 3));
    batch_add(b, sale_op(LEDGER_SALE_FORGET, 4));
    batch_add(b, sale_move(5, SALE_OPEN));
    batch_add(b, sale_move(6, SALE_WARM));
}

void world_batch_careful(struct world_batch *ret_batch)
{
    struct world_batch *b = ret_batch;
    batch_start(b);
    batch_add(b, book_fresh(FREE, USER_NEW, 1, 8));
    batch_add(b, book_fresh(THREE, USER_FULL, 1, 9)); /* over the limit */
    batch_add(b, book_fresh(RARE, USER_FULL, 1, 10)); /* the last one */
    batch_add(b, book_fresh(RARE, USER_NEW, 1, 11));  /* no stock */
    batch_add(b, pay(fresh_id(FREE, 1), "payment-now", 2 * PRICE));
    batch_add(b, cancel(fresh_id(FREE, 2), 0));
    batch_add(b, expire(fresh_id(FREE, 3)));
    batch_add(b, restock(RARE, 1, "restock-now"));
}

void world_batch_clear(struct world_batch *batch)
{
    for (size_t i = 0; i < batch->batch.count; i++) {
        sale_row_free(batch->ops[i].sale);
        batch->ops[i].sale = NULL;
    }
}

/* ---- queries ---- */

struct text {
    char *at;
    size_t left;
};

static void say(struct text *text, const char *format, ...) __attribute__((format(printf, 2, 3)));
static void say(struct text *text, const char *format, ...)
{
    va_list arguments;
    va_start(arguments, format);
    int n = vsnprintf(text->at, text->left, format, arguments);
    va_end(arguments);
    CHECK(n >= 0 && (size_t)n < text->left);
    text->at += n;
    text->left -= (size_t)n;
}

static void say_order(struct text *text, const struct order_row *o)
{
    say(text, "order %llx-%llx %llu %llu %llu %u %d %d %lld %lld %lld %lld %lld %llu %s %s\n",
        (unsigned long long)o->id.hi, (unsigned long long)o->id.lo, (unsigned long long)o->user,
        (unsigned long long)o->sale, (unsigned long long)o->item, o->qty, (int)o->state,
        (int)o->reason, (long long)o->amount_cents, (long long)o->created_at_ms,
        (long long)o->locked_at_ms, (long long)o->pay_by_ms, (long long)o->ended_at_ms,
        (unsigned long long)o->lsn, o->currency, o->payment_id);
}

static void say_event(struct text *text, const struct ledger_event *e)
{
    say(text, "event %llu %d %lld %llu %llu %llu %llx-%llx %u %d %lld %lld %lld %lld\n",
        (unsigned long long)e->number, (int)e->kind, (long long)e->at_ms,
        (unsigned long long)e->sale, (unsigned long long)e->item, (unsigned long long)e->user,
        (unsigned long long)e->id.hi, (unsigned long long)e->id.lo, e->qty, (int)e->reason,
        (long long)e->a, (long long)e->b, (long long)e->c, (long long)e->d);
}

static void say_sale(struct text *text, const struct sale_row *s)
{
    say(text, "sale %llu %d %d %d %u %lld %lld %lld %s %s %s\n", (unsigned long long)s->id,
        (int)s->state, s->forgotten, s->bar_unpaid, s->pay_within_s, (long long)s->starts_at_ms,
        (long long)s->ends_at_ms, (long long)s->created_at_ms, s->name, s->currency, s->pay_url);
    for (uint32_t i = 0; i < s->items_count; i++) {
        const struct item_row *k = &s->items[i];
        say(text, "item %llu %llu %u %u %u %llu %llu %llu %llu %s %s %s\n",
            (unsigned long long)k->id, (unsigned long long)k->sale, k->price_cents, k->was_cents,
            k->limit_per_user, (unsigned long long)k->total, (unsigned long long)k->available,
            (unsigned long long)k->locked, (unsigned long long)k->sold, k->name, k->sku,
            k->image_url);
    }
}

static void say_report(struct text *text, const struct report_row *r)
{
    say(text, "report %llu %lld %lld %llu %llu %lld", (unsigned long long)r->item,
        (long long)r->first_order_ms, (long long)r->last_order_ms, (unsigned long long)r->buyers,
        (unsigned long long)r->peak_orders_per_s, (long long)r->paid_cents);
    for (int i = 0; i < ORDER_STATE_COUNT; i++) {
        say(text, " %llu/%llu", (unsigned long long)r->orders[i], (unsigned long long)r->units[i]);
    }
    say(text, "\n");
}

#define ROWS 64
static struct sale_row *sales[ROWS];
static struct sale_change_row changes[ROWS];
static struct order_row orders[ROWS];
static struct ledger_event events[ROWS];
static struct report_row reports[ROWS];

static void say_answer(struct text *text, const struct ledger_query *q)
{
    say(text, "query %d: %u %s %llu %llu %lld\n", (int)q->kind, q->count, q->next,
        (unsigned long long)q->booked_lsn, (unsigned long long)q->last_event,
        (long long)q->highest_ms);
    for (uint32_t i = 0; i < q->count; i++) {
        switch (q->kind) {
        case QUERY_SALES:
            say_sale(text, sales[i]);
            sale_row_free(sales[i]);
            break;
        case QUERY_SALE_CHANGES:
            say(text, "change %llu: sale %llu%s\n", (unsigned long long)changes[i].number,
                (unsigned long long)changes[i].sale, changes[i].gone ? ", gone" : "");
            break;
        case QUERY_EVENTS:
            say_event(text, &events[i]);
            break;
        case QUERY_REPORT:
            say_report(text, &reports[i]);
            break;
        default:
            say_order(text, &orders[i]);
            break;
        }
    }
}

int ledger_world_ask(struct ledger *ledger, char *ret_text)
{
    const struct ledger_query queries[] = {
        {.kind = QUERY_STATE},
        {.kind = QUERY_SALES, .limit = ROWS},
        {.kind = QUERY_SALES, .sale = SALE, .limit = 1},
        {.kind = QUERY_SALE_CHANGES, .limit = ROWS},
        {.kind = QUERY_ORDERS, .state = -1, .limit = ROWS},
        {.kind = QUERY_ORDERS, .user = USER_PAID, .state = -1, .limit = 1},
        {.kind = QUERY_ORDERS, .item = FREE, .state = ORDER_LOCKED, .limit = ROWS},
        {.kind = QUERY_ORDERS, .sale = SALE, .state = -1, .limit = 3},
        {.kind = QUERY_ORDER, .id = order_id_once(ONCE, USER_PAID, 0)},
        {.kind = QUERY_EVENTS, .limit = ROWS},
        {.kind = QUERY_LOCKED, .limit = ROWS},
        {.kind = QUERY_REPORT, .sale = SALE, .limit = ROWS},
    };
    struct text text = {ret_text, LEDGER_WORLD_ANSWERS};
    for (size_t i = 0; i < sizeof(queries) / sizeof(queries[0]); i++) {
        struct ledger_query query = queries[i];
        query.sales = sales;
        query.changes = changes;
        query.orders = orders;
        query.events = events;
        query.report = reports;
        (void)PRODUCT(ledger_read(ledger, &query));
        if (query.error != 0) {
            CHECK(query.count == 0);
            return query.error;
        }
        say_answer(&text, &query);
    }
    return 0;
}

/* ---- the digest ---- */

static void digest_text(uint64_t *digest, const void *bytes, size_t n)
{
    for (size_t i = 0; i < n; i++) {
        *digest = (*digest ^ ((const uint8_t *)bytes)[i]) * 0x100000001b3ULL;
    }
    *digest = (*digest ^ 0x100) * 0x100000001b3ULL;
}

static void digest_rows(uint64_t *digest, sqlite3 *db, const char *sql)
{
    sqlite3_stmt *row;
    assert_int_equal(sqlite3_prepare_v2(db, sql, -1, &row, NULL), SQLITE_OK);
    int code;
    while ((code = sqlite3_step(row)) == SQLITE_ROW) {
        for (int i = 0; i < sqlite3_column_count(row); i++) {
            const void *bytes = sqlite3_column_blob(row, i);
            int type = sqlite3_column_type(row, i);
            digest_text(digest, &type, sizeof(type));
            digest_text(digest, bytes, (size_t)sqlite3_column_bytes(row, i));
        }
    }
    assert_int_equal(code, SQLITE_DONE);
    (void)sqlite3_finalize(row);
}

uint64_t ledger_world_digest(const char *path)
{
    uint64_t digest = 0xcbf29ce484222325ULL;
    sqlite3 *db;
    sqlite3_stmt *table;
    assert_int_equal(sqlite3_open_v2(path, &db, SQLITE_OPEN_READWRITE, NULL), SQLITE_OK);
    digest_rows(&digest, db, "PRAGMA integrity_check");
    digest_rows(&digest, db, "PRAGMA user_version");
    digest_rows(&digest, db, "SELECT type, name, sql FROM sqlite_master ORDER BY name");
    assert_int_equal(sqlite3_prepare_v2(db,
                                        "SELECT 'SELECT * FROM ' || name || ' ORDER BY 1, 2' FROM "
                                        "sqlite_master WHERE type = 'table' ORDER BY name",
                                        -1, &table, NULL),
                     SQLITE_OK);
    while (sqlite3_step(table) == SQLITE_ROW) {
        digest_rows(&digest, db, (const char *)sqlite3_column_text(table, 0));
    }
    (void)sqlite3_finalize(table);
    assert_int_equal(sqlite3_close(db), SQLITE_OK);
    return digest;
}
