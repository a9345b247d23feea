/*
 * Queries, and how rows become structs.
 *
 * A query runs in a read transaction that the backend has begun, so whatever statements it takes see
 * one committed state. A query with a limit reads at most that many rows of its answer; only a
 * report reads whole ranges, and a filter by state those it leaves out.
 *
 * What can go wrong: a row that holds what this program never wrote is ERR_CORRUPT; a cursor that
 * port/ledger_rules did not make is ERR_INVALID.
 */
#include <stdlib.h>

#include "backend/sql/db.h"
#include "base/check.h"
#include "base/err.h"
#include "port/segments.h"

/* ---- rows ---- */

int db_order_read(const struct db_row *row, struct order_row *ret_order)
{
    struct order_row order = {
        .item = db_u64(row, 0),
        .user = db_u64(row, 2),
        .sale = db_u64(row, 3),
        .qty = db_u32(row, 4),
        .amount_cents = db_int(row, 7),
        .created_at_ms = db_int(row, 8),
        .locked_at_ms = db_int(row, 9),
        .pay_by_ms = db_int(row, 10),
        .ended_at_ms = db_int(row, 11),
        .lsn = db_u64(row, 12),
        .segment = db_u32(row, 15),
        .cooling_until_ms = db_int(row, 16),
    };
    if (order_id_parse(db_span(row, 1), &order.id) != 0 ||
        order_state_parse(db_span(row, 5), &order.state) != 0 ||
        db_refusal(row, 6, &order.reason) != 0) {
        return ERR_CORRUPT;
    }
    db_text(row, 13, order.payment_id, sizeof(order.payment_id));
    db_text(row, 14, order.currency, sizeof(order.currency));
    *ret_order = order;
    return 0;
}

int db_order_load(struct db *db, struct order_id id, struct order_row *ret_order)
{
    struct db_row *row;
    struct id_text text = id_text_of(id);
    int err = db_get_in(db, db->ops->place(db, id), SQL_ORDER, &row,
                        v_int((int64_t)order_id_item(id)), v_id(&text));
    if (err == 0) {
        err = db_order_read(row, ret_order);
        db_done(row);
    }
    return err;
}

static void item_row_read(const struct db_row *row, uint64_t sale, struct item_row *ret_item)
{
    *ret_item = (struct item_row){
        .id = db_u64(row, 0),
        .sale = sale,
        .price_cents = db_u32(row, 1),
        .was_cents = db_u32(row, 2),
        .limit_per_user = db_u32(row, 3),
        .total = db_u64(row, 4),
        .available = db_u64(row, 5),
        .locked = db_u64(row, 6),
        .sold = db_u64(row, 7),
    };
    db_text(row, 8, ret_item->name, sizeof(ret_item->name));
    db_text(row, 9, ret_item->sku, sizeof(ret_item->sku));
    db_text(row, 10, ret_item->image_url, sizeof(ret_item->image_url));
}

static int sale_row_read(const struct db_row *row, struct sale_row *sale)
{
    char regions[REGIONS_TEXT_MAX + 1];
    const char *why = "";
    sale->id = db_u64(row, 0);
    sale->forgotten = db_int(row, 2) != 0;
    sale->bar_unpaid = db_int(row, 3) != 0;
    sale->pay_within_s = db_u32(row, 4);
    sale->starts_at_ms = db_int(row, 5);
    sale->ends_at_ms = db_int(row, 6);
    sale->created_at_ms = db_int(row, 7);
    db_text(row, 8, sale->name, sizeof(sale->name));
    db_text(row, 9, sale->currency, sizeof(sale->currency));
    db_text(row, 10, sale->pay_url, sizeof(sale->pay_url));
    sale->items_count = db_u32(row, 11);
    sale->homes = db_u32(row, 12);
    db_text(row, 13, regions, sizeof(regions));
    if (regions_parse(regions, SEGMENTS_MAX, &sale->regions, &why) != 0) {
        return ERR_CORRUPT;
    }
    return sale_state_parse(db_span(row, 1), &sale->state) == 0 ? 0 : ERR_CORRUPT;
}

/* Fills the items array, which has room for items_count of them. */
static int sale_items_read(struct db *db, struct sale_row *sale)
{
    struct db_row *row;
    uint32_t count = 0;
    int err = db_get(db, SQL_SALE_ITEMS, &row, v_int((int64_t)sale->id));
    while (err == 0) {
        if (count == sale->items_count) {
            db_done(row);
            return ERR_CORRUPT;
        }
        item_row_read(row, sale->id, &sale->items[count++]);
        err = db_next(row);
    }
    if (err == ERR_NOTFOUND) {
        err = count == sale->items_count ? 0 : ERR_CORRUPT; /* an item without its stock */
    }
    return err;
}

int db_sale_load(struct db *db, uint64_t id, struct sale_row **ret_sale)
{
    struct db_row *row;
    int err = db_get(db, SQL_SALE, &row, v_int((int64_t)id));
    if (err != 0) {
        return err;
    }
    struct sale_row *sale = calloc(1, sizeof(*sale));
    err = sale == NULL ? ERR_NOMEM : sale_row_read(row, sale);
    db_done(row);
    if (err == 0 && sale->items_count > 0) {
        sale->items = calloc(sale->items_count, sizeof(*sale->items));
        err = sale->items == NULL ? ERR_NOMEM : sale_items_read(db, sale);
    }
    if (err != 0) {
        sale_row_free(sale);
        return err;
    }
    *ret_sale = sale;
    return 0;
}

static int event_read(const struct db_row *row, struct ledger_event *ret_event)
{
    struct ledger_event event = {
        .number = db_u64(row, 0),
        .at_ms = db_int(row, 2),
        .sale = db_u64(row, 3),
        .item = db_u64(row, 4),
        .user = db_u64(row, 5),
        .qty = db_u32(row, 7),
        .a = db_int(row, 9),
        .b = db_int(row, 10),
        .c = db_int(row, 11),
        .d = db_int(row, 12),
        .segment = (int32_t)db_int(row, 13),
    };
    struct span id = db_span(row, 6);
    if (ledger_event_parse(db_span(row, 1), &event.kind) != 0 ||
        (id.at != NULL && order_id_parse(id, &event.id) != 0) ||
        db_refusal(row, 8, &event.reason) != 0) {
        return ERR_CORRUPT;
    }
    *ret_event = event;
    return 0;
}

/* ---- state, cursors, sales, events ---- */

static int query_state(struct db *db, struct ledger_query *q)
{
    struct db_row *row;
    int err = db_get_plain(db, SQL_STATE, &row);
    if (err != 0) {
        return err == ERR_NOTFOUND ? ERR_CORRUPT : err;
    }
    q->booked_lsn = db_u64(row, 0);
    q->last_event = db_u64(row, 1);
    q->highest_ms = db_int(row, 2);
    db_done(row);
    return 0;
}

int db_read_to(struct db *db, const char *name, uint64_t *ret_number)
{
    struct db_row *row;
    int err = db_get(db, SQL_READ_TO, &row, v_key(name));
    if (err == 0) {
        *ret_number = db_u64(row, 0);
        db_done(row);
    } else if (err == ERR_NOTFOUND) {
        *ret_number = 0;
        err = 0;
    }
    return err;
}

static int query_cursor(struct db *db, struct ledger_query *q)
{
    return db_read_to(db, q->cursor, &q->last_event);
}

static int next_sale(struct db *db, uint64_t after, uint64_t *ret_id)
{
    struct db_row *row;
    int err = db_get(db, SQL_SALE_NEXT, &row, v_int((int64_t)after));
    if (err == 0) {
        *ret_id = db_u64(row, 0);
        db_done(row);
    }
    return err;
}

static int query_sales(struct db *db, struct ledger_query *q)
{
    if (q->sale != 0) {
        int err = db_sale_load(db, q->sale, &q->sales[0]);
        q->count = err == 0 ? 1 : 0;
        return err;
    }
    uint64_t id = q->after;
    while (q->count < q->limit) {
        int err = next_sale(db, id, &id);
        if (err == ERR_NOTFOUND) {
            return 0;
        }
        if (err == 0) {
            err = db_sale_load(db, id, &q->sales[q->count]);
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

static int query_sale_changes(struct db *db, struct ledger_query *q)
{
    struct db_row *row = NULL;
    int err = db_get(db, SQL_SALE_CHANGES, &row, v_int((int64_t)q->after), v_int(q->limit));
    while (err == 0) {
        q->changes[q->count++] = (struct sale_change_row){
            .number = db_u64(row, 0), .sale = db_u64(row, 1), .gone = db_int(row, 2) != 0};
        err = db_next(row);
    }
    return err == ERR_NOTFOUND ? 0 : err;
}

int db_events_take(struct db_row *row, int err, struct ledger_query *q)
{
    while (err == 0) {
        err = event_read(row, &q->events[q->count]);
        if (err != 0) {
            db_done(row);
            return err;
        }
        q->count++;
        err = db_next(row);
    }
    return err == ERR_NOTFOUND ? 0 : err;
}

static int query_events(struct db *db, struct ledger_query *q)
{
    struct db_row *row = NULL;
    int err = db_get(db, SQL_EVENTS, &row, v_int((int64_t)q->after), v_int(q->limit));
    return db_events_take(row, err, q);
}

/* ---- orders ---- */

static int query_order(struct db *db, struct ledger_query *q)
{
    int err = db_order_load(db, q->id, &q->orders[0]);
    q->count = err == 0 ? 1 : 0;
    return err;
}

/* The state that a page is filtered by; NULL: any. */
static struct value page_state(const struct ledger_query *q)
{
    return v_text(q->state < 0 ? NULL : order_state_text((enum order_state)q->state));
}

static int orders_of_user(struct db *db, struct ledger_query *q, int64_t before_ms,
                          struct order_id before, bool *more)
{
    struct id_text id = id_text_of(before);
    struct value item = v_int((int64_t)order_id_item(before));
    struct value status = page_state(q);
    return db_orders(db, SQL_ORDERS_OF_USER, MERGE_NEWEST, q, more, v_int((int64_t)q->user),
                     v_int(before_ms), v_int(before_ms), item, item, v_id(&id),
                     v_int((int64_t)q->item), v_int((int64_t)q->item), v_int((int64_t)q->sale),
                     v_int((int64_t)q->sale), status, status, v_int((int64_t)q->limit + 1));
}

/* Of one item, below an id; `before` NULL: from its highest on. One row more than fits tells that
 * there is a next page. */
static int orders_of_item(struct db *db, struct ledger_query *q, uint64_t item,
                          const struct order_id *before, bool *more)
{
    static const struct order_id highest = {UINT64_MAX, UINT64_MAX};
    struct id_text id = id_text_of(before != NULL ? *before : highest);
    struct value status = page_state(q);
    return db_orders(db, SQL_ORDERS_OF_ITEM, MERGE_DOWN, q, more, v_int((int64_t)item), v_id(&id),
                     v_int((int64_t)q->sale), v_int((int64_t)q->sale), status, status,
                     v_int((int64_t)q->limit + 1 - q->count));
}

/* Item by item downwards, from the one in which the last page ended. */
static int orders_of_sale(struct db *db, struct ledger_query *q, struct order_id before, bool *more)
{
    uint64_t item = order_id_item(before);
    int err = 0;
    while (err == 0 && !*more && item > 0) {
        struct db_row *row;
        uint64_t top = item;
        err = db_get(db, SQL_SALE_ITEM_BELOW, &row, v_int((int64_t)q->sale), v_int((int64_t)item));
        if (err != 0) {
            break;
        }
        item = db_u64(row, 0);
        db_done(row);
        bool first = item == top && item == order_id_item(before);
        err = orders_of_item(db, q, item, first ? &before : NULL, more);
        item--;
    }
    return err;
}

static int orders_of_all(struct db *db, struct ledger_query *q, struct order_id before, bool *more)
{
    uint64_t item = order_id_item(before);
    int err = orders_of_item(db, q, item, &before, more);
    if (err == 0 && !*more) {
        struct value status = page_state(q);
        err = db_orders(db, SQL_ORDERS_BELOW, MERGE_DOWN, q, more, v_int((int64_t)item), status,
                        status, v_int((int64_t)q->limit + 1 - q->count));
    }
    return err;
}

static int query_orders(struct db *db, struct ledger_query *q)
{
    int64_t before_ms = INT64_MAX;
    struct order_id before = {UINT64_MAX, UINT64_MAX};
    bool more = false;
    if (q->cursor[0] != '\0' && ledger_cursor_read(q->cursor, &before_ms, &before) != 0) {
        return ERR_INVALID;
    }
    int err = 0;
    if (q->user != 0) {
        err = orders_of_user(db, q, before_ms, before, &more);
    } else if (q->item == 0) {
        err = q->sale != 0 ? orders_of_sale(db, q, before, &more)
                           : orders_of_all(db, q, before, &more);
    } else if (q->item <= order_id_item(before)) {
        bool inside = q->item == order_id_item(before);
        err = orders_of_item(db, q, q->item, inside ? &before : NULL, &more);
    }
    if (more && q->count > 0) {
        ledger_cursor_write(&q->orders[q->count - 1], q->next, sizeof(q->next));
    }
    return err == ERR_NOTFOUND ? 0 : err;
}

/* LOCKED orders of one item after an id, until the answer is full or the item is through. */
static int locked_of_item(struct db *db, struct ledger_query *q, uint64_t item, const char *after,
                          size_t after_length)
{
    bool more = false;
    return db_orders(db, SQL_LOCKED, MERGE_UP, q, &more, v_int((int64_t)item),
                     v_bytes(after, after_length), v_int(q->limit - q->count));
}

/* Item by item, and only those whose stock says that something is locked. */
static int query_locked(struct db *db, struct ledger_query *q)
{
    uint64_t item = q->after_item;
    struct id_text after = id_text_of(q->after_id);
    while (q->count < q->limit) {
        struct db_row *row;
        int err = db_get(db, SQL_LOCKED_ITEM, &row, v_int((int64_t)item));
        if (err != 0) {
            return err == ERR_NOTFOUND ? 0 : err;
        }
        item = db_u64(row, 0);
        db_done(row);
        bool continues = item == q->after_item;
        err = locked_of_item(db, q, item, after.text, continues ? ORDER_ID_TEXT : 0);
        if (err != 0) {
            return err;
        }
        item++;
    }
    return 0;
}

/* ---- the table ---- */

static int (*const query_table[])(struct db *db, struct ledger_query *q) = {
    [QUERY_SALE_CHANGES] = query_sale_changes,
    [QUERY_BLOCKS] = db_query_blocks,
    [QUERY_BLOCK] = db_query_block,
    [QUERY_STATE] = query_state,
    [QUERY_SALES] = query_sales,
    [QUERY_ORDERS] = query_orders,
    [QUERY_ORDER] = query_order,
    [QUERY_EVENTS] = query_events,
    [QUERY_LOCKED] = query_locked,
    [QUERY_REPORT] = db_query_report,
    [QUERY_CURSOR] = query_cursor,
    [QUERY_SUMMARY] = db_query_summary,
    [QUERY_SERIES] = db_query_series,
};

int db_query(struct db *db, struct ledger_query *q)
{
    CHECK((size_t)q->kind < sizeof(query_table) / sizeof(query_table[0]) &&
          query_table[q->kind] != NULL);
    return query_table[q->kind](db, q);
}
