/*
 * The promise resolver resolves the promises in the spool of a process of the distributed engine:
 * it follows each one until the ledger has a row for it.
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
 * Buyers in line are decided as soon as the segment monitor sees their segment open, first come,
 * first served. New buys wait behind them (gate_proxy.h).
 *
 * What can go wrong: the ledger or the gate is away. Everything stays as it is and is retried.
 *
 * One thread, which also runs the segment monitor: an iteration checks the segments first.
 */
#ifndef SLUICE_DISTRIBUTED_PROMISE_RESOLVER_H
#define SLUICE_DISTRIBUTED_PROMISE_RESOLVER_H

#include "distributed/booking_channel.h"
#include "distributed/runtime_limits.h"
#include "distributed/segment_monitor.h"
#include "distributed/spool.h"
#include "ledger/catalog.h"
#include "port/inside_time.h"

struct promise_resolver_parts {
    struct segment_monitor *segment_monitor; /* of this thread */
    struct booking_channel *booking_channel; /* of this thread */
    struct segment_table *segment_table;
    struct catalog *catalog;
    struct spool *spool;
    struct inside_time *time;
    struct metrics_slot *metrics;
    const struct runtime_limits *runtime_limits; /* line_ms, stale_ms */
};

struct promise_resolver;

int promise_resolver_new(const struct promise_resolver_parts *parts,
                         struct promise_resolver **ret_promise_resolver);
void promise_resolver_free(struct promise_resolver *promise_resolver);
/* One iteration, of the segment monitor, too: checks segments, serves the lines of those that are
 * open, grants refills, and looks promises up. */
void promise_resolver_iterate(struct promise_resolver *promise_resolver);

#endif
