/*
 * The parser, as a table of what arrives and what becomes of it. Each row is tried whole, byte by
 * byte, and cut in two at every place: where the bytes are cut must never matter.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>

#include "base/prng.h"
#include "http/parser.h"
#include <cmocka.h>

#define H "Host: a\r\n"

struct outcome {
    enum http_step step;
    enum refusal refusal;
    enum http_method method;
    bool keep_alive;
    size_t left; /* bytes behind the request */
    char path[4096];
    char query[256];
    char body[2048];
    size_t body_len;
};

/* A place for bytes that ends where they end, so that the sanitizer sees a read beyond them. */
static char *grow(char *bytes, size_t len, const char *more, size_t more_len)
{
    char *bigger = malloc(len + more_len > 0 ? len + more_len : 1);
    assert_non_null(bigger);
    memcpy(bigger, bytes, len);
    memcpy(bigger + len, more, more_len);
    free(bytes);
    return bigger;
}

static void note(const struct http_parsed *parsed, size_t len, struct outcome *ret)
{
    const struct http_request *r = &parsed->request;
    ret->method = r->method;
    ret->keep_alive = parsed->keep_alive;
    ret->left = len - parsed->consumed;
    (void)snprintf(ret->path, sizeof(ret->path), "%.*s", (int)r->path.len, r->path.at);
    (void)snprintf(ret->query, sizeof(ret->query), "%.*s", (int)r->query.len,
                   r->query.at == NULL ? "" : r->query.at);
    ret->body_len = r->body.len;
    if (r->body.len < sizeof(ret->body)) {
        memcpy(ret->body, r->body.at, r->body.len);
        ret->body[r->body.len] = '\0';
    }
}

/* Feeds the text cut at each given place, as a connection would. */
static struct outcome feed(struct span text, const size_t *cuts, size_t cut_count)
{
    struct outcome ret;
    struct http_progress progress = {0};
    struct http_parsed parsed;
    char *bytes = malloc(1);
    size_t len = 0;
    size_t at = 0;
    memset(&ret, 0, sizeof(ret));
    memset(&parsed, 0, sizeof(parsed));
    ret.step = HTTP_STEP_MORE;
    for (size_t i = 0; i <= cut_count && ret.step == HTTP_STEP_MORE; i++) {
        size_t to = i < cut_count ? cuts[i] : text.len;
        bytes = grow(bytes, len, text.at + at, to - at);
        len += to - at;
        at = to;
        do {
            ret.step = http_parser_step(&progress, bytes, &len, &parsed);
            if (ret.step == HTTP_STEP_BLANK) {
                len -= parsed.consumed;
                memmove(bytes, bytes + parsed.consumed, len);
            }
        } while (ret.step == HTTP_STEP_BLANK);
    }
    if (ret.step == HTTP_STEP_DONE) {
        note(&parsed, len + (text.len - at), &ret);
    }
    ret.refusal = ret.step == HTTP_STEP_REFUSED ? parsed.refusal : REFUSAL_NONE;
    free(bytes);
    return ret;
}

static void expect_same(const struct outcome *a, const struct outcome *b, const char *text)
{
    if (a->step != b->step || a->refusal != b->refusal || a->left != b->left ||
        a->body_len != b->body_len || strcmp(a->path, b->path) != 0 ||
        strcmp(a->body, b->body) != 0) {
        fail_msg("cut differently, read differently (%d/%d, %d/%d): %s", a->step, b->step,
                 a->refusal, b->refusal, text);
    }
}

/* The outcome of the text, whichever way it comes in pieces. */
static struct outcome parse(struct span text)
{
    struct outcome whole = feed(text, NULL, 0);
    size_t *every = calloc(text.len + 1, sizeof(*every));
    for (size_t i = 0; i + 1 < text.len; i++) {
        every[i] = i + 1;
    }
    struct outcome single = feed(text, every, text.len == 0 ? 0 : text.len - 1);
    expect_same(&whole, &single, text.at);
    free(every);
    for (size_t cut = 1; cut < text.len && text.len < 600; cut++) {
        struct outcome two = feed(text, &cut, 1);
        expect_same(&whole, &two, text.at);
    }
    return whole;
}

static struct outcome parse_text(const char *text)
{
    return parse(span_of(text));
}

static void expect_refused(const char *text, enum refusal refusal)
{
    struct outcome o = parse_text(text);
    if (o.step != HTTP_STEP_REFUSED || o.refusal != refusal) {
        fail_msg("step %d, refusal %d instead of %d: %s", o.step, o.refusal, refusal, text);
    }
}

static void test_plain_requests(void **state)
{
    (void)state;
    struct outcome o = parse_text("GET /v1/items/7?a=b&c HTTP/1.1\r\n" H "\r\n");
    assert_int_equal(o.step, HTTP_STEP_DONE);
    assert_int_equal(o.method, HTTP_GET);
    assert_string_equal(o.path, "/v1/items/7");
    assert_string_equal(o.query, "a=b&c");
    assert_true(o.keep_alive);
    assert_int_equal(o.left, 0);

    o = parse_text("POST /x HTTP/1.1\r\n" H "Content-Length: 5\r\n\r\nhelloGET /");
    assert_int_equal(o.step, HTTP_STEP_DONE);
    assert_string_equal(o.body, "hello");
    assert_int_equal(o.left, 5);

    o = parse_text("\r\n\r\nGET / HTTP/1.1\r\n" H "\r\n");
    assert_int_equal(o.step, HTTP_STEP_DONE);
}

static void test_methods(void **state)
{
    (void)state;
    static const struct {
        const char *word;
        enum http_method method;
    } known[] = {{"GET", HTTP_GET},        {"HEAD", HTTP_HEAD},     {"POST", HTTP_POST},
                 {"PUT", HTTP_PUT},        {"DELETE", HTTP_DELETE}, {"OPTIONS", HTTP_OPTIONS},
                 {"PATCH", HTTP_OTHER},    {"TRACE", HTTP_OTHER},   {"PROPFIND", HTTP_OTHER},
                 {"M-SEARCH", HTTP_OTHER}, {"UNLINK", HTTP_OTHER}};
    for (size_t i = 0; i < sizeof(known) / sizeof(known[0]); i++) {
        char text[128];
        (void)snprintf(text, sizeof(text), "%s / HTTP/1.1\r\n" H "\r\n", known[i].word);
        struct outcome o = parse_text(text);
        assert_int_equal(o.step, HTTP_STEP_DONE);
        assert_int_equal(o.method, known[i].method);
    }
    expect_refused("CONNECT a:80 HTTP/1.1\r\n" H "\r\n", REFUSAL_NOT_IMPLEMENTED);
    expect_refused("BREW / HTTP/1.1\r\n" H "\r\n", REFUSAL_NOT_IMPLEMENTED);
    expect_refused("get / HTTP/1.1\r\n" H "\r\n", REFUSAL_NOT_IMPLEMENTED);
    expect_refused("SOURCE / HTTP/1.1\r\n" H "\r\n", REFUSAL_NOT_IMPLEMENTED);
    expect_refused("DESCRIBE / RTSP/1.0\r\n" H "\r\n", REFUSAL_BAD_REQUEST);
    expect_refused("SOURCE / ICE/1.0\r\n" H "\r\n", REFUSAL_BAD_REQUEST);
    expect_refused("G(T / HTTP/1.1\r\n" H "\r\n", REFUSAL_BAD_REQUEST);
}

static void test_versions(void **state)
{
    (void)state;
    expect_refused("PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n", REFUSAL_BAD_VERSION);
    expect_refused("GET / HTTP/2.0\r\n" H "\r\n", REFUSAL_BAD_VERSION);
    expect_refused("GET / HTTP/0.9\r\n" H "\r\n", REFUSAL_BAD_VERSION);
    expect_refused("GET / HTTP/1.2\r\n" H "\r\n", REFUSAL_BAD_VERSION);
    expect_refused("GET / HTTP/3.1\r\n" H "\r\n", REFUSAL_BAD_VERSION);
    expect_refused("GET /\r\n", REFUSAL_BAD_REQUEST);
    expect_refused("GET / http/1.1\r\n" H "\r\n", REFUSAL_BAD_REQUEST);
    expect_refused("GET  / HTTP/1.1\r\n" H "\r\n", REFUSAL_BAD_REQUEST);
    expect_refused("GET /  HTTP/1.1\r\n" H "\r\n", REFUSAL_BAD_REQUEST);
    expect_refused("GET HTTP/1.1\r\n" H "\r\n", REFUSAL_BAD_REQUEST);
    expect_refused("GET / HTTP/11\r\n" H "\r\n", REFUSAL_BAD_REQUEST);
    expect_refused("GET / HTTP/1.1 \r\n" H "\r\n", REFUSAL_BAD_REQUEST);
    expect_refused("GET / XTTP/1.1\r\n" H "\r\n", REFUSAL_BAD_REQUEST);
    expect_refused("\x16\x03\x01\x02", REFUSAL_BAD_REQUEST);
}

static void test_connection_options(void **state)
{
    (void)state;
    static const struct {
        const char *text;
        bool keep_alive;
    } rows[] = {
        {"GET / HTTP/1.1\r\n" H "\r\n", true},
        {"GET / HTTP/1.1\r\n" H "Connection: close\r\n\r\n", false},
        {"GET / HTTP/1.1\r\n" H "Connection: Keep-Alive, Close\r\n\r\n", false},
        {"GET / HTTP/1.1\r\n" H "Connection: foo\r\nConnection: close\r\n\r\n", false},
        {"GET / HTTP/1.0\r\n\r\n", false},
        {"GET / HTTP/1.0\r\nConnection: keep-alive\r\n\r\n", true},
        {"GET / HTTP/1.0\r\nConnection: keep-alive, close\r\n\r\n", false},
        {"GET / HTTP/1.1\r\n" H "Connection: Upgrade\r\nUpgrade: h2c\r\n\r\n", true},
        {"GET / HTTP/1.1\r\n" H "Upgrade: websocket\r\nConnection: keep-alive, upgrade\r\n\r\n",
         true},
    };
    for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
        struct outcome o = parse_text(rows[i].text);
        assert_int_equal(o.step, HTTP_STEP_DONE);
        assert_int_equal(o.keep_alive, rows[i].keep_alive);
    }
    /* An upgrade that nobody asked us to understand does not eat the next request. */
    struct outcome o = parse_text("POST / HTTP/1.1\r\n" H "Connection: upgrade\r\nUpgrade: x\r\n"
                                  "Content-Length: 2\r\n\r\nabGET");
    assert_int_equal(o.step, HTTP_STEP_DONE);
    assert_string_equal(o.body, "ab");
    assert_int_equal(o.left, 3);
}

static void test_targets(void **state)
{
    (void)state;
    static const struct {
        const char *target;
        const char *path; /* NULL: refused */
        const char *query;
    } rows[] = {
        {"/", "/", ""},
        {"/a%20b", "/a%20b", ""},
        {"/?", "/", ""},
        {"//evil", "//evil", ""},
        {"http://a/b?c", "/b", "c"},
        {"HTTPS://a:443/b", "/b", ""},
        {"http://a", "/", ""},
        {"http://a?x", "/", "x"},
        {"http://", NULL, ""},
        {"http:///b", NULL, ""},
        {"http://u@a/b", NULL, ""},
        {"ftp://a/b", NULL, ""},
        {"b", NULL, ""},
        {"*", NULL, ""},
        {"/a#b", NULL, ""},
        {"/a\tb", NULL, ""},
        {"/a\x0c", NULL, ""},
        {"/\xc3\xa9", NULL, ""},
        {"/a\x7f", NULL, ""},
        {"/a\x01", NULL, ""},
        {"/a b", NULL, ""},
        {"", NULL, ""},
    };
    for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
        char text[256];
        (void)snprintf(text, sizeof(text), "GET %s HTTP/1.1\r\n" H "\r\n", rows[i].target);
        if (rows[i].path == NULL) {
            expect_refused(text, REFUSAL_BAD_REQUEST);
            continue;
        }
        struct outcome o = parse_text(text);
        assert_int_equal(o.step, HTTP_STEP_DONE);
        assert_string_equal(o.path, rows[i].path);
        assert_string_equal(o.query, rows[i].query);
    }
    struct outcome o = parse_text("OPTIONS * HTTP/1.1\r\n" H "\r\n");
    assert_int_equal(o.step, HTTP_STEP_DONE);
    assert_string_equal(o.path, "*");
}

static void test_lines(void **state)
{
    (void)state;
    expect_refused("GET / HTTP/1.1\n" H "\r\n", REFUSAL_BAD_REQUEST);
    expect_refused("GET / HTTP/1.1\r\nHost: a\n\r\n", REFUSAL_BAD_REQUEST);
    expect_refused("GET / HTTP/1.1\r\nHost: a\r\n\n", REFUSAL_BAD_REQUEST);
    expect_refused("GET / HTTP/1.1\r\nHost: a\rX: b\r\n\r\n", REFUSAL_BAD_REQUEST);
    expect_refused("GET / HTTP/1.1\r\nHost: a\r\r\n\r\n", REFUSAL_BAD_REQUEST);
    expect_refused("GET / HTTP/1.1\r\n" H "X:\rContent-Length: 3\r\n\r\n", REFUSAL_BAD_REQUEST);
    expect_refused("GET / HTTP/1.1\r\n" H "X: a\r\n b\r\n\r\n", REFUSAL_BAD_REQUEST);
    expect_refused("GET / HTTP/1.1\r\n" H "X: a\r\n\tb\r\n\r\n", REFUSAL_BAD_REQUEST);
    expect_refused("GET / HTTP/1.1\r\n Host: a\r\n\r\n", REFUSAL_BAD_REQUEST);
    expect_refused("GET / HTTP/1.1\r\nHost : a\r\n\r\n", REFUSAL_BAD_REQUEST);
    expect_refused("GET / HTTP/1.1\r\nHost\t: a\r\n\r\n", REFUSAL_BAD_REQUEST);
    expect_refused("GET / HTTP/1.1\r\n" H "A B: c\r\n\r\n", REFUSAL_BAD_REQUEST);
    expect_refused("GET / HTTP/1.1\r\n" H ": c\r\n\r\n", REFUSAL_BAD_REQUEST);
    expect_refused("GET / HTTP/1.1\r\n" H "nocolon\r\n\r\n", REFUSAL_BAD_REQUEST);
    expect_refused("GET / HTTP/1.1\r\n" H "A(: c\r\n\r\n", REFUSAL_BAD_REQUEST);
    expect_refused("GET / HTTP/1.1\r\n" H "A\xc3: c\r\n\r\n", REFUSAL_BAD_REQUEST);
    expect_refused("GET / HTTP/1.1\r\n" H "X: a\x01z\r\n\r\n", REFUSAL_BAD_REQUEST);
    expect_refused("GET / HTTP/1.1\r\n" H "X: a\x7fz\r\n\r\n", REFUSAL_BAD_REQUEST);
    expect_refused(" GET / HTTP/1.1\r\n" H "\r\n", REFUSAL_BAD_REQUEST);
    expect_refused("\r\n\r\n\r\n\r\n\r\n", REFUSAL_BAD_REQUEST);
    expect_refused("\nGET / HTTP/1.1\r\n" H "\r\n", REFUSAL_BAD_REQUEST);
    expect_refused("\rGET / HTTP/1.1\r\n" H "\r\n", REFUSAL_BAD_REQUEST);

    static const char nul[] = "GET / HTTP/1.1\r\n" H "X: a\0b\r\n\r\n";
    struct outcome o = parse((struct span){nul, sizeof(nul) - 1});
    assert_int_equal(o.refusal, REFUSAL_BAD_REQUEST);
    static const char nul_target[] = "GET /a\0b HTTP/1.1\r\n" H "\r\n";
    o = parse((struct span){nul_target, sizeof(nul_target) - 1});
    assert_int_equal(o.refusal, REFUSAL_BAD_REQUEST);

    /* Allowed, if unusual: tabs and bytes above ASCII in values, no space behind the colon. */
    o = parse_text("GET / HTTP/1.1\r\nHost:a\r\nX:\t a\tb\xff \r\nY:\r\n\r\n");
    assert_int_equal(o.step, HTTP_STEP_DONE);
}

static void test_header_values(void **state)
{
    (void)state;
    char text[] = "POST / HTTP/1.1\r\nHOST:  a:80 \t\r\nauthorization: Bearer x\r\n"
                  "Content-Type:application/json\r\nX-Forwarded-For: 1.2.3.4\r\n"
                  "Webhook-Timestamp: 12\r\nWEBHOOK-SIGNATURE: v1,abc=\r\nwebhook-id: i\r\n"
                  "If-None-Match: \"a\"\r\nLast-Event-ID: 9\r\nOrigin: http://a\r\n"
                  "Access-Control-Request-Method: PUT\r\nX-Other: z\r\nExpect:100-Continue\r\n"
                  "Content-Length: 0\r\n\r\n";
    struct http_progress progress = {0};
    struct http_parsed parsed;
    size_t len = sizeof(text) - 1;
    assert_int_equal(http_parser_step(&progress, text, &len, &parsed), HTTP_STEP_DONE);
    const struct http_request *r = &parsed.request;
    assert_true(span_is(r->host, "a:80"));
    assert_true(span_is(r->authorization, "Bearer x"));
    assert_true(span_is(r->content_type, "application/json"));
    assert_true(span_is(r->webhook_timestamp, "12"));
    assert_true(span_is(r->webhook_signature, "v1,abc="));
    assert_true(span_is(r->webhook_id, "i"));
    assert_true(span_is(r->if_none_match, "\"a\""));
    assert_true(span_is(r->last_event_id, "9"));
    assert_true(span_is(r->origin, "http://a"));
    assert_true(span_is(r->access_control_request_method, "PUT"));
    assert_true(span_is(r->expect, "100-Continue"));

    expect_refused("GET / HTTP/1.1\r\n" H "Origin: a\r\norigin: a\r\n\r\n", REFUSAL_BAD_REQUEST);
    expect_refused("GET / HTTP/1.1\r\n" H "Origin:\r\norigin: a\r\n\r\n", REFUSAL_BAD_REQUEST);
    expect_refused("GET / HTTP/1.1\r\n" H "Authorization: a\r\nAuthorization: b\r\n\r\n",
                   REFUSAL_BAD_REQUEST);
    /* Lists may be, and count as absent then; others are not looked at. */
    static const char list[] = "GET / HTTP/1.1\r\n" H "Accept: a\r\nAccept-Encoding: gzip\r\n";
    for (int lines = 1; lines <= 3; lines++) {
        struct http_progress again = {0};
        char copy[256];
        len = (size_t)snprintf(copy, sizeof(copy), "%s%s%s\r\n", list,
                               lines > 1 ? "accept-encoding: br\r\n" : "",
                               lines > 2 ? "Accept-Encoding: gzip\r\n" : "");
        assert_int_equal(http_parser_step(&again, copy, &len, &parsed), HTTP_STEP_DONE);
        assert_true(span_is(parsed.request.accept, "a"));
        assert_true(span_is(parsed.request.accept_encoding, lines == 1 ? "gzip" : ""));
    }
    struct outcome o = parse_text("GET / HTTP/1.1\r\n" H "Cookie: a\r\nCookie: b\r\n\r\n");
    assert_int_equal(o.step, HTTP_STEP_DONE);
}

static void test_host(void **state)
{
    (void)state;
    expect_refused("GET / HTTP/1.1\r\n\r\n", REFUSAL_BAD_REQUEST);
    expect_refused("GET / HTTP/1.1\r\nX: a\r\n\r\n", REFUSAL_BAD_REQUEST);
    expect_refused("GET / HTTP/1.1\r\nHost: a\r\nHost: a\r\n\r\n", REFUSAL_BAD_REQUEST);
    expect_refused("GET / HTTP/1.1\r\nHost: a b\r\n\r\n", REFUSAL_BAD_REQUEST);
    expect_refused("GET / HTTP/1.1\r\nHost: a/b\r\n\r\n", REFUSAL_BAD_REQUEST);
    expect_refused("GET / HTTP/1.1\r\nHost: u@a\r\n\r\n", REFUSAL_BAD_REQUEST);
    assert_int_equal(parse_text("GET / HTTP/1.0\r\n\r\n").step, HTTP_STEP_DONE);
    assert_int_equal(parse_text("GET / HTTP/1.1\r\nHost: [::1]:80\r\n\r\n").step, HTTP_STEP_DONE);
}

static void test_framing(void **state)
{
    (void)state;
#define P "POST / HTTP/1.1\r\n" H
    expect_refused(P "Content-Length: 5\r\nTransfer-Encoding: chunked\r\n\r\n",
                   REFUSAL_BAD_REQUEST);
    expect_refused(P "Transfer-Encoding: chunked\r\nContent-Length: 5\r\n\r\n",
                   REFUSAL_BAD_REQUEST);
    expect_refused(P "Content-Length: 5\r\nContent-Length: 5\r\n\r\n", REFUSAL_BAD_REQUEST);
    expect_refused(P "Content-Length: 5\r\nContent-Length: 6\r\n\r\n", REFUSAL_BAD_REQUEST);
    expect_refused(P "Content-Length: 5, 5\r\n\r\n", REFUSAL_BAD_REQUEST);
    expect_refused(P "Content-Length: +5\r\n\r\n", REFUSAL_BAD_REQUEST);
    expect_refused(P "Content-Length: -5\r\n\r\n", REFUSAL_BAD_REQUEST);
    expect_refused(P "Content-Length: 0x5\r\n\r\n", REFUSAL_BAD_REQUEST);
    expect_refused(P "Content-Length: 5 5\r\n\r\n", REFUSAL_BAD_REQUEST);
    expect_refused(P "Content-Length: \r\n\r\n", REFUSAL_BAD_REQUEST);
    expect_refused(P "Content-Length:\r\n\r\n", REFUSAL_BAD_REQUEST);
    expect_refused(P "Content-Length: a\r\n\r\n", REFUSAL_BAD_REQUEST);
    expect_refused(P "Content-Length: 184467440737095516165\r\n\r\n", REFUSAL_BAD_REQUEST);
    expect_refused(P "Content-Length: 262145\r\n\r\n", REFUSAL_TOO_LARGE);
    expect_refused(P "Content-Length: 18446744073709551615\r\n\r\n", REFUSAL_BAD_REQUEST);
    expect_refused(P "Content-Length: 1844674407370955161\r\n\r\n", REFUSAL_TOO_LARGE);
    expect_refused(P "Transfer-Encoding: gzip, chunked\r\n\r\n", REFUSAL_NOT_IMPLEMENTED);
    expect_refused(P "Transfer-Encoding: identity\r\n\r\n", REFUSAL_NOT_IMPLEMENTED);
    expect_refused(P "Transfer-Encoding: xchunked\r\n\r\n", REFUSAL_NOT_IMPLEMENTED);
    expect_refused(P "Transfer-Encoding: chunked\r\nTransfer-Encoding: chunked\r\n\r\n",
                   REFUSAL_BAD_REQUEST);
    expect_refused(P "Transfer-Encoding: chunked\r\nTransfer-Encoding: identity\r\n\r\n",
                   REFUSAL_BAD_REQUEST);
    expect_refused("POST / HTTP/1.0\r\nTransfer-Encoding: chunked\r\n\r\n", REFUSAL_BAD_REQUEST);
    struct outcome o = parse_text(P "Transfer-Encoding: chunked, chunked\r\n\r\n");
    assert_int_equal(o.step, HTTP_STEP_REFUSED);
    o = parse_text(P "Transfer-Encoding:\r\n\r\n");
    assert_int_equal(o.step, HTTP_STEP_REFUSED);
    o = parse_text(P "Transfer-Encoding: chunked;q=1\r\n\r\n");
    assert_int_equal(o.step, HTTP_STEP_REFUSED);
    expect_refused(P "Expect: 200-maybe\r\nContent-Length: 1\r\n\r\n", REFUSAL_EXPECTATION);
    o = parse_text(P "Content-Length: 00005\r\n\r\nhello");
    assert_string_equal(o.body, "hello");
    o = parse_text("GET / HTTP/1.1\r\n" H "\r\nPOST");
    assert_int_equal(o.left, 4);
    o = parse_text(P "Transfer-Encoding: ChunKed\r\n\r\n0\r\n\r\n");
    assert_int_equal(o.step, HTTP_STEP_DONE);
}

#define C "POST / HTTP/1.1\r\n" H "Transfer-Encoding: chunked\r\n\r\n"

static void test_chunks(void **state)
{
    (void)state;
    struct outcome o = parse_text(C "5\r\nhello\r\n6\r\n world\r\n0\r\n\r\nGET");
    assert_int_equal(o.step, HTTP_STEP_DONE);
    assert_string_equal(o.body, "hello world");
    assert_int_equal(o.left, 3);
    o = parse_text(C "00a\r\n0123456789\r\n0;last\r\nX-Sum: 1\r\nY: 2\r\n\r\n");
    assert_string_equal(o.body, "0123456789");
    o = parse_text(C "3;a=b;c=\"d e\"\r\nabc\r\n0\r\n\r\n");
    assert_string_equal(o.body, "abc");
    o = parse_text(C "A\r\n\r\n0\r\n\r\n\r\n \r\n0\r\n\r\n");
    assert_int_equal(o.body_len, 10); /* what looks like framing inside data is data */

    expect_refused(C "5\r\nhelloX", REFUSAL_BAD_REQUEST);
    expect_refused(C "5\r\nhello\rX", REFUSAL_BAD_REQUEST);
    expect_refused(C "5\r\nhello\n", REFUSAL_BAD_REQUEST);
    expect_refused(C "5\nhello", REFUSAL_BAD_REQUEST);
    expect_refused(C "5\rX", REFUSAL_BAD_REQUEST);
    expect_refused(C " 5\r\n", REFUSAL_BAD_REQUEST);
    expect_refused(C "5 \r\n", REFUSAL_BAD_REQUEST);
    expect_refused(C "-5\r\n", REFUSAL_BAD_REQUEST);
    expect_refused(C "0x5\r\n", REFUSAL_BAD_REQUEST);
    expect_refused(C "g\r\n", REFUSAL_BAD_REQUEST);
    expect_refused(C "\r\n", REFUSAL_BAD_REQUEST);
    expect_refused(C ";a\r\n", REFUSAL_BAD_REQUEST);
    expect_refused(C "5;a\nb\r\n", REFUSAL_BAD_REQUEST);
    expect_refused(C "5;a\rb\r\n", REFUSAL_BAD_REQUEST);
    expect_refused(C "000000000\r\n", REFUSAL_BAD_REQUEST);
    expect_refused(C "100000005\r\n", REFUSAL_BAD_REQUEST);
    expect_refused(C "40001\r\n", REFUSAL_TOO_LARGE);
    expect_refused(C "ffffffff\r\n", REFUSAL_TOO_LARGE);
    expect_refused(C "1\r\na\r\n40000\r\n", REFUSAL_TOO_LARGE);
    expect_refused(C "0\r\nX\r\n\r\n", REFUSAL_BAD_REQUEST);
    expect_refused(C "0\r\n X: a\r\n\r\n", REFUSAL_BAD_REQUEST);
    expect_refused(C "0\r\nX: a\r\n b\r\n\r\n", REFUSAL_BAD_REQUEST);
    expect_refused(C "0\r\nX: a\n\r\n", REFUSAL_BAD_REQUEST);
    expect_refused(C "0\r\n\rX", REFUSAL_BAD_REQUEST);
}

/* Text with a run of n times the same character in the middle. */
static char *long_text(const char *before, size_t n, const char *after)
{
    size_t a = strlen(before);
    char *text = malloc(a + n + strlen(after) + 1);
    assert_non_null(text);
    memcpy(text, before, a);
    memset(text + a, 'a', n);
    memcpy(text + a + n, after, strlen(after) + 1);
    return text;
}

static void expect_long(const char *before, size_t n, const char *after, enum refusal refusal)
{
    char *text = long_text(before, n, after);
    struct outcome o = parse(span_of(text));
    if (o.step != (refusal == REFUSAL_NONE ? HTTP_STEP_DONE : HTTP_STEP_REFUSED) ||
        o.refusal != refusal) {
        fail_msg("step %d, refusal %d instead of %d: %.40s %zu", o.step, o.refusal, refusal, before,
                 n);
    }
    free(text);
}

static void test_limits(void **state)
{
    (void)state;
    expect_long("GET /", HTTP_LINE_MAX - 1, " HTTP/1.1\r\n" H "\r\n", REFUSAL_NONE);
    expect_long("GET /", HTTP_LINE_MAX, " HTTP/1.1\r\n" H "\r\n", REFUSAL_URI_TOO_LONG);
    expect_long("GET /", 2UL * HTTP_LINE_MAX, " HTTP/1.1\r\n" H "\r\n", REFUSAL_URI_TOO_LONG);
    expect_long("GET /", 2UL * HTTP_LINE_MAX, "", REFUSAL_URI_TOO_LONG);
    expect_long("GET /", 2UL * HTTP_LINE_MAX, "\x01", REFUSAL_URI_TOO_LONG);
    static const char head[] = "GET / HTTP/1.1\r\n" H "X: ";
    size_t most = HTTP_HEADERS_MAX - (sizeof(head) - 1) - 4;
    expect_long(head, most, "\r\n\r\n", REFUSAL_NONE);
    expect_long(head, most + 1, "\r\n\r\n", REFUSAL_HEADERS_TOO_LARGE);
    expect_long(head, most + 10, "", REFUSAL_HEADERS_TOO_LARGE);
    expect_long(C "5;", HTTP_CHUNK_LINE_MAX, "\r\n", REFUSAL_BAD_REQUEST);
    expect_long(C "0\r\nX: ", HTTP_TRAILERS_MAX, "\r\n\r\n", REFUSAL_HEADERS_TOO_LARGE);
    expect_long(C "0\r\nX: ", HTTP_TRAILERS_MAX - 8, "\r\n\r\n", REFUSAL_NONE);

    char text[8192];
    for (uint32_t extra = 0; extra < 2; extra++) {
        struct out out = out_over(text, sizeof(text));
        out_lit(&out, "GET / HTTP/1.1\r\n" H);
        for (uint32_t i = 1; i < HTTP_HEADER_LINES_MAX + extra; i++) {
            out_lit(&out, "X: a\r\n");
        }
        out_lit(&out, "\r\n");
        out_char(&out, '\0');
        assert_int_equal(parse_text(text).refusal,
                         extra == 0 ? REFUSAL_NONE : REFUSAL_HEADERS_TOO_LARGE);
    }
}

/* A body of the largest size, in chunks, with bytes of other requests behind it. */
static void test_largest_chunked_body(void **state)
{
    (void)state;
    enum { PIECE = 4096 };
    static char text[HTTP_BODY_MAX + HTTP_BODY_MAX / PIECE * 16 + 1024];
    struct out out = out_over(text, sizeof(text));
    out_lit(&out, C);
    size_t head = out.len;
    for (size_t i = 0; i < HTTP_BODY_MAX / PIECE; i++) {
        out_lit(&out, "1000\r\n");
        for (size_t j = 0; j < PIECE; j++) {
            out_char(&out, (char)('a' + (i + j) % 26));
        }
        out_lit(&out, "\r\n");
    }
    out_lit(&out, "0\r\n\r\nGET");
    assert_false(out.overflow);
    struct http_progress progress = {0};
    struct http_parsed parsed;
    size_t len = out.len;
    assert_int_equal(http_parser_step(&progress, text, &len, &parsed), HTTP_STEP_DONE);
    assert_int_equal(parsed.request.body.len, HTTP_BODY_MAX);
    assert_ptr_equal(parsed.request.body.at, text + head);
    for (size_t i = 0; i < HTTP_BODY_MAX; i++) {
        assert_int_equal(parsed.request.body.at[i], 'a' + (i / PIECE + i % PIECE) % 26);
    }
    assert_int_equal(len - parsed.consumed, 3);
    assert_memory_equal(text + parsed.consumed, "GET", 3);
}

static void test_continue_is_wanted_only_without_a_body(void **state)
{
    (void)state;
    char text[] = P "Expect: 100-continue\r\nContent-Length: 2\r\n\r\nab";
    struct http_progress progress = {0};
    struct http_parsed parsed;
    size_t len = sizeof(text) - 3;
    assert_int_equal(http_parser_step(&progress, text, &len, &parsed), HTTP_STEP_MORE);
    assert_true(progress.wants_continue);
    progress = (struct http_progress){0};
    len = sizeof(text) - 2;
    assert_int_equal(http_parser_step(&progress, text, &len, &parsed), HTTP_STEP_MORE);
    assert_false(progress.wants_continue);
}

/* Whatever arrives, and however it is cut: no crash, and one reading. */
static void test_noise_reads_the_same_however_it_is_cut(void **state)
{
    (void)state;
    static const char *const seeds[] = {
        P "Content-Length: 5\r\n\r\nhello",
        C "5;a=b\r\nhello\r\n0\r\nX: y\r\n\r\n",
        "GET /a?b HTTP/1.1\r\n" H "Connection: close\r\nCookie: x\r\n\r\n",
    };
    static const char odd[] = "\r\n\t :;,\0\x7f\xff"
                              "0aZ/";
    struct prng prng = prng_of(7);
    for (int round = 0; round < 20000; round++) {
        char text[256];
        const char *seed = seeds[prng_below(&prng, 3)];
        size_t len = strlen(seed);
        memcpy(text, seed, len);
        for (uint64_t i = 0, n = 1 + prng_below(&prng, 3); i < n; i++) {
            size_t at = (size_t)prng_below(&prng, len);
            char c = odd[prng_below(&prng, sizeof(odd) - 1)];
            if (prng_below(&prng, 2) == 0) {
                text[at] = c;
            } else if (prng_below(&prng, 2) == 0 && len < sizeof(text) - 1) {
                memmove(text + at + 1, text + at, len - at);
                text[at] = c;
                len++;
            } else {
                memmove(text + at, text + at + 1, len - at - 1);
                len--;
            }
        }
        size_t cuts[2] = {(size_t)prng_below(&prng, len), 0};
        cuts[1] = cuts[0] + (size_t)prng_below(&prng, len - cuts[0]);
        struct outcome whole = feed((struct span){text, len}, NULL, 0);
        struct outcome cut = feed((struct span){text, len}, cuts, 2);
        expect_same(&whole, &cut, text);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_plain_requests),
        cmocka_unit_test(test_methods),
        cmocka_unit_test(test_versions),
        cmocka_unit_test(test_connection_options),
        cmocka_unit_test(test_targets),
        cmocka_unit_test(test_lines),
        cmocka_unit_test(test_header_values),
        cmocka_unit_test(test_host),
        cmocka_unit_test(test_framing),
        cmocka_unit_test(test_chunks),
        cmocka_unit_test(test_limits),
        cmocka_unit_test(test_largest_chunked_body),
        cmocka_unit_test(test_continue_is_wanted_only_without_a_body),
        cmocka_unit_test(test_noise_reads_the_same_however_it_is_cut),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
