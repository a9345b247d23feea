/*
 * The router: it finds the route of a request in routes.c, checks who asks (authentication.c) and
 * calls the handler. It answers OPTIONS, unknown paths and wrong methods itself, and serves static
 * files for paths that are no route.
 *
 * Before a body takes a large buffer, the router checks what the head says. Only operators and
 * payments have large bodies: operators must show their token, and payments headers that could be
 * those of a signature.
 *
 * CORS: an Origin that the settings allow is stored for the connection; api_cors() puts it into the
 * answer's headers.
 */
#include <string.h>

#include "api/api_private.h"
#include "api/handlers.h"
#include "api/request_limits.h"
#include "pages/static.h"

/* Matches path against a pattern. The values of the parts in braces go to ret_parts. */
static bool match(const char *pattern, struct span path, struct span *ret_parts)
{
    size_t at = 0;
    int part = 0;
    while (*pattern != '\0') {
        if (*pattern != '{') {
            if (at == path.len || path.at[at] != *pattern) {
                return false;
            }
            at++;
            pattern++;
            continue;
        }
        size_t from = at;
        const char *slash = at < path.len ? memchr(path.at + at, '/', path.len - at) : NULL;
        at = slash != NULL ? (size_t)(slash - path.at) : path.len;
        if (at == from || part == 2) {
            return false;
        }
        ret_parts[part++] = (struct span){path.at + from, at - from};
        pattern = strchr(pattern, '}') + 1;
    }
    return at == path.len;
}

static bool route_exists(const struct api_worker *worker, const struct route *route)
{
    bool health_loop = worker->loop == worker->shared->loops - 1;
    if (worker->shared->health_only && route->scope != ROUTE_HEALTH) {
        return false;
    }
    switch (route->scope) {
    case ROUTE_DEMO:
        return worker->shared->demo;
    case ROUTE_HEALTH:
        return !worker->shared->private_health || health_loop;
    case ROUTE_PUBLIC:
        break;
    }
    return !(worker->shared->private_health && health_loop);
}

static const char *method_text(enum http_method method)
{
    static const char *const texts[] = {"GET", "HEAD", "POST", "PUT", "DELETE", "OPTIONS", ""};
    return texts[method];
}

static enum http_outcome refuse_method(struct api_request *req)
{
    char text[96];
    struct span parts[2];
    struct out allow = out_over(text, sizeof(text) - 1);
    out_lit(&allow, "Allow: OPTIONS");
    for (size_t i = 0; i < routes_count; i++) {
        if (route_exists(req->worker, &routes[i]) &&
            match(routes[i].pattern, req->request->path, parts)) {
            out_lit(&allow, ", ");
            out_text(&allow, method_text(routes[i].method));
            if (routes[i].method == HTTP_GET) {
                out_lit(&allow, ", HEAD");
            }
        }
    }
    out_lit(&allow, "\r\n");
    text[allow.len] = '\0';
    return api_refuse(req->worker, req->exchange,
                      &(struct refused){.refusal = REFUSAL_METHOD_NOT_ALLOWED,
                                        .headers = text,
                                        .detail = "use one of the methods in the Allow header"});
}

static bool origin_allowed(const struct api_worker *worker, struct span origin)
{
    const char *list = worker->settings->cors_origins;
    while (*list != '\0') {
        size_t skip = strspn(list, " ,");
        list += skip;
        size_t len = strcspn(list, " ,");
        if (len > 0 &&
            (span_equal(origin, (struct span){list, len}) || (len == 1 && *list == '*'))) {
            return true;
        }
        list += len;
    }
    return false;
}

/* Stores the request's origin for the answer's headers, if the settings allow it. */
static void note_origin(struct api_worker *worker, struct http_exchange exchange,
                        struct span origin)
{
    struct connection_state *state = &worker->connections[exchange.connection];
    if (origin.at != NULL) {
        state = api_connection(worker, exchange);
        bool allowed = origin.len < sizeof(state->origin) && origin_allowed(worker, origin);
        state->origin_len = (uint8_t)(allowed ? origin.len : 0);
        memcpy(state->origin, origin.at, state->origin_len);
    } else if (state->origin_len != 0) { /* the memory is written only if it has to be */
        state->origin_len = 0;
    }
}

static enum http_outcome answer_options(struct api_request *req)
{
    char text[512];
    struct span origin = req->request->origin;
    struct out headers = out_over(text, sizeof(text) - 1);
    out_lit(&headers, "Allow: GET, HEAD, POST, PUT, DELETE, OPTIONS\r\nVary: Origin\r\n");
    if (origin.at != NULL && origin_allowed(req->worker, origin)) {
        out_lit(&headers, "Access-Control-Allow-Origin: ");
        out_put(&headers, origin);
        out_lit(&headers,
                "\r\nAccess-Control-Allow-Methods: GET, POST, PUT, DELETE\r\n"
                "Access-Control-Allow-Headers: authorization, content-type, last-event-id, "
                "sluice-device\r\n"
                "Access-Control-Max-Age: 7200\r\n");
    }
    text[headers.overflow ? 0 : headers.len] = '\0';
    (void)http_answer(req->worker->server, req->exchange, 204, NULL, text, (struct span){NULL, 0});
    return HTTP_ANSWERED;
}

/* The route of a request, with the parts of its path. NULL: none; *ret_path_known: other methods have
 * one. */
static const struct route *find_route(struct api_request *req, bool *ret_path_known)
{
    enum http_method method = req->request->method == HTTP_HEAD ? HTTP_GET : req->request->method;
    *ret_path_known = false;
    for (size_t i = 0; i < routes_count; i++) {
        const struct route *route = &routes[i];
        if (!route_exists(req->worker, route) ||
            !match(route->pattern, req->request->path, req->part)) {
            continue;
        }
        if (route->method == method) {
            return route;
        }
        *ret_path_known = true;
    }
    return NULL;
}

/* Whether a body of this length may belong to the route. False: it was refused. */
static bool body_allowed(struct api_request *req, const struct route *route, size_t len)
{
    static const size_t most[] = {[NEED_NOTHING] = HTTP_ANONYMOUS_BODY_MAX,
                                  [NEED_BUYER] = HTTP_BUYER_BODY_MAX,
                                  [NEED_ADMIN] = HTTP_BODY_MAX,
                                  [NEED_SIGNATURE] = HTTP_BODY_MAX};
    if (len <= most[route->need]) {
        return true;
    }
    (void)api_refuse_simply(req->worker, req->exchange, REFUSAL_TOO_LARGE,
                            "no request to this path has such a large body");
    return false;
}

/* Whether the item of a call is known only to its handler, which then asks the last rate limits. */
static bool handler_limits(const struct route *route)
{
    return (call_families_with_item() & 1U << route->call) != 0;
}

static enum http_outcome handle_route(struct api_request *req, const struct route *route)
{
    req->route = route;
    if (!request_limits_pass(req, LIMIT_AT_ADDRESS) || !authenticate(req, route->need) ||
        !body_allowed(req, route, req->request->body.len) ||
        !request_limits_pass(req, LIMIT_AT_USER)) {
        return HTTP_ANSWERED;
    }
    if (!handler_limits(route)) {
        switch (request_limits_end(req, 0)) {
        case LIMITS_REFUSED:
            return HTTP_ANSWERED;
        case LIMITS_HELD:
            return HTTP_PENDING;
        case LIMITS_PASSED:
            break;
        }
    }
    return route->handle(req);
}

enum http_outcome router_handle(void *context, struct http_exchange exchange,
                                const struct http_request *request)
{
    struct api_worker *worker = context;
    struct api_request req = {
        .worker = worker, .exchange = exchange, .request = request, .now_ms = worker->now_ms};
    metrics_add(worker->metrics, METRIC_HTTP_REQUESTS_TOTAL, 1);
    if (request->method == HTTP_OPTIONS) {
        return answer_options(&req);
    }
    note_origin(worker, exchange, request->origin);
    bool path_known = false;
    const struct route *route = find_route(&req, &path_known);
    if (route != NULL) {
        return handle_route(&req, route);
    }
    if (path_known) {
        return refuse_method(&req);
    }
    if (!(worker->shared->private_health && worker->loop == worker->shared->loops - 1) &&
        !worker->shared->health_only && static_answer(worker->server, exchange, request)) {
        return HTTP_ANSWERED;
    }
    return api_refuse_simply(worker, exchange, REFUSAL_NOT_FOUND,
                             "no such path; /openapi.json lists them");
}

bool router_admit(void *context, struct http_exchange exchange, const struct http_request *request,
                  size_t body_len, enum http_class *ret_class)
{
    struct api_worker *worker = context;
    struct api_request req = {
        .worker = worker, .exchange = exchange, .request = request, .now_ms = worker->now_ms};
    bool path_known = false;
    const struct route *route =
        request->method == HTTP_OPTIONS ? NULL : find_route(&req, &path_known);
    if (route == NULL) {
        (void)router_handle(context, exchange, request); /* its answer does not need the body */
        return false;
    }
    note_origin(worker, exchange, request->origin);
    if (authenticate(&req, route->need) && body_allowed(&req, route, body_len)) {
        *ret_class = route->need == NEED_ADMIN       ? HTTP_CLASS_OPERATORS
                     : route->need == NEED_SIGNATURE ? HTTP_CLASS_PAYMENTS
                                                     : HTTP_CLASS_ANYONE;
        if (route->need != NEED_SIGNATURE || payment_plausible(&req)) {
            return true;
        }
    }
    metrics_add(worker->metrics, METRIC_HTTP_REQUESTS_TOTAL, 1);
    return false;
}
