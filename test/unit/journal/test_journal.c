/* The journal: append, group commit, roll-over, latching, and what a reopening finds. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "base/err.h"
#include "journal/journal_private.h"
#include "journal_fixture.h"

static void fresh_folder_gets_one_file_of_zeros(void **state)
{
    (void)state;
    size_t size;
    uint8_t *bytes = ram_disk_bytes(&world.ram, "0000000000000001.journal", &size);
    assert_non_null(bytes);
    assert_int_equal(size, world.options.file_bytes);
    for (size_t i = JOURNAL_SECTOR; i < size; i++) {
        assert_int_equal(bytes[i], 0);
    }
    assert_int_equal(world.found.last_lsn, 0);
    assert_int_equal(world.found.files, 1);
    assert_int_equal(world.found.snapshot_lsn, 0);
    assert_string_equal(world.found.where, "");
    assert_int_equal(journal_durable_lsn(world.journal), 0);
    assert_int_equal(journal_last_lsn(world.journal), 0);
}

static void records_are_durable_after_a_flush_and_not_before(void **state)
{
    (void)state;
    world_start_sale(&world);
    assert_int_equal(journal_last_lsn(world.journal), 4);
    assert_int_equal(journal_durable_lsn(world.journal), 0);
    bool wrote = false;
    assert_int_equal(journal_flush(world.journal, &wrote), 0);
    assert_true(wrote);
    assert_int_equal(journal_durable_lsn(world.journal), 4);
    assert_int_equal(journal_flush(world.journal, &wrote), 0);
    assert_false(wrote);
}

static void a_reopened_journal_gives_the_same_gate(void **state)
{
    (void)state;
    world_start_sale(&world);
    for (int i = 0; i < 20; i++) {
        world_batch(&world, 1 + i);
    }
    uint64_t last = world.count;
    for (int times = 0; times < 3; times++) {
        reopen();
        assert_int_equal(world.found.last_lsn, last);
        assert_int_equal(world.found.replayed, last);
        assert_int_equal(world.found.torn_bytes, 0);
        assert_true(world.found.files > 1);
        assert_true(world.found.highest_ms == world.box.gate.highest_ms);
        assert_int_equal(journal_durable_lsn(world.journal), last);
        assert_true(world_is_at(&world, last));
        gate_audit(&world.box.gate);
    }
    world_batch(&world, 5);
    reopen();
    assert_true(world_is_at(&world, last + 5));
}

static void orders_know_the_lsn_of_their_last_change(void **state)
{
    (void)state;
    world_start_sale(&world);
    for (int i = 0; i < 10; i++) {
        world_batch(&world, 20);
    }
    struct gate_box live = world.box; /* its LSNs were set when the records were appended */
    world.box.memory = NULL;
    reopen();
    assert_true(gate_same(&live.gate, &world.box.gate));
    gate_box_done(&live);
}

static void what_was_not_flushed_is_gone(void **state)
{
    (void)state;
    world_start_sale(&world);
    world_batch(&world, 3);
    world_trade(&world, 3);
    reopen();
    assert_int_equal(world.found.last_lsn, 7);
    assert_true(world_is_at(&world, 7));
}

static void a_batch_may_fill_the_buffer(void **state)
{
    (void)state;
    world_start_sale(&world);
    assert_int_equal(world_flush(&world), 0);
    size_t n = 0;
    uint64_t used = 1;
    uint64_t size = 0;
    journal_fill(world.journal, &used, &size);
    assert_true(used < size);
    while (journal_has_room(world.journal, 1)) {
        assert_true(journal_has_room(world.journal, 0));
        world_trade(&world, 1);
        n++;
    }
    assert_true(n > 100);
    journal_fill(world.journal, &used, &size);
    assert_true(used <= size && size - used < JOURNAL_RECORD_MAX);
    struct gate_command command = world.commands[world.count - 1];
    uint64_t lsn = 99;
    assert_int_equal(gate_content_append(world.journal, &command, &lsn), ERR_FULL);
    assert_int_equal(lsn, 99);
    assert_int_equal(world_flush(&world), 0);
    assert_true(journal_has_room(world.journal, 100));
    reopen();
    assert_true(world_is_at(&world, world.count));
    assert_int_equal(world.found.files, 2); /* no room behind the first batch */
}

static void room_is_counted_in_records_of_any_kind(void **state)
{
    (void)state;
    size_t all = (3 * JOURNAL_SECTOR - JOURNAL_HEAD_BYTES) / JOURNAL_RECORD_MAX;
    assert_true(journal_has_room(world.journal, all));
    assert_false(journal_has_room(world.journal, all + 1));
}

static void a_prepared_file_is_used_at_the_roll_over(void **state)
{
    (void)state;
    size_t size;
    assert_int_equal(journal_prepare_file(world.journal), 0);
    assert_non_null(ram_disk_bytes(&world.ram, "next.tmp", &size));
    assert_int_equal(size, world.options.file_bytes);
    uint64_t writes = world.ram.writes;
    assert_int_equal(journal_prepare_file(world.journal), 0); /* once is enough */
    assert_int_equal(world.ram.writes, writes);
    world_start_sale(&world);
    world_batch(&world, 1);
    world_batch(&world, 1);
    world_batch(&world, 1);
    assert_non_null(ram_disk_bytes(&world.ram, "next.tmp", &size));
    writes = world.ram.writes;
    world_batch(&world, 1);
    assert_null(ram_disk_bytes(&world.ram, "next.tmp", &size));
    assert_non_null(ram_disk_bytes(&world.ram, "0000000000000004.journal", &size));
    assert_int_equal(world.ram.writes - writes, 2 * JOURNAL_SECTOR); /* header and batch */
    world_batch(&world, 150);
    world_batch(&world, 150); /* none prepared: made right there */
    reopen();
    assert_true(world_is_at(&world, world.count));
}

static void leftovers_of_a_killed_process_are_removed(void **state)
{
    (void)state;
    size_t size;
    ram_disk_put(&world.ram, "next.tmp", "half", 4);
    ram_disk_put(&world.ram, "snapshot.tmp", "half", 4);
    ram_disk_put(&world.ram, "notes.txt", "not ours", 8);
    ram_disk_put(&world.ram, "000000000000000G.journal", "not ours", 8);
    ram_disk_put(&world.ram, "0000000000000009.journal.old", "not ours", 8);
    reopen();
    assert_null(ram_disk_bytes(&world.ram, "next.tmp", &size));
    assert_null(ram_disk_bytes(&world.ram, "snapshot.tmp", &size));
    assert_non_null(ram_disk_bytes(&world.ram, "notes.txt", &size));
    ram_disk_put(&world.ram, "next.tmp", "half", 4); /* of a failed preparation */
    assert_int_equal(journal_prepare_file(world.journal), 0);
}

static void the_file_size_may_change_between_starts(void **state)
{
    (void)state;
    world_start_sale(&world);
    world_batch(&world, 10);
    world.options.file_bytes = 16 * JOURNAL_SECTOR;
    world.options.buffer_bytes = 8 * JOURNAL_SECTOR;
    reopen();
    world_batch(&world, 200);
    size_t size;
    assert_non_null(ram_disk_bytes(&world.ram, "0000000000000002.journal", &size));
    assert_int_equal(size, 16 * JOURNAL_SECTOR);
    world.options.file_bytes = 2 * JOURNAL_SECTOR;
    reopen();
    while (journal_has_room(world.journal, 1)) {
        world_trade(&world, 1);
    }
    assert_int_equal(world_flush(&world), 0);
    world_batch(&world, 1);
    world_batch(&world, 1);
    reopen();
    assert_true(world_is_at(&world, world.count));
}

static int moved;

static void on_moved(void *context)
{
    assert_ptr_equal(context, &moved);
    moved++;
}

static void the_listener_hears_of_each_batch_and_of_the_latch(void **state)
{
    (void)state;
    moved = 0;
    journal_listen(world.journal, on_moved, &moved);
    world_start_sale(&world);
    assert_int_equal(world_flush(&world), 0);
    assert_int_equal(moved, 1);
    assert_int_equal(world_flush(&world), 0); /* nothing to write, nothing to say */
    assert_int_equal(moved, 1);
    world_trade(&world, 1);
    world.ram.fail_at = world.ram.ops + 1;
    world.ram.fail_code = ERR_IO;
    assert_int_equal(world_flush(&world), ERR_IO);
    assert_int_equal(moved, 2);
}

static void a_failed_write_latches_until_the_next_start(void **state)
{
    (void)state;
    static const int codes[] = {ERR_IO, ERR_NOSPACE};
    world_start_sale(&world);
    assert_int_equal(world_flush(&world), 0);
    for (size_t i = 0; i < 2; i++) {
        uint64_t durable = journal_durable_lsn(world.journal);
        world_trade(&world, 2);
        world.ram.fail_at = world.ram.ops + 1;
        world.ram.fail_code = codes[i];
        assert_false(journal_failed(world.journal));
        assert_int_equal(world_flush(&world), codes[i]);
        world.ram.fail_at = 0;
        assert_true(journal_failed(world.journal));
        assert_false(journal_has_room(world.journal, 1));
        assert_int_equal(world_flush(&world), ERR_JOURNAL_FAILED);
        assert_int_equal(journal_prepare_file(world.journal), 0);
        assert_false(journal_wait(world.journal));
        uint64_t lsn = 99;
        assert_int_equal(gate_content_append(world.journal, &world.commands[3], &lsn),
                         ERR_JOURNAL_FAILED);
        assert_int_equal(lsn, 99);
        assert_int_equal(journal_durable_lsn(world.journal), durable);
        reopen(); /* the write reached the cache all the same: then it counts */
        assert_int_equal(world.found.last_lsn, world.count);
        assert_true(world_is_at(&world, world.count));
        assert_false(journal_failed(world.journal));
    }
}

static void a_full_disk_latches_at_the_roll_over_and_space_heals_it(void **state)
{
    (void)state;
    world_start_sale(&world);
    world.ram.space = world.options.file_bytes + JOURNAL_SECTOR;
    for (int i = 0; i < 3; i++) {
        world_batch(&world, 1);
    }
    uint64_t durable = world.count;
    world_trade(&world, 1);
    assert_int_equal(world_flush(&world), ERR_NOSPACE);
    assert_int_equal(journal_durable_lsn(world.journal), durable);
    world_close(&world);
    assert_int_equal(world_open(&world), 0); /* the disk is still full: reading goes on */
    assert_int_equal(world.found.last_lsn, durable);
    world_forget_after(&world, durable);
    world_trade(&world, 1);
    assert_int_equal(journal_prepare_file(world.journal), ERR_NOSPACE); /* not final */
    assert_false(journal_failed(world.journal));
    world.ram.space = 0;
    assert_int_equal(world_flush(&world), 0);
    reopen();
    assert_true(world_is_at(&world, durable + 1));
}

static void waiting_ends_with_work_and_with_stop(void **state)
{
    (void)state;
    world_start_sale(&world);
    assert_true(journal_wait(world.journal));
    assert_int_equal(world_flush(&world), 0);
    world_trade(&world, 1);
    journal_stop(world.journal);
    assert_false(journal_wait(world.journal));
    assert_int_equal(world_flush(&world), 0); /* what is appended is flushed all the same */
    assert_false(journal_wait(world.journal));
    assert_int_equal(journal_durable_lsn(world.journal), 5);
}

static void what_was_visible_at_a_start_stays(void **state)
{
    (void)state;
    /* The process died before its last write was synced; the next one reads it from the cache,
     * goes on after it, and then the power fails. */
    world_start_sale(&world);
    world_batch(&world, 1);
    world_trade(&world, 1);
    world.ram.fail_at = world.ram.ops + 1;
    world.ram.fail_code = ERR_IO;
    assert_int_equal(world_flush(&world), ERR_IO);
    reopen();
    assert_int_equal(world.found.last_lsn, 6);
    world_batch(&world, 1);
    world_close(&world);
    ram_disk_crash(&world.ram, RAM_DROP, &world.prng);
    assert_int_equal(world_open(&world), 0);
    assert_true(world_is_at(&world, 7));
}

static void a_lying_disk_is_what_loses_records(void **state)
{
    (void)state; /* proves that the crashes of these tests bite */
    world_start_sale(&world);
    world.ram.sync_is_lie = true;
    world_batch(&world, 1);
    world_close(&world);
    ram_disk_crash(&world.ram, RAM_DROP, &world.prng);
    assert_int_equal(world_open(&world), 0);
    assert_int_equal(world.found.last_lsn, 0);
}

static void a_record_that_does_not_follow_is_damage(void **state)
{
    (void)state;
    world_start_sale(&world);
    world_batch(&world, 1);
    uint64_t lsn;
    assert_int_equal(gate_content_append(world.journal, &world.commands[0], &lsn), 0); /* SAME */
    assert_int_equal(world_flush(&world), 0);
    world_close(&world);
    assert_int_equal(world_open(&world), ERR_CORRUPT);
    assert_string_equal(world.found.where, "0000000000000001.journal:8192");
    assert_string_equal(world.found.why, "a record does not follow from what came before");
}

static void a_gate_that_is_too_small_is_said_so(void **state)
{
    (void)state;
    world_start_sale(&world);
    world_batch(&world, 100);
    world_close(&world);
    struct gate_box box;
    gate_box_init_sizes(&box,
                        (struct gate_sizes){.orders = 8, .buyers = 8, .items = 8, .sales = 4});
    struct journal *journal = NULL;
    struct journal_found found;
    assert_int_equal(gate_content_open(&world.ram.disk, world.options, &box.gate, &journal, &found),
                     ERR_FULL);
    assert_string_equal(found.why, "it does not fit the configured sizes");
    assert_null(journal);
    gate_box_done(&box);
}

int main(void)
{
#define TEST(name) cmocka_unit_test_setup_teardown(name, set_up_empty, tear_down)
    const struct CMUnitTest tests[] = {
        TEST(fresh_folder_gets_one_file_of_zeros),
        TEST(records_are_durable_after_a_flush_and_not_before),
        TEST(a_reopened_journal_gives_the_same_gate),
        TEST(orders_know_the_lsn_of_their_last_change),
        TEST(what_was_not_flushed_is_gone),
        TEST(a_batch_may_fill_the_buffer),
        TEST(room_is_counted_in_records_of_any_kind),
        TEST(a_prepared_file_is_used_at_the_roll_over),
        TEST(leftovers_of_a_killed_process_are_removed),
        TEST(the_file_size_may_change_between_starts),
        TEST(the_listener_hears_of_each_batch_and_of_the_latch),
        TEST(a_failed_write_latches_until_the_next_start),
        TEST(a_full_disk_latches_at_the_roll_over_and_space_heals_it),
        TEST(waiting_ends_with_work_and_with_stop),
        TEST(what_was_visible_at_a_start_stays),
        TEST(a_lying_disk_is_what_loses_records),
        TEST(a_record_that_does_not_follow_is_damage),
        TEST(a_gate_that_is_too_small_is_said_so),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
