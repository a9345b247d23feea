/* The division of the descriptors between files and connections. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include "app/descriptors.h"
#include "base/err.h"
#include <cmocka.h>

static const struct config plain = {.server_connections = 16384};
static struct descriptors descriptors;
static char text[DESCRIPTORS_ERROR_MAX];

static int divide(const struct config *config, uint32_t loops, uint64_t limit)
{
    return descriptors_divide(config, loops, limit, &descriptors, text, sizeof(text));
}

static void test_connections_get_what_files_leave(void **state)
{
    (void)state;
    uint64_t needed = descriptors_needed(&plain, 2);
    assert_int_equal(divide(&plain, 2, needed + 200), 0);
    assert_int_equal(descriptors.connections, 100);
    /* All connections open: still below the numbers that are for files alone. */
    assert_in_range(descriptors.files, needed, needed + 199);
    assert_int_equal(divide(&plain, 2, 1000000), 0);
    assert_int_equal(descriptors.connections, 16384);
    assert_int_equal(divide(&plain, 64, UINT64_MAX), 0); /* unlimited */
    assert_int_equal(descriptors.connections, 16384);
}

static void test_too_few_are_refused_with_the_number_needed(void **state)
{
    (void)state;
    uint64_t least = descriptors_needed(&plain, 2) + 2 * DESCRIPTORS_CONNECTIONS_MIN;
    assert_int_equal(divide(&plain, 2, least), 0);
    assert_int_equal(descriptors.connections, DESCRIPTORS_CONNECTIONS_MIN);
    assert_int_equal(divide(&plain, 2, least - 1), ERR_RANGE);
    assert_int_equal(divide(&plain, 2, 0), ERR_RANGE);
    char number[32];
    (void)snprintf(number, sizeof(number), "needs %u:", (unsigned)least);
    assert_non_null(strstr(text, number));
    assert_non_null(strstr(text, "server.threads"));
    assert_true(strlen(text) < sizeof(text) - 1); /* nothing is cut off */
}

static void test_redis_needs_more(void **state)
{
    (void)state;
    struct config config = plain;
    (void)strcpy(config.redis_url, "redis://a");
    uint64_t one = descriptors_needed(&config, 2);
    assert_true(one > descriptors_needed(&plain, 2) + 100);
    config.redis_segments = 64;
    assert_true(descriptors_needed(&config, 2) > one + 500);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_connections_get_what_files_leave),
        cmocka_unit_test(test_too_few_are_refused_with_the_number_needed),
        cmocka_unit_test(test_redis_needs_more),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
