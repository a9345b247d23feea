/* See report.h. */
#include "pages/report.h"

/* If a sale is opened at once, counting starts up to this much later. */
#define COUNTED_LATE_MS 2000

struct report_totals report_total(const struct report_part *part)
{
    struct report_totals totals = {0};
    for (uint32_t i = 0; i < part->count; i++) {
        const struct report_row *row = &part->rows[i];
        for (int k = 0; k < ORDER_STATE_COUNT; k++) {
            totals.orders[k] += row->orders[k];
            totals.units[k] += row->units[k];
            totals.made += row->orders[k];
        }
        totals.paid_cents += row->paid_cents;
        if (row->first_order_ms != 0 &&
            (totals.first_ms == 0 || row->first_order_ms < totals.first_ms)) {
            totals.first_ms = row->first_order_ms;
        }
        totals.last_ms = row->last_order_ms > totals.last_ms ? row->last_order_ms : totals.last_ms;
    }
    for (uint32_t i = 0; i < part->sale->items_count; i++) {
        totals.total += part->sale->items[i].total;
    }
    totals.booked = totals.made - totals.orders[ORDER_FAILED];
    return totals;
}

uint64_t report_permille(uint64_t part, uint64_t whole)
{
    return whole > 0 ? part * 1000 / whole : 0;
}

uint64_t report_sold_permille(const struct report_totals *totals)
{
    return report_permille(totals->units[ORDER_PAID], totals->total);
}

uint64_t report_unpaid_permille(const struct report_totals *totals)
{
    return report_permille(totals->orders[ORDER_EXPIRED], totals->booked);
}

bool report_counted_whole(const struct report *report)
{
    return report->tally.since_ms != 0 &&
           report->tally.since_ms <= report->own.sale->starts_at_ms + COUNTED_LATE_MS;
}
