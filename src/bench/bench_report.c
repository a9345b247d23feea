/*
 * Collects and prints the results. A rate counts what was answered between the start and the end of
 * the measurement; totals include requests that were outstanding at the end.
 */
#include "bench/bench_report.h"

#include <inttypes.h>
#include <jansson.h>
#include <stdio.h>
#include <string.h>

#include "base/err.h"

static void codes_merge(struct bench_report *report, const struct bench_stats *stats)
{
    for (size_t i = 0; i < stats->refused_count; i++) {
        size_t at = 0;
        while (at < report->refused_count &&
               strcmp(report->refused[at].text, stats->refused[i].text) != 0) {
            at++;
        }
        if (at == BENCH_CODES_MAX) {
            continue;
        }
        if (at == report->refused_count) {
            report->refused[report->refused_count++] = stats->refused[i];
        } else {
            report->refused[at].count += stats->refused[i].count;
        }
    }
}

void bench_report_gather(const struct bench_shared *shared, struct bench_report *ret_report)
{
    memset(ret_report, 0, sizeof(*ret_report));
    uint64_t measured_requests = 0;
    uint64_t measured_orders = 0;
    for (uint32_t i = 0; i < shared->options.threads; i++) {
        const struct bench_worker *worker = &shared->workers[i];
        const struct bench_stats *stats = &worker->stats;
        ret_report->requests += atomic_load(&stats->requests);
        ret_report->orders += atomic_load(&stats->orders);
        ret_report->errors += atomic_load(&stats->errors);
        ret_report->retries += stats->retries;
        ret_report->duplicates += stats->duplicates;
        ret_report->drops += stats->drops;
        ret_report->backwards += stats->backwards;
        measured_requests += worker->measured_requests;
        measured_orders += worker->measured_orders;
        double seconds = (double)worker->measured_ns / 1e9;
        ret_report->seconds = seconds > ret_report->seconds ? seconds : ret_report->seconds;
        codes_merge(ret_report, stats);
        for (int step = 0; step < STEP_COUNT; step++) {
            hist_merge(&ret_report->steps[step], &stats->latency[step]);
            if (step != STEP_RESULT) {
                hist_merge(&ret_report->latency, &stats->latency[step]);
            }
        }
    }
    if (ret_report->seconds > 0) {
        ret_report->requests_per_s = (double)measured_requests / ret_report->seconds;
        ret_report->orders_per_s = (double)measured_orders / ret_report->seconds;
    }
}

static void latency_print(const char *name, const struct hist *hist)
{
    (void)printf("%-10s %12" PRIu64 "   p50 %8.3f   p99 %8.3f   p99.9 %8.3f   max %8.3f ms\n", name,
                 hist_count(hist), (double)hist_quantile(hist, 0.5) / 1e3,
                 (double)hist_quantile(hist, 0.99) / 1e3, (double)hist_quantile(hist, 0.999) / 1e3,
                 (double)hist_max(hist) / 1e3);
}

void bench_report_print(const struct bench_report *report)
{
    (void)printf("seconds    %12.3f\n", report->seconds);
    (void)printf("requests   %12" PRIu64 "   %.0f/s\n", report->requests, report->requests_per_s);
    (void)printf("orders     %12" PRIu64 "   %.0f/s\n", report->orders, report->orders_per_s);
    (void)printf("errors     %12" PRIu64 "   retries %" PRIu64 ", duplicates %" PRIu64
                 ", dropped connections %" PRIu64 "\n",
                 report->errors, report->retries, report->duplicates, report->drops);
    for (size_t i = 0; i < report->refused_count; i++) {
        (void)printf("refused    %12" PRIu64 "   %s\n", report->refused[i].count,
                     report->refused[i].text);
    }
    for (int step = 0; step < STEP_COUNT; step++) {
        if (hist_count(&report->steps[step]) > 0) {
            latency_print(bench_step_text[step], &report->steps[step]);
        }
    }
    if (report->audited) {
        const struct audit_result *audit = &report->audit;
        (void)printf("audit      %12" PRIu64 "   %s: oversold %" PRIu64 ", lost %" PRIu64
                     ", doubled %" PRIu64 ", wrong %" PRIu64 "\n",
                     audit->checked, audit_ok(audit) ? "ok" : "NOT OK", audit->oversold,
                     audit->lost, audit->doubled, audit->wrong);
    }
}

static json_t *latency_json(const struct hist *hist)
{
    return json_pack("{s:I, s:I, s:I, s:I, s:I}", "count", (json_int_t)hist_count(hist), "p50_us",
                     (json_int_t)hist_quantile(hist, 0.5), "p99_us",
                     (json_int_t)hist_quantile(hist, 0.99), "p999_us",
                     (json_int_t)hist_quantile(hist, 0.999), "max_us", (json_int_t)hist_max(hist));
}

static json_t *audit_json(const struct bench_report *report)
{
    const struct audit_result *audit = &report->audit;
    if (!report->audited) {
        return json_null();
    }
    return json_pack("{s:I, s:I, s:I, s:I, s:I, s:b}", "checked", (json_int_t)audit->checked,
                     "oversold", (json_int_t)audit->oversold, "lost", (json_int_t)audit->lost,
                     "doubled", (json_int_t)audit->doubled, "wrong", (json_int_t)audit->wrong, "ok",
                     (int)audit_ok(audit));
}

int bench_report_print_json(const struct bench_report *report)
{
    json_t *root = json_pack(
        "{s:I, s:I, s:I, s:I, s:I, s:I, s:f, s:f, s:f}", "requests", (json_int_t)report->requests,
        "orders", (json_int_t)report->orders, "errors", (json_int_t)report->errors, "retries",
        (json_int_t)report->retries, "duplicates", (json_int_t)report->duplicates, "drops",
        (json_int_t)report->drops, "seconds", report->seconds, "requests_per_s",
        report->requests_per_s, "orders_per_s", report->orders_per_s);
    json_t *refused = json_object();
    for (size_t i = 0; i < report->refused_count; i++) {
        (void)json_object_set_new(refused, report->refused[i].text,
                                  json_integer((json_int_t)report->refused[i].count));
    }
    json_t *steps = json_object();
    for (int step = 0; step < STEP_COUNT; step++) {
        if (hist_count(&report->steps[step]) > 0) {
            (void)json_object_set_new(steps, bench_step_text[step],
                                      latency_json(&report->steps[step]));
        }
    }
    json_t *latency = latency_json(&report->latency);
    (void)json_object_del(latency, "count");
    int failed = json_object_update(root, latency);
    json_decref(latency);
    failed |= json_object_set_new(root, "refused", refused);
    failed |= json_object_set_new(root, "steps", steps);
    failed |= json_object_set_new(root, "audit", audit_json(report));
    if (failed == 0) {
        failed = json_dumpf(root, stdout, JSON_REAL_PRECISION(9));
        (void)putchar('\n');
    }
    json_decref(root);
    return failed == 0 ? 0 : ERR_NOMEM;
}
