/*
 * Waiting, for the threads that may: recovery, balancing and reconciling run on threads of their
 * own and read better as one story. Time passes only through sleep_ms, so that a simulator's does,
 * too. The ledger and the gate's connection set are this thread's alone.
 */
#ifndef SLUICE_FLOW_BLOCKING_H
#define SLUICE_FLOW_BLOCKING_H

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

/* The query with its answer; its error. */
int blocking_read(const struct blocking *blocking, struct ledger *ledger,
                  struct ledger_query *query);
/* One op in a transaction of its own, under a lease (NULL: none). The batch's error. */
int blocking_write(const struct blocking *blocking, struct ledger *ledger, struct ledger_op *op,
                   const char *lease, uint64_t token);
/* Asks with their answers; their loop is this thread's connection set, and nothing else is under way on it.
 * All come back: the gate gives up by itself. */
void blocking_gate_requests(const struct blocking *blocking, struct gate_port *gate,
                            struct gate_request *requests, size_t count);

#endif
