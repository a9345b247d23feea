/*
 * "Each front sends its spool before its own new buys": a front has a buy of its line decided at the
 * segment before any later buy that it sends there. This is checked as part of promise 13: a line that
 * later buys may overtake need not end.
 */
#include "world.h"

void line_asked_for(struct world *world, const struct segment_call *call)
{
    struct model_order *order =
        call->command.kind == GATE_RESERVE ? model_find(&world->model, call->command.id) : NULL;
    if (order != NULL && call->outcome != SEGMENT_NOT_ASKED) {
        order->asked_for = true;
    }
}

void line_told(struct world *world, uint32_t process, const struct gate_request *buy,
               int64_t sent_us)
{
    struct model_order *order = model_order(&world->model, buy->id);
    if (buy->kind != GATE_REQUEST_BUY || buy->refusal != REFUSAL_NONE || !buy->has_order) {
        return;
    }
    if (buy->order.reason == REFUSAL_UNDECIDED) {
        if (order->in_line_us[process] == 0) {
            order->in_line_us[process] = world_now_us(world);
        }
        return;
    }
    order->asked_for = true; /* by this front or another: it has been decided */
    for (size_t i = 0; !buy->existed && i < world->model.count; i++) {
        const struct model_order *first = &world->model.orders[i];
        int64_t in_line_us = first->in_line_us[process];
        if (in_line_us != 0 && in_line_us <= sent_us && first->segment == order->segment &&
            !first->asked_for && !first->booked) {
            world_broken(world, 13,
                         "order %016llx%016llx passed %016llx%016llx, which stood in line",
                         (unsigned long long)order->id.hi, (unsigned long long)order->id.lo,
                         (unsigned long long)first->id.hi, (unsigned long long)first->id.lo);
        }
    }
}
