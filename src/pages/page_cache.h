/*
 * The storefront's pages, ready to be sent: made from templates (static.h) and the catalog, plain
 * and packed, in memory. One thread makes them (page_cache_make), whenever the catalog has changed; every
 * loop answers with them.
 *
 * Making: what a page says is compared with what it said before, and only what differs is made
 * again. The result is an edition; loops see the old one until it is exchanged for the new one,
 * which takes a pointer's time. A page lives while an edition has it or an answer is still being
 * sent from it: each counts (struct http_hold), the last one frees it.
 *
 * What can go wrong: a template that says what there is not stops the start. No memory: the old
 * edition stays. More pages than the bound allows: those of closed sales, then of the latest to
 * start, are left out, and whoever makes them is told how many.
 */
#ifndef SLUICE_PAGES_PAGE_CACHE_H
#define SLUICE_PAGES_PAGE_CACHE_H

#include "http/server.h"
#include "ledger/catalog.h"

struct page_cache;

/* Pages that say nothing of any sale: name, template, address (NULL: they have none), whether they
 * are the demonstration's. */
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
    size_t memory_bytes;   /* of all pages of one edition */
    uint32_t shared_age_s; /* how long caches of others may keep a page unasked */
    bool demo;             /* with the demonstration's own pages */
    const char *base_url;  /* where buyers see the pages; empty: not known. Borrowed */
};

/* After static_start. ERR_NOMEM, or ERR_INVALID with what is wrong with a template in
 * ret_problem. */
int page_cache_new(const struct page_cache_options *options, struct page_cache **ret_page_cache,
                   char *ret_problem, size_t problem_cap);
/* When no loop asks any more; answers under way keep their pages. */
void page_cache_free(struct page_cache *page_cache);

struct page_cache_made {
    size_t pages;    /* in the edition */
    size_t fresh;    /* of them made now */
    size_t gone;     /* of the last edition, not in this one */
    size_t left_out; /* for want of memory_bytes */
    size_t bytes;
};
/* A new edition from the catalog as it is. One thread at a time. The old one stays with ERR_NOMEM,
 * and with ERR_FULL: one page, or the manifest, would be larger than PAGE_MAX_BYTES. */
int page_cache_make(struct page_cache *page_cache, struct catalog *catalog,
                    struct page_cache_made *ret_made);

/* A page by its address and by the hash of what it says. */
struct page_cache_entry {
    char path[80];
    char hash[17];
};
/* All pages of the present edition, by path; malloc'ed, the caller's. ERR_NOMEM. Any thread. */
int page_cache_entries(struct page_cache *page_cache, struct page_cache_entry **ret_entries,
                       size_t *ret_count);

/*
 * Each answers and returns true, or returns false: no such page. Any loop. The method is GET or
 * HEAD. A status other than 200 is what the missing page is for; with 503 it says when to ask
 * again. The manifest is for whoever copies the pages elsewhere:
 * {"pages":[{"path","hash"}],"assets":[path]}.
 */
bool page_cache_answer_manifest(struct page_cache *page_cache, struct http_server *server,
                                struct http_exchange exchange, const struct http_request *request);
bool page_cache_answer_list(struct page_cache *page_cache, struct http_server *server,
                            struct http_exchange exchange, const struct http_request *request);
bool page_cache_answer_item(struct page_cache *page_cache, struct http_server *server,
                            struct http_exchange exchange, const struct http_request *request,
                            uint64_t item);
/* Not while it is being made: the present edition has it, but no room for its page. */
bool page_cache_left_out(struct page_cache *page_cache, uint64_t item);
bool page_cache_answer_plain(struct page_cache *page_cache, struct http_server *server,
                             struct http_exchange exchange, const struct http_request *request,
                             enum page_cache_plain which, int status);

#endif
