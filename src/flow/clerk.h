/*
 * The clerk answers questions about the ledger: one thread with a read-only connection of its own,
 * so that lists and reports never wait for the writer and never hold up a loop.
 */
#ifndef SLUICE_FLOW_CLERK_H
#define SLUICE_FLOW_CLERK_H

#include "base/mailbox.h"
#include "flow/engine.h"
#include "port/ledger.h"

/* One question of a loop; the clerk's between post and collect. */
struct clerk_query {
    struct post post; /* first */
    struct ledger_query query;
    uint32_t loop;
    void *owner;
};

struct clerk;

int clerk_new(struct engine *engine, struct ledger *reader, uint32_t loops,
              struct clerk **ret_clerk);
void clerk_free(struct clerk *clerk);
/* Answers everything that was posted. */
void clerk_turn(struct clerk *clerk);
void clerk_run(struct clerk *clerk); /* the thread: turns until clerk_stop */
void clerk_stop(struct clerk *clerk);
void clerk_post(struct clerk *clerk, struct clerk_query *query);
struct clerk_query *clerk_collect(struct clerk *clerk, uint32_t loop);

#endif
