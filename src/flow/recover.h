/*
 * Recovery of segments. A segment that is on another server than it was made for, was emptied, says
 * it is broken, or is of another epoch than the ledger's is made anew from the ledger under a higher
 * epoch; a segment the ledger has never seen is made for the first time.
 *
 * Happy path of a round: look at every segment. For those in need, each under its lease: fronts are
 * told that it is lost; what is still on its way to the ledger may arrive, for a bounded time; the
 * epoch is raised in the ledger, and from then on nothing decided before is booked; the ledger is
 * read (flow/segment_snapshot.h); the gate is filled; fronts hear of the new epoch and make the decisions of
 * their journals that the ledger lacks again, for a bounded time; it opens. Several segments share
 * the two waits.
 *
 * What can go wrong: anything, anywhere. A round that stops leaves a segment that is stale, of an
 * older epoch than the ledger's, or closed; each of these is a need, and the next round, here or in
 * another process, begins again with a higher epoch. Nothing is ever finished that another began:
 * every epoch is filled by the one who raised it, from one picture, or not at all. Two at once: the
 * lease lets one work; one that was paused past its lease's end is refused by the ledger (a higher
 * token was given out) and by the gate (its fence, or a higher epoch).
 *
 * While the server cannot be asked, or the ledger cannot, there is nothing to do.
 *
 * Decisions that were made and not booked (QUEUED) are not in the ledger. They come back from
 * fronts' journals, and from messages of the old epoch, which are decided again and never booked
 * directly.
 *
 * One thread runs the rounds.
 */
#ifndef SLUICE_FLOW_RECOVER_H
#define SLUICE_FLOW_RECOVER_H

#include "flow/blocking.h"
#include "port/lease.h"
#include "port/segments.h"

struct recover_options {
    uint32_t segments;
    struct gate_sizes sizes; /* of each */
    int64_t lease_ms;        /* leases are kept for so long at a time; above three polls */
    int64_t poll_ms;         /* between two looks while waiting */
    int64_t drain_ms;        /* at most, for what is on its way to the ledger */
    int64_t replay_ms;       /* for fronts' journals */
    /* Decisions of the segment that are still on their way; NULL: nobody knows, drain_ms passes. */
    uint64_t (*pending)(void *context, uint32_t segment);
    void *context;
};

struct recover_ports {
    struct segments *segments;
    struct ledger *ledger;
    struct lease_port *lease;
    struct blocking blocking;
};

/* What a round met; each segment is counted once. */
struct recover_round {
    uint32_t whole;
    uint32_t away;    /* could not be asked */
    uint32_t busy;    /* somebody else's lease */
    uint32_t rebuilt; /* and open */
    uint32_t failed;  /* to be tried again; the log says why */
};

struct recover;

/* Ports outlive it. ERR_NOMEM. */
int recover_new(struct recover_ports ports, struct recover_options options,
                struct recover **ret_recover);
void recover_free(struct recover *recover);
/* One round; waits as the options say if a segment is in need. The ledger's error; then nothing was
 * looked at. */
int recover_round(struct recover *recover, struct recover_round *ret_round);

#endif
