/*
 * From readable to handled: read once, parse every complete request in place, call the application
 * for each, send all answers with one write, and keep what is left in a borrowed buffer.
 *
 * A request that is complete in one read is never copied. A half-read one moves to a small buffer,
 * one that is known not to fit there to a large one, and later reads go straight into it.
 * When the buffers of a size run out, the oldest half-read request that holds one has to go (408): a
 * sender who is slow on purpose pays first. Where answers hold all of them, the newcomer gets 503.
 *
 * A sender of a long pipeline has a few requests handled in a turn, and the rest waits in a small
 * buffer until the others have had theirs. A rest that is longer than that is not worth a large
 * buffer, of which there are few: its requests are handled at once until it fits. So are all of
 * them where no small buffer is left. Either way one turn of one sender is one read at most, which
 * is as long as the longest head of a request (HTTP_READ_BUFFER), and what was read is answered.
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

/* A buffer for input, if need be at the cost of the oldest half-read request. */
static struct http_buffer *input_borrow(struct http_server *s, bool large)
{
    struct http_buffer *buffer = http_buffers_borrow(&s->buffers, large);
    if (buffer != NULL) {
        return buffer;
    }
    struct connection *oldest = connection_oldest_reading(s, large);
    if (oldest == NULL) {
        return NULL;
    }
    buffer = oldest->in;
    oldest->in = NULL;
    *buffer = (struct http_buffer){.at = buffer->data, .large = large};
    output_refuse(s, oldest, REFUSAL_TIMEOUT, &s->counts.evicted);
    connection_settle(s, oldest);
    return buffer;
}

/*
 * Keeps at[0..len), which may be in c->in already, in a buffer of the right size, or in the one it
 * has if that is larger and there is no other. more: the request in it is half there, so that there
 * must be room for the rest. False: no buffer.
 */
static bool input_keep(struct http_server *s, struct connection *c, const char *at, size_t len,
                       struct http_progress progress, bool more)
{
    size_t need = http_progress_need(&progress);
    need = need > len + more ? need : len + more;
    bool large = need > HTTP_SMALL_DATA;
    CHECK(need <= HTTP_LARGE_DATA);
    struct http_buffer *to = c->in != NULL && c->in->large == large ? c->in : NULL;
    if (to == NULL) {
        to = input_borrow(s, large);
        to = to == NULL && c->in != NULL && c->in->large ? c->in : to;
        if (to == NULL) {
            return false;
        }
    }
    memmove(to->data, at, len);
    to->len = len;
    to->progress = progress;
    if (c->in != to) {
        input_release(s, c);
        c->in = to;
    }
    return true;
}

static void input_dispatch(struct http_server *s, struct connection *c)
{
    const struct http_parsed *parsed = &s->parsed;
    uint16_t flags = c->flags & (uint16_t) ~(CONNECTION_HEAD | CONNECTION_KEEP_ALIVE |
                                             CONNECTION_VERSION_10 | CONNECTION_MUTED);
    flags |= parsed->request.method == HTTP_HEAD ? CONNECTION_HEAD : 0;
    flags |= parsed->keep_alive ? CONNECTION_KEEP_ALIVE : 0;
    flags |= parsed->version_10 ? CONNECTION_VERSION_10 : 0;
    c->flags = flags;
    c->generation++;
    c->state = CONNECTION_HANDLING;
    enum http_outcome outcome =
        s->app.handle(s->app.context, connection_exchange(s, c), &parsed->request);
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

/* A refusal of this request leaves its body out where the request is a HEAD; the flag may still be
 * that of the request before it. */
static void input_note_head(struct connection *c, const char *at, size_t len)
{
    c->flags &= (uint16_t)~CONNECTION_HEAD;
    c->flags |= len >= 5 && memcmp(at, "HEAD ", 5) == 0 ? CONNECTION_HEAD : 0;
}

/* So many requests of one connection are handled before the others have their turn again: one that
 * sends thousands at once, and reads no answer, must not have a loop for itself. */
#define REQUESTS_AT_ONCE 16

/* Parses and handles the complete requests of at[0..*len): REQUESTS_AT_ONCE, or more, until what is
 * left can wait, in a small buffer or where it is. Returns how far it came. */
static char *input_parse(struct http_server *s, struct connection *c, char *at, size_t *len,
                         struct http_progress *progress)
{
    enum http_step step = HTTP_STEP_BLANK;
    unsigned handled = 0;
    progress->blank_lines = c->blanks;
    while (*len > 0 && step != HTTP_STEP_MORE && input_may_parse(c) &&
           (handled < REQUESTS_AT_ONCE || (c->in == NULL && *len > HTTP_SMALL_DATA))) {
        step = http_parser_step(progress, at, len, &s->parsed);
        switch (step) {
        case HTTP_STEP_MORE:
            c->state = CONNECTION_READING;
            input_note_head(c, at, *len); /* it may be given up before it is complete */
            break;
        case HTTP_STEP_BLANK:
            at += s->parsed.consumed;
            *len -= s->parsed.consumed;
            c->blanks = progress->blank_lines;
            c->state = CONNECTION_IDLE; /* half of the empty line may have come before */
            break;
        case HTTP_STEP_REFUSED:
            input_note_head(c, at, *len);
            output_refuse(s, c, s->parsed.refusal, &s->counts.malformed);
            break;
        case HTTP_STEP_DONE:
            at += s->parsed.consumed;
            *len -= s->parsed.consumed;
            *progress = (struct http_progress){0};
            c->blanks = 0;
            c->state = CONNECTION_IDLE;
            handled++;
            input_dispatch(s, c);
            break;
        }
    }
    return at;
}

static void input_say_continue(struct http_server *s, struct connection *c,
                               struct http_progress *progress)
{
    if (c->state == CONNECTION_READING && progress->wants_continue) {
        static const char text[] = "HTTP/1.1 100 Continue\r\n\r\n";
        progress->wants_continue = false;
        output_emit(s, c, &(struct net_piece){text, sizeof(text) - 1}, 1, 1);
    }
}

/* What parsing left over: kept if it will be needed, dropped if the connection ends anyway. False:
 * it is to be handled now, because there is no room for it. */
static bool input_rest(struct http_server *s, struct connection *c, const char *at, size_t len,
                       struct http_progress progress)
{
    bool ends = c->state == CONNECTION_CLOSING || c->state == CONNECTION_STREAM;
    if (len == 0 || ends) {
        if (len > 0) {
            c->flags |= CONNECTION_DROPPED;
        }
        input_release(s, c);
        return true;
    }
    bool more = c->state == CONNECTION_READING;
    if (input_keep(s, c, at, len, progress, more)) {
        return true;
    }
    if (!more && input_may_parse(c)) {
        return false;
    }
    input_release(s, c);
    if (more) {
        output_refuse(s, c, REFUSAL_OVERLOADED, &s->counts.evicted);
        return true;
    }
    /* Requests behind one whose answer is owed or unsent: they go unanswered, which the close tells
     * the peer. */
    c->flags &= (uint16_t)~CONNECTION_KEEP_ALIVE;
    c->flags |= CONNECTION_DROPPED;
    if (c->state == CONNECTION_IDLE) {
        c->state = CONNECTION_CLOSING;
    }
    return true;
}

static void input_handle(struct http_server *s, struct connection *c, char *bytes, size_t len,
                         struct http_progress progress)
{
    s->current = c;
    char *at = bytes;
    do {
        at = input_parse(s, c, at, &len, &progress);
        input_say_continue(s, c, &progress);
    } while (!input_rest(s, c, at, len, progress));
    output_flush(s, c);
    s->current = NULL;
    if (c->in != NULL && c->state == CONNECTION_IDLE && input_may_parse(c)) {
        connection_queue(s, c); /* the rest when the others have had their turn */
    }
    connection_settle(s, c);
}

void input_resume(struct http_server *s, struct connection *c)
{
    if (c->in != NULL && input_may_parse(c)) {
        input_handle(s, c, c->in->data, c->in->len, c->in->progress);
        return;
    }
    connection_settle(s, c);
}

/* Streams and closing connections: whatever comes is dropped, but the end is noticed. */
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
        input_resume(s, c); /* older requests first; the socket's bytes are reported again */
        return;
    }
    char *to = in == NULL ? s->read : in->data + in->len;
    size_t room = in == NULL ? sizeof(s->read) : http_buffer_cap(in) - in->len;
    int64_t n = net_read(s->net, connection_number(s, c), to, room);
    if (n == ERR_AGAIN) {
        return;
    }
    if (n <= 0) {
        connection_lose(s, c); /* the end between requests, or in the middle of one */
        return;
    }
    if (in == NULL) {
        input_handle(s, c, s->read, (size_t)n, (struct http_progress){0});
    } else {
        in->len += (size_t)n;
        input_handle(s, c, in->data, in->len, in->progress);
    }
}
