/* Loops take editions while other loops replace them: each is whole, none is freed while somebody still
 * sends it, and none is too old. Run under ASan and TSan, too. */
#include <pthread.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdatomic.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "api/answer_cache.h"
#include "base/check.h"
#include "base/crypt.h"
#include "base/err.h"
#include "base/limits.h"

enum { LOOPS = 4, ROUNDS = 4000, HELD = 8, REPEATS = 500 };
#define SALES 10
#define BEGIN_MS 1700000000000LL

static struct answer_cache *cache;
static struct catalog *catalog;
static _Atomic int64_t now_ms = BEGIN_MS;
static _Atomic uint32_t made;

static struct sale_row *new_sale(uint64_t id)
{
    struct sale_row *row = calloc(1, sizeof(*row));
    CHECK(row != NULL);
    row->id = id;
    row->state = SALE_OPEN;
    row->starts_at_ms = BEGIN_MS * 2 + (int64_t)id * 1000; /* none starts during the test */
    row->ends_at_ms = row->starts_at_ms + 500;
    return row;
}

/* The time at which it was made, many times. */
static void write_time(void *context, int64_t from_ms, int64_t to_ms, struct out *out)
{
    (void)from_ms;
    (void)to_ms;
    (void)atomic_fetch_add(&made, 1);
    for (int i = 0; i < REPEATS; i++) {
        out_i64(out, *(const int64_t *)context);
        out_char(out, ' ');
    }
}

static int64_t time_in(const struct answer *answer)
{
    struct span body = answer->content.body;
    size_t len = body.len / REPEATS;
    uint64_t time = 0;
    CHECK(body.len % REPEATS == 0);
    for (size_t i = 1; i < REPEATS; i++) {
        CHECK(memcmp(body.at, body.at + i * len, len) == 0);
    }
    CHECK(span_parse_u64((struct span){body.at, len - 1}, INT64_MAX, &time) == 0);
    return (int64_t)time;
}

static int take(int64_t at_ms, int64_t from_ms, struct answer **ret_answer)
{
    return answer_cache_sales(cache, catalog, at_ms, from_ms, INT64_MAX, write_time, &at_ms,
                              ret_answer);
}

static void *run_loop(void *context)
{
    struct answer *held[HELD] = {NULL};
    for (int i = 0; i < ROUNDS; i++) {
        int64_t at_ms = atomic_fetch_add(&now_ms, 7) + 7;
        struct answer *answer = NULL;
        CHECK(take(at_ms, i % 5 == 0 ? BEGIN_MS * 2 + 1600 : 0, &answer) == 0);
        CHECK(at_ms - time_in(answer) < ANSWER_CACHE_LATE_MS);
        struct answer **place = &held[i % HELD];
        if (*place != NULL) {
            (void)time_in(*place); /* it was replaced long since */
            http_hold_release(&(*place)->hold);
        }
        *place = answer;
        if (i % 500 == 0 && context == NULL) {
            CHECK(catalog_put(catalog, new_sale(1 + (uint64_t)i % SALES)) == 0);
        }
    }
    for (int i = 0; i < HELD; i++) {
        http_hold_release(&held[i]->hold);
    }
    return NULL;
}

static int set_up(void **state)
{
    (void)state;
    CHECK(crypt_start() == 0);
    cache = answer_cache_new();
    catalog = catalog_new();
    atomic_store(&made, 0);
    atomic_store(&now_ms, BEGIN_MS);
    for (uint64_t id = 1; id <= SALES; id++) {
        CHECK(catalog_put(catalog, new_sale(id)) == 0);
    }
    return cache != NULL && catalog != NULL ? 0 : -1;
}

static int tear_down(void **state)
{
    (void)state;
    answer_cache_free(cache);
    catalog_free(catalog);
    return 0;
}

static void loops_take_editions_while_others_replace_them(void **state)
{
    (void)state;
    pthread_t threads[LOOPS];
    for (int i = 0; i < LOOPS; i++) {
        assert_int_equal(pthread_create(&threads[i], NULL, run_loop, i == 0 ? NULL : cache), 0);
    }
    for (int i = 0; i < LOOPS; i++) {
        assert_int_equal(pthread_join(threads[i], NULL), 0);
    }
    /* Two ranges, a second each, and what the changes of the catalog added. */
    int64_t seconds = (atomic_load(&now_ms) - BEGIN_MS) / 1000 + 1;
    assert_in_range(atomic_load(&made), seconds / 2, 2 * seconds + 2 * (ROUNDS / 500) + 2);
}

/* A range that differs in nothing is the same; a range of its own costs one edition a second. When all
 * places are used, more ranges are refused, and those that are there are still served. */
static void ranges_are_bounded(void **state)
{
    (void)state;
    struct answer *answer = NULL;
    struct answer *all = NULL;
    assert_int_equal(take(BEGIN_MS, 0, &all), 0);
    for (int64_t i = 0; i < 1000; i++) { /* before the first end: all sales */
        assert_int_equal(take(BEGIN_MS, 1 + i, &answer), 0);
        assert_ptr_equal(answer, all);
        http_hold_release(&answer->hold);
    }
    assert_int_equal(atomic_load(&made), 1);
    for (uint64_t id = SALES + 1; id <= 3 * ANSWER_CACHE_RANGES; id++) {
        assert_int_equal(catalog_put(catalog, new_sale(id)), 0);
    }
    uint32_t refused = 0;
    for (int64_t i = 1; i <= 3 * (int64_t)ANSWER_CACHE_RANGES; i++) {
        int error = take(BEGIN_MS, BEGIN_MS * 2 + i * 1000 + 500, &answer);
        assert_true(error == 0 || error == ERR_FULL);
        refused += error != 0 ? 1 : 0;
        if (error == 0) {
            http_hold_release(&answer->hold);
        }
    }
    assert_int_equal(refused, 2 * ANSWER_CACHE_RANGES);
    assert_int_equal(take(BEGIN_MS + 900, BEGIN_MS * 2 + 1500, &answer), 0);
    http_hold_release(&answer->hold);
    http_hold_release(&all->hold);
    assert_int_equal(take(BEGIN_MS, 0, &all), 0);
    http_hold_release(&all->hold);
    /* A second later places that nobody used since are free. The one above is not. */
    uint32_t before = atomic_load(&made);
    assert_int_equal(take(BEGIN_MS + 1000, BEGIN_MS * 2 + 40500, &answer), 0);
    http_hold_release(&answer->hold);
    assert_int_equal(atomic_load(&made), before + 1);
    assert_int_equal(take(BEGIN_MS + 999, BEGIN_MS * 2 + 1500, &answer), 0);
    http_hold_release(&answer->hold);
    assert_int_equal(atomic_load(&made), before + 1);
}

/* A start or an end within the second ends an edition. */
static void an_edition_ends_when_a_sale_starts(void **state)
{
    (void)state;
    struct answer *answer = NULL;
    int64_t start_ms = BEGIN_MS * 2 + 1000;
    assert_int_equal(take(start_ms - 10, 0, &answer), 0);
    http_hold_release(&answer->hold);
    assert_int_equal(take(start_ms - 1, 0, &answer), 0);
    assert_int_equal(time_in(answer), start_ms - 10);
    http_hold_release(&answer->hold);
    assert_int_equal(take(start_ms, 0, &answer), 0);
    assert_int_equal(time_in(answer), start_ms);
    http_hold_release(&answer->hold);
    assert_int_equal(take(start_ms + 499, 0, &answer), 0);
    assert_int_equal(time_in(answer), start_ms);
    http_hold_release(&answer->hold);
    assert_int_equal(take(start_ms + 500, 0, &answer), 0);
    assert_int_equal(time_in(answer), start_ms + 500);
    http_hold_release(&answer->hold);
}

/* What is written no longer holds when it is done. */
static void write_and_change(void *context, int64_t from_ms, int64_t to_ms, struct out *out)
{
    write_time(context, from_ms, to_ms, out);
    CHECK(catalog_put(catalog, new_sale(SALES + 1)) == 0);
}

static void a_change_while_an_edition_is_made_ends_it(void **state)
{
    (void)state;
    struct answer *answer = NULL;
    int64_t at_ms = BEGIN_MS;
    assert_int_equal(
        answer_cache_sales(cache, catalog, at_ms, 0, INT64_MAX, write_and_change, &at_ms, &answer),
        0);
    http_hold_release(&answer->hold);
    assert_int_equal(take(BEGIN_MS + 1, 0, &answer), 0);
    assert_int_equal(time_in(answer), BEGIN_MS + 1);
    http_hold_release(&answer->hold);
}

int main(void)
{
#define TEST(name) cmocka_unit_test_setup_teardown(name, set_up, tear_down)
    const struct CMUnitTest tests[] = {
        TEST(loops_take_editions_while_others_replace_them),
        TEST(ranges_are_bounded),
        TEST(an_edition_ends_when_a_sale_starts),
        TEST(a_change_while_an_edition_is_made_ends_it),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
