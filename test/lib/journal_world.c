/* See journal_world.h. Every draw comes from the world's seed. */
#include "journal_world.h"

#include <stdlib.h>
#include <string.h>

#include "base/check.h"
#include "base/err.h"
#include "core/record.h"
#include "journal/journal_private.h"

#define SALE 7
#define ITEM_FREE 10 /* no limit */
#define ITEM_ONCE 11 /* one each */
#define START_MS 1700000000000LL

static const struct gate_sizes usual_sizes = {.orders = 600, .buyers = 600, .items = 8, .sales = 4};

void gate_box_init_sizes(struct gate_box *ret_box, struct gate_sizes sizes)
{
    size_t bytes = gate_bytes(sizes);
    ret_box->memory = aligned_alloc(64, bytes);
    CHECK(ret_box->memory != NULL);
    memset(ret_box->memory, 0, bytes);
    gate_init(&ret_box->gate, sizes, ret_box->memory, 12345);
}

void gate_box_init(struct gate_box *ret_box)
{
    gate_box_init_sizes(ret_box, usual_sizes);
}

void gate_box_done(struct gate_box *box)
{
    free(box->memory);
    box->memory = NULL;
}

static bool same_buyers(const struct gate *a, uint32_t item_a, const struct gate *b,
                        uint32_t item_b)
{
    for (uint32_t link = a->items[item_a].buyers; link != 0; link = a->buyers[link - 1].next_item) {
        const struct gate_buyer *x = &a->buyers[link - 1];
        const struct gate_buyer *y = gate_find_buyer(b, item_b, x->user);
        if (y == NULL || x->held != y->held || x->failed_attempts != y->failed_attempts ||
            x->live != y->live || x->barred != y->barred ||
            x->cooling_until_ms != y->cooling_until_ms) {
            return false;
        }
    }
    return true;
}

static bool same_orders(const struct gate *a, uint32_t item_a, const struct gate *b)
{
    for (uint32_t link = a->items[item_a].orders.first; link != 0;
         link = a->orders[link - 1].by_item.next) {
        const struct gate_order *x = &a->orders[link - 1];
        uint32_t slot = gate_find_order(b, x->id);
        if (slot == GATE_NONE) {
            return false;
        }
        struct order_view v;
        struct order_view w;
        memset(&v, 0, sizeof(v));
        memset(&w, 0, sizeof(w));
        gate_view_order(a, link - 1, &v);
        gate_view_order(b, slot, &w);
        if (v.user != w.user || v.item != w.item || v.qty != w.qty || v.state != w.state ||
            v.reason != w.reason || v.version != w.version || v.created_at_ms != w.created_at_ms ||
            v.pay_by_ms != w.pay_by_ms || v.lsn != w.lsn) {
            return false;
        }
    }
    return true;
}

static bool same_item(const struct gate *a, uint32_t slot, const struct gate *b)
{
    const struct gate_item *x = &a->items[slot];
    uint32_t other = gate_find_item(b, x->id);
    if (other == GATE_NONE) {
        return false;
    }
    const struct gate_item *y = &b->items[other];
    return x->total == y->total && x->available == y->available && x->locked == y->locked &&
           x->sold == y->sold && x->live == y->live && x->evicted == y->evicted &&
           x->evicted_sold == y->evicted_sold && x->evicted_end == y->evicted_end &&
           x->evicted_lsn == y->evicted_lsn && x->version == y->version && x->limit == y->limit &&
           a->sales[x->sale_slot].id == b->sales[y->sale_slot].id &&
           same_buyers(a, slot, b, other) && same_orders(a, slot, b);
}

bool gate_same(const struct gate *a, const struct gate *b)
{
    if (a->sales_used != b->sales_used || a->item_pool.used != b->item_pool.used ||
        a->buyer_pool.used != b->buyer_pool.used || a->order_pool.used != b->order_pool.used ||
        a->applied_event != b->applied_event || a->highest_ms != b->highest_ms) {
        return false;
    }
    for (uint32_t i = 0; i < a->sizes.sales; i++) {
        const struct gate_sale *x = &a->sales[i];
        uint32_t slot = x->used ? gate_find_sale(b, x->id) : GATE_NONE;
        if (x->used && (slot == GATE_NONE || x->starts_at_ms != b->sales[slot].starts_at_ms ||
                        x->ends_at_ms != b->sales[slot].ends_at_ms ||
                        x->bar_unpaid != b->sales[slot].bar_unpaid ||
                        x->items != b->sales[slot].items || x->state != b->sales[slot].state)) {
            return false;
        }
    }
    for (uint32_t i = 0; i < a->item_pool.fresh; i++) {
        if (a->items[i].used && !same_item(a, i, b)) {
            return false;
        }
    }
    return true;
}

struct scan {
    struct journal_content content; /* must be first */
    void (*record)(void *context, uint64_t lsn, const struct gate_command *command);
    void *context;
};

static int scanned(struct journal_content *content, uint64_t lsn, const uint8_t *record,
                   size_t length)
{
    const struct scan *scan = (const struct scan *)content;
    struct gate_command command;
    if (record_decode(record, length, &command) != 0) {
        return ERR_INVALID;
    }
    scan->record(scan->context, lsn, &command);
    return 0;
}

int world_scan(struct disk *disk, const struct journal_scan_ops *ops,
               void (*record)(void *context, uint64_t lsn, const struct gate_command *command),
               void *context, struct journal_found *ret_found)
{
    static const struct journal_content_ops content_ops = {.apply = scanned,
                                                           .check = gate_content_check};
    struct scan scan = {{&content_ops}, record, context};
    return journal_scan(disk, JOURNAL_HISTORY, &scan.content, ops, context, ret_found);
}

void world_init(struct world *ret_world, uint64_t seed)
{
    memset(ret_world, 0, sizeof(*ret_world));
    ram_disk_init(&ret_world->ram);
    ret_world->options = (struct journal_options){.file_bytes = 4 * JOURNAL_SECTOR,
                                                  .buffer_bytes = 3 * JOURNAL_SECTOR};
    ret_world->sizes = usual_sizes;
    ret_world->prng = prng_of(seed);
}

void world_done(struct world *world)
{
    world_close(world);
    ram_disk_done(&world->ram);
}

int world_open(struct world *world)
{
    gate_box_init_sizes(&world->box, world->sizes);
    int error = gate_content_open(&world->ram.disk, world->options, &world->box.gate,
                                  &world->journal, &world->found);
    if (error != 0) {
        gate_box_done(&world->box);
    }
    return error;
}

void world_close(struct world *world)
{
    journal_free(world->journal);
    world->journal = NULL;
    gate_box_done(&world->box);
}

int world_apply(struct world *world, const struct gate_command *command)
{
    struct gate_effects effects;
    enum verdict verdict = gate_step(&world->box.gate, command, &effects);
    if (verdict != VERDICT_DONE && verdict != VERDICT_MORE) {
        return 0;
    }
    uint64_t lsn;
    int error = gate_content_append(world->journal, command, &lsn);
    if (error != 0) {
        return error;
    }
    CHECK(lsn == world->count + 1 && world->count < WORLD_COMMANDS);
    world->commands[world->count++] = *command;
    if (effects.slot != GATE_NONE) {
        world->box.gate.orders[effects.slot].lsn = lsn;
    }
    return 0;
}

void world_start_sale(struct world *world)
{
    const struct gate_command commands[] = {
        {.kind = GATE_LOAD_SALE,
         .sale = SALE,
         .starts_at_ms = START_MS - 1000,
         .ends_at_ms = START_MS + 1000000000,
         .bar_unpaid = 1},
        {.kind = GATE_LOAD_ITEM, .sale = SALE, .item = ITEM_FREE, .amount = 100000},
        {.kind = GATE_LOAD_ITEM, .sale = SALE, .item = ITEM_ONCE, .amount = 100000, .limit = 1},
        {.kind = GATE_OPEN, .sale = SALE, .starts_at_ms = START_MS - 1000},
    };
    for (size_t i = 0; i < sizeof(commands) / sizeof(commands[0]); i++) {
        struct gate_command command = commands[i];
        command.now_ms = START_MS;
        command.event = ++world->event;
        CHECK(world_apply(world, &command) == 0);
    }
    CHECK(world->count == 4);
}

static struct gate_command draw_reserve(struct world *world, int64_t now_ms)
{
    struct gate_command command = {
        .kind = GATE_RESERVE, .now_ms = now_ms, .ticket_expires_ms = (uint64_t)now_ms + 60000};
    command.user = ++world->users;
    if (prng_below(&world->prng, 2) == 0) {
        command.item = ITEM_FREE;
        command.qty = 1 + (uint32_t)prng_below(&world->prng, 5);
        command.id = order_id_fresh(ITEM_FREE, now_ms, (uint32_t)world->users);
    } else {
        command.item = ITEM_ONCE;
        command.qty = 1;
        command.id = order_id_once(ITEM_ONCE, command.user, 0);
    }
    return command;
}

/* The next thing that may happen to some order, or a restock where all are final. */
static struct gate_command draw_move(struct world *world, int64_t now_ms)
{
    const struct gate *gate = &world->box.gate;
    struct gate_command command = {.kind = GATE_RESTOCK,
                                   .now_ms = now_ms,
                                   .item = ITEM_FREE,
                                   .amount = 1,
                                   .event = ++world->event};
    uint32_t n = gate->order_pool.used;
    const struct gate_order *order = n > 0 ? &gate->orders[prng_below(&world->prng, n)] : NULL;
    if (order == NULL || order_state_final((enum order_state)order->state)) {
        return command;
    }
    static const enum gate_kind queued[] = {GATE_CONFIRM, GATE_CONFIRM, GATE_FAIL_ORDER};
    static const enum gate_kind locked[] = {GATE_PAY, GATE_EXPIRE, GATE_CANCEL};
    uint64_t luck = prng_below(&world->prng, 3);
    command.kind = order->state == ORDER_QUEUED ? queued[luck] : locked[luck];
    /* Cooling times that are over at once, so that nothing else depends on them. */
    bool cools = world->event % 2 == 0;
    if (cools && (command.kind == GATE_EXPIRE || command.kind == GATE_CANCEL)) {
        command.kind = command.kind == GATE_EXPIRE ? GATE_EXPIRE_COOLING : GATE_CANCEL_COOLING;
        command.time_ms = (uint64_t)now_ms;
    }
    command.id = order->id;
    command.item = gate->items[order->item_slot].id;
    command.amount = 0;
    if (command.kind == GATE_CONFIRM) {
        command.time_ms = (uint64_t)now_ms + 900000;
    }
    if (command.kind == GATE_FAIL_ORDER) {
        command.reason = REFUSAL_LIMIT_REACHED;
    }
    return command;
}

void world_trade(struct world *world, int n)
{
    for (uint64_t until = world->count + (uint64_t)n; world->count < until;) {
        int64_t now_ms = START_MS + (int64_t)world->count * 10;
        struct gate_command command = prng_below(&world->prng, 3) > 0 ? draw_reserve(world, now_ms)
                                                                      : draw_move(world, now_ms);
        CHECK(world_apply(world, &command) == 0);
    }
}

int world_flush(struct world *world)
{
    bool wrote;
    int error = journal_flush(world->journal, &wrote);
    if (error == 0) {
        world->acknowledged = journal_durable_lsn(world->journal);
    }
    return error;
}

void world_batch(struct world *world, int n)
{
    world_trade(world, n);
    CHECK(world_flush(world) == 0);
    CHECK(world->acknowledged == world->count);
}

bool world_is_at(const struct world *world, uint64_t lsn)
{
    struct gate_box box;
    gate_box_init_sizes(&box, world->sizes);
    for (uint64_t i = 0; i < lsn; i++) {
        CHECK(gate_content_replay(&box.gate, i + 1, &world->commands[i]) == 0);
    }
    bool same = gate_same(&box.gate, &world->box.gate);
    gate_box_done(&box);
    return same;
}

void world_forget_after(struct world *world, uint64_t lsn)
{
    world->count = lsn;
    world->acknowledged = lsn;
    world->event = world->box.gate.applied_event;
}
