/* The layout of a segment's keys on a real server: keys of another version are left alone, and a look
 * shows the pools. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>

#include <cmocka.h>

#include "redis_world.h"

#define ITEM 12

static const struct gate_sizes sizes = {.orders = 500, .buyers = 400, .items = 4, .sales = 2};

static enum segment_outcome fill(struct world *world, uint64_t epoch)
{
    const struct segment_step steps[] = {
        {.kind = STEP_BEGIN, .sizes = sizes},
        {.kind = STEP_SALE,
         .sale = 1,
         .state = SALE_OPEN,
         .starts_at_ms = 1000,
         .ends_at_ms = 9000},
        {.kind = STEP_ITEM, .sale = 1, .item = ITEM, .total = 100, .available = 100},
        {.kind = STEP_OPEN}};
    return world_rebuild(world, epoch, 0, steps, 4);
}

static struct world *filled(void)
{
    struct world *world = world_new(60000);
    assert_int_equal(SEGMENT_DONE, fill(world, ++world->epoch));
    gate_place(redis_gate_port(world->gate), 0, world->epoch);
    return world;
}

static void buy(struct world *world, uint64_t user, uint32_t sequence)
{
    struct gate_request request = {.kind = GATE_REQUEST_BUY,
                                   .id = order_id_fresh(ITEM, 2000, sequence * SEGMENTS_MAX),
                                   .user = user,
                                   .item = ITEM,
                                   .qty = 2,
                                   .ticket_expires_ms = 50000,
                                   .now_ms = 2000};
    world_ask(world, &request);
    assert_true(gate_request_done(&request));
}

/* Scripts of two versions never work on the same keys. */
static void keys_of_another_version_are_not_touched(void **state)
{
    (void)state;
    static const struct {
        const char *layout;
        enum segment_outcome outcome;
        bool older;
    } cases[] = {{"", SEGMENT_STALE, true},
                 {" 1", SEGMENT_STALE, true},
                 {" closed", SEGMENT_STALE, true},
                 {" 3", SEGMENT_NOT_KNOWN, false},
                 {" 3 closed", SEGMENT_NOT_KNOWN, false},
                 {" 2 opened", SEGMENT_NOT_KNOWN, false},
                 {" 2", SEGMENT_DONE, false}};
    struct world *world = filled();
    char place[80];
    redisReply *now = world_admin(world, "HGET %s{0}:meta place", world->prefix);
    (void)snprintf(place, sizeof(place), "%s", now->str);
    freeReplyObject(now);
    *strrchr(place, ' ') = '\0';
    for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
        struct segment_state seen;
        struct segment_call call =
            world_event(world, &(struct gate_command){.kind = GATE_PAUSE, .event = 1, .sale = 1});
        bool same = cases[i].outcome == SEGMENT_DONE;
        char other[96];
        (void)snprintf(other, sizeof(other), "%s%s", place, cases[i].layout);
        world_do(world, "HSET %s{0}:meta place %s", world->prefix, other);
        segments_look(world->segments, 0, &seen);
        assert_int_equal(cases[i].outcome, seen.outcome);
        assert_int_equal(cases[i].older, seen.older);
        segments_apply(world->segments, &call, 1);
        assert_int_equal(same ? SEGMENT_DONE : SEGMENT_STALE, call.outcome);
        struct gate_request request = {.kind = GATE_REQUEST_ITEM, .item = ITEM};
        world_ask(world, &request);
        assert_int_equal(same ? GATE_OUTCOME_ANSWERED : GATE_OUTCOME_UNKNOWN, request.outcome);
    }
    /* It is made anew under a higher epoch, whatever was there. */
    world_do(world, "HSET %s{0}:meta place %s", world->prefix, place);
    assert_int_equal(SEGMENT_STALE, fill(world, world->epoch));
    assert_int_equal(SEGMENT_DONE, fill(world, ++world->epoch));
    world_free(world);
}

/* Pools and what is left of them, for operators. */
static void a_look_shows_how_full_the_pools_are(void **state)
{
    (void)state;
    struct world *world = filled();
    struct segment_state seen;
    buy(world, 7, 1);
    buy(world, 7, 2);
    segments_look(world->segments, 0, &seen);
    assert_memory_equal(&sizes, &seen.sizes, sizeof(sizes));
    assert_int_equal(2, seen.used.orders);
    assert_int_equal(1, seen.used.buyers);
    assert_int_equal(1, seen.used.items);
    assert_int_equal(1, seen.used.sales);
    world_free(world);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(keys_of_another_version_are_not_touched),
        cmocka_unit_test(a_look_shows_how_full_the_pools_are),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
