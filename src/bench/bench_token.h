/*
 * Signs buyers' tokens (JWT, HS256) and payment notices (Standard Webhooks) with the keys in the
 * server's data folder.
 */
#ifndef SLUICE_BENCH_BENCH_TOKEN_H
#define SLUICE_BENCH_BENCH_TOKEN_H

#include <stddef.h>
#include <stdint.h>

#include "base/bytes.h"
#include "base/crypt.h"

#define BENCH_TOKEN_MAX 256
/* "v1," and the base64 of the tag. */
#define BENCH_SIGNATURE_LEN (3 + (CRYPT_HMAC_BYTES + 2) / 3 * 4)

struct bench_keys {
    uint8_t jwt[CRYPT_KEY_BYTES];
    uint8_t webhook[CRYPT_KEY_BYTES];
    char admin_token[BENCH_TOKEN_MAX]; /* empty if the folder has none */
};

/*
 * Reads DATA/jwt.key, DATA/webhook.key and DATA/admin.token. ERR_IO or ERR_INVALID with the path of
 * the file in ret_path (path_cap bytes).
 */
int bench_keys_load(const char *data, struct bench_keys *ret_keys, char *ret_path, size_t path_cap);

/* Writes a token, no terminator; returns its length, at most BENCH_TOKEN_MAX. */
size_t bench_token_write(const struct bench_keys *keys, uint64_t user, int64_t expires_at_s,
                         char *ret_token);

/* Writes BENCH_SIGNATURE_LEN characters, no terminator. */
void bench_signature_write(const struct bench_keys *keys, struct span id, struct span timestamp,
                           struct span body, char *ret_signature);

#endif
