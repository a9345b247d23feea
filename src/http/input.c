/*
 * Input of a connection. Reads once, parses every complete request in place, calls the application
 * for each, sends all answers with one write, and keeps the rest of the input in a borrowed buffer.
 *
 * A request that arrives in one read is not copied. An incomplete request moves to a small buffer,
 * or to a large one if it is known not to fit. Later reads append to that buffer. Before a body has
 * a large one, the application sees the head, and may answer from it (struct http_app, admit).
 *
 * If no buffer of the needed pool is free, others give way in a fixed order (enum connection_list in
 * http/connection.h). If nobody can, because new unsent answers and pipelined requests hold all
 * buffers, the incomplete request that needs one is refused with 503.
 *
 * Pipelined requests: at most REQUESTS_AT_ONCE are handled before other connections are served. The
 * rest waits in a small buffer, or in the buffer it was read into. If the rest does not fit a small
 * buffer, or none is free, its requests are handled at once. In any case a connection is served for
 * one read at most, and every complete request that was read is answered unless the connection
 * closes first.
 */
#include "http/connection.h"

#include "base/check.h"
#include "base/err.h"

static void input_release(struct http_server *s, struct connection *c)
{
    if (c->in != NULL) {
        http_buffers_return(&s->buffers, c->in);
        c->in = NULL;
    }
}

bool input_evict(struct http_server *s, enum http_pool_kind pool)
{
    struct connection *oldest = connection_oldest_reading(s, pool);
    if (oldest == NULL) {
        return false;
    }
    input_release(s, oldest);
    output_refuse(s, oldest, REFUSAL_TIMEOUT, &s->counts.evicted);
    connection_settle(s, oldest);
    return true;
}

/* A free buffer of the pool, or of the one for anyone. NULL: none. */
static struct http_buffer *borrow_free(struct http_server *s, enum http_pool_kind pool)
{
    struct http_buffer *buffer = http_buffers_borrow(&s->buffers, pool);
    return buffer == NULL && pool > HTTP_POOL_LARGE
               ? http_buffers_borrow(&s->buffers, HTTP_POOL_LARGE)
               : buffer;
}

/* A buffer of the pool. If none is free, others give way (enum connection_list). NULL: nobody could. */
static struct http_buffer *input_borrow(struct http_server *s, enum http_pool_kind pool)
{
    bool small = pool == HTTP_POOL_SMALL;
    struct http_buffer *buffer = borrow_free(s, pool);
    while (buffer == NULL && (small ? connection_drop_slowest(s, NULL)
                                    : connection_drop_slow(s, LIST_UNSENT_LARGE, NULL) ||
                                          connection_drop_behind(s, NULL))) {
        buffer = borrow_free(s, pool);
    }
    if (buffer != NULL) {
        return buffer;
    }
    return input_evict(s, pool) ? http_buffers_borrow(&s->buffers, pool) : NULL;
}

/* Bytes that a buffer for at[0..len) must have. incomplete: the bytes end in the middle of a request,
 * so there must be room for more. */
static size_t input_need(size_t len, const struct http_progress *progress, bool incomplete)
{
    size_t need = http_progress_need(progress);
    return need > len + incomplete ? need : len + incomplete;
}

/*
 * Keeps at[0..len), which may be in c->in already, in c->in. Borrows a buffer of the right size, or
 * uses the large one that the connection has if no small one is free. False: no buffer.
 */
static bool input_keep(struct http_server *s, struct connection *c, const char *at, size_t len,
                       const struct http_progress *progress, bool incomplete)
{
    size_t need = input_need(len, progress, incomplete);
    bool large = need > HTTP_SMALL_DATA;
    CHECK(need <= HTTP_LARGE_DATA);
    enum http_pool_kind pool = !large               ? HTTP_POOL_SMALL
                               : progress->admitted ? HTTP_POOL_LARGE + c->class
                                                    : HTTP_POOL_LARGE;
    bool fits = c->in != NULL && http_buffer_large(c->in) == large &&
                (pool <= HTTP_POOL_LARGE || c->in->pool == pool);
    struct http_buffer *to = fits ? c->in : NULL;
    if (to == NULL) {
        to = input_borrow(s, pool);
        to = to == NULL && c->in != NULL && http_buffer_large(c->in) ? c->in : to;
        if (to == NULL) {
            return false;
        }
    }
    memmove(to->data, at, len);
    to->len = len;
    to->progress = *progress;
    if (c->in != to) {
        input_release(s, c);
        c->in = to;
    }
    return true;
}

/* Begins the exchange of s->parsed. */
static void input_begin(struct http_server *s, struct connection *c)
{
    const struct http_parsed *parsed = &s->parsed;
    uint16_t flags = c->flags & (uint16_t) ~(CONNECTION_HEAD | CONNECTION_KEEP_ALIVE |
                                             CONNECTION_VERSION_10 | CONNECTION_MUTED);
    flags |= parsed->request.method == HTTP_HEAD ? CONNECTION_HEAD : 0;
    flags |= parsed->keep_alive ? CONNECTION_KEEP_ALIVE : 0;
    flags |= parsed->version_10 ? CONNECTION_VERSION_10 : 0;
    c->flags = flags;
    c->class = HTTP_CLASS_ANYONE;
    c->generation++;
    c->state = CONNECTION_HANDLING;
}

static void input_dispatch(struct http_server *s, struct connection *c)
{
    c->flags &= (uint16_t)~CONNECTION_NEW;
    input_begin(s, c);
    enum http_outcome outcome =
        s->app.handle(s->app.context, connection_exchange(s, c), &s->parsed.request);
    if (outcome == HTTP_PENDING) {
        CHECK(c->state == CONNECTION_HANDLING);
        c->state = CONNECTION_PENDING;
    } else {
        CHECK(c->state != CONNECTION_HANDLING);
    }
}

static bool input_may_parse(const struct connection *c)
{
    return (c->state == CONNECTION_IDLE || c->state == CONNECTION_READING) && c->out == NULL &&
           !connection_is(c, CONNECTION_BROKEN);
}

/* Sets CONNECTION_HEAD for a request that is refused before it is parsed. Without this, the flag
 * would still be that of the request before it. */
static void input_note_head(struct connection *c, const char *at, size_t len)
{
    c->flags &= (uint16_t)~CONNECTION_HEAD;
    c->flags |= len >= 5 && memcmp(at, "HEAD ", 5) == 0 ? CONNECTION_HEAD : 0;
}

/* Requests of one connection that are handled before other connections are served. A client that
 * sends thousands at once must not occupy the loop. */
#define REQUESTS_AT_ONCE 16

/* Parses and handles the complete requests of at[0..*len): at most REQUESTS_AT_ONCE, but as many as
 * it takes until the rest fits a small buffer. Returns the start of the rest. */
static char *input_parse(struct http_server *s, struct connection *c, char *at, size_t *len,
                         struct http_progress *progress)
{
    enum http_step step = HTTP_STEP_BLANK;
    unsigned handled = 0;
    progress->blank_lines = c->blank_lines;
    while (*len > 0 && step != HTTP_STEP_MORE && input_may_parse(c) &&
           (handled < REQUESTS_AT_ONCE || (c->in == NULL && *len > HTTP_SMALL_DATA))) {
        step = http_parser_step(progress, at, len, &s->parsed);
        switch (step) {
        case HTTP_STEP_MORE:
            c->state = CONNECTION_READING;
            input_note_head(c, at, *len); /* a timeout may refuse it */
            break;
        case HTTP_STEP_BLANK:
            at += s->parsed.consumed;
            *len -= s->parsed.consumed;
            c->blank_lines = progress->blank_lines;
            c->state = CONNECTION_IDLE; /* READING if the line came in two reads */
            break;
        case HTTP_STEP_REFUSED:
            input_note_head(c, at, *len);
            output_refuse(s, c, s->parsed.refusal, &s->counts.malformed);
            break;
        case HTTP_STEP_DONE:
            at += s->parsed.consumed;
            *len -= s->parsed.consumed;
            *progress = (struct http_progress){0};
            c->blank_lines = 0;
            c->state = CONNECTION_IDLE;
            handled++;
            input_dispatch(s, c);
            break;
        }
    }
    return at;
}

/* Asks the application before the body of an incomplete request takes a large buffer. */
static void input_admit(struct http_server *s, struct connection *c, const char *at, size_t len,
                        struct http_progress *progress)
{
    if (c->state != CONNECTION_READING || progress->head_len == 0 || progress->admitted ||
        s->app.admit == NULL || input_need(len, progress, true) <= HTTP_SMALL_DATA) {
        return;
    }
    enum http_class class = HTTP_CLASS_ANYONE;
    http_parser_head(progress, at, &s->parsed);
    input_begin(s, c);
    c->flags &= (uint16_t)~CONNECTION_KEEP_ALIVE; /* an answer without the body is the last one */
    if (s->app.admit(s->app.context, connection_exchange(s, c), &s->parsed.request,
                     progress->body_len, &class)) {
        CHECK(c->state == CONNECTION_HANDLING);
        c->state = CONNECTION_READING;
        c->class = (uint8_t) class;
        progress->admitted = true;
        return;
    }
    CHECK(c->state == CONNECTION_CLOSING);
    c->flags |= CONNECTION_DROPPED;
}

static void input_say_continue(struct http_server *s, struct connection *c,
                               struct http_progress *progress)
{
    if (c->state == CONNECTION_READING && progress->wants_continue) {
        static const char text[] = "HTTP/1.1 100 Continue\r\n\r\n";
        progress->wants_continue = false;
        output_emit(s, c, &(struct output_piece){.at = text, .len = sizeof(text) - 1}, 1);
    }
}

/* Keeps the rest that input_parse left, or drops it if the connection closes. False: there is no
 * buffer for it, and the caller must handle its requests now. */
static bool input_rest(struct http_server *s, struct connection *c, const char *at, size_t len,
                       const struct http_progress *progress)
{
    bool ends = c->state == CONNECTION_CLOSING || c->state == CONNECTION_STREAM;
    if (len == 0 || ends) {
        if (len > 0) {
            c->flags |= CONNECTION_DROPPED;
        }
        input_release(s, c);
        return true;
    }
    bool incomplete = c->state == CONNECTION_READING;
    if (input_keep(s, c, at, len, progress, incomplete)) {
        return true;
    }
    if (!incomplete && input_may_parse(c)) {
        return false;
    }
    input_release(s, c);
    if (incomplete) {
        output_refuse(s, c, REFUSAL_OVERLOADED, &s->counts.evicted);
        return true;
    }
    /* Pipelined requests behind an answer that is pending or unsent. They are not answered; the
     * connection closes, which tells the client so. */
    c->flags &= (uint16_t)~CONNECTION_KEEP_ALIVE;
    c->flags |= CONNECTION_DROPPED;
    if (c->state == CONNECTION_IDLE) {
        c->state = CONNECTION_CLOSING;
    }
    return true;
}

/* Handles bytes[0..len), the first of which belong to the request that progress describes. progress
 * may not be in c->in, whose buffer may be returned. */
static void input_handle(struct http_server *s, struct connection *c, char *bytes, size_t len,
                         struct http_progress *progress)
{
    s->current = c;
    char *at = bytes;
    do {
        at = input_parse(s, c, at, &len, progress);
        input_admit(s, c, at, len, progress);
        input_say_continue(s, c, progress);
    } while (!input_rest(s, c, at, len, progress));
    output_flush(s, c);
    s->current = NULL;
    if (c->in != NULL && c->state == CONNECTION_IDLE && input_may_parse(c)) {
        connection_queue(s, c); /* other connections first */
    }
    connection_settle(s, c);
}

static void input_handle_buffer(struct http_server *s, struct connection *c)
{
    struct http_progress progress = c->in->progress;
    input_handle(s, c, c->in->data, c->in->len, &progress);
}

void input_resume(struct http_server *s, struct connection *c)
{
    if (c->in != NULL && input_may_parse(c)) {
        input_handle_buffer(s, c);
        return;
    }
    connection_settle(s, c);
}

/* Streams and lingering connections: drops the input and detects its end. */
static void input_drop(struct http_server *s, struct connection *c)
{
    int64_t n = net_read(s->net, connection_number(s, c), s->read, sizeof(s->read));
    if (n == 0 || n == ERR_IO) {
        connection_lose(s, c);
    }
}

void input_readable(struct http_server *s, struct connection *c)
{
    if (c->out != NULL) {
        return;
    }
    if (c->state == CONNECTION_STREAM || c->state == CONNECTION_LINGER) {
        input_drop(s, c);
        return;
    }
    if (c->state == CONNECTION_PENDING) {
        c->flags |= CONNECTION_MUTED;
        connection_settle(s, c);
        return;
    }
    struct http_buffer *in = c->in;
    if (in != NULL && c->state == CONNECTION_IDLE) {
        input_resume(s, c); /* older requests first; the network reports the input again */
        return;
    }
    char *to = in == NULL ? s->read : in->data + in->len;
    size_t room = in == NULL ? sizeof(s->read) : http_buffer_cap(in) - in->len;
    int64_t n = net_read(s->net, connection_number(s, c), to, room);
    if (n == ERR_AGAIN) {
        return;
    }
    if (n <= 0) {
        connection_lose(s, c); /* the client has closed its side, or the socket failed */
        return;
    }
    if (in == NULL) {
        struct http_progress progress = {0};
        input_handle(s, c, s->read, (size_t)n, &progress);
    } else {
        in->len += (size_t)n;
        input_handle_buffer(s, c);
    }
}
