/* Bytes that are whole by all checksums and still no part of a snapshot: a head that is too short,
 * and a record that cannot be read. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

#include "base/crc32c.h"
#include "base/err.h"
#include "journal/journal_private.h"
#include "journal_fixture.h"

static int check_head(struct journal_content *content, struct journal_snapshot_reader *reader,
                      int64_t *ret_highest_ms)
{
    (void)content;
    const uint8_t *payload;
    uint32_t length;
    *ret_highest_ms = 0;
    return journal_snapshot_next(reader, &payload, &length);
}

/* One chunk, the head, cut to so many bytes of payload. */
static int read_head_of(uint32_t length)
{
    static const struct journal_content_ops ops = {.check = check_head};
    struct journal_content content = {&ops};
    struct journal_snapshot_file file = {.lsn = 77, .bytes = 32 + length};
    struct journal_snapshot_info info;
    uint64_t bad_at;
    uint8_t chunk[32 + 16] = "SLSN";
    store_le32(chunk + 4, JOURNAL_VERSION);
    store_le32(chunk + 12, length);
    store_le64(chunk + 16, file.lsn);
    store_le32(chunk + 24, 1); /* the last chunk */
    store_le64(chunk + 32, file.lsn);
    store_le64(chunk + 40, 5); /* the batch */
    store_le32(chunk + 28, crc32c(0, chunk, 32 + length));
    char name[JOURNAL_NAME_BYTES];
    journal_name(file.lsn, JOURNAL_SNAPSHOT_SUFFIX, name);
    ram_disk_put(&world.ram, name, chunk, 32 + length);
    int error = journal_snapshot_check(&world.ram.disk, &file, &content, &info, &bad_at);
    if (error == 0) {
        assert_int_equal(info.batch, 5);
    }
    return error;
}

/* The journal's own fields of the head: LSN and batch. */
static void a_head_shorter_than_its_fields_is_damage(void **state)
{
    (void)state;
    for (uint32_t length = 0; length < 16; length++) {
        assert_int_equal(read_head_of(length), ERR_CORRUPT);
    }
    assert_int_equal(read_head_of(16), 0);
}

/* A whole batch with bytes in it that are no command. */
static void a_record_that_cannot_be_read_is_no_part_of_a_snapshot(void **state)
{
    (void)state;
    static const uint8_t no_record[] = {0xff, 1, 2, 3};
    uint64_t lsn = 0;
    assert_int_equal(journal_append(world.journal, no_record, sizeof(no_record), 1, &lsn), 0);
    assert_int_equal(lsn, world.count + 1);
    world.count++;
    while (!journal_snapshot_due(world.journal)) {
        world_batch(&world, 20);
    }
    struct gate_box second;
    gate_box_init_sizes(&second, world.sizes);
    lsn = 99;
    assert_int_equal(gate_content_snapshot(world.journal, &second.gate, &lsn), ERR_CORRUPT);
    gate_box_done(&second);
    assert_int_equal(lsn, 99);
    assert_int_equal(world.journal->files.snapshot_count, 0);
    size_t size;
    assert_null(ram_disk_bytes(&world.ram, JOURNAL_SNAPSHOT_TMP_NAME, &size));
    assert_true(journal_snapshot_due(world.journal));
}

int main(void)
{
#define TEST(name) cmocka_unit_test_setup_teardown(name, set_up_sale, tear_down)
    const struct CMUnitTest tests[] = {
        TEST(a_head_shorter_than_its_fields_is_damage),
        TEST(a_record_that_cannot_be_read_is_no_part_of_a_snapshot),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
