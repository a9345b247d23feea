/*
 * A front's gate on simulated segments, with knowledge of the stock of two items: the fixture of
 * test_gate_proxy.c and test_gate_proxy_stock.c.
 */
#ifndef GATE_PROXY_FIXTURE_H
#define GATE_PROXY_FIXTURE_H

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "gate_proxy_front.h"

static struct cluster_world world;
static struct gate_proxy_front worker;

/* late: the segments' answers take time. */
static inline void set_up_world(uint32_t segments, bool late)
{
    cluster_init(&world, (struct cluster_options){.segments = segments, .late = late});
    for (uint32_t s = 0; s < segments; s++) {
        cluster_fill(&world, s, 1, 0);
    }
    gate_proxy_front_open(&worker, &world, 100);
    gate_proxy_front_stock_cache(&worker, CLUSTER_ONCE, 60);
    gate_proxy_front_stock_cache(&worker, CLUSTER_FREE, 60);
}

static inline int set_up(void **state)
{
    (void)state;
    set_up_world(3, false);
    return 0;
}

static inline int set_up_late(void **state)
{
    (void)state;
    set_up_world(2, true);
    return 0;
}

static inline int tear_down(void **state)
{
    (void)state;
    gate_proxy_front_close(&worker);
    cluster_done(&world);
    return 0;
}

static inline struct gate_request buy_free(struct gate_proxy_front *at, struct order_id id,
                                           uint64_t user)
{
    return gate_proxy_front_tell(at, gate_proxy_front_buy(at, CLUSTER_FREE, id, user, 1));
}

#endif
