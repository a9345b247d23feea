/* The janitor: the next file is there before it is needed, closed files become snapshots and go,
 * and what fails is logged and tried again. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>

#include <cmocka.h>

#include "base/err.h"
#include "fake_clock.h"
#include "journal/janitor.h"
#include "journal/journal_private.h"
#include "journal_world.h"
#include "obs/log.h"

#define PAUSE_US 5000000 /* at least this long between two snapshots */

static struct world world;
static struct fake_clock now;
static struct metrics metrics;
static struct janitor janitor;
static uint64_t not_needed; /* the last LSN that nobody needs any more */

/* ---- what is logged ---- */

static char events[64][40];
static size_t event_count;

static void witness(const char *event, struct span line)
{
    (void)line;
    if (event_count < 64) {
        (void)snprintf(events[event_count], sizeof(events[0]), "%s", event);
    }
    event_count++;
}

static size_t logged(const char *event)
{
    size_t n = 0;
    for (size_t i = 0; i < event_count && i < 64; i++) {
        n += strcmp(events[i], event) == 0;
    }
    return n;
}

/* ---- the janitor's surroundings ---- */

static uint64_t trim_lsn(void *context)
{
    return *(const uint64_t *)context;
}

static int take_snapshot(void *context, struct journal *journal, uint64_t *ret_lsn)
{
    struct gate_box second;
    gate_box_init_sizes(&second, ((const struct world *)context)->sizes);
    int error = gate_content_snapshot(journal, &second.gate, ret_lsn);
    gate_box_done(&second);
    return error;
}

static enum ram_op failing;

static int fail_one_kind(void *context, enum ram_op op)
{
    (void)context;
    return op == failing ? ERR_IO : 0;
}

/* From now on operations of this kind fail. */
static void disk_fails(enum ram_op op)
{
    failing = op;
    world.ram.hook = fail_one_kind;
}

static void disk_works(void)
{
    world.ram.hook = NULL;
}

static int set_up(void **state)
{
    (void)state;
    world_init(&world, 5);
    assert_int_equal(world_open(&world), 0);
    world_start_sale(&world);
    assert_int_equal(world_flush(&world), 0);
    fake_clock_init(&now, 1000);
    assert_int_equal(metrics_init(&metrics, 1), 0);
    not_needed = 0;
    janitor = (struct janitor){.journal = world.journal,
                               .clock = &now.port,
                               .metrics = metrics_slot(&metrics, 0),
                               .snapshot = take_snapshot,
                               .snapshot_context = &world,
                               .trim_lsn = trim_lsn,
                               .trim_context = &not_needed};
    event_count = 0;
    log_set_level(LOG_INFO);
    log_set_witness(witness);
    return 0;
}

static int tear_down(void **state)
{
    (void)state;
    log_set_witness(NULL);
    log_set_level(LOG_INFO);
    metrics_done(&metrics);
    world_done(&world);
    return 0;
}

static uint64_t taken(void)
{
    return metrics_sum(&metrics, METRIC_JOURNAL_SNAPSHOTS_TOTAL);
}

static size_t files(void)
{
    return world.journal->files.file_count;
}

static bool exists(const char *name)
{
    size_t size;
    return ram_disk_bytes(&world.ram, name, &size) != NULL;
}

/* Trades until a snapshot is due. The next file is prepared then: nothing is left to do but that. */
static void make_due(void)
{
    while (!journal_snapshot_due(world.journal)) {
        world_batch(&world, 20);
    }
    assert_int_equal(journal_prepare_file(world.journal), 0);
}

/* ---- the tests ---- */

static void the_next_file_is_prepared(void **state)
{
    (void)state;
    assert_false(exists(JOURNAL_NEXT_NAME));
    janitor_iterate(&janitor);
    assert_true(exists(JOURNAL_NEXT_NAME));
    assert_int_equal(event_count, 0);
}

static void a_full_disk_is_logged_once_and_so_is_its_end(void **state)
{
    (void)state;
    world.ram.space = 1;
    for (int i = 0; i < 3; i++) {
        janitor_iterate(&janitor);
        assert_int_equal(event_count, 1);
        assert_int_equal(logged("journal.disk_full"), 1);
        assert_int_equal(metrics_sum(&metrics, METRIC_JOURNAL_DISK_FULL), 1);
    }
    world.ram.space = 0;
    for (int i = 0; i < 3; i++) {
        janitor_iterate(&janitor);
        assert_int_equal(event_count, 2);
        assert_int_equal(logged("journal.disk_has_space"), 1);
        assert_int_equal(metrics_sum(&metrics, METRIC_JOURNAL_DISK_FULL), 0);
    }
}

static void a_snapshot_is_taken_when_due_but_not_at_once_again(void **state)
{
    (void)state;
    make_due();
    janitor_iterate(&janitor);
    assert_false(journal_snapshot_due(world.journal));
    assert_int_equal(taken(), 1);
    assert_int_equal(logged("snapshot.taken"), 1);
    make_due();
    fake_clock_pass_us(&now, PAUSE_US - 1);
    janitor_iterate(&janitor);
    assert_int_equal(taken(), 1);
    fake_clock_pass_us(&now, 1);
    janitor_iterate(&janitor);
    assert_int_equal(taken(), 2);
    fake_clock_pass_us(&now, PAUSE_US);
    janitor_iterate(&janitor); /* none is due */
    assert_int_equal(taken(), 2);
    assert_int_equal(logged("snapshot.taken"), 2);
    world_close(&world);
    assert_int_equal(world_open(&world), 0);
    assert_true(world.found.snapshot_lsn > 0);
    assert_true(world_is_at(&world, world.count));
}

static void a_failed_snapshot_is_tried_again_after_the_pause(void **state)
{
    (void)state;
    make_due();
    disk_fails(RAM_OP_SYNC);
    janitor_iterate(&janitor);
    assert_int_equal(logged("snapshot.failed"), 1);
    janitor_iterate(&janitor); /* the disk is left alone for a while */
    assert_int_equal(logged("snapshot.failed"), 1);
    assert_int_equal(taken(), 0);
    assert_false(exists(JOURNAL_SNAPSHOT_TMP_NAME));
    disk_works();
    world_batch(&world, 5); /* the journal goes on */
    fake_clock_pass_us(&now, PAUSE_US);
    janitor_iterate(&janitor);
    assert_int_equal(taken(), 1);
    assert_int_equal(logged("snapshot.failed"), 1);
}

/* As where there is no memory for a second gate. */
static int take_none(void *context, struct journal *journal, uint64_t *ret_lsn)
{
    (void)journal;
    ++*(int *)context;
    *ret_lsn = 0;
    return 0;
}

static void a_snapshot_that_was_not_taken_is_not_counted(void **state)
{
    (void)state;
    int calls = 0;
    janitor.snapshot = take_none;
    janitor.snapshot_context = &calls;
    make_due();
    janitor_iterate(&janitor);
    janitor_iterate(&janitor);
    assert_int_equal(calls, 1);
    assert_int_equal(taken(), 0);
    assert_int_equal(event_count, 0);
}

/* Two snapshots, so that the files before the first of them can go. */
static void make_trimmable(void)
{
    for (int i = 0; i < 2; i++) {
        make_due();
        janitor_iterate(&janitor);
        fake_clock_pass_us(&now, PAUSE_US);
    }
    assert_int_equal(journal_prepare_file(world.journal), 0);
}

static void files_go_when_nobody_needs_them(void **state)
{
    (void)state;
    make_trimmable();
    size_t before = files();
    janitor_iterate(&janitor);
    assert_int_equal(files(), before); /* nothing is booked */
    assert_int_equal(logged("journal.trimmed"), 0);
    not_needed = world.count;
    janitor_iterate(&janitor);
    assert_true(files() < before);
    assert_int_equal(logged("journal.trimmed"), 1);
    before = files();
    janitor_iterate(&janitor);
    assert_int_equal(files(), before);
    assert_int_equal(logged("journal.trimmed"), 1);
}

static void files_that_cannot_be_removed_go_later(void **state)
{
    (void)state;
    make_trimmable();
    size_t before = files();
    not_needed = world.count;
    disk_fails(RAM_OP_NAME);
    janitor_iterate(&janitor);
    assert_int_equal(files(), before);
    assert_int_equal(logged("journal.trimmed"), 0);
    disk_works();
    janitor_iterate(&janitor);
    assert_true(files() < before);
    assert_int_equal(logged("journal.trimmed"), 1);
}

static void a_file_that_cannot_be_prepared_is_logged_now_and_then(void **state)
{
    (void)state;
    disk_fails(RAM_OP_OPEN);
    for (int i = 0; i < 1000; i++) {
        janitor_iterate(&janitor);
    }
    assert_true(event_count > 0 && event_count < 1000);
    assert_int_equal(logged("journal.cannot_prepare"), event_count < 64 ? event_count : 64);
    disk_works();
    janitor_iterate(&janitor);
    assert_true(exists(JOURNAL_NEXT_NAME));
}

/* The one who failed it has logged it. */
static void a_failed_journal_needs_no_next_file(void **state)
{
    (void)state;
    world_trade(&world, 1);
    disk_fails(RAM_OP_WRITE_DURABLE);
    assert_int_equal(world_flush(&world), ERR_IO);
    disk_works();
    uint64_t ops = world.ram.ops;
    janitor_iterate(&janitor);
    assert_int_equal(world.ram.ops, ops);
    assert_false(exists(JOURNAL_NEXT_NAME));
    assert_int_equal(event_count, 0);
}

static void a_log_without_warnings_changes_nothing_else(void **state)
{
    (void)state;
    log_set_level(LOG_ERROR);
    disk_fails(RAM_OP_OPEN);
    janitor_iterate(&janitor);
    disk_works();
    make_due();
    disk_fails(RAM_OP_SYNC);
    janitor_iterate(&janitor);
    disk_works();
    fake_clock_pass_us(&now, PAUSE_US);
    make_trimmable();
    size_t before = files();
    not_needed = world.count;
    janitor_iterate(&janitor);
    assert_int_equal(taken(), 2);
    assert_true(files() < before);
    assert_int_equal(event_count, 0);
}

/* ---- a list ---- */

static int apply_nothing(struct journal_content *content, uint64_t lsn, const uint8_t *record,
                         size_t length)
{
    (void)content;
    (void)lsn;
    (void)record;
    (void)length;
    return 0;
}

static void a_list_is_trimmed_without_snapshots(void **state)
{
    (void)state;
    static const struct journal_content_ops ops = {.apply = apply_nothing};
    struct journal_content content = {&ops};
    struct ram_disk ram;
    struct journal_found found;
    struct journal_options options = world.options;
    ram_disk_init(&ram);
    options.kind = JOURNAL_LIST;
    assert_int_equal(journal_open(&ram.disk, options, &content, &janitor.journal, &found), 0);
    janitor.snapshot = NULL;
    const struct journal_files *files = &janitor.journal->files;
    while (files->file_count < 3) {
        uint64_t lsn;
        bool wrote;
        assert_int_equal(journal_append(janitor.journal, (const uint8_t *)"entry", 5, 1, &lsn), 0);
        assert_int_equal(journal_flush(janitor.journal, &wrote), 0);
    }
    assert_true(journal_snapshot_due(janitor.journal));
    not_needed = files->files[1].first_lsn;
    janitor_iterate(&janitor);
    assert_int_equal(files->file_count, 2); /* entries of the second one are needed */
    assert_int_equal(files->snapshot_count, 0);
    assert_int_equal(taken(), 0);
    assert_int_equal(logged("journal.trimmed"), 1);
    journal_free(janitor.journal);
    ram_disk_done(&ram);
}

int main(void)
{
#define TEST(name) cmocka_unit_test_setup_teardown(name, set_up, tear_down)
    const struct CMUnitTest tests[] = {
        TEST(the_next_file_is_prepared),
        TEST(a_full_disk_is_logged_once_and_so_is_its_end),
        TEST(a_snapshot_is_taken_when_due_but_not_at_once_again),
        TEST(a_failed_snapshot_is_tried_again_after_the_pause),
        TEST(a_snapshot_that_was_not_taken_is_not_counted),
        TEST(files_go_when_nobody_needs_them),
        TEST(files_that_cannot_be_removed_go_later),
        TEST(a_file_that_cannot_be_prepared_is_logged_now_and_then),
        TEST(a_failed_journal_needs_no_next_file),
        TEST(a_log_without_warnings_changes_nothing_else),
        TEST(a_list_is_trimmed_without_snapshots),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
