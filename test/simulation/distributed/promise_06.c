/* The same order id gives the same order; another payload under it is refused. */
#include "world.h"

void promise_06_told(struct world *world, const struct model_order *order,
                     const struct gate_ask *ask)
{
    const struct order_view *view = &ask->order;
    bool same = order_id_equal(view->id, ask->id) && view->item == order->item &&
                (!order->asked || (view->user == order->user && view->qty == order->qty));
    bool as_asked = ask->question != ASK_BUY || (view->user == ask->user && view->qty == ask->qty);
    if (!same || !as_asked) {
        world_broken(world, 6, "order %016llx%016llx: %u for buyer %llu asked, %u for %llu told",
                     (unsigned long long)ask->id.hi, (unsigned long long)ask->id.lo, ask->qty,
                     (unsigned long long)ask->user, view->qty, (unsigned long long)view->user);
    }
}
