/* No order without a decision; no decision without, in the end, an order or a returned unit. */
#include "world.h"

void promise_04_event(struct world *world, const struct model_order *order)
{
    if (!order->asked) {
        world_broken(world, 4, "order %016llx%016llx was asked for by nobody",
                     (unsigned long long)order->id.hi, (unsigned long long)order->id.lo);
    }
}

/* What the gates still hold as decided has a row that says the same. */
void promise_04_end(struct world *world)
{
    for (uint32_t s = 0; s < world->plan.segments; s++) {
        const struct gate *gate = sim_segments_gate(world->segments, s);
        for (uint32_t i = 0; gate != NULL && i < gate->order_pool.fresh; i++) {
            const struct gate_order *order = &gate->orders[i];
            if (order->id.hi == 0) {
                continue;
            }
            const struct model_order *known = model_find(&world->model, order->id);
            if (known == NULL || !known->booked || (uint8_t)known->state != order->state) {
                world_broken(
                    world, 4, "segment %u holds order %016llx%016llx as %s, the ledger: %s", s,
                    (unsigned long long)order->id.hi, (unsigned long long)order->id.lo,
                    order_state_text((enum order_state)order->state),
                    known == NULL || !known->booked ? "no row" : order_state_text(known->state));
            }
        }
    }
}
