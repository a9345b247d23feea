/*
 * The janitor keeps the journal's folder in order, behind everybody's back: the next file is ready
 * before it is needed, closed files become snapshots, and what neither a restart nor the ledger
 * needs is removed. One thread; a turn may wait for the disk as long as it likes.
 */
#ifndef SLUICE_FLOW_JANITOR_H
#define SLUICE_FLOW_JANITOR_H

#include "flow/ledger_writer.h"
#include "flow/spool.h"

#define JANITOR_EVERY_US 200000

struct janitor {
    struct journal *journal;
    struct ledger_writer *ledger_writer;
    struct spool *spool; /* the journal is its list: no snapshots, trimmed as promises are kept */
    struct clock_port *clock;
    struct metrics_slot *metrics;
    struct gate_sizes sizes; /* of the gate, and of the second one that snapshots replay into */
    uint64_t hash_key;
    int64_t snapshot_after_us;
};

void janitor_iterate(struct janitor *janitor);

#endif
