/* See shelf.h. Open addressing over a table that doubles; items are few and come by the sale. */
#include "flow/shelf.h"

#include <pthread.h>
#include <stdlib.h>

#include "base/check.h"
#include "base/err.h"

struct shelf {
    pthread_rwlock_t lock;
    struct shelf_item *items; /* view.item 0: empty */
    uint32_t capacity;        /* a power of two */
    uint32_t count;
};

struct shelf *shelf_new(void)
{
    struct shelf *shelf = calloc(1, sizeof(*shelf));
    struct shelf_item *items = calloc(64, sizeof(*items));
    if (shelf == NULL || items == NULL) {
        free(shelf);
        free(items);
        return NULL;
    }
    CHECK(pthread_rwlock_init(&shelf->lock, NULL) == 0);
    shelf->items = items;
    shelf->capacity = 64;
    return shelf;
}

void shelf_free(struct shelf *shelf)
{
    if (shelf == NULL) {
        return;
    }
    (void)pthread_rwlock_destroy(&shelf->lock);
    free(shelf->items);
    free(shelf);
}

/* Its place, or the empty one where it belongs. */
static struct shelf_item *place_of(struct shelf_item *items, uint32_t capacity, uint64_t item)
{
    uint32_t at = (uint32_t)((item * 0x9e3779b97f4a7c15ULL) >> 32) & (capacity - 1);
    while (items[at].view.item != 0 && items[at].view.item != item) {
        at = (at + 1) & (capacity - 1);
    }
    return &items[at];
}

bool shelf_find(struct shelf *shelf, uint64_t item, struct shelf_item *ret_item)
{
    if (item == 0) {
        return false;
    }
    CHECK(pthread_rwlock_rdlock(&shelf->lock) == 0);
    const struct shelf_item *found = place_of(shelf->items, shelf->capacity, item);
    bool is_there = found->view.item == item;
    if (is_there) {
        *ret_item = *found;
    }
    CHECK(pthread_rwlock_unlock(&shelf->lock) == 0);
    return is_there;
}

/* Copies those that `mark` allows (0: all) into a table of this capacity. */
static int rebuild(struct shelf *shelf, uint32_t capacity, uint32_t mark)
{
    struct shelf_item *items = calloc(capacity, sizeof(*items));
    if (items == NULL) {
        return ERR_NOMEM;
    }
    uint32_t count = 0;
    for (uint32_t i = 0; i < shelf->capacity; i++) {
        const struct shelf_item *old = &shelf->items[i];
        if (old->view.item != 0 && (mark == 0 || old->mark == mark)) {
            *place_of(items, capacity, old->view.item) = *old;
            count++;
        }
    }
    free(shelf->items);
    shelf->items = items;
    shelf->capacity = capacity;
    shelf->count = count;
    return 0;
}

static bool same_view(const struct item_view *a, const struct item_view *b)
{
    return a->total == b->total && a->available == b->available && a->locked == b->locked &&
           a->sold == b->sold && a->sale_state == b->sale_state &&
           a->starts_at_ms == b->starts_at_ms && a->ends_at_ms == b->ends_at_ms;
}

int shelf_put(struct shelf *shelf, const struct shelf_item *put)
{
    int error = 0;
    CHECK(pthread_rwlock_wrlock(&shelf->lock) == 0);
    if (2 * (shelf->count + 1) > shelf->capacity) {
        error = rebuild(shelf, 2 * shelf->capacity, 0);
    }
    if (error == 0) {
        struct shelf_item *item = place_of(shelf->items, shelf->capacity, put->view.item);
        struct shelf_item old = *item;
        bool is_new = old.view.item == 0;
        shelf->count += is_new;
        *item = *put;
        item->sold_out = put->view.available == 0;
        item->refills = old.refills + (old.sold_out && !item->sold_out);
        /* Segments that are rebuilt count from one again; watchers want a number that grows. */
        item->view.version = is_new                             ? 1
                             : same_view(&old.view, &put->view) ? old.view.version
                                                                : old.view.version + 1;
    }
    CHECK(pthread_rwlock_unlock(&shelf->lock) == 0);
    return error;
}

void shelf_refilled(struct shelf *shelf, uint64_t item)
{
    CHECK(pthread_rwlock_wrlock(&shelf->lock) == 0);
    for (uint32_t i = 0; item == 0 && i < shelf->capacity; i++) {
        shelf->items[i].refills++;
    }
    struct shelf_item *found = item != 0 ? place_of(shelf->items, shelf->capacity, item) : NULL;
    if (found != NULL && found->view.item == item) {
        found->refills++;
    }
    CHECK(pthread_rwlock_unlock(&shelf->lock) == 0);
}

void shelf_sweep(struct shelf *shelf, uint32_t mark)
{
    CHECK(pthread_rwlock_wrlock(&shelf->lock) == 0);
    bool any = false;
    for (uint32_t i = 0; i < shelf->capacity && !any; i++) {
        any = shelf->items[i].view.item != 0 && shelf->items[i].mark != mark;
    }
    if (any) {
        (void)rebuild(shelf, shelf->capacity, mark); /* without memory: next time */
    }
    CHECK(pthread_rwlock_unlock(&shelf->lock) == 0);
}
