/*
 * The gate of the distributed engine as a front sees it: port/gate in front of another port/gate
 * that is on other machines. It finds the segment, journals what was won before anyone is told,
 * keeps buyers in line while the gate is away, and keeps the flood on sold-out items to itself.
 *
 * Happy path of a buy: the item's sale is in the catalog, so its segment is known; asked there; the
 * answer comes back from collect; a win goes into the front's spool, and the ask carries the LSN that has
 * to be durable.
 *
 * What can go wrong:
 *   the home has too little while other segments have enough: a refill request for a refill; the buy is
 *                           asked again for a while, then UNKNOWN_OUTCOME. Sold out is said only
 *                           when all segments together, and what is on its way, have too little
 *   the gate is away        the buy is spooled undecided (QUEUED, `undecided`), up to a bound
 *   others stand in line    a new buy joins the line of its segment's gate behind them, though the
 *                           gate is back; only an order that there is already is told first
 *   no answer, stale epoch  UNKNOWN_OUTCOME: the same ticket tells; the segment is looked at
 *   journal full or failed, or the clock is off: nothing new is promised: OVERLOADED, DEGRADED; of a
 *                           buy that was decided before, which may be booked by now, UNKNOWN_OUTCOME
 *   an item that is not in the catalog: another front may have warmed it a moment ago. The sales are
 *                           read from the ledger once more, one reading for all who ask, before
 *                           anyone is told that there is no such item, or no such order; and where
 *                           they cannot be read, or too many wait for that, DEGRADED
 *
 * Each loop uses its own part.
 */
#ifndef SLUICE_FLOW_GATE_PROXY_H
#define SLUICE_FLOW_GATE_PROXY_H

#include "flow/catalog.h"
#include "flow/refill_requests.h"
#include "flow/runtime_limits.h"
#include "flow/segment_table.h"
#include "flow/spool.h"
#include "flow/stock_cache.h"
#include "port/clock.h"
#include "port/gate.h"
#include "port/segments.h"

struct gate_proxy;

struct gate_proxy_options {
    uint32_t loops;
    const struct runtime_limits *runtime_limits; /* line: buyers in line; stays the caller's */
    int64_t refill_ms;                           /* how long a buy waits for a refill of its home */
    struct refill_requests *refill_requests;     /* for refills; stays the caller's */
    struct clock_port *clock;
    void (*read_sales)(void *context); /* the catalog is to be read again */
    void *context;
};

/* gate, places, catalog, stock cache and spool stay the caller's and outlive it. ERR_NOMEM. */
int gate_proxy_new(struct gate_port *gate, struct segment_table *segment_table,
                   struct catalog *catalog, struct stock_cache *stock_cache, struct spool *spool,
                   struct gate_proxy_options options, struct gate_proxy **ret_remote);
void gate_proxy_free(struct gate_proxy *proxy);
struct gate_port *gate_proxy_port(struct gate_proxy *proxy);

/* Where an order is, by its id and its sale's homes. */
uint32_t gate_proxy_segment(struct order_id id, const struct sale_row *sale);

#endif
