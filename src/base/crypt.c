/* The functions of crypt.h on libsodium. ARCHITECTURE.md gives the reasons for the choice. */
#include "base/crypt.h"

#include <string.h>

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

/* a < b, both little-endian. */
static bool is_below(const uint8_t a[32], const uint8_t b[32])
{
    for (int i = 31; i >= 0; i--) {
        if (a[i] != b[i]) {
            return a[i] < b[i];
        }
    }
    return false;
}

bool crypt_ed25519_plausible(const uint8_t signature[CRYPT_ED25519_SIGNATURE_BYTES])
{
    static const uint8_t order[32] = {0xed, 0xd3, 0xf5, 0x5c, 0x1a, 0x63, 0x12, 0x58,       0xd6,
                                      0x9c, 0xf7, 0xa2, 0xde, 0xf9, 0xde, 0x14, [31] = 0x10};
    /* The signature is a point, which is a coordinate below 2^255 - 19 and a sign bit, and a scalar
     * below the order of the group. */
    uint8_t prime[32];
    uint8_t coordinate[32];
    memset(prime, 0xff, sizeof(prime));
    prime[0] = 0xed;
    prime[31] = 0x7f;
    memcpy(coordinate, signature, sizeof(coordinate));
    coordinate[31] &= 0x7f;
    return is_below(coordinate, prime) && is_below(signature + 32, order);
}

void crypt_hash(const void *bytes, size_t n, uint8_t *ret_hash, size_t hash_len)
{
    CHECK(hash_len >= crypto_generichash_BYTES_MIN && hash_len <= crypto_generichash_BYTES_MAX);
    crypto_generichash(ret_hash, hash_len, bytes, n, NULL, 0);
}
