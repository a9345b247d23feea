/*
 * Looks at a whole gate: every counter against the orders and buyers it stands for. For tests, for a
 * freshly loaded snapshot and for the simulator; it walks everything.
 */
#include "base/check.h"
#include "core/gate_check.h"

struct sums {
    uint64_t orders;
    uint64_t buyers;
    uint64_t items;
};

/* What the item's orders add up to. */
static bool orders_fit(const struct gate *gate, uint32_t slot, struct sums *sums,
                       uint64_t *ret_locked, uint64_t *ret_sold)
{
    *ret_locked = 0;
    *ret_sold = 0;
    uint32_t link = gate->items[slot].orders;
    for (; link != 0; link = gate->orders[link - 1].next_item) {
        const struct gate_order *order = &gate->orders[link - 1];
        if (order->item_slot != slot || gate_find_order(gate, order->id) != link - 1) {
            return false;
        }
        if (order->state == ORDER_PAID) {
            *ret_sold += order->qty;
        } else if (order_state_alive((enum order_state)order->state)) {
            *ret_locked += order->qty;
        }
        sums->orders++;
    }
    return true;
}

static bool buyers_fit(const struct gate *gate, uint32_t slot, struct sums *sums,
                       uint64_t *ret_held)
{
    const struct gate_item *item = &gate->items[slot];
    *ret_held = 0;
    for (uint32_t link = item->buyers; link != 0; link = gate->buyers[link - 1].next_item) {
        const struct gate_buyer *buyer = &gate->buyers[link - 1];
        if (gate_find_buyer(gate, slot, buyer->user) != buyer ||
            !gate_buyer_in_limit(buyer, item)) {
            return false;
        }
        *ret_held += buyer->held;
        sums->buyers++;
    }
    return true;
}

static bool item_fits(const struct gate *gate, uint32_t slot, struct sums *sums)
{
    const struct gate_item *item = &gate->items[slot];
    uint64_t locked = 0;
    uint64_t sold = 0;
    uint64_t held = 0;
    sums->items++;
    if (!orders_fit(gate, slot, sums, &locked, &sold) || !buyers_fit(gate, slot, sums, &held) ||
        !gate_item_adds_up(item)) {
        return false;
    }
    /* A sale on its way out has lost some of its orders already. */
    return gate->sales[item->sale_slot].forgetting ||
           (locked == item->locked && sold == item->sold && held == locked + sold);
}

bool gate_consistent(const struct gate *gate)
{
    struct sums sums = {0};
    for (uint32_t i = 0; i < gate->item_pool.fresh; i++) {
        if (gate->items[i].used && !item_fits(gate, i, &sums)) {
            return false;
        }
    }
    return sums.orders == gate->order_pool.used && sums.buyers == gate->buyer_pool.used &&
           sums.items == gate->item_pool.used;
}

void gate_audit(const struct gate *gate)
{
    CHECK(gate_consistent(gate));
}
