/* See cluster_world.h. */
#include "cluster_world.h"

#include <stdlib.h>
#include <string.h>

#include "base/check.h"
#include "ledger/ledger_writer_private.h"

/* ---- the world ---- */

const struct gate_sizes cluster_sizes = {.orders = 8000, .buyers = 8000, .items = 8, .sales = 4};

static int64_t delay(void *context)
{
    return ((struct cluster_world *)context)->delay_us;
}

static int64_t database_ms(void *context)
{
    struct cluster_world *world = context;
    return clock_wall_ms(&world->clock.port) + world->database_ahead_ms;
}

enum refusal cluster_run(struct cluster_world *world, struct ledger_op *op)
{
    struct ledger_batch batch = {
        .ops = &op, .count = 1, .now_ms = clock_wall_ms(&world->clock.port)};
    CHECK(ledger_write(&world->ledger.ledger, &batch) == 0);
    sale_row_free(op->sale);
    op->sale = NULL;
    return op->refusal;
}

static void init_ledger(struct cluster_world *world, const char *regions)
{
    const char *why = "";
    memory_ledger_init_shared(&world->ledger, world->count);
    world->ledger.clock = database_ms;
    world->ledger.clock_context = world;
    CHECK(regions == NULL ||
          regions_parse(regions, world->count, &world->ledger.regions, &why) == 0);
}

void cluster_init(struct cluster_world *ret_world, struct cluster_options options)
{
    struct cluster_world *world = ret_world;
    uint32_t servers = options.servers != 0 ? options.servers : options.segments;
    memset(world, 0, sizeof(*world));
    fake_clock_init(&world->clock, CLUSTER_NOW);
    world->count = options.segments;
    world->delay_us = 1000;
    world->prng = prng_of(options.seed);
    init_ledger(world, options.regions);
    world->sim =
        sim_segments_new((struct sim_segments_options){.segments = servers,
                                                       .clock = &world->clock.port,
                                                       .claim_ms = 1000,
                                                       .forget_max = 50,
                                                       .context = world,
                                                       .delay_us = options.late ? delay : NULL});
    world->hands = sim_segments_worker(world->sim, 4711);
    for (uint32_t s = 0; s < options.segments && options.open; s++) {
        cluster_bare(world, s, cluster_raise_epoch(world, s));
    }
    CHECK(pthread_mutex_init(&world->lock, NULL) == 0);
    CHECK(pthread_mutex_lock(&world->lock) == 0);
    for (uint32_t i = 0; i < CLUSTER_PROCESSES; i++) {
        ram_disk_init(&world->processes[i].ram);
    }
}

void cluster_done(struct cluster_world *world)
{
    for (uint32_t i = 0; i < CLUSTER_PROCESSES; i++) {
        cluster_down(world, i);
        ram_disk_done(&world->processes[i].ram);
    }
    CHECK(pthread_mutex_unlock(&world->lock) == 0);
    CHECK(pthread_mutex_destroy(&world->lock) == 0);
    memory_ledger_done(&world->ledger);
    sim_segments_worker_free(world->hands);
    sim_segments_free(world->sim);
}

/* ---- segments ---- */

uint64_t cluster_seed(void)
{
    const char *given = getenv("SLUICE_SEED");
    return given != NULL ? strtoull(given, NULL, 10) : 1;
}

static struct segment_step item_step(uint64_t item, uint32_t limit)
{
    return (struct segment_step){.kind = STEP_ITEM,
                                 .sale = CLUSTER_SALE,
                                 .item = item,
                                 .total = CLUSTER_UNITS,
                                 .available = CLUSTER_UNITS,
                                 .limit = limit};
}

void cluster_fill(struct cluster_world *world, uint32_t segment, uint64_t epoch, uint64_t event)
{
    const struct segment_step steps[] = {
        {.kind = STEP_BEGIN, .sizes = cluster_sizes, .event = event},
        {.kind = STEP_SALE,
         .sale = CLUSTER_SALE,
         .starts_at_ms = CLUSTER_NOW,
         .ends_at_ms = CLUSTER_NOW + CLUSTER_ENDS_MS,
         .state = SALE_OPEN},
        item_step(CLUSTER_ONCE, 1),
        item_step(CLUSTER_FREE, 0),
        {.kind = STEP_OPEN}};
    CHECK(segments_rebuild(world->hands, segment, epoch, 1, steps, 5) == SEGMENT_DONE);
}

void cluster_bare(struct cluster_world *world, uint32_t segment, uint64_t epoch)
{
    const struct segment_step steps[] = {{.kind = STEP_BEGIN, .sizes = cluster_sizes},
                                         {.kind = STEP_OPEN}};
    CHECK(segments_rebuild(world->hands, segment, epoch, 1, steps, 2) == SEGMENT_DONE);
}

struct segment_state cluster_look(struct cluster_world *world, uint32_t segment)
{
    struct segment_state state;
    segments_look(world->hands, segment, &state);
    return state;
}

void cluster_segment_table(struct cluster_world *world, struct segment_table *ret_segment_table)
{
    ret_segment_table->count = world->count;
    for (uint32_t s = 0; s < world->count; s++) {
        atomic_store(&ret_segment_table->segments[s].epoch, sim_segments_epoch(world->sim, s));
    }
}

void cluster_place(struct cluster_world *world, struct segment_table *segment_table,
                   struct gate_port *worker)
{
    cluster_segment_table(world, segment_table);
    for (uint32_t s = 0; s < world->count; s++) {
        gate_place(worker, s, sim_segments_epoch(world->sim, s));
    }
}

struct order_id cluster_id(struct cluster_world *world, uint64_t item, uint32_t segment)
{
    return order_id_fresh(item, CLUSTER_NOW, ++world->sequence << ORDER_SEGMENT_BITS | segment);
}

uint64_t cluster_user(const struct cluster_world *world, uint32_t segment, uint32_t nth)
{
    uint64_t user = 0;
    for (uint32_t found = 0; found <= nth;) {
        found += segment_home(++user, world->count) == segment;
    }
    return user;
}

struct gate_command cluster_buy(struct cluster_world *world, uint32_t segment, uint64_t user)
{
    struct gate_port *worker = sim_segments_front(world->sim, 1);
    struct gate_request request = {.kind = GATE_REQUEST_BUY,
                                   .segment = segment,
                                   .id = cluster_id(world, CLUSTER_FREE, segment),
                                   .user = user,
                                   .item = CLUSTER_FREE,
                                   .qty = 1,
                                   .now_ms = clock_wall_ms(&world->clock.port),
                                   .ticket_expires_ms = CLUSTER_NOW + CLUSTER_ENDS_MS};
    gate_place(worker, segment, sim_segments_epoch(world->sim, segment));
    CHECK(gate_submit(worker, &request) == GATE_ANSWERED && gate_request_done(&request));
    sim_segments_front_free(worker);
    return (struct gate_command){.kind = GATE_RESERVE,
                                 .now_ms = request.order.created_at_ms,
                                 .id = request.id,
                                 .user = user,
                                 .item = CLUSTER_FREE,
                                 .qty = 1};
}

const struct gate_order *cluster_order(const struct cluster_world *world, uint32_t segment,
                                       struct order_id id)
{
    const struct gate *gate = sim_segments_gate(world->sim, segment);
    uint32_t slot = gate != NULL ? gate_find_order(gate, id) : GATE_NONE;
    return slot != GATE_NONE ? &gate->orders[slot] : NULL;
}

const struct gate_item *cluster_item(const struct cluster_world *world, uint32_t segment,
                                     uint64_t item)
{
    const struct gate *gate = sim_segments_gate(world->sim, segment);
    uint32_t slot = gate != NULL ? gate_find_item(gate, item) : GATE_NONE;
    return slot != GATE_NONE ? &gate->items[slot] : NULL;
}

/* ---- segments that two threads use ---- */

static struct cluster_segments *locked(struct segments *port)
{
    struct cluster_segments *segments = (struct cluster_segments *)port;
    CHECK(pthread_mutex_lock(segments->lock) == 0);
    return segments;
}

static void unlock(const struct cluster_segments *segments)
{
    CHECK(pthread_mutex_unlock(segments->lock) == 0);
}

static void stage_apply(struct segments *port, struct segment_call *calls, size_t count)
{
    struct cluster_segments *segments = locked(port);
    segments_apply(segments->inner, calls, count);
    segments->applies++;
    segments->calls += count;
    unlock(segments);
}

static void stage_look(struct segments *port, uint32_t segment, struct segment_state *ret_state)
{
    struct cluster_segments *segments = locked(port);
    segments_look(segments->inner, segment, ret_state);
    ret_state->server_ms += segments->ahead_ms[segment];
    segments->looks++;
    unlock(segments);
}

static int stage_take(struct segments *port, uint64_t mask, struct outbox_entry *ret_entries,
                      size_t max, int64_t wait_ms, size_t *ret_count)
{
    const struct cluster_segments *segments = locked(port);
    int error = segments_take(segments->inner, mask, ret_entries, max, wait_ms, ret_count);
    unlock(segments);
    return error;
}

static int stage_done(struct segments *port, const struct outbox_entry *entries, size_t count)
{
    const struct cluster_segments *segments = locked(port);
    int error = segments_done(segments->inner, entries, count);
    unlock(segments);
    return error;
}

static int stage_news(struct segments *port, struct segment_news *ret_news, size_t max,
                      int64_t wait_ms, size_t *ret_count)
{
    const struct cluster_segments *segments = locked(port);
    int error = segments_news(segments->inner, ret_news, max, wait_ms, ret_count);
    unlock(segments);
    return error;
}

static const struct segments_ops stage_ops = {.apply = stage_apply,
                                              .look = stage_look,
                                              .take = stage_take,
                                              .done = stage_done,
                                              .news = stage_news};

/* ---- processes ---- */

static void open_journal(struct cluster_process *process)
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

void cluster_up(struct cluster_world *world, uint32_t at)
{
    struct cluster_process *process = &world->processes[at];
    struct ram_disk ram = process->ram;
    CHECK(!process->is_up);
    memset(process, 0, sizeof(*process));
    process->ram = ram;
    process->world = world;
    process->is_up = true;
    open_journal(process);
    process->catalog = catalog_new();
    process->gate = sim_segments_front(world->sim, CLUSTER_LOOPS + 1);
    cluster_place(world, &process->segment_table, process->gate);
    for (uint32_t i = 0; i < CLUSTER_LOOPS; i++) {
        waker_init(&process->wakers[i], wake_nobody, NULL);
    }
    inside_time_init(&process->time, &world->clock.port, 0);
    CHECK(metrics_init(&process->metrics, 2) == 0);
    memory_port_init(&process->writer, &world->ledger);
    memory_port_init(&process->reader, &world->ledger);
    process->ledger_writer_segments = sim_segments_worker(world->sim, 100 + at);
    process->stage = (struct cluster_segments){.port = {&stage_ops},
                                               .inner = sim_segments_worker(world->sim, 1 + at),
                                               .lock = &world->lock};
    CHECK(segment_event_sink_new(process->ledger_writer_segments, &process->segment_table,
                                 &process->writer.ledger, process->catalog, cluster_sizes,
                                 &process->segment_event_sink) == 0);
    struct ledger_writer_options options = {
        .batch_max = 256,
        .tick_ms = 1,
        .board_keep_ms = CLUSTER_KEEP_MS,
        .event_sink = segment_event_sink_event_sink(process->segment_event_sink),
        .mailboxes = CLUSTER_MAILBOXES};
    CHECK(ledger_writer_new(process->wakers, &process->writer.ledger, process->catalog,
                            &process->time, metrics_slot(&process->metrics, 0), CLUSTER_LOOPS,
                            options, &process->ledger_writer) == 0);
    journal_listen(process->journal, ledger_writer_wake, process->ledger_writer);
    CHECK(ledger_writer_start(process->ledger_writer) == 0);
    CHECK(booking_channel_init(&process->booking_channel, process->ledger_writer,
                               &process->stage.port, &process->segment_table, CLUSTER_LOOPS,
                               0) == 0);
}

void cluster_down(struct cluster_world *world, uint32_t at)
{
    struct cluster_process *process = &world->processes[at];
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

int64_t cluster_turn(struct cluster_process *process)
{
    int64_t sleep_us = -1;
    ledger_writer_iterate(process->ledger_writer, &sleep_us);
    CHECK(sleep_us >= 0);
    return sleep_us;
}

void cluster_settle(struct cluster_process *process)
{
    int turns = 0;
    while (cluster_turn(process) == 0) {
        CHECK(++turns < 10000);
    }
}

void cluster_pass_ms(struct cluster_world *world, int64_t ms)
{
    fake_clock_pass_ms(&world->clock, ms);
}

static void *work(void *context)
{
    struct cluster_process *process = context;
    while (!atomic_load(&process->stopping)) {
        mailbox_wait(&process->ledger_writer->inbox, 1000);
        CHECK(pthread_mutex_lock(&process->world->lock) == 0);
        if (!atomic_load(&process->stopping)) {
            cluster_settle(process);
        }
        CHECK(pthread_mutex_unlock(&process->world->lock) == 0);
    }
    return NULL;
}

void cluster_let(struct cluster_process *process)
{
    atomic_store(&process->stopping, false);
    process->is_working = true;
    CHECK(pthread_create(&process->thread, NULL, work, process) == 0);
    CHECK(pthread_mutex_unlock(&process->world->lock) == 0);
}

void cluster_halt(struct cluster_process *process)
{
    atomic_store(&process->stopping, true);
    CHECK(pthread_join(process->thread, NULL) == 0);
    CHECK(pthread_mutex_lock(&process->world->lock) == 0);
    process->is_working = false;
}

/* ---- ops ---- */

void cluster_do(struct cluster_process *process, struct ledger_writer_op *op)
{
    op->error = 4711;
    ledger_writer_post(process->ledger_writer, op);
    for (int i = 0; i < 10; i++) {
        cluster_settle(process);
        struct ledger_writer_op *answered = ledger_writer_collect(process->ledger_writer, op->loop);
        if (answered != NULL) {
            CHECK(answered == op && op->post.next == NULL && op->error != 4711);
            return;
        }
        cluster_pass_ms(process->world, 500); /* a segment is away: it is answered after a moment */
    }
    CHECK(!"nobody answers");
}

struct ledger_writer_op cluster_sale_op(enum ledger_kind kind, enum sale_state target)
{
    return (struct ledger_writer_op){
        .op = {.kind = kind, .sale_id = CLUSTER_SALE, .target = target}};
}

void cluster_open_sale(struct cluster_process *process)
{
    struct item_row items[2];
    struct sale_row sale = {.id = CLUSTER_SALE,
                            .state = SALE_DRAFT,
                            .pay_within_s = CLUSTER_PAY_MS / 1000,
                            .starts_at_ms = CLUSTER_NOW,
                            .ends_at_ms = CLUSTER_NOW + CLUSTER_ENDS_MS,
                            .name = "a sale",
                            .currency = "CNY",
                            .items_count = 2,
                            .items = items};
    memset(items, 0, sizeof(items));
    for (uint64_t i = 0; i < 2; i++) {
        items[i].id = i == 0 ? CLUSTER_ONCE : CLUSTER_FREE;
        items[i].price_cents = CLUSTER_CENTS;
        items[i].limit_per_user = i == 0 ? 1 : 0;
        items[i].total = (uint64_t)CLUSTER_UNITS * process->segment_table.count;
    }
    struct ledger_writer_op create = {.op = {.kind = LEDGER_SALE_CREATE, .sale_in = &sale}};
    cluster_do(process, &create);
    CHECK(create.error == 0 && create.op.refusal == REFUSAL_NONE);
    sale_row_free(create.op.sale);
    struct ledger_writer_op open = cluster_sale_op(LEDGER_SALE_MOVE, SALE_OPEN);
    cluster_do(process, &open);
    CHECK(open.error == 0 && open.op.refusal == REFUSAL_NONE);
    sale_row_free(open.op.sale);
}

void cluster_forget_sale(struct cluster_process *process)
{
    static const enum ledger_kind kinds[] = {LEDGER_SALE_MOVE, LEDGER_SALE_FORGET};
    for (int i = 0; i < 2; i++) {
        struct ledger_writer_op op = cluster_sale_op(kinds[i], SALE_CLOSED);
        cluster_do(process, &op);
        CHECK(op.error == 0 && op.op.refusal == REFUSAL_NONE);
        sale_row_free(op.op.sale);
    }
}

/* ---- epochs ---- */

uint64_t cluster_raise_epoch(struct cluster_world *world, uint32_t segment)
{
    struct ledger_op op = {
        .kind = LEDGER_EPOCH, .segment = segment, .epoch = world->ledger.epochs[segment]};
    CHECK(cluster_run(world, &op) == REFUSAL_NONE);
    return op.epoch;
}

void cluster_place_all(struct cluster_world *world)
{
    for (uint32_t i = 0; i < CLUSTER_PROCESSES; i++) {
        if (world->processes[i].is_up) {
            cluster_place(world, &world->processes[i].segment_table, world->processes[i].gate);
        }
    }
}

void cluster_rebuild(struct cluster_world *world, uint32_t segment)
{
    cluster_fill(world, segment, cluster_raise_epoch(world, segment), world->ledger.events_count);
    cluster_place_all(world);
}

struct decision cluster_decide(struct cluster_world *world, uint32_t segment, uint64_t user)
{
    return (struct decision){.segment = segment,
                             .epoch = sim_segments_epoch(world->sim, segment),
                             .command = cluster_buy(world, segment, user)};
}

const struct order_row *cluster_row(const struct cluster_world *world, struct order_id id)
{
    return memory_ledger_order(&world->ledger, id);
}
