/*
 * The gate proxy's record of a request: its state from submit until the client has the answer, and
 * the pool that a loop takes its records from.
 *
 *     from        to
 *     NEW         READING  LOOKING  ASKED  ANSWERED
 *     READING     READING  LOOKING  ASKED  ANSWERED
 *     LOOKING     REFILLING  ANSWERED
 *     ASKED       REFILLING  ANSWERED
 *     REFILLING   ASKED
 *
 *     READING    the item is in no sale of the catalog: the sales are read from the ledger once more
 *     LOOKING    others wait in line, or a new order would be refused: the gate is asked only whether
 *                the order exists
 *     ASKED      the gate is asked
 *     REFILLING  the home has too few units: it waits for a refill
 *     ANSWERED   by the gate, or without it
 *
 * gate_proxy.h has the table of what happens in each state. Only proxy_request_move() changes a
 * state. A move that is not in its table is a bug of the proxy and stops the process.
 *
 * A loop's records are allocated when the proxy is made. Taking and returning one is a few stores,
 * and memory that was never used is never touched.
 *
 * What can go wrong: more requests under way than the pool has records, which is the caller's bug.
 *
 * Threads: a pool belongs to its loop.
 */
#ifndef SLUICE_DISTRIBUTED_PROXY_REQUEST_H
#define SLUICE_DISTRIBUTED_PROXY_REQUEST_H

#include "port/gate.h"

enum proxy_request_state {
    PROXY_REQUEST_NEW,
    PROXY_REQUEST_READING,
    PROXY_REQUEST_LOOKING,
    PROXY_REQUEST_ASKED,
    PROXY_REQUEST_REFILLING,
    PROXY_REQUEST_ANSWERED,
    PROXY_REQUEST_STATES
};

struct proxy_request {
    enum proxy_request_state state;
    struct gate_request *request; /* the client's */
    struct proxy_request *next;   /* in the list of those that wait, or of free records */
    uint64_t reading;             /* READING: the reading of the sales that it waits for */
    int64_t again_us;             /* READING, REFILLING: when it is tried again */
    int64_t give_up_us;           /* until when it waits; 0: it has not waited yet */
    int64_t since_us;             /* BUY: when it was submitted */
    uint32_t refill_units;        /* counted as waiting for a refill; 0: not */
    int64_t ticket_expires_ms;    /* LOOKING: of its ticket; the gate is shown an expired one */
};

struct proxy_request_pool {
    struct proxy_request *records;
    uint32_t capacity;
    uint32_t fresh; /* the first record that was never used */
    struct proxy_request *free;
    struct proxy_request *waiting; /* READING or REFILLING */
    uint32_t reading;              /* how many are READING */
    char apart[64];                /* the next loop's pool is on another cache line */
};

/* capacity: the most requests that are under way at once. ERR_NOMEM. */
int proxy_request_pool_init(struct proxy_request_pool *ret_pool, uint32_t capacity);
void proxy_request_pool_done(struct proxy_request_pool *pool);

/* A record of a client's request, NEW. request->record names it until it is returned. */
struct proxy_request *proxy_request_take(struct proxy_request_pool *pool,
                                         struct gate_request *request);
/* It is ANSWERED. */
void proxy_request_return(struct proxy_request_pool *pool, struct proxy_request *record);

bool proxy_request_may_move(enum proxy_request_state from, enum proxy_request_state to);
void proxy_request_move(struct proxy_request_pool *pool, struct proxy_request *record,
                        enum proxy_request_state to);

#endif
