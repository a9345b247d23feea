/*
 * Layout, little-endian: 0 key number, 1 version, 2 expiry in ms (6 bytes), 8 user, 16 item,
 * 24 order id (hi, lo), 40 tag over bytes 0..39. The tag is compared in constant time.
 */
#include "core/ticket.h"

#include "base/check.h"
#include "base/err.h"

#define VERSION 1
#define SIGNED_BYTES 40

_Static_assert(SIGNED_BYTES + CRYPT_SIP_BYTES == TICKET_BYTES, "layout");
_Static_assert((TICKET_BYTES * 4 + 2) / 3 == TICKET_TEXT, "text length");

void ticket_sign(const struct ticket_keys *keys, const struct ticket *ticket, char *ret_text)
{
    CHECK(keys->count >= 1);
    uint8_t bytes[TICKET_BYTES];
    store_le64(bytes, (uint64_t)ticket->expires_at_ms << 16);
    bytes[0] = keys->keys[0].number;
    bytes[1] = VERSION;
    store_le64(bytes + 8, ticket->user);
    store_le64(bytes + 16, ticket->item);
    store_le64(bytes + 24, ticket->id.hi);
    store_le64(bytes + 32, ticket->id.lo);
    crypt_siphash128(keys->keys[0].key, bytes, SIGNED_BYTES, bytes + SIGNED_BYTES);
    base64url_encode(bytes, TICKET_BYTES, ret_text);
}

int ticket_verify(const struct ticket_keys *keys, struct span text, struct ticket *ret_ticket)
{
    uint8_t bytes[TICKET_BYTES];
    size_t len = 0;
    if (text.len != TICKET_TEXT || base64url_decode(text, bytes, sizeof(bytes), &len) != 0 ||
        bytes[1] != VERSION) {
        return ERR_INVALID;
    }
    for (uint32_t i = 0; i < keys->count; i++) {
        if (keys->keys[i].number != bytes[0]) {
            continue;
        }
        uint8_t tag[CRYPT_SIP_BYTES];
        crypt_siphash128(keys->keys[i].key, bytes, SIGNED_BYTES, tag);
        if (!crypt_equal(tag, bytes + SIGNED_BYTES, CRYPT_SIP_BYTES)) {
            return ERR_INVALID;
        }
        *ret_ticket = (struct ticket){
            .user = load_le64(bytes + 8),
            .item = load_le64(bytes + 16),
            .id = {load_le64(bytes + 24), load_le64(bytes + 32)},
            .expires_at_ms = (int64_t)(load_le64(bytes) >> 16),
        };
        return 0;
    }
    return ERR_INVALID;
}
