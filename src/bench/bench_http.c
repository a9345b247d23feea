/*
 * Reads answers. Happy path: the whole answer is in the buffer, the empty line is found, one pass
 * over the header lines gives the framing, and the body is a slice of the buffer.
 *
 * What can go wrong: an incomplete answer (ERR_AGAIN; the caller keeps the bytes and calls again
 * with more), bytes that are not HTTP (ERR_INVALID; the caller closes). Nothing outside the given
 * bytes is read, and the buffer is changed only when a chunked answer is complete.
 */
#include "bench/bench_http.h"

#include <errno.h>
#include <netdb.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>
#include <sys/time.h>
#include <unistd.h>

#include "base/err.h"

/* More bytes than this without an empty line are not an answer. */
#define HEAD_MAX 65536

struct framing {
    int status;
    bool has_length;
    bool chunked;
    bool closes;
    uint64_t length;
};

static bool header_is(struct span name, const char *expected, size_t len)
{
    return name.len == len && strncasecmp(name.at, expected, len) == 0;
}

static struct span trimmed(const char *at, const char *end)
{
    while (at < end && (*at == ' ' || *at == '\t')) {
        at++;
    }
    while (end > at && (end[-1] == ' ' || end[-1] == '\t' || end[-1] == '\r')) {
        end--;
    }
    return (struct span){at, (size_t)(end - at)};
}

static int header_read(const char *line, const char *line_end, struct framing *framing)
{
    const char *colon = memchr(line, ':', (size_t)(line_end - line));
    if (colon == NULL) {
        return ERR_INVALID;
    }
    struct span name = {line, (size_t)(colon - line)};
    struct span value = trimmed(colon + 1, line_end);
    if (header_is(name, "content-length", 14)) {
        framing->has_length = true;
        return span_parse_u64(value, BENCH_ANSWER_MAX, &framing->length) != 0 ? ERR_INVALID : 0;
    }
    if (header_is(name, "transfer-encoding", 17)) {
        framing->chunked = header_is(value, "chunked", 7);
        return framing->chunked ? 0 : ERR_INVALID;
    }
    if (header_is(name, "connection", 10)) {
        framing->closes = header_is(value, "close", 5);
    }
    return 0;
}

/*
 * Reads the status line and the headers, up to and including the empty line. One pass line by line:
 * a search for the empty line first would read every byte twice.
 */
static int head_read(const char *bytes, size_t len, struct framing *ret_framing, size_t *ret_size)
{
    struct framing framing = {0};
    const char *end = bytes + len;
    const char *line = memchr(bytes, '\n', len);
    if (line == NULL) {
        return len > HEAD_MAX ? ERR_INVALID : ERR_AGAIN;
    }
    if (line - bytes < 13 || memcmp(bytes, "HTTP/1.", 7) != 0 || bytes[8] != ' ') {
        return ERR_INVALID;
    }
    for (int i = 9; i < 12; i++) {
        if (bytes[i] < '0' || bytes[i] > '9') {
            return ERR_INVALID;
        }
        framing.status = framing.status * 10 + (bytes[i] - '0');
    }
    framing.closes = bytes[7] == '0';
    for (line++;;) {
        const char *line_end = memchr(line, '\n', (size_t)(end - line));
        if (line_end == NULL) {
            return len > HEAD_MAX ? ERR_INVALID : ERR_AGAIN;
        }
        if (line_end - line <= 1) {
            *ret_framing = framing;
            *ret_size = (size_t)(line_end + 1 - bytes);
            return 0;
        }
        /* Only headers with these first letters matter; most answers have several others. */
        char first = (char)(*line | 32);
        if (first == 'c' || first == 't') {
            int error = header_read(line, line_end, &framing);
            if (error != 0) {
                return error;
            }
        }
        line = line_end + 1;
    }
}

static int hex_value(char c)
{
    if (c >= '0' && c <= '9') {
        return c - '0';
    }
    c = (char)(c | 32);
    return c >= 'a' && c <= 'f' ? c - 'a' + 10 : -1;
}

/* Reads the size line of a chunk at *at and moves *at behind it. */
static int chunk_size_read(const char *bytes, size_t len, size_t *at, size_t *ret_size)
{
    const char *line_end = memchr(bytes + *at, '\n', len - *at);
    if (line_end == NULL) {
        return len - *at > 256 ? ERR_INVALID : ERR_AGAIN;
    }
    size_t size = 0;
    size_t digits = 0;
    for (const char *c = bytes + *at; hex_value(*c) >= 0; c++) {
        size = size * 16 + (size_t)hex_value(*c);
        if (++digits > 7) {
            return ERR_INVALID;
        }
    }
    if (digits == 0) {
        return ERR_INVALID;
    }
    *at = (size_t)(line_end + 1 - bytes);
    *ret_size = size;
    return 0;
}

/* Walks the chunks; with join set, also moves them together (second pass only). */
static int chunks_walk(char *bytes, size_t len, char *join, size_t *ret_size, size_t *ret_joined)
{
    size_t at = 0;
    size_t joined = 0;
    for (;;) {
        size_t size = 0;
        int error = chunk_size_read(bytes, len, &at, &size);
        if (error != 0) {
            return error;
        }
        if (size == 0) {
            break;
        }
        if (len - at < size + 2) {
            return ERR_AGAIN;
        }
        if (bytes[at + size] != '\r' || bytes[at + size + 1] != '\n') {
            return ERR_INVALID;
        }
        if (join != NULL) {
            memmove(join + joined, bytes + at, size);
        }
        joined += size;
        at += size + 2;
    }
    for (;;) { /* trailers, up to the empty line */
        const char *line_end = memchr(bytes + at, '\n', len - at);
        if (line_end == NULL) {
            return ERR_AGAIN;
        }
        size_t line_len = (size_t)(line_end - (bytes + at));
        at += line_len + 1;
        if (line_len <= 1) {
            break;
        }
    }
    *ret_size = at;
    *ret_joined = joined;
    return 0;
}

static int body_read(char *bytes, size_t len, bool eof, const struct framing *framing,
                     struct bench_answer *ret_answer)
{
    size_t size = 0;
    size_t body = 0;
    if (framing->status == 204 || framing->status == 304) {
        size = body = 0;
    } else if (framing->chunked) {
        int error = chunks_walk(bytes, len, NULL, &size, &body);
        if (error != 0) {
            return error;
        }
        (void)chunks_walk(bytes, len, bytes, &size, &body);
    } else if (framing->has_length) {
        if (len < framing->length) {
            return ERR_AGAIN;
        }
        size = body = framing->length;
    } else {
        if (!eof) {
            return ERR_AGAIN;
        }
        size = body = len;
    }
    *ret_answer = (struct bench_answer){
        .status = framing->status,
        .body = {bytes, body},
        .size = size,
        .closes = framing->closes || (!framing->has_length && !framing->chunked && eof),
    };
    return 0;
}

int bench_answer_read(char *bytes, size_t len, bool eof, struct bench_answer *ret_answer)
{
    size_t at = 0;
    for (;;) {
        struct framing framing;
        size_t head = 0;
        int error = head_read(bytes + at, len - at, &framing, &head);
        if (error != 0) {
            return error;
        }
        at += head;
        if (framing.status < 200) {
            continue;
        }
        error = body_read(bytes + at, len - at, eof, &framing, ret_answer);
        if (error == 0) {
            ret_answer->size += at;
        }
        return error;
    }
}

/* Skips a string that starts at *at (at its quote); returns its bytes as written. */
static int json_string_skip(struct span json, size_t *at, struct span *ret_text)
{
    size_t from = ++*at;
    while (*at < json.len && json.at[*at] != '"') {
        *at += json.at[*at] == '\\' ? 2 : 1;
    }
    if (*at >= json.len) {
        return ERR_INVALID;
    }
    *ret_text = (struct span){json.at + from, *at - from};
    ++*at;
    return 0;
}

/* Skips any value; returns its bytes, those of a string without quotes. */
static int json_value_skip(struct span json, size_t *at, struct span *ret_value)
{
    size_t from = *at;
    if (from >= json.len) {
        return ERR_INVALID;
    }
    if (json.at[from] == '"') {
        return json_string_skip(json, at, ret_value);
    }
    int depth = 0;
    for (; *at < json.len; ++*at) {
        char c = json.at[*at];
        if (c == '"') {
            struct span ignored;
            int error = json_string_skip(json, at, &ignored);
            if (error != 0) {
                return error;
            }
            --*at;
        } else if (c == '{' || c == '[') {
            depth++;
        } else if ((c == '}' || c == ']') && depth > 0) {
            depth--;
        } else if (depth == 0 && (c == ',' || c == '}' || c == ']')) {
            break;
        }
    }
    *ret_value = trimmed(json.at + from, json.at + *at);
    return 0;
}

static void json_space_skip(struct span json, size_t *at)
{
    while (*at < json.len && strchr(" \t\r\n", json.at[*at]) != NULL && json.at[*at] != '\0') {
        ++*at;
    }
}

static int json_find(struct span json, const char *name, struct span *ret_value, bool *ret_quoted)
{
    struct span wanted = span_of(name);
    size_t at = 0;
    json_space_skip(json, &at);
    if (at >= json.len || json.at[at] != '{') {
        return ERR_INVALID;
    }
    for (at++;; at++) {
        struct span key;
        struct span value;
        json_space_skip(json, &at);
        if (at < json.len && json.at[at] == '}') {
            return ERR_NOTFOUND;
        }
        if (at >= json.len || json.at[at] != '"' || json_string_skip(json, &at, &key) != 0) {
            return ERR_INVALID;
        }
        json_space_skip(json, &at);
        if (at >= json.len || json.at[at++] != ':') {
            return ERR_INVALID;
        }
        json_space_skip(json, &at);
        bool quoted = at < json.len && json.at[at] == '"';
        if (json_value_skip(json, &at, &value) != 0) {
            return ERR_INVALID;
        }
        if (span_equal(key, wanted)) {
            *ret_value = value;
            *ret_quoted = quoted;
            return 0;
        }
        json_space_skip(json, &at);
        if (at >= json.len || json.at[at] != ',') {
            return at < json.len && json.at[at] == '}' ? ERR_NOTFOUND : ERR_INVALID;
        }
    }
}

int bench_json_text(struct span json, const char *name, struct span *ret_text)
{
    struct span value;
    bool quoted = false;
    int error = json_find(json, name, &value, &quoted);
    if (error != 0) {
        return error;
    }
    if (!quoted) {
        return ERR_NOTFOUND;
    }
    *ret_text = value;
    return 0;
}

int bench_json_number(struct span json, const char *name, int64_t *ret_number)
{
    struct span value;
    bool quoted = false;
    int error = json_find(json, name, &value, &quoted);
    if (error != 0) {
        return error;
    }
    uint64_t number = 0;
    if (quoted || span_parse_u64(value, INT64_MAX, &number) != 0) {
        return ERR_NOTFOUND;
    }
    *ret_number = (int64_t)number;
    return 0;
}

int bench_target_parse(const char *url, struct bench_target *ret_target)
{
    struct bench_target target = {0};
    if (strncmp(url, "http://", 7) != 0) {
        return ERR_INVALID;
    }
    const char *host = url + 7;
    size_t len = strcspn(host, "/?#");
    if (len == 0 || len >= sizeof(target.host) ||
        (host[len] != '\0' && strcmp(host + len, "/") != 0)) {
        return ERR_INVALID;
    }
    memcpy(target.host, host, len);
    char name[sizeof(target.host)];
    memcpy(name, target.host, sizeof(name));
    const char *port = "80";
    char *colon = strrchr(name, ':');
    if (colon != NULL) {
        *colon = '\0';
        port = colon + 1;
    }
    struct addrinfo hints = {.ai_family = AF_INET, .ai_socktype = SOCK_STREAM};
    struct addrinfo *found = NULL;
    if (getaddrinfo(name, port, &hints, &found) != 0) {
        return ERR_NOTFOUND;
    }
    memcpy(&target.address, found->ai_addr, found->ai_addrlen);
    target.address_len = found->ai_addrlen;
    freeaddrinfo(found);
    *ret_target = target;
    return 0;
}

static int call_send(int fd, const char *bytes, size_t len)
{
    while (len > 0) {
        ssize_t n = send(fd, bytes, len, MSG_NOSIGNAL);
        if (n <= 0) {
            return ERR_IO;
        }
        bytes += n;
        len -= (size_t)n;
    }
    return 0;
}

/* Reads one answer. *buffer grows as needed; the caller frees it. */
static int call_receive(int fd, char **buffer, struct bench_answer *ret_answer)
{
    size_t len = 0;
    size_t cap = 0;
    for (;;) {
        if (cap - len < 65536) {
            cap = cap * 2 + 131072;
            char *grown = cap > 2 * (size_t)BENCH_ANSWER_MAX ? NULL : realloc(*buffer, cap);
            if (grown == NULL) {
                return ERR_NOMEM;
            }
            *buffer = grown;
        }
        ssize_t n = recv(fd, *buffer + len, cap - len - 1, 0);
        if (n < 0) {
            return ERR_IO;
        }
        len += (size_t)n;
        int error = bench_answer_read(*buffer, len, n == 0, ret_answer);
        if (error != ERR_AGAIN) {
            return error;
        }
        if (n == 0) {
            return ERR_IO;
        }
    }
}

int bench_call(const struct bench_target *target, const char *path, const char *bearer,
               int *ret_status, char **ret_body, size_t *ret_body_len)
{
    char request[2048];
    struct out out = out_over(request, sizeof(request));
    out_format(&out, "GET %s HTTP/1.1\r\nHost: %s\r\nConnection: close\r\n", path, target->host);
    if (bearer != NULL) {
        out_format(&out, "Authorization: Bearer %s\r\n", bearer);
    }
    out_lit(&out, "\r\n");
    if (out.overflow) {
        return ERR_INVALID;
    }
    int fd = socket(target->address.ss_family, SOCK_STREAM | SOCK_CLOEXEC, 0);
    if (fd < 0) {
        return ERR_IO;
    }
    struct timeval minute = {.tv_sec = 60};
    (void)setsockopt(fd, SOL_SOCKET, SO_RCVTIMEO, &minute, sizeof(minute));
    char *buffer = NULL;
    struct bench_answer answer;
    int error = ERR_IO;
    if (connect(fd, (const struct sockaddr *)&target->address, target->address_len) == 0) {
        error = call_send(fd, request, out.len);
    }
    if (error == 0) {
        error = call_receive(fd, &buffer, &answer);
    }
    (void)close(fd);
    if (error != 0) {
        free(buffer);
        return error;
    }
    memmove(buffer, answer.body.at, answer.body.len);
    buffer[answer.body.len] = '\0';
    *ret_status = answer.status;
    *ret_body = buffer;
    *ret_body_len = answer.body.len;
    return 0;
}
