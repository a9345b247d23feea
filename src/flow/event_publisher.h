/*
 * The event publisher tells the shop what happened: every event of the ledger that is the shop's business goes
 * out as a CloudEvent (flow/cloudevent.h) to an exchange, in the ledger's order, at least once, and
 * none is skipped. Of all processes that share a ledger one does it at a time, by lease.
 *
 * Happy path of a turn: keep the lease; read on in the ledger; announce; hear what the exchange has
 * confirmed; and, now and then, move the cursor in the ledger up to where everything is confirmed.
 * Whoever comes next begins behind that cursor. Without one: at the oldest event there is.
 *
 * What can go wrong: something is not confirmed (the connection was lost, a bound queue refuses).
 * Then everything from there on is announced again, after a growing pause. Killed between a confirm
 * and the cursor, or paused past the lease's end: the next one announces again what was announced.
 * Duplicates have the same id and the same bytes. The exchange is away for long: the lease is given
 * up, for another process may reach it. The ledger is away: nothing is read, nothing is lost.
 *
 * What stays true: behind the cursor everything was confirmed, whoever moves it; it never goes
 * back. Whoever takes each event by its id the first time it comes has them in the ledger's order,
 * unless a queue of his refuses messages.
 *
 * One thread.
 */
#ifndef SLUICE_FLOW_EVENT_PUBLISHER_H
#define SLUICE_FLOW_EVENT_PUBLISHER_H

#include "obs/metrics.h"
#include "port/clock.h"
#include "port/lease.h"
#include "port/ledger.h"
#include "port/queue.h"

/* The lease, and the cursor's name in the ledger. */
#define EVENT_PUBLISHER_LEASE "events"

struct event_publisher;

/* All stay the caller's, and belong to the event publisher's thread. */
struct event_publisher_ports {
    struct queue *queue;      /* a publisher of events */
    struct ledger *ledger;    /* is read; and written under the lease, if there is one */
    struct lease_port *lease; /* NULL: this process is the only one ... */
    /* ... and its cursor is moved by whoever alone writes to the ledger. 0: it is. */
    int (*save)(void *context, uint64_t number);
    void *context;
    struct clock_port *clock;
    struct metrics_slot *metrics;
};

struct event_publisher_options {
    const char *source; /* of all its CloudEvents; copied */
    uint32_t window;    /* announced and not confirmed at most */
    int64_t lease_ms;
    int64_t away_ms; /* the exchange may be away for so long before the lease is given up */
    int64_t save_ms; /* the cursor moves at most so often: that much comes twice after a crash */
};

/* ERR_NOMEM; ERR_INVALID: the source is empty or too long. */
int event_publisher_new(struct event_publisher_ports ports, struct event_publisher_options options,
                        struct event_publisher **ret_event_publisher);
void event_publisher_free(struct event_publisher *event_publisher);
/* One round; waits at most wait_ms for something to do. */
void event_publisher_iterate(struct event_publisher *event_publisher, int64_t wait_ms);
/* The last turn is over: moves the cursor as far as it is known, gives up the lease. */
void event_publisher_finish(struct event_publisher *event_publisher);

#endif
