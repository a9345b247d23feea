/* What became of a sale: figures of the whole, and over time. Its items' are in ledger_read.c. */
#include <string.h>

#include "backend/sqlite/store.h"
#include "base/err.h"
#include "port/ledger_report.h"

static int summary_buyers(struct store *s, struct ledger_query *q)
{
    struct sale_summary *summary = &q->summary;
    struct db_row *row;
    int err = db_get(&s->base, SQL_SUMMARY_BUYERS, &row, v_int((int64_t)q->sale));
    if (err == 0) {
        summary->participants = db_u64(row, 0);
        summary->winners = db_u64(row, 1);
        summary->payers = db_u64(row, 2);
        summary->booked = db_u64(row, 3);
        db_done(row);
        err = db_get(&s->base, SQL_SUMMARY_PEAK, &row, v_int((int64_t)q->sale));
    }
    if (err == 0) {
        summary->peak_at_ms = db_int(row, 0) * 1000;
        summary->peak_orders_per_s = db_u64(row, 1);
        db_done(row);
    }
    return err == ERR_NOTFOUND ? 0 : err;
}

int store_query_summary(struct store *s, struct ledger_query *q)
{
    struct sale_row *sale = NULL;
    struct db_row *row;
    memset(&q->summary, 0, sizeof(q->summary));
    int err = db_sale_load(&s->base, q->sale, &sale);
    sale_row_free(sale);
    err = err != 0 ? err : summary_buyers(s, q);
    if (err != 0) {
        return err;
    }
    struct booking_lengths lengths = {.all = q->summary.booked};
    err = db_get(&s->base, SQL_SUMMARY_BOOKED, &row, v_int((int64_t)q->sale));
    while (err == 0) {
        summary_add_length(&q->summary, &lengths, db_u64(row, 0), db_u64(row, 1));
        err = db_next(row);
    }
    if (err == ERR_NOTFOUND) {
        err = db_get(&s->base, SQL_PREVIOUS, &row, v_int((int64_t)q->sale));
    }
    if (err == 0) {
        q->summary.previous = db_u64(row, 0);
        db_done(row);
    }
    return err == ERR_NOTFOUND ? 0 : err;
}

static int series_of(struct store *s, struct ledger_query *q, unsigned which)
{
    struct db_row *row;
    int err = db_get(&s->base, which, &row, v_int((int64_t)q->sale), v_int(q->from_ms),
                     v_int(q->step_ms), v_int(q->limit));
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
