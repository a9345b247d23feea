/* See engine.h. */
#include "distributed/engine.h"

#include "base/err.h"
#include "distributed/order_segment.h"
#include "obs/log.h"

#define REFILL_MS 1500
#define LEASE_TTL_MS 6000
#define LEASE_EVERY_MS 1000
#define RECONCILE_POLL_MS 50
/* A lost segment is back after the drain, the reading and the replays. */
#define KEEP_POLL_MS 50
#define KEEP_LOOK_MS 300
#define KEEP_DRAIN_MS 1000
#define KEEP_REPLAY_MS 1500
#define BALANCE_MOVES 8
#define BALANCE_PAUSE_MS 200
#define BALANCE_REFILL_MS 5000
#define PROMISES_A_LOOK 64

static uint32_t connection_set(const struct engine *engine, enum engine_connection_set set)
{
    return engine->options.loops + (uint32_t)set;
}

/* ---- what the parts call back ---- */

static void read_sales(void *context)
{
    ledger_writer_refresh(((struct engine *)context)->ledger_writer);
}

/* False: this process does not balance. */
static bool refill(void *context, const struct refill *refill)
{
    struct engine *engine = context;
    if (!atomic_load(&engine->balances)) {
        return false;
    }
    balance_ask(engine->balance, refill->segment, refill->item, refill->waiting + refill->forecast,
                refill->least);
    return true;
}

/* ---- reconciling ---- */

static bool reconcile_ending(void *context)
{
    const struct engine *engine = context;
    return engine->ports.ending != NULL && engine->ports.ending(engine->ports.context);
}

static void reconcile_idle(void *context)
{
    const struct engine *engine = context;
    if (engine->ports.reconciler_idle != NULL) {
        engine->ports.reconciler_idle(engine->ports.context);
    }
}

static int reconcile_both(void *context, struct reconcile_result *ret_result)
{
    reconcile_idle(context);
    return reconcile_now(((struct engine *)context)->reconcile, ret_result);
}

static int reconcile_once(void *context, struct reconcile_result *ret_result)
{
    reconcile_idle(context);
    return reconcile_pass(((struct engine *)context)->reconcile, ret_result);
}

static size_t reconcile_mend(void *context)
{
    struct engine *engine = context;
    size_t repaired = reconcile_repair(engine->reconcile);
    ledger_writer_hurry(engine->ledger_writer); /* what was booked must reach the segments */
    return repaired;
}

static bool reconcile_may(void *context)
{
    return atomic_load(&((struct engine *)context)->keeps);
}

/* The decided promises of the spool whose sales are known here. */
static size_t reconcile_promised(void *context, int64_t before_ms, size_t at,
                                 struct decision *ret_decisions, size_t max)
{
    struct engine *engine = context;
    struct spool_entry entries[PROMISES_A_LOOK];
    size_t count = 0;
    size_t listed = PROMISES_A_LOOK;
    engine->promises_skipped = at == 0 ? 0 : engine->promises_skipped;
    while (count < max && listed == PROMISES_A_LOOK) {
        listed = spool_list(engine->spool, before_ms, at + count + engine->promises_skipped,
                            entries, PROMISES_A_LOOK);
        for (size_t i = 0; i < listed && count < max; i++) {
            struct order_segment found;
            struct decision *decision = &ret_decisions[count];
            *decision = (struct decision){.epoch = entries[i].epoch, .command = entries[i].command};
            bool known = order_segment_find(engine->catalog, entries[i].command.item,
                                            entries[i].command.id, &found) &&
                         found.segment < engine->segment_table.count;
            decision->segment = known ? found.segment : 0;
            count += known;
            engine->promises_skipped += !known;
        }
    }
    return count;
}

static int make_reconciler(struct engine *engine, struct waker *wakers)
{
    const struct engine_ports *ports = &engine->ports;
    struct reconcile_ports reconcile_ports = {.segments = ports->segments[ENGINE_RECONCILER],
                                              .gate = ports->gate,
                                              .ledger = ports->reconciler_ledger,
                                              .queue = ports->parked,
                                              .blocking = ports->reconciler_blocking};
    struct reconcile_options options = {.segments = engine->segment_table.count,
                                        .loop = connection_set(engine, CONNECTION_SET_RECONCILER),
                                        .bound_ms = engine->options.reconcile_bound_ms,
                                        .poll_ms = RECONCILE_POLL_MS,
                                        .context = engine,
                                        .promised = reconcile_promised,
                                        .ending = reconcile_ending};
    struct reconciler_work work = {.context = engine,
                                   .now = reconcile_both,
                                   .pass = reconcile_once,
                                   .repair = reconcile_mend,
                                   .may = reconcile_may,
                                   .ending = reconcile_ending,
                                   .ledger = ports->reconciler_ledger,
                                   .health = ports->reconciler_ledger->health,
                                   .idle = reconcile_idle};
    redriver_init(&engine->redriver, ports->parked, ports->clock, engine->options.redrive_ms);
    int error = reconcile_new(reconcile_ports, options, &engine->reconcile);
    return error != 0 ? error
                      : reconciler_new(work, wakers, ports->clock,
                                       ports->metrics[ENGINE_RECONCILER], engine->options.loops,
                                       engine->options.reconcile_every_ms, &engine->reconciler);
}

/* ---- the other parts ---- */

static int make_channel(struct engine *engine, enum engine_mailbox mailbox,
                        enum engine_thread thread)
{
    struct booking_channel *channel = &engine->booking_channel[mailbox];
    int error =
        booking_channel_init(channel, engine->ledger_writer, engine->ports.segments[thread],
                             &engine->segment_table, engine->options.loops, (uint32_t)mailbox);
    if (error == 0) {
        channel->runtime_limits = &engine->runtime_limits;
        channel->time = engine->time;
    }
    return error;
}

static int make_promise_resolver(struct engine *engine)
{
    const struct engine_ports *ports = &engine->ports;
    struct segment_monitor_parts monitor = {
        .segments = ports->segments[ENGINE_PROMISE_RESOLVER],
        .ledger = ports->promise_ledger,
        .gate = ports->gate,
        .booking_channel = &engine->booking_channel[MAILBOX_PROMISE_RESOLVER],
        .segment_table = &engine->segment_table,
        .spool = engine->spool,
        .stock_cache = engine->stock_cache,
        .refill_requests = &engine->refill_requests,
        .time = engine->time,
        .metrics = ports->metrics[ENGINE_PROMISE_RESOLVER],
        .refill = refill,
        .context = engine,
    };
    int error = make_channel(engine, MAILBOX_PROMISE_RESOLVER, ENGINE_PROMISE_RESOLVER);
    if (error == 0) {
        error = segment_monitor_new(&monitor, &engine->segment_monitor);
    }
    struct promise_resolver_parts parts = {
        .segment_monitor = engine->segment_monitor,
        .booking_channel = &engine->booking_channel[MAILBOX_PROMISE_RESOLVER],
        .segment_table = &engine->segment_table,
        .catalog = engine->catalog,
        .spool = engine->spool,
        .time = engine->time,
        .metrics = ports->metrics[ENGINE_PROMISE_RESOLVER],
        .runtime_limits = &engine->runtime_limits,
    };
    return error != 0 ? error : promise_resolver_new(&parts, &engine->promise_resolver);
}

static int make_gate_subscriber(struct engine *engine, struct loop_notices *notices)
{
    const struct engine_ports *ports = &engine->ports;
    struct gate_subscriber_parts parts = {
        .segments = ports->segments[ENGINE_GATE_SUBSCRIBER],
        .gate = ports->gate,
        .connection_set = connection_set(engine, CONNECTION_SET_GATE_SUBSCRIBER),
        .notices = notices,
        .segment_table = &engine->segment_table,
        .stock_cache = engine->stock_cache,
        .spool = engine->spool,
        .catalog = engine->catalog,
        .clock = ports->clock,
        .sales_changed = read_sales,
        .context = engine,
    };
    return gate_subscriber_new(&parts, &engine->gate_subscriber);
}

static int make_relay(struct engine *engine)
{
    const struct engine_ports *ports = &engine->ports;
    struct relay_options options = {.window = engine->options.relay_window,
                                    .runtime_limits = &engine->runtime_limits,
                                    .words = ports->relay_words,
                                    .words_context = ports->context};
    int error = make_channel(engine, MAILBOX_RELAY, ENGINE_RELAY);
    return error != 0 ? error
                      : relay_new(ports->segments[ENGINE_RELAY], ports->publisher,
                                  &engine->booking_channel[MAILBOX_RELAY], engine->time,
                                  ports->metrics[ENGINE_RELAY], options, &engine->relay);
}

static int make_order_consumer(struct engine *engine)
{
    const struct engine_ports *ports = &engine->ports;
    int error = make_channel(engine, MAILBOX_ORDER_CONSUMER, ENGINE_ORDER_CONSUMER);
    return error != 0
               ? error
               : order_consumer_new(ports->consumer,
                                    &engine->booking_channel[MAILBOX_ORDER_CONSUMER], engine->time,
                                    ports->metrics[ENGINE_ORDER_CONSUMER], &engine->order_consumer);
}

static int make_payment_consumer(struct engine *engine)
{
    const struct engine_ports *ports = &engine->ports;
    struct payment_consumer_parts parts = {
        .queue = ports->payments,
        .ledger_writer = engine->ledger_writer,
        .loops = engine->options.loops,
        .mailbox = MAILBOX_PAYMENT_CONSUMER,
        .gate = ports->gate,
        .connection_set = connection_set(engine, CONNECTION_SET_PAYMENT_CONSUMER),
        .blocking = ports->blocking,
        .segment_table = &engine->segment_table,
        .catalog = engine->catalog,
        .time = engine->time,
        .metrics = ports->metrics[ENGINE_PAYMENT_CONSUMER],
    };
    return payment_consumer_new(&parts, &engine->payment_consumer);
}

static int make_keeper(struct engine *engine)
{
    const struct engine_ports *ports = &engine->ports;
    struct recover_ports recover_ports = {.segments = ports->segments[ENGINE_KEEPER],
                                          .ledger = ports->keeper_ledger,
                                          .lease = ports->recover_lease,
                                          .blocking = ports->blocking};
    struct recover_options options = {.segments = engine->segment_table.count,
                                      .sizes = engine->options.sizes,
                                      .shares = engine->options.shares,
                                      .lease_ms = engine->options.recover_lease_ms,
                                      .poll_ms = KEEP_POLL_MS,
                                      .drain_ms = KEEP_DRAIN_MS,
                                      .replay_ms = KEEP_REPLAY_MS};
    int error = recover_new(recover_ports, options, &engine->recover);
    if (error != 0 || engine->segment_table.count < 2) {
        return error;
    }
    struct balance_ports balance_ports = {.segments = recover_ports.segments,
                                          .gate = ports->gate,
                                          .ledger = recover_ports.ledger,
                                          .lease = recover_ports.lease,
                                          .blocking = ports->blocking};
    struct balance_options balance_options = {.segments = engine->segment_table.count,
                                              .loop = connection_set(engine, CONNECTION_SET_KEEPER),
                                              .moves_max = BALANCE_MOVES,
                                              .lease_ms = engine->options.recover_lease_ms,
                                              .pause_ms = BALANCE_PAUSE_MS,
                                              .refill_ms = BALANCE_REFILL_MS};
    return balance_new(balance_ports, balance_options, &engine->balance);
}

/* ---- putting it together ---- */

int engine_open(struct engine *engine, const struct engine_options *options)
{
    engine->is_open = true;
    engine->options = *options;
    refill_requests_init(&engine->refill_requests);
    engine->segment_table.count = options->segments;
    atomic_store(&engine->segment_table.clock_is_off, true); /* until it has been compared */
    engine->stock_cache = stock_cache_new();
    return engine->stock_cache == NULL ? ERR_NOMEM : spool_new(options->promises, &engine->spool);
}

int engine_join(struct engine *engine, const struct engine_ports *ports, struct catalog *catalog,
                struct inside_time *time)
{
    engine->ports = *ports;
    engine->catalog = catalog;
    engine->time = time;
    struct gate_proxy_options options = {.loops = engine->options.loops,
                                         .requests = engine->options.requests,
                                         .runtime_limits = &engine->runtime_limits,
                                         .refill_ms = REFILL_MS,
                                         .refill_requests = &engine->refill_requests,
                                         .clock = ports->clock};
    int error = gate_proxy_new(ports->gate, &engine->segment_table, catalog, engine->stock_cache,
                               engine->spool, options, &engine->proxy);
    return error != 0 ? error
                      : segment_event_sink_new(ports->ledger_writer_segments,
                                               &engine->segment_table, ports->writer, catalog,
                                               engine->options.sizes, &engine->segment_event_sink);
}

int engine_make(struct engine *engine, uint32_t threads, struct ledger_writer *ledger_writer,
                struct loop_notices *notices, struct waker *wakers)
{
    static int (*const makers[ENGINE_THREADS])(struct engine *) = {
        [ENGINE_PROMISE_RESOLVER] = make_promise_resolver,
        [ENGINE_RELAY] = make_relay,
        [ENGINE_ORDER_CONSUMER] = make_order_consumer,
        [ENGINE_PAYMENT_CONSUMER] = make_payment_consumer,
        [ENGINE_KEEPER] = make_keeper,
    };
    engine->ledger_writer = ledger_writer;
    int error = 0;
    for (int i = 0; error == 0 && i < ENGINE_THREADS; i++) {
        if (makers[i] != NULL && (threads >> i & 1) != 0) {
            error = makers[i](engine);
        }
    }
    if (error == 0 && (threads >> ENGINE_GATE_SUBSCRIBER & 1) != 0) {
        error = make_gate_subscriber(engine, notices);
    }
    if (error == 0 && (threads >> ENGINE_RECONCILER & 1) != 0) {
        error = make_reconciler(engine, wakers);
    }
    return error;
}

void engine_free(struct engine *engine)
{
    if (!engine->is_open) {
        return;
    }
    relay_free(engine->relay);
    order_consumer_free(engine->order_consumer);
    payment_consumer_free(engine->payment_consumer);
    gate_subscriber_free(engine->gate_subscriber);
    promise_resolver_free(engine->promise_resolver);
    segment_monitor_free(engine->segment_monitor);
    reconciler_free(engine->reconciler);
    reconcile_free(engine->reconcile);
    balance_free(engine->balance);
    recover_free(engine->recover);
    for (int i = 0; i < MAILBOX_COUNT; i++) {
        booking_channel_done(&engine->booking_channel[i]);
    }
    segment_event_sink_free(engine->segment_event_sink);
    gate_proxy_free(engine->proxy);
    spool_free(engine->spool);
    stock_cache_free(engine->stock_cache);
    refill_requests_done(&engine->refill_requests);
}

/* ---- iterations ---- */

static int64_t boot_ms(const struct engine *engine)
{
    return clock_boot_us(engine->ports.clock) / 1000;
}

/* On a thread of its own, because a rebuild on the keeper's thread can take longer than the lease
 * lives. The ledger writer does the keeper's work on the ledger while it has the lease's token. A process
 * whose time is not the gate's keeps no deadlines, and opens and closes no sales. */
static void renew_lease(struct engine *engine)
{
    int64_t now_ms = boot_ms(engine);
    if (now_ms < engine->lease_at_ms) {
        return;
    }
    uint64_t token = 0;
    bool may_keep = !atomic_load(&engine->segment_table.clock_is_off);
    int error = may_keep
                    ? lease_take(engine->ports.keeper_lease, KEEPER_LEASE, LEASE_TTL_MS, &token)
                    : ERR_BUSY;
    ledger_writer_keep(engine->ledger_writer, error == 0 ? token : 0);
    if (!may_keep) {
        lease_drop(engine->ports.keeper_lease, KEEPER_LEASE);
    }
    atomic_store(&engine->keeps, error == 0);
    engine->lease_at_ms = now_ms + LEASE_EVERY_MS;
}

static uint64_t keep(struct engine *engine)
{
    struct recover_round rebuilt = {0};
    struct balance_round moved = {0};
    int64_t now_ms = boot_ms(engine);
    if (now_ms >= engine->look_at_ms) {
        int error = recover_round(engine->recover, &rebuilt);
        engine->look_at_ms = now_ms + KEEP_LOOK_MS;
        if (error != 0) {
            static struct log_limit limit;
            const struct engine_ports *ports = &engine->ports;
            log_event_limited(&limit, 10000, LOG_WARN, "keeper.cannot_look",
                              LOG_ERR("error", error), LOG_STR("server", "mariadb"),
                              LOG_STR("words", ports->keeper_words != NULL
                                                   ? ports->keeper_words(ports->context)
                                                   : ""));
        }
    }
    if (engine->balance != NULL) {
        atomic_store(&engine->balances, balance_round(engine->balance, &moved) == 0);
    }
    if (moved.units > 0) {
        ledger_writer_hurry(engine->ledger_writer);
    }
    return rebuilt.rebuilt + moved.units;
}

uint64_t engine_run(struct engine *engine, enum engine_thread thread, int64_t wait_ms)
{
    switch (thread) {
    case ENGINE_PROMISE_RESOLVER:
        promise_resolver_iterate(engine->promise_resolver);
        return 0;
    case ENGINE_GATE_SUBSCRIBER:
        gate_subscriber_iterate(engine->gate_subscriber, wait_ms);
        return 0;
    case ENGINE_RELAY:
        relay_iterate(engine->relay, wait_ms);
        return 0;
    case ENGINE_ORDER_CONSUMER:
        order_consumer_iterate(engine->order_consumer, wait_ms);
        return 0;
    case ENGINE_PAYMENT_CONSUMER:
        payment_consumer_iterate(engine->payment_consumer, wait_ms);
        return 0;
    case ENGINE_LEASE:
        renew_lease(engine);
        return 0;
    case ENGINE_KEEPER:
        return keep(engine);
    case ENGINE_RECONCILER:
        reconciler_iterate(engine->reconciler);
        return redriver_iterate(&engine->redriver, atomic_load(&engine->keeps));
    case ENGINE_THREADS:
        break;
    }
    return 0;
}

/* First the ledger writer stops using the lease's token, then the lease is free for others. */
void engine_end(struct engine *engine, enum engine_thread thread)
{
    if (thread == ENGINE_LEASE) {
        ledger_writer_keep(engine->ledger_writer, 0);
        atomic_store(&engine->keeps, false);
        lease_drop(engine->ports.keeper_lease, KEEPER_LEASE);
    }
    if (thread == ENGINE_KEEPER) {
        atomic_store(&engine->balances, false);
        if (engine->balance != NULL) {
            balance_end(engine->balance);
        }
    }
}
