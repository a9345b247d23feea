/* The threads of the distributed engine. See distributed.h. */
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
#define LEASE_TTL_MS 6000
#define LEASE_EVERY_MS 1000
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

/* ---- threads ---- */

/* Reports outages from the promise resolver's last look at the segments and last read of the
 * ledger. */
static void tell_outages(struct distributed *distributed, struct outage *segments,
                         struct outage *ledger)
{
    int64_t now_ms = clock_boot_us(distributed->clock) / 1000;
    uint64_t away = promise_resolver_away(distributed->promise_resolver);
    if (!outage_is_due(ledger, now_ms)) {
        return;
    }
    bool has_queue = false;
    bool queue_up = backends_links_up(&distributed->backends, &has_queue);
    if (has_queue) {
        metrics_know(
            metrics_slot(&distributed->parts->metrics, distributed->loops + SLOT_PROMISE_RESOLVER),
            METRIC_RABBITMQ_UP, queue_up);
    }
    for (uint32_t s = 0; s < distributed->segment_table.count; s++) {
        char part[24];
        (void)snprintf(part, sizeof(part), "segment-%u", s);
        outage_seen(&segments[s], "redis", part, (away >> s & 1) != 0,
                    segments_redis_trouble(distributed->segments[THREAD_PROMISE_RESOLVER], s),
                    now_ms);
    }
    outage_seen(ledger, "mariadb", "promise resolver",
                promise_resolver_ledger_away(distributed->promise_resolver),
                ledger_mariadb_error(distributed->reader), now_ms);
}

static void tell_queue_outage(struct distributed *distributed, struct outage *outage,
                              struct queue *queue, enum backends_link link)
{
    static const char *const parts[] = {[LINK_RELAY] = "relay",
                                        [LINK_BOOKER] = "booker",
                                        [LINK_PAYMENT_CONSUMER] = "payment consumer"};
    int64_t now_ms = clock_boot_us(distributed->clock) / 1000;
    if (queue != NULL && outage_is_due(outage, now_ms)) {
        bool away = queue_amqp_wait(queue, 0) != 0;
        backends_link_seen(&distributed->backends, link, away);
        outage_seen(outage, "rabbitmq", parts[link], away, queue_amqp_error(queue), now_ms);
    }
}

void *distributed_run_promise_resolver(void *context)
{
    struct distributed *distributed = context;
    struct outage segments[SEGMENTS_MAX] = {{0}};
    struct outage ledger = {0};
    (void)pthread_setname_np(pthread_self(), "resolver");
    while (!atomic_load(&distributed->stopping)) {
        promise_resolver_iterate(distributed->promise_resolver);
        tell_outages(distributed, segments, &ledger);
        bool ready = promise_resolver_is_ready(distributed->promise_resolver);
        if (ready && !atomic_load(&distributed->parts->shared.ready)) {
            assembly_ready(distributed->parts);
            log_event(LOG_INFO, "engine.ready",
                      LOG_U64("segments", distributed->segment_table.count));
        }
        distributed_sleep_ms(distributed, PROMISE_RESOLVER_PAUSE_MS);
    }
    return NULL;
}

void *distributed_run_gate_subscriber(void *context)
{
    struct distributed *distributed = context;
    (void)pthread_setname_np(pthread_self(), "subscriber");
    while (!atomic_load(&distributed->stopping)) {
        gate_subscriber_iterate(distributed->gate_subscriber, TURN_MS);
    }
    return NULL;
}

void *distributed_run_relay(void *context)
{
    struct distributed *distributed = context;
    struct outage outage = {0};
    (void)pthread_setname_np(pthread_self(), "relay");
    while (!atomic_load(&distributed->stopping)) {
        relay_iterate(distributed->relay, TURN_MS);
        tell_queue_outage(distributed, &outage, distributed->publisher, LINK_RELAY);
    }
    return NULL;
}

void *distributed_run_order_consumer(void *context)
{
    struct distributed *distributed = context;
    struct outage outage = {0};
    (void)pthread_setname_np(pthread_self(), "order-consumer");
    while (!atomic_load(&distributed->stopping)) {
        order_consumer_iterate(distributed->order_consumer, TURN_MS);
        tell_queue_outage(distributed, &outage, distributed->consumer, LINK_BOOKER);
    }
    return NULL;
}

void *distributed_run_payment_consumer(void *context)
{
    struct distributed *distributed = context;
    struct outage outage = {0};
    (void)pthread_setname_np(pthread_self(), "payment-cons");
    while (!atomic_load(&distributed->stopping)) {
        payment_consumer_iterate(distributed->payment_consumer, TURN_MS);
        tell_queue_outage(distributed, &outage, distributed->payments, LINK_PAYMENT_CONSUMER);
    }
    return NULL;
}

/* Holds the keeper's lease; the ledger writer does the keeping. Also rebuilds segments that need it
 * and refills empty ones. */
void *distributed_run_keeper(void *context)
{
    struct distributed *distributed = context;
    int64_t lease_ms = 0;
    (void)pthread_setname_np(pthread_self(), "keeper");
    while (!atomic_load(&distributed->stopping)) {
        int64_t now_ms = clock_boot_us(distributed->clock) / 1000;
        if (now_ms >= lease_ms) {
            uint64_t token = 0;
            /* A process whose clock differs from the gate's keeps no deadlines and opens and closes
             * no sales. */
            bool may_keep = !atomic_load(&distributed->segment_table.clock_is_off);
            int error = may_keep
                            ? lease_take(distributed->lease, KEEPER_LEASE, LEASE_TTL_MS, &token)
                            : ERR_BUSY;
            ledger_writer_keep(distributed->parts->ledger_writer, error == 0 ? token : 0);
            if (!may_keep) {
                lease_drop(distributed->lease, KEEPER_LEASE);
            }
            atomic_store(&distributed->keeps, error == 0);
            lease_ms = now_ms + LEASE_EVERY_MS;
        }
        if (backends_keep_round(&distributed->backends, now_ms)) {
            ledger_writer_hurry(distributed->parts->ledger_writer);
        }
        distributed_sleep_ms(distributed, KEEP_EVERY_MS);
    }
    ledger_writer_keep(distributed->parts->ledger_writer, 0);
    lease_drop(distributed->lease, KEEPER_LEASE);
    backends_keep_end(&distributed->backends);
    return NULL;
}

void *distributed_run_reconciler(void *context)
{
    struct distributed *distributed = context;
    (void)pthread_setname_np(pthread_self(), "reconciler");
    while (!atomic_load(&distributed->stopping)) {
        reconciler_iterate(distributed->reconciler);
        (void)redriver_iterate(&distributed->redriver, atomic_load(&distributed->keeps));
    }
    return NULL;
}

/* Not cut short when the server stops: a rebuild waits for messages in flight and for fronts, and
 * must not open the segment too early. It takes a few seconds at most. */
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
