/*
 * The catalog: what a sale and its items are called, cost and look like, in memory for every front.
 * The ledger writer writes it from ledger rows, drafts included, before the gate can show the item; the
 * loops read it. The numbers of stock are the gate's, not the catalog's.
 */
#ifndef SLUICE_FLOW_CATALOG_H
#define SLUICE_FLOW_CATALOG_H

#include "port/ledger.h"

struct catalog;

struct catalog *catalog_new(void); /* NULL: no memory */
void catalog_free(struct catalog *catalog);

/* How often what pages say of a sale has changed: its state, times, name and currency, and its
 * items but for their stock. */
uint64_t catalog_changes(const struct catalog *catalog);
/* Called after each such change by whoever made it, not under the lock. Set once, before any thread
 * changes anything. */
void catalog_on_change(struct catalog *catalog, void (*changed)(void *context), void *context);

/* Takes the row over; replaces an older one of the same sale. ERR_NOMEM frees the row. */
int catalog_put(struct catalog *catalog, struct sale_row *row);
void catalog_remove(struct catalog *catalog, uint64_t sale);

/* Rows stay valid between lock and unlock; readers do not wait for each other. */
void catalog_lock(struct catalog *catalog);
void catalog_unlock(struct catalog *catalog);
/* All sales by id. */
struct sale_row *const *catalog_sales(const struct catalog *catalog, size_t *ret_count);
const struct sale_row *catalog_sale(const struct catalog *catalog, uint64_t sale);
/* The item and its sale, or NULL. */
const struct item_row *catalog_item(const struct catalog *catalog, uint64_t item,
                                    const struct sale_row **ret_sale);

/* Readings of all the ledger's sales are numbered: that a sale is not here says something only once
 * a reading is done that began after the question. Any thread; one at a time reads. */
uint64_t catalog_begin_reading(struct catalog *catalog);
void catalog_end_reading(struct catalog *catalog, uint64_t reading);
/* The first one that begins after now; the latest that is done. */
uint64_t catalog_next_reading(const struct catalog *catalog);
uint64_t catalog_last_reading(const struct catalog *catalog);

#endif
