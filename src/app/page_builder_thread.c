/* See page_builder_thread.h. */
#include "app/page_builder_thread.h"

#include <stdio.h>
#include <stdlib.h>

#include "app/cdn_purger.h"
#include "app/worker.h"
#include "base/err.h"
#include "base/mailbox.h"
#include "obs/log.h"
#include "pages/page_cache.h"

/* If CPU is short, requests come first. */
#define PAGE_BUILDER_THREAD_NICE 10
/* A check without a ring; it also repeats what failed. */
#define LOOK_US 5000000

/* How long a CDN may serve a page without revalidation: at most a minute late, or until it is
 * purged. */
#define SHARED_AGE_S 60
#define SHARED_AGE_PURGED_S 86400

struct page_builder_thread {
    struct assembly *parts;
    struct page_cache *page_cache;
    struct cdn_purger *cdn_purger; /* NULL: no hook */
    char base_url[256];
    struct mailbox bell; /* used only to ring */
    uint64_t made_of;    /* catalog_changes at the last edition */
    struct worker worker;
};

static void ring(void *context)
{
    struct page_builder_thread *page_builder_thread = context;
    mailbox_ring(&page_builder_thread->bell);
}

static int make(struct page_builder_thread *page_builder_thread)
{
    static struct log_limit limit;
    struct page_cache_made made = {0};
    struct clock_port *clock = page_builder_thread->parts->time.clock;
    uint64_t changes = catalog_changes(page_builder_thread->parts->catalog); /* read before the
                                                                              * catalog is */
    int64_t from_us = clock_boot_us(clock);
    int error = page_cache_make(page_builder_thread->page_cache,
                                page_builder_thread->parts->catalog, &made);
    if (error != 0) {
        log_event_limited(&limit, 60000, LOG_ERROR, "pages.not_made",
                          LOG_STR("error", error == ERR_FULL
                                               ? "a page, or the list of all pages, is too large"
                                               : err_text(error)),
                          LOG_STR("what", "the pages stay as they were; tried again"),
                          LOG_STR("do", error == ERR_FULL ? "lower pages.memory_mib, which bounds "
                                                            "how many pages there are"
                                                          : "free memory"));
        return error;
    }
    page_builder_thread->made_of = changes;
    if (made.fresh > 0 || made.gone > 0) {
        log_event(LOG_INFO, "pages.made", LOG_U64("pages", made.pages),
                  LOG_U64("fresh", made.fresh), LOG_U64("gone", made.gone),
                  LOG_U64("kib", made.bytes >> 10), LOG_I64("us", clock_boot_us(clock) - from_us));
        cdn_purger_ring(page_builder_thread->cdn_purger);
    }
    if (made.left_out > 0) {
        log_event(LOG_ERROR, "pages.too_many", LOG_U64("left_out", made.left_out),
                  LOG_STR("what", "these items have no page"),
                  LOG_STR("do", "raise pages.memory_mib"));
    }
    return 0;
}

static bool iterate(void *context)
{
    struct page_builder_thread *page_builder_thread = context;
    mailbox_wait(&page_builder_thread->bell, LOOK_US);
    if (!worker_is_stopping(&page_builder_thread->worker) &&
        catalog_changes(page_builder_thread->parts->catalog) != page_builder_thread->made_of) {
        (void)make(page_builder_thread);
    }
    return true;
}

int page_builder_thread_new(struct assembly *parts, const struct config *config,
                            struct page_builder_thread **ret_page_builder_thread)
{
    char problem[512] = "";
    struct page_builder_thread *page_builder_thread = calloc(1, sizeof(*page_builder_thread));
    if (page_builder_thread == NULL) {
        return assembly_fail("cannot start", ERR_NOMEM, "the pages");
    }
    page_builder_thread->parts = parts;
    (void)snprintf(page_builder_thread->base_url, sizeof(page_builder_thread->base_url), "%s",
                   config->pages_base_url);
    mailbox_init(&page_builder_thread->bell);
    struct page_cache_options options = {
        .memory_bytes = (size_t)config->pages_memory_mib << 20,
        .shared_age_s = config->pages_purge_url[0] != '\0' ? SHARED_AGE_PURGED_S : SHARED_AGE_S,
        .demo = parts->shared.demo,
        .base_url = page_builder_thread->base_url};
    int error =
        page_cache_new(&options, &page_builder_thread->page_cache, problem, sizeof(problem));
    if (error == 0) {
        error = make(page_builder_thread);
    }
    if (error != 0) {
        page_builder_thread_free(page_builder_thread);
        return assembly_fail("cannot make the pages", error, problem);
    }
    catalog_on_change(parts->catalog, ring, page_builder_thread);
    parts->shared.page_cache = page_builder_thread->page_cache;
    *ret_page_builder_thread = page_builder_thread;
    return 0;
}

int page_builder_thread_start(struct page_builder_thread *page_builder_thread,
                              const struct config *config)
{
    int error =
        cdn_purger_start(config, page_builder_thread->page_cache, &page_builder_thread->cdn_purger);
    if (error != 0) {
        return error;
    }
    page_builder_thread->worker = (struct worker){.name = "pages",
                                                  .nice = PAGE_BUILDER_THREAD_NICE,
                                                  .iterate = iterate,
                                                  .wake = ring,
                                                  .context = page_builder_thread};
    error = worker_start(&page_builder_thread->worker);
    return error == 0 ? 0 : assembly_fail("cannot start a thread", error, "pages");
}

void page_builder_thread_end(struct page_builder_thread *page_builder_thread)
{
    if (page_builder_thread != NULL) {
        worker_ask(&page_builder_thread->worker);
        cdn_purger_end(page_builder_thread->cdn_purger);
    }
}

void page_builder_thread_stop(struct page_builder_thread *page_builder_thread)
{
    page_builder_thread_end(page_builder_thread);
    if (page_builder_thread != NULL) {
        worker_stop(&page_builder_thread->worker);
        cdn_purger_stop(page_builder_thread->cdn_purger);
        page_builder_thread->cdn_purger = NULL;
    }
}

void page_builder_thread_free(struct page_builder_thread *page_builder_thread)
{
    if (page_builder_thread == NULL) {
        return;
    }
    page_cache_free(page_builder_thread->page_cache);
    mailbox_done(&page_builder_thread->bell);
    free(page_builder_thread);
}
