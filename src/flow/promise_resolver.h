/*
 * The promise resolver of a process of the distributed engine, beside its loops: which epoch each segment has (and
 * whether ledger and segment agree on it), and what became of the promises in the spool.
 *
 * A promise is looked for in the ledger; found, it is let go. One that the gate that decided it has
 * forgotten (another epoch), or that no gate has decided (the buyer stands in line), is decided
 * again; refused, too old, or of a sale that was forgotten meanwhile, it gets its FAILED row. Those
 * who stand in line are decided as soon as their segment is seen to be open, first come, first
 * served; new buys wait behind them (gate_proxy.h).
 * One that nobody has booked for too long (runtime limits.stale_ms) gets its FAILED row, too, wherever it got
 * stuck: the first row wins, and the unit goes back when the gate hears of it.
 *
 * It also asks for transfers where buyers' homes lack units that others have.
 *
 * What can go wrong: ledger or gate are away: everything stays as it is, and is tried again.
 *
 * One thread.
 */
#ifndef SLUICE_FLOW_PROMISE_RESOLVER_H
#define SLUICE_FLOW_PROMISE_RESOLVER_H

#include "flow/booking_channel.h"
#include "flow/catalog.h"
#include "flow/inside_time.h"
#include "flow/refill_requests.h"
#include "flow/runtime_limits.h"
#include "flow/spool.h"
#include "flow/stock_cache.h"
#include "port/gate.h"

struct promise_resolver_parts {
    struct segments *segments;               /* this thread's */
    struct ledger *ledger;                   /* this thread's, for reading */
    struct gate_port *gate;                  /* whose asks carry the epochs */
    struct booking_channel *booking_channel; /* this thread's mailbox */
    struct segment_table *segment_table;
    struct catalog *catalog;
    struct spool *spool;
    struct stock_cache *stock_cache;
    struct refill_requests *refill_requests;
    struct inside_time *time;
    struct metrics_slot *metrics;
    const struct runtime_limits *runtime_limits; /* line_ms, stale_ms */
    /* Hands a refill request to whoever balances, if that is in this process. NULL, false: it is not, and the
     * refill request is noted in the ledger. */
    bool (*refill)(void *context, const struct refill *refill);
    void *context;
};

struct promise_resolver;

int promise_resolver_new(const struct promise_resolver_parts *parts,
                         struct promise_resolver **ret_promise_resolver);
void promise_resolver_free(struct promise_resolver *promise_resolver);
/* One round. */
void promise_resolver_iterate(struct promise_resolver *promise_resolver);
/* Its thread only: a bit for each segment that did not answer its last look; whether the ledger's last
 * read failed. */
uint64_t promise_resolver_away(const struct promise_resolver *promise_resolver);
bool promise_resolver_ledger_away(const struct promise_resolver *promise_resolver);
/* Every segment has been seen open: buyers can be served. */
bool promise_resolver_is_ready(const struct promise_resolver *promise_resolver);

#endif
