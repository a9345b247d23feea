/* Streams of an item: at once for who comes, once a second for everyone, and nothing is lost for
 * who reads slowly. */
#include "late_gate_fixture.h"

static uint32_t watch_item_events(void)
{
    char path[64];
    uint32_t connection = api_world_connect(&world);
    (void)snprintf(path, sizeof(path), "/v1/items/%u/events", LEDGER_WRITER_FREE);
    api_world_send(&world, connection, "GET", path, 1, NULL);
    api_world_flush(&world);
    return connection;
}

static void pass_ms(int64_t ms)
{
    fake_clock_pass_ms(&world.ledger_writer.clock, ms);
    api_world_flush(&world);
}

/* How many events of the item came, and that the last of them shows this many units. */
static void expect_shown(uint32_t stream, size_t count, int available)
{
    char text[32];
    const char *heard = api_world_heard(&world, stream);
    assert_int_equal(count_of(heard, "event: item\n"), count);
    (void)snprintf(text, sizeof(text), "\"available\":%d,", available);
    assert_true(count == 0 || strstr(heard, text) != NULL);
}

static void a_newcomer_is_served_alone(void **state)
{
    (void)state;
    uint32_t first = watch_item_events();
    expect_shown(first, 1, LEDGER_WRITER_UNITS);
    pass_ms(400);
    (void)queued_order(1);
    uint32_t second = watch_item_events();
    expect_shown(second, 1, LEDGER_WRITER_UNITS - 1);
    expect_shown(first, 0, 0); /* it got an event 400 ms ago */
    pass_ms(300);
    (void)queued_order(2);
    pass_ms(290);
    expect_shown(first, 0, 0);
    pass_ms(10);
    expect_shown(first, 1, LEDGER_WRITER_UNITS - 2);
    expect_shown(second, 0, 0); /* it got an event 600 ms ago: with the next round */
    pass_ms(1000);
    expect_shown(first, 0, 0);
    expect_shown(second, 1, LEDGER_WRITER_UNITS - 2);
}

static void nobody_is_told_twice_in_a_second(void **state)
{
    (void)state;
    enum { STREAMS = 4, STEPS = 400, STEP_MS = 50 };
    uint32_t streams[STREAMS];
    int64_t told_ms[STREAMS] = {0};
    int told = 0;
    struct ledger_writer_op *restock =
        ledger_writer_op_new(&world.ledger_writer, LEDGER_RESTOCK, 0);
    restock->op.item = LEDGER_WRITER_FREE;
    restock->op.amount = STEPS;
    ledger_writer_world_do(&world.ledger_writer, restock);
    ledger_writer_op_free(restock);
    for (int step = 0; step < STEPS; step++) {
        (void)ledger_writer_world_bought(&world.ledger_writer, 1 + (uint64_t)step);
        if (step < STREAMS * 10 && step % 10 == 0) {
            int i = step / 10;
            streams[i] = watch_item_events();
            told_ms[i] = world.worker->now_ms;
            assert_int_equal(count_of(api_world_heard(&world, streams[i]), "event: item\n"), 1);
        }
        pass_ms(STEP_MS);
        for (int i = 0; i < STREAMS && i * 10 <= step; i++) {
            size_t count = count_of(api_world_heard(&world, streams[i]), "event: item\n");
            if (count > 0) {
                assert_int_equal(count, 1);
                assert_true(world.worker->now_ms - told_ms[i] >= 1000);
                told_ms[i] = world.worker->now_ms;
                told++;
            }
        }
    }
    assert_true(told >= STREAMS * 17); /* 20 s */
}

static void a_slow_reader_is_told_of_the_sell_out_later(void **state)
{
    (void)state;
    uint32_t stream = watch_item_events();
    expect_shown(stream, 1, LEDGER_WRITER_UNITS);
    struct gate_request all =
        ledger_writer_world_buy(&world.ledger_writer, 1, LEDGER_WRITER_FREE, LEDGER_WRITER_UNITS);
    assert_int_equal(all.refusal, REFUSAL_NONE);
    api_world_flush(&world);
    memory_net_window(world.net, stream, 20); /* the beginning of the first event, no more */
    pass_ms(1000);
    assert_int_equal(strlen(api_world_heard(&world, stream)), 20);
    memory_net_window(world.net, stream, SIZE_MAX);
    api_world_flush(&world);
    expect_no_text(api_world_heard(&world, stream), "item.sold_out");
    pass_ms(1000);
    const char *heard = api_world_heard(&world, stream);
    assert_int_equal(count_of(heard, "event: item.sold_out\n"), 1);
    assert_int_equal(count_of(heard, "event: item\n"), 0);
    pass_ms(1000);
    assert_string_equal(api_world_heard(&world, stream), "");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        TEST(a_newcomer_is_served_alone),
        TEST(nobody_is_told_twice_in_a_second),
        TEST(a_slow_reader_is_told_of_the_sell_out_later),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
