/* Long polls and streams with a gate that answers late: nothing older follows something newer. */
#include "late_gate_fixture.h"

static void a_late_look_is_not_shown_after_something_newer(void **state)
{
    (void)state;
    be_late(true);
    struct order_id id = queued_order(1);
    uint32_t stream = watch(id, 1, "/events");
    assert_string_equal(api_world_heard(&world, stream), "");
    api_world_pass(&world); /* begun; the second look is under way and has seen QUEUED */
    const char *heard = api_world_heard(&world, stream);
    expect_status(heard, 200);
    expect_text(heard, "id: 1\n");
    expect_text(heard, "\"status\":\"QUEUED\"");
    assert_int_equal(world.gate.under_way, 1);
    api_world_settle(&world); /* booked: a notice */
    heard = api_world_heard(&world, stream);
    expect_text(heard, "id: 2\n");
    expect_text(heard, "\"status\":\"LOCKED\"");
    assert_int_equal(world.gate.under_way, 1);
    api_world_answer(&world);
    assert_string_equal(api_world_heard(&world, stream), "");
    /* Notices go on without another look. */
    uint64_t asked = world.gate.made_late;
    struct ledger_writer_op *pay = ledger_writer_op_order(&world.ledger_writer, LEDGER_PAY, id);
    pay->loop = 1;
    ledger_writer_world_do(&world.ledger_writer, pay);
    assert_int_equal(pay->op.refusal, REFUSAL_NONE);
    ledger_writer_op_free(pay);
    api_world_flush(&world);
    heard = api_world_heard(&world, stream);
    expect_text(heard, "id: 3\n");
    expect_text(heard, "\"status\":\"PAID\"");
    assert_int_equal(world.gate.made_late, asked);
}

/* Another front has already sent it as LOCKED; this one still sees it as QUEUED. */
static void a_stream_goes_on_after_the_version_that_its_buyer_has(void **state)
{
    (void)state;
    be_prompt();
    struct order_id id = queued_order(1);
    world.headers = "Last-Event-ID: 2\r\n";
    uint32_t stream = watch(id, 1, "/events");
    world.headers = NULL;
    const char *heard = api_world_heard(&world, stream);
    expect_status(heard, 200);
    assert_null(strstr(heard, "QUEUED"));
    api_world_settle(&world);
    assert_null(strstr(api_world_heard(&world, stream), "event:")); /* LOCKED: sent before */
    struct ledger_writer_op *pay = ledger_writer_op_order(&world.ledger_writer, LEDGER_PAY, id);
    pay->loop = 1;
    ledger_writer_world_do(&world.ledger_writer, pay);
    ledger_writer_op_free(pay);
    api_world_flush(&world);
    expect_text(api_world_heard(&world, stream), "\"status\":\"PAID\"");
}

static void a_late_look_does_not_answer_a_poll_with_something_older(void **state)
{
    (void)state;
    be_late(true);
    struct order_id id = queued_order(1);
    uint32_t poll = watch(id, 1, "?wait_ms=20000&status=LOCKED");
    api_world_pass(&world); /* held; the second look has seen QUEUED */
    assert_int_equal(world.gate.under_way, 1);
    api_world_settle(&world); /* LOCKED: held on, but seen */
    assert_string_equal(api_world_heard(&world, poll), "");
    fake_clock_pass_ms(&world.ledger_writer.clock, 20000 + WHEEL_STEP_MS);
    api_world_flush(&world); /* its end: the look that is under way will do */
    api_world_answer(&world);
    const char *heard = api_world_heard(&world, poll);
    expect_status(heard, 200);
    expect_text(heard, "\"status\":\"LOCKED\"");
}

static void what_happens_before_it_is_watched_is_not_missed(void **state)
{
    (void)state;
    static const char *const ways[] = {"/events", "?wait_ms=20000"};
    for (uint64_t i = 0; i < 2; i++) {
        be_late(true);
        struct order_id id = queued_order(1 + i);
        uint32_t watcher = watch(id, 1 + i, ways[i]); /* being looked up: it was QUEUED */
        (void)ledger_writer_world_settle(
            &world.ledger_writer); /* LOCKED, before this loop watches it */
        api_world_flush(&world);
        assert_string_equal(api_world_heard(&world, watcher), "");
        api_world_answer(&world);
        const char *heard = api_world_heard(&world, watcher);
        expect_status(heard, 200);
        expect_text(heard, "\"status\":\"LOCKED\"");
        memory_net_reset(world.net, watcher);
        api_world_answer(&world);
    }
}

static void a_watcher_that_has_gone_is_not_mistaken_for_the_next(void **state)
{
    (void)state;
    be_late(true);
    struct order_id first = queued_order(1);
    struct order_id second = queued_order(2);
    uint32_t gone = watch(first, 1, "?wait_ms=20000");
    api_world_pass(&world); /* held; its second look is under way */
    assert_int_equal(world.gate.under_way, 1);
    memory_net_reset(world.net, gone);
    api_world_flush(&world);
    uint32_t next = watch(second, 2, "?wait_ms=20000");
    assert_int_equal(next, gone);
    api_world_pass(&world); /* the older look comes back, the next one is held */
    api_world_pass(&world);
    assert_int_equal(world.worker->watch.count, 1);
    assert_string_equal(api_world_heard(&world, next), "");
    api_world_settle(&world);
    const char *heard = api_world_heard(&world, next);
    expect_status(heard, 200);
    char order[64];
    char expected[ORDER_ID_TEXT + 1] = "";
    order_id_text(second, expected);
    assert_true(api_world_member(heard, "order_id", order, sizeof(order)));
    assert_string_equal(order, expected);
    api_world_answer(&world);
}

static void a_poll_whose_client_says_no_more_is_answered_when_the_gate_is(void **state)
{
    (void)state;
    be_late(true);
    struct order_id id = queued_order(1);
    uint32_t poll = watch(id, 1, "?wait_ms=20000");
    memory_net_fin(world.net, poll); /* while the gate is asked for the first time */
    api_world_flush(&world);
    api_world_pass(&world);
    const char *heard = api_world_heard(&world, poll);
    expect_status(heard, 200);
    expect_text(heard, "\"status\":\"QUEUED\"");
    /* And while it is held. */
    poll = watch(id, 1, "?wait_ms=20000");
    api_world_pass(&world);
    memory_net_fin(world.net, poll);
    api_world_flush(&world);
    api_world_pass(&world);
    api_world_pass(&world);
    expect_status(api_world_heard(&world, poll), 200);
}

/* So many orders change at once that the last one's notice is not kept. */
static void a_watcher_whose_notice_was_dropped_looks_its_order_up(void **state)
{
    (void)state;
    enum { MANY = 4096 };
    struct ledger_writer_op *restock =
        ledger_writer_op_new(&world.ledger_writer, LEDGER_RESTOCK, 0);
    restock->op.item = LEDGER_WRITER_FREE;
    restock->op.amount = MANY;
    ledger_writer_world_do(&world.ledger_writer, restock);
    ledger_writer_op_free(restock);
    for (uint64_t i = 0; i < MANY; i++) {
        struct gate_request look = {.kind = GATE_REQUEST_ORDER,
                                    .id =
                                        ledger_writer_world_bought(&world.ledger_writer, 1000 + i),
                                    .watch = true};
        assert_int_equal(gate_submit(embedded_gate_port(world.ledger_writer.engine), &look),
                         GATE_ANSWERED);
        if (i % 500 == 0) {
            ledger_writer_world_flush(&world.ledger_writer);
        }
    }
    be_late(true);
    struct order_id id = queued_order(1);
    uint32_t poll = watch(id, 1, "?wait_ms=20000");
    api_world_pass(&world);
    assert_int_equal(world.gate.under_way, 1); /* a look that has seen QUEUED */
    api_world_settle(&world);
    assert_int_equal(ledger_writer_world_order(&world.ledger_writer, id).state, ORDER_LOCKED);
    assert_string_equal(api_world_heard(&world, poll), "");
    api_world_answer(&world); /* that look was too early: another one sees it */
    const char *heard = api_world_heard(&world, poll);
    expect_status(heard, 200);
    expect_text(heard, "\"status\":\"LOCKED\"");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        TEST(a_late_look_is_not_shown_after_something_newer),
        TEST(a_stream_goes_on_after_the_version_that_its_buyer_has),
        TEST(a_late_look_does_not_answer_a_poll_with_something_older),
        TEST(what_happens_before_it_is_watched_is_not_missed),
        TEST(a_watcher_that_has_gone_is_not_mistaken_for_the_next),
        TEST(a_poll_whose_client_says_no_more_is_answered_when_the_gate_is),
        TEST(a_watcher_whose_notice_was_dropped_looks_its_order_up),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
