/* The server itself: metrics, health, the OpenAPI contract, the page's settings, the live feed. */
#include <stdio.h>

#include "admission/layers.h"
#include "api/api.h"
#include "api/handlers.h"
#include "api/live.h"
#include "api/operation.h"
#include "base/check.h"
#include "base/err.h"
#include "obs/metrics.h"
#include "pages/static.h"

static const char *refusal_name(unsigned refusal)
{
    return refusal < REFUSAL_COUNT ? refusal_text((enum refusal)refusal)->code : NULL;
}

static const char *bound_name(unsigned bound)
{
    return bound < GATE_BOUND_COUNT ? gate_bound_text((enum gate_bound)bound) : NULL;
}

static void render_metrics(const struct metrics *metrics, struct out *body)
{
    metrics_render(metrics, refusal_name, body);
    metrics_render_bounds(metrics, bound_name, body);
    metrics_render_layers(metrics, admission_layer_text, body);
    metrics_render_pools(metrics, body);
}

enum http_outcome handle_metrics(struct api_request *req)
{
    struct api_shared *shared = api_shared(req->worker);
    struct answer *answer = NULL;
    int error = answer_cache_metrics(shared->answer_cache, shared->metrics, render_metrics,
                                     req->now_ms, &answer);
    if (error != 0) {
        return api_refuse_simply(req->worker, req->exchange, REFUSAL_OVERLOADED, NULL);
    }
    (void)http_answer_held(api_server(req->worker), req->exchange, 200, answer->content.type,
                           "Cache-Control: no-store\r\n", answer->content.body, &answer->hold);
    http_hold_release(&answer->hold);
    return HTTP_ANSWERED;
}

enum http_outcome handle_livez(struct api_request *req)
{
    return api_json(req->worker, req->exchange, 200, "", NULL, span_of("{\"status\":\"live\"}"));
}

/* The first damage in words; NULL: none is known. */
static const char *ledger_damage(const struct api_shared *shared)
{
    return shared->ledger_health == NULL ? NULL : ledger_health_what(shared->ledger_health);
}

/* Why buyers, or their payments, cannot be served; NULL: they can. */
static const char *why_not_ready(const struct api_shared *shared)
{
    if (journal_failed(shared->journal)) {
        return journal_failed_why(shared->journal);
    }
    if (!atomic_load(&shared->ready)) {
        return "not all parts can serve yet; see the log";
    }
    if (journal_space(shared->journal) != JOURNAL_SPACE_OK) {
        return "the journal's disk is full: free space, then buys go on by themselves";
    }
    return ledger_writer_error(shared->ledger_writer) == ERR_NOSPACE
               ? "the ledger's disk is full: free space, then bookings go on by themselves"
               : NULL;
}

/* Nothing can be sold: every other full pool, or one full segment of several, refuses some requests
 * only. The pool is that of the fullest segment. KNOWN metrics are stored plus one. */
static bool is_gate_full(const struct metrics *metrics)
{
    struct metrics_level orders = metrics_level(metrics, POOL_GATE_ORDERS);
    uint64_t segments = metrics_sum(metrics, METRIC_SEGMENTS);
    return orders.size > 0 && orders.used >= orders.size &&
           (segments == 0 || metrics_sum(metrics, METRIC_SEGMENTS_FULL) >= segments);
}

enum http_outcome handle_readyz(struct api_request *req)
{
    struct api_shared *shared = api_shared(req->worker);
    if (atomic_load(&shared->draining)) {
        return api_refuse_simply(req->worker, req->exchange, REFUSAL_DRAINING, NULL);
    }
    const char *why = why_not_ready(shared);
    if (why != NULL) {
        return api_refuse_simply(req->worker, req->exchange, REFUSAL_DEGRADED, why);
    }
    const char *damage = ledger_damage(shared);
    if (damage != NULL) {
        char detail[300];
        (void)snprintf(detail, sizeof(detail), "the ledger is damaged: %s; see the log", damage);
        return api_refuse_simply(req->worker, req->exchange, REFUSAL_DEGRADED, detail);
    }
    if (is_gate_full(shared->metrics)) {
        return api_refuse_simply(req->worker, req->exchange, REFUSAL_OVERLOADED,
                                 "gate.orders is full: nothing can be sold");
    }
    char memory[512];
    struct out body = out_over(memory, sizeof(memory));
    out_lit(&body, "{\"status\":\"ready\",\"nearly_full\":[");
    for (unsigned i = 0; i < POOL_COUNT; i++) {
        if (metrics_percent(metrics_level(shared->metrics, (enum metrics_pool)i)) >=
            METRICS_NEARLY_FULL) {
            if (body.at[body.len - 1] != '[') {
                out_char(&body, ',');
            }
            out_json_string(&body, span_of(metrics_pool_text((enum metrics_pool)i)));
        }
    }
    out_lit(&body, "]}");
    return api_json(req->worker, req->exchange, 200, "", NULL, out_span(&body));
}

enum http_outcome handle_page_config(struct api_request *req)
{
    const char *login_url = api_settings(req->worker)->login_url;
    bool demo = api_shared(req->worker)->demo;
    struct out body = api_scratch(req->worker);
    if (login_url[0] == '\0' && demo) {
        login_url = "/demo/login";
    }
    out_lit(&body, "{\"demo\":");
    out_text(&body, demo ? "true" : "false");
    out_lit(&body, ",\"login_url\":");
    if (login_url[0] == '\0') {
        out_lit(&body, "null");
    } else {
        out_json_string(&body, span_of(login_url));
    }
    out_char(&body, '}');
    return api_json(req->worker, req->exchange, 200, "", "public, max-age=60", out_span(&body));
}

enum http_outcome handle_openapi(struct api_request *req)
{
    const struct content *content = static_content("openapi.json");
    CHECK(content != NULL); /* the contract is built into the binary */
    content_answer(api_server(req->worker), req->exchange, req->request, 200, content,
                   "Cache-Control: public, max-age=60\r\n", NULL);
    return HTTP_ANSWERED;
}

/* ---- the dashboard's feed ---- */

static void put_number(struct out *out, const char *name, uint64_t value)
{
    out_char(out, ',');
    out_json_string(out, span_of(name));
    out_char(out, ':');
    out_u64(out, value);
}

/* In the embedded engine this process does everything. In the distributed engine, numbers that other
 * processes count are left out, because a 0 would be wrong. */
static bool is_embedded(struct api_worker *worker)
{
    return api_shared(worker)->cluster_status == NULL;
}

static void put_figures(struct out *out, const char *name,
                        const struct latency_window_figures *figures)
{
    out_char(out, ',');
    out_json_string(out, span_of(name));
    out_lit(out, ":{\"count\":");
    out_u64(out, figures->count);
    put_number(out, "p50_us", figures->p50_us);
    put_number(out, "p99_us", figures->p99_us);
    put_number(out, "p999_us", figures->p999_us);
    out_char(out, '}');
}

static struct latency_window_figures since_start(const struct metrics *metrics,
                                                 enum metric_hist which)
{
    static _Thread_local struct hist hist;
    metrics_hist(metrics, which, &hist);
    return (struct latency_window_figures){.count = hist_count(&hist),
                                           .p50_us = hist_quantile(&hist, 0.5),
                                           .p99_us = hist_quantile(&hist, 0.99),
                                           .p999_us = hist_quantile(&hist, 0.999)};
}

/* The latencies of the window; of the time since the start if there is no window. */
static void put_latencies(struct api_worker *worker, struct out *out,
                          const struct latency_window_view *view)
{
    static const struct {
        const char *name;
        enum metric_hist hist;
        bool by_booker; /* counted by the process that books */
    } rows[] = {{"buy_answer", HIST_BUY_ANSWER, false},
                {"buy_booked", HIST_BUY_BOOKED, true},
                {"journal_sync", HIST_JOURNAL_SYNC, false},
                {"ledger_commit", HIST_LEDGER_COMMIT, false}};
    bool embedded = is_embedded(worker);
    for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
        if (embedded || !rows[i].by_booker) {
            struct latency_window_figures figures =
                view != NULL ? view->hists[rows[i].hist]
                             : since_start(api_shared(worker)->metrics, rows[i].hist);
            put_figures(out, rows[i].name, &figures);
        }
    }
}

static void put_recent(struct api_worker *worker, struct out *out, int64_t now_ms)
{
    struct api_shared *shared = api_shared(worker);
    struct latency_window_view view;
    if (shared->latencies == NULL) {
        return;
    }
    latency_window_look(shared->latencies, shared->metrics, now_ms, &view);
    out_lit(out, ",\"recent\":{\"window_ms\":");
    out_i64(out, view.window_ms);
    put_latencies(worker, out, &view);
    out_char(out, '}');
}

/* Several refusals may have the same code: each code is shown once, with their sum. */
static void put_refused(struct out *out, const struct metrics *metrics)
{
    bool first = true;
    out_lit(out, ",\"rejects\":{");
    for (unsigned i = 1; i < REFUSAL_COUNT; i++) {
        struct span code = span_of(refusal_text((enum refusal)i)->code);
        uint64_t sum = 0;
        bool seen = false;
        for (unsigned k = 1; k < REFUSAL_COUNT; k++) {
            if (span_equal(code, span_of(refusal_text((enum refusal)k)->code))) {
                seen = seen || k < i;
                sum += metrics_refused(metrics, k);
            }
        }
        if (seen || sum == 0) {
            continue;
        }
        if (!first) {
            out_char(out, ',');
        }
        first = false;
        out_json_string(out, code);
        out_char(out, ':');
        out_u64(out, sum);
    }
    out_char(out, '}');
}

void live_funnel(struct api_worker *worker, struct out *out)
{
    static const struct {
        const char *name;
        enum metric metric;
        bool by_booker; /* counted by the processes that book and keep */
    } layers[] = {
        {"requests", METRIC_HTTP_REQUESTS_TOTAL, false},
        {"tickets", METRIC_TICKETS_TOTAL, false},
        {"accepted", METRIC_BUYS_ACCEPTED_TOTAL, false},
        {"repeated", METRIC_BUYS_REPEATED_TOTAL, false},
        {"locked", METRIC_ORDERS_LOCKED_TOTAL, true},
        {"paid", METRIC_ORDERS_PAID_TOTAL, true},
        {"expired", METRIC_ORDERS_EXPIRED_TOTAL, true},
        {"cancelled", METRIC_ORDERS_CANCELLED_TOTAL, true},
        {"failed", METRIC_ORDERS_FAILED_TOTAL, true},
    };
    bool embedded = is_embedded(worker);
    const struct metrics *metrics = api_shared(worker)->metrics;
    out_lit(out, ",\"funnel\":{\"since_ms\":");
    out_i64(out, api_shared(worker)->started_at_ms);
    for (size_t i = 0; i < sizeof(layers) / sizeof(layers[0]); i++) {
        if (embedded || !layers[i].by_booker) {
            put_number(out, layers[i].name, metrics_sum(metrics, layers[i].metric));
        }
    }
    out_lit(out, "},\"latencies\":{\"since_ms\":");
    out_i64(out, api_shared(worker)->started_at_ms);
    put_latencies(worker, out, NULL);
    out_char(out, '}');
    put_refused(out, metrics);
}

static void put_state(struct api_worker *worker, struct out *out)
{
    struct api_shared *shared = api_shared(worker);
    put_number(out, "connections", metrics_sum(shared->metrics, METRIC_HTTP_CONNECTIONS));
    if (is_embedded(worker)) {
        struct embedded_gate_numbers numbers;
        embedded_gate_count(shared->embedded_gate, &numbers);
        put_number(out, "orders_on_board", numbers.orders);
        put_number(out, "deadlines_pending",
                   ledger_writer_pending_deadlines(shared->ledger_writer));
        put_number(out, "backlog",
                   numbers.durable_lsn - ledger_writer_booked_lsn(shared->ledger_writer));
    }
    put_number(out, "journal_latched", journal_failed(shared->journal) ? 1 : 0);
    if (shared->reconciler != NULL) {
        out_format(out, ",\"reconcile\":{\"blind\":%s",
                   metrics_sum(shared->metrics, METRIC_RECONCILE_BLIND) != 0 ? "true" : "false");
        put_number(out, "unsure", metrics_sum(shared->metrics, METRIC_RECONCILE_UNSURE));
        put_number(out, "unanswered", metrics_sum(shared->metrics, METRIC_RECONCILE_UNANSWERED));
        out_char(out, '}');
    }
    put_number(out, "disk_full",
               journal_space(shared->journal) != JOURNAL_SPACE_OK ||
                       ledger_writer_error(shared->ledger_writer) == ERR_NOSPACE
                   ? 1
                   : 0);
}

/* Every bounded pool of this process. */
static void put_pools(struct out *out, const struct metrics *metrics)
{
    out_lit(out, ",\"pools\":[");
    for (unsigned i = 0; i < POOL_COUNT; i++) {
        struct metrics_level level = metrics_level(metrics, (enum metrics_pool)i);
        if (level.size == 0) {
            continue;
        }
        out_text(out, out->at[out->len - 1] == '[' ? "{\"pool\":" : ",{\"pool\":");
        out_json_string(out, span_of(metrics_pool_text((enum metrics_pool)i)));
        put_number(out, "used", level.used);
        put_number(out, "size", level.size);
        out_format(out, ",\"nearly_full\":%s}",
                   metrics_percent(level) >= METRICS_NEARLY_FULL ? "true" : "false");
    }
    out_char(out, ']');
}

static void put_live_item(struct api_worker *worker, struct out *out, const struct item_row *item,
                          int64_t now_ms)
{
    struct item_view view;
    if (!api_item_locked(worker, item->id, &view)) {
        return;
    }
    if (out->at[out->len - 1] != '[') {
        out_char(out, ',');
    }
    out_lit(out, "{\"id\":");
    out_u64(out, item->id);
    put_number(out, "sale_id", view.sale);
    out_lit(out, ",\"name\":");
    out_json_string(out, span_of(item->name));
    put_number(out, "total", view.total);
    put_number(out, "available", view.available);
    put_number(out, "locked", view.locked);
    put_number(out, "sold", view.sold);
    out_lit(out, ",\"state\":\"");
    out_text(out, item_state_text(&view, now_ms));
    out_lit(out, "\"}");
}

void live_json(struct api_worker *worker, struct out *out)
{
    struct catalog *catalog = api_shared(worker)->catalog;
    int64_t now_ms = inside_time_ms(api_shared(worker)->time);
    out_lit(out, "{\"now_ms\":");
    out_i64(out, now_ms);
    put_state(worker, out);
    put_pools(out, api_shared(worker)->metrics);
    live_funnel(worker, out);
    put_recent(worker, out, now_ms);
    const char *damage = ledger_damage(api_shared(worker));
    if (damage != NULL) {
        out_lit(out, ",\"ledger_damage\":");
        out_json_string(out, span_of(damage));
    }
    live_engine(worker, out);
    out_lit(out, ",\"items\":[");
    size_t count = 0;
    catalog_lock(catalog);
    struct sale_row *const *sales = catalog_sales(catalog, &count);
    for (size_t i = count; i > 0; i--) {
        const struct sale_row *sale = sales[i - 1];
        for (uint32_t k = 0; sale->state != SALE_CLOSED && k < sale->items_count; k++) {
            /* The list stops when there is no room for one more item and the end. */
            if (out->cap - out->len > 1024) {
                put_live_item(worker, out, &sale->items[k], now_ms);
            }
        }
    }
    catalog_unlock(catalog);
    out_lit(out, "]}");
}
