/*
 * The catalog: names, prices, images and states of sales and their items, in memory for every
 * front. The ledger writer fills it from ledger rows, drafts included, before the gate can show the
 * item. The loops read it. Stock numbers come from the gate, not from the catalog.
 */
#ifndef SLUICE_LEDGER_CATALOG_H
#define SLUICE_LEDGER_CATALOG_H

#include "port/ledger.h"

struct catalog;

struct catalog *catalog_new(void); /* NULL: no memory */
void catalog_free(struct catalog *catalog);

/* Counts changes to what pages show of a sale: its state, times, name and currency, and its items
 * except for their stock. */
uint64_t catalog_changes(const struct catalog *catalog);
/* Sets a callback that runs after each such change, on the thread that made it, without the lock.
 * Set it once, before any thread changes the catalog. */
void catalog_on_change(struct catalog *catalog, void (*changed)(void *context), void *context);

/* Takes ownership of the row and replaces an older row of the same sale. ERR_NOMEM frees the
 * row. */
int catalog_put(struct catalog *catalog, struct sale_row *row);
void catalog_remove(struct catalog *catalog, uint64_t sale);

/* Rows stay valid between lock and unlock. Readers do not wait for each other. */
void catalog_lock(struct catalog *catalog);
void catalog_unlock(struct catalog *catalog);
/* All sales, sorted by id. */
struct sale_row *const *catalog_sales(const struct catalog *catalog, size_t *ret_count);
const struct sale_row *catalog_sale(const struct catalog *catalog, uint64_t sale);
/* The item and its sale, or NULL. */
const struct item_row *catalog_item(const struct catalog *catalog, uint64_t item,
                                    const struct sale_row **ret_sale);

/* Each reading of all sales from the ledger has a number. A sale's absence means something only
 * after a reading that began after the question was asked. Any thread; one thread reads at a
 * time. */
uint64_t catalog_begin_reading(struct catalog *catalog);
void catalog_end_reading(struct catalog *catalog, uint64_t reading);
/* The number of the first reading that begins after now; the number of the latest finished one. */
uint64_t catalog_next_reading(const struct catalog *catalog);
uint64_t catalog_last_reading(const struct catalog *catalog);

#endif
