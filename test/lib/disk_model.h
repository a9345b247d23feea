/*
 * What a disk holds, and what of it a loss of power may take: the contract of port/disk.h as a model,
 * without faults and without a choice. Each file has its content as a reader sees it and as the medium
 * has it; what was not synced differs sector by sector. Names likewise, change by change.
 *
 * ram_disk.h draws one of the disks that may be left; sweep/crash_disk.h builds all of them. The
 * second needs more than the newest content, so a model can keep the history since the last sync.
 */
#ifndef SLUICE_TEST_DISK_MODEL_H
#define SLUICE_TEST_DISK_MODEL_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define DISK_SECTOR 4096U
#define DISK_NAMES_MAX 512
#define DISK_CHANGES_MAX 1024
#define DISK_SIZES_MAX 64
#define DISK_NAME_BYTES 40
#define DISK_NO_INODE UINT32_MAX

struct disk_name {
    char name[DISK_NAME_BYTES];
    uint32_t inode;
};

struct disk_names {
    struct disk_name entries[DISK_NAMES_MAX];
    size_t count;
};

enum disk_change_kind { DISK_CREATED, DISK_RENAMED, DISK_REMOVED };

struct disk_change {
    enum disk_change_kind kind;
    uint32_t inode;
    char from[DISK_NAME_BYTES];
    char to[DISK_NAME_BYTES];
};

/* A sector as an operation left it. */
struct disk_version {
    struct disk_version *next; /* older */
    size_t sector;
    uint64_t made_at; /* number of the operation */
    uint8_t bytes[DISK_SECTOR];
};

struct disk_inode {
    uint8_t *now;
    uint8_t *durable;
    bool *dirty;     /* sectors that differ or may differ */
    size_t capacity; /* of all three, in bytes, whole sectors */
    size_t size;
    size_t durable_size;
    /* Only with a history: since the last sync. */
    struct disk_version *versions; /* newest first */
    size_t sizes[DISK_SIZES_MAX];  /* oldest first */
    size_t sizes_count;
};

struct disk_model {
    struct disk_names now;
    struct disk_names durable;
    struct disk_change pending[DISK_CHANGES_MAX]; /* since the last sync of names */
    size_t pending_count;
    struct disk_inode **inodes; /* all ever made, by number: freed with the model */
    uint32_t inodes_count;
    bool history;
    uint64_t op; /* the caller's number of the present operation, for the history */
};

void disk_model_init(struct disk_model *ret_model, bool history);
void disk_model_done(struct disk_model *model);

/* Each is done and not durable, unless it says so. A change of names wants a name that is there; the
 * new name of a CREATED one is not. */
struct disk_inode *disk_model_create(struct disk_model *model, const char *name);
void disk_model_rename(struct disk_model *model, const char *from, const char *to);
void disk_model_remove(struct disk_model *model, const char *name);
void disk_model_sync_names(struct disk_model *model);
void disk_model_write(struct disk_model *model, struct disk_inode *inode, size_t at,
                      const void *bytes, size_t n, bool durable);
void disk_model_truncate(struct disk_model *model, struct disk_inode *inode, size_t size);
void disk_inode_sync(struct disk_inode *inode);
/* Makes or replaces a file, all of it durable at once. */
void disk_model_put(struct disk_model *model, const char *name, const void *bytes, size_t size);

/* The file of a name; NULL where there is none. */
struct disk_inode *disk_model_find(const struct disk_model *model, const char *name);

/* Names by themselves. */
uint32_t disk_names_find(const struct disk_names *names, const char *name);
void disk_names_link(struct disk_names *names, const char *name, uint32_t inode);
void disk_names_unlink(struct disk_names *names, const char *name);
void disk_names_apply(struct disk_names *names, const struct disk_change *change);
void disk_names_copy(struct disk_names *ret_to, const struct disk_names *from);
void disk_names_sort(struct disk_names *names);

#endif
