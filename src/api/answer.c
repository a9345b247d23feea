/*
 * Answers: JSON with its headers, and refusals as application/problem+json (RFC 9457). The codes
 * and what to do next come from the one list in core/types.h.
 */
#include <string.h>

#include "api/api_private.h"
#include "api/request_limits.h"
#include "base/check.h"
#include "base/err.h"

/* When to retry. The jitter keeps clients from all coming back at the same time. */
#define RETRY_AFTER_MS 1000
#define RETRY_JITTER_MS 2000
#define HEADERS_BYTES 1024

void api_cors(const struct api_worker *worker, struct http_exchange exchange, struct out *headers)
{
    const struct connection_state *state = &worker->connections[exchange.connection];
    if (worker->settings->cors_origins[0] != '\0') {
        out_lit(headers, "Vary: Origin\r\n"); /* in every answer, for shared caches */
    }
    if (state->origin_len == 0 || state->generation != exchange.generation) {
        return;
    }
    out_lit(headers, "Access-Control-Allow-Origin: ");
    out_bytes(headers, state->origin, state->origin_len);
    out_lit(headers, "\r\nAccess-Control-Expose-Headers: location, retry-after, ratelimit, "
                     "ratelimit-policy\r\n");
}

/* Of an answer with a status of 2xx. */
static void json_headers(struct api_worker *worker, struct http_exchange exchange,
                         const char *headers, const char *cache, char ret_text[HEADERS_BYTES])
{
    struct out lines = out_over(ret_text, HEADERS_BYTES - 1);
    out_text(&lines, headers);
    request_limits_headers(worker, exchange, &lines);
    out_lit(&lines, "Cache-Control: ");
    out_text(&lines, cache != NULL ? cache : "no-store");
    out_lit(&lines, "\r\n");
    api_cors(worker, exchange, &lines);
    ret_text[lines.len] = '\0';
}

void api_json_held(struct api_worker *worker, struct http_exchange exchange, struct span body,
                   struct http_hold *hold)
{
    char text[HEADERS_BYTES];
    json_headers(worker, exchange, "", NULL, text);
    (void)http_answer_held(worker->server, exchange, 200, "application/json", text, body, hold);
}

enum http_outcome api_json(struct api_worker *worker, struct http_exchange exchange, int status,
                           const char *headers, const char *cache, struct span body)
{
    char text[HEADERS_BYTES];
    json_headers(worker, exchange, headers, cache, text);
    (void)http_answer(worker->server, exchange, status, status == 204 ? NULL : "application/json",
                      text, body);
    return HTTP_ANSWERED;
}

static void problem_body(struct out *out, const struct refused *refused, enum retry retry,
                         int64_t retry_after_ms)
{
    const struct refusal_text *text = refusal_text(refused->refusal);
    out_lit(out, "{\"type\":\"about:blank\",\"title\":");
    out_json_string(out, span_of(text->title));
    out_lit(out, ",\"status\":");
    out_i64(out, text->status);
    out_lit(out, ",\"code\":\"");
    out_text(out, text->code);
    out_lit(out, "\",\"detail\":");
    out_json_string(out, span_of(refused->detail != NULL ? refused->detail : text->title));
    out_lit(out, ",\"retry\":\"");
    out_text(out, retry_text(retry));
    out_char(out, '"');
    if (retry_after_ms > 0) {
        out_lit(out, ",\"retry_after_ms\":");
        out_i64(out, retry_after_ms);
    }
    if (refused->field != NULL) {
        out_lit(out, ",\"field\":");
        out_json_string(out, span_of(refused->field));
    }
    if (refused->has_available) {
        out_lit(out, ",\"available\":");
        out_u64(out, refused->available);
    }
    if (refused->has_held) {
        out_lit(out, ",\"held\":");
        out_u64(out, refused->held);
    }
    if (refused->has_limit) {
        out_lit(out, ",\"limit\":");
        out_u64(out, refused->limit);
    }
    out_char(out, '}');
}

enum http_outcome api_refuse(struct api_worker *worker, struct http_exchange exchange,
                             const struct refused *refused)
{
    const struct refusal_text *known = refusal_text(refused->refusal);
    enum retry retry = refused->override_retry ? refused->retry : known->retry;
    int64_t after_ms = refused->retry_after_ms;
    bool wait = retry == RETRY_LATER || retry == RETRY_SAME_TICKET;
    if (wait && after_ms == 0) {
        after_ms = RETRY_AFTER_MS + (int64_t)prng_below(&worker->prng, RETRY_JITTER_MS);
    }
    char text[HEADERS_BYTES];
    struct out lines = out_over(text, sizeof(text) - 1);
    if (refused->headers != NULL) {
        out_text(&lines, refused->headers);
    }
    if (wait) {
        out_lit(&lines, "Retry-After: ");
        out_i64(&lines, (after_ms + 999) / 1000);
        out_lit(&lines, "\r\n");
    }
    if (refused->refusal == REFUSAL_UNAUTHENTICATED) { /* a webhook's signature is no scheme */
        out_lit(&lines, "WWW-Authenticate: Bearer\r\n");
    }
    if (refused->refusal == REFUSAL_RATE_LIMITED && refused->headers == NULL) {
        out_lit(&lines, "RateLimit: \"new-tokens\";r=0;t="); /* api/check_budget.h */
        out_i64(&lines, (after_ms + 999) / 1000);
        out_lit(&lines, "\r\n");
    }
    out_lit(&lines, "Cache-Control: no-store\r\n");
    api_cors(worker, exchange, &lines);
    text[lines.len] = '\0';
    struct out body = api_scratch(worker);
    problem_body(&body, refused, retry, wait ? after_ms : 0);
    metrics_refuse(worker->metrics, (unsigned)refused->refusal);
    (void)http_answer(worker->server, exchange, known->status, "application/problem+json", text,
                      out_span(&body));
    return HTTP_ANSWERED;
}

/* ---- prebuilt ---- */

static void prebuild(struct prebuilt_answer *answer, const struct refused *refused,
                     int64_t after_ms)
{
    char text[400];
    struct out body = out_over(text, sizeof(text));
    problem_body(&body, refused, refused->retry, after_ms);
    struct out all = out_over(answer->bytes, sizeof(answer->bytes));
    out_lit(&all,
            "HTTP/1.1 409 Conflict\r\nContent-Type: application/problem+json\r\nContent-Length: ");
    out_u64(&all, body.len);
    out_lit(&all, "\r\n");
    if (after_ms > 0) {
        out_lit(&all, "Retry-After: ");
        out_i64(&all, (after_ms + 999) / 1000);
        out_lit(&all, "\r\n");
    }
    out_lit(&all, "Cache-Control: no-store\r\n\r\n");
    out_put(&all, out_span(&body));
    CHECK(!body.overflow && !all.overflow);
    answer->len = (uint32_t)all.len;
}

void api_prebuild_sold_out(struct api_worker *worker)
{
    struct refused refused = {.refusal = REFUSAL_SOLD_OUT,
                              .has_available = true,
                              .retry = RETRY_NO,
                              .detail = SOLD_OUT_FOR_GOOD};
    prebuild(&worker->sold_out[0], &refused, 0);
    refused.retry = RETRY_LATER;
    refused.detail = SOLD_OUT_FOR_NOW;
    for (int i = 0; i < PREBUILT_PAUSES; i++) {
        int64_t after_ms = RETRY_AFTER_MS + (int64_t)prng_below(&worker->prng, RETRY_JITTER_MS);
        prebuild(&worker->sold_out[1 + i], &refused, after_ms);
    }
}

bool api_answer_sold_out(struct api_worker *worker, struct http_exchange exchange, bool later)
{
    const struct connection_state *state = &worker->connections[exchange.connection];
    if (state->origin_len != 0 || worker->settings->cors_origins[0] != '\0') {
        return false; /* the answer needs CORS headers */
    }
    const struct prebuilt_answer *answer =
        &worker->sold_out[later ? 1 + prng_below(&worker->prng, PREBUILT_PAUSES) : 0];
    metrics_refuse(worker->metrics, REFUSAL_SOLD_OUT);
    (void)http_answer_ready(worker->server, exchange, (struct span){answer->bytes, answer->len});
    return true;
}

bool api_answer_limited(struct api_worker *worker, struct http_exchange exchange,
                        struct span headers, struct span detail, int64_t retry_ms)
{
    const struct connection_state *state = &worker->connections[exchange.connection];
    if (state->origin_len != 0 || worker->settings->cors_origins[0] != '\0') {
        return false;
    }
    char memory[512];
    char text[1024];
    struct out body = out_over(memory, sizeof(memory));
    struct out all = out_over(text, sizeof(text));
    out_lit(&body, "{\"type\":\"about:blank\",\"title\":\"Too many requests\",\"status\":429,"
                   "\"code\":\"rate_limited\",\"detail\":\"");
    out_put(&body, detail); /* names of rules need no escapes */
    out_lit(&body, "\",\"retry\":\"later\",\"retry_after_ms\":");
    out_i64(&body, retry_ms);
    out_char(&body, '}');
    out_lit(&all, "HTTP/1.1 429 Too Many Requests\r\nContent-Type: application/problem+json\r\n"
                  "Content-Length: ");
    out_u64(&all, body.len);
    out_lit(&all, "\r\n");
    out_put(&all, headers);
    out_lit(&all, "Retry-After: ");
    out_i64(&all, (retry_ms + 999) / 1000);
    out_lit(&all, "\r\nCache-Control: no-store\r\n\r\n");
    out_put(&all, out_span(&body));
    CHECK(!body.overflow && !all.overflow);
    metrics_refuse(worker->metrics, REFUSAL_RATE_LIMITED);
    (void)http_answer_ready(worker->server, exchange, out_span(&all));
    return true;
}

enum http_outcome api_refuse_simply(struct api_worker *worker, struct http_exchange exchange,
                                    enum refusal refusal, const char *detail)
{
    return api_refuse(worker, exchange, &(struct refused){.refusal = refusal, .detail = detail});
}

enum http_outcome api_refuse_field(struct api_worker *worker, struct http_exchange exchange,
                                   const char *field, const char *detail)
{
    return api_refuse(
        worker, exchange,
        &(struct refused){.refusal = REFUSAL_BAD_REQUEST, .field = field, .detail = detail});
}

enum http_outcome api_refuse_unreachable(struct api_worker *worker, struct http_exchange exchange,
                                         enum refusal refusal)
{
    bool busy = refusal == REFUSAL_OVERLOADED;
    return api_refuse_simply(worker, exchange, busy ? REFUSAL_OVERLOADED : REFUSAL_DEGRADED,
                             "the gate cannot be asked at the moment; nothing has changed");
}

/* A write that ended in an error may still have been committed, if only its answer was lost. So the
 * outcome is unknown. */
void api_refuse_error(struct api_worker *worker, struct http_exchange exchange, int error)
{
    (void)api_refuse_simply(worker, exchange, REFUSAL_UNKNOWN_OUTCOME,
                            error == ERR_JOURNAL_FAILED
                                ? "the journal's disk failed; nothing is promised until a restart"
                                : "the ledger could not be written; try again, repeating is safe");
}

void api_problem(void *context, enum refusal refusal, struct out *body)
{
    struct api_worker *worker = context;
    metrics_refuse(worker->metrics, (unsigned)refusal);
    problem_body(body, &(struct refused){.refusal = refusal}, refusal_text(refusal)->retry,
                 refusal_text(refusal)->retry == RETRY_LATER ? RETRY_AFTER_MS : 0);
}

/* ---- parameters ---- */

struct span query_value(struct span query, const char *name)
{
    size_t len = strlen(name);
    size_t at = 0;
    while (at < query.len) {
        size_t end = at;
        while (end < query.len && query.at[end] != '&') {
            end++;
        }
        if (end - at > len && query.at[at + len] == '=' && memcmp(query.at + at, name, len) == 0) {
            return (struct span){query.at + at + len + 1, end - at - len - 1};
        }
        at = end + 1;
    }
    return (struct span){NULL, 0};
}

int query_number(struct span query, const char *name, uint64_t max, uint64_t otherwise,
                 uint64_t *ret_value)
{
    struct span value = query_value(query, name);
    if (value.at == NULL) {
        *ret_value = otherwise;
        return 0;
    }
    return span_parse_u64(value, max, ret_value);
}

int part_id(struct span part, uint64_t *ret_id)
{
    uint64_t id = 0;
    if (span_parse_u64(part, ID_MAX, &id) != 0 || id == 0) {
        return ERR_INVALID;
    }
    *ret_id = id;
    return 0;
}

static int hex_digit(char c)
{
    return c >= '0' && c <= '9'   ? c - '0'
           : c >= 'a' && c <= 'f' ? c - 'a' + 10
           : c >= 'A' && c <= 'F' ? c - 'A' + 10
                                  : -1;
}

int part_text(struct span part, char *memory, size_t cap, struct span *ret_text)
{
    struct out out = out_over(memory, cap);
    for (size_t i = 0; i < part.len; i++) {
        char c = part.at[i];
        if (c == '%') {
            int high = i + 2 < part.len ? hex_digit(part.at[i + 1]) : -1;
            int low = i + 2 < part.len ? hex_digit(part.at[i + 2]) : -1;
            if (high < 0 || low < 0) {
                return ERR_INVALID;
            }
            c = (char)(high << 4 | low);
            i += 2;
        }
        out_char(&out, c);
    }
    *ret_text = out_span(&out);
    return out.overflow ? ERR_RANGE : 0;
}

enum refusal body_is_json(const struct http_request *request, bool optional)
{
    if (request->body.len == 0 && optional) {
        return REFUSAL_NONE;
    }
    struct span type = request->content_type;
    if (type.len == 0) {
        return REFUSAL_BAD_MEDIA_TYPE;
    }
    size_t end = 0;
    while (end < type.len && type.at[end] != ';') {
        end++;
    }
    struct span parameters = {type.at + end, type.len - end};
    while (end > 0 && type.at[end - 1] == ' ') {
        end--;
    }
    if (!span_equal_nocase((struct span){type.at, end}, span_of("application/json"))) {
        return REFUSAL_BAD_MEDIA_TYPE;
    }
    if (parameters.len > 0 && !span_equal_nocase(parameters, span_of(";charset=utf-8")) &&
        !span_equal_nocase(parameters, span_of("; charset=utf-8"))) {
        return REFUSAL_BAD_MEDIA_TYPE;
    }
    return REFUSAL_NONE;
}
