/*
 * How entries leave the gate: a sale is forgotten, or an order that is final is evicted. See gate.h.
 *
 * What stays true after an eviction: every counter of units, and what the buyer's record says. The
 * item remembers what is needed to tell which ids may be those of evicted orders.
 */
#include "base/check.h"
#include "core/gate_private.h"

static void unlink_order(struct gate *gate, uint32_t slot)
{
    struct gate_order *order = &gate->orders[slot];
    struct gate_item *item = &gate->items[order->item_slot];
    if (!order_state_final((enum order_state)order->state)) {
        uncount_live(gate, order);
    }
    index_list_remove(&item->orders, item_order_links(gate), slot);
    index_chain_remove(order_bucket(gate, order->id), order_links(gate), slot);
    *order = (struct gate_order){0};
    index_pool_give(&gate->order_pool, order_links(gate), slot);
}

static void unlink_buyer(struct gate *gate, uint32_t slot)
{
    struct gate_buyer *buyer = &gate->buyers[slot];
    struct gate_sale *sale = &gate->sales[gate->items[buyer->item_slot].sale_slot];
    CHECK(buyer->live == 0 && sale->buyers > 0);
    sale->buyers--;
    index_chain_remove(buyer_bucket(gate, buyer->item_slot, buyer->user), buyer_links(gate), slot);
    *buyer = (struct gate_buyer){0};
    index_pool_give(&gate->buyer_pool, buyer_links(gate), slot);
}

static void unlink_item(struct gate *gate, uint32_t slot)
{
    struct gate_item *item = &gate->items[slot];
    CHECK(item->used && gate->sales[item->sale_slot].items > 0);
    CHECK(item->orders.first == 0 && item->buyers == 0);
    index_chain_remove(item_bucket(gate, item->id), item_links(gate), slot);
    gate->sales[item->sale_slot].items--;
    *item = (struct gate_item){0};
    index_pool_give(&gate->item_pool, item_links(gate), slot);
}

/* Frees up to *budget entries of an item, orders first; true when nothing of it is left. */
static bool forget_item(struct gate *gate, uint32_t slot, uint32_t *budget)
{
    struct gate_item *item = &gate->items[slot];
    for (; *budget > 0 && item->orders.first != 0; (*budget)--) {
        unlink_order(gate, item->orders.first - 1);
    }
    for (; *budget > 0 && item->buyers != 0; (*budget)--) {
        uint32_t buyer = item->buyers - 1;
        item->buyers = gate->buyers[buyer].next_item;
        unlink_buyer(gate, buyer);
    }
    return item->orders.first == 0 && item->buyers == 0;
}

/* Forgets a sale in steps, so that the lock is never held long. The ledger wrote the event only
 * after the sale was closed and all its orders were final. */
enum verdict gate_step_forget(struct gate *gate, const struct gate_command *command,
                              struct gate_effects *effects)
{
    uint32_t sale_slot = gate_find_sale(gate, command->sale);
    if (sale_slot == GATE_NONE) {
        return VERDICT_ALREADY_APPLIED;
    }
    if (gate->sales[sale_slot].state != SALE_CLOSED || command->qty == 0) {
        return refuse(effects, REFUSAL_BAD_STATE);
    }
    /* From here on it succeeds. */
    uint32_t budget = command->qty;
    gate->sales[sale_slot].forgetting = 1;
    for (uint32_t i = 0; i < gate->item_pool.fresh; i++) {
        if (!gate->items[i].used || gate->items[i].sale_slot != sale_slot) {
            continue;
        }
        if (!forget_item(gate, i, &budget)) {
            CHECK(budget == 0);
            return VERDICT_MORE;
        }
        unlink_item(gate, i);
    }
    CHECK(gate->sales[sale_slot].items == 0 && gate->sales_used > 0);
    gate->sales[sale_slot] = (struct gate_sale){0};
    gate->sales_used--;
    return VERDICT_DONE;
}

/* ---- evicting ---- */

bool gate_maybe_evicted(const struct gate *gate, uint32_t item_slot, struct order_id id)
{
    const struct gate_item *item = &gate->items[item_slot];
    if (item->evicted == 0) {
        return false;
    }
    if (order_id_kind(id) != ORDER_ONCE) {
        return item->limit != 1 && order_id_ms(id) < item->evicted_end;
    }
    /* Of a buyer's attempts each one below the present number was an order. The present one is an
     * order if he holds a unit, or was barred for it. */
    const struct gate_buyer *buyer = gate_find_buyer(gate, item_slot, order_id_user(id));
    if (item->limit != 1 || buyer == NULL) {
        return false;
    }
    uint32_t attempt = order_id_attempt(id);
    return attempt < buyer->failed_attempts ||
           (attempt == buyer->failed_attempts && (buyer->held > 0 || buyer->barred));
}

enum verdict gate_step_evict(struct gate *gate, const struct gate_command *command,
                             struct gate_effects *effects)
{
    uint32_t slot = gate_find_order(gate, command->id);
    if (slot == GATE_NONE) {
        return VERDICT_ALREADY_APPLIED;
    }
    const struct gate_order *order = &gate->orders[slot];
    if (!order_state_final((enum order_state)order->state)) {
        return refuse(effects, REFUSAL_BAD_STATE);
    }
    /* From here on it succeeds. */
    struct gate_item *item = &gate->items[order->item_slot];
    effects->item_slot = order->item_slot;
    item->evicted++;
    item->evicted_sold += order->state == ORDER_PAID ? order->qty : 0;
    if (order->lsn > item->evicted_lsn) {
        item->evicted_lsn = order->lsn;
    }
    if (order_id_kind(order->id) == ORDER_FRESH && order_id_ms(order->id) >= item->evicted_end) {
        item->evicted_end = order_id_ms(order->id) + 1;
    }
    unlink_order(gate, slot);
    CHECK(item->evicted_sold <= item->sold);
    return VERDICT_DONE;
}

static bool fuller_than(const struct gate *gate, uint32_t percent)
{
    return (uint64_t)gate->order_pool.used * 100 >= (uint64_t)gate->sizes.orders * percent;
}

bool gate_sweep_wanted(const struct gate *gate, struct gate_sweep *sweep)
{
    if (!sweep->active && fuller_than(gate, GATE_EVICT_FROM)) {
        *sweep = (struct gate_sweep){.active = true};
    }
    sweep->active = sweep->active && fuller_than(gate, GATE_EVICT_TO);
    return sweep->active;
}

/* The order to look at next in the sweep's item. The sweep may have stood still while the item was
 * forgotten and its slots were used again: then it starts at the oldest. */
static uint32_t sweep_link(const struct gate *gate, const struct gate_sweep *sweep)
{
    const struct gate_item *item = &gate->items[sweep->item];
    if (!item->used) {
        return 0;
    }
    bool same = sweep->link != 0 && sweep->item_id_low == (uint32_t)item->id &&
                gate->orders[sweep->link - 1].id.hi != 0 &&
                gate->orders[sweep->link - 1].item_slot == sweep->item;
    return same ? sweep->link : item->orders.last;
}

uint32_t gate_sweep_next(const struct gate *gate, struct gate_sweep *sweep, uint32_t *looks)
{
    for (; *looks > 0 && sweep->item < gate->item_pool.fresh; (*looks)--) {
        uint32_t link = sweep_link(gate, sweep);
        const struct gate_order *order = link != 0 ? &gate->orders[link - 1] : NULL;
        sweep->item_id_low = (uint32_t)gate->items[sweep->item].id;
        sweep->link = order != NULL ? order->by_item.previous : 0;
        sweep->item += sweep->link == 0; /* that was the item's newest */
        if (order != NULL && order_state_final((enum order_state)order->state)) {
            (*looks)--;
            return link - 1;
        }
    }
    if (sweep->item >= gate->item_pool.fresh) {
        *sweep = (struct gate_sweep){0};
    }
    return GATE_NONE;
}
