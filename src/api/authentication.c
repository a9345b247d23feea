/*
 * Authentication: whether a request carries what its route needs. Buyers send a JWT, operators the
 * admin token (token.h). A payment is signed over its body, so its handler checks the signature.
 */
#include "api/api_private.h"

struct net_address api_client_address(const struct api_request *req)
{
    struct api_worker *worker = req->worker;
    return client_address(&worker->settings->trusted_proxies,
                          http_peer(worker->server, req->exchange), req->request->head);
}

static enum refusal check_token(struct api_request *req, bool *ret_cached)
{
    struct api_worker *worker = req->worker;
    const struct api_settings *settings = worker->settings;
    struct span authorization = req->request->authorization;
    enum refusal refusal = REFUSAL_NONE;
    *ret_cached = token_cached(worker->tokens, authorization, req->now_ms, &req->token);
    if (!*ret_cached) {
        refusal = token_check(worker->tokens, &settings->token_keys, authorization,
                              api_client_address(req), req->now_ms, settings->token_leeway_ms,
                              &req->token);
    }
    if (refusal == REFUSAL_RATE_LIMITED) {
        metrics_add(worker->metrics, METRIC_TOKENS_UNCHECKED_TOTAL, 1);
    }
    req->user = refusal == REFUSAL_NONE ? req->token.user : 0;
    return refusal;
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
