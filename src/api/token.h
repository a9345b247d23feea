/*
 * Credentials: buyers' JWTs (HS256 and EdDSA only), the admin token, webhook signatures.
 *
 * A key has one algorithm. A token names its key by `kid`; a token without one uses the first key of
 * its algorithm. A token is refused if its `alg` is not the algorithm of its key; so is `none`.
 *
 * Each loop caches verified tokens until their `exp`, in a table of fixed size. The table's key is the
 * SipHash-128 of the whole token under a random key.
 *
 * Ed25519 checks are expensive. So a new token is first refused for everything that costs little: its
 * form, its key, its claims, and a signature that no key could have made. A token that failed lately is
 * not checked again. Only then does the budget of failed checks decide (check_budget.h). Tokens in
 * the cache and HS256 tokens never meet that budget.
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

/* What a valid token says. */
struct token_grant {
    uint64_t user;
    int64_t expires_ms; /* with leeway: the token is not accepted from then on */
    uint8_t key;        /* index into the keys with which it was verified */
};

/* 0, or ERR_INVALID. Checks everything: form, algorithm, signature, sub, exp (with leeway). */
int token_verify(const struct token_keys *keys, struct span token, int64_t now_ms,
                 int64_t leeway_ms, struct token_grant *ret_grant);

/* The verified tokens and the failed checks of one loop. */
struct token_cache;
/* entries is rounded up to a power of two. NULL: no memory. */
struct token_cache *token_cache_new(uint32_t entries);
void token_cache_free(struct token_cache *cache);
/* Forgets all tokens: the keys were reloaded. */
void token_cache_clear(struct token_cache *cache);

/* Looks up the value of an Authorization header. True: the token was verified before and is valid. */
bool token_cached(const struct token_cache *cache, struct span authorization, int64_t now_ms,
                  struct token_grant *ret_grant);
/* Checks a token that is not cached. REFUSAL_NONE, UNAUTHENTICATED, or RATE_LIMITED if its signature was
 * not checked because too many checks have failed. */
enum refusal token_check(struct token_cache *cache, const struct token_keys *keys,
                         struct span authorization, struct net_address client, int64_t now_ms,
                         int64_t leeway_ms, struct token_grant *ret_grant);

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
