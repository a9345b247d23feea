/*
 * Crash enumeration of the journal: short runs are recorded, and every disk that a loss of power
 * could have left at any of their operations is recovered. Each time: every record that was
 * acknowledged is there; what is there is a prefix of what was appended, and the gate is what a
 * replay of that prefix makes; recovering again finds the same; appending goes on, and what is
 * appended then is there after the next loss of power. The power also goes a second time, at every
 * operation of a recovery that has something to mend.
 *
 * With syncs that lie the same checks must fail.
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
#include "crash_disk.h"
#include "fault.h"
#include "journal/journal_private.h"
#include "journal_world.h"

#define RECORDS_MAX 400

static const struct gate_sizes sizes = {.orders = 300, .buyers = 300, .items = 4, .sales = 2};

/* The recorded run. */
static struct world world;
static struct tap_disk tap;
static struct gate_box gates[RECORDS_MAX + 1]; /* what the first n records make */
static bool in_background;

/* ---- the run ---- */

static void flush_and_mark(void)
{
    assert_int_equal(world_flush(&world), 0);
    tap_disk_mark(&tap, world.acknowledged, 0);
}

static void batch(int records)
{
    world_trade(&world, records);
    flush_and_mark();
}

static uint64_t room_in_file(void)
{
    const struct journal_files *catalog = &world.journal->files;
    const struct journal_file *last = &catalog->files[catalog->file_count - 1];
    return last->bytes - last->end;
}

/* The journal thread's batches between two operations of the background thread. */
static void flush_between(void *context)
{
    (void)context;
    if (in_background && room_in_file() >= 2 * JOURNAL_SECTOR) {
        batch(1);
    }
}

static void background(void)
{
    in_background = true;
    assert_int_equal(journal_prepare_file(world.journal), 0);
    if (journal_snapshot_due(world.journal)) {
        struct gate_box second;
        uint64_t lsn;
        uint32_t removed;
        gate_box_init_sizes(&second, sizes);
        assert_int_equal(gate_content_snapshot(world.journal, &second.gate, &lsn), 0);
        gate_box_done(&second);
        assert_int_equal(journal_trim(world.journal, world.acknowledged, &removed), 0);
    }
    in_background = false;
}

static int open_world(struct disk *disk)
{
    gate_box_init_sizes(&world.box, sizes);
    return gate_content_open(disk, world.options, &world.box.gate, &world.journal, &world.found);
}

/* Opens, flushes, rolls, prepares, takes snapshots, trims, closes; and all of it twice more, each
 * after a start from what there is. */
static void record_run(uint64_t seed, uint64_t file_sectors, bool interleaved)
{
    static const int batches[] = {1, 7, 45, 2, 20, 1, 5, 30, 3, 1};
    world_init(&world, seed);
    world.options.file_bytes = file_sectors * JOURNAL_SECTOR;
    world.sizes = sizes;
    tap_disk_init(&tap, &world.ram.disk);
    tap_disk_record(&tap);
    tap.before = interleaved ? flush_between : NULL;
    for (int life = 0; life < 3; life++) {
        assert_int_equal(open_world(&tap.disk), 0);
        if (life == 0) {
            world_start_sale(&world);
            flush_and_mark();
        }
        for (size_t i = 0; i < sizeof(batches) / sizeof(batches[0]); i++) {
            batch(life == 0 ? batches[i] : 1 + batches[i] / 8);
            if (i % 5 == 4 || interleaved) { /* else a roll makes its own next file */
                background();
            }
        }
        world_close(&world);
    }
    assert_true(world.count < RECORDS_MAX);
    for (uint64_t lsn = 0; lsn <= world.count; lsn++) {
        gate_box_init_sizes(&gates[lsn], sizes);
        for (uint64_t i = 0; i < lsn; i++) {
            assert_int_equal(gate_content_replay(&gates[lsn].gate, i + 1, &world.commands[i]), 0);
        }
    }
}

static void forget_run(void)
{
    for (uint64_t lsn = 0; lsn <= world.count; lsn++) {
        gate_box_done(&gates[lsn]);
    }
    tap_disk_done(&tap);
    world_done(&world);
}

/* ---- recovery ---- */

struct survivor {
    struct gate_box box;
    struct journal *journal;
    struct journal_found found;
};

static int survivor_open(struct survivor *survivor, struct disk *disk, char *why, size_t why_size)
{
    gate_box_init_sizes(&survivor->box, sizes);
    survivor->journal = NULL;
    int error = gate_content_open(disk, world.options, &survivor->box.gate, &survivor->journal,
                                  &survivor->found);
    if (error != 0) {
        (void)snprintf(why, why_size, "%s %s %s", err_text(error), survivor->found.where,
                       survivor->found.why);
    }
    return error;
}

static void survivor_close(struct survivor *survivor)
{
    journal_free(survivor->journal);
    gate_box_done(&survivor->box);
}

static int wrong(const char *what, char *why, size_t why_size)
{
    (void)snprintf(why, why_size, "%s", what);
    return ERR_CORRUPT;
}

/* The gate is what the first records of the run make. */
static int check_prefix(const struct survivor *survivor, char *why, size_t why_size)
{
    uint64_t lsn = survivor->found.last_lsn;
    if (lsn > world.count) {
        return wrong("more records than were appended", why, why_size);
    }
    if (!gate_same(&gates[lsn].gate, &survivor->box.gate)) {
        return wrong("the gate is not what its records make", why, why_size);
    }
    return 0;
}

/* Appends what would have come next, or a sale where the run was over. */
static int append_next(struct survivor *survivor, char *why, size_t why_size)
{
    uint64_t next = survivor->found.last_lsn;
    struct gate_command command = {.kind = GATE_LOAD_SALE,
                                   .sale = 99,
                                   .now_ms = survivor->box.gate.highest_ms,
                                   .starts_at_ms = 1,
                                   .ends_at_ms = 2,
                                   .event = survivor->box.gate.applied_event + 1};
    if (next < world.count) {
        command = world.commands[next];
    }
    uint64_t lsn;
    bool wrote;
    if (gate_content_replay(&survivor->box.gate, next + 1, &command) != 0 ||
        gate_content_append(survivor->journal, &command, &lsn) != 0 || lsn != next + 1 ||
        journal_flush(survivor->journal, &wrote) != 0 || !wrote) {
        return wrong("nothing can be appended after the recovery", why, why_size);
    }
    return 0;
}

static int recover_fully(struct ram_disk *ram, struct disk *disk, uint64_t *ret_lsn, char *why,
                         size_t why_size)
{
    struct survivor first;
    struct survivor second;
    struct survivor third;
    struct prng prng = prng_of(1);
    int error = survivor_open(&first, disk, why, why_size);
    error = error != 0 ? error : check_prefix(&first, why, why_size);
    survivor_close(&first);
    if (error != 0) {
        return error;
    }
    ram_disk_crash(ram, RAM_DROP, &prng); /* what recovery found it has made durable */
    error = survivor_open(&second, &ram->disk, why, why_size);
    if (error == 0 && (second.found.last_lsn != first.found.last_lsn ||
                       second.found.torn_bytes != 0 || second.found.bad_snapshots != 0)) {
        error = wrong("a second recovery finds something else", why, why_size);
    }
    error = error != 0 ? error : check_prefix(&second, why, why_size);
    error = error != 0 ? error : append_next(&second, why, why_size);
    if (error == 0) {
        journal_free(second.journal);
        second.journal = NULL;
        ram_disk_crash(ram, RAM_DROP, &prng);
        error = survivor_open(&third, &ram->disk, why, why_size);
        if (error == 0 && (third.found.last_lsn != first.found.last_lsn + 1 ||
                           !gate_same(&third.box.gate, &second.box.gate))) {
            error = wrong("what was appended after the recovery is lost", why, why_size);
        }
        survivor_close(&third);
    }
    survivor_close(&second);
    *ret_lsn = first.found.last_lsn;
    return error;
}

/* ---- going through the run ---- */

struct inquiry {
    struct crash_run *run;
    int depth;      /* of recoveries in recoveries */
    int depth_max;  /* up to so many */
    uint64_t again; /* recoveries that were cut short, too */
};

static bool mends(const struct tap_disk *seen)
{
    for (size_t i = 0; i < seen->ops_count; i++) {
        enum tap_kind kind = seen->ops[i].kind;
        if (kind == TAP_WRITE || kind == TAP_TRUNCATE || kind == TAP_CREATE) {
            return true;
        }
    }
    return false;
}

static int recover(void *context, struct ram_disk *ram, const struct crash_image *image,
                   uint64_t state, uint64_t *ret_lsn, char *why, size_t why_size)
{
    struct inquiry *inquiry = context;
    struct tap_disk seen;
    tap_disk_init(&seen, &ram->disk);
    for (size_t i = 0; i < image->count; i++) {
        tap_disk_know(&seen, image->files[i].name);
    }
    tap_disk_record(&seen);
    int error = recover_fully(ram, &seen.disk, ret_lsn, why, why_size);
    if (error == 0 && inquiry->depth < inquiry->depth_max && mends(&seen)) {
        struct crash_run run = *inquiry->run;
        run.ops = seen.ops;
        run.ops_count = seen.ops_count;
        run.first = image;
        run.promised = *ret_lsn; /* what is whole on the disk, no start may damage */
        run.state = state;
        run.disks = 0;
        run.distinct = 0;
        run.failed = 0;
        run.lost = 0;
        inquiry->depth++;
        inquiry->again++;
        crash_enumerate(&run);
        inquiry->depth--;
        inquiry->run->disks += run.disks;
        inquiry->run->distinct += run.distinct;
        if (run.failed > 0) {
            error = ERR_CORRUPT;
            (void)snprintf(why, why_size, "in its recovery: %.200s", run.first_failed);
        }
    }
    tap_disk_done(&seen);
    return error;
}

static void enumerate(struct crash_run *run, const char *what, uint64_t seed, unsigned lies)
{
    struct inquiry inquiry = {.run = run, .depth_max = 1};
    *run = (struct crash_run){.ops = tap.ops,
                              /* The lies show early; later points would be long and no worse. */
                              .ops_count = lies == 0 || tap.ops_count < 24 ? tap.ops_count : 24,
                              .bound = sweep_long() ? 16384 : 4096,
                              .sample = sweep_long() ? 4000 : 1000,
                              .seed = seed,
                              .lies = lies,
                              .until_loss = lies != 0,
                              .recover = recover,
                              .context = &inquiry,
                              .memo = crash_memo_new()};
    inquiry.depth_max = lies != 0 ? 0 : inquiry.depth_max;
    crash_enumerate(run);
    crash_memo_free(run->memo);
    crash_report(what, run);
    if (inquiry.again > 0) {
        printf("  %llu recoveries with something to mend were cut short themselves\n",
               (unsigned long long)inquiry.again);
    }
}

static void every_crash_of(const char *what, uint64_t file_sectors, bool interleaved)
{
    uint64_t seed = sweep_seed(1);
    for (uint64_t i = 0; i < (sweep_long() ? 4 : 1); i++) {
        struct crash_run run;
        record_run(seed + i, file_sectors, interleaved);
        enumerate(&run, what, seed + i, 0);
        assert_int_equal(run.failed, 0);
        assert_true(run.points > 100 && run.distinct > 1000);
        forget_run();
    }
}

static void one_thread_after_the_other(void **state)
{
    (void)state;
    every_crash_of("small files", 4, false);
}

static void batches_between_the_janitors_operations(void **state)
{
    (void)state;
    every_crash_of("interleaved", 12, true);
}

static void a_disk_that_lies_is_found_out(void **state)
{
    (void)state;
    static const struct {
        unsigned lies;
        const char *what;
        bool loses; /* else the start is refused */
    } lies[] = {
        {CRASH_LIE_SYNC, "sync lies", false},
        {CRASH_LIE_DURABLE, "durable writes lie", true},
        {CRASH_LIE_NAMES, "the sync of names lies", true},
        {CRASH_LIE_SYNC | CRASH_LIE_DURABLE | CRASH_LIE_NAMES, "everything lies", true},
    };
    uint64_t seed = sweep_seed(1);
    record_run(seed, 4, false);
    for (size_t i = 0; i < sizeof(lies) / sizeof(lies[0]); i++) {
        struct crash_run run;
        enumerate(&run, lies[i].what, seed, lies[i].lies);
        assert_true(run.failed > 0);
        assert_true(run.lost > 0 || !lies[i].loses);
    }
    forget_run();
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(one_thread_after_the_other),
        cmocka_unit_test(batches_between_the_janitors_operations),
        cmocka_unit_test(a_disk_that_lies_is_found_out),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
