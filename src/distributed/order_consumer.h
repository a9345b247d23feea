/*
 * The order consumer takes decisions from the queue, has them booked by the ledger writer, and only
 * then acknowledges them. Several order consumers may run. If one dies, the queue delivers its
 * unacknowledged messages to another; an order that is already booked is known by its id.
 *
 * What can go wrong:
 * - The ledger is away. The messages are held and retried with growing pauses.
 * - A segment that has to decide some messages again is away. A bounded number of them is held for
 *   a moment. The others go back to the queue, which delivers them again after its pauses until the
 *   segment is back. So they do not block messages of other segments.
 * - A message cannot be parsed. It is parked.
 * - The ledger accepts a message in no form. It goes through the queue's retry pauses and is parked
 *   after the last one.
 *
 * One thread.
 */
#ifndef SLUICE_DISTRIBUTED_ORDER_CONSUMER_H
#define SLUICE_DISTRIBUTED_ORDER_CONSUMER_H

#include "distributed/booking_channel.h"
#include "port/inside_time.h"
#include "port/queue.h"

struct order_consumer;

int order_consumer_new(struct queue *queue, struct booking_channel *booking_channel,
                       struct inside_time *time, struct metrics_slot *metrics,
                       struct order_consumer **ret_order_consumer);
void order_consumer_free(struct order_consumer *order_consumer);
/* One iteration. Waits at most wait_ms for something to do. */
void order_consumer_iterate(struct order_consumer *order_consumer, int64_t wait_ms);

#endif
