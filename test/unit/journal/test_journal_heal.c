/*
 * A start that meets faults while it reads much and heals the last file: files and snapshots
 * of several pieces of JOURNAL_CHUNK_BYTES, a torn tail, a file that is too short or too long. Each
 * disk operation of the start fails once; the start says so, and the next one finds everything.
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

static void set_up_with(uint64_t file_bytes, uint32_t buffer_bytes)
{
    world_init(&world, 9);
    world.options =
        (struct journal_options){.file_bytes = file_bytes, .buffer_bytes = buffer_bytes};
    world.sizes.orders = world.sizes.buyers = 4000;
    assert_int_equal(world_open(&world), 0);
    world_start_sale(&world);
    assert_int_equal(world_flush(&world), 0);
}

/* One sector behind the header: what is written last begins right behind the first batch. */
static int set_up(void **state)
{
    (void)state;
    set_up_with(4 * JOURNAL_CHUNK_BYTES, 2 * JOURNAL_CHUNK_BYTES);
    return 0;
}

static int tear_down(void **state)
{
    (void)state;
    world_done(&world);
    return 0;
}

/* The file and offset where the next batch would begin. */
static uint64_t end_of_log(char ret_name[JOURNAL_NAME_BYTES])
{
    const struct journal_files *catalog = &world.journal->files;
    const struct journal_file *last = &catalog->files[catalog->file_count - 1];
    journal_name(last->first_batch, JOURNAL_FILE_SUFFIX, ret_name);
    return last->end;
}

/* Opens with operation n failing for every n, each time on a fresh copy, and then without. What
 * found.torn_bytes says at the first start that goes well is returned. */
static uint64_t sweep(uint64_t last_lsn, uint64_t *ret_failures)
{
    static const int codes[] = {ERR_IO, ERR_NOSPACE};
    struct ram_disk as_found;
    ram_disk_copy(&world.ram, &as_found);
    uint64_t torn = UINT64_MAX;
    *ret_failures = 0;
    for (uint64_t n = 1; torn == UINT64_MAX; n++) {
        for (size_t i = 0; i < 2; i++) {
            ram_disk_done(&world.ram);
            ram_disk_copy(&as_found, &world.ram);
            world.ram.fail_at = n;
            world.ram.fail_code = codes[i];
            int error = world_open(&world);
            bool fired = world.ram.ops >= n;
            assert_int_equal(error, fired ? codes[i] : 0); /* none is swallowed */
            *ret_failures += fired;
            if (!fired) {
                torn = world.found.torn_bytes;
            } else { /* the process ends, the power with it; the next one finds it all */
                ram_disk_crash(&world.ram, n % 2 == 0 ? RAM_DROP : RAM_MIX, &world.prng);
                ram_disk_calm(&world.ram);
                assert_int_equal(world_open(&world), 0);
            }
            assert_int_equal(world.found.last_lsn, last_lsn);
            assert_true(world_is_at(&world, last_lsn));
            world_close(&world);
            ram_disk_calm(&world.ram);
            assert_int_equal(world_open(&world), 0);
            assert_int_equal(world.found.torn_bytes, 0);
            assert_string_equal(world.found.where, "");
            world_close(&world);
        }
        assert_true(n < 200);
    }
    ram_disk_done(&as_found);
    return torn;
}

static void a_long_clean_file(void **state)
{
    (void)state;
    world_batch(&world, 3500); /* over the edge of the first piece that is read */
    world_close(&world);
    uint64_t failures;
    assert_int_equal(sweep(world.count, &failures), 0);
    assert_true(failures > 10);
}

static void a_tail_torn_over_several_pieces(void **state)
{
    (void)state;
    char name[JOURNAL_NAME_BYTES];
    uint64_t durable = world.count;
    uint64_t end = end_of_log(name);
    world_batch(&world, 3000);
    uint64_t torn_to = end_of_log(name);
    world_close(&world);
    size_t size;
    uint8_t *bytes = ram_disk_bytes(&world.ram, name, &size);
    bytes[end + 1000] ^= 1;
    /* Behind it, too, something that begins like a batch and would reach into the next piece. */
    uint64_t other = JOURNAL_SECTOR + JOURNAL_CHUNK_BYTES - 2 * JOURNAL_SECTOR;
    assert_true(other > torn_to && other % JOURNAL_SECTOR == 0);
    memcpy(bytes + other, bytes + end, JOURNAL_HEAD_BYTES);
    uint64_t failures;
    assert_int_equal(sweep(durable, &failures), other + JOURNAL_HEAD_BYTES - end);
    assert_true(failures > 10);
}

static void a_torn_file_cut_short_or_too_long(void **state)
{
    (void)state;
    char name[JOURNAL_NAME_BYTES];
    uint64_t durable = world.count;
    uint64_t end = end_of_log(name);
    world_batch(&world, 30);
    world_close(&world);
    size_t size;
    ram_disk_bytes(&world.ram, name, &size)[end + 100] ^= 1;
    static const int by[] = {-5000, 5000};
    struct ram_disk torn;
    ram_disk_copy(&world.ram, &torn);
    for (size_t i = 0; i < 2; i++) {
        ram_disk_done(&world.ram);
        ram_disk_copy(&torn, &world.ram);
        ram_disk_resize(&world.ram, name, (size_t)((int64_t)size + by[i]));
        uint64_t failures;
        assert_true(sweep(durable, &failures) > 0);
        assert_true(failures > 10);
        size_t healed;
        assert_non_null(ram_disk_bytes(&world.ram, name, &healed));
        assert_int_equal(healed, size);
    }
    ram_disk_done(&torn);
}

static void a_snapshot_of_several_pieces(void **state)
{
    (void)state;
    world_done(&world);
    set_up_with(JOURNAL_CHUNK_BYTES / 8, JOURNAL_CHUNK_BYTES / 8);
    for (uint32_t i = 1; i <= 4000; i++) {
        struct gate_command reserve = {.kind = GATE_RESERVE,
                                       .now_ms = 1700000000000,
                                       .ticket_expires_ms = 1800000000000,
                                       .id = order_id_fresh(10, 1700000000000, i),
                                       .item = 10,
                                       .user = i,
                                       .qty = 1};
        assert_int_equal(world_apply(&world, &reserve), 0);
        assert_int_equal(i % 200 == 0 ? world_flush(&world) : 0, 0);
    }
    assert_int_equal(world.count, 4004);
    struct gate_box second;
    gate_box_init_sizes(&second, world.sizes);
    uint64_t lsn;
    assert_int_equal(gate_content_snapshot(world.journal, &second.gate, &lsn), 0);
    gate_box_done(&second);
    assert_true(world.journal->files.snapshots[0].bytes > JOURNAL_CHUNK_BYTES);
    world_close(&world);
    uint64_t failures;
    assert_int_equal(sweep(world.count, &failures), 0);
    assert_true(failures > 10);
}

int main(void)
{
#define TEST(name) cmocka_unit_test_setup_teardown(name, set_up, tear_down)
    const struct CMUnitTest tests[] = {
        TEST(a_long_clean_file),
        TEST(a_tail_torn_over_several_pieces),
        TEST(a_torn_file_cut_short_or_too_long),
        TEST(a_snapshot_of_several_pieces),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
