/* Many bookings of one item, for the tests of what a single ledger does under faults. */
#ifndef SLUICE_TEST_BOOKING_LOAD_H
#define SLUICE_TEST_BOOKING_LOAD_H

#include "fixture.h"

#define LOAD_ITEM 7

/* Tries a batch of `count` bookings, `first` and those after it. Returns the batch's error. */
int booking_load_try(struct fixture *f, uint32_t first, uint32_t count);

/*
 * Rounds of a process that books batches of ten until it is killed. Round n kills it `least` + n *
 * `more` batches later or a little after. What was committed is there, and no half batch. Opens a sale.
 */
void booking_load_killed(struct fixture *f, int rounds, int least, int more);

#endif
