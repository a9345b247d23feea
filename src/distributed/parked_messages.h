/*
 * Parked messages: messages that the queue set aside, after their last retry or because they cannot
 * be parsed. Operators list them or send them again (redrive) through a loop. A thread that may
 * wait for the broker does the work; loops post calls and collect them.
 *
 * Happy path of a call: a loop posts it; the thread talks to the broker, fills the call in and
 * wakes the loop.
 *
 * What can go wrong:
 * - The broker is away. The call carries ERR_AGAIN, and `sent` counts what was sent before the
 *   error.
 * - The server stops. A redrive ends with its current batch (ERR_CLOSED), and parked_messages_done
 *   frees the calls that nobody collects any more.
 */
#ifndef SLUICE_DISTRIBUTED_PARKED_MESSAGES_H
#define SLUICE_DISTRIBUTED_PARKED_MESSAGES_H

#include <stdatomic.h>

#include "base/limits.h"
#include "base/mailbox.h"
#include "base/waker.h"
#include "port/queue.h"

enum parked_messages_queue {
    PARKED_MESSAGES_ORDERS,
    PARKED_MESSAGES_PAYMENTS,
    PARKED_MESSAGES_QUEUES
};

/* One call of a loop, which allocates it with malloc. The thread owns it between post and
 * collect. */
struct parked_messages_call {
    struct post post; /* must be first */
    uint32_t loop;
    enum parked_messages_queue which;
    bool redrive;
    /* The most messages to list or to send. 0: send as many as the broker counts now. The broker's
     * count lags, so up to PARKED_MESSAGES_BATCH are sent even if it counts fewer. */
    uint64_t limit;
    /* out */
    int error;
    struct queue_depths depths; /* after the call */
    uint64_t sent;
    struct queue_message *messages; /* of a list; malloc'ed, owned by the call */
    size_t count;
};

struct parked_messages {
    struct waker *wakers;
    struct queue *queues[PARKED_MESSAGES_QUEUES]; /* NULL: not configured */
    uint32_t loops;
    _Atomic bool stopping;
    struct mailbox inbox;
    struct mailbox *outboxes;
};

/* Initializes a zeroed struct whose wakers, queues and loops are set. ERR_NOMEM. */
int parked_messages_init(struct parked_messages *parked_messages);
void parked_messages_done(struct parked_messages *parked_messages);
/* Answers all posted calls. */
void parked_messages_iterate(struct parked_messages *parked_messages);
/* Waits for a call, at most wait_ms. */
void parked_messages_wait(struct parked_messages *parked_messages, int64_t wait_ms);
/* Any thread: ends a wait, and soon a running redrive. Permanent. */
void parked_messages_stop(struct parked_messages *parked_messages);

static inline bool parked_messages_has(const struct parked_messages *parked_messages,
                                       enum parked_messages_queue which)
{
    return parked_messages != NULL && parked_messages->queues[which] != NULL;
}
void parked_messages_post(struct parked_messages *parked_messages,
                          struct parked_messages_call *call);
struct parked_messages_call *parked_messages_collect(struct parked_messages *parked_messages,
                                                     uint32_t loop);
void parked_messages_call_free(struct parked_messages_call *call);

#endif
