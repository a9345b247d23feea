/* The file of what was counted: a round trip, what cannot be used is kept, and when it is
 * written. */
#define _GNU_SOURCE
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <unistd.h>
#include <cmocka.h>

#include "app/tally_file.h"
#include "obs/log.h"

static char folder[64];
static char path[128], aside[160];
static struct tally_book book;
static struct tally_file file;
static struct tally_sum sum;

static int setup(void **state)
{
    (void)state;
    log_set_level(LOG_ERROR);
    (void)snprintf(folder, sizeof(folder), "/tmp/sluice_tally_XXXXXX");
    if (mkdtemp(folder) == NULL) {
        return 1;
    }
    (void)snprintf(path, sizeof(path), "%s/tallies", folder);
    (void)snprintf(aside, sizeof(aside), "%s.unreadable", path);
    return tally_book_init(&book, 1);
}

static int teardown(void **state)
{
    (void)state;
    tally_book_done(&book);
    (void)chmod(folder, 0700);
    (void)unlink(path);
    (void)unlink(aside);
    return rmdir(folder);
}

static void open_anew(void)
{
    tally_book_done(&book);
    assert_int_equal(tally_book_init(&book, 1), 0);
    assert_int_equal(tally_file_open(&file, path, &book), 0);
}

static uint64_t asked(uint64_t sale)
{
    tally_read(&book, sale, &sum);
    return sum.counts[TALLY_ASKED];
}

/* A file with 3 requests for sale 7. */
static void write_one(void)
{
    assert_int_equal(tally_file_open(&file, path, &book), 0);
    for (int i = 0; i < 3; i++) {
        tally_ask(tally_row(&book, 0, 7, 1000), 5, 1000);
    }
    tally_file_save(&file, &book);
}

static void overwrite(long at, const void *bytes, size_t len)
{
    FILE *stream = fopen(path, "r+");
    assert_non_null(stream);
    assert_int_equal(fseek(stream, at, SEEK_SET), 0);
    assert_int_equal(fwrite(bytes, 1, len, stream), len);
    assert_int_equal(fclose(stream), 0);
}

static void test_a_restart_counts_on(void **state)
{
    (void)state;
    write_one();
    open_anew();
    assert_int_equal(asked(7), 3);
    assert_int_equal(sum.since_ms, 1000);
    assert_int_not_equal(access(aside, F_OK), 0);
}

/* Refusals alone, without a request, are a change, too; and what is the same is not written
 * again. */
static void test_whatever_was_counted_is_written(void **state)
{
    (void)state;
    struct stat before, after;
    write_one();
    assert_int_equal(stat(path, &before), 0);
    tally_file_save(&file, &book);
    assert_int_equal(stat(path, &after), 0);
    assert_int_equal(before.st_ino, after.st_ino);
    tally_refuse(tally_row(&book, 0, 7, 1000), 3);
    tally_file_save(&file, &book);
    open_anew();
    assert_int_equal(asked(7), 3);
    assert_int_equal(sum.refused[3], 1);
}

static void assert_put_aside(void)
{
    struct stat before, after;
    assert_int_equal(stat(path, &before), 0);
    open_anew();
    assert_int_equal(asked(7), 0);
    tally_ask(tally_row(&book, 0, 8, 2000), 5, 2000);
    tally_file_save(&file, &book);
    assert_int_equal(stat(aside, &after), 0); /* the very file */
    assert_int_equal(before.st_size, after.st_size);
    open_anew();
    assert_int_equal(asked(8), 1);
}

static void test_a_damaged_file_is_kept(void **state)
{
    (void)state;
    write_one();
    overwrite(sizeof(struct tally_file_head) + 300, "x", 1);
    assert_put_aside();
}

static void test_a_file_cut_short_is_kept(void **state)
{
    (void)state;
    write_one();
    assert_int_equal(truncate(path, 5), 0);
    assert_put_aside();
}

/* Counts belong to the places of a list; nothing but that list has to be the same. */
static void test_other_refusals(void **state)
{
    (void)state;
    write_one();
    uint32_t other = 0x12345678;
    overwrite(offsetof(struct tally_file_head, refusals), &other, sizeof(other));
    assert_put_aside();
}

static void test_what_cannot_be_renamed_is_left_alone(void **state)
{
    (void)state;
    if (geteuid() == 0) {
        /* nothing is forbidden to root: a folder stands where the file should go */
        assert_int_equal(mkdir(aside, 0700), 0);
    }
    write_one();
    overwrite(0, "other", 5);
    assert_int_equal(chmod(folder, 0500), 0);
    open_anew();
    tally_ask(tally_row(&book, 0, 8, 2000), 5, 2000);
    assert_int_equal(chmod(folder, 0700), 0);
    tally_file_save(&file, &book);
    FILE *stream = fopen(path, "r");
    char start[6] = "";
    assert_non_null(stream);
    assert_int_equal(fread(start, 1, 5, stream), 5);
    assert_int_equal(fclose(stream), 0);
    assert_string_equal(start, "other");
    (void)rmdir(aside);
}

int main(void)
{
#define TEST(name) cmocka_unit_test_setup_teardown(name, setup, teardown)
    const struct CMUnitTest tests[] = {
        TEST(test_a_restart_counts_on),    TEST(test_whatever_was_counted_is_written),
        TEST(test_a_damaged_file_is_kept), TEST(test_a_file_cut_short_is_kept),
        TEST(test_other_refusals),         TEST(test_what_cannot_be_renamed_is_left_alone),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
