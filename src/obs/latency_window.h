/*
 * Latencies of the last seconds. The histograms of metrics.h only grow: in the worst minute of a long
 * life their quantiles hardly move. Whoever looks about once a second leaves a copy behind, and what
 * was added since the oldest copy that is young enough is the window.
 *
 * Any thread may look; one lock, held while at most LATENCY_WINDOW_COPIES of them are compared, never by who
 * counts. Nobody looks: nothing is copied, and the next look begins anew. What stays true: nothing
 * older than LATENCY_WINDOW_WINDOW_MS and half a copy's distance is in a window.
 */
#ifndef SLUICE_OBS_LATENCY_WINDOW_H
#define SLUICE_OBS_LATENCY_WINDOW_H

#include "obs/metrics.h"

#define LATENCY_WINDOW_WINDOW_MS 10000
#define LATENCY_WINDOW_STEP_MS 1000 /* copies are at least this far apart */
#define LATENCY_WINDOW_COPIES (LATENCY_WINDOW_WINDOW_MS / LATENCY_WINDOW_STEP_MS + 1)

struct latency_window;

/* About 400 KiB, touched when somebody looks. NULL: no memory. */
struct latency_window *latency_window_new(void);
void latency_window_free(struct latency_window *latencies);

struct latency_window_figures {
    uint64_t count; /* 0: nothing was measured, and the rest is 0 */
    uint64_t p50_us, p99_us, p999_us;
};

struct latency_window_view {
    int64_t window_ms; /* how much is in it; 0: nobody has looked lately, and all counts are 0 */
    struct latency_window_figures hists[HIST_COUNT];
};

/* What was measured in the window that ends now. */
void latency_window_look(struct latency_window *latencies, const struct metrics *metrics,
                         int64_t now_ms, struct latency_window_view *ret_view);

#endif
