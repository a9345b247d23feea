/* The promise resolver of those who stand in line, and over a restart. */
#include "promise_resolver_fixture.h"

/* ---- in line ---- */

static void those_in_line_are_decided_when_the_gate_is_back(void **state)
{
    (void)state;
    uint64_t epoch = 0;
    turn();
    sim_segments_away(sim, 2, true);
    struct gate_command command = stand_in_line(2, 7);
    for (int i = 0; i < 20; i++) {
        pass_and_turn(1000);
    }
    assert_true(is_promised(command.id, &epoch));
    assert_int_equal(epoch, 0);
    assert_int_equal(metrics_sum(&process->metrics, METRIC_SPOOL_UNDECIDED), 1);
    sim_segments_away(sim, 2, false);
    pass_and_turn(2000);
    const struct gate_order *order = cluster_order(&world, 2, command.id);
    assert_non_null(order);
    assert_int_equal(order->created_at_ms, command.now_ms);
    assert_true(is_promised(command.id, &epoch));
    assert_int_equal(epoch, 1);
    assert_int_equal(metrics_sum(&process->metrics, METRIC_SPOOL_UNDECIDED), 0);
}

static void who_stood_in_line_too_long_fails(void **state)
{
    (void)state;
    uint64_t epoch = 0;
    turn();
    sim_segments_away(sim, 2, true);
    struct gate_command command = stand_in_line(2, 7);
    pass_and_turn(LINE_MS);
    assert_null(cluster_row(&world, command.id));
    pass_and_turn(2000);
    const struct order_row *row = cluster_row(&world, command.id);
    assert_int_equal(row->state, ORDER_FAILED);
    assert_int_equal(row->reason, REFUSAL_DEGRADED);
    pass_and_turn(2000);
    assert_false(is_promised(command.id, &epoch));
    /* It cannot come to life any more. */
    sim_segments_away(sim, 2, false);
    pass_and_turn(5000);
    assert_null(cluster_order(&world, 2, command.id));
}

static void after_the_end_those_in_line_fail(void **state)
{
    (void)state;
    turn();
    cluster_pass_ms(&world, CLUSTER_ENDS_MS - 5000);
    sim_segments_away(sim, 2, true);
    struct gate_command command = stand_in_line(2, 7);
    pass_and_turn(4999);
    assert_null(cluster_row(&world, command.id));
    pass_and_turn(2000);
    assert_int_equal(cluster_row(&world, command.id)->reason, REFUSAL_ENDED);
    assert_int_equal(numbers().entries, 1);
    pass_and_turn(2000);
    assert_int_equal(numbers().entries, 0);
}

static void a_sale_that_is_closed_early_is_over_for_them_too(void **state)
{
    (void)state;
    turn();
    sim_segments_away(sim, 2, true);
    struct gate_command command = stand_in_line(2, 7);
    struct ledger_writer_op close = cluster_sale_op(LEDGER_SALE_MOVE, SALE_CLOSED);
    cluster_do(process, &close);
    sale_row_free(close.op.sale);
    pass_and_turn(2000);
    assert_int_equal(cluster_row(&world, command.id)->reason, REFUSAL_ENDED);
}

static void while_the_ledger_is_away_nobody_is_given_up(void **state)
{
    (void)state;
    uint64_t epoch = 0;
    turn();
    sim_segments_away(sim, 2, true);
    struct gate_command command = stand_in_line(2, 7);
    cluster_pass_ms(&world, 2LL * LINE_MS);
    world.ledger.fail_next = ERR_IO;
    turn();
    assert_null(cluster_row(&world, command.id));
    assert_true(is_promised(command.id, &epoch));
    for (int i = 0; i < 5; i++) {
        pass_and_turn(1500);
    }
    assert_int_equal(cluster_row(&world, command.id)->state, ORDER_FAILED);
}

static void a_promise_of_a_sale_that_is_not_known_here_waits(void **state)
{
    (void)state;
    uint64_t epoch = 0;
    turn();
    struct gate_command command = stand_in_line(1, 7);
    struct gate_command made_up = stand_in_line(SEGMENTS, 8); /* of a gate that was larger */
    catalog_remove(process->catalog, CLUSTER_SALE);
    pass_and_turn(2000);
    assert_true(is_promised(command.id, &epoch));
    assert_null(cluster_row(&world, command.id));
    ledger_writer_refresh(process->ledger_writer);
    cluster_settle(process);
    pass_and_turn(2000);
    assert_non_null(cluster_order(&world, 1, command.id));
    assert_true(is_promised(made_up.id, &epoch));
}

/* ---- a restart ---- */

static void after_a_restart_winners_are_winners(void **state)
{
    (void)state;
    uint64_t epoch = 0;
    turn();
    struct decision winner = promise(1, 7);
    struct gate_command in_line = stand_in_line(1, 8);
    cluster_pass_ms(&world, 2LL * LINE_MS); /* the queue, or the ledger, was away for so long */
    restart();
    assert_int_equal(numbers().entries, 2);
    turn();
    assert_true(is_promised(winner.command.id, &epoch));
    assert_int_equal(epoch, 1);
    assert_null(cluster_row(&world, winner.command.id)); /* he did not stand in line */
    assert_int_equal(cluster_row(&world, in_line.id)->state, ORDER_FAILED);
    book(&winner);
    assert_int_equal(cluster_row(&world, winner.command.id)->state, ORDER_LOCKED);
}

static void what_was_decided_before_a_restart_is_decided_once(void **state)
{
    (void)state;
    uint64_t epoch = 0;
    turn();
    struct gate_command in_line = stand_in_line(1, 8);
    pass_and_turn(2000);
    assert_non_null(cluster_order(&world, 1, in_line.id));
    uint64_t outbox = sim_segments_outbox(sim, 1);
    restart();
    turn();
    assert_true(is_promised(in_line.id, &epoch));
    assert_int_equal(epoch, 1);
    assert_int_equal(sim_segments_outbox(sim, 1), outbox);
    assert_int_equal(cluster_item(&world, 1, CLUSTER_FREE)->locked, 1);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        TEST(those_in_line_are_decided_when_the_gate_is_back),
        TEST(who_stood_in_line_too_long_fails),
        TEST(after_the_end_those_in_line_fail),
        TEST(a_sale_that_is_closed_early_is_over_for_them_too),
        TEST(while_the_ledger_is_away_nobody_is_given_up),
        TEST(a_promise_of_a_sale_that_is_not_known_here_waits),
        TEST(after_a_restart_winners_are_winners),
        TEST(what_was_decided_before_a_restart_is_decided_once),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
