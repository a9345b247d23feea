/* The editions, and answers from them (see page_cache.h). page_builder.c builds them. */
#include "pages/page_cache.h"

#include <stdio.h>
#include <stdlib.h>

#include "base/check.h"
#include "base/err.h"
#include "pages/page_cache_private.h"
#include "pages/static.h"

/* Browsers revalidate soon: a page changes rarely, but then it matters. */
#define BROWSER_AGE_S 5

static void page_free(struct http_hold *hold)
{
    free((struct page *)hold);
}

struct page *page_new(const char *type, struct span body, struct span packed, const uint8_t *source)
{
    struct page *page = malloc(sizeof(*page) + body.len + packed.len);
    if (page == NULL) {
        return NULL;
    }
    *page = (struct page){.hold = {.count = 1, .free = page_free}, .content = {.type = type}};
    memcpy(page->source, source, sizeof(page->source));
    memcpy(page->bytes, body.at, body.len);
    page->content.body = (struct span){page->bytes, body.len};
    content_name(&page->content);
    if (packed.at != NULL) {
        memcpy(page->bytes + body.len, packed.at, packed.len);
        page->content.packed = (struct span){page->bytes + body.len, packed.len};
    }
    return page;
}

size_t page_bytes(const struct page *page)
{
    return sizeof(*page) + page->content.body.len + page->content.packed.len;
}

void edition_free(struct edition *edition)
{
    if (edition == NULL) {
        return;
    }
    for (size_t i = 0; i < edition->count; i++) {
        if (edition->items[i].page != NULL) {
            http_hold_release(&edition->items[i].page->hold);
        }
    }
    if (edition->list != NULL) {
        http_hold_release(&edition->list->hold);
    }
    if (edition->manifest != NULL) {
        http_hold_release(&edition->manifest->hold);
    }
    free(edition->items);
    free(edition);
}

static int item_order(const void *a, const void *b)
{
    uint64_t x = ((const struct item_page *)a)->item;
    uint64_t y = ((const struct item_page *)b)->item;
    return x < y ? -1 : x > y;
}

void edition_sort(struct edition *edition)
{
    if (edition->count > 1) {
        qsort(edition->items, edition->count, sizeof(*edition->items), item_order);
    }
}

static const struct item_page *find_item(const struct edition *edition, uint64_t item)
{
    const struct item_page key = {.item = item};
    return edition->count == 0
               ? NULL
               : bsearch(&key, edition->items, edition->count, sizeof(key), item_order);
}

struct page *edition_item(const struct edition *edition, uint64_t item)
{
    const struct item_page *found = find_item(edition, item);
    return found != NULL ? found->page : NULL;
}

/* ---- by address ---- */

static int entry_order(const void *a, const void *b)
{
    return strcmp(((const struct page_cache_entry *)a)->path,
                  ((const struct page_cache_entry *)b)->path);
}

static void put_entry(struct page_cache_entry *entry, const struct page *page, const char *path)
{
    (void)snprintf(entry->path, sizeof(entry->path), "%s", path);
    memcpy(entry->hash, page->content.hash, sizeof(entry->hash));
}

int edition_entries(const struct page_cache *page_cache, const struct edition *edition,
                    struct page_cache_entry **ret_entries, size_t *ret_count)
{
    static const char *const addresses[] = {
#define X(name, template, address, demo) address,
        PAGE_CACHE_PLAIN(X)
#undef X
    };
    size_t n = 0;
    struct page_cache_entry *entries =
        calloc(edition->count + PAGE_CACHE_PLAIN_COUNT + 1, sizeof(*entries));
    if (entries == NULL) {
        return ERR_NOMEM;
    }
    if (edition->list != NULL) {
        put_entry(&entries[n++], edition->list, "/");
    }
    for (size_t i = 0; i < PAGE_CACHE_PLAIN_COUNT; i++) {
        if (page_cache->plain[i] != NULL && addresses[i] != NULL) {
            put_entry(&entries[n++], page_cache->plain[i], addresses[i]);
        }
    }
    for (size_t i = 0; i < edition->count; i++) {
        char path[40];
        if (edition->items[i].page != NULL) {
            (void)snprintf(path, sizeof(path), "/items/%llu",
                           (unsigned long long)edition->items[i].item);
            put_entry(&entries[n++], edition->items[i].page, path);
        }
    }
    qsort(entries, n, sizeof(*entries), entry_order);
    *ret_entries = entries;
    *ret_count = n;
    return 0;
}

int page_cache_entries(struct page_cache *page_cache, struct page_cache_entry **ret_entries,
                       size_t *ret_count)
{
    CHECK(pthread_rwlock_rdlock(&page_cache->lock) == 0);
    int error = edition_entries(page_cache, page_cache->now, ret_entries, ret_count);
    CHECK(pthread_rwlock_unlock(&page_cache->lock) == 0);
    return error;
}

/* ---- life ---- */

static int read_template(const char *path, const struct template_scope *scope,
                         struct template **ret_template, char *ret_problem, size_t cap)
{
    struct span text;
    char problem[256] = "";
    *ret_template = NULL;
    if (!static_template(path, &text)) {
        return 0;
    }
    int error = template_read(text, scope, ret_template, problem, sizeof(problem));
    if (error != 0) {
        (void)snprintf(ret_problem, cap, "web/%s:%s", path, problem);
    }
    return error;
}

static int make_plain(struct page_cache *page_cache, enum page_cache_plain which, const char *path,
                      char *ret_problem, size_t cap)
{
    struct template *template = NULL;
    int error = read_template(path, &storefront_plain_scope, &template, ret_problem, cap);
    if (error == 0 && template != NULL) {
        struct storefront view = {.base_url = page_cache->base_url};
        error = page_cache_page(page_cache, template, &view, (struct span){"", 0}, NULL,
                                &page_cache->plain[which]);
    }
    template_free(template);
    return error;
}

static void write_headers(struct page_cache *page_cache, uint32_t shared_age_s)
{
    struct out out = out_over(page_cache->headers, sizeof(page_cache->headers));
    out_format(&out, "Cache-Control: public, max-age=%d, s-maxage=%u\r\n%s", BROWSER_AGE_S,
               shared_age_s, STATIC_PAGE_HEADERS);
    out_char(&out, '\0');
    CHECK(!out.overflow);
    out = out_over(page_cache->missing_headers, sizeof(page_cache->missing_headers));
    /* What is missing now may exist in a moment. The answer depends on Accept: programs get
     * JSON. */
    out_format(&out, "Cache-Control: no-cache\r\nVary: Accept\r\n%s", STATIC_PAGE_HEADERS);
    out_char(&out, '\0');
    CHECK(!out.overflow);
    out = out_over(page_cache->later_headers, sizeof(page_cache->later_headers));
    out_format(&out, "Retry-After: 1\r\n%s", page_cache->missing_headers);
    out_char(&out, '\0');
    CHECK(!out.overflow);
}

int page_cache_new(const struct page_cache_options *options, struct page_cache **ret_page_cache,
                   char *ret_problem, size_t problem_cap)
{
    struct page_cache *page_cache = calloc(1, sizeof(*page_cache));
    struct edition *none = calloc(1, sizeof(*none));
    struct packer *packer = packer_new(PACK_PAGES);
    if (page_cache == NULL || none == NULL || packer == NULL) {
        free(page_cache);
        free(none);
        packer_free(packer);
        return ERR_NOMEM;
    }
    page_cache->packer = packer;
    CHECK(pthread_rwlock_init(&page_cache->lock, NULL) == 0);
    page_cache->now = none;
    page_cache->memory_bytes = options->memory_bytes;
    page_cache->base_url = options->base_url;
    write_headers(page_cache, options->shared_age_s);
    int error = read_template("store/index.html", &storefront_list_scope,
                              &page_cache->list_template, ret_problem, problem_cap);
    if (error == 0) {
        error = read_template("store/item.html", &storefront_item_scope, &page_cache->item_template,
                              ret_problem, problem_cap);
    }
#define X(name, path, address, of_demo)                                                            \
    if (error == 0 && (options->demo || !(of_demo))) {                                             \
        error = make_plain(page_cache, name, path, ret_problem, problem_cap);                      \
    }
    PAGE_CACHE_PLAIN(X)
#undef X
    if (error != 0) {
        page_cache_free(page_cache);
        return error;
    }
    *ret_page_cache = page_cache;
    return 0;
}

void page_cache_free(struct page_cache *page_cache)
{
    if (page_cache == NULL) {
        return;
    }
    edition_free(page_cache->now);
    for (int i = 0; i < PAGE_CACHE_PLAIN_COUNT; i++) {
        if (page_cache->plain[i] != NULL) {
            http_hold_release(&page_cache->plain[i]->hold);
        }
    }
    template_free(page_cache->list_template);
    template_free(page_cache->item_template);
    packer_free(page_cache->packer);
    free(page_cache->data.at);
    free(page_cache->safe.at);
    free(page_cache->body.at);
    CHECK(pthread_rwlock_destroy(&page_cache->lock) == 0);
    free(page_cache);
}

/* ---- answering ---- */

static bool answer(struct page_cache *page_cache, struct http_server *server,
                   struct http_exchange exchange, const struct http_request *request,
                   struct page *page, int status)
{
    if (page == NULL) {
        return false;
    }
    content_answer(server, exchange, request, status, &page->content,
                   status == 200   ? page_cache->headers
                   : status == 503 ? page_cache->later_headers
                                   : page_cache->missing_headers,
                   &page->hold);
    http_hold_release(&page->hold);
    return true;
}

/* A page of the present edition, referenced for the caller. These values stand for pages without an
 * item. */
enum { TAKE_LIST = 0, TAKE_MANIFEST = -1 };
static struct page *take(struct page_cache *page_cache, int64_t item)
{
    CHECK(pthread_rwlock_rdlock(&page_cache->lock) == 0);
    struct page *page = item == TAKE_LIST       ? page_cache->now->list
                        : item == TAKE_MANIFEST ? page_cache->now->manifest
                                                : edition_item(page_cache->now, (uint64_t)item);
    if (page != NULL) {
        http_hold_keep(&page->hold);
    }
    CHECK(pthread_rwlock_unlock(&page_cache->lock) == 0);
    return page;
}

bool page_cache_answer_list(struct page_cache *page_cache, struct http_server *server,
                            struct http_exchange exchange, const struct http_request *request)
{
    return answer(page_cache, server, exchange, request, take(page_cache, TAKE_LIST), 200);
}

bool page_cache_answer_item(struct page_cache *page_cache, struct http_server *server,
                            struct http_exchange exchange, const struct http_request *request,
                            uint64_t item)
{
    return item != 0 && item <= ID_MAX &&
           answer(page_cache, server, exchange, request, take(page_cache, (int64_t)item), 200);
}

bool page_cache_left_out(struct page_cache *page_cache, uint64_t item)
{
    CHECK(pthread_rwlock_rdlock(&page_cache->lock) == 0);
    const struct item_page *found = find_item(page_cache->now, item);
    bool left_out = found != NULL && found->page == NULL;
    CHECK(pthread_rwlock_unlock(&page_cache->lock) == 0);
    return left_out;
}

bool page_cache_answer_plain(struct page_cache *page_cache, struct http_server *server,
                             struct http_exchange exchange, const struct http_request *request,
                             enum page_cache_plain which, int status)
{
    struct page *page = page_cache->plain[which];
    if (page != NULL) {
        http_hold_keep(&page->hold);
    }
    return answer(page_cache, server, exchange, request, page, status);
}

bool page_cache_answer_manifest(struct page_cache *page_cache, struct http_server *server,
                                struct http_exchange exchange, const struct http_request *request)
{
    struct page *page = take(page_cache, TAKE_MANIFEST);
    if (page == NULL) {
        return false;
    }
    content_answer(server, exchange, request, 200, &page->content,
                   "Cache-Control: no-cache\r\nX-Content-Type-Options: nosniff\r\n", &page->hold);
    http_hold_release(&page->hold);
    return true;
}
