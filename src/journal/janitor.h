/*
 * The janitor maintains the journal's folder in the background. It prepares the next file before it
 * is needed, turns closed files into snapshots, and removes files that neither a restart nor the
 * ledger needs. One thread; an iteration may wait for the disk as long as it takes.
 */
#ifndef SLUICE_JOURNAL_JANITOR_H
#define SLUICE_JOURNAL_JANITOR_H

#include "distributed/spool.h"
#include "ledger/ledger_writer.h"

#define JANITOR_EVERY_US 200000

struct janitor {
    struct journal *journal;
    struct ledger_writer *ledger_writer;
    /* If set, the journal is the spool's list: no snapshots, trimmed as promises are kept. */
    struct spool *spool;
    struct clock_port *clock;
    struct metrics_slot *metrics;
    struct gate_sizes sizes; /* of the gate, and of the second gate used for snapshots */
    uint64_t hash_key;
    int64_t snapshot_after_us;
};

void janitor_iterate(struct janitor *janitor);

#endif
