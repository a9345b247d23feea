/*
 * Sweeps over the ledger writer: its start, from a journal with decisions to book and a ledger with events
 * that the gate has not seen; and its turns, with bookings, payments, cancellations, expiries and
 * sales to write. The 1st, 2nd, 3rd ... malloc fails, and each call of the journal's disk, once or
 * from then on, until no fault strikes any more.
 *
 * Each time: a start gives 0 or the code of the fault; nothing is leaked; whatever was answered is
 * so; and after the fault, in the same process where the journal has not failed, else after a
 * restart or a loss of power, gate and ledger agree about every order and every unit.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "base/err.h"
#include "fault.h"
#include "obs/log.h"
#include "sweep_shop.h"

#define OPS 6
#define BUYS 4
#define MORE 60 /* orders, so that the next deadlines need memory */

static struct shop shop;
static struct order_id locked[4]; /* to pay, to cancel, to expire, to be told again */
static struct ledger_writer_op *ops[OPS];
static struct gate_request buys[BUYS];
static struct sale_row draft;
static struct item_row draft_item;

/* ---- preparation ---- */

static void up(void)
{
    assert_int_equal(shop_up(&shop), 0);
}

static void nothing(void)
{
}

/* A sale with booked orders; a decision that is not booked; a payment only the ledger knows. */
static void closed_in_the_middle(void)
{
    up();
    ledger_writer_world_open_sale(&shop.world);
    for (uint64_t i = 0; i < 4; i++) {
        locked[i] = ledger_writer_world_bought(&shop.world, 1 + i);
    }
    for (uint64_t i = 0; i < MORE; i++) {
        struct gate_request request =
            ledger_writer_world_buy(&shop.world, 100 + i, LEDGER_WRITER_ONCE, 1);
        assert_int_equal(request.refusal, REFUSAL_NONE);
        (void)ledger_writer_world_settle(&shop.world);
    }
    (void)ledger_writer_world_settle(&shop.world);
    (void)ledger_writer_world_bought(&shop.world, 10);
    assert_int_equal(shop_flush(&shop), 0);
    struct ledger_writer_op *op = ledger_writer_op_order(&shop.world, LEDGER_PAY, locked[3]);
    ledger_writer_post(shop.world.ledger_writer, op);
    (void)ledger_writer_world_turn(&shop.world); /* committed; the gate's record is not flushed */
    ledger_writer_op_free(ledger_writer_collect(shop.world.ledger_writer, 0));
    struct prng prng = prng_of(1);
    shop_down(&shop);
    ram_disk_crash(&shop.world.ram, RAM_DROP, &prng);
}

static void post(size_t i, struct ledger_writer_op *op)
{
    ops[i] = op;
    ledger_writer_post(shop.world.ledger_writer, op);
}

/* Of everything something to do in the next turn. */
static void busy(void)
{
    closed_in_the_middle();
    up();
    (void)ledger_writer_world_settle(&shop.world);
    assert_int_equal(ledger_writer_pending_deadlines(shop.world.ledger_writer), 64);
    fake_clock_pass_ms(&shop.world.clock, LEDGER_WRITER_PAY_MS - 10);
    for (uint64_t i = 0; i < BUYS; i++) {
        buys[i] = ledger_writer_world_buy(&shop.world, 20 + i, LEDGER_WRITER_FREE, 1);
        assert_int_equal(buys[i].refusal, REFUSAL_NONE);
    }
    struct ledger_writer_world *world = &shop.world;
    draft_item = (struct item_row){.id = 21, .price_cents = 1, .total = 3};
    draft = (struct sale_row){.id = 2,
                              .starts_at_ms = LEDGER_WRITER_NOW,
                              .ends_at_ms = LEDGER_WRITER_NOW + LEDGER_WRITER_ENDS_MS,
                              .currency = "CNY",
                              .items_count = 1,
                              .items = &draft_item};
    post(0, ledger_writer_op_order(world, LEDGER_PAY, locked[0]));
    post(1, ledger_writer_op_order(world, LEDGER_CANCEL, locked[1]));
    post(2, ledger_writer_op_order(world, LEDGER_PAY, locked[2]));
    post(3, ledger_writer_op_new(world, LEDGER_RESTOCK, 1));
    ops[3]->op.item = LEDGER_WRITER_FREE;
    ops[3]->op.amount = 5;
    post(4, ledger_writer_op_new(world, LEDGER_SALE_CREATE, 1));
    ops[4]->op.sale_in = &draft;
    post(5, ledger_writer_op_sale(world, LEDGER_SALE_MOVE, 2, SALE_OPEN));
}

/* ---- under faults ---- */

static int turns(void)
{
    struct ledger_writer_world *world = &shop.world;
    for (int i = 0; i < 8; i++) {
        (void)shop_flush(&shop);
        int64_t sleep_us = 0;
        fault_enter();
        ledger_writer_iterate(world->ledger_writer, &sleep_us);
        fault_leave();
        fake_clock_pass_ms(&world->clock, 4); /* in the third turn deadlines are met */
    }
    return 0;
}

static int start(void)
{
    return shop_up(&shop);
}

static const struct scenario {
    const char *name;
    void (*prepare)(void);
    int (*run)(void);
} scenarios[] = {
    {"ledger writer start", closed_in_the_middle, start},
    {"ledger writer start, fresh", nothing, start},
    {"ledger writer turns", busy, turns},
};

/* ---- afterwards ---- */

/* What was answered well must be so in the ledger. */
static void expect_answers(void)
{
    static const enum order_state wanted[] = {ORDER_PAID, ORDER_CANCELLED, ORDER_PAID};
    for (uint32_t loop = 0; shop.world.ledger_writer != NULL && loop < LEDGER_WRITER_LOOPS;
         loop++) {
        struct ledger_writer_op *next;
        for (struct ledger_writer_op *op = ledger_writer_collect(shop.world.ledger_writer, loop);
             op != NULL; op = next) {
            next = (struct ledger_writer_op *)op->post.next;
            for (size_t i = 0; i < 3; i++) {
                if (op == ops[i] && op->error == 0 && op->op.refusal == REFUSAL_NONE) {
                    const struct order_row *row =
                        memory_ledger_order(&shop.world.ledger, op->op.id);
                    assert_non_null(row);
                    assert_int_equal(row->state, wanted[i]);
                }
            }
        }
    }
}

static void free_ops(void)
{
    for (size_t i = 0; i < OPS; i++) {
        if (ops[i] != NULL) {
            ledger_writer_op_free(ops[i]);
            ops[i] = NULL;
        }
    }
}

/* At rest: everything that was promised is booked, and all agree. */
static void expect_rest(uint64_t promised)
{
    struct ledger_writer_world *world = &shop.world;
    fake_clock_pass_ms(&world->clock, 6000); /* past every pause after trouble */
    (void)ledger_writer_world_settle(world);
    fake_clock_pass_ms(&world->clock, 6000);
    (void)ledger_writer_world_settle(world);
    if (world->ledger.sales_count > 0) {
        ledger_writer_world_agree(world);
    }
    assert_int_equal(ledger_writer_pending_deadlines(world->ledger_writer),
                     memory_ledger_orders(&world->ledger, ORDER_LOCKED));
    for (size_t i = 0; i < BUYS; i++) {
        if (buys[i].lsn > 0 && buys[i].lsn <= promised) {
            assert_non_null(memory_ledger_order(&world->ledger, buys[i].id));
        }
    }
}

enum ending { GO_ON, END, POWER_DROP, ENDING_COUNT };

static void verify(enum ending ending)
{
    struct prng prng = prng_of(1);
    uint64_t promised = shop.promised;
    expect_answers();
    bool failed = shop.world.journal != NULL && journal_failed(shop.world.journal);
    if (ending == GO_ON && shop.world.ledger_writer != NULL && !failed) {
        expect_rest(promised);
        expect_answers();
    }
    shop_down(&shop);
    free_ops();
    if (ending == POWER_DROP) {
        ram_disk_crash(&shop.world.ram, RAM_DROP, &prng);
    }
    up();
    expect_rest(promised);
    shop_down(&shop);
}

/* ---- the sweep ---- */

static uint64_t run_once(const struct scenario *scenario, struct fault_plan plan,
                         enum ending ending)
{
    int64_t live = fault_live();
    memset(buys, 0, sizeof(buys));
    shop_init(&shop);
    scenario->prepare();
    fault_arm(plan);
    int error = scenario->run();
    uint64_t fired = fault_disarm();
    int expected = plan.kind == FAULT_MALLOC ? ERR_NOMEM
                   : plan.forever && plan.kind != FAULT_READ && plan.kind != FAULT_LIST
                       ? ERR_NOSPACE
                       : ERR_IO;
    if ((error != 0 && error != expected) || (fired == 0 && error != 0)) {
        fail_msg("the outcome is %d", error);
    }
    verify(ending);
    shop_done(&shop);
    assert_int_equal(fault_live(), live);
    fault_passed();
    return fired;
}

static void sweep(const struct scenario *scenario, enum fault_kind kind)
{
    uint64_t total = 0;
    uint64_t runs = 0;
    for (int mode = 0; mode < 2 * ENDING_COUNT; mode++) {
        struct fault_plan plan = {.kind = kind, .forever = mode % 2 == 1};
        uint64_t fired;
        do {
            plan.nth++;
            fired = run_once(scenario, plan, (enum ending)(mode / 2));
            total += fired;
            runs++;
        } while (fired > 0);
    }
    fault_report(scenario->name, kind, total, runs);
}

static void every_call_fails_in(const struct scenario *scenario)
{
    for (enum fault_kind kind = FAULT_MALLOC; kind <= FAULT_LIST; kind++) {
        sweep(scenario, kind);
    }
    assert_true(fault_report_total(scenario->name) > 0);
}

static void start_in_the_middle(void **state)
{
    (void)state;
    every_call_fails_in(&scenarios[0]);
}

static void start_fresh(void **state)
{
    (void)state;
    every_call_fails_in(&scenarios[1]);
}

static void turns_of_every_kind(void **state)
{
    (void)state;
    every_call_fails_in(&scenarios[2]);
}

int main(void)
{
    log_set_level(LOG_ERROR + 1); /* errors are expected, thousands of times */
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_teardown(start_in_the_middle, fault_explain),
        cmocka_unit_test_teardown(start_fresh, fault_explain),
        cmocka_unit_test_teardown(turns_of_every_kind, fault_explain),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
