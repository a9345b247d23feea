/*
 * A rush over four loops, each on its own thread with its own connection: all of them send the same
 * thousand buyers for a hundred units, a window of them at a time. Each unit is sold once, each
 * buyer gets the same answer from every loop, and the outbox has every sold unit. Under TSan: connection sets share
 * nothing but the epoch, which changes meanwhile.
 */
#include <poll.h>
#include <pthread.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>

#include <cmocka.h>

#include "base/check.h"
#include "redis_world.h"

#define LOOPS 4
#define BUYERS 1000
#define STOCK 100
#define WINDOW 50
#define ITEM 11

struct loop {
    struct redis_gate *gate;
    uint32_t number;
    struct gate_request requests[BUYERS];
};
static struct loop loops[LOOPS];

static void wait_for(const struct loop *loop)
{
    struct pollfd fd = {.fd = redis_gate_fd(loop->gate, loop->number), .events = POLLIN};
    (void)gate_flush(redis_gate_port(loop->gate), loop->number);
    (void)poll(&fd, 1, 5);
}

static void submit(struct loop *loop, uint32_t index)
{
    /* Every loop begins with another buyer. */
    uint64_t user = 1 + (index + loop->number * (BUYERS / LOOPS)) % BUYERS;
    struct gate_request *request = &loop->requests[user - 1];
    *request = (struct gate_request){.kind = GATE_REQUEST_BUY,
                                     .loop = loop->number,
                                     .id = order_id_once(ITEM, user, 0),
                                     .user = user,
                                     .item = ITEM,
                                     .qty = 1,
                                     .ticket_expires_ms = 50000,
                                     .now_ms = 2000};
    CHECK(gate_submit(redis_gate_port(loop->gate), request) == GATE_PENDING);
}

static void *run(void *context)
{
    struct loop *loop = context;
    struct gate_port *port = redis_gate_port(loop->gate);
    uint32_t sent = 0;
    uint32_t answered = 0;
    while (!redis_gate_ready(loop->gate, loop->number, 0)) {
        CHECK(gate_collect(port, loop->number) == NULL);
        wait_for(loop);
    }
    while (answered < BUYERS) {
        while (sent < BUYERS && sent - answered < WINDOW) {
            submit(loop, sent++);
        }
        wait_for(loop);
        for (const struct gate_request *request = gate_collect(port, loop->number); request != NULL;
             request = request->next) {
            CHECK(request->loop == loop->number);
            answered++;
        }
    }
    return NULL;
}

static struct redis_gate *open_loops(struct world *world)
{
    struct redis_gate *gate = NULL;
    struct redis_gate_config config = {.topology = world->topology,
                                       .segments = 1,
                                       .loops = LOOPS,
                                       .prefix = world->prefix,
                                       .connect_timeout_ms = 20000,
                                       .call_timeout_ms = 60000,
                                       .retry_min_ms = 1,
                                       .retry_max_ms = 50,
                                       .in_flight_max = WINDOW,
                                       .clock = &world->clock};
    assert_int_equal(0, redis_gate_new(&config, &gate));
    return gate;
}

static void load(struct world *world)
{
    struct world_answer answer;
    struct gate_command sale = {
        .kind = GATE_LOAD_SALE, .event = 1, .sale = 1, .starts_at_ms = 1000, .ends_at_ms = 9000};
    struct gate_command item = {
        .kind = GATE_LOAD_ITEM, .event = 2, .sale = 1, .item = ITEM, .amount = STOCK, .limit = 1};
    world_claim(world, (struct gate_sizes){.orders = 5000, .buyers = 5000, .items = 4, .sales = 2});
    assert_int_equal(VERDICT_DONE, world_step(world, &sale, &answer));
    assert_int_equal(VERDICT_DONE, world_step(world, &item, &answer));
}

static void every_unit_is_sold_once(void **state)
{
    (void)state;
    struct world *world = world_new(60000);
    load(world);
    struct redis_gate *gate = open_loops(world);
    pthread_t threads[LOOPS];
    gate_place(redis_gate_port(gate), 0, world->epoch);
    for (uint32_t i = 0; i < LOOPS; i++) {
        loops[i].gate = gate;
        loops[i].number = i;
        assert_int_equal(0, pthread_create(&threads[i], NULL, run, &loops[i]));
    }
    for (int i = 0; i < 1000; i++) { /* as one who follows the ledger does */
        gate_place(redis_gate_port(gate), 0, world->epoch);
    }
    for (uint32_t i = 0; i < LOOPS; i++) {
        assert_int_equal(0, pthread_join(threads[i], NULL));
    }
    int sold = 0;
    for (int user = 0; user < BUYERS; user++) {
        int first = 0;
        int told = 0;
        for (int i = 0; i < LOOPS; i++) {
            const struct gate_request *request = &loops[i].requests[user];
            assert_true(gate_request_done(request) ||
                        gate_request_refused(request, REFUSAL_SOLD_OUT));
            told += gate_request_done(request);
            first += gate_request_done(request) && !request->existed;
        }
        assert_true(told == 0 || told == LOOPS); /* every loop says the same */
        assert_int_equal(told > 0, first);
        sold += first;
    }
    assert_int_equal(STOCK, sold);
    redisReply *entries = world_admin(world, "XLEN %s{0}:out", world->prefix);
    assert_int_equal(STOCK, entries->integer);
    freeReplyObject(entries);
    redis_gate_free(gate);
    world_free(world);
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(every_unit_is_sold_once)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
