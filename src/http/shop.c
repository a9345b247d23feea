/*
 * What the shop tells us: payments, signed as Standard Webhooks describes; and the demonstration's
 * login and pay button, which exist only there.
 *
 * Who wins between pay, expire and cancel is decided in the ledger, in one transaction with the
 * idempotency record of the payment.
 */
#include <string.h>

#include "flow/payment.h"
#include "http/front.h"
#include "http/handlers.h"

static void payment_done(struct front *front, struct front_call *call)
{
    const struct ledger_op *op = &call->write.op;
    if (op->refusal == REFUSAL_NOT_FOUND && call->blind) {
        (void)front_refuse_look(front, call->exchange, REFUSAL_DEGRADED);
        return;
    }
    if (op->refusal != REFUSAL_NONE) {
        (void)front_refuse_simply(front, call->exchange, op->refusal,
                                  op->refusal == REFUSAL_EXPIRED
                                      ? "the order ended before this payment; refund it"
                                      : NULL);
        return;
    }
    struct out body = front_scratch(front);
    json_order_row(&body, front_shared(front)->catalog, &op->order, ROW_AS_TOLD);
    (void)front_json(front, call->exchange, 200, "", NULL, out_span(&body));
}

/* Hands the payment to the office, unless the order is known to be still on its way there. A gate
 * that cannot be asked keeps no payment out: the ledger decides. */
static enum http_outcome hand_over(struct asking *asking, struct front_ask *ask)
{
    struct front *front = asking->front;
    if (ask->gate.refusal == REFUSAL_NONE && ask->gate.order.state == ORDER_QUEUED) {
        return front_refuse_simply(front, asking->exchange, REFUSAL_QUEUED,
                                   "the order is still being booked; send this again in a moment");
    }
    struct front_call *call = ask->call;
    ask->call = NULL;
    call->blind = front_ask_blind(ask);
    return front_write(front, call);
}

/* Asks for the order, with the payment at hand; NULL: refused. */
static struct front_ask *payment_new(struct asking *asking, const struct ledger_op *payment,
                                     enum http_outcome (*done)(struct asking *asking,
                                                               struct front_ask *ask))
{
    struct front_call *call = front_call_new(asking, payment_done, BUDGET_SHOP);
    struct front_ask *ask = call != NULL ? front_ask_new(asking, ASK_ORDER, done) : NULL;
    if (ask == NULL) {
        if (call != NULL) {
            front_call_free(asking->front, call);
        }
        (void)front_refuse_simply(asking->front, asking->exchange, REFUSAL_OVERLOADED, NULL);
        return NULL;
    }
    ask->gate.id = payment->id;
    ask->call = call;
    call->write.op = *payment;
    return ask;
}

static enum http_outcome read_payment(struct asking *asking)
{
    struct front *front = asking->front;
    struct ledger_op op = {0};
    struct payment_fault fault;
    enum refusal media = body_is_json(asking->request, false);
    if (media != REFUSAL_NONE) {
        return front_refuse_simply(front, asking->exchange, media, NULL);
    }
    if (payment_read(asking->request->body, &op, &fault) != 0) {
        return front_refuse_field(front, asking->exchange, fault.field, fault.detail);
    }
    if (!payment_names_order(&op)) { /* the gate need not be asked */
        struct front_call *call = front_call_new(asking, payment_done, BUDGET_SHOP);
        if (call == NULL) {
            return front_refuse_simply(front, asking->exchange, REFUSAL_OVERLOADED, NULL);
        }
        call->write.op = op;
        return front_write(front, call);
    }
    struct front_ask *ask = payment_new(asking, &op, hand_over);
    return ask != NULL ? front_ask(asking, ask) : HTTP_ANSWERED;
}

enum http_outcome handle_payment(struct asking *asking)
{
    const struct http_request *request = asking->request;
    const struct front_settings *settings = front_settings(asking->front);
    struct span key = {(const char *)settings->webhook_key, settings->webhook_key_len};
    if (!webhook_verify(key, request->webhook_id, request->webhook_timestamp,
                        request->webhook_signature, request->body, asking->now_ms,
                        settings->webhook_window_s)) {
        return front_refuse_simply(asking->front, asking->exchange, REFUSAL_BAD_SIGNATURE,
                                   "sign id.timestamp.body with the webhook secret, and send it "
                                   "within five minutes");
    }
    return read_payment(asking);
}

/* The demo's own payment system: it pays the exact amount, once, under a name made of the order. */
static enum http_outcome demo_looked(struct asking *asking, struct front_ask *ask)
{
    struct front *front = asking->front;
    const struct order_view *order = &ask->gate.order;
    if (front_ask_blind(ask)) {
        return front_refuse_look(front, asking->exchange, ask->gate.refusal);
    }
    if (ask->gate.refusal != REFUSAL_NONE || order->user != asking->user) {
        return front_refuse_simply(front, asking->exchange, REFUSAL_NOT_FOUND, "no such order");
    }
    const struct sale_row *sale = NULL;
    struct catalog *catalog = front_shared(front)->catalog;
    catalog_lock(catalog);
    const struct item_row *item = catalog_item(catalog, order->item, &sale);
    payment_set_amount(&ask->call->write.op,
                       item != NULL ? (int64_t)item->price_cents * order->qty : 0);
    catalog_unlock(catalog);
    return hand_over(asking, ask);
}

enum http_outcome handle_demo_pay(struct asking *asking)
{
    struct ledger_op op = {.kind = LEDGER_PAY};
    if (order_id_parse(asking->part[0], &op.id) != 0) {
        return front_refuse_simply(asking->front, asking->exchange, REFUSAL_NOT_FOUND,
                                   "no such order");
    }
    memcpy(op.key, "demo-", 5);
    order_id_text(op.id, op.key + 5);
    struct front_ask *ask = payment_new(asking, &op, demo_looked);
    return ask != NULL ? front_ask(asking, ask) : HTTP_ANSWERED;
}

enum http_outcome handle_demo_login(struct asking *asking)
{
    struct front *front = asking->front;
    uint64_t user = 0;
    if (query_value(asking->request->query, "user").at == NULL) {
        return handle_demo_login_page(asking);
    }
    if (query_number(asking->request->query, "user", ID_MAX, 0, &user) != 0 || user == 0) {
        return front_refuse_field(front, asking->exchange, "user",
                                  "user must be a whole number from 1 to 2^53-1");
    }
    char token[TOKEN_MAX_BYTES];
    const struct token_key *key = &front_settings(front)->token_keys.keys[0];
    size_t len = token_sign(key, user, asking->now_ms / 1000 + 86400, token);
    struct out body = front_scratch(front);
    out_lit(&body, "{\"token\":\"");
    out_bytes(&body, token, len);
    out_lit(&body, "\",\"user_id\":");
    out_u64(&body, user);
    out_char(&body, '}');
    return front_json(front, asking->exchange, 200, "", NULL, out_span(&body));
}
