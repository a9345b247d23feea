/* See await.h. */
#include "flow/await.h"

#include "base/check.h"

/* Between two looks at something under way: small beside a round trip that waits for a disk. */
#define POLL_MS 1

int await_read(const struct await *await, struct ledger *ledger, struct ledger_query *query)
{
    if (ledger_read(ledger, query) == LEDGER_PENDING) {
        while (ledger->ops->collect_query(ledger) != query) {
            await_sleep(await, POLL_MS);
        }
    }
    return query->error;
}

int await_write(const struct await *await, struct ledger *ledger, struct ledger_op *op,
                const char *lease, uint64_t token)
{
    struct ledger_batch batch = {
        .ops = &op, .count = 1, .now_ms = await_now(await), .lease = lease, .token = token};
    if (ledger_write(ledger, &batch) == LEDGER_PENDING) {
        while (ledger->ops->collect_batch(ledger) != &batch) {
            await_sleep(await, POLL_MS);
        }
    }
    return batch.error;
}

void await_asks(const struct await *await, struct gate_port *gate, struct gate_ask *asks,
                size_t count)
{
    size_t under_way = 0;
    for (size_t i = 0; i < count; i++) {
        CHECK(asks[i].loop == asks[0].loop);
        under_way += gate_submit(gate, &asks[i]) == GATE_ASKED;
    }
    if (under_way > 0) {
        (void)gate_flush(gate, asks[0].loop);
    }
    while (under_way > 0) {
        struct gate_ask *answered = gate_collect(gate, asks[0].loop);
        if (answered == NULL) {
            await_sleep(await, POLL_MS);
        }
        for (; answered != NULL; answered = answered->next) {
            CHECK(under_way > 0);
            under_way--;
        }
    }
}
