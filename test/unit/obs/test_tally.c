/* What is counted by sale: sums over loops, different buyers, what was before, and no room. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include "obs/tally.h"

static struct tally_book book;
static struct tally_sum sum;

static int setup(void **state)
{
    (void)state;
    return tally_book_init(&book, 2);
}

static int teardown(void **state)
{
    (void)state;
    tally_book_done(&book);
    return 0;
}

static void test_loops_add_up_and_sales_stay_apart(void **state)
{
    (void)state;
    for (uint32_t loop = 0; loop < 2; loop++) {
        struct tally_row *row = tally_row(&book, loop, 7, 1000 - loop);
        tally_add(row, TALLY_ASKED);
        tally_refuse(row, 3);
        hist_add(&row->answered, 100 * (loop + 1));
        assert_ptr_equal(row, tally_row(&book, loop, 7, 5000));
    }
    tally_add(tally_row(&book, 0, 7 + TALLY_SALES, 1), TALLY_ASKED); /* the same place */
    tally_read(&book, 7, &sum);
    assert_int_equal(sum.since_ms, 999);
    assert_int_equal(sum.counts[TALLY_ASKED], 2);
    assert_int_equal(tally_asked(&book, 7), 2);
    assert_int_equal(sum.refused[3], 2);
    assert_int_equal(hist_count(&sum.answered), 2);
    tally_read(&book, 7 + TALLY_SALES, &sum);
    assert_int_equal(sum.counts[TALLY_ASKED], 1);
    tally_read(&book, 8, &sum);
    assert_int_equal(sum.since_ms, 0);
    assert_int_equal(tally_buyers(&sum), 0);
    uint64_t sales[4];
    assert_int_equal(tally_sales(&book, sales, 4), 2);
}

/* A buyer who comes again, or at another loop, is one; the estimate stays within its bound. */
static void test_different_buyers(void **state)
{
    (void)state;
    static const uint64_t numbers[] = {1, 10, 100, 3000, 100000, 1000000};
    for (size_t i = 0; i < sizeof(numbers) / sizeof(numbers[0]); i++) {
        uint64_t sale = i + 1;
        for (uint64_t user = 1; user <= numbers[i]; user++) {
            tally_see(tally_row(&book, user & 1, sale, 1), user);
            tally_see(tally_row(&book, 0, sale, 1), user);
        }
        tally_read(&book, sale, &sum);
        uint64_t slack = numbers[i] / 20 + 1; /* three times the expected error */
        assert_in_range(tally_buyers(&sum), numbers[i] - (numbers[i] > slack ? slack : 0),
                        numbers[i] + slack);
    }
}

static void test_what_was_before_counts_on(void **state)
{
    (void)state;
    struct tally_row *row = tally_row(&book, 0, 7, 2000);
    tally_add(row, TALLY_ASKED);
    tally_see(row, 5);
    tally_peak(&book, 7, 40, 2500);
    tally_peak(&book, 7, 30, 2600);
    tally_read(&book, 7, &sum);
    assert_int_equal(sum.peak_per_s, 40);
    assert_int_equal(sum.peak_at_ms, 2500);
    static struct tally_sum before;
    before = sum;
    tally_book_done(&book);
    assert_int_equal(tally_book_init(&book, 1), 0);
    assert_true(tally_restore(&book, &before));
    tally_add(tally_row(&book, 0, 7, 9000), TALLY_ASKED);
    tally_see(tally_row(&book, 0, 7, 9000), 5);
    tally_begin(&book, 7, 9000);
    tally_begin(&book, 8, 9000);
    tally_read(&book, 7, &sum);
    assert_int_equal(sum.since_ms, 2000);
    assert_int_equal(sum.counts[TALLY_ASKED], 2);
    assert_int_equal(sum.peak_per_s, 40);
    assert_int_equal(tally_buyers(&sum), 1);
    tally_read(&book, 8, &sum);
    assert_int_equal(sum.since_ms, 9000);
}

static void test_no_room_counts_nothing(void **state)
{
    (void)state;
    for (uint64_t sale = 1; sale <= TALLY_SALES; sale++) {
        assert_non_null(tally_row(&book, 0, sale, 1));
    }
    assert_null(tally_row(&book, 0, TALLY_SALES + 1, 1));
    assert_non_null(tally_row(&book, 0, TALLY_SALES, 1));
    tally_read(&book, TALLY_SALES + 1, &sum);
    assert_int_equal(sum.since_ms, 0);
    assert_int_equal(tally_asked(&book, TALLY_SALES + 1), 0);
}

int main(void)
{
#define TEST(name) cmocka_unit_test_setup_teardown(name, setup, teardown)
    const struct CMUnitTest tests[] = {
        TEST(test_loops_add_up_and_sales_stay_apart),
        TEST(test_different_buyers),
        TEST(test_what_was_before_counts_on),
        TEST(test_no_room_counts_nothing),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
