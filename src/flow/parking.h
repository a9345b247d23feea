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
#ifndef SLUICE_FLOW_PARKING_H
#define SLUICE_FLOW_PARKING_H

#include <stdatomic.h>

#include "base/limits.h"
#include "base/mailbox.h"
#include "flow/engine.h"
#include "port/queue.h"

enum parking_queue { PARKING_ORDERS, PARKING_PAYMENTS, PARKING_QUEUES };

/* One call of a loop, malloc'ed by it; the thread's between post and collect. */
struct parking_call {
    struct post post; /* first */
    uint32_t loop;
    enum parking_queue which;
    bool redrive;
    uint64_t
        limit; /* of messages shown, or sent; 0: sends as many as the broker counts now, which it
                     * does late: up to PARKING_BATCH also where it counts fewer */
    /* out */
    int error;
    struct queue_depths depths; /* afterwards */
    uint64_t sent;
    struct queue_message *messages; /* malloc'ed, the call's; of a look */
    size_t count;
};

struct parking {
    struct engine *engine;
    struct queue *queues[PARKING_QUEUES]; /* NULL: there is none */
    uint32_t loops;
    _Atomic bool stopping;
    struct mailbox inbox;
    struct mailbox *outboxes;
};

/* Into a zeroed struct whose engine, queues and loops are set. ERR_NOMEM. */
int parking_init(struct parking *parking);
void parking_done(struct parking *parking);
/* Answers what was posted. */
void parking_turn(struct parking *parking);
/* Waits for a call, at most so long. */
void parking_wait(struct parking *parking, int64_t wait_ms);
/* Any thread: ends a wait, and soon what is being sent round; for good. */
void parking_stop(struct parking *parking);

static inline bool parking_has(const struct parking *parking, enum parking_queue which)
{
    return parking != NULL && parking->queues[which] != NULL;
}
void parking_post(struct parking *parking, struct parking_call *call);
struct parking_call *parking_collect(struct parking *parking, uint32_t loop);
void parking_call_free(struct parking_call *call);

#endif
