/*
 * Leases that the ledger keeps: one holder at a time, a token that grows with each new one, and
 * batches of those who had it before, refused whole.
 */
#include "fixture.h"

#include <string.h>

#define ITEM 7
#define NAME "recover/1"
#define TTL 1000

struct holders {
    struct lease_port *a;
    struct lease_port *b;
};

static struct holders holders_open(struct fixture *f)
{
    struct holders h;
    assert_int_equal(fixture_backend->lease_open(f, "a", &h.a), 0);
    assert_int_equal(fixture_backend->lease_open(f, "b", &h.b), 0);
    return h;
}

static void holders_close(struct holders *h)
{
    fixture_backend->lease_close(h->a);
    fixture_backend->lease_close(h->b);
}

/* The token that was got; 0: it is somebody else's. */
static uint64_t take_at(struct lease_port *port, int64_t now_ms)
{
    uint64_t token = 0;
    fixture_backend->lease_set_time(port, now_ms);
    int err = lease_take(port, NAME, TTL, &token);
    assert_true(err == 0 || err == ERR_BUSY);
    assert_true(err == 0 ? token > 0 : token == 0);
    return token;
}

static void test_one_holder_at_a_time(void **state)
{
    struct holders h = holders_open(*state);
    assert_int_equal(take_at(h.a, T0), 1);
    assert_int_equal(take_at(h.b, T0), 0);
    assert_int_equal(take_at(h.b, T0 + TTL - 1), 0);
    assert_int_equal(take_at(h.b, T0 + TTL), 2); /* its end is no more part of it */
    assert_int_equal(take_at(h.a, T0 + TTL), 0);
    /* Another name is another lease. */
    uint64_t token = 0;
    assert_int_equal(lease_take(h.a, "recover/2", TTL, &token), 0);
    assert_int_equal(token, 1);
    holders_close(&h);
}

static void test_keeping_it_keeps_the_token(void **state)
{
    struct holders h = holders_open(*state);
    assert_int_equal(take_at(h.a, T0), 1);
    for (int64_t i = 1; i < 5; i++) {
        assert_int_equal(take_at(h.a, T0 + i * TTL / 2), 1);
        assert_int_equal(take_at(h.b, T0 + i * TTL / 2 + TTL / 2), 0);
    }
    /* Late, but nobody else had it meanwhile. */
    assert_int_equal(take_at(h.a, T0 + 10 * TTL), 1);
    /* Too late: another had it, and lost it again. */
    assert_int_equal(take_at(h.b, T0 + 20 * TTL), 2);
    assert_int_equal(take_at(h.a, T0 + 30 * TTL), 3);
    assert_int_equal(take_at(h.a, T0 + 30 * TTL + 1), 3);
    holders_close(&h);
}

static void test_giving_it_up(void **state)
{
    struct holders h = holders_open(*state);
    assert_int_equal(take_at(h.a, T0), 1);
    lease_drop(h.b, NAME); /* not his to give */
    assert_int_equal(take_at(h.b, T0), 0);
    lease_drop(h.a, NAME);
    assert_int_equal(take_at(h.b, T0), 2);
    lease_drop(h.a, NAME); /* no more his */
    assert_int_equal(take_at(h.a, T0), 0);
    lease_drop(h.b, NAME);
    assert_int_equal(take_at(h.b, T0), 3); /* a new holding, even by the same */
    lease_drop(h.b, "never heard of");
    holders_close(&h);
}

static int write_under(struct fixture *f, uint64_t user, const char *lease, uint64_t token)
{
    struct ledger_op op = book_at(1, ITEM, user, 0);
    struct ledger_op *ops[] = {&op};
    op.lsn = 1;
    struct ledger_batch batch = {
        .ops = ops, .count = 1, .now_ms = T0, .lease = lease, .token = token};
    (void)ledger_write(f->ledger, &batch);
    assert_int_equal(batch.events_count, batch.error == 0 ? 1 : 0);
    assert_int_equal(op.order.user, batch.error == 0 ? user : 0);
    return batch.error;
}

static void test_a_stale_holder_writes_nothing(void **state)
{
    struct fixture *f = *state;
    struct holders h = holders_open(f);
    sale_open(f, 1, ITEM, 1, 90, 1, false);
    assert_int_equal(write_under(f, 1, NAME, 1), 0); /* nobody ever had it */
    assert_int_equal(take_at(h.a, T0), 1);
    assert_int_equal(write_under(f, 2, NAME, 1), 0);
    assert_int_equal(take_at(h.b, T0 + TTL), 2);
    assert_int_equal(write_under(f, 3, NAME, 1), ERR_BUSY);
    assert_int_equal(write_under(f, 3, NAME, 0), ERR_BUSY);
    assert_int_equal(write_under(f, 4, NAME, 2), 0);
    assert_int_equal(write_under(f, 5, "another", 1), 0);
    assert_int_equal(write_under(f, 6, NULL, 0), 0);
    /* It is the token that counts: whose lease has lapsed, and nobody took it, may go on. */
    assert_int_equal(write_under(f, 7, NAME, 2), 0);
    struct order_row row;
    struct ledger_query q = {.kind = QUERY_ORDER, .id = order_id_once(ITEM, 3, 0), .orders = &row};
    (void)ledger_read(f->ledger, &q);
    assert_int_equal(q.error, ERR_NOTFOUND);
    holders_close(&h);
}

int main(void)
{
#define TEST(name) cmocka_unit_test_setup_teardown(name, fixture_setup_shared, fixture_teardown)
    const struct CMUnitTest tests[] = {
        TEST(test_one_holder_at_a_time),
        TEST(test_keeping_it_keeps_the_token),
        TEST(test_giving_it_up),
        TEST(test_a_stale_holder_writes_nothing),
    };
    return LEDGER_SHARED_RUN(tests);
}
