/* The order consumer: from the queue to the ledger writer, acknowledged after the commit and never before. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "consumer_fixture.h"
#include "distributed/message.h"
#include "distributed/order_consumer.h"

static struct order_consumer *order_consumers[CLUSTER_PROCESSES];

static void start(uint32_t at)
{
    struct cluster_process *process = &world.processes[at];
    consumers[at] = sim_queue_open(broker, false, 0, 2 * BOOKING_CHANNEL_MAX);
    assert_int_equal(order_consumer_new(consumers[at], &process->booking_channel, &process->time,
                                        metrics_slot(&process->metrics, 1), &order_consumers[at]),
                     0);
}

static void stop(uint32_t at)
{
    order_consumer_free(order_consumers[at]);
    sim_queue_close(consumers[at]);
    order_consumers[at] = NULL;
    consumers[at] = NULL;
}

static int set_up(void **state)
{
    (void)state;
    return set_up_consumers(10, 2 * BOOKING_CHANNEL_MAX);
}

static void turn(uint32_t at)
{
    cluster_let(&world.processes[at]);
    order_consumer_iterate(order_consumers[at], 0);
    cluster_halt(&world.processes[at]);
}

static void send_text(struct span text)
{
    struct queue_outcome outcomes[64]; /* so that there is room in its window */
    size_t count = 0;
    while (queue_outcomes(publisher, outcomes, 64, 0, &count) == 0) {
    }
    assert_int_equal(queue_publish(publisher, ++number, text), 0);
}

static void send(const struct decision *decision)
{
    char text[MESSAGE_MAX];
    send_text(message_write(text, decision));
}

static struct decision decide_and_send(uint32_t segment, uint64_t user)
{
    struct decision decision = cluster_decide(&world, segment, user);
    send(&decision);
    return decision;
}

/* Of an item that nobody has. */
static void send_poison(void)
{
    struct decision decision = {
        .epoch = 1,
        .command = {.kind = GATE_RESERVE, .now_ms = CLUSTER_NOW, .user = 5, .item = 999, .qty = 1}};
    decision.command.id = cluster_id(&world, 999, 0);
    send(&decision);
}

/* ---- the happy path ---- */

static void messages_are_booked_and_acknowledged(void **state)
{
    (void)state;
    struct decision decisions[20];
    for (uint32_t i = 0; i < 20; i++) {
        decisions[i] = decide_and_send(i % 2, 10 + i);
    }
    turn(0);
    for (uint32_t i = 0; i < 20; i++) {
        assert_int_equal(cluster_row(&world, decisions[i].command.id)->state, ORDER_LOCKED);
    }
    assert_int_equal(sim_broker_messages(broker), 0);
    assert_int_equal(metric(0, METRIC_ORDER_CONSUMER_BOOKED_TOTAL), 20);
    turn(0); /* nothing to do */
    assert_int_equal(world.ledger.orders_count, 20);
}

static void a_refused_booking_is_settled_too(void **state)
{
    (void)state;
    struct decision decision = cluster_decide(&world, 0, 7);
    decision.command.qty = CLUSTER_UNITS + 1; /* the gate was wrong */
    send(&decision);
    turn(0);
    assert_int_equal(cluster_row(&world, decision.command.id)->state, ORDER_FAILED);
    assert_int_equal(cluster_row(&world, decision.command.id)->reason, REFUSAL_NO_STOCK);
    assert_int_equal(sim_broker_messages(broker), 0);
}

/* ---- the ledger is away ---- */

static void nothing_is_acknowledged_before_it_is_committed(void **state)
{
    (void)state;
    struct decision decision = decide_and_send(0, 7);
    world.ledger.fail_next = ERR_IO;
    turn(0);
    assert_int_equal(sim_broker_messages(broker), 1);
    assert_int_equal(world.ledger.orders_count, 0);
    pass_ms(1000);
    world.ledger.lose_next = ERR_IO; /* committed, and nobody heard */
    turn(0);
    assert_int_equal(sim_broker_messages(broker), 1);
    assert_int_equal(world.ledger.orders_count, 1);
    pass_ms(1000);
    turn(0);
    assert_int_equal(sim_broker_messages(broker), 0);
    assert_int_equal(world.ledger.orders_count, 1);
    assert_int_equal(cluster_row(&world, decision.command.id)->state, ORDER_LOCKED);
    assert_int_equal(depths().retry + depths().parked, 0);
}

/* While it is away: held, in growing pauses, and not given back. */
static void messages_are_held_while_the_ledger_is_away(void **state)
{
    (void)state;
    for (uint64_t user = 1; user <= 5; user++) {
        (void)decide_and_send(0, user);
    }
    uint64_t batches = world.ledger.batches;
    for (int i = 0; i < 600; i++) { /* a minute */
        world.ledger.fail_next = ERR_IO;
        turn(0);
        pass_ms(100);
    }
    assert_in_range(world.ledger.batches - batches, 10, 60);
    assert_int_equal(world.ledger.orders_count, 0);
    assert_int_equal(sim_broker_messages(broker), 5);
    assert_int_equal(depths().ready + depths().retry + depths().parked, 0); /* it holds them */
    world.ledger.fail_next = 0;
    for (int i = 0; i < 80 && world.ledger.orders_count < 5; i++) {
        pass_ms(100);
        turn(0);
    }
    assert_int_equal(world.ledger.orders_count, 5);
    assert_int_equal(sim_broker_messages(broker), 0);
}

static void it_holds_no_more_than_it_has_room_for(void **state)
{
    (void)state;
    enum { HELD = BOOKING_CHANNEL_MAX, MESSAGES = HELD + 88 };
    world.ledger.fail_next = ERR_IO;
    for (uint64_t user = 1; user <= MESSAGES; user++) {
        struct decision decision = {.epoch = 1,
                                    .command = {.kind = GATE_RESERVE,
                                                .now_ms = CLUSTER_NOW,
                                                .id = order_id_once(CLUSTER_ONCE, user, 0),
                                                .user = user,
                                                .item = CLUSTER_ONCE,
                                                .qty = 1}};
        send(&decision);
    }
    for (int i = 0; i < 5; i++) {
        world.ledger.fail_next = ERR_IO;
        turn(0);
        pass_ms(200);
        assert_int_equal(depths().ready, MESSAGES - HELD);
    }
    /* Its connection ends: they come again, and those it holds cannot be acknowledged any more. */
    sim_broker_cut(broker);
    world.ledger.fail_next = ERR_IO;
    turn(0);
    assert_int_equal(depths().ready, MESSAGES);
    world.ledger.fail_next = 0;
    for (int i = 0; i < 20; i++) {
        pass_ms(2000);
        turn(0);
    }
    assert_int_equal(sim_broker_messages(broker), 0);
    assert_int_equal(world.ledger.orders_count, MESSAGES);
}

/* ---- messages that are not good ---- */

static void what_cannot_be_read_is_parked(void **state)
{
    (void)state;
    struct queue_message parked[4];
    size_t count = 0;
    struct decision good = cluster_decide(&world, 0, 7);
    send_text((struct span){"hello", 5});
    send(&good);
    send_text((struct span){"", 0});
    turn(0);
    assert_int_equal(cluster_row(&world, good.command.id)->state, ORDER_LOCKED);
    assert_int_equal(queue_parked(consumers[0], parked, 4, false, &count), 0);
    assert_int_equal(count, 2);
    assert_memory_equal(parked[0].body, "hello", 5);
    assert_int_equal(sim_broker_messages(broker), 2);
}

static void poison_goes_round_and_is_parked_at_last(void **state)
{
    (void)state;
    (void)decide_and_send(0, 7);
    send_poison();
    (void)decide_and_send(1, 8);
    turn(0);
    assert_int_equal(world.ledger.orders_count, 2); /* its neighbours do not wait */
    assert_int_equal(depths().retry, 1);
    assert_int_equal(metric(0, METRIC_ORDER_CONSUMER_RETRIED_TOTAL), 1);
    pass_ms(1000);
    turn(0);
    assert_int_equal(depths().retry, 1);
    (void)decide_and_send(0, 9);
    turn(0);
    assert_int_equal(world.ledger.orders_count, 3);
    pass_ms(10000);
    turn(0);
    assert_int_equal(depths().retry, 0);
    assert_int_equal(depths().parked, 1);
    assert_int_equal(sim_broker_messages(broker), 1);
}

/* ---- the gate ---- */

/* Messages of an older epoch wait until their segment can decide them; the others do not. */
static void a_segment_in_recovery_holds_up_no_other(void **state)
{
    (void)state;
    struct decision old[3];
    for (uint32_t i = 0; i < 3; i++) {
        old[i] = decide_and_send(1, 10 + i);
    }
    (void)cluster_raise_epoch(&world, 1);
    sim_segments_empty(world.sim, 1);
    turn(0);
    assert_int_equal(sim_broker_messages(broker), 3);
    for (uint64_t user = 50; user < 60; user++) {
        struct decision decision = decide_and_send(0, user);
        pass_ms(1);
        turn(0);
        assert_non_null(cluster_row(&world, decision.command.id)); /* at once */
    }
    assert_int_equal(sim_broker_messages(broker), 3);
    uint64_t calls = world.processes[0].stage.calls;
    for (int i = 0; i < 10000;
         i += 10) { /* ten seconds, in growing pauses, here and in the queue */
        pass_ms(10);
        turn(0);
    }
    assert_in_range(world.processes[0].stage.calls - calls, 3 * 3, 3 * 12);
    cluster_fill(&world, 1, 2, world.ledger.events_count);
    cluster_place_all(&world);
    pass_ms(10000);
    turn(0);
    assert_int_equal(sim_broker_messages(broker), 0);
    for (uint32_t i = 0; i < 3; i++) { /* decided again: new entries carry them on */
        assert_null(cluster_row(&world, old[i].command.id));
        assert_non_null(cluster_order(&world, 1, old[i].command.id));
    }
    assert_int_equal(sim_segments_outbox(world.sim, 1), 3);
}

/* More of them than it can hold: the rest goes back to the queue for a while, again and again. */
static void a_segment_that_is_away_does_not_fill_it(void **state)
{
    (void)state;
    enum { MESSAGES = 1000 };
    for (uint64_t user = 1; user <= MESSAGES; user++) {
        struct decision old = {.segment = 1,
                               .epoch = 1,
                               .command = {.kind = GATE_RESERVE,
                                           .now_ms = CLUSTER_NOW,
                                           .id = cluster_id(&world, CLUSTER_FREE, 1),
                                           .user = user,
                                           .item = CLUSTER_FREE,
                                           .qty = 1}};
        send(&old);
    }
    (void)cluster_raise_epoch(&world, 1);
    sim_segments_away(world.sim, 1, true);
    struct decision other = decide_and_send(0, 7);
    for (int i = 0; i < 3 && cluster_row(&world, other.command.id) == NULL; i++) {
        turn(0);
        pass_ms(1);
    }
    assert_non_null(cluster_row(&world, other.command.id));
    for (int i = 0; i < 600; i++) { /* ten minutes; nothing is wrong with them */
        pass_ms(1000);
        turn(0);
        other = decide_and_send(0, 8);
        turn(0);
        assert_non_null(cluster_row(&world, other.command.id));
        assert_int_equal(depths().parked, 0);
        assert_int_equal(sim_broker_messages(broker), MESSAGES);
        if (i % CLUSTER_UNITS == CLUSTER_UNITS - 2) { /* all sold: begin anew */
            cluster_rebuild(&world, 0);
        }
    }
    sim_segments_away(world.sim, 1, false);
    cluster_rebuild(&world, 1);
    for (int i = 0; i < 30; i++) {
        pass_ms(1000);
        turn(0);
    }
    assert_int_equal(sim_broker_messages(broker), 0);
}

/* ---- others ---- */

static void what_a_dead_order_consumer_held_is_booked_once(void **state)
{
    (void)state;
    for (uint64_t user = 1; user <= 6; user++) {
        (void)decide_and_send(0, user);
    }
    world.ledger.lose_next = ERR_IO;
    turn(0); /* committed, and then it died */
    stop(0);
    assert_int_equal(depths().ready, 6);
    turn(1);
    assert_int_equal(sim_broker_messages(broker), 0);
    assert_int_equal(world.ledger.orders_count, 6);
    assert_int_equal(memory_ledger_item(&world.ledger, CLUSTER_FREE)->locked, 6);
    start(0);
}

static void run_seed(uint64_t seed)
{
    struct prng prng = prng_of(seed);
    struct decision decisions[30];
    size_t count = 0;
    struct sim_queue_faults faults = {.duplicate = 200, .reorder = 300, .lose_settle = 50};
    sim_broker_faults(broker, &faults);
    for (int i = 0; i < 60; i++) {
        if (count < 30 && prng_below(&prng, 2) == 0) {
            decisions[count] =
                cluster_decide(&world, (uint32_t)prng_below(&prng, 2), 1 + count % 9);
            count++;
        }
        for (uint64_t again = prng_below(&prng, 3); count > 0 && again > 0; again--) {
            char text[MESSAGE_MAX]; /* the relay may send it again */
            (void)queue_publish(publisher, ++number,
                                message_write(text, &decisions[prng_below(&prng, count)]));
        }
        stir(&prng);
        turn((uint32_t)prng_below(&prng, CLUSTER_PROCESSES));
        pass_ms((int64_t)prng_below(&prng, 300));
    }
    sim_broker_faults(broker, &(struct sim_queue_faults){0});
    world.ledger.fail_next = 0;
    world.ledger.lose_next = 0;
    pass_ms(10000);
    for (size_t i = 0; i < count; i++) {
        send(&decisions[i]); /* each for the last time */
    }
    for (uint32_t i = 0; i < 12; i++) {
        turn(i % 2);
        pass_ms(3000);
    }
    assert_int_equal(sim_broker_messages(broker), 0);
    assert_int_equal(world.ledger.orders_count, count); /* each once */
    assert_int_equal(memory_ledger_orders(&world.ledger, ORDER_LOCKED), count);
    assert_int_equal(memory_ledger_item(&world.ledger, CLUSTER_FREE)->locked, count);
}

static void duplicates_and_reordered_deliveries_are_booked_once(void **state)
{
    uint64_t first = cluster_seed();
    for (uint64_t seed = first; seed < first + 15; seed++) {
        if (seed > first) {
            assert_int_equal(set_up(state), 0);
        }
        print_message("SLUICE_SEED=%llu\n", (unsigned long long)seed);
        run_seed(seed);
        if (seed + 1 < first + 15) {
            assert_int_equal(tear_down(state), 0);
        }
    }
}

#define TEST(name) cmocka_unit_test_setup_teardown(name, set_up, tear_down)

int main(void)
{
    const struct CMUnitTest tests[] = {
        TEST(messages_are_booked_and_acknowledged),
        TEST(a_refused_booking_is_settled_too),
        TEST(nothing_is_acknowledged_before_it_is_committed),
        TEST(messages_are_held_while_the_ledger_is_away),
        TEST(it_holds_no_more_than_it_has_room_for),
        TEST(what_cannot_be_read_is_parked),
        TEST(poison_goes_round_and_is_parked_at_last),
        TEST(a_segment_in_recovery_holds_up_no_other),
        TEST(a_segment_that_is_away_does_not_fill_it),
        TEST(what_a_dead_order_consumer_held_is_booked_once),
        TEST(duplicates_and_reordered_deliveries_are_booked_once),
    };
    return cmocka_run_group_tests_name("order consumer", tests, NULL, NULL);
}
