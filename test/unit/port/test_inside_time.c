/* Inside time: starts at the wall clock or above it, runs with the machine, follows gently. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "fake_clock.h"
#include "port/inside_time.h"

#define START_MS 1700000000000LL

static struct fake_clock clock;
static struct inside_time inside;

static int set_up(void **state)
{
    (void)state;
    fake_clock_init(&clock, START_MS);
    inside_time_init(&inside, &clock.port, 0);
    return 0;
}

static void it_starts_at_the_wall_clock_and_runs_with_the_machine(void **state)
{
    (void)state;
    assert_int_equal(inside_time_us(&inside), START_MS * 1000);
    assert_int_equal(inside_time_ms(&inside), START_MS);
    fake_clock_pass_us(&clock, 1500);
    assert_int_equal(inside_time_us(&inside), START_MS * 1000 + 1500);
    assert_int_equal(inside_time_ms(&inside), START_MS + 1);
}

static void it_never_starts_below_what_was_journalled(void **state)
{
    (void)state;
    inside_time_init(&inside, &clock.port, START_MS + 5000);
    assert_int_equal(inside_time_ms(&inside), START_MS + 5000);
    fake_clock_pass_ms(&clock, 10);
    assert_int_equal(inside_time_ms(&inside), START_MS + 5010);
    inside_time_init(&inside, &clock.port, START_MS - 5000);
    assert_int_equal(inside_time_ms(&inside), START_MS + 10);
}

static void it_can_be_raised_and_never_lowered(void **state)
{
    (void)state;
    inside_time_raise(&inside, START_MS - 1000);
    assert_int_equal(inside_time_us(&inside), START_MS * 1000);
    inside_time_raise(&inside, START_MS);
    assert_int_equal(inside_time_us(&inside), START_MS * 1000);
    inside_time_raise(&inside, START_MS + 7000);
    assert_int_equal(inside_time_us(&inside), (START_MS + 7000) * 1000);
    fake_clock_pass_ms(&clock, 5);
    assert_int_equal(inside_time_ms(&inside), START_MS + 7005);
}

/* Whatever somebody does to the wall clock changes nothing at once. */
static void a_set_wall_clock_moves_nothing(void **state)
{
    (void)state;
    static const int64_t walls_ms[] = {0, START_MS - 100, START_MS + 1, START_MS + 86400000};
    for (size_t i = 0; i < sizeof(walls_ms) / sizeof(walls_ms[0]); i++) {
        fake_clock_set_wall_us(&clock, walls_ms[i] * 1000);
        assert_int_equal(inside_time_us(&inside), START_MS * 1000);
    }
}

/* Ahead or behind, the difference shrinks by at most a step each time, and stops at none. */
static void a_small_difference_is_slewed_away(void **state)
{
    (void)state;
    static const int64_t offs_us[] = {SLEW_JUMP_US, -SLEW_JUMP_US, 7000, -7000, 1000, -1000};
    for (size_t i = 0; i < sizeof(offs_us) / sizeof(offs_us[0]); i++) {
        (void)set_up(state);
        fake_clock_set_wall_us(&clock, START_MS * 1000 + offs_us[i]);
        int64_t left_us = offs_us[i];
        while (left_us != 0) {
            int64_t ahead_us = 4711;
            int64_t before_us = inside_time_us(&inside);
            assert_false(inside_time_slew(&inside, &ahead_us));
            assert_int_equal(ahead_us, 4711); /* only told with a jump */
            int64_t moved_us = inside_time_us(&inside) - before_us;
            int64_t want_us = left_us > SLEW_STEP_US    ? SLEW_STEP_US
                              : left_us < -SLEW_STEP_US ? -SLEW_STEP_US
                                                        : left_us;
            assert_int_equal(moved_us, want_us);
            left_us -= moved_us;
        }
        int64_t ahead_us;
        assert_false(inside_time_slew(&inside, &ahead_us));
        assert_int_equal(inside_time_us(&inside), START_MS * 1000 + offs_us[i]);
    }
}

static void a_jump_is_told_once_and_not_followed(void **state)
{
    (void)state;
    static const int64_t jumps_us[] = {SLEW_JUMP_US + 1000, -SLEW_JUMP_US - 1000, 3600000000LL};
    for (size_t i = 0; i < sizeof(jumps_us) / sizeof(jumps_us[0]); i++) {
        (void)set_up(state);
        int64_t ahead_us = 0;
        fake_clock_set_wall_us(&clock, START_MS * 1000 + jumps_us[i]);
        assert_true(inside_time_slew(&inside, &ahead_us));
        assert_int_equal(ahead_us, jumps_us[i]);
        for (int n = 0; n < 10; n++) {
            fake_clock_pass_ms(&clock, 1000);
            assert_false(inside_time_slew(&inside, &ahead_us));
        }
        assert_int_equal(inside_time_ms(&inside), START_MS + 10000);
        /* The clock is put right again; the next jump is reported again. */
        fake_clock_set_wall_us(&clock, (START_MS + 10000) * 1000);
        assert_false(inside_time_slew(&inside, &ahead_us));
        fake_clock_set_wall_us(&clock, (START_MS + 10000) * 1000 - jumps_us[i]);
        assert_true(inside_time_slew(&inside, &ahead_us));
        assert_int_equal(ahead_us, -jumps_us[i]);
    }
}

int main(void)
{
#define TEST(name) cmocka_unit_test_setup(name, set_up)
    const struct CMUnitTest tests[] = {
        TEST(it_starts_at_the_wall_clock_and_runs_with_the_machine),
        TEST(it_never_starts_below_what_was_journalled),
        TEST(it_can_be_raised_and_never_lowered),
        TEST(a_set_wall_clock_moves_nothing),
        TEST(a_small_difference_is_slewed_away),
        TEST(a_jump_is_told_once_and_not_followed),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
