/* See reconciler.h. */
#include "ledger/reconciler.h"

#include <stdlib.h>
#include <string.h>

#include "base/err.h"
#include "obs/log.h"

/* The alarm: after this many runs in a row without an answer, or when runs have compared only a part
 * for this long, as they do during a rush. */
#define BLIND_RUNS 3
#define BLIND_MS 1800000

struct reconciler {
    struct reconciler_work work;
    struct waker *wakers;
    struct clock_port *clock;
    struct metrics_slot *metrics;
    uint32_t loops;
    int64_t every_ms;
    int64_t next_ms; /* by itself */
    uint64_t damage_told;
    uint32_t unanswered_runs; /* in a row */
    int64_t unsure_since_ms;  /* the first run in a row that did not compare everything; 0: none */
    bool blind;
    struct mailbox inbox;
    struct mailbox *outboxes;
};

static int64_t now_ms(const struct reconciler *reconciler)
{
    return clock_boot_us(reconciler->clock) / 1000;
}

/* ---- what a run found ---- */

/* A comparison that cannot ask finds nothing wrong. So that is an alarm of its own. */
static void judge_unsure(struct reconciler *reconciler, const struct reconcile_result *result)
{
    int64_t now = now_ms(reconciler);
    reconciler->unanswered_runs = result->unanswered > 0 ? reconciler->unanswered_runs + 1 : 0;
    if (result->unsure == 0) {
        reconciler->unsure_since_ms = 0;
    } else if (reconciler->unsure_since_ms == 0) {
        reconciler->unsure_since_ms = now;
    }
    int64_t unsure_ms = reconciler->unsure_since_ms == 0 ? 0 : now - reconciler->unsure_since_ms;
    bool blind = reconciler->unanswered_runs >= BLIND_RUNS || unsure_ms >= BLIND_MS;
    metrics_set(reconciler->metrics, METRIC_RECONCILE_UNSURE, result->unsure);
    metrics_set(reconciler->metrics, METRIC_RECONCILE_UNANSWERED, result->unanswered);
    metrics_set(reconciler->metrics, METRIC_RECONCILE_BLIND, blind);
    if (blind != reconciler->blind) {
        reconciler->blind = blind;
        log_event(blind ? LOG_WARN : LOG_INFO, blind ? "reconcile.blind" : "reconcile.sees",
                  LOG_U64("unsure", result->unsure), LOG_U64("unanswered", result->unanswered),
                  LOG_STR("what", blind ? "gate, queue and ledger are not compared completely any "
                                          "more; differences may go unnoticed"
                                        : ""));
    }
}

static void log_difference(const struct difference *difference)
{
    char id[ORDER_ID_TEXT];
    order_id_text(difference->id, id);
    bool has_order = difference->id.hi != 0 || difference->id.lo != 0;
    bool has_segment = difference->segment != DIFFERENCE_NO_SEGMENT;
    log_event(LOG_WARN, "reconcile.difference",
              LOG_STR("difference", difference_text(difference->kind)),
              LOG_I64("segment", has_segment ? (int64_t)difference->segment : -1),
              LOG_U64("item", difference->item), LOG_U64("user", difference->user),
              LOG_SPAN("order", ((struct span){id, has_order ? sizeof(id) : 0})),
              LOG_U64("found", difference->found), LOG_U64("expected", difference->expected),
              LOG_I64("since_ms", difference->since_ms));
}

static void tell_log(struct reconciler *reconciler, const struct reconcile_result *result)
{
    metrics_set(reconciler->metrics, METRIC_RECONCILE_DIFFERENCES, result->count);
    judge_unsure(reconciler, result);
    size_t shown = result->count < RECONCILER_LOGGED_MAX ? result->count : RECONCILER_LOGGED_MAX;
    for (size_t i = 0; i < shown; i++) {
        log_difference(&result->differences[i]);
    }
    if (shown < result->count) {
        log_event(LOG_WARN, "reconcile.more", LOG_U64("differences", result->count),
                  LOG_U64("shown", shown), LOG_STR("do", "sluice reconcile lists them"));
    }
}

/* ---- calls ---- */

static void answer(struct reconciler *reconciler, struct reconciler_call *call, int error,
                   const struct reconcile_result *result, const struct ledger_check *check)
{
    uint32_t loop = call->loop;
    call->error = error;
    call->check = *check;
    if (error == 0) {
        call->result = *result;
        call->result.differences = NULL;
        call->differences = malloc((result->count + 1) * sizeof(*call->differences));
        if (call->differences == NULL) {
            call->error = ERR_NOMEM;
        } else if (result->count > 0) {
            memcpy(call->differences, result->differences,
                   result->count * sizeof(*call->differences));
        }
    }
    mailbox_post(&reconciler->outboxes[loop], &call->post);
    waker_wake(&reconciler->wakers[loop]);
}

static bool wants_integrity(const struct post *posts)
{
    bool integrity = false;
    for (; posts != NULL; posts = posts->next) {
        integrity = integrity || ((const struct reconciler_call *)posts)->integrity;
    }
    return integrity;
}

static bool wants_repair(const struct post *posts)
{
    bool repair = false;
    for (; posts != NULL; posts = posts->next) {
        repair = repair || ((const struct reconciler_call *)posts)->repair;
    }
    return repair;
}

static void run_for(struct reconciler *reconciler, struct post *posts)
{
    const struct reconciler_work *work = &reconciler->work;
    struct reconcile_result result = {0};
    struct ledger_check check = {
        .whole = true, .stop = work->ending, .context = work->context, .done = false};
    int error = work->now(work->context, &result);
    if (error == 0 && work->ledger != NULL && wants_integrity(posts)) {
        error = ledger_check(work->ledger, &check);
        error = error == ERR_CORRUPT ? 0 : error; /* that is an answer */
    }
    if (error == 0 && work->ending(work->context)) {
        error = ERR_CLOSED; /* its passes were too close */
    }
    if (error == 0) {
        tell_log(reconciler, &result);
        if (work->repair != NULL && wants_repair(posts)) {
            (void)work->repair(work->context);
        }
    }
    while (posts != NULL) {
        struct post *next = posts->next;
        answer(reconciler, (struct reconciler_call *)posts, error, &result, &check);
        posts = next;
    }
}

/* ---- damage ---- */

/* Told once for each time that more damage was met, a minute apart. */
static void tell_damage(struct reconciler *reconciler)
{
    struct ledger_health *health = reconciler->work.health;
    uint64_t damaged = health == NULL ? 0 : atomic_load(&health->damaged);
    const char *what = damaged == 0 ? NULL : ledger_health_what(health);
    if (what == NULL || damaged == reconciler->damage_told) {
        return;
    }
    static struct log_limit limit;
    reconciler->damage_told = damaged;
    metrics_set(reconciler->metrics, METRIC_LEDGER_DAMAGE, damaged);
    log_event_limited(&limit, 60000, LOG_ERROR, "ledger.damaged", LOG_STR("first", what),
                      LOG_U64("times", damaged),
                      LOG_STR("do", "sluice reconcile --integrity; docs/LEDGER.md, Damage"));
}

/* ---- by itself ---- */

static void run_alone(struct reconciler *reconciler)
{
    const struct reconciler_work *work = &reconciler->work;
    struct reconcile_result result = {0};
    if (work->may != NULL && !work->may(work->context)) {
        metrics_set(reconciler->metrics, METRIC_RECONCILE_DIFFERENCES, 0); /* another's to tell */
        judge_unsure(reconciler, &result);
        return;
    }
    int error = work->pass(work->context, &result);
    if (error == 0) {
        tell_log(reconciler, &result);
    } else if (!work->ending(work->context)) {
        static struct log_limit limit;
        log_event_limited(&limit, 60000, LOG_WARN, "reconcile.cannot_read",
                          LOG_ERR("error", error));
    }
}

void reconciler_iterate(struct reconciler *reconciler)
{
    const struct reconciler_work *work = &reconciler->work;
    bool alone = reconciler->every_ms > 0 && work->pass != NULL;
    struct post *posts = mailbox_take(&reconciler->inbox);
    if (posts != NULL) {
        run_for(reconciler, posts);
        tell_damage(reconciler);
        return;
    }
    if (alone && now_ms(reconciler) >= reconciler->next_ms) {
        run_alone(reconciler);
        reconciler->next_ms = now_ms(reconciler) + reconciler->every_ms;
    }
    if (work->idle != NULL) {
        work->idle(work->context);
    }
    tell_damage(reconciler);
    int64_t wait_ms = RECONCILER_IDLE_MS;
    if (alone) {
        int64_t left_ms = reconciler->next_ms - now_ms(reconciler);
        wait_ms = left_ms < 0 ? 0 : left_ms < wait_ms ? left_ms : wait_ms;
    }
    mailbox_wait(&reconciler->inbox, wait_ms * 1000);
}

/* ---- life ---- */

int reconciler_new(struct reconciler_work work, struct waker *wakers, struct clock_port *clock,
                   struct metrics_slot *metrics, uint32_t loops, int64_t every_ms,
                   struct reconciler **ret_reconciler)
{
    struct reconciler *reconciler = calloc(1, sizeof(*reconciler));
    struct mailbox *outboxes = calloc(loops, sizeof(*outboxes));
    if (reconciler == NULL || outboxes == NULL) {
        free(reconciler);
        free(outboxes);
        return ERR_NOMEM;
    }
    *reconciler = (struct reconciler){.work = work,
                                      .wakers = wakers,
                                      .clock = clock,
                                      .metrics = metrics,
                                      .loops = loops,
                                      .every_ms = every_ms,
                                      .outboxes = outboxes};
    reconciler->next_ms = now_ms(reconciler) + every_ms;
    mailbox_init(&reconciler->inbox);
    for (uint32_t i = 0; i < loops; i++) {
        mailbox_init(&outboxes[i]);
    }
    *ret_reconciler = reconciler;
    return 0;
}

static void drop(struct mailbox *mailbox)
{
    struct post *post = mailbox_take(mailbox);
    while (post != NULL) {
        struct post *next = post->next;
        reconciler_call_free((struct reconciler_call *)post);
        post = next;
    }
    mailbox_done(mailbox);
}

void reconciler_free(struct reconciler *reconciler)
{
    if (reconciler == NULL) {
        return;
    }
    drop(&reconciler->inbox);
    for (uint32_t i = 0; i < reconciler->loops; i++) {
        drop(&reconciler->outboxes[i]);
    }
    free(reconciler->outboxes);
    free(reconciler);
}

void reconciler_wake(struct reconciler *reconciler)
{
    mailbox_ring(&reconciler->inbox);
}

void reconciler_post(struct reconciler *reconciler, struct reconciler_call *call)
{
    mailbox_post(&reconciler->inbox, &call->post);
}

struct reconciler_call *reconciler_collect(struct reconciler *reconciler, uint32_t loop)
{
    return (struct reconciler_call *)mailbox_take(&reconciler->outboxes[loop]);
}

void reconciler_call_free(struct reconciler_call *call)
{
    free(call->differences);
    free(call);
}
