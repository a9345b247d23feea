/*
 * The promise resolver runs beside the loops in a process of the distributed engine. It tracks the
 * epoch of each segment (and whether ledger and segment agree on it), and it resolves the promises
 * in the spool.
 *
 * Happy path: it looks a promise up in the ledger and removes it from the spool when the ledger has
 * a row for it.
 *
 * Other outcomes of a promise:
 * - The gate that decided it has forgotten it (another epoch), or no gate has decided it (the buyer
 *   waits in line): it is decided again.
 * - The gate refuses it, it is undecided after runtime_limits.line_ms or at its sale's end, or its
 *   sale was forgotten in the meantime: it gets a FAILED row.
 * - It was decided but not booked for longer than runtime_limits.stale_ms: it gets a FAILED row,
 *   too, wherever it got stuck. The first row wins, and the unit goes back when the gate applies
 *   the event.
 *
 * Buyers in line are decided as soon as their segment is seen open, first come, first served. New
 * buys wait behind them (gate_proxy.h).
 *
 * It also asks for transfers when a buyer's home lacks units that other segments have.
 *
 * What can go wrong: the ledger or the gate is away. Everything stays as it is and is retried.
 *
 * One thread.
 */
#ifndef SLUICE_DISTRIBUTED_PROMISE_RESOLVER_H
#define SLUICE_DISTRIBUTED_PROMISE_RESOLVER_H

#include "distributed/booking_channel.h"
#include "distributed/refill_requests.h"
#include "distributed/runtime_limits.h"
#include "distributed/spool.h"
#include "distributed/stock_cache.h"
#include "ledger/catalog.h"
#include "port/gate.h"
#include "port/inside_time.h"

struct promise_resolver_parts {
    struct segments *segments;               /* of this thread */
    struct ledger *ledger;                   /* of this thread, for reading */
    struct gate_port *gate;                  /* its requests carry the epochs */
    struct booking_channel *booking_channel; /* of this thread */
    struct segment_table *segment_table;
    struct catalog *catalog;
    struct spool *spool;
    struct stock_cache *stock_cache;
    struct refill_requests *refill_requests;
    struct inside_time *time;
    struct metrics_slot *metrics;
    const struct runtime_limits *runtime_limits; /* line_ms, stale_ms */
    /* Passes a refill request to the balancer if it runs in this process. If this is NULL or
     * returns false, it does not, and the request is noted in the ledger. */
    bool (*refill)(void *context, const struct refill *refill);
    void *context;
};

struct promise_resolver;

int promise_resolver_new(const struct promise_resolver_parts *parts,
                         struct promise_resolver **ret_promise_resolver);
void promise_resolver_free(struct promise_resolver *promise_resolver);
/* One iteration. */
void promise_resolver_iterate(struct promise_resolver *promise_resolver);
/* Its own thread only. A bit for each segment that did not answer its last check; true if the last
 * read of the ledger failed. */
uint64_t promise_resolver_away(const struct promise_resolver *promise_resolver);
bool promise_resolver_ledger_away(const struct promise_resolver *promise_resolver);
/* True once every segment has been seen open: buyers can be served. It stays true. */
bool promise_resolver_is_ready(const struct promise_resolver *promise_resolver);

#endif
