/* Balancing: where units go, that none is lost or made on the way, and every place to die at. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "base/check.h"
#include "base/err.h"
#include "keeper_fixture.h"
#include "obs/log.h"

#define SEGMENTS 3

struct shop {
    struct cluster_world world;
    struct model_process process;
    struct recover *recover;
    struct balance *balance;
};

static void shop_open(struct shop *shop, uint64_t seed)
{
    model_init(&shop->world, (struct cluster_options){.segments = SEGMENTS, .seed = seed});
    model_process_init(&shop->process, &shop->world, 2);
    shop->recover = recover_of(&shop->process, SEGMENTS, DRAIN_MS);
    shop->balance = balance_of(&shop->process, SEGMENTS);
    recover_until_whole(&shop->world, shop->recover);
    model_agree(&shop->world);
}

static void shop_close(struct shop *shop)
{
    balance_free(shop->balance);
    recover_free(shop->recover);
    model_process_done(&shop->process);
    model_done(&shop->world);
}

static struct balance_round round_of(struct shop *shop)
{
    struct balance_round round = {0};
    assert_int_equal(0, balance_round(shop->balance, &round));
    return round;
}

static uint64_t available(const struct shop *shop, uint32_t segment, uint64_t item)
{
    const struct gate *gate = sim_segments_gate(shop->world.sim, segment);
    return gate->items[gate_find_item(gate, item)].available;
}

/* Buys at one home until so many are left. */
static void sell(struct shop *shop, uint32_t segment, uint64_t item, uint64_t left)
{
    static uint64_t user;
    while (available(shop, segment, item) > left) {
        if (segment_home(++user, SEGMENTS) == segment) {
            CHECK(model_buy(&shop->world, user, item, 1));
        }
    }
}

/* ---- where units go ---- */

static void test_nothing_moves_while_nobody_is_dry(void **state)
{
    (void)state;
    struct shop shop;
    shop_open(&shop, 1);
    sell(&shop, 0, CLUSTER_FREE, 5); /* of 10; the fair share is 8 */
    struct balance_round round = round_of(&shop);
    assert_int_equal(0, round.moved + round.finished + round.open);
    assert_int_equal(0, shop.world.ledger.transfers_count);
    shop_close(&shop);
}

static void test_a_dry_home_gets_its_fair_share(void **state)
{
    (void)state;
    struct shop shop;
    shop_open(&shop, 1);
    sell(&shop, 0, CLUSTER_FREE, 0);
    struct balance_round round = round_of(&shop);
    assert_true(round.moved >= 1);
    assert_int_equal(6, round.units);           /* a third of 20 */
    assert_int_equal(0, round_of(&shop).moved); /* they are on their way */
    model_settle(&shop.world);
    assert_int_equal(6, available(&shop, 0, CLUSTER_FREE));
    assert_true(available(&shop, 1, CLUSTER_FREE) >= 6 && available(&shop, 2, CLUSTER_FREE) >= 6);
    model_agree(&shop.world);
    /* They have come and are sold: more follow at once. */
    sell(&shop, 0, CLUSTER_FREE, 0);
    assert_true(round_of(&shop).moved > 0);
    assert_int_equal(0, round_of(&shop).moved);
    model_settle(&shop.world);
    model_agree(&shop.world);
    shop_close(&shop);
}

/* Units that fronts ask for a few at a time keep coming; the home is filled all the same. */
static void small_transfers_hold_off_no_large_one(void **state)
{
    (void)state;
    struct shop shop;
    shop_open(&shop, 1);
    sell(&shop, 0, CLUSTER_FREE, 0);
    struct ledger_op op = {
        .kind = LEDGER_TRANSFER, .item = CLUSTER_FREE, .segment = 1, .to_segment = 0, .amount = 1};
    order_id_text(order_id_fresh(CLUSTER_FREE, CLUSTER_NOW, 77), op.key);
    assert_int_equal(REFUSAL_NONE, cluster_run(&shop.world, &op)); /* a front's */
    struct balance_round round = round_of(&shop);
    assert_int_equal(1, round.finished);
    assert_true(round.moved > 0);
    assert_int_equal(6, round.units); /* with the one, its fair share of 19 */
    assert_int_equal(0, round_of(&shop).moved);
    model_settle(&shop.world);
    model_agree(&shop.world);
    shop_close(&shop);
}

static void test_paused_and_closed_sales_are_left_alone(void **state)
{
    (void)state;
    struct shop shop;
    shop_open(&shop, 1);
    sell(&shop, 0, CLUSTER_FREE, 0);
    struct ledger_op op = {
        .kind = LEDGER_SALE_MOVE, .sale_id = CLUSTER_SALE, .target = SALE_PAUSED};
    (void)cluster_run(&shop.world, &op);
    assert_int_equal(0, round_of(&shop).moved);
    shop_close(&shop);
}

/* Fewer units than homes: they stay where they are until somebody asks. */
static void test_the_last_units_go_to_whoever_asked(void **state)
{
    (void)state;
    struct shop shop;
    shop_open(&shop, 1);
    sell(&shop, 0, CLUSTER_FREE, 0);
    sell(&shop, 1, CLUSTER_FREE, 0);
    sell(&shop, 2, CLUSTER_FREE, 2);
    assert_int_equal(0, round_of(&shop).moved);
    balance_ask(shop.balance, 0, CLUSTER_FREE, 3, 3); /* there are not so many */
    assert_int_equal(0, round_of(&shop).moved);
    balance_ask(shop.balance, 0, CLUSTER_FREE, 2, 2);
    assert_int_equal(2, round_of(&shop).units);
    model_settle(&shop.world);
    assert_int_equal(2, available(&shop, 0, CLUSTER_FREE));
    /* Not to and fro: another has to wait. */
    balance_ask(shop.balance, 1, CLUSTER_FREE, 1, 1);
    balance_ask(shop.balance, 2, CLUSTER_FREE, 1, 1);
    assert_int_equal(0, round_of(&shop).moved);
    fake_clock_pass_ms(&shop.world.clock, PAUSE_MS);
    assert_int_equal(1, round_of(&shop).moved);
    model_settle(&shop.world);
    model_agree(&shop.world);
    shop_close(&shop);
}

/* A number that no single segment has is gathered from several. */
static void test_an_ask_is_gathered(void **state)
{
    (void)state;
    struct shop shop;
    shop_open(&shop, 1);
    sell(&shop, 0, CLUSTER_FREE, 1);
    sell(&shop, 1, CLUSTER_FREE, 2);
    sell(&shop, 2, CLUSTER_FREE, 2);
    balance_ask(shop.balance, 0, CLUSTER_FREE, 5, 5);
    struct balance_round round = round_of(&shop);
    assert_int_equal(2, round.moved);
    assert_int_equal(4, round.units);
    model_settle(&shop.world);
    assert_int_equal(5, available(&shop, 0, CLUSTER_FREE));
    model_agree(&shop.world);
    assert_int_equal(0, round_of(&shop).moved); /* served; and those it lacks now wait their turn */
    shop_close(&shop);
}

/* One that still has units keeps its share, however many ask. */
static void test_the_last_full_segment_is_not_emptied(void **state)
{
    (void)state;
    struct shop shop;
    shop_open(&shop, 1);
    sell(&shop, 0, CLUSTER_FREE, 0);
    sell(&shop, 1, CLUSTER_FREE, 0);
    for (int i = 0; i < 5; i++) {
        (void)round_of(&shop);
        model_settle(&shop.world);
    }
    assert_int_equal(4, available(&shop, 2, CLUSTER_FREE));
    assert_int_equal(3, available(&shop, 0, CLUSTER_FREE));
    assert_int_equal(3, available(&shop, 1, CLUSTER_FREE));
    model_agree(&shop.world);
    shop_close(&shop);
}

/* ---- what goes wrong ---- */

/* A later round has finished every transfer: units are at gates and in orders, and none elsewhere. */
static void check_units(struct shop *shop)
{
    const struct memory_ledger *ledger = &shop->world.ledger;
    model_audit(&shop->world);
    model_settle(&shop->world);
    for (size_t i = 0; i < ledger->transfers_count; i++) {
        assert_int_not_equal(TRANSFER_OPEN, ledger->transfers[i].state);
    }
    model_agree(&shop->world);
}

static void test_dying_at_every_call(void **state)
{
    (void)state;
    uint64_t calls = 1000;
    for (uint64_t k = 1; k <= calls; k++) {
        struct shop shop;
        shop_open(&shop, 1);
        sell(&shop, 0, CLUSTER_FREE, 0);
        sell(&shop, 1, CLUSTER_THREE, 0);
        shop.process.calls = 0;
        shop.process.dies_at = k;
        struct balance_round round;
        int error = balance_round(shop.balance, &round);
        calls = error == 0 && shop.process.calls < k ? 0 : calls; /* it lived */
        model_turn(&shop.world);
        /* Another process goes on. */
        fake_clock_pass_ms(&shop.world.clock, MODEL_LEASE_MS + 1);
        balance_free(shop.balance);
        model_process_done(&shop.process);
        model_process_init(&shop.process, &shop.world, 3);
        shop.balance = balance_of(&shop.process, SEGMENTS);
        (void)round_of(&shop);
        check_units(&shop);
        if (calls == 0) {
            assert_true(k > 12);
        }
        shop_close(&shop);
    }
}

/* The source is rebuilt between two steps of a transfer: void, and the units are its own again. */
struct breaker {
    struct shop *shop;
    uint64_t at;
    uint32_t how;
    bool struck;
    size_t noted; /* transfers, when it struck */
};

static void strike(struct model_process *process)
{
    struct breaker *breaker = process->context;
    struct shop *shop = breaker->shop;
    if (breaker->struck || process->calls != breaker->at) {
        return;
    }
    breaker->struck = true;
    struct model_process healer;
    model_process_init(&healer, &shop->world, 9);
    struct recover *recover = recover_of(&healer, SEGMENTS, DRAIN_MS);
    struct recover_round round;
    for (uint32_t i = 0; i < SEGMENTS; i++) {
        if (breaker->how == 0) {
            (void)sim_segments_failover(shop->world.sim, i, 3);
        } else if (breaker->how == 1) {
            sim_segments_empty(shop->world.sim, i);
        } else {
            segments_tell(shop->world.hands,
                          &(struct segment_news){.kind = NEWS_BROKEN,
                                                 .segment = i,
                                                 .epoch = shop->world.ledger.epochs[i]});
        }
    }
    CHECK(recover_round(recover, &round) == 0 && round.rebuilt == SEGMENTS);
    breaker->noted = shop->world.ledger.transfers_count;
    model_turn(&shop->world);
    recover_free(recover);
    model_process_done(&healer);
}

#define EPOCHS_READ 3 /* the first calls of a round: its lease, and the epochs */

static void test_a_rebuilt_source(void **state)
{
    (void)state;
    uint64_t notes = 0; /* that did not come to be */
    for (uint32_t how = 0; how < 3; how++) {
        bool struck = true;
        for (uint64_t k = 1; struck; k++) {
            struct shop shop;
            shop_open(&shop, 1);
            sell(&shop, 0, CLUSTER_FREE, 0);
            struct breaker breaker = {.shop = &shop, .at = k, .how = how};
            shop.process.calls = 0;
            shop.process.meanwhile = strike;
            shop.process.context = &breaker;
            struct balance_round round;
            (void)balance_round(shop.balance, &round);
            shop.process.meanwhile = NULL;
            struck = breaker.struck;
            /* Once the epochs were read, moves follow from what is no longer so: none is noted. */
            assert_true(!struck || k < EPOCHS_READ ||
                        shop.world.ledger.transfers_count == breaker.noted);
            notes += struck && k >= EPOCHS_READ && shop.world.ledger.transfers_count == 0;
            fake_clock_pass_ms(&shop.world.clock, PAUSE_MS);
            (void)round_of(&shop);
            check_units(&shop);
            assert_true(struck || k > 10);
            shop_close(&shop);
        }
    }
    assert_true(notes > 10);
}

/* The ledger refuses units that are sold: the segment that gave them is wrong, and is rebuilt. */
static void test_a_source_that_gives_what_is_sold(void **state)
{
    (void)state;
    struct shop shop;
    struct segment_state look;
    shop_open(&shop, 1);
    for (uint32_t s = 0; s < SEGMENTS; s++) {
        sell(&shop, s, CLUSTER_FREE, 0);
    }
    model_settle(&shop.world);
    assert_true(sim_segments_break(shop.world.sim, 1, CLUSTER_FREE));
    assert_true(available(&shop, 1, CLUSTER_FREE) > 0);
    struct balance_round round = round_of(&shop);
    assert_int_equal(0, round.units);
    assert_true(round.open > 0);
    segments_look(&shop.process.segments.port, 1, &look);
    assert_true(look.broken);
    recover_until_whole(&shop.world, shop.recover);
    fake_clock_pass_ms(&shop.world.clock, PAUSE_MS);
    assert_int_equal(0, round_of(&shop).open);
    assert_int_equal(TRANSFER_VOID, shop.world.ledger.transfers[0].state);
    model_settle(&shop.world);
    model_agree(&shop.world);
    shop_close(&shop);
}

/* A holder that was paused past its lease wakes up behind its successor. */
static void successor(struct model_process *process)
{
    struct breaker *breaker = process->context;
    struct shop *shop = breaker->shop;
    if (breaker->struck || process->calls != breaker->at) {
        return;
    }
    breaker->struck = true;
    fake_clock_pass_ms(&shop->world.clock, MODEL_LEASE_MS + 1);
    struct model_process next;
    struct balance_round round;
    model_process_init(&next, &shop->world, 8);
    struct balance *balance = balance_of(&next, SEGMENTS);
    CHECK(balance_round(balance, &round) == 0);
    model_turn(&shop->world);
    balance_free(balance);
    model_process_done(&next);
}

static void test_a_paused_holder(void **state)
{
    (void)state;
    bool struck = true;
    uint64_t fenced = 0;
    for (uint64_t k = 1; struck; k++) {
        struct shop shop;
        shop_open(&shop, 1);
        sell(&shop, 0, CLUSTER_FREE, 0);
        struct breaker breaker = {.shop = &shop, .at = k};
        shop.process.calls = 0;
        shop.process.meanwhile = successor;
        shop.process.context = &breaker;
        struct balance_round round;
        int error = balance_round(shop.balance, &round);
        shop.process.meanwhile = NULL;
        struck = breaker.struck;
        assert_true(error == 0 || error == ERR_BUSY);
        assert_int_equal(0, shop.process.unleased);
        fenced += shop.process.fenced;
        fake_clock_pass_ms(&shop.world.clock, MODEL_LEASE_MS + 1);
        (void)round_of(&shop);
        check_units(&shop);
        shop_close(&shop);
    }
    assert_true(fenced > 4);
}

static void test_a_source_that_is_away_is_waited_for(void **state)
{
    (void)state;
    struct shop shop;
    shop_open(&shop, 1);
    sell(&shop, 0, CLUSTER_FREE, 0);
    struct ledger_op op = {.kind = LEDGER_TRANSFER,
                           .item = CLUSTER_FREE,
                           .segment = 1,
                           .to_segment = 0,
                           .amount = 100};
    order_id_text(order_id_fresh(CLUSTER_FREE, CLUSTER_NOW, 77), op.key);
    assert_int_equal(REFUSAL_NONE, cluster_run(&shop.world, &op)); /* by anybody */
    sim_segments_away(shop.world.sim, 1, true);
    struct balance_round round = round_of(&shop);
    assert_int_equal(1, round.open);
    sim_segments_away(shop.world.sim, 1, false);
    round = round_of(&shop);
    assert_int_equal(1, round.finished);
    assert_int_equal(10, shop.world.ledger.transfers[0].moved); /* what there was */
    model_settle(&shop.world);
    model_agree(&shop.world);
    /* An answer that is lost is asked for again, and nothing is taken twice. */
    order_id_text(order_id_fresh(CLUSTER_FREE, CLUSTER_NOW, 78), op.key);
    op.segment = 0;
    op.to_segment = 1;
    op.amount = 3;
    assert_int_equal(REFUSAL_NONE, cluster_run(&shop.world, &op));
    sim_segments_lose(shop.world.sim, 0, 1);
    assert_int_equal(1, round_of(&shop).open);
    shop.process.lose_next = ERR_IO; /* of TRANSFERRED */
    assert_int_equal(ERR_IO, balance_round(shop.balance, &round));
    (void)round_of(&shop);
    check_units(&shop);
    assert_int_equal(3, shop.world.ledger.transfers[1].moved);
    shop_close(&shop);
}

static void test_one_transfer_for_a_pair_at_a_time(void **state)
{
    (void)state;
    struct shop shop;
    shop_open(&shop, 1);
    sell(&shop, 1, CLUSTER_FREE, 0);
    struct ledger_op op = {
        .kind = LEDGER_TRANSFER, .item = CLUSTER_FREE, .segment = 0, .to_segment = 1, .amount = 3};
    order_id_text(order_id_fresh(CLUSTER_FREE, CLUSTER_NOW, 77), op.key);
    assert_int_equal(REFUSAL_NONE, cluster_run(&shop.world, &op));
    sim_segments_lose(shop.world.sim, 0, 1); /* it stays open */
    balance_ask(shop.balance, 1, CLUSTER_FREE, 15, 15);
    struct balance_round round = round_of(&shop);
    assert_int_equal(1, round.open);
    assert_int_equal(1, round.moved);
    assert_int_equal(2, shop.world.ledger.transfers_count);
    assert_int_equal(2, shop.world.ledger.transfers[1].row.segment);
    fake_clock_pass_ms(&shop.world.clock, PAUSE_MS);
    (void)round_of(&shop);
    check_units(&shop);
    shop_close(&shop);
}

static void test_somebody_else_balances(void **state)
{
    (void)state;
    struct shop shop;
    uint64_t token;
    struct memory_holder other;
    struct balance_round round;
    shop_open(&shop, 1);
    sell(&shop, 0, CLUSTER_FREE, 0);
    memory_holder_init(&other, &shop.world.ledger, "somebody");
    assert_int_equal(0, lease_take(&other.port, "balance", 1000, &token));
    assert_int_equal(ERR_BUSY, balance_round(shop.balance, &round));
    assert_int_equal(0, shop.world.ledger.transfers_count);
    shop_close(&shop);
}

static void test_who_ends_gives_the_lease_up(void **state)
{
    (void)state;
    struct shop shop;
    uint64_t token;
    struct memory_holder other;
    shop_open(&shop, 1);
    (void)round_of(&shop);
    memory_holder_init(&other, &shop.world.ledger, "somebody");
    assert_int_equal(ERR_BUSY, lease_take(&other.port, "balance", 1000, &token));
    balance_end(shop.balance);
    assert_int_equal(0, lease_take(&other.port, "balance", 1000, &token));
    balance_end(shop.balance); /* it is not ours any more, so it stays where it is */
    struct balance_round round;
    assert_int_equal(ERR_BUSY, balance_round(shop.balance, &round));
    shop_close(&shop);
}

/* ---- at random ---- */

static void random_fault(struct shop *shop)
{
    struct cluster_world *world = &shop->world;
    uint32_t segment = (uint32_t)prng_below(&world->prng, SEGMENTS);
    switch (prng_below(&world->prng, 4)) {
    case 0:
        sim_segments_lose(world->sim, segment, (uint32_t)prng_below(&world->prng, 4));
        break;
    case 1:
        (void)sim_segments_failover(world->sim, segment, (uint32_t)prng_below(&world->prng, 20));
        break;
    case 2:
        shop->process.lose_next = ERR_IO;
        break;
    default:
        sim_segments_away(world->sim, segment, prng_below(&world->prng, 2) == 0);
        break;
    }
}

static void random_step(struct shop *shop)
{
    struct cluster_world *world = &shop->world;
    struct balance_round moved;
    struct recover_round rebuilt;
    shop->process.calls = 0;
    shop->process.dies_at = prng_below(&world->prng, 3) == 0 ? 1 + prng_below(&world->prng, 60) : 0;
    switch (prng_below(&world->prng, 10)) {
    case 0:
        random_fault(shop);
        break;
    case 1:
        (void)recover_round(shop->recover, &rebuilt);
        break;
    case 2:
    case 3:
        (void)balance_round(shop->balance, &moved);
        break;
    case 4:
        balance_ask(shop->balance, (uint32_t)prng_below(&world->prng, SEGMENTS), CLUSTER_FREE,
                    1 + prng_below(&world->prng, 9), 1 + prng_below(&world->prng, 2));
        break;
    case 5:
        model_stir(world);
        break;
    case 6:
        model_turn(world);
        break;
    default: /* most buyers live in one place */
        for (int i = 0; i < 4; i++) {
            uint64_t user = 1 + prng_below(&world->prng, 1000);
            if (segment_home(user, SEGMENTS) == 0 || i == 0) {
                (void)model_buy(world, user, CLUSTER_FREE, 1);
            }
        }
        break;
    }
    fake_clock_pass_ms(&world->clock, (int64_t)prng_below(&world->prng, 3000));
}

static void test_at_random(void **state)
{
    (void)state;
    uint64_t first = 1;
    uint64_t last = 500;
    model_seeds(&first, &last);
    uint64_t moved = 0;
    uint64_t voids = 0;
    for (uint64_t seed = first; seed <= last; seed++) {
        model_seed(seed);
        struct shop shop;
        shop_open(&shop, seed);
        for (int i = 0; i < 150; i++) {
            random_step(&shop);
            model_audit(&shop.world);
        }
        for (uint32_t i = 0; i < SEGMENTS; i++) {
            sim_segments_away(shop.world.sim, i, false);
            sim_segments_lose(shop.world.sim, i, 0);
        }
        shop.process.lose_next = 0;
        shop.process.dies_at = 0;
        fake_clock_pass_ms(&shop.world.clock, MODEL_LEASE_MS + 1);
        recover_until_whole(&shop.world, shop.recover);
        (void)round_of(&shop);
        check_units(&shop);
        for (size_t i = 0; i < shop.world.ledger.transfers_count; i++) {
            moved += shop.world.ledger.transfers[i].moved;
            voids += shop.world.ledger.transfers[i].state == TRANSFER_VOID;
        }
        shop_close(&shop);
    }
    model_seed(0);
    print_message("%llu units moved, %llu transfers void\n", (unsigned long long)moved,
                  (unsigned long long)voids);
    assert_true(first == last || (moved > 1000 && voids > 10));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_nothing_moves_while_nobody_is_dry),
        cmocka_unit_test(test_a_dry_home_gets_its_fair_share),
        cmocka_unit_test(small_transfers_hold_off_no_large_one),
        cmocka_unit_test(test_paused_and_closed_sales_are_left_alone),
        cmocka_unit_test(test_the_last_units_go_to_whoever_asked),
        cmocka_unit_test(test_an_ask_is_gathered),
        cmocka_unit_test(test_the_last_full_segment_is_not_emptied),
        cmocka_unit_test(test_dying_at_every_call),
        cmocka_unit_test(test_a_rebuilt_source),
        cmocka_unit_test(test_a_source_that_gives_what_is_sold),
        cmocka_unit_test(test_a_paused_holder),
        cmocka_unit_test(test_a_source_that_is_away_is_waited_for),
        cmocka_unit_test(test_one_transfer_for_a_pair_at_a_time),
        cmocka_unit_test(test_somebody_else_balances),
        cmocka_unit_test(test_who_ends_gives_the_lease_up),
        cmocka_unit_test_teardown(test_at_random, model_print_seed),
    };
    log_set_level(LOG_ERROR);
    return cmocka_run_group_tests(tests, NULL, NULL);
}
