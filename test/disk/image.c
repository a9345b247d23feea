/*
 * The image of what is durable; see image.h for its interface and forget.c for the whole.
 *
 *   objects/<object>  durable bytes of a file; missing means an empty file
 *   names/<object>    durable names of a directory, "kind mode object name" a line; the data folder
 *                     itself is object 0; missing means an empty directory; replaced atomically
 *   inodes            which inode is which object: "inode birth object" a line, the last one wins
 *
 * Inode numbers are used again by the file system; object numbers never are. An empty image is
 * filled from the data folder at start: what lies there before is durable. With an image that is
 * not empty (the program was restarted, the machine was not) every file counts as unsynced until
 * it is synced, since the page cache may hold what the disk does not.
 *
 * An error of the image itself ends the process: a test must not go on with half an image.
 */
#define _GNU_SOURCE
#undef _FORTIFY_SOURCE
#include "image.h"

#include <dlfcn.h>
#include <errno.h>
#include <fcntl.h>
#include <fnmatch.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

enum {
    BUCKETS = 1024,
    COPY_CHUNK = 1 << 16,
    STAT_LINE = 40,
};

struct real real;
pthread_mutex_t image_lock = PTHREAD_MUTEX_INITIALIZER;
bool image_active;

static struct file *buckets[BUCKETS];
static char data_path[PATH_MAX];
static int image_fd = -1, objects_fd = -1, names_fd = -1, inodes_fd = -1;
static const char *skip_patterns;
static uint64_t next_object = 1;
static uint64_t stats[STAT_COUNT];
static char *stats_text;

static void give_up(const char *what)
{
    dprintf(STDERR_FILENO, "forget: %s: %s\n", what, strerror(errno));
    abort();
}

void stat_add(enum stat_id id, uint64_t add)
{
    static const char *const names[] = {
#define X(name) #name,
        STATS(X)
#undef X
    };

    stats[id] += add;
    if (stats_text != NULL) {
        char line[STAT_LINE + 1];
        (void)snprintf(line, sizeof(line), "%-18s%21llu\n", names[id],
                       (unsigned long long)stats[id]);
        memcpy(stats_text + (size_t)id * STAT_LINE, line, STAT_LINE);
    }
}

/* ---- dirty ranges ---- */

/* Makes [start, end) dirty: one range replaces all those it touches. */
void dirty_add(struct file *file, int64_t start, int64_t end)
{
    if (start >= end) {
        return;
    }
    size_t first = 0;
    while (first < file->dirty_count && file->dirty[first].end < start) {
        first++;
    }
    size_t after = first;
    for (; after < file->dirty_count && file->dirty[after].start <= end; after++) {
        if (file->dirty[after].start < start) {
            start = file->dirty[after].start;
        }
        if (file->dirty[after].end > end) {
            end = file->dirty[after].end;
        }
    }
    if (after == first && file->dirty_count == file->dirty_room) {
        size_t room = file->dirty_room == 0 ? 16 : 2 * file->dirty_room;
        struct range *grown = realloc(file->dirty, room * sizeof(*grown));
        if (grown == NULL) {
            give_up("realloc");
        }
        file->dirty = grown;
        file->dirty_room = room;
    }
    memmove(&file->dirty[first + 1], &file->dirty[after],
            (file->dirty_count - after) * sizeof(*file->dirty));
    file->dirty_count = file->dirty_count + 1 - (after - first);
    file->dirty[first] = (struct range){start, end};
}

/* ---- inodes and objects ---- */

int64_t birth_of(int dir_fd, const char *path, int flags)
{
    struct statx status;
    if (statx(dir_fd, path, flags, STATX_BTIME, &status) != 0 ||
        (status.stx_mask & STATX_BTIME) == 0) {
        return 0;
    }
    return (int64_t)status.stx_btime.tv_sec * 1000000000 + status.stx_btime.tv_nsec;
}

static struct file **file_place(uint64_t inode)
{
    struct file **place = &buckets[inode % BUCKETS];
    while (*place != NULL && (*place)->inode != inode) {
        place = &(*place)->next;
    }
    return place;
}

void file_release(struct file *file)
{
    if (--file->references == 0) {
        free(file->dirty);
        free(file);
    }
}

void file_forget(uint64_t inode)
{
    struct file **place = file_place(inode);
    struct file *file = *place;
    if (file != NULL) {
        *place = file->next;
        file_release(file);
    }
}

static struct file *file_insert(uint64_t inode, int64_t birth_ns, uint64_t object)
{
    struct file *file = calloc(1, sizeof(*file));
    if (file == NULL) {
        give_up("calloc");
    }
    file->inode = inode;
    file->birth_ns = birth_ns;
    file->object = object;
    file->references = 1;
    *file_place(inode) = file;
    return file;
}

struct file *file_get(uint64_t inode, int64_t birth_ns)
{
    struct file *file = *file_place(inode);
    if (file != NULL && file->birth_ns == birth_ns) {
        return file;
    }
    file_forget(inode);
    file = file_insert(inode, birth_ns, next_object++);
    char line[96];
    int length = snprintf(line, sizeof(line), "%llu %lld %llu\n", (unsigned long long)inode,
                          (long long)birth_ns, (unsigned long long)file->object);
    if (real.write(inodes_fd, line, (size_t)length) != length) {
        give_up("inodes");
    }
    stat_add(STAT_objects, 1);
    return file;
}

const char *image_path_below(int fd, char path[static PATH_MAX])
{
    char link[32];
    (void)snprintf(link, sizeof(link), "/proc/self/fd/%d", fd);
    ssize_t length = readlink(link, path, PATH_MAX - 1);
    if (length < 0) {
        return NULL;
    }
    path[length] = '\0';
    size_t root = strlen(data_path);
    if (strncmp(path, data_path, root) != 0) {
        return NULL;
    }
    if (path[root] == '\0') {
        return path + root;
    }
    return path[root] == '/' ? path + root + 1 : NULL;
}

/* ---- making things durable ---- */

/* One of the patterns that a colon separates, against a path below the data folder. */
static bool pattern_matches(const char *pattern, const char *below)
{
    if (strpbrk(pattern, "*?[") == NULL) {
        return strstr(below, pattern) != NULL;
    }
    const char *slash = strrchr(below, '/');
    return fnmatch(pattern, slash == NULL ? below : slash + 1, 0) == 0;
}

bool sync_is_skipped(int fd)
{
    char path[PATH_MAX];
    const char *below = skip_patterns == NULL ? NULL : image_path_below(fd, path);
    if (below == NULL) {
        return false;
    }
    const char *at = skip_patterns;
    while (*at != '\0') {
        char pattern[NAME_MAX + 1];
        size_t length = strcspn(at, ":");
        (void)snprintf(pattern, sizeof(pattern), "%.*s", (int)length, at);
        if (length > 0 && pattern_matches(pattern, below)) {
            stat_add(STAT_skipped_syncs, 1);
            return true;
        }
        at += length + (at[length] == ':');
    }
    return false;
}

static bool all_zero(const char *bytes, size_t length)
{
    return length == 0 || (bytes[0] == 0 && memcmp(bytes, bytes + 1, length - 1) == 0);
}

static int object_open(uint64_t object)
{
    char name[32];
    (void)snprintf(name, sizeof(name), "%llu", (unsigned long long)object);
    int fd = real.openat(objects_fd, name, O_RDWR | O_CREAT | O_CLOEXEC, 0600);
    if (fd < 0) {
        give_up("objects");
    }
    return fd;
}

/* Copies [start, end) of the live file, as far as there is one. Zeroes past the end stay a hole. */
static void object_copy(int to, int from, int64_t start, int64_t end, int64_t object_size)
{
    static char buffer[COPY_CHUNK];
    while (start < end) {
        size_t want = end - start < COPY_CHUNK ? (size_t)(end - start) : COPY_CHUNK;
        ssize_t got = real.pread(from, buffer, want, start);
        if (got < 0) {
            give_up("read of the data folder");
        }
        if (got == 0) {
            return;
        }
        if (start < object_size || !all_zero(buffer, (size_t)got)) {
            if (real.pwrite(to, buffer, (size_t)got, start) != got) {
                give_up("write of the image");
            }
        }
        stat_add(STAT_synced_bytes, (uint64_t)got);
        start += got;
    }
}

/* The descriptor may be write-only; its entry in /proc opens the same inode again for reading. */
static int reopen_for_reading(int fd)
{
    char link[32];
    (void)snprintf(link, sizeof(link), "/proc/self/fd/%d", fd);
    int again = real.openat(AT_FDCWD, link, O_RDONLY | O_CLOEXEC);
    if (again < 0) {
        give_up("open for reading");
    }
    return again;
}

/* All of a file: its dirty bytes and its size. */
void persist_file(struct file *file, int fd)
{
    struct stat status, object;
    int from = reopen_for_reading(fd);
    int to = object_open(file->object);
    if (fstat(from, &status) != 0 || fstat(to, &object) != 0) {
        give_up("fstat");
    }
    for (size_t i = 0; i < file->dirty_count; i++) {
        int64_t end = file->dirty[i].end < status.st_size ? file->dirty[i].end : status.st_size;
        object_copy(to, from, file->dirty[i].start, end, object.st_size);
    }
    file->dirty_count = 0;
    if (real.ftruncate(to, status.st_size) != 0) {
        give_up("size of the image");
    }
    (void)real.close(to);
    (void)real.close(from);
}

/* One synced write: its bytes, and a size that covers them. Dirty neighbours stay dirty, and so
 * does the range itself: copying it again at the next fsync changes nothing. */
void persist_range(struct file *file, int fd, int64_t start, int64_t end)
{
    struct stat object;
    int from = reopen_for_reading(fd);
    int to = object_open(file->object);
    if (fstat(to, &object) != 0) {
        give_up("fstat");
    }
    object_copy(to, from, start, end, object.st_size);
    if (object.st_size < end && real.ftruncate(to, end) != 0) {
        give_up("size of the image");
    }
    (void)real.close(to);
    (void)real.close(from);
}

/* The names of a directory as they are now. fd is not moved: the listing has its own. */
static void list_names(uint64_t object, int fd)
{
    char name[48], temporary[64];
    (void)snprintf(name, sizeof(name), "%llu", (unsigned long long)object);
    (void)snprintf(temporary, sizeof(temporary), "%s.new", name);
    int listing = real.openat(names_fd, temporary, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0600);
    int own = real.openat(fd, ".", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    DIR *dir = own < 0 ? NULL : fdopendir(own);
    if (listing < 0 || dir == NULL) {
        give_up("names");
    }
    for (struct dirent *entry; (entry = readdir(dir)) != NULL;) {
        struct stat status;
        if (strcmp(entry->d_name, ".") == 0 || strcmp(entry->d_name, "..") == 0) {
            continue;
        }
        if (fstatat(own, entry->d_name, &status, AT_SYMLINK_NOFOLLOW) != 0) {
            continue; /* gone since */
        }
        if (!S_ISREG(status.st_mode) && !S_ISDIR(status.st_mode)) {
            continue;
        }
        struct file *file =
            file_get(status.st_ino, birth_of(own, entry->d_name, AT_SYMLINK_NOFOLLOW));
        if (dprintf(listing, "%c %o %llu %s\n", S_ISDIR(status.st_mode) ? 'd' : 'f',
                    (unsigned)(status.st_mode & 07777), (unsigned long long)file->object,
                    entry->d_name) < 0) {
            give_up("names");
        }
    }
    (void)real.closedir(dir);
    (void)real.close(listing);
    if (real.renameat2(names_fd, temporary, names_fd, name, 0) != 0) {
        give_up("names");
    }
    stat_add(STAT_dir_syncs, 1);
}

static bool is_data_folder(int fd)
{
    char path[PATH_MAX];
    const char *below = image_path_below(fd, path);
    return below != NULL && *below == '\0';
}

void persist_names(const struct file *dir, int fd)
{
    list_names(is_data_folder(fd) ? 0 : dir->object, fd);
}

/* Everything below a directory: at the first start, and for sync() and syncfs(). */
static void persist_tree(int fd)
{
    int own = real.openat(fd, ".", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    DIR *dir = own < 0 ? NULL : fdopendir(own);
    if (dir == NULL) {
        give_up("data folder");
    }
    for (struct dirent *entry; (entry = readdir(dir)) != NULL;) {
        struct stat status;
        if (strcmp(entry->d_name, ".") == 0 || strcmp(entry->d_name, "..") == 0 ||
            fstatat(own, entry->d_name, &status, AT_SYMLINK_NOFOLLOW) != 0 ||
            (!S_ISREG(status.st_mode) && !S_ISDIR(status.st_mode))) {
            continue;
        }
        int child = real.openat(own, entry->d_name, O_RDONLY | O_NOFOLLOW | O_CLOEXEC);
        if (child < 0) {
            continue;
        }
        if (S_ISDIR(status.st_mode)) {
            persist_tree(child);
        } else if (!sync_is_skipped(child)) {
            struct file *file = file_get(status.st_ino, birth_of(child, "", AT_EMPTY_PATH));
            dirty_add(file, 0, END_OF_FILE);
            persist_file(file, child);
        }
        (void)real.close(child);
    }
    struct stat status;
    if (fstat(own, &status) != 0) {
        give_up("fstat");
    }
    uint64_t object =
        is_data_folder(own) ? 0 : file_get(status.st_ino, birth_of(own, "", AT_EMPTY_PATH))->object;
    list_names(object, own);
    (void)real.closedir(dir);
}

void persist_everything(void)
{
    if (!image_active) {
        return;
    }
    (void)pthread_mutex_lock(&image_lock);
    int fd = real.openat(AT_FDCWD, data_path, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    if (fd >= 0) {
        persist_tree(fd);
        (void)real.close(fd);
    }
    (void)pthread_mutex_unlock(&image_lock);
}

/* ---- start ---- */

static int image_folder(const char *name)
{
    if (mkdirat(image_fd, name, 0700) != 0 && errno != EEXIST) {
        give_up(name);
    }
    int fd = real.openat(image_fd, name, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    if (fd < 0) {
        give_up(name);
    }
    return fd;
}

static void stats_open(const char *path)
{
    int fd = real.openat(AT_FDCWD, path, O_RDWR | O_CREAT | O_TRUNC | O_CLOEXEC, 0600);
    if (fd < 0 || real.ftruncate(fd, (off_t)STAT_COUNT * STAT_LINE) != 0) {
        give_up(path);
    }
    void *text =
        mmap(NULL, (size_t)STAT_COUNT * STAT_LINE, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
    if (text == MAP_FAILED) {
        give_up(path);
    }
    stats_text = text;
    (void)real.close(fd);
    for (int id = 0; id < STAT_COUNT; id++) {
        stat_add((enum stat_id)id, 0);
    }
}

/* The objects of an image that is there already. Whether their files were synced is not known. */
static void inodes_load(void)
{
    int fd = real.openat(image_fd, "inodes", O_RDONLY | O_CLOEXEC);
    FILE *in = fd < 0 ? NULL : fdopen(fd, "r");
    if (in == NULL) {
        give_up("inodes");
    }
    unsigned long long inode, object;
    long long birth_ns;
    while (fscanf(in, "%llu %lld %llu", &inode, &birth_ns, &object) == 3) {
        file_forget(inode);
        dirty_add(file_insert(inode, birth_ns, object), 0, END_OF_FILE);
        if (object >= next_object) {
            next_object = object + 1;
        }
    }
    (void)real.fclose(in);
}

static void image_open(const char *snapshot)
{
    struct stat status;
    if (mkdir(snapshot, 0700) != 0 && errno != EEXIST) {
        give_up(snapshot);
    }
    image_fd = real.openat(AT_FDCWD, snapshot, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    if (image_fd < 0) {
        give_up(snapshot);
    }
    objects_fd = image_folder("objects");
    names_fd = image_folder("names");
    bool filled = fstatat(names_fd, "0", &status, 0) == 0;
    int flags = O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC | (filled ? 0 : O_TRUNC);
    inodes_fd = real.openat(image_fd, "inodes", flags, 0600);
    if (inodes_fd < 0) {
        give_up("inodes");
    }
    if (filled) {
        inodes_load();
        image_active = true;
        return;
    }
    image_active = true;
    const char *patterns = skip_patterns;
    skip_patterns = NULL; /* what lay there before the start is durable, whatever its name */
    persist_everything();
    skip_patterns = patterns;
}

void image_start(void)
{
#define X(name, result, arguments)                                                                 \
    real.name = (result(*) arguments)dlsym(RTLD_NEXT, #name);                                      \
    if (real.name == NULL)                                                                         \
        give_up(#name);
    REAL(X)
#undef X
    const char *data = getenv("SLUICE_FORGET_DATA");
    const char *snapshot = getenv("SLUICE_FORGET_IMAGE");
    const char *stats_path = getenv("SLUICE_FORGET_STATS");
    if (data == NULL || snapshot == NULL) {
        return;
    }
    if (mkdir(data, 0700) != 0 && errno != EEXIST) {
        give_up(data);
    }
    if (realpath(data, data_path) == NULL) {
        give_up(data);
    }
    skip_patterns = getenv("SLUICE_FORGET_SKIP_SYNC");
    if (stats_path != NULL) {
        stats_open(stats_path);
    }
    image_open(snapshot);
}
