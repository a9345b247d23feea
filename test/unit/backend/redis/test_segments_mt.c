/*
 * The segments on Redis from several threads at once, each with an instance of its own: two that
 * apply the same events, while scripts vanish; several that empty the outbox while fronts fill it
 * and connections are cut; a wait that another thread ends. Under TSan: instances share nothing but
 * the topology.
 */
#include <pthread.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdatomic.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

#include <cmocka.h>

#include "base/check.h"
#include "base/err.h"
#include "redis_world.h"

#define ITEM 12
#define TRIES_MAX 20000

static const struct gate_sizes sizes = {.orders = 50000, .buyers = 50000, .items = 4, .sales = 2};
static atomic_bool ended;

static struct segments *open_worker(struct world *world, const char *worker)
{
    struct segments *segments = NULL;
    struct segments_redis_options options = {.topology = world->direct,
                                             .segments = 1,
                                             .prefix = world->prefix,
                                             .timeout_ms = 20000,
                                             .worker = worker,
                                             .claim_ms = 60000,
                                             .clock = &world->clock};
    CHECK(segments_redis_open(&options, &segments) == 0);
    return segments;
}

static struct world *filled(uint64_t units)
{
    struct world *world = world_new(60000);
    const struct segment_step steps[] = {
        {.kind = STEP_BEGIN, .sizes = sizes},
        {.kind = STEP_SALE,
         .sale = 1,
         .state = SALE_OPEN,
         .starts_at_ms = 1000,
         .ends_at_ms = 9000},
        {.kind = STEP_ITEM, .sale = 1, .item = ITEM, .total = units, .available = units},
        {.kind = STEP_OPEN}};
    assert_int_equal(SEGMENT_DONE, world_rebuild(world, ++world->epoch, 0, steps, 4));
    gate_place(redis_gate_port(world->gate), 0, world->epoch);
    atomic_store(&ended, false);
    return world;
}

/* ---- two appliers ---- */

#define EVENTS 6000
#define PAGE 200

struct segment_event_sink {
    struct world *world;
    struct segments *segments;
    uint64_t done; /* events that said DONE here */
};

/* In by 3, out by 3, from nothing: out of order, or twice, an "out" would find nothing, or an "in"
 * would leave something over. */
static struct segment_call event(const struct world *world, uint64_t number)
{
    return (struct segment_call){
        .epoch = world->epoch,
        .after = number - 1,
        .command = {.kind = number % 2 == 1 ? GATE_TRANSFER_IN : GATE_TRANSFER_OUT,
                    .event = number,
                    .item = ITEM,
                    .amount = 3,
                    .now_ms = 2000}};
}

/* As a ledger writer does: from the segment's cursor on, until all are applied by any thread. */
static void *apply_all(void *context)
{
    struct segment_event_sink *segment_event_sink = context;
    struct segment_call calls[PAGE];
    uint64_t cursor = 0;
    for (int tries = 0; cursor < EVENTS; tries++) {
        struct segment_state seen;
        CHECK(tries < TRIES_MAX);
        segments_look(segment_event_sink->segments, 0, &seen);
        if (seen.outcome != SEGMENT_DONE) {
            (void)usleep(1000);
            continue;
        }
        cursor = seen.event;
        size_t count = EVENTS - cursor < PAGE ? EVENTS - cursor : PAGE;
        for (size_t i = 0; i < count; i++) {
            calls[i] = event(segment_event_sink->world, cursor + i + 1);
        }
        segments_apply(segment_event_sink->segments, calls, count);
        for (size_t i = 0; i < count; i++) {
            /* NOT_ASKED: a script that vanished each time it was loaded */
            CHECK(calls[i].outcome == SEGMENT_DONE || calls[i].outcome == SEGMENT_GAP ||
                  calls[i].outcome == SEGMENT_NOT_ASKED);
            CHECK(calls[i].outcome != SEGMENT_DONE || calls[i].verdict == VERDICT_DONE ||
                  calls[i].verdict == VERDICT_ALREADY_APPLIED);
            segment_event_sink->done +=
                calls[i].outcome == SEGMENT_DONE && calls[i].verdict == VERDICT_DONE;
        }
    }
    return NULL;
}

/* Scripts vanish again and again. */
static void *forget_scripts(void *context)
{
    const struct world *world = context;
    redisContext *redis = redisConnect(world->host, world->port);
    CHECK(redis != NULL && redis->err == 0);
    while (!atomic_load(&ended)) {
        redisReply *reply = redisCommand(redis, "SCRIPT FLUSH");
        CHECK(reply != NULL);
        freeReplyObject(reply);
        (void)usleep(3000);
    }
    redisFree(redis);
    return NULL;
}

static void two_appliers_apply_everything_once_and_in_order(void **state)
{
    (void)state;
    struct world *world = filled(0);
    struct segment_event_sink appliers[2];
    pthread_t threads[2];
    pthread_t harm;
    assert_int_equal(0, pthread_create(&harm, NULL, forget_scripts, world));
    for (int i = 0; i < 2; i++) {
        appliers[i] =
            (struct segment_event_sink){.world = world, .segments = open_worker(world, "w")};
        assert_int_equal(0, pthread_create(&threads[i], NULL, apply_all, &appliers[i]));
    }
    for (int i = 0; i < 2; i++) {
        assert_int_equal(0, pthread_join(threads[i], NULL));
        segments_redis_close(appliers[i].segments);
    }
    atomic_store(&ended, true);
    assert_int_equal(0, pthread_join(harm, NULL));
    print_message("%llu and %llu of %d\n", (unsigned long long)appliers[0].done,
                  (unsigned long long)appliers[1].done, EVENTS);
    assert_int_equal(EVENTS, appliers[0].done + appliers[1].done);
    struct gate_request request = {.kind = GATE_REQUEST_ITEM, .item = ITEM};
    world_ask(world, &request);
    assert_int_equal(0, request.view.available);
    assert_int_equal(0, request.view.total);
    world_free(world);
}

/* ---- several relays ---- */

#define ORDERS 3000
#define RELAYS 3

struct relay {
    struct world *world;
    char name[16];
    uint32_t times[ORDERS]; /* how often each order came */
};
static struct relay relays[RELAYS];
static atomic_uint booking_channel;

static void book(struct relay *relay, const struct outbox_entry *entries, size_t count)
{
    for (size_t i = 0; i < count; i++) {
        uint64_t order = entries[i].command.user - 1;
        CHECK(order < ORDERS && entries[i].command.item == ITEM);
        relay->times[order]++;
    }
    (void)atomic_fetch_add(&booking_channel, (unsigned)count);
}

static void *run_relay(void *context)
{
    struct relay *relay = context;
    struct segments *segments = open_worker(relay->world, relay->name);
    struct outbox_entry entries[64];
    while (!atomic_load(&ended)) {
        size_t count = 0;
        int error = segments_take(segments, 1, entries, 64, 20, &count);
        if (error != 0) {
            continue;
        }
        book(relay, entries, count);
        while (segments_done(segments, entries, count) != 0 && !atomic_load(&ended)) {
            (void)usleep(1000);
        }
    }
    segments_redis_close(segments);
    return NULL;
}

static void *cut_connections(void *context)
{
    const struct world *world = context;
    redisContext *redis = redisConnect(world->host, world->port);
    CHECK(redis != NULL && redis->err == 0);
    while (!atomic_load(&ended)) {
        redisReply *reply = redisCommand(redis, "CLIENT KILL TYPE normal SKIPME yes");
        CHECK(reply != NULL);
        freeReplyObject(reply);
        (void)usleep(40000);
    }
    redisFree(redis);
    return NULL;
}

/* Decisions made again stand for fronts: they, too, are asked until they are answered. */
static void decide_all(struct world *world)
{
    struct segments *segments = open_worker(world, "front");
    for (uint64_t order = 0, tries = 0; order < ORDERS; tries++) {
        struct segment_call call = {
            .epoch = world->epoch,
            .command = {.kind = GATE_RESERVE,
                        .now_ms = 2000,
                        .id = order_id_fresh(ITEM, 2000, (uint32_t)order * SEGMENTS_MAX),
                        .user = order + 1,
                        .item = ITEM,
                        .qty = 1}};
        assert_true(tries < ORDERS + TRIES_MAX);
        segments_apply(segments, &call, 1);
        if (call.outcome == SEGMENT_DONE) {
            assert_int_not_equal(VERDICT_REFUSED, call.verdict);
            order++;
        } else {
            (void)usleep(1000);
        }
    }
    segments_redis_close(segments);
}

static void wait_until_empty(struct world *world)
{
    struct segments *segments = open_worker(world, "look");
    struct segment_state seen = {.outbox = 1};
    for (int i = 0; seen.outcome != SEGMENT_DONE || seen.outbox > 0; i++) {
        assert_true(i < TRIES_MAX);
        segments_look(segments, 0, &seen);
        (void)usleep(2000);
    }
    segments_redis_close(segments);
}

static void every_decision_leaves_the_outbox(void **state)
{
    (void)state;
    struct world *world = filled(ORDERS);
    pthread_t threads[RELAYS];
    pthread_t harm;
    atomic_store(&booking_channel, 0);
    for (int i = 0; i < RELAYS; i++) {
        relays[i] = (struct relay){.world = world};
        (void)snprintf(relays[i].name, sizeof(relays[i].name), "r%d", i);
        assert_int_equal(0, pthread_create(&threads[i], NULL, run_relay, &relays[i]));
    }
    assert_int_equal(0, pthread_create(&harm, NULL, cut_connections, world));
    decide_all(world);
    wait_until_empty(world);
    atomic_store(&ended, true);
    for (int i = 0; i < RELAYS; i++) {
        assert_int_equal(0, pthread_join(threads[i], NULL));
    }
    assert_int_equal(0, pthread_join(harm, NULL));
    for (int order = 0; order < ORDERS; order++) {
        uint32_t times = 0;
        for (int i = 0; i < RELAYS; i++) {
            times += relays[i].times[order];
        }
        assert_true(times >= 1);
    }
    print_message("%u bookings of %d decisions\n", atomic_load(&booking_channel), ORDERS);
    world_admin_again(world);
    while (redis_gate_ready(world->gate, 0, 0)) { /* it was cut, too */
        world_turn(world);
        assert_null(gate_collect(redis_gate_port(world->gate), 0));
    }
    world_reconnect(world);
    struct gate_request request = {.kind = GATE_REQUEST_ITEM, .item = ITEM};
    world_ask(world, &request);
    assert_true(gate_request_done(&request));
    assert_int_equal(0, request.view.available);
    assert_int_equal(ORDERS, request.view.locked);
    world_free(world);
}

/* ---- waking ---- */

static void *wake_soon(void *context)
{
    (void)usleep(20000);
    segments_wake(context);
    return NULL;
}

static void another_thread_ends_a_wait(void **state)
{
    (void)state;
    struct world *world = filled(0);
    struct segments *segments = open_worker(world, "w");
    struct outbox_entry entry;
    struct segment_news news;
    size_t count = 0;
    pthread_t thread;
    while (segments_news(segments, &news, 1, 1000, &count) != 0) { /* it listens */
    }
    for (int i = 0; i < 20; i++) {
        assert_int_equal(0, pthread_create(&thread, NULL, wake_soon, segments));
        assert_int_equal(ERR_AGAIN, i % 2 == 0
                                        ? segments_take(segments, 1, &entry, 1, 600000, &count)
                                        : segments_news(segments, &news, 1, 600000, &count));
        assert_int_equal(0, pthread_join(thread, NULL));
    }
    segments_redis_close(segments);
    world_free(world);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(two_appliers_apply_everything_once_and_in_order),
        cmocka_unit_test(every_decision_leaves_the_outbox),
        cmocka_unit_test(another_thread_ends_a_wait),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
