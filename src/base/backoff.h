/* Growing pauses between attempts: 20 ms, doubled up to 2 s. A zeroed struct has no failed
 * attempt. */
#ifndef SLUICE_BASE_BACKOFF_H
#define SLUICE_BASE_BACKOFF_H

#include <stdbool.h>
#include <stdint.h>

#define BACKOFF_LEAST_MS 20
#define BACKOFF_MOST_MS 2000

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
    int64_t pause_ms = backoff->pause_ms == 0 ? BACKOFF_LEAST_MS : 2 * backoff->pause_ms;
    backoff->pause_ms = pause_ms > BACKOFF_MOST_MS ? BACKOFF_MOST_MS : pause_ms;
    backoff->next_ms = now_ms + backoff->pause_ms;
}
static inline void backoff_worked(struct backoff *backoff)
{
    *backoff = (struct backoff){0};
}

#endif
