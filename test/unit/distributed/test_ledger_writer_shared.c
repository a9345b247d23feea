/* Several ledger writers of one ledger: posts by mailbox, the keeper's lease, and what others have booked. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "base/err.h"
#include "cluster_world.h"

#define LEASE_MS 5000

static struct cluster_world world;
static struct cluster_process *first;
static struct cluster_process *second;
static struct memory_holder holders[CLUSTER_PROCESSES];

static int set_up(void **state)
{
    (void)state;
    cluster_init(&world, (struct cluster_options){.segments = 2, .open = true});
    for (uint32_t i = 0; i < CLUSTER_PROCESSES; i++) {
        cluster_up(&world, i);
        memory_holder_init(&holders[i], &world.ledger, i == 0 ? "first" : "second");
    }
    first = &world.processes[0];
    second = &world.processes[1];
    cluster_open_sale(first);
    cluster_settle(second);
    return 0;
}

static int tear_down(void **state)
{
    (void)state;
    cluster_done(&world);
    return 0;
}

/* What the lease's thread of a process does every second; whether it is the keeper. */
static bool lease(uint32_t at)
{
    uint64_t token = 0;
    int error = lease_take(&holders[at].port, KEEPER_LEASE, LEASE_MS, &token);
    ledger_writer_keep(world.processes[at].ledger_writer, error == 0 ? token : 0);
    return error == 0;
}

static void settle_both(void)
{
    for (int i = 0; i < 3; i++) {
        cluster_settle(first);
        cluster_settle(second);
    }
}

static void pass_ms(int64_t ms)
{
    cluster_pass_ms(&world, ms);
    settle_both();
}

static struct decision book(struct cluster_process *process, uint32_t segment, uint64_t user)
{
    struct decision decision = cluster_decide(&world, segment, user);
    cluster_let(process);
    booking_channel_run(&process->booking_channel, &decision, 1);
    cluster_halt(process);
    assert_int_equal(decision.booking, BOOKING_SETTLED);
    return decision;
}

static enum order_state row_state(const struct decision *decision)
{
    return cluster_row(&world, decision->command.id)->state;
}

static enum order_state gate_state(const struct decision *decision)
{
    return cluster_order(&world, decision->segment, decision->command.id)->state;
}

static uint64_t expired(void)
{
    return memory_ledger_events(&world.ledger, EVENT_ORDER_EXPIRED);
}

static enum sale_state sale_state(void)
{
    return world.ledger.sales[0]->state;
}

static enum sale_state catalog_state(struct cluster_process *process)
{
    catalog_lock(process->catalog);
    enum sale_state found = catalog_sale(process->catalog, CLUSTER_SALE)->state;
    catalog_unlock(process->catalog);
    return found;
}

/* ---- posts ---- */

static void posts_come_back_to_their_loop_or_mailbox(void **state)
{
    (void)state;
    struct decision decisions[CLUSTER_LOOPS + CLUSTER_MAILBOXES];
    struct ledger_writer_op ops[CLUSTER_LOOPS + CLUSTER_MAILBOXES];
    memset(ops, 0, sizeof(ops));
    for (uint32_t i = 0; i < CLUSTER_LOOPS + CLUSTER_MAILBOXES; i++) {
        decisions[i] = cluster_decide(&world, i % 2, 10 + i);
        ops[i] = (struct ledger_writer_op){.op = {.kind = LEDGER_BOOK,
                                                  .command = decisions[i].command,
                                                  .segment = decisions[i].segment,
                                                  .epoch = 1},
                                           .loop = i,
                                           .error = 4711};
        ledger_writer_post(first->ledger_writer, &ops[i]);
    }
    cluster_settle(first);
    for (uint32_t i = 0; i < CLUSTER_LOOPS + CLUSTER_MAILBOXES; i++) {
        if (i >= CLUSTER_LOOPS) {
            ledger_writer_wait(first->ledger_writer, i - CLUSTER_LOOPS,
                               60000000); /* it is there: no wait */
        }
        assert_ptr_equal(ledger_writer_collect(first->ledger_writer, i), &ops[i]);
        assert_null(ops[i].post.next);
        assert_int_equal(ops[i].error, 0);
        assert_int_equal(ops[i].lsn, 0); /* the ledger has it: nothing to wait for */
        assert_int_equal(ops[i].op.order.state, ORDER_LOCKED);
        assert_int_equal(gate_state(&decisions[i]), ORDER_LOCKED);
        assert_null(ledger_writer_collect(first->ledger_writer, i));
    }
    assert_int_equal(world.ledger.last_count,
                     CLUSTER_LOOPS + CLUSTER_MAILBOXES); /* in one transaction */
}

static void what_cannot_be_written_is_answered_too(void **state)
{
    (void)state;
    struct decision decision = cluster_decide(&world, 0, 7);
    for (int round = 0; round < 3; round++) {
        struct ledger_writer_op op = {
            .op = {.kind = LEDGER_BOOK, .command = decision.command, .segment = 0, .epoch = 1},
            .loop = CLUSTER_LOOPS};
        world.ledger.fail_next = round == 0 ? ERR_IO : 0;
        ledger_writer_post(first->ledger_writer, &op);
        cluster_settle(first);
        assert_ptr_equal(ledger_writer_collect(first->ledger_writer, CLUSTER_LOOPS), &op);
        assert_int_equal(op.error, round < 2 ? ERR_IO : 0); /* not asked again at once */
        if (round == 1) {
            cluster_pass_ms(&world, 1000);
        }
    }
    assert_int_equal(world.ledger.orders_count, 1);
}

/* An operator who opened a sale expects it to be open. */
static void a_sales_change_is_answered_when_the_segments_have_followed(void **state)
{
    (void)state;
    struct ledger_writer_op pause = cluster_sale_op(LEDGER_SALE_MOVE, SALE_PAUSED);
    sim_segments_away(world.sim, 1, true);
    ledger_writer_post(first->ledger_writer, &pause);
    for (int i = 0; i < 9; i++) {
        cluster_settle(first);
        assert_null(ledger_writer_collect(first->ledger_writer, 0));
        cluster_pass_ms(&world, 50);
    }
    sim_segments_away(world.sim, 1, false);
    cluster_pass_ms(&world, 500);
    cluster_settle(first);
    assert_ptr_equal(ledger_writer_collect(first->ledger_writer, 0), &pause);
    assert_int_equal(pause.error, 0);
    sale_row_free(pause.op.sale);
    for (uint32_t s = 0; s < 2; s++) {
        assert_int_equal(sim_segments_gate(world.sim, s)->sales[0].state, SALE_PAUSED);
    }
    /* Away for longer: after a moment. Bookings do not wait for that. */
    struct ledger_writer_op open = cluster_sale_op(LEDGER_SALE_MOVE, SALE_OPEN);
    sim_segments_away(world.sim, 1, true);
    ledger_writer_post(first->ledger_writer, &open);
    cluster_settle(first);
    assert_null(ledger_writer_collect(first->ledger_writer, 0));
    (void)book(first, 0, 7);
    for (int i = 0; i < 30; i++) {
        cluster_pass_ms(&world, 50);
        cluster_settle(first);
    }
    assert_ptr_equal(ledger_writer_collect(first->ledger_writer, 0), &open);
    sale_row_free(open.op.sale);
    assert_int_equal(sim_segments_gate(world.sim, 0)->sales[0].state, SALE_OPEN);
}

/* After the answer that an order is cancelled, no read shows it unpaid. */
static void a_cancellation_is_answered_when_its_segment_shows_it(void **state)
{
    (void)state;
    struct decision decision = book(first, 1, 7);
    struct decision other = book(first, 0, 8);
    struct ledger_writer_op cancel = {.op = {.kind = LEDGER_CANCEL, .id = decision.command.id}};
    struct ledger_writer_op elsewhere = {.op = {.kind = LEDGER_CANCEL, .id = other.command.id}};
    cluster_settle(first);
    sim_segments_away(world.sim, 1, true);
    ledger_writer_post(first->ledger_writer, &cancel);
    ledger_writer_post(first->ledger_writer, &elsewhere);
    cluster_settle(first);
    assert_ptr_equal(ledger_writer_collect(first->ledger_writer, 0),
                     &elsewhere); /* it waits for no other */
    assert_int_equal(elsewhere.error, 0);
    for (int i = 0; i < 30; i++) {
        cluster_pass_ms(&world, 50);
        cluster_settle(first);
    }
    assert_ptr_equal(ledger_writer_collect(first->ledger_writer, 0), &cancel);
    assert_int_equal(cancel.error, ERR_UNKNOWN); /* though it is done */
    ledger_writer_post(first->ledger_writer, &cancel);
    cluster_settle(first);
    assert_null(ledger_writer_collect(first->ledger_writer,
                                      0)); /* asked again it is not told too early either */
    sim_segments_away(world.sim, 1, false);
    cancel.error = ERR_UNKNOWN;
    for (int i = 0; i < 100 && cancel.error != 0; i++) { /* it is tried in growing pauses */
        cluster_pass_ms(&world, 50);
        cluster_settle(first);
        if (ledger_writer_collect(first->ledger_writer, 0) == &cancel && cancel.error != 0) {
            ledger_writer_post(first->ledger_writer, &cancel);
        }
    }
    assert_int_equal(cancel.error, 0);
    assert_int_equal(gate_state(&decision), ORDER_CANCELLED);
    assert_int_equal(cancel.op.order.state, ORDER_CANCELLED);
}

/* It is not asked, and the ledger not read, a thousand times a second. */
static void a_segment_that_is_away_is_tried_in_growing_pauses(void **state)
{
    (void)state;
    struct decision decision = cluster_decide(&world, 1, 8);
    sim_segments_away(world.sim, 1, true);
    cluster_let(first);
    booking_channel_run(&first->booking_channel, &decision, 1);
    cluster_halt(first);
    assert_int_equal(decision.booking, BOOKING_SETTLED);
    uint64_t turns = 0;
    int64_t passed_us = 0;
    while (passed_us < 20000000) {
        int64_t sleep_us = cluster_turn(first);
        fake_clock_pass_us(&world.clock, sleep_us);
        passed_us += sleep_us;
        turns++;
    }
    assert_in_range(turns, 10, 60);
    sim_segments_away(world.sim, 1, false);
    for (passed_us = 0; passed_us < 2100000;) { /* its longest pause */
        int64_t sleep_us = cluster_turn(first);
        fake_clock_pass_us(&world.clock, sleep_us);
        passed_us += sleep_us;
    }
    assert_int_equal(cluster_order(&world, 1, decision.command.id)->state, ORDER_LOCKED);
}

static void a_sale_that_the_segments_have_no_room_for_is_refused(void **state)
{
    (void)state;
    struct item_row items[7];
    struct sale_row sale = {.id = 2,
                            .pay_within_s = 60,
                            .starts_at_ms = CLUSTER_NOW,
                            .ends_at_ms = CLUSTER_NOW + CLUSTER_ENDS_MS,
                            .name = "too many",
                            .currency = "CNY",
                            .items_count = 7, /* beside the two: nine, of eight */
                            .items = items};
    memset(items, 0, sizeof(items));
    for (uint64_t i = 0; i < 7; i++) {
        items[i] = (struct item_row){.id = 50 + i, .price_cents = 1, .total = 1};
    }
    struct ledger_writer_op create = {.op = {.kind = LEDGER_SALE_CREATE, .sale_in = &sale}};
    cluster_do(first, &create);
    assert_int_equal(create.op.refusal, REFUSAL_NONE);
    sale_row_free(create.op.sale);
    struct ledger_writer_op warm = {
        .op = {.kind = LEDGER_SALE_MOVE, .sale_id = 2, .target = SALE_WARM}};
    cluster_do(first, &warm);
    assert_int_equal(warm.op.refusal, REFUSAL_OVERLOADED);
    assert_int_equal(memory_ledger_events(&world.ledger, EVENT_SALE_WARMED), 1);
    /* The other ledger writer reads of it, when it is asked to and now and then in any case. */
    cluster_settle(second);
    catalog_lock(second->catalog);
    assert_null(catalog_sale(second->catalog, 2));
    catalog_unlock(second->catalog);
    cluster_pass_ms(&world, 200);
    ledger_writer_refresh(second->ledger_writer);
    ledger_writer_refresh(second->ledger_writer);
    cluster_settle(second);
    catalog_lock(second->catalog);
    assert_non_null(catalog_sale(second->catalog, 2));
    catalog_unlock(second->catalog);
    /* It reads what has changed, and nothing else. */
    cluster_pass_ms(&world, 1000);
    cluster_settle(first);
    cluster_settle(second);
    uint64_t sales_read = world.ledger.sales_read;
    for (int i = 0; i < 10; i++) {
        cluster_pass_ms(&world, 1000);
        cluster_settle(first);
        cluster_settle(second);
    }
    assert_int_equal(world.ledger.sales_read, sales_read);
    /* A draft that another one has deleted disappears, without any news. */
    struct ledger_writer_op drop = {.op = {.kind = LEDGER_SALE_DELETE, .sale_id = 2}};
    cluster_do(first, &drop);
    assert_int_equal(drop.op.refusal, REFUSAL_NONE);
    sale_row_free(drop.op.sale);
    cluster_pass_ms(&world, 1000);
    cluster_settle(second);
    catalog_lock(second->catalog);
    assert_null(catalog_sale(second->catalog, 2));
    catalog_unlock(second->catalog);
}

/* Balancing and recovery write to the ledger beside the ledger writer. */
static void in_a_hurry_events_reach_the_segments_at_once(void **state)
{
    (void)state;
    cluster_settle(first);
    memory_ledger_event(&world.ledger, (struct ledger_event){.kind = EVENT_ITEM_TRANSFERRED,
                                                             .segment = 1,
                                                             .sale = CLUSTER_SALE,
                                                             .item = CLUSTER_FREE,
                                                             .a = 5});
    cluster_settle(first);
    assert_int_equal(cluster_item(&world, 1, CLUSTER_FREE)->total, CLUSTER_UNITS);
    ledger_writer_hurry(first->ledger_writer);
    cluster_settle(first);
    assert_int_equal(cluster_item(&world, 1, CLUSTER_FREE)->total, CLUSTER_UNITS + 5);
}

/* ---- the keeper ---- */

/* An event as another ledger writer's booking leaves it; the order itself is nowhere. */
static void note_locked(uint64_t count)
{
    for (uint64_t i = 0; i < count; i++) {
        struct order_id id = cluster_id(&world, CLUSTER_FREE, 0);
        memory_ledger_event(&world.ledger,
                            (struct ledger_event){.kind = EVENT_ORDER_LOCKED,
                                                  .sale = CLUSTER_SALE,
                                                  .item = CLUSTER_FREE,
                                                  .segment = 0,
                                                  .id = id,
                                                  .a = CLUSTER_NOW + CLUSTER_PAY_MS});
    }
}

static void only_the_leases_holder_expires(void **state)
{
    (void)state;
    struct decision decisions[6];
    for (uint32_t i = 0; i < 6; i++) { /* each ledger writer books some */
        decisions[i] = book(i % 2 == 0 ? first : second, i / 3, 10 + i);
    }
    assert_true(lease(0));
    assert_false(lease(1));
    pass_ms(CLUSTER_PAY_MS - 1);
    assert_int_equal(expired(), 0); /* never before its time */
    assert_true(lease(0));
    pass_ms(1);
    assert_int_equal(expired(), 6);
    assert_int_equal(world.ledger.ops[LEDGER_EXPIRE], 6); /* and by one ledger writer */
    for (uint32_t i = 0; i < 6; i++) {
        assert_int_equal(row_state(&decisions[i]), ORDER_EXPIRED);
        assert_int_equal(gate_state(&decisions[i]), ORDER_EXPIRED);
    }
    for (uint32_t s = 0; s < 2; s++) {
        assert_int_equal(cluster_item(&world, s, CLUSTER_FREE)->available, CLUSTER_UNITS);
    }
}

static void without_the_lease_nothing_expires(void **state)
{
    (void)state;
    (void)book(first, 0, 7);
    pass_ms(2LL * CLUSTER_ENDS_MS);
    assert_int_equal(expired(), 0);
    assert_int_equal(sale_state(), SALE_OPEN); /* nor does anything open or close */
    assert_true(lease(1));
    pass_ms(1);
    assert_int_equal(expired(), 1);
    assert_int_equal(sale_state(), SALE_CLOSED);
}

static void the_keeper_learns_what_others_book(void **state)
{
    (void)state;
    assert_true(lease(0));
    settle_both();
    struct decision decision = book(second, 1, 7);
    cluster_settle(first);
    assert_int_equal(ledger_writer_pending_deadlines(first->ledger_writer), 1);
    assert_int_equal(ledger_writer_pending_deadlines(second->ledger_writer), 0);
    pass_ms(CLUSTER_PAY_MS);
    assert_int_equal(row_state(&decision), ORDER_EXPIRED);
}

/* More than one page of events, while the keeper's own ledger writer has nothing to do. */
static void it_does_not_fall_behind_a_busy_ledger_writer(void **state)
{
    (void)state;
    assert_true(lease(0));
    settle_both();
    note_locked(3000);
    (void)cluster_turn(first);
    assert_int_equal(ledger_writer_pending_deadlines(first->ledger_writer), 3000);
}

static void the_lease_moves_and_nothing_is_forgotten(void **state)
{
    (void)state;
    struct decision decisions[4];
    assert_true(lease(0));
    settle_both();
    decisions[0] = book(first, 0, 10);
    decisions[1] = book(second, 1, 11);
    pass_ms(LEASE_MS + 1); /* the first is paused, or dead */
    assert_true(lease(1));
    ledger_writer_keep(first->ledger_writer, 0);
    decisions[2] = book(first, 1, 12); /* it still books */
    settle_both();
    decisions[3] = book(second, 0, 13);
    pass_ms(CLUSTER_PAY_MS - 1000);
    assert_true(lease(1));
    pass_ms(2000);
    for (int i = 0; i < 4; i++) {
        assert_int_equal(row_state(&decisions[i]), ORDER_EXPIRED);
    }
    assert_int_equal(expired(), 4);
    /* And back again. */
    lease_drop(&holders[1].port, KEEPER_LEASE);
    ledger_writer_keep(second->ledger_writer, 0);
    assert_true(lease(0));
    struct decision last = book(second, 0, 14);
    pass_ms(CLUSTER_PAY_MS);
    assert_int_equal(row_state(&last), ORDER_EXPIRED);
    assert_int_equal(expired(), 5);
}

/* A process was paused past the end of its lease. Its keeper's batch changes nothing, and its ledger
 * writer serves its other callers as fast as before. */
static void a_stale_token_changes_nothing(void **state)
{
    (void)state;
    assert_true(lease(0));
    settle_both();
    struct decision mine = book(first, 0, 10);
    cluster_pass_ms(&world, CLUSTER_PAY_MS);
    assert_true(lease(1)); /* the first does not know */
    uint64_t commits = world.ledger.commits;
    for (int i = 0; i < 5; i++) {
        cluster_settle(first);
    }
    assert_int_equal(world.ledger.commits, commits);
    assert_int_equal(row_state(&mine), ORDER_LOCKED);
    struct decision other = book(first, 1, 11); /* at once */
    assert_int_equal(row_state(&other), ORDER_LOCKED);
    uint64_t batches = world.ledger.batches;
    cluster_pass_ms(&world, 100);
    cluster_settle(first);
    assert_int_equal(world.ledger.batches, batches); /* it does not try again */
    cluster_settle(second);
    assert_int_equal(row_state(&mine), ORDER_EXPIRED);
    assert_int_equal(expired(), 1);
    /* It gets a new token, and keeps again. */
    lease_drop(&holders[1].port, KEEPER_LEASE);
    ledger_writer_keep(second->ledger_writer, 0);
    assert_true(lease(0));
    pass_ms(CLUSTER_PAY_MS);
    assert_int_equal(row_state(&other), ORDER_EXPIRED);
}

/* Deadlines are compared with the database's clock, which is not the ledger writer's. */
static void an_order_that_is_not_due_for_the_database_is_kept(void **state)
{
    (void)state;
    assert_true(lease(0));
    settle_both();
    struct decision decisions[3];
    for (uint32_t i = 0; i < 3; i++) {
        decisions[i] = book(first, 0, 10 + i);
        cluster_pass_ms(&world, 1);
    }
    struct ledger_writer_op cancel = {
        .op = {.kind = LEDGER_CANCEL, .id = decisions[1].command.id, .user = 11}};
    cluster_do(first, &cancel);
    assert_int_equal(cancel.op.refusal, REFUSAL_NONE);
    world.database_ahead_ms = -700;
    pass_ms(CLUSTER_PAY_MS);
    assert_true(lease(0));
    assert_int_equal(expired(), 0);
    uint64_t batches = world.ledger.batches;
    for (int i = 0; i < 690; i++) {
        pass_ms(1);
    }
    assert_int_equal(expired(), 0);
    assert_in_range(world.ledger.batches - batches, 5, 30); /* and not all the time */
    for (int i = 0; i < 100; i++) {
        pass_ms(1);
    }
    assert_int_equal(row_state(&decisions[0]), ORDER_EXPIRED);
    assert_int_equal(row_state(&decisions[1]), ORDER_CANCELLED);
    assert_int_equal(row_state(&decisions[2]), ORDER_EXPIRED);
    assert_int_equal(expired(), 2);
}

static void a_failed_batch_of_the_keeper_is_tried_again(void **state)
{
    (void)state;
    assert_true(lease(0));
    settle_both();
    struct decision decision = book(first, 0, 10);
    world.ledger.fail_next = ERR_IO;
    pass_ms(CLUSTER_PAY_MS);
    assert_int_equal(row_state(&decision), ORDER_LOCKED);
    assert_true(lease(0));
    world.ledger.lose_next = ERR_IO; /* committed, and nobody heard */
    pass_ms(1000);
    assert_int_equal(expired(), 1);
    pass_ms(1000);
    assert_int_equal(expired(), 1);
    assert_int_equal(gate_state(&decision), ORDER_EXPIRED); /* brought from the ledger */
    assert_int_equal(ledger_writer_pending_deadlines(first->ledger_writer), 0);
    /* Reads fail while the lease is taken up: it is, when they work again. */
    struct decision next = book(first, 0, 11);
    ledger_writer_keep(first->ledger_writer, 0);
    cluster_settle(first);
    world.ledger.fail_read = ERR_IO;
    assert_true(lease(0));
    cluster_settle(first);
    world.ledger.fail_read = 0;
    pass_ms(CLUSTER_PAY_MS);
    assert_int_equal(row_state(&next), ORDER_EXPIRED);
}

/* ---- sales ---- */

static void sales_move_once_and_everyone_hears(void **state)
{
    (void)state;
    uint64_t moves = world.ledger.ops[LEDGER_SALE_MOVE];
    assert_true(lease(1));
    settle_both();
    pass_ms(CLUSTER_ENDS_MS - 1);
    assert_int_equal(sale_state(), SALE_OPEN);
    assert_true(lease(1));
    pass_ms(2);
    assert_int_equal(sale_state(), SALE_CLOSED);
    assert_int_equal(memory_ledger_events(&world.ledger, EVENT_SALE_CLOSED), 1);
    assert_int_equal(world.ledger.ops[LEDGER_SALE_MOVE], moves + 1);
    assert_int_equal(catalog_state(second), SALE_CLOSED);
    for (uint32_t s = 0; s < 2; s++) {
        assert_int_equal(sim_segments_gate(world.sim, s)->sales[0].state, SALE_CLOSED);
    }
    /* Off the board, but not while something may be on its way from a segment. */
    int64_t until = CLUSTER_ENDS_MS + CLUSTER_PAY_MS + CLUSTER_KEEP_MS;
    cluster_pass_ms(&world, until);
    assert_true(lease(1));
    sim_segments_away(world.sim, 0, true);
    settle_both();
    assert_int_equal(memory_ledger_events(&world.ledger, EVENT_SALE_FORGOTTEN), 0);
    sim_segments_away(world.sim, 0, false);
    pass_ms(2000);
    assert_int_equal(memory_ledger_events(&world.ledger, EVENT_SALE_FORGOTTEN), 1);
    pass_ms(5000); /* the other ledger writer reads of it, too */
    for (uint32_t i = 0; i < CLUSTER_PROCESSES; i++) {
        catalog_lock(world.processes[i].catalog);
        assert_null(catalog_sale(world.processes[i].catalog, CLUSTER_SALE));
        catalog_unlock(world.processes[i].catalog);
    }
    for (uint32_t s = 0; s < 2; s++) {
        assert_int_equal(sim_segments_gate(world.sim, s)->sales_used, 0);
    }
}

/* The keeper knows a sale as others have changed it. */
static void the_keeper_follows_what_others_change(void **state)
{
    (void)state;
    assert_true(lease(1));
    settle_both();
    struct sale_row change = {.ends_at_ms = CLUSTER_NOW + 2LL * CLUSTER_ENDS_MS};
    struct ledger_writer_op retime = {.op = {.kind = LEDGER_SALE_CHANGE,
                                             .sale_id = CLUSTER_SALE,
                                             .sale_in = &change,
                                             .changes = SALE_HAS_ENDS}};
    cluster_do(first, &retime);
    assert_int_equal(retime.op.refusal, REFUSAL_NONE);
    sale_row_free(retime.op.sale);
    assert_true(lease(1));
    cluster_pass_ms(&world, CLUSTER_ENDS_MS + 1);
    assert_true(lease(1));
    settle_both();
    assert_int_equal(sale_state(), SALE_OPEN);
    struct ledger_writer_op close = cluster_sale_op(LEDGER_SALE_MOVE, SALE_CLOSED);
    cluster_do(first, &close);
    sale_row_free(close.op.sale);
    cluster_settle(second);
    assert_int_equal(catalog_state(second), SALE_CLOSED);
}

/* More falls due than one batch holds: who posts something does not wait for all of it. */
static void keeping_and_booking_take_turns(void **state)
{
    (void)state;
    assert_true(lease(0));
    settle_both();
    note_locked(3000);
    cluster_settle(first);
    cluster_pass_ms(&world, CLUSTER_PAY_MS);
    assert_true(lease(0));
    struct decision posted = cluster_decide(&world, 1, 77);
    struct ledger_writer_op op = {
        .op = {.kind = LEDGER_BOOK, .command = posted.command, .segment = 1, .epoch = 1},
        .loop = CLUSTER_LOOPS + 1};
    ledger_writer_post(first->ledger_writer, &op);
    (void)cluster_turn(first);
    (void)cluster_turn(first);
    assert_ptr_equal(ledger_writer_collect(first->ledger_writer, CLUSTER_LOOPS + 1), &op);
    assert_int_equal(op.error, 0);
    assert_true(world.ledger.ops[LEDGER_EXPIRE] > 0);
    assert_true(world.ledger.ops[LEDGER_EXPIRE] < 3000);
    for (int i = 0; i < 5; i++) {
        pass_ms(1);
    }
    assert_int_equal(world.ledger.ops[LEDGER_EXPIRE], 3000);
}

/* ---- the thread ---- */

static void *run_ledger_writer(void *context)
{
    ledger_writer_run(context);
    return NULL;
}

static void its_thread_answers_and_ends(void **state)
{
    (void)state;
    pthread_t thread;
    struct decision decision = cluster_decide(&world, 0, 7);
    struct ledger_writer_op op = {
        .op = {.kind = LEDGER_BOOK, .command = decision.command, .segment = 0, .epoch = 1},
        .loop = CLUSTER_LOOPS};
    assert_int_equal(pthread_create(&thread, NULL, run_ledger_writer, first->ledger_writer), 0);
    ledger_writer_post(first->ledger_writer, &op);
    struct ledger_writer_op *answered = NULL;
    while (answered == NULL) { /* the test's time limit is its hang guard */
        ledger_writer_wait(first->ledger_writer, 0, 100000);
        answered = ledger_writer_collect(first->ledger_writer, CLUSTER_LOOPS);
    }
    assert_ptr_equal(answered, &op);
    assert_int_equal(op.error, 0);
    ledger_writer_stop(first->ledger_writer);
    ledger_writer_wait(first->ledger_writer, 0, 3600000000LL); /* ends the wait of a mailbox, too */
    ledger_writer_wait(first->ledger_writer, 1, 3600000000LL);
    assert_int_equal(pthread_join(thread, NULL), 0);
    assert_int_equal(row_state(&decision), ORDER_LOCKED);
}

#define TEST(name) cmocka_unit_test_setup_teardown(name, set_up, tear_down)

int main(void)
{
    const struct CMUnitTest tests[] = {
        TEST(posts_come_back_to_their_loop_or_mailbox),
        TEST(what_cannot_be_written_is_answered_too),
        TEST(a_sales_change_is_answered_when_the_segments_have_followed),
        TEST(a_cancellation_is_answered_when_its_segment_shows_it),
        TEST(a_segment_that_is_away_is_tried_in_growing_pauses),
        TEST(a_sale_that_the_segments_have_no_room_for_is_refused),
        TEST(in_a_hurry_events_reach_the_segments_at_once),
        TEST(only_the_leases_holder_expires),
        TEST(without_the_lease_nothing_expires),
        TEST(the_keeper_learns_what_others_book),
        TEST(it_does_not_fall_behind_a_busy_ledger_writer),
        TEST(the_lease_moves_and_nothing_is_forgotten),
        TEST(a_stale_token_changes_nothing),
        TEST(an_order_that_is_not_due_for_the_database_is_kept),
        TEST(a_failed_batch_of_the_keeper_is_tried_again),
        TEST(sales_move_once_and_everyone_hears),
        TEST(the_keeper_follows_what_others_change),
        TEST(keeping_and_booking_take_turns),
        TEST(its_thread_answers_and_ends),
    };
    return cmocka_run_group_tests_name("ledger writer, shared", tests, NULL, NULL);
}
