/*
 * Figures of a sale that every ledger computes from its counts in the same way. Pure.
 */
#ifndef SLUICE_PORT_LEDGER_REPORT_H
#define SLUICE_PORT_LEDGER_REPORT_H

#include "port/ledger.h"

/* Running quantiles over bookings, shortest first. */
struct booking_lengths {
    uint64_t all, seen;
};
/* Adds `count` bookings that took `ms`. Call it in ascending order of ms. */
void summary_add_length(struct sale_summary *summary, struct booking_lengths *lengths, uint64_t ms,
                        uint64_t count);
/* How long a booking took, in milliseconds, as ledgers count it: rounded down to three digits, so that
 * the lengths of any number of bookings are few. */
uint64_t booking_length(int64_t created_at_ms, int64_t locked_at_ms);

/* What happens is counted by the time at which it does, in steps of these widths, in ascending order.
 * Each divides the next. */
#define SERIES_WIDTHS_COUNT 4
#define SERIES_SECOND_MS 1000
extern const int64_t series_widths_ms[SERIES_WIDTHS_COUNT];
/* The widest that divides a QUERY_SERIES's step; 0: none does. */
int64_t series_width(int64_t step_ms);

/* The row for step number `step` of a QUERY_SERIES. A step from q->limit on is the last row if
 * q->and_later is set, else NULL. */
struct series_row *series_step(const struct ledger_query *q, uint64_t step);

#endif
