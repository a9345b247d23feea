/*
 * The running journal: append, group commit, roll-over, trimming. See journal.h for who may call
 * what, journal_private.h for the locks.
 *
 * Happy path of a record: journal_append copies it into the open buffer, after the space for the
 * batch's header. journal_flush swaps the buffers, fills in the header, and writes buffer
 * and padding with one durable write into zeros that were allocated long before. Then durable_lsn
 * moves.
 *
 * What can go wrong: an error in journal_flush fails the journal. Nothing is retried: after a failed
 * sync nobody knows what the disk holds, so the next start looks. The one exception is a new file
 * for which there is no space. It has no name yet and is removed, so the disk holds nothing of it, and
 * the batch was not written: it waits in its buffer.
 *
 * What stays true: batch n + 1 is written only after batch n is durable. A file's header is
 * durable and its file has its full size before the file gets its name, and the name is durable
 * before the first batch is written to it. Files are removed oldest first, each removal durable
 * before the next.
 */
#include "journal/journal_private.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/bytes.h"
#include "base/check.h"
#include "base/err.h"

/* ---- the list of files ---- */

static int grow(void **entries, size_t *capacity, size_t count, size_t size)
{
    if (count < *capacity) {
        return 0;
    }
    size_t more = *capacity == 0 ? 16 : *capacity * 2;
    void *grown = realloc(*entries, more * size);
    if (grown == NULL) {
        return ERR_NOMEM;
    }
    *entries = grown;
    *capacity = more;
    return 0;
}

int journal_files_add_file(struct journal_files *files, struct journal_file file)
{
    int error =
        grow((void **)&files->files, &files->file_capacity, files->file_count, sizeof(file));
    if (error == 0) {
        files->files[files->file_count++] = file;
    }
    return error;
}

int journal_files_add_snapshot(struct journal_files *files, struct journal_snapshot_file snapshot)
{
    for (size_t i = 0; i < files->snapshot_count; i++) {
        if (files->snapshots[i].lsn == snapshot.lsn) {
            files->snapshots[i] = snapshot;
            return 0;
        }
    }
    int error = grow((void **)&files->snapshots, &files->snapshot_capacity, files->snapshot_count,
                     sizeof(snapshot));
    if (error == 0) {
        files->snapshots[files->snapshot_count++] = snapshot;
    }
    return error;
}

size_t journal_files_snapshot(const struct journal_files *files, size_t before)
{
    size_t i = before < files->snapshot_count ? before : files->snapshot_count;
    while (i > 0 && files->snapshots[i - 1].bad) {
        i--;
    }
    return i - 1; /* 0 - 1 is SIZE_MAX */
}

void journal_files_done(struct journal_files *files)
{
    free(files->files);
    free(files->snapshots);
    *files = (struct journal_files){0};
}

/* ---- appending ---- */

bool journal_has_room(struct journal *journal, size_t n)
{
    uint32_t fill = atomic_load_explicit(&journal->open_fill, memory_order_relaxed);
    return !journal_failed(journal) && n <= (journal->capacity - fill) / JOURNAL_RECORD_MAX;
}

void journal_fill(struct journal *journal, uint64_t *ret_used, uint64_t *ret_size)
{
    *ret_used = atomic_load_explicit(&journal->open_fill, memory_order_relaxed);
    *ret_size = journal->capacity;
}

int journal_append(struct journal *journal, const uint8_t *record, size_t length, int64_t time_ms,
                   uint64_t *ret_lsn)
{
    CHECK(length <= JOURNAL_RECORD_MAX_BYTES);
    pthread_mutex_lock(&journal->lock);
    struct journal_buffer *open = journal->open;
    int error = 0;
    bool wake = false;
    if (journal_failed(journal)) {
        error = ERR_JOURNAL_FAILED;
    } else if (journal->capacity - open->fill < JOURNAL_RECORD_MAX) {
        error = ERR_FULL;
    } else {
        uint64_t lsn = atomic_load_explicit(&journal->last_lsn, memory_order_relaxed) + 1;
        uint8_t *at = open->bytes + open->fill;
        store_le16(at, (uint16_t)length);
        memcpy(at + 2, record, length);
        if (open->records == 0) {
            open->first_lsn = lsn;
            open->time_ms = time_ms;
        } else if (time_ms > open->time_ms) {
            open->time_ms = time_ms;
        }
        open->records++;
        open->fill += 2 + (uint32_t)length;
        atomic_store_explicit(&journal->open_fill, open->fill, memory_order_relaxed);
        atomic_store_explicit(&journal->last_lsn, lsn, memory_order_release);
        *ret_lsn = lsn;
        wake = journal->waiting;
        journal->waiting = false;
    }
    pthread_mutex_unlock(&journal->lock);
    if (wake) { /* once per sleep of the journal thread, not once per record */
        pthread_cond_signal(&journal->work);
    }
    return error;
}

bool journal_wait(struct journal *journal)
{
    pthread_mutex_lock(&journal->lock);
    while (journal->open->records == 0 && journal->pending == NULL && !journal->stopping &&
           !journal_failed(journal)) {
        journal->waiting = true;
        pthread_cond_wait(&journal->work, &journal->lock);
    }
    journal->waiting = false;
    bool go_on = !journal->stopping && !journal_failed(journal);
    pthread_mutex_unlock(&journal->lock);
    return go_on;
}

void journal_stop(struct journal *journal)
{
    pthread_mutex_lock(&journal->lock);
    journal->stopping = true;
    pthread_cond_signal(&journal->work);
    pthread_mutex_unlock(&journal->lock);
}

void journal_set_wakers(struct journal *journal, struct waker *wakers, uint32_t count)
{
    journal->wakers = wakers;
    journal->wakers_count = count;
}

void journal_listen(struct journal *journal, void (*moved)(void *context), void *context)
{
    journal->moved = moved;
    journal->moved_context = context;
}

uint64_t journal_durable_lsn(const struct journal *journal)
{
    return atomic_load_explicit(&journal->durable_lsn, memory_order_acquire);
}

uint64_t journal_last_lsn(const struct journal *journal)
{
    return atomic_load_explicit(&journal->last_lsn, memory_order_acquire);
}

bool journal_failed(const struct journal *journal)
{
    return atomic_load_explicit(&journal->failed, memory_order_acquire);
}

/* durable_lsn moved, or the journal failed or is stuck; then every waiting loop must know. */
static void tell(struct journal *journal)
{
    bool ends = journal_failed(journal) || atomic_load(&journal->stuck);
    uint64_t durable = ends ? UINT64_MAX : journal_durable_lsn(journal);
    for (uint32_t i = 0; i < journal->wakers_count; i++) {
        waker_durable(&journal->wakers[i], durable);
    }
    if (journal->moved != NULL) {
        journal->moved(journal->moved_context);
    }
}

void journal_fail(struct journal *journal, const char *why)
{
    /* Under the lock: an append sees either room before the failure, or the failure. */
    pthread_mutex_lock(&journal->lock);
    if (!journal_failed(journal)) {
        atomic_store(&journal->why, why);
        atomic_store_explicit(&journal->failed, true, memory_order_release);
    }
    pthread_cond_signal(&journal->work);
    pthread_mutex_unlock(&journal->lock);
    tell(journal);
}

const char *journal_failed_why(const struct journal *journal)
{
    const char *why = atomic_load(&journal->why);
    return why != NULL ? why : "";
}

enum journal_space journal_space(const struct journal *journal)
{
    return atomic_load(&journal->stuck) ? JOURNAL_SPACE_NONE
           : atomic_load(&journal->low) ? JOURNAL_SPACE_LOW
                                        : JOURNAL_SPACE_OK;
}

/* ---- files ---- */

/* Makes a file of zeros at full size, durable except for its name. */
static int make_file(struct disk *disk, const char *name, uint64_t bytes,
                     struct disk_file **ret_file)
{
    int error = disk_remove(disk, name); /* what an earlier failure left */
    if (error != 0 && error != ERR_NOTFOUND) {
        return error;
    }
    struct disk_file *file;
    error = disk_open(disk, name, DISK_CREATE, &file);
    if (error != 0) {
        return error;
    }
    error = journal_zero(disk, file, 0, bytes);
    if (error == 0) {
        error = disk_sync(disk, file);
    }
    if (error != 0) {
        disk_close(disk, file);
        (void)disk_remove(disk, name); /* gives the space back, if it can */
        return error;
    }
    *ret_file = file;
    return 0;
}

/* Makes the next file. If there is no space, gives up the reserve for it; then, and if that is
 * still not enough, space is low. Under next_lock. */
static int make_next(struct journal *journal)
{
    struct disk *disk = journal->disk;
    uint64_t bytes = journal->options.file_bytes;
    int error = make_file(disk, JOURNAL_NEXT_NAME, bytes, &journal->next);
    if (error != ERR_NOSPACE) {
        return error;
    }
    atomic_store(&journal->low, true);
    if (!journal->has_reserve) {
        return error;
    }
    journal->has_reserve = false;
    error = disk_remove(disk, JOURNAL_RESERVE_NAME);
    return error == 0 ? make_file(disk, JOURNAL_NEXT_NAME, bytes, &journal->next) : error;
}

static int make_reserve(struct journal *journal)
{
    struct disk_file *file;
    int error =
        make_file(journal->disk, JOURNAL_RESERVE_NAME, journal->options.reserve_bytes, &file);
    if (error == 0) {
        disk_close(journal->disk, file);
    }
    return error;
}

/* The reserve is made without next_lock: it is large, and meanwhile the journal thread may need the
 * file that is prepared. It may also find that there is no space for another one, because the
 * half-made reserve takes it: then it tries again, and finds the reserve. */
int journal_prepare_file(struct journal *journal)
{
    pthread_mutex_lock(&journal->next_lock);
    bool failed = journal_failed(journal);
    int error = failed || journal->next != NULL ? 0 : make_next(journal);
    bool wants_reserve =
        !failed && error == 0 && journal->options.reserve_bytes > 0 && !journal->has_reserve;
    if (wants_reserve) {
        pthread_mutex_unlock(&journal->next_lock);
        error = make_reserve(journal);
        pthread_mutex_lock(&journal->next_lock);
        journal->has_reserve = error == 0;
    }
    if (error == ERR_NOSPACE) {
        atomic_store(&journal->low, true);
    } else if (!failed && error == 0 && journal->next != NULL) {
        atomic_store(&journal->low, false);
    }
    pthread_mutex_unlock(&journal->next_lock);
    return error;
}

/* It has no name yet: nothing of it stays. Under next_lock. */
static void discard_next(struct journal *journal)
{
    disk_close(journal->disk, journal->next);
    journal->next = NULL;
    (void)disk_remove(journal->disk, JOURNAL_NEXT_NAME); /* else the next attempt does */
}

/* Gives the prepared file its header and its name. Under next_lock. */
static int name_next(struct journal *journal, const struct journal_file_head *head)
{
    struct disk *disk = journal->disk;
    uint8_t sector[JOURNAL_SECTOR];
    journal_file_encode(head, sector);
    int error = disk_write(disk, journal->next, 0, sector, sizeof(sector), true);
    if (error == 0) {
        char name[JOURNAL_NAME_BYTES];
        journal_name(head->first_batch, JOURNAL_FILE_SUFFIX, name);
        error = disk_rename(disk, JOURNAL_NEXT_NAME, name);
        journal->named = error == 0;
    }
    if (error != 0) {
        discard_next(journal);
        return error;
    }
    return disk_sync_names(disk);
}

int journal_start_file(struct journal *journal, uint64_t first_lsn)
{
    struct journal_file_head head = {
        .first_batch = journal->next_batch,
        .first_lsn = first_lsn,
        .bytes = journal->options.file_bytes,
    };
    journal->named = false;
    pthread_mutex_lock(&journal->next_lock);
    int error = journal->next == NULL ? make_next(journal) : 0;
    if (error == 0) {
        error = name_next(journal, &head);
    }
    if (error == 0) {
        pthread_mutex_lock(&journal->files_lock);
        error = journal_files_add_file(&journal->files, (struct journal_file){
                                                            .first_batch = head.first_batch,
                                                            .first_lsn = head.first_lsn,
                                                            .bytes = head.bytes,
                                                            .end = JOURNAL_SECTOR,
                                                        });
        pthread_mutex_unlock(&journal->files_lock);
    }
    if (error == 0) {
        if (journal->file != NULL) {
            disk_close(journal->disk, journal->file);
        }
        journal->file = journal->next;
        journal->next = NULL;
    }
    pthread_mutex_unlock(&journal->next_lock);
    return error;
}

static struct journal_file last_file(struct journal *journal)
{
    pthread_mutex_lock(&journal->files_lock);
    struct journal_file last = journal->files.files[journal->files.file_count - 1];
    pthread_mutex_unlock(&journal->files_lock);
    return last;
}

void journal_current_name(struct journal *journal, char *ret_name, size_t cap)
{
    char name[JOURNAL_NAME_BYTES];
    journal_name(last_file(journal).first_batch, JOURNAL_FILE_SUFFIX, name);
    (void)snprintf(ret_name, cap, "%s", name);
}

/* ---- group commit ---- */

/* Swaps the buffers and returns the one to write, or NULL. */
static struct journal_buffer *take_buffer(struct journal *journal)
{
    pthread_mutex_lock(&journal->lock);
    struct journal_buffer *full = journal->open;
    if (full->records == 0) {
        full = NULL;
    } else {
        journal->open = full == journal->buffers ? journal->buffers + 1 : journal->buffers;
        atomic_store_explicit(&journal->open_fill, journal->open->fill, memory_order_relaxed);
    }
    pthread_mutex_unlock(&journal->lock);
    return full;
}

/* *ret_untouched: after an error, nothing of the batch or of a file for it is on the disk. */
static int write_batch(struct journal *journal, struct journal_buffer *buffer, bool *ret_untouched)
{
    *ret_untouched = false;
    struct journal_batch_head head = {
        .number = journal->next_batch,
        .first_lsn = buffer->first_lsn,
        .time_ms = buffer->time_ms,
        .records = buffer->records,
        .length = buffer->fill - JOURNAL_HEAD_BYTES,
    };
    uint64_t bytes = journal_batch_bytes(head.length);
    journal_batch_seal(&head, buffer->bytes);
    struct journal_file file = last_file(journal);
    if (bytes > file.bytes - file.end) {
        int error = journal_start_file(journal, head.first_lsn);
        if (error != 0) {
            /* Once it has its name, a failed sync of names is final, whatever the reason. */
            *ret_untouched = error == ERR_NOSPACE && !journal->named;
            return error;
        }
        file = last_file(journal);
    }
    int error =
        disk_write(journal->disk, journal->file, file.end, buffer->bytes, (size_t)bytes, true);
    if (error != 0 || journal_failed(journal)) { /* by journal_fail, meanwhile */
        return error != 0 ? error : ERR_JOURNAL_FAILED;
    }
    journal->next_batch++;
    /* The number first: a reader that finds the batch must find it durable. */
    atomic_store_explicit(&journal->durable_lsn, head.first_lsn + head.records - 1,
                          memory_order_release);
    pthread_mutex_lock(&journal->files_lock);
    journal->files.files[journal->files.file_count - 1].end += bytes;
    pthread_mutex_unlock(&journal->files_lock);
    return 0;
}

int journal_flush(struct journal *journal, bool *ret_wrote)
{
    if (journal_failed(journal)) {
        return ERR_JOURNAL_FAILED;
    }
    struct journal_buffer *buffer =
        journal->pending != NULL ? journal->pending : take_buffer(journal);
    if (buffer == NULL) {
        *ret_wrote = false;
        return 0;
    }
    bool untouched = false;
    int error = write_batch(journal, buffer, &untouched);
    journal->pending = untouched ? buffer : NULL;
    atomic_store(&journal->stuck, untouched);
    if (!untouched) {
        buffer->fill = JOURNAL_HEAD_BYTES;
        buffer->records = 0;
    }
    if (error != 0 && !untouched) {
        journal_fail(journal, "a write or sync of the journal failed");
        return error;
    }
    tell(journal);
    if (error == 0) {
        *ret_wrote = true;
    }
    return error;
}

/* ---- trimming ---- */

static int remove_file(struct journal *journal, uint64_t number, const char *suffix)
{
    char name[JOURNAL_NAME_BYTES];
    journal_name(number, suffix, name);
    int error = disk_remove(journal->disk, name);
    /* Already gone: an earlier call removed it but could not make that durable. */
    return error == 0 || error == ERR_NOTFOUND ? disk_sync_names(journal->disk) : error;
}

/* Removes snapshots below `floor`, and damaged ones below the newest. */
static int trim_snapshots(struct journal *journal, uint64_t floor, uint64_t newest)
{
    struct journal_files *files = &journal->files;
    for (size_t i = 0; i < files->snapshot_count;) {
        struct journal_snapshot_file file = files->snapshots[i];
        if (file.lsn >= (file.bad ? newest : floor)) {
            i++;
            continue;
        }
        int error = remove_file(journal, file.lsn, JOURNAL_SNAPSHOT_SUFFIX);
        if (error != 0) {
            return error;
        }
        pthread_mutex_lock(&journal->files_lock);
        memmove(&files->snapshots[i], &files->snapshots[i + 1],
                (--files->snapshot_count - i) * sizeof(file));
        pthread_mutex_unlock(&journal->files_lock);
    }
    return 0;
}

/* The first batch of the oldest file, if all its records are at or below floor; else 0. */
static uint64_t file_below(struct journal *journal, uint64_t floor)
{
    pthread_mutex_lock(&journal->files_lock);
    const struct journal_files *files = &journal->files;
    uint64_t below = files->file_count > 1 && files->files[1].first_lsn - 1 <= floor
                         ? files->files[0].first_batch
                         : 0;
    pthread_mutex_unlock(&journal->files_lock);
    return below;
}

int journal_trim(struct journal *journal, uint64_t booked_lsn, uint32_t *ret_removed)
{
    /* Only this thread changes snapshots, so it may read them without the lock. */
    const struct journal_files *files = &journal->files;
    size_t newest = journal_files_snapshot(files, SIZE_MAX);
    size_t previous = newest == SIZE_MAX ? newest : journal_files_snapshot(files, newest);
    bool is_list = journal->options.kind == JOURNAL_LIST;
    uint32_t removed = 0;
    if (previous != SIZE_MAX || is_list) {
        /* The snapshot before the newest stays, with all files after it: if the newest turns out
         * to be damaged, the next start uses that one. */
        uint64_t floor = is_list ? booked_lsn : files->snapshots[previous].lsn;
        int error = is_list ? 0 : trim_snapshots(journal, floor, files->snapshots[newest].lsn);
        if (error != 0) {
            return error;
        }
        floor = floor < booked_lsn ? floor : booked_lsn;
        for (uint64_t batch; (batch = file_below(journal, floor)) != 0; removed++) {
            error = remove_file(journal, batch, JOURNAL_FILE_SUFFIX);
            if (error != 0) {
                return error;
            }
            struct journal_files *changed = &journal->files;
            pthread_mutex_lock(&journal->files_lock);
            memmove(changed->files, changed->files + 1,
                    --changed->file_count * sizeof(*changed->files));
            pthread_mutex_unlock(&journal->files_lock);
        }
    }
    *ret_removed = removed;
    return 0;
}

void journal_free(struct journal *journal)
{
    if (journal == NULL) {
        return;
    }
    if (journal->file != NULL) {
        disk_close(journal->disk, journal->file);
    }
    if (journal->next != NULL) {
        disk_close(journal->disk, journal->next);
    }
    pthread_mutex_destroy(&journal->lock);
    pthread_cond_destroy(&journal->work);
    pthread_mutex_destroy(&journal->files_lock);
    pthread_mutex_destroy(&journal->next_lock);
    journal_files_done(&journal->files);
    free(journal->buffers[0].bytes);
    free(journal->buffers[1].bytes);
    free(journal);
}
