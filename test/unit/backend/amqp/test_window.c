/*
 * The window of published messages: each is reported once, in whatever order and grouping a broker
 * settles them, and what a broker settles that is not there is noticed. A plain list of all tags is
 * the model.
 */
#include <inttypes.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include <cmocka.h>

#include "backend/amqp/window.h"
#include "base/prng.h"

#define TAGS 2000

struct answer {
    uint8_t times[TAGS + 1];
    bool confirmed[TAGS + 1];
    uint32_t count;
};

static void tell(void *context, uint64_t number, bool confirmed)
{
    struct answer *told = context;
    assert_in_range(number, 1, TAGS);
    told->times[number]++;
    told->confirmed[number] = confirmed;
    told->count++;
}

static void fill(struct window *window, uint32_t count)
{
    for (uint32_t i = 0; i < count; i++) {
        assert_true(window_has_room(window));
        uint64_t tag = window->next;
        assert_int_equal(window_add(window, tag, (int64_t)tag * 10), tag);
    }
}

static void one_by_one_and_all_up_to_one(void **state)
{
    (void)state;
    struct window window;
    struct answer told = {0};
    assert_int_equal(window_init(&window, 8), 0);
    fill(&window, 8);
    assert_false(window_has_room(&window));
    assert_true(window_settle(&window, 3, false, true, tell, &told));
    assert_false(window_has_room(&window)); /* 1 still waits */
    assert_int_equal(window_oldest_ms(&window), 10);
    assert_int_equal(window.waiting, 7);
    assert_true(window_settle(&window, 5, true, true, tell, &told));
    assert_int_equal(told.count, 5);
    assert_int_equal(told.times[3], 1); /* not once more */
    assert_int_equal(window_oldest_ms(&window), 60);
    assert_int_equal(window.waiting, 3);
    fill(&window, 5);
    assert_false(window_has_room(&window));
    assert_true(window_settle(&window, 0, true, false, tell, &told)); /* 0: all */
    assert_int_equal(told.count, 13);
    assert_true(told.confirmed[5]);
    assert_false(told.confirmed[6]);
    assert_int_equal(window.waiting, 0);
    assert_int_equal(window_oldest_ms(&window), INT64_MAX);
    window_free(&window);
}

static void a_returned_message_is_not_confirmed(void **state)
{
    (void)state;
    struct window window;
    struct answer told = {0};
    assert_int_equal(window_init(&window, 4), 0);
    fill(&window, 3);
    assert_true(window_returned(&window, 2));
    assert_true(window_settle(&window, 3, true, true, tell, &told));
    assert_true(told.confirmed[1] && !told.confirmed[2] && told.confirmed[3]);
    assert_false(window_returned(&window, 2)); /* settled by now */
    window_free(&window);
}

static void what_is_not_under_way_is_noticed(void **state)
{
    (void)state;
    struct window window;
    struct answer told = {0};
    assert_int_equal(window_init(&window, 4), 0);
    assert_false(window_settle(&window, 1, false, true, tell, &told));
    assert_false(window_settle(&window, 1, true, true, tell, &told));
    assert_false(window_returned(&window, 0));
    fill(&window, 2);
    assert_false(window_settle(&window, 3, false, true, tell, &told));
    assert_false(window_settle(&window, 3, true, true, tell, &told));
    assert_false(window_settle(&window, 0, false, true, tell, &told));
    assert_true(window_settle(&window, 1, false, true, tell, &told));
    assert_false(window_settle(&window, 1, false, true, tell, &told));
    assert_int_equal(told.count, 1);
    window_free(&window);
}

static void a_lost_channel_tells_the_rest_and_starts_anew(void **state)
{
    (void)state;
    struct window window;
    struct answer told = {0};
    assert_int_equal(window_init(&window, 4), 0);
    window_lose(&window, tell, &told);
    fill(&window, 4);
    assert_true(window_settle(&window, 2, false, true, tell, &told));
    window_lose(&window, tell, &told);
    assert_int_equal(told.count, 4);
    assert_true(told.confirmed[2] && !told.confirmed[1] && !told.confirmed[3]);
    assert_int_equal(window.waiting, 0);
    assert_int_equal(window_add(&window, 7, 5), 1);
    assert_int_equal(window_oldest_ms(&window), 5);
    window_free(&window);
}

static void any_order_is_told_once(void **state)
{
    (void)state;
    const char *given = getenv("SLUICE_SEED"); /* NOLINT(concurrency-mt-unsafe) */
    uint64_t seed = given != NULL ? strtoull(given, NULL, 10) : (uint64_t)time(NULL);
    struct prng prng = prng_of(seed);
    print_message("SLUICE_SEED=%" PRIu64 "\n", seed);
    for (int round = 0; round < 50; round++) {
        struct window window;
        struct answer told = {0};
        bool settled[TAGS + 1] = {false};
        bool yes[TAGS + 1] = {false};
        uint32_t expected = 0;
        assert_int_equal(window_init(&window, 1 + (uint32_t)prng_below(&prng, 50)), 0);
        while (window.next <= TAGS || window.waiting > 0) {
            uint64_t tag = prng_below(&prng, window.next + 1);
            bool multiple = prng_below(&prng, 4) == 0;
            bool confirmed = prng_below(&prng, 5) != 0;
            if (window.next <= TAGS && prng_below(&prng, 2) == 0 && window_has_room(&window)) {
                fill(&window, 1);
                continue;
            }
            /* The model: which tags this settles, if the broker may say it. */
            uint64_t last = multiple && tag == 0 ? window.next - 1 : tag;
            bool legal =
                multiple ? last < window.next : tag >= 1 && tag < window.next && !settled[tag];
            for (uint64_t one = multiple ? 1 : last; legal && one <= last; one++) {
                if (!settled[one]) {
                    settled[one] = true;
                    yes[one] = confirmed;
                    expected++;
                }
            }
            assert_int_equal(window_settle(&window, tag, multiple, confirmed, tell, &told), legal);
            assert_int_equal(told.count, expected);
        }
        for (uint64_t tag = 1; tag <= TAGS; tag++) {
            assert_int_equal(told.times[tag], 1);
            assert_int_equal(told.confirmed[tag], yes[tag]);
        }
        window_free(&window);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(one_by_one_and_all_up_to_one),
        cmocka_unit_test(a_returned_message_is_not_confirmed),
        cmocka_unit_test(what_is_not_under_way_is_noticed),
        cmocka_unit_test(a_lost_channel_tells_the_rest_and_starts_anew),
        cmocka_unit_test(any_order_is_told_once),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
