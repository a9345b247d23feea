/*
 * The payment consumer takes payments from a queue and passes them to the ledger writer. It is the
 * same operation as POST /v1/payments, for shops whose payment system uses a message broker. The
 * broker controls who may publish there; messages carry no signature.
 *
 * Happy path: take a message, parse it, post it to the ledger writer, wait for the commit,
 * acknowledge. A payment is known by its id: a duplicate, or a redelivery after a lost ack, is paid
 * once.
 *
 * What can go wrong:
 * - The ledger is away. Messages are held and retried with growing pauses.
 * - The order has not reached the ledger yet, or nobody can tell. The message goes back for the
 *   queue's pauses, as often as needed.
 * - The payment can never succeed (wrong amount, expired, another payment's order, no such order,
 *   not a payment). It is parked with the refusal's code as its reason, logged and counted. The
 *   shop finds there what to refund.
 *
 * One thread. It has its own mailbox at the ledger writer and its own connection set at the gate.
 */
#ifndef SLUICE_DISTRIBUTED_PAYMENT_CONSUMER_H
#define SLUICE_DISTRIBUTED_PAYMENT_CONSUMER_H

#include "distributed/segment_table.h"
#include "ledger/catalog.h"
#include "ledger/ledger_writer.h"
#include "port/blocking.h"
#include "port/inside_time.h"
#include "port/queue.h"

struct payment_consumer;

/* The caller owns all of them. */
struct payment_consumer_parts {
    struct queue *queue; /* a consumer */
    struct ledger_writer *ledger_writer;
    uint32_t loops;
    uint32_t mailbox;
    struct gate_port *gate;
    uint32_t connection_set;
    struct blocking blocking; /* waits for the gate's answers */
    struct segment_table *segment_table;
    struct catalog *catalog;
    struct inside_time *time;
    struct metrics_slot *metrics;
};

int payment_consumer_new(const struct payment_consumer_parts *parts,
                         struct payment_consumer **ret_payment_consumer);
void payment_consumer_free(struct payment_consumer *payment_consumer);
/* One iteration. Waits at most wait_ms for something to do. */
void payment_consumer_iterate(struct payment_consumer *payment_consumer, int64_t wait_ms);

#endif
