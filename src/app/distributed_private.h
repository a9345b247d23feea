/* Shared by distributed.c (creation and end) and distributed_threads.c (the threads). Included by
 * no other file. */
#ifndef SLUICE_APP_DISTRIBUTED_PRIVATE_H
#define SLUICE_APP_DISTRIBUTED_PRIVATE_H

#include <pthread.h>

#include "app/backends.h"
#include "app/cluster_status_thread.h"
#include "app/distributed.h"
#include "app/event_publisher_thread.h"
#include "distributed/booking_channel.h"
#include "distributed/gate_proxy.h"
#include "distributed/gate_subscriber.h"
#include "distributed/order_consumer.h"
#include "distributed/payment_consumer.h"
#include "distributed/promise_resolver.h"
#include "distributed/recover.h"
#include "distributed/redriver.h"
#include "distributed/relay.h"
#include "distributed/segment_event_sink.h"
#include "ledger/reconciler.h"

/* Mailboxes of the ledger writer after those of the loops. */
enum {
    MAILBOX_RELAY,
    MAILBOX_ORDER_CONSUMER,
    MAILBOX_PROMISE_RESOLVER,
    MAILBOX_PAYMENT_CONSUMER,
    MAILBOX_COUNT
};

enum thread_kind {
    THREAD_PROMISE_RESOLVER,
    THREAD_GATE_SUBSCRIBER,
    THREAD_RELAY,
    THREAD_ORDER_CONSUMER,
    THREAD_KEEPER,
    THREAD_RECONCILER,
    THREAD_PAYMENT_CONSUMER,
    THREAD_COUNT
};

/* Connection sets of the gate after those of the loops. */
enum {
    CONNECTION_SET_GATE_SUBSCRIBER,
    CONNECTION_SET_KEEPER,
    CONNECTION_SET_RECONCILER,
    CONNECTION_SET_PAYMENT_CONSUMER,
    CONNECTION_SET_COUNT
};

struct distributed {
    const struct config *config;
    uint32_t roles;
    uint32_t loops;
    struct clock_port *clock;
    struct backends backends;
    struct segment_table segment_table;
    struct runtime_limits runtime_limits;
    struct stock_cache *stock_cache;
    struct refill_requests refill_requests;
    struct spool *spool;
    struct gate_port *gate; /* on Redis; connection sets: loops, then the list above */
    struct gate_proxy *proxy;
    struct segment_event_sink *segment_event_sink;
    struct segments *segments[THREAD_COUNT + 1]; /* one for each thread, and one for the ledger
                                                  * writer */
    struct ledger *reader;                       /* of the promise resolver */
    struct lease_port *lease;
    struct queue *publisher;
    struct queue *consumer;
    struct queue *payments; /* of the payment consumer */
    struct booking_channel booking_channel[MAILBOX_COUNT];
    struct promise_resolver *promise_resolver;
    struct gate_subscriber *gate_subscriber;
    struct relay *relay;
    struct order_consumer *order_consumer;
    struct payment_consumer *payment_consumer;
    struct queue *parked; /* of the reconciler */
    struct redriver redriver;
    struct reconcile *reconcile;
    struct reconciler *reconciler;
    struct event_publisher_thread *event_publisher_thread;
    struct cluster_status_thread *cluster_status_thread;
    size_t promises_skipped; /* in this pass: their sales are not known here */
    _Atomic bool keeps;      /* this process holds the keeper's lease */
    struct assembly *parts;
    _Atomic bool stopping;
    pthread_mutex_t sleep_lock; /* guards sleeps that end when the server stops */
    pthread_cond_t sleep_ends;
    pthread_t threads[THREAD_COUNT];
    bool running[THREAD_COUNT];
};

#define LEDGER_WRITER_SEGMENTS THREAD_COUNT

/* The threads. */
void *distributed_run_promise_resolver(void *context);
void *distributed_run_gate_subscriber(void *context);
void *distributed_run_relay(void *context);
void *distributed_run_order_consumer(void *context);
void *distributed_run_payment_consumer(void *context);
void *distributed_run_keeper(void *context);
void *distributed_run_reconciler(void *context);

/* A sleep that ends early when the server stops. */
void distributed_sleep_ms(struct distributed *distributed, int64_t ms);
/* For struct blocking. */
void distributed_blocking_sleep_ms(void *context, int64_t ms);
int64_t distributed_blocking_now_ms(void *context);

#endif
