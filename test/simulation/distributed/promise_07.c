/* Only legal moves; a buyer's view never goes backwards. Only a front that could look answers 404. */
#include "world.h"

static bool may_become(enum order_state from, enum order_state to)
{
    return from == to || (from == ORDER_QUEUED && to != ORDER_QUEUED) ||
           (from == ORDER_LOCKED &&
            (to == ORDER_PAID || to == ORDER_EXPIRED || to == ORDER_CANCELLED));
}

void promise_07_told(struct world *world, const struct model_order *order, enum order_state shown,
                     enum order_state now)
{
    if (!may_become(shown, now)) {
        world_broken(world, 7, "order %016llx%016llx was %s to its buyer, and is %s now",
                     (unsigned long long)order->id.hi, (unsigned long long)order->id.lo,
                     order_state_text(shown), order_state_text(now));
    }
}

void promise_07_missing(struct world *world, const struct model_order *order, uint32_t process,
                        uint64_t applied)
{
    bool forgot = world->model.forgot[order->segment] > order->forgot;
    if (order->undecided && !order->booked) {
        return; /* KNOWN: it stands in the line of another front, and nobody else knows */
    }
    if (order->booked && order->state == ORDER_FAILED && applied < order->event) {
        return; /* KNOWN: the same, and its end was on its way to the gate when it was asked */
    }
    if (order->booked || !forgot) {
        world_broken(world, 7, "process %u does not find order %016llx%016llx, which was promised",
                     process, (unsigned long long)order->id.hi, (unsigned long long)order->id.lo);
    }
}

void promise_07_event(struct world *world, const struct model_order *order, enum order_state to)
{
    bool legal = !order->booked ? to == ORDER_LOCKED || to == ORDER_FAILED
                                : order->state != to && may_become(order->state, to);
    if (!legal) {
        world_broken(world, 7, "order %016llx%016llx went from %s to %s",
                     (unsigned long long)order->id.hi, (unsigned long long)order->id.lo,
                     order->booked ? order_state_text(order->state) : "nothing",
                     order_state_text(to));
    }
}
