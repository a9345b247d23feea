/*
 * The event publisher, on a ledger in memory and a simulated exchange: what arrives, in which order, and how
 * often, whatever dies. The verdict is the same everywhere: a consumer that takes each event by its id
 * the first time it comes has every published event of the ledger, in the ledger's order. An event that
 * comes again has the same bytes.
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
#include "base/prng.h"
#include "fake_clock.h"
#include "ledger/cloudevent.h"
#include "ledger/event_publisher.h"
#include "memory_private.h"
#include "obs/log.h"
#include "sim_queue.h"

#define T0 1700000000000LL
#define ITEM 7
#define UNITS 40
#define LEASE_MS 6000
#define AWAY_MS 10000
#define SAVE_MS 200
#define PAY_WITHIN_S 600
#define STEP_MS 20

struct world {
    struct fake_clock clock; /* of the ledger, and of processes that are not paused */
    struct memory_ledger ledger;
    struct sim_broker *broker;
    struct prng prng;
    uint64_t user;
};

/* A process that publishes events. All it has dies with it. */
struct publisher {
    struct world *world;
    struct fake_clock *clock;
    struct fake_clock own; /* while it is paused */
    struct memory_port ledger;
    struct memory_holder lease;
    struct queue *queue;
    struct metrics metrics;
    struct event_publisher *event_publisher;
};

static int64_t ledger_now(void *context)
{
    return clock_wall_ms(&((struct world *)context)->clock.port);
}

/* ---- the ledger ---- */

static void write_op(struct world *world, struct ledger_op *op)
{
    struct ledger_op *ops[] = {op};
    struct ledger_batch batch = {.ops = ops, .count = 1};
    (void)ledger_write(&world->ledger.ledger, &batch);
    CHECK(batch.error == 0);
    sale_row_free(op->sale);
    op->sale = NULL;
}

static void open_sale(struct world *world)
{
    struct item_row items[] = {{.id = ITEM,
                                .sale = 1,
                                .price_cents = 100,
                                .limit_per_user = 1,
                                .total = UNITS,
                                .available = UNITS,
                                .name = "mug",
                                .sku = "MUG"}};
    struct sale_row sale = {.id = 1,
                            .pay_within_s = PAY_WITHIN_S,
                            .starts_at_ms = T0,
                            .ends_at_ms = T0 + 100000000,
                            .name = "sale",
                            .currency = "CNY",
                            .items_count = 1,
                            .items = items};
    struct ledger_op epoch = {.kind = LEDGER_EPOCH};
    struct ledger_op create = {.kind = LEDGER_SALE_CREATE, .sale_in = &sale};
    struct ledger_op open = {.kind = LEDGER_SALE_MOVE, .sale_id = 1, .target = SALE_OPEN};
    write_op(world, &epoch);
    write_op(world, &create);
    write_op(world, &open);
}

static struct ledger_op book_op(uint64_t user, uint32_t attempt)
{
    struct ledger_op op = {.kind = LEDGER_BOOK, .epoch = 1};
    op.command = (struct gate_command){.kind = GATE_RESERVE,
                                       .id = order_id_once(ITEM, user, attempt),
                                       .user = user,
                                       .item = ITEM,
                                       .qty = 1,
                                       .now_ms = T0};
    return op;
}

static void end_op(struct world *world, enum ledger_kind kind, uint64_t user)
{
    struct ledger_op op = {.kind = kind, .id = order_id_once(ITEM, user, 0), .amount_cents = 100};
    (void)snprintf(op.key, sizeof(op.key), "pay-%llu", (unsigned long long)user);
    write_op(world, &op);
    CHECK(op.refusal == REFUSAL_NONE);
}

/* One more buyer; what becomes of his order goes by his number. */
static void buy(struct world *world)
{
    uint64_t user = ++world->user;
    struct ledger_op op = book_op(user, 0);
    write_op(world, &op);
    if (op.order.state != ORDER_LOCKED) {
        return;
    }
    switch (user % 4) {
    case 0:
        end_op(world, LEDGER_PAY, user);
        break;
    case 1:
        end_op(world, LEDGER_CANCEL, user);
        break;
    case 2:
        op = book_op(user, 1); /* over his limit */
        write_op(world, &op);
        break;
    default:
        break;
    }
}

static void buy_some(struct world *world, int count)
{
    for (int i = 0; i < count; i++) {
        buy(world);
    }
}

/* ---- the world ---- */

static void world_open(struct world *world, uint64_t seed)
{
    static const uint32_t retry_s[] = {1};
    memset(world, 0, sizeof(*world));
    world->prng = prng_of(seed);
    fake_clock_init(&world->clock, T0);
    memory_ledger_init_shared(&world->ledger, 1);
    world->ledger.clock = ledger_now;
    world->ledger.clock_context = world;
    world->broker = sim_broker_new(seed, retry_s, 1);
    sim_broker_time(world->broker, T0);
    open_sale(world);
}

static void world_close(struct world *world)
{
    sim_broker_free(world->broker);
    memory_ledger_done(&world->ledger);
}

static void pass_ms(struct world *world, int64_t ms)
{
    fake_clock_pass_ms(&world->clock, ms);
    sim_broker_time(world->broker, clock_wall_ms(&world->clock.port));
}

static void publisher_open(struct publisher *publisher, struct world *world, const char *name,
                           int64_t save_ms)
{
    memset(publisher, 0, sizeof(*publisher));
    publisher->world = world;
    publisher->clock = &world->clock;
    publisher->queue = sim_queue_open(world->broker, true, 16, 0);
    memory_port_init(&publisher->ledger, &world->ledger);
    memory_holder_init(&publisher->lease, &world->ledger, name);
    CHECK(metrics_init(&publisher->metrics, 1) == 0);
    struct event_publisher_ports ports = {.queue = publisher->queue,
                                          .ledger = &publisher->ledger.ledger,
                                          .lease = &publisher->lease.port,
                                          .clock = &publisher->clock->port,
                                          .metrics = metrics_slot(&publisher->metrics, 0)};
    struct event_publisher_options options = {.source = "/sluice",
                                              .window = 10,
                                              .lease_ms = LEASE_MS,
                                              .away_ms = AWAY_MS,
                                              .save_ms = save_ms};
    CHECK(event_publisher_new(ports, options, &publisher->event_publisher) == 0);
}

/* As kill -9 does: nothing is finished, the lease stays until it ends. */
static void publisher_die(struct publisher *publisher)
{
    event_publisher_free(publisher->event_publisher);
    sim_queue_close(publisher->queue);
    memory_port_done(&publisher->ledger);
    metrics_done(&publisher->metrics);
}

static void publisher_close(struct publisher *publisher)
{
    event_publisher_finish(publisher->event_publisher);
    publisher_die(publisher);
}

static uint64_t metric(const struct publisher *publisher, enum metric which)
{
    return atomic_load(&metrics_slot(&publisher->metrics, 0)->values[which]);
}

static uint64_t cursor(const struct world *world)
{
    return world->ledger.cursors_count == 0 ? 0 : world->ledger.cursors[0].number;
}

static void run(struct world *world, struct publisher *a, struct publisher *b, int64_t ms)
{
    for (int64_t at = 0; at < ms; at += STEP_MS) {
        event_publisher_iterate(a->event_publisher, 0);
        if (b != NULL) {
            event_publisher_iterate(b->event_publisher, 0);
        }
        pass_ms(world, STEP_MS);
    }
}

/* ---- the verdict ---- */

static void told_id(const struct ledger_event *event, uint32_t part, char *ret_id, size_t size)
{
    (void)snprintf(ret_id, size, "\"id\":\"%llu%s\"", (unsigned long long)event->number,
                   part > 0 ? "-sold_out" : "");
}

/* The first that came with this id; SIZE_MAX: none. */
static size_t find_told(const struct world *world, const char *id)
{
    const struct sim_event *event;
    for (size_t i = 0; (event = sim_broker_event(world->broker, i)) != NULL; i++) {
        if (strstr(event->body, id) != NULL) {
            return i;
        }
    }
    return SIZE_MAX;
}

/* How many came that had come before: each with the bytes of the first. */
static size_t count_doubles(const struct world *world)
{
    const struct sim_event *event;
    size_t doubles = 0;
    for (size_t i = 0; (event = sim_broker_event(world->broker, i)) != NULL; i++) {
        char id[64];
        const char *from = strstr(event->body, "\"id\":");
        size_t length = strcspn(from + 6, "\"") + 7;
        assert_true(length < sizeof(id));
        memcpy(id, from, length);
        id[length] = '\0';
        size_t first = find_told(world, id);
        assert_string_equal(sim_broker_event(world->broker, first)->body, event->body);
        assert_string_equal(sim_broker_event(world->broker, first)->key, event->key);
        doubles += first != i;
    }
    return doubles;
}

/* All events are sent; `in_order`: each for the first time behind the one before it. Returns how many. */
static size_t assert_told(const struct world *world, bool in_order)
{
    size_t count = 0;
    size_t before = 0;
    for (size_t i = 0; i < world->ledger.events_count; i++) {
        const struct ledger_event *event = &world->ledger.events[i];
        for (uint32_t part = 0; part < cloudevent_count(event); part++) {
            char id[64];
            told_id(event, part, id, sizeof(id));
            size_t at = find_told(world, id);
            assert_true(at != SIZE_MAX);
            assert_true(!in_order || count == 0 || at > before);
            const struct sim_event *told = sim_broker_event(world->broker, at);
            assert_string_equal(told->key, cloudevent_type(event, part));
            before = at;
            count++;
        }
    }
    const struct sim_event *event;
    size_t arrived = 0;
    while ((event = sim_broker_event(world->broker, arrived)) != NULL) {
        arrived++;
    }
    assert_int_equal(arrived, count + count_doubles(world)); /* and nothing else */
    return count;
}

/* ---- the tests ---- */

static void test_all_is_told_once_in_order(void **state)
{
    struct world world;
    struct publisher a;
    (void)state;
    world_open(&world, 1);
    publisher_open(&a, &world, "a", SAVE_MS);
    buy_some(&world, 10);
    run(&world, &a, NULL, 1000);
    size_t first = assert_told(&world, true);
    assert_true(first > 10);
    buy_some(&world, 90);
    run(&world, &a, NULL, 3000);
    assert_true(assert_told(&world, true) > first);
    assert_int_equal(count_doubles(&world), 0);
    assert_true(memory_ledger_events(&world.ledger, EVENT_ORDER_FAILED) > 0);
    assert_true(memory_ledger_events(&world.ledger, EVENT_ORDER_PAID) > 0);
    assert_int_not_equal(find_told(&world, "-sold_out\""), SIZE_MAX);
    assert_int_equal(cursor(&world), world.ledger.events_count);
    assert_int_equal(metric(&a, METRIC_EVENTS_LAG), 0);
    assert_int_equal(metric(&a, METRIC_EVENTS_PUBLISHED_TOTAL), assert_told(&world, true));
    pass_ms(&world, PAY_WITHIN_S * 1000);
    end_op(&world, LEDGER_EXPIRE, 3);
    run(&world, &a, NULL, 200);
    (void)assert_told(&world, true);
    publisher_close(&a);
    /* Nothing comes again after an orderly end, not even to another. */
    publisher_open(&a, &world, "b", SAVE_MS);
    buy(&world);
    run(&world, &a, NULL, 1000);
    (void)assert_told(&world, true);
    assert_int_equal(count_doubles(&world), 0);
    publisher_close(&a);
    world_close(&world);
}

static void test_a_crash_before_the_cursor_tells_again(void **state)
{
    struct world world;
    struct publisher a;
    (void)state;
    world_open(&world, 2);
    publisher_open(&a, &world, "a", 1000000);
    buy_some(&world, 5);
    run(&world, &a, NULL, 100); /* the first move of the cursor is at once */
    uint64_t saved = cursor(&world);
    assert_true(saved > 0);
    buy_some(&world, 20);
    run(&world, &a, NULL, 1000);
    (void)assert_told(&world, true);
    assert_int_equal(cursor(&world), saved);
    assert_int_equal(count_doubles(&world), 0);
    publisher_die(&a);
    publisher_open(&a, &world, "b", SAVE_MS);
    run(&world, &a, NULL, LEASE_MS - 2000);
    assert_int_equal(count_doubles(&world), 0); /* it is still the other's */
    run(&world, &a, NULL, 5000);
    assert_true(count_doubles(&world) > 0);
    (void)assert_told(&world, true);
    assert_int_equal(cursor(&world), world.ledger.events_count);
    publisher_close(&a);
    world_close(&world);
}

static void test_an_exchange_that_is_away(void **state)
{
    struct world world;
    struct publisher a;
    struct publisher b;
    (void)state;
    world_open(&world, 3);
    publisher_open(&a, &world, "a", SAVE_MS);
    publisher_open(&b, &world, "b", SAVE_MS);
    buy_some(&world, 10);
    run(&world, &a, &b, 1000);
    assert_int_equal(metric(&b, METRIC_EVENTS_PUBLISHED_TOTAL), 0);
    sim_broker_down(world.broker, clock_wall_ms(&world.clock.port) + 5 * AWAY_MS);
    buy_some(&world, 10);
    run(&world, &a, &b, 3000);
    uint64_t behind = world.ledger.events_count - cursor(&world);
    assert_true(behind > 10);
    assert_int_equal(metric(&a, METRIC_EVENTS_LAG), behind);
    assert_int_equal(metric(&b, METRIC_EVENTS_LAG), 0);
    uint64_t token = world.ledger.leases[0].token;
    run(&world, &a, &b, 2 * AWAY_MS); /* they take turns at trying */
    assert_true(world.ledger.leases[0].token > token);
    assert_int_equal(metric(&a, METRIC_EVENTS_LAG) + metric(&b, METRIC_EVENTS_LAG), behind);
    run(&world, &a, &b, 5 * AWAY_MS);
    (void)assert_told(&world, true);
    assert_int_equal(cursor(&world), world.ledger.events_count);
    publisher_close(&a);
    publisher_close(&b);
    world_close(&world);
}

/* It stands still in the middle of a turn, longer than its lease, and goes on as if nothing had been:
 * by its own clock nothing has. */
static void test_a_holder_that_was_paused(void **state)
{
    struct world world;
    struct publisher a;
    struct publisher b;
    (void)state;
    world_open(&world, 4);
    publisher_open(&b, &world, "b", SAVE_MS);
    publisher_open(&a, &world, "a", SAVE_MS);
    publisher_die(&a); /* as it was; this one has a clock of its own */
    publisher_open(&a, &world, "a", SAVE_MS);
    event_publisher_free(a.event_publisher);
    fake_clock_init(&a.own, T0);
    struct event_publisher_ports ports = {.queue = a.queue,
                                          .ledger = &a.ledger.ledger,
                                          .lease = &a.lease.port,
                                          .clock = &a.own.port,
                                          .metrics = metrics_slot(&a.metrics, 0)};
    struct event_publisher_options options = {
        .source = "/sluice", .window = 10, .lease_ms = LEASE_MS, .away_ms = AWAY_MS, .save_ms = 0};
    assert_int_equal(event_publisher_new(ports, options, &a.event_publisher), 0);
    buy_some(&world, 5);
    event_publisher_iterate(a.event_publisher, 0);
    event_publisher_iterate(a.event_publisher, 0);
    uint64_t saved = cursor(&world);
    assert_int_equal(saved, world.ledger.events_count);
    pass_ms(&world, LEASE_MS + 1000);
    buy_some(&world, 5);
    uint64_t between = world.ledger.events_count;
    event_publisher_iterate(b.event_publisher, 0); /* takes over */
    event_publisher_iterate(b.event_publisher, 0);
    assert_int_equal(cursor(&world), between);
    buy_some(&world, 5);
    fake_clock_pass_ms(&a.own, 100); /* it looks at the ledger, but not at its lease */
    uint64_t commits = world.ledger.commits;
    for (int i = 0; i < 3; i++) {
        event_publisher_iterate(a.event_publisher, 0);
    }
    assert_true(count_doubles(&world) > 0); /* it did tell */
    assert_int_equal(world.ledger.commits, commits);
    assert_int_equal(cursor(&world), between); /* and could not say so */
    run(&world, &b, NULL, 1000);
    (void)assert_told(&world, true);
    assert_int_equal(cursor(&world), world.ledger.events_count);
    size_t doubles = count_doubles(&world);
    buy(&world);
    fake_clock_pass_ms(&a.own, 1000);
    event_publisher_iterate(a.event_publisher, 0); /* it knows by now */
    run(&world, &b, NULL, 1000);
    assert_int_equal(count_doubles(&world), doubles);
    (void)assert_told(&world, true);
    publisher_close(&b);
    publisher_close(&a);
    world_close(&world);
}

static void test_confirms_that_are_lost(void **state)
{
    struct world world;
    struct publisher a;
    (void)state;
    world_open(&world, 5);
    publisher_open(&a, &world, "a", SAVE_MS);
    struct sim_queue_faults faults = {.lose_confirm = 50, .outcome_ms = 100};
    sim_broker_faults(world.broker, &faults);
    for (int i = 0; i < 20; i++) {
        buy_some(&world, 5);
        run(&world, &a, NULL, 1000);
    }
    sim_broker_faults(world.broker, &(struct sim_queue_faults){0});
    run(&world, &a, NULL, 5000);
    (void)assert_told(&world, true);
    assert_true(count_doubles(&world) > 0);
    assert_true(metric(&a, METRIC_EVENTS_AGAIN_TOTAL) > 0);
    assert_int_equal(cursor(&world), world.ledger.events_count);
    publisher_close(&a);
    world_close(&world);
}

/* A bound queue refuses some: they come later than what was behind them, but they come. */
static void test_what_is_refused_comes_again(void **state)
{
    struct world world;
    struct publisher a;
    (void)state;
    world_open(&world, 6);
    publisher_open(&a, &world, "a", SAVE_MS);
    sim_broker_faults(world.broker, &(struct sim_queue_faults){.lose_message = 1000});
    buy_some(&world, 30);
    run(&world, &a, NULL, 5000);
    assert_null(sim_broker_event(world.broker, 0));
    /* Not in a hot loop: a window each time, after pauses that grow to two seconds. */
    assert_true(metric(&a, METRIC_EVENTS_AGAIN_TOTAL) < 16 * 12);
    assert_true(cursor(&world) < world.ledger.events_count);
    sim_broker_faults(world.broker,
                      &(struct sim_queue_faults){.lose_message = 100, .outcome_ms = 100});
    run(&world, &a, NULL, 300000);
    (void)assert_told(&world, false);
    assert_int_equal(cursor(&world), world.ledger.events_count);
    publisher_close(&a);
    world_close(&world);
}

/* An exchange whose answers the test gives, when it likes. */
struct told_exchange {
    struct queue queue;
    uint64_t numbers[64]; /* as announced */
    size_t announced;
    struct queue_outcome outcomes[64];
    size_t outcomes_count;
};

static int told_announce(struct queue *queue, uint64_t number, const char *key, struct span body)
{
    struct told_exchange *exchange = (struct told_exchange *)queue;
    (void)key;
    (void)body;
    CHECK(exchange->announced < 64);
    exchange->numbers[exchange->announced++] = number;
    return 0;
}

static int told_outcomes(struct queue *queue, struct queue_outcome *ret_outcomes, size_t max,
                         int64_t wait_ms, size_t *ret_count)
{
    struct told_exchange *exchange = (struct told_exchange *)queue;
    (void)wait_ms;
    CHECK(exchange->outcomes_count <= max);
    memcpy(ret_outcomes, exchange->outcomes, exchange->outcomes_count * sizeof(*ret_outcomes));
    *ret_count = exchange->outcomes_count;
    exchange->outcomes_count = 0;
    return *ret_count > 0 ? 0 : ERR_AGAIN;
}

static void tell(struct told_exchange *exchange, size_t at, enum queue_outcome_kind kind)
{
    CHECK(at < exchange->announced);
    exchange->outcomes[exchange->outcomes_count++] =
        (struct queue_outcome){.number = exchange->numbers[at], .kind = kind};
}

/* What is said of messages from before the event publisher went back counts for nothing, though the same events
 * are under way again, in the same places. */
static void test_answers_that_come_late(void **state)
{
    static const struct queue_ops ops = {.announce = told_announce, .outcomes = told_outcomes};
    enum { EVENTS = 4 };
    struct world world;
    struct publisher a;
    struct told_exchange exchange = {.queue = {&ops}};
    (void)state;
    world_open(&world, 10);
    uint64_t before = world.ledger.events_count;
    for (uint64_t user = 1; user <= EVENTS; user++) {
        struct ledger_op op = book_op(user, 0);
        write_op(&world, &op);
    }
    publisher_open(&a, &world, "a", 0);
    event_publisher_free(a.event_publisher);
    struct event_publisher_ports ports = {.queue = &exchange.queue,
                                          .ledger = &a.ledger.ledger,
                                          .lease = &a.lease.port,
                                          .clock = &world.clock.port,
                                          .metrics = metrics_slot(&a.metrics, 0)};
    struct event_publisher_options options = {
        .source = "/sluice", .window = EVENTS, .lease_ms = LEASE_MS, .away_ms = AWAY_MS};
    assert_int_equal(event_publisher_new(ports, options, &a.event_publisher), 0);
    run(&world, &a, NULL, 100);
    assert_int_equal(exchange.announced, EVENTS);
    tell(&exchange, 0, QUEUE_UNCONFIRMED);
    run(&world, &a, NULL, 500);
    assert_int_equal(exchange.announced, 2 * EVENTS); /* all of them, again */
    for (size_t i = 1; i < EVENTS; i++) {
        tell(&exchange, i, QUEUE_CONFIRMED);
    }
    tell(&exchange, EVENTS, QUEUE_CONFIRMED); /* the first, the second time */
    run(&world, &a, NULL, 500);
    assert_int_equal(exchange.announced, 2 * EVENTS);
    assert_int_equal(cursor(&world), before + 1);
    tell(&exchange, EVENTS + 2, QUEUE_CONFIRMED); /* not the second: the cursor stays */
    run(&world, &a, NULL, 500);
    assert_int_equal(cursor(&world), before + 1);
    tell(&exchange, EVENTS + 1, QUEUE_CONFIRMED);
    run(&world, &a, NULL, 500);
    assert_int_equal(cursor(&world), before + 3);
    tell(&exchange, 1, QUEUE_UNCONFIRMED); /* nor does a late no send anything again */
    run(&world, &a, NULL, 3000);
    assert_int_equal(exchange.announced, 2 * EVENTS);
    tell(&exchange, EVENTS + 3, QUEUE_CONFIRMED);
    run(&world, &a, NULL, 500);
    assert_int_equal(cursor(&world), world.ledger.events_count);
    publisher_close(&a);
    world_close(&world);
}

/* Killed between an order and the sold_out behind it: the cursor must not be behind both. */
static void test_half_an_event(void **state)
{
    struct world world;
    struct publisher a;
    (void)state;
    world_open(&world, 9);
    publisher_open(&a, &world, "a", 0);
    sim_queue_close(a.queue);
    event_publisher_free(a.event_publisher);
    a.queue = sim_queue_open(world.broker, true, 1, 0); /* one at a time */
    struct event_publisher_ports ports = {.queue = a.queue,
                                          .ledger = &a.ledger.ledger,
                                          .lease = &a.lease.port,
                                          .clock = &world.clock.port,
                                          .metrics = metrics_slot(&a.metrics, 0)};
    struct event_publisher_options options = {
        .source = "/sluice", .window = 10, .lease_ms = LEASE_MS, .away_ms = AWAY_MS};
    assert_int_equal(event_publisher_new(ports, options, &a.event_publisher), 0);
    while (memory_ledger_item(&world.ledger, ITEM)->available > 0) {
        struct ledger_op op = book_op(++world.user, 0);
        write_op(&world, &op);
    }
    char id[64];
    const struct ledger_event *last = &world.ledger.events[world.ledger.events_count - 1];
    assert_int_equal(cloudevent_count(last), 2);
    told_id(last, 0, id, sizeof(id));
    while (find_told(&world, id) == SIZE_MAX) {
        event_publisher_iterate(a.event_publisher, 0);
    }
    assert_int_equal(find_told(&world, "-sold_out\""), SIZE_MAX);
    publisher_die(&a);
    pass_ms(&world, LEASE_MS);
    publisher_open(&a, &world, "b", SAVE_MS);
    run(&world, &a, NULL, 1000);
    (void)assert_told(&world, true);
    publisher_close(&a);
    world_close(&world);
}

static void test_a_ledger_that_is_away(void **state)
{
    struct world world;
    struct publisher a;
    (void)state;
    world_open(&world, 7);
    world.ledger.fail_read = ERR_IO;
    publisher_open(&a, &world, "a", SAVE_MS);
    buy_some(&world, 5);
    run(&world, &a, NULL, 3000);
    assert_null(sim_broker_event(world.broker, 0));
    world.ledger.fail_read = 0;
    run(&world, &a, NULL, 3000);
    (void)assert_told(&world, true);
    buy_some(&world, 5);
    world.ledger.fail_next = ERR_IO; /* of the cursor */
    run(&world, &a, NULL, 1000);
    assert_int_equal(cursor(&world), world.ledger.events_count);
    buy_some(&world, 5);
    world.ledger.lose_next = ERR_IO;
    run(&world, &a, NULL, 1000);
    assert_int_equal(cursor(&world), world.ledger.events_count);
    buy_some(&world, 5);
    run(&world, &a, NULL, 1000);
    (void)assert_told(&world, true);
    assert_int_equal(count_doubles(&world), 0);
    publisher_close(&a);
    world_close(&world);
}

/* Alone, as in the embedded engine: somebody else writes the cursor. */
static int save_for(void *context, uint64_t number)
{
    struct world *world = context;
    struct ledger_op op = {.kind = LEDGER_CURSOR, .key = EVENT_PUBLISHER_LEASE, .amount = number};
    if (world->user % 2 == 1) {
        return ERR_BUSY; /* not now */
    }
    write_op(world, &op);
    return 0;
}

static void test_alone(void **state)
{
    struct world world;
    struct publisher a;
    (void)state;
    world_open(&world, 8);
    publisher_open(&a, &world, "a", SAVE_MS);
    event_publisher_free(a.event_publisher);
    struct event_publisher_ports ports = {.queue = a.queue,
                                          .ledger = &a.ledger.ledger,
                                          .save = save_for,
                                          .context = &world,
                                          .clock = &world.clock.port,
                                          .metrics = metrics_slot(&a.metrics, 0)};
    struct event_publisher_options options = {
        .source = "", .window = 10, .away_ms = AWAY_MS, .save_ms = SAVE_MS};
    assert_int_equal(event_publisher_new(ports, options, &a.event_publisher), ERR_INVALID);
    options.source = "/shop";
    assert_int_equal(event_publisher_new(ports, options, &a.event_publisher), 0);
    buy_some(&world, 5);
    run(&world, &a, NULL, 1000);
    (void)assert_told(&world, true);
    assert_int_equal(cursor(&world), 0);
    sim_broker_down(world.broker, clock_wall_ms(&world.clock.port) + 2 * AWAY_MS);
    buy(&world);
    run(&world, &a, NULL, 3 * AWAY_MS);
    (void)assert_told(&world, true);
    assert_int_equal(cursor(&world), world.ledger.events_count);
    assert_int_equal(count_doubles(&world), 0);
    publisher_close(&a);
    world_close(&world);
}

/* One thing after the other goes wrong, in two processes. */
static void storm(uint64_t seed)
{
    struct world world;
    struct publisher publishers[2];
    char name[16];
    int names = 0;
    world_open(&world, seed);
    for (int i = 0; i < 2; i++) {
        (void)snprintf(name, sizeof(name), "t%d", names++);
        publisher_open(&publishers[i], &world, name, SAVE_MS);
    }
    struct sim_queue_faults faults = {.lose_confirm = 5, .outcome_ms = 60};
    sim_broker_faults(world.broker, &faults);
    for (int round = 0; round < 60; round++) {
        struct publisher *one = &publishers[prng_below(&world.prng, 2)];
        buy_some(&world, (int)prng_below(&world.prng, 4));
        switch (prng_below(&world.prng, 10)) {
        case 0:
            sim_broker_cut(world.broker);
            break;
        case 1:
            sim_broker_down(world.broker, clock_wall_ms(&world.clock.port) +
                                              (int64_t)prng_below(&world.prng, 3000));
            break;
        case 2:
            publisher_die(one);
            (void)snprintf(name, sizeof(name), "t%d", names++);
            publisher_open(one, &world, name, SAVE_MS);
            break;
        case 3:
            run(&world, one, NULL, LEASE_MS + 1000); /* the other one is paused */
            break;
        case 4:
            world.ledger.fail_next = ERR_IO;
            break;
        case 5:
            world.ledger.lose_next = ERR_IO;
            break;
        default:
            break;
        }
        run(&world, &publishers[0], &publishers[1], 20 * (int64_t)prng_below(&world.prng, 20));
        world.ledger.fail_next = world.ledger.lose_next = 0;
    }
    sim_broker_faults(world.broker, &(struct sim_queue_faults){0});
    run(&world, &publishers[0], &publishers[1], 60000);
    (void)assert_told(&world, true);
    assert_int_equal(cursor(&world), world.ledger.events_count);
    publisher_close(&publishers[0]);
    publisher_close(&publishers[1]);
    world_close(&world);
}

static void test_storms(void **state)
{
    (void)state;
    for (uint64_t seed = 100; seed < 140; seed++) {
        storm(seed);
    }
}

int main(void)
{
    log_set_level(LOG_ERROR);
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_all_is_told_once_in_order),
        cmocka_unit_test(test_a_crash_before_the_cursor_tells_again),
        cmocka_unit_test(test_an_exchange_that_is_away),
        cmocka_unit_test(test_a_holder_that_was_paused),
        cmocka_unit_test(test_confirms_that_are_lost),
        cmocka_unit_test(test_what_is_refused_comes_again),
        cmocka_unit_test(test_answers_that_come_late),
        cmocka_unit_test(test_half_an_event),
        cmocka_unit_test(test_a_ledger_that_is_away),
        cmocka_unit_test(test_alone),
        cmocka_unit_test(test_storms),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
