/*
 * The thread that keeps the storefront's pages (pages/page_cache.h) up to date with the catalog. It
 * is woken at each change and rebuilds the pages that differ. The first edition is made before
 * buyers are served.
 */
#ifndef SLUICE_APP_PAGE_BUILDER_THREAD_H
#define SLUICE_APP_PAGE_BUILDER_THREAD_H

#include "app/assembly.h"
#include "app/config.h"

struct page_builder_thread;

/* Creates the page cache of parts->shared and its first edition. The catalog is loaded; no thread
 * of the fronts runs yet. Errors are logged. */
int page_builder_thread_new(struct assembly *parts, const struct config *config,
                            struct page_builder_thread **ret_page_builder_thread);
/* Starts this thread and that of the purge hook (app/cdn_purger.h). */
int page_builder_thread_start(struct page_builder_thread *page_builder_thread,
                              const struct config *config);
/* Asks the threads to end; does not wait. NULL is fine, here and below. */
void page_builder_thread_end(struct page_builder_thread *page_builder_thread);
/* Waits for the threads. The purge hook's may wait for another server. */
void page_builder_thread_stop(struct page_builder_thread *page_builder_thread);
/* After the fronts have ended: they serve its pages. */
void page_builder_thread_free(struct page_builder_thread *page_builder_thread);

#endif
