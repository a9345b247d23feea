/*
 * Spans (borrowed bytes), out (a bounded output buffer that remembers overflow instead of failing
 * halfway), little-endian loads and stores, and the small text codecs everything shares.
 */
#ifndef SLUICE_BASE_BYTES_H
#define SLUICE_BASE_BYTES_H

#include <endian.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

/* Bytes owned by somebody else. at may be NULL when len is 0. */
struct span {
    const char *at;
    size_t len;
};

static inline struct span span_of(const char *text)
{
    return (struct span){text, strlen(text)};
}
static inline bool span_equal(struct span a, struct span b)
{
    return a.len == b.len && (a.len == 0 || memcmp(a.at, b.at, a.len) == 0);
}
static inline bool span_is(struct span a, const char *text)
{
    return span_equal(a, span_of(text));
}
/* ASCII case-insensitive. */
bool span_equal_nocase(struct span a, struct span b);

/* Decimal digits only, no sign, no leading zero (but "0"), at most max. ERR_INVALID or ERR_RANGE.
 */
int span_parse_u64(struct span text, uint64_t max, uint64_t *ret_value);

/* True if the bytes are well-formed UTF-8 (no surrogates, no overlong forms). */
bool span_is_utf8(struct span text);

/*
 * A bounded output buffer over the caller's memory. Appending past the end sets `overflow` and
 * writes nothing more; callers check once at the end.
 */
struct out {
    char *at;
    size_t len;
    size_t cap;
    bool overflow;
};

static inline struct out out_over(void *memory, size_t cap)
{
    return (struct out){memory, 0, cap, false};
}
static inline struct span out_span(const struct out *out)
{
    return (struct span){out->at, out->len};
}
static inline void out_bytes(struct out *out, const void *bytes, size_t len)
{
    if (len > out->cap - out->len) {
        out->overflow = true;
        return;
    }
    if (len > 0) {
        memcpy(out->at + out->len, bytes, len);
        out->len += len;
    }
}
static inline void out_text(struct out *out, const char *text)
{
    out_bytes(out, text, strlen(text));
}
/* For string literals: the length is known at compile time. */
#define out_lit(out, literal) out_bytes((out), "" literal "", sizeof(literal) - 1)
static inline void out_put(struct out *out, struct span bytes)
{
    out_bytes(out, bytes.at, bytes.len);
}
static inline void out_char(struct out *out, char c)
{
    out_bytes(out, &c, 1);
}
void out_u64(struct out *out, uint64_t value);
void out_i64(struct out *out, int64_t value);
/* Quoted and escaped. The bytes must be UTF-8. */
void out_json_string(struct out *out, struct span text);
/* printf-style, for code that is not hot. */
void out_format(struct out *out, const char *format, ...) __attribute__((format(printf, 2, 3)));

/* Through memcpy: alignment does not matter, and on little-endian machines it is one instruction. */
static inline void store_le16(void *at, uint16_t v)
{
    v = htole16(v);
    memcpy(at, &v, sizeof(v));
}
static inline void store_le32(void *at, uint32_t v)
{
    v = htole32(v);
    memcpy(at, &v, sizeof(v));
}
static inline void store_le64(void *at, uint64_t v)
{
    v = htole64(v);
    memcpy(at, &v, sizeof(v));
}
static inline uint16_t load_le16(const void *at)
{
    uint16_t v;
    memcpy(&v, at, sizeof(v));
    return le16toh(v);
}
static inline uint32_t load_le32(const void *at)
{
    uint32_t v;
    memcpy(&v, at, sizeof(v));
    return le32toh(v);
}
static inline uint64_t load_le64(const void *at)
{
    uint64_t v;
    memcpy(&v, at, sizeof(v));
    return le64toh(v);
}

/* base64url without padding. Encoded length of n bytes, without a terminator. */
static inline size_t base64url_len(size_t n)
{
    return (n * 4 + 2) / 3;
}
/* Writes base64url_len(n) characters, no terminator. */
void base64url_encode(const void *bytes, size_t n, char *ret_text);
/* Strict: no padding, no other characters, no stray bits. ERR_INVALID, or ERR_FULL over cap. */
int base64url_decode(struct span text, void *ret_bytes, size_t cap, size_t *ret_len);
/* The standard alphabet with padding (webhook signatures). */
void base64_encode(const void *bytes, size_t n, char *ret_text); /* ((n+2)/3)*4 characters */
int base64_decode(struct span text, void *ret_bytes, size_t cap, size_t *ret_len);

#endif
