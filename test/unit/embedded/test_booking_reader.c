/* The booker: decisions come out of the journal once durable, in order, again after a rewind. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "base/err.h"
#include "embedded/booking_reader.h"
#include "journal_world.h"

#define MAX 4096

static struct world world;
static struct booking_reader reader;
static struct ledger_op *ops;

static int begin(struct booking_reader *ret_reader, uint64_t booked_lsn)
{
    booking_reader_init(ret_reader, world.journal);
    int error = ret_reader->source.ops->start(&ret_reader->source, booked_lsn);
    if (error != 0) {
        booking_reader_done(ret_reader);
    }
    return error;
}

static int set_up(void **state)
{
    (void)state;
    world_init(&world, 31);
    ops = calloc(MAX, sizeof(*ops));
    if (ops == NULL || world_open(&world) != 0) {
        return -1;
    }
    world_start_sale(&world);
    return world_flush(&world);
}

static int tear_down(void **state)
{
    (void)state;
    booking_reader_done(&reader);
    world_done(&world);
    free(ops);
    return 0;
}

/* The next decision after `lsn` among the first `end` records, or 0. */
static uint64_t decision_after(uint64_t lsn, uint64_t end)
{
    for (lsn++; lsn <= end; lsn++) {
        if (world.commands[lsn - 1].kind == GATE_RESERVE) {
            return lsn;
        }
    }
    return 0;
}

/* Takes up to max; they must be the decisions that follow `from`. Returns how many. */
static size_t take(size_t max, uint64_t from)
{
    size_t count = 4711;
    assert_int_equal(reader.source.ops->take(&reader.source, ops, max, &count), 0);
    for (size_t i = 0; i < count; i++) {
        from = decision_after(from, world.acknowledged);
        const struct gate_command *want = &world.commands[from - 1];
        assert_int_not_equal(from, 0);
        assert_int_equal(ops[i].kind, LEDGER_BOOK);
        assert_int_equal(ops[i].lsn, from);
        assert_int_equal(ops[i].command.kind, GATE_RESERVE);
        assert_true(order_id_equal(ops[i].command.id, want->id));
        assert_int_equal(ops[i].command.user, want->user);
        assert_int_equal(ops[i].command.qty, want->qty);
        assert_int_equal(ops[i].command.now_ms, want->now_ms);
        assert_null(ops[i].sale);
    }
    return count;
}

static size_t decisions(uint64_t from, uint64_t end)
{
    size_t n = 0;
    while ((from = decision_after(from, end)) != 0) {
        n++;
    }
    return n;
}

static void only_durable_decisions_are_booked(void **state)
{
    (void)state;
    assert_int_equal(begin(&reader, 0), 0);
    assert_int_equal(take(MAX, 0), 0); /* a sale was loaded: no decision among it */
    assert_int_equal(reader.read_lsn, 4);
    world_trade(&world, 30);
    assert_int_equal(take(MAX, 4), 0); /* appended is not durable */
    assert_int_equal(reader.read_lsn, 4);
    assert_int_equal(world_flush(&world), 0);
    assert_int_equal(take(MAX, 4), decisions(4, world.count));
    assert_int_equal(reader.read_lsn, world.count);
    assert_int_equal(reader.booked_lsn, 0); /* not before the ledger has committed */
}

static void a_batch_takes_no_more_than_its_share(void **state)
{
    (void)state;
    assert_int_equal(begin(&reader, 0), 0);
    for (int i = 0; i < 20; i++) {
        world_batch(&world, 10); /* over several segments */
    }
    size_t all = 0;
    for (;;) {
        size_t count = take(7, reader.read_lsn);
        all += count;
        reader.source.ops->commit(&reader.source, reader.read_lsn);
        assert_int_equal(reader.booked_lsn, reader.read_lsn);
        if (count < 7) {
            break;
        }
    }
    assert_int_equal(all, decisions(0, world.count));
    assert_int_equal(reader.read_lsn, world.count);
}

static void a_rewind_gives_what_is_not_committed_again(void **state)
{
    (void)state;
    assert_int_equal(begin(&reader, 0), 0);
    world_batch(&world, 40);
    size_t first = take(5, 0);
    assert_int_equal(first, 5);
    reader.source.ops->commit(&reader.source, reader.read_lsn);
    uint64_t committed = reader.booked_lsn;
    for (int i = 0; i < 3; i++) {
        assert_int_equal(take(6, committed), 6);
        assert_int_equal(take(6, reader.read_lsn), 6);
        assert_int_equal(reader.source.ops->rewind(&reader.source), 0);
        assert_int_equal(reader.read_lsn, committed);
    }
    assert_int_equal(take(MAX, committed), decisions(committed, world.count));
}

static void the_cursor_never_goes_back(void **state)
{
    (void)state;
    assert_int_equal(begin(&reader, 3), 0);
    reader.source.ops->commit(&reader.source, 2);
    assert_int_equal(reader.booked_lsn, 3);
    reader.source.ops->commit(&reader.source, 4);
    assert_int_equal(reader.booked_lsn, 4);
}

static void it_goes_on_after_the_ledger_backends_cursor(void **state)
{
    (void)state;
    world_batch(&world, 60);
    uint64_t from = decision_after(20, world.count); /* the cursor stands on a decision */
    assert_int_equal(begin(&reader, from), 0);
    assert_int_equal(reader.booked_lsn, from);
    assert_int_equal(take(MAX, from), decisions(from, world.count));
}

static void a_disk_that_cannot_be_read_is_told_and_nothing_is_passed_over(void **state)
{
    (void)state;
    assert_int_equal(begin(&reader, 0), 0);
    world_batch(&world, 30);
    size_t count = 0;
    world.ram.dead_at = world.ram.ops + 1;
    assert_int_equal(reader.source.ops->take(&reader.source, ops, MAX, &count), ERR_IO);
    assert_int_equal(count, 0);
    world.ram.dead_at = 0;
    assert_int_equal(reader.source.ops->rewind(&reader.source), 0);
    assert_int_equal(take(MAX, 0), decisions(0, world.count));
}

/* Two snapshots, so that the trim lets the segments below the older one go. */
static void trim_all(void)
{
    for (int i = 0; i < 2; i++) {
        struct gate_box second;
        uint64_t lsn = 0;
        for (int n = 0; n < 12; n++) {
            world_batch(&world, 20);
        }
        gate_box_init_sizes(&second, world.sizes);
        assert_int_equal(gate_content_snapshot(world.journal, &second.gate, &lsn), 0);
        gate_box_done(&second);
        assert_true(lsn > 0);
    }
    uint32_t removed = 0;
    assert_int_equal(journal_trim(world.journal, UINT64_MAX, &removed), 0);
    assert_true(removed > 0);
}

/* Decisions between the ledger's cursor and the journal's beginning would never be booked. */
static void a_journal_that_begins_after_the_cursor_is_refused_at_once(void **state)
{
    (void)state;
    trim_all();
    struct booking_reader late = {0};
    assert_int_equal(begin(&late, 5), ERR_NOTFOUND);
    assert_null(late.journal_reader);
    assert_int_equal(begin(&reader, world.count), 0);
    assert_int_equal(take(MAX, world.count), 0);
}

int main(void)
{
#define TEST(name) cmocka_unit_test_setup_teardown(name, set_up, tear_down)
    const struct CMUnitTest tests[] = {
        TEST(only_durable_decisions_are_booked),
        TEST(a_batch_takes_no_more_than_its_share),
        TEST(a_rewind_gives_what_is_not_committed_again),
        TEST(the_cursor_never_goes_back),
        TEST(it_goes_on_after_the_ledger_backends_cursor),
        TEST(a_disk_that_cannot_be_read_is_told_and_nothing_is_passed_over),
        TEST(a_journal_that_begins_after_the_cursor_is_refused_at_once),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
