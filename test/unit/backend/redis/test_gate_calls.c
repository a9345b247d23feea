/*
 * What the gate on Redis has beyond the gate's table: the outbox and its bound, one write for a turn,
 * segments whose epoch nobody knows, and answers that are none.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>

#include <cmocka.h>

#include "base/err.h"
#include "redis_world.h"

#define ITEM ID_MAX
#define USER (ID_MAX - 1)
#define NOW_MS (TIME_MAX_MS - 5000)
#define TIMEOUT_MS 60000

static const struct gate_sizes sizes = {.orders = 5000, .buyers = 5000, .items = 4, .sales = 2};

static void load(struct world *world, uint32_t limit)
{
    struct world_answer answer;
    struct gate_command sale = {.kind = GATE_LOAD_SALE,
                                .event = 1,
                                .sale = 1,
                                .starts_at_ms = NOW_MS - 10,
                                .ends_at_ms = TIME_MAX_MS};
    struct gate_command item = {.kind = GATE_LOAD_ITEM,
                                .event = 2,
                                .sale = 1,
                                .item = ITEM,
                                .amount = STOCK_MAX,
                                .limit = limit};
    world_claim(world, sizes);
    assert_int_equal(VERDICT_DONE, world_step(world, &sale, &answer));
    assert_int_equal(VERDICT_DONE, world_step(world, &item, &answer));
}

static struct gate_request buy(uint64_t user, uint32_t sequence, uint32_t qty)
{
    return (struct gate_request){.kind = GATE_REQUEST_BUY,
                                 .id = order_id_fresh(ITEM, NOW_MS, sequence),
                                 .user = user,
                                 .item = ITEM,
                                 .qty = qty,
                                 .ticket_expires_ms = TIME_MAX_MS,
                                 .now_ms = NOW_MS};
}

static void the_outbox_has_every_decision_once(void **state)
{
    (void)state;
    struct world *world = world_new(TIMEOUT_MS);
    load(world, 3);
    struct gate_request requests[] = {buy(USER, 1, 2), buy(USER, 1, 2), buy(USER, 2, 2),
                                      buy(USER, 3, 1)};
    const enum refusal expected[] = {REFUSAL_NONE, REFUSAL_NONE, REFUSAL_LIMIT_REACHED,
                                     REFUSAL_NONE};
    for (size_t i = 0; i < 4; i++) {
        world_ask(world, &requests[i]);
        assert_int_equal(expected[i], requests[i].refusal);
    }
    assert_true(requests[1].existed);
    assert_int_equal(3, requests[3].held);
    redisReply *entries = world_admin(world, "XRANGE %s{0}:out - +", world->prefix);
    assert_int_equal(2, entries->elements);
    for (size_t i = 0; i < 2; i++) {
        const redisReply *fields = entries->element[i]->element[1];
        char id[ORDER_ID_TEXT + 1] = "";
        char text[160];
        order_id_text(requests[i * 3].id, id);
        (void)snprintf(text, sizeof(text), "1 %llu %s %llu %llu %u %lld",
                       (unsigned long long)world->epoch, id, (unsigned long long)USER,
                       (unsigned long long)ITEM, requests[i * 3].qty, (long long)NOW_MS);
        assert_int_equal(2, fields->elements);
        assert_string_equal("reserve", fields->element[0]->str);
        assert_string_equal(text, fields->element[1]->str);
    }
    freeReplyObject(entries);
    world_free(world);
}

/* What the buyer's page needs is in the record, to the last digit. */
static void an_order_is_shown_whole(void **state)
{
    (void)state;
    struct world *world = world_new(TIMEOUT_MS);
    load(world, 0);
    struct gate_request request = buy(USER, 77, 3);
    world_ask(world, &request);
    struct world_answer answer;
    struct gate_command confirm = {
        .kind = GATE_CONFIRM, .event = 3, .id = request.id, .item = ITEM, .time_ms = TIME_MAX_MS};
    assert_int_equal(VERDICT_DONE, world_step(world, &confirm, &answer));
    request = (struct gate_request){.kind = GATE_REQUEST_ORDER, .id = request.id};
    world_ask(world, &request);
    assert_true(gate_request_done(&request));
    assert_true(order_id_equal(request.id, request.order.id));
    assert_true(request.order.user == USER && request.order.item == ITEM && request.order.qty == 3);
    assert_int_equal(ORDER_LOCKED, request.order.state);
    assert_int_equal(2, request.order.version);
    assert_true(request.order.created_at_ms == NOW_MS && request.order.pay_by_ms == TIME_MAX_MS);
    request =
        (struct gate_request){.kind = GATE_REQUEST_ORDER, .id = order_id_fresh(ITEM, NOW_MS, 78)};
    world_ask(world, &request);
    assert_int_equal(REFUSAL_NOT_FOUND, request.refusal);
    request = (struct gate_request){.kind = GATE_REQUEST_ITEM, .item = ITEM};
    world_ask(world, &request);
    assert_true(request.view.total == STOCK_MAX && request.view.available == STOCK_MAX - 3);
    assert_true(request.view.ends_at_ms == TIME_MAX_MS);
    request = (struct gate_request){.kind = GATE_REQUEST_ITEM, .item = ITEM - 5};
    world_ask(world, &request);
    assert_int_equal(REFUSAL_NO_SUCH_ITEM, request.refusal);
    world_free(world);
}

/* A front whose clock is behind decides with the time the gate has seen already. */
static void a_buy_is_not_decided_with_an_older_time(void **state)
{
    (void)state;
    struct world *world = world_new(TIMEOUT_MS);
    load(world, 0);
    struct gate_request request = buy(USER, 1, 1);
    world_ask(world, &request);
    request = buy(USER, 2, 1);
    request.now_ms = NOW_MS - 1000; /* before the start */
    world_ask(world, &request);
    assert_true(gate_request_done(&request));
    assert_true(request.order.created_at_ms == NOW_MS);
    world_free(world);
}

static void a_turn_leaves_in_one_write(void **state)
{
    (void)state;
    struct world *world = world_new(TIMEOUT_MS);
    static struct gate_request requests[1000];
    struct redis_gate_numbers before;
    struct redis_gate_numbers after;
    load(world, 0);
    redis_gate_count(world->gate, 0, &before);
    for (uint32_t i = 0; i < 100; i++) {
        requests[i] = buy(i + 1, i, 1);
        assert_int_equal(GATE_PENDING, gate_submit(redis_gate_port(world->gate), &requests[i]));
    }
    (void)gate_flush(redis_gate_port(world->gate), 0);
    (void)gate_flush(redis_gate_port(world->gate), 0);
    redis_gate_count(world->gate, 0, &after);
    assert_int_equal(1, after.links.writes - before.links.writes);
    assert_int_equal(100, after.links.calls - before.links.calls);
    for (uint32_t i = 100; i < 1000; i++) {
        requests[i] = buy(i + 1, i, 1);
        assert_int_equal(GATE_PENDING, gate_submit(redis_gate_port(world->gate), &requests[i]));
    }
    struct gate_request over = buy(5000, 5000, 1);
    assert_int_equal(GATE_ANSWERED, gate_submit(redis_gate_port(world->gate), &over));
    assert_int_equal(GATE_OUTCOME_FULL, over.outcome);
    for (int i = 0; i < 1000; i++) { /* in the order they were asked */
        assert_ptr_equal(&requests[i], world_next_ask(world));
        assert_true(gate_request_done(&requests[i]));
    }
    world_ask(world, &over);
    assert_true(gate_request_done(&over));
    world_free(world);
}

/* Ids that cannot be are refused without asking anyone. */
static void impossible_ids_never_reach_redis(void **state)
{
    (void)state;
    struct world *world = world_new(TIMEOUT_MS);
    load(world, 0);
    struct gate_request request = buy(USER, 1, 1);
    request.id = order_id_fresh(ITEM - 1, NOW_MS, 1);
    assert_int_equal(GATE_ANSWERED, gate_submit(redis_gate_port(world->gate), &request));
    assert_int_equal(REFUSAL_NO_SUCH_ITEM, request.refusal);
    request = (struct gate_request){.kind = GATE_REQUEST_TICKET, .item = ID_MAX + 1, .user = USER};
    assert_int_equal(GATE_ANSWERED, gate_submit(redis_gate_port(world->gate), &request));
    assert_int_equal(REFUSAL_NO_SUCH_ITEM, request.refusal);
    /* A fresh id names its segment; one that is made up may name any. */
    request = (struct gate_request){.kind = GATE_REQUEST_ORDER, .id = order_id_fresh(ITEM, 1, 63)};
    request.segment = 63;
    assert_int_equal(GATE_ANSWERED, gate_submit(redis_gate_port(world->gate), &request));
    assert_int_equal(REFUSAL_NOT_FOUND, request.refusal);
    world_free(world);
}

/* Told at once, and nobody is asked. */
static void a_segment_without_an_epoch_is_not_asked(void **state)
{
    (void)state;
    struct world *world = world_new(TIMEOUT_MS);
    struct redis_gate_numbers before;
    struct redis_gate_numbers after;
    load(world, 0);
    gate_place(redis_gate_port(world->gate), 0, 0);
    redis_gate_count(world->gate, 0, &before);
    struct gate_request requests[] = {
        buy(USER, 1, 1),
        {.kind = GATE_REQUEST_TICKET, .item = ITEM, .user = USER},
        {.kind = GATE_REQUEST_ORDER, .id = order_id_fresh(ITEM, NOW_MS, 1)},
        {.kind = GATE_REQUEST_ITEM, .item = ITEM}};
    for (size_t i = 0; i < 4; i++) {
        assert_int_equal(GATE_ANSWERED, gate_submit(redis_gate_port(world->gate), &requests[i]));
        assert_int_equal(GATE_OUTCOME_UNKNOWN, requests[i].outcome);
    }
    redis_gate_count(world->gate, 0, &after);
    assert_int_equal(before.links.calls, after.links.calls);
    gate_place(redis_gate_port(world->gate), 0, world->epoch);
    world_ask(world, &requests[0]);
    assert_true(gate_request_done(&requests[0]));
    world_free(world);
}

static void only_answers_of_the_scripts_are_read(void **state)
{
    (void)state;
    struct codec_answer answer = {.seen = 4711};
    const char *const bad[] = {"",
                               "0",
                               "0 0 0 0 0",
                               "0 0 0 0 0 0 o 1 2 3",
                               "9 0 0 0 0 0",
                               "0 999 0 0 0 0",
                               "0 0 -1 0 0 0",
                               "0 0 0 0 0 0 z 1",
                               "0 0 0 0 0  0",
                               "G",
                               "G x",
                               "Z 1",
                               "0 0 0 0 0 1e+15"};
    for (size_t i = 0; i < sizeof(bad) / sizeof(bad[0]); i++) {
        assert_int_equal(REDIS_NOT_KNOWN, codec_read(span_of(bad[i]), &answer));
    }
    assert_int_equal(4711, answer.seen);
    assert_int_equal(REDIS_STALE, codec_read(span_of("X - -"), &answer));
    assert_int_equal(REDIS_ANSWERED, codec_read(span_of("0 0 1 2 3 4 o 5 6 1 0 2 -7 8"), &answer));
    assert_int_equal(-7, answer.order.created_at_ms);
    assert_int_equal(8, answer.order.pay_by_ms);
    assert_int_equal(REDIS_ANSWERED, codec_read(span_of("0 0 0 0 3 4 t 7"), &answer));
    assert_int_equal(7, answer.taken);
}

static void what_cannot_be_configured_is_refused(void **state)
{
    (void)state;
    struct redis_gate *gate = NULL;
    struct redis_topology *topology = world_topology("127.0.0.1", 1);
    struct redis_gate_config config = {
        .topology = topology, .segments = 1, .loops = 1, .prefix = "p", .in_flight_max = 1};
    config.prefix = "a{b}";
    assert_int_equal(ERR_INVALID, redis_gate_new(&config, &gate));
    config.prefix = "p";
    config.segments = 0;
    assert_int_equal(ERR_INVALID, redis_gate_new(&config, &gate));
    config.segments = SEGMENTS_MAX + 1;
    assert_int_equal(ERR_INVALID, redis_gate_new(&config, &gate));
    config.segments = SEGMENTS_MAX;
    assert_int_equal(0, redis_gate_new(&config, &gate));
    redis_gate_free(gate);
    topology_close(topology);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(the_outbox_has_every_decision_once),
        cmocka_unit_test(an_order_is_shown_whole),
        cmocka_unit_test(a_buy_is_not_decided_with_an_older_time),
        cmocka_unit_test(a_turn_leaves_in_one_write),
        cmocka_unit_test(impossible_ids_never_reach_redis),
        cmocka_unit_test(a_segment_without_an_epoch_is_not_asked),
        cmocka_unit_test(only_answers_of_the_scripts_are_read),
        cmocka_unit_test(what_cannot_be_configured_is_refused),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
