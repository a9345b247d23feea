/*
 * The storefront's pages, ready to send: built from templates (static.h) and the catalog, plain and
 * compressed, in memory. One thread builds them (page_cache_make) whenever the catalog has changed;
 * all loops answer with them.
 *
 * The data of a page is compared with its earlier data, and only pages that differ are built again.
 * The result is an edition. Loops use the old edition until the pointer is exchanged. A page is
 * reference counted (struct http_hold): by editions, and by answers that are still being sent.
 *
 * What can go wrong: a template with an unknown key stops the start. No memory: the old edition
 * stays. More pages than memory_bytes allows: pages of closed sales, then of the latest to start,
 * are left out and counted.
 */
#ifndef SLUICE_PAGES_PAGE_CACHE_H
#define SLUICE_PAGES_PAGE_CACHE_H

#include "http/server.h"
#include "ledger/catalog.h"

struct page_cache;

/* Pages without data of a sale: name, template, address (NULL: none), whether they belong to the
 * demonstration. */
#define PAGE_CACHE_PLAIN(X)                                                                        \
    X(PAGE_CACHE_DEMO_LOGIN, "demo/login.html", "/demo/login", true)                               \
    X(PAGE_CACHE_DEMO_PAY, "demo/pay.html", "/demo/pay", true)                                     \
    X(PAGE_CACHE_MISSING, "store/missing.html", NULL, false)                                       \
    X(PAGE_CACHE_ORDERS, "store/orders.html", "/orders", false)
enum page_cache_plain {
#define X(name, template, address, demo) name,
    PAGE_CACHE_PLAIN(X)
#undef X
        PAGE_CACHE_PLAIN_COUNT
};

struct page_cache_options {
    size_t memory_bytes;   /* limit for all pages of an edition */
    uint32_t shared_age_s; /* how long shared caches may serve a page without revalidation */
    bool demo;             /* with the pages of the demonstration */
    const char *base_url;  /* where buyers see the pages; empty: not known. Borrowed */
};

/* After static_start. ERR_NOMEM, or ERR_INVALID with the template's error in ret_problem. */
int page_cache_new(const struct page_cache_options *options, struct page_cache **ret_page_cache,
                   char *ret_problem, size_t problem_cap);
/* When no loop uses it any more. Answers that are being sent keep their pages. */
void page_cache_free(struct page_cache *page_cache);

struct page_cache_made {
    size_t pages;    /* in the edition */
    size_t fresh;    /* built now */
    size_t gone;     /* in the last edition, but not in this one */
    size_t left_out; /* because of memory_bytes */
    size_t bytes;
};
/* Builds a new edition from the present catalog. One thread at a time. The old edition stays on
 * ERR_NOMEM and on ERR_FULL: a page, or the manifest, would exceed PAGE_MAX_BYTES. */
int page_cache_make(struct page_cache *page_cache, struct catalog *catalog,
                    struct page_cache_made *ret_made);

/* A page: its address and the hash of its content. */
struct page_cache_entry {
    char path[80];
    char hash[17];
};
/* All pages of the present edition, by path; malloc'ed, the caller frees it. ERR_NOMEM. Any
 * thread. */
int page_cache_entries(struct page_cache *page_cache, struct page_cache_entry **ret_entries,
                       size_t *ret_count);

/*
 * Each answers and returns true, or returns false: no such page. Any loop. The method is GET or
 * HEAD. The missing page takes a status other than 200; with 503 it has a Retry-After. The manifest
 * is for tools that copy the pages: {"pages":[{"path","hash"}],"assets":[path]}.
 */
bool page_cache_answer_manifest(struct page_cache *page_cache, struct http_server *server,
                                struct http_exchange exchange, const struct http_request *request);
bool page_cache_answer_list(struct page_cache *page_cache, struct http_server *server,
                            struct http_exchange exchange, const struct http_request *request);
bool page_cache_answer_item(struct page_cache *page_cache, struct http_server *server,
                            struct http_exchange exchange, const struct http_request *request,
                            uint64_t item);
/* Whether the present edition has the item, but had no room for its page. */
bool page_cache_left_out(struct page_cache *page_cache, uint64_t item);
bool page_cache_answer_plain(struct page_cache *page_cache, struct http_server *server,
                             struct http_exchange exchange, const struct http_request *request,
                             enum page_cache_plain which, int status);

#endif
