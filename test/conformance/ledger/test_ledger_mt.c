/*
 * One writer and two readers of the same ledger, each thread with its own instance: readers see only
 * committed states, each one whole, never going back; the writer is never told to wait.
 *
 * The hang guard is the test runner's; no verdict depends on the clock.
 */
#include "fixture.h"

#include <pthread.h>
#include <sched.h>
#include <stdatomic.h>
#include <string.h>

#define ITEM 7
#define BATCHES 150
#define BATCH 40
#define READERS 2

struct shared {
    struct fixture *fixture;
    atomic_bool done;
    atomic_int failures; /* cmocka's asserts belong to the main thread */
    atomic_uint_fast64_t committed;
    atomic_uint_fast64_t reads;
};

#define EXPECT(shared, e)                                                                          \
    do {                                                                                           \
        if (!(e)) {                                                                                \
            print_error("line %d: %s\n", __LINE__, #e);                                            \
            atomic_fetch_add(&(shared)->failures, 1);                                              \
        }                                                                                          \
    } while (0)

/* Batch n books BATCH orders and ends a few of batch n - 1. */
static void *writer(void *argument)
{
    struct shared *shared = argument;
    struct ledger *ledger = shared->fixture->ledger;
    for (uint32_t n = 1; n <= BATCHES; n++) {
        struct ledger_op ops[BATCH + 2];
        struct ledger_op *list[BATCH + 2];
        size_t count = 0;
        for (uint32_t i = 0; i < BATCH; i++) {
            ops[count++] = book_fresh(ITEM, 1 + (n * 31 + i) % 500, 1, n * BATCH + i);
        }
        if (n > 1) {
            struct order_id id = order_id_fresh(ITEM, T0 + 5, (n - 1) * BATCH);
            char key[8] = {'p', (char)('a' + n / 26), (char)('a' + n % 26)};
            ops[count++] = pay(id, key, PRICE);
            id = order_id_fresh(ITEM, T0 + 5, (n - 1) * BATCH + 1);
            ops[count++] = cancel(id, 0);
        }
        for (size_t i = 0; i < count; i++) {
            list[i] = &ops[i];
        }
        struct ledger_batch batch = {.ops = list, .count = count, .now_ms = T0, .booked_lsn = n};
        (void)ledger_write(ledger, &batch);
        EXPECT(shared, batch.error == 0);
        for (size_t i = 0; i < count; i++) {
            EXPECT(shared, ops[i].refusal == REFUSAL_NONE);
        }
        atomic_store(&shared->committed, n);
        while (atomic_load(&shared->reads) < n) { /* let the readers take part */
            sched_yield();
        }
    }
    atomic_store(&shared->done, true);
    return NULL;
}

/* The whole of one query is one state: the report must add up to batches, the sale to its total. */
static void read_once(struct shared *shared, struct ledger *ledger, uint64_t *last)
{
    uint64_t committed = atomic_load(&shared->committed);
    struct ledger_query state = {.kind = QUERY_STATE};
    (void)ledger_read(ledger, &state);
    EXPECT(shared, state.error == 0);
    EXPECT(shared, state.booked_lsn >= committed);
    EXPECT(shared, state.booked_lsn >= *last);
    uint64_t n = state.booked_lsn;
    EXPECT(shared, state.last_event == 3 + n * BATCH + (n > 1 ? 2 * (n - 1) : 0));
    *last = n;

    struct report_row report[1];
    struct ledger_query q = {.kind = QUERY_REPORT, .sale = 1, .limit = 1, .report = report};
    (void)ledger_read(ledger, &q);
    EXPECT(shared, q.error == 0);
    uint64_t ended = report[0].orders[ORDER_PAID];
    uint64_t orders = ended + report[0].orders[ORDER_CANCELLED] + report[0].orders[ORDER_LOCKED];
    EXPECT(shared, orders % BATCH == 0 && orders >= n * BATCH);
    EXPECT(shared, orders == 0 || ended == orders / BATCH - 1);

    struct sale_row *sale = NULL;
    struct ledger_query s = {.kind = QUERY_SALES, .sale = 1, .limit = 1, .sales = &sale};
    (void)ledger_read(ledger, &s);
    EXPECT(shared, s.error == 0);
    const struct item_row *item = &sale->items[0];
    EXPECT(shared, item->available + item->locked + item->sold == item->total);
    sale_row_free(sale);

    struct ledger_event events[16];
    struct ledger_query e = {
        .kind = QUERY_EVENTS, .after = state.last_event - 3, .limit = 16, .events = events};
    (void)ledger_read(ledger, &e);
    EXPECT(shared, e.error == 0 && e.count >= 3 && events[2].number == state.last_event);
    atomic_fetch_add(&shared->reads, 1);
}

static void *reader(void *argument)
{
    struct shared *shared = argument;
    struct ledger *ledger = NULL;
    int err = fixture_backend->open(shared->fixture, false, &ledger);
    EXPECT(shared, err == 0);
    uint64_t last = 0;
    bool done = err != 0;
    while (!done) {
        done = atomic_load(&shared->done); /* and once more after the last commit */
        read_once(shared, ledger, &last);
    }
    EXPECT(shared, last == BATCHES);
    fixture_backend->close(ledger);
    return NULL;
}

static void test_readers_beside_the_writer(void **state)
{
    struct fixture *f = *state;
    sale_open(f, 1, ITEM, 1, 1000000, 0, false);
    struct shared shared = {.fixture = f};
    pthread_t threads[READERS + 1];
    assert_int_equal(pthread_create(&threads[0], NULL, writer, &shared), 0);
    for (int i = 1; i <= READERS; i++) {
        assert_int_equal(pthread_create(&threads[i], NULL, reader, &shared), 0);
    }
    for (int i = 0; i <= READERS; i++) {
        assert_int_equal(pthread_join(threads[i], NULL), 0);
    }
    assert_int_equal(atomic_load(&shared.failures), 0);
}

/* While a write transaction is open, for as long as it likes, a reader reads the state before it.
 */
static void test_a_long_transaction_hides_nothing_and_stops_nobody(void **state)
{
    struct fixture *f = *state;
    sale_open(f, 1, ITEM, 1, 1000, 0, false);
    struct ledger *ledger;
    assert_int_equal(fixture_backend->open(f, false, &ledger), 0);
    void *held = fixture_backend->hold(f, "UPDATE meta SET booked_lsn = 99");
    struct ledger_query q = {.kind = QUERY_STATE};
    (void)ledger_read(ledger, &q);
    assert_int_equal(q.error, 0);
    assert_int_equal(q.booked_lsn, 0);
    fixture_backend->let_go(held);
    (void)ledger_read(ledger, &q);
    assert_int_equal(q.booked_lsn, 99);
    fixture_backend->close(ledger);
}

int main(void)
{
#define TEST(name) cmocka_unit_test_setup_teardown(name, fixture_setup, fixture_teardown)
    const struct CMUnitTest tests[] = {
        TEST(test_readers_beside_the_writer),
        TEST(test_a_long_transaction_hides_nothing_and_stops_nobody),
    };
    return LEDGER_SUITE_RUN(tests);
}
