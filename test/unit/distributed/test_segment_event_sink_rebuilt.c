/* Ledger writers that bring events to segments that were rebuilt, or that others left behind. */
#include "segment_event_sink_fixture.h"

/* ---- a segment that was rebuilt ---- */

/* Rebuilt from a picture that shows more than the event it begins with. */
static void what_a_rebuilt_segment_shows_already_does_not_stop_it(void **state)
{
    (void)state;
    open_sale(0, 10);
    struct gate_command buy = cluster_buy(&world, 0, 9);
    sim_segments_empty(world.sim, 0);
    sim_segments_away(world.sim, 0, false);
    commit_and_apply(0, event_of_order(EVENT_ORDER_LOCKED, &buy));
    commit_and_apply(0, event_of_order(EVENT_ORDER_PAID, &buy));
    assert_int_not_equal(atomic_load(&ledger_writers[0].segment_table.doubts) & 1, 0);
    const struct segment_step steps[] = {{.kind = STEP_BEGIN, .sizes = cluster_sizes, .event = 0},
                                         {.kind = STEP_SALE,
                                          .sale = CLUSTER_SALE,
                                          .starts_at_ms = CLUSTER_NOW,
                                          .ends_at_ms = CLUSTER_NOW + CLUSTER_ENDS_MS,
                                          .state = SALE_OPEN},
                                         {.kind = STEP_BUYER, .item = ITEM, .user = 9, .held = 1},
                                         {.kind = STEP_ORDER,
                                          .item = ITEM,
                                          .order = {.id = buy.id,
                                                    .user = 9,
                                                    .item = ITEM,
                                                    .qty = 1,
                                                    .state = ORDER_PAID,
                                                    .version = 3,
                                                    .created_at_ms = buy.now_ms}},
                                         {.kind = STEP_ITEM,
                                          .sale = CLUSTER_SALE,
                                          .item = ITEM,
                                          .total = 10,
                                          .available = 9,
                                          .sold = 1,
                                          .buyers = 1},
                                         {.kind = STEP_OPEN}};
    assert_int_equal(segments_rebuild(world.hands, 0, 2, 1, steps, 6), SEGMENT_DONE);
    cluster_segment_table(&world, &ledger_writers[0].segment_table);
    fake_clock_pass_ms(&world.clock, 5000);
    (void)settle(0);
    assert_caught_up();
    assert_int_equal(total(0), 10); /* loaded once */
    assert_int_equal(state_of(&buy), ORDER_PAID);
    commit_and_apply(0, event_restock(0, 1));
    commit_and_apply(0,
                     event_of_sale(EVENT_SALE_FORGOTTEN)); /* refused: it is not closed. Skipped */
    assert_caught_up();
}

/* A sale that the picture no longer had. */
static void a_sale_that_is_forgotten_already_does_not_stop_it(void **state)
{
    (void)state;
    open_sale(0, 10);
    commit_and_apply(0, event_of_sale(EVENT_SALE_CLOSED));
    const struct segment_step steps[] = {
        {.kind = STEP_BEGIN, .sizes = cluster_sizes, .event = ledger.count}, {.kind = STEP_OPEN}};
    assert_int_equal(segments_rebuild(world.hands, 0, 2, 1, steps, 2), SEGMENT_DONE);
    cluster_segment_table(&world, &ledger_writers[0].segment_table);
    commit_and_apply(0, event_of_sale(EVENT_SALE_FORGOTTEN));
    commit_and_apply(0, (struct ledger_event){.kind = EVENT_SALE_WARMED,
                                              .segment = SEGMENT_ALL,
                                              .sale = 2,
                                              .a = CLUSTER_NOW,
                                              .b = CLUSTER_NOW + 1});
    (void)settle(0);
    assert_caught_up();
}

static void a_stale_segment_is_left_to_recovery(void **state)
{
    (void)state;
    open_sale(0, 10);
    assert_int_equal(atomic_load(&ledger_writers[0].segment_table.doubts), 0);
    (void)sim_segments_failover(world.sim, 2, 0);
    commit_and_apply(0, event_restock(2, 1));
    commit_and_apply(0, event_restock(1, 1));
    assert_true(is_caught_up(1));
    assert_int_equal(total(2), 10);
    assert_int_equal(atomic_load(&ledger_writers[0].segment_table.doubts), 1U << 2);
    assert_false(cluster_look(&world, 2).broken);
    /* Nobody knows its epoch. */
    atomic_store(&ledger_writers[0].segment_table.segments[2].epoch, 0);
    fake_clock_pass_ms(&world.clock, 5000);
    (void)turn(0);
    assert_int_equal(total(2), 10);
    /* Made anew from the ledger as it is now; then it goes on from there. */
    cluster_fill(&world, 2, 2, ledger.count);
    cluster_segment_table(&world, &ledger_writers[0].segment_table);
    fake_clock_pass_ms(&world.clock, 5000);
    (void)settle(0);
    commit_and_apply(0, event_restock(2, 3));
    assert_true(is_caught_up(2));
    assert_int_equal(total(2), CLUSTER_UNITS + 3);
}

static void a_segment_that_contradicts_itself_is_reported(void **state)
{
    (void)state;
    open_sale(0, 10);
    struct gate_command buy = cluster_buy(&world, 1, 9);
    commit_and_apply(0, event_of_order(EVENT_ORDER_LOCKED, &buy));
    assert_true(sim_segments_break(world.sim, 1, ITEM));
    commit_and_apply(0, event_of_order(EVENT_ORDER_PAID, &buy));
    assert_true(cluster_look(&world, 1).broken);
    assert_false(cluster_look(&world, 0).broken);
    assert_int_equal(atomic_load(&ledger_writers[0].segment_table.doubts), 1U << 1);
    assert_false(is_caught_up(1));
    commit_and_apply(0, event_restock(0, 1));
    assert_true(is_caught_up(0));
    cluster_fill(&world, 1, 2, ledger.count);
    assert_false(cluster_look(&world, 1).broken);
}

/* It accepted what the ledger has no unit for. */
static void a_segment_that_contradicts_the_ledger_is_reported(void **state)
{
    (void)state;
    open_sale(0, 10);
    struct gate_command buy = cluster_buy(&world, 1, 9);
    struct ledger_event failed = event_of_order(EVENT_ORDER_FAILED, &buy);
    failed.reason = REFUSAL_LIMIT_REACHED;
    struct gate_command other = cluster_buy(&world, 2, 10);
    commit_and_apply(0, failed);
    assert_false(cluster_look(&world, 1).broken);
    failed = event_of_order(EVENT_ORDER_FAILED, &other);
    failed.reason = REFUSAL_NO_STOCK;
    commit_and_apply(0, failed);
    assert_true(cluster_look(&world, 2).broken);
    assert_true(is_caught_up(2));
}

/* ---- what others leave behind ---- */

static void what_a_dead_ledger_writer_left_behind_is_brought_by_another(void **state)
{
    (void)state;
    open_sale(0, 10);
    (void)settle(1);
    commit(event_restock(0, 1)); /* and then it died */
    commit(event_of_sale(EVENT_SALE_PAUSED));
    commit(event_restock(2, 1));
    uint32_t turns = 0;
    while (!is_caught_up(0) || !is_caught_up(1) || !is_caught_up(2)) {
        fake_clock_pass_ms(&world.clock, 100);
        (void)turn(1);
        assert_true(++turns <= 5);
    }
    assert_int_equal(total(0) + total(1) + total(2), 32);
    uint64_t reads = ledger.reads;
    for (int i = 0; i < 100; i++) { /* and it does not ask in every turn */
        fake_clock_pass_ms(&world.clock, 1);
        (void)turn(1);
    }
    assert_true(ledger.reads - reads <= 1);
}

static void a_new_ledger_writer_begins_where_the_segments_are(void **state)
{
    (void)state;
    open_sale(0, 10);
    commit_and_apply(0, event_restock(0, 1));
    ledger_writer_close(1);
    ledger_writer_open(1);
    uint64_t writes = sim_segments_writes(world.sim, 0);
    assert_false(turn(1));
    assert_int_equal(sim_segments_writes(world.sim, 0), writes);
    commit_and_apply(1, event_restock(0, 1));
    assert_caught_up();
    assert_int_equal(total(0), 12);
}

/* Asked in a hurry it looks at the ledger at once: somebody has written there beside the ledger writer. */
static void in_a_hurry_it_looks_at_once(void **state)
{
    (void)state;
    open_sale(0, 10);
    assert_false(turn(0));
    commit(event_restock(0, 1));
    assert_false(turn(0)); /* it has just looked */
    assert_int_equal(total(0), 10);
    assert_int_equal(
        ledger_writers[0].event_sink->ops->turn(ledger_writers[0].event_sink, now_ms(), true),
        INT64_MAX);
    assert_int_equal(total(0), 11);
}

static void while_the_ledger_cannot_be_read_it_waits(void **state)
{
    (void)state;
    open_sale(0, 10);
    (void)settle(1);
    commit(event_restock(0, 1));
    ledger.fail = ERR_IO;
    for (int i = 0; i < 20; i++) {
        fake_clock_pass_ms(&world.clock, 100);
        (void)turn(1);
    }
    assert_int_equal(total(0), 10);
    commit(event_restock(0, 1));
    apply(1, ledger.count - 1); /* it does not follow on what this ledger writer knows */
    assert_int_equal(total(0), 10);
    ledger.fail = 0;
    fake_clock_pass_ms(&world.clock, 2000);
    (void)settle(1);
    assert_caught_up();
    assert_int_equal(total(0), 12);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        TEST(what_a_rebuilt_segment_shows_already_does_not_stop_it),
        TEST(a_sale_that_is_forgotten_already_does_not_stop_it),
        TEST(a_stale_segment_is_left_to_recovery),
        TEST(a_segment_that_contradicts_itself_is_reported),
        TEST(a_segment_that_contradicts_the_ledger_is_reported),
        TEST(what_a_dead_ledger_writer_left_behind_is_brought_by_another),
        TEST(a_new_ledger_writer_begins_where_the_segments_are),
        TEST(in_a_hurry_it_looks_at_once),
        TEST(while_the_ledger_cannot_be_read_it_waits),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
