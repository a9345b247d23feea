/* The disk port on a real folder, and the ownership of a folder. */
#define _GNU_SOURCE
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cmocka.h>

#include "backend/posix/disk_posix.h"
#include "base/err.h"

static char folder[64];
static struct disk_posix posix;
static struct disk *disk;

static int set_up(void **state)
{
    (void)state;
    (void)snprintf(folder, sizeof(folder), "/tmp/test_disk_posix.XXXXXX");
    assert_non_null(mkdtemp(folder));
    assert_int_equal(disk_posix_open(folder, &posix), 0);
    disk = &posix.disk;
    return 0;
}

static void remove_each(void *context, const char *name, uint64_t size)
{
    (void)context;
    (void)size;
    (void)disk_remove(disk, name);
}

static int tear_down(void **state)
{
    (void)state;
    (void)disk_list(disk, remove_each, NULL);
    disk_posix_close(&posix);
    return rmdir(folder);
}

static void files_are_made_once_and_found_again(void **state)
{
    (void)state;
    struct disk_file *file;
    assert_int_equal(disk_open(disk, "a", DISK_READ, &file), ERR_NOTFOUND);
    assert_int_equal(disk_open(disk, "a", DISK_WRITE, &file), ERR_NOTFOUND);
    assert_int_equal(disk_open(disk, "a", DISK_CREATE, &file), 0);
    disk_close(disk, file);
    assert_int_equal(disk_open(disk, "a", DISK_CREATE, &file), ERR_EXISTS);
    assert_int_equal(disk_open(disk, "a", DISK_WRITE, &file), 0);
    disk_close(disk, file);
    char path[96];
    struct stat st;
    (void)snprintf(path, sizeof(path), "%s/a", folder);
    assert_int_equal(stat(path, &st), 0);
    assert_int_equal(st.st_mode & 0777, 0600);
}

static void what_is_written_is_read(void **state)
{
    (void)state;
    struct disk_file *file;
    char bytes[16] = {0};
    size_t n = 99;
    assert_int_equal(disk_open(disk, "a", DISK_CREATE, &file), 0);
    assert_int_equal(disk_read(disk, file, 0, bytes, 4, &n), 0);
    assert_int_equal(n, 0);
    assert_int_equal(disk_write(disk, file, 0, "hello world", 11, false), 0);
    assert_int_equal(disk_sync(disk, file), 0);
    assert_int_equal(disk_write(disk, file, 6, "there", 5, true), 0);
    assert_int_equal(disk_read(disk, file, 3, bytes, sizeof(bytes), &n), 0);
    assert_int_equal(n, 8);
    assert_memory_equal(bytes, "lo there", 8);
    assert_int_equal(disk_truncate(disk, file, 5), 0);
    assert_int_equal(disk_read(disk, file, 0, bytes, sizeof(bytes), &n), 0);
    assert_int_equal(n, 5);
    assert_int_equal(disk_write(disk, file, 0, "", 0, true), 0);
    disk_close(disk, file);
}

static void durable_writes_work_without_the_flag_too(void **state)
{
    (void)state;
    struct disk_file *file;
    char bytes[4];
    size_t n;
    atomic_store(&posix.plain_sync, true);
    assert_int_equal(disk_open(disk, "a", DISK_CREATE, &file), 0);
    assert_int_equal(disk_write(disk, file, 0, "abcd", 4, true), 0);
    assert_int_equal(disk_read(disk, file, 0, bytes, 4, &n), 0);
    assert_memory_equal(bytes, "abcd", 4);
    disk_close(disk, file);
}

struct listing {
    char names[8][16];
    uint64_t sizes[8];
    size_t count;
};

static void on_file(void *context, const char *name, uint64_t size)
{
    struct listing *listing = context;
    (void)snprintf(listing->names[listing->count], 16, "%.15s", name);
    listing->sizes[listing->count++] = size;
}

static void the_folder_is_listed_in_order_without_folders(void **state)
{
    (void)state;
    static const char *const names[] = {"b", "c", "a"};
    struct disk_file *file;
    for (int i = 0; i < 3; i++) {
        assert_int_equal(disk_open(disk, names[i], DISK_CREATE, &file), 0);
        assert_int_equal(disk_write(disk, file, 0, "123", (size_t)i, false), 0);
        disk_close(disk, file);
    }
    char path[96];
    (void)snprintf(path, sizeof(path), "%s/sub", folder);
    assert_int_equal(mkdir(path, 0700), 0);
    struct listing listing = {.count = 0};
    assert_int_equal(disk_list(disk, on_file, &listing), 0);
    assert_int_equal(listing.count, 3);
    assert_string_equal(listing.names[0], "a");
    assert_int_equal(listing.sizes[0], 2);
    assert_string_equal(listing.names[2], "c");
    assert_int_equal(rmdir(path), 0);
}

static void names_move_and_go(void **state)
{
    (void)state;
    struct disk_file *file;
    struct disk_file *other;
    assert_int_equal(disk_rename(disk, "a", "b"), ERR_NOTFOUND);
    assert_int_equal(disk_remove(disk, "a"), ERR_NOTFOUND);
    assert_int_equal(disk_open(disk, "a", DISK_CREATE, &file), 0);
    assert_int_equal(disk_rename(disk, "a", "b"), 0);
    assert_int_equal(disk_sync_names(disk), 0);
    assert_int_equal(disk_open(disk, "a", DISK_READ, &other), ERR_NOTFOUND);
    assert_int_equal(disk_open(disk, "b", DISK_READ, &other), 0);
    assert_int_equal(disk_remove(disk, "b"), 0);
    assert_int_equal(disk_write(disk, file, 0, "x", 1, false), 0); /* open files stay usable */
    char byte;
    size_t n;
    assert_int_equal(disk_read(disk, other, 0, &byte, 1, &n), 0);
    assert_int_equal(byte, 'x');
    disk_close(disk, file);
    disk_close(disk, other);
}

static void failures_have_their_words(void **state)
{
    (void)state;
    struct disk_file *file;
    char byte;
    size_t n;
    struct disk_posix other;
    assert_int_equal(disk_posix_open("/tmp/no-such-folder/x", &other), ERR_NOTFOUND);
    assert_int_equal(disk_posix_open("/etc/hostname", &other), ERR_IO);
    assert_int_equal(disk_open(disk, "a", DISK_CREATE, &file), 0);
    assert_int_equal(disk_read(disk, file, UINT64_C(1) << 63, &byte, 1, &n), ERR_IO);
    assert_int_equal(disk_write(disk, file, UINT64_C(1) << 63, "x", 1, true), ERR_IO);
    assert_int_equal(disk_truncate(disk, file, UINT64_C(1) << 63), ERR_IO);
    disk_close(disk, file);
    /* /dev/full is a disk without space. */
    assert_int_equal(disk_posix_open("/dev", &other), 0);
    assert_int_equal(disk_open(&other.disk, "full", DISK_WRITE, &file), 0);
    assert_int_equal(disk_write(&other.disk, file, 0, "x", 1, false), ERR_NOSPACE);
    assert_int_not_equal(disk_sync(&other.disk, file), 0);
    disk_close(&other.disk, file);
    disk_posix_close(&other);
}

static void folders_are_made_once(void **state)
{
    (void)state;
    char path[96];
    (void)snprintf(path, sizeof(path), "%s/data/", folder);
    assert_int_equal(folder_make(path), 0);
    assert_int_equal(folder_make(path), 0);
    struct stat st;
    assert_int_equal(stat(path, &st), 0);
    assert_int_equal(st.st_mode & 0777, 0700);
    assert_int_equal(rmdir(path), 0);
    (void)snprintf(path, sizeof(path), "%s/no/where", folder);
    assert_int_equal(folder_make(path), ERR_NOTFOUND);
    assert_int_equal(folder_make("/etc/hostname"), ERR_EXISTS);
    assert_int_equal(chdir(folder), 0);
    assert_int_equal(folder_make("here"), 0);
    assert_int_equal(rmdir("here"), 0);
    assert_int_equal(chdir("/"), 0);
}

static void one_process_owns_a_folder(void **state)
{
    (void)state;
    int fd = -1;
    int second = -1;
    assert_int_equal(folder_lock("/tmp/no-such-folder", &fd), ERR_NOTFOUND);
    assert_int_equal(folder_lock(folder, &fd), 0);
    assert_int_equal(folder_lock(folder, &second), ERR_BUSY);
    assert_int_equal(second, -1);
    pid_t child = fork();
    if (child == 0) {
        _exit(folder_lock(folder, &second) == ERR_BUSY ? 0 : 1);
    }
    int status = -1;
    assert_int_equal(waitpid(child, &status, 0), child);
    assert_int_equal(status, 0);
    (void)close(fd);
    assert_int_equal(folder_lock(folder, &fd), 0);
    (void)close(fd);
}

int main(void)
{
#define TEST(name) cmocka_unit_test_setup_teardown(name, set_up, tear_down)
    const struct CMUnitTest tests[] = {
        TEST(files_are_made_once_and_found_again),
        TEST(what_is_written_is_read),
        TEST(durable_writes_work_without_the_flag_too),
        TEST(the_folder_is_listed_in_order_without_folders),
        TEST(names_move_and_go),
        TEST(failures_have_their_words),
        TEST(folders_are_made_once),
        TEST(one_process_owns_a_folder),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
