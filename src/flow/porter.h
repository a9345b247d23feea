/*
 * The porter brings decisions from the queue to the office: taken, booked, and only then
 * acknowledged. Several porters may run; what one holds when it dies is delivered to another, and
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
#ifndef SLUICE_FLOW_PORTER_H
#define SLUICE_FLOW_PORTER_H

#include "flow/bookings.h"
#include "flow/inside_time.h"
#include "port/queue.h"

struct porter;

int porter_new(struct queue *queue, struct bookings *bookings, struct inside_time *time,
               struct metrics_slot *metrics, struct porter **ret_porter);
void porter_free(struct porter *porter);
/* One round; waits at most wait_ms for something to do. */
void porter_turn(struct porter *porter, int64_t wait_ms);

#endif
