/*
 * A shop on the simulated segments, and the process that recovers them: the fixture of the tests of
 * recovery.
 */
#ifndef SLUICE_TEST_RECOVER_SHOP_H
#define SLUICE_TEST_RECOVER_SHOP_H

#include "keeper_fixture.h"

#define SEGMENTS 3

/* A world and the process that recovers it. */
struct shop {
    struct cluster_world world;
    struct model_process process;
    struct recover *recover;
};

/* One round that must succeed. */
struct recover_round round_of(struct recover *recover);
void shop_open(struct shop *shop, uint64_t seed);
void shop_close(struct shop *shop);
/* Orders in every state, some of them still on their way. */
void shop_sell(struct shop *shop);
/* Rounds of a process of its own until all is well; then gate and ledger agree. */
void shop_heal(struct shop *shop, uint32_t name);

#endif
