/*
 * Sweeps over the journal: in each scenario of its life, the 1st, 2nd, 3rd ... call of each disk
 * operation and of malloc fails, once or from then on, having done nothing, half or all of its
 * work, until no fault strikes any more.
 *
 * Each time: the outcome is 0 or the code of the fault; nothing is leaked; and then the process
 * goes on, ends, or loses the power, and what was acknowledged is there, and the batch whose flush
 * failed is there whole or not at all.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "base/err.h"
#include "fault.h"
#include "journal/journal_private.h"
#include "journal_world.h"
#include "tap_disk.h"

static struct world world;
static struct tap_disk tap;
static int fault_code; /* what a fault of the present sweep says */
static int background; /* errors of snapshots, trims and prepared files: not final */

/* ---- the product, with faults ---- */

static int open_journal(void)
{
    gate_box_init_sizes(&world.box, world.sizes);
    int error = PRODUCT(
        gate_content_open(&tap.disk, world.options, &world.box.gate, &world.journal, &world.found));
    if (error != 0) {
        gate_box_done(&world.box);
    }
    return error;
}

/* Behind a batch that waited for space there may be another one. */
static int flush_all(bool *ret_wrote)
{
    int error;
    do {
        error = journal_flush(world.journal, ret_wrote);
    } while (error == 0 && journal_durable_lsn(world.journal) < journal_last_lsn(world.journal));
    return error;
}

static int flush(void)
{
    bool wrote;
    uint64_t durable = journal_durable_lsn(world.journal);
    int error = PRODUCT(flush_all(&wrote));
    if (error == 0) {
        world.acknowledged = journal_durable_lsn(world.journal);
        assert_int_equal(world.acknowledged, world.count);
        return 0;
    }
    uint64_t lsn;
    assert_int_equal(journal_durable_lsn(world.journal), durable);
    if (error == ERR_NOSPACE &&
        !journal_failed(world.journal)) { /* it waits, and may be asked again */
        assert_int_equal(journal_space(world.journal), JOURNAL_SPACE_NONE);
        error = PRODUCT(flush_all(&wrote));
        if (error == 0) {
            world.acknowledged = journal_durable_lsn(world.journal);
            assert_int_equal(world.acknowledged, world.count);
        }
        if (error == 0 || !journal_failed(world.journal)) {
            return error;
        }
    }
    assert_true(journal_failed(world.journal));
    assert_int_equal(gate_content_append(world.journal, &world.commands[0], &lsn),
                     ERR_JOURNAL_FAILED);
    assert_int_equal(journal_flush(world.journal, &wrote), ERR_JOURNAL_FAILED);
    return error;
}

static void note_background(int error)
{
    assert_true(error == 0 || error == fault_code);
    background += error != 0;
}

static int snapshot(void)
{
    struct gate_box second;
    uint64_t lsn;
    gate_box_init(&second);
    int error = PRODUCT(gate_content_snapshot(world.journal, &second.gate, &lsn));
    gate_box_done(&second);
    return error;
}

static int trim(void)
{
    uint32_t removed;
    return PRODUCT(journal_trim(world.journal, world.acknowledged, &removed));
}

/* ---- scenarios ---- */

static void nothing(void)
{
}

static void opened(void)
{
    assert_int_equal(open_journal(), 0);
    world_start_sale(&world);
    assert_int_equal(flush(), 0);
}

static void trade(int batches)
{
    for (int i = 0; i < batches; i++) {
        world_trade(&world, 25);
        assert_int_equal(flush(), 0);
    }
}

/* The next file needs a bigger catalogue: memory, in the middle of a flush. */
static void catalogue_full(void)
{
    opened();
    while (world.journal->files.file_count < world.journal->files.file_capacity) {
        world_trade(&world, 1);
        assert_int_equal(flush(), 0);
    }
}

static void due_for_snapshot(void)
{
    opened();
    trade(6);
    assert_int_equal(journal_prepare_file(world.journal), 0);
    assert_true(journal_snapshot_due(world.journal));
}

static void due_for_trim(void)
{
    due_for_snapshot();
    assert_int_equal(snapshot(), 0);
    trade(6);
    assert_int_equal(snapshot(), 0);
    trade(6);
    assert_int_equal(snapshot(), 0);
}

/* Everything a start may have to do: files, snapshots, a torn tail in a file that is too long,
 * leftovers. */
static void closed_in_disorder(void)
{
    due_for_trim();
    world_trade(&world, 5);
    assert_int_equal(flush(), 0);
    const struct journal_files *catalog = &world.journal->files;
    struct journal_file last = catalog->files[catalog->file_count - 1];
    char name[JOURNAL_NAME_BYTES];
    journal_name(last.first_batch, JOURNAL_FILE_SUFFIX, name);
    world_close(&world);
    ram_disk_resize(&world.ram, name, (size_t)last.bytes + JOURNAL_SECTOR);
    size_t size;
    uint8_t *bytes = ram_disk_bytes(&world.ram, name, &size);
    assert_true(last.end + JOURNAL_SECTOR <= size);
    memset(bytes + last.end, 0x5a, 100);
    ram_disk_resize(&world.ram, name, size); /* durable now */
    ram_disk_put(&world.ram, JOURNAL_NEXT_NAME, "x", 1);
    ram_disk_put(&world.ram, JOURNAL_SNAPSHOT_TMP_NAME, "x", 1);
}

static int run_flushes(void)
{
    int error = 0;
    for (int i = 0; error == 0 && i < 3; i++) {
        world_trade(&world, 5);
        error = flush();
    }
    return error;
}

/* Over two ends of a file: the first without a prepared next one. */
static int run_roll(void)
{
    int error = 0;
    for (int i = 0; error == 0 && i < 6; i++) {
        world_trade(&world, 25);
        error = flush();
        if (i >= 3) {
            note_background(PRODUCT(journal_prepare_file(world.journal)));
        }
    }
    return error;
}

static int run_snapshot(void)
{
    note_background(snapshot());
    return 0;
}

static int run_trim(void)
{
    note_background(trim());
    return 0;
}

/* All of it in one process, from an empty disk. */
static int run_life(void)
{
    int error = open_journal();
    if (error == 0) {
        world_start_sale(&world);
        error = flush();
    }
    for (int i = 0; error == 0 && i < 9; i++) {
        world_trade(&world, 25);
        error = flush();
        note_background(PRODUCT(journal_prepare_file(world.journal)));
        if (error == 0 && journal_snapshot_due(world.journal)) {
            note_background(snapshot());
            note_background(trim());
        }
    }
    return error;
}

static const struct scenario {
    const char *name;
    void (*prepare)(void);
    int (*run)(void);
} scenarios[] = {
    {"open, fresh", nothing, open_journal},
    {"open with replay", closed_in_disorder, open_journal},
    {"append and flush", opened, run_flushes},
    {"file roll", opened, run_roll},
    {"roll, catalogue full", catalogue_full, run_roll},
    {"snapshot", due_for_snapshot, run_snapshot},
    {"trim", due_for_trim, run_trim},
    {"a whole life", nothing, run_life},
};

/* ---- what comes after the fault ---- */

enum ending { GO_ON, END, POWER_DROP, POWER_KEEP, POWER_MIX, ENDING_COUNT };

/* The fault has gone and the process goes on: what was not final can be done now. */
static void go_on(const struct scenario *scenario)
{
    if (world.journal == NULL || journal_failed(world.journal)) {
        return;
    }
    int before = background;
    assert_int_equal(journal_prepare_file(world.journal), 0);
    assert_int_equal(scenario->run == open_journal ? 0
                     : scenario->run == run_life   ? snapshot()
                                                   : scenario->run(),
                     0);
    assert_int_equal(background, before);
    if (world.count == 0) {
        world_start_sale(&world);
    }
    world_trade(&world, 5);
    assert_int_equal(flush(), 0);
}

static void reopen(uint64_t whole)
{
    assert_int_equal(open_journal(), 0);
    uint64_t lsn = world.found.last_lsn;
    if (lsn != world.acknowledged && lsn != whole) {
        fail_msg("lsn %llu after %llu acknowledged and %llu appended", (unsigned long long)lsn,
                 (unsigned long long)world.acknowledged, (unsigned long long)whole);
    }
    assert_true(world_is_at(&world, lsn));
    world_forget_after(&world, lsn);
}

static void verify(const struct scenario *scenario, enum ending ending, uint64_t n)
{
    if (ending == GO_ON) {
        go_on(scenario);
    }
    uint64_t whole = world.count; /* at most one batch is not acknowledged: the one that failed */
    world_close(&world);
    assert_int_equal(world.ram.open_files, 0);
    struct prng luck = prng_of(n);
    if (ending >= POWER_DROP) {
        ram_disk_crash(&world.ram, (enum ram_crash)(ending - POWER_DROP), &luck);
    }
    reopen(whole);
    if (world.count == 0) {
        world_start_sale(&world);
    }
    trade(2);
    world_close(&world);
    ram_disk_crash(&world.ram, RAM_DROP, &luck);
    reopen(world.count);
    world_close(&world);
}

/* ---- the sweep ---- */

/* One run; how many faults struck. */
static uint64_t run_once(const struct scenario *scenario, struct fault_plan plan,
                         enum ending ending)
{
    int64_t live = fault_live();
    background = 0;
    world_init(&world, 5);
    tap_disk_init(&tap, &world.ram.disk);
    scenario->prepare();
    fault_arm(plan);
    int error = scenario->run();
    uint64_t fired = fault_disarm();
    bool defined = error == 0 || error == fault_code;
    if (!defined || (fired == 0 && error + background != 0)) {
        fail_msg("%s: the outcome of %s %llu is %d", scenario->name, fault_text(plan.kind),
                 (unsigned long long)plan.nth, error);
    }
    verify(scenario, ending, plan.nth);
    tap_disk_done(&tap);
    world_done(&world);
    assert_int_equal(fault_live(), live);
    fault_passed();
    return fired;
}

static void sweep(const struct scenario *scenario, enum fault_kind kind)
{
    static const enum ending few[] = {GO_ON, END, POWER_DROP, POWER_KEEP, POWER_MIX};
    uint64_t total = 0;
    uint64_t runs = 0;
    bool modal = kind != FAULT_MALLOC && kind != FAULT_READ && kind != FAULT_LIST;
    for (enum fault_done done = FAULT_NOTHING; done <= (modal ? FAULT_ALL : 0); done++) {
        if (done == FAULT_HALF && kind != FAULT_WRITE) {
            continue;
        }
        for (int forever = 0; forever < 2; forever++) {
            for (size_t e = 0; e < sizeof(few) / sizeof(few[0]); e++) {
                struct fault_plan plan = {.kind = kind, .done = done, .forever = forever};
                fault_code = kind == FAULT_MALLOC                                  ? ERR_NOMEM
                             : forever && kind != FAULT_READ && kind != FAULT_LIST ? ERR_NOSPACE
                                                                                   : ERR_IO;
                uint64_t fired;
                do {
                    plan.nth++;
                    fired = run_once(scenario, plan, few[e]);
                    total += fired;
                    runs++;
                } while (fired > 0);
            }
        }
    }
    fault_report(scenario->name, kind, total, runs);
}

static void every_call_fails_in(const struct scenario *scenario)
{
    for (enum fault_kind kind = FAULT_MALLOC; kind <= FAULT_LIST; kind++) {
        sweep(scenario, kind);
    }
    assert_true(fault_report_total(scenario->name) > 0);
}

#define SCENARIO(name, index)                                                                      \
    static void name(void **state)                                                                 \
    {                                                                                              \
        (void)state;                                                                               \
        every_call_fails_in(&scenarios[index]);                                                    \
    }
SCENARIO(open_fresh, 0)
SCENARIO(open_with_replay, 1)
SCENARIO(append_and_flush, 2)
SCENARIO(file_roll, 3)
SCENARIO(file_roll_that_needs_memory, 4)
SCENARIO(snapshots, 5)
SCENARIO(trimming, 6)
SCENARIO(a_whole_life, 7)

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_teardown(open_fresh, fault_explain),
        cmocka_unit_test_teardown(open_with_replay, fault_explain),
        cmocka_unit_test_teardown(append_and_flush, fault_explain),
        cmocka_unit_test_teardown(file_roll, fault_explain),
        cmocka_unit_test_teardown(file_roll_that_needs_memory, fault_explain),
        cmocka_unit_test_teardown(snapshots, fault_explain),
        cmocka_unit_test_teardown(trimming, fault_explain),
        cmocka_unit_test_teardown(a_whole_life, fault_explain),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
