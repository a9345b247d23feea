/*
 * Simulated segments with a sale on them, as if a recovery had filled them, and a clock that stands
 * still: what tests of the distributed engine's stages begin with.
 */
#ifndef SLUICE_TEST_SEGMENTS_WORLD_H
#define SLUICE_TEST_SEGMENTS_WORLD_H

#include "distributed/segment_table.h"
#include "fake_clock.h"
#include "sim_segments.h"

#define WIDE_NOW 1700000000000LL
#define WIDE_SALE 1
#define WIDE_ONCE 11  /* one each */
#define WIDE_FREE 13  /* no limit */
#define WIDE_UNITS 20 /* of each item on each segment */
#define WIDE_ENDS_MS 3600000

struct segments_world {
    struct fake_clock clock;
    struct sim_segments *sim;
    struct segments *hands; /* the test's own */
    uint32_t count;
    int64_t delay_us; /* one way of an ask, where asks take time */
    uint32_t sequence;
};

extern const struct gate_sizes segments_world_sizes;

/* late: asks are answered after delay_us there and back. */
void segments_world_init(struct segments_world *ret_world, uint32_t count, bool late);
void segments_world_done(struct segments_world *world);

/* Where a random test begins: SLUICE_SEED, or 1. */
uint64_t segments_world_seed(void);

/* Made anew, filled and open; `event` is the one applied last. */
void segments_world_fill(struct segments_world *world, uint32_t segment, uint64_t epoch,
                         uint64_t event);
/* Empty and open, at the ledger's beginning. */
void segments_world_bare(struct segments_world *world, uint32_t segment, uint64_t epoch);
struct segment_state segments_world_look(struct segments_world *world, uint32_t segment);

/* What a process knows of them now. */
void segments_world_segment_table(struct segments_world *world,
                                  struct segment_table *ret_segment_table);
/* The same, and the front's asks carry the epochs. */
void segments_world_place(struct segments_world *world, struct segment_table *segment_table,
                          struct gate_port *worker);

/* A fresh id of the segment; each call another. */
struct order_id segments_world_id(struct segments_world *world, uint64_t item, uint32_t segment);
/* A buyer whose home among all of them is this one: the nth. */
uint64_t segments_world_user(const struct segments_world *world, uint32_t segment, uint32_t nth);
/* A buy of one unit, decided by the segment for a front. */
struct gate_command segments_world_buy(struct segments_world *world, uint32_t segment,
                                       uint64_t user);
/* NULL: it has no such order. */
const struct gate_order *segments_world_order(const struct segments_world *world, uint32_t segment,
                                              struct order_id id);
const struct gate_item *segments_world_item(const struct segments_world *world, uint32_t segment,
                                            uint64_t item);

#endif
