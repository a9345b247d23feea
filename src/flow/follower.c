/* See follower.h. */
#include "flow/follower.h"

#include <stdlib.h>
#include <string.h>

#include "base/err.h"
#include "obs/log.h"

#define NEWS_MAX 256
#define REFRESH_EVERY_US 250000
/* After news of an item; in a rush they never end. */
#define REFRESH_SOONEST_US 25000
/* Questions about items under way at one time. */
#define ASKS_MAX 1024

/* What one segment has of all items. */
struct stock_sum {
    uint64_t available, locked, sold;
    bool untold; /* it did not tell of one */
};

struct follower {
    struct follower_parts parts;
    int64_t refresh_us; /* when next */
    int64_t soonest_us; /* not before this, whatever is heard */
    uint32_t mark;
    struct gate_ask asks[ASKS_MAX];
    struct segment_news news[NEWS_MAX];
    struct stock_sum stock[SEGMENTS_MAX];
};

/* ---- news ---- */

static void hear(struct follower *follower, const struct segment_news *news)
{
    struct follower_parts *parts = &follower->parts;
    switch (news->kind) {
    case NEWS_ORDER:
        if (news->order.state != ORDER_QUEUED) {
            spool_resolve(parts->spool, news->order.id); /* the ledger said so first */
        }
        engine_tell(parts->engine, &news->order);
        break;
    case NEWS_SALE:
        parts->sales_changed(parts->context);
        follower->refresh_us = follower->soonest_us;
        break;
    case NEWS_ITEM:
        shelf_refilled(parts->shelf, news->item);
        follower->refresh_us = follower->soonest_us;
        break;
    case NEWS_EPOCH:
        if (news->segment < parts->places->count) {
            places_doubt(parts->places, news->segment);
        }
        break;
    case NEWS_LOST:
        (void)atomic_fetch_or(&parts->places->doubts, UINT64_MAX);
        parts->sales_changed(parts->context);
        shelf_refilled(parts->shelf, 0);
        engine_tell_all(parts->engine);
        break;
    case NEWS_BROKEN:
        break; /* the keeper looks for itself */
    }
}

/* Waits for news, at most so long. */
static void listen(struct follower *follower, int64_t wait_ms)
{
    size_t count = 0;
    if (segments_news(follower->parts.segments, follower->news, NEWS_MAX, wait_ms, &count) != 0) {
        return;
    }
    for (size_t i = 0; i < count; i++) {
        hear(follower, &follower->news[i]);
    }
}

/* ---- the shelf ---- */

/* An item of the catalog that is to be looked at. */
struct known {
    uint64_t item;
    uint64_t total;
    uint32_t homes;
};

/* Asks for the items of one piece at every segment, and waits for all answers: each comes, be it
 * that none came from the segment. */
static void ask_all(struct follower *follower, const struct known *known, size_t count)
{
    struct follower_parts *parts = &follower->parts;
    uint32_t segments = parts->places->count;
    size_t under_way = 0;
    for (size_t i = 0; i < count; i++) {
        for (uint32_t s = 0; s < segments; s++) {
            struct gate_ask *ask = &follower->asks[i * segments + s];
            *ask = (struct gate_ask){
                .question = ASK_ITEM, .loop = parts->lane, .item = known[i].item, .segment = s};
            under_way += gate_submit(parts->gate, ask) == GATE_ASKED;
        }
    }
    while (under_way > 0) {
        (void)gate_flush(parts->gate, parts->lane);
        for (const struct gate_ask *ask = gate_collect(parts->gate, parts->lane); ask != NULL;
             ask = ask->next) {
            under_way--;
        }
        if (under_way > 0) {
            listen(follower, 1);
        }
    }
}

/*
 * The item's numbers over all segments; false where a home did not tell. What the ledger has given to
 * the segments and none of them has is on its way between two; or it is at one that was added since
 * the sale was warmed and does not tell, or that this process does not know: nothing is sold there,
 * so all it has is available.
 */
static bool add_up(const struct gate_ask *asks, uint32_t segments, uint64_t ledger_total,
                   struct shelf_item *ret_item)
{
    struct item_view sum = {0};
    for (uint32_t s = 0; s < segments; s++) {
        const struct item_view *view = &asks[s].view;
        if (asks[s].refusal != REFUSAL_NONE && s >= ret_item->homes) {
            continue;
        }
        if (asks[s].refusal != REFUSAL_NONE) {
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

/* An item that a segment did not tell of keeps its numbers, and its place on the shelf. */
static void keep_on_shelf(struct follower *follower, uint64_t item)
{
    struct shelf_item old;
    if (shelf_find(follower->parts.shelf, item, &old)) {
        old.mark = follower->mark;
        (void)shelf_put(follower->parts.shelf, &old);
    }
}

/* What each segment has of everything, for whoever watches. One that did not tell of an item keeps its
 * last numbers. */
static void add_stock(struct follower *follower, size_t count)
{
    uint32_t segments = follower->parts.places->count;
    for (size_t i = 0; i < count; i++) {
        for (uint32_t s = 0; s < segments; s++) {
            const struct gate_ask *ask = &follower->asks[i * segments + s];
            struct stock_sum *sum = &follower->stock[s];
            sum->untold = sum->untold ||
                          (ask->refusal != REFUSAL_NONE && ask->refusal != REFUSAL_NO_SUCH_ITEM);
            if (ask->refusal == REFUSAL_NONE) {
                sum->available += ask->view.available;
                sum->locked += ask->view.locked;
                sum->sold += ask->view.sold;
            }
        }
    }
}

static void tell_stock(struct follower *follower)
{
    for (uint32_t s = 0; s < follower->parts.places->count; s++) {
        struct places_stock *stock = &follower->parts.places->stock[s];
        const struct stock_sum *sum = &follower->stock[s];
        if (!sum->untold) {
            atomic_store(&stock->available, sum->available);
            atomic_store(&stock->locked, sum->locked);
            atomic_store(&stock->sold, sum->sold);
            atomic_store(&stock->known, true);
        }
    }
}

static void refresh_piece(struct follower *follower, const struct known *known, size_t count)
{
    uint32_t segments = follower->parts.places->count;
    ask_all(follower, known, count);
    add_stock(follower, count);
    for (size_t i = 0; i < count; i++) {
        struct shelf_item item = {.homes = known[i].homes, .mark = follower->mark};
        if (!add_up(&follower->asks[i * segments], segments, known[i].total, &item)) {
            keep_on_shelf(follower, known[i].item);
            continue;
        }
        if (known[i].total > 0 && item.view.total > known[i].total) {
            /* Restocked since the catalog was read; and perhaps a segment that is not asked. */
            follower->parts.sales_changed(follower->parts.context);
        }
        (void)shelf_put(follower->parts.shelf, &item); /* without memory: at the next round */
    }
}

/* The items of warmed sales from the catalog, from a place in it on: at most max. */
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

static void refresh(struct follower *follower)
{
    struct follower_parts *parts = &follower->parts;
    struct known known[ASKS_MAX];
    size_t max = ASKS_MAX / parts->places->count;
    uint64_t sale = 0;
    uint32_t position = 0;
    follower->mark = follower->mark == UINT32_MAX ? 1 : follower->mark + 1;
    size_t count;
    memset(follower->stock, 0, sizeof(follower->stock));
    while ((count = list_items(parts->catalog, &sale, &position, known, max)) > 0) {
        refresh_piece(follower, known, count);
    }
    shelf_sweep(parts->shelf, follower->mark);
    tell_stock(follower);
}

void follower_turn(struct follower *follower, int64_t wait_ms)
{
    int64_t now_us = clock_boot_us(follower->parts.clock);
    if (now_us >= follower->refresh_us) {
        follower->refresh_us = now_us + REFRESH_EVERY_US; /* news may bring it forward meanwhile */
        follower->soonest_us = now_us + REFRESH_SOONEST_US;
        refresh(follower);
        now_us = clock_boot_us(follower->parts.clock);
    }
    int64_t left_ms = (follower->refresh_us - now_us + 999) / 1000;
    wait_ms = left_ms < wait_ms ? left_ms : wait_ms;
    listen(follower, wait_ms > 0 ? wait_ms : 0);
    /* Connections are made, and given up, when answers are collected. */
    (void)gate_collect(follower->parts.gate, follower->parts.lane);
    (void)gate_flush(follower->parts.gate, follower->parts.lane);
}

int follower_new(const struct follower_parts *parts, struct follower **ret_follower)
{
    struct follower *follower = calloc(1, sizeof(*follower));
    if (follower == NULL) {
        return ERR_NOMEM;
    }
    follower->parts = *parts;
    *ret_follower = follower;
    return 0;
}

void follower_free(struct follower *follower)
{
    free(follower);
}
