/*
 * Two sorted arrays behind a read-write lock: sales by id and items by id. Changes are rare (an
 * operator's call, a sale's move, a reading of the ledger), so an insert may move everything. A
 * lookup is a binary search.
 */
#define _GNU_SOURCE /* PTHREAD_RWLOCK_PREFER_WRITER_NONRECURSIVE_NP */
#include "ledger/catalog.h"

#include <pthread.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>

#include "base/check.h"
#include "base/err.h"

struct entry {
    uint64_t item;
    struct sale_row *sale;
    uint32_t index;
};

struct catalog {
    pthread_rwlock_t lock;
    struct sale_row **sales;
    size_t sales_count;
    struct entry *entries;
    size_t entries_count;
    _Atomic uint64_t readings_begun;
    _Atomic uint64_t last_reading;
    _Atomic uint64_t changes;
    void (*changed)(void *context);
    void *context;
};

struct catalog *catalog_new(void)
{
    struct catalog *catalog = calloc(1, sizeof(*catalog));
    if (catalog != NULL) {
        /* In a rush readers come without a pause. The writer must get in between. */
        pthread_rwlockattr_t attr;
        CHECK(pthread_rwlockattr_init(&attr) == 0);
        CHECK(pthread_rwlockattr_setkind_np(&attr, PTHREAD_RWLOCK_PREFER_WRITER_NONRECURSIVE_NP) ==
              0);
        CHECK(pthread_rwlock_init(&catalog->lock, &attr) == 0);
        (void)pthread_rwlockattr_destroy(&attr);
    }
    return catalog;
}

void catalog_free(struct catalog *catalog)
{
    if (catalog == NULL) {
        return;
    }
    for (size_t i = 0; i < catalog->sales_count; i++) {
        sale_row_free(catalog->sales[i]);
    }
    (void)pthread_rwlock_destroy(&catalog->lock);
    free(catalog->sales);
    free(catalog->entries);
    free(catalog);
}

/* Index of the first sale whose id is not below `sale`. */
static size_t sale_place(const struct catalog *catalog, uint64_t sale)
{
    size_t low = 0;
    size_t high = catalog->sales_count;
    while (low < high) {
        size_t middle = (low + high) / 2;
        if (catalog->sales[middle]->id < sale) {
            low = middle + 1;
        } else {
            high = middle;
        }
    }
    return low;
}

static int entry_order(const void *a, const void *b)
{
    uint64_t x = ((const struct entry *)a)->item;
    uint64_t y = ((const struct entry *)b)->item;
    return x < y ? -1 : x > y;
}

/* Rebuilds the item array from the sales. The caller allocated the
 * memory before it changed anything. */
static void index_items(struct catalog *catalog, struct entry *entries)
{
    size_t n = 0;
    for (size_t i = 0; i < catalog->sales_count; i++) {
        struct sale_row *sale = catalog->sales[i];
        for (uint32_t k = 0; k < sale->items_count; k++) {
            entries[n++] = (struct entry){sale->items[k].id, sale, k};
        }
    }
    if (n > 1) {
        qsort(entries, n, sizeof(*entries), entry_order);
    }
    free(catalog->entries);
    catalog->entries = entries;
    catalog->entries_count = n;
}

static size_t count_items(const struct catalog *catalog)
{
    size_t n = 0;
    for (size_t i = 0; i < catalog->sales_count; i++) {
        n += catalog->sales[i]->items_count;
    }
    return n;
}

uint64_t catalog_changes(const struct catalog *catalog)
{
    return atomic_load(&catalog->changes);
}

void catalog_on_change(struct catalog *catalog, void (*changed)(void *context), void *context)
{
    catalog->changed = changed;
    catalog->context = context;
}

static void tell_change(struct catalog *catalog)
{
    (void)atomic_fetch_add(&catalog->changes, 1);
    if (catalog->changed != NULL) {
        catalog->changed(catalog->context);
    }
}

static bool item_says_same(const struct item_row *a, const struct item_row *b)
{
    return a->id == b->id && a->price_cents == b->price_cents && a->was_cents == b->was_cents &&
           a->limit_per_user == b->limit_per_user && strcmp(a->name, b->name) == 0 &&
           strcmp(a->sku, b->sku) == 0 && strcmp(a->image_url, b->image_url) == 0;
}

/* A shared ledger is read again and again, and most rows have not changed. */
static bool says_same(const struct sale_row *a, const struct sale_row *b)
{
    bool same = a->state == b->state && a->starts_at_ms == b->starts_at_ms &&
                a->ends_at_ms == b->ends_at_ms && a->items_count == b->items_count &&
                strcmp(a->name, b->name) == 0 && strcmp(a->currency, b->currency) == 0;
    for (uint32_t i = 0; same && i < a->items_count; i++) {
        same = item_says_same(&a->items[i], &b->items[i]);
    }
    return same;
}

int catalog_put(struct catalog *catalog, struct sale_row *row)
{
    bool same = false;
    CHECK(pthread_rwlock_wrlock(&catalog->lock) == 0);
    size_t items = count_items(catalog) + row->items_count + 1;
    struct entry *entries = malloc(items * sizeof(*entries));
    struct sale_row **sales = realloc(catalog->sales, (catalog->sales_count + 1) * sizeof(*sales));
    if (sales != NULL) {
        catalog->sales = sales;
    }
    if (entries == NULL || sales == NULL) {
        CHECK(pthread_rwlock_unlock(&catalog->lock) == 0);
        free(entries);
        sale_row_free(row);
        return ERR_NOMEM;
    }
    size_t place = sale_place(catalog, row->id);
    if (place < catalog->sales_count && sales[place]->id == row->id) {
        same = says_same(sales[place], row);
        sale_row_free(sales[place]);
    } else {
        memmove(&sales[place + 1], &sales[place], (catalog->sales_count - place) * sizeof(*sales));
        catalog->sales_count++;
    }
    sales[place] = row;
    index_items(catalog, entries);
    CHECK(pthread_rwlock_unlock(&catalog->lock) == 0);
    if (!same) {
        tell_change(catalog);
    }
    return 0;
}

void catalog_remove(struct catalog *catalog, uint64_t sale)
{
    CHECK(pthread_rwlock_wrlock(&catalog->lock) == 0);
    size_t place = sale_place(catalog, sale);
    bool known = place < catalog->sales_count && catalog->sales[place]->id == sale;
    if (known) {
        size_t kept = 0;
        for (size_t i = 0; i < catalog->entries_count; i++) {
            if (catalog->entries[i].sale != catalog->sales[place]) {
                catalog->entries[kept++] = catalog->entries[i];
            }
        }
        catalog->entries_count = kept;
        sale_row_free(catalog->sales[place]);
        memmove(&catalog->sales[place], &catalog->sales[place + 1],
                (catalog->sales_count - place - 1) * sizeof(*catalog->sales));
        catalog->sales_count--;
    }
    CHECK(pthread_rwlock_unlock(&catalog->lock) == 0);
    if (known) {
        tell_change(catalog);
    }
}

void catalog_lock(struct catalog *catalog)
{
    CHECK(pthread_rwlock_rdlock(&catalog->lock) == 0);
}

void catalog_unlock(struct catalog *catalog)
{
    CHECK(pthread_rwlock_unlock(&catalog->lock) == 0);
}

struct sale_row *const *catalog_sales(const struct catalog *catalog, size_t *ret_count)
{
    *ret_count = catalog->sales_count;
    return catalog->sales;
}

const struct sale_row *catalog_sale(const struct catalog *catalog, uint64_t sale)
{
    size_t place = sale_place(catalog, sale);
    bool found = place < catalog->sales_count && catalog->sales[place]->id == sale;
    return found ? catalog->sales[place] : NULL;
}

const struct item_row *catalog_item(const struct catalog *catalog, uint64_t item,
                                    const struct sale_row **ret_sale)
{
    if (catalog->entries_count == 0) {
        return NULL;
    }
    struct entry key = {.item = item};
    const struct entry *entry =
        bsearch(&key, catalog->entries, catalog->entries_count, sizeof(key), entry_order);
    if (entry == NULL) {
        return NULL;
    }
    *ret_sale = entry->sale;
    return &entry->sale->items[entry->index];
}

uint64_t catalog_begin_reading(struct catalog *catalog)
{
    return atomic_fetch_add(&catalog->readings_begun, 1) + 1;
}

void catalog_end_reading(struct catalog *catalog, uint64_t reading)
{
    atomic_store(&catalog->last_reading, reading);
}

uint64_t catalog_next_reading(const struct catalog *catalog)
{
    return atomic_load(&catalog->readings_begun) + 1;
}

uint64_t catalog_last_reading(const struct catalog *catalog)
{
    return atomic_load(&catalog->last_reading);
}
