/*
 * See parser.h. The only file that includes llhttp.
 *
 * llhttp decides where the request line, headers, chunks and the request end. Its callbacks store
 * the offsets of what it finds, and refuse what strict mode accepts:
 *  - several spaces in a row in the request line, HTTP/0.9, other protocols and versions;
 *  - a line that does not end in CR LF, a value that continues on the next line, an empty name;
 *  - a second header of a name that the server uses.
 * llhttp pauses at the end of the head, and check_head() checks what needs the whole of it: method,
 * target, host, framing, expectation. It pauses again at each chunk's size, for the limits.
 *
 * llhttp never gets bytes beyond the limit of the request line, the head or the trailers. So the
 * refusal does not depend on how many bytes one read brought.
 *
 * llhttp calls a callback with the piece of a text that is in the current bytes, and again with the
 * next piece. The pieces of one text are contiguous, because the bytes of a request are.
 *
 * llhttp does not read two things: empty lines before a request and chunk extensions.
 */
#include "http/parser.h"

/* llhttp calls its methods what http/server.h calls ours. */
#define HTTP_DELETE LLHTTP_DELETE
#define HTTP_GET LLHTTP_GET
#define HTTP_HEAD LLHTTP_HEAD
#define HTTP_POST LLHTTP_POST
#define HTTP_PUT LLHTTP_PUT
#define HTTP_OPTIONS LLHTTP_OPTIONS
#include <llhttp.h>
#undef HTTP_DELETE
#undef HTTP_GET
#undef HTTP_HEAD
#undef HTTP_POST
#undef HTTP_PUT
#undef HTTP_OPTIONS

_Static_assert(LLHTTP_STRICT_MODE == 1, "the loose mode accepts requests that enable smuggling");
_Static_assert(sizeof(llhttp_t) <= HTTP_LLHTTP_BYTES, "llhttp's state fits");
_Static_assert(HTTP_HEADERS_MAX <= UINT16_MAX, "struct http_range reaches to the end of a head");
_Static_assert(HTTP_LARGE_BUFFER >= HTTP_HEADERS_MAX + HTTP_BODY_MAX + HTTP_TRAILERS_MAX + 1024,
               "a chunk line or the trailers fit behind the largest body");

/* Room for the longest method, two spaces and "HTTP/1.1". */
#define LINE_EXTRA 32U
#define REQUEST_LINE_MAX (HTTP_LINE_MAX + LINE_EXTRA)

/* The context of one step. */
struct reader {
    struct http_progress *p;
    llhttp_t *llhttp;
    char *bytes;
    size_t len;
    size_t end; /* of the bytes that llhttp gets */
    enum refusal refusal;
    bool complete; /* llhttp is at the end of a chunked request */
};

static llhttp_t *llhttp_of(struct http_progress *p)
{
    return (llhttp_t *)(void *)p->llhttp;
}

/* Keeps the first refusal. Returns the value with which a callback stops llhttp. */
static int refuse(struct reader *r, enum refusal refusal)
{
    r->refusal = r->refusal == REFUSAL_NONE ? refusal : r->refusal;
    return HPE_USER;
}

static enum http_step refused(struct reader *r, enum refusal refusal)
{
    (void)refuse(r, refusal);
    return HTTP_STEP_REFUSED;
}

/* --- Characters ------------------------------------------------------------------------------- */

static bool is_token(char c)
{
    static const bool token[256] = {
        ['!'] = true,         ['#'] = true,         ['$'] = true, ['%'] = true,
        ['&'] = true,         ['\''] = true,        ['*'] = true, ['+'] = true,
        ['-'] = true,         ['.'] = true,         ['^'] = true, ['_'] = true,
        ['`'] = true,         ['|'] = true,         ['~'] = true, ['0' ... '9'] = true,
        ['A' ... 'Z'] = true, ['a' ... 'z'] = true,
    };
    return token[(unsigned char)c];
}

static bool is_blank(char c)
{
    return c == ' ' || c == '\t';
}

/* Compares without case. For a token, setting bit 5 maps no other character to one of lower. */
static inline bool name_is(const char *name, const char *lower, size_t len)
{
    size_t i = 0;
    for (; i + 8 <= len; i += 8) {
        uint64_t a, b;
        memcpy(&a, name + i, 8);
        memcpy(&b, lower + i, 8);
        if ((a | 0x2020202020202020ULL) != b) {
            return false;
        }
    }
    for (; i < len; i++) {
        if ((name[i] | 0x20) != lower[i]) {
            return false;
        }
    }
    return true;
}

/* --- The request line ------------------------------------------------------------------------- */

/* llhttp accepts any number of spaces before the target, and HTTP/0.9, which has no version. */
static int on_url(llhttp_t *llhttp, const char *at, size_t len)
{
    struct reader *r = llhttp->data;
    struct http_range *target = &r->p->target;
    size_t offset = (size_t)(at - r->bytes);
    if (target->at == 0) {
        target->at = (uint16_t)offset;
    }
    target->len = (uint16_t)(offset + len - target->at);
    if (offset + len == r->end) {
        return 0; /* the target may continue */
    }
    if (target->len > HTTP_LINE_MAX) {
        return refuse(r, REFUSAL_URI_TOO_LONG);
    }
    bool separate = r->bytes[target->at - 2] != ' ' && at[len] == ' ';
    return separate ? 0 : refuse(r, REFUSAL_BAD_REQUEST);
}

/* llhttp accepts any number of spaces before the version, other protocols, and HTTP/2.0. */
static int on_version_complete(llhttp_t *llhttp)
{
    struct reader *r = llhttp->data;
    struct http_progress *p = r->p;
    uint32_t end = (uint32_t)p->target.at + p->target.len;
    if (memcmp(r->bytes + end, " HTTP/", 6) != 0) {
        return refuse(r, REFUSAL_BAD_REQUEST);
    }
    p->value_end = end + (uint32_t)sizeof(" HTTP/1.1") - 1;
    return llhttp->http_major == 1 ? 0 : refuse(r, REFUSAL_BAD_VERSION);
}

/* --- Header lines ----------------------------------------------------------------------------- */

/* Length, first and last letter distinguish all names of the lists; one comparison confirms. */
#define KEY(len, first, last) ((uint32_t)(len) << 16 | (uint32_t)(first) << 8 | (uint32_t)(last))
#define KEY_OF(name) KEY(sizeof(name) - 1, (name)[0], (name)[sizeof(name) - 2])

/* Where the value of this header is stored; NULL: nowhere. */
static struct http_range *header_range(struct http_progress *p, const char *name, size_t len)
{
    uint32_t key = KEY(len, (unsigned char)(name[0] | 0x20), (unsigned char)(name[len - 1] | 0x20));
#define X(field, text)                                                                             \
    if (key == KEY_OF(text)) {                                                                     \
        return name_is(name, text, sizeof(text) - 1) ? &p->field : NULL;                           \
    }
    HTTP_HEADERS(X)
    X(content_length, "content-length")
    X(transfer_encoding, "transfer-encoding")
#undef X
    return NULL;
}

static bool may_repeat(const struct http_progress *p, const struct http_range *range)
{
#define X(field, text)                                                                             \
    if (range == &p->field) {                                                                      \
        return true;                                                                               \
    }
    HTTP_LIST_HEADERS(X)
#undef X
    return false;
}

/* Stores the header that has just ended. False: a second one of its name. */
static bool store_header(struct reader *r)
{
    struct http_progress *p = r->p;
    struct http_range *range = header_range(p, r->bytes + p->name, p->name_end - p->name);
    if (range == NULL) {
        return true;
    }
    uint32_t end = p->value_end;
    while (end > p->value && is_blank(r->bytes[end - 1])) {
        end--;
    }
    bool first = range->at == 0;
    bool list = may_repeat(p, range);
    *range =
        (struct http_range){(uint16_t)p->value, first || !list ? (uint16_t)(end - p->value) : 0};
    return first || list;
}

/* Whether the line that llhttp has read ends in CR LF right before `next`. llhttp accepts other line
 * ends, and a value that continues on the next line. */
static bool check_line_end(const struct reader *r, size_t next)
{
    size_t at = r->p->value_end;
    while (at < next && is_blank(r->bytes[at])) {
        at++;
    }
    return at + 2 == next && r->bytes[at] == '\r' && r->bytes[at + 1] == '\n';
}

/* Checks and stores the line before `next`. llhttp accepts an empty name. */
static int end_line(struct reader *r, size_t next)
{
    struct http_progress *p = r->p;
    bool header = p->name > 0; /* not the request line */
    if (!check_line_end(r, next) || (header && p->name == p->name_end)) {
        return refuse(r, REFUSAL_BAD_REQUEST);
    }
    bool stored = header && p->phase == HTTP_PHASE_HEAD; /* trailers are dropped */
    return !stored || store_header(r) ? 0 : refuse(r, REFUSAL_BAD_REQUEST);
}

static int on_header_field(llhttp_t *llhttp, const char *at, size_t len)
{
    struct reader *r = llhttp->data;
    struct http_progress *p = r->p;
    uint32_t offset = (uint32_t)(at - r->bytes);
    if (offset != p->name_end) { /* the first piece of a name */
        int error = end_line(r, offset);
        if (error != 0) {
            return error;
        }
        if (p->phase == HTTP_PHASE_HEAD && ++p->header_lines > HTTP_HEADER_LINES_MAX) {
            return refuse(r, REFUSAL_HEADERS_TOO_LARGE);
        }
        p->name = offset;
    }
    p->name_end = offset + (uint32_t)len;
    p->value = p->value_end = p->name_end + 1;
    return 0;
}

static int on_header_value(llhttp_t *llhttp, const char *at, size_t len)
{
    struct reader *r = llhttp->data;
    struct http_progress *p = r->p;
    uint32_t offset = (uint32_t)(at - r->bytes);
    if (len == 0) {
        return 0;
    }
    if (p->value == p->value_end) {
        while (p->value < offset && is_blank(r->bytes[p->value])) {
            p->value++;
        }
        p->value_end = p->value;
    }
    if (offset != p->value_end) {
        return refuse(r, REFUSAL_BAD_REQUEST); /* continued from the line before */
    }
    p->value_end += (uint32_t)len;
    return 0;
}

static int on_headers_complete(llhttp_t *llhttp)
{
    (void)llhttp;
    return HPE_PAUSED;
}

/* --- The head --------------------------------------------------------------------------------- */

static enum refusal check_method(struct http_progress *p, uint8_t method)
{
    static const uint8_t methods[] = {
        [LLHTTP_GET] = HTTP_GET, [LLHTTP_HEAD] = HTTP_HEAD,     [LLHTTP_POST] = HTTP_POST,
        [LLHTTP_PUT] = HTTP_PUT, [LLHTTP_DELETE] = HTTP_DELETE, [LLHTTP_OPTIONS] = HTTP_OPTIONS,
    };
    _Static_assert(sizeof(methods) == LLHTTP_OPTIONS + 1 && LLHTTP_OPTIONS == HTTP_CONNECT + 1,
                   "all methods below OPTIONS are in the table, except CONNECT");
    if (method == HTTP_CONNECT || method >= HTTP_SOURCE) {
        return REFUSAL_NOT_IMPLEMENTED; /* a tunnel; methods of other protocols */
    }
    p->method = method <= LLHTTP_OPTIONS ? methods[method] : HTTP_OTHER;
    return REFUSAL_NONE;
}

/* The length of "http://authority" or "https://authority" before the path; 0: malformed. */
static size_t authority_end(struct span target)
{
    size_t scheme = target.len > 7 && name_is(target.at, "http://", 7)    ? 7
                    : target.len > 8 && name_is(target.at, "https://", 8) ? 8
                                                                          : 0;
    if (scheme == 0) {
        return 0;
    }
    size_t end = scheme;
    while (end < target.len && target.at[end] != '/' && target.at[end] != '?') {
        if (target.at[end] == '@') {
            return 0;
        }
        end++;
    }
    return end > scheme ? end : 0;
}

/* Splits the target: "/path?query"; "http://host/path?query"; "*", for OPTIONS only. */
static enum refusal check_target(struct http_progress *p, const char *bytes)
{
    struct span target = {bytes + p->target.at, p->target.len};
    p->path = p->target;
    if (target.len == 0 || memchr(target.at, '#', target.len) != NULL) {
        return REFUSAL_BAD_REQUEST;
    }
    if (span_is(target, "*")) {
        return p->method == HTTP_OPTIONS ? REFUSAL_NONE : REFUSAL_BAD_REQUEST;
    }
    size_t start = 0;
    if (target.at[0] != '/') {
        start = authority_end(target);
        if (start == 0) {
            return REFUSAL_BAD_REQUEST;
        }
    }
    const char *mark = memchr(target.at + start, '?', target.len - start);
    size_t end = mark == NULL ? target.len : (size_t)(mark - target.at);
    p->path = (struct http_range){(uint16_t)(p->target.at + start), (uint16_t)(end - start)};
    if (mark != NULL) {
        p->query = (struct http_range){(uint16_t)(p->target.at + end + 1),
                                       (uint16_t)(target.len - end - 1)};
    }
    return REFUSAL_NONE;
}

static enum refusal check_host(struct span host, bool version_10)
{
    if (host.at == NULL) {
        return version_10 ? REFUSAL_NONE : REFUSAL_BAD_REQUEST;
    }
    for (size_t i = 0; i < host.len; i++) {
        char c = host.at[i];
        if (!is_token(c) && c != ':' && c != '[' && c != ']') {
            return REFUSAL_BAD_REQUEST;
        }
    }
    return REFUSAL_NONE;
}

/* The length of the body: from one of the two framing headers, never from both. */
static enum refusal check_framing(struct http_progress *p, const llhttp_t *llhttp,
                                  const char *bytes)
{
    if (p->transfer_encoding.at != 0) {
        struct span coding = {bytes + p->transfer_encoding.at, p->transfer_encoding.len};
        if (p->content_length.at != 0 || p->version_10 || coding.len == 0) {
            return REFUSAL_BAD_REQUEST;
        }
        if (!span_equal_nocase(coding, span_of("chunked"))) {
            return REFUSAL_NOT_IMPLEMENTED;
        }
        p->phase = HTTP_PHASE_CHUNKS;
        return (llhttp->flags & F_CHUNKED) != 0 ? REFUSAL_NONE : REFUSAL_BAD_REQUEST;
    }
    if (p->content_length.at != 0 && p->content_length.len == 0) {
        return REFUSAL_BAD_REQUEST;
    }
    if (llhttp->content_length > HTTP_BODY_MAX) {
        /* Other readers may overflow at a length that does not fit 63 bits. */
        return llhttp->content_length > INT64_MAX ? REFUSAL_BAD_REQUEST : REFUSAL_TOO_LARGE;
    }
    p->body_len = (uint32_t)llhttp->content_length;
    p->phase = HTTP_PHASE_BODY;
    return REFUSAL_NONE;
}

static struct span span_at(const char *bytes, struct http_range range)
{
    return (struct span){range.at == 0 ? NULL : bytes + range.at, range.len};
}

/* Checks a complete head and sets what its body needs. */
static enum refusal check_head(struct reader *r)
{
    struct http_progress *p = r->p;
    const llhttp_t *llhttp = r->llhttp;
    p->version_10 = llhttp->http_minor == 0;
    p->keep_alive = (llhttp->flags & F_CONNECTION_CLOSE) == 0 &&
                    (!p->version_10 || (llhttp->flags & F_CONNECTION_KEEP_ALIVE) != 0);
    enum refusal refusal = check_method(p, llhttp->method);
    if (refusal == REFUSAL_NONE) {
        refusal = check_target(p, r->bytes);
    }
    if (refusal == REFUSAL_NONE) {
        refusal = check_host(span_at(r->bytes, p->host), p->version_10);
    }
    if (refusal == REFUSAL_NONE) {
        refusal = check_framing(p, llhttp, r->bytes);
    }
    struct span expect = span_at(r->bytes, p->expect);
    if (refusal == REFUSAL_NONE && expect.at != NULL && !p->version_10 &&
        !span_equal_nocase(expect, span_of("100-continue"))) {
        refusal = REFUSAL_EXPECTATION;
    }
    return refusal;
}

/* llhttp does not know the method: 501 if it is a token, 400 otherwise. MORE: it is incomplete. */
static enum http_step refuse_method(struct reader *r)
{
    size_t len = r->len < REQUEST_LINE_MAX ? r->len : REQUEST_LINE_MAX;
    size_t word = 0;
    while (word < len && is_token(r->bytes[word])) {
        word++;
    }
    if (word == r->len) {
        return HTTP_STEP_MORE;
    }
    return refused(r, word == REQUEST_LINE_MAX            ? REFUSAL_URI_TOO_LONG
                      : word > 0 && r->bytes[word] == ' ' ? REFUSAL_NOT_IMPLEMENTED
                                                          : REFUSAL_BAD_REQUEST);
}

/* llhttp has found an error in the head. */
static enum http_step refuse_head(struct reader *r, llhttp_errno_t error)
{
    if (error == HPE_INVALID_METHOD) {
        return refuse_method(r);
    }
    /* 505 for " HTTP/d.d" with other digits; 400 for a malformed version. */
    const char *version = r->bytes + r->p->target.at + r->p->target.len;
    bool other = error == HPE_INVALID_VERSION && r->p->value_end == 0 &&
                 llhttp_get_error_pos(r->llhttp) - version >= 9 && version[7] == '.';
    return refused(r, other || error == HPE_PAUSED_H2_UPGRADE ? REFUSAL_BAD_VERSION
                                                              : REFUSAL_BAD_REQUEST);
}

/* Checks and stores the last line, and checks the empty line after it. */
static bool end_lines(struct reader *r)
{
    uint32_t empty = r->p->consumed - 2;
    return memcmp(r->bytes + empty, "\r\n", 2) == 0 && end_line(r, empty) == 0;
}

/* Gives llhttp the bytes that it has not read, up to `limit`. */
static llhttp_errno_t execute(struct reader *r, size_t limit)
{
    struct http_progress *p = r->p;
    r->end = r->len < limit ? r->len : limit;
    llhttp_errno_t error = llhttp_execute(r->llhttp, r->bytes + p->consumed, r->end - p->consumed);
    if (error == HPE_PAUSED) {
        p->consumed = (uint32_t)(llhttp_get_error_pos(r->llhttp) - r->bytes);
        llhttp_resume(r->llhttp);
    } else if (error == HPE_OK) {
        p->consumed = (uint32_t)r->end;
    }
    return error;
}

static enum http_step read_head(struct reader *r)
{
    struct http_progress *p = r->p;
    for (;;) {
        llhttp_errno_t error = execute(r, p->value_end == 0 ? REQUEST_LINE_MAX : HTTP_HEADERS_MAX);
        if (error == HPE_PAUSED) {
            break;
        }
        if (error != HPE_OK) {
            return refuse_head(r, error);
        }
        if (p->value_end == 0 && p->consumed == REQUEST_LINE_MAX) {
            return refused(r, REFUSAL_URI_TOO_LONG);
        }
        if (p->consumed == HTTP_HEADERS_MAX) {
            return refused(r, REFUSAL_HEADERS_TOO_LARGE);
        }
        if (p->consumed == r->len) {
            return HTTP_STEP_MORE;
        }
    }
    enum refusal refusal = end_lines(r) ? check_head(r) : REFUSAL_BAD_REQUEST;
    if (refusal != REFUSAL_NONE) {
        return refused(r, refusal);
    }
    p->head_len = p->line = p->consumed;
    p->wants_continue = p->expect.at != 0 && !p->version_10 && r->len == p->head_len;
    return HTTP_STEP_DONE;
}

/* --- Chunks ----------------------------------------------------------------------------------- */

/* Moves the data to the end of the body. */
static int on_body(llhttp_t *llhttp, const char *at, size_t len)
{
    struct reader *r = llhttp->data;
    struct http_progress *p = r->p;
    memmove(r->bytes + p->head_len + p->body_len, at, len);
    p->body_len += (uint32_t)len;
    p->chunk_left -= (uint32_t)len;
    p->line = (uint32_t)(at + len - r->bytes);
    return 0;
}

static int on_chunk_header(llhttp_t *llhttp)
{
    (void)llhttp;
    return HPE_PAUSED;
}

static int on_message_complete(llhttp_t *llhttp)
{
    struct reader *r = llhttp->data;
    r->complete = true;
    return HPE_PAUSED;
}

/* The framing before a chunk's data: the CR LF of the chunk before it and the size line. */
#define CHUNK_FRAMING_MAX (2 + HTTP_CHUNK_LINE_MAX + 2)

/* The end of the chunk extensions at bytes[at], at most len. */
static size_t extension_end(const char *bytes, size_t at, size_t len)
{
    while (at < len &&
           (bytes[at] == '\t' || ((unsigned char)bytes[at] >= ' ' && bytes[at] != 127))) {
        at++;
    }
    return at;
}

/* Checks the framing that llhttp has read: CR LF, except before the first chunk, then
 * "SIZE[;extensions]" CR LF. llhttp has not got the extensions, and accepts more than 8 digits. */
static bool check_chunk_framing(const struct reader *r)
{
    const char *line = r->bytes + r->p->line;
    size_t len = r->p->consumed - r->p->line;
    if (r->p->overhead > 0) {
        if (memcmp(line, "\r\n", 2) != 0) {
            return false;
        }
        line += 2;
        len -= 2;
    }
    size_t digits = 0;
    while (digits < len && is_token(line[digits])) {
        digits++;
    }
    size_t end = line[digits] == ';' ? extension_end(line, digits, len) : digits;
    return digits > 0 && digits <= 8 && end <= HTTP_CHUNK_LINE_MAX && end + 2 == len &&
           memcmp(line + end, "\r\n", 2) == 0;
}

/* Moves the bytes from p->line on to the end of the decoded body. */
static void close_gap(struct reader *r)
{
    struct http_progress *p = r->p;
    uint32_t end = p->head_len + p->body_len;
    uint32_t gap = p->line - end;
    memmove(r->bytes + end, r->bytes + p->line, r->len - p->line);
    r->len -= gap;
    p->consumed -= gap;
    p->line = end;
}

/* llhttp has read the framing before a chunk's data. */
static enum refusal begin_chunk(struct reader *r)
{
    struct http_progress *p = r->p;
    if (!check_chunk_framing(r)) {
        return REFUSAL_BAD_REQUEST;
    }
    p->overhead += p->consumed - p->line;
    if (r->llhttp->content_length > HTTP_BODY_MAX - p->body_len || p->overhead > HTTP_BODY_MAX) {
        return REFUSAL_TOO_LARGE;
    }
    p->chunk_left = (uint32_t)r->llhttp->content_length;
    p->line = p->consumed;
    if (p->chunk_left == 0) {
        p->line -= 2; /* keeps the CR LF for check_line_end */
        close_gap(r);
        p->phase = HTTP_PHASE_TRAILERS;
        p->value_end = p->line;
    }
    return REFUSAL_NONE;
}

/* Skips the extensions at the next byte, up to `end`. False: they are incomplete. */
static bool skip_extensions(struct reader *r, size_t end)
{
    struct http_progress *p = r->p;
    size_t at = extension_end(r->bytes, p->consumed, end);
    if (at == end) {
        return false;
    }
    p->consumed = (uint32_t)at;
    return true;
}

/*
 * Gives llhttp the next part of a chunked body: data, framing up to the chunk extensions, or
 * trailers. llhttp 8.1 refuses valid extensions ("1;a=b;c=d"), so it does not get them. HPE_OK: all
 * bytes are read, or the framing is incomplete.
 */
static llhttp_errno_t execute_chunk(struct reader *r)
{
    struct http_progress *p = r->p;
    if (p->phase == HTTP_PHASE_TRAILERS) {
        return execute(r, p->line + 2 + HTTP_TRAILERS_MAX);
    }
    if (p->chunk_left > 0) {
        return execute(r, p->consumed + p->chunk_left);
    }
    size_t end = (size_t)p->line + CHUNK_FRAMING_MAX;
    end = end < r->len ? end : r->len;
    if (r->bytes[p->consumed] == ';' && !skip_extensions(r, end)) {
        return HPE_OK;
    }
    const char *extensions = memchr(r->bytes + p->consumed, ';', end - p->consumed);
    return execute(r, extensions == NULL ? end : (size_t)(extensions - r->bytes));
}

/* Refuses framing or trailers that are incomplete at their limit. */
static enum refusal check_chunk_limits(const struct reader *r)
{
    const struct http_progress *p = r->p;
    if (p->phase == HTTP_PHASE_TRAILERS) {
        return p->consumed - p->line == 2 + HTTP_TRAILERS_MAX ? REFUSAL_HEADERS_TOO_LARGE
                                                              : REFUSAL_NONE;
    }
    bool framing = p->chunk_left == 0;
    return framing && r->len - p->line >= CHUNK_FRAMING_MAX ? REFUSAL_BAD_REQUEST : REFUSAL_NONE;
}

static enum http_step read_chunks(struct reader *r)
{
    struct http_progress *p = r->p;
    uint32_t before;
    llhttp_errno_t error;
    do {
        before = p->consumed;
        error = before < r->len ? execute_chunk(r) : HPE_OK;
        if (error == HPE_PAUSED && r->complete) {
            return end_lines(r) ? HTTP_STEP_DONE : refused(r, REFUSAL_BAD_REQUEST);
        }
        enum refusal refusal = error == HPE_PAUSED ? begin_chunk(r)
                               : error == HPE_OK   ? REFUSAL_NONE
                                                   : REFUSAL_BAD_REQUEST;
        if (refusal != REFUSAL_NONE) {
            return refused(r, refusal);
        }
    } while (error == HPE_PAUSED || p->consumed > before);
    enum refusal refusal = check_chunk_limits(r);
    if (refusal != REFUSAL_NONE) {
        return refused(r, refusal);
    }
    if (p->phase == HTTP_PHASE_CHUNKS) {
        close_gap(r);
    }
    return HTTP_STEP_MORE;
}

/* --- One step --------------------------------------------------------------------------------- */

/* llhttp would accept any number of empty lines, and a bare CR or LF as one. */
static enum http_step skip_blank_line(struct http_progress *p, const char *bytes, size_t len,
                                      struct http_parsed *ret_parsed)
{
    if (len == 1 && bytes[0] == '\r') {
        return HTTP_STEP_MORE;
    }
    if (bytes[0] != '\r' || bytes[1] != '\n' || p->blank_lines >= HTTP_BLANK_LINES_MAX) {
        ret_parsed->refusal = REFUSAL_BAD_REQUEST;
        return HTTP_STEP_REFUSED;
    }
    p->blank_lines++;
    ret_parsed->consumed = 2;
    return HTTP_STEP_BLANK;
}

static void fill_parsed(const struct http_progress *p, const char *bytes,
                        struct http_parsed *ret_parsed)
{
    struct http_request *request = &ret_parsed->request;
    request->method = p->method;
    request->head = (struct span){bytes, p->head_len};
    request->path = p->path.len == 0 ? span_of("/") : span_at(bytes, p->path);
    request->query = span_at(bytes, p->query);
    request->body = (struct span){bytes + p->head_len, p->body_len};
#define X(field, name) request->field = span_at(bytes, p->field);
    HTTP_HEADERS(X)
#undef X
    ret_parsed->keep_alive = p->keep_alive;
    ret_parsed->version_10 = p->version_10;
}

void http_parser_head(const struct http_progress *p, const char *bytes,
                      struct http_parsed *ret_parsed)
{
    fill_parsed(p, bytes, ret_parsed);
    ret_parsed->request.body.len = 0;
}

static enum http_step step_body(struct reader *r, struct http_parsed *ret_parsed)
{
    struct http_progress *p = r->p;
    if (p->phase == HTTP_PHASE_BODY) {
        ret_parsed->consumed = (size_t)p->head_len + p->body_len;
        return r->len < ret_parsed->consumed ? HTTP_STEP_MORE : HTTP_STEP_DONE;
    }
    enum http_step step = read_chunks(r);
    ret_parsed->consumed = p->consumed;
    return step;
}

enum http_step http_parser_step(struct http_progress *p, char *bytes, size_t *len,
                                struct http_parsed *ret_parsed)
{
    static const llhttp_settings_t settings = {
        .on_url = on_url,
        .on_version_complete = on_version_complete,
        .on_header_field = on_header_field,
        .on_header_value = on_header_value,
        .on_headers_complete = on_headers_complete,
        .on_chunk_header = on_chunk_header,
        .on_body = on_body,
        .on_message_complete = on_message_complete,
    };
    if (*len == 0) {
        return HTTP_STEP_MORE;
    }
    if (p->consumed == 0 && (bytes[0] == '\r' || bytes[0] == '\n')) {
        return skip_blank_line(p, bytes, *len, ret_parsed);
    }
    struct reader r = {.p = p, .llhttp = llhttp_of(p), .bytes = bytes, .len = *len};
    if (!p->started) {
        llhttp_init(r.llhttp, HTTP_REQUEST, &settings);
        p->started = true;
    }
    r.llhttp->data = &r;
    enum http_step step = p->phase == HTTP_PHASE_HEAD ? read_head(&r) : HTTP_STEP_DONE;
    if (step == HTTP_STEP_DONE) {
        step = step_body(&r, ret_parsed);
    }
    *len = r.len;
    if (step == HTTP_STEP_DONE) {
        fill_parsed(p, bytes, ret_parsed);
    }
    ret_parsed->refusal = r.refusal;
    return step;
}
