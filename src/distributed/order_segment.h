/*
 * Which segment of the gate knows an order. This is the only place that finds it.
 *
 * Happy path: the item's sale is in the catalog and has been warmed, so the number of its homes is
 * fixed. The id of an ORDER_ONCE contains the buyer, whose home it is; an ORDER_FRESH contains its
 * segment.
 *
 * What can go wrong: the sale is not in the catalog, because another process has just warmed it or
 * because it is forgotten. A made-up id may name a segment that does not exist, and the sale may
 * have homes that were added since this process started: the caller compares with its number of
 * segments.
 *
 * Any thread. The functions with a catalog take its lock.
 */
#ifndef SLUICE_DISTRIBUTED_ORDER_SEGMENT_H
#define SLUICE_DISTRIBUTED_ORDER_SEGMENT_H

#include "ledger/catalog.h"

struct order_segment {
    uint32_t segment;
    uint32_t homes;     /* of the sale */
    int64_t ends_at_ms; /* of the sale; INT64_MIN: it is closed */
};

/* False: no warmed sale in the catalog has the item. */
bool order_segment_find(struct catalog *catalog, uint64_t item, struct order_id id,
                        struct order_segment *ret_found);
/* The same for whatever the buyer orders next. */
bool order_segment_home(struct catalog *catalog, uint64_t item, uint64_t user,
                        struct order_segment *ret_found);
/* Without a catalog: of a sale with so many homes and without regions. */
uint32_t order_segment_of(struct order_id id, uint32_t homes);

#endif
