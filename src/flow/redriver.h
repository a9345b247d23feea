/*
 * What was put aside in the queue is sent round again by itself, every so often: a decision that lies
 * there is an order nobody was told the end of, and whatever kept it from being booked may be mended.
 * Whoever holds the keeper's lease does it; the others only keep the time, so that the lease may pass
 * from one to another without a round being lost or made twice in a row.
 *
 * What can go wrong: the broker is away: the next turn tries again. What cannot be booked at all comes
 * back after its retries and waits for the next round.
 *
 * One thread, the one that may use the queue.
 */
#ifndef SLUICE_FLOW_REDRIVER_H
#define SLUICE_FLOW_REDRIVER_H

#include <stdatomic.h>

#include "port/clock.h"
#include "port/queue.h"

/*
 * Sends what lies aside now round again, `most` messages at most; what is put aside again meanwhile
 * waits for the next time. The broker counts late, so one batch is looked for whatever it says.
 * *ret_sent is set in any case. stopping (NULL: it is never ended) is looked at between batches:
 * ERR_CLOSED. ERR_AGAIN: no connection.
 */
int redrive(struct queue *queue, uint64_t most, const _Atomic bool *stopping, uint64_t *ret_sent);

struct redriver {
    struct queue *queue; /* a consumer's; NULL: there is none */
    struct clock_port *clock;
    int64_t every_ms; /* 0: never */
    int64_t next_ms;
    const _Atomic bool *stopping; /* as of redrive */
};

void redriver_init(struct redriver *ret_redriver, struct queue *queue, struct clock_port *clock,
                   int64_t every_ms);
/* may: this process holds the lease. How many messages were sent round. */
uint64_t redriver_iterate(struct redriver *redriver, bool may);

#endif
