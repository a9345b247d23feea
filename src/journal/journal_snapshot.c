/*
 * Snapshots: the whole content as of one LSN, in its own file, so that a start need not replay
 * everything and old files can be removed.
 *
 * Happy path of taking one: load the last good snapshot into the second content, replay the closed
 * files after it, write everything to snapshot.tmp in chunks, sync, rename, sync the names. The
 * live content is never touched.
 *
 * A chunk is a 32-byte header (magic, version, index, length, lsn, flags, CRC32C over header and
 * payload) and a payload. Chunk 0 is the head: the LSN, the number of the batch that ends with it,
 * and the content's own head. The others carry the content's entries. The last chunk is flagged, and
 * the file ends with it.
 *
 * What can go wrong: a failed write leaves snapshot.tmp, which the next attempt or start removes. A
 * snapshot that does not read back whole is never used (ERR_CORRUPT).
 */
#include <stdlib.h>
#include <string.h>

#include "base/bytes.h"
#include "base/check.h"
#include "base/crc32c.h"
#include "base/err.h"
#include "journal/journal_private.h"

#define CHUNK_HEAD_BYTES 32U
#define CHUNK_MAX_BYTES 65536U /* header and payload; a reader trusts `length` up to this */
#define CHUNK_LAST 1U
#define HEAD_OWN_BYTES 16U /* of the head's payload: LSN and batch */

static const char chunk_magic[4] = "SLSN";

enum {
    CHUNK_VERSION = 4,
    CHUNK_INDEX = 8,
    CHUNK_LENGTH = 12,
    CHUNK_LSN = 16,
    CHUNK_FLAGS = 24,
    CHUNK_CRC = 28,
};

/* ---- writing ---- */

struct journal_snapshot_writer {
    struct disk *disk;
    struct disk_file *file;
    uint64_t lsn;
    uint64_t at; /* in the file */
    uint32_t index;
    uint32_t fill; /* of the chunk, its header included */
    int error;     /* the first error; nothing is written after it */
    uint8_t *chunk;
};

static uint32_t chunk_crc(const uint8_t *chunk, uint32_t length)
{
    static const uint8_t zero[4];
    uint32_t crc = crc32c(0, chunk, CHUNK_CRC);
    crc = crc32c(crc, zero, sizeof(zero));
    return crc32c(crc, chunk + CHUNK_HEAD_BYTES, length);
}

static void end_chunk(struct journal_snapshot_writer *writer, uint32_t flags)
{
    uint8_t *chunk = writer->chunk;
    memcpy(chunk, chunk_magic, sizeof(chunk_magic));
    store_le32(chunk + CHUNK_VERSION, JOURNAL_VERSION);
    store_le32(chunk + CHUNK_INDEX, writer->index++);
    store_le32(chunk + CHUNK_LENGTH, writer->fill - CHUNK_HEAD_BYTES);
    store_le64(chunk + CHUNK_LSN, writer->lsn);
    store_le32(chunk + CHUNK_FLAGS, flags);
    store_le32(chunk + CHUNK_CRC, chunk_crc(chunk, writer->fill - CHUNK_HEAD_BYTES));
    if (writer->error == 0) {
        writer->error =
            disk_write(writer->disk, writer->file, writer->at, chunk, writer->fill, false);
    }
    writer->at += writer->fill;
    writer->fill = CHUNK_HEAD_BYTES;
}

uint8_t *journal_snapshot_entry(struct journal_snapshot_writer *writer, size_t n)
{
    CHECK(n <= CHUNK_MAX_BYTES - CHUNK_HEAD_BYTES);
    if (writer->fill + n > CHUNK_MAX_BYTES) {
        end_chunk(writer, 0);
    }
    uint8_t *at = writer->chunk + writer->fill;
    writer->fill += (uint32_t)n;
    return at;
}

void journal_snapshot_end_head(struct journal_snapshot_writer *writer)
{
    CHECK(writer->index == 0);
    end_chunk(writer, 0);
}

static void write_chunks(struct journal_snapshot_writer *writer, struct journal_content *content,
                         uint64_t batch)
{
    uint8_t *head = journal_snapshot_entry(writer, HEAD_OWN_BYTES);
    store_le64(head, writer->lsn);
    store_le64(head + 8, batch);
    content->ops->save(content, writer);
    end_chunk(writer, CHUNK_LAST);
}

static int write_file(struct journal_snapshot_writer *writer, struct journal_content *content,
                      uint64_t batch)
{
    struct disk *disk = writer->disk;
    int error = disk_remove(disk, JOURNAL_SNAPSHOT_TMP_NAME); /* what an earlier failure left */
    if (error != 0 && error != ERR_NOTFOUND) {
        return error;
    }
    error = disk_open(disk, JOURNAL_SNAPSHOT_TMP_NAME, DISK_CREATE, &writer->file);
    if (error != 0) {
        return error;
    }
    write_chunks(writer, content, batch);
    error = writer->error != 0 ? writer->error : disk_sync(disk, writer->file);
    disk_close(disk, writer->file);
    if (error == 0) {
        char name[JOURNAL_NAME_BYTES];
        journal_name(writer->lsn, JOURNAL_SNAPSHOT_SUFFIX, name);
        error = disk_rename(disk, JOURNAL_SNAPSHOT_TMP_NAME, name);
    }
    if (error != 0) {
        (void)disk_remove(disk, JOURNAL_SNAPSHOT_TMP_NAME); /* gives the space back, if it can */
        return error;
    }
    return disk_sync_names(disk);
}

static int write_snapshot(struct disk *disk, struct journal_content *content, uint64_t lsn,
                          uint64_t batch, uint64_t *ret_bytes)
{
    struct journal_snapshot_writer writer = {.disk = disk, .lsn = lsn, .fill = CHUNK_HEAD_BYTES};
    writer.chunk = malloc(CHUNK_MAX_BYTES);
    if (writer.chunk == NULL) {
        return ERR_NOMEM;
    }
    int error = write_file(&writer, content, batch);
    free(writer.chunk);
    if (error == 0) {
        *ret_bytes = writer.at;
    }
    return error;
}

/* ---- reading ---- */

struct journal_snapshot_reader {
    struct journal_window window;
    const struct journal_snapshot_file *file;
    uint64_t at;   /* offset of the chunk that was read last, or is read next */
    uint64_t next; /* offset after it */
    uint32_t index;
    bool last; /* that was the last chunk */
    uint64_t batch;
};

/* Loads and checks the chunk at reader->at. */
static int load_chunk(struct journal_snapshot_reader *reader, const uint8_t **ret_payload,
                      uint32_t *ret_length)
{
    struct journal_window *window = &reader->window;
    const uint8_t *bytes;
    if (window->limit - reader->at < CHUNK_HEAD_BYTES) {
        return ERR_CORRUPT;
    }
    int error = journal_window_load(window, reader->at, CHUNK_HEAD_BYTES, &bytes);
    if (error != 0) {
        return error;
    }
    uint32_t length = load_le32(bytes + CHUNK_LENGTH);
    if (memcmp(bytes, chunk_magic, sizeof(chunk_magic)) != 0 ||
        length > CHUNK_MAX_BYTES - CHUNK_HEAD_BYTES ||
        length > window->limit - reader->at - CHUNK_HEAD_BYTES) {
        return ERR_CORRUPT;
    }
    error = journal_window_load(window, reader->at, CHUNK_HEAD_BYTES + (size_t)length, &bytes);
    if (error != 0) {
        return error;
    }
    if (load_le32(bytes + CHUNK_CRC) != chunk_crc(bytes, length)) {
        return ERR_CORRUPT;
    }
    if (load_le32(bytes + CHUNK_VERSION) != JOURNAL_VERSION) {
        return ERR_VERSION;
    }
    reader->last = load_le32(bytes + CHUNK_FLAGS) == CHUNK_LAST;
    reader->next = reader->at + CHUNK_HEAD_BYTES + length;
    if (load_le32(bytes + CHUNK_INDEX) != reader->index ||
        load_le64(bytes + CHUNK_LSN) != reader->file->lsn ||
        reader->last != (reader->next == window->limit)) {
        return ERR_CORRUPT;
    }
    *ret_payload = bytes + CHUNK_HEAD_BYTES;
    *ret_length = length;
    return 0;
}

int journal_snapshot_next(struct journal_snapshot_reader *reader, const uint8_t **ret_payload,
                          uint32_t *ret_length)
{
    if (reader->last) {
        reader->at = 0; /* every byte is as it was written; what follows is about the whole */
        return ERR_AGAIN;
    }
    reader->at = reader->next;
    int error = load_chunk(reader, ret_payload, ret_length);
    if (error != 0) {
        return error;
    }
    if (reader->index++ == 0) {
        if (*ret_length < HEAD_OWN_BYTES || load_le64(*ret_payload) == 0 ||
            load_le64(*ret_payload) != reader->file->lsn) {
            return ERR_CORRUPT;
        }
        reader->batch = load_le64(*ret_payload + 8);
        *ret_payload += HEAD_OWN_BYTES;
        *ret_length -= HEAD_OWN_BYTES;
    }
    return 0;
}

static int begin_reading(struct journal_snapshot_reader *reader)
{
    char name[JOURNAL_NAME_BYTES];
    journal_name(reader->file->lsn, JOURNAL_SNAPSHOT_SUFFIX, name);
    struct disk_file *handle;
    int error = disk_open(reader->window.disk, name, DISK_READ, &handle);
    if (error == 0) {
        journal_window_show(&reader->window, handle, reader->file->bytes);
    }
    return error;
}

static void end_reading(struct journal_snapshot_reader *reader)
{
    disk_close(reader->window.disk, reader->window.file);
    journal_window_done(&reader->window);
}

int journal_snapshot_check(struct disk *disk, const struct journal_snapshot_file *file,
                           struct journal_content *content, struct journal_snapshot_info *ret_info,
                           uint64_t *ret_bad_at)
{
    struct journal_snapshot_reader reader = {.window = {.disk = disk}, .file = file};
    int error = begin_reading(&reader);
    if (error != 0) {
        return error;
    }
    int64_t highest_ms = 0;
    error = content->ops->check(content, &reader, &highest_ms);
    end_reading(&reader);
    *ret_bad_at = reader.at;
    if (error == 0) {
        *ret_info = (struct journal_snapshot_info){file->lsn, reader.batch, highest_ms};
    }
    return error;
}

int journal_snapshot_load(struct disk *disk, const struct journal_snapshot_file *file,
                          struct journal_content *content, uint64_t *ret_bad_at)
{
    struct journal_snapshot_reader reader = {.window = {.disk = disk}, .file = file};
    int error = begin_reading(&reader);
    if (error != 0) {
        return error;
    }
    error = content->ops->load(content, &reader);
    end_reading(&reader);
    *ret_bad_at = reader.at;
    return error;
}

/* ---- in the background of a running journal ---- */

/* The last record and batch of the closed files; LSN 0 if none lies past the snapshots. */
static void find_target(struct journal *journal, uint64_t *ret_lsn, uint64_t *ret_batch)
{
    pthread_mutex_lock(&journal->files_lock);
    const struct journal_files *files = &journal->files;
    const struct journal_file *open = &files->files[files->file_count - 1];
    size_t newest = journal_files_snapshot(files, SIZE_MAX);
    uint64_t newest_lsn = newest == SIZE_MAX ? 0 : files->snapshots[newest].lsn;
    bool due = open->first_lsn - 1 > newest_lsn;
    *ret_lsn = due ? open->first_lsn - 1 : 0;
    *ret_batch = due ? open->first_batch - 1 : 0;
    pthread_mutex_unlock(&journal->files_lock);
}

bool journal_snapshot_due(const struct journal *journal)
{
    uint64_t lsn;
    uint64_t batch;
    find_target((struct journal *)(uintptr_t)journal, &lsn, &batch); /* a lock is no change */
    return lsn != 0;
}

/* Loads the newest good snapshot into the content; LSN 0 if there is none. Only this thread changes
 * the list of files's snapshots, so it may read them without the lock. */
static int load_newest(struct journal *journal, struct journal_content *content, uint64_t *ret_lsn)
{
    struct journal_files *files = &journal->files;
    size_t i;
    while ((i = journal_files_snapshot(files, SIZE_MAX)) != SIZE_MAX) {
        const struct journal_snapshot_file *file = &files->snapshots[i];
        struct journal_snapshot_info info;
        uint64_t bad_at;
        int error = journal_snapshot_check(journal->disk, file, content, &info, &bad_at);
        if (error == 0) {
            *ret_lsn = info.lsn;
            return journal_snapshot_load(journal->disk, file, content, &bad_at);
        }
        if (error != ERR_CORRUPT) {
            return error;
        }
        pthread_mutex_lock(&journal->files_lock);
        files->snapshots[i].bad = true;
        pthread_mutex_unlock(&journal->files_lock);
    }
    *ret_lsn = 0;
    return 0;
}

static int replay_until(struct journal *journal, struct journal_content *content, uint64_t lsn,
                        uint64_t target)
{
    struct journal_reader *reader = NULL;
    int error = journal_reader_new(journal, lsn, &reader);
    while (error == 0 && lsn < target) {
        struct journal_record record;
        error = journal_reader_next(reader, &record);
        if (error == 0) {
            lsn = record.lsn;
            error = content->ops->apply(content, lsn, record.bytes, record.length);
            error = error == ERR_INVALID ? ERR_CORRUPT : error;
        }
    }
    journal_reader_free(reader);
    return error;
}

int journal_snapshot(struct journal *journal, struct journal_content *second,
                     uint64_t *ret_snapshot_lsn)
{
    uint64_t target;
    uint64_t batch;
    find_target(journal, &target, &batch);
    if (target == 0) {
        *ret_snapshot_lsn = 0;
        return 0;
    }
    uint64_t lsn = 0;
    int error = load_newest(journal, second, &lsn);
    if (error == 0) {
        error = replay_until(journal, second, lsn, target);
    }
    struct journal_snapshot_file file = {.lsn = target};
    if (error == 0) {
        error = write_snapshot(journal->disk, second, target, batch, &file.bytes);
    }
    if (error != 0) {
        return error;
    }
    pthread_mutex_lock(&journal->files_lock);
    error = journal_files_add_snapshot(&journal->files, file);
    pthread_mutex_unlock(&journal->files_lock);
    if (error == 0) {
        *ret_snapshot_lsn = target;
    }
    return error;
}
