/*
 * Checks a whole gate against itself: every counter against the orders and buyers it stands for.
 * For tests, for a freshly loaded snapshot and for the simulator; it walks everything.
 */
#include "base/check.h"
#include "core/gate.h"

static void audit_item(const struct gate *gate, uint32_t slot, uint64_t *orders, uint64_t *buyers)
{
    const struct gate_item *item = &gate->items[slot];
    uint64_t locked = 0;
    uint64_t sold = 0;
    uint64_t held = 0;
    for (uint32_t link = item->orders; link != 0; link = gate->orders[link - 1].next_item) {
        const struct gate_order *order = &gate->orders[link - 1];
        CHECK(order->item_slot == slot && gate_find_order(gate, order->id) == link - 1);
        if (order->state == ORDER_PAID) {
            sold += order->qty;
        } else if (order_state_alive((enum order_state)order->state)) {
            locked += order->qty;
        }
        (*orders)++;
    }
    for (uint32_t link = item->buyers; link != 0; link = gate->buyers[link - 1].next_item) {
        const struct gate_buyer *buyer = &gate->buyers[link - 1];
        CHECK(gate_find_buyer(gate, slot, buyer->user) == buyer);
        CHECK(item->limit == 0 || buyer->held <= item->limit);
        held += buyer->held;
        (*buyers)++;
    }
    CHECK(item->available + item->locked + item->sold == item->total);
    /* A sale on its way out has lost some of its orders already. */
    if (!gate->sales[item->sale_slot].forgetting) {
        CHECK(locked == item->locked && sold == item->sold && held == locked + sold);
    }
}

void gate_audit(const struct gate *gate)
{
    uint64_t orders = 0;
    uint64_t buyers = 0;
    uint64_t items = 0;
    for (uint32_t i = 0; i < gate->item_pool.fresh; i++) {
        if (gate->items[i].used) {
            audit_item(gate, i, &orders, &buyers);
            items++;
        }
    }
    CHECK(orders == gate->order_pool.used && buyers == gate->buyer_pool.used);
    CHECK(items == gate->item_pool.used);
}
