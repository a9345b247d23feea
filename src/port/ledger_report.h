/*
 * What every ledger makes of its counts the same way when it is asked for a sale's figures. Pure.
 */
#ifndef SLUICE_PORT_LEDGER_REPORT_H
#define SLUICE_PORT_LEDGER_REPORT_H

#include "port/ledger.h"

/* Of counts by length, shortest first: what a share of them do not exceed. */
struct booking_lengths {
    uint64_t all, seen;
};
/* `count` bookings that took so long; called in order of length. */
void summary_add_length(struct sale_summary *summary, struct booking_lengths *lengths, uint64_t ms,
                        uint64_t count);

/* What a group of orders adds to step number `step` of a QUERY_SERIES; from q->limit on: it came
 * after the last one. NULL: nowhere. */
struct series_row *series_step(const struct ledger_query *q, uint64_t step);

#endif
