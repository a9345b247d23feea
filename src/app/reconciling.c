/* See reconciling.h. */
#define _GNU_SOURCE
#include "app/reconciling.h"

#include <pthread.h>
#include <stdlib.h>
#include <unistd.h>

#include "base/err.h"
#include "flow/reconcile_local.h"

struct reconciling {
    struct assembly *parts;
    struct reconcile_local *local;
    struct reconciler *reconciler;
    _Atomic bool stopping;
    pthread_t thread;
    bool running;
};

static bool ending(void *context)
{
    struct reconciling *reconciling = context;
    return atomic_load(&reconciling->stopping) || atomic_load(&reconciling->parts->shared.draining);
}

static void sleep_ms(void *context, int64_t ms)
{
    if (!ending(context)) {
        (void)usleep((useconds_t)(ms * 1000));
    }
}

static int64_t now_ms(void *context)
{
    return inside_time_ms(&((struct reconciling *)context)->parts->time);
}

static int reconcile(void *context, struct reconcile_result *ret_result)
{
    return reconcile_local_now(((struct reconciling *)context)->local, ret_result);
}

static void *run(void *context)
{
    struct reconciling *reconciling = context;
    (void)pthread_setname_np(pthread_self(), "reconciler");
    while (!atomic_load(&reconciling->stopping)) {
        reconciler_turn(reconciling->reconciler);
    }
    return NULL;
}

static int make(struct reconciling *reconciling, struct ledger *ledger, int64_t bound_ms)
{
    struct assembly *parts = reconciling->parts;
    struct reconcile_local_parts local = {.engine = parts->engine,
                                          .office = parts->office,
                                          .ledger = ledger,
                                          .await = {reconciling, sleep_ms, now_ms},
                                          .bound_ms = bound_ms};
    struct reconciler_work work = {.context = reconciling, .now = reconcile, .ending = ending};
    int error = reconcile_local_new(&local, &reconciling->local);
    if (error == 0) {
        uint32_t loops = parts->options.loops;
        error = reconciler_new(work, parts->engine, parts->time.clock,
                               metrics_slot(&parts->metrics, loops + SLOT_RECONCILER), loops, 0,
                               &reconciling->reconciler);
    }
    if (error == 0) {
        reconciling->running = pthread_create(&reconciling->thread, NULL, run, reconciling) == 0;
        error = reconciling->running ? 0 : ERR_NOMEM;
    }
    return error;
}

int reconciling_start(struct assembly *parts, struct ledger *ledger, int64_t bound_ms,
                      struct reconciling **ret_reconciling)
{
    struct reconciling *reconciling = calloc(1, sizeof(*reconciling));
    int error = ERR_NOMEM;
    if (reconciling != NULL) {
        reconciling->parts = parts;
        error = make(reconciling, ledger, bound_ms);
    }
    if (error != 0) {
        reconciling_free(reconciling);
        return assembly_fail("cannot start the reconciler", error, "");
    }
    parts->shared.reconciler = reconciling->reconciler;
    *ret_reconciling = reconciling;
    return 0;
}

void reconciling_stop(struct reconciling *reconciling)
{
    if (reconciling != NULL && reconciling->running) {
        atomic_store(&reconciling->stopping, true);
        reconciler_wake(reconciling->reconciler);
        (void)pthread_join(reconciling->thread, NULL);
        reconciling->running = false;
    }
}

void reconciling_free(struct reconciling *reconciling)
{
    if (reconciling == NULL) {
        return;
    }
    reconciler_free(reconciling->reconciler);
    reconcile_local_free(reconciling->local);
    free(reconciling);
}
