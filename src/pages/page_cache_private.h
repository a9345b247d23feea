/* Shared by page_cache.c and page_builder.c. Included by no other file. */
#ifndef SLUICE_PAGES_PAGE_CACHE_PRIVATE_H
#define SLUICE_PAGES_PAGE_CACHE_PRIVATE_H

#include <pthread.h>

#include "http/content.h"
#include "http/gzip.h"
#include "pages/page_cache.h"
#include "pages/storefront.h"

#define PAGE_SOURCE_BYTES 16

struct page {
    struct http_hold hold; /* first */
    struct content content;
    uint8_t source[PAGE_SOURCE_BYTES]; /* hash of the data it was made from */
    char bytes[];
};

struct item_page {
    uint64_t item;
    struct page *page; /* referenced; NULL: left out */
};

/* Never changes once loops can see it. */
struct edition {
    struct page *list;     /* referenced; NULL: none */
    struct page *manifest; /* referenced */
    size_t count;
    size_t cap;
    struct item_page *items; /* by id */
    size_t bytes;
};

/* Memory that grows with the pages, up to PAGE_MAX_BYTES. */
struct room {
    char *at;
    size_t cap;
};

struct page_cache {
    pthread_rwlock_t lock; /* guards `now` and the taking of references to its pages */
    struct edition *now;
    struct page *plain[PAGE_CACHE_PLAIN_COUNT]; /* NULL: no template */
    struct template *list_template;
    struct template *item_template;
    const char *base_url;
    size_t memory_bytes;
    char headers[1024];
    char missing_headers[1024];
    char later_headers[1024];
    /* of the building thread */
    struct room data, safe, body;
    struct packer *packer;
};

struct page *page_new(const char *type, struct span body, struct span packed,
                      const uint8_t *source);
size_t page_bytes(const struct page *page);
void edition_free(struct edition *edition);
void edition_sort(struct edition *edition);
/* All pages of an edition and the plain ones, by path. */
int edition_entries(const struct page_cache *page_cache, const struct edition *edition,
                    struct page_cache_entry **ret_entries, size_t *ret_count);
struct page *edition_item(const struct edition *edition, uint64_t item);

/* Builds the page of a view whose data is this JSON. Returns `old` if the data is the same, else a
 * new page; either is referenced for the caller. ERR_NOMEM, ERR_FULL. */
int page_cache_page(struct page_cache *page_cache, const struct template *template,
                    struct storefront *view, struct span data, struct page *old,
                    struct page **ret_page);

#endif
