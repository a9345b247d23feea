/*
 * The window of recent.h: a ring of copies, oldest first. Reads of one counter under one lock never go
 * back, so a copy is never ahead of a later look.
 */
#include "obs/recent.h"

#include <pthread.h>
#include <stdlib.h>

struct copy {
    int64_t at_ms;
    struct hist hists[HIST_COUNT];
};

struct recent {
    pthread_mutex_t lock;
    unsigned first; /* the oldest */
    unsigned count;
    struct copy copies[RECENT_COPIES];
    struct hist now; /* the looker's, under the lock */
};

struct recent *recent_new(void)
{
    struct recent *recent = calloc(1, sizeof(*recent));
    if (recent != NULL) {
        CHECK(pthread_mutex_init(&recent->lock, NULL) == 0);
    }
    return recent;
}

void recent_free(struct recent *recent)
{
    if (recent != NULL) {
        CHECK(pthread_mutex_destroy(&recent->lock) == 0);
        free(recent);
    }
}

static struct copy *copy_at(struct recent *recent, unsigned i)
{
    return &recent->copies[(recent->first + i) % RECENT_COPIES];
}

/* Another thread may have read its clock later and looked first: for us it is then that late, too. */
static int64_t not_before_newest(struct recent *recent, int64_t now_ms)
{
    int64_t newest_ms = recent->count > 0 ? copy_at(recent, recent->count - 1)->at_ms : now_ms;
    return now_ms > newest_ms ? now_ms : newest_ms;
}

/* Half a step too old is nearer to the window than half a step too young. */
static void forget_old(struct recent *recent, int64_t now_ms)
{
    while (recent->count > 0 &&
           now_ms - copy_at(recent, 0)->at_ms >= RECENT_WINDOW_MS + RECENT_STEP_MS / 2) {
        recent->first = (recent->first + 1) % RECENT_COPIES;
        recent->count--;
    }
}

static void leave_copy(struct recent *recent, const struct metrics *metrics, int64_t now_ms)
{
    if (recent->count > 0 && now_ms - copy_at(recent, recent->count - 1)->at_ms < RECENT_STEP_MS) {
        return;
    }
    CHECK(recent->count < RECENT_COPIES);
    struct copy *copy = copy_at(recent, recent->count++);
    copy->at_ms = now_ms;
    for (unsigned i = 0; i < HIST_COUNT; i++) {
        metrics_hist(metrics, (enum metric_hist)i, &copy->hists[i]);
    }
}

void recent_look(struct recent *recent, const struct metrics *metrics, int64_t now_ms,
                 struct recent_view *ret_view)
{
    *ret_view = (struct recent_view){.window_ms = 0};
    CHECK(pthread_mutex_lock(&recent->lock) == 0);
    now_ms = not_before_newest(recent, now_ms);
    forget_old(recent, now_ms);
    const struct copy *oldest = copy_at(recent, 0);
    if (recent->count > 0 && oldest->at_ms < now_ms) {
        ret_view->window_ms = now_ms - oldest->at_ms;
        for (unsigned i = 0; i < HIST_COUNT; i++) {
            struct recent_figures *figures = &ret_view->hists[i];
            metrics_hist(metrics, (enum metric_hist)i, &recent->now);
            hist_subtract(&recent->now, &oldest->hists[i]);
            figures->count = hist_count(&recent->now);
            figures->p50_us = hist_quantile(&recent->now, 0.5);
            figures->p99_us = hist_quantile(&recent->now, 0.99);
            figures->p999_us = hist_quantile(&recent->now, 0.999);
        }
    }
    leave_copy(recent, metrics, now_ms);
    CHECK(pthread_mutex_unlock(&recent->lock) == 0);
}
