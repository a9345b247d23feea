/*
 * Blocking calls for threads that may wait. Recovery, balancing and reconciliation run on threads
 * of their own and read better as straight-line code. Time passes only inside sleep_ms, so a
 * simulator controls it. The ledger and the connection set at the gate belong to the calling thread
 * alone.
 */
#ifndef SLUICE_PORT_BLOCKING_H
#define SLUICE_PORT_BLOCKING_H

#include "port/gate.h"
#include "port/ledger.h"

struct blocking {
    void *context;
    void (*sleep_ms)(void *context, int64_t ms);
    int64_t (*now_ms)(void *context);
};

static inline void blocking_sleep(const struct blocking *blocking, int64_t ms)
{
    blocking->sleep_ms(blocking->context, ms);
}
static inline int64_t blocking_now(const struct blocking *blocking)
{
    return blocking->now_ms(blocking->context);
}

/* Runs one op in its own transaction, under a lease (NULL: none). Returns the batch's error. */
int blocking_write(const struct blocking *blocking, struct ledger *ledger, struct ledger_op *op,
                   const char *lease, uint64_t token);
/*
 * Submits the requests and waits for all answers. All requests use this thread's connection set as
 * their loop, and nothing else is in flight on it. Every request comes back: the gate has its own
 * timeouts.
 *
 * Nobody else keeps this connection set alive, so the gate is given a turn before the requests: it
 * notices lost connections and makes them again. Requests that met no connection
 * (GATE_OUTCOME_AWAY) are submitted again until one is made, for at most *away_ms, which is reduced
 * by the time spent. A caller that asks rarely needs some: between two of its calls nothing turns.
 */
void blocking_gate_requests(const struct blocking *blocking, struct gate_port *gate,
                            struct gate_request *requests, size_t count, int64_t *away_ms);

#endif
