/* See request_limits.h. */
#include "api/request_limits.h"

#include "admission/layers.h"
#include "api/api_private.h"
#include "base/check.h"
#include "base/err.h"

/* The time that a client waits before it asks again grows by up to this part, so that clients that were
 * refused together do not come back together. */
#define RETRY_JITTER_PART 4

/* ---- refusals ---- */

static uint32_t seconds_up(int64_t us)
{
    return (uint32_t)((us + 999999) / 1000000);
}

/* The headers of a refusal by a rule, but for Retry-After. */
static void put_headers(struct out *out, const struct limit_rule *rule,
                        const struct rate_outcome *rate)
{
    struct span name = span_of(rule->name);
    out_lit(out, "RateLimit-Policy: \"");
    out_put(out, name);
    out_lit(out, "\";q=");
    out_u64(out, rule->rate.rate);
    out_lit(out, ";w=");
    out_u64(out, rule->rate.per_s);
    out_lit(out, "\r\nRateLimit: \"");
    out_put(out, name);
    out_lit(out, "\";r=0;t=");
    out_u64(out, seconds_up(rate->retry_us));
    out_lit(out, "\r\n");
}

static void refuse(struct api_request *req, const struct limit_rule *rule,
                   const struct rate_outcome *rate)
{
    struct api_worker *worker = req->worker;
    char headers[256];
    char detail[160];
    struct out lines = out_over(headers, sizeof(headers) - 1);
    struct out why = out_over(detail, sizeof(detail) - 1);
    put_headers(&lines, rule, rate);
    headers[lines.len] = '\0';
    out_lit(&why, "the rule ");
    out_text(&why, rule->name);
    out_lit(&why, " allows ");
    out_u64(&why, rule->rate.rate);
    out_lit(&why, " in ");
    out_u64(&why, rule->rate.per_s);
    out_lit(&why, " s");
    detail[why.len] = '\0';
    int64_t retry_ms = (rate->retry_us + 999) / 1000;
    retry_ms += (int64_t)prng_below(&worker->prng, (uint32_t)(retry_ms / RETRY_JITTER_PART) + 1);
    metrics_layer(worker->metrics, LAYER_LIMIT, METRICS_TURNED_AWAY);
    if (!api_answer_limited(worker, req->exchange, out_span(&lines), out_span(&why), retry_ms)) {
        (void)api_refuse(worker, req->exchange,
                         &(struct refused){.refusal = REFUSAL_RATE_LIMITED,
                                           .headers = headers,
                                           .detail = detail,
                                           .retry_after_ms = retry_ms});
    }
}

/* ---- asking ---- */

static bool ask_now(struct api_request *req, enum limit_stage stage, uint64_t item)
{
    const struct api_settings *settings = req->worker->settings;
    enum call_family call = req->route->call;
    struct limit_request request = {.call = call,
                                    .device = req->request->sluice_device,
                                    .user = req->user,
                                    .item = item,
                                    .now_us = inside_time_us(req->worker->shared->time)};
    if ((settings->limit_calls.by_address[stage] & 1U << call) != 0) {
        request.address = api_client_address(req);
    }
    if (limits_take(settings->limits, stage, &request, &req->limit)) {
        return true;
    }
    refuse(req, limits_rule(settings->limits, req->limit.rule), &req->limit.rate);
    return false;
}

static inline bool ask(struct api_request *req, enum limit_stage stage, uint64_t item)
{
    uint32_t calls = req->worker->settings->limit_calls.any[stage];
    return (calls & 1U << req->route->call) == 0 || ask_now(req, stage, item);
}

static bool device_fits(struct api_request *req)
{
    if (req->request->sluice_device.len <= LIMIT_DEVICE_MAX) {
        return true;
    }
    (void)api_refuse_field(req->worker, req->exchange, "Sluice-Device",
                           "a device is named by at most 64 characters");
    return false;
}

bool request_limits_pass(struct api_request *req, enum limit_stage stage)
{
    return req->limited || ((stage != LIMIT_AT_ADDRESS || device_fits(req)) && ask(req, stage, 0));
}

/* ---- the headers of answers ---- */

/* Keeps what the strictest rule said until the answer is written. */
static void keep(struct api_request *req)
{
    struct connection_state *state = api_connection(req->worker, req->exchange);
    state->limit_rule = (uint8_t)req->limit.rule;
    state->limit_settings = (uint32_t)req->worker->settings->number;
    state->limit_remaining = (uint32_t)req->limit.rate.remaining;
    state->limit_reset_s = seconds_up(req->limit.rate.reset_us);
}

void request_limits_headers(struct api_worker *worker, struct http_exchange exchange,
                            struct out *headers)
{
    const struct connection_state *state = &worker->connections[exchange.connection];
    if (state->limit_rule == 0 || state->generation != exchange.generation ||
        state->limit_settings != (uint32_t)worker->settings->number) {
        return;
    }
    out_lit(headers, "RateLimit: \"");
    out_text(headers, limits_rule(worker->settings->limits, state->limit_rule)->name);
    out_lit(headers, "\";r=");
    out_u64(headers, state->limit_remaining);
    out_lit(headers, ";t=");
    out_u64(headers, state->limit_reset_s);
    out_lit(headers, "\r\n");
}

/* ---- held requests ---- */

/* A request and the bytes that its spans are in. */
struct held_request {
    struct http_exchange exchange;
    const struct route *route;
    struct token_grant token;
    uint64_t user;
    struct span part[2];
    struct http_request request;
    char bytes[HELD_BYTES];
};

/* The order in which they are handled: by turn, and by arrival where turns are the same. */
struct held_turn {
    int64_t due_us; /* boot time */
    uint64_t arrival;
    uint32_t held; /* index */
};

struct held_requests {
    struct held_request *requests;
    struct held_turn turns[HELD_MAX]; /* a binary heap, the next one first */
    uint32_t unused[HELD_MAX];        /* indexes */
    uint32_t count;
    uint64_t arrivals;
};

size_t held_requests_bytes(void)
{
    return sizeof(struct held_requests) + HELD_MAX * sizeof(struct held_request);
}

int held_requests_start(struct api_worker *worker)
{
    struct held_requests *held = api_map(sizeof(*held));
    if (held == NULL) {
        return ERR_NOMEM;
    }
    worker->held = held;
    held->requests = api_map(HELD_MAX * sizeof(*held->requests));
    if (held->requests == NULL) {
        return ERR_NOMEM;
    }
    for (uint32_t i = 0; i < HELD_MAX; i++) {
        held->unused[i] = i;
    }
    return 0;
}

void held_requests_end(struct api_worker *worker)
{
    if (worker->held != NULL) {
        api_unmap(worker->held->requests, HELD_MAX * sizeof(*worker->held->requests));
        api_unmap(worker->held, sizeof(*worker->held));
    }
}

static bool before(const struct held_turn *a, const struct held_turn *b)
{
    return a->due_us != b->due_us ? a->due_us < b->due_us : a->arrival < b->arrival;
}

static void turns_add(struct held_requests *held, struct held_turn turn)
{
    uint32_t at = held->count++;
    while (at > 0 && before(&turn, &held->turns[(at - 1) / 2])) {
        held->turns[at] = held->turns[(at - 1) / 2];
        at = (at - 1) / 2;
    }
    held->turns[at] = turn;
}

static struct held_turn turns_take(struct held_requests *held)
{
    struct held_turn first = held->turns[0];
    struct held_turn last = held->turns[--held->count];
    uint32_t at = 0;
    for (uint32_t child = 1; child < held->count; child = 2 * at + 1) {
        child += child + 1 < held->count && before(&held->turns[child + 1], &held->turns[child]);
        if (!before(&held->turns[child], &last)) {
            break;
        }
        held->turns[at] = held->turns[child];
        at = child;
    }
    held->turns[at] = last;
    return first;
}

/* Copies the bytes of a span behind those before it. False: there is no room. */
static bool copy_span(struct held_request *held, size_t *used, struct span *span)
{
    if (span->len > sizeof(held->bytes) - *used) {
        return false;
    }
    if (span->len > 0) {
        memcpy(held->bytes + *used, span->at, span->len);
    }
    span->at = span->at != NULL ? held->bytes + *used : NULL; /* NULL: the header is absent */
    *used += span->len;
    return true;
}

static bool copy_request(struct held_request *held, const struct api_request *req)
{
    size_t used = 0;
    held->exchange = req->exchange;
    held->route = req->route;
    held->token = req->token;
    held->user = req->user;
    held->request = *req->request;
    bool fits = copy_span(held, &used, &held->request.head) &&
                copy_span(held, &used, &held->request.path) &&
                copy_span(held, &used, &held->request.query) &&
                copy_span(held, &used, &held->request.body);
#define X(field, name) fits = fits && copy_span(held, &used, &held->request.field);
    HTTP_HEADERS(X)
#undef X
    for (int i = 0; i < 2; i++) {
        held->part[i] = req->part[i];
        fits = fits && copy_span(held, &used, &held->part[i]);
    }
    return fits;
}

static enum limits_verdict hold(struct api_request *req)
{
    struct api_worker *worker = req->worker;
    struct held_requests *held = worker->held;
    uint32_t index = held->count < HELD_MAX ? held->unused[held->count] : HELD_MAX;
    if (index == HELD_MAX || !copy_request(&held->requests[index], req)) {
        metrics_layer(worker->metrics, LAYER_LIMIT, METRICS_TURNED_AWAY);
        (void)api_refuse_simply(worker, req->exchange, REFUSAL_OVERLOADED,
                                "too many requests wait for their turn");
        return LIMITS_REFUSED;
    }
    turns_add(held,
              (struct held_turn){clock_boot_us(worker->shared->time->clock) + req->limit.hold_us,
                                 held->arrivals++, index});
    return LIMITS_HELD;
}

int64_t held_requests_tick(struct api_worker *worker)
{
    struct held_requests *held = worker->held;
    int64_t now_us = clock_boot_us(worker->shared->time->clock);
    bool any = false;
    while (held->count > 0 && held->turns[0].due_us <= now_us) {
        struct held_turn turn = turns_take(held);
        struct held_request *waited = &held->requests[turn.held];
        if (http_alive(worker->server, waited->exchange)) {
            struct api_request req = {.worker = worker,
                                      .exchange = waited->exchange,
                                      .request = &waited->request,
                                      .user = waited->user,
                                      .token = waited->token,
                                      .part = {waited->part[0], waited->part[1]},
                                      .now_ms = worker->now_ms,
                                      .route = waited->route,
                                      .limited = true};
            (void)waited->route->handle(&req);
            any = true;
        }
        held->unused[held->count] = turn.held;
    }
    if (any) {
        http_server_flush(worker->server);
    }
    return held->count > 0 ? held->turns[0].due_us : INT64_MAX;
}

/* ---- the end ---- */

enum limits_verdict request_limits_end(struct api_request *req, uint64_t item)
{
    struct api_worker *worker = req->worker;
    if (req->limited) {
        return LIMITS_PASSED;
    }
    if ((item != 0 && !ask(req, LIMIT_AT_ITEM, item)) || !ask(req, LIMIT_AT_END, item)) {
        return LIMITS_REFUSED;
    }
    if (req->route->call == FAMILY_NONE || worker->settings->limits == NULL) {
        return LIMITS_PASSED;
    }
    if (req->limit.rule != 0) {
        keep(req);
    }
    metrics_layer(worker->metrics, LAYER_LIMIT, METRICS_PASSED);
    return req->limit.hold_us > 0 ? hold(req) : LIMITS_PASSED;
}
