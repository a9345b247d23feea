/*
 * Recovery rebuilds segments. A segment needs it if it is on another server than it was made for,
 * was emptied, is marked broken, is closed, or has another epoch than the ledger's. It is rebuilt
 * from the ledger under a higher epoch. A segment that the ledger has never seen is made for the
 * first time.
 *
 * Happy path of a round: check every segment. For each one in need, under its lease:
 * - Tell the fronts that the segment is lost.
 * - Wait, for a bounded time, for decisions in flight to reach the ledger.
 * - Raise the epoch in the ledger. From then on nothing decided earlier is booked.
 * - Read the ledger (distributed/segment_snapshot.h) and fill the gate.
 * - Tell the fronts the new epoch. For a bounded time they replay the decisions of their journals
 *   that the ledger lacks.
 * - Open the segment.
 * Several segments share the two waits.
 *
 * What can go wrong: anything, at any step. A round that stops leaves a segment that is stale, of
 * an older epoch than the ledger's, or closed. Each of these is a need. The next round, here or in
 * another process, starts over with a higher epoch. No round finishes what another began: an epoch
 * is filled by the process that raised it, from one snapshot, or not at all. If two processes try
 * at once, the lease admits one. A process that was paused past the end of its lease is refused by
 * the ledger (a higher token was issued) and by the gate (its fence, or a higher epoch).
 *
 * While the segment's server or the ledger does not answer, there is nothing to do.
 *
 * Decisions that were made but not booked (QUEUED) are not in the ledger. They come back from the
 * fronts' journals, and from messages of the old epoch, which are decided again and never booked
 * directly.
 *
 * One thread runs the rounds.
 */
#ifndef SLUICE_DISTRIBUTED_RECOVER_H
#define SLUICE_DISTRIBUTED_RECOVER_H

#include "port/blocking.h"
#include "port/lease.h"
#include "port/segments.h"

struct recover_options {
    uint32_t segments;
    struct gate_sizes sizes; /* of each segment */
    struct gate_shares shares;
    int64_t lease_ms;  /* how long a lease is taken for; more than three times poll_ms */
    int64_t poll_ms;   /* between two checks while waiting */
    int64_t drain_ms;  /* longest wait for decisions in flight to the ledger */
    int64_t replay_ms; /* wait for the fronts to replay their journals */
    /* Decisions of the segment that are still in flight. NULL: unknown, wait for drain_ms. */
    uint64_t (*pending)(void *context, uint32_t segment);
    void *context;
};

struct recover_ports {
    struct segments *segments;
    struct ledger *ledger;
    struct lease_port *lease;
    struct blocking blocking;
};

/* What a round found. Each segment is counted once. */
struct recover_round {
    uint32_t whole;
    uint32_t away;    /* did not answer */
    uint32_t busy;    /* another process holds its lease */
    uint32_t rebuilt; /* rebuilt and open */
    uint32_t failed;  /* retried in the next round; the log says why */
};

struct recover;

/* The ports must outlive it. ERR_NOMEM. */
int recover_new(struct recover_ports ports, struct recover_options options,
                struct recover **ret_recover);
void recover_free(struct recover *recover);
/* One round. Waits as the options say if a segment needs recovery. On the
 * ledger's error nothing was rebuilt. */
int recover_round(struct recover *recover, struct recover_round *ret_round);

#endif
