/*
 * Upkeep of a process of the distributed engine, beside its loops: which epoch each segment has (and
 * whether ledger and segment agree on it), and what became of the promises in the spool.
 *
 * A promise is looked for in the ledger; found, it is let go. One that the gate that decided it has
 * forgotten (another epoch), or that no gate has decided (the buyer stands in line), is decided
 * again; refused, too old, or of a sale that was forgotten meanwhile, it gets its FAILED row. Those
 * who stand in line are decided as soon as their segment is seen to be open, first come, first
 * served; new buys wait behind them (remote.h).
 * One that nobody has booked for too long (dials.stale_ms) gets its FAILED row, too, wherever it got
 * stuck: the first row wins, and the unit goes back when the gate hears of it.
 *
 * It also asks for transfers where buyers' homes lack units that others have.
 *
 * What can go wrong: ledger or gate are away: everything stays as it is, and is tried again.
 *
 * One thread.
 */
#ifndef SLUICE_FLOW_UPKEEP_H
#define SLUICE_FLOW_UPKEEP_H

#include "flow/bookings.h"
#include "flow/catalog.h"
#include "flow/dials.h"
#include "flow/inside_time.h"
#include "flow/shelf.h"
#include "flow/spool.h"
#include "flow/wishes.h"
#include "port/gate.h"

struct upkeep_parts {
    struct segments *segments; /* this thread's */
    struct ledger *ledger;     /* this thread's, for reading */
    struct gate_port *gate;    /* whose asks carry the epochs */
    struct bookings *bookings; /* this thread's desk */
    struct places *places;
    struct catalog *catalog;
    struct spool *spool;
    struct shelf *shelf;
    struct wishes *wishes;
    struct inside_time *time;
    struct metrics_slot *metrics;
    const struct dials *dials; /* line_ms, stale_ms */
    /* Hands a wish to whoever balances, if that is in this process. NULL, false: it is not, and the
     * wish is noted in the ledger. */
    bool (*refill)(void *context, const struct wish *wish);
    void *context;
};

struct upkeep;

int upkeep_new(const struct upkeep_parts *parts, struct upkeep **ret_upkeep);
void upkeep_free(struct upkeep *upkeep);
/* One round. */
void upkeep_turn(struct upkeep *upkeep);
/* Its thread only: a bit for each segment that did not answer its last look; whether the ledger's last
 * read failed. */
uint64_t upkeep_away(const struct upkeep *upkeep);
bool upkeep_ledger_away(const struct upkeep *upkeep);
/* Every segment has been seen open: buyers can be served. */
bool upkeep_is_ready(const struct upkeep *upkeep);

#endif
