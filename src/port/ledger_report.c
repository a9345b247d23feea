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

uint64_t booking_length(int64_t created_at_ms, int64_t locked_at_ms)
{
    uint64_t ms = locked_at_ms > created_at_ms ? (uint64_t)(locked_at_ms - created_at_ms) : 0;
    uint64_t unit = ms < 1000      ? 1
                    : ms < 10000   ? 10
                    : ms < 100000  ? 100
                    : ms < 1000000 ? 1000
                                   : 10000;
    return ms - ms % unit;
}

const int64_t series_widths_ms[SERIES_WIDTHS_COUNT] = {10, SERIES_SECOND_MS, 60000, 3600000};

int64_t series_width(int64_t step_ms)
{
    int64_t width_ms = 0;
    for (size_t i = 0; i < SERIES_WIDTHS_COUNT; i++) {
        width_ms =
            step_ms > 0 && step_ms % series_widths_ms[i] == 0 ? series_widths_ms[i] : width_ms;
    }
    return width_ms;
}

struct series_row *series_step(const struct ledger_query *q, uint64_t step)
{
    if (step >= q->limit) {
        return q->and_later ? &q->series[q->limit - 1] : NULL;
    }
    return &q->series[step];
}
