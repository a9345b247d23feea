/*
 * Credentials: buyers' JWTs (HS256 and EdDSA only), the admin token, webhook signatures.
 *
 * A key has one algorithm. A token names its key by `kid`; a token without one uses the first key of
 * its algorithm. A token is refused if its `alg` is not the algorithm of its key; so is `none`.
 *
 * Each loop caches verified tokens until their `exp`, in a table of fixed size. The table's key is the
 * SipHash-128 of the whole token under a random key. Failed Ed25519 checks are limited by address.
 */
#ifndef SLUICE_API_TOKEN_H
#define SLUICE_API_TOKEN_H

#include "base/crypt.h"
#include "core/types.h"
#include "port/net.h"

#define TOKEN_KEYS_MAX 16
#define TOKEN_KID_MAX 64
#define TOKEN_MAX_BYTES 2048
#define WEBHOOK_KEY_MAX 64

enum token_algorithm { TOKEN_HS256, TOKEN_EDDSA };

struct token_key {
    enum token_algorithm algorithm;
    char kid[TOKEN_KID_MAX + 1]; /* empty: for tokens without a kid */
    uint8_t key[CRYPT_KEY_BYTES];
};

struct token_keys {
    uint32_t count;
    struct token_key keys[TOKEN_KEYS_MAX];
};

/* 0, or ERR_INVALID. Checks everything: form, algorithm, signature, sub, exp (with leeway). */
int token_verify(const struct token_keys *keys, struct span token, int64_t now_ms,
                 int64_t leeway_ms, uint64_t *ret_user, int64_t *ret_expires_ms);

/* The verified tokens and the failures of one loop. */
struct token_cache;
/* entries is rounded up to a power of two. NULL: no memory. */
struct token_cache *token_cache_new(uint32_t entries);
void token_cache_free(struct token_cache *cache);
/* Forgets all tokens: the keys were reloaded. */
void token_cache_clear(struct token_cache *cache);

/* Checks the value of an Authorization header. REFUSAL_NONE, UNAUTHENTICATED, or RATE_LIMITED if this
 * address has failed too often. *ret_cached: the token was in the cache, and no signature was
 * checked. */
enum refusal token_check(struct token_cache *cache, const struct token_keys *keys,
                         struct span authorization, struct net_address from, int64_t now_ms,
                         int64_t leeway_ms, uint64_t *ret_user, bool *ret_cached);

/* Makes an HS256 token. Writes at most TOKEN_MAX_BYTES, no terminator; returns the length. */
size_t token_sign(const struct token_key *key, uint64_t user, int64_t expires_s, char *ret_text);

/* "Bearer <token>" compared in constant time. */
bool token_is_admin(struct span authorization, struct span admin_token);

/* Standard Webhooks: any of the space-separated v1 signatures over id.timestamp.body; the timestamp
 * within window_s of now. */
bool webhook_verify(struct span key, struct span id, struct span timestamp, struct span signatures,
                    struct span body, int64_t now_ms, int64_t window_s);
/* Whether such headers could be those of a signature: all three are there, and the timestamp is within
 * the window. For a look at a request whose body has not arrived. */
bool webhook_plausible(struct span id, struct span timestamp, struct span signatures,
                       int64_t now_ms, int64_t window_s);

#endif
