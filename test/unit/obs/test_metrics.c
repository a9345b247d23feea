/* The numbers: sums over slots, gauges that fall, and the text that Prometheus reads. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <cmocka.h>

#include "obs/metrics.h"

static struct metrics metrics;
static char text[METRICS_TEXT_MAX + 1];

static const char *refusal_name(unsigned refusal)
{
    static const char *const names[] = {"sold_out", "rate_limited"};
    return refusal < 2 ? names[refusal] : NULL;
}

/* As many refusals, with names as long, as there is room for. */
static const char *longest_name(unsigned refusal)
{
    (void)refusal;
    return "a_refusal_code_of_forty_characters_in_all";
}

static const char *render(metrics_refusal_name *name)
{
    struct out out = out_over(text, METRICS_TEXT_MAX);
    metrics_render(&metrics, name, &out);
    assert_false(out.overflow);
    text[out.len] = '\0';
    return text;
}

static void assert_has_line(const char *all, const char *line)
{
    char wanted[256];
    (void)snprintf(wanted, sizeof(wanted), "\n%s\n", line);
    if (strstr(all, wanted) == NULL) {
        print_error("no line %s in\n%s", line, all);
        fail();
    }
}

static int setup(void **state)
{
    (void)state;
    return metrics_init(&metrics, 3);
}

static int teardown(void **state)
{
    (void)state;
    metrics_done(&metrics);
    return 0;
}

static void slots_lie_on_their_own_cache_lines(void **state)
{
    (void)state;
    assert_int_equal(sizeof(struct metrics_slot) % 64, 0);
    assert_int_equal((uintptr_t)metrics_slot(&metrics, 1) % 64, 0);
}

static void a_counter_is_the_sum_of_its_slots(void **state)
{
    (void)state;
    metrics_add(metrics_slot(&metrics, 0), METRIC_TICKETS_TOTAL, 1);
    metrics_add(metrics_slot(&metrics, 2), METRIC_TICKETS_TOTAL, 41);
    assert_int_equal(metrics_sum(&metrics, METRIC_TICKETS_TOTAL), 42);
    assert_int_equal(metrics_sum(&metrics, METRIC_BUYS_ACCEPTED_TOTAL), 0);
    const char *all = render(refusal_name);
    assert_has_line(all, "# HELP sluice_tickets_total tickets handed out");
    assert_has_line(all, "# TYPE sluice_tickets_total counter");
    assert_has_line(all, "sluice_tickets_total 42");
}

/* A connection may be opened on one thread and closed on another: only the sum has to be right. */
static void a_gauge_may_fall_in_another_slot(void **state)
{
    (void)state;
    metrics_add(metrics_slot(&metrics, 0), METRIC_HTTP_CONNECTIONS, 5);
    metrics_sub(metrics_slot(&metrics, 1), METRIC_HTTP_CONNECTIONS, 2);
    assert_has_line(render(refusal_name), "sluice_http_connections 3");
    metrics_set(metrics_slot(&metrics, 0), METRIC_HTTP_CONNECTIONS, 0);
    assert_has_line(render(refusal_name), "sluice_http_connections -2");
    assert_has_line(render(refusal_name), "# TYPE sluice_http_connections gauge");
}

/* A process that does not use Redis must not look like one whose Redis is down. */
static void what_nobody_knows_is_left_out(void **state)
{
    (void)state;
    assert_null(strstr(render(refusal_name), "sluice_redis_up"));
    metrics_know(metrics_slot(&metrics, 1), METRIC_REDIS_UP, 0);
    assert_has_line(render(refusal_name), "sluice_redis_up 0");
    assert_has_line(render(refusal_name), "# TYPE sluice_redis_up gauge");
    metrics_know(metrics_slot(&metrics, 1), METRIC_REDIS_UP, 1);
    assert_has_line(render(refusal_name), "sluice_redis_up 1");
    assert_null(strstr(render(refusal_name), "sluice_mariadb_up"));
}

static void refusals_are_shown_by_code(void **state)
{
    (void)state;
    metrics_refuse(metrics_slot(&metrics, 0), 1);
    metrics_refuse(metrics_slot(&metrics, 1), 1);
    const char *all = render(refusal_name);
    assert_has_line(all, "# TYPE sluice_refused_total counter");
    assert_has_line(all, "sluice_refused_total{code=\"sold_out\"} 0");
    assert_has_line(all, "sluice_refused_total{code=\"rate_limited\"} 2");
}

static void a_histogram_counts_below_each_bound_in_seconds(void **state)
{
    (void)state;
    metrics_observe_us(metrics_slot(&metrics, 0), HIST_JOURNAL_SYNC, 63);
    metrics_observe_us(metrics_slot(&metrics, 1), HIST_JOURNAL_SYNC, 64);
    metrics_observe_us(metrics_slot(&metrics, 2), HIST_JOURNAL_SYNC, 20000000);
    const char *all = render(refusal_name);
    assert_has_line(all, "# TYPE sluice_journal_sync_seconds histogram");
    assert_has_line(all, "sluice_journal_sync_seconds_bucket{le=\"0.000064\"} 1");
    assert_has_line(all, "sluice_journal_sync_seconds_bucket{le=\"0.000128\"} 2");
    assert_has_line(all, "sluice_journal_sync_seconds_bucket{le=\"16.777216\"} 2");
    assert_has_line(all, "sluice_journal_sync_seconds_bucket{le=\"+Inf\"} 3");
    assert_has_line(all, "sluice_journal_sync_seconds_sum 20.000127");
    assert_has_line(all, "sluice_journal_sync_seconds_count 3");
}

static void the_largest_text_fits(void **state)
{
    (void)state;
    struct metrics_slot *slot = metrics_slot(&metrics, 0);
    for (unsigned i = 0; i < METRIC_COUNT; i++) {
        metrics_set(slot, (enum metric)i, UINT64_MAX);
    }
    for (unsigned i = 0; i < METRICS_REFUSALS_MAX; i++) {
        atomic_store(&slot->refused[i], UINT64_MAX);
    }
    for (unsigned i = 0; i < HIST_COUNT; i++) {
        atomic_store(&slot->hists[i].counts[0], UINT64_MAX);
        atomic_store(&slot->hists[i].sum, UINT64_MAX);
    }
    assert_non_null(strstr(render(longest_name), "18446744073709551615"));
}

/* Every line is a comment or `name value`, and no family is announced twice. */
static void the_text_is_well_formed(void **state)
{
    (void)state;
    for (unsigned i = 0; i < METRIC_COUNT; i++) {
        metrics_know(metrics_slot(&metrics, 0), (enum metric)i, 1);
    }
    const char *all = render(refusal_name);
    unsigned types = 0;
    for (const char *line = all; *line != '\0'; line = strchr(line, '\n') + 1) {
        char name[128];
        char value[64];
        if (sscanf(line, "# TYPE %127s", name) == 1) {
            char announced[160];
            (void)snprintf(announced, sizeof(announced), "# TYPE %s ", name);
            assert_null(strstr(line + 1, announced));
            types++;
        } else if (*line != '#') {
            assert_int_equal(sscanf(line, "%127s %63s", name, value), 2);
            assert_memory_equal(name, "sluice_", 7);
        }
    }
    assert_int_equal(types, METRIC_COUNT + HIST_COUNT + 2);
    assert_int_equal(all[strlen(all) - 1], '\n');
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(slots_lie_on_their_own_cache_lines, setup, teardown),
        cmocka_unit_test_setup_teardown(a_counter_is_the_sum_of_its_slots, setup, teardown),
        cmocka_unit_test_setup_teardown(a_gauge_may_fall_in_another_slot, setup, teardown),
        cmocka_unit_test_setup_teardown(what_nobody_knows_is_left_out, setup, teardown),
        cmocka_unit_test_setup_teardown(refusals_are_shown_by_code, setup, teardown),
        cmocka_unit_test_setup_teardown(a_histogram_counts_below_each_bound_in_seconds, setup,
                                        teardown),
        cmocka_unit_test_setup_teardown(the_largest_text_fits, setup, teardown),
        cmocka_unit_test_setup_teardown(the_text_is_well_formed, setup, teardown),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
