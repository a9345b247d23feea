/* See rate_limit.h. A cell is read and written through memcpy-free casts: its memory is aligned to 8
 * bytes and belongs to one rule. */
#include "core/rate_limit.h"

#include "base/check.h"

#define SECOND_US 1000000ULL
#define PARTS 64U /* of a window that counts by part */
#define PARTS_KEPT                                                                                 \
    (PARTS + 1) /* a window covers at most so many parts, the first and the last in part */

const char *rate_algorithm_text(enum rate_algorithm algorithm)
{
    static const char *const texts[] = {
#define X(name, text) text,
        RATE_ALGORITHMS(X)
#undef X
    };
    CHECK((unsigned)algorithm < RATE_ALGORITHM_COUNT);
    return texts[algorithm];
}

/* Both buckets. `used` is what requests have put in and time has not yet taken out, in requests times
 * per_us, so that no division loses anything. */
struct bucket {
    uint64_t used;
    int64_t at_us;
};

/* The requests of the window, oldest at `head`. */
struct window_log {
    uint32_t head;
    uint32_t count;
    int64_t at_us[];
};

/* The requests of the window by part. Part n begins at n * per_us / PARTS. */
struct window_parts {
    int64_t newest; /* number of the newest part counted */
    uint32_t counts[PARTS_KEPT];
    uint32_t total;
};
_Static_assert(sizeof(struct window_parts) <= RATE_CELL_MAX, "RATE_CELL_MAX is the most");
_Static_assert(sizeof(struct window_parts) % 8 == 0, "cells stay aligned");

static uint64_t per_us(const struct rate_rule *rule)
{
    return rule->per_s * SECOND_US;
}

static bool counts_by_part(const struct rate_rule *rule)
{
    return rule->rate > RATE_LOG_MAX;
}

size_t rate_cell_bytes(const struct rate_rule *rule)
{
    if (rule->algorithm != RATE_SLIDING_WINDOW) {
        return sizeof(struct bucket);
    }
    return counts_by_part(rule) ? sizeof(struct window_parts)
                                : sizeof(struct window_log) + (size_t)rule->rate * sizeof(int64_t);
}

/* ---- buckets ---- */

static int64_t divide_up(uint64_t a, uint64_t b)
{
    return (int64_t)((a + b - 1) / b);
}

/* Takes out what time has taken out since. */
static void bucket_drain(const struct rate_rule *rule, struct bucket *bucket, int64_t now_us)
{
    if (now_us <= bucket->at_us) {
        return;
    }
    uint64_t elapsed_us = (uint64_t)(now_us - bucket->at_us);
    uint64_t empty_us = bucket->used / rule->rate + 1;
    bucket->used = elapsed_us >= empty_us ? 0 : bucket->used - elapsed_us * rule->rate;
    bucket->at_us = now_us;
}

static void token_bucket(const struct rate_rule *rule, struct bucket *bucket, int64_t now_us,
                         struct rate_outcome *ret_outcome)
{
    uint64_t one = per_us(rule);
    uint64_t all = rule->burst * one;
    bucket_drain(rule, bucket, now_us);
    if (bucket->used + one > all) {
        ret_outcome->retry_us = divide_up(bucket->used + one - all, rule->rate);
    } else {
        bucket->used += one;
        ret_outcome->passed = true;
        ret_outcome->remaining = (all - bucket->used) / one;
    }
    ret_outcome->reset_us = divide_up(bucket->used, rule->rate);
}

static void leaky_bucket(const struct rate_rule *rule, struct bucket *bucket, int64_t now_us,
                         struct rate_outcome *ret_outcome)
{
    uint64_t one = per_us(rule);
    uint64_t most = rule->burst * one; /* before the request */
    bucket_drain(rule, bucket, now_us);
    if (bucket->used > most) {
        ret_outcome->retry_us = divide_up(bucket->used - most, rule->rate);
    } else {
        ret_outcome->hold_us = divide_up(bucket->used, rule->rate);
        bucket->used += one;
        ret_outcome->passed = true;
        ret_outcome->remaining = bucket->used > most ? 0 : (most - bucket->used) / one + 1;
    }
    ret_outcome->reset_us = divide_up(bucket->used, rule->rate);
}

/* ---- windows ---- */

static void window_log(const struct rate_rule *rule, struct window_log *log, int64_t now_us,
                       struct rate_outcome *ret_outcome)
{
    int64_t span_us = (int64_t)per_us(rule);
    uint32_t newest = (log->head + log->count + rule->rate - 1) % rule->rate;
    if (log->count > 0 && now_us < log->at_us[newest]) {
        now_us = log->at_us[newest];
    }
    while (log->count > 0 && log->at_us[log->head] + span_us <= now_us) {
        log->head = (log->head + 1) % rule->rate;
        log->count--;
    }
    if (log->count == rule->rate) {
        ret_outcome->retry_us = log->at_us[log->head] + span_us - now_us;
    } else {
        log->at_us[(log->head + log->count) % rule->rate] = now_us;
        log->count++;
        ret_outcome->passed = true;
        ret_outcome->remaining = rule->rate - log->count;
    }
    newest = (log->head + log->count + rule->rate - 1) % rule->rate;
    ret_outcome->reset_us = log->at_us[newest] + span_us - now_us;
}

static void parts_advance(struct window_parts *parts, int64_t part)
{
    for (int64_t n = 0; parts->newest < part; n++) {
        if (n == (int64_t)PARTS_KEPT) {
            parts->newest = part; /* all are 0 by now */
            break;
        }
        parts->newest++;
        uint32_t *count = &parts->counts[(uint64_t)parts->newest % PARTS_KEPT];
        parts->total -= *count;
        *count = 0;
    }
}

/* The number of the oldest part that has requests. There is one. */
static int64_t parts_oldest(const struct window_parts *parts)
{
    int64_t part = parts->newest - (int64_t)PARTS;
    while (part < 0 || parts->counts[(uint64_t)part % PARTS_KEPT] == 0) {
        part++;
        CHECK(part <= parts->newest);
    }
    return part;
}

static void window_parts(const struct rate_rule *rule, struct window_parts *parts, int64_t now_us,
                         struct rate_outcome *ret_outcome)
{
    int64_t part_us = (int64_t)(per_us(rule) / PARTS); /* 10^6 is a multiple of 64 */
    int64_t part = now_us / part_us;
    parts_advance(parts, part);
    part = parts->newest;
    if (parts->total == rule->rate) {
        ret_outcome->retry_us = (parts_oldest(parts) + (int64_t)PARTS_KEPT) * part_us - now_us;
    } else {
        parts->counts[(uint64_t)part % PARTS_KEPT]++;
        parts->total++;
        ret_outcome->passed = true;
        ret_outcome->remaining = rule->rate - parts->total;
    }
    ret_outcome->reset_us = (parts->newest + (int64_t)PARTS_KEPT) * part_us - now_us;
}

/* ---- all ---- */

void rate_take(const struct rate_rule *rule, void *cell, int64_t now_us,
               struct rate_outcome *ret_outcome)
{
    *ret_outcome = (struct rate_outcome){.passed = false};
    CHECK(now_us >= 0);
    if (rule->algorithm == RATE_TOKEN_BUCKET) {
        token_bucket(rule, cell, now_us, ret_outcome);
    } else if (rule->algorithm == RATE_LEAKY_BUCKET) {
        leaky_bucket(rule, cell, now_us, ret_outcome);
    } else if (counts_by_part(rule)) {
        window_parts(rule, cell, now_us, ret_outcome);
    } else {
        window_log(rule, cell, now_us, ret_outcome);
    }
}

void rate_return(const struct rate_rule *rule, void *cell)
{
    if (rule->algorithm != RATE_SLIDING_WINDOW) {
        struct bucket *bucket = cell;
        uint64_t one = per_us(rule);
        bucket->used = bucket->used > one ? bucket->used - one : 0;
    } else if (!counts_by_part(rule)) {
        struct window_log *log = cell;
        log->count -= log->count > 0;
    } else {
        struct window_parts *parts = cell;
        uint32_t *count = &parts->counts[(uint64_t)parts->newest % PARTS_KEPT];
        if (*count > 0) {
            *count -= 1;
            parts->total--;
        }
    }
}
