/*
 * A full disk: what needs no new space goes on, the reserve is given up for the rest, a batch without
 * a file waits in memory and is written later, and nothing that was acknowledged is lost.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "base/err.h"
#include "journal/journal_private.h"
#include "journal_world.h"

static struct world world;

static uint64_t used(void)
{
    uint64_t sum = 0;
    static const char *const names[] = {JOURNAL_NEXT_NAME, JOURNAL_RESERVE_NAME};
    for (size_t i = 0; i < 2; i++) {
        size_t size = 0;
        sum += ram_disk_bytes(&world.ram, names[i], &size) != NULL ? size : 0;
    }
    for (size_t i = 0; i < world.journal->files.file_count; i++) {
        sum += world.journal->files.files[i].bytes;
    }
    return sum;
}

static bool there_is(const char *name)
{
    size_t size = 0;
    return ram_disk_bytes(&world.ram, name, &size) != NULL;
}

static void set_up_with(uint64_t reserve_bytes)
{
    world_init(&world, 3);
    world.options.reserve_bytes = reserve_bytes;
    assert_int_equal(world_open(&world), 0);
    world_start_sale(&world);
    assert_int_equal(world_flush(&world), 0);
}

static int set_up(void **state)
{
    (void)state;
    set_up_with(2 * 16384);
    return 0;
}

static int tear_down(void **state)
{
    (void)state;
    world_done(&world);
    return 0;
}

/* Not one byte more than now. */
static void fill_disk(void)
{
    world.ram.space = used();
}

/* Until a batch has no file. */
static void sell_until_stuck(void)
{
    for (int i = 0; journal_space(world.journal) != JOURNAL_SPACE_NONE; i++) {
        assert_true(i < 1000);
        world_trade(&world, 25);
        int error = world_flush(&world);
        assert_true(error == 0 || error == ERR_NOSPACE);
    }
}

/* What is acknowledged is there, and the journal can be built on. */
static void expect_all_there_after(enum ram_crash how)
{
    uint64_t acknowledged = world.acknowledged;
    world_close(&world);
    world.ram.space = 0;
    ram_disk_crash(&world.ram, how, &world.prng);
    assert_int_equal(world_open(&world), 0);
    assert_true(world.found.last_lsn >= acknowledged);
    assert_true(world_is_at(&world, world.found.last_lsn));
    world_forget_after(&world, world.found.last_lsn);
    world_batch(&world, 25);
}

static void with_space_there_is_a_reserve(void **state)
{
    (void)state;
    assert_false(there_is(JOURNAL_RESERVE_NAME));
    assert_int_equal(journal_prepare_file(world.journal), 0);
    assert_true(there_is(JOURNAL_RESERVE_NAME));
    assert_int_equal(journal_space(world.journal), JOURNAL_SPACE_OK);
    uint64_t ops = world.ram.ops;
    assert_int_equal(journal_prepare_file(world.journal), 0); /* once */
    assert_int_equal(world.ram.ops, ops);
}

/* While the reserve is made, the journal thread takes the file that is prepared. */
static int take_next_meanwhile(void *context, enum ram_op op)
{
    uint64_t *files = context;
    (void)op;
    assert_int_equal(pthread_mutex_trylock(&world.journal->next_lock), 0);
    assert_int_equal(pthread_mutex_unlock(&world.journal->next_lock), 0);
    world.ram.hook = NULL;
    *files = world.journal->files.file_count;
    while (world.journal->files.file_count == *files) {
        world_batch(&world, 25);
    }
    return 0;
}

static void a_batch_does_not_wait_for_the_reserve(void **state)
{
    (void)state;
    uint64_t files = 0;
    assert_int_equal(journal_prepare_file(world.journal), 0);
    assert_int_equal(disk_remove(&world.ram.disk, JOURNAL_RESERVE_NAME), 0);
    world.journal->has_reserve = false;
    world.ram.hook = take_next_meanwhile;
    world.ram.hook_context = &files;
    assert_int_equal(journal_prepare_file(world.journal), 0);
    assert_true(files > 0 && world.journal->next == NULL);
    assert_true(there_is(JOURNAL_RESERVE_NAME));
    assert_int_equal(journal_prepare_file(world.journal), 0);
    assert_non_null(world.journal->next);
    assert_int_equal(journal_space(world.journal), JOURNAL_SPACE_OK);
    expect_all_there_after(RAM_DROP);
}

static void the_reserve_is_given_up_for_the_next_file(void **state)
{
    (void)state;
    assert_int_equal(journal_prepare_file(world.journal), 0);
    fill_disk();
    uint64_t files = world.journal->files.file_count;
    while (journal_space(world.journal) == JOURNAL_SPACE_OK) {
        world_batch(&world, 25); /* every one is acknowledged */
    }
    assert_int_equal(journal_space(world.journal), JOURNAL_SPACE_LOW);
    assert_false(there_is(JOURNAL_RESERVE_NAME));
    assert_true(world.journal->files.file_count > files + 1);
    /* It stays low, although a file can be made, until the reserve can be made, too. */
    assert_int_equal(journal_prepare_file(world.journal), ERR_NOSPACE);
    assert_int_equal(journal_space(world.journal), JOURNAL_SPACE_LOW);
    world.ram.space = 0;
    assert_int_equal(journal_prepare_file(world.journal), 0);
    assert_int_equal(journal_space(world.journal), JOURNAL_SPACE_OK);
    expect_all_there_after(RAM_DROP);
}

static void preparing_finds_the_disk_full_first(void **state)
{
    (void)state;
    fill_disk();
    assert_int_equal(journal_prepare_file(world.journal), ERR_NOSPACE);
    assert_int_equal(journal_space(world.journal), JOURNAL_SPACE_LOW);
    assert_false(there_is(JOURNAL_NEXT_NAME));
    world_batch(&world, 5); /* there is room in the present file */
    assert_false(journal_failed(world.journal));
}

/* What an earlier attempt left is removed, then what this one left, then the reserve. */
static int third_name_fails(void *context, enum ram_op op)
{
    uint64_t *names = context;
    return op == RAM_OP_NAME && ++*names == 3 ? ERR_IO : 0;
}

static void a_reserve_that_cannot_be_removed_helps_nobody(void **state)
{
    (void)state;
    assert_int_equal(journal_prepare_file(world.journal), 0);
    fill_disk();
    struct disk_file *next = world.journal->next;
    disk_close(&world.ram.disk, next);
    world.journal->next = NULL;
    assert_int_equal(disk_remove(&world.ram.disk, JOURNAL_NEXT_NAME), 0);
    world.ram.space -= world.options.file_bytes;
    uint64_t names = 0;
    world.ram.hook = third_name_fails;
    world.ram.hook_context = &names;
    assert_int_equal(journal_prepare_file(world.journal), ERR_IO);
    world.ram.hook = NULL;
    assert_true(there_is(JOURNAL_RESERVE_NAME));
    assert_int_equal(journal_space(world.journal), JOURNAL_SPACE_LOW);
    assert_false(journal_failed(world.journal));
    world.ram.space = 0;
    assert_int_equal(journal_prepare_file(world.journal), 0);
    assert_true(there_is(JOURNAL_RESERVE_NAME));
}

static void a_batch_without_a_file_waits_and_is_written_later(void **state)
{
    (void)state;
    for (int how = 0; how < 2; how++) {
        world_done(&world);
        set_up_with(how * 2 * 16384ULL);
        fill_disk();
        sell_until_stuck();
        assert_false(journal_failed(world.journal));
        uint64_t durable = journal_durable_lsn(world.journal);
        assert_true(journal_last_lsn(world.journal) > durable);
        bool wrote = true;
        assert_true(
            journal_wait(world.journal)); /* there is something to do, so it does not sleep */
        assert_int_equal(journal_flush(world.journal, &wrote), ERR_NOSPACE);
        assert_int_equal(journal_durable_lsn(world.journal), durable);
        world_trade(&world, 3); /* follows what the ledger did: it has room in the other buffer */
        world.ram.space = 0;
        assert_int_equal(journal_flush(world.journal, &wrote), 0);
        assert_true(wrote);
        assert_int_equal(journal_durable_lsn(world.journal), journal_last_lsn(world.journal) - 3);
        assert_int_equal(world_flush(&world), 0);
        assert_int_equal(journal_space(world.journal), JOURNAL_SPACE_LOW);
        assert_int_equal(journal_prepare_file(world.journal), 0);
        assert_int_equal(journal_space(world.journal), JOURNAL_SPACE_OK);
        world_batch(&world, 25);
        expect_all_there_after(RAM_DROP);
    }
}

static void a_restart_forgets_what_waited(void **state)
{
    (void)state;
    for (int how = 0; how < 3; how++) {
        world_done(&world);
        set_up_with(0);
        fill_disk();
        sell_until_stuck();
        uint64_t acknowledged = world.acknowledged;
        expect_all_there_after((enum ram_crash)how);
        assert_int_equal(world.found.last_lsn, acknowledged);
    }
}

/* The name of the new file may be on the disk or not: nobody knows. */
static int names_do_not_sync(void *context, enum ram_op op)
{
    (void)context;
    static int names;
    if (op != RAM_OP_NAME) {
        return 0;
    }
    names++; /* remove, rename, sync of names */
    return names % 3 == 0 ? ERR_NOSPACE : 0;
}

static void a_name_that_cannot_be_synced_is_final(void **state)
{
    (void)state;
    world.ram.hook = names_do_not_sync;
    int error = 0;
    for (int i = 0; error == 0; i++) {
        assert_true(i < 1000);
        world_trade(&world, 25);
        error = world_flush(&world);
    }
    world.ram.hook = NULL;
    assert_int_equal(error, ERR_NOSPACE);
    assert_true(journal_failed(world.journal));
    assert_string_equal(journal_failed_why(world.journal), "a write or sync of the journal failed");
    expect_all_there_after(RAM_DROP);
}

static int renames_fail(void *context, enum ram_op op)
{
    uint64_t *names = context;
    return op == RAM_OP_NAME && ++*names == 2 ? ERR_NOSPACE : 0; /* remove, rename */
}

static void a_file_that_cannot_be_named_is_made_again(void **state)
{
    (void)state;
    uint64_t names = 0;
    world.ram.hook = renames_fail;
    world.ram.hook_context = &names;
    sell_until_stuck();
    assert_null(world.journal->next);
    assert_false(there_is(JOURNAL_NEXT_NAME));
    world.ram.hook = NULL;
    assert_int_equal(world_flush(&world), 0);
    expect_all_there_after(RAM_DROP);
}

static void a_full_disk_under_a_file_that_has_its_size_is_final(void **state)
{
    (void)state;
    world.ram.fail_at = world.ram.ops + 1;
    world.ram.fail_code = ERR_NOSPACE;
    world_trade(&world, 1);
    assert_int_equal(world_flush(&world), ERR_NOSPACE); /* its sync may have been what failed */
    assert_true(journal_failed(world.journal));
    assert_int_equal(journal_prepare_file(world.journal), 0); /* it prepares nothing more */
}

static int told;

static void count_tells(void *context)
{
    (void)context;
    told++;
}

static void count_wake(void *context)
{
    ++*(int *)context;
}

static void somebody_else_may_end_the_promises(void **state)
{
    (void)state;
    uint64_t lsn = 0;
    bool wrote = false;
    told = 0;
    journal_listen(world.journal, count_tells, NULL);
    assert_string_equal(journal_failed_why(world.journal), "");
    world_trade(&world, 1);
    journal_fail(world.journal, "the folder is gone");
    journal_fail(world.journal, "and another reason");
    assert_int_equal(told, 2);
    assert_true(journal_failed(world.journal));
    assert_string_equal(journal_failed_why(world.journal), "the folder is gone");
    assert_false(journal_has_room(world.journal, 1));
    assert_int_equal(journal_append(world.journal, (const uint8_t *)"x", 1, 1, &lsn),
                     ERR_JOURNAL_FAILED);
    assert_int_equal(journal_flush(world.journal, &wrote), ERR_JOURNAL_FAILED);
}

/* The journal is failed while its batch is being written. */
static int fail_meanwhile(void *context, enum ram_op op)
{
    if (op == RAM_OP_WRITE_DURABLE) {
        journal_fail(context, "the folder is gone");
    }
    return 0;
}

/* A loop that sleeps with an answer: it would answer a second late without being woken. */
static void loops_that_wait_are_woken(void **state)
{
    (void)state;
    struct waker loops[2];
    int woken[2] = {0, 0};
    for (int i = 0; i < 2; i++) {
        waker_init(&loops[i], count_wake, &woken[i]);
    }
    journal_set_wakers(world.journal, loops, 2);
    world_trade(&world, 2);
    waker_sleepy(&loops[0], journal_last_lsn(world.journal));
    waker_sleepy(&loops[1], journal_last_lsn(world.journal) + 1);
    assert_int_equal(world_flush(&world), 0);
    assert_int_equal(woken[0], 1);
    assert_int_equal(woken[1], 0); /* its record is still to come */

    fill_disk();
    int error = 0;
    for (int i = 0; error == 0; i++) {
        assert_true(i < 1000);
        world_trade(&world, 25);
        waker_sleepy(&loops[0], journal_last_lsn(world.journal));
        error = world_flush(&world);
        assert_int_equal(woken[0], 2 + i);
    }
    assert_int_equal(error, ERR_NOSPACE); /* the last of them does not become durable */

    waker_sleepy(&loops[0], journal_last_lsn(world.journal));
    woken[0] = 0;
    journal_fail(world.journal, "the folder is gone");
    assert_int_equal(woken[0], 1);
}

static void a_batch_that_was_being_written_then_is_not_acknowledged(void **state)
{
    (void)state;
    uint64_t durable = journal_durable_lsn(world.journal);
    world.ram.hook = fail_meanwhile;
    world.ram.hook_context = world.journal;
    world_trade(&world, 1);
    assert_int_equal(world_flush(&world), ERR_JOURNAL_FAILED);
    assert_int_equal(journal_durable_lsn(world.journal), durable);
    world.ram.hook = NULL;
}

static void the_present_file_has_a_name(void **state)
{
    (void)state;
    char name[JOURNAL_NAME_BYTES];
    journal_current_name(world.journal, name, sizeof(name));
    assert_true(there_is(name));
}

int main(void)
{
#define TEST(name) cmocka_unit_test_setup_teardown(name, set_up, tear_down)
    const struct CMUnitTest tests[] = {
        TEST(with_space_there_is_a_reserve),
        TEST(a_batch_does_not_wait_for_the_reserve),
        TEST(the_reserve_is_given_up_for_the_next_file),
        TEST(preparing_finds_the_disk_full_first),
        TEST(a_reserve_that_cannot_be_removed_helps_nobody),
        TEST(a_batch_without_a_file_waits_and_is_written_later),
        TEST(a_restart_forgets_what_waited),
        TEST(a_name_that_cannot_be_synced_is_final),
        TEST(a_file_that_cannot_be_named_is_made_again),
        TEST(a_full_disk_under_a_file_that_has_its_size_is_final),
        TEST(somebody_else_may_end_the_promises),
        TEST(loops_that_wait_are_woken),
        TEST(a_batch_that_was_being_written_then_is_not_acknowledged),
        TEST(the_present_file_has_a_name),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
