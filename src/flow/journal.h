/*
 * The write-ahead journal: gate commands, in decision order, durable before anyone is told.
 *
 * Happy path: whoever decides calls journal_append() under the gate's lock and gets the record's
 * LSN (1, 2, 3 ...). The journal thread calls journal_flush() in a loop: swap buffers, write one
 * batch, make it durable, publish durable_lsn, tell the listener. Batch n+1 is written only after
 * batch n is durable. Readers (the booker, snapshots) read batches back from the files with a
 * journal_reader, never beyond durable_lsn.
 *
 * What can go wrong: a failed write or sync, or a full disk, fails the journal: journal_append
 * refuses from then on (ERR_JOURNAL_FAILED), durable_lsn never moves again, restart heals. A torn tail is
 * cut at open and reported. Damage before a valid later batch refuses to open (ERR_CORRUPT, with
 * file and offset).
 *
 * A journal is the history of a gate (each record follows from those before it, snapshots stand for
 * its beginning), or, with options.each, a plain list of commands, as a front of the distributed
 * engine keeps of what it accepted: no gate, no snapshots, trimmed below booked_lsn alone.
 *
 * The format is in docs/JOURNAL.md.
 */
#ifndef SLUICE_FLOW_JOURNAL_H
#define SLUICE_FLOW_JOURNAL_H

#include <stdatomic.h>
#include <stdbool.h>

#include "core/gate.h"
#include "core/record.h"
#include "port/disk.h"

struct journal;

struct journal_options {
    uint64_t segment_bytes; /* a multiple of JOURNAL_SECTOR */
    uint32_t buffer_bytes;  /* of each of the two buffers; at least one segment must hold a batch */
    /* A list: called by journal_open with every record it holds. NULL: a gate's history. */
    void (*each)(void *context, uint64_t lsn, const struct gate_command *command);
    void *each_context;
};

/* What open found, for the log and for tests. */
struct journal_found {
    uint64_t last_lsn;     /* of the journal's end; the snapshot's if nothing follows it */
    uint64_t snapshot_lsn; /* 0: none */
    uint64_t replayed;     /* records */
    uint64_t segments;
    uint64_t bad_snapshots; /* newer than the one used, and damaged */
    uint64_t torn_bytes;    /* cut from the tail: from the bad batch to the last non-zero byte */
    int64_t highest_ms;     /* highest time in snapshot and journal */
    char where[96]; /* "file:offset" of the damage, with ERR_CORRUPT; of the cut otherwise */
    char why[96];
};

/*
 * Opens (or starts) the journal of the disk's folder: newest valid snapshot into gate, then every
 * later record through gate_step. gate is empty before and complete after, of no use after an
 * error; it is NULL for a list. 0, ERR_CORRUPT, ERR_VERSION, ERR_FULL (the gate is too small for what is in the journal),
 * ERR_IO, ERR_NOSPACE, ERR_NOMEM; found is filled in any case. Single-threaded.
 */
int journal_open(struct disk *disk, struct journal_options options, struct gate *gate,
                 struct journal **ret_journal, struct journal_found *ret_found);
void journal_free(struct journal *journal);

/* Room for n more records of any kind in the open buffer? Callers ask before they decide. A failed
 * journal has none. */
bool journal_has_room(struct journal *journal, size_t n);
/*
 * Appends one record; its LSN in ret_lsn. Any thread, in decision order (the caller's lock).
 * ERR_JOURNAL_FAILED, or ERR_FULL where the caller did not ask for room.
 */
int journal_append(struct journal *journal, const struct gate_command *command, uint64_t *ret_lsn);

/* Journal thread: writes what is in the open buffer as one batch; 0 with nothing to do too.
 * Any error is final (failed). *ret_wrote tells whether there was anything. */
int journal_flush(struct journal *journal, bool *ret_wrote);
/* Journal thread: waits until there is something to flush or journal_stop was called.
 * False: stopped (what is appended has to be flushed all the same). */
bool journal_wait(struct journal *journal);
void journal_stop(struct journal *journal);
/* Called by journal_flush after durable_lsn moved, or after the journal failed. */
void journal_listen(struct journal *journal, void (*moved)(void *context), void *context);

uint64_t journal_durable_lsn(const struct journal *journal); /* any thread */
uint64_t journal_last_lsn(const struct journal *journal);    /* appended; any thread */
bool journal_failed(const struct journal *journal);          /* any thread */

/*
 * Background thread: prepares the next segment file ahead of need; when at least one closed segment
 * lies past the last snapshot, replays closed segments into `second` (an empty gate of the same
 * sizes, given by the caller for this call) and writes a snapshot; then removes segments below both
 * booked_lsn and the snapshot before the newest, and snapshots older than that one: should the
 * newest turn out to be damaged, the next start goes on from there. 0 or an error that was not
 * final (logged by the caller; the journal itself goes on). *ret_snapshot_lsn is 0 when no snapshot
 * was taken; *ret_removed counts segments. One background thread for all of these.
 */
bool journal_snapshot_due(const struct journal *journal);
int journal_prepare_segment(struct journal *journal);
int journal_snapshot(struct journal *journal, struct gate *second, uint64_t *ret_snapshot_lsn);
int journal_trim(struct journal *journal, uint64_t booked_lsn, uint32_t *ret_removed);

/* Reads records in order from after `after_lsn`, only durable ones. */
struct journal_reader;
int journal_reader_new(struct journal *journal, uint64_t after_lsn,
                       struct journal_reader **ret_reader);
void journal_reader_free(struct journal_reader *reader);
/* The next record: 0, ERR_AGAIN (nothing durable beyond yet), ERR_IO, ERR_CORRUPT,
 * ERR_NOTFOUND (trimmed away: after_lsn lies below the oldest segment). */
int journal_reader_next(struct journal_reader *reader, uint64_t *ret_lsn, int64_t *ret_batch_ms,
                        struct gate_command *ret_command);

/* For `sluice journal dump|verify`: every batch and record of a folder, without changing it. */
struct journal_scan_ops {
    void (*batch)(void *context, const char *file, uint64_t offset, uint64_t number,
                  uint64_t first_lsn, uint32_t records, uint32_t bytes);
    void (*record)(void *context, uint64_t lsn, const struct gate_command *command);
    void (*note)(void *context, const char *file, uint64_t offset, const char *what);
};
int journal_scan(struct disk *disk, const struct journal_scan_ops *ops, void *context,
                 struct journal_found *ret_found);

#endif
