/*
 * See answer_cache.h. `making` is held by the loop that makes an edition, and is taken before the
 * catalog's lock. `lock` guards the places, is held for a few comparisons only, and no other lock is
 * taken under it.
 */
#include "api/answer_cache.h"

#include <pthread.h>
#include <stdlib.h>
#include <string.h>

#include "base/check.h"
#include "base/err.h"
#include "base/limits.h"
#include "http/gzip.h"

/* A shorter body is not compressed: it fits one packet as it is. */
#define PACK_MIN_BYTES 1024
/* Texts of /metrics that are made within one second; a text takes about 100 us. */
#define METRICS_PER_S 8

/* One range of time. */
struct place {
    int64_t from_ms, to_ms;
    struct answer *answer; /* referenced; NULL: the place is free */
    uint64_t changes;      /* catalog_changes() before it was made */
    int64_t made_ms;
    int64_t good_until_ms; /* a sale starts or ends then */
    int64_t used_ms;
};

/* Starts and ends of all sales but drafts, each sorted. */
struct bounds {
    uint64_t changes; /* catalog_changes() before they were read */
    bool read;
    size_t count;
    int64_t *starts_ms;
    int64_t *ends_ms;
};

struct answer_cache {
    pthread_mutex_t making;
    pthread_mutex_t lock;
    struct place places[1 + ANSWER_CACHE_RANGES]; /* the first is of all sales, and stays so */
    struct bounds bounds;
    struct answer *metrics; /* referenced; NULL: none yet */
    int64_t metrics_ms;     /* when the first text of this second was made */
    uint32_t metrics_made;  /* in this second */
    /* of the loop that holds `making` */
    struct packer *packer;
    char *body;
};

static void lock(pthread_mutex_t *mutex)
{
    CHECK(pthread_mutex_lock(mutex) == 0);
}

static void unlock(pthread_mutex_t *mutex)
{
    CHECK(pthread_mutex_unlock(mutex) == 0);
}

/* ---- answers ---- */

static void answer_free(struct http_hold *hold)
{
    free((struct answer *)hold);
}

static struct answer *answer_new(const char *type, struct span body, struct span packed)
{
    struct answer *answer = malloc(sizeof(*answer) + body.len + packed.len);
    if (answer == NULL) {
        return NULL;
    }
    *answer = (struct answer){.hold = {.count = 1, .free = answer_free}, .content = {.type = type}};
    memcpy(answer->bytes, body.at, body.len);
    answer->content.body = (struct span){answer->bytes, body.len};
    content_name(&answer->content);
    if (packed.at != NULL) {
        memcpy(answer->bytes + body.len, packed.at, packed.len);
        answer->content.packed = (struct span){answer->bytes + body.len, packed.len};
    }
    return answer;
}

static struct answer *keep(struct answer *answer)
{
    http_hold_keep(&answer->hold);
    return answer;
}

static void release(struct answer *answer)
{
    if (answer != NULL) {
        http_hold_release(&answer->hold);
    }
}

/* ---- life ---- */

struct answer_cache *answer_cache_new(void)
{
    struct answer_cache *cache = calloc(1, sizeof(*cache));
    if (cache == NULL) {
        return NULL;
    }
    cache->packer = packer_new(PACK_ANSWERS);
    cache->body = malloc(HTTP_ANSWER_MAX);
    if (cache->packer == NULL || cache->body == NULL) {
        packer_free(cache->packer);
        free(cache->body);
        free(cache);
        return NULL;
    }
    cache->places[0].to_ms = INT64_MAX;
    CHECK(pthread_mutex_init(&cache->making, NULL) == 0);
    CHECK(pthread_mutex_init(&cache->lock, NULL) == 0);
    return cache;
}

void answer_cache_free(struct answer_cache *cache)
{
    if (cache == NULL) {
        return;
    }
    for (size_t i = 0; i < 1 + ANSWER_CACHE_RANGES; i++) {
        release(cache->places[i].answer);
    }
    release(cache->metrics);
    free(cache->bounds.starts_ms);
    free(cache->bounds.ends_ms);
    packer_free(cache->packer);
    free(cache->body);
    CHECK(pthread_mutex_destroy(&cache->making) == 0);
    CHECK(pthread_mutex_destroy(&cache->lock) == 0);
    free(cache);
}

/* ---- ranges ---- */

static int by_time(const void *left, const void *right)
{
    int64_t a = *(const int64_t *)left;
    int64_t b = *(const int64_t *)right;
    return a < b ? -1 : a > b;
}

/* Under `making`. The memory of the older bounds is used again. */
static int read_bounds(struct answer_cache *cache, struct catalog *catalog)
{
    uint64_t changes = catalog_changes(catalog); /* before the catalog is read */
    size_t count = 0;
    catalog_lock(catalog);
    struct sale_row *const *sales = catalog_sales(catalog, &count);
    int64_t *starts_ms = malloc((count + 1) * sizeof(*starts_ms));
    int64_t *ends_ms = malloc((count + 1) * sizeof(*ends_ms));
    size_t n = 0;
    for (size_t i = 0; i < count && starts_ms != NULL && ends_ms != NULL; i++) {
        if (sales[i]->state != SALE_DRAFT) {
            starts_ms[n] = sales[i]->starts_at_ms;
            ends_ms[n++] = sales[i]->ends_at_ms;
        }
    }
    catalog_unlock(catalog);
    if (starts_ms == NULL || ends_ms == NULL) {
        free(starts_ms);
        free(ends_ms);
        return ERR_NOMEM;
    }
    if (n > 1) {
        qsort(starts_ms, n, sizeof(*starts_ms), by_time);
        qsort(ends_ms, n, sizeof(*ends_ms), by_time);
    }
    lock(&cache->lock);
    struct bounds old = cache->bounds;
    cache->bounds = (struct bounds){
        .changes = changes, .read = true, .count = n, .starts_ms = starts_ms, .ends_ms = ends_ms};
    unlock(&cache->lock);
    free(old.starts_ms);
    free(old.ends_ms);
    return 0;
}

/* How many of the times are not above this one. */
static size_t not_above(const int64_t *times, size_t count, int64_t time)
{
    size_t low = 0;
    size_t high = count;
    while (low < high) {
        size_t middle = (low + high) / 2;
        if (times[middle] <= time) {
            low = middle + 1;
        } else {
            high = middle;
        }
    }
    return low;
}

/* The range as the sales' own bounds say it, so that all ranges with the same sales are one. */
static void narrow(const struct bounds *bounds, int64_t *from_ms, int64_t *to_ms)
{
    size_t ended = not_above(bounds->ends_ms, bounds->count, *from_ms);
    *from_ms = ended > 0 ? bounds->ends_ms[ended - 1] : 0;
    size_t begun = *to_ms > 0 ? not_above(bounds->starts_ms, bounds->count, *to_ms - 1) : 0;
    *to_ms = begun < bounds->count ? bounds->starts_ms[begun] : INT64_MAX;
}

/* The next time at which a sale starts or ends. */
static int64_t next_bound(const struct bounds *bounds, int64_t now_ms)
{
    size_t begun = not_above(bounds->starts_ms, bounds->count, now_ms);
    size_t ended = not_above(bounds->ends_ms, bounds->count, now_ms);
    int64_t next_ms = begun < bounds->count ? bounds->starts_ms[begun] : INT64_MAX;
    bool sooner = ended < bounds->count && bounds->ends_ms[ended] < next_ms;
    return sooner ? bounds->ends_ms[ended] : next_ms;
}

/* ---- the sales ---- */

static bool is_young(const struct place *place, int64_t now_ms, int64_t age_ms)
{
    return place->answer != NULL && now_ms >= place->made_ms && now_ms - place->made_ms < age_ms;
}

static bool is_good(const struct place *place, uint64_t changes, int64_t now_ms)
{
    return is_young(place, now_ms, ANSWER_CACHE_AGE_MS) && place->changes == changes &&
           now_ms < place->good_until_ms;
}

/* Under `lock`. The place of the range, or one that it may have; NULL: none that nobody uses. */
static struct place *place_of(struct answer_cache *cache, int64_t from_ms, int64_t to_ms,
                              int64_t now_ms)
{
    struct place *longest = NULL;
    for (size_t i = 0; i < 1 + ANSWER_CACHE_RANGES; i++) {
        struct place *place = &cache->places[i];
        if (place->from_ms == from_ms && place->to_ms == to_ms &&
            (i == 0 || place->answer != NULL)) {
            return place;
        }
        bool unused = place->answer == NULL || now_ms < place->used_ms ||
                      now_ms - place->used_ms >= ANSWER_CACHE_AGE_MS;
        bool longer =
            longest == NULL || (longest->answer != NULL &&
                                (place->answer == NULL || place->used_ms < longest->used_ms));
        if (i > 0 && unused && longer) {
            longest = place;
        }
    }
    return longest;
}

/* Under `lock`. The edition of the range if it is good; *ret_late: one that is a little too old, or
 * NULL. Neither is referenced. */
static struct answer *find(struct answer_cache *cache, uint64_t changes, int64_t from_ms,
                           int64_t to_ms, int64_t now_ms, struct answer **ret_late)
{
    *ret_late = NULL;
    if (!cache->bounds.read || cache->bounds.changes != changes) {
        return NULL;
    }
    narrow(&cache->bounds, &from_ms, &to_ms);
    struct place *place = place_of(cache, from_ms, to_ms, now_ms);
    if (place == NULL || place->from_ms != from_ms || place->to_ms != to_ms) {
        return NULL;
    }
    place->used_ms = now_ms;
    *ret_late = is_young(place, now_ms, ANSWER_CACHE_LATE_MS) ? place->answer : NULL;
    return is_good(place, changes, now_ms) ? place->answer : NULL;
}

static bool says_same(const struct answer *answer, const struct out *body)
{
    return answer != NULL && answer->content.body.len == body->len &&
           memcmp(answer->content.body.at, body->at, body->len) == 0;
}

/* Under `making`. The next edition: `old` again if it says the same. Referenced for the caller. */
static int make(struct answer_cache *cache, const struct out *body, struct answer *old,
                struct answer **ret_answer)
{
    if (says_same(old, body)) {
        *ret_answer = keep(old);
        return 0;
    }
    struct span packed = {NULL, 0};
    int error =
        body->len >= PACK_MIN_BYTES ? packer_gzip(cache->packer, out_span(body), &packed) : 0;
    if (error == 0) {
        *ret_answer = answer_new("application/json", out_span(body), packed);
        error = *ret_answer != NULL ? 0 : ERR_NOMEM;
    }
    free((char *)packed.at);
    return error;
}

/* Under `making`. Puts the edition into its place; the place references it, too. */
static void publish(struct answer_cache *cache, struct place *place, struct place edition)
{
    lock(&cache->lock);
    struct answer *old = place->answer;
    *place = edition;
    unlock(&cache->lock);
    release(old);
}

/* Under `making`. Places change only under it, so what was found stays there. */
static int make_sales(struct answer_cache *cache, struct catalog *catalog, int64_t now_ms,
                      int64_t from_ms, int64_t to_ms, answer_cache_write *write, void *context,
                      struct answer **ret_answer)
{
    struct answer *late = NULL;
    uint64_t changes = catalog_changes(catalog); /* before the catalog is read */
    int error =
        cache->bounds.read && cache->bounds.changes == changes ? 0 : read_bounds(cache, catalog);
    if (error != 0) {
        return error;
    }
    lock(&cache->lock);
    struct answer *good = find(cache, changes, from_ms, to_ms, now_ms, &late);
    if (good != NULL) { /* made while this loop waited */
        *ret_answer = keep(good);
    }
    narrow(&cache->bounds, &from_ms, &to_ms);
    struct place *place = good == NULL ? place_of(cache, from_ms, to_ms, now_ms) : NULL;
    int64_t good_until_ms = next_bound(&cache->bounds, now_ms);
    unlock(&cache->lock);
    if (good != NULL || place == NULL) {
        return good != NULL ? 0 : ERR_FULL;
    }
    struct out body = out_over(cache->body, HTTP_ANSWER_MAX);
    write(context, from_ms, to_ms, &body);
    CHECK(!body.overflow);
    error = make(cache, &body, place->answer, ret_answer);
    if (error == 0) {
        publish(cache, place,
                (struct place){.from_ms = from_ms,
                               .to_ms = to_ms,
                               .answer = keep(*ret_answer),
                               .changes = changes,
                               .made_ms = now_ms,
                               .good_until_ms = good_until_ms,
                               .used_ms = now_ms});
    }
    return error;
}

int answer_cache_sales(struct answer_cache *cache, struct catalog *catalog, int64_t now_ms,
                       int64_t from_ms, int64_t to_ms, answer_cache_write *write, void *context,
                       struct answer **ret_answer)
{
    struct answer *late = NULL;
    uint64_t changes = catalog_changes(catalog);
    lock(&cache->lock);
    struct answer *found = find(cache, changes, from_ms, to_ms, now_ms, &late);
    bool mine = found == NULL && pthread_mutex_trylock(&cache->making) == 0;
    if (found == NULL && !mine) {
        found = late; /* another loop makes the next one */
    }
    if (found != NULL) {
        *ret_answer = keep(found); /* under the lock: it may be replaced right after */
    }
    unlock(&cache->lock);
    if (found != NULL) {
        return 0;
    }
    if (!mine) {
        lock(&cache->making);
    }
    int error = make_sales(cache, catalog, now_ms, from_ms, to_ms, write, context, ret_answer);
    unlock(&cache->making);
    return error;
}

/* ---- the metrics ---- */

int answer_cache_metrics(struct answer_cache *cache, const struct metrics *metrics,
                         answer_metrics_render *render, int64_t now_ms, struct answer **ret_answer)
{
    char text[METRICS_TEXT_MAX];
    lock(&cache->lock);
    if (now_ms < cache->metrics_ms || now_ms - cache->metrics_ms >= ANSWER_CACHE_AGE_MS) {
        cache->metrics_ms = now_ms;
        cache->metrics_made = 0;
    }
    bool fresh = cache->metrics == NULL || cache->metrics_made < METRICS_PER_S;
    cache->metrics_made += fresh ? 1 : 0;
    struct answer *kept = fresh ? NULL : keep(cache->metrics);
    unlock(&cache->lock);
    if (!fresh) {
        *ret_answer = kept;
        return 0;
    }
    struct out body = out_over(text, sizeof(text));
    render(metrics, &body);
    struct answer *made = answer_new("text/plain; version=0.0.4; charset=utf-8", out_span(&body),
                                     (struct span){NULL, 0});
    if (made == NULL) {
        return ERR_NOMEM;
    }
    lock(&cache->lock);
    struct answer *old = cache->metrics;
    cache->metrics = keep(made);
    unlock(&cache->lock);
    release(old);
    *ret_answer = made;
    return 0;
}
