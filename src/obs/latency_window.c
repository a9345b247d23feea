/*
 * The window of latency_window.h: a ring of copies, oldest first. All reads happen under one lock,
 * and counters only grow, so a copy is never ahead of a later read.
 */
#include "obs/latency_window.h"

#include <pthread.h>
#include <stdlib.h>

struct copy {
    int64_t at_ms;
    struct hist hists[HIST_COUNT];
};

struct latency_window {
    pthread_mutex_t lock;
    unsigned first; /* the oldest */
    unsigned count;
    struct copy copies[LATENCY_WINDOW_COPIES];
    struct hist now; /* scratch, under the lock */
};

struct latency_window *latency_window_new(void)
{
    struct latency_window *latencies = calloc(1, sizeof(*latencies));
    if (latencies != NULL) {
        CHECK(pthread_mutex_init(&latencies->lock, NULL) == 0);
    }
    return latencies;
}

void latency_window_free(struct latency_window *latencies)
{
    if (latencies != NULL) {
        CHECK(pthread_mutex_destroy(&latencies->lock) == 0);
        free(latencies);
    }
}

static struct copy *copy_at(struct latency_window *latencies, unsigned i)
{
    return &latencies->copies[(latencies->first + i) % LATENCY_WINDOW_COPIES];
}

/* Another thread may have read its clock later but taken the lock first. Then its time counts. */
static int64_t not_before_newest(struct latency_window *latencies, int64_t now_ms)
{
    int64_t newest_ms =
        latencies->count > 0 ? copy_at(latencies, latencies->count - 1)->at_ms : now_ms;
    return now_ms > newest_ms ? now_ms : newest_ms;
}

/* A copy may be half a step too old: it is then nearer to the window than the next one. */
static void forget_old(struct latency_window *latencies, int64_t now_ms)
{
    while (latencies->count > 0 && now_ms - copy_at(latencies, 0)->at_ms >=
                                       LATENCY_WINDOW_WINDOW_MS + LATENCY_WINDOW_STEP_MS / 2) {
        latencies->first = (latencies->first + 1) % LATENCY_WINDOW_COPIES;
        latencies->count--;
    }
}

static void leave_copy(struct latency_window *latencies, const struct metrics *metrics,
                       int64_t now_ms)
{
    if (latencies->count > 0 &&
        now_ms - copy_at(latencies, latencies->count - 1)->at_ms < LATENCY_WINDOW_STEP_MS) {
        return;
    }
    CHECK(latencies->count < LATENCY_WINDOW_COPIES);
    struct copy *copy = copy_at(latencies, latencies->count++);
    copy->at_ms = now_ms;
    for (unsigned i = 0; i < HIST_COUNT; i++) {
        metrics_hist(metrics, (enum metric_hist)i, &copy->hists[i]);
    }
}

void latency_window_look(struct latency_window *latencies, const struct metrics *metrics,
                         int64_t now_ms, struct latency_window_view *ret_view)
{
    *ret_view = (struct latency_window_view){.window_ms = 0};
    CHECK(pthread_mutex_lock(&latencies->lock) == 0);
    now_ms = not_before_newest(latencies, now_ms);
    forget_old(latencies, now_ms);
    const struct copy *oldest = copy_at(latencies, 0);
    if (latencies->count > 0 && oldest->at_ms < now_ms) {
        ret_view->window_ms = now_ms - oldest->at_ms;
        for (unsigned i = 0; i < HIST_COUNT; i++) {
            struct latency_window_figures *figures = &ret_view->hists[i];
            metrics_hist(metrics, (enum metric_hist)i, &latencies->now);
            hist_subtract(&latencies->now, &oldest->hists[i]);
            figures->count = hist_count(&latencies->now);
            figures->p50_us = hist_quantile(&latencies->now, 0.5);
            figures->p99_us = hist_quantile(&latencies->now, 0.99);
            figures->p999_us = hist_quantile(&latencies->now, 0.999);
        }
    }
    leave_copy(latencies, metrics, now_ms);
    CHECK(pthread_mutex_unlock(&latencies->lock) == 0);
}
