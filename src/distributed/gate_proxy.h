/*
 * The gate proxy is the gate of the distributed engine as a front sees it: a port/gate in front of
 * another port/gate on other machines. It finds the segment of a request, journals every win before
 * it is answered, keeps buyers in line while the gate is away, and absorbs the flood of requests
 * for sold-out items.
 *
 * Happy path of a buy: the item's sale is in the catalog, so its segment is known. The proxy sends
 * the request there, and the answer comes back from collect. A win goes into the front's spool, and
 * the request carries the LSN that must be durable before the answer is sent.
 *
 * What can go wrong:
 * - The home has too few units while other segments have enough: the proxy asks for a refill and
 *   retries the buy for a bounded time, then answers UNKNOWN_OUTCOME. It answers SOLD_OUT only if
 *   all segments and all units in transit together are too few.
 * - The gate is away: the buy is spooled undecided (QUEUED, `undecided`), up to a bound.
 * - Others wait in line: a new buy joins the line of its segment behind them, even if the gate is
 *   back. Only an order that already exists is answered first.
 * - The segment was away a moment ago: another front may still have the buyer in its line. A buy that
 *   the gate refuses for its stock or its buyer (SOLD_OUT, LIMIT_REACHED, BARRED) is UNKNOWN_OUTCOME,
 *   for as long as "not found" is not believed (segment_table.h).
 * - A buy is older than BUY_AGE_MAX_US, because the process stood still while it waited here: it is
 *   not asked (again) and joins no line. UNKNOWN_OUTCOME.
 * - No answer, or a stale epoch: UNKNOWN_OUTCOME; the same ticket tells the outcome later. The
 *   segment is checked again.
 * - The journal is full or failed, or the clock is off: no new promise, DEGRADED. A buy that was
 *   decided before may be booked by now, so it gets UNKNOWN_OUTCOME.
 * - The item is not in the catalog: another front may have warmed its sale a moment ago. The request
 *   waits for the next reading of the changed sales from the ledger, which the ledger writer makes
 *   once a second and after news, before it is answered with "no such item" or "no such order". It
 *   does not cause a reading: an id that somebody made up costs the ledger nothing. If the sales
 *   cannot be read, or too many requests wait, DEGRADED.
 *
 * What happens to a request is decided by its own state (proxy_request.h), the status of its segment
 * (segment_monitor.h) and the spool (spool.h). The spool's columns say, of the request's order: no
 * entry; undecided, it waits in line here; decided, this front has promised it; resolved, the ledger
 * knows its outcome. "full" is a spool without room, a failed journal or a clock that is off. A
 * segment is seen through the outcome of the request: OPEN answers; CLOSED, LOST and UNKNOWN are
 * GATE_OUTCOME_UNKNOWN; AWAY is GATE_OUTCOME_AWAY, or GATE_OUTCOME_UNKNOWN if the request was under
 * way or no epoch is known. An entry of another buyer or quantity is always BAD_TICKET or
 * DIFFERENT_REQUEST for a BUY that meets it.
 *
 *   BUY        segment   order in the spool      what happens
 *   NEW        any       line empty              ASKED; or ANSWERED from memory: SOLD_OUT
 *              any       a line, it or others    LOOKING
 *              any       full: none, resolved    ANSWERED: DEGRADED
 *              any       full: undecided         ANSWERED: QUEUED, undecided
 *              any       full: decided           ANSWERED: UNKNOWN_OUTCOME, it may be booked by now
 *              no sale   undecided, decided      ANSWERED, as with a full spool
 *              no sale   no entry, resolved      READING; a segment that this process does not know:
 *                                                ANSWERED: DEGRADED, or NO_SUCH_ITEM if made up
 *   READING    any       any                     tried again every 20 ms, as NEW. The sales were read
 *                                                and have no such item: ANSWERED: NO_SUCH_ITEM. After
 *                                                2 s, or if too many wait already: DEGRADED
 *   LOOKING    OPEN      any; the gate has it    ANSWERED with the gate's order, as ASKED
 *              OPEN      no entry                ANSWERED: it joins the line, QUEUED, undecided; or
 *                                                what is known here refuses it
 *              OPEN      undecided, decided      ANSWERED: QUEUED, as promised
 *              OPEN      resolved                ANSWERED: UNKNOWN_OUTCOME
 *              others    any                     as ASKED
 *   ASKED      OPEN      any; a win, or QUEUED   stored as decided, ANSWERED: QUEUED; if it cannot be
 *                                                stored: UNKNOWN_OUTCOME
 *              OPEN      any; a later state      resolved here, too; ANSWERED with that state
 *              OPEN      any; SOLD_OUT           REFILLING if other segments may have enough, else
 *                                                ANSWERED and remembered
 *              OPEN      any; another refusal    ANSWERED with it
 *              AWAY      no entry                ANSWERED: it joins the line, QUEUED, undecided; or
 *                                                what is known here refuses it; no room: DEGRADED
 *              AWAY      undecided               ANSWERED: QUEUED, undecided
 *              AWAY      decided, resolved       ANSWERED: UNKNOWN_OUTCOME
 *              CLOSED, LOST, UNKNOWN   any       ANSWERED: UNKNOWN_OUTCOME
 *   REFILLING  any       any                     ASKED again every 20 ms. If it is still SOLD_OUT
 *                                                after refill_ms: ANSWERED: UNKNOWN_OUTCOME
 *
 *   ORDER      segment   order in the spool      what happens
 *   NEW        any       any                     ASKED; READING and "no sale" as above, with NOT_FOUND
 *                                                for NO_SUCH_ITEM and DEGRADED for UNKNOWN_OUTCOME
 *   ASKED      OPEN      any; the gate has it    ANSWERED; resolved here, too, unless it is QUEUED
 *              OPEN      undecided, decided      ANSWERED: QUEUED, as promised
 *              OPEN      no entry, resolved      ANSWERED: NOT_FOUND; DEGRADED if the segment was away
 *                                                a moment ago, because another front may have it
 *              others    undecided               ANSWERED: QUEUED, undecided
 *              others    any other               ANSWERED: DEGRADED
 *
 * TICKET is like ORDER, but looks at no entry: ANSWERED from memory if the item is sold out; if the
 * segment is not OPEN, DEGRADED or UNKNOWN_OUTCOME. ITEM is never sent to the gate: ANSWERED from the
 * stock cache or the catalog, or READING. GATE_OUTCOME_FULL is OVERLOADED in every row; only an ORDER
 * that is undecided here is shown all the same. AWAY and GATE_OUTCOME_UNKNOWN also mark the segment
 * with a doubt (AWAY only for a BUY) and as away, so that "not found" is not believed for a while.
 *
 * Threads: each loop uses its own part of the state.
 */
#ifndef SLUICE_DISTRIBUTED_GATE_PROXY_H
#define SLUICE_DISTRIBUTED_GATE_PROXY_H

#include "distributed/proxy_request.h"
#include "distributed/refill_requests.h"
#include "distributed/runtime_limits.h"
#include "distributed/segment_table.h"
#include "distributed/spool.h"
#include "distributed/stock_cache.h"
#include "ledger/catalog.h"
#include "port/clock.h"
#include "port/gate.h"
#include "port/segments.h"

struct gate_proxy;

struct gate_proxy_options {
    uint32_t loops;
    uint32_t requests; /* of a loop, under way at once: the most */
    /* line: the most buyers in line. Owned by the caller. */
    const struct runtime_limits *runtime_limits;
    int64_t refill_ms;                       /* how long a buy waits for a refill of its home */
    struct refill_requests *refill_requests; /* owned by the caller */
    struct clock_port *clock;
};

/* The caller owns gate, segment table, catalog, stock cache and spool. All
 * must outlive the proxy. ERR_NOMEM. */
int gate_proxy_new(struct gate_port *gate, struct segment_table *segment_table,
                   struct catalog *catalog, struct stock_cache *stock_cache, struct spool *spool,
                   struct gate_proxy_options options, struct gate_proxy **ret_remote);
void gate_proxy_free(struct gate_proxy *proxy);
struct gate_port *gate_proxy_port(struct gate_proxy *proxy);

#endif
