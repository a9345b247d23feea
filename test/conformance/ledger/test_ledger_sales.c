/*
 * The ops on sales: ids, what a draft allows and a known sale no longer does, the moves and their
 * events, forgetting.
 */
#include "fixture.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

struct draft {
    struct sale_row sale;
    struct item_row items[3];
};

/* A sale of three items, without ids. */
static void draft_init(struct draft *d)
{
    *d = (struct draft){.sale = {.bar_unpaid = true,
                                 .pay_within_s = 600,
                                 .starts_at_ms = T0,
                                 .ends_at_ms = T0 + 3600000,
                                 .name = "春季 sale",
                                 .currency = "CNY",
                                 .pay_url = "https://pay.example/{order_id}",
                                 .items_count = 3}};
    d->sale.items = d->items;
    for (uint32_t i = 0; i < 3; i++) {
        d->items[i] = (struct item_row){.price_cents = 100 * (i + 1),
                                        .was_cents = i == 0 ? 500 : 0,
                                        .limit_per_user = i,
                                        .total = 10 + i};
        (void)snprintf(d->items[i].name, sizeof(d->items[i].name), "item %u", i);
    }
    (void)snprintf(d->items[1].sku, sizeof(d->items[1].sku), "SKU-1");
    (void)snprintf(d->items[1].image_url, sizeof(d->items[1].image_url), "/i/1.png");
}

static struct ledger_op create(struct fixture *f, struct draft *d)
{
    struct ledger_op op = {.kind = LEDGER_SALE_CREATE, .sale_in = &d->sale};
    write_op(f, T0 - 5000, &op);
    return op;
}

/* Creates a draft and gives its id. */
static uint64_t created(struct fixture *f)
{
    struct draft d;
    draft_init(&d);
    struct ledger_op op = create(f, &d);
    assert_int_equal(op.refusal, REFUSAL_NONE);
    uint64_t id = op.sale->id;
    sale_row_free(op.sale);
    return id;
}

static struct ledger_op change(struct fixture *f, uint64_t id, struct draft *d, uint32_t changes)
{
    struct ledger_op op = {
        .kind = LEDGER_SALE_CHANGE, .sale_id = id, .sale_in = &d->sale, .changes = changes};
    write_op(f, T0 + 100, &op);
    return op;
}

static enum refusal move(struct fixture *f, uint64_t id, enum sale_state target, int64_t now_ms,
                         bool *ret_repeated)
{
    struct ledger_op op = sale_move(id, target);
    write_op(f, now_ms, &op);
    assert_true(op.refusal == REFUSAL_NONE || op.sale == NULL);
    assert_true(op.refusal != REFUSAL_NONE || op.sale->state == target ||
                (op.repeated && target == SALE_WARM && op.sale->state != SALE_CLOSED));
    sale_row_free(op.sale);
    *ret_repeated = op.repeated;
    return op.refusal;
}

static void moved(struct fixture *f, uint64_t id, enum sale_state target, int64_t now_ms)
{
    bool repeated;
    assert_int_equal(move(f, id, target, now_ms, &repeated), REFUSAL_NONE);
    assert_false(repeated);
}

static void test_create(void **state)
{
    struct fixture *f = *state;
    struct draft d;
    draft_init(&d);
    struct ledger_op op = create(f, &d);
    assert_int_equal(op.refusal, REFUSAL_NONE);
    struct sale_row *sale = op.sale;
    assert_int_equal(sale->id, 1);
    assert_int_equal(sale->state, SALE_DRAFT);
    assert_int_equal(sale->created_at_ms, T0 - 5000);
    assert_true(sale->bar_unpaid);
    assert_false(sale->forgotten);
    assert_int_equal(sale->pay_within_s, 600);
    assert_int_equal(sale->starts_at_ms, T0);
    assert_int_equal(sale->ends_at_ms, T0 + 3600000);
    assert_string_equal(sale->name, d.sale.name);
    assert_string_equal(sale->currency, "CNY");
    assert_string_equal(sale->pay_url, d.sale.pay_url);
    assert_int_equal(sale->items_count, 3);
    for (uint32_t i = 0; i < 3; i++) {
        struct item_row expected = d.items[i];
        expected.id = 1 + i;
        expected.sale = 1;
        expected.available = expected.total;
        assert_item_equal(&sale->items[i], &expected);
    }
    assert_int_equal(f->events_count, 0);
    sale_row_free(sale);
}

static void test_ids_given_and_counted(void **state)
{
    struct fixture *f = *state;
    struct draft d;
    draft_init(&d);
    d.sale.id = 10;
    d.items[1].id = 100;
    struct ledger_op op = create(f, &d);
    assert_int_equal(op.sale->id, 10);
    assert_int_equal(op.sale->items[0].id, 101); /* past what was given */
    assert_int_equal(op.sale->items[1].id, 100);
    assert_int_equal(op.sale->items[2].id, 102);
    sale_row_free(op.sale);

    draft_init(&d);
    d.sale.id = ID_MAX; /* the operator's own range: the counters stay */
    d.items[0].id = ID_MAX;
    op = create(f, &d);
    assert_int_equal(op.sale->id, ID_MAX);
    assert_int_equal(op.sale->items[0].id, ID_MAX);
    assert_int_equal(op.sale->items[1].id, 103);
    sale_row_free(op.sale);
    assert_int_equal(created(f), 11);

    /* A deleted draft's ids are not given again. */
    struct ledger_op gone = sale_op(LEDGER_SALE_DELETE, 11);
    write_op(f, T0, &gone);
    sale_row_free(gone.sale);
    assert_int_equal(created(f), 12);
    assert_int_equal(sql_number(f, "SELECT min(id) FROM items WHERE sale_id = 12"), 108);
}

static void test_ids_in_use(void **state)
{
    struct fixture *f = *state;
    uint64_t id = created(f);
    struct draft d;
    draft_init(&d);
    d.sale.id = id;
    struct ledger_op op = create(f, &d);
    assert_int_equal(op.refusal, REFUSAL_EXISTS);
    assert_null(op.sale);
    draft_init(&d);
    d.items[2].id = 2;
    op = create(f, &d);
    assert_int_equal(op.refusal, REFUSAL_EXISTS);
    draft_init(&d);
    d.items[0].id = d.items[2].id = 50;
    op = create(f, &d);
    assert_int_equal(op.refusal, REFUSAL_EXISTS);
    assert_int_equal(sql_number(f, "SELECT count(*) FROM sales"), 1);
    assert_int_equal(sql_number(f, "SELECT next_item_id FROM meta"), 4);
}

/* What the layers above should have refused is refused here, alone. */
static void test_create_of_nonsense(void **state)
{
    struct fixture *f = *state;
    struct draft bad;
    struct draft good;
    draft_init(&bad);
    draft_init(&good);
    bad.sale.ends_at_ms = bad.sale.starts_at_ms;
    struct ledger_op a = {.kind = LEDGER_SALE_CREATE, .sale_in = &bad.sale};
    struct ledger_op b = {.kind = LEDGER_SALE_CREATE, .sale_in = &good.sale};
    struct ledger_op *ops[] = {&a, &b};
    write_batch(f, T0, ops, 2);
    assert_int_equal(a.refusal, REFUSAL_BAD_REQUEST);
    assert_null(a.sale);
    assert_int_equal(b.refusal, REFUSAL_NONE);
    assert_int_equal(b.sale->id, 1);
    sale_row_free(b.sale);
    draft_init(&bad);
    bad.items[1].total = 0;
    a = create(f, &bad);
    assert_int_equal(a.refusal, REFUSAL_BAD_REQUEST);
    assert_int_equal(sql_number(f, "SELECT count(*) FROM sales"), 1);
    assert_int_equal(sql_number(f, "SELECT count(*) FROM items"), 3);
}

static void test_change_a_draft(void **state)
{
    struct fixture *f = *state;
    uint64_t id = created(f);
    struct draft d;
    draft_init(&d);
    (void)snprintf(d.sale.name, sizeof(d.sale.name), "other");
    (void)snprintf(d.sale.currency, sizeof(d.sale.currency), "EUR");
    d.sale.pay_url[0] = '\0';
    d.sale.starts_at_ms = T0 + 1;
    d.sale.ends_at_ms = T0 + 2;
    d.sale.pay_within_s = 5;
    d.sale.bar_unpaid = false;
    d.sale.items_count = 2;
    d.items[0].id = 3; /* one of its own, kept under its id; the other is that of its place */
    /* Only what is marked as given counts. */
    struct ledger_op op = change(f, id, &d, SALE_HAS_NAME);
    assert_string_equal(op.sale->name, "other");
    assert_string_equal(op.sale->currency, "CNY");
    assert_int_equal(op.sale->items_count, 3);
    sale_row_free(op.sale);
    op = change(f, id, &d, 255);
    assert_int_equal(op.refusal, REFUSAL_NONE);
    assert_false(op.repeated);
    assert_string_equal(op.sale->currency, "EUR");
    assert_string_equal(op.sale->pay_url, "");
    assert_int_equal(op.sale->starts_at_ms, T0 + 1);
    assert_int_equal(op.sale->ends_at_ms, T0 + 2);
    assert_int_equal(op.sale->pay_within_s, 5);
    assert_false(op.sale->bar_unpaid);
    assert_int_equal(op.sale->items_count, 2);
    assert_int_equal(op.sale->items[0].id, 3);
    assert_int_equal(op.sale->items[0].price_cents, 100);
    assert_int_equal(op.sale->items[1].id, 2);
    sale_row_free(op.sale);
    op = change(f, id, &d, 255 & ~SALE_HAS_ITEMS);
    assert_true(op.repeated);
    sale_row_free(op.sale);
    assert_int_equal(f->events_count, 0);
}

/* Items that are sent without ids stay the items they are; only what was not there is new. */
static void test_change_keeps_ids_by_place(void **state)
{
    struct fixture *f = *state;
    uint64_t id = created(f);
    (void)created(f); /* items 4, 5, 6 */
    struct draft d;
    draft_init(&d);
    d.items[1].price_cents++;
    struct ledger_op op = change(f, id, &d, SALE_HAS_ITEMS);
    assert_false(op.repeated);
    for (uint32_t i = 0; i < 3; i++) {
        assert_int_equal(op.sale->items[i].id, 1 + i);
    }
    assert_int_equal(op.sale->items[1].price_cents, 201);
    sale_row_free(op.sale);
    d.sale.items_count = 1;
    op = change(f, id, &d, SALE_HAS_ITEMS);
    assert_int_equal(op.sale->items[0].id, 1);
    sale_row_free(op.sale);
    d.sale.items_count = 3;
    op = change(f, id, &d, SALE_HAS_ITEMS);
    assert_int_equal(op.sale->items[0].id, 1);
    assert_int_equal(op.sale->items[1].id, 7); /* 2 and 3 are gone for good */
    assert_int_equal(op.sale->items[2].id, 8);
    sale_row_free(op.sale);
    /* The id of a place that was given to another item is that one's. */
    d.items[2].id = 1;
    op = change(f, id, &d, SALE_HAS_ITEMS);
    assert_int_equal(op.sale->items[0].id, 9);
    assert_int_equal(op.sale->items[1].id, 7);
    assert_int_equal(op.sale->items[2].id, 1);
    sale_row_free(op.sale);
}

static void test_change_refused(void **state)
{
    struct fixture *f = *state;
    uint64_t id = created(f);
    uint64_t other = created(f); /* items 4, 5, 6 */
    struct draft d;
    draft_init(&d);
    struct ledger_op op = change(f, 99, &d, SALE_HAS_NAME);
    assert_int_equal(op.refusal, REFUSAL_NOT_FOUND);
    d.sale.ends_at_ms = T0;
    op = change(f, id, &d, SALE_HAS_ENDS);
    assert_int_equal(op.refusal, REFUSAL_BAD_REQUEST);
    draft_init(&d);
    d.items[0].id = 5;
    op = change(f, id, &d, SALE_HAS_ITEMS);
    assert_int_equal(op.refusal, REFUSAL_EXISTS);
    assert_null(op.sale);
    assert_int_equal(
        sql_number(f, "SELECT count(*) FROM items WHERE sale_id = %lld", (long long)other), 3);
}

static void test_change_a_known_sale(void **state)
{
    struct fixture *f = *state;
    uint64_t id = created(f);
    moved(f, id, SALE_OPEN, T0);
    struct draft d;
    draft_init(&d);
    (void)snprintf(d.sale.name, sizeof(d.sale.name), "other");
    d.sale.ends_at_ms += 1000;
    struct ledger_op op = change(f, id, &d, 255); /* the rest is given, but the same */
    assert_int_equal(op.refusal, REFUSAL_NONE);
    assert_string_equal(op.sale->name, "other");
    assert_int_equal(op.sale->ends_at_ms, T0 + 3601000);
    assert_int_equal(f->events_count, 1);
    assert_int_equal(f->events[0].kind, EVENT_SALE_CHANGED);
    assert_int_equal(f->events[0].a, T0 + 3601000);
    sale_row_free(op.sale);
    op = change(f, id, &d, 255);
    assert_true(op.repeated);
    assert_int_equal(f->events_count, 0);
    sale_row_free(op.sale);

    static const uint32_t fixed[] = {SALE_HAS_STARTS,  SALE_HAS_PAY_WITHIN, SALE_HAS_CURRENCY,
                                     SALE_HAS_PAY_URL, SALE_HAS_BAR,        SALE_HAS_ITEMS};
    d.sale.starts_at_ms++;
    d.sale.pay_within_s++;
    d.sale.currency[0] = 'X';
    d.sale.pay_url[0] = 'X';
    d.sale.bar_unpaid = !d.sale.bar_unpaid;
    d.items[2].price_cents++;
    for (size_t i = 0; i < sizeof(fixed) / sizeof(fixed[0]); i++) {
        op = change(f, id, &d, fixed[i]);
        assert_int_equal(op.refusal, REFUSAL_BAD_STATE);
        assert_null(op.sale);
    }
}

static void test_change_a_closed_sale(void **state)
{
    struct fixture *f = *state;
    uint64_t id = created(f);
    moved(f, id, SALE_OPEN, T0);
    moved(f, id, SALE_CLOSED, T0 + 1);
    struct draft d;
    draft_init(&d);
    d.sale.ends_at_ms++;
    struct ledger_op op = change(f, id, &d, SALE_HAS_ENDS);
    assert_int_equal(op.refusal, REFUSAL_BAD_STATE);
    (void)snprintf(d.sale.name, sizeof(d.sale.name), "renamed");
    op = change(f, id, &d, SALE_HAS_NAME);
    assert_int_equal(op.refusal, REFUSAL_NONE);
    assert_string_equal(op.sale->name, "renamed");
    sale_row_free(op.sale);
}

static void test_delete(void **state)
{
    struct fixture *f = *state;
    uint64_t id = created(f);
    struct ledger_op more = restock(1, 5, "r1"); /* leaves a row of its own */
    write_op(f, T0, &more);
    sale_row_free(more.sale);
    struct ledger_op op = sale_op(LEDGER_SALE_DELETE, id);
    write_op(f, T0, &op);
    assert_int_equal(op.refusal, REFUSAL_NONE);
    assert_int_equal(op.sale->id, id);
    sale_row_free(op.sale);
    write_op(f, T0, &op);
    assert_int_equal(op.refusal, REFUSAL_NOT_FOUND);
    assert_int_equal(sql_number(f, "SELECT (SELECT count(*) FROM items) + (SELECT count(*) FROM "
                                   "stock) + (SELECT count(*) FROM sales)"),
                     0);
    id = created(f);
    moved(f, id, SALE_WARM, T0);
    op = sale_op(LEDGER_SALE_DELETE, id);
    write_op(f, T0, &op);
    assert_int_equal(op.refusal, REFUSAL_BAD_STATE);
    assert_null(op.sale);
}

/* Every pair of states: moved (m), repeated (r) or refused (.). The clock is inside the window. */
static void test_every_move(void **state)
{
    struct fixture *f = *state;
    static const char *const table[SALE_STATE_COUNT] = {
        [SALE_DRAFT] = ".mm..",  [SALE_WARM] = ".rmmm",   [SALE_OPEN] = ".rrmm",
        [SALE_PAUSED] = ".rmrm", [SALE_CLOSED] = "....r",
    };
    for (int from = SALE_DRAFT; from < SALE_STATE_COUNT; from++) {
        for (int to = SALE_WARM; to < SALE_STATE_COUNT; to++) {
            uint64_t id = created(f);
            if (from != SALE_DRAFT) {
                moved(f, id, SALE_WARM, T0 + 1);
            }
            if (from > SALE_WARM) {
                moved(f, id, SALE_OPEN, T0 + 1);
            }
            if (from > SALE_OPEN) {
                moved(f, id, (enum sale_state)from, T0 + 1);
            }
            bool repeated;
            enum refusal refusal = move(f, id, (enum sale_state)to, T0 + 2, &repeated);
            int is = refusal == REFUSAL_NONE ? (repeated ? 'r' : 'm') : '.';
            if (is != table[from][to]) {
                fail_msg("%s -> %s: %c, not %c", sale_state_text((enum sale_state)from),
                         sale_state_text((enum sale_state)to), is, table[from][to]);
            }
            assert_true(refusal == REFUSAL_NONE || refusal == REFUSAL_BAD_STATE);
            assert_true((is == 'm') == (f->events_count > 0));
        }
    }
    bool repeated;
    assert_int_equal(move(f, 999, SALE_OPEN, T0, &repeated), REFUSAL_NOT_FOUND);
}

static void test_warm_tells_everything(void **state)
{
    struct fixture *f = *state;
    uint64_t id = created(f);
    moved(f, id, SALE_WARM, T0 - 100);
    assert_int_equal(f->events_count, 4);
    assert_int_equal(f->events[0].kind, EVENT_SALE_WARMED);
    assert_int_equal(f->events[0].sale, id);
    assert_int_equal(f->events[0].a, T0);
    assert_int_equal(f->events[0].b, T0 + 3600000);
    assert_int_equal(f->events[0].c, 1);
    for (uint32_t i = 0; i < 3; i++) {
        assert_int_equal(f->events[1 + i].kind, EVENT_ITEM_LOADED);
        assert_int_equal(f->events[1 + i].item, 1 + i);
        assert_int_equal(f->events[1 + i].a, 10 + i);
        assert_int_equal(f->events[1 + i].b, i);
    }
}

static void test_open_moves_the_start(void **state)
{
    struct fixture *f = *state;
    uint64_t id = created(f);
    moved(f, id, SALE_OPEN, T0 - 100); /* straight from the draft */
    assert_int_equal(f->events_count, 5);
    assert_int_equal(f->events[0].kind, EVENT_SALE_WARMED);
    assert_int_equal(f->events[4].kind, EVENT_SALE_OPENED);
    assert_int_equal(f->events[4].a, T0 - 100);
    assert_int_equal(sql_number(f, "SELECT starts_at_ms FROM sales"), T0 - 100);
    moved(f, id, SALE_PAUSED, T0 - 50);
    assert_int_equal(f->events[0].kind, EVENT_SALE_PAUSED);
    moved(f, id, SALE_OPEN, T0 - 20); /* resumed: a start that lies behind stays */
    assert_int_equal(f->events_count, 1);
    assert_int_equal(f->events[0].a, T0 - 100);
    moved(f, id, SALE_CLOSED, T0);
    assert_int_equal(f->events[0].kind, EVENT_SALE_CLOSED);
}

static void test_moves_and_the_clock(void **state)
{
    struct fixture *f = *state;
    bool repeated;
    uint64_t id = created(f);
    assert_int_equal(move(f, id, SALE_OPEN, T0 + 3600000, &repeated), REFUSAL_BAD_STATE);
    moved(f, id, SALE_WARM, T0 - 100);
    assert_int_equal(move(f, id, SALE_PAUSED, T0 - 1, &repeated), REFUSAL_BAD_STATE);
    moved(f, id, SALE_PAUSED, T0); /* it has opened by itself meanwhile */
    assert_int_equal(move(f, id, SALE_OPEN, T0 + 3600000, &repeated), REFUSAL_BAD_STATE);
    moved(f, id, SALE_CLOSED, T0 + 3600000);
}

static void test_forget(void **state)
{
    struct fixture *f = *state;
    uint64_t id = created(f);
    moved(f, id, SALE_OPEN, T0);
    struct ledger_op b = book_once(2, 1, 0);
    write_op(f, T0, &b);
    struct ledger_op op = sale_op(LEDGER_SALE_FORGET, id);
    write_op(f, T0, &op);
    assert_int_equal(op.refusal, REFUSAL_BAD_STATE); /* open */
    moved(f, id, SALE_CLOSED, T0);
    write_op(f, T0, &op);
    assert_int_equal(op.refusal, REFUSAL_BAD_STATE); /* an order is LOCKED */
    struct ledger_op c = cancel(b.order.id, 0);
    write_op(f, T0, &c);
    write_op(f, T0, &op);
    assert_int_equal(op.refusal, REFUSAL_NONE);
    assert_true(op.sale->forgotten);
    assert_int_equal(f->events_count, 1);
    assert_int_equal(f->events[0].kind, EVENT_SALE_FORGOTTEN);
    sale_row_free(op.sale);
    write_op(f, T0, &op);
    assert_true(op.repeated);
    assert_int_equal(f->events_count, 0);
    sale_row_free(op.sale);
    op = sale_op(LEDGER_SALE_FORGET, 99);
    write_op(f, T0, &op);
    assert_int_equal(op.refusal, REFUSAL_NOT_FOUND);
}

int main(void)
{
#define TEST(name) cmocka_unit_test_setup_teardown(name, fixture_setup, fixture_teardown)
    const struct CMUnitTest tests[] = {
        TEST(test_create),
        TEST(test_ids_given_and_counted),
        TEST(test_ids_in_use),
        TEST(test_create_of_nonsense),
        TEST(test_change_a_draft),
        TEST(test_change_keeps_ids_by_place),
        TEST(test_change_refused),
        TEST(test_change_a_known_sale),
        TEST(test_change_a_closed_sale),
        TEST(test_delete),
        TEST(test_every_move),
        TEST(test_warm_tells_everything),
        TEST(test_open_moves_the_start),
        TEST(test_moves_and_the_clock),
        TEST(test_forget),
    };
    return LEDGER_SUITE_RUN(tests);
}
