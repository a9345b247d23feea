/* See blocking.h. */
#include "port/blocking.h"

#include "base/check.h"

/* Between two checks of a pending call. Small compared with a round trip that waits for a disk. */
#define POLL_MS 1

int blocking_write(const struct blocking *blocking, struct ledger *ledger, struct ledger_op *op,
                   const char *lease, uint64_t token)
{
    struct ledger_batch batch = {
        .ops = &op, .count = 1, .now_ms = blocking_now(blocking), .lease = lease, .token = token};
    return ledger_write(ledger, &batch);
}

/* Submits all requests, or again those that met no connection, and waits for the answers. Returns
 * how many met no connection. */
static size_t ask(const struct blocking *blocking, struct gate_port *gate,
                  struct gate_request *requests, size_t count, bool again)
{
    size_t under_way = 0;
    size_t away = 0;
    for (size_t i = 0; i < count; i++) {
        CHECK(requests[i].loop == requests[0].loop);
        if (!again || requests[i].outcome == GATE_OUTCOME_AWAY) {
            under_way += gate_submit(gate, &requests[i]) == GATE_PENDING;
        }
    }
    if (under_way > 0) {
        (void)gate_flush(gate, requests[0].loop);
    }
    while (under_way > 0) {
        struct gate_request *answered = gate_collect(gate, requests[0].loop);
        if (answered == NULL) {
            blocking_sleep(blocking, POLL_MS);
        }
        for (; answered != NULL; answered = answered->next) {
            CHECK(under_way > 0);
            under_way--;
        }
    }
    for (size_t i = 0; i < count; i++) {
        away += requests[i].outcome == GATE_OUTCOME_AWAY;
    }
    return away;
}

void blocking_gate_requests(const struct blocking *blocking, struct gate_port *gate,
                            struct gate_request *requests, size_t count, int64_t *away_ms)
{
    if (count == 0) {
        return;
    }
    CHECK(gate_collect(gate, requests[0].loop) == NULL); /* a turn */
    size_t away = ask(blocking, gate, requests, count, false);
    while (away > 0 && *away_ms > 0) {
        blocking_sleep(blocking, POLL_MS);
        *away_ms -= POLL_MS;
        CHECK(gate_collect(gate, requests[0].loop) == NULL);
        away = ask(blocking, gate, requests, count, true);
    }
}
