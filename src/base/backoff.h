/*
 * Growing pauses between attempts. backoff_grow and backoff_jitter know no unit and no clock: all
 * arguments of a call have the same unit. struct backoff is for the usual case: 20 ms, doubled up to
 * 2 s. Zeroed: no attempt has failed.
 */
#ifndef SLUICE_BASE_BACKOFF_H
#define SLUICE_BASE_BACKOFF_H

#include <stdbool.h>
#include <stdint.h>

#include "base/prng.h"

#define BACKOFF_LEAST_MS 20
#define BACKOFF_MOST_MS 2000

/* The pause after one more failure. pause: the one before, 0 after the first failure. */
static inline int64_t backoff_grow(int64_t pause, int64_t least, int64_t most)
{
    int64_t grown = pause == 0 ? least : 2 * pause;
    return grown < most ? grown : most;
}
/* Between half of the pause and all of it: many clients must not come back in step. */
static inline int64_t backoff_jitter(int64_t pause, struct prng *prng)
{
    return pause / 2 + (int64_t)prng_below(prng, (uint64_t)pause / 2 + 1);
}

struct backoff {
    int64_t pause_ms;
    int64_t next_ms; /* no attempt before this */
};

static inline bool backoff_is_over(const struct backoff *backoff, int64_t now_ms)
{
    return now_ms >= backoff->next_ms;
}
static inline void backoff_failed(struct backoff *backoff, int64_t now_ms)
{
    backoff->pause_ms = backoff_grow(backoff->pause_ms, BACKOFF_LEAST_MS, BACKOFF_MOST_MS);
    backoff->next_ms = now_ms + backoff->pause_ms;
}
static inline void backoff_worked(struct backoff *backoff)
{
    *backoff = (struct backoff){0};
}

#endif
