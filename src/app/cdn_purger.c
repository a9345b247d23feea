/* See cdn_purger.h. */
#define _GNU_SOURCE
#include "app/cdn_purger.h"

#include <errno.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <time.h>
#include <unistd.h>

#include "app/assembly.h"
#include "app/hook.h"
#include "base/backoff.h"
#include "base/err.h"
#include "base/mailbox.h"
#include "base/url.h"
#include "obs/log.h"

#define TOLD_FILE "pages.purged"
#define URLS_MAX 500 /* in one call */
#define PAUSE_LEAST_MS 200
#define PAUSE_MOST_MS 60000
#define GIVE_UP_MS 3600000
#define IDLE_US 60000000

struct cdn_purger {
    struct page_cache *page_cache;
    struct hook hook;
    char base_url[URL_MAX_BYTES + 1];
    char answers_path[1024];
    struct mailbox bell; /* used only to ring */
    _Atomic bool stopping;
    _Atomic uint64_t editions;     /* how often it was rung */
    struct page_cache_entry *told; /* sorted by path */
    size_t answer_count;
    int64_t failing_since_ms; /* 0: it works */
    int64_t pause_ms;
    uint64_t tries;
    pthread_t thread;
};

static int64_t now_ms(void)
{
    struct timespec now;
    (void)clock_gettime(CLOCK_MONOTONIC, &now);
    return (int64_t)now.tv_sec * 1000 + now.tv_nsec / 1000000 + 1; /* never 0 */
}

/* ---- the pages that the hook knows ---- */

static int entry_order(const void *a, const void *b)
{
    return strcmp(((const struct page_cache_entry *)a)->path,
                  ((const struct page_cache_entry *)b)->path);
}

/* Lines "HASH PATH". Anything else in the file is ignored. */
static void answers_load(struct cdn_purger *cdn_purger)
{
    FILE *file = fopen(cdn_purger->answers_path, "re");
    char line[256];
    size_t cap = 0;
    while (file != NULL && fgets(line, sizeof(line), file) != NULL) {
        struct page_cache_entry entry = {0};
        if (sscanf(line, "%16s %79s", entry.hash, entry.path) != 2) {
            continue;
        }
        if (cdn_purger->answer_count == cap) {
            size_t more = cap == 0 ? 256 : cap * 2;
            struct page_cache_entry *told = realloc(cdn_purger->told, more * sizeof(*told));
            if (told == NULL) {
                break;
            }
            cdn_purger->told = told;
            cap = more;
        }
        cdn_purger->told[cdn_purger->answer_count++] = entry;
    }
    if (file != NULL) {
        (void)fclose(file);
    }
    if (cdn_purger->answer_count > 1) {
        qsort(cdn_purger->told, cdn_purger->answer_count, sizeof(*cdn_purger->told), entry_order);
    }
}

static void answers_save(const struct cdn_purger *cdn_purger)
{
    char fresh[sizeof(cdn_purger->answers_path) + 8];
    (void)snprintf(fresh, sizeof(fresh), "%s.new", cdn_purger->answers_path);
    FILE *file = fopen(fresh, "we");
    bool good = file != NULL;
    for (size_t i = 0; good && i < cdn_purger->answer_count; i++) {
        good = fprintf(file, "%s %s\n", cdn_purger->told[i].hash, cdn_purger->told[i].path) > 0;
    }
    if (file != NULL) {
        good = fclose(file) == 0 && good;
    }
    if (!good || rename(fresh, cdn_purger->answers_path) != 0) {
        log_event(LOG_WARN, "pages.purge_not_noted", LOG_STR("file", cdn_purger->answers_path),
                  LOG_STR("why", strerrordesc_np(errno)),
                  LOG_STR("what", "after a restart these pages are purged once more"));
    }
}

/* ---- the difference ---- */

/* Both lists are sorted by path. Writes the paths that are in only one or differ, at most max. */
static size_t differences(const struct cdn_purger *cdn_purger, const struct page_cache_entry *now,
                          size_t now_count, const char **ret_paths, size_t max)
{
    const struct page_cache_entry *told = cdn_purger->told;
    size_t count = 0;
    for (size_t i = 0, k = 0; (i < now_count || k < cdn_purger->answer_count) && count < max;) {
        int order = i == now_count                  ? 1
                    : k == cdn_purger->answer_count ? -1
                                                    : strcmp(now[i].path, told[k].path);
        if (order != 0 || strcmp(now[i].hash, told[k].hash) != 0) {
            ret_paths[count++] = order <= 0 ? now[i].path : told[k].path;
        }
        i += order <= 0;
        k += order >= 0;
    }
    return count;
}

/* One call, for at most URLS_MAX paths. */
static int tell(struct cdn_purger *cdn_purger, const char *const *paths, size_t count,
                char *ret_problem, size_t cap)
{
    size_t room = 64 + count * (sizeof(((struct page_cache_entry *)0)->path) + URL_MAX_BYTES + 8);
    char *memory = malloc(room);
    if (memory == NULL) {
        (void)snprintf(ret_problem, cap, "no memory");
        return ERR_NOMEM;
    }
    struct out body = out_over(memory, room);
    out_lit(&body, "{\"urls\":[");
    for (size_t i = 0; i < count; i++) {
        char url[URL_MAX_BYTES + sizeof(((struct page_cache_entry *)0)->path)];
        (void)snprintf(url, sizeof(url), "%s%s", cdn_purger->base_url, paths[i]);
        if (i > 0) {
            out_char(&body, ',');
        }
        out_json_string(&body, span_of(url));
    }
    out_lit(&body, "]}");
    int error =
        hook_post(&cdn_purger->hook, out_span(&body), &cdn_purger->stopping, ret_problem, cap);
    free(memory);
    return error;
}

/* Sends the hook all differences. */
static int purge(struct cdn_purger *cdn_purger, char *ret_problem, size_t cap)
{
    struct page_cache_entry *now = NULL;
    size_t now_count = 0;
    int error = page_cache_entries(cdn_purger->page_cache, &now, &now_count);
    size_t most = now_count + cdn_purger->answer_count;
    const char **paths = error == 0 ? calloc(most + 1, sizeof(*paths)) : NULL;
    if (paths == NULL) {
        (void)snprintf(ret_problem, cap, "no memory");
        free(now);
        return ERR_NOMEM;
    }
    size_t count = differences(cdn_purger, now, now_count, paths, most);
    for (size_t i = 0; error == 0 && i < count; i += URLS_MAX) {
        size_t some = count - i < URLS_MAX ? count - i : URLS_MAX;
        error = tell(cdn_purger, paths + i, some, ret_problem, cap);
    }
    if (error == 0 && count > 0) {
        log_event(LOG_INFO, "pages.purged", LOG_U64("urls", count));
        free(cdn_purger->told);
        cdn_purger->told = now;
        cdn_purger->answer_count = now_count;
        answers_save(cdn_purger);
        now = NULL;
    }
    free(paths);
    free(now);
    return error;
}

/* ---- the thread ---- */

/* Handles the result; returns how long to wait. */
static int64_t note(struct cdn_purger *cdn_purger, int error, const char *problem)
{
    if (error == 0) {
        if (cdn_purger->failing_since_ms != 0) {
            log_event(LOG_INFO, "pages.purge_back", LOG_U64("tries", cdn_purger->tries));
        }
        cdn_purger->failing_since_ms = cdn_purger->pause_ms = 0;
        cdn_purger->tries = 0;
        return 0;
    }
    static struct log_limit limit;
    int64_t now = now_ms();
    cdn_purger->failing_since_ms =
        cdn_purger->failing_since_ms != 0 ? cdn_purger->failing_since_ms : now;
    cdn_purger->tries++;
    if (now - cdn_purger->failing_since_ms >= GIVE_UP_MS) {
        log_event(LOG_ERROR, "pages.purge_given_up", LOG_STR("why", problem),
                  LOG_U64("tries", cdn_purger->tries),
                  LOG_STR("what", "caches may show old pages until they ask again; tried again at "
                                  "the next change or start"));
        cdn_purger->failing_since_ms = cdn_purger->pause_ms = 0;
        cdn_purger->tries = 0;
        return 0;
    }
    log_event_limited(&limit, 60000, LOG_WARN, "pages.purge_failed", LOG_STR("why", problem),
                      LOG_STR("what", "tried again"));
    cdn_purger->pause_ms = backoff_grow(cdn_purger->pause_ms, PAUSE_LEAST_MS, PAUSE_MOST_MS);
    return cdn_purger->pause_ms;
}

static void *run(void *context)
{
    struct cdn_purger *cdn_purger = context;
    char problem[256] = "";
    uint64_t seen = UINT64_MAX; /* no edition: the first one is always checked */
    int64_t again_ms = 0;
    (void)pthread_setname_np(pthread_self(), "purge");
    while (!atomic_load(&cdn_purger->stopping)) {
        uint64_t editions = atomic_load(&cdn_purger->editions);
        bool due = again_ms != 0 && now_ms() >= again_ms;
        if (due || (again_ms == 0 && editions != seen)) {
            seen = editions;
            int64_t pause = note(cdn_purger, purge(cdn_purger, problem, sizeof(problem)), problem);
            again_ms = pause != 0 ? now_ms() + pause : 0;
            continue;
        }
        int64_t left_ms = again_ms != 0 ? again_ms - now_ms() : IDLE_US / 1000;
        mailbox_wait(&cdn_purger->bell, left_ms > 0 ? left_ms * 1000 : 1000);
    }
    return NULL;
}

static void cdn_purger_free(struct cdn_purger *cdn_purger)
{
    mailbox_done(&cdn_purger->bell);
    free(cdn_purger->told);
    free(cdn_purger);
}

int cdn_purger_start(const struct config *config, struct page_cache *page_cache,
                     struct cdn_purger **ret_cdn_purger)
{
    char problem[256] = "";
    *ret_cdn_purger = NULL;
    if (config->pages_purge_url[0] == '\0') {
        return 0;
    }
    struct cdn_purger *cdn_purger = calloc(1, sizeof(*cdn_purger));
    if (cdn_purger == NULL) {
        return assembly_fail("cannot start", ERR_NOMEM, "the purge hook");
    }
    mailbox_init(&cdn_purger->bell);
    cdn_purger->page_cache = page_cache;
    (void)snprintf(cdn_purger->base_url, sizeof(cdn_purger->base_url), "%s",
                   config->pages_base_url);
    (void)snprintf(cdn_purger->answers_path, sizeof(cdn_purger->answers_path), "%s/" TOLD_FILE,
                   config->data_dir);
    int error = hook_parse(config->pages_purge_url, &cdn_purger->hook);
    if (error == 0 && config->pages_purge_token_file[0] != '\0') {
        error = url_secret_file(config->pages_purge_token_file, "the purge hook's", "token",
                                cdn_purger->hook.token, sizeof(cdn_purger->hook.token), problem,
                                sizeof(problem));
    }
    if (error == 0) {
        answers_load(cdn_purger);
        error = pthread_create(&cdn_purger->thread, NULL, run, cdn_purger) == 0 ? 0 : ERR_NOMEM;
    }
    if (error != 0) {
        cdn_purger_free(cdn_purger);
        return assembly_fail("cannot start the purge hook", error, problem);
    }
    *ret_cdn_purger = cdn_purger;
    return 0;
}

void cdn_purger_ring(struct cdn_purger *cdn_purger)
{
    if (cdn_purger != NULL) {
        (void)atomic_fetch_add(&cdn_purger->editions, 1);
        mailbox_ring(&cdn_purger->bell);
    }
}

void cdn_purger_end(struct cdn_purger *cdn_purger)
{
    if (cdn_purger != NULL) {
        atomic_store(&cdn_purger->stopping, true);
        mailbox_ring(&cdn_purger->bell);
    }
}

void cdn_purger_stop(struct cdn_purger *cdn_purger)
{
    if (cdn_purger != NULL) {
        cdn_purger_end(cdn_purger);
        (void)pthread_join(cdn_purger->thread, NULL);
        cdn_purger_free(cdn_purger);
    }
}
