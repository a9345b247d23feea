/*
 * A refusal changed nothing, except 503 same-ticket, which says that the outcome is not known yet.
 *
 * Checked by cause: a unit taken, a payment and a cancellation each need a request that was not
 * refused: it was accepted, or its outcome is unknown to the client. It makes no difference whether
 * the refusals arrive before or after.
 */
#include "world.h"

static bool is_without_cause(const struct model_requests *requests)
{
    return requests->sent <= requests->refused;
}

void promise_09_look(struct world *world, const struct model_order *order)
{
    const char *what = NULL;
    if (order->booked && order->state != ORDER_FAILED && is_without_cause(&order->buys)) {
        what = "taken";
    } else if (order->state == ORDER_PAID && is_without_cause(&order->pays)) {
        what = "paid";
    } else if (order->state == ORDER_CANCELLED && is_without_cause(&order->cancels)) {
        what = "cancelled";
    }
    if (what != NULL) {
        world_broken(world, 9, "order %016llx%016llx was %s, though every request was refused",
                     (unsigned long long)order->id.hi, (unsigned long long)order->id.lo, what);
    }
}

void promise_09_told(struct world *world, const struct model_order *order,
                     struct model_requests *requests, enum refusal refusal)
{
    if (refusal != REFUSAL_NONE && refusal_text(refusal)->retry != RETRY_SAME_TICKET) {
        requests->refused++;
        promise_09_look(world, order);
    }
}
