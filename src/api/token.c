/* See token.h. */
#include "api/token.h"

#include <stdlib.h>
#include <string.h>

#include "api/check_budget.h"
#include "base/err.h"
#include "base/flat_json.h"

#define HEADER_MAX 512
#define CLAIMS_MAX 1024

/* ---- JWT ---- */

/* header.claims.signature, each base64url. */
struct parts {
    struct span header;
    struct span claims;
    struct span signature;
    struct span signed_part; /* header.claims */
};

static int split(struct span token, struct parts *ret_parts)
{
    const char *first = token.len > 0 ? memchr(token.at, '.', token.len) : NULL;
    if (first == NULL) {
        return ERR_INVALID;
    }
    size_t rest = token.len - (size_t)(first - token.at) - 1;
    const char *second = memchr(first + 1, '.', rest);
    if (second == NULL) {
        return ERR_INVALID;
    }
    size_t signature_len = token.len - (size_t)(second - token.at) - 1;
    if (signature_len == 0 || memchr(second + 1, '.', signature_len) != NULL) {
        return ERR_INVALID;
    }
    ret_parts->header = (struct span){token.at, (size_t)(first - token.at)};
    ret_parts->claims = (struct span){first + 1, (size_t)(second - first) - 1};
    ret_parts->signature = (struct span){second + 1, signature_len};
    ret_parts->signed_part = (struct span){token.at, (size_t)(second - token.at)};
    return 0;
}

/* The key that the header names; NULL if there is none or its algorithm is another one. */
static const struct token_key *choose_key(const struct token_keys *keys, struct span header)
{
    char json[HEADER_MAX];
    size_t len = 0;
    struct flat_field fields[] = {{.key = "alg"}, {.key = "kid"}, {.key = "crit"}};
    if (base64url_decode(header, json, sizeof(json), &len) != 0 ||
        flat_json_read((struct span){json, len}, fields, 3, false, NULL) != 0) {
        return NULL;
    }
    const struct flat_value *alg = &fields[0].value;
    const struct flat_value *kid = &fields[1].value;
    enum token_algorithm algorithm;
    if (alg->kind == FLAT_STRING && span_is(alg->text, "HS256")) {
        algorithm = TOKEN_HS256;
    } else if (alg->kind == FLAT_STRING &&
               (span_is(alg->text, "EdDSA") || span_is(alg->text, "Ed25519"))) {
        algorithm = TOKEN_EDDSA; /* RFC 8037's name, and RFC 9864's */
    } else {
        return NULL;
    }
    /* crit names extensions that must be understood; this server understands none. */
    bool kid_odd = kid->kind != FLAT_ABSENT && (kid->kind != FLAT_STRING || kid->escaped);
    if (fields[2].value.kind != FLAT_ABSENT || kid_odd) {
        return NULL;
    }
    for (uint32_t i = 0; i < keys->count; i++) {
        const struct token_key *key = &keys->keys[i];
        bool named =
            kid->kind == FLAT_STRING ? span_is(kid->text, key->kid) : key->algorithm == algorithm;
        if (named) {
            return key->algorithm == algorithm ? key : NULL;
        }
    }
    return NULL;
}

static size_t signature_bytes(const struct token_key *key)
{
    return key->algorithm == TOKEN_EDDSA ? CRYPT_ED25519_SIGNATURE_BYTES : CRYPT_HMAC_BYTES;
}

/* The signature, decoded. False: no key of this algorithm could have made it. Costs little. */
static bool read_signature(const struct token_key *key, struct span text,
                           uint8_t ret_signature[CRYPT_ED25519_SIGNATURE_BYTES])
{
    size_t len = 0;
    return base64url_decode(text, ret_signature, CRYPT_ED25519_SIGNATURE_BYTES, &len) == 0 &&
           len == signature_bytes(key) &&
           (key->algorithm != TOKEN_EDDSA || crypt_ed25519_plausible(ret_signature));
}

static bool signature_holds(const struct token_key *key, struct span signed_part,
                            const uint8_t signature[CRYPT_ED25519_SIGNATURE_BYTES])
{
    if (key->algorithm == TOKEN_EDDSA) {
        return crypt_ed25519_verify(key->key, signed_part, signature);
    }
    uint8_t made[CRYPT_HMAC_BYTES];
    crypt_hmac_sha256((struct span){(const char *)key->key, sizeof(key->key)}, &signed_part, 1,
                      made);
    return crypt_equal(made, signature, sizeof(made));
}

/* A NumericDate of RFC 7519: seconds; a fraction is cut off. */
static int numeric_date(const struct flat_value *value, int64_t *ret_seconds)
{
    uint64_t seconds = 0;
    size_t whole = 0;
    while (whole < value->text.len && value->text.at[whole] != '.') {
        whole++;
    }
    bool number = value->kind == FLAT_INTEGER || value->kind == FLAT_NUMBER;
    for (size_t i = whole + 1; number && i < value->text.len; i++) {
        number = value->text.at[i] >= '0' && value->text.at[i] <= '9';
    }
    if (!number || span_parse_u64((struct span){value->text.at, whole},
                                  (uint64_t)TIME_MAX_MS / 1000, &seconds) != 0) {
        return ERR_INVALID;
    }
    *ret_seconds = (int64_t)seconds;
    return 0;
}

static int read_claims(struct span claims, int64_t now_ms, int64_t leeway_ms,
                       struct token_grant *ret_grant)
{
    char json[CLAIMS_MAX];
    size_t len = 0;
    uint64_t user = 0;
    struct flat_field fields[] = {{.key = "sub"}, {.key = "exp"}, {.key = "nbf"}};
    if (base64url_decode(claims, json, sizeof(json), &len) != 0 ||
        flat_json_read((struct span){json, len}, fields, 3, false, NULL) != 0) {
        return ERR_INVALID;
    }
    const struct flat_value *sub = &fields[0].value;
    const struct flat_value *exp = &fields[1].value;
    const struct flat_value *nbf = &fields[2].value;
    if (sub->kind != FLAT_STRING || span_parse_u64(sub->text, ID_MAX, &user) != 0 || user == 0) {
        return ERR_INVALID;
    }
    int64_t expires_s = 0;
    int64_t from_s = 0;
    if (numeric_date(exp, &expires_s) != 0 ||
        (nbf->kind != FLAT_ABSENT && numeric_date(nbf, &from_s) != 0)) {
        return ERR_INVALID;
    }
    if (from_s * 1000 > now_ms + leeway_ms || expires_s * 1000 + leeway_ms <= now_ms) {
        return ERR_INVALID;
    }
    ret_grant->user = user;
    ret_grant->expires_ms = expires_s * 1000 + leeway_ms;
    return 0;
}

/* Checks the form and finds the key. Does not check the signature. NULL: refused. */
static const struct token_key *open_token(const struct token_keys *keys, struct span token,
                                          struct parts *ret_parts)
{
    if (token.len > TOKEN_MAX_BYTES || split(token, ret_parts) != 0) {
        return NULL;
    }
    return choose_key(keys, ret_parts->header);
}

/* Everything about a token that costs little: its form, its key, its claims, and the form of its
 * signature. NULL: refused. */
static const struct token_key *check_cheaply(const struct token_keys *keys, struct span token,
                                             int64_t now_ms, int64_t leeway_ms,
                                             struct parts *ret_parts, uint8_t *ret_signature,
                                             struct token_grant *ret_grant)
{
    const struct token_key *key = open_token(keys, token, ret_parts);
    if (key == NULL || read_claims(ret_parts->claims, now_ms, leeway_ms, ret_grant) != 0 ||
        !read_signature(key, ret_parts->signature, ret_signature)) {
        return NULL;
    }
    ret_grant->key = (uint8_t)(key - keys->keys);
    return key;
}

int token_verify(const struct token_keys *keys, struct span token, int64_t now_ms,
                 int64_t leeway_ms, struct token_grant *ret_grant)
{
    struct parts parts;
    struct token_grant grant;
    uint8_t signature[CRYPT_ED25519_SIGNATURE_BYTES];
    const struct token_key *key =
        check_cheaply(keys, token, now_ms, leeway_ms, &parts, signature, &grant);
    if (key == NULL || !signature_holds(key, parts.signed_part, signature)) {
        return ERR_INVALID;
    }
    *ret_grant = grant;
    return 0;
}

size_t token_sign(const struct token_key *key, uint64_t user, int64_t expires_s, char *ret_text)
{
    char header[HEADER_MAX];
    char claims[CLAIMS_MAX];
    struct out head = out_over(header, sizeof(header));
    out_lit(&head, "{\"alg\":\"HS256\",\"typ\":\"JWT\"");
    if (key->kid[0] != '\0') {
        out_lit(&head, ",\"kid\":");
        out_json_string(&head, span_of(key->kid));
    }
    out_char(&head, '}');
    struct out body = out_over(claims, sizeof(claims));
    out_lit(&body, "{\"sub\":\"");
    out_u64(&body, user);
    out_lit(&body, "\",\"exp\":");
    out_i64(&body, expires_s);
    out_char(&body, '}');
    char *at = ret_text;
    base64url_encode(header, head.len, at);
    at += base64url_len(head.len);
    *at++ = '.';
    base64url_encode(claims, body.len, at);
    at += base64url_len(body.len);
    struct span signed_part = {ret_text, (size_t)(at - ret_text)};
    uint8_t tag[CRYPT_HMAC_BYTES];
    crypt_hmac_sha256((struct span){(const char *)key->key, sizeof(key->key)}, &signed_part, 1,
                      tag);
    *at++ = '.';
    base64url_encode(tag, sizeof(tag), at);
    return (size_t)(at - ret_text) + base64url_len(sizeof(tag));
}

/* ---- the cache ---- */

struct cached_token {
    uint8_t tag[CRYPT_SIP_BYTES]; /* of the token */
    uint64_t user;
    uint64_t expires_ms : 56; /* 0: empty */
    uint64_t key : 8;
};

/* A token is in one of the entries of its set, so that buyers seldom push each other out. */
#define SET_ENTRIES 4
/* Tokens whose Ed25519 check failed lately. */
#define FAILED_TOKENS 4096U

struct token_cache {
    uint8_t key[CRYPT_SIP_KEY_BYTES];
    uint32_t sets_mask;
    struct check_budget budget;
    uint8_t failed[FAILED_TOKENS][CRYPT_SIP_BYTES]; /* tags */
    struct cached_token entries[];                  /* the sets one after the other */
};

struct token_cache *token_cache_new(uint32_t entries)
{
    uint32_t count = 64;
    while (count < entries && count < 1U << 24) {
        count *= 2;
    }
    struct token_cache *cache = calloc(1, sizeof(*cache) + count * sizeof(cache->entries[0]));
    if (cache != NULL) {
        cache->sets_mask = count / SET_ENTRIES - 1;
        crypt_random(cache->key, sizeof(cache->key));
        check_budget_init(&cache->budget, cache->key);
    }
    return cache;
}

void token_cache_free(struct token_cache *cache)
{
    free(cache);
}

void token_cache_clear(struct token_cache *cache)
{
    size_t count = ((size_t)cache->sets_mask + 1) * SET_ENTRIES;
    memset(cache->entries, 0, count * sizeof(cache->entries[0]));
    memset(cache->failed, 0, sizeof(cache->failed)); /* a new key may have made them */
}

static size_t set_of(const struct token_cache *cache, const uint8_t tag[CRYPT_SIP_BYTES])
{
    return (size_t)(load_le32(tag) & cache->sets_mask) * SET_ENTRIES;
}

static void remember(struct token_cache *cache, const uint8_t tag[CRYPT_SIP_BYTES], int64_t now_ms,
                     const struct token_grant *grant)
{
    struct cached_token *set = &cache->entries[set_of(cache, tag)];
    struct cached_token *entry = &set[tag[CRYPT_SIP_BYTES - 1] % SET_ENTRIES];
    for (size_t i = 0; i < SET_ENTRIES; i++) {
        if ((int64_t)set[i].expires_ms <= now_ms) {
            entry = &set[i];
            break;
        }
    }
    memcpy(entry->tag, tag, sizeof(entry->tag));
    entry->user = grant->user;
    entry->expires_ms = (uint64_t)grant->expires_ms;
    entry->key = grant->key;
}

/* The token of "Bearer <token>". The scheme is not case-sensitive. */
static int bearer(struct span authorization, struct span *ret_token)
{
    static const char scheme[] = "bearer ";
    size_t len = sizeof(scheme) - 1;
    if (authorization.len <= len ||
        !span_equal_nocase((struct span){authorization.at, len}, (struct span){scheme, len})) {
        return ERR_INVALID;
    }
    *ret_token = (struct span){authorization.at + len, authorization.len - len};
    return 0;
}

bool token_cached(const struct token_cache *cache, struct span authorization, int64_t now_ms,
                  struct token_grant *ret_grant)
{
    struct span token;
    uint8_t tag[CRYPT_SIP_BYTES];
    if (bearer(authorization, &token) != 0) {
        return false;
    }
    crypt_siphash128(cache->key, token.at, token.len, tag);
    const struct cached_token *set = &cache->entries[set_of(cache, tag)];
    for (size_t i = 0; i < SET_ENTRIES; i++) {
        if (memcmp(set[i].tag, tag, sizeof(tag)) == 0 && now_ms < (int64_t)set[i].expires_ms) {
            *ret_grant = (struct token_grant){.user = set[i].user,
                                              .expires_ms = (int64_t)set[i].expires_ms,
                                              .key = (uint8_t)set[i].key};
            return true;
        }
    }
    return false;
}

/* Checks an Ed25519 signature, unless its token failed lately or the budget is used up. */
static enum refusal check_ed25519(struct token_cache *cache, const struct token_key *key,
                                  struct span signed_part, const uint8_t *signature,
                                  const uint8_t tag[CRYPT_SIP_BYTES], struct net_address client,
                                  int64_t now_ms)
{
    uint8_t *failed = cache->failed[load_le32(tag) % FAILED_TOKENS];
    if (memcmp(failed, tag, CRYPT_SIP_BYTES) == 0) {
        return REFUSAL_UNAUTHENTICATED;
    }
    if (!check_budget_allows(&cache->budget, client, now_ms)) {
        return REFUSAL_RATE_LIMITED;
    }
    if (!signature_holds(key, signed_part, signature)) {
        check_budget_failed(&cache->budget, client, now_ms);
        memcpy(failed, tag, CRYPT_SIP_BYTES);
        return REFUSAL_UNAUTHENTICATED;
    }
    return REFUSAL_NONE;
}

enum refusal token_check(struct token_cache *cache, const struct token_keys *keys,
                         struct span authorization, struct net_address client, int64_t now_ms,
                         int64_t leeway_ms, struct token_grant *ret_grant)
{
    struct span token;
    struct parts parts;
    struct token_grant grant;
    uint8_t tag[CRYPT_SIP_BYTES];
    uint8_t signature[CRYPT_ED25519_SIGNATURE_BYTES];
    if (bearer(authorization, &token) != 0) {
        return REFUSAL_UNAUTHENTICATED;
    }
    const struct token_key *key =
        check_cheaply(keys, token, now_ms, leeway_ms, &parts, signature, &grant);
    if (key == NULL) {
        return REFUSAL_UNAUTHENTICATED;
    }
    crypt_siphash128(cache->key, token.at, token.len, tag);
    enum refusal refusal = REFUSAL_NONE;
    if (key->algorithm == TOKEN_EDDSA) {
        refusal = check_ed25519(cache, key, parts.signed_part, signature, tag, client, now_ms);
    } else if (!signature_holds(key, parts.signed_part, signature)) {
        refusal = REFUSAL_UNAUTHENTICATED;
    }
    if (refusal == REFUSAL_NONE) {
        remember(cache, tag, now_ms, &grant);
        *ret_grant = grant;
    }
    return refusal;
}

bool token_is_admin(struct span authorization, struct span admin_token)
{
    struct span token;
    return admin_token.len > 0 && bearer(authorization, &token) == 0 &&
           token.len == admin_token.len && crypt_equal(token.at, admin_token.at, token.len);
}

/* ---- webhooks ---- */

/* One entry of the signature header: "v1,<base64>". */
static bool signature_matches(struct span entry, const uint8_t made[CRYPT_HMAC_BYTES])
{
    uint8_t given[CRYPT_HMAC_BYTES];
    size_t len = 0;
    if (entry.len < 3 || memcmp(entry.at, "v1,", 3) != 0 ||
        base64_decode((struct span){entry.at + 3, entry.len - 3}, given, sizeof(given), &len) !=
            0) {
        return false;
    }
    return len == sizeof(given) && crypt_equal(given, made, sizeof(given));
}

bool webhook_plausible(struct span id, struct span timestamp, struct span signatures,
                       int64_t now_ms, int64_t window_s)
{
    uint64_t at_s = 0;
    if (id.len == 0 || signatures.len == 0 ||
        span_parse_u64(timestamp, (uint64_t)TIME_MAX_MS / 1000, &at_s) != 0) {
        return false;
    }
    int64_t off_s = now_ms / 1000 - (int64_t)at_s;
    return off_s <= window_s && off_s >= -window_s;
}

bool webhook_verify(struct span key, struct span id, struct span timestamp, struct span signatures,
                    struct span body, int64_t now_ms, int64_t window_s)
{
    if (!webhook_plausible(id, timestamp, signatures, now_ms, window_s)) {
        return false;
    }
    struct span dot = {".", 1};
    struct span signed_parts[] = {id, dot, timestamp, dot, body};
    uint8_t made[CRYPT_HMAC_BYTES];
    crypt_hmac_sha256(key, signed_parts, 5, made);
    bool good = false;
    size_t at = 0;
    while (at < signatures.len) {
        size_t end = at;
        while (end < signatures.len && signatures.at[end] != ' ') {
            end++;
        }
        good = signature_matches((struct span){signatures.at + at, end - at}, made) || good;
        at = end + 1;
    }
    return good;
}
