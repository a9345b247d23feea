/* gzip beforehand: what is packed, and who is sent it. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>

#include "base/bytes.h"
#include <cmocka.h>

#include "http/gzip.h"

static void test_text_becomes_smaller_and_always_the_same(void **state)
{
    (void)state;
    char text[4000];
    for (size_t i = 0; i < sizeof(text); i++) {
        text[i] = "abcdefgh"[i * i % 7];
    }
    struct span packed, again;
    assert_int_equal(gzip_pack((struct span){text, sizeof(text)}, PACK_PAGES, &packed), 0);
    assert_int_equal(gzip_pack((struct span){text, sizeof(text)}, PACK_PAGES, &again), 0);
    assert_true(packed.at != NULL && packed.len < sizeof(text) / 4);
    assert_memory_equal(packed.at, "\x1f\x8b\x08\0\0\0\0\0", 8); /* gzip, and no time in it */
    assert_true(span_equal(packed, again));
    free((char *)again.at);
    struct packer *packer = packer_new(PACK_PAGES);
    for (int i = 0; i < 3; i++) { /* whatever it has packed before, also what did not fit */
        assert_int_equal(packer_gzip(packer, (struct span){text, sizeof(text)}, &again), 0);
        assert_true(span_equal(packed, again));
        free((char *)again.at);
        assert_int_equal(packer_gzip(packer, span_of("short"), &again), 0);
        assert_null(again.at);
    }
    packer_free(packer);
    free((char *)packed.at);
}

static void test_what_does_not_become_smaller_is_left_alone(void **state)
{
    (void)state;
    static const char *const texts[] = {"", "a", "ab", "<svg/>", "export default 1"};
    for (size_t i = 0; i < sizeof(texts) / sizeof(texts[0]); i++) {
        struct span packed = {"", 1};
        assert_int_equal(gzip_pack(span_of(texts[i]), PACK_FILES, &packed), 0);
        assert_null(packed.at);
        assert_int_equal(packed.len, 0);
    }
}

static void test_accept_encoding_is_read_with_its_q_values(void **state)
{
    (void)state;
    static const char *const yes[] = {"gzip",
                                      "GZIP",
                                      "gzip, deflate, br, zstd",
                                      "br;q=1.0, gzip;q=0.8, *;q=0.1",
                                      "*",
                                      "deflate,*;q=0.5",
                                      "x-gzip",
                                      " gzip ; q=0.001 ",
                                      "gzip;q=1.000",
                                      "gzip;Q=1",
                                      "gzip;q=0.5, identity;q=0.5",
                                      "identity;q=0, gzip",
                                      "identity, gzip",
                                      ",,gzip,,"};
    static const char *const no[] = {"",         "identity",    "br",
                                     "gzip;q=0", "gzip;q=0.0",  "gzip;q=0.000",
                                     "*;q=0",    "*, gzip;q=0", "gzip;q=0.5, identity;q=0.6",
                                     "gzip;q=2", "gzip;q=-1",   "gzip;q=1.001",
                                     "gzip;q=",  "gzip;q=yes",  "gzip;q=0.0001",
                                     "gzipped",  "not-gzip",    ";q=1",
                                     ","};
    for (size_t i = 0; i < sizeof(yes) / sizeof(yes[0]); i++) {
        if (!pack_wanted(span_of(yes[i]))) {
            fail_msg("%s refuses gzip", yes[i]);
        }
    }
    for (size_t i = 0; i < sizeof(no) / sizeof(no[0]); i++) {
        if (pack_wanted(span_of(no[i]))) {
            fail_msg("%s wants gzip", no[i]);
        }
    }
    assert_false(pack_wanted((struct span){NULL, 0})); /* absent */
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_text_becomes_smaller_and_always_the_same),
        cmocka_unit_test(test_what_does_not_become_smaller_is_left_alone),
        cmocka_unit_test(test_accept_encoding_is_read_with_its_q_values),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
