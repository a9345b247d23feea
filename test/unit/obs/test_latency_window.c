/* The window of latencies: what is in it, how long it is, and that what is old is not. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include "obs/latency_window.h"

#define NOON 1800000000000

static struct metrics metrics;
static struct latency_window *latencies;

static int setup(void **state)
{
    (void)state;
    latencies = latency_window_new();
    return latencies == NULL ? 1 : metrics_init(&metrics, 2);
}

static int teardown(void **state)
{
    (void)state;
    latency_window_free(latencies);
    metrics_done(&metrics);
    return 0;
}

static void measure(unsigned slot, unsigned times, uint64_t us)
{
    for (unsigned i = 0; i < times; i++) {
        metrics_observe_us(metrics_slot(&metrics, slot), HIST_BUY_ANSWER, us);
    }
}

static struct latency_window_view look(int64_t after_ms)
{
    struct latency_window_view view;
    latency_window_look(latencies, &metrics, NOON + after_ms, &view);
    return view;
}

static void the_first_look_has_nothing_to_compare_with(void **state)
{
    (void)state;
    measure(0, 100, 50);
    struct latency_window_view view = look(0);
    assert_int_equal(view.window_ms, 0);
    assert_int_equal(view.hists[HIST_BUY_ANSWER].count, 0);
    assert_int_equal(view.hists[HIST_BUY_ANSWER].p99_us, 0);
}

/* A million quick ones in the past hide nothing of what is slow now. */
static void what_is_slow_now_is_seen(void **state)
{
    (void)state;
    measure(0, 1000000, 40);
    (void)look(0);
    measure(0, 5, 300000);
    measure(1, 5, 300000);
    struct latency_window_view view = look(1000);
    const struct latency_window_figures *answer = &view.hists[HIST_BUY_ANSWER];
    assert_int_equal(view.window_ms, 1000);
    assert_int_equal(answer->count, 10);
    assert_in_range(answer->p50_us, 300000, 300000 + 300000 / 32);
    assert_in_range(answer->p999_us, 300000, 300000 + 300000 / 32);
    assert_int_equal(view.hists[HIST_JOURNAL_SYNC].count, 0);
}

/* One measurement a second: a full window has those of ten seconds, and stays as long. */
static void the_window_is_full_after_ten_seconds(void **state)
{
    (void)state;
    (void)look(0);
    for (int64_t second = 1; second <= 60; second++) {
        measure(0, 1, 100);
        struct latency_window_view view = look(second * 1010); /* feeds come a little late */
        int64_t wanted = second < 10 ? second : 10;
        assert_int_equal(view.window_ms, wanted * 1010);
        assert_int_equal(view.hists[HIST_BUY_ANSWER].count, wanted);
    }
}

static void several_lookers_a_second_change_nothing(void **state)
{
    (void)state;
    for (int64_t at_ms = 0; at_ms <= 30000; at_ms += 125) {
        struct latency_window_view view = look(at_ms);
        if (at_ms >= LATENCY_WINDOW_WINDOW_MS) {
            assert_in_range(view.window_ms, LATENCY_WINDOW_WINDOW_MS - LATENCY_WINDOW_STEP_MS / 2,
                            LATENCY_WINDOW_WINDOW_MS + LATENCY_WINDOW_STEP_MS / 2 - 1);
        }
    }
    assert_in_range(look(29000).window_ms, 9500, 10499); /* whose clock was read earlier */
}

static void after_a_pause_it_begins_anew(void **state)
{
    (void)state;
    (void)look(0);
    measure(0, 7, 100);
    assert_int_equal(look(5000).hists[HIST_BUY_ANSWER].count, 7);
    measure(0, 1000, 900000);
    struct latency_window_view view = look(3600000); /* nobody watched for an hour */
    assert_int_equal(view.window_ms, 0);
    assert_int_equal(view.hists[HIST_BUY_ANSWER].count, 0);
    measure(0, 2, 100);
    view = look(3601000);
    assert_int_equal(view.window_ms, 1000);
    assert_int_equal(view.hists[HIST_BUY_ANSWER].count, 2);
    assert_in_range(view.hists[HIST_BUY_ANSWER].p999_us, 100, 103);
}

#define TEST(name) cmocka_unit_test_setup_teardown(name, setup, teardown)

int main(void)
{
    const struct CMUnitTest tests[] = {
        TEST(the_first_look_has_nothing_to_compare_with),
        TEST(what_is_slow_now_is_seen),
        TEST(the_window_is_full_after_ten_seconds),
        TEST(several_lookers_a_second_change_nothing),
        TEST(after_a_pause_it_begins_anew),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
