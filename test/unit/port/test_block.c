/* The values of blocks: one form for each, and what is wrong with others. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

#include "base/err.h"
#include "port/block.h"

static void a_value_has_one_form(void **state)
{
    (void)state;
    static const struct {
        enum block_kind kind;
        const char *written;
        const char *stored; /* NULL: refused */
    } cases[] = {
        {BLOCK_USER, "1", "1"},
        {BLOCK_USER, "9007199254740991", "9007199254740991"},
        {BLOCK_USER, "9007199254740992", NULL},
        {BLOCK_USER, "0", NULL},
        {BLOCK_USER, "01", NULL},
        {BLOCK_USER, "", NULL},
        {BLOCK_USER, "7 ", NULL},
        {BLOCK_ADDRESS, "192.0.2.1", "192.0.2.1"},
        {BLOCK_ADDRESS, "192.0.2.1/32", "192.0.2.1"},
        {BLOCK_ADDRESS, "0.0.0.0/0", "0.0.0.0/0"},
        {BLOCK_ADDRESS, "10.128.0.0/9", "10.128.0.0/9"},
        {BLOCK_ADDRESS, "10.128.0.0/8", NULL},
        {BLOCK_ADDRESS, "10.0.0.0/33", NULL},
        {BLOCK_ADDRESS, "10.0.0.0/", NULL},
        {BLOCK_ADDRESS, "10.0.0.0/08", NULL},
        {BLOCK_ADDRESS, "10.0.0", NULL},
        {BLOCK_ADDRESS, "", NULL},
        {BLOCK_ADDRESS, "/8", NULL},
        {BLOCK_ADDRESS, "::", "::"},
        {BLOCK_ADDRESS, "::/0", "::/0"},
        {BLOCK_ADDRESS, "2001:0DB8:0000::/32", "2001:db8::/32"},
        {BLOCK_ADDRESS, "2001:db8::1/64", NULL},
        {BLOCK_ADDRESS, "2001:db8::/129", NULL},
        {BLOCK_ADDRESS, "::ffff:10.0.0.0/104", "10.0.0.0/8"},
        {BLOCK_ADDRESS, "::ffff:10.0.0.0/95", NULL},
        {BLOCK_ADDRESS, "ffff:ffff:ffff:ffff:ffff:ffff:ffff:fffe/127",
         "ffff:ffff:ffff:ffff:ffff:ffff:ffff:fffe/127"},
        {BLOCK_DEVICE, "phone 1/a%", "phone 1/a%"},
        {BLOCK_DEVICE, "Gerät", "Gerät"},
        {BLOCK_DEVICE, "", NULL},
        {BLOCK_DEVICE, " a", NULL},
        {BLOCK_DEVICE, "a ", NULL},
        {BLOCK_DEVICE, "a\tb", NULL},
        {BLOCK_DEVICE, "a\x7f", NULL},
        {BLOCK_DEVICE, "\xff", NULL},
        {BLOCK_DEVICE, "1234567890123456789012345678901234567890123456789012345678901234",
         "1234567890123456789012345678901234567890123456789012345678901234"},
        {BLOCK_DEVICE, "12345678901234567890123456789012345678901234567890123456789012345", NULL},
        {BLOCK_NONE, "1", NULL},
    };
    for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
        char value[BLOCK_VALUE_MAX + 1] = "";
        const char *why = block_value_read(cases[i].kind, span_of(cases[i].written), value);
        if ((why == NULL) != (cases[i].stored != NULL) ||
            (why == NULL && strcmp(value, cases[i].stored) != 0)) {
            fail_msg("%s: %s, %s", cases[i].written, value, why != NULL ? why : "taken");
        }
    }
    char value[BLOCK_VALUE_MAX + 1];
    assert_non_null(block_value_read(BLOCK_DEVICE, (struct span){"a\0b", 3}, value));
    assert_non_null(block_value_read(BLOCK_ADDRESS, (struct span){"1.1.1.1\0", 8}, value));
}

static void kinds_have_names(void **state)
{
    (void)state;
    enum block_kind kind = BLOCK_NONE;
    for (unsigned i = BLOCK_NONE + 1; i < BLOCK_KIND_COUNT; i++) {
        assert_int_equal(block_kind_parse(span_of(block_kind_text((enum block_kind)i)), &kind), 0);
        assert_int_equal(kind, i);
    }
    assert_int_equal(block_kind_parse(span_of("none"), &kind), ERR_INVALID);
    assert_int_equal(block_kind_parse(span_of("IP"), &kind), ERR_INVALID);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_value_has_one_form),
        cmocka_unit_test(kinds_have_names),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
