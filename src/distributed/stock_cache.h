/*
 * The stock cache holds what a front knows of the items of a remote gate: their numbers over all
 * segments, a moment old, and the number of home segments. The gate subscriber refreshes it. The
 * loops use it to answer pages and to turn away the flood on sold-out items.
 *
 * What can go wrong: the gate cannot be reached. The numbers stay as they were and grow stale.
 *
 * Any thread; readers do not wait for each other.
 */
#ifndef SLUICE_DISTRIBUTED_STOCK_CACHE_H
#define SLUICE_DISTRIBUTED_STOCK_CACHE_H

#include "core/types.h"

struct stock_cache;

struct stock_cache_item {
    struct item_view view; /* sums over all segments */
    uint32_t homes;
    uint32_t richest; /* the segment with the most units ... */
    uint64_t most;    /* ... and how many it has */
    uint32_t next;    /* the segment with the second most ... */
    uint64_t next_most;
    bool sold_out;    /* no segment had a unit, and none was in transit */
    uint64_t refills; /* grows when units come back; an older "sold out" is then obsolete */
    uint32_t mark;    /* for the caller of stock_cache_put */
};

struct stock_cache *stock_cache_new(void); /* NULL: no memory */
void stock_cache_free(struct stock_cache *stock_cache);

bool stock_cache_find(struct stock_cache *stock_cache, uint64_t item,
                      struct stock_cache_item *ret_item);
/* Stores the item; view.available includes units in transit. It sets sold_out, refills and
 * view.version itself; the version grows when the view changes. ERR_NOMEM. */
int stock_cache_put(struct stock_cache *stock_cache, const struct stock_cache_item *item);
/* Units of the item (0: of any item) have come back somewhere. Buyers who met "sold out" may ask
 * again, even if the units are gone before the next refresh. */
void stock_cache_refilled(struct stock_cache *stock_cache, uint64_t item);
/* Removes the items with another mark: their sale was forgotten. */
void stock_cache_sweep(struct stock_cache *stock_cache, uint32_t mark);

#endif
