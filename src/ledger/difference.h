/*
 * Differences between gate and ledger, as reconciliation reports them. Both engines compare, each in
 * its own way (distributed/reconcile.h, embedded/reconcile_embedded.h); the reconciler runs them.
 */
#ifndef SLUICE_LEDGER_DIFFERENCE_H
#define SLUICE_LEDGER_DIFFERENCE_H

#include "core/gate.h"

/* kind, name, what `found` and `expected` are. State ORDER_STATE_COUNT: there is no such order.
 * ORDER*: of one gate; its numbers are the gate's. */
#define DIFFERENCES(X)                                                                             \
    X(DIFFERENCE_STOCK, "ledger_stock")         /* available + locked + sold; the item's total */  \
    X(DIFFERENCE_STOCK_LOCKED, "ledger_locked") /* the item's; the sum over its shares */          \
    X(DIFFERENCE_STOCK_SOLD, "ledger_sold")     /* the item's; the sum over its shares */          \
    X(DIFFERENCE_SHARES, "ledger_shares")       /* units in all shares; the item's total */        \
    X(DIFFERENCE_SHARE_LOCKED, "share_locked")  /* the share's counter; the sum over its orders */ \
    X(DIFFERENCE_SHARE_SOLD, "share_sold")      /* the share's counter; the sum over its orders */ \
    X(DIFFERENCE_BUYER, "ledger_buyer")         /* held, in the buyer's row; in his orders */      \
    X(DIFFERENCE_LIMIT, "limit")                /* held, in the buyer's orders; the limit */       \
    X(DIFFERENCE_GATE_TOTAL, "gate_total")      /* the gate's total; the share */                  \
    X(DIFFERENCE_GATE_SHORT, "gate_short")      /* units alive at the gate; in the ledger */       \
    X(DIFFERENCE_GATE_STUCK, "gate_stuck")      /* the same, and nothing is in flight */           \
    X(DIFFERENCE_GATE_ORDER, "gate_order")      /* state at the gate; in the ledger */             \
    X(DIFFERENCE_GATE_BEHIND, "gate_behind")    /* last event applied; the ledger's last event */  \
    X(DIFFERENCE_OUTBOX, "outbox_stuck")        /* entries; when the oldest was decided */         \
    X(DIFFERENCE_PARKED, "parked")              /* attempts; 1 if the ledger has the order */      \
    X(DIFFERENCE_DECISION, "decision")          /* promised to a buyer, and not in the ledger */   \
    X(DIFFERENCE_ORDER, "order")                /* state at the gate; in the ledger */             \
    X(DIFFERENCE_ORDER_USER, "order_user")      /* at the gate; in the ledger */                   \
    X(DIFFERENCE_ORDER_ITEM, "order_item")      /* at the gate; in the ledger */                   \
    X(DIFFERENCE_ORDER_QTY, "order_qty")        /* at the gate; in the ledger */                   \
    X(DIFFERENCE_DAMAGE, "ledger_damage")       /* page of the file, 0: not known; 0 */

enum difference_kind {
#define X(name, text) name,
    DIFFERENCES(X)
#undef X
        DIFFERENCE_KIND_COUNT
};
const char *difference_text(enum difference_kind kind);

#define DIFFERENCE_NO_SEGMENT UINT32_MAX

struct difference {
    enum difference_kind kind;
    uint32_t segment; /* DIFFERENCE_NO_SEGMENT: none */
    uint64_t item;    /* 0: none; the same for the next two */
    uint64_t user;
    struct order_id id;
    uint64_t found;
    uint64_t expected;
    uint64_t epoch;              /* of the segment, if its gate is wrong */
    uint64_t mark;               /* it is the same difference only if this is unchanged */
    int64_t since_ms;            /* end of the first pass that showed it */
    bool repaired;               /* a repair was requested; the next passes show if it helped */
    struct gate_command command; /* of a DECISION */
};

struct reconcile_result {
    const struct difference *differences; /* those that count; valid until the next pass */
    size_t count;
    size_t seen;                    /* differences seen by at least one pass */
    uint64_t items, orders, buyers; /* how many were compared */
    uint32_t unsure;                /* comparisons that could not be made ... */
    uint32_t unanswered;            /* ... of these, because the gate or the queue did not answer */
    uint64_t passes;                /* since the start */
};

#endif
