/* No order outside the sale's window, whatever the clocks do. */
#include "world.h"

void promise_10_event(struct world *world, const struct ledger_event *event)
{
    const struct order_row *row = memory_ledger_order(&world->ledger, event->id);
    if (event->kind != EVENT_ORDER_LOCKED || row == NULL) {
        return;
    }
    const struct model *model = &world->model;
    if (row->created_at_ms < model->starts_ms || row->created_at_ms >= model->ends_ms) {
        world_broken(world, 10, "an order was decided at %lld, the sale was open from %lld to %lld",
                     (long long)row->created_at_ms, (long long)model->starts_ms,
                     (long long)model->ends_ms);
    }
}
