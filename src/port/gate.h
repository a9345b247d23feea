/*
 * The gate as a front asks it. The caller owns the request. Submit returns GATE_ANSWERED (the
 * embedded engine always does) or GATE_PENDING. A pending request comes back from collect, on the
 * loop that submitted it. Nothing of an answer may be shown before its lsn is durable.
 * GATE_REQUEST_ITEM is answered at once by every engine, from memory, unless it may wait.
 *
 * Answers of different requests may come in any order. An answer may be older than what was heard
 * since from elsewhere: the order's version tells. Every request comes back in the end, whatever
 * became of the other machine. Its outcome says whether the gate answered. The outcome is the
 * transport's; the refusal is the gate's, and it means something only if the gate answered. An order
 * that could not be looked up is therefore never NOT_FOUND.
 *
 * Clients see only gates that always answer: the embedded one, and distributed/gate_proxy.h, which
 * turns the outcome of a gate on another machine into a refusal.
 */
#ifndef SLUICE_PORT_GATE_H
#define SLUICE_PORT_GATE_H

#include "core/gate.h"

enum gate_request_kind {
    GATE_REQUEST_BUY, /* id, user, item, qty, ticket_expires_ms, now_ms, if_new -> refusal, existed, order,
                       * held */
    GATE_REQUEST_TICKET, /* user, item -> view, attempt, held, barred, cooling_until_ms, order (of the
                          * current attempt) */
    /* BUY and ORDER may come back with ask_ledger: the order may have been evicted from the gate. The
     * caller asks the ledger for it, and submits the request again with the answer in `ledger`. */
    GATE_REQUEST_ORDER, /* id, user (the caller; 0: not known) -> order; watch: notify this loop of
                         * changes */
    GATE_REQUEST_ITEM,  /* item, may_wait, catalog_locked -> view; with may_wait it is pending until
                        * it is certain that the item does not exist */
};

/* What became of a request on its way to the gate. */
enum gate_outcome {
    GATE_OUTCOME_ANSWERED, /* by the gate: refusal and the other outputs are set */
    GATE_OUTCOME_AWAY,     /* no connection: nothing was asked */
    GATE_OUTCOME_FULL,     /* too many requests under way: nothing was asked */
    GATE_OUTCOME_UNKNOWN,  /* no answer, another epoch, or no epoch known: it may have been decided,
                            * now or when it was asked before */
};

/* What the ledger said of the order since the request came back with ask_ledger. */
enum gate_ledger {
    GATE_LEDGER_NOT_ASKED,
    GATE_LEDGER_LACKS, /* it has no such order */
    GATE_LEDGER_HAS,
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
    /* BUY: if the order does not exist, it is refused with this, before anything else about it is
     * looked at, and nothing is decided. REFUSAL_NONE: it is decided. */
    enum refusal if_new;
    bool catalog_locked; /* ITEM: the caller already holds the catalog's lock */
    enum gate_ledger ledger;
    struct order_view ledger_order; /* with GATE_LEDGER_HAS */
    uint32_t segment;               /* distributed: the segment the request goes to ... */
    uint64_t epoch;                 /* ... and the lowest epoch it may be decided in */
    /* out */
    enum gate_outcome outcome;
    enum refusal refusal;  /* REFUSAL_NONE: answered as asked */
    enum gate_bound bound; /* with OVERLOADED: what was full, if the gate says so */
    bool existed;          /* BUY: decided before */
    /* With UNKNOWN_OUTCOME: what the gate has to know from the ledger first. asked_lsn is the gate's
     * own and goes back with the answer. */
    bool ask_ledger;
    uint64_t asked_lsn;
    bool has_order;
    struct order_view order;
    struct item_view view;
    uint32_t held;
    uint32_t limit;
    uint32_t attempt;
    bool barred;
    int64_t cooling_until_ms; /* TICKET, and BUY with BARRED; 0: no cooling time */
    uint64_t available;       /* with SOLD_OUT */
    uint64_t locked;
    uint64_t lsn; /* do not send the answer before this is durable */
    struct gate_request *next;
    void *owner;
    void *record; /* the gate proxy's own, from submit until the request comes back */
};

/* The gate answered, and as asked. */
static inline bool gate_request_done(const struct gate_request *request)
{
    return request->outcome == GATE_OUTCOME_ANSWERED && request->refusal == REFUSAL_NONE;
}
/* The gate answered, and refused it for this reason. */
static inline bool gate_request_refused(const struct gate_request *request, enum refusal refusal)
{
    return request->outcome == GATE_OUTCOME_ANSWERED && request->refusal == refusal;
}

enum gate_submitted { GATE_ANSWERED, GATE_PENDING };

struct gate_port;
struct gate_ops {
    enum gate_submitted (*submit)(struct gate_port *port, struct gate_request *request);
    /* The answered requests of this loop, oldest first, linked by next. */
    struct gate_request *(*collect)(struct gate_port *port, uint32_t loop);
    /* Sends what this loop has submitted. Called before the loop sleeps. Returns when the loop must
     * collect again at the latest, in boot_us; INT64_MAX: not needed. */
    int64_t (*flush)(struct gate_port *port, uint32_t loop);
    /* Any thread: requests to the segment carry this epoch from now on. 0: it is not known, and the
     * outcome of each request is GATE_OUTCOME_UNKNOWN at once. */
    void (*place)(struct gate_port *port, uint32_t segment, uint64_t epoch);
};
struct gate_port {
    const struct gate_ops *ops;
};
/* Clears the answer of an earlier use before it submits the request. */
static inline enum gate_submitted gate_submit(struct gate_port *port, struct gate_request *request)
{
    request->outcome = GATE_OUTCOME_ANSWERED;
    request->refusal = REFUSAL_NONE;
    request->bound = GATE_BOUND_NONE;
    request->ask_ledger = false;
    request->existed = false;
    request->has_order = false;
    request->held = 0;
    request->attempt = 0;
    request->barred = false;
    request->cooling_until_ms = 0;
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
