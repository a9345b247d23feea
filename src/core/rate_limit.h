/*
 * Rate limits: the arithmetic of one rule for one key. Pure: time and memory are arguments.
 *
 * - Token bucket: `burst` tokens at once, and `rate` more in `per_s` seconds. A request takes one.
 * - Leaky bucket: one request leaves every per_s/rate seconds. Up to `burst` wait for their turn.
 * - Sliding window: never more than `rate` requests in any per_s seconds.
 *
 * All three are exact, in whole numbers of microseconds, with one exception: a sliding window with a
 * rate above RATE_LOG_MAX counts in 64 parts of its time and not request by request. It lets through
 * `rate` or fewer, never more: a request leaves the window up to 1/64 of its time late.
 *
 * A key's state is a cell of rate_cell_bytes() bytes. A zeroed cell is a key that was never seen. The
 * time must not go back; a cell that is ahead of the caller's time uses its own.
 */
#ifndef SLUICE_CORE_RATE_LIMIT_H
#define SLUICE_CORE_RATE_LIMIT_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define RATE_ALGORITHMS(X)                                                                         \
    X(RATE_TOKEN_BUCKET, "token_bucket")                                                           \
    X(RATE_LEAKY_BUCKET, "leaky_bucket")                                                           \
    X(RATE_SLIDING_WINDOW, "sliding_window")

enum rate_algorithm {
#define X(name, text) name,
    RATE_ALGORITHMS(X)
#undef X
        RATE_ALGORITHM_COUNT
};
const char *rate_algorithm_text(enum rate_algorithm algorithm);

/* Levels are counted in requests times microseconds: RATE_MAX * RATE_PER_S_MAX * 10^6 is below 2^62. */
#define RATE_MAX 1000000U
#define RATE_PER_S_MAX 2678400U /* 31 days */
#define RATE_LOG_MAX 64U

struct rate_rule {
    enum rate_algorithm algorithm;
    uint32_t rate;  /* 1 to RATE_MAX */
    uint32_t per_s; /* 1 to RATE_PER_S_MAX */
    uint32_t burst; /* to RATE_MAX. Token bucket: at least 1. Leaky bucket: 0 holds nothing. Sliding
                     * window: unused */
};

struct rate_outcome {
    bool passed;
    int64_t hold_us;    /* passed, leaky bucket: the request's turn is in so long */
    int64_t retry_us;   /* not passed: a request passes in so long, if none comes before it */
    int64_t reset_us;   /* until as much may pass as for a key that was never seen */
    uint64_t remaining; /* requests that may still pass at this time */
};

/* At most RATE_CELL_MAX; a multiple of 8. */
size_t rate_cell_bytes(const struct rate_rule *rule);
#define RATE_CELL_MAX (16U + RATE_LOG_MAX * 8U)

/* One request at now_us. A request that does not pass changes nothing. */
void rate_take(const struct rate_rule *rule, void *cell, int64_t now_us,
               struct rate_outcome *ret_outcome);
/* Undoes the newest rate_take that passed: another rule has refused the request. */
void rate_return(const struct rate_rule *rule, void *cell);

#endif
