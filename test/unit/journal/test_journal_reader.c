/* Reading the journal back while it is written. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "base/crc32c.h"
#include "base/err.h"
#include "journal/journal_private.h"
#include "journal_fixture.h"

static struct journal_reader *reader_at(uint64_t after_lsn)
{
    struct journal_reader *reader = NULL;
    assert_int_equal(journal_reader_new(world.journal, after_lsn, &reader), 0);
    return reader;
}

/* Reads on from `lsn` until there is nothing more; returns the last LSN seen. */
static uint64_t read_all(struct journal_reader *reader, uint64_t lsn)
{
    for (;;) {
        uint64_t got;
        struct gate_command command;
        int error = gate_content_next(reader, &got, &command);
        if (error == ERR_AGAIN) {
            return lsn;
        }
        assert_int_equal(error, 0);
        assert_int_equal(got, lsn + 1);
        lsn = got;
        const struct gate_command *want = &world.commands[lsn - 1];
        assert_true(command.kind == want->kind && command.now_ms == want->now_ms &&
                    command.user == want->user && command.event == want->event);
    }
}

static void a_reader_follows_the_writer(void **state)
{
    (void)state;
    struct journal_reader *reader = reader_at(0);
    uint64_t lsn = read_all(reader, 0);
    assert_int_equal(lsn, 4);
    for (int i = 0; i < 40; i++) {
        world_trade(&world, 1 + i * 2);
        assert_int_equal(read_all(reader, lsn), lsn); /* appended is not durable */
        assert_int_equal(world_flush(&world), 0);
        lsn = read_all(reader, lsn);
        assert_int_equal(lsn, world.count);
    }
    assert_true(world.journal->files.file_count > 4);
    journal_reader_free(reader);
}

static void it_may_begin_anywhere(void **state)
{
    (void)state;
    for (int i = 0; i < 12; i++) {
        world_batch(&world, 10);
    }
    for (uint64_t after = 0; after <= world.count + 3; after++) {
        struct journal_reader *reader = reader_at(after);
        assert_int_equal(read_all(reader, after), after > world.count ? after : world.count);
        journal_reader_free(reader);
    }
    struct journal_reader *ahead = reader_at(world.count + 3);
    assert_int_equal(read_all(ahead, world.count + 3), world.count + 3);
    uint64_t after = world.count + 3;
    world_batch(&world, 10);
    assert_int_equal(read_all(ahead, after), world.count);
    journal_reader_free(ahead);
}

static void a_batch_larger_than_one_read(void **state)
{
    (void)state;
    world.options.file_bytes = 4 * JOURNAL_CHUNK_BYTES;
    world.options.buffer_bytes = 2 * JOURNAL_CHUNK_BYTES;
    world.sizes.orders = world.sizes.buyers = 4000;
    world_close(&world);
    assert_int_equal(world_open(&world), 0);
    for (int i = 0; i < 7; i++) { /* the first into the old small file, the rest behind */
        world_trade(&world, 500);
    }
    struct gate_command skip = {.kind = GATE_SKIP};
    uint64_t lsn = world.count;
    while (journal_has_room(world.journal, 1)) { /* more than the world keeps in mind */
        skip.event = world.event + lsn;
        assert_int_equal(gate_content_append(world.journal, &skip, &lsn), 0);
    }
    assert_int_equal(world_flush(&world), 0);
    struct journal_reader *reader = reader_at(world.count);
    uint64_t got = 0;
    struct gate_command command;
    for (uint64_t want = world.count + 1; want <= lsn; want++) {
        assert_int_equal(gate_content_next(reader, &got, &command), 0);
        assert_int_equal(got, want);
    }
    assert_int_equal(gate_content_next(reader, &got, &command), ERR_AGAIN);
    journal_reader_free(reader);
}

static void nothing_beyond_the_durable_end_is_read(void **state)
{
    (void)state;
    struct journal_reader *reader = reader_at(0);
    uint64_t lsn = read_all(reader, 0);
    /* A batch that reached the cache, whole and valid, but was never acknowledged. */
    world_trade(&world, 1);
    world.ram.fail_at = world.ram.ops + 1;
    world.ram.fail_code = ERR_IO;
    assert_int_equal(world_flush(&world), ERR_IO);
    assert_int_equal(read_all(reader, lsn), lsn);
    struct journal_reader *other = reader_at(0);
    assert_int_equal(read_all(other, 0), lsn);
    journal_reader_free(other);
    journal_reader_free(reader);
}

static void trim_below(uint64_t booked_lsn)
{
    for (int i = 0; i < 3; i++) {
        while (!journal_snapshot_due(world.journal)) {
            world_batch(&world, 20);
        }
        struct gate_box second;
        gate_box_init(&second);
        uint64_t lsn;
        assert_int_equal(gate_content_snapshot(world.journal, &second.gate, &lsn), 0);
        gate_box_done(&second);
    }
    uint32_t removed;
    assert_int_equal(journal_trim(world.journal, booked_lsn, &removed), 0);
    assert_true(removed > 0);
}

static void what_is_trimmed_away_is_not_found(void **state)
{
    (void)state;
    struct journal_reader *slow = reader_at(0);
    uint64_t lsn;
    struct gate_command command;
    assert_int_equal(gate_content_next(slow, &lsn, &command), 0);
    trim_below(UINT64_MAX);
    while (lsn < 4) { /* the batch at hand is complete */
        assert_int_equal(gate_content_next(slow, &lsn, &command), 0);
    }
    assert_int_equal(gate_content_next(slow, &lsn, &command), ERR_NOTFOUND);
    struct journal_reader *late = reader_at(0);
    assert_int_equal(gate_content_next(late, &lsn, &command), ERR_NOTFOUND);
    journal_reader_free(late);
    journal_reader_free(slow);
    uint64_t first = world.journal->files.files[0].first_lsn;
    late = reader_at(first - 1);
    assert_int_equal(read_all(late, first - 1), world.count);
    journal_reader_free(late);
    journal_reader_free(NULL);
}

static void damage_and_failures_are_told(void **state)
{
    (void)state;
    world_batch(&world, 5);
    world_batch(&world, 5);
    uint64_t lsn;
    struct gate_command command;
    struct journal_reader *reader = reader_at(0);
    world.ram.fail_at = world.ram.ops + 1; /* open */
    world.ram.fail_code = ERR_IO;
    assert_int_equal(gate_content_next(reader, &lsn, &command), ERR_IO);
    world.ram.fail_at = world.ram.ops + 2; /* read */
    assert_int_equal(gate_content_next(reader, &lsn, &command), ERR_IO);
    world.ram.fail_at = 0;
    assert_int_equal(read_all(reader, 0), world.count); /* it may be asked again */
    journal_reader_free(reader);
    size_t size;
    uint8_t *bytes = ram_disk_bytes(&world.ram, "0000000000000001.journal", &size);
    bytes[2 * JOURNAL_SECTOR + 60] ^= 1;
    reader = reader_at(4);
    assert_int_equal(gate_content_next(reader, &lsn, &command), ERR_CORRUPT);
    assert_int_equal(gate_content_next(reader, &lsn, &command), ERR_CORRUPT);
    journal_reader_free(reader);
    /* A whole batch whose record is none, then one with another LSN. */
    static const struct {
        size_t field;
        uint32_t value;
    } wrong[] = {{JOURNAL_HEAD_BYTES, 0xffff}, {16, 99}};
    for (size_t i = 0; i < 2; i++) {
        uint8_t *batch = bytes + 2 * JOURNAL_SECTOR;
        store_le32(batch + wrong[i].field, wrong[i].value);
        memset(batch + 44, 0, 4);
        store_le32(batch + 44,
                   crc32c(0, batch, JOURNAL_HEAD_BYTES + (size_t)load_le32(batch + 36)));
        reader = reader_at(4);
        assert_int_equal(gate_content_next(reader, &lsn, &command), ERR_CORRUPT);
        journal_reader_free(reader);
    }
    /* Another whole batch in its place. */
    memcpy(bytes + 2 * JOURNAL_SECTOR, bytes + 3 * JOURNAL_SECTOR, JOURNAL_SECTOR);
    reader = reader_at(4);
    assert_int_equal(gate_content_next(reader, &lsn, &command), ERR_CORRUPT);
    journal_reader_free(reader);
}

int main(void)
{
#define TEST(name) cmocka_unit_test_setup_teardown(name, set_up_sale, tear_down)
    const struct CMUnitTest tests[] = {
        TEST(a_reader_follows_the_writer),       TEST(it_may_begin_anywhere),
        TEST(a_batch_larger_than_one_read),      TEST(nothing_beyond_the_durable_end_is_read),
        TEST(what_is_trimmed_away_is_not_found), TEST(damage_and_failures_are_told),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
