/* The functions of crypt.h on libsodium. ARCHITECTURE.md gives the reasons for the choice. */
#include "base/crypt.h"

#include <sodium.h>

#include "base/check.h"
#include "base/err.h"

_Static_assert(CRYPT_SIP_BYTES == crypto_shorthash_siphashx24_BYTES, "tag size");
_Static_assert(CRYPT_SIP_KEY_BYTES == crypto_shorthash_siphashx24_KEYBYTES, "key size");
_Static_assert(CRYPT_HMAC_BYTES == crypto_auth_hmacsha256_BYTES, "mac size");

int crypt_start(void)
{
    return sodium_init() < 0 ? ERR_IO : 0;
}

void crypt_random(void *ret_bytes, size_t n)
{
    randombytes_buf(ret_bytes, n);
}

bool crypt_equal(const void *a, const void *b, size_t n)
{
    return sodium_memcmp(a, b, n) == 0;
}

void crypt_siphash128(const uint8_t key[CRYPT_SIP_KEY_BYTES], const void *bytes, size_t n,
                      uint8_t ret_tag[CRYPT_SIP_BYTES])
{
    crypto_shorthash_siphashx24(ret_tag, bytes, n, key);
}

void crypt_hmac_sha256(struct span key, const struct span *parts, size_t count,
                       uint8_t ret_tag[CRYPT_HMAC_BYTES])
{
    crypto_auth_hmacsha256_state state;
    crypto_auth_hmacsha256_init(&state, (const unsigned char *)key.at, key.len);
    for (size_t i = 0; i < count; i++) {
        crypto_auth_hmacsha256_update(&state, (const unsigned char *)parts[i].at, parts[i].len);
    }
    crypto_auth_hmacsha256_final(&state, ret_tag);
}

bool crypt_ed25519_verify(const uint8_t public_key[CRYPT_ED25519_PUBLIC_BYTES], struct span message,
                          const uint8_t signature[CRYPT_ED25519_SIGNATURE_BYTES])
{
    return crypto_sign_ed25519_verify_detached(signature, (const unsigned char *)message.at,
                                               message.len, public_key) == 0;
}

void crypt_hash(const void *bytes, size_t n, uint8_t *ret_hash, size_t hash_len)
{
    CHECK(hash_len >= crypto_generichash_BYTES_MIN && hash_len <= crypto_generichash_BYTES_MAX);
    crypto_generichash(ret_hash, hash_len, bytes, n, NULL, 0);
}
