/*
 * How an edition is built (see page_cache.h). Happy path: list the sales; copy them one by one, so
 * the catalog is never locked for longer than one copy; build or keep the page of each item; build
 * the list; exchange the editions.
 *
 * Changes of the catalog meanwhile belong to the next edition: the caller of page_cache_make calls
 * it again.
 */
#include <stdlib.h>

#include "base/check.h"
#include "base/crypt.h"
#include "base/err.h"
#include "pages/page_cache_private.h"
#include "pages/static.h"

#define ROOM_FIRST 65536U

/* ---- one page ---- */

static int room_grow(struct room *room)
{
    size_t cap = room->cap == 0 ? ROOM_FIRST : room->cap * 2;
    if (cap > PAGE_MAX_BYTES) {
        return ERR_FULL;
    }
    char *more = realloc(room->at, cap);
    if (more == NULL) {
        return ERR_NOMEM;
    }
    *room = (struct room){more, cap};
    return 0;
}

/* Writes with `write` into a room and enlarges it as needed. */
#define ROOM_WRITE(room, out, error, write)                                                        \
    do {                                                                                           \
        (error) = (room)->cap == 0 ? room_grow(room) : 0;                                          \
        while ((error) == 0) {                                                                     \
            (out) = out_over((room)->at, (room)->cap);                                             \
            write;                                                                                 \
            if (!(out).overflow) {                                                                 \
                break;                                                                             \
            }                                                                                      \
            (error) = room_grow(room);                                                             \
        }                                                                                          \
    } while (0)

int page_cache_page(struct page_cache *page_cache, const struct template *template,
                    struct storefront *view, struct span data, struct page *old,
                    struct page **ret_page)
{
    uint8_t source[PAGE_SOURCE_BYTES];
    int error = 0;
    struct out out = {0};
    crypt_hash(data.at, data.len, source, sizeof(source));
    if (old != NULL && memcmp(old->source, source, sizeof(source)) == 0) {
        http_hold_keep(&old->hold);
        *ret_page = old;
        return 0;
    }
    ROOM_WRITE(&page_cache->safe, out, error, out_script_json(&out, data));
    view->data = out_span(&out);
    if (error == 0) {
        ROOM_WRITE(&page_cache->body, out, error, storefront_render(template, view, &out));
    }
    struct span packed = {NULL, 0};
    if (error == 0) {
        error = packer_gzip(page_cache->packer, out_span(&out), &packed);
    }
    if (error == 0) {
        *ret_page = page_new("text/html; charset=utf-8", out_span(&out), packed, source);
        error = *ret_page != NULL ? 0 : ERR_NOMEM;
    }
    free((char *)packed.at);
    return error;
}

static void put_manifest(const struct page_cache_entry *entries, size_t count, struct out *out)
{
    const char *path = NULL;
    out_lit(out, "{\"pages\":[");
    for (size_t i = 0; i < count; i++) {
        out_text(out, i > 0 ? ",\n{\"path\":" : "\n{\"path\":");
        out_json_string(out, span_of(entries[i].path));
        out_lit(out, ",\"hash\":");
        out_json_string(out, span_of(entries[i].hash));
        out_char(out, '}');
    }
    out_lit(out, "],\n\"assets\":[");
    for (size_t i = 0, n = 0; static_path(i, &path); i++) {
        if (path != NULL) {
            out_text(out, n++ > 0 ? ",\n" : "\n");
            out_json_string(out, span_of(path));
        }
    }
    out_lit(out, "]}\n");
}

static int make_manifest(struct page_cache *page_cache, struct edition *edition)
{
    struct page_cache_entry *entries = NULL;
    size_t count = 0;
    struct out out = {0};
    struct span packed = {NULL, 0};
    static const uint8_t none[PAGE_SOURCE_BYTES];
    int error = edition_entries(page_cache, edition, &entries, &count);
    if (error == 0) {
        ROOM_WRITE(&page_cache->body, out, error, put_manifest(entries, count, &out));
    }
    if (error == 0) {
        error = packer_gzip(page_cache->packer, out_span(&out), &packed);
    }
    if (error == 0) {
        edition->manifest = page_new("application/json", out_span(&out), packed, none);
        error = edition->manifest != NULL ? 0 : ERR_NOMEM;
    }
    free((char *)packed.at);
    free(entries);
    return error;
}

/* ---- an edition ---- */

/* A sale of the plan; its row is there only while it is needed. */
struct planned {
    uint64_t id;
    int64_t starts_at_ms;
    uint32_t items;
    bool closed;
    bool listed;
    struct sale_row *row;
};

struct making {
    struct page_cache *page_cache;
    struct catalog *catalog;
    struct planned *plan;
    size_t planned;
    struct edition *edition;
    struct page_cache_made made;
};

/* The most important first: those not closed by their start, then closed ones, the latest first. */
static int plan_order(const void *a, const void *b)
{
    const struct planned *x = a;
    const struct planned *y = b;
    int sign = x->closed ? -1 : 1;
    if (x->closed != y->closed) {
        return x->closed ? 1 : -1;
    }
    if (x->starts_at_ms != y->starts_at_ms) {
        return x->starts_at_ms < y->starts_at_ms ? -sign : sign;
    }
    return x->id < y->id ? -sign : sign;
}

static int list_order(const void *a, const void *b)
{
    const struct sale_row *x = *(const struct sale_row *const *)a;
    const struct sale_row *y = *(const struct sale_row *const *)b;
    if (x->starts_at_ms != y->starts_at_ms) {
        return x->starts_at_ms < y->starts_at_ms ? -1 : 1;
    }
    return x->id < y->id ? -1 : x->id > y->id;
}

static int make_plan(struct making *making)
{
    size_t count = 0;
    size_t items = 0;
    catalog_lock(making->catalog);
    struct sale_row *const *sales = catalog_sales(making->catalog, &count);
    making->plan = calloc(count + 1, sizeof(*making->plan));
    for (size_t i = 0; making->plan != NULL && i < count; i++) {
        const struct sale_row *sale = sales[i];
        if (sale->state != SALE_DRAFT) {
            making->plan[making->planned++] =
                (struct planned){.id = sale->id,
                                 .starts_at_ms = sale->starts_at_ms,
                                 .items = sale->items_count,
                                 .closed = sale->state == SALE_CLOSED};
        }
    }
    catalog_unlock(making->catalog);
    if (making->plan == NULL) {
        return ERR_NOMEM;
    }
    qsort(making->plan, making->planned, sizeof(*making->plan), plan_order);
    for (size_t i = 0; i < making->planned && items < PAGES_LIST_ITEMS_MAX; i++) {
        making->plan[i].listed = true;
        items += making->plan[i].items;
    }
    return 0;
}

/* Copies the sale; *ret_row is NULL if it is gone, or a draft. */
static int copy_sale(struct catalog *catalog, uint64_t id, struct sale_row **ret_row)
{
    struct sale_row *row = malloc(sizeof(*row));
    int error = row != NULL ? 0 : ERR_NOMEM;
    catalog_lock(catalog);
    const struct sale_row *sale = catalog_sale(catalog, id);
    if (sale == NULL || sale->state == SALE_DRAFT || error != 0) {
        free(row);
        row = NULL;
    } else {
        *row = *sale;
        row->items = malloc((size_t)sale->items_count * sizeof(*row->items) + 1);
        if (row->items != NULL) {
            memcpy(row->items, sale->items, (size_t)sale->items_count * sizeof(*row->items));
        } else {
            free(row);
            row = NULL;
            error = ERR_NOMEM;
        }
    }
    catalog_unlock(catalog);
    *ret_row = row;
    return error;
}

/* page NULL: no room for it. */
static int edition_add(struct edition *edition, uint64_t item, struct page *page)
{
    if (edition->count == edition->cap) {
        size_t cap = edition->cap == 0 ? 64 : edition->cap * 2;
        struct item_page *items = realloc(edition->items, cap * sizeof(*items));
        if (items == NULL) {
            if (page != NULL) {
                http_hold_release(&page->hold);
            }
            return ERR_NOMEM;
        }
        edition->items = items;
        edition->cap = cap;
    }
    edition->items[edition->count++] = (struct item_page){item, page};
    return 0;
}

static int make_item(struct making *making, const struct sale_row *sale,
                     const struct item_row *item)
{
    struct page_cache *page_cache = making->page_cache;
    struct storefront view = {.sale = sale, .item = item, .base_url = page_cache->base_url};
    struct page *old = edition_item(page_cache->now, item->id);
    struct page *page = NULL;
    struct out data = {0};
    int error = 0;
    ROOM_WRITE(&page_cache->data, data, error, storefront_item_data(&view, &data));
    if (error == 0) {
        error = page_cache_page(page_cache, page_cache->item_template, &view, out_span(&data), old,
                                &page);
    }
    if (error != 0) {
        return error;
    }
    if (making->edition->bytes + page_bytes(page) > page_cache->memory_bytes) {
        making->made.left_out++;
        http_hold_release(&page->hold);
        return edition_add(making->edition, item->id, NULL);
    }
    making->edition->bytes += page_bytes(page);
    making->made.fresh += page != old;
    return edition_add(making->edition, item->id, page);
}

static int make_items(struct making *making)
{
    int error = 0;
    for (size_t i = 0; error == 0 && i < making->planned; i++) {
        struct planned *planned = &making->plan[i];
        error = copy_sale(making->catalog, planned->id, &planned->row);
        const struct sale_row *row = planned->row;
        for (uint32_t k = 0; error == 0 && row != NULL &&
                             making->page_cache->item_template != NULL && k < row->items_count;
             k++) {
            error = make_item(making, row, &row->items[k]);
        }
        if (!planned->listed) {
            sale_row_free(planned->row);
            planned->row = NULL;
        }
    }
    return error;
}

static int make_list(struct making *making)
{
    struct page_cache *page_cache = making->page_cache;
    struct page *old = page_cache->now->list;
    const struct sale_row **sales = calloc(making->planned + 1, sizeof(*sales));
    if (sales == NULL) {
        return ERR_NOMEM;
    }
    struct storefront view = {.sales = sales, .base_url = page_cache->base_url};
    for (size_t i = 0; i < making->planned; i++) {
        if (making->plan[i].row != NULL) {
            sales[view.sales_count++] = making->plan[i].row;
        }
    }
    qsort(sales, view.sales_count, sizeof(*sales), list_order);
    struct out data = {0};
    int error = 0;
    ROOM_WRITE(&page_cache->data, data, error, storefront_list_data(&view, &data));
    if (error == 0) {
        error = page_cache_page(page_cache, page_cache->list_template, &view, out_span(&data), old,
                                &making->edition->list);
    }
    free(sales);
    if (error == 0) {
        making->edition->bytes += page_bytes(making->edition->list);
        making->made.fresh += making->edition->list != old;
    }
    return error;
}

/* From now on the loops use the new edition. */
static void exchange(struct page_cache *page_cache, struct edition *edition)
{
    CHECK(pthread_rwlock_wrlock(&page_cache->lock) == 0);
    struct edition *old = page_cache->now;
    page_cache->now = edition;
    CHECK(pthread_rwlock_unlock(&page_cache->lock) == 0);
    edition_free(old);
}

static void count_made(struct making *making)
{
    const struct edition *edition = making->edition;
    const struct edition *old = making->page_cache->now;
    making->made.pages = edition->count - making->made.left_out + (edition->list != NULL ? 1 : 0);
    making->made.bytes = edition->bytes;
    for (size_t i = 0; i < old->count; i++) {
        making->made.gone +=
            old->items[i].page != NULL && edition_item(edition, old->items[i].item) == NULL;
    }
}

int page_cache_make(struct page_cache *page_cache, struct catalog *catalog,
                    struct page_cache_made *ret_made)
{
    struct making making = {
        .page_cache = page_cache, .catalog = catalog, .edition = calloc(1, sizeof(struct edition))};
    int error = making.edition != NULL ? make_plan(&making) : ERR_NOMEM;
    if (error == 0) {
        error = make_items(&making);
    }
    if (error == 0 && page_cache->list_template != NULL) {
        error = make_list(&making);
    }
    for (size_t i = 0; i < making.planned; i++) {
        sale_row_free(making.plan[i].row);
    }
    free(making.plan);
    if (error == 0) {
        edition_sort(making.edition);
        error = make_manifest(page_cache, making.edition);
    }
    if (error != 0) {
        edition_free(making.edition);
        return error;
    }
    count_made(&making);
    exchange(page_cache, making.edition);
    *ret_made = making.made;
    return 0;
}
