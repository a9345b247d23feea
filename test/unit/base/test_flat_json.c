/* The flat JSON reader: what it takes, and all that it refuses. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "base/err.h"
#include "base/flat_json.h"

static int read_one(const char *text, struct flat_field *field)
{
    field->key = "qty";
    return flat_json_read(span_of(text), field, 1, false, NULL);
}

static void test_kinds(void **state)
{
    (void)state;
    static const struct {
        const char *text;
        enum flat_kind kind;
        int64_t number;
    } cases[] = {
        {"{}", FLAT_ABSENT, 0},
        {"{\"qty\":1}", FLAT_INTEGER, 1},
        {" { \"qty\" : -12 } \n", FLAT_INTEGER, -12},
        {"{\"qty\":9223372036854775807}", FLAT_INTEGER, INT64_MAX},
        {"{\"qty\":9223372036854775808}", FLAT_NUMBER, 0},
        {"{\"qty\":-9223372036854775808}", FLAT_INTEGER, INT64_MIN},
        {"{\"qty\":-9223372036854775809}", FLAT_NUMBER, 0},
        {"{\"qty\":1.0}", FLAT_NUMBER, 0},
        {"{\"qty\":1e2}", FLAT_NUMBER, 0},
        {"{\"qty\":true}", FLAT_BOOL, 0},
        {"{\"qty\":null}", FLAT_NULL, 0},
        {"{\"qty\":\"1\"}", FLAT_STRING, 0},
        {"{\"qty\":[1,{\"a\":[]},\"x\"]}", FLAT_NESTED, 0},
        {"{\"a\":{\"qty\":5},\"qty\":2}", FLAT_INTEGER, 2},
    };
    for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
        struct flat_field field;
        assert_int_equal(0, read_one(cases[i].text, &field));
        assert_int_equal(cases[i].kind, field.value.kind);
        if (cases[i].kind == FLAT_INTEGER) {
            assert_true(cases[i].number == field.value.number);
        }
    }
}

static void test_refused(void **state)
{
    (void)state;
    static const char *const wrong[] = {
        "",
        " ",
        "1",
        "[]",
        "{",
        "{\"qty\"}",
        "{\"qty\":}",
        "{\"qty\":1,}",
        "{\"qty\":1}x",
        "{\"qty\":1}{}",
        "{\"qty\":01}",
        "{\"qty\":+1}",
        "{\"qty\":.5}",
        "{\"qty\":1.}",
        "{\"qty\":1e}",
        "{\"qty\":tru}",
        "{\"qty\":nul}",
        "{\"qty\":1 2}",
        "{'qty':1}",
        "{qty:1}",
        "{\"qty\":1,\"qty\":2}",
        "{\"q\\u0074y\":1}",
        "{\"qty\":\"a\nb\"}",
        "{\"qty\":\"\\x\"}",
        "{\"qty\":\"\\u12g4\"}",
        "{\"qty\":\"\xff\"}",
        "{\"qty\":[1,]}",
        "{\"qty\":[1}",
        "{\"qty\":{\"a\"}}",
        "{\"qty\":{1:2}}",
        "{\"qty\":NaN}",
        "{\"qty\":\"a}",
        "{\"qty\":[[[[[[[[[[[[[[[[[[]]]]]]]]]]]]]]]]]]}",
        "{\"qty\":--1}",
        "{\"qty\":-}",
        "{,\"qty\":1}",
        "{\"qty\":[,1]}",
        "{\"qty\":[1 2]}",
    };
    for (size_t i = 0; i < sizeof(wrong) / sizeof(wrong[0]); i++) {
        struct flat_field field;
        if (read_one(wrong[i], &field) != ERR_INVALID) {
            fail_msg("accepted: %s", wrong[i]);
        }
    }
}

static void test_every_prefix_is_refused(void **state)
{
    (void)state;
    static const char text[] = "{\"a\":[1,{\"b\":\"\\u00e9\"}],\"qty\":12,\"c\":-1.5e3}";
    struct flat_field field = {.key = "qty"};
    for (size_t len = 0; len < sizeof(text) - 1; len++) {
        assert_int_equal(ERR_INVALID,
                         flat_json_read((struct span){text, len}, &field, 1, false, NULL));
    }
    assert_int_equal(0, flat_json_read(span_of(text), &field, 1, false, NULL));
    assert_true(field.value.number == 12);
}

static void test_strict_names_the_unknown_key(void **state)
{
    (void)state;
    struct flat_field field = {.key = "qty"};
    struct span unknown = {NULL, 0};
    assert_int_equal(ERR_NOTFOUND,
                     flat_json_read(span_of("{\"qty\":1,\"x\":2}"), &field, 1, true, &unknown));
    assert_true(span_is(unknown, "x"));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_kinds),
        cmocka_unit_test(test_refused),
        cmocka_unit_test(test_every_prefix_is_refused),
        cmocka_unit_test(test_strict_names_the_unknown_key),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
