/* The promise resolver: what becomes of a front's promises. */
#include "promise_resolver_fixture.h"

/* ---- promises ---- */

static void a_promise_is_let_go_when_the_ledger_knows_it(void **state)
{
    (void)state;
    uint64_t epoch = 0;
    turn();
    struct decision booked = promise(0, 7);
    struct decision waiting = promise(1, 8);
    uint64_t calls = process->stage.calls;
    pass_and_turn(2000);
    assert_int_equal(numbers().entries, 2); /* on their way, as they were promised */
    book(&booked);
    world.ledger.fail_read = ERR_IO;
    pass_and_turn(2000);
    assert_int_equal(numbers().entries, 2); /* nobody can say */
    world.ledger.fail_read = 0;
    pass_and_turn(2000);
    assert_false(is_promised(booked.command.id, &epoch));
    assert_true(is_promised(waiting.command.id, &epoch));
    assert_int_equal(epoch, 1);
    assert_int_equal(process->stage.calls, calls); /* and nobody asked the gate */
    assert_int_equal(metrics_sum(&process->metrics, METRIC_SPOOL_ENTRIES), 1);
    assert_int_equal(metrics_sum(&process->metrics, METRIC_SPOOL_UNDECIDED), 0);
    struct decision copy = waiting;
    cluster_let(process);
    copy.reason = REFUSAL_DEGRADED;
    booking_channel_fail(&process->booking_channel, &copy, 1); /* failed is known, too */
    cluster_halt(process);
    pass_and_turn(2000);
    assert_int_equal(numbers().entries, 0);
}

static void what_a_rebuilt_segment_lacks_is_decided_again(void **state)
{
    (void)state;
    uint64_t epoch = 0;
    turn();
    struct decision promised[2] = {promise(1, 7), promise(1, 8)};
    struct decision other = promise(0, 9);
    cluster_rebuild(&world, 1); /* without them */
    forget_segment_table();
    uint64_t outbox = sim_segments_outbox(sim, 1);
    pass_and_turn(2000);
    for (int i = 0; i < 2; i++) {
        const struct gate_order *order = cluster_order(&world, 1, promised[i].command.id);
        assert_non_null(order);
        assert_int_equal(order->user, 7 + i);
        assert_int_equal(order->created_at_ms, promised[i].command.now_ms);
        assert_true(is_promised(promised[i].command.id, &epoch));
        assert_int_equal(epoch, 2);
    }
    assert_int_equal(sim_segments_outbox(sim, 1), outbox + 2);
    assert_true(is_promised(other.command.id, &epoch));
    assert_int_equal(epoch, 1);
    pass_and_turn(2000); /* once */
    assert_int_equal(sim_segments_outbox(sim, 1), outbox + 2);
}

/* No matter how long ago the buyer won, and even if the sale has ended since. */
static void a_winner_is_no_buyer_in_line(void **state)
{
    (void)state;
    turn();
    struct decision early = promise(1, 7);
    cluster_pass_ms(&world, CLUSTER_ENDS_MS - 1000);
    struct decision late = promise(1, 8);
    cluster_rebuild(&world, 1);
    pass_and_turn(2000);
    assert_null(cluster_row(&world, early.command.id));
    assert_null(cluster_row(&world, late.command.id));
    assert_non_null(cluster_order(&world, 1, early.command.id));
    assert_non_null(cluster_order(&world, 1, late.command.id));
}

static void while_it_is_being_filled_winners_come_back(void **state)
{
    (void)state;
    uint64_t epoch = 0;
    turn();
    struct decision promised = promise(1, 7);
    (void)cluster_raise_epoch(&world, 1);
    sim_segments_empty(sim, 1);
    pass_and_turn(2000);
    assert_true(is_promised(promised.command.id, &epoch));
    assert_int_equal(epoch, 1); /* nobody to ask yet */
    const struct segment_step steps[] = {{.kind = STEP_BEGIN, .sizes = cluster_sizes},
                                         {.kind = STEP_SALE,
                                          .sale = CLUSTER_SALE,
                                          .starts_at_ms = CLUSTER_NOW,
                                          .ends_at_ms = CLUSTER_NOW + CLUSTER_ENDS_MS,
                                          .state = SALE_OPEN},
                                         {.kind = STEP_ITEM,
                                          .sale = CLUSTER_SALE,
                                          .item = CLUSTER_FREE,
                                          .total = 5,
                                          .available = 5}};
    assert_int_equal(segments_rebuild(world.hands, 1, 2, 1, steps, 3), SEGMENT_DONE);
    segment_table_doubt(&process->segment_table, 1);
    pass_and_turn(2000);
    assert_false(sim_segments_open(sim, 1));
    assert_non_null(cluster_order(&world, 1, promised.command.id));
    assert_true(is_promised(promised.command.id, &epoch));
    assert_int_equal(epoch, 2);
}

static void one_that_cannot_be_kept_gets_its_row(void **state)
{
    (void)state;
    uint64_t epoch = 0;
    turn();
    struct decision promised = promise(1, 7);
    cluster_rebuild(&world, 1);
    for (uint32_t i = 0; i < CLUSTER_UNITS; i++) { /* another front's winners were faster */
        (void)cluster_decide(&world, 1, 100 + i);
    }
    pass_and_turn(2000);
    const struct order_row *row = cluster_row(&world, promised.command.id);
    assert_int_equal(row->state, ORDER_FAILED);
    assert_int_equal(row->reason, REFUSAL_SOLD_OUT);
    pass_and_turn(2000);
    assert_false(is_promised(promised.command.id, &epoch));
}

/* Nobody can decide it again: it must end all the same, or it stands in the journal for ever. */
static void one_of_a_sale_that_was_forgotten_gets_its_row(void **state)
{
    (void)state;
    uint64_t epoch = 0;
    turn();
    struct gate_command once = {.kind = GATE_RESERVE,
                                .now_ms = inside_time_ms(&process->time),
                                .id = order_id_once(CLUSTER_ONCE, 9, 0),
                                .user = 9,
                                .item = CLUSTER_ONCE,
                                .qty = 1};
    struct gate_command ids[] = {promise(1, 7).command, stand_in_line(2, 8), once};
    accept(&once, 1);
    cluster_rebuild(&world, 1);
    sim_segments_away(sim, 2, true);
    cluster_forget_sale(process);
    turn(); /* the sales were read before it was sold from */
    assert_int_equal(world.ledger.orders_count, 0);
    cluster_pass_ms(&world, 6000);
    cluster_settle(process);
    pass_and_turn(2000);
    for (int i = 0; i < 3; i++) {
        const struct order_row *row = cluster_row(&world, ids[i].id);
        assert_non_null(row);
        assert_int_equal(row->state, ORDER_FAILED);
        assert_int_equal(row->reason, REFUSAL_ENDED);
    }
    pass_and_turn(2000);
    for (int i = 0; i < 3; i++) {
        assert_false(is_promised(ids[i].id, &epoch));
    }
}

static void many_promises_are_kept_page_by_page(void **state)
{
    (void)state;
    enum { MANY = 700 };
    turn();
    for (uint64_t user = 1; user <= MANY; user++) {
        struct gate_command command = {.kind = GATE_RESERVE,
                                       .now_ms = CLUSTER_NOW,
                                       .id = order_id_once(CLUSTER_ONCE, user, 0),
                                       .user = user,
                                       .item = CLUSTER_ONCE,
                                       .qty = 1};
        accept(&command, 0);
    }
    pass_and_turn(2000);
    assert_int_equal(numbers().undecided, 0);
    uint64_t locked = 0;
    for (uint32_t s = 0; s < SEGMENTS; s++) { /* at their buyers' homes */
        locked += cluster_item(&world, s, CLUSTER_ONCE)->locked;
    }
    assert_int_equal(locked, SEGMENTS * CLUSTER_UNITS);
    assert_int_equal(memory_ledger_orders(&world.ledger, ORDER_FAILED),
                     MANY - SEGMENTS * CLUSTER_UNITS);
    pass_and_turn(2000);
    assert_int_equal(numbers().entries, SEGMENTS * CLUSTER_UNITS);
}

/* ---- stuck ---- */

/* Its message lies in a queue that nobody reads: the front that promised it ends the waiting. */
static void a_decision_that_nobody_books_fails_in_the_end(void **state)
{
    (void)state;
    turn();
    struct decision stuck = promise(1, 7);
    pass_and_turn(60000);
    assert_null(cluster_row(&world, stuck.command.id)); /* by default it waits */
    atomic_store(&runtime_limits.stale_ms, 90000);      /* turned while it runs */
    pass_and_turn(29000);
    assert_null(cluster_row(&world, stuck.command.id));
    world.ledger.fail_next = ERR_IO; /* nothing is released without the ledger */
    pass_and_turn(3000);
    assert_null(cluster_row(&world, stuck.command.id));
    assert_int_equal(cluster_item(&world, 1, CLUSTER_FREE)->locked, 1);
    for (int i = 0; i < 5; i++) {
        pass_and_turn(1500);
    }
    const struct order_row *row = cluster_row(&world, stuck.command.id);
    assert_int_equal(row->state, ORDER_FAILED);
    assert_int_equal(row->reason, REFUSAL_OVERLOADED);
    cluster_settle(process);
    const struct gate_item *item = cluster_item(&world, 1, CLUSTER_FREE);
    assert_int_equal(item->locked, 0); /* and the unit is for sale again */
    assert_int_equal(item->available, CLUSTER_UNITS);
    assert_int_equal(numbers().entries, 0);
    /* The queue is read after all: it stays as it is. */
    book(&stuck);
    cluster_settle(process);
    assert_int_equal(cluster_row(&world, stuck.command.id)->state, ORDER_FAILED);
    assert_int_equal(cluster_item(&world, 1, CLUSTER_FREE)->available, CLUSTER_UNITS);
}

static void one_that_was_booked_in_time_is_left_alone(void **state)
{
    (void)state;
    turn();
    struct decision booked = promise(1, 7);
    book(&booked);
    atomic_store(&runtime_limits.stale_ms, 1000);
    pass_and_turn(5000);
    assert_int_equal(cluster_row(&world, booked.command.id)->state, ORDER_LOCKED);
    assert_int_equal(numbers().entries, 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        TEST(a_promise_is_let_go_when_the_ledger_knows_it),
        TEST(what_a_rebuilt_segment_lacks_is_decided_again),
        TEST(a_winner_is_no_buyer_in_line),
        TEST(while_it_is_being_filled_winners_come_back),
        TEST(one_that_cannot_be_kept_gets_its_row),
        TEST(one_of_a_sale_that_was_forgotten_gets_its_row),
        TEST(many_promises_are_kept_page_by_page),
        TEST(a_decision_that_nobody_books_fails_in_the_end),
        TEST(one_that_was_booked_in_time_is_left_alone),
    };
    return cmocka_run_group_tests_name("promise resolver", tests, NULL, NULL);
}
