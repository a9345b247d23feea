/*
 * Who may not order: blocked users, addresses and devices, in memory. The ledger keeps the blocks; the
 * ledger writer reads what changed and puts it here (struct block_sink).
 *
 * A table of fixed size holds a keyed hash of each block and its end. Only one thread writes. Readers
 * take no lock: they read a sequence number before and after, and look again if the writer was there
 * between. An address is looked up once for each prefix length that is in use. With no block at all a
 * reader loads one number.
 *
 * What can go wrong: more blocks than the table has room for. The ledger refuses more than BLOCKS_MAX, and
 * there is room for half as many again, for blocks that have ended and were not dropped yet.
 *
 * Threads: blocks_match() and the two functions before it by any, the rest by one.
 */
#ifndef SLUICE_ADMISSION_BLOCKS_H
#define SLUICE_ADMISSION_BLOCKS_H

#include <stdatomic.h>

#include "port/block.h"

struct blocks_table;

struct blocks {
    struct block_sink sink; /* first */
    _Atomic uint32_t count;
    _Atomic uint32_t addresses; /* of them, those by address */
    struct blocks_table *table;
};

/* A request. What is not known is 0 or empty. */
struct block_subject {
    uint64_t user;
    struct span device;
    struct net_address address;
};

struct blocks *blocks_new(void); /* NULL: no memory */
void blocks_free(struct blocks *blocks);
size_t blocks_bytes(void);

static inline bool blocks_are_none(const struct blocks *blocks)
{
    return atomic_load_explicit(&blocks->count, memory_order_relaxed) == 0;
}
/* Whether the address of a request matters. */
static inline bool blocks_ask_address(const struct blocks *blocks)
{
    return atomic_load_explicit(&blocks->addresses, memory_order_relaxed) != 0;
}
/* Whether any block that has not ended is about the request. */
bool blocks_match(const struct blocks *blocks, const struct block_subject *subject, int64_t now_ms);

#endif
