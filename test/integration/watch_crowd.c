/*
 * Many buyers who watch their orders by server-sent events, for watchlib.py: one process, one
 * connection for each, as many as its files allow. Other processes change the orders.
 *
 *   watch_crowd FILE SOURCE PORT OTHER EVERY PAY_MS
 *
 * FILE has a line `ORDER TOKEN` for each watcher. They connect from the address SOURCE to PORT on
 * loopback. One in EVERY leaves after its first event and comes back with Last-Event-ID at the port
 * OTHER, another one in EVERY does so when it has heard of LOCKED; so both ports serve the same
 * shop. It prints
 *
 *   watching N           all N have a stream and have been shown what there is
 *   told ORDER VERSION STATUS LATE_MS     an event; LATE_MS: after the ledger's commit of LOCKED
 *                        (pay_by_ms - PAY_MS), or after the deadline for EXPIRED; else 0
 *   wrong TEXT           an id that did not grow, a state that went back, another order, an end
 *                        before the final state, words after it
 *   done REFUSED RETURNED    every stream was ended by its server after a final state
 *
 * What was refused with 503 or lost before its first byte is tried again and counted.
 */
#include <arpa/inet.h>
#include <errno.h>
#include <netinet/in.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <time.h>
#include <unistd.h>

#include "base/bytes.h"
#include "base/check.h"

/* Streams asked for at one time that have not begun: a crowd, but no denial of service. */
#define UNDER_WAY_MAX 256
#define TEXT_MAX 1536
#define ID_BYTES 64
#define AGAIN_MS 200

enum stage { STAGE_OUT, STAGE_ASKED, STAGE_STREAM, STAGE_DONE };
/* In the order they may be told in; whatever is at the end is final. */
enum told { ANSWER_NONE, TOLD_QUEUED, TOLD_LOCKED, TOLD_FINAL };

struct watcher {
    char order[ID_BYTES + 1];
    char *token;
    int fd;
    enum stage stage;
    enum told told;
    bool watches; /* was counted as watching */
    bool comes_back_queued, comes_back_locked;
    bool elsewhere; /* at the other port */
    uint64_t version;
    int64_t again_ms;
    size_t len;
    char text[TEXT_MAX];
};

static struct {
    struct watcher *watchers;
    size_t count, out, watching, done, under_way, refused, returned;
    size_t next; /* where to look for one that is out */
    struct sockaddr_in source, worker, other;
    int64_t pay_ms;
    int epoll;
} crowd;

static int64_t now_ms(void)
{
    struct timespec now;
    CHECK(clock_gettime(CLOCK_REALTIME, &now) == 0);
    return (int64_t)now.tv_sec * 1000 + now.tv_nsec / 1000000;
}

static void give_up(const char *what)
{
    (void)fprintf(stderr, "watch_crowd: %s: %s\n", what, strerror(errno));
    exit(1);
}

static void wrong(const struct watcher *w, const char *what, const char *text)
{
    char line[301];
    (void)snprintf(line, sizeof(line), "%s", text);
    for (char *at = line; *at != '\0'; at++) {
        *at = *at == '\n' || *at == '\r' ? '|' : *at;
    }
    (void)printf("wrong %s: %s %s\n", w->order, what, line);
}

/* ---- connections ---- */

static void leave(struct watcher *w, enum stage stage)
{
    if (w->stage == STAGE_ASKED) {
        crowd.under_way--;
    }
    if (w->fd >= 0) {
        (void)close(w->fd);
    }
    w->fd = -1;
    w->len = 0;
    w->stage = stage;
    crowd.out += stage == STAGE_OUT;
}

static void try_later(struct watcher *w)
{
    crowd.refused++;
    leave(w, STAGE_OUT);
    w->again_ms = now_ms() + AGAIN_MS;
}

/* A connection takes the request at once: its buffer is empty and larger. */
static void request(struct watcher *w)
{
    char request[1024];
    char last[48] = "";
    if (w->version > 0) {
        (void)snprintf(last, sizeof(last), "Last-Event-ID: %llu\r\n",
                       (unsigned long long)w->version);
    }
    int len = snprintf(request, sizeof(request),
                       "GET /v1/orders/%s/events HTTP/1.1\r\nHost: sluice.test\r\n"
                       "Authorization: Bearer %s\r\nAccept: text/event-stream\r\n%s\r\n",
                       w->order, w->token, last);
    CHECK(len > 0 && (size_t)len < sizeof(request));
    if (send(w->fd, request, (size_t)len, MSG_NOSIGNAL) != len) {
        try_later(w);
    }
}

static void come(struct watcher *w)
{
    const struct sockaddr_in *to = w->elsewhere ? &crowd.other : &crowd.worker;
    w->fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    if (w->fd < 0) {
        give_up("socket");
    }
    w->stage = STAGE_ASKED;
    crowd.out--;
    crowd.under_way++;
    int one = 1;
    /* So that ports are chosen by connect, for the pair of addresses. */
    (void)setsockopt(w->fd, IPPROTO_IP, IP_BIND_ADDRESS_NO_PORT, &one, sizeof(one));
    if (bind(w->fd, (struct sockaddr *)&crowd.source, sizeof(crowd.source)) != 0) {
        give_up("bind");
    }
    if (connect(w->fd, (const struct sockaddr *)to, sizeof(*to)) != 0) {
        try_later(w);
        return;
    }
    struct epoll_event event = {.events = EPOLLIN, .data.ptr = w};
    if (epoll_ctl(crowd.epoll, EPOLL_CTL_ADD, w->fd, &event) != 0) {
        give_up("epoll_ctl");
    }
    request(w);
}

static void come_all(void)
{
    int64_t now = now_ms();
    for (size_t seen = 0; crowd.out > 0 && seen < crowd.count && crowd.under_way < UNDER_WAY_MAX;
         seen++) {
        struct watcher *w = &crowd.watchers[crowd.next];
        crowd.next = (crowd.next + 1) % crowd.count;
        if (w->stage == STAGE_OUT && w->again_ms <= now) {
            come(w);
        }
    }
}

/* ---- events ---- */

/* What follows `name` in the text; NULL where it is not there. */
static const char *value_of(const char *text, const char *name)
{
    const char *at = strstr(text, name);
    return at == NULL ? NULL : at + strlen(name);
}

static enum told told_of(const char *status)
{
    return strncmp(status, "QUEUED", 6) == 0   ? TOLD_QUEUED
           : strncmp(status, "LOCKED", 6) == 0 ? TOLD_LOCKED
                                               : TOLD_FINAL;
}

static void count_watching(struct watcher *w)
{
    if (!w->watches && w->told != ANSWER_NONE && !w->comes_back_queued) {
        w->watches = true;
        if (++crowd.watching == crowd.count) {
            (void)printf("watching %zu\n", crowd.count);
            (void)fflush(stdout);
        }
    }
}

static void come_back(struct watcher *w)
{
    leave(w, STAGE_OUT);
    w->elsewhere = !w->elsewhere;
    crowd.returned++;
}

/* One event; false: this connection is over. */
static bool hear(struct watcher *w, const char *event)
{
    const char *id = value_of(event, "id: ");
    const char *order = value_of(event, "\"order_id\":\"");
    const char *status = value_of(event, "\"status\":\"");
    const char *pay_by = value_of(event, "\"pay_by_ms\":");
    if (strncmp(event, "event: order\n", 13) != 0 || id == NULL || order == NULL ||
        status == NULL || strncmp(order, w->order, strlen(w->order)) != 0) {
        wrong(w, "event", event);
        return true;
    }
    uint64_t version = strtoull(id, NULL, 10);
    enum told told = told_of(status);
    if (version <= w->version || told <= w->told) {
        wrong(w, "came after a newer one or twice", event);
    }
    int64_t late_ms = 0;
    if (pay_by != NULL && *pay_by != 'n') {
        int64_t deadline = (int64_t)strtoll(pay_by, NULL, 10);
        late_ms = told == TOLD_LOCKED                  ? now_ms() - (deadline - crowd.pay_ms)
                  : strncmp(status, "EXPIRED", 7) == 0 ? now_ms() - deadline
                                                       : 0;
    }
    (void)printf("told %s %llu %.*s %lld\n", w->order, (unsigned long long)version,
                 (int)strcspn(status, "\""), status, (long long)late_ms);
    w->version = version;
    w->told = told;
    bool *back = told == TOLD_QUEUED ? &w->comes_back_queued : &w->comes_back_locked;
    if (told != TOLD_FINAL && *back) {
        *back = false;
        come_back(w);
        return false;
    }
    return true;
}

/* The head of the answer; false: not whole yet, or this connection is over. */
static bool begin(struct watcher *w)
{
    char *end = strstr(w->text, "\r\n\r\n");
    if (end == NULL) {
        return false;
    }
    if (strncmp(w->text, "HTTP/1.1 200 ", 13) != 0) {
        if (strncmp(w->text, "HTTP/1.1 503 ", 13) != 0) {
            wrong(w, "answer", w->text);
        }
        try_later(w);
        return false;
    }
    w->len -= (size_t)(end + 4 - w->text);
    memmove(w->text, end + 4, w->len + 1);
    w->stage = STAGE_STREAM;
    crowd.under_way--;
    return true;
}

static void read_events(struct watcher *w)
{
    char *end;
    if (w->stage == STAGE_ASKED && !begin(w)) {
        return;
    }
    while ((end = strstr(w->text, "\n\n")) != NULL) {
        end[1] = '\0';
        if (w->text[0] != ':') {
            if (w->told == TOLD_FINAL) {
                wrong(w, "after its end", w->text);
            }
            if (!hear(w, w->text)) {
                return;
            }
        }
        w->len -= (size_t)(end + 2 - w->text);
        memmove(w->text, end + 2, w->len + 1);
    }
    count_watching(w);
}

static void ended(struct watcher *w)
{
    if (w->stage == STAGE_ASKED) {
        try_later(w);
    } else if (w->told != TOLD_FINAL) {
        wrong(w, "the stream ended before the order did", "");
        leave(w, STAGE_OUT);
    } else {
        if (w->len > 0) {
            wrong(w, "cut off", w->text);
        }
        leave(w, STAGE_DONE);
        crowd.done++;
    }
}

static void readable(struct watcher *w)
{
    ssize_t n = recv(w->fd, w->text + w->len, TEXT_MAX - 1 - w->len, MSG_DONTWAIT);
    if (n < 0 && (errno == EAGAIN || errno == EINTR)) {
        return;
    }
    if (n <= 0) {
        ended(w);
        return;
    }
    w->len += (size_t)n;
    w->text[w->len] = '\0';
    read_events(w);
    if (w->fd >= 0 && w->len == TEXT_MAX - 1) {
        wrong(w, "too long", w->text);
        leave(w, STAGE_OUT);
    }
}

/* ---- the command ---- */

static void read_watchers(const char *path, size_t every)
{
    FILE *file = fopen(path, "re");
    char order[ID_BYTES + 1];
    char token[512];
    if (file == NULL) {
        give_up(path);
    }
    size_t room = 0;
    while (fscanf(file, "%64s %511s", order, token) == 2) {
        if (crowd.count == room) {
            room = room == 0 ? 1024 : room * 2;
            crowd.watchers = realloc(crowd.watchers, room * sizeof(*crowd.watchers));
            CHECK(crowd.watchers != NULL);
        }
        struct watcher *w = &crowd.watchers[crowd.count];
        *w = (struct watcher){.fd = -1,
                              .token = strdup(token),
                              .comes_back_queued = crowd.count % every == 0,
                              .comes_back_locked = crowd.count % every == 1};
        memcpy(w->order, order, sizeof(order));
        crowd.count++;
        crowd.out++;
    }
    (void)fclose(file);
}

static struct sockaddr_in address_of(const char *host, const char *port)
{
    struct sockaddr_in address = {.sin_family = AF_INET};
    uint64_t number = 0;
    if (inet_pton(AF_INET, host, &address.sin_addr) != 1 ||
        span_parse_u64(span_of(port), UINT16_MAX, &number) != 0) {
        errno = EINVAL;
        give_up(host);
    }
    address.sin_port = htons((uint16_t)number);
    return address;
}

int main(int argc, char **argv)
{
    if (argc != 7) {
        (void)fprintf(stderr, "usage: watch_crowd FILE SOURCE PORT OTHER EVERY PAY_MS\n");
        return 2;
    }
    struct rlimit files;
    CHECK(getrlimit(RLIMIT_NOFILE, &files) == 0);
    files.rlim_cur = files.rlim_max;
    (void)setrlimit(RLIMIT_NOFILE, &files);
    read_watchers(argv[1], strtoul(argv[5], NULL, 10));
    crowd.source = address_of(argv[2], "0");
    crowd.worker = address_of("127.0.0.1", argv[3]);
    crowd.other = address_of("127.0.0.1", argv[4]);
    crowd.pay_ms = strtoll(argv[6], NULL, 10);
    crowd.epoll = epoll_create1(EPOLL_CLOEXEC);
    while (crowd.done < crowd.count) {
        struct epoll_event events[256];
        come_all();
        int n = epoll_wait(crowd.epoll, events, 256, 50);
        for (int i = 0; i < n; i++) {
            struct watcher *w = events[i].data.ptr;
            if (w->fd >= 0) {
                readable(w);
            }
        }
        (void)fflush(stdout); /* who listens waits for the last of them */
    }
    (void)printf("done %zu %zu\n", crowd.refused, crowd.returned);
    return 0;
}
