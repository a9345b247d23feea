/* Parameters of a request: an operator's JSON body field by field, query, path and content type. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

#include "api/form.h"
#include "base/err.h"
#include "table_tests.h"

#define COUNT(array) (sizeof(array) / sizeof((array)[0]))

static struct form form;
static json_t *body;

static int set_up(void **state)
{
    (void)state;
    memset(&form, 0, sizeof(form));
    body = NULL;
    return 0;
}

static int tear_down(void **state)
{
    (void)state;
    json_decref(body);
    return 0;
}

static void give(const char *json)
{
    json_decref(body);
    memset(&form, 0, sizeof(form));
    body = form_body(&form, span_of(json));
}

/* ---- the body ---- */

static void a_body_is_one_object(void **state)
{
    (void)state;
    static const char *const right[] = {"{}", " {\"a\":1} ", "{\"a\":{\"b\":[1,2]}}"};
    static const char *const wrong[] = {"",
                                        "null",
                                        "[]",
                                        "1",
                                        "\"x\"",
                                        "{",
                                        "{}}",
                                        "{\"a\":1,}",
                                        "{'a':1}",
                                        "{} {}",
                                        "{\"a\"}",
                                        "{\"a\":1,\"a\":2}",
                                        "{\"a\":\"\xff\"}",
                                        "{\"a\":NaN}"};
    for (size_t i = 0; i < COUNT(right); i++) {
        give(right[i]);
        assert_non_null(body);
        assert_false(form.wrong);
    }
    for (size_t i = 0; i < COUNT(wrong); i++) {
        give(wrong[i]);
        assert_null(body);
        assert_true(form.wrong);
        assert_string_equal(form.field, "body");
        assert_true(span_is_utf8(span_of(form.why)) && form.why[0] != '\0');
    }
    memset(&form, 0, sizeof(form));
    assert_null(form_body(&form, (struct span){NULL, 0}));
    assert_true(form.wrong);
}

static void a_body_has_no_nul_byte(void **state)
{
    (void)state;
    static const char whole[] = " {\"a\": 1 , \"b\":[2, \"x\", true], \"c\":-3.5 } ";
    size_t len = sizeof(whole) - 1;
    char text[sizeof(whole)];
    for (size_t at = 0; at <= len; at++) {
        memcpy(text, whole, at);
        text[at] = '\0';
        memcpy(text + at + 1, whole + at, len - at);
        memset(&form, 0, sizeof(form));
        body = form_body(&form, (struct span){text, len + 1});
        assert_null(body);
        assert_true(form.wrong);
        assert_string_equal(form.field, "body");
    }
}

static void only_known_members_may_be_there(void **state)
{
    (void)state;
    static const char *const names[] = {"a", "b", NULL};
    give("{\"a\":1,\"b\":2}");
    form_only(&form, "", body, names);
    assert_false(form.wrong);
    give("{\"a\":1,\"c\":2}");
    form_only(&form, "items[2].", body, names);
    assert_true(form.wrong);
    assert_string_equal(form.field, "items[2].c");
    give("{\"A\":1}");
    form_only(&form, "", body, names);
    assert_true(form.wrong);
    give("{}");
    form_only(&form, "", body, names);
    assert_false(form.wrong);
}

/* ---- numbers ---- */

/* From 1 to 10. */
static const struct number_case {
    const char *json;
    bool good;
    int64_t value;
} number_cases[] = {
    {"{\"n\":1}", true, 1},     {"{\"n\":10}", true, 10},  {"{\"n\":0}", false, 0},
    {"{\"n\":11}", false, 0},   {"{\"n\":-1}", false, 0},  {"{\"n\":1.0}", false, 0},
    {"{\"n\":1.5}", false, 0},  {"{\"n\":1e1}", false, 0}, {"{\"n\":\"1\"}", false, 0},
    {"{\"n\":true}", false, 0}, {"{\"n\":[1]}", false, 0},
};

static void a_number(void **state)
{
    const struct number_case *c = *state;
    int64_t value = 4711;
    give(c->json);
    assert_int_equal(form_number(&form, "x.", body, "n", true, 1, 10, &value), c->good);
    assert_int_equal(form.wrong, !c->good);
    assert_int_equal(value, c->good ? c->value : 4711);
    if (!c->good) {
        assert_string_equal(form.field, "x.n");
        assert_non_null(strstr(form.why, "from 1 to 10"));
    }
}

static void a_number_that_does_not_fit_is_not_read_as_another(void **state)
{
    (void)state;
    int64_t value = 0;
    give("{\"n\":9223372036854775807}");
    assert_true(form_number(&form, "", body, "n", true, 0, INT64_MAX, &value));
    assert_int_equal(value, INT64_MAX);
    give("{\"n\":9223372036854775808}");
    assert_null(body);
}

/* ---- what may be left out ---- */

static void what_is_required_is_missed_and_the_rest_is_not(void **state)
{
    (void)state;
    static const char *const empty[] = {"{}", "{\"n\":null}"};
    for (size_t i = 0; i < COUNT(empty); i++) {
        int64_t number = 4711;
        bool flag = true;
        char text[8] = "same";
        give(empty[i]);
        assert_false(form_number(&form, "", body, "n", false, 1, 10, &number));
        assert_false(form_text(&form, "", body, "n", false, 1, 7, text));
        assert_false(form_flag(&form, "", body, "n", &flag));
        assert_false(form.wrong);
        assert_true(number == 4711 && flag);
        assert_string_equal(text, "same");
        assert_false(form_number(&form, "", body, "n", true, 1, 10, &number));
        assert_true(form.wrong);
        assert_string_equal(form.field, "n");
        assert_string_equal(form.why, "n is required");
        give(empty[i]);
        assert_false(form_text(&form, "", body, "n", true, 1, 7, text));
        assert_true(form.wrong);
    }
}

/* ---- texts ---- */

/* Two to six bytes, without control characters. */
static const struct text_case {
    const char *json;
    const char *want; /* NULL: refused */
} text_cases[] = {
    {"{\"t\":\"ab\"}", "ab"},
    {"{\"t\":\"abcdef\"}", "abcdef"},
    {"{\"t\":\"\xe4\xbd\xa0\xe5\xa5\xbd\"}", "\xe4\xbd\xa0\xe5\xa5\xbd"}, /* two characters */
    {"{\"t\":\"\\u4f60\"}", "\xe4\xbd\xa0"},
    {"{\"t\":\"a\\\"b\"}", "a\"b"},
    {"{\"t\":\"a\"}", NULL},
    {"{\"t\":\"\"}", NULL},
    {"{\"t\":\"abcdefg\"}", NULL},
    {"{\"t\":\"\xe4\xbd\xa0\xe5\xa5\xbd!\"}", NULL},
    {"{\"t\":\"a\\nb\"}", NULL},
    {"{\"t\":\"a\\u0001b\"}", NULL},
    {"{\"t\":\"a\\u007fb\"}", NULL},
    {"{\"t\":\"a\\u0080b\"}", NULL}, /* C1 controls, escaped and as bytes */
    {"{\"t\":\"a\\u009fb\"}", NULL},
    {"{\"t\":\"a\xc2\x9b!\"}", NULL},
    {"{\"t\":\"\xc2\x80!\"}", NULL},
    {"{\"t\":\"\xc2\xa0!\"}", "\xc2\xa0!"}, /* and no other character with such a byte */
    {"{\"t\":\"\xe2\x82\x80\"}", "\xe2\x82\x80"},
    {"{\"t\":\"\xd0\x82\xd0\x9b\"}", "\xd0\x82\xd0\x9b"},
    {"{\"t\":7}", NULL},
    {"{\"t\":[\"ab\"]}", NULL},
    {"{\"t\":false}", NULL},
};

static void a_text(void **state)
{
    const struct text_case *c = *state;
    char text[7] = "......"; /* room for the longest and its end, and no more */
    give(c->json);
    assert_int_equal(form_text(&form, "", body, "t", true, 2, 6, text), c->want != NULL);
    assert_int_equal(form.wrong, c->want == NULL);
    assert_string_equal(text, c->want != NULL ? c->want : "......");
}

static void a_text_is_not_cut_short_by_a_nul_inside(void **state)
{
    (void)state;
    give("{\"t\":\"a\\u0000b\"}");
    assert_null(body);
}

static void flags_are_true_or_false(void **state)
{
    (void)state;
    bool flag = false;
    give("{\"f\":true}");
    assert_true(form_flag(&form, "", body, "f", &flag) && flag);
    give("{\"f\":false}");
    assert_true(form_flag(&form, "", body, "f", &flag) && !flag);
    static const char *const wrong[] = {"{\"f\":1}", "{\"f\":\"true\"}", "{\"f\":[]}"};
    for (size_t i = 0; i < COUNT(wrong); i++) {
        give(wrong[i]);
        assert_false(form_flag(&form, "", body, "f", &flag));
        assert_true(form.wrong);
    }
}

/* ---- complaints ---- */

static void the_first_complaint_stands_and_the_rest_is_skipped(void **state)
{
    (void)state;
    int64_t number = 4711;
    char text[8] = "same";
    bool flag = false;
    give("{\"a\":0,\"n\":5,\"t\":\"ok\",\"f\":true}");
    assert_false(form_number(&form, "", body, "a", true, 1, 10, &number));
    assert_string_equal(form.field, "a");
    /* These would be good, but nobody acts on half a form. */
    assert_false(form_number(&form, "", body, "n", true, 1, 10, &number));
    assert_false(form_text(&form, "", body, "t", true, 1, 7, text));
    assert_false(form_flag(&form, "", body, "f", &flag));
    assert_false(form_number(&form, "", body, "missing", true, 1, 10, &number));
    assert_string_equal(form.field, "a");
    assert_true(number == 4711 && !flag);
    assert_string_equal(text, "same");
}

/* Names come from the request: whatever their length, a complaint is whole UTF-8. */
static void long_names_are_cut_between_characters(void **state)
{
    (void)state;
    for (size_t n = 0; n < 300; n++) {
        char name[1000];
        size_t len = n % 3;
        memset(name, 'x', len);
        for (size_t i = 0; i < n; i++, len += 3) {
            memcpy(name + len, "\xe4\xbd\xa0", 3);
        }
        name[len] = '\0';
        memset(&form, 0, sizeof(form));
        form_error(&form, "items[12].", name, "is not a member of this request");
        assert_true(form.wrong);
        assert_true(strlen(form.field) < sizeof(form.field) && span_is_utf8(span_of(form.field)));
        assert_true(strlen(form.why) < sizeof(form.why) && span_is_utf8(span_of(form.why)));
        assert_int_equal(strncmp(form.field, "items[12].", 10), 0);
    }
}

/* ---- the query ---- */

static void assert_query(const char *query, const char *name, const char *want)
{
    struct span value = query_value(span_of(query), name);
    if (want == NULL) {
        assert_null(value.at);
        assert_int_equal(value.len, 0);
    } else {
        assert_non_null(value.at);
        assert_true(span_is(value, want));
    }
}

static void a_parameter_is_found_by_its_whole_name(void **state)
{
    (void)state;
    assert_query("limit=5", "limit", "5");
    assert_query("after=1&limit=5&x=y", "limit", "5");
    assert_query("after=1&limit=5", "after", "1");
    assert_query("limit=", "limit", "");
    assert_query("limit=5&limit=6", "limit", "5");
    assert_query("a=b=c", "a", "b=c");
    assert_query("&&limit=5&", "limit", "5");
    assert_query("", "limit", NULL);
    assert_query("limit", "limit", NULL);
    assert_query("limits=5", "limit", NULL);
    assert_query("xlimit=5", "limit", NULL);
    assert_query("limi=5", "limit", NULL);
    assert_query("x=limit=5", "limit", NULL);
    assert_query("LIMIT=5", "limit", NULL);
    assert_null(query_value((struct span){NULL, 0}, "limit").at);
}

static void a_number_in_the_query_is_plain_decimal(void **state)
{
    (void)state;
    static const char *const wrong[] = {"n=",    "n=-1", "n=+1",  "n=01", "n=1.0",
                                        "n=1e3", "n= 1", "n=%31", "n=x",  "n=0x10"};
    uint64_t value = 4711;
    assert_int_equal(query_number(span_of("m=3"), "n", 100, 50, &value), 0);
    assert_int_equal(value, 50);
    assert_int_equal(query_number(span_of("n=0"), "n", 100, 50, &value), 0);
    assert_int_equal(value, 0);
    assert_int_equal(query_number(span_of("n=100"), "n", 100, 50, &value), 0);
    assert_int_equal(value, 100);
    assert_int_equal(query_number(span_of("n=18446744073709551615"), "n", UINT64_MAX, 0, &value),
                     0);
    assert_true(value == UINT64_MAX);
    value = 4711;
    assert_int_equal(query_number(span_of("n=101"), "n", 100, 50, &value), ERR_RANGE);
    assert_int_equal(query_number(span_of("n=18446744073709551616"), "n", UINT64_MAX, 0, &value),
                     ERR_RANGE);
    for (size_t i = 0; i < COUNT(wrong); i++) {
        assert_int_equal(query_number(span_of(wrong[i]), "n", 100, 50, &value), ERR_INVALID);
    }
    assert_int_equal(value, 4711);
}

/* ---- the path ---- */

static void an_id_in_the_path_is_a_positive_number(void **state)
{
    (void)state;
    static const char *const wrong[] = {"",
                                        "0",
                                        "00",
                                        "01",
                                        "-1",
                                        "+1",
                                        "1 ",
                                        "x",
                                        "1x",
                                        "9007199254740992",
                                        "99999999999999999999999"};
    uint64_t id = 4711;
    for (size_t i = 0; i < COUNT(wrong); i++) {
        assert_int_equal(part_id(span_of(wrong[i]), &id), ERR_INVALID);
        assert_int_equal(id, 4711);
    }
    assert_int_equal(part_id(span_of("1"), &id), 0);
    assert_int_equal(id, 1);
    assert_int_equal(part_id(span_of("9007199254740991"), &id), 0);
    assert_int_equal(id, ID_MAX);
}

/* ---- the content type ---- */

static enum refusal json_refusal(const char *type, const char *text, bool optional)
{
    struct http_request request = {.body = span_of(text)};
    if (type != NULL) {
        request.content_type = span_of(type);
    }
    return body_is_json(&request, optional);
}

static void a_body_says_that_it_is_json(void **state)
{
    (void)state;
    static const char *const right[] = {"application/json",
                                        "Application/JSON",
                                        "application/json;charset=utf-8",
                                        "application/json; charset=utf-8",
                                        "application/json; charset=UTF-8",
                                        "application/json ; charset=utf-8"};
    static const char *const wrong[] = {"",
                                        "text/plain",
                                        "application/jsonx",
                                        "application/js",
                                        "application/json; charset=latin1",
                                        "application/json;x=y",
                                        "application/x-www-form-urlencoded",
                                        "json",
                                        "text/plain; application/json"};
    for (size_t i = 0; i < COUNT(right); i++) {
        assert_int_equal(json_refusal(right[i], "{}", false), REFUSAL_NONE);
        assert_int_equal(json_refusal(right[i], "{}", true), REFUSAL_NONE);
    }
    for (size_t i = 0; i < COUNT(wrong); i++) {
        assert_int_equal(json_refusal(wrong[i], "{}", false), REFUSAL_BAD_MEDIA_TYPE);
        assert_int_equal(json_refusal(wrong[i], "{}", true), REFUSAL_BAD_MEDIA_TYPE);
    }
    assert_int_equal(json_refusal(NULL, "{}", true), REFUSAL_BAD_MEDIA_TYPE);
    assert_int_equal(json_refusal(NULL, "", true), REFUSAL_NONE); /* nothing sent, nothing to say */
    assert_int_equal(json_refusal("text/plain", "", true), REFUSAL_NONE);
    assert_int_equal(json_refusal(NULL, "", false), REFUSAL_BAD_MEDIA_TYPE);
}

int main(void)
{
#define TEST(name) cmocka_unit_test_setup_teardown(name, set_up, tear_down)
    const struct CMUnitTest tests[] = {
        TEST(a_body_is_one_object),
        TEST(a_body_has_no_nul_byte),
        TEST(only_known_members_may_be_there),
        TEST(a_number_that_does_not_fit_is_not_read_as_another),
        TEST(what_is_required_is_missed_and_the_rest_is_not),
        TEST(a_text_is_not_cut_short_by_a_nul_inside),
        TEST(flags_are_true_or_false),
        TEST(the_first_complaint_stands_and_the_rest_is_skipped),
        TEST(long_names_are_cut_between_characters),
        TEST(a_parameter_is_found_by_its_whole_name),
        TEST(a_number_in_the_query_is_plain_decimal),
        TEST(an_id_in_the_path_is_a_positive_number),
        TEST(a_body_says_that_it_is_json),
    };
    int failed = cmocka_run_group_tests(tests, NULL, NULL);
    failed += TABLE_RUN(number_cases, a_number, set_up, tear_down);
    return failed + TABLE_RUN(text_cases, a_text, set_up, tear_down);
}
