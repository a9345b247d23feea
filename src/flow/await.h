/*
 * Waiting, for the threads that may: recovery, balancing and reconciling run on threads of their
 * own and read better as one story. Time passes only through sleep_ms, so that a simulator's does,
 * too. The ledger and the gate's lane are this thread's alone.
 */
#ifndef SLUICE_FLOW_AWAIT_H
#define SLUICE_FLOW_AWAIT_H

#include "port/gate.h"
#include "port/ledger.h"

struct await {
    void *context;
    void (*sleep_ms)(void *context, int64_t ms);
    int64_t (*now_ms)(void *context);
};

static inline void await_sleep(const struct await *await, int64_t ms)
{
    await->sleep_ms(await->context, ms);
}
static inline int64_t await_now(const struct await *await)
{
    return await->now_ms(await->context);
}

/* The query with its answer; its error. */
int await_read(const struct await *await, struct ledger *ledger, struct ledger_query *query);
/* One op in a transaction of its own, under a lease (NULL: none). The batch's error. */
int await_write(const struct await *await, struct ledger *ledger, struct ledger_op *op,
                const char *lease, uint64_t token);
/* Asks with their answers; their loop is this thread's lane, and nothing else is under way on it.
 * All come back: the gate gives up by itself. */
void await_asks(const struct await *await, struct gate_port *gate, struct gate_ask *asks,
                size_t count);

#endif
