/* The segments as the ledger writer's sink: every event at every segment it concerns, in order, once. */
#include "segment_event_sink_fixture.h"

/* ---- straight on ---- */

static void events_reach_the_segments_they_concern_once(void **state)
{
    (void)state;
    uint64_t before[SEGMENTS];
    for (uint32_t s = 0; s < SEGMENTS; s++) {
        before[s] = sim_segments_writes(world.sim, s);
    }
    open_sale(0, 10);
    assert_caught_up();
    struct gate_command buys[6];
    for (uint32_t i = 0; i < 6; i++) {
        buys[i] = cluster_buy(&world, i % SEGMENTS, 10 + i);
    }
    size_t from = ledger.count;
    for (uint32_t i = 0; i < 6; i++) {
        commit(event_of_order(EVENT_ORDER_LOCKED, &buys[i]));
    }
    commit(event_of_order(EVENT_ORDER_PAID, &buys[0]));
    commit(event_of_order(EVENT_ORDER_EXPIRED, &buys[1]));
    commit(event_of_order(EVENT_ORDER_CANCELLED, &buys[2]));
    apply(0, from);
    assert_caught_up();
    assert_int_equal(state_of(&buys[0]), ORDER_PAID);
    assert_int_equal(state_of(&buys[1]), ORDER_EXPIRED);
    assert_int_equal(state_of(&buys[2]), ORDER_CANCELLED);
    assert_int_equal(state_of(&buys[3]), ORDER_LOCKED);
    /* 3 of the sale, 2 buys, 2 bookings and one end on each: each written once. */
    for (uint32_t s = 0; s < SEGMENTS; s++) {
        assert_int_equal(sim_segments_writes(world.sim, s) - before[s], 3 + 2 + 2 + 1);
    }
    uint64_t reads = ledger.reads;
    commit_and_apply(0,
                     event_restock(1, 5)); /* what follows on what it knows is sent straight on */
    assert_true(ledger.reads <= reads + 1);
    assert_int_equal(total(0), 10);
    assert_int_equal(total(1), 15);
    assert_int_equal(ledger_writers[0].event_sink->ops->applied(ledger_writers[0].event_sink), 0);
    apply(0, ledger.count); /* a batch without events */
    assert_caught_up();
}

static void two_ledger_writers_write_to_one_ledger(void **state)
{
    (void)state;
    open_sale(0, 10);
    for (uint32_t i = 0; i < 40; i++) {
        commit_and_apply(i % 3 == 0 ? 1 : 0, event_restock(i % SEGMENTS, 1 + i));
        fake_clock_pass_ms(&world.clock, 1);
    }
    (void)settle(0);
    (void)settle(1);
    assert_caught_up();
    uint64_t sum = 0;
    for (uint32_t s = 0; s < SEGMENTS; s++) {
        sum += total(s);
    }
    assert_int_equal(sum, 30 + 40 * 41 / 2); /* every one, and once */
}

/* One has committed before, and applies after the other. */
static void who_comes_first_brings_the_others_events_too(void **state)
{
    (void)state;
    open_sale(0, 10);
    (void)settle(1);
    size_t first = ledger.count;
    commit(event_restock(0, 1));
    commit(event_restock(1, 2));
    size_t second = ledger.count;
    commit(event_restock(0, 4));
    apply(1, second);
    assert_caught_up();
    assert_int_equal(total(0), 15);
    struct event_sink *event_sink = ledger_writers[0].event_sink;
    assert_int_equal(
        event_sink->ops->apply(event_sink, &ledger.events[first], second - first, now_ms()), 0);
    assert_caught_up();
    assert_int_equal(total(0), 15);
    assert_int_equal(total(1), 12);
    commit_and_apply(0, event_restock(2, 8));
    commit_and_apply(1, event_restock(0, 16));
    assert_caught_up();
    assert_int_equal(total(0), 31);
}

static void many_events_go_in_pages(void **state)
{
    (void)state;
    open_sale(0, 10);
    size_t from = ledger.count;
    for (uint32_t i = 0; i < 1300; i++) {
        commit(event_restock(0, 1));
    }
    apply(0, from);
    assert_int_equal(total(0), 1310);
    from = ledger.count;
    for (uint32_t i = 0; i < 1300; i++) {
        commit(event_restock(1, 1));
    }
    assert_int_equal(total(1), 10);
    assert_false(turn(1)); /* it sees how far the segments are */
    fake_clock_pass_ms(&world.clock, 1000);
    assert_true(turn(1)); /* one page, and there is more */
    assert_int_equal(settle(1), 1);
    assert_int_equal(total(1), 1310);
    assert_caught_up();
}

static void (*apply_there)(struct segments *segments, struct segment_call *calls, size_t count);
static uint32_t brought;

static void apply_and_count(struct segments *segments, struct segment_call *calls, size_t count)
{
    brought += (uint32_t)count;
    apply_there(segments, calls, count);
}

/* Or every ledger writer of a large shop would bring all events of a storm. */
static void what_another_ledger_writer_brings_is_left_to_it(void **state)
{
    (void)state;
    open_sale(0, 10);
    struct segments_ops counted = *ledger_writers[1].segments->ops;
    apply_there = counted.apply;
    counted.apply = apply_and_count;
    ledger_writers[1].segments->ops = &counted;
    brought = 0;
    for (uint32_t i = 0; i < 20; i++) {
        commit_and_apply(0, event_restock(0, 1));
        commit(event_restock(0, 1)); /* it has not come to this one yet */
        (void)turn(1);
        fake_clock_pass_ms(&world.clock, 400);
    }
    assert_int_equal(brought, 0);
    /* Nobody goes on: the segment stands still. */
    (void)turn(1);
    fake_clock_pass_ms(&world.clock, 400);
    (void)settle(1);
    assert_int_equal(brought, 1);
    assert_caught_up();
    commit_and_apply(1, event_restock(0, 1)); /* what it has committed itself it brings at once */
    assert_caught_up();
    commit(event_restock(1, 1));
    assert_int_equal(
        ledger_writers[1].event_sink->ops->turn(ledger_writers[1].event_sink, now_ms(), true),
        INT64_MAX); /* in a hurry, too */
    assert_caught_up();
}

/* ---- what goes wrong ---- */

static void a_segment_that_is_away_is_caught_up_later(void **state)
{
    (void)state;
    open_sale(0, 10);
    sim_segments_away(world.sim, 1, true);
    for (uint32_t i = 0; i < 30; i++) {
        commit_and_apply(0, event_restock(i % SEGMENTS, 1));
        assert_true(is_caught_up(0) && is_caught_up(2)); /* nobody waits for it */
        fake_clock_pass_ms(&world.clock, 10);
    }
    assert_int_equal(total(1), 10);
    assert_true(turn(0));
    sim_segments_away(world.sim, 1, false);
    for (int i = 0; i < 400 && !is_caught_up(1); i++) { /* pauses have grown to two seconds */
        fake_clock_pass_ms(&world.clock, 5);
        (void)turn(0);
    }
    assert_caught_up();
    assert_int_equal(total(1), 20);
    assert_false(turn(0));
    commit_and_apply(0, event_restock(1, 1)); /* straight on again */
    assert_caught_up();
}

static void (*look_there)(struct segments *segments, uint32_t segment,
                          struct segment_state *ret_state);
static uint32_t looks;

static void look_and_count(struct segments *segments, uint32_t segment,
                           struct segment_state *ret_state)
{
    looks++;
    look_there(segments, segment, ret_state);
}

static void it_does_not_ask_a_segment_that_is_away_all_the_time(void **state)
{
    (void)state;
    open_sale(0, 10);
    struct segments_ops counted = *ledger_writers[0].segments->ops;
    look_there = counted.look;
    counted.look = look_and_count;
    ledger_writers[0].segments->ops = &counted;
    looks = 0;
    sim_segments_away(world.sim, 0, true);
    commit_and_apply(0, event_restock(0, 1));
    for (int i = 0; i < 10000; i++) { /* ten seconds, with pauses of 20, 40 ... 2000, 2000 ms */
        fake_clock_pass_ms(&world.clock, 1);
        assert_true(turn(0));
    }
    assert_in_range(looks, 8, 12);
}

static uint32_t goes_away;

static void look_and_go(struct segments *segments, uint32_t segment,
                        struct segment_state *ret_state)
{
    look_there(segments, segment, ret_state);
    if (goes_away == 1) {
        sim_segments_away(world.sim, segment, true);
    } else if (goes_away == 2) {
        ledger.fail_events = true;
    }
    goes_away = 0;
}

/* The segment, or the ledger, goes away while one catches up. */
static void what_is_interrupted_is_brought_later(void **state)
{
    (void)state;
    open_sale(0, 10);
    (void)settle(1);
    struct segments_ops ops = *ledger_writers[1].segments->ops;
    look_there = ops.look;
    ops.look = look_and_go;
    ledger_writers[1].segments->ops = &ops;
    for (uint32_t how = 1; how <= 2; how++) {
        commit(event_restock(0, 1));
        goes_away = how;
        fake_clock_pass_ms(&world.clock, 300);
        assert_true(turn(1));
        assert_int_equal(goes_away, 0);
        assert_int_equal(total(0), 10 + how - 1);
        sim_segments_away(world.sim, 0, false);
        fake_clock_pass_ms(&world.clock, 2000);
        (void)settle(1);
        assert_int_equal(total(0), 10 + how);
    }
}

static void a_lost_answer_changes_nothing_twice(void **state)
{
    (void)state;
    open_sale(0, 10);
    for (uint32_t i = 0; i < 50; i++) {
        sim_segments_lose(world.sim, i % SEGMENTS, 1 + i % 2);
        commit_and_apply(0, event_restock(i % SEGMENTS, 1));
        fake_clock_pass_ms(&world.clock, 25);
    }
    for (uint32_t s = 0; s < SEGMENTS; s++) {
        sim_segments_lose(world.sim, s, 0);
    }
    fake_clock_pass_ms(&world.clock, 5000);
    (void)settle(0);
    assert_caught_up();
    assert_int_equal(total(0) + total(1) + total(2), 80);
}

static void a_refused_event_is_skipped(void **state)
{
    (void)state;
    struct gate_command nobody = {
        .id = cluster_id(&world, ITEM, 1), .user = 5, .item = ITEM, .qty = 1};
    open_sale(0, 10);
    struct gate_command buy = cluster_buy(&world, 1, 9);
    size_t from = ledger.count;
    commit(event_of_order(EVENT_ORDER_FAILED, &nobody)); /* stood in line and never got there */
    commit(event_of_order(EVENT_ORDER_LOCKED, &nobody));
    commit(event_of_order(EVENT_ORDER_LOCKED, &buy));
    commit(event_of_order(EVENT_ORDER_PAID, &nobody));
    commit(event_of_order(EVENT_ORDER_PAID, &buy));
    commit(event_of_order(EVENT_ORDER_EXPIRED, &buy)); /* the ledger would not */
    commit(event_restock(1, 3));
    commit((struct ledger_event){.kind = EVENT_NONE, .segment = 1}); /* of a later version's kind */
    apply(0, from);
    assert_caught_up();
    assert_int_equal(state_of(&buy), ORDER_PAID);
    assert_int_equal(total(1), 13);
}

static void a_sale_is_forgotten_in_several_steps(void **state)
{
    (void)state;
    enum { ORDERS = 5000 };
    open_sale(0, ORDERS);
    size_t from = ledger.count;
    for (uint32_t i = 0; i < ORDERS; i++) {
        struct gate_command buy = cluster_buy(&world, 0, 1 + i);
        commit(event_of_order(EVENT_ORDER_FAILED, &buy));
    }
    commit(event_of_sale(EVENT_SALE_CLOSED));
    commit(event_of_sale(EVENT_SALE_FORGOTTEN));
    commit((struct ledger_event){.kind = EVENT_SALE_WARMED,
                                 .segment = SEGMENT_ALL,
                                 .sale = 2,
                                 .a = CLUSTER_NOW,
                                 .b = CLUSTER_NOW + 1});
    uint64_t writes = sim_segments_writes(world.sim, 0);
    apply(0, from);
    const struct gate *gate = sim_segments_gate(world.sim, 0);
    assert_caught_up();
    assert_int_equal(gate->order_pool.used + gate->buyer_pool.used, 0);
    assert_int_equal(gate_find_sale(gate, CLUSTER_SALE), GATE_NONE);
    assert_int_not_equal(gate_find_sale(gate, 2), GATE_NONE);
    /* 10,000 entries, 4,096 at a time: three steps. */
    assert_int_equal(sim_segments_writes(world.sim, 0) - writes, ORDERS + 1 + 3 + 1);
}

/* ---- room, rest ---- */

static void put_sale(uint64_t id, enum sale_state sale_state, bool forgotten, uint32_t items)
{
    struct sale_row *row = calloc(1, sizeof(*row));
    assert_non_null(row);
    *row = (struct sale_row){.id = id,
                             .state = sale_state,
                             .forgotten = forgotten,
                             .items_count = items,
                             .items = calloc(items, sizeof(struct item_row))};
    for (uint32_t i = 0; i < items; i++) {
        row->items[i].id = id * 100 + i;
    }
    assert_int_equal(catalog_put(ledger_writers[0].catalog, row), 0);
}

static void room_is_what_the_catalog_has_not_loaded(void **state)
{
    (void)state;
    struct event_sink *event_sink = ledger_writers[0].event_sink;
    uint32_t sales = 0;
    uint32_t items = 0;
    event_sink->ops->room(event_sink, &sales, &items);
    assert_int_equal(sales, cluster_sizes.sales);
    assert_int_equal(items, cluster_sizes.items);
    put_sale(1, SALE_DRAFT, false, 5);
    put_sale(2, SALE_WARM, false, 3);
    put_sale(3, SALE_CLOSED, true, 5);
    event_sink->ops->room(event_sink, &sales, &items);
    assert_int_equal(sales, cluster_sizes.sales - 1);
    assert_int_equal(items, cluster_sizes.items - 3);
    for (uint64_t id = 4; id < 8; id++) {
        put_sale(id, SALE_CLOSED, false, 3); /* more than there is room for */
    }
    event_sink->ops->room(event_sink, &sales, &items);
    assert_int_equal(sales, 0);
    assert_int_equal(items, 0);
}

static void it_rests_when_all_outboxes_are_empty(void **state)
{
    (void)state;
    struct event_sink *event_sink = ledger_writers[0].event_sink;
    struct outbox_entry entry;
    size_t count = 0;
    open_sale(0, 10);
    assert_true(event_sink->ops->is_idle(event_sink, CLUSTER_SALE));
    (void)cluster_buy(&world, 2, 9);
    assert_false(event_sink->ops->is_idle(event_sink, CLUSTER_SALE));
    assert_int_equal(segments_take(world.hands, UINT64_MAX, &entry, 1, 0, &count), 0);
    assert_int_equal(segments_done(world.hands, &entry, 1), 0);
    assert_true(event_sink->ops->is_idle(event_sink, CLUSTER_SALE));
    ledger.segments = SEGMENTS;
    assert_true(event_sink->ops->is_idle(event_sink, CLUSTER_SALE));
    ledger.segments = SEGMENTS + 1; /* added since: it cannot look there */
    assert_false(event_sink->ops->is_idle(event_sink, CLUSTER_SALE));
    ledger.segments = SEGMENTS;
    sim_segments_away(world.sim, 0, true);
    assert_false(event_sink->ops->is_idle(event_sink, CLUSTER_SALE)); /* nobody knows */
}

/* ---- anything, in any order ---- */

static void commit_some(struct prng *prng, struct gate_command *buys, size_t *count)
{
    uint32_t segment = (uint32_t)prng_below(prng, SEGMENTS);
    size_t pick = *count > 0 ? prng_below(prng, *count) : 0;
    if (prng_below(prng, 3) == 0 || *count == 0) {
        commit(event_restock(segment, 1 + prng_below(prng, 5)));
    } else if (prng_below(prng, 10) == 0) {
        commit(event_of_sale(prng_below(prng, 2) == 0 ? EVENT_SALE_PAUSED : EVENT_SALE_OPENED));
    } else {
        static const enum ledger_event_kind ends[] = {EVENT_ORDER_PAID, EVENT_ORDER_EXPIRED,
                                                      EVENT_ORDER_CANCELLED};
        commit(event_of_order(EVENT_ORDER_LOCKED, &buys[pick]));
        commit(event_of_order(ends[prng_below(prng, 3)], &buys[pick]));
        buys[pick] = buys[--*count];
    }
}

static void run_seed(uint64_t seed)
{
    struct prng prng = prng_of(seed);
    struct gate_command buys[64];
    size_t count = 0;
    open_sale(0, 1000);
    while (ledger.count < 1500) {
        uint32_t segment = (uint32_t)prng_below(&prng, SEGMENTS);
        uint32_t ledger_writer = (uint32_t)prng_below(&prng, LEDGER_WRITERS);
        size_t from = ledger.count;
        sim_segments_away(world.sim, segment, prng_below(&prng, 20) == 0);
        sim_segments_lose(world.sim, segment, prng_below(&prng, 20) == 0 ? 2 : 0);
        ledger.fail = prng_below(&prng, 20) == 0 ? ERR_IO : 0;
        const struct gate *gate = sim_segments_gate(world.sim, segment);
        uint32_t sale = gate_find_sale(gate, CLUSTER_SALE);
        if (count < 64 && sale != GATE_NONE && gate->sales[sale].state == SALE_OPEN) {
            sim_segments_away(world.sim, segment, false);
            sim_segments_lose(world.sim, segment, 0);
            buys[count++] = cluster_buy(&world, segment, 1 + prng_below(&prng, 100));
        }
        for (uint64_t i = prng_below(&prng, 12); i > 0; i--) {
            commit_some(&prng, buys, &count);
        }
        if (prng_below(&prng, 10) > 0) { /* else it dies here */
            apply(ledger_writer, from);
        }
        if (prng_below(&prng, 30) == 0) {
            ledger_writer_close(ledger_writer);
            ledger_writer_open(ledger_writer);
        }
        (void)turn((uint32_t)prng_below(&prng, LEDGER_WRITERS));
        fake_clock_pass_ms(&world.clock, (int64_t)prng_below(&prng, 100));
    }
    ledger.fail = 0;
    for (uint32_t s = 0; s < SEGMENTS; s++) {
        sim_segments_away(world.sim, s, false);
        sim_segments_lose(world.sim, s, 0);
    }
    for (int i = 0; i < 20; i++) {
        fake_clock_pass_ms(&world.clock, 500);
        (void)turn(1);
    }
    assert_caught_up();
    uint64_t units = SEGMENTS * 1000;
    for (size_t i = 0; i < ledger.count; i++) {
        units += ledger.events[i].kind == EVENT_ITEM_RESTOCKED ? (uint64_t)ledger.events[i].a : 0;
    }
    assert_int_equal(total(0) + total(1) + total(2), units);
}

static void two_ledger_writers_and_faults(void **state)
{
    uint64_t first = cluster_seed();
    for (uint64_t seed = first; seed < first + 40; seed++) {
        if (seed > first) {
            assert_int_equal(set_up(state), 0);
        }
        print_message("SLUICE_SEED=%llu\n", (unsigned long long)seed);
        run_seed(seed);
        if (seed + 1 < first + 40) {
            assert_int_equal(tear_down(state), 0);
        }
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        TEST(events_reach_the_segments_they_concern_once),
        TEST(two_ledger_writers_write_to_one_ledger),
        TEST(who_comes_first_brings_the_others_events_too),
        TEST(many_events_go_in_pages),
        TEST(what_another_ledger_writer_brings_is_left_to_it),
        TEST(a_segment_that_is_away_is_caught_up_later),
        TEST(it_does_not_ask_a_segment_that_is_away_all_the_time),
        TEST(what_is_interrupted_is_brought_later),
        TEST(a_lost_answer_changes_nothing_twice),
        TEST(a_refused_event_is_skipped),
        TEST(a_sale_is_forgotten_in_several_steps),
        TEST(room_is_what_the_catalog_has_not_loaded),
        TEST(it_rests_when_all_outboxes_are_empty),
        TEST(two_ledger_writers_and_faults),
    };
    return cmocka_run_group_tests_name("applier", tests, NULL, NULL);
}
