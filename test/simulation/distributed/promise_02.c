/* Orders alive in the ledger never exceed the total. */
#include "world.h"

void promise_02_event(struct world *world, const struct ledger_event *event)
{
    const struct model_item *item = model_item(&world->model, event->item);
    if (item->locked + item->sold > item->total || item->locked < 0) {
        world_broken(world, 2, "item %llu: %lld locked and %lld sold of %lld",
                     (unsigned long long)item->id, (long long)item->locked, (long long)item->sold,
                     (long long)item->total);
    }
}
