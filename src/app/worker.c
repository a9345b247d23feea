/* See worker.h. */
#define _GNU_SOURCE
#include "app/worker.h"

#include <stddef.h>
#include <sys/resource.h>

#include "base/err.h"

static void *run(void *context)
{
    struct worker *worker = context;
    (void)pthread_setname_np(pthread_self(), worker->name);
    if (worker->nice != 0) {
        (void)setpriority(PRIO_PROCESS, 0, worker->nice); /* of this thread only, on Linux */
    }
    while (!worker_is_stopping(worker) && worker->iterate(worker->context)) {
    }
    if (worker->end != NULL) {
        worker->end(worker->context);
    }
    return NULL;
}

int worker_start(struct worker *worker)
{
    worker->running = pthread_create(&worker->thread, NULL, run, worker) == 0;
    return worker->running ? 0 : ERR_NOMEM;
}

void worker_ask(struct worker *worker)
{
    atomic_store(&worker->stopping, true);
    if (worker->running && worker->wake != NULL) {
        worker->wake(worker->context);
    }
}

void worker_stop(struct worker *worker)
{
    worker_ask(worker);
    if (worker->running) {
        (void)pthread_join(worker->thread, NULL);
        worker->running = false;
    }
}
