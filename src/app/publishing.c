/* See publishing.h. */
#define _GNU_SOURCE
#include "app/publishing.h"

#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/resource.h>

#include "app/purging.h"
#include "base/err.h"
#include "base/mailbox.h"
#include "http/site.h"
#include "obs/log.h"

/* Answers come first where cores are short. */
#define PUBLISHING_NICE 10
/* A look without a ring, which also tries again what failed. */
#define LOOK_US 5000000

/* How long a CDN may keep a page without asking: a minute late at most, or until it is told. */
#define SHARED_AGE_S 60
#define SHARED_AGE_PURGED_S 86400

struct publishing {
    struct assembly *parts;
    struct site *site;
    struct purging *purging; /* NULL: no hook */
    char base_url[256];
    struct mailbox bell; /* only rung */
    uint64_t made_of;    /* catalog_changes at the last edition */
    _Atomic bool stopping;
    pthread_t thread;
    bool running;
};

static void ring(void *context)
{
    struct publishing *publishing = context;
    mailbox_ring(&publishing->bell);
}

static int make(struct publishing *publishing)
{
    static struct log_limit limit;
    struct site_made made = {0};
    struct clock_port *clock = publishing->parts->time.clock;
    uint64_t changes = catalog_changes(publishing->parts->catalog); /* before the look */
    int64_t from_us = clock_boot_us(clock);
    int error = site_make(publishing->site, publishing->parts->catalog, &made);
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
    publishing->made_of = changes;
    if (made.fresh > 0 || made.gone > 0) {
        log_event(LOG_INFO, "pages.made", LOG_U64("pages", made.pages),
                  LOG_U64("fresh", made.fresh), LOG_U64("gone", made.gone),
                  LOG_U64("kib", made.bytes >> 10), LOG_I64("us", clock_boot_us(clock) - from_us));
        purging_ring(publishing->purging);
    }
    if (made.left_out > 0) {
        log_event(LOG_ERROR, "pages.too_many", LOG_U64("left_out", made.left_out),
                  LOG_STR("what", "these items have no page"),
                  LOG_STR("do", "raise pages.memory_mib"));
    }
    return 0;
}

static void *run(void *context)
{
    struct publishing *publishing = context;
    (void)pthread_setname_np(pthread_self(), "pages");
    (void)setpriority(PRIO_PROCESS, 0, PUBLISHING_NICE);
    while (!atomic_load(&publishing->stopping)) {
        mailbox_wait(&publishing->bell, LOOK_US);
        if (!atomic_load(&publishing->stopping) &&
            catalog_changes(publishing->parts->catalog) != publishing->made_of) {
            (void)make(publishing);
        }
    }
    return NULL;
}

int publishing_new(struct assembly *parts, const struct config *config,
                   struct publishing **ret_publishing)
{
    char problem[512] = "";
    struct publishing *publishing = calloc(1, sizeof(*publishing));
    if (publishing == NULL) {
        return assembly_fail("cannot start", ERR_NOMEM, "the pages");
    }
    publishing->parts = parts;
    (void)snprintf(publishing->base_url, sizeof(publishing->base_url), "%s",
                   config->pages_base_url);
    mailbox_init(&publishing->bell);
    struct site_options options = {
        .memory_bytes = (size_t)config->pages_memory_mib << 20,
        .shared_age_s = config->pages_purge_url[0] != '\0' ? SHARED_AGE_PURGED_S : SHARED_AGE_S,
        .demo = parts->shared.demo,
        .base_url = publishing->base_url};
    int error = site_new(&options, &publishing->site, problem, sizeof(problem));
    if (error == 0) {
        error = make(publishing);
    }
    if (error != 0) {
        publishing_free(publishing);
        return assembly_fail("cannot make the pages", error, problem);
    }
    catalog_on_change(parts->catalog, ring, publishing);
    parts->shared.site = publishing->site;
    *ret_publishing = publishing;
    return 0;
}

int publishing_start(struct publishing *publishing, const struct config *config)
{
    int error = purging_start(config, publishing->site, &publishing->purging);
    if (error != 0) {
        return error;
    }
    publishing->running = pthread_create(&publishing->thread, NULL, run, publishing) == 0;
    return publishing->running ? 0 : assembly_fail("cannot start a thread", ERR_NOMEM, "pages");
}

void publishing_end(struct publishing *publishing)
{
    if (publishing != NULL) {
        atomic_store(&publishing->stopping, true);
        mailbox_ring(&publishing->bell);
        purging_end(publishing->purging);
    }
}

void publishing_stop(struct publishing *publishing)
{
    publishing_end(publishing);
    if (publishing != NULL && publishing->running) {
        (void)pthread_join(publishing->thread, NULL);
        publishing->running = false;
    }
    if (publishing != NULL) {
        purging_stop(publishing->purging);
        publishing->purging = NULL;
    }
}

void publishing_free(struct publishing *publishing)
{
    if (publishing == NULL) {
        return;
    }
    site_free(publishing->site);
    mailbox_done(&publishing->bell);
    free(publishing);
}
