/* The small parts of the load tool: signing, waiting requests, the command line. */
#include <fcntl.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>
#include <cmocka.h>

#include "base/err.h"
#include "bench/bench.h"

/* RFC 7515, A.1 gives a token whose signature anyone can check, but its claims are not ours: so
 * the signature is made again here, over the first two parts as they stand. */
static void tokens_carry_the_user_and_are_signed(void **state)
{
    (void)state;
    struct bench_keys keys = {.jwt = {1, 2, 3}};
    char token[BENCH_TOKEN_MAX + 1];
    size_t len = bench_token_write(&keys, 9007199254740991ULL, 4102444800, token);
    token[len] = '\0';
    char *dot = strchr(token, '.');
    char *last = strrchr(token, '.');
    assert_true(dot != NULL && last > dot);

    char claims[128] = "";
    size_t claims_len = 0;
    struct span part = {dot + 1, (size_t)(last - dot - 1)};
    assert_int_equal(base64url_decode(part, claims, sizeof(claims) - 1, &claims_len), 0);
    assert_string_equal(claims, "{\"sub\":\"9007199254740991\",\"exp\":4102444800}");

    uint8_t tag[CRYPT_HMAC_BYTES];
    struct span signed_part = {token, (size_t)(last - token)};
    crypt_hmac_sha256((struct span){(const char *)keys.jwt, sizeof(keys.jwt)}, &signed_part, 1,
                      tag);
    char expected[64] = "";
    base64url_encode(tag, sizeof(tag), expected);
    assert_string_equal(last + 1, expected);
}

/* The example of the Standard Webhooks specification, with its published secret. */
static void payments_are_signed_as_standard_webhooks_says(void **state)
{
    (void)state;
    struct bench_keys keys = {0};
    size_t key_len = 0;
    uint8_t secret[64];
    assert_int_equal(base64_decode(span_of("MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw"), secret,
                                   sizeof(secret), &key_len),
                     0);
    assert_int_equal(key_len, 24);
    /* A key of 24 bytes: HMAC pads with zeros, so in 32 bytes it is the same key. */
    memcpy(keys.webhook, secret, key_len);
    char signature[BENCH_SIGNATURE_LEN + 1] = "";
    bench_signature_write(&keys, span_of("msg_p5jXN8AQM9LWM0D4loKWxJek"), span_of("1614265330"),
                          span_of("{\"test\": 2432232314}"), signature);
    assert_string_equal(signature, "v1,g0hM9SsE+OTPJTGt/tmIKtSyZlE3uFJELVlNIOLJ1OE=");
}

static void keys_come_from_the_data_folder(void **state)
{
    (void)state;
    struct bench_keys keys;
    char path[256];
    assert_int_equal(bench_keys_load("/nonexistent", &keys, path, sizeof(path)), ERR_IO);
    assert_string_equal(path, "/nonexistent/jwt.key");
}

static void the_ring_keeps_the_order_while_it_grows(void **state)
{
    (void)state;
    struct request_ring ring = {0};
    struct bench_request request = {0};
    int64_t pushed = 0;
    int64_t popped = 0;
    for (int round = 0; round < 100; round++) {
        for (int i = 0; i < 7; i++) {
            request.due_ns = pushed++;
            request_ring_push(&ring, &request);
        }
        for (int i = 0; i < 5; i++) {
            assert_true(request_ring_pop(&ring, &request));
            assert_int_equal(request.due_ns, popped++);
        }
    }
    while (request_ring_pop(&ring, &request)) {
        assert_int_equal(request.due_ns, popped++);
    }
    assert_int_equal(popped, pushed);
    request_ring_done(&ring);
}

static void the_heap_gives_the_earliest_and_equal_ones_in_turn(void **state)
{
    (void)state;
    struct request_heap heap = {0};
    struct bench_request request = {0};
    struct prng prng = prng_of(7);
    assert_int_equal(request_heap_next_ns(&heap), INT64_MAX);
    for (int i = 0; i < 1000; i++) {
        int64_t at_ns = (int64_t)prng_below(&prng, 50);
        request.due_ns = at_ns * 10000 + i;
        request_heap_push(&heap, at_ns, &request);
    }
    assert_false(request_heap_pop(&heap, request_heap_next_ns(&heap) - 1, &request));
    int64_t last = -1;
    for (int i = 0; i < 1000; i++) {
        assert_true(request_heap_pop(&heap, 50, &request));
        assert_true(request.due_ns > last);
        last = request.due_ns;
    }
    assert_false(request_heap_pop(&heap, INT64_MAX, &request));
    request_heap_done(&heap);
}

static enum bench_parsed parsed(struct bench_options *options, const char *line)
{
    char text[512];
    char *argv[32] = {"bench"};
    int argc = 1;
    (void)snprintf(text, sizeof(text), "%s", line);
    char *rest = NULL;
    for (char *word = strtok_r(text, " ", &rest); word != NULL; word = strtok_r(NULL, " ", &rest)) {
        argv[argc++] = word;
        assert_true(argc < 31);
    }
    return bench_options_parse(argc, argv, options);
}

static void options_are_read(void **state)
{
    (void)state;
    struct bench_options options;
    assert_int_equal(parsed(&options, "--item 3,4 --item 5 --users 20 --mode open --rate 12.5 "
                                      "--pay 50 --seed 0"),
                     BENCH_RUN);
    assert_int_equal(options.item_count, 3);
    assert_int_equal(options.items[2], 5);
    assert_int_equal(options.users, 20);
    assert_true(options.open_loop && options.rate > 12.4 && options.rate < 12.6);
    assert_true(options.poll_result && options.audit);
    assert_int_equal(options.seed, 0);
    assert_int_equal(parsed(&options, "--get /x --pipeline 8"), BENCH_RUN);
    assert_true(options.duration_s > 0);
}

static void wrong_options_are_usage(void **state)
{
    (void)state;
    static const char *const lines[] = {
        "",
        "--item 0",
        "--item 1,",
        "--item 1 --qty 0",
        "--item 1 --qty 2147483648",
        "--item 1 --pay 101",
        "--item 1 --pay nan",
        "--item 1 --pay 10 --result none",
        "--item 1 --mode open",
        "--item 1 --rate 10",
        "--item 1 --mode sideways",
        "--item 1 --get /x",
        "--item 1 --hammer --users 10 --connections 11",
        "--item 1 --pipeline 2",
        "--item 1 --threads 9 --connections 8",
        "--item 1 --nonsense",
        "--item 1 stray",
        "--get x",
    };
    (void)fflush(stderr);
    int real = dup(STDERR_FILENO);
    int quiet = open("/dev/null", O_WRONLY);
    assert_true(real >= 0 && quiet >= 0 && dup2(quiet, STDERR_FILENO) >= 0);
    const char *accepted = NULL;
    for (size_t i = 0; i < sizeof(lines) / sizeof(lines[0]); i++) {
        struct bench_options options;
        if (parsed(&options, lines[i]) != BENCH_USAGE) {
            accepted = lines[i];
        }
    }
    (void)fflush(stderr);
    assert_true(dup2(real, STDERR_FILENO) >= 0);
    assert_int_equal(close(real), 0);
    assert_int_equal(close(quiet), 0);
    if (accepted != NULL) {
        fail_msg("accepted: %s", accepted);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(tokens_carry_the_user_and_are_signed),
        cmocka_unit_test(payments_are_signed_as_standard_webhooks_says),
        cmocka_unit_test(keys_come_from_the_data_folder),
        cmocka_unit_test(the_ring_keeps_the_order_while_it_grows),
        cmocka_unit_test(the_heap_gives_the_earliest_and_equal_ones_in_turn),
        cmocka_unit_test(options_are_read),
        cmocka_unit_test(wrong_options_are_usage),
    };
    return crypt_start() != 0 ? 1 : cmocka_run_group_tests(tests, NULL, NULL);
}
