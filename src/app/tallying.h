/*
 * Keeps what was counted of each sale (obs/tally.h) in DATA/tallies, so that a report can be asked for
 * after a restart: written every few seconds and at the end. A server that is killed loses the last
 * seconds of its counts, and nothing else: orders and stock are the ledger's.
 */
#ifndef SLUICE_APP_TALLYING_H
#define SLUICE_APP_TALLYING_H

#include "app/assembly.h"

struct tallying;

/* Reads the file and starts the thread. A file that cannot be read is begun anew, and said so. Errors
 * are logged. */
int tallying_start(struct assembly *parts, const char *data_dir, struct tallying **ret_tallying);
/* After the loops have ended. NULL is fine, here and below. */
void tallying_stop(struct tallying *tallying);
void tallying_free(struct tallying *tallying);

#endif
