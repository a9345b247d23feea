/*
 * The gate subscriber keeps a front's picture of the gate on other machines: it hears what happened to
 * orders and tells the loops, so that they push it to whoever waits, and it looks at the numbers of
 * all items several times a second and puts them on the stock cache.
 *
 * What can go wrong: news are lost (then every watcher looks for itself), or a segment does not
 * answer (then its items keep their last numbers, and the stock cache grows old).
 *
 * One thread, with a connection set of its own at the gate.
 */
#ifndef SLUICE_FLOW_GATE_SUBSCRIBER_H
#define SLUICE_FLOW_GATE_SUBSCRIBER_H

#include "flow/catalog.h"
#include "flow/embedded_gate.h"
#include "flow/segment_table.h"
#include "flow/spool.h"
#include "flow/stock_cache.h"
#include "port/clock.h"

struct gate_subscriber_parts {
    struct segments *segments; /* this thread's */
    struct gate_port *gate;    /* the one on other machines */
    uint32_t connection_set;   /* of this thread there */
    struct embedded_gate *engine;
    struct segment_table *segment_table;
    struct stock_cache *stock_cache;
    struct spool *spool;
    struct catalog *catalog;
    struct clock_port *clock;
    void (*sales_changed)(void *context); /* the catalog is to be read again */
    void *context;
};

struct gate_subscriber;

int gate_subscriber_new(const struct gate_subscriber_parts *parts,
                        struct gate_subscriber **ret_gate_subscriber);
void gate_subscriber_free(struct gate_subscriber *gate_subscriber);
/* One round; waits at most wait_ms for news. */
void gate_subscriber_iterate(struct gate_subscriber *gate_subscriber, int64_t wait_ms);

#endif
