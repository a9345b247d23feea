/*
 * What the threads of this process share about the gate's segments, above all the epoch under which
 * each one may decide. The segment monitor writes the epochs; it also knows each segment's status
 * (segment_monitor.h). A thread whose call got no answer, or an answer under another epoch, marks the
 * segment with a doubt, and the segment monitor checks it. Any thread.
 */
#ifndef SLUICE_DISTRIBUTED_SEGMENT_TABLE_H
#define SLUICE_DISTRIBUTED_SEGMENT_TABLE_H

#include <stdatomic.h>
#include <stdbool.h>

#include "port/segments.h"

/* Units of a segment over all items, as the gate subscriber last saw them. */
struct segment_table_stock {
    _Atomic bool known;
    _Atomic uint64_t available, locked, sold;
};

struct segment_table_entry {
    _Atomic uint64_t epoch;           /* 0: ledger and segment do not agree */
    _Atomic int64_t away_ms;          /* boot time: no answer, or a new epoch; 0: never */
    struct segment_table_stock stock; /* of the gate subscriber, for display */
};

struct segment_table {
    uint32_t count;
    struct segment_table_entry segments[SEGMENTS_MAX];
    _Atomic uint64_t doubts;   /* a bit for each segment: all are taken in one step */
    _Atomic bool clock_is_off; /* this machine's clock is not the gate's: sell nothing */
};

static inline uint64_t segment_table_epoch(struct segment_table *segment_table, uint32_t segment)
{
    return atomic_load(&segment_table->segments[segment].epoch);
}
static inline void segment_table_doubt(struct segment_table *segment_table, uint32_t segment)
{
    (void)atomic_fetch_or(&segment_table->doubts, 1ULL << segment);
}
/*
 * While a segment was away, other fronts may have put buyers in line for it. For this long after it
 * is back they may still be undecided, so it means little that the segment does not know an order.
 * A process that has just started treats all segments as away, because it does not know their past.
 */
#define SEGMENT_TABLE_SETTLE_MS 5000
static inline void segment_table_away(struct segment_table *segment_table, uint32_t segment,
                                      int64_t boot_ms)
{
    atomic_store(&segment_table->segments[segment].away_ms, boot_ms);
}
static inline bool segment_table_settled(struct segment_table *segment_table, uint32_t segment,
                                         int64_t boot_ms)
{
    int64_t away_ms = atomic_load(&segment_table->segments[segment].away_ms);
    return away_ms == 0 || boot_ms - away_ms >= SEGMENT_TABLE_SETTLE_MS;
}

#endif
