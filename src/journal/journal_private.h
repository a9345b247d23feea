/*
 * Shared by the journal's own files: the running journal, the list of its files, and the steps
 * of recovery and snapshots. No other file includes this.
 *
 * Locks. `lock`, the buffer lock, guards the buffers and is held for at most one encoded record.
 * `files_lock` guards the list of files; no I/O happens under it. `next_lock` guards the prepared file
 * and is held while one is made, but not while the reserve is; only the janitor (journal/janitor.h) and
 * the journal thread take it. Order: next_lock before files_lock; under lock no other lock is taken. Callers of journal_append hold
 * their own lock outside of it. Waking a loop takes no lock: it is an atomic flag and an eventfd.
 */
#ifndef SLUICE_JOURNAL_JOURNAL_PRIVATE_H
#define SLUICE_JOURNAL_JOURNAL_PRIVATE_H

#include <pthread.h>

#include "journal/journal.h"
#include "journal/journal_file.h"

/* One journal file. The chain has no gaps: each file begins where the one before it ended. */
struct journal_file {
    uint64_t first_batch;
    uint64_t first_lsn;
    uint64_t bytes;       /* file size according to its header */
    uint64_t found_bytes; /* file size as found; recovery only */
    uint64_t end;         /* offset after its last durable batch */
};

struct journal_snapshot_file {
    uint64_t lsn;
    uint64_t bytes;
    bool bad; /* found damaged: never used as a base again, removed by a later trim */
};

struct journal_files {
    struct journal_file *files; /* oldest first */
    size_t file_count;
    size_t file_capacity;
    struct journal_snapshot_file *snapshots; /* oldest first */
    size_t snapshot_count;
    size_t snapshot_capacity;
};
/* ERR_NOMEM. */
int journal_files_add_file(struct journal_files *files, struct journal_file file);
/* Replaces an entry with the same LSN. */
int journal_files_add_snapshot(struct journal_files *files, struct journal_snapshot_file snapshot);
/* Index of the newest usable snapshot before index `before`, or SIZE_MAX. */
size_t journal_files_snapshot(const struct journal_files *files, size_t before);
void journal_files_done(struct journal_files *files);

struct journal_buffer {
    uint8_t *bytes; /* the batch as it will be written, with space for the header in front */
    uint32_t fill;
    uint32_t records;
    uint64_t first_lsn;
    int64_t time_ms;
};

struct journal {
    struct disk *disk;
    struct journal_options options;
    uint32_t capacity; /* most bytes in a batch: it fits the buffer and a file */

    pthread_mutex_t lock;
    pthread_cond_t work;
    struct journal_buffer buffers[2];
    struct journal_buffer *open; /* appended to; the other one is being written, or empty */
    bool waiting;                /* the journal thread sleeps in journal_wait */
    bool stopping;
    atomic_uint_fast64_t last_lsn;
    atomic_uint_fast32_t open_fill; /* open->fill, for journal_has_room without the lock */

    /* Used by the journal thread only. */
    struct disk_file *file;         /* the last one */
    bool named;                     /* the file made last has got its name */
    struct journal_buffer *pending; /* a batch that waits for space; NULL: none */
    uint64_t next_batch;
    struct waker *wakers;
    uint32_t wakers_count;
    void (*moved)(void *context);
    void *moved_context;

    _Alignas(64) atomic_uint_fast64_t durable_lsn; /* read by every loop in every iteration */
    atomic_bool failed;
    atomic_bool stuck; /* `pending` is not NULL */
    atomic_bool low;   /* changed under next_lock only */
    _Atomic(const char *) why;

    _Alignas(64) pthread_mutex_t files_lock;
    struct journal_files files;

    pthread_mutex_t next_lock;
    struct disk_file *next; /* the prepared file; NULL: none */
    bool has_reserve;
};

/* Makes the first file of an empty folder, or the next one, and sets journal->file to it. */
int journal_start_file(struct journal *journal, uint64_t first_lsn);

struct journal_snapshot_info {
    uint64_t lsn;   /* of the last record in it */
    uint64_t batch; /* number of the batch that ends with it */
    int64_t highest_ms;
};
/* Checks a snapshot, or loads one that was checked. ERR_CORRUPT (then *ret_bad_at is the offset of
 * the bad chunk), ERR_VERSION, ERR_FULL, ERR_IO, ERR_NOMEM. */
int journal_snapshot_check(struct disk *disk, const struct journal_snapshot_file *file,
                           struct journal_content *content, struct journal_snapshot_info *ret_info,
                           uint64_t *ret_bad_at);
int journal_snapshot_load(struct disk *disk, const struct journal_snapshot_file *file,
                          struct journal_content *content, uint64_t *ret_bad_at);

#endif
