/*
 * What each kind of damage to the files leads to: for every byte of a small log, a flipped bit
 * and a cut there, and the cases that need making by hand. docs/JOURNAL.md promises these outcomes.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "base/crc32c.h"
#include "base/err.h"
#include "journal/journal_private.h"
#include "journal_world.h"
#include "table_tests.h"

#define FIRST "0000000000000001.journal"

/* The log under test, batch by batch, as journal_scan reports it. */
struct batch {
    char file[JOURNAL_NAME_BYTES];
    uint64_t offset;
    uint64_t used; /* header and payload */
    uint64_t first_lsn;
    uint64_t last_lsn;
};

static struct world world;
static struct batch batches[64];
static size_t batch_count;
static struct gate_box expected[64]; /* the gate after each batch; [0]: empty */

static void on_batch(void *context, const char *file, uint64_t offset, uint64_t number,
                     uint64_t first_lsn, uint32_t records, uint32_t bytes)
{
    (void)context;
    assert_int_equal(number, batch_count + 1);
    struct batch *batch = &batches[batch_count++];
    (void)snprintf(batch->file, sizeof(batch->file), "%s", file);
    batch->offset = offset;
    batch->used = JOURNAL_HEAD_BYTES + bytes;
    batch->first_lsn = first_lsn;
    batch->last_lsn = first_lsn + records - 1;
}

static void on_record(void *context, uint64_t lsn, const struct gate_command *command)
{
    (void)context;
    assert_true(command->kind == world.commands[lsn - 1].kind);
}

static void on_note(void *context, const char *file, uint64_t offset, const char *what)
{
    (void)context;
    (void)file;
    (void)offset;
    (void)what;
}

static const struct journal_scan_ops scan_ops = {on_batch, on_note};

static int scan(struct ram_disk *ram, struct journal_found *ret_found)
{
    batch_count = 0;
    return world_scan(&ram->disk, &scan_ops, on_record, NULL, ret_found);
}

/* Three files; batches of one and two sectors; zeros behind the last of the first and third. */
static int set_up(void **state)
{
    (void)state;
    world_init(&world, 2);
    assert_int_equal(world_open(&world), 0);
    world_start_sale(&world);
    assert_int_equal(world_flush(&world), 0);
    static const int sizes[] = {1, 100, 1, 2, 3};
    for (size_t i = 0; i < sizeof(sizes) / sizeof(sizes[0]); i++) {
        world_batch(&world, sizes[i]);
    }
    world_close(&world);
    struct journal_found found;
    assert_int_equal(scan(&world.ram, &found), 0);
    assert_int_equal(found.last_lsn, world.count);
    assert_int_equal(batch_count, 6);
    gate_box_init(&expected[0]);
    for (size_t i = 1; i <= batch_count; i++) {
        gate_box_init(&expected[i]);
        for (uint64_t lsn = 1; lsn <= batches[i - 1].last_lsn; lsn++) {
            assert_int_equal(gate_content_replay(&expected[i].gate, lsn, &world.commands[lsn - 1]),
                             0);
        }
    }
    return 0;
}

static int tear_down(void **state)
{
    (void)state;
    for (size_t i = 0; i < 64; i++) {
        gate_box_done(&expected[i]);
    }
    world_done(&world);
    return 0;
}

static bool in_last_file(const char *file)
{
    return strcmp(file, batches[batch_count - 1].file) == 0;
}

/* Which batch has the byte among its header and payload; SIZE_MAX: none. */
static size_t batch_of(const char *file, uint64_t at)
{
    for (size_t i = 0; i < batch_count; i++) {
        if (strcmp(batches[i].file, file) == 0 && at >= batches[i].offset &&
            at < batches[i].offset + batches[i].used) {
            return i;
        }
    }
    return SIZE_MAX;
}

/* The damaged copy as a process would find it. */
struct trial {
    struct ram_disk ram;
    struct gate_box box;
    struct journal *journal;
    struct journal_found found;
    int error;
};

static void trial_open(struct trial *trial)
{
    gate_box_init(&trial->box);
    trial->journal = NULL;
    trial->error = gate_content_open(&trial->ram.disk, world.options, &trial->box.gate,
                                     &trial->journal, &trial->found);
}

static void trial_done(struct trial *trial)
{
    journal_free(trial->journal);
    gate_box_done(&trial->box);
    ram_disk_done(&trial->ram);
}

static void expect_refused(struct trial *trial, const char *file, uint64_t offset)
{
    char where[96];
    (void)snprintf(where, sizeof(where), "%s:%llu", file, (unsigned long long)offset);
    assert_int_equal(trial->error, ERR_CORRUPT);
    assert_string_equal(trial->found.where, where);
    assert_true(trial->found.why[0] != '\0');
}

/* All records of the first n batches, and nothing of the others. */
static void expect_batches(struct trial *trial, size_t n)
{
    assert_int_equal(trial->error, 0);
    assert_int_equal(trial->found.last_lsn, n == 0 ? 0 : batches[n - 1].last_lsn);
    assert_true(gate_same(&expected[n].gate, &trial->box.gate));
}

/* One more batch after the healing, and a second start that finds all of it and nothing odd. */
static void expect_to_go_on(struct trial *trial)
{
    uint64_t event = trial->box.gate.applied_event + 1;
    struct gate_command command = {.kind = GATE_SKIP, .now_ms = 1, .event = event};
    uint64_t lsn;
    bool wrote;
    assert_int_equal(gate_content_append(trial->journal, &command, &lsn), 0);
    assert_int_equal(lsn, trial->found.last_lsn + 1);
    assert_int_equal(journal_flush(trial->journal, &wrote), 0);
    journal_free(trial->journal);
    gate_box_done(&trial->box);
    ram_disk_crash(&trial->ram, RAM_DROP, &world.prng);
    trial_open(trial);
    assert_int_equal(trial->error, 0);
    assert_int_equal(trial->found.last_lsn, lsn);
    assert_int_equal(trial->found.torn_bytes, 0);
    assert_string_equal(trial->found.where, "");
    assert_int_equal(trial->box.gate.applied_event, event);
}

static uint64_t nonzero_end(struct ram_disk *ram, const char *file)
{
    size_t size;
    const uint8_t *bytes = ram_disk_bytes(ram, file, &size);
    while (size > 0 && bytes[size - 1] == 0) {
        size--;
    }
    return size;
}

static void check_flip(const char *file, uint64_t at)
{
    struct trial trial;
    ram_disk_copy(&world.ram, &trial.ram);
    size_t size;
    ram_disk_bytes(&trial.ram, file, &size)[at] ^= (uint8_t)(1U << at % 8);
    uint64_t dirty_end = nonzero_end(&trial.ram, file);
    trial_open(&trial);
    size_t hit = batch_of(file, at);
    const struct batch *last = &batches[batch_count - 1];
    uint64_t end = last->offset + journal_batch_bytes((uint32_t)last->used - JOURNAL_HEAD_BYTES);
    if (at < JOURNAL_HEAD_BYTES) {
        expect_refused(&trial, file, 0);
    } else if (hit != SIZE_MAX && hit != batch_count - 1) {
        expect_refused(&trial, file, batches[hit].offset);
    } else if (hit != SIZE_MAX) { /* the last batch: nobody can tell it from a torn one */
        expect_batches(&trial, hit);
        assert_int_equal(trial.found.torn_bytes, dirty_end - last->offset);
        assert_string_equal(trial.found.why, "torn tail");
    } else {
        expect_batches(&trial, batch_count);
        uint64_t torn = in_last_file(file) && at >= end ? at + 1 - end : 0;
        assert_int_equal(trial.found.torn_bytes, torn);
    }
    if (trial.error == 0 && at % 61 == 0) {
        expect_to_go_on(&trial);
    }
    trial_done(&trial);
}

static void check_cut(const char *file, uint64_t at)
{
    struct trial trial;
    ram_disk_copy(&world.ram, &trial.ram);
    size_t size;
    const uint8_t *bytes = ram_disk_bytes(&trial.ram, file, &size);
    uint64_t lost = at; /* the first byte that is missed: zeros are not */
    while (lost < size && bytes[lost] == 0) {
        lost++;
    }
    ram_disk_resize(&trial.ram, file, at);
    trial_open(&trial);
    size_t hit = batch_of(file, lost);
    if (lost < JOURNAL_HEAD_BYTES) {
        expect_refused(&trial, file, 0);
    } else if (hit != SIZE_MAX && !in_last_file(file)) {
        expect_refused(&trial, file, batches[hit].offset);
    } else {
        expect_batches(&trial, hit != SIZE_MAX ? hit : batch_count);
        if (in_last_file(file)) {
            (void)ram_disk_bytes(&trial.ram, file, &size);
            assert_int_equal(size, world.options.file_bytes); /* healed */
            assert_true(trial.found.where[0] != '\0');        /* and said */
        }
    }
    if (trial.error == 0 && at % 61 == 0 && in_last_file(file)) {
        expect_to_go_on(&trial);
    }
    trial_done(&trial);
}

static void sweep(void (*check)(const char *file, uint64_t at))
{
    for (size_t i = 0; i < batch_count; i++) {
        bool new_file = batches[i].offset == JOURNAL_SECTOR;
        for (uint64_t at = 0; new_file && at < world.options.file_bytes; at++) {
            check(batches[i].file, at);
        }
    }
}

static void a_flipped_bit_anywhere(void **state)
{
    (void)state;
    sweep(check_flip);
}

static void a_file_cut_short_anywhere(void **state)
{
    (void)state;
    sweep(check_cut);
}

static void a_missing_file(void **state)
{
    (void)state;
    for (size_t i = 0; i < batch_count; i++) {
        bool first = batches[i].offset == JOURNAL_SECTOR;
        if (!first || in_last_file(batches[i].file)) {
            continue; /* that the last one is missing shows in the ledger alone */
        }
        struct trial trial;
        ram_disk_copy(&world.ram, &trial.ram);
        ram_disk_remove(&trial.ram, batches[i].file);
        trial_open(&trial);
        assert_int_equal(trial.error, ERR_CORRUPT);
        if (i == 0) {
            size_t next = 0;
            while (strcmp(batches[next].file, FIRST) == 0) {
                next++;
            }
            expect_refused(&trial, batches[next].file, 0);
        } else {
            const struct batch *before = &batches[i - 1];
            expect_refused(&trial, before->file,
                           before->offset +
                               journal_batch_bytes((uint32_t)before->used - JOURNAL_HEAD_BYTES));
        }
        trial_done(&trial);
    }
}

static void a_torn_batch_in_any_mixture_of_sectors(void **state)
{
    (void)state;
    /* Three sectors, each written or not: only all of them together are a batch. */
    struct world own;
    world_init(&own, 3);
    assert_int_equal(world_open(&own), 0);
    world_start_sale(&own);
    world_trade(&own, 170);
    assert_int_equal(world_flush(&own), 0);
    world_close(&own);
    for (unsigned mask = 0; mask < 8; mask++) {
        struct trial trial;
        ram_disk_copy(&own.ram, &trial.ram);
        size_t size;
        uint8_t *bytes = ram_disk_bytes(&trial.ram, FIRST, &size);
        for (unsigned i = 0; i < 3; i++) {
            if ((mask >> i & 1) == 0) {
                memset(bytes + (1 + i) * JOURNAL_SECTOR, 0, JOURNAL_SECTOR);
            }
        }
        trial_open(&trial);
        assert_int_equal(trial.error, 0);
        assert_int_equal(trial.found.last_lsn, mask == 7 ? own.count : 0);
        assert_true((trial.found.torn_bytes > 0) == (mask != 0 && mask != 7));
        bytes = ram_disk_bytes(&trial.ram, FIRST, &size);
        for (size_t i = JOURNAL_SECTOR; mask != 7 && i < size; i++) {
            assert_int_equal(bytes[i], 0);
        }
        trial_done(&trial);
    }
    world_done(&own);
}

static void garbage_behind_the_end_is_cut(void **state)
{
    (void)state;
    const struct batch *last = &batches[batch_count - 1];
    struct trial trial;
    ram_disk_copy(&world.ram, &trial.ram);
    ram_disk_resize(&trial.ram, last->file, world.options.file_bytes + 5000);
    size_t size;
    uint8_t *bytes = ram_disk_bytes(&trial.ram, last->file, &size);
    memset(bytes + world.options.file_bytes - 10, 0xa5, 4000);
    trial_open(&trial);
    expect_batches(&trial, batch_count);
    assert_true(trial.found.torn_bytes > 4000);
    (void)ram_disk_bytes(&trial.ram, last->file, &size);
    assert_int_equal(size, world.options.file_bytes);
    expect_to_go_on(&trial);
    trial_done(&trial);
}

/* ---- whole batches with wrong contents, made by hand ---- */

static void put_crc(uint8_t *head, size_t length)
{
    memset(head + 44, 0, 4);
    uint32_t crc = crc32c(0, head, JOURNAL_HEAD_BYTES + length);
    store_le32(head + 44, crc);
}

#define LAST 5       /* the index of the last batch; its number is one more */
#define AS_FILE 1000 /* not a batch: the header of the first file */

/* One 32-bit field of a batch or file is another one, and the checksum is right. */
static const struct forged_case {
    const char *name;
    size_t batch;
    size_t field;
    uint32_t value;
    int error;
    const char *why; /* NULL: any */
} forged_cases[] = {
    {"another version", LAST, 4, 2, ERR_VERSION, "a batch of another version"},
    {"the number of the batch before", LAST, 8, LAST, ERR_CORRUPT, "the batch is not the next one"},
    {"the number of the batch after", LAST, 8, LAST + 2, ERR_CORRUPT,
     "the batch is not the next one"},
    {"another first LSN", LAST, 16, 1, ERR_CORRUPT, "the batch is not the next one"},
    {"fewer records", LAST, 32, 2, ERR_CORRUPT, "a record in a whole batch cannot be read"},
    {"more records", LAST, 32, 4, ERR_CORRUPT, "a record in a whole batch cannot be read"},
    {"a record of any length", LAST, JOURNAL_HEAD_BYTES, 0xffffffff, ERR_CORRUPT,
     "a record in a whole batch cannot be read"},
    {"a record of no kind", 0, JOURNAL_HEAD_BYTES + 2, 0xee, ERR_CORRUPT,
     "a record in a whole batch cannot be read"},
    {"a file of another version", AS_FILE, 8, 2, ERR_VERSION, NULL},
    {"a file with other sectors", AS_FILE, 12, 512, ERR_VERSION, NULL},
    {"a file of another size", AS_FILE, 32, 4097, ERR_VERSION, NULL},
    {"a file of another kind", AS_FILE, 36, 2, ERR_VERSION, NULL},
};

static void a_forged_field(void **state)
{
    const struct forged_case *c = *state;
    bool as_file = c->batch == AS_FILE;
    const char *file = as_file ? FIRST : batches[c->batch].file;
    uint64_t offset = as_file ? 0 : batches[c->batch].offset;
    struct trial trial;
    ram_disk_copy(&world.ram, &trial.ram);
    size_t size;
    uint8_t *head = ram_disk_bytes(&trial.ram, file, &size) + offset;
    store_le32(head + c->field, c->value);
    put_crc(head, as_file ? 0 : batches[c->batch].used - JOURNAL_HEAD_BYTES);
    trial_open(&trial);
    assert_int_equal(trial.error, c->error);
    if (c->why != NULL) {
        assert_string_equal(trial.found.why, c->why);
    }
    char where[96];
    (void)snprintf(where, sizeof(where), "%s:%llu", file, (unsigned long long)offset);
    assert_string_equal(trial.found.where, where);
    trial_done(&trial);
}

static void a_batch_of_another_version_behind_a_torn_one_is_damage(void **state)
{
    (void)state;
    const struct batch *last = &batches[batch_count - 1];
    struct trial trial;
    ram_disk_copy(&world.ram, &trial.ram);
    size_t size;
    uint8_t *bytes = ram_disk_bytes(&trial.ram, last->file, &size);
    memcpy(bytes + last->offset + JOURNAL_SECTOR, bytes + last->offset, JOURNAL_SECTOR);
    store_le32(bytes + last->offset + JOURNAL_SECTOR + 4, 9);
    put_crc(bytes + last->offset + JOURNAL_SECTOR, last->used - JOURNAL_HEAD_BYTES);
    bytes[last->offset] ^= 1;
    trial_open(&trial);
    expect_refused(&trial, last->file, last->offset);
    trial_done(&trial);
}

static void an_older_batch_behind_a_torn_one_is_not_data(void **state)
{
    (void)state;
    const struct batch *last = &batches[batch_count - 1];
    struct trial trial;
    ram_disk_copy(&world.ram, &trial.ram);
    size_t size;
    uint8_t *bytes = ram_disk_bytes(&trial.ram, last->file, &size);
    memcpy(bytes + last->offset + JOURNAL_SECTOR, bytes + JOURNAL_SECTOR, JOURNAL_SECTOR);
    bytes[last->offset] ^= 1;
    trial_open(&trial);
    expect_batches(&trial, batch_count - 1);
    expect_to_go_on(&trial);
    trial_done(&trial);
}

static void a_file_that_is_not_what_its_name_says(void **state)
{
    (void)state;
    struct trial trial;
    ram_disk_copy(&world.ram, &trial.ram);
    size_t size;
    uint8_t *bytes = ram_disk_bytes(&trial.ram, FIRST, &size);
    ram_disk_put(&trial.ram, "0000000000000063.journal", bytes, size);
    trial_open(&trial);
    expect_refused(&trial, "0000000000000063.journal", 0);
    trial_done(&trial);
}

static void a_file_that_begins_with_another_record(void **state)
{
    (void)state;
    size_t next = 1;
    while (batches[next].offset != JOURNAL_SECTOR) {
        next++;
    }
    const struct batch *before = &batches[next - 1];
    struct trial trial;
    ram_disk_copy(&world.ram, &trial.ram);
    size_t size;
    uint8_t *bytes = ram_disk_bytes(&trial.ram, batches[next].file, &size);
    store_le64(bytes + 24, batches[next].first_lsn + 1);
    put_crc(bytes, 0);
    trial_open(&trial);
    expect_refused(&trial, before->file,
                   before->offset +
                       journal_batch_bytes((uint32_t)before->used - JOURNAL_HEAD_BYTES));
    trial_done(&trial);
}

/* Records that read well and that no gate would have let into a journal. */
static void records_that_do_not_follow(void **state)
{
    (void)state;
    static const struct gate_command odd[] = {
        {.kind = GATE_PAY, .event = 1000000, .id = {1, 1}},          /* refused: no such order */
        {.kind = GATE_RESTOCK, .event = 1, .item = 10, .amount = 1}, /* applied before */
    };
    for (size_t i = 0; i < sizeof(odd) / sizeof(odd[0]); i++) {
        struct trial trial;
        ram_disk_copy(&world.ram, &trial.ram);
        trial_open(&trial);
        expect_batches(&trial, batch_count);
        uint64_t lsn;
        bool wrote;
        assert_int_equal(gate_content_append(trial.journal, &odd[i], &lsn), 0);
        assert_int_equal(journal_flush(trial.journal, &wrote), 0);
        journal_free(trial.journal);
        gate_box_done(&trial.box);
        trial_open(&trial);
        assert_int_equal(trial.error, ERR_CORRUPT);
        assert_string_equal(trial.found.why, "a record does not follow from what came before");
        trial_done(&trial);
    }
}

static void a_look_changes_nothing_and_says_the_same(void **state)
{
    (void)state;
    const struct batch last = batches[batch_count - 1];
    struct ram_disk ram;
    ram_disk_copy(&world.ram, &ram);
    size_t size;
    ram_disk_bytes(&ram, last.file, &size)[last.offset] ^= 1;
    ram_disk_resize(&ram, last.file, size - 10);
    uint64_t writes = ram.writes;
    struct journal_found found;
    assert_int_equal(scan(&ram, &found), 0);
    assert_int_equal(ram.writes, writes);
    assert_int_equal(found.torn_bytes, nonzero_end(&ram, last.file) - last.offset);
    assert_int_equal(found.last_lsn, last.first_lsn - 1);
    assert_int_equal(batch_count, 5);
    ram_disk_bytes(&ram, last.file, &size)[last.offset] ^= 1;
    assert_int_equal(scan(&ram, &found), 0);
    assert_string_equal(found.why, "the file has been cut short");
    ram_disk_bytes(&ram, batches[1].file, &size)[batches[1].offset] ^= 1;
    assert_int_equal(scan(&ram, &found), ERR_CORRUPT);
    assert_int_equal(batch_count, 1);
    ram_disk_done(&ram);
    ram_disk_init(&ram);
    assert_int_equal(scan(&ram, &found), 0);
    assert_int_equal(found.files, 0);
    assert_int_equal(found.last_lsn, 0);
    ram_disk_done(&ram);
}

/* In what a file is too long by nothing counts: it is cut off, so it must not be replayed before. */
static void a_whole_batch_behind_a_files_end_is_refused(void **state)
{
    (void)state;
    struct trial trial;
    const struct batch *next = &batches[batch_count - 1];
    while (next > batches && strcmp(next[-1].file, next->file) == 0) {
        next--;
    }
    const struct batch *last = next - 1; /* of the file before the last */
    uint64_t end = last->offset + journal_batch_bytes((uint32_t)last->used - JOURNAL_HEAD_BYTES);
    uint8_t sector[JOURNAL_SECTOR];
    size_t size;
    ram_disk_copy(&world.ram, &trial.ram);
    memcpy(sector, ram_disk_bytes(&trial.ram, next->file, &size) + next->offset, sizeof(sector));
    ram_disk_remove(&trial.ram, next->file);
    assert_true(end <= world.options.file_bytes);
    ram_disk_resize(&trial.ram, last->file, world.options.file_bytes + JOURNAL_SECTOR);
    memcpy(ram_disk_bytes(&trial.ram, last->file, &size) + world.options.file_bytes, sector,
           sizeof(sector));
    trial_open(&trial);
    expect_refused(&trial, last->file, end);
    trial_done(&trial);
}

int main(void)
{
#define TEST(name) cmocka_unit_test_setup_teardown(name, set_up, tear_down)
    const struct CMUnitTest tests[] = {
        TEST(a_flipped_bit_anywhere),
        TEST(a_file_cut_short_anywhere),
        TEST(a_missing_file),
        TEST(a_torn_batch_in_any_mixture_of_sectors),
        TEST(garbage_behind_the_end_is_cut),
        TEST(a_batch_of_another_version_behind_a_torn_one_is_damage),
        TEST(an_older_batch_behind_a_torn_one_is_not_data),
        TEST(a_file_that_is_not_what_its_name_says),
        TEST(a_file_that_begins_with_another_record),
        TEST(records_that_do_not_follow),
        TEST(a_look_changes_nothing_and_says_the_same),
        TEST(a_whole_batch_behind_a_files_end_is_refused),
    };
    int failed = cmocka_run_group_tests(tests, NULL, NULL);
    return failed + TABLE_RUN(forged_cases, a_forged_field, set_up, tear_down);
}
