/*
 * Segments added while a sale runs: nobody's home, they hold stock and refill homes. Restocks reach
 * them, they can be lost and rebuilt, a process that does not know them yet does no harm, and in the end
 * every unit is sold.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "base/check.h"
#include "base/err.h"
#include "distributed/reconcile.h"
#include "keeper_fixture.h"
#include "obs/log.h"

#define HOMES 2
#define SEGMENTS 3
#define ADDED 2

/* A keeper that was started when the gate had so many segments. */
struct keep {
    struct model_process process;
    struct recover *recover;
    struct balance *balance;
    uint32_t segments;
};

struct shop {
    struct cluster_world world;
    struct keep old;
    struct keep new;
};

static void keep_start(struct keep *keep, struct cluster_world *world, uint32_t name)
{
    model_process_init(&keep->process, world, name);
    keep->segments = world->count;
    keep->recover = recover_of(&keep->process, world->count, DRAIN_MS);
    keep->balance = balance_of(&keep->process, world->count);
}

static void keep_stop(struct keep *keep)
{
    if (keep->balance != NULL) {
        balance_free(keep->balance);
        recover_free(keep->recover);
        model_process_done(&keep->process);
    }
    *keep = (struct keep){0};
}

static void recover_all(struct shop *shop, struct keep *keep)
{
    struct recover_round round;
    do {
        CHECK(recover_round(keep->recover, &round) == 0);
        fake_clock_pass_ms(&shop->world.clock, MODEL_LEASE_MS + 1);
    } while (round.whole < keep->segments);
    model_settle(&shop->world);
}

static void shop_open(struct shop *shop, uint64_t seed)
{
    *shop = (struct shop){0};
    model_init(&shop->world,
               (struct cluster_options){.segments = HOMES, .servers = SEGMENTS, .seed = seed});
    keep_start(&shop->old, &shop->world, 2);
    recover_all(shop, &shop->old);
    model_agree(&shop->world);
}

/* A process that knows the third one starts. */
static void shop_grow(struct shop *shop)
{
    model_grow(&shop->world, SEGMENTS);
    keep_start(&shop->new, &shop->world, 3);
}

static void shop_close(struct shop *shop)
{
    keep_stop(&shop->old);
    keep_stop(&shop->new);
    model_done(&shop->world);
}

static uint64_t available(const struct shop *shop, uint32_t segment, uint64_t item)
{
    const struct gate *gate = sim_segments_gate(shop->world.sim, segment);
    return gate->items[gate_find_item(gate, item)].available;
}

static void restock(struct shop *shop, uint64_t item, uint64_t units)
{
    struct ledger_op op = {.kind = LEDGER_RESTOCK, .item = item, .amount = units};
    (void)snprintf(op.key, sizeof(op.key), "more-%u", ++shop->world.sequence);
    assert_int_equal(REFUSAL_NONE, cluster_run(&shop->world, &op));
}

/* Buys at one home until so many are left. */
static void sell(struct shop *shop, uint32_t segment, uint64_t item, uint64_t left)
{
    static uint64_t user;
    while (available(shop, segment, item) > left) {
        if (segment_home(++user, HOMES) == segment) {
            CHECK(model_buy(&shop->world, user, item, 1));
        }
    }
}

/* Buyers at both homes, refilled as they ask, until the ledger has no unit left. */
static void sell_out(struct shop *shop, struct keep *keep, uint64_t item)
{
    for (int i = 0; i < 200 && model_item(&shop->world, item)->available > 0; i++) {
        struct balance_round round;
        for (uint32_t s = 0; s < HOMES; s++) {
            sell(shop, s, item, 0);
        }
        balance_ask(keep->balance, (uint32_t)i % HOMES, item, 1, 1);
        fake_clock_pass_ms(&shop->world.clock, PAUSE_MS + 1);
        (void)balance_round(keep->balance, &round);
        model_settle(&shop->world);
    }
    const struct item_row *row = model_item(&shop->world, item);
    assert_int_equal(0, row->available);
    assert_int_equal(row->total, row->locked + row->sold);
}

/* ---- what is given to it ---- */

static void test_an_added_segment_holds_stock_and_refills(void **state)
{
    (void)state;
    struct shop shop;
    shop_open(&shop, 1);
    sell(&shop, 0, CLUSTER_FREE, 5);
    shop_grow(&shop);
    model_audit(&shop.world);
    recover_all(&shop, &shop.new);
    model_agree(&shop.world); /* it knows every item, and has none */
    assert_int_equal(0, available(&shop, ADDED, CLUSTER_FREE));
    assert_int_equal(HOMES, shop.world.ledger.sales[0]->homes);
    restock(&shop, CLUSTER_FREE, 30);
    model_settle(&shop.world);
    assert_int_equal(10, available(&shop, ADDED, CLUSTER_FREE));
    model_agree(&shop.world);
    sell_out(&shop, &shop.new, CLUSTER_FREE);
    assert_int_equal(0, available(&shop, ADDED, CLUSTER_FREE));
    model_agree(&shop.world);
    const struct gate *gate = sim_segments_gate(shop.world.sim, ADDED);
    assert_int_equal(0, gate->order_pool.used); /* it decided nothing */
    shop_close(&shop);
}

/* A transfer noted by anybody brings units there, and away again. */
static void test_transfers_to_and_from_it(void **state)
{
    (void)state;
    struct shop shop;
    struct balance_round round;
    shop_open(&shop, 1);
    shop_grow(&shop);
    struct ledger_op op = {.kind = LEDGER_TRANSFER,
                           .item = CLUSTER_FREE,
                           .segment = 0,
                           .to_segment = ADDED,
                           .amount = 7};
    order_id_text(order_id_fresh(CLUSTER_FREE, CLUSTER_NOW, 77), op.key);
    assert_int_equal(REFUSAL_BAD_REQUEST, cluster_run(&shop.world, &op)); /* it is not there yet */
    recover_all(&shop, &shop.new);
    op.refusal = REFUSAL_NONE;
    assert_int_equal(REFUSAL_NONE, cluster_run(&shop.world, &op));
    assert_int_equal(0, balance_round(shop.new.balance, &round));
    assert_int_equal(7, round.units);
    model_settle(&shop.world);
    assert_int_equal(7, available(&shop, ADDED, CLUSTER_FREE));
    assert_int_equal(8, available(&shop, 0, CLUSTER_FREE));
    sell(&shop, 0, CLUSTER_FREE, 0);
    fake_clock_pass_ms(&shop.world.clock, PAUSE_MS + 1);
    assert_int_equal(0, balance_round(shop.new.balance, &round)); /* it gives before homes do */
    model_settle(&shop.world);
    assert_int_equal(0, available(&shop, ADDED, CLUSTER_FREE));
    assert_true(available(&shop, 0, CLUSTER_FREE) >= 7);
    model_agree(&shop.world);
    shop_close(&shop);
}

static void test_a_sale_warmed_afterwards_has_it_as_a_home(void **state)
{
    (void)state;
    struct shop shop;
    shop_open(&shop, 1);
    shop_grow(&shop);
    recover_all(&shop, &shop.new);
    struct item_row items[] = {{.id = 50, .limit_per_user = 1, .total = 9, .price_cents = 1}};
    struct sale_row sale = {.id = 5,
                            .pay_within_s = 60,
                            .starts_at_ms = CLUSTER_NOW,
                            .ends_at_ms = CLUSTER_NOW + 100000000,
                            .currency = "EUR",
                            .items_count = 1,
                            .items = items};
    struct ledger_op create = {.kind = LEDGER_SALE_CREATE, .sale_in = &sale};
    struct ledger_op open = {.kind = LEDGER_SALE_MOVE, .sale_id = 5, .target = SALE_OPEN};
    assert_int_equal(REFUSAL_NONE, cluster_run(&shop.world, &create));
    assert_int_equal(REFUSAL_NONE, cluster_run(&shop.world, &open));
    model_settle(&shop.world);
    assert_int_equal(SEGMENTS, shop.world.ledger.sales[1]->homes);
    assert_int_equal(3, available(&shop, ADDED, 50));
    shop_close(&shop);
}

/* ---- when it is lost ---- */

static void test_it_is_rebuilt_from_its_allotment(void **state)
{
    (void)state;
    struct shop shop;
    shop_open(&shop, 1);
    shop_grow(&shop);
    recover_all(&shop, &shop.new);
    restock(&shop, CLUSTER_FREE, 30);
    model_settle(&shop.world);
    uint64_t epoch = shop.world.ledger.epochs[ADDED];
    sim_segments_empty(shop.world.sim, ADDED);
    restock(&shop, CLUSTER_FREE, 3); /* meets nobody there */
    model_settle(&shop.world);
    recover_all(&shop, &shop.new);
    assert_true(shop.world.ledger.epochs[ADDED] > epoch);
    assert_int_equal(11, available(&shop, ADDED, CLUSTER_FREE));
    model_agree(&shop.world);
    sell_out(&shop, &shop.new, CLUSTER_FREE);
    model_agree(&shop.world);
    shop_close(&shop);
}

/* Its units had left the gate, and nobody had written it down: they are its own again. */
static void test_a_transfer_from_it_is_void_when_it_is_rebuilt(void **state)
{
    (void)state;
    struct shop shop;
    struct balance_round round;
    shop_open(&shop, 1);
    shop_grow(&shop);
    recover_all(&shop, &shop.new);
    restock(&shop, CLUSTER_FREE, 30);
    model_settle(&shop.world);
    sell(&shop, 0, CLUSTER_FREE, 0);
    for (uint64_t dies_at = 1; dies_at < 40; dies_at++) {
        shop.new.process.calls = 0;
        shop.new.process.dies_at = dies_at;
        (void)balance_round(shop.new.balance, &round);
        shop.new.process.dies_at = 0;
        sim_segments_empty(shop.world.sim, ADDED);
        fake_clock_pass_ms(&shop.world.clock, MODEL_LEASE_MS + 1);
        recover_all(&shop, &shop.new);
        model_audit(&shop.world);
    }
    (void)balance_round(shop.new.balance, &round);
    model_settle(&shop.world);
    sell_out(&shop, &shop.new, CLUSTER_FREE);
    model_agree(&shop.world);
    shop_close(&shop);
}

/* ---- processes that do not know it yet ---- */

static void test_an_old_keeper_gives_way(void **state)
{
    (void)state;
    struct shop shop;
    struct balance_round round;
    shop_open(&shop, 1);
    assert_int_equal(0, balance_round(shop.old.balance, &round));
    shop_grow(&shop);
    assert_int_equal(ERR_BUSY, balance_round(shop.new.balance, &round)); /* its lease */
    recover_all(&shop, &shop.new);
    restock(&shop, CLUSTER_FREE, 30);
    model_settle(&shop.world);
    for (uint32_t s = 0; s < HOMES; s++) {
        sell(&shop, s, CLUSTER_FREE, 0);
    }
    /* It sees nothing to move, and lets go at once. */
    assert_int_equal(0, balance_round(shop.old.balance, &round));
    assert_int_equal(0, round.moved);
    assert_int_equal(0, balance_round(shop.new.balance, &round));
    assert_int_equal(10, round.units);
    assert_int_equal(ERR_BUSY, balance_round(shop.old.balance, &round));
    model_settle(&shop.world);
    model_agree(&shop.world);
    shop_close(&shop);
}

/* A transfer from a segment it has never heard of is not its to finish. */
static void test_an_old_keeper_leaves_its_transfers_alone(void **state)
{
    (void)state;
    struct shop shop;
    struct balance_round round;
    shop_open(&shop, 1);
    shop_grow(&shop);
    recover_all(&shop, &shop.new);
    restock(&shop, CLUSTER_FREE, 30);
    model_settle(&shop.world);
    struct ledger_op op = {.kind = LEDGER_TRANSFER,
                           .item = CLUSTER_FREE,
                           .segment = ADDED,
                           .to_segment = 0,
                           .amount = 4};
    order_id_text(order_id_fresh(CLUSTER_FREE, CLUSTER_NOW, 78), op.key);
    assert_int_equal(REFUSAL_NONE, cluster_run(&shop.world, &op));
    fake_clock_pass_ms(&shop.world.clock, MODEL_LEASE_MS + 1);
    assert_int_equal(0, balance_round(shop.old.balance, &round));
    assert_int_equal(1, round.open);
    assert_int_equal(10, available(&shop, ADDED, CLUSTER_FREE));
    assert_int_equal(0, balance_round(shop.new.balance, &round));
    assert_int_equal(4, round.units);
    model_settle(&shop.world);
    model_agree(&shop.world);
    shop_close(&shop);
}

static size_t differences(struct keep *keep, const char **ret_first)
{
    struct reconcile *reconcile = NULL;
    struct reconcile_result result;
    struct reconcile_ports ports = {.segments = &keep->process.segments.port,
                                    .gate = &keep->process.gate.port,
                                    .ledger = &keep->process.ledger.port,
                                    .blocking = keep->process.blocking};
    struct reconcile_options options = {
        .segments = keep->segments, .bound_ms = 1000, .poll_ms = 100};
    CHECK(reconcile_new(ports, options, &reconcile) == 0);
    assert_int_equal(0, reconcile_now(reconcile, &result));
    size_t count = result.count;
    *ret_first = count > 0 ? difference_text(result.differences[0].kind) : "";
    reconcile_free(reconcile);
    return count;
}

/* A reconciliation finds no differences, and finds a missing unit there, too. */
static void test_accounts(void **state)
{
    (void)state;
    struct shop shop;
    const char *first = NULL;
    shop_open(&shop, 1);
    shop_grow(&shop);
    recover_all(&shop, &shop.new);
    restock(&shop, CLUSTER_FREE, 30);
    model_settle(&shop.world);
    sell(&shop, 1, CLUSTER_FREE, 3);
    model_settle(&shop.world);
    assert_int_equal(0, differences(&shop.new, &first));
    assert_int_equal(0, differences(&shop.old, &first));
    memory_share(&shop.world.ledger, CLUSTER_FREE, ADDED)->amount--;
    assert_true(differences(&shop.new, &first) > 0);
    assert_true(differences(&shop.old, &first) > 0);
    assert_string_equal(difference_text(DIFFERENCE_SHARES), first);
    memory_share(&shop.world.ledger, CLUSTER_FREE, ADDED)->amount++;
    shop_close(&shop);
}

/* ---- at random ---- */

static void random_fault(struct shop *shop, struct keep *keep)
{
    struct cluster_world *world = &shop->world;
    uint32_t segment = (uint32_t)prng_below(&world->prng, world->count);
    switch (prng_below(&world->prng, 5)) {
    case 0:
        sim_segments_lose(world->sim, segment, (uint32_t)prng_below(&world->prng, 4));
        break;
    case 1:
        (void)sim_segments_failover(world->sim, segment, (uint32_t)prng_below(&world->prng, 20));
        break;
    case 2:
        keep->process.lose_next = ERR_IO;
        break;
    case 3:
        sim_segments_empty(world->sim, segment);
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
    bool old = shop->old.balance != NULL &&
               (shop->new.balance == NULL || prng_below(&world->prng, 3) == 0);
    struct keep *keep = old ? &shop->old : &shop->new;
    keep->process.calls = 0;
    keep->process.dies_at = prng_below(&world->prng, 3) == 0 ? 1 + prng_below(&world->prng, 60) : 0;
    switch (prng_below(&world->prng, 10)) {
    case 0:
        random_fault(shop, keep);
        break;
    case 1:
        (void)recover_round(keep->recover, &rebuilt);
        break;
    case 2:
    case 3:
        (void)balance_round(keep->balance, &moved);
        break;
    case 4:
        balance_ask(keep->balance, (uint32_t)prng_below(&world->prng, HOMES), CLUSTER_FREE,
                    1 + prng_below(&world->prng, 4), 1);
        break;
    case 5:
        model_stir(world);
        break;
    case 6:
        model_turn(world);
        break;
    case 7:
        restock(shop, CLUSTER_FREE, 1 + prng_below(&world->prng, 6));
        break;
    default:
        for (int i = 0; i < 4; i++) {
            uint64_t user = 1 + prng_below(&world->prng, 1000);
            if (segment_home(user, HOMES) == 0 || i == 0) {
                (void)model_buy(world, user, CLUSTER_FREE, 1);
            }
        }
        break;
    }
    fake_clock_pass_ms(&world->clock, (int64_t)prng_below(&world->prng, 3000));
}

static void heal(struct shop *shop)
{
    for (uint32_t i = 0; i < SEGMENTS; i++) {
        sim_segments_away(shop->world.sim, i, false);
        sim_segments_lose(shop->world.sim, i, 0);
    }
    shop->new.process.lose_next = 0;
    shop->new.process.dies_at = 0;
    struct ledger_op open = {
        .kind = LEDGER_SALE_MOVE, .sale_id = CLUSTER_SALE, .target = SALE_OPEN};
    assert_int_equal(REFUSAL_NONE, cluster_run(&shop->world, &open));
    fake_clock_pass_ms(&shop->world.clock, MODEL_LEASE_MS + 1);
    recover_all(shop, &shop->new);
}

static void test_at_random(void **state)
{
    (void)state;
    uint64_t first = 1;
    uint64_t last = 300;
    model_seeds(&first, &last);
    uint64_t from_added = 0;
    for (uint64_t seed = first; seed <= last; seed++) {
        model_seed(seed);
        struct shop shop;
        shop_open(&shop, seed);
        int grows = (int)prng_below(&shop.world.prng, 100);
        int restarts = grows + 1 + (int)prng_below(&shop.world.prng, 60);
        for (int i = 0; i < 160; i++) {
            if (i == grows) {
                shop_grow(&shop);
            } else if (i == restarts) {
                keep_stop(&shop.old);
            }
            random_step(&shop);
            model_audit(&shop.world);
        }
        keep_stop(&shop.old);
        heal(&shop);
        sell_out(&shop, &shop.new, CLUSTER_FREE);
        model_agree(&shop.world);
        for (size_t i = 0; i < shop.world.ledger.transfers_count; i++) {
            const struct ledger_transfer *transfer = &shop.world.ledger.transfers[i];
            from_added += transfer->row.segment == ADDED ? transfer->moved : 0;
        }
        shop_close(&shop);
    }
    model_seed(0);
    print_message("%llu units came from the segment that was added\n",
                  (unsigned long long)from_added);
    assert_true(first == last || from_added > 100);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_an_added_segment_holds_stock_and_refills),
        cmocka_unit_test(test_transfers_to_and_from_it),
        cmocka_unit_test(test_a_sale_warmed_afterwards_has_it_as_a_home),
        cmocka_unit_test(test_it_is_rebuilt_from_its_allotment),
        cmocka_unit_test(test_a_transfer_from_it_is_void_when_it_is_rebuilt),
        cmocka_unit_test(test_an_old_keeper_gives_way),
        cmocka_unit_test(test_an_old_keeper_leaves_its_transfers_alone),
        cmocka_unit_test(test_accounts),
        cmocka_unit_test_teardown(test_at_random, model_print_seed),
    };
    log_set_level(LOG_ERROR);
    return cmocka_run_group_tests(tests, NULL, NULL);
}
