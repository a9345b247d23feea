/*
 * Reconciling where the gate is in this process: its numbers of every item against the ledger's.
 *
 * There is one journal and one ledger, so nothing has to be guessed: when the last record of the
 * journal is booked and the last event of the ledger is applied, before and after both were read,
 * gate and ledger are of the same moment, and must agree. While they move it looks again, for a
 * bounded time; then it says that it is not sure. Nothing is repaired: a restart makes the gate anew
 * from the journal.
 *
 * One thread.
 */
#ifndef SLUICE_FLOW_RECONCILE_EMBEDDED_H
#define SLUICE_FLOW_RECONCILE_EMBEDDED_H

#include "flow/blocking.h"
#include "flow/ledger_writer.h"
#include "flow/reconcile.h"

struct reconcile_local_parts {
    struct embedded_gate *engine;
    struct ledger_writer *ledger_writer;
    struct ledger *ledger; /* this thread's reader */
    struct blocking blocking;
    int64_t bound_ms; /* how long it may wait for a quiet moment */
};

struct reconcile_local;

int reconcile_local_new(const struct reconcile_local_parts *parts,
                        struct reconcile_local **ret_local);
void reconcile_local_free(struct reconcile_local *local);
/* 0, or the ledger's error. The differences are valid until the next call. */
int reconcile_local_now(struct reconcile_local *local, struct reconcile_result *ret_result);

#endif
