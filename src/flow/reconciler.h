/*
 * The thread that reconciles: now and then by itself, and whenever an operator asks. What is
 * compared is the work's affair (flow/reconcile.h, or flow/reconcile_embedded.h for the gate in this
 * process).
 *
 * Happy path of a call: a loop posts it; the thread runs, answers all calls that had been posted
 * before it began with copies of one result, and wakes their loops. Calls that come meanwhile share
 * the next run: nobody is told of a comparison that began before he asked.
 *
 * What can go wrong: the ledger cannot be read: the calls carry its error. The server ends: they
 * carry ERR_CLOSED; those nobody collects any more are freed with the reconciler.
 *
 * One thread runs the turns; post and collect are any loop's.
 */
#ifndef SLUICE_FLOW_RECONCILER_H
#define SLUICE_FLOW_RECONCILER_H

#include "base/mailbox.h"
#include "flow/embedded_gate.h"
#include "flow/reconcile.h"
#include "obs/metrics.h"

/* Differences that one run logs, at most; whoever calls is given all. */
#define RECONCILER_LOGGED_MAX 20

/* One call of a loop, malloc'ed by it; the reconciler's between post and collect. */
struct reconciler_call {
    struct post post; /* first */
    uint32_t loop;
    bool repair;
    /* out */
    int error;
    struct reconcile_result result; /* its differences are the call's own: */
    struct difference *differences; /* result.count of them, malloc'ed */
};

struct reconciler_work {
    void *context;
    /* Two passes, as far apart as it takes to be sure. */
    int (*now)(void *context, struct reconcile_result *ret_result);
    /* One pass; NULL: never by itself. */
    int (*pass)(void *context, struct reconcile_result *ret_result);
    /* NULL: nothing can be repaired. */
    size_t (*repair)(void *context);
    /* May it run by itself now? NULL: yes. */
    bool (*may)(void *context);
    /* The server is ending, and waits have been cut short. */
    bool (*ending)(void *context);
    /* Between runs, every RECONCILER_IDLE_MS at least. NULL: nothing. */
    void (*idle)(void *context);
};
#define RECONCILER_IDLE_MS 5000

struct reconciler;

/* every_ms: between two passes by itself; 0: none. ERR_NOMEM. */
int reconciler_new(struct reconciler_work work, struct embedded_gate *engine,
                   struct clock_port *clock, struct metrics_slot *metrics, uint32_t loops,
                   int64_t every_ms, struct reconciler **ret_reconciler);
void reconciler_free(struct reconciler *reconciler);
/* Answers what was posted, or runs by itself if it is time, or waits. */
void reconciler_iterate(struct reconciler *reconciler);
/* Any thread: ends a turn's wait. */
void reconciler_wake(struct reconciler *reconciler);

void reconciler_post(struct reconciler *reconciler, struct reconciler_call *call);
struct reconciler_call *reconciler_collect(struct reconciler *reconciler, uint32_t loop);
void reconciler_call_free(struct reconciler_call *call);

#endif
