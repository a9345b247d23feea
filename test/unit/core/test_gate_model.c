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
#include "core/record.h"
#include "gate_draw.h"
#include "gate_model.h"

#define STEPS 40000 /* on each of the gates below: 360,000 together */

static const struct {
    struct gate_sizes sizes;
    struct gate_shares shares; /* 0: no such share */
} gates[] = {
    {{.orders = 1, .buyers = 1, .items = 1, .sales = 1}, {0}},
    {{.orders = 2, .buyers = 40, .items = 2, .sales = 1}, {0}},
    {{.orders = 60, .buyers = 2, .items = 3, .sales = 2}, {.buyer_orders = 3}},
    {{.orders = 7, .buyers = 5, .items = 4, .sales = 2}, {0}},
    {{.orders = 40, .buyers = 20, .items = 6, .sales = 3}, {.item_orders = 3, .sale_orders = 6}},
    {{.orders = 120, .buyers = 60, .items = 8, .sales = 4}, {.sale_buyers = 5}},
    {{.orders = 200, .buyers = 80, .items = 9, .sales = 4}, {0}},
    {{.orders = 200, .buyers = 80, .items = 9, .sales = 4}, {1, 4, 9, 20}},
    {{.orders = 30, .buyers = 30, .items = 9, .sales = 2}, {0}},
};

static uint32_t share_or_none(uint32_t share)
{
    return share != 0 ? share : UINT32_MAX;
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

static uint64_t pair_lsn; /* of the last command that changed something */

/* The command goes through its record into the second gate, as a restart would do it. */
static void replay(struct gate *second, const struct gate_command *c, enum verdict verdict)
{
    uint8_t bytes[RECORD_MAX_BYTES];
    struct gate_command back;
    struct gate_effects effects;
    size_t len = record_encode(c, bytes);
    CHECK(record_decode(bytes, len, &back) == 0);
    CHECK(back.kind == c->kind && back.now_ms == c->now_ms && back.event == c->event);
    back.accepted = true;
    CHECK(gate_step(second, &back, &effects) == verdict);
    if (effects.slot != GATE_NONE) {
        second->orders[effects.slot].lsn = pair_lsn;
    }
}

static struct pair {
    struct gate gate;
    struct gate second; /* fed from the records alone */
    void *memory;
    void *second_memory;
    uint32_t refused[REFUSAL_COUNT];
    uint32_t bounds[GATE_BOUND_COUNT];
    uint32_t verdicts[4];
} pair;

static void pair_open(struct gate_sizes sizes, struct gate_shares shares)
{
    gate_open(&pair.gate, sizes, prng_next(&draw_prng), &pair.memory);
    gate_open(&pair.second, sizes, prng_next(&draw_prng), &pair.second_memory);
    model_clear(sizes);
    model.shares = shares;
    pair.gate.shares =
        (struct gate_shares){share_or_none(shares.buyer_orders), share_or_none(shares.item_orders),
                             share_or_none(shares.sale_orders), share_or_none(shares.sale_buyers)};
    draw_begin(1, 1000);
    pair_lsn = 0;
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
    draw_told(&c, verdict);
    if (changed) {
        pair_lsn++;
        if (effects.slot != GATE_NONE) {
            pair.gate.orders[effects.slot].lsn = pair_lsn;
            order_of(pair.gate.orders[effects.slot].id)->lsn = pair_lsn;
        }
        replay(&pair.second, &c, verdict);
    }
    model_compare(&pair.gate);
    pair.refused[effects.refusal]++;
    pair.bounds[effects.bound]++;
    pair.verdicts[verdict]++;
    return verdict;
}

static void the_gate_does_what_the_model_does(void **state)
{
    (void)state;
    memset(pair.refused, 0, sizeof(pair.refused));
    memset(pair.verdicts, 0, sizeof(pair.verdicts));
    memset(pair.bounds, 0, sizeof(pair.bounds));
    for (size_t i = 0; i < sizeof(gates) / sizeof(gates[0]); i++) {
        pair_open(gates[i].sizes, gates[i].shares);
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
        REFUSAL_NO_SUCH_ITEM,  REFUSAL_BAD_TICKET,     REFUSAL_DIFFERENT_REQUEST, REFUSAL_ENDED,
        REFUSAL_TOO_EARLY,     REFUSAL_NOT_OPEN,       REFUSAL_SOLD_OUT,          REFUSAL_BARRED,
        REFUSAL_LIMIT_REACHED, REFUSAL_OVERLOADED,     REFUSAL_NOT_FOUND,         REFUSAL_BAD_STATE,
        REFUSAL_BAD_REQUEST,   REFUSAL_UNKNOWN_OUTCOME};
    for (size_t i = 0; i < sizeof(met) / sizeof(met[0]); i++) {
        if (pair.refused[met[i]] == 0) {
            fail_msg("never refused: %s", refusal_text(met[i])->code);
        }
    }
    for (int i = GATE_BOUND_BUYER_SHARE; i <= GATE_BOUND_SALE_BUYERS; i++) {
        assert_true(pair.bounds[i] > 0);
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
    pair_open((struct gate_sizes){.orders = 250, .buyers = 3, .items = 1, .sales = 1},
              (struct gate_shares){0});
    uint64_t event = 0;
    struct gate_command c = {
        .kind = GATE_LOAD_SALE, .sale = 1, .ends_at_ms = 9999, .event = ++event};
    assert_int_equal(pair_step(c), VERDICT_DONE);
    c = (struct gate_command){
        .kind = GATE_LOAD_ITEM, .sale = 1, .item = 1, .amount = 9, .limit = 3, .event = ++event};
    assert_int_equal(pair_step(c), VERDICT_DONE);
    for (uint32_t i = 0; i <= BUYER_FAILED_ATTEMPTS_MAX; i++) {
        struct order_id id = order_id_fresh(1, 1, i);
        c = (struct gate_command){.kind = GATE_RESERVE,
                                  .now_ms = 5,
                                  .id = id,
                                  .user = 7,
                                  .item = 1,
                                  .qty = 1,
                                  .ticket_expires_ms = 99};
        bool may = i < BUYER_FAILED_ATTEMPTS_MAX;
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
    draw_prng = prng_of(seed);
    draw_evicts = true;
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(the_gate_does_what_the_model_does),
        cmocka_unit_test(who_lets_go_too_often_is_at_his_limit),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
