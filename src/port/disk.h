/*
 * The disk as the journal needs it: a few files in one folder, positional I/O, explicit syncs.
 * Every call blocks until the operation is done. The threads that serve requests never call it.
 * Implementations: backend/posix, the simulator, and test doubles that fail.
 *
 * After a failed write or sync, the caller must treat everything not yet synced as lost and stop
 * making promises. It never retries a failed sync.
 */
#ifndef SLUICE_PORT_DISK_H
#define SLUICE_PORT_DISK_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct disk;
struct disk_file; /* the implementation's; owned by the caller of open until disk_close */

enum disk_open { DISK_READ, DISK_WRITE, DISK_CREATE }; /* CREATE: must not exist; WRITE: read too */

struct disk_ops {
    int (*open)(struct disk *disk, const char *name, enum disk_open how,
                struct disk_file **ret_file);
    void (*close)(struct disk *disk, struct disk_file *file);
    /* Up to n bytes; *ret_n less than n only at the end of the file. */
    int (*read)(struct disk *disk, struct disk_file *file, uint64_t at, void *bytes, size_t n,
                size_t *ret_n);
    /* All n bytes or an error. With `durable`, they are on stable storage when it returns 0
     * (data only: the file's size must have been made durable before by sync). */
    int (*write)(struct disk *disk, struct disk_file *file, uint64_t at, const void *bytes,
                 size_t n, bool durable);
    /* File data and size are durable. */
    int (*sync)(struct disk *disk, struct disk_file *file);
    int (*truncate)(struct disk *disk, struct disk_file *file, uint64_t size);
    /* Names within the folder are durable only after sync_names. */
    int (*rename)(struct disk *disk, const char *from, const char *to);
    int (*remove)(struct disk *disk, const char *name);
    int (*sync_names)(struct disk *disk);
    /* Calls each(name, size) for every file of the folder, sorted by name. */
    int (*list)(struct disk *disk, void (*each)(void *context, const char *name, uint64_t size),
                void *context);
};

struct disk {
    const struct disk_ops *ops;
};

static inline int disk_open(struct disk *d, const char *name, enum disk_open how,
                            struct disk_file **ret_file)
{
    return d->ops->open(d, name, how, ret_file);
}
static inline void disk_close(struct disk *d, struct disk_file *file)
{
    d->ops->close(d, file);
}
static inline int disk_read(struct disk *d, struct disk_file *file, uint64_t at, void *bytes,
                            size_t n, size_t *ret_n)
{
    return d->ops->read(d, file, at, bytes, n, ret_n);
}
static inline int disk_write(struct disk *d, struct disk_file *file, uint64_t at, const void *bytes,
                             size_t n, bool durable)
{
    return d->ops->write(d, file, at, bytes, n, durable);
}
static inline int disk_sync(struct disk *d, struct disk_file *file)
{
    return d->ops->sync(d, file);
}
static inline int disk_truncate(struct disk *d, struct disk_file *file, uint64_t size)
{
    return d->ops->truncate(d, file, size);
}
static inline int disk_rename(struct disk *d, const char *from, const char *to)
{
    return d->ops->rename(d, from, to);
}
static inline int disk_remove(struct disk *d, const char *name)
{
    return d->ops->remove(d, name);
}
static inline int disk_sync_names(struct disk *d)
{
    return d->ops->sync_names(d);
}
static inline int disk_list(struct disk *d,
                            void (*each)(void *context, const char *name, uint64_t size),
                            void *context)
{
    return d->ops->list(d, each, context);
}

#endif
