/* What became of a sale: figures of the whole, and over time. Its items' are in ledger_read.c. */
#include <string.h>

#include "backend/mariadb/maria.h"
#include "base/err.h"
#include "port/ledger_report.h"

static int summary_buyers(struct maria *s, struct ledger_query *q)
{
    struct sale_summary *summary = &q->summary;
    struct maria_row *row;
    int err = maria_get(s, MARIA_SUMMARY_BUYERS, &row, v_int((int64_t)q->sale));
    if (err == 0) {
        summary->participants = (uint64_t)cell_int(row, 0);
        summary->winners = (uint64_t)cell_int(row, 1);
        summary->payers = (uint64_t)cell_int(row, 2);
        summary->booked = (uint64_t)cell_int(row, 3);
        maria_done(row);
        err = maria_get(s, MARIA_SUMMARY_PEAK, &row, v_int((int64_t)q->sale));
    }
    if (err == 0) {
        summary->peak_at_ms = cell_int(row, 0) * 1000;
        summary->peak_orders_per_s = (uint64_t)cell_int(row, 1);
        maria_done(row);
    }
    return err == ERR_NOTFOUND ? 0 : err;
}

int maria_query_summary(struct maria *s, struct ledger_query *q)
{
    struct sale_row *sale = NULL;
    struct maria_row *row;
    memset(&q->summary, 0, sizeof(q->summary));
    int err = maria_sale_load(s, q->sale, &sale);
    sale_row_free(sale);
    err = err != 0 ? err : summary_buyers(s, q);
    if (err != 0) {
        return err;
    }
    struct booking_lengths lengths = {.all = q->summary.booked};
    err = maria_get(s, MARIA_SUMMARY_BOOKED, &row, v_int((int64_t)q->sale));
    while (err == 0) {
        summary_add_length(&q->summary, &lengths, (uint64_t)cell_int(row, 0),
                           (uint64_t)cell_int(row, 1));
        err = maria_next(s, row);
    }
    if (err == ERR_NOTFOUND) {
        err = maria_get(s, MARIA_PREVIOUS, &row, v_int((int64_t)q->sale));
    }
    if (err == 0) {
        q->summary.previous = (uint64_t)cell_int(row, 0);
        maria_done(row);
    }
    return err == ERR_NOTFOUND ? 0 : err;
}

static int series_of(struct maria *s, struct ledger_query *q, enum maria_statement which)
{
    struct maria_row *row;
    int err = maria_get(s, which, &row, v_int((int64_t)q->limit), v_int(q->from_ms),
                        v_int(q->step_ms), v_int((int64_t)q->sale));
    while (err == 0) {
        struct series_row *one = series_step(q, (uint64_t)cell_int(row, 0));
        uint64_t first = (uint64_t)cell_int(row, 1);
        uint64_t second = (uint64_t)cell_int(row, 2);
        if (one != NULL && which == MARIA_SERIES_MADE) {
            one->orders += first;
            one->taken += second;
        } else if (one != NULL) {
            one->paid += first;
            one->returned += second;
        }
        err = maria_next(s, row);
    }
    return err == ERR_NOTFOUND ? 0 : err;
}

int maria_query_series(struct maria *s, struct ledger_query *q)
{
    if (q->limit == 0 || q->step_ms <= 0) {
        return ERR_INVALID;
    }
    memset(q->series, 0, q->limit * sizeof(*q->series));
    int err = series_of(s, q, MARIA_SERIES_MADE);
    err = err != 0 ? err : series_of(s, q, MARIA_SERIES_ENDED);
    q->count = err == 0 ? q->limit : 0;
    return err;
}
