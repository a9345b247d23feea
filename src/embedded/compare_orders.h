/*
 * Compares gate and ledger order by order, both ways, while both move.
 *
 * Happy path: every order of the gate is looked up in the ledger, every row of the gate's items at
 * the gate, in steps of some microseconds under the gate's lock. What differs is a suspicion: an
 * order may be on its way. Suspicions are looked at again after everything that was on its way has
 * arrived, and once more. An order moves at most twice in the ledger (booked, ended), so what
 * differs a third time does not move: it is a difference.
 *
 * What can go wrong: rows that are damaged. Each is a difference of its own (ledger_damage), with
 * its order where that is known. Things do not arrive in time: the suspicions are not sure.
 */
#ifndef SLUICE_EMBEDDED_COMPARE_ORDERS_H
#define SLUICE_EMBEDDED_COMPARE_ORDERS_H

#include "embedded/reconcile_embedded.h"

/* More than this many suspicions are only counted as not sure. */
#define COMPARE_SUSPICIONS_MAX 10000

struct compare_orders {
    const struct reconcile_local_parts *parts;
    /* Takes a difference. */
    void (*found)(void *context, struct difference difference);
    void *context;
    /* out */
    uint64_t orders;
    uint64_t unsure;
};

/* 0, ERR_NOMEM, or the ledger's error. */
int compare_orders(struct compare_orders *compare);

#endif
