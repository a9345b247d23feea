/*
 * The thread that keeps the storefront's pages (pages/page_cache.h) as the catalog is: it is rung at each
 * change, and makes what is different then. The first edition is made before anybody is served.
 */
#ifndef SLUICE_APP_PAGE_BUILDER_THREAD_H
#define SLUICE_APP_PAGE_BUILDER_THREAD_H

#include "app/assembly.h"
#include "app/config.h"

struct page_builder_thread;

/* Makes the site of parts->shared and its first edition. The catalog has been loaded; no thread of
 * the fronts runs yet. Errors are logged. */
int page_builder_thread_new(struct assembly *parts, const struct config *config,
                            struct page_builder_thread **ret_page_builder_thread);
/* The threads: this one, and that of the purge hook (app/cdn_purger.h). */
int page_builder_thread_start(struct page_builder_thread *page_builder_thread,
                              const struct config *config);
/* They are to end soon: does not wait. NULL is fine, here and below. */
void page_builder_thread_end(struct page_builder_thread *page_builder_thread);
/* Waits until they have; the purge hook's may wait for others. */
void page_builder_thread_stop(struct page_builder_thread *page_builder_thread);
/* After the fronts, which answer with its pages. */
void page_builder_thread_free(struct page_builder_thread *page_builder_thread);

#endif
