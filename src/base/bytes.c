/*
 * Output buffers, number and text codecs. Everything here is pure; what does not fit or does not
 * parse is an error code or the buffer's overflow flag, never a partial surprise.
 */
#include "base/bytes.h"

#include <stdarg.h>
#include <stdio.h>

#include "base/err.h"

static char lower(char c)
{
    return c >= 'A' && c <= 'Z' ? (char)(c + 32) : c;
}

bool span_equal_nocase(struct span a, struct span b)
{
    if (a.len != b.len) {
        return false;
    }
    for (size_t i = 0; i < a.len; i++) {
        if (lower(a.at[i]) != lower(b.at[i])) {
            return false;
        }
    }
    return true;
}

int span_parse_u64(struct span text, uint64_t max, uint64_t *ret_value)
{
    if (text.len == 0 || (text.len > 1 && text.at[0] == '0')) {
        return ERR_INVALID;
    }
    uint64_t value = 0;
    for (size_t i = 0; i < text.len; i++) {
        char c = text.at[i];
        if (c < '0' || c > '9') {
            return ERR_INVALID;
        }
        uint64_t digit = (uint64_t)(c - '0');
        if (value > (UINT64_MAX - digit) / 10) {
            return ERR_RANGE;
        }
        value = value * 10 + digit;
    }
    if (value > max) {
        return ERR_RANGE;
    }
    *ret_value = value;
    return 0;
}

/* Length of the UTF-8 sequence at p, or 0 if it is not well formed. */
static size_t utf8_sequence(const unsigned char *p, size_t left)
{
    if (p[0] < 0x80) {
        return 1;
    }
    size_t len = p[0] >= 0xf0 ? 4 : p[0] >= 0xe0 ? 3 : 2;
    if (p[0] < 0xc2 || p[0] > 0xf4 || len > left) {
        return 0;
    }
    unsigned char low = 0x80;
    unsigned char high = 0xbf;
    if (p[0] == 0xe0) {
        low = 0xa0;
    } else if (p[0] == 0xed) {
        high = 0x9f;
    } else if (p[0] == 0xf0) {
        low = 0x90;
    } else if (p[0] == 0xf4) {
        high = 0x8f;
    }
    if (p[1] < low || p[1] > high) {
        return 0;
    }
    for (size_t i = 2; i < len; i++) {
        if (p[i] < 0x80 || p[i] > 0xbf) {
            return 0;
        }
    }
    return len;
}

bool span_is_utf8(struct span text)
{
    const unsigned char *p = (const unsigned char *)text.at;
    size_t i = 0;
    while (i < text.len) {
        size_t n = utf8_sequence(p + i, text.len - i);
        if (n == 0) {
            return false;
        }
        i += n;
    }
    return true;
}

void out_u64(struct out *out, uint64_t value)
{
    char digits[20];
    size_t at = sizeof(digits);
    do {
        digits[--at] = (char)('0' + value % 10);
        value /= 10;
    } while (value > 0);
    out_bytes(out, digits + at, sizeof(digits) - at);
}

void out_i64(struct out *out, int64_t value)
{
    if (value < 0) {
        out_char(out, '-');
        out_u64(out, 0 - (uint64_t)value);
        return;
    }
    out_u64(out, (uint64_t)value);
}

void out_json_string(struct out *out, struct span text)
{
    static const char hex[] = "0123456789abcdef";
    out_char(out, '"');
    size_t from = 0;
    for (size_t i = 0; i < text.len; i++) {
        unsigned char c = (unsigned char)text.at[i];
        if (c >= 0x20 && c != '"' && c != '\\') {
            continue;
        }
        out_bytes(out, text.at + from, i - from);
        from = i + 1;
        if (c == '"' || c == '\\') {
            char escaped[2] = {'\\', (char)c};
            out_bytes(out, escaped, 2);
        } else {
            char escaped[6] = {'\\', 'u', '0', '0', hex[c >> 4], hex[c & 15]};
            out_bytes(out, escaped, 6);
        }
    }
    if (text.len > from) {
        out_bytes(out, text.at + from, text.len - from);
    }
    out_char(out, '"');
}

void out_format(struct out *out, const char *format, ...)
{
    if (out->overflow) {
        return;
    }
    va_list args;
    va_start(args, format);
    size_t room = out->cap - out->len;
    int n = vsnprintf(out->at + out->len, room, format, args);
    va_end(args);
    if (n < 0 || (size_t)n >= room) {
        out->overflow = true;
        return;
    }
    out->len += (size_t)n;
}

static const char base64_url_alphabet[] =
    "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-_";
static const char base64_alphabet[] =
    "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";

/* Writes the characters without padding; returns how many. */
static size_t encode64(const void *bytes, size_t n, const char *alphabet, char *to)
{
    const uint8_t *p = bytes;
    size_t o = 0;
    size_t i = 0;
    for (; i + 3 <= n; i += 3) {
        uint32_t v = (uint32_t)p[i] << 16 | (uint32_t)p[i + 1] << 8 | p[i + 2];
        to[o++] = alphabet[v >> 18];
        to[o++] = alphabet[v >> 12 & 63];
        to[o++] = alphabet[v >> 6 & 63];
        to[o++] = alphabet[v & 63];
    }
    if (n - i == 1) {
        to[o++] = alphabet[p[i] >> 2];
        to[o++] = alphabet[(p[i] & 3) << 4];
    } else if (n - i == 2) {
        uint32_t v = (uint32_t)p[i] << 8 | p[i + 1];
        to[o++] = alphabet[v >> 10];
        to[o++] = alphabet[v >> 4 & 63];
        to[o++] = alphabet[(v & 15) << 2];
    }
    return o;
}

static int value64(char c, const char *alphabet)
{
    if (c >= 'A' && c <= 'Z') {
        return c - 'A';
    }
    if (c >= 'a' && c <= 'z') {
        return c - 'a' + 26;
    }
    if (c >= '0' && c <= '9') {
        return c - '0' + 52;
    }
    return c == alphabet[62] ? 62 : c == alphabet[63] ? 63 : -1;
}

static int decode64(struct span text, const char *alphabet, void *ret_bytes, size_t cap,
                    size_t *ret_len)
{
    uint8_t *to = ret_bytes;
    size_t rest = text.len % 4;
    size_t len = text.len / 4 * 3 + (rest > 0 ? rest - 1 : 0);
    if (rest == 1) {
        return ERR_INVALID;
    }
    if (len > cap) {
        return ERR_FULL;
    }
    uint32_t bits = 0;
    int have = 0;
    size_t o = 0;
    for (size_t i = 0; i < text.len; i++) {
        int v = value64(text.at[i], alphabet);
        if (v < 0) {
            return ERR_INVALID;
        }
        bits = bits << 6 | (uint32_t)v;
        have += 6;
        if (have >= 8) {
            have -= 8;
            to[o++] = (uint8_t)(bits >> have);
        }
    }
    if ((bits & ((1U << have) - 1)) != 0) {
        return ERR_INVALID;
    }
    *ret_len = len;
    return 0;
}

void base64url_encode(const void *bytes, size_t n, char *ret_text)
{
    encode64(bytes, n, base64_url_alphabet, ret_text);
}

int base64url_decode(struct span text, void *ret_bytes, size_t cap, size_t *ret_len)
{
    return decode64(text, base64_url_alphabet, ret_bytes, cap, ret_len);
}

void base64_encode(const void *bytes, size_t n, char *ret_text)
{
    size_t o = encode64(bytes, n, base64_alphabet, ret_text);
    while (o % 4 != 0) {
        ret_text[o++] = '=';
    }
}

int base64_decode(struct span text, void *ret_bytes, size_t cap, size_t *ret_len)
{
    if (text.len % 4 != 0) {
        return ERR_INVALID;
    }
    for (int i = 0; i < 2 && text.len > 0 && text.at[text.len - 1] == '='; i++) {
        text.len--;
    }
    return decode64(text, base64_alphabet, ret_bytes, cap, ret_len);
}
