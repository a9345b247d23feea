/*
 * The event publisher's part of `sluice serve`: its thread, and the way its cursor takes into the ledger. In
 * the distributed engine it has a lease and writes the cursor itself; in the embedded one it is
 * alone, and the ledger writer, which alone writes to the ledger, does it for mailbox 0.
 */
#ifndef SLUICE_APP_EVENT_PUBLISHER_THREAD_H
#define SLUICE_APP_EVENT_PUBLISHER_THREAD_H

#include "app/assembly.h"
#include "app/config.h"
#include "port/lease.h"

struct event_publisher_thread;

/* The thread's own: ledger (with a lease a writer, else a reader) and lease, or NULL. seen is told
 * a few times a second how the connection to the broker is; NULL: this is the only one, and its
 * metric is written here. Errors are logged. */
int event_publisher_thread_start(struct assembly *parts, const struct config *config,
                                 struct ledger *ledger, struct lease_port *lease,
                                 void (*seen)(void *context, bool away), void *seen_context,
                                 struct event_publisher_thread **ret_event_publisher_thread);
/* While the ledger writer still answers. NULL is fine, here and below. */
void event_publisher_thread_stop(struct event_publisher_thread *event_publisher_thread);
void event_publisher_thread_free(struct event_publisher_thread *event_publisher_thread);

#endif
