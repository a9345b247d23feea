/*
 * The strict reading of parser.h; the only file that sees llhttp.
 *
 * llhttp runs over complete heads only, with a state that lives on the stack: there is no parser to
 * keep, reset or mistrust between two reads. It judges everything that decides where a request
 * ends: the request line, the framing headers, the end of the head. All other header lines are a
 * name and a value, checked here by the same grammar; walking through a long token once more, byte
 * by byte, would double the cost of a request. Bodies need no judge, and chunks are decoded here,
 * where "strict" can be as narrow as the grammar.
 */
#include "http/parser.h"

#ifdef __SSE2__
#include <emmintrin.h>
#endif

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

_Static_assert(LLHTTP_STRICT_MODE == 1, "the loose mode lets smuggled requests through");
_Static_assert(HTTP_LARGE_BUFFER >= HTTP_HEADERS_MAX + HTTP_BODY_MAX + HTTP_TRAILERS_MAX + 1024,
               "a chunk line or the trailers must fit behind the largest body");

/* Longest method, two spaces and "HTTP/1.1": what a request line has besides its target. */
#define LINE_EXTRA 32U

/* --- Lines ------------------------------------------------------------------------------------ */

#ifdef __SSE2__
/* A bit for each of 16 bytes that is a control character. */
static inline uint32_t control_bits(const char *bytes)
{
    __m128i block = _mm_loadu_si128((const __m128i *)(const void *)bytes);
    __m128i below = _mm_cmpeq_epi8(_mm_min_epu8(block, _mm_set1_epi8(0x1f)), block);
    __m128i delete = _mm_cmpeq_epi8(block, _mm_set1_epi8(0x7f));
    return (uint32_t)_mm_movemask_epi8(_mm_or_si128(below, delete));
}
#endif

/* The index of the first control character (below 0x20, or DEL) in [at, len), or len. */
static size_t find_control(const char *bytes, size_t at, size_t len)
{
#ifdef __SSE2__
    for (; at + 16 <= len; at += 16) {
        uint32_t bits = control_bits(bytes + at);
        if (bits != 0) {
            return at + (size_t)__builtin_ctz(bits);
        }
    }
#endif
    for (; at < len; at++) {
        unsigned char c = (unsigned char)bytes[at];
        if (c < 0x20 || c == 0x7f) {
            break;
        }
    }
    return at;
}

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

/* A request line must end in its version before anything behind it is waited for. */
static enum refusal check_request_line(const char *line, size_t len)
{
    if (len > HTTP_LINE_MAX + LINE_EXTRA) {
        return REFUSAL_URI_TOO_LONG;
    }
    if (len < sizeof("G / HTTP/1.1") - 1 || memcmp(line + len - 9, " HTTP/", 6) != 0 ||
        line[len - 2] != '.') {
        return REFUSAL_BAD_REQUEST;
    }
    if (line[len - 3] != '1' || (line[len - 1] != '0' && line[len - 1] != '1')) {
        return REFUSAL_BAD_VERSION;
    }
    /* One space each; llhttp takes any number, and another reader may split them elsewhere. */
    const char *space = memchr(line, ' ', len);
    bool apart = space < line + len - 10 && space[1] != ' ' && line[len - 10] != ' ';
    return apart ? REFUSAL_NONE : REFUSAL_BAD_REQUEST;
}

static enum refusal check_trailer_line(const char *line, size_t len)
{
    size_t name = 0;
    while (name < len && is_token(line[name])) {
        name++;
    }
    return name > 0 && name < len && line[name] == ':' ? REFUSAL_NONE : REFUSAL_BAD_REQUEST;
}

static enum refusal check_line(const struct http_progress *p, const char *line, size_t len)
{
    if (p->phase == HTTP_PHASE_TRAILERS) {
        return check_trailer_line(line, len);
    }
    return p->lines == 0 ? check_request_line(line, len) : REFUSAL_NONE;
}

/* What too many bytes or lines are called, at the present place. */
static enum refusal check_size(const struct http_progress *p)
{
    if (p->phase == HTTP_PHASE_TRAILERS) {
        return p->scanned > HTTP_TRAILERS_MAX ? REFUSAL_HEADERS_TOO_LARGE : REFUSAL_NONE;
    }
    if (p->lines == 0) {
        return p->scanned > HTTP_LINE_MAX + LINE_EXTRA ? REFUSAL_URI_TOO_LONG : REFUSAL_NONE;
    }
    return p->scanned > HTTP_HEADERS_MAX || p->lines > HTTP_HEADER_LINES_MAX + 1
               ? REFUSAL_HEADERS_TOO_LARGE
               : REFUSAL_NONE;
}

/*
 * Scans lines up to the empty one: DONE and *ret_len is the length with it. Goes on where the last
 * call ended, so that a peer who sends single bytes costs no more than one who sends them at once.
 */
static enum http_step scan_lines(struct http_progress *p, const char *bytes, size_t len,
                                 enum refusal *ret_refusal, uint32_t *ret_len)
{
    for (;;) {
        size_t at = find_control(bytes, p->scanned, len);
        p->scanned = (uint32_t)at;
        /* First of all, so that the refusal is the same in whatever pieces the bytes come. */
        *ret_refusal = check_size(p);
        if (*ret_refusal != REFUSAL_NONE) {
            return HTTP_STEP_REFUSED;
        }
        if (at == len || (bytes[at] == '\r' && at + 1 == len)) {
            return HTTP_STEP_MORE;
        }
        *ret_refusal = REFUSAL_BAD_REQUEST;
        if (bytes[at] == '\t' && (p->lines > 0 || p->phase == HTTP_PHASE_TRAILERS)) {
            p->scanned++;
            continue;
        }
        if (bytes[at] != '\r' || bytes[at + 1] != '\n') {
            return HTTP_STEP_REFUSED;
        }
        p->scanned += 2;
        if (at == p->line) {
            *ret_len = p->scanned;
            *ret_refusal = check_size(p);
            return *ret_refusal == REFUSAL_NONE ? HTTP_STEP_DONE : HTTP_STEP_REFUSED;
        }
        const char *line = bytes + p->line;
        enum refusal refusal = check_line(p, line, at - p->line);
        p->lines++;
        if (refusal == REFUSAL_NONE) {
            refusal = check_size(p);
        }
        if (refusal != REFUSAL_NONE) {
            *ret_refusal = refusal;
            return HTTP_STEP_REFUSED;
        }
        p->line = p->scanned;
    }
}

/* --- The head --------------------------------------------------------------------------------- */

/* What one run over a head finds. */
struct head {
    struct http_parsed *parsed;
    struct span target;
    struct span content_length;
    struct span transfer_encoding;
    bool complete;
    bool refused;
};

/* The headers llhttp has to see, with where their values are kept, if at all. One list. */
#define FRAMING_HEADERS(X)                                                                         \
    X("content-length", &head->content_length)                                                     \
    X("transfer-encoding", &head->transfer_encoding)                                               \
    X("connection", NULL)                                                                          \
    X("proxy-connection", NULL)                                                                    \
    X("upgrade", NULL)

/* The name is a token, for which setting bit 5 maps no other character onto one of the list. */
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

/* Length, first and last letter tell all names of the lists apart; one comparison confirms. */
#define KEY(len, first, last) ((uint32_t)(len) << 16 | (uint32_t)(first) << 8 | (uint32_t)(last))
#define KEY_OF(name) KEY(sizeof(name) - 1, (name)[0], (name)[sizeof(name) - 2])

/* Where the value of a header is kept (NULL: nowhere), and whether llhttp has to see the line. */
static struct span *header_slot(struct head *head, const char *name, size_t len, bool *ret_framing)
{
    struct http_request *request = &head->parsed->request;
    uint32_t key = KEY(len, (unsigned char)(name[0] | 0x20), (unsigned char)(name[len - 1] | 0x20));
    *ret_framing = false;
#define X(field, text)                                                                             \
    if (key == KEY_OF(text)) {                                                                     \
        return name_is(name, text, sizeof(text) - 1) ? &request->field : NULL;                     \
    }
    HTTP_HEADERS(X)
#undef X
#define X(text, slot)                                                                              \
    if (key == KEY_OF(text)) {                                                                     \
        *ret_framing = name_is(name, text, sizeof(text) - 1);                                      \
        return *ret_framing ? (slot) : NULL;                                                       \
    }
    FRAMING_HEADERS(X)
#undef X
    return NULL;
}

/* A header that may come again. */
static bool is_list(const struct http_request *request, const struct span *slot)
{
#define X(field, text)                                                                             \
    if (slot == &request->field) {                                                                 \
        return true;                                                                               \
    }
    HTTP_LIST_HEADERS(X)
#undef X
    return false;
}

/* One header line, without its CR LF. False: not a header, or one of ours repeated. */
static bool read_header(struct head *head, const char *line, const char *end, bool *ret_framing)
{
    const char *colon = line;
    while (is_token(*colon)) { /* the CR behind the line is none */
        colon++;
    }
    if (colon == line || *colon != ':') {
        return false;
    }
    struct span *slot = header_slot(head, line, (size_t)(colon - line), ret_framing);
    if (slot == NULL) {
        return true;
    }
    const char *value = colon + 1;
    while (value < end && (*value == ' ' || *value == '\t')) {
        value++;
    }
    while (value < end && (end[-1] == ' ' || end[-1] == '\t')) {
        end--;
    }
    bool first = slot->at == NULL;
    bool list = is_list(&head->parsed->request, slot);
    *slot = (struct span){value, first || !list ? (size_t)(end - value) : 0};
    return first || list;
}

static int on_url(llhttp_t *llhttp, const char *at, size_t len)
{
    struct head *head = llhttp->data;
    head->refused = head->target.at != NULL;
    head->target = (struct span){at, len};
    return head->refused ? HPE_USER : 0;
}

static int on_headers_complete(llhttp_t *llhttp)
{
    struct head *head = llhttp->data;
    head->complete = true;
    return HPE_PAUSED;
}

static const llhttp_settings_t settings = {
    .on_url = on_url,
    .on_headers_complete = on_headers_complete,
};

/* Reads every header line and lets llhttp see what it has to: HPE_PAUSED at the end is success. */
static llhttp_errno_t run_llhttp(struct head *head, llhttp_t *llhttp, const char *bytes, size_t len)
{
    const char *end = bytes + len - 2; /* the empty line */
    const char *unseen = bytes;        /* what llhttp has not seen begins here */
    const char *line = (const char *)memchr(bytes, '\r', len) + 2;
    while (line < end) {
        const char *next = (const char *)memchr(line, '\r', (size_t)(end - line)) + 2;
        bool framing = false;
        if (!read_header(head, line, next - 2, &framing)) {
            head->refused = true;
            return HPE_USER;
        }
        if (!framing) {
            if (unseen < line) {
                llhttp_errno_t error = llhttp_execute(llhttp, unseen, (size_t)(line - unseen));
                if (error != HPE_OK) {
                    return error;
                }
            }
            unseen = next;
        }
        line = next;
    }
    return llhttp_execute(llhttp, unseen, (size_t)(bytes + len - unseen));
}

/* Why llhttp stopped. An unknown method is a word HTTP might know elsewhere; anything else there is
 * no HTTP. */
static enum refusal llhttp_refusal(llhttp_errno_t error, struct span head)
{
    if (error == HPE_INVALID_VERSION || error == HPE_PAUSED_H2_UPGRADE) {
        return REFUSAL_BAD_VERSION;
    }
    if (error != HPE_INVALID_METHOD) {
        return REFUSAL_BAD_REQUEST;
    }
    size_t word = 0;
    while (word < head.len && is_token(head.at[word])) {
        word++;
    }
    return word > 0 && head.at[word] == ' ' ? REFUSAL_NOT_IMPLEMENTED : REFUSAL_BAD_REQUEST;
}

static enum refusal check_method(uint8_t method, enum http_method *ret_method)
{
    switch (method) {
    case LLHTTP_GET:
        *ret_method = HTTP_GET;
        return REFUSAL_NONE;
    case LLHTTP_HEAD:
        *ret_method = HTTP_HEAD;
        return REFUSAL_NONE;
    case LLHTTP_POST:
        *ret_method = HTTP_POST;
        return REFUSAL_NONE;
    case LLHTTP_PUT:
        *ret_method = HTTP_PUT;
        return REFUSAL_NONE;
    case LLHTTP_DELETE:
        *ret_method = HTTP_DELETE;
        return REFUSAL_NONE;
    case LLHTTP_OPTIONS:
        *ret_method = HTTP_OPTIONS;
        return REFUSAL_NONE;
    default:
        *ret_method = HTTP_OTHER;
        /* From HTTP_SOURCE on they belong to other protocols; CONNECT would make a tunnel. */
        return method == HTTP_CONNECT || method >= HTTP_SOURCE ? REFUSAL_NOT_IMPLEMENTED
                                                               : REFUSAL_NONE;
    }
}

/* The target's forms: "/path?query"; "http://host/path?query", of which the path is taken; "*". */
static enum refusal check_target(struct span target, struct http_request *request)
{
    if (target.len > HTTP_LINE_MAX) {
        return REFUSAL_URI_TOO_LONG;
    }
    if (target.len == 0 || memchr(target.at, '#', target.len) != NULL) {
        return REFUSAL_BAD_REQUEST;
    }
    if (span_is(target, "*")) {
        request->path = target;
        return request->method == HTTP_OPTIONS ? REFUSAL_NONE : REFUSAL_BAD_REQUEST;
    }
    if (target.at[0] != '/') {
        size_t scheme = target.len > 7 && name_is(target.at, "http://", 7)    ? 7
                        : target.len > 8 && name_is(target.at, "https://", 8) ? 8
                                                                              : 0;
        size_t end = scheme;
        while (end < target.len && target.at[end] != '/' && target.at[end] != '?') {
            if (target.at[end] == '@') {
                return REFUSAL_BAD_REQUEST;
            }
            end++;
        }
        if (scheme == 0 || end == scheme) {
            return REFUSAL_BAD_REQUEST;
        }
        target = (struct span){target.at + end, target.len - end};
    }
    const char *mark = target.len == 0 ? NULL : memchr(target.at, '?', target.len);
    request->path = target;
    if (mark != NULL) {
        request->path.len = (size_t)(mark - target.at);
        request->query = (struct span){mark + 1, target.len - request->path.len - 1};
    }
    if (request->path.len == 0) {
        request->path = span_of("/");
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

/* How long the body is: by one of the two framing headers, never by both, and never guessed. */
static enum refusal check_framing(const struct head *head, const llhttp_t *llhttp,
                                  struct http_progress *ret_progress)
{
    struct span length = head->content_length;
    struct span coding = head->transfer_encoding;
    if (coding.at != NULL) {
        if (length.at != NULL || head->parsed->version_10) {
            return REFUSAL_BAD_REQUEST;
        }
        if (!span_equal_nocase(coding, span_of("chunked"))) {
            return coding.len == 0 ? REFUSAL_BAD_REQUEST : REFUSAL_NOT_IMPLEMENTED;
        }
        if ((llhttp->flags & F_CHUNKED) == 0) {
            return REFUSAL_BAD_REQUEST;
        }
        ret_progress->phase = HTTP_PHASE_CHUNKS;
        return REFUSAL_NONE;
    }
    uint64_t value = 0;
    for (size_t i = 0; i < length.len; i++) {
        if (length.at[i] < '0' || length.at[i] > '9' || value > UINT64_MAX / 10 - 1) {
            return REFUSAL_BAD_REQUEST;
        }
        value = value * 10 + (uint64_t)(length.at[i] - '0');
    }
    if (value != llhttp->content_length || (length.at != NULL && length.len == 0)) {
        return REFUSAL_BAD_REQUEST;
    }
    if (value > HTTP_BODY_MAX) {
        return REFUSAL_TOO_LARGE;
    }
    ret_progress->body_len = (uint32_t)value;
    ret_progress->phase = HTTP_PHASE_BODY;
    return REFUSAL_NONE;
}

/* Judges a complete head. On REFUSAL_NONE the parsed request lacks its body only. */
static enum refusal parse_head(const char *bytes, size_t len, struct http_progress *ret_progress,
                               struct http_parsed *ret_parsed)
{
    struct head head = {.parsed = ret_parsed};
    struct http_request *request = &ret_parsed->request;
    llhttp_t llhttp;
    memset(request, 0, sizeof(*request));
    llhttp_init(&llhttp, HTTP_REQUEST, &settings);
    llhttp.data = &head;
    llhttp_errno_t error = run_llhttp(&head, &llhttp, bytes, len);
    enum refusal method_refusal = check_method(llhttp.method, &request->method);
    if (head.refused) {
        return REFUSAL_BAD_REQUEST;
    }
    if (error != HPE_PAUSED || !head.complete) {
        return llhttp_refusal(error, (struct span){bytes, len});
    }
    if (llhttp_get_error_pos(&llhttp) != bytes + len || llhttp.http_major != 1) {
        return REFUSAL_BAD_REQUEST;
    }
    if (method_refusal != REFUSAL_NONE) {
        return method_refusal;
    }
    ret_parsed->version_10 = llhttp.http_minor == 0;
    ret_parsed->keep_alive =
        (llhttp.flags & F_CONNECTION_CLOSE) == 0 &&
        (!ret_parsed->version_10 || (llhttp.flags & F_CONNECTION_KEEP_ALIVE) != 0);
    enum refusal refusal = check_target(head.target, request);
    if (refusal == REFUSAL_NONE) {
        refusal = check_host(request->host, ret_parsed->version_10);
    }
    if (refusal == REFUSAL_NONE) {
        refusal = check_framing(&head, &llhttp, ret_progress);
    }
    if (refusal == REFUSAL_NONE && request->expect.at != NULL && !ret_parsed->version_10 &&
        !span_equal_nocase(request->expect, span_of("100-continue"))) {
        refusal = REFUSAL_EXPECTATION;
    }
    return refusal;
}

/* --- Chunks ----------------------------------------------------------------------------------- */

static int hex_value(char c)
{
    if (c >= '0' && c <= '9') {
        return c - '0';
    }
    c |= 0x20;
    return c >= 'a' && c <= 'f' ? c - 'a' + 10 : -1;
}

/* Reads "SIZE[;extensions]\r\n". DONE: *ret_size and the line's length. */
static enum http_step read_chunk_line(const char *at, size_t len, uint32_t *ret_size,
                                      size_t *ret_len)
{
    uint32_t size = 0;
    size_t digits = 0;
    while (digits < len && digits <= 8 && hex_value(at[digits]) >= 0) {
        size = size << 4 | (uint32_t)hex_value(at[digits]);
        digits++;
    }
    if (digits == len && digits <= 8) {
        return HTTP_STEP_MORE;
    }
    if (digits == 0 || digits > 8 || (at[digits] != ';' && at[digits] != '\r')) {
        return HTTP_STEP_REFUSED;
    }
    size_t end = find_control(at, digits, len);
    while (end < len && at[end] == '\t') {
        end = find_control(at, end + 1, len);
    }
    if (end > HTTP_CHUNK_LINE_MAX) {
        return HTTP_STEP_REFUSED;
    }
    if (end == len || (end + 1 == len && at[end] == '\r')) {
        return HTTP_STEP_MORE;
    }
    if (at[end] != '\r' || at[end + 1] != '\n') {
        return HTTP_STEP_REFUSED;
    }
    *ret_size = size;
    *ret_len = end + 2;
    return HTTP_STEP_DONE;
}

/* One piece of chunk framing or data from bytes[*from..len). DONE: there may be another one. */
static enum http_step decode_chunk(struct http_progress *p, char *bytes, size_t *from, size_t len,
                                   enum refusal *ret_refusal)
{
    size_t rest = len - *from;
    *ret_refusal = REFUSAL_BAD_REQUEST;
    if (p->chunk == HTTP_CHUNK_DATA) {
        size_t n = rest < p->chunk_left ? rest : p->chunk_left;
        memmove(bytes + p->head_len + p->body_len, bytes + *from, n);
        p->body_len += (uint32_t)n;
        p->chunk_left -= (uint32_t)n;
        *from += n;
        if (p->chunk_left > 0) {
            return HTTP_STEP_MORE;
        }
        p->chunk = HTTP_CHUNK_END;
        return HTTP_STEP_DONE;
    }
    size_t framing = 2;
    if (p->chunk == HTTP_CHUNK_END) {
        if (rest < 2) {
            return rest == 1 && bytes[*from] != '\r' ? HTTP_STEP_REFUSED : HTTP_STEP_MORE;
        }
        if (memcmp(bytes + *from, "\r\n", 2) != 0) {
            return HTTP_STEP_REFUSED;
        }
        p->chunk = HTTP_CHUNK_SIZE;
    } else {
        uint32_t size = 0;
        enum http_step step = read_chunk_line(bytes + *from, rest, &size, &framing);
        if (step != HTTP_STEP_DONE) {
            return step;
        }
        if (size > HTTP_BODY_MAX - p->body_len) {
            *ret_refusal = REFUSAL_TOO_LARGE;
            return HTTP_STEP_REFUSED;
        }
        p->chunk = HTTP_CHUNK_DATA;
        p->chunk_left = size;
        if (size == 0) {
            p->phase = HTTP_PHASE_TRAILERS;
            p->scanned = p->line = p->lines = 0;
        }
    }
    *from += framing;
    p->overhead += (uint32_t)framing;
    if (p->overhead > HTTP_BODY_MAX) {
        *ret_refusal = REFUSAL_TOO_LARGE;
        return HTTP_STEP_REFUSED;
    }
    return HTTP_STEP_DONE;
}

/* Decodes what there is and closes the gap behind it; then trailers, which are read and dropped. */
static enum http_step decode_body(struct http_progress *p, char *bytes, size_t *len,
                                  struct http_parsed *ret_parsed)
{
    if (p->phase == HTTP_PHASE_CHUNKS) {
        size_t from = (size_t)p->head_len + p->body_len;
        enum http_step step = HTTP_STEP_DONE;
        while (step == HTTP_STEP_DONE && p->phase == HTTP_PHASE_CHUNKS) {
            step = decode_chunk(p, bytes, &from, *len, &ret_parsed->refusal);
        }
        if (step == HTTP_STEP_REFUSED) {
            return step;
        }
        size_t to = (size_t)p->head_len + p->body_len;
        memmove(bytes + to, bytes + from, *len - from);
        *len -= from - to;
        if (step == HTTP_STEP_MORE) {
            return step;
        }
    }
    size_t base = (size_t)p->head_len + p->body_len;
    uint32_t trailers = 0;
    enum http_step step = scan_lines(p, bytes + base, *len - base, &ret_parsed->refusal, &trailers);
    ret_parsed->consumed = base + trailers;
    return step;
}

/* --- One step --------------------------------------------------------------------------------- */

static enum http_step skip_blank(struct http_progress *p, const char *bytes, size_t len,
                                 struct http_parsed *ret_parsed)
{
    if (len == 1) {
        return HTTP_STEP_MORE;
    }
    ret_parsed->refusal = REFUSAL_BAD_REQUEST;
    if (bytes[1] != '\n' || p->blanks >= HTTP_BLANK_LINES_MAX) {
        return HTTP_STEP_REFUSED;
    }
    p->blanks++;
    ret_parsed->consumed = 2;
    return HTTP_STEP_BLANK;
}

enum http_step http_parser_step(struct http_progress *p, char *bytes, size_t *len,
                                struct http_parsed *ret_parsed)
{
    bool parsed = false;
    enum http_step step;
    if (*len == 0) {
        return HTTP_STEP_MORE;
    }
    if (p->phase == HTTP_PHASE_HEAD) {
        ret_parsed->request.method = HTTP_OTHER;
        if (bytes[0] == '\r') {
            return skip_blank(p, bytes, *len, ret_parsed);
        }
        uint32_t head_len = 0;
        step = scan_lines(p, bytes, *len, &ret_parsed->refusal, &head_len);
        if (step != HTTP_STEP_DONE) {
            return step;
        }
        ret_parsed->refusal = parse_head(bytes, head_len, p, ret_parsed);
        if (ret_parsed->refusal != REFUSAL_NONE) {
            return HTTP_STEP_REFUSED;
        }
        parsed = true;
        p->head_len = head_len;
        p->wants_continue =
            ret_parsed->request.expect.at != NULL && !ret_parsed->version_10 && *len == head_len;
    }
    if (p->phase == HTTP_PHASE_BODY) {
        ret_parsed->consumed = (size_t)p->head_len + p->body_len;
        step = *len < ret_parsed->consumed ? HTTP_STEP_MORE : HTTP_STEP_DONE;
    } else {
        step = decode_body(p, bytes, len, ret_parsed);
    }
    if (step == HTTP_STEP_DONE) {
        /* The head was read when it was complete, and since then it may have moved. */
        struct http_progress again;
        if (!parsed && parse_head(bytes, p->head_len, &again, ret_parsed) != REFUSAL_NONE) {
            ret_parsed->refusal = REFUSAL_BAD_REQUEST;
            return HTTP_STEP_REFUSED;
        }
        ret_parsed->request.body = (struct span){bytes + p->head_len, p->body_len};
    }
    return step;
}
