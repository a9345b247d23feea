/*
 * The parts of a server that need neither a thread nor a concrete backend, put together in the one
 * order that is safe: journal into the gate, time from whatever is latest, engine, ledger writer, ledger reader,
 * cursors brought together, fronts. `sluice serve` runs them on threads, sockets, files and SQLite;
 * the simulator runs the same on its own ports.
 *
 * In the distributed engine the journal is the spool's, and the gate is a port that the caller makes
 * between open and join (options.gate, options.ledger_writer.event_sink).
 *
 * An error is logged with what to do; then assembly_free, as after any run.
 */
#ifndef SLUICE_APP_ASSEMBLY_H
#define SLUICE_APP_ASSEMBLY_H

#include "api/api.h"
#include "distributed/loop_notices.h"
#include "distributed/spool.h"
#include "embedded/booking_reader.h"
#include "embedded/gate_event_sink.h"
#include "embedded/gate_memory.h"
#include "journal/janitor.h"

struct assembly_options {
    struct gate_sizes sizes;
    struct journal_options journal;
    struct ledger_writer_options ledger_writer;
    uint32_t loops;
    struct spool *spool;    /* NULL: the embedded engine */
    struct gate_port *gate; /* with a spool: what the fronts ask */
};

/* Slots of metrics behind the loops': ledger writer, journal, janitor; and of the distributed engine relay,
 * order consumer and promise resolver; and the reconciler's, the event publisher's, the payment consumer's and the cluster status's. */
enum {
    SLOT_LEDGER_WRITER,
    SLOT_JOURNAL,
    SLOT_JANITOR,
    SLOT_RELAY,
    SLOT_ORDER_CONSUMER,
    SLOT_PROMISE_RESOLVER,
    SLOT_RECONCILER,
    SLOT_EVENT_PUBLISHER,
    SLOT_PAYMENT_CONSUMER,
    SLOT_CLUSTER_STATUS,
    ASSEMBLY_SLOTS
};

struct assembly {
    struct assembly_options options;
    struct gate gate;
    void *gate_memory;
    struct journal *journal;
    struct journal_found found;
    struct inside_time time;
    struct metrics metrics;
    struct waker wakers[LOOPS_MAX];
    /* of the embedded engine */
    struct embedded_gate *embedded_gate;
    struct gate_event_sink gate_event_sink;
    struct booking_reader booking_reader;
    struct gate_memory_snapshots snapshots;
    /* of the distributed engine */
    struct loop_notices *loop_notices;
    struct catalog *catalog;
    struct ledger_writer *ledger_writer;
    struct ledger_reader *ledger_reader;
    struct janitor janitor;
    struct api_shared shared; /* settings, demo, private_health, tokens_remembered: the owner's */
    struct api_worker *workers[LOOPS_MAX];
};

/* Into a zeroed struct. The gate's memory, the journal replayed into it (or into the spool), the
 * catalog, and inside time. */
int assembly_open(struct assembly *assembly, const struct assembly_options *options,
                  struct disk *disk, struct clock_port *clock);
/* Everything that works on the ledger; time goes on from the latest it has seen, too. */
int assembly_join(struct assembly *assembly, struct ledger *writer, struct ledger *reader);
/* Brings gate and ledger together. Whatever flushes the journal has to be running. The error is the
 * caller's to log, with the ledger's own words. */
int assembly_catch_up(struct assembly *assembly);
/* One front on its loop; `wake` ends that loop's sleep. */
int assembly_worker(struct assembly *assembly, uint32_t loop, struct net *net,
                    void (*wake)(void *context), void *context);
/* Buyers can be served. */
void assembly_ready(struct assembly *assembly);
void assembly_free(struct assembly *assembly);

/* Logs why there will be no server; returns the error. */
int assembly_fail(const char *what, int error, const char *more);

#endif
