/*
 * Reconciliation for the gate in this process: compares the numbers of every item with the
 * ledger's, every order both ways (compare_orders.h), and looks for damage in the ledger's file.
 *
 * There is one journal and one ledger, so nothing has to be guessed. If the last journal record is
 * booked and the last ledger event is applied, both before and after the two were read, then gate
 * and ledger show the same moment and the items must agree. While they move, it looks again for a
 * bounded time, and then reports that it is unsure. It repairs nothing: a restart rebuilds the gate from
 * the journal.
 *
 * One thread.
 */
#ifndef SLUICE_EMBEDDED_RECONCILE_EMBEDDED_H
#define SLUICE_EMBEDDED_RECONCILE_EMBEDDED_H

#include "embedded/embedded_gate.h"
#include "ledger/difference.h"
#include "ledger/ledger_writer.h"
#include "port/blocking.h"

struct reconcile_local_parts {
    struct embedded_gate *engine;
    struct ledger_writer *ledger_writer;
    struct ledger *ledger; /* read by this thread */
    struct blocking blocking;
    int64_t bound_ms; /* how long to wait for a quiet moment */
    /* True: the server is stopping; a run ends with ERR_CLOSED. Its context is blocking's. NULL: never. */
    bool (*ending)(void *context);
};

static inline bool reconcile_local_ending(const struct reconcile_local_parts *parts)
{
    return parts->ending != NULL && parts->ending(parts->blocking.context);
}

struct reconcile_local;

int reconcile_local_new(const struct reconcile_local_parts *parts,
                        struct reconcile_local **ret_local);
void reconcile_local_free(struct reconcile_local *local);
/* 0, or the ledger's error. The differences are valid until the next call. */
int reconcile_local_now(struct reconcile_local *local, struct reconcile_result *ret_result);
/* Looks for damage in the next piece of the ledger (port/ledger.h). For a timer. */
void reconcile_local_check_next(struct reconcile_local *local);

#endif
