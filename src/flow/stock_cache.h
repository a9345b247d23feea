/*
 * What a front knows of the items of a gate on other machines, in memory: their numbers over all
 * segments, a moment old, and where their buyers' homes are. The gate subscriber refreshes it; the loops
 * answer pages and turn away the flood from it.
 *
 * What can go wrong: it gets old because the gate cannot be reached. Its numbers stay what they were.
 *
 * Any thread; readers do not wait for each other.
 */
#ifndef SLUICE_FLOW_STOCK_CACHE_H
#define SLUICE_FLOW_STOCK_CACHE_H

#include "core/types.h"

struct stock_cache;

struct stock_cache_item {
    struct item_view view; /* sums over all segments */
    uint32_t homes;
    uint32_t richest; /* the segment that has most ... */
    uint64_t most;    /* ... and how many */
    uint32_t next;    /* the one that has most beside it ... */
    uint64_t next_most;
    bool sold_out;    /* no segment had a unit when it was looked at, and none was on its way */
    uint64_t refills; /* grows when units come back: what was known of it sold out is old then */
    uint32_t mark;    /* the owner's of stock_cache_put */
};

struct stock_cache *stock_cache_new(void); /* NULL: no memory */
void stock_cache_free(struct stock_cache *stock_cache);

bool stock_cache_find(struct stock_cache *stock_cache, uint64_t item,
                      struct stock_cache_item *ret_item);
/* view (available with what is on its way), homes, richest, most, next and mark are taken. The view of an
 * item that changed since keeps its version growing. ERR_NOMEM. */
int stock_cache_put(struct stock_cache *stock_cache, const struct stock_cache_item *item);
/* Units of the item (0: of any) have come back somewhere: who met it sold out may ask again, also where
 * they are gone before anybody looks. */
void stock_cache_refilled(struct stock_cache *stock_cache, uint64_t item);
/* Items with another mark have left the board. */
void stock_cache_sweep(struct stock_cache *stock_cache, uint32_t mark);

#endif
