/* The log: the form of a line, quoting, levels, lines that are too long, and floods. */
#include <regex.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <cmocka.h>

#include "captured.h"
#include "obs/log.h"

static void assert_matches(const char *text, const char *pattern)
{
    regex_t regex;
    assert_int_equal(regcomp(&regex, pattern, REG_EXTENDED | REG_NOSUB), 0);
    int result = regexec(&regex, text, 0, NULL, 0);
    regfree(&regex);
    if (result != 0) {
        print_error("%s does not match %s", text, pattern);
    }
    assert_int_equal(result, 0);
}

/* The line from its level on. */
static const char *without_time(const char *line)
{
    assert_matches(line, "^[0-9]{4}-[01][0-9]-[0-3][0-9]T[0-2][0-9]:[0-5][0-9]:[0-6][0-9]"
                         "\\.[0-9]{3}Z ");
    return strchr(line, ' ') + 1;
}

static int setup(void **state)
{
    (void)state;
    log_set_level(LOG_INFO);
    return 0;
}

static void a_line_has_time_level_event_and_fields(void **state)
{
    (void)state;
    captured_begin();
    log_event(LOG_WARN, "journal.torn_tail_cut", LOG_STR("file", "var/journal/j-12"),
              LOG_U64("bytes", UINT64_MAX), LOG_I64("skew_ms", -5), LOG_ERR("error", ERR_IO));
    assert_string_equal(without_time(captured_end()),
                        "warn journal.torn_tail_cut file=var/journal/j-12 "
                        "bytes=18446744073709551615 skew_ms=-5 error=\"input/output error\"\n");
}

static void an_event_needs_no_fields(void **state)
{
    (void)state;
    captured_begin();
    log_event(LOG_ERROR, "server.stopped");
    assert_string_equal(without_time(captured_end()), "error server.stopped\n");
}

static void what_could_break_a_line_is_quoted(void **state)
{
    (void)state;
    static const struct {
        const char *value;
        const char *shown;
    } cases[] = {
        {"plain-word_1.2:3/4", "plain-word_1.2:3/4"},
        {"", "\"\""},
        {"two words", "\"two words\""},
        {"a=b", "\"a=b\""},
        {"say \"hi\"", "\"say \\\"hi\\\"\""},
        {"back\\slash", "\"back\\\\slash\""},
        {"line\nbreak\r\t", "\"line\\nbreak\\r\\t\""},
        {"\x1b[31m\x7f", "\"\\x1b[31m\\x7f\""},
        {"场次", "\"场次\""},
        {"half \xe5\x9c", "\"half \\xe5\\x9c\""},
    };
    for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
        char expected[128];
        (void)snprintf(expected, sizeof(expected), "info e v=%s\n", cases[i].shown);
        captured_begin();
        log_event(LOG_INFO, "e", LOG_STR("v", cases[i].value));
        assert_string_equal(without_time(captured_end()), expected);
    }
}

static int evaluated;

static const char *evaluate(void)
{
    evaluated++;
    return "x";
}

static void levels_below_the_limit_cost_and_say_nothing(void **state)
{
    (void)state;
    evaluated = 0;
    captured_begin();
    log_event(LOG_DEBUG, "unseen", LOG_STR("v", evaluate()));
    log_set_level(LOG_ERROR);
    log_event(LOG_WARN, "unseen", LOG_STR("v", evaluate()));
    assert_string_equal(captured_end(), "");
    assert_int_equal(evaluated, 0);
    log_set_level(LOG_DEBUG);
    captured_begin();
    log_event(LOG_DEBUG, "seen", LOG_STR("v", evaluate()));
    assert_string_equal(without_time(captured_end()), "debug seen v=x\n");
}

static void levels_have_names(void **state)
{
    (void)state;
    enum log_level level = LOG_DEBUG;
    assert_int_equal(log_level_parse("warn", &level), 0);
    assert_int_equal(level, LOG_WARN);
    assert_int_equal(log_level_parse("WARN", &level), ERR_INVALID);
    assert_int_equal(log_level_parse("", &level), ERR_INVALID);
    assert_int_equal(level, LOG_WARN);
}

static void a_long_value_is_cut_between_characters(void **state)
{
    (void)state;
    char value[LOG_VALUE_MAX + 100];
    memset(value, 'a', sizeof(value));
    memcpy(value + LOG_VALUE_MAX - 1, "场", 3);
    captured_begin();
    log_event(LOG_INFO, "e", LOG_SPAN("v", ((struct span){value, sizeof(value)})),
              LOG_U64("after", 1));
    assert_matches(without_time(captured_end()), "^info e v=\"a+\\.\\.\\.\" after=1\n$");
}

static void a_line_too_long_loses_whole_fields_and_says_so(void **state)
{
    (void)state;
    char value[LOG_VALUE_MAX + 1];
    memset(value, 'b', LOG_VALUE_MAX);
    value[LOG_VALUE_MAX] = '\0';
    captured_begin();
    log_event(LOG_INFO, "e", LOG_STR("v1", value), LOG_STR("v2", value), LOG_STR("v3", value),
              LOG_STR("v4", value), LOG_U64("v5", 5));
    const char *line = captured_end();
    assert_true(strlen(line) <= LOG_LINE_MAX);
    assert_matches(without_time(line), "^info e v1=b+ v2=b+ v3=b+ truncated=true\n$");
}

static void a_flood_is_one_line_and_a_number(void **state)
{
    (void)state;
    static struct log_limit limit;
    captured_begin();
    for (int i = 0; i < 1000; i++) {
        log_event_limited(&limit, 3600000, LOG_INFO, "flood", LOG_I64("i", i));
    }
    assert_string_equal(without_time(captured_end()), "info flood i=0\n");
    atomic_store(&limit.next_ms, 0); /* the hour has passed */
    captured_begin();
    log_event_limited(&limit, 0, LOG_INFO, "flood");
    log_event_limited(&limit, 0, LOG_INFO, "flood");
    const char *lines = captured_end();
    assert_matches(lines, "^[^ ]+ info flood suppressed=999\n[^ ]+ info flood\n$");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup(a_line_has_time_level_event_and_fields, setup),
        cmocka_unit_test_setup(an_event_needs_no_fields, setup),
        cmocka_unit_test_setup(what_could_break_a_line_is_quoted, setup),
        cmocka_unit_test_setup(levels_below_the_limit_cost_and_say_nothing, setup),
        cmocka_unit_test_setup(levels_have_names, setup),
        cmocka_unit_test_setup(a_long_value_is_cut_between_characters, setup),
        cmocka_unit_test_setup(a_line_too_long_loses_whole_fields_and_says_so, setup),
        cmocka_unit_test_setup(a_flood_is_one_line_and_a_number, setup),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
