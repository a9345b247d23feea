/*
 * Sums and prints the numbers of metrics.h. Reading never stops a thread that counts. The text is
 * made on request. Only metrics_init can fail.
 */
#include "obs/metrics.h"

#include <stdlib.h>
#include <string.h>

#include "base/err.h"
#include "base/version.h"

/* Histograms are shown from 2^6 to 2^24 microseconds (64 us to 17 s), at each power of two. */
#define SHOWN_BITS_MIN 6
#define SHOWN_BITS_MAX 24

int metrics_init(struct metrics *metrics, unsigned slots)
{
    size_t bytes = sizeof(struct metrics_slot) * slots;
    struct metrics_slot *memory = aligned_alloc(_Alignof(struct metrics_slot), bytes);
    if (memory == NULL) {
        return ERR_NOMEM;
    }
    memset(memory, 0, bytes);
    *metrics = (struct metrics){.slots = memory, .count = slots};
    return 0;
}

void metrics_done(struct metrics *metrics)
{
    free(metrics->slots);
    *metrics = (struct metrics){.slots = NULL};
}

uint64_t metrics_sum(const struct metrics *metrics, enum metric metric)
{
    uint64_t sum = 0;
    for (unsigned i = 0; i < metrics->count; i++) {
        sum += atomic_load_explicit(&metrics->slots[i].values[metric], memory_order_relaxed);
    }
    return sum;
}

uint64_t metrics_refused(const struct metrics *metrics, unsigned refusal)
{
    CHECK(refusal < METRICS_REFUSALS_MAX);
    uint64_t sum = 0;
    for (unsigned i = 0; i < metrics->count; i++) {
        sum += atomic_load_explicit(&metrics->slots[i].refused[refusal], memory_order_relaxed);
    }
    return sum;
}

void metrics_hist(const struct metrics *metrics, enum metric_hist hist, struct hist *ret_hist)
{
    hist_clear(ret_hist);
    for (unsigned i = 0; i < metrics->count; i++) {
        hist_merge(ret_hist, &metrics->slots[i].hists[hist]);
    }
}

static void put_head(struct out *out, const char *name, const char *type, const char *help)
{
    out_format(out, "# HELP %s %s\n# TYPE %s %s\n", name, help, name, type);
}

static void put_counter(struct out *out, const char *name, const char *help, uint64_t value)
{
    put_head(out, name, "counter", help);
    out_format(out, "%s %llu\n", name, (unsigned long long)value);
}

/* A slot's share may be negative; only the sum has a meaning. */
static void put_gauge(struct out *out, const char *name, const char *help, uint64_t value)
{
    put_head(out, name, "gauge", help);
    out_format(out, "%s %lld\n", name, (long long)value);
}

static void put_known(struct out *out, const char *name, const char *help, uint64_t value)
{
    if (value != 0) {
        put_gauge(out, name, help, value - 1);
    }
}

static void put_seconds(struct out *out, uint64_t us)
{
    out_format(out, "%llu.%06llu", (unsigned long long)(us / 1000000),
               (unsigned long long)(us % 1000000));
}

/* A whole number of microseconds below 2^b is a time below 2^b microseconds: the bounds are
 * exact. */
static void put_hist(struct out *out, const char *name, const char *help, const struct hist *hist)
{
    uint64_t count = hist_count(hist);
    put_head(out, name, "histogram", help);
    for (unsigned bits = SHOWN_BITS_MIN; bits <= SHOWN_BITS_MAX; bits++) {
        out_format(out, "%s_bucket{le=\"", name);
        put_seconds(out, 1ULL << bits);
        out_format(out, "\"} %llu\n", (unsigned long long)hist_count_below(hist, bits));
    }
    out_format(out, "%s_bucket{le=\"+Inf\"} %llu\n", name, (unsigned long long)count);
    out_format(out, "%s_sum ", name);
    put_seconds(out, hist_sum(hist));
    out_format(out, "\n%s_count %llu\n", name, (unsigned long long)count);
}

/* Several refusals may share a code. It is shown once, with their sum. */
static bool shown_before(metrics_refusal_name *name, unsigned refusal)
{
    for (unsigned i = 0; i < refusal; i++) {
        if (strcmp(name(i), name(refusal)) == 0) {
            return true;
        }
    }
    return false;
}

static void put_refusals(const struct metrics *metrics, metrics_refusal_name *name, struct out *out)
{
    put_head(out, "sluice_refused_total", "counter", "requests refused, by the refusal's code");
    for (unsigned i = 0; i < METRICS_REFUSALS_MAX && name(i) != NULL; i++) {
        if (shown_before(name, i)) {
            continue;
        }
        uint64_t sum = 0;
        for (unsigned k = i; k < METRICS_REFUSALS_MAX && name(k) != NULL; k++) {
            sum += strcmp(name(i), name(k)) == 0 ? metrics_refused(metrics, k) : 0;
        }
        out_format(out, "sluice_refused_total{code=\"%s\"} %llu\n", name(i),
                   (unsigned long long)sum);
    }
}

#define PUT_COUNTER(name, shown, help)                                                             \
    put_counter(out, shown, help, metrics_sum(metrics, METRIC_##name));
#define PUT_GAUGE(name, shown, help)                                                               \
    put_gauge(out, shown, help, metrics_sum(metrics, METRIC_##name));
#define PUT_KNOWN(name, shown, help)                                                               \
    put_known(out, shown, help, metrics_sum(metrics, METRIC_##name));
#define PUT_HISTOGRAM(name, shown, help)                                                           \
    metrics_hist(metrics, HIST_##name, &hist);                                                     \
    put_hist(out, shown, help, &hist);

void metrics_render(const struct metrics *metrics, metrics_refusal_name *name, struct out *out)
{
    struct hist hist; /* summed over the slots first, so that all its lines agree */
    put_head(out, "sluice_build_info", "gauge", "the version that runs");
    out_lit(out, "sluice_build_info{version=\"" SLUICE_VERSION "\"} 1\n");
#define X(kind, id, shown, help) PUT_##kind(id, shown, help)
    METRICS(X)
#undef X
    put_refusals(metrics, name, out);
}

void metrics_render_bounds(const struct metrics *metrics, metrics_refusal_name *name,
                           struct out *out)
{
    put_head(out, "sluice_full_total", "counter",
             "requests refused with overloaded because this was full");
    for (unsigned i = 1; i < METRICS_BOUNDS_MAX && name(i) != NULL; i++) {
        uint64_t sum = 0;
        for (unsigned k = 0; k < metrics->count; k++) {
            sum += atomic_load_explicit(&metrics->slots[k].full[i], memory_order_relaxed);
        }
        out_format(out, "sluice_full_total{bound=\"%s\"} %llu\n", name(i), (unsigned long long)sum);
    }
}

uint64_t metrics_layer_sum(const struct metrics *metrics, unsigned layer,
                           enum metrics_outcome outcome)
{
    uint64_t sum = 0;
    for (unsigned i = 0; i < metrics->count; i++) {
        sum +=
            atomic_load_explicit(&metrics->slots[i].layers[layer][outcome], memory_order_relaxed);
    }
    return sum;
}

void metrics_render_layers(const struct metrics *metrics, metrics_refusal_name *name,
                           struct out *out)
{
    static const char *const outcomes[METRICS_OUTCOMES] = {"passed", "refused"};
    put_head(out, "sluice_admission_total", "counter",
             "requests that a layer of admission let through or refused");
    for (unsigned layer = 0; layer < METRICS_LAYERS_MAX && name(layer) != NULL; layer++) {
        for (int outcome = 0; outcome < METRICS_OUTCOMES; outcome++) {
            out_format(out, "sluice_admission_total{layer=\"%s\",outcome=\"%s\"} %llu\n",
                       name(layer), outcomes[outcome],
                       (unsigned long long)metrics_layer_sum(metrics, layer, outcome));
        }
    }
}

const char *metrics_pool_text(enum metrics_pool pool)
{
    static const char *const texts[] = {
#define X(name, text) text,
        METRICS_POOLS(X)
#undef X
    };
    CHECK((unsigned)pool < POOL_COUNT);
    return texts[pool];
}

struct metrics_level metrics_level(const struct metrics *metrics, enum metrics_pool pool)
{
    struct metrics_level level = {0, 0};
    for (unsigned i = 0; i < metrics->count; i++) {
        const struct metrics_slot *slot = &metrics->slots[i];
        level.used += atomic_load_explicit(&slot->pool_used[pool], memory_order_relaxed);
        level.size += atomic_load_explicit(&slot->pool_size[pool], memory_order_relaxed);
    }
    return level;
}

static void put_pools(const struct metrics *metrics, const char *name, const char *help, bool size,
                      struct out *out)
{
    put_head(out, name, "gauge", help);
    for (unsigned i = 0; i < POOL_COUNT; i++) {
        struct metrics_level level = metrics_level(metrics, (enum metrics_pool)i);
        if (level.size > 0) {
            out_format(out, "%s{pool=\"%s\"} %llu\n", name, metrics_pool_text((enum metrics_pool)i),
                       (unsigned long long)(size ? level.size : level.used));
        }
    }
}

void metrics_render_pools(const struct metrics *metrics, struct out *out)
{
    put_pools(metrics, "sluice_pool_used", "entries of a bounded pool in use", false, out);
    put_pools(metrics, "sluice_pool_size", "entries that a bounded pool has", true, out);
}
