/*
 * HTTP/1.1 for one event loop: connections, parsing, limits, answers, streams. It knows nothing of
 * sales; an application (struct http_app) is called for each complete request and answers at once,
 * or keeps the exchange and answers later on the same loop.
 *
 * Happy path: bytes are read into the loop's one read buffer, parsed there, the handler is called
 * with spans into that buffer, the answer is written behind the answers before it (pipelining), and
 * one write sends them all. A request that is not complete borrows a buffer from a bounded pool; an
 * answer the socket does not take borrows one too, and reading stops until it is gone.
 * A connection whose answer is pending is not parsed further.
 *
 * What can go wrong is the peer's doing and ends in a problem answer and/or a closed connection;
 * nothing a peer does allocates beyond the pools or blocks the loop.
 *
 * Everything here is called on the loop's own thread.
 */
#ifndef SLUICE_HTTP_SERVER_H
#define SLUICE_HTTP_SERVER_H

#include <stdatomic.h>

#include "core/types.h"
#include "port/net.h"

enum http_method {
    HTTP_GET,
    HTTP_HEAD,
    HTTP_POST,
    HTTP_PUT,
    HTTP_DELETE,
    HTTP_OPTIONS,
    HTTP_OTHER, /* known to HTTP, used by nobody here: 405 or 501 */
};

/* The headers we look at: field, name. One list; all others are skipped. A repeated one of these is
 * refused with 400, except the lists of HTTP_LIST_HEADERS. */
#define HTTP_HEADERS(X)                                                                            \
    X(authorization, "authorization")                                                              \
    X(content_type, "content-type")                                                                \
    X(host, "host")                                                                                \
    X(origin, "origin")                                                                            \
    X(expect, "expect")                                                                            \
    X(last_event_id, "last-event-id")                                                              \
    X(if_none_match, "if-none-match")                                                              \
    X(webhook_id, "webhook-id")                                                                    \
    X(webhook_timestamp, "webhook-timestamp")                                                      \
    X(webhook_signature, "webhook-signature")                                                      \
    X(access_control_request_method, "access-control-request-method")                              \
    HTTP_LIST_HEADERS(X)
/* Lists of preferences, which a client may send in several lines. Two lines count as none: the answer
 * for a client without preferences suits everybody. */
#define HTTP_LIST_HEADERS(X)                                                                       \
    X(accept, "accept")                                                                            \
    X(accept_encoding, "accept-encoding")

/* One complete request. The spans point into a buffer that is valid only during the handler. */
struct http_request {
    enum http_method method; /* HEAD is told apart; the body of its answer is left out for you */
    struct span path;        /* of the target, percent-encoding untouched */
    struct span query;       /* after '?', may be empty */
    struct span body;        /* de-chunked */
#define X(field, name) struct span field; /* at is NULL where the header is absent */
    HTTP_HEADERS(X)
#undef X
};

struct http_server;

/* Names one exchange; stays comparable after the connection went away. */
struct http_exchange {
    uint32_t connection;
    uint32_t generation;
};

enum http_outcome {
    HTTP_ANSWERED, /* the handler called http_answer or http_stream_begin */
    HTTP_PENDING,  /* the handler keeps the exchange and will answer later */
};

struct http_app {
    void *context;
    enum http_outcome (*handle)(void *context, struct http_exchange exchange,
                                const struct http_request *request);
    /* A framing error or a limit: make the problem answer's body (the connection closes after it).
     */
    void (*problem)(void *context, enum refusal refusal, struct out *body);
    /* The peer of a pending exchange will send no more; it may still read the answer, or be gone. */
    void (*finished)(void *context, struct http_exchange exchange);
    /* The connection of a pending exchange or of a stream went away. */
    void (*gone)(void *context, struct http_exchange exchange);
};

struct http_options {
    uint32_t connections_max; /* per loop */
    /* HTTP_SMALL_BUFFER and HTTP_LARGE_BUFFER bytes each. None is free: the oldest half-read request
     * with one of that size gets 408; where answers hold all of them, the newcomer gets 503. */
    uint32_t small_buffers;
    uint32_t large_buffers;
    int64_t header_timeout_ms; /* from the first byte of a request to its last */
    int64_t idle_timeout_ms;   /* between requests */
    int64_t write_timeout_ms;  /* an answer or stream the peer does not take */
};

/* Bytes of memory one server of these options takes, for the sum printed at start. */
size_t http_server_bytes(const struct http_options *options);
int http_server_new(struct net *net, const struct http_options *options, const struct http_app *app,
                    struct http_server **ret_server);
void http_server_free(struct http_server *server);
/* Takes over reloaded timeouts; sizes stay. */
void http_server_retime(struct http_server *server, const struct http_options *options);

/* One step of the turn: handle these events (reads, parses, calls the app, writes). */
void http_server_events(struct http_server *server, const struct net_event *events, size_t count,
                        int64_t now_ms);
/* Timeouts; when to call next at the latest in ret_next_ms (INT64_MAX: never). O(expired). */
void http_server_timers(struct http_server *server, int64_t now_ms, int64_t *ret_next_ms);
/* Draining: stop accepting, close idle connections, answer with Connection: close from now on. */
void http_server_drain(struct http_server *server);
/* Open connections, and those with an exchange in progress or unsent bytes. */
/* Connections closed by the server, since its start, by why. */
struct http_counts {
    uint64_t malformed; /* the request's framing */
    uint64_t timeouts;  /* the client was too slow */
    uint64_t evicted;   /* no buffer was left: half-read requests that had to go, and newcomers */
};
struct http_counts http_server_counts(const struct http_server *server);
uint32_t http_server_connections(const struct http_server *server);
uint32_t http_server_busy(const struct http_server *server);

/*
 * An answer. headers: complete extra header lines, each ending in CRLF ("" for none).
 * Content-Length, Connection and Date are added. Content type NULL: none (204, 304). Valid for the
 * exchange being handled and for pending ones; false if the connection is gone (nothing else
 * happens then).
 */
bool http_answer(struct http_server *server, struct http_exchange exchange, int status,
                 const char *content_type, const char *headers, struct span body);
/* The same for bytes that stay as they are for as long as the server lives: they are not copied. */
bool http_answer_lasting(struct http_server *server, struct http_exchange exchange, int status,
                         const char *content_type, const char *headers, struct span body);
/* Bytes that several threads share: they stay while somebody counts. Whoever counts down to 0 calls
 * free. */
struct http_hold {
    _Atomic uint32_t count;
    void (*free)(struct http_hold *hold);
};
static inline void http_hold_keep(struct http_hold *hold)
{
    (void)atomic_fetch_add_explicit(&hold->count, 1, memory_order_relaxed);
}
static inline void http_hold_release(struct http_hold *hold)
{
    if (atomic_fetch_sub_explicit(&hold->count, 1, memory_order_acq_rel) == 1) {
        hold->free(hold);
    }
}
/* The same for bytes that stay as they are while hold counts the caller, who may let go after the
 * call: what the socket has not taken by then is counted by the server. */
bool http_answer_held(struct http_server *server, struct http_exchange exchange, int status,
                      const char *content_type, const char *headers, struct span body,
                      struct http_hold *hold);
/* The same with the application's own problem body for that refusal (struct http_app). */
bool http_answer_problem(struct http_server *server, struct http_exchange exchange,
                         enum refusal refusal, const char *headers);
/* The same with all bytes ready made: "HTTP/1.1 ..." to the end of the body, without Date and
 * Connection, which are put behind the first line. HEAD sends only up to the end of the headers. */
bool http_answer_ready(struct http_server *server, struct http_exchange exchange,
                       struct span bytes);
/* Sends what answers given outside of handle() (pending ones) wait for; once, after a round of
 * them. */
void http_server_flush(struct http_server *server);

/* Server-sent events: begin sends the headers (text/event-stream, yours, no length, Connection:
 * close at the end). False also for HEAD, which has been answered with the headers alone. A peer
 * that closes its side has left a stream: gone() is called. */
bool http_stream_begin(struct http_server *server, struct http_exchange exchange,
                       const char *headers);
/* False if the connection is gone or still has unsent bytes (the caller skips to a newer state
 * later). */
bool http_stream_send(struct http_server *server, struct http_exchange exchange, struct span bytes);
bool http_stream_ready(struct http_server *server, struct http_exchange exchange);
/* Sends what is left, then closes. */
void http_stream_end(struct http_server *server, struct http_exchange exchange);

bool http_alive(struct http_server *server, struct http_exchange exchange);
struct net_address http_peer(struct http_server *server, struct http_exchange exchange);

#endif
