/*
 * Promise 5: No buyer over the limit, over all segments and after any recovery.
 *
 * Checked after each booking and whenever somebody is told of a new order: what a buyer has alive in
 * the ledger, and what he was told of that is not there yet, is within the item's limit. All of it
 * is held at the gate at the same time, because the gate lets go only after the ledger did. `held`
 * in an answer is within the limit and counts the order it comes with.
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
