/*
 * Two offices that bring the events of one ledger to three simulated segments: what test_applier.c
 * and test_applier_rebuilt.c begin with.
 */
#ifndef TEST_APPLIER_DESK_H
#define TEST_APPLIER_DESK_H

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "base/err.h"
#include "base/prng.h"
#include "event_ledger.h"
#include "flow/applier.h"
#include "journal_world.h"
#include "segments_world.h"

#define SEGMENTS 3
#define OFFICES 2
#define ITEM WIDE_FREE

struct office {
    struct segments *segments;
    struct catalog *catalog;
    struct applier *applier;
    struct sink *sink;
    struct places places;
};

static struct segments_world world;
static struct event_ledger ledger;
static struct office offices[OFFICES];

/* ---- the world ---- */

static inline void office_open(uint32_t at)
{
    struct office *office = &offices[at];
    memset(office, 0, sizeof(*office));
    office->segments = sim_segments_worker(world.sim, at + 1);
    office->catalog = catalog_new();
    segments_world_places(&world, &office->places);
    assert_int_equal(applier_new(office->segments, &office->places, &ledger.ledger, office->catalog,
                                 segments_world_sizes, &office->applier),
                     0);
    office->sink = applier_sink(office->applier);
}

static inline void office_close(uint32_t at)
{
    applier_free(offices[at].applier);
    catalog_free(offices[at].catalog);
    sim_segments_worker_free(offices[at].segments);
}

static inline int set_up(void **state)
{
    (void)state;
    segments_world_init(&world, SEGMENTS, false);
    event_ledger_init(&ledger);
    for (uint32_t s = 0; s < SEGMENTS; s++) {
        segments_world_bare(&world, s, 1);
    }
    for (uint32_t i = 0; i < OFFICES; i++) {
        office_open(i);
    }
    return 0;
}

static inline int tear_down(void **state)
{
    (void)state;
    for (uint32_t i = 0; i < OFFICES; i++) {
        office_close(i);
    }
    segments_world_done(&world);
    return 0;
}

static inline int64_t now_ms(void)
{
    return clock_wall_ms(&world.clock.port);
}

static inline bool turn(uint32_t office)
{
    return offices[office].sink->ops->turn(offices[office].sink, now_ms(), false) != INT64_MAX;
}

/* Committed, and applied by nobody yet. */
static inline void commit(struct ledger_event event)
{
    event.at_ms = now_ms();
    event_ledger_commit(&ledger, event);
}

/* The office that committed everything after `from` applies it. */
static inline void apply(uint32_t office, size_t from)
{
    struct sink *sink = offices[office].sink;
    assert_int_equal(sink->ops->apply(sink, &ledger.events[from], ledger.count - from, now_ms()),
                     0);
}

static inline void commit_and_apply(uint32_t office, struct ledger_event event)
{
    commit(event);
    apply(office, ledger.count - 1);
}

/* Warmed with so many units on each segment, and opened: SEGMENTS + 2 events. */
static inline void open_sale(uint32_t office, uint64_t units)
{
    size_t from = ledger.count;
    commit(event_of_sale(EVENT_SALE_WARMED));
    for (uint32_t s = 0; s < SEGMENTS; s++) {
        commit((struct ledger_event){.kind = EVENT_ITEM_LOADED,
                                     .segment = (int32_t)s,
                                     .sale = WIDE_SALE,
                                     .item = ITEM,
                                     .a = (int64_t)units});
    }
    commit(event_of_sale(EVENT_SALE_OPENED));
    apply(office, from);
}

/* ---- what must be so ---- */

static inline bool is_caught_up(uint32_t segment)
{
    return segments_world_look(&world, segment).event == event_ledger_last(&ledger, segment);
}

static inline void assert_caught_up(void)
{
    for (uint32_t s = 0; s < SEGMENTS; s++) {
        assert_int_equal(segments_world_look(&world, s).event, event_ledger_last(&ledger, s));
        assert_true(gate_consistent(sim_segments_gate(world.sim, s)));
    }
}

static inline uint64_t total(uint32_t segment)
{
    return segments_world_item(&world, segment, ITEM)->total;
}

static inline enum order_state state_of(const struct gate_command *buy)
{
    return segments_world_order(&world, order_id_segment(buy->id), buy->id)->state;
}

/* Turns of this office until nothing is left behind; time passes between them. */
static inline uint32_t settle(uint32_t office)
{
    uint32_t turns = 0;
    while (turn(office)) {
        assert_true(++turns < 100);
        fake_clock_pass_ms(&world.clock, 1);
    }
    return turns;
}

#define TEST(name) cmocka_unit_test_setup_teardown(name, set_up, tear_down)

#endif
