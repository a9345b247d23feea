/*
 * Crash enumeration of journal and ledger together. A short life of a shop is recorded: buys,
 * payments, cancellations, expiries, a restock, a snapshot, a trim; with every state the ledger had
 * on the way. Then, for every disk that a loss of power could have left at any operation, with the
 * ledger of that moment: the shop starts (the ledger is never ahead of the journal, the journal
 * reaches back to what is not booked), everything promised is there, and when it has come to rest
 * gate and ledger agree about every order and every unit.
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
#include "crash_disk.h"
#include "fault.h"
#include "journal/journal_private.h"
#include "obs/log.h"
#include "sweep_shop.h"

static struct shop shop;    /* the recorded one */
static struct shop restart; /* the one that starts from what is left */

/* ---- the run ---- */

/* The ledger writer's thread between two operations of the others: it may commit while the journal is
 * written or trimmed. */
static void turn_between(void *context)
{
    (void)context;
    if (shop.world.ledger_writer != NULL) {
        (void)ledger_writer_world_turn(&shop.world);
    }
}

/* Turns and flushes until there is nothing more to do; flushes first, as the journal thread would
 * in the middle of any turn. */
static void settle(void)
{
    for (int i = 0; i < 100; i++) {
        assert_int_equal(shop_flush(&shop), 0);
        int64_t sleep_us = ledger_writer_world_turn(&shop.world);
        if (sleep_us > 0 &&
            journal_durable_lsn(shop.world.journal) == journal_last_lsn(shop.world.journal)) {
            return;
        }
    }
    fail_msg("the shop never comes to rest");
}

static void do_op(struct ledger_writer_op *op)
{
    uint32_t loop = op->loop;
    ledger_writer_post(shop.world.ledger_writer, op);
    settle();
    assert_ptr_equal(ledger_writer_collect(shop.world.ledger_writer, loop), op);
    assert_int_equal(op->error, 0);
    assert_int_equal(op->op.refusal, REFUSAL_NONE);
    ledger_writer_op_free(op);
}

static void open_sale(void)
{
    struct item_row items[3];
    memset(items, 0, sizeof(items));
    for (uint64_t i = 0; i < 3; i++) {
        items[i].id = LEDGER_WRITER_ONCE + i;
        items[i].price_cents = LEDGER_WRITER_CENTS;
        items[i].total = LEDGER_WRITER_UNITS;
    }
    struct sale_row sale = {.id = LEDGER_WRITER_SALE,
                            .pay_within_s = LEDGER_WRITER_PAY_MS / 1000,
                            .starts_at_ms = LEDGER_WRITER_NOW,
                            .ends_at_ms = LEDGER_WRITER_NOW + LEDGER_WRITER_ENDS_MS,
                            .currency = "CNY",
                            .items_count = 3,
                            .items = items};
    struct ledger_writer_op *op = ledger_writer_op_new(&shop.world, LEDGER_SALE_CREATE, 0);
    op->op.sale_in = &sale;
    do_op(op);
    do_op(ledger_writer_op_sale(&shop.world, LEDGER_SALE_MOVE, LEDGER_WRITER_SALE, SALE_OPEN));
}

static void janitor(void)
{
    struct journal *journal = shop.world.journal;
    assert_int_equal(journal_prepare_file(journal), 0);
    if (journal_snapshot_due(journal)) {
        struct gate_box second;
        uint64_t lsn;
        uint32_t removed;
        gate_box_init_sizes(&second, shop.world.sizes);
        assert_int_equal(gate_content_snapshot(journal, &second.gate, &lsn), 0);
        gate_box_done(&second);
        assert_int_equal(
            journal_trim(journal, ledger_writer_booked_lsn(shop.world.ledger_writer), &removed), 0);
    }
}

/* The ledger writer's thread stands still (its ledger is slow): decisions fill files, snapshots are
 * taken, and what is trimmed must not be what is still to be booked. */
static void sell_without_booking(uint64_t first_user)
{
    shop.tap.before = NULL;
    for (uint64_t i = 0; i < 12; i++) {
        (void)ledger_writer_world_bought(&shop.world, first_user + i);
        assert_int_equal(shop_flush(&shop), 0);
        if (i % 4 == 3) {
            janitor();
        }
    }
}

static void record_run(bool interleaved)
{
    struct order_id ids[6];
    shop_init(&shop);
    shop_record(&shop);
    shop.tap.before = interleaved ? turn_between : NULL;
    assert_int_equal(shop_up(&shop), 0);
    open_sale();
    for (uint64_t round = 0; round < 4; round++) {
        for (uint64_t i = 0; i < 6; i++) {
            ids[i] = ledger_writer_world_bought(&shop.world, 1 + round * 6 + i);
            if (i == 3) {
                assert_int_equal(shop_flush(&shop),
                                 0); /* two batches, and two are never booked alone */
            }
        }
        settle();
        do_op(ledger_writer_op_order(&shop.world, LEDGER_PAY, ids[0]));
        do_op(ledger_writer_op_order(&shop.world, LEDGER_CANCEL, ids[1]));
        struct ledger_writer_op *op = ledger_writer_op_new(&shop.world, LEDGER_RESTOCK, 0);
        op->op.item = LEDGER_WRITER_FREE;
        op->op.amount = 5;
        do_op(op);
        janitor();
        if (round % 2 == 1) {
            fake_clock_pass_ms(&shop.world.clock, LEDGER_WRITER_PAY_MS + 1);
            settle();
            janitor();
        }
        if (round == 1) {
            sell_without_booking(50);
            shop.tap.before = interleaved ? turn_between : NULL;
            settle();
        }
        if (round == 2) { /* a start in the middle, with things to book */
            (void)ledger_writer_world_bought(&shop.world, 100);
            assert_int_equal(shop_flush(&shop), 0);
            shop_down(&shop);
            assert_int_equal(shop_up(&shop), 0);
            settle();
        }
    }
    ledger_writer_world_agree(&shop.world);
    shop_down(&shop);
}

/* ---- recovery ---- */

static int recover(void *context, struct ram_disk *ram, const struct crash_image *image,
                   uint64_t state, uint64_t *ret_lsn, char *why, size_t why_size)
{
    (void)context;
    (void)image;
    struct ledger_writer_world *world = &restart.world;
    shop_init(&restart);
    restart.tap.under = &ram->disk;
    memory_ledger_done(&world->ledger);
    memory_ledger_copy(shop.ledger_backends[state], &world->ledger);
    world->clock = shop.world.clock;
    int error = shop_up(&restart);
    if (error != 0) {
        (void)snprintf(why, why_size, "%s %s %s", err_text(error), world->found.where,
                       world->found.why);
    } else {
        *ret_lsn = world->found.last_lsn;
        (void)ledger_writer_world_settle(world);
        if (world->ledger.sales_count > 0 && world->ledger.sales[0]->state != SALE_DRAFT) {
            ledger_writer_world_agree(world);
        }
        if (ledger_writer_booked_lsn(world->ledger_writer) != journal_last_lsn(world->journal) &&
            world->box.gate.order_pool.used != world->ledger.orders_count) {
            error = ERR_CORRUPT;
            (void)snprintf(why, why_size, "decisions without an order");
        }
    }
    shop_done(&restart);
    return error;
}

static void enumerate(struct crash_run *run, const char *what, unsigned lies)
{
    *run = (struct crash_run){.ops = shop.tap.ops,
                              .ops_count = shop.tap.ops_count,
                              .bound = sweep_long() ? 16384 : 4096,
                              .sample = sweep_long() ? 4000 : 1000,
                              .seed = sweep_seed(1),
                              .lies = lies,
                              .until_loss = lies != 0,
                              .recover = recover,
                              .memo = crash_memo_new()};
    crash_enumerate(run);
    crash_memo_free(run->memo);
    crash_report(what, run);
}

static void the_ledger_is_never_ahead(void **state)
{
    (void)state;
    for (int interleaved = 0; interleaved < 2; interleaved++) {
        struct crash_run run;
        record_run(interleaved);
        enumerate(&run, interleaved ? "journal and ledger, interleaved" : "journal and ledger", 0);
        printf("  %zu states of the ledger\n", shop.ledger_backends_count);
        assert_int_equal(run.failed, 0);
        assert_true(run.points > 100 && run.distinct > 1000);
        shop_done(&shop);
    }
}

/* Bookings are made from what is durable in the journal. With durable writes that lie they are not,
 * and the start finds the ledger ahead, or a promise broken. */
static void a_disk_that_lies_is_found_out(void **state)
{
    (void)state;
    struct crash_run run;
    record_run(false);
    enumerate(&run, "durable writes lie", CRASH_LIE_DURABLE);
    assert_true(run.lost > 0);
    shop_done(&shop);
}

int main(void)
{
    log_set_level(LOG_ERROR + 1); /* refused starts are expected, thousands of times */
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(the_ledger_is_never_ahead),
        cmocka_unit_test(a_disk_that_lies_is_found_out),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
