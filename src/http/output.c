/*
 * Output of a connection. Answers given inside handle() gather in the server's batch, and one write
 * sends them when the connection's input is handled. Answers given later are sent at once. Borrowed
 * buffers keep what the socket does not take, and the connection is not read until it is sent. A
 * buffer keeps a copy of the bytes, or a reference if they are stable. Stable bytes are given to the
 * socket piece by piece (HTTP_WRITE_MAX), so that they wait here, where they are shared, and not in
 * the kernel.
 *
 * A large answer is only begun if it could be kept whole. Otherwise it is a 503, after connections
 * that have taken long to read theirs were closed for it.
 *
 * What can go wrong: the socket fails, or no buffer is free for the rest of a small answer. Both set
 * CONNECTION_BROKEN, and connection_settle() closes the connection.
 */
#define _GNU_SOURCE /* memmem */
#include "http/connection.h"

#include "base/check.h"
#include "base/err.h"

/* --- Heads ------------------------------------------------------------------------------------ */

#define STATUSES(X)                                                                                \
    X(200, "OK")                                                                                   \
    X(201, "Created")                                                                              \
    X(202, "Accepted")                                                                             \
    X(204, "No Content")                                                                           \
    X(304, "Not Modified")                                                                         \
    X(400, "Bad Request")                                                                          \
    X(401, "Unauthorized")                                                                         \
    X(403, "Forbidden")                                                                            \
    X(404, "Not Found")                                                                            \
    X(405, "Method Not Allowed")                                                                   \
    X(408, "Request Timeout")                                                                      \
    X(409, "Conflict")                                                                             \
    X(413, "Content Too Large")                                                                    \
    X(414, "URI Too Long")                                                                         \
    X(415, "Unsupported Media Type")                                                               \
    X(417, "Expectation Failed")                                                                   \
    X(422, "Unprocessable Content")                                                                \
    X(425, "Too Early")                                                                            \
    X(429, "Too Many Requests")                                                                    \
    X(431, "Request Header Fields Too Large")                                                      \
    X(500, "Internal Server Error")                                                                \
    X(501, "Not Implemented")                                                                      \
    X(503, "Service Unavailable")                                                                  \
    X(505, "HTTP Version Not Supported")

static void put_status(struct out *head, int status)
{
    switch (status) {
#define X(number, reason)                                                                          \
    case number:                                                                                   \
        out_lit(head, "HTTP/1.1 " #number " " reason "\r\n");                                      \
        return;
        STATUSES(X)
#undef X
    default:
        CHECK(status >= 200 && status <= 999);
        out_lit(head, "HTTP/1.1 ");
        out_u64(head, (uint64_t)status);
        out_lit(head, " \r\n");
    }
}

static void put_two(struct out *out, int64_t value)
{
    out_char(out, (char)('0' + value / 10 % 10));
    out_char(out, (char)('0' + value % 10));
}

/* The Date header in RFC 9110's IMF-fixdate. Computes the date of the Gregorian calendar from the
 * day number. */
static void put_date(struct out *out, int64_t second)
{
    static const char days[] = "ThuFriSatSunMonTueWed"; /* day 0 was a Thursday */
    static const char months[] = "MarAprMayJunJulAugSepOctNovDecJanFeb";
    int64_t day = second / 86400;
    int64_t rest = second % 86400;
    int64_t shifted = day + 719468; /* days since 0000-03-01: a leap day is the last of its year */
    int64_t era = shifted / 146097;
    int64_t of_era = shifted % 146097;
    int64_t year_of_era = (of_era - of_era / 1460 + of_era / 36524 - of_era / 146096) / 365;
    int64_t of_year = of_era - (365 * year_of_era + year_of_era / 4 - year_of_era / 100);
    int64_t month = (5 * of_year + 2) / 153; /* 0 is March */
    int64_t year = year_of_era + era * 400 + (month >= 10);
    out_lit(out, "Date: ");
    out_bytes(out, days + day % 7 * 3, 3);
    out_lit(out, ", ");
    put_two(out, of_year - (153 * month + 2) / 5 + 1);
    out_char(out, ' ');
    out_bytes(out, months + month * 3, 3);
    out_char(out, ' ');
    put_two(out, year / 100);
    put_two(out, year);
    out_char(out, ' ');
    put_two(out, rest / 3600);
    out_char(out, ':');
    put_two(out, rest / 60 % 60);
    out_char(out, ':');
    put_two(out, rest % 60);
    out_lit(out, " GMT\r\n");
}

void output_lines(struct http_server *s)
{
    static const char *const connection[LINES_COUNT] = {
        [LINES_KEEP] = "",
        [LINES_KEEP_10] = "Connection: keep-alive\r\n",
        [LINES_CLOSE] = "Connection: close\r\n",
    };
    int64_t second = s->now_ms / 1000;
    if (second == s->lines_second) {
        return;
    }
    s->lines_second = second;
    for (int i = 0; i < LINES_COUNT; i++) {
        struct out out = out_over(s->lines[i], LINES_MAX);
        put_date(&out, second < 0 ? 0 : second);
        out_text(&out, connection[i]);
        CHECK(!out.overflow);
        s->lines_len[i] = (uint32_t)out.len;
    }
}

static struct output_piece lines_of(const struct http_server *s, const struct connection *c)
{
    int lines = LINES_CLOSE;
    if (connection_is(c, CONNECTION_KEEP_ALIVE) && !s->draining) {
        lines = connection_is(c, CONNECTION_VERSION_10) ? LINES_KEEP_10 : LINES_KEEP;
    }
    return (struct output_piece){.at = s->lines[lines], .len = s->lines_len[lines]};
}

void output_head(struct http_server *s, const struct connection *c, struct out *head, int status,
                 const char *content_type, const char *headers, int64_t length)
{
    struct output_piece lines = lines_of(s, c);
    put_status(head, status);
    out_bytes(head, lines.at, lines.len);
    if (content_type != NULL) {
        out_lit(head, "Content-Type: ");
        out_text(head, content_type);
        out_lit(head, "\r\n");
    }
    if (length >= 0) {
        out_lit(head, "Content-Length: ");
        out_u64(head, (uint64_t)length);
        out_lit(head, "\r\n");
    }
    out_text(head, headers);
    out_lit(head, "\r\n");
}

/* --- Sending ---------------------------------------------------------------------------------- */

void output_release(struct http_server *s, struct connection *c)
{
    while (c->out != NULL) {
        struct http_buffer *first = c->out;
        c->out = first->next;
        s->unsent -= first->len;
        http_buffers_return(&s->buffers, first);
    }
}

static void append(struct http_server *s, struct connection *c, struct http_buffer *buffer)
{
    s->unsent += buffer->len;
    struct http_buffer **end = &c->out;
    while (*end != NULL) {
        end = &(*end)->next;
    }
    *end = buffer;
}

/* A large buffer for an answer. NULL: none. */
static struct http_buffer *borrow_large(struct http_server *s, const struct connection *c)
{
    struct http_buffer *buffer = http_buffers_borrow(&s->buffers, HTTP_POOL_LARGE + c->class);
    if (buffer == NULL && c->class != HTTP_CLASS_ANYONE) {
        buffer = http_buffers_borrow(&s->buffers, HTTP_POOL_LARGE);
    }
    return buffer;
}

/* A small buffer for an answer that has begun. NULL: none. */
static struct http_buffer *borrow_small(struct http_server *s, const struct connection *c)
{
    struct http_buffer *buffer = http_buffers_borrow(&s->buffers, HTTP_POOL_SMALL);
    while (buffer == NULL && connection_drop_slowest(s, c)) {
        buffer = http_buffers_borrow(&s->buffers, HTTP_POOL_SMALL);
    }
    return buffer;
}

/* Keeps a copy of bytes that the socket did not take. False: no buffer. */
static bool keep_copy(struct http_server *s, struct connection *c, const char *at, size_t len)
{
    while (len > 0) {
        struct http_buffer *buffer = len > HTTP_SMALL_DATA ? borrow_large(s, c) : NULL;
        if (buffer == NULL && len <= HTTP_WRITE_MAX) {
            buffer = borrow_small(s, c); /* one of up to five */
        }
        if (buffer == NULL) {
            return false;
        }
        size_t n = len < http_buffer_cap(buffer) ? len : http_buffer_cap(buffer);
        memcpy(buffer->data, at, n);
        buffer->len = n;
        append(s, c, buffer);
        at += n;
        len -= n;
    }
    return true;
}

/* Keeps a reference to stable bytes that the socket did not take. False: no buffer. */
static bool keep_reference(struct http_server *s, struct connection *c, const char *at, size_t len,
                           struct http_hold *hold)
{
    struct http_buffer *buffer = borrow_small(s, c);
    if (buffer == NULL) {
        return false;
    }
    buffer->at = at;
    buffer->len = len;
    buffer->hold = hold;
    if (hold != NULL) {
        http_hold_keep(hold);
    }
    append(s, c, buffer);
    return true;
}

/* Keeps the piece without its first `sent` bytes. False: no buffer. */
static bool keep_piece(struct http_server *s, struct connection *c,
                       const struct output_piece *piece, size_t sent)
{
    const char *at = piece->at + sent;
    size_t len = piece->len - sent;
    if (len == 0) {
        return true;
    }
    return piece->lifetime == PIECE_STABLE ? keep_reference(s, c, at, len, piece->hold)
                                           : keep_copy(s, c, at, len);
}

enum { PIECES_MAX = 4 };

/* Sends the pieces, behind what is unsent. Keeps what the socket does not take. */
static void send_pieces(struct http_server *s, struct connection *c,
                        const struct output_piece *pieces, size_t count)
{
    int64_t taken = 0;
    CHECK(count <= PIECES_MAX);
    if (c->out == NULL) {
        struct net_piece parts[PIECES_MAX];
        size_t given = 0;
        while (given < count) {
            const struct output_piece *piece = &pieces[given];
            bool part = piece->lifetime == PIECE_STABLE && piece->len > HTTP_WRITE_MAX;
            parts[given++] = (struct net_piece){piece->at, part ? HTTP_WRITE_MAX : piece->len};
            if (part) {
                break; /* nothing may overtake the rest */
            }
        }
        taken = net_write(s->net, connection_number(s, c), parts, given);
        if (taken == ERR_AGAIN) {
            taken = 0;
        }
        if (taken < 0) {
            c->flags |= CONNECTION_BROKEN;
            return;
        }
    }
    size_t left = (size_t)taken;
    for (size_t i = 0; i < count; i++) {
        size_t sent = left < pieces[i].len ? left : pieces[i].len;
        left -= sent;
        if (!keep_piece(s, c, &pieces[i], sent)) {
            c->flags |= CONNECTION_BROKEN;
            return;
        }
    }
}

/* Stable bytes of some length are sent from where they are. To copy them into the batch would cost more
 * than all the rest of such an answer. */
#define COPY_STABLE_MAX 2048
static bool is_copied(const struct output_piece *piece)
{
    return piece->lifetime != PIECE_STABLE || piece->len <= COPY_STABLE_MAX;
}

void output_emit(struct http_server *s, struct connection *c, const struct output_piece *pieces,
                 size_t count)
{
    CHECK(count < PIECES_MAX); /* one more for the batch */
    if (connection_is(c, CONNECTION_BROKEN)) {
        return;
    }
    size_t total = 0;
    bool copied = true;
    for (size_t i = 0; i < count; i++) {
        total += pieces[i].len;
        copied = copied && is_copied(&pieces[i]);
    }
    if (c == s->current && c->out == NULL && copied && total <= HTTP_BATCH - s->batch_len) {
        for (size_t i = 0; i < count; i++) {
            memcpy(s->batch + s->batch_len, pieces[i].at, pieces[i].len);
            s->batch_len += pieces[i].len;
        }
        return;
    }
    if (c != s->current || s->batch_len == 0) {
        send_pieces(s, c, pieces, count);
        return;
    }
    struct output_piece all[PIECES_MAX] = {{.at = s->batch, .len = s->batch_len}};
    memcpy(all + 1, pieces, count * sizeof(*pieces));
    s->batch_len = 0;
    send_pieces(s, c, all, count + 1);
}

void output_flush(struct http_server *s, struct connection *c)
{
    if (s->batch_len > 0) {
        struct output_piece batch = {.at = s->batch, .len = s->batch_len};
        s->batch_len = 0;
        send_pieces(s, c, &batch, 1);
    }
}

void output_writable(struct http_server *s, struct connection *c)
{
    while (c->out != NULL) {
        struct http_buffer *first = c->out;
        bool stable = first->at < first->data || first->at >= first->data + HTTP_LARGE_BUFFER;
        bool part = stable && first->len > HTTP_WRITE_MAX;
        struct net_piece piece = {first->at, part ? HTTP_WRITE_MAX : first->len};
        int64_t taken = net_write(s->net, connection_number(s, c), &piece, 1);
        if (taken < 0 && taken != ERR_AGAIN) {
            c->flags |= CONNECTION_BROKEN;
            break;
        }
        if (taken <= 0) {
            break;
        }
        c->flags |= CONNECTION_PROGRESS;
        first->at += taken;
        first->len -= (size_t)taken;
        s->unsent -= (size_t)taken;
        if (first->len > 0) {
            break;
        }
        c->out = first->next;
        http_buffers_return(&s->buffers, first);
    }
    input_resume(s, c);
}

/* A problem in place of an answer, or of a request that cannot be read. */
static void problem(struct http_server *s, struct connection *c, enum refusal refusal,
                    const char *headers);

/* --- Answers ---------------------------------------------------------------------------------- */

void output_answered(struct http_server *s, struct connection *c)
{
    bool stays = connection_is(c, CONNECTION_KEEP_ALIVE) && !s->draining;
    c->state = stays ? CONNECTION_IDLE : CONNECTION_CLOSING;
    c->flags |= CONNECTION_PROGRESS;
    if (c == s->current) {
        return; /* input_handle() continues with it */
    }
    if (!stays && c->in != NULL) {
        c->flags |= CONNECTION_DROPPED;
    }
    if (stays && c->in != NULL && c->out == NULL) {
        connection_queue(s, c);
    }
    connection_settle(s, c);
}

/* Slow connections closed for one large answer, at most. */
#define DROPPED_FOR_ONE 8

bool output_fits(struct http_server *s, const struct connection *c, size_t len,
                 enum piece_lifetime lifetime)
{
    if (len <= HTTP_WRITE_MAX) {
        return true;
    }
    size_t most = s->options.unsent_max;
    for (int i = 0; i < DROPPED_FOR_ONE && most > 0 && s->unsent + len > most; i++) {
        if (!connection_drop_slow(s, LIST_UNSENT_LARGE, c) &&
            !connection_drop_slow(s, LIST_UNSENT, c)) {
            break;
        }
    }
    if (most > 0 && s->unsent + len > most) {
        return false;
    }
    size_t batched = c == s->current ? s->batch_len : 0;
    size_t small = batched / HTTP_SMALL_DATA + 3; /* copies of the batch, the head, a reference */
    while (http_buffers_left(&s->buffers, HTTP_POOL_SMALL) < small) {
        if (!connection_drop_slowest(s, c)) {
            return false;
        }
    }
    return lifetime == PIECE_STABLE ||
           http_buffers_left(&s->buffers, HTTP_POOL_LARGE + c->class) > 0 ||
           http_buffers_left(&s->buffers, HTTP_POOL_LARGE) > 0 ||
           connection_drop_slow(s, LIST_UNSENT_LARGE, c) || connection_drop_behind(s, c) ||
           input_evict(s, HTTP_POOL_LARGE);
}

/* Builds the answer in the batch if it fits there. */
static void answer(struct http_server *s, struct connection *c, int status,
                   const char *content_type, const char *headers, struct output_piece body)
{
    bool bodiless = status == 204 || status == 304;
    int64_t length = bodiless ? -1 : (int64_t)body.len;
    if (bodiless || connection_is(c, CONNECTION_HEAD)) {
        body.len = 0;
    }
    if (!output_fits(s, c, body.len, body.lifetime)) {
        s->counts.unkept++;
        problem(s, c, REFUSAL_OVERLOADED, "Retry-After: 1\r\n");
        return;
    }
    if (c == s->current && c->out == NULL && is_copied(&body) &&
        !connection_is(c, CONNECTION_BROKEN)) {
        struct out batch = out_over(s->batch + s->batch_len, HTTP_BATCH - s->batch_len);
        output_head(s, c, &batch, status, content_type, headers, length);
        out_bytes(&batch, body.at, body.len);
        if (!batch.overflow) {
            s->batch_len += batch.len;
            return;
        }
    }
    struct out head = out_over(s->head, sizeof(s->head));
    output_head(s, c, &head, status, content_type, headers, length);
    CHECK(!head.overflow);
    struct output_piece pieces[] = {{.at = head.at, .len = head.len}, body};
    output_emit(s, c, pieces, body.len > 0 ? 2 : 1);
}

bool http_answer(struct http_server *s, struct http_exchange exchange, int status,
                 const char *content_type, const char *headers, struct span body)
{
    struct connection *c = connection_of(s, exchange);
    if (c == NULL) {
        return false;
    }
    CHECK(c->state != CONNECTION_STREAM);
    answer(s, c, status, content_type, headers,
           (struct output_piece){.at = body.at, .len = body.len});
    output_answered(s, c);
    return true;
}

bool http_answer_lasting(struct http_server *s, struct http_exchange exchange, int status,
                         const char *content_type, const char *headers, struct span body)
{
    return http_answer_held(s, exchange, status, content_type, headers, body, NULL);
}

bool http_answer_held(struct http_server *s, struct http_exchange exchange, int status,
                      const char *content_type, const char *headers, struct span body,
                      struct http_hold *hold)
{
    struct connection *c = connection_of(s, exchange);
    if (c == NULL) {
        return false;
    }
    CHECK(c->state != CONNECTION_STREAM);
    answer(s, c, status, content_type, headers,
           (struct output_piece){
               .at = body.at, .len = body.len, .lifetime = PIECE_STABLE, .hold = hold});
    output_answered(s, c);
    return true;
}

bool http_answer_ready(struct http_server *s, struct http_exchange exchange, struct span bytes)
{
    struct connection *c = connection_of(s, exchange);
    if (c == NULL) {
        return false;
    }
    CHECK(c->state != CONNECTION_STREAM);
    const char *line = memchr(bytes.at, '\n', bytes.len);
    CHECK(line != NULL);
    size_t status = (size_t)(line + 1 - bytes.at);
    size_t len = bytes.len;
    if (connection_is(c, CONNECTION_HEAD)) {
        const char *end = memmem(bytes.at, bytes.len, "\r\n\r\n", 4);
        CHECK(end != NULL);
        len = (size_t)(end + 4 - bytes.at);
    }
    struct output_piece pieces[] = {{.at = bytes.at, .len = status},
                                    lines_of(s, c),
                                    {.at = bytes.at + status, .len = len - status}};
    output_emit(s, c, pieces, 3);
    output_answered(s, c);
    return true;
}

static void problem(struct http_server *s, struct connection *c, enum refusal refusal,
                    const char *headers)
{
    char bytes[HTTP_PROBLEM_MAX];
    struct out body = out_over(bytes, sizeof(bytes));
    const struct refusal_text *text = refusal_text(refusal);
    s->app.problem(s->app.context, refusal, &body);
    CHECK(!body.overflow);
    answer(s, c, text->status, "application/problem+json", headers,
           (struct output_piece){.at = body.at, .len = body.len});
}

bool http_answer_problem(struct http_server *s, struct http_exchange exchange, enum refusal refusal,
                         const char *headers)
{
    struct connection *c = connection_of(s, exchange);
    if (c == NULL) {
        return false;
    }
    CHECK(c->state != CONNECTION_STREAM);
    problem(s, c, refusal, headers);
    output_answered(s, c);
    return true;
}

void output_refuse(struct http_server *s, struct connection *c, enum refusal refusal,
                   uint64_t *count)
{
    (*count)++;
    bool later = refusal_text(refusal)->retry == RETRY_LATER;
    c->flags &= (uint16_t)~CONNECTION_KEEP_ALIVE;
    c->flags |= CONNECTION_DROPPED;
    problem(s, c, refusal, later ? "Retry-After: 1\r\n" : "");
    c->state = CONNECTION_CLOSING;
}
