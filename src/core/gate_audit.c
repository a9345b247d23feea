/*
 * Checks a whole gate: every counter against the orders and buyers it counts. Used in tests, in the
 * simulator and after loading a snapshot. It walks everything.
 */
#include "base/check.h"
#include "core/gate_check.h"

struct sums {
    uint64_t orders;
    uint64_t live;
    uint64_t buyers;
    uint64_t items;
};

/* Of one item. */
struct item_sums {
    uint64_t locked;
    uint64_t sold;
    uint64_t held;
    uint64_t orders;
    uint64_t buyers;
    uint64_t live;
    uint64_t buyers_live; /* as the buyers' records count them */
};

/* Compares the item's orders with its counters, and sums them up. */
static bool orders_fit(const struct gate *gate, uint32_t slot, struct item_sums *sums)
{
    uint32_t link = gate->items[slot].orders.first;
    for (; link != 0; link = gate->orders[link - 1].by_item.next) {
        const struct gate_order *order = &gate->orders[link - 1];
        if (order->item_slot != slot || gate_find_order(gate, order->id) != link - 1) {
            return false;
        }
        if (order->state == ORDER_PAID) {
            sums->sold += order->qty;
        } else if (order_state_alive((enum order_state)order->state)) {
            sums->locked += order->qty;
        }
        sums->live += !order_state_final((enum order_state)order->state);
        sums->orders++;
    }
    return true;
}

static bool buyers_fit(const struct gate *gate, uint32_t slot, struct item_sums *sums)
{
    const struct gate_item *item = &gate->items[slot];
    for (uint32_t link = item->buyers; link != 0; link = gate->buyers[link - 1].next_item) {
        const struct gate_buyer *buyer = &gate->buyers[link - 1];
        if (gate_find_buyer(gate, slot, buyer->user) != buyer ||
            !gate_buyer_in_limit(buyer, item)) {
            return false;
        }
        sums->held += buyer->held;
        sums->buyers_live += buyer->live;
        sums->buyers++;
    }
    return true;
}

static bool item_fits(const struct gate *gate, uint32_t slot, struct sums *sums)
{
    const struct gate_item *item = &gate->items[slot];
    struct item_sums found = {0};
    if (!orders_fit(gate, slot, &found) || !buyers_fit(gate, slot, &found) ||
        !gate_item_adds_up(item) || found.live != item->live || found.live != found.buyers_live) {
        return false;
    }
    sums->orders += found.orders;
    sums->live += found.live;
    sums->buyers += found.buyers;
    sums->items++;
    /* A sale that is being forgotten has already lost some of its orders. */
    return gate->sales[item->sale_slot].forgetting ||
           (found.locked == item->locked && found.sold + item->evicted_sold == item->sold &&
            found.held == item->locked + item->sold);
}

/* What the sales count is what there is. */
static bool sales_fit(const struct gate *gate, const struct sums *sums)
{
    struct sums counted = {0};
    for (uint32_t i = 0; i < gate->sizes.sales; i++) {
        counted.live += gate->sales[i].live;
        counted.buyers += gate->sales[i].buyers;
        counted.items += gate->sales[i].items;
    }
    return counted.live == sums->live && counted.buyers == sums->buyers &&
           counted.items == sums->items;
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
           sums.items == gate->item_pool.used && sales_fit(gate, &sums);
}

void gate_audit(const struct gate *gate)
{
    CHECK(gate_consistent(gate));
}
