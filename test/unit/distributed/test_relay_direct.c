/* The relay's way straight to the ledger writer: where there is no queue, and while it is away. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "base/err.h"
#include "cluster_world.h"
#include "distributed/message.h"
#include "distributed/relay.h"
#include "sim_queue.h"

#define SEGMENTS 2
#define WINDOW 8
#define DIRECT_AFTER_MS 5000

static struct cluster_world world;
static struct cluster_process *process;
static struct sim_segments *sim;
static struct sim_broker *broker;
static struct queue *publisher;
static struct queue *consumer; /* of the test that looks at what arrives */
static struct relay *relay;
static struct runtime_limits runtime_limits;

static void start(struct queue *queue)
{
    struct relay_options options = {.window = WINDOW, .runtime_limits = &runtime_limits};
    runtime_limits = (struct runtime_limits){.direct_after_ms = DIRECT_AFTER_MS};
    assert_int_equal(relay_new(&process->stage.port, queue, &process->booking_channel,
                               &process->time, metrics_slot(&process->metrics, 1), options, &relay),
                     0);
}

static void set_up_world(bool has_queue)
{
    static const uint32_t retry_s[] = {1};
    cluster_init(&world, (struct cluster_options){.segments = SEGMENTS, .open = true});
    cluster_up(&world, 0);
    process = &world.processes[0];
    sim = world.sim;
    cluster_open_sale(process);
    broker = sim_broker_new(1, retry_s, 1);
    publisher = has_queue ? sim_queue_open(broker, true, 0, 0) : NULL;
    start(publisher);
}

static int set_up(void **state)
{
    (void)state;
    set_up_world(true);
    return 0;
}

static int set_up_without(void **state)
{
    (void)state;
    set_up_world(false);
    return 0;
}

static int tear_down(void **state)
{
    (void)state;
    relay_free(relay);
    sim_queue_close(publisher);
    sim_queue_close(consumer);
    consumer = NULL;
    cluster_done(&world);
    sim_broker_free(broker);
    return 0;
}

/* A new process of the same name: the worker begins with what it held. */
static void restart(void)
{
    relay_free(relay);
    cluster_down(&world, 0);
    cluster_up(&world, 0);
    start(publisher);
}

static int64_t boot_ms(void)
{
    return clock_boot_us(&world.clock.port) / 1000;
}

static void turn(void)
{
    cluster_let(process);
    relay_iterate(relay, 0);
    cluster_halt(process);
}

static void pass_and_turn(int64_t ms)
{
    cluster_pass_ms(&world, ms);
    sim_broker_time(broker, boot_ms());
    turn();
}

static uint64_t in_outboxes(void)
{
    uint64_t n = 0;
    for (uint32_t s = 0; s < SEGMENTS; s++) {
        n += sim_segments_outbox(sim, s);
    }
    return n;
}

static uint64_t metric(enum metric which)
{
    return metrics_sum(&process->metrics, which);
}

/* ---- no queue ---- */

static void without_a_queue_decisions_are_booked_here(void **state)
{
    (void)state;
    struct decision decisions[20];
    for (uint32_t i = 0; i < 20; i++) {
        decisions[i] = cluster_decide(&world, i % SEGMENTS, 10 + i);
    }
    for (int i = 0; i < 3; i++) {
        turn();
    }
    assert_int_equal(in_outboxes(), 0);
    for (uint32_t i = 0; i < 20; i++) {
        assert_int_equal(cluster_row(&world, decisions[i].command.id)->state, ORDER_LOCKED);
        assert_int_equal(cluster_row(&world, decisions[i].command.id)->segment, i % SEGMENTS);
    }
    assert_int_equal(metric(METRIC_RELAY_TAKEN_TOTAL), 20);
    assert_int_equal(metric(METRIC_RELAY_UNDER_WAY), 0);
}

static void nothing_is_done_before_it_is_booked(void **state)
{
    (void)state;
    struct decision decision = cluster_decide(&world, 0, 7);
    uint64_t batches = world.ledger.batches;
    for (int i = 0; i < 100; i++) {
        world.ledger.fail_next = ERR_IO;
        pass_and_turn(100);
        assert_int_equal(in_outboxes(), 1);
    }
    assert_int_equal(world.ledger.orders_count, 0);
    assert_in_range(world.ledger.batches - batches, 4, 15); /* in growing pauses */
    world.ledger.fail_next = 0;
    world.ledger.lose_next = ERR_IO; /* committed, and nobody heard */
    for (int i = 0; i < 60 && world.ledger.orders_count == 0; i++) {
        pass_and_turn(100);
    }
    assert_int_equal(in_outboxes(), 1);
    for (int i = 0; i < 60 && in_outboxes() > 0; i++) {
        pass_and_turn(100);
    }
    assert_int_equal(in_outboxes(), 0);
    assert_int_equal(world.ledger.orders_count, 1);
    assert_int_equal(cluster_row(&world, decision.command.id)->state, ORDER_LOCKED);
}

/* The ledger takes neither it nor its failure: it stays, and nobody waits for it. */
static void one_that_cannot_be_booked_holds_up_no_other(void **state)
{
    (void)state;
    struct cluster_process *other = &world.processes[1];
    cluster_up(&world, 1);
    /* A sale that the ledger has lost: only the gate knows the item. */
    const struct segment_step steps[] = {
        {.kind = STEP_BEGIN, .sizes = cluster_sizes, .event = world.ledger.events_count},
        {.kind = STEP_SALE,
         .sale = CLUSTER_SALE,
         .starts_at_ms = CLUSTER_NOW,
         .ends_at_ms = CLUSTER_NOW + CLUSTER_ENDS_MS,
         .state = SALE_OPEN},
        {.kind = STEP_ITEM, .sale = CLUSTER_SALE, .item = CLUSTER_FREE, .total = 9, .available = 9},
        {.kind = STEP_ITEM, .sale = CLUSTER_SALE, .item = 999, .total = 9, .available = 9},
        {.kind = STEP_OPEN}};
    assert_int_equal(segments_rebuild(world.hands, 1, cluster_raise_epoch(&world, 1), 1, steps, 5),
                     SEGMENT_DONE);
    cluster_place_all(&world);
    struct gate_request request = {.kind = GATE_REQUEST_BUY,
                                   .segment = 1,
                                   .id = cluster_id(&world, 999, 1),
                                   .user = 5,
                                   .item = 999,
                                   .qty = 1,
                                   .now_ms = CLUSTER_NOW,
                                   .ticket_expires_ms = CLUSTER_NOW + 1000};
    assert_int_equal(gate_submit(other->gate, &request), GATE_ANSWERED);
    assert_true(gate_request_done(&request));
    turn();
    for (uint64_t user = 10; user < 18; user++) {
        struct decision decision = cluster_decide(&world, user % 2, user);
        turn();
        assert_non_null(cluster_row(&world, decision.command.id)); /* at once */
    }
    assert_int_equal(in_outboxes(), 1);
    uint64_t batches = world.ledger.batches;
    for (int i = 0; i < 10000; i += 10) { /* ten seconds: it is tried again in growing pauses */
        pass_and_turn(10);
    }
    assert_in_range(world.ledger.batches - batches, 3, 12);
    assert_int_equal(in_outboxes(), 1);
}

static void what_was_booked_and_not_marked_is_booked_once(void **state)
{
    (void)state;
    for (uint64_t user = 1; user <= 5; user++) {
        (void)cluster_decide(&world, 0, user);
    }
    world.ledger.lose_next = ERR_IO;
    turn(); /* booked, some of them at least, and then it died */
    assert_int_equal(in_outboxes(), 5);
    assert_true(world.ledger.orders_count > 0);
    restart();
    turn();
    assert_int_equal(in_outboxes(), 0);
    assert_int_equal(world.ledger.orders_count, 5);
    assert_int_equal(memory_ledger_item(&world.ledger, CLUSTER_FREE)->locked, 5);
}

/* Rebuilt while the relay held them: decided again, and the new entries booked. */
static void entries_of_an_older_epoch_are_decided_again(void **state)
{
    (void)state;
    struct decision decisions[3];
    for (uint32_t i = 0; i < 3; i++) {
        decisions[i] = cluster_decide(&world, 1, 10 + i);
    }
    cluster_rebuild(&world, 1); /* it has forgotten them; its outbox goes on */
    for (int i = 0; i < 4; i++) {
        turn();
    }
    assert_int_equal(in_outboxes(), 0);
    for (uint32_t i = 0; i < 3; i++) {
        assert_int_equal(cluster_row(&world, decisions[i].command.id)->state, ORDER_LOCKED);
    }
    assert_int_equal(cluster_item(&world, 1, CLUSTER_FREE)->locked, 3);
    assert_int_equal(world.ledger.orders_count, 3);
}

/* ---- a queue that goes and comes ---- */

static void while_the_queue_is_away_decisions_go_straight(void **state)
{
    (void)state;
    sim_broker_time(broker, boot_ms());
    (void)cluster_decide(&world, 0, 1);
    turn();
    assert_int_equal(sim_broker_messages(broker), 1);
    assert_int_equal(in_outboxes(), 0);
    sim_broker_down(broker, INT64_MAX);
    struct decision first = cluster_decide(&world, 0, 2);
    int64_t since = boot_ms();
    while (boot_ms() - since < DIRECT_AFTER_MS) {
        pass_and_turn(100);
        assert_int_equal(world.ledger.orders_count, 0); /* it may be back in a moment */
        assert_int_equal(in_outboxes(), 1);
    }
    for (int i = 0; i < 5 && in_outboxes() > 0; i++) {
        pass_and_turn(100);
    }
    assert_int_equal(in_outboxes(), 0);
    assert_non_null(cluster_row(&world, first.command.id));
    /* From now on at once, however long nothing was there to be booked. */
    for (uint64_t user = 10; user < 15; user++) {
        struct decision decision = cluster_decide(&world, user % SEGMENTS, user);
        pass_and_turn(1);
        assert_non_null(cluster_row(&world, decision.command.id));
        assert_int_equal(in_outboxes(), 0);
        pass_and_turn(2 * DIRECT_AFTER_MS);
    }
    assert_int_equal(sim_broker_messages(broker), 1);
}

/* The ledger has other work: payments, and what other relays bring. */
static void straight_they_go_at_a_limited_rate(void **state)
{
    (void)state;
    sim_broker_time(broker, boot_ms());
    sim_broker_down(broker, INT64_MAX);
    atomic_store(&runtime_limits.direct_rate, 10);
    struct decision decisions[30];
    for (uint32_t i = 0; i < 30; i++) {
        decisions[i] = cluster_decide(&world, i % SEGMENTS, 10 + i);
    }
    while (world.ledger.orders_count == 0) {
        pass_and_turn(10);
    }
    assert_int_equal(world.ledger.orders_count, 1); /* a long wait is worth no rush */
    int64_t since = boot_ms();
    for (int i = 0; i < 100; i++) {
        pass_and_turn(10);
    }
    assert_int_equal(boot_ms() - since, 1000);
    assert_int_equal(world.ledger.orders_count, 11);
    for (uint32_t i = 0; i < 8; i++) { /* later ones do not overtake */
        assert_non_null(cluster_row(&world, decisions[i].command.id));
    }
    atomic_store(&runtime_limits.direct_rate, 1000); /* turned while it runs */
    pass_and_turn(10);
    assert_in_range(world.ledger.orders_count, 12, 11 + WINDOW); /* its window is the bound now */
    for (int i = 0; i < 5; i++) {
        pass_and_turn(10);
    }
    assert_int_equal(world.ledger.orders_count, 30);
    atomic_store(&runtime_limits.direct_rate, 1);
    for (uint32_t i = 0; i < 3; i++) {
        (void)cluster_decide(&world, 0, 50 + i);
    }
    for (int i = 0; i < 30; i++) {
        pass_and_turn(100);
    }
    assert_in_range(world.ledger.orders_count, 32, 33);
}

static void without_a_queue_there_is_no_rate(void **state)
{
    (void)state;
    atomic_store(&runtime_limits.direct_rate, 1);
    for (uint32_t i = 0; i < 20; i++) {
        (void)cluster_decide(&world, i % SEGMENTS, 10 + i);
    }
    for (int i = 0; i < 3; i++) {
        turn();
    }
    assert_int_equal(world.ledger.orders_count, 20);
}

static void a_full_outbox_does_not_wait_so_long(void **state)
{
    (void)state;
    atomic_store(&runtime_limits.direct_after_ms, INT64_MAX);
    atomic_store(&runtime_limits.direct_outbox, 5);
    sim_broker_time(broker, boot_ms());
    sim_broker_down(broker, boot_ms() + 20000);
    for (uint32_t i = 0; i < 5; i++) {
        (void)cluster_decide(&world, 0, 10 + i);
        (void)cluster_decide(&world, 1, 20 + i);
    }
    for (int i = 0; i < 50; i++) {
        pass_and_turn(100);
    }
    assert_int_equal(world.ledger.orders_count, 0); /* as full as it may be */
    (void)cluster_decide(&world, 1, 30);
    for (int i = 0; i < 15; i++) {
        pass_and_turn(100);
    }
    assert_int_equal(world.ledger.orders_count, 11);
    assert_int_equal(in_outboxes(), 0);
    (void)cluster_decide(&world, 0, 40);
    pass_and_turn(100);
    assert_int_equal(world.ledger.orders_count, 12); /* until the queue is back, however few */
    pass_and_turn(20000);
    for (uint64_t user = 41; user < 47; user++) {
        (void)cluster_decide(&world, 0, user);
        pass_and_turn(100);
    }
    assert_true(sim_broker_messages(broker) > 1); /* which carries them again */
}

static void when_it_is_back_it_carries_them_again(void **state)
{
    (void)state;
    sim_broker_time(broker, boot_ms());
    sim_broker_down(broker, boot_ms() + 20000);
    for (uint64_t user = 1; user <= 10; user++) {
        (void)cluster_decide(&world, 0, user);
    }
    for (int i = 0; i < 100; i++) {
        pass_and_turn(100);
    }
    assert_int_equal(in_outboxes(), 0);
    assert_int_equal(world.ledger.orders_count, 10);
    assert_int_equal(sim_broker_messages(broker), 0);
    for (int i = 0; i < 110; i++) {
        pass_and_turn(100);
    }
    /* One more is booked here, and shows that the queue is back. */
    (void)cluster_decide(&world, 0, 20);
    for (int i = 0; i < 3; i++) {
        pass_and_turn(100);
    }
    assert_int_equal(in_outboxes(), 0);
    uint64_t rows = world.ledger.orders_count;
    uint64_t sent = sim_broker_messages(broker);
    for (uint64_t user = 30; user < 35; user++) {
        (void)cluster_decide(&world, 1, user);
    }
    pass_and_turn(100);
    assert_int_equal(in_outboxes(), 0);
    assert_int_equal(world.ledger.orders_count, rows); /* the order consumers' part */
    assert_int_equal(sim_broker_messages(broker), sent + 5);
}

/* A broker that is there, takes messages and confirms none (an alarm of its memory or disk). */
static void a_queue_that_confirms_nothing_is_away(void **state)
{
    (void)state;
    sim_broker_time(broker, boot_ms());
    sim_broker_faults(broker, &(struct sim_queue_faults){.outcome_ms = 4000000000U});
    for (uint64_t user = 1; user <= 3 * WINDOW / 2; user++) {
        (void)cluster_decide(&world, 0, user);
        (void)cluster_decide(&world, 1, user);
    }
    uint64_t most = 0;
    for (int i = 0; i < 100; i++) {
        pass_and_turn(100);
        assert_true(metric(METRIC_RELAY_UNDER_WAY) <= WINDOW);
        most = sim_broker_messages(broker) > most ? sim_broker_messages(broker) : most;
    }
    assert_int_equal(in_outboxes(), 0);
    assert_int_equal(world.ledger.orders_count, 3 * WINDOW);
    assert_true(most <= WINDOW + 1); /* one more, to see whether it is back */
    /* Late outcomes are of slots that others stand in by now: they must not be taken for theirs. */
    sim_broker_faults(broker, &(struct sim_queue_faults){.lose_message = 1000});
    struct decision decision = cluster_decide(&world, 0, 77);
    world.ledger.fail_next = ERR_IO;
    pass_and_turn(100);
    assert_null(cluster_row(&world, decision.command.id));
    assert_int_equal(in_outboxes(), 1);
    sim_broker_cut(broker);
    world.ledger.fail_next = ERR_IO;
    pass_and_turn(10);
    assert_int_equal(in_outboxes(), 1);
    for (int i = 0; i < 20 && in_outboxes() > 0; i++) {
        pass_and_turn(100);
    }
    assert_int_equal(in_outboxes(), 0);
    assert_non_null(cluster_row(&world, decision.command.id));
}

/* Every decision is in an outbox, has a row, or has arrived at the queue. */
static void nobody_is_lost(const struct order_id *ids, bool *arrived, size_t count)
{
    struct queue_message message;
    struct decision decision;
    size_t taken = 0;
    uint64_t neither = 0;
    while (queue_take(consumer, &message, 1, 0, &taken) == 0) {
        assert_int_equal(message_read((struct span){message.body, message.len}, &decision), 0);
        for (size_t i = 0; i < count; i++) {
            arrived[i] = arrived[i] || order_id_equal(ids[i], decision.command.id);
        }
        assert_int_equal(queue_ack(consumer, &message), 0);
    }
    for (size_t i = 0; i < count; i++) {
        neither += !arrived[i] && cluster_row(&world, ids[i]) == NULL;
    }
    assert_true(neither <= in_outboxes());
}

/* Confirms that come late name slots that others stand in by now, who are not safe for it. */
static void a_late_confirm_is_not_anothers(void **state)
{
    (void)state;
    enum { ORDERS = SEGMENTS * CLUSTER_UNITS };
    struct order_id ids[ORDERS];
    bool arrived[ORDERS] = {false};
    consumer = sim_queue_open(broker, false, 0, 0);
    sim_broker_time(broker, boot_ms());
    sim_broker_faults(broker, &(struct sim_queue_faults){.outcome_ms = 60000});
    for (uint32_t i = 0; i < ORDERS; i++) {
        ids[i] = cluster_decide(&world, i % SEGMENTS, 1 + i).command.id;
    }
    while (world.ledger.orders_count < WINDOW) { /* sent, and booked after a while */
        pass_and_turn(100);
        nobody_is_lost(ids, arrived, ORDERS);
    }
    uint64_t confirmed = metric(METRIC_RELAY_CONFIRMED_TOTAL);
    uint64_t left = in_outboxes();
    /* The next ones are sent in vain, while the first ones' confirms come in. */
    sim_broker_faults(broker,
                      &(struct sim_queue_faults){.outcome_ms = 60000, .lose_message = 1000});
    for (int i = 0; i < 700; i++) {
        world.ledger.fail_next = ERR_IO;
        pass_and_turn(100);
        nobody_is_lost(ids, arrived, ORDERS);
    }
    assert_true(metric(METRIC_RELAY_CONFIRMED_TOTAL) > confirmed);
    assert_true(metric(METRIC_RELAY_UNCONFIRMED_TOTAL) > 0);
    assert_int_equal(in_outboxes(), left);
    world.ledger.fail_next = 0;
    sim_broker_faults(broker, &(struct sim_queue_faults){0});
    for (int i = 0; i < 700; i++) {
        pass_and_turn(100);
    }
    assert_int_equal(in_outboxes(), 0);
    nobody_is_lost(ids, arrived, ORDERS);
}

/* Nothing can be done: it waits, and does not run in circles. */
static void a_full_window_waits(void **state)
{
    (void)state;
    for (uint64_t user = 1; user <= WINDOW; user++) {
        (void)cluster_decide(&world, 0, user);
    }
    world.ledger.lose_next = ERR_IO;
    turn();
    sim_segments_away(sim, 0, true);
    pass_and_turn(1000); /* booked, and the outbox cannot be told */
    cluster_let(process);
    relay_iterate(relay, 3); /* in the meantime */
    cluster_halt(process);
    assert_int_equal(metric(METRIC_RELAY_UNDER_WAY), WINDOW);
    sim_segments_away(sim, 0, false);
    for (int i = 0; i < 5; i++) {
        pass_and_turn(1000);
    }
    assert_int_equal(in_outboxes(), 0);
    assert_int_equal(world.ledger.orders_count, WINDOW);
}

#define TEST(name) cmocka_unit_test_setup_teardown(name, set_up, tear_down)
#define TEST_WITHOUT(name) cmocka_unit_test_setup_teardown(name, set_up_without, tear_down)

int main(void)
{
    const struct CMUnitTest tests[] = {
        TEST_WITHOUT(without_a_queue_decisions_are_booked_here),
        TEST_WITHOUT(nothing_is_done_before_it_is_booked),
        TEST_WITHOUT(one_that_cannot_be_booked_holds_up_no_other),
        TEST_WITHOUT(what_was_booked_and_not_marked_is_booked_once),
        TEST_WITHOUT(entries_of_an_older_epoch_are_decided_again),
        TEST(while_the_queue_is_away_decisions_go_straight),
        TEST(straight_they_go_at_a_limited_rate),
        TEST_WITHOUT(without_a_queue_there_is_no_rate),
        TEST(a_full_outbox_does_not_wait_so_long),
        TEST(when_it_is_back_it_carries_them_again),
        TEST(a_queue_that_confirms_nothing_is_away),
        TEST(a_late_confirm_is_not_anothers),
        TEST_WITHOUT(a_full_window_waits),
    };
    return cmocka_run_group_tests_name("relay, straight", tests, NULL, NULL);
}
