/*
 * An HTTP/1.1 server for one event loop: connections, parsing, limits, answers, streams. It knows
 * nothing about sales. It calls an application (struct http_app) for each complete request. The
 * application answers at once, or keeps the exchange and answers later on the same loop.
 *
 * Happy path: the server reads into the loop's read buffer and parses there. It calls handle() with
 * spans into that buffer, appends the answer to those before it (pipelining), and sends them all
 * with one write. An incomplete request borrows a buffer from a bounded pool. So does an answer that
 * the socket does not take; then the connection is not read until the answer is sent. A connection
 * whose answer is pending is not parsed further. When the table of connections is nearly full, a new
 * connection closes the one that has been idle longest.
 *
 * What can go wrong: the client sends a malformed request, exceeds a limit, is too slow, or
 * disconnects. The server answers with a problem, closes the connection, or both. No client can make
 * it allocate memory beyond the pools, or block the loop.
 *
 * Threads: the loop's own, except for struct http_hold.
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
    HTTP_OTHER, /* any other method of HTTP, except CONNECT, which the parser refuses */
};

/* The headers that a request has fields for: field, name. Others are ignored. A repeated one is
 * refused with 400, unless it is in HTTP_LIST_HEADERS. */
#define HTTP_HEADERS(X)                                                                            \
    X(authorization, "authorization")                                                              \
    X(content_type, "content-type")                                                                \
    X(host, "host")                                                                                \
    X(origin, "origin")                                                                            \
    X(expect, "expect")                                                                            \
    X(sluice_device, "sluice-device")                                                              \
    X(last_event_id, "last-event-id")                                                              \
    X(if_none_match, "if-none-match")                                                              \
    X(webhook_id, "webhook-id")                                                                    \
    X(webhook_timestamp, "webhook-timestamp")                                                      \
    X(webhook_signature, "webhook-signature")                                                      \
    X(access_control_request_method, "access-control-request-method")                              \
    HTTP_LIST_HEADERS(X)
/* Lists of preferences, which a client may send in several lines. Then the value is empty, and the
 * client gets the answer for clients without preferences. */
#define HTTP_LIST_HEADERS(X)                                                                       \
    X(accept, "accept")                                                                            \
    X(accept_encoding, "accept-encoding")

/* One complete request. The spans are valid during handle() only. */
struct http_request {
    enum http_method method; /* the server leaves out the body of an answer to HEAD */
    struct span head;        /* the request line and all header lines (client_address.h) */
    struct span path;        /* of the target, not percent-decoded */
    struct span query;       /* after '?', may be empty */
    struct span body;        /* without chunk framing */
#define X(field, name) struct span field; /* at is NULL: the header is absent */
    HTTP_HEADERS(X)
#undef X
};

struct http_server;

/* Identifies one exchange. It stays unique after its connection is closed. */
struct http_exchange {
    uint32_t connection;
    uint32_t generation;
};

/* Classes of clients for large buffers. Each class except ANYONE has large buffers of its own. When
 * all of these are in use, it takes buffers of ANYONE. */
enum http_class {
    HTTP_CLASS_ANYONE,
    HTTP_CLASS_OPERATORS,
    HTTP_CLASS_PAYMENTS,
    HTTP_CLASSES,
};

enum http_outcome {
    HTTP_ANSWERED, /* handle() called one of the answer functions or http_stream_begin */
    HTTP_PENDING,  /* the application keeps the exchange and answers later */
};

struct http_app {
    void *context;
    enum http_outcome (*handle)(void *context, struct http_exchange exchange,
                                const struct http_request *request);
    /* The head of a request is complete, and it needs a large buffer. True: its body may have one of
     * *ret_class. False: the application has answered from the head alone, and the connection closes
     * without its body. request->body is empty; body_len is its length, or as much of a chunked one
     * as has arrived. NULL: every request may. */
    bool (*admit)(void *context, struct http_exchange exchange, const struct http_request *request,
                  size_t body_len, enum http_class *ret_class);
    /* Writes the body of a problem answer. */
    void (*problem)(void *context, enum refusal refusal, struct out *body);
    /* The client of a pending exchange has closed its side. It may still read the answer. */
    void (*finished)(void *context, struct http_exchange exchange);
    /* The connection of a pending exchange or of a stream is closed. */
    void (*gone)(void *context, struct http_exchange exchange);
};

struct http_options {
    uint32_t connections_max; /* per loop */
    uint32_t address_max;     /* connections of one client address; 0: any number */
    /* Buffers of HTTP_SMALL_BUFFER and HTTP_LARGE_BUFFER bytes. If none is free, clients that do not
     * read give way, then incomplete requests (enum connection_list in http/connection.h has the
     * order). If nobody can, the request that needs one gets 503; so does a large answer that could
     * not be kept if the socket did not take it. */
    uint32_t small_buffers;
    uint32_t large_buffers;
    uint32_t reserved_buffers; /* large ones of each class but HTTP_CLASS_ANYONE */
    /* Bytes of answers that sockets have not taken. Above this, connections that have taken long are
     * closed, and large answers are a 503. 0: no limit. */
    size_t unsent_max;
    /* From the connection's start, or from the first byte of a later request, to its last byte. */
    int64_t header_timeout_ms;
    int64_t idle_timeout_ms;  /* between requests */
    int64_t write_timeout_ms; /* without a byte taken of an unsent answer or event */
};

/* Bytes of memory that a server with these options takes. */
size_t http_server_bytes(const struct http_options *options);
/* ERR_NOMEM. */
int http_server_new(struct net *net, const struct http_options *options, const struct http_app *app,
                    struct http_server **ret_server);
void http_server_free(struct http_server *server);
/* Sets new timeouts. Ignores the other options. */
void http_server_retime(struct http_server *server, const struct http_options *options);

/* Handles these events: reads, parses, calls the application, writes. Then flushes. */
void http_server_events(struct http_server *server, const struct net_event *events, size_t count,
                        int64_t now_ms);
/* Flushes, and handles the timers that have expired. Before a connection is given up, it is read: a
 * process that stood still answers what arrived meanwhile. *ret_next_ms: when to call again at the
 * latest (INT64_MAX: never). Takes time in proportion to the expired timers. */
void http_server_timers(struct http_server *server, int64_t now_ms, int64_t *ret_next_ms);
/* Stops accepting, closes idle connections, and closes the others after their answer. */
void http_server_drain(struct http_server *server);
/* Connections that the server itself closed or refused a request of, by cause. The connection closes,
 * except for unkept. */
struct http_counts {
    uint64_t malformed; /* malformed, not supported, or above a limit */
    uint64_t timeouts;  /* not complete in time */
    uint64_t
        evicted; /* no buffer was free: incomplete (408; the newcomer 503), or behind another */
    uint64_t displaced; /* idle, or not complete for a while: closed for a new connection */
    uint64_t crowded;   /* closed at the start: too many connections of that address */
    uint64_t slow;      /* held an answer for long when its buffers, bytes or place were needed */
    uint64_t unkept;    /* 503 in place of a large answer; the connection stays open */
};
struct http_counts http_server_counts(const struct http_server *server);
/* Open connections. */
uint32_t http_server_connections(const struct http_server *server);
/* Buffers that connections have borrowed. */
struct http_borrowed {
    uint32_t small;
    uint32_t large;    /* of HTTP_CLASS_ANYONE */
    uint32_t reserved; /* large ones of all other classes */
};
struct http_borrowed http_server_borrowed(const struct http_server *server);
/* Connections with an incomplete request, a pending exchange, a stream or unsent bytes. */
uint32_t http_server_busy(const struct http_server *server);

/*
 * Answers an exchange, inside handle() or while it is pending. headers: complete header lines, each
 * ending in CR LF ("": none). The server adds Content-Length, Connection and Date. content_type
 * NULL: none (204, 304). False: the connection is gone, and nothing happens.
 */
bool http_answer(struct http_server *server, struct http_exchange exchange, int status,
                 const char *content_type, const char *headers, struct span body);
/* The same for a body that stays unchanged for as long as the server lives. The server keeps it by
 * reference if the socket does not take it. */
bool http_answer_lasting(struct http_server *server, struct http_exchange exchange, int status,
                         const char *content_type, const char *headers, struct span body);
/* A reference count for bytes that several threads share. The thread that releases the last
 * reference calls free. */
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
/* The same for a body that stays unchanged while hold counts a reference. The caller has one during
 * the call. The server takes its own if the socket does not take the body at once. hold NULL: as
 * http_answer_lasting(). */
bool http_answer_held(struct http_server *server, struct http_exchange exchange, int status,
                      const char *content_type, const char *headers, struct span body,
                      struct http_hold *hold);
/* The same with the body that the application's problem() writes. */
bool http_answer_problem(struct http_server *server, struct http_exchange exchange,
                         enum refusal refusal, const char *headers);
/* The same for a complete answer, from "HTTP/1.1 " to the end of the body. The server inserts Date
 * and Connection behind the first line, and leaves out the body for HEAD. */
bool http_answer_ready(struct http_server *server, struct http_exchange exchange,
                       struct span bytes);
/* Continues connections that were answered outside of handle(): handles pipelined requests behind
 * the answer. Closes streams whose socket failed. Call once after a series of such answers. */
void http_server_flush(struct http_server *server);

/* Server-sent events. Sends the head: text/event-stream, the given headers, Connection: close, no
 * length. False: the connection is gone, or the request was HEAD and is answered with the head. If
 * the client closes its side, the stream ends, and the server calls gone(). */
bool http_stream_begin(struct http_server *server, struct http_exchange exchange,
                       const char *headers);
/* False: the connection is gone or has unsent bytes. The caller sends a newer state later. */
bool http_stream_send(struct http_server *server, struct http_exchange exchange, struct span bytes);
/* Whether http_stream_send() would try to send. */
bool http_stream_ready(struct http_server *server, struct http_exchange exchange);
/* Closes the stream after its unsent bytes. */
void http_stream_end(struct http_server *server, struct http_exchange exchange);

/* The exchange's answer may use large buffers of this class, until the next request. */
void http_use_class(struct http_server *server, struct http_exchange exchange,
                    enum http_class class);
/* Whether the exchange can still be answered, or is a stream. */
bool http_alive(struct http_server *server, struct http_exchange exchange);
/* The client's address; family 0: the connection is gone, or the address is unknown. */
struct net_address http_peer(struct http_server *server, struct http_exchange exchange);

#endif
