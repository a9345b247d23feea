/*
 * The parts of a server that need neither a thread nor a concrete backend, put together in the one
 * safe order: journal into the gate, time, engine, ledger writer, ledger reader, cursors, fronts.
 * `sluice serve` runs them on threads, sockets, files and SQLite; the simulator runs them on its
 * own ports.
 *
 * In the distributed engine the journal fills the spool, and the caller creates the gate's port
 * between open and join (options.gate, options.ledger_writer.event_sink).
 *
 * Errors are logged with advice. Call assembly_free after an error, too.
 */
#ifndef SLUICE_APP_ASSEMBLY_H
#define SLUICE_APP_ASSEMBLY_H

#include "api/api.h"
#include "app/start_clock.h"
#include "distributed/loop_notices.h"
#include "distributed/spool.h"
#include "embedded/booking_reader.h"
#include "embedded/gate_event_sink.h"
#include "embedded/gate_memory.h"
#include "journal/janitor.h"

struct assembly_options {
    struct gate_sizes sizes;
    struct gate_percents shares; /* of the gate's pools */
    struct journal_options journal;
    struct ledger_writer_options ledger_writer;
    struct start_clock_options clock; /* zeroed: the wall clock is believed */
    uint32_t loops;
    struct spool *spool;    /* NULL: the embedded engine */
    struct gate_port *gate; /* with a spool: the gate that the fronts use */
};

/* Metrics slots after those of the loops: ledger writer, journal, janitor; of the distributed
 * engine: relay, order consumer, promise resolver; then reconciler, event publisher, payment
 * consumer, cluster status, pools. */
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
    SLOT_POOLS, /* the tally thread: pools that several threads use */
    ASSEMBLY_SLOTS
};

struct assembly {
    struct assembly_options options;
    struct gate gate;
    void *gate_memory;
    struct journal *journal;
    struct journal_found found;
    struct inside_time time;
    struct start_clock start_clock;
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
    struct blocks *blocks;
    struct answer_cache *answer_cache;
    struct ledger_writer *ledger_writer;
    struct ledger_reader *ledger_reader;
    struct ledger_reader *operator_reader;
    struct janitor janitor;
    struct api_shared shared; /* the owner sets settings, demo, private_health, tokens_remembered */
    struct api_worker *workers[LOOPS_MAX];
};

/* Into a zeroed struct: allocates the gate, replays the journal into it (or into the spool), and
 * creates the catalog and inside time. */
int assembly_open(struct assembly *assembly, const struct assembly_options *options,
                  struct disk *disk, struct clock_port *clock);
/* Judges the wall clock (start_clock.h): ERR_CLOCK, or ERR_AGAIN: nothing was done yet, call it
 * again in a second. Then creates everything that works on the ledger. In the embedded engine, raises
 * inside time to the latest time in the ledger. reader: of buyers' lists; operator_reader: of
 * operators' lists and reports. */
int assembly_join(struct assembly *assembly, struct ledger *writer, struct ledger *reader,
                  struct ledger *operator_reader);
/* Lets gate and ledger catch up with each other. The journal must be flushed by a running thread.
 * The caller logs the error, with the ledger's own message. */
int assembly_catch_up(struct assembly *assembly);
/* Creates the front of a loop; `wake` ends that loop's sleep. */
int assembly_worker(struct assembly *assembly, uint32_t loop, struct net *net,
                    void (*wake)(void *context), void *context);
/* Counts the pools that several threads use: gate, journal, spool. One thread, about once a second. */
void assembly_count_pools(struct assembly *assembly);
/* From now on buyers are served. */
void assembly_ready(struct assembly *assembly);
void assembly_free(struct assembly *assembly);

/* Logs why the server does not start; returns the error. */
int assembly_fail(const char *what, int error, const char *more);

#endif
