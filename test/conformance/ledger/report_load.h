/* Sales, orders and reads for the tests that measure what a report costs a ledger. */
#ifndef SLUICE_TEST_REPORT_LOAD_H
#define SLUICE_TEST_REPORT_LOAD_H

#include "fixture.h"

#define REPORTED_ITEM 11 /* of sale 1, with the next id */
#define OTHER_ITEM 21    /* of sale 2 */

/* Both sales, open, and twenty orders of the first. */
void report_load_sales(struct fixture *f);
/* Books this many orders of a hundred buyers for one item, spread over 20 s. */
void report_load_orders(struct fixture *f, uint64_t item, uint32_t count);
/* Runs every query of a report of sale 1. */
void report_load_read(struct fixture *f);

#endif
