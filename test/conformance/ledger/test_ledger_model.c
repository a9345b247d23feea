/*
 * Random batches against a naive model: every op's answer, and after every batch stock, holdings
 * and orders, are what a list of orders and a few loops say. Batches are sent again, and the ledger
 * is opened again, at random. SLUICE_SEED repeats a run; SLUICE_STEPS makes it longer.
 */
#include "fixture.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "base/prng.h"

#define ITEMS 4
#define USERS 5
#define ORDERS_MAX 100000
#define PAYMENTS_MAX 100000
#define BATCH_MAX 24

struct model_item {
    uint64_t id;
    uint32_t limit;
    int64_t available, locked, sold;
    bool bar;
    bool closed;
};

struct model_holding {
    int64_t held, ended, barred;
    bool known;
};

struct model_payment {
    char key[16];
    struct order_id id;
    int64_t amount;
};

struct model {
    struct prng prng;
    int64_t now_ms;
    struct model_item items[ITEMS];
    struct model_holding holdings[ITEMS][USERS];
    struct order_row *orders;
    size_t orders_count;
    struct model_payment *payments;
    size_t payments_count;
    uint64_t restocks[ITEMS][8]; /* amount by request number; 0: none */
    uint64_t events;
};

/* What the model says of an op. */
struct expected {
    enum refusal refusal;
    bool repeated;
    const struct order_row *order; /* NULL: none to compare */
    bool event;
};

static struct order_row *model_order(struct model *m, struct order_id id)
{
    for (size_t i = 0; i < m->orders_count; i++) {
        if (order_id_equal(m->orders[i].id, id)) {
            return &m->orders[i];
        }
    }
    return NULL;
}

static struct expected model_book(struct model *m, const struct ledger_op *op)
{
    struct order_row *known = model_order(m, op->command.id);
    if (known != NULL) {
        return (struct expected){.repeated = true, .order = known};
    }
    struct model_item *item = &m->items[op->command.item - 1];
    struct model_holding *holding = &m->holdings[op->command.item - 1][op->command.user - 1];
    uint32_t qty = op->command.qty;
    struct order_row *order = &m->orders[m->orders_count++];
    *order = (struct order_row){.id = op->command.id,
                                .user = op->command.user,
                                .item = item->id,
                                .qty = qty,
                                .state = ORDER_LOCKED,
                                .amount_cents = (int64_t)qty * PRICE,
                                .pay_by_ms = m->now_ms + PAY_WITHIN_MS};
    holding->known = true;
    if (item->limit != 0 && holding->held + qty > item->limit) {
        order->reason = REFUSAL_LIMIT_REACHED;
    } else if (item->available < qty) {
        order->reason = REFUSAL_NO_STOCK;
    }
    if (order->reason != REFUSAL_NONE) {
        order->state = ORDER_FAILED;
        order->pay_by_ms = 0;
        holding->ended++;
    } else {
        holding->held += qty;
        item->available -= qty;
        item->locked += qty;
    }
    return (struct expected){.order = order, .event = true};
}

static void model_release(struct model *m, struct order_row *order, enum order_state to,
                          int64_t cooling_ms)
{
    struct model_item *item = &m->items[order->item - 1];
    struct model_holding *holding = &m->holdings[order->item - 1][order->user - 1];
    order->state = to;
    item->locked -= order->qty;
    item->available += order->qty;
    holding->held -= order->qty;
    if (order->reason == REFUSAL_BARRED || (to == ORDER_EXPIRED && item->bar)) {
        holding->barred = 1;
    } else {
        holding->ended++;
        order->cooling_until_ms = cooling_ms > 0 ? m->now_ms + cooling_ms : 0;
    }
}

static struct expected model_pay(struct model *m, const struct ledger_op *op)
{
    struct order_row *order = model_order(m, op->id);
    for (size_t i = 0; i < m->payments_count; i++) {
        struct model_payment *p = &m->payments[i];
        if (strcmp(p->key, op->key) == 0) {
            if (p->amount != op->amount_cents || !order_id_equal(p->id, op->id)) {
                return (struct expected){.refusal = REFUSAL_DIFFERENT_REQUEST};
            }
            return (struct expected){.repeated = true, .order = order};
        }
    }
    if (order == NULL) {
        return (struct expected){.refusal = REFUSAL_NOT_FOUND};
    }
    struct expected e = {.order = order};
    if (op->amount_cents != order->amount_cents) {
        e.refusal = REFUSAL_WRONG_AMOUNT;
    } else if (order->state == ORDER_PAID) {
        e.refusal = REFUSAL_ALREADY_PAID;
    } else if (order->state != ORDER_LOCKED || m->now_ms >= order->pay_by_ms) {
        e.refusal = REFUSAL_EXPIRED;
    } else {
        order->state = ORDER_PAID;
        m->items[order->item - 1].locked -= order->qty;
        m->items[order->item - 1].sold += order->qty;
        e.event = true;
        struct model_payment *p = &m->payments[m->payments_count++];
        (void)snprintf(p->key, sizeof(p->key), "%.15s", op->key);
        p->id = op->id;
        p->amount = op->amount_cents;
    }
    return e;
}

static struct expected model_cancel(struct model *m, const struct ledger_op *op)
{
    struct order_row *order = model_order(m, op->id);
    if (order == NULL || (op->user != 0 && op->user != order->user)) {
        return (struct expected){.refusal = REFUSAL_NOT_FOUND};
    }
    struct expected e = {.order = order};
    if (order->state == ORDER_LOCKED) {
        bool bar = m->items[order->item - 1].bar;
        bool late = bar && op->late_ms > 0 && m->now_ms >= order->pay_by_ms - op->late_ms;
        order->reason = late ? REFUSAL_BARRED : REFUSAL_NONE;
        model_release(m, order, ORDER_CANCELLED, op->cooling_ms);
        e.event = true;
    } else if (order->state == ORDER_CANCELLED) {
        e.repeated = true;
    } else {
        e.refusal = order->state == ORDER_PAID ? REFUSAL_ALREADY_PAID : REFUSAL_EXPIRED;
    }
    return e;
}

static struct expected model_expire(struct model *m, const struct ledger_op *op)
{
    struct order_row *order = model_order(m, op->id);
    if (order != NULL && order->state == ORDER_LOCKED && order->pay_by_ms <= m->now_ms) {
        model_release(m, order, ORDER_EXPIRED, op->cooling_ms);
        return (struct expected){.order = order, .event = true};
    }
    return (struct expected){.refusal = REFUSAL_BAD_STATE,
                             .order = order,
                             .repeated = order != NULL && order->state == ORDER_EXPIRED};
}

static struct expected model_restock(struct model *m, const struct ledger_op *op)
{
    struct model_item *item = &m->items[op->item - 1];
    uint64_t *known = &m->restocks[op->item - 1][op->key[0] - 'a'];
    if (*known != 0) {
        bool same = *known == op->amount;
        return (struct expected){.refusal = same ? REFUSAL_NONE : REFUSAL_DIFFERENT_REQUEST,
                                 .repeated = same};
    }
    if (item->closed) {
        return (struct expected){.refusal = REFUSAL_BAD_STATE};
    }
    *known = op->amount;
    item->available += (int64_t)op->amount;
    return (struct expected){.event = true};
}

static struct expected model_step(struct model *m, const struct ledger_op *op)
{
    switch (op->kind) {
    case LEDGER_BOOK:
        return model_book(m, op);
    case LEDGER_PAY:
        return model_pay(m, op);
    case LEDGER_CANCEL:
        return model_cancel(m, op);
    case LEDGER_EXPIRE:
        return model_expire(m, op);
    case LEDGER_RESTOCK:
        return model_restock(m, op);
    default: {
        bool repeated = m->items[2].closed; /* items 3 and 4 are of the sale that closes */
        m->items[2].closed = m->items[3].closed = true;
        return (struct expected){.repeated = repeated, .event = !repeated};
    }
    }
}

/* Half the time an order that exists, else any id near. */
static struct order_id random_id(struct model *m)
{
    if (m->orders_count > 0 && prng_below(&m->prng, 8) != 0) {
        size_t latencies = m->orders_count < 40 ? m->orders_count : 40;
        return m->orders[m->orders_count - 1 - prng_below(&m->prng, latencies)].id;
    }
    return order_id_once(1, 1 + prng_below(&m->prng, USERS), (uint32_t)prng_below(&m->prng, 4));
}

static struct ledger_op random_book(struct model *m)
{
    if (m->orders_count > 0 && prng_below(&m->prng, 6) == 0) { /* a redelivery */
        const struct order_row *o = &m->orders[prng_below(&m->prng, m->orders_count)];
        struct ledger_op op = book_fresh(o->item, o->user, o->qty, 0);
        op.command.id = o->id;
        return op;
    }
    uint64_t item = 1 + prng_below(&m->prng, ITEMS);
    uint64_t user = 1 + prng_below(&m->prng, USERS);
    if (m->items[item - 1].limit == 1) {
        return book_once(item, user, (uint32_t)prng_below(&m->prng, 200));
    }
    return book_fresh(item, user, 1 + (uint32_t)prng_below(&m->prng, 3),
                      (uint32_t)prng_below(&m->prng, 1U << 30));
}

static int64_t random_cooling_ms(struct model *m)
{
    return prng_below(&m->prng, 2) == 0 ? 1 + (int64_t)prng_below(&m->prng, 100000) : 0;
}

static struct ledger_op random_op(struct model *m, bool may_close)
{
    uint64_t dice = prng_below(&m->prng, 100);
    struct order_id id = random_id(m);
    if (dice < 40) {
        return random_book(m);
    }
    if (dice < 60) {
        const struct order_row *order = model_order(m, id);
        int64_t amount = order == NULL ? PRICE : order->amount_cents;
        char key[16];
        (void)snprintf(key, sizeof(key), "p%" PRIu64, prng_below(&m->prng, 3000));
        return pay(id, key, amount + (prng_below(&m->prng, 8) == 0 ? 1 : 0));
    }
    if (dice < 75) {
        struct ledger_op op =
            cancel(id, prng_below(&m->prng, 3) == 0 ? 1 + prng_below(&m->prng, USERS) : 0);
        op.late_ms =
            prng_below(&m->prng, 2) == 0 ? (int64_t)prng_below(&m->prng, PAY_WITHIN_MS) : 0;
        op.cooling_ms = random_cooling_ms(m);
        return op;
    }
    if (dice < 96 || (!may_close && dice == 99)) {
        struct ledger_op op = expire(id);
        op.cooling_ms = random_cooling_ms(m);
        return op;
    }
    if (dice < 99) {
        char key[2] = {(char)('a' + prng_below(&m->prng, 8)), '\0'};
        return restock(1 + prng_below(&m->prng, ITEMS), 1 + prng_below(&m->prng, 3), key);
    }
    return sale_move(2, SALE_CLOSED);
}

static void assert_answer(const struct ledger_op *op, const struct expected *e,
                          const struct order_row *order)
{
    assert_int_equal(op->refusal, e->refusal);
    assert_int_equal(op->repeated, e->repeated);
    if (e->order != NULL) {
        assert_true(order_id_equal(op->order.id, order->id));
        assert_int_equal(op->order.state, order->state);
        assert_int_equal(op->order.reason, order->reason);
        assert_int_equal(op->order.user, order->user);
        assert_int_equal(op->order.qty, order->qty);
        assert_int_equal(op->order.pay_by_ms, order->pay_by_ms);
        assert_int_equal(op->order.cooling_until_ms, order->cooling_until_ms);
    }
}

static void assert_same_state(struct fixture *f, struct model *m)
{
    for (uint64_t i = 0; i < ITEMS; i++) {
        assert_stock(f, i + 1, m->items[i].available, m->items[i].locked, m->items[i].sold);
        for (uint64_t u = 0; u < USERS; u++) {
            const struct model_holding *h = &m->holdings[i][u];
            if (h->known) {
                assert_holding(f, i + 1, u + 1, h->held, h->ended, h->barred);
            }
        }
    }
    assert_int_equal(sql_number(f, "SELECT count(*) FROM orders"), m->orders_count);
    assert_int_equal(sql_number(f, "SELECT count(*) FROM events"), m->events);
}

/* Sends a batch and compares every answer with the model's. */
static void submit(struct fixture *f, struct model *m, struct ledger_op *ops, size_t count)
{
    struct ledger_op *list[BATCH_MAX];
    struct expected expected[BATCH_MAX];
    struct order_row orders[BATCH_MAX]; /* as the model had them right after the op */
    size_t events = 0;
    for (size_t i = 0; i < count; i++) {
        list[i] = &ops[i];
        expected[i] = model_step(m, &ops[i]);
        orders[i] = expected[i].order == NULL ? (struct order_row){0} : *expected[i].order;
        events += expected[i].event ? 1 : 0;
    }
    m->events += events;
    write_batch(f, m->now_ms, list, count);
    assert_int_equal(f->events_count, events);
    for (size_t i = 0; i < count; i++) {
        assert_answer(&ops[i], &expected[i], &orders[i]);
        sale_row_free(ops[i].sale);
    }
}

/* One batch; sometimes the whole of it again, as after a lost answer. */
static void step(struct fixture *f, struct model *m, bool may_close)
{
    struct ledger_op ops[BATCH_MAX];
    size_t count = 1 + prng_below(&m->prng, BATCH_MAX);
    m->now_ms += (int64_t)prng_below(&m->prng, PAY_WITHIN_MS / 4);
    for (size_t i = 0; i < count; i++) {
        ops[i] = random_op(m, may_close);
    }
    submit(f, m, ops, count);
    if (prng_below(&m->prng, 5) == 0) {
        submit(f, m, ops, count);
    }
}

static void test_random_batches(void **state)
{
    struct fixture *f = *state;
    /* NOLINTBEGIN(concurrency-mt-unsafe): there is one thread */
    const char *seed_text = getenv("SLUICE_SEED");
    const char *steps_text = getenv("SLUICE_STEPS");
    /* NOLINTEND(concurrency-mt-unsafe) */
    uint64_t seed = seed_text != NULL ? strtoull(seed_text, NULL, 10) : (uint64_t)time(NULL);
    uint64_t steps = steps_text != NULL ? strtoull(steps_text, NULL, 10) : 250;
    print_message("SLUICE_SEED=%" PRIu64 "\n", seed);
    struct model m = {.prng = prng_of(seed), .now_ms = T0};
    m.orders = calloc(ORDERS_MAX, sizeof(*m.orders));
    m.payments = calloc(PAYMENTS_MAX, sizeof(*m.payments));
    assert_non_null(m.orders);
    assert_non_null(m.payments);
    assert_true(steps * BATCH_MAX < ORDERS_MAX);
    static const uint32_t limits[ITEMS] = {1, 3, 1, 0};
    for (uint64_t i = 0; i < ITEMS; i++) {
        m.items[i] =
            (struct model_item){.id = i + 1, .limit = limits[i], .available = 6, .bar = i >= 2};
    }
    /* Two sales; the second one's items have other limits than the first one's. */
    sale_make(f, 1, 1, 2, 6, 1, false);
    sale_make(f, 2, 3, 2, 6, 1, true);
    assert_int_equal(sql_run(f, "UPDATE items SET limit_per_user = 3 WHERE id = 2;"
                                "UPDATE items SET limit_per_user = 0 WHERE id = 4"),
                     SQL_DONE);
    struct ledger_op open_1 = sale_move(1, SALE_OPEN);
    struct ledger_op open_2 = sale_move(2, SALE_OPEN);
    write_op(f, T0, &open_1);
    write_op(f, T0, &open_2);
    sale_row_free(open_1.sale);
    sale_row_free(open_2.sale);
    m.events = 8;
    for (uint64_t i = 0; i < steps; i++) {
        step(f, &m, i > steps / 2);
        assert_same_state(f, &m);
        if (prng_below(&m.prng, 50) == 0) {
            fixture_reopen(f);
            assert_audit(f);
        }
    }
    free(m.orders);
    free(m.payments);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(test_random_batches, fixture_setup, fixture_teardown),
    };
    return LEDGER_SUITE_RUN(tests);
}
