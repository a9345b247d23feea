/*
 * The thread that keeps the counts of each sale (obs/tally.h). It starts counting sales before
 * buyers can use them, marks those that are over, updates their busiest seconds, and writes
 * everything to DATA/tallies (tally_file.h) every ten seconds and at the end, so that a report is
 * possible after a restart. A killed server loses the last seconds of its counts, but no order or
 * stock: the ledger has those.
 */
#ifndef SLUICE_APP_TALLY_THREAD_H
#define SLUICE_APP_TALLY_THREAD_H

#include "app/assembly.h"

struct tally_thread;

/* Reads the file and starts the thread. ERR_NOMEM, logged. */
int tally_thread_start(struct assembly *parts, const char *data_dir,
                       struct tally_thread **ret_tally_thread);
/* After the loops have ended. NULL is fine, here and below. */
void tally_thread_stop(struct tally_thread *tally_thread);
void tally_thread_free(struct tally_thread *tally_thread);

#endif
