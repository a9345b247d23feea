/*
 * Buyers' tokens. Header and claims are the fuzzer's own JSON, or a plain one; they are signed with
 * a key the server has, or one it has not, and then perhaps changed.
 *
 * What is accepted has the signature that libsodium gives under a key of the server, whose
 * algorithm the header names, and jansson, reading the same claims, finds the same user and time.
 * What jansson finds to be in order and is written plainly (no escapes, nothing twice) is accepted:
 * the check does not refuse what it should not. token_check says the same as token_verify, then
 * remembers exactly what it accepted, until its time has come.
 */
#include "fuzz.h"

#include <sodium.h>

#include <jansson.h>

#include "api/token.h"

#define NOW_MS 1700000000000LL
#define LEEWAY_MS 5000

static struct token_keys keys; /* two HS256, one of them the default, and one Ed25519 */
static unsigned char ed25519_secret[crypto_sign_SECRETKEYBYTES];
static struct token_cache *memory;

static void start(void)
{
    if (memory != NULL) {
        return;
    }
    CHECK(crypt_start() == 0);
    memory = token_cache_new(64);
    CHECK(memory != NULL);
    keys.count = 3;
    keys.keys[1].algorithm = TOKEN_EDDSA;
    memcpy(keys.keys[1].kid, "ed", 3);
    memcpy(keys.keys[2].kid, "two", 4);
    unsigned char seed[crypto_sign_SEEDBYTES];
    memset(seed, 7, sizeof(seed));
    CHECK(crypto_sign_seed_keypair(keys.keys[1].key, ed25519_secret, seed) == 0);
    memset(keys.keys[0].key, 1, CRYPT_KEY_BYTES);
    memset(keys.keys[2].key, 2, CRYPT_KEY_BYTES);
}

/* The signature of text under key `which`; 3 is one the server does not have. */
static void sign(uint32_t which, struct span text, struct out *token)
{
    unsigned char tag[crypto_sign_BYTES];
    unsigned char foreign[CRYPT_KEY_BYTES];
    const unsigned char *message = (const unsigned char *)text.at;
    size_t len = crypto_auth_hmacsha256_BYTES;
    memset(foreign, 3, sizeof(foreign));
    if (which == 1) {
        len = crypto_sign_BYTES;
        CHECK(crypto_sign_detached(tag, NULL, message, text.len, ed25519_secret) == 0);
    } else {
        const unsigned char *key = which == 3 ? foreign : keys.keys[which].key;
        CHECK(crypto_auth_hmacsha256(tag, message, text.len, key) == 0);
    }
    char coded[128];
    CHECK(sodium_bin2base64(coded, sizeof(coded), tag, len,
                            sodium_base64_VARIANT_URLSAFE_NO_PADDING) != NULL);
    out_text(token, coded);
}

static void put_base64url(struct out *token, struct span json)
{
    char coded[2048];
    CHECK(sodium_bin2base64(coded, sizeof(coded), (const unsigned char *)json.at, json.len,
                            sodium_base64_VARIANT_URLSAFE_NO_PADDING) != NULL);
    out_text(token, coded);
}

static struct span draw_header(struct fuzz_input *in)
{
    static const char *const plain[] = {
        "{\"alg\":\"HS256\"}",
        "{\"alg\":\"HS256\",\"kid\":\"two\",\"typ\":\"JWT\"}",
        "{\"alg\":\"EdDSA\",\"kid\":\"ed\"}",
        "{\"alg\":\"EdDSA\"}",
        "{\"alg\":\"HS256\",\"kid\":\"ed\"}",
        "{\"alg\":\"none\"}",
        "{\"alg\":\"HS256\",\"crit\":[\"exp\"]}",
    };
    uint32_t choice = fuzz_below(in, 16);
    return choice < sizeof(plain) / sizeof(plain[0]) ? span_of(plain[choice])
                                                     : fuzz_span(in, fuzz_byte(in));
}

/* Part number n of a token, decoded; NULL where it is no strict base64url. */
static unsigned char *part(struct span token, int n, size_t *ret_len)
{
    static unsigned char bytes[3][TOKEN_MAX_BYTES + 256];
    size_t from = 0;
    for (int i = 0; i < n; i++) {
        while (from < token.len && token.at[from] != '.') {
            from++;
        }
        from++;
    }
    size_t end = from;
    while (end < token.len && token.at[end] != '.') {
        end++;
    }
    if (from > token.len ||
        sodium_base642bin(bytes[n], sizeof(bytes[n]) - 1, token.at + from, end - from, NULL,
                          ret_len, NULL, sodium_base64_VARIANT_URLSAFE_NO_PADDING) != 0) {
        return NULL;
    }
    bytes[n][*ret_len] = '\0';
    return bytes[n];
}

/* The key jansson's reading of the header leads to; -1: none. */
static int key_of(const json_t *header)
{
    const char *alg = json_string_value(json_object_get(header, "alg"));
    const json_t *kid = json_object_get(header, "kid");
    if (alg == NULL || json_object_get(header, "crit") != NULL ||
        (kid != NULL && !json_is_string(kid))) {
        return -1;
    }
    for (uint32_t i = 0; i < keys.count; i++) {
        const char *name = keys.keys[i].algorithm == TOKEN_EDDSA ? "EdDSA" : "HS256";
        bool fits = strcmp(alg, name) == 0;
        if (kid == NULL ? fits : strcmp(json_string_value(kid), keys.keys[i].kid) == 0) {
            return fits ? (int)i : -1;
        }
    }
    return -1;
}

static bool signature_fits(int key, struct span token)
{
    size_t len = 0;
    size_t signed_len = token.len;
    while (signed_len > 0 && token.at[signed_len - 1] != '.') {
        signed_len--;
    }
    const unsigned char *message = (const unsigned char *)token.at;
    const unsigned char *given = part(token, 2, &len);
    if (given == NULL || signed_len == 0) {
        return false;
    }
    if (keys.keys[key].algorithm == TOKEN_EDDSA) {
        return len == crypto_sign_BYTES &&
               crypto_sign_verify_detached(given, message, signed_len - 1, keys.keys[key].key) == 0;
    }
    return len == crypto_auth_hmacsha256_BYTES &&
           crypto_auth_hmacsha256_verify(given, message, signed_len - 1, keys.keys[key].key) == 0;
}

/* What jansson makes of the claims. */
struct reading {
    bool good;  /* in order, now */
    bool whole; /* times are whole numbers, so that `good` is exact */
    uint64_t user;
    double expires_s;
};

static struct reading read_claims(const json_t *claims)
{
    struct reading r = {.good = false};
    const char *sub = json_string_value(json_object_get(claims, "sub"));
    const json_t *exp = json_object_get(claims, "exp");
    const json_t *nbf = json_object_get(claims, "nbf");
    size_t digits = sub != NULL ? strspn(sub, "0123456789") : 0;
    if (digits == 0 || digits > 16 || sub[0] == '0' ||
        digits != json_string_length(json_object_get(claims, "sub")) || !json_is_number(exp) ||
        (nbf != NULL && !json_is_number(nbf))) {
        return r;
    }
    for (size_t i = 0; i < digits; i++) {
        r.user = r.user * 10 + (uint64_t)(sub[i] - '0');
    }
    double from_s = nbf != NULL ? json_number_value(nbf) : 0;
    r.expires_s = json_number_value(exp);
    r.whole = json_is_integer(exp) && (nbf == NULL || json_is_integer(nbf));
    r.good = r.user <= ID_MAX && r.expires_s >= 0 && r.expires_s <= TIME_MAX_MS / 1000.0 &&
             from_s >= 0 && from_s <= TIME_MAX_MS / 1000.0 && from_s * 1000 <= NOW_MS + LEEWAY_MS &&
             r.expires_s * 1000 + LEEWAY_MS > NOW_MS;
    return r;
}

/* Nothing here that the flat reader refuses and jansson takes. */
static bool plainly_written(const unsigned char *json, size_t len, size_t max)
{
    int depth = 0;
    for (size_t i = 0; i < len; i++) {
        if (json[i] == '\\' || json[i] == '\0' || json[i] == '-') {
            return false;
        }
        depth += json[i] == '{' || json[i] == '[';
    }
    return len <= max && depth <= 16;
}

static void check(struct span token)
{
    struct token_grant grant = {0};
    int error = token_verify(&keys, token, NOW_MS, LEEWAY_MS, &grant);
    size_t header_len = 0;
    size_t claims_len = 0;
    const unsigned char *header_text = part(token, 0, &header_len);
    const unsigned char *claims_text = part(token, 1, &claims_len);
    size_t dots = 0;
    for (size_t i = 0; i < token.len; i++) {
        dots += token.at[i] == '.';
    }
    if (header_text == NULL || claims_text == NULL || dots != 2) {
        CHECK(error != 0);
        return;
    }
    const size_t flags = JSON_REJECT_DUPLICATES | JSON_ALLOW_NUL;
    json_t *header = json_loadb((const char *)header_text, header_len, flags, NULL);
    json_t *claims = json_loadb((const char *)claims_text, claims_len, flags, NULL);
    bool plain = header != NULL && claims != NULL &&
                 plainly_written(header_text, header_len, 512) &&
                 plainly_written(claims_text, claims_len, 1024);
    /* Nothing is said where jansson refuses: a name twice that nobody asked for is not our affair. */
    if (json_is_object(header) && json_is_object(claims)) {
        int key = key_of(header);
        struct reading r = read_claims(claims);
        bool good = key >= 0 && signature_fits(key, token);
        if (error == 0) {
            CHECK(good && grant.user == r.user && grant.key == (uint8_t)key);
            CHECK((double)(grant.expires_ms - LEEWAY_MS) <= r.expires_s * 1000 + 1000);
            CHECK((double)(grant.expires_ms - LEEWAY_MS) >= r.expires_s * 1000 - 1000);
            CHECK(r.good || !r.whole);
        } else {
            CHECK(!(plain && good && r.good && r.whole && token.len <= TOKEN_MAX_BYTES));
        }
    }
    json_decref(header);
    json_decref(claims);
}

/* The memory agrees with the check, and with itself. */
static void check_memory(struct span token)
{
    char text[TOKEN_MAX_BYTES + 512];
    struct out out = out_over(text, sizeof(text));
    out_lit(&out, "Bearer ");
    out_put(&out, token);
    struct span value = out_span(&out);
    struct token_grant grant = {0};
    struct token_grant again = {0};
    const struct net_address from = {4, {127, 0, 0, 1}};
    bool good = token_verify(&keys, token, NOW_MS, LEEWAY_MS, &grant) == 0;
    token_cache_clear(memory);
    CHECK(!token_cached(memory, value, NOW_MS, &again));
    enum refusal said = token_check(memory, &keys, value, from, NOW_MS, LEEWAY_MS, &again);
    if (said ==
        REFUSAL_RATE_LIMITED) { /* thousands of bad signatures from one address: a new one */
        token_cache_free(memory);
        memory = token_cache_new(64);
        CHECK(memory != NULL);
        said = token_check(memory, &keys, value, from, NOW_MS, LEEWAY_MS, &again);
    }
    CHECK((said == REFUSAL_NONE) == good);
    if (good) {
        CHECK(again.user == grant.user && again.key == grant.key);
        again = (struct token_grant){0};
        CHECK(token_cached(memory, value, grant.expires_ms - 1, &again));
        CHECK(again.user == grant.user && again.expires_ms == grant.expires_ms);
        CHECK(!token_cached(memory, value, grant.expires_ms, &again));
        CHECK(token_check(memory, &keys, value, from, grant.expires_ms, LEEWAY_MS, &again) !=
              REFUSAL_NONE);
    } else {
        CHECK(!token_cached(memory, value, NOW_MS, &again));
    }
}

/* A piece of the token replaced, cut out or put in: not a token any more. */
static void check_changed(struct span token, struct fuzz_input *in)
{
    char text[4096];
    struct token_grant grant;
    size_t from = fuzz_number(in, 2) % (token.len + 1);
    size_t gone = fuzz_byte(in) % (token.len - from + 1);
    struct out out = out_over(text, sizeof(text));
    out_bytes(&out, token.at, from);
    out_put(&out, fuzz_span(in, fuzz_byte(in)));
    out_bytes(&out, token.at + from + gone, token.len - from - gone);
    CHECK(!out.overflow);
    struct span changed = out_span(&out);
    if (!span_equal(changed, token)) {
        CHECK(token_verify(&keys, changed, NOW_MS, LEEWAY_MS, &grant) != 0);
    }
    check(changed);
}

int LLVMFuzzerTestOneInput(const uint8_t *bytes, size_t size)
{
    struct fuzz_input in = {bytes, size};
    char text[4096];
    struct out token = out_over(text, sizeof(text));
    start();
    uint32_t which = fuzz_below(&in, 4);
    put_base64url(&token, draw_header(&in));
    out_char(&token, '.');
    uint32_t plain = fuzz_byte(&in);
    put_base64url(&token, plain < 64 ? span_of("{\"sub\":\"42\",\"exp\":1700000060}")
                                     : fuzz_span(&in, fuzz_number(&in, 2) % 1200));
    struct span signed_part = out_span(&token);
    out_char(&token, '.');
    sign(which, signed_part, &token);
    CHECK(!token.overflow);
    check(out_span(&token));
    check_memory(out_span(&token));
    check_changed(out_span(&token), &in);
    return 0;
}
