/*
 * The write-ahead journal: records in order, durable before anything is answered from them. A
 * record is up to JOURNAL_RECORD_MAX_BYTES bytes and a time. The journal does not know what they
 * mean: struct journal_content does.
 *
 * Happy path: a thread calls journal_append() under the lock that gives its records their order,
 * and gets the record's LSN (1, 2, 3 ...). The journal thread calls journal_flush() in a loop: swap buffers,
 * write one batch, make it durable, publish durable_lsn, call the listener. Batch n+1 is written
 * only after batch n is durable. Readers (the booking reader, snapshots) read batches back from the
 * files with a journal_reader, never beyond durable_lsn.
 *
 * What can go wrong: a failed write or sync fails the journal. From then on journal_append returns
 * ERR_JOURNAL_FAILED and durable_lsn never moves again; a restart recovers. A full disk does not fail
 * it: see enum journal_space.
 * A torn tail is cut when the journal is opened, and is reported. Damage before a valid later batch
 * refuses to open (ERR_CORRUPT, with file and offset).
 *
 * There are two kinds of journal. In a history each record follows from those before it, and
 * snapshots stand for its beginning (the gate's decisions, embedded/gate_content.h). In a list each
 * record stands for itself (the buys that a front accepted, distributed/spool.h). A list has no
 * snapshots, and is trimmed below booked_lsn alone.
 *
 * docs/JOURNAL.md describes the format.
 */
#ifndef SLUICE_JOURNAL_JOURNAL_H
#define SLUICE_JOURNAL_JOURNAL_H

#include <stdatomic.h>
#include <stdbool.h>

#include "base/limits.h"
#include "base/waker.h"
#include "port/disk.h"

#define JOURNAL_RECORD_MAX_BYTES 96U

struct journal;

/*
 * What the records mean: the state that they build, on the owner's side. A list needs only `apply`.
 */
struct journal_content;
struct journal_snapshot_writer;
struct journal_snapshot_reader;
struct journal_content_ops {
    /* Applies one record. 0; ERR_INVALID: the bytes are no record; ERR_FULL: the state is too
     * small for it; ERR_CORRUPT: it does not follow from the records before it. */
    int (*apply)(struct journal_content *content, uint64_t lsn, const uint8_t *record,
                 size_t length);
    /* True if the bytes can be read. Asked for records that a snapshot stands for. */
    bool (*is_record)(const uint8_t *record, size_t length);
    /* Writes the state as a snapshot: a head, then entries. */
    void (*save)(struct journal_content *content, struct journal_snapshot_writer *writer);
    /* Reads a snapshot and changes nothing. *ret_highest_ms: the highest time of its records.
     * Returns the reader's error, or ERR_CORRUPT. */
    int (*check)(struct journal_content *content, struct journal_snapshot_reader *reader,
                 int64_t *ret_highest_ms);
    /* Loads a snapshot that was checked into the empty state. ERR_FULL: the state is too small. */
    int (*load)(struct journal_content *content, struct journal_snapshot_reader *reader);
};
struct journal_content {
    const struct journal_content_ops *ops;
};

/* For `save`: space for an entry of n bytes, all in one chunk; to be filled before the next call. */
uint8_t *journal_snapshot_entry(struct journal_snapshot_writer *writer, size_t n);
/* Ends the chunk. The head is a chunk of its own. */
void journal_snapshot_end_head(struct journal_snapshot_writer *writer);
/* For `check` and `load`: the head first, then the entries chunk by chunk. The payload is valid until
 * the next call. 0, ERR_AGAIN (that was the last one), ERR_CORRUPT, ERR_VERSION, ERR_IO, ERR_NOMEM. */
int journal_snapshot_next(struct journal_snapshot_reader *reader, const uint8_t **ret_payload,
                          uint32_t *ret_length);

enum journal_kind { JOURNAL_HISTORY, JOURNAL_LIST };

struct journal_options {
    uint64_t file_bytes;   /* a multiple of JOURNAL_SECTOR */
    uint32_t buffer_bytes; /* of each of the two buffers; a batch fits a buffer and a file */
    enum journal_kind kind;
    uint64_t reserve_bytes; /* of a file that is given up when the disk is full; 0: none */
};

/* What journal_open found, for the log and for tests. */
struct journal_found {
    uint64_t last_lsn;     /* of the last record; the snapshot's LSN if nothing follows it */
    uint64_t snapshot_lsn; /* 0: none */
    uint64_t replayed;     /* records */
    uint64_t files;
    uint64_t bad_snapshots; /* damaged ones that are newer than the one used */
    uint64_t torn_bytes;    /* cut from the tail: from the bad batch to the last non-zero byte */
    int64_t highest_ms;     /* highest time in the snapshot and the journal */
    char where[96];         /* "file:offset" of the damage (ERR_CORRUPT), else of the cut */
    char why[96];
};

/*
 * Opens the journal in the disk's folder, or starts a new one: loads the newest valid snapshot into
 * content, then applies every later record. The content is empty before the call and complete after
 * it; after an error it is useless. It is not used after the call. Returns 0, ERR_CORRUPT,
 * ERR_VERSION, ERR_FULL (the content's state is too small), ERR_IO, ERR_NOSPACE or ERR_NOMEM.
 * *ret_found is filled in every case. Single-threaded.
 */
int journal_open(struct disk *disk, struct journal_options options, struct journal_content *content,
                 struct journal **ret_journal, struct journal_found *ret_found);
void journal_free(struct journal *journal);

/* True if the open buffer has room for n more records of any kind. Callers ask before they decide.
 * A failed journal has no room. */
bool journal_has_room(struct journal *journal, size_t n);
/* Bytes in the open buffer, and how many it holds. */
void journal_fill(struct journal *journal, uint64_t *ret_used, uint64_t *ret_size);
/*
 * Appends one record and returns its LSN in ret_lsn. Any thread; the caller's lock keeps their
 * order. ERR_JOURNAL_FAILED, or ERR_FULL if the caller did not check for room.
 */
int journal_append(struct journal *journal, const uint8_t *record, size_t length, int64_t time_ms,
                   uint64_t *ret_lsn);

/*
 * Journal thread: writes the content of the open buffer as one batch. Returns 0 also if there was
 * nothing to write; *ret_wrote tells which. ERR_NOSPACE while the journal has not failed: no file for
 * the batch could be made. Nothing of it was written; call again after a pause, which writes the same
 * batch. Any other error is final: the journal has failed.
 */
int journal_flush(struct journal *journal, bool *ret_wrote);
/* Journal thread: waits until there is something to flush or journal_stop is called. False:
 * stopped; records that are already appended still have to be flushed. */
bool journal_wait(struct journal *journal);
void journal_stop(struct journal *journal);
/* Before the journal thread starts: who learns that durable_lsn moved or the journal failed. First
 * the event loops that wait for an LSN, then the listener. */
void journal_set_wakers(struct journal *journal, struct waker *wakers, uint32_t count);
void journal_listen(struct journal *journal, void (*moved)(void *context), void *context);

uint64_t journal_durable_lsn(const struct journal *journal); /* any thread */
uint64_t journal_last_lsn(const struct journal *journal);    /* last appended; any thread */
bool journal_failed(const struct journal *journal);          /* any thread */
/* Any thread: ends promising for good, because of something the journal cannot see itself. `why` is a
 * sentence that outlives the journal. */
void journal_fail(struct journal *journal, const char *why);
/* Why it has failed, for people. */
const char *journal_failed_why(const struct journal *journal);

/*
 * Space on the disk. Files are made ahead at full size, so a batch needs no new space until the next
 * file is due.
 *
 * LOW: no further file can be made, and the reserve was given up. Nothing new should be promised. What
 * is under way can be finished: there is room in the last file, and the reserve's.
 * NONE: a batch waits for a file. Nobody was told of it, and nothing of it is on the disk. Its bytes
 * stay in memory and are written when there is space.
 * The janitor makes file and reserve again; then it is OK by itself.
 */
enum journal_space { JOURNAL_SPACE_OK, JOURNAL_SPACE_LOW, JOURNAL_SPACE_NONE };
enum journal_space journal_space(const struct journal *journal); /* any thread */
/* The name of the file that batches are written to now. Any thread. */
void journal_current_name(struct journal *journal, char *ret_name, size_t cap);

/*
 * The janitor's thread (journal/janitor.h), for all four. journal_prepare_file makes the next file and
 * the reserve ahead of need. journal_snapshot_due: at least one closed file lies past the last snapshot.
 * journal_snapshot replays closed files into `second` (an empty state of the same size, lent by
 * the caller for this call) and writes a snapshot. journal_trim removes files that are below
 * both booked_lsn and the snapshot before the newest, and snapshots older than that one. If the
 * newest snapshot turns out to be damaged, the next start uses the one before it. They return 0 or
 * an error that is not final: the caller logs it, and the journal goes on. *ret_snapshot_lsn is 0
 * if no snapshot was taken; *ret_removed counts files.
 */
bool journal_snapshot_due(const struct journal *journal);
int journal_prepare_file(struct journal *journal);
int journal_snapshot(struct journal *journal, struct journal_content *second,
                     uint64_t *ret_snapshot_lsn);
int journal_trim(struct journal *journal, uint64_t booked_lsn, uint32_t *ret_removed);

/* Reads durable records in order, from the first one after `after_lsn`. */
struct journal_reader;
int journal_reader_new(struct journal *journal, uint64_t after_lsn,
                       struct journal_reader **ret_reader);
void journal_reader_free(struct journal_reader *reader);
/* The next record, valid until the next call: 0, ERR_AGAIN (no further durable record yet), ERR_IO,
 * ERR_CORRUPT, ERR_NOTFOUND (trimmed away: after_lsn lies below the oldest file). */
struct journal_record {
    uint64_t lsn;
    const uint8_t *bytes;
    size_t length;
};
int journal_reader_next(struct journal_reader *reader, struct journal_record *ret_record);

/* For `sluice journal dump|verify`: visits every batch of a folder and changes nothing. Of the
 * content it calls `apply` for every record and `check` for snapshots. */
struct journal_scan_ops {
    void (*batch)(void *context, const char *file, uint64_t offset, uint64_t number,
                  uint64_t first_lsn, uint32_t records, uint32_t bytes);
    void (*note)(void *context, const char *file, uint64_t offset, const char *what);
};
int journal_scan(struct disk *disk, enum journal_kind kind, struct journal_content *content,
                 const struct journal_scan_ops *ops, void *context,
                 struct journal_found *ret_found);

#endif
