/* See image.h. */
#include "flow/image.h"

#include <stdlib.h>
#include <string.h>

#include "base/err.h"

#define PAGE 512
/* How often sales and shares are read before it is said that they do not hold still. */
#define TRIES_MAX 100

/* What one reading needs. */
struct reading {
    const struct await *await;
    struct ledger *ledger;
    const struct image_pulse *pulse;
    struct image *image;
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
        .kind = kind, .segment = (int32_t)reading->image->segment, .limit = PAGE};
}

static int read_page(struct reading *reading, struct ledger_query *query)
{
    const struct image_pulse *pulse = reading->pulse;
    if (pulse != NULL && !pulse->goes_on(pulse->context)) {
        query->count = 0;
        return ERR_CLOSED;
    }
    return await_read(reading->await, reading->ledger, query);
}

static int read_last_event(struct reading *reading, uint64_t *ret_event)
{
    struct ledger_query query = query_of(reading, QUERY_STATE);
    int error = read_page(reading, &query);
    if (error == 0) {
        *ret_event = query.last_event;
        reading->image->highest_ms = query.highest_ms;
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
static size_t order_place(const struct image *image, struct order_id id)
{
    uint64_t item = order_id_item(id);
    size_t low = 0;
    size_t high = image->orders_count;
    while (low < high) {
        size_t middle = low + (high - low) / 2;
        const struct image_order *order = &image->orders[middle];
        if (compare_place(order->item, order->id, item, id) < 0) {
            low = middle + 1;
        } else {
            high = middle;
        }
    }
    return low;
}

static struct image_order *find_order(const struct image *image, struct order_id id)
{
    size_t at = order_place(image, id);
    bool found = at < image->orders_count && order_id_equal(image->orders[at].id, id);
    return found ? &image->orders[at] : NULL;
}

static int insert_order(struct image *image, size_t at, const struct order_row *row)
{
    if (image->orders_count == image->orders_room) {
        size_t room = image->orders_room == 0 ? PAGE : image->orders_room * 2;
        struct image_order *orders = realloc(image->orders, room * sizeof(*orders));
        if (orders == NULL) {
            return ERR_NOMEM;
        }
        image->orders = orders;
        image->orders_room = room;
    }
    memmove(&image->orders[at + 1], &image->orders[at],
            (image->orders_count - at) * sizeof(*image->orders));
    image->orders_count++;
    image->orders[at] = (struct image_order){.id = row->id,
                                             .user = row->user,
                                             .item = row->item,
                                             .created_at_ms = row->created_at_ms,
                                             .pay_by_ms = row->pay_by_ms,
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
            error = insert_order(reading->image, reading->image->orders_count, row);
        }
    } while (error == 0 && query.count == PAGE);
    return error;
}

/* A row that was made while pages were read: as the event has it, it may have moved on since. */
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
    return insert_order(reading->image, order_place(reading->image, event->id), &row);
}

/* ---- events behind what was read ---- */

static struct image_item *find_item(const struct image *image, uint64_t item)
{
    size_t low = 0;
    size_t high = image->items_count;
    while (low < high) {
        size_t middle = low + (high - low) / 2;
        if (image->items[middle].item < item) {
            low = middle + 1;
        } else {
            high = middle;
        }
    }
    return low < image->items_count && image->items[low].item == item ? &image->items[low] : NULL;
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
    struct image_order *order = find_order(reading->image, event->id);
    bool makes = event->kind == EVENT_ORDER_LOCKED || event->kind == EVENT_ORDER_FAILED;
    if (order == NULL) {
        return makes ? read_new_order(reading, event) : 0;
    }
    if (!makes && order->state == ORDER_LOCKED) {
        order->state = (uint8_t)state_after(event->kind);
    }
    return 0;
}

/* Events in (after, until]. Whether one behind `still` changed sales or shares. */
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
                struct image_item *item = find_item(reading->image, event.item);
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

static int add_sale(struct image *image, const struct sale_row *row)
{
    if (row->state == SALE_DRAFT || row->forgotten) {
        return 0;
    }
    struct image_sale *sales =
        realloc(image->sales, (image->sales_count + 1) * sizeof(*image->sales));
    if (sales == NULL) {
        return ERR_NOMEM;
    }
    image->sales = sales;
    image->sales[image->sales_count++] = (struct image_sale){.id = row->id,
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
    reading->image->sales_count = 0;
    int error;
    do {
        uint64_t last = query.after;
        error = read_page(reading, &query);
        for (uint32_t i = 0; error == 0 && i < query.count; i++) {
            last = query.sales[i]->id;
            error = add_sale(reading->image, query.sales[i]);
        }
        for (uint32_t i = 0; i < query.count; i++) {
            sale_row_free(query.sales[i]);
        }
        query.after = last;
    } while (error == 0 && query.count == PAGE);
    return error;
}

static int add_item(struct image *image, const struct allotment_row *row)
{
    struct image_item *items =
        realloc(image->items, (image->items_count + 1) * sizeof(*image->items));
    if (items == NULL) {
        return ERR_NOMEM;
    }
    image->items = items;
    image->items[image->items_count++] = (struct image_item){.item = row->item,
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
    reading->image->items_count = 0;
    int error;
    do {
        error = read_page(reading, &query);
        for (uint32_t i = 0; error == 0 && i < query.count; i++) {
            query.after = query.allotments[i].item;
            error = add_item(reading->image, &query.allotments[i]);
        }
    } while (error == 0 && query.count == PAGE);
    return error;
}

/* ---- what follows from the orders ---- */

static const struct image_sale *find_sale(const struct image *image, uint64_t sale)
{
    size_t low = 0;
    size_t high = image->sales_count;
    while (low < high) {
        size_t middle = low + (high - low) / 2;
        if (image->sales[middle].id < sale) {
            low = middle + 1;
        } else {
            high = middle;
        }
    }
    return low < image->sales_count && image->sales[low].id == sale ? &image->sales[low] : NULL;
}

/* Shares of sales that are off the board, and orders of items that have no share: gone. */
static void drop_gone(struct image *image)
{
    size_t kept = 0;
    for (size_t i = 0; i < image->items_count; i++) {
        if (find_sale(image, image->items[i].sale) != NULL) {
            image->items[kept++] = image->items[i];
        }
    }
    image->items_count = kept;
    kept = 0;
    for (size_t i = 0; i < image->orders_count; i++) {
        if (find_item(image, image->orders[i].item) != NULL) {
            image->orders[kept++] = image->orders[i];
        }
    }
    image->orders_count = kept;
}

static int compare_buyers(const void *a, const void *b)
{
    const struct image_buyer *first = a;
    const struct image_buyer *second = b;
    int by = compare_u64(first->item, second->item);
    return by != 0 ? by : compare_u64(first->user, second->user);
}

/* One entry for each order, then one for each buyer: as the gate counts, see buyer_lets_go(). */
static int count_buyers(struct image *image)
{
    if (image->orders_count == 0) {
        return 0;
    }
    image->buyers = malloc(image->orders_count * sizeof(*image->buyers));
    if (image->buyers == NULL) {
        return ERR_NOMEM;
    }
    for (size_t i = 0; i < image->orders_count; i++) {
        const struct image_order *order = &image->orders[i];
        const struct image_sale *sale = find_sale(image, find_item(image, order->item)->sale);
        bool alive = order_state_alive((enum order_state)order->state);
        bool bars = order->state == ORDER_EXPIRED && sale->bar_unpaid;
        image->buyers[i] = (struct image_buyer){.item = order->item,
                                                .user = order->user,
                                                .held = alive ? order->qty : 0,
                                                .ended = !alive && !bars,
                                                .barred = bars};
    }
    qsort(image->buyers, image->orders_count, sizeof(*image->buyers), compare_buyers);
    size_t last = 0;
    for (size_t i = 1; i < image->orders_count; i++) {
        const struct image_buyer *next = &image->buyers[i];
        if (compare_buyers(&image->buyers[last], next) != 0) {
            image->buyers[++last] = *next;
            continue;
        }
        image->buyers[last].held += next->held;
        image->buyers[last].ended += next->ended;
        image->buyers[last].barred |= next->barred;
    }
    image->buyers_count = last + 1;
    return 0;
}

static int count_orders(struct image *image)
{
    drop_gone(image);
    for (size_t i = 0; i < image->orders_count; i++) {
        const struct image_order *order = &image->orders[i];
        struct image_item *item = find_item(image, order->item);
        if (order->state == ORDER_PAID) {
            item->sold += order->qty;
        } else if (order->state == ORDER_LOCKED) {
            item->locked += order->qty;
        }
    }
    return count_buyers(image);
}

/* ---- reading ---- */

/* Sales and shares, and the events behind `*after`. Whether they held still meanwhile. */
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
            reading->image->event = after;
            return count_orders(reading->image);
        }
    }
    return error != 0 ? error : ERR_AGAIN;
}

int image_read(const struct await *await, struct ledger *ledger, uint32_t segment,
               const struct image_pulse *pulse, struct image *ret_image)
{
    struct reading *reading = malloc(sizeof(*reading));
    if (reading == NULL) {
        return ERR_NOMEM;
    }
    *ret_image = (struct image){.segment = segment};
    reading->await = await;
    reading->ledger = ledger;
    reading->pulse = pulse;
    reading->image = ret_image;
    int error = read_all(reading);
    free(reading);
    if (error != 0) {
        image_done(ret_image);
    }
    return error;
}

void image_done(struct image *image)
{
    free(image->sales);
    free(image->items);
    free(image->buyers);
    free(image->orders);
    *image = (struct image){0};
}

const struct image_item *image_item(const struct image *image, uint64_t item)
{
    return find_item(image, item);
}

const struct image_order *image_order(const struct image *image, struct order_id id)
{
    return find_order(image, id);
}
