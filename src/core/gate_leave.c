/* How entries leave the gate: a sale is forgotten. See gate.h. */
#include "base/check.h"
#include "core/gate_private.h"

static void unlink_order(struct gate *gate, uint32_t slot)
{
    struct gate_order *order = &gate->orders[slot];
    struct gate_item *item = &gate->items[order->item_slot];
    struct gate_sale *sale = &gate->sales[item->sale_slot];
    const uint32_t *bucket = buyer_bucket(gate, order->item_slot, order->user);
    struct gate_buyer *buyer = find_buyer(gate, bucket, order->item_slot, order->user);
    CHECK(order->used && buyer != NULL && buyer->orders > 0);
    CHECK(item->orders_count > 0 && sale->orders > 0);
    buyer->orders--;
    item->orders_count--;
    sale->orders--;
    index_chain_remove(order_bucket(gate, order->id), order_links(gate), slot);
    *order = (struct gate_order){0};
    index_pool_give(&gate->order_pool, order_links(gate), slot);
}

static void unlink_buyer(struct gate *gate, uint32_t slot)
{
    struct gate_buyer *buyer = &gate->buyers[slot];
    struct gate_sale *sale = &gate->sales[gate->items[buyer->item_slot].sale_slot];
    CHECK(buyer->orders == 0 && sale->buyers > 0);
    sale->buyers--;
    index_chain_remove(buyer_bucket(gate, buyer->item_slot, buyer->user), buyer_links(gate), slot);
    *buyer = (struct gate_buyer){0};
    index_pool_give(&gate->buyer_pool, buyer_links(gate), slot);
}

static void unlink_item(struct gate *gate, uint32_t slot)
{
    struct gate_item *item = &gate->items[slot];
    CHECK(item->used && gate->sales[item->sale_slot].items > 0);
    CHECK(item->orders == 0 && item->buyers == 0);
    index_chain_remove(item_bucket(gate, item->id), item_links(gate), slot);
    gate->sales[item->sale_slot].items--;
    *item = (struct gate_item){0};
    index_pool_give(&gate->item_pool, item_links(gate), slot);
}

/* Frees up to *budget entries of an item, orders first; true when nothing of it is left. */
static bool forget_item(struct gate *gate, uint32_t slot, uint32_t *budget)
{
    struct gate_item *item = &gate->items[slot];
    for (; *budget > 0 && item->orders != 0; (*budget)--) {
        uint32_t order = item->orders - 1;
        item->orders = gate->orders[order].next_item;
        unlink_order(gate, order);
    }
    for (; *budget > 0 && item->buyers != 0; (*budget)--) {
        uint32_t buyer = item->buyers - 1;
        item->buyers = gate->buyers[buyer].next_item;
        unlink_buyer(gate, buyer);
    }
    return item->orders == 0 && item->buyers == 0;
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
