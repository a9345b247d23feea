/* The conformance suite on the embedded gate, with a full audit after every step. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "gate_suite.h"

struct embedded {
    struct gate gate;
    void *memory;
};

static void reset(void *context, struct gate_sizes sizes, struct gate_shares shares)
{
    struct embedded *embedded = context;
    free(embedded->memory);
    embedded->memory = NULL;
    assert_int_equal(0, posix_memalign(&embedded->memory, 64, gate_bytes(sizes)));
    memset(embedded->memory, 0, gate_bytes(sizes));
    gate_init(&embedded->gate, sizes, embedded->memory, 42);
    embedded->gate.shares = shares;
}

static enum verdict step(void *context, const struct gate_command *command,
                         struct gate_effects *ret_effects)
{
    struct embedded *embedded = context;
    enum verdict verdict = gate_step(&embedded->gate, command, ret_effects);
    gate_audit(&embedded->gate);
    return verdict;
}

static enum verdict again(void *context, const struct gate_command *command)
{
    struct gate_command accepted = *command;
    struct gate_effects effects;
    accepted.accepted = true;
    return step(context, &accepted, &effects);
}

static bool item(void *context, uint64_t id, struct item_view *ret_view)
{
    struct embedded *embedded = context;
    uint32_t slot = gate_find_item(&embedded->gate, id);
    if (slot == GATE_NONE) {
        return false;
    }
    gate_view_item(&embedded->gate, slot, ret_view);
    return true;
}

static bool order(void *context, struct order_id id, struct order_view *ret_view)
{
    struct embedded *embedded = context;
    uint32_t slot = gate_find_order(&embedded->gate, id);
    if (slot == GATE_NONE) {
        return false;
    }
    gate_view_order(&embedded->gate, slot, ret_view);
    return true;
}

static void test_embedded_gate_conforms(void **state)
{
    (void)state;
    struct embedded embedded = {.memory = NULL};
    struct gate_under_test gate = {&embedded, reset, step, again, item, order};
    int histories = 0;
    int steps = 0;
    gate_suite_count(&histories, &steps);
    print_message("%d histories, %d steps\n", histories, steps);
    assert_true(histories >= 30);
    assert_int_equal(0, gate_suite_run(&gate));
    free(embedded.memory);
}

/* A gate that is wrong by one must not pass: the suite itself is tested. */
static enum verdict wrong_step(void *context, const struct gate_command *command,
                               struct gate_effects *ret_effects)
{
    struct gate_command altered = *command;
    if (altered.kind == GATE_LOAD_ITEM) {
        altered.amount++;
    }
    return gate_step(&((struct embedded *)context)->gate, &altered, ret_effects);
}

static void test_a_wrong_gate_is_found(void **state)
{
    (void)state;
    struct embedded embedded = {.memory = NULL};
    struct gate_under_test gate = {&embedded, reset, wrong_step, again, item, order};
    assert_int_equal(1, gate_suite_run(&gate));
    free(embedded.memory);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_embedded_gate_conforms),
        cmocka_unit_test(test_a_wrong_gate_is_found),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
