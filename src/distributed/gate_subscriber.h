/*
 * The gate subscriber keeps a front's view of a remote gate up to date. It receives news about
 * orders and passes it to the loops, which push it to waiting clients. Several times a second it
 * reads the stock of all items and stores it in the stock cache.
 *
 * What can go wrong: news is lost. Then every watcher looks its order up. Or a segment does not
 * answer. Then its items keep their last numbers, and the stock cache grows stale.
 *
 * One thread, with its own connection set at the gate.
 */
#ifndef SLUICE_DISTRIBUTED_GATE_SUBSCRIBER_H
#define SLUICE_DISTRIBUTED_GATE_SUBSCRIBER_H

#include "distributed/loop_notices.h"
#include "distributed/segment_table.h"
#include "distributed/spool.h"
#include "distributed/stock_cache.h"
#include "ledger/catalog.h"
#include "port/clock.h"
#include "port/gate.h"

struct gate_subscriber_parts {
    struct segments *segments; /* of this thread */
    struct gate_port *gate;    /* the remote gate */
    uint32_t connection_set;   /* this thread's connection set at the gate */
    struct loop_notices *notices;
    struct segment_table *segment_table;
    struct stock_cache *stock_cache;
    struct spool *spool;
    struct catalog *catalog;
    struct clock_port *clock;
    void (*sales_changed)(void *context); /* asks for a new reading of the catalog */
    void *context;
};

struct gate_subscriber;

int gate_subscriber_new(const struct gate_subscriber_parts *parts,
                        struct gate_subscriber **ret_gate_subscriber);
void gate_subscriber_free(struct gate_subscriber *gate_subscriber);
/* One iteration. Waits at most wait_ms for news. */
void gate_subscriber_iterate(struct gate_subscriber *gate_subscriber, int64_t wait_ms);

#endif
