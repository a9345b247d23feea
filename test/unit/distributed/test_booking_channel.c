/* A mailbox: decisions are booked, or decided again, or fail; or not now. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "base/err.h"
#include "cluster_world.h"

static struct cluster_world world;
static struct cluster_process *process;
static struct sim_segments *sim;

static int set_up(void **state)
{
    (void)state;
    cluster_init(&world, (struct cluster_options){.segments = 2, .open = true});
    cluster_up(&world, 0);
    process = &world.processes[0];
    sim = world.sim;
    cluster_open_sale(process);
    return 0;
}

static int tear_down(void **state)
{
    (void)state;
    cluster_done(&world);
    return 0;
}

static void run(struct decision *decisions, size_t count)
{
    cluster_let(process);
    booking_channel_run(&process->booking_channel, decisions, count);
    cluster_halt(process);
}

static void again(struct decision *decisions, size_t count)
{
    cluster_let(process);
    booking_channel_again(&process->booking_channel, decisions, count);
    cluster_halt(process);
}

/* Some decision that no segment has made. */
static struct decision made_up(uint32_t segment, uint64_t user, uint64_t item)
{
    struct decision decision = {
        .segment = segment,
        .epoch = 1,
        .command = {
            .kind = GATE_RESERVE, .now_ms = CLUSTER_NOW, .user = user, .item = item, .qty = 1}};
    decision.command.id =
        item == CLUSTER_ONCE ? order_id_once(item, user, 0) : cluster_id(&world, item, segment);
    return decision;
}

static void assert_row(struct order_id id, enum order_state state, enum refusal reason)
{
    const struct order_row *row = cluster_row(&world, id);
    assert_non_null(row);
    assert_int_equal(row->state, state);
    assert_int_equal(row->reason, reason);
}

/* ---- too late ---- */

static void what_is_stale_fails_and_returns_its_unit(void **state)
{
    (void)state;
    const struct runtime_limits runtime_limits = {.stale_ms = 5000};
    process->booking_channel.runtime_limits = &runtime_limits;
    process->booking_channel.time = &process->time;
    struct decision decisions[] = {cluster_decide(&world, 0, 7), cluster_decide(&world, 1, 8)};
    cluster_pass_ms(&world, 5000);
    struct decision fresh = cluster_decide(&world, 0, 9);
    run(decisions, 1); /* old, and not too old */
    assert_row(decisions[0].command.id, ORDER_LOCKED, REFUSAL_NONE);
    cluster_pass_ms(&world, 1);
    world.ledger.fail_next = ERR_IO;
    run(&decisions[1], 1);
    assert_int_equal(decisions[1].booking, BOOKING_LATER);
    assert_null(cluster_row(&world, decisions[1].command.id));
    cluster_pass_ms(&world, 2000);
    struct decision both[] = {fresh, decisions[1], decisions[0]};
    run(both, 3);
    cluster_settle(process);
    for (int i = 0; i < 3; i++) {
        assert_int_equal(both[i].booking, BOOKING_SETTLED);
    }
    assert_row(fresh.command.id, ORDER_LOCKED, REFUSAL_NONE);
    assert_row(decisions[0].command.id, ORDER_LOCKED, REFUSAL_NONE); /* it had its row */
    assert_row(decisions[1].command.id, ORDER_FAILED, REFUSAL_OVERLOADED);
    assert_int_equal(cluster_order(&world, 1, decisions[1].command.id)->state, ORDER_FAILED);
    assert_int_equal(cluster_item(&world, 1, CLUSTER_FREE)->available, CLUSTER_UNITS);
    process->booking_channel.runtime_limits = NULL;
    run(&decisions[1], 1); /* delivered again, to somebody with more patience */
    assert_row(decisions[1].command.id, ORDER_FAILED, REFUSAL_OVERLOADED);
}

/* ---- booked ---- */

static void decisions_are_booked(void **state)
{
    (void)state;
    struct decision decisions[7];
    for (uint32_t i = 0; i < 7; i++) {
        decisions[i] = cluster_decide(&world, i % 2, 10 + i);
        decisions[i].booking = BOOKING_POISON;
    }
    run(decisions, 7);
    cluster_settle(process);
    for (uint32_t i = 0; i < 7; i++) {
        assert_int_equal(decisions[i].booking, BOOKING_SETTLED);
        assert_row(decisions[i].command.id, ORDER_LOCKED, REFUSAL_NONE);
        assert_int_equal(cluster_row(&world, decisions[i].command.id)->segment, i % 2);
        const struct gate_order *order = cluster_order(&world, i % 2, decisions[i].command.id);
        assert_int_equal(order->state, ORDER_LOCKED); /* and the gate has heard */
    }
    assert_int_equal(process->booking_channel.posted, 0);
}

static void a_duplicate_is_booked_once(void **state)
{
    (void)state;
    struct decision first = cluster_decide(&world, 0, 7);
    struct decision decisions[] = {first, first, cluster_decide(&world, 0, 8), first};
    run(decisions, 4);
    run(decisions, 4);
    for (int i = 0; i < 4; i++) {
        assert_int_equal(decisions[i].booking, BOOKING_SETTLED);
    }
    assert_int_equal(world.ledger.orders_count, 2);
    assert_int_equal(memory_ledger_item(&world.ledger, CLUSTER_FREE)->locked, 2);
}

static void as_many_as_there_may_be(void **state)
{
    (void)state;
    static struct decision decisions[BOOKING_CHANNEL_MAX];
    for (uint32_t i = 0; i < BOOKING_CHANNEL_MAX; i++) {
        decisions[i] = made_up(i % 2, 1 + i, CLUSTER_FREE);
    }
    run(decisions, BOOKING_CHANNEL_MAX);
    for (uint32_t i = 0; i < BOOKING_CHANNEL_MAX; i++) {
        assert_int_equal(decisions[i].booking, BOOKING_SETTLED);
    }
    assert_int_equal(memory_ledger_orders(&world.ledger, ORDER_LOCKED), 2 * CLUSTER_UNITS);
    assert_int_equal(memory_ledger_orders(&world.ledger, ORDER_FAILED),
                     BOOKING_CHANNEL_MAX - 2 * CLUSTER_UNITS); /* the last guard against oversell */
}

/* ---- of an older epoch ---- */

static void a_decision_of_an_older_epoch_is_decided_again_and_taken(void **state)
{
    (void)state;
    struct decision decision = cluster_decide(&world, 1, 7);
    struct decision kept = decision;
    cluster_rebuild(&world, 1); /* the gate has forgotten it */
    uint64_t outbox = sim_segments_outbox(sim, 1);
    run(&decision, 1);
    assert_int_equal(decision.booking, BOOKING_SETTLED);
    assert_null(cluster_row(&world, kept.command.id)); /* never booked directly */
    const struct gate_order *order = cluster_order(&world, 1, kept.command.id);
    assert_non_null(order);
    assert_int_equal(order->created_at_ms, kept.command.now_ms);
    assert_int_equal(sim_segments_outbox(sim, 1), outbox + 1); /* its new entry carries it on */
    /* It comes once more, late: the gate knows it. */
    decision = kept;
    run(&decision, 1);
    assert_int_equal(decision.booking, BOOKING_SETTLED);
    assert_int_equal(sim_segments_outbox(sim, 1), outbox + 1);
    assert_null(cluster_row(&world, kept.command.id));
    /* The new entry is booked, under the new epoch. */
    decision = kept;
    decision.epoch = 2;
    run(&decision, 1);
    assert_int_equal(decision.booking, BOOKING_SETTLED);
    assert_row(kept.command.id, ORDER_LOCKED, REFUSAL_NONE);
    /* What has a row is settled, whatever its epoch, and nobody asks the gate. */
    sim_segments_away(sim, 1, true);
    decision = kept;
    run(&decision, 1);
    assert_int_equal(decision.booking, BOOKING_SETTLED);
}

static void one_that_is_refused_when_it_is_decided_again_fails(void **state)
{
    (void)state;
    struct decision old[2] = {cluster_decide(&world, 1, 7), cluster_decide(&world, 1, 8)};
    struct decision once[2] = {made_up(1, 7, CLUSTER_ONCE), made_up(1, 7, CLUSTER_ONCE)};
    struct decision late = made_up(1, 9, CLUSTER_FREE);
    late.command.now_ms = CLUSTER_NOW + CLUSTER_ENDS_MS;
    cluster_rebuild(&world, 1);
    for (uint32_t i = 0; i < CLUSTER_UNITS; i++) { /* others were there before them */
        (void)cluster_decide(&world, 1, 100 + i);
    }
    struct decision decisions[] = {old[0], late, old[1]};
    run(decisions, 3);
    assert_row(old[0].command.id, ORDER_FAILED, REFUSAL_SOLD_OUT);
    assert_row(old[1].command.id, ORDER_FAILED, REFUSAL_SOLD_OUT);
    assert_row(late.command.id, ORDER_FAILED, REFUSAL_ENDED);
    for (int i = 0; i < 3; i++) {
        assert_int_equal(decisions[i].booking, BOOKING_SETTLED);
    }
    /* His limit: another of his orders came first. */
    once[0].command.id = order_id_once(CLUSTER_ONCE, 7, 0);
    again(&once[0], 1);
    assert_int_equal(once[0].booking, BOOKING_SETTLED);
    assert_null(cluster_row(&world, once[0].command.id));
    once[1].command.id = order_id_once(CLUSTER_ONCE, 7, 0);
    once[1].command.qty = 2; /* another payload under the same id */
    again(&once[1], 1);
    assert_int_equal(once[1].booking, BOOKING_SETTLED);
    assert_row(once[1].command.id, ORDER_FAILED, REFUSAL_DIFFERENT_REQUEST);
}

/* A message that was parked until its sale had left the board. */
static void one_of_a_sale_that_was_forgotten_fails(void **state)
{
    (void)state;
    struct decision kept = cluster_decide(&world, 1, 7);
    struct decision decision = kept;
    cluster_rebuild(&world, 1);
    cluster_pass_ms(&world, 2000);
    cluster_forget_sale(process);
    run(&decision, 1);
    assert_int_equal(decision.booking,
                     BOOKING_LATER); /* the sales were read before it was decided */
    assert_null(cluster_row(&world, kept.command.id));
    cluster_pass_ms(&world, 6000);
    cluster_settle(process); /* they are read now and then */
    decision = kept;
    run(&decision, 1);
    assert_int_equal(decision.booking, BOOKING_SETTLED);
    assert_row(kept.command.id, ORDER_FAILED, REFUSAL_ENDED);
    cluster_settle(process); /* and its gate, which has no such order, goes on */
    assert_int_equal(cluster_look(&world, 1).event, world.ledger.events_count);
}

static void some_of_a_batch_are_of_an_older_epoch(void **state)
{
    (void)state;
    struct decision decisions[6];
    for (uint32_t i = 0; i < 6; i++) {
        decisions[i] = cluster_decide(&world, i % 2, 10 + i);
    }
    cluster_rebuild(&world, 1);
    uint64_t applies = process->stage.applies;
    run(decisions, 6);
    assert_int_equal(process->stage.applies, applies + 1); /* the three together */
    for (uint32_t i = 0; i < 6; i++) {
        assert_int_equal(decisions[i].booking, BOOKING_SETTLED);
        assert_int_equal(cluster_row(&world, decisions[i].command.id) != NULL, i % 2 == 0);
        assert_non_null(cluster_order(&world, i % 2, decisions[i].command.id));
    }
}

static void while_its_segment_cannot_decide_it_waits(void **state)
{
    (void)state;
    struct decision kept = cluster_decide(&world, 1, 7);
    struct decision decision = kept;
    (void)cluster_raise_epoch(&world, 1); /* recovery has begun */
    atomic_store(&process->segment_table.doubts, 0);
    sim_segments_away(sim, 1, true);
    run(&decision, 1);
    assert_int_equal(decision.booking, BOOKING_LATER);
    sim_segments_away(sim, 1, false);
    sim_segments_empty(sim, 1);
    decision = kept;
    run(&decision, 1);
    assert_int_equal(decision.booking, BOOKING_LATER);
    assert_int_equal(atomic_load(&process->segment_table.doubts), 1U << 1);
    /* Being filled: the item is not there yet. */
    const struct segment_step begin = {.kind = STEP_BEGIN, .sizes = cluster_sizes};
    assert_int_equal(segments_rebuild(world.hands, 1, 2, 1, &begin, 1), SEGMENT_DONE);
    cluster_place_all(&world);
    decision = kept;
    run(&decision, 1);
    assert_int_equal(decision.booking, BOOKING_LATER);
    assert_null(cluster_row(&world, kept.command.id));
    /* An answer that is lost: it may have been taken. */
    cluster_fill(&world, 1, 3, world.ledger.events_count);
    (void)cluster_raise_epoch(&world, 1);
    cluster_place_all(&world);
    decision = kept;
    sim_segments_lose(sim, 1, 1);
    run(&decision, 1);
    sim_segments_lose(sim, 1, 0);
    assert_int_equal(decision.booking, BOOKING_LATER);
    decision = kept;
    run(&decision, 1);
    assert_int_equal(decision.booking, BOOKING_SETTLED);
    assert_int_equal(cluster_item(&world, 1, CLUSTER_FREE)->locked, 1);
}

static void a_gate_that_is_full_is_asked_later(void **state)
{
    (void)state;
    struct decision kept[2] = {cluster_decide(&world, 1, 7), cluster_decide(&world, 1, 8)};
    const struct segment_step steps[] = {
        {.kind = STEP_BEGIN, .sizes = {.orders = 1, .buyers = 9, .items = 2, .sales = 1}},
        {.kind = STEP_SALE,
         .sale = CLUSTER_SALE,
         .starts_at_ms = CLUSTER_NOW,
         .ends_at_ms = CLUSTER_NOW + CLUSTER_ENDS_MS,
         .state = SALE_OPEN},
        {.kind = STEP_ITEM, .sale = CLUSTER_SALE, .item = CLUSTER_FREE, .total = 5, .available = 5},
        {.kind = STEP_OPEN}};
    assert_int_equal(segments_rebuild(world.hands, 1, cluster_raise_epoch(&world, 1), 1, steps, 4),
                     SEGMENT_DONE);
    cluster_place_all(&world);
    run(kept, 2);
    assert_int_equal(kept[0].booking, BOOKING_SETTLED);
    assert_int_equal(kept[1].booking, BOOKING_LATER); /* no reason of the buyer's */
    assert_null(cluster_row(&world, kept[1].command.id));
}

/* ---- the ledger ---- */

static void while_the_ledger_is_away_nothing_is_settled(void **state)
{
    (void)state;
    struct decision kept = cluster_decide(&world, 0, 7);
    struct decision decision = kept;
    world.ledger.fail_next = ERR_IO;
    run(&decision, 1);
    assert_int_equal(decision.booking, BOOKING_LATER);
    assert_int_equal(world.ledger.orders_count, 0);
    decision = kept; /* and it is not asked again at once */
    run(&decision, 1);
    assert_int_equal(decision.booking, BOOKING_LATER);
    cluster_pass_ms(&world, 1000);
    decision = kept;
    world.ledger.lose_next = ERR_IO; /* committed, and nobody heard */
    run(&decision, 1);
    assert_int_equal(decision.booking, BOOKING_LATER);
    assert_row(kept.command.id, ORDER_LOCKED, REFUSAL_NONE);
    cluster_pass_ms(&world, 1000);
    decision = kept;
    run(&decision, 1);
    assert_int_equal(decision.booking, BOOKING_SETTLED);
    assert_int_equal(world.ledger.orders_count, 1);
    /* The same while its failure is to be written. */
    struct decision old = cluster_decide(&world, 1, 8);
    cluster_rebuild(&world, 1);
    old.command.now_ms = CLUSTER_NOW - 1; /* before the start */
    decision = old;
    cluster_let(process);
    world.ledger.fail_next = ERR_IO;
    booking_channel_again(&process->booking_channel, &decision, 1);
    cluster_halt(process);
    assert_int_equal(decision.booking, BOOKING_LATER);
    cluster_pass_ms(&world, 1000);
    again(&decision, 1);
    assert_int_equal(decision.booking, BOOKING_SETTLED);
    assert_row(old.command.id, ORDER_FAILED, REFUSAL_TOO_EARLY);
}

static void what_the_ledger_takes_in_no_form_is_poison(void **state)
{
    (void)state;
    struct decision decisions[] = {cluster_decide(&world, 0, 7), made_up(0, 8, 999),
                                   cluster_decide(&world, 0, 9)};
    run(decisions, 3);
    assert_int_equal(decisions[0].booking, BOOKING_SETTLED); /* its neighbours are booked */
    assert_int_equal(decisions[1].booking, BOOKING_POISON);
    assert_int_equal(decisions[2].booking, BOOKING_SETTLED);
    struct decision fail = made_up(0, 8, 999);
    cluster_let(process);
    fail.reason = REFUSAL_DEGRADED;
    booking_channel_fail(&process->booking_channel, &fail, 1);
    cluster_halt(process);
    assert_int_equal(fail.booking, BOOKING_POISON);
}

/* A message of a gate that had more segments, or of nobody. */
static void a_segment_that_is_none_is_poison(void **state)
{
    (void)state;
    struct decision decision = made_up(63, 8, CLUSTER_FREE);
    run(&decision, 1);
    assert_int_equal(decision.booking, BOOKING_POISON);
    again(&decision, 1);
    assert_int_equal(decision.booking, BOOKING_POISON);
    assert_int_equal(world.ledger.orders_count, 0);
}

static void a_failure_gets_its_row_once(void **state)
{
    (void)state;
    struct decision booked = cluster_decide(&world, 0, 7);
    struct decision waiting = cluster_decide(&world, 1, 8);
    run(&booked, 1);
    struct decision decisions[] = {booked, waiting};
    cluster_let(process);
    decisions[0].reason = REFUSAL_DEGRADED;
    decisions[1].reason = REFUSAL_DEGRADED;
    booking_channel_fail(&process->booking_channel, decisions, 2);
    cluster_halt(process);
    cluster_settle(process);
    assert_int_equal(decisions[0].booking, BOOKING_SETTLED);
    assert_int_equal(decisions[1].booking, BOOKING_SETTLED);
    assert_row(booked.command.id, ORDER_LOCKED, REFUSAL_NONE); /* the first row wins */
    assert_row(waiting.command.id, ORDER_FAILED, REFUSAL_DEGRADED);
    const struct gate_order *order = cluster_order(&world, 1, waiting.command.id);
    assert_int_equal(order->state, ORDER_FAILED);
    assert_int_equal(order->reason, REFUSAL_DEGRADED);
    assert_int_equal(cluster_item(&world, 1, CLUSTER_FREE)->available, CLUSTER_UNITS);
    decisions[1] = waiting; /* and cannot be revived */
    run(&decisions[1], 1);
    assert_int_equal(decisions[1].booking, BOOKING_SETTLED);
    assert_row(waiting.command.id, ORDER_FAILED, REFUSAL_DEGRADED);
}

#define TEST(name) cmocka_unit_test_setup_teardown(name, set_up, tear_down)

int main(void)
{
    const struct CMUnitTest tests[] = {
        TEST(what_is_stale_fails_and_returns_its_unit),
        TEST(decisions_are_booked),
        TEST(a_duplicate_is_booked_once),
        TEST(as_many_as_there_may_be),
        TEST(a_decision_of_an_older_epoch_is_decided_again_and_taken),
        TEST(one_that_is_refused_when_it_is_decided_again_fails),
        TEST(one_of_a_sale_that_was_forgotten_fails),
        TEST(some_of_a_batch_are_of_an_older_epoch),
        TEST(while_its_segment_cannot_decide_it_waits),
        TEST(a_gate_that_is_full_is_asked_later),
        TEST(while_the_ledger_is_away_nothing_is_settled),
        TEST(what_the_ledger_takes_in_no_form_is_poison),
        TEST(a_segment_that_is_none_is_poison),
        TEST(a_failure_gets_its_row_once),
    };
    return cmocka_run_group_tests_name("bookings", tests, NULL, NULL);
}
