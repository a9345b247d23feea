/*
 * Where the segments of the gate stand, as this process knows it: the epoch under which each may
 * decide. Upkeep writes it; whoever meets a segment that does not answer, or answers that it is
 * another, says so with a doubt, and upkeep looks. Any thread.
 */
#ifndef SLUICE_FLOW_PLACES_H
#define SLUICE_FLOW_PLACES_H

#include <stdatomic.h>
#include <stdbool.h>

#include "port/segments.h"

/* The units of a segment over all items, as the follower saw them last. */
struct places_stock {
    _Atomic bool known;
    _Atomic uint64_t available, locked, sold;
};

struct places {
    uint32_t count;
    _Atomic uint64_t epochs[SEGMENTS_MAX];   /* 0: the ledger and the segment do not agree */
    _Atomic uint64_t doubts;                 /* a bit for each segment */
    _Atomic int64_t away_ms[SEGMENTS_MAX];   /* boot time when it last did not answer; 0: never */
    struct places_stock stock[SEGMENTS_MAX]; /* the follower's, for whoever watches */
    _Atomic bool clock_is_off; /* this machine's time is not the gate's: sell nothing */
};

static inline uint64_t places_epoch(struct places *places, uint32_t segment)
{
    return atomic_load(&places->epochs[segment]);
}
static inline void places_doubt(struct places *places, uint32_t segment)
{
    (void)atomic_fetch_or(&places->doubts, 1ULL << segment);
}
/* While it was away, buyers of other fronts may have been put in line for it, and for so long after
 * it is back they may not have been decided: that it does not know an order says little. A process
 * that has just begun takes them all for away, for it does not know what was before. */
#define PLACES_SETTLE_MS 5000
static inline void places_away(struct places *places, uint32_t segment, int64_t boot_ms)
{
    atomic_store(&places->away_ms[segment], boot_ms);
}
static inline bool places_settled(struct places *places, uint32_t segment, int64_t boot_ms)
{
    int64_t away_ms = atomic_load(&places->away_ms[segment]);
    return away_ms == 0 || boot_ms - away_ms >= PLACES_SETTLE_MS;
}

#endif
