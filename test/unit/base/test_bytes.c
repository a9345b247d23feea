/* Spans, output buffers, numbers and text codecs. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "base/bytes.h"
#include "base/crc32c.h"
#include "base/crypt.h"
#include "base/err.h"
#include "base/prng.h"

static void test_numbers_are_parsed_strictly(void **state)
{
    (void)state;
    uint64_t value = 77;
    assert_int_equal(0, span_parse_u64(span_of("0"), 10, &value));
    assert_int_equal(0, value);
    assert_int_equal(0, span_parse_u64(span_of("18446744073709551615"), UINT64_MAX, &value));
    assert_true(value == UINT64_MAX);
    static const char *const wrong[] = {"", "01", "-1", "+1", "1 ", " 1", "0x1", "1.0", "1e3"};
    for (size_t i = 0; i < sizeof(wrong) / sizeof(wrong[0]); i++) {
        assert_int_equal(ERR_INVALID, span_parse_u64(span_of(wrong[i]), 100, &value));
    }
    assert_int_equal(ERR_RANGE,
                     span_parse_u64(span_of("18446744073709551616"), UINT64_MAX, &value));
    assert_int_equal(ERR_RANGE, span_parse_u64(span_of("101"), 100, &value));
    assert_true(value == UINT64_MAX); /* written only on success */
}

static void test_utf8(void **state)
{
    (void)state;
    static const char *const good[] = {"",
                                       "plain",
                                       "\xc3\xa9",
                                       "\xe4\xb8\xad",
                                       "\xf0\x9f\x8e\x89",
                                       "\xed\x9f\xbf",
                                       "\xf4\x8f\xbf\xbf"};
    static const char *const wrong[] = {"\x80",
                                        "\xc0\xaf",
                                        "\xc3",
                                        "\xe4\xb8",
                                        "\xed\xa0\x80",
                                        "\xf4\x90\x80\x80",
                                        "\xf5\x80\x80\x80",
                                        "\xe0\x80\x80",
                                        "\xf0\x80\x80\x80",
                                        "a\xff"};
    for (size_t i = 0; i < sizeof(good) / sizeof(good[0]); i++) {
        assert_true(span_is_utf8(span_of(good[i])));
    }
    for (size_t i = 0; i < sizeof(wrong) / sizeof(wrong[0]); i++) {
        assert_false(span_is_utf8(span_of(wrong[i])));
    }
}

static void test_out_remembers_overflow(void **state)
{
    (void)state;
    char memory[8];
    struct out out = out_over(memory, sizeof(memory));
    out_lit(&out, "12345678");
    assert_false(out.overflow);
    out_char(&out, '9');
    assert_true(out.overflow);
    assert_int_equal(8, out.len);
    out_format(&out, "%d", 1);
    assert_int_equal(8, out.len);
}

static void test_out_numbers(void **state)
{
    (void)state;
    char memory[128];
    struct out out = out_over(memory, sizeof(memory));
    out_u64(&out, 0);
    out_char(&out, ' ');
    out_u64(&out, UINT64_MAX);
    out_char(&out, ' ');
    out_i64(&out, INT64_MIN);
    out_format(&out, " %s", "x");
    assert_true(span_is(out_span(&out), "0 18446744073709551615 -9223372036854775808 x"));
}

static void test_json_strings_are_escaped(void **state)
{
    (void)state;
    char memory[128];
    struct out out = out_over(memory, sizeof(memory));
    out_json_string(&out, (struct span){"a\"b\\c\n\x01\xe4\xb8\xad", 10});
    assert_true(span_is(out_span(&out), "\"a\\\"b\\\\c\\u000a\\u0001\xe4\xb8\xad\""));
}

static void test_base64_round_trips(void **state)
{
    (void)state;
    struct prng prng = prng_of(5);
    for (size_t len = 0; len < 70; len++) {
        uint8_t bytes[70];
        uint8_t back[72];
        char text[100];
        size_t got = 0;
        for (size_t i = 0; i < len; i++) {
            bytes[i] = (uint8_t)prng_next(&prng);
        }
        base64url_encode(bytes, len, text);
        struct span coded = {text, base64url_len(len)};
        assert_int_equal(0, base64url_decode(coded, back, sizeof(back), &got));
        assert_int_equal(len, got);
        assert_memory_equal(bytes, back, len);
        base64_encode(bytes, len, text);
        assert_int_equal(0, base64_decode((struct span){text, (len + 2) / 3 * 4}, back, 70, &got));
        assert_int_equal(len, got);
        assert_memory_equal(bytes, back, len);
    }
}

static void test_base64_is_strict(void **state)
{
    (void)state;
    uint8_t back[16];
    size_t got = 99;
    static const char *const wrong[] = {"A", "AA=", "A+AA", "AAAA\n", "AB", "AAB"};
    for (size_t i = 0; i < sizeof(wrong) / sizeof(wrong[0]); i++) {
        assert_int_equal(ERR_INVALID, base64url_decode(span_of(wrong[i]), back, 16, &got));
    }
    assert_int_equal(ERR_FULL, base64url_decode(span_of("AAAAAAAA"), back, 5, &got));
    assert_int_equal(ERR_INVALID, base64_decode(span_of("AA"), back, 16, &got));
    assert_int_equal(99, got);
}

static void test_little_endian(void **state)
{
    (void)state;
    uint8_t bytes[8];
    store_le64(bytes, 0x0102030405060708ULL);
    assert_int_equal(8, bytes[0]);
    assert_true(load_le64(bytes) == 0x0102030405060708ULL);
    store_le32(bytes, 0xdeadbeef);
    assert_true(load_le32(bytes) == 0xdeadbeef);
    store_le16(bytes, 0xbeef);
    assert_int_equal(0xbeef, load_le16(bytes));
}

static void test_crc32c_known_values(void **state)
{
    (void)state;
    uint8_t zeros[32] = {0};
    assert_true(crc32c(0, "123456789", 9) == 0xe3069283U);
    assert_true(crc32c(0, zeros, sizeof(zeros)) == 0x8a9136aaU);
    uint32_t parts = crc32c(crc32c(0, "12345", 5), "6789", 4);
    assert_true(parts == 0xe3069283U);
}

static void test_crypt_known_values(void **state)
{
    (void)state;
    assert_int_equal(0, crypt_start());
    /* RFC 4231, case 2, in two pieces */
    struct span parts[] = {span_of("what do ya want "), span_of("for nothing?")};
    uint8_t mac[CRYPT_HMAC_BYTES];
    static const uint8_t expected[] = {0x5b, 0xdc, 0xc1, 0x46, 0xbf, 0x60, 0x75, 0x4e};
    crypt_hmac_sha256(span_of("Jefe"), parts, 2, mac);
    assert_memory_equal(expected, mac, sizeof(expected));
    assert_true(crypt_equal("abc", "abc", 3));
    assert_false(crypt_equal("abc", "abd", 3));
    uint8_t a[16];
    uint8_t b[16];
    crypt_random(a, sizeof(a));
    crypt_random(b, sizeof(b));
    assert_memory_not_equal(a, b, sizeof(a));
}

static void test_every_error_has_a_text(void **state)
{
    (void)state;
    for (int code = 0; code >= -16; code--) {
        assert_string_not_equal("unknown error", err_text(code));
    }
    assert_string_equal("unknown error", err_text(-999));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_numbers_are_parsed_strictly),
        cmocka_unit_test(test_utf8),
        cmocka_unit_test(test_out_remembers_overflow),
        cmocka_unit_test(test_out_numbers),
        cmocka_unit_test(test_json_strings_are_escaped),
        cmocka_unit_test(test_base64_round_trips),
        cmocka_unit_test(test_base64_is_strict),
        cmocka_unit_test(test_little_endian),
        cmocka_unit_test(test_crc32c_known_values),
        cmocka_unit_test(test_crypt_known_values),
        cmocka_unit_test(test_every_error_has_a_text),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
