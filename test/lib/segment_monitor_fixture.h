/*
 * The segment monitor of one front over three simulated segments: what test_segment_monitor.c begins
 * with, and promise_resolver_fixture.h.
 */
#ifndef SEGMENT_MONITOR_FIXTURE_H
#define SEGMENT_MONITOR_FIXTURE_H

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "base/err.h"
#include "cluster_world.h"
#include "distributed/segment_monitor.h"

#define SEGMENTS 3

static struct cluster_world world;
static struct cluster_process *process;
static struct sim_segments *sim;
static struct segment_monitor *monitor;
static struct stock_cache *stock_cache;
static struct refill_requests refill_requests;
static bool balances_here;
static uint32_t refills;

static inline bool refill(void *context, const struct refill *refill)
{
    (void)context;
    (void)refill;
    refills += balances_here;
    return balances_here;
}

static inline void start_monitor(void)
{
    struct segment_monitor_parts parts = {.segments = &process->stage.port,
                                          .ledger = &process->reader.ledger,
                                          .gate = process->gate,
                                          .booking_channel = &process->booking_channel,
                                          .segment_table = &process->segment_table,
                                          .spool = process->spool,
                                          .stock_cache = stock_cache,
                                          .refill_requests = &refill_requests,
                                          .time = &process->time,
                                          .metrics = metrics_slot(&process->metrics, 1),
                                          .refill = refill};
    assert_int_equal(segment_monitor_new(&parts, &monitor), 0);
}

/* A new process on the same disk: it knows nothing yet. */
static inline void forget_segment_table(void)
{
    for (uint32_t s = 0; s < SEGMENTS; s++) {
        atomic_store(&process->segment_table.segments[s].epoch, 0);
        gate_place(process->gate, s, 0);
    }
}

static inline void set_up_monitor(void)
{
    cluster_init(&world, (struct cluster_options){.segments = SEGMENTS, .open = true});
    cluster_up(&world, 0);
    process = &world.processes[0];
    sim = world.sim;
    cluster_open_sale(process);
    forget_segment_table();
    stock_cache = stock_cache_new();
    refill_requests_init(&refill_requests);
    balances_here = false;
    refills = 0;
    start_monitor();
}

static inline void tear_down_monitor(void)
{
    segment_monitor_free(monitor);
    stock_cache_free(stock_cache);
    refill_requests_done(&refill_requests);
    cluster_done(&world);
}

#endif
