/* What became of a sale: figures of its items, of the whole, and over time. */
#include "backend/sql/db.h"
#include "base/err.h"
#include "port/ledger_report.h"

/* ---- items ---- */

static int report_number(struct db *db, unsigned which, uint64_t item, uint64_t *ret_number)
{
    struct db_row *row;
    int err = db_get(db, which, &row, v_int((int64_t)item));
    if (err != 0) {
        return err == ERR_NOTFOUND ? ERR_CORRUPT : err; /* an aggregate always has a row */
    }
    *ret_number = db_u64(row, 0);
    db_done(row);
    return 0;
}

/* Of one place, added to what the others gave. */
static int report_states(struct db *db, uint32_t place, struct report_row *report)
{
    struct db_row *row;
    int err = db_get_in(db, place, SQL_REPORT_STATES, &row, v_int((int64_t)report->item));
    while (err == 0) {
        enum order_state state;
        if (order_state_parse(db_span(row, 0), &state) != 0) {
            db_done(row);
            return ERR_CORRUPT;
        }
        report->orders[state] += db_u64(row, 1);
        report->units[state] += db_u64(row, 2);
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
        for (uint32_t place = 0; place < db->places && err == 0; place++) {
            err = report_states(db, place, report);
        }
        if (err == 0) {
            err = report_number(db, SQL_REPORT_PEAK, report->item, &report->peak_orders_per_s);
        }
        if (err == 0) {
            err = report_number(db, SQL_REPORT_BUYERS, report->item, &report->buyers);
        }
        q->count += err == 0 ? 1 : 0;
    }
    sale_row_free(sale);
    return err;
}

/* ---- the whole ---- */

static int summary_buyers(struct db *db, struct ledger_query *q)
{
    struct sale_summary *summary = &q->summary;
    struct db_row *row;
    int err = db_get(db, SQL_SUMMARY_BUYERS, &row, v_int((int64_t)q->sale));
    if (err == 0) {
        summary->participants = db_u64(row, 0);
        summary->winners = db_u64(row, 1);
        summary->payers = db_u64(row, 2);
        summary->booked = db_u64(row, 3);
        db_done(row);
        err = db_get(db, SQL_SUMMARY_PEAK, &row, v_int((int64_t)q->sale));
    }
    if (err == 0) {
        summary->peak_at_ms = db_int(row, 0) * 1000;
        summary->peak_orders_per_s = db_u64(row, 1);
        db_done(row);
    }
    return err == ERR_NOTFOUND ? 0 : err;
}

int db_query_summary(struct db *db, struct ledger_query *q)
{
    struct sale_row *sale = NULL;
    struct db_row *row;
    memset(&q->summary, 0, sizeof(q->summary));
    int err = db_sale_load(db, q->sale, &sale);
    sale_row_free(sale);
    err = err != 0 ? err : summary_buyers(db, q);
    if (err != 0) {
        return err;
    }
    struct booking_lengths lengths = {.all = q->summary.booked};
    err = db_get(db, SQL_SUMMARY_BOOKED, &row, v_int((int64_t)q->sale));
    while (err == 0) {
        summary_add_length(&q->summary, &lengths, db_u64(row, 0), db_u64(row, 1));
        err = db_next(row);
    }
    if (err == ERR_NOTFOUND) {
        err = db_get(db, SQL_PREVIOUS, &row, v_int((int64_t)q->sale));
    }
    if (err == 0) {
        q->summary.previous = db_u64(row, 0);
        db_done(row);
    }
    return err == ERR_NOTFOUND ? 0 : err;
}

/* ---- over time ---- */

static int series_of(struct db *db, struct ledger_query *q, unsigned which)
{
    struct db_row *row;
    int err = db_get(db, which, &row, v_int((int64_t)q->limit), v_int(q->from_ms),
                     v_int(q->step_ms), v_int((int64_t)q->sale));
    while (err == 0) {
        struct series_row *one = series_step(q, db_u64(row, 0));
        uint64_t first = db_u64(row, 1);
        uint64_t second = db_u64(row, 2);
        if (one != NULL && which == SQL_SERIES_MADE) {
            one->orders += first;
            one->taken += second;
        } else if (one != NULL) {
            one->paid += first;
            one->returned += second;
        }
        err = db_next(row);
    }
    return err == ERR_NOTFOUND ? 0 : err;
}

int db_query_series(struct db *db, struct ledger_query *q)
{
    if (q->limit == 0 || q->step_ms <= 0) {
        return ERR_INVALID;
    }
    memset(q->series, 0, q->limit * sizeof(*q->series));
    int err = series_of(db, q, SQL_SERIES_MADE);
    err = err != 0 ? err : series_of(db, q, SQL_SERIES_ENDED);
    q->count = err == 0 ? q->limit : 0;
    return err;
}
