/* See world.h: one process of the distributed engine, as src/app/distributed.c puts it together. */
#include <string.h>

#include "base/check.h"
#include "base/err.h"
#include "journal/journal_file.h"
#include "world.h"

#define TURN_MS 100
#define REFILL_MS 1500
#define LEASE_TTL_MS 6000
#define LEASE_EVERY_MS 1000
#define KEEP_LOOK_MS 300
#define LOOPS 1
#define CONNECTION_SET_GATE_SUBSCRIBER LOOPS
#define CONNECTION_SET_BALANCE (LOOPS + 1)
#define CONNECTION_SETS (LOOPS + 2)
#define PROMISES_MAX 4000

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
        if (process->ledger_writer == ledger_writer) {
            process->waiting[mailbox] = fiber_self();
            fiber_wake(process->fibers[THREAD_LEDGER_WRITER], world_between(the_world, 0, 100));
            (void)fiber_sleep(timeout_us);
            process->waiting[mailbox] = NULL;
            return;
        }
    }
    CHECK(!"a ledger writer of nobody");
}

/* ---- threads ---- */

static void run_journal(void *context)
{
    struct process *process = context;
    for (;;) {
        bool wrote = false;
        if (journal_flush(process->journal, &wrote) != 0) {
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
        janitor_iterate(&process->janitor);
        (void)fiber_sleep(world_about(process->world, JANITOR_EVERY_US));
    }
}

static void run_ledger_writer(void *context)
{
    struct process *process = context;
    for (;;) {
        int64_t sleep_us = 0;
        ledger_writer_iterate(process->ledger_writer, &sleep_us);
        for (int i = 0; i < MAILBOX_COUNT; i++) {
            fiber_wake(process->waiting[i], world_between(process->world, 0, 100));
        }
        fiber_wake(process->fibers[THREAD_LOOP], 0);
        (void)fiber_sleep(sleep_us);
    }
}

static void run_promise_resolver(void *context)
{
    struct process *process = context;
    for (;;) {
        promise_resolver_iterate(process->promise_resolver);
        (void)fiber_sleep(world_about(process->world, process->world->plan.promise_resolver_us));
    }
}

static void run_gate_subscriber(void *context)
{
    struct process *process = context;
    for (;;) {
        gate_subscriber_iterate(process->gate_subscriber, TURN_MS);
        fiber_wake(process->fibers[THREAD_LOOP], 0);
        (void)fiber_sleep(world_between(process->world, 0, 200));
    }
}

static void run_relay(void *context)
{
    struct process *process = context;
    for (;;) {
        relay_iterate(process->relay, TURN_MS);
        (void)fiber_sleep(world_between(process->world, 0, 200));
    }
}

static void run_order_consumer(void *context)
{
    struct process *process = context;
    for (;;) {
        order_consumer_iterate(process->order_consumer, TURN_MS);
        (void)fiber_sleep(world_between(process->world, 0, 200));
    }
}

/* As backends_keep_round. */
static void keep_round(struct process *process, int64_t now_ms)
{
    struct recover_round rebuilt = {0};
    struct balance_round moved = {0};
    if (now_ms >= process->look_ms) {
        (void)recover_round(process->recover, &rebuilt);
        process->look_ms = now_ms + KEEP_LOOK_MS;
        if (rebuilt.rebuilt > 0) {
            world_note(process->world, "recovered", process->index, rebuilt.rebuilt, 0);
        }
    }
    if (process->balance != NULL) {
        process->balances = balance_round(process->balance, &moved) == 0;
    }
    if (moved.units > 0) {
        world_note(process->world, "balanced", process->index, moved.units, moved.open);
        ledger_writer_hurry(process->ledger_writer);
        fiber_wake(process->fibers[THREAD_LEDGER_WRITER], 0);
    }
}

static void run_keeper(void *context)
{
    struct process *process = context;
    int64_t lease_ms = 0;
    for (;;) {
        int64_t now_ms = clock_boot_us(&process->clock.port) / 1000;
        if (now_ms >= lease_ms) {
            uint64_t token = 0;
            bool may_keep = !atomic_load(&process->segment_table.clock_is_off);
            int error = may_keep
                            ? lease_take(&process->lease.port, KEEPER_LEASE, LEASE_TTL_MS, &token)
                            : ERR_BUSY;
            if (!may_keep) {
                lease_drop(&process->lease.port, KEEPER_LEASE);
            }
            ledger_writer_keep(process->ledger_writer, error == 0 ? token : 0);
            process->keeps = error == 0;
            lease_ms = now_ms + LEASE_EVERY_MS;
        }
        keep_round(process, now_ms);
        uint64_t sent = redriver_iterate(&process->redriver, process->keeps);
        if (sent > 0) {
            world_note(process->world, "redriven", process->index, sent, 0);
        }
        (void)fiber_sleep(world_about(process->world, process->world->plan.keeper_us));
    }
}

/* ---- what the parts call back ---- */

static bool refill(void *context, const struct refill *refill)
{
    struct process *process = context;
    if (!process->balances) {
        return false;
    }
    balance_ask(process->balance, refill->segment, refill->item, refill->units);
    return true;
}

static void read_sales(void *context)
{
    ledger_writer_refresh(((struct process *)context)->ledger_writer);
}

static void blocking_sleep_ms(void *context, int64_t ms)
{
    struct process *process = context;
    (void)fiber_sleep(ms * 1000 + world_between(process->world, 0, 1000));
}

static int64_t blocking_now_ms(void *context)
{
    return inside_time_ms(&((struct process *)context)->time);
}

static void woken(void *context)
{
    fiber_wake(((struct process *)context)->fibers[THREAD_LOOP], 0);
}

/* ---- its start ---- */

static void open_journal(struct process *process)
{
    struct journal_options options = {.segment_bytes = 64ULL * JOURNAL_SECTOR,
                                      .buffer_bytes = 32U * JOURNAL_SECTOR,
                                      .each = spool_each};
    struct journal_found found;
    CHECK(spool_new(PROMISES_MAX, &process->spool) == 0);
    options.each_context = process->spool;
    int error = journal_open(&process->ram.disk, options, NULL, &process->journal, &found);
    if (error != 0) {
        world_broken(process->world, 12, "process %u cannot open its journal: %s, %s, %s",
                     process->index, err_text(error), found.where, found.why);
        (void)fiber_sleep(INT64_MAX);
    }
    CHECK(spool_begin(process->spool, process->journal) == 0);
    inside_time_init(&process->time, &process->clock.port, found.highest_ms);
    world_note(process->world, "journal opened", process->index, found.replayed, found.torn_bytes);
}

static void make_front(struct process *process)
{
    struct world *world = process->world;
    process->segment_table.count = world->count;
    process->runtime_limits = (struct runtime_limits){.line = 20,
                                                      .line_ms = 20000,
                                                      .stale_ms = world->plan.stale_ms,
                                                      .direct_after_ms = 3000,
                                                      .direct_outbox = world->plan.direct_outbox,
                                                      .direct_rate = world->plan.direct_rate};
    atomic_store(&process->segment_table.clock_is_off, true); /* until it has been compared */
    process->gate = sim_segments_front(world->segments, CONNECTION_SETS);
    struct gate_proxy_options options = {.loops = LOOPS,
                                         .runtime_limits = &process->runtime_limits,
                                         .refill_ms = REFILL_MS,
                                         .refill_requests = &process->refill_requests,
                                         .clock = &process->clock.port,
                                         .read_sales = read_sales,
                                         .context = process};
    CHECK(gate_proxy_new(process->gate, &process->segment_table, process->catalog,
                         process->stock_cache, process->spool, options, &process->proxy) == 0);
    CHECK(embedded_gate_new_remote(gate_proxy_port(process->proxy), process->journal, LOOPS,
                                   &process->engine) == 0);
    waker_init(embedded_gate_waker(process->engine, 0), woken, process);
}

static void make_ledger_writer(struct process *process)
{
    struct segments *segments = &process->segments[THREAD_LEDGER_WRITER].segments;
    CHECK(segment_event_sink_new(segments, &process->segment_table, &process->writer.ledger,
                                 process->catalog, sizes, &process->segment_event_sink) == 0);
    struct ledger_writer_options options = {
        .batch_max = 256,
        .tick_ms = 50,
        .board_keep_ms = 86400000,
        .event_sink = segment_event_sink_event_sink(process->segment_event_sink),
        .shared = true,
        .mailboxes = MAILBOX_COUNT};
    CHECK(ledger_writer_new(process->engine, &process->writer.ledger, process->catalog,
                            &process->time, metrics_slot(&process->metrics, 0), LOOPS, options,
                            &process->ledger_writer) == 0);
    static const enum thread_kind threads[MAILBOX_COUNT] = {THREAD_RELAY, THREAD_ORDER_CONSUMER,
                                                            THREAD_PROMISE_RESOLVER};
    for (uint32_t mailbox = 0; mailbox < MAILBOX_COUNT; mailbox++) {
        CHECK(booking_channel_init(&process->booking_channel[mailbox], process->ledger_writer,
                                   &process->segments[threads[mailbox]].segments,
                                   &process->segment_table, LOOPS, mailbox) == 0);
        process->booking_channel[mailbox].runtime_limits = &process->runtime_limits;
        process->booking_channel[mailbox].time = &process->time;
    }
    process->janitor = (struct janitor){.journal = process->journal,
                                        .ledger_writer = process->ledger_writer,
                                        .spool = process->spool,
                                        .clock = &process->clock.port,
                                        .metrics = metrics_slot(&process->metrics, 1),
                                        .sizes = sizes};
}

static void make_stages(struct process *process)
{
    struct world *world = process->world;
    struct promise_resolver_parts promise_resolver = {
        .segments = &process->segments[THREAD_PROMISE_RESOLVER].segments,
        .ledger = &process->reader.ledger,
        .gate = process->gate,
        .booking_channel = &process->booking_channel[MAILBOX_PROMISE_RESOLVER],
        .segment_table = &process->segment_table,
        .catalog = process->catalog,
        .spool = process->spool,
        .stock_cache = process->stock_cache,
        .refill_requests = &process->refill_requests,
        .time = &process->time,
        .metrics = metrics_slot(&process->metrics, 2),
        .runtime_limits = &process->runtime_limits,
        .refill = refill,
        .context = process};
    CHECK(promise_resolver_new(&promise_resolver, &process->promise_resolver) == 0);
    struct gate_subscriber_parts gate_subscriber = {
        .segments = &process->segments[THREAD_GATE_SUBSCRIBER].segments,
        .gate = process->gate,
        .connection_set = CONNECTION_SET_GATE_SUBSCRIBER,
        .engine = process->engine,
        .segment_table = &process->segment_table,
        .stock_cache = process->stock_cache,
        .spool = process->spool,
        .catalog = process->catalog,
        .clock = &process->clock.port,
        .sales_changed = read_sales,
        .context = process};
    CHECK(gate_subscriber_new(&gate_subscriber, &process->gate_subscriber) == 0);
    struct relay_options relay = {.window = 64, .runtime_limits = &process->runtime_limits};
    CHECK(relay_new(&process->segments[THREAD_RELAY].segments,
                    world->plan.queue ? &process->publisher.queue : NULL,
                    &process->booking_channel[MAILBOX_RELAY], &process->time,
                    metrics_slot(&process->metrics, 3), relay, &process->relay) == 0);
    if (world->plan.queue) {
        CHECK(order_consumer_new(&process->consumer.queue,
                                 &process->booking_channel[MAILBOX_ORDER_CONSUMER], &process->time,
                                 metrics_slot(&process->metrics, 4),
                                 &process->order_consumer) == 0);
    }
}

static void make_keeper(struct process *process)
{
    struct blocking blocking = {process, blocking_sleep_ms, blocking_now_ms};
    struct recover_ports ports = {.segments = &process->segments[THREAD_KEEPER].segments,
                                  .ledger = &process->keeper_writer.ledger,
                                  .lease = &process->lease.port,
                                  .blocking = blocking};
    struct recover_options options = {.segments = process->segment_table.count,
                                      .sizes = sizes,
                                      .lease_ms = LEASE_TTL_MS,
                                      .poll_ms = 50,
                                      .drain_ms = 1000,
                                      .replay_ms = 1500};
    CHECK(recover_new(ports, options, &process->recover) == 0);
    redriver_init(&process->redriver, process->world->plan.queue ? &process->parked.queue : NULL,
                  &process->clock.port, process->world->plan.redrive_ms);
    if (process->segment_table.count < 2) {
        return;
    }
    struct balance_ports balance = {.segments = ports.segments,
                                    .gate = process->gate,
                                    .ledger = ports.ledger,
                                    .lease = ports.lease,
                                    .blocking = blocking};
    struct balance_options balance_options = {.segments = process->segment_table.count,
                                              .loop = CONNECTION_SET_BALANCE,
                                              .moves_max = 8,
                                              .lease_ms = LEASE_TTL_MS,
                                              .pause_ms = 200,
                                              .refill_ms = 5000};
    CHECK(balance_new(balance, balance_options, &process->balance) == 0);
}

static void start_threads(struct process *process)
{
    static void (*const runs[THREAD_COUNT])(void *) = {
        api_run,           run_journal,          run_janitor,
        run_ledger_writer, run_promise_resolver, run_gate_subscriber,
        run_relay,         run_order_consumer,   run_keeper};
    for (int i = 0; i < THREAD_COUNT; i++) {
        if (i != THREAD_ORDER_CONSUMER || process->order_consumer != NULL) {
            process->fibers[i] =
                fiber_start(process->world->fibers, group_of(process), runs[i], process);
        }
    }
}

/* The start, on a fiber of its own: it reads the ledger, and may be killed while it does. */
static void run_start(void *context)
{
    struct process *process = context;
    struct world *world = process->world;
    CHECK(metrics_init(&process->metrics, 5) == 0);
    refill_requests_init(&process->refill_requests);
    process->catalog = catalog_new();
    process->stock_cache = stock_cache_new();
    open_journal(process);
    struct ledger_query state = {.kind = QUERY_STATE};
    while (ledger_read(&process->writer.ledger, &state) != 0) {
        (void)fiber_sleep(200000); /* who runs it starts it again */
    }
    make_front(process);
    make_ledger_writer(process);
    while (ledger_writer_start(process->ledger_writer) != 0) {
        (void)fiber_sleep(200000);
    }
    make_stages(process);
    make_keeper(process);
    process->up = true;
    world_note(world, "process up", process->index, process->lives, 0);
    start_threads(process);
}

void process_start(struct world *world, uint32_t index)
{
    struct process *process = &world->processes[index];
    struct process fresh = {.world = world,
                            .index = index,
                            .lives = process->lives + 1,
                            .ram = process->ram,
                            .clock = process->clock};
    the_world = world;
    *process = fresh;
    ram_disk_calm(&process->ram);
    world_ledger_init(&process->writer, world, index);
    world_ledger_init(&process->reader, world, index);
    world_ledger_init(&process->keeper_writer, world, index);
    for (int i = 0; i < THREAD_COUNT; i++) {
        world_segments_init(&process->segments[i], world, index + 1);
    }
    if (world->plan.queue) {
        world_queue_init(&process->publisher, world, true);
        world_queue_init(&process->consumer, world, false);
        world_queue_init(&process->parked, world, false);
    }
    world_lease_init(&process->lease, world, index);
    (void)fiber_start(world->fibers, group_of(process), run_start, process);
}

/* ---- its end ---- */

static void free_parts(struct process *process)
{
    balance_free(process->balance);
    recover_free(process->recover);
    order_consumer_free(process->order_consumer);
    relay_free(process->relay);
    if (process->gate_subscriber != NULL) {
        gate_subscriber_free(process->gate_subscriber);
    }
    promise_resolver_free(process->promise_resolver);
    for (int i = 0; i < MAILBOX_COUNT; i++) {
        booking_channel_done(&process->booking_channel[i]);
    }
    ledger_writer_free(process->ledger_writer);
    segment_event_sink_free(process->segment_event_sink);
    if (process->engine != NULL) {
        embedded_gate_free(process->engine);
    }
    gate_proxy_free(process->proxy);
    sim_segments_front_free(process->gate);
    for (int i = 0; i < THREAD_COUNT; i++) {
        sim_segments_worker_free(process->segments[i].inner);
    }
    sim_queue_close(process->publisher.inner);
    sim_queue_close(process->consumer.inner);
    sim_queue_close(process->parked.inner);
    memory_port_done(&process->writer.inner);
    memory_port_done(&process->reader.inner);
    memory_port_done(&process->keeper_writer.inner);
    if (process->journal != NULL) {
        journal_free(process->journal);
    }
    spool_free(process->spool);
    if (process->stock_cache != NULL) {
        stock_cache_free(process->stock_cache);
        catalog_free(process->catalog);
        refill_requests_done(&process->refill_requests);
        metrics_done(&process->metrics);
    }
}

void process_kill(struct world *world, uint32_t index, enum ram_crash how)
{
    struct process *process = &world->processes[index];
    fibers_kill(world->fibers, group_of(process));
    process->up = false;
    api_lost(process);
    free_parts(process);
    process->ledger_writer = NULL;
    ram_disk_crash(&process->ram, how, &world->prng);
    for (size_t i = 0; i < world->model.count; i++) {
        world->model.orders[i].heard[index] = 0;
        world->model.orders[i].shown_by[index] = 0;
    }
}
