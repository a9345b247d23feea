/*
 * The conformance suite of the gate: a table of small histories. Each row is a command and what a
 * gate must answer: verdict, refusal, what the buyer holds, and the item's counters afterwards. Any
 * implementation that can be driven through struct gate_under_test must pass it unchanged.
 */
#ifndef SLUICE_TEST_GATE_SUITE_H
#define SLUICE_TEST_GATE_SUITE_H

#include "core/gate.h"

struct gate_under_test {
    void *context;
    /* An empty gate with room for exactly these sizes, and these shares of it. */
    void (*reset)(void *context, struct gate_sizes sizes, struct gate_shares shares);
    enum verdict (*step)(void *context, const struct gate_command *command,
                         struct gate_effects *ret_effects);
    /* A RESERVE that was accepted before: decided again, above the shares, too. */
    enum verdict (*again)(void *context, const struct gate_command *command);
    /* False: no such item. */
    bool (*item)(void *context, uint64_t item, struct item_view *ret_view);
    bool (*order)(void *context, struct order_id id, struct order_view *ret_view);
};

/* Runs every history; the first difference is printed and returned as 1. 0: conforms. */
int gate_suite_run(const struct gate_under_test *gate);
/* How many histories and steps there are, for the report. */
void gate_suite_count(int *ret_histories, int *ret_steps);

#endif
