/*
 * The gate as the front asks it. An ask is a struct its caller owns; submit says GATE_ANSWERED (the
 * embedded engine always does) or GATE_ASKED, and then the ask comes back from collect on the loop
 * that submitted it. Whatever an ask answers may be told only once its lsn is durable.
 */
#ifndef SLUICE_PORT_GATE_H
#define SLUICE_PORT_GATE_H

#include "core/gate.h"

enum gate_question {
    ASK_BUY, /* id, user, item, qty, ticket_expires_ms, now_ms -> verdict, refusal, order, held */
    ASK_TICKET, /* user, item -> view, attempt, held, barred, order (of the current attempt) */
    ASK_ORDER,  /* id -> order; watch: tell this loop once when it changes next */
    ASK_ITEM,   /* item -> view */
};

struct gate_ask {
    enum gate_question question;
    uint32_t loop;
    struct order_id id;
    uint64_t user;
    uint64_t item;
    uint32_t qty;
    int64_t ticket_expires_ms;
    int64_t now_ms;
    bool watch;
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
    struct gate_ask *next;
    void *owner;
};

enum gate_submitted { GATE_ANSWERED, GATE_ASKED };

struct gate_port;
struct gate_ops {
    enum gate_submitted (*submit)(struct gate_port *port, struct gate_ask *ask);
    struct gate_ask *(*collect)(struct gate_port *port, uint32_t loop);
};
struct gate_port {
    const struct gate_ops *ops;
};
static inline enum gate_submitted gate_submit(struct gate_port *port, struct gate_ask *ask)
{
    return port->ops->submit(port, ask);
}
static inline struct gate_ask *gate_collect(struct gate_port *port, uint32_t loop)
{
    return port->ops->collect(port, loop);
}

#endif
