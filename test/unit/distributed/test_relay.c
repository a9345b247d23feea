/* The relay on its way to the queue: confirmed before done, sent again, its window, its restart. The
 * way straight to the ledger writer is in test_relay_direct.c. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "base/err.h"
#include "base/prng.h"
#include "cluster_world.h"
#include "distributed/message.h"
#include "distributed/relay.h"
#include "sim_queue.h"

#define SEGMENTS 3
#define WINDOW 8
#define MINE 1U
#define ORDERS_MAX 400

static struct cluster_world world;
static struct sim_broker *broker;
static struct segment_table segment_table;
static struct inside_time inside;
static struct metrics metrics;
/* one relay */
static struct segments *worker;
static struct queue *publisher;
static struct booking_channel booking_channel;
static struct relay *relay;
/* what was decided, and what came out at the other end */
static struct order_id decided[ORDERS_MAX];
static uint32_t arrived[ORDERS_MAX];
static size_t decided_count;

static void start(uint32_t name)
{
    worker = sim_segments_worker(world.sim, name);
    publisher = sim_queue_open(broker, true, 0, 0);
    booking_channel = (struct booking_channel){.segments = worker, .segment_table = &segment_table};
    static const struct runtime_limits runtime_limits = {.direct_after_ms = INT64_MAX};
    struct relay_options options = {.window = WINDOW, .runtime_limits = &runtime_limits};
    assert_int_equal(relay_new(worker, publisher, &booking_channel, &inside,
                               metrics_slot(&metrics, 0), options, &relay),
                     0);
}

/* Its process is gone. */
static void stop(void)
{
    relay_free(relay);
    sim_queue_close(publisher);
    sim_segments_worker_free(worker);
}

static int set_up(void **state)
{
    static const uint32_t retry_s[] = {1};
    (void)state;
    cluster_init(&world, (struct cluster_options){.segments = SEGMENTS});
    for (uint32_t s = 0; s < SEGMENTS; s++) {
        cluster_fill(&world, s, 1, 0);
    }
    cluster_segment_table(&world, &segment_table);
    broker = sim_broker_new(1, retry_s, 1);
    inside_time_init(&inside, &world.clock.port, 0);
    decided_count = 0;
    memset(arrived, 0, sizeof(arrived));
    if (metrics_init(&metrics, 1) != 0) {
        return -1;
    }
    start(MINE);
    return 0;
}

static int tear_down(void **state)
{
    (void)state;
    stop();
    metrics_done(&metrics);
    sim_broker_free(broker);
    cluster_done(&world);
    return 0;
}

static void pass_ms(int64_t ms)
{
    fake_clock_pass_ms(&world.clock, ms);
    sim_broker_time(broker, clock_boot_us(&world.clock.port) / 1000);
}

static void decide(uint32_t segment, uint64_t user)
{
    decided[decided_count++] = cluster_buy(&world, segment, user).id;
}

static uint64_t in_outboxes(void)
{
    uint64_t n = 0;
    for (uint32_t s = 0; s < SEGMENTS; s++) {
        n += sim_segments_outbox(world.sim, s);
    }
    return n;
}

static uint64_t metric(enum metric which)
{
    return metrics_sum(&metrics, which);
}

static void note_arrival(const struct queue_message *message)
{
    struct decision decision;
    assert_int_equal(message_read((struct span){message->body, message->len}, &decision), 0);
    for (size_t i = 0; i < decided_count; i++) {
        if (order_id_equal(decided[i], decision.command.id)) {
            assert_int_equal(decision.segment, order_id_segment(decision.command.id));
            assert_int_equal(decision.epoch, 1);
            assert_int_equal(decision.command.item, CLUSTER_FREE);
            assert_int_equal(decision.command.qty, 1);
            arrived[i]++;
            return;
        }
    }
    fail_msg("nobody decided this");
}

/* Takes and settles everything that is in the queue. */
static void receive(void)
{
    struct queue *consumer = sim_queue_open(broker, false, 0, 0);
    struct queue_message message;
    size_t count = 0;
    while (queue_take(consumer, &message, 1, 0, &count) == 0) {
        note_arrival(&message);
        assert_int_equal(queue_ack(consumer, &message), 0);
    }
    sim_queue_close(consumer);
}

static void decisions_come_to_the_queue_and_leave_the_outbox(void **state)
{
    (void)state;
    for (uint64_t user = 1; user <= 30; user++) {
        decide((uint32_t)(user % SEGMENTS), user);
    }
    assert_int_equal(in_outboxes(), 30);
    for (int i = 0; i < 10; i++) {
        relay_iterate(relay, 0);
        assert_true(metric(METRIC_RELAY_UNDER_WAY) <= WINDOW);
    }
    assert_int_equal(in_outboxes(), 0);
    receive();
    for (size_t i = 0; i < decided_count; i++) {
        assert_int_equal(arrived[i], 1);
    }
    assert_int_equal(metric(METRIC_RELAY_TAKEN_TOTAL), 30);
    assert_int_equal(metric(METRIC_RELAY_CONFIRMED_TOTAL), 30);
    assert_int_equal(metric(METRIC_RELAY_UNDER_WAY), 0);
    relay_iterate(relay, 0); /* nothing to do */
    assert_int_equal(sim_broker_messages(broker), 0);
}

static void nothing_is_done_before_it_is_confirmed(void **state)
{
    (void)state;
    sim_broker_faults(broker, &(struct sim_queue_faults){.outcome_ms = 1000});
    for (uint64_t user = 1; user <= 6; user++) {
        decide(0, user);
    }
    relay_iterate(relay, 0);
    assert_int_equal(sim_broker_messages(broker), 6); /* all there, none known to be */
    uint64_t confirmed = metric(METRIC_RELAY_CONFIRMED_TOTAL);
    assert_true(confirmed < 6);
    while (confirmed < 6) {
        assert_int_equal(in_outboxes(), 6 - confirmed);
        pass_ms(10);
        relay_iterate(relay, 0);
        confirmed = metric(METRIC_RELAY_CONFIRMED_TOTAL);
    }
    assert_int_equal(in_outboxes(), 0);
    assert_int_equal(sim_broker_messages(broker), 6); /* each was sent once */
}

static void what_is_not_confirmed_is_sent_again(void **state)
{
    (void)state;
    sim_broker_faults(broker, &(struct sim_queue_faults){.lose_message = 1000});
    for (uint64_t user = 1; user <= 6; user++) {
        decide((uint32_t)(user % SEGMENTS), user);
    }
    for (int i = 0; i < 5; i++) {
        relay_iterate(relay, 0);
        assert_int_equal(in_outboxes(), 6);
        assert_int_equal(sim_broker_messages(broker), 0);
    }
    assert_int_equal(metric(METRIC_RELAY_UNCONFIRMED_TOTAL), 30);
    sim_broker_faults(broker, &(struct sim_queue_faults){.lose_confirm = 1000});
    relay_iterate(relay, 0);
    assert_int_equal(in_outboxes(), 6); /* they are there, and nobody knows */
    assert_int_equal(sim_broker_messages(broker), 6);
    sim_broker_faults(broker, &(struct sim_queue_faults){0});
    relay_iterate(relay, 0);
    assert_int_equal(in_outboxes(), 0);
    receive();
    for (size_t i = 0; i < decided_count; i++) {
        assert_int_equal(arrived[i], 2);
    }
}

static void a_lost_connection_costs_nothing(void **state)
{
    (void)state;
    sim_broker_faults(broker, &(struct sim_queue_faults){.outcome_ms = 1000});
    for (uint64_t user = 1; user <= 20; user++) {
        decide((uint32_t)(user % SEGMENTS), user);
    }
    relay_iterate(relay, 0);
    sim_broker_down(broker, clock_boot_us(&world.clock.port) / 1000 + 5000);
    for (int i = 0; i < 40; i++) {
        relay_iterate(relay, 0);
        assert_true(in_outboxes() + metric(METRIC_RELAY_CONFIRMED_TOTAL) >= 20);
        pass_ms(100);
    }
    assert_true(in_outboxes() >= 20 - metric(METRIC_RELAY_CONFIRMED_TOTAL));
    assert_true(in_outboxes() > 0);
    for (int i = 0; i < 60; i++) {
        pass_ms(100);
        relay_iterate(relay, 0);
    }
    assert_int_equal(in_outboxes(), 0);
    receive();
    for (size_t i = 0; i < decided_count; i++) {
        assert_true(arrived[i] >= 1);
    }
}

static void the_window_is_never_exceeded(void **state)
{
    (void)state;
    sim_broker_faults(broker, &(struct sim_queue_faults){.outcome_ms = 100});
    for (uint64_t user = 1; user <= 50; user++) {
        decide((uint32_t)(user % SEGMENTS), user);
    }
    bool full = false;
    while (in_outboxes() > 0) {
        relay_iterate(relay, 0);
        uint64_t under_way = metric(METRIC_RELAY_UNDER_WAY);
        uint64_t sent = sim_broker_messages(broker);
        assert_true(under_way <= WINDOW);
        assert_int_equal(under_way + metric(METRIC_RELAY_CONFIRMED_TOTAL), sent);
        full = full || under_way == WINDOW;
        pass_ms(7);
    }
    assert_true(full);
    assert_int_equal(sim_broker_messages(broker), 50);
}

static void a_segment_that_is_away_holds_up_no_other(void **state)
{
    (void)state;
    for (uint64_t user = 1; user <= 5; user++) {
        decide(0, user);
    }
    sim_broker_faults(broker, &(struct sim_queue_faults){.outcome_ms = 50});
    relay_iterate(relay, 0); /* taken and sent */
    sim_segments_away(world.sim, 0, true);
    for (uint64_t user = 10; user <= 25; user++) {
        decide(1, user);
        decide(2, user);
    }
    for (int i = 0; i < 200; i++) {
        pass_ms(10);
        relay_iterate(relay, 0);
    }
    assert_int_equal(sim_segments_outbox(world.sim, 1), 0);
    assert_int_equal(sim_segments_outbox(world.sim, 2), 0);
    assert_true(sim_segments_outbox(world.sim, 0) > 0);
    assert_int_equal(metric(METRIC_RELAY_UNDER_WAY), sim_segments_outbox(world.sim, 0));
    assert_int_equal(sim_broker_messages(broker), decided_count); /* nothing was sent twice */
    sim_segments_away(world.sim, 0, false);
    for (int i = 0; i < 10; i++) { /* a new connection begins with what it held */
        pass_ms(50);
        relay_iterate(relay, 0);
    }
    assert_int_equal(in_outboxes(), 0);
    assert_int_equal(metric(METRIC_RELAY_UNDER_WAY), 0);
}

static void what_it_held_comes_again_after_a_restart(void **state)
{
    (void)state;
    sim_broker_faults(broker, &(struct sim_queue_faults){.outcome_ms = 1000});
    for (uint64_t user = 1; user <= 6; user++) {
        decide(0, user);
    }
    relay_iterate(relay, 0);
    uint64_t left = in_outboxes();
    assert_true(left > 0);
    stop(); /* between publishing and confirm */
    sim_broker_faults(broker, &(struct sim_queue_faults){0});
    start(MINE);
    relay_iterate(relay, 0);
    assert_int_equal(in_outboxes(), 0);
    assert_int_equal(metric(METRIC_RELAY_TAKEN_TOTAL), 6 + left);
    receive();
    for (size_t i = 0; i < decided_count; i++) {
        assert_true(arrived[i] >= 1);
    }
}

static void another_relay_claims_what_a_dead_one_held(void **state)
{
    (void)state;
    sim_broker_faults(broker, &(struct sim_queue_faults){.lose_message = 1000});
    for (uint64_t user = 1; user <= 6; user++) {
        decide(0, user);
    }
    relay_iterate(relay, 0);
    stop();
    sim_broker_faults(broker, &(struct sim_queue_faults){0});
    start(MINE + 1);
    relay_iterate(relay, 0);
    assert_int_equal(in_outboxes(), 6); /* they may still live */
    pass_ms(1000);
    relay_iterate(relay, 0);
    assert_int_equal(in_outboxes(), 0);
    receive();
    for (size_t i = 0; i < decided_count; i++) {
        assert_int_equal(arrived[i], 1);
    }
}

/* ---- anything, in any order ---- */

/* Every decision is in an outbox, in the queue, or has arrived. */
static void nobody_is_lost(void)
{
    struct queue_depths depths;
    if (queue_depths(publisher, &depths) != 0) {
        return; /* it is down: nobody can look */
    }
    receive();
    uint64_t missing = 0;
    for (size_t i = 0; i < decided_count; i++) {
        missing += arrived[i] == 0;
    }
    assert_true(missing <= in_outboxes());
}

static void stir(struct prng *prng)
{
    uint32_t segment = (uint32_t)prng_below(prng, SEGMENTS);
    switch (prng_below(prng, 12)) {
    case 0:
        sim_segments_away(world.sim, segment, prng_below(prng, 2) == 0);
        break;
    case 1:
        sim_segments_lose(world.sim, segment, (uint32_t)prng_below(prng, 4));
        break;
    case 2:
        sim_broker_cut(broker);
        break;
    case 3:
        sim_broker_down(broker,
                        clock_boot_us(&world.clock.port) / 1000 + (int64_t)prng_below(prng, 500));
        break;
    case 4:
        stop();
        start(MINE + (uint32_t)prng_below(prng, 2));
        break;
    case 5:
        sim_broker_faults(
            broker, &(struct sim_queue_faults){.duplicate = (uint32_t)prng_below(prng, 300),
                                               .reorder = (uint32_t)prng_below(prng, 300),
                                               .lose_message = (uint32_t)prng_below(prng, 300),
                                               .lose_confirm = (uint32_t)prng_below(prng, 300),
                                               .outcome_ms = (uint32_t)prng_below(prng, 200)});
        break;
    default:
        break;
    }
}

static void everything_arrives_whatever_happens(void **state)
{
    uint64_t first = cluster_seed();
    for (uint64_t seed = first; seed < first + 60; seed++) {
        struct prng prng = prng_of(seed);
        if (seed > first) {
            assert_int_equal(set_up(state), 0);
        }
        print_message("SLUICE_SEED=%llu\n", (unsigned long long)seed);
        for (int i = 0; i < 400; i++) {
            uint32_t segment = (uint32_t)prng_below(&prng, SEGMENTS);
            const struct gate_item *item = cluster_item(&world, segment, CLUSTER_FREE);
            sim_segments_lose(world.sim, segment, 0);
            if (item->available > 0 && prng_below(&prng, 3) == 0) {
                sim_segments_away(world.sim, segment, false);
                decide(segment, 1 + prng_below(&prng, 50));
            }
            stir(&prng);
            relay_iterate(relay, 0);
            assert_true(metric(METRIC_RELAY_UNDER_WAY) <= WINDOW);
            pass_ms((int64_t)prng_below(&prng, 50));
            nobody_is_lost();
        }
        assert_true(decided_count == SEGMENTS * CLUSTER_UNITS);
        sim_broker_faults(broker, &(struct sim_queue_faults){0});
        for (uint32_t s = 0; s < SEGMENTS; s++) {
            sim_segments_away(world.sim, s, false);
            sim_segments_lose(world.sim, s, 0);
        }
        for (int i = 0; i < 200; i++) { /* claims take a second */
            pass_ms(50);
            relay_iterate(relay, 0);
        }
        assert_int_equal(in_outboxes(), 0);
        nobody_is_lost();
        if (seed + 1 < first + 60) {
            assert_int_equal(tear_down(state), 0);
        }
    }
}

#define TEST(name) cmocka_unit_test_setup_teardown(name, set_up, tear_down)

int main(void)
{
    const struct CMUnitTest tests[] = {
        TEST(decisions_come_to_the_queue_and_leave_the_outbox),
        TEST(nothing_is_done_before_it_is_confirmed),
        TEST(what_is_not_confirmed_is_sent_again),
        TEST(a_lost_connection_costs_nothing),
        TEST(the_window_is_never_exceeded),
        TEST(a_segment_that_is_away_holds_up_no_other),
        TEST(what_it_held_comes_again_after_a_restart),
        TEST(another_relay_claims_what_a_dead_one_held),
        TEST(everything_arrives_whatever_happens),
    };
    return cmocka_run_group_tests_name("relay", tests, NULL, NULL);
}
