/*
 * Two processes that consume from one simulated broker: the fixture of test_order_consumer.c and
 * test_payment_consumer.c. Each of them starts and stops the consumers of its kind.
 */
#ifndef CONSUMER_FIXTURE_H
#define CONSUMER_FIXTURE_H

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "base/err.h"
#include "base/prng.h"
#include "cluster_world.h"
#include "sim_queue.h"

static struct cluster_world world;
static struct sim_broker *broker;
static struct queue *publisher;
static struct queue *consumers[CLUSTER_PROCESSES];
static uint64_t number; /* of the message that was published last */

/* The consumer of a process. */
static void start(uint32_t at);
static void stop(uint32_t at);

/* Messages that are retried twice, after a second and after `second_retry_s`, are parked then. */
static inline int set_up_consumers(uint32_t second_retry_s, uint32_t publisher_window)
{
    const uint32_t retry_s[] = {1, second_retry_s};
    cluster_init(&world, (struct cluster_options){.segments = 2, .open = true});
    broker = sim_broker_new(1, retry_s, 2);
    publisher = sim_queue_open(broker, true, publisher_window, 0);
    sim_broker_time(broker, clock_boot_us(&world.clock.port) / 1000);
    for (uint32_t i = 0; i < CLUSTER_PROCESSES; i++) {
        cluster_up(&world, i);
        start(i);
    }
    cluster_open_sale(&world.processes[0]);
    cluster_settle(&world.processes[1]);
    return 0;
}

static inline int tear_down(void **state)
{
    (void)state;
    for (uint32_t i = 0; i < CLUSTER_PROCESSES; i++) {
        stop(i);
    }
    sim_queue_close(publisher);
    cluster_done(&world);
    sim_broker_free(broker);
    return 0;
}

static inline void pass_ms(int64_t ms)
{
    cluster_pass_ms(&world, ms);
    sim_broker_time(broker, clock_boot_us(&world.clock.port) / 1000);
}

static inline struct queue_depths depths(void)
{
    struct queue_depths found;
    assert_int_equal(queue_depths(publisher, &found), 0);
    return found;
}

static inline uint64_t metric(uint32_t at, enum metric which)
{
    return metrics_sum(&world.processes[at].metrics, which);
}

/* Draws a fault, or none. */
static inline void stir(struct prng *prng)
{
    switch (prng_below(prng, 8)) {
    case 0:
        sim_broker_cut(broker);
        break;
    case 1:
        sim_broker_down(broker, clock_boot_us(&world.clock.port) / 1000 + 100);
        break;
    case 2:
        world.ledger.fail_next = ERR_IO;
        break;
    case 3:
        world.ledger.lose_next = ERR_IO;
        break;
    case 4: {
        uint32_t at = (uint32_t)prng_below(prng, CLUSTER_PROCESSES);
        stop(at);
        start(at);
        break;
    }
    default:
        break;
    }
}

#endif
