/* Blocks pass through the ledger writer: into the ledger, and from there to the sink. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>

#include <cmocka.h>

#include "base/err.h"
#include "ledger_writer_world.h"

static struct ledger_writer_world world;

/* ---- a sink that counts ---- */

static struct {
    struct block_sink sink;
    int begun;
    int puts;
    struct block_row last;
    bool full;
} seen;

static void begin(struct block_sink *sink)
{
    (void)sink;
    seen.begun++;
}

static bool put(struct block_sink *sink, const struct block_row *row, int64_t now_ms)
{
    (void)sink;
    assert_int_equal(now_ms, inside_time_ms(&world.time));
    seen.puts++;
    seen.last = *row;
    if (world.ledger_writer != NULL) {
        assert_null(ledger_writer_collect(world.ledger_writer, 0)); /* its op is not answered yet */
    }
    return !seen.full;
}

static void end(struct block_sink *sink, int64_t now_ms)
{
    (void)sink;
    (void)now_ms;
}

static const struct block_sink_ops ops = {begin, put, end};

static int set_up(void **state)
{
    (void)state;
    memset(&seen, 0, sizeof(seen));
    seen.sink.ops = &ops;
    ledger_writer_world_init(&world);
    world.options.blocks = &seen.sink;
    assert_int_equal(ledger_writer_world_up(&world), 0);
    return 0;
}

static int tear_down(void **state)
{
    (void)state;
    ledger_writer_world_done(&world);
    return 0;
}

static struct ledger_writer_op *op_new(enum ledger_kind kind, struct block_row *row,
                                       const char *user)
{
    *row = (struct block_row){.kind = BLOCK_USER, .reason = "robot"};
    memcpy(row->value, user, strlen(user) + 1);
    struct ledger_writer_op *op = ledger_writer_op_new(&world, kind, 0);
    op->op.block = row;
    return op;
}

/* Its error. */
static int run(enum ledger_kind kind, const char *user, bool *ret_repeated)
{
    struct block_row row;
    struct ledger_writer_op *op = op_new(kind, &row, user);
    ledger_writer_world_do(&world, op);
    int error = op->error;
    *ret_repeated = op->op.repeated;
    ledger_writer_op_free(op);
    return error;
}

/* ---- tests ---- */

static void a_block_is_at_work_before_it_is_answered(void **state)
{
    (void)state;
    bool repeated = false;
    assert_int_equal(seen.begun, 1); /* at the start all were read */
    assert_int_equal(seen.puts, 0);
    assert_int_equal(run(LEDGER_BLOCK, "7", &repeated), 0);
    assert_int_equal(seen.puts, 1);
    assert_string_equal(seen.last.value, "7");
    assert_int_equal(run(LEDGER_BLOCK, "7", &repeated), 0);
    assert_true(repeated);
    assert_int_equal(seen.puts, 1); /* nothing changed */
    assert_int_equal(run(LEDGER_UNBLOCK, "7", &repeated), 0);
    assert_int_equal(seen.puts, 2);
    assert_int_equal(seen.last.until_ms, BLOCK_REMOVED);
    assert_int_equal(seen.begun, 1);
}

static void a_restart_reads_them_all(void **state)
{
    (void)state;
    bool repeated = false;
    assert_int_equal(run(LEDGER_BLOCK, "7", &repeated), 0);
    assert_int_equal(run(LEDGER_BLOCK, "8", &repeated), 0);
    seen.puts = 0;
    ledger_writer_world_crash(&world);
    assert_int_equal(ledger_writer_world_up(&world), 0);
    assert_int_equal(seen.begun, 2);
    assert_int_equal(seen.puts, 2);
}

static void one_whose_answer_was_lost_is_found(void **state)
{
    (void)state;
    bool repeated = false;
    world.ledger.lose_next = ERR_IO;
    assert_int_not_equal(run(LEDGER_BLOCK, "7", &repeated), 0);
    ledger_writer_world_pass_ms(&world, 1000);
    assert_int_equal(seen.puts, 1);
    assert_string_equal(seen.last.value, "7");
    assert_int_equal(run(LEDGER_BLOCK, "7", &repeated), 0);
    assert_true(repeated);
}

/* The ledger may have dropped what ended since. */
static void after_a_long_time_all_are_read(void **state)
{
    (void)state;
    bool repeated = false;
    assert_int_equal(run(LEDGER_BLOCK, "7", &repeated), 0);
    ledger_writer_world_pass_ms(&world, BLOCK_KEEP_MS / 2);
    seen.puts = 0;
    assert_int_equal(run(LEDGER_BLOCK, "8", &repeated), 0);
    assert_int_equal(seen.begun, 1);
    assert_int_equal(seen.puts, 1);
    ledger_writer_world_pass_ms(&world, BLOCK_KEEP_MS / 2 + 1);
    seen.puts = 0;
    assert_int_equal(run(LEDGER_BLOCK, "9", &repeated), 0);
    assert_int_equal(seen.begun, 2);
    assert_int_equal(seen.puts, 3);
}

static void many_are_read_in_pages(void **state)
{
    (void)state;
    bool repeated = false;
    char user[16];
    for (int i = 1; i <= 70; i++) {
        (void)snprintf(user, sizeof(user), "%d", i);
        assert_int_equal(run(LEDGER_BLOCK, user, &repeated), 0);
    }
    seen.puts = 0;
    seen.full = true; /* then it is said, and the rest is read all the same */
    ledger_writer_world_crash(&world);
    assert_int_equal(ledger_writer_world_up(&world), 0);
    assert_int_equal(seen.puts, 70);
}

int main(void)
{
#define TEST(name) cmocka_unit_test_setup_teardown(name, set_up, tear_down)
    const struct CMUnitTest tests[] = {
        TEST(a_block_is_at_work_before_it_is_answered),
        TEST(a_restart_reads_them_all),
        TEST(one_whose_answer_was_lost_is_found),
        TEST(after_a_long_time_all_are_read),
        TEST(many_are_read_in_pages),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
