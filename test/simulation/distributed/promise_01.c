/* available + locked + sold + in transit = total, every number >= 0, on every segment. */
#include "world.h"

/* Units of an item's orders at a gate, by what they are. */
static void count_orders(const struct gate *gate, uint32_t item_slot, uint64_t *ret_locked,
                         uint64_t *ret_sold)
{
    *ret_locked = *ret_sold = 0;
    for (uint32_t i = 0; i < gate->order_pool.fresh; i++) {
        const struct gate_order *order = &gate->orders[i];
        if (order->id.hi == 0 || order->item_slot != item_slot) {
            continue;
        }
        *ret_locked +=
            order->state == ORDER_QUEUED || order->state == ORDER_LOCKED ? order->qty : 0;
        *ret_sold += order->state == ORDER_PAID ? order->qty : 0;
    }
}

static void look_at(struct world *world, uint32_t segment, const struct gate *gate, uint32_t slot)
{
    const struct gate_item *item = &gate->items[slot];
    uint64_t locked;
    uint64_t sold;
    if (item->available + item->locked + item->sold != item->total ||
        item->available > item->total) {
        world_broken(world, 1, "segment %u: %llu available + %llu locked + %llu sold of %llu",
                     segment, (unsigned long long)item->available, (unsigned long long)item->locked,
                     (unsigned long long)item->sold, (unsigned long long)item->total);
    }
    count_orders(gate, slot, &locked, &sold);
    if (locked != item->locked || sold != item->sold) {
        world_broken(world, 1, "segment %u: its orders lock %llu and sold %llu, it says %llu, %llu",
                     segment, (unsigned long long)locked, (unsigned long long)sold,
                     (unsigned long long)item->locked, (unsigned long long)item->sold);
    }
}

void promise_01_look(struct world *world)
{
    for (uint32_t s = 0; s < world->plan.segments; s++) {
        const struct gate *gate = sim_segments_gate(world->segments, s);
        if (gate == NULL || !sim_segments_open(world->segments, s) ||
            world->model.broken_epoch[s] == sim_segments_epoch(world->segments, s)) {
            continue; /* being rebuilt, or a fault has broken it */
        }
        for (uint32_t i = 0; i < gate->item_pool.fresh; i++) {
            if (gate->items[i].used) {
                look_at(world, s, gate, i);
            }
        }
    }
}

/* Nothing is in transit any more: the segments hold what the ledger gave out, all of it. */
void promise_01_end(struct world *world)
{
    for (size_t i = 0; i < world->model.items_count; i++) {
        const struct model_item *item = &world->model.items[i];
        uint64_t total = 0;
        for (uint32_t s = 0; s < world->plan.segments; s++) {
            const struct gate *gate = sim_segments_gate(world->segments, s);
            uint32_t slot = gate != NULL ? gate_find_item(gate, item->id) : GATE_NONE;
            total += slot != GATE_NONE ? gate->items[slot].total : 0;
        }
        if ((int64_t)total != item->total) {
            world_broken(world, 1, "the segments have %llu of item %llu, the ledger gave out %lld",
                         (unsigned long long)total, (unsigned long long)item->id,
                         (long long)item->total);
        }
    }
}
