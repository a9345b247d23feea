/*
 * Reconciling: gate, outbox, queue and ledger are compared, and what does not fit is listed. It reads;
 * it changes something only when it is asked to repair.
 *
 * A difference counts when two passes show it that are further apart than anything may be on its way
 * (bound_ms): what is only on its way has arrived by then. What a pass could not compare, because it
 * moved meanwhile or could not be asked, neither shows nor clears a difference. So a rush causes no
 * false alarm, and a difference that stands is found when the rush lets go of its item.
 *
 * How numbers that move are compared: those of the ledger at one event (flow/segment_snapshot.h), or not at all
 * where an event of their item came between two of them; those of the gate between two looks that
 * show the same last event, against the ledger as it was at that event. Units in QUEUED orders are
 * the gate's alone; they are compared only where nothing is on its way any more.
 *
 * Repairs. What is wrong at the gate: the segment is made anew from the ledger (recovery). A parked
 * message: sent round again. A decision without an order: decided again and booked, or failed, under
 * its own id. What is wrong inside the ledger is not repaired by a program. Every repair is a line
 * in the log.
 *
 * One thread.
 */
#ifndef SLUICE_FLOW_RECONCILE_H
#define SLUICE_FLOW_RECONCILE_H

#include "flow/blocking.h"
#include "flow/booking_channel.h"
#include "port/queue.h"
#include "port/segments.h"

/* kind, name, what `found` and `expected` are */
#define DIFFERENCES(X)                                                                             \
    X(DIFFERENCE_STOCK, "ledger_stock")         /* of an item: available + locked + sold; total */ \
    X(DIFFERENCE_STOCK_LOCKED, "ledger_locked") /* of an item; of its shares */                    \
    X(DIFFERENCE_STOCK_SOLD, "ledger_sold")     /* of an item; of its shares */                    \
    X(DIFFERENCE_SHARES, "ledger_shares")       /* units in all shares; the item's total */        \
    X(DIFFERENCE_SHARE_LOCKED, "share_locked")  /* as noted with the share; in its orders */       \
    X(DIFFERENCE_SHARE_SOLD, "share_sold")      /* as noted with the share; in its orders */       \
    X(DIFFERENCE_BUYER, "ledger_buyer")         /* held as noted; in his orders */                 \
    X(DIFFERENCE_LIMIT, "limit")                /* held in his orders; the limit */                \
    X(DIFFERENCE_GATE_TOTAL, "gate_total")      /* the gate's total; the share */                  \
    X(DIFFERENCE_GATE_SHORT, "gate_short")      /* units alive at the gate; in the ledger */       \
    X(DIFFERENCE_GATE_STUCK, "gate_stuck")      /* the same, and nothing is on its way */          \
    X(DIFFERENCE_GATE_ORDER, "gate_order")   /* state at the gate (ORDER_STATE_COUNT: none);    \
                                                 * in the ledger */  \
    X(DIFFERENCE_GATE_BEHIND, "gate_behind") /* the last event applied; the ledger's last */       \
    X(DIFFERENCE_OUTBOX, "outbox_stuck")     /* entries; when the oldest was decided */            \
    X(DIFFERENCE_PARKED, "parked")           /* attempts; 1 if the ledger has the order */         \
    X(DIFFERENCE_DECISION, "decision")       /* told to a buyer, and not in the ledger */

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
    uint32_t segment; /* DIFFERENCE_NO_SEGMENT: of none */
    uint64_t item;    /* 0: of none, and so below */
    uint64_t user;
    struct order_id id;
    uint64_t found;
    uint64_t expected;
    uint64_t epoch;              /* of the segment, where its gate is wrong */
    uint64_t mark;               /* what must not have moved for it to be the same difference */
    int64_t since_ms;            /* end of the first pass that showed it */
    bool repaired;               /* asked for; the next passes show whether it helped */
    struct gate_command command; /* DECISION */
};

struct reconcile_options {
    uint32_t segments;
    uint32_t loop;    /* the gate's connection set of this thread */
    int64_t bound_ms; /* nothing is on its way for longer */
    int64_t poll_ms;
    void *context;
    /* Decisions made before before_ms that somebody was told and whose outcome has not been seen:
     * those of fronts' journals, from the at-th on. NULL: none. */
    size_t (*promised)(void *context, int64_t before_ms, size_t at, struct decision *ret_decisions,
                       size_t max);
    /* Nobody wants the result any more: the pass ends soon, with ERR_CLOSED. NULL: never. */
    bool (*ending)(void *context);
};

struct reconcile_ports {
    struct segments *segments;
    struct gate_port *gate;
    struct ledger *ledger;
    struct queue *queue; /* a consumer's; NULL: decisions go without one */
    struct blocking blocking;
};

struct reconcile_result {
    const struct difference *differences; /* that count; valid until the next pass */
    size_t count;
    size_t seen;                    /* once, so far */
    uint64_t items, orders, buyers; /* compared */
    uint32_t unsure;                /* comparisons that could not be made */
    uint64_t passes;                /* since the beginning */
};

struct reconcile;

/* Ports outlive it. ERR_NOMEM. */
int reconcile_new(struct reconcile_ports ports, struct reconcile_options options,
                  struct reconcile **ret_reconcile);
void reconcile_free(struct reconcile *reconcile);
/* One pass. The ledger's error: then the pass does not count. */
int reconcile_pass(struct reconcile *reconcile, struct reconcile_result *ret_result);
/* For whoever wants to know now: two passes, bound_ms apart. */
int reconcile_now(struct reconcile *reconcile, struct reconcile_result *ret_result);
/* Repairs what the last result listed, as far as that can be; how many. */
size_t reconcile_repair(struct reconcile *reconcile);

#endif
