/*
 * Reading: the transaction around a query of backend/sql/read.c, and the queries that are
 * SQLite's own.
 *
 * Each query runs in a read transaction of its own, so whatever statements it takes see one
 * committed state; in WAL mode that costs the writer nothing.
 */
#include "backend/sqlite/store.h"
#include "base/check.h"
#include "base/err.h"

static int report_number(struct store *s, unsigned which, uint64_t item, uint64_t *ret_number)
{
    struct db_row *row;
    int err = db_get(&s->base, which, &row, v_int((int64_t)item));
    if (err != 0) {
        return err == ERR_NOTFOUND ? ERR_CORRUPT : err; /* an aggregate always has a row */
    }
    *ret_number = db_u64(row, 0);
    db_done(row);
    return 0;
}

static int report_states(struct store *s, struct report_row *report)
{
    struct db_row *row;
    int err = db_get(&s->base, SQL_REPORT_STATES, &row, v_int((int64_t)report->item));
    while (err == 0) {
        enum order_state state;
        if (order_state_parse(db_span(row, 0), &state) != 0) {
            db_done(row);
            return ERR_CORRUPT;
        }
        report->orders[state] = db_u64(row, 1);
        report->units[state] = db_u64(row, 2);
        if (state == ORDER_PAID) {
            report->paid_cents = db_int(row, 3);
        }
        int64_t first_ms = db_int(row, 4);
        int64_t last_ms = db_int(row, 5);
        if (report->first_order_ms == 0 || first_ms < report->first_order_ms) {
            report->first_order_ms = first_ms;
        }
        if (last_ms > report->last_order_ms) {
            report->last_order_ms = last_ms;
        }
        err = db_next(row);
    }
    return err == ERR_NOTFOUND ? 0 : err;
}

static int query_report(struct store *s, struct ledger_query *q)
{
    struct sale_row *sale = NULL;
    int err = db_sale_load(&s->base, q->sale, &sale);
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

static int query_orders_by_id(struct store *s, struct ledger_query *q)
{
    for (; q->count < q->limit; q->count++) {
        struct order_row *order = &q->orders[q->count];
        int err = db_order_load(&s->base, q->ids[q->count], order);
        if (err == ERR_NOTFOUND) {
            *order = (struct order_row){.id = q->ids[q->count], .state = ORDER_QUEUED};
        } else if (err != 0) {
            return err;
        }
    }
    return 0;
}

static int query(struct store *s, struct ledger_query *q)
{
    switch (q->kind) {
    case QUERY_REPORT:
        return query_report(s, q);
    case QUERY_SUMMARY:
        return store_query_summary(s, q);
    case QUERY_SERIES:
        return store_query_series(s, q);
    case QUERY_ORDERS_BY_ID:
        return query_orders_by_id(s, q);
    default:
        return db_query(&s->base, q);
    }
}

void store_read(struct ledger *ledger, struct ledger_query *q)
{
    struct store *s = store_of(ledger);
    q->count = 0;
    q->next[0] = '\0';
    int err = store_do(s, SQL_BEGIN_READ);
    if (err == 0) {
        err = query(s, q);
    }
    store_rollback(s); /* ends it, or what an earlier one left open; nothing was written */
    if (err != 0) {
        q->count = 0;
    }
    q->error = err;
}
