/*
 * Loads a gate. Buyers are inserted at the head of their item's chain, so a chain given newest first
 * comes out oldest first. When an item is complete, it is reversed. Orders are appended.
 */
#include "core/gate_restore.h"

#include "base/check.h"
#include "base/err.h"

void gate_restore_start(struct gate_restore *ret_restore, struct gate *empty_gate)
{
    CHECK(empty_gate->sales_used == 0 && empty_gate->item_pool.used == 0);
    *ret_restore =
        (struct gate_restore){.gate = empty_gate, .item_slot = GATE_NONE, .buyer_slot = GATE_NONE};
}

static void turn_chain(struct gate_restore *restore)
{
    struct gate *gate = restore->gate;
    if (restore->item_slot == GATE_NONE) {
        return;
    }
    struct gate_item *item = &gate->items[restore->item_slot];
    index_chain_reverse(&item->buyers, INDEX_LINKS(gate->buyers, next_item));
}

int gate_restore_sale(struct gate_restore *restore, const struct gate_sale *sale)
{
    if (restore->item_slot != GATE_NONE || sale->state >= SALE_STATE_COUNT ||
        gate_find_sale(restore->gate, sale->id) != GATE_NONE) {
        return ERR_CORRUPT;
    }
    return gate_add_sale(restore->gate, sale) == GATE_NONE ? ERR_FULL : 0;
}

int gate_restore_item(struct gate_restore *restore, const struct gate_item *item, uint64_t sale)
{
    struct gate *gate = restore->gate;
    struct gate_item entry = *item;
    entry.sale_slot = gate_find_sale(gate, sale);
    if (entry.sale_slot == GATE_NONE || gate_find_item(gate, item->id) != GATE_NONE) {
        return ERR_CORRUPT;
    }
    if (index_pool_full(&gate->item_pool)) {
        return ERR_FULL;
    }
    turn_chain(restore);
    restore->item_slot = gate_add_item(gate, &entry);
    restore->buyer_slot = GATE_NONE;
    return 0;
}

int gate_restore_buyer(struct gate_restore *restore, const struct gate_buyer *buyer)
{
    struct gate *gate = restore->gate;
    struct gate_buyer entry = *buyer;
    entry.item_slot = restore->item_slot;
    if (entry.item_slot == GATE_NONE ||
        gate_find_buyer(gate, entry.item_slot, buyer->user) != NULL) {
        return ERR_CORRUPT;
    }
    if (index_pool_full(&gate->buyer_pool)) {
        return ERR_FULL;
    }
    restore->buyer_slot = gate_add_buyer(gate, &entry);
    return 0;
}

int gate_restore_cooling(struct gate_restore *restore, int64_t until_ms)
{
    if (restore->buyer_slot == GATE_NONE || until_ms <= 0 ||
        restore->gate->buyers[restore->buyer_slot].barred) {
        return ERR_CORRUPT;
    }
    restore->gate->buyers[restore->buyer_slot].cooling_until_ms = until_ms;
    return 0;
}

int gate_restore_evicted(struct gate_restore *restore, const struct gate_item *item)
{
    if (restore->item_slot == GATE_NONE) {
        return ERR_CORRUPT;
    }
    struct gate_item *entry = &restore->gate->items[restore->item_slot];
    entry->evicted = item->evicted;
    entry->evicted_sold = item->evicted_sold;
    entry->evicted_end = item->evicted_end;
    entry->evicted_lsn = item->evicted_lsn;
    return 0;
}

int gate_restore_order(struct gate_restore *restore, const struct gate_order *order)
{
    struct gate *gate = restore->gate;
    struct gate_order entry = *order;
    entry.item_slot = restore->item_slot;
    if (entry.item_slot == GATE_NONE || order->state >= ORDER_STATE_COUNT ||
        order->reason >= REFUSAL_COUNT || gate_find_order(gate, order->id) != GATE_NONE) {
        return ERR_CORRUPT;
    }
    if (index_pool_full(&gate->order_pool)) {
        return ERR_FULL;
    }
    if (gate_find_buyer(gate, entry.item_slot, entry.user) == NULL) {
        return ERR_CORRUPT; /* an item's buyers come before its orders */
    }
    (void)gate_add_order(gate, &entry);
    return 0;
}

int gate_restore_finish(struct gate_restore *restore, uint64_t applied_event, int64_t highest_ms)
{
    turn_chain(restore);
    restore->gate->applied_event = applied_event;
    restore->gate->highest_ms = highest_ms;
    return gate_consistent(restore->gate) ? 0 : ERR_CORRUPT;
}
