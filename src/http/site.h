/*
 * The storefront's pages, ready to be sent: made from templates (static.h) and the catalog, plain
 * and packed, in memory. One thread makes them (site_make), whenever the catalog has changed; every
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
#ifndef SLUICE_HTTP_SITE_H
#define SLUICE_HTTP_SITE_H

#include "flow/catalog.h"
#include "http/server.h"

struct site;

/* Pages that say nothing of any sale: name, template, address (NULL: they have none), whether they
 * are the demonstration's. */
#define SITE_PLAIN(X)                                                                              \
    X(SITE_DEMO_LOGIN, "demo/login.html", "/demo/login", true)                                     \
    X(SITE_DEMO_PAY, "demo/pay.html", "/demo/pay", true)                                           \
    X(SITE_MISSING, "store/missing.html", NULL, false)                                             \
    X(SITE_ORDERS, "store/orders.html", "/orders", false)
enum site_plain {
#define X(name, template, address, demo) name,
    SITE_PLAIN(X)
#undef X
        SITE_PLAIN_COUNT
};

struct site_options {
    size_t memory_bytes;   /* of all pages of one edition */
    uint32_t shared_age_s; /* how long caches of others may keep a page unasked */
    bool demo;             /* with the demonstration's own pages */
    const char *base_url;  /* where buyers see the pages; empty: not known. Borrowed */
};

/* After static_start. ERR_NOMEM, or ERR_INVALID with what is wrong with a template in
 * ret_problem. */
int site_new(const struct site_options *options, struct site **ret_site, char *ret_problem,
             size_t problem_cap);
/* When no loop asks any more; answers under way keep their pages. */
void site_free(struct site *site);

struct site_made {
    size_t pages;    /* in the edition */
    size_t fresh;    /* of them made now */
    size_t gone;     /* of the last edition, not in this one */
    size_t left_out; /* for want of memory_bytes */
    size_t bytes;
};
/* A new edition from the catalog as it is. One thread at a time. The old one stays with ERR_NOMEM,
 * and with ERR_FULL: one page, or the manifest, would be larger than PAGE_MAX_BYTES. */
int site_make(struct site *site, struct catalog *catalog, struct site_made *ret_made);

/* A page by its address and by the hash of what it says. */
struct site_entry {
    char path[80];
    char hash[17];
};
/* All pages of the present edition, by path; malloc'ed, the caller's. ERR_NOMEM. Any thread. */
int site_entries(struct site *site, struct site_entry **ret_entries, size_t *ret_count);

/*
 * Each answers and returns true, or returns false: no such page. Any loop. The method is GET or
 * HEAD. A status other than 200 is what the missing page is for; with 503 it says when to ask
 * again. The manifest is for whoever copies the pages elsewhere:
 * {"pages":[{"path","hash"}],"assets":[path]}.
 */
bool site_answer_manifest(struct site *site, struct http_server *server,
                          struct http_exchange exchange, const struct http_request *request);
bool site_answer_list(struct site *site, struct http_server *server, struct http_exchange exchange,
                      const struct http_request *request);
bool site_answer_item(struct site *site, struct http_server *server, struct http_exchange exchange,
                      const struct http_request *request, uint64_t item);
/* Not while it is being made: the present edition has it, but no room for its page. */
bool site_left_out(struct site *site, uint64_t item);
bool site_answer_plain(struct site *site, struct http_server *server, struct http_exchange exchange,
                       const struct http_request *request, enum site_plain which, int status);

#endif
