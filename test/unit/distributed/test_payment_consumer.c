/*
 * The payment consumer: payments from a queue, through the ledger writer, acknowledged after the commit
 * and never before. A payment that came too early waits as long as it takes. One that can never succeed
 * is parked with its code.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>

#include <cmocka.h>

#include "consumer_fixture.h"
#include "distributed/payment_consumer.h"

#define MAILBOX 1

/* The process's gate, used while its ledger writer works. */
struct locked_gate {
    struct gate_port port; /* first */
    struct cluster_process *process;
};

static struct payment_consumer *payment_consumers[CLUSTER_PROCESSES];
static struct locked_gate gates[CLUSTER_PROCESSES];

/* ---- the gate, locked ---- */

static struct gate_port *lock(struct gate_port *port)
{
    struct cluster_process *process = ((struct locked_gate *)(void *)port)->process;
    assert_int_equal(pthread_mutex_lock(&world.lock), 0);
    return process->gate;
}

static enum gate_submitted locked_submit(struct gate_port *port, struct gate_request *request)
{
    enum gate_submitted submitted = gate_submit(lock(port), request);
    assert_int_equal(pthread_mutex_unlock(&world.lock), 0);
    return submitted;
}

static struct gate_request *locked_collect(struct gate_port *port, uint32_t loop)
{
    struct gate_request *request = gate_collect(lock(port), loop);
    assert_int_equal(pthread_mutex_unlock(&world.lock), 0);
    return request;
}

static int64_t locked_flush(struct gate_port *port, uint32_t loop)
{
    int64_t until_us = gate_flush(lock(port), loop);
    assert_int_equal(pthread_mutex_unlock(&world.lock), 0);
    return until_us;
}

static const struct gate_ops locked_ops = {
    .submit = locked_submit, .collect = locked_collect, .flush = locked_flush};

/* Time passes while a payment waits for the gate. */
static void sleep_ms(void *context, int64_t ms)
{
    (void)context;
    assert_int_equal(pthread_mutex_lock(&world.lock), 0);
    cluster_pass_ms(&world, ms);
    sim_segments_run(world.sim);
    assert_int_equal(pthread_mutex_unlock(&world.lock), 0);
}

static int64_t now_ms(void *context)
{
    return inside_time_ms(&((struct cluster_process *)context)->time);
}

/* ---- the world ---- */

static void start(uint32_t at)
{
    struct cluster_process *process = &world.processes[at];
    gates[at] = (struct locked_gate){.port = {.ops = &locked_ops}, .process = process};
    consumers[at] = sim_queue_open(broker, false, 0, 600);
    struct payment_consumer_parts parts = {.queue = consumers[at],
                                           .ledger_writer = process->ledger_writer,
                                           .loops = CLUSTER_LOOPS,
                                           .mailbox = MAILBOX,
                                           .gate = &gates[at].port,
                                           .connection_set = CLUSTER_LOOPS,
                                           .blocking = {process, sleep_ms, now_ms},
                                           .segment_table = &process->segment_table,
                                           .catalog = process->catalog,
                                           .time = &process->time,
                                           .metrics = metrics_slot(&process->metrics, 1)};
    assert_int_equal(payment_consumer_new(&parts, &payment_consumers[at]), 0);
}

static void stop(uint32_t at)
{
    payment_consumer_free(payment_consumers[at]);
    sim_queue_close(consumers[at]);
    payment_consumers[at] = NULL;
    consumers[at] = NULL;
}

static int set_up(void **state)
{
    (void)state;
    return set_up_consumers(5, 0);
}

static void turn(uint32_t at)
{
    cluster_let(&world.processes[at]);
    payment_consumer_iterate(payment_consumers[at], 0);
    cluster_halt(&world.processes[at]);
    sim_broker_time(broker, clock_boot_us(&world.clock.port) / 1000);
}

static void book(const struct decision *decision)
{
    struct ledger_writer_op op = {.op = {.kind = LEDGER_BOOK,
                                         .command = decision->command,
                                         .segment = decision->segment,
                                         .epoch = decision->epoch}};
    cluster_do(&world.processes[0], &op);
    assert_int_equal(op.op.refusal, REFUSAL_NONE);
}

static struct order_id booked_order(uint64_t user)
{
    struct decision decision = cluster_decide(&world, (uint32_t)(user % 2), user);
    book(&decision);
    return decision.command.id;
}

static void send_text(const char *text)
{
    struct queue_outcome outcomes[8];
    size_t count;
    while (queue_publish(publisher, ++number, span_of(text)) != 0) {
        assert_int_equal(queue_outcomes(publisher, outcomes, 8, 0, &count), 0);
    }
}

static void send(const char *payment, struct order_id id, int64_t cents)
{
    char order[ORDER_ID_TEXT];
    char text[QUEUE_BODY_MAX];
    order_id_text(id, order);
    (void)snprintf(text, sizeof(text),
                   "{\"payment_id\":\"%s\",\"order_id\":\"%.*s\",\"amount_cents\":%lld}", payment,
                   ORDER_ID_TEXT, order, (long long)cents);
    send_text(text);
}

static enum order_state state_of(struct order_id id)
{
    return cluster_row(&world, id)->state;
}

static void assert_parked(const char *const *reasons, size_t expected)
{
    struct queue_message parked[16];
    size_t count = 0;
    assert_int_equal(queue_parked(consumers[0], parked, 16, false, &count), 0);
    assert_int_equal(count, expected);
    for (size_t i = 0; i < count; i++) {
        assert_string_equal(parked[i].reason, reasons[i]);
    }
}

static uint32_t paid_events(void)
{
    uint32_t paid = 0;
    for (size_t i = 0; i < world.ledger.events_count; i++) {
        paid += world.ledger.events[i].kind == EVENT_ORDER_PAID;
    }
    return paid;
}

/* ---- paid ---- */

static void payments_are_written_and_acknowledged(void **state)
{
    (void)state;
    struct order_id ids[10];
    for (uint64_t i = 0; i < 10; i++) {
        char name[16];
        ids[i] = booked_order(i + 1);
        (void)snprintf(name, sizeof(name), "p%d", (int)i);
        send(name, ids[i], CLUSTER_CENTS);
    }
    turn(0);
    for (size_t i = 0; i < 10; i++) {
        assert_int_equal(state_of(ids[i]), ORDER_PAID);
    }
    assert_int_equal(sim_broker_messages(broker), 0);
    assert_int_equal(metric(0, METRIC_PAYMENT_CONSUMER_PAID_TOTAL), 10);
    turn(0); /* nothing to do */
    assert_int_equal(paid_events(), 10);
}

static void the_same_payment_again_is_acknowledged(void **state)
{
    (void)state;
    struct order_id id = booked_order(1);
    send("p1", id, CLUSTER_CENTS);
    send("p1", id, CLUSTER_CENTS); /* in one batch */
    turn(0);
    send("p1", id, CLUSTER_CENTS);
    turn(1); /* by somebody else */
    assert_int_equal(sim_broker_messages(broker), 0);
    assert_int_equal(paid_events(), 1);
    assert_string_equal(cluster_row(&world, id)->payment_id, "p1");
}

/* ---- not yet ---- */

static void nothing_is_acknowledged_before_it_is_committed(void **state)
{
    (void)state;
    struct order_id id = booked_order(1);
    send("p1", id, CLUSTER_CENTS);
    world.ledger.fail_next = ERR_IO;
    turn(0);
    assert_int_equal(sim_broker_messages(broker), 1);
    assert_int_equal(state_of(id), ORDER_LOCKED);
    pass_ms(1000);
    world.ledger.lose_next = ERR_IO; /* committed, and nobody heard */
    turn(0);
    assert_int_equal(sim_broker_messages(broker), 1);
    assert_int_equal(state_of(id), ORDER_PAID);
    pass_ms(1000);
    turn(0);
    assert_int_equal(sim_broker_messages(broker), 0);
    assert_int_equal(paid_events(), 1);
}

static void an_ack_that_is_lost_pays_nothing_twice(void **state)
{
    (void)state;
    struct order_id id = booked_order(1);
    struct sim_queue_faults faults = {.lose_settle = 1000};
    send("p1", id, CLUSTER_CENTS);
    sim_broker_faults(broker, &faults);
    turn(0);
    assert_int_equal(state_of(id), ORDER_PAID);
    assert_int_equal(depths().ready, 1); /* it is there again */
    sim_broker_faults(broker, &(struct sim_queue_faults){0});
    /* And the payment consumer that had it is gone. */
    stop(0);
    turn(1);
    assert_int_equal(sim_broker_messages(broker), 0);
    assert_int_equal(paid_events(), 1);
    start(0);
}

static void payments_are_held_while_the_ledger_is_away(void **state)
{
    (void)state;
    struct order_id id = booked_order(1);
    uint64_t batches = world.ledger.batches;
    send("p1", id, CLUSTER_CENTS);
    for (int i = 0; i < 300; i++) { /* half a minute */
        world.ledger.fail_next = ERR_IO;
        turn(0);
        pass_ms(100);
    }
    assert_in_range(world.ledger.batches - batches, 5, 40);                 /* in growing pauses */
    assert_int_equal(depths().ready + depths().retry + depths().parked, 0); /* it holds it */
    world.ledger.fail_next = 0;
    pass_ms(2000);
    turn(0);
    assert_int_equal(state_of(id), ORDER_PAID);
    assert_int_equal(sim_broker_messages(broker), 0);
}

/* Longer than all pauses together: it is never given up. */
static void a_payment_before_its_booking_waits_for_it(void **state)
{
    (void)state;
    struct decision decision = cluster_decide(&world, 1, 7);
    send("p1", decision.command.id, CLUSTER_CENTS);
    for (int i = 0; i < 30; i++) {
        turn(0);
        assert_int_equal(depths().retry, 1);
        pass_ms(i == 0 ? 1000 : 5000);
    }
    assert_true(metric(0, METRIC_PAYMENT_CONSUMER_LATER_TOTAL) >= 20);
    book(&decision);
    turn(0);
    assert_int_equal(state_of(decision.command.id), ORDER_PAID);
    assert_int_equal(sim_broker_messages(broker), 0);
}

static void a_gate_that_is_away_refuses_nobody(void **state)
{
    (void)state;
    struct decision decision = cluster_decide(&world, 0, 7);
    send("p1", decision.command.id, CLUSTER_CENTS);
    sim_segments_away(world.sim, 0, true);
    for (int i = 0; i < 6; i++) {
        turn(0);
        pass_ms(6000);
    }
    assert_int_equal(depths().parked, 0);
    assert_int_equal(sim_broker_messages(broker), 1);
    sim_segments_away(world.sim, 0, false);
}

/* ---- never ---- */

static void what_is_wrong_for_good_is_put_aside_with_its_code(void **state)
{
    (void)state;
    /* What cannot be read is found first, as it is taken. */
    static const char *const reasons[] = {"bad_request",       "bad_request",  "wrong_amount",
                                          "different_request", "already_paid", "not_found",
                                          "different_request"};
    struct order_id id = booked_order(1);
    struct order_id other = booked_order(2);
    send("p1", id, CLUSTER_CENTS);
    turn(0);
    send("p2", other, CLUSTER_CENTS + 1);
    send("p1", other, CLUSTER_CENTS);
    send("p3", id, CLUSTER_CENTS);
    send_text("hello");
    send_text("{\"payment_id\":\"\",\"order_id\":\"x\",\"amount_cents\":1}");
    send_text("{\"payment_id\":\"p4\",\"order_id\":\"x\",\"amount_cents\":1}");
    send_text("{\"payment_id\":\"p1\",\"order_id\":\"x\",\"amount_cents\":1}");
    turn(0);
    turn(0);
    assert_int_equal(metric(0, METRIC_PAYMENT_CONSUMER_REFUSED_TOTAL), 7);
    assert_int_equal(depths().parked, 7);
    assert_int_equal(sim_broker_messages(broker), 7);
    assert_int_equal(state_of(other), ORDER_LOCKED);
    assert_int_equal(paid_events(), 1);
    assert_parked(reasons, 7);
}

static void an_expired_order_is_not_revived(void **state)
{
    (void)state;
    static const char *const reasons[] = {"expired"};
    struct order_id id = booked_order(1);
    pass_ms(CLUSTER_PAY_MS);
    send("p1", id, CLUSTER_CENTS);
    turn(0);
    assert_parked(reasons, 1);
    assert_int_equal(paid_events(), 0);
}

/* A message that comes so early that nobody knows its order yet gets another look or two. */
static void an_order_that_nobody_has_is_refused_at_the_third_look(void **state)
{
    (void)state;
    static const char *const reasons[] = {"not_found"};
    send("p1", order_id_once(CLUSTER_ONCE, 77, 0), CLUSTER_CENTS);
    turn(0);
    assert_int_equal(depths().retry, 1);
    pass_ms(1000);
    turn(0);
    assert_int_equal(depths().retry, 1);
    pass_ms(5000);
    turn(0);
    assert_parked(reasons, 1);
}

/* ---- anything ---- */

static void each_is_paid_once(void **state)
{
    (void)state;
    uint64_t seed = cluster_seed();
    struct prng prng = prng_of(seed);
    struct order_id ids[20];
    struct sim_queue_faults faults = {.duplicate = 200, .reorder = 300, .lose_settle = 50};
    print_message("SLUICE_SEED=%llu\n", (unsigned long long)seed);
    sim_broker_faults(broker, &faults);
    for (uint64_t i = 0; i < 20; i++) {
        char name[16];
        ids[i] = booked_order(i % 9 + 1);
        (void)snprintf(name, sizeof(name), "p%d", (int)i);
        send(name, ids[i], CLUSTER_CENTS);
        stir(&prng);
        turn((uint32_t)prng_below(&prng, CLUSTER_PROCESSES));
        pass_ms(50 + (int64_t)prng_below(&prng, 200));
        world.ledger.fail_next = 0;
        world.ledger.lose_next = 0;
    }
    sim_broker_faults(broker, &(struct sim_queue_faults){0});
    for (uint32_t i = 0; i < 12; i++) {
        turn(i % 2);
        pass_ms(3000);
    }
    assert_int_equal(sim_broker_messages(broker), 0);
    assert_int_equal(paid_events(), 20);
    for (uint64_t i = 0; i < 20; i++) {
        assert_int_equal(state_of(ids[i]), ORDER_PAID);
    }
}

#define TEST(name) cmocka_unit_test_setup_teardown(name, set_up, tear_down)

int main(void)
{
    const struct CMUnitTest tests[] = {
        TEST(payments_are_written_and_acknowledged),
        TEST(the_same_payment_again_is_acknowledged),
        TEST(nothing_is_acknowledged_before_it_is_committed),
        TEST(an_ack_that_is_lost_pays_nothing_twice),
        TEST(payments_are_held_while_the_ledger_is_away),
        TEST(a_payment_before_its_booking_waits_for_it),
        TEST(a_gate_that_is_away_refuses_nobody),
        TEST(what_is_wrong_for_good_is_put_aside_with_its_code),
        TEST(an_expired_order_is_not_revived),
        TEST(an_order_that_nobody_has_is_refused_at_the_third_look),
        TEST(each_is_paid_once),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
