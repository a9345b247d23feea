/* See flat_json.h. One pass over the bytes; nothing is written until a value is complete. */
#include "base/flat_json.h"

#include "base/err.h"

struct reader {
    const char *at;
    const char *end;
};

static void skip_space(struct reader *r)
{
    while (r->at < r->end &&
           (*r->at == ' ' || *r->at == '\t' || *r->at == '\n' || *r->at == '\r')) {
        r->at++;
    }
}

static bool take(struct reader *r, char c)
{
    if (r->at < r->end && *r->at == c) {
        r->at++;
        return true;
    }
    return false;
}

static bool is_hex(char c)
{
    return (c >= '0' && c <= '9') || (c >= 'a' && c <= 'f') || (c >= 'A' && c <= 'F');
}

/* After a backslash. */
static bool read_escape(struct reader *r)
{
    if (r->at == r->end) {
        return false;
    }
    char c = *r->at++;
    if (c != 'u') {
        return c == '"' || c == '\\' || c == '/' || c == 'b' || c == 'f' || c == 'n' || c == 'r' ||
               c == 't';
    }
    if (r->end - r->at < 4) {
        return false;
    }
    for (int i = 0; i < 4; i++) {
        if (!is_hex(*r->at++)) {
            return false;
        }
    }
    return true;
}

static int read_string(struct reader *r, struct span *ret_text, bool *ret_escaped)
{
    if (!take(r, '"')) {
        return ERR_INVALID;
    }
    const char *from = r->at;
    bool escaped = false;
    while (r->at < r->end && *r->at != '"') {
        unsigned char c = (unsigned char)*r->at++;
        if (c < 0x20) {
            return ERR_INVALID;
        }
        if (c == '\\') {
            escaped = true;
            if (!read_escape(r)) {
                return ERR_INVALID;
            }
        }
    }
    *ret_text = (struct span){from, (size_t)(r->at - from)};
    *ret_escaped = escaped;
    return take(r, '"') && span_is_utf8(*ret_text) ? 0 : ERR_INVALID;
}

static size_t skip_digits(struct reader *r)
{
    const char *from = r->at;
    while (r->at < r->end && *r->at >= '0' && *r->at <= '9') {
        r->at++;
    }
    return (size_t)(r->at - from);
}

static int read_number(struct reader *r, struct flat_value *value)
{
    const char *from = r->at;
    bool negative = take(r, '-');
    const char *digits = r->at;
    size_t count = skip_digits(r);
    if (count == 0 || (count > 1 && *digits == '0')) {
        return ERR_INVALID;
    }
    bool whole = true;
    if (take(r, '.')) {
        whole = false;
        if (skip_digits(r) == 0) {
            return ERR_INVALID;
        }
    }
    if (r->at < r->end && (*r->at == 'e' || *r->at == 'E')) {
        whole = false;
        r->at++;
        if (!take(r, '+')) {
            (void)take(r, '-');
        }
        if (skip_digits(r) == 0) {
            return ERR_INVALID;
        }
    }
    value->text = (struct span){from, (size_t)(r->at - from)};
    value->kind = FLAT_NUMBER;
    uint64_t magnitude = 0;
    uint64_t most = (uint64_t)INT64_MAX + negative; /* INT64_MIN is one further from 0 */
    if (whole && span_parse_u64((struct span){digits, count}, most, &magnitude) == 0) {
        value->kind = FLAT_INTEGER;
        value->number = (int64_t)(negative ? 0 - magnitude : magnitude);
    }
    return 0;
}

static int read_word(struct reader *r, const char *word)
{
    for (; *word != '\0'; word++) {
        if (!take(r, *word)) {
            return ERR_INVALID;
        }
    }
    return 0;
}

/* A value that is neither object nor array. */
static int read_scalar(struct reader *r, struct flat_value *value)
{
    if (r->at == r->end) {
        return ERR_INVALID;
    }
    switch (*r->at) {
    case '"':
        value->kind = FLAT_STRING;
        return read_string(r, &value->text, &value->escaped);
    case 't':
        value->kind = FLAT_BOOL;
        value->truth = true;
        return read_word(r, "true");
    case 'f':
        value->kind = FLAT_BOOL;
        return read_word(r, "false");
    case 'n':
        value->kind = FLAT_NULL;
        return read_word(r, "null");
    default:
        return read_number(r, value);
    }
}

/* Reads one element of a nested value, up to the comma or closing bracket after it. *ret_opened:
 * the element opens a bracket, and its first element comes next. */
static int read_element(struct reader *r, bool in_object, bool *ret_opened, char *ret_close)
{
    struct flat_value ignored = {.kind = FLAT_ABSENT};
    skip_space(r);
    if (in_object) {
        if (read_string(r, &ignored.text, &ignored.escaped) != 0) {
            return ERR_INVALID;
        }
        skip_space(r);
        if (!take(r, ':')) {
            return ERR_INVALID;
        }
        skip_space(r);
    }
    *ret_opened = r->at < r->end && (*r->at == '{' || *r->at == '[');
    if (*ret_opened) {
        *ret_close = *r->at++ == '{' ? '}' : ']';
        return 0;
    }
    return read_scalar(r, &ignored);
}

/* A nested object or array, checked and skipped, with a stack of what closes it. */
static int skip_nested(struct reader *r)
{
    char close[FLAT_DEPTH_MAX];
    size_t depth = 0;
    close[depth++] = *r->at++ == '{' ? '}' : ']';
    bool first = true;
    while (depth > 0) {
        skip_space(r);
        if ((r->at < r->end && *r->at == close[depth - 1])) {
            r->at++;
            depth--;
            first = false;
            continue;
        }
        if (!first && !take(r, ',')) {
            return ERR_INVALID;
        }
        bool opened = false;
        char closes = 0;
        if (read_element(r, close[depth - 1] == '}', &opened, &closes) != 0) {
            return ERR_INVALID;
        }
        first = opened;
        if (opened) {
            if (depth == FLAT_DEPTH_MAX) {
                return ERR_INVALID;
            }
            close[depth++] = closes;
        }
    }
    return 0;
}

static int read_value(struct reader *r, struct flat_value *value)
{
    if (r->at < r->end && (*r->at == '{' || *r->at == '[')) {
        const char *from = r->at;
        int error = skip_nested(r);
        value->kind = FLAT_NESTED;
        value->text = (struct span){from, (size_t)(r->at - from)};
        return error;
    }
    return read_scalar(r, value);
}

static struct flat_field *find_field(struct flat_field *fields, size_t count, struct span key)
{
    for (size_t i = 0; i < count; i++) {
        if (span_is(key, fields[i].key)) {
            return &fields[i];
        }
    }
    return NULL;
}

static int read_member(struct reader *r, struct flat_field *fields, size_t count, bool strict,
                       struct span *ret_unknown)
{
    struct span key;
    bool escaped = false;
    struct flat_value value = {.kind = FLAT_ABSENT};
    skip_space(r);
    if (read_string(r, &key, &escaped) != 0) {
        return ERR_INVALID;
    }
    skip_space(r);
    if (!take(r, ':')) {
        return ERR_INVALID;
    }
    skip_space(r);
    if (read_value(r, &value) != 0) {
        return ERR_INVALID;
    }
    /* An escaped key could be one of the fields in disguise, and so a duplicate: refuse it. */
    if (escaped) {
        return ERR_INVALID;
    }
    struct flat_field *field = find_field(fields, count, key);
    if (field == NULL) {
        if (strict) {
            *ret_unknown = key;
            return ERR_NOTFOUND;
        }
        return 0;
    }
    if (field->value.kind != FLAT_ABSENT) {
        return ERR_INVALID;
    }
    field->value = value;
    return 0;
}

int flat_json_read(struct span text, struct flat_field *fields, size_t count, bool strict,
                   struct span *ret_unknown)
{
    struct reader r = {text.at, text.at + text.len};
    for (size_t i = 0; i < count; i++) {
        fields[i].value = (struct flat_value){.kind = FLAT_ABSENT};
    }
    skip_space(&r);
    if (!take(&r, '{')) {
        return ERR_INVALID;
    }
    skip_space(&r);
    if (!take(&r, '}')) {
        do {
            int error = read_member(&r, fields, count, strict, ret_unknown);
            if (error != 0) {
                return error;
            }
            skip_space(&r);
        } while (take(&r, ','));
        if (!take(&r, '}')) {
            return ERR_INVALID;
        }
    }
    skip_space(&r);
    return r.at == r.end ? 0 : ERR_INVALID;
}
