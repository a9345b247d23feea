/*
 * The cryptographic primitives the program uses. crypt.c is the only file that includes libsodium.
 * Call crypt_start() once, before any other function here.
 */
#ifndef SLUICE_BASE_CRYPT_H
#define SLUICE_BASE_CRYPT_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/bytes.h"

#define CRYPT_KEY_BYTES 32
#define CRYPT_SIP_KEY_BYTES 16
#define CRYPT_SIP_BYTES 16
#define CRYPT_HMAC_BYTES 32
#define CRYPT_ED25519_PUBLIC_BYTES 32
#define CRYPT_ED25519_SIGNATURE_BYTES 64

/* ERR_IO if the system gives no randomness. */
int crypt_start(void);
void crypt_random(void *ret_bytes, size_t n);
/* Constant time in the contents; lengths must be equal and are not secret. */
bool crypt_equal(const void *a, const void *b, size_t n);
void crypt_siphash128(const uint8_t key[CRYPT_SIP_KEY_BYTES], const void *bytes, size_t n,
                      uint8_t ret_tag[CRYPT_SIP_BYTES]);
/* HMAC-SHA256 over the concatenation of count spans. The key may have any length. */
void crypt_hmac_sha256(struct span key, const struct span *parts, size_t count,
                       uint8_t ret_tag[CRYPT_HMAC_BYTES]);
bool crypt_ed25519_verify(const uint8_t public_key[CRYPT_ED25519_PUBLIC_BYTES], struct span message,
                          const uint8_t signature[CRYPT_ED25519_SIGNATURE_BYTES]);
/* False: the signature is not in the only form that RFC 8032 allows, and no key verifies it. Costs
 * nothing beside a verification. */
bool crypt_ed25519_plausible(const uint8_t signature[CRYPT_ED25519_SIGNATURE_BYTES]);
/* BLAKE2b of n bytes, for names of static files and for comparing request bodies. */
void crypt_hash(const void *bytes, size_t n, uint8_t *ret_hash, size_t hash_len);

#endif
