/*
 * Reads the journal back while it is written. The booking reader and snapshots use it.
 *
 * Happy path: the reader learns from the list of files which one to read and how much of it is
 * durable. It reads large pieces up to there, checks each batch once, and returns its records one
 * by one. At the end of a file it continues with the next one, if there is one.
 *
 * What can go wrong: ERR_NOTFOUND if the file was trimmed away, ERR_CORRUPT if a durable batch
 * does not read back. Both are final: the reader cannot be used any more.
 *
 * What stays true: it never reads a byte beyond the durable end, and so never a half-written batch.
 * One thread per reader; any number of readers.
 */
#include <stdlib.h>

#include "base/err.h"
#include "journal/journal_private.h"

struct journal_reader {
    struct journal *journal;
    uint64_t after_lsn; /* records up to this one are skipped */
    uint64_t next_lsn;
    uint64_t next_batch; /* 0: no batch read yet */
    struct disk_file *file;
    uint64_t first_batch; /* of the file that is open */
    uint64_t at;          /* offset of the next batch in it */
    struct journal_window window;
    struct journal_records records; /* what is left of the current batch */
};

int journal_reader_new(struct journal *journal, uint64_t after_lsn,
                       struct journal_reader **ret_reader)
{
    struct journal_reader *reader = malloc(sizeof(*reader));
    if (reader == NULL) {
        return ERR_NOMEM;
    }
    *reader = (struct journal_reader){
        .journal = journal, .after_lsn = after_lsn, .window = {.disk = journal->disk}};
    *ret_reader = reader;
    return 0;
}

void journal_reader_free(struct journal_reader *reader)
{
    if (reader == NULL) {
        return;
    }
    if (reader->file != NULL) {
        disk_close(reader->journal->disk, reader->file);
    }
    journal_window_done(&reader->window);
    free(reader);
}

/* Finds the file that holds the reader's next batch, or, at the start, its first record. */
static int find_file(struct journal_reader *reader, struct journal_file *ret_file)
{
    struct journal *journal = reader->journal;
    int error = ERR_NOTFOUND;
    pthread_mutex_lock(&journal->files_lock);
    const struct journal_files *files = &journal->files;
    for (size_t i = files->file_count; i > 0 && error != 0; i--) {
        const struct journal_file *file = &files->files[i - 1];
        if (reader->next_batch == 0 ? file->first_lsn <= reader->after_lsn + 1
                                    : file->first_batch <= reader->next_batch) {
            *ret_file = *file;
            error = 0;
        }
    }
    pthread_mutex_unlock(&journal->files_lock);
    return error;
}

static int enter_file(struct journal_reader *reader, const struct journal_file *file)
{
    struct disk *disk = reader->journal->disk;
    struct disk_file *opened;
    char name[JOURNAL_NAME_BYTES];
    journal_name(file->first_batch, JOURNAL_FILE_SUFFIX, name);
    int error = disk_open(disk, name, DISK_READ, &opened);
    if (error != 0) {
        return error;
    }
    if (reader->file != NULL) {
        disk_close(disk, reader->file);
    }
    reader->file = opened;
    reader->first_batch = file->first_batch;
    reader->next_batch = file->first_batch;
    reader->next_lsn = file->first_lsn;
    reader->at = JOURNAL_SECTOR;
    journal_window_show(&reader->window, opened, JOURNAL_SECTOR);
    return 0;
}

/* Loads the next durable batch. ERR_AGAIN: there is none yet. */
static int next_batch(struct journal_reader *reader)
{
    struct journal_file file;
    int error = find_file(reader, &file);
    if (error == 0 && (reader->file == NULL || file.first_batch != reader->first_batch)) {
        error = enter_file(reader, &file);
    }
    if (error != 0) {
        return error;
    }
    if (reader->at == file.end) {
        return ERR_AGAIN;
    }
    reader->window.limit = file.end;
    struct journal_batch_head head;
    const uint8_t *payload;
    error = journal_window_batch(&reader->window, reader->at, &head, &payload);
    if (error != 0) {
        return error;
    }
    if (head.number != reader->next_batch || head.first_lsn != reader->next_lsn) {
        return ERR_CORRUPT;
    }
    reader->records = (struct journal_records){payload, head.length, head.records};
    reader->at += journal_batch_bytes(head.length);
    reader->next_batch++;
    return 0;
}

int journal_reader_next(struct journal_reader *reader, struct journal_record *ret_record)
{
    for (;;) {
        const uint8_t *bytes = NULL;
        size_t length = 0;
        int error = journal_records_next(&reader->records, &bytes, &length);
        if (error == ERR_AGAIN) {
            error = next_batch(reader);
            if (error != 0) {
                return error;
            }
            continue;
        }
        if (error != 0) {
            return error;
        }
        uint64_t lsn = reader->next_lsn++;
        if (lsn > reader->after_lsn) {
            *ret_record = (struct journal_record){lsn, bytes, length};
            return 0;
        }
    }
}
