/*
 * Latencies of the last seconds. The histograms of metrics.h only grow, so their quantiles hardly
 * change in the worst minute of a long uptime. Each look leaves a copy, at most one a second. What
 * was added since the oldest copy in the ring is the window.
 *
 * Any thread may look. One lock is held for the look; threads that count never take it. If nobody
 * looks, nothing is copied, and the next look starts a new window. Invariant: nothing in a window
 * is older than LATENCY_WINDOW_WINDOW_MS plus half a step.
 */
#ifndef SLUICE_OBS_LATENCY_WINDOW_H
#define SLUICE_OBS_LATENCY_WINDOW_H

#include "obs/metrics.h"

#define LATENCY_WINDOW_WINDOW_MS 10000
#define LATENCY_WINDOW_STEP_MS 1000 /* copies are at least this far apart */
#define LATENCY_WINDOW_COPIES (LATENCY_WINDOW_WINDOW_MS / LATENCY_WINDOW_STEP_MS + 1)

struct latency_window;

/* About 400 KiB, used once somebody looks. NULL: no memory. */
struct latency_window *latency_window_new(void);
void latency_window_free(struct latency_window *latencies);

struct latency_window_figures {
    uint64_t count; /* 0: nothing was measured; the rest is 0 */
    uint64_t p50_us, p99_us, p999_us;
};

struct latency_window_view {
    int64_t window_ms; /* its length; 0: there is no copy to compare with, and all counts are 0 */
    struct latency_window_figures hists[HIST_COUNT];
};

/* What was measured in the window that ends now. */
void latency_window_look(struct latency_window *latencies, const struct metrics *metrics,
                         int64_t now_ms, struct latency_window_view *ret_view);

#endif
