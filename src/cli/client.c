/*
 * The HTTP client of the commands. Happy path: connect, send one request with Connection: close,
 * read the answer to its end, parse its JSON.
 *
 * What can go wrong: no server, a broken connection, an answer that is not HTTP or not JSON, a
 * refusal. Each is one line of text for the operator. A server that sends nothing for SILENCE_S
 * seconds (or the caller's limit) counts as down.
 */
#define _GNU_SOURCE /* memmem, strerrordesc_np */
#include "cli/client.h"

#include <errno.h>
#include <netdb.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/time.h>
#include <unistd.h>

#include "base/err.h"

#define SILENCE_S 60
#define ANSWER_MAX (256U << 20)
#define REQUEST_MAX 4096

int client_at(struct client *client, const char *url, char *ret_error, size_t error_cap)
{
    static const char scheme[] = "http://";
    struct client made = {.port = "80"};
    const char *host = url + strlen(scheme);
    bool good = strncmp(url, scheme, strlen(scheme)) == 0;
    if (good) {
        const char *end = host + strcspn(host, "/");
        const char *bracket = host[0] == '[' ? strchr(host, ']') : NULL;
        const char *colon = memchr(bracket != NULL ? bracket : host, ':',
                                   (size_t)(end - (bracket != NULL ? bracket : host)));
        const char *host_end = colon != NULL ? colon : end;
        uint64_t port = 80;
        if (bracket != NULL && bracket + 1 == host_end) {
            host++;
            host_end--;
        }
        size_t len = (size_t)(host_end - host);
        good = len > 0 && len < sizeof(made.host) && (end[0] == '\0' || end[1] == '\0');
        if (good && colon != NULL) {
            struct span text = {colon + 1, (size_t)(end - colon) - 1};
            good = span_parse_u64(text, 65535, &port) == 0;
        }
        if (good) {
            memcpy(made.host, host, len);
            (void)snprintf(made.port, sizeof(made.port), "%u", (unsigned)port);
        }
    }
    if (!good) {
        (void)snprintf(ret_error, error_cap, "--url must be http://HOST:PORT, not %.200s", url);
        return ERR_INVALID;
    }
    *client = made;
    return 0;
}

int client_init(struct client *client, const char *url, const char *data_dir, char *ret_error,
                size_t error_cap)
{
    struct client made;
    int error = client_at(&made, url, ret_error, error_cap);
    if (error == 0) {
        error = secrets_admin_token(data_dir, made.token, ret_error, error_cap);
    }
    if (error == 0) {
        *client = made;
    }
    return error;
}

static int gone(const struct client *client, const char *problem, char *ret_error, size_t cap)
{
    (void)snprintf(ret_error, cap, "%s port %s: %s", client->host, client->port, problem);
    return ERR_IO;
}

/* The error for a server that is not there. */
static int absent(const struct client *client, const char *problem, char *ret_error, size_t cap)
{
    (void)snprintf(ret_error, cap,
                   "%s port %s: %s; is the server running there? --url names another", client->host,
                   client->port, problem);
    return ERR_IO;
}

static int connect_to(const struct client *client, int *ret_fd, char *ret_error, size_t cap)
{
    const struct addrinfo hints = {.ai_family = AF_UNSPEC, .ai_socktype = SOCK_STREAM};
    struct addrinfo *found = NULL;
    int looked = getaddrinfo(client->host, client->port, &hints, &found);
    if (looked != 0) {
        return absent(client, gai_strerror(looked), ret_error, cap);
    }
    int fd = -1;
    for (struct addrinfo *one = found; one != NULL && fd < 0; one = one->ai_next) {
        fd = socket(one->ai_family, SOCK_STREAM | SOCK_CLOEXEC, 0);
        if (fd >= 0 && connect(fd, one->ai_addr, one->ai_addrlen) != 0) {
            int number = errno;
            (void)close(fd);
            errno = number;
            fd = -1;
        }
    }
    int number = errno;
    freeaddrinfo(found);
    if (fd < 0) {
        return absent(client, strerrordesc_np(number), ret_error, cap);
    }
    const struct timeval silence = {.tv_sec =
                                        client->silence_s > 0 ? client->silence_s : SILENCE_S};
    (void)setsockopt(fd, SOL_SOCKET, SO_RCVTIMEO, &silence, sizeof(silence));
    (void)setsockopt(fd, SOL_SOCKET, SO_SNDTIMEO, &silence, sizeof(silence));
    *ret_fd = fd;
    return 0;
}

static int send_all(int fd, struct span bytes)
{
    while (bytes.len > 0) {
        ssize_t n = send(fd, bytes.at, bytes.len, MSG_NOSIGNAL);
        if (n < 0) {
            return ERR_IO;
        }
        bytes.at += n;
        bytes.len -= (size_t)n;
    }
    return 0;
}

/* headers: additional header lines. */
static int request_send(const struct client *client, int fd, const char *method, const char *path,
                        const char *headers, struct span body)
{
    char memory[REQUEST_MAX];
    struct out head = out_over(memory, sizeof(memory));
    bool v6 = strchr(client->host, ':') != NULL;
    out_format(&head, "%s %s HTTP/1.1\r\nHost: %s%s%s:%s\r\n", method, path, v6 ? "[" : "",
               client->host, v6 ? "]" : "", client->port);
    if (client->token[0] != '\0') {
        out_format(&head, "Authorization: Bearer %s\r\n", client->token);
    }
    out_format(&head, "%sConnection: close\r\n", headers);
    if (body.len > 0) {
        out_format(&head, "Content-Type: application/json\r\nContent-Length: %zu\r\n", body.len);
    } else if (strcmp(method, "POST") == 0) {
        out_lit(&head, "Content-Length: 0\r\n");
    }
    out_lit(&head, "\r\n");
    if (head.overflow) {
        return ERR_INVALID;
    }
    int error = send_all(fd, out_span(&head));
    return error == 0 ? send_all(fd, body) : error;
}

/* Reads up to the end of the connection and adds a NUL. The caller frees it. */
static int read_all(int fd, char **ret_bytes, size_t *ret_len)
{
    char *bytes = NULL;
    size_t cap = 0;
    size_t len = 0;
    for (;;) {
        if (len + 1 >= cap) {
            cap = cap == 0 ? 65536 : cap * 2;
            char *more = cap <= ANSWER_MAX ? realloc(bytes, cap) : NULL;
            if (more == NULL) {
                free(bytes);
                return ERR_NOMEM;
            }
            bytes = more;
        }
        ssize_t n = recv(fd, bytes + len, cap - len - 1, 0);
        if (n < 0) {
            free(bytes);
            return ERR_IO;
        }
        if (n == 0) {
            break;
        }
        len += (size_t)n;
    }
    bytes[len] = '\0';
    *ret_bytes = bytes;
    *ret_len = len;
    return 0;
}

/* Splits an answer into status and body. False: not a complete answer. */
static bool answer_split(struct span answer, int *ret_status, struct span *ret_body)
{
    const char *end = memmem(answer.at, answer.len, "\r\n\r\n", 4);
    uint64_t status = 0;
    if (end == NULL || answer.len < 12 || memcmp(answer.at, "HTTP/1.1 ", 9) != 0 ||
        span_parse_u64((struct span){answer.at + 9, 3}, 599, &status) != 0) {
        return false;
    }
    struct span body = {end + 4, answer.len - (size_t)(end - answer.at) - 4};
    for (const char *line = answer.at; line < end;) {
        const char *line_end = memmem(line, (size_t)(end + 2 - line), "\r\n", 2);
        const char *colon = memchr(line, ':', (size_t)(line_end - line));
        if (colon == NULL) {
            line = line_end + 2;
            continue;
        }
        struct span name = {line, (size_t)(colon - line)};
        if (span_equal_nocase(name, span_of("transfer-encoding"))) {
            return false; /* the server never sends one: something else is in between */
        }
        if (span_equal_nocase(name, span_of("content-length"))) {
            const char *value = colon + 1 + strspn(colon + 1, " \t");
            uint64_t length = 0;
            struct span text = {value, (size_t)(line_end - value)};
            if (span_parse_u64(text, ANSWER_MAX, &length) != 0 || length > body.len) {
                return false;
            }
            body.len = (size_t)length;
        }
        line = line_end + 2;
    }
    *ret_status = (int)status;
    *ret_body = body;
    return true;
}

static const char *text_of(json_t *json, const char *key)
{
    const char *text = json_string_value(json_object_get(json, key));
    return text != NULL ? text : "";
}

static int answer_read(const struct client *client, struct span answer, json_t **ret_json,
                       char *ret_error, size_t cap)
{
    int status = 0;
    struct span body;
    if (!answer_split(answer, &status, &body)) {
        return gone(client,
                    answer.len == 0 ? "the connection ended without an answer"
                                    : "the answer is not understood",
                    ret_error, cap);
    }
    json_t *json = NULL;
    if (body.len > 0) {
        json = json_loadb(body.at, body.len, JSON_REJECT_DUPLICATES, NULL);
    }
    if (status >= 200 && status < 300 && (body.len == 0 || json != NULL)) {
        *ret_json = json;
        return 0;
    }
    if (text_of(json, "code")[0] == '\0') {
        json_decref(json);
        (void)snprintf(ret_error, cap, "status %d, and no reason is understood", status);
        return ERR_IO;
    }
    const char *field = text_of(json, "field");
    (void)snprintf(ret_error, cap, "%s: %s%s%s%s", text_of(json, "code"), text_of(json, "detail"),
                   field[0] != '\0' ? " (field " : "", field, field[0] != '\0' ? ")" : "");
    json_decref(json);
    return ERR_INVALID;
}

/* Sends one request and reads the whole answer, which the caller frees. */
static int exchange(const struct client *client, const char *method, const char *path,
                    const char *headers, struct span body, struct span *ret_answer, char *ret_error,
                    size_t error_cap)
{
    int fd = -1;
    int error = connect_to(client, &fd, ret_error, error_cap);
    if (error != 0) {
        return error;
    }
    char *bytes = NULL;
    size_t len = 0;
    /* A refusal may arrive, and the connection end, before the whole body is sent: read anyway. */
    int sent = request_send(client, fd, method, path, headers, body);
    error = read_all(fd, &bytes, &len);
    int number = errno;
    (void)close(fd);
    if (error != 0 || (sent != 0 && len == 0)) {
        free(bytes);
        return gone(client, error == ERR_NOMEM ? "the answer is too long" : strerrordesc_np(number),
                    ret_error, error_cap);
    }
    *ret_answer = (struct span){bytes, len};
    return 0;
}

int client_call(const struct client *client, const char *method, const char *path, struct span body,
                json_t **ret_json, char *ret_error, size_t error_cap)
{
    struct span answer;
    int error = exchange(client, method, path, "", body, &answer, ret_error, error_cap);
    if (error == 0) {
        error = answer_read(client, answer, ret_json, ret_error, error_cap);
        free((char *)answer.at);
    }
    return error;
}

/* Copies the value of a header, cut to fit. */
static void header_copy(struct span answer, const char *name, char *ret_value, size_t cap)
{
    char mark[64];
    int len = snprintf(mark, sizeof(mark), "\r\n%s: ", name);
    const char *end = memmem(answer.at, answer.len, "\r\n\r\n", 4);
    const char *at = memmem(answer.at, (size_t)(end - answer.at), mark, (size_t)len);
    ret_value[0] = '\0';
    if (at != NULL) {
        at += len;
        (void)snprintf(ret_value, cap, "%.*s", (int)strcspn(at, "\r"), at);
    }
}

int client_fetch(const struct client *client, const char *path, const char *headers,
                 struct client_file *ret_file, char *ret_error, size_t error_cap)
{
    struct client_file file = {0};
    struct span answer;
    char coding[16];
    int error = exchange(client, "GET", path, headers, (struct span){NULL, 0}, &answer, ret_error,
                         error_cap);
    if (error != 0) {
        return error;
    }
    file.memory = (char *)answer.at;
    if (!answer_split(answer, &file.status, &file.body)) {
        free(file.memory);
        return gone(client, "what answers is not a Sluice server", ret_error, error_cap);
    }
    header_copy(answer, "ETag", file.etag, sizeof(file.etag));
    header_copy(answer, "Content-Encoding", coding, sizeof(coding));
    file.packed = strcmp(coding, "gzip") == 0;
    *ret_file = file;
    return 0;
}
