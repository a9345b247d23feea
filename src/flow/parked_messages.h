/*
 * What was put aside in the queue (parked: after its last retry, or because it cannot be read), for
 * operators who ask a loop: a look at it, or sending it round again. A thread that may wait for the
 * broker answers; loops post and collect.
 *
 * Happy path of a call: a loop posts it, the thread asks the broker, fills it in and wakes the
 * loop.
 *
 * What can go wrong: the broker is away: the call carries ERR_AGAIN, with what was sent round
 * before it failed in `sent`. The server ends: what is being sent round ends with the batch under
 * way (ERR_CLOSED), and calls nobody collects any more are freed with the parking.
 */
#ifndef SLUICE_FLOW_PARKED_MESSAGES_H
#define SLUICE_FLOW_PARKED_MESSAGES_H

#include <stdatomic.h>

#include "base/limits.h"
#include "base/mailbox.h"
#include "flow/embedded_gate.h"
#include "port/queue.h"

enum parked_messages_queue {
    PARKED_MESSAGES_ORDERS,
    PARKED_MESSAGES_PAYMENTS,
    PARKED_MESSAGES_QUEUES
};

/* One call of a loop, malloc'ed by it; the thread's between post and collect. */
struct parked_messages_call {
    struct post post; /* first */
    uint32_t loop;
    enum parked_messages_queue which;
    bool redrive;
    uint64_t
        limit; /* of messages shown, or sent; 0: sends as many as the broker counts now, which it
                     * does late: up to PARKED_MESSAGES_BATCH also where it counts fewer */
    /* out */
    int error;
    struct queue_depths depths; /* afterwards */
    uint64_t sent;
    struct queue_message *messages; /* malloc'ed, the call's; of a look */
    size_t count;
};

struct parked_messages {
    struct embedded_gate *engine;
    struct queue *queues[PARKED_MESSAGES_QUEUES]; /* NULL: there is none */
    uint32_t loops;
    _Atomic bool stopping;
    struct mailbox inbox;
    struct mailbox *outboxes;
};

/* Into a zeroed struct whose engine, queues and loops are set. ERR_NOMEM. */
int parked_messages_init(struct parked_messages *parked_messages);
void parked_messages_done(struct parked_messages *parked_messages);
/* Answers what was posted. */
void parked_messages_iterate(struct parked_messages *parked_messages);
/* Waits for a call, at most so long. */
void parked_messages_wait(struct parked_messages *parked_messages, int64_t wait_ms);
/* Any thread: ends a wait, and soon what is being sent round; for good. */
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
