/* Compares the ledger with itself: stock, shares and buyers with orders. See reconcile.h. */
#include <stdlib.h>

#include "distributed/reconcile_private.h"

struct stock *reconcile_stock(const struct reconcile *reconcile, uint64_t item)
{
    size_t low = 0;
    size_t high = reconcile->stocks_count;
    while (low < high) {
        size_t middle = low + (high - low) / 2;
        if (reconcile->stocks[middle].item < item) {
            low = middle + 1;
        } else {
            high = middle;
        }
    }
    bool found = low < reconcile->stocks_count && reconcile->stocks[low].item == item;
    return found ? &reconcile->stocks[low] : NULL;
}

static int compare_stocks(const void *a, const void *b)
{
    uint64_t first = ((const struct stock *)a)->item;
    uint64_t second = ((const struct stock *)b)->item;
    return (first > second) - (first < second);
}

static void add_stocks(struct reconcile *reconcile, const struct sale_row *sale)
{
    for (uint32_t i = 0; i < sale->items_count; i++) {
        const struct item_row *row = &sale->items[i];
        struct stock *stock =
            reconcile_grow(reconcile, (void **)&reconcile->stocks, reconcile->stocks_count,
                           &reconcile->stocks_room, sizeof(*stock));
        if (stock == NULL) {
            return;
        }
        stock[reconcile->stocks_count++] = (struct stock){.item = row->id,
                                                          .total = row->total,
                                                          .available = row->available,
                                                          .locked = row->locked,
                                                          .sold = row->sold};
    }
}

static void read_stocks(struct reconcile *reconcile)
{
    struct ledger_query query = {.kind = QUERY_SALES,
                                 .segment = SEGMENT_ALL,
                                 .sales = reconcile->page.sales,
                                 .limit = RECONCILE_PAGE};
    do {
        if (!reconcile_read(reconcile, &query)) {
            return;
        }
        uint64_t last = 0;
        for (uint32_t i = 0; i < query.count; i++) {
            struct sale_row *sale = reconcile->page.sales[i];
            last = sale->id;
            if (sale->state != SALE_DRAFT && !sale->forgotten && sale->homes > 0) {
                add_stocks(reconcile, sale);
            }
            sale_row_free(sale);
        }
        query.after = last;
    } while (query.count == RECONCILE_PAGE);
    if (reconcile->stocks_count > 0) {
        qsort(reconcile->stocks, reconcile->stocks_count, sizeof(*reconcile->stocks),
              compare_stocks);
    }
}

static void add_share(struct reconcile *reconcile, const struct allotment_row *row)
{
    struct stock *stock = reconcile_stock(reconcile, row->item);
    struct share *shares =
        reconcile_grow(reconcile, (void **)&reconcile->shares, reconcile->shares_count,
                       &reconcile->shares_room, sizeof(*shares));
    if (shares == NULL) {
        return;
    }
    shares[reconcile->shares_count++] = (struct share){row->item, row->segment};
    if (stock != NULL) {
        stock->shares += row->amount;
        stock->shares_locked += row->locked;
        stock->shares_sold += row->sold;
    }
}

static void read_shares(struct reconcile *reconcile, uint32_t segment)
{
    struct ledger_query query = {.kind = QUERY_ALLOTMENTS,
                                 .segment = (int32_t)segment,
                                 .allotments = reconcile->page.allotments,
                                 .limit = RECONCILE_PAGE};
    do {
        if (!reconcile_read(reconcile, &query)) {
            return;
        }
        for (uint32_t i = 0; i < query.count; i++) {
            query.after = query.allotments[i].item;
            add_share(reconcile, &query.allotments[i]);
        }
    } while (query.count == RECONCILE_PAGE);
}

/* Marks items with an event after `after`: they moved while they were read. */
static void mark_moved(struct reconcile *reconcile, uint64_t after)
{
    struct ledger_query query = {.kind = QUERY_EVENTS,
                                 .segment = SEGMENT_ALL,
                                 .after = after,
                                 .events = reconcile->page.events,
                                 .limit = RECONCILE_PAGE};
    do {
        if (!reconcile_read(reconcile, &query)) {
            return;
        }
        for (uint32_t i = 0; i < query.count; i++) {
            struct stock *stock = reconcile_stock(reconcile, query.events[i].item);
            query.after = query.events[i].number;
            if (stock != NULL) {
                stock->moved = true;
            }
        }
    } while (query.count == RECONCILE_PAGE);
}

static void compare_stock(struct reconcile *reconcile, const struct stock *stock)
{
    struct difference difference = {.segment = DIFFERENCE_NO_SEGMENT, .item = stock->item};
    uint64_t sum = stock->available + stock->locked + stock->sold;
    if (sum != stock->total) { /* one row: never of two moments */
        difference.kind = DIFFERENCE_STOCK;
        difference.found = sum;
        difference.expected = stock->total;
        reconcile_found(reconcile, difference);
    }
    reconcile->result.items++;
    if (stock->moved) {
        reconcile_unsure(reconcile,
                         KIND(DIFFERENCE_SHARES) | KIND(DIFFERENCE_STOCK_LOCKED) |
                             KIND(DIFFERENCE_STOCK_SOLD),
                         DIFFERENCE_NO_SEGMENT, stock->item);
        return;
    }
    const struct {
        enum difference_kind kind;
        uint64_t found, expected;
    } pairs[] = {{DIFFERENCE_SHARES, stock->shares, stock->total},
                 {DIFFERENCE_STOCK_LOCKED, stock->locked, stock->shares_locked},
                 {DIFFERENCE_STOCK_SOLD, stock->sold, stock->shares_sold}};
    for (size_t i = 0; i < sizeof(pairs) / sizeof(pairs[0]); i++) {
        if (pairs[i].found != pairs[i].expected) {
            difference.kind = pairs[i].kind;
            difference.found = pairs[i].found;
            difference.expected = pairs[i].expected;
            reconcile_found(reconcile, difference);
        }
    }
}

void reconcile_ledger(struct reconcile *reconcile)
{
    uint64_t before = 0;
    reconcile->stocks_count = 0;
    reconcile->shares_count = 0;
    if (!reconcile_last_event(reconcile, &before)) {
        return;
    }
    read_stocks(reconcile);
    /* Segments added since this process started, too: they hold stock. */
    for (uint32_t i = 0; reconcile->error == 0 && i < SEGMENTS_MAX; i++) {
        if (i < reconcile->options.segments || reconcile->epochs[i] != 0) {
            read_shares(reconcile, i);
        }
    }
    if (reconcile->error == 0) {
        mark_moved(reconcile, before);
    }
    for (size_t i = 0; reconcile->error == 0 && i < reconcile->stocks_count; i++) {
        compare_stock(reconcile, &reconcile->stocks[i]);
    }
}

/* ---- a segment's orders ---- */

static void compare_share(struct reconcile *reconcile, const struct segment_snapshot *snapshot,
                          const struct segment_snapshot_item *item)
{
    struct difference difference = {.segment = snapshot->segment, .item = item->item};
    if (item->unsure) {
        reconcile_unsure(reconcile, KIND(DIFFERENCE_SHARE_LOCKED) | KIND(DIFFERENCE_SHARE_SOLD),
                         snapshot->segment, item->item);
        return;
    }
    if (item->noted_locked != item->locked) {
        difference.kind = DIFFERENCE_SHARE_LOCKED;
        difference.found = item->noted_locked;
        difference.expected = item->locked;
        reconcile_found(reconcile, difference);
    }
    if (item->noted_sold != item->sold) {
        difference.kind = DIFFERENCE_SHARE_SOLD;
        difference.found = item->noted_sold;
        difference.expected = item->sold;
        reconcile_found(reconcile, difference);
    }
}

/* Marks items of the segment that moved after the snapshot: what is read now does not match it. */
static void mark_behind(struct reconcile *reconcile, const struct segment_snapshot *snapshot)
{
    struct ledger_query query = {.kind = QUERY_EVENTS,
                                 .segment = (int32_t)snapshot->segment,
                                 .after = snapshot->event,
                                 .events = reconcile->page.events,
                                 .limit = RECONCILE_PAGE};
    do {
        if (!reconcile_read(reconcile, &query)) {
            return;
        }
        for (uint32_t i = 0; i < query.count; i++) {
            query.after = query.events[i].number;
            reconcile_unsure(reconcile, KIND(DIFFERENCE_BUYER), snapshot->segment,
                             query.events[i].item);
        }
    } while (query.count == RECONCILE_PAGE);
}

static const struct segment_snapshot_buyer *find_buyer(const struct segment_snapshot *snapshot,
                                                       uint64_t item, uint64_t user)
{
    size_t low = 0;
    size_t high = snapshot->buyers_count;
    while (low < high) {
        size_t middle = low + (high - low) / 2;
        const struct segment_snapshot_buyer *buyer = &snapshot->buyers[middle];
        if (buyer->item < item || (buyer->item == item && buyer->user < user)) {
            low = middle + 1;
        } else {
            high = middle;
        }
    }
    bool found = low < snapshot->buyers_count && snapshot->buyers[low].item == item &&
                 snapshot->buyers[low].user == user;
    return found ? &snapshot->buyers[low] : NULL;
}

static void compare_buyers(struct reconcile *reconcile, const struct segment_snapshot *snapshot)
{
    struct ledger_query query = {.kind = QUERY_SEGMENT_BUYERS,
                                 .segment = (int32_t)snapshot->segment,
                                 .buyers = reconcile->page.buyers,
                                 .limit = RECONCILE_PAGE};
    size_t known = 0;
    do {
        if (!reconcile_read(reconcile, &query)) {
            return;
        }
        for (uint32_t i = 0; i < query.count; i++) {
            const struct buyer_row *row = &query.buyers[i];
            const struct segment_snapshot_buyer *buyer = find_buyer(snapshot, row->item, row->user);
            query.after_item = row->item;
            query.after = row->user;
            known += buyer != NULL;
            reconcile->result.buyers++;
            if (buyer != NULL
                    ? row->held != buyer->held || row->failed_attempts != buyer->failed_attempts ||
                          row->barred != buyer->barred
                    : row->held != 0) {
                reconcile_found(reconcile,
                                (struct difference){.kind = DIFFERENCE_BUYER,
                                                    .segment = snapshot->segment,
                                                    .item = row->item,
                                                    .user = row->user,
                                                    .found = row->held,
                                                    .expected = buyer != NULL ? buyer->held : 0});
            }
        }
    } while (query.count == RECONCILE_PAGE);
    if (known < snapshot->buyers_count) { /* some have orders and no row at all */
        reconcile_found(reconcile, (struct difference){.kind = DIFFERENCE_BUYER,
                                                       .segment = snapshot->segment,
                                                       .found = known,
                                                       .expected = snapshot->buyers_count});
    }
}

void reconcile_orders(struct reconcile *reconcile, const struct segment_snapshot *snapshot)
{
    for (size_t i = 0; i < snapshot->items_count; i++) {
        compare_share(reconcile, snapshot, &snapshot->items[i]);
    }
    for (size_t i = 0; i < snapshot->buyers_count; i++) {
        const struct segment_snapshot_buyer *buyer = &snapshot->buyers[i];
        uint32_t limit = segment_snapshot_item(snapshot, buyer->item)->limit;
        if (limit != 0 && buyer->held > limit) {
            reconcile_found(reconcile, (struct difference){.kind = DIFFERENCE_LIMIT,
                                                           .segment = snapshot->segment,
                                                           .item = buyer->item,
                                                           .user = buyer->user,
                                                           .found = buyer->held,
                                                           .expected = limit});
        }
    }
    compare_buyers(reconcile, snapshot);
    mark_behind(reconcile, snapshot);
}
