/* Snapshots and trimming: what is written comes back, what is damaged is passed over, what is
 * needed is kept. */
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
#include "journal_fixture.h"
#include "table_tests.h"

static int snapshot(uint64_t *ret_lsn)
{
    struct gate_box second;
    gate_box_init_sizes(&second, world.sizes);
    int error = gate_content_snapshot(world.journal, &second.gate, ret_lsn);
    gate_box_done(&second);
    return error;
}

/* Trades until a file is closed that no snapshot covers, and takes the snapshot. */
static uint64_t next_snapshot(void)
{
    while (!journal_snapshot_due(world.journal)) {
        world_batch(&world, 20);
    }
    uint64_t lsn = 0;
    assert_int_equal(snapshot(&lsn), 0);
    assert_true(lsn > 0);
    return lsn;
}

static uint32_t trim(uint64_t booked_lsn)
{
    uint32_t removed = 99;
    assert_int_equal(journal_trim(world.journal, booked_lsn, &removed), 0);
    return removed;
}

static const char *snapshot_name(uint64_t lsn)
{
    static char name[JOURNAL_NAME_BYTES];
    journal_name(lsn, ".snapshot", name);
    return name;
}

static bool exists(const char *name)
{
    size_t size;
    return ram_disk_bytes(&world.ram, name, &size) != NULL;
}

static size_t files(void)
{
    return world.journal->files.file_count;
}

static void none_is_due_before_a_file_is_closed(void **state)
{
    (void)state;
    assert_false(journal_snapshot_due(world.journal));
    uint64_t lsn = 99;
    assert_int_equal(snapshot(&lsn), 0);
    assert_int_equal(lsn, 0);
    lsn = next_snapshot();
    assert_int_equal(lsn, world.journal->files.files[files() - 1].first_lsn - 1);
    assert_false(journal_snapshot_due(world.journal)); /* covered now */
}

static void a_start_goes_on_from_the_newest(void **state)
{
    (void)state;
    uint64_t lsn = 0;
    for (int i = 0; i < 4; i++) {
        lsn = next_snapshot();
        world_batch(&world, 5);
    }
    reopen();
    assert_int_equal(world.found.snapshot_lsn, lsn);
    assert_int_equal(world.found.replayed, world.count - lsn);
    assert_int_equal(world.found.last_lsn, world.count);
    assert_true(world_is_at(&world, world.count));
    gate_audit(&world.box.gate);
    world_batch(&world, 30);
    next_snapshot(); /* loads the last one, adds what came */
    reopen();
    assert_true(world_is_at(&world, world.count));
}

static void the_bytes_are_a_function_of_the_state(void **state)
{
    (void)state;
    uint64_t lsn = next_snapshot();
    size_t size;
    const uint8_t *bytes = ram_disk_bytes(&world.ram, snapshot_name(lsn), &size);
    uint8_t *first = malloc(size);
    assert_non_null(first);
    memcpy(first, bytes, size);
    size_t first_size = size;
    /* Once more: forget it, so that it is due again. */
    world.journal->files.snapshot_count = 0;
    world.ram.fail_at = 0;
    assert_int_equal(next_snapshot(), lsn);
    bytes = ram_disk_bytes(&world.ram, snapshot_name(lsn), &size);
    assert_int_equal(size, first_size);
    assert_memory_equal(bytes, first, size);
    free(first);
}

static bool never(const uint8_t *record, size_t length)
{
    (void)record;
    (void)length;
    return false;
}

static int apply_nothing(struct journal_content *content, uint64_t lsn, const uint8_t *record,
                         size_t length)
{
    (void)content;
    (void)lsn;
    (void)record;
    (void)length;
    return 0;
}

static int load_nothing(struct journal_content *content, struct journal_snapshot_reader *reader)
{
    (void)content;
    (void)reader;
    return 0;
}

/* Bookings may be behind the snapshot: what they have to read must be readable. */
static void records_below_the_snapshot_must_be_readable(void **state)
{
    (void)state;
    static const struct journal_content_ops ops = {.apply = apply_nothing,
                                                   .is_record = never,
                                                   .check = gate_content_check,
                                                   .load = load_nothing};
    struct journal_content content = {&ops};
    struct journal *journal = NULL;
    struct journal_found found;
    (void)next_snapshot();
    world_close(&world);
    assert_int_equal(journal_open(&world.ram.disk, world.options, &content, &journal, &found),
                     ERR_CORRUPT);
    assert_string_equal(found.why, "a record in a whole batch cannot be read");
    assert_int_equal(world_open(&world), 0);
}

static void large_states_take_several_chunks(void **state)
{
    (void)state;
    world.options.file_bytes = 32 * JOURNAL_SECTOR;
    world.sizes.orders = world.sizes.buyers = 3000;
    reopen();
    for (int i = 0; i < 30; i++) {
        world_batch(&world, 100);
    }
    world.options.file_bytes = 4 * JOURNAL_SECTOR;
    reopen();
    while (!journal_snapshot_due(world.journal)) {
        world_batch(&world, 50);
    }
    uint64_t lsn = next_snapshot();
    size_t size;
    (void)ram_disk_bytes(&world.ram, snapshot_name(lsn), &size);
    assert_true(size > 65536);
    reopen();
    assert_int_equal(world.found.snapshot_lsn, lsn);
    assert_true(world_is_at(&world, world.count));
}

static void a_sale_half_forgotten_comes_back_half_forgotten(void **state)
{
    (void)state;
    world_batch(&world, 60);
    struct gate_command close = {.kind = GATE_CLOSE, .sale = 7, .event = ++world.event};
    assert_int_equal(world_apply(&world, &close), 0);
    /* All orders to a final state. */
    for (uint32_t i = 0; i < world.box.gate.order_pool.used; i++) {
        struct gate_order *order = &world.box.gate.orders[i];
        while (!order_state_final((enum order_state)order->state)) {
            /* Some paid: what they sold no longer adds up while the sale is being forgotten. */
            struct gate_command move = {.kind = order->state == ORDER_QUEUED ? GATE_CONFIRM
                                                : i % 2 == 0                 ? GATE_PAY
                                                                             : GATE_CANCEL,
                                        .id = order->id,
                                        .item = world.box.gate.items[order->item_slot].id,
                                        .time_ms = 5,
                                        .event = ++world.event};
            assert_int_equal(world_apply(&world, &move), 0);
        }
    }
    assert_int_equal(world_flush(&world), 0);
    struct gate_command forget = {.kind = GATE_FORGET, .sale = 7, .qty = 1, .event = ++world.event};
    uint64_t before = world.count;
    uint64_t lsn = 0;
    while (lsn <= before) { /* until a snapshot lies between two pieces of it */
        assert_int_equal(world_apply(&world, &forget), 0);
        assert_int_equal(world_flush(&world), 0);
        if (journal_snapshot_due(world.journal)) {
            assert_int_equal(snapshot(&lsn), 0);
        }
    }
    assert_int_equal(world.box.gate.sales_used, 1);
    reopen();
    assert_int_equal(world.found.snapshot_lsn, lsn);
    assert_true(world_is_at(&world, world.count));
    forget.qty = 10;
    for (int i = 0; i < 100; i++) {
        assert_int_equal(world_apply(&world, &forget), 0);
        assert_int_equal(world_flush(&world), 0);
    }
    assert_int_equal(world.box.gate.sales_used, 0);
    reopen();
    assert_int_equal(world.box.gate.sales_used, 0);
    assert_int_equal(world.box.gate.order_pool.used, 0);
}

static void trimming_keeps_the_one_before_and_what_is_not_booked(void **state)
{
    (void)state;
    assert_int_equal(trim(UINT64_MAX), 0); /* no snapshot */
    uint64_t one = next_snapshot();
    assert_int_equal(trim(UINT64_MAX), 0); /* one could turn out to be bad: all files stay */
    assert_int_equal(world.journal->files.files[0].first_lsn, 1);
    uint64_t two = next_snapshot();
    assert_true(two > one);
    size_t before = files();
    assert_int_equal(trim(0), 0); /* nothing booked */
    assert_int_equal(trim(one - 1), 0);
    assert_int_equal(files(), before);
    assert_true(trim(one) > 0);
    assert_int_equal(world.journal->files.files[0].first_lsn, one + 1);
    uint64_t three = next_snapshot();
    assert_true(exists(snapshot_name(one)));
    assert_true(trim(UINT64_MAX) > 0);
    assert_false(exists(snapshot_name(one)));
    assert_true(exists(snapshot_name(two)));
    assert_int_equal(world.journal->files.files[0].first_lsn, two + 1);
    world_close(&world);
    ram_disk_crash(&world.ram, RAM_DROP, &world.prng); /* all of it was durable */
    assert_int_equal(world_open(&world), 0);
    assert_int_equal(world.found.snapshot_lsn, three);
    assert_true(world_is_at(&world, world.count));
}

/* Somebody has moved the closed files away; the newest snapshot needs none of them. */
static void the_last_file_is_never_trimmed(void **state)
{
    (void)state;
    next_snapshot();
    uint64_t two = next_snapshot();
    for (size_t i = 0; i + 1 < files(); i++) {
        char name[JOURNAL_NAME_BYTES];
        journal_name(world.journal->files.files[i].first_batch, ".journal", name);
        ram_disk_remove(&world.ram, name);
    }
    reopen();
    assert_int_equal(world.found.snapshot_lsn, two);
    assert_int_equal(files(), 1);
    assert_int_equal(trim(UINT64_MAX), 0);
    assert_int_equal(files(), 1);
    reopen();
    assert_true(world_is_at(&world, world.count));
}

static void many_files_and_snapshots(void **state)
{
    (void)state;
    world.sizes.orders = world.sizes.buyers = 4000;
    reopen();
    uint64_t lsn = 0;
    for (int i = 0; i < 40; i++) {
        lsn = next_snapshot();
    }
    assert_int_equal(world.journal->files.snapshot_count, 40);
    assert_true(files() > 40);
    reopen();
    assert_int_equal(world.found.snapshot_lsn, lsn);
    assert_true(world.found.files > 40);
    assert_true(world_is_at(&world, world.count));
}

static void booking_that_lags_holds_files_only(void **state)
{
    (void)state;
    uint64_t lsn[4];
    for (int i = 0; i < 4; i++) {
        lsn[i] = next_snapshot();
    }
    assert_int_equal(trim(2), 0);
    assert_int_equal(world.journal->files.files[0].first_lsn, 1);
    assert_false(exists(snapshot_name(lsn[0])));
    assert_false(exists(snapshot_name(lsn[1])));
    assert_true(exists(snapshot_name(lsn[2])));
    reopen();
    assert_int_equal(world.found.snapshot_lsn, lsn[3]);
    assert_true(world_is_at(&world, world.count));
}

static void a_forgotten_sale_leaves_no_trace_beside_one_that_stays(void **state)
{
    (void)state;
    struct gate_command load = {
        .kind = GATE_LOAD_SALE, .sale = 8, .ends_at_ms = 5000, .event = ++world.event};
    assert_int_equal(world_apply(&world, &load), 0);
    load = (struct gate_command){
        .kind = GATE_LOAD_ITEM, .sale = 8, .item = 20, .amount = 5, .event = ++world.event};
    assert_int_equal(world_apply(&world, &load), 0);
    struct gate_command close = {.kind = GATE_CLOSE, .sale = 7, .event = ++world.event};
    assert_int_equal(world_apply(&world, &close), 0);
    struct gate_command forget = {
        .kind = GATE_FORGET, .sale = 7, .qty = 100, .event = ++world.event};
    assert_int_equal(world_apply(&world, &forget), 0);
    assert_int_equal(world.box.gate.sales_used, 1);
    while (!journal_snapshot_due(world.journal)) {
        struct gate_command more = {
            .kind = GATE_RESTOCK, .item = 20, .amount = 1, .event = ++world.event};
        assert_int_equal(world_apply(&world, &more), 0);
        assert_int_equal(world_flush(&world), 0);
    }
    uint64_t lsn = 0;
    assert_int_equal(snapshot(&lsn), 0);
    reopen();
    assert_int_equal(world.found.snapshot_lsn, lsn);
    assert_int_equal(world.box.gate.item_pool.used, 1);
    assert_int_equal(gate_find_sale(&world.box.gate, 7), GATE_NONE);
    assert_true(world_is_at(&world, world.count));
}

static void what_an_earlier_attempt_left_is_written_anew(void **state)
{
    (void)state;
    ram_disk_put(&world.ram, JOURNAL_SNAPSHOT_TMP_NAME, "half", 4);
    uint64_t lsn = next_snapshot();
    assert_false(exists(JOURNAL_SNAPSHOT_TMP_NAME));
    reopen();
    assert_int_equal(world.found.snapshot_lsn, lsn);
    assert_int_equal(world.found.bad_snapshots, 0);
}

static int notes;

static void on_batch(void *context, const char *file, uint64_t offset, uint64_t number,
                     uint64_t first_lsn, uint32_t records, uint32_t bytes)
{
    (void)context, (void)file, (void)offset, (void)number, (void)first_lsn, (void)records;
    (void)bytes;
}

static void on_record(void *context, uint64_t lsn, const struct gate_command *command)
{
    *(uint64_t *)context = lsn;
    assert_true(command->kind == world.commands[lsn - 1].kind);
}

static void on_note(void *context, const char *file, uint64_t offset, const char *what)
{
    (void)context;
    assert_string_equal(file, snapshot_name(world.found.snapshot_lsn));
    assert_int_equal(offset, 0);
    assert_string_equal(what, "snapshot");
    notes++;
}

static void a_look_finds_it_and_shows_every_record(void **state)
{
    (void)state;
    world.found.snapshot_lsn = next_snapshot();
    world_batch(&world, 5);
    static const struct journal_scan_ops ops = {on_batch, on_note};
    struct journal_found found;
    uint64_t last = 0;
    notes = 0;
    assert_int_equal(world_scan(&world.ram.disk, &ops, on_record, &last, &found), 0);
    assert_int_equal(found.snapshot_lsn, world.found.snapshot_lsn);
    assert_int_equal(found.replayed, world.count - found.snapshot_lsn);
    assert_int_equal(last, world.count);
    assert_int_equal(notes, 1);
}

/* Damage to the newest snapshot, at every byte: the one before takes over. */
static void a_damaged_one_is_passed_over(void **state)
{
    (void)state;
    uint64_t one = next_snapshot();
    uint64_t two = next_snapshot();
    world_batch(&world, 3);
    uint64_t last = world.count;
    assert_true(trim(UINT64_MAX) > 0);
    world_close(&world);
    size_t size;
    (void)ram_disk_bytes(&world.ram, snapshot_name(two), &size);
    for (size_t i = 0; i < 2 * size; i++) {
        size_t at = i / 2;
        struct ram_disk good;
        ram_disk_copy(&world.ram, &good);
        if (i % 2 == 0) {
            size_t n;
            ram_disk_bytes(&world.ram, snapshot_name(two), &n)[at] ^= (uint8_t)(1U << at % 8);
        } else {
            ram_disk_resize(&world.ram, snapshot_name(two), at);
        }
        assert_int_equal(world_open(&world), 0);
        assert_int_equal(world.found.bad_snapshots, 1);
        assert_int_equal(world.found.snapshot_lsn, one);
        assert_int_equal(world.found.last_lsn, last);
        if (i % 97 == 0) {
            assert_true(world_is_at(&world, last));
        }
        world_close(&world);
        ram_disk_done(&world.ram);
        ram_disk_copy(&good, &world.ram);
        ram_disk_done(&good);
    }
    assert_int_equal(world_open(&world), 0);
    assert_int_equal(world.found.snapshot_lsn, two);
}

static void damage(uint64_t lsn)
{
    size_t size;
    uint8_t *bytes = ram_disk_bytes(&world.ram, snapshot_name(lsn), &size);
    bytes[size / 2] ^= 1;
}

static void the_only_one_damaged_means_a_replay_from_the_first_record(void **state)
{
    (void)state;
    damage(next_snapshot());
    reopen();
    assert_int_equal(world.found.snapshot_lsn, 0);
    assert_int_equal(world.found.bad_snapshots, 1);
    assert_int_equal(world.found.replayed, world.count);
    assert_true(world_is_at(&world, world.count));
    uint64_t lsn = next_snapshot(); /* writes over the bad one */
    reopen();
    assert_int_equal(world.found.snapshot_lsn, lsn);
    assert_int_equal(world.found.bad_snapshots, 0);
}

static void all_damaged_and_the_files_gone_is_refused(void **state)
{
    (void)state;
    uint64_t one = next_snapshot();
    uint64_t two = next_snapshot();
    assert_true(trim(UINT64_MAX) > 0);
    damage(one);
    damage(two);
    world_close(&world);
    assert_int_equal(world_open(&world), ERR_CORRUPT);
    char where[96];
    (void)snprintf(where, sizeof(where), "%s:", snapshot_name(one));
    assert_memory_equal(world.found.where, where, strlen(where));
    assert_int_equal(world.found.bad_snapshots, 2);
    ram_disk_remove(&world.ram, snapshot_name(one));
    ram_disk_remove(&world.ram, snapshot_name(two));
    assert_int_equal(world_open(&world), ERR_CORRUPT);
    assert_string_equal(world.found.why,
                        "records before this file are missing: no snapshot reaches it");
}

static void a_snapshot_without_a_file_is_refused(void **state)
{
    (void)state;
    uint64_t lsn = next_snapshot();
    for (size_t i = 0; i < files(); i++) {
        char name[JOURNAL_NAME_BYTES];
        journal_name(world.journal->files.files[i].first_batch, ".journal", name);
        ram_disk_remove(&world.ram, name);
    }
    world_close(&world);
    assert_int_equal(world_open(&world), ERR_CORRUPT);
    char where[96];
    (void)snprintf(where, sizeof(where), "%s:0", snapshot_name(lsn));
    assert_string_equal(world.found.where, where);
}

static void damage_found_while_running_uses_the_one_before(void **state)
{
    (void)state;
    uint64_t one = next_snapshot();
    uint64_t two = next_snapshot();
    assert_true(trim(UINT64_MAX) > 0);
    damage(two);
    uint64_t three = next_snapshot();
    assert_true(three > two);
    (void)trim(UINT64_MAX); /* the bad one goes, the good one before it stays */
    assert_true(exists(snapshot_name(one)));
    assert_false(exists(snapshot_name(two)));
    reopen();
    assert_int_equal(world.found.snapshot_lsn, three);
    assert_true(world_is_at(&world, world.count));
    damage(three);
    damage(one);
    uint64_t lsn = 99;
    while (!journal_snapshot_due(world.journal)) {
        world_batch(&world, 20);
    }
    assert_int_equal(snapshot(&lsn), ERR_NOTFOUND); /* no base, and the first files are gone */
    assert_int_equal(lsn, 99);
}

/* ---- whole chunks with wrong contents, made by hand ---- */

static void put_crc(uint8_t *chunk)
{
    memset(chunk + 28, 0, 4);
    store_le32(chunk + 28, crc32c(0, chunk, 32 + load_le32(chunk + 12)));
}

/* One 32-bit field of a chunk of the only snapshot is another one, and the checksum is right. */
static const struct forged_case {
    const char *name;
    size_t chunk;
    size_t field;
    uint32_t value;
    int error;       /* of the start; 0: it passes the snapshot over */
    const char *why; /* NULL: of a start that succeeds */
} forged_cases[] = {
    {"another version", 0, 4, 2, ERR_VERSION, "a snapshot of another version"},
    {"another index", 0, 8, 1, 0, NULL},
    {"not the whole of the first chunk", 0, 12, 16, 0, NULL},
    {"a chunk of another snapshot", 0, 16, 1, 0, NULL},
    {"last, before another one", 0, 24, 1, 0, NULL},
    {"not last, at the end", 1, 24, 0, 0, NULL},
    {"another LSN in the head", 0, 32, 1, 0, NULL},
    {"sales that do not come", 0, 32 + 32, 3, 0, NULL},
    {"items that do not come", 0, 32 + 36, 3, 0, NULL},
    {"buyers that do not come", 0, 32 + 40, 3, 0, NULL},
    {"orders that do not come", 0, 32 + 44, 3, 0, NULL},
    {"a tag of zero", 1, 32, 0, 0, NULL},
    {"a tag that is none", 1, 32, 0x99, 0, NULL},
    {"a state of a sale that is none", 1, 32 + 1 + 28, 0x07020009, ERR_CORRUPT,
     "the snapshot cannot be loaded"},
    /* Behind the tag and 30 bytes of the sale: the item's tag and its sale, its id, its total; then
     * available. */
    {"an item whose units no orders stand for", 1, 32 + 31 + 9 + 16, 5, ERR_CORRUPT,
     "the snapshot cannot be loaded"},
    {"a batch that the file behind it does not go on from", 0, 32 + 8, 1, ERR_CORRUPT,
     "the file does not follow the snapshot"},
};

static void a_forged_chunk(void **state)
{
    const struct forged_case *c = *state;
    uint64_t lsn = next_snapshot();
    world_close(&world);
    struct ram_disk good;
    ram_disk_copy(&world.ram, &good);
    size_t size;
    uint8_t *chunk = ram_disk_bytes(&world.ram, snapshot_name(lsn), &size);
    for (size_t i = 0; i < c->chunk; i++) {
        chunk += 32 + load_le32(chunk + 12);
    }
    store_le32(chunk + c->field, c->value);
    put_crc(chunk);
    assert_int_equal(world_open(&world), c->error);
    if (c->error == 0) {
        assert_int_equal(world.found.bad_snapshots, 1);
        world_close(&world);
    } else {
        assert_string_equal(world.found.why, c->why);
    }
    ram_disk_done(&world.ram);
    ram_disk_copy(&good, &world.ram);
    ram_disk_done(&good);
    assert_int_equal(world_open(&world), 0);
    assert_int_equal(world.found.snapshot_lsn, lsn);
    assert_true(world_is_at(&world, world.count));
}

static void one_of_no_record_is_damage(void **state)
{
    (void)state;
    uint64_t lsn = next_snapshot();
    world_close(&world);
    size_t size;
    uint8_t *bytes = ram_disk_bytes(&world.ram, snapshot_name(lsn), &size);
    store_le64(bytes + 32, 0); /* the LSN it tells, and that of each chunk: those of the name */
    for (size_t at = 0; at < size; at += 32 + load_le32(bytes + at + 12)) {
        store_le64(bytes + at + 16, 0);
        put_crc(bytes + at);
    }
    ram_disk_put(&world.ram, snapshot_name(0), bytes, size);
    ram_disk_remove(&world.ram, snapshot_name(lsn));
    assert_int_equal(world_open(&world), 0);
    assert_int_equal(world.found.bad_snapshots, 1);
    assert_int_equal(world.found.snapshot_lsn, 0);
    assert_int_equal(world.found.replayed, world.count);
    assert_true(world_is_at(&world, world.count));
}

static void an_entry_cut_in_a_whole_chunk_is_damage(void **state)
{
    (void)state;
    uint64_t lsn = next_snapshot();
    world_close(&world);
    size_t size;
    uint8_t *bytes = ram_disk_bytes(&world.ram, snapshot_name(lsn), &size);
    uint8_t *last = bytes + 32 + load_le32(bytes + 12);
    store_le32(last + 12, load_le32(last + 12) - 1);
    put_crc(last);
    ram_disk_resize(&world.ram, snapshot_name(lsn), size - 1);
    assert_int_equal(world_open(&world), 0);
    assert_int_equal(world.found.bad_snapshots, 1);
}

static void one_that_the_files_do_not_reach_is_no_base(void **state)
{
    (void)state;
    uint64_t one = next_snapshot();
    size_t size;
    const uint8_t *bytes = ram_disk_bytes(&world.ram, snapshot_name(one), &size);
    uint8_t *kept = malloc(size);
    assert_non_null(kept);
    memcpy(kept, bytes, size);
    size_t kept_size = size;
    uint64_t two = next_snapshot();
    uint64_t three = next_snapshot();
    assert_true(trim(UINT64_MAX) > 0);
    world_close(&world);
    ram_disk_put(&world.ram, snapshot_name(one), kept, kept_size);
    free(kept);
    ram_disk_remove(&world.ram, snapshot_name(two));
    assert_int_equal(world_open(&world), 0);
    assert_int_equal(world.found.snapshot_lsn, three);
    world_close(&world);
    ram_disk_remove(&world.ram, snapshot_name(three));
    assert_int_equal(world_open(&world), ERR_CORRUPT);
    assert_string_equal(world.found.why,
                        "records before this file are missing: no snapshot reaches it");
}

static void a_snapshot_past_the_journals_end_is_refused(void **state)
{
    (void)state;
    next_snapshot();
    uint64_t first = world.journal->files.files[files() - 1].first_batch;
    char name[JOURNAL_NAME_BYTES];
    journal_name(first, ".journal", name);
    world_close(&world);
    ram_disk_remove(&world.ram, name); /* the file before it is cut inside its last batch */
    uint64_t before = 0;
    for (size_t i = 0; i < world.ram.model.now.count; i++) {
        uint64_t number;
        if (journal_name_parse(world.ram.model.now.entries[i].name, ".journal", &number)) {
            before = number > before ? number : before;
        }
    }
    journal_name(before, ".journal", name);
    size_t size;
    uint8_t *bytes = ram_disk_bytes(&world.ram, name, &size);
    memset(bytes + JOURNAL_SECTOR, 0, size - JOURNAL_SECTOR);
    assert_int_equal(world_open(&world), ERR_CORRUPT);
    assert_string_equal(world.found.why, "the journal ends before its snapshot");
}

static void a_small_gate_cannot_load_it(void **state)
{
    (void)state;
    next_snapshot();
    world_close(&world);
    static const struct gate_sizes sizes[] = {
        {.orders = 2, .buyers = 600, .items = 8, .sales = 4},
        {.orders = 600, .buyers = 2, .items = 8, .sales = 4},
        {.orders = 600, .buyers = 600, .items = 1, .sales = 4},
        {.orders = 600, .buyers = 600, .items = 8, .sales = 0},
    };
    for (size_t i = 0; i < sizeof(sizes) / sizeof(sizes[0]); i++) {
        struct gate_box box;
        gate_box_init_sizes(&box, sizes[i]);
        struct journal *journal;
        struct journal_found found;
        assert_int_equal(
            gate_content_open(&world.ram.disk, world.options, &box.gate, &journal, &found),
            ERR_FULL);
        assert_string_equal(found.why, "it does not fit the configured sizes");
        gate_box_done(&box);
    }
}

int main(void)
{
#define TEST(name) cmocka_unit_test_setup_teardown(name, set_up_sale, tear_down)
    const struct CMUnitTest tests[] = {
        TEST(none_is_due_before_a_file_is_closed),
        TEST(a_start_goes_on_from_the_newest),
        TEST(the_bytes_are_a_function_of_the_state),
        TEST(large_states_take_several_chunks),
        TEST(records_below_the_snapshot_must_be_readable),
        TEST(a_sale_half_forgotten_comes_back_half_forgotten),
        TEST(trimming_keeps_the_one_before_and_what_is_not_booked),
        TEST(the_last_file_is_never_trimmed),
        TEST(many_files_and_snapshots),
        TEST(booking_that_lags_holds_files_only),
        TEST(a_forgotten_sale_leaves_no_trace_beside_one_that_stays),
        TEST(what_an_earlier_attempt_left_is_written_anew),
        TEST(a_look_finds_it_and_shows_every_record),
        TEST(a_damaged_one_is_passed_over),
        TEST(the_only_one_damaged_means_a_replay_from_the_first_record),
        TEST(all_damaged_and_the_files_gone_is_refused),
        TEST(a_snapshot_without_a_file_is_refused),
        TEST(damage_found_while_running_uses_the_one_before),
        TEST(one_of_no_record_is_damage),
        TEST(an_entry_cut_in_a_whole_chunk_is_damage),
        TEST(one_that_the_files_do_not_reach_is_no_base),
        TEST(a_snapshot_past_the_journals_end_is_refused),
        TEST(a_small_gate_cannot_load_it),
    };
    int failed = cmocka_run_group_tests(tests, NULL, NULL);
    return failed + TABLE_RUN(forged_cases, a_forged_chunk, set_up_sale, tear_down);
}
