/*
 * States, timers and closing of connections. Every change of a connection ends in
 * connection_settle(), the only place that derives timer, list, watched events and count from the
 * state.
 *
 * There is one list of timers per kind, oldest first. Starting, stopping and finding the next timer
 * to expire take constant time. So does finding the connection whose place or buffer others need
 * most (enum connection_list).
 *
 * A new connection closes another one if few places are left (enum connection_list has the order). A
 * request that has arrived at an idle one but is not reported yet is answered first. A client that has
 * read all its answers keeps a complete request and a stream.
 */
#include "http/connection.h"

#include "base/check.h"
#include "http/addresses.h"

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

static void list_leave(struct http_server *s, struct connection *c)
{
    if (c->list != LIST_NONE) {
        index_list_remove(&s->lists[c->list], INDEX_LINKS(s->connections, by_list),
                          connection_number(s, c));
    }
    c->list = LIST_NONE;
}

static void list_join(struct http_server *s, struct connection *c, enum connection_list list)
{
    list_leave(s, c);
    if (list != LIST_NONE) {
        c->list = (uint8_t)list;
        c->listed_ms = (uint32_t)s->now_ms;
        index_list_append(&s->lists[list], INDEX_LINKS(s->connections, by_list),
                          connection_number(s, c));
    }
}

static bool input_large(const struct connection *c)
{
    return c->in != NULL && http_buffer_large(c->in);
}

/* A client that does not read holds large buffers with answers, or with requests behind them. */
static enum connection_list list_unsent(const struct connection *c)
{
    if (input_large(c)) {
        return LIST_UNSENT_LARGE;
    }
    for (const struct http_buffer *buffer = c->out; buffer != NULL; buffer = buffer->next) {
        if (http_buffer_large(buffer)) {
            return LIST_UNSENT_LARGE;
        }
    }
    return LIST_UNSENT;
}

static enum connection_list list_wanted(const struct connection *c)
{
    if (c->out != NULL) {
        return list_unsent(c);
    }
    switch (c->state) {
    case CONNECTION_IDLE:
        return c->in == NULL ? LIST_IDLE : LIST_NONE;
    case CONNECTION_READING:
        return c->in != NULL ? LIST_READING + c->in->pool : LIST_NONE;
    case CONNECTION_PENDING:
        return input_large(c) ? LIST_BEHIND_LARGE : LIST_NONE;
    case CONNECTION_LINGER:
        return LIST_LINGER;
    default:
        return LIST_NONE;
    }
}

static enum timer_kind timer_wanted(const struct connection *c)
{
    if (c->out != NULL) {
        return TIMER_WRITE;
    }
    switch (c->state) {
    case CONNECTION_IDLE:
        return connection_is(c, CONNECTION_NEW) ? TIMER_HEADER : TIMER_IDLE;
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
    uint32_t number = connection_number(s, c);
    if (s->addresses != NULL && !address_counts_add(s->addresses, net_peer(s->net, number))) {
        s->counts.crowded++;
        net_close(s->net, number);
        return;
    }
    c->state = CONNECTION_IDLE;
    c->flags &= CONNECTION_QUEUED;
    c->flags |= CONNECTION_NEW;
    c->blank_lines = 0;
    c->watched = NET_READABLE;
    c->timer = TIMER_NONE;
    c->list = LIST_NONE;
    s->open++;
    connection_settle(s, c);
    connection_make_room(s, c);
}

/* Returns its buffers and frees the connection. */
static void connection_close(struct http_server *s, struct connection *c)
{
    uint32_t number = connection_number(s, c);
    bool unsent = c->out != NULL || connection_is(c, CONNECTION_BROKEN);
    timer_stop(s, c);
    list_leave(s, c);
    count_busy(s, c, false);
    if (c->in != NULL) {
        http_buffers_return(&s->buffers, c->in);
        c->in = NULL;
    }
    output_release(s, c);
    c->state = CONNECTION_FREE;
    s->open--;
    if (s->addresses != NULL) {
        address_counts_remove(s->addresses, net_peer(s->net, number));
    }
    if (unsent) {
        net_abort(s->net, number); /* what the kernel holds for this client is of no use */
    } else {
        net_close(s->net, number);
    }
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
    enum connection_list list = list_wanted(c);
    bool used = connection_is(c, CONNECTION_PROGRESS) && list <= LIST_IDLE &&
                (uint32_t)s->now_ms - c->listed_ms >= HTTP_LIST_STEP_MS;
    if (list != c->list || used) {
        list_join(s, c, list);
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

/* The first connection of a list, except for the current one and this one. NULL: none. */
static struct connection *list_first(struct http_server *s, enum connection_list list,
                                     const struct connection *except)
{
    uint32_t link = s->lists[list].first;
    while (link != 0) {
        struct connection *c = &s->connections[link - 1];
        if (c != s->current && c != except) {
            return c;
        }
        link = c->by_list.next;
    }
    return NULL;
}

static uint32_t listed_for_ms(const struct http_server *s, const struct connection *c)
{
    return (uint32_t)s->now_ms - c->listed_ms;
}

struct connection *connection_oldest_reading(struct http_server *s, enum http_pool_kind pool)
{
    return list_first(s, LIST_READING + pool, NULL);
}

static void return_input(struct http_server *s, struct connection *c)
{
    if (c->in != NULL) {
        http_buffers_return(&s->buffers, c->in);
        c->in = NULL;
    }
}

/* The application may be using the connection's exchange now, so that is closed by the next flush. Its
 * buffers are free at once. */
static void give_up_later(struct http_server *s, struct connection *c)
{
    return_input(s, c);
    output_release(s, c);
    list_leave(s, c);
    c->flags |= CONNECTION_BROKEN;
    connection_queue(s, c);
}

bool connection_drop_slow(struct http_server *s, enum connection_list list,
                          const struct connection *except)
{
    struct connection *c = list_first(s, list, except);
    if (c == NULL || listed_for_ms(s, c) < HTTP_PATIENCE_MS) {
        return false;
    }
    s->counts.slow++;
    if (c->state == CONNECTION_PENDING || c->state == CONNECTION_STREAM) {
        give_up_later(s, c);
    } else {
        connection_lose(s, c);
    }
    return true;
}

bool connection_drop_slowest(struct http_server *s, const struct connection *except)
{
    return connection_drop_slow(s, LIST_UNSENT, except) ||
           connection_drop_slow(s, LIST_UNSENT_LARGE, except);
}

bool connection_drop_behind(struct http_server *s, const struct connection *except)
{
    struct connection *c = list_first(s, LIST_BEHIND_LARGE, except);
    if (c == NULL || listed_for_ms(s, c) < HTTP_PATIENCE_MS) {
        return false;
    }
    s->counts.evicted++;
    return_input(s, c);
    c->flags &= (uint16_t)~CONNECTION_KEEP_ALIVE;
    c->flags |= CONNECTION_DROPPED;
    connection_settle(s, c);
    return true;
}

/* Idle connections that are read before one of them is closed. Each that has a request is served. */
#define IDLE_LOOKED_AT 8

/* True: one connection less, or several were served. False: none is idle, except for the newcomer or
 * others as new. */
static bool close_idle(struct http_server *s, const struct connection *newcomer)
{
    for (int i = 0; i < IDLE_LOOKED_AT; i++) {
        struct connection *c = list_first(s, LIST_IDLE, NULL);
        if (c == NULL || c == newcomer ||
            (newcomer == NULL && listed_for_ms(s, c) < HTTP_PATIENCE_MS)) {
            return false;
        }
        uint32_t generation = c->generation;
        uint32_t open = s->open;
        input_readable(s, c);
        if (s->open < open) {
            return true; /* its client had closed it */
        }
        if (c->list == LIST_IDLE && c->generation == generation) {
            connection_lose(s, c);
            s->counts.displaced++;
            return true;
        }
        if (c->list == LIST_IDLE) {
            list_join(s, c, LIST_IDLE);
        }
    }
    return true;
}

/* The oldest incomplete request, whatever its buffer. */
static struct connection *oldest_incomplete(struct http_server *s)
{
    struct connection *oldest = NULL;
    for (int pool = 0; pool < HTTP_POOLS; pool++) {
        struct connection *c = list_first(s, LIST_READING + pool, NULL);
        if (c != NULL && (oldest == NULL || listed_for_ms(s, c) > listed_for_ms(s, oldest))) {
            oldest = c;
        }
    }
    return oldest;
}

void connection_make_room(struct http_server *s, const struct connection *newcomer)
{
    if (s->options.connections_max - s->open >= s->places_left || close_idle(s, newcomer)) {
        return;
    }
    struct connection *c = list_first(s, LIST_LINGER, NULL);
    if (c == NULL) {
        c = oldest_incomplete(s);
        if (c == NULL || listed_for_ms(s, c) < HTTP_PATIENCE_MS) {
            (void)connection_drop_slowest(s, NULL);
            return;
        }
        http_buffers_return(&s->buffers, c->in);
        c->in = NULL;
        output_refuse(s, c, REFUSAL_TIMEOUT, &s->counts.displaced);
        connection_settle(s, c);
        if (c->state == CONNECTION_LINGER) {
            connection_lose(s, c); /* all its input was read, so the answer arrives */
        }
        return;
    }
    connection_lose(s, c);
    s->counts.displaced++;
}

struct http_exchange connection_exchange(const struct http_server *s, const struct connection *c)
{
    return (struct http_exchange){connection_number(s, c), c->generation};
}
