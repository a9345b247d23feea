/*
 * The thread that keeps the storefront's pages (http/site.h) as the catalog is: it is rung at each
 * change, and makes what is different then. The first edition is made before anybody is served.
 */
#ifndef SLUICE_APP_PUBLISHING_H
#define SLUICE_APP_PUBLISHING_H

#include "app/assembly.h"
#include "app/config.h"

struct publishing;

/* Makes the site of parts->shared and its first edition. The catalog has been loaded; no thread of
 * the fronts runs yet. Errors are logged. */
int publishing_new(struct assembly *parts, const struct config *config,
                   struct publishing **ret_publishing);
/* The threads: this one, and that of the purge hook (app/purging.h). */
int publishing_start(struct publishing *publishing, const struct config *config);
/* They are to end soon: does not wait. NULL is fine, here and below. */
void publishing_end(struct publishing *publishing);
/* Waits until they have; the purge hook's may wait for others. */
void publishing_stop(struct publishing *publishing);
/* After the fronts, which answer with its pages. */
void publishing_free(struct publishing *publishing);

#endif
