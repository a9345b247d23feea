/*
 * The connections of one worker thread: nonblocking, on one epoll. Requests are submitted to a
 * queue. The net assigns them to connections as these become free, reads the answers and reports
 * each to the owner's callbacks. A callback only records what happened; the owner submits more
 * requests afterwards.
 */
#ifndef SLUICE_BENCH_BENCH_NET_H
#define SLUICE_BENCH_BENCH_NET_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/bytes.h"
#include "bench/bench_http.h"
#include "bench/bench_queue.h"

/* The longest request that render writes. */
#define BENCH_REQUEST_MAX 4096

enum bench_loss {
    LOSS_ERROR,   /* the connection broke, or no answer came in time */
    LOSS_DROPPED, /* we cut the connection on purpose */
};

/* context: as given to net_init. */
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
    uint32_t count;                /* requests sent and not answered */
    struct bench_request *flights; /* a ring of net->depth */
    char *in;                      /* an incomplete answer */
    size_t in_len;
    char *out; /* what the socket has not accepted yet */
    size_t out_len;
    int64_t since_ns; /* when connecting began */
};

struct bench_net {
    const struct bench_target *target;
    const struct bench_net_events *events;
    void *context;
    int epoll;
    uint32_t depth;
    uint32_t conn_count;   /* most that are open at the same time */
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
    int64_t refused_since_ns; /* connecting has failed since then; 0: it works */
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

/* ERR_IO: no epoll. */
int net_init(struct bench_net *net, const struct bench_net_config *config);
void net_done(struct bench_net *net);

/* Connects until count connections are open or connecting. */
void net_open(struct bench_net *net, uint32_t count, int64_t now_ns);
void net_submit(struct bench_net *net, const struct bench_request *request);
/* Sends waiting requests to free connections, and opens more if needed. */
void net_pump(struct bench_net *net, int64_t now_ns);
/* Waits until until_ns at most, then reads everything that is ready. */
void net_wait(struct bench_net *net, int64_t until_ns);
/* Closes connections whose answer is overdue. Once a second is enough. */
void net_expire(struct bench_net *net, int64_t now_ns);

#endif
