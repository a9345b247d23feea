/*
 * Promise 8: Each unpaid order returns its stock exactly once, soon after its deadline, never
 * before. A late payment is refused, never revives it.
 *
 * Checked in the truth: pay_by is the booking's time and the sale's term; an order expires only
 * LOCKED (so once) and at or after pay_by, and is paid only before; a payment answered with `expired`
 * never pays later. The ledger refuses no op that is due. Soon: while nothing disturbs the server, not
 * later than SOON_MS after the deadline. After a disturbance the ledger writer's longest pause between two
 * tries (5 s) may still run.
 */
#include "referee_private.h"

#define LLU(x) ((unsigned long long)(x))
#define SOON_MS 3000
#define HEAL_MS 8000

void promise_08_booked(struct referee *r, const struct ref_order *order, int64_t now_ms)
{
    int64_t pay_by_ms = now_ms + (int64_t)order->item->sale->pay_within_s * 1000;
    if (order->pay_by_ms != pay_by_ms) {
        sim_broken(r->sim, 8, "order %s was booked at %lld, to be paid by %lld instead of %lld",
                   ref_name(order->id).text, (long long)now_ms, (long long)order->pay_by_ms,
                   (long long)pay_by_ms);
    }
}

static bool overdue(const struct referee *r, const struct ref_order *order, int64_t now_ms)
{
    return now_ms > order->pay_by_ms + SOON_MS && now_ms > r->calm_ms + HEAL_MS;
}

void promise_08_ended(struct referee *r, const struct ref_order *order, enum order_state to,
                      int64_t now_ms)
{
    bool late = now_ms >= order->pay_by_ms;
    if ((to == ORDER_EXPIRED && !late) || (to == ORDER_PAID && late)) {
        sim_broken(r->sim, 8, "order %s became %s at %lld; its pay_by is %lld",
                   ref_name(order->id).text, order_state_text(to), (long long)now_ms,
                   (long long)order->pay_by_ms);
    } else if (to == ORDER_EXPIRED && overdue(r, order, now_ms)) {
        sim_broken(r->sim, 8, "order %s expired at %lld, long after %lld; undisturbed since %lld",
                   ref_name(order->id).text, (long long)now_ms, (long long)order->pay_by_ms,
                   (long long)r->calm_ms);
    }
}

void promise_08_paid(struct referee *r, const struct ref_order *order, const struct ref_body *body)
{
    if (body->told_expired_at != NEVER) {
        sim_broken(r->sim, 8, "order %s was paid by a payment that had been told expired",
                   ref_name(order->id).text);
    }
}

void promise_08_refused(struct referee *r, const struct ref_order *order,
                        const struct ledger_op *op, bool key_done, int64_t now_ms)
{
    if (order == NULL || !order->in_truth || order->state != ORDER_LOCKED) {
        return;
    }
    bool due = order->pay_by_ms <= now_ms;
    bool wrong = false;
    if (op->kind == LEDGER_PAY) {
        wrong = !due && !key_done && op->amount_cents == order->amount_cents;
    } else if (op->kind == LEDGER_CANCEL) {
        wrong = op->user == 0 || op->user == order->user;
    } else {
        wrong = due;
    }
    if (wrong) {
        sim_broken(r->sim, 8,
                   "order %s is LOCKED until %lld, and an op of kind %d was refused at "
                   "%lld: %s",
                   ref_name(order->id).text, (long long)order->pay_by_ms, (int)op->kind,
                   (long long)now_ms, refusal_text(op->refusal)->code);
    }
}

static void heard_pay(struct referee *r, const struct sim_request *request,
                      const struct sim_answer *answer, const struct ref_order *order)
{
    bool paid = order->in_truth && order->state == ORDER_PAID;
    bool by_this = paid && order->paid_by == ref_text_hash(request->key);
    bool wrong = false;
    if (answer->status == 200) {
        wrong = !by_this || !answer->has_order || answer->order.state != ORDER_PAID;
    } else if (ref_code(answer, "expired")) {
        wrong = paid || !order->in_truth ||
                (order->state == ORDER_LOCKED && ref_inside_high(r) < order->pay_by_ms &&
                 r->highest_ms < order->pay_by_ms);
    } else if (ref_code(answer, "already_paid")) {
        wrong = !paid || by_this;
    } else if (ref_code(answer, "wrong_amount")) {
        wrong = !order->in_truth || order->amount_cents == request->amount_cents;
    }
    if (wrong) {
        sim_broken(r->sim, 8,
                   "payment %s of %lld for order %s was answered %d %s; the order is %s, of %lld, "
                   "to be paid by %lld",
                   request->key, (long long)request->amount_cents, ref_name(order->id).text,
                   answer->status, answer->code,
                   order->in_truth ? order_state_text(order->state) : "not booked",
                   (long long)order->amount_cents, (long long)order->pay_by_ms);
    }
}

void promise_08_heard(struct referee *r, const struct sim_request *request,
                      const struct sim_answer *answer)
{
    const struct ref_order *order = ref_find_order(r, request->order);
    if (order == NULL) {
        if (request->call == CALL_PAY && answer->status == 200) {
            sim_broken(r->sim, 8, "payment %s for order %s, which nobody has, was taken",
                       request->key, ref_name(request->order).text);
        }
        return;
    }
    if (request->call == CALL_PAY) {
        heard_pay(r, request, answer, order);
        return;
    }
    if (request->call != CALL_CANCEL) {
        return;
    }
    bool wrong = answer->status == 200 ? order->state != ORDER_CANCELLED
                 : ref_code(answer, "expired")
                     ? order->state != ORDER_EXPIRED && order->state != ORDER_FAILED
                 : ref_code(answer, "already_paid") ? order->state != ORDER_PAID
                                                    : false;
    if (wrong) {
        sim_broken(r->sim, 8, "cancelling order %s (request %llu) was answered %d %s; it is %s",
                   ref_name(order->id).text, LLU(request->number), answer->status, answer->code,
                   order->in_truth ? order_state_text(order->state) : "not booked");
    }
}

void promise_08_step(struct referee *r)
{
    int64_t now_ms = ref_inside_low(r);
    for (uint32_t i = 0; i < r->open_count && !sim_is_broken(r->sim); i++) {
        const struct ref_order *order = r->open[i];
        if (order->in_truth && order->state == ORDER_LOCKED && overdue(r, order, now_ms)) {
            sim_broken(r->sim, 8,
                       "order %s was to be paid by %lld and is LOCKED at %lld; undisturbed since "
                       "%lld",
                       ref_name(order->id).text, (long long)order->pay_by_ms, (long long)now_ms,
                       (long long)r->calm_ms);
        }
    }
}
