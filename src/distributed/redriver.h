/*
 * The redriver sends parked messages again at a fixed interval. A parked decision is an order whose
 * buyer has no outcome yet, and the reason it could not be booked may be gone. The process that
 * holds the keeper's lease does it. The other processes only keep track of time, so that the lease
 * can move without a round being lost or done twice in a row.
 *
 * What can go wrong:
 * - The broker is away. The next iteration tries again.
 * - A message cannot be booked at all. It comes back after its retries and waits for the next
 *   round.
 *
 * One thread, the one that may use the queue.
 */
#ifndef SLUICE_DISTRIBUTED_REDRIVER_H
#define SLUICE_DISTRIBUTED_REDRIVER_H

#include <stdatomic.h>

#include "port/clock.h"
#include "port/queue.h"

/*
 * Sends the messages that are parked now again, at most `most` of them. Messages that are parked
 * again in the meantime wait for the next call. The broker's count lags, so one batch is tried
 * whatever it says. *ret_sent is set in every case. `stopping` (NULL: never) is checked between
 * batches: ERR_CLOSED. ERR_AGAIN: no connection.
 */
int redrive(struct queue *queue, uint64_t most, const _Atomic bool *stopping, uint64_t *ret_sent);

struct redriver {
    struct queue *queue; /* a consumer; NULL: there is no queue */
    struct clock_port *clock;
    int64_t every_ms; /* 0: never */
    int64_t next_ms;
    const _Atomic bool *stopping; /* as in redrive */
};

void redriver_init(struct redriver *ret_redriver, struct queue *queue, struct clock_port *clock,
                   int64_t every_ms);
/* may: this process holds the lease. Returns how many messages were sent. */
uint64_t redriver_iterate(struct redriver *redriver, bool may);

#endif
