/* Templates: what they say, what they refuse to say, and that nothing in a value gets out of it. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>

#include "base/bytes.h"
#include "base/err.h"
#include <cmocka.h>

#include "pages/template.h"

static const struct template_scope thing_scope;
static const struct template_scope no_scope;
static const struct template_key list_keys[] = {{"title", false}, {"raw", true}, {NULL, false}};
static const struct template_key thing_keys[] = {{"name", false}, {NULL, false}};
static const struct template_section list_sections[] = {
    {"things", &thing_scope}, {"none", &no_scope}, {NULL, NULL}};
static const struct template_section thing_sections[] = {{"again", &thing_scope}, {NULL, NULL}};
static const struct template_scope list_scope = {list_keys, list_sections};
static const struct template_scope thing_scope = {thing_keys, thing_sections};
static const struct template_scope no_scope = {NULL, NULL};

struct world {
    const char *title;
    const char *things[4];
    size_t things_count;
    const char *thing;
};

static void put(void *context, const struct template_scope *scope, uint32_t key, struct out *out)
{
    struct world *world = context;
    if (scope == &thing_scope) {
        out_text(out, world->thing);
    } else {
        out_text(out, key == 0 ? world->title : "<raw>");
    }
}

static bool turn(void *context, const struct template_scope *scope, uint32_t section, uint32_t n)
{
    struct world *world = context;
    if (scope == &thing_scope) {
        return n < 2; /* again, and again */
    }
    if (section == 1) {
        return n == 0 && world->things_count == 0;
    }
    world->thing = n < world->things_count ? world->things[n] : NULL;
    return world->thing != NULL;
}

static char rendered[4096];

static void expect(const char *text, struct world world, const char *wanted)
{
    char problem[128] = "";
    struct template *template = NULL;
    struct out out = out_over(rendered, sizeof(rendered) - 1);
    if (template_read(span_of(text), &list_scope, &template, problem, sizeof(problem)) != 0) {
        fail_msg("%s", problem);
    }
    template_render(template, &(struct template_source){&world, put, turn}, &out);
    assert_false(out.overflow);
    rendered[out.len] = '\0';
    assert_string_equal(rendered, wanted);
    template_free(template);
}

static void expect_refused(const char *text, const char *wanted)
{
    char problem[128] = "";
    struct template *template = NULL;
    assert_int_equal(template_read(span_of(text), &list_scope, &template, problem, sizeof(problem)),
                     ERR_INVALID);
    assert_null(template);
    assert_string_equal(problem, wanted);
}

static void test_keys_and_sections(void **state)
{
    (void)state;
    struct world none = {.title = "T"};
    struct world two = {.title = "T", .things = {"a", "b"}, .things_count = 2};
    expect("", none, "");
    expect("plain } text { }} as it is", none, "plain } text { }} as it is");
    expect("<h1>{{title}}</h1>{{raw}}", none, "<h1>T</h1><raw>");
    expect("[{{#things}}<{{name}}>{{/things}}]{{#none}}nothing{{/none}}", none, "[]nothing");
    expect("[{{#things}}<{{name}}>{{/things}}]{{#none}}nothing{{/none}}", two, "[<a><b>]");
    expect("{{#things}}{{#again}}{{name}}{{/again}};{{/things}}", two, "aa;bb;");
    expect("{{#things}}{{/things}}{{title}}", two, "T");
}

static void test_values_are_escaped(void **state)
{
    (void)state;
    struct world hostile = {.title = "</title><script>alert('1')</script>\"&amp;{{raw}}"};
    expect("{{title}}", hostile,
           "&lt;/title&gt;&lt;script&gt;alert(&#39;1&#39;)&lt;/script&gt;&quot;&amp;amp;{{raw}}");
    hostile.title = "红 \xf0\x9f\x94\xa5";
    expect("<a title=\"{{title}}\">", hostile, "<a title=\"红 \xf0\x9f\x94\xa5\">");
}

static void test_what_is_not_known_is_refused_with_its_line(void **state)
{
    (void)state;
    expect_refused("a\nb\n{{nme}}", "3: there is no key {{nme}}");
    expect_refused("{{name}}", "1: there is no key {{name}}"); /* of a thing, outside of one */
    expect_refused("{{#things}}{{title}}{{/things}}", "1: there is no key {{title}}");
    expect_refused("{{ title }}", "1: there is no key {{ title }}");
    expect_refused("{{}}", "1: there is no key {{}}");
    expect_refused("{{{title}}}", "1: there is no key {{{title}}");
    expect_refused("{{#no}}{{/no}}", "1: there is no section {{no}}");
    expect_refused("{{#title}}{{/title}}", "1: there is no section {{title}}");
    expect_refused("{{#none}}{{title}}{{/none}}", "1: there is no key {{title}}");
    expect_refused("{{/things}}", "1: no section is open at {{things}}");
    expect_refused("{{#things}}{{/none}}", "1: another section is open at {{none}}");
    expect_refused("{{#things}}\n", "2: no end of {{things}}");
    expect_refused("x {{title", "1: no end of {{title}}");
    expect_refused(
        "{{#things}}{{#again}}{{#again}}{{#again}}{{#again}}{{#again}}{{#again}}{{#again}}"
        "{{#again}}",
        "1: too deep: {{again}}");
}

static void test_too_little_room_is_told(void **state)
{
    (void)state;
    struct world world = {.title = "123456", .things = {"a", "b"}, .things_count = 2};
    struct template *template = NULL;
    assert_int_equal(template_read(span_of("{{#things}}x{{/things}}{{title}}"), &list_scope,
                                   &template, rendered, sizeof(rendered)),
                     0);
    for (size_t cap = 0; cap <= 8; cap++) {
        struct out out = out_over(rendered, cap);
        template_render(template, &(struct template_source){&world, put, turn}, &out);
        assert_int_equal(out.overflow, cap < 8);
    }
    template_free(template);
}

static void test_json_cannot_leave_its_script(void **state)
{
    (void)state;
    static const char json[] = "{\"a\":\"</script><!--&\u2028\u2029\u2027é\"}";
    struct out out = out_over(rendered, sizeof(rendered) - 1);
    out_script_json(&out, span_of(json));
    rendered[out.len] = '\0';
    assert_string_equal(rendered, "{\"a\":\"\\u003c/script\\u003e\\u003c!--\\u0026\\u2028\\u2029"
                                  "\u2027é\"}");
    out = out_over(rendered, sizeof(rendered) - 1);
    out_script_json(&out, (struct span){"\xe2\x80", 2}); /* not even half a character is lost */
    assert_int_equal(out.len, 2);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_keys_and_sections),
        cmocka_unit_test(test_values_are_escaped),
        cmocka_unit_test(test_what_is_not_known_is_refused_with_its_line),
        cmocka_unit_test(test_too_little_room_is_told),
        cmocka_unit_test(test_json_cannot_leave_its_script),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
