/*
 * See token.h. Cheap checks come first: the scheme, the cache, the form and the key, the limit on
 * failures, the signature, the claims.
 */
#include "api/token.h"

#include <stdlib.h>
#include <string.h>

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
    } else if (alg->kind == FLAT_STRING && span_is(alg->text, "EdDSA")) {
        algorithm = TOKEN_EDDSA;
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

static bool signature_holds(const struct token_key *key, const struct parts *parts)
{
    uint8_t given[CRYPT_ED25519_SIGNATURE_BYTES];
    size_t len = 0;
    if (base64url_decode(parts->signature, given, sizeof(given), &len) != 0) {
        return false;
    }
    if (key->algorithm == TOKEN_EDDSA) {
        return len == CRYPT_ED25519_SIGNATURE_BYTES &&
               crypt_ed25519_verify(key->key, parts->signed_part, given);
    }
    uint8_t made[CRYPT_HMAC_BYTES];
    crypt_hmac_sha256((struct span){(const char *)key->key, sizeof(key->key)}, &parts->signed_part,
                      1, made);
    return len == sizeof(made) && crypt_equal(made, given, sizeof(made));
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

static int read_claims(struct span claims, int64_t now_ms, int64_t leeway_ms, uint64_t *ret_user,
                       int64_t *ret_expires_ms)
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
    *ret_user = user;
    *ret_expires_ms = expires_s * 1000 + leeway_ms;
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

int token_verify(const struct token_keys *keys, struct span token, int64_t now_ms,
                 int64_t leeway_ms, uint64_t *ret_user, int64_t *ret_expires_ms)
{
    struct parts parts;
    const struct token_key *key = open_token(keys, token, &parts);
    if (key == NULL || !signature_holds(key, &parts)) {
        return ERR_INVALID;
    }
    return read_claims(parts.claims, now_ms, leeway_ms, ret_user, ret_expires_ms);
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
    uint8_t tag[CRYPT_SIP_BYTES]; /* of the token; all zero: empty */
    uint64_t user;
    int64_t expires_ms;
};

/* Failed checks of an address; addresses with the same hash share a slot. An address may fail
 * FAILURES_MAX times at once, and FAILURES_PER_S times a second after that, which costs 5 % of a core
 * for EdDSA. */
#define FAILURE_SLOTS 4096
#define FAILURES_MAX 2000
#define FAILURES_PER_S 1000

struct failures {
    uint32_t count;
    int64_t since_ms;
};

struct token_cache {
    uint8_t key[CRYPT_SIP_KEY_BYTES];
    uint32_t mask;
    struct failures failures[FAILURE_SLOTS];
    struct cached_token entries[];
};

struct token_cache *token_cache_new(uint32_t entries)
{
    uint32_t count = 64;
    while (count < entries && count < 1U << 24) {
        count *= 2;
    }
    struct token_cache *cache = calloc(1, sizeof(*cache) + count * sizeof(cache->entries[0]));
    if (cache != NULL) {
        cache->mask = count - 1;
        crypt_random(cache->key, sizeof(cache->key));
    }
    return cache;
}

void token_cache_free(struct token_cache *cache)
{
    free(cache);
}

void token_cache_clear(struct token_cache *cache)
{
    memset(cache->entries, 0, ((size_t)cache->mask + 1) * sizeof(cache->entries[0]));
}

static struct failures *failures_of(struct token_cache *cache, struct net_address from)
{
    uint8_t tag[CRYPT_SIP_BYTES];
    /* A client with IPv6 may use all addresses of a /64. */
    size_t len = from.family == 6 ? 8 : 16;
    crypt_siphash128(cache->key, from.bytes, len, tag);
    return &cache->failures[load_le32(tag) % FAILURE_SLOTS];
}

static bool failed_too_often(struct failures *failures, int64_t now_ms)
{
    int64_t passed_ms = now_ms - failures->since_ms;
    if (passed_ms >= 1000) {
        int64_t forgiven = passed_ms / 1000 * FAILURES_PER_S;
        failures->count = forgiven >= failures->count ? 0 : failures->count - (uint32_t)forgiven;
        failures->since_ms = now_ms;
    }
    return failures->count >= FAILURES_MAX;
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

enum refusal token_check(struct token_cache *cache, const struct token_keys *keys,
                         struct span authorization, struct net_address from, int64_t now_ms,
                         int64_t leeway_ms, uint64_t *ret_user, bool *ret_cached)
{
    struct span token;
    if (bearer(authorization, &token) != 0) {
        return REFUSAL_UNAUTHENTICATED;
    }
    uint8_t tag[CRYPT_SIP_BYTES];
    crypt_siphash128(cache->key, token.at, token.len, tag);
    struct cached_token *entry = &cache->entries[load_le32(tag) & cache->mask];
    if (memcmp(entry->tag, tag, sizeof(tag)) == 0 && now_ms < entry->expires_ms) {
        *ret_user = entry->user;
        *ret_cached = true;
        return REFUSAL_NONE;
    }
    /* Only Ed25519 is expensive enough for a limit. Other bad tokens cost next to nothing, and must not
     * use up the limit of buyers behind the same proxy. */
    struct parts parts;
    const struct token_key *key = open_token(keys, token, &parts);
    struct failures *failures =
        key != NULL && key->algorithm == TOKEN_EDDSA ? failures_of(cache, from) : NULL;
    if (failures != NULL && failed_too_often(failures, now_ms)) {
        return REFUSAL_RATE_LIMITED;
    }
    uint64_t user = 0;
    int64_t expires_ms = 0;
    if (key == NULL || !signature_holds(key, &parts)) {
        if (failures != NULL) {
            failures->count++;
        }
        return REFUSAL_UNAUTHENTICATED;
    }
    if (read_claims(parts.claims, now_ms, leeway_ms, &user, &expires_ms) != 0) {
        return REFUSAL_UNAUTHENTICATED;
    }
    memcpy(entry->tag, tag, sizeof(tag));
    entry->user = user;
    entry->expires_ms = expires_ms;
    *ret_user = user;
    *ret_cached = false;
    return REFUSAL_NONE;
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
