/*
 * epoll. Happy path of an iteration: one epoll_wait, and for each ready connection one recv and one
 * send by the caller. The interest set is changed only when needed, so an answered request costs no
 * epoll_ctl.
 *
 * epoll is used edge-triggered, which saves the kernel one check of every socket per iteration. The
 * port promises level-triggered events, so a connection that was reported and not fully read
 * (slot.left) is armed again; that puts it behind the others in the kernel's queue. A short read
 * empties a socket, unless the end of the stream was also seen. A connection that was reported
 * writable and took all that was written is armed again, too.
 *
 * What can go wrong: no free slot, or no file descriptor left. Then the listening socket is not
 * watched until a connection closes (or, without descriptors, for ACCEPT_PAUSE_US), and new
 * connections wait in the kernel's backlog. A connection whose descriptor is among the last ones
 * (net_epoll_files) counts as one without: it is closed at once. A failed connection is ERR_IO for
 * its user, who closes it.
 *
 * Invariant: a connection number is either in use with an open descriptor or on the free list. The
 * last one freed is used again first, so few connections touch little memory.
 */
#define _GNU_SOURCE /* accept4, epoll_pwait2 */
#include "backend/posix/net_epoll.h"

#include <arpa/inet.h>
#include <errno.h>
#include <limits.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/eventfd.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <time.h>
#include <unistd.h>

#include "base/bytes.h"
#include "base/check.h"
#include "base/err.h"
#include "base/index_pool.h"
#include "base/limits.h"

/* Events read from the kernel at once; more wait for the next iteration. */
#define EVENTS_MAX 256
/* Connections accepted per iteration, so that a storm of new ones does not delay the others. */
#define ACCEPTS_MAX 64
/* Pause after the process or the system ran out of descriptors and no connection of ours closes. */
#define ACCEPT_PAUSE_US 100000
#define BACKLOG 4096
#define PIECES_MAX 8

#define SLOT_NONE UINT32_MAX
/* Values in epoll's data besides connection numbers. */
#define MARK_LISTEN (SLOT_NONE - 1)
#define MARK_WAKE (SLOT_NONE - 2)
#define MARK_OTHER (SLOT_NONE - 3)

struct net_listener {
    uint32_t loops;
    uint16_t port;
    int claim;              /* -1: none, the system chose the port */
    int sockets[LOOPS_MAX]; /* -1: taken by a loop */
};

struct slot {
    int fd;        /* -1: free */
    uint32_t next; /* link: of the free ones, or of the fresh ones */
    uint8_t watch;
    uint8_t left; /* LEFT_*: reported and not taken yet */
    struct net_address peer;
};

enum { LEFT_READ = 1, LEFT_END = 2, LEFT_HUNG = 4, LEFT_WRITE = 8 };

struct net_epoll {
    struct net net;
    int epoll;
    int wake;
    int listen;     /* -1: closed */
    bool listening; /* watched by epoll */
    bool starved;   /* not listening for want of descriptors, until paused_until_us */
    int64_t paused_until_us;
    int files; /* connections have descriptors below this number */
    struct index_pool pool;
    uint32_t fresh; /* chain: accepted while the listening socket was let go, not reported yet */
    struct slot *slots;
    uint32_t reported_count; /* connections reported by the last poll */
    uint32_t reported[EVENTS_MAX];
    struct epoll_event events[EVENTS_MAX];
};

static struct net_epoll *self(struct net *net)
{
    return (struct net_epoll *)(void *)net;
}

/* --- The listener ----------------------------------------------------------------------------- */

static int parse_address(const char *text, struct sockaddr_storage *ret_address, socklen_t *ret_len)
{
    char host[INET6_ADDRSTRLEN];
    const char *colon = strrchr(text, ':');
    uint64_t port = 0;
    if (colon == NULL || span_parse_u64(span_of(colon + 1), 65535, &port) != 0) {
        return ERR_INVALID;
    }
    bool six = *text == '[';
    const char *from = text + six;
    size_t len = (size_t)(colon - from);
    if (six && (colon - text < 2 || colon[-1] != ']')) {
        return ERR_INVALID;
    }
    len -= six;
    if (len == 0 || len >= sizeof(host)) {
        return ERR_INVALID;
    }
    memcpy(host, from, len);
    host[len] = '\0';
    memset(ret_address, 0, sizeof(*ret_address));
    if (six) {
        struct sockaddr_in6 *in6 = (struct sockaddr_in6 *)ret_address;
        in6->sin6_family = AF_INET6;
        in6->sin6_port = htons((uint16_t)port);
        *ret_len = sizeof(*in6);
        return inet_pton(AF_INET6, host, &in6->sin6_addr) == 1 ? 0 : ERR_INVALID;
    }
    struct sockaddr_in *in4 = (struct sockaddr_in *)ret_address;
    in4->sin_family = AF_INET;
    in4->sin_port = htons((uint16_t)port);
    *ret_len = sizeof(*in4);
    return inet_pton(AF_INET, host, &in4->sin_addr) == 1 ? 0 : ERR_INVALID;
}

static int err_of_bind(void)
{
    switch (errno) {
    case EADDRINUSE:
        return ERR_BUSY;
    case EADDRNOTAVAIL:
        return ERR_NOTFOUND;
    default:
        return ERR_IO;
    }
}

/*
 * Limits the kernel memory for a peer that does not read: the send buffer (the kernel doubles it,
 * for its own overhead; its default limit would be megabytes), what of it was not sent yet, and the
 * time it is kept, also after the connection was closed. Accepted sockets inherit all three from the
 * listening one. A peer that reads gets up to the send buffer each round trip.
 */
#define SEND_BUFFER_BYTES (64 * 1024)
#define UNSENT_BYTES (16 * 1024)
#define UNREAD_MS 30000

static bool bound_unread(int fd)
{
    int bytes = SEND_BUFFER_BYTES;
    int unsent = UNSENT_BYTES;
    unsigned ms = UNREAD_MS;
    return setsockopt(fd, SOL_SOCKET, SO_SNDBUF, &bytes, sizeof(bytes)) == 0 &&
           setsockopt(fd, IPPROTO_TCP, TCP_NOTSENT_LOWAT, &unsent, sizeof(unsent)) == 0 &&
           setsockopt(fd, IPPROTO_TCP, TCP_USER_TIMEOUT, &ms, sizeof(ms)) == 0;
}

/* A socket bound to the address. shared: other sockets with the same option may bind it, too. */
static int bind_socket(const struct sockaddr_storage *address, socklen_t len, bool shared,
                       int *ret_fd)
{
    int one = 1;
    int fd = socket(address->ss_family, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0);
    if (fd < 0) {
        return ERR_IO;
    }
    /* SO_REUSEADDR: connections of an earlier server in TIME_WAIT do not matter. */
    if (setsockopt(fd, SOL_SOCKET, SO_REUSEADDR, &one, sizeof(one)) != 0 ||
        (shared && setsockopt(fd, SOL_SOCKET, SO_REUSEPORT, &one, sizeof(one)) != 0) ||
        !bound_unread(fd)) {
        (void)close(fd);
        return ERR_IO;
    }
    if (bind(fd, (const struct sockaddr *)address, len) != 0) {
        int err = err_of_bind();
        (void)close(fd);
        return err;
    }
    *ret_fd = fd;
    return 0;
}

static int port_of(int fd, struct sockaddr_storage *address, uint16_t *ret_port)
{
    socklen_t len = sizeof(*address);
    if (getsockname(fd, (struct sockaddr *)address, &len) != 0) {
        return ERR_IO;
    }
    /* The port has the same offset in both families. */
    *ret_port = ntohs(((struct sockaddr_in *)address)->sin_port);
    return 0;
}

/*
 * Takes an abstract socket name for the address, which the kernel frees when the process ends. Only
 * its holder may open sockets on the address. Binding the port once without SO_REUSEPORT detects
 * other programs; but two Sluice servers that start at the same instant would both pass that test.
 */
static int claim(const char *address_port, int *ret_fd)
{
    struct sockaddr_un name = {.sun_family = AF_UNIX};
    int len = snprintf(name.sun_path + 1, sizeof(name.sun_path) - 1, "sluice/%s", address_port);
    int fd = socket(AF_UNIX, SOCK_DGRAM | SOCK_CLOEXEC, 0);
    if (fd < 0) {
        return ERR_IO;
    }
    socklen_t size = (socklen_t)(offsetof(struct sockaddr_un, sun_path) + 1 + (size_t)len);
    if (bind(fd, (const struct sockaddr *)&name, size) != 0) {
        int error = errno == EADDRINUSE ? ERR_BUSY : ERR_IO;
        (void)close(fd);
        return error;
    }
    *ret_fd = fd;
    return 0;
}

static int open_sockets(struct net_listener *listener, struct sockaddr_storage *address,
                        socklen_t len)
{
    int probe;
    int err = bind_socket(address, len, false, &probe);
    if (err == 0) {
        err = port_of(probe, address, &listener->port); /* from here on the port is known */
        (void)close(probe);
    }
    for (uint32_t i = 0; err == 0 && i < listener->loops; i++) {
        err = bind_socket(address, len, true, &listener->sockets[i]);
    }
    for (uint32_t i = 0; err == 0 && i < listener->loops; i++) {
        err = listen(listener->sockets[i], BACKLOG) == 0 ? 0 : err_of_bind();
    }
    return err;
}

int net_epoll_listen(const char *address_port, uint32_t loops, struct net_listener **ret_listener)
{
    struct sockaddr_storage address;
    socklen_t len = 0;
    CHECK(loops > 0 && loops <= LOOPS_MAX);
    int err = parse_address(address_port, &address, &len);
    if (err != 0) {
        return err;
    }
    struct net_listener *listener = calloc(1, sizeof(*listener));
    if (listener == NULL) {
        return ERR_NOMEM;
    }
    listener->loops = loops;
    for (uint32_t i = 0; i < loops; i++) {
        listener->sockets[i] = -1;
    }
    listener->claim = -1;
    err = strcmp(address_port + strlen(address_port) - 2, ":0") == 0
              ? 0
              : claim(address_port, &listener->claim);
    if (err == 0) {
        err = open_sockets(listener, &address, len);
    }
    if (err != 0) {
        int saved = errno;
        net_listener_free(listener);
        errno = saved;
        return err;
    }
    *ret_listener = listener;
    return 0;
}

uint16_t net_listener_port(const struct net_listener *listener)
{
    return listener->port;
}

void net_listener_free(struct net_listener *listener)
{
    if (listener == NULL) {
        return;
    }
    for (uint32_t i = 0; i < listener->loops; i++) {
        if (listener->sockets[i] >= 0) {
            (void)close(listener->sockets[i]);
        }
    }
    if (listener->claim >= 0) {
        (void)close(listener->claim);
    }
    free(listener);
}

/* --- Accepting -------------------------------------------------------------------------------- */

static int epoll_set(struct net_epoll *n, int op, int fd, uint32_t events, uint32_t mark)
{
    struct epoll_event event = {.events = events, .data.u64 = mark};
    return epoll_ctl(n->epoll, op, fd, &event);
}

static uint32_t interest(uint32_t watch)
{
    return ((watch & NET_READABLE) != 0 ? EPOLLIN : 0U) |
           ((watch & NET_WRITABLE) != 0 ? EPOLLOUT : 0U) | EPOLLRDHUP | EPOLLET;
}

static void listen_watch(struct net_epoll *n, bool on)
{
    if (n->listen < 0 || n->listening == on) {
        return;
    }
    if (epoll_set(n, on ? EPOLL_CTL_ADD : EPOLL_CTL_DEL, n->listen, EPOLLIN, MARK_LISTEN) == 0) {
        n->listening = on;
    }
    n->starved = !n->listening && on; /* without a pause: the next poll tries again */
}

static int64_t monotonic_us(void)
{
    struct timespec now;
    CHECK(clock_gettime(CLOCK_MONOTONIC, &now) == 0);
    return (int64_t)now.tv_sec * 1000000 + now.tv_nsec / 1000;
}

/* There is no descriptor for a connection that waits. It would be reported again at once. */
static void pause_accepting(struct net_epoll *n)
{
    listen_watch(n, false);
    n->starved = true;
    n->paused_until_us = monotonic_us() + ACCEPT_PAUSE_US;
}

static void slot_give(struct net_epoll *n, uint32_t number)
{
    n->slots[number].fd = -1;
    index_pool_give(&n->pool, INDEX_LINKS(n->slots, next), number);
}

static struct net_address address_of(const struct sockaddr_storage *from)
{
    struct net_address address = {0};
    if (from->ss_family == AF_INET) {
        address.family = 4;
        memcpy(address.bytes, &((const struct sockaddr_in *)from)->sin_addr, 4);
    } else if (from->ss_family == AF_INET6) {
        const struct in6_addr *in6 = &((const struct sockaddr_in6 *)from)->sin6_addr;
        if (IN6_IS_ADDR_V4MAPPED(in6)) {
            address.family = 4;
            memcpy(address.bytes, in6->s6_addr + 12, 4);
        } else {
            address.family = 6;
            memcpy(address.bytes, in6, 16);
        }
    }
    return address;
}

/* Accepts one connection; SLOT_NONE: none waits, or there is no slot. */
static uint32_t accept_one(struct net_epoll *n)
{
    struct sockaddr_storage from = {.ss_family = AF_UNSPEC};
    int one = 1;
    if (index_pool_full(&n->pool)) {
        listen_watch(n, false);
        return SLOT_NONE;
    }
    int fd;
    do {
        socklen_t len = sizeof(from);
        fd = accept4(n->listen, (struct sockaddr *)&from, &len, SOCK_NONBLOCK | SOCK_CLOEXEC);
    } while (fd < 0 && (errno == EINTR || errno == ECONNABORTED));
    if (fd < 0) {
        if (errno != EAGAIN && errno != EWOULDBLOCK) {
            pause_accepting(n);
        }
        return SLOT_NONE;
    }
    if (fd >= n->files) { /* the journal's next file must find a descriptor */
        (void)close(fd);
        pause_accepting(n);
        return SLOT_NONE;
    }
    uint32_t number = index_pool_take(&n->pool, INDEX_LINKS(n->slots, next));
    (void)setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &one, sizeof(one));
    if (epoll_set(n, EPOLL_CTL_ADD, fd, interest(NET_READABLE), number) != 0) {
        (void)close(fd);
        slot_give(n, number);
        pause_accepting(n);
        return SLOT_NONE;
    }
    n->slots[number] = (struct slot){.fd = fd, .watch = NET_READABLE, .peer = address_of(&from)};
    return number;
}

static size_t accept_some(struct net_epoll *n, struct net_event *ret_events, size_t room)
{
    size_t count = 0;
    size_t most = room < ACCEPTS_MAX ? room : ACCEPTS_MAX;
    while (count < most) {
        uint32_t number = accept_one(n);
        if (number == SLOT_NONE) {
            break;
        }
        ret_events[count++] = (struct net_event){number, NET_ACCEPTED};
    }
    return count;
}

/* --- The operations --------------------------------------------------------------------------- */

static int wait_events(struct net_epoll *n, int max, int64_t timeout_us)
{
    int count;
    if (timeout_us > 0) {
        struct timespec timeout = {timeout_us / 1000000, timeout_us % 1000000 * 1000};
        count = epoll_pwait2(n->epoll, n->events, max, &timeout, NULL);
        if (count < 0 && errno == ENOSYS) {
            int64_t timeout_ms = (timeout_us + 999) / 1000;
            count =
                epoll_wait(n->epoll, n->events, max, timeout_ms < 60000 ? (int)timeout_ms : 60000);
        }
    } else {
        count = epoll_wait(n->epoll, n->events, max, timeout_us == 0 ? 0 : -1);
    }
    CHECK(count >= 0 || errno == EINTR);
    return count < 0 ? 0 : count;
}

/* Connections that were accepted when draining began. */
static size_t report_fresh(struct net_epoll *n, struct net_event *ret_events, size_t max)
{
    size_t count = 0;
    while (count < max && n->fresh != 0) {
        uint32_t number = n->fresh - 1;
        n->fresh = n->slots[number].next;
        ret_events[count++] = (struct net_event){number, NET_ACCEPTED};
    }
    return count;
}

/* Arms the connections of the last poll again that were not fully taken. */
static void arm_left(struct net_epoll *n)
{
    for (uint32_t i = 0; i < n->reported_count; i++) {
        uint32_t number = n->reported[i];
        struct slot *slot = &n->slots[number];
        bool unread = (slot->left & LEFT_READ) != 0 && (slot->watch & NET_READABLE) != 0;
        bool room = (slot->left & LEFT_WRITE) != 0 && (slot->watch & NET_WRITABLE) != 0;
        if (slot->fd >= 0 && (unread || room || (slot->left & LEFT_HUNG) != 0)) {
            CHECK(epoll_set(n, EPOLL_CTL_MOD, slot->fd, interest(slot->watch), number) == 0);
        }
    }
    n->reported_count = 0;
}

static void report(struct net_epoll *n, uint32_t number, uint32_t events,
                   struct net_event *ret_event)
{
    n->slots[number].left = (uint8_t)(((events & EPOLLIN) != 0 ? LEFT_READ : 0) |
                                      ((events & EPOLLOUT) != 0 ? LEFT_WRITE : 0) |
                                      ((events & EPOLLRDHUP) != 0 ? LEFT_END : 0) |
                                      ((events & (EPOLLHUP | EPOLLERR)) != 0 ? LEFT_HUNG : 0));
    n->reported[n->reported_count++] = number;
    uint32_t what = ((events & EPOLLIN) != 0 ? NET_READABLE : 0) |
                    ((events & EPOLLOUT) != 0 ? NET_WRITABLE : 0) |
                    ((events & EPOLLRDHUP) != 0 ? NET_FINISHED : 0) |
                    ((events & (EPOLLHUP | EPOLLERR)) != 0 ? NET_HUNG_UP : 0);
    *ret_event = (struct net_event){number, what};
}

static size_t op_poll(struct net *net, struct net_event *ret_events, size_t max, int64_t timeout_us)
{
    struct net_epoll *n = self(net);
    size_t count = 0;
    if (n->fresh != 0) {
        return report_fresh(n, ret_events, max);
    }
    if (n->starved) {
        int64_t left_us = n->paused_until_us - monotonic_us();
        if (left_us <= 0) {
            n->starved = false;
            listen_watch(n, !index_pool_full(&n->pool));
        } else if (timeout_us < 0 || timeout_us > left_us) {
            timeout_us = left_us;
        }
    }
    arm_left(n);
    int ready = wait_events(n, max < EVENTS_MAX ? (int)max : EVENTS_MAX, timeout_us);
    bool accept = false;
    for (int i = 0; i < ready; i++) {
        uint32_t number = (uint32_t)n->events[i].data.u64;
        if (number == MARK_LISTEN) {
            accept = true;
        } else if (number == MARK_WAKE) {
            uint64_t times;
            (void)!read(n->wake, &times, sizeof(times));
        } else if (number != MARK_OTHER) {
            report(n, number, n->events[i].events, &ret_events[count++]);
        }
    }
    if (accept) {
        count += accept_some(n, ret_events + count, max - count);
    }
    return count;
}

static int fd_of(struct net_epoll *n, uint32_t connection)
{
    CHECK(connection < n->pool.fresh && n->slots[connection].fd >= 0);
    return n->slots[connection].fd;
}

static int64_t op_read(struct net *net, uint32_t connection, void *bytes, size_t len)
{
    struct slot *slot = &self(net)->slots[connection];
    ssize_t n = recv(fd_of(self(net), connection), bytes, len, 0);
    bool emptied = n < 0 || ((size_t)n < len && (slot->left & LEFT_END) == 0);
    if (emptied) {
        slot->left &= (uint8_t)~LEFT_READ;
    }
    if (n >= 0) {
        return n;
    }
    return errno == EAGAIN || errno == EWOULDBLOCK || errno == EINTR ? ERR_AGAIN : ERR_IO;
}

static int64_t op_write(struct net *net, uint32_t connection, const struct net_piece *pieces,
                        size_t count)
{
    struct slot *slot = &self(net)->slots[connection];
    int fd = fd_of(self(net), connection);
    size_t given = 0;
    ssize_t n;
    if (count == 1) {
        given = pieces[0].len;
        n = send(fd, pieces[0].at, pieces[0].len, MSG_NOSIGNAL);
    } else {
        struct iovec vectors[PIECES_MAX];
        CHECK(count <= PIECES_MAX);
        for (size_t i = 0; i < count; i++) {
            vectors[i] = (struct iovec){(void *)(uintptr_t)pieces[i].at, pieces[i].len};
            given += pieces[i].len;
        }
        struct msghdr message = {.msg_iov = vectors, .msg_iovlen = count};
        n = sendmsg(fd, &message, MSG_NOSIGNAL);
    }
    if (n < 0 || (size_t)n < given) {
        slot->left &= (uint8_t)~LEFT_WRITE; /* the kernel reports when there is room again */
    }
    if (n >= 0) {
        return n;
    }
    return errno == EAGAIN || errno == EWOULDBLOCK || errno == EINTR ? ERR_AGAIN : ERR_IO;
}

static void op_finish(struct net *net, uint32_t connection)
{
    (void)shutdown(fd_of(self(net), connection), SHUT_WR);
}

static void op_watch(struct net *net, uint32_t connection, uint32_t what)
{
    struct net_epoll *n = self(net);
    int fd = fd_of(n, connection);
    struct slot *slot = &n->slots[connection];
    if (slot->watch == what) {
        return;
    }
    slot->watch = (uint8_t)what;
    /* A change of interest makes the kernel check again, so nothing that arrived meanwhile is
     * missed. */
    CHECK(epoll_set(n, EPOLL_CTL_MOD, fd, interest(what), connection) == 0);
}

static void op_close(struct net *net, uint32_t connection)
{
    struct net_epoll *n = self(net);
    (void)close(fd_of(n, connection)); /* also removes it from epoll */
    slot_give(n, connection);
    listen_watch(n, true);
}

static void op_abort(struct net *net, uint32_t connection)
{
    struct linger now = {1, 0};
    (void)setsockopt(fd_of(self(net), connection), SOL_SOCKET, SO_LINGER, &now, sizeof(now));
    op_close(net, connection);
}

static void op_accepting(struct net *net, bool on)
{
    struct net_epoll *n = self(net);
    if (on || n->listen < 0) {
        return; /* it accepts from the start; a closed socket is not opened again */
    }
    /* Closing the socket resets connections in its backlog: accept them first. */
    uint32_t number;
    while ((number = accept_one(n)) != SLOT_NONE) {
        index_chain_add(&n->fresh, INDEX_LINKS(n->slots, next), number);
    }
    (void)close(n->listen);
    n->listen = -1;
    n->listening = n->starved = false;
}

static struct net_address op_peer(struct net *net, uint32_t connection)
{
    struct net_epoll *n = self(net);
    (void)fd_of(n, connection);
    return n->slots[connection].peer;
}

void net_epoll_files(struct net *net, int files)
{
    self(net)->files = files;
}

int net_epoll_also(struct net *net, int fd)
{
    return epoll_set(self(net), EPOLL_CTL_ADD, fd, EPOLLIN, MARK_OTHER) == 0 ? 0 : ERR_IO;
}

static void op_wake(struct net *net)
{
    uint64_t once = 1;
    /* Fails only if the counter is full; then the loop is awake anyway. */
    (void)!write(self(net)->wake, &once, sizeof(once));
}

static const struct net_ops ops = {
    .poll = op_poll,
    .read = op_read,
    .write = op_write,
    .finish = op_finish,
    .watch = op_watch,
    .close = op_close,
    .abort = op_abort,
    .accepting = op_accepting,
    .peer = op_peer,
    .wake = op_wake,
};

int net_epoll_new(struct net_listener *listener, uint32_t loop, uint32_t connections_max,
                  struct net **ret_net)
{
    CHECK(loop < listener->loops && listener->sockets[loop] >= 0);
    CHECK(connections_max > 0 && connections_max < MARK_OTHER);
    struct net_epoll *n = malloc(sizeof(*n));
    if (n == NULL) {
        return ERR_NOMEM;
    }
    *n = (struct net_epoll){.net.ops = &ops,
                            .pool = {.capacity = connections_max},
                            .files = INT_MAX,
                            .epoll = epoll_create1(EPOLL_CLOEXEC),
                            .wake = eventfd(0, EFD_NONBLOCK | EFD_CLOEXEC),
                            .listen = listener->sockets[loop]};
    n->slots = calloc(connections_max, sizeof(*n->slots));
    if (n->slots == NULL || n->epoll < 0 || n->wake < 0 ||
        epoll_set(n, EPOLL_CTL_ADD, n->wake, EPOLLIN, MARK_WAKE) != 0 ||
        epoll_set(n, EPOLL_CTL_ADD, n->listen, EPOLLIN, MARK_LISTEN) != 0) {
        int err = n->slots == NULL ? ERR_NOMEM : ERR_IO;
        n->listen = -1; /* still belongs to the listener */
        net_epoll_free(&n->net);
        return err;
    }
    n->listening = true;
    listener->sockets[loop] = -1;
    *ret_net = &n->net;
    return 0;
}

void net_epoll_free(struct net *net)
{
    if (net == NULL) {
        return;
    }
    struct net_epoll *n = self(net);
    for (uint32_t i = 0; n->slots != NULL && i < n->pool.fresh; i++) {
        if (n->slots[i].fd >= 0) {
            (void)close(n->slots[i].fd);
        }
    }
    int fds[] = {n->listen, n->wake, n->epoll};
    for (size_t i = 0; i < sizeof(fds) / sizeof(fds[0]); i++) {
        if (fds[i] >= 0) {
            (void)close(fds[i]);
        }
    }
    free(n->slots);
    free(n);
}
