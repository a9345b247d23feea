/* Recovery of segments: every need, every place to die at, two at once, and whatever others write
 * meanwhile. The promises are checked after each. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>

#include <cmocka.h>

#include "base/check.h"
#include "base/err.h"
#include "obs/log.h"
#include "recover_shop.h"

/* ---- needs ---- */

static void test_a_whole_segment_is_left_alone(void **state)
{
    (void)state;
    struct shop shop;
    shop_open(&shop, 1);
    shop_sell(&shop);
    uint64_t epoch = shop.world.ledger.epochs[0];
    struct recover_round round = round_of(shop.recover);
    assert_int_equal(SEGMENTS, round.whole);
    assert_int_equal(epoch, shop.world.ledger.epochs[0]);
    assert_string_equal("", shop.world.ledger.leases[0].holder);
    shop_close(&shop);
}

static void test_what_cannot_be_asked_is_left_alone(void **state)
{
    (void)state;
    struct shop shop;
    shop_open(&shop, 1);
    sim_segments_away(shop.world.sim, 1, true);
    struct recover_round round = round_of(shop.recover);
    assert_int_equal(SEGMENTS - 1, round.whole);
    assert_int_equal(1, round.away);
    assert_int_equal(1, shop.world.ledger.epochs[1]);
    sim_segments_away(shop.world.sim, 1, false);
    /* The epochs that were read a moment ago are good for a second. */
    shop.process.fail_reads = ERR_IO;
    assert_int_equal(0, recover_round(shop.recover, &round));
    assert_int_equal(SEGMENTS, round.whole);
    fake_clock_pass_ms(&shop.world.clock, 1000);
    assert_int_equal(ERR_IO, recover_round(shop.recover, &round));
    shop.process.fail_reads = 0;
    model_agree(&shop.world);
    shop_close(&shop);
}

static void test_an_emptied_segment_comes_back(void **state)
{
    (void)state;
    struct shop shop;
    shop_open(&shop, 1);
    shop_sell(&shop);
    sim_segments_empty(shop.world.sim, 1);
    struct recover_round round = round_of(shop.recover);
    assert_int_equal(1, round.rebuilt);
    assert_int_equal(SEGMENTS - 1, round.whole);
    assert_int_equal(2, shop.world.ledger.epochs[1]);
    model_settle(&shop.world);
    model_agree(&shop.world);
    shop_close(&shop);
}

/* A failover that forgets k writes, for every k: also orders that the ledger has booked already, and
 * moves it has committed. */
static void test_forgotten_writes_come_back(void **state)
{
    (void)state;
    for (uint32_t k = 0; k <= 40; k++) {
        struct shop shop;
        shop_open(&shop, k + 1);
        shop_sell(&shop);
        for (uint32_t i = 0; i < SEGMENTS; i++) {
            (void)sim_segments_failover(shop.world.sim, i, k);
        }
        struct recover_round round = round_of(shop.recover);
        assert_int_equal(SEGMENTS, round.rebuilt);
        model_audit(&shop.world);
        model_settle(&shop.world);
        model_agree(&shop.world);
        /* And it sells: every unit that is left, and not one more. */
        for (uint64_t user = 1000; user < 1200; user++) {
            (void)model_buy(&shop.world, user, CLUSTER_FREE, 1);
        }
        model_settle(&shop.world);
        model_agree(&shop.world);
        shop_close(&shop);
    }
}

static void test_a_broken_segment_is_made_anew(void **state)
{
    (void)state;
    struct shop shop;
    shop_open(&shop, 1);
    shop_sell(&shop);
    assert_true(sim_segments_break(shop.world.sim, 0, CLUSTER_THREE));
    segments_tell(shop.world.hands, &(struct segment_news){.kind = NEWS_BROKEN,
                                                           .segment = 0,
                                                           .epoch = shop.world.ledger.epochs[0]});
    struct recover_round round = round_of(shop.recover);
    assert_int_equal(1, round.rebuilt);
    model_settle(&shop.world);
    model_agree(&shop.world);
    /* What was said of the old one says nothing of it. */
    segments_tell(shop.world.hands, &(struct segment_news){.kind = NEWS_BROKEN, .epoch = 1});
    assert_int_equal(SEGMENTS, round_of(shop.recover).whole);
    shop_close(&shop);
}

/* The ledger was raised, by hand or by one who died: what is booked follows the new epoch. */
static void test_another_epoch_than_the_ledger_backends(void **state)
{
    (void)state;
    struct shop shop;
    shop_open(&shop, 1);
    shop_sell(&shop);
    shop.world.ledger.epochs[2] = 5;
    assert_int_equal(1, round_of(shop.recover).rebuilt);
    assert_int_equal(6, shop.world.ledger.epochs[2]);
    model_settle(&shop.world);
    model_agree(&shop.world);
    /* A ledger from a backup: the gate is ahead. */
    shop.world.ledger.epochs[1] = 0;
    shop.world.ledger.epochs[2] = 3;
    struct recover_round round = round_of(shop.recover);
    assert_int_equal(2, round.rebuilt);
    assert_int_equal(2, shop.world.ledger.epochs[1]);
    assert_int_equal(7, shop.world.ledger.epochs[2]);
    model_settle(&shop.world);
    model_agree(&shop.world);
    shop_close(&shop);
}

/* Another front, which has no winners: it tries as soon as it may. */
static void tries_to_buy(struct model_process *process)
{
    struct gate_port *worker = process->context;
    for (uint32_t i = 0; i < SEGMENTS; i++) {
        struct gate_request request = {
            .kind = GATE_REQUEST_BUY,
            .segment = i,
            .id = order_id_fresh(CLUSTER_FREE, CLUSTER_NOW + 9, (uint32_t)process->calls << 6 | i),
            .user = 500 + process->calls,
            .item = CLUSTER_FREE,
            .qty = 1,
            .now_ms = CLUSTER_NOW + 9,
            .ticket_expires_ms = INT64_MAX};
        gate_place(worker, i, process->world->ledger.epochs[i]);
        CHECK(gate_submit(worker, &request) == GATE_ANSWERED);
        CHECK(request.outcome == GATE_OUTCOME_UNKNOWN ||
              gate_request_refused(&request, REFUSAL_SOLD_OUT));
    }
}

/* All units are won and none is booked when the gate is emptied: each goes back to its winner. */
static void test_replayed_winners_come_before_new_buyers(void **state)
{
    (void)state;
    struct shop shop;
    shop_open(&shop, 1);
    struct cluster_world *world = &shop.world;
    for (uint64_t user = 1; user <= 60; user++) {
        (void)model_buy(world, user, CLUSTER_FREE, 1);
    }
    size_t told = world->model.journal_count;
    assert_int_equal(MODEL_UNITS, told); /* sold out, nothing booked */
    for (uint32_t i = 0; i < SEGMENTS; i++) {
        sim_segments_empty(world->sim, i);
    }
    struct gate_port *other = sim_segments_front(world->sim, 1);
    shop.process.meanwhile = tries_to_buy;
    shop.process.context = other;
    assert_int_equal(SEGMENTS, round_of(shop.recover).rebuilt);
    sim_segments_front_free(other);
    for (uint64_t user = 100; user <= 160; user++) {
        assert_false(model_buy(world, user, CLUSTER_FREE, 1));
    }
    model_settle(world);
    model_agree(world);
    for (size_t i = 0; i < told; i++) {
        const struct order_row *row =
            memory_ledger_order(&world->ledger, world->model.journal[i].command.id);
        assert_int_equal(ORDER_LOCKED, row->state);
    }
    shop_close(&shop);
}

/* Buyers with orders that ended, barred ones, and limits are as they were. */
static void test_holdings_survive(void **state)
{
    (void)state;
    struct shop shop;
    shop_open(&shop, 1);
    struct cluster_world *world = &shop.world;
    struct sale_row *sale = world->ledger.sales[0];
    assert_true(model_buy(world, 5, CLUSTER_ONCE, 1));
    assert_true(model_buy(world, 5, CLUSTER_THREE, 3));
    model_settle(world);
    struct order_id id = world->model.journal[0].command.id;
    struct ledger_op cancel = {.kind = LEDGER_CANCEL, .id = id};
    assert_int_equal(REFUSAL_NONE, cluster_run(world, &cancel));
    model_settle(world);
    uint32_t home = segment_home(5, SEGMENTS);
    (void)sim_segments_failover(world->sim, home, 40);
    assert_int_equal(1, round_of(shop.recover).rebuilt);
    model_settle(world);
    model_agree(world);
    assert_false(model_buy(world, 5, CLUSTER_THREE, 1)); /* his limit */
    assert_true(model_buy(world, 5, CLUSTER_ONCE, 1));   /* the next attempt, another id */
    assert_false(order_id_equal(id, world->model.journal[2].command.id));
    model_settle(world);
    /* Expired, where the sale bars. */
    sale->bar_unpaid = true;
    fake_clock_pass_ms(&world->clock, CLUSTER_PAY_MS);
    struct ledger_op expire = {.kind = LEDGER_EXPIRE, .id = world->model.journal[2].command.id};
    assert_int_equal(REFUSAL_NONE, cluster_run(world, &expire));
    /* Cancelled so late that it counts as unpaid. */
    cancel = (struct ledger_op){
        .kind = LEDGER_CANCEL, .id = world->model.journal[1].command.id, .late_ms = 1};
    assert_int_equal(REFUSAL_NONE, cluster_run(world, &cancel));
    sim_segments_empty(world->sim, home);
    assert_int_equal(1, round_of(shop.recover).rebuilt);
    model_settle(world);
    model_agree(world);
    const struct gate *gate = sim_segments_gate(world->sim, home);
    const struct gate_buyer *buyer = gate_find_buyer(gate, gate_find_item(gate, CLUSTER_ONCE), 5);
    assert_int_equal(1, buyer->barred);
    assert_int_equal(1, buyer->failed_attempts);
    assert_int_equal(0, buyer->held);
    buyer = gate_find_buyer(gate, gate_find_item(gate, CLUSTER_THREE), 5);
    assert_int_equal(1, buyer->barred);
    assert_int_equal(0, buyer->failed_attempts);
    shop_close(&shop);
}

/* A late cancellation bars its buyer, at the gate and after the segment was rebuilt. */
static void test_a_late_cancellation_survives(void **state)
{
    (void)state;
    struct shop shop;
    shop_open(&shop, 1);
    struct cluster_world *world = &shop.world;
    world->ledger.sales[0]->bar_unpaid = true;
    uint32_t home = segment_home(5, SEGMENTS);
    for (int late = 0; late < 2; late++) {
        assert_true(model_buy(world, 5, CLUSTER_THREE, 1));
        model_settle(world);
        struct ledger_op cancel = {.kind = LEDGER_CANCEL,
                                   .id = world->model.journal[late].command.id,
                                   .late_ms = late * 2 * (int64_t)CLUSTER_PAY_MS};
        assert_int_equal(REFUSAL_NONE, cluster_run(world, &cancel));
        model_settle(world);
    }
    for (int rebuilt = 0; rebuilt < 2; rebuilt++) {
        const struct gate *gate = sim_segments_gate(world->sim, home);
        const struct gate_buyer *buyer =
            gate_find_buyer(gate, gate_find_item(gate, CLUSTER_THREE), 5);
        assert_int_equal(1, buyer->barred);
        assert_int_equal(1, buyer->failed_attempts);
        assert_int_equal(0, buyer->held);
        assert_false(model_buy(world, 5, CLUSTER_THREE, 1));
        model_agree(world);
        sim_segments_empty(world->sim, home);
        assert_int_equal(1, round_of(shop.recover).rebuilt);
        model_settle(world);
    }
    shop_close(&shop);
}

/* Its end is the ledger's, whatever the setting has become, also in a segment that was rebuilt. */
static void test_a_cooling_time_survives(void **state)
{
    (void)state;
    struct shop shop;
    shop_open(&shop, 1);
    struct cluster_world *world = &shop.world;
    uint32_t home = segment_home(5, SEGMENTS);
    int64_t begin_ms = clock_wall_ms(&world->clock.port);
    for (int i = 0; i < 2; i++) {
        assert_true(model_buy(world, 5, CLUSTER_THREE, 1));
    }
    model_settle(world);
    for (int i = 0; i < 2; i++) { /* the first makes him wait, the second does not */
        struct ledger_op cancel = {.kind = LEDGER_CANCEL,
                                   .id = world->model.journal[i].command.id,
                                   .cooling_ms = i == 0 ? 5000 : 0};
        assert_int_equal(REFUSAL_NONE, cluster_run(world, &cancel));
        model_settle(world);
    }
    for (int rebuilt = 0; rebuilt < 2; rebuilt++) {
        const struct gate *gate = sim_segments_gate(world->sim, home);
        const struct gate_buyer *buyer =
            gate_find_buyer(gate, gate_find_item(gate, CLUSTER_THREE), 5);
        assert_int_equal(0, buyer->barred);
        assert_int_equal(2, buyer->failed_attempts);
        assert_in_range(buyer->cooling_until_ms, begin_ms + 5000, begin_ms + 6000);
        assert_false(model_buy(world, 5, CLUSTER_THREE, 1));
        model_agree(world);
        sim_segments_empty(world->sim, home);
        assert_int_equal(1, round_of(shop.recover).rebuilt);
        model_settle(world);
    }
    fake_clock_pass_ms(&world->clock, 6000);
    assert_true(model_buy(world, 5, CLUSTER_THREE, 1));
    model_settle(world);
    shop_close(&shop);
}

static void test_a_forgotten_sale_does_not_come_back(void **state)
{
    (void)state;
    struct shop shop;
    shop_open(&shop, 1);
    struct cluster_world *world = &shop.world;
    struct ledger_op close = {
        .kind = LEDGER_SALE_MOVE, .sale_id = CLUSTER_SALE, .target = SALE_CLOSED};
    struct ledger_op forget = {.kind = LEDGER_SALE_FORGET, .sale_id = CLUSTER_SALE};
    (void)model_buy(world, 1, CLUSTER_FREE, 1);
    model_settle(world);
    struct ledger_op cancel = {.kind = LEDGER_CANCEL, .id = world->model.journal[0].command.id};
    (void)cluster_run(world, &cancel);
    (void)cluster_run(world, &close);
    (void)cluster_run(world, &forget);
    for (uint32_t i = 0; i < SEGMENTS; i++) {
        sim_segments_empty(world->sim, i);
    }
    assert_int_equal(SEGMENTS, round_of(shop.recover).rebuilt);
    model_settle(world);
    for (uint32_t i = 0; i < SEGMENTS; i++) {
        const struct gate *gate = sim_segments_gate(world->sim, i);
        assert_int_equal(0, gate->item_pool.used + gate->order_pool.used + gate->sales_used);
    }
    shop_close(&shop);
}

/* ---- dying ---- */

static void strike(struct shop *shop, uint32_t how)
{
    for (uint32_t i = 0; i < 2; i++) {
        if (how == 0) {
            sim_segments_empty(shop->world.sim, i);
        } else {
            (void)sim_segments_failover(shop->world.sim, i, 7);
        }
    }
}

/* The calls of a whole recovery, by running one. */
static uint64_t calls_of_recovery(uint32_t how)
{
    struct shop shop;
    shop_open(&shop, 9);
    shop_sell(&shop);
    strike(&shop, how);
    shop.process.calls = 0;
    assert_int_equal(2, round_of(shop.recover).rebuilt);
    uint64_t calls = shop.process.calls;
    shop_close(&shop);
    return calls;
}

static void test_dying_at_every_call(void **state)
{
    (void)state;
    for (uint32_t how = 0; how < 2; how++) {
        uint64_t calls = calls_of_recovery(how);
        print_message("%llu calls\n", (unsigned long long)calls);
        assert_true(calls > 60);
        for (uint64_t k = 1; k <= calls; k++) {
            struct shop shop;
            shop_open(&shop, 9);
            shop_sell(&shop);
            strike(&shop, how);
            shop.process.calls = 0;
            shop.process.dies_at = k;
            struct recover_round round;
            (void)recover_round(shop.recover, &round);
            model_audit(&shop.world);
            model_turn(&shop.world);
            for (uint64_t user = 50; user < 60; user++) { /* buyers do not wait */
                (void)model_buy(&shop.world, user, CLUSTER_FREE, 1);
            }
            fake_clock_pass_ms(&shop.world.clock, MODEL_LEASE_MS + 1);
            shop_heal(&shop, 3);
            shop_close(&shop);
        }
    }
}

/* An answer of the ledger or the gate that is lost is one more way to stop. */
static void test_lost_answers(void **state)
{
    (void)state;
    for (uint32_t k = 1; k < 60; k++) {
        struct shop shop;
        shop_open(&shop, 4);
        shop_sell(&shop);
        sim_segments_empty(shop.world.sim, 0);
        sim_segments_lose(shop.world.sim, 0, k % 20);
        shop.process.lose_next = k % 2 == 0 ? ERR_IO : 0;
        struct recover_round round;
        (void)recover_round(shop.recover, &round);
        sim_segments_lose(shop.world.sim, 0, 0);
        model_audit(&shop.world);
        fake_clock_pass_ms(&shop.world.clock, MODEL_LEASE_MS + 1);
        shop_heal(&shop, 3);
        shop_close(&shop);
    }
}

/* ---- two at once ---- */

struct rival {
    struct model_process process;
    struct recover *recover;
    uint64_t comes_at; /* the other's call */
    bool paused;       /* the other is, past its lease's end */
    bool came;
    struct recover_round round;
};

static void rival_comes(struct model_process *process)
{
    struct rival *rival = process->context;
    struct cluster_world *world = process->world;
    if (rival->came || process->calls != rival->comes_at) {
        return;
    }
    rival->came = true;
    if (rival->paused) {
        fake_clock_pass_ms(&world->clock, MODEL_LEASE_MS + 1);
    }
    CHECK(recover_round(rival->recover, &rival->round) == 0);
    if (rival->paused) {
        model_turn(world);
        for (uint64_t user = 300; user < 310; user++) {
            (void)model_buy(world, user, CLUSTER_FREE, 1);
        }
        model_turn(world);
    }
}

static void test_two_at_once_do_it_once(void **state)
{
    (void)state;
    uint64_t calls = calls_of_recovery(1);
    for (uint64_t k = 1; k <= calls * 2; k++) {
        struct shop shop;
        struct rival rival = {.comes_at = (k + 1) / 2, .paused = k % 2 == 0};
        shop_open(&shop, 9);
        shop_sell(&shop);
        strike(&shop, 1);
        model_process_init(&rival.process, &shop.world, 3);
        rival.recover = recover_of(&rival.process, SEGMENTS, 300);
        shop.process.calls = 0;
        shop.process.meanwhile = rival_comes;
        shop.process.context = &rival;
        struct recover_round round = {0};
        assert_int_equal(0, recover_round(shop.recover, &round));
        assert_true(rival.came);
        model_audit(&shop.world);
        /* Each of the two was rebuilt, and at most once by each of them. */
        if (!rival.paused) {
            assert_int_equal(2, round.rebuilt + rival.round.rebuilt);
            assert_true(shop.world.ledger.epochs[0] <= 3);
        }
        /* One that was paused and woke must not undo what is open. */
        for (uint32_t i = 0; i < 2 && rival.round.rebuilt == 2; i++) {
            assert_true(sim_segments_open(shop.world.sim, i));
            assert_int_equal(shop.world.ledger.epochs[i], sim_segments_epoch(shop.world.sim, i));
        }
        shop.process.meanwhile = NULL;
        shop_heal(&shop, 4);
        recover_free(rival.recover);
        model_process_done(&rival.process);
        shop_close(&shop);
    }
}

/* However long the waits are, nobody else gets the lease. */
static void rival_tries(struct model_process *process)
{
    struct rival *rival = process->context;
    struct recover_round round;
    CHECK(recover_round(rival->recover, &round) == 0);
    rival->round.busy += round.busy;
    rival->round.rebuilt += round.rebuilt;
}

static void test_a_lease_is_kept_through_long_waits(void **state)
{
    (void)state;
    struct shop shop;
    struct rival rival = {0};
    shop_open(&shop, 9);
    shop_sell(&shop);
    recover_free(shop.recover);
    shop.recover = recover_of(&shop.process, SEGMENTS, 4 * MODEL_LEASE_MS);
    model_process_init(&rival.process, &shop.world, 3);
    rival.recover = recover_of(&rival.process, SEGMENTS, 300);
    sim_segments_empty(shop.world.sim, 0);
    shop.process.calls = 0;
    shop.process.meanwhile = rival_tries;
    shop.process.context = &rival;
    shop.process.skips = 3; /* the rival does not come before it */
    assert_int_equal(1, round_of(shop.recover).rebuilt);
    assert_true(rival.round.busy > 10);
    assert_int_equal(0, rival.round.rebuilt);
    recover_free(rival.recover);
    model_process_done(&rival.process);
    model_settle(&shop.world);
    model_agree(&shop.world);
    shop_close(&shop);
}

struct slow {
    struct model_process rival;
    uint64_t epoch; /* of the first segment, before */
    uint32_t tried;
};

/* Every read takes a while, and somebody else would gladly have the last segment meanwhile. */
static void time_passes(struct model_process *process, struct ledger_query *query)
{
    struct slow *slow = process->context;
    struct cluster_world *world = process->world;
    uint64_t token = 0;
    (void)query;
    fake_clock_pass_ms(&world->clock, MODEL_LEASE_MS / 4);
    if (world->ledger.epochs[0] > slow->epoch) {
        assert_int_equal(ERR_BUSY, lease_take(&slow->rival.lease.port, "segment-2", 1, &token));
        slow->tried++;
    }
}

/* Reading one segment takes longer than a lease, and three of them wait for each other. */
static void test_leases_are_kept_however_long_it_takes(void **state)
{
    (void)state;
    struct shop shop;
    shop_open(&shop, 1);
    shop_sell(&shop);
    for (uint32_t s = 0; s < SEGMENTS; s++) {
        sim_segments_empty(shop.world.sim, s);
    }
    struct slow slow = {.epoch = shop.world.ledger.epochs[0]};
    model_process_init(&slow.rival, &shop.world, 3);
    shop.process.context = &slow;
    shop.process.spoil = time_passes;
    struct recover_round round = round_of(shop.recover);
    shop.process.spoil = NULL;
    model_process_done(&slow.rival);
    assert_true(slow.tried >= 3 * 4); /* three leases long */
    assert_int_equal(SEGMENTS, round.rebuilt);
    assert_int_equal(0, round.failed);
    model_settle(&shop.world);
    model_agree(&shop.world);
    shop_close(&shop);
}

/* ---- whatever others write meanwhile ---- */

struct stirrer {
    struct prng prng;
    uint32_t often; /* of 100 */
};

static void stir(struct model_process *process)
{
    struct stirrer *stirrer = process->context;
    while (prng_below(&stirrer->prng, 100) < stirrer->often) {
        model_stir(process->world);
    }
    if (prng_below(&stirrer->prng, 300) < stirrer->often) { /* bookers do not stop, either */
        model_relay(process->world);
        model_book(process->world);
    }
}

static void test_events_while_it_reads_and_fills(void **state)
{
    (void)state;
    uint64_t first = 1;
    uint64_t last = 300;
    model_seeds(&first, &last);
    for (uint64_t seed = first; seed <= last; seed++) {
        model_seed(seed);
        struct shop shop;
        struct stirrer stirrer = {.prng = prng_of(seed), .often = (uint32_t)(seed % 4) * 20};
        shop_open(&shop, seed);
        shop_sell(&shop);
        strike(&shop, seed % 2);
        shop.process.meanwhile = stir;
        shop.process.context = &stirrer;
        shop.world.model.still =
            seed % 3 == 0; /* then messages are still on their way when it reads */
        struct recover_round round = round_of(shop.recover);
        assert_int_equal(2, round.rebuilt);
        model_audit(&shop.world);
        shop.process.meanwhile = NULL;
        shop.world.model.still = false;
        shop_heal(&shop, 3);
        shop_close(&shop);
    }
    model_seed(0);
}

/* A sale that never holds still is said so, and the segment waits for the next round. */
static void never_still(struct model_process *process)
{
    struct ledger_op op = {.kind = LEDGER_RESTOCK, .item = CLUSTER_FREE, .amount = SEGMENTS};
    (void)snprintf(op.key, sizeof(op.key), "still%llu", (unsigned long long)process->calls);
    (void)cluster_run(process->world, &op);
}

static void test_a_ledger_that_never_holds_still(void **state)
{
    (void)state;
    struct shop shop;
    shop_open(&shop, 1);
    sim_segments_empty(shop.world.sim, 0);
    shop.process.meanwhile = never_still;
    struct recover_round round = round_of(shop.recover);
    assert_int_equal(1, round.failed);
    shop.process.meanwhile = NULL;
    shop_heal(&shop, 2);
    shop_close(&shop);
}

/* ---- at random ---- */

static void fault(struct cluster_world *world)
{
    uint32_t segment = (uint32_t)prng_below(&world->prng, SEGMENTS);
    switch (prng_below(&world->prng, 6)) {
    case 0:
        sim_segments_empty(world->sim, segment);
        break;
    case 1:
        sim_segments_away(world->sim, segment, true);
        break;
    case 2:
        sim_segments_lose(world->sim, segment, (uint32_t)prng_below(&world->prng, 5));
        break;
    case 3:
        sim_segments_lose_news(world->sim);
        break;
    default:
        (void)sim_segments_failover(world->sim, segment, (uint32_t)prng_below(&world->prng, 30));
        break;
    }
}

static void random_step(struct shop *shop)
{
    struct cluster_world *world = &shop->world;
    uint64_t user = 1 + prng_below(&world->prng, 80);
    uint64_t item = CLUSTER_ONCE + prng_below(&world->prng, 3);
    switch (prng_below(&world->prng, 16)) {
    case 0:
        fault(world);
        break;
    case 1:
        model_stir(world);
        break;
    case 2:
        model_relay(world);
        break;
    case 3:
        model_book(world);
        break;
    case 4:
        model_apply(world);
        break;
    case 5:
        model_hear(world);
        break;
    case 6:
        sim_segments_away(world->sim, (uint32_t)prng_below(&world->prng, SEGMENTS), false);
        break;
    case 7: {
        struct recover_round round;
        shop->process.calls = 0;
        shop->process.dies_at =
            prng_below(&world->prng, 2) == 0 ? 1 + prng_below(&world->prng, 100) : 0;
        (void)recover_round(shop->recover, &round);
        fake_clock_pass_ms(&world->clock, (int64_t)prng_below(&world->prng, MODEL_LEASE_MS * 2));
        break;
    }
    case 8:
        (void)model_buy_untold(world, user, item, 1);
        break;
    default:
        (void)model_buy(world, user, item, 1 + (uint32_t)prng_below(&world->prng, 2));
        break;
    }
}

static void test_at_random(void **state)
{
    (void)state;
    uint64_t first = 1;
    uint64_t last = 1000;
    model_seeds(&first, &last);
    for (uint64_t seed = first; seed <= last; seed++) {
        model_seed(seed);
        struct shop shop;
        shop_open(&shop, seed);
        for (int i = 0; i < 500; i++) {
            random_step(&shop);
            model_audit(&shop.world);
        }
        for (uint32_t i = 0; i < SEGMENTS; i++) {
            sim_segments_away(shop.world.sim, i, false);
            sim_segments_lose(shop.world.sim, i, 0);
        }
        fake_clock_pass_ms(&shop.world.clock, MODEL_LEASE_MS + 1);
        shop_heal(&shop, 3);
        shop_close(&shop);
    }
    model_seed(0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_a_whole_segment_is_left_alone),
        cmocka_unit_test(test_leases_are_kept_however_long_it_takes),
        cmocka_unit_test(test_what_cannot_be_asked_is_left_alone),
        cmocka_unit_test(test_an_emptied_segment_comes_back),
        cmocka_unit_test(test_forgotten_writes_come_back),
        cmocka_unit_test(test_a_broken_segment_is_made_anew),
        cmocka_unit_test(test_another_epoch_than_the_ledger_backends),
        cmocka_unit_test(test_replayed_winners_come_before_new_buyers),
        cmocka_unit_test(test_holdings_survive),
        cmocka_unit_test(test_a_late_cancellation_survives),
        cmocka_unit_test(test_a_cooling_time_survives),
        cmocka_unit_test(test_a_forgotten_sale_does_not_come_back),
        cmocka_unit_test(test_dying_at_every_call),
        cmocka_unit_test(test_lost_answers),
        cmocka_unit_test(test_two_at_once_do_it_once),
        cmocka_unit_test(test_a_lease_is_kept_through_long_waits),
        cmocka_unit_test_teardown(test_events_while_it_reads_and_fills, model_print_seed),
        cmocka_unit_test(test_a_ledger_that_never_holds_still),
        cmocka_unit_test_teardown(test_at_random, model_print_seed),
    };
    log_set_level(LOG_ERROR);
    return cmocka_run_group_tests(tests, NULL, NULL);
}
