/*
 * The thread that keeps the book of what was counted of each sale (obs/tally.h): begins those that
 * buyers may ask for before they can, marks those that are over, notes their busiest seconds, and
 * writes all of it to DATA/tallies (tally_file.h) every ten seconds and at the end, so that a
 * report can be asked for after a restart. A server that is killed loses the last seconds of its
 * counts, and nothing else: orders and stock are the ledger's.
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
