/* See reconciler_thread.h. */
#define _GNU_SOURCE
#include "app/reconciler_thread.h"

#include <pthread.h>
#include <stdlib.h>
#include <unistd.h>

#include "base/err.h"
#include "embedded/reconcile_embedded.h"

struct reconciler_thread {
    struct assembly *parts;
    struct reconcile_local *local;
    struct reconciler *reconciler;
    _Atomic bool stopping;
    pthread_t thread;
    bool running;
};

static bool ending(void *context)
{
    struct reconciler_thread *reconciler_thread = context;
    return atomic_load(&reconciler_thread->stopping) ||
           atomic_load(&reconciler_thread->parts->shared.draining);
}

static void sleep_ms(void *context, int64_t ms)
{
    if (!ending(context)) {
        (void)usleep((useconds_t)(ms * 1000));
    }
}

static int64_t now_ms(void *context)
{
    return inside_time_ms(&((struct reconciler_thread *)context)->parts->time);
}

static int reconcile(void *context, struct reconcile_result *ret_result)
{
    return reconcile_local_now(((struct reconciler_thread *)context)->local, ret_result);
}

static void *run(void *context)
{
    struct reconciler_thread *reconciler_thread = context;
    (void)pthread_setname_np(pthread_self(), "reconciler");
    while (!atomic_load(&reconciler_thread->stopping)) {
        reconciler_iterate(reconciler_thread->reconciler);
    }
    return NULL;
}

static int make(struct reconciler_thread *reconciler_thread, struct ledger *ledger,
                int64_t bound_ms)
{
    struct assembly *parts = reconciler_thread->parts;
    struct reconcile_local_parts local = {.engine = parts->embedded_gate,
                                          .ledger_writer = parts->ledger_writer,
                                          .ledger = ledger,
                                          .blocking = {reconciler_thread, sleep_ms, now_ms},
                                          .bound_ms = bound_ms};
    struct reconciler_work work = {
        .context = reconciler_thread, .now = reconcile, .ending = ending};
    int error = reconcile_local_new(&local, &reconciler_thread->local);
    if (error == 0) {
        uint32_t loops = parts->options.loops;
        error = reconciler_new(work, parts->wakers, parts->time.clock,
                               metrics_slot(&parts->metrics, loops + SLOT_RECONCILER), loops, 0,
                               &reconciler_thread->reconciler);
    }
    if (error == 0) {
        reconciler_thread->running =
            pthread_create(&reconciler_thread->thread, NULL, run, reconciler_thread) == 0;
        error = reconciler_thread->running ? 0 : ERR_NOMEM;
    }
    return error;
}

int reconciler_thread_start(struct assembly *parts, struct ledger *ledger, int64_t bound_ms,
                            struct reconciler_thread **ret_reconciler_thread)
{
    struct reconciler_thread *reconciler_thread = calloc(1, sizeof(*reconciler_thread));
    int error = ERR_NOMEM;
    if (reconciler_thread != NULL) {
        reconciler_thread->parts = parts;
        error = make(reconciler_thread, ledger, bound_ms);
    }
    if (error != 0) {
        reconciler_thread_free(reconciler_thread);
        return assembly_fail("cannot start the reconciler", error, "");
    }
    parts->shared.reconciler = reconciler_thread->reconciler;
    *ret_reconciler_thread = reconciler_thread;
    return 0;
}

void reconciler_thread_stop(struct reconciler_thread *reconciler_thread)
{
    if (reconciler_thread != NULL && reconciler_thread->running) {
        atomic_store(&reconciler_thread->stopping, true);
        reconciler_wake(reconciler_thread->reconciler);
        (void)pthread_join(reconciler_thread->thread, NULL);
        reconciler_thread->running = false;
    }
}

void reconciler_thread_free(struct reconciler_thread *reconciler_thread)
{
    if (reconciler_thread == NULL) {
        return;
    }
    reconciler_free(reconciler_thread->reconciler);
    reconcile_local_free(reconciler_thread->local);
    free(reconciler_thread);
}
