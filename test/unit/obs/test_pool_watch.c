/* One line when a pool reaches a level, none while it swings around it, one when it has emptied. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include "captured.h"
#include "obs/log.h"
#include "obs/pool_watch.h"

static struct metrics metrics;
static struct pool_watch watch;

/* The lines that were logged at this level of the pool. */
static const char *at(uint64_t used)
{
    metrics_pool(metrics_slot(&metrics, 0), POOL_GATE_ORDERS, used, 200);
    captured_begin();
    pool_watch_look(&watch, &metrics);
    return captured_end();
}

static int setup(void **state)
{
    (void)state;
    watch = (struct pool_watch){{0}};
    return metrics_init(&metrics, 2);
}

static int teardown(void **state)
{
    (void)state;
    metrics_done(&metrics);
    return 0;
}

static void each_level_is_told_once(void **state)
{
    (void)state;
    assert_string_equal(at(99), "");
    assert_non_null(strstr(at(100), "pool.fills pool=gate.orders used=100 size=200 percent=50"));
    assert_string_equal(at(120), "");
    assert_non_null(strstr(at(160), "percent=80"));
    assert_string_equal(at(141), "");
    assert_string_equal(at(160), "");
    assert_non_null(strstr(at(190), "percent=95"));
    assert_string_equal(at(200), "");
}

static void a_pool_that_empties_is_told_well_below(void **state)
{
    (void)state;
    assert_non_null(strstr(at(200), "pool.fills")); /* several levels at once: one line */
    assert_string_equal(at(170), "");
    assert_non_null(strstr(at(169), "pool.empties"));
    assert_non_null(strstr(at(0), "pool.empties"));
    assert_string_equal(at(0), "");
}

static void a_pool_of_several_threads_is_their_sum(void **state)
{
    (void)state;
    metrics_pool(metrics_slot(&metrics, 1), POOL_GATE_ORDERS, 10, 200);
    assert_non_null(strstr(at(190), "used=200 size=400 percent=50"));
    struct metrics_level level = metrics_level(&metrics, POOL_GATE_ORDERS);
    assert_int_equal(level.used, 200);
    assert_int_equal(level.size, 400);
    assert_int_equal(metrics_percent((struct metrics_level){0, 0}), 0);
}

int main(void)
{
#define TEST(name) cmocka_unit_test_setup_teardown(name, setup, teardown)
    const struct CMUnitTest tests[] = {
        TEST(each_level_is_told_once),
        TEST(a_pool_that_empties_is_told_well_below),
        TEST(a_pool_of_several_threads_is_their_sum),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
