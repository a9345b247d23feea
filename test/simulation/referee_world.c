/* See referee_world.h. The few functions of sim.h that the referee calls are here, too. */
#include "referee_world.h"

#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/check.h"
#include "ledger/event_effects.h"

int world_broken = -1;
char world_what[400];
static int64_t world_us;

/* ---- in place of the simulator ---- */

int64_t sim_now_us(const struct sim *sim)
{
    (void)sim;
    return world_us;
}

bool sim_is_broken(const struct sim *sim)
{
    (void)sim;
    return world_broken >= 0;
}

void sim_broken(struct sim *sim, int promise, const char *format, ...)
{
    (void)sim;
    if (world_broken >= 0) {
        return;
    }
    va_list args;
    va_start(args, format);
    (void)vsnprintf(world_what, sizeof(world_what), format, args);
    va_end(args);
    world_broken = promise;
}

const char *sim_call_text(enum sim_call call)
{
    static const char *const texts[] = {
#define X(name) #name,
        SIM_CALLS(X)
#undef X
    };
    return texts[call];
}

/* ---- time and steps ---- */

int64_t world_now_ms(const struct world *w)
{
    return w->wall_ms + w->boot_us / 1000;
}

struct referee_view world_view(struct world *w)
{
    if (!w->hold) {
        w->durable = w->lsn;
    }
    return (struct referee_view){
        .gate = &w->gate, .last_lsn = w->lsn, .durable_lsn = w->durable, .failed = w->failed};
}

void world_step(struct world *w)
{
    struct referee_view view = world_view(w);
    referee_step(w->referee, &view, w->boot_us, w->disturbed);
}

void world_pass_ms(struct world *w, int64_t ms)
{
    w->boot_us += ms * 1000;
    world_us += ms * 1000;
    world_step(w);
}

static void new_gate(struct world *w)
{
    static const struct gate_sizes sizes = {.orders = 64, .buyers = 64, .items = 4, .sales = 2};
    free(w->memory);
    w->memory = aligned_alloc(64, gate_bytes(sizes));
    CHECK(w->memory != NULL);
    memset(w->memory, 0, gate_bytes(sizes));
    gate_init(&w->gate, sizes, w->memory, 1);
}

/* ---- clients ---- */

void world_send_this(struct world *w, struct sim_request *request)
{
    request->number = ++w->requests;
    request->sent_us = world_us;
    referee_sent(w->referee, request);
}

struct sim_request world_send(struct world *w, enum sim_call call, uint64_t user,
                              struct order_id order, uint32_t qty)
{
    struct sim_request request = {.call = call,
                                  .user = user,
                                  .sale = SALE,
                                  .item = order_id_item(order),
                                  .order = order,
                                  .qty = qty,
                                  .ticket_expires_ms = BEGIN_MS + 3000000};
    world_send_this(w, &request);
    return request;
}

void world_hear(struct world *w, const struct sim_request *request, const struct sim_answer *answer)
{
    referee_heard(w->referee, request, answer);
}

struct sim_answer world_view_of(struct world *w, struct order_id order)
{
    struct order_view view;
    uint32_t slot = gate_find_order(&w->gate, order);
    CHECK(slot != GATE_NONE);
    gate_view_order(&w->gate, slot, &view);
    return (struct sim_answer){
        .status = 200,
        .has_order = true,
        .order = {.id = order,
                  .item = view.item,
                  .qty = view.qty,
                  .state = (enum order_state)view.state,
                  .pay_by_ms = view.pay_by_ms,
                  .created_at_ms = view.created_at_ms,
                  .amount_cents = (int64_t)view.qty * w->items[view.item - ONE_EACH].price_cents}};
}

struct sim_answer world_buy_answer(struct world *w, struct order_id order)
{
    struct sim_answer answer = world_view_of(w, order);
    const struct gate_order *at_gate = &w->gate.orders[gate_find_order(&w->gate, order)];
    answer.status = answer.order.state == ORDER_QUEUED ? 202 : 200;
    answer.has_held = true;
    answer.held = gate_find_buyer(&w->gate, at_gate->item_slot, at_gate->user)->held;
    answer.order = (struct sim_told){.id = order, .state = answer.order.state, .amount_cents = -1};
    return answer;
}

struct sim_answer world_refusal(int status, const char *code, const char *retry)
{
    struct sim_answer answer = {.status = status};
    (void)snprintf(answer.code, sizeof(answer.code), "%s", code);
    (void)snprintf(answer.retry, sizeof(answer.retry), "%s", retry);
    return answer;
}

struct sim_answer world_numbers(struct world *w, uint64_t item)
{
    const struct gate_item *at_gate = &w->gate.items[gate_find_item(&w->gate, item)];
    return (struct sim_answer){.status = 200,
                               .has_numbers = true,
                               .available = at_gate->available,
                               .locked = at_gate->locked,
                               .sold = at_gate->sold,
                               .total = at_gate->total};
}

struct order_id world_id(struct world *w, uint64_t item, uint64_t user)
{
    if (item != ONE_EACH) {
        return order_id_fresh(item, world_now_ms(w), w->sequence++);
    }
    const struct gate_buyer *buyer =
        gate_find_buyer(&w->gate, gate_find_item(&w->gate, item), user);
    return order_id_once(item, user, buyer != NULL ? buyer->failed_attempts : 0);
}

/* ---- the server ---- */

void world_decide(struct world *w, struct order_id order, uint64_t user, uint32_t qty)
{
    struct gate_command command = {.kind = GATE_RESERVE,
                                   .now_ms = world_now_ms(w),
                                   .id = order,
                                   .user = user,
                                   .item = order_id_item(order),
                                   .qty = qty,
                                   .ticket_expires_ms = BEGIN_MS + 3000000};
    struct gate_effects effects;
    CHECK(gate_step(&w->gate, &command, &effects) == VERDICT_DONE);
    w->gate.orders[effects.slot].lsn = ++w->lsn;
}

struct order_id world_buy(struct world *w, uint64_t item, uint64_t user, uint32_t qty)
{
    struct order_id order = world_id(w, item, user);
    struct sim_request request = world_send(w, CALL_BUY, user, order, qty);
    world_decide(w, order, user, qty);
    world_step(w);
    struct sim_answer answer = world_buy_answer(w, order);
    world_hear(w, &request, &answer);
    return order;
}

/* ---- the ledger ---- */

void world_commit(struct world *w, struct ledger_op *op, struct ledger_event *events, size_t count,
                  bool apply)
{
    for (size_t i = 0; i < count; i++) {
        events[i].number = ++w->events;
        events[i].at_ms = world_now_ms(w);
    }
    referee_committed(w->referee, &(struct ledger_batch){.ops = &op,
                                                         .count = 1,
                                                         .now_ms = world_now_ms(w),
                                                         .booked_lsn = op->lsn,
                                                         .events = events,
                                                         .events_count = count});
    for (size_t i = 0; apply && i < count; i++) {
        struct gate_command command;
        struct gate_effects effects;
        enum verdict verdict;
        event_effects_command(&events[i], world_now_ms(w), &command);
        do {
            verdict = gate_step(&w->gate, &command, &effects);
        } while (verdict == VERDICT_MORE);
        w->lsn++;
        if (verdict == VERDICT_DONE && effects.slot != GATE_NONE) {
            w->gate.orders[effects.slot].lsn = w->lsn;
        }
    }
    world_step(w);
}

struct ledger_op world_book_op(struct world *w, struct order_id order)
{
    const struct gate_order *at_gate = &w->gate.orders[gate_find_order(&w->gate, order)];
    uint64_t item = order_id_item(order);
    struct ledger_op op = {.kind = LEDGER_BOOK,
                           .command = {.kind = GATE_RESERVE,
                                       .now_ms = at_gate->created_at_ms,
                                       .id = order,
                                       .user = at_gate->user,
                                       .item = item,
                                       .qty = at_gate->qty},
                           .lsn = at_gate->lsn};
    op.order = (struct order_row){.id = order,
                                  .user = at_gate->user,
                                  .sale = SALE,
                                  .item = item,
                                  .qty = at_gate->qty,
                                  .state = ORDER_LOCKED,
                                  .amount_cents =
                                      (int64_t)at_gate->qty * w->items[item - ONE_EACH].price_cents,
                                  .created_at_ms = at_gate->created_at_ms,
                                  .pay_by_ms = world_now_ms(w) + 60000,
                                  .lsn = at_gate->lsn};
    return op;
}

struct ledger_event world_order_event(struct world *w, const struct ledger_op *op,
                                      enum ledger_event_kind kind)
{
    (void)w;
    return (struct ledger_event){.kind = kind,
                                 .sale = SALE,
                                 .item = op->order.item,
                                 .user = op->order.user,
                                 .id = op->order.id,
                                 .qty = op->order.qty,
                                 .a = kind == EVENT_ORDER_LOCKED ? op->order.pay_by_ms
                                                                 : op->order.cooling_until_ms};
}

void world_book(struct world *w, struct order_id order)
{
    struct ledger_op op = world_book_op(w, order);
    struct ledger_event event = world_order_event(w, &op, EVENT_ORDER_LOCKED);
    world_commit(w, &op, &event, 1, true);
}

struct ledger_op world_end_op(struct world *w, enum ledger_kind kind, struct order_id order,
                              const char *key)
{
    struct ledger_op op = world_book_op(w, order);
    op.kind = kind;
    op.id = order;
    op.lsn = 0;
    op.user = kind == LEDGER_CANCEL ? op.order.user : 0;
    op.amount_cents = op.order.amount_cents;
    (void)snprintf(op.key, sizeof(op.key), "%s", key);
    op.order.pay_by_ms = w->gate.orders[gate_find_order(&w->gate, order)].pay_by_ms;
    op.order.state = kind == LEDGER_PAY      ? ORDER_PAID
                     : kind == LEDGER_CANCEL ? ORDER_CANCELLED
                                             : ORDER_EXPIRED;
    return op;
}

void world_end(struct world *w, enum ledger_kind kind, struct order_id order, const char *key)
{
    struct ledger_op op = world_end_op(w, kind, order, key);
    struct ledger_event event = world_order_event(w, &op,
                                                  kind == LEDGER_PAY      ? EVENT_ORDER_PAID
                                                  : kind == LEDGER_CANCEL ? EVENT_ORDER_CANCELLED
                                                                          : EVENT_ORDER_EXPIRED);
    world_commit(w, &op, &event, 1, true);
}

/* ---- life ---- */

static void open_sale(struct world *w)
{
    struct sim_request request = {.call = CALL_SALE_CREATE, .sale = SALE, .sale_row = &w->row};
    struct ledger_op op = {.kind = LEDGER_SALE_CREATE, .sale_in = &w->row};
    world_send_this(w, &request);
    world_commit(w, &op, NULL, 0, true);
    world_hear(w, &request, &(struct sim_answer){.status = 201});

    struct sim_request move = {.call = CALL_SALE_MOVE, .sale = SALE, .target = SALE_OPEN};
    struct ledger_event events[5] = {{.kind = EVENT_SALE_WARMED,
                                      .sale = SALE,
                                      .a = w->row.starts_at_ms,
                                      .b = w->row.ends_at_ms,
                                      .c = 1}};
    for (size_t i = 0; i < 3; i++) {
        events[1 + i] = (struct ledger_event){.kind = EVENT_ITEM_LOADED,
                                              .sale = SALE,
                                              .item = w->items[i].id,
                                              .a = (int64_t)w->items[i].total,
                                              .b = w->items[i].limit_per_user};
    }
    events[4] =
        (struct ledger_event){.kind = EVENT_SALE_OPENED, .sale = SALE, .a = w->row.starts_at_ms};
    op = (struct ledger_op){.kind = LEDGER_SALE_MOVE, .sale_id = SALE, .target = SALE_OPEN};
    world_send_this(w, &move);
    world_commit(w, &op, events, 5, true);
    world_hear(w, &move, &(struct sim_answer){.status = 200, .sale_state = SALE_OPEN});
}

void world_open(struct world *w)
{
    *w = (struct world){.wall_ms = BEGIN_MS + 1000, .sequence = 1};
    world_broken = -1;
    world_us = 0;
    w->items[0] = (struct item_row){
        .id = ONE_EACH, .sale = SALE, .price_cents = 500, .limit_per_user = 1, .total = 3};
    w->items[1] = (struct item_row){.id = NO_LIMIT, .sale = SALE, .price_cents = 300, .total = 10};
    w->items[2] = (struct item_row){
        .id = UP_TO_5, .sale = SALE, .price_cents = 200, .limit_per_user = 5, .total = 8};
    w->row = (struct sale_row){.id = SALE,
                               .state = SALE_DRAFT,
                               .bar_unpaid = true,
                               .pay_within_s = 60,
                               .starts_at_ms = BEGIN_MS,
                               .ends_at_ms = BEGIN_MS + 3600000,
                               .items_count = 3,
                               .items = w->items};
    w->referee = referee_new(NULL);
    new_gate(w);
    world_start(w);
    open_sale(w);
}

void world_close(struct world *w)
{
    referee_free(w->referee);
    free(w->memory);
}

/* Undurable orders are taken out of a copy of the gate: what a replay would give. */
void world_crash(struct world *w)
{
    struct gate old = w->gate;
    void *memory = w->memory;
    uint64_t durable = world_view(w).durable_lsn;
    w->memory = NULL;
    new_gate(w);
    referee_ended(w->referee);
    w->gate.applied_event = old.applied_event;
    w->gate.highest_ms = old.highest_ms;
    for (uint32_t i = 0; i < old.sizes.sales; i++) {
        if (old.sales[i].used) {
            (void)gate_add_sale(&w->gate, &old.sales[i]);
        }
    }
    for (uint32_t i = 0; i < old.item_pool.fresh; i++) {
        (void)gate_add_item(&w->gate, &old.items[i]);
    }
    for (uint32_t i = 0; i < old.buyer_pool.fresh; i++) {
        (void)gate_add_buyer(&w->gate, &old.buyers[i]);
    }
    for (uint32_t i = 0; i < old.order_pool.fresh; i++) {
        const struct gate_order *order = &old.orders[i];
        if (order->lsn <= durable) {
            (void)gate_add_order(&w->gate, order);
            continue;
        }
        struct gate_item *item = &w->gate.items[order->item_slot];
        item->available += order->qty;
        item->locked -= order->qty;
        for (uint32_t k = 0; k < w->gate.buyer_pool.fresh; k++) {
            struct gate_buyer *buyer = &w->gate.buyers[k];
            if (buyer->user == order->user && buyer->item_slot == order->item_slot) {
                buyer->held -= order->qty;
            }
        }
    }
    free(memory);
    w->wall_ms = world_now_ms(w) + 5;
    w->boot_us = 0;
    w->lsn = durable;
    w->hold = w->failed = false;
}

void world_start(struct world *w)
{
    struct referee_view view = world_view(w);
    referee_started(w->referee, &view, w->wall_ms, w->boot_us);
}
