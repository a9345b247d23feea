/*
 * Two ledger writers that bring the events of one ledger to three simulated segments: what test_segment_event_sink.c
 * and test_segment_event_sink_rebuilt.c begin with.
 */
#ifndef SEGMENT_EVENT_SINK_FIXTURE_H
#define SEGMENT_EVENT_SINK_FIXTURE_H

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "base/err.h"
#include "base/prng.h"
#include "cluster_world.h"
#include "distributed/segment_event_sink.h"
#include "event_ledger.h"
#include "journal_world.h"

#define SEGMENTS 3
#define LEDGER_WRITERS 2
#define ITEM CLUSTER_FREE

struct ledger_writer {
    struct segments *segments;
    struct catalog *catalog;
    struct segment_event_sink *segment_event_sink;
    struct event_sink *event_sink;
    struct segment_table segment_table;
};

static struct cluster_world world;
static struct event_ledger ledger;
static struct ledger_writer ledger_writers[LEDGER_WRITERS];

/* ---- the world ---- */

static inline void ledger_writer_open(uint32_t at)
{
    struct ledger_writer *ledger_writer = &ledger_writers[at];
    memset(ledger_writer, 0, sizeof(*ledger_writer));
    ledger_writer->segments = sim_segments_worker(world.sim, at + 1);
    ledger_writer->catalog = catalog_new();
    cluster_segment_table(&world, &ledger_writer->segment_table);
    assert_int_equal(segment_event_sink_new(ledger_writer->segments, &ledger_writer->segment_table,
                                            &ledger.ledger, ledger_writer->catalog, cluster_sizes,
                                            &ledger_writer->segment_event_sink),
                     0);
    ledger_writer->event_sink = segment_event_sink_event_sink(ledger_writer->segment_event_sink);
}

static inline void ledger_writer_close(uint32_t at)
{
    segment_event_sink_free(ledger_writers[at].segment_event_sink);
    catalog_free(ledger_writers[at].catalog);
    sim_segments_worker_free(ledger_writers[at].segments);
}

static inline int set_up(void **state)
{
    (void)state;
    cluster_init(&world, (struct cluster_options){.segments = SEGMENTS});
    event_ledger_init(&ledger);
    for (uint32_t s = 0; s < SEGMENTS; s++) {
        cluster_bare(&world, s, 1);
    }
    for (uint32_t i = 0; i < LEDGER_WRITERS; i++) {
        ledger_writer_open(i);
    }
    return 0;
}

static inline int tear_down(void **state)
{
    (void)state;
    for (uint32_t i = 0; i < LEDGER_WRITERS; i++) {
        ledger_writer_close(i);
    }
    cluster_done(&world);
    return 0;
}

static inline int64_t now_ms(void)
{
    return clock_wall_ms(&world.clock.port);
}

static inline bool turn(uint32_t ledger_writer)
{
    return ledger_writers[ledger_writer].event_sink->ops->turn(
               ledger_writers[ledger_writer].event_sink, now_ms(), false) != INT64_MAX;
}

/* Committed, and applied by nobody yet. */
static inline void commit(struct ledger_event event)
{
    event.at_ms = now_ms();
    event_ledger_commit(&ledger, event);
}

/* The ledger writer that committed everything after `from` applies it. */
static inline void apply(uint32_t ledger_writer, size_t from)
{
    struct event_sink *event_sink = ledger_writers[ledger_writer].event_sink;
    assert_int_equal(
        event_sink->ops->apply(event_sink, &ledger.events[from], ledger.count - from, now_ms()), 0);
}

static inline void commit_and_apply(uint32_t ledger_writer, struct ledger_event event)
{
    commit(event);
    apply(ledger_writer, ledger.count - 1);
}

/* Warmed with so many units on each segment, and opened: SEGMENTS + 2 events. */
static inline void open_sale(uint32_t ledger_writer, uint64_t units)
{
    size_t from = ledger.count;
    commit(event_of_sale(EVENT_SALE_WARMED));
    for (uint32_t s = 0; s < SEGMENTS; s++) {
        commit((struct ledger_event){.kind = EVENT_ITEM_LOADED,
                                     .segment = (int32_t)s,
                                     .sale = CLUSTER_SALE,
                                     .item = ITEM,
                                     .a = (int64_t)units});
    }
    commit(event_of_sale(EVENT_SALE_OPENED));
    apply(ledger_writer, from);
}

/* ---- what must be so ---- */

static inline bool is_caught_up(uint32_t segment)
{
    return cluster_look(&world, segment).event == event_ledger_last(&ledger, segment);
}

static inline void assert_caught_up(void)
{
    for (uint32_t s = 0; s < SEGMENTS; s++) {
        assert_int_equal(cluster_look(&world, s).event, event_ledger_last(&ledger, s));
        assert_true(gate_consistent(sim_segments_gate(world.sim, s)));
    }
}

static inline uint64_t total(uint32_t segment)
{
    return cluster_item(&world, segment, ITEM)->total;
}

static inline enum order_state state_of(const struct gate_command *buy)
{
    return cluster_order(&world, order_id_segment(buy->id), buy->id)->state;
}

/* Turns of this ledger writer until nothing is left behind; time passes between them. */
static inline uint32_t settle(uint32_t ledger_writer)
{
    uint32_t turns = 0;
    while (turn(ledger_writer)) {
        assert_true(++turns < 100);
        fake_clock_pass_ms(&world.clock, 1);
    }
    return turns;
}

#define TEST(name) cmocka_unit_test_setup_teardown(name, set_up, tear_down)

#endif
