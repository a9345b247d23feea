/*
 * The image of what is durable: the inodes below the data folder, what of them is dirty, and the
 * copying of what a sync made durable. forget.c holds the hooks and says when.
 *
 * Whatever touches a struct file or the image is called with image_lock held, except
 * persist_everything(), which takes it.
 */
#pragma once

#include <dirent.h>
#include <limits.h>
#include <pthread.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <sys/types.h>
#include <sys/uio.h>

#define END_OF_FILE INT64_MAX

/* The real functions that the hooks stand in front of: name, result, arguments. */
#define REAL(X)                                                                                    \
    X(openat, int, (int, const char *, int, ...))                                                  \
    X(close, int, (int))                                                                           \
    X(close_range, int, (unsigned, unsigned, int))                                                 \
    X(fclose, int, (FILE *))                                                                       \
    X(closedir, int, (DIR *))                                                                      \
    X(dup, int, (int))                                                                             \
    X(dup2, int, (int, int))                                                                       \
    X(dup3, int, (int, int, int))                                                                  \
    X(fcntl64, int, (int, int, ...))                                                               \
    X(write, ssize_t, (int, const void *, size_t))                                                 \
    X(writev, ssize_t, (int, const struct iovec *, int))                                           \
    X(pread, ssize_t, (int, void *, size_t, off_t))                                                \
    X(pwrite, ssize_t, (int, const void *, size_t, off_t))                                         \
    X(pwritev, ssize_t, (int, const struct iovec *, int, off_t))                                   \
    X(pwritev2, ssize_t, (int, const struct iovec *, int, off_t, int))                             \
    X(ftruncate, int, (int, off_t))                                                                \
    X(truncate, int, (const char *, off_t))                                                        \
    X(fallocate, int, (int, int, off_t, off_t))                                                    \
    X(posix_fallocate, int, (int, off_t, off_t))                                                   \
    X(fsync, int, (int))                                                                           \
    X(fdatasync, int, (int))                                                                       \
    X(sync, void, (void))                                                                          \
    X(syncfs, int, (int))                                                                          \
    X(unlinkat, int, (int, const char *, int))                                                     \
    X(renameat2, int, (int, const char *, int, const char *, unsigned))

struct real {
#define X(name, result, arguments) result(*name) arguments;
    REAL(X)
#undef X
};

extern struct real real;

/* What the harness may read while the program runs and after it was killed. */
#define STATS(X)                                                                                   \
    X(writes)                                                                                      \
    X(written_bytes)                                                                               \
    X(syncs)                                                                                       \
    X(sync_writes)                                                                                 \
    X(synced_bytes)                                                                                \
    X(dir_syncs)                                                                                   \
    X(skipped_syncs)                                                                               \
    X(objects)

enum stat_id {
#define X(name) STAT_##name,
    STATS(X)
#undef X
        STAT_COUNT,
};

struct range {
    int64_t start, end;
};

/* An inode below the data folder. Dirty ranges are sorted and do not touch each other. */
struct file {
    struct file *next; /* in its bucket */
    uint64_t inode;
    int64_t birth_ns;
    uint64_t object;
    struct range *dirty;
    size_t dirty_count, dirty_room;
    unsigned references; /* slots, and the table while the inode has a name */
};

extern pthread_mutex_t image_lock;
extern bool image_active; /* set once, by image_start() */

/* Finds the real functions, and opens or fills the image that the environment names. Once. */
void image_start(void);

void stat_add(enum stat_id id, uint64_t add);

/* The path of a descriptor below the data folder, or NULL when it is elsewhere. "" is the folder.
 */
const char *image_path_below(int fd, char path[static PATH_MAX]);

/* Makes [start, end) dirty. */
void dirty_add(struct file *file, int64_t start, int64_t end);

/* When an inode was made: with its number that tells two lives of one number apart. */
int64_t birth_of(int dir_fd, const char *path, int flags);

/* The object of an inode; a new one for an inode not met before, or met in an earlier life. A
 * caller that keeps the pointer raises `references`, and gives it back by file_release(). */
struct file *file_get(uint64_t inode, int64_t birth_ns);
void file_release(struct file *file);

/* The inode's last name is gone: its number may come back as another file. */
void file_forget(uint64_t inode);

/* Is the sync of this descriptor's file to be pretended only? */
bool sync_is_skipped(int fd);

/* A synced file (its dirty bytes and its size), one synced write, the names of a synced directory,
 * and everything there is. */
void persist_file(struct file *file, int fd);
void persist_range(struct file *file, int fd, int64_t start, int64_t end);
void persist_names(const struct file *dir, int fd);
void persist_everything(void);
