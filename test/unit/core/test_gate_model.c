/*
 * The gate against a naive model of it: plain arrays, searched from end to end, written from what
 * gate.h and the public contract say, sharing nothing with gate.c. Random commands go to both;
 * after each one the verdict, the refusal, what the buyer holds, every counter, every order and
 * every buyer must be the same. What is journalled makes a round trip through its record into a
 * second gate with other hash buckets, which must end up the same, too.
 *
 * The seed is printed; SEED=n in the environment runs it again.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include <cmocka.h>

#include "base/check.h"
#include "base/prng.h"
#include "core/record.h"
#include "gate_model.h"

#define STEPS 40000 /* on each of the gates below: 320,000 together */
#define SALES 4
#define ITEMS 9
#define USERS 25

static const struct gate_sizes gates[] = {
    {.orders = 1, .buyers = 1, .items = 1, .sales = 1},
    {.orders = 2, .buyers = 40, .items = 2, .sales = 1},
    {.orders = 60, .buyers = 2, .items = 3, .sales = 2},
    {.orders = 7, .buyers = 5, .items = 4, .sales = 2},
    {.orders = 40, .buyers = 20, .items = 6, .sales = 3},
    {.orders = 120, .buyers = 60, .items = 8, .sales = 4},
    {.orders = 200, .buyers = 80, .items = 9, .sales = 4},
    {.orders = 30, .buyers = 30, .items = 9, .sales = 2},
};

/* ---- the commands ---- */

static struct prng prng;
static int64_t now_ms;
static struct gate_command unfinished; /* a FORGET that wants to be sent again */

static uint64_t draw(uint64_t bound)
{
    return prng_below(&prng, bound);
}

/* An item that exists, mostly. */
static uint64_t draw_item(void)
{
    if (model.items_count > 0 && draw(20) != 0) {
        return model.items[draw(model.items_count)].id;
    }
    return 1 + draw(ITEMS);
}

/* An order that exists, mostly, and is not final yet, where a few tries find one. */
static struct order_id draw_order(void)
{
    const struct model_order *order = NULL;
    for (int i = 0; model.orders_count > 0 && i < 4; i++) {
        order = &model.orders[draw(model.orders_count)];
        if (!order_state_final(order->state)) {
            break;
        }
    }
    if (order != NULL && draw(20) != 0) {
        return order->id;
    }
    return order_id_fresh(1 + draw(ITEMS), 1, (uint32_t)draw(50));
}

static void draw_reserve(struct gate_command *c)
{
    c->item = draw_item();
    c->user = 1 + draw(USERS);
    c->qty = draw(8) == 0 ? (uint32_t)(1 + draw(12)) : 1;
    c->ticket_expires_ms = (uint64_t)now_ms + draw(16) * 3;
    const struct model_item *item = item_of(c->item);
    const struct model_buyer *buyer = buyer_of(c->item, c->user);
    bool once = item != NULL && item->limit == 1;
    uint32_t attempt = buyer != NULL ? (uint32_t)buyer->ended : 0;
    switch (draw(40)) {
    case 0: /* the wrong kind of id */
        once = !once;
        break;
    case 1: /* an older or later attempt */
        attempt = (uint32_t)draw(4);
        break;
    case 2: /* another buyer's id */
        c->id = order_id_once(c->item, 1 + draw(USERS), attempt);
        return;
    case 3: /* another item's */
        c->id = order_id_fresh(1 + draw(ITEMS), 1, (uint32_t)draw(50));
        return;
    case 4:
    case 5: /* an order that may exist, by its owner or another */
        c->id = draw_order();
        c->item = order_id_item(c->id);
        if (order_of(c->id) != NULL && draw(3) != 0) {
            c->user = order_of(c->id)->user;
            c->qty = (uint32_t)order_of(c->id)->qty;
        }
        return;
    default:
        break;
    }
    c->id = once ? order_id_once(c->item, c->user, attempt)
                 : order_id_fresh(c->item, now_ms, (uint32_t)draw(1U << 20));
}

static void draw_sale_command(struct gate_command *c)
{
    static const enum gate_kind kinds[] = {GATE_LOAD_SALE, GATE_LOAD_SALE, GATE_LOAD_ITEM,
                                           GATE_LOAD_ITEM, GATE_LOAD_ITEM, GATE_LOAD_ITEM,
                                           GATE_OPEN,      GATE_OPEN,      GATE_OPEN,
                                           GATE_PAUSE,     GATE_RETIME};
    static const uint32_t limits[] = {1, 1, 3, 5, 0};
    c->kind = kinds[draw(sizeof(kinds) / sizeof(kinds[0]))];
    c->sale = 1 + draw(SALES);
    c->item = c->kind == GATE_LOAD_ITEM ? 1 + draw(ITEMS) : 0;
    c->amount = c->kind == GATE_LOAD_ITEM ? draw(30) : 0;
    c->limit = c->kind == GATE_LOAD_ITEM ? limits[draw(5)] : 0;
    if (c->kind == GATE_LOAD_SALE || c->kind == GATE_OPEN) {
        c->starts_at_ms = (uint64_t)now_ms + draw(20) - draw(20);
    }
    if (c->kind == GATE_LOAD_SALE || c->kind == GATE_RETIME) {
        c->ends_at_ms = (uint64_t)now_ms + draw(4000) + (draw(10) == 0 ? 0 : 400);
    }
    c->bar_unpaid = c->kind == GATE_LOAD_SALE && draw(2) == 0;
}

static void draw_stock(struct gate_command *c)
{
    static const enum gate_kind kinds[] = {GATE_RESTOCK, GATE_TRANSFER_OUT, GATE_TRANSFER_IN};
    static const uint64_t amounts[] = {0, 1, 2, 7, STOCK_MAX, STOCK_MAX + 1, UINT64_MAX};
    c->kind = kinds[draw(3)];
    c->item = draw_item();
    c->amount = amounts[draw(draw(8) == 0 ? 7 : 4)];
}

/* A move the order's state allows, mostly. */
static void draw_move(struct gate_command *c)
{
    static const enum gate_kind queued[] = {GATE_CONFIRM, GATE_CONFIRM, GATE_CONFIRM, GATE_REFUSE};
    static const enum gate_kind locked[] = {GATE_PAY, GATE_CANCEL, GATE_EXPIRE, GATE_EXPIRE};
    static const enum refusal reasons[] = {REFUSAL_LIMIT_REACHED, REFUSAL_NO_STOCK};
    c->id = draw_order();
    c->item = order_id_item(c->id);
    const struct model_order *order = order_of(c->id);
    bool is_queued = order != NULL && order->state == ORDER_QUEUED;
    c->kind = (draw(8) == 0 ? !is_queued : is_queued) ? queued[draw(4)] : locked[draw(4)];
    c->time_ms = c->kind == GATE_CONFIRM ? (uint64_t)now_ms + 100 : 0;
    c->reason = c->kind == GATE_REFUSE ? reasons[draw(2)] : 0;
}

/* Sales come to an end, and the sooner the fuller the gate is: none stands full for ever. */
static void draw_end(struct gate_command *c)
{
    bool full = model.orders_count == model.sizes.orders;
    c->sale = 1 + draw(SALES);
    const struct model_sale *sale = sale_of(c->sale);
    bool ended = sale != NULL && (sale->state == SALE_CLOSED || now_ms >= sale->end);
    if (sale != NULL && sale->state != SALE_CLOSED && (full || ended || draw(8) == 0)) {
        c->kind = GATE_CLOSE;
        return;
    }
    c->kind = GATE_FORGET;
    c->qty = (uint32_t)draw(draw(2) == 0 ? 4 : 300);
}

static struct gate_command draw_command(void)
{
    struct gate_command c = {.kind = GATE_RESERVE};
    now_ms += (int64_t)draw(3);
    c.now_ms = draw(30) == 0 ? now_ms - (int64_t)draw(50) : now_ms;
    uint64_t luck = draw(1000);
    if (unfinished.kind == GATE_FORGET && luck < 700) {
        return unfinished;
    }
    if (luck < 450) {
        draw_reserve(&c);
        return c;
    }
    if (luck < 850) {
        draw_move(&c);
    } else if (luck < 890) {
        draw_stock(&c);
    } else if (luck < 960) {
        draw_sale_command(&c);
    } else if (luck < 996) {
        draw_end(&c);
    } else {
        c.kind = luck < 998 ? GATE_SKIP : GATE_KIND_NONE;
    }
    /* The next event, mostly; also one that was applied before, and one further on. */
    uint64_t number = draw(20);
    c.event = number == 0 ? model.event - (model.event > 0 ? draw(model.event) : 0)
                          : model.event + 1 + (number == 1 ? draw(3) : 0);
    return c;
}

/* ---- the run ---- */

static void gate_open(struct gate *gate, struct gate_sizes sizes, uint64_t hash_key, void **memory)
{
    size_t bytes = gate_bytes(sizes);
    *memory = aligned_alloc(64, bytes);
    assert_non_null(*memory);
    memset(*memory, 0, bytes);
    gate_init(gate, sizes, *memory, hash_key);
}

/* The command goes through its record into the second gate, as a restart would do it. */
static void replay(struct gate *second, const struct gate_command *c, enum verdict verdict)
{
    uint8_t bytes[RECORD_MAX_BYTES];
    struct gate_command back;
    struct gate_effects effects;
    size_t len = record_encode(c, bytes);
    CHECK(record_decode(bytes, len, &back) == 0);
    CHECK(back.kind == c->kind && back.now_ms == c->now_ms && back.event == c->event);
    CHECK(gate_step(second, &back, &effects) == verdict);
}

static struct pair {
    struct gate gate;
    struct gate second; /* fed from the records alone */
    void *memory;
    void *second_memory;
    uint32_t refused[REFUSAL_COUNT];
    uint32_t verdicts[4];
} pair;

static void pair_open(struct gate_sizes sizes)
{
    gate_open(&pair.gate, sizes, prng_next(&prng), &pair.memory);
    gate_open(&pair.second, sizes, prng_next(&prng), &pair.second_memory);
    model_clear(sizes);
    unfinished = (struct gate_command){.kind = GATE_KIND_NONE};
    now_ms = 1000;
}

static void pair_close(void)
{
    gate_audit(&pair.gate);
    gate_audit(&pair.second);
    model_compare(&pair.second);
    free(pair.memory);
    free(pair.second_memory);
}

/* One command to the model, the gate and, if it was journalled, to the second gate. */
static enum verdict pair_step(struct gate_command c)
{
    struct gate_effects effects;
    struct answer want = model_step(&c);
    enum verdict verdict = gate_step(&pair.gate, &c, &effects);
    bool changed = verdict == VERDICT_DONE || verdict == VERDICT_MORE;
    model_compare_effects(&pair.gate, &c, &want, verdict, &effects);
    if (c.kind == GATE_FORGET && changed) {
        model_forgotten(&pair.gate, &c, verdict == VERDICT_DONE);
    }
    if (c.kind == GATE_FORGET) {
        unfinished = verdict == VERDICT_MORE ? c : (struct gate_command){0};
    }
    if (changed) {
        replay(&pair.second, &c, verdict);
    }
    model_compare(&pair.gate);
    pair.refused[effects.refusal]++;
    pair.verdicts[verdict]++;
    return verdict;
}

static void the_gate_does_what_the_model_does(void **state)
{
    (void)state;
    memset(pair.refused, 0, sizeof(pair.refused));
    memset(pair.verdicts, 0, sizeof(pair.verdicts));
    for (size_t i = 0; i < sizeof(gates) / sizeof(gates[0]); i++) {
        pair_open(gates[i]);
        for (uint64_t step = 0; step < STEPS; step++) {
            (void)pair_step(draw_command());
            if (step % 100 == 0) {
                gate_audit(&pair.gate);
                model_compare(&pair.second);
            }
        }
        pair_close();
    }
    /* A run that never met one of these would prove little. */
    static const enum refusal met[] = {
        REFUSAL_NO_SUCH_ITEM,  REFUSAL_BAD_TICKET, REFUSAL_DIFFERENT_REQUEST, REFUSAL_ENDED,
        REFUSAL_TOO_EARLY,     REFUSAL_NOT_OPEN,   REFUSAL_SOLD_OUT,          REFUSAL_BARRED,
        REFUSAL_LIMIT_REACHED, REFUSAL_OVERLOADED, REFUSAL_NOT_FOUND,         REFUSAL_BAD_STATE,
        REFUSAL_BAD_REQUEST};
    for (size_t i = 0; i < sizeof(met) / sizeof(met[0]); i++) {
        if (pair.refused[met[i]] == 0) {
            fail_msg("never refused: %s", refusal_text(met[i])->code);
        }
    }
    for (int i = 0; i < 4; i++) {
        assert_true(pair.verdicts[i] > 0);
    }
    assert_true(pair.verdicts[VERDICT_DONE] > 20000);
}

/* More often than a random run gets to: a buyer who buys and cancels on and on. */
static void who_lets_go_too_often_is_at_his_limit(void **state)
{
    (void)state;
    pair_open((struct gate_sizes){.orders = 250, .buyers = 3, .items = 1, .sales = 1});
    uint64_t event = 0;
    struct gate_command c = {
        .kind = GATE_LOAD_SALE, .sale = 1, .ends_at_ms = 9999, .event = ++event};
    assert_int_equal(pair_step(c), VERDICT_DONE);
    c = (struct gate_command){
        .kind = GATE_LOAD_ITEM, .sale = 1, .item = 1, .amount = 9, .limit = 3, .event = ++event};
    assert_int_equal(pair_step(c), VERDICT_DONE);
    for (uint32_t i = 0; i <= BUYER_ENDED_MAX; i++) {
        struct order_id id = order_id_fresh(1, 1, i);
        c = (struct gate_command){.kind = GATE_RESERVE,
                                  .now_ms = 5,
                                  .id = id,
                                  .user = 7,
                                  .item = 1,
                                  .qty = 1,
                                  .ticket_expires_ms = 99};
        bool may = i < BUYER_ENDED_MAX;
        assert_int_equal(pair_step(c), may ? VERDICT_DONE : VERDICT_REFUSED);
        c = (struct gate_command){.kind = GATE_CONFIRM, .id = id, .item = 1, .event = ++event};
        assert_int_equal(pair_step(c), may ? VERDICT_DONE : VERDICT_REFUSED);
        c = (struct gate_command){.kind = GATE_CANCEL, .id = id, .item = 1, .event = ++event};
        assert_int_equal(pair_step(c), may ? VERDICT_DONE : VERDICT_REFUSED);
    }
    c = (struct gate_command){.kind = GATE_RESERVE,
                              .id = order_id_fresh(1, 2, 1),
                              .user = 8,
                              .item = 1,
                              .qty = 1,
                              .ticket_expires_ms = 99};
    assert_int_equal(pair_step(c), VERDICT_DONE); /* another buyer is not held up by it */
    pair_close();
}

int main(void)
{
    const char *given = getenv("SEED");
    uint64_t seed = given != NULL ? strtoull(given, NULL, 10) : (uint64_t)time(NULL);
    (void)printf("SEED=%llu\n", (unsigned long long)seed);
    (void)fflush(stdout); /* before a CHECK may end the process */
    prng = prng_of(seed);
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(the_gate_does_what_the_model_does),
        cmocka_unit_test(who_lets_go_too_often_is_at_his_limit),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
