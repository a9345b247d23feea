/*
 * Promise 6: The same order id gives the same order and outcome; another payload under it is
 * refused. The gate remembers until the ticket has expired and the sale has ended, then the ledger's
 * key remembers for ever.
 *
 * Checked for every answer that shows an order: item, quantity, amount, creation and deadline are those
 * of the decision and of the ledger's row. If an order was shown, or was in the ledger, before a BUY for
 * it is sent, the answer is that order, or 422 for another quantity, or 503, and never a refusal for
 * window, stock, limit or ticket. A payment_id or request_id that was answered as done is answered as
 * done again for the same body. The ledger does each once, for one body.
 */
#include "referee_private.h"

#define LLU(x) ((unsigned long long)(x))

static void differs(struct referee *r, const struct ref_order *order, const char *what,
                    int64_t told, int64_t is)
{
    sim_broken(r->sim, 6, "order %s was told with %s %lld; it has %lld", ref_name(order->id).text,
               what, (long long)told, (long long)is);
}

void promise_06_told(struct referee *r, const struct ref_order *order, const struct sim_told *told)
{
    uint32_t qty = ref_qty(order);
    int64_t created_ms = order->in_truth  ? order->created_at_ms
                         : order->in_gate ? order->gate_created_ms
                                          : order->told_created_ms;
    if (told->item != 0 && told->item != order->item->pair.a) {
        differs(r, order, "item", (int64_t)told->item, (int64_t)order->item->pair.a);
    } else if (told->qty != 0 && qty != 0 && told->qty != qty) {
        differs(r, order, "qty", told->qty, qty);
    } else if (told->amount_cents >= 0 && qty != 0 &&
               told->amount_cents != (int64_t)order->item->price_cents * qty) {
        differs(r, order, "amount", told->amount_cents, (int64_t)order->item->price_cents * qty);
    } else if (told->created_at_ms != 0 && created_ms != 0 && told->created_at_ms != created_ms) {
        differs(r, order, "created_at_ms", told->created_at_ms, created_ms);
    } else if (told->item != 0 && told->state != ORDER_FAILED &&
               told->pay_by_ms != (told->state == ORDER_QUEUED ? 0 : order->pay_by_ms)) {
        differs(r, order, "pay_by_ms", told->pay_by_ms, order->pay_by_ms);
    }
}

/* Refusals that come before anything is looked up, and those that say "not now". */
static bool not_looked_up(const struct sim_answer *answer)
{
    return answer->status == 503 || answer->status == 429 || answer->status == 408 ||
           answer->status == 401;
}

static void heard_buy(struct referee *r, const struct sim_request *request,
                      const struct ref_request *rr, const struct sim_answer *answer)
{
    const struct ref_order *order = ref_find_order(r, request->order);
    uint32_t qty = ref_qty(order);
    bool same = answer->status == 200 || answer->status == 202;
    if (same && !answer->has_order) {
        sim_broken(r->sim, 6, "BUY %llu was answered %d without an order", LLU(request->number),
                   answer->status);
        return;
    }
    if (same && (answer->status == 202) != (answer->order.state == ORDER_QUEUED)) {
        sim_broken(r->sim, 6, "BUY %llu was answered %d with an order that is %s",
                   LLU(request->number), answer->status, order_state_text(answer->order.state));
        return;
    }
    if (same && qty != 0 && qty != request->qty) {
        sim_broken(r->sim, 6, "BUY %llu of %u was answered with order %s, which is of %u",
                   LLU(request->number), request->qty, ref_name(order->id).text, qty);
        return;
    }
    bool known = ref_told_rank(order, rr->sent_at) >= 0 || ref_truth_rank(order, rr->sent_at) >= 0;
    bool other = answer->status == 422 && qty != request->qty;
    bool gone = answer->status == 404 && ref_forgotten(order);
    if (known && !same && !other && !gone && !not_looked_up(answer)) {
        sim_broken(r->sim, 6, "order %s existed, and BUY %llu of %u (it has %u) was refused: %d %s",
                   ref_name(order->id).text, LLU(request->number), request->qty, qty,
                   answer->status, answer->code);
    }
}

static void heard_key(struct referee *r, const struct sim_request *request,
                      const struct ref_request *rr, const struct sim_answer *answer, uint64_t hash)
{
    const struct ref_body *body = ref_body(r, hash);
    bool done = answer->status == 200 || answer->status == 201;
    if (body->told_done_at != NEVER && body->told_done_at <= rr->sent_at && !done &&
        !not_looked_up(answer)) {
        sim_broken(r->sim, 6, "%s %s was told done, and again (request %llu) %d %s",
                   sim_call_text(request->call), request->key, LLU(request->number), answer->status,
                   answer->code);
    }
}

void promise_06_heard(struct referee *r, const struct sim_request *request,
                      const struct ref_request *rr, const struct sim_answer *answer)
{
    if (request->call == CALL_BUY) {
        heard_buy(r, request, rr, answer);
    } else if (request->call == CALL_PAY) {
        heard_key(r, request, rr, answer,
                  ref_body_hash(LEDGER_PAY, request->key, request->order.hi, request->order.lo,
                                (uint64_t)request->amount_cents));
    } else if (request->call == CALL_RESTOCK) {
        heard_key(r, request, rr, answer,
                  ref_body_hash(LEDGER_RESTOCK, request->key, request->item, request->amount, 0));
    }
}

void promise_06_booked_again(struct referee *r, const struct ref_order *order,
                             const struct ledger_op *op)
{
    const struct gate_command *command = &op->command;
    if (!op->repeated || op->order.state != order->state) {
        sim_broken(r->sim, 6, "order %s was booked again: it was %s and is %s",
                   ref_name(order->id).text, order_state_text(order->state),
                   order_state_text(op->order.state));
    } else if (command->user != order->user || command->qty != order->qty ||
               command->now_ms != order->created_at_ms) {
        sim_broken(r->sim, 6,
                   "order %s of user %llu, qty %u, created %lld was decided again for user %llu, "
                   "qty %u at %lld",
                   ref_name(order->id).text, LLU(order->user), order->qty,
                   (long long)order->created_at_ms, LLU(command->user), command->qty,
                   (long long)command->now_ms);
    }
}

void promise_06_key(struct referee *r, const struct ref_key *key, const struct ledger_op *op,
                    uint64_t body)
{
    if (!key->done || !op->repeated || key->body != body) {
        sim_broken(r->sim, 6, "key %s of kind %d: done before %d, said to be repeated %d, same %d",
                   op->key, (int)op->kind, key->done, op->repeated, key->body == body);
    }
}
