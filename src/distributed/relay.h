/*
 * The relay moves decisions from the segments' outboxes to the queue, at least once: take, publish,
 * wait for the confirm, and only then remove from the outbox. Several relays may run, in several processes. Each
 * owns what it has taken; another relay claims what a dead one held.
 *
 * What can go wrong: the queue is away, and the outboxes grow. After a while, or when an outbox is
 * full enough (distributed/runtime_limits.h), decisions go directly to the ledger writer, which books them
 * the same way. The rate is limited, because the ledger has other work. Without a queue the relay
 * always works like this, at full speed.
 *
 * What stays true: no decision is removed from its outbox before it is confirmed or booked.
 *
 * One thread.
 */
#ifndef SLUICE_DISTRIBUTED_RELAY_H
#define SLUICE_DISTRIBUTED_RELAY_H

#include "distributed/booking_channel.h"
#include "distributed/runtime_limits.h"
#include "port/inside_time.h"
#include "port/queue.h"

struct relay;

struct relay_options {
    /* The most decisions that are taken and not yet removed. */
    uint32_t window;
    const struct runtime_limits *runtime_limits; /* direct_*; owned by the caller */
    /* Returns what the outboxes' server says is wrong, for the log. NULL: unknown. */
    const char *(*words)(void *context);
    void *words_context;
};

/* The caller owns all of them. queue NULL: everything goes directly to the ledger writer.
 * booking_channel: of this thread. */
int relay_new(struct segments *segments, struct queue *queue,
              struct booking_channel *booking_channel, struct inside_time *time,
              struct metrics_slot *metrics, struct relay_options options, struct relay **ret_relay);
void relay_free(struct relay *relay);
/* One iteration. Waits at most wait_ms for something to do. */
void relay_iterate(struct relay *relay, int64_t wait_ms);

#endif
