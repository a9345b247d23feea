/*
 * Tests as a table: each row is a cmocka test of its own, under the row's name. A row that fails is
 * named, and the others still run. The row is the test's *state, and that of its setup.
 */
#ifndef SLUICE_TEST_TABLE_TESTS_H
#define SLUICE_TEST_TABLE_TESTS_H

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>

#include <cmocka.h>

#include "base/check.h"

#define TABLE_ROWS(rows) (sizeof(rows) / sizeof((rows)[0]))

/* A test for each row. A row's first member is its name. */
static inline void table_tests(const void *rows, size_t count, size_t row_bytes,
                               struct CMUnitTest one, struct CMUnitTest *ret_tests)
{
    for (size_t i = 0; i < count; i++) {
        const char *row = (const char *)rows + i * row_bytes;
        ret_tests[i] = one;
        ret_tests[i].name = *(const char *const *)(const void *)row;
        ret_tests[i].initial_state = (void *)(uintptr_t)row;
    }
}

static inline int table_run(const char *name, const void *rows, size_t count, size_t row_bytes,
                            struct CMUnitTest one)
{
    struct CMUnitTest *tests = calloc(count, sizeof(*tests));
    CHECK(tests != NULL);
    table_tests(rows, count, row_bytes, one, tests);
    int failed = _cmocka_run_group_tests(name, tests, count, NULL, NULL);
    free(tests);
    return failed;
}

/* Runs the rows as a group; how many failed. */
#define TABLE_RUN(rows, run, set_up, tear_down)                                                    \
    table_run(#rows, (rows), TABLE_ROWS(rows), sizeof((rows)[0]),                                  \
              (struct CMUnitTest){NULL, (run), (set_up), (tear_down), NULL})

/* Fills an array of as many tests, for a runner of their own. */
#define TABLE_TESTS(rows, run, set_up, tear_down, ret_tests)                                       \
    table_tests((rows), TABLE_ROWS(rows), sizeof((rows)[0]),                                       \
                (struct CMUnitTest){NULL, (run), (set_up), (tear_down), NULL}, (ret_tests))

#endif
