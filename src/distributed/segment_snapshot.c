/* See segment_snapshot.h. */
#include "distributed/segment_snapshot.h"

#include <stdlib.h>
#include <string.h>

#include "base/err.h"

#define PAGE 512
/* How often sales and shares are read before ERR_AGAIN. */
#define TRIES_MAX 100

/* State of one reading. */
struct reading {
    struct ledger *ledger;
    const struct segment_snapshot_heartbeat *heartbeat;
    struct segment_snapshot *snapshot;
    union {
        struct order_row orders[PAGE];
        struct ledger_event events[PAGE];
        struct allotment_row allotments[PAGE];
        struct sale_row *sales[PAGE];
    } page;
};

static struct ledger_query query_of(const struct reading *reading, enum ledger_query_kind kind)
{
    return (struct ledger_query){
        .kind = kind, .segment = (int32_t)reading->snapshot->segment, .limit = PAGE};
}

static int read_page(struct reading *reading, struct ledger_query *query)
{
    const struct segment_snapshot_heartbeat *heartbeat = reading->heartbeat;
    if (heartbeat != NULL && !heartbeat->goes_on(heartbeat->context)) {
        query->count = 0;
        return ERR_CLOSED;
    }
    return ledger_read(reading->ledger, query);
}

static int read_last_event(struct reading *reading, uint64_t *ret_event)
{
    struct ledger_query query = query_of(reading, QUERY_STATE);
    int error = read_page(reading, &query);
    if (error == 0) {
        *ret_event = query.last_event;
        reading->snapshot->highest_ms = query.highest_ms;
    }
    return error;
}

/* ---- orders ---- */

static int compare_u64(uint64_t a, uint64_t b)
{
    return (a > b) - (a < b);
}

static int compare_place(uint64_t item_a, struct order_id a, uint64_t item_b, struct order_id b)
{
    int by = compare_u64(item_a, item_b);
    by = by != 0 ? by : compare_u64(a.hi, b.hi);
    return by != 0 ? by : compare_u64(a.lo, b.lo);
}

/* The first place that is not before the order's. */
static size_t order_place(const struct segment_snapshot *snapshot, struct order_id id)
{
    uint64_t item = order_id_item(id);
    size_t low = 0;
    size_t high = snapshot->orders_count;
    while (low < high) {
        size_t middle = low + (high - low) / 2;
        const struct segment_snapshot_order *order = &snapshot->orders[middle];
        if (compare_place(order->item, order->id, item, id) < 0) {
            low = middle + 1;
        } else {
            high = middle;
        }
    }
    return low;
}

static struct segment_snapshot_order *find_order(const struct segment_snapshot *snapshot,
                                                 struct order_id id)
{
    size_t at = order_place(snapshot, id);
    bool found = at < snapshot->orders_count && order_id_equal(snapshot->orders[at].id, id);
    return found ? &snapshot->orders[at] : NULL;
}

static int insert_order(struct segment_snapshot *snapshot, size_t at, const struct order_row *row)
{
    if (snapshot->orders_count == snapshot->orders_room) {
        size_t room = snapshot->orders_room == 0 ? PAGE : snapshot->orders_room * 2;
        struct segment_snapshot_order *orders = realloc(snapshot->orders, room * sizeof(*orders));
        if (orders == NULL) {
            return ERR_NOMEM;
        }
        snapshot->orders = orders;
        snapshot->orders_room = room;
    }
    memmove(&snapshot->orders[at + 1], &snapshot->orders[at],
            (snapshot->orders_count - at) * sizeof(*snapshot->orders));
    snapshot->orders_count++;
    snapshot->orders[at] =
        (struct segment_snapshot_order){.id = row->id,
                                        .user = row->user,
                                        .item = row->item,
                                        .created_at_ms = row->created_at_ms,
                                        .pay_by_ms = row->pay_by_ms,
                                        .cooling_until_ms = row->cooling_until_ms,
                                        .qty = row->qty,
                                        .state = (uint8_t)row->state,
                                        .reason = (uint8_t)row->reason};
    return 0;
}

static int read_orders(struct reading *reading)
{
    struct ledger_query query = query_of(reading, QUERY_SEGMENT_ORDERS);
    query.orders = reading->page.orders;
    int error;
    do {
        error = read_page(reading, &query);
        for (uint32_t i = 0; error == 0 && i < query.count; i++) {
            const struct order_row *row = &query.orders[i];
            query.after_item = row->item;
            query.after_id = row->id;
            error = insert_order(reading->snapshot, reading->snapshot->orders_count, row);
        }
    } while (error == 0 && query.count == PAGE);
    return error;
}

/* Reads a row that was inserted while pages were read, in the state of its
 * event; it may have moved since. */
static int read_new_order(struct reading *reading, const struct ledger_event *event)
{
    struct order_row row;
    struct ledger_query query = query_of(reading, QUERY_ORDER);
    query.id = event->id;
    query.orders = &row;
    query.limit = 1;
    int error = read_page(reading, &query);
    if (error == ERR_NOTFOUND) {
        return 0; /* of a sale that is gone */
    }
    if (error != 0) {
        return error;
    }
    row.state = event->kind == EVENT_ORDER_LOCKED ? ORDER_LOCKED : ORDER_FAILED;
    row.reason = event->reason;
    row.cooling_until_ms = 0;
    return insert_order(reading->snapshot, order_place(reading->snapshot, event->id), &row);
}

/* ---- events after the reading ---- */

static struct segment_snapshot_item *find_item(const struct segment_snapshot *snapshot,
                                               uint64_t item)
{
    size_t low = 0;
    size_t high = snapshot->items_count;
    while (low < high) {
        size_t middle = low + (high - low) / 2;
        if (snapshot->items[middle].item < item) {
            low = middle + 1;
        } else {
            high = middle;
        }
    }
    return low < snapshot->items_count && snapshot->items[low].item == item ? &snapshot->items[low]
                                                                            : NULL;
}

static bool is_of_order(enum ledger_event_kind kind)
{
    return kind == EVENT_ORDER_LOCKED || kind == EVENT_ORDER_FAILED || kind == EVENT_ORDER_PAID ||
           kind == EVENT_ORDER_EXPIRED || kind == EVENT_ORDER_CANCELLED;
}

static enum order_state state_after(enum ledger_event_kind kind)
{
    switch (kind) {
    case EVENT_ORDER_PAID:
        return ORDER_PAID;
    case EVENT_ORDER_EXPIRED:
        return ORDER_EXPIRED;
    default:
        return ORDER_CANCELLED;
    }
}

static int move_order(struct reading *reading, const struct ledger_event *event)
{
    struct segment_snapshot_order *order = find_order(reading->snapshot, event->id);
    bool makes = event->kind == EVENT_ORDER_LOCKED || event->kind == EVENT_ORDER_FAILED;
    if (order == NULL) {
        return makes ? read_new_order(reading, event) : 0;
    }
    if (!makes && order->state == ORDER_LOCKED) {
        order->state = (uint8_t)state_after(event->kind);
        order->reason = (uint8_t)event->reason;
        order->cooling_until_ms = event->kind == EVENT_ORDER_PAID ? 0 : event->a;
    }
    return 0;
}

/* Applies the events in (after, until]. *ret_changed: one after `still` changed sales or shares. */
static int read_events(struct reading *reading, uint64_t after, uint64_t until, uint64_t still,
                       bool *ret_changed)
{
    struct ledger_query query = query_of(reading, QUERY_EVENTS);
    int error = 0;
    *ret_changed = false;
    query.after = after;
    query.events = reading->page.events;
    while (error == 0 && query.after < until) {
        error = read_page(reading, &query);
        uint64_t last = until;
        for (uint32_t i = 0; error == 0 && i < query.count; i++) {
            struct ledger_event event = query.events[i];
            last = event.number;
            if (event.number > until) {
                break;
            }
            if (is_of_order(event.kind)) {
                struct segment_snapshot_item *item = find_item(reading->snapshot, event.item);
                if (item != NULL && event.number > still) {
                    item->unsure = true;
                }
                error = move_order(reading, &event);
            } else if (event.number > still) {
                *ret_changed = true;
            }
        }
        query.after = query.count < PAGE ? until : last;
    }
    return error;
}

/* ---- sales and shares ---- */

static int add_sale(struct segment_snapshot *snapshot, const struct sale_row *row)
{
    if (row->state == SALE_DRAFT || row->forgotten) {
        return 0;
    }
    struct segment_snapshot_sale *sales =
        realloc(snapshot->sales, (snapshot->sales_count + 1) * sizeof(*snapshot->sales));
    if (sales == NULL) {
        return ERR_NOMEM;
    }
    snapshot->sales = sales;
    snapshot->sales[snapshot->sales_count++] =
        (struct segment_snapshot_sale){.id = row->id,
                                       .state = row->state,
                                       .bar_unpaid = row->bar_unpaid,
                                       .starts_at_ms = row->starts_at_ms,
                                       .ends_at_ms = row->ends_at_ms};
    return 0;
}

static int read_sales(struct reading *reading)
{
    struct ledger_query query = query_of(reading, QUERY_SALES);
    query.sales = reading->page.sales;
    reading->snapshot->sales_count = 0;
    int error;
    do {
        uint64_t last = query.after;
        error = read_page(reading, &query);
        for (uint32_t i = 0; error == 0 && i < query.count; i++) {
            last = query.sales[i]->id;
            error = add_sale(reading->snapshot, query.sales[i]);
        }
        for (uint32_t i = 0; i < query.count; i++) {
            sale_row_free(query.sales[i]);
        }
        query.after = last;
    } while (error == 0 && query.count == PAGE);
    return error;
}

static int add_item(struct segment_snapshot *snapshot, const struct allotment_row *row)
{
    struct segment_snapshot_item *items =
        realloc(snapshot->items, (snapshot->items_count + 1) * sizeof(*snapshot->items));
    if (items == NULL) {
        return ERR_NOMEM;
    }
    snapshot->items = items;
    snapshot->items[snapshot->items_count++] =
        (struct segment_snapshot_item){.item = row->item,
                                       .sale = row->sale,
                                       .amount = row->amount,
                                       .noted_locked = row->locked,
                                       .noted_sold = row->sold,
                                       .limit = row->limit_per_user};
    return 0;
}

static int read_items(struct reading *reading)
{
    struct ledger_query query = query_of(reading, QUERY_ALLOTMENTS);
    query.allotments = reading->page.allotments;
    reading->snapshot->items_count = 0;
    int error;
    do {
        error = read_page(reading, &query);
        for (uint32_t i = 0; error == 0 && i < query.count; i++) {
            query.after = query.allotments[i].item;
            error = add_item(reading->snapshot, &query.allotments[i]);
        }
    } while (error == 0 && query.count == PAGE);
    return error;
}

/* ---- what follows from the orders ---- */

static const struct segment_snapshot_sale *find_sale(const struct segment_snapshot *snapshot,
                                                     uint64_t sale)
{
    size_t low = 0;
    size_t high = snapshot->sales_count;
    while (low < high) {
        size_t middle = low + (high - low) / 2;
        if (snapshot->sales[middle].id < sale) {
            low = middle + 1;
        } else {
            high = middle;
        }
    }
    return low < snapshot->sales_count && snapshot->sales[low].id == sale ? &snapshot->sales[low]
                                                                          : NULL;
}

/* Drops shares of sales that are off the board, and orders of items that have no share. */
static void drop_gone(struct segment_snapshot *snapshot)
{
    size_t kept = 0;
    for (size_t i = 0; i < snapshot->items_count; i++) {
        if (find_sale(snapshot, snapshot->items[i].sale) != NULL) {
            snapshot->items[kept++] = snapshot->items[i];
        }
    }
    snapshot->items_count = kept;
    kept = 0;
    for (size_t i = 0; i < snapshot->orders_count; i++) {
        if (find_item(snapshot, snapshot->orders[i].item) != NULL) {
            snapshot->orders[kept++] = snapshot->orders[i];
        }
    }
    snapshot->orders_count = kept;
}

static int compare_buyers(const void *a, const void *b)
{
    const struct segment_snapshot_buyer *first = a;
    const struct segment_snapshot_buyer *second = b;
    int by = compare_u64(first->item, second->item);
    return by != 0 ? by : compare_u64(first->user, second->user);
}

/* Makes one entry for each order, then merges them into one for each buyer, counted as the gate
 * does, see buyer_lets_go(). */
static int count_buyers(struct segment_snapshot *snapshot)
{
    if (snapshot->orders_count == 0) {
        return 0;
    }
    snapshot->buyers = malloc(snapshot->orders_count * sizeof(*snapshot->buyers));
    if (snapshot->buyers == NULL) {
        return ERR_NOMEM;
    }
    for (size_t i = 0; i < snapshot->orders_count; i++) {
        const struct segment_snapshot_order *order = &snapshot->orders[i];
        const struct segment_snapshot_sale *sale =
            find_sale(snapshot, find_item(snapshot, order->item)->sale);
        bool alive = order_state_alive((enum order_state)order->state);
        bool live = !order_state_final((enum order_state)order->state);
        bool late = order->state == ORDER_CANCELLED && order->reason == REFUSAL_BARRED;
        bool bars = late || (order->state == ORDER_EXPIRED && sale->bar_unpaid);
        snapshot->buyers[i] =
            (struct segment_snapshot_buyer){.item = order->item,
                                            .user = order->user,
                                            .held = alive ? order->qty : 0,
                                            .failed_attempts = !alive && !bars,
                                            .live = live,
                                            .barred = bars,
                                            .cooling_until_ms = order->cooling_until_ms};
    }
    qsort(snapshot->buyers, snapshot->orders_count, sizeof(*snapshot->buyers), compare_buyers);
    size_t last = 0;
    for (size_t i = 1; i < snapshot->orders_count; i++) {
        const struct segment_snapshot_buyer *next = &snapshot->buyers[i];
        if (compare_buyers(&snapshot->buyers[last], next) != 0) {
            snapshot->buyers[++last] = *next;
            continue;
        }
        snapshot->buyers[last].held += next->held;
        snapshot->buyers[last].failed_attempts += next->failed_attempts;
        snapshot->buyers[last].live += next->live;
        snapshot->buyers[last].barred |= next->barred;
        if (next->cooling_until_ms > snapshot->buyers[last].cooling_until_ms) {
            snapshot->buyers[last].cooling_until_ms = next->cooling_until_ms;
        }
    }
    snapshot->buyers_count = last + 1;
    for (size_t i = 0; i < snapshot->buyers_count; i++) {
        struct segment_snapshot_buyer *buyer = &snapshot->buyers[i];
        struct segment_snapshot_item *item = find_item(snapshot, buyer->item);
        item->buyers++;
        item->live += buyer->live;
        if (buyer->barred) {
            buyer->cooling_until_ms = 0;
        }
    }
    return 0;
}

static int count_orders(struct segment_snapshot *snapshot)
{
    drop_gone(snapshot);
    for (size_t i = 0; i < snapshot->orders_count; i++) {
        const struct segment_snapshot_order *order = &snapshot->orders[i];
        struct segment_snapshot_item *item = find_item(snapshot, order->item);
        if (order->state == ORDER_PAID) {
            item->sold += order->qty;
        } else if (order->state == ORDER_LOCKED) {
            item->locked += order->qty;
        }
    }
    return count_buyers(snapshot);
}

/* ---- reading ---- */

/* Reads sales and shares, and the events after `*after`. *ret_still: they did not change
 * meanwhile. */
static int read_still(struct reading *reading, uint64_t *after, bool *ret_still)
{
    uint64_t before = 0;
    uint64_t until = 0;
    bool changed = false;
    int error = read_last_event(reading, &before);
    error = error != 0 ? error : read_sales(reading);
    error = error != 0 ? error : read_items(reading);
    error = error != 0 ? error : read_last_event(reading, &until);
    error = error != 0 ? error : read_events(reading, *after, until, before, &changed);
    if (error == 0) {
        *after = until;
        *ret_still = !changed;
    }
    return error;
}

static int read_all(struct reading *reading)
{
    uint64_t after = 0; /* e0, and then each e2 */
    int error = read_last_event(reading, &after);
    error = error != 0 ? error : read_orders(reading);
    for (int i = 0; error == 0 && i < TRIES_MAX; i++) {
        bool still = false;
        error = read_still(reading, &after, &still);
        if (error == 0 && still) {
            reading->snapshot->event = after;
            return count_orders(reading->snapshot);
        }
    }
    return error != 0 ? error : ERR_AGAIN;
}

int segment_snapshot_read(struct ledger *ledger, uint32_t segment,
                          const struct segment_snapshot_heartbeat *heartbeat,
                          struct segment_snapshot *ret_snapshot)
{
    struct reading *reading = malloc(sizeof(*reading));
    if (reading == NULL) {
        return ERR_NOMEM;
    }
    *ret_snapshot = (struct segment_snapshot){.segment = segment};
    reading->ledger = ledger;
    reading->heartbeat = heartbeat;
    reading->snapshot = ret_snapshot;
    int error = read_all(reading);
    free(reading);
    if (error != 0) {
        segment_snapshot_done(ret_snapshot);
    }
    return error;
}

void segment_snapshot_done(struct segment_snapshot *snapshot)
{
    free(snapshot->sales);
    free(snapshot->items);
    free(snapshot->buyers);
    free(snapshot->orders);
    *snapshot = (struct segment_snapshot){0};
}

const struct segment_snapshot_item *segment_snapshot_item(const struct segment_snapshot *snapshot,
                                                          uint64_t item)
{
    return find_item(snapshot, item);
}

const struct segment_snapshot_order *segment_snapshot_order(const struct segment_snapshot *snapshot,
                                                            struct order_id id)
{
    return find_order(snapshot, id);
}
