/* The queue on RabbitMQ: the contract suite, on quorum queues and on classic ones. */
#include "queue_suite.h"

#include <stdlib.h>
#include <time.h>

#include "unit/backend/amqp/rabbit_world.h"

struct suite_place {
    struct rabbit_place *rabbit;
};

static bool classic;

static struct suite_place *make(void)
{
    struct suite_place *place = calloc(1, sizeof(*place));
    assert_non_null(place);
    place->rabbit = rabbit_place_new();
    place->rabbit->options.classic = classic;
    return place;
}

static void discard(struct suite_place *place)
{
    rabbit_place_free(place->rabbit);
    free(place);
}

static struct queue *open_queue(struct suite_place *place, enum suite_role role, uint32_t window,
                                uint32_t prefetch)
{
    struct rabbit_place with = *place->rabbit;
    with.options.window = window;
    with.options.prefetch = prefetch;
    return rabbit_open(&with, role == SUITE_PUBLISHER ? QUEUE_AMQP_PUBLISHER : QUEUE_AMQP_CONSUMER);
}

static void close_queue(struct suite_place *place, struct queue *queue)
{
    (void)place;
    queue_amqp_close(queue);
}

static int64_t now_ms(struct suite_place *place)
{
    struct timespec now;
    (void)place;
    assert_int_equal(clock_gettime(CLOCK_MONOTONIC, &now), 0);
    return (int64_t)now.tv_sec * 1000 + now.tv_nsec / 1000000;
}

/* Time goes by itself, but a loop that asks without waiting must not spin. */
static void pass(struct suite_place *place, int64_t ms)
{
    (void)place;
    (void)ms;
    (void)nanosleep(&(struct timespec){.tv_nsec = 2000000}, NULL);
}

static void cut(struct suite_place *place)
{
    (void)rabbit_cut(place->rabbit);
}

int main(void)
{
    struct queue_backend backend = {
        .name = "RabbitMQ, quorum queues",
        .missing = rabbit_missing,
        .make = make,
        .discard = discard,
        .open = open_queue,
        .close = close_queue,
        .now_ms = now_ms,
        .pass = pass,
        .cut = cut,
    };
    int failed = suite_run(&backend);
    classic = true;
    backend.name = "RabbitMQ, classic queues";
    return failed + suite_run(&backend);
}
