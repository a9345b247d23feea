/* See wide_world.h. */
#include "wide_world.h"

#include <string.h>

#include "base/check.h"
#include "ledger/ledger_writer_private.h"

/* ---- segments that two threads use ---- */

static struct wide_segments *locked(struct segments *port)
{
    struct wide_segments *segments = (struct wide_segments *)port;
    CHECK(pthread_mutex_lock(segments->lock) == 0);
    return segments;
}

static void unlock(const struct wide_segments *segments)
{
    CHECK(pthread_mutex_unlock(segments->lock) == 0);
}

static void stage_apply(struct segments *port, struct segment_call *calls, size_t count)
{
    struct wide_segments *segments = locked(port);
    segments_apply(segments->inner, calls, count);
    segments->applies++;
    segments->calls += count;
    unlock(segments);
}

static void stage_look(struct segments *port, uint32_t segment, struct segment_state *ret_state)
{
    struct wide_segments *segments = locked(port);
    segments_look(segments->inner, segment, ret_state);
    ret_state->server_ms += segments->ahead_ms[segment];
    segments->looks++;
    unlock(segments);
}

static int stage_take(struct segments *port, uint64_t mask, struct outbox_entry *ret_entries,
                      size_t max, int64_t wait_ms, size_t *ret_count)
{
    const struct wide_segments *segments = locked(port);
    int error = segments_take(segments->inner, mask, ret_entries, max, wait_ms, ret_count);
    unlock(segments);
    return error;
}

static int stage_done(struct segments *port, const struct outbox_entry *entries, size_t count)
{
    const struct wide_segments *segments = locked(port);
    int error = segments_done(segments->inner, entries, count);
    unlock(segments);
    return error;
}

static int stage_news(struct segments *port, struct segment_news *ret_news, size_t max,
                      int64_t wait_ms, size_t *ret_count)
{
    const struct wide_segments *segments = locked(port);
    int error = segments_news(segments->inner, ret_news, max, wait_ms, ret_count);
    unlock(segments);
    return error;
}

static const struct segments_ops stage_ops = {.apply = stage_apply,
                                              .look = stage_look,
                                              .take = stage_take,
                                              .done = stage_done,
                                              .news = stage_news};

/* ---- the world ---- */

static int64_t database_ms(void *context)
{
    struct wide_world *world = context;
    return clock_wall_ms(&world->segments.clock.port) + world->database_ahead_ms;
}

void wide_world_init(struct wide_world *ret_world, uint32_t segments)
{
    memset(ret_world, 0, sizeof(*ret_world));
    segments_world_init(&ret_world->segments, segments, false);
    memory_ledger_init_shared(&ret_world->ledger, segments);
    ret_world->ledger.clock = database_ms;
    ret_world->ledger.clock_context = ret_world;
    for (uint32_t s = 0; s < segments; s++) {
        segments_world_bare(&ret_world->segments, s, wide_raise_epoch(ret_world, s));
    }
    CHECK(pthread_mutex_init(&ret_world->lock, NULL) == 0);
    CHECK(pthread_mutex_lock(&ret_world->lock) == 0);
    for (uint32_t i = 0; i < WIDE_PROCESSES; i++) {
        ram_disk_init(&ret_world->processes[i].ram);
    }
}

void wide_world_done(struct wide_world *world)
{
    for (uint32_t i = 0; i < WIDE_PROCESSES; i++) {
        wide_down(world, i);
        ram_disk_done(&world->processes[i].ram);
    }
    CHECK(pthread_mutex_unlock(&world->lock) == 0);
    CHECK(pthread_mutex_destroy(&world->lock) == 0);
    memory_ledger_done(&world->ledger);
    segments_world_done(&world->segments);
}

static void open_journal(struct wide_process *process)
{
    struct journal_options options = {.file_bytes = 256ULL * JOURNAL_SECTOR,
                                      .buffer_bytes = 200U * JOURNAL_SECTOR,
                                      .kind = JOURNAL_LIST};
    struct journal_found found;
    CHECK(spool_new(4000, &process->spool) == 0);
    CHECK(journal_open(&process->ram.disk, options, spool_content(process->spool),
                       &process->journal, &found) == 0);
    CHECK(spool_begin(process->spool, process->journal) == 0);
}

static void wake_nobody(void *context)
{
    (void)context;
}

void wide_up(struct wide_world *world, uint32_t at)
{
    struct wide_process *process = &world->processes[at];
    struct ram_disk ram = process->ram;
    CHECK(!process->is_up);
    memset(process, 0, sizeof(*process));
    process->ram = ram;
    process->world = world;
    process->is_up = true;
    open_journal(process);
    process->catalog = catalog_new();
    process->gate = sim_segments_front(world->segments.sim, WIDE_LOOPS + 1);
    segments_world_place(&world->segments, &process->segment_table, process->gate);
    for (uint32_t i = 0; i < WIDE_LOOPS; i++) {
        waker_init(&process->wakers[i], wake_nobody, NULL);
    }
    inside_time_init(&process->time, &world->segments.clock.port, 0);
    CHECK(metrics_init(&process->metrics, 2) == 0);
    memory_port_init(&process->writer, &world->ledger);
    memory_port_init(&process->reader, &world->ledger);
    process->ledger_writer_segments = sim_segments_worker(world->segments.sim, 100 + at);
    process->stage =
        (struct wide_segments){.port = {&stage_ops},
                               .inner = sim_segments_worker(world->segments.sim, 1 + at),
                               .lock = &world->lock};
    CHECK(segment_event_sink_new(process->ledger_writer_segments, &process->segment_table,
                                 &process->writer.ledger, process->catalog, segments_world_sizes,
                                 &process->segment_event_sink) == 0);
    struct ledger_writer_options options = {
        .batch_max = 256,
        .tick_ms = 1,
        .board_keep_ms = WIDE_KEEP_MS,
        .event_sink = segment_event_sink_event_sink(process->segment_event_sink),
        .mailboxes = WIDE_MAILBOXES};
    CHECK(ledger_writer_new(process->wakers, &process->writer.ledger, process->catalog,
                            &process->time, metrics_slot(&process->metrics, 0), WIDE_LOOPS, options,
                            &process->ledger_writer) == 0);
    journal_listen(process->journal, ledger_writer_wake, process->ledger_writer);
    CHECK(ledger_writer_start(process->ledger_writer) == 0);
    CHECK(booking_channel_init(&process->booking_channel, process->ledger_writer,
                               &process->stage.port, &process->segment_table, WIDE_LOOPS, 0) == 0);
}

void wide_down(struct wide_world *world, uint32_t at)
{
    struct wide_process *process = &world->processes[at];
    if (!process->is_up) {
        return;
    }
    CHECK(!process->is_working);
    booking_channel_done(&process->booking_channel);
    ledger_writer_free(process->ledger_writer);
    segment_event_sink_free(process->segment_event_sink);
    sim_segments_worker_free(process->ledger_writer_segments);
    sim_segments_worker_free(process->stage.inner);
    memory_port_done(&process->writer);
    memory_port_done(&process->reader);
    metrics_done(&process->metrics);
    sim_segments_front_free(process->gate);
    catalog_free(process->catalog);
    journal_free(process->journal);
    spool_free(process->spool);
    process->is_up = false;
}

/* ---- turns ---- */

int64_t wide_turn(struct wide_process *process)
{
    int64_t sleep_us = -1;
    ledger_writer_iterate(process->ledger_writer, &sleep_us);
    CHECK(sleep_us >= 0);
    return sleep_us;
}

void wide_settle(struct wide_process *process)
{
    int turns = 0;
    while (wide_turn(process) == 0) {
        CHECK(++turns < 10000);
    }
}

void wide_pass_ms(struct wide_world *world, int64_t ms)
{
    fake_clock_pass_ms(&world->segments.clock, ms);
}

static void *work(void *context)
{
    struct wide_process *process = context;
    while (!atomic_load(&process->stopping)) {
        mailbox_wait(&process->ledger_writer->inbox, 1000);
        CHECK(pthread_mutex_lock(&process->world->lock) == 0);
        if (!atomic_load(&process->stopping)) {
            wide_settle(process);
        }
        CHECK(pthread_mutex_unlock(&process->world->lock) == 0);
    }
    return NULL;
}

void wide_let(struct wide_process *process)
{
    atomic_store(&process->stopping, false);
    process->is_working = true;
    CHECK(pthread_create(&process->thread, NULL, work, process) == 0);
    CHECK(pthread_mutex_unlock(&process->world->lock) == 0);
}

void wide_halt(struct wide_process *process)
{
    atomic_store(&process->stopping, true);
    CHECK(pthread_join(process->thread, NULL) == 0);
    CHECK(pthread_mutex_lock(&process->world->lock) == 0);
    process->is_working = false;
}

/* ---- ops ---- */

void wide_do(struct wide_process *process, struct ledger_writer_op *op)
{
    op->error = 4711;
    ledger_writer_post(process->ledger_writer, op);
    for (int i = 0; i < 10; i++) {
        wide_settle(process);
        struct ledger_writer_op *answered = ledger_writer_collect(process->ledger_writer, op->loop);
        if (answered != NULL) {
            CHECK(answered == op && op->post.next == NULL && op->error != 4711);
            return;
        }
        wide_pass_ms(process->world, 500); /* a segment is away: it is answered after a moment */
    }
    CHECK(!"nobody answers");
}

struct ledger_writer_op wide_sale_op(enum ledger_kind kind, enum sale_state target)
{
    return (struct ledger_writer_op){.op = {.kind = kind, .sale_id = WIDE_SALE, .target = target}};
}

void wide_open_sale(struct wide_process *process)
{
    struct item_row items[2];
    struct sale_row sale = {.id = WIDE_SALE,
                            .state = SALE_DRAFT,
                            .pay_within_s = WIDE_PAY_MS / 1000,
                            .starts_at_ms = WIDE_NOW,
                            .ends_at_ms = WIDE_NOW + WIDE_ENDS_MS,
                            .name = "a sale",
                            .currency = "CNY",
                            .items_count = 2,
                            .items = items};
    memset(items, 0, sizeof(items));
    for (uint64_t i = 0; i < 2; i++) {
        items[i].id = i == 0 ? WIDE_ONCE : WIDE_FREE;
        items[i].price_cents = WIDE_CENTS;
        items[i].limit_per_user = i == 0 ? 1 : 0;
        items[i].total = (uint64_t)WIDE_UNITS * process->segment_table.count;
    }
    struct ledger_writer_op create = {.op = {.kind = LEDGER_SALE_CREATE, .sale_in = &sale}};
    wide_do(process, &create);
    CHECK(create.error == 0 && create.op.refusal == REFUSAL_NONE);
    sale_row_free(create.op.sale);
    struct ledger_writer_op open = wide_sale_op(LEDGER_SALE_MOVE, SALE_OPEN);
    wide_do(process, &open);
    CHECK(open.error == 0 && open.op.refusal == REFUSAL_NONE);
    sale_row_free(open.op.sale);
}

void wide_forget_sale(struct wide_process *process)
{
    static const enum ledger_kind kinds[] = {LEDGER_SALE_MOVE, LEDGER_SALE_FORGET};
    for (int i = 0; i < 2; i++) {
        struct ledger_writer_op op = wide_sale_op(kinds[i], SALE_CLOSED);
        wide_do(process, &op);
        CHECK(op.error == 0 && op.op.refusal == REFUSAL_NONE);
        sale_row_free(op.op.sale);
    }
}

/* ---- epochs ---- */

uint64_t wide_raise_epoch(struct wide_world *world, uint32_t segment)
{
    struct ledger_op op = {
        .kind = LEDGER_EPOCH, .segment = segment, .epoch = world->ledger.epochs[segment]};
    struct ledger_op *ops[] = {&op};
    struct ledger_batch batch = {
        .ops = ops, .count = 1, .now_ms = clock_wall_ms(&world->segments.clock.port)};
    CHECK(ledger_write(&world->ledger.ledger, &batch) == 0);
    CHECK(op.refusal == REFUSAL_NONE);
    return op.epoch;
}

void wide_place_all(struct wide_world *world)
{
    for (uint32_t i = 0; i < WIDE_PROCESSES; i++) {
        if (world->processes[i].is_up) {
            segments_world_place(&world->segments, &world->processes[i].segment_table,
                                 world->processes[i].gate);
        }
    }
}

void wide_rebuild(struct wide_world *world, uint32_t segment)
{
    segments_world_fill(&world->segments, segment, wide_raise_epoch(world, segment),
                        world->ledger.events_count);
    wide_place_all(world);
}

struct decision wide_decide(struct wide_world *world, uint32_t segment, uint64_t user)
{
    return (struct decision){.segment = segment,
                             .epoch = sim_segments_epoch(world->segments.sim, segment),
                             .command = segments_world_buy(&world->segments, segment, user)};
}

const struct order_row *wide_row(const struct wide_world *world, struct order_id id)
{
    return memory_ledger_order(&world->ledger, id);
}
