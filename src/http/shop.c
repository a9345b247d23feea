/*
 * What the shop tells us: payments, signed as Standard Webhooks describes; and the demonstration's
 * login and pay button, which exist only there.
 *
 * Who wins between pay, expire and cancel is decided in the ledger, in one transaction with the
 * idempotency record of the payment.
 */
#include <string.h>

#include "base/check.h"
#include "base/err.h"
#include "base/flat_json.h"
#include "http/front.h"
#include "http/handlers.h"

static void payment_done(struct front *front, struct front_call *call)
{
    const struct ledger_op *op = &call->write.op;
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

/* Hands the payment to the office, unless the order is known to be still on its way there. */
static enum http_outcome pay(struct asking *asking, struct order_id id, struct span payment_id,
                             int64_t amount_cents)
{
    struct front *front = asking->front;
    struct gate_ask ask = {.question = ASK_ORDER, .loop = front_loop(front), .id = id};
    CHECK(gate_submit(engine_port(front_shared(front)->engine), &ask) == GATE_ANSWERED);
    if (ask.refusal == REFUSAL_NONE && ask.order.state == ORDER_QUEUED) {
        return front_refuse_simply(front, asking->exchange, REFUSAL_QUEUED,
                                   "the order is still being booked; send this again in a moment");
    }
    struct front_call *call = front_call_new(asking, payment_done, BUDGET_SHOP);
    if (call == NULL) {
        return front_refuse_simply(front, asking->exchange, REFUSAL_OVERLOADED, NULL);
    }
    struct ledger_op *op = &call->write.op;
    op->kind = LEDGER_PAY;
    op->id = id;
    op->amount_cents = amount_cents;
    memcpy(op->key, payment_id.at, payment_id.len);
    /* What makes two bodies the same payment: order and amount, however they are written. */
    uint8_t said[24];
    store_le64(said, id.hi);
    store_le64(said + 8, id.lo);
    store_le64(said + 16, (uint64_t)amount_cents);
    crypt_hash(said, sizeof(said), op->fingerprint, sizeof(op->fingerprint));
    return front_write(front, call);
}

static bool printable(struct span text)
{
    for (size_t i = 0; i < text.len; i++) {
        if (text.at[i] < 0x21 || text.at[i] > 0x7e) {
            return false;
        }
    }
    return true;
}

static enum http_outcome read_payment(struct asking *asking)
{
    enum { PAYMENT, ORDER, AMOUNT };
    struct flat_field fields[] = {[PAYMENT] = {.key = "payment_id"},
                                  [ORDER] = {.key = "order_id"},
                                  [AMOUNT] = {.key = "amount_cents"}};
    struct front *front = asking->front;
    struct order_id id;
    enum refusal media = body_is_json(asking->request, false);
    if (media != REFUSAL_NONE) {
        return front_refuse_simply(front, asking->exchange, media, NULL);
    }
    if (flat_json_read(asking->request->body, fields, 3, false, NULL) != 0) {
        return front_refuse_field(front, asking->exchange, "body",
                                  "the body must be one JSON object with payment_id, order_id and "
                                  "amount_cents");
    }
    const struct flat_value *payment = &fields[PAYMENT].value;
    if (payment->kind != FLAT_STRING || payment->escaped || payment->text.len == 0 ||
        payment->text.len > PAYMENT_ID_MAX_BYTES || !printable(payment->text)) {
        return front_refuse_field(front, asking->exchange, "payment_id",
                                  "payment_id must be 1 to 64 printable ASCII characters");
    }
    const struct flat_value *amount = &fields[AMOUNT].value;
    if (amount->kind != FLAT_INTEGER || amount->number < 0) {
        return front_refuse_field(front, asking->exchange, "amount_cents",
                                  "amount_cents must be a whole number, 0 or more");
    }
    const struct flat_value *order = &fields[ORDER].value;
    if (order->kind != FLAT_STRING) {
        return front_refuse_field(front, asking->exchange, "order_id", "order_id must be a string");
    }
    if (order_id_parse(order->text, &id) != 0) {
        return front_refuse_simply(front, asking->exchange, REFUSAL_NOT_FOUND, "no such order");
    }
    return pay(asking, id, payment->text, amount->number);
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
enum http_outcome handle_demo_pay(struct asking *asking)
{
    struct front *front = asking->front;
    struct gate_ask ask = {.question = ASK_ORDER, .loop = front_loop(front)};
    if (order_id_parse(asking->part[0], &ask.id) == 0) {
        CHECK(gate_submit(engine_port(front_shared(front)->engine), &ask) == GATE_ANSWERED);
    } else {
        ask.refusal = REFUSAL_NOT_FOUND;
    }
    if (ask.refusal != REFUSAL_NONE || ask.order.user != asking->user) {
        return front_refuse_simply(front, asking->exchange, REFUSAL_NOT_FOUND, "no such order");
    }
    const struct sale_row *sale = NULL;
    struct catalog *catalog = front_shared(front)->catalog;
    catalog_lock(catalog);
    const struct item_row *item = catalog_item(catalog, ask.order.item, &sale);
    int64_t amount = item != NULL ? (int64_t)item->price_cents * ask.order.qty : 0;
    catalog_unlock(catalog);
    char name[5 + ORDER_ID_TEXT];
    memcpy(name, "demo-", 5);
    order_id_text(ask.id, name + 5);
    return pay(asking, ask.id, (struct span){name, sizeof(name)}, amount);
}

enum http_outcome handle_demo_login(struct asking *asking)
{
    struct front *front = asking->front;
    uint64_t user = 0;
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
