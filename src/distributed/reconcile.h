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
#include "ledger/difference.h"
#include "port/blocking.h"
#include "port/queue.h"
#include "port/segments.h"

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
