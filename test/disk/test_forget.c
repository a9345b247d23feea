/*
 * The program on which the disk that forgets is tested: `test_forget FOLDER SCENARIO` does one
 * small story with files in FOLDER and then dies by SIGKILL, as a crash would have it. What must be
 * left is said where the story is called from, test/integration/test_disk.py.
 *
 * Exit code 2: no such scenario; 3: a call failed that must not. Files named d* are durable when a
 * story begins to be interesting: made, synced, and their names synced.
 */
#define _GNU_SOURCE
#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/uio.h>
#include <unistd.h>

enum { THREADS = 4, RECORD = 64 };

#define MUST(call)                                                                                 \
    do {                                                                                           \
        if ((call) < 0) {                                                                          \
            (void)fprintf(stderr, "%s:%d: %s: %s\n", __FILE__, __LINE__, #call, strerror(errno));  \
            exit(3);                                                                               \
        }                                                                                          \
    } while (0)

static int opened(const char *name, int flags)
{
    int fd;
    if ((flags & O_CREAT) != 0) {
        MUST(fd = open(name, flags, 0640));
    } else {
        MUST(fd = open(name, flags)); /* __open_2 where the compiler cannot see the flags */
    }
    return fd;
}

static void put(int fd, const char *text)
{
    if (write(fd, text, strlen(text)) != (ssize_t)strlen(text)) {
        exit(3);
    }
}

static void put_at(int fd, const char *text, off_t offset)
{
    if (pwrite(fd, text, strlen(text), offset) != (ssize_t)strlen(text)) {
        exit(3);
    }
}

static void sync_names(const char *folder)
{
    int fd = opened(folder, O_RDONLY | O_DIRECTORY);
    MUST(fsync(fd));
    MUST(close(fd));
}

static int durable(const char *name, const char *text)
{
    int fd = opened(name, O_RDWR | O_CREAT);
    put(fd, text);
    MUST(fsync(fd));
    sync_names(".");
    return fd;
}

static void file_synced(void)
{
    int fd = opened("a", O_WRONLY | O_CREAT);
    put(fd, "kept");
    MUST(fdatasync(fd));
    sync_names(".");
    put(fd, " and lost");
}

static void file_never_synced(void)
{
    put(opened("a", O_WRONLY | O_CREAT), "lost");
    sync_names(".");
}

static void name_not_synced(void)
{
    int fd = opened("a", O_WRONLY | O_CREAT);
    put(fd, "kept, but nobody finds it");
    MUST(fsync(fd));
}

static void overwritten(void)
{
    put_at(durable("d", "abcdef"), "XY", 2);
}

static void rename_not_synced(void)
{
    (void)durable("d", "old");
    int fd = opened("new", O_WRONLY | O_CREAT);
    put(fd, "new");
    MUST(fsync(fd));
    MUST(rename("new", "d"));
}

static void rename_synced(void)
{
    rename_not_synced();
    sync_names(".");
}

static void remove_not_synced(void)
{
    (void)durable("d", "old");
    MUST(unlink("d"));
}

static void remove_synced(void)
{
    remove_not_synced();
    sync_names(".");
}

/* The inode of a removed file is soon used again; what the old one held must not change. */
static void inode_used_again(void)
{
    MUST(close(durable("d", "old")));
    struct stat before, after;
    MUST(stat("d", &before));
    MUST(unlink("d"));
    for (int i = 0; i < 100; i++) {
        char name[16];
        (void)snprintf(name, sizeof(name), "n%d", i);
        int fd = opened(name, O_WRONLY | O_CREAT);
        put(fd, "another file");
        MUST(fsync(fd));
        MUST(fstat(fd, &after));
        MUST(close(fd));
        if (after.st_ino == before.st_ino) {
            return;
        }
    }
}

static void dsync_open(void)
{
    (void)durable("d", "abcdef");
    int fd = opened("d", O_WRONLY | O_DSYNC);
    put_at(fd, "XY", 2);
    put_at(fd, "Z", 8);
}

static void sync_open_append(void)
{
    (void)durable("d", "abc");
    put(opened("d", O_WRONLY | O_SYNC | O_APPEND), "def");
}

/* A synced write covers its own range and nothing else. */
static void synced_write(int flag)
{
    int fd = durable("d", "abcdef");
    put_at(fd, "1", 0);
    struct iovec vector = {.iov_base = (char[]){"XY"}, .iov_len = 2};
    MUST(pwritev2(fd, &vector, 1, 2, flag));
}

static void rwf_dsync(void)
{
    synced_write(RWF_DSYNC);
}

static void rwf_sync(void)
{
    synced_write(RWF_SYNC);
}

static void rwf_none(void)
{
    synced_write(0);
}

static void range_is_no_sync(void)
{
    int fd = durable("d", "abcdef");
    put_at(fd, "XY", 2);
    MUST(sync_file_range(fd, 0, 0,
                         SYNC_FILE_RANGE_WAIT_BEFORE | SYNC_FILE_RANGE_WRITE |
                             SYNC_FILE_RANGE_WAIT_AFTER));
}

static void truncate_not_synced(void)
{
    MUST(ftruncate(durable("d", "abcdef"), 2));
}

static void truncate_synced(void)
{
    int fd = durable("d", "abcdef");
    MUST(ftruncate(fd, 2));
    MUST(ftruncate(fd, 4));
    MUST(fsync(fd));
}

static void open_truncates(void)
{
    (void)durable("d", "abcdef");
    int fd = opened("d", O_WRONLY | O_TRUNC);
    put_at(fd, "x", 1);
    MUST(fsync(fd));
}

static void allocate_not_synced(void)
{
    if (posix_fallocate(durable("d", "abc"), 0, 4096) != 0) {
        exit(3);
    }
}

static void allocate_synced(void)
{
    int fd = durable("d", "abc");
    MUST(fallocate(fd, 0, 0, 4096));
    MUST(fsync(fd));
}

static void through_dup(void)
{
    int fd = durable("d", "abc");
    int other;
    MUST(other = dup(fd));
    put(other, "def");
    MUST(close(other));
    MUST(other = fcntl(fd, F_DUPFD_CLOEXEC, 100));
    put(other, "ghi");
    MUST(fsync(fd));
}

static void through_another_descriptor(void)
{
    int fd = durable("d", "abc");
    put(fd, "def");
    MUST(close(fd));
    fd = opened("d", O_RDONLY);
    MUST(fsync(fd));
}

static void stdio(void)
{
    FILE *out = fopen("a", "w");
    if (out == NULL || fputs("kept", out) < 0 || fflush(out) != 0) {
        exit(3);
    }
    MUST(fsync(fileno(out)));
    if (fputs(" and lost", out) < 0 || fclose(out) != 0) {
        exit(3);
    }
    sync_names(".");
}

static void folder_not_synced(void)
{
    MUST(mkdir("sub", 0700));
    int fd = opened("sub/a", O_WRONLY | O_CREAT);
    put(fd, "kept");
    MUST(fsync(fd));
    sync_names("sub");
}

static void folder_synced(void)
{
    folder_not_synced();
    sync_names(".");
}

static void sync_all(void)
{
    folder_not_synced();
    put(opened("a", O_WRONLY | O_CREAT), "kept too");
    sync();
}

static void linked(void)
{
    int fd = durable("d", "abc");
    MUST(link("d", "e"));
    MUST(unlink("d"));
    sync_names(".");
    put(fd, "def");
    MUST(fsync(fd));
}

static void sync_by_another_run(void)
{
    int fd = opened("a", O_RDWR);
    MUST(fsync(fd));
}

static void nothing(void)
{
}

/*
 * Four threads append records to one file and sync it after each, and say in the file `told`,
 * outside the disk's reach, how many of theirs are durable. The caller kills us in the middle.
 */
static _Atomic int threads_fd;
static _Atomic unsigned *told;

static void *append_for_ever(void *argument)
{
    unsigned thread = *(unsigned *)argument;
    for (unsigned n = 0;; n++) {
        char record[RECORD];
        memset(record, 'a' + (int)thread, sizeof(record));
        off_t at = ((off_t)n * THREADS + thread) * RECORD;
        if (pwrite(threads_fd, record, sizeof(record), at) != RECORD) {
            exit(3);
        }
        int other = dup(threads_fd);
        if (other < 0 || fdatasync(other) != 0 || close(other) != 0) {
            exit(3);
        }
        atomic_store(&told[thread], n + 1);
    }
    return NULL;
}

static void threads(void)
{
    threads_fd = durable("d", "");
    int fd = opened("../told", O_RDWR | O_CREAT | O_TRUNC);
    MUST(ftruncate(fd, THREADS * sizeof(*told)));
    told = mmap(NULL, THREADS * sizeof(*told), PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
    if (told == MAP_FAILED) {
        exit(3);
    }
    unsigned numbers[THREADS];
    for (unsigned i = 0; i < THREADS; i++) {
        pthread_t thread;
        numbers[i] = i;
        if (pthread_create(&thread, NULL, append_for_ever, &numbers[i]) != 0) {
            exit(3);
        }
    }
    for (;;) {
        (void)pause();
    }
}

#define SCENARIOS(X)                                                                               \
    X(file_synced)                                                                                 \
    X(file_never_synced)                                                                           \
    X(name_not_synced)                                                                             \
    X(overwritten)                                                                                 \
    X(rename_not_synced)                                                                           \
    X(rename_synced)                                                                               \
    X(remove_not_synced)                                                                           \
    X(remove_synced)                                                                               \
    X(inode_used_again)                                                                            \
    X(dsync_open)                                                                                  \
    X(sync_open_append)                                                                            \
    X(rwf_dsync)                                                                                   \
    X(rwf_sync)                                                                                    \
    X(rwf_none)                                                                                    \
    X(range_is_no_sync)                                                                            \
    X(truncate_not_synced)                                                                         \
    X(truncate_synced)                                                                             \
    X(open_truncates)                                                                              \
    X(allocate_not_synced)                                                                         \
    X(allocate_synced)                                                                             \
    X(through_dup)                                                                                 \
    X(through_another_descriptor)                                                                  \
    X(stdio)                                                                                       \
    X(folder_not_synced)                                                                           \
    X(folder_synced)                                                                               \
    X(sync_all)                                                                                    \
    X(linked)                                                                                      \
    X(sync_by_another_run)                                                                         \
    X(nothing)                                                                                     \
    X(threads)

int main(int argc, char **argv)
{
    static const struct {
        const char *name;
        void (*run)(void);
    } scenarios[] = {
#define X(name) {#name, name},
        SCENARIOS(X)
#undef X
    };

    if (argc != 3 || chdir(argv[1]) != 0) {
        return 2;
    }
    for (size_t i = 0; i < sizeof(scenarios) / sizeof(*scenarios); i++) {
        if (strcmp(argv[2], scenarios[i].name) == 0) {
            scenarios[i].run();
            (void)kill(getpid(), SIGKILL);
        }
    }
    return 2;
}
