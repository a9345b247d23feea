/*
 * A 202 ends once, as LOCKED or as FAILED with a reason; FAILED for want of stock only where the gate
 * forgot or the buy was undecided. A state is committed in the ledger before an answer shows it.
 */
#include "world.h"

void promise_03_told(struct world *world, const struct model_order *order,
                     const struct order_view *view)
{
    enum order_state state = (enum order_state)view->state;
    if (state == ORDER_QUEUED) {
        return;
    }
    bool is_so = order->booked &&
                 (state == ORDER_LOCKED ? order->state != ORDER_FAILED : order->state == state);
    if (!is_so) {
        world_broken(world, 3, "told that order %016llx%016llx is %s, the ledger: %s",
                     (unsigned long long)order->id.hi, (unsigned long long)order->id.lo,
                     order_state_text(state),
                     order->booked ? order_state_text(order->state) : "no row");
    }
}

void promise_03_event(struct world *world, const struct model_order *order)
{
    if (order->state != ORDER_FAILED) {
        return;
    }
    if (order->reason == REFUSAL_NONE) {
        world_broken(world, 3, "an order failed without a reason");
    }
    bool forgot = world->model.forgot[order->segment] > order->forgot ||
                  world->model.broken_epoch[order->segment] != 0; /* it sold what it had not */
    bool known = order->reason == REFUSAL_NO_STOCK || order->reason == REFUSAL_SOLD_OUT ||
                 order->reason == REFUSAL_LIMIT_REACHED;
    if (known && order->told && !order->undecided && !forgot) { /* the gate had looked at that */
        world_broken(world, 3, "order %016llx%016llx failed with %s; its segment forgot nothing",
                     (unsigned long long)order->id.hi, (unsigned long long)order->id.lo,
                     refusal_text(order->reason)->code);
    }
}

void promise_03_end(struct world *world)
{
    for (size_t i = 0; i < world->model.count; i++) {
        const struct model_order *order = &world->model.orders[i];
        if (order->told && !order->booked) {
            world_broken(world, 3, "order %016llx%016llx was promised and has no row",
                         (unsigned long long)order->id.hi, (unsigned long long)order->id.lo);
        }
    }
}
