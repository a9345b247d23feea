/*
 * Every operation of a journal's life fails once, and the power goes at every operation: whatever
 * was acknowledged is there afterwards, in order and complete, and the journal can be opened again.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "base/err.h"
#include "journal/journal_private.h"
#include "journal_world.h"

/* One process' life: it trades, prepares, takes snapshots and trims until something is final.
 * Background errors are not: they are counted, and the journal goes on. */
static int live(struct world *world, int turns, int *ret_background)
{
    int background = 0;
    int error = world_open(world);
    if (error != 0) {
        return error;
    }
    if (world->found.last_lsn < world->acknowledged || world->found.last_lsn > world->count ||
        !world_is_at(world, world->found.last_lsn)) {
        return ERR_AHEAD; /* a word that journal_open never says: the checker's own */
    }
    world_forget_after(world, world->found.last_lsn);
    if (world->count == 0) {
        world_start_sale(world);
        error = world_flush(world);
    }
    for (int i = 0; error == 0 && i < turns; i++) {
        world_trade(world, 25);
        error = world_flush(world);
        if (error == ERR_NOSPACE && !journal_failed(world->journal)) {
            error = world_flush(world); /* there is space again */
        }
        background += journal_prepare_file(world->journal) != 0;
        if (error == 0 && journal_snapshot_due(world->journal)) {
            struct gate_box second;
            gate_box_init(&second);
            uint64_t lsn;
            background += gate_content_snapshot(world->journal, &second.gate, &lsn) != 0;
            gate_box_done(&second);
            uint32_t removed;
            background += journal_trim(world->journal, world->acknowledged, &removed) != 0;
        }
    }
    world_close(world);
    *ret_background = background;
    return error;
}

#define TURNS 14

/* Whole life without faults: how many operations it has. */
static uint64_t count_operations(void)
{
    static struct world world;
    world_init(&world, 5);
    int background = 0;
    assert_int_equal(live(&world, TURNS, &background), 0);
    assert_int_equal(background, 0);
    uint64_t ops = world.ram.ops;
    assert_true(ops > 100);
    world_done(&world);
    return ops;
}

/* Opens after the fault, trades a little, loses the power, and opens once more: what was built on
 * is there to stay, too. */
static void expect_healed(struct world *world)
{
    int background = 0;
    ram_disk_calm(&world->ram);
    assert_int_equal(live(world, 2, &background), 0);
    assert_int_equal(background, 0);
    ram_disk_crash(&world->ram, RAM_DROP, &world->prng);
    assert_int_equal(live(world, 1, &background), 0);
    assert_int_equal(background, 0);
}

static void any_operation_may_fail_once(void **state)
{
    (void)state;
    static struct world world;
    static const int codes[] = {ERR_IO, ERR_NOSPACE};
    uint64_t ops = count_operations();
    for (uint64_t n = 1; n <= ops; n++) {
        for (int how = 0; how < 8; how++) {
            world_init(&world, 5);
            world.ram.fail_at = n;
            world.ram.fail_code = codes[how % 2];
            int background = 0;
            int error = live(&world, TURNS, &background);
            assert_true(error == 0 || error == codes[how % 2]);
            assert_true(background <= 1);
            world_close(&world);
            if (how >= 2) { /* how 0 and 1: only the process ends */
                ram_disk_crash(&world.ram, (enum ram_crash)(how / 2 - 1), &world.prng);
            }
            expect_healed(&world);
            world_done(&world);
        }
    }
}

static void the_power_may_go_at_any_operation(void **state)
{
    (void)state;
    static struct world world;
    uint64_t ops = count_operations();
    for (uint64_t n = 1; n <= ops; n++) {
        for (int how = 0; how < 8; how++) {
            world_init(&world, 5);
            struct prng luck = prng_of(n * 100 + (uint64_t)how);
            world.ram.dead_at = n;
            int background = 0;
            int error = live(&world, TURNS, &background);
            assert_true(error == ERR_IO || (n > ops - 20 && error == 0) || background > 0);
            world_close(&world);
            ram_disk_crash(&world.ram, how < 2 ? (enum ram_crash)how : RAM_MIX, &luck);
            expect_healed(&world);
            world_done(&world);
        }
    }
}

static void and_again_while_it_recovers(void **state)
{
    (void)state;
    static struct world world;
    uint64_t ops = count_operations();
    for (uint64_t n = 3; n <= ops; n += 3) {
        for (uint64_t m = 1; m < 40; m++) {
            world_init(&world, 5);
            struct prng luck = prng_of(n * 1000 + m);
            world.ram.dead_at = n;
            int background = 0;
            (void)live(&world, TURNS, &background);
            world_close(&world);
            ram_disk_crash(&world.ram, RAM_MIX, &luck);
            world.ram.dead_at = m;
            assert_int_not_equal(live(&world, 1, &background), ERR_AHEAD);
            world_close(&world);
            ram_disk_crash(&world.ram, RAM_MIX, &luck);
            expect_healed(&world);
            world_done(&world);
        }
    }
}

static void without_syncs_the_checker_sees_the_loss(void **state)
{
    (void)state;
    static struct world world;
    int seen = 0;
    for (uint64_t seed = 1; seed <= 20; seed++) {
        world_init(&world, seed);
        struct prng luck = prng_of(seed);
        int background = 0;
        assert_int_equal(live(&world, 2, &background), 0);
        world.ram.sync_is_lie = true;
        assert_int_equal(live(&world, 2, &background), 0);
        ram_disk_crash(&world.ram, RAM_DROP, &luck);
        seen += live(&world, 1, &background) != 0;
        world_done(&world);
    }
    assert_int_equal(seen, 20);
}

static void a_full_disk_at_any_size(void **state)
{
    (void)state;
    static struct world world;
    for (uint64_t space = 0; space < 30 * JOURNAL_SECTOR; space += 1000) {
        world_init(&world, 6);
        world.ram.space = space + 1;
        int background = 0;
        int error = live(&world, TURNS, &background);
        assert_true(error == 0 || error == ERR_NOSPACE);
        world_close(&world);
        expect_healed(&world);
        world_done(&world);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(any_operation_may_fail_once),
        cmocka_unit_test(the_power_may_go_at_any_operation),
        cmocka_unit_test(and_again_while_it_recovers),
        cmocka_unit_test(without_syncs_the_checker_sees_the_loss),
        cmocka_unit_test(a_full_disk_at_any_size),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
