/*
 * Fills an empty gate from a snapshot: all sales first, then each item followed by its buyers and
 * its orders, both newest first. The result equals the gate that
 * was written: the same chains, the same counts, the same verdicts.
 *
 * What can go wrong: ERR_FULL if the gate is smaller than the data, ERR_CORRUPT for entries that
 * cannot belong to one gate. The gate is then unusable; its owner clears it.
 */
#ifndef SLUICE_CORE_GATE_RESTORE_H
#define SLUICE_CORE_GATE_RESTORE_H

#include "core/gate.h"

struct gate_restore {
    struct gate *gate;
    uint32_t item_slot;  /* of the item that is being loaded */
    uint32_t buyer_slot; /* of its buyer that was loaded last, or GATE_NONE */
};

void gate_restore_start(struct gate_restore *ret_restore, struct gate *empty_gate);
/* Links, slots and counts of the entries are ignored and made here. */
int gate_restore_sale(struct gate_restore *restore, const struct gate_sale *sale);
int gate_restore_item(struct gate_restore *restore, const struct gate_item *item, uint64_t sale);
int gate_restore_buyer(struct gate_restore *restore, const struct gate_buyer *buyer);
/* The cooling time of the buyer that was loaded last. */
int gate_restore_cooling(struct gate_restore *restore, int64_t until_ms);
/* What the item that is being loaded remembers of evicted orders. */
int gate_restore_evicted(struct gate_restore *restore, const struct gate_item *item);
int gate_restore_order(struct gate_restore *restore, const struct gate_order *order);
/* Ends with gate_consistent(): ERR_CORRUPT if the counters do not match the orders. */
int gate_restore_finish(struct gate_restore *restore, uint64_t applied_event, int64_t highest_ms);

#endif
