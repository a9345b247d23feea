/*
 * Several writers of one ledger at once, each a thread with a connection of its own: their batches
 * are one after the other, whatever each of them does. Events are numbered in the order of the
 * commits, without gaps; ids are given once; what two of them book, one of them has booked.
 */
#include "conformance/ledger/on_mariadb.h"

#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define WRITERS 4
#define ROUNDS 15
#define ITEM 7

struct crowd {
    struct fixture *fixture;
    atomic_int failures; /* cmocka's asserts belong to the main thread */
    atomic_uint_fast64_t highest;
    pthread_barrier_t start;
};

struct writer {
    struct crowd *crowd;
    uint32_t number;
    struct ledger *ledger;
    uint64_t last; /* event it has seen committed */
    uint64_t events;
};

#define EXPECT(w, e)                                                                               \
    do {                                                                                           \
        if (!(e)) {                                                                                \
            print_error("line %d: %s\n", __LINE__, #e);                                            \
            atomic_fetch_add(&(w)->crowd->failures, 1);                                            \
        }                                                                                          \
    } while (0)

/* Events of a batch are in one piece, behind everything that was committed before it began. */
static void submit(struct writer *w, struct ledger_op **ops, size_t count)
{
    uint64_t before = atomic_load(&w->crowd->highest);
    struct ledger_batch batch = {.ops = ops, .count = count, .now_ms = T0};
    (void)ledger_write(w->ledger, &batch);
    EXPECT(w, batch.error == 0);
    for (size_t i = 0; i < batch.events_count; i++) {
        EXPECT(w, batch.events[i].number == batch.events[0].number + i);
    }
    if (batch.events_count == 0) {
        return;
    }
    EXPECT(w, batch.events[0].number > before && batch.events[0].number > w->last);
    w->last = batch.events[batch.events_count - 1].number;
    w->events += batch.events_count;
    uint64_t highest = atomic_load(&w->crowd->highest);
    while (highest < w->last &&
           !atomic_compare_exchange_weak(&w->crowd->highest, &highest, w->last)) {
    }
}

static uint64_t run_crowd(struct fixture *f, void *(*run)(void *))
{
    struct crowd crowd = {.fixture = f};
    struct writer writers[WRITERS];
    pthread_t threads[WRITERS];
    uint64_t events = 0;
    atomic_store(&crowd.highest,
                 (uint64_t)sql_number(f, "SELECT ifnull(max(number), 0) FROM events"));
    uint64_t before = atomic_load(&crowd.highest);
    assert_int_equal(pthread_barrier_init(&crowd.start, NULL, WRITERS), 0);
    for (uint32_t i = 0; i < WRITERS; i++) {
        writers[i] = (struct writer){.crowd = &crowd, .number = i};
        assert_int_equal(on_mariadb.open(f, true, &writers[i].ledger), 0);
    }
    for (uint32_t i = 0; i < WRITERS; i++) {
        assert_int_equal(pthread_create(&threads[i], NULL, run, &writers[i]), 0);
    }
    for (uint32_t i = 0; i < WRITERS; i++) {
        assert_int_equal(pthread_join(threads[i], NULL), 0);
        events += writers[i].events;
        ledger_mariadb_close(writers[i].ledger);
    }
    assert_int_equal(atomic_load(&crowd.failures), 0);
    assert_int_equal(sql_number(f, "SELECT max(number) FROM events"), before + events);
    assert_int_equal(sql_number(f, "SELECT count(*) FROM events"), before + events);
    (void)pthread_barrier_destroy(&crowd.start);
    return events;
}

/* Sales whose ids the ledger gives, warmed and closed. */
static void *operate(void *argument)
{
    struct writer *w = argument;
    (void)pthread_barrier_wait(&w->crowd->start);
    for (uint32_t i = 0; i < ROUNDS; i++) {
        struct item_row items[] = {{.price_cents = PRICE, .total = 5, .name = "a"},
                                   {.price_cents = PRICE, .total = 5, .name = "b"}};
        struct sale_row sale = {.pay_within_s = 600,
                                .starts_at_ms = T0,
                                .ends_at_ms = T0 + 1,
                                .name = "sale",
                                .currency = "CNY",
                                .items_count = 2,
                                .items = items};
        struct ledger_op create = {.kind = LEDGER_SALE_CREATE, .sale_in = &sale};
        submit(w, (struct ledger_op *[]){&create}, 1);
        EXPECT(w, create.refusal == REFUSAL_NONE && create.sale != NULL);
        uint64_t id = create.sale != NULL ? create.sale->id : 0;
        struct ledger_op warm = sale_move(id, SALE_WARM);
        struct ledger_op close = sale_move(id, SALE_CLOSED);
        submit(w, (struct ledger_op *[]){&warm, &close}, 2);
        EXPECT(w, warm.refusal == REFUSAL_NONE && close.refusal == REFUSAL_NONE);
        sale_row_free(create.sale);
        sale_row_free(warm.sale);
        sale_row_free(close.sale);
    }
    return NULL;
}

static void test_operators_at_once(void **state)
{
    struct fixture *f = *state;
    (void)run_crowd(f, operate);
    assert_int_equal(sql_number(f, "SELECT count(*) FROM sales"), WRITERS * ROUNDS);
    assert_int_equal(sql_number(f, "SELECT max(id) FROM sales"), WRITERS * ROUNDS);
    assert_int_equal(sql_number(f, "SELECT max(id) FROM items"), 2 * WRITERS * ROUNDS);
    assert_int_equal(sql_number(f, "SELECT count(*) FROM sales WHERE state <> 'closed'"), 0);
}

/* Everybody books every order, each in an order of his own, and ends some of them. */
#define ORDERS 600
#define BATCH 30

static struct ledger_op order_op(uint32_t n)
{
    struct ledger_op op = book_fresh(ITEM, 1 + n % 97, 1, n);
    op.segment = n % SEGMENTS;
    op.epoch = 1;
    op.lsn = 1;
    return op;
}

static atomic_uint firsts[ORDERS]; /* how many writers got the answer that they booked it */
static atomic_uint ends[ORDERS];

static void *rush(void *argument)
{
    struct writer *w = argument;
    uint32_t step = (uint32_t[]){7, 11, 13, 17}[w->number % 4]; /* none divides ORDERS */
    (void)pthread_barrier_wait(&w->crowd->start);
    for (uint32_t at = 0; at < ORDERS; at += BATCH) {
        struct ledger_op ops[2 * BATCH];
        struct ledger_op *list[2 * BATCH];
        for (uint32_t i = 0; i < BATCH; i++) {
            uint32_t n = (at + i) * step % ORDERS;
            ops[i] = order_op(n);
            ops[BATCH + i] = n % 3 == 0   ? cancel(ops[i].command.id, 0)
                             : n % 3 == 1 ? expire(ops[i].command.id)
                                          : pay(ops[i].command.id, "", PRICE);
            if (n % 3 == 2) {
                (void)snprintf(ops[BATCH + i].key, sizeof(ops[i].key), "%u by %u", n, w->number);
            }
            list[i] = &ops[i];
            list[BATCH + i] = &ops[BATCH + i];
        }
        submit(w, list, (size_t)2 * BATCH);
        for (uint32_t i = 0; i < BATCH; i++) {
            uint32_t n = (at + i) * step % ORDERS;
            EXPECT(w, ops[i].refusal == REFUSAL_NONE);
            atomic_fetch_add(&firsts[n], ops[i].repeated ? 0 : 1);
            bool ended = ops[BATCH + i].refusal == REFUSAL_NONE && !ops[BATCH + i].repeated;
            atomic_fetch_add(&ends[n], ended ? 1 : 0);
        }
    }
    return NULL;
}

static void test_everybody_books_everything(void **state)
{
    struct fixture *f = *state;
    sale_open(f, 1, ITEM, 1, 10000, 0, false);
    uint64_t events = run_crowd(f, rush);
    uint64_t ended = 0;
    for (uint32_t n = 0; n < ORDERS; n++) {
        assert_int_equal(atomic_load(&firsts[n]), 1);
        assert_int_equal(atomic_load(&ends[n]), n % 3 == 1 ? 0 : 1); /* not due yet */
        ended += atomic_load(&ends[n]);
    }
    assert_int_equal(events, ORDERS + ended);
    assert_int_equal(sql_number(f, "SELECT count(*) FROM orders"), ORDERS);
    assert_int_equal(sql_number(f, "SELECT count(*) FROM orders WHERE status = 'LOCKED'"),
                     ORDERS / 3);
}

/* More buyers than units, from all sides: each segment sells its share and no more. */
#define UNITS 90

static void *sell_out(void *argument)
{
    struct writer *w = argument;
    (void)pthread_barrier_wait(&w->crowd->start);
    for (uint32_t n = 0; n < UNITS; n += 10) {
        struct ledger_op ops[10];
        struct ledger_op *list[10];
        for (uint32_t i = 0; i < 10; i++) {
            uint32_t buyer = w->number * UNITS + n + i;
            ops[i] = book_at(buyer % SEGMENTS, ITEM, 1 + buyer, 0);
            ops[i].lsn = 1;
            list[i] = &ops[i];
        }
        submit(w, list, 10);
    }
    return NULL;
}

static void test_selling_out_from_all_sides(void **state)
{
    struct fixture *f = *state;
    sale_open(f, 1, ITEM, 1, UNITS, 1, false);
    (void)run_crowd(f, sell_out);
    assert_stock(f, ITEM, 0, UNITS, 0);
    for (uint32_t s = 0; s < SEGMENTS; s++) {
        assert_allotment(f, s, ITEM, UNITS / SEGMENTS, UNITS / SEGMENTS, 0);
    }
    assert_int_equal(sql_number(f, "SELECT count(*) FROM orders WHERE reason = 'NO_STOCK'"),
                     (WRITERS - 1) * UNITS);
}

/* ---- a deadline that is met on the way ---- */

struct holdup {
    MYSQL *shell;
    struct order_id watched;
    int failures;
};

/* Lets the batch go on when the watched order's deadline is past. */
static void *let_go_later(void *argument)
{
    struct holdup *h = argument;
    char sql[256];
    char id[ORDER_ID_TEXT];
    bool past = false;
    order_id_text(h->watched, id);
    (void)snprintf(sql, sizeof(sql),
                   "SELECT pay_by_ms <= unix_timestamp(now(3)) * 1000 FROM orders WHERE id ="
                   " '%.*s'",
                   ORDER_ID_TEXT, id);
    while (!past && h->failures == 0) {
        MYSQL_RES *result = mysql_query(h->shell, sql) == 0 ? mysql_store_result(h->shell) : NULL;
        MYSQL_ROW row = result == NULL ? NULL : mysql_fetch_row(result);
        h->failures += row == NULL;
        past = row != NULL && row[0][0] == '1';
        mysql_free_result(result);
        (void)usleep(5000);
    }
    h->failures += mysql_query(h->shell, "ROLLBACK") != 0;
    return NULL;
}

/* When the batch began the payment was in time. It is not when it would be written. */
static void test_a_deadline_on_the_way(void **state)
{
    struct fixture *f = *state;
    struct item_row item = {.id = ITEM, .price_cents = PRICE, .total = 30, .name = "item"};
    struct sale_row sale = {.id = 1,
                            .pay_within_s = 1,
                            .starts_at_ms = T0,
                            .ends_at_ms = T0 * 2,
                            .name = "sale",
                            .currency = "CNY",
                            .items_count = 1,
                            .items = &item};
    struct ledger_op create = {.kind = LEDGER_SALE_CREATE, .sale_in = &sale};
    struct ledger_op open = sale_move(1, SALE_OPEN);
    write_batch(f, T0, (struct ledger_op *[]){&create, &open}, 2);
    sale_row_free(create.sale);
    sale_row_free(open.sale);

    struct ledger_op other = order_op(2);
    char sql[256];
    char id[ORDER_ID_TEXT];
    order_id_text(other.command.id, id);
    struct holdup h = {.shell = mariadb_shell(f->database)};
    assert_int_equal(mysql_query(h.shell, "BEGIN"), 0);
    (void)snprintf(sql, sizeof(sql),
                   "INSERT INTO orders(item_id, id, user_id, qty, status, amount_cents,"
                   " created_at_ms, locked_at_ms, pay_by_ms, lsn)"
                   " VALUES(%d, '%.*s', 1, 1, 'LOCKED', 1, 1, 1, 2, 1)",
                   ITEM, ORDER_ID_TEXT, id);
    assert_int_equal(mysql_query(h.shell, sql), 0); /* the batch will wait for its end */

    struct ledger_op mine = order_op(1);
    write_op(f, T0, &mine);
    h.watched = mine.command.id;
    pthread_t thread;
    assert_int_equal(pthread_create(&thread, NULL, let_go_later, &h), 0);
    struct ledger_op late = pay(mine.command.id, "p", PRICE);
    write_batch(f, T0, (struct ledger_op *[]){&other, &late}, 2);
    assert_int_equal(pthread_join(thread, NULL), 0);
    assert_int_equal(h.failures, 0);
    mysql_close(h.shell);
    assert_int_equal(other.order.state, ORDER_LOCKED);
    assert_int_equal(late.refusal, REFUSAL_EXPIRED);
    assert_int_equal(sql_number(f, "SELECT count(*) FROM payments"), 0);
    struct ledger_op due = expire(mine.command.id);
    write_op(f, T0, &due);
    assert_int_equal(due.order.state, ORDER_EXPIRED);
}

int main(void)
{
#define TEST(name) cmocka_unit_test_setup_teardown(name, fixture_setup_shared, fixture_teardown)
    const struct CMUnitTest tests[] = {
        TEST(test_operators_at_once),
        TEST(test_everybody_books_everything),
        TEST(test_selling_out_from_all_sides),
        TEST(test_a_deadline_on_the_way),
    };
    return LEDGER_RUN_ON(on_mariadb, tests);
}
