/*
 * The event publisher's part of `sluice serve`: its thread, and how its cursor is saved. In the
 * distributed engine it has a lease and writes the cursor itself. In the embedded engine it is
 * alone, and the ledger writer, the only writer of the ledger, saves the cursor through mailbox 0.
 */
#ifndef SLUICE_APP_EVENT_PUBLISHER_THREAD_H
#define SLUICE_APP_EVENT_PUBLISHER_THREAD_H

#include "app/assembly.h"
#include "app/config.h"
#include "port/lease.h"

struct event_publisher_thread;

/* Owned by the thread: ledger (with a lease a writer, else a reader) and lease, or NULL. seen is
 * called a few times a second with the state of the connection to the broker; NULL: there is no
 * other connection, and its metric is set here. Errors are logged. */
int event_publisher_thread_start(struct assembly *parts, const struct config *config,
                                 struct ledger *ledger, struct lease_port *lease,
                                 void (*seen)(void *context, bool away), void *seen_context,
                                 struct event_publisher_thread **ret_event_publisher_thread);
/* Call it while the ledger writer still answers. NULL is fine, here and below. */
void event_publisher_thread_stop(struct event_publisher_thread *event_publisher_thread);
void event_publisher_thread_free(struct event_publisher_thread *event_publisher_thread);

#endif
