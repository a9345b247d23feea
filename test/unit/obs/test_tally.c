/* What is counted by sale: sums over loops, different buyers, the busiest second, what was before,
 * and no room. */
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
        struct tally_row *row = tally_row(&book, loop, 7, 1000 + loop);
        tally_ask(row, 5, 1000);
        tally_refuse(row, 3);
        hist_add(&row->answered, 100 * (loop + 1));
        assert_ptr_equal(row, tally_row(&book, loop, 7, 5000));
    }
    tally_ask(tally_row(&book, 0, 7 + TALLY_SALES, 1), 5, 1); /* the same place */
    tally_read(&book, 7, &sum);
    assert_int_equal(sum.since_ms, 1000);
    assert_int_equal(sum.counts[TALLY_ASKED], 2);
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

static void request(uint32_t loop, uint64_t sale, int64_t now_ms, unsigned times)
{
    for (unsigned i = 0; i < times; i++) {
        tally_ask(tally_row(&book, loop, sale, now_ms), i, now_ms);
    }
}

/* The busiest second of the clock, over both loops, however late somebody looks; a look that comes
 * after seconds of silence does not take those for one. */
static void test_requests_within_a_second(void **state)
{
    (void)state;
    request(0, 7, 100000, 10);
    request(1, 7, 100999, 20);
    request(0, 7, 101000, 25);
    request(1, 7, 103500, 25);
    request(0, 8, 103500, 3);
    tally_look(&book, 112000);
    tally_read(&book, 7, &sum);
    assert_int_equal(sum.peak_per_s, 30);
    assert_int_equal(sum.peak_at_ms, 100000);
    tally_read(&book, 8, &sum);
    assert_int_equal(sum.peak_per_s, 3);
    assert_int_equal(sum.peak_at_ms, 103000);
    request(0, 7, 112000, 29);
    tally_look(&book, 112500);
    tally_read(&book, 7, &sum);
    assert_int_equal(sum.peak_per_s, 30);
    request(1, 7, 112900, 2); /* the same second goes on */
    tally_look(&book, 113500);
    tally_read(&book, 7, &sum);
    assert_int_equal(sum.peak_per_s, 31);
    assert_int_equal(sum.peak_at_ms, 112000);
    request(0, 7, 112000 + 1000LL * TALLY_SECONDS, 2); /* the same place, another second */
    tally_look(&book, 112000 + 1000LL * TALLY_SECONDS);
    tally_read(&book, 7, &sum);
    assert_int_equal(sum.peak_per_s, 31);
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
    request(0, 7, 2000, 40);
    tally_look(&book, 2500);
    static struct tally_sum before;
    tally_read(&book, 7, &before);
    assert_int_equal(before.peak_per_s, 40);
    tally_book_done(&book);
    assert_int_equal(tally_book_init(&book, 1), 0);
    assert_true(tally_restore(&book, &before));
    request(0, 7, 9000, 30);
    tally_look(&book, 9500);
    tally_begin(&book, 7, 9000);
    tally_begin(&book, 8, 9000);
    tally_read(&book, 7, &sum);
    assert_int_equal(sum.since_ms, 2000);
    assert_int_equal(sum.counts[TALLY_ASKED], 70);
    assert_int_equal(sum.peak_per_s, 40); /* what was before is no peak of any second now */
    assert_int_equal(sum.peak_at_ms, 2000);
    assert_in_range(tally_buyers(&sum), 39, 41);
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
}

/* Of those that are over the oldest, and no other; a caller that still has its row learns that it is
 * another's; and a process may have any number of sales in its life. */
static void test_a_sale_that_is_over_makes_room(void **state)
{
    (void)state;
    for (uint64_t sale = 1; sale <= TALLY_SALES; sale++) {
        request(0, sale, 1000 + (int64_t)sale, 2);
        request(1, sale, 1000 + (int64_t)sale, 1);
    }
    struct tally_row *old = tally_row(&book, 0, 20, 1);
    assert_true(tally_is(old, 20));
    tally_over(&book, 30, true);
    tally_over(&book, 20, true);
    request(0, 1000, 9000, 5);
    assert_false(tally_is(old, 20));
    tally_read(&book, 20, &sum);
    assert_int_equal(sum.since_ms, 0);
    assert_int_equal(sum.counts[TALLY_ASKED], 0); /* not what its other loop still has, either */
    tally_read(&book, 1000, &sum);
    assert_int_equal(sum.since_ms, 9000);
    assert_int_equal(sum.counts[TALLY_ASKED], 5);
    assert_int_equal(tally_buyers(&sum), 5);
    request(1, 1000, 9000, 1);
    tally_read(&book, 1000, &sum);
    assert_int_equal(sum.counts[TALLY_ASKED], 6);
    tally_read(&book, 30, &sum);
    assert_int_equal(sum.counts[TALLY_ASKED], 3);
    tally_over(&book, 30, false);
    assert_null(tally_row(&book, 0, 1001, 1));
    for (uint64_t sale = 2000; sale < 2000 + 3 * TALLY_SALES; sale++) {
        tally_over(&book, sale == 2000 ? 30 : sale - 1, true);
        request(sale % 2, sale, (int64_t)sale, 1);
        tally_read(&book, sale, &sum);
        assert_int_equal(sum.counts[TALLY_ASKED], 1);
    }
    tally_read(&book, 31, &sum);
    assert_int_equal(sum.counts[TALLY_ASKED], 3);
}

int main(void)
{
#define TEST(name) cmocka_unit_test_setup_teardown(name, setup, teardown)
    const struct CMUnitTest tests[] = {
        TEST(test_loops_add_up_and_sales_stay_apart),
        TEST(test_different_buyers),
        TEST(test_what_was_before_counts_on),
        TEST(test_requests_within_a_second),
        TEST(test_no_room_counts_nothing),
        TEST(test_a_sale_that_is_over_makes_room),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
