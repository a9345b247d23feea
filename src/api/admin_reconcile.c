/* Operators: gate, queue and ledger are compared, and repaired where they ask for it. */
#include <stdlib.h>

#include "api/api_private.h"
#include "api/form.h"
#include "api/handlers.h"
#include "base/check.h"
#include "base/err.h"

/* Calls of one loop under way; they share runs, so more would only wait together. */
#define RECONCILES_MAX 16

struct api_reconcile {
    struct reconciler_call call; /* first: freed by whoever has it last */
    struct http_exchange exchange;
};

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

/* An answer of any length: every difference is told. */
struct report {
    struct http_hold hold; /* first: a hold is a report */
    char text[];
};
#define REPORT_BYTES 512
#define DIFFERENCE_BYTES 384

static void report_free(struct http_hold *hold)
{
    free(hold);
}

static void answer(struct api_worker *worker, const struct api_reconcile *reconcile)
{
    const struct reconciler_call *call = &reconcile->call;
    if (call->error == ERR_NOMEM || call->error == ERR_CLOSED) {
        (void)api_refuse_simply(worker, reconcile->exchange, REFUSAL_OVERLOADED,
                                call->error == ERR_CLOSED ? "the server is ending" : NULL);
        return;
    }
    if (call->error != 0) {
        (void)api_refuse_simply(worker, reconcile->exchange, REFUSAL_DEGRADED,
                                "the ledger cannot be read now");
        return;
    }
    struct report *report =
        malloc(sizeof(*report) + REPORT_BYTES + call->result.count * DIFFERENCE_BYTES);
    if (report == NULL) {
        (void)api_refuse_simply(worker, reconcile->exchange, REFUSAL_OVERLOADED, NULL);
        return;
    }
    report->hold = (struct http_hold){.count = 1, .free = report_free};
    struct out body = out_over(report->text, REPORT_BYTES + call->result.count * DIFFERENCE_BYTES);
    out_lit(&body, "{\"passes\":");
    out_u64(&body, call->result.passes);
    put_id(&body, "items", true, call->result.items);
    put_id(&body, "orders", true, call->result.orders);
    put_id(&body, "buyers", true, call->result.buyers);
    put_id(&body, "unsure", true, call->result.unsure);
    put_id(&body, "found", true, call->result.count);
    out_lit(&body, ",\"differences\":[");
    for (size_t i = 0; i < call->result.count; i++) {
        if (i > 0) {
            out_char(&body, ',');
        }
        put_difference(&body, &call->differences[i]);
    }
    out_lit(&body, "]}");
    CHECK(!body.overflow);
    api_json_held(worker, reconcile->exchange, out_span(&body), &report->hold);
    http_hold_release(&report->hold);
}

bool reconciles_collect(struct api_worker *worker)
{
    struct reconciler *reconciler = worker->shared->reconciler;
    struct reconciler_call *calls = reconciler != NULL && worker->reconciles > 0
                                        ? reconciler_collect(reconciler, worker->loop)
                                        : NULL;
    bool any = calls != NULL;
    while (calls != NULL) {
        struct api_reconcile *reconcile = (struct api_reconcile *)calls;
        calls = (struct reconciler_call *)calls->post.next;
        if (http_alive(worker->server, reconcile->exchange)) {
            answer(worker, reconcile);
        }
        worker->reconciles--;
        reconciler_call_free(&reconcile->call);
    }
    return any;
}

enum http_outcome handle_reconcile(struct api_request *req)
{
    static const char *const names[] = {"repair", NULL};
    struct api_worker *worker = req->worker;
    struct form form = {.wrong = false};
    bool repair = false;
    enum refusal media = body_is_json(req->request, true);
    if (media != REFUSAL_NONE) {
        return api_refuse_simply(worker, req->exchange, media, NULL);
    }
    json_t *root = req->request->body.len > 0 ? form_body(&form, req->request->body) : NULL;
    if (root != NULL) {
        form_only(&form, "", root, names);
        (void)form_flag(&form, "", root, "repair", &repair);
        json_decref(root);
    }
    if (form.wrong) {
        return form_refuse(req, &form);
    }
    if (worker->shared->reconciler == NULL) {
        return api_refuse_simply(worker, req->exchange, REFUSAL_NOT_FOUND,
                                 "nobody reconciles here");
    }
    struct api_reconcile *reconcile =
        worker->reconciles < RECONCILES_MAX ? calloc(1, sizeof(*reconcile)) : NULL;
    if (reconcile == NULL) {
        return api_refuse_simply(worker, req->exchange, REFUSAL_OVERLOADED, NULL);
    }
    worker->reconciles++;
    reconcile->call.loop = worker->loop;
    reconcile->call.repair = repair;
    reconcile->exchange = req->exchange;
    reconciler_post(worker->shared->reconciler, &reconcile->call);
    return HTTP_PENDING;
}
