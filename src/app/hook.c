/*
 * See hook.h. Happy path: look the host up, connect, send, read the first line of the answer. The
 * socket never blocks. Each wait is divided into steps, between which the end of the server is
 * checked. Only the name lookup can take longer. If there are several addresses, each gets its
 * share of the time left, so a silent one does not use up the others' time.
 */
#define _GNU_SOURCE /* strerrordesc_np */
#include "app/hook.h"

#include <errno.h>
#include <netdb.h>
#include <poll.h>
#include <stdio.h>
#include <sys/socket.h>
#include <time.h>
#include <unistd.h>

#include "base/err.h"
#include "base/url.h"

#define STEP_MS 100
#define HEAD_MAX 2048
#define LINE_MAX_BYTES 512

int hook_parse(const char *url, struct hook *ret_hook)
{
    static const char scheme[] = "http://";
    struct hook hook = {.path = "/"};
    uint16_t port = 0;
    if (strncmp(url, scheme, sizeof(scheme) - 1) != 0 || strpbrk(url, " \"<>\\#") != NULL) {
        return ERR_INVALID;
    }
    const char *host = url + sizeof(scheme) - 1;
    const char *path = strchr(host, '/');
    struct span authority = {host, path != NULL ? (size_t)(path - host) : strlen(host)};
    if (memchr(authority.at, '@', authority.len) != NULL ||
        memchr(authority.at, '?', authority.len) != NULL ||
        url_host(authority, 80, hook.host, sizeof(hook.host), &port) != NULL ||
        (path != NULL && strlen(path) >= sizeof(hook.path))) {
        return ERR_INVALID;
    }
    (void)snprintf(hook.port, sizeof(hook.port), "%u", port);
    if (path != NULL) {
        (void)snprintf(hook.path, sizeof(hook.path), "%s", path);
    }
    hook.v6 = strchr(hook.host, ':') != NULL;
    if (ret_hook != NULL) {
        *ret_hook = hook;
    }
    return 0;
}

struct post_call {
    const _Atomic bool *stopping;
    int64_t until_ms;
    int fd;
    char *problem;
    size_t problem_cap;
};

static int64_t now_ms(void)
{
    struct timespec now;
    (void)clock_gettime(CLOCK_MONOTONIC, &now);
    return (int64_t)now.tv_sec * 1000 + now.tv_nsec / 1000000;
}

static int failed(const struct post_call *call, const char *what)
{
    (void)snprintf(call->problem, call->problem_cap, "%s", what);
    return ERR_IO;
}

/* Waits until the socket can be read or written. */
static int wait_for(const struct post_call *call, short events)
{
    for (;;) {
        struct pollfd one = {.fd = call->fd, .events = events};
        if (atomic_load(call->stopping)) {
            return failed(call, "the server stops");
        }
        if (now_ms() >= call->until_ms) {
            return failed(call, "no answer in time");
        }
        int n = poll(&one, 1, STEP_MS);
        if (n > 0) {
            return 0;
        }
        if (n < 0 && errno != EINTR) {
            return failed(call, strerrordesc_np(errno));
        }
    }
}

static int connect_one(struct post_call *call, const struct addrinfo *one)
{
    int number = 0;
    socklen_t len = sizeof(number);
    call->fd = socket(one->ai_family, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
    if (call->fd < 0) {
        return failed(call, strerrordesc_np(errno));
    }
    if (connect(call->fd, one->ai_addr, one->ai_addrlen) == 0) {
        return 0;
    }
    int error = 0;
    number = errno;
    if (number == EINPROGRESS) {
        error = wait_for(call, POLLOUT);
        (void)getsockopt(call->fd, SOL_SOCKET, SO_ERROR, &number, &len);
    }
    if (error == 0 && number != 0) {
        error = failed(call, strerrordesc_np(number));
    }
    if (error != 0) {
        (void)close(call->fd);
        call->fd = -1;
    }
    return error;
}

static int connect_any(struct post_call *call, const struct addrinfo *addresses)
{
    int64_t until_ms = call->until_ms;
    int64_t left = 0;
    int error = failed(call, "it has no address");
    for (const struct addrinfo *one = addresses; one != NULL; one = one->ai_next) {
        left++;
    }
    for (const struct addrinfo *one = addresses; one != NULL && error != 0; one = one->ai_next) {
        int64_t from_ms = now_ms();
        call->until_ms = from_ms + (until_ms - from_ms) / left--;
        error = connect_one(call, one);
    }
    call->until_ms = until_ms;
    return error;
}

static int send_all(const struct post_call *call, struct span bytes)
{
    while (bytes.len > 0) {
        int error = wait_for(call, POLLOUT);
        if (error != 0) {
            return error;
        }
        ssize_t n = send(call->fd, bytes.at, bytes.len, MSG_NOSIGNAL);
        if (n < 0 && errno != EAGAIN && errno != EINTR) {
            return failed(call, strerrordesc_np(errno));
        }
        bytes.at += n > 0 ? n : 0;
        bytes.len -= n > 0 ? (size_t)n : 0;
    }
    return 0;
}

static int read_status(const struct post_call *call)
{
    char line[LINE_MAX_BYTES];
    size_t len = 0;
    while (memchr(line, '\n', len) == NULL) {
        int error = wait_for(call, POLLIN);
        if (error != 0) {
            return error;
        }
        ssize_t n = len < sizeof(line) ? recv(call->fd, line + len, sizeof(line) - len, 0) : 0;
        if (n == 0) {
            return failed(call, "the connection ended without an answer");
        }
        if (n < 0 && errno != EAGAIN && errno != EINTR) {
            return failed(call, strerrordesc_np(errno));
        }
        len += n > 0 ? (size_t)n : 0;
    }
    uint64_t status = 0;
    if (len < 12 || memcmp(line, "HTTP/1.", 7) != 0 || line[8] != ' ' ||
        span_parse_u64((struct span){line + 9, 3}, 599, &status) != 0) {
        return failed(call, "what answers is not HTTP");
    }
    if (status < 200 || status > 299) {
        (void)snprintf(call->problem, call->problem_cap, "status %u", (unsigned)status);
        return ERR_IO;
    }
    return 0;
}

int hook_post_at(const struct hook *hook, const struct addrinfo *addresses, int64_t within_ms,
                 struct span json, const _Atomic bool *stopping, char *ret_problem,
                 size_t problem_cap)
{
    struct post_call call = {.stopping = stopping,
                             .until_ms = now_ms() + within_ms,
                             .fd = -1,
                             .problem = ret_problem,
                             .problem_cap = problem_cap};
    char memory[HEAD_MAX];
    struct out head = out_over(memory, sizeof(memory));
    out_format(&head, "POST %s HTTP/1.1\r\nHost: %s%s%s:%s\r\n", hook->path, hook->v6 ? "[" : "",
               hook->host, hook->v6 ? "]" : "", hook->port);
    if (hook->token[0] != '\0') {
        out_format(&head, "Authorization: Bearer %s\r\n", hook->token);
    }
    out_format(&head,
               "Content-Type: application/json\r\nContent-Length: %zu\r\n"
               "Connection: close\r\n\r\n",
               json.len);
    int error =
        head.overflow ? failed(&call, "its address is too long") : connect_any(&call, addresses);
    if (error == 0) {
        error = send_all(&call, out_span(&head));
    }
    if (error == 0) {
        error = send_all(&call, json);
    }
    if (error == 0) {
        error = read_status(&call);
    }
    if (call.fd >= 0) {
        (void)close(call.fd);
    }
    return error;
}

int hook_post(const struct hook *hook, struct span json, const _Atomic bool *stopping,
              char *ret_problem, size_t problem_cap)
{
    const struct addrinfo hints = {.ai_family = AF_UNSPEC, .ai_socktype = SOCK_STREAM};
    struct addrinfo *found = NULL;
    int64_t from_ms = now_ms();
    if (atomic_load(stopping)) { /* the resolver does not check it */
        (void)snprintf(ret_problem, problem_cap, "the server stops");
        return ERR_IO;
    }
    int looked = getaddrinfo(hook->host, hook->port, &hints, &found);
    if (looked != 0) {
        (void)snprintf(ret_problem, problem_cap, "%s", gai_strerror(looked));
        return ERR_IO;
    }
    int error = hook_post_at(hook, found, HOOK_WITHIN_MS - (now_ms() - from_ms), json, stopping,
                             ret_problem, problem_cap);
    freeaddrinfo(found);
    return error;
}
