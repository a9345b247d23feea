/* See http_reading.h. */
#include "http_reading.h"

#include "base/check.h"

/* The line at `at`, without its CR LF; *ret_next is behind it. */
static struct span line_at(struct span stream, size_t at, size_t *ret_next)
{
    size_t end = at;
    while (end + 1 < stream.len && !(stream.at[end] == '\r' && stream.at[end + 1] == '\n')) {
        CHECK(stream.at[end] != '\r' && stream.at[end] != '\n' && stream.at[end] != '\0');
        end++;
    }
    CHECK(end + 1 < stream.len);
    *ret_next = end + 2;
    return (struct span){stream.at + at, end - at};
}

static struct span trimmed(struct span text)
{
    while (text.len > 0 && (text.at[0] == ' ' || text.at[0] == '\t')) {
        text.at++;
        text.len--;
    }
    while (text.len > 0 && (text.at[text.len - 1] == ' ' || text.at[text.len - 1] == '\t')) {
        text.len--;
    }
    return text;
}

/* Up to the byte `c`; the rest behind it in *ret_rest, with at NULL where there is no c. */
static struct span cut(struct span text, char c, struct span *ret_rest)
{
    for (size_t i = 0; i < text.len; i++) {
        if (text.at[i] == c) {
            *ret_rest = (struct span){text.at + i + 1, text.len - i - 1};
            return (struct span){text.at, i};
        }
    }
    *ret_rest = (struct span){NULL, 0};
    return text;
}

/* How often the header is there, from the line at `at` to the empty one; its value, if it is. */
static unsigned find_header(struct span stream, size_t at, const char *name, struct span *ret_value)
{
    unsigned count = 0;
    *ret_value = (struct span){NULL, 0};
    for (;;) {
        struct span value;
        struct span line = line_at(stream, at, &at);
        if (line.len == 0) {
            return count;
        }
        struct span found = cut(line, ':', &value);
        CHECK(value.at != NULL && found.len > 0);
        CHECK(memchr(found.at, ' ', found.len) == NULL &&
              memchr(found.at, '\t', found.len) == NULL);
        if (span_equal_nocase(found, span_of(name))) {
            count++;
            *ret_value = trimmed(value);
        }
    }
}

static size_t skip_headers(struct span stream, size_t at)
{
    while (line_at(stream, at, &at).len > 0) {
    }
    return at;
}

static size_t number_of(struct span digits, unsigned base)
{
    size_t value = 0;
    CHECK(digits.len > 0);
    for (size_t i = 0; i < digits.len; i++) {
        char c = digits.at[i];
        unsigned digit =
            c >= '0' && c <= '9' ? (unsigned)(c - '0') : (unsigned)(c | 0x20) - 'a' + 10;
        CHECK(digit < base && value <= HTTP_BODY_MAX);
        value = value * base + digit;
    }
    return value;
}

/* A chunked body at `at` is these bytes. Returns what lies behind its trailers. */
static size_t check_chunks(struct span stream, size_t at, struct span body)
{
    size_t done = 0;
    for (;;) {
        struct span extensions;
        struct span size_line = line_at(stream, at, &at);
        size_t size = number_of(cut(size_line, ';', &extensions), 16);
        if (size == 0) {
            CHECK(done == body.len);
            return skip_headers(stream, at);
        }
        CHECK(size <= body.len - done && size + 2 <= stream.len - at);
        CHECK(memcmp(stream.at + at, body.at + done, size) == 0);
        CHECK(memcmp(stream.at + at + size, "\r\n", 2) == 0);
        at += size + 2;
        done += size;
    }
}

static size_t check_body(struct span stream, size_t headers, struct span body)
{
    struct span length;
    struct span coding;
    size_t at = skip_headers(stream, headers);
    unsigned lengths = find_header(stream, headers, "content-length", &length);
    unsigned codings = find_header(stream, headers, "transfer-encoding", &coding);
    CHECK(lengths + codings <= 1); /* the stuff of smuggling: both, or one of them twice */
    if (codings > 0) {
        CHECK(span_equal_nocase(coding, span_of("chunked")));
        return check_chunks(stream, at, body);
    }
    size_t len = lengths > 0 ? number_of(length, 10) : 0;
    CHECK(len == body.len && len <= stream.len - at);
    CHECK(len == 0 || memcmp(stream.at + at, body.at, len) == 0);
    return at + len;
}

static void check_method(struct span word, enum http_method method)
{
    static const char *const words[] = {
        [HTTP_GET] = "GET", [HTTP_HEAD] = "HEAD",     [HTTP_POST] = "POST",
        [HTTP_PUT] = "PUT", [HTTP_DELETE] = "DELETE", [HTTP_OPTIONS] = "OPTIONS",
    };
    bool listed = false;
    for (size_t i = 0; i < sizeof(words) / sizeof(words[0]); i++) {
        bool is = span_is(word, words[i]);
        CHECK(is == (method == (enum http_method)i));
        listed = listed || is;
    }
    CHECK(listed == (method != HTTP_OTHER));
}

/* Origin form; of an absolute one what begins behind the authority; or "*". */
static void check_target(struct span target, const struct http_request *request,
                         struct span *ret_path)
{
    struct span query;
    if (target.at[0] != '/' && !span_is(target, "*")) {
        const char *authority = memchr(target.at, ':', target.len);
        CHECK(authority != NULL);
        authority += 3;
        size_t len = target.len - (size_t)(authority - target.at);
        size_t end = 0;
        while (end < len && authority[end] != '/' && authority[end] != '?') {
            end++;
        }
        CHECK(end > 0);
        target = (struct span){authority + end, len - end};
    }
    struct span path = cut(target, '?', &query);
    path = path.len == 0 ? span_of("/") : path;
    CHECK(span_equal(path, request->path) && span_equal(query, request->query));
    *ret_path = path;
}

size_t http_reading_start(const struct http_reading *reading)
{
    size_t at = reading->at;
    while (at + 1 < reading->stream.len && memcmp(reading->stream.at + at, "\r\n", 2) == 0) {
        at += 2;
    }
    return at;
}

/* Headers that may come again, and then say nothing. */
static bool is_list(const char *name)
{
    return strcmp(name, "accept") == 0 || strcmp(name, "accept-encoding") == 0;
}

void http_reading_next(struct http_reading *reading, const struct http_request *request,
                       struct span *ret_path)
{
    struct span stream = reading->stream;
    struct span rest;
    struct span version;
    size_t headers = 0;
    struct span line = line_at(stream, http_reading_start(reading), &headers);
    check_method(cut(line, ' ', &rest), request->method);
    CHECK(rest.at != NULL);
    struct span target = cut(rest, ' ', &version);
    CHECK(target.len > 0);
    CHECK(span_is(version, "HTTP/1.1") || span_is(version, "HTTP/1.0"));
    check_target(target, request, ret_path);
#define X(field, name)                                                                             \
    {                                                                                              \
        struct span value;                                                                         \
        unsigned count = find_header(stream, headers, name, &value);                               \
        CHECK((count <= 1 || is_list(name)) && (count > 0) == (request->field.at != NULL));        \
        CHECK(count <= 1 ? span_equal(value, request->field) : request->field.len == 0);           \
    }
    HTTP_HEADERS(X)
#undef X
    reading->at = check_body(stream, headers, request->body);
}
