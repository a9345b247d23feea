/* See reconciler_thread.h. */
#include "app/reconciler_thread.h"

#include <stdlib.h>
#include <unistd.h>

#include "app/worker.h"
#include "base/err.h"
#include "embedded/reconcile_embedded.h"

struct reconciler_thread {
    struct assembly *parts;
    struct reconcile_local *local;
    struct reconciler *reconciler;
    struct worker worker;
};

static bool ending(void *context)
{
    struct reconciler_thread *reconciler_thread = context;
    return worker_is_stopping(&reconciler_thread->worker) ||
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

static void check_next(void *context)
{
    reconcile_local_check_next(((struct reconciler_thread *)context)->local);
}

static bool iterate(void *context)
{
    reconciler_iterate(((struct reconciler_thread *)context)->reconciler);
    return true;
}

static void wake(void *context)
{
    reconciler_wake(((struct reconciler_thread *)context)->reconciler);
}

static int make(struct reconciler_thread *reconciler_thread, struct ledger *ledger,
                int64_t bound_ms)
{
    struct assembly *parts = reconciler_thread->parts;
    struct reconcile_local_parts local = {.engine = parts->embedded_gate,
                                          .ledger_writer = parts->ledger_writer,
                                          .ledger = ledger,
                                          .blocking = {reconciler_thread, sleep_ms, now_ms},
                                          .bound_ms = bound_ms,
                                          .ending = ending};
    struct reconciler_work work = {.context = reconciler_thread,
                                   .now = reconcile,
                                   .ending = ending,
                                   .ledger = ledger,
                                   .health = ledger->health,
                                   .idle = check_next};
    int error = reconcile_local_new(&local, &reconciler_thread->local);
    if (error == 0) {
        uint32_t loops = parts->options.loops;
        error = reconciler_new(work, parts->wakers, parts->time.clock,
                               metrics_slot(&parts->metrics, loops + SLOT_RECONCILER), loops, 0,
                               &reconciler_thread->reconciler);
    }
    reconciler_thread->worker = (struct worker){
        .name = "reconciler", .iterate = iterate, .wake = wake, .context = reconciler_thread};
    return error != 0 ? error : worker_start(&reconciler_thread->worker);
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
    if (reconciler_thread != NULL) {
        worker_stop(&reconciler_thread->worker);
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
