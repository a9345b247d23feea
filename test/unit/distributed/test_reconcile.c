/* Reconciling: every difference is found, after two passes and not after one; a rush shows none. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "base/check.h"
#include "base/err.h"
#include "distributed/message.h"
#include "distributed/reconcile.h"
#include "keeper_fixture.h"
#include "obs/log.h"
#include "sim_queue.h"
#include "table_tests.h"

#define SEGMENTS 3
#define BOUND_MS 3000

struct shop {
    struct cluster_world world;
    struct model_process process;
    struct model_process other; /* who balances */
    struct recover *recover;
    struct balance *balance;
    struct reconcile *reconcile;
    struct sim_broker *broker;
    struct queue *publisher;
    struct queue *consumer;
    uint64_t number;
    uint64_t user; /* of the rush */
};

static size_t promised(void *context, int64_t before_ms, size_t at, struct decision *ret_decisions,
                       size_t max)
{
    const struct cluster_world *world = &((struct shop *)context)->world;
    size_t count = 0;
    for (size_t i = 0; i < world->model.journal_count && count < max; i++) {
        const struct model_decision *told = &world->model.journal[i];
        if (told->command.now_ms < before_ms && at-- == 0) {
            at = 0;
            ret_decisions[count++] = (struct decision){
                .segment = told->segment, .epoch = told->epoch, .command = told->command};
        }
    }
    return count;
}

static void make_parts(struct shop *shop)
{
    struct model_process *process = &shop->process;
    struct reconcile_ports ports = {&process->segments.port, &process->gate.port,
                                    &process->ledger.port, shop->consumer, process->blocking};
    struct reconcile_options options = {.segments = SEGMENTS,
                                        .bound_ms = BOUND_MS,
                                        .poll_ms = 100,
                                        .context = shop,
                                        .promised = promised};
    shop->recover = recover_of(process, SEGMENTS, DRAIN_MS);
    shop->balance = balance_of(&shop->other, SEGMENTS);
    CHECK(reconcile_new(ports, options, &shop->reconcile) == 0);
}

static void shop_open(struct shop *shop, uint64_t seed)
{
    static const uint32_t retry_s[] = {1};
    *shop = (struct shop){.user = 1000};
    model_init(&shop->world, (struct cluster_options){.segments = SEGMENTS, .seed = seed});
    model_process_init(&shop->process, &shop->world, 2);
    model_process_init(&shop->other, &shop->world, 3);
    shop->broker = sim_broker_new(seed, retry_s, 1);
    shop->publisher = sim_queue_open(shop->broker, true, 0, 0);
    shop->consumer = sim_queue_open(shop->broker, false, 0, 0);
    make_parts(shop);
    recover_until_whole(&shop->world, shop->recover);
    for (uint64_t user = 1; user <= 12; user++) {
        (void)model_buy(&shop->world, user, CLUSTER_ONCE, 1);
        (void)model_buy(&shop->world, user, CLUSTER_THREE, 2);
    }
    model_settle(&shop->world);
    for (int i = 0; i < 6; i++) {
        model_stir(&shop->world);
    }
    struct ledger_op open = {
        .kind = LEDGER_SALE_MOVE, .sale_id = CLUSTER_SALE, .target = SALE_OPEN};
    (void)cluster_run(&shop->world, &open);
    model_settle(&shop->world);
    model_agree(&shop->world);
}

static void shop_close(struct shop *shop)
{
    reconcile_free(shop->reconcile);
    balance_free(shop->balance);
    recover_free(shop->recover);
    sim_queue_close(shop->publisher);
    sim_queue_close(shop->consumer);
    sim_broker_free(shop->broker);
    model_process_done(&shop->process);
    model_process_done(&shop->other);
    model_done(&shop->world);
}

static struct reconcile_result pass(struct shop *shop)
{
    struct reconcile_result result = {0};
    sim_broker_time(shop->broker, clock_wall_ms(&shop->world.clock.port));
    assert_int_equal(0, reconcile_pass(shop->reconcile, &result));
    return result;
}

static const struct difference *find(const struct reconcile_result *result,
                                     enum difference_kind kind)
{
    for (size_t i = 0; i < result->count; i++) {
        if (result->differences[i].kind == kind) {
            return &result->differences[i];
        }
    }
    return NULL;
}

/* Seen once is not enough, nor twice within the bound. Nothing else happens meanwhile. */
static struct reconcile_result counted(struct shop *shop, enum difference_kind kind)
{
    struct reconcile_result result = pass(shop);
    assert_int_equal(0, result.count);
    assert_true(result.seen > 0);
    fake_clock_pass_ms(&shop->world.clock, BOUND_MS - 1);
    result = pass(shop);
    assert_null(find(&result, kind));
    fake_clock_pass_ms(&shop->world.clock, 1);
    result = pass(shop);
    assert_non_null(find(&result, kind));
    return result;
}

static void clean(struct shop *shop)
{
    for (int i = 0; i < 3; i++) {
        struct reconcile_result result = pass(shop);
        if (result.count > 0) {
            print_message("%s\n", difference_text(result.differences[0].kind));
        }
        assert_int_equal(0, result.count);
        fake_clock_pass_ms(&shop->world.clock, BOUND_MS);
    }
    struct reconcile_result result = pass(shop);
    assert_int_equal(0, result.count + result.seen);
}

/* ---- nothing to find ---- */

static void test_what_agrees_shows_nothing(void **state)
{
    (void)state;
    struct shop shop;
    shop_open(&shop, 1);
    struct reconcile_result result = pass(&shop);
    assert_int_equal(3, result.items);
    assert_int_equal(shop.world.ledger.orders_count, result.orders);
    assert_int_equal(24, result.buyers); /* twelve, of two items */
    assert_int_equal(0, result.unsure);
    clean(&shop);
    shop_close(&shop);
}

static void rush_step(struct shop *shop)
{
    struct cluster_world *world = &shop->world;
    switch (prng_below(&world->prng, 10)) {
    case 0:
        model_relay(world);
        break;
    case 1:
        model_book(world);
        break;
    case 2:
    case 3:
        model_apply(world);
        break;
    case 4:
    case 5:
        model_stir(world);
        break;
    case 6: {
        struct balance_round moved;
        balance_ask(shop->balance, (uint32_t)prng_below(&world->prng, SEGMENTS), CLUSTER_FREE,
                    1 + prng_below(&world->prng, 12), 1);
        shop->other.calls = 0;
        shop->other.dies_at = prng_below(&world->prng, 40); /* 0: not this time */
        (void)balance_round(shop->balance, &moved);
        shop->other.dies_at = 0;
        break;
    }
    default:
        (void)model_buy(world, ++shop->user, CLUSTER_ONCE + prng_below(&world->prng, 3), 1);
        break;
    }
}

/* What others do before each of its calls. The balancing process may die in the middle. */
static void rush(struct model_process *process)
{
    struct shop *shop = process->context;
    struct cluster_world *world = &shop->world;
    for (uint64_t n = prng_below(&world->prng, 4); n > 0; n--) {
        rush_step(shop);
    }
}

static void test_a_rush_shows_nothing(void **state)
{
    (void)state;
    uint64_t first = 1;
    uint64_t last = 100;
    model_seeds(&first, &last);
    uint64_t unsure = 0;
    for (uint64_t seed = first; seed <= last; seed++) {
        model_seed(seed);
        struct shop shop;
        shop_open(&shop, seed);
        shop.process.meanwhile = rush;
        shop.process.context = &shop;
        for (int i = 0; i < 12; i++) {
            struct ledger_op restock = {
                .kind = LEDGER_RESTOCK, .item = CLUSTER_ONCE + (uint64_t)i % 3, .amount = 20};
            (void)cluster_run(&shop.world, &restock);
            struct reconcile_result result = pass(&shop);
            if (result.count > 0) {
                print_message("seed %llu: %s\n", (unsigned long long)seed,
                              difference_text(result.differences[0].kind));
            }
            assert_int_equal(0, result.count);
            unsure += result.unsure;
            fake_clock_pass_ms(&shop.world.clock, BOUND_MS);
            model_turn(&shop.world); /* what is on its way arrives within the bound */
            model_turn(&shop.world);
        }
        shop.process.meanwhile = NULL;
        struct balance_round moved;
        assert_int_equal(0, balance_round(shop.balance, &moved)); /* what was left half done */
        model_settle(&shop.world);
        clean(&shop);
        shop_close(&shop);
    }
    model_seed(0);
    assert_true(unsure > 100);
}

/* ---- numbers that differ ---- */

/* How each kind of number is spoilt; with -1, how a person puts it right again. */

static void stock_locks_one_more(struct shop *shop, int sign)
{
    model_item(&shop->world, CLUSTER_THREE)->locked += (uint64_t)sign;
}

static void stock_sells_one_more(struct shop *shop, int sign)
{
    struct item_row *item = model_item(&shop->world, CLUSTER_THREE);
    item->sold += (uint64_t)sign;
    item->available -= (uint64_t)sign;
}

static void share_locks_and_sells_more(struct shop *shop, int sign)
{
    struct memory_share *share = memory_share(&shop->world.ledger, CLUSTER_ONCE, 1);
    share->locked += (uint64_t)sign;
    share->sold += (uint64_t)(2 * sign);
}

static void share_has_five_more(struct shop *shop, int sign)
{
    memory_share(&shop->world.ledger, CLUSTER_ONCE, 1)->amount += (uint64_t)(5 * sign);
}

static void spoil_buyer_5(struct model_process *process, struct ledger_query *query)
{
    (void)process;
    for (uint32_t i = 0; query->kind == QUERY_SEGMENT_BUYERS && i < query->count; i++) {
        struct buyer_row *row = &query->buyers[i];
        row->held += row->user == 5 && row->item == CLUSTER_THREE;
    }
}

static void buyer_holds_one_more(struct shop *shop, int sign)
{
    shop->process.spoil = sign > 0 ? spoil_buyer_5 : NULL;
}

static void limit_is_lowered_to_one(struct shop *shop, int sign)
{
    model_item(&shop->world, CLUSTER_THREE)->limit_per_user = sign > 0 ? 1 : 3;
}

static void gate_loses_units(struct shop *shop, int sign)
{
    (void)sign;
    assert_true(sim_segments_break(shop->world.sim, 2, CLUSTER_THREE));
}

static struct gate *gate_of(struct shop *shop, uint32_t segment)
{
    return (struct gate *)sim_segments_gate(shop->world.sim, segment); /* to spoil it */
}

/* As by a transfer that the ledger never heard of. */
static void gate_gives_three_away(struct shop *shop, int sign)
{
    (void)sign;
    struct gate *gate = gate_of(shop, 0);
    struct gate_item *item = &gate->items[gate_find_item(gate, CLUSTER_FREE)];
    item->total -= 3;
    item->available -= 3;
}

static void repair_all(struct shop *shop)
{
    assert_true(reconcile_repair(shop->reconcile) > 0);
    recover_until_whole(&shop->world, shop->recover);
    model_agree(&shop->world);
    clean(shop);
}

#define NOWHERE DIFFERENCE_NO_SEGMENT

static const struct number_case {
    const char *name;
    void (*spoil)(struct shop *shop, int sign);
    struct number {
        enum difference_kind kind;
        uint32_t segment;
        uint64_t item, user;
        uint64_t found, expected;
    } found[4];
    size_t count; /* of all differences */
    bool by_gate; /* the gate is wrong, and a repair rebuilds it */
} number_cases[] = {
    {.name = "stock locked, against the shares",
     stock_locks_one_more,
     {{DIFFERENCE_STOCK_LOCKED, NOWHERE, CLUSTER_THREE, 0, 19, 18},
      {DIFFERENCE_STOCK, NOWHERE, CLUSTER_THREE, 0, 31, 30}},
     2},
    {.name = "stock sold, against the shares",
     stock_sells_one_more,
     {{DIFFERENCE_STOCK_SOLD, NOWHERE, CLUSTER_THREE, 0, 1, 0}},
     1},
    {.name = "a share, against the orders",
     share_locks_and_sells_more,
     {{DIFFERENCE_SHARE_LOCKED, 1, CLUSTER_ONCE, 0, 5, 4},
      {DIFFERENCE_SHARE_SOLD, 1, CLUSTER_ONCE, 0, 3, 1},
      {DIFFERENCE_STOCK_LOCKED, NOWHERE, CLUSTER_ONCE, 0, 11, 12},
      {DIFFERENCE_STOCK_SOLD, NOWHERE, CLUSTER_ONCE, 0, 1, 3}},
     4},
    {.name = "all shares, against the stock",
     share_has_five_more,
     {{DIFFERENCE_SHARES, NOWHERE, CLUSTER_ONCE, 0, 35, 30},
      {DIFFERENCE_GATE_TOTAL, 1, CLUSTER_ONCE, 0, 10, 15}},
     2},
    {.name = "a buyer, against the orders",
     buyer_holds_one_more,
     {{DIFFERENCE_BUYER, 0, CLUSTER_THREE, 5, 3, 2}},
     1},
    {.name = "nine buyers, against the limit",
     limit_is_lowered_to_one,
     {{DIFFERENCE_LIMIT, 0, CLUSTER_THREE, 1, 2, 1}}, /* the first */
     9},
    {.name = "a gate that lost units",
     gate_loses_units,
     {{DIFFERENCE_GATE_SHORT, 2, CLUSTER_THREE, 0, 0, 6}},
     1,
     .by_gate = true},
    {.name = "a gate with another total",
     gate_gives_three_away,
     {{DIFFERENCE_GATE_TOTAL, 0, CLUSTER_FREE, 0, 7, 10}},
     1,
     .by_gate = true},
};

static void assert_number(const struct reconcile_result *result, const struct number *wanted)
{
    const struct difference *difference = find(result, wanted->kind);
    assert_non_null(difference);
    assert_int_equal(difference->segment, wanted->segment);
    assert_int_equal(difference->item, wanted->item);
    assert_int_equal(difference->user, wanted->user);
    assert_int_equal(difference->found, wanted->found);
    assert_int_equal(difference->expected, wanted->expected);
}

static void a_number_differs(void **state)
{
    const struct number_case *c = *state;
    struct shop shop;
    shop_open(&shop, 1);
    c->spoil(&shop, 1);
    struct reconcile_result result = counted(&shop, c->found[0].kind);
    assert_int_equal(result.count, c->count);
    for (size_t i = 0; i < TABLE_ROWS(c->found) && c->found[i].item != 0; i++) {
        assert_number(&result, &c->found[i]);
    }
    if (c->by_gate) {
        uint32_t segment = c->found[0].segment;
        assert_int_equal(shop.world.ledger.epochs[segment], result.differences[0].epoch);
        repair_all(&shop);
        assert_int_equal(shop.world.ledger.epochs[segment], 2);
    } else { /* the ledger is not repaired by a program */
        (void)reconcile_repair(shop.reconcile);
        assert_false(find(&result, c->found[0].kind)->repaired);
        c->spoil(&shop, -1);
        recover_until_whole(&shop.world, shop.recover);
        clean(&shop);
    }
    shop_close(&shop);
}

static void test_an_order_in_another_state(void **state)
{
    (void)state;
    struct shop shop;
    shop_open(&shop, 1);
    const struct order_row *row = NULL;
    for (size_t i = 0; i < shop.world.ledger.orders_count; i++) {
        row =
            shop.world.ledger.orders[i].state == ORDER_LOCKED ? &shop.world.ledger.orders[i] : row;
    }
    assert_non_null(row);
    struct gate *gate = gate_of(&shop, row->segment);
    gate->orders[gate_find_order(gate, row->id)].state = ORDER_QUEUED;
    struct reconcile_result result = counted(&shop, DIFFERENCE_GATE_ORDER);
    const struct difference *difference = find(&result, DIFFERENCE_GATE_ORDER);
    assert_true(order_id_equal(row->id, difference->id));
    assert_int_equal(row->user, difference->user);
    assert_int_equal(ORDER_QUEUED, difference->found);
    assert_int_equal(ORDER_LOCKED, difference->expected);
    assert_int_equal(1, result.count);
    repair_all(&shop);
    shop_close(&shop);
}

static void test_events_that_are_not_applied(void **state)
{
    (void)state;
    struct shop shop;
    shop_open(&shop, 1);
    struct ledger_op restock = {.kind = LEDGER_RESTOCK, .item = CLUSTER_FREE, .amount = SEGMENTS};
    shop.world.model.still = true; /* nobody applies */
    (void)cluster_run(&shop.world, &restock);
    struct reconcile_result result = pass(&shop);
    fake_clock_pass_ms(&shop.world.clock, BOUND_MS);
    result = pass(&shop);
    assert_int_equal(SEGMENTS, result.count); /* behind, and nothing else is said of it */
    const struct difference *difference = find(&result, DIFFERENCE_GATE_BEHIND);
    assert_true(difference->found < difference->expected);
    model_settle(&shop.world);
    clean(&shop);
    shop_close(&shop);
}

/* What the gate has not heard of yet is not held against it: nor does it hide what is wrong. */
static void test_numbers_of_a_gate_that_is_behind(void **state)
{
    (void)state;
    struct shop shop;
    shop_open(&shop, 1);
    struct cluster_world *world = &shop.world;
    world->model.still = true;
    assert_true(model_buy_untold(world, 50, CLUSTER_FREE, 2));
    model_relay(world);
    model_book(world); /* booked; still QUEUED at the gate */
    (void)pass(&shop);
    fake_clock_pass_ms(&world->clock, BOUND_MS);
    struct reconcile_result result = pass(&shop);
    assert_int_equal(1, result.count);
    assert_non_null(find(&result, DIFFERENCE_GATE_BEHIND));
    model_apply(world);
    /* Cancelled, and the gate has let go of the units before it heard of it. */
    uint32_t home = segment_home(50, SEGMENTS);
    struct ledger_op cancel = {.kind = LEDGER_CANCEL};
    for (size_t i = 0; i < world->ledger.orders_count; i++) {
        cancel.id = world->ledger.orders[i].user == 50 ? world->ledger.orders[i].id : cancel.id;
    }
    assert_int_equal(REFUSAL_NONE, cluster_run(world, &cancel));
    assert_true(sim_segments_break(world->sim, home, CLUSTER_FREE));
    (void)pass(&shop);
    fake_clock_pass_ms(&world->clock, BOUND_MS);
    result = pass(&shop);
    const struct difference *difference = find(&result, DIFFERENCE_GATE_SHORT);
    assert_non_null(difference);
    assert_int_equal(0, difference->found);
    assert_int_equal(2, difference->expected);
    shop_close(&shop);
}

/* Units that have left and not been written down yet are in transit, however long it takes. */
static void test_units_in_transit(void **state)
{
    (void)state;
    struct shop shop;
    shop_open(&shop, 1);
    struct ledger_op note = {
        .kind = LEDGER_TRANSFER, .item = CLUSTER_FREE, .segment = 1, .to_segment = 0, .amount = 4};
    struct order_id id = order_id_fresh(CLUSTER_FREE, CLUSTER_NOW, 99);
    order_id_text(id, note.key);
    assert_int_equal(REFUSAL_NONE, cluster_run(&shop.world, &note));
    struct segment_call out = {
        .segment = 1,
        .epoch = shop.world.ledger.epochs[1],
        .command = {.kind = GATE_TRANSFER_OUT, .id = id, .item = CLUSTER_FREE, .amount = 4}};
    segments_apply(shop.world.hands, &out, 1);
    assert_int_equal(4, out.taken);
    for (int i = 0; i < 3; i++) {
        assert_int_equal(0, pass(&shop).count);
        fake_clock_pass_ms(&shop.world.clock, BOUND_MS);
    }
    struct balance_round moved;
    assert_int_equal(0, balance_round(shop.balance, &moved));
    assert_int_equal(4, shop.world.ledger.transfers[0].moved);
    model_settle(&shop.world);
    clean(&shop);
    shop_close(&shop);
}

/* ---- on the way ---- */

/* The queue lost a message: its units are locked for ever, and its buyer waits. */
static void test_a_decision_that_was_lost_on_its_way(void **state)
{
    (void)state;
    struct shop shop;
    shop_open(&shop, 1);
    struct cluster_world *world = &shop.world;
    assert_true(model_buy(world, 50, CLUSTER_FREE, 2));
    struct order_id id = world->model.journal[world->model.journal_count - 1].command.id;
    model_relay(world);
    world->model.messages_count = 0;
    fake_clock_pass_ms(&world->clock, BOUND_MS + 1);
    struct reconcile_result result = counted(&shop, DIFFERENCE_DECISION);
    const struct difference *difference = find(&result, DIFFERENCE_DECISION);
    assert_true(order_id_equal(id, difference->id) && difference->user == 50);
    difference = find(&result, DIFFERENCE_GATE_STUCK);
    assert_non_null(difference);
    assert_int_equal(2, difference->found - difference->expected);
    /* Booking it is enough; the segment is not rebuilt for it if that comes first. */
    assert_true(reconcile_repair(shop.reconcile) > 0);
    model_settle(world);
    assert_int_equal(ORDER_LOCKED, memory_ledger_order(&world->ledger, id)->state);
    recover_until_whole(&shop.world, shop.recover);
    model_agree(world);
    clean(&shop);
    shop_close(&shop);
}

/* The gate has forgotten it, too, and is sold out: the buyer gets a FAILED order. */
static void test_a_decision_that_nobody_knows_any_more(void **state)
{
    (void)state;
    struct shop shop;
    shop_open(&shop, 1);
    struct cluster_world *world = &shop.world;
    struct model_decision told = {
        .segment = segment_home(77, SEGMENTS),
        .epoch = 1,
        .command = {.kind = GATE_RESERVE,
                    .now_ms = CLUSTER_NOW,
                    .id = order_id_fresh(CLUSTER_FREE, CLUSTER_NOW, 1U << 20),
                    .user = 77,
                    .item = CLUSTER_FREE,
                    .qty = 1000}};
    world->model.journal =
        realloc(world->model.journal, (world->model.journal_count + 1) * sizeof(told));
    world->model.journal[world->model.journal_count++] = told;
    (void)counted(&shop, DIFFERENCE_DECISION);
    assert_int_equal(1, reconcile_repair(shop.reconcile));
    const struct order_row *row = memory_ledger_order(&world->ledger, told.command.id);
    assert_int_equal(ORDER_FAILED, row->state);
    assert_int_equal(REFUSAL_SOLD_OUT, row->reason);
    model_settle(world);
    clean(&shop);
    shop_close(&shop);
}

/* Buyer 50 wins a unit, and the message about it is lost between relay and queue. */
static struct decision lose_message(struct cluster_world *world)
{
    assert_true(model_buy_untold(world, 50, CLUSTER_FREE, 1));
    model_relay(world);
    struct decision decision = {.segment = world->model.messages[0].segment,
                                .epoch = world->model.messages[0].epoch,
                                .command = world->model.messages[0].command};
    world->model.messages_count = 0;
    return decision;
}

static void park(struct shop *shop, uint64_t message_number, struct span text)
{
    struct queue_message message;
    size_t count = 0;
    assert_int_equal(0, queue_publish(shop->publisher, message_number, text));
    assert_int_equal(0, queue_take(shop->consumer, &message, 1, 0, &count));
    assert_int_equal(0, queue_park(shop->consumer, &message));
}

/* Units are not called stuck while messages may carry them, nor while anything moves. */
static void test_what_is_on_its_way_is_not_stuck(void **state)
{
    (void)state;
    struct shop shop;
    shop_open(&shop, 1);
    struct cluster_world *world = &shop.world;
    char text[MESSAGE_MAX];
    struct decision decision = lose_message(world);
    assert_int_equal(0, queue_publish(shop.publisher, 1, message_write(text, &decision)));
    for (int i = 0; i < 4; i++) {
        assert_int_equal(0, pass(&shop).count);
        fake_clock_pass_ms(&world->clock, BOUND_MS);
    }
    /* Taken and gone: now it is. But every pass sees another one while people buy. */
    struct queue_message message;
    size_t count = 0;
    assert_int_equal(0, queue_take(shop.consumer, &message, 1, 0, &count));
    assert_int_equal(0, queue_ack(shop.consumer, &message));
    for (uint64_t i = 0; i < 4; i++) {
        assert_int_equal(0, pass(&shop).count);
        fake_clock_pass_ms(&world->clock, BOUND_MS);
        uint64_t user = 2000;
        while (segment_home(++user, SEGMENTS) != decision.segment) {
        }
        assert_true(model_buy(world, user, CLUSTER_FREE, 1));
        model_turn(world);
        model_turn(world);
    }
    (void)pass(&shop);
    fake_clock_pass_ms(&world->clock, BOUND_MS);
    struct reconcile_result result = pass(&shop);
    assert_int_equal(1, result.count);
    assert_non_null(find(&result, DIFFERENCE_GATE_STUCK));
    repair_all(&shop); /* the unit is sold again */
    shop_close(&shop);
}

static void test_an_outbox_that_nobody_empties(void **state)
{
    (void)state;
    struct shop shop;
    shop_open(&shop, 1);
    struct cluster_world *world = &shop.world;
    world->model.still = true;
    assert_true(model_buy_untold(world, 50, CLUSTER_FREE, 1));
    fake_clock_pass_ms(&world->clock, BOUND_MS + 1);
    struct reconcile_result result = counted(&shop, DIFFERENCE_OUTBOX);
    assert_int_equal(segment_home(50, SEGMENTS), find(&result, DIFFERENCE_OUTBOX)->segment);
    assert_int_equal(1, result.count);
    world->model.still = false;
    model_settle(world);
    clean(&shop);
    shop_close(&shop);
}

static void test_parked_messages(void **state)
{
    (void)state;
    struct shop shop;
    shop_open(&shop, 1);
    struct cluster_world *world = &shop.world;
    char text[MESSAGE_MAX];
    struct decision decision = lose_message(world);
    park(&shop, 1, message_write(text, &decision));
    park(&shop, 2, span_of("what is this?"));
    struct reconcile_result result = counted(&shop, DIFFERENCE_PARKED);
    assert_int_equal(2, result.count);
    assert_true(order_id_equal(decision.command.id, result.differences[0].id) ||
                order_id_equal(decision.command.id, result.differences[1].id));
    assert_int_equal(2, reconcile_repair(shop.reconcile));
    struct queue_depths depths;
    assert_int_equal(0, queue_depths(shop.consumer, &depths));
    assert_int_equal(0, depths.parked);
    assert_int_equal(2, depths.ready);
    shop_close(&shop);
}

/* Rubbish that somebody sent lies there for ever; what is stuck meanwhile is found all the same. */
static void test_parked_rubbish_hides_nothing(void **state)
{
    (void)state;
    struct shop shop;
    shop_open(&shop, 1);
    struct cluster_world *world = &shop.world;
    park(&shop, 1, span_of("what is this?"));
    park(&shop, 2, span_of("what is this?"));
    struct decision decision = lose_message(world);
    struct reconcile_result result = counted(&shop, DIFFERENCE_GATE_STUCK);
    size_t parked = 0;
    for (size_t i = 0; i < result.count; i++) {
        parked += result.differences[i].kind == DIFFERENCE_PARKED;
    }
    assert_int_equal(2, parked);
    assert_int_equal(0, result.unsure);
    /* But one that may be about those units keeps them in doubt. */
    char text[MESSAGE_MAX];
    park(&shop, 3, message_write(text, &decision));
    result = pass(&shop);
    assert_null(find(&result, DIFFERENCE_GATE_STUCK));
    assert_true(result.unsure > 0);
    shop_close(&shop);
}

/* ---- what cannot be compared ---- */

static void test_what_cannot_be_asked_neither_counts_nor_clears(void **state)
{
    (void)state;
    struct shop shop;
    shop_open(&shop, 1);
    assert_true(sim_segments_break(shop.world.sim, 2, CLUSTER_THREE));
    assert_int_equal(0, pass(&shop).count);
    fake_clock_pass_ms(&shop.world.clock, BOUND_MS);
    sim_segments_away(shop.world.sim, 2, true);
    struct reconcile_result result = pass(&shop);
    assert_int_equal(0, result.count);
    assert_int_equal(1, result.seen);
    assert_true(result.unsure > 0);
    sim_segments_away(shop.world.sim, 2, false);
    assert_int_equal(1, pass(&shop).count);
    /* A pass that the ledger cut short says so, and leaves everything as it was. */
    shop.process.fail_reads = ERR_IO;
    assert_int_equal(ERR_IO, reconcile_pass(shop.reconcile, &result));
    shop.process.fail_reads = 0;
    assert_int_equal(1, pass(&shop).count);
    shop_close(&shop);
}

static void test_now(void **state)
{
    (void)state;
    struct shop shop;
    struct reconcile_result result;
    shop_open(&shop, 1);
    assert_true(sim_segments_break(shop.world.sim, 2, CLUSTER_THREE));
    assert_int_equal(0, reconcile_now(shop.reconcile, &result));
    assert_int_equal(1, result.count);
    assert_int_equal(2, result.passes);
    shop_close(&shop);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_what_agrees_shows_nothing),
        cmocka_unit_test_teardown(test_a_rush_shows_nothing, model_print_seed),
        cmocka_unit_test(test_an_order_in_another_state),
        cmocka_unit_test(test_events_that_are_not_applied),
        cmocka_unit_test(test_numbers_of_a_gate_that_is_behind),
        cmocka_unit_test(test_units_in_transit),
        cmocka_unit_test(test_a_decision_that_was_lost_on_its_way),
        cmocka_unit_test(test_a_decision_that_nobody_knows_any_more),
        cmocka_unit_test(test_what_is_on_its_way_is_not_stuck),
        cmocka_unit_test(test_an_outbox_that_nobody_empties),
        cmocka_unit_test(test_parked_messages),
        cmocka_unit_test(test_parked_rubbish_hides_nothing),
        cmocka_unit_test(test_what_cannot_be_asked_neither_counts_nor_clears),
        cmocka_unit_test(test_now),
    };
    log_set_level(LOG_ERROR);
    int failed = cmocka_run_group_tests(tests, NULL, NULL);
    return failed + TABLE_RUN(number_cases, a_number_differs, NULL, NULL);
}
