/*
 * Words for the referee's tests: what happens in a history, told in one line each. See
 * referee_world.h for the world they happen in. Include after <cmocka.h>.
 */
#ifndef SLUICE_REFEREE_HISTORY_H
#define SLUICE_REFEREE_HISTORY_H

#include <stdio.h>

#include "referee_world.h"

static struct world w;

static inline int set_up(void **state)
{
    (void)state;
    world_open(&w);
    return world_broken < 0 ? 0 : -1;
}

static inline int tear_down(void **state)
{
    (void)state;
    world_close(&w);
    return 0;
}

#define HISTORY(test) cmocka_unit_test_setup_teardown(test, set_up, tear_down)

static inline void fine(void)
{
    if (world_broken >= 0) {
        fail_msg("promise %d: %s", world_broken, world_what);
    }
}

static inline void caught(int promise)
{
    if (world_broken < 0) {
        fail_msg("nothing was noticed");
    }
    if (world_broken != promise) {
        fail_msg("noticed as promise %d instead of %d: %s", world_broken, promise, world_what);
    }
}

static inline struct gate_item *item(uint64_t id)
{
    return &w.gate.items[gate_find_item(&w.gate, id)];
}

static inline struct gate_order *order_of(struct order_id id)
{
    return &w.gate.orders[gate_find_order(&w.gate, id)];
}

/* Somebody looks at the order and sees what is there. */
static inline void look(struct order_id id, uint64_t user)
{
    struct sim_request request = world_send(&w, CALL_ORDER, user, id, 0);
    struct sim_answer answer = world_view_of(&w, id);
    world_hear(&w, &request, &answer);
}

static inline struct sim_request send_payment(struct order_id id, const char *key, int64_t amount)
{
    struct sim_request request = {.call = CALL_PAY, .order = id, .amount_cents = amount};
    (void)snprintf(request.key, sizeof(request.key), "%s", key);
    world_send_this(&w, &request);
    return request;
}

static inline void pay(struct order_id id, const char *key)
{
    struct sim_request request =
        send_payment(id, key, world_end_op(&w, LEDGER_PAY, id, key).amount_cents);
    world_end(&w, LEDGER_PAY, id, key);
    struct sim_answer answer = world_view_of(&w, id);
    world_hear(&w, &request, &answer);
}

static inline void cancel(struct order_id id, uint64_t user)
{
    struct sim_request request = world_send(&w, CALL_CANCEL, user, id, 0);
    world_end(&w, LEDGER_CANCEL, id, "");
    struct sim_answer answer = world_view_of(&w, id);
    world_hear(&w, &request, &answer);
}

static inline void restock(uint64_t id, uint64_t units, const char *key, bool repeated)
{
    struct sim_request request = {.call = CALL_RESTOCK, .item = id, .amount = units};
    struct ledger_op op = {
        .kind = LEDGER_RESTOCK, .item = id, .amount = units, .repeated = repeated};
    struct ledger_event event = {
        .kind = EVENT_ITEM_RESTOCKED, .sale = SALE, .item = id, .a = (int64_t)units};
    (void)snprintf(request.key, sizeof(request.key), "%s", key);
    (void)snprintf(op.key, sizeof(op.key), "%s", key);
    world_send_this(&w, &request);
    world_commit(&w, &op, &event, repeated ? 0 : 1, true);
    world_hear(&w, &request, &(struct sim_answer){.status = 200});
}

/* An operator's move, committed, applied and told. */
static inline void move_sale(enum sale_state target, enum ledger_event_kind kind)
{
    struct sim_request request = {.call = CALL_SALE_MOVE, .sale = SALE, .target = target};
    struct ledger_op op = {.kind = LEDGER_SALE_MOVE, .sale_id = SALE, .target = target};
    struct ledger_event event = {.kind = kind, .sale = SALE, .a = w.row.starts_at_ms};
    world_send_this(&w, &request);
    world_commit(&w, &op, &event, 1, true);
    world_hear(&w, &request, &(struct sim_answer){.status = 200});
}

static inline void refuse_buy(uint64_t of, uint64_t user, uint32_t qty, const char *code)
{
    struct order_id id = world_id(&w, of, user);
    struct sim_request request = world_send(&w, CALL_BUY, user, id, qty);
    struct sim_answer answer = world_refusal(409, code, "no");
    world_step(&w);
    world_hear(&w, &request, &answer);
}

static inline void end(void)
{
    struct referee_view view = world_view(&w);
    referee_end(w.referee, &view);
}

#endif
