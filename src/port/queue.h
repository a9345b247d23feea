/*
 * The queue that carries decisions from the relay to the booker: at least once, in any order. An
 * instance is a publisher or a consumer and belongs to one thread. No call blocks longer than its
 * wait_ms. A lost connection is made again internally, with growing pauses; meanwhile calls return
 * ERR_AGAIN.
 *
 * Happy path: publish; an outcome confirms it; take; the booker commits; ack.
 *
 * What can go wrong: if a message is not confirmed (connection lost, nack, returned as unroutable),
 * the publisher must send it again; outcomes names it. A message that is taken and not settled when
 * the connection ends comes again. retry() gives a message back for later, after a longer pause
 * each time. After the last pause, or with park(), it goes to the parking queue, where operators
 * see it; it is sent again hourly or on request. later() is retry() for a message that is fine but
 * must wait: the last pause repeats, and the message is never parked.
 */
#ifndef SLUICE_PORT_QUEUE_H
#define SLUICE_PORT_QUEUE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/bytes.h"

#define QUEUE_BODY_MAX 512
#define QUEUE_EVENT_MAX 65536
#define QUEUE_REASON_MAX 31

enum queue_outcome_kind { QUEUE_CONFIRMED, QUEUE_UNCONFIRMED };
struct queue_outcome {
    uint64_t number; /* as given to publish */
    enum queue_outcome_kind kind;
};

struct queue_message {
    uint64_t tag;      /* for ack, retry, later and park; valid on this connection only */
    uint64_t session;  /* changes with each connection; settling a message of an older one returns
                        * ERR_CLOSED */
    bool redelivered;  /* it may have been taken before */
    uint32_t attempts; /* how often it was given back, up to the number of pauses */
    uint32_t len;
    char body[QUEUE_BODY_MAX];
    char reason[QUEUE_REASON_MAX + 1]; /* why it is parked; stored by park; empty: none */
};

struct queue_depths {
    uint64_t ready; /* waiting to be taken */
    uint64_t retry; /* waiting for their pause to end */
    uint64_t parked;
    uint64_t consumers; /* who take what is ready, on all connections */
};

struct queue;
struct queue_ops {
    /* Publisher: 0: sent, an outcome will name it; ERR_AGAIN: nothing was sent (window full, no
     * connection); ERR_INVALID: longer than QUEUE_BODY_MAX. */
    int (*publish)(struct queue *queue, uint64_t number, struct span body);
    /* Publisher: outcomes of published messages, each once; waits up to wait_ms for the first. When
     * the connection is lost, all outstanding messages are UNCONFIRMED. 0 or ERR_AGAIN: none. */
    int (*outcomes)(struct queue *queue, struct queue_outcome *ret_outcomes, size_t max,
                    int64_t wait_ms, size_t *ret_count);
    /* Consumer: up to max messages; waits up to wait_ms for the first. 0 or ERR_AGAIN: none. With
     * max 0, it only keeps the connection alive for wait_ms. */
    int (*take)(struct queue *queue, struct queue_message *ret_messages, size_t max,
                int64_t wait_ms, size_t *ret_count);
    /* Consumer: 0; ERR_CLOSED: it belongs to an earlier connection and comes again; ERR_IO. */
    int (*settle)(struct queue *queue, const struct queue_message *message, int how);
    /* Both. ERR_AGAIN: no connection. */
    int (*depths)(struct queue *queue, struct queue_depths *ret_depths);
    /* Consumer: up to max parked messages. redrive sends them again, otherwise they stay. 0 with a
     * count of 0: there are none; ERR_AGAIN: no connection. */
    int (*parked)(struct queue *queue, struct queue_message *ret_messages, size_t max, bool redrive,
                  size_t *ret_count);
    /* Any thread: ends a wait. */
    void (*wake)(struct queue *queue);
    /* Publisher of events, routed by key. As publish, except that there may be no receiver and that
     * the body may have QUEUE_EVENT_MAX bytes. */
    int (*announce)(struct queue *queue, uint64_t number, const char *key, struct span body);
};

enum { QUEUE_ACK, QUEUE_RETRY, QUEUE_PARK, QUEUE_LATER };

struct queue {
    const struct queue_ops *ops;
};

static inline int queue_publish(struct queue *q, uint64_t number, struct span body)
{
    return q->ops->publish(q, number, body);
}
static inline int queue_outcomes(struct queue *q, struct queue_outcome *ret_outcomes, size_t max,
                                 int64_t wait_ms, size_t *ret_count)
{
    return q->ops->outcomes(q, ret_outcomes, max, wait_ms, ret_count);
}
static inline int queue_take(struct queue *q, struct queue_message *ret_messages, size_t max,
                             int64_t wait_ms, size_t *ret_count)
{
    return q->ops->take(q, ret_messages, max, wait_ms, ret_count);
}
static inline int queue_ack(struct queue *q, const struct queue_message *message)
{
    return q->ops->settle(q, message, QUEUE_ACK);
}
static inline int queue_retry(struct queue *q, const struct queue_message *message)
{
    return q->ops->settle(q, message, QUEUE_RETRY);
}
static inline int queue_later(struct queue *q, const struct queue_message *message)
{
    return q->ops->settle(q, message, QUEUE_LATER);
}
static inline int queue_park(struct queue *q, const struct queue_message *message)
{
    return q->ops->settle(q, message, QUEUE_PARK);
}
static inline int queue_depths(struct queue *q, struct queue_depths *ret_depths)
{
    return q->ops->depths(q, ret_depths);
}
static inline int queue_parked(struct queue *q, struct queue_message *ret_messages, size_t max,
                               bool redrive, size_t *ret_count)
{
    return q->ops->parked(q, ret_messages, max, redrive, ret_count);
}
static inline void queue_wake(struct queue *q)
{
    q->ops->wake(q);
}
static inline int queue_announce(struct queue *q, uint64_t number, const char *key,
                                 struct span body)
{
    return q->ops->announce(q, number, key, body);
}

#endif
