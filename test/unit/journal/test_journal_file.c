/* The journal's bytes: names, headers, records, and the window they are read through. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "base/bytes.h"
#include "base/err.h"
#include "journal/journal_file.h"
#include "ram_disk.h"

static void names_round_trip_and_nothing_else_is_a_name(void **state)
{
    (void)state;
    char name[JOURNAL_NAME_BYTES];
    uint64_t number = 0;
    journal_name(UINT64_C(0xfedcba9876543210), ".journal", name);
    assert_string_equal(name, "fedcba9876543210.journal");
    assert_true(journal_name_parse(name, ".journal", &number));
    assert_true(number == UINT64_C(0xfedcba9876543210));
    static const char *const others[] = {
        "",
        "fedcba987654321.journal",
        "fedcba98765432100.journal",
        "FEDCBA9876543210.journal",
        "fedcba9876543210.journal2",
        "fedcba9876543210.snapshot",
        "fedcba9876543210",
        "fedcba987654321g.journal",
    };
    for (size_t i = 0; i < sizeof(others) / sizeof(others[0]); i++) {
        assert_false(journal_name_parse(others[i], ".journal", &number));
    }
}

static void file_headers_round_trip(void **state)
{
    (void)state;
    uint8_t sector[JOURNAL_SECTOR];
    memset(sector, 0xff, sizeof(sector));
    struct journal_file_head head = {.first_batch = 7, .first_lsn = 99, .bytes = 1 << 20};
    journal_file_encode(&head, sector);
    struct journal_file_head back;
    assert_int_equal(journal_file_decode(sector, &back), 0);
    assert_int_equal(back.first_batch, 7);
    assert_int_equal(back.first_lsn, 99);
    assert_int_equal(back.bytes, 1 << 20);
    for (size_t i = JOURNAL_HEAD_BYTES; i < sizeof(sector); i++) {
        assert_int_equal(sector[i], 0);
    }
    /* The documented places, byte by byte. */
    assert_memory_equal(sector, "SLUICEJ\n\1\0\0\0\0\20\0\0\7\0\0\0\0\0\0\0\143\0\0\0\0\0\0\0", 32);
}

/* A file of a size that no journal makes must not be brought to that size. */
static void a_file_has_room_for_a_batch(void **state)
{
    (void)state;
    static const struct {
        uint64_t bytes;
        int error;
    } rows[] = {
        {0, ERR_VERSION},
        {JOURNAL_SECTOR, ERR_VERSION},
        {2 * JOURNAL_SECTOR, 0},
        {2 * JOURNAL_SECTOR + 1, ERR_VERSION},
        {JOURNAL_FILE_MAX_BYTES, 0},
        {JOURNAL_FILE_MAX_BYTES + JOURNAL_SECTOR, ERR_VERSION},
    };
    for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
        uint8_t sector[JOURNAL_SECTOR];
        struct journal_file_head head = {.first_batch = 1, .first_lsn = 1, .bytes = rows[i].bytes};
        struct journal_file_head back;
        journal_file_encode(&head, sector);
        assert_int_equal(journal_file_decode(sector, &back), rows[i].error);
    }
}

static void a_batch_is_sealed_with_header_and_zeros(void **state)
{
    (void)state;
    uint8_t bytes[2 * JOURNAL_SECTOR];
    memset(bytes, 0xee, sizeof(bytes));
    struct journal_batch_head head = {
        .number = 3, .first_lsn = 4, .time_ms = -5, .records = 6, .length = 10};
    journal_batch_seal(&head, bytes);
    assert_memory_equal(bytes, "SLJB\1\0\0\0\3\0\0\0\0\0\0\0\4\0\0\0\0\0\0\0", 24);
    assert_int_equal((int64_t)load_le64(bytes + 24), -5);
    assert_int_equal(load_le32(bytes + 32), 6);
    assert_int_equal(load_le32(bytes + 36), 10);
    assert_int_equal(bytes[JOURNAL_HEAD_BYTES + 9], 0xee);
    assert_int_equal(bytes[JOURNAL_HEAD_BYTES + 10], 0);
    assert_int_equal(bytes[JOURNAL_SECTOR - 1], 0);
    assert_int_equal(bytes[JOURNAL_SECTOR], 0xee);
    assert_int_equal(journal_batch_bytes(JOURNAL_SECTOR - JOURNAL_HEAD_BYTES), JOURNAL_SECTOR);
    assert_int_equal(journal_batch_bytes(JOURNAL_SECTOR - JOURNAL_HEAD_BYTES + 1),
                     2 * JOURNAL_SECTOR);
}

static void records_are_exactly_what_the_header_says(void **state)
{
    (void)state;
    uint8_t bytes[JOURNAL_RECORD_MAX] = {9, 0, 'a', ' ', 'r', 'e', 'c', 'o', 'r', 'd', '.'};
    const uint8_t *record = NULL;
    size_t length = 0;
    uint32_t whole = 2 + 9;
    struct journal_records records = {bytes, whole, 1};
    assert_int_equal(journal_records_next(&records, &record, &length), 0);
    assert_ptr_equal(record, bytes + 2);
    assert_int_equal(length, 9);
    assert_int_equal(journal_records_next(&records, &record, &length), ERR_AGAIN);
    static const struct {
        int less;
        uint32_t records;
    } bad[] = {{1, 1}, {(int)JOURNAL_RECORD_MAX, 1}, {0, 0}};
    for (size_t i = 0; i < sizeof(bad) / sizeof(bad[0]); i++) {
        uint32_t left = bad[i].less > (int)whole ? 1 : whole - (uint32_t)bad[i].less;
        records = (struct journal_records){bytes, left, bad[i].records};
        assert_int_equal(journal_records_next(&records, &record, &length), ERR_CORRUPT);
    }
}

static void a_window_reads_zeros_behind_the_file_and_nothing_behind_its_limit(void **state)
{
    (void)state;
    struct ram_disk ram;
    struct disk_file *file;
    ram_disk_init(&ram);
    uint8_t *content = malloc(300000);
    assert_non_null(content);
    memset(content, 7, 300000);
    ram_disk_put(&ram, "f", content, 300000);
    free(content);
    assert_int_equal(disk_open(&ram.disk, "f", DISK_READ, &file), 0);
    struct journal_window window = {.disk = &ram.disk};
    journal_window_show(&window, file, 300100);
    const uint8_t *bytes;
    assert_int_equal(journal_window_load(&window, 299990, 20, &bytes), 0);
    assert_int_equal(bytes[9], 7);
    assert_int_equal(bytes[10], 0);
    uint64_t ops = ram.ops;
    assert_int_equal(journal_window_load(&window, 299995, 10, &bytes), 0); /* at hand */
    assert_int_equal(ram.ops, ops);
    assert_int_equal(journal_window_load(&window, 0, 300100, &bytes), 0); /* grows */
    assert_int_equal(bytes[0], 7);
    ram.fail_at = ram.ops + 1;
    ram.fail_code = ERR_IO;
    journal_window_show(&window, file, 300100);
    assert_int_equal(journal_window_load(&window, 0, 10, &bytes), ERR_IO);
    struct journal_batch_head head;
    assert_int_equal(journal_window_batch(&window, 300100, &head, &bytes), ERR_CORRUPT);
    assert_int_equal(journal_window_batch(&window, 300060, &head, &bytes), ERR_CORRUPT);
    ram.fail_at = ram.ops + 1;
    assert_int_equal(journal_window_batch(&window, 0, &head, &bytes), ERR_IO);
    journal_window_done(&window);
    disk_close(&ram.disk, file);
    ram_disk_done(&ram);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(names_round_trip_and_nothing_else_is_a_name),
        cmocka_unit_test(file_headers_round_trip),
        cmocka_unit_test(a_file_has_room_for_a_batch),
        cmocka_unit_test(a_batch_is_sealed_with_header_and_zeros),
        cmocka_unit_test(records_are_exactly_what_the_header_says),
        cmocka_unit_test(a_window_reads_zeros_behind_the_file_and_nothing_behind_its_limit),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
