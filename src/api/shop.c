/*
 * Payments that the shop reports, signed as Standard Webhooks describes; and the demonstration's
 * login and pay button, which exist only there.
 *
 * The ledger decides which of pay, expire and cancel wins, in one transaction with the idempotency
 * record of the payment.
 */
#include <stdio.h>
#include <string.h>

#include "api/api.h"
#include "api/handlers.h"
#include "api/operation.h"
#include "ledger/payment.h"

static enum http_outcome payment_done(struct api_request *req, struct api_operation *operation)
{
    struct api_worker *worker = req->worker;
    const struct ledger_op *op = &operation->write.op;
    if (op->refusal == REFUSAL_NOT_FOUND && operation->context.order_lookup.gate_unreachable) {
        return api_refuse_unreachable(worker, req->exchange, REFUSAL_DEGRADED);
    }
    if (op->refusal != REFUSAL_NONE) {
        return api_refuse_simply(worker, req->exchange, op->refusal,
                                 op->refusal == REFUSAL_EXPIRED
                                     ? "the order ended before this payment; refund it"
                                     : NULL);
    }
    struct out body = api_scratch(worker);
    json_order_row(&body, api_shared(worker)->catalog, &op->order, ROW_AS_VIEW);
    return api_json(worker, req->exchange, 200, "", NULL, out_span(&body));
}

/* Submits the prepared payment to the ledger writer, unless the gate says that the order is not
 * booked yet. A gate that cannot be reached does not keep a payment out: the ledger decides. */
static enum http_outcome submit_payment(struct api_request *req, struct api_operation *operation)
{
    struct api_worker *worker = req->worker;
    if (operation->gate.refusal == REFUSAL_NONE && operation->gate.order.state == ORDER_QUEUED) {
        return api_refuse_simply(worker, req->exchange, REFUSAL_QUEUED,
                                 "the order is still being booked; send this again in a moment");
    }
    struct api_operation *payment = operation->prepared;
    operation->prepared = NULL;
    payment->context.order_lookup.gate_unreachable = api_gate_unreachable(operation);
    return api_submit(req, payment);
}

/* A request to the gate for the order, with the payment prepared; NULL: refused. */
static struct api_operation *payment_operation(struct api_request *req,
                                               const struct ledger_op *payment, api_done *done)
{
    struct api_operation *write = api_write_operation(req, BUDGET_SHOP, payment_done);
    struct api_operation *operation =
        write != NULL ? api_gate_operation(req, GATE_REQUEST_ORDER, done) : NULL;
    if (operation == NULL) {
        if (write != NULL) {
            api_operation_free(req->worker, write);
        }
        (void)api_refuse_simply(req->worker, req->exchange, REFUSAL_OVERLOADED, NULL);
        return NULL;
    }
    operation->gate.id = payment->id;
    operation->prepared = write;
    write->write.op = *payment;
    return operation;
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
        struct api_operation *write = api_write_operation(req, BUDGET_SHOP, payment_done);
        if (write == NULL) {
            return api_refuse_simply(worker, req->exchange, REFUSAL_OVERLOADED, NULL);
        }
        write->write.op = op;
        return api_submit(req, write);
    }
    struct api_operation *operation = payment_operation(req, &op, submit_payment);
    return operation != NULL ? api_submit(req, operation) : HTTP_ANSWERED;
}

static enum http_outcome refuse_signature(struct api_request *req)
{
    char detail[128];
    (void)snprintf(detail, sizeof(detail),
                   "sign id.timestamp.body with the webhook secret, and send it within %lld s",
                   (long long)api_settings(req->worker)->webhook_window_s);
    return api_refuse_simply(req->worker, req->exchange, REFUSAL_BAD_SIGNATURE, detail);
}

bool payment_plausible(struct api_request *req)
{
    const struct http_request *request = req->request;
    if (webhook_plausible(request->webhook_id, request->webhook_timestamp,
                          request->webhook_signature, req->now_ms,
                          api_settings(req->worker)->webhook_window_s)) {
        return true;
    }
    (void)refuse_signature(req);
    return false;
}

enum http_outcome handle_payment(struct api_request *req)
{
    const struct http_request *request = req->request;
    const struct api_settings *settings = api_settings(req->worker);
    struct span key = {(const char *)settings->webhook_key, settings->webhook_key_len};
    if (!webhook_verify(key, request->webhook_id, request->webhook_timestamp,
                        request->webhook_signature, request->body, req->now_ms,
                        settings->webhook_window_s)) {
        return refuse_signature(req);
    }
    http_use_class(api_server(req->worker), req->exchange, HTTP_CLASS_PAYMENTS);
    return read_payment(req);
}

/* The demonstration's payment system pays the exact amount. The payment's id is made from the order,
 * so an order is paid once. */
static enum http_outcome demo_looked_up(struct api_request *req, struct api_operation *operation)
{
    struct api_worker *worker = req->worker;
    const struct order_view *order = &operation->gate.order;
    if (api_gate_unreachable(operation)) {
        return api_refuse_unreachable(worker, req->exchange, operation->gate.refusal);
    }
    if (operation->gate.refusal != REFUSAL_NONE || order->user != req->user) {
        return api_refuse_simply(worker, req->exchange, REFUSAL_NOT_FOUND, "no such order");
    }
    const struct sale_row *sale = NULL;
    struct catalog *catalog = api_shared(worker)->catalog;
    catalog_lock(catalog);
    const struct item_row *item = catalog_item(catalog, order->item, &sale);
    payment_set_amount(&operation->prepared->write.op,
                       item != NULL ? (int64_t)item->price_cents * order->qty : 0);
    catalog_unlock(catalog);
    return submit_payment(req, operation);
}

enum http_outcome handle_demo_pay(struct api_request *req)
{
    struct ledger_op op = {.kind = LEDGER_PAY};
    if (order_id_parse(req->part[0], &op.id) != 0) {
        return api_refuse_simply(req->worker, req->exchange, REFUSAL_NOT_FOUND, "no such order");
    }
    memcpy(op.key, "demo-", 5);
    order_id_text(op.id, op.key + 5);
    struct api_operation *operation = payment_operation(req, &op, demo_looked_up);
    return operation != NULL ? api_submit(req, operation) : HTTP_ANSWERED;
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
