/*
 * Reconciliation compares gate, outbox, queue and ledger and lists the differences. It only reads,
 * unless it is asked to repair.
 *
 * A difference counts when two passes show it that are at least bound_ms apart. Nothing stays in
 * flight longer than that, so whatever was merely in flight has arrived by then. A comparison that
 * a pass could not make, because the numbers moved or a part did not answer, neither shows nor
 * clears a difference. So a rush causes no false alarm, and a lasting difference is found once the
 * rush on its item is over.
 *
 * How moving numbers are compared:
 * - The ledger's numbers are read as of one event (distributed/segment_snapshot.h). If an event of an item
 *   falls between two reads, that item is not compared.
 * - The gate's numbers are read between two checks that show the same last event, and compared with
 *   the ledger as of that event.
 * - Units in QUEUED orders are known only to the gate. They are compared only when nothing is in
 *   flight any more.
 *
 * Repairs:
 * - The gate is wrong: the segment is rebuilt from the ledger (recovery).
 * - A parked message: it is sent again.
 * - A decision without an order: it is decided again and booked, or failed, under its own id.
 * - The ledger contradicts itself: no program repairs that.
 * Every repair is logged.
 *
 * One thread.
 */
#ifndef SLUICE_DISTRIBUTED_RECONCILE_H
#define SLUICE_DISTRIBUTED_RECONCILE_H

#include "distributed/booking_channel.h"
#include "port/blocking.h"
#include "port/queue.h"
#include "port/segments.h"

/* kind, name, what `found` and `expected` are. State ORDER_STATE_COUNT: the gate has no such
 * order. */
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
    X(DIFFERENCE_DECISION, "decision")          /* promised to a buyer, and not in the ledger */

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

struct reconcile_options {
    uint32_t segments;
    uint32_t loop;    /* this thread's connection set at the gate */
    int64_t bound_ms; /* nothing is in flight for longer than this */
    int64_t poll_ms;
    void *context;
    /* Decisions made before before_ms that were promised to a buyer and whose outcome has not been
     * seen, from a front's journal, starting at index `at`. NULL: none. */
    size_t (*promised)(void *context, int64_t before_ms, size_t at, struct decision *ret_decisions,
                       size_t max);
    /* True: nobody wants the result any more, and the pass ends soon with ERR_CLOSED. NULL:
     * never. */
    bool (*ending)(void *context);
};

struct reconcile_ports {
    struct segments *segments;
    struct gate_port *gate;
    struct ledger *ledger;
    struct queue *queue; /* a consumer; NULL: there is no queue */
    struct blocking blocking;
};

struct reconcile_result {
    const struct difference *differences; /* those that count; valid until the next pass */
    size_t count;
    size_t seen;                    /* differences seen by at least one pass */
    uint64_t items, orders, buyers; /* how many were compared */
    uint32_t unsure;                /* comparisons that could not be made */
    uint64_t passes;                /* since the start */
};

struct reconcile;

/* The ports must outlive it. ERR_NOMEM. */
int reconcile_new(struct reconcile_ports ports, struct reconcile_options options,
                  struct reconcile **ret_reconcile);
void reconcile_free(struct reconcile *reconcile);
/* One pass. On the ledger's error the pass does not count. */
int reconcile_pass(struct reconcile *reconcile, struct reconcile_result *ret_result);
/* For an immediate result: two passes, bound_ms apart. */
int reconcile_now(struct reconcile *reconcile, struct reconcile_result *ret_result);
/* Repairs what it can of the last result's differences. Returns how many. */
size_t reconcile_repair(struct reconcile *reconcile);

#endif
