/*
 * See fault_sqlite.h. A VFS over SQLite's own, memory methods over its own, and the calls that the
 * ledger makes itself (open, fsync), by the linker's --wrap.
 */
#include "fault_sqlite.h"

#include <errno.h>
#include <fcntl.h>
#include <sqlite3.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/types.h>
#include <unistd.h>

#include "base/check.h"
#include "fault.h"

static const char *const suffixes[] = {"", "-wal", "-shm", "-journal"};
#define SUFFIXES (sizeof(suffixes) / sizeof(suffixes[0]))

static char ledger_path[256];
static struct fault_files durable;
static sqlite3_vfs *real;
static sqlite3_mem_methods real_memory;

/* ---- files ---- */

static void path_of(size_t which, char *ret_path, size_t size)
{
    (void)snprintf(ret_path, size, "%s%s", ledger_path, suffixes[which]);
}

static void file_take(size_t which, struct fault_files *files)
{
    char path[300];
    struct stat about;
    path_of(which, path, sizeof(path));
    free(files->file[which].bytes);
    files->file[which].bytes = NULL;
    files->file[which].size = 0;
    FILE *file = fopen(path, "rb");
    if (file == NULL) {
        return;
    }
    CHECK(fstat(fileno(file), &about) == 0);
    files->file[which].bytes = malloc((size_t)about.st_size + 1);
    CHECK(files->file[which].bytes != NULL);
    files->file[which].size = fread(files->file[which].bytes, 1, (size_t)about.st_size, file);
    (void)fclose(file);
}

void fault_sqlite_files(struct fault_files *ret_files)
{
    memset(ret_files, 0, sizeof(*ret_files));
    for (size_t i = 0; i < FAULT_FILES; i++) {
        file_take(i, ret_files);
    }
}

static void files_copy(struct fault_files *to, const struct fault_files *from)
{
    for (size_t i = 0; i < FAULT_FILES; i++) {
        to->file[i].size = from->file[i].size;
        to->file[i].bytes = NULL;
        if (from->file[i].bytes != NULL) {
            to->file[i].bytes = malloc(from->file[i].size + 1);
            CHECK(to->file[i].bytes != NULL);
            memcpy(to->file[i].bytes, from->file[i].bytes, from->file[i].size);
        }
    }
}

void fault_sqlite_durable(struct fault_files *ret_files)
{
    files_copy(ret_files, &durable);
}

void fault_files_free(struct fault_files *files)
{
    for (size_t i = 0; i < FAULT_FILES; i++) {
        free(files->file[i].bytes);
        files->file[i].bytes = NULL;
    }
}

uint64_t fault_files_hash(const struct fault_files *files)
{
    uint64_t hash = 1;
    for (size_t i = 0; i < FAULT_FILES; i++) {
        hash = (hash ^ (files->file[i].bytes == NULL ? UINT64_MAX : files->file[i].size)) *
               0x9e3779b97f4a7c15ULL;
        for (size_t k = 0; files->file[i].bytes != NULL && k < files->file[i].size; k += 8) {
            uint64_t word = 0;
            size_t left = files->file[i].size - k;
            memcpy(&word, files->file[i].bytes + k, left < 8 ? left : 8);
            hash = (hash ^ word) * 0x9e3779b97f4a7c15ULL;
            hash ^= hash >> 31;
        }
    }
    return hash;
}

void fault_sqlite_fresh(const struct fault_files *files)
{
    char path[300];
    for (size_t i = 0; i < SUFFIXES; i++) {
        path_of(i, path, sizeof(path));
        (void)unlink(path);
    }
    for (size_t i = 0; i < FAULT_FILES; i++) {
        if (files->file[i].bytes == NULL) {
            continue;
        }
        path_of(i, path, sizeof(path));
        FILE *file = fopen(path, "wb");
        CHECK(file != NULL);
        CHECK(fwrite(files->file[i].bytes, 1, files->file[i].size, file) == files->file[i].size);
        CHECK(fclose(file) == 0);
    }
    fault_files_free(&durable);
    files_copy(&durable, files);
    sqlite3_randomness(0, NULL);
}

/* ---- the VFS ---- */

struct fault_file {
    sqlite3_file base;
    size_t which; /* SUFFIXES: none of ours */
    sqlite3_file *real;
};

static sqlite3_file *real_of(sqlite3_file *file)
{
    return ((struct fault_file *)file)->real;
}

#define FORWARD(call)                                                                              \
    ({                                                                                             \
        bool inside_ = fault_leave();                                                              \
        int code_ = (call);                                                                        \
        fault_back(inside_);                                                                       \
        code_;                                                                                     \
    })

static int file_close(sqlite3_file *file)
{
    int code = FORWARD(real_of(file)->pMethods->xClose(real_of(file)));
    free(real_of(file));
    return code;
}

static int file_read(sqlite3_file *file, void *bytes, int n, sqlite3_int64 at)
{
    if (fault_strikes(FAULT_READ)) {
        return SQLITE_IOERR_READ;
    }
    return FORWARD(real_of(file)->pMethods->xRead(real_of(file), bytes, n, at));
}

static int file_write(sqlite3_file *file, const void *bytes, int n, sqlite3_int64 at)
{
    if (fault_strikes(FAULT_WRITE)) {
        int part = fault_done() == FAULT_ALL ? n : fault_done() == FAULT_HALF ? n / 2 : 0;
        if (part > 0) {
            (void)FORWARD(real_of(file)->pMethods->xWrite(real_of(file), bytes, part, at));
        }
        return fault_forever() ? SQLITE_FULL : SQLITE_IOERR_WRITE;
    }
    return FORWARD(real_of(file)->pMethods->xWrite(real_of(file), bytes, n, at));
}

static int file_truncate(sqlite3_file *file, sqlite3_int64 size)
{
    if (fault_strikes(FAULT_TRUNCATE)) {
        return SQLITE_IOERR_TRUNCATE;
    }
    return FORWARD(real_of(file)->pMethods->xTruncate(real_of(file), size));
}

/* No disk is asked to sync: what it would have is in `durable`. */
static int file_sync(sqlite3_file *file, int flags)
{
    (void)flags;
    bool strikes = fault_strikes(FAULT_SYNC);
    size_t which = ((struct fault_file *)file)->which;
    if (which < FAULT_FILES && (!strikes || fault_done() == FAULT_ALL)) {
        bool inside = fault_leave();
        file_take(which, &durable);
        fault_back(inside);
    }
    return strikes ? SQLITE_IOERR_FSYNC : SQLITE_OK;
}

static int file_size(sqlite3_file *file, sqlite3_int64 *ret_size)
{
    return FORWARD(real_of(file)->pMethods->xFileSize(real_of(file), ret_size));
}

static int file_lock(sqlite3_file *file, int lock)
{
    return FORWARD(real_of(file)->pMethods->xLock(real_of(file), lock));
}

static int file_unlock(sqlite3_file *file, int lock)
{
    return FORWARD(real_of(file)->pMethods->xUnlock(real_of(file), lock));
}

static int file_check_lock(sqlite3_file *file, int *ret_reserved)
{
    return FORWARD(real_of(file)->pMethods->xCheckReservedLock(real_of(file), ret_reserved));
}

static int file_control(sqlite3_file *file, int op, void *argument)
{
    return FORWARD(real_of(file)->pMethods->xFileControl(real_of(file), op, argument));
}

static int file_sector(sqlite3_file *file)
{
    return FORWARD(real_of(file)->pMethods->xSectorSize(real_of(file)));
}

static int file_characteristics(sqlite3_file *file)
{
    return FORWARD(real_of(file)->pMethods->xDeviceCharacteristics(real_of(file)));
}

static int file_shm_map(sqlite3_file *file, int page, int size, int extend, void volatile **ret)
{
    if (fault_strikes(FAULT_SHM)) {
        return SQLITE_IOERR_SHMMAP;
    }
    return FORWARD(real_of(file)->pMethods->xShmMap(real_of(file), page, size, extend, ret));
}

static int file_shm_lock(sqlite3_file *file, int offset, int n, int flags)
{
    /* Giving a lock back cannot fail in a way that anybody could answer to. */
    if ((flags & SQLITE_SHM_LOCK) != 0 && fault_strikes(FAULT_SHM)) {
        return SQLITE_IOERR_SHMLOCK;
    }
    return FORWARD(real_of(file)->pMethods->xShmLock(real_of(file), offset, n, flags));
}

static void file_shm_barrier(sqlite3_file *file)
{
    real_of(file)->pMethods->xShmBarrier(real_of(file));
}

static int file_shm_unmap(sqlite3_file *file, int drop)
{
    return FORWARD(real_of(file)->pMethods->xShmUnmap(real_of(file), drop));
}

static const sqlite3_io_methods file_methods = {
    .iVersion = 2, /* no memory mapping of the database */
    .xClose = file_close,
    .xRead = file_read,
    .xWrite = file_write,
    .xTruncate = file_truncate,
    .xSync = file_sync,
    .xFileSize = file_size,
    .xLock = file_lock,
    .xUnlock = file_unlock,
    .xCheckReservedLock = file_check_lock,
    .xFileControl = file_control,
    .xSectorSize = file_sector,
    .xDeviceCharacteristics = file_characteristics,
    .xShmMap = file_shm_map,
    .xShmLock = file_shm_lock,
    .xShmBarrier = file_shm_barrier,
    .xShmUnmap = file_shm_unmap,
};

static size_t which_is(const char *path)
{
    for (size_t i = 0; path != NULL && i < SUFFIXES; i++) {
        char ours[300];
        path_of(i, ours, sizeof(ours));
        if (strcmp(path, ours) == 0) {
            return i;
        }
    }
    return SUFFIXES;
}

static int vfs_open(sqlite3_vfs *vfs, const char *path, sqlite3_file *file, int flags,
                    int *ret_flags)
{
    (void)vfs;
    struct fault_file *ours = (struct fault_file *)file;
    ours->base.pMethods = NULL;
    if (fault_strikes(FAULT_OPEN)) {
        return SQLITE_CANTOPEN;
    }
    bool inside = fault_leave();
    ours->which = which_is(path);
    ours->real = calloc(1, (size_t)real->szOsFile);
    CHECK(ours->real != NULL);
    int code = real->xOpen(real, path, ours->real, flags, ret_flags);
    if (code == SQLITE_OK) {
        ours->base.pMethods = &file_methods;
    } else {
        free(ours->real);
    }
    fault_back(inside);
    return code;
}

static int vfs_delete(sqlite3_vfs *vfs, const char *path, int sync_folder)
{
    (void)vfs;
    (void)sync_folder;
    bool strikes = fault_strikes(FAULT_REMOVE);
    bool inside = fault_leave();
    int code = SQLITE_OK;
    if (!strikes || fault_done() == FAULT_ALL) {
        code = real->xDelete(real, path, 0);
        if (which_is(path) < FAULT_FILES) {
            free(durable.file[which_is(path)].bytes);
            durable.file[which_is(path)].bytes = NULL;
        }
    }
    fault_back(inside);
    return strikes ? SQLITE_IOERR_DELETE : code;
}

static int vfs_access(sqlite3_vfs *vfs, const char *path, int flags, int *ret_yes)
{
    (void)vfs;
    if (fault_strikes(FAULT_LIST)) {
        return SQLITE_IOERR_ACCESS;
    }
    return FORWARD(real->xAccess(real, path, flags, ret_yes));
}

static int vfs_full_path(sqlite3_vfs *vfs, const char *path, int size, char *ret_path)
{
    (void)vfs;
    return FORWARD(real->xFullPathname(real, path, size, ret_path));
}

static int vfs_randomness(sqlite3_vfs *vfs, int n, char *ret_bytes)
{
    (void)vfs;
    memset(ret_bytes, 7, (size_t)n);
    return n;
}

static int vfs_sleep(sqlite3_vfs *vfs, int us)
{
    (void)vfs;
    return us; /* nobody else will give a lock back */
}

static int vfs_time(sqlite3_vfs *vfs, double *ret_days)
{
    (void)vfs;
    *ret_days = 2460000.5;
    return SQLITE_OK;
}

static int vfs_time_ms(sqlite3_vfs *vfs, sqlite3_int64 *ret_ms)
{
    (void)vfs;
    *ret_ms = 212424336000000LL;
    return SQLITE_OK;
}

static int vfs_last_error(sqlite3_vfs *vfs, int size, char *ret_text)
{
    (void)vfs;
    return real->xGetLastError(real, size, ret_text);
}

/* ---- memory ---- */

static void *memory_malloc(int n)
{
    return fault_strikes(FAULT_SQLITE_MALLOC) ? NULL : real_memory.xMalloc(n);
}

static void *memory_realloc(void *old, int n)
{
    return fault_strikes(FAULT_SQLITE_MALLOC) ? NULL : real_memory.xRealloc(old, n);
}

void fault_sqlite_init(const char *path)
{
    (void)snprintf(ledger_path, sizeof(ledger_path), "%s", path);
    CHECK(sqlite3_config(SQLITE_CONFIG_GETMALLOC, &real_memory) == SQLITE_OK);
    sqlite3_mem_methods memory = real_memory;
    memory.xMalloc = memory_malloc;
    memory.xRealloc = memory_realloc;
    CHECK(sqlite3_config(SQLITE_CONFIG_MALLOC, &memory) == SQLITE_OK);
    CHECK(sqlite3_config(SQLITE_CONFIG_LOOKASIDE, 0, 0) == SQLITE_OK);
    CHECK(sqlite3_initialize() == SQLITE_OK);
    real = sqlite3_vfs_find(NULL);
    static sqlite3_vfs vfs;
    vfs = *real;
    vfs.zName = "fault";
    vfs.pNext = NULL;
    vfs.szOsFile = sizeof(struct fault_file);
    vfs.xOpen = vfs_open;
    vfs.xDelete = vfs_delete;
    vfs.xAccess = vfs_access;
    vfs.xFullPathname = vfs_full_path;
    vfs.xRandomness = vfs_randomness;
    vfs.xSleep = vfs_sleep;
    vfs.xCurrentTime = vfs_time;
    vfs.xCurrentTimeInt64 = vfs_time_ms;
    vfs.xGetLastError = vfs_last_error;
    CHECK(sqlite3_vfs_register(&vfs, 1) == SQLITE_OK);
}

/* ---- what the ledger calls itself: names are the linker's ---- */

int __real_open(const char *path, int flags, ...);
int __wrap_open(const char *path, int flags, ...);
int __wrap_fsync(int fd);

int __wrap_open(const char *path, int flags, ...)
{
    va_list arguments;
    va_start(arguments, flags);
    mode_t mode = (flags & O_CREAT) != 0 ? va_arg(arguments, mode_t) : 0;
    va_end(arguments);
    if (fault_strikes(FAULT_OPEN)) {
        errno = fault_forever() ? ENOSPC : EIO;
        return -1;
    }
    return __real_open(path, flags, mode);
}

int __wrap_fsync(int fd)
{
    (void)fd;
    if (fault_strikes(FAULT_SYNC)) {
        errno = EIO;
        return -1;
    }
    return 0;
}
