/*
 * The distributed engine's part of `sluice serve`: the gate on Redis, the queue on RabbitMQ, the
 * leases in the ledger, and the threads for the roles of the process. serve.c creates it if
 * redis.url is set and calls, in this order:
 *
 *   distributed_open    before the journal: the segments, and the spool that the journal fills
 *   distributed_join    after journal and ledger: the gate's port, the ledger writer's event sink
 *   distributed_start   after the loops are created: starts the threads
 *   distributed_stop    after the loops have ended, before the ledger writer ends
 *
 * Errors are logged with advice.
 */
#ifndef SLUICE_APP_DISTRIBUTED_H
#define SLUICE_APP_DISTRIBUTED_H

#include "app/assembly.h"
#include "app/config.h"
#include "app/ledger_backends.h"

struct distributed;

int distributed_open(const struct config *config, uint32_t loops, struct clock_port *clock,
                     struct distributed **ret_distributed);
uint32_t distributed_segments(const struct distributed *distributed);
struct spool *distributed_spool(struct distributed *distributed);
/* Sets in parts->options: gate, and of ledger_writer: event_sink, shared and mailboxes. */
int distributed_join(struct distributed *distributed, struct assembly *parts,
                     struct ledger_backends *ledger_backends);
/* Readable when the loop has answers to collect. */
int distributed_fd(const struct distributed *distributed, uint32_t loop);
int distributed_start(struct distributed *distributed, struct assembly *parts);
/* Applies settings that SIGHUP may change, at once. */
void distributed_reload(struct distributed *distributed, const struct config *config);
void distributed_stop(struct distributed *distributed);
/* After the ledger writer's thread has ended. NULL is fine. */
void distributed_free(struct distributed *distributed);

#endif
