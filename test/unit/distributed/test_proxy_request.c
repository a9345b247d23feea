/* The states of a gate proxy's request, and the pool of a loop's records. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "distributed/proxy_request.h"

#define RECORDS 3

static struct proxy_request_pool pool;

static int set_up(void **state)
{
    (void)state;
    assert_int_equal(proxy_request_pool_init(&pool, RECORDS), 0);
    return 0;
}

static int tear_down(void **state)
{
    (void)state;
    proxy_request_pool_done(&pool);
    return 0;
}

static void only_the_moves_of_the_table_are_allowed(void **state)
{
    (void)state;
    static const char *const allowed[PROXY_REQUEST_STATES] = {
        [PROXY_REQUEST_NEW] = ".rla.A",       [PROXY_REQUEST_READING] = ".rla.A",
        [PROXY_REQUEST_LOOKING] = "....fA",   [PROXY_REQUEST_ASKED] = "....fA",
        [PROXY_REQUEST_REFILLING] = "...a..", [PROXY_REQUEST_ANSWERED] = "......"};
    for (int from = 0; from < PROXY_REQUEST_STATES; from++) {
        for (int to = 0; to < PROXY_REQUEST_STATES; to++) {
            assert_int_equal(proxy_request_may_move(from, to), allowed[from][to] != '.');
        }
    }
}

static void a_request_ends_where_it_is_answered(void **state)
{
    (void)state;
    struct gate_request request = {.kind = GATE_REQUEST_BUY};
    struct proxy_request *record = proxy_request_take(&pool, &request);
    assert_ptr_equal(request.record, record);
    assert_ptr_equal(record->request, &request);
    assert_int_equal(record->state, PROXY_REQUEST_NEW);
    proxy_request_move(&pool, record, PROXY_REQUEST_ASKED);
    proxy_request_move(&pool, record, PROXY_REQUEST_REFILLING);
    proxy_request_move(&pool, record, PROXY_REQUEST_ASKED);
    proxy_request_move(&pool, record, PROXY_REQUEST_ANSWERED);
    proxy_request_return(&pool, record);
    assert_null(request.record);
}

static void those_that_wait_for_a_reading_are_counted(void **state)
{
    (void)state;
    struct gate_request requests[2] = {{0}};
    struct proxy_request *first = proxy_request_take(&pool, &requests[0]);
    struct proxy_request *second = proxy_request_take(&pool, &requests[1]);
    proxy_request_move(&pool, first, PROXY_REQUEST_READING);
    proxy_request_move(&pool, second, PROXY_REQUEST_READING);
    assert_int_equal(pool.reading, 2);
    proxy_request_move(&pool, first, PROXY_REQUEST_READING); /* the reading is not over yet */
    assert_int_equal(pool.reading, 2);
    proxy_request_move(&pool, first, PROXY_REQUEST_ASKED);
    assert_int_equal(pool.reading, 1);
    proxy_request_move(&pool, second, PROXY_REQUEST_ANSWERED);
    assert_int_equal(pool.reading, 0);
}

static void a_record_is_clean_when_it_is_used_again(void **state)
{
    (void)state;
    struct gate_request requests[RECORDS + 1] = {{0}};
    struct proxy_request *records[RECORDS];
    for (int i = 0; i < RECORDS; i++) {
        records[i] = proxy_request_take(&pool, &requests[i]);
    }
    records[1]->give_up_us = records[1]->again_us = records[1]->ticket_expires_ms = 9;
    records[1]->reading = 9;
    proxy_request_move(&pool, records[1], PROXY_REQUEST_ANSWERED);
    proxy_request_return(&pool, records[1]);
    struct proxy_request *again = proxy_request_take(&pool, &requests[RECORDS]);
    assert_ptr_equal(again, records[1]); /* no other is free */
    assert_int_equal(again->state, PROXY_REQUEST_NEW);
    assert_ptr_equal(again->request, &requests[RECORDS]);
    assert_int_equal(again->give_up_us, 0);
    assert_int_equal(again->again_us, 0);
    assert_int_equal(again->ticket_expires_ms, 0);
    assert_int_equal(again->reading, 0);
    assert_null(again->next);
}

#define TEST(name) cmocka_unit_test_setup_teardown(name, set_up, tear_down)

int main(void)
{
    const struct CMUnitTest tests[] = {
        TEST(only_the_moves_of_the_table_are_allowed),
        TEST(a_request_ends_where_it_is_answered),
        TEST(those_that_wait_for_a_reading_are_counted),
        TEST(a_record_is_clean_when_it_is_used_again),
    };
    return cmocka_run_group_tests_name("proxy request", tests, NULL, NULL);
}
