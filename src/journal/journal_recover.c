/*
 * Opening a journal, and inspecting one without changing it.
 *
 * Happy path: list the folder, read every file's header, pick the newest good snapshot that the
 * files reach back to, walk all batches of all files in order, apply the records after the
 * snapshot, find zeros after the last batch, continue writing there.
 *
 * What can go wrong, and how to distinguish the cases. Batch n + 1, and the header of a later
 * file, are written only after batch n is durable. So an incomplete batch with nothing after it
 * was just being written. That is a torn tail: no answer was sent for its records. It is cut
 * (zeroed, so that no later start takes leftovers for data). An incomplete batch with a whole batch or a
 * file after it was durable once. That is damage: the start is refused, with file and offset.
 *
 * What stays true: the last file and the names in the folder are synced before they are read. An
 * earlier process may have written bytes that it did not sync; they are visible now and must not
 * vanish after something is built on them. journal_scan() writes nothing.
 */
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/bytes.h"
#include "base/check.h"
#include "base/err.h"
#include "journal/journal_private.h"

enum recovery_mode {
    RECOVERY_OPEN, /* apply the records, heal what is torn */
    RECOVERY_SCAN, /* visit everything, change nothing */
};

struct recovery {
    struct disk *disk;
    enum recovery_mode mode;
    enum journal_kind kind;
    struct journal_content *content;
    const struct journal_scan_ops *ops; /* NULL unless RECOVERY_SCAN */
    void *context;
    struct journal_files files;
    struct journal_found found;
    struct journal_snapshot_info base; /* lsn 0: no snapshot */
    size_t base_index;
    struct journal_window window;
    struct disk_file *file; /* being walked; at the end, the last one */
    uint64_t next_batch;
    uint64_t next_lsn;
    int error; /* from the listing callback */
};

/* Records where and why. Returns code, so that callers can return it. */
static int found_bad(struct recovery *recovery, int code, const char *name, uint64_t offset,
                     const char *why)
{
    struct journal_found *found = &recovery->found;
    (void)snprintf(found->where, sizeof(found->where), "%s:%" PRIu64, name, offset);
    (void)snprintf(found->why, sizeof(found->why), "%s", why);
    return code;
}

static int found_in_file(struct recovery *recovery, int code, size_t index, uint64_t offset,
                         const char *why)
{
    char name[JOURNAL_NAME_BYTES];
    journal_name(recovery->files.files[index].first_batch, JOURNAL_FILE_SUFFIX, name);
    return found_bad(recovery, code, name, offset, why);
}

static void note(struct recovery *recovery, const char *name, uint64_t offset, const char *what)
{
    if (recovery->ops != NULL) {
        recovery->ops->note(recovery->context, name, offset, what);
    }
}

/* ---- the folder ---- */

static void on_file(void *context, const char *name, uint64_t size)
{
    struct recovery *recovery = context;
    uint64_t number;
    int error = 0;
    if (journal_name_parse(name, JOURNAL_FILE_SUFFIX, &number)) {
        error = journal_files_add_file(
            &recovery->files, (struct journal_file){.first_batch = number, .found_bytes = size});
    } else if (journal_name_parse(name, JOURNAL_SNAPSHOT_SUFFIX, &number)) {
        error = journal_files_add_snapshot(
            &recovery->files, (struct journal_snapshot_file){.lsn = number, .bytes = size});
    }
    if (error != 0) {
        recovery->error = error;
    }
}

static int list_files(struct recovery *recovery)
{
    int error = disk_list(recovery->disk, on_file, recovery);
    return error != 0 ? error : recovery->error;
}

static int open_file(struct recovery *recovery, size_t index, enum disk_open how)
{
    const struct journal_file *file = &recovery->files.files[index];
    char name[JOURNAL_NAME_BYTES];
    journal_name(file->first_batch, JOURNAL_FILE_SUFFIX, name);
    int error = disk_open(recovery->disk, name, how, &recovery->file);
    if (error == 0) {
        /* If a file is longer than its header says, look through it to its end. */
        uint64_t limit = file->bytes > file->found_bytes ? file->bytes : file->found_bytes;
        journal_window_show(&recovery->window, recovery->file, limit);
    }
    return error;
}

static void close_file(struct recovery *recovery)
{
    if (recovery->file != NULL) {
        disk_close(recovery->disk, recovery->file);
        recovery->file = NULL;
    }
}

static int read_head(struct recovery *recovery, size_t index)
{
    struct journal_file *file = &recovery->files.files[index];
    file->bytes = JOURNAL_SECTOR; /* until the header says more: enough to read it */
    int error = open_file(recovery, index, DISK_READ);
    if (error != 0) {
        return error;
    }
    struct journal_file_head head;
    const uint8_t *bytes;
    error = journal_window_load(&recovery->window, 0, JOURNAL_HEAD_BYTES, &bytes);
    if (error == 0) {
        error = journal_file_decode(bytes, &head);
    }
    close_file(recovery);
    if (error == ERR_CORRUPT) {
        return found_in_file(recovery, error, index, 0, "the file's header is damaged");
    }
    if (error == ERR_VERSION) {
        return found_in_file(recovery, error, index, 0, "a journal file of another version");
    }
    if (error != 0) {
        return error;
    }
    if (head.first_batch != file->first_batch) {
        return found_in_file(recovery, ERR_CORRUPT, index, 0,
                             "the file's name is not the one its header gives");
    }
    file->first_lsn = head.first_lsn;
    file->bytes = head.bytes;
    return 0;
}

/* ---- the snapshot ---- */

/* Checks a snapshot without loading it and sets base. ERR_CORRUPT: try an older one. */
static int check_base(struct recovery *recovery, size_t index)
{
    struct journal_snapshot_file *file = &recovery->files.snapshots[index];
    char name[JOURNAL_NAME_BYTES];
    journal_name(file->lsn, JOURNAL_SNAPSHOT_SUFFIX, name);
    struct journal_snapshot_info info;
    uint64_t bad_at = 0;
    int error = journal_snapshot_check(recovery->disk, file, recovery->content, &info, &bad_at);
    if (error == ERR_CORRUPT) {
        file->bad = true;
        recovery->found.bad_snapshots++;
        note(recovery, name, bad_at, "the snapshot is damaged");
        return found_bad(recovery, error, name, bad_at, "the snapshot is damaged");
    }
    if (error == ERR_VERSION) {
        return found_bad(recovery, error, name, bad_at, "a snapshot of another version");
    }
    if (error == 0) {
        note(recovery, name, 0, "snapshot");
        recovery->base = info;
        recovery->base_index = index;
    }
    return error;
}

static int load_base(struct recovery *recovery)
{
    const struct journal_snapshot_file *file = &recovery->files.snapshots[recovery->base_index];
    char name[JOURNAL_NAME_BYTES];
    journal_name(file->lsn, JOURNAL_SNAPSHOT_SUFFIX, name);
    uint64_t bad_at = 0;
    int error = journal_snapshot_load(recovery->disk, file, recovery->content, &bad_at);
    if (error == ERR_FULL) {
        return found_bad(recovery, error, name, bad_at, "it does not fit the configured sizes");
    }
    if (error != 0) { /* whole by its checksums, yet it does not add up */
        return found_bad(recovery, error, name, bad_at, "the snapshot cannot be loaded");
    }
    return 0;
}

/* Picks the newest good snapshot that the files reach back to.
 * Without one they must start at LSN 1. */
static int choose_base(struct recovery *recovery)
{
    const struct journal_files *files = &recovery->files;
    if (files->file_count == 0) {
        if (files->snapshot_count == 0) {
            return 0; /* a fresh folder */
        }
        char name[JOURNAL_NAME_BYTES];
        journal_name(files->snapshots[files->snapshot_count - 1].lsn, JOURNAL_SNAPSHOT_SUFFIX,
                     name);
        return found_bad(recovery, ERR_CORRUPT, name, 0, "no journal file follows the snapshot");
    }
    uint64_t first_lsn = files->files[0].first_lsn;
    size_t snapshots = recovery->kind == JOURNAL_HISTORY ? files->snapshot_count : 0;
    for (size_t i = snapshots; i > 0 && recovery->base.lsn == 0; i--) {
        if (files->snapshots[i - 1].lsn + 1 < first_lsn) {
            break; /* older ones reach even less */
        }
        int error = check_base(recovery, i - 1);
        if (error != 0 && error != ERR_CORRUPT) {
            return error;
        }
    }
    if (recovery->base.lsn == 0 && first_lsn != 1 && recovery->kind == JOURNAL_HISTORY) {
        return recovery->found.bad_snapshots > 0
                   ? ERR_CORRUPT /* the oldest bad one that would have done is in found */
                   : found_in_file(recovery, ERR_CORRUPT, 0, 0,
                                   "records before this file are missing: no snapshot "
                                   "reaches it");
    }
    recovery->found.where[0] = '\0';
    recovery->found.why[0] = '\0';
    recovery->found.snapshot_lsn = recovery->base.lsn;
    return recovery->base.lsn != 0 && recovery->mode == RECOVERY_OPEN ? load_base(recovery) : 0;
}

/* ---- batches ---- */

static int take_batch(struct recovery *recovery, size_t index, uint64_t offset,
                      const struct journal_batch_head *head, const uint8_t *payload)
{
    struct journal_content *content = recovery->content;
    if (recovery->ops != NULL) {
        char name[JOURNAL_NAME_BYTES];
        journal_name(recovery->files.files[index].first_batch, JOURNAL_FILE_SUFFIX, name);
        recovery->ops->batch(recovery->context, name, offset, head->number, head->first_lsn,
                             head->records, head->length);
    }
    struct journal_records records = {payload, head->length, head->records};
    const uint8_t *record = NULL;
    size_t length = 0;
    int error;
    while ((error = journal_records_next(&records, &record, &length)) == 0) {
        uint64_t lsn = recovery->next_lsn++;
        bool is_after_base = lsn > recovery->base.lsn;
        recovery->found.replayed += is_after_base ? 1 : 0;
        if (is_after_base || recovery->mode == RECOVERY_SCAN) {
            error = content->ops->apply(content, lsn, record, length);
        } else if (!content->ops->is_record(record, length)) {
            error = ERR_INVALID; /* somebody may have to read it: bookings can lag behind */
        }
        if (error == ERR_INVALID) {
            break;
        }
        if (error == ERR_FULL) {
            return found_in_file(recovery, error, index, offset,
                                 "it does not fit the configured sizes");
        }
        if (error != 0) {
            return found_in_file(recovery, error, index, offset,
                                 "a record does not follow from what came before");
        }
    }
    if (error != ERR_AGAIN) {
        return found_in_file(recovery, ERR_CORRUPT, index, offset,
                             "a record in a whole batch cannot be read");
    }
    if (head->time_ms > recovery->found.highest_ms) {
        recovery->found.highest_ms = head->time_ms;
    }
    return 0;
}

/* Walks all batches of one file. Its `end` is the first offset without a whole batch. */
static int walk_batches(struct recovery *recovery, size_t index)
{
    struct journal_file *file = &recovery->files.files[index];
    file->end = JOURNAL_SECTOR;
    for (;;) {
        struct journal_batch_head head;
        const uint8_t *payload;
        int error = journal_window_batch(&recovery->window, file->end, &head, &payload);
        if (error == ERR_CORRUPT) {
            return 0;
        }
        if (error == ERR_VERSION) {
            return found_in_file(recovery, error, index, file->end, "a batch of another version");
        }
        if (error != 0) {
            return error;
        }
        if (file->end + journal_batch_bytes(head.length) > file->bytes) {
            return 0; /* it reaches beyond the file's proper size: nothing there is kept */
        }
        if (head.number != recovery->next_batch || head.first_lsn != recovery->next_lsn) {
            return found_in_file(recovery, ERR_CORRUPT, index, file->end,
                                 "the batch is not the next one");
        }
        error = take_batch(recovery, index, file->end, &head, payload);
        if (error != 0) {
            return error;
        }
        recovery->next_batch++;
        file->end += journal_batch_bytes(head.length);
    }
}

/* Checks what follows the last whole batch of the last file. *ret_torn counts bytes up to the
 * last non-zero one. ERR_CORRUPT: a whole batch follows, so the one before it was durable once. */
static int look_behind(struct recovery *recovery, size_t index, uint64_t *ret_torn)
{
    struct journal_window *window = &recovery->window;
    uint64_t end = recovery->files.files[index].end;
    uint64_t torn = 0;
    for (uint64_t at = end; at < window->limit; at += JOURNAL_SECTOR) {
        uint64_t left = window->limit - at;
        size_t n = left < JOURNAL_SECTOR ? (size_t)left : JOURNAL_SECTOR;
        const uint8_t *bytes;
        int error = journal_window_load(window, at, n, &bytes);
        if (error != 0) {
            return error;
        }
        while (n > 0 && bytes[n - 1] == 0) {
            n--;
        }
        if (n == 0) {
            continue;
        }
        torn = at + n - end;
        struct journal_batch_head head;
        error = journal_window_batch(window, at, &head, &bytes);
        if (error == ERR_VERSION || (error == 0 && head.number >= recovery->next_batch)) {
            return found_in_file(recovery, ERR_CORRUPT, index, end,
                                 "a damaged batch: whole later ones follow");
        }
        if (error != 0 && error != ERR_CORRUPT) {
            return error;
        }
    }
    *ret_torn = torn;
    return 0;
}

/* Cuts a torn tail and restores the file's full size. */
static int heal_file(struct recovery *recovery, const struct journal_file *file, uint64_t torn)
{
    struct disk *disk = recovery->disk;
    int error = 0;
    if (torn > 0) {
        uint64_t to = file->end + torn;
        to = (to + JOURNAL_SECTOR - 1) & ~(uint64_t)(JOURNAL_SECTOR - 1);
        error = journal_zero(disk, recovery->file, file->end, to);
        if (error == 0) {
            error = disk_sync(disk, recovery->file);
        }
    }
    if (error != 0 || file->found_bytes == file->bytes) {
        return error;
    }
    error = file->found_bytes > file->bytes
                ? disk_truncate(disk, recovery->file, file->bytes)
                : journal_zero(disk, recovery->file, file->found_bytes, file->bytes);
    return error == 0 ? disk_sync(disk, recovery->file) : error;
}

static int end_walk(struct recovery *recovery)
{
    size_t last = recovery->files.file_count - 1;
    const struct journal_file *file = &recovery->files.files[last];
    uint64_t torn = 0;
    int error = look_behind(recovery, last, &torn);
    if (error != 0) {
        return error;
    }
    if (recovery->next_lsn <= recovery->base.lsn) {
        return found_in_file(recovery, ERR_CORRUPT, last, file->end,
                             "the journal ends before its snapshot");
    }
    char name[JOURNAL_NAME_BYTES];
    journal_name(file->first_batch, JOURNAL_FILE_SUFFIX, name);
    if (torn > 0) {
        recovery->found.torn_bytes = torn;
        (void)found_bad(recovery, 0, name, file->end, "torn tail");
        note(recovery, name, file->end, "torn tail: the next start cuts it");
    } else if (file->found_bytes < file->bytes) {
        (void)found_bad(recovery, 0, name, file->found_bytes, "the file has been cut short");
        note(recovery, name, file->found_bytes, "the file has been cut short");
    }
    return recovery->mode == RECOVERY_OPEN ? heal_file(recovery, file, torn) : 0;
}

static int walk_files(struct recovery *recovery)
{
    const struct journal_files *files = &recovery->files;
    recovery->next_batch = files->files[0].first_batch;
    recovery->next_lsn = files->files[0].first_lsn;
    for (size_t i = 0;; i++) {
        const struct journal_file *file = &files->files[i];
        bool last = i + 1 == files->file_count;
        bool writes = last && recovery->mode == RECOVERY_OPEN;
        if (recovery->base.lsn > 0 && file->first_lsn == recovery->base.lsn + 1 &&
            file->first_batch != recovery->base.batch + 1) {
            return found_in_file(recovery, ERR_CORRUPT, i, 0,
                                 "the file does not follow the snapshot");
        }
        int error = open_file(recovery, i, writes ? DISK_WRITE : DISK_READ);
        if (error == 0 && writes) {
            error = disk_sync(recovery->disk, recovery->file);
        }
        if (error == 0) {
            error = walk_batches(recovery, i);
        }
        if (error != 0) {
            return error;
        }
        if (last) {
            break;
        }
        close_file(recovery);
        const struct journal_file *next = file + 1;
        if (next->first_batch != recovery->next_batch || next->first_lsn != recovery->next_lsn) {
            return found_in_file(recovery, ERR_CORRUPT, i, file->end,
                                 "a batch or a file is missing or damaged: later ones "
                                 "follow");
        }
    }
    return end_walk(recovery);
}

static int recover(struct recovery *recovery)
{
    recovery->window.disk = recovery->disk;
    int error = list_files(recovery);
    for (size_t i = 0; error == 0 && i < recovery->files.file_count; i++) {
        error = read_head(recovery, i);
    }
    if (error == 0) {
        error = choose_base(recovery);
    }
    recovery->next_batch = 1;
    recovery->next_lsn = 1;
    recovery->found.highest_ms = recovery->base.highest_ms;
    recovery->found.files = recovery->files.file_count;
    if (error == 0 && recovery->files.file_count > 0) {
        error = walk_files(recovery);
    }
    recovery->found.last_lsn = recovery->next_lsn - 1;
    return error;
}

static void recovery_done(struct recovery *recovery)
{
    close_file(recovery);
    journal_window_done(&recovery->window);
    journal_files_done(&recovery->files);
}

int journal_scan(struct disk *disk, enum journal_kind kind, struct journal_content *content,
                 const struct journal_scan_ops *ops, void *context, struct journal_found *ret_found)
{
    struct recovery recovery = {.disk = disk,
                                .mode = RECOVERY_SCAN,
                                .kind = kind,
                                .content = content,
                                .ops = ops,
                                .context = context};
    int error = recover(&recovery);
    *ret_found = recovery.found;
    recovery_done(&recovery);
    return error;
}

/* ---- opening ---- */

/* Removes half-made files of a killed process, then makes every name in the folder durable. */
static int tidy_folder(struct disk *disk)
{
    int error = disk_remove(disk, JOURNAL_NEXT_NAME);
    if (error == 0 || error == ERR_NOTFOUND) {
        error = disk_remove(disk, JOURNAL_SNAPSHOT_TMP_NAME);
    }
    if (error == 0 || error == ERR_NOTFOUND) { /* made again when there is space */
        error = disk_remove(disk, JOURNAL_RESERVE_NAME);
    }
    return error == 0 || error == ERR_NOTFOUND ? disk_sync_names(disk) : error;
}

static struct journal *journal_new(struct disk *disk, struct journal_options options)
{
    CHECK(options.file_bytes % JOURNAL_SECTOR == 0);
    CHECK(options.file_bytes >= 2ULL * JOURNAL_SECTOR);
    CHECK(options.file_bytes <= JOURNAL_FILE_MAX_BYTES);
    CHECK(options.buffer_bytes >= JOURNAL_SECTOR);
    uint64_t capacity = options.file_bytes - JOURNAL_SECTOR;
    capacity = capacity < options.buffer_bytes ? capacity : options.buffer_bytes;
    capacity -= capacity % JOURNAL_SECTOR;
    struct journal *journal = aligned_alloc(_Alignof(struct journal), sizeof(*journal));
    if (journal == NULL) {
        return NULL;
    }
    memset(journal, 0, sizeof(*journal));
    journal->disk = disk;
    journal->options = options;
    journal->capacity = (uint32_t)capacity;
    pthread_mutex_init(&journal->lock, NULL);
    pthread_cond_init(&journal->work, NULL);
    pthread_mutex_init(&journal->files_lock, NULL);
    pthread_mutex_init(&journal->next_lock, NULL);
    for (int i = 0; i < 2; i++) {
        journal->buffers[i].bytes = malloc(journal->capacity);
        journal->buffers[i].fill = JOURNAL_HEAD_BYTES;
    }
    journal->open = &journal->buffers[0];
    atomic_init(&journal->open_fill, JOURNAL_HEAD_BYTES);
    if (journal->buffers[0].bytes == NULL || journal->buffers[1].bytes == NULL) {
        journal_free(journal);
        return NULL;
    }
    return journal;
}

int journal_open(struct disk *disk, struct journal_options options, struct journal_content *content,
                 struct journal **ret_journal, struct journal_found *ret_found)
{
    struct recovery recovery = {
        .disk = disk, .mode = RECOVERY_OPEN, .kind = options.kind, .content = content};
    struct journal *journal = journal_new(disk, options);
    int error = journal == NULL ? ERR_NOMEM : tidy_folder(disk);
    if (error == 0) {
        error = recover(&recovery);
    }
    if (error == 0) {
        uint64_t last_lsn = recovery.found.last_lsn;
        journal->files = recovery.files;
        recovery.files = (struct journal_files){0};
        journal->file = recovery.file;
        recovery.file = NULL;
        journal->next_batch = recovery.next_batch;
        atomic_init(&journal->last_lsn, last_lsn);
        atomic_init(&journal->durable_lsn, last_lsn);
        if (journal->files.file_count == 0) {
            error = journal_start_file(journal, last_lsn + 1);
            recovery.found.files = 1;
        }
    }
    *ret_found = recovery.found;
    recovery_done(&recovery);
    if (error != 0) {
        journal_free(journal);
        return error;
    }
    *ret_journal = journal;
    return 0;
}
