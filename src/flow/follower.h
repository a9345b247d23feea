/*
 * The follower keeps a front's picture of the gate on other machines: it hears what happened to
 * orders and tells the loops, so that they push it to whoever waits, and it looks at the numbers of
 * all items several times a second and puts them on the shelf.
 *
 * What can go wrong: news are lost (then every watcher looks for itself), or a segment does not
 * answer (then its items keep their last numbers, and the shelf grows old).
 *
 * One thread, with a lane of its own at the gate.
 */
#ifndef SLUICE_FLOW_FOLLOWER_H
#define SLUICE_FLOW_FOLLOWER_H

#include "flow/catalog.h"
#include "flow/engine.h"
#include "flow/places.h"
#include "flow/shelf.h"
#include "flow/spool.h"
#include "port/clock.h"

struct follower_parts {
    struct segments *segments; /* this thread's */
    struct gate_port *gate;    /* the one on other machines */
    uint32_t lane;             /* of this thread there */
    struct engine *engine;
    struct places *places;
    struct shelf *shelf;
    struct spool *spool;
    struct catalog *catalog;
    struct clock_port *clock;
    void (*sales_changed)(void *context); /* the catalog is to be read again */
    void *context;
};

struct follower;

int follower_new(const struct follower_parts *parts, struct follower **ret_follower);
void follower_free(struct follower *follower);
/* One round; waits at most wait_ms for news. */
void follower_turn(struct follower *follower, int64_t wait_ms);

#endif
