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

/* The row for step number `step` of a QUERY_SERIES. A step from q->limit on is the last row if
 * q->and_later is set, else NULL. */
struct series_row *series_step(const struct ledger_query *q, uint64_t step);

#endif
