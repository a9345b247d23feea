/*
 * Promise 5: No buyer over the limit, over all segments and after any recovery.
 *
 * Checked after each booking and each answer with a new order: the units that a buyer has alive in the
 * ledger, and those that were shown to him but are not booked yet, are within the item's limit. The gate
 * holds all of them at the same time, because it releases units only after the ledger did. `held`
 * in an answer is within the limit and counts the order it comes with.
 *
 * Nor does a buyer get a new order who is barred, or whose cooling time is not over: both follow from
 * the events that the gate had applied when it decided.
 */
#include "referee_private.h"

#define LLU(x) ((unsigned long long)(x))

void promise_05_buyer(struct referee *r, const struct ref_buyer *buyer)
{
    uint32_t limit = buyer->item->limit;
    if (limit > 0 && buyer->alive + buyer->told > limit) {
        sim_broken(r->sim, 5,
                   "user %llu has %llu of item %llu in the ledger and was told of %llu more; the "
                   "limit is %u",
                   LLU(buyer->pair.a), LLU(buyer->alive), LLU(buyer->item->pair.a),
                   LLU(buyer->told), limit);
    }
}

void promise_05_decided(struct referee *r, const struct ref_order *order,
                        const struct ref_buyer *buyer)
{
    if (buyer->barred || order->gate_created_ms < buyer->cooling_until_ms) {
        sim_broken(r->sim, 5, "user %llu got order %s at %lld, and %s %lld", LLU(buyer->pair.a),
                   ref_name(order->id).text, (long long)order->gate_created_ms,
                   buyer->barred ? "is barred; he waits until" : "has to wait until",
                   (long long)buyer->cooling_until_ms);
    }
}

void promise_05_heard(struct referee *r, const struct sim_request *request,
                      const struct sim_answer *answer)
{
    if (!answer->has_held || (request->call != CALL_BUY && request->call != CALL_TICKET)) {
        return;
    }
    uint64_t item = request->call == CALL_BUY ? order_id_item(request->order) : request->item;
    uint32_t limit = ref_item(r, item)->limit;
    if (limit > 0 && answer->held > limit) {
        sim_broken(r->sim, 5, "user %llu holds %llu of item %llu (request %llu); the limit is %u",
                   LLU(request->user), LLU(answer->held), LLU(item), LLU(request->number), limit);
    } else if (answer->has_order && order_state_alive(answer->order.state) &&
               answer->held < request->qty) {
        sim_broken(r->sim, 5, "user %llu was told order %s of %u, and that he holds %llu",
                   LLU(request->user), ref_name(answer->order.id).text, request->qty,
                   LLU(answer->held));
    }
}
