/* See assembly.h. */
#include "app/assembly.h"

#include "base/check.h"
#include "base/err.h"
#include "embedded/gate_content.h"
#include "obs/log.h"

int assembly_fail(const char *what, int error, const char *more)
{
    log_event(LOG_ERROR, "start.failed", LOG_STR("what", what), LOG_ERR("error", error),
              LOG_STR("detail", more));
    return error;
}

/* Logs damage in the journal that recovery has repaired. */
static void log_found(const struct journal_found *found)
{
    if (found->torn_bytes > 0) {
        log_event(
            LOG_WARN, "journal.torn_tail_cut", LOG_STR("where", found->where),
            LOG_U64("bytes", found->torn_bytes),
            LOG_STR("what", "an unfinished batch of the last crash; no answer depended on it"));
    } else if (found->where[0] != '\0') {
        log_event(LOG_WARN, "journal.mended", LOG_STR("where", found->where),
                  LOG_STR("why", found->why));
    }
    if (found->bad_snapshots > 0) {
        log_event(LOG_WARN, "snapshot.unreadable", LOG_U64("files", found->bad_snapshots),
                  LOG_STR("what", "an older one and the journal's files were used instead"));
    }
    log_event(LOG_INFO, "journal.open", LOG_U64("last_lsn", found->last_lsn),
              LOG_U64("snapshot_lsn", found->snapshot_lsn), LOG_U64("replayed", found->replayed),
              LOG_U64("files", found->files));
}

static int open_journal(struct assembly *assembly, struct disk *disk)
{
    struct journal_found *found = &assembly->found;
    struct spool *spool = assembly->options.spool;
    int error = 0;
    if (spool == NULL) {
        error = gate_content_open(disk, assembly->options.journal, &assembly->gate,
                                  &assembly->journal, found);
    } else {
        assembly->options.journal.kind = JOURNAL_LIST;
        error = journal_open(disk, assembly->options.journal, spool_content(spool),
                             &assembly->journal, found);
    }
    if (error == ERR_CORRUPT) {
        log_event(LOG_ERROR, "journal.damaged", LOG_STR("where", found->where),
                  LOG_STR("why", found->why),
                  LOG_STR("do", "restore journal and ledger from one backup; "
                                "`sluice journal verify` shows what can be read"));
        return error;
    }
    if (error != 0) {
        return assembly_fail("cannot open the journal", error, found->why);
    }
    log_found(found);
    error = spool != NULL ? spool_begin(spool, assembly->journal) : 0;
    return error == 0 ? 0 : assembly_fail("cannot read the journal's promises", error, "");
}

int assembly_open(struct assembly *assembly, const struct assembly_options *options,
                  struct disk *disk, struct clock_port *clock)
{
    uint64_t hash_key = 0;
    assembly->options = *options;
    assembly->start_clock.options = options->clock;
    assembly->shared.loops = options->loops;
    assembly->catalog = catalog_new();
    assembly->blocks = blocks_new();
    assembly->answer_cache = answer_cache_new();
    assembly->shared.latencies = latency_window_new();
    if (assembly->catalog == NULL || assembly->blocks == NULL || assembly->answer_cache == NULL ||
        assembly->shared.latencies == NULL ||
        metrics_init(&assembly->metrics, options->loops + ASSEMBLY_SLOTS) != 0) {
        return assembly_fail("cannot start", ERR_NOMEM, "catalog and metrics");
    }
    if (options->spool == NULL) {
        assembly->gate_memory = gate_memory_map(options->sizes);
        if (assembly->gate_memory == NULL) {
            return assembly_fail(
                "cannot reserve the gate's memory; lower gate.orders or gate.buyers", ERR_NOMEM,
                "");
        }
        crypt_random(&hash_key, sizeof(hash_key));
        gate_init(&assembly->gate, options->sizes, assembly->gate_memory, hash_key);
    }
    int error = open_journal(assembly, disk);
    if (error != 0) {
        return error;
    }
    inside_time_init(&assembly->time, clock, assembly->found.highest_ms);
    return 0;
}

static void wake_nobody(void *context)
{
    (void)context;
}

static int make_embedded(struct assembly *assembly)
{
    /* The journal has been replayed: the shares count for new decisions only. */
    gate_set_shares(&assembly->gate, assembly->options.shares);
    int error = embedded_gate_new(&assembly->gate, assembly->journal, assembly->wakers,
                                  assembly->options.loops, &assembly->embedded_gate);
    if (error != 0) {
        return error;
    }
    gate_event_sink_init(&assembly->gate_event_sink, assembly->embedded_gate);
    booking_reader_init(&assembly->booking_reader, assembly->journal);
    assembly->options.ledger_writer.event_sink = &assembly->gate_event_sink.event_sink;
    assembly->options.ledger_writer.bookings = &assembly->booking_reader.source;
    assembly->shared.embedded_gate = assembly->embedded_gate;
    assembly->shared.gate = embedded_gate_port(assembly->embedded_gate);
    assembly->shared.notices = embedded_gate_notices(assembly->embedded_gate);
    return 0;
}

static int make_distributed(struct assembly *assembly)
{
    int error =
        loop_notices_new(assembly->wakers, assembly->options.loops, &assembly->loop_notices);
    if (error != 0) {
        return error;
    }
    assembly->shared.gate = assembly->options.gate;
    assembly->shared.notices = loop_notices_port(assembly->loop_notices);
    return 0;
}

static uint64_t booked_lsn(void *context)
{
    return ledger_writer_booked_lsn(context);
}

static uint64_t kept_lsn(void *context)
{
    return spool_trim_lsn(context);
}

static struct janitor janitor(struct assembly *assembly)
{
    struct spool *spool = assembly->options.spool;
    struct janitor janitor = {
        .journal = assembly->journal,
        .clock = assembly->time.clock,
        .metrics = metrics_slot(&assembly->metrics, assembly->options.loops + SLOT_JANITOR)};
    if (spool != NULL) {
        janitor.trim_lsn = kept_lsn;
        janitor.trim_context = spool;
        return janitor;
    }
    assembly->snapshots =
        (struct gate_memory_snapshots){assembly->options.sizes, assembly->gate.hash_key};
    janitor.snapshot = gate_memory_snapshot;
    janitor.snapshot_context = &assembly->snapshots;
    janitor.trim_lsn = booked_lsn;
    janitor.trim_context = assembly->ledger_writer;
    return janitor;
}

/* The name of the cursor that says up to which event the ledger's times were set back. */
#define CLOCK_CURSOR "clock"

/* What the folder and the ledger know of the time. An event that an operator has set the time back
 * behind does not count: its time was a wrong clock's. */
static int read_times(struct assembly *assembly, struct ledger *ledger,
                      struct ledger_query *ret_state, struct start_clock_times *ret_times)
{
    const struct spool *spool = assembly->options.spool;
    struct ledger_query cursor = {.kind = QUERY_CURSOR, .cursor = CLOCK_CURSOR};
    *ret_state = (struct ledger_query){.kind = QUERY_STATE};
    (void)ledger_read(ledger, ret_state);
    if (ret_state->error == 0) {
        (void)ledger_read(ledger, &cursor);
    }
    int error = ret_state->error != 0 ? ret_state->error : cursor.error;
    if (error != 0) {
        return assembly_fail("cannot read the ledger", error, "");
    }
    *ret_times = (struct start_clock_times){
        .journal_ms = spool != NULL ? spool_highest_ms(spool) : assembly->gate.highest_ms,
        .ledger_ms = ret_state->last_event > cursor.last_event ? ret_state->highest_ms : 0,
        .ledger_is_ours = spool == NULL};
    return 0;
}

static int append_set_time(struct assembly *assembly, int64_t now_ms)
{
    struct gate_command command = {.kind = GATE_SET_TIME, .now_ms = now_ms};
    struct gate_effects effects;
    uint64_t lsn = 0;
    bool wrote = false;
    if (assembly->options.spool == NULL) {
        CHECK(gate_step(&assembly->gate, &command, &effects) == VERDICT_DONE);
    }
    int error = gate_content_append(assembly->journal, &command, &lsn);
    return error != 0 ? error : journal_flush(assembly->journal, &wrote);
}

/*
 * An operator has accepted a clock that is behind: the way back for a folder that a wrong clock has
 * moved ahead. A record in the journal and a cursor in the ledger say from where on times count again.
 * If the program ends between the two, the next start is refused once more.
 */
static int set_time_back(struct assembly *assembly, struct ledger *ledger,
                         const struct ledger_query *state, struct start_clock_times *times)
{
    int64_t now_ms = clock_wall_ms(assembly->time.clock);
    struct ledger_op op = {.kind = LEDGER_CURSOR, .key = CLOCK_CURSOR, .amount = state->last_event};
    struct ledger_op *ops[] = {&op};
    struct ledger_batch batch = {
        .ops = ops, .count = 1, .now_ms = now_ms, .booked_lsn = state->booked_lsn};
    int error = append_set_time(assembly, now_ms);
    if (error == 0 && times->ledger_is_ours && state->last_event > 0) {
        (void)ledger_write(ledger, &batch);
        error = batch.error;
    }
    if (error != 0) {
        return assembly_fail("cannot set the time back", error, "");
    }
    log_event(LOG_WARN, "clock.set_back",
              LOG_I64("ms", times->journal_ms > times->ledger_ms ? times->journal_ms - now_ms
                                                                 : times->ledger_ms - now_ms),
              LOG_STR("what", "what the wrong clock ended stays ended: expired orders, closed and "
                              "forgotten sales. Orders booked by it keep their late deadlines"),
              LOG_STR("do", "list unpaid orders with `sluice order list`, cancel those that must "
                            "not wait, and sell what is free in a new sale"));
    times->journal_ms = times->ledger_ms = now_ms;
    return 0;
}

/* Judges the wall clock and begins inside time with it. Nothing has been written before. */
static int begin_time(struct assembly *assembly, struct ledger *ledger)
{
    struct clock_port *clock = assembly->time.clock;
    struct ledger_query state;
    struct start_clock_times times;
    int error = read_times(assembly, ledger, &state, &times);
    error = error != 0 ? error : start_clock_check(&assembly->start_clock, clock, &times);
    if (error == 0 && start_clock_is_behind(&assembly->start_clock, clock, &times)) {
        error = set_time_back(assembly, ledger, &state, &times);
    }
    if (error != 0) {
        return error;
    }
    inside_time_init(&assembly->time, clock, times.journal_ms);
    if (times.ledger_is_ours) { /* otherwise time follows the gate's */
        inside_time_raise(&assembly->time, times.ledger_ms);
    }
    int64_t ahead_ms = inside_time_ms(&assembly->time) - clock_wall_ms(clock);
    if (ahead_ms > 1000) {
        log_event(LOG_WARN, "clock.behind_journal", LOG_I64("ms", ahead_ms),
                  LOG_STR("what", "the wall clock is behind the journal; its time is kept"));
    }
    return 0;
}

int assembly_join(struct assembly *assembly, struct ledger *writer, struct ledger *reader,
                  struct ledger *operator_reader)
{
    uint32_t loops = assembly->options.loops;
    for (uint32_t i = 0; i < loops; i++) {
        waker_init(&assembly->wakers[i], wake_nobody, NULL);
    }
    int began = begin_time(assembly, writer);
    if (began != 0) {
        return began;
    }
    int error =
        assembly->options.spool == NULL ? make_embedded(assembly) : make_distributed(assembly);
    assembly->options.ledger_writer.blocks = &assembly->blocks->sink;
    if (error == 0) {
        error = ledger_writer_new(assembly->wakers, writer, assembly->catalog, &assembly->time,
                                  metrics_slot(&assembly->metrics, loops), loops,
                                  assembly->options.ledger_writer, &assembly->ledger_writer);
    }
    if (error == 0) {
        error = ledger_reader_new(assembly->wakers, reader, loops, &assembly->ledger_reader);
    }
    if (error == 0) {
        error =
            ledger_reader_new(assembly->wakers, operator_reader, loops, &assembly->operator_reader);
    }
    if (error != 0) {
        return assembly_fail("cannot start", error, "");
    }
    journal_set_wakers(assembly->journal, assembly->wakers, loops);
    journal_listen(assembly->journal, ledger_writer_wake, assembly->ledger_writer);
    assembly->janitor = janitor(assembly);
    assembly->shared.journal = assembly->journal;
    assembly->shared.wakers = assembly->wakers;
    assembly->shared.ledger_writer = assembly->ledger_writer;
    assembly->shared.ledger_reader = assembly->ledger_reader;
    assembly->shared.operator_reader = assembly->operator_reader;
    assembly->shared.catalog = assembly->catalog;
    assembly->shared.blocks = assembly->blocks;
    assembly->shared.answer_cache = assembly->answer_cache;
    assembly->shared.time = &assembly->time;
    assembly->shared.metrics = &assembly->metrics;
    return 0;
}

int assembly_catch_up(struct assembly *assembly)
{
    uint32_t sequence = 0;
    int error = ledger_writer_start(assembly->ledger_writer);
    if (error != 0) {
        return error;
    }
    crypt_random(&sequence, sizeof(sequence));
    atomic_store(&assembly->shared.fresh_sequence, sequence);
    assembly->shared.started_at_ms = inside_time_ms(&assembly->time);
    return 0;
}

int assembly_worker(struct assembly *assembly, uint32_t loop, struct net *net,
                    void (*wake)(void *context), void *context)
{
    int error = api_worker_new(&assembly->shared, loop, net, &assembly->workers[loop]);
    if (error != 0) {
        return assembly_fail("cannot make an event loop", error, "");
    }
    waker_init(&assembly->wakers[loop], wake, context);
    return 0;
}

void assembly_count_pools(struct assembly *assembly)
{
    struct metrics_slot *slot =
        metrics_slot(&assembly->metrics, assembly->options.loops + SLOT_POOLS);
    uint64_t used = 0;
    uint64_t size = 0;
    journal_fill(assembly->journal, &used, &size);
    metrics_pool(slot, POOL_JOURNAL_BUFFER, used, size);
    metrics_pool(slot, POOL_BLOCKS, atomic_load(&assembly->blocks->count), BLOCKS_MAX);
    if (assembly->options.spool != NULL) {
        struct spool_numbers spool;
        spool_count(assembly->options.spool, &spool);
        metrics_pool(slot, POOL_SPOOL_PROMISES, spool.entries, spool.capacity);
        return;
    }
    struct embedded_gate_numbers gate;
    embedded_gate_count(assembly->embedded_gate, &gate);
    metrics_set(slot, METRIC_GATE_EVICTED_TOTAL, gate.evicted);
    metrics_pool(slot, POOL_GATE_ORDERS, gate.orders, gate.sizes.orders);
    metrics_pool(slot, POOL_GATE_BUYERS, gate.buyers, gate.sizes.buyers);
    metrics_pool(slot, POOL_GATE_ITEMS, gate.items, gate.sizes.items);
    metrics_pool(slot, POOL_GATE_SALES, gate.sales, gate.sizes.sales);
}

void assembly_ready(struct assembly *assembly)
{
    atomic_store(&assembly->shared.ready, true);
}

void assembly_free(struct assembly *assembly)
{
    for (uint32_t i = 0; i < assembly->options.loops; i++) {
        api_worker_free(assembly->workers[i]);
    }
    ledger_reader_free(assembly->operator_reader);
    ledger_reader_free(assembly->ledger_reader);
    ledger_writer_free(assembly->ledger_writer);
    booking_reader_done(&assembly->booking_reader);
    embedded_gate_free(assembly->embedded_gate);
    loop_notices_free(assembly->loop_notices);
    answer_cache_free(assembly->answer_cache);
    catalog_free(assembly->catalog);
    blocks_free(assembly->blocks);
    journal_free(assembly->journal);
    gate_memory_unmap(assembly->gate_memory, assembly->options.sizes);
    metrics_done(&assembly->metrics);
    latency_window_free(assembly->shared.latencies);
}
