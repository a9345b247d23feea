/*
 * The connections of one worker thread: nonblocking, on one epoll. Requests are submitted to a
 * queue; net gives them to connections as those become free, reads the answers and reports each one
 * to its owner's events. It never calls back while it is sending on behalf of a callback: owners
 * note what happened and submit more afterwards.
 */
#ifndef SLUICE_BENCH_BENCH_NET_H
#define SLUICE_BENCH_BENCH_NET_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/bytes.h"
#include "bench/bench_http.h"
#include "bench/bench_queue.h"

/* The longest request that render may write. */
#define BENCH_REQUEST_MAX 4096

enum bench_loss {
    LOSS_ERROR,   /* the connection broke, or no answer came in time */
    LOSS_DROPPED, /* we cut it, as asked */
};

/* context is what net_init was given. */
struct bench_net_events {
    /* Appends the request's bytes; called right before they are sent. */
    void (*render)(void *context, struct bench_request *request, struct out *out);
    /* The answer's body is valid only during the call. */
    void (*answered)(void *context, const struct bench_request *request,
                     const struct bench_answer *answer);
    void (*lost)(void *context, const struct bench_request *request, enum bench_loss loss);
};

enum conn_state { CONN_CLOSED, CONN_CONNECTING, CONN_OPEN };

struct bench_conn {
    int fd;
    enum conn_state state;
    bool listed; /* in the ring of free connections */
    uint32_t head;
    uint32_t count;                /* requests on their way */
    struct bench_request *flights; /* a ring of net->depth */
    char *in;                      /* half an answer */
    size_t in_len;
    char *out; /* what the socket has not taken yet */
    size_t out_len;
    int64_t since_ns; /* when connecting began */
};

struct bench_net {
    const struct bench_target *target;
    const struct bench_net_events *events;
    void *context;
    int epoll;
    uint32_t depth;
    uint32_t conn_count;   /* may be open at the same time */
    uint32_t source_first; /* number of the first connection, for source addresses */
    uint32_t source_spread;
    int64_t timeout_ns; /* for an answer */
    struct bench_conn *conns;
    uint32_t open_count;
    uint32_t connecting_count;
    uint32_t *free_ring; /* conn_count entries */
    uint32_t free_head;
    uint32_t free_count;
    uint32_t *closed_stack;
    uint32_t closed_count;
    struct request_ring waiting;
    int64_t refused_since_ns; /* connecting has failed ever since; 0: it works */
    int64_t refused_until_ns;
    int last_errno;
    uint64_t rst_turn; /* cut connections end by FIN and by RST in turn */
    char *buffer;      /* shared by all connections: one read at a time */
    char *scratch;     /* and one write */
};

struct bench_net_config {
    const struct bench_target *target;
    const struct bench_net_events *events;
    void *context;
    uint32_t conn_count;
    uint32_t depth;
    uint32_t source_first;
    uint32_t source_spread;
    int64_t timeout_ns;
};

/* ERR_IO where epoll cannot be had. */
int net_init(struct bench_net *net, const struct bench_net_config *config);
void net_done(struct bench_net *net);

/* Begins to connect until count connections are open or on their way. */
void net_open(struct bench_net *net, uint32_t count, int64_t now_ns);
void net_submit(struct bench_net *net, const struct bench_request *request);
/* Sends what waits as far as connections are free, and opens more where they are wanted. */
void net_pump(struct bench_net *net, int64_t now_ns);
/* Waits until until_ns at the latest, then reads everything that is ready. */
void net_wait(struct bench_net *net, int64_t until_ns);
/* Gives up connections whose answer is overdue. Once a second is enough. */
void net_expire(struct bench_net *net, int64_t now_ns);

#endif
