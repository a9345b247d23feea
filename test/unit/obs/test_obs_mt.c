/* Log and numbers under several threads: lines stay whole, one of a flood is written, sums are
 * exact when the threads are done and never fall while they run. */
#include <pthread.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <cmocka.h>

#include "captured.h"
#include "obs/log.h"
#include "obs/metrics.h"

enum { THREADS = 4, ROUNDS = 5000 };

static struct metrics metrics;
static struct log_limit limit;

static void start_and_join(void *(*run)(void *))
{
    static unsigned indexes[THREADS];
    pthread_t threads[THREADS];
    for (unsigned i = 0; i < THREADS; i++) {
        indexes[i] = i;
        assert_int_equal(pthread_create(&threads[i], NULL, run, &indexes[i]), 0);
    }
    for (unsigned i = 0; i < THREADS; i++) {
        assert_int_equal(pthread_join(threads[i], NULL), 0);
    }
}

static void *log_lines(void *argument)
{
    unsigned index = *(unsigned *)argument;
    for (unsigned i = 0; i < ROUNDS; i++) {
        log_event(LOG_INFO, "e", LOG_U64("thread", index), LOG_U64("i", i));
        log_event_limited(&limit, 3600000, LOG_INFO, "flood");
    }
    return NULL;
}

static void lines_of_threads_stay_whole(void **state)
{
    (void)state;
    captured_begin();
    start_and_join(log_lines);
    const char *line = captured_end();
    unsigned next[THREADS] = {0};
    unsigned floods = 0;
    for (const char *end; (end = strchr(line, '\n')) != NULL; line = end + 1) {
        unsigned thread = 0;
        unsigned i = 0;
        if (sscanf(line, "%*s info e thread=%u i=%u", &thread, &i) == 2) {
            assert_true(thread < THREADS);
            assert_int_equal(i, next[thread]++);
        } else {
            assert_memory_equal(strchr(line, ' '), " info flood\n", strlen(" info flood\n"));
            floods++;
        }
    }
    assert_int_equal(*line, '\0');
    assert_int_equal(floods, 1);
    for (unsigned i = 0; i < THREADS; i++) {
        assert_int_equal(next[i], ROUNDS);
    }
    assert_int_equal(atomic_load(&limit.suppressed), THREADS * ROUNDS - 1);
}

/* The last thread reads, the others count. */
static void *count_or_read(void *argument)
{
    unsigned index = *(unsigned *)argument;
    uint64_t before = 0;
    for (unsigned i = 0; i < ROUNDS; i++) {
        struct metrics_slot *slot = metrics_slot(&metrics, index);
        if (index < THREADS - 1) {
            metrics_add(slot, METRIC_HTTP_REQUESTS_TOTAL, 2);
            metrics_observe_us(slot, HIST_JOURNAL_SYNC, i);
            metrics_refuse(slot, 1);
            continue;
        }
        uint64_t now = metrics_sum(&metrics, METRIC_HTTP_REQUESTS_TOTAL);
        CHECK(now >= before);
        before = now;
        if (i % 100 == 0) {
            struct hist hist;
            metrics_hist(&metrics, HIST_JOURNAL_SYNC, &hist);
            CHECK(hist_count(&hist) <= (uint64_t)ROUNDS * (THREADS - 1));
        }
    }
    return NULL;
}

static void counts_of_threads_add_up(void **state)
{
    (void)state;
    uint64_t rounds = (uint64_t)ROUNDS * (THREADS - 1);
    struct hist hist;
    assert_int_equal(metrics_init(&metrics, THREADS), 0);
    start_and_join(count_or_read);
    assert_int_equal(metrics_sum(&metrics, METRIC_HTTP_REQUESTS_TOTAL), 2 * rounds);
    assert_int_equal(metrics_refused(&metrics, 1), rounds);
    metrics_hist(&metrics, HIST_JOURNAL_SYNC, &hist);
    assert_int_equal(hist_count(&hist), rounds);
    assert_int_equal(hist_max(&hist), ROUNDS - 1);
    metrics_done(&metrics);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(lines_of_threads_stay_whole),
        cmocka_unit_test(counts_of_threads_add_up),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
