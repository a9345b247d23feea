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
#ifndef SLUICE_APP_PURGING_H
#define SLUICE_APP_PURGING_H

#include "app/config.h"
#include "http/site.h"

struct purging;

/* Errors are logged. *ret_purging is NULL where no hook is configured. */
int purging_start(const struct config *config, struct site *site, struct purging **ret_purging);
/* A new edition. NULL is fine. Any thread. */
void purging_ring(struct purging *purging);
/* It is to end soon: does not wait. NULL is fine, here and below. */
void purging_end(struct purging *purging);
/* Waits until it has ended, which may take as long as the system's resolver likes, and frees it. */
void purging_stop(struct purging *purging);

#endif
