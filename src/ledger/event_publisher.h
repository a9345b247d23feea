/*
 * The event publisher sends every ledger event that concerns the shop to an exchange, as a
 * CloudEvent (ledger/cloudevent.h). It sends them in the ledger's order, at least once, and skips
 * none. Of all processes that share a ledger, one publishes at a time, under a lease.
 *
 * Happy path of an iteration: renew the lease, read more events from the ledger, publish them,
 * collect confirms, and from time to time move the cursor in the ledger to the last event up to
 * which everything is confirmed. The next publisher starts after that cursor; without a cursor it
 * starts at the oldest event.
 *
 * What can go wrong:
 * - A message is not confirmed (the connection was lost, or a bound queue refuses it). Everything
 *   from that message on is published again, after a growing pause.
 * - The process is killed between a confirm and the cursor write, or paused past the end of its
 *   lease. The next publisher repeats messages. Duplicates have the same id and the same bytes.
 * - The exchange is away for long. The publisher drops the lease, because another process may reach
 *   the exchange.
 * - The ledger is away. Nothing is read, and nothing is lost.
 *
 * What stays true: everything up to the cursor is confirmed, whoever moves it, and the cursor never
 * goes back. A consumer that keeps the first copy of each event id sees the ledger's order, unless
 * one of its queues refuses messages.
 *
 * One thread.
 */
#ifndef SLUICE_LEDGER_EVENT_PUBLISHER_H
#define SLUICE_LEDGER_EVENT_PUBLISHER_H

#include "obs/metrics.h"
#include "port/clock.h"
#include "port/lease.h"
#include "port/ledger.h"
#include "port/queue.h"

/* Name of the lease, and of the cursor in the ledger. */
#define EVENT_PUBLISHER_LEASE "events"

struct event_publisher;

/* The caller owns all of these. They are used by the event publisher's thread only. */
struct event_publisher_ports {
    struct queue *queue;      /* publishes events */
    struct ledger *ledger;    /* read; and written, under the lease, if there is one */
    struct lease_port *lease; /* NULL: this process is the only publisher, and `save` is set */
    /* Without a lease: moves the cursor through the ledger's only
     * writer. Returns 0 when it is done. */
    int (*save)(void *context, uint64_t number);
    void *context;
    struct clock_port *clock;
    struct metrics_slot *metrics;
};

struct event_publisher_options {
    const char *source; /* `source` of all its CloudEvents; copied */
    uint32_t window;    /* published and unconfirmed messages, at most */
    int64_t lease_ms;
    int64_t away_ms; /* drop the lease if the exchange is away for this long */
    int64_t save_ms; /* least time between two cursor writes: a crash repeats this much */
};

/* ERR_NOMEM. ERR_INVALID: the source is empty or too long. */
int event_publisher_new(struct event_publisher_ports ports, struct event_publisher_options options,
                        struct event_publisher **ret_event_publisher);
void event_publisher_free(struct event_publisher *event_publisher);
/* One iteration. Waits at most wait_ms for something to do. */
void event_publisher_iterate(struct event_publisher *event_publisher, int64_t wait_ms);
/* Call after the last iteration. Saves the cursor as far as it is confirmed and drops the lease. */
void event_publisher_finish(struct event_publisher *event_publisher);

#endif
