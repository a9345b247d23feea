/*
 * The order consumer brings decisions from the queue to the ledger writer: taken, booked, and only then
 * acknowledged. Several order consumers may run; what one holds when it dies is delivered to another, and
 * what was booked already is known by its id.
 *
 * What can go wrong: the ledger is away: the messages are held, and tried again with growing pauses.
 * A segment is away that has to decide some of them again: a bounded number is held for a moment,
 * the others go back to the queue for its pauses, so that messages of other segments are not kept
 * out; they come again until it is back. A message that cannot be read is parked; one that the ledger takes in no form goes round
 * through the queue's pauses and is parked after the last.
 *
 * One thread.
 */
#ifndef SLUICE_FLOW_ORDER_CONSUMER_H
#define SLUICE_FLOW_ORDER_CONSUMER_H

#include "flow/booking_channel.h"
#include "flow/inside_time.h"
#include "port/queue.h"

struct order_consumer;

int order_consumer_new(struct queue *queue, struct booking_channel *booking_channel,
                       struct inside_time *time, struct metrics_slot *metrics,
                       struct order_consumer **ret_order_consumer);
void order_consumer_free(struct order_consumer *order_consumer);
/* One round; waits at most wait_ms for something to do. */
void order_consumer_iterate(struct order_consumer *order_consumer, int64_t wait_ms);

#endif
