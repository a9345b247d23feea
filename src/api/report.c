/*
 * GET /v1/admin/sales/{sale}/report. The ledger reader answers one query after the other: the sale,
 * the figures of its items, its summary, its course, and then the same for the sale before it. The
 * report is passed from operation to operation, and is freed with the last one if the client has gone.
 *
 * Refusals, request rates and answer times are this process's own counts of the sale (obs/tally.h).
 * Faults come from its incident log.
 */
#include <stdlib.h>
#include <string.h>

#include "api/handlers.h"
#include "api/live.h"
#include "api/operation.h"
#include "base/check.h"
#include "base/err.h"
#include "pages/report.h"
#include "port/ledger_report.h"

/* The report also lists faults this long before the start. */
#define BEFORE_MS 60000

/* ---- JSON ---- */

static void put_number(struct out *out, const char *name, uint64_t value)
{
    out_format(out, ",\"%s\":", name);
    out_u64(out, value);
}

static void put_signed(struct out *out, const char *name, int64_t value)
{
    out_format(out, ",\"%s\":", name);
    out_i64(out, value);
}

static void put_text(struct out *out, const char *name, const char *text)
{
    out_format(out, ",\"%s\":", name);
    out_json_string(out, span_of(text));
}

static void put_states(struct out *out, const char *name, const uint64_t *numbers)
{
    out_format(out, ",\"%s\":{", name);
    for (int i = 0; i < ORDER_STATE_COUNT; i++) {
        out_format(out, "%s\"%s\":", i > 0 ? "," : "", order_state_text((enum order_state)i));
        out_u64(out, numbers[i]);
    }
    out_char(out, '}');
}

static const struct item_row *item_of(const struct report_part *part, uint64_t id)
{
    for (uint32_t i = 0; i < part->sale->items_count; i++) {
        if (part->sale->items[i].id == id) {
            return &part->sale->items[i];
        }
    }
    return NULL;
}

static void put_item(struct out *out, const struct report_part *part, const struct report_row *row)
{
    const struct item_row *item = item_of(part, row->item);
    out_lit(out, "{\"item_id\":");
    out_u64(out, row->item);
    put_text(out, "name", item != NULL ? item->name : "");
    put_states(out, "orders", row->orders);
    put_states(out, "units", row->units);
    put_number(out, "buyers", row->buyers);
    put_signed(out, "first_order_ms", row->first_order_ms);
    put_signed(out, "last_order_ms", row->last_order_ms);
    put_number(out, "peak_orders_per_s", row->peak_orders_per_s);
    put_signed(out, "paid_cents", row->paid_cents);
    put_number(out, "timeouts", row->orders[ORDER_EXPIRED]);
    uint64_t total = item != NULL ? item->total : 0;
    put_number(out, "total", total);
    put_number(out, "sell_through_permille", report_permille(row->units[ORDER_PAID], total));
    out_char(out, '}');
}

/* The sale and its totals; the same members for this sale and for the previous one. */
static void put_part(struct out *out, const struct report_part *part)
{
    struct report_totals totals = report_total(part);
    const struct sale_summary *summary = &part->summary;
    out_lit(out, "\"sale_id\":");
    out_u64(out, part->sale->id);
    put_text(out, "name", part->sale->name);
    put_text(out, "state", sale_state_text(part->sale->state));
    put_text(out, "currency", part->sale->currency);
    put_signed(out, "starts_at_ms", part->sale->starts_at_ms);
    put_signed(out, "ends_at_ms", part->sale->ends_at_ms);
    put_number(out, "orders", totals.made);
    put_number(out, "units_total", totals.total);
    put_number(out, "units_paid", totals.units[ORDER_PAID]);
    put_number(out, "timeouts", totals.orders[ORDER_EXPIRED]);
    put_signed(out, "paid_cents", totals.paid_cents);
    put_number(out, "sell_through_permille", report_sold_permille(&totals));
    put_number(out, "unpaid_permille", report_unpaid_permille(&totals));
    put_number(out, "buyers_with_orders", summary->participants);
    put_number(out, "winners", summary->winners);
    put_number(out, "payers", summary->payers);
    put_number(out, "peak_orders_per_s", summary->peak_orders_per_s);
    put_signed(out, "peak_at_ms", summary->peak_at_ms);
    out_lit(out, ",\"booking_ms\":{\"count\":");
    out_u64(out, summary->booked);
    put_number(out, "p50", summary->booked_p50_ms);
    put_number(out, "p99", summary->booked_p99_ms);
    put_number(out, "max", summary->booked_max_ms);
    out_char(out, '}');
}

/* Several refusals may have the same code: each code is shown once, with their sum. */
static void put_rejects(struct out *out, const struct tally_sum *tally)
{
    bool first = true;
    out_lit(out, ",\"rejects\":{");
    for (unsigned i = 1; i < REFUSAL_COUNT; i++) {
        const char *code = refusal_text((enum refusal)i)->code;
        uint64_t sum = 0;
        bool seen = false;
        for (unsigned k = 1; k < REFUSAL_COUNT; k++) {
            bool same = strcmp(code, refusal_text((enum refusal)k)->code) == 0;
            seen = seen || (same && k < i);
            sum += same ? tally->refused[k] : 0;
        }
        if (!seen && sum > 0) {
            out_format(out, "%s\"%s\":", first ? "" : ",", code);
            out_u64(out, sum);
            first = false;
        }
    }
    out_char(out, '}');
}

/* What this process counted for the sale. The numbers from `locked` on come from the ledger. */
static void put_counted(struct out *out, const struct report *report)
{
    const struct tally_sum *tally = &report->tally;
    struct report_totals totals = report_total(&report->own);
    bool complete = report_counted_whole(report);
    out_lit(out, ",\"funnel\":{\"since_ms\":");
    out_i64(out, tally->since_ms);
    put_number(out, "requests", tally->counts[TALLY_ASKED]);
    put_number(out, "buyers_asking", tally_buyers(tally));
    put_number(out, "peak_requests_per_s", tally->peak_per_s);
    put_signed(out, "peak_at_ms", tally->peak_at_ms);
    put_number(out, "tickets", tally->counts[TALLY_TICKETS]);
    put_number(out, "accepted", tally->counts[TALLY_ACCEPTED]);
    put_number(out, "repeated", tally->counts[TALLY_REPEATED]);
    put_number(out, "locked", totals.booked);
    put_number(out, "paid", totals.orders[ORDER_PAID]);
    put_number(out, "expired", totals.orders[ORDER_EXPIRED]);
    put_number(out, "cancelled", totals.orders[ORDER_CANCELLED]);
    put_number(out, "failed", totals.orders[ORDER_FAILED]);
    out_format(out, ",\"from_the_start\":%s}", complete ? "true" : "false");
    out_lit(out, ",\"latencies\":{\"since_ms\":");
    out_i64(out, tally->since_ms);
    out_lit(out, ",\"buy_answer\":{\"count\":");
    out_u64(out, hist_count(&tally->answered));
    put_number(out, "p50_us", hist_quantile(&tally->answered, 0.5));
    put_number(out, "p99_us", hist_quantile(&tally->answered, 0.99));
    put_number(out, "p999_us", hist_quantile(&tally->answered, 0.999));
    out_lit(out, "}}");
    put_rejects(out, tally);
}

static void put_course(struct out *out, const char *name, const struct report_course *course)
{
    out_format(out, "\"%s\":{\"from_ms\":", name);
    out_i64(out, course->from_ms);
    put_signed(out, "step_ms", course->step_ms);
    out_lit(out, ",\"steps\":[");
    for (int i = 0; i < REPORT_STEPS; i++) {
        const struct series_row *step = &course->steps[i];
        out_text(out, i > 0 ? ",{\"orders\":" : "{\"orders\":");
        out_u64(out, step->orders);
        put_number(out, "taken", step->taken);
        put_number(out, "paid", step->paid);
        put_number(out, "returned", step->returned);
        out_char(out, '}');
    }
    out_lit(out, "]}");
}

static void put_faults(struct out *out, const struct report *report)
{
    out_lit(out, ",\"faults\":[");
    for (size_t i = 0; i < report->faults_count; i++) {
        const struct incident_log_entry *entry = &report->faults[i];
        out_text(out, i > 0 ? ",{\"at_ms\":" : "{\"at_ms\":");
        out_i64(out, entry->at_ms);
        put_text(out, "level", entry->level);
        put_text(out, "event", entry->event);
        put_text(out, "text", entry->text);
        out_char(out, '}');
    }
    out_char(out, ']');
    put_signed(out, "faults_since_ms", report->faults_since_ms);
}

static void put_report(struct out *out, struct api_worker *worker, const struct report *report)
{
    out_char(out, '{');
    put_part(out, &report->own);
    out_lit(out, ",\"items\":[");
    for (uint32_t i = 0; i < report->own.count; i++) {
        if (i > 0) {
            out_char(out, ',');
        }
        put_item(out, &report->own, &report->own.rows[i]);
    }
    out_char(out, ']');
    put_counted(out, report);
    out_lit(out, ",\"course\":{");
    put_course(out, "rush", &report->courses[COURSE_RUSH]);
    out_char(out, ',');
    put_course(out, "whole", &report->courses[COURSE_WHOLE]);
    out_char(out, '}');
    put_faults(out, report);
    if (report->previous.sale != NULL) {
        out_lit(out, ",\"previous\":{");
        put_part(out, &report->previous);
        put_number(out, "requests", report->previous_tally.counts[TALLY_ASKED]);
        put_number(out, "buyers_asking", tally_buyers(&report->previous_tally));
        out_char(out, '}');
    }
    out_lit(out, ",\"server\":{\"started_at_ms\":");
    out_i64(out, api_shared(worker)->started_at_ms);
    live_funnel(worker, out);
    out_lit(out, "}}");
}

/* ---- gathering ---- */

enum stage {
    STAGE_SALE,
    STAGE_ITEMS,
    STAGE_SUMMARY,
    STAGE_RUSH,
    STAGE_WHOLE,
    STAGE_PREVIOUS, /* the previous sale */
    STAGE_PREVIOUS_ITEMS,
    STAGE_PREVIOUS_SUMMARY,
    STAGE_DONE
};

static void report_free(struct report *report)
{
    if (report == NULL) {
        return;
    }
    sale_row_free(report->own.sale);
    sale_row_free(report->previous.sale);
    free(report->own.rows);
    free(report->previous.rows);
    free(report);
}

static void free_report(union api_context *context)
{
    report_free(context->report.report);
}

/* The ledger counts in steps of its own: the course begins with one of them. */
static int64_t begin_of(int64_t from_ms, int64_t step_ms)
{
    return from_ms - from_ms % series_width(step_ms);
}

/* Chooses a round step, so that REPORT_STEPS of them cover the time. */
static void set_course(struct report_course *course, int64_t from_ms, int64_t to_ms)
{
    static const int64_t steps_ms[] = {10,     20,      50,      100,      200,     500,    1000,
                                       2000,   5000,    10000,   30000,    60000,   120000, 300000,
                                       600000, 1800000, 3600000, 10800000, 86400000};
    size_t i = 0;
    while (i + 1 < sizeof(steps_ms) / sizeof(steps_ms[0]) &&
           steps_ms[i] * REPORT_STEPS <= to_ms - begin_of(from_ms, steps_ms[i])) {
        i++;
    }
    course->step_ms = steps_ms[i];
    while (course->step_ms * REPORT_STEPS <= to_ms - begin_of(from_ms, course->step_ms)) {
        course->step_ms += steps_ms[i]; /* months: whole days */
    }
    course->from_ms = begin_of(from_ms, course->step_ms);
}

static void set_courses(struct report *report)
{
    struct report_totals totals = report_total(&report->own);
    const struct sale_row *sale = report->own.sale;
    int64_t first_ms = totals.first_ms != 0 ? totals.first_ms : sale->starts_at_ms;
    int64_t last_ms = totals.last_ms != 0 ? totals.last_ms : first_ms;
    int64_t begins_ms = sale->starts_at_ms < first_ms ? sale->starts_at_ms : first_ms;
    int64_t ends_ms = last_ms + (int64_t)sale->pay_within_s * 1000;
    ends_ms = ends_ms < report->now_ms ? ends_ms : report->now_ms;
    set_course(&report->courses[COURSE_RUSH], first_ms, last_ms);
    set_course(&report->courses[COURSE_WHOLE], begins_ms, ends_ms > last_ms ? ends_ms : last_ms);
}

static enum http_outcome read_stage(struct api_request *req, struct report *report,
                                    enum stage stage);

/* Adds this process's counts, and the faults from shortly before the start until the last order's
 * deadline or until now. */
static void add_own(struct api_worker *worker, struct report *report)
{
    const struct sale_row *sale = report->own.sale;
    struct tally_book *tallies = api_shared(worker)->tallies;
    int64_t to_ms = sale->ends_at_ms + (int64_t)sale->pay_within_s * 1000;
    report->faults_count = incident_log_list(sale->starts_at_ms - BEFORE_MS,
                                             to_ms < report->now_ms ? to_ms : report->now_ms,
                                             sale->id, report->faults, REPORT_FAULTS);
    report->faults_since_ms = incident_log_since_ms();
    if (tallies != NULL) {
        tally_read(tallies, sale->id, &report->tally);
        if (report->previous.sale != NULL) {
            tally_read(tallies, report->previous.sale->id, &report->previous_tally);
        }
    }
}

static enum http_outcome answer(struct api_request *req, struct report *report)
{
    struct api_worker *worker = req->worker;
    add_own(worker, report);
    struct out body = api_scratch(worker);
    if (report->html) {
        report_html(report, &body);
    } else {
        put_report(&body, worker, report);
    }
    if (body.overflow) {
        (void)api_refuse_simply(worker, req->exchange, REFUSAL_TOO_LARGE,
                                "the report is too large to show");
    } else if (report->html) {
        (void)http_answer(api_server(worker), req->exchange, 200, "text/html; charset=utf-8",
                          "Cache-Control: no-store\r\nX-Content-Type-Options: nosniff\r\n"
                          "Content-Security-Policy: default-src 'none'; style-src "
                          "'unsafe-inline'\r\n",
                          out_span(&body));
    } else {
        (void)api_json(worker, req->exchange, 200, "", NULL, out_span(&body));
    }
    report_free(report);
    return HTTP_ANSWERED;
}

/* Moves what a query found into the report. */
static void take(struct report *report, enum stage stage, struct ledger_query *q)
{
    struct report_part *part = stage >= STAGE_PREVIOUS ? &report->previous : &report->own;
    switch (stage) {
    case STAGE_SALE:
    case STAGE_PREVIOUS:
        part->sale = q->count > 0 ? q->sales[0] : NULL;
        q->count = 0;
        break;
    case STAGE_ITEMS:
    case STAGE_PREVIOUS_ITEMS:
        part->rows = q->report;
        part->count = q->count;
        q->report = NULL;
        break;
    case STAGE_SUMMARY:
    case STAGE_PREVIOUS_SUMMARY:
        part->summary = q->summary;
        break;
    case STAGE_RUSH:
    case STAGE_WHOLE:
        memcpy(report->courses[stage - STAGE_RUSH].steps, q->series,
               sizeof(report->courses[0].steps));
        break;
    case STAGE_DONE:
        break;
    }
}

static enum http_outcome stage_read(struct api_request *req, struct api_operation *operation)
{
    struct ledger_query *q = &operation->read.query;
    enum stage stage = (enum stage)operation->context.report.stage;
    struct report *report = operation->context.report.report;
    if (q->error == ERR_NOTFOUND || (q->error == 0 && stage == STAGE_SALE && q->count == 0)) {
        return api_refuse_simply(req->worker, req->exchange, REFUSAL_NOT_FOUND, "no such sale");
    }
    if (q->error != 0) {
        return api_refuse_simply(req->worker, req->exchange, REFUSAL_DEGRADED, LEDGER_UNREACHABLE);
    }
    take(report, stage, q);
    operation->context.report.report = NULL; /* the next operation owns it */
    if (stage == STAGE_ITEMS) {
        set_courses(report);
    }
    bool alone = stage == STAGE_WHOLE && report->own.summary.previous == 0;
    bool gone = stage == STAGE_PREVIOUS && report->previous.sale == NULL;
    return read_stage(req, report, alone || gone ? STAGE_DONE : stage + 1);
}

/* Submits the query of a stage, or answers when all are done. Owns the report. */
static enum http_outcome read_stage(struct api_request *req, struct report *report,
                                    enum stage stage)
{
    static const enum ledger_query_kind kinds[] = {[STAGE_SALE] = QUERY_SALES,
                                                   [STAGE_ITEMS] = QUERY_REPORT,
                                                   [STAGE_SUMMARY] = QUERY_SUMMARY,
                                                   [STAGE_RUSH] = QUERY_SERIES,
                                                   [STAGE_WHOLE] = QUERY_SERIES,
                                                   [STAGE_PREVIOUS] = QUERY_SALES,
                                                   [STAGE_PREVIOUS_ITEMS] = QUERY_REPORT,
                                                   [STAGE_PREVIOUS_SUMMARY] = QUERY_SUMMARY};
    if (stage == STAGE_DONE) {
        return answer(req, report);
    }
    CHECK((size_t)stage < sizeof(kinds) / sizeof(kinds[0]));
    enum ledger_query_kind kind = kinds[stage];
    uint32_t limit = kind == QUERY_REPORT   ? ITEMS_PER_SALE_MAX
                     : kind == QUERY_SERIES ? REPORT_STEPS
                                            : 1;
    struct api_operation *operation =
        api_read_operation(req, kind, limit, BUDGET_OPERATOR, stage_read);
    if (operation == NULL) {
        report_free(report);
        return api_refuse_simply(req->worker, req->exchange, REFUSAL_OVERLOADED, NULL);
    }
    operation->context.report.report = report;
    operation->context.report.stage = stage;
    operation->free_context = free_report;
    struct ledger_query *q = &operation->read.query;
    q->sale = stage >= STAGE_PREVIOUS ? report->own.summary.previous : report->sale_id;
    if (kind == QUERY_SERIES) {
        q->from_ms = report->courses[stage - STAGE_RUSH].from_ms;
        q->step_ms = report->courses[stage - STAGE_RUSH].step_ms;
        q->and_later = stage == STAGE_WHOLE; /* the rush ends with its last step */
    }
    return api_submit(req, operation);
}

enum http_outcome handle_report(struct api_request *req)
{
    uint64_t sale = 0;
    struct span format = query_value(req->request->query, "format");
    struct span lang = query_value(req->request->query, "lang");
    if (part_id(req->part[0], &sale) != 0) {
        return api_refuse_simply(req->worker, req->exchange, REFUSAL_NOT_FOUND, "no such sale");
    }
    if (format.at != NULL && !span_is(format, "json") && !span_is(format, "html")) {
        return api_refuse_field(req->worker, req->exchange, "format",
                                "format must be json or html");
    }
    if (lang.at != NULL && !span_is(lang, "en") && !span_is(lang, "zh")) {
        return api_refuse_field(req->worker, req->exchange, "lang", "lang must be en or zh");
    }
    struct report *report = calloc(1, sizeof(*report));
    if (report == NULL) {
        return api_refuse_simply(req->worker, req->exchange, REFUSAL_OVERLOADED, NULL);
    }
    report->html = format.at != NULL && span_is(format, "html");
    report->chinese = lang.at != NULL && span_is(lang, "zh");
    report->now_ms = req->now_ms;
    report->sale_id = sale;
    return read_stage(req, report, STAGE_SALE);
}
