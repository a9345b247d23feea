/*
 * The reconciler is the thread that runs reconciliation: periodically by itself, and when an
 * operator asks. `struct reconciler_work` does the comparison (distributed/reconcile.h, or
 * embedded/reconcile_embedded.h for the gate in this process).
 *
 * Happy path of a call: a loop posts it. The thread runs once for all calls posted before the run
 * began, answers each with a copy of the result, and wakes their loops. Calls that arrive during a
 * run share the next one. So no caller gets the result of a comparison that began before it asked.
 *
 * What can go wrong:
 * - The ledger cannot be read. The calls carry its error.
 * - The server stops. The calls carry ERR_CLOSED. Calls that nobody collects any more are freed
 *   with the reconciler.
 *
 * Threads: one thread iterates. Any loop may post and collect.
 */
#ifndef SLUICE_LEDGER_RECONCILER_H
#define SLUICE_LEDGER_RECONCILER_H

#include "base/mailbox.h"
#include "base/waker.h"
#include "ledger/difference.h"
#include "obs/metrics.h"
#include "port/clock.h"
#include "port/ledger.h"

/* The most differences that one run logs. Callers get all of them. */
#define RECONCILER_LOGGED_MAX 20

/* One call of a loop, which allocates it with malloc. The reconciler
 * owns it between post and collect. */
struct reconciler_call {
    struct post post; /* must be first */
    uint32_t loop;
    bool repair;
    bool integrity; /* search the whole ledger for damage, too */
    /* out */
    int error;
    struct reconcile_result result; /* its `differences` is NULL, see below */
    struct difference *differences; /* result.count entries, malloc'ed, owned by the call */
    struct ledger_check check;      /* with `integrity` */
};

struct reconciler_work {
    void *context;
    /* Two passes, far enough apart to be sure. */
    int (*now)(void *context, struct reconcile_result *ret_result);
    /* One pass. NULL: no passes by itself. */
    int (*pass)(void *context, struct reconcile_result *ret_result);
    /* NULL: it cannot repair. */
    size_t (*repair)(void *context);
    /* True if it may run by itself now. NULL: always. */
    bool (*may)(void *context);
    /* True: the server is stopping, and waits have been cut short. */
    bool (*ending)(void *context);
    /* Searched for damage when a call asks for it. NULL: none. */
    struct ledger *ledger;
    /* What this process knows of damage: logged and counted here. NULL: nothing. */
    struct ledger_health *health;
    /* Called between runs, at least every RECONCILER_IDLE_MS. NULL: not called. */
    void (*idle)(void *context);
};
#define RECONCILER_IDLE_MS 5000

struct reconciler;

/* every_ms: time between two passes by itself; 0: none. ERR_NOMEM. */
int reconciler_new(struct reconciler_work work, struct waker *wakers, struct clock_port *clock,
                   struct metrics_slot *metrics, uint32_t loops, int64_t every_ms,
                   struct reconciler **ret_reconciler);
void reconciler_free(struct reconciler *reconciler);
/* Answers posted calls, or runs by itself if it is time, or waits. */
void reconciler_iterate(struct reconciler *reconciler);
/* Any thread: ends the wait of an iteration. */
void reconciler_wake(struct reconciler *reconciler);

void reconciler_post(struct reconciler *reconciler, struct reconciler_call *call);
struct reconciler_call *reconciler_collect(struct reconciler *reconciler, uint32_t loop);
void reconciler_call_free(struct reconciler_call *call);

#endif
