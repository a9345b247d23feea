/* See distributed.h. Each thread has instances of its own of what belongs to one thread. */
#include "app/distributed.h"

#include <stdlib.h>

#include "app/distributed_private.h"
#include "app/exchange.h"
#include "app/settings.h"
#include "backend/amqp/queue_amqp.h"
#include "backend/mariadb/lease_mariadb.h"
#include "backend/mariadb/ledger_mariadb.h"
#include "backend/redis/segments_redis.h"
#include "base/check.h"
#include "base/err.h"

#define RECOVER_LEASE_MS 20000
/* Waits of the reconciler look up so often whether the server ends. */
#define RECONCILE_STEP_MS 100
#define RECONCILE_CONNECT_MS 2000

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
    distributed->config = config;
    distributed->roles = config_roles(config->server_roles);
    distributed->clock = clock;
    *ret_distributed = distributed; /* freed by the caller whatever comes */
    int error = backends_open(&distributed->backends, config, clock);
    if (error != 0) {
        return error;
    }
    /* Those of the loop's connections, and one that is answered at once. */
    uint32_t requests = (uint32_t)config->server_connections * REQUESTS_PER_CONNECTION + 1;
    struct engine_options options = {.segments = backends_segments(&distributed->backends),
                                     .loops = loops,
                                     .requests = requests,
                                     .promises = (uint32_t)config->spool_promises,
                                     .relay_window = (uint32_t)config->relay_window,
                                     .recover_lease_ms = RECOVER_LEASE_MS,
                                     .reconcile_bound_ms = config->reconcile_bound_s * 1000,
                                     .reconcile_every_ms = config->reconcile_every_s * 1000,
                                     .redrive_ms = config->amqp_redrive_s * 1000};
    settings_runtime_limits(&distributed->engine.runtime_limits, config);
    error = engine_open(&distributed->engine, &options);
    if (error != 0) {
        return assembly_fail("cannot start; lower spool.promises", error, "");
    }
    return backends_gate(&distributed->backends, loops + CONNECTION_SET_COUNT,
                         &distributed->engine.ports.gate);
}

uint32_t distributed_segments(const struct distributed *distributed)
{
    return distributed->engine.segment_table.count;
}

struct spool *distributed_spool(struct distributed *distributed)
{
    return distributed->engine.spool;
}

int distributed_fd(const struct distributed *distributed, uint32_t loop)
{
    return backends_gate_fd(&distributed->backends, loop);
}

/* ---- what the engine calls ---- */

/* Of the first segment that has any. */
static const char *relay_words(void *context)
{
    struct distributed *distributed = context;
    const char *words = "";
    for (uint32_t s = 0; words[0] == '\0' && s < distributed_segments(distributed); s++) {
        words = segments_redis_trouble(distributed->engine.ports.segments[ENGINE_RELAY], s);
    }
    return words;
}

static const char *keeper_words(void *context)
{
    const struct engine_ports *ports = &((struct distributed *)context)->engine.ports;
    const char *words = ledger_mariadb_error(ports->keeper_ledger);
    return words[0] != '\0' ? words : lease_mariadb_error(ports->recover_lease);
}

static bool is_ending(void *context)
{
    struct distributed *distributed = context;
    return atomic_load(&distributed->parts->shared.draining) || atomic_load(&distributed->stopping);
}

static void reconciler_sleep_ms(void *context, int64_t ms)
{
    while (ms > RECONCILE_STEP_MS && !is_ending(context)) {
        distributed_sleep_ms(context, RECONCILE_STEP_MS);
        ms -= RECONCILE_STEP_MS;
    }
    if (ms <= RECONCILE_STEP_MS) {
        distributed_sleep_ms(context, ms);
    }
}

/* A connection nobody uses is taken for dead; one that was lost is made again in steps. */
static void reconciler_idle(void *context)
{
    struct distributed *distributed = context;
    struct queue *parked = distributed->engine.ports.parked;
    /* It compares rarely: no connection to MariaDB meanwhile. The next call makes one. */
    ledger_mariadb_rest(distributed->engine.ports.reconciler_ledger);
    if (parked != NULL) {
        backends_link_seen(&distributed->backends, LINK_RECONCILER,
                           queue_amqp_wait(parked, RECONCILE_CONNECT_MS) != 0);
    }
}

int distributed_join(struct distributed *distributed, struct assembly *parts,
                     struct ledger_backends *ledger_backends)
{
    struct engine *engine = &distributed->engine;
    distributed->parts = parts;
    engine->options.sizes = parts->options.sizes;
    engine->options.shares = gate_shares_of(parts->options.sizes, parts->options.shares);
    struct engine_ports ports = {
        .clock = distributed->clock,
        .gate = engine->ports.gate,
        .writer = ledger_backends->writer,
        .blocking = {distributed, distributed_blocking_sleep_ms, distributed_blocking_now_ms},
        .reconciler_blocking = {distributed, reconciler_sleep_ms, distributed_blocking_now_ms},
        .relay_words = relay_words,
        .keeper_words = keeper_words,
        .reconciler_idle = reconciler_idle,
        .ending = is_ending,
        .context = distributed};
    int error = backends_new_segments(&distributed->backends, "ledger writer",
                                      &ports.ledger_writer_segments);
    if (error == 0) {
        error = engine_join(engine, &ports, parts->catalog, &parts->time);
    }
    if (error != 0) {
        return assembly_fail("cannot start", error, "the gate's part");
    }
    parts->options.gate = gate_proxy_port(engine->proxy);
    parts->options.ledger_writer.event_sink =
        segment_event_sink_event_sink(engine->segment_event_sink);
    parts->options.ledger_writer.mailboxes = MAILBOX_COUNT;
    parts->shared.health_only = (distributed->roles & ROLE_FRONT) == 0;
    return 0;
}

/* ---- the ports of each thread ---- */

/* Of the roles, and of what is configured. A relay without a queue books itself. */
static uint32_t threads_of(const struct distributed *distributed)
{
    const struct engine_ports *ports = &distributed->engine.ports;
    uint32_t threads = 1U << ENGINE_PROMISE_RESOLVER;
    if ((distributed->roles & ROLE_FRONT) != 0) {
        threads |= 1U << ENGINE_GATE_SUBSCRIBER | 1U << ENGINE_RECONCILER;
    }
    if ((distributed->roles & ROLE_RELAY) != 0) {
        threads |= 1U << ENGINE_RELAY;
    }
    if ((distributed->roles & ROLE_BOOKER) != 0) {
        threads |= ports->consumer != NULL ? 1U << ENGINE_ORDER_CONSUMER : 0;
        threads |= ports->payments != NULL ? 1U << ENGINE_PAYMENT_CONSUMER : 0;
    }
    if ((distributed->roles & ROLE_KEEPER) != 0) {
        threads |= 1U << ENGINE_LEASE | 1U << ENGINE_KEEPER | 1U << ENGINE_RECONCILER;
    }
    return threads;
}

static int open_queues(struct distributed *distributed)
{
    struct engine_ports *ports = &distributed->engine.ports;
    struct backends *backends = &distributed->backends;
    int error = 0;
    if ((distributed->roles & ROLE_RELAY) != 0) {
        error = backends_new_queue(backends, true, &ports->publisher);
    }
    if (error == 0 && (distributed->roles & ROLE_BOOKER) != 0) {
        error = backends_new_queue(backends, false, &ports->consumer);
        error = error != 0 ? error : backends_new_payments(backends, &ports->payments);
    }
    if (error == 0 && (distributed->roles & (ROLE_FRONT | ROLE_KEEPER)) != 0) {
        error = backends_new_queue(backends, false, &ports->parked);
    }
    return error;
}

static int open_ports(struct distributed *distributed, uint32_t threads)
{
    static const struct {
        const char *name; /* NULL: it uses no segments */
        int metrics;      /* -1: it counts nothing */
    } rows[ENGINE_THREADS] = {
        [ENGINE_PROMISE_RESOLVER] = {"promise resolver", SLOT_PROMISE_RESOLVER},
        [ENGINE_GATE_SUBSCRIBER] = {"gate subscriber", -1},
        [ENGINE_RELAY] = {"relay", SLOT_RELAY},
        [ENGINE_ORDER_CONSUMER] = {"order consumer", SLOT_ORDER_CONSUMER},
        [ENGINE_PAYMENT_CONSUMER] = {NULL, SLOT_PAYMENT_CONSUMER},
        [ENGINE_LEASE] = {NULL, -1},
        [ENGINE_KEEPER] = {"keeper", -1},
        [ENGINE_RECONCILER] = {"reconciler", SLOT_RECONCILER},
    };
    struct engine_ports *ports = &distributed->engine.ports;
    struct backends *backends = &distributed->backends;
    struct assembly *parts = distributed->parts;
    int error = 0;
    for (int i = 0; error == 0 && i < ENGINE_THREADS; i++) {
        if (rows[i].metrics >= 0) {
            ports->metrics[i] =
                metrics_slot(&parts->metrics, parts->options.loops + (uint32_t)rows[i].metrics);
        }
        if ((threads >> i & 1) != 0 && rows[i].name != NULL) {
            error = backends_new_segments(backends, rows[i].name, &ports->segments[i]);
        }
    }
    error = error != 0 ? error : backends_shared_reader(backends, &ports->promise_ledger);
    if (error == 0 && (threads >> ENGINE_KEEPER & 1) != 0) {
        error = backends_new_lease(backends, &ports->keeper_lease);
        error = error != 0 ? error : backends_new_lease(backends, &ports->recover_lease);
        error = error != 0 ? error : backends_new_writer(backends, &ports->keeper_ledger);
    }
    if (error == 0 && (threads >> ENGINE_RECONCILER & 1) != 0) {
        error = backends_new_writer(backends, &ports->reconciler_ledger);
        if (error == 0) {
            ports->reconciler_ledger->health = parts->shared.ledger_health;
        }
    }
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
    struct engine *engine = &distributed->engine;
    int error = open_queues(distributed);
    uint32_t threads = threads_of(distributed);
    error = error != 0 ? error : open_ports(distributed, threads);
    if (error != 0) {
        return error;
    }
    error = engine_make(engine, threads, parts->ledger_writer, parts->loop_notices, parts->wakers);
    engine->redriver.stopping = &distributed->stopping;
    parts->shared.reconciler = engine->reconciler;
    for (int i = 0; error == 0 && i < ENGINE_THREADS; i++) {
        error = (threads >> i & 1) != 0 ? distributed_start_thread(distributed, i) : 0;
    }
    if (error != 0) {
        return assembly_fail("cannot start the engine's threads", error, "");
    }
    if ((distributed->roles & ROLE_FRONT) != 0) {
        error = cluster_status_thread_start(parts, &distributed->backends, &engine->segment_table,
                                            &distributed->cluster_status_thread);
    }
    if (error == 0 && (distributed->roles & ROLE_KEEPER) != 0) {
        error = start_event_publisher(distributed);
    }
    return error;
}

void distributed_reload(struct distributed *distributed, const struct config *config)
{
    settings_runtime_limits(&distributed->engine.runtime_limits, config);
}

/* ---- its end ---- */

void distributed_stop(struct distributed *distributed)
{
    CHECK(pthread_mutex_lock(&distributed->sleep_lock) == 0);
    atomic_store(&distributed->stopping, true);
    CHECK(pthread_cond_broadcast(&distributed->sleep_ends) == 0);
    CHECK(pthread_mutex_unlock(&distributed->sleep_lock) == 0);
    for (int i = 0; i < ENGINE_THREADS; i++) {
        worker_ask(&distributed->threads[i].worker);
    }
    event_publisher_thread_stop(distributed->event_publisher_thread);
    cluster_status_thread_stop(distributed->cluster_status_thread);
    for (int i = 0; i < ENGINE_THREADS; i++) {
        worker_stop(&distributed->threads[i].worker);
    }
}

void distributed_free(struct distributed *distributed)
{
    if (distributed == NULL) {
        return;
    }
    event_publisher_thread_free(distributed->event_publisher_thread);
    cluster_status_thread_free(distributed->cluster_status_thread);
    engine_free(&distributed->engine);
    backends_close(&distributed->backends);
    (void)pthread_cond_destroy(&distributed->sleep_ends);
    (void)pthread_mutex_destroy(&distributed->sleep_lock);
    free(distributed);
}
