/* Operators: compare gate, queue and ledger, and repair differences on request. */
#include <stdlib.h>

#include "api/api_private.h"
#include "api/form.h"
#include "api/handlers.h"
#include "base/check.h"
#include "base/err.h"

static void put_id(struct out *body, const char *name, bool has, uint64_t value)
{
    out_format(body, ",\"%s\":", name);
    if (has) {
        out_u64(body, value);
    } else {
        out_lit(body, "null");
    }
}

static void put_difference(struct out *body, const struct difference *difference)
{
    out_lit(body, "{\"kind\":\"");
    out_text(body, difference_text(difference->kind));
    out_char(body, '"');
    put_id(body, "segment", difference->segment != DIFFERENCE_NO_SEGMENT, difference->segment);
    put_id(body, "item_id", difference->item != 0, difference->item);
    put_id(body, "user_id", difference->user != 0, difference->user);
    out_lit(body, ",\"order_id\":");
    if (difference->id.hi != 0 || difference->id.lo != 0) {
        char id[ORDER_ID_TEXT];
        order_id_text(difference->id, id);
        out_char(body, '"');
        out_bytes(body, id, sizeof(id));
        out_char(body, '"');
    } else {
        out_lit(body, "null");
    }
    put_id(body, "found", true, difference->found);
    put_id(body, "expected", true, difference->expected);
    out_lit(body, ",\"since_ms\":");
    out_i64(body, difference->since_ms);
    out_text(body, difference->repaired ? ",\"repaired\":true}" : ",\"repaired\":false}");
}

/* What the search of the whole ledger found; null: nobody asked. */
static void put_integrity(struct out *body, const struct reconciler_call *call)
{
    out_lit(body, ",\"integrity\":");
    if (!call->integrity) {
        out_lit(body, "null");
        return;
    }
    out_lit(body, "{\"damaged\":");
    out_u64(body, call->check.damaged);
    out_lit(body, ",\"first\":");
    if (call->check.damaged > 0) {
        out_json_string(body, span_of(call->check.what));
    } else {
        out_lit(body, "null");
    }
    out_char(body, '}');
}

/* An answer of any length: it lists every difference. */
struct held_text {
    struct http_hold hold; /* must be first: freed as a hold */
    char text[];
};
#define TEXT_BYTES 2560 /* the words of the integrity check, every byte of them escaped */
#define DIFFERENCE_BYTES 384

static void held_text_free(struct http_hold *hold)
{
    free(hold);
}

static enum http_outcome reconciled(struct api_request *req, struct api_operation *operation)
{
    const struct reconciler_call *call = operation->reconcile;
    if (call->error == ERR_NOMEM || call->error == ERR_CLOSED) {
        return api_refuse_simply(req->worker, req->exchange, REFUSAL_OVERLOADED,
                                 call->error == ERR_CLOSED ? "the server is ending" : NULL);
    }
    if (call->error != 0) {
        return api_refuse_simply(req->worker, req->exchange, REFUSAL_DEGRADED,
                                 "the ledger cannot be read now");
    }
    size_t bytes = TEXT_BYTES + call->result.count * DIFFERENCE_BYTES;
    struct held_text *held = malloc(sizeof(*held) + bytes);
    if (held == NULL) {
        return api_refuse_simply(req->worker, req->exchange, REFUSAL_OVERLOADED, NULL);
    }
    held->hold = (struct http_hold){.count = 1, .free = held_text_free};
    struct out body = out_over(held->text, bytes);
    out_lit(&body, "{\"passes\":");
    out_u64(&body, call->result.passes);
    put_id(&body, "items", true, call->result.items);
    put_id(&body, "orders", true, call->result.orders);
    put_id(&body, "buyers", true, call->result.buyers);
    put_id(&body, "unsure", true, call->result.unsure);
    put_id(&body, "found", true, call->result.count);
    put_integrity(&body, call);
    out_lit(&body, ",\"differences\":[");
    for (size_t i = 0; i < call->result.count; i++) {
        if (i > 0) {
            out_char(&body, ',');
        }
        put_difference(&body, &call->differences[i]);
    }
    out_lit(&body, "]}");
    CHECK(!body.overflow);
    api_json_held(req->worker, req->exchange, out_span(&body), &held->hold);
    http_hold_release(&held->hold);
    return HTTP_ANSWERED;
}

enum http_outcome handle_reconcile(struct api_request *req)
{
    static const char *const names[] = {"repair", "integrity", NULL};
    struct api_worker *worker = req->worker;
    struct form form = {.wrong = false};
    bool repair = false;
    bool integrity = false;
    enum refusal media = body_is_json(req->request, true);
    if (media != REFUSAL_NONE) {
        return api_refuse_simply(worker, req->exchange, media, NULL);
    }
    json_t *root = req->request->body.len > 0 ? form_body(&form, req->request->body) : NULL;
    if (root != NULL) {
        form_only(&form, "", root, names);
        (void)form_flag(&form, "", root, "repair", &repair);
        (void)form_flag(&form, "", root, "integrity", &integrity);
        json_decref(root);
    }
    if (form.wrong) {
        return form_refuse(req, &form);
    }
    if (worker->shared->reconciler == NULL) {
        return api_refuse_simply(worker, req->exchange, REFUSAL_NOT_FOUND,
                                 "nobody reconciles here");
    }
    struct api_operation *operation = api_reconcile_operation(req, reconciled);
    if (operation == NULL) {
        return api_refuse_simply(worker, req->exchange, REFUSAL_OVERLOADED, NULL);
    }
    operation->reconcile->repair = repair;
    operation->reconcile->integrity = integrity;
    return api_submit(req, operation);
}
