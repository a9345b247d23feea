/*
 * Promise 3: A 202 leaves only after its record is in a synced journal. It ends once, as LOCKED or
 * as FAILED with a reason; FAILED for want of stock only where Redis forgot or the buy was spooled.
 * LOCKED and PAID are committed in the ledger before any answer. Only losing Redis's memory and
 * that front's disk together loses a 202.
 *
 * Checked for every answer that shows an order: the gate has the order; while it is QUEUED there, its
 * record is durable. Any other state is committed. If the answer comes from the gate and shows the
 * gate's state, the record of that state is durable, too. promise_12.c checks at each start that a
 * shown order survives every crash. FAILED does not happen in this engine
 * at all.
 */
#include "referee_private.h"

#define LLU(x) ((unsigned long long)(x))

/* The answer shows what the gate has, and it is the gate of this life. */
static bool from_this_gate(const struct referee *r, const struct sim_request *request,
                           const struct ref_request *rr)
{
    return rr->life == r->life && (request->call == CALL_BUY || request->call == CALL_ORDER ||
                                   request->call == CALL_ORDER_EVENTS);
}

static void check_durable(struct referee *r, const struct sim_request *request,
                          const struct ref_request *rr, const struct ref_order *order,
                          enum order_state told)
{
    if (!r->up || ref_forgotten(order)) {
        return;
    }
    const struct gate *gate = r->view.gate;
    uint32_t slot = gate_find_order(gate, order->id);
    uint32_t item = gate_find_item(gate, order->item->pair.a);
    if (slot == GATE_NONE && item != GATE_NONE && gate->items[item].evicted > 0 &&
        order_state_final(ref_state_at(order, gate->applied_event))) {
        return; /* it was evicted: referee_gate.c counts these */
    }
    if (slot == GATE_NONE) {
        sim_broken(r->sim, 3, "order %s was told (request %llu), and the gate does not have it",
                   ref_name(order->id).text, LLU(request->number));
        return;
    }
    const struct gate_order *at_gate = &gate->orders[slot];
    bool must_be_durable = at_gate->state == ORDER_QUEUED ||
                           (at_gate->state == told && from_this_gate(r, request, rr));
    if (must_be_durable && at_gate->lsn > r->view.durable_lsn) {
        sim_broken(r->sim, 3, "order %s was told (request %llu) with LSN %llu; durable is %llu",
                   ref_name(order->id).text, LLU(request->number), LLU(at_gate->lsn),
                   LLU(r->view.durable_lsn));
    }
}

void promise_03_told(struct referee *r, const struct sim_request *request,
                     const struct ref_request *rr, const struct ref_order *order,
                     const struct sim_told *told)
{
    const char *name = order_state_text(told->state);
    /* The answer to a buy does not say that the cancellation was late. */
    bool late = told->state == ORDER_CANCELLED && order->reason == REFUSAL_BARRED;
    if (!late && told->has_reason != (told->state == ORDER_FAILED)) {
        sim_broken(r->sim, 3, "order %s was told as %s %s reason (request %llu)",
                   ref_name(order->id).text, name, told->has_reason ? "with a" : "without a",
                   LLU(request->number));
        return;
    }
    bool committed = told->state == ORDER_QUEUED ||
                     (told->state == ORDER_LOCKED ? order->truth_at[RANK_LOCKED] != NEVER
                                                  : order->in_truth && order->state == told->state);
    if (!committed) {
        sim_broken(r->sim, 3, "order %s was told as %s (request %llu); in the ledger it is %s",
                   ref_name(order->id).text, name, LLU(request->number),
                   order->in_truth ? order_state_text(order->state) : "not booked");
        return;
    }
    check_durable(r, request, rr, order, told->state);
}

void promise_03_failed(struct referee *r, const struct ref_order *order)
{
    sim_broken(r->sim, 3, "order %s of user %llu, item %llu, qty %u FAILED in the ledger: %s",
               ref_name(order->id).text, LLU(order->user), LLU(order->item->pair.a), order->qty,
               refusal_text(order->reason)->code);
}

/* Answers to operators, too, show only what is committed. */
void promise_03_heard(struct referee *r, const struct sim_request *request,
                      const struct sim_answer *answer)
{
    bool committed = true;
    if (answer->status != 200 && answer->status != 201) {
        return;
    }
    if (request->call == CALL_SALE_CREATE) {
        committed = ref_sale(r, request->sale)->exists;
    } else if (request->call == CALL_SALE_MOVE) {
        committed = ref_sale(r, request->sale)->reached[request->target] > 0;
    } else if (request->call == CALL_RESTOCK) {
        const struct ref_key *key = ref_key(r, LEDGER_RESTOCK, request->key, request->item);
        committed = key->done && key->body == ref_body_hash(LEDGER_RESTOCK, request->key,
                                                            request->item, request->amount, 0);
    }
    if (!committed) {
        sim_broken(r->sim, 3, "request %llu (%s, sale %llu, item %llu) was told done, and is not",
                   LLU(request->number), sim_call_text(request->call), LLU(request->sale),
                   LLU(request->item));
    }
}
