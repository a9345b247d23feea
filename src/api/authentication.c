/*
 * Authentication: whether a request carries what its route needs. Buyers send a JWT, operators the
 * admin token (token.h). A payment is signed over its body, so its handler checks the signature.
 */
#include "api/api_private.h"

static enum refusal check_token(struct api_request *req, bool *ret_cached)
{
    struct api_worker *worker = req->worker;
    return token_check(worker->tokens, &worker->settings->token_keys, req->request->authorization,
                       http_peer(worker->server, req->exchange), req->now_ms,
                       worker->settings->token_leeway_ms, &req->user, ret_cached);
}

static bool is_admin(struct api_request *req)
{
    struct api_worker *worker = req->worker;
    if (token_is_admin(req->request->authorization, span_of(worker->settings->admin_token))) {
        http_use_class(worker->server, req->exchange, HTTP_CLASS_OPERATORS);
        return true;
    }
    bool cached = false;
    bool is_buyer = check_token(req, &cached) == REFUSAL_NONE;
    (void)api_refuse_simply(worker, req->exchange,
                            is_buyer ? REFUSAL_FORBIDDEN : REFUSAL_UNAUTHENTICATED,
                            "send Authorization: Bearer with the admin token "
                            "(sluice token --admin prints it)");
    return false;
}

static bool is_buyer(struct api_request *req)
{
    struct api_worker *worker = req->worker;
    bool cached = false;
    enum refusal refusal = check_token(req, &cached);
    if (refusal != REFUSAL_NONE) {
        (void)api_refuse_simply(worker, req->exchange, refusal,
                                "log in and send Authorization: Bearer with a valid token");
        return false;
    }
    metrics_add(worker->metrics,
                cached ? METRIC_TOKENS_REMEMBERED_TOTAL : METRIC_TOKENS_VERIFIED_TOTAL, 1);
    return true;
}

bool authenticate(struct api_request *req, enum api_need need)
{
    switch (need) {
    case NEED_ADMIN:
        return is_admin(req);
    case NEED_BUYER:
        return is_buyer(req);
    case NEED_NOTHING:
    case NEED_SIGNATURE:
        break;
    }
    return true;
}
