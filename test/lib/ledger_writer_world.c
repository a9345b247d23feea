/* See ledger_writer_world.h. */
#include "ledger_writer_world.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/check.h"

/* ---- life ---- */

void ledger_writer_world_init(struct ledger_writer_world *ret_world)
{
    memset(ret_world, 0, sizeof(*ret_world));
    ram_disk_init(&ret_world->ram);
    memory_ledger_init(&ret_world->ledger);
    fake_clock_init(&ret_world->clock, LEDGER_WRITER_NOW);
    ret_world->sizes = (struct gate_sizes){.orders = 4000, .buyers = 4000, .items = 8, .sales = 4};
    ret_world->journal_options = (struct journal_options){.file_bytes = 64 * JOURNAL_SECTOR,
                                                          .buffer_bytes = 32 * JOURNAL_SECTOR};
    ret_world->options = (struct ledger_writer_options){
        .batch_max = 256, .tick_ms = 1, .board_keep_ms = LEDGER_WRITER_KEEP_MS};
}

void ledger_writer_world_done(struct ledger_writer_world *world)
{
    ledger_writer_world_down(world);
    memory_ledger_done(&world->ledger);
    ram_disk_done(&world->ram);
}

static void woken(void *context)
{
    atomic_fetch_add((atomic_int *)context, 1);
}

void ledger_writer_world_connect(struct ledger_writer_world *world)
{
    gate_event_sink_init(&world->event_sink, world->engine);
    booking_reader_init(&world->bookings, world->journal);
    world->options.event_sink = &world->event_sink.event_sink;
    world->options.bookings = &world->bookings.source;
}

void ledger_writer_world_listen(struct ledger_writer_world *world)
{
    journal_set_wakers(world->journal, world->wakers, LEDGER_WRITER_LOOPS);
    journal_listen(world->journal, ledger_writer_wake, world->ledger_writer);
}

int ledger_writer_world_up(struct ledger_writer_world *world)
{
    gate_box_init_sizes(&world->box, world->sizes);
    CHECK(gate_content_open(&world->ram.disk, world->journal_options, &world->box.gate,
                            &world->journal, &world->found) == 0);
    CHECK(embedded_gate_new(&world->box.gate, world->journal, world->wakers, LEDGER_WRITER_LOOPS,
                            &world->engine) == 0);
    for (uint32_t i = 0; i < LEDGER_WRITER_LOOPS; i++) {
        waker_init(&world->wakers[i], woken, &world->wakes[i]);
    }
    inside_time_init(&world->time, &world->clock.port, world->found.highest_ms);
    CHECK(metrics_init(&world->metrics, 1) == 0);
    world->catalog = catalog_new();
    CHECK(world->catalog != NULL);
    ledger_writer_world_connect(world);
    CHECK(ledger_writer_new(world->wakers, &world->ledger.ledger, world->catalog, &world->time,
                            metrics_slot(&world->metrics, 0), LEDGER_WRITER_LOOPS, world->options,
                            &world->ledger_writer) == 0);
    ledger_writer_world_listen(world);
    return ledger_writer_start(world->ledger_writer);
}

void ledger_writer_world_down(struct ledger_writer_world *world)
{
    if (world->ledger_writer == NULL) {
        return;
    }
    ledger_writer_free(world->ledger_writer);
    catalog_free(world->catalog);
    metrics_done(&world->metrics);
    booking_reader_done(&world->bookings);
    embedded_gate_free(world->engine);
    journal_free(world->journal);
    gate_box_done(&world->box);
    world->ledger_writer = NULL;
}

void ledger_writer_world_crash(struct ledger_writer_world *world)
{
    struct prng prng = prng_of(1);
    ledger_writer_world_down(world);
    ram_disk_crash(&world->ram, RAM_DROP, &prng);
}

/* ---- turning ---- */

void ledger_writer_world_flush(struct ledger_writer_world *world)
{
    bool wrote;
    CHECK(journal_flush(world->journal, &wrote) == 0);
}

int64_t ledger_writer_world_turn(struct ledger_writer_world *world)
{
    int64_t sleep_us = -1;
    ledger_writer_iterate(world->ledger_writer, &sleep_us);
    CHECK(sleep_us >= 0);
    return sleep_us;
}

int64_t ledger_writer_world_settle(struct ledger_writer_world *world)
{
    for (int i = 0; i < 100000; i++) {
        if (!journal_failed(world->journal)) {
            bool wrote;
            (void)journal_flush(world->journal, &wrote); /* a failing disk fails it */
        }
        int64_t sleep_us = ledger_writer_world_turn(world);
        bool durable = journal_failed(world->journal) ||
                       journal_durable_lsn(world->journal) == journal_last_lsn(world->journal);
        if (sleep_us > 0 && durable) {
            return sleep_us;
        }
    }
    CHECK(!"the ledger writer never comes to rest");
    return 0;
}

void ledger_writer_world_pass_ms(struct ledger_writer_world *world, int64_t ms)
{
    fake_clock_pass_ms(&world->clock, ms);
    (void)ledger_writer_world_settle(world);
}

/* ---- ops ---- */

struct ledger_writer_op *ledger_writer_op_new(struct ledger_writer_world *world,
                                              enum ledger_kind kind, uint32_t loop)
{
    struct ledger_writer_op *op = calloc(1, sizeof(*op));
    CHECK(op != NULL);
    op->op.kind = kind;
    op->loop = loop;
    op->error = 4711; /* to be answered */
    (void)snprintf(op->op.key, sizeof(op->op.key), "op-%llu", (unsigned long long)++world->posted);
    return op;
}

struct ledger_writer_op *ledger_writer_op_order(struct ledger_writer_world *world,
                                                enum ledger_kind kind, struct order_id id)
{
    struct ledger_writer_op *op = ledger_writer_op_new(world, kind, 0);
    op->op.id = id;
    op->op.amount_cents = LEDGER_WRITER_CENTS;
    return op;
}

struct ledger_writer_op *ledger_writer_op_sale(struct ledger_writer_world *world,
                                               enum ledger_kind kind, uint64_t sale,
                                               enum sale_state target)
{
    struct ledger_writer_op *op = ledger_writer_op_new(world, kind, 0);
    op->op.sale_id = sale;
    op->op.target = target;
    return op;
}

void ledger_writer_op_free(struct ledger_writer_op *op)
{
    sale_row_free(op->op.sale);
    free(op);
}

void ledger_writer_world_do(struct ledger_writer_world *world, struct ledger_writer_op *op)
{
    uint32_t loop = op->loop;
    ledger_writer_post(world->ledger_writer, op);
    (void)ledger_writer_world_settle(world);
    CHECK(ledger_writer_collect(world->ledger_writer, loop) == op && op->post.next == NULL);
    for (uint32_t i = 0; i < LEDGER_WRITER_LOOPS; i++) {
        CHECK(ledger_writer_collect(world->ledger_writer, i) == NULL);
    }
}

static void create_sale(struct ledger_writer_world *world)
{
    static const uint32_t limits[] = {1, 3, 0};
    struct item_row items[3];
    struct sale_row sale = {.id = LEDGER_WRITER_SALE,
                            .state = SALE_DRAFT,
                            .pay_within_s = LEDGER_WRITER_PAY_MS / 1000,
                            .starts_at_ms = LEDGER_WRITER_NOW,
                            .ends_at_ms = LEDGER_WRITER_NOW + LEDGER_WRITER_ENDS_MS,
                            .name = "a sale",
                            .currency = "CNY",
                            .items_count = 3,
                            .items = items};
    memset(items, 0, sizeof(items));
    for (uint64_t i = 0; i < 3; i++) {
        items[i].id = LEDGER_WRITER_ONCE + i;
        items[i].price_cents = LEDGER_WRITER_CENTS;
        items[i].limit_per_user = limits[i];
        items[i].total = LEDGER_WRITER_UNITS;
    }
    struct ledger_writer_op *op = ledger_writer_op_new(world, LEDGER_SALE_CREATE, 0);
    op->op.sale_in = &sale;
    ledger_writer_world_do(world, op);
    CHECK(op->error == 0 && op->op.refusal == REFUSAL_NONE);
    ledger_writer_op_free(op);
}

void ledger_writer_world_open_sale(struct ledger_writer_world *world)
{
    create_sale(world);
    struct ledger_writer_op *op =
        ledger_writer_op_sale(world, LEDGER_SALE_MOVE, LEDGER_WRITER_SALE, SALE_OPEN);
    ledger_writer_world_do(world, op);
    CHECK(op->error == 0 && op->op.refusal == REFUSAL_NONE);
    ledger_writer_op_free(op);
}

/* ---- buying and looking ---- */

struct gate_request ledger_writer_world_buy(struct ledger_writer_world *world, uint64_t user,
                                            uint64_t item, uint32_t qty)
{
    struct gate_request request = {
        .kind = GATE_REQUEST_BUY,
        .id = item == LEDGER_WRITER_ONCE ? order_id_once(item, user, 0)
                                         : order_id_fresh(item, LEDGER_WRITER_NOW, (uint32_t)user),
        .user = user,
        .item = item,
        .qty = qty,
        .ticket_expires_ms = LEDGER_WRITER_NOW + LEDGER_WRITER_ENDS_MS,
        .now_ms = inside_time_ms(&world->time)};
    CHECK(gate_submit(embedded_gate_port(world->engine), &request) == GATE_ANSWERED);
    return request;
}

struct order_id ledger_writer_world_bought(struct ledger_writer_world *world, uint64_t user)
{
    struct gate_request request = ledger_writer_world_buy(world, user, LEDGER_WRITER_FREE, 1);
    CHECK(request.refusal == REFUSAL_NONE && !request.existed);
    return request.order.id;
}

struct order_view ledger_writer_world_order(struct ledger_writer_world *world, struct order_id id)
{
    struct gate_request request = {.kind = GATE_REQUEST_ORDER, .id = id};
    CHECK(gate_submit(embedded_gate_port(world->engine), &request) == GATE_ANSWERED);
    CHECK(request.refusal == REFUSAL_NONE);
    return request.order;
}

struct item_view ledger_writer_world_item(struct ledger_writer_world *world, uint64_t item)
{
    struct gate_request request = {.kind = GATE_REQUEST_ITEM, .item = item};
    CHECK(gate_submit(embedded_gate_port(world->engine), &request) == GATE_ANSWERED);
    CHECK(request.refusal == REFUSAL_NONE);
    return request.view;
}

void ledger_writer_world_agree(struct ledger_writer_world *world)
{
    const struct memory_ledger *ledger = &world->ledger;
    static const struct {
        enum order_state state;
        enum ledger_event_kind event;
    } ends[] = {{ORDER_FAILED, EVENT_ORDER_FAILED},
                {ORDER_PAID, EVENT_ORDER_PAID},
                {ORDER_EXPIRED, EVENT_ORDER_EXPIRED},
                {ORDER_CANCELLED, EVENT_ORDER_CANCELLED}};
    gate_audit(&world->box.gate);
    CHECK(embedded_gate_applied_event(world->engine) == ledger->events_count);
    CHECK(world->box.gate.order_pool.used == ledger->orders_count);
    for (size_t i = 0; i < ledger->orders_count; i++) {
        struct order_view view = ledger_writer_world_order(world, ledger->orders[i].id);
        CHECK(view.state == ledger->orders[i].state && view.qty == ledger->orders[i].qty);
        CHECK(view.pay_by_ms == ledger->orders[i].pay_by_ms);
    }
    for (uint64_t id = LEDGER_WRITER_ONCE; id <= LEDGER_WRITER_FREE; id++) {
        struct item_view view = ledger_writer_world_item(world, id);
        const struct item_row *row = memory_ledger_item(ledger, id);
        CHECK(view.total == row->total && view.available == row->available);
        CHECK(view.locked == row->locked && view.sold == row->sold);
        CHECK(view.available + view.locked + view.sold == view.total);
    }
    for (size_t i = 0; i < sizeof(ends) / sizeof(ends[0]); i++) {
        CHECK(memory_ledger_events(ledger, ends[i].event) ==
              memory_ledger_orders(ledger, ends[i].state));
    }
    CHECK(memory_ledger_events(ledger, EVENT_ORDER_LOCKED) +
              memory_ledger_events(ledger, EVENT_ORDER_FAILED) ==
          ledger->orders_count);
}
