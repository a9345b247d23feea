/*
 * Tickets. What is signed is verified as the same ticket, also after the keys have rotated, and not
 * any more when its key is gone. Whatever else is done to its text is refused: a bit changed, a
 * piece replaced, bytes of the fuzzer's own. And what is accepted carries a tag that libsodium,
 * asked directly, gives for those bytes.
 */
#include "fuzz.h"

#include <sodium.h>

#include "core/ticket.h"

static struct ticket_keys draw_keys(struct fuzz_input *in)
{
    struct ticket_keys keys = {.count = 1 + fuzz_below(in, TICKET_KEYS_MAX - 1)};
    for (uint32_t i = 0; i < keys.count; i++) {
        keys.keys[i].number = fuzz_byte(in);
        memcpy(keys.keys[i].key, &i, sizeof(i)); /* so that no two keys are the same */
        for (size_t j = sizeof(i); j < CRYPT_SIP_KEY_BYTES; j++) {
            keys.keys[i].key[j] = fuzz_byte(in);
        }
    }
    return keys;
}

static bool same(const struct ticket *a, const struct ticket *b)
{
    return a->user == b->user && a->item == b->item && order_id_equal(a->id, b->id) &&
           a->expires_at_ms == b->expires_at_ms;
}

/* The tag is libsodium's own over what lies before it, under the first key of that number. */
static void check_accepted(const struct ticket_keys *keys, struct span text,
                           const struct ticket *ticket)
{
    uint8_t bytes[TICKET_BYTES];
    uint8_t tag[crypto_shorthash_siphashx24_BYTES];
    size_t len = 0;
    CHECK(sodium_base642bin(bytes, sizeof(bytes), text.at, text.len, NULL, &len, NULL,
                            sodium_base64_VARIANT_URLSAFE_NO_PADDING) == 0);
    CHECK(len == TICKET_BYTES && bytes[1] == 1);
    uint32_t i = 0;
    while (i < keys->count && keys->keys[i].number != bytes[0]) {
        i++;
    }
    CHECK(i < keys->count);
    CHECK(crypto_shorthash_siphashx24(tag, bytes, 40, keys->keys[i].key) == 0);
    CHECK(memcmp(tag, bytes + 40, sizeof(tag)) == 0);
    struct ticket read = {
        .user = load_le64(bytes + 8),
        .item = load_le64(bytes + 16),
        .id = {load_le64(bytes + 24), load_le64(bytes + 32)},
        .expires_at_ms = (int64_t)(load_le64(bytes) >> 16),
    };
    CHECK(same(ticket, &read));
}

/* A new key in front still knows the old ones; without its key a ticket is nothing. */
static void check_rotation(const struct ticket_keys *keys, struct span text,
                           const struct ticket *ticket)
{
    struct ticket back;
    struct ticket_keys turned = *keys;
    turned.count++;
    memcpy(turned.keys + 1, keys->keys, keys->count * sizeof(keys->keys[0]));
    memset(turned.keys[0].key, 0xee, CRYPT_SIP_KEY_BYTES);
    turned.keys[0].number = (uint8_t)(keys->keys[0].number + 1);
    CHECK(ticket_verify(&turned, text, &back) == 0 && same(&back, ticket));
    turned.count = 1;
    CHECK(ticket_verify(&turned, text, &back) != 0);
    turned.keys[0].number = keys->keys[0].number; /* another key of the same number */
    CHECK(ticket_verify(&turned, text, &back) != 0);
}

/* A bit of each character; every other last character, whose lowest bits stand for nothing. */
static void check_bits(const struct ticket_keys *keys, const char *text, struct fuzz_input *in)
{
    struct ticket back;
    char changed[TICKET_TEXT];
    char bit = (char)(1U << fuzz_below(in, 8));
    memcpy(changed, text, TICKET_TEXT);
    for (size_t i = 0; i < TICKET_TEXT; i++) {
        changed[i] ^= bit;
        CHECK(ticket_verify(keys, (struct span){changed, TICKET_TEXT}, &back) != 0);
        changed[i] ^= bit;
    }
    for (char c = '-'; c <= 'z'; c++) {
        changed[TICKET_TEXT - 1] = c;
        bool untouched = c == text[TICKET_TEXT - 1];
        CHECK((ticket_verify(keys, (struct span){changed, TICKET_TEXT}, &back) == 0) == untouched);
    }
}

/* A piece replaced, cut out or put in. */
static void check_changes(const struct ticket_keys *keys, const char *text, struct fuzz_input *in)
{
    struct ticket back;
    char changed[TICKET_TEXT + 64];
    size_t from = fuzz_below(in, TICKET_TEXT + 1);
    size_t gone = fuzz_below(in, (uint32_t)(TICKET_TEXT - from) + 1);
    struct span piece = fuzz_span(in, fuzz_below(in, 64));
    struct out out = out_over(changed, sizeof(changed));
    out_bytes(&out, text, from);
    out_put(&out, piece);
    out_bytes(&out, text + from + gone, TICKET_TEXT - from - gone);
    CHECK(!out.overflow);
    bool untouched = out.len == TICKET_TEXT && memcmp(changed, text, TICKET_TEXT) == 0;
    CHECK((ticket_verify(keys, out_span(&out), &back) == 0) == untouched);
}

int LLVMFuzzerTestOneInput(const uint8_t *bytes, size_t size)
{
    struct fuzz_input in = {bytes, size};
    struct ticket_keys keys = draw_keys(&in);
    struct ticket ticket;
    ticket.user = fuzz_number(&in, 8);
    ticket.item = fuzz_number(&in, 8);
    ticket.id.hi = fuzz_number(&in, 8);
    ticket.id.lo = fuzz_number(&in, 8);
    ticket.expires_at_ms = (int64_t)fuzz_number(&in, 6);
    char text[TICKET_TEXT];
    struct ticket back;
    CHECK(crypt_start() == 0);
    ticket_sign(&keys, &ticket, text);
    struct span whole = {text, TICKET_TEXT};
    CHECK(ticket_verify(&keys, whole, &back) == 0 && same(&back, &ticket));
    check_accepted(&keys, whole, &back);
    check_rotation(&keys, whole, &ticket);
    check_bits(&keys, text, &in);
    check_changes(&keys, text, &in);
    struct span rest = fuzz_span(&in, in.left);
    if (ticket_verify(&keys, rest, &back) == 0) {
        check_accepted(&keys, rest, &back);
    }
    return 0;
}
