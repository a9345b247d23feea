/* The conformance suite on the scripts of the simulated segments, and that a wrong one does not pass. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "gate_suite.h"
#include "sim_server.h"

#define RUN 1
#define FENCE 1
#define SERVER_MS 1700000000000 /* later than anything in the suite */

/* Every history has a segment of its own: a new epoch. */
static void reset(void *context, struct gate_sizes sizes, struct gate_shares shares)
{
    struct server_state *server = context;
    struct server_script script = {.kind = SCRIPT_STEP,
                                   .run = RUN,
                                   .now_ms = SERVER_MS,
                                   .epoch = server->epoch + 1,
                                   .fence = FENCE,
                                   .step = {.kind = STEP_BEGIN, .sizes = sizes, .shares = shares}};
    struct server_answer answer;
    server_run(server, &script, &answer);
    assert_int_equal(SEGMENT_DONE, answer.outcome);
    script.step.kind = STEP_OPEN;
    server_run(server, &script, &answer);
    assert_int_equal(SEGMENT_DONE, answer.outcome);
}

static enum verdict run(struct server_state *server, const struct gate_command *command, bool buy,
                        struct gate_effects *ret_effects)
{
    struct server_script script = {.kind = SCRIPT_CALL,
                                   .run = RUN,
                                   .now_ms = SERVER_MS,
                                   .epoch = server->epoch,
                                   .after = server->gate.applied_event,
                                   .buy = buy,
                                   .command = *command};
    struct server_answer answer;
    server_run(server, &script, &answer);
    assert_int_equal(SEGMENT_DONE, answer.outcome);
    *ret_effects = answer.effects;
    return answer.verdict;
}

static enum verdict step(void *context, const struct gate_command *command,
                         struct gate_effects *ret_effects)
{
    return run(context, command, command->kind == GATE_RESERVE, ret_effects);
}

static enum verdict again(void *context, const struct gate_command *command)
{
    struct gate_effects effects;
    return run(context, command, false, &effects);
}

static bool item(void *context, uint64_t id, struct item_view *ret_view)
{
    const struct server_state *server = context;
    uint32_t slot = gate_find_item(&server->gate, id);
    if (slot != GATE_NONE) {
        gate_view_item(&server->gate, slot, ret_view);
    }
    return slot != GATE_NONE;
}

static bool order(void *context, struct order_id id, struct order_view *ret_view)
{
    const struct server_state *server = context;
    uint32_t slot = gate_find_order(&server->gate, id);
    if (slot != GATE_NONE) {
        gate_view_order(&server->gate, slot, ret_view);
    }
    return slot != GATE_NONE;
}

static void test_simulated_gate_conforms(void **state)
{
    (void)state;
    struct server_state server;
    server_state_init(&server);
    struct gate_under_test gate = {&server, reset, step, again, item, order};
    assert_int_equal(0, gate_suite_run(&gate));
    server_state_done(&server);
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
    struct server_state server;
    server_state_init(&server);
    struct gate_under_test gate = {&server, reset, wrong_step, again, item, order};
    assert_int_equal(1, gate_suite_run(&gate));
    server_state_done(&server);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_simulated_gate_conforms),
        cmocka_unit_test(test_a_wrong_gate_is_found),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
