/*
 * The thread that keeps the book of what was counted of each sale (obs/tally.h): begins those that
 * buyers may ask for before they can, marks those that are over, notes their busiest seconds, and
 * writes all of it to DATA/tallies (tally_file.h) every ten seconds and at the end, so that a
 * report can be asked for after a restart. A server that is killed loses the last seconds of its
 * counts, and nothing else: orders and stock are the ledger's.
 */
#ifndef SLUICE_APP_TALLYING_H
#define SLUICE_APP_TALLYING_H

#include "app/assembly.h"

struct tallying;

/* Reads the file and starts the thread. ERR_NOMEM, logged. */
int tallying_start(struct assembly *parts, const char *data_dir, struct tallying **ret_tallying);
/* After the loops have ended. NULL is fine, here and below. */
void tallying_stop(struct tallying *tallying);
void tallying_free(struct tallying *tallying);

#endif
