/*
 * Happy path: net_submit queues; net_pump assigns waiting requests to free connections and sends
 * them; net_wait receives, splits the bytes into answers and reports them in the order of the
 * requests. One recv and one send per request, no epoll_ctl: so one core is enough.
 *
 * What can go wrong: a refused or broken connection, an answer that is not HTTP, no answer. Each is
 * reported as lost for every request on that connection. The connection is opened again when
 * needed, with a pause after refusals. A server may close an idle connection; that is not an error.
 *
 * Invariant: a connection is in exactly one of: closed_stack; connecting; open. It is in free_ring
 * only while it is open, has a free place and nothing left to send (or was closed since).
 */
#include "bench/bench_net.h"

#include <arpa/inet.h>
#include <errno.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/socket.h>
#include <unistd.h>

#include "base/check.h"
#include "base/err.h"
#include "bench/bench.h"

#define BUFFER_BYTES ((size_t)1 << 20)
#define SCRATCH_BYTES ((size_t)64 * 1024)
#define EVENTS_MAX 256
#define PAUSE_AFTER_REFUSAL_NS 50000000
/* 127.0.1.1 and up: never the server's own address. */
#define SOURCE_ADDRESS_FIRST 0x7f000101U

int net_init(struct bench_net *net, const struct bench_net_config *config)
{
    *net = (struct bench_net){
        .target = config->target,
        .events = config->events,
        .context = config->context,
        .depth = config->depth,
        .conn_count = config->conn_count,
        .source_first = config->source_first,
        .source_spread = config->source_spread,
        .timeout_ns = config->timeout_ns,
    };
    net->epoll = epoll_create1(EPOLL_CLOEXEC);
    if (net->epoll < 0) {
        return ERR_IO;
    }
    net->conns = bench_grow(NULL, net->conn_count * sizeof(*net->conns));
    net->free_ring = bench_grow(NULL, net->conn_count * sizeof(*net->free_ring));
    net->closed_stack = bench_grow(NULL, net->conn_count * sizeof(*net->closed_stack));
    net->buffer = bench_grow(NULL, BUFFER_BYTES);
    net->scratch = bench_grow(NULL, SCRATCH_BYTES);
    for (uint32_t i = net->conn_count; i-- > 0;) {
        net->conns[i] = (struct bench_conn){.fd = -1};
        net->conns[i].flights = bench_grow(NULL, net->depth * sizeof(struct bench_request));
        net->closed_stack[net->closed_count++] = i;
    }
    return 0;
}

void net_done(struct bench_net *net)
{
    for (uint32_t i = 0; i < net->conn_count; i++) {
        struct bench_conn *conn = &net->conns[i];
        if (conn->fd >= 0) {
            (void)close(conn->fd);
        }
        free(conn->flights);
        free(conn->in);
        free(conn->out);
    }
    (void)close(net->epoll);
    free(net->conns);
    free(net->free_ring);
    free(net->closed_stack);
    free(net->buffer);
    free(net->scratch);
    request_ring_done(&net->waiting);
}

static void conn_list(struct bench_net *net, struct bench_conn *conn)
{
    if (conn->listed || conn->state != CONN_OPEN || conn->count == net->depth ||
        conn->out_len > 0) {
        return;
    }
    conn->listed = true;
    uint32_t at = (net->free_head + net->free_count) % net->conn_count;
    net->free_ring[at] = (uint32_t)(conn - net->conns);
    net->free_count++;
}

static struct bench_conn *conn_take(struct bench_net *net)
{
    while (net->free_count > 0) {
        struct bench_conn *conn = &net->conns[net->free_ring[net->free_head]];
        net->free_head = (net->free_head + 1) % net->conn_count;
        net->free_count--;
        conn->listed = false;
        if (conn->state == CONN_OPEN && conn->count < net->depth && conn->out_len == 0) {
            return conn;
        }
    }
    return NULL;
}

/* Closes the connection and reports its requests as lost, oldest first. */
static void conn_close(struct bench_net *net, struct bench_conn *conn, enum bench_loss loss)
{
    CHECK(conn->state != CONN_CLOSED);
    (void)close(conn->fd);
    conn->fd = -1;
    if (conn->state == CONN_OPEN) {
        net->open_count--;
    } else {
        net->connecting_count--;
    }
    conn->state = CONN_CLOSED;
    conn->in_len = 0;
    conn->out_len = 0;
    net->closed_stack[net->closed_count++] = (uint32_t)(conn - net->conns);
    for (; conn->count > 0; conn->count--) {
        net->events->lost(net->context, &conn->flights[conn->head], loss);
        conn->head = (conn->head + 1) % net->depth;
    }
}

static void conn_refused(struct bench_net *net, int error, int64_t now_ns)
{
    net->refused_since_ns = net->refused_since_ns == 0 ? now_ns : net->refused_since_ns;
    net->last_errno = error;
    net->refused_until_ns = now_ns + PAUSE_AFTER_REFUSAL_NS;
}

static void conn_opened(struct bench_net *net, struct bench_conn *conn)
{
    conn->state = CONN_OPEN;
    net->connecting_count--;
    net->open_count++;
    net->refused_since_ns = 0;
    conn_list(net, conn);
}

static int conn_bind(const struct bench_net *net, uint32_t index, int fd)
{
    int on = 1;
    (void)setsockopt(fd, IPPROTO_IP, IP_BIND_ADDRESS_NO_PORT, &on, sizeof(on));
    struct sockaddr_in source = {.sin_family = AF_INET};
    source.sin_addr.s_addr =
        htonl(SOURCE_ADDRESS_FIRST + (net->source_first + index) % net->source_spread);
    return bind(fd, (const struct sockaddr *)&source, sizeof(source));
}

/* False: the system did not start connecting. */
static bool conn_connect(struct bench_net *net, uint32_t index, int64_t now_ns)
{
    struct bench_conn *conn = &net->conns[index];
    int fd = socket(net->target->address.ss_family, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0);
    if (fd < 0) {
        conn_refused(net, errno, now_ns);
        return false;
    }
    int on = 1;
    (void)setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &on, sizeof(on));
    struct epoll_event event = {.events = EPOLLIN | EPOLLOUT, .data.u32 = index};
    if ((net->source_spread > 0 && conn_bind(net, index, fd) != 0) ||
        (connect(fd, (const struct sockaddr *)&net->target->address, net->target->address_len) !=
             0 &&
         errno != EINPROGRESS) ||
        epoll_ctl(net->epoll, EPOLL_CTL_ADD, fd, &event) != 0) {
        conn_refused(net, errno, now_ns);
        (void)close(fd);
        return false;
    }
    conn->fd = fd;
    conn->state = CONN_CONNECTING;
    conn->head = 0;
    conn->since_ns = now_ns;
    net->connecting_count++;
    return true;
}

void net_open(struct bench_net *net, uint32_t count, int64_t now_ns)
{
    while (net->open_count + net->connecting_count < count && net->closed_count > 0 &&
           now_ns >= net->refused_until_ns) {
        uint32_t index = net->closed_stack[--net->closed_count];
        if (!conn_connect(net, index, now_ns)) {
            net->closed_stack[net->closed_count++] = index;
        }
    }
}

static void conn_watch(const struct bench_net *net, const struct bench_conn *conn, uint32_t events)
{
    struct epoll_event event = {.events = events, .data.u32 = (uint32_t)(conn - net->conns)};
    CHECK(epoll_ctl(net->epoll, EPOLL_CTL_MOD, conn->fd, &event) == 0);
}

/* Cuts a connection like a client that vanishes: by FIN, or by RST with everything in flight. */
static void conn_cut(struct bench_net *net, struct bench_conn *conn)
{
    if (net->rst_turn++ % 2 == 1) {
        struct linger now = {.l_onoff = 1, .l_linger = 0};
        (void)setsockopt(conn->fd, SOL_SOCKET, SO_LINGER, &now, sizeof(now));
    }
    conn_close(net, conn, LOSS_DROPPED);
}

static void conn_send(struct bench_net *net, struct bench_conn *conn, const char *bytes, size_t len)
{
    ssize_t n = send(conn->fd, bytes, len, MSG_NOSIGNAL);
    if (n < 0 && errno != EAGAIN) {
        net->last_errno = errno;
        conn_close(net, conn, LOSS_ERROR);
        return;
    }
    size_t sent = n < 0 ? 0 : (size_t)n;
    if (sent < len) {
        if (bytes != conn->out) {
            conn->out = bench_grow(conn->out, len - sent);
        }
        memmove(conn->out, bytes + sent, len - sent);
        if (conn->out_len == 0) {
            conn_watch(net, conn, EPOLLIN | EPOLLOUT);
        }
        conn->out_len = len - sent;
        return;
    }
    if (conn->out_len > 0) {
        conn->out_len = 0;
        conn_watch(net, conn, EPOLLIN);
    }
    if (conn->count > 0 && conn->flights[(conn->head + conn->count - 1) % net->depth].drop) {
        conn_cut(net, conn);
        return;
    }
    conn_list(net, conn);
}

void net_submit(struct bench_net *net, const struct bench_request *request)
{
    request_ring_push(&net->waiting, request);
}

/* Fills the connection's free places with waiting requests and sends them with one call. */
static void conn_fill(struct bench_net *net, struct bench_conn *conn)
{
    struct out out = out_over(net->scratch, SCRATCH_BYTES);
    int64_t now_ns = bench_now_ns();
    bool drop = false;
    while (!drop && conn->count < net->depth && out.cap - out.len >= BENCH_REQUEST_MAX) {
        uint32_t at = conn->head + conn->count;
        struct bench_request *flight = &conn->flights[at >= net->depth ? at - net->depth : at];
        if (!request_ring_pop(&net->waiting, flight)) {
            break;
        }
        conn->count++;
        flight->sent_ns = now_ns;
        net->events->render(net->context, flight, &out);
        drop = flight->drop;
    }
    CHECK(!out.overflow);
    conn_send(net, conn, out.at, out.len);
}

void net_pump(struct bench_net *net, int64_t now_ns)
{
    while (net->waiting.count > 0) {
        struct bench_conn *conn = conn_take(net);
        if (conn == NULL) {
            break;
        }
        conn_fill(net, conn);
    }
    if (net->waiting.count > 0) {
        uint64_t wanted = net->open_count + (net->waiting.count + net->depth - 1) / net->depth;
        net_open(net, wanted < net->conn_count ? (uint32_t)wanted : net->conn_count, now_ns);
    }
}

/* Splits len bytes of net->buffer into answers. Returns how many bytes are left at the end. */
static size_t answers_read(struct bench_net *net, struct bench_conn *conn, size_t len, bool eof,
                           bool *ret_close)
{
    size_t at = 0;
    *ret_close = eof;
    while (at < len && conn->count > 0) {
        struct bench_answer answer;
        int error = bench_answer_read(net->buffer + at, len - at, eof, &answer);
        if (error == ERR_AGAIN) {
            break;
        }
        if (error != 0) {
            *ret_close = true;
            return 0;
        }
        at += answer.size;
        struct bench_request *flight = &conn->flights[conn->head];
        conn->head = conn->head + 1 == net->depth ? 0 : conn->head + 1;
        conn->count--;
        net->events->answered(net->context, flight, &answer);
        if (answer.closes) {
            *ret_close = true;
            return 0;
        }
    }
    if (at < len && conn->count == 0) {
        *ret_close = true; /* bytes without a request */
    }
    return len - at;
}

static void conn_receive(struct bench_net *net, struct bench_conn *conn)
{
    size_t kept = conn->in_len;
    if (kept > 0) {
        memcpy(net->buffer, conn->in, kept);
    }
    ssize_t n = recv(conn->fd, net->buffer + kept, BUFFER_BYTES - kept, 0);
    if (n < 0) {
        if (errno != EAGAIN) {
            net->last_errno = errno;
            conn_close(net, conn, LOSS_ERROR);
        }
        return;
    }
    size_t len = kept + (size_t)n;
    bool close_it = false;
    size_t left = answers_read(net, conn, len, n == 0, &close_it);
    if (close_it || left == BUFFER_BYTES) {
        conn_close(net, conn, LOSS_ERROR);
        return;
    }
    if (left > 0) {
        conn->in = bench_grow(conn->in, left);
        memcpy(conn->in, net->buffer + len - left, left);
    }
    conn->in_len = left;
    conn_list(net, conn);
}

static void conn_ready(struct bench_net *net, struct bench_conn *conn, uint32_t events)
{
    if (conn->state == CONN_CONNECTING) {
        int error = 0;
        socklen_t len = sizeof(error);
        (void)getsockopt(conn->fd, SOL_SOCKET, SO_ERROR, &error, &len);
        if (error != 0) {
            conn_refused(net, error, bench_now_ns());
            conn_close(net, conn, LOSS_ERROR);
            return;
        }
        if ((events & EPOLLOUT) != 0) {
            conn_watch(net, conn, EPOLLIN);
            conn_opened(net, conn);
        }
        return;
    }
    if ((events & EPOLLOUT) != 0 && conn->out_len > 0) {
        conn_send(net, conn, conn->out, conn->out_len);
    }
    if (conn->state == CONN_OPEN && (events & (EPOLLIN | EPOLLERR | EPOLLHUP)) != 0) {
        conn_receive(net, conn);
    }
}

void net_wait(struct bench_net *net, int64_t until_ns)
{
    struct epoll_event events[EVENTS_MAX];
    int64_t wait_ns = until_ns - bench_now_ns();
    struct timespec timeout = {0};
    if (wait_ns > 0) {
        timeout = (struct timespec){wait_ns / 1000000000, wait_ns % 1000000000};
    }
    int count = epoll_pwait2(net->epoll, events, EVENTS_MAX, &timeout, NULL);
    for (int i = 0; i < count; i++) {
        struct bench_conn *conn = &net->conns[events[i].data.u32];
        if (conn->state != CONN_CLOSED) {
            conn_ready(net, conn, events[i].events);
        }
    }
}

void net_expire(struct bench_net *net, int64_t now_ns)
{
    for (uint32_t i = 0; i < net->conn_count; i++) {
        struct bench_conn *conn = &net->conns[i];
        bool late = false;
        if (conn->state == CONN_CONNECTING) {
            late = now_ns - conn->since_ns > net->timeout_ns;
        } else if (conn->state == CONN_OPEN && conn->count > 0) {
            late = now_ns - conn->flights[conn->head].sent_ns > net->timeout_ns;
        }
        if (late) {
            net->last_errno = ETIMEDOUT;
            conn_close(net, conn, LOSS_ERROR);
        }
    }
}
