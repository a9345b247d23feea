/* The published contract and the routes are the same list, in both directions. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <jansson.h>
#include <cmocka.h>

#include "api/api.h"
#include "pages/assets.h"

static json_t *load_contract(void)
{
    for (size_t i = 0; i < web_assets_count; i++) {
        if (strcmp(web_assets[i].path, "openapi.json") == 0) {
            json_error_t error;
            json_t *root = json_loadb((const char *)web_assets[i].data, web_assets[i].len,
                                      JSON_REJECT_DUPLICATES, &error);
            if (root == NULL) {
                fail_msg("openapi.json:%d: %s", error.line, error.text);
            }
            return root;
        }
    }
    fail_msg("the contract is not built in");
    return NULL;
}

static const char *method_key(enum http_method method)
{
    switch (method) {
    case HTTP_GET:
        return "get";
    case HTTP_POST:
        return "post";
    case HTTP_PUT:
        return "put";
    case HTTP_DELETE:
        return "delete";
    default:
        return "";
    }
}

static void test_every_route_is_published(void **state)
{
    (void)state;
    json_t *root = load_contract();
    json_t *paths = json_object_get(root, "paths");
    assert_string_equal("3.1.0", json_string_value(json_object_get(root, "openapi")));
    for (size_t i = 0; i < routes_count; i++) {
        json_t *path = json_object_get(paths, routes[i].pattern);
        if (json_object_get(path, method_key(routes[i].method)) == NULL) {
            fail_msg("not published: %s %s", method_key(routes[i].method), routes[i].pattern);
        }
    }
    json_decref(root);
}

static bool routed(const char *pattern, const char *method)
{
    for (size_t i = 0; i < routes_count; i++) {
        if (strcmp(routes[i].pattern, pattern) == 0 &&
            strcmp(method_key(routes[i].method), method) == 0) {
            return true;
        }
    }
    return false;
}

static void test_everything_published_is_routed(void **state)
{
    (void)state;
    json_t *root = load_contract();
    const char *pattern;
    json_t *path;
    int operations = 0;
    json_object_foreach(json_object_get(root, "paths"), pattern, path)
    {
        const char *method;
        json_t *operation;
        json_object_foreach(path, method, operation)
        {
            if (strcmp(method, "parameters") == 0) {
                continue;
            }
            operations++;
            if (!routed(pattern, method)) {
                fail_msg("published, but not routed: %s %s", method, pattern);
            }
        }
    }
    assert_int_equal(routes_count, operations);
    json_decref(root);
}

/* A call that needs a token says so, and one that does not, does not. */
static void test_security_is_what_the_routes_need(void **state)
{
    (void)state;
    json_t *root = load_contract();
    json_t *paths = json_object_get(root, "paths");
    for (size_t i = 0; i < routes_count; i++) {
        json_t *operation = json_object_get(json_object_get(paths, routes[i].pattern),
                                            method_key(routes[i].method));
        json_t *security = json_object_get(operation, "security");
        json_t *first = json_array_get(security, 0);
        const char *scheme = first == NULL ? "" : json_object_iter_key(json_object_iter(first));
        const char *expected = routes[i].need == NEED_ADMIN   ? "admin"
                               : routes[i].need == NEED_BUYER ? "buyer"
                                                              : scheme;
        if (strcmp(expected, scheme) != 0) {
            fail_msg("%s needs %s, published %s", routes[i].pattern, expected, scheme);
        }
        assert_false(routes[i].need == NEED_NOTHING && first != NULL && scheme[0] != '\0');
    }
    json_decref(root);
}

/* The events that GET /v1/admin/events may show are those the ledger has. */
static void test_every_event_is_published(void **state)
{
    (void)state;
    static const char *const way[] = {"components", "schemas", "Event", "properties",
                                      "type",       "enum",    NULL};
    json_t *root = load_contract();
    json_t *published = root;
    for (const char *const *name = way; *name != NULL; name++) {
        published = json_object_get(published, *name);
    }
    assert_int_equal(json_array_size(published), EVENT_KIND_COUNT - (EVENT_NONE + 1));
    for (int kind = EVENT_NONE + 1; kind < EVENT_KIND_COUNT; kind++) {
        const char *text = ledger_event_text((enum ledger_event_kind)kind);
        size_t i = 0;
        while (i < json_array_size(published) &&
               strcmp(text, json_string_value(json_array_get(published, i))) != 0) {
            i++;
        }
        if (i == json_array_size(published)) {
            fail_msg("not published: %s", text);
        }
    }
    json_decref(root);
}

/* Whether the server can answer with this code. */
static bool is_a_refusal(const char *code)
{
    for (int i = REFUSAL_NONE + 1; i < REFUSAL_COUNT; i++) {
        if (strcmp(refusal_text((enum refusal)i)->code, code) == 0) {
            return true;
        }
    }
    return false;
}

static bool in_list(const json_t *list, const char *text)
{
    for (size_t i = 0; i < json_array_size(list); i++) {
        if (strcmp(json_string_value(json_array_get(list, i)), text) == 0) {
            return true;
        }
    }
    return false;
}

static void expect_refusals(const json_t *codes, int *count)
{
    for (size_t i = 0; i < json_array_size(codes); i++) {
        const char *code = json_string_value(json_array_get(codes, i));
        if (!is_a_refusal(code)) {
            fail_msg("published, but the server cannot answer it: %s", code);
        }
        (*count)++;
    }
}

/* Every list of codes below this value: `code` of an answer with an enum of its own. */
static void expect_refusals_below(json_t *value, int *count)
{
    const char *name;
    json_t *member;
    size_t i;
    json_object_foreach(value, name, member)
    {
        if (strcmp(name, "code") == 0) {
            expect_refusals(json_object_get(member, "enum"), count);
        }
        expect_refusals_below(member, count);
    }
    json_array_foreach(value, i, member)
    {
        expect_refusals_below(member, count);
    }
}

/* The codes that are published are those that the server has, in both directions. */
static void test_every_refusal_is_published_and_nothing_else(void **state)
{
    (void)state;
    json_t *root = load_contract();
    json_t *schemas = json_object_get(json_object_get(root, "components"), "schemas");
    const json_t *codes = json_object_get(json_object_get(schemas, "RefusalCode"), "enum");
    int count = 0;
    expect_refusals(codes, &count);
    for (int i = REFUSAL_NONE + 1; i < REFUSAL_COUNT; i++) {
        if (!in_list(codes, refusal_text((enum refusal)i)->code)) {
            fail_msg("not published: %s", refusal_text((enum refusal)i)->code);
        }
    }
    count = 0;
    expect_refusals_below(root, &count);
    assert_true(count >= 10); /* some were looked at */
    json_decref(root);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_every_refusal_is_published_and_nothing_else),
        cmocka_unit_test(test_every_route_is_published),
        cmocka_unit_test(test_everything_published_is_routed),
        cmocka_unit_test(test_security_is_what_the_routes_need),
        cmocka_unit_test(test_every_event_is_published),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
