/* Each unpaid order returns its stock exactly once, soon after its deadline, never before. */
#include "world.h"

void promise_08_event(struct world *world, const struct model_order *order,
                      const struct ledger_event *event)
{
    if (order->returned > 1) {
        world_broken(world, 8, "an order's units came back twice");
    }
    if (event->kind == EVENT_ORDER_EXPIRED && event->at_ms < order->pay_by_ms) {
        world_broken(world, 8, "an order expired %lld ms before its time",
                     (long long)(order->pay_by_ms - event->at_ms));
    }
    if (event->kind == EVENT_ORDER_PAID && event->at_ms >= order->pay_by_ms) {
        world_broken(world, 8, "an order was paid %lld ms after its time",
                     (long long)(event->at_ms - order->pay_by_ms));
    }
}

void promise_08_end(struct world *world)
{
    for (size_t i = 0; i < world->model.count; i++) {
        const struct model_order *order = &world->model.orders[i];
        bool unpaid = order->state == ORDER_EXPIRED || order->state == ORDER_CANCELLED;
        if (order->booked && order->returned != (unpaid ? 1U : 0U)) {
            world_broken(world, 8, "an order that is %s returned its units %u times",
                         order_state_text(order->state), order->returned);
        }
    }
}
