/*
 * A disk that forgets: a library for LD_PRELOAD that shows what a power cut would leave.
 *
 * The program works normally in its data folder. Beside it this library keeps an image of what is
 * durable by the letter of POSIX, and nothing more:
 *
 *   - bytes and size of a file reach the image when the file is synced (fsync, fdatasync, syncfs,
 *     sync), or written through O_SYNC / O_DSYNC / RWF_SYNC / RWF_DSYNC (then that range only);
 *   - names reach the image when their directory is synced: a file created, renamed or removed
 *     without it is back to what it was;
 *   - sync_file_range() promises nothing and is not a sync here.
 *
 * The crash itself is kill -9, after which the harness replaces the data folder by the image.
 *
 * Happy path: a hooked write runs the real one first and notes what became dirty before it returns;
 * a hooked sync copies what is dirty as it begins, then runs the real one. So a sync covers every
 * write that returned before it began, and no other. One mutex guards it all.
 *
 * image.c keeps the image and says how it is laid out. This file holds the hooks, and knows what
 * each descriptor is.
 *
 * What can go wrong: a store through a shared mapping, io_uring, copy_file_range and sendfile are
 * not seen; what they wrote becomes durable at the next fsync of a descriptor that was not opened
 * through a hook, or never. That errs towards forgetting, so it shows as a failure, not as a pass.
 *
 * Environment: SLUICE_FORGET_DATA, SLUICE_FORGET_IMAGE (without both the library does nothing),
 * SLUICE_FORGET_STATS (a file of counters), SLUICE_FORGET_SKIP_SYNC (syncs of matching files are
 * pretended; patterns are separated by colons: a glob on the file's name where it has *, ? or [,
 * else a part of its path).
 */
#define _GNU_SOURCE
#undef _FORTIFY_SOURCE
#include "image.h"

#include <errno.h>
#include <fcntl.h>
#include <stdarg.h>
#include <stdatomic.h>
#include <sys/stat.h>
#include <unistd.h>

#define EXPORT __attribute__((visibility("default")))
#define ALIAS(name) __attribute__((visibility("default"), alias(#name)))

enum { FD_MAX = 1 << 20 };

/* What a descriptor is. UNKNOWN is looked up at its first use; OTHER is none of our business. */
enum { FD_UNKNOWN, FD_OTHER, FD_OURS };

struct slot {
    _Atomic unsigned char state;
    bool sync_writes; /* O_SYNC or O_DSYNC */
    bool append;
    struct file *file;
};

static struct slot slots[FD_MAX];
static pthread_once_t once = PTHREAD_ONCE_INIT;

/* Other libraries' constructors may call a hook before ours has run. */
static void ready(void)
{
    (void)pthread_once(&once, image_start);
}

__attribute__((constructor)) static void constructor(void)
{
    ready();
}

/* ---- descriptors ---- */

static void slot_clear(int fd)
{
    if (fd < 0 || fd >= FD_MAX || atomic_load(&slots[fd].state) == FD_UNKNOWN) {
        return;
    }
    (void)pthread_mutex_lock(&image_lock);
    if (slots[fd].file != NULL) {
        file_release(slots[fd].file);
    }
    slots[fd].file = NULL;
    atomic_store(&slots[fd].state, FD_UNKNOWN);
    (void)pthread_mutex_unlock(&image_lock);
}

/*
 * What this descriptor is, or NULL when it is none of ours. Called with the lock free and returns
 * with it held when the result is not NULL. A descriptor that no hook saw being opened (stdio,
 * mkstemp) may have been written behind our back: all of it is dirty.
 */
static struct slot *slot_lock(int fd)
{
    if (!image_active || fd < 0 || fd >= FD_MAX) {
        return NULL;
    }
    struct slot *slot = &slots[fd];
    if (atomic_load(&slot->state) == FD_OTHER) {
        return NULL;
    }
    struct stat status;
    if (fstat(fd, &status) != 0) {
        return NULL;
    }
    if (!S_ISREG(status.st_mode) && !S_ISDIR(status.st_mode)) {
        atomic_store(&slot->state, FD_OTHER);
        return NULL;
    }
    (void)pthread_mutex_lock(&image_lock);
    if (atomic_load(&slot->state) == FD_OURS && slot->file->inode == status.st_ino) {
        return slot;
    }
    char path[PATH_MAX];
    if (image_path_below(fd, path) == NULL) {
        atomic_store(&slot->state, FD_OTHER);
        (void)pthread_mutex_unlock(&image_lock);
        return NULL;
    }
    if (slot->file != NULL) {
        file_release(slot->file);
    }
    slot->file = file_get(status.st_ino, birth_of(fd, "", AT_EMPTY_PATH));
    slot->file->references++;
    int flags = real.fcntl64(fd, F_GETFL);
    slot->sync_writes = (flags & O_DSYNC) != 0; /* O_SYNC includes this bit */
    slot->append = (flags & O_APPEND) != 0;
    if (S_ISREG(status.st_mode)) {
        dirty_add(slot->file, 0, END_OF_FILE);
    }
    atomic_store(&slot->state, FD_OURS);
    return slot;
}

static void slot_unlock(void)
{
    (void)pthread_mutex_unlock(&image_lock);
}

/* A descriptor that a hook saw being opened: only what is written through hooks is dirty. */
static int slot_opened(int fd, int flags)
{
    if (fd < 0 || !image_active) {
        return fd;
    }
    slot_clear(fd);
    int saved = errno;
    struct stat status;
    char path[PATH_MAX];
    if (fd < FD_MAX && fstat(fd, &status) == 0) {
        (void)pthread_mutex_lock(&image_lock);
        struct slot *slot = &slots[fd];
        if ((S_ISREG(status.st_mode) || S_ISDIR(status.st_mode)) &&
            image_path_below(fd, path) != NULL) {
            slot->file = file_get(status.st_ino, birth_of(fd, "", AT_EMPTY_PATH));
            slot->file->references++;
            slot->sync_writes = (flags & O_DSYNC) != 0;
            slot->append = (flags & O_APPEND) != 0;
            if ((flags & O_TRUNC) != 0) {
                dirty_add(slot->file, 0, END_OF_FILE);
            }
            atomic_store(&slot->state, FD_OURS);
        } else {
            atomic_store(&slot->state, FD_OTHER);
        }
        (void)pthread_mutex_unlock(&image_lock);
    }
    errno = saved;
    return fd;
}

static int slot_copied(int from, int to)
{
    if (to < 0 || to >= FD_MAX || from == to || !image_active) {
        return to;
    }
    slot_clear(to);
    (void)pthread_mutex_lock(&image_lock);
    if (from < FD_MAX && atomic_load(&slots[from].state) == FD_OURS) {
        slots[to].file = slots[from].file;
        slots[to].file->references++;
        slots[to].sync_writes = slots[from].sync_writes;
        slots[to].append = slots[from].append;
        atomic_store(&slots[to].state, FD_OURS);
    }
    (void)pthread_mutex_unlock(&image_lock);
    return to;
}

/* ---- hooks: descriptors come and go ---- */

static int open_any(int dir_fd, const char *path, int flags, mode_t mode)
{
    ready();
    return slot_opened(real.openat(dir_fd, path, flags, mode), flags);
}

/* The mode is there only when a file may be made. */
#define OPEN_MODE(flags, last)                                                                     \
    mode_t mode = 0;                                                                               \
    if (((flags)&O_CREAT) != 0 || ((flags)&O_TMPFILE) == O_TMPFILE) {                              \
        va_list list;                                                                              \
        va_start(list, last);                                                                      \
        mode = va_arg(list, mode_t);                                                               \
        va_end(list);                                                                              \
    }

EXPORT int open(const char *path, int flags, ...)
{
    OPEN_MODE(flags, flags)
    return open_any(AT_FDCWD, path, flags, mode);
}
ALIAS(open) int open64(const char *path, int flags, ...);

EXPORT int openat(int dir_fd, const char *path, int flags, ...)
{
    OPEN_MODE(flags, flags)
    return open_any(dir_fd, path, flags, mode);
}
ALIAS(openat) int openat64(int dir_fd, const char *path, int flags, ...);

EXPORT int creat(const char *path, mode_t mode)
{
    return open_any(AT_FDCWD, path, O_WRONLY | O_CREAT | O_TRUNC, mode);
}
ALIAS(creat) int creat64(const char *path, mode_t mode);

/* What fortified programs call when there is no mode. */
EXPORT int __open_2(const char *path, int flags);
EXPORT int __open_2(const char *path, int flags)
{
    return open_any(AT_FDCWD, path, flags, 0);
}
ALIAS(__open_2) int __open64_2(const char *path, int flags);

EXPORT int __openat_2(int dir_fd, const char *path, int flags);
EXPORT int __openat_2(int dir_fd, const char *path, int flags)
{
    return open_any(dir_fd, path, flags, 0);
}
ALIAS(__openat_2) int __openat64_2(int dir_fd, const char *path, int flags);

/* A slot is cleared before its number can be given to another thread. */
EXPORT int close(int fd)
{
    ready();
    slot_clear(fd);
    return real.close(fd);
}

EXPORT int close_range(unsigned first, unsigned last, int flags)
{
    ready();
    for (unsigned fd = first; fd <= last && fd < FD_MAX; fd++) {
        slot_clear((int)fd);
    }
    return real.close_range(first, last, flags);
}

EXPORT int fclose(FILE *stream)
{
    ready();
    slot_clear(fileno(stream));
    return real.fclose(stream);
}

EXPORT int closedir(DIR *dir)
{
    ready();
    slot_clear(dirfd(dir));
    return real.closedir(dir);
}

EXPORT int dup(int fd)
{
    ready();
    return slot_copied(fd, real.dup(fd));
}

EXPORT int dup2(int fd, int to)
{
    ready();
    return slot_copied(fd, real.dup2(fd, to));
}

EXPORT int dup3(int fd, int to, int flags)
{
    ready();
    return slot_copied(fd, real.dup3(fd, to, flags));
}

EXPORT int fcntl(int fd, int command, ...)
{
    va_list list;
    va_start(list, command);
    void *argument = va_arg(list, void *); /* a number or a pointer: the same register */
    va_end(list);
    ready();
    int result = real.fcntl64(fd, command, argument);
    if (command == F_DUPFD || command == F_DUPFD_CLOEXEC) {
        return slot_copied(fd, result);
    }
    return result;
}
ALIAS(fcntl) int fcntl64(int fd, int command, ...);

/* ---- hooks: bytes ---- */

/* After a write of `length` bytes that began at `offset`; with the lock held. */
static void wrote(struct slot *slot, int fd, int64_t offset, ssize_t length, bool sync_write)
{
    if (length <= 0) {
        return;
    }
    struct stat status;
    if (slot->append && fstat(fd, &status) == 0) {
        offset = status.st_size - length; /* appends ignore the offset asked for */
    }
    stat_add(STAT_writes, 1);
    stat_add(STAT_written_bytes, (uint64_t)length);
    dirty_add(slot->file, offset, offset + length);
    if (sync_write && !sync_is_skipped(fd)) {
        persist_range(slot->file, fd, offset, offset + length);
        stat_add(STAT_sync_writes, 1);
    }
}

EXPORT ssize_t write(int fd, const void *bytes, size_t length)
{
    ready();
    struct slot *slot = slot_lock(fd);
    if (slot == NULL) {
        return real.write(fd, bytes, length);
    }
    ssize_t done = real.write(fd, bytes, length); /* under the lock: the position is shared */
    int saved = errno;
    wrote(slot, fd, lseek(fd, 0, SEEK_CUR) - done, done, slot->sync_writes);
    slot_unlock();
    errno = saved;
    return done;
}

EXPORT ssize_t writev(int fd, const struct iovec *vector, int parts)
{
    ready();
    struct slot *slot = slot_lock(fd);
    if (slot == NULL) {
        return real.writev(fd, vector, parts);
    }
    ssize_t done = real.writev(fd, vector, parts);
    int saved = errno;
    wrote(slot, fd, lseek(fd, 0, SEEK_CUR) - done, done, slot->sync_writes);
    slot_unlock();
    errno = saved;
    return done;
}

static ssize_t wrote_at(int fd, int64_t offset, ssize_t done, int flags)
{
    int saved = errno;
    struct slot *slot = slot_lock(fd);
    if (slot != NULL) {
        wrote(slot, fd, offset, done, slot->sync_writes || (flags & (RWF_DSYNC | RWF_SYNC)) != 0);
        slot_unlock();
    }
    errno = saved;
    return done;
}

EXPORT ssize_t pwrite(int fd, const void *bytes, size_t length, off_t offset)
{
    ready();
    return wrote_at(fd, offset, real.pwrite(fd, bytes, length, offset), 0);
}
ALIAS(pwrite) ssize_t pwrite64(int fd, const void *bytes, size_t length, off64_t offset);

EXPORT ssize_t pwritev(int fd, const struct iovec *vector, int parts, off_t offset)
{
    ready();
    return wrote_at(fd, offset, real.pwritev(fd, vector, parts, offset), 0);
}
ALIAS(pwritev) ssize_t pwritev64(int fd, const struct iovec *vector, int parts, off64_t offset);

EXPORT ssize_t pwritev2(int fd, const struct iovec *vector, int parts, off_t offset, int flags)
{
    ready();
    ssize_t done = real.pwritev2(fd, vector, parts, offset, flags);
    if (offset == -1) { /* like writev */
        offset = lseek(fd, 0, SEEK_CUR) - (done > 0 ? done : 0);
    }
    return wrote_at(fd, offset, done, flags);
}
ALIAS(pwritev2)
ssize_t pwritev64v2(int fd, const struct iovec *vector, int parts, off64_t offset, int flags);

static void changed_from(int fd, int64_t start)
{
    int saved = errno;
    struct slot *slot = slot_lock(fd);
    if (slot != NULL) {
        dirty_add(slot->file, start, END_OF_FILE);
        slot_unlock();
    }
    errno = saved;
}

EXPORT int ftruncate(int fd, off_t size)
{
    ready();
    int result = real.ftruncate(fd, size);
    if (result == 0) {
        changed_from(fd, size);
    }
    return result;
}
ALIAS(ftruncate) int ftruncate64(int fd, off64_t size);

EXPORT int truncate(const char *path, off_t size)
{
    ready();
    int fd = open_any(AT_FDCWD, path, O_WRONLY | O_CLOEXEC, 0);
    if (fd < 0) {
        return -1;
    }
    int result = ftruncate(fd, size);
    int saved = errno;
    (void)close(fd);
    errno = saved;
    return result;
}
ALIAS(truncate) int truncate64(const char *path, off64_t size);

EXPORT int fallocate(int fd, int mode, off_t offset, off_t length)
{
    ready();
    int result = real.fallocate(fd, mode, offset, length);
    if (result == 0) {
        changed_from(fd, offset); /* some modes move all that follows */
    }
    return result;
}
ALIAS(fallocate) int fallocate64(int fd, int mode, off64_t offset, off64_t length);

EXPORT int posix_fallocate(int fd, off_t offset, off_t length)
{
    ready();
    int result = real.posix_fallocate(fd, offset, length);
    if (result == 0) {
        changed_from(fd, offset);
    }
    return result;
}
ALIAS(posix_fallocate) int posix_fallocate64(int fd, off64_t offset, off64_t length);

/* ---- hooks: syncs ---- */

/* A file or the names of a directory, as they are when the sync begins: what is written while it
 * runs is not covered by it. */
static void persist(struct slot *slot, int fd)
{
    struct stat status;
    if (fstat(fd, &status) == 0 && S_ISDIR(status.st_mode)) {
        persist_names(slot->file, fd);
    } else {
        persist_file(slot->file, fd);
        stat_add(STAT_syncs, 1);
    }
}

static int sync_with(int (*real_sync)(int), int fd)
{
    ready();
    struct slot *slot = slot_lock(fd);
    if (slot == NULL) {
        return real_sync(fd);
    }
    bool skip = sync_is_skipped(fd);
    if (!skip) {
        persist(slot, fd);
    }
    slot_unlock();
    if (skip) {
        return 0;
    }
    return real_sync(fd); /* without the lock: a sync is long, and writers go on */
}

EXPORT int fsync(int fd)
{
    ready();
    return sync_with(real.fsync, fd);
}

EXPORT int fdatasync(int fd)
{
    ready();
    return sync_with(real.fdatasync, fd);
}

EXPORT void sync(void)
{
    ready();
    real.sync();
    persist_everything();
}

EXPORT int syncfs(int fd)
{
    ready();
    int result = real.syncfs(fd);
    if (result == 0) {
        persist_everything();
    }
    return result;
}

/* ---- hooks: names ---- */

/*
 * Nothing of a name is durable before its directory is synced, so only one thing matters here: an
 * inode that loses its last name may return under the same number as another file.
 */
static uint64_t last_name_of(int dir_fd, const char *path)
{
    struct stat status;
    if (!image_active || fstatat(dir_fd, path, &status, AT_SYMLINK_NOFOLLOW) != 0) {
        return 0;
    }
    return S_ISDIR(status.st_mode) || status.st_nlink == 1 ? status.st_ino : 0;
}

static void name_gone(uint64_t inode)
{
    if (inode == 0) {
        return;
    }
    (void)pthread_mutex_lock(&image_lock);
    file_forget(inode);
    (void)pthread_mutex_unlock(&image_lock);
}

EXPORT int unlinkat(int dir_fd, const char *path, int flags)
{
    ready();
    int saved = errno;
    uint64_t inode = last_name_of(dir_fd, path);
    errno = saved;
    int result = real.unlinkat(dir_fd, path, flags);
    if (result == 0) {
        name_gone(inode);
    }
    return result;
}

EXPORT int unlink(const char *path)
{
    return unlinkat(AT_FDCWD, path, 0);
}

EXPORT int rmdir(const char *path)
{
    return unlinkat(AT_FDCWD, path, AT_REMOVEDIR);
}

EXPORT int remove(const char *path)
{
    int result = unlinkat(AT_FDCWD, path, 0);
    return result != 0 && errno == EISDIR ? unlinkat(AT_FDCWD, path, AT_REMOVEDIR) : result;
}

EXPORT int renameat2(int from_fd, const char *from, int to_fd, const char *to, unsigned flags)
{
    ready();
    int saved = errno;
    uint64_t over = (flags & RENAME_EXCHANGE) != 0 ? 0 : last_name_of(to_fd, to);
    if (over != 0 && over == last_name_of(from_fd, from)) {
        over = 0; /* onto itself: nothing happens */
    }
    errno = saved;
    int result = real.renameat2(from_fd, from, to_fd, to, flags);
    if (result == 0) {
        name_gone(over);
    }
    return result;
}

EXPORT int renameat(int from_fd, const char *from, int to_fd, const char *to)
{
    return renameat2(from_fd, from, to_fd, to, 0);
}

EXPORT int rename(const char *from, const char *to)
{
    return renameat2(AT_FDCWD, from, AT_FDCWD, to, 0);
}
