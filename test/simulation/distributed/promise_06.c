/* The same order id gives the same order; another payload under it is refused. */
#include "world.h"

void promise_06_told(struct world *world, const struct model_order *order,
                     const struct gate_request *request)
{
    const struct order_view *view = &request->order;
    bool same = order_id_equal(view->id, request->id) && view->item == order->item &&
                (!order->asked || (view->user == order->user && view->qty == order->qty));
    bool as_asked = request->kind != GATE_REQUEST_BUY ||
                    (view->user == request->user && view->qty == request->qty);
    if (!same || !as_asked) {
        world_broken(world, 6, "order %016llx%016llx: %u for buyer %llu asked, %u for %llu told",
                     (unsigned long long)request->id.hi, (unsigned long long)request->id.lo,
                     request->qty, (unsigned long long)request->user, view->qty,
                     (unsigned long long)view->user);
    }
}
