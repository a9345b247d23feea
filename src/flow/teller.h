/*
 * The teller takes payments from a queue and brings them to the office: the same operation as
 * POST /v1/payments, for shops whose payment system speaks to a message broker. Who may put messages
 * there is the broker's to say; there is no signature.
 *
 * Happy path: taken, read, posted to the office; the ledger has committed; acknowledged. A payment
 * is known by its id: one that comes twice, or again because its ack was lost, is paid once.
 *
 * What can go wrong: the ledger is away: messages are held and tried again with growing pauses. The
 * order is still on its way to the ledger, or nobody can say: later, through the queue's pauses, as
 * often as it takes. What no time will change (wrong amount, expired, another payment's order, no
 * such order, no payment at all) is parked with the refusal's code as its reason, logged and
 * counted: there the shop finds what to refund.
 *
 * One thread. The desk of the office and the lane of the gate are its own.
 */
#ifndef SLUICE_FLOW_TELLER_H
#define SLUICE_FLOW_TELLER_H

#include "flow/await.h"
#include "flow/catalog.h"
#include "flow/inside_time.h"
#include "flow/office.h"
#include "flow/places.h"
#include "port/queue.h"

struct teller;

/* All of them stay the caller's. */
struct teller_parts {
    struct queue *queue; /* a consumer */
    struct office *office;
    uint32_t loops;
    uint32_t desk;
    struct gate_port *gate;
    uint32_t lane;
    struct await await; /* for the gate's answers */
    struct places *places;
    struct catalog *catalog;
    struct inside_time *time;
    struct metrics_slot *metrics;
};

int teller_new(const struct teller_parts *parts, struct teller **ret_teller);
void teller_free(struct teller *teller);
/* One round; waits at most wait_ms for something to do. */
void teller_turn(struct teller *teller, int64_t wait_ms);

#endif
