/* What distributed.c (making and ending it) and distributed_threads.c (what its threads run) share.
 * Nobody else includes this. */
#ifndef SLUICE_APP_DISTRIBUTED_PRIVATE_H
#define SLUICE_APP_DISTRIBUTED_PRIVATE_H

#include <pthread.h>

#include "app/backends.h"
#include "app/cluster_status_thread.h"
#include "app/distributed.h"
#include "app/event_publisher_thread.h"
#include "app/outages.h"
#include "app/worker.h"
#include "distributed/engine.h"

struct distributed {
    const struct config *config;
    uint32_t roles;
    struct clock_port *clock;
    struct backends backends;
    struct engine engine;
    struct event_publisher_thread *event_publisher_thread;
    struct cluster_status_thread *cluster_status_thread;
    struct assembly *parts;
    _Atomic bool stopping;
    pthread_mutex_t sleep_lock; /* sleeps that end when it stops */
    pthread_cond_t sleep_ends;
    struct outage segment_outages[SEGMENTS_MAX];
    struct outage ledger_outage;
    struct distributed_thread {
        struct distributed *distributed;
        enum engine_thread thread;
        struct outage outage; /* of its queue */
        struct worker worker;
    } threads[ENGINE_THREADS];
};

/* Starts this thread. ERR_NOMEM. */
int distributed_start_thread(struct distributed *distributed, enum engine_thread thread);

/* A sleep that ends early when the server stops. */
void distributed_sleep_ms(struct distributed *distributed, int64_t ms);
/* For struct blocking. */
void distributed_blocking_sleep_ms(void *context, int64_t ms);
int64_t distributed_blocking_now_ms(void *context);

#endif
