/*
 * Tells a CDN which pages have changed: a thread that compares the pages of the present edition
 * with those of which the hook has been told, and POSTs {"urls":[...]} for the difference.
 *
 * There is no queue that could overflow or be lost: what the hook was told of is a list (path and
 * hash) in the data folder, what it should be told of is the edition. So changes that come fast are
 * told once, a hook that was down is told what has changed meanwhile, and a restart goes on where
 * the last run ended, also with pages that another build of the program makes differently.
 *
 * A failure is tried again after growing pauses, for an hour; then it rests until the next change
 * or start. Each front of the distributed engine does this for itself, after it has republished:
 * then the last call comes when all of them serve the new page, and no earlier one does harm.
 */
#ifndef SLUICE_APP_CDN_PURGER_H
#define SLUICE_APP_CDN_PURGER_H

#include "app/config.h"
#include "pages/page_cache.h"

struct cdn_purger;

/* Errors are logged. *ret_cdn_purger is NULL where no hook is configured. */
int cdn_purger_start(const struct config *config, struct page_cache *page_cache,
                     struct cdn_purger **ret_cdn_purger);
/* A new edition. NULL is fine. Any thread. */
void cdn_purger_ring(struct cdn_purger *cdn_purger);
/* It is to end soon: does not wait. NULL is fine, here and below. */
void cdn_purger_end(struct cdn_purger *cdn_purger);
/* Waits until it has ended, which may take as long as the system's resolver likes, and frees it. */
void cdn_purger_stop(struct cdn_purger *cdn_purger);

#endif
