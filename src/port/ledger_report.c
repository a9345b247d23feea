/* See ledger_report.h. */
#include "port/ledger_report.h"

void summary_add_length(struct sale_summary *summary, struct booking_lengths *lengths, uint64_t ms,
                        uint64_t count)
{
    uint64_t before = lengths->seen;
    lengths->seen += count;
    uint64_t half = (lengths->all + 1) / 2;
    uint64_t most = lengths->all - lengths->all / 100;
    summary->booked_p50_ms = before < half && lengths->seen >= half ? ms : summary->booked_p50_ms;
    summary->booked_p99_ms = before < most && lengths->seen >= most ? ms : summary->booked_p99_ms;
    summary->booked_max_ms = ms;
}

struct series_row *series_step(const struct ledger_query *q, uint64_t step)
{
    if (step >= q->limit) {
        return q->and_later ? &q->series[q->limit - 1] : NULL;
    }
    return &q->series[step];
}
