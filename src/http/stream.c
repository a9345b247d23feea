/*
 * Server-sent events: an answer without an end. A stream has no queue. What is sent while earlier
 * bytes are unsent is refused, and the sender comes again with a newer state; so a slow watcher
 * costs one buffer and never the others' time.
 *
 * A stream whose socket fails while it is being sent to is not ended inside that call: the caller
 * is in the middle of its list of watchers. It is queued, and the application hears of it soon
 * after.
 */
#include "http/connection.h"

#include "base/check.h"

/* After something was emitted outside of handle(). */
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
    output_emit(s, c, &(struct net_piece){head.at, head.len}, 1, 1);
    if (head_only) {
        output_answered(s, c);
        return false;
    }
    c->state = CONNECTION_STREAM;
    if (c != s->current && c->in != NULL) {
        http_buffers_return(&s->buffers, c->in); /* requests behind a stream have no answer */
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
    if (c == NULL || c->out != NULL) {
        return false;
    }
    CHECK(c->state == CONNECTION_STREAM);
    output_emit(s, c, &(struct net_piece){bytes.at, bytes.len}, 1, 1);
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
