/*
 * What the sweeps over the SQLite ledger work on: a ledger with something of everything in it, a
 * batch with every kind of op, one that meets the constraints, every kind of query, and a digest of
 * all that is stored.
 */
#ifndef SLUICE_TEST_LEDGER_WORLD_H
#define SLUICE_TEST_LEDGER_WORLD_H

#include "fixture.h"

#define LEDGER_WORLD_OPS 24
#define LEDGER_WORLD_NOW (T0 + PAY_WITHIN_MS + 100) /* when the batches are written */
#define LEDGER_WORLD_ANSWERS 65536

/* Writes sales in every state and orders in every state to an empty ledger. */
void ledger_world_fill(struct fixture *f);

/* A batch, ready to be sent; answers are freed with ledger_batch_clear. */
struct world_batch {
    struct ledger_op ops[LEDGER_WORLD_OPS];
    struct ledger_op *list[LEDGER_WORLD_OPS];
    struct item_row items[2];
    struct sale_row created;
    struct sale_row changed;
    struct ledger_batch batch;
};
/* Every kind of op, each of them done. */
void world_batch_plain(struct world_batch *ret_batch);
/* Refused ones among good ones: the ledger does them one by one. */
void world_batch_careful(struct world_batch *ret_batch);
void world_batch_clear(struct world_batch *batch);

/* All queries, each in PRODUCT: the first error, or 0 and the answers as text. */
int ledger_world_ask(struct ledger *ledger, char *ret_text);

/* Of every row of every table, and of the schema. */
uint64_t ledger_world_digest(const char *path);

#endif
