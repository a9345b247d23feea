/*
 * The distributed engine, put together over ports. `sluice serve` runs it on Redis, RabbitMQ and
 * MariaDB (app/distributed.c), and the simulator runs the same on its own servers.
 *
 * The owner calls, in this order:
 *
 *   engine_open   before the journal is opened: the spool that the journal fills
 *   engine_join   before the ledger writer is made: the gate that the loops ask, the event sink
 *   engine_make   after the ledger writer is made: all other parts
 *   engine_run    on each thread, until it stops: one iteration of that thread
 *   engine_end    on each thread, after its last iteration: gives up leases
 *   engine_free   after the ledger writer's thread has ended
 *
 * Threads: each thread uses only the ports that are its own. What they share has its own locks.
 */
#ifndef SLUICE_DISTRIBUTED_ENGINE_H
#define SLUICE_DISTRIBUTED_ENGINE_H

#include "distributed/balance.h"
#include "distributed/booking_channel.h"
#include "distributed/gate_proxy.h"
#include "distributed/gate_subscriber.h"
#include "distributed/order_consumer.h"
#include "distributed/payment_consumer.h"
#include "distributed/promise_resolver.h"
#include "distributed/reconcile.h"
#include "distributed/recover.h"
#include "distributed/redriver.h"
#include "distributed/relay.h"
#include "distributed/segment_event_sink.h"
#include "distributed/segment_monitor.h"
#include "ledger/reconciler.h"

/* The threads besides the loops that post to the ledger writer. */
enum engine_mailbox {
    MAILBOX_RELAY,
    MAILBOX_ORDER_CONSUMER,
    MAILBOX_PROMISE_RESOLVER,
    MAILBOX_PAYMENT_CONSUMER,
    MAILBOX_COUNT
};

enum engine_thread {
    ENGINE_PROMISE_RESOLVER, /* and the segment monitor */
    ENGINE_GATE_SUBSCRIBER,
    ENGINE_RELAY,
    ENGINE_ORDER_CONSUMER,
    ENGINE_PAYMENT_CONSUMER,
    ENGINE_LEASE,  /* renews the keeper's lease, however long a rebuild takes */
    ENGINE_KEEPER, /* rebuilds segments that need it, refills dry ones */
    ENGINE_RECONCILER,
    ENGINE_THREADS
};

/* Connection sets of the gate behind those of the loops. */
enum engine_connection_set {
    CONNECTION_SET_GATE_SUBSCRIBER,
    CONNECTION_SET_KEEPER,
    CONNECTION_SET_RECONCILER,
    CONNECTION_SET_PAYMENT_CONSUMER,
    CONNECTION_SET_COUNT
};

struct engine_options {
    uint32_t segments;
    uint32_t loops;
    uint32_t requests;         /* gate requests under way on one loop, at most */
    uint32_t promises;         /* the spool's capacity */
    struct gate_sizes sizes;   /* of a segment; may be set until engine_join */
    struct gate_shares shares; /* of a segment's pools; may be set until engine_join */
    uint32_t relay_window;
    int64_t recover_lease_ms; /* longer than reading one segment from the ledger takes */
    int64_t reconcile_bound_ms;
    int64_t reconcile_every_ms; /* 0: only when asked */
    int64_t redrive_ms;
};

/* All that a thread uses alone. What belongs to a thread that is not run may be NULL. The owner may
 * set the ports of threads until engine_make. */
struct engine_ports {
    struct clock_port *clock;
    struct gate_port *gate;
    struct segments *segments[ENGINE_THREADS];
    struct segments *ledger_writer_segments;
    struct ledger *writer;            /* the ledger writer's; for its event sink */
    struct ledger *promise_ledger;    /* read by the promise resolver */
    struct ledger *keeper_ledger;     /* written by the keeper */
    struct ledger *reconciler_ledger; /* written by the reconciler */
    struct lease_port *keeper_lease;  /* the lease thread's */
    struct lease_port *recover_lease; /* the keeper's, for recovery and balancing */
    struct queue *publisher;          /* the relay's; NULL: no queue, the relay books itself */
    struct queue *consumer;           /* the order consumer's */
    struct queue *payments;           /* the payment consumer's */
    struct queue *parked;             /* the reconciler's; NULL: no queue */
    struct blocking blocking;         /* of threads that wait for servers */
    struct blocking reconciler_blocking;
    struct metrics_slot *metrics[ENGINE_THREADS];
    /* The servers' own texts for errors; NULL: there are none. */
    const char *(*relay_words)(void *context);
    const char *(*keeper_words)(void *context);
    /* Reconciler's thread, between its runs. NULL: nothing. */
    void (*reconciler_idle)(void *context);
    /* True: the server is stopping, and long waits have been cut short. */
    bool (*ending)(void *context);
    void *context;
};

struct engine {
    bool is_open; /* engine_open was called */
    struct engine_options options;
    struct engine_ports ports;
    struct segment_table segment_table;
    struct runtime_limits runtime_limits; /* set by the owner, also while it runs */
    struct stock_cache *stock_cache;
    struct refill_requests refill_requests;
    struct spool *spool;
    struct gate_proxy *proxy;
    struct segment_event_sink *segment_event_sink;
    /* lent by the owner */
    struct catalog *catalog;
    struct inside_time *time;
    struct ledger_writer *ledger_writer;
    /* the parts */
    struct booking_channel booking_channel[MAILBOX_COUNT];
    struct segment_monitor *segment_monitor;
    struct promise_resolver *promise_resolver;
    struct gate_subscriber *gate_subscriber;
    struct relay *relay;
    struct order_consumer *order_consumer;
    struct payment_consumer *payment_consumer;
    struct recover *recover;
    struct balance *balance; /* NULL: one segment */
    struct reconcile *reconcile;
    struct reconciler *reconciler;
    struct redriver redriver;
    /* the threads' own */
    int64_t lease_at_ms;     /* lease: when it is renewed next */
    int64_t look_at_ms;      /* keeper: when the segments are looked at next */
    size_t promises_skipped; /* reconciler, of this pass: their sales are not known here */
    _Atomic bool keeps;      /* this process holds the keeper's lease */
    _Atomic bool balances;   /* this process holds the lease of balancing */
};

/* Into a zeroed struct. ERR_NOMEM. */
int engine_open(struct engine *engine, const struct engine_options *options);
/* ERR_NOMEM. */
int engine_join(struct engine *engine, const struct engine_ports *ports, struct catalog *catalog,
                struct inside_time *time);
/* Makes the parts of the threads in the mask (bits 1 << ENGINE_...). ERR_NOMEM. */
int engine_make(struct engine *engine, uint32_t threads, struct ledger_writer *ledger_writer,
                struct loop_notices *notices, struct waker *wakers);
/* One iteration of the thread. It may wait for servers, and up to wait_ms for something to do.
 * Returns how much it did that is worth a note: messages redriven, segments rebuilt, units moved. */
uint64_t engine_run(struct engine *engine, enum engine_thread thread, int64_t wait_ms);
void engine_end(struct engine *engine, enum engine_thread thread);
/* Fine without engine_open, too. */
void engine_free(struct engine *engine);

#endif
