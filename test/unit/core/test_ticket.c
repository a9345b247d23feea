/* Tickets: what was signed is read back; whatever else a ticket may be, it is refused. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

#include "base/err.h"
#include "base/prng.h"
#include "core/ticket.h"

static struct ticket_keys keys_of(uint32_t count, const uint8_t *numbers)
{
    struct ticket_keys keys = {.count = count};
    for (uint32_t i = 0; i < count; i++) {
        keys.keys[i].number = numbers[i];
        memset(keys.keys[i].key, 0x30 + numbers[i], sizeof(keys.keys[i].key));
    }
    return keys;
}

static const struct ticket usual = {
    .user = 7, .item = 11, .id = {0x4000000000001600, 0x700000}, .expires_at_ms = 1700000060000};

static int verify(const struct ticket_keys *keys, const char *text, size_t len)
{
    struct ticket ticket = {.user = 4711};
    int error = ticket_verify(keys, (struct span){text, len}, &ticket);
    if (error != 0) {
        assert_int_equal(error, ERR_INVALID);
        assert_int_equal(ticket.user, 4711); /* not written */
    }
    return error;
}

static void what_was_signed_is_read_back(void **state)
{
    (void)state;
    const struct ticket_keys keys = keys_of(1, (uint8_t[]){1});
    struct prng prng = prng_of(5);
    for (int i = 0; i < 1000; i++) {
        bool extreme = i % 10 == 0;
        struct ticket ticket = {.user = extreme ? ID_MAX : 1 + prng_below(&prng, ID_MAX),
                                .item = extreme ? ID_MAX : 1 + prng_below(&prng, ID_MAX),
                                .id = {prng_next(&prng), prng_next(&prng)},
                                .expires_at_ms =
                                    extreme ? TIME_MAX_MS
                                            : (int64_t)prng_below(&prng, (uint64_t)TIME_MAX_MS)};
        char text[TICKET_TEXT];
        struct ticket back;
        ticket_sign(&keys, &ticket, text);
        assert_int_equal(ticket_verify(&keys, (struct span){text, sizeof(text)}, &back), 0);
        assert_int_equal(back.user, ticket.user);
        assert_int_equal(back.item, ticket.item);
        assert_true(order_id_equal(back.id, ticket.id));
        assert_int_equal(back.expires_at_ms, ticket.expires_at_ms);
    }
}

/* Tickets outlive a restart and an upgrade: the layout is kept. */
static void the_layout_stays(void **state)
{
    (void)state;
    const struct ticket_keys keys = keys_of(1, (uint8_t[]){9});
    char text[TICKET_TEXT];
    uint8_t bytes[TICKET_BYTES];
    uint8_t tag[CRYPT_SIP_BYTES];
    size_t len = 0;
    ticket_sign(&keys, &usual, text);
    assert_int_equal(
        base64url_decode((struct span){text, sizeof(text)}, bytes, sizeof(bytes), &len), 0);
    assert_int_equal(len, TICKET_BYTES);
    assert_int_equal(bytes[0], 9);
    assert_int_equal(bytes[1], 1);
    assert_int_equal(load_le64(bytes) >> 16, usual.expires_at_ms);
    assert_int_equal(load_le64(bytes + 8), usual.user);
    assert_int_equal(load_le64(bytes + 16), usual.item);
    assert_int_equal(load_le64(bytes + 24), usual.id.hi);
    assert_int_equal(load_le64(bytes + 32), usual.id.lo);
    crypt_siphash128(keys.keys[0].key, bytes, 40, tag);
    assert_memory_equal(bytes + 40, tag, sizeof(tag));
}

static void every_flipped_bit_is_refused(void **state)
{
    (void)state;
    /* Both key numbers that a flip of the number may lead to are there. */
    const struct ticket_keys keys = keys_of(3, (uint8_t[]){2, 3, 6});
    char text[TICKET_TEXT];
    uint8_t bytes[TICKET_BYTES];
    size_t len = 0;
    ticket_sign(&keys, &usual, text);
    assert_int_equal(
        base64url_decode((struct span){text, sizeof(text)}, bytes, sizeof(bytes), &len), 0);
    for (size_t bit = 0; bit < (size_t)TICKET_BYTES * 8; bit++) {
        char flipped[TICKET_TEXT];
        bytes[bit / 8] ^= (uint8_t)(1U << bit % 8);
        base64url_encode(bytes, sizeof(bytes), flipped);
        assert_int_not_equal(verify(&keys, flipped, sizeof(flipped)), 0);
        bytes[bit / 8] ^= (uint8_t)(1U << bit % 8);
    }
    for (size_t bit = 0; bit < (size_t)TICKET_TEXT * 8; bit++) {
        text[bit / 8] ^= (char)(1U << bit % 8);
        assert_int_not_equal(verify(&keys, text, sizeof(text)), 0);
        text[bit / 8] ^= (char)(1U << bit % 8);
    }
    assert_int_equal(verify(&keys, text, sizeof(text)), 0);
}

static void wrong_lengths_and_characters_are_refused(void **state)
{
    (void)state;
    const struct ticket_keys keys = keys_of(1, (uint8_t[]){1});
    char text[TICKET_TEXT + 60];
    memset(text, 'A', sizeof(text));
    ticket_sign(&keys, &usual, text);
    for (size_t len = 0; len <= sizeof(text); len++) {
        assert_int_equal(verify(&keys, text, len) == 0, len == TICKET_TEXT);
    }
    assert_int_not_equal(verify(&keys, NULL, 0), 0);
    for (size_t at = 0; at < TICKET_TEXT; at++) {
        char good = text[at];
        for (int c = 0; c < 256; c++) {
            text[at] = (char)c;
            assert_int_equal(verify(&keys, text, TICKET_TEXT) == 0, (char)c == good);
        }
        text[at] = good;
    }
}

static void the_newest_key_signs_and_older_ones_still_verify(void **state)
{
    (void)state;
    const struct ticket_keys before = keys_of(1, (uint8_t[]){5});
    const struct ticket_keys both = keys_of(2, (uint8_t[]){6, 5});
    const struct ticket_keys many = keys_of(TICKET_KEYS_MAX, (uint8_t[]){8, 7, 6, 5});
    const struct ticket_keys after = keys_of(1, (uint8_t[]){6});
    char old[TICKET_TEXT];
    char new[TICKET_TEXT];
    ticket_sign(&before, &usual, old);
    ticket_sign(&both, &usual, new);
    assert_int_equal(verify(&both, old, sizeof(old)), 0);
    assert_int_equal(verify(&many, old, sizeof(old)), 0);
    assert_int_equal(verify(&many, new, sizeof(new)), 0);
    assert_int_equal(verify(&after, new, sizeof(new)), 0);
    assert_int_not_equal(verify(&after, old, sizeof(old)), 0);  /* its key is gone */
    assert_int_not_equal(verify(&before, new, sizeof(new)), 0); /* its key is not there yet */
}

static void another_key_under_the_same_number_is_refused(void **state)
{
    (void)state;
    const struct ticket_keys keys = keys_of(1, (uint8_t[]){5});
    struct ticket_keys other = keys;
    other.keys[0].key[CRYPT_SIP_KEY_BYTES - 1] ^= 1;
    char text[TICKET_TEXT];
    ticket_sign(&keys, &usual, text);
    assert_int_not_equal(verify(&other, text, sizeof(text)), 0);
    assert_int_equal(verify(&keys, text, sizeof(text)), 0);
}

static void no_key_verifies_nothing(void **state)
{
    (void)state;
    const struct ticket_keys keys = keys_of(1, (uint8_t[]){0});
    const struct ticket_keys none = {.count = 0};
    char text[TICKET_TEXT];
    ticket_sign(&keys, &usual, text);
    assert_int_not_equal(verify(&none, text, sizeof(text)), 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(what_was_signed_is_read_back),
        cmocka_unit_test(the_layout_stays),
        cmocka_unit_test(every_flipped_bit_is_refused),
        cmocka_unit_test(wrong_lengths_and_characters_are_refused),
        cmocka_unit_test(the_newest_key_signs_and_older_ones_still_verify),
        cmocka_unit_test(another_key_under_the_same_number_is_refused),
        cmocka_unit_test(no_key_verifies_nothing),
    };
    if (crypt_start() != 0) {
        return 1;
    }
    return cmocka_run_group_tests(tests, NULL, NULL);
}
