/* Names in scripts become numbers, in double quotes, too; what is in single quotes or a comment is
 * left alone; a name that no list has is found. Needs no Redis. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "backend/redis/scripts.h"
#include "base/err.h"
#include "port/gate.h"

static void resolved_for(bool cluster, const char *text, const char *expected)
{
    char memory[256];
    struct out out = out_over(memory, sizeof(memory));
    assert_int_equal(0, scripts_resolve(span_of(text), cluster, &out));
    assert_int_equal(strlen(expected), out.len);
    assert_memory_equal(expected, memory, out.len);
}

static void resolved(const char *text, const char *expected)
{
    resolved_for(false, text, expected);
    resolved_for(true, text, expected);
}

static void names_become_numbers(void **state)
{
    (void)state;
    resolved("#!lua\nreturn VERDICT_REFUSED .. ' '", "#!lua\nreturn 3 .. ' '");
    resolved("if x == STOCK_MAX then", "if x == 1099511627775 then");
    resolved("KEYS[1] ARGV[2] _ local_name", "KEYS[1] ARGV[2] _ local_name");
    resolved("f('VERDICT_DONE -- it''s', SALE_OPEN)", "f('VERDICT_DONE -- it''s', 2)");
    resolved("x == \"SALE_OPEN\" or \"VERDICT_REFUSED 0 \"", "x == \"2\" or \"3 0 \"");
    resolved("a -- NO_SUCH_NAME isn't read\nb - c", "a \nb - c");
    resolved("", "");
    resolved("'open", "'open");
}

static void news_are_sharded_in_a_cluster(void **state)
{
    (void)state;
    resolved_for(false, "if NEWS_SHARDED == 1 then", "if 0 == 1 then");
    resolved_for(true, "if NEWS_SHARDED == 1 then", "if 1 == 1 then");
}

static void a_name_of_no_list_is_found(void **state)
{
    (void)state;
    char memory[64];
    struct out out = out_over(memory, sizeof(memory));
    assert_int_equal(ERR_INVALID, scripts_resolve(span_of("return REFUSAL_BOREDOM"), false, &out));
    out = out_over(memory, 4);
    assert_int_equal(ERR_FULL, scripts_resolve(span_of("return 1"), false, &out));
}

static void every_script_is_in_the_binary(void **state)
{
    (void)state;
    struct redis_scripts *scripts = NULL;
    assert_int_equal(0, scripts_new(false, &scripts));
    for (int i = 0; i < SCRIPT_COUNT; i++) {
        assert_true(scripts->texts[i].len > 100);
        assert_memory_equal("#!lua", scripts->texts[i].at, 5);
    }
    scripts_free(scripts);
    scripts_free(NULL);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(names_become_numbers),
        cmocka_unit_test(news_are_sharded_in_a_cluster),
        cmocka_unit_test(a_name_of_no_list_is_found),
        cmocka_unit_test(every_script_is_in_the_binary),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
