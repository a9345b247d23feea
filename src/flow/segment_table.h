/*
 * Where the segments of the gate stand, as this process knows it: the epoch under which each may
 * decide. The promise resolver writes it; whoever meets a segment that does not answer, or answers that it is
 * another, says so with a doubt, and promise resolver looks. Any thread.
 */
#ifndef SLUICE_FLOW_SEGMENT_TABLE_H
#define SLUICE_FLOW_SEGMENT_TABLE_H

#include <stdatomic.h>
#include <stdbool.h>

#include "port/segments.h"

/* The units of a segment over all items, as the gate subscriber saw them last. */
struct segment_table_stock {
    _Atomic bool known;
    _Atomic uint64_t available, locked, sold;
};

struct segment_table {
    uint32_t count;
    _Atomic uint64_t epochs[SEGMENTS_MAX]; /* 0: the ledger and the segment do not agree */
    _Atomic uint64_t doubts;               /* a bit for each segment */
    _Atomic int64_t away_ms[SEGMENTS_MAX]; /* boot time when it last did not answer; 0: never */
    struct segment_table_stock stock[SEGMENTS_MAX]; /* the gate subscriber's, for whoever watches */
    _Atomic bool clock_is_off; /* this machine's time is not the gate's: sell nothing */
};

static inline uint64_t segment_table_epoch(struct segment_table *segment_table, uint32_t segment)
{
    return atomic_load(&segment_table->epochs[segment]);
}
static inline void segment_table_doubt(struct segment_table *segment_table, uint32_t segment)
{
    (void)atomic_fetch_or(&segment_table->doubts, 1ULL << segment);
}
/* While it was away, buyers of other fronts may have been put in line for it, and for so long after
 * it is back they may not have been decided: that it does not know an order says little. A process
 * that has just begun takes them all for away, for it does not know what was before. */
#define SEGMENT_TABLE_SETTLE_MS 5000
static inline void segment_table_away(struct segment_table *segment_table, uint32_t segment,
                                      int64_t boot_ms)
{
    atomic_store(&segment_table->away_ms[segment], boot_ms);
}
static inline bool segment_table_settled(struct segment_table *segment_table, uint32_t segment,
                                         int64_t boot_ms)
{
    int64_t away_ms = atomic_load(&segment_table->away_ms[segment]);
    return away_ms == 0 || boot_ms - away_ms >= SEGMENT_TABLE_SETTLE_MS;
}

#endif
