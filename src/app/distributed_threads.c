/* What the threads of the distributed engine run. See distributed.h. */
#define _GNU_SOURCE
#include <stdio.h>
#include <time.h>

#include "app/distributed_private.h"
#include "app/outages.h"
#include "backend/amqp/queue_amqp.h"
#include "backend/mariadb/ledger_mariadb.h"
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
static void tell_outages(struct distributed *distributed, struct outage *segments,
                         struct outage *ledger)
{
    const struct engine *engine = &distributed->engine;
    int64_t now_ms = clock_boot_us(distributed->clock) / 1000;
    if (!outage_is_due(ledger, now_ms)) {
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
        outage_seen(&segments[s], "redis", part,
                    segment_monitor_status(engine->segment_monitor, s) == SEGMENT_AWAY,
                    segments_redis_trouble(engine->ports.segments[ENGINE_PROMISE_RESOLVER], s),
                    now_ms);
    }
    outage_seen(ledger, "mariadb", "promise resolver",
                segment_monitor_ledger_away(engine->segment_monitor),
                ledger_mariadb_error(engine->ports.promise_ledger), now_ms);
}

static void tell_queue_outage(struct distributed *distributed, struct outage *outage,
                              struct queue *queue, enum backends_link link, const char *part)
{
    int64_t now_ms = clock_boot_us(distributed->clock) / 1000;
    if (queue != NULL && outage_is_due(outage, now_ms)) {
        bool away = queue_amqp_wait(queue, 0) != 0;
        backends_link_seen(&distributed->backends, link, away);
        outage_seen(outage, "rabbitmq", part, away, queue_amqp_error(queue), now_ms);
    }
}

/* ---- threads ---- */

static void *run_promise_resolver(void *context)
{
    struct distributed *distributed = context;
    struct engine *engine = &distributed->engine;
    struct outage segments[SEGMENTS_MAX] = {{0}};
    struct outage ledger = {0};
    (void)pthread_setname_np(pthread_self(), "resolver");
    while (!atomic_load(&distributed->stopping)) {
        (void)engine_run(engine, ENGINE_PROMISE_RESOLVER, 0);
        tell_outages(distributed, segments, &ledger);
        bool ready = segment_monitor_is_ready(engine->segment_monitor);
        if (ready && !atomic_load(&distributed->parts->shared.ready)) {
            assembly_ready(distributed->parts);
            log_event(LOG_INFO, "engine.ready", LOG_U64("segments", engine->segment_table.count));
        }
        distributed_sleep_ms(distributed, PROMISE_RESOLVER_PAUSE_MS);
    }
    return NULL;
}

/* A thread that waits for its server, and tells when its queue is away. */
static void *run_consumer(struct distributed *distributed, enum engine_thread thread,
                          struct queue *queue, enum backends_link link, const char *part)
{
    struct outage outage = {0};
    while (!atomic_load(&distributed->stopping)) {
        (void)engine_run(&distributed->engine, thread, TURN_MS);
        tell_queue_outage(distributed, &outage, queue, link, part);
    }
    return NULL;
}

static void *run_gate_subscriber(void *context)
{
    (void)pthread_setname_np(pthread_self(), "subscriber");
    return run_consumer(context, ENGINE_GATE_SUBSCRIBER, NULL, LINK_RELAY, "");
}

static void *run_relay(void *context)
{
    struct distributed *distributed = context;
    (void)pthread_setname_np(pthread_self(), "relay");
    return run_consumer(distributed, ENGINE_RELAY, distributed->engine.ports.publisher, LINK_RELAY,
                        "relay");
}

static void *run_order_consumer(void *context)
{
    struct distributed *distributed = context;
    (void)pthread_setname_np(pthread_self(), "order-consumer");
    return run_consumer(distributed, ENGINE_ORDER_CONSUMER, distributed->engine.ports.consumer,
                        LINK_BOOKER, "booker");
}

static void *run_payment_consumer(void *context)
{
    struct distributed *distributed = context;
    (void)pthread_setname_np(pthread_self(), "payment-cons");
    return run_consumer(distributed, ENGINE_PAYMENT_CONSUMER, distributed->engine.ports.payments,
                        LINK_PAYMENT_CONSUMER, "payment consumer");
}

/* A thread that looks after something from time to time. */
static void *run_keeping(struct distributed *distributed, enum engine_thread thread)
{
    while (!atomic_load(&distributed->stopping)) {
        (void)engine_run(&distributed->engine, thread, 0);
        distributed_sleep_ms(distributed, KEEP_EVERY_MS);
    }
    engine_end(&distributed->engine, thread);
    return NULL;
}

static void *run_lease(void *context)
{
    (void)pthread_setname_np(pthread_self(), "lease");
    return run_keeping(context, ENGINE_LEASE);
}

static void *run_keeper(void *context)
{
    (void)pthread_setname_np(pthread_self(), "keeper");
    return run_keeping(context, ENGINE_KEEPER);
}

static void *run_reconciler(void *context)
{
    struct distributed *distributed = context;
    (void)pthread_setname_np(pthread_self(), "reconciler");
    while (!atomic_load(&distributed->stopping)) {
        (void)engine_run(&distributed->engine, ENGINE_RECONCILER, 0);
    }
    return NULL;
}

int distributed_start_thread(struct distributed *distributed, enum engine_thread thread)
{
    static void *(*const runs[ENGINE_THREADS])(void *) = {
        [ENGINE_PROMISE_RESOLVER] = run_promise_resolver,
        [ENGINE_GATE_SUBSCRIBER] = run_gate_subscriber,
        [ENGINE_RELAY] = run_relay,
        [ENGINE_ORDER_CONSUMER] = run_order_consumer,
        [ENGINE_PAYMENT_CONSUMER] = run_payment_consumer,
        [ENGINE_LEASE] = run_lease,
        [ENGINE_KEEPER] = run_keeper,
        [ENGINE_RECONCILER] = run_reconciler,
    };
    distributed->running[thread] =
        pthread_create(&distributed->threads[thread], NULL, runs[thread], distributed) == 0;
    return distributed->running[thread] ? 0 : ERR_NOMEM;
}

/* ---- waiting ---- */

/* Not cut short by the end of the server: whoever rebuilds a segment waits for what is in flight,
 * and for fronts, or would open it too early. It is a few seconds at most. */
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
