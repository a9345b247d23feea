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
#include "distributed/parked_messages.h"
#include "ledger_writer_world.h"
#include "sim_queue.h"

static const uint32_t pauses_s[] = {1};
static struct ledger_writer_world world;
static struct sim_broker *broker;
static struct parked_messages parked_messages;

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
    ledger_writer_world_init(&world);
    assert_int_equal(ledger_writer_world_up(&world), 0);
    broker = sim_broker_new(1, pauses_s, 1);
    parked_messages = (struct parked_messages){.wakers = world.wakers, .loops = 2};
    parked_messages.queues[PARKED_MESSAGES_ORDERS] = sim_queue_open(broker, false, 0, 0);
    return parked_messages_init(&parked_messages);
}

static int teardown(void **state)
{
    (void)state;
    parked_messages_done(&parked_messages);
    sim_queue_close(parked_messages.queues[PARKED_MESSAGES_ORDERS]);
    sim_broker_free(broker);
    ledger_writer_world_down(&world);
    ledger_writer_world_done(&world);
    return 0;
}

static struct parked_messages_call *request(uint32_t loop, bool redrive, uint64_t limit)
{
    struct parked_messages_call *call = calloc(1, sizeof(*call));
    assert_non_null(call);
    call->loop = loop;
    call->redrive = redrive;
    call->limit = limit;
    parked_messages_post(&parked_messages, call);
    parked_messages_iterate(&parked_messages);
    assert_null(parked_messages_collect(&parked_messages, 1 - loop));
    assert_ptr_equal(parked_messages_collect(&parked_messages, loop), call);
    return call;
}

static void test_a_look_moves_nothing(void **state)
{
    (void)state;
    park(3);
    for (int i = 0; i < 2; i++) {
        struct parked_messages_call *call = request(1, false, 2);
        assert_int_equal(call->error, 0);
        assert_int_equal(call->depths.parked, 3);
        assert_int_equal(call->depths.ready, 0);
        assert_int_equal(call->count, 2);
        assert_memory_equal(call->messages[0].body, "some text", 9);
        parked_messages_call_free(call);
    }
    struct parked_messages_call *call = request(0, false, 0);
    assert_int_equal(call->depths.parked, 3);
    assert_int_equal(call->count, 0);
    parked_messages_call_free(call);
}

static void test_some_or_all_go_round(void **state)
{
    (void)state;
    park(300); /* more than at once */
    struct parked_messages_call *call = request(0, true, 5);
    assert_int_equal(call->error, 0);
    assert_int_equal(call->sent, 5);
    assert_int_equal(call->depths.parked, 295);
    parked_messages_call_free(call);
    call = request(0, true, 0);
    assert_int_equal(call->sent, 295);
    assert_int_equal(call->depths.parked, 0);
    assert_int_equal(call->depths.ready, 300);
    parked_messages_call_free(call);
    call = request(0, true, 0);
    assert_int_equal(call->error, 0);
    assert_int_equal(call->sent, 0);
    parked_messages_call_free(call);
}

static void test_what_is_not_there_is_told(void **state)
{
    (void)state;
    assert_true(parked_messages_has(&parked_messages, PARKED_MESSAGES_ORDERS));
    assert_false(parked_messages_has(&parked_messages, PARKED_MESSAGES_PAYMENTS));
    assert_false(parked_messages_has(NULL, PARKED_MESSAGES_ORDERS));
    sim_broker_down(broker, INT64_MAX);
    struct parked_messages_call *call = request(0, false, 5);
    assert_int_equal(call->error, ERR_AGAIN);
    parked_messages_call_free(call);
    call = request(0, true, 0);
    assert_int_equal(call->error, ERR_AGAIN);
    assert_int_equal(call->sent, 0);
    parked_messages_call_free(call);
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
        parked_messages_stop(&parked_messages);
    }
    return queue_parked(between.inner, ret_messages, max, redrive, ret_count);
}

static void come_between(void)
{
    static const struct queue_ops ops = {.depths = between_depths, .parked = between_parked};
    between.queue.ops = &ops;
    between.inner = parked_messages.queues[PARKED_MESSAGES_ORDERS];
    between.counts_nothing = false;
    between.batches_until_stop = 0;
    parked_messages.queues[PARKED_MESSAGES_ORDERS] = &between.queue;
}

static void test_what_the_broker_has_not_counted_yet_goes_round(void **state)
{
    (void)state;
    park(3);
    come_between();
    between.counts_nothing = true;
    struct parked_messages_call *call = request(0, true, 0);
    assert_int_equal(call->error, 0);
    assert_int_equal(call->sent, 3);
    assert_int_equal(call->depths.ready, 3);
    parked_messages_call_free(call);
    parked_messages.queues[PARKED_MESSAGES_ORDERS] = between.inner;
}

static void test_the_end_waits_for_one_batch(void **state)
{
    (void)state;
    park(3 * PARKED_MESSAGES_BATCH);
    come_between();
    between.batches_until_stop = 1;
    struct parked_messages_call *call = request(0, true, 0);
    assert_int_equal(call->error, ERR_CLOSED);
    assert_int_equal(call->sent, PARKED_MESSAGES_BATCH);
    parked_messages_call_free(call);
    call = request(0, true, 0);
    assert_int_equal(call->error, ERR_CLOSED);
    assert_int_equal(call->sent, 0);
    parked_messages_call_free(call);
    parked_messages.queues[PARKED_MESSAGES_ORDERS] = between.inner;
}

/* Calls that nobody collects are freed with it. */
static void test_what_is_left_is_freed(void **state)
{
    (void)state;
    for (int i = 0; i < 2; i++) {
        struct parked_messages_call *call = calloc(1, sizeof(*call));
        assert_non_null(call);
        parked_messages_post(&parked_messages, call);
        if (i == 0) {
            parked_messages_iterate(&parked_messages);
        }
    }
    parked_messages_stop(&parked_messages);
    parked_messages_wait(&parked_messages, 60000); /* has been woken */
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
