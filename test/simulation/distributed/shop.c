/* The shop beside the sale: its payment system, and its operator's last comparison. See world.h. */
#include <stdio.h>
#include <stdlib.h>

#include "base/check.h"
#include "base/err.h"
#include "world.h"

#define CONFIRM_WAIT_MS 50
#define CONFIRM_LOOKS 20

bool cashier_pays(struct world *world, struct order_id id, const char *payment, int64_t cents)
{
    char text[ORDER_ID_TEXT + 1] = "";
    char body[160];
    order_id_text(id, text);
    int len = snprintf(body, sizeof(body),
                       "{\"payment_id\":\"%s\",\"order_id\":\"%.*s\",\"amount_cents\":%lld}",
                       payment, ORDER_ID_TEXT, text, (long long)cents);
    struct ledger_op op = {.kind = LEDGER_PAY, .id = id};
    uint64_t number = ++world->payments_sent;
    model_writes(world, &op);
    if (queue_publish(&world->cashier.queue, number, (struct span){body, (size_t)len}) != 0) {
        return false;
    }
    world->requests++;
    for (int i = 0; i < CONFIRM_LOOKS; i++) {
        struct queue_outcome outcomes[16];
        size_t count = 0;
        (void)queue_outcomes(&world->cashier.queue, outcomes, 16, CONFIRM_WAIT_MS, &count);
        for (size_t k = 0; k < count; k++) {
            if (outcomes[k].number == number) {
                return outcomes[k].kind == QUEUE_CONFIRMED;
            }
        }
    }
    return false; /* somebody else may have seen the confirm: it is sent again */
}

static void compare(void *context)
{
    struct world *world = context;
    struct process *process = &world->processes[world_below(world, PROCESSES)];
    struct reconciler_call *call = calloc(1, sizeof(*call));
    CHECK(call != NULL);
    reconciler_post(process->engine.reconciler, call);
    while (reconciler_collect(process->engine.reconciler, 0) == NULL) {
        (void)fiber_sleep(100000);
    }
    if (call->error != 0) {
        world_broken(world, 13, "gate and ledger cannot be compared: %s", err_text(call->error));
    } else if (call->result.count > 0) {
        const struct difference *difference = &call->differences[0];
        world_broken(
            world, 13, "a difference where there is none: %s, segment %u, found %llu, not %llu",
            difference_text(difference->kind), difference->segment,
            (unsigned long long)difference->found, (unsigned long long)difference->expected);
    }
    world_note(world, "compared", call->result.items, call->result.orders, call->result.unsure);
    reconciler_call_free(call);
    world->reconciled = true;
}

void reconcile_start(struct world *world)
{
    (void)fiber_start(world->fibers, 0, compare, world);
}
