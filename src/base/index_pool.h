/*
 * Which entries of an array are in use: entries are taken by index and given back. Those given back
 * are chained through a link in the entry (base/index_list.h) and taken first, the last one first;
 * the others have never been used, so their memory stays untouched. A pool whose members are zero,
 * except the capacity, is empty. Nothing here allocates or locks.
 */
#ifndef SLUICE_BASE_INDEX_POOL_H
#define SLUICE_BASE_INDEX_POOL_H

#include <stdbool.h>

#include "base/index_list.h"

struct index_pool {
    uint32_t capacity;
    uint32_t used;  /* entries in use */
    uint32_t fresh; /* index of the first entry never used */
    uint32_t free;  /* head of the chain of entries given back */
};

static inline bool index_pool_full(const struct index_pool *pool)
{
    return pool->used == pool->capacity;
}

/* Of a pool that is not full. The entry still holds what was in it, its link included. */
static inline uint32_t index_pool_take(struct index_pool *pool, struct index_links links)
{
    pool->used++;
    if (pool->free != 0) {
        uint32_t index = pool->free - 1;
        CHECK(index < pool->fresh);
        pool->free = *(const uint32_t *)index_links_at(links, index);
        return index;
    }
    CHECK(pool->fresh < pool->capacity);
    return pool->fresh++;
}

/* Writes the entry's link. */
static inline void index_pool_give(struct index_pool *pool, struct index_links links,
                                   uint32_t index)
{
    CHECK(pool->used > 0 && index < pool->fresh);
    index_chain_add(&pool->free, links, index);
    pool->used--;
}

#endif
