/*
 * What the shop tells us: payments, signed as Standard Webhooks describes; and the demonstration's
 * login and pay button, which exist only there.
 *
 * Who wins between pay, expire and cancel is decided in the ledger, in one transaction with the
 * idempotency record of the payment.
 */
#include <string.h>

#include "api/api.h"
#include "api/handlers.h"
#include "ledger/payment.h"

static void payment_done(struct api_worker *worker, struct api_write *call)
{
    const struct ledger_op *op = &call->write.op;
    if (op->refusal == REFUSAL_NOT_FOUND && call->blind) {
        (void)api_refuse_look(worker, call->exchange, REFUSAL_DEGRADED);
        return;
    }
    if (op->refusal != REFUSAL_NONE) {
        (void)api_refuse_simply(worker, call->exchange, op->refusal,
                                op->refusal == REFUSAL_EXPIRED
                                    ? "the order ended before this payment; refund it"
                                    : NULL);
        return;
    }
    struct out body = api_scratch(worker);
    json_order_row(&body, api_shared(worker)->catalog, &op->order, ROW_AS_TOLD);
    (void)api_json(worker, call->exchange, 200, "", NULL, out_span(&body));
}

/* Hands the payment to the ledger writer, unless the order is known to be still on its way there. A gate
 * that cannot be asked keeps no payment out: the ledger decides. */
static enum http_outcome hand_over(struct api_request *req, struct api_gate_request *request)
{
    struct api_worker *worker = req->worker;
    if (request->gate.refusal == REFUSAL_NONE && request->gate.order.state == ORDER_QUEUED) {
        return api_refuse_simply(worker, req->exchange, REFUSAL_QUEUED,
                                 "the order is still being booked; send this again in a moment");
    }
    struct api_write *call = request->call;
    request->call = NULL;
    call->blind = api_gate_request_blind(request);
    return api_write_post(worker, call);
}

/* Asks for the order, with the payment at hand; NULL: refused. */
static struct api_gate_request *payment_new(
    struct api_request *req, const struct ledger_op *payment,
    enum http_outcome (*done)(struct api_request *req, struct api_gate_request *request))
{
    struct api_write *call = api_write_new(req, payment_done, BUDGET_SHOP);
    struct api_gate_request *request =
        call != NULL ? api_gate_request_new(req, GATE_REQUEST_ORDER, done) : NULL;
    if (request == NULL) {
        if (call != NULL) {
            api_write_free(req->worker, call);
        }
        (void)api_refuse_simply(req->worker, req->exchange, REFUSAL_OVERLOADED, NULL);
        return NULL;
    }
    request->gate.id = payment->id;
    request->call = call;
    call->write.op = *payment;
    return request;
}

static enum http_outcome read_payment(struct api_request *req)
{
    struct api_worker *worker = req->worker;
    struct ledger_op op = {0};
    struct payment_fault fault;
    enum refusal media = body_is_json(req->request, false);
    if (media != REFUSAL_NONE) {
        return api_refuse_simply(worker, req->exchange, media, NULL);
    }
    if (payment_read(req->request->body, &op, &fault) != 0) {
        return api_refuse_field(worker, req->exchange, fault.field, fault.detail);
    }
    if (!payment_names_order(&op)) { /* the gate need not be asked */
        struct api_write *call = api_write_new(req, payment_done, BUDGET_SHOP);
        if (call == NULL) {
            return api_refuse_simply(worker, req->exchange, REFUSAL_OVERLOADED, NULL);
        }
        call->write.op = op;
        return api_write_post(worker, call);
    }
    struct api_gate_request *request = payment_new(req, &op, hand_over);
    return request != NULL ? api_gate_request(req, request) : HTTP_ANSWERED;
}

enum http_outcome handle_payment(struct api_request *req)
{
    const struct http_request *request = req->request;
    const struct api_settings *settings = api_settings(req->worker);
    struct span key = {(const char *)settings->webhook_key, settings->webhook_key_len};
    if (!webhook_verify(key, request->webhook_id, request->webhook_timestamp,
                        request->webhook_signature, request->body, req->now_ms,
                        settings->webhook_window_s)) {
        return api_refuse_simply(req->worker, req->exchange, REFUSAL_BAD_SIGNATURE,
                                 "sign id.timestamp.body with the webhook secret, and send it "
                                 "within five minutes");
    }
    return read_payment(req);
}

/* The demo's own payment system: it pays the exact amount, once, under a name made of the order. */
static enum http_outcome demo_looked(struct api_request *req, struct api_gate_request *request)
{
    struct api_worker *worker = req->worker;
    const struct order_view *order = &request->gate.order;
    if (api_gate_request_blind(request)) {
        return api_refuse_look(worker, req->exchange, request->gate.refusal);
    }
    if (request->gate.refusal != REFUSAL_NONE || order->user != req->user) {
        return api_refuse_simply(worker, req->exchange, REFUSAL_NOT_FOUND, "no such order");
    }
    const struct sale_row *sale = NULL;
    struct catalog *catalog = api_shared(worker)->catalog;
    catalog_lock(catalog);
    const struct item_row *item = catalog_item(catalog, order->item, &sale);
    payment_set_amount(&request->call->write.op,
                       item != NULL ? (int64_t)item->price_cents * order->qty : 0);
    catalog_unlock(catalog);
    return hand_over(req, request);
}

enum http_outcome handle_demo_pay(struct api_request *req)
{
    struct ledger_op op = {.kind = LEDGER_PAY};
    if (order_id_parse(req->part[0], &op.id) != 0) {
        return api_refuse_simply(req->worker, req->exchange, REFUSAL_NOT_FOUND, "no such order");
    }
    memcpy(op.key, "demo-", 5);
    order_id_text(op.id, op.key + 5);
    struct api_gate_request *request = payment_new(req, &op, demo_looked);
    return request != NULL ? api_gate_request(req, request) : HTTP_ANSWERED;
}

enum http_outcome handle_demo_login(struct api_request *req)
{
    struct api_worker *worker = req->worker;
    uint64_t user = 0;
    if (query_value(req->request->query, "user").at == NULL) {
        return handle_demo_login_page(req);
    }
    if (query_number(req->request->query, "user", ID_MAX, 0, &user) != 0 || user == 0) {
        return api_refuse_field(worker, req->exchange, "user",
                                "user must be a whole number from 1 to 2^53-1");
    }
    char token[TOKEN_MAX_BYTES];
    const struct token_key *key = &api_settings(worker)->token_keys.keys[0];
    size_t len = token_sign(key, user, req->now_ms / 1000 + 86400, token);
    struct out body = api_scratch(worker);
    out_lit(&body, "{\"token\":\"");
    out_bytes(&body, token, len);
    out_lit(&body, "\",\"user_id\":");
    out_u64(&body, user);
    out_char(&body, '}');
    return api_json(worker, req->exchange, 200, "", NULL, out_span(&body));
}
