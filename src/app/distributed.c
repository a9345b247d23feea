/* See distributed.h. Each thread has instances of its own of what belongs to one thread. */
#define _GNU_SOURCE
#include "app/distributed.h"

#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "app/engines.h"
#include "app/exchange.h"
#include "app/heralding.h"
#include "app/outages.h"
#include "app/pulsing.h"
#include "app/settings.h"
#include "backend/amqp/queue_amqp.h"
#include "backend/mariadb/ledger_mariadb.h"
#include "backend/redis/segments_redis.h"
#include "base/check.h"
#include "base/err.h"
#include "flow/applier.h"
#include "flow/bookings.h"
#include "flow/follower.h"
#include "flow/porter.h"
#include "flow/reconciler.h"
#include "flow/recover.h"
#include "flow/redriver.h"
#include "flow/relay.h"
#include "flow/remote.h"
#include "flow/teller.h"
#include "flow/upkeep.h"
#include "obs/log.h"

#define TURN_MS 100
#define UPKEEP_PAUSE_MS 20
#define REFILL_MS 1500
#define LEASE_TTL_MS 6000
#define LEASE_EVERY_MS 1000
#define KEEP_EVERY_MS 50
#define RECONCILE_POLL_MS 50
/* Waits of the reconciler look up so often whether the server ends. */
#define RECONCILE_STEP_MS 100
#define RECONCILE_CONNECT_MS 2000
#define PROMISES_A_LOOK 64

/* Who posts to the office beside the loops. */
enum { DESK_RELAY, DESK_PORTER, DESK_UPKEEP, DESK_TELLER, DESK_COUNT };

enum thread_kind {
    THREAD_UPKEEP,
    THREAD_FOLLOWER,
    THREAD_RELAY,
    THREAD_PORTER,
    THREAD_KEEPER,
    THREAD_RECONCILER,
    THREAD_TELLER,
    THREAD_COUNT
};

/* Lanes of the gate behind the loops'. */
enum { LANE_FOLLOWER, LANE_KEEPER, LANE_RECONCILER, LANE_TELLER, LANE_COUNT };

struct distributed {
    const struct config *config;
    uint32_t roles;
    uint32_t loops;
    struct clock_port *clock;
    struct engines engines;
    struct places places;
    struct dials dials;
    struct shelf *shelf;
    struct wishes wishes;
    struct spool *spool;
    struct gate_port *gate; /* on other machines; lanes: loops, then as below */
    struct remote *remote;
    struct applier *applier;
    struct segments *segments[THREAD_COUNT + 1]; /* one for each thread, and the office's */
    struct ledger *reader;                       /* upkeep's */
    struct lease_port *lease;
    struct queue *publisher;
    struct queue *consumer;
    struct queue *payments; /* the teller's */
    struct bookings bookings[DESK_COUNT];
    struct upkeep *upkeep;
    struct follower *follower;
    struct relay *relay;
    struct porter *porter;
    struct teller *teller;
    struct queue *parked; /* the reconciler's */
    struct redriver redriver;
    struct reconcile *reconcile;
    struct reconciler *reconciler;
    struct heralding *heralding;
    struct pulsing *pulsing;
    size_t promises_skipped; /* of this pass: their sales are not known here */
    _Atomic bool keeps;      /* this process holds the keeper's lease */
    struct assembly *parts;
    _Atomic bool stopping;
    pthread_mutex_t sleep_lock; /* sleeps that end when it stops */
    pthread_cond_t sleep_ends;
    pthread_t threads[THREAD_COUNT];
    bool running[THREAD_COUNT];
};

#define OFFICE_SEGMENTS THREAD_COUNT

static void sleep_ms(struct distributed *distributed, int64_t ms)
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

/* What upkeep's last look at the segments and its last read of the ledger met. */
static void tell_outages(struct distributed *distributed, struct outage *segments,
                         struct outage *ledger)
{
    int64_t now_ms = clock_boot_us(distributed->clock) / 1000;
    uint64_t away = upkeep_away(distributed->upkeep);
    if (!outage_is_due(ledger, now_ms)) {
        return;
    }
    bool has_queue = false;
    bool queue_up = engines_links_up(&distributed->engines, &has_queue);
    if (has_queue) {
        metrics_know(metrics_slot(&distributed->parts->metrics, distributed->loops + SLOT_UPKEEP),
                     METRIC_RABBITMQ_UP, queue_up);
    }
    for (uint32_t s = 0; s < distributed->places.count; s++) {
        char part[24];
        (void)snprintf(part, sizeof(part), "segment-%u", s);
        outage_seen(&segments[s], "redis", part, (away >> s & 1) != 0,
                    segments_redis_trouble(distributed->segments[THREAD_UPKEEP], s), now_ms);
    }
    outage_seen(ledger, "mariadb", "upkeep", upkeep_ledger_away(distributed->upkeep),
                ledger_mariadb_error(distributed->reader), now_ms);
}

static void tell_queue_outage(struct distributed *distributed, struct outage *outage,
                              struct queue *queue, enum engines_link link)
{
    static const char *const parts[] = {
        [LINK_RELAY] = "relay", [LINK_BOOKER] = "booker", [LINK_TELLER] = "teller"};
    int64_t now_ms = clock_boot_us(distributed->clock) / 1000;
    if (queue != NULL && outage_is_due(outage, now_ms)) {
        bool away = queue_amqp_wait(queue, 0) != 0;
        engines_link_seen(&distributed->engines, link, away);
        outage_seen(outage, "rabbitmq", parts[link], away, queue_amqp_error(queue), now_ms);
    }
}

static void *run_upkeep(void *context)
{
    struct distributed *distributed = context;
    struct outage segments[SEGMENTS_MAX] = {{0}};
    struct outage ledger = {0};
    (void)pthread_setname_np(pthread_self(), "upkeep");
    while (!atomic_load(&distributed->stopping)) {
        upkeep_turn(distributed->upkeep);
        tell_outages(distributed, segments, &ledger);
        bool ready = upkeep_is_ready(distributed->upkeep);
        if (ready && !atomic_load(&distributed->parts->shared.ready)) {
            assembly_ready(distributed->parts);
            log_event(LOG_INFO, "engine.ready", LOG_U64("segments", distributed->places.count));
        }
        sleep_ms(distributed, UPKEEP_PAUSE_MS);
    }
    return NULL;
}

static void *run_follower(void *context)
{
    struct distributed *distributed = context;
    (void)pthread_setname_np(pthread_self(), "follower");
    while (!atomic_load(&distributed->stopping)) {
        follower_turn(distributed->follower, TURN_MS);
    }
    return NULL;
}

static void *run_relay(void *context)
{
    struct distributed *distributed = context;
    struct outage outage = {0};
    (void)pthread_setname_np(pthread_self(), "relay");
    while (!atomic_load(&distributed->stopping)) {
        relay_turn(distributed->relay, TURN_MS);
        tell_queue_outage(distributed, &outage, distributed->publisher, LINK_RELAY);
    }
    return NULL;
}

static void *run_porter(void *context)
{
    struct distributed *distributed = context;
    struct outage outage = {0};
    (void)pthread_setname_np(pthread_self(), "porter");
    while (!atomic_load(&distributed->stopping)) {
        porter_turn(distributed->porter, TURN_MS);
        tell_queue_outage(distributed, &outage, distributed->consumer, LINK_BOOKER);
    }
    return NULL;
}

static void *run_teller(void *context)
{
    struct distributed *distributed = context;
    struct outage outage = {0};
    (void)pthread_setname_np(pthread_self(), "teller");
    while (!atomic_load(&distributed->stopping)) {
        teller_turn(distributed->teller, TURN_MS);
        tell_queue_outage(distributed, &outage, distributed->payments, LINK_TELLER);
    }
    return NULL;
}

/* The keeper's lease; the office does the keeping. Beside it, segments that need it are rebuilt, and
 * dry ones refilled. */
static void *run_keeper(void *context)
{
    struct distributed *distributed = context;
    int64_t lease_ms = 0;
    (void)pthread_setname_np(pthread_self(), "keeper");
    while (!atomic_load(&distributed->stopping)) {
        int64_t now_ms = clock_boot_us(distributed->clock) / 1000;
        if (now_ms >= lease_ms) {
            uint64_t token = 0;
            /* Whose time is not the gate's keeps no deadlines, and opens and closes no sales. */
            bool may_keep = !atomic_load(&distributed->places.clock_is_off);
            int error = may_keep
                            ? lease_take(distributed->lease, OFFICE_LEASE, LEASE_TTL_MS, &token)
                            : ERR_BUSY;
            office_keep(distributed->parts->office, error == 0 ? token : 0);
            if (!may_keep) {
                lease_drop(distributed->lease, OFFICE_LEASE);
            }
            atomic_store(&distributed->keeps, error == 0);
            lease_ms = now_ms + LEASE_EVERY_MS;
        }
        if (engines_keep_round(&distributed->engines, now_ms)) {
            office_hurry(distributed->parts->office);
        }
        sleep_ms(distributed, KEEP_EVERY_MS);
    }
    office_keep(distributed->parts->office, 0);
    lease_drop(distributed->lease, OFFICE_LEASE);
    engines_keep_end(&distributed->engines);
    return NULL;
}

static void *run_reconciler(void *context)
{
    struct distributed *distributed = context;
    (void)pthread_setname_np(pthread_self(), "reconciler");
    while (!atomic_load(&distributed->stopping)) {
        reconciler_turn(distributed->reconciler);
        (void)redriver_turn(&distributed->redriver, atomic_load(&distributed->keeps));
    }
    return NULL;
}

/* Not cut short by the end of the server: whoever rebuilds a segment waits for what is on its way,
 * and for fronts, or would open it too early. It is a few seconds at most. */
static void await_sleep_ms(void *context, int64_t ms)
{
    struct timespec pause = {ms / 1000, ms % 1000 * 1000000};
    (void)context;
    (void)nanosleep(&pause, NULL);
}

static int64_t await_now_ms(void *context)
{
    return inside_time_ms(&((struct distributed *)context)->parts->time);
}

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
    wishes_init(&distributed->wishes);
    atomic_store(&distributed->places.clock_is_off, true); /* until it has been compared */
    distributed->config = config;
    settings_dials(&distributed->dials, config);
    distributed->roles = config_roles(config->server_roles);
    distributed->loops = loops;
    distributed->clock = clock;
    *ret_distributed = distributed; /* freed by the caller whatever comes */
    int error = engines_open(&distributed->engines, config, clock);
    if (error != 0) {
        return error;
    }
    distributed->places.count = engines_segments(&distributed->engines);
    distributed->shelf = shelf_new();
    error = distributed->shelf == NULL ? ERR_NOMEM : 0;
    if (error == 0) {
        error = spool_new((uint32_t)config->spool_promises, &distributed->spool);
    }
    if (error != 0) {
        return assembly_fail("cannot start; lower spool.promises", error, "");
    }
    return engines_gate(&distributed->engines, loops + LANE_COUNT, &distributed->gate);
}

uint32_t distributed_segments(const struct distributed *distributed)
{
    return distributed->places.count;
}

struct spool *distributed_spool(struct distributed *distributed)
{
    return distributed->spool;
}

int distributed_fd(const struct distributed *distributed, uint32_t loop)
{
    return engines_gate_fd(&distributed->engines, loop);
}

static void read_sales(void *context)
{
    office_refresh(((struct distributed *)context)->parts->office);
}

int distributed_join(struct distributed *distributed, struct assembly *parts,
                     struct ledgers *ledgers)
{
    distributed->parts = parts;
    struct remote_options options = {.loops = distributed->loops,
                                     .dials = &distributed->dials,
                                     .refill_ms = REFILL_MS,
                                     .wishes = &distributed->wishes,
                                     .clock = distributed->clock,
                                     .read_sales = read_sales,
                                     .context = distributed};
    int error = remote_new(distributed->gate, &distributed->places, parts->catalog,
                           distributed->shelf, distributed->spool, options, &distributed->remote);
    if (error == 0) {
        error = engines_new_segments(&distributed->engines, "office",
                                     &distributed->segments[OFFICE_SEGMENTS]);
    }
    if (error == 0) {
        error = applier_new(distributed->segments[OFFICE_SEGMENTS], &distributed->places,
                            ledgers->writer, parts->catalog, parts->options.sizes,
                            &distributed->applier);
    }
    if (error != 0) {
        return assembly_fail("cannot start", error, "the gate's part");
    }
    parts->options.gate = remote_port(distributed->remote);
    parts->options.office.sink = applier_sink(distributed->applier);
    parts->options.office.shared = true;
    parts->options.office.desks = DESK_COUNT;
    parts->shared.health_only = (distributed->roles & ROLE_FRONT) == 0;
    return 0;
}

/* For what whoever met it does not log: no memory, no thread. */
static int told(int error)
{
    return error == 0 ? 0 : assembly_fail("cannot start the engine's threads", error, "");
}

static int make_desk(struct distributed *distributed, int desk, enum thread_kind thread,
                     const char *name)
{
    struct bookings *bookings = &distributed->bookings[desk];
    int error = engines_new_segments(&distributed->engines, name, &distributed->segments[thread]);
    if (error == 0) {
        error =
            told(bookings_init(bookings, distributed->parts->office, distributed->segments[thread],
                               &distributed->places, distributed->loops, (uint32_t)desk));
    }
    if (error == 0) {
        bookings->dials = &distributed->dials;
        bookings->time = &distributed->parts->time;
    }
    return error;
}

static bool refill(void *context, const struct wish *wish)
{
    struct distributed *distributed = context;
    return engines_refill(&distributed->engines, wish->segment, wish->item, wish->units);
}

static int make_upkeep(struct distributed *distributed)
{
    struct assembly *parts = distributed->parts;
    int error = make_desk(distributed, DESK_UPKEEP, THREAD_UPKEEP, "upkeep");
    if (error == 0) {
        error = engines_new_reader(&distributed->engines, &distributed->reader);
    }
    if (error != 0) {
        return error;
    }
    struct upkeep_parts upkeep = {
        .segments = distributed->segments[THREAD_UPKEEP],
        .ledger = distributed->reader,
        .gate = distributed->gate,
        .bookings = &distributed->bookings[DESK_UPKEEP],
        .places = &distributed->places,
        .catalog = parts->catalog,
        .spool = distributed->spool,
        .shelf = distributed->shelf,
        .wishes = &distributed->wishes,
        .time = &parts->time,
        .metrics = metrics_slot(&parts->metrics, distributed->loops + SLOT_UPKEEP),
        .dials = &distributed->dials,
        .refill = refill,
        .context = distributed,
    };
    return told(upkeep_new(&upkeep, &distributed->upkeep));
}

static int make_follower(struct distributed *distributed)
{
    struct assembly *parts = distributed->parts;
    int error = engines_new_segments(&distributed->engines, "follower",
                                     &distributed->segments[THREAD_FOLLOWER]);
    if (error != 0) {
        return error;
    }
    struct follower_parts follower = {
        .segments = distributed->segments[THREAD_FOLLOWER],
        .gate = distributed->gate,
        .lane = distributed->loops + LANE_FOLLOWER,
        .engine = parts->engine,
        .places = &distributed->places,
        .shelf = distributed->shelf,
        .spool = distributed->spool,
        .catalog = parts->catalog,
        .clock = distributed->clock,
        .sales_changed = read_sales,
        .context = distributed,
    };
    return told(follower_new(&follower, &distributed->follower));
}

/* Of the first segment that has any. */
static const char *outbox_words(void *context)
{
    struct distributed *distributed = context;
    const char *words = "";
    for (uint32_t s = 0; words[0] == '\0' && s < distributed->places.count; s++) {
        words = segments_redis_trouble(distributed->segments[THREAD_RELAY], s);
    }
    return words;
}

static int make_relay(struct distributed *distributed)
{
    struct assembly *parts = distributed->parts;
    const struct config *config = distributed->config;
    int error = make_desk(distributed, DESK_RELAY, THREAD_RELAY, "relay");
    if (error == 0) {
        error = engines_new_queue(&distributed->engines, true, &distributed->publisher);
    }
    if (error != 0) {
        return error;
    }
    struct relay_options options = {.window = (uint32_t)config->relay_window,
                                    .dials = &distributed->dials,
                                    .words = outbox_words,
                                    .words_context = distributed};
    return told(relay_new(distributed->segments[THREAD_RELAY], distributed->publisher,
                          &distributed->bookings[DESK_RELAY], &parts->time,
                          metrics_slot(&parts->metrics, distributed->loops + SLOT_RELAY), options,
                          &distributed->relay));
}

static int make_porter(struct distributed *distributed)
{
    struct assembly *parts = distributed->parts;
    int error = engines_new_queue(&distributed->engines, false, &distributed->consumer);
    if (error != 0 || distributed->consumer == NULL) {
        return error; /* no queue: the relay brings everything to the office itself */
    }
    error = make_desk(distributed, DESK_PORTER, THREAD_PORTER, "porter");
    return error != 0
               ? error
               : told(porter_new(distributed->consumer, &distributed->bookings[DESK_PORTER],
                                 &parts->time,
                                 metrics_slot(&parts->metrics, distributed->loops + SLOT_PORTER),
                                 &distributed->porter));
}

static int start_thread(struct distributed *distributed, enum thread_kind kind,
                        void *(*run)(void *))
{
    distributed->running[kind] =
        pthread_create(&distributed->threads[kind], NULL, run, distributed) == 0;
    return told(distributed->running[kind] ? 0 : ERR_NOMEM);
}

/* Where payments come from a queue, too. */
static int start_teller(struct distributed *distributed)
{
    struct assembly *parts = distributed->parts;
    struct teller_parts teller = {
        .office = parts->office,
        .loops = distributed->loops,
        .desk = DESK_TELLER,
        .gate = distributed->gate,
        .lane = distributed->loops + LANE_TELLER,
        .await = {distributed, await_sleep_ms, await_now_ms},
        .places = &distributed->places,
        .catalog = parts->catalog,
        .time = &parts->time,
        .metrics = metrics_slot(&parts->metrics, distributed->loops + SLOT_TELLER),
    };
    int error = engines_new_payments(&distributed->engines, &teller.queue);
    if (error != 0 || teller.queue == NULL) {
        return error;
    }
    distributed->payments = teller.queue;
    error = told(teller_new(&teller, &distributed->teller));
    return error != 0 ? error : start_thread(distributed, THREAD_TELLER, run_teller);
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
        sleep_ms(context, RECONCILE_STEP_MS);
        ms -= RECONCILE_STEP_MS;
    }
    if (ms <= RECONCILE_STEP_MS) {
        sleep_ms(context, ms);
    }
}

/* A connection nobody uses is taken for dead; one that was lost is made again in steps. */
static void reconcile_idle(void *context)
{
    struct distributed *distributed = context;
    if (distributed->parked != NULL) {
        engines_link_seen(&distributed->engines, LINK_RECONCILER,
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
    office_hurry(distributed->parts->office); /* what was booked is to reach the segments */
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
            const struct sale_row *sale = NULL;
            struct decision *decision = &ret_decisions[count];
            *decision = (struct decision){.epoch = entries[i].epoch, .command = entries[i].command};
            catalog_lock(distributed->parts->catalog);
            bool known =
                catalog_item(distributed->parts->catalog, entries[i].command.item, &sale) != NULL &&
                sale->homes > 0;
            decision->segment = known ? remote_segment(entries[i].command.id, sale) : 0;
            catalog_unlock(distributed->parts->catalog);
            known = known && decision->segment < distributed->places.count;
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
    int error = engines_new_segments(&distributed->engines, "reconciler",
                                     &distributed->segments[THREAD_RECONCILER]);
    if (error == 0) {
        error = engines_new_writer(&distributed->engines, &ledger);
    }
    if (error == 0) {
        error = engines_new_queue(&distributed->engines, false, &distributed->parked);
    }
    if (error != 0) {
        return error;
    }
    struct reconcile_ports ports = {.segments = distributed->segments[THREAD_RECONCILER],
                                    .gate = distributed->gate,
                                    .ledger = ledger,
                                    .queue = distributed->parked,
                                    .await = {distributed, reconcile_sleep_ms, await_now_ms}};
    struct reconcile_options options = {.segments = distributed->places.count,
                                        .loop = distributed->loops + LANE_RECONCILER,
                                        .bound_ms = config->reconcile_bound_s * 1000,
                                        .poll_ms = RECONCILE_POLL_MS,
                                        .context = distributed,
                                        .promised = reconcile_promised,
                                        .ending = reconcile_ending};
    error = told(reconcile_new(ports, options, &distributed->reconcile));
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
    error = told(reconciler_new(work, parts->engine, distributed->clock,
                                metrics_slot(&parts->metrics, distributed->loops + SLOT_RECONCILER),
                                distributed->loops, config->reconcile_every_s * 1000,
                                &distributed->reconciler));
    parts->shared.reconciler = distributed->reconciler;
    redriver_init(&distributed->redriver, distributed->parked, distributed->clock,
                  config->amqp_redrive_s * 1000);
    distributed->redriver.stopping = &distributed->stopping;
    return error;
}

/* ---- telling ---- */

static void herald_seen(void *context, bool away)
{
    struct distributed *distributed = context;
    engines_link_seen(&distributed->engines, LINK_HERALD, away);
}

static int start_herald(struct distributed *distributed)
{
    struct ledger *ledger = NULL;
    struct lease_port *lease = NULL;
    if (!exchange_wanted(distributed->config)) {
        return 0;
    }
    int error = engines_new_writer(&distributed->engines, &ledger);
    if (error == 0) {
        error = engines_new_lease(&distributed->engines, &lease);
    }
    return error != 0 ? error
                      : heralding_start(distributed->parts, distributed->config, ledger, lease,
                                        herald_seen, distributed, &distributed->heralding);
}

/* ---- start ---- */

int distributed_start(struct distributed *distributed, struct assembly *parts)
{
    uint32_t roles = distributed->roles;
    distributed->parts = parts;
    int error = make_upkeep(distributed);
    error = error != 0 ? error : start_thread(distributed, THREAD_UPKEEP, run_upkeep);
    if (error == 0 && (roles & ROLE_FRONT) != 0) {
        error = make_follower(distributed);
        error = error != 0 ? error : start_thread(distributed, THREAD_FOLLOWER, run_follower);
        error = error != 0 ? error
                           : pulsing_start(parts, &distributed->engines, &distributed->places,
                                           &distributed->pulsing);
    }
    if (error == 0 && (roles & ROLE_RELAY) != 0) {
        error = make_relay(distributed);
        error = error != 0 ? error : start_thread(distributed, THREAD_RELAY, run_relay);
    }
    if (error == 0 && (roles & ROLE_BOOKER) != 0) {
        error = make_porter(distributed);
        if (error == 0 && distributed->porter != NULL) {
            error = start_thread(distributed, THREAD_PORTER, run_porter);
        }
        error = error != 0 ? error : start_teller(distributed);
    }
    if (error == 0 && (roles & ROLE_KEEPER) != 0) {
        error = engines_new_lease(&distributed->engines, &distributed->lease);
        if (error == 0) {
            struct await await = {distributed, await_sleep_ms, await_now_ms};
            error = engines_keep(&distributed->engines, await, distributed->loops + LANE_KEEPER,
                                 &parts->options.sizes);
        }
        error = error != 0 ? error : start_thread(distributed, THREAD_KEEPER, run_keeper);
        error = error != 0 ? error : start_herald(distributed);
    }
    if (error == 0 && (roles & (ROLE_FRONT | ROLE_KEEPER)) != 0) {
        error = make_reconciler(distributed);
        error = error != 0 ? error : start_thread(distributed, THREAD_RECONCILER, run_reconciler);
    }
    return error;
}

void distributed_reload(struct distributed *distributed, const struct config *config)
{
    settings_dials(&distributed->dials, config);
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
    heralding_stop(distributed->heralding);
    pulsing_stop(distributed->pulsing);
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
    porter_free(distributed->porter);
    teller_free(distributed->teller);
    follower_free(distributed->follower);
    upkeep_free(distributed->upkeep);
    reconciler_free(distributed->reconciler);
    reconcile_free(distributed->reconcile);
    heralding_free(distributed->heralding);
    pulsing_free(distributed->pulsing);
    for (int i = 0; i < DESK_COUNT; i++) {
        bookings_done(&distributed->bookings[i]);
    }
    applier_free(distributed->applier);
    remote_free(distributed->remote);
    engines_close(&distributed->engines);
    spool_free(distributed->spool);
    shelf_free(distributed->shelf);
    wishes_done(&distributed->wishes);
    (void)pthread_cond_destroy(&distributed->sleep_ends);
    (void)pthread_mutex_destroy(&distributed->sleep_lock);
    free(distributed);
}
