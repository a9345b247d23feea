/*
 * The network as one event loop sees it. Only net_poll blocks, up to its timeout. A connection is a
 * small number chosen by the implementation, below the limit it was created with. The number is
 * reused after net_close. There is one instance per loop, used by that loop's thread; only net_wake
 * may be called by any thread. Implementations: backend/posix (epoll), the simulator.
 */
#ifndef SLUICE_PORT_NET_H
#define SLUICE_PORT_NET_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct net;

/* FINISHED: the peer will send no more (it may still read). Reported at least once, watched or
 * not. */
enum { NET_ACCEPTED = 1, NET_READABLE = 2, NET_WRITABLE = 4, NET_HUNG_UP = 8, NET_FINISHED = 16 };

struct net_event {
    uint32_t connection;
    uint32_t what;
};

struct net_address {
    uint8_t family; /* 4 or 6; 0: unknown */
    uint8_t bytes[16];
};

struct net_piece {
    const void *at;
    size_t len;
};

struct net_ops {
    /* Waits up to timeout_us (0: not at all, -1: until something happens or net_wake). A new
     * connection is reported once with NET_ACCEPTED (maybe with NET_READABLE). Level-triggered. */
    size_t (*poll)(struct net *net, struct net_event *ret_events, size_t max, int64_t timeout_us);
    /* Bytes read; 0: the peer closed; ERR_AGAIN; ERR_IO: gone. */
    int64_t (*read)(struct net *net, uint32_t connection, void *bytes, size_t n);
    /* Bytes taken, maybe fewer than given; ERR_AGAIN; ERR_IO: gone. */
    int64_t (*write)(struct net *net, uint32_t connection, const struct net_piece *pieces,
                     size_t count);
    /* Ends writing. The peer sees the end; what it still sends can be read. */
    void (*finish)(struct net *net, uint32_t connection);
    /* What net_poll should report: NET_READABLE and/or NET_WRITABLE, or 0 (hang-ups only). */
    void (*watch)(struct net *net, uint32_t connection, uint32_t what);
    void (*close)(struct net *net, uint32_t connection);
    /* Closes at once, and drops what was written but not delivered: the peer sees a reset. NULL:
     * close. */
    void (*abort)(struct net *net, uint32_t connection);
    /* On: accept new connections. Off: close the listening socket (draining). */
    void (*accepting)(struct net *net, bool on);
    struct net_address (*peer)(struct net *net, uint32_t connection);
    void (*wake)(struct net *net);
};

struct net {
    const struct net_ops *ops;
};

static inline size_t net_poll(struct net *n, struct net_event *ret_events, size_t max,
                              int64_t timeout_us)
{
    return n->ops->poll(n, ret_events, max, timeout_us);
}
static inline int64_t net_read(struct net *n, uint32_t connection, void *bytes, size_t len)
{
    return n->ops->read(n, connection, bytes, len);
}
static inline int64_t net_write(struct net *n, uint32_t connection, const struct net_piece *pieces,
                                size_t count)
{
    return n->ops->write(n, connection, pieces, count);
}
static inline void net_finish(struct net *n, uint32_t connection)
{
    n->ops->finish(n, connection);
}
static inline void net_watch(struct net *n, uint32_t connection, uint32_t what)
{
    n->ops->watch(n, connection, what);
}
static inline void net_close(struct net *n, uint32_t connection)
{
    n->ops->close(n, connection);
}
static inline void net_abort(struct net *n, uint32_t connection)
{
    (n->ops->abort != NULL ? n->ops->abort : n->ops->close)(n, connection);
}
static inline void net_accepting(struct net *n, bool on)
{
    n->ops->accepting(n, on);
}
static inline struct net_address net_peer(struct net *n, uint32_t connection)
{
    return n->ops->peer(n, connection);
}
static inline void net_wake(struct net *n)
{
    n->ops->wake(n);
}

#endif
