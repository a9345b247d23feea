/* What the threads of the distributed engine run. See distributed.h. */
#include <stdio.h>
#include <time.h>

#include "app/distributed_private.h"
#include "backend/amqp/queue_amqp.h"
#include "backend/redis/segments_redis.h"
#include "base/check.h"
#include "base/err.h"
#include "obs/log.h"

#define TURN_MS 100
#define PROMISE_RESOLVER_PAUSE_MS 20
#define KEEP_EVERY_MS 50

void distributed_sleep_ms(struct distributed *distributed, int64_t ms)
{
    struct timespec until;
    (void)clock_gettime(CLOCK_MONOTONIC, &until);
    until.tv_sec += ms / 1000;
    until.tv_nsec += ms % 1000 * 1000000;
    until.tv_sec += until.tv_nsec / 1000000000;
    until.tv_nsec %= 1000000000;
    CHECK(pthread_mutex_lock(&distributed->sleep_lock) == 0);
    while (!atomic_load(&distributed->stopping) &&
           pthread_cond_timedwait(&distributed->sleep_ends, &distributed->sleep_lock, &until) ==
               0) {
    }
    CHECK(pthread_mutex_unlock(&distributed->sleep_lock) == 0);
}

/* ---- outages ---- */

/* What the segment monitor's last check of each segment and the last read of the ledger met. */
static void tell_outages(struct distributed *distributed)
{
    const struct engine *engine = &distributed->engine;
    int64_t now_ms = clock_boot_us(distributed->clock) / 1000;
    if (!outage_is_due(&distributed->ledger_outage, now_ms)) {
        return;
    }
    bool has_queue = false;
    bool queue_up = backends_links_up(&distributed->backends, &has_queue);
    if (has_queue) {
        metrics_know(engine->ports.metrics[ENGINE_PROMISE_RESOLVER], METRIC_RABBITMQ_UP, queue_up);
    }
    for (uint32_t s = 0; s < engine->segment_table.count; s++) {
        char part[24];
        (void)snprintf(part, sizeof(part), "segment-%u", s);
        outage_seen(&distributed->segment_outages[s], "redis", part,
                    segment_monitor_status(engine->segment_monitor, s) == SEGMENT_AWAY,
                    segments_redis_trouble(engine->ports.segments[ENGINE_PROMISE_RESOLVER], s),
                    now_ms);
    }
    char words[256];
    backends_shared_words(&distributed->backends, words, sizeof(words));
    outage_seen(&distributed->ledger_outage, "mariadb", "promise resolver",
                segment_monitor_ledger_away(engine->segment_monitor), words, now_ms);
}

static void tell_queue_outage(struct distributed_thread *thread, struct queue *queue,
                              enum backends_link link, const char *part)
{
    struct distributed *distributed = thread->distributed;
    int64_t now_ms = clock_boot_us(distributed->clock) / 1000;
    if (queue != NULL && outage_is_due(&thread->outage, now_ms)) {
        bool away = queue_amqp_wait(queue, 0) != 0;
        backends_link_seen(&distributed->backends, link, away);
        outage_seen(&thread->outage, "rabbitmq", part, away, queue_amqp_error(queue), now_ms);
    }
}

/* ---- threads ---- */

/* What the program does after an iteration of this thread, beside the engine. */
static void look_after(struct distributed_thread *thread)
{
    struct distributed *distributed = thread->distributed;
    const struct engine *engine = &distributed->engine;
    switch (thread->thread) {
    case ENGINE_PROMISE_RESOLVER:
        tell_outages(distributed);
        if (segment_monitor_is_ready(engine->segment_monitor) &&
            !atomic_load(&distributed->parts->shared.ready)) {
            assembly_ready(distributed->parts);
            log_event(LOG_INFO, "engine.ready", LOG_U64("segments", engine->segment_table.count));
        }
        distributed_sleep_ms(distributed, PROMISE_RESOLVER_PAUSE_MS);
        break;
    case ENGINE_RELAY:
        tell_queue_outage(thread, engine->ports.publisher, LINK_RELAY, "relay");
        break;
    case ENGINE_ORDER_CONSUMER:
        tell_queue_outage(thread, engine->ports.consumer, LINK_BOOKER, "booker");
        break;
    case ENGINE_PAYMENT_CONSUMER:
        tell_queue_outage(thread, engine->ports.payments, LINK_PAYMENT_CONSUMER,
                          "payment consumer");
        break;
    case ENGINE_LEASE:
    case ENGINE_KEEPER:
        distributed_sleep_ms(distributed, KEEP_EVERY_MS);
        break;
    case ENGINE_GATE_SUBSCRIBER:
    case ENGINE_RECONCILER:
    case ENGINE_THREADS:
        break;
    }
}

static bool iterate(void *context)
{
    struct distributed_thread *thread = context;
    (void)engine_run(&thread->distributed->engine, thread->thread, TURN_MS);
    look_after(thread);
    return true;
}

static void end(void *context)
{
    struct distributed_thread *thread = context;
    engine_end(&thread->distributed->engine, thread->thread);
}

static void wake(void *context)
{
    struct distributed_thread *thread = context;
    struct engine *engine = &thread->distributed->engine;
    if (engine->ports.segments[thread->thread] != NULL) {
        segments_wake(engine->ports.segments[thread->thread]);
    }
    if (thread->thread == ENGINE_RECONCILER) {
        reconciler_wake(engine->reconciler);
    }
}

int distributed_start_thread(struct distributed *distributed, enum engine_thread thread)
{
    static const char *const names[ENGINE_THREADS] = {
        [ENGINE_PROMISE_RESOLVER] = "resolver",
        [ENGINE_GATE_SUBSCRIBER] = "subscriber",
        [ENGINE_RELAY] = "relay",
        [ENGINE_ORDER_CONSUMER] = "order-consumer",
        [ENGINE_PAYMENT_CONSUMER] = "payment-cons",
        [ENGINE_LEASE] = "lease",
        [ENGINE_KEEPER] = "keeper",
        [ENGINE_RECONCILER] = "reconciler",
    };
    struct distributed_thread *started = &distributed->threads[thread];
    *started = (struct distributed_thread){.distributed = distributed,
                                           .thread = thread,
                                           .worker = {.name = names[thread],
                                                      .iterate = iterate,
                                                      .wake = wake,
                                                      .end = end,
                                                      .context = started}};
    return worker_start(&started->worker);
}

/* ---- waiting ---- */

/* The end of the server does not cut this short. A process that rebuilds a segment must wait for what
 * is in flight and for fronts, or it opens the segment too early. It takes a few seconds at most. */
void distributed_blocking_sleep_ms(void *context, int64_t ms)
{
    struct timespec pause = {ms / 1000, ms % 1000 * 1000000};
    (void)context;
    (void)nanosleep(&pause, NULL);
}

int64_t distributed_blocking_now_ms(void *context)
{
    return inside_time_ms(&((struct distributed *)context)->parts->time);
}
