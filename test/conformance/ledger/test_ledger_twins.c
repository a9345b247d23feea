/*
 * Two ledgers of segments, one on MariaDB and one in memory, given the same random batches: every
 * answer, every event and all that can be read of them is the same, and so what the simulator
 * finds out about the one is true of the other. Batches are sent again and the ledger is opened
 * again at random. SLUICE_SEED repeats a run; SLUICE_STEPS makes it longer.
 */
#include "fixture.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "base/prng.h"

#define SALES 3
#define ITEMS_EACH 2
#define USERS 60
#define BATCH_MAX 24
#define PAGE 37
#define TRANSFERS 120

struct twins {
    struct fixture *f;   /* on MariaDB */
    struct fixture twin; /* in memory */
    struct prng prng;
    int64_t now_ms;
    uint64_t epochs[SEGMENTS]; /* as last told */
    struct order_id last[64];  /* some ids that were used */
    uint32_t used;
};

static uint64_t below(struct twins *t, uint64_t bound)
{
    return prng_below(&t->prng, bound);
}

static void pass_time(struct twins *t, int64_t ms)
{
    t->now_ms += ms;
    on_mariadb.set_time(t->f->ledger, t->now_ms);
    on_memory.set_time(t->twin.ledger, t->now_ms);
}

/* ---- random ops ---- */

static uint64_t some_item(struct twins *t)
{
    return below(t, 40) == 0 ? 999 : 1 + below(t, (uint64_t)SALES * ITEMS_EACH);
}

static void some_key(struct twins *t, struct ledger_op *op, char kind)
{
    (void)snprintf(op->key, sizeof(op->key), "%c%u", kind, (unsigned)below(t, 30));
}

static struct order_id some_order(struct twins *t)
{
    uint32_t known = t->used < 64 ? t->used : 64;
    return known == 0 ? order_id_once(1, 1, 0) : t->last[below(t, known)];
}

static struct ledger_op decide(struct twins *t, enum ledger_kind kind)
{
    uint64_t user = 1 + below(t, USERS);
    struct ledger_op op =
        below(t, 3) == 0
            ? book_once(some_item(t), user, (uint32_t)below(t, 6))
            : book_fresh(some_item(t), user, 1 + (uint32_t)below(t, 3), (uint32_t)below(t, 4000));
    op.kind = kind;
    op.command.now_ms = t->now_ms - (int64_t)below(t, 8000);
    op.lsn = 1 + below(t, 1000);
    op.segment = (uint32_t)below(t, SEGMENTS + (below(t, 30) == 0));
    op.epoch = op.segment < SEGMENTS ? t->epochs[op.segment] : 1;
    op.epoch -= below(t, 12) == 0 ? 1 : 0;
    op.reason = below(t, 20) == 0  ? REFUSAL_NONE
                : below(t, 2) == 0 ? REFUSAL_DEGRADED
                                   : REFUSAL_NO_STOCK;
    t->last[t->used++ % 64] = op.command.id;
    return op;
}

/* Mostly what the key stands for, so that the two halves of a transfer meet. */
static struct ledger_op move_units(struct twins *t, enum ledger_kind kind)
{
    uint32_t n = (uint32_t)below(t, TRANSFERS);
    bool odd = below(t, 10) == 0;
    struct ledger_op op = {.kind = kind,
                           .item = odd ? some_item(t) : 1 + n % (SALES * ITEMS_EACH),
                           .segment = odd ? (uint32_t)below(t, SEGMENTS) : n % SEGMENTS,
                           .to_segment = (n + 1) % SEGMENTS,
                           .amount = odd ? below(t, 5) : 1 + n % 4};
    if (kind == LEDGER_TRANSFERRED && below(t, 2) == 0) {
        op.amount = below(t, op.amount + 1);
    }
    op.epoch = t->epochs[op.segment] - (below(t, 10) == 0 ? 1 : 0);
    (void)snprintf(op.key, sizeof(op.key), "t%u", n);
    return op;
}

static struct ledger_op operate(struct twins *t)
{
    uint64_t sale = 1 + below(t, SALES);
    struct ledger_op op;
    switch (below(t, 12)) {
    case 0:
        return sale_op(LEDGER_SALE_FORGET, sale);
    case 1:
    case 2:
        return sale_move(sale, below(t, 20) == 0 ? SALE_CLOSED : SALE_PAUSED);
    case 3:
    case 4:
    case 5:
        return sale_move(sale, below(t, 3) == 0 ? SALE_WARM : SALE_OPEN);
    default:
        op = restock(some_item(t), below(t, 6), "");
        some_key(t, &op, 'r');
        return op;
    }
}

static struct ledger_op random_op(struct twins *t)
{
    struct ledger_op op;
    uint32_t segment = (uint32_t)below(t, SEGMENTS);
    switch (below(t, 20)) {
    case 0:
        return operate(t);
    case 1:
        return raise_epoch(segment, t->epochs[segment] + (below(t, 8) == 0 ? 0 : 1));
    case 2:
        return move_units(t, LEDGER_TRANSFER);
    case 3:
        return move_units(t, LEDGER_TRANSFERRED);
    case 4:
        return decide(t, LEDGER_FAIL);
    case 5:
    case 6:
        op = pay(some_order(t), "", PRICE * (int64_t)(1 + below(t, 3)));
        some_key(t, &op, 'p');
        return op;
    case 7:
    case 8:
        return cancel(some_order(t), below(t, 2) == 0 ? 0 : 1 + below(t, USERS));
    case 9:
    case 10:
        return expire(some_order(t));
    default:
        return decide(t, LEDGER_BOOK);
    }
}

/* ---- both the same ---- */

static void assert_sale_equal(const struct sale_row *a, const struct sale_row *b)
{
    assert_int_equal(a == NULL, b == NULL);
    if (a == NULL) {
        return;
    }
    assert_int_equal(a->id, b->id);
    assert_int_equal(a->state, b->state);
    assert_int_equal(a->forgotten, b->forgotten);
    assert_int_equal(a->homes, b->homes);
    assert_int_equal(a->starts_at_ms, b->starts_at_ms);
    assert_int_equal(a->ends_at_ms, b->ends_at_ms);
    assert_int_equal(a->created_at_ms, b->created_at_ms);
    assert_int_equal(a->items_count, b->items_count);
    for (uint32_t i = 0; i < a->items_count; i++) {
        assert_item_equal(&a->items[i], &b->items[i]);
    }
}

/* The same ops, each with answers of its own. */
static void submit(struct twins *t, const struct ledger_op *ops, size_t count)
{
    struct ledger_op a[BATCH_MAX];
    struct ledger_op b[BATCH_MAX];
    struct ledger_op *list_a[BATCH_MAX];
    struct ledger_op *list_b[BATCH_MAX];
    for (size_t i = 0; i < count; i++) {
        a[i] = b[i] = ops[i];
        list_a[i] = &a[i];
        list_b[i] = &b[i];
    }
    struct ledger_batch on_a = {.ops = list_a, .count = count, .now_ms = (int64_t)below(t, T0)};
    struct ledger_batch on_b = {.ops = list_b, .count = count, .now_ms = (int64_t)below(t, T0)};
    (void)ledger_write(t->f->ledger, &on_a);
    (void)ledger_write(t->twin.ledger, &on_b);
    assert_int_equal(on_a.error, 0);
    assert_int_equal(on_b.error, 0);
    for (size_t i = 0; i < count; i++) {
        if (a[i].refusal != b[i].refusal || a[i].repeated != b[i].repeated) {
            fail_msg("op %d: refusal %d and %d, repeated %d and %d", (int)ops[i].kind,
                     (int)a[i].refusal, (int)b[i].refusal, a[i].repeated, b[i].repeated);
        }
        assert_order_equal(&a[i].order, &b[i].order);
        assert_sale_equal(a[i].sale, b[i].sale);
        assert_int_equal(a[i].epoch, b[i].epoch);
        if (a[i].kind == LEDGER_EPOCH) {
            t->epochs[a[i].segment] = a[i].epoch;
        }
        sale_row_free(a[i].sale);
        sale_row_free(b[i].sale);
    }
    assert_int_equal(on_a.events_count, on_b.events_count);
    for (size_t i = 0; i < on_a.events_count; i++) {
        assert_event_equal(&on_a.events[i], &on_b.events[i]);
    }
}

/* Asks both; the answers are compared by the caller. */
static uint32_t request(struct twins *t, struct ledger_query *a, struct ledger_query *b)
{
    (void)ledger_read(t->f->ledger, a);
    (void)ledger_read(t->twin.ledger, b);
    assert_int_equal(a->error, 0);
    assert_int_equal(b->error, 0);
    assert_int_equal(a->count, b->count);
    return a->count;
}

static void compare_orders(struct twins *t, int32_t segment)
{
    struct order_row rows[2][PAGE];
    struct ledger_query a = {
        .kind = QUERY_SEGMENT_ORDERS, .segment = segment, .limit = PAGE, .orders = rows[0]};
    uint32_t count;
    do {
        struct ledger_query b = a;
        b.orders = rows[1];
        count = request(t, &a, &b);
        assert_int_equal(a.last_event, b.last_event);
        for (uint32_t i = 0; i < count; i++) {
            assert_order_equal(&rows[0][i], &rows[1][i]);
            a.after_item = rows[0][i].item;
            a.after_id = rows[0][i].id;
        }
    } while (count == PAGE);
}

static void compare_buyers(struct twins *t, int32_t segment)
{
    struct buyer_row rows[2][PAGE];
    struct ledger_query a = {
        .kind = QUERY_SEGMENT_BUYERS, .segment = segment, .limit = PAGE, .buyers = rows[0]};
    uint32_t count;
    do {
        struct ledger_query b = a;
        b.buyers = rows[1];
        count = request(t, &a, &b);
        for (uint32_t i = 0; i < count; i++) {
            assert_int_equal(rows[0][i].item, rows[1][i].item);
            assert_int_equal(rows[0][i].user, rows[1][i].user);
            assert_int_equal(rows[0][i].held, rows[1][i].held);
            assert_int_equal(rows[0][i].failed_attempts, rows[1][i].failed_attempts);
            assert_int_equal(rows[0][i].barred, rows[1][i].barred);
            a.after_item = rows[0][i].item;
            a.after = rows[0][i].user;
        }
    } while (count == PAGE);
}

static void compare_shares(struct twins *t, int32_t segment)
{
    struct allotment_row rows[2][PAGE];
    struct ledger_query a = {
        .kind = QUERY_ALLOTMENTS, .segment = segment, .limit = PAGE, .allotments = rows[0]};
    struct ledger_query b = a;
    b.allotments = rows[1];
    uint32_t count = request(t, &a, &b);
    for (uint32_t i = 0; i < count; i++) {
        assert_int_equal(rows[0][i].item, rows[1][i].item);
        assert_int_equal(rows[0][i].sale, rows[1][i].sale);
        assert_int_equal(rows[0][i].limit_per_user, rows[1][i].limit_per_user);
        assert_int_equal(rows[0][i].amount, rows[1][i].amount);
        assert_int_equal(rows[0][i].locked, rows[1][i].locked);
        assert_int_equal(rows[0][i].sold, rows[1][i].sold);
    }
}

static void compare_transfers(struct twins *t)
{
    struct transfer_row rows[2][PAGE];
    struct ledger_query a = {.kind = QUERY_TRANSFERS, .limit = PAGE, .transfers = rows[0]};
    struct ledger_query b = a;
    b.transfers = rows[1];
    uint32_t count = request(t, &a, &b);
    for (uint32_t i = 0; i < count; i++) {
        assert_string_equal(rows[0][i].key, rows[1][i].key);
        assert_int_equal(rows[0][i].amount, rows[1][i].amount);
        assert_int_equal(rows[0][i].epoch, rows[1][i].epoch);
        assert_int_equal(rows[0][i].at_ms, rows[1][i].at_ms);
    }
}

static void compare_events(struct twins *t, int32_t segment)
{
    struct ledger_event rows[2][PAGE];
    struct ledger_query a = {
        .kind = QUERY_EVENTS, .segment = segment, .limit = PAGE, .events = rows[0]};
    uint32_t count;
    do {
        struct ledger_query b = a;
        b.events = rows[1];
        count = request(t, &a, &b);
        for (uint32_t i = 0; i < count; i++) {
            assert_event_equal(&rows[0][i], &rows[1][i]);
            a.after = rows[0][i].number;
        }
    } while (count == PAGE);
}

/* Sums on the one side, a full count on the other. Every number in these rows has eight bytes. */
static void compare_reports(struct twins *t, uint64_t sale)
{
    enum { STEPS = 12 };
    static const int64_t steps_ms[] = {50, 1000, 30000, 86400000};
    struct report_row rows[2][ITEMS_EACH];
    struct series_row series[2][STEPS];
    struct ledger_query a = {
        .kind = QUERY_REPORT, .sale = sale, .limit = ITEMS_EACH, .report = rows[0]};
    struct ledger_query b = a;
    b.report = rows[1];
    uint32_t count = request(t, &a, &b);
    assert_memory_equal(rows[0], rows[1], count * sizeof(rows[0][0]));
    a = b = (struct ledger_query){.kind = QUERY_SUMMARY, .sale = sale};
    (void)request(t, &a, &b);
    assert_memory_equal(&a.summary, &b.summary, sizeof(a.summary));
    for (size_t i = 0; i < sizeof(steps_ms) / sizeof(steps_ms[0]); i++) {
        a = (struct ledger_query){.kind = QUERY_SERIES,
                                  .sale = sale,
                                  .from_ms = T0 + (int64_t)below(t, 10000),
                                  .step_ms = steps_ms[i],
                                  .and_later = below(t, 2) == 0,
                                  .limit = STEPS,
                                  .series = series[0]};
        b = a;
        b.series = series[1];
        (void)request(t, &a, &b);
        assert_memory_equal(series[0], series[1], sizeof(series[0]));
    }
}

static void compare_all(struct twins *t)
{
    for (uint64_t sale = 1; sale <= SALES; sale++) {
        compare_reports(t, sale);
    }
    struct ledger_query a = {.kind = QUERY_STATE};
    struct ledger_query b = a;
    (void)request(t, &a, &b);
    assert_int_equal(a.last_event, b.last_event);
    compare_transfers(t);
    compare_events(t, SEGMENT_ALL);
    for (int32_t s = 0; s < SEGMENTS; s++) {
        compare_orders(t, s);
        compare_buyers(t, s);
        compare_shares(t, s);
        compare_events(t, s);
    }
}

/* ---- the run ---- */

static void make_sales(struct twins *t)
{
    static const uint32_t limits[] = {1, 3, 0};
    for (uint64_t i = 0; i < SALES; i++) {
        struct item_row items[ITEMS_EACH];
        for (uint64_t k = 0; k < ITEMS_EACH; k++) {
            items[k] = (struct item_row){.id = 1 + i * ITEMS_EACH + k,
                                         .price_cents = PRICE,
                                         .limit_per_user = limits[i],
                                         .total = 14 + 27 * k,
                                         .name = "item"};
        }
        struct sale_row sale = {.id = 1 + i,
                                .bar_unpaid = i == 1,
                                .pay_within_s = PAY_WITHIN_MS / 1000,
                                .starts_at_ms = T0,
                                .ends_at_ms = T0 + 1000000000000LL,
                                .name = "sale",
                                .currency = "CNY",
                                .items_count = ITEMS_EACH,
                                .items = items};
        struct ledger_op op = {.kind = LEDGER_SALE_CREATE, .sale_in = &sale};
        submit(t, &op, 1);
    }
}

static void test_twins(void **state)
{
    /* NOLINTBEGIN(concurrency-mt-unsafe): there is one thread */
    const char *seed_text = getenv("SLUICE_SEED");
    const char *steps_text = getenv("SLUICE_STEPS");
    /* NOLINTEND(concurrency-mt-unsafe) */
    uint64_t seed = seed_text != NULL ? strtoull(seed_text, NULL, 10) : (uint64_t)time(NULL);
    uint64_t steps = steps_text != NULL ? strtoull(steps_text, NULL, 10) : 250;
    print_message("SLUICE_SEED=%" PRIu64 "\n", seed);
    struct twins t = {.f = *state, .prng = prng_of(seed), .now_ms = T0};
    t.twin.segments = SEGMENTS;
    on_memory.make(&t.twin);
    assert_int_equal(on_memory.open(&t.twin, true, &t.twin.ledger), 0);
    for (uint32_t s = 0; s < SEGMENTS; s++) {
        struct ledger_op op = raise_epoch(s, 0);
        struct ledger_op *ops[] = {&op};
        struct ledger_batch batch = {.ops = ops, .count = 1};
        (void)ledger_write(t.twin.ledger, &batch); /* the other's fixture has done it */
        t.epochs[s] = 1;
    }
    pass_time(&t, 0);
    make_sales(&t);
    for (uint64_t i = 0; i < steps; i++) {
        struct ledger_op ops[BATCH_MAX];
        size_t count = 1 + below(&t, BATCH_MAX);
        pass_time(&t, (int64_t)below(&t, PAY_WITHIN_MS / 4));
        for (size_t k = 0; k < count; k++) {
            ops[k] = random_op(&t);
        }
        submit(&t, ops, count);
        if (below(&t, 5) == 0) { /* as after a lost answer */
            submit(&t, ops, count);
        }
        if (below(&t, 25) == 0) {
            fixture_reopen(t.f);
            pass_time(&t, 0);
            compare_all(&t);
            assert_audit(t.f);
        }
    }
    compare_all(&t);
    on_memory.close(t.twin.ledger);
    on_memory.discard(&t.twin);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(test_twins, fixture_setup_shared, fixture_teardown),
    };
    return LEDGER_MARIADB_RUN(tests);
}
