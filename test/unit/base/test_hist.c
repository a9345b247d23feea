/* The histogram: edges of buckets, the promised error of quantiles, merging, and its limits. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <cmocka.h>

#include "base/hist.h"

static struct hist hist;
static struct hist other;

static int setup(void **state)
{
    (void)state;
    hist_clear(&hist);
    hist_clear(&other);
    return 0;
}

static void empty_has_no_values(void **state)
{
    (void)state;
    assert_int_equal(hist_count(&hist), 0);
    assert_int_equal(hist_sum(&hist), 0);
    assert_int_equal(hist_max(&hist), 0);
    assert_int_equal(hist_quantile(&hist, 0.5), 0);
    assert_int_equal(hist_quantile(&hist, 1.0), 0);
}

static void small_values_are_exact(void **state)
{
    (void)state;
    for (uint64_t value = 1; value <= 31; value++) {
        hist_add(&hist, value);
    }
    assert_int_equal(hist_count(&hist), 31);
    assert_int_equal(hist_sum(&hist), 31 * 32 / 2);
    assert_int_equal(hist_quantile(&hist, 0.0), 1);
    assert_int_equal(hist_quantile(&hist, 0.5), 16);
    assert_int_equal(hist_quantile(&hist, 1.0), 31);
}

/* A single value, at every power of two and around it, is given back at most 1/32 too high, and
 * never above the largest value seen. */
static void one_value_comes_back(void **state)
{
    (void)state;
    for (unsigned bits = 1; bits < HIST_MAX_BITS; bits++) {
        for (int64_t off = -1; off <= 1; off++) {
            uint64_t value = (1ULL << bits) + (uint64_t)off;
            hist_clear(&hist);
            hist_add(&hist, value);
            assert_int_equal(hist_quantile(&hist, 0.5), value);
            hist_add(&hist, UINT64_MAX); /* now the largest value does not help */
            uint64_t got = hist_quantile(&hist, 0.5);
            assert_in_range(got, value, value + value / 32);
        }
    }
}

static int compare(const void *a, const void *b)
{
    uint64_t x = *(const uint64_t *)a;
    uint64_t y = *(const uint64_t *)b;
    return (x > y) - (x < y);
}

static void quantiles_keep_the_promised_error(void **state)
{
    enum { VALUES = 20000 };
    static uint64_t values[VALUES];
    static const double shares[] = {0.0, 0.01, 0.25, 0.5, 0.9, 0.99, 0.999, 1.0};
    (void)state;
    uint64_t seed = 88172645463325252ULL;
    for (unsigned i = 0; i < VALUES; i++) {
        seed ^= seed << 13;
        seed ^= seed >> 7;
        seed ^= seed << 17;
        values[i] = (seed >> 24) >> (seed % 37); /* all magnitudes below 2^40 */
        hist_add(&hist, values[i]);
    }
    qsort(values, VALUES, sizeof(values[0]), compare);
    for (unsigned i = 0; i < sizeof(shares) / sizeof(shares[0]); i++) {
        unsigned rank = (unsigned)(shares[i] * VALUES);
        uint64_t exact = values[rank > 0 ? rank - 1 : 0];
        assert_in_range(hist_quantile(&hist, shares[i]), exact, exact + exact / 32);
    }
}

static void counts_below_a_power_of_two_are_exact(void **state)
{
    (void)state;
    hist_add(&hist, 0);
    hist_add(&hist, 1023);
    hist_add(&hist, 1024);
    hist_add(&hist, 1025);
    assert_int_equal(hist_count_below(&hist, 0), 1);
    assert_int_equal(hist_count_below(&hist, 10), 2);
    assert_int_equal(hist_count_below(&hist, 11), 4);
    assert_int_equal(hist_count_below(&hist, HIST_MAX_BITS - 1), 4);
}

static void huge_values_are_counted_and_remembered_as_the_maximum(void **state)
{
    (void)state;
    hist_add(&hist, 1);
    hist_add(&hist, 1ULL << HIST_MAX_BITS);
    hist_add(&hist, 1ULL << 62);
    assert_int_equal(hist_count(&hist), 3);
    assert_int_equal(hist_count_below(&hist, HIST_MAX_BITS - 1), 1);
    assert_int_equal(hist_quantile(&hist, 1.0), 1ULL << 62);
}

static void merging_adds_up(void **state)
{
    (void)state;
    hist_add(&hist, 10);
    hist_add(&other, 5);
    hist_add(&other, 1000);
    hist_merge(&hist, &other);
    assert_int_equal(hist_count(&hist), 3);
    assert_int_equal(hist_sum(&hist), 1015);
    assert_int_equal(hist_max(&hist), 1000);
    assert_int_equal(hist_quantile(&hist, 0.5), 10);
    assert_int_equal(hist_count(&other), 2);
}

/* After a subtraction only the later values are left, with an upper bound of the largest. */
static void subtracting_leaves_what_came_after(void **state)
{
    (void)state;
    for (unsigned i = 0; i < 1000; i++) {
        hist_add(&hist, 20);
    }
    hist_add(&hist, 5000000);
    hist_merge(&other, &hist);
    for (unsigned i = 0; i < 10; i++) {
        hist_add(&hist, 70000);
    }
    hist_subtract(&hist, &other);
    assert_int_equal(hist_count(&hist), 10);
    assert_int_equal(hist_sum(&hist), 700000);
    assert_in_range(hist_max(&hist), 70000, 70000 + 70000 / 32);
    assert_in_range(hist_quantile(&hist, 0.5), 70000, 70000 + 70000 / 32);
    assert_int_equal(hist_quantile(&hist, 1.0), hist_max(&hist));
    hist_clear(&other);
    hist_merge(&other, &hist);
    hist_subtract(&hist, &other);
    assert_int_equal(hist_count(&hist), 0);
    assert_int_equal(hist_max(&hist), 0);
    assert_int_equal(hist_quantile(&hist, 0.99), 0);
    hist_add(&other, 1ULL << 50); /* beyond the last edge: the largest ever seen */
    hist_subtract(&other, &hist);
    assert_int_equal(hist_quantile(&other, 1.0), 1ULL << 50);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup(empty_has_no_values, setup),
        cmocka_unit_test_setup(small_values_are_exact, setup),
        cmocka_unit_test_setup(one_value_comes_back, setup),
        cmocka_unit_test_setup(quantiles_keep_the_promised_error, setup),
        cmocka_unit_test_setup(counts_below_a_power_of_two_are_exact, setup),
        cmocka_unit_test_setup(huge_values_are_counted_and_remembered_as_the_maximum, setup),
        cmocka_unit_test_setup(merging_adds_up, setup),
        cmocka_unit_test_setup(subtracting_leaves_what_came_after, setup),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
