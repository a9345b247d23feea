/*
 * The server of one loop: memory, dispatch of network events, timers, draining. Connections are in
 * connection.c, requests in input.c, answers in output.c, streams in stream.c.
 */
#include <stdlib.h>

#include "base/check.h"
#include "base/err.h"
#include "http/addresses.h"
#include "http/connection.h"

static void count_buffers(const struct http_options *options, uint32_t ret_counts[HTTP_POOLS])
{
    ret_counts[HTTP_POOL_SMALL] = options->small_buffers;
    for (int class = 0; class < HTTP_CLASSES; class ++) {
        ret_counts[HTTP_POOL_LARGE + class] =
            class == HTTP_CLASS_ANYONE ? options->large_buffers : options->reserved_buffers;
    }
}

size_t http_server_bytes(const struct http_options *options)
{
    uint32_t counts[HTTP_POOLS];
    count_buffers(options, counts);
    size_t each = sizeof(struct connection) + 2 * sizeof(uint32_t); /* resume, resume_spare */
    return sizeof(struct http_server) + options->connections_max * each +
           (options->address_max > 0 ? address_counts_bytes(options->connections_max) : 0) +
           http_buffers_bytes(counts);
}

void http_server_retime(struct http_server *s, const struct http_options *options)
{
    s->options.header_timeout_ms = options->header_timeout_ms;
    s->options.idle_timeout_ms = options->idle_timeout_ms;
    s->options.write_timeout_ms = options->write_timeout_ms;
    int64_t shortest = options->header_timeout_ms;
    shortest = options->idle_timeout_ms < shortest ? options->idle_timeout_ms : shortest;
    shortest = options->write_timeout_ms < shortest ? options->write_timeout_ms : shortest;
    s->step_ms = shortest / 8 < 1000 ? shortest / 8 : 1000;
}

int http_server_new(struct net *net, const struct http_options *options, const struct http_app *app,
                    struct http_server **ret_server)
{
    CHECK(options->connections_max > 0 && options->connections_max < UINT32_MAX);
    /* No calloc: most of it is buffers, which are written before they are read. */
    struct http_server *s = malloc(sizeof(*s));
    if (s == NULL) {
        return ERR_NOMEM;
    }
    memset(s, 0, offsetof(struct http_server, head));
    s->net = net;
    s->options = *options;
    s->app = *app;
    s->lines_second = -1;
    uint32_t part = options->connections_max / HTTP_PLACES_PART;
    s->places_left = part < HTTP_PLACES_LEFT ? part : HTTP_PLACES_LEFT;
    uint32_t counts[HTTP_POOLS];
    count_buffers(options, counts);
    http_server_retime(s, options);
    output_lines(s);
    s->connections = calloc(options->connections_max, sizeof(*s->connections));
    s->resume = calloc(options->connections_max, sizeof(*s->resume));
    s->resume_spare = calloc(options->connections_max, sizeof(*s->resume_spare));
    bool counted = options->address_max > 0;
    s->addresses =
        counted ? address_counts_new(options->connections_max, options->address_max) : NULL;
    if (s->connections == NULL || s->resume == NULL || s->resume_spare == NULL ||
        (counted && s->addresses == NULL) || http_buffers_init(&s->buffers, counts) != 0) {
        address_counts_free(s->addresses);
        free(s->resume);
        free(s->resume_spare);
        free(s->connections);
        free(s);
        return ERR_NOMEM;
    }
    *ret_server = s;
    return 0;
}

void http_server_free(struct http_server *s)
{
    if (s == NULL) {
        return;
    }
    for (uint32_t i = 0; i < s->options.connections_max; i++) {
        output_release(s, &s->connections[i]); /* releases references to shared bytes */
    }
    http_buffers_done(&s->buffers);
    address_counts_free(s->addresses);
    free(s->resume);
    free(s->resume_spare);
    free(s->connections);
    free(s);
}

static void set_now(struct http_server *s, int64_t now_ms)
{
    /* Time never goes back here, because the timer lists are in order of start. */
    if (now_ms > s->now_ms) {
        s->now_ms = now_ms;
        output_lines(s);
    }
}

void http_server_flush(struct http_server *s)
{
    /* Connections that are queued meanwhile wait for the next flush. */
    uint32_t *queue = s->resume;
    uint32_t count = s->resume_count;
    s->resume = s->resume_spare;
    s->resume_spare = queue;
    s->resume_count = 0;
    for (uint32_t i = 0; i < count; i++) {
        struct connection *c = &s->connections[queue[i]];
        c->flags &= (uint16_t)~CONNECTION_QUEUED;
        if (c->state != CONNECTION_FREE) {
            input_resume(s, c);
        }
    }
}

static void handle_event(struct http_server *s, const struct net_event *event)
{
    CHECK(event->connection < s->options.connections_max);
    struct connection *c = &s->connections[event->connection];
    if ((event->what & NET_ACCEPTED) != 0) {
        connection_open(s, c);
    }
    if (c->state == CONNECTION_FREE) {
        return; /* closed since the network reported the event */
    }
    if ((event->what & NET_HUNG_UP) != 0) {
        connection_lose(s, c);
        return;
    }
    if ((event->what & NET_WRITABLE) != 0 && c->out != NULL) {
        output_writable(s, c);
    }
    if ((event->what & NET_READABLE) != 0 && c->state != CONNECTION_FREE) {
        input_readable(s, c);
    }
    if ((event->what & NET_FINISHED) != 0 && c->state == CONNECTION_PENDING) {
        s->app.finished(s->app.context, connection_exchange(s, c));
    }
}

void http_server_events(struct http_server *s, const struct net_event *events, size_t count,
                        int64_t now_ms)
{
    set_now(s, now_ms);
    for (size_t i = 0; i < count; i++) {
        handle_event(s, &events[i]);
    }
    http_server_flush(s);
}

static int64_t timer_duration_ms(const struct http_server *s, int kind)
{
    switch (kind) {
    case TIMER_IDLE:
        return s->options.idle_timeout_ms;
    case TIMER_HEADER:
        return s->options.header_timeout_ms;
    case TIMER_WRITE:
        return s->options.write_timeout_ms;
    default:
        return HTTP_LINGER_MS;
    }
}

/* Reads first: the bytes may have arrived in time while the process stood still. True: the timer has
 * ended, or begun anew. */
static bool read_in_time(struct http_server *s, struct connection *c)
{
    uint8_t timer = c->timer;
    int64_t since_ms = c->since_ms;
    if (timer == TIMER_IDLE || timer == TIMER_HEADER) {
        input_readable(s, c);
    }
    return c->timer != timer || c->since_ms != since_ms;
}

static void expire(struct http_server *s, struct connection *c)
{
    if (read_in_time(s, c)) {
        return;
    }
    if (c->timer != TIMER_HEADER) {
        connection_lose(s, c);
        return;
    }
    if (c->state == CONNECTION_IDLE) {
        s->counts.timeouts++;
        connection_lose(s, c); /* it never spoke */
        return;
    }
    http_buffers_return(&s->buffers, c->in);
    c->in = NULL;
    output_refuse(s, c, REFUSAL_TIMEOUT, &s->counts.timeouts);
    connection_settle(s, c);
}

void http_server_timers(struct http_server *s, int64_t now_ms, int64_t *ret_next_ms)
{
    set_now(s, now_ms);
    http_server_flush(s);
    int64_t next_ms = INT64_MAX;
    for (int kind = 0; kind < TIMER_COUNT; kind++) {
        int64_t duration_ms = timer_duration_ms(s, kind);
        uint32_t first;
        while ((first = s->timers[kind].first) != 0) {
            struct connection *c = &s->connections[first - 1];
            if (c->since_ms + duration_ms > s->now_ms) {
                int64_t end_ms = c->since_ms + duration_ms;
                next_ms = end_ms < next_ms ? end_ms : next_ms;
                break;
            }
            expire(s, c);
        }
    }
    if (s->open == s->options.connections_max && s->places_left > 0) {
        connection_make_room(s,
                             NULL); /* a new one, for which there is no place, cannot ask for it */
        int64_t again_ms = s->now_ms + HTTP_FULL_MS;
        next_ms = again_ms < next_ms ? again_ms : next_ms;
    }
    *ret_next_ms = s->resume_count > 0 ? s->now_ms : next_ms;
}

void http_server_drain(struct http_server *s)
{
    s->draining = true;
    net_accepting(s->net, false);
    for (uint32_t i = 0; i < s->options.connections_max; i++) {
        struct connection *c = &s->connections[i];
        /* A request that has arrived but is not reported yet is still answered. */
        if (c->state == CONNECTION_IDLE && c->in == NULL && c->out == NULL) {
            input_readable(s, c);
        }
        if (c->state == CONNECTION_IDLE && c->in == NULL && c->out == NULL) {
            connection_lose(s, c);
        }
    }
}

struct http_counts http_server_counts(const struct http_server *s)
{
    return s->counts;
}

struct http_borrowed http_server_borrowed(const struct http_server *s)
{
    const struct http_pool *pools = s->buffers.pools;
    struct http_borrowed borrowed = {.small = pools[HTTP_POOL_SMALL].lent};
    for (int class = 0; class < HTTP_CLASSES; class ++) {
        uint32_t lent = pools[HTTP_POOL_LARGE + class].lent;
        *(class == HTTP_CLASS_ANYONE ? &borrowed.large : &borrowed.reserved) += lent;
    }
    return borrowed;
}

uint32_t http_server_connections(const struct http_server *s)
{
    return s->open;
}

uint32_t http_server_busy(const struct http_server *s)
{
    return s->busy;
}

void http_use_class(struct http_server *s, struct http_exchange exchange, enum http_class class)
{
    struct connection *c = connection_of(s, exchange);
    if (c != NULL) {
        c->class = (uint8_t) class;
    }
}

bool http_alive(struct http_server *s, struct http_exchange exchange)
{
    return connection_of(s, exchange) != NULL;
}

struct net_address http_peer(struct http_server *s, struct http_exchange exchange)
{
    if (connection_of(s, exchange) == NULL) {
        return (struct net_address){0};
    }
    return net_peer(s->net, exchange.connection);
}
