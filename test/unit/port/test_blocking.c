/* Blocking calls at the gate, over a gate of the test's own: who asks gets lost connections back. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

#include "base/check.h"
#include "port/blocking.h"

#define COUNT 3

/* A gate whose connection is made in its turns, as the one on Redis is. */
struct far_gate {
    struct gate_port port;
    uint32_t turns_to_connect;
    uint32_t turns;
    uint32_t submitted;
    uint32_t away_for; /* this segment's server never comes back */
    struct gate_request *answered;
    struct gate_request **end;
};

static struct far_gate gate;
static struct gate_request requests[COUNT];
static int64_t slept_ms;

static enum gate_submitted submit(struct gate_port *port, struct gate_request *request)
{
    assert_ptr_equal(port, &gate.port);
    gate.submitted++;
    if (gate.turns < gate.turns_to_connect || request->segment == gate.away_for) {
        request->outcome = GATE_OUTCOME_AWAY;
        return GATE_ANSWERED;
    }
    request->next = NULL;
    *gate.end = request;
    gate.end = &request->next;
    return GATE_PENDING;
}

static struct gate_request *collect(struct gate_port *port, uint32_t loop)
{
    assert_ptr_equal(port, &gate.port);
    assert_int_equal(loop, 7);
    gate.turns++;
    struct gate_request *answered = gate.answered;
    gate.answered = NULL;
    gate.end = &gate.answered;
    return answered;
}

static int64_t flush(struct gate_port *port, uint32_t loop)
{
    assert_ptr_equal(port, &gate.port);
    assert_int_equal(loop, 7);
    return INT64_MAX;
}

static const struct gate_ops ops = {.submit = submit, .collect = collect, .flush = flush};

static void sleep_ms(void *context, int64_t ms)
{
    (void)context;
    slept_ms += ms;
}

static const struct blocking blocking = {NULL, sleep_ms, NULL};

static int set_up(void **state)
{
    (void)state;
    slept_ms = 0;
    gate = (struct far_gate){.port = {&ops}, .away_for = UINT32_MAX};
    gate.end = &gate.answered;
    for (uint32_t i = 0; i < COUNT; i++) {
        requests[i] =
            (struct gate_request){.kind = GATE_REQUEST_ITEM, .loop = 7, .segment = i, .item = 1};
    }
    return 0;
}

static void every_request_is_answered(void **state)
{
    (void)state;
    int64_t away_ms = 100;
    blocking_gate_requests(&blocking, &gate.port, requests, COUNT, &away_ms);
    for (int i = 0; i < COUNT; i++) {
        assert_true(gate_request_done(&requests[i]));
    }
    assert_int_equal(gate.submitted, COUNT);
    assert_int_equal(away_ms, 100);
    blocking_gate_requests(&blocking, &gate.port, requests, 0, &away_ms);
    assert_int_equal(gate.submitted, COUNT);
}

/* Nothing was sent, so nothing is waited for; the connection is made all the same. */
static void lost_connections_come_back_for_who_waits(void **state)
{
    (void)state;
    int64_t away_ms = 100;
    gate.turns_to_connect = 20;
    blocking_gate_requests(&blocking, &gate.port, requests, COUNT, &away_ms);
    for (int i = 0; i < COUNT; i++) {
        assert_true(gate_request_done(&requests[i]));
    }
    assert_true(away_ms < 100 && away_ms >= 75);
}

static void and_for_who_does_not_wait_but_asks_again(void **state)
{
    (void)state;
    int64_t away_ms = 0;
    gate.turns_to_connect = 3;
    for (int call = 0; call < 2; call++) {
        blocking_gate_requests(&blocking, &gate.port, requests, COUNT, &away_ms);
        assert_int_equal(requests[0].outcome, GATE_OUTCOME_AWAY);
    }
    blocking_gate_requests(&blocking, &gate.port, requests, COUNT, &away_ms);
    assert_true(gate_request_done(&requests[0]));
    assert_int_equal(slept_ms, 0);
}

static void a_server_that_stays_away_costs_no_more_than_the_time_given(void **state)
{
    (void)state;
    int64_t away_ms = 50;
    gate.away_for = 1;
    blocking_gate_requests(&blocking, &gate.port, requests, COUNT, &away_ms);
    assert_true(gate_request_done(&requests[0]));
    assert_int_equal(requests[1].outcome, GATE_OUTCOME_AWAY);
    assert_true(gate_request_done(&requests[2]));
    assert_int_equal(away_ms, 0);
    assert_int_equal(slept_ms, 50);
    assert_int_equal(gate.submitted, COUNT + 50); /* only the one that met nobody is sent again */
    blocking_gate_requests(&blocking, &gate.port, requests, COUNT, &away_ms);
    assert_int_equal(slept_ms, 50); /* the time is used up */
}

int main(void)
{
#define TEST(name) cmocka_unit_test_setup(name, set_up)
    const struct CMUnitTest tests[] = {
        TEST(every_request_is_answered),
        TEST(lost_connections_come_back_for_who_waits),
        TEST(and_for_who_does_not_wait_but_asks_again),
        TEST(a_server_that_stays_away_costs_no_more_than_the_time_given),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
