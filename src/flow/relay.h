/*
 * The relay moves decisions from the segments' outboxes to the queue, at least once: taken, published,
 * confirmed, and only then marked done. Several relays may run, in several processes; each owns what
 * it has taken, and what a dead one held another claims.
 *
 * What can go wrong: the queue is away. Then the outboxes grow; after a while, or when one of them
 * is full enough (runtime limits), decisions go straight to the ledger writer, which books them in the same way, at
 * a limited rate: the ledger has other work. Always, and as fast as it can, where there is no queue.
 * What is neither confirmed nor booked is never marked done.
 *
 * One thread.
 */
#ifndef SLUICE_FLOW_RELAY_H
#define SLUICE_FLOW_RELAY_H

#include "flow/booking_channel.h"
#include "flow/inside_time.h"
#include "flow/runtime_limits.h"
#include "port/queue.h"

struct relay;

struct relay_options {
    uint32_t window;                             /* decisions under way to the queue at most */
    const struct runtime_limits *runtime_limits; /* direct_*; stays the caller's */
    /* What the outboxes' server says is wrong, for the log; NULL: nobody knows. */
    const char *(*words)(void *context);
    void *words_context;
};

/* All stay the caller's. queue NULL: straight to the ledger writer. bookings: this thread's mailbox. */
int relay_new(struct segments *segments, struct queue *queue,
              struct booking_channel *booking_channel, struct inside_time *time,
              struct metrics_slot *metrics, struct relay_options options, struct relay **ret_relay);
void relay_free(struct relay *relay);
/* One round; waits at most wait_ms for something to do. */
void relay_iterate(struct relay *relay, int64_t wait_ms);

#endif
