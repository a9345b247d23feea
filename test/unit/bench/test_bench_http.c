/* The load tool's reader of answers: framing in one piece and in every possible two, and JSON. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <cmocka.h>

#include "base/err.h"
#include "bench/bench_http.h"
#include "table_tests.h"

static char bytes[4096];

static size_t given(const char *text)
{
    size_t len = strlen(text);
    memcpy(bytes, text, len);
    return len;
}

/* Answers in one piece. Where the connection's end matters, the answer is incomplete before it. */
static const struct read_case {
    const char *name;
    const char *text;
    int status;
    const char *body;
    size_t rest; /* bytes behind the answer */
    bool ends;   /* the connection, behind the text */
    bool closes;
} read_cases[] = {
    {.name = "a body of a given length",
     "HTTP/1.1 409 Conflict\r\nServer: x\r\ncontent-LENGTH:  5 \r\n\r\nhelloHTTP",
     409,
     "hello",
     .rest = 4},
    {.name = "chunks are joined",
     "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n"
     "3\r\nabc\r\nA;x=y\r\n0123456789\r\n0\r\nTrailer: t\r\n\r\nrest",
     200,
     "abc0123456789",
     .rest = 4},
    {.name = "interim answers are skipped",
     "HTTP/1.1 100 Continue\r\n\r\nHTTP/1.1 204 No Content\r\n\r\n",
     204,
     ""},
    {.name = "a body without framing ends with the connection",
     "HTTP/1.0 200 OK\r\n\r\nall of it",
     200,
     "all of it",
     .ends = true,
     .closes = true},
    {.name = "the server closes",
     "HTTP/1.1 200 OK\r\nConnection: Close\r\nContent-Length: 0\r\n\r\n",
     200,
     "",
     .closes = true},
};

static void an_answer_is_read(void **state)
{
    const struct read_case *c = *state;
    struct bench_answer answer;
    size_t len = given(c->text);
    if (c->ends) {
        assert_int_equal(bench_answer_read(bytes, len, false, &answer), ERR_AGAIN);
    }
    assert_int_equal(bench_answer_read(bytes, len, c->ends, &answer), 0);
    assert_int_equal(answer.status, c->status);
    assert_int_equal(answer.body.len, strlen(c->body));
    assert_memory_equal(answer.body.at, c->body, answer.body.len);
    assert_int_equal(answer.size, len - c->rest);
    assert_int_equal(answer.closes, c->closes);
}

/* Whatever is missing at the end, the answer is "more", and nothing in the buffer changes. */
static void every_prefix_asks_for_more(void **state)
{
    (void)state;
    static const char *const texts[] = {
        "HTTP/1.1 200 OK\r\nA: b\r\nContent-Length: 5\r\n\r\nhello",
        "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n3\r\nabc\r\n2\r\nde\r\n0\r\n\r\n",
    };
    for (size_t t = 0; t < 2; t++) {
        struct bench_answer answer;
        size_t len = given(texts[t]);
        for (size_t cut = 0; cut < len; cut++) {
            assert_int_equal(bench_answer_read(bytes, cut, false, &answer), ERR_AGAIN);
            assert_memory_equal(bytes, texts[t], len);
        }
        assert_int_equal(bench_answer_read(bytes, len, false, &answer), 0);
        assert_int_equal(answer.size, len);
    }
}

static void refuses_what_is_not_http(void **state)
{
    (void)state;
    static const char *const texts[] = {
        "SSH-2.0-OpenSSH_9.2 hello\r\n",
        "HTTP/1.1 2x0 OK\r\n\r\n",
        "HTTP/1.1 200 OK\r\nContent-Length: -1\r\n\r\n",
        "HTTP/1.1 200 OK\r\nContent-Length: 5, 5\r\n\r\nhello",
        "HTTP/1.1 200 OK\r\nContent-Length\r\n\r\n",
        "HTTP/1.1 200 OK\r\nTransfer-Encoding: gzip\r\n\r\n",
        "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\nxyz\r\n",
        "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n3\r\nabcdef\r\n",
        "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\nffffffffff\r\n",
    };
    for (size_t t = 0; t < sizeof(texts) / sizeof(texts[0]); t++) {
        struct bench_answer answer;
        size_t len = given(texts[t]);
        assert_int_equal(bench_answer_read(bytes, len, false, &answer), ERR_INVALID);
    }
}

static void finds_members_of_the_outermost_object_only(void **state)
{
    (void)state;
    struct span json =
        span_of(" {\"a\":{\"code\":\"inner\",\"x\":[1,\"}\"]}, \"t\":\"q\\\"uo\\\\\" ,"
                "\"n\": 42 , \"null\":null, \"code\" : \"outer\"} ");
    struct span text;
    int64_t number = 0;
    assert_int_equal(bench_json_text(json, "code", &text), 0);
    assert_true(span_is(text, "outer"));
    assert_int_equal(bench_json_text(json, "t", &text), 0);
    assert_true(span_is(text, "q\\\"uo\\\\"));
    assert_int_equal(bench_json_number(json, "n", &number), 0);
    assert_int_equal(number, 42);
    assert_int_equal(bench_json_text(json, "n", &text), ERR_NOTFOUND);
    assert_int_equal(bench_json_number(json, "code", &number), ERR_NOTFOUND);
    assert_int_equal(bench_json_text(json, "null", &text), ERR_NOTFOUND);
    assert_int_equal(bench_json_text(json, "absent", &text), ERR_NOTFOUND);
}

static void cut_json_is_an_error_and_never_read_past(void **state)
{
    (void)state;
    static const char whole[] = "{\"a\":{\"b\":[1,\"x\"]},\"c\":\"d\\\"\",\"code\":\"yes\"}";
    size_t value_end = (size_t)(strstr(whole, "yes\"") - whole) + 4;
    for (size_t cut = 0; cut < value_end; cut++) {
        struct span text;
        char *exact = malloc(cut + 1); /* so that a sanitizer sees one byte too many */
        assert_non_null(exact);
        memcpy(exact, whole, cut);
        assert_int_equal(bench_json_text((struct span){exact, cut}, "code", &text), ERR_INVALID);
        free(exact);
    }
    struct span text;
    assert_int_equal(bench_json_text(span_of("[1]"), "code", &text), ERR_INVALID);
    assert_int_equal(bench_json_text(span_of("{}"), "code", &text), ERR_NOTFOUND);
}

static void takes_urls_apart(void **state)
{
    (void)state;
    struct bench_target target;
    assert_int_equal(bench_target_parse("http://127.0.0.1:8080", &target), 0);
    assert_string_equal(target.host, "127.0.0.1:8080");
    assert_int_equal(bench_target_parse("http://127.0.0.1:8080/", &target), 0);
    assert_string_equal(target.host, "127.0.0.1:8080");
    assert_int_equal(bench_target_parse("https://127.0.0.1:8080", &target), ERR_INVALID);
    assert_int_equal(bench_target_parse("http://", &target), ERR_INVALID);
    assert_int_equal(bench_target_parse("http://127.0.0.1:8080/path", &target), ERR_INVALID);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(every_prefix_asks_for_more),
        cmocka_unit_test(refuses_what_is_not_http),
        cmocka_unit_test(finds_members_of_the_outermost_object_only),
        cmocka_unit_test(cut_json_is_an_error_and_never_read_past),
        cmocka_unit_test(takes_urls_apart),
    };
    int failed = cmocka_run_group_tests(tests, NULL, NULL);
    return failed + TABLE_RUN(read_cases, an_answer_is_read, NULL, NULL);
}
