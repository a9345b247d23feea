/*
 * The flat JSON reader against jansson.
 *
 * Text that jansson takes is walked by a naive scanner (it knows that the text is JSON, so it only
 * counts brackets and quotes), which says exactly what the flat reader must answer: the keys in
 * their order, those asked for twice, those written with escapes, values nested too deep, and in
 * strict mode the first unknown key. What the reader then gives must be jansson's value, in type
 * and content. Text that jansson refuses is refused, except what jansson cannot hold and JSON
 * allows: numbers out of its range, lone surrogates, a NUL in a key.
 */
#include "fuzz.h"

#include <stdlib.h>

#include <jansson.h>

#include "base/err.h"
#include "base/flat_json.h"

static const char *const keys[] = {"qty", "sub", "exp", "a", ""};
enum { KEYS = sizeof(keys) / sizeof(keys[0]) };

/* ---- the naive scanner: text that jansson took, no question of its being JSON ---- */

struct expected {
    int error;
    struct span unknown; /* with ERR_NOTFOUND */
    bool present[KEYS];
};

static size_t string_end(const char *at, size_t from)
{
    while (at[from] != '"') {
        from += at[from] == '\\' ? 2 : 1;
    }
    return from;
}

static size_t skip_space(const char *at, size_t from)
{
    while (at[from] == ' ' || at[from] == '\t' || at[from] == '\r' || at[from] == '\n') {
        from++;
    }
    return from;
}

/* The end of the value at `from` (a value of the outermost object), and how deep it is nested. */
static size_t value_end(const char *at, size_t from, int *ret_depth)
{
    int depth = 0;
    *ret_depth = 0;
    for (;; from++) {
        char c = at[from];
        if (depth == 0 && (c == ',' || c == '}')) {
            return from;
        }
        if (c == '"') {
            from = string_end(at, from + 1);
        } else if (c == '{' || c == '[') {
            depth++;
            *ret_depth = depth > *ret_depth ? depth : *ret_depth;
        } else if (c == '}' || c == ']') {
            depth--;
        }
    }
}

static int expect_member(struct expected *expected, struct span key, int depth, size_t count,
                         bool strict)
{
    if (depth > FLAT_DEPTH_MAX || memchr(key.at, '\\', key.len) != NULL) {
        return ERR_INVALID;
    }
    for (size_t i = 0; i < count; i++) {
        if (span_is(key, keys[i])) {
            int error = expected->present[i] ? ERR_INVALID : 0;
            expected->present[i] = true;
            return error;
        }
    }
    expected->unknown = key;
    return strict ? ERR_NOTFOUND : 0;
}

static struct expected expect(const char *at, size_t count, bool strict)
{
    struct expected expected = {.error = 0};
    size_t from = skip_space(at, 0);
    if (at[from] != '{') {
        expected.error = ERR_INVALID;
        return expected;
    }
    from = skip_space(at, from + 1);
    while (at[from] != '}' && expected.error == 0) {
        size_t end = string_end(at, from + 1);
        struct span key = {at + from + 1, end - from - 1};
        int depth = 0;
        from = value_end(at, skip_space(at, end + 1) + 1, &depth);
        expected.error = expect_member(&expected, key, depth, count, strict);
        from = skip_space(at, from + (at[from] == ',' ? 1 : 0));
    }
    return expected;
}

/* ---- values ---- */

static void check_number(const struct flat_value *value, const json_t *json)
{
    if (json_is_integer(json)) {
        CHECK(value->kind == FLAT_INTEGER && value->number == json_integer_value(json));
        return;
    }
    char text[8192];
    CHECK(json_is_real(json) && value->kind == FLAT_NUMBER && value->text.len < sizeof(text));
    memcpy(text, value->text.at, value->text.len);
    text[value->text.len] = '\0';
    CHECK(strtod(text, NULL) == json_real_value(json));
}

/* What the reader hands out as raw text is, read by itself, the same value. */
static void check_raw(struct span raw, bool quoted, const json_t *json)
{
    char text[8192];
    struct out out = out_over(text, sizeof(text));
    out_text(&out, quoted ? "[\"" : "[");
    out_put(&out, raw);
    out_text(&out, quoted ? "\"]" : "]");
    CHECK(!out.overflow);
    json_t *again = json_loadb(text, out.len, JSON_ALLOW_NUL, NULL);
    CHECK(again != NULL && json_array_size(again) == 1);
    CHECK(json_equal(json_array_get(again, 0), json));
    json_decref(again);
}

static void check_value(const struct flat_value *value, const json_t *json)
{
    CHECK((value->kind == FLAT_ABSENT) == (json == NULL));
    switch (value->kind) {
    case FLAT_ABSENT:
        return;
    case FLAT_NULL:
        CHECK(json_is_null(json));
        return;
    case FLAT_BOOL:
        CHECK(json_is_boolean(json) && value->truth == json_is_true(json));
        return;
    case FLAT_INTEGER:
    case FLAT_NUMBER:
        check_number(value, json);
        return;
    case FLAT_STRING:
        CHECK(json_is_string(json));
        CHECK(value->escaped ==
              (value->text.len > 0 && memchr(value->text.at, '\\', value->text.len) != NULL));
        if (!value->escaped) {
            CHECK(span_equal(value->text,
                             (struct span){json_string_value(json), json_string_length(json)}));
        }
        check_raw(value->text, true, json);
        return;
    case FLAT_NESTED:
        CHECK(json_is_object(json) || json_is_array(json));
        check_raw(value->text, false, json);
        return;
    }
}

/* JSON by its grammar, and yet nothing jansson can hold. */
static bool beyond_jansson(const json_error_t *error)
{
    enum json_error_code code = json_error_code(error);
    return code == json_error_numeric_overflow || code == json_error_null_byte_in_key ||
           (code == json_error_invalid_syntax &&
            strncmp(error->text, "invalid Unicode", strlen("invalid Unicode")) == 0);
}

int LLVMFuzzerTestOneInput(const uint8_t *bytes, size_t size)
{
    struct fuzz_input in = {bytes, size};
    uint8_t choice = fuzz_byte(&in);
    bool strict = (choice & 1) != 0;
    size_t count = (choice >> 1) % (KEYS + 1);
    struct span text = fuzz_span(&in, 4096);
    if (text.len == 0) {
        return 0;
    }
    struct flat_field fields[KEYS];
    for (size_t i = 0; i < KEYS; i++) {
        fields[i] = (struct flat_field){.key = keys[i]};
    }
    struct span unknown = {NULL, 0};
    int error = flat_json_read(text, fields, count, strict, &unknown);
    CHECK(error == 0 || error == ERR_INVALID || (error == ERR_NOTFOUND && strict));
    /* jansson 2.14 loses a NUL behind a number; there is none in JSON, wherever it stands. */
    if (memchr(text.at, '\0', text.len) != NULL) {
        CHECK(error != 0);
        return 0;
    }
    json_error_t said;
    json_t *json = json_loadb(text.at, text.len, JSON_ALLOW_NUL | JSON_DECODE_ANY, &said);
    if (json == NULL) {
        /* In strict mode the reader stops at a key it does not know, before what is wrong. */
        CHECK(error != 0 || beyond_jansson(&said));
        return 0;
    }
    struct expected expected = expect(text.at, count, strict);
    CHECK(error == expected.error);
    CHECK(error != ERR_NOTFOUND || span_equal(unknown, expected.unknown));
    for (size_t i = 0; i < count && error == 0; i++) {
        CHECK((fields[i].value.kind != FLAT_ABSENT) == expected.present[i]);
        check_value(&fields[i].value, json_object_get(json, keys[i]));
    }
    json_decref(json);
    return 0;
}
