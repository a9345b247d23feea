/* See distributed.h. Each thread has instances of its own of what belongs to one thread. */
#include "app/distributed.h"

#include <stdlib.h>
#include <string.h>

#include "app/distributed_private.h"
#include "app/exchange.h"
#include "app/settings.h"
#include "backend/amqp/queue_amqp.h"
#include "backend/redis/segments_redis.h"
#include "base/check.h"
#include "base/err.h"
#include "distributed/order_segment.h"

#define REFILL_MS 1500
#define RECONCILE_POLL_MS 50
/* Waits of the reconciler look up so often whether the server ends. */
#define RECONCILE_STEP_MS 100
#define RECONCILE_CONNECT_MS 2000
#define PROMISES_A_LOOK 64

/* ---- making it ---- */

int distributed_open(const struct config *config, uint32_t loops, struct clock_port *clock,
                     struct distributed **ret_distributed)
{
    struct distributed *distributed = calloc(1, sizeof(*distributed));
    pthread_condattr_t monotonic;
    if (distributed == NULL) {
        return ERR_NOMEM;
    }
    CHECK(pthread_condattr_init(&monotonic) == 0);
    CHECK(pthread_condattr_setclock(&monotonic, CLOCK_MONOTONIC) == 0);
    CHECK(pthread_mutex_init(&distributed->sleep_lock, NULL) == 0);
    CHECK(pthread_cond_init(&distributed->sleep_ends, &monotonic) == 0);
    refill_requests_init(&distributed->refill_requests);
    atomic_store(&distributed->segment_table.clock_is_off, true); /* until it has been compared */
    distributed->config = config;
    settings_runtime_limits(&distributed->runtime_limits, config);
    distributed->roles = config_roles(config->server_roles);
    distributed->loops = loops;
    distributed->clock = clock;
    *ret_distributed = distributed; /* freed by the caller whatever comes */
    int error = backends_open(&distributed->backends, config, clock);
    if (error != 0) {
        return error;
    }
    distributed->segment_table.count = backends_segments(&distributed->backends);
    distributed->stock_cache = stock_cache_new();
    error = distributed->stock_cache == NULL ? ERR_NOMEM : 0;
    if (error == 0) {
        error = spool_new((uint32_t)config->spool_promises, &distributed->spool);
    }
    if (error != 0) {
        return assembly_fail("cannot start; lower spool.promises", error, "");
    }
    return backends_gate(&distributed->backends, loops + CONNECTION_SET_COUNT, &distributed->gate);
}

uint32_t distributed_segments(const struct distributed *distributed)
{
    return distributed->segment_table.count;
}

struct spool *distributed_spool(struct distributed *distributed)
{
    return distributed->spool;
}

int distributed_fd(const struct distributed *distributed, uint32_t loop)
{
    return backends_gate_fd(&distributed->backends, loop);
}

static void read_sales(void *context)
{
    ledger_writer_refresh(((struct distributed *)context)->parts->ledger_writer);
}

int distributed_join(struct distributed *distributed, struct assembly *parts,
                     struct ledger_backends *ledger_backends)
{
    distributed->parts = parts;
    struct gate_proxy_options options = {.loops = distributed->loops,
                                         .runtime_limits = &distributed->runtime_limits,
                                         .refill_ms = REFILL_MS,
                                         .refill_requests = &distributed->refill_requests,
                                         .clock = distributed->clock,
                                         .read_sales = read_sales,
                                         .context = distributed};
    int error =
        gate_proxy_new(distributed->gate, &distributed->segment_table, parts->catalog,
                       distributed->stock_cache, distributed->spool, options, &distributed->proxy);
    if (error == 0) {
        error = backends_new_segments(&distributed->backends, "ledger writer",
                                      &distributed->segments[LEDGER_WRITER_SEGMENTS]);
    }
    if (error == 0) {
        error = segment_event_sink_new(distributed->segments[LEDGER_WRITER_SEGMENTS],
                                       &distributed->segment_table, ledger_backends->writer,
                                       parts->catalog, parts->options.sizes,
                                       &distributed->segment_event_sink);
    }
    if (error != 0) {
        return assembly_fail("cannot start", error, "the gate's part");
    }
    parts->options.gate = gate_proxy_port(distributed->proxy);
    parts->options.ledger_writer.event_sink =
        segment_event_sink_event_sink(distributed->segment_event_sink);
    parts->options.ledger_writer.shared = true;
    parts->options.ledger_writer.mailboxes = MAILBOX_COUNT;
    parts->shared.health_only = (distributed->roles & ROLE_FRONT) == 0;
    return 0;
}

/* For what whoever met it does not log: no memory, no thread. */
static int reported(int error)
{
    return error == 0 ? 0 : assembly_fail("cannot start the engine's threads", error, "");
}

static int make_mailbox(struct distributed *distributed, int mailbox, enum thread_kind thread,
                        const char *name)
{
    struct booking_channel *booking_channel = &distributed->booking_channel[mailbox];
    int error = backends_new_segments(&distributed->backends, name, &distributed->segments[thread]);
    if (error == 0) {
        error = reported(booking_channel_init(
            booking_channel, distributed->parts->ledger_writer, distributed->segments[thread],
            &distributed->segment_table, distributed->loops, (uint32_t)mailbox));
    }
    if (error == 0) {
        booking_channel->runtime_limits = &distributed->runtime_limits;
        booking_channel->time = &distributed->parts->time;
    }
    return error;
}

static bool refill(void *context, const struct refill *refill)
{
    struct distributed *distributed = context;
    return backends_refill(&distributed->backends, refill->segment, refill->item, refill->units);
}

static int make_promise_resolver(struct distributed *distributed)
{
    struct assembly *parts = distributed->parts;
    int error = make_mailbox(distributed, MAILBOX_PROMISE_RESOLVER, THREAD_PROMISE_RESOLVER,
                             "promise resolver");
    if (error == 0) {
        error = backends_new_reader(&distributed->backends, &distributed->reader);
    }
    if (error != 0) {
        return error;
    }
    struct promise_resolver_parts promise_resolver = {
        .segments = distributed->segments[THREAD_PROMISE_RESOLVER],
        .ledger = distributed->reader,
        .gate = distributed->gate,
        .booking_channel = &distributed->booking_channel[MAILBOX_PROMISE_RESOLVER],
        .segment_table = &distributed->segment_table,
        .catalog = parts->catalog,
        .spool = distributed->spool,
        .stock_cache = distributed->stock_cache,
        .refill_requests = &distributed->refill_requests,
        .time = &parts->time,
        .metrics = metrics_slot(&parts->metrics, distributed->loops + SLOT_PROMISE_RESOLVER),
        .runtime_limits = &distributed->runtime_limits,
        .refill = refill,
        .context = distributed,
    };
    return reported(promise_resolver_new(&promise_resolver, &distributed->promise_resolver));
}

static int make_gate_subscriber(struct distributed *distributed)
{
    struct assembly *parts = distributed->parts;
    int error = backends_new_segments(&distributed->backends, "gate subscriber",
                                      &distributed->segments[THREAD_GATE_SUBSCRIBER]);
    if (error != 0) {
        return error;
    }
    struct gate_subscriber_parts gate_subscriber = {
        .segments = distributed->segments[THREAD_GATE_SUBSCRIBER],
        .gate = distributed->gate,
        .connection_set = distributed->loops + CONNECTION_SET_GATE_SUBSCRIBER,
        .engine = parts->engine,
        .segment_table = &distributed->segment_table,
        .stock_cache = distributed->stock_cache,
        .spool = distributed->spool,
        .catalog = parts->catalog,
        .clock = distributed->clock,
        .sales_changed = read_sales,
        .context = distributed,
    };
    return reported(gate_subscriber_new(&gate_subscriber, &distributed->gate_subscriber));
}

/* Of the first segment that has any. */
static const char *outbox_words(void *context)
{
    struct distributed *distributed = context;
    const char *words = "";
    for (uint32_t s = 0; words[0] == '\0' && s < distributed->segment_table.count; s++) {
        words = segments_redis_trouble(distributed->segments[THREAD_RELAY], s);
    }
    return words;
}

static int make_relay(struct distributed *distributed)
{
    struct assembly *parts = distributed->parts;
    const struct config *config = distributed->config;
    int error = make_mailbox(distributed, MAILBOX_RELAY, THREAD_RELAY, "relay");
    if (error == 0) {
        error = backends_new_queue(&distributed->backends, true, &distributed->publisher);
    }
    if (error != 0) {
        return error;
    }
    struct relay_options options = {.window = (uint32_t)config->relay_window,
                                    .runtime_limits = &distributed->runtime_limits,
                                    .words = outbox_words,
                                    .words_context = distributed};
    return reported(relay_new(distributed->segments[THREAD_RELAY], distributed->publisher,
                              &distributed->booking_channel[MAILBOX_RELAY], &parts->time,
                              metrics_slot(&parts->metrics, distributed->loops + SLOT_RELAY),
                              options, &distributed->relay));
}

static int make_order_consumer(struct distributed *distributed)
{
    struct assembly *parts = distributed->parts;
    int error = backends_new_queue(&distributed->backends, false, &distributed->consumer);
    if (error != 0 || distributed->consumer == NULL) {
        return error; /* no queue: the relay brings everything to the ledger writer itself */
    }
    error =
        make_mailbox(distributed, MAILBOX_ORDER_CONSUMER, THREAD_ORDER_CONSUMER, "order consumer");
    return error != 0 ? error
                      : reported(order_consumer_new(
                            distributed->consumer,
                            &distributed->booking_channel[MAILBOX_ORDER_CONSUMER], &parts->time,
                            metrics_slot(&parts->metrics, distributed->loops + SLOT_ORDER_CONSUMER),
                            &distributed->order_consumer));
}

static int start_thread(struct distributed *distributed, enum thread_kind kind,
                        void *(*run)(void *))
{
    distributed->running[kind] =
        pthread_create(&distributed->threads[kind], NULL, run, distributed) == 0;
    return reported(distributed->running[kind] ? 0 : ERR_NOMEM);
}

/* Where payments come from a queue, too. */
static int start_payment_consumer(struct distributed *distributed)
{
    struct assembly *parts = distributed->parts;
    struct payment_consumer_parts payment_consumer = {
        .ledger_writer = parts->ledger_writer,
        .loops = distributed->loops,
        .mailbox = MAILBOX_PAYMENT_CONSUMER,
        .gate = distributed->gate,
        .connection_set = distributed->loops + CONNECTION_SET_PAYMENT_CONSUMER,
        .blocking = {distributed, distributed_blocking_sleep_ms, distributed_blocking_now_ms},
        .segment_table = &distributed->segment_table,
        .catalog = parts->catalog,
        .time = &parts->time,
        .metrics = metrics_slot(&parts->metrics, distributed->loops + SLOT_PAYMENT_CONSUMER),
    };
    int error = backends_new_payments(&distributed->backends, &payment_consumer.queue);
    if (error != 0 || payment_consumer.queue == NULL) {
        return error;
    }
    distributed->payments = payment_consumer.queue;
    error = reported(payment_consumer_new(&payment_consumer, &distributed->payment_consumer));
    return error != 0 ? error
                      : start_thread(distributed, THREAD_PAYMENT_CONSUMER,
                                     distributed_run_payment_consumer);
}

/* ---- reconciling ---- */

static bool reconcile_ending(void *context)
{
    struct distributed *distributed = context;
    return atomic_load(&distributed->parts->shared.draining) || atomic_load(&distributed->stopping);
}

static void reconcile_sleep_ms(void *context, int64_t ms)
{
    while (ms > RECONCILE_STEP_MS && !reconcile_ending(context)) {
        distributed_sleep_ms(context, RECONCILE_STEP_MS);
        ms -= RECONCILE_STEP_MS;
    }
    if (ms <= RECONCILE_STEP_MS) {
        distributed_sleep_ms(context, ms);
    }
}

/* A connection nobody uses is taken for dead; one that was lost is made again in steps. */
static void reconcile_idle(void *context)
{
    struct distributed *distributed = context;
    if (distributed->parked != NULL) {
        backends_link_seen(&distributed->backends, LINK_RECONCILER,
                           queue_amqp_wait(distributed->parked, RECONCILE_CONNECT_MS) != 0);
    }
}

static int reconcile_both(void *context, struct reconcile_result *ret_result)
{
    reconcile_idle(context);
    return reconcile_now(((struct distributed *)context)->reconcile, ret_result);
}

static int reconcile_once(void *context, struct reconcile_result *ret_result)
{
    reconcile_idle(context);
    return reconcile_pass(((struct distributed *)context)->reconcile, ret_result);
}

static size_t reconcile_mend(void *context)
{
    struct distributed *distributed = context;
    size_t repaired = reconcile_repair(distributed->reconcile);
    ledger_writer_hurry(
        distributed->parts->ledger_writer); /* what was booked is to reach the segments */
    return repaired;
}

static bool reconcile_may(void *context)
{
    return atomic_load(&((struct distributed *)context)->keeps);
}

static size_t reconcile_promised(void *context, int64_t before_ms, size_t at,
                                 struct decision *ret_decisions, size_t max)
{
    struct distributed *distributed = context;
    struct spool_entry entries[PROMISES_A_LOOK];
    size_t count = 0;
    size_t listed = PROMISES_A_LOOK;
    distributed->promises_skipped = at == 0 ? 0 : distributed->promises_skipped;
    while (count < max && listed == PROMISES_A_LOOK) {
        listed = spool_list(distributed->spool, before_ms,
                            at + count + distributed->promises_skipped, entries, PROMISES_A_LOOK);
        for (size_t i = 0; i < listed && count < max; i++) {
            struct order_segment found;
            struct decision *decision = &ret_decisions[count];
            *decision = (struct decision){.epoch = entries[i].epoch, .command = entries[i].command};
            bool known = order_segment_find(distributed->parts->catalog, entries[i].command.item,
                                            entries[i].command.id, &found) &&
                         found.segment < distributed->segment_table.count;
            decision->segment = known ? found.segment : 0;
            count += known;
            distributed->promises_skipped += !known;
        }
    }
    return count;
}

static int make_reconciler(struct distributed *distributed)
{
    struct assembly *parts = distributed->parts;
    const struct config *config = distributed->config;
    struct ledger *ledger = NULL;
    int error = backends_new_segments(&distributed->backends, "reconciler",
                                      &distributed->segments[THREAD_RECONCILER]);
    if (error == 0) {
        error = backends_new_writer(&distributed->backends, &ledger);
    }
    if (error == 0) {
        error = backends_new_queue(&distributed->backends, false, &distributed->parked);
    }
    if (error != 0) {
        return error;
    }
    struct reconcile_ports ports = {
        .segments = distributed->segments[THREAD_RECONCILER],
        .gate = distributed->gate,
        .ledger = ledger,
        .queue = distributed->parked,
        .blocking = {distributed, reconcile_sleep_ms, distributed_blocking_now_ms}};
    struct reconcile_options options = {.segments = distributed->segment_table.count,
                                        .loop = distributed->loops + CONNECTION_SET_RECONCILER,
                                        .bound_ms = config->reconcile_bound_s * 1000,
                                        .poll_ms = RECONCILE_POLL_MS,
                                        .context = distributed,
                                        .promised = reconcile_promised,
                                        .ending = reconcile_ending};
    error = reported(reconcile_new(ports, options, &distributed->reconcile));
    if (error != 0) {
        return error;
    }
    struct reconciler_work work = {.context = distributed,
                                   .now = reconcile_both,
                                   .pass = reconcile_once,
                                   .repair = reconcile_mend,
                                   .may = reconcile_may,
                                   .ending = reconcile_ending,
                                   .idle = reconcile_idle};
    error = reported(reconciler_new(
        work, parts->engine, distributed->clock,
        metrics_slot(&parts->metrics, distributed->loops + SLOT_RECONCILER), distributed->loops,
        config->reconcile_every_s * 1000, &distributed->reconciler));
    parts->shared.reconciler = distributed->reconciler;
    redriver_init(&distributed->redriver, distributed->parked, distributed->clock,
                  config->amqp_redrive_s * 1000);
    distributed->redriver.stopping = &distributed->stopping;
    return error;
}

/* ---- telling ---- */

static void event_publisher_seen(void *context, bool away)
{
    struct distributed *distributed = context;
    backends_link_seen(&distributed->backends, LINK_EVENT_PUBLISHER, away);
}

static int start_event_publisher(struct distributed *distributed)
{
    struct ledger *ledger = NULL;
    struct lease_port *lease = NULL;
    if (!exchange_wanted(distributed->config)) {
        return 0;
    }
    int error = backends_new_writer(&distributed->backends, &ledger);
    if (error == 0) {
        error = backends_new_lease(&distributed->backends, &lease);
    }
    return error != 0
               ? error
               : event_publisher_thread_start(distributed->parts, distributed->config, ledger,
                                              lease, event_publisher_seen, distributed,
                                              &distributed->event_publisher_thread);
}

/* ---- start ---- */

int distributed_start(struct distributed *distributed, struct assembly *parts)
{
    uint32_t roles = distributed->roles;
    distributed->parts = parts;
    int error = make_promise_resolver(distributed);
    error = error != 0 ? error
                       : start_thread(distributed, THREAD_PROMISE_RESOLVER,
                                      distributed_run_promise_resolver);
    if (error == 0 && (roles & ROLE_FRONT) != 0) {
        error = make_gate_subscriber(distributed);
        error = error != 0 ? error
                           : start_thread(distributed, THREAD_GATE_SUBSCRIBER,
                                          distributed_run_gate_subscriber);
        error = error != 0 ? error
                           : cluster_status_thread_start(parts, &distributed->backends,
                                                         &distributed->segment_table,
                                                         &distributed->cluster_status_thread);
    }
    if (error == 0 && (roles & ROLE_RELAY) != 0) {
        error = make_relay(distributed);
        error = error != 0 ? error : start_thread(distributed, THREAD_RELAY, distributed_run_relay);
    }
    if (error == 0 && (roles & ROLE_BOOKER) != 0) {
        error = make_order_consumer(distributed);
        if (error == 0 && distributed->order_consumer != NULL) {
            error =
                start_thread(distributed, THREAD_ORDER_CONSUMER, distributed_run_order_consumer);
        }
        error = error != 0 ? error : start_payment_consumer(distributed);
    }
    if (error == 0 && (roles & ROLE_KEEPER) != 0) {
        error = backends_new_lease(&distributed->backends, &distributed->lease);
        if (error == 0) {
            struct blocking blocking = {distributed, distributed_blocking_sleep_ms,
                                        distributed_blocking_now_ms};
            error =
                backends_keep(&distributed->backends, blocking,
                              distributed->loops + CONNECTION_SET_KEEPER, &parts->options.sizes);
        }
        error =
            error != 0 ? error : start_thread(distributed, THREAD_KEEPER, distributed_run_keeper);
        error = error != 0 ? error : start_event_publisher(distributed);
    }
    if (error == 0 && (roles & (ROLE_FRONT | ROLE_KEEPER)) != 0) {
        error = make_reconciler(distributed);
        error = error != 0
                    ? error
                    : start_thread(distributed, THREAD_RECONCILER, distributed_run_reconciler);
    }
    return error;
}

void distributed_reload(struct distributed *distributed, const struct config *config)
{
    settings_runtime_limits(&distributed->runtime_limits, config);
}

/* ---- its end ---- */

void distributed_stop(struct distributed *distributed)
{
    CHECK(pthread_mutex_lock(&distributed->sleep_lock) == 0);
    atomic_store(&distributed->stopping, true);
    CHECK(pthread_cond_broadcast(&distributed->sleep_ends) == 0);
    CHECK(pthread_mutex_unlock(&distributed->sleep_lock) == 0);
    for (int i = 0; i < THREAD_COUNT; i++) {
        if (distributed->segments[i] != NULL) {
            segments_wake(distributed->segments[i]);
        }
    }
    if (distributed->reconciler != NULL) {
        reconciler_wake(distributed->reconciler);
    }
    event_publisher_thread_stop(distributed->event_publisher_thread);
    cluster_status_thread_stop(distributed->cluster_status_thread);
    for (int i = 0; i < THREAD_COUNT; i++) {
        if (distributed->running[i]) {
            (void)pthread_join(distributed->threads[i], NULL);
            distributed->running[i] = false;
        }
    }
}

void distributed_free(struct distributed *distributed)
{
    if (distributed == NULL) {
        return;
    }
    relay_free(distributed->relay);
    order_consumer_free(distributed->order_consumer);
    payment_consumer_free(distributed->payment_consumer);
    gate_subscriber_free(distributed->gate_subscriber);
    promise_resolver_free(distributed->promise_resolver);
    reconciler_free(distributed->reconciler);
    reconcile_free(distributed->reconcile);
    event_publisher_thread_free(distributed->event_publisher_thread);
    cluster_status_thread_free(distributed->cluster_status_thread);
    for (int i = 0; i < MAILBOX_COUNT; i++) {
        booking_channel_done(&distributed->booking_channel[i]);
    }
    segment_event_sink_free(distributed->segment_event_sink);
    gate_proxy_free(distributed->proxy);
    backends_close(&distributed->backends);
    spool_free(distributed->spool);
    stock_cache_free(distributed->stock_cache);
    refill_requests_done(&distributed->refill_requests);
    (void)pthread_cond_destroy(&distributed->sleep_ends);
    (void)pthread_mutex_destroy(&distributed->sleep_lock);
    free(distributed);
}
