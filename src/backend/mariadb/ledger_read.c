/*
 * Queries, and how rows become structs.
 *
 * Each query runs in a read transaction of its own, in one snapshot, so whatever statements it
 * takes see one committed state; nobody waits for it. A query with a limit reads at most that many
 * rows of its answer; only a report reads whole ranges, and a filter by state those it leaves out.
 *
 * What can go wrong: a row that holds what this program never wrote is ERR_CORRUPT; a cursor that
 * port/ledger_rules did not make is ERR_INVALID. A query whose connection had ended is asked once
 * more on a new one.
 */
#include <stdio.h>
#include <stdlib.h>

#include "backend/mariadb/maria.h"
#include "base/check.h"
#include "base/err.h"

int maria_order_read(const struct maria_row *row, struct order_row *ret_order)
{
    struct order_row order = {
        .item = (uint64_t)cell_int(row, 0),
        .user = (uint64_t)cell_int(row, 2),
        .sale = (uint64_t)cell_int(row, 3),
        .qty = (uint32_t)cell_int(row, 4),
        .amount_cents = cell_int(row, 7),
        .created_at_ms = cell_int(row, 8),
        .locked_at_ms = cell_int(row, 9),
        .pay_by_ms = cell_int(row, 10),
        .ended_at_ms = cell_int(row, 11),
        .lsn = (uint64_t)cell_int(row, 12),
    };
    if (order_id_parse(cell_span(row, 1), &order.id) != 0 ||
        order_state_parse(cell_span(row, 5), &order.state) != 0 ||
        cell_refusal(row, 6, &order.reason) != 0) {
        return ERR_CORRUPT;
    }
    cell_text(row, 13, order.payment_id, sizeof(order.payment_id));
    cell_text(row, 14, order.currency, sizeof(order.currency));
    order.segment = (uint32_t)cell_int(row, 15);
    *ret_order = order;
    return 0;
}

static int order_load(struct maria *s, struct order_id id, struct order_row *ret_order)
{
    struct maria_row *row;
    struct id_text text = id_text_of(id);
    int err = maria_get(s, MARIA_IN(maria_place(s, id), MARIA_ORDER), &row,
                        v_int((int64_t)order_id_item(id)), v_id(&text));
    if (err == 0) {
        err = maria_order_read(row, ret_order);
        maria_done(row);
    }
    return err;
}

static void item_row_read(const struct maria_row *row, uint64_t sale, struct item_row *ret_item)
{
    *ret_item = (struct item_row){
        .id = (uint64_t)cell_int(row, 0),
        .sale = sale,
        .price_cents = (uint32_t)cell_int(row, 1),
        .was_cents = (uint32_t)cell_int(row, 2),
        .limit_per_user = (uint32_t)cell_int(row, 3),
        .total = (uint64_t)cell_int(row, 4),
        .available = (uint64_t)cell_int(row, 5),
        .locked = (uint64_t)cell_int(row, 6),
        .sold = (uint64_t)cell_int(row, 7),
    };
    cell_text(row, 8, ret_item->name, sizeof(ret_item->name));
    cell_text(row, 9, ret_item->sku, sizeof(ret_item->sku));
    cell_text(row, 10, ret_item->image_url, sizeof(ret_item->image_url));
}

static int sale_row_read(const struct maria_row *row, struct sale_row *sale)
{
    char regions[REGIONS_TEXT_MAX + 1];
    const char *why = "";
    sale->id = (uint64_t)cell_int(row, 0);
    sale->forgotten = cell_int(row, 2) != 0;
    sale->bar_unpaid = cell_int(row, 3) != 0;
    sale->pay_within_s = (uint32_t)cell_int(row, 4);
    sale->starts_at_ms = cell_int(row, 5);
    sale->ends_at_ms = cell_int(row, 6);
    sale->created_at_ms = cell_int(row, 7);
    cell_text(row, 8, sale->name, sizeof(sale->name));
    cell_text(row, 9, sale->currency, sizeof(sale->currency));
    cell_text(row, 10, sale->pay_url, sizeof(sale->pay_url));
    sale->items_count = (uint32_t)cell_int(row, 11);
    sale->homes = (uint32_t)cell_int(row, 12);
    cell_text(row, 13, regions, sizeof(regions));
    if (regions_parse(regions, SEGMENTS_MAX, &sale->regions, &why) != 0) {
        return ERR_CORRUPT;
    }
    return sale_state_parse(cell_span(row, 1), &sale->state) == 0 ? 0 : ERR_CORRUPT;
}

/* Fills the items array, which has room for items_count of them. */
static int sale_items_read(struct maria *s, struct sale_row *sale)
{
    struct maria_row *row;
    uint32_t count = 0;
    int err = maria_get(s, MARIA_SALE_ITEMS, &row, v_int((int64_t)sale->id));
    while (err == 0) {
        if (count == sale->items_count) {
            maria_done(row);
            return ERR_CORRUPT;
        }
        item_row_read(row, sale->id, &sale->items[count++]);
        err = maria_next(s, row);
    }
    if (err == ERR_NOTFOUND) {
        err = count == sale->items_count ? 0 : ERR_CORRUPT; /* an item without its stock */
    }
    return err;
}

int maria_sale_load(struct maria *s, uint64_t id, struct sale_row **ret_sale)
{
    struct maria_row *row;
    int err = maria_get(s, MARIA_SALE, &row, v_int((int64_t)id));
    if (err != 0) {
        return err;
    }
    struct sale_row *sale = calloc(1, sizeof(*sale));
    err = sale == NULL ? ERR_NOMEM : sale_row_read(row, sale);
    maria_done(row);
    if (err == 0 && sale->items_count > 0) {
        sale->items = calloc(sale->items_count, sizeof(*sale->items));
        err = sale->items == NULL ? ERR_NOMEM : sale_items_read(s, sale);
    }
    if (err != 0) {
        sale_row_free(sale);
        return err;
    }
    *ret_sale = sale;
    return 0;
}

static int query_state(struct maria *s, struct ledger_query *q)
{
    struct maria_row *row;
    int err = maria_get_values(s, MARIA_STATE, &row, NULL, 0);
    if (err != 0) {
        return err == ERR_NOTFOUND ? ERR_CORRUPT : err;
    }
    q->booked_lsn = (uint64_t)cell_int(row, 0);
    q->last_event = (uint64_t)cell_int(row, 1);
    q->highest_ms = cell_int(row, 2);
    maria_done(row);
    return 0;
}

int maria_read_to(struct maria *s, const char *name, uint64_t *ret_number)
{
    struct maria_row *row;
    int err = maria_get(s, MARIA_READ_TO, &row, v_key(name));
    if (err == 0) {
        *ret_number = (uint64_t)cell_int(row, 0);
        maria_done(row);
    } else if (err == ERR_NOTFOUND) {
        *ret_number = 0;
        err = 0;
    }
    return err;
}

static int query_cursor(struct maria *s, struct ledger_query *q)
{
    return maria_read_to(s, q->cursor, &q->last_event);
}

static int query_next_sale(struct maria *s, uint64_t after, uint64_t *ret_id)
{
    struct maria_row *row;
    int err = maria_get(s, MARIA_SALE_NEXT, &row, v_int((int64_t)after));
    if (err == 0) {
        *ret_id = (uint64_t)cell_int(row, 0);
        maria_done(row);
    }
    return err;
}

static int query_sales(struct maria *s, struct ledger_query *q)
{
    if (q->sale != 0) {
        int err = maria_sale_load(s, q->sale, &q->sales[0]);
        q->count = err == 0 ? 1 : 0;
        return err;
    }
    uint64_t id = q->after;
    while (q->count < q->limit) {
        int err = query_next_sale(s, id, &id);
        if (err == ERR_NOTFOUND) {
            return 0;
        }
        if (err == 0) {
            err = maria_sale_load(s, id, &q->sales[q->count]);
        }
        if (err != 0) {
            while (q->count > 0) {
                sale_row_free(q->sales[--q->count]);
            }
            return err;
        }
        q->count++;
    }
    return 0;
}

/* Orders of one statement, behind those that are there, up to the limit. Where one more was asked
 * for, it only tells that there is a next page. */
int maria_orders_take(struct maria_merge *merge, struct ledger_query *q, bool *ret_more)
{
    int err = 0;
    while (err == 0 && q->count < q->limit && maria_merge_more(merge)) {
        err = maria_merge_take(merge, &q->orders[q->count]);
        q->count += err == 0 ? 1 : 0;
    }
    if (err == 0) {
        *ret_more = maria_merge_more(merge);
        maria_merge_close(merge);
    }
    return err;
}

static const char *orders_status(const struct ledger_query *q)
{
    return q->state < 0 ? NULL : order_state_text((enum order_state)q->state);
}

static int orders_of_user(struct maria *s, struct ledger_query *q, int64_t before_ms,
                          struct order_id before, bool *more)
{
    struct id_text id = id_text_of(before);
    struct value item = v_int((int64_t)order_id_item(before));
    struct value status = v_text(orders_status(q));
    struct maria_merge merge;
    int err = maria_merge(s, MARIA_ORDERS_OF_USER, MERGE_NEWEST, &merge, v_int((int64_t)q->user),
                          v_int(before_ms), v_int(before_ms), item, item, v_id(&id),
                          v_int((int64_t)q->item), v_int((int64_t)q->item), v_int((int64_t)q->sale),
                          v_int((int64_t)q->sale), status, status, v_int((int64_t)q->limit + 1));
    return err != 0 ? err : maria_orders_take(&merge, q, more);
}

/* Of one item, below an id; `before` NULL: from its highest on. */
static int orders_of_item(struct maria *s, struct ledger_query *q, uint64_t item,
                          const struct order_id *before, bool *more)
{
    static const struct order_id highest = {UINT64_MAX, UINT64_MAX};
    struct id_text id = id_text_of(before != NULL ? *before : highest);
    struct value status = v_text(orders_status(q));
    struct maria_merge merge;
    int err = maria_merge(s, MARIA_ORDERS_OF_ITEM, MERGE_DOWN, &merge, v_int((int64_t)item),
                          v_id(&id), v_int((int64_t)q->sale), v_int((int64_t)q->sale), status,
                          status, v_int((int64_t)q->limit + 1 - q->count));
    return err != 0 ? err : maria_orders_take(&merge, q, more);
}

/* Item by item downwards, from the one in which the last page ended. */
static int orders_of_sale(struct maria *s, struct ledger_query *q, struct order_id before,
                          bool *more)
{
    uint64_t item = order_id_item(before);
    int err = 0;
    while (err == 0 && !*more && item > 0) {
        struct maria_row *row;
        uint64_t top = item;
        err = maria_get(s, MARIA_SALE_ITEM_BELOW, &row, v_int((int64_t)q->sale),
                        v_int((int64_t)item));
        if (err != 0) {
            break;
        }
        item = (uint64_t)cell_int(row, 0);
        maria_done(row);
        bool first = item == top && item == order_id_item(before);
        err = orders_of_item(s, q, item, first ? &before : NULL, more);
        item--;
    }
    return err;
}

static int orders_of_all(struct maria *s, struct ledger_query *q, struct order_id before,
                         bool *more)
{
    uint64_t item = order_id_item(before);
    int err = orders_of_item(s, q, item, &before, more);
    if (err == 0 && !*more) {
        struct value status = v_text(orders_status(q));
        struct maria_merge merge;
        err = maria_merge(s, MARIA_ORDERS_BELOW, MERGE_DOWN, &merge, v_int((int64_t)item), status,
                          status, v_int((int64_t)q->limit + 1 - q->count));
        err = err != 0 ? err : maria_orders_take(&merge, q, more);
    }
    return err;
}

static int query_orders(struct maria *s, struct ledger_query *q)
{
    int64_t before_ms = INT64_MAX;
    struct order_id before = {UINT64_MAX, UINT64_MAX};
    bool more = false;
    if (q->cursor[0] != '\0' && ledger_cursor_read(q->cursor, &before_ms, &before) != 0) {
        return ERR_INVALID;
    }
    int err = 0;
    if (q->user != 0) {
        err = orders_of_user(s, q, before_ms, before, &more);
    } else if (q->item == 0) {
        err =
            q->sale != 0 ? orders_of_sale(s, q, before, &more) : orders_of_all(s, q, before, &more);
    } else if (q->item <= order_id_item(before)) {
        bool inside = q->item == order_id_item(before);
        err = orders_of_item(s, q, q->item, inside ? &before : NULL, &more);
    }
    if (more && q->count > 0) {
        ledger_cursor_write(&q->orders[q->count - 1], q->next, sizeof(q->next));
    }
    return err == ERR_NOTFOUND ? 0 : err;
}

static int event_read(const struct maria_row *row, struct ledger_event *ret_event)
{
    struct ledger_event event = {
        .number = (uint64_t)cell_int(row, 0),
        .at_ms = cell_int(row, 2),
        .sale = (uint64_t)cell_int(row, 3),
        .item = (uint64_t)cell_int(row, 4),
        .user = (uint64_t)cell_int(row, 5),
        .qty = (uint32_t)cell_int(row, 7),
        .a = cell_int(row, 9),
        .b = cell_int(row, 10),
        .c = cell_int(row, 11),
        .d = cell_int(row, 12),
        .segment = row->cells[13].null ? SEGMENT_ALL : (int32_t)cell_int(row, 13),
    };
    struct span id = cell_span(row, 6);
    if (ledger_event_parse(cell_span(row, 1), &event.kind) != 0 ||
        (id.at != NULL && order_id_parse(id, &event.id) != 0) ||
        cell_refusal(row, 8, &event.reason) != 0) {
        return ERR_CORRUPT;
    }
    *ret_event = event;
    return 0;
}

/* In a ledger of one writer all events are for the one gate. */
static int is_by_segment(struct maria *s, const struct ledger_query *q, bool *ret_by_segment)
{
    int64_t segments = 0;
    int err = q->segment < 0 || s->shared
                  ? 0
                  : maria_number(s, "SELECT segments FROM meta WHERE id = 1", &segments);
    s->shared = s->shared || segments > 0; /* and stays so while it has events */
    *ret_by_segment = q->segment >= 0 && s->shared;
    return err == ERR_NOTFOUND ? ERR_CORRUPT : err;
}

static int query_events(struct maria *s, struct ledger_query *q)
{
    struct maria_row *row;
    bool by_segment = false;
    int err = is_by_segment(s, q, &by_segment);
    if (err != 0) {
        return err;
    }
    struct value after = v_int((int64_t)q->after);
    struct value limit = v_int(q->limit);
    err = by_segment ? maria_get(s, MARIA_SEGMENT_EVENTS, &row, v_int(q->segment), after, limit,
                                 after, limit, limit)
                     : maria_get(s, MARIA_EVENTS, &row, after, limit);
    while (err == 0) {
        err = event_read(row, &q->events[q->count]);
        if (err != 0) {
            maria_done(row);
            return err;
        }
        q->count++;
        err = maria_next(s, row);
    }
    return err == ERR_NOTFOUND ? 0 : err;
}

/* LOCKED orders of one item after an id, until the answer is full or the item is through. */
static int query_locked_of_item(struct maria *s, struct ledger_query *q, uint64_t item,
                                const char *after, size_t after_length)
{
    struct maria_merge merge;
    bool more = false;
    int err = maria_merge(s, MARIA_LOCKED, MERGE_UP, &merge, v_int((int64_t)item),
                          v_bytes(after, after_length), v_int(q->limit - q->count));
    return err != 0 ? err : maria_orders_take(&merge, q, &more);
}

/* Item by item, and only those whose stock says that something is locked. */
static int query_locked(struct maria *s, struct ledger_query *q)
{
    uint64_t item = q->after_item;
    struct id_text after = id_text_of(q->after_id);
    while (q->count < q->limit) {
        struct maria_row *row;
        int err = maria_get(s, MARIA_LOCKED_ITEM, &row, v_int((int64_t)item));
        if (err != 0) {
            return err == ERR_NOTFOUND ? 0 : err;
        }
        item = (uint64_t)cell_int(row, 0);
        maria_done(row);
        bool continues = item == q->after_item;
        err = query_locked_of_item(s, q, item, after.text, continues ? ORDER_ID_TEXT : 0);
        if (err != 0) {
            return err;
        }
        item++;
    }
    return 0;
}

static int report_number(struct maria *s, enum maria_statement which, uint64_t item,
                         uint64_t *ret_number)
{
    struct maria_row *row;
    int err = maria_get(s, which, &row, v_int((int64_t)item));
    if (err != 0) {
        return err == ERR_NOTFOUND ? ERR_CORRUPT : err; /* an aggregate always has a row */
    }
    *ret_number = (uint64_t)cell_int(row, 0);
    maria_done(row);
    return 0;
}

/* Of one database, added to what the others gave. */
static int report_states(struct maria *s, uint32_t place, struct report_row *report)
{
    struct maria_row *row;
    int err =
        maria_get(s, MARIA_IN(place, MARIA_REPORT_STATES), &row, v_int((int64_t)report->item));
    while (err == 0) {
        enum order_state state;
        if (order_state_parse(cell_span(row, 0), &state) != 0) {
            maria_done(row);
            return ERR_CORRUPT;
        }
        report->orders[state] += (uint64_t)cell_int(row, 1);
        report->units[state] += (uint64_t)cell_int(row, 2);
        report->paid_cents += state == ORDER_PAID ? cell_int(row, 3) : 0;
        int64_t first_ms = cell_int(row, 4);
        int64_t last_ms = cell_int(row, 5);
        if (report->first_order_ms == 0 || first_ms < report->first_order_ms) {
            report->first_order_ms = first_ms;
        }
        if (last_ms > report->last_order_ms) {
            report->last_order_ms = last_ms;
        }
        err = maria_next(s, row);
    }
    return err == ERR_NOTFOUND ? 0 : err;
}

static int query_report(struct maria *s, struct ledger_query *q)
{
    struct sale_row *sale = NULL;
    int err = maria_sale_load(s, q->sale, &sale);
    if (err != 0) {
        return err;
    }
    for (uint32_t i = 0; i < sale->items_count && q->count < q->limit && err == 0; i++) {
        struct report_row *report = &q->report[q->count];
        *report = (struct report_row){.item = sale->items[i].id};
        for (uint32_t place = 0; place < s->address.databases && err == 0; place++) {
            err = report_states(s, place, report);
        }
        if (err == 0) {
            err = report_number(s, MARIA_REPORT_PEAK, report->item, &report->peak_orders_per_s);
        }
        if (err == 0) {
            err = report_number(s, MARIA_REPORT_BUYERS, report->item, &report->buyers);
        }
        q->count += err == 0 ? 1 : 0;
    }
    sale_row_free(sale);
    return err;
}

static int query_order(struct maria *s, struct ledger_query *q)
{
    int err = order_load(s, q->id, &q->orders[0]);
    q->count = err == 0 ? 1 : 0;
    return err;
}

static int (*const query_table[])(struct maria *s, struct ledger_query *q) = {
    [QUERY_STATE] = query_state,
    [QUERY_SALES] = query_sales,
    [QUERY_ORDERS] = query_orders,
    [QUERY_ORDER] = query_order,
    [QUERY_EVENTS] = query_events,
    [QUERY_LOCKED] = query_locked,
    [QUERY_REPORT] = query_report,
    [QUERY_CURSOR] = query_cursor,
    [QUERY_SUMMARY] = maria_query_summary,
    [QUERY_SERIES] = maria_query_series,
    [QUERY_ORDERS_BY_ID] = maria_query_known,
    [QUERY_SEGMENTS] = maria_query_segments,
    [QUERY_ALLOTMENTS] = maria_query_allotments,
    [QUERY_SEGMENT_ORDERS] = maria_query_segment_orders,
    [QUERY_SEGMENT_BUYERS] = maria_query_segment_buyers,
    [QUERY_KNOWN] = maria_query_known,
    [QUERY_TRANSFERS] = maria_query_transfers,
    [QUERY_LEASES] = maria_query_leases,
};

/* One try: a snapshot, the query's statements, the end. */
static int read_once(struct maria *s, struct ledger_query *query)
{
    query->count = 0;
    query->next[0] = '\0';
    int err = maria_ready(s);
    if (err == 0 && !s->read_only) {
        err = maria_do(s, "SET TRANSACTION ISOLATION LEVEL REPEATABLE READ");
    }
    if (err == 0) {
        err = maria_do(s, "START TRANSACTION WITH CONSISTENT SNAPSHOT, READ ONLY");
    }
    if (err == 0) {
        err = query_table[query->kind](s, query);
        maria_rollback(s); /* ends it; nothing was written */
    }
    if (err != 0) {
        query->count = 0;
    }
    return err > 0 ? ERR_BUSY : err;
}

void maria_read(struct ledger *ledger, struct ledger_query *query)
{
    struct maria *s = maria_of(ledger);
    CHECK((size_t)query->kind < sizeof(query_table) / sizeof(query_table[0]));
    bool was_connected = s->db != NULL && !s->lost;
    query->error = read_once(s, query);
    /* The connection may have ended while nobody used it: a new one knows. A server that gave no
     * answer was waited for once already. */
    if (query->error == ERR_IO && s->lost && was_connected && maria_ready(s) == 0) {
        query->error = read_once(s, query);
    }
}
