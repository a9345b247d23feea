/*
 * A lease that several want at once, from threads with connections of their own; one whose server
 * is locked, cut off or gone; and a batch that is under way when the lease goes to somebody else.
 */
#include "conformance/ledger/on_mariadb.h"

#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "backend/mariadb/lease_mariadb.h"
#include "backend/mariadb/maria.h"

#define NAME "keeper"
#define HOLDERS 4
#define ROUNDS 60

struct race {
    struct fixture *fixture;
    atomic_int failures;
    atomic_int inside; /* who believes to have it */
    atomic_uint_fast64_t highest;
    atomic_uint_fast64_t taken;
    pthread_barrier_t start;
};

struct holder {
    struct race *race;
    struct lease_port *port;
};

static int open_holder(struct fixture *f, const char *name, struct lease_port **ret_port)
{
    return on_mariadb.lease_open(f, name, ret_port);
}

static void *race_for_it(void *argument)
{
    struct holder *h = argument;
    struct race *race = h->race;
    (void)pthread_barrier_wait(&race->start);
    for (int i = 0; i < ROUNDS; i++) {
        uint64_t token = 0;
        int err = lease_take(h->port, NAME, 60000, &token);
        if (err == 0) {
            /* Higher than any token before it, and alone: the lease is long. */
            if (atomic_fetch_add(&race->inside, 1) != 0 || token <= atomic_load(&race->highest)) {
                atomic_fetch_add(&race->failures, 1);
            }
            atomic_store(&race->highest, token);
            atomic_fetch_add(&race->taken, 1);
            atomic_fetch_sub(&race->inside, 1);
            lease_drop(h->port, NAME);
        } else if (err != ERR_BUSY) {
            print_error("%s\n", lease_mariadb_error(h->port));
            atomic_fetch_add(&race->failures, 1);
        }
    }
    return NULL;
}

static void test_a_race(void **state)
{
    struct race race = {.fixture = *state};
    struct holder holders[HOLDERS];
    pthread_t threads[HOLDERS];
    assert_int_equal(pthread_barrier_init(&race.start, NULL, HOLDERS), 0);
    for (int i = 0; i < HOLDERS; i++) {
        char name[32];
        (void)snprintf(name, sizeof(name), "holder %d", i);
        holders[i].race = &race;
        assert_int_equal(open_holder(*state, name, &holders[i].port), 0);
    }
    for (int i = 0; i < HOLDERS; i++) {
        assert_int_equal(pthread_create(&threads[i], NULL, race_for_it, &holders[i]), 0);
    }
    for (int i = 0; i < HOLDERS; i++) {
        assert_int_equal(pthread_join(threads[i], NULL), 0);
        lease_mariadb_close(holders[i].port);
    }
    assert_int_equal(atomic_load(&race.failures), 0);
    assert_true(atomic_load(&race.taken) > 0);
    assert_int_equal(atomic_load(&race.taken), atomic_load(&race.highest)); /* from 1 on, no gaps */
    (void)pthread_barrier_destroy(&race.start);
}

/* The database's clock decides, in whatever zone it shows its time. */
static void test_the_databases_clock(void **state)
{
    struct fixture *f = *state;
    struct lease_port *port;
    uint64_t token;
    assert_int_equal(open_holder(f, "a", &port), 0);
    assert_int_equal(lease_take(port, NAME, 60000, &token), 0);
    assert_int_equal(sql_number(f, "SELECT until_ms - unix_timestamp() * 1000 BETWEEN 50000 AND"
                                   " 61000 FROM leases"),
                     1);
    lease_mariadb_close(port);
}

static void test_a_connection_that_ends(void **state)
{
    struct fixture *f = *state;
    struct lease_port *port;
    uint64_t token = 0;
    assert_int_equal(open_holder(f, "a", &port), 0);
    assert_int_equal(lease_take(port, NAME, 60000, &token), 0);
    for (int i = 0; i < 3; i++) {
        assert_int_equal(sql_run(f, "KILL CONNECTION %lu", maria_of_lease(port)->thread), SQL_DONE);
        assert_int_equal(lease_take(port, NAME, 60000, &token), 0);
        assert_int_equal(token, 1);
    }
    lease_mariadb_close(port);
}

/* Somebody sits on the row: that is not an answer, and not for ever. */
static void test_a_locked_row(void **state)
{
    struct fixture *f = *state;
    struct lease_port *port;
    uint64_t token = 0;
    assert_int_equal(open_holder(f, "a", &port), 0);
    assert_int_equal(lease_take(port, NAME, 60000, &token), 0);
    void *held = on_mariadb.hold(f, "UPDATE leases SET token = token");
    token = 0;
    assert_int_equal(lease_take(port, NAME, 60000, &token), ERR_IO);
    assert_int_equal(token, 0);
    on_mariadb.let_go(held);
    assert_int_equal(lease_take(port, NAME, 60000, &token), 0);
    assert_int_equal(token, 1);
    lease_mariadb_close(port);
}

struct successor {
    struct lease_port *port;
    int err;
    uint64_t token;
    atomic_bool done;
};

static void *succeed(void *argument)
{
    struct successor *next = argument;
    next->err = lease_take(next->port, NAME, 60000, &next->token);
    atomic_store(&next->done, true);
    return NULL;
}

/* From the check of its token to its commit a batch cannot be overtaken: the lease goes to the
 * next one behind it, not beside it. */
static void test_no_successor_beside_a_batch(void **state)
{
    struct fixture *f = *state;
    struct lease_port *first;
    uint64_t token = 0;
    struct successor next = {.err = 1};
    pthread_t thread;
    assert_int_equal(open_holder(f, "a", &first), 0);
    assert_int_equal(open_holder(f, "b", &next.port), 0);
    on_mariadb.lease_set_time(first, T0);
    assert_int_equal(lease_take(first, NAME, 1000, &token), 0); /* long over */
    /* The batch, as far as the check. */
    struct maria *s = maria_of(f->ledger);
    struct db_row *row;
    assert_int_equal(maria_do(s, "START TRANSACTION"), 0);
    assert_int_equal(db_get(&s->base, MARIA_LEASE_TOKEN, &row, v_key(NAME)), 0);
    db_done(row);
    assert_int_equal(pthread_create(&thread, NULL, succeed, &next), 0);
    for (int seen = 0; seen < 20 && !atomic_load(&next.done);) { /* it waits, or it is done */
        seen += sql_number(f, "SELECT count(*) FROM information_schema.processlist WHERE info LIKE"
                              " 'INSERT INTO leases%%'") != 0;
        (void)usleep(2000);
    }
    assert_false(atomic_load(&next.done));
    assert_int_equal(maria_do(s, "COMMIT"), 0);
    assert_int_equal(pthread_join(thread, NULL), 0);
    assert_int_equal(next.err, 0);
    assert_int_equal(next.token, 2);
    lease_mariadb_close(first);
    lease_mariadb_close(next.port);
}

/* ---- holders who do not look at the clock ---- */

#define ITEM 7
#define WRITES 150

struct ledger_reader {
    struct fixture *fixture;
    struct lease_port *lease;
    struct ledger *ledger;
    uint32_t number;
    uint32_t refused;
    uint32_t committed;
    int failures;
};

/* Writes on and on under the token it got, long after the lease's end, until it is refused. */
static void *write_on(void *argument)
{
    struct ledger_reader *c = argument;
    uint64_t token = 0;
    for (uint32_t n = 0; n < WRITES; n++) {
        int err = token != 0 ? 0 : lease_take(c->lease, NAME, 3, &token);
        if (err != 0) {
            c->failures += err != ERR_BUSY;
            (void)usleep(500);
            continue;
        }
        struct ledger_op op = book_fresh(ITEM, token, 1, n * HOLDERS + c->number);
        op.segment = 1;
        op.epoch = 1;
        struct ledger_op *ops[] = {&op};
        struct ledger_batch batch = {
            .ops = ops, .count = 1, .now_ms = T0, .lease = NAME, .token = token};
        (void)ledger_write(c->ledger, &batch);
        c->failures += batch.error != 0 && batch.error != ERR_BUSY;
        c->committed += batch.error == 0;
        c->refused += batch.error == ERR_BUSY;
        token = batch.error == 0 ? token : 0;
    }
    return NULL;
}

/* In the order of the commits no token is followed by a lower one. */
static void test_writers_are_fenced(void **state)
{
    struct fixture *f = *state;
    struct ledger_reader clerks[HOLDERS];
    pthread_t threads[HOLDERS];
    uint32_t committed = 0;
    uint32_t refused = 0;
    sale_open(f, 1, ITEM, 1, 100000, 0, false);
    for (uint32_t i = 0; i < HOLDERS; i++) {
        char name[16];
        (void)snprintf(name, sizeof(name), "holder %u", i);
        clerks[i] = (struct ledger_reader){.fixture = f, .number = i};
        assert_int_equal(open_holder(f, name, &clerks[i].lease), 0);
        assert_int_equal(on_mariadb.open(f, true, &clerks[i].ledger), 0);
    }
    for (uint32_t i = 0; i < HOLDERS; i++) {
        assert_int_equal(pthread_create(&threads[i], NULL, write_on, &clerks[i]), 0);
    }
    for (uint32_t i = 0; i < HOLDERS; i++) {
        assert_int_equal(pthread_join(threads[i], NULL), 0);
        assert_int_equal(clerks[i].failures, 0);
        committed += clerks[i].committed;
        refused += clerks[i].refused;
        lease_mariadb_close(clerks[i].lease);
        ledger_mariadb_close(clerks[i].ledger);
    }
    print_message("%u batches committed, %u refused\n", committed, refused);
    assert_true(committed > 0);
    assert_int_equal(sql_number(f, "SELECT count(*) FROM orders"), committed);
    assert_int_equal(
        sql_number(f, "SELECT count(*) FROM (SELECT user_id, lag(user_id) OVER (ORDER BY number)"
                      " AS before_it FROM events WHERE order_id IS NOT NULL) t WHERE user_id <"
                      " before_it"),
        0);
}

static void test_a_ledger_must_be_there(void **state)
{
    struct fixture empty = {.lsn = 0};
    struct lease_port *port = NULL;
    (void)state;
    on_mariadb.make(&empty);
    assert_int_equal(open_holder(&empty, "a", &port), ERR_NOTFOUND);
    assert_null(port);
    on_mariadb.discard(&empty);
}

int main(void)
{
#define TEST(name) cmocka_unit_test_setup_teardown(name, fixture_setup_shared, fixture_teardown)
    const struct CMUnitTest tests[] = {
        TEST(test_a_race),
        TEST(test_the_databases_clock),
        TEST(test_a_connection_that_ends),
        TEST(test_a_locked_row),
        TEST(test_no_successor_beside_a_batch),
        TEST(test_writers_are_fenced),
        TEST(test_a_ledger_must_be_there),
    };
    return LEDGER_RUN_ON(on_mariadb, tests);
}
