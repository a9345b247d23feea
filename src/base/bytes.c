/*
 * Output buffers, number and text codecs. Pure. Input that does not parse is an error code; output
 * that does not fit sets the buffer's overflow flag.
 */
#include "base/bytes.h"

#include <stdarg.h>
#include <stdio.h>

#include "base/err.h"

static char lower(char c)
{
    return (char)((c >= 'A' && c <= 'Z') ? c | 0x20 : c);
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

/* Value + 1 for each character, 0 for all others. The two alphabets differ in the last two
 * values. */
#define VALUES64                                                                                   \
    ['A'] = 1, ['B'] = 2, ['C'] = 3, ['D'] = 4, ['E'] = 5, ['F'] = 6, ['G'] = 7, ['H'] = 8,        \
    ['I'] = 9, ['J'] = 10, ['K'] = 11, ['L'] = 12, ['M'] = 13, ['N'] = 14, ['O'] = 15, ['P'] = 16, \
    ['Q'] = 17, ['R'] = 18, ['S'] = 19, ['T'] = 20, ['U'] = 21, ['V'] = 22, ['W'] = 23,            \
    ['X'] = 24, ['Y'] = 25, ['Z'] = 26, ['a'] = 27, ['b'] = 28, ['c'] = 29, ['d'] = 30,            \
    ['e'] = 31, ['f'] = 32, ['g'] = 33, ['h'] = 34, ['i'] = 35, ['j'] = 36, ['k'] = 37,            \
    ['l'] = 38, ['m'] = 39, ['n'] = 40, ['o'] = 41, ['p'] = 42, ['q'] = 43, ['r'] = 44,            \
    ['s'] = 45, ['t'] = 46, ['u'] = 47, ['v'] = 48, ['w'] = 49, ['x'] = 50, ['y'] = 51,            \
    ['z'] = 52, ['0'] = 53, ['1'] = 54, ['2'] = 55, ['3'] = 56, ['4'] = 57, ['5'] = 58,            \
    ['6'] = 59, ['7'] = 60, ['8'] = 61, ['9'] = 62
static const uint8_t url_values[256] = {VALUES64, ['-'] = 63, ['_'] = 64};
static const uint8_t standard_values[256] = {VALUES64, ['+'] = 63, ['/'] = 64};

/* Four characters at a time, then the rest; every character is checked, and the bits left over. A
 * wrong character has the value UINT_MAX. */
static int decode64(struct span text, const uint8_t values[256], void *ret_bytes, size_t cap,
                    size_t *ret_len)
{
    uint8_t *to = ret_bytes;
    const uint8_t *at = (const uint8_t *)text.at;
    size_t rest = text.len % 4;
    size_t len = text.len / 4 * 3 + (rest > 0 ? rest - 1 : 0);
    unsigned wrong = 0;
    if (rest == 1) {
        return ERR_INVALID;
    }
    if (len > cap) {
        return ERR_FULL;
    }
    for (size_t i = 0; i < text.len / 4; i++, at += 4, to += 3) {
        unsigned a = values[at[0]] - 1U;
        unsigned b = values[at[1]] - 1U;
        unsigned c = values[at[2]] - 1U;
        unsigned d = values[at[3]] - 1U;
        wrong |= a | b | c | d;
        to[0] = (uint8_t)(a << 2 | b >> 4);
        to[1] = (uint8_t)(b << 4 | c >> 2);
        to[2] = (uint8_t)(c << 6 | d);
    }
    if (rest > 0) {
        unsigned a = values[at[0]] - 1U;
        unsigned b = values[at[1]] - 1U;
        unsigned c = rest == 3 ? values[at[2]] - 1U : 0;
        wrong |= a | b | c;
        to[0] = (uint8_t)(a << 2 | b >> 4);
        if (rest == 3) {
            to[1] = (uint8_t)(b << 4 | c >> 2);
        }
        /* Unused bits must be zero, or two texts would decode to the same bytes. */
        wrong |= (rest == 2 ? b & 15 : c & 3) != 0 ? 64 : 0;
    }
    if ((wrong & ~63U) != 0) {
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
    return decode64(text, url_values, ret_bytes, cap, ret_len);
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
    return decode64(text, standard_values, ret_bytes, cap, ret_len);
}
