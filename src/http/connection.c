/*
 * States, timers and closing of connections. Every change of a connection ends in
 * connection_settle(), the only place that derives timer, watched events and count from the state.
 *
 * There is one list of timers per kind, oldest first. Starting, stopping and finding the next timer
 * to expire take constant time.
 */
#include "http/connection.h"

#include "base/check.h"

static void timer_stop(struct http_server *s, struct connection *c)
{
    if (c->timer == TIMER_NONE) {
        return;
    }
    index_list_remove(&s->timers[c->timer], INDEX_LINKS(s->connections, by_timer),
                      connection_number(s, c));
    c->timer = TIMER_NONE;
}

static void timer_start(struct http_server *s, struct connection *c, enum timer_kind kind)
{
    timer_stop(s, c);
    if (kind == TIMER_NONE) {
        return;
    }
    c->timer = (uint8_t)kind;
    c->since_ms = s->now_ms;
    index_list_append(&s->timers[kind], INDEX_LINKS(s->connections, by_timer),
                      connection_number(s, c));
}

static enum timer_kind timer_wanted(const struct connection *c)
{
    if (c->out != NULL) {
        return TIMER_WRITE;
    }
    switch (c->state) {
    case CONNECTION_IDLE:
        return TIMER_IDLE;
    case CONNECTION_READING:
        return TIMER_HEADER;
    case CONNECTION_LINGER:
        return TIMER_LINGER;
    default:
        return TIMER_NONE; /* the server, not the client, is busy */
    }
}

static uint8_t watch_wanted(const struct connection *c)
{
    if (c->out != NULL) {
        return NET_WRITABLE;
    }
    return c->state == CONNECTION_PENDING && connection_is(c, CONNECTION_MUTED) ? 0 : NET_READABLE;
}

static void count_busy(struct http_server *s, struct connection *c, bool busy)
{
    if (busy == connection_is(c, CONNECTION_BUSY)) {
        return;
    }
    s->busy += busy ? 1 : (uint32_t)-1;
    c->flags ^= CONNECTION_BUSY;
}

void connection_open(struct http_server *s, struct connection *c)
{
    CHECK(c->state == CONNECTION_FREE);
    c->state = CONNECTION_IDLE;
    c->flags &= CONNECTION_QUEUED;
    c->blank_lines = 0;
    c->watched = NET_READABLE;
    c->timer = TIMER_NONE;
    s->open++;
    connection_settle(s, c);
}

/* Returns its buffers and frees the connection. */
static void connection_close(struct http_server *s, struct connection *c)
{
    timer_stop(s, c);
    count_busy(s, c, false);
    if (c->in != NULL) {
        http_buffers_return(&s->buffers, c->in);
        c->in = NULL;
    }
    output_release(s, c);
    c->state = CONNECTION_FREE;
    s->open--;
    net_close(s->net, connection_number(s, c));
}

void connection_lose(struct http_server *s, struct connection *c)
{
    CHECK(c->state != CONNECTION_FREE && c->state != CONNECTION_HANDLING);
    bool has_exchange = c->state == CONNECTION_PENDING || c->state == CONNECTION_STREAM;
    struct http_exchange exchange = connection_exchange(s, c);
    connection_close(s, c);
    if (has_exchange) {
        s->app.gone(s->app.context, exchange);
    }
}

/* The kernel has the last answer. Closing a socket with unread input makes the kernel send a reset,
 * which can overtake the answer. So if the client may still be sending, only our side is closed. */
static void connection_finish(struct http_server *s, struct connection *c)
{
    if (!connection_is(c, CONNECTION_DROPPED)) {
        connection_close(s, c);
        return;
    }
    net_finish(s->net, connection_number(s, c));
    c->state = CONNECTION_LINGER;
    connection_settle(s, c);
}

void connection_settle(struct http_server *s, struct connection *c)
{
    if (connection_is(c, CONNECTION_BROKEN)) {
        connection_lose(s, c);
        return;
    }
    if (c->state == CONNECTION_CLOSING && c->out == NULL) {
        connection_finish(s, c);
        return;
    }
    enum timer_kind kind = timer_wanted(c);
    /* Received bytes are no progress: a client could send single ones forever. */
    bool restart = connection_is(c, CONNECTION_PROGRESS) && s->now_ms - c->since_ms >= s->step_ms;
    if (kind != c->timer || restart) {
        timer_start(s, c, kind);
    }
    c->flags &= (uint16_t)~CONNECTION_PROGRESS;
    uint8_t watch = watch_wanted(c);
    if (watch != c->watched) {
        c->watched = watch;
        net_watch(s->net, connection_number(s, c), watch);
    }
    count_busy(s, c,
               c->out != NULL || c->state == CONNECTION_READING || c->state == CONNECTION_PENDING ||
                   c->state == CONNECTION_STREAM);
}

void connection_queue(struct http_server *s, struct connection *c)
{
    if (connection_is(c, CONNECTION_QUEUED)) {
        return;
    }
    CHECK(s->resume_count < s->options.connections_max);
    c->flags |= CONNECTION_QUEUED;
    s->resume[s->resume_count++] = connection_number(s, c);
}

struct connection *connection_of(struct http_server *s, struct http_exchange exchange)
{
    if (exchange.connection >= s->options.connections_max) {
        return NULL;
    }
    struct connection *c = &s->connections[exchange.connection];
    bool has_exchange = c->state == CONNECTION_HANDLING || c->state == CONNECTION_PENDING ||
                        c->state == CONNECTION_STREAM;
    bool same = has_exchange && c->generation == exchange.generation;
    return same && !connection_is(c, CONNECTION_BROKEN) ? c : NULL;
}

struct connection *connection_oldest_reading(struct http_server *s, bool large)
{
    /* Each connection that is passed over holds a buffer of the other size, so there are few. */
    for (uint32_t link = s->timers[TIMER_HEADER].first; link != 0;
         link = s->connections[link - 1].by_timer.next) {
        struct connection *c = &s->connections[link - 1];
        if (c->in != NULL && c->in->large == large && c != s->current) {
            return c;
        }
    }
    return NULL;
}

struct http_exchange connection_exchange(const struct http_server *s, const struct connection *c)
{
    return (struct http_exchange){connection_number(s, c), c->generation};
}
