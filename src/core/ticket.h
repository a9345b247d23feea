/*
 * Tickets: a signed permission to request one order, which expires. 56 bytes in base64url: key
 * number, version, expiry, user, item, order id, and a SipHash-128 tag over all of it. Signing
 * takes no stock, and verifying needs no lookup. Keys rotate: the newest signs, the older ones
 * still verify.
 */
#ifndef SLUICE_CORE_TICKET_H
#define SLUICE_CORE_TICKET_H

#include "base/crypt.h"
#include "core/types.h"

#define TICKET_BYTES 56
#define TICKET_TEXT 75 /* base64url_len(TICKET_BYTES) */
#define TICKET_KEYS_MAX 4

struct ticket {
    uint64_t user;
    uint64_t item;
    struct order_id id;
    int64_t expires_at_ms;
};

struct ticket_keys {
    uint32_t count; /* at least 1; keys[0] signs */
    struct {
        uint8_t number;
        uint8_t key[CRYPT_SIP_KEY_BYTES];
    } keys[TICKET_KEYS_MAX];
};

/* Writes TICKET_TEXT characters, no terminator. */
void ticket_sign(const struct ticket_keys *keys, const struct ticket *ticket, char *ret_text);
/* 0, or ERR_INVALID: not ours, altered, or signed with a removed key. The caller checks the
 * expiry. */
int ticket_verify(const struct ticket_keys *keys, struct span text, struct ticket *ret_ticket);

#endif
