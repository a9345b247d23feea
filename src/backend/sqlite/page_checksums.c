/*
 * See page_checksums.h.
 *
 * Only full pages of the main file are touched. A read of less than a page is answered from the
 * whole page. The exception is the first bytes of the file, which SQLite reads before it knows what
 * the file is; it reads page 1 as a page right after. Memory-mapped reads would bypass the checksums,
 * so the layer does not offer them.
 */
#include "backend/sqlite/page_checksums.h"

#include <pthread.h>
#include <stddef.h>
#include <string.h>

#include "base/crc32c.h"

enum {
    PAGE = PAGE_CHECKSUMS_PAGE,
    BODY = PAGE_CHECKSUMS_PAGE - PAGE_CHECKSUMS_RESERVED,
    HEADER = 100,           /* of the file */
    HEADER_RESERVED_AT = 20 /* reserved bytes of each page */
};

struct checked_file {
    sqlite3_file base; /* first: what SQLite has */
    bool on;
    uint32_t bad_page;
    sqlite3_file real; /* and as many bytes as the real one needs */
};

static sqlite3_vfs *real_vfs(sqlite3_vfs *vfs)
{
    return vfs->pAppData;
}

static sqlite3_file *real_of(sqlite3_file *file)
{
    return &((struct checked_file *)file)->real;
}

/* ---- checksums ---- */

static void put_u32(uint8_t *at, uint32_t number)
{
    for (int i = 0; i < 4; i++) {
        at[i] = (uint8_t)(number >> (8 * i));
    }
}

static void checksum_of(const uint8_t *page, uint32_t number, uint8_t ret_sum[])
{
    uint8_t where[4];
    put_u32(where, number);
    uint32_t crc = crc32c(crc32c(0, page, BODY), where, sizeof(where));
    put_u32(ret_sum, crc);
    put_u32(ret_sum + 4, ~crc);
}

enum page_state { PAGE_GOOD, PAGE_WITHOUT, PAGE_BAD };

static enum page_state page_state(const uint8_t *page, uint32_t number)
{
    static const uint8_t none[PAGE_CHECKSUMS_RESERVED];
    uint8_t sum[PAGE_CHECKSUMS_RESERVED];
    if (memcmp(page + BODY, none, sizeof(none)) == 0) {
        return PAGE_WITHOUT; /* never a checksum: it holds its complement, too */
    }
    checksum_of(page, number, sum);
    return memcmp(page + BODY, sum, sizeof(sum)) == 0 ? PAGE_GOOD : PAGE_BAD;
}

/* Whether the bytes at the end are a checksum of anything. */
static bool has_checksum(const uint8_t *page)
{
    for (int i = 0; i < 4; i++) {
        if ((uint8_t)(page[BODY + i] ^ page[BODY + 4 + i]) != 0xff) {
            return false;
        }
    }
    return true;
}

static uint32_t number_at(int64_t offset)
{
    return (uint32_t)(offset / PAGE) + 1;
}

/* ---- a file ---- */

/*
 * A new file gets checksums. One that exists has them if its header says so, or if its first page
 * has one: then the header is damaged, and page 1 will be found bad.
 */
static int look_at_start(struct checked_file *checked)
{
    uint8_t page[PAGE] = {0};
    sqlite3_int64 size = 0;
    int code = checked->real.pMethods->xFileSize(&checked->real, &size);
    if (code != SQLITE_OK) {
        return code;
    }
    if (size == 0) {
        checked->on = true;
        return SQLITE_OK;
    }
    code = checked->real.pMethods->xRead(&checked->real, page, PAGE, 0);
    if (code == SQLITE_IOERR_SHORT_READ) {
        code = SQLITE_OK;
    }
    checked->on = page[HEADER_RESERVED_AT] == PAGE_CHECKSUMS_RESERVED || has_checksum(page);
    return code;
}

static int file_close(sqlite3_file *file)
{
    sqlite3_file *real = real_of(file);
    return real->pMethods->xClose(real);
}

static int read_checked(struct checked_file *checked, uint8_t *page, int64_t offset)
{
    sqlite3_file *real = &checked->real;
    int code = real->pMethods->xRead(real, page, PAGE, offset);
    if (code != SQLITE_OK) {
        return code;
    }
    if (page_state(page, number_at(offset)) == PAGE_BAD) {
        checked->bad_page = number_at(offset);
        return SQLITE_IOERR_DATA;
    }
    memset(page + BODY, 0, PAGE_CHECKSUMS_RESERVED);
    return SQLITE_OK;
}

static int file_read(sqlite3_file *file, void *bytes, int amount, sqlite3_int64 offset)
{
    struct checked_file *checked = (struct checked_file *)file;
    sqlite3_file *real = real_of(file);
    if (!checked->on || offset + amount <= HEADER) {
        return real->pMethods->xRead(real, bytes, amount, offset);
    }
    int64_t start = offset - offset % PAGE;
    if (offset + amount > start + PAGE) {
        checked->bad_page = 1; /* its header names another size of pages */
        return SQLITE_IOERR_DATA;
    }
    if (amount == PAGE) {
        return read_checked(checked, bytes, offset);
    }
    uint8_t page[PAGE];
    int code = read_checked(checked, page, start);
    if (code == SQLITE_OK) {
        memcpy(bytes, page + (offset - start), (size_t)amount);
    }
    return code;
}

static int file_write(sqlite3_file *file, const void *bytes, int amount, sqlite3_int64 offset)
{
    struct checked_file *checked = (struct checked_file *)file;
    sqlite3_file *real = real_of(file);
    if (offset == 0 && amount == PAGE) { /* a ledger without checksums may be getting them */
        checked->on = ((const uint8_t *)bytes)[HEADER_RESERVED_AT] == PAGE_CHECKSUMS_RESERVED;
    }
    if (!checked->on || amount != PAGE || offset % PAGE != 0) {
        return real->pMethods->xWrite(real, bytes, amount, offset);
    }
    uint8_t page[PAGE];
    memcpy(page, bytes, BODY);
    checksum_of(page, number_at(offset), page + BODY);
    return real->pMethods->xWrite(real, page, PAGE, offset);
}

static int file_truncate(sqlite3_file *file, sqlite3_int64 size)
{
    return real_of(file)->pMethods->xTruncate(real_of(file), size);
}

static int file_sync(sqlite3_file *file, int flags)
{
    return real_of(file)->pMethods->xSync(real_of(file), flags);
}

static int file_size(sqlite3_file *file, sqlite3_int64 *ret_size)
{
    return real_of(file)->pMethods->xFileSize(real_of(file), ret_size);
}

static int file_lock(sqlite3_file *file, int level)
{
    return real_of(file)->pMethods->xLock(real_of(file), level);
}

static int file_unlock(sqlite3_file *file, int level)
{
    return real_of(file)->pMethods->xUnlock(real_of(file), level);
}

static int file_is_reserved(sqlite3_file *file, int *ret_yes)
{
    return real_of(file)->pMethods->xCheckReservedLock(real_of(file), ret_yes);
}

static int file_control(sqlite3_file *file, int what, void *argument)
{
    return real_of(file)->pMethods->xFileControl(real_of(file), what, argument);
}

static int file_sector(sqlite3_file *file)
{
    return real_of(file)->pMethods->xSectorSize(real_of(file));
}

static int file_device(sqlite3_file *file)
{
    return real_of(file)->pMethods->xDeviceCharacteristics(real_of(file));
}

static int file_shm_map(sqlite3_file *file, int page, int size, int extend, void volatile **ret_at)
{
    return real_of(file)->pMethods->xShmMap(real_of(file), page, size, extend, ret_at);
}

static int file_shm_lock(sqlite3_file *file, int offset, int n, int flags)
{
    return real_of(file)->pMethods->xShmLock(real_of(file), offset, n, flags);
}

static void file_shm_barrier(sqlite3_file *file)
{
    real_of(file)->pMethods->xShmBarrier(real_of(file));
}

static int file_shm_unmap(sqlite3_file *file, int remove)
{
    return real_of(file)->pMethods->xShmUnmap(real_of(file), remove);
}

static const sqlite3_io_methods checked_methods = {.iVersion = 2, /* without mapped reads */
                                                   .xClose = file_close,
                                                   .xRead = file_read,
                                                   .xWrite = file_write,
                                                   .xTruncate = file_truncate,
                                                   .xSync = file_sync,
                                                   .xFileSize = file_size,
                                                   .xLock = file_lock,
                                                   .xUnlock = file_unlock,
                                                   .xCheckReservedLock = file_is_reserved,
                                                   .xFileControl = file_control,
                                                   .xSectorSize = file_sector,
                                                   .xDeviceCharacteristics = file_device,
                                                   .xShmMap = file_shm_map,
                                                   .xShmLock = file_shm_lock,
                                                   .xShmBarrier = file_shm_barrier,
                                                   .xShmUnmap = file_shm_unmap};

/* ---- the layer ---- */

static int vfs_open(sqlite3_vfs *vfs, const char *path, sqlite3_file *file, int flags,
                    int *ret_flags)
{
    sqlite3_vfs *real = real_vfs(vfs);
    if ((flags & SQLITE_OPEN_MAIN_DB) == 0) {
        return real->xOpen(real, path, file, flags, ret_flags);
    }
    struct checked_file *checked = (struct checked_file *)file;
    checked->base.pMethods = NULL; /* nothing to close if this fails */
    checked->on = false;
    checked->bad_page = 0;
    int code = real->xOpen(real, path, &checked->real, flags, ret_flags);
    if (code == SQLITE_OK) {
        code = look_at_start(checked);
    }
    if (code == SQLITE_OK) {
        checked->base.pMethods = &checked_methods;
    } else if (checked->real.pMethods != NULL) {
        (void)checked->real.pMethods->xClose(&checked->real);
    }
    return code;
}

static int vfs_delete(sqlite3_vfs *vfs, const char *path, int sync_folder)
{
    return real_vfs(vfs)->xDelete(real_vfs(vfs), path, sync_folder);
}

static int vfs_access(sqlite3_vfs *vfs, const char *path, int flags, int *ret_yes)
{
    return real_vfs(vfs)->xAccess(real_vfs(vfs), path, flags, ret_yes);
}

static int vfs_full_path(sqlite3_vfs *vfs, const char *path, int size, char *ret_path)
{
    return real_vfs(vfs)->xFullPathname(real_vfs(vfs), path, size, ret_path);
}

static int vfs_randomness(sqlite3_vfs *vfs, int n, char *ret_bytes)
{
    return real_vfs(vfs)->xRandomness(real_vfs(vfs), n, ret_bytes);
}

static int vfs_sleep(sqlite3_vfs *vfs, int us)
{
    return real_vfs(vfs)->xSleep(real_vfs(vfs), us);
}

static int vfs_time(sqlite3_vfs *vfs, double *ret_days)
{
    return real_vfs(vfs)->xCurrentTime(real_vfs(vfs), ret_days);
}

static int vfs_last_error(sqlite3_vfs *vfs, int size, char *ret_text)
{
    return real_vfs(vfs)->xGetLastError(real_vfs(vfs), size, ret_text);
}

static int vfs_time_ms(sqlite3_vfs *vfs, sqlite3_int64 *ret_ms)
{
    return real_vfs(vfs)->xCurrentTimeInt64(real_vfs(vfs), ret_ms);
}

/* SQLITE_OK, or what SQLite said: the next caller tries again. */
static int register_now(void)
{
    static sqlite3_vfs vfs;
    sqlite3_vfs *real = sqlite3_vfs_find(NULL);
    if (real == NULL) {
        return SQLITE_NOMEM;
    }
    vfs = (sqlite3_vfs){.iVersion = 2,
                        .szOsFile = (int)offsetof(struct checked_file, real) + real->szOsFile,
                        .mxPathname = real->mxPathname,
                        .zName = PAGE_CHECKSUMS_VFS,
                        .pAppData = real,
                        .xOpen = vfs_open,
                        .xDelete = vfs_delete,
                        .xAccess = vfs_access,
                        .xFullPathname = vfs_full_path,
                        .xRandomness = vfs_randomness,
                        .xSleep = vfs_sleep,
                        .xCurrentTime = vfs_time,
                        .xGetLastError = vfs_last_error,
                        .xCurrentTimeInt64 = vfs_time_ms};
    return sqlite3_vfs_register(&vfs, 0);
}

int page_checksums_register(void)
{
    static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
    static bool registered;
    int code = SQLITE_OK;
    (void)pthread_mutex_lock(&lock);
    if (!registered) {
        code = register_now();
        registered = code == SQLITE_OK;
    }
    (void)pthread_mutex_unlock(&lock);
    return code;
}

/* ---- what a connection asks ---- */

static struct checked_file *file_of(sqlite3 *db)
{
    sqlite3_file *file = NULL;
    int code = sqlite3_file_control(db, "main", SQLITE_FCNTL_FILE_POINTER, (void *)&file);
    return code == SQLITE_OK && file != NULL && file->pMethods == &checked_methods
               ? (struct checked_file *)file
               : NULL;
}

bool page_checksums_on(sqlite3 *db)
{
    const struct checked_file *checked = file_of(db);
    return checked != NULL && checked->on;
}

uint32_t page_checksums_bad_page(sqlite3 *db)
{
    const struct checked_file *checked = file_of(db);
    return checked == NULL ? 0 : checked->bad_page;
}

/* A page that is being written while it is read looks bad: so it is read again. */
static int scan_page(struct checked_file *checked, uint8_t *page, int64_t offset,
                     enum page_state *ret_state)
{
    enum { TRIES = 3, PAUSE_US = 20000 };
    sqlite3_file *real = &checked->real;
    for (int i = 0;; i++) {
        int code = real->pMethods->xRead(real, page, PAGE, offset);
        if (code != SQLITE_OK) {
            return code;
        }
        *ret_state = page_state(page, number_at(offset));
        if (*ret_state != PAGE_BAD || i == TRIES) {
            return SQLITE_OK;
        }
        (void)sqlite3_sleep(PAUSE_US / 1000);
    }
}

int page_checksums_scan(sqlite3 *db, struct page_checksums_scan *scan)
{
    struct checked_file *checked = file_of(db);
    uint8_t page[PAGE];
    sqlite3_int64 size = 0;
    int code = checked == NULL ? SQLITE_MISUSE : file_size(&checked->base, &size);
    uint64_t until = scan->page + scan->pages_max;
    scan->done = false;
    while (code == SQLITE_OK && scan->page < until) {
        int64_t offset = (int64_t)scan->page * PAGE;
        if (!checked->on || offset + PAGE > size) {
            break;
        }
        enum page_state state = PAGE_GOOD;
        code = scan_page(checked, page, offset, &state);
        if (code == SQLITE_IOERR_SHORT_READ) {
            break; /* it was cut off meanwhile */
        }
        if (code == SQLITE_OK && state == PAGE_WITHOUT && scan->mend) {
            code = file_write(&checked->base, page, PAGE, offset);
        } else if (state == PAGE_WITHOUT) {
            scan->without++;
        } else if (state == PAGE_BAD && scan->bad++ == 0) {
            scan->first_bad = number_at(offset);
        }
        scan->page++;
        scan->pages++;
    }
    if (code == SQLITE_IOERR_SHORT_READ) {
        code = SQLITE_OK;
        scan->done = true;
    }
    scan->done = scan->done || (int64_t)(scan->page + 1) * PAGE > size;
    return code;
}
