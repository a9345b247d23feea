/* See world.h: one process, as src/app/serve.c and src/app/distributed.c put it together, on
 * simulated ports. */
#include <string.h>

#include "base/check.h"
#include "base/err.h"
#include "journal/journal_file.h"
#include "world.h"

#define TURN_MS 100
#define RECOVER_LEASE_MS 6000
#define PROMISES_MAX 4000
/* More than any clock that may sell is ahead of the true time. */
#define CLOCKS_APART_MS 61000

static const struct gate_sizes sizes = {.orders = 4096, .buyers = 1024, .items = 8, .sales = 4};

static uint32_t group_of(const struct process *process)
{
    return process->index + 1;
}

/* ---- what linked parts of the engine call: see test/CMakeLists.txt ---- */

static struct world *the_world; /* random bytes come from its seed */

/* In place of crypt_random. */
void __wrap_crypt_random(void *ret_bytes, size_t n);
void __wrap_crypt_random(void *ret_bytes, size_t n)
{
    for (size_t i = 0; i < n; i++) {
        ((uint8_t *)ret_bytes)[i] = (uint8_t)world_below(the_world, 256);
    }
}

/* In place of ledger_writer_wait: the ledger writer is a fiber, too. */
void __wrap_ledger_writer_wait(struct ledger_writer *ledger_writer, uint32_t mailbox,
                               int64_t timeout_us);
void __wrap_ledger_writer_wait(struct ledger_writer *ledger_writer, uint32_t mailbox,
                               int64_t timeout_us)
{
    for (uint32_t i = 0; i < PROCESSES; i++) {
        struct process *process = &the_world->processes[i];
        if (process->parts.ledger_writer == ledger_writer) {
            process->waiting[mailbox] = fiber_self();
            fiber_wake(process->fibers[THREAD_LEDGER_WRITER], world_between(the_world, 0, 100));
            (void)fiber_sleep(timeout_us);
            process->waiting[mailbox] = NULL;
            return;
        }
    }
    CHECK(!"a ledger writer of nobody");
}

/* In place of mailbox_wait, for the reconciler. */
void __wrap_mailbox_wait(struct mailbox *mailbox, int64_t timeout_us);
void __wrap_mailbox_wait(struct mailbox *mailbox, int64_t timeout_us)
{
    (void)mailbox;
    (void)fiber_sleep(timeout_us < 500000 ? timeout_us : 500000); /* nobody rings */
}

/* ---- threads ---- */

static void run_journal(void *context)
{
    struct process *process = context;
    for (;;) {
        bool wrote = false;
        if (journal_flush(process->parts.journal, &wrote) != 0) {
            return; /* failed: it tells so itself */
        }
        fiber_wake(process->fibers[THREAD_LOOP], 0);
        (void)fiber_sleep(world_about(process->world, wrote ? 500 : 1500));
    }
}

static void run_janitor(void *context)
{
    struct process *process = context;
    for (;;) {
        janitor_iterate(&process->parts.janitor);
        (void)fiber_sleep(world_about(process->world, JANITOR_EVERY_US));
    }
}

static void run_ledger_writer(void *context)
{
    struct process *process = context;
    for (;;) {
        int64_t sleep_us = 0;
        ledger_writer_iterate(process->parts.ledger_writer, &sleep_us);
        for (int i = 0; i < MAILBOX_COUNT; i++) {
            fiber_wake(process->waiting[i], world_between(process->world, 0, 100));
        }
        fiber_wake(process->fibers[THREAD_LOOP], 0);
        (void)fiber_sleep(sleep_us);
    }
}

static void run_event_publisher(void *context)
{
    struct process *process = context;
    for (;;) {
        event_publisher_iterate(process->event_publisher, TURN_MS);
        (void)fiber_sleep(world_between(process->world, 0, 200));
    }
}

static int64_t pause_us(const struct process *process, enum engine_thread thread)
{
    struct world *world = process->world;
    if (thread == ENGINE_PROMISE_RESOLVER) {
        return world_about(world, world->plan.promise_resolver_us);
    }
    return thread == ENGINE_LEASE || thread == ENGINE_KEEPER
               ? world_about(world, world->plan.keeper_us)
               : world_between(world, 0, 200);
}

static void run_engine(void *context)
{
    const struct engine_fiber *fiber = context;
    struct process *process = fiber->process;
    for (;;) {
        uint64_t did = engine_run(&process->engine, fiber->thread, TURN_MS);
        if (did > 0) {
            world_note(process->world, "did", process->index, fiber->thread, did);
            fiber_wake(process->fibers[THREAD_LEDGER_WRITER], 0);
        }
        if (fiber->thread == ENGINE_GATE_SUBSCRIBER) {
            fiber_wake(process->fibers[THREAD_LOOP], 0);
        }
        (void)fiber_sleep(pause_us(process, fiber->thread));
    }
}

/* ---- what the parts call back ---- */

static void blocking_sleep_ms(void *context, int64_t ms)
{
    struct process *process = context;
    (void)fiber_sleep(ms * 1000 + world_between(process->world, 0, 1000));
}

static int64_t blocking_now_ms(void *context)
{
    return inside_time_ms(&((struct process *)context)->parts.time);
}

static void woken(void *context)
{
    fiber_wake(((struct process *)context)->fibers[THREAD_LOOP], 0);
}

/* ---- its start ---- */

static void open_engine(struct process *process)
{
    struct world *world = process->world;
    struct engine_options options = {.segments = world->count,
                                     .loops = LOOPS,
                                     .requests = PROMISES_MAX,
                                     .promises = PROMISES_MAX,
                                     .sizes = sizes,
                                     .shares = world->plan.shares,
                                     .relay_window = 64,
                                     .recover_lease_ms = RECOVER_LEASE_MS,
                                     .reconcile_bound_ms = world->plan.reconcile_bound_ms,
                                     .reconcile_every_ms = world->plan.reconcile_every_ms,
                                     .redrive_ms = world->plan.redrive_ms};
    process->engine.runtime_limits =
        (struct runtime_limits){.line = 20,
                                .line_ms = 20000,
                                .stale_ms = world->plan.stale_ms,
                                .direct_after_ms = 3000,
                                .direct_outbox = world->plan.direct_outbox,
                                .direct_rate = world->plan.direct_rate};
    CHECK(engine_open(&process->engine, &options) == 0);
    process->is_open = true;
}

static void open_parts(struct process *process)
{
    struct assembly_options options = {
        .sizes = sizes,
        .journal = {.file_bytes = 64ULL * JOURNAL_SECTOR, .buffer_bytes = 32U * JOURNAL_SECTOR},
        .ledger_writer = {.batch_max = 256,
                          .cooling_ms = process->world->plan.cooling_ms,
                          .tick_ms = 50,
                          .board_keep_ms = 86400000,
                          .mailboxes = MAILBOX_COUNT},
        .clock = {.bounds = {.behind_ms = 60000,
                             .hold_ahead_ms = 3600000,
                             .max_ahead_ms = 90 * 86400000LL},
                  .confirm_ms = 60000},
        .loops = LOOPS,
        .spool = process->engine.spool};
    int error = assembly_open(&process->parts, &options, &process->ram.disk, &process->clock.port);
    const struct journal_found *found = &process->parts.found;
    if (error != 0) {
        world_broken(process->world, 12, "process %u cannot open its journal: %s, %s, %s",
                     process->index, err_text(error), found->where, found->why);
        (void)fiber_sleep(INT64_MAX);
    }
    if (found->highest_ms > clock_wall_ms(&process->world->clock.port) + CLOCKS_APART_MS) {
        world_broken(process->world, 10, "the journal of process %u is at %lld, a wrong clock's",
                     process->index, (long long)found->highest_ms);
    }
    world_note(process->world, "journal opened", process->index, found->replayed,
               found->torn_bytes);
}

static struct engine_ports ports_of(struct process *process)
{
    bool queue = process->world->plan.queue;
    struct blocking blocking = {process, blocking_sleep_ms, blocking_now_ms};
    struct engine_ports ports = {.clock = &process->clock.port,
                                 .gate = process->gate,
                                 .ledger_writer_segments =
                                     &process->ledger_writer_segments.segments,
                                 .writer = &process->writer.ledger,
                                 .promise_ledger = &process->promises.ledger,
                                 .keeper_ledger = &process->keeper.ledger,
                                 .reconciler_ledger = &process->reconciler.ledger,
                                 .keeper_lease = &process->lease.port,
                                 .recover_lease = &process->recover_lease.port,
                                 .publisher = queue ? &process->publisher.queue : NULL,
                                 .consumer = queue ? &process->consumer.queue : NULL,
                                 .payments = &process->payments.queue,
                                 .parked = queue ? &process->parked.queue : NULL,
                                 .blocking = blocking,
                                 .reconciler_blocking = blocking};
    static const uint32_t slots[ENGINE_THREADS] = {
        [ENGINE_PROMISE_RESOLVER] = SLOT_PROMISE_RESOLVER,
        [ENGINE_RELAY] = SLOT_RELAY,
        [ENGINE_ORDER_CONSUMER] = SLOT_ORDER_CONSUMER,
        [ENGINE_PAYMENT_CONSUMER] = SLOT_PAYMENT_CONSUMER,
        [ENGINE_RECONCILER] = SLOT_RECONCILER};
    for (int i = 0; i < ENGINE_THREADS; i++) {
        ports.segments[i] = &process->segments[i].segments;
        ports.metrics[i] = metrics_slot(&process->parts.metrics, LOOPS + slots[i]);
    }
    return ports;
}

static void make_event_publisher(struct process *process)
{
    struct event_publisher_ports ports = {
        .queue = &process->announcer.queue,
        .ledger = &process->events.ledger,
        .lease = &process->events_lease.port,
        .clock = &process->clock.port,
        .metrics = metrics_slot(&process->parts.metrics, LOOPS + SLOT_EVENT_PUBLISHER)};
    struct event_publisher_options options = {
        .source = "simulated", .window = 32, .lease_ms = 6000, .away_ms = 3000, .save_ms = 500};
    CHECK(event_publisher_new(ports, options, &process->event_publisher) == 0);
}

static void start_threads(struct process *process, uint32_t threads)
{
    static void (*const runs[THREAD_ENGINE])(void *) = {front_run, run_journal, run_janitor,
                                                        run_ledger_writer, run_event_publisher};
    struct fibers *fibers = process->world->fibers;
    for (int i = 0; i < THREAD_ENGINE; i++) {
        process->fibers[i] = fiber_start(fibers, group_of(process), runs[i], process);
    }
    for (int i = 0; i < ENGINE_THREADS; i++) {
        process->engine_fibers[i] = (struct engine_fiber){process, (enum engine_thread)i};
        if ((threads >> i & 1) != 0) {
            process->fibers[THREAD_ENGINE + i] =
                fiber_start(fibers, group_of(process), run_engine, &process->engine_fibers[i]);
        }
    }
}

/* The start, on a fiber of its own: it reads the ledger, and may be killed while it does. */
static void run_start(void *context)
{
    struct process *process = context;
    struct world *world = process->world;
    struct assembly *parts = &process->parts;
    struct engine *engine = &process->engine;
    open_engine(process);
    open_parts(process);
    process->gate = sim_segments_front(world->segments, LOOPS + CONNECTION_SET_COUNT);
    struct engine_ports ports = ports_of(process);
    CHECK(engine_join(engine, &ports, parts->catalog, &parts->time) == 0);
    parts->options.gate = gate_proxy_port(engine->proxy);
    parts->options.ledger_writer.event_sink =
        segment_event_sink_event_sink(engine->segment_event_sink);
    while (assembly_join(parts, &process->writer.ledger, &process->lists.ledger,
                         &process->lists.ledger) != 0) {
        (void)fiber_sleep(200000); /* the ledger is away; who runs it starts it again */
    }
    waker_init(&parts->wakers[0], woken, process);
    while (assembly_catch_up(parts) != 0) {
        (void)fiber_sleep(200000);
    }
    uint32_t threads = (1U << ENGINE_THREADS) - 1;
    threads &= world->plan.queue ? threads : ~(1U << ENGINE_ORDER_CONSUMER);
    CHECK(engine_make(engine, threads, parts->ledger_writer, parts->loop_notices, parts->wakers) ==
          0);
    make_event_publisher(process);
    process->up = true;
    world_note(world, "process up", process->index, process->lives, 0);
    start_threads(process, threads);
}

void process_start(struct world *world, uint32_t index)
{
    struct process *process = &world->processes[index];
    struct ram_disk ram = process->ram;
    struct world_clock clock = process->clock;
    uint64_t lives = process->lives + 1;
    the_world = world;
    memset(process, 0, sizeof(*process));
    process->world = world;
    process->index = index;
    process->lives = lives;
    process->ram = ram;
    process->clock = clock;
    ram_disk_calm(&process->ram);
    struct world_ledger *const ledgers[] = {&process->writer,     &process->lists,
                                            &process->promises,   &process->keeper,
                                            &process->reconciler, &process->events};
    for (size_t i = 0; i < sizeof(ledgers) / sizeof(ledgers[0]); i++) {
        world_ledger_init(ledgers[i], world, index);
    }
    for (int i = 0; i < ENGINE_THREADS; i++) {
        world_segments_init(&process->segments[i], world, index + 1);
    }
    world_segments_init(&process->ledger_writer_segments, world, index + 1);
    if (world->plan.queue) {
        world_queue_init(&process->publisher, world, world->broker, true);
        world_queue_init(&process->consumer, world, world->broker, false);
        world_queue_init(&process->parked, world, world->broker, false);
    }
    world_queue_init(&process->payments, world, world->payments, false);
    world_queue_init(&process->announcer, world, world->events, true);
    world_lease_init(&process->lease, world, index);
    world_lease_init(&process->recover_lease, world, index);
    world_lease_init(&process->events_lease, world, index);
    (void)fiber_start(world->fibers, group_of(process), run_start, process);
}

/* ---- its end ---- */

static void free_parts(struct process *process)
{
    struct queue *const queues[] = {process->publisher.inner, process->consumer.inner,
                                    process->parked.inner, process->payments.inner,
                                    process->announcer.inner};
    struct world_ledger *const ledgers[] = {&process->writer,     &process->lists,
                                            &process->promises,   &process->keeper,
                                            &process->reconciler, &process->events};
    if (process->is_open) {
        event_publisher_free(process->event_publisher);
        assembly_free(&process->parts);
        engine_free(&process->engine);
    }
    if (process->gate != NULL) {
        sim_segments_front_free(process->gate);
    }
    for (int i = 0; i < ENGINE_THREADS; i++) {
        sim_segments_worker_free(process->segments[i].inner);
    }
    sim_segments_worker_free(process->ledger_writer_segments.inner);
    for (size_t i = 0; i < sizeof(queues) / sizeof(queues[0]); i++) {
        sim_queue_close(queues[i]);
    }
    for (size_t i = 0; i < sizeof(ledgers) / sizeof(ledgers[0]); i++) {
        memory_port_done(&ledgers[i]->inner);
    }
}

void process_kill(struct world *world, uint32_t index, enum ram_crash how)
{
    struct process *process = &world->processes[index];
    fibers_kill(world->fibers, group_of(process));
    process->up = false;
    front_lost(process);
    free_parts(process);
    process->parts.ledger_writer = NULL;
    ram_disk_crash(&process->ram, how, &world->prng);
    for (size_t i = 0; i < world->model.count; i++) {
        world->model.orders[i].heard[index] = 0;
        world->model.orders[i].shown_by[index] = 0;
    }
}
