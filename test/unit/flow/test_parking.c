/* What is parked, for operators who ask a loop: shown, sent round, and told where there is no
 * broker. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "base/err.h"
#include "flow/parking.h"
#include "office_world.h"
#include "simulation/sim_queue.h"

static const uint32_t pauses_s[] = {1};
static struct office_world world;
static struct sim_broker *broker;
static struct parking parking;

/* So many messages that were put aside. */
static void park(size_t count)
{
    struct queue *publisher = sim_queue_open(broker, true, 0, 0);
    struct queue *consumer = sim_queue_open(broker, false, 0, 0);
    for (size_t i = 0; i < count; i++) {
        assert_int_equal(queue_publish(publisher, i, span_of("some text")), 0);
        struct queue_outcome outcome;
        size_t outcomes = 0;
        assert_int_equal(queue_outcomes(publisher, &outcome, 1, 0, &outcomes), 0);
        struct queue_message message;
        size_t taken = 0;
        assert_int_equal(queue_take(consumer, &message, 1, 0, &taken), 0);
        assert_int_equal(queue_park(consumer, &message), 0);
        (void)queue_take(consumer, &message, 0, 0, &taken);
    }
    sim_queue_close(publisher);
    sim_queue_close(consumer);
}

static int setup(void **state)
{
    (void)state;
    office_world_init(&world);
    assert_int_equal(office_world_up(&world), 0);
    broker = sim_broker_new(1, pauses_s, 1);
    parking = (struct parking){.engine = world.engine, .loops = 2};
    parking.queues[PARKING_ORDERS] = sim_queue_open(broker, false, 0, 0);
    return parking_init(&parking);
}

static int teardown(void **state)
{
    (void)state;
    parking_done(&parking);
    sim_queue_close(parking.queues[PARKING_ORDERS]);
    sim_broker_free(broker);
    office_world_down(&world);
    office_world_done(&world);
    return 0;
}

static struct parking_call *ask(uint32_t loop, bool redrive, uint64_t limit)
{
    struct parking_call *call = calloc(1, sizeof(*call));
    assert_non_null(call);
    call->loop = loop;
    call->redrive = redrive;
    call->limit = limit;
    parking_post(&parking, call);
    parking_turn(&parking);
    assert_null(parking_collect(&parking, 1 - loop));
    assert_ptr_equal(parking_collect(&parking, loop), call);
    return call;
}

static void test_a_look_moves_nothing(void **state)
{
    (void)state;
    park(3);
    for (int i = 0; i < 2; i++) {
        struct parking_call *call = ask(1, false, 2);
        assert_int_equal(call->error, 0);
        assert_int_equal(call->depths.parked, 3);
        assert_int_equal(call->depths.ready, 0);
        assert_int_equal(call->count, 2);
        assert_memory_equal(call->messages[0].body, "some text", 9);
        parking_call_free(call);
    }
    struct parking_call *call = ask(0, false, 0);
    assert_int_equal(call->depths.parked, 3);
    assert_int_equal(call->count, 0);
    parking_call_free(call);
}

static void test_some_or_all_go_round(void **state)
{
    (void)state;
    park(300); /* more than at once */
    struct parking_call *call = ask(0, true, 5);
    assert_int_equal(call->error, 0);
    assert_int_equal(call->sent, 5);
    assert_int_equal(call->depths.parked, 295);
    parking_call_free(call);
    call = ask(0, true, 0);
    assert_int_equal(call->sent, 295);
    assert_int_equal(call->depths.parked, 0);
    assert_int_equal(call->depths.ready, 300);
    parking_call_free(call);
    call = ask(0, true, 0);
    assert_int_equal(call->error, 0);
    assert_int_equal(call->sent, 0);
    parking_call_free(call);
}

static void test_what_is_not_there_is_told(void **state)
{
    (void)state;
    assert_true(parking_has(&parking, PARKING_ORDERS));
    assert_false(parking_has(&parking, PARKING_PAYMENTS));
    assert_false(parking_has(NULL, PARKING_ORDERS));
    sim_broker_down(broker, INT64_MAX);
    struct parking_call *call = ask(0, false, 5);
    assert_int_equal(call->error, ERR_AGAIN);
    parking_call_free(call);
    call = ask(0, true, 0);
    assert_int_equal(call->error, ERR_AGAIN);
    assert_int_equal(call->sent, 0);
    parking_call_free(call);
}

/* A broker that counts late, or the end of the server, between the thread and its queue. */
static struct {
    struct queue queue; /* first */
    struct queue *inner;
    bool counts_nothing;
    size_t batches_until_stop;
} between;

static int between_depths(struct queue *queue, struct queue_depths *ret_depths)
{
    (void)queue;
    int error = queue_depths(between.inner, ret_depths);
    ret_depths->parked = between.counts_nothing ? 0 : ret_depths->parked;
    return error;
}

static int between_parked(struct queue *queue, struct queue_message *ret_messages, size_t max,
                          bool redrive, size_t *ret_count)
{
    (void)queue;
    if (between.batches_until_stop > 0 && --between.batches_until_stop == 0) {
        parking_stop(&parking);
    }
    return queue_parked(between.inner, ret_messages, max, redrive, ret_count);
}

static void come_between(void)
{
    static const struct queue_ops ops = {.depths = between_depths, .parked = between_parked};
    between.queue.ops = &ops;
    between.inner = parking.queues[PARKING_ORDERS];
    between.counts_nothing = false;
    between.batches_until_stop = 0;
    parking.queues[PARKING_ORDERS] = &between.queue;
}

static void test_what_the_broker_has_not_counted_yet_goes_round(void **state)
{
    (void)state;
    park(3);
    come_between();
    between.counts_nothing = true;
    struct parking_call *call = ask(0, true, 0);
    assert_int_equal(call->error, 0);
    assert_int_equal(call->sent, 3);
    assert_int_equal(call->depths.ready, 3);
    parking_call_free(call);
    parking.queues[PARKING_ORDERS] = between.inner;
}

static void test_the_end_waits_for_one_batch(void **state)
{
    (void)state;
    park(3 * PARKING_BATCH);
    come_between();
    between.batches_until_stop = 1;
    struct parking_call *call = ask(0, true, 0);
    assert_int_equal(call->error, ERR_CLOSED);
    assert_int_equal(call->sent, PARKING_BATCH);
    parking_call_free(call);
    call = ask(0, true, 0);
    assert_int_equal(call->error, ERR_CLOSED);
    assert_int_equal(call->sent, 0);
    parking_call_free(call);
    parking.queues[PARKING_ORDERS] = between.inner;
}

/* Calls that nobody collects are freed with it. */
static void test_what_is_left_is_freed(void **state)
{
    (void)state;
    for (int i = 0; i < 2; i++) {
        struct parking_call *call = calloc(1, sizeof(*call));
        assert_non_null(call);
        parking_post(&parking, call);
        if (i == 0) {
            parking_turn(&parking);
        }
    }
    parking_stop(&parking);
    parking_wait(&parking, 60000); /* has been woken */
}

int main(void)
{
#define TEST(name) cmocka_unit_test_setup_teardown(name, setup, teardown)
    const struct CMUnitTest tests[] = {
        TEST(test_a_look_moves_nothing),
        TEST(test_some_or_all_go_round),
        TEST(test_what_is_not_there_is_told),
        TEST(test_what_the_broker_has_not_counted_yet_goes_round),
        TEST(test_the_end_waits_for_one_batch),
        TEST(test_what_is_left_is_freed),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
