/* Lines of the log that are kept: which, in which order, about which sale, and after a restart. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>
#include <cmocka.h>

#include "obs/incident_log.h"

static char path[64];
static struct incident_log_entry entries[INCIDENT_LOG_MAX];

static int setup(void **state)
{
    (void)state;
    (void)snprintf(path, sizeof(path), "/tmp/incident-log-%d.log", (int)getpid());
    (void)unlink(path);
    return incident_log_open(path);
}

static int teardown(void **state)
{
    (void)state;
    incident_log_close();
    (void)unlink(path);
    return 0;
}

static size_t list(uint64_t sale)
{
    return incident_log_list(0, INT64_MAX, sale, entries, INCIDENT_LOG_MAX);
}

static void test_only_some_are_kept_and_of_one_sale(void **state)
{
    (void)state;
    log_event(LOG_INFO, "memory.bounds", LOG_U64("gate_mib", 1));
    log_event(LOG_WARN, "server.away", LOG_STR("server", "redis"),
              LOG_STR("words", "cannot connect"));
    log_event(LOG_INFO, "sale.paused", LOG_U64("sale", 7), LOG_U64("event", 2));
    log_event(LOG_INFO, "sale.paused", LOG_U64("sale", 77));
    assert_int_equal(list(7), 2);
    assert_string_equal(entries[0].event, "server.away");
    assert_string_equal(entries[0].level, "warn");
    assert_string_equal(entries[0].text, "server=redis words=\"cannot connect\"");
    assert_string_equal(entries[1].text, "sale=7 event=2");
    assert_true(entries[0].at_ms > 1700000000000LL && entries[0].at_ms <= entries[1].at_ms);
    assert_int_equal(list(77), 2);
    assert_int_equal(incident_log_list(0, entries[0].at_ms - 1, 77, entries, 9), 0);
    assert_int_equal(incident_log_list(0, INT64_MAX, 7, entries, 1), 1);
    assert_string_equal(entries[0].event, "sale.paused"); /* the newest */
}

static void test_the_next_start_knows_them(void **state)
{
    (void)state;
    log_event(LOG_ERROR, "journal.failed", LOG_STR("error", "no space"));
    incident_log_close();
    log_event(LOG_INFO, "server.ready", LOG_STR("listen", "nobody keeps this"));
    assert_int_equal(incident_log_open(path), 0);
    assert_int_equal(list(1), 1);
    assert_string_equal(entries[0].event, "journal.failed");
    assert_string_equal(entries[0].text, "error=\"no space\"");
    assert_int_equal(incident_log_since_ms(), entries[0].at_ms);
}

static void test_it_stays_small(void **state)
{
    (void)state;
    char words[LOG_VALUE_MAX];
    memset(words, 'x', sizeof(words) - 1);
    words[sizeof(words) - 1] = '\0';
    for (int i = 0; i < 3000; i++) {
        log_event(LOG_WARN, "server.away", LOG_U64("n", (uint64_t)i), LOG_STR("words", words));
    }
    FILE *file = fopen(path, "re");
    assert_non_null(file);
    assert_int_equal(fseek(file, 0, SEEK_END), 0);
    assert_true(ftell(file) < (1L << 20) + LOG_LINE_MAX);
    (void)fclose(file);
    assert_int_equal(list(1), INCIDENT_LOG_MAX);
    incident_log_close();
    assert_int_equal(incident_log_open(path), 0);
    assert_int_equal(list(1), INCIDENT_LOG_MAX);
    assert_int_equal(strncmp(entries[INCIDENT_LOG_MAX - 1].text, "n=2999 words=xxx", 16), 0);
}

static void test_a_damaged_file_is_no_trouble(void **state)
{
    (void)state;
    incident_log_close();
    FILE *file = fopen(path, "we");
    assert_non_null(file);
    (void)fputs("\n2026-11\nnonsense\n2026-11-16T10:00:00.123Z warn server.away server=redis\n",
                file);
    (void)fclose(file);
    assert_int_equal(incident_log_open(path), 0);
    assert_int_equal(list(1), 1);
    assert_int_equal(entries[0].at_ms, 1794823200123LL);
    incident_log_close();
    assert_int_equal(incident_log_open("/nowhere/incidents.log"), ERR_IO);
    log_event(LOG_WARN, "server.away", LOG_STR("server", "in memory"));
    assert_int_equal(list(1), 1);
}

static void put(const char *mode, const char *text)
{
    FILE *file = fopen(path, mode);
    assert_non_null(file);
    assert_true(fputs(text, file) >= 0);
    assert_int_equal(fclose(file), 0);
}

/* The power went while a line was written: the next one is a line of its own. */
static void test_a_torn_line_swallows_no_other(void **state)
{
    (void)state;
    log_event(LOG_INFO, "server.ready", LOG_U64("n", 1));
    incident_log_close();
    put("ae", "2026-01-01T00:00:00.000Z info server.st");
    assert_int_equal(incident_log_open(path), 0);
    log_event(LOG_INFO, "server.stopping", LOG_U64("n", 2));
    incident_log_close();
    assert_int_equal(incident_log_open(path), 0);
    assert_int_equal(list(1), 2);
    assert_string_equal(entries[1].event, "server.stopping");
}

/* What is read is written again one day, with four digits for the year. */
static void test_a_time_that_cannot_be(void **state)
{
    (void)state;
    incident_log_close();
    put("we", "99999-01-01T00:00:00.000Z info server.ready n=1\n"
              "9999-99-99T99:99:99.999Z info server.ready n=2\n"
              "2147483647-01-01T00:00:00.000Z info server.ready n=3\n"
              "-999-01-01T00:00:00.000Z info server.ready n=4\n"
              "9999-12-31T23:59:59.999Z info server.ready n=5\n");
    assert_int_equal(incident_log_open(path), 0);
    assert_int_equal(list(1), 1);
    assert_string_equal(entries[0].text, "n=5");
}

/* If the file cannot be rewritten, the log does not try again at every line. */
static void test_a_file_that_cannot_be_made_small(void **state)
{
    (void)state;
    char words[LOG_VALUE_MAX], next[80];
    (void)snprintf(next, sizeof(next), "%s.new", path);
    assert_int_equal(mkdir(next, 0700), 0);
    memset(words, 'x', sizeof(words) - 1);
    words[sizeof(words) - 1] = '\0';
    struct stat before, after;
    do {
        log_event(LOG_WARN, "server.away", LOG_STR("words", words));
        assert_int_equal(stat(path, &before), 0);
    } while (before.st_size <= INCIDENT_LOG_FILE_MAX);
    assert_int_equal(rmdir(next), 0);
    log_event(LOG_WARN, "server.away", LOG_STR("words", words));
    assert_int_equal(stat(path, &after), 0);
    assert_true(after.st_size > before.st_size);
    for (int i = 0; i < 1000 && after.st_size > before.st_size; i++) {
        log_event(LOG_WARN, "server.away", LOG_STR("words", words));
        assert_int_equal(stat(path, &after), 0);
    }
    assert_true(after.st_size < before.st_size); /* but it is, a little later */
}

int main(void)
{
#define TEST(name) cmocka_unit_test_setup_teardown(name, setup, teardown)
    const struct CMUnitTest tests[] = {
        TEST(test_only_some_are_kept_and_of_one_sale),
        TEST(test_the_next_start_knows_them),
        TEST(test_it_stays_small),
        TEST(test_a_damaged_file_is_no_trouble),
        TEST(test_a_torn_line_swallows_no_other),
        TEST(test_a_time_that_cannot_be),
        TEST(test_a_file_that_cannot_be_made_small),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
