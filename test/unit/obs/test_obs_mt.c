/* Log and numbers under several threads: lines stay whole, one of a flood is written, sums are
 * exact when the threads are done and never fall while they run; sales take each other's places. */
#include <pthread.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <cmocka.h>

#include "captured.h"
#include "obs/latency_window.h"
#include "obs/log.h"
#include "obs/metrics.h"
#include "obs/tally.h"

enum { THREADS = 4, ROUNDS = 5000 };

static struct metrics metrics;
static struct latency_window *latencies;
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

/* Loops ask for more sales than there is room for, each for all of them in turn, while the keeper
 * ends the oldest and looks: what is said of the one that is never over is exact, and no row is ever
 * counted for two. */
enum { LASTING = 1, SALES = 3 * TALLY_SALES, ASKS = 20 };

static struct tally_book book;
static _Atomic bool asked_all;

static void *ask_loop(void *argument)
{
    unsigned loop = *(unsigned *)argument;
    if (loop == THREADS - 1) { /* the keeper */
        static struct tally_sum sum;
        uint64_t over = LASTING;
        while (!atomic_load(&asked_all)) {
            uint64_t sales[TALLY_SALES];
            size_t count = tally_sales(&book, sales, TALLY_SALES);
            for (size_t i = 0; i < count; i++) {
                over = sales[i] > over ? sales[i] : over;
                tally_over(&book, sales[i], sales[i] != LASTING && sales[i] + 64 < over);
            }
            tally_look(&book, 5000);
            tally_read(&book, over, &sum);
            if (over != LASTING && sum.counts[TALLY_ASKED] > (uint64_t)(THREADS - 1) * ASKS) {
                abort(); /* another's are among them */
            }
        }
        return NULL;
    }
    for (uint64_t sale = LASTING + 1; sale < SALES; sale++) {
        for (unsigned i = 0; i < ASKS; i++) {
            struct tally_row *row = tally_row(&book, loop, sale, 1000 + (int64_t)sale);
            if (row != NULL) {
                tally_ask(row, i, 5000);
            }
            tally_ask(tally_row(&book, loop, LASTING, 1000), i, 5000);
        }
    }
    return NULL;
}

static void *ask_loops(void *argument)
{
    (void)argument;
    pthread_t threads[THREADS - 1];
    static unsigned loops[THREADS - 1];
    for (unsigned i = 0; i < THREADS - 1; i++) {
        loops[i] = i;
        assert_int_equal(pthread_create(&threads[i], NULL, ask_loop, &loops[i]), 0);
    }
    for (unsigned i = 0; i < THREADS - 1; i++) {
        assert_int_equal(pthread_join(threads[i], NULL), 0);
    }
    atomic_store(&asked_all, true);
    return NULL;
}

static void segment_table_of_sales_are_given_on(void **state)
{
    (void)state;
    static struct tally_sum sum;
    pthread_t loops;
    unsigned keeper = THREADS - 1;
    assert_int_equal(tally_book_init(&book, THREADS - 1), 0);
    assert_int_equal(pthread_create(&loops, NULL, ask_loops, NULL), 0);
    (void)ask_loop(&keeper);
    assert_int_equal(pthread_join(loops, NULL), 0);
    tally_read(&book, LASTING, &sum);
    assert_int_equal(sum.counts[TALLY_ASKED], (uint64_t)(THREADS - 1) * (SALES - 2) * ASKS);
    tally_look(&book, 5000);
    tally_read(&book, LASTING, &sum);
    assert_int_equal(sum.peak_per_s, sum.counts[TALLY_ASKED]);
    tally_book_done(&book);
}

/* Each counts and looks, at times that pass each other. */
static void *count_and_look(void *argument)
{
    unsigned index = *(unsigned *)argument;
    for (unsigned i = 0; i < ROUNDS; i++) {
        metrics_observe_us(metrics_slot(&metrics, index), HIST_BUY_ANSWER, i);
        if (i % 100 == 0) {
            struct latency_window_view view;
            latency_window_look(latencies, &metrics, (int64_t)i * 10 + index, &view);
            CHECK(view.hists[HIST_BUY_ANSWER].count <= (uint64_t)ROUNDS * THREADS);
            CHECK(view.hists[HIST_BUY_ANSWER].p999_us < ROUNDS + ROUNDS / 32);
            CHECK(view.window_ms < LATENCY_WINDOW_WINDOW_MS + LATENCY_WINDOW_STEP_MS);
        }
    }
    return NULL;
}

static void windows_of_threads_are_never_below_zero(void **state)
{
    (void)state;
    assert_int_equal(metrics_init(&metrics, THREADS), 0);
    latencies = latency_window_new();
    assert_non_null(latencies);
    start_and_join(count_and_look);
    latency_window_free(latencies);
    metrics_done(&metrics);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(lines_of_threads_stay_whole),
        cmocka_unit_test(counts_of_threads_add_up),
        cmocka_unit_test(segment_table_of_sales_are_given_on),
        cmocka_unit_test(windows_of_threads_are_never_below_zero),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
