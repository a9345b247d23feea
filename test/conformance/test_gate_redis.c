/* The conformance suite on the gate on Redis, and that a wrong one does not pass. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "gate_suite.h"
#include "redis_world.h"

/* Every history has a segment of its own: a new epoch. */
static void reset(void *context, struct gate_sizes sizes, struct gate_shares shares)
{
    world_claim_shares(context, sizes, shares);
}

/* Buys by port/gate, events by port/segments. Events come without their time: a buy here is never
 * decided with a time below an event's, and the table has buys at such times. */
static enum verdict step(void *context, const struct gate_command *command,
                         struct gate_effects *ret_effects)
{
    struct world_answer answer;
    struct gate_command at = *command;
    if (command->kind != GATE_RESERVE) {
        at.now_ms = 0;
    }
    enum verdict verdict = world_step(context, &at, &answer);
    *ret_effects = (struct gate_effects){.refusal = answer.refusal,
                                         .bound = answer.bound,
                                         .slot = GATE_NONE,
                                         .item_slot = GATE_NONE,
                                         .held = answer.held,
                                         .limit = answer.limit,
                                         .available = answer.available,
                                         .locked = answer.locked,
                                         .cooling_until_ms = answer.cooling_until_ms};
    return verdict;
}

/* As the threads behind the fronts do it. */
static enum verdict again(void *context, const struct gate_command *command)
{
    struct segment_call call = world_event(context, command);
    world_apply(context, &call);
    assert_int_equal(SEGMENT_DONE, call.outcome);
    return call.verdict;
}

static bool item(void *context, uint64_t id, struct item_view *ret_view)
{
    struct gate_request request = {.kind = GATE_REQUEST_ITEM, .item = id};
    world_ask(context, &request);
    *ret_view = request.view;
    return gate_request_done(&request);
}

static bool order(void *context, struct order_id id, struct order_view *ret_view)
{
    struct gate_request request = {.kind = GATE_REQUEST_ORDER, .id = id};
    world_ask(context, &request);
    *ret_view = request.order;
    return gate_request_done(&request);
}

static void test_redis_gate_conforms(void **state)
{
    (void)state;
    struct world *world = world_new(10000);
    struct gate_under_test gate = {world, reset, step, again, item, order};
    int histories = 0;
    int steps = 0;
    gate_suite_count(&histories, &steps);
    print_message("%d histories, %d steps\n", histories, steps);
    assert_true(histories >= 30);
    assert_int_equal(0, gate_suite_run(&gate));
    world_free(world);
}

static enum verdict wrong_step(void *context, const struct gate_command *command,
                               struct gate_effects *ret_effects)
{
    struct gate_command altered = *command;
    if (altered.kind == GATE_LOAD_ITEM) {
        altered.amount++;
    }
    return step(context, &altered, ret_effects);
}

static void test_a_wrong_gate_is_found(void **state)
{
    (void)state;
    struct world *world = world_new(10000);
    struct gate_under_test gate = {world, reset, wrong_step, again, item, order};
    assert_int_equal(1, gate_suite_run(&gate));
    world_free(world);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_redis_gate_conforms),
        cmocka_unit_test(test_a_wrong_gate_is_found),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
