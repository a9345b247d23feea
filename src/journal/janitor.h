/*
 * The janitor maintains the journal's folder in the background. It prepares the next file before it
 * is needed, has closed files turned into snapshots, and removes files that neither a restart nor the
 * ledger needs. One thread; an iteration may wait for the disk as long as it takes.
 */
#ifndef SLUICE_JOURNAL_JANITOR_H
#define SLUICE_JOURNAL_JANITOR_H

#include "journal/journal.h"
#include "obs/metrics.h"
#include "port/clock.h"

#define JANITOR_EVERY_US 200000

struct janitor {
    struct journal *journal;
    struct clock_port *clock;
    struct metrics_slot *metrics;
    /* Calls journal_snapshot with an empty content. NULL: the journal is a list. */
    int (*snapshot)(void *context, struct journal *journal, uint64_t *ret_lsn);
    void *snapshot_context;
    /* The last LSN that nobody needs any more: booked, or its promise kept. */
    uint64_t (*trim_lsn)(void *context);
    void *trim_context;
    int64_t snapshot_after_us;
    bool was_full; /* the full disk was logged */
};

void janitor_iterate(struct janitor *janitor);

#endif
