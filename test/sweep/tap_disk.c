/* See tap_disk.h. Whatever happens below is outside the product: it leaves and enters again. */
#include "tap_disk.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/check.h"
#include "base/err.h"
#include "fault.h"

struct disk_file {
    struct disk_file *under;
    uint32_t inode;
};

static struct tap_disk *tap_of(struct disk *disk)
{
    return (struct tap_disk *)disk;
}

/* ---- the record ---- */

static struct tap_op *record(struct tap_disk *tap, enum tap_kind kind)
{
    static struct tap_op nowhere;
    if (!tap->recording) {
        nowhere = (struct tap_op){.kind = kind};
        return &nowhere;
    }
    if (tap->ops_count == tap->ops_capacity) {
        tap->ops_capacity = tap->ops_capacity == 0 ? 256 : 2 * tap->ops_capacity;
        tap->ops = realloc(tap->ops, tap->ops_capacity * sizeof(*tap->ops));
        CHECK(tap->ops != NULL);
    }
    struct tap_op *op = &tap->ops[tap->ops_count++];
    *op = (struct tap_op){.kind = kind};
    return op;
}

/* ---- the operations ---- */

static void before(struct tap_disk *tap)
{
    if (tap->before != NULL && !tap->in_before) {
        tap->in_before = true;
        tap->before(tap->before_context);
        tap->in_before = false;
    }
}

/* A disk that stays bad is a full one. */
static int fault_code(void)
{
    return fault_forever() ? ERR_NOSPACE : ERR_IO;
}

static int tap_open(struct disk *disk, const char *name, enum disk_open how,
                    struct disk_file **ret_file)
{
    struct tap_disk *tap = tap_of(disk);
    bool strikes = fault_strikes(FAULT_OPEN);
    bool inside = fault_leave();
    if (how == DISK_CREATE) {
        before(tap);
    }
    struct disk_file *under = NULL;
    int error = strikes && fault_done() != FAULT_ALL ? fault_code()
                                                     : disk_open(tap->under, name, how, &under);
    if (strikes && error == 0) {
        disk_close(tap->under, under);
        error = fault_code();
    }
    if (error == 0) {
        struct disk_file *file = malloc(sizeof(*file));
        CHECK(file != NULL);
        if (how == DISK_CREATE) {
            struct tap_op *op = record(tap, TAP_CREATE);
            op->inode = tap->inodes++;
            (void)snprintf(op->from, sizeof(op->from), "%s", name);
            disk_names_link(&tap->names, name, op->inode);
        }
        *file = (struct disk_file){under, disk_names_find(&tap->names, name)};
        *ret_file = file;
    }
    fault_back(inside);
    return error;
}

static void tap_close(struct disk *disk, struct disk_file *file)
{
    bool inside = fault_leave();
    disk_close(tap_of(disk)->under, file->under);
    free(file);
    fault_back(inside);
}

static int tap_read(struct disk *disk, struct disk_file *file, uint64_t at, void *bytes, size_t n,
                    size_t *ret_n)
{
    bool strikes = fault_strikes(FAULT_READ);
    bool inside = fault_leave();
    int error = strikes ? ERR_IO : disk_read(tap_of(disk)->under, file->under, at, bytes, n, ret_n);
    fault_back(inside);
    return error;
}

static int tap_write(struct disk *disk, struct disk_file *file, uint64_t at, const void *bytes,
                     size_t n, bool durable)
{
    struct tap_disk *tap = tap_of(disk);
    bool strikes = fault_strikes(FAULT_WRITE);
    bool inside = fault_leave();
    before(tap);
    int error = 0;
    if (strikes) { /* what it did is visible and may be lost */
        size_t part = fault_done() == FAULT_ALL ? n : fault_done() == FAULT_HALF ? n / 2 : 0;
        if (part > 0) {
            (void)disk_write(tap->under, file->under, at, bytes, part, false);
        }
        error = fault_code();
    } else {
        error = disk_write(tap->under, file->under, at, bytes, n, durable);
    }
    if (error == 0 && tap->recording) {
        struct tap_op *op = record(tap, TAP_WRITE);
        op->inode = file->inode;
        op->at = at;
        op->n = n;
        op->durable = durable;
        op->bytes = malloc(n);
        CHECK(op->bytes != NULL);
        memcpy(op->bytes, bytes, n);
    }
    fault_back(inside);
    return error;
}

static int tap_sync(struct disk *disk, struct disk_file *file)
{
    struct tap_disk *tap = tap_of(disk);
    bool strikes = fault_strikes(FAULT_SYNC);
    bool inside = fault_leave();
    before(tap);
    int error = 0;
    if (!strikes || fault_done() == FAULT_ALL) {
        error = disk_sync(tap->under, file->under);
    }
    error = strikes ? fault_code() : error;
    if (error == 0) {
        record(tap, TAP_SYNC)->inode = file->inode;
    }
    fault_back(inside);
    return error;
}

static int tap_truncate(struct disk *disk, struct disk_file *file, uint64_t size)
{
    struct tap_disk *tap = tap_of(disk);
    bool strikes = fault_strikes(FAULT_TRUNCATE);
    bool inside = fault_leave();
    before(tap);
    int error = 0;
    if (!strikes || fault_done() == FAULT_ALL) {
        error = disk_truncate(tap->under, file->under, size);
    }
    error = strikes ? fault_code() : error;
    if (error == 0) {
        struct tap_op *op = record(tap, TAP_TRUNCATE);
        op->inode = file->inode;
        op->at = size;
    }
    fault_back(inside);
    return error;
}

static void record_name(struct tap_disk *tap, enum tap_kind kind, const char *from, const char *to)
{
    struct tap_op *op = record(tap, kind);
    if (kind == TAP_SYNC_NAMES) {
        return;
    }
    op->inode = disk_names_find(&tap->names, from);
    (void)snprintf(op->from, sizeof(op->from), "%s", from);
    disk_names_unlink(&tap->names, from);
    if (kind == TAP_RENAME) {
        (void)snprintf(op->to, sizeof(op->to), "%s", to);
        disk_names_link(&tap->names, to, op->inode);
    }
}

static int name_below(struct disk *under, enum tap_kind kind, const char *from, const char *to)
{
    return kind == TAP_RENAME   ? disk_rename(under, from, to)
           : kind == TAP_REMOVE ? disk_remove(under, from)
                                : disk_sync_names(under);
}

static int tap_name(struct disk *disk, enum tap_kind kind, enum fault_kind fault, const char *from,
                    const char *to)
{
    struct tap_disk *tap = tap_of(disk);
    bool strikes = fault_strikes(fault);
    bool inside = fault_leave();
    before(tap);
    int error = 0;
    if (!strikes || fault_done() == FAULT_ALL) {
        error = name_below(tap->under, kind, from, to);
    }
    error = strikes ? fault_code() : error;
    if (error == 0) {
        record_name(tap, kind, from, to);
    }
    fault_back(inside);
    return error;
}

static int tap_rename(struct disk *disk, const char *from, const char *to)
{
    return tap_name(disk, TAP_RENAME, FAULT_RENAME, from, to);
}

static int tap_remove(struct disk *disk, const char *name)
{
    return tap_name(disk, TAP_REMOVE, FAULT_REMOVE, name, NULL);
}

static int tap_sync_names(struct disk *disk)
{
    return tap_name(disk, TAP_SYNC_NAMES, FAULT_SYNC_NAMES, NULL, NULL);
}

struct listing {
    bool inside;
    void (*each)(void *context, const char *name, uint64_t size);
    void *context;
};

static void listed(void *context, const char *name, uint64_t size)
{
    struct listing *listing = context;
    fault_back(listing->inside);
    listing->each(listing->context, name, size);
    (void)fault_leave();
}

static int tap_list(struct disk *disk, void (*each)(void *context, const char *name, uint64_t size),
                    void *context)
{
    bool strikes = fault_strikes(FAULT_LIST);
    bool inside = fault_leave();
    struct listing listing = {inside, each, context};
    int error = strikes ? ERR_IO : disk_list(tap_of(disk)->under, listed, &listing);
    fault_back(inside);
    return error;
}

static const struct disk_ops tap_ops = {
    .open = tap_open,
    .close = tap_close,
    .read = tap_read,
    .write = tap_write,
    .sync = tap_sync,
    .truncate = tap_truncate,
    .rename = tap_rename,
    .remove = tap_remove,
    .sync_names = tap_sync_names,
    .list = tap_list,
};

void tap_disk_init(struct tap_disk *ret_tap, struct disk *under)
{
    *ret_tap = (struct tap_disk){.disk = {&tap_ops}, .under = under};
}

void tap_disk_done(struct tap_disk *tap)
{
    for (size_t i = 0; i < tap->ops_count; i++) {
        free(tap->ops[i].bytes);
    }
    free(tap->ops);
    tap->ops = NULL;
    tap->ops_count = 0;
    tap->ops_capacity = 0;
}

void tap_disk_record(struct tap_disk *tap)
{
    tap->recording = true;
}

void tap_disk_know(struct tap_disk *tap, const char *name)
{
    disk_names_link(&tap->names, name, tap->inodes++);
}

void tap_disk_mark(struct tap_disk *tap, uint64_t promised, uint64_t state)
{
    struct tap_op *op = record(tap, TAP_MARK);
    op->promised = promised;
    op->state = state;
}
