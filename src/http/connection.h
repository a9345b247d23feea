/*
 * One connection of the server, and the server's own shape: what connection.c (states, timers,
 * ends), input.c (bytes to requests), output.c (answers to bytes), stream.c and server.c share.
 * Nobody else includes this.
 *
 * What stays true between two calls into the server:
 *  - a connection is in exactly one state and on the list of at most one timer;
 *  - `in` holds bytes that are not parsed yet, `out` what the socket did not take; an idle
 *    connection has neither;
 *  - nothing is parsed while an answer is owed or unsent;
 *  - the network reports only what the state can use (connection_settle).
 */
#ifndef SLUICE_HTTP_CONNECTION_H
#define SLUICE_HTTP_CONNECTION_H

#include "http/buffers.h"
#include "http/parser.h"
#include "http/server.h"

enum connection_state {
    CONNECTION_FREE,     /* no connection here */
    CONNECTION_IDLE,     /* no request has begun, or its bytes wait in `in` unparsed */
    CONNECTION_READING,  /* a request is half there, in `in` */
    CONNECTION_HANDLING, /* inside the application's handle() */
    CONNECTION_PENDING,  /* the application kept the exchange */
    CONNECTION_STREAM,   /* server-sent events */
    CONNECTION_CLOSING,  /* closes once `out` is sent */
    CONNECTION_LINGER,   /* our side is closed; what still comes is dropped, for a while */
};

enum connection_flag {
    CONNECTION_HEAD = 1,       /* the request was HEAD */
    CONNECTION_KEEP_ALIVE = 2, /* stays open after the answer */
    CONNECTION_VERSION_10 = 4, /* the request was HTTP/1.0: keep-alive has to be said */
    CONNECTION_PROGRESS = 8,   /* answered, or bytes taken: its time begins anew */
    CONNECTION_BROKEN = 16,    /* the socket failed, or no buffer was left for the rest */
    CONNECTION_DROPPED = 32,   /* bytes of the peer were or may be left unread: linger */
    CONNECTION_MUTED = 64,     /* bytes came while an answer is owed: do not report them again */
    CONNECTION_BUSY = 128,     /* counted in server->busy */
    CONNECTION_QUEUED = 256,   /* its number is in server->todo */
};

/* Each kind has one duration, so a list in order of start is in order of end. */
enum timer_kind { TIMER_IDLE, TIMER_HEADER, TIMER_WRITE, TIMER_LINGER, TIMER_COUNT, TIMER_NONE };

#define CONNECTION_NONE UINT32_MAX

struct connection {
    struct http_buffer *in;
    struct http_buffer *out;
    int64_t since_ms; /* when its timer began */
    uint32_t next;    /* on the list of its timer */
    uint32_t previous;
    uint32_t generation; /* of its exchanges; never goes back, also not between connections */
    uint16_t flags;
    uint8_t state;
    uint8_t timer;
    uint8_t watched; /* what net_watch was told last */
    uint8_t blanks;  /* empty lines since the last request: they are few, in however many reads */
};
_Static_assert(sizeof(struct connection) <= 64, "one cache line for each connection");

struct timer_list {
    uint32_t first; /* the oldest */
    uint32_t last;
};

/* How long a peer may take to read the last answer before the connection goes for good. */
#define HTTP_LINGER_MS 2000
/* All answers of one connection's turn; what is larger goes to the socket directly. */
#define HTTP_BATCH 65536U
/* Head of an answer: status, what the server adds, and the application's own lines. */
#define HTTP_ANSWER_HEAD_MAX 4096U
#define HTTP_PROBLEM_MAX 2048U

/* How a head says what becomes of the connection; an index of http_server.lines. */
enum { LINES_KEEP, LINES_KEEP_10, LINES_CLOSE, LINES_COUNT };
#define LINES_MAX 80

struct http_server {
    struct net *net;
    struct http_options options;
    struct http_app app;
    int64_t now_ms;
    int64_t step_ms; /* times that begin anew are kept to this accuracy, to spare the lists */
    bool draining;
    uint32_t open;
    uint32_t busy;
    struct http_counts counts;
    struct timer_list timers[TIMER_COUNT];
    struct connection *connections;
    struct http_buffers buffers;
    /* Connections to go on with outside of whatever found out: an answered one with requests
     * waiting in `in`, a stream whose socket failed. Each number at most once. */
    uint32_t *todo;      /* queued for the next turn */
    uint32_t *todo_next; /* the other half of a pair */
    uint32_t todo_count;
    /* The connection whose input is being handled; its answers gather in batch. */
    struct connection *current;
    size_t batch_len;
    struct http_parsed parsed;
    /* "Date" and "Connection" lines, made once a second. */
    int64_t lines_second;
    uint32_t lines_len[LINES_COUNT];
    char lines[LINES_COUNT][LINES_MAX];
    char head[HTTP_ANSWER_HEAD_MAX];
    char batch[HTTP_BATCH];
    char read[HTTP_READ_BUFFER];
};

static inline uint32_t connection_number(const struct http_server *s, const struct connection *c)
{
    return (uint32_t)(c - s->connections);
}
static inline bool connection_is(const struct connection *c, uint16_t flag)
{
    return (c->flags & flag) != 0;
}

/* connection.c */
void connection_open(struct http_server *s, struct connection *c);
/* Makes timer, watch and count fit the state; ends what has to end. After each change. */
void connection_settle(struct http_server *s, struct connection *c);
/* Closes now, whatever the state; the application hears of it if it still had the exchange. */
void connection_lose(struct http_server *s, struct connection *c);
/* Notes that connection_resume has to be called, soon but not here. */
void connection_queue(struct http_server *s, struct connection *c);
/* The connection of an exchange that may still be answered; NULL if it is gone. */
struct connection *connection_of(struct http_server *s, struct http_exchange exchange);
/* The oldest half-read request with a small buffer, or with a large one; NULL if there is none. */
struct connection *connection_oldest_reading(struct http_server *s, bool large);
struct http_exchange connection_exchange(const struct http_server *s, const struct connection *c);

/* input.c */
void input_readable(struct http_server *s, struct connection *c);
/* Parses what `in` holds. */
void input_resume(struct http_server *s, struct connection *c);

/* output.c */
void output_lines(struct http_server *s);
/* Queues the pieces behind what is queued already, or sends them. Those from `lasting` on need not
 * be copied. Failure shows as CONNECTION_BROKEN. */
void output_emit(struct http_server *s, struct connection *c, const struct net_piece *pieces,
                 size_t count, size_t lasting);
/* The same for lasting pieces that last while hold counts somebody (NULL: as long as the server). */
void output_emit_held(struct http_server *s, struct connection *c, const struct net_piece *pieces,
                      size_t count, size_t lasting, struct http_hold *hold);
/* Sends the batch of the current connection. */
void output_flush(struct http_server *s, struct connection *c);
/* Sends what the socket did not take before. */
void output_writable(struct http_server *s, struct connection *c);
void output_release(struct http_server *s, struct connection *c);
/* The problem answer of a refused request; the connection closes after it, and is counted. */
void output_refuse(struct http_server *s, struct connection *c, enum refusal refusal,
                   uint64_t *count);
/* Head of an answer into *head. length < 0: no Content-Length. */
void output_head(struct http_server *s, const struct connection *c, struct out *head, int status,
                 const char *content_type, const char *headers, int64_t length);
/* The exchange of c was answered: what comes next on this connection. */
void output_answered(struct http_server *s, struct connection *c);

#endif
