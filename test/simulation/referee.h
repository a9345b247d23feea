/*
 * The referee: everything the checkers know. It sees what clients send and hear, what the ledger
 * commits, and when the server starts and dies; from that it keeps its own accounts of sales,
 * items, orders and buyers. The checkers (promise_*.c) look at these accounts, and at the state of
 * the code under test only to compare it with them.
 *
 * A fact has one of two sources: `asked`/`told` (clients) or `truth` (committed in the ledger).
 */
#ifndef SLUICE_REFEREE_H
#define SLUICE_REFEREE_H

#include "core/gate.h"
#include "port/inside_time.h"
#include "sim.h"

struct referee;

struct referee *referee_new(struct sim *sim);
void referee_free(struct referee *referee);

/* ---- clients ---- */

void referee_sent(struct referee *referee, const struct sim_request *request);
/* The complete answer arrived. */
void referee_heard(struct referee *referee, const struct sim_request *request,
                   const struct sim_answer *answer);
/* The connection ended, or the client gave up, before a complete answer: the outcome is unknown. */
void referee_unheard(struct referee *referee, const struct sim_request *request);
/* An event of an order's stream; id: of the SSE event. first: nothing came before it. */
void referee_streamed(struct referee *referee, const struct sim_request *request, uint64_t id,
                      const struct sim_told *told);
/* An event of an item's stream: has_numbers. */
void referee_item_streamed(struct referee *referee, const struct sim_request *request,
                           const struct sim_answer *numbers);

/* ---- ledger ---- */

/* A batch was committed (whether or not the server hears of it). Called by the ledger port with the
 * ops in their final state and the batch's events. */
void referee_committed(struct referee *referee, const struct ledger_batch *batch);

/* ---- the server ---- */

/* What may be looked at while the server runs, to compare. */
struct referee_view {
    const struct gate *gate;
    uint64_t last_lsn;
    uint64_t durable_lsn;
    bool failed; /* the journal has failed: the server promises nothing more until a restart */
};
/* Recovered from disk and ready (the first time too). wall_ms: the wall clock the server read at
 * this start; boot_us: its boot clock then. */
void referee_started(struct referee *referee, const struct referee_view *view, int64_t wall_ms,
                     int64_t boot_us);
/* A start with --accept-clock begins, which may set the time back; or it is over. */
void referee_accepts(struct referee *referee, bool accepts);
/* ... before it: the operator accepted a clock that was behind, and the server has set its time back. */
void referee_set_back(struct referee *referee, int64_t wall_ms);
/* ... after referee_started: how long nobody had set the wall clock, and whether the operator accepted
 * it. */
void referee_clock(struct referee *referee, int64_t wall_ms, int64_t steady_us, bool accepted);
/* Of the servers under test. */
extern const struct clock_bounds referee_clock_bounds;
#define REFEREE_CONFIRM_MS 5000
/* Killed, cut or stopped; what its clients have in flight is unheard one by one. */
void referee_ended(struct referee *referee);
/* After every step: a turn of a loop, a flush, a turn of the ledger writer. Cheap: O(items) at most, with
 * whatever is more expensive spread out. view NULL: the server is down. boot_us: the server's boot
 * clock now; disturbed: a fault that may delay things is on (disk, ledger, latch, paused thread). */
void referee_step(struct referee *referee, const struct referee_view *view, int64_t boot_us,
                  bool disturbed);
/* After everything healed and the bound has passed: everything is final and adds up. */
void referee_end(struct referee *referee, const struct referee_view *view);

/* How many clients' requests wait for an answer, and how many orders are not final in the ledger;
 * for the bound at the end. */
uint64_t referee_unfinished(const struct referee *referee);
/* Fills states[] of the result. */
void referee_count(const struct referee *referee, struct sim_result *result);

#endif
