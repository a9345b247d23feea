/*
 * The gate as the front asks it. An ask is a struct its caller owns; submit says GATE_ANSWERED (the
 * embedded engine always does) or GATE_PENDING, and then the ask comes back from collect on the loop
 * that submitted it. Whatever an ask answers may be told only once its lsn is durable.
 * GATE_REQUEST_ITEM is answered at once by every engine, from memory, unless it may wait.
 *
 * Answers of different asks may come in any order, and what an answer shows may be older than what
 * was heard since from elsewhere: an order's version tells. Every ask comes back in the end,
 * whatever became of the other machine: DEGRADED (nothing was asked), OVERLOADED (nor was it),
 * UNKNOWN_OUTCOME (it may have been decided). An order that could not be looked up is one of these,
 * never NOT_FOUND.
 */
#ifndef SLUICE_PORT_GATE_H
#define SLUICE_PORT_GATE_H

#include "core/gate.h"

enum gate_request_kind {
    GATE_REQUEST_BUY, /* id, user, item, qty, ticket_expires_ms, now_ms -> verdict, refusal, order, held */
    GATE_REQUEST_TICKET, /* user, item -> view, attempt, held, barred, order (of the current attempt) */
    GATE_REQUEST_ORDER, /* id, user (who asks; 0: not known) -> order; watch: tell this loop of changes */
    GATE_REQUEST_ITEM, /* item, may_wait, catalog_locked -> view; at once, or when it is certain that
                        * there is none */
};

struct gate_request {
    enum gate_request_kind kind;
    uint32_t loop;
    struct order_id id;
    uint64_t user;
    uint64_t item;
    uint32_t qty;
    int64_t ticket_expires_ms;
    int64_t now_ms;
    bool watch;
    bool may_wait;
    bool
        catalog_locked; /* ITEM: the caller holds the catalog's lock, which cannot be taken twice */
    uint32_t segment;   /* where it is asked, with a gate of several ... */
    uint64_t epoch;     /* ... and under which epoch, at least */
    /* out */
    enum refusal refusal; /* REFUSAL_NONE: answered as asked */
    bool existed;         /* BUY: decided before */
    bool has_order;
    struct order_view order;
    struct item_view view;
    uint32_t held;
    uint32_t limit;
    uint32_t attempt;
    bool barred;
    uint64_t available; /* with SOLD_OUT */
    uint64_t locked;
    uint64_t lsn; /* tell nobody before this is durable */
    struct gate_request *next;
    void *owner;
    int64_t again_us;   /* of an engine that asks more than once: when next ... */
    int64_t give_up_us; /* ... and until when */
    uint64_t reading;   /* the reading of the sales that it waits for; 0: none */
    bool looks_first;   /* of a BUY: it only looks for its order, with a ticket that is over ... */
    int64_t expires_ms; /* ... in the place of this */
};

enum gate_submitted { GATE_ANSWERED, GATE_PENDING };

struct gate_port;
struct gate_ops {
    enum gate_submitted (*submit)(struct gate_port *port, struct gate_request *request);
    /* Those of this loop that are answered by now, oldest first, linked by next. */
    struct gate_request *(*collect)(struct gate_port *port, uint32_t loop);
    /* Sends what this loop submitted; before it sleeps. When it has to collect again at the latest,
     * on the clock's boot_us, whatever else happens; INT64_MAX: no need. */
    int64_t (*flush)(struct gate_port *port, uint32_t loop);
    /* Any thread: asks of the segment carry this epoch from now on; 0: it is not known, and they
     * are answered at once with UNKNOWN_OUTCOME. */
    void (*place)(struct gate_port *port, uint32_t segment, uint64_t epoch);
};
struct gate_port {
    const struct gate_ops *ops;
};
/* Whatever an earlier asking left in what is answered is gone before it is asked. */
static inline enum gate_submitted gate_submit(struct gate_port *port, struct gate_request *request)
{
    request->refusal = REFUSAL_NONE;
    request->existed = false;
    request->has_order = false;
    request->held = 0;
    request->attempt = 0;
    request->barred = false;
    request->lsn = 0;
    return port->ops->submit(port, request);
}
static inline struct gate_request *gate_collect(struct gate_port *port, uint32_t loop)
{
    return port->ops->collect(port, loop);
}
static inline int64_t gate_flush(struct gate_port *port, uint32_t loop)
{
    return port->ops->flush(port, loop);
}
static inline void gate_place(struct gate_port *port, uint32_t segment, uint64_t epoch)
{
    port->ops->place(port, segment, epoch);
}

#endif
