/*
 * The gate on Redis when things go wrong: scripts forgotten, connections cut with the answers still
 * on their way, answers that take too long, another server, another epoch, an emptied server, one
 * that became a replica, one that may evict. A repeated request gets the same answer, and units are
 * neither lost nor sold twice.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>

#include <cmocka.h>

#include "redis_world.h"

#define ITEM 11
#define STOCK 1000
#define BUYERS 200
#define TIMEOUT_MS 60000

static struct gate_request requests[BUYERS];

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

static void buy(struct gate_request *request, uint64_t user)
{
    *request = (struct gate_request){.kind = GATE_REQUEST_BUY,
                                     .id = order_id_once(ITEM, user, 0),
                                     .user = user,
                                     .item = ITEM,
                                     .qty = 1,
                                     .ticket_expires_ms = 50000,
                                     .now_ms = 2000};
}

static void buy_all(struct world *world)
{
    for (uint64_t i = 0; i < BUYERS; i++) {
        buy(&requests[i], i + 1);
        assert_int_equal(GATE_PENDING, gate_submit(redis_gate_port(world->gate), &requests[i]));
    }
}

static void collect_all(struct world *world)
{
    for (int i = 0; i < BUYERS; i++) {
        struct gate_request *request = world_next_ask(world);
        assert_true(request >= requests && request < requests + BUYERS);
    }
}

static uint64_t outbox(struct world *world)
{
    redisReply *reply = world_admin(world, "XLEN %s{0}:out", world->prefix);
    uint64_t n = (uint64_t)reply->integer;
    freeReplyObject(reply);
    return n;
}

/* Units, orders and outbox entries say the same: so many sold. */
static void assert_sold(struct world *world, uint64_t sold)
{
    struct gate_request request = {.kind = GATE_REQUEST_ITEM, .item = ITEM};
    world_ask(world, &request);
    assert_true(gate_request_done(&request));
    assert_int_equal(STOCK - sold, request.view.available);
    assert_int_equal(sold, request.view.locked);
    assert_int_equal(STOCK, request.view.total);
    assert_int_equal(sold, outbox(world));
}

static void count(struct world *world, struct redis_gate_numbers *ret_numbers)
{
    redis_gate_count(world->gate, 0, ret_numbers);
}

/* Everyone asks again, and has an order; how many had one already. */
static int ask_again(struct world *world)
{
    int existed = 0;
    buy_all(world);
    collect_all(world);
    for (int i = 0; i < BUYERS; i++) {
        assert_true(gate_request_done(&requests[i]));
        assert_true(requests[i].has_order);
        assert_int_equal(ORDER_QUEUED, requests[i].order.state);
        assert_int_equal(2000, requests[i].order.created_at_ms);
        existed += requests[i].existed;
    }
    assert_sold(world, BUYERS);
    return existed;
}

static void scripts_forgotten_in_the_middle_are_loaded_again(void **state)
{
    (void)state;
    struct world *world = world_new(TIMEOUT_MS);
    struct redis_gate_numbers numbers;
    load(world);
    for (uint64_t i = 0; i < BUYERS; i++) {
        buy(&requests[i], i + 1);
        assert_int_equal(GATE_PENDING, gate_submit(redis_gate_port(world->gate), &requests[i]));
        if (i % 50 == 25) {
            (void)gate_flush(redis_gate_port(world->gate), 0);
            world_do(world, "SCRIPT FLUSH");
        }
    }
    collect_all(world);
    for (int i = 0; i < BUYERS; i++) {
        assert_true(gate_request_done(&requests[i]));
        assert_false(requests[i].existed);
    }
    assert_sold(world, BUYERS);
    count(world, &numbers);
    assert_true(numbers.links.reloads > 0);
    assert_int_equal(0, numbers.links.losses);
    world_free(world);
}

static void who_asks_after_a_cut_before_the_decision_is_decided_once(void **state)
{
    (void)state;
    struct proxy proxy;
    proxy_open(&proxy);
    struct world *world = world_behind(&proxy, TIMEOUT_MS);
    load(world);
    proxy.mode = PROXY_HOLD;
    buy_all(world);
    (void)gate_flush(redis_gate_port(world->gate), 0);
    proxy_cut(&proxy);
    proxy.mode = PROXY_PASS;
    collect_all(world);
    for (int i = 0; i < BUYERS; i++) {
        assert_int_equal(GATE_OUTCOME_UNKNOWN, requests[i].outcome);
        assert_false(requests[i].has_order);
    }
    world_reconnect(world);
    assert_sold(world, 0);
    assert_int_equal(0, ask_again(world));
    world_free(world);
    proxy_close(&proxy);
}

static void who_asks_after_a_cut_behind_the_decision_gets_his_order(void **state)
{
    (void)state;
    struct proxy proxy;
    proxy_open(&proxy);
    struct world *world = world_behind(&proxy, TIMEOUT_MS);
    load(world);
    proxy.mode = PROXY_DROP_ANSWERS;
    buy_all(world);
    while (outbox(world) < BUYERS) {
        world_turn(world);
        assert_null(gate_collect(redis_gate_port(world->gate), 0));
    }
    proxy_cut(&proxy);
    proxy.mode = PROXY_PASS;
    collect_all(world);
    for (int i = 0; i < BUYERS; i++) {
        assert_int_equal(GATE_OUTCOME_UNKNOWN, requests[i].outcome);
    }
    world_reconnect(world);
    assert_int_equal(BUYERS, ask_again(world));
    world_free(world);
    proxy_close(&proxy);
}

/* The real thing: how many were decided is up to the moment, that the sum is right is not. */
static void a_killed_client_comes_back(void **state)
{
    (void)state;
    struct world *world = world_new(TIMEOUT_MS);
    struct redis_gate_numbers numbers;
    load(world);
    for (int round = 0; round < 20; round++) {
        buy_all(world);
        (void)gate_flush(redis_gate_port(world->gate), 0);
        world_do(world, "CLIENT KILL TYPE normal SKIPME yes");
        collect_all(world);
        for (int i = 0; i < BUYERS; i++) {
            assert_true(gate_request_done(&requests[i]) ||
                        requests[i].outcome == GATE_OUTCOME_UNKNOWN);
        }
        while (redis_gate_ready(world->gate, 0, 0)) { /* the end may come behind the answers */
            world_turn(world);
            assert_null(gate_collect(redis_gate_port(world->gate), 0));
        }
        world_reconnect(world);
    }
    (void)ask_again(world);
    count(world, &numbers);
    assert_int_equal(20, numbers.links.losses);
    world_free(world);
}

static void an_answer_that_takes_too_long_is_not_known(void **state)
{
    (void)state;
    struct proxy proxy;
    proxy_open(&proxy);
    struct world *world = world_behind(&proxy, TIMEOUT_MS);
    load(world);
    proxy.mode = PROXY_HOLD;
    buy_all(world);
    world->moved_us += (int64_t)(TIMEOUT_MS - 1000) * 1000;
    assert_null(gate_collect(redis_gate_port(world->gate), 0));
    assert_true(redis_gate_ready(world->gate, 0, 0));
    world->moved_us += 1000 * 1000;
    collect_all(world);
    for (int i = 0; i < BUYERS; i++) {
        assert_int_equal(GATE_OUTCOME_UNKNOWN, requests[i].outcome);
    }
    assert_string_equal("no answer in time", redis_gate_trouble(world->gate, 0, 0));
    /* A link that is down takes nothing: known at once, and undecided. */
    assert_false(redis_gate_ready(world->gate, 0, 0));
    buy(&requests[0], 1);
    assert_int_equal(GATE_ANSWERED, gate_submit(redis_gate_port(world->gate), &requests[0]));
    assert_int_equal(GATE_OUTCOME_AWAY, requests[0].outcome);
    proxy_cut(&proxy);
    proxy.mode = PROXY_PASS;
    world_reconnect(world);
    (void)ask_again(world);
    world_free(world);
    proxy_close(&proxy);
}

static void a_server_that_is_away_is_tried_with_growing_pauses(void **state)
{
    (void)state;
    struct proxy proxy;
    proxy_open(&proxy);
    struct world *world = world_behind(&proxy, TIMEOUT_MS);
    struct redis_gate_numbers before;
    struct redis_gate_numbers after;
    load(world);
    proxy_close(&proxy);
    world->proxy = NULL;
    while (redis_gate_ready(world->gate, 0, 0)) {
        world_turn(world);
        assert_null(gate_collect(redis_gate_port(world->gate), 0));
    }
    /* Pauses of half to all of 1, 2, 4 ... 50 ms: in ten seconds, moved on millisecond by
     * millisecond, between 200 and 400 and some more for the short ones. */
    count(world, &before);
    for (int i = 0; i < 10000; i++) {
        world->moved_us += 1000;
        assert_null(gate_collect(redis_gate_port(world->gate), 0));
    }
    count(world, &after);
    uint64_t tries = after.links.connects - before.links.connects;
    assert_in_range(tries, 100, 450);
    buy(&requests[0], 1);
    assert_int_equal(GATE_ANSWERED, gate_submit(redis_gate_port(world->gate), &requests[0]));
    assert_int_equal(GATE_OUTCOME_AWAY, requests[0].outcome);
    world_free(world);
}

/* Nothing is decided: a buy, an event of each script, a question. */
static void assert_stale(struct world *world, uint64_t epoch)
{
    const enum gate_kind kinds[] = {GATE_CONFIRM, GATE_RESTOCK, GATE_PAUSE, GATE_FORGET};
    struct gate_request request;
    buy(&request, 7);
    world_ask(world, &request);
    assert_int_equal(GATE_OUTCOME_UNKNOWN, request.outcome);
    assert_false(request.has_order);
    for (size_t i = 0; i < sizeof(kinds) / sizeof(kinds[0]); i++) {
        struct gate_command command = {.kind = kinds[i],
                                       .event = 3,
                                       .id = order_id_once(ITEM, 7, 0),
                                       .sale = 1,
                                       .item = ITEM,
                                       .qty = 5,
                                       .amount = 5};
        struct segment_call call = world_event(world, &command);
        call.epoch = epoch;
        world_apply(world, &call);
        assert_int_equal(SEGMENT_STALE, call.outcome);
    }
    request = (struct gate_request){.kind = GATE_REQUEST_ORDER, .id = order_id_once(ITEM, 7, 0)};
    world_ask(world, &request);
    assert_int_equal(GATE_OUTCOME_UNKNOWN, request.outcome);
    request = (struct gate_request){.kind = GATE_REQUEST_TICKET, .item = ITEM, .user = 7};
    world_ask(world, &request);
    assert_int_equal(GATE_OUTCOME_UNKNOWN, request.outcome);
}

static void another_epoch_decides_nothing(void **state)
{
    (void)state;
    struct world *world = world_new(TIMEOUT_MS);
    load(world);
    const uint64_t wrong[] = {0, world->epoch - 1, world->epoch + 1, UINT64_MAX};
    for (size_t i = 0; i < sizeof(wrong) / sizeof(wrong[0]); i++) {
        gate_place(redis_gate_port(world->gate), 0, wrong[i]);
        assert_stale(world, wrong[i]);
    }
    gate_place(redis_gate_port(world->gate), 0, world->epoch);
    assert_sold(world, 0);
    world_free(world);
}

static void another_run_id_decides_nothing(void **state)
{
    (void)state;
    struct world *world = world_new(TIMEOUT_MS);
    load(world);
    world_other_run(world);
    assert_stale(world, world->epoch);
    assert_int_equal(0, outbox(world));
    world_free(world);
}

/* The server comes back with all its data, and is another one all the same. */
static void a_restarted_server_decides_nothing_until_it_is_claimed(void **state)
{
    (void)state;
    struct world *world = world_new(TIMEOUT_MS);
    load(world);
    struct gate_request request;
    buy(&request, 1);
    world_ask(world, &request);
    assert_true(gate_request_done(&request));
    world_do(world, "SAVE");
    world_restart(world);
    while (redis_gate_ready(world->gate, 0, 0)) {
        world_turn(world);
        assert_null(gate_collect(redis_gate_port(world->gate), 0));
    }
    world_reconnect(world);
    assert_int_equal(1, outbox(world)); /* it kept everything */
    assert_stale(world, world->epoch);
    load(world);
    buy(&request, 1);
    world_ask(world, &request);
    assert_true(gate_request_done(&request));
    assert_false(request.existed);
    world_free(world);
}

static void an_emptied_server_sells_nothing(void **state)
{
    (void)state;
    struct world *world = world_new(TIMEOUT_MS);
    load(world);
    buy_all(world);
    collect_all(world);
    assert_sold(world, BUYERS);
    buy_all(world);
    (void)gate_flush(redis_gate_port(world->gate), 0);
    world_do(world, "FLUSHALL");
    collect_all(world);
    assert_stale(world, world->epoch);
    redisReply *keys = world_admin(world, "KEYS *");
    assert_int_equal(0, keys->elements); /* and wrote nothing */
    freeReplyObject(keys);
    world_free(world);
}

static void a_replica_is_let_go(void **state)
{
    (void)state;
    struct world *world = world_new(TIMEOUT_MS);
    struct gate_request request;
    load(world);
    world_do(world, "REPLICAOF 127.0.0.1 1");
    buy(&request, 1);
    world_ask(world, &request);
    assert_int_equal(GATE_OUTCOME_AWAY, request.outcome);
    assert_false(redis_gate_ready(world->gate, 0, 0));
    while (strstr(redis_gate_trouble(world->gate, 0, 0), "replica") == NULL) {
        world_turn(world);
        assert_null(gate_collect(redis_gate_port(world->gate), 0));
    }
    world_do(world, "REPLICAOF NO ONE");
    world_reconnect(world);
    assert_sold(world, 0);
    assert_int_equal(0, ask_again(world));
    world_free(world);
}

static void a_server_that_may_evict_is_not_asked(void **state)
{
    (void)state;
    struct world *world = world_new(TIMEOUT_MS);
    world_do(world, "CONFIG SET maxmemory 500mb maxmemory-policy allkeys-lru");
    world_do(world, "CLIENT KILL TYPE normal SKIPME yes");
    while (strstr(redis_gate_trouble(world->gate, 0, 0), "evict") == NULL) {
        world_turn(world);
        assert_null(gate_collect(redis_gate_port(world->gate), 0));
    }
    world_do(world, "CONFIG SET maxmemory 0 maxmemory-policy noeviction");
    world_reconnect(world);
    world_free(world);
}

static void a_full_server_changes_nothing(void **state)
{
    (void)state;
    struct world *world = world_new(TIMEOUT_MS);
    struct gate_request request;
    load(world);
    world_do(world, "CONFIG SET maxmemory 1");
    buy(&request, 1);
    world_ask(world, &request);
    assert_int_equal(GATE_OUTCOME_AWAY, request.outcome);
    world_do(world, "CONFIG SET maxmemory 0");
    assert_sold(world, 0);
    assert_int_equal(0, ask_again(world));
    world_free(world);
}

/* The outbox is written before the units are taken, because its write can fail. */
static void an_outbox_that_takes_nothing_changes_nothing(void **state)
{
    (void)state;
    struct world *world = world_new(TIMEOUT_MS);
    struct gate_request request;
    load(world);
    world_do(world, "SET %s{0}:out no-stream", world->prefix);
    buy(&request, 1);
    world_ask(world, &request);
    assert_false(gate_request_done(&request));
    world_do(world, "DEL %s{0}:out", world->prefix);
    world_reconnect(world);
    assert_sold(world, 0);
    assert_int_equal(0, ask_again(world));
    world_free(world);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(scripts_forgotten_in_the_middle_are_loaded_again),
        cmocka_unit_test(who_asks_after_a_cut_before_the_decision_is_decided_once),
        cmocka_unit_test(who_asks_after_a_cut_behind_the_decision_gets_his_order),
        cmocka_unit_test(a_killed_client_comes_back),
        cmocka_unit_test(an_answer_that_takes_too_long_is_not_known),
        cmocka_unit_test(a_server_that_is_away_is_tried_with_growing_pauses),
        cmocka_unit_test(another_epoch_decides_nothing),
        cmocka_unit_test(another_run_id_decides_nothing),
        cmocka_unit_test(a_restarted_server_decides_nothing_until_it_is_claimed),
        cmocka_unit_test(an_emptied_server_sells_nothing),
        cmocka_unit_test(a_replica_is_let_go),
        cmocka_unit_test(a_server_that_may_evict_is_not_asked),
        cmocka_unit_test(a_full_server_changes_nothing),
        cmocka_unit_test(an_outbox_that_takes_nothing_changes_nothing),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
