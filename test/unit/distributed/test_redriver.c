/* What was put aside is sent round again by itself: by the holder of the lease, in its time, each
 * message once a round, and after a broker that was away. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "distributed/redriver.h"
#include "fake_clock.h"
#include "sim_queue.h"

#define EVERY_MS 3600000

static const uint32_t pauses_s[] = {1};
static struct fake_clock clock;
static struct sim_broker *broker;
static struct queue *publisher;
static struct queue *booker;
static struct queue *own;
static struct redriver redriver;

static int setup(void **state)
{
    (void)state;
    fake_clock_init(&clock, 1700000000000LL);
    broker = sim_broker_new(1, pauses_s, 1);
    publisher = sim_queue_open(broker, true, 0, 0);
    booker = sim_queue_open(broker, false, 0, 0);
    own = sim_queue_open(broker, false, 0, 0);
    redriver_init(&redriver, own, &clock.port, EVERY_MS);
    return 0;
}

static int teardown(void **state)
{
    (void)state;
    sim_queue_close(publisher);
    sim_queue_close(booker);
    sim_queue_close(own);
    sim_broker_free(broker);
    return 0;
}

/* How many the booker gets, each put aside (again). */
static size_t park_all(void)
{
    struct queue_message message;
    size_t parked = 0;
    size_t taken = 0;
    while (queue_take(booker, &message, 1, 0, &taken) == 0 && taken == 1) {
        assert_int_equal(queue_park(booker, &message), 0);
        parked++;
    }
    return parked;
}

static void publish(size_t count)
{
    for (size_t i = 0; i < count; i++) {
        struct queue_outcome outcome;
        size_t outcomes = 0;
        assert_int_equal(queue_publish(publisher, i, span_of("a decision")), 0);
        assert_int_equal(queue_outcomes(publisher, &outcome, 1, 0, &outcomes), 0);
    }
}

static void test_what_was_put_aside_comes_again_in_its_time(void **state)
{
    (void)state;
    publish(150); /* several pieces */
    assert_int_equal(park_all(), 150);
    fake_clock_pass_ms(&clock, EVERY_MS - 1);
    assert_int_equal(redriver_iterate(&redriver, true), 0);
    fake_clock_pass_ms(&clock, 1);
    assert_int_equal(redriver_iterate(&redriver, true), 150);
    assert_int_equal(park_all(), 150);
    assert_int_equal(redriver_iterate(&redriver, true), 0); /* not before the next round */
    fake_clock_pass_ms(&clock, EVERY_MS);
    assert_int_equal(redriver_iterate(&redriver, true), 150);
}

static void test_only_the_holder_of_the_lease_sends(void **state)
{
    (void)state;
    publish(1);
    assert_int_equal(park_all(), 1);
    fake_clock_pass_ms(&clock, EVERY_MS);
    assert_int_equal(redriver_iterate(&redriver, false), 0);
    assert_int_equal(redriver_iterate(&redriver, true), 0); /* its round has passed */
    fake_clock_pass_ms(&clock, EVERY_MS);
    assert_int_equal(redriver_iterate(&redriver, true), 1);
}

static void test_a_broker_that_was_away_is_asked_again_at_once(void **state)
{
    (void)state;
    publish(2);
    assert_int_equal(park_all(), 2);
    sim_broker_time(broker, 1000);
    sim_broker_down(broker, 2000);
    fake_clock_pass_ms(&clock, EVERY_MS);
    assert_int_equal(redriver_iterate(&redriver, true), 0);
    sim_broker_time(broker, 2000);
    assert_int_equal(redriver_iterate(&redriver, true), 2);
}

static void test_it_can_be_turned_off(void **state)
{
    (void)state;
    publish(1);
    assert_int_equal(park_all(), 1);
    redriver_init(&redriver, own, &clock.port, 0);
    fake_clock_pass_ms(&clock, 10LL * EVERY_MS);
    assert_int_equal(redriver_iterate(&redriver, true), 0);
    redriver_init(&redriver, NULL, &clock.port, EVERY_MS);
    fake_clock_pass_ms(&clock, 10LL * EVERY_MS);
    assert_int_equal(redriver_iterate(&redriver, true), 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(test_what_was_put_aside_comes_again_in_its_time, setup,
                                        teardown),
        cmocka_unit_test_setup_teardown(test_only_the_holder_of_the_lease_sends, setup, teardown),
        cmocka_unit_test_setup_teardown(test_a_broker_that_was_away_is_asked_again_at_once, setup,
                                        teardown),
        cmocka_unit_test_setup_teardown(test_it_can_be_turned_off, setup, teardown),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
