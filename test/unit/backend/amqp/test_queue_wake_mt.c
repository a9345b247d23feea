/*
 * queue_wake from other threads ends waits, each time, whatever the connection does meanwhile: here
 * it never comes about, which keeps the waiting thread as busy as can be with trying.
 */
#include <pthread.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdatomic.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "backend/amqp/queue_amqp.h"
#include "base/err.h"

#define ROUNDS 300

struct sleeper {
    struct queue *queue;
    bool publisher;
    atomic_int ended; /* waits */
};

static void *sleep_all(void *context)
{
    struct sleeper *sleeper = context;
    for (int i = 0; i < ROUNDS; i++) {
        struct queue_message message;
        struct queue_outcome outcome;
        size_t count = 0;
        int error = sleeper->publisher
                        ? queue_outcomes(sleeper->queue, &outcome, 1, 3600000, &count)
                        : queue_take(sleeper->queue, &message, 1, 3600000, &count);
        assert_int_equal(error, ERR_AGAIN);
        atomic_fetch_add(&sleeper->ended, 1);
    }
    return NULL;
}

static void wake_all(enum queue_amqp_role role)
{
    /* Nobody listens on port 1. */
    struct queue_amqp_options options = {
        .url = "amqp://me@127.0.0.1:1/", .pause_min_ms = 1, .pause_max_ms = 2};
    struct sleeper sleeper = {.publisher = role == QUEUE_AMQP_PUBLISHER};
    pthread_t thread;
    assert_int_equal(queue_amqp_open(&options, role, &sleeper.queue), 0);
    assert_int_equal(pthread_create(&thread, NULL, sleep_all, &sleeper), 0);
    for (int round = 0; round < ROUNDS; round++) {
        queue_wake(sleeper.queue);
        while (atomic_load(&sleeper.ended) <= round) {
            /* One wake is enough for each wait. */
        }
    }
    assert_int_equal(pthread_join(thread, NULL), 0);
    queue_amqp_close(sleeper.queue);
}

static void a_consumer_is_woken_each_time(void **state)
{
    (void)state;
    wake_all(QUEUE_AMQP_CONSUMER);
}

static void a_publisher_is_woken_each_time(void **state)
{
    (void)state;
    wake_all(QUEUE_AMQP_PUBLISHER);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_consumer_is_woken_each_time),
        cmocka_unit_test(a_publisher_is_woken_each_time),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
