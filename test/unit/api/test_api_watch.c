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

/* ---- the end of a token ---- */

/* The streams that are open after this time has passed, in steps in which heartbeats are sent. */
static uint32_t open_streams_after(int64_t ms)
{
    for (int64_t step = 5000; ms > 0; ms -= step) {
        step = ms < step ? ms : step;
        fake_clock_pass_ms(&world.ledger_writer.clock, step);
        api_world_flush(&world);
    }
    return world.worker->watch.count;
}

/* A token is valid for 1000 s (api_world.c). */
static void a_stream_ends_with_its_token(void **state)
{
    (void)state;
    struct order_id id = queued_order(1);
    uint32_t stream = watch(id, 1, "/events");
    assert_int_equal(open_streams_after(990000), 1);
    uint32_t later = watch(id, 1, "/events"); /* with a token of its own */
    assert_int_equal(open_streams_after(9000), 2);
    expect_text(api_world_heard(&world, stream), ":\n\n");
    assert_int_equal(open_streams_after(1000 + 2 * WHEEL_STEP_MS), 1);
    assert_true(memory_net_closed(world.net, stream));
    assert_false(memory_net_closed(world.net, later));
}

/* Settings as a reload publishes them. */
static struct api_settings *reload(void)
{
    static struct api_settings both[2];
    static int next;
    struct api_settings *settings = &both[next++ % 2];
    *settings = *world.worker->settings;
    settings->number++;
    atomic_store(&world.shared.settings, settings);
    return settings;
}

static void a_stream_ends_when_the_key_of_its_token_is_removed(void **state)
{
    (void)state;
    struct order_id id = queued_order(1);
    uint32_t stream = watch(id, 1, "/events");
    uint32_t poll = watch(id, 1, "?wait_ms=20000");
    struct token_keys *keys = &reload()->token_keys;
    api_world_flush(&world);
    assert_int_equal(world.worker->watch.count, 2); /* nothing has changed */
    /* Another key before it, and one behind it. */
    keys = &reload()->token_keys;
    keys->count = 3;
    keys->keys[1] = keys->keys[0];
    keys->keys[0].key[0] ^= 1;
    keys->keys[2] = keys->keys[0];
    strcpy(keys->keys[2].kid, "third");
    api_world_flush(&world);
    assert_int_equal(world.worker->watch.count, 2);
    /* Its key at another place again. */
    keys = &reload()->token_keys;
    keys->count = 1;
    keys->keys[0] = keys->keys[1];
    api_world_flush(&world);
    assert_int_equal(world.worker->watch.count, 2);
    keys = &reload()->token_keys;
    keys->keys[0].key[31] ^= 1;
    api_world_flush(&world);
    assert_int_equal(world.worker->watch.count, 1); /* a poll is answered soon anyway */
    assert_true(memory_net_closed(world.net, stream));
    assert_false(memory_net_closed(world.net, poll));
}

/* The gate answers when another key may have the index of the token's. */
static void a_stream_does_not_begin_with_a_token_of_older_settings(void **state)
{
    (void)state;
    be_late(true);
    struct order_id id = queued_order(1);
    uint32_t stream = watch(id, 1, "/events");
    reload()->token_keys.keys[0].key[0] ^= 1;
    api_world_answer(&world);
    const char *heard = api_world_heard(&world, stream);
    expect_status(heard, 503);
    expect_text(heard, "\"retry\":\"later\"");
    assert_int_equal(world.worker->watch.count, 0);
}

static void the_dashboard_ends_when_the_admin_token_is_replaced(void **state)
{
    (void)state;
    struct order_id id = queued_order(1);
    uint32_t order = watch(id, 1, "/events");
    uint32_t live = api_world_connect(&world);
    api_world_send(&world, live, "GET", "/v1/admin/live", 0, NULL);
    api_world_flush(&world);
    expect_text(api_world_heard(&world, live), "event: live\n");
    reload()->ticket_ttl_ms = 7;
    api_world_flush(&world);
    assert_int_equal(world.worker->watch.count, 2);
    reload()->admin_token[0] ^= 1;
    api_world_flush(&world);
    assert_int_equal(world.worker->watch.count, 1);
    assert_true(memory_net_closed(world.net, live));
    assert_false(memory_net_closed(world.net, order));
}

static void the_first_event_says_when_to_come_back(void **state)
{
    (void)state;
    uint32_t retries[4];
    uint32_t different = 0;
    struct order_id id = queued_order(1);
    for (int i = 0; i < 4; i++) {
        uint32_t stream = watch(id, 1, "/events");
        const char *retry = strstr(api_world_heard(&world, stream), "retry: ");
        assert_non_null(retry);
        retries[i] = (uint32_t)atoi(retry + 7);
        assert_in_range(retries[i], 1000, 2999);
        different += retries[i] != retries[0];
        memory_net_reset(world.net, stream);
    }
    assert_true(different > 0);
    uint32_t stream = watch(id, 1, "/events");
    (void)api_world_heard(&world, stream);
    api_world_settle(&world); /* LOCKED */
    const char *heard = api_world_heard(&world, stream);
    expect_text(heard, "event: order\n");
    expect_no_text(heard, "retry: ");
}

static void who_has_seen_the_end_is_told_to_stay_away(void **state)
{
    (void)state;
    struct order_id id = queued_order(1);
    api_world_settle(&world);
    struct ledger_writer_op *pay = ledger_writer_op_order(&world.ledger_writer, LEDGER_PAY, id);
    pay->loop = 1;
    ledger_writer_world_do(&world.ledger_writer, pay);
    ledger_writer_op_free(pay);
    api_world_flush(&world);
    world.headers = "Last-Event-ID: 3\r\n";
    const char *heard = api_world_heard(&world, watch(id, 1, "/events"));
    expect_status(heard, 204);
    world.headers = "Last-Event-ID: 2\r\n";
    heard = api_world_heard(&world, watch(id, 1, "/events"));
    world.headers = NULL;
    expect_status(heard, 200);
    expect_text(heard, "\"status\":\"PAID\"");
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
        TEST(a_stream_ends_with_its_token),
        TEST(a_stream_ends_when_the_key_of_its_token_is_removed),
        TEST(a_stream_does_not_begin_with_a_token_of_older_settings),
        TEST(the_dashboard_ends_when_the_admin_token_is_replaced),
        TEST(the_first_event_says_when_to_come_back),
        TEST(who_has_seen_the_end_is_told_to_stay_away),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
