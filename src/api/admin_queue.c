/*
 * Operators: list the messages that the queue has parked, and send them again. Another thread talks
 * to the broker (distributed/parked_messages.h). An engine without a queue answers 404.
 */
#include <stdlib.h>
#include <string.h>

#include "api/api_private.h"
#include "api/form.h"
#include "api/handlers.h"
#include "base/err.h"
#include "distributed/message.h"

#define SHOWN_DEFAULT 50

static const char *const queue_names[] = {
    [PARKED_MESSAGES_ORDERS] = "orders", [PARKED_MESSAGES_PAYMENTS] = "payments"};

static bool queue_named(struct span text, enum parked_messages_queue *ret_which)
{
    for (unsigned i = 0; i < PARKED_MESSAGES_QUEUES; i++) {
        if (span_is(text, queue_names[i])) {
            *ret_which = (enum parked_messages_queue)i;
            return true;
        }
    }
    return false;
}

/* ---- answers ---- */

static void put_number(struct out *body, const char *name, uint64_t value)
{
    out_format(body, ",\"%s\":", name);
    out_u64(body, value);
}

static void put_decision(struct out *body, const struct decision *decision, int64_t now_ms)
{
    char id[ORDER_ID_TEXT];
    const struct gate_command *command = &decision->command;
    order_id_text(command->id, id);
    out_lit(body, ",\"order_id\":\"");
    out_bytes(body, id, sizeof(id));
    out_char(body, '"');
    put_number(body, "user_id", command->user);
    put_number(body, "item_id", command->item);
    put_number(body, "qty", command->qty);
    put_number(body, "segment", decision->segment);
    put_number(body, "epoch", decision->epoch);
    put_number(body, "created_at_ms", (uint64_t)command->now_ms);
    int64_t age_ms = now_ms - command->now_ms;
    put_number(body, "age_ms", age_ms > 0 ? (uint64_t)age_ms : 0);
}

/* The decision that the message carries; if there is none, its text or its bytes. */
static void put_message(struct out *body, const struct queue_message *message, int64_t now_ms)
{
    struct span bytes = {message->body, message->len};
    struct decision decision;
    out_lit(body, "{\"attempts\":");
    out_u64(body, message->attempts);
    if (message->reason[0] != '\0') {
        out_lit(body, ",\"reason\":");
        out_json_string(body, span_of(message->reason));
    }
    if (message_read(bytes, &decision) == 0) {
        put_decision(body, &decision, now_ms);
    } else if (span_is_utf8(bytes) && memchr(bytes.at, '\0', bytes.len) == NULL) {
        out_lit(body, ",\"text\":");
        out_json_string(body, bytes);
    } else {
        char text[QUEUE_BODY_MAX * 4 / 3 + 4];
        base64url_encode(bytes.at, bytes.len, text);
        out_lit(body, ",\"text\":");
        out_json_string(body, (struct span){text, base64url_len(bytes.len)});
        out_lit(body, ",\"base64url\":true");
    }
    out_char(body, '}');
}

static void put_answer(struct out *body, const struct parked_messages_call *call, int64_t now_ms)
{
    out_format(body, "{\"queue\":\"%s\"", queue_names[call->which]);
    put_number(body, "ready", call->depths.ready);
    put_number(body, "retry", call->depths.retry);
    put_number(body, "parked", call->depths.parked);
    if (call->redrive) {
        put_number(body, "sent", call->sent);
    } else {
        out_lit(body, ",\"messages\":[");
        for (size_t i = 0; i < call->count; i++) {
            if (i > 0) {
                out_char(body, ',');
            }
            put_message(body, &call->messages[i], now_ms);
        }
        out_char(body, ']');
    }
    out_char(body, '}');
}

static enum http_outcome call_done(struct api_request *req, struct api_operation *operation)
{
    const struct parked_messages_call *call = operation->parked;
    if (call->error == ERR_NOMEM) {
        return api_refuse_simply(req->worker, req->exchange, REFUSAL_OVERLOADED, NULL);
    }
    if (call->error != 0 && call->sent > 0) {
        return api_refuse_simply(req->worker, req->exchange, REFUSAL_UNKNOWN_OUTCOME,
                                 "some messages were sent round before the broker stopped "
                                 "answering; look again, repeating is safe");
    }
    if (call->error != 0) {
        return api_refuse_simply(req->worker, req->exchange, REFUSAL_DEGRADED,
                                 "the message broker cannot be asked now");
    }
    struct out body = api_scratch(req->worker);
    put_answer(&body, call, req->now_ms);
    if (body.overflow) {
        return api_refuse_field(req->worker, req->exchange, "limit",
                                "ask for fewer messages at once");
    }
    return api_json(req->worker, req->exchange, 200, "", NULL, out_span(&body));
}

/* ---- requests ---- */

static enum http_outcome submit_call(struct api_request *req, enum parked_messages_queue which,
                                     bool redrive, uint64_t limit)
{
    struct parked_messages *parked_messages = req->worker->shared->parked_messages;
    if (!parked_messages_has(parked_messages, which)) {
        return api_refuse_simply(req->worker, req->exchange, REFUSAL_NOT_FOUND,
                                 parked_messages == NULL
                                     ? "this server has no queue: it books from its own journal"
                                 : which == PARKED_MESSAGES_PAYMENTS
                                     ? "no payments come from a queue: amqp.payments is empty"
                                     : "no queue is configured: amqp.url is empty");
    }
    struct api_operation *operation = api_parked_operation(req, call_done);
    if (operation == NULL) {
        return api_refuse_simply(req->worker, req->exchange, REFUSAL_OVERLOADED, NULL);
    }
    operation->parked->which = which;
    operation->parked->redrive = redrive;
    operation->parked->limit = limit;
    return api_submit(req, operation);
}

enum http_outcome handle_queue(struct api_request *req)
{
    struct span named = query_value(req->request->query, "queue");
    enum parked_messages_queue which = PARKED_MESSAGES_ORDERS;
    uint64_t limit = 0;
    if (named.at != NULL && !queue_named(named, &which)) {
        return api_refuse_field(req->worker, req->exchange, "queue",
                                "queue must be orders or payments");
    }
    if (query_number(req->request->query, "limit", PARKED_MESSAGES_SHOWN_MAX, SHOWN_DEFAULT,
                     &limit) != 0) {
        return api_refuse_field(req->worker, req->exchange, "limit",
                                "limit must be a whole number from 0 to 200");
    }
    return submit_call(req, which, false, limit);
}

enum http_outcome handle_redrive(struct api_request *req)
{
    static const char *const names[] = {"queue", "limit", NULL};
    struct form form = {.wrong = false};
    char named[16] = "orders";
    int64_t limit = 0;
    enum parked_messages_queue which = PARKED_MESSAGES_ORDERS;
    enum refusal media = body_is_json(req->request, true);
    if (media != REFUSAL_NONE) {
        return api_refuse_simply(req->worker, req->exchange, media, NULL);
    }
    json_t *root = req->request->body.len > 0 ? form_body(&form, req->request->body) : NULL;
    if (root != NULL) {
        form_only(&form, "", root, names);
        (void)form_text(&form, "", root, "queue", false, 1, sizeof(named) - 1, named);
        (void)form_number(&form, "", root, "limit", false, 1, PARKED_MESSAGES_SENT_MAX, &limit);
        json_decref(root);
    }
    if (!form.wrong && !queue_named(span_of(named), &which)) {
        form_error(&form, "", "queue", "must be orders or payments");
    }
    return form.wrong ? form_refuse(req, &form) : submit_call(req, which, true, (uint64_t)limit);
}
