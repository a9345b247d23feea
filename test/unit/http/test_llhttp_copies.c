/*
 * cmake/Llhttp.cmake compiles llhttp's parser twice, for any x86-64 and for one with SSE 4.2. Both
 * must read the same bytes the same way: each byte value, at each distance from the end of the
 * input, in a header's name and in its value, complete and in two pieces.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <llhttp.h>
#include <stdio.h>
#include <string.h>
#include <cmocka.h>

#ifdef LLHTTP_COPIES
int llhttp__internal_execute_sse42(llhttp__internal_t *state, const char *p, const char *end);

typedef int execute(llhttp__internal_t *state, const char *p, const char *end);

/* What a parser said of some bytes. */
struct reading {
    llhttp_t parser; /* first: callbacks get it */
    const char *bytes;
    char said[1024]; /* one letter for each call, then the bytes or the position */
    size_t len;
    int error;
    ptrdiff_t error_at;
};

static int say(struct reading *r, char what, const char *at, size_t n)
{
    assert_true(r->len + n + 1 <= sizeof(r->said));
    r->said[r->len++] = what;
    memcpy(r->said + r->len, at, n);
    r->len += n;
    return 0;
}

static int on_url(llhttp_t *p, const char *at, size_t n)
{
    return say((struct reading *)(void *)p, 'u', at, n);
}

static int on_field(llhttp_t *p, const char *at, size_t n)
{
    return say((struct reading *)(void *)p, 'f', at, n);
}

static int on_value(llhttp_t *p, const char *at, size_t n)
{
    return say((struct reading *)(void *)p, 'v', at, n);
}

static int on_body(llhttp_t *p, const char *at, size_t n)
{
    return say((struct reading *)(void *)p, 'b', at, n);
}

static int on_complete(llhttp_t *p)
{
    return say((struct reading *)(void *)p, '.', "", 0);
}

static void read_with(execute *parse, const char *bytes, size_t n, size_t cut,
                      struct reading *ret_reading)
{
    static llhttp_settings_t settings;
    llhttp_settings_init(&settings);
    settings.on_url = on_url;
    settings.on_header_field = on_field;
    settings.on_header_value = on_value;
    settings.on_body = on_body;
    settings.on_message_complete = on_complete;
    memset(ret_reading, 0, sizeof(*ret_reading));
    llhttp_init(&ret_reading->parser, HTTP_REQUEST, &settings);
    int error = parse(&ret_reading->parser, bytes, bytes + cut);
    if (error == 0) {
        error = parse(&ret_reading->parser, bytes + cut, bytes + n);
    }
    ret_reading->error = error;
    if (error != 0) {
        ret_reading->error_at = ret_reading->parser.error_pos - bytes;
    }
}

static void expect_same(const char *bytes, size_t n, size_t cut)
{
    struct reading plain;
    struct reading wide;
    read_with(llhttp__internal_execute, bytes, n, cut, &plain);
    read_with(llhttp__internal_execute_sse42, bytes, n, cut, &wide);
    if (plain.error != wide.error || plain.error_at != wide.error_at || plain.len != wide.len ||
        memcmp(plain.said, wide.said, plain.len) != 0) {
        fail_msg("the copies differ, cut at %zu: error %d at %td and %d at %td: %.*s", cut,
                 plain.error, plain.error_at, wide.error, wide.error_at, (int)n, bytes);
    }
}

static void test_every_byte_in_name_and_value(void **state)
{
    (void)state;
    static const char head[] = "POST /v1/buy/abc HTTP/1.1\r\nHost: a\r\nX-Name-Of-Many-Letters: "
                               "a value of more than sixteen bytes\r\nContent-Length: 3\r\n\r\nabc";
    char bytes[sizeof(head)];
    const size_t n = sizeof(head) - 1;
    for (int value = 0; value < 256; value++) {
        for (size_t at = 27; at < n - 3; at++) {
            memcpy(bytes, head, sizeof(head));
            bytes[at] = (char)value;
            expect_same(bytes, n, 0);
            expect_same(bytes, n, at);
            expect_same(bytes, n, at + 1);
        }
    }
}

static void test_every_length(void **state)
{
    (void)state;
    char bytes[256];
    for (int name = 1; name < 70; name++) {
        for (int value = 0; value < 70; value++) {
            int n = snprintf(
                bytes, sizeof(bytes), "GET / HTTP/1.1\r\n%.*s: %.*s\r\n\r\n", name,
                "Abcdefghijklmnopqrstuvwxyz!#$%&'*+-.^_`|~0123456789Abcdefghijklmnopqrs", value,
                "abc def\tghi;jkl=\"mno\" \x80\xff pqr, stu/vwx yz0123456789 abcdefghijklm");
            expect_same(bytes, (size_t)n, 0);
            expect_same(bytes, (size_t)n, (size_t)n / 2);
        }
    }
}

int main(void)
{
    if (!__builtin_cpu_supports("sse4.2")) {
        printf("skipped: this CPU has no SSE 4.2, so the second copy never runs\n");
        return 0;
    }
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_every_byte_in_name_and_value),
        cmocka_unit_test(test_every_length),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
#else
int main(void)
{
    printf("skipped: this build uses the system's llhttp\n");
    return 0;
}
#endif
