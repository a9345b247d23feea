/*
 * What the HTTP layer itself costs: a typical buy request, read, parsed, handled by an application
 * that answers ready-made bytes, and written, over a network that is a pair of memory copies.
 * Prints nanoseconds of CPU for one request alone in its read and for one of sixteen in a pipeline.
 *
 *   bench_http [REQUESTS]
 */
#include <stdio.h>
#include <stdlib.h>
#include <time.h>

#include "base/check.h"
#include "http/server.h"

static const char buy[] =
    "POST /v1/buy/AQAAAAAAAAAqAAAAAAAAAAcAAAAAAAAAAAEAAAGTAbcDxQAAAZMBvQVFAAAAAAAAAAAAAAAAAAAAAA "
    "HTTP/1.1\r\n"
    "Host: sale.example.com\r\n"
    "User-Agent: Mozilla/5.0 (X11; Linux x86_64; rv:128.0) Gecko/20100101 Firefox/128.0\r\n"
    "Accept: application/json\r\n"
    "Accept-Encoding: gzip, deflate, br\r\n"
    "Authorization: Bearer "
    "eyJhbGciOiJIUzI1NiIsInR5cCI6IkpXVCJ9.eyJzdWIiOiIxMjM0NTY3ODkwIiwiZXhwIjoxN"
    "zYzMjA5NjAwfQ.SflKxwRJSMeKKF2QT4fwpMeJf36POk6yJV_adQssw5c\r\n"
    "Content-Type: application/json\r\n"
    "Content-Length: 9\r\n"
    "\r\n"
    "{\"qty\":1}";

static const char sold_out[] =
    "HTTP/1.1 409 Conflict\r\nContent-Type: application/problem+json\r\nCache-Control: no-store\r\n"
    "Content-Length: 143\r\n\r\n"
    "{\"type\":\"about:blank\",\"title\":\"Sold "
    "out\",\"status\":409,\"code\":\"sold_out\",\"detail\":"
    "\"nothing left\",\"retry\":\"no\",\"available\":0,\"held\":0,\"limit\":1}";

/* One connection that always has the same bytes to read and takes all that is written. */
struct loop_net {
    struct net net;
    size_t pipeline;
    char bytes[16 * sizeof(buy)];
    char sink[65536];
};

static int64_t net_read_buy(struct net *net, uint32_t connection, void *bytes, size_t n)
{
    struct loop_net *l = (struct loop_net *)(void *)net;
    (void)connection;
    size_t len = l->pipeline * (sizeof(buy) - 1);
    CHECK(n >= len);
    memcpy(bytes, l->bytes, len);
    return (int64_t)len;
}

static int64_t net_write_all(struct net *net, uint32_t connection, const struct net_piece *pieces,
                             size_t count)
{
    struct loop_net *l = (struct loop_net *)(void *)net;
    (void)connection;
    size_t total = 0;
    for (size_t i = 0; i < count; i++) {
        memcpy(l->sink + total, pieces[i].at, pieces[i].len);
        total += pieces[i].len;
    }
    return (int64_t)total;
}

static void net_watch_none(struct net *net, uint32_t connection, uint32_t what)
{
    (void)net;
    (void)connection;
    (void)what;
    CHECK(!"an answered request changes no interest");
}

static struct http_server *server;

static enum http_outcome handle(void *context, struct http_exchange exchange,
                                const struct http_request *request)
{
    (void)context;
    CHECK(request->body.len == 9 && request->authorization.len > 0);
    CHECK(http_answer_ready(server, exchange, (struct span){sold_out, sizeof(sold_out) - 1}));
    return HTTP_ANSWERED;
}

static void problem(void *context, enum refusal refusal, struct out *body)
{
    (void)context;
    (void)refusal;
    (void)body;
    CHECK(!"nothing is refused");
}

static int64_t now_ns(void)
{
    struct timespec now;
    CHECK(clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &now) == 0);
    return (int64_t)now.tv_sec * 1000000000 + now.tv_nsec;
}

static double run(struct loop_net *net, size_t pipeline, size_t requests)
{
    struct net_event event = {0, NET_READABLE};
    net->pipeline = pipeline;
    int64_t from_ns = now_ns();
    size_t rounds = requests / pipeline;
    for (size_t i = 0; i < rounds; i++) {
        http_server_events(server, &event, 1, 1000 + (int64_t)i / 1000);
    }
    return (double)(now_ns() - from_ns) / (double)(rounds * pipeline);
}

int main(int argc, char **argv)
{
    static const struct net_ops ops = {
        .read = net_read_buy, .write = net_write_all, .watch = net_watch_none};
    static struct loop_net net = {.net.ops = &ops};
    size_t requests = argc > 1 ? strtoul(argv[1], NULL, 10) : 2000000;
    struct http_options options = {.connections_max = 1,
                                   .small_buffers = 1,
                                   .large_buffers = 1,
                                   .header_timeout_ms = 10000,
                                   .idle_timeout_ms = 60000,
                                   .write_timeout_ms = 10000};
    struct http_app app = {.handle = handle, .problem = problem};
    CHECK(http_server_new(&net.net, &options, &app, &server) == 0);
    for (size_t i = 0; i < 16; i++) {
        memcpy(net.bytes + i * (sizeof(buy) - 1), buy, sizeof(buy) - 1);
    }
    struct net_event accepted = {0, NET_ACCEPTED};
    http_server_events(server, &accepted, 1, 1000);
    (void)run(&net, 1, requests / 10);
    printf("buy request of %zu bytes: %.0f ns alone, %.0f ns in a pipeline of 16\n",
           sizeof(buy) - 1, run(&net, 1, requests), run(&net, 16, requests));
    http_server_free(server);
    return 0;
}
