/*
 * The journal's files as bytes: names, file headers, batches, and a window to read them through.
 * docs/JOURNAL.md describes the same byte by byte. Nothing here depends on a running journal.
 *
 * What can go wrong: bytes that are not a file header or a batch give ERR_CORRUPT; a whole one
 * of another version gives ERR_VERSION. What that means depends on the bytes after them. The caller
 * finds out (journal_recover.c).
 */
#ifndef SLUICE_JOURNAL_JOURNAL_FILE_H
#define SLUICE_JOURNAL_JOURNAL_FILE_H

#include <stdbool.h>

#include "journal/journal.h"
#include "port/disk.h"

#define JOURNAL_VERSION 1U
#define JOURNAL_HEAD_BYTES 48U /* size of a file header and of a batch header */
#define JOURNAL_RECORD_MAX (2U + JOURNAL_RECORD_MAX_BYTES) /* with its length */
#define JOURNAL_NAME_BYTES 32U
#define JOURNAL_CHUNK_BYTES (256U << 10) /* files are read in pieces of this size */
#define JOURNAL_FILE_MAX_BYTES (1ULL << 32)

#define JOURNAL_NEXT_NAME "next.tmp"
#define JOURNAL_RESERVE_NAME "reserve.tmp"
#define JOURNAL_SNAPSHOT_TMP_NAME "snapshot.tmp"
#define JOURNAL_FILE_SUFFIX ".journal"
#define JOURNAL_SNAPSHOT_SUFFIX ".snapshot"

/* Sixteen hexadecimal digits and the suffix. Parsing accepts exactly what journal_name writes. */
void journal_name(uint64_t number, const char *suffix, char ret_name[JOURNAL_NAME_BYTES]);
bool journal_name_parse(const char *name, const char *suffix, uint64_t *ret_number);

struct journal_file_head {
    uint64_t first_batch;
    uint64_t first_lsn;
    uint64_t bytes; /* size of the file */
};

/* Writes one whole sector. */
void journal_file_encode(const struct journal_file_head *head, uint8_t *ret_sector);
/* bytes: at least JOURNAL_HEAD_BYTES. ERR_CORRUPT, ERR_VERSION. */
int journal_file_decode(const uint8_t *bytes, struct journal_file_head *ret_head);

struct journal_batch_head {
    uint64_t number;
    uint64_t first_lsn;
    int64_t time_ms; /* highest command time in the batch */
    uint32_t records;
    uint32_t length; /* of the payload that follows the header */
};

/* The batch's size rounded up to sectors: the distance from its start
 * to the start of the next batch. */
static inline uint64_t journal_batch_bytes(uint32_t length)
{
    uint64_t bytes = JOURNAL_HEAD_BYTES + (uint64_t)length;
    return (bytes + JOURNAL_SECTOR - 1) & ~(uint64_t)(JOURNAL_SECTOR - 1);
}
/* Fills in the header in front of a payload that is already in place, and the zeros after it. */
void journal_batch_seal(const struct journal_batch_head *head, uint8_t *bytes);

/* Iterates over the records of a batch's payload. */
struct journal_records {
    const uint8_t *at;
    uint32_t left; /* bytes */
    uint32_t records;
};
/* 0, ERR_AGAIN (exactly at the end), ERR_CORRUPT. */
int journal_records_next(struct journal_records *records, const uint8_t **ret_record,
                         size_t *ret_length);

/* Writes zeros over [from, to). They are not durable before a sync. */
int journal_zero(struct disk *disk, struct disk_file *file, uint64_t from, uint64_t to);

/*
 * A piece of one file in memory. Bytes between the end of the file and `limit` read as zeros.
 * Zeroed memory with disk set is a valid window without a file. journal_window_done frees the
 * memory.
 */
struct journal_window {
    struct disk *disk;
    struct disk_file *file; /* owned by the caller */
    uint64_t limit;         /* nothing at or beyond this offset is read */
    uint8_t *bytes;
    size_t capacity;
    uint64_t at;
    size_t len;
};
void journal_window_show(struct journal_window *window, struct disk_file *file, uint64_t limit);
void journal_window_done(struct journal_window *window);
/* n bytes at offset `at`, all below limit. Valid until the next call. ERR_IO, ERR_NOMEM. */
int journal_window_load(struct journal_window *window, uint64_t at, size_t n,
                        const uint8_t **ret_bytes);
/* Loads and checks the batch at an offset: 0, ERR_CORRUPT (no whole batch there),
 * ERR_VERSION, ERR_IO, ERR_NOMEM. */
int journal_window_batch(struct journal_window *window, uint64_t at,
                         struct journal_batch_head *ret_head, const uint8_t **ret_payload);

#endif
