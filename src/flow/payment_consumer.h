/*
 * The payment consumer takes payments from a queue and brings them to the ledger writer: the same operation as
 * POST /v1/payments, for shops whose payment system speaks to a message broker. Who may put messages
 * there is the broker's to say; there is no signature.
 *
 * Happy path: taken, read, posted to the ledger writer; the ledger has committed; acknowledged. A payment
 * is known by its id: one that comes twice, or again because its ack was lost, is paid once.
 *
 * What can go wrong: the ledger is away: messages are held and tried again with growing pauses. The
 * order is still on its way to the ledger, or nobody can say: later, through the queue's pauses, as
 * often as it takes. What no time will change (wrong amount, expired, another payment's order, no
 * such order, no payment at all) is parked with the refusal's code as its reason, logged and
 * counted: there the shop finds what to refund.
 *
 * One thread. The mailbox of the ledger writer and the connection set of the gate are its own.
 */
#ifndef SLUICE_FLOW_PAYMENT_CONSUMER_H
#define SLUICE_FLOW_PAYMENT_CONSUMER_H

#include "flow/blocking.h"
#include "flow/catalog.h"
#include "flow/inside_time.h"
#include "flow/ledger_writer.h"
#include "flow/segment_table.h"
#include "port/queue.h"

struct payment_consumer;

/* All of them stay the caller's. */
struct payment_consumer_parts {
    struct queue *queue; /* a consumer */
    struct ledger_writer *ledger_writer;
    uint32_t loops;
    uint32_t mailbox;
    struct gate_port *gate;
    uint32_t connection_set;
    struct blocking blocking; /* for the gate's answers */
    struct segment_table *segment_table;
    struct catalog *catalog;
    struct inside_time *time;
    struct metrics_slot *metrics;
};

int payment_consumer_new(const struct payment_consumer_parts *parts,
                         struct payment_consumer **ret_payment_consumer);
void payment_consumer_free(struct payment_consumer *payment_consumer);
/* One round; waits at most wait_ms for something to do. */
void payment_consumer_iterate(struct payment_consumer *payment_consumer, int64_t wait_ms);

#endif
