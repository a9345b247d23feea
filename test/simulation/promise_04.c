/*
 * Promise 4: No order without a decision; no decision without, in the end, an order, a returned unit
 * or a journalled write-off.
 *
 * Checked when an order appears at the gate, in the ledger or in an answer: somebody has sent a BUY
 * for this id, user, item and quantity, and the ledger booked what the gate decided. At the end
 * every order that an answer showed, or that is at the gate, is in the ledger, and every order of the ledger is
 * on the board unless its sale is forgotten.
 */
#include "referee_private.h"

#define LLU(x) ((unsigned long long)(x))

void promise_04_decided(struct referee *r, const struct ref_order *order)
{
    if (!ref_was_asked(order, order->gate_user, order->item->pair.a, order->gate_qty)) {
        sim_broken(r->sim, 4,
                   "the gate holds order %s with user %llu, item %llu, qty %u: not asked",
                   ref_name(order->id).text, LLU(order->gate_user), LLU(order->item->pair.a),
                   order->gate_qty);
    }
}

void promise_04_booked(struct referee *r, const struct ref_order *order, const struct ledger_op *op)
{
    const struct gate_command *command = &op->command;
    if (!ref_was_asked(order, command->user, command->item, command->qty)) {
        sim_broken(r->sim, 4, "order %s was booked with user %llu, item %llu, qty %u: not asked",
                   ref_name(order->id).text, LLU(command->user), LLU(command->item), command->qty);
        return;
    }
    if (order->in_gate && (command->user != order->gate_user || command->qty != order->gate_qty ||
                           command->now_ms != order->gate_created_ms)) {
        sim_broken(r->sim, 4,
                   "order %s was decided for user %llu, qty %u at %lld, and booked for user %llu, "
                   "qty %u at %lld",
                   ref_name(order->id).text, LLU(order->gate_user), order->gate_qty,
                   (long long)order->gate_created_ms, LLU(command->user), command->qty,
                   (long long)command->now_ms);
        return;
    }
    const struct order_row *row = &op->order;
    if (!order_id_equal(row->id, order->id) || row->user != command->user ||
        row->item != command->item || row->qty != command->qty ||
        row->created_at_ms != command->now_ms || row->amount_cents != order->amount_cents) {
        sim_broken(r->sim, 4,
                   "the row of order %s has user %llu, item %llu, qty %u, amount %lld; booked were "
                   "%llu, %llu, %u, %lld",
                   ref_name(order->id).text, LLU(row->user), LLU(row->item), row->qty,
                   (long long)row->amount_cents, LLU(command->user), LLU(command->item),
                   command->qty, (long long)order->amount_cents);
    }
}

static bool asked_by(const struct ref_order *order, uint64_t user)
{
    for (uint32_t i = 0; i < order->asks_count; i++) {
        if (order->requests[i].user == user) {
            return true;
        }
    }
    return false;
}

void promise_04_told(struct referee *r, const struct sim_request *request,
                     const struct ref_order *order, const struct sim_told *told)
{
    if (order == NULL) {
        sim_broken(r->sim, 4, "order %s was told (request %llu); nobody asked for it",
                   ref_name(told->id).text, LLU(request->number));
        return;
    }
    if (request->call != CALL_MY_ORDERS && !order_id_equal(told->id, request->order)) {
        sim_broken(r->sim, 6, "request %llu asked for order %s and was told of %s",
                   LLU(request->number), ref_name(request->order).text, ref_name(told->id).text);
        return;
    }
    if (request->user != 0 && !asked_by(order, request->user)) {
        sim_broken(r->sim, 4, "user %llu was told of order %s (request %llu), which is not his",
                   LLU(request->user), ref_name(told->id).text, LLU(request->number));
        return;
    }
    if (request->call == CALL_MY_ORDERS && !order->in_truth) {
        sim_broken(r->sim, 4, "the list of user %llu shows order %s, which is not in the ledger",
                   LLU(request->user), ref_name(told->id).text);
    }
}

/* A list that does not fill its page shows every order of this buyer that the ledger had when it was
 * asked for, newest first. */
void promise_04_listed(struct referee *r, const struct sim_request *request,
                       const struct ref_request *rr, const struct sim_answer *answer)
{
    if (request->call != CALL_MY_ORDERS || answer->status != 200) {
        return;
    }
    for (size_t i = 1; i < answer->orders_count; i++) {
        if (answer->orders[i].created_at_ms > answer->orders[i - 1].created_at_ms) {
            sim_broken(r->sim, 4, "the list of user %llu shows order %s before %s, which is newer",
                       LLU(request->user), ref_name(answer->orders[i - 1].id).text,
                       ref_name(answer->orders[i].id).text);
            return;
        }
    }
    for (uint32_t i = 0; i < r->orders.count && answer->orders_count < PAGE_LIMIT_DEFAULT; i++) {
        const struct ref_order *order = r->orders.entries[i];
        if (order->user != request->user || ref_truth_rank(order, rr->sent_at) < 0) {
            continue;
        }
        size_t at = 0;
        while (at < answer->orders_count && !order_id_equal(answer->orders[at].id, order->id)) {
            at++;
        }
        if (at == answer->orders_count) {
            sim_broken(r->sim, 4, "the list of user %llu (request %llu) lacks his order %s",
                       LLU(request->user), LLU(request->number), ref_name(order->id).text);
            return;
        }
    }
}

void promise_04_end(struct referee *r)
{
    for (uint32_t i = 0; i < r->orders.count && !sim_is_broken(r->sim); i++) {
        const struct ref_order *order = r->orders.entries[i];
        if (!order->in_truth && (order->in_gate || ref_told_rank(order, r->now) >= 0)) {
            sim_broken(r->sim, 4, "order %s was %s, and is not in the ledger at the end",
                       ref_name(order->id).text, order->in_gate ? "decided" : "told");
        } else if (order->in_truth && !order->in_gate && !ref_forgotten(order)) {
            sim_broken(r->sim, 4, "order %s is %s in the ledger, and not on the board at the end",
                       ref_name(order->id).text, order_state_text(order->state));
        }
    }
}
