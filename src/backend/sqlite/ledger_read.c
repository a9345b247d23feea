/*
 * Queries, and how rows become structs.
 *
 * Each query runs in a read transaction of its own, so whatever statements it takes see one
 * committed state; in WAL mode that costs the writer nothing. A query with a limit reads at most
 * that many rows of its answer; only a report and a listing without a user read whole ranges.
 *
 * What can go wrong: a row that holds what this program never wrote is ERR_CORRUPT; a cursor that
 * this file did not make is ERR_INVALID.
 */
#include <stdio.h>
#include <stdlib.h>

#include "backend/sqlite/store.h"
#include "base/check.h"
#include "base/err.h"

int order_row_read(sqlite3_stmt *row, struct order_row *ret_order)
{
    struct order_row order = {
        .item = (uint64_t)sqlite3_column_int64(row, 0),
        .user = (uint64_t)sqlite3_column_int64(row, 2),
        .sale = (uint64_t)sqlite3_column_int64(row, 3),
        .qty = (uint32_t)sqlite3_column_int64(row, 4),
        .amount_cents = sqlite3_column_int64(row, 7),
        .created_at_ms = sqlite3_column_int64(row, 8),
        .locked_at_ms = sqlite3_column_int64(row, 9),
        .pay_by_ms = sqlite3_column_int64(row, 10),
        .ended_at_ms = sqlite3_column_int64(row, 11),
        .lsn = (uint64_t)sqlite3_column_int64(row, 12),
    };
    if (order_id_parse(column_span(row, 1), &order.id) != 0 ||
        order_state_parse(column_span(row, 5), &order.state) != 0 ||
        column_refusal(row, 6, &order.reason) != 0) {
        return ERR_CORRUPT;
    }
    column_text(row, 13, order.payment_id, sizeof(order.payment_id));
    column_text(row, 14, order.currency, sizeof(order.currency));
    *ret_order = order;
    return 0;
}

int order_row_load(struct store *s, struct order_id id, struct order_row *ret_order)
{
    sqlite3_stmt *row;
    struct id_text text = id_text_of(id);
    int err = store_get(s, SQL_ORDER, &row, v_int((int64_t)order_id_item(id)), v_id(&text));
    if (err == 0) {
        err = order_row_read(row, ret_order);
        store_done(row);
    }
    return err;
}

static void item_row_read(sqlite3_stmt *row, uint64_t sale, struct item_row *ret_item)
{
    *ret_item = (struct item_row){
        .id = (uint64_t)sqlite3_column_int64(row, 0),
        .sale = sale,
        .price_cents = (uint32_t)sqlite3_column_int64(row, 1),
        .was_cents = (uint32_t)sqlite3_column_int64(row, 2),
        .limit_per_user = (uint32_t)sqlite3_column_int64(row, 3),
        .total = (uint64_t)sqlite3_column_int64(row, 4),
        .available = (uint64_t)sqlite3_column_int64(row, 5),
        .locked = (uint64_t)sqlite3_column_int64(row, 6),
        .sold = (uint64_t)sqlite3_column_int64(row, 7),
    };
    column_text(row, 8, ret_item->name, sizeof(ret_item->name));
    column_text(row, 9, ret_item->sku, sizeof(ret_item->sku));
    column_text(row, 10, ret_item->image_url, sizeof(ret_item->image_url));
}

static int sale_row_read(sqlite3_stmt *row, struct sale_row *sale)
{
    sale->id = (uint64_t)sqlite3_column_int64(row, 0);
    sale->forgotten = sqlite3_column_int(row, 2) != 0;
    sale->bar_unpaid = sqlite3_column_int(row, 3) != 0;
    sale->pay_within_s = (uint32_t)sqlite3_column_int64(row, 4);
    sale->starts_at_ms = sqlite3_column_int64(row, 5);
    sale->ends_at_ms = sqlite3_column_int64(row, 6);
    sale->created_at_ms = sqlite3_column_int64(row, 7);
    column_text(row, 8, sale->name, sizeof(sale->name));
    column_text(row, 9, sale->currency, sizeof(sale->currency));
    column_text(row, 10, sale->pay_url, sizeof(sale->pay_url));
    sale->items_count = (uint32_t)sqlite3_column_int64(row, 11);
    return sale_state_parse(column_span(row, 1), &sale->state) == 0 ? 0 : ERR_CORRUPT;
}

/* Fills the items array, which has room for items_count of them. */
static int sale_items_read(struct store *s, struct sale_row *sale)
{
    sqlite3_stmt *row;
    uint32_t count = 0;
    int err = store_get(s, SQL_SALE_ITEMS, &row, v_int((int64_t)sale->id));
    while (err == 0) {
        if (count == sale->items_count) {
            store_done(row);
            return ERR_CORRUPT;
        }
        item_row_read(row, sale->id, &sale->items[count++]);
        err = store_next(s, row);
    }
    if (err == ERR_NOTFOUND) {
        err = count == sale->items_count ? 0 : ERR_CORRUPT; /* an item without its stock */
    }
    return err;
}

int sale_row_load(struct store *s, uint64_t id, struct sale_row **ret_sale)
{
    sqlite3_stmt *row;
    int err = store_get(s, SQL_SALE, &row, v_int((int64_t)id));
    if (err != 0) {
        return err;
    }
    struct sale_row *sale = calloc(1, sizeof(*sale));
    err = sale == NULL ? ERR_NOMEM : sale_row_read(row, sale);
    store_done(row);
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

static int query_state(struct store *s, struct ledger_query *q)
{
    sqlite3_stmt *row;
    int err = store_get_values(s, SQL_STATE, &row, NULL, 0);
    if (err != 0) {
        return err == ERR_NOTFOUND ? ERR_CORRUPT : err;
    }
    q->booked_lsn = (uint64_t)sqlite3_column_int64(row, 0);
    q->last_event = (uint64_t)sqlite3_column_int64(row, 1);
    q->highest_ms = sqlite3_column_int64(row, 2);
    store_done(row);
    return 0;
}

static int query_next_sale(struct store *s, uint64_t after, uint64_t *ret_id)
{
    sqlite3_stmt *row;
    int err = store_get(s, SQL_SALE_NEXT, &row, v_int((int64_t)after));
    if (err == 0) {
        *ret_id = (uint64_t)sqlite3_column_int64(row, 0);
        store_done(row);
    }
    return err;
}

static int query_sales(struct store *s, struct ledger_query *q)
{
    if (q->sale != 0) {
        int err = sale_row_load(s, q->sale, &q->sales[0]);
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
            err = sale_row_load(s, id, &q->sales[q->count]);
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

/* One row more than asked for tells whether there is a next page. */
static int query_orders(struct store *s, struct ledger_query *q)
{
    int64_t before_ms = INT64_MAX;
    struct order_id before = {UINT64_MAX, UINT64_MAX};
    if (q->cursor[0] != '\0' && ledger_cursor_read(q->cursor, &before_ms, &before) != 0) {
        return ERR_INVALID;
    }
    enum statement which = q->user != 0   ? SQL_ORDERS_OF_USER
                           : q->item != 0 ? SQL_ORDERS_OF_ITEM
                           : q->sale != 0 ? SQL_ORDERS_OF_SALE
                                          : SQL_ORDERS;
    const char *status = q->state < 0 ? NULL : order_state_text((enum order_state)q->state);
    struct id_text before_id = id_text_of(before);
    sqlite3_stmt *row;
    int err = store_get(s, which, &row, v_int((int64_t)q->user), v_int((int64_t)q->item),
                        v_int((int64_t)q->sale), v_text(status), v_int(before_ms),
                        v_int((int64_t)order_id_item(before)), v_id(&before_id),
                        v_int((int64_t)q->limit + 1));
    while (err == 0 && q->count < q->limit) {
        err = order_row_read(row, &q->orders[q->count]);
        if (err != 0) {
            store_done(row);
            return err;
        }
        q->count++;
        err = store_next(s, row);
    }
    if (err == 0) {
        store_done(row);
        if (q->count > 0) {
            ledger_cursor_write(&q->orders[q->count - 1], q->next, sizeof(q->next));
        }
    }
    return err == ERR_NOTFOUND ? 0 : err;
}

static int event_read(sqlite3_stmt *row, struct ledger_event *ret_event)
{
    struct ledger_event event = {
        .number = (uint64_t)sqlite3_column_int64(row, 0),
        .at_ms = sqlite3_column_int64(row, 2),
        .sale = (uint64_t)sqlite3_column_int64(row, 3),
        .item = (uint64_t)sqlite3_column_int64(row, 4),
        .user = (uint64_t)sqlite3_column_int64(row, 5),
        .qty = (uint32_t)sqlite3_column_int64(row, 7),
        .a = sqlite3_column_int64(row, 9),
        .b = sqlite3_column_int64(row, 10),
        .c = sqlite3_column_int64(row, 11),
        .d = sqlite3_column_int64(row, 12),
    };
    struct span id = column_span(row, 6);
    if (ledger_event_parse(column_span(row, 1), &event.kind) != 0 ||
        (id.at != NULL && order_id_parse(id, &event.id) != 0) ||
        column_refusal(row, 8, &event.reason) != 0) {
        return ERR_CORRUPT;
    }
    *ret_event = event;
    return 0;
}

static int query_events(struct store *s, struct ledger_query *q)
{
    sqlite3_stmt *row;
    int err = store_get(s, SQL_EVENTS, &row, v_int((int64_t)q->after), v_int(q->limit));
    while (err == 0) {
        err = event_read(row, &q->events[q->count]);
        if (err != 0) {
            store_done(row);
            return err;
        }
        q->count++;
        err = store_next(s, row);
    }
    return err == ERR_NOTFOUND ? 0 : err;
}

/* LOCKED orders of one item after an id, until the answer is full or the item is through. */
static int query_locked_of_item(struct store *s, struct ledger_query *q, uint64_t item,
                                const char *after, size_t after_length)
{
    sqlite3_stmt *row;
    int err = store_get(s, SQL_LOCKED, &row, v_int((int64_t)item), v_bytes(after, after_length),
                        v_int(q->limit - q->count));
    while (err == 0) {
        err = order_row_read(row, &q->orders[q->count]);
        if (err != 0) {
            store_done(row);
            return err;
        }
        q->count++;
        err = store_next(s, row);
    }
    return err == ERR_NOTFOUND ? 0 : err;
}

/* Item by item, and only those whose stock says that something is locked. */
static int query_locked(struct store *s, struct ledger_query *q)
{
    uint64_t item = q->after_item;
    struct id_text after = id_text_of(q->after_id);
    while (q->count < q->limit) {
        sqlite3_stmt *row;
        int err = store_get(s, SQL_LOCKED_ITEM, &row, v_int((int64_t)item));
        if (err != 0) {
            return err == ERR_NOTFOUND ? 0 : err;
        }
        item = (uint64_t)sqlite3_column_int64(row, 0);
        store_done(row);
        bool continues = item == q->after_item;
        err = query_locked_of_item(s, q, item, after.text, continues ? ORDER_ID_TEXT : 0);
        if (err != 0) {
            return err;
        }
        item++;
    }
    return 0;
}

static int report_number(struct store *s, enum statement which, uint64_t item, uint64_t *ret_number)
{
    sqlite3_stmt *row;
    int err = store_get(s, which, &row, v_int((int64_t)item));
    if (err != 0) {
        return err == ERR_NOTFOUND ? ERR_CORRUPT : err; /* an aggregate always has a row */
    }
    *ret_number = (uint64_t)sqlite3_column_int64(row, 0);
    store_done(row);
    return 0;
}

static int report_states(struct store *s, struct report_row *report)
{
    sqlite3_stmt *row;
    int err = store_get(s, SQL_REPORT_STATES, &row, v_int((int64_t)report->item));
    while (err == 0) {
        enum order_state state;
        if (order_state_parse(column_span(row, 0), &state) != 0) {
            store_done(row);
            return ERR_CORRUPT;
        }
        report->orders[state] = (uint64_t)sqlite3_column_int64(row, 1);
        report->units[state] = (uint64_t)sqlite3_column_int64(row, 2);
        if (state == ORDER_PAID) {
            report->paid_cents = sqlite3_column_int64(row, 3);
        }
        int64_t first_ms = sqlite3_column_int64(row, 4);
        int64_t last_ms = sqlite3_column_int64(row, 5);
        if (report->first_order_ms == 0 || first_ms < report->first_order_ms) {
            report->first_order_ms = first_ms;
        }
        if (last_ms > report->last_order_ms) {
            report->last_order_ms = last_ms;
        }
        err = store_next(s, row);
    }
    return err == ERR_NOTFOUND ? 0 : err;
}

static int query_report(struct store *s, struct ledger_query *q)
{
    struct sale_row *sale = NULL;
    int err = sale_row_load(s, q->sale, &sale);
    if (err != 0) {
        return err;
    }
    for (uint32_t i = 0; i < sale->items_count && q->count < q->limit && err == 0; i++) {
        struct report_row *report = &q->report[q->count];
        *report = (struct report_row){.item = sale->items[i].id};
        err = report_states(s, report);
        if (err == 0) {
            err = report_number(s, SQL_REPORT_PEAK, report->item, &report->peak_orders_per_s);
        }
        if (err == 0) {
            err = report_number(s, SQL_REPORT_BUYERS, report->item, &report->buyers);
        }
        q->count += err == 0 ? 1 : 0;
    }
    sale_row_free(sale);
    return err;
}

static int query_order(struct store *s, struct ledger_query *q)
{
    int err = order_row_load(s, q->id, &q->orders[0]);
    q->count = err == 0 ? 1 : 0;
    return err;
}

static int query_orders_by_id(struct store *s, struct ledger_query *q)
{
    for (; q->count < q->limit; q->count++) {
        struct order_row *order = &q->orders[q->count];
        int err = order_row_load(s, q->ids[q->count], order);
        if (err == ERR_NOTFOUND) {
            *order = (struct order_row){.id = q->ids[q->count], .state = ORDER_QUEUED};
        } else if (err != 0) {
            return err;
        }
    }
    return 0;
}

int store_read_to(struct store *s, const char *name, uint64_t *ret_number)
{
    sqlite3_stmt *row;
    int err = store_get(s, SQL_READ_TO, &row, v_text(name));
    if (err == 0) {
        *ret_number = (uint64_t)sqlite3_column_int64(row, 0);
        store_done(row);
    } else if (err == ERR_NOTFOUND) {
        *ret_number = 0;
        err = 0;
    }
    return err;
}

static int query_cursor(struct store *s, struct ledger_query *q)
{
    return store_read_to(s, q->cursor, &q->last_event);
}

static int (*const query_table[])(struct store *s, struct ledger_query *q) = {
    [QUERY_STATE] = query_state,
    [QUERY_SALES] = query_sales,
    [QUERY_ORDERS] = query_orders,
    [QUERY_ORDER] = query_order,
    [QUERY_EVENTS] = query_events,
    [QUERY_LOCKED] = query_locked,
    [QUERY_REPORT] = query_report,
    [QUERY_CURSOR] = query_cursor,
    [QUERY_SUMMARY] = store_query_summary,
    [QUERY_SERIES] = store_query_series,
    [QUERY_ORDERS_BY_ID] = query_orders_by_id,
};

void store_read(struct ledger *ledger, struct ledger_query *query)
{
    struct store *s = store_of(ledger);
    CHECK((size_t)query->kind < sizeof(query_table) / sizeof(query_table[0]));
    query->count = 0;
    query->next[0] = '\0';
    int err = store_do(s, SQL_BEGIN_READ);
    if (err == 0) {
        err = query_table[query->kind](s, query);
    }
    store_rollback(s); /* ends it, or what an earlier one left open; nothing was written */
    if (err != 0) {
        query->count = 0;
    }
    query->error = err;
}
