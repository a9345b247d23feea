/*
 * A connection, and the server that owns it: what connection.c (states, timers, closing), input.c
 * (bytes to requests), output.c (answers to bytes), stream.c and server.c share. No other part of
 * the program includes this file.
 *
 * Invariants between two calls into the server:
 *  - A connection is in one state and on the list of at most one timer.
 *  - `in` holds an incomplete request, or requests that are not handled yet. `out` holds what the
 *    socket did not take.
 *  - Nothing is parsed while an answer is pending or unsent.
 *  - The network reports only events that the state can use (connection_settle).
 *
 * Threads: the loop's own.
 */
#ifndef SLUICE_HTTP_CONNECTION_H
#define SLUICE_HTTP_CONNECTION_H

#include "base/index_list.h"
#include "http/buffers.h"
#include "http/parser.h"
#include "http/server.h"

enum connection_state {
    CONNECTION_FREE,     /* unused */
    CONNECTION_IDLE,     /* between requests; `in` may hold requests that are not parsed yet */
    CONNECTION_READING,  /* `in` holds an incomplete request */
    CONNECTION_HANDLING, /* inside the application's handle() */
    CONNECTION_PENDING,  /* the application will answer later */
    CONNECTION_STREAM,   /* server-sent events */
    CONNECTION_CLOSING,  /* closes once `out` is sent */
    CONNECTION_LINGER,   /* our side is closed; input is dropped for HTTP_LINGER_MS */
};

enum connection_flag {
    CONNECTION_HEAD = 1,       /* the request is HEAD */
    CONNECTION_KEEP_ALIVE = 2, /* stays open after the answer */
    CONNECTION_VERSION_10 = 4, /* the request is HTTP/1.0: the answer needs a keep-alive header */
    CONNECTION_PROGRESS = 8,   /* answered, or the socket took bytes: restart the timer */
    CONNECTION_BROKEN = 16,    /* the socket failed, or no buffer was free for an unsent answer */
    CONNECTION_DROPPED = 32,   /* the client's input was or may be left unread: linger */
    CONNECTION_MUTED = 64,     /* input arrived while an answer is pending: stop watching for it */
    CONNECTION_BUSY = 128,     /* counted in http_server.busy */
    CONNECTION_QUEUED = 256,   /* in http_server.resume */
    CONNECTION_NEW = 512,      /* no request of it was handled or refused yet */
};

/* All timers of a kind have the same duration, so a list in order of start is in order of expiry. */
enum timer_kind { TIMER_IDLE, TIMER_HEADER, TIMER_WRITE, TIMER_LINGER, TIMER_COUNT, TIMER_NONE };

/*
 * Connections that can be closed, or lose their buffer, when others need it: at most one list each,
 * those that came to it longest ago first.
 *
 * Who gives way, in this order. In brackets: what is counted (struct http_counts). "For long" is
 * HTTP_PATIENCE_MS or longer.
 *
 * For a place, when few are left (connection_make_room()):
 *   1. the connection that has been idle longest: it is closed [displaced]. While no place at all is
 *      left, so that nobody new can ask for one, only if it has been idle for long
 *   2. one that lingers: it is closed [displaced]
 *   3. the oldest request that has been incomplete for long: 408 [displaced]
 *   4. the client that has left an answer unread longest, and for long: its connection is closed
 *      [slow]
 * For a buffer for input (input_borrow()):
 *   1. the client that has left an answer unread longest, and for long; for a large buffer only one
 *      that holds such a buffer, for a small one those without a large one first: its connection is
 *      closed [slow]
 *   2. for a large buffer: requests that have waited for long behind a pending answer: they are
 *      dropped, and the connection closes after that answer [evicted]
 *   3. the oldest incomplete request in a buffer of the pool: 408 [evicted]
 *   4. the newcomer: an incomplete request gets 503 [evicted]; requests behind an answer are dropped,
 *      and the connection closes after that answer
 * For an answer that could not be kept otherwise, if its body is longer than HTTP_WRITE_MAX
 * (output_fits()):
 *   1., 2. as for input; for unsent bytes (unsent_max) and small buffers only 1.
 *   3. for a large buffer: the oldest incomplete request in one for anyone: 408 [evicted]
 *   4. the answer itself: 503 instead, and the connection stays open [unkept]
 * For the rest of a smaller answer: 1.; then its own connection is closed.
 */
enum connection_list {
    LIST_READING,                          /* + enum http_pool_kind: incomplete requests */
    LIST_IDLE = LIST_READING + HTTP_POOLS, /* between requests, or without any, and no input */
    LIST_UNSENT,                           /* bytes are unsent, in small buffers */
    LIST_UNSENT_LARGE,                     /* bytes are unsent, and `in` or `out` is large */
    LIST_BEHIND_LARGE, /* a large buffer holds requests behind an answer that the application owes */
    LIST_LINGER,
    LIST_COUNT,
    LIST_NONE = LIST_COUNT,
};

struct connection {
    struct http_buffer *in;
    struct http_buffer *out;
    int64_t since_ms;           /* start of its timer */
    struct index_node by_timer; /* on the list of its timer */
    struct index_node by_list;  /* on its list of enum connection_list */
    uint32_t listed_ms;         /* when it came to that list; the lower bits of now_ms */
    uint32_t generation; /* number of its last exchange; grows for as long as the server lives */
    uint16_t flags;      /* enum connection_flag */
    uint8_t state;       /* enum connection_state */
    uint8_t timer;       /* enum timer_kind */
    uint8_t watched;     /* events last requested with net_watch */
    uint8_t blank_lines; /* since the last request, over all reads; the parser limits them */
    uint8_t list;        /* enum connection_list */
    uint8_t class;       /* enum http_class: of its large buffers */
};
_Static_assert(sizeof(struct connection) <= 64, "one cache line for each connection");

/* After the last answer: wait this long for the client to close before the connection is closed. */
#define HTTP_LINGER_MS 2000
/* A new connection closes an idle one when fewer places than this are left: so many connections are
 * accepted at once, and more. A small table keeps fewer. */
#define HTTP_PLACES_LEFT 128U
#define HTTP_PLACES_PART 16U
/* A connection that is used goes to the end of the idle ones at most this often. */
#define HTTP_LIST_STEP_MS 20
/* While the table is full, a place is looked for this often. */
#define HTTP_FULL_MS 50
/* How long a request may be incomplete, and an answer unsent, before others may take its place. */
#define HTTP_PATIENCE_MS 1000
/* Stable bytes of an answer are given to the socket in pieces of this size: the next one when there
 * is room. So a client that does not read costs the kernel little. */
#define HTTP_WRITE_MAX 16384U
/* The answers to what one read brought. What does not fit is sent directly. A few small buffers can
 * keep all of it. */
#define HTTP_BATCH HTTP_WRITE_MAX
/* Head of an answer: status line, the server's headers and the application's. */
#define HTTP_ANSWER_HEAD_MAX 4096U
#define HTTP_PROBLEM_MAX 2048U

/* The "Connection" header of an answer; index of http_server.lines. */
enum { LINES_KEEP, LINES_KEEP_10, LINES_CLOSE, LINES_COUNT };
#define LINES_MAX 80

struct http_server {
    struct net *net;
    struct http_options options;
    struct http_app app;
    int64_t now_ms;
    int64_t step_ms; /* a running timer is restarted at most this often */
    bool draining;
    uint32_t open;
    uint32_t busy;
    struct http_counts counts;
    struct index_list timers[TIMER_COUNT]; /* connections, the oldest timer first */
    struct index_list lists[LIST_COUNT];
    uint32_t places_left;             /* HTTP_PLACES_LEFT, or fewer in a small table */
    size_t unsent;                    /* bytes of all `out` */
    struct address_counts *addresses; /* NULL: any number of connections of one address */
    struct connection *connections;
    struct http_buffers buffers;
    /* Connections to resume in the next http_server_flush: answered ones with requests in `in`,
     * streams whose socket failed. A connection is queued at most once. */
    uint32_t *resume;
    uint32_t *resume_spare; /* swapped with resume by each flush */
    uint32_t resume_count;
    /* The connection whose input is being handled. Its answers gather in batch. */
    struct connection *current;
    size_t batch_len;
    struct http_parsed parsed;
    /* "Date" and "Connection" headers, made once a second. */
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
/* Call after each change of a connection. Sets timer, watched events and count for the state.
 * Closes a connection that is broken, or that is closing and has sent everything. */
void connection_settle(struct http_server *s, struct connection *c);
/* Closes now. Calls the application's gone() if an exchange is pending or streaming. */
void connection_lose(struct http_server *s, struct connection *c);
/* Has the next http_server_flush call input_resume. */
void connection_queue(struct http_server *s, struct connection *c);
/* The connection of an exchange that may still be answered; NULL: it is gone. */
struct connection *connection_of(struct http_server *s, struct http_exchange exchange);
/* The connection of the oldest incomplete request in a buffer of the pool. The current connection is
 * left out. NULL: none. */
struct connection *connection_oldest_reading(struct http_server *s, enum http_pool_kind pool);
/* Frees the buffers of the connection that has been on the list longest, if that is
 * HTTP_PATIENCE_MS, and closes it: now, or in the next flush if it has an exchange. The current
 * connection and `except` are left out. False: none. */
bool connection_drop_slow(struct http_server *s, enum connection_list list,
                          const struct connection *except);
/* The same for both lists of connections with unsent bytes: first those without a large buffer. */
bool connection_drop_slowest(struct http_server *s, const struct connection *except);
/* Frees the large buffer whose requests have waited longest behind a pending answer, if that is
 * HTTP_PATIENCE_MS. The connection closes after that answer, which tells the client that they were not
 * handled. The current connection and `except` are left out. False: none. */
bool connection_drop_behind(struct http_server *s, const struct connection *except);
/* Before a new connection, or without one (NULL) while no place is left: closes the one that has been
 * idle longest, if few places are left. */
void connection_make_room(struct http_server *s, const struct connection *newcomer);
struct http_exchange connection_exchange(const struct http_server *s, const struct connection *c);

/* input.c */
void input_readable(struct http_server *s, struct connection *c);
/* Refuses the oldest incomplete request in a buffer of the pool with 408, which frees the buffer. False:
 * none. */
bool input_evict(struct http_server *s, enum http_pool_kind pool);
/* Handles the requests in `in`, unless an answer is pending or unsent. Settles the connection. */
void input_resume(struct http_server *s, struct connection *c);

/* output.c */
/* Makes http_server.lines for the current second. */
void output_lines(struct http_server *s);
/* Bytes of an answer. If the socket does not take them, volatile bytes are copied to buffers, and
 * stable ones are kept by reference. */
enum piece_lifetime {
    PIECE_VOLATILE, /* valid during the call only */
    PIECE_STABLE,   /* unchanged while hold counts a reference, or while the server lives */
};
struct output_piece {
    const char *at;
    size_t len;
    enum piece_lifetime lifetime;
    struct http_hold *hold; /* PIECE_STABLE only; may be NULL */
};
/* Whether an answer with such a body could be kept if the socket took nothing of it; small ones always
 * are. May close connections that have taken long to read theirs. */
bool output_fits(struct http_server *s, const struct connection *c, size_t len,
                 enum piece_lifetime lifetime);
/* Appends the pieces to the batch or to the unsent bytes, or sends them. Errors set
 * CONNECTION_BROKEN. */
void output_emit(struct http_server *s, struct connection *c, const struct output_piece *pieces,
                 size_t count);
/* Sends the batch of the current connection. */
void output_flush(struct http_server *s, struct connection *c);
/* Sends what the socket did not take before. */
void output_writable(struct http_server *s, struct connection *c);
/* Drops the unsent bytes. */
void output_release(struct http_server *s, struct connection *c);
/* Answers a request with a problem, closes the connection after it, and increments *count. */
void output_refuse(struct http_server *s, struct connection *c, enum refusal refusal,
                   uint64_t *count);
/* Writes the head of an answer to *head. length < 0: no Content-Length. */
void output_head(struct http_server *s, const struct connection *c, struct out *head, int status,
                 const char *content_type, const char *headers, int64_t length);
/* Call after the answer of an exchange. Sets the next state: idle or closing. */
void output_answered(struct http_server *s, struct connection *c);

#endif
