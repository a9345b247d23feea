/* Sums over seeds and their distribution, as a table or as JSON. */
#include <inttypes.h>
#include <stdlib.h>

#include "driver.h"

uint64_t faults_of(const struct sim_result *result)
{
    uint64_t sum = 0;
    for (int i = 0; i < FAULT_COUNT; i++) {
        sum += result->faults[i];
    }
    return sum;
}

static uint64_t mix(uint64_t z)
{
    z = (z ^ z >> 30) * 0xbf58476d1ce4e5b9ULL;
    z = (z ^ z >> 27) * 0x94d049bb133111ebULL;
    return z ^ z >> 31;
}

void figures_add(struct figures *figures, uint64_t seed, const struct sim_result *result)
{
    figures->seeds++;
    figures->requests += result->requests;
    figures->answers += result->answers;
    figures->decisions += result->decisions;
    figures->orders += result->orders;
    figures->steps += result->steps;
    figures->restarts += result->restarts;
    figures->virtual_us += result->virtual_us;
    figures->hash += mix(result->hash + mix(seed));
    for (int i = 0; i < FAULT_COUNT; i++) {
        figures->faults[i] += result->faults[i];
    }
    for (int i = 0; i < ORDER_STATE_COUNT; i++) {
        figures->states[i] += result->states[i];
    }
}

void figures_sum(struct figures *figures, const struct figures *more)
{
    figures->seeds += more->seeds;
    figures->requests += more->requests;
    figures->answers += more->answers;
    figures->decisions += more->decisions;
    figures->orders += more->orders;
    figures->steps += more->steps;
    figures->restarts += more->restarts;
    figures->virtual_us += more->virtual_us;
    figures->hash += more->hash;
    for (int i = 0; i < FAULT_COUNT; i++) {
        figures->faults[i] += more->faults[i];
    }
    for (int i = 0; i < ORDER_STATE_COUNT; i++) {
        figures->states[i] += more->states[i];
    }
}

/* ---- how a number is spread over the seeds ---- */

struct spread {
    uint32_t min, median, p90, max;
};

static int number_order(const void *a, const void *b)
{
    uint32_t x = *(const uint32_t *)a;
    uint32_t y = *(const uint32_t *)b;
    return x < y ? -1 : x > y;
}

static uint32_t requests_of_seed(const struct seed_figures *seed)
{
    return seed->requests;
}

static uint32_t faults_of_seed(const struct seed_figures *seed)
{
    return seed->faults;
}

static uint32_t restarts_of_seed(const struct seed_figures *seed)
{
    return seed->restarts;
}

static struct spread spread_of(const struct pool_result *result,
                               uint32_t (*number)(const struct seed_figures *seed))
{
    struct spread spread = {0, 0, 0, 0};
    uint32_t *numbers = malloc((result->begun + 1) * sizeof(*numbers));
    size_t n = 0;
    for (uint64_t i = 0; numbers != NULL && i < result->begun; i++) {
        if (result->seeds[i].done) {
            numbers[n++] = number(&result->seeds[i]);
        }
    }
    if (n > 0) {
        qsort(numbers, n, sizeof(*numbers), number_order);
        spread = (struct spread){numbers[0], numbers[n / 2], numbers[n * 9 / 10], numbers[n - 1]};
    }
    free(numbers);
    return spread;
}

static const struct {
    const char *name;
    uint32_t (*number)(const struct seed_figures *seed);
} spreads[] = {
    {"requests", requests_of_seed},
    {"faults", faults_of_seed},
    {"restarts", restarts_of_seed},
};
#define SPREADS (sizeof(spreads) / sizeof(spreads[0]))

/* ---- as a table ---- */

/* 1234567 as 1,234,567. */
static const char *grouped(uint64_t number, char text[32])
{
    char digits[24];
    int n = snprintf(digits, sizeof(digits), "%" PRIu64, number);
    char *at = text;
    for (int i = 0; i < n; i++) {
        if (i > 0 && (n - i) % 3 == 0) {
            *at++ = ',';
        }
        *at++ = digits[i];
    }
    *at = '\0';
    return text;
}

static void row(FILE *out, const char *name, uint64_t number)
{
    char text[32];
    (void)fprintf(out, "%-38s %15s\n", name, grouped(number, text));
}

static double per_second(uint64_t number, int64_t took_us)
{
    return took_us > 0 ? (double)number * 1e6 / (double)took_us : 0;
}

void print_figures(FILE *out, const struct pool_plan *plan, const struct pool_result *result)
{
    const struct figures *figures = &result->figures;
    row(out, "seeds", figures->seeds);
    row(out, "requests", figures->requests);
    row(out, "answers", figures->answers);
    row(out, "decisions", figures->decisions);
    row(out, "decisions a second", (uint64_t)per_second(figures->decisions, result->took_us));
    row(out, "orders", figures->orders);
    row(out, "steps", figures->steps);
    row(out, "restarts from disk", figures->restarts);
    (void)fprintf(out, "%-38s %15.1f\n", "virtual hours", (double)figures->virtual_us / 3.6e9);
    (void)fprintf(out, "%-38s %15.1f\n", "wall time, s", (double)result->took_us / 1e6);
    (void)fprintf(out, "%-38s %15.1f\n", "CPU time of the workers, s",
                  (double)result->cpu_us / 1e6);
    (void)fprintf(out, "%-38s %15u\n", "workers", plan->jobs);
    (void)fprintf(out, "%-37s %016" PRIx64 "\n", "hash of all", figures->hash);
    (void)fprintf(out, "faults\n");
    for (int i = 0; i < FAULT_COUNT; i++) {
        char name[64];
        (void)snprintf(name, sizeof(name), "  %s", sim_fault_text((enum sim_fault)i));
        row(out, name, figures->faults[i]);
    }
    (void)fprintf(out, "how orders ended\n");
    for (int i = 0; i < ORDER_STATE_COUNT; i++) {
        char name[64];
        (void)snprintf(name, sizeof(name), "  %s", order_state_text((enum order_state)i));
        row(out, name, figures->states[i]);
    }
    (void)fprintf(out, "%-16s %10s %10s %10s %10s\n", "over the seeds", "min", "median", "p90",
                  "max");
    for (size_t i = 0; i < SPREADS; i++) {
        struct spread spread = spread_of(result, spreads[i].number);
        (void)fprintf(out, "  %-14s %10u %10u %10u %10u\n", spreads[i].name, spread.min,
                      spread.median, spread.p90, spread.max);
    }
}

/* ---- as JSON ---- */

static void put_string(FILE *out, const char *text)
{
    (void)fputc('"', out);
    for (; *text != '\0'; text++) {
        unsigned char c = (unsigned char)*text;
        if (c == '"' || c == '\\') {
            (void)fprintf(out, "\\%c", c);
        } else if (c < 0x20 || c > 0x7e) {
            (void)fprintf(out, "\\u%04x", c);
        } else {
            (void)fputc(c, out);
        }
    }
    (void)fputc('"', out);
}

static void put_failures(FILE *out, const struct pool_result *result)
{
    (void)fprintf(out, "\"failures\":[");
    for (size_t i = 0; i < result->failures_count; i++) {
        const struct failure *failure = &result->failures[i];
        (void)fprintf(out, "%s{\"seed\":%" PRIu64 ",\"promise\":", i > 0 ? "," : "", failure->seed);
        if (failure->promise == PROMISE_CRASH) {
            (void)fprintf(out, "\"crash\"");
        } else {
            (void)fprintf(out, "%d", failure->promise);
        }
        (void)fprintf(out, ",\"what\":");
        put_string(out, failure->what);
        (void)fputc('}', out);
    }
    (void)fprintf(out, "],\"failures_more\":%" PRIu64, result->failures_more);
}

static void put_number(FILE *out, const char *name, uint64_t number)
{
    (void)fputc(',', out);
    put_string(out, name);
    (void)fprintf(out, ":%" PRIu64, number);
}

static void put_counts(FILE *out, const struct figures *figures)
{
    (void)fprintf(out, ",\"faults\":{");
    for (int i = 0; i < FAULT_COUNT; i++) {
        (void)fprintf(out, "%s", i > 0 ? "," : "");
        put_string(out, sim_fault_text((enum sim_fault)i));
        (void)fprintf(out, ":%" PRIu64, figures->faults[i]);
    }
    (void)fprintf(out, "},\"orders_ended\":{");
    for (int i = 0; i < ORDER_STATE_COUNT; i++) {
        (void)fprintf(out, "%s", i > 0 ? "," : "");
        put_string(out, order_state_text((enum order_state)i));
        (void)fprintf(out, ":%" PRIu64, figures->states[i]);
    }
    (void)fputc('}', out);
}

void print_json(FILE *out, const struct pool_plan *plan, const struct pool_result *result)
{
    const struct figures *figures = &result->figures;
    (void)fputc('{', out);
    put_failures(out, result);
    put_number(out, "first", plan->first);
    put_number(out, "seeds", figures->seeds);
    put_number(out, "requests", figures->requests);
    put_number(out, "answers", figures->answers);
    put_number(out, "decisions", figures->decisions);
    put_number(out, "orders", figures->orders);
    put_number(out, "steps", figures->steps);
    put_number(out, "restarts", figures->restarts);
    put_number(out, "workers", plan->jobs);
    (void)fprintf(out,
                  ",\"virtual_hours\":%.3f,\"wall_s\":%.3f,\"cpu_s\":%.3f,\"decisions_per_s\":%.1f",
                  (double)figures->virtual_us / 3.6e9, (double)result->took_us / 1e6,
                  (double)result->cpu_us / 1e6, per_second(figures->decisions, result->took_us));
    (void)fprintf(out, ",\"hash\":\"%016" PRIx64 "\"", figures->hash);
    put_counts(out, figures);
    (void)fprintf(out, ",\"over_seeds\":{");
    for (size_t i = 0; i < SPREADS; i++) {
        struct spread spread = spread_of(result, spreads[i].number);
        (void)fprintf(out, "%s\"%s\":{\"min\":%u,\"median\":%u,\"p90\":%u,\"max\":%u}",
                      i > 0 ? "," : "", spreads[i].name, spread.min, spread.median, spread.p90,
                      spread.max);
    }
    (void)fprintf(out, "}}\n");
}

/* ---- whether a seed was through enough ---- */

bool result_full(const struct sim_result *result, char *text, size_t size)
{
    uint64_t faults = faults_of(result);
    if (result->requests >= REQUESTS_LEAST && faults >= FAULTS_LEAST &&
        result->restarts >= RESTARTS_LEAST) {
        return true;
    }
    (void)snprintf(text, size,
                   "the seed was through too little: %" PRIu64 " requests, %" PRIu64
                   " faults, %" PRIu64 " restarts",
                   result->requests, faults, result->restarts);
    return false;
}
