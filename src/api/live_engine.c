/* The engine's own parts in the dashboard's feed; see live.h. */
#include "api/live.h"
#include "base/bytes.h"

static void put_number(struct out *out, const char *name, uint64_t value)
{
    out_format(out, ",\"%s\":", name);
    out_u64(out, value);
}

static void put_text(struct out *out, const char *name, const char *text)
{
    out_format(out, ",\"%s\":", name);
    out_json_string(out, span_of(text));
}

/* The state of a segment in one word: the worst that applies. */
static const char *segment_word(const struct cluster_status_segment *segment)
{
    return segment->away     ? "away"
           : segment->lost   ? "lost"
           : segment->closed ? "rebuilding"
                             : "home";
}

static void put_segments(struct out *out, const struct cluster_status_sample *sample)
{
    uint64_t depth = 0;
    uint64_t lag_ms = 0;
    bool all_known = true;
    out_lit(out, ",\"segments\":[");
    for (uint32_t i = 0; i < sample->segments_count; i++) {
        const struct cluster_status_segment *segment = &sample->segments[i];
        out_text(out, i > 0 ? ",{\"id\":" : "{\"id\":");
        out_u64(out, i);
        put_text(out, "state", segment_word(segment));
        if (segment->known) {
            put_number(out, "epoch", segment->epoch);
            put_number(out, "outbox", segment->outbox);
            put_number(out, "lag_ms", segment->lag_ms);
        }
        if (segment->has_stock) {
            put_number(out, "available", segment->available);
            put_number(out, "locked", segment->locked);
            put_number(out, "sold", segment->sold);
        }
        if (segment->address[0] != '\0') {
            put_text(out, "address", segment->address);
        }
        out_char(out, '}');
        all_known = all_known && segment->known;
        depth += segment->outbox;
        lag_ms = segment->lag_ms > lag_ms ? segment->lag_ms : lag_ms;
    }
    out_char(out, ']');
    if (all_known) {
        out_lit(out, ",\"outbox\":{\"depth\":");
        out_u64(out, depth);
        put_number(out, "lag_ms", lag_ms);
        out_char(out, '}');
    }
}

static void put_queue(struct out *out, const char *name, const struct cluster_status_queue *queue)
{
    if (!queue->exists || (queue->at_ms == 0 && !queue->away)) {
        return; /* there is no such queue, or it was not sampled yet */
    }
    out_format(out, ",\"%s\":{\"away\":%s", name, queue->away ? "true" : "false");
    if (queue->at_ms == 0) {
        out_char(out, '}');
        return;
    }
    put_number(out, "ready", queue->depths.ready);
    put_number(out, "retry", queue->depths.retry);
    put_number(out, "parked", queue->depths.parked);
    put_number(out, "consumers", queue->depths.consumers);
    out_char(out, '}');
}

static void put_troubles(struct out *out, const struct cluster_status_sample *sample)
{
    bool any = false;
    out_lit(out, ",\"troubles\":[");
    for (int i = 0; i < TROUBLE_COUNT; i++) {
        const struct cluster_trouble_state *trouble = &sample->troubles[i];
        if (!trouble->is_on) {
            continue;
        }
        out_text(out, any ? ",{\"what\":" : "{\"what\":");
        out_json_string(out, span_of(cluster_trouble_text((enum cluster_trouble)i)));
        out_lit(out, ",\"since_ms\":");
        out_i64(out, trouble->since_ms);
        put_number(out, "n", trouble->n);
        out_char(out, '}');
        any = true;
    }
    out_char(out, ']');
}

static void put_leases(struct out *out, const struct cluster_status_sample *sample)
{
    out_lit(out, ",\"leases\":[");
    for (uint32_t i = 0; i < sample->leases_count; i++) {
        const struct lease_row *lease = &sample->leases[i];
        out_text(out, i > 0 ? ",{\"name\":" : "{\"name\":");
        out_json_string(out, span_of(lease->name));
        put_text(out, "holder", lease->holder);
        put_number(out, "token", lease->token);
        out_lit(out, ",\"until_ms\":");
        out_i64(out, lease->until_ms);
        out_char(out, '}');
    }
    out_char(out, ']');
}

/* The threads of this process. A relay or booker that has done nothing yet is left out. */
static void put_workers(struct out *out, const struct metrics *metrics)
{
    out_lit(out, ",\"spool\":{\"promises\":");
    out_u64(out, metrics_sum(metrics, METRIC_SPOOL_ENTRIES));
    put_number(out, "in_line", metrics_sum(metrics, METRIC_SPOOL_UNDECIDED));
    out_char(out, '}');
    if (metrics_sum(metrics, METRIC_RELAY_TAKEN_TOTAL) > 0) {
        out_lit(out, ",\"relay\":{\"under_way\":");
        out_u64(out, metrics_sum(metrics, METRIC_RELAY_UNDER_WAY));
        put_number(out, "confirmed", metrics_sum(metrics, METRIC_RELAY_CONFIRMED_TOTAL));
        put_number(out, "unconfirmed", metrics_sum(metrics, METRIC_RELAY_UNCONFIRMED_TOTAL));
        out_char(out, '}');
    }
    if (metrics_sum(metrics, METRIC_ORDER_CONSUMER_BOOKED_TOTAL) > 0) {
        out_lit(out, ",\"booker\":{\"booked\":");
        out_u64(out, metrics_sum(metrics, METRIC_ORDER_CONSUMER_BOOKED_TOTAL));
        put_number(out, "retried", metrics_sum(metrics, METRIC_ORDER_CONSUMER_RETRIED_TOTAL));
        out_char(out, '}');
    }
}

void live_engine(struct api_worker *worker, struct out *out)
{
    static _Thread_local struct cluster_status_sample sample; /* too large for the stack */
    struct api_shared *shared = api_shared(worker);
    if (shared->cluster_status == NULL) {
        out_lit(out, ",\"engine\":\"embedded\"");
        return;
    }
    out_lit(out, ",\"engine\":\"distributed\"");
    cluster_status_read(shared->cluster_status, &sample);
    if (sample.segments_at_ms != 0) {
        put_segments(out, &sample);
    }
    put_queue(out, "queue", &sample.queues[PARKED_MESSAGES_ORDERS]);
    put_queue(out, "payments_queue", &sample.queues[PARKED_MESSAGES_PAYMENTS]);
    if (sample.leases_at_ms != 0) {
        put_leases(out, &sample);
    }
    put_troubles(out, &sample);
    if (sample.ledger_away) {
        out_lit(out, ",\"ledger_away\":true");
    }
    put_workers(out, shared->metrics);
}
