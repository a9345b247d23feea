/*
 * Promise 9: A refusal changed nothing, except `503 same-ticket`, which says the outcome is not
 * known yet; the same ticket tells it.
 *
 * Checked by cause: an order, a payment, a cancellation or a restock needs a request that was not
 * refused: it was accepted, or its outcome is unknown. If every request for it was refused, it must
 * not happen, whether the refusals arrived before or after.
 *
 * And by reason, for tickets and buys: what the refusal says was true at some moment between request
 * and answer: too few units, the limit reached by what the buyer may have held, the sale paused,
 * over or not begun. Only for answers of the server that is still running: what a dead one did in
 * its last step was not seen.
 */
#include "referee_private.h"

#define LLU(x) ((unsigned long long)(x))

void promise_09_decided(struct referee *r, const struct ref_order *order)
{
    promise_09_caused(r, "decided", order->id, order->buys_sent, order->buys_refused);
}

void promise_09_caused(struct referee *r, const char *what, struct order_id id, uint32_t sent,
                       uint32_t refused)
{
    if (sent <= refused) {
        sim_broken(r->sim, 9, "%s was %s, though all %u of %u requests for it were refused",
                   ref_name(id).text, what, refused, sent);
    }
}

/* ---- reasons ---- */

/* What is needed to judge an answer. */
struct case_of {
    struct referee *r;
    const struct sim_request *request;
    const struct ref_request *rr;
    const struct sim_answer *answer;
    const struct ref_item *item;
    const struct ref_buyer *buyer;
};

static bool was(const struct case_of *c, enum sale_state state)
{
    const struct ref_sale *sale = c->item->sale;
    for (uint32_t i = 0; sale != NULL && i < sale->eras_count; i++) {
        if (sale->eras[i].until >= c->rr->sent_at && sale->eras[i].state == state) {
            return true;
        }
    }
    return false;
}

static bool was_before_start(const struct case_of *c)
{
    const struct ref_sale *sale = c->item->sale;
    for (uint32_t i = 0; sale != NULL && i < sale->eras_count; i++) {
        const struct ref_era *era = &sale->eras[i];
        if (era->until >= c->rr->sent_at && era->state != SALE_CLOSED &&
            era->starts_at_ms > c->rr->inside_ms) {
            return true;
        }
    }
    return false;
}

static bool was_past_end(const struct case_of *c)
{
    const struct ref_sale *sale = c->item->sale;
    for (uint32_t i = 0; sale != NULL && i < sale->eras_count; i++) {
        const struct ref_era *era = &sale->eras[i];
        if (era->until >= c->rr->sent_at && ref_inside_high(c->r) >= era->ends_at_ms) {
            return true;
        }
    }
    return false;
}

static bool was_short(const struct case_of *c)
{
    uint64_t qty = c->request->call == CALL_BUY ? c->request->qty : 1;
    if (c->answer->has_available && c->answer->available >= qty) {
        return false;
    }
    return c->item->available.known &&
           ref_low_since(&c->item->available, c->rr->sent_at) < (int64_t)qty;
}

static bool was_barred(const struct case_of *c)
{
    if (c->item->sale == NULL || !c->item->sale->bar_unpaid) {
        return false;
    }
    for (const struct ref_order *order = c->buyer->orders; order != NULL;
         order = order->next_of_buyer) {
        bool late = order->state == ORDER_CANCELLED && order->reason == REFUSAL_BARRED;
        if (order->in_truth && (order->state == ORDER_EXPIRED || late)) {
            return true;
        }
    }
    return false;
}

/* An order of his made him wait, and the wait was not over when he asked. */
static bool was_cooling(const struct case_of *c)
{
    for (const struct ref_order *order = c->buyer->orders; order != NULL;
         order = order->next_of_buyer) {
        if (order->in_truth && order->cooling_until_ms > c->rr->inside_ms) {
            return true;
        }
    }
    return false;
}

/* The most an order can have held at the gate since that moment. */
static uint64_t may_hold(const struct ref_order *order, uint64_t since)
{
    bool ended = order->gate_ended_at <= since && order->state != ORDER_PAID;
    bool never = order->buys_refused == order->buys_sent && order->buys_refused_at <= since;
    if (ended || never) {
        return 0;
    }
    uint64_t most = order->asked_otherwise ? QTY_MAX : 0;
    for (uint32_t i = 0; i < order->asks_count; i++) {
        most = order->requests[i].qty > most ? order->requests[i].qty : most;
    }
    return most;
}

static bool was_at_limit(const struct case_of *c)
{
    uint64_t held = 0;
    if (c->buyer->failed_attempts >= BUYER_FAILED_ATTEMPTS_MAX) {
        return true;
    }
    if (c->request->call != CALL_BUY || c->item->limit == 0) {
        return false;
    }
    if (c->answer->has_held && c->answer->held + c->request->qty <= c->item->limit) {
        return false;
    }
    for (const struct ref_order *order = c->buyer->orders; order != NULL;
         order = order->next_of_buyer) {
        if (!order_id_equal(order->id, c->request->order)) {
            held += may_hold(order, c->rr->sent_at);
        }
    }
    return held + c->request->qty > c->item->limit;
}

static bool was_not_there(const struct case_of *c)
{
    return c->item->loaded_at == NEVER || c->item->loaded_at >= c->rr->sent_at ||
           c->item->sale->forgotten;
}

static bool was_asked_otherwise(const struct case_of *c)
{
    const struct ref_order *order = ref_find_order(c->r, c->request->order);
    return order->asks_count > 1 || order->asked_otherwise;
}

static bool plausible(const struct case_of *c)
{
    const struct sim_answer *answer = c->answer;
    if (ref_code(answer, "sold_out")) {
        return was_short(c);
    }
    if (ref_code(answer, "limit_reached")) {
        return was_at_limit(c);
    }
    if (ref_code(answer, "barred")) {
        return strcmp(answer->retry, "later") == 0 ? was_cooling(c) : was_barred(c);
    }
    if (ref_code(answer, "ended")) {
        return was(c, SALE_CLOSED) || was_past_end(c);
    }
    if (ref_code(answer, "not_open")) {
        return was(c, SALE_PAUSED) || was_not_there(c);
    }
    if (ref_code(answer, "too_early")) {
        return was_before_start(c);
    }
    if (ref_code(answer, "no_such_item")) {
        return was_not_there(c);
    }
    if (c->request->call == CALL_BUY && ref_code(answer, "bad_ticket")) {
        return ref_inside_high(c->r) >= c->request->ticket_expires_ms;
    }
    if (c->request->call == CALL_BUY && ref_code(answer, "different_request")) {
        return was_asked_otherwise(c);
    }
    return true;
}

/* A refusal was heard: what it refused must not have happened, unless another request did it. */
static void check_nothing_done(struct referee *r, const struct sim_request *request)
{
    const struct ref_order *order = ref_find_order(r, request->order);
    const struct ref_key *key;
    const struct ref_body *body;
    uint64_t hash;
    switch (request->call) {
    case CALL_BUY:
        if (order->in_gate || order->in_truth) {
            promise_09_decided(r, order);
        }
        break;
    case CALL_CANCEL:
        if (order != NULL && order->in_truth && order->state == ORDER_CANCELLED) {
            promise_09_caused(r, "cancelled", order->id, order->cancels_sent,
                              order->cancels_refused);
        }
        break;
    case CALL_PAY:
        key = ref_key(r, LEDGER_PAY, request->key, 0);
        hash = ref_body_hash(LEDGER_PAY, request->key, request->order.hi, request->order.lo,
                             (uint64_t)request->amount_cents);
        body = ref_body(r, hash);
        if (key->done && key->body == hash) {
            promise_09_caused(r, "paid", request->order, body->sent, body->refused);
        }
        break;
    case CALL_RESTOCK:
        key = ref_key(r, LEDGER_RESTOCK, request->key, request->item);
        hash = ref_body_hash(LEDGER_RESTOCK, request->key, request->item, request->amount, 0);
        body = ref_body(r, hash);
        if (key->done && key->body == hash) {
            promise_09_caused(r, "restocked", (struct order_id){request->item, request->amount},
                              body->sent, body->refused);
        }
        break;
    default:
        break;
    }
}

void promise_09_heard(struct referee *r, const struct sim_request *request,
                      const struct ref_request *rr, const struct sim_answer *answer)
{
    bool buy = request->call == CALL_BUY;
    if (answer->status < 400) {
        return;
    }
    check_nothing_done(r, request);
    if (!buy && request->call != CALL_TICKET) {
        return;
    }
    if (!r->up || rr->life != r->life || sim_is_broken(r->sim)) {
        return;
    }
    uint64_t item = buy ? order_id_item(request->order) : request->item;
    struct case_of c = {r,      request,           rr,
                        answer, ref_item(r, item), ref_buyer(r, request->user, item)};
    if (!plausible(&c)) {
        sim_broken(
            r->sim, 9,
            "request %llu (%s of item %llu by user %llu, qty %u) was refused with %s, which "
            "was not so: %llu available by its answer, %lld by the gate; the limit is %u, he "
            "holds %llu",
            LLU(request->number), sim_call_text(request->call), LLU(item), LLU(request->user),
            request->qty, answer->code, LLU(answer->available), (long long)c.item->available.now,
            c.item->limit, LLU(c.buyer->held));
    }
}
