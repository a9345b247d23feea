/*
 * Files with pread and pwrite. A durable write is one pwritev2 with RWF_DSYNC: on a preallocated
 * file it flushes the data without a change of metadata, at about half the cost of write and
 * fdatasync. If the file system does not support the flag, write and fdatasync are used.
 *
 * Invariant: a call that returns 0 did all its work. Interrupted and short transfers are continued.
 * A failed sync is reported once and never repeated here.
 */
#define _GNU_SOURCE /* pwritev2, scandirat */
#include "backend/posix/disk_posix.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <sys/uio.h>
#include <unistd.h>

#include "base/err.h"

struct disk_file {
    int fd;
};

static int error_of(int error)
{
    switch (error) {
    case ENOSPC:
    case EDQUOT:
        return ERR_NOSPACE;
    case ENOENT:
        return ERR_NOTFOUND;
    case EEXIST:
        return ERR_EXISTS;
    case ENOMEM:
        return ERR_NOMEM;
    default:
        return ERR_IO;
    }
}

static struct disk_posix *posix_of(struct disk *disk)
{
    return (struct disk_posix *)disk; /* its first member */
}

static void posix_close(struct disk *disk, struct disk_file *file)
{
    (void)disk;
    (void)close(file->fd);
    free(file);
}

static int posix_open(struct disk *disk, const char *name, enum disk_open how,
                      struct disk_file **ret_file)
{
    static const int flags[] = {
        [DISK_READ] = O_RDONLY,
        [DISK_WRITE] = O_RDWR,
        [DISK_CREATE] = O_RDWR | O_CREAT | O_EXCL,
    };
    struct disk_file *file = malloc(sizeof(*file));
    if (file == NULL) {
        return ERR_NOMEM;
    }
    file->fd = openat(posix_of(disk)->folder, name, flags[how] | O_CLOEXEC, 0600);
    if (file->fd < 0) {
        int error = error_of(errno);
        free(file);
        return error;
    }
    if (how == DISK_WRITE) {
        /* A write-back may have failed under an earlier process. Its pages then look clean in the
         * cache but are not on disk. Recovery must read what is on disk. */
        if (fdatasync(file->fd) != 0 &&
            errno != EINVAL) { /* EINVAL: nothing to sync, like a device */
            int error = error_of(errno);
            posix_close(disk, file);
            return error;
        }
        (void)posix_fadvise(file->fd, 0, 0, POSIX_FADV_DONTNEED);
    }
    *ret_file = file;
    return 0;
}

static int posix_read(struct disk *disk, struct disk_file *file, uint64_t at, void *bytes, size_t n,
                      size_t *ret_n)
{
    (void)disk;
    size_t done = 0;
    while (done < n) {
        ssize_t got = pread(file->fd, (char *)bytes + done, n - done, (off_t)(at + done));
        if (got < 0 && errno == EINTR) {
            continue;
        }
        if (got < 0) {
            return error_of(errno);
        }
        if (got == 0) {
            break;
        }
        done += (size_t)got;
    }
    *ret_n = done;
    return 0;
}

/* One write call. *ret_durable: what it wrote needs no sync. */
static ssize_t write_some(struct disk_posix *posix, int fd, const void *bytes, size_t n, off_t at,
                          bool durable, bool *ret_durable)
{
    *ret_durable = false;
    if (durable && !atomic_load_explicit(&posix->plain_sync, memory_order_relaxed)) {
        struct iovec part = {(void *)(uintptr_t)bytes, n};
        ssize_t put = pwritev2(fd, &part, 1, at, RWF_DSYNC);
        if (put >= 0 || (errno != EOPNOTSUPP && errno != ENOSYS)) {
            *ret_durable = true;
            return put;
        }
        atomic_store_explicit(&posix->plain_sync, true, memory_order_relaxed);
    }
    return pwrite(fd, bytes, n, at);
}

static int posix_write(struct disk *disk, struct disk_file *file, uint64_t at, const void *bytes,
                       size_t n, bool durable)
{
    bool to_sync = false;
    size_t done = 0;
    while (done < n) {
        bool is_durable;
        ssize_t put = write_some(posix_of(disk), file->fd, (const char *)bytes + done, n - done,
                                 (off_t)(at + done), durable, &is_durable);
        if (put < 0 && errno == EINTR) {
            continue;
        }
        if (put < 0) {
            return error_of(errno);
        }
        to_sync = to_sync || (durable && !is_durable);
        done += (size_t)put;
    }
    return to_sync && fdatasync(file->fd) != 0 ? error_of(errno) : 0;
}

static int posix_sync(struct disk *disk, struct disk_file *file)
{
    (void)disk;
    return fdatasync(file->fd) != 0 ? error_of(errno) : 0; /* includes the size if it changed */
}

static int posix_truncate(struct disk *disk, struct disk_file *file, uint64_t size)
{
    (void)disk;
    return ftruncate(file->fd, (off_t)size) != 0 ? error_of(errno) : 0;
}

static int posix_rename(struct disk *disk, const char *from, const char *to)
{
    int folder = posix_of(disk)->folder;
    return renameat(folder, from, folder, to) != 0 ? error_of(errno) : 0;
}

static int posix_remove(struct disk *disk, const char *name)
{
    return unlinkat(posix_of(disk)->folder, name, 0) != 0 ? error_of(errno) : 0;
}

static int posix_sync_names(struct disk *disk)
{
    return fsync(posix_of(disk)->folder) != 0 ? error_of(errno) : 0;
}

static int compare_names(const struct dirent **a, const struct dirent **b)
{
    return strcmp((*a)->d_name, (*b)->d_name);
}

static int posix_list(struct disk *disk,
                      void (*each)(void *context, const char *name, uint64_t size), void *context)
{
    int folder = posix_of(disk)->folder;
    struct dirent **entries;
    int n = scandirat(folder, ".", &entries, NULL, compare_names);
    if (n < 0) {
        return error_of(errno);
    }
    int error = 0;
    for (int i = 0; i < n; i++) {
        struct stat st;
        if (error == 0 && fstatat(folder, entries[i]->d_name, &st, AT_SYMLINK_NOFOLLOW) == 0) {
            if (S_ISREG(st.st_mode)) {
                each(context, entries[i]->d_name, (uint64_t)st.st_size);
            }
        } else if (error == 0 && errno != ENOENT) { /* removed meanwhile: skip it */
            error = error_of(errno);
        }
        free(entries[i]);
    }
    free(entries);
    return error;
}

static const struct disk_ops posix_ops = {
    .open = posix_open,
    .close = posix_close,
    .read = posix_read,
    .write = posix_write,
    .sync = posix_sync,
    .truncate = posix_truncate,
    .rename = posix_rename,
    .remove = posix_remove,
    .sync_names = posix_sync_names,
    .list = posix_list,
};

int disk_posix_open(const char *folder, struct disk_posix *ret)
{
    int fd = open(folder, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    if (fd < 0) {
        return error_of(errno);
    }
    ret->disk.ops = &posix_ops;
    ret->folder = fd;
    atomic_init(&ret->plain_sync, false);
    return 0;
}

void disk_posix_close(struct disk_posix *posix)
{
    (void)close(posix->folder);
}

/* Makes the names in the folder that holds `path` durable. */
static int sync_parent(const char *path)
{
    char *parent = strdup(path);
    if (parent == NULL) {
        return ERR_NOMEM;
    }
    size_t end = strlen(parent);
    while (end > 1 && parent[end - 1] == '/') {
        end--;
    }
    while (end > 0 && parent[end - 1] != '/') {
        end--;
    }
    parent[end] = '\0';
    int fd = open(end == 0 ? "." : parent, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    free(parent);
    if (fd < 0) {
        return error_of(errno);
    }
    int error = fsync(fd) != 0 ? error_of(errno) : 0;
    (void)close(fd);
    return error;
}

int folder_make(const char *folder)
{
    if (mkdir(folder, 0700) == 0) {
        return sync_parent(folder);
    }
    int error = errno;
    struct stat st;
    if (error == EEXIST && stat(folder, &st) == 0 && S_ISDIR(st.st_mode)) {
        return 0;
    }
    return error_of(error);
}

int folder_lock(const char *folder, int *ret_fd)
{
    /* Locks the folder itself: a lock file could be removed while it is held. */
    int fd = open(folder, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    if (fd < 0) {
        return error_of(errno);
    }
    if (flock(fd, LOCK_EX | LOCK_NB) != 0) {
        int error = errno == EWOULDBLOCK ? ERR_BUSY : error_of(errno);
        (void)close(fd);
        return error;
    }
    *ret_fd = fd;
    return 0;
}
