/*
 * The gate as the fronts see it. A request is a struct that its caller owns. submit returns
 * GATE_ANSWERED (always, in the embedded engine) or GATE_PENDING. A pending request comes back from
 * collect on the loop that submitted it. Its answer may be sent only once its lsn is durable.
 * GATE_REQUEST_ITEM is answered at once, from memory, unless it sets may_wait.
 *
 * Requests may be answered in any order. An answer may be older than news that arrived meanwhile;
 * the order's version shows which is newer. Every request is answered in the end, even if a server
 * is down: DEGRADED and OVERLOADED mean that nothing was asked, UNKNOWN_OUTCOME that it may have
 * been decided. An order that could not be looked up gets one of these, never NOT_FOUND.
 */
#ifndef SLUICE_PORT_GATE_H
#define SLUICE_PORT_GATE_H

#include "core/gate.h"

enum gate_request_kind {
    GATE_REQUEST_BUY, /* id, user, item, qty, ticket_expires_ms, now_ms -> refusal, existed, order,
                       * held */
    GATE_REQUEST_TICKET, /* user, item -> view, attempt, held, barred, order (of the current attempt) */
    GATE_REQUEST_ORDER, /* id, user (the caller; 0: not known) -> order; watch: notify this loop of
                         * changes */
    GATE_REQUEST_ITEM,  /* item, may_wait, catalog_locked -> view; with may_wait it is pending until
                        * it is certain that the item does not exist */
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
    bool catalog_locked; /* ITEM: the caller already holds the catalog's lock */
    uint32_t segment;    /* distributed: the segment the request goes to ... */
    uint64_t epoch;      /* ... and the lowest epoch it may be decided in */
    /* out */
    enum refusal refusal; /* REFUSAL_NONE: answered */
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
    uint64_t lsn; /* do not send the answer before this is durable */
    struct gate_request *next;
    void *owner;
    int64_t again_us;   /* distributed: when to send the request again ... */
    int64_t give_up_us; /* ... and when to give up */
    uint64_t reading;   /* the reading of the sales it waits for; 0: none */
    bool looks_first;   /* BUY: only look the order up, with an expired ticket, ... */
    int64_t expires_ms; /* ... in place of this expiry */
};

enum gate_submitted { GATE_ANSWERED, GATE_PENDING };

struct gate_port;
struct gate_ops {
    enum gate_submitted (*submit)(struct gate_port *port, struct gate_request *request);
    /* The answered requests of this loop, oldest first, linked by next. */
    struct gate_request *(*collect)(struct gate_port *port, uint32_t loop);
    /* Sends what this loop has submitted. Called before the loop sleeps. Returns when the loop must
     * collect again at the latest, in boot_us; INT64_MAX: not needed. */
    int64_t (*flush)(struct gate_port *port, uint32_t loop);
    /* Any thread. From now on, requests to the segment carry this epoch. 0: the epoch is not known,
     * and requests are answered at once with UNKNOWN_OUTCOME. */
    void (*place)(struct gate_port *port, uint32_t segment, uint64_t epoch);
};
struct gate_port {
    const struct gate_ops *ops;
};
/* Clears the answer of an earlier use before it submits the request. */
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
