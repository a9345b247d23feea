/* What became of a sale: figures of the whole, and over time. Its items' are in ledger_read.c. */
#include <string.h>

#include "backend/sqlite/store.h"
#include "base/err.h"
#include "port/ledger_report.h"

static int summary_buyers(struct store *s, struct ledger_query *q)
{
    struct sale_summary *summary = &q->summary;
    sqlite3_stmt *row;
    int err = store_get(s, SQL_SUMMARY_BUYERS, &row, v_int((int64_t)q->sale));
    if (err == 0) {
        summary->participants = (uint64_t)sqlite3_column_int64(row, 0);
        summary->winners = (uint64_t)sqlite3_column_int64(row, 1);
        summary->payers = (uint64_t)sqlite3_column_int64(row, 2);
        summary->booked = (uint64_t)sqlite3_column_int64(row, 3);
        store_done(row);
        err = store_get(s, SQL_SUMMARY_PEAK, &row, v_int((int64_t)q->sale));
    }
    if (err == 0) {
        summary->peak_at_ms = sqlite3_column_int64(row, 0) * 1000;
        summary->peak_orders_per_s = (uint64_t)sqlite3_column_int64(row, 1);
        store_done(row);
    }
    return err == ERR_NOTFOUND ? 0 : err;
}

int store_query_summary(struct store *s, struct ledger_query *q)
{
    struct sale_row *sale = NULL;
    sqlite3_stmt *row;
    memset(&q->summary, 0, sizeof(q->summary));
    int err = sale_row_load(s, q->sale, &sale);
    sale_row_free(sale);
    err = err != 0 ? err : summary_buyers(s, q);
    if (err != 0) {
        return err;
    }
    struct booking_lengths lengths = {.all = q->summary.booked};
    err = store_get(s, SQL_SUMMARY_BOOKED, &row, v_int((int64_t)q->sale));
    while (err == 0) {
        summary_add_length(&q->summary, &lengths, (uint64_t)sqlite3_column_int64(row, 0),
                           (uint64_t)sqlite3_column_int64(row, 1));
        err = store_next(s, row);
    }
    if (err == ERR_NOTFOUND) {
        err = store_get(s, SQL_PREVIOUS, &row, v_int((int64_t)q->sale));
    }
    if (err == 0) {
        q->summary.previous = (uint64_t)sqlite3_column_int64(row, 0);
        store_done(row);
    }
    return err == ERR_NOTFOUND ? 0 : err;
}

static int series_of(struct store *s, struct ledger_query *q, enum statement which)
{
    sqlite3_stmt *row;
    int err = store_get(s, which, &row, v_int((int64_t)q->sale), v_int(q->from_ms),
                        v_int(q->step_ms), v_int(q->limit));
    while (err == 0) {
        struct series_row *one = series_step(q, (uint64_t)sqlite3_column_int64(row, 0));
        uint64_t first = (uint64_t)sqlite3_column_int64(row, 1);
        uint64_t second = (uint64_t)sqlite3_column_int64(row, 2);
        if (one != NULL && which == SQL_SERIES_MADE) {
            one->orders += first;
            one->taken += second;
        } else if (one != NULL) {
            one->paid += first;
            one->returned += second;
        }
        err = store_next(s, row);
    }
    return err == ERR_NOTFOUND ? 0 : err;
}

int store_query_series(struct store *s, struct ledger_query *q)
{
    if (q->limit == 0 || q->step_ms <= 0) {
        return ERR_INVALID;
    }
    memset(q->series, 0, q->limit * sizeof(*q->series));
    int err = series_of(s, q, SQL_SERIES_MADE);
    err = err != 0 ? err : series_of(s, q, SQL_SERIES_ENDED);
    q->count = err == 0 ? q->limit : 0;
    return err;
}
