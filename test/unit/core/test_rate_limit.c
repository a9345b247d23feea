/*
 * The arithmetic of rate limits in virtual time: exact counts at the edges, beside a plain model that
 * keeps every request. Given a rule, when requests come at these times, then these pass.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "base/prng.h"
#include "core/rate_limit.h"

#define SECOND_US 1000000LL
/* Some time of day: cells must not depend on a start at 0. */
#define NOON_US (1800000000LL * SECOND_US)

static _Alignas(8) char cell[RATE_CELL_MAX];
static struct rate_outcome last;

static void begin(void)
{
    memset(cell, 0, sizeof(cell));
}

static bool passes(const struct rate_rule *rule, int64_t at_us)
{
    rate_take(rule, cell, NOON_US + at_us, &last);
    return last.passed;
}

static uint32_t pass_at_once(const struct rate_rule *rule, int64_t at_us, uint32_t requests)
{
    uint32_t passed = 0;
    for (uint32_t i = 0; i < requests; i++) {
        passed += passes(rule, at_us);
    }
    return passed;
}

static void a_full_token_bucket_lets_burst_through_and_gains_rate(void **state)
{
    (void)state;
    const struct rate_rule rule = {RATE_TOKEN_BUCKET, .rate = 10, .per_s = 60, .burst = 5};
    begin();
    assert_int_equal(pass_at_once(&rule, 0, 100), 5);
    assert_int_equal(last.retry_us, 6 * SECOND_US);
    assert_int_equal(last.reset_us, 30 * SECOND_US);
    assert_false(passes(&rule, 6 * SECOND_US - 1));
    assert_int_equal(last.retry_us, 1);
    assert_true(passes(&rule, 6 * SECOND_US));
    assert_int_equal(last.remaining, 0);
    assert_false(passes(&rule, 6 * SECOND_US));
    assert_int_equal(pass_at_once(&rule, 3600 * SECOND_US, 100), 5); /* full again, not fuller */
}

static void a_rate_that_does_not_divide_its_time_loses_nothing(void **state)
{
    (void)state;
    const struct rate_rule rule = {RATE_TOKEN_BUCKET, .rate = 3, .per_s = 7, .burst = 1};
    begin();
    uint32_t passed = 0;
    for (int64_t at_us = 0; at_us < 7000 * SECOND_US; at_us += 1000) {
        passed += passes(&rule, at_us);
    }
    assert_int_equal(passed, 3000);
}

static void a_leaky_bucket_holds_burst_and_refuses_the_rest(void **state)
{
    (void)state;
    const struct rate_rule rule = {RATE_LEAKY_BUCKET, .rate = 2, .per_s = 1, .burst = 3};
    begin();
    for (int i = 0; i < 4; i++) {
        assert_true(passes(&rule, 0));
        assert_int_equal(last.hold_us, i * SECOND_US / 2);
    }
    assert_false(passes(&rule, 0));
    assert_int_equal(last.retry_us, SECOND_US / 2);
    assert_false(passes(&rule, SECOND_US / 2 - 1));
    assert_true(passes(&rule, SECOND_US / 2));
    assert_int_equal(last.hold_us, 3 * SECOND_US / 2);
    assert_true(passes(&rule, 60 * SECOND_US));
    assert_int_equal(last.hold_us, 0);
}

static void a_leaky_bucket_without_burst_holds_nothing(void **state)
{
    (void)state;
    const struct rate_rule rule = {RATE_LEAKY_BUCKET, .rate = 1, .per_s = 1, .burst = 0};
    begin();
    assert_true(passes(&rule, 0));
    assert_false(passes(&rule, SECOND_US - 1));
    assert_true(passes(&rule, SECOND_US));
    assert_int_equal(last.hold_us, 0);
}

static void a_window_is_exact_at_its_edges(void **state)
{
    (void)state;
    const struct rate_rule rule = {RATE_SLIDING_WINDOW, .rate = 2, .per_s = 10, .burst = 2};
    begin();
    assert_true(passes(&rule, 0));
    assert_true(passes(&rule, 9 * SECOND_US));
    assert_int_equal(last.remaining, 0);
    assert_false(passes(&rule, 10 * SECOND_US - 1));
    assert_int_equal(last.retry_us, 1);
    assert_true(passes(&rule, 10 * SECOND_US));
    assert_false(passes(&rule, 19 * SECOND_US - 1));
    assert_true(passes(&rule, 19 * SECOND_US));
    assert_int_equal(last.reset_us, 10 * SECOND_US);
}

/* Two fixed windows side by side would let 68 or more through at their border. */
static void a_limit_of_50_never_lets_68_through(void **state)
{
    (void)state;
    const struct rate_rule rule = {RATE_SLIDING_WINDOW, .rate = 50, .per_s = 1, .burst = 50};
    begin();
    assert_int_equal(pass_at_once(&rule, SECOND_US - 1, 34), 34);
    assert_int_equal(pass_at_once(&rule, SECOND_US + 1, 34), 16);
}

#define REQUESTS 20000

/* Random rules and arrivals: the requests that passed in any window are at most rate; and for small
 * rates, a request is refused only if it would have been one too many. */
static void no_window_ever_has_more_than_its_rate(void **state)
{
    (void)state;
    const char *given = getenv("SLUICE_SEED");
    struct prng prng = {.state = given != NULL ? strtoull(given, NULL, 10) : 20261119};
    static int64_t passed[REQUESTS];
    printf("SLUICE_SEED=%llu\n", (unsigned long long)prng.state);
    for (int round = 0; round < 60; round++) {
        const struct rate_rule rule = {RATE_SLIDING_WINDOW, .rate = 1 + prng_below(&prng, 200),
                                       .per_s = 1 + prng_below(&prng, 20), .burst = 1};
        int64_t window_us = rule.per_s * SECOND_US;
        uint32_t most_us = (uint32_t)(3 * window_us / rule.rate);
        size_t count = 0;
        size_t oldest = 0;
        int64_t at_us = 0;
        begin();
        for (int i = 0; i < REQUESTS / 10; i++) {
            at_us += prng_below(&prng, 4) == 0 ? 0 : prng_below(&prng, most_us);
            while (oldest < count && passed[oldest] + window_us <= at_us) {
                oldest++;
            }
            bool one_too_many = count - oldest == rule.rate;
            if (passes(&rule, at_us)) {
                assert_false(one_too_many);
                passed[count++] = at_us;
            } else {
                /* Above RATE_LOG_MAX a request leaves up to 1/64 of the time late. */
                bool late = rule.rate > RATE_LOG_MAX;
                size_t inside = count;
                while (inside > 0 && passed[inside - 1] + window_us + window_us / 64 > at_us) {
                    inside--;
                }
                assert_true(one_too_many || (late && count - inside >= rule.rate));
            }
        }
    }
}

static void what_was_taken_can_be_given_back(void **state)
{
    (void)state;
    static const struct rate_rule rules[] = {
        {RATE_TOKEN_BUCKET, .rate = 3, .per_s = 60, .burst = 3},
        {RATE_LEAKY_BUCKET, .rate = 3, .per_s = 60, .burst = 2},
        {RATE_SLIDING_WINDOW, .rate = 3, .per_s = 60, .burst = 3},
        {RATE_SLIDING_WINDOW, .rate = RATE_LOG_MAX + 1, .per_s = 60, .burst = 3},
    };
    for (size_t i = 0; i < sizeof(rules) / sizeof(rules[0]); i++) {
        uint32_t most = rules[i].rate;
        begin();
        assert_int_equal(pass_at_once(&rules[i], 0, most + 9), most);
        rate_return(&rules[i], cell);
        rate_return(&rules[i], cell);
        assert_int_equal(pass_at_once(&rules[i], 0, 9), 2);
    }
}

static void what_was_not_taken_is_not_given_back(void **state)
{
    (void)state;
    static const struct rate_rule rules[] = {
        {RATE_TOKEN_BUCKET, .rate = 3, .per_s = 60, .burst = 3},
        {RATE_SLIDING_WINDOW, .rate = 3, .per_s = 60, .burst = 3},
        {RATE_SLIDING_WINDOW, .rate = RATE_LOG_MAX + 1, .per_s = 60, .burst = 3},
    };
    for (size_t i = 0; i < sizeof(rules) / sizeof(rules[0]); i++) {
        assert_true(rate_cell_bytes(&rules[i]) <= RATE_CELL_MAX);
        begin();
        rate_return(&rules[i], cell);
        assert_true(passes(&rules[i], 0));
        rate_return(&rules[i], cell);
        rate_return(&rules[i], cell);
        assert_int_equal(pass_at_once(&rules[i], 0, 99), rules[i].rate);
    }
}

/* The first parts of all time: there are none before them. */
static void a_window_may_begin_at_the_start_of_time(void **state)
{
    (void)state;
    const struct rate_rule rule = {RATE_SLIDING_WINDOW, .rate = 100, .per_s = 64, .burst = 1};
    begin();
    for (int i = 0; i < 100; i++) {
        rate_take(&rule, cell, SECOND_US, &last);
        assert_true(last.passed);
    }
    rate_take(&rule, cell, 2 * SECOND_US, &last);
    assert_false(last.passed);
    assert_int_equal(last.retry_us, 64 * SECOND_US);
}

static void a_time_that_went_back_gives_nothing_away(void **state)
{
    (void)state;
    static const struct rate_rule rules[] = {
        {RATE_TOKEN_BUCKET, .rate = 5, .per_s = 1, .burst = 5},
        {RATE_SLIDING_WINDOW, .rate = 5, .per_s = 1, .burst = 5},
        {RATE_SLIDING_WINDOW, .rate = 100, .per_s = 1, .burst = 5},
    };
    for (size_t i = 0; i < sizeof(rules) / sizeof(rules[0]); i++) {
        begin();
        assert_int_equal(pass_at_once(&rules[i], 10 * SECOND_US, 200), rules[i].rate);
        assert_int_equal(pass_at_once(&rules[i], 0, 200), 0);
        assert_int_equal(pass_at_once(&rules[i], 12 * SECOND_US, 200), rules[i].rate);
    }
}

static void the_largest_rules_do_not_overflow(void **state)
{
    (void)state;
    static const enum rate_algorithm algorithms[] = {RATE_TOKEN_BUCKET, RATE_LEAKY_BUCKET};
    for (int i = 0; i < 2; i++) {
        const struct rate_rule rule = {algorithms[i], RATE_MAX, RATE_PER_S_MAX, RATE_MAX};
        uint32_t most = RATE_MAX + (algorithms[i] == RATE_LEAKY_BUCKET);
        begin();
        assert_int_equal(pass_at_once(&rule, 0, RATE_MAX + 10), most);
        assert_int_equal(pass_at_once(&rule, RATE_PER_S_MAX * SECOND_US, RATE_MAX + 10), RATE_MAX);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_full_token_bucket_lets_burst_through_and_gains_rate),
        cmocka_unit_test(a_rate_that_does_not_divide_its_time_loses_nothing),
        cmocka_unit_test(a_leaky_bucket_holds_burst_and_refuses_the_rest),
        cmocka_unit_test(a_leaky_bucket_without_burst_holds_nothing),
        cmocka_unit_test(a_window_is_exact_at_its_edges),
        cmocka_unit_test(a_limit_of_50_never_lets_68_through),
        cmocka_unit_test(no_window_ever_has_more_than_its_rate),
        cmocka_unit_test(what_was_taken_can_be_given_back),
        cmocka_unit_test(what_was_not_taken_is_not_given_back),
        cmocka_unit_test(a_window_may_begin_at_the_start_of_time),
        cmocka_unit_test(a_time_that_went_back_gives_nothing_away),
        cmocka_unit_test(the_largest_rules_do_not_overflow),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
