/* See office_world.h. */
#include "office_world.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/check.h"

/* ---- life ---- */

void office_world_init(struct office_world *ret_world)
{
    memset(ret_world, 0, sizeof(*ret_world));
    ram_disk_init(&ret_world->ram);
    memory_ledger_init(&ret_world->ledger);
    fake_clock_init(&ret_world->clock, OFFICE_NOW);
    ret_world->sizes = (struct gate_sizes){.orders = 4000, .buyers = 4000, .items = 8, .sales = 4};
    ret_world->journal_options = (struct journal_options){.segment_bytes = 64 * JOURNAL_SECTOR,
                                                          .buffer_bytes = 32 * JOURNAL_SECTOR};
    ret_world->options =
        (struct office_options){.batch_max = 256, .tick_ms = 1, .board_keep_ms = OFFICE_KEEP_MS};
}

void office_world_done(struct office_world *world)
{
    office_world_down(world);
    memory_ledger_done(&world->ledger);
    ram_disk_done(&world->ram);
}

static void woken(void *context)
{
    atomic_fetch_add((atomic_int *)context, 1);
}

int office_world_up(struct office_world *world)
{
    gate_box_init_sizes(&world->box, world->sizes);
    CHECK(journal_open(&world->ram.disk, world->journal_options, &world->box.gate, &world->journal,
                       &world->found) == 0);
    CHECK(engine_new(&world->box.gate, world->journal, OFFICE_LOOPS, &world->engine) == 0);
    for (uint32_t i = 0; i < OFFICE_LOOPS; i++) {
        waker_init(engine_waker(world->engine, i), woken, &world->wakes[i]);
    }
    inside_time_init(&world->time, &world->clock.port, world->found.highest_ms);
    CHECK(metrics_init(&world->metrics, 1) == 0);
    world->catalog = catalog_new();
    CHECK(world->catalog != NULL);
    CHECK(office_new(world->engine, &world->ledger.ledger, world->catalog, &world->time,
                     metrics_slot(&world->metrics, 0), OFFICE_LOOPS, world->options,
                     &world->office) == 0);
    return office_start(world->office);
}

void office_world_down(struct office_world *world)
{
    if (world->office == NULL) {
        return;
    }
    office_free(world->office);
    catalog_free(world->catalog);
    metrics_done(&world->metrics);
    engine_free(world->engine);
    journal_free(world->journal);
    gate_box_done(&world->box);
    world->office = NULL;
    world->ledger.port.pending = NULL; /* nobody will collect it */
}

void office_world_crash(struct office_world *world)
{
    struct prng prng = prng_of(1);
    office_world_down(world);
    ram_disk_crash(&world->ram, RAM_DROP, &prng);
}

/* ---- turning ---- */

void office_world_flush(struct office_world *world)
{
    bool wrote;
    CHECK(journal_flush(world->journal, &wrote) == 0);
}

int64_t office_world_turn(struct office_world *world)
{
    int64_t sleep_us = -1;
    office_turn(world->office, &sleep_us);
    CHECK(sleep_us >= 0);
    return sleep_us;
}

int64_t office_world_settle(struct office_world *world)
{
    for (int i = 0; i < 100000; i++) {
        if (!journal_latched(world->journal)) {
            bool wrote;
            (void)journal_flush(world->journal, &wrote); /* a failing disk latches it */
        }
        int64_t sleep_us = office_world_turn(world);
        bool durable = journal_latched(world->journal) ||
                       journal_durable_lsn(world->journal) == journal_last_lsn(world->journal);
        if (sleep_us > 0 && durable && world->ledger.port.pending == NULL) {
            return sleep_us;
        }
    }
    CHECK(!"the office never comes to rest");
    return 0;
}

void office_world_pass_ms(struct office_world *world, int64_t ms)
{
    fake_clock_pass_ms(&world->clock, ms);
    (void)office_world_settle(world);
}

/* ---- ops ---- */

struct office_op *office_op_new(struct office_world *world, enum ledger_kind kind, uint32_t loop)
{
    struct office_op *op = calloc(1, sizeof(*op));
    CHECK(op != NULL);
    op->op.kind = kind;
    op->loop = loop;
    op->error = 4711; /* to be answered */
    (void)snprintf(op->op.key, sizeof(op->op.key), "op-%llu", (unsigned long long)++world->posted);
    return op;
}

struct office_op *office_op_order(struct office_world *world, enum ledger_kind kind,
                                  struct order_id id)
{
    struct office_op *op = office_op_new(world, kind, 0);
    op->op.id = id;
    op->op.amount_cents = OFFICE_CENTS;
    return op;
}

struct office_op *office_op_sale(struct office_world *world, enum ledger_kind kind, uint64_t sale,
                                 enum sale_state target)
{
    struct office_op *op = office_op_new(world, kind, 0);
    op->op.sale_id = sale;
    op->op.target = target;
    return op;
}

void office_op_free(struct office_op *op)
{
    sale_row_free(op->op.sale);
    free(op);
}

void office_world_do(struct office_world *world, struct office_op *op)
{
    uint32_t loop = op->loop;
    office_post(world->office, op);
    (void)office_world_settle(world);
    CHECK(office_collect(world->office, loop) == op && op->post.next == NULL);
    for (uint32_t i = 0; i < OFFICE_LOOPS; i++) {
        CHECK(office_collect(world->office, i) == NULL);
    }
}

static void create_sale(struct office_world *world)
{
    static const uint32_t limits[] = {1, 3, 0};
    struct item_row items[3];
    struct sale_row sale = {.id = OFFICE_SALE,
                            .state = SALE_DRAFT,
                            .pay_within_s = OFFICE_PAY_MS / 1000,
                            .starts_at_ms = OFFICE_NOW,
                            .ends_at_ms = OFFICE_NOW + OFFICE_ENDS_MS,
                            .name = "a sale",
                            .currency = "CNY",
                            .items_count = 3,
                            .items = items};
    memset(items, 0, sizeof(items));
    for (uint64_t i = 0; i < 3; i++) {
        items[i].id = OFFICE_ONCE + i;
        items[i].price_cents = OFFICE_CENTS;
        items[i].limit_per_user = limits[i];
        items[i].total = OFFICE_UNITS;
    }
    struct office_op *op = office_op_new(world, LEDGER_SALE_CREATE, 0);
    op->op.sale_in = &sale;
    office_world_do(world, op);
    CHECK(op->error == 0 && op->op.refusal == REFUSAL_NONE);
    office_op_free(op);
}

void office_world_open_sale(struct office_world *world)
{
    create_sale(world);
    struct office_op *op = office_op_sale(world, LEDGER_SALE_MOVE, OFFICE_SALE, SALE_OPEN);
    office_world_do(world, op);
    CHECK(op->error == 0 && op->op.refusal == REFUSAL_NONE);
    office_op_free(op);
}

/* ---- buying and looking ---- */

struct gate_ask office_world_buy(struct office_world *world, uint64_t user, uint64_t item,
                                 uint32_t qty)
{
    struct gate_ask ask = {.question = ASK_BUY,
                           .id = item == OFFICE_ONCE
                                     ? order_id_once(item, user, 0)
                                     : order_id_fresh(item, OFFICE_NOW, (uint32_t)user),
                           .user = user,
                           .item = item,
                           .qty = qty,
                           .ticket_expires_ms = OFFICE_NOW + OFFICE_ENDS_MS,
                           .now_ms = inside_time_ms(&world->time)};
    CHECK(gate_submit(engine_port(world->engine), &ask) == GATE_ANSWERED);
    return ask;
}

struct order_id office_world_bought(struct office_world *world, uint64_t user)
{
    struct gate_ask ask = office_world_buy(world, user, OFFICE_FREE, 1);
    CHECK(ask.refusal == REFUSAL_NONE && !ask.existed);
    return ask.order.id;
}

struct order_view office_world_order(struct office_world *world, struct order_id id)
{
    struct gate_ask ask = {.question = ASK_ORDER, .id = id};
    CHECK(gate_submit(engine_port(world->engine), &ask) == GATE_ANSWERED);
    CHECK(ask.refusal == REFUSAL_NONE);
    return ask.order;
}

struct item_view office_world_item(struct office_world *world, uint64_t item)
{
    struct gate_ask ask = {.question = ASK_ITEM, .item = item};
    CHECK(gate_submit(engine_port(world->engine), &ask) == GATE_ANSWERED);
    CHECK(ask.refusal == REFUSAL_NONE);
    return ask.view;
}

void office_world_agree(struct office_world *world)
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
    CHECK(engine_applied_event(world->engine) == ledger->events_count);
    CHECK(world->box.gate.order_pool.used == ledger->orders_count);
    for (size_t i = 0; i < ledger->orders_count; i++) {
        struct order_view view = office_world_order(world, ledger->orders[i].id);
        CHECK(view.state == ledger->orders[i].state && view.qty == ledger->orders[i].qty);
        CHECK(view.pay_by_ms == ledger->orders[i].pay_by_ms);
    }
    for (uint64_t id = OFFICE_ONCE; id <= OFFICE_FREE; id++) {
        struct item_view view = office_world_item(world, id);
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
