/*
 * Authentication: buyers' tokens with every way to get them wrong, a loop's cache of tokens, the budget
 * of failures, the admin token, webhook signatures.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>

#include <cmocka.h>

#include "api/token.h"
#include "base/err.h"
#include "table_tests.h"

#define COUNT(array) (sizeof(array) / sizeof((array)[0]))
#define NOW_MS 1700000000000LL
#define EXP "1700000100" /* 100 s from now */
#define CLAIMS "{\"sub\":\"42\",\"exp\":" EXP "}"

/* Made by other programs: HS256 under the bytes 0 to 31, EdDSA under the key of that seed. */
static const char made_hs256[] = "eyJhbGciOiJIUzI1NiJ9.eyJzdWIiOiI0MiIsImV4cCI6MTcwMDAwMDEwMH0."
                                 "PvUQgy7bfigwhgnuAa5Vf-xVrGIxdbHnuhteZ6k77ag";
static const char made_eddsa[] =
    "eyJhbGciOiJFZERTQSJ9.eyJzdWIiOiI0MiIsImV4cCI6MTcwMDAwMDEwMH0."
    "gow_MzFLbmdTwT-7tQuFvDmu1maaRLvOQhikR6kHaOM6Za7pAIFN7FYjudOh_BfjEhc9TEvT-zOcEYxZgiMGCg";
static const char made_eddsa_kid[] =
    "eyJhbGciOiJFZERTQSIsImtpZCI6InNob3AifQ.eyJzdWIiOiI0MiIsImV4cCI6MTcwMDAwMDEwMH0."
    "QjdM88Nuf4EAEtPeN5N5MNE1_3kxCuY0kgwHwnXtrv7p14LkCliwzSe-9llfmc0XPBWjA1p7blIwgipyWI2YDQ";
static const char made_ed25519[] =
    "eyJhbGciOiJFZDI1NTE5In0.eyJzdWIiOiI0MiIsImV4cCI6MTcwMDAwMDEwMH0."
    "ajJpQ67uVlUhCRCeyeQHVPUDgb6E2zKhabc20lgsQxijRdX6Udfm_aHhcjN_LEnj7brNgldGgAclWREFfi7TBw";
static const uint8_t eddsa_public[CRYPT_KEY_BYTES] = {
    0x03, 0xa1, 0x07, 0xbf, 0xf3, 0xce, 0x10, 0xbe, 0x1d, 0x70, 0xdd, 0x18, 0xe7, 0x4b, 0xc0, 0x99,
    0x67, 0xe4, 0xd6, 0x30, 0x9b, 0xa5, 0x0d, 0x5f, 0x1d, 0xdc, 0x86, 0x64, 0x12, 0x55, 0x31, 0xb8};

static struct token_keys keys; /* 0: HS256 without a name, 1: EdDSA "shop" */

static int set_up(void **state)
{
    (void)state;
    memset(&keys, 0, sizeof(keys));
    keys.count = 2;
    for (size_t i = 0; i < CRYPT_KEY_BYTES; i++) {
        keys.keys[0].key[i] = (uint8_t)i;
    }
    keys.keys[1].algorithm = TOKEN_EDDSA;
    strcpy(keys.keys[1].kid, "shop");
    memcpy(keys.keys[1].key, eddsa_public, sizeof(eddsa_public));
    return 0;
}

/* A token with this header and these claims, signed with HMAC-SHA256 under the key. */
static struct span sign(const uint8_t *key, const char *header, const char *claims, char *text)
{
    base64url_encode(header, strlen(header), text);
    size_t len = base64url_len(strlen(header));
    text[len++] = '.';
    base64url_encode(claims, strlen(claims), text + len);
    len += base64url_len(strlen(claims));
    uint8_t tag[CRYPT_HMAC_BYTES];
    struct span signed_part = {text, len};
    crypt_hmac_sha256((struct span){(const char *)key, CRYPT_KEY_BYTES}, &signed_part, 1, tag);
    text[len++] = '.';
    base64url_encode(tag, sizeof(tag), text + len);
    return (struct span){text, len + base64url_len(sizeof(tag))};
}

static int verify_at(struct span token, int64_t now_ms, int64_t leeway_ms)
{
    struct token_grant grant = {.user = 4711, .expires_ms = 4711};
    int error = token_verify(&keys, token, now_ms, leeway_ms, &grant);
    if (error != 0) {
        assert_int_equal(error, ERR_INVALID);
        assert_true(grant.user == 4711 && grant.expires_ms == 4711); /* not written */
    } else {
        assert_int_equal(grant.user, 42);
        assert_int_equal(grant.expires_ms, 1700000100000LL + leeway_ms);
    }
    return error;
}

static int verify(struct span token)
{
    return verify_at(token, NOW_MS, 0);
}

static bool good(const char *header, const char *claims)
{
    char text[TOKEN_MAX_BYTES * 2];
    return verify(sign(keys.keys[0].key, header, claims, text)) == 0;
}

/* ---- tokens ---- */

static void tokens_of_others_are_understood(void **state)
{
    (void)state;
    assert_int_equal(verify(span_of(made_hs256)), 0);
    assert_int_equal(verify(span_of(made_eddsa)), 0);
    assert_int_equal(verify(span_of(made_eddsa_kid)), 0);
    assert_int_equal(verify(span_of(made_ed25519)), 0);
}

static void what_is_signed_here_is_read_here(void **state)
{
    (void)state;
    static const uint64_t users[] = {1, 42, ID_MAX};
    for (size_t i = 0; i < COUNT(users); i++) {
        for (int named = 0; named < 2; named++) {
            char text[TOKEN_MAX_BYTES];
            struct token_grant grant;
            strcpy(keys.keys[0].kid, named ? "main" : "");
            size_t len = token_sign(&keys.keys[0], users[i], 1700000100, text);
            assert_true(len <= TOKEN_MAX_BYTES);
            assert_int_equal(token_verify(&keys, (struct span){text, len}, NOW_MS, 0, &grant), 0);
            assert_int_equal(grant.user, users[i]);
            assert_int_equal(grant.expires_ms, 1700000100000LL);
            assert_int_equal(grant.key, 0);
        }
    }
}

static void every_flipped_bit_is_refused(void **state)
{
    (void)state;
    static const char *const tokens[] = {made_hs256, made_eddsa};
    for (size_t i = 0; i < COUNT(tokens); i++) {
        char text[512];
        size_t len = strlen(tokens[i]);
        memcpy(text, tokens[i], len);
        for (size_t bit = 0; bit < len * 8; bit++) {
            text[bit / 8] ^= (char)(1U << bit % 8);
            assert_int_not_equal(verify((struct span){text, len}), 0);
            text[bit / 8] ^= (char)(1U << bit % 8);
        }
        for (size_t shorter = 0; shorter < len; shorter++) {
            assert_int_not_equal(verify((struct span){text, shorter}), 0);
        }
    }
}

static void the_algorithm_is_the_keys_and_none_is_none(void **state)
{
    (void)state;
    static const char *const headers[] = {
        "{\"alg\":\"none\"}",
        "{\"alg\":\"None\"}",
        "{\"alg\":\"\"}",
        "{\"alg\":null}",
        "{\"alg\":1}",
        "{}",
        "{\"alg\":\"HS512\"}",
        "{\"alg\":\"RS256\"}",
        "{\"alg\":\"hs256\"}",
        "{\"alg\":\"HS\\u0032\\u0035\\u0036\"}",
        "{\"alg\":\"HS256\",\"alg\":\"HS256\"}",
        "{\"alg\":\"HS256\",\"kid\":\"shop\"}",    /* the key's algorithm is another */
        "{\"alg\":\"HS256\",\"kid\":\"unknown\"}", /* no such key: not tried with the default */
        "{\"alg\":\"HS256\",\"kid\":7}",
        "{\"alg\":\"HS256\",\"kid\":null}",
        "{\"alg\":\"HS256\",\"kid\":\"sh\\u006fp\"}",
        "{\"alg\":\"HS256\",\"crit\":[\"b64\"],\"b64\":false}",
        "{\"alg\":\"HS256\"",
        "[\"HS256\"]",
        "",
    };
    assert_true(good("{\"alg\":\"HS256\"}", CLAIMS));
    assert_true(good("{\"typ\":\"JWT\",\"alg\":\"HS256\",\"x\":[1,{\"y\":2}]}", CLAIMS));
    for (size_t i = 0; i < COUNT(headers); i++) {
        if (good(headers[i], CLAIMS)) {
            fail_msg("taken: %s", headers[i]);
        }
    }
    strcpy(keys.keys[0].kid, "main"); /* rightly signed, but it says another algorithm */
    assert_true(good("{\"alg\":\"HS256\",\"kid\":\"main\"}", CLAIMS));
    assert_false(good("{\"alg\":\"EdDSA\",\"kid\":\"main\"}", CLAIMS));
    assert_false(good("{\"alg\":\"none\",\"kid\":\"main\"}", CLAIMS));
    /* An unsigned token, whatever its header says. */
    char text[512];
    struct span token = sign(keys.keys[0].key, "{\"alg\":\"none\"}", CLAIMS, text);
    const char *dot = memchr(strchr(text, '.') + 1, '.', token.len);
    assert_int_not_equal(verify((struct span){text, (size_t)(dot - text) + 1}), 0);
    assert_int_not_equal(verify((struct span){text, (size_t)(dot - text)}), 0);
}

/* The public key is public: nobody may use it as a secret. */
static void a_public_key_is_no_secret(void **state)
{
    (void)state;
    char text[512];
    assert_int_not_equal(verify(sign(eddsa_public, "{\"alg\":\"HS256\"}", CLAIMS, text)), 0);
    assert_int_not_equal(
        verify(sign(eddsa_public, "{\"alg\":\"HS256\",\"kid\":\"shop\"}", CLAIMS, text)), 0);
    assert_int_not_equal(
        verify(sign(eddsa_public, "{\"alg\":\"EdDSA\",\"kid\":\"shop\"}", CLAIMS, text)), 0);
}

static void a_key_is_found_by_its_name_or_is_the_first_of_its_algorithm(void **state)
{
    (void)state;
    char text[512];
    keys.count = 4;
    keys.keys[2] = (struct token_key){.algorithm = TOKEN_HS256, .kid = "next", .key = {9, 9, 9}};
    keys.keys[3] = (struct token_key){.algorithm = TOKEN_EDDSA, .kid = "other", .key = {8}};
    const uint8_t *first = keys.keys[0].key;
    const uint8_t *next = keys.keys[2].key;
    const char *plain = "{\"alg\":\"HS256\"}";
    const char *named = "{\"alg\":\"HS256\",\"kid\":\"next\"}";
    assert_int_equal(verify(sign(first, plain, CLAIMS, text)), 0);
    assert_int_equal(verify(sign(next, named, CLAIMS, text)), 0);
    assert_int_not_equal(verify(sign(next, plain, CLAIMS, text)), 0);
    assert_int_not_equal(verify(sign(first, named, CLAIMS, text)), 0);
    keys.count = 0;
    assert_int_not_equal(verify(sign(first, plain, CLAIMS, text)), 0);
}

static void the_claims_are_read_strictly(void **state)
{
    (void)state;
    static const char *const right[] = {
        "{\"exp\":" EXP ",\"sub\":\"42\"}",
        "{\"sub\":\"42\",\"exp\":" EXP ",\"nbf\":1700000000}",
        "{\"sub\":\"42\",\"exp\":" EXP ",\"nbf\":1699999999.75}",
        "{\"sub\":\"42\",\"exp\":" EXP ".5}", /* the fraction is cut off */
        "{\"sub\":\"42\",\"exp\":" EXP ",\"name\":\"\\u4f60\",\"roles\":[\"buyer\"]}",
        " {\"sub\" : \"42\" , \"exp\" : " EXP "} ",
    };
    static const char *const wrong[] = {
        "{\"exp\":" EXP "}",
        "{\"sub\":\"42\"}",
        "{\"sub\":42,\"exp\":" EXP "}",
        "{\"sub\":\"\",\"exp\":" EXP "}",
        "{\"sub\":\"0\",\"exp\":" EXP "}",
        "{\"sub\":\"042\",\"exp\":" EXP "}",
        "{\"sub\":\"+42\",\"exp\":" EXP "}",
        "{\"sub\":\"-42\",\"exp\":" EXP "}",
        "{\"sub\":\" 42\",\"exp\":" EXP "}",
        "{\"sub\":\"4\\u0032\",\"exp\":" EXP "}",
        "{\"sub\":\"9007199254740992\",\"exp\":" EXP "}",
        "{\"sub\":\"42\",\"sub\":\"43\",\"exp\":" EXP "}",
        "{\"sub\":\"42\",\"exp\":\"" EXP "\"}",
        "{\"sub\":\"42\",\"exp\":null}",
        "{\"sub\":\"42\",\"exp\":-1}",
        "{\"sub\":\"42\",\"exp\":1.7e9}",
        "{\"sub\":\"42\",\"exp\":99999999999999999}",
        "{\"sub\":\"42\",\"exp\":253402300800}",
        "{\"sub\":\"42\",\"exp\":1700000000}", /* at its end it is over */
        "{\"sub\":\"42\",\"exp\":1699999999}",
        "{\"sub\":\"42\",\"exp\":" EXP ",\"nbf\":1700000001}",
        "{\"sub\":\"42\",\"exp\":" EXP ",\"nbf\":\"1\"}",
        "{\"sub\":\"42\",\"exp\":" EXP ",\"nbf\":null}",
        "{\"sub\":\"42\",\"exp\":" EXP "}x",
        "\"42\"",
        "",
    };
    for (size_t i = 0; i < COUNT(right); i++) {
        if (!good("{\"alg\":\"HS256\"}", right[i])) {
            fail_msg("refused: %s", right[i]);
        }
    }
    for (size_t i = 0; i < COUNT(wrong); i++) {
        if (good("{\"alg\":\"HS256\"}", wrong[i])) {
            fail_msg("taken: %s", wrong[i]);
        }
    }
}

static void leeway_is_given_on_both_sides(void **state)
{
    (void)state;
    struct span token = span_of(made_hs256);
    assert_int_equal(verify_at(token, 1700000099999LL, 0), 0);
    assert_int_not_equal(verify_at(token, 1700000100000LL, 0), 0);
    assert_int_equal(verify_at(token, 1700000100000LL, 5000), 0);
    assert_int_equal(verify_at(token, 1700000104999LL, 5000), 0);
    assert_int_not_equal(verify_at(token, 1700000105000LL, 5000), 0);
    char text[512];
    struct span later = sign(keys.keys[0].key, "{\"alg\":\"HS256\"}",
                             "{\"sub\":\"42\",\"exp\":" EXP ",\"nbf\":1700000050}", text);
    assert_int_not_equal(verify_at(later, 1700000045000LL - 1, 5000), 0);
    assert_int_equal(verify_at(later, 1700000045000LL, 5000), 0);
}

static void the_form_is_three_parts_within_the_bound(void **state)
{
    (void)state;
    static const char *const wrong[] = {"",     ".",    "..",   "...",   "a",      "a.b",
                                        "a.b.", ".b.c", "a..c", "a.b.c", "a.b.c.d"};
    for (size_t i = 0; i < COUNT(wrong); i++) {
        assert_int_not_equal(verify(span_of(wrong[i])), 0);
    }
    assert_int_not_equal(verify((struct span){NULL, 0}), 0);
    char text[TOKEN_MAX_BYTES * 4];
    char claims[TOKEN_MAX_BYTES * 2];
    (void)snprintf(claims, sizeof(claims), "{\"sub\":\"42\",\"exp\":" EXP ",\"x\":\"%0*d\"}", 900,
                   0);
    assert_int_equal(verify(sign(keys.keys[0].key, "{\"alg\":\"HS256\"}", claims, text)), 0);
    (void)snprintf(claims, sizeof(claims), "{\"sub\":\"42\",\"exp\":" EXP ",\"x\":\"%0*d\"}", 2000,
                   0);
    assert_int_not_equal(verify(sign(keys.keys[0].key, "{\"alg\":\"HS256\"}", claims, text)), 0);
    (void)snprintf(claims, sizeof(claims), "{\"alg\":\"HS256\",\"x\":\"%0*d\"}", 600, 0);
    assert_int_not_equal(verify(sign(keys.keys[0].key, claims, CLAIMS, text)), 0);
}

/* ---- what a loop remembers ---- */

static struct token_cache *memory;
static const struct net_address home = {.family = 4, .bytes = {127, 0, 0, 1}};

static int set_up_memory(void **state)
{
    memory = token_cache_new(64);
    return memory == NULL ? -1 : set_up(state);
}

static int tear_down_memory(void **state)
{
    (void)state;
    token_cache_free(memory);
    return 0;
}

/* As a worker asks. */
static enum refusal look(struct span authorization, struct net_address from, int64_t now_ms,
                         struct token_grant *ret_grant, bool *ret_known)
{
    *ret_known = token_cached(memory, authorization, now_ms, ret_grant);
    return *ret_known ? REFUSAL_NONE
                      : token_check(memory, &keys, authorization, from, now_ms, 0, ret_grant);
}

static enum refusal check_from(const char *authorization, struct net_address from, int64_t now_ms,
                               bool want_known)
{
    struct token_grant grant = {0};
    bool known = false;
    enum refusal refusal = look(span_of(authorization), from, now_ms, &grant, &known);
    if (refusal == REFUSAL_NONE) {
        assert_int_equal(grant.user, 42);
        assert_int_equal(grant.expires_ms, 1700000100000LL);
        assert_int_equal(known, want_known);
    } else {
        assert_true(grant.user == 0 && !known);
    }
    return refusal;
}

static const char *bearer(const char *token)
{
    static char text[TOKEN_MAX_BYTES + 16];
    (void)snprintf(text, sizeof(text), "Bearer %s", token);
    return text;
}

static void a_verified_token_is_remembered_until_it_expires(void **state)
{
    (void)state;
    const char *token = bearer(made_hs256);
    assert_int_equal(check_from(token, home, NOW_MS, false), REFUSAL_NONE);
    assert_int_equal(check_from(token, home, NOW_MS, true), REFUSAL_NONE);
    assert_int_equal(check_from(token, home, 1700000099999LL, true), REFUSAL_NONE);
    assert_int_equal(check_from(token, home, 1700000100000LL, true), REFUSAL_UNAUTHENTICATED);
    token_cache_clear(memory);
    assert_int_equal(check_from(token, home, NOW_MS, false), REFUSAL_NONE);
    token_cache_clear(memory);
    keys.count = 0; /* the keys were reloaded, and this one is gone */
    assert_int_equal(check_from(token, home, NOW_MS, false), REFUSAL_UNAUTHENTICATED);
}

static void a_refused_token_is_not_remembered(void **state)
{
    (void)state;
    keys.count = 0;
    assert_int_equal(check_from(bearer(made_hs256), home, NOW_MS, false), REFUSAL_UNAUTHENTICATED);
    keys.count = 2;
    assert_int_equal(check_from(bearer(made_hs256), home, NOW_MS, false), REFUSAL_NONE);
}

/* More buyers than the table has room for: each is checked, none is taken for another. */
static void a_full_memory_forgets_but_never_confuses(void **state)
{
    (void)state;
    for (int round = 0; round < 2; round++) {
        for (uint64_t who = 1; who <= 500; who++) {
            char text[TOKEN_MAX_BYTES + 16] = "Bearer ";
            size_t len = token_sign(&keys.keys[0], who, 1700000100, text + 7);
            struct token_grant grant;
            bool known;
            assert_int_equal(look((struct span){text, len + 7}, home, NOW_MS, &grant, &known),
                             REFUSAL_NONE);
            assert_int_equal(grant.user, who);
        }
    }
}

static void the_header_is_a_bearers(void **state)
{
    (void)state;
    char text[TOKEN_MAX_BYTES];
    static const char *const wrong[] = {"",           "Bearer",    "Bearer ",    "Basic %s",
                                        "%s",         "Bearer%s",  "Bearer  %s", "Bearer %s ",
                                        "Bearer: %s", " Bearer %s"};
    static const char *const right[] = {"Bearer %s", "bearer %s", "BEARER %s"};
    for (size_t i = 0; i < COUNT(wrong); i++) {
        const char *place = strstr(wrong[i], "%s");
        (void)snprintf(text, sizeof(text), "%.*s%s%s",
                       place != NULL ? (int)(place - wrong[i]) : (int)strlen(wrong[i]), wrong[i],
                       place != NULL ? made_hs256 : "", place != NULL ? place + 2 : "");
        assert_int_equal(check_from(text, home, NOW_MS, false), REFUSAL_UNAUTHENTICATED);
    }
    for (size_t i = 0; i < COUNT(right); i++) {
        (void)snprintf(text, sizeof(text), "%.7s%s", right[i], made_hs256);
        assert_int_equal(check_from(text, home, NOW_MS, i > 0), REFUSAL_NONE);
    }
}

/* A token of the right form and key, with a signature that is not: that has to be computed. Another one
 * with each number. */
static const char *forged_again(const char *made, uint32_t number)
{
    static char text[512];
    (void)snprintf(text, sizeof(text), "Bearer %s", made);
    char *signature = strrchr(text, '.') + 1; /* its first bytes are of the point */
    for (int i = 0; i < 4; i++, number /= 26) {
        signature[i] = (char)('A' + number % 26);
    }
    return text;
}

static const char *forged(const char *made)
{
    static uint32_t number;
    return forged_again(made, number++);
}

/* How many forged EdDSA tokens of an address are looked at at this time before it is limited. */
static uint32_t failures_until_limited(struct net_address from, int64_t now_ms)
{
    uint32_t n = 0;
    for (;;) {
        enum refusal refusal = check_from(forged(made_eddsa), from, now_ms, false);
        if (refusal == REFUSAL_RATE_LIMITED) {
            return n;
        }
        assert_int_equal(refusal, REFUSAL_UNAUTHENTICATED);
        assert_true(n++ < 100000);
    }
}

static void who_fails_too_often_is_limited_and_forgiven_with_time(void **state)
{
    (void)state;
    assert_int_equal(check_from(bearer(made_eddsa), home, NOW_MS, false), REFUSAL_NONE);
    assert_int_equal(failures_until_limited(home, NOW_MS), 257);
    /* No new Ed25519 signature from this address is checked, not even a good one. Cached tokens and
     * cheap signatures still pass. */
    assert_int_equal(check_from(bearer(made_eddsa_kid), home, NOW_MS, false), REFUSAL_RATE_LIMITED);
    assert_int_equal(check_from(bearer(made_eddsa), home, NOW_MS, true), REFUSAL_NONE);
    assert_int_equal(check_from(bearer(made_hs256), home, NOW_MS, false), REFUSAL_NONE);
    assert_int_equal(check_from(bearer(made_eddsa_kid), home, NOW_MS + 1024, false), REFUSAL_NONE);
    assert_int_equal(failures_until_limited(home, NOW_MS + 70000), 257);
}

/* They cost next to nothing, and buyers behind one proxy share an address. */
static void cheap_failures_use_up_nobodys_budget(void **state)
{
    (void)state;
    for (int i = 0; i < 5000; i++) {
        assert_int_equal(check_from(bearer("a.b.c"), home, NOW_MS, false), REFUSAL_UNAUTHENTICATED);
        assert_int_equal(check_from(forged(made_hs256), home, NOW_MS, false),
                         REFUSAL_UNAUTHENTICATED);
    }
    assert_int_equal(failures_until_limited(home, NOW_MS), 257); /* the whole budget */
}

/* A signature that no key could have made, a key that is unknown, claims that are over: all that is
 * seen before the signature is computed. */
static void what_can_be_refused_cheaply_uses_up_no_budget(void **state)
{
    (void)state;
    static const uint8_t order[32] = {0xed, 0xd3, 0xf5, 0x5c, 0x1a, 0x63, 0x12, 0x58,       0xd6,
                                      0x9c, 0xf7, 0xa2, 0xde, 0xf9, 0xde, 0x14, [31] = 0x10};
    const char *claims_over = "{\"sub\":\"42\",\"exp\":1600000000}";
    const char *header = "{\"alg\":\"EdDSA\"}";
    char text[1024];
    for (int i = 0; i < 2000; i++) {
        uint8_t signature[CRYPT_ED25519_SIGNATURE_BYTES] = {(uint8_t)i, (uint8_t)(i / 256)};
        const char *claims = i % 4 == 3 ? claims_over : CLAIMS;
        memcpy(signature + 32, order, sizeof(order));
        if (i % 4 == 1) {
            signature[63] = 0xff;
        } else if (i % 4 == 2) { /* a coordinate beyond the prime */
            memset(signature, 0xff, 32);
            memset(signature + 32, 0, 32);
        } else if (i % 4 == 3) {
            memset(signature + 32, 0, 32);
        }
        memcpy(text, "Bearer ", 7);
        struct span token = sign(keys.keys[0].key, header, claims, text + 7);
        text[7 + token.len] = '\0';
        char *end = strrchr(text, '.') + 1;
        base64url_encode(signature, sizeof(signature), end);
        end[base64url_len(sizeof(signature))] = '\0';
        assert_int_equal(check_from(text, home, NOW_MS, false), REFUSAL_UNAUTHENTICATED);
        (void)snprintf(text, sizeof(text), "Bearer %.*s", (int)strlen(made_eddsa) - 1, made_eddsa);
        assert_int_equal(check_from(text, home, NOW_MS, false), REFUSAL_UNAUTHENTICATED);
    }
    assert_int_equal(failures_until_limited(home, NOW_MS), 257);
}

static void a_forged_token_is_checked_once(void **state)
{
    (void)state;
    for (int i = 0; i < 5000; i++) {
        assert_int_equal(check_from(forged_again(made_eddsa, 1), home, NOW_MS, false),
                         REFUSAL_UNAUTHENTICATED);
    }
    assert_int_equal(check_from(bearer(made_eddsa), home, NOW_MS, false), REFUSAL_NONE);
    /* With other keys it may be a good one. */
    keys.keys[1].key[0] ^= 1;
    assert_int_equal(check_from(bearer(made_eddsa_kid), home, NOW_MS, false),
                     REFUSAL_UNAUTHENTICATED);
    keys.keys[1].key[0] ^= 1;
    assert_int_equal(check_from(bearer(made_eddsa_kid), home, NOW_MS, false),
                     REFUSAL_UNAUTHENTICATED);
    token_cache_clear(memory);
    assert_int_equal(check_from(bearer(made_eddsa_kid), home, NOW_MS, false), REFUSAL_NONE);
}

static void others_are_not_limited_for_it(void **state)
{
    (void)state;
    struct net_address other = {.family = 4, .bytes = {127, 0, 0, 2}};
    (void)failures_until_limited(home, NOW_MS);
    assert_int_equal(check_from(bearer(made_eddsa), other, NOW_MS, false), REFUSAL_NONE);
}

/* Tokens that were verified stay in the cache while others come: a set takes four. */
static void buyers_seldom_push_each_other_out(void **state)
{
    (void)state;
    enum { BUYERS = 1024 };
    token_cache_free(memory);
    memory = token_cache_new(4096);
    assert_non_null(memory);
    uint32_t lost = 0;
    for (int round = 0; round < 2; round++) {
        for (uint64_t who = 1; who <= BUYERS; who++) {
            char text[TOKEN_MAX_BYTES + 16] = "Bearer ";
            size_t len = token_sign(&keys.keys[0], who, 1700000100, text + 7);
            struct token_grant grant;
            bool known;
            assert_int_equal(look((struct span){text, len + 7}, home, NOW_MS, &grant, &known),
                             REFUSAL_NONE);
            lost += round == 1 && !known;
        }
    }
    assert_true(lost < 60); /* with one place for a token it would be over 200 */
}

/* ---- operators ---- */

static void the_admin_token_is_compared_whole(void **state)
{
    (void)state;
    struct span admin = span_of("s3cret-token");
    assert_true(token_is_admin(span_of("Bearer s3cret-token"), admin));
    assert_true(token_is_admin(span_of("bearer s3cret-token"), admin));
    static const char *const wrong[] = {"Bearer s3cret-toke",
                                        "Bearer s3cret-token1",
                                        "Bearer ",
                                        "Bearer S3cret-token",
                                        "s3cret-token",
                                        "Bearer x3cret-token",
                                        "Basic s3cret-token",
                                        ""};
    for (size_t i = 0; i < COUNT(wrong); i++) {
        assert_false(token_is_admin(span_of(wrong[i]), admin));
    }
    assert_false(token_is_admin((struct span){NULL, 0}, admin));
    /* No token configured: nobody is admin, above all not who sends nothing. */
    assert_false(token_is_admin(span_of("Bearer "), (struct span){NULL, 0}));
    assert_false(token_is_admin(span_of("Bearer x"), span_of("")));
}

/* ---- webhooks ---- */

/* The example of the Standard Webhooks libraries. */
static const char hook_key[] = {
    0x31,       (char)0xf2, (char)0x90, (char)0xf6, (char)0xbf, 0x06, 0x29,       (char)0x8a,
    (char)0xab, 0x4f,       0x08,       (char)0xd4, 0x3c,       0x3f, 0x08,       0x2c,
    (char)0xf6, 0x48,       (char)0xa3, 0x62,       (char)0xda, 0x2d, (char)0xa4, (char)0xb0};
static const char hook_id[] = "msg_p5jXN8AQM9LWM0D4loKWxJek";
static const char hook_time[] = "1614265330";
static const char hook_body[] = "{\"test\": 2432232314}";
#define HOOK_TAG "g0hM9SsE+OTPJTGt/tmIKtSyZlE3uFJELVlNIOLJ1OE="
#define HOOK_SIGNATURE "v1," HOOK_TAG
#define HOOK_MS 1614265330000LL

#define OTHER_SIGNATURE "v1,AAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAA="

/* The example with a change. NULL: as in the example. */
static const struct hook_case {
    const char *name;
    bool good;
    const char *id;
    const char *timestamp;
    const char *signatures;
    const char *body;
    int64_t off_ms; /* the clock, from the timestamp */
} hook_cases[] = {
    {.name = "the example of the standard", true},
    /* Any of several signatures is enough. */
    {.name = "signature: another one first",
     true,
     .signatures = OTHER_SIGNATURE " " HOOK_SIGNATURE},
    {.name = "signature: another one last", true, .signatures = HOOK_SIGNATURE " " OTHER_SIGNATURE},
    {.name = "signature: other versions", true, .signatures = "v2,x  " HOOK_SIGNATURE " v1a,y "},
    {.name = "signature: only another one", false, .signatures = OTHER_SIGNATURE},
    {.name = "signature: none", false, .signatures = ""},
    {.name = "signature: a version", false, .signatures = "v1"},
    {.name = "signature: an empty tag", false, .signatures = "v1,"},
    {.name = "signature: no version", false, .signatures = HOOK_TAG},
    {.name = "signature: another version", false, .signatures = "v2," HOOK_TAG},
    {.name = "id: another one", false, .id = "msg_p5jXN8AQM9LWM0D4loKWxJeK"},
    {.name = "id: none", false, .id = ""},
    {.name = "time: another second", false, .timestamp = "1614265331"},
    {.name = "time: a leading zero", false, .timestamp = "01614265330"},
    {.name = "time: a fraction", false, .timestamp = "1614265330.0"},
    {.name = "time: none", false, .timestamp = ""},
    {.name = "body: another digit", false, .body = "{\"test\": 2432232315}"},
    {.name = "body: none", false, .body = ""},
    /* Within five minutes. */
    {.name = "clock: five minutes ahead", true, .off_ms = 300000},
    {.name = "clock: five minutes behind", true, .off_ms = -300000},
    {.name = "clock: over five minutes ahead", false, .off_ms = 301000},
    {.name = "clock: over five minutes behind", false, .off_ms = -301000},
    {.name = "clock: a day ahead", false, .off_ms = 86400000},
    {.name = "clock: at zero", false, .off_ms = -HOOK_MS},
};

static bool hook(const struct hook_case *c)
{
    return webhook_verify((struct span){hook_key, sizeof(hook_key)},
                          span_of(c->id != NULL ? c->id : hook_id),
                          span_of(c->timestamp != NULL ? c->timestamp : hook_time),
                          span_of(c->signatures != NULL ? c->signatures : HOOK_SIGNATURE),
                          span_of(c->body != NULL ? c->body : hook_body), HOOK_MS + c->off_ms, 300);
}

static void a_webhook(void **state)
{
    const struct hook_case *c = *state;
    assert_int_equal(hook(c), c->good);
}

static void every_flipped_bit_of_a_signature_is_refused(void **state)
{
    (void)state;
    char text[sizeof(HOOK_SIGNATURE)] = HOOK_SIGNATURE;
    for (size_t at = 0; at < sizeof(text) - 1; at++) {
        for (int bit = 0; bit < 7; bit++) {
            text[at] ^= (char)(1U << bit);
            assert_false(text[at] != '\0' && hook(&(struct hook_case){.signatures = text}));
            text[at] ^= (char)(1U << bit);
        }
    }
}

static void a_shorter_key_verifies_nothing(void **state)
{
    (void)state;
    struct span key = {hook_key, sizeof(hook_key) - 1};
    assert_false(webhook_verify(key, span_of(hook_id), span_of(hook_time), span_of(HOOK_SIGNATURE),
                                span_of(hook_body), HOOK_MS, 300));
}

int main(void)
{
#define TEST(name) cmocka_unit_test_setup(name, set_up)
#define MEMORY_TEST(name) cmocka_unit_test_setup_teardown(name, set_up_memory, tear_down_memory)
    const struct CMUnitTest tests[] = {
        TEST(tokens_of_others_are_understood),
        TEST(what_is_signed_here_is_read_here),
        TEST(every_flipped_bit_is_refused),
        TEST(the_algorithm_is_the_keys_and_none_is_none),
        TEST(a_public_key_is_no_secret),
        TEST(a_key_is_found_by_its_name_or_is_the_first_of_its_algorithm),
        TEST(the_claims_are_read_strictly),
        TEST(leeway_is_given_on_both_sides),
        TEST(the_form_is_three_parts_within_the_bound),
        MEMORY_TEST(a_verified_token_is_remembered_until_it_expires),
        MEMORY_TEST(a_refused_token_is_not_remembered),
        MEMORY_TEST(a_full_memory_forgets_but_never_confuses),
        MEMORY_TEST(the_header_is_a_bearers),
        MEMORY_TEST(who_fails_too_often_is_limited_and_forgiven_with_time),
        MEMORY_TEST(cheap_failures_use_up_nobodys_budget),
        MEMORY_TEST(others_are_not_limited_for_it),
        MEMORY_TEST(what_can_be_refused_cheaply_uses_up_no_budget),
        MEMORY_TEST(a_forged_token_is_checked_once),
        MEMORY_TEST(buyers_seldom_push_each_other_out),
        TEST(the_admin_token_is_compared_whole),
        cmocka_unit_test(every_flipped_bit_of_a_signature_is_refused),
        cmocka_unit_test(a_shorter_key_verifies_nothing),
    };
    if (crypt_start() != 0) {
        return 1;
    }
    int failed = cmocka_run_group_tests(tests, NULL, NULL);
    return failed + TABLE_RUN(hook_cases, a_webhook, NULL, NULL);
}
