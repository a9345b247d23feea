/*
 * Tells a CDN which pages have changed. A thread compares the pages of the present edition with
 * those the hook knows, and POSTs {"urls":[...]} with the differences.
 *
 * There is no queue that could overflow or be lost. What the hook knows is a list (path and hash)
 * in the data folder; what it should know is the edition. So fast changes are sent once, a hook
 * that was down gets what changed meanwhile, and a restart continues where the last run ended, also
 * with pages that a new build makes differently.
 *
 * A failed call is repeated with growing pauses, for an hour, and then at the next change or start.
 * In the distributed engine each front does this after it has republished. So the last call comes
 * when all fronts serve the new page, and an earlier call does no harm.
 */
#ifndef SLUICE_APP_CDN_PURGER_H
#define SLUICE_APP_CDN_PURGER_H

#include "app/config.h"
#include "pages/page_cache.h"

struct cdn_purger;

/* Errors are logged. *ret_cdn_purger is NULL if no hook is configured. */
int cdn_purger_start(const struct config *config, struct page_cache *page_cache,
                     struct cdn_purger **ret_cdn_purger);
/* There is a new edition. NULL is fine. Any thread. */
void cdn_purger_ring(struct cdn_purger *cdn_purger);
/* Asks the thread to end; does not wait. NULL is fine, here and below. */
void cdn_purger_end(struct cdn_purger *cdn_purger);
/* Waits for the thread and frees it. A name lookup in progress may delay this. */
void cdn_purger_stop(struct cdn_purger *cdn_purger);

#endif
