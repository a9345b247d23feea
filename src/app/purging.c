/* See purging.h. */
#define _GNU_SOURCE
#include "app/purging.h"

#include <errno.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <time.h>
#include <unistd.h>

#include "app/assembly.h"
#include "app/hook.h"
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

struct purging {
    struct site *site;
    struct hook hook;
    char base_url[URL_MAX_BYTES + 1];
    char told_path[1024];
    struct mailbox bell; /* only rung */
    _Atomic bool stopping;
    _Atomic uint64_t editions; /* rung so often */
    struct site_entry *told;   /* by path */
    size_t told_count;
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

/* ---- what the hook has been told of ---- */

static int entry_order(const void *a, const void *b)
{
    return strcmp(((const struct site_entry *)a)->path, ((const struct site_entry *)b)->path);
}

/* Lines "HASH PATH". Whatever else stands there was not told. */
static void told_load(struct purging *purging)
{
    FILE *file = fopen(purging->told_path, "re");
    char line[256];
    size_t cap = 0;
    while (file != NULL && fgets(line, sizeof(line), file) != NULL) {
        struct site_entry entry = {0};
        if (sscanf(line, "%16s %79s", entry.hash, entry.path) != 2) {
            continue;
        }
        if (purging->told_count == cap) {
            size_t more = cap == 0 ? 256 : cap * 2;
            struct site_entry *told = realloc(purging->told, more * sizeof(*told));
            if (told == NULL) {
                break;
            }
            purging->told = told;
            cap = more;
        }
        purging->told[purging->told_count++] = entry;
    }
    if (file != NULL) {
        (void)fclose(file);
    }
    if (purging->told_count > 1) {
        qsort(purging->told, purging->told_count, sizeof(*purging->told), entry_order);
    }
}

static void told_save(const struct purging *purging)
{
    char fresh[sizeof(purging->told_path) + 8];
    (void)snprintf(fresh, sizeof(fresh), "%s.new", purging->told_path);
    FILE *file = fopen(fresh, "we");
    bool good = file != NULL;
    for (size_t i = 0; good && i < purging->told_count; i++) {
        good = fprintf(file, "%s %s\n", purging->told[i].hash, purging->told[i].path) > 0;
    }
    if (file != NULL) {
        good = fclose(file) == 0 && good;
    }
    if (!good || rename(fresh, purging->told_path) != 0) {
        log_event(LOG_WARN, "pages.purge_not_noted", LOG_STR("file", purging->told_path),
                  LOG_STR("why", strerrordesc_np(errno)),
                  LOG_STR("what", "after a restart these pages are purged once more"));
    }
}

/* ---- the difference ---- */

/* Both lists are in order of path. Writes the paths that only one has, or that differ; at most
 * max. */
static size_t differences(const struct purging *purging, const struct site_entry *now,
                          size_t now_count, const char **ret_paths, size_t max)
{
    const struct site_entry *told = purging->told;
    size_t count = 0;
    for (size_t i = 0, k = 0; (i < now_count || k < purging->told_count) && count < max;) {
        int order = i == now_count             ? 1
                    : k == purging->told_count ? -1
                                               : strcmp(now[i].path, told[k].path);
        if (order != 0 || strcmp(now[i].hash, told[k].hash) != 0) {
            ret_paths[count++] = order <= 0 ? now[i].path : told[k].path;
        }
        i += order <= 0;
        k += order >= 0;
    }
    return count;
}

/* One call for at most URLS_MAX of the paths. */
static int tell(struct purging *purging, const char *const *paths, size_t count, char *ret_problem,
                size_t cap)
{
    size_t room = 64 + count * (sizeof(((struct site_entry *)0)->path) + URL_MAX_BYTES + 8);
    char *memory = malloc(room);
    if (memory == NULL) {
        (void)snprintf(ret_problem, cap, "no memory");
        return ERR_NOMEM;
    }
    struct out body = out_over(memory, room);
    out_lit(&body, "{\"urls\":[");
    for (size_t i = 0; i < count; i++) {
        char url[URL_MAX_BYTES + sizeof(((struct site_entry *)0)->path)];
        (void)snprintf(url, sizeof(url), "%s%s", purging->base_url, paths[i]);
        if (i > 0) {
            out_char(&body, ',');
        }
        out_json_string(&body, span_of(url));
    }
    out_lit(&body, "]}");
    int error = hook_post(&purging->hook, out_span(&body), &purging->stopping, ret_problem, cap);
    free(memory);
    return error;
}

/* Tells the hook all that is different from what it was told. */
static int purge(struct purging *purging, char *ret_problem, size_t cap)
{
    struct site_entry *now = NULL;
    size_t now_count = 0;
    int error = site_entries(purging->site, &now, &now_count);
    size_t most = now_count + purging->told_count;
    const char **paths = error == 0 ? calloc(most + 1, sizeof(*paths)) : NULL;
    if (paths == NULL) {
        (void)snprintf(ret_problem, cap, "no memory");
        free(now);
        return ERR_NOMEM;
    }
    size_t count = differences(purging, now, now_count, paths, most);
    for (size_t i = 0; error == 0 && i < count; i += URLS_MAX) {
        size_t some = count - i < URLS_MAX ? count - i : URLS_MAX;
        error = tell(purging, paths + i, some, ret_problem, cap);
    }
    if (error == 0 && count > 0) {
        log_event(LOG_INFO, "pages.purged", LOG_U64("urls", count));
        free(purging->told);
        purging->told = now;
        purging->told_count = now_count;
        told_save(purging);
        now = NULL;
    }
    free(paths);
    free(now);
    return error;
}

/* ---- the thread ---- */

/* Notes how it went; how long to wait then. */
static int64_t note(struct purging *purging, int error, const char *problem)
{
    if (error == 0) {
        if (purging->failing_since_ms != 0) {
            log_event(LOG_INFO, "pages.purge_back", LOG_U64("tries", purging->tries));
        }
        purging->failing_since_ms = purging->pause_ms = 0;
        purging->tries = 0;
        return 0;
    }
    static struct log_limit limit;
    int64_t now = now_ms();
    purging->failing_since_ms = purging->failing_since_ms != 0 ? purging->failing_since_ms : now;
    purging->tries++;
    if (now - purging->failing_since_ms >= GIVE_UP_MS) {
        log_event(LOG_ERROR, "pages.purge_given_up", LOG_STR("why", problem),
                  LOG_U64("tries", purging->tries),
                  LOG_STR("what", "caches may show old pages until they ask again; tried again at "
                                  "the next change or start"));
        purging->failing_since_ms = purging->pause_ms = 0;
        purging->tries = 0;
        return 0;
    }
    log_event_limited(&limit, 60000, LOG_WARN, "pages.purge_failed", LOG_STR("why", problem),
                      LOG_STR("what", "tried again"));
    int64_t pause = purging->pause_ms == 0 ? PAUSE_LEAST_MS : purging->pause_ms * 2;
    purging->pause_ms = pause < PAUSE_MOST_MS ? pause : PAUSE_MOST_MS;
    return purging->pause_ms;
}

static void *run(void *context)
{
    struct purging *purging = context;
    char problem[256] = "";
    uint64_t seen = UINT64_MAX; /* of no edition: the first is looked at in any case */
    int64_t again_ms = 0;
    (void)pthread_setname_np(pthread_self(), "purge");
    while (!atomic_load(&purging->stopping)) {
        uint64_t editions = atomic_load(&purging->editions);
        bool due = again_ms != 0 && now_ms() >= again_ms;
        if (due || (again_ms == 0 && editions != seen)) {
            seen = editions;
            int64_t pause = note(purging, purge(purging, problem, sizeof(problem)), problem);
            again_ms = pause != 0 ? now_ms() + pause : 0;
            continue;
        }
        int64_t left_ms = again_ms != 0 ? again_ms - now_ms() : IDLE_US / 1000;
        mailbox_wait(&purging->bell, left_ms > 0 ? left_ms * 1000 : 1000);
    }
    return NULL;
}

static void purging_free(struct purging *purging)
{
    mailbox_done(&purging->bell);
    free(purging->told);
    free(purging);
}

int purging_start(const struct config *config, struct site *site, struct purging **ret_purging)
{
    char problem[256] = "";
    *ret_purging = NULL;
    if (config->pages_purge_url[0] == '\0') {
        return 0;
    }
    struct purging *purging = calloc(1, sizeof(*purging));
    if (purging == NULL) {
        return assembly_fail("cannot start", ERR_NOMEM, "the purge hook");
    }
    mailbox_init(&purging->bell);
    purging->site = site;
    (void)snprintf(purging->base_url, sizeof(purging->base_url), "%s", config->pages_base_url);
    (void)snprintf(purging->told_path, sizeof(purging->told_path), "%s/" TOLD_FILE,
                   config->data_dir);
    int error = hook_parse(config->pages_purge_url, &purging->hook);
    if (error == 0 && config->pages_purge_token_file[0] != '\0') {
        error = url_secret_file(config->pages_purge_token_file, "the purge hook's", "token",
                                purging->hook.token, sizeof(purging->hook.token), problem,
                                sizeof(problem));
    }
    if (error == 0) {
        told_load(purging);
        error = pthread_create(&purging->thread, NULL, run, purging) == 0 ? 0 : ERR_NOMEM;
    }
    if (error != 0) {
        purging_free(purging);
        return assembly_fail("cannot start the purge hook", error, problem);
    }
    *ret_purging = purging;
    return 0;
}

void purging_ring(struct purging *purging)
{
    if (purging != NULL) {
        (void)atomic_fetch_add(&purging->editions, 1);
        mailbox_ring(&purging->bell);
    }
}

void purging_end(struct purging *purging)
{
    if (purging != NULL) {
        atomic_store(&purging->stopping, true);
        mailbox_ring(&purging->bell);
    }
}

void purging_stop(struct purging *purging)
{
    if (purging != NULL) {
        purging_end(purging);
        (void)pthread_join(purging->thread, NULL);
        purging_free(purging);
    }
}
