/*
 * The write-ahead journal: gate commands in decision order, durable before any answer is sent.
 *
 * Happy path: the thread that decides calls journal_append() under the gate's lock and gets the
 * record's LSN (1, 2, 3 ...). The journal thread calls journal_flush() in a loop: swap buffers,
 * write one batch, make it durable, publish durable_lsn, call the listener. Batch n+1 is written
 * only after batch n is durable. Readers (the booking reader, snapshots) read batches back from the
 * files with a journal_reader, never beyond durable_lsn.
 *
 * What can go wrong: a failed write or sync, or a full disk, fails the journal. From then on
 * journal_append returns ERR_JOURNAL_FAILED and durable_lsn never moves again; a restart recovers.
 * A torn tail is cut when the journal is opened, and is reported. Damage before a valid later batch
 * refuses to open (ERR_CORRUPT, with file and offset).
 *
 * There are two kinds of journal. A gate's history: each record follows from those before it, and
 * snapshots stand for its beginning. Or, with options.each, a plain list of commands: a front of
 * the distributed engine lists the buys it accepted. A list has no gate and no snapshots, and is
 * trimmed below booked_lsn alone.
 *
 * docs/JOURNAL.md describes the format.
 */
#ifndef SLUICE_JOURNAL_JOURNAL_H
#define SLUICE_JOURNAL_JOURNAL_H

#include <stdatomic.h>
#include <stdbool.h>

#include "core/gate.h"
#include "core/record.h"
#include "port/disk.h"

struct journal;

struct journal_options {
    uint64_t segment_bytes; /* a multiple of JOURNAL_SECTOR */
    uint32_t buffer_bytes;  /* of each of the two buffers; a batch fits a buffer and a segment */
    /* Makes it a list: journal_open calls this for every record. NULL: a gate's history. */
    void (*each)(void *context, uint64_t lsn, const struct gate_command *command);
    void *each_context;
};

/* What journal_open found, for the log and for tests. */
struct journal_found {
    uint64_t last_lsn;     /* of the last record; the snapshot's LSN if nothing follows it */
    uint64_t snapshot_lsn; /* 0: none */
    uint64_t replayed;     /* records */
    uint64_t segments;
    uint64_t bad_snapshots; /* damaged ones that are newer than the one used */
    uint64_t torn_bytes;    /* cut from the tail: from the bad batch to the last non-zero byte */
    int64_t highest_ms;     /* highest time in the snapshot and the journal */
    char where[96];         /* "file:offset" of the damage (ERR_CORRUPT), else of the cut */
    char why[96];
};

/*
 * Opens the journal in the disk's folder, or starts a new one: loads the newest valid snapshot into
 * gate, then replays every later record through gate_step. The gate is empty before the call and
 * complete after it; after an error its content is useless. It is NULL for a list. Returns 0,
 * ERR_CORRUPT, ERR_VERSION, ERR_FULL (the gate is too small for the journal's content), ERR_IO,
 * ERR_NOSPACE or ERR_NOMEM. *ret_found is filled in every case. Single-threaded.
 */
int journal_open(struct disk *disk, struct journal_options options, struct gate *gate,
                 struct journal **ret_journal, struct journal_found *ret_found);
void journal_free(struct journal *journal);

/* True if the open buffer has room for n more records of any kind. Callers ask before they decide.
 * A failed journal has no room. */
bool journal_has_room(struct journal *journal, size_t n);
/*
 * Appends one record and returns its LSN in ret_lsn. Any thread; the caller's lock keeps decision
 * order. ERR_JOURNAL_FAILED, or ERR_FULL if the caller did not check for room.
 */
int journal_append(struct journal *journal, const struct gate_command *command, uint64_t *ret_lsn);

/* Journal thread: writes the content of the open buffer as one batch. Returns 0 also if there was
 * nothing to write; *ret_wrote tells which. Any error is final: the journal has failed. */
int journal_flush(struct journal *journal, bool *ret_wrote);
/* Journal thread: waits until there is something to flush or journal_stop is called. False:
 * stopped; records that are already appended still have to be flushed. */
bool journal_wait(struct journal *journal);
void journal_stop(struct journal *journal);
/* Sets the listener. journal_flush calls it after durable_lsn moved or the journal failed. */
void journal_listen(struct journal *journal, void (*moved)(void *context), void *context);

uint64_t journal_durable_lsn(const struct journal *journal); /* any thread */
uint64_t journal_last_lsn(const struct journal *journal);    /* last appended; any thread */
bool journal_failed(const struct journal *journal);          /* any thread */

/*
 * Background thread, the same one for all four. journal_prepare_segment makes the next segment file
 * ahead of need. journal_snapshot_due: at least one closed segment lies past the last snapshot.
 * journal_snapshot replays closed segments into `second` (an empty gate of the same sizes, lent by
 * the caller for this call) and writes a snapshot. journal_trim removes segments that are below
 * both booked_lsn and the snapshot before the newest, and snapshots older than that one. If the
 * newest snapshot turns out to be damaged, the next start uses the one before it. They return 0 or
 * an error that is not final: the caller logs it, and the journal goes on. *ret_snapshot_lsn is 0
 * if no snapshot was taken; *ret_removed counts segments.
 */
bool journal_snapshot_due(const struct journal *journal);
int journal_prepare_segment(struct journal *journal);
int journal_snapshot(struct journal *journal, struct gate *second, uint64_t *ret_snapshot_lsn);
int journal_trim(struct journal *journal, uint64_t booked_lsn, uint32_t *ret_removed);

/* Reads durable records in order, from the first one after `after_lsn`. */
struct journal_reader;
int journal_reader_new(struct journal *journal, uint64_t after_lsn,
                       struct journal_reader **ret_reader);
void journal_reader_free(struct journal_reader *reader);
/* The next record: 0, ERR_AGAIN (no further durable record yet), ERR_IO, ERR_CORRUPT, ERR_NOTFOUND
 * (trimmed away: after_lsn lies below the oldest segment). */
int journal_reader_next(struct journal_reader *reader, uint64_t *ret_lsn, int64_t *ret_batch_ms,
                        struct gate_command *ret_command);

/* For `sluice journal dump|verify`: visits every batch and record of a folder and changes
 * nothing. */
struct journal_scan_ops {
    void (*batch)(void *context, const char *file, uint64_t offset, uint64_t number,
                  uint64_t first_lsn, uint32_t records, uint32_t bytes);
    void (*record)(void *context, uint64_t lsn, const struct gate_command *command);
    void (*note)(void *context, const char *file, uint64_t offset, const char *what);
};
int journal_scan(struct disk *disk, const struct journal_scan_ops *ops, void *context,
                 struct journal_found *ret_found);

#endif
