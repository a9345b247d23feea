/*
 * What became of a sale: figures of its items, of the whole, and over time. They are read from the sums
 * that sums.c keeps, never from orders, so a report takes the same time however many orders the ledger
 * has. Only buyers are counted by row: those of the sale.
 */
#include "backend/sql/db.h"
#include "base/err.h"
#include "port/ledger_report.h"

/* ---- items ---- */

/* An aggregate always has a row. */
static int report_number(struct db_row *row, int err, uint64_t *ret_number)
{
    if (err != 0) {
        return err == ERR_NOTFOUND ? ERR_CORRUPT : err;
    }
    *ret_number = db_u64(row, 0);
    db_done(row);
    return 0;
}

/* A sum that orders were moved around (by a hand, or by an older program) may be below zero. */
static uint64_t not_negative(int64_t sum)
{
    return sum > 0 ? (uint64_t)sum : 0;
}

static int report_states(struct db *db, struct report_row *report)
{
    struct db_row *row;
    int err = db_get(db, SQL_REPORT_STATES, &row, v_int((int64_t)report->item));
    while (err == 0) {
        enum order_state state;
        if (order_state_parse(db_span(row, 0), &state) != 0) {
            db_done(row);
            return ERR_CORRUPT;
        }
        report->orders[state] = not_negative(db_int(row, 1));
        report->units[state] = not_negative(db_int(row, 2));
        report->paid_cents += state == ORDER_PAID ? db_int(row, 3) : 0;
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

static int report_item(struct db *db, uint64_t sale, struct report_row *report)
{
    struct db_row *row = NULL;
    struct value item = v_int((int64_t)report->item);
    int err = report_states(db, report);
    if (err == 0) {
        err = db_get(db, SQL_REPORT_PEAK, &row, v_int((int64_t)sale), item);
        err = report_number(row, err, &report->peak_orders_per_s);
    }
    if (err == 0) {
        err = db_get(db, SQL_REPORT_BUYERS, &row, item);
        err = report_number(row, err, &report->buyers);
    }
    return err;
}

int db_query_report(struct db *db, struct ledger_query *q)
{
    struct sale_row *sale = NULL;
    int err = db_sale_load(db, q->sale, &sale);
    if (err != 0) {
        return err;
    }
    for (uint32_t i = 0; i < sale->items_count && q->count < q->limit && err == 0; i++) {
        struct report_row *report = &q->report[q->count];
        *report = (struct report_row){.item = sale->items[i].id};
        err = report_item(db, q->sale, report);
        q->count += err == 0 ? 1 : 0;
    }
    sale_row_free(sale);
    return err;
}

/* ---- the whole ---- */

/* A buyer of several items counts once; with one item no buyer can be there twice. */
static int summary_buyers(struct db *db, const struct sale_row *sale, struct sale_summary *summary)
{
    struct db_row *row;
    bool one = sale->items_count == 1;
    int err = db_get(db, one ? SQL_ITEM_BUYERS : SQL_SALE_BUYERS, &row,
                     v_int((int64_t)(one ? sale->items[0].id : sale->id)));
    if (err == 0) {
        summary->participants = db_u64(row, 0);
        summary->winners = db_u64(row, 1);
        summary->payers = db_u64(row, 2);
        db_done(row);
    }
    return err == ERR_NOTFOUND ? ERR_CORRUPT : err;
}

static int summary_peak(struct db *db, const struct ledger_query *q, struct sale_summary *summary)
{
    struct db_row *row;
    int err = db_get(db, SQL_SUMMARY_PEAK, &row, v_int((int64_t)q->sale));
    if (err == 0) {
        summary->peak_at_ms = db_int(row, 0);
        summary->peak_orders_per_s = db_u64(row, 1);
        db_done(row);
    }
    return err == ERR_NOTFOUND ? 0 : err;
}

/* Once to know how many there are, and once for the quantiles: the lengths are few. */
static int summary_lengths(struct db *db, const struct ledger_query *q,
                           struct sale_summary *summary)
{
    struct booking_lengths lengths = {0};
    int err = 0;
    for (int pass = 0; pass < 2 && err == 0; pass++) {
        struct db_row *row;
        err = db_get(db, SQL_SUMMARY_BOOKED, &row, v_int((int64_t)q->sale));
        while (err == 0) {
            uint64_t orders = db_u64(row, 1);
            if (pass == 0) {
                summary->booked += orders;
            } else {
                summary_add_length(summary, &lengths, db_u64(row, 0), orders);
            }
            err = db_next(row);
        }
        lengths.all = summary->booked;
        err = err == ERR_NOTFOUND ? 0 : err;
    }
    return err;
}

static int summary_previous(struct db *db, const struct ledger_query *q,
                            struct sale_summary *summary)
{
    struct db_row *row;
    int err = db_get(db, SQL_PREVIOUS, &row, v_int((int64_t)q->sale));
    if (err == 0) {
        summary->previous = db_u64(row, 0);
        db_done(row);
    }
    return err == ERR_NOTFOUND ? 0 : err;
}

int db_query_summary(struct db *db, struct ledger_query *q)
{
    struct sale_row *sale = NULL;
    memset(&q->summary, 0, sizeof(q->summary));
    int err = db_sale_load(db, q->sale, &sale);
    if (err == 0) {
        err = summary_buyers(db, sale, &q->summary);
    }
    sale_row_free(sale);
    err = err != 0 ? err : summary_peak(db, q, &q->summary);
    err = err != 0 ? err : summary_lengths(db, q, &q->summary);
    return err != 0 ? err : summary_previous(db, q, &q->summary);
}

/* ---- over time ---- */

int db_query_series(struct db *db, struct ledger_query *q)
{
    struct db_row *row;
    int64_t width_ms = series_width(q->step_ms);
    if (q->limit == 0 || width_ms == 0) {
        return ERR_INVALID;
    }
    int64_t end_ms = q->and_later ? INT64_MAX : q->from_ms + (int64_t)q->limit * q->step_ms;
    memset(q->series, 0, q->limit * sizeof(*q->series));
    int err = db_get(db, SQL_SERIES, &row, v_int((int64_t)q->limit), v_int(q->from_ms),
                     v_int(q->step_ms), v_int((int64_t)q->sale), v_int(width_ms), v_int(end_ms));
    while (err == 0) {
        struct series_row *one = series_step(q, db_u64(row, 0));
        if (one != NULL) {
            one->orders += db_u64(row, 1);
            one->taken += db_u64(row, 2);
            one->paid += db_u64(row, 3);
            one->returned += db_u64(row, 4);
        }
        err = db_next(row);
    }
    err = err == ERR_NOTFOUND ? 0 : err;
    q->count = err == 0 ? q->limit : 0;
    return err;
}
