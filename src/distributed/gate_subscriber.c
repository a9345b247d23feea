/* See gate_subscriber.h. */
#include "distributed/gate_subscriber.h"

#include <stdlib.h>
#include <string.h>

#include "base/err.h"
#include "obs/log.h"

#define NEWS_MAX 256
#define REFRESH_EVERY_US 250000
/* Least time between two refreshes after news about items, which never ends in a rush. */
#define REFRESH_SOONEST_US 25000
/* Item requests in flight at one time. */
#define ASKS_MAX 1024

/* A segment's stock over all items. */
struct stock_sum {
    uint64_t available, locked, sold;
    bool untold; /* it did not answer for at least one item */
};

struct gate_subscriber {
    struct gate_subscriber_parts parts;
    int64_t refresh_us; /* next refresh */
    int64_t soonest_us; /* earliest refresh, whatever news arrives */
    uint32_t mark;
    struct gate_request requests[ASKS_MAX];
    struct segment_news news[NEWS_MAX];
    struct stock_sum stock[SEGMENTS_MAX];
};

/* ---- news ---- */

static void hear(struct gate_subscriber *gate_subscriber, const struct segment_news *news)
{
    struct gate_subscriber_parts *parts = &gate_subscriber->parts;
    switch (news->kind) {
    case NEWS_ORDER:
        if (news->order.state != ORDER_QUEUED) {
            spool_resolve(parts->spool, news->order.id); /* the ledger said so first */
        }
        loop_notices_post(parts->notices, &news->order);
        break;
    case NEWS_SALE:
        parts->sales_changed(parts->context);
        gate_subscriber->refresh_us = gate_subscriber->soonest_us;
        break;
    case NEWS_ITEM:
        stock_cache_refilled(parts->stock_cache, news->item);
        gate_subscriber->refresh_us = gate_subscriber->soonest_us;
        break;
    case NEWS_EPOCH:
        if (news->segment < parts->segment_table->count) {
            segment_table_doubt(parts->segment_table, news->segment);
        }
        break;
    case NEWS_LOST:
        (void)atomic_fetch_or(&parts->segment_table->doubts, UINT64_MAX);
        parts->sales_changed(parts->context);
        stock_cache_refilled(parts->stock_cache, 0);
        loop_notices_post_all(parts->notices);
        break;
    case NEWS_BROKEN:
        break; /* the keeper looks for itself */
    }
}

/* Waits for news, at most wait_ms. */
static void listen(struct gate_subscriber *gate_subscriber, int64_t wait_ms)
{
    size_t count = 0;
    if (segments_news(gate_subscriber->parts.segments, gate_subscriber->news, NEWS_MAX, wait_ms,
                      &count) != 0) {
        return;
    }
    for (size_t i = 0; i < count; i++) {
        hear(gate_subscriber, &gate_subscriber->news[i]);
    }
}

/* ---- the stock cache ---- */

/* An item of the catalog to be refreshed. */
struct known {
    uint64_t item;
    uint64_t total;
    uint32_t homes;
};

/* Requests these items from every segment and waits for all answers. Every request comes back, also
 * if its segment does not answer. */
static void ask_all(struct gate_subscriber *gate_subscriber, const struct known *known,
                    size_t count)
{
    struct gate_subscriber_parts *parts = &gate_subscriber->parts;
    uint32_t segments = parts->segment_table->count;
    size_t under_way = 0;
    for (size_t i = 0; i < count; i++) {
        for (uint32_t s = 0; s < segments; s++) {
            struct gate_request *request = &gate_subscriber->requests[i * segments + s];
            *request = (struct gate_request){.kind = GATE_REQUEST_ITEM,
                                             .loop = parts->connection_set,
                                             .item = known[i].item,
                                             .segment = s};
            under_way += gate_submit(parts->gate, request) == GATE_PENDING;
        }
    }
    while (under_way > 0) {
        (void)gate_flush(parts->gate, parts->connection_set);
        for (const struct gate_request *request = gate_collect(parts->gate, parts->connection_set);
             request != NULL; request = request->next) {
            under_way--;
        }
        if (under_way > 0) {
            listen(gate_subscriber, 1);
        }
    }
}

/*
 * Sums an item's numbers over all segments. False: a home did not answer. Units that the ledger
 * gave to the segments and that none of them reports are in transit; or they are at a segment that
 * was added after the sale was warmed and does not answer or is unknown to this process. Nothing is
 * sold there, so all of them count as available.
 */
static bool add_up(const struct gate_request *requests, uint32_t segments, uint64_t ledger_total,
                   struct stock_cache_item *ret_item)
{
    struct item_view sum = {0};
    for (uint32_t s = 0; s < segments; s++) {
        const struct item_view *view = &requests[s].view;
        if (!gate_request_done(&requests[s]) && s >= ret_item->homes) {
            continue;
        }
        if (!gate_request_done(&requests[s])) {
            return false;
        }
        sum.total += view->total;
        sum.available += view->available;
        sum.locked += view->locked;
        sum.sold += view->sold;
        sum.item = view->item;
        sum.sale = view->sale;
        sum.limit_per_user = view->limit_per_user;
        sum.sale_state = view->sale_state;
        sum.starts_at_ms = view->starts_at_ms;
        sum.ends_at_ms = view->ends_at_ms;
        if (view->available > ret_item->most) {
            ret_item->next = ret_item->richest;
            ret_item->next_most = ret_item->most;
            ret_item->richest = s;
            ret_item->most = view->available;
        } else if (view->available > ret_item->next_most) {
            ret_item->next = s;
            ret_item->next_most = view->available;
        }
    }
    uint64_t on_its_way = ledger_total > sum.total ? ledger_total - sum.total : 0;
    sum.total += on_its_way;
    sum.available += on_its_way;
    ret_item->view = sum;
    return true;
}

/* If a segment did not answer, the item keeps its numbers and its place in the stock cache. */
static void keep_on_stock_cache(struct gate_subscriber *gate_subscriber, uint64_t item)
{
    struct stock_cache_item old;
    if (stock_cache_find(gate_subscriber->parts.stock_cache, item, &old)) {
        old.mark = gate_subscriber->mark;
        (void)stock_cache_put(gate_subscriber->parts.stock_cache, &old);
    }
}

/* Adds up each segment's stock over all items, for display. A segment that did not answer for an
 * item keeps its last numbers. */
static void add_stock(struct gate_subscriber *gate_subscriber, size_t count)
{
    uint32_t segments = gate_subscriber->parts.segment_table->count;
    for (size_t i = 0; i < count; i++) {
        for (uint32_t s = 0; s < segments; s++) {
            const struct gate_request *request = &gate_subscriber->requests[i * segments + s];
            struct stock_sum *sum = &gate_subscriber->stock[s];
            sum->untold = sum->untold || (!gate_request_done(request) &&
                                          !gate_request_refused(request, REFUSAL_NO_SUCH_ITEM));
            if (gate_request_done(request)) {
                sum->available += request->view.available;
                sum->locked += request->view.locked;
                sum->sold += request->view.sold;
            }
        }
    }
}

static void tell_stock(struct gate_subscriber *gate_subscriber)
{
    for (uint32_t s = 0; s < gate_subscriber->parts.segment_table->count; s++) {
        struct segment_table_stock *stock =
            &gate_subscriber->parts.segment_table->segments[s].stock;
        const struct stock_sum *sum = &gate_subscriber->stock[s];
        if (!sum->untold) {
            atomic_store(&stock->available, sum->available);
            atomic_store(&stock->locked, sum->locked);
            atomic_store(&stock->sold, sum->sold);
            atomic_store(&stock->known, true);
        }
    }
}

static void refresh_piece(struct gate_subscriber *gate_subscriber, const struct known *known,
                          size_t count)
{
    uint32_t segments = gate_subscriber->parts.segment_table->count;
    ask_all(gate_subscriber, known, count);
    add_stock(gate_subscriber, count);
    for (size_t i = 0; i < count; i++) {
        struct stock_cache_item item = {.homes = known[i].homes, .mark = gate_subscriber->mark};
        if (!add_up(&gate_subscriber->requests[i * segments], segments, known[i].total, &item)) {
            keep_on_stock_cache(gate_subscriber, known[i].item);
            continue;
        }
        if (known[i].total > 0 && item.view.total > known[i].total) {
            /* Restocked since the catalog was read; perhaps also a segment that is not asked. */
            gate_subscriber->parts.sales_changed(gate_subscriber->parts.context);
        }
        (void)stock_cache_put(gate_subscriber->parts.stock_cache,
                              &item); /* without memory: at the next round */
    }
}

/* Lists items of warmed sales from the catalog, from a position on: at most max. */
static size_t list_items(struct catalog *catalog, uint64_t *sale, uint32_t *position,
                         struct known *ret_known, size_t max)
{
    size_t sales = 0;
    size_t count = 0;
    catalog_lock(catalog);
    struct sale_row *const *rows = catalog_sales(catalog, &sales);
    for (size_t i = 0; i < sales && count < max; i++) {
        const struct sale_row *row = rows[i];
        if (row->id < *sale || row->homes == 0 || row->forgotten) {
            continue;
        }
        uint32_t k = row->id == *sale ? *position : 0;
        for (; k < row->items_count && count < max; k++) {
            ret_known[count++] = (struct known){row->items[k].id, row->items[k].total, row->homes};
        }
        *sale = row->id;
        *position = k;
    }
    catalog_unlock(catalog);
    return count;
}

static void refresh(struct gate_subscriber *gate_subscriber)
{
    struct gate_subscriber_parts *parts = &gate_subscriber->parts;
    struct known known[ASKS_MAX];
    size_t max = ASKS_MAX / parts->segment_table->count;
    uint64_t sale = 0;
    uint32_t position = 0;
    gate_subscriber->mark = gate_subscriber->mark == UINT32_MAX ? 1 : gate_subscriber->mark + 1;
    size_t count;
    memset(gate_subscriber->stock, 0, sizeof(gate_subscriber->stock));
    while ((count = list_items(parts->catalog, &sale, &position, known, max)) > 0) {
        refresh_piece(gate_subscriber, known, count);
    }
    stock_cache_sweep(parts->stock_cache, gate_subscriber->mark);
    tell_stock(gate_subscriber);
}

void gate_subscriber_iterate(struct gate_subscriber *gate_subscriber, int64_t wait_ms)
{
    int64_t now_us = clock_boot_us(gate_subscriber->parts.clock);
    if (now_us >= gate_subscriber->refresh_us) {
        gate_subscriber->refresh_us =
            now_us + REFRESH_EVERY_US; /* news may bring it forward meanwhile */
        gate_subscriber->soonest_us = now_us + REFRESH_SOONEST_US;
        refresh(gate_subscriber);
        now_us = clock_boot_us(gate_subscriber->parts.clock);
    }
    int64_t left_ms = (gate_subscriber->refresh_us - now_us + 999) / 1000;
    wait_ms = left_ms < wait_ms ? left_ms : wait_ms;
    listen(gate_subscriber, wait_ms > 0 ? wait_ms : 0);
    /* Connections are opened and dropped while answers are collected. */
    (void)gate_collect(gate_subscriber->parts.gate, gate_subscriber->parts.connection_set);
    (void)gate_flush(gate_subscriber->parts.gate, gate_subscriber->parts.connection_set);
}

int gate_subscriber_new(const struct gate_subscriber_parts *parts,
                        struct gate_subscriber **ret_gate_subscriber)
{
    struct gate_subscriber *gate_subscriber = calloc(1, sizeof(*gate_subscriber));
    if (gate_subscriber == NULL) {
        return ERR_NOMEM;
    }
    gate_subscriber->parts = *parts;
    *ret_gate_subscriber = gate_subscriber;
    return 0;
}

void gate_subscriber_free(struct gate_subscriber *gate_subscriber)
{
    free(gate_subscriber);
}
