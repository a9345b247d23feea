/* The simulated segments: what the contract suite cannot see of them, faults above all. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

#include "base/err.h"
#include "base/prng.h"
#include "fake_clock.h"
#include "sim_segments.h"

#define NOW 1700000000000LL
#define SALE 1
#define ITEM 11
#define UNITS 5
#define FENCE 7

struct world {
    struct fake_clock clock;
    struct sim_segments *sim;
    struct segments *relay;
    struct gate_port *front;
    uint64_t seq;
    struct prng prng;
};

static const struct gate_sizes sizes = {.orders = 100, .buyers = 100, .items = 10, .sales = 4};

static int64_t draw_us(void *context)
{
    return (int64_t)prng_below(&((struct world *)context)->prng, 1000);
}

static struct segment_step sale_step(enum sale_state state)
{
    return (struct segment_step){.kind = STEP_SALE,
                                 .sale = SALE,
                                 .starts_at_ms = NOW - 1000,
                                 .ends_at_ms = NOW + 1000000,
                                 .state = state};
}

static struct segment_step item_step(void)
{
    return (struct segment_step){
        .kind = STEP_ITEM, .sale = SALE, .item = ITEM, .total = UNITS, .available = UNITS};
}

static enum segment_outcome rebuild(struct world *world, uint64_t epoch, uint64_t fence, bool open)
{
    struct segment_step steps[] = {{.kind = STEP_BEGIN, .sizes = sizes, .event = 3},
                                   sale_step(SALE_OPEN),
                                   item_step(),
                                   {.kind = STEP_OPEN}};
    return segments_rebuild(world->relay, 0, epoch, fence, steps, open ? 4 : 3);
}

static struct world *world_new(struct world *world, bool slow)
{
    *world = (struct world){.prng = prng_of(42)};
    fake_clock_init(&world->clock, NOW);
    world->sim = sim_segments_new((struct sim_segments_options){.segments = 2,
                                                                .clock = &world->clock.port,
                                                                .claim_ms = 1000,
                                                                .forget_max = 10,
                                                                .context = world,
                                                                .delay_us = slow ? draw_us : NULL});
    world->relay = sim_segments_worker(world->sim, 1);
    world->front = sim_segments_front(world->sim, 2);
    assert_int_equal(SEGMENT_DONE, rebuild(world, 1, FENCE, true));
    gate_place(world->front, 0, 1);
    return world;
}

static void world_done(struct world *world)
{
    sim_segments_front_free(world->front);
    sim_segments_worker_free(world->relay);
    sim_segments_free(world->sim);
}

static struct gate_request ask_buy(struct world *world, uint64_t user)
{
    return (struct gate_request){.kind = GATE_REQUEST_BUY,
                                 .id = order_id_fresh(ITEM, NOW, (uint32_t)++world->seq << 6),
                                 .user = user,
                                 .item = ITEM,
                                 .qty = 1,
                                 .now_ms = NOW,
                                 .ticket_expires_ms = NOW + 60000};
}

static struct gate_request submit_buy(struct world *world, uint64_t user)
{
    struct gate_request request = ask_buy(world, user);
    assert_int_equal(GATE_ANSWERED, gate_submit(world->front, &request));
    return request;
}

static enum refusal buy(struct world *world, uint64_t user, struct order_id *ret_id)
{
    struct gate_request request = submit_buy(world, user);
    assert_int_equal(GATE_OUTCOME_ANSWERED, request.outcome);
    *ret_id = request.id;
    return request.refusal;
}

static struct segment_state look(struct world *world, uint32_t segment)
{
    struct segment_state state;
    segments_look(world->relay, segment, &state);
    return state;
}

static size_t take(struct segments *worker, struct outbox_entry *entries)
{
    size_t count = 0;
    int error = segments_take(worker, UINT64_MAX, entries, 10, 0, &count);
    assert_true(error == 0 || error == ERR_AGAIN);
    return count;
}

static void test_a_failover_forgets_and_decides_nothing(void **state)
{
    (void)state;
    struct world world;
    struct order_id ids[3];
    world_new(&world, false);
    for (int i = 0; i < 3; i++) {
        assert_int_equal(REFUSAL_NONE, buy(&world, 1, &ids[i]));
    }
    assert_int_equal(3, look(&world, 0).outbox);
    assert_int_equal(2, sim_segments_failover(world.sim, 0, 2));
    assert_int_equal(SEGMENT_STALE, look(&world, 0).outcome);
    assert_int_equal(1, look(&world, 0).outbox);
    assert_int_equal(1, look(&world, 0).epoch);
    assert_int_equal(GATE_OUTCOME_UNKNOWN, submit_buy(&world, 2).outcome);
    const struct gate *gate = sim_segments_gate(world.sim, 0);
    assert_true(gate_consistent(gate));
    assert_int_not_equal(GATE_NONE, gate_find_order(gate, ids[0]));
    assert_int_equal(GATE_NONE, gate_find_order(gate, ids[1]));
    /* The same epoch cannot be made again on another server; a higher one can. */
    assert_int_equal(SEGMENT_STALE, rebuild(&world, 1, FENCE, true));
    assert_int_equal(SEGMENT_DONE, rebuild(&world, 2, FENCE, true));
    assert_int_equal(1, look(&world, 0).outbox); /* goes on */
    assert_true(sim_segments_open(world.sim, 0));
    world_done(&world);
}

/* What a state looks like after each write. */
static uint64_t looks(struct world *world)
{
    const struct gate *gate = sim_segments_gate(world->sim, 0);
    if (gate == NULL) {
        return 0;
    }
    assert_true(gate_consistent(gate));
    uint32_t slot = gate_find_item(gate, ITEM);
    uint64_t available = slot != GATE_NONE ? gate->items[slot].available : UNITS + 1;
    return 1 + available * 1000000 + sim_segments_outbox(world->sim, 0) * 1000 +
           gate->order_pool.used * 10 + gate->sales_used;
}

/* Buys and dones, each one write, and takes; the look of the world after every write. */
static uint64_t write_some(struct world *world, uint32_t steps, uint64_t *ret_looks)
{
    struct outbox_entry entries[10];
    struct order_id id;
    for (uint32_t i = 0; i < steps; i++) {
        if (i % 3 == 2) {
            uint64_t left = looks(world);
            for (size_t k = take(world->relay, entries); k > 0; k--) {
                ret_looks[sim_segments_writes(world->sim, 0) - k + 1] = left;
            }
            assert_int_equal(0, segments_done(world->relay, entries, 1));
        } else if (i % 3 == 1) {
            struct segment_state now = look(world, 0);
            struct segment_call call = {
                .epoch = 1,
                .after = now.event,
                .command = {
                    .kind = GATE_RESTOCK, .event = now.event + 1, .item = ITEM, .amount = 1}};
            segments_apply(world->relay, &call, 1);
        } else {
            assert_int_equal(REFUSAL_NONE, buy(world, i + 1, &id));
        }
        ret_looks[sim_segments_writes(world->sim, 0)] = looks(world);
    }
    return sim_segments_writes(world->sim, 0);
}

/* However many writes the log has folded away, a failover gives the state of k writes ago. */
static void test_forgetting_is_exact(void **state)
{
    (void)state;
    for (uint32_t steps = 1; steps < 120; steps += 7) {
        for (uint32_t k = 0; k <= 12; k++) {
            struct world world;
            uint64_t seen[500] = {0};
            world_new(&world, false);
            seen[sim_segments_writes(world.sim, 0)] = looks(&world);
            uint64_t writes = write_some(&world, steps, seen);
            uint32_t forgotten = sim_segments_failover(world.sim, 0, k);
            uint64_t most = writes < 10 ? writes : 10;
            assert_true(writes < 500);
            assert_int_equal(k < most ? k : most, forgotten);
            if (writes - forgotten >= 4) { /* the first four made it */
                assert_int_equal(seen[writes - forgotten], looks(&world));
            }
            world_done(&world);
        }
    }
}

static void test_an_emptied_one_is_stale_and_knows_nothing(void **state)
{
    (void)state;
    struct world world;
    struct order_id id;
    world_new(&world, false);
    assert_int_equal(REFUSAL_NONE, buy(&world, 1, &id));
    sim_segments_empty(world.sim, 0);
    assert_int_equal(SEGMENT_STALE, look(&world, 0).outcome);
    assert_int_equal(0, look(&world, 0).epoch);
    assert_int_equal(0, look(&world, 0).outbox);
    assert_null(sim_segments_gate(world.sim, 0));
    assert_int_equal(SEGMENT_STALE, look(&world, 1).outcome); /* never made */
    assert_int_equal(SEGMENT_DONE, rebuild(&world, 1, FENCE, true));
    world_done(&world);
}

static void test_away_and_lost_answers(void **state)
{
    (void)state;
    struct world world;
    world_new(&world, false);
    sim_segments_away(world.sim, 0, true);
    assert_int_equal(GATE_OUTCOME_AWAY, submit_buy(&world, 1).outcome);
    assert_int_equal(SEGMENT_NOT_ASKED, look(&world, 0).outcome);
    struct segment_call call = {.epoch = 1, .after = 3, .command = {.kind = GATE_SKIP, .event = 4}};
    segments_apply(world.relay, &call, 1);
    assert_int_equal(SEGMENT_NOT_ASKED, call.outcome);
    sim_segments_away(world.sim, 0, false);

    struct segment_call calls[3] = {call, call, call};
    calls[1].after = 4;
    calls[1].command.event = 5;
    calls[2].command = (struct gate_command){.kind = GATE_TRANSFER_OUT, .item = ITEM, .amount = 2};
    sim_segments_lose(world.sim, 0, 1);
    segments_apply(world.relay, calls, 3);
    assert_int_equal(SEGMENT_NOT_KNOWN, calls[0].outcome);
    assert_int_equal(SEGMENT_GAP, calls[1].outcome); /* waits behind it */
    assert_int_equal(SEGMENT_DONE, calls[2].outcome);
    assert_int_equal(2, calls[2].taken);
    assert_int_equal(4, look(&world, 0).event); /* it ran all the same */

    sim_segments_lose(world.sim, 0, 1);
    assert_int_equal(GATE_OUTCOME_UNKNOWN, submit_buy(&world, 1).outcome);
    assert_int_equal(1, look(&world, 0).outbox);
    world_done(&world);
}

static void test_a_decision_made_again_needs_its_own_window_only(void **state)
{
    (void)state;
    struct world world;
    world_new(&world, false);
    struct segment_step steps[] = {
        {.kind = STEP_BEGIN, .sizes = sizes}, sale_step(SALE_CLOSED), item_step()};
    assert_int_equal(SEGMENT_DONE, segments_rebuild(world.relay, 0, 2, FENCE, steps, 3));
    struct segment_call call = {.epoch = 2,
                                .command = {.kind = GATE_RESERVE,
                                            .now_ms = NOW,
                                            .id = order_id_fresh(ITEM, NOW, 6400),
                                            .user = 1,
                                            .item = ITEM,
                                            .qty = 1,
                                            .ticket_expires_ms = NOW - 1}};
    struct segment_call late = call;
    late.command.id = order_id_fresh(ITEM, NOW, 128);
    late.command.now_ms = NOW + 1000000;
    segments_apply(world.relay, &late, 1);
    assert_int_equal(VERDICT_REFUSED, late.verdict);
    assert_int_equal(REFUSAL_ENDED, late.refusal);
    segments_apply(world.relay, &call, 1);
    assert_int_equal(SEGMENT_DONE, call.outcome);
    assert_int_equal(VERDICT_DONE, call.verdict);
    assert_int_equal(NOW, call.order.created_at_ms);
    segments_apply(world.relay, &call, 1);
    assert_int_equal(VERDICT_ALREADY_APPLIED, call.verdict);
    /* Its item is no longer what was filled: filling it again changes nothing. */
    assert_int_equal(SEGMENT_DONE, segments_rebuild(world.relay, 0, 2, FENCE, steps, 3));
    assert_true(gate_consistent(sim_segments_gate(world.sim, 0)));
    assert_int_equal(1, sim_segments_gate(world.sim, 0)->items[0].locked);
    struct segment_step open = {.kind = STEP_OPEN};
    assert_int_equal(SEGMENT_DONE, segments_rebuild(world.relay, 0, 2, FENCE, &open, 1));
    gate_place(world.front, 0, 2);
    struct order_id id;
    assert_int_equal(REFUSAL_ENDED, buy(&world, 2, &id));
    world_done(&world);
}

static void test_orders_may_come_before_their_item(void **state)
{
    (void)state;
    struct world world;
    world_new(&world, false);
    struct segment_step buyer = {.kind = STEP_BUYER, .item = ITEM, .user = 9, .held = 2, .live = 1};
    struct segment_step order = {.kind = STEP_ORDER,
                                 .item = ITEM,
                                 .order = {.id = order_id_fresh(ITEM, NOW, 64),
                                           .user = 9,
                                           .item = ITEM,
                                           .qty = 2,
                                           .state = ORDER_LOCKED,
                                           .version = 2}};
    struct segment_step item = item_step();
    item.available = UNITS - 2;
    item.locked = 2;
    item.buyers = 1;
    item.live = 1;
    struct segment_step steps[] = {
        {.kind = STEP_BEGIN, .sizes = sizes}, sale_step(SALE_OPEN), buyer, order, order, item};
    assert_int_equal(SEGMENT_DONE, segments_rebuild(world.relay, 0, 2, FENCE, steps, 6));
    assert_true(gate_consistent(sim_segments_gate(world.sim, 0)));
    /* Nobody but its rebuilder applies to it while it is closed. */
    struct segment_call call = {.epoch = 2, .command = {.kind = GATE_SKIP, .event = 1}};
    segments_apply(world.relay, &call, 1);
    assert_int_equal(SEGMENT_STALE, call.outcome);
    call.fence = FENCE - 1;
    segments_apply(world.relay, &call, 1);
    assert_int_equal(SEGMENT_FENCED, call.outcome);
    assert_int_equal(SEGMENT_FENCED, rebuild(&world, 3, FENCE - 1, true));
    world_done(&world);
}

static void test_units_that_stand_for_nothing_are_broken(void **state)
{
    (void)state;
    struct world world;
    struct order_id id;
    world_new(&world, false);
    assert_int_equal(REFUSAL_NONE, buy(&world, 1, &id));
    assert_true(sim_segments_break(world.sim, 0, ITEM));
    struct segment_call call = {
        .epoch = 1,
        .after = 3,
        .command = {
            .kind = GATE_FAIL_ORDER, .event = 4, .id = id, .reason = REFUSAL_LIMIT_REACHED}};
    segments_apply(world.relay, &call, 1);
    assert_int_equal(SEGMENT_BROKEN, call.outcome);
    assert_int_equal(3, look(&world, 0).event);
    world_done(&world);
}

static void test_entries_belong_to_workers(void **state)
{
    (void)state;
    struct world world;
    struct order_id id;
    struct outbox_entry entries[10];
    world_new(&world, false);
    struct segments *other = sim_segments_worker(world.sim, 2);
    assert_int_equal(REFUSAL_NONE, buy(&world, 1, &id));
    assert_int_equal(1, take(world.relay, entries));
    assert_true(order_id_equal(id, entries[0].command.id));
    assert_int_equal(0, take(world.relay, entries));
    assert_int_equal(0, take(other, entries));
    /* A new instance of the same worker begins with what it held. */
    sim_segments_worker_free(world.relay);
    world.relay = sim_segments_worker(world.sim, 1);
    assert_int_equal(1, take(world.relay, entries));
    /* Its answer was lost: it comes again. */
    assert_int_equal(REFUSAL_NONE, buy(&world, 2, &id));
    sim_segments_lose(world.sim, 0, 1);
    size_t count;
    assert_int_equal(ERR_IO, segments_take(world.relay, 1, entries, 10, 0, &count));
    assert_int_equal(2, take(world.relay, entries));
    /* And the dead one's go to another, in time. */
    fake_clock_pass_ms(&world.clock, 1000);
    assert_int_equal(2, take(other, entries));
    assert_int_equal(0, segments_done(other, entries, 2));
    assert_int_equal(0, segments_done(other, entries, 2));
    assert_int_equal(0, look(&world, 0).outbox);
    sim_segments_worker_free(other);
    world_done(&world);
}

static void test_asks_under_way_run_even_when_their_front_is_gone(void **state)
{
    (void)state;
    struct world world;
    struct gate_request requests[4];
    world_new(&world, true);
    for (uint32_t i = 0; i < 4; i++) {
        requests[i] = ask_buy(&world, i + 1);
        requests[i].loop = i % 2;
        assert_int_equal(GATE_PENDING, gate_submit(world.front, &requests[i]));
    }
    assert_null(gate_collect(world.front, 0));
    int64_t next_us = gate_flush(world.front, 0);
    assert_in_range(next_us, clock_boot_us(&world.clock.port) + 1,
                    clock_boot_us(&world.clock.port) + 4000);
    fake_clock_pass_us(&world.clock, 4000);
    struct gate_request *first = gate_collect(world.front, 0);
    assert_ptr_equal(&requests[0], first);
    assert_ptr_equal(&requests[2], first->next);
    assert_null(first->next->next);
    assert_true(gate_request_done(first));
    assert_int_equal(INT64_MAX, gate_flush(world.front, 0));
    assert_ptr_equal(&requests[1], gate_collect(world.front, 1));

    struct gate_request last = ask_buy(&world, 9);
    assert_int_equal(GATE_PENDING, gate_submit(world.front, &last));
    sim_segments_front_free(world.front);
    world.front = NULL;
    fake_clock_pass_us(&world.clock, 2000);
    sim_segments_run(world.sim);
    assert_int_equal(INT64_MAX, sim_segments_next_us(world.sim));
    assert_int_equal(5, look(&world, 0).outbox);
    world_done(&world);
}

static void test_news(void **state)
{
    (void)state;
    struct world world;
    struct segment_news news[8];
    size_t count = 0;
    world_new(&world, false);
    assert_int_equal(0, segments_news(world.relay, news, 8, 0, &count));
    assert_int_equal(NEWS_LOST, news[0].kind); /* what was said before it listened */
    assert_int_equal(ERR_AGAIN, segments_news(world.relay, news, 8, 0, &count));
    struct segment_call call = {
        .epoch = 1,
        .after = 3,
        .command = {.kind = GATE_RESTOCK, .event = 4, .item = ITEM, .amount = 1}};
    segments_apply(world.relay, &call, 1);
    segments_tell(world.relay, &(struct segment_news){.kind = NEWS_EPOCH, .epoch = 5});
    assert_int_equal(0, segments_news(world.relay, news, 8, 0, &count));
    assert_int_equal(2, count);
    assert_int_equal(NEWS_ITEM, news[0].kind);
    assert_int_equal(ITEM, news[0].item);
    assert_int_equal(NEWS_EPOCH, news[1].kind);
    for (int i = 0; i < 1000; i++) {
        segments_tell(world.relay, &(struct segment_news){.kind = NEWS_ITEM, .item = ITEM});
    }
    assert_int_equal(0, segments_news(world.relay, news, 8, 0, &count));
    assert_int_equal(NEWS_LOST, news[0].kind);
    world_done(&world);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_a_failover_forgets_and_decides_nothing),
        cmocka_unit_test(test_forgetting_is_exact),
        cmocka_unit_test(test_an_emptied_one_is_stale_and_knows_nothing),
        cmocka_unit_test(test_away_and_lost_answers),
        cmocka_unit_test(test_a_decision_made_again_needs_its_own_window_only),
        cmocka_unit_test(test_orders_may_come_before_their_item),
        cmocka_unit_test(test_units_that_stand_for_nothing_are_broken),
        cmocka_unit_test(test_entries_belong_to_workers),
        cmocka_unit_test(test_asks_under_way_run_even_when_their_front_is_gone),
        cmocka_unit_test(test_news),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
