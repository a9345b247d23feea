/* See stock_cache.h. Open addressing in a table that doubles. Items
 * are few and arrive sale by sale. */
#include "distributed/stock_cache.h"

#include <pthread.h>
#include <stdlib.h>

#include "base/check.h"
#include "base/err.h"

struct stock_cache {
    pthread_rwlock_t lock;
    struct stock_cache_item *items; /* view.item 0: empty */
    uint32_t capacity;              /* a power of two */
    uint32_t count;
};

struct stock_cache *stock_cache_new(void)
{
    struct stock_cache *stock_cache = calloc(1, sizeof(*stock_cache));
    struct stock_cache_item *items = calloc(64, sizeof(*items));
    if (stock_cache == NULL || items == NULL) {
        free(stock_cache);
        free(items);
        return NULL;
    }
    CHECK(pthread_rwlock_init(&stock_cache->lock, NULL) == 0);
    stock_cache->items = items;
    stock_cache->capacity = 64;
    return stock_cache;
}

void stock_cache_free(struct stock_cache *stock_cache)
{
    if (stock_cache == NULL) {
        return;
    }
    (void)pthread_rwlock_destroy(&stock_cache->lock);
    free(stock_cache->items);
    free(stock_cache);
}

/* The item's place, or the empty place where it belongs. */
static struct stock_cache_item *place_of(struct stock_cache_item *items, uint32_t capacity,
                                         uint64_t item)
{
    uint32_t at = (uint32_t)((item * 0x9e3779b97f4a7c15ULL) >> 32) & (capacity - 1);
    while (items[at].view.item != 0 && items[at].view.item != item) {
        at = (at + 1) & (capacity - 1);
    }
    return &items[at];
}

bool stock_cache_find(struct stock_cache *stock_cache, uint64_t item,
                      struct stock_cache_item *ret_item)
{
    if (item == 0) {
        return false;
    }
    CHECK(pthread_rwlock_rdlock(&stock_cache->lock) == 0);
    const struct stock_cache_item *found =
        place_of(stock_cache->items, stock_cache->capacity, item);
    bool is_there = found->view.item == item;
    if (is_there) {
        *ret_item = *found;
    }
    CHECK(pthread_rwlock_unlock(&stock_cache->lock) == 0);
    return is_there;
}

/* Copies the items with this mark (0: all) into a table of this capacity. */
static int rebuild(struct stock_cache *stock_cache, uint32_t capacity, uint32_t mark)
{
    struct stock_cache_item *items = calloc(capacity, sizeof(*items));
    if (items == NULL) {
        return ERR_NOMEM;
    }
    uint32_t count = 0;
    for (uint32_t i = 0; i < stock_cache->capacity; i++) {
        const struct stock_cache_item *old = &stock_cache->items[i];
        if (old->view.item != 0 && (mark == 0 || old->mark == mark)) {
            *place_of(items, capacity, old->view.item) = *old;
            count++;
        }
    }
    free(stock_cache->items);
    stock_cache->items = items;
    stock_cache->capacity = capacity;
    stock_cache->count = count;
    return 0;
}

static bool same_view(const struct item_view *a, const struct item_view *b)
{
    return a->total == b->total && a->available == b->available && a->locked == b->locked &&
           a->sold == b->sold && a->sale_state == b->sale_state &&
           a->starts_at_ms == b->starts_at_ms && a->ends_at_ms == b->ends_at_ms;
}

int stock_cache_put(struct stock_cache *stock_cache, const struct stock_cache_item *put)
{
    int error = 0;
    CHECK(pthread_rwlock_wrlock(&stock_cache->lock) == 0);
    if (2 * (stock_cache->count + 1) > stock_cache->capacity) {
        error = rebuild(stock_cache, 2 * stock_cache->capacity, 0);
    }
    if (error == 0) {
        struct stock_cache_item *item =
            place_of(stock_cache->items, stock_cache->capacity, put->view.item);
        struct stock_cache_item old = *item;
        bool is_new = old.view.item == 0;
        stock_cache->count += is_new;
        *item = *put;
        item->sold_out = put->view.available == 0;
        item->refills = old.refills + (old.sold_out && !item->sold_out);
        /* The versions of a rebuilt segment start from one again;
         * watchers need a number that grows. */
        item->view.version = is_new                             ? 1
                             : same_view(&old.view, &put->view) ? old.view.version
                                                                : old.view.version + 1;
    }
    CHECK(pthread_rwlock_unlock(&stock_cache->lock) == 0);
    return error;
}

void stock_cache_refilled(struct stock_cache *stock_cache, uint64_t item)
{
    CHECK(pthread_rwlock_wrlock(&stock_cache->lock) == 0);
    for (uint32_t i = 0; item == 0 && i < stock_cache->capacity; i++) {
        stock_cache->items[i].refills++;
    }
    struct stock_cache_item *found =
        item != 0 ? place_of(stock_cache->items, stock_cache->capacity, item) : NULL;
    if (found != NULL && found->view.item == item) {
        found->refills++;
    }
    CHECK(pthread_rwlock_unlock(&stock_cache->lock) == 0);
}

void stock_cache_sweep(struct stock_cache *stock_cache, uint32_t mark)
{
    CHECK(pthread_rwlock_wrlock(&stock_cache->lock) == 0);
    bool any = false;
    for (uint32_t i = 0; i < stock_cache->capacity && !any; i++) {
        any = stock_cache->items[i].view.item != 0 && stock_cache->items[i].mark != mark;
    }
    if (any) {
        (void)rebuild(stock_cache, stock_cache->capacity, mark); /* without memory: next time */
    }
    CHECK(pthread_rwlock_unlock(&stock_cache->lock) == 0);
}
