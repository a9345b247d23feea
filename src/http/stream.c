/*
 * Server-sent events. A stream has no queue: while bytes are unsent, http_stream_send() refuses new
 * ones, and the caller sends a newer state later. So a slow client holds buffers for one event.
 *
 * If the socket fails in http_stream_send(), the stream is not closed inside that call, because the
 * caller may be walking its list of watchers. The next http_server_flush() closes it and calls the
 * application's gone().
 */
#include "http/connection.h"

#include "base/check.h"

/* Call after output_emit(). Inside handle(), input_handle() settles the connection. */
static void stream_settle(struct http_server *s, struct connection *c)
{
    if (connection_is(c, CONNECTION_BROKEN)) {
        connection_queue(s, c);
    } else if (c != s->current) {
        connection_settle(s, c);
    }
}

bool http_stream_begin(struct http_server *s, struct http_exchange exchange, const char *headers)
{
    struct connection *c = connection_of(s, exchange);
    if (c == NULL) {
        return false;
    }
    CHECK(c->state != CONNECTION_STREAM);
    bool head_only = connection_is(c, CONNECTION_HEAD);
    c->flags &= (uint16_t)~CONNECTION_KEEP_ALIVE;
    struct out head = out_over(s->head, sizeof(s->head));
    output_head(s, c, &head, 200, "text/event-stream", headers, -1);
    CHECK(!head.overflow);
    output_emit(s, c, &(struct output_piece){.at = head.at, .len = head.len}, 1);
    if (head_only) {
        output_answered(s, c);
        return false;
    }
    c->state = CONNECTION_STREAM;
    if (c != s->current && c->in != NULL) {
        http_buffers_return(&s->buffers, c->in); /* a stream is the last answer */
        c->in = NULL;
        c->flags |= CONNECTION_DROPPED;
    }
    stream_settle(s, c);
    return true;
}

bool http_stream_ready(struct http_server *s, struct http_exchange exchange)
{
    struct connection *c = connection_of(s, exchange);
    return c != NULL && c->state == CONNECTION_STREAM && c->out == NULL;
}

bool http_stream_send(struct http_server *s, struct http_exchange exchange, struct span bytes)
{
    struct connection *c = connection_of(s, exchange);
    if (c == NULL || c->out != NULL || !output_fits(s, c, bytes.len, PIECE_VOLATILE)) {
        return false;
    }
    CHECK(c->state == CONNECTION_STREAM);
    output_emit(s, c, &(struct output_piece){.at = bytes.at, .len = bytes.len}, 1);
    stream_settle(s, c);
    return !connection_is(c, CONNECTION_BROKEN);
}

void http_stream_end(struct http_server *s, struct http_exchange exchange)
{
    struct connection *c = connection_of(s, exchange);
    if (c == NULL) {
        return;
    }
    CHECK(c->state == CONNECTION_STREAM);
    output_answered(s, c);
}
