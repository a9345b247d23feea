/*
 * The distributed engine's part of `sluice serve`: the gate on Redis, the queue on RabbitMQ, the
 * leases in the ledger, and the threads that the process's roles need. serve.c makes it where
 * redis.url is set, and calls it step by step:
 *
 *   distributed_open    before the journal: where the segments are, and the spool the journal fills
 *   distributed_join    after the journal and the ledger: the port the fronts ask, the ledger writer's sink
 *   distributed_start   after the loops are made: threads
 *   distributed_stop    after the loops have ended, before the ledger writer does
 *
 * Errors are logged with what to do.
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
/* Into parts->options: gate, and of ledger_writer event_sink, shared and mailboxes. */
int distributed_join(struct distributed *distributed, struct assembly *parts,
                     struct ledger_backends *ledger_backends);
/* Readable when the loop has something to collect. */
int distributed_fd(const struct distributed *distributed, uint32_t loop);
int distributed_start(struct distributed *distributed, struct assembly *parts);
/* New values of what SIGHUP may change; they count at once. */
void distributed_reload(struct distributed *distributed, const struct config *config);
void distributed_stop(struct distributed *distributed);
/* After the ledger writer's thread has ended. NULL is fine. */
void distributed_free(struct distributed *distributed);

#endif
