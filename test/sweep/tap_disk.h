/*
 * A disk between the journal and a disk in memory: it fails where fault.h says so, and writes down
 * every operation that changes something, for crash_disk.h to cut short anywhere.
 */
#ifndef SLUICE_TEST_TAP_DISK_H
#define SLUICE_TEST_TAP_DISK_H

#include "disk_model.h"
#include "port/disk.h"

enum tap_kind {
    TAP_CREATE,
    TAP_WRITE,
    TAP_SYNC,
    TAP_TRUNCATE,
    TAP_RENAME,
    TAP_REMOVE,
    TAP_SYNC_NAMES,
    TAP_MARK, /* not an operation: what had been promised up to here */
};

struct tap_op {
    enum tap_kind kind;
    uint32_t inode; /* of CREATE, WRITE, SYNC, TRUNCATE, RENAME, REMOVE; counted from 0 */
    bool durable;
    uint64_t at; /* or the size of a TRUNCATE */
    size_t n;
    uint8_t *bytes;
    char from[DISK_NAME_BYTES];
    char to[DISK_NAME_BYTES];
    uint64_t promised; /* of a MARK, with the two below */
    uint64_t state;
};

struct tap_disk {
    struct disk disk;
    struct disk *under;
    /* recording */
    bool recording;
    struct tap_op *ops;
    size_t ops_count;
    size_t ops_capacity;
    struct disk_names names;
    uint32_t inodes;
    /* Called before each operation that changes something, so that another thread's operations can
     * be put between two of the first one's. Not called inside itself. */
    void (*before)(void *context);
    void *before_context;
    bool in_before;
};

void tap_disk_init(struct tap_disk *ret_tap, struct disk *under);
void tap_disk_done(struct tap_disk *tap);
/* From here on; the disk is empty, or has the files named by tap_disk_know, in their order. */
void tap_disk_record(struct tap_disk *tap);
void tap_disk_know(struct tap_disk *tap, const char *name);
/* Everything up to `promised` has been told to somebody; `state` is the test's own number. */
void tap_disk_mark(struct tap_disk *tap, uint64_t promised, uint64_t state);

#endif
