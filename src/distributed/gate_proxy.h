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
 * - No answer, or a stale epoch: UNKNOWN_OUTCOME; the same ticket tells the outcome later. The
 *   segment is checked again.
 * - The journal is full or failed, or the clock is off: no new promise, DEGRADED. A buy that was
 *   decided before may be booked by now, so it gets UNKNOWN_OUTCOME.
 * - The item is not in the catalog: another front may have warmed its sale a moment ago. The sales
 *   are read from the ledger once more, one reading for all waiting requests, before any of them is
 *   answered with "no such item" or "no such order". If the sales cannot be read, or too many
 *   requests wait, DEGRADED.
 *
 * Threads: each loop uses its own part of the state.
 */
#ifndef SLUICE_DISTRIBUTED_GATE_PROXY_H
#define SLUICE_DISTRIBUTED_GATE_PROXY_H

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
    /* line: the most buyers in line. Owned by the caller. */
    const struct runtime_limits *runtime_limits;
    int64_t refill_ms;                       /* how long a buy waits for a refill of its home */
    struct refill_requests *refill_requests; /* owned by the caller */
    struct clock_port *clock;
    void (*read_sales)(void *context); /* asks for a new reading of the catalog */
    void *context;
};

/* The caller owns gate, segment table, catalog, stock cache and spool. All
 * must outlive the proxy. ERR_NOMEM. */
int gate_proxy_new(struct gate_port *gate, struct segment_table *segment_table,
                   struct catalog *catalog, struct stock_cache *stock_cache, struct spool *spool,
                   struct gate_proxy_options options, struct gate_proxy **ret_remote);
void gate_proxy_free(struct gate_proxy *proxy);
struct gate_port *gate_proxy_port(struct gate_proxy *proxy);

#endif
